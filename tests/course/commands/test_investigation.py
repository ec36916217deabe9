"""Investigations are built, compared and handed out, and nobody has to do them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from residual_course import progress
from residual_course.commands import copies, main
from residual_course.commands.assignment import gradable
from residual_course.commands.student import GUIDES
from tools.nbval_plugin import AWAY
from tools.test import NBVAL

ROOT = Path(__file__).parents[3]
ASKS = """# %% [markdown]
# # {name}

# %%
from residual_course.explorers.prediction import Prediction as predict
print("{name}", 0.25)

# %% tags=["predict"]
guess = predict("Is {name} read", ["yes", "no"])
guess

# %% tags=["reveal"]
# Answer first, then run this cell.
guess.reveal("yes", why={{"yes": "It is.", "no": "It is."}}, after="So it is.")
"""
SOURCES = {
    "00_first.py": ASKS.format(name="first"),
    "01_second.py": ASKS.format(name="second"),
    "02_draft.py": "# ---\n# jupyter:\n#   draft: true\n# ---\n\n" + ASKS.format(name="draft"),
}
BUILT = [f"{Path(name).stem}.ipynb" for name in SOURCES]
WHY = "investigations/00_why.ipynb"
ONE_CELL = """# %% [markdown]
# See [the lesson](../00_first.ipynb) and the [glossary](../../docs/glossary.md).

# %%
from residual_course.explorers.prediction import Prediction as predict

# %% answer
with predict("Why is it so", ["chance", "a law"]) as guess:
    print("why", 0.25)
    guess.truth = "a law"
"""
pytestmark = pytest.mark.slow  # four notebooks are built


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A built course of two lessons, an investigation and a draft."""
    root = tmp_path_factory.mktemp("course")
    source = root / "notebooks" / "source"
    source.mkdir(parents=True)
    for name, text in SOURCES.items():
        (source / name).write_text(text)
    (root / "notebooks" / "investigations" / "source").mkdir(parents=True)
    (root / "notebooks" / "investigations" / "source" / "00_why.py").write_text(ONE_CELL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("PYTHONPATH", str(ROOT))
        assert main(["build"]) == 0
    return root


@pytest.fixture(autouse=True)
def here(course, monkeypatch):
    monkeypatch.chdir(course)


def test_all_are_built_and_the_check_knows_them(course):
    assert sorted(path.name for path in (course / "notebooks").glob("*.ipynb")) == sorted(BUILT)
    assert (course / "notebooks" / WHY).exists() and (course / "notebooks/answers/investigations/00_why.json").exists()
    assert main(["build", "--check"]) == 0


def test_nbval_compares_all(course):
    words = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "--rootdir", course, *NBVAL]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), AWAY: str(course)}

    def failed():
        done = subprocess.run(
            [*words, "-p", "no:cacheprovider", "notebooks"], env=environment, capture_output=True, text=True
        )
        return {name for name in [*BUILT, WHY] if f"{name}::Cell" in done.stdout}, done.returncode

    assert failed() == (set(), 0)
    changed = {"02_draft.ipynb": "02_draft.ipynb"}
    changed[WHY] = "answers/investigations/00_why.json"
    paths = [course / "notebooks" / name for name in changed.values()]
    kept = [path.read_text() for path in paths]
    for path, text in zip(paths, kept, strict=True):
        path.write_text(text.replace("0.25\\n", "0.75\\n"))
    try:
        assert failed() == (changed.keys(), 1)
    finally:
        for path, text in zip(paths, kept, strict=True):
            path.write_text(text)


def test_what_is_optional_is_copied_and_not_asked_for(course):
    copies.complete(course)
    mine = course / "my_lessons"
    assert sorted(path.name for path in mine.glob("*.ipynb")) == BUILT[:2] and (mine / WHY).exists()
    progress.change(mine, {"predictions": {"Is first read": "yes"}})
    assert copies.first_unfinished(course) == mine / "01_second.ipynb"
    progress.change(mine, {"predictions": {"Is second read": "no"}})
    assert copies.first_unfinished(course) == mine / "01_second.ipynb"  # the last that somebody has to do
    assert copies.remarks(course) == []
    assert [line.partition(" is new")[0] for line in copies.start_anew(course, ["00"])] == ["00_first.ipynb"]
    assert copies.start_anew(course, ["00_why"])[0].startswith("00_why.ipynb is new")


def test_student_hands_out_what_is_optional_and_no_drafts(course, tmp_path, capsys):
    (course / "docs").mkdir()
    for guide in GUIDES:
        (course / guide).touch()
    assert main(["student", str(tmp_path / "all")]) == 0
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [*BUILT[:2], "docs", "investigations"]
    text = (tmp_path / "all" / WHY).read_text()
    assert "(../00_first.ipynb)" in text and "(../docs/glossary.md)" in text and "0.25\\n" not in text
    assert main(["student", str(tmp_path / "draft"), "02"]) == 2
    assert capsys.readouterr().err == "Drafts are not handed out: 02_draft.\n"
    assert not (tmp_path / "draft").exists()


def test_only_lessons_are_graded(course):
    assert [source.stem for source in gradable(course)] == ["00_first", "01_second"]
