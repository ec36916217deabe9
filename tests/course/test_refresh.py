"""A lesson's promoted cells, written anew from the package: nothing is missing, and nothing is lost without a word."""

import jupytext
import pytest

from residual_edu.course import main

MODULE = '''"""The module's own words."""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Size, checked
from residual_edu.old_errors import check_size

HALF = 0.5


# The radius comes first.
@dataclass
class Circle:
    """A circle.

    Args:
        r: its radius.
    """

    r: float

    def area(self, times: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """Return its area."""
        check_size("times", times)
        return math.pi * self.r**2 * times  # by Archimedes


class Half(nn.Module):
    """Half of it."""

    @checked
    def __init__(self, first: Size, second_of_the_names: float = HALF, *, the_third: int = 3, and_the_last: int = 4):
        super().__init__()
        self.circle = Circle(first)  # a comment that is so long that its line passes eighty-eight columns
'''

LESSON = '''# %% [markdown]
# # A circle

# %%
import math
from typing import Any

from residual_edu.old_errors import check_size

x = math.pi

# %% [markdown]
# It is.


# %% tags=["promote:parts/circle"]
class Circle:
    """Mine."""

    def area(self): ...


# %% tags=["promote:parts/circle"]
def Half(): ...


# %% [markdown]
# The end.
'''

CIRCLE = '''import math
from dataclasses import dataclass


# The radius comes first.
@dataclass
class Circle:
    """A circle."""

    r: float

    def area(self, times):
        # times: batch
        return math.pi * self.r**2 * times  # by Archimedes'''

HALF = '''from torch import nn

from residual_edu.parts.circle import HALF


class Half(nn.Module):
    """Half of it."""

    def __init__(self, first, second_of_the_names=HALF, *, the_third=3, and_the_last=4):
        super().__init__()
        # a comment that is so long that its line passes eighty-eight columns
        self.circle = Circle(first)'''


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    path = tmp_path / "notebooks" / "source" / "00_circle.py"
    for file, text in {path: LESSON, tmp_path / "residual_edu" / "parts" / "circle.py": MODULE}.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def module(lesson):
    return lesson.parents[2] / "residual_edu" / "parts" / "circle.py"


@pytest.fixture
def refresh(capsys):
    """Run the verb and return its exit code and what it printed."""

    def run(*names):
        code = main(["promote", "--refresh", *names])
        return code, capsys.readouterr().out

    return run


def cells(lesson):
    return jupytext.read(lesson, fmt="py:percent").cells


def test_each_cell_gets_the_modules_code_and_its_own_imports(lesson, module, refresh):
    assert refresh("00")[0] == 0
    assert [cell.source for cell in cells(lesson)[3:5]] == [CIRCLE, HALF]
    assert main(["promote", "--check"]) == 0
    assert module.read_text() == MODULE


def test_the_rest_of_the_lesson_stays_but_for_imports_that_nothing_uses(lesson, refresh):
    refresh("00")
    head, tail = LESSON.split("# %% tags")[0], "\n\n# %% [markdown]\n# The end.\n"
    unused = "from typing import Any\n\nfrom residual_edu.old_errors import check_size\n"
    text = lesson.read_text()
    assert text.startswith(head.replace(unused, ""))
    assert text.endswith(tail)
    assert max(map(len, text.split("\n"))) <= 88
    assert "\n\n\n\n" not in text


def test_a_second_time_changes_nothing(lesson, refresh):
    refresh("00")
    before = lesson.read_text()
    assert refresh("00") == (0, "00_circle.py: 2 promoted cells, 18 lines before and 18 now\n")
    assert refresh()[0] == 0
    assert lesson.read_text() == before


def test_code_of_the_lessons_own_is_kept_unless_the_lesson_is_named(lesson, refresh):
    code, said = refresh()
    assert code == 1
    assert said.startswith("00_circle.py stays as it is, since its code is not the package's.\n--- Circle of ")
    assert "-    r: float\n" in said
    assert "residual-edu promote --refresh 00  # " in said
    assert lesson.read_text() == LESSON
    code, said = refresh("00")
    assert code == 0
    assert "--- the same in 00_circle.py\n+++ Circle of residual_edu/parts/circle.py\n" in said
    assert "-    def area(self):\n" in said


@pytest.mark.parametrize("name", [(), ("00",)])
@pytest.mark.parametrize(
    ("here", "edit"),
    [
        ('    """A circle."""', '    """My circle."""'),
        ("    r: float", "    r: float  # the radius"),
        ("    def area", "    # mine\n    def area"),
        ("        return math.pi * self.r**2 * times  # by Archimedes", "        return math.pi * self.r**2 * times\n"),
    ],
)
def test_an_edit_of_words_in_the_lesson_is_not_lost_without_a_word(lesson, refresh, here, edit, name):
    refresh("00")
    fresh = lesson.read_text()
    lesson.write_text(fresh.replace(here, edit))
    assert main(["promote", "--check"]) == 0
    code, said = refresh(*name)
    assert code == 0
    assert lesson.read_text() == fresh
    assert "lost from the lesson" in said
    assert f"-{edit.partition(chr(10))[0]}" in said


def test_a_module_of_the_contributors_goes_into_the_lesson(lesson, module, refresh):
    refresh("00")
    module.write_text(MODULE.replace("by Archimedes", "by Euclid").replace("the_third: int = 3", "the_third: int = 5"))
    assert refresh()[0] == 1  # the lesson's code is another now, and it is not known whose edit that was
    code, said = refresh("00")
    assert code == 0
    assert "and_the_last=4" in said
    assert "# by Euclid" in lesson.read_text()
    assert "the_third=5" in lesson.read_text()


def long(lines):
    return MODULE + "        x = 1\n" * lines


def test_a_cell_of_more_than_20_lines_is_folded_and_opened_again(lesson, module, refresh):
    for more, folded in [(14, False), (15, True), (14, False)]:
        module.write_text(long(more))
        refresh("00")
        assert [bool(cell.metadata.get("jupyter")) for cell in cells(lesson)[3:5]] == [False, folded]
        assert ('# %% tags=["promote:parts/circle"] jupyter={"source_hidden": true}' in lesson.read_text()) == folded


def test_a_piece_that_the_module_does_not_have_is_refused(lesson, module, refresh, capsys):
    module.write_text(MODULE.replace("class Half", "class Part"))
    assert main(["promote", "--refresh", "00"]) == 2
    assert capsys.readouterr().err.startswith("There is no Half of residual_edu/parts/circle.py. If it is new, ")
    assert lesson.read_text() == LESSON


def test_a_renamed_piece_is_named_in_its_cell_and_refreshed(lesson, module, refresh):
    module.write_text(MODULE.replace("class Half", "class Part"))
    lesson.write_text(LESSON.replace("def Half(): ...", "def Part(): ..."))
    assert refresh("00")[0] == 0
    assert cells(lesson)[4].source == HALF.replace("class Half", "class Part")


def test_a_draft_stays_as_it_is(lesson, refresh):
    lesson.write_text(f"# ---\n# jupyter:\n#   draft: true\n# ---\n\n{LESSON}")
    before = lesson.read_text()
    assert refresh("00") == (0, "")
    assert main(["promote", "--check"]) == 0
    assert lesson.read_text() == before
