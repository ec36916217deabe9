import pytest

from residual_edu.course.checkout import Refusal
from residual_edu.course.definitions import bound_names, definitions, free_names, loose_statement

TEXT = '''"""A module."""
import functools

# Said of the first.
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
    assert found["first"].text.startswith("# Said of the first.\n@functools.cache\n@staticmethod\ndef first")
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
        ("import torch\nfrom a import b\ndef f(): ...", None),
        ("def f(): ...\nimport torch", "import torch"),
        ("import torch\nx = 1", "x = 1"),
        ('"""words"""', '"""words"""'),
    ],
)
def test_only_imports_then_classes_and_functions_are_not_loose(text, loose):
    assert loose_statement(text, "here") == loose


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(x): return [y + z for y in x]", {"z"}),
        ("def f(x=a, *, k: b = 1) -> c: ...", {"a", "b", "c"}),
        ("@a\nclass B(c):\n    d = e\n    def f(self): return super().f() + g", {"a", "c", "e", "g"}),
        ("def f():\n    import os\n    g = os\n    return lambda: g", set()),
        ("def f(): return len(range(3)), f, __name__", set()),
        ("def f(): return a.b.c", {"a"}),
        ("def f(x: 'words in a string'): return x", set()),
    ],
)
def test_free_names_are_what_is_read_from_outside(text, names):
    assert free_names(text) == names


def test_bound_names_are_what_a_text_defines_assigns_and_imports():
    text = "import a.b\nfrom c import d as e\nf = g = 1\ndef h(i): j = 1\nclass k: l = 1\nif m:\n    n: int = 1\n"
    assert bound_names(text) == {"a", "e", "f", "g", "h", "k", "n"}
