"""The student versions: nothing that answers an exercise, and everything else."""

import json
import re
from pathlib import Path

import jupytext
import nbformat
import pytest

from residual_course.commands import main
from residual_course.commands.checkout import is_optional, notebook_of, with_homework
from residual_course.commands.exercise_cells import HIDDEN, NOTE, SOLUTION, tags
from residual_course.commands.notebook import plan
from residual_course.commands.student import GUIDES

ROOT = Path(__file__).parents[3]
SOURCES = with_homework(ROOT)
PICTURE = re.compile('"image/png": "[^"]*"')  # most of a notebook's text
LINK = re.compile(r"\]\(<?([^)#>\s]+)[^)]*\)")
TRIVIAL = 12  # characters, up to which a line says nothing: "return x"
SCHEMA = {"grade": bool, "grade_id": str, "locked": bool, "schema_version": int, "solution": bool, "task": bool}
EXERCISES = [source for source in SOURCES if "### BEGIN SOLUTION" in source.read_text(encoding="utf-8")]
each = pytest.mark.parametrize("source", EXERCISES, ids=lambda source: source.stem)


def lines(text):
    return [line.strip() for line in text.split("\n") if len(line.strip()) > TRIVIAL and "HIDDEN TESTS" not in line]


def split(source):
    """The lines that a student may not see, and those that the rest of the source shows anyway."""
    secret, open_lines = set(), set()
    for cell in jupytext.read(source, fmt="py:percent").cells:
        hidden = [cell.source] if "hidden-test" in tags(cell) else HIDDEN.findall(cell.source)
        answers = [match[2] for match in SOLUTION.finditer(cell.source)]
        secret |= {line for text in [*hidden, *answers] for line in lines(text)}
        if "hidden-test" not in tags(cell):
            open_lines.update(lines(HIDDEN.sub("", SOLUTION.sub("", cell.source))))
    return secret, open_lines


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """What the command writes of the whole course."""
    out = tmp_path_factory.mktemp("handout") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert main(["student", str(out)]) == 0
    return out


def test_no_secret_line_is_part_of_any_text_under_out(out):
    texts = {path.name: PICTURE.sub("", path.read_text("utf-8")) for path in out.rglob("*") if path.is_file()}
    assert len(texts) == len(SOURCES) + len(GUIDES)
    secrets, shown = zip(*map(split, SOURCES), strict=True)
    assert [source for source, secret in zip(SOURCES, secrets, strict=True) if not secret and source in EXERCISES] == []
    said = "\n".join(line for lines in shown for line in lines)
    secret = {json.dumps(line)[1:-1] for lines in secrets for line in lines if line not in said}
    assert [(line, name) for name, text in texts.items() for line in secret if line in text] == []


def test_every_link_of_a_handout_leads_to_a_file_of_it(out):
    leads = []
    for page in out.rglob("*.*"):
        cells = jupytext.read(page).cells  # a page of Markdown is one cell
        texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
        targets = [target for text in texts for target in LINK.findall(text) if "://" not in target]
        leads += [(page, page.parent / target) for target in targets]
    assert any(target.match("docs/glossary.md") for _, target in leads)
    assert [(page.name, target.name) for page, target in leads if not target.exists()] == []


@each
def test_graded_cells_are_nbgrader_s_without_output_and_all_others_are_as_built(out, source):
    (handout,) = out.rglob(f"{source.stem}.ipynb")
    notebook, built = (nbformat.read(path, as_version=4) for path in (handout, notebook_of(source)))
    nbformat.validate(notebook)
    graded = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    ids = [cell.metadata.nbgrader.grade_id for cell in graded]
    assert graded and len(ids) == len(set(ids))
    for cell in graded:
        grader = cell.metadata.nbgrader
        assert {key: type(grader[key]) for key in SCHEMA} == SCHEMA and grader.schema_version == 3
        assert ("points" in grader) == grader.grade
        assert cell.outputs == [] and cell.execution_count is None
        assert cell.metadata.deletable is False and ("editable" in cell.metadata) == grader.locked
        assert not grader.solution or "raise NotImplementedError" in cell.source
    text = "".join(cell.source for cell in notebook.cells)
    assert "<summary>Hint" in text and "<details open" not in text and "folded below" not in text
    stored = {cell.id: cell.get("outputs", []) for cell in built.cells}
    other = [cell for cell in notebook.cells if "nbgrader" not in cell.metadata and cell.id in stored]
    assert other and [cell.id for cell in other if cell.get("outputs", []) != stored[cell.id]] == []
    gone = [cell for cell in plan(source).cells if cell.id not in {cell.id for cell in notebook.cells}]
    assert all("solution" in tags(cell) or cell.source == NOTE for cell in gone)


def test_every_lesson_has_exercises_and_nothing_is_written_where_a_source_or_the_folder_is_refused(
    tmp_path, monkeypatch, capsys
):
    assert [source.stem for source in SOURCES if source not in EXERCISES and not is_optional(source)] == []
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    for name, text in (("00_a", "# %%\nx = 1\n"), ("01_b", "# %%\n<<<<<<< HEAD\n")):
        (tmp_path / "notebooks" / "source" / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["student", "out"]) == 2
    assert "01_b.py, line 2: a merge" in capsys.readouterr().err and not (tmp_path / "out").exists()
    assert main(["student", str(tmp_path), "00"]) == 2
    assert f"{tmp_path} is not an empty folder" in capsys.readouterr().err
