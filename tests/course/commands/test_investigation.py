"""Investigations are built and handed out, and nobody has to do them."""

from pathlib import Path

import pytest

from residual_course import progress
from residual_course.commands import copies, main
from residual_course.commands.assignment import gradable
from residual_course.commands.student import GUIDES

ROOT = Path(__file__).parents[3]
ASKS = """# %% [markdown]
# See [the lesson](../00_first.ipynb) and the [glossary](../../docs/glossary.md).

# %%
from residual_course.explorers.prediction import Prediction as predict
print("{name}", 0.25)

# %% answer
with predict("Is {name} read", ["yes", "no"]) as guess:
    print("why", 0.25)
    guess.truth = "yes"
"""
NAMES = ["00_first", "01_second"]
WHY = "investigations/00_why"
pytestmark = pytest.mark.slow  # three notebooks are built


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A built course of two lessons and an investigation."""
    root = tmp_path_factory.mktemp("course")
    for name in [f"source/{name}" for name in NAMES] + ["investigations/source/00_why"]:
        path = root / "notebooks" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ASKS.format(name=path.stem))
    (root / "docs").mkdir()
    for guide in GUIDES:
        (root / guide).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("PYTHONPATH", str(ROOT))
        assert main(["build"]) == 0
    return root


@pytest.fixture(autouse=True)
def here(course, monkeypatch):
    monkeypatch.chdir(course)


def test_all_are_built_and_the_check_knows_them(course):
    assert sorted(path.stem for path in (course / "notebooks").glob("*.ipynb")) == NAMES
    assert (course / "notebooks" / f"{WHY}.ipynb").exists()
    assert {path.stem for path in (course / "notebooks" / "answers").rglob("*.json")} == {*NAMES, "00_why"}
    assert main(["build", "--check"]) == 0


def test_what_is_optional_is_copied_and_handed_out_and_neither_asked_for_nor_graded(course, tmp_path):
    copies.complete(course)
    mine = course / "my_lessons"
    assert sorted(path.stem for path in mine.glob("*.ipynb")) == NAMES and (mine / f"{WHY}.ipynb").exists()
    for name in ("00_first", "01_second"):
        progress.change(mine, {"predictions": {f"Is {name} read": "yes"}})
        assert copies.first_unfinished(course) == mine / "01_second.ipynb"  # the last that somebody has to do
    assert copies.remarks(course) == []
    for name, stem in (("00", "00_first"), ("00_why", "00_why")):
        assert [line.partition(" is new")[0] for line in copies.start_anew(course, [name])] == [f"{stem}.ipynb"]
    assert [source.stem for source in gradable(course)] == ["00_first", "01_second"]
    assert main(["student", str(tmp_path / "all")]) == 0
    given = [f"{name}.ipynb" for name in NAMES]
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [*given, "docs", "investigations"]
    text = (tmp_path / "all" / f"{WHY}.ipynb").read_text()
    assert "(../00_first.ipynb)" in text and "(../docs/glossary.md)" in text and '"why 0.25' not in text
