import pytest

from residual_edu.course.checkout import Refusal
from residual_edu.course.definitions import definitions, loose_statement

TEXT = '''"""A module."""
import functools

@functools.cache
@staticmethod
def first(x):
    return """two
    lines"""


class Second:
    # a comment inside
    def method(self): ...

third = 3
'''


def test_definitions_are_the_text_between_their_lines():
    found = definitions(TEXT, "here")
    lines = TEXT.split("\n")
    assert list(found) == ["first", "Second"]
    assert found["first"].text.startswith("@functools.cache\n@staticmethod\ndef first")
    assert found["first"].text.endswith('lines"""')
    assert "a comment inside" in found["Second"].text
    assert all(each.text == "\n".join(lines[each.first : each.end]) for each in found.values())


def test_what_is_not_python_is_refused():
    with pytest.raises(Refusal, match=r"^here is not valid Python: .+ in line 2\.$"):
        definitions("x = 1\ndef f(:\n", "here")


@pytest.mark.parametrize(
    ("text", "loose"),
    [
        ("def f(): ...\n\nclass A: ...", None),
        ("# a comment\ndef f(): ...", None),
        ("def f(): ...\nf()", "f()"),
        ("import torch\ndef f(): ...", "import torch"),
        ('"""words"""', '"""words"""'),
    ],
)
def test_only_classes_and_functions_are_not_loose(text, loose):
    assert loose_statement(text, "here") == loose
