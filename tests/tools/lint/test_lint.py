import jupytext
from nbformat.v4 import new_notebook

from residual_course.commands import main
from tools.lint import lint


def test_a_clean_lesson_has_no_findings_built_or_not(find, checkout):
    assert find() == []
    (checkout.parent / "00_lesson.ipynb").unlink()
    assert lint(checkout / "00_lesson.py") == []


def test_what_is_optional_is_held_to_what_protects_a_learner(source, find, checkout):
    source.cells[2].source += "\n" + "x = 1\n" * 200
    assert len(find(name="00_lesson")) > 1
    (checkout / "00_lesson.py").unlink()
    (checkout.parent / "investigations" / "source").mkdir(parents=True)
    why = "../investigations/source/00_why"
    source.cells[-1].source = "[Glossary](../../docs/glossary.md)"
    assert find(name=why) == []
    source.cells[2].source += "import tqdm"
    assert [finding.partition(" uses ")[2][:4] for finding in find(name=why)] == ["tqdm"]


def test_hidden_tests_are_not_linted(source, find):
    source.cells[-2].metadata["tags"] = ["hidden-test"]
    source.cells[-2].source = "import tqdm"
    assert find() == ['the last code cell is not summary("00")']


def test_a_companion_that_does_not_fit_is_found(find):
    assert (
        find(texts="[cells.lost]\n[predictions]")[0]
        == "00_lesson.toml names the cell 'lost', and 0 cells have this title"
    )


def test_the_verb_names_the_lesson(find, checkout, monkeypatch, capsys):
    find()
    monkeypatch.chdir(checkout)
    assert main(["lint"]) == 0 and capsys.readouterr().out == "Every lesson keeps its rules.\n"
    find(lambda built: built.cells[2].update(source=f"{built.cells[2].source}\n%time"))
    assert main(["lint", "00"]) == 1 and capsys.readouterr().out.startswith("00_lesson: cell 3 (def centre(x")


def test_an_empty_notebook_is_no_crash(checkout):
    jupytext.write(new_notebook(), checkout / "03_empty.py", fmt="py:percent")
    assert lint(checkout / "03_empty.py")
