"""What a notebook asks is read from its file, with the section that each question stands in."""

from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

from residual_course import contents
from residual_course.contents import Asked

TASK = new_code_cell('check(f, "task")')
CELLS = [
    new_markdown_cell("# 02 · A lesson"),
    new_code_cell('first = predict("Before any section?", ["yes", "no"])'),
    new_markdown_cell("Text.\n\n## Four numbers\n\n```\n# no heading\n## nor this\n```"),
    new_code_cell('guess = predict(\n    "How " "much?"\n)'),
    new_markdown_cell("### Exercise 1 · 5 minutes · ●●○○○\nWrite it."),
    TASK,
    new_code_cell('f = 1\n\ncheck(f, "task")', metadata={"tags": ["solution"]}),
    new_code_cell('other = predict("Below an exercise?", ["yes", "no"])'),
    new_code_cell("%magic\npredict('not Python')"),
    new_code_cell("np.check(1, 'no exercise')\npredict()\npredict(question)"),
    new_markdown_cell("## Last\n### Exercise 2\n"),
    new_code_cell('with attempt("homework"):\n    pass'),
]


@pytest.fixture
def notebook(tmp_path):
    path = tmp_path / "02_small.ipynb"
    path.write_text(writes(new_notebook(cells=CELLS)))
    return path


def test_everything_asked_is_found_once_in_its_order_with_its_section(notebook):
    assert contents.asked(notebook) == [
        Asked("predictions", "Before any section?", "", "02 · A lesson"),
        Asked("predictions", "How much?", "Four numbers", "Four numbers"),
        Asked("exercises", "task", "Four numbers", "Exercise 1"),
        Asked("predictions", "Below an exercise?", "Four numbers", "Exercise 1"),
        Asked("exercises", "homework", "Last", "Exercise 2"),
    ]


def test_lessons_are_found_by_number_and_of_two_the_one_with_the_course_s_own_name(tmp_path):
    names = ["03_own", "03_zz", "08b_long", "08a_attention", "02_layer_norm", "02_my_notes", "02_Layer_Norm"]
    for name in [*names, "02_layer_norm (kept 2026-11-22 10.00.00)", "answers", "hw_00_01"]:
        (tmp_path / f"{name}.ipynb").touch()
    found = {number: path.stem for number, path in contents.lessons(tmp_path).items()}
    assert found == {"02": "02_layer_norm", "03": "03_zz", "08a": "08a_attention", "08b": "08b_long"}
    assert list(found) == sorted(found)
    sources = Path(__file__).parents[2] / "notebooks" / "source"
    for source in filter(contents.LESSON.fullmatch, sorted(path.stem for path in sources.glob("*.py"))):
        (tmp_path / f"{source[:3].rstrip('_')}_zzz.ipynb").touch()
        (tmp_path / f"{source}.ipynb").touch()
    assert not [path.stem for path in contents.lessons(tmp_path).values() if "zzz" in path.stem]


@pytest.mark.parametrize("text", ["", "[]", '{"cells": 3}', '{"cells": [3]}'])
def test_what_is_no_notebook_is_a_value_error(notebook, text):
    notebook.write_text(text)
    with pytest.raises(ValueError):
        contents.asked(notebook)


def test_a_link_names_its_section_as_jupyterlab_does():
    assert contents.link("Whose numbers are averaged?") == (
        "[Whose numbers are averaged?](<#Whose-numbers-are-averaged?>)"
    )
    for heading in ("Why 1/√d", "The `layer` f", "[a] list", "5 · 3", "50 %", "a_b_c"):
        assert contents.link(heading) == heading  # a browser or Markdown would write it otherwise


def test_an_unchanged_solution_is_known_and_nothing_else_is(notebook):
    assert contents.is_solution('f = 1\n\ncheck(f, "task")\n', notebook.parent)
    assert not contents.is_solution('f = 2\n\ncheck(f, "task")', notebook.parent)
    assert not contents.is_solution(TASK.source, notebook.parent)
    (notebook.parent / "01_broken.ipynb").write_text("{")
    assert contents.is_solution('f = 1\n\ncheck(f, "task")', notebook.parent)
    assert not contents.is_solution('f = 1\n\ncheck(f, "task")', Path("nowhere"))
