"""A lesson leads in and on by links that lead somewhere, says where one is, and sums up what one did."""

import jupytext
import pytest
from nbformat.v4 import new_markdown_cell

from residual_course.commands.checkout import companion_of
from tools.lint import lint
from tools.lint.links import LINK

from .conftest import TEXTS

FIRST, MIDDLE, LAST = "00_first", "08a_middle", "10_last"


@pytest.fixture
def find(source, checkout):
    """Write the clean lesson as one of three, beside homework for two of them, and return what lint finds in it."""
    (checkout / "homework").mkdir()
    for name in (FIRST, MIDDLE, LAST, "homework/hw_00_08a", "homework/hw_08b_09"):
        (checkout / f"{name}.py").touch()
    (checkout.parent / "investigations" / "source").mkdir(parents=True)
    (checkout.parent / "investigations" / "source" / "08a_why.py").touch()

    def write(name, folder=checkout):
        jupytext.write(source, folder / f"{name}.py", fmt="py:percent")
        companion_of(folder / f"{name}.py").write_text(TEXTS)
        return [finding.partition(": ")[2] for finding in lint(folder / f"{name}.py")]

    return write


@pytest.fixture
def middle(source):
    """The clean lesson as the second of three, with all links."""
    source.cells[0].source += f"\n\nIt needs [lesson 00]({FIRST}.ipynb)."
    source.cells[-1].source += f"\n- [Next]({LAST}.ipynb)\n- [Homework](homework/hw_00_08a.ipynb)"
    for cell in source.cells:
        cell.source = cell.source.replace('("00")', '("08a")')
    return source


def replace(source, old, new):
    for cell in source.cells:
        cell.source = cell.source.replace(old, new)


def test_a_lesson_with_all_links_is_clean(middle, find):
    assert find(MIDDLE) == []


def test_the_first_lesson_needs_none_before_it_and_the_last_none_after_it(source, find):
    source.cells[-1].source += f"\n- [Next]({MIDDLE}.ipynb)\n- [Homework](homework/hw_00_08a.ipynb)"
    assert find(FIRST) == []
    replace(source, '("00")', '("10")')
    replace(source, f"- [Next]({MIDDLE}.ipynb)\n- [Homework](homework/hw_00_08a.ipynb)", "")
    source.cells[0].source += f"\n\nIt needs [lesson 08a](<{MIDDLE}.ipynb>)."
    assert find(LAST) == []


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (f"({FIRST}.ipynb)", f"the first cell of text does not link to {FIRST}.ipynb"),
        (f"({LAST}.ipynb)", f"the last cell of text does not link to {LAST}.ipynb"),
        ("(homework/hw_00_08a.ipynb)", "the last cell of text does not link to homework/hw_00_08a.ipynb"),
        ("(../docs/glossary.md)", "the last cell of text does not link to ../docs/glossary.md"),
    ],
)
def test_each_missing_link_is_found(middle, find, link, said):
    replace(middle, link, "(https://example.org)")
    assert find(MIDDLE) == [said]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('progress("08a")', "", 'the first code cell does not call progress("08a")'),
        ('progress("08a")', 'progress("07")', 'the first code cell does not call progress("08a")'),
        ('summary("08a")', "x = 1", 'the last code cell is not summary("08a")'),
        ('summary("08a")', 'summary("07")', 'the last code cell is not summary("08a")'),
        ('summary("08a")', 'summary("08a")\nx = 1', 'the last code cell is not summary("08a")'),
    ],
)
def test_where_one_is_and_what_one_did_are_said_first_and_last(middle, find, old, new, said):
    replace(middle, old, new)
    assert find(MIDDLE) == [said]


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("investigations/08a_why.ipynb", True),
        ("investigations/08b_why.ipynb", False),
        ("runs/08a.py", False),
        ("homework/hw_08b_09.ipynb", True),
        ("#A-lesson", True),
        ("https://example.org/gone", True),
        ("99_gone.ipynb", False),
        ("../docs/gone.md", False),
        ("source/00_first.py", False),  # not beside a learner's copies
        ("#Gone", False),
    ],
)
def test_a_link_leads_somewhere_from_both_folders(middle, find, target, there):
    middle.cells.insert(2, new_markdown_cell(f"See [there]({target}), and `norms[0](x)`, <code>norms[-1](x)</code>."))
    leads = "to no heading" if target.startswith("#") else "nowhere"
    assert find(MIDDLE) == ([] if there else [f"the link to {target} leads {leads}"])


def test_links_of_an_investigation_lead_out_of_its_folder(source, find, checkout):
    source.cells[-1].source = f"[lesson](../{FIRST}.ipynb), [words](../../docs/glossary.md), [lost]({LAST}.ipynb)"
    assert find("08a_why", checkout.parent / "investigations" / "source") == [f"the link to {LAST}.ipynb leads nowhere"]


def test_code_is_no_link():
    assert LINK.findall("[a](b.ipynb) [c](<#D-e?>) [f](https://g.h) [i](../j.md#k)") == [
        ("b.ipynb", ""), ("", "#D-e?"), ("../j.md", "#k"),
    ]  # fmt: skip
