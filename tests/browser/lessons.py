"""The lessons that the browser opens, as parameters: two always, the others and one whole where all is asked for.

What is not done with each of them is done with a share of them at each commit.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from residual_edu.course.checkout import is_appendix, lessons, notebook_of
from residual_edu.course.drafts import finished
from residual_edu.course.turns import due, share, turn

from .needed import explorers_only
from .tiny import sound

ROOT = Path(__file__).parents[2]
NOTEBOOKS = [notebook_of(source) for source in finished(lessons(ROOT))]
EXPLORERS = {path.stem: path.read_text(encoding="utf-8").count('"explorer"') for path in NOTEBOOKS}
ALWAYS = ("00_residual_connection", "02_layer_norm")
APPENDICES = list(filter(is_appendix, NOTEBOOKS))
MOVES = set((ROOT / "residual_edu" / "explorers").glob("*.py"))
TINY = pytest.param(("tiny", sound), id="tiny")


def every_lesson(cut: Callable[[NotebookNode], NotebookNode], paths: Sequence[Path]) -> list:
    """Return a parameter for each lesson, ``cut``."""
    return [
        pytest.param((path.stem, lambda path=path: cut(read(path))), id=path.stem, marks=marks(path)) for path in paths
    ]


def with_some_appendices() -> list[Path]:
    """Return the lessons, a third of the appendices, and those of them that were changed lately, or what moves them."""
    opened = due({path: {path} | MOVES for path in APPENDICES}, 3, ROOT)
    return [path for path in NOTEBOOKS if path not in APPENDICES or path in opened]


def marks(path: Path) -> list[pytest.MarkDecorator]:
    """Return the marks of a lesson's tests."""
    return [] if path.stem in ALWAYS else [pytest.mark.slow]


def third(paths: Sequence[Path]) -> list[Path]:
    """Return those of ``paths`` whose turn it is, and the two that are always opened."""
    others = [path for path in paths if marks(path)]
    return [path for path in paths if not marks(path)] + share(others, 3, turn(ROOT))


def some_with_explorers(parts: int) -> list:
    """Return a parameter for one of ``parts`` shares of the lessons with explorers, cut to what these need."""
    return every_lesson(explorers_only, share([path for path in NOTEBOOKS if EXPLORERS[path.stem]], parts, turn(ROOT)))


def one_whole() -> list:
    """Return a parameter for the first lesson as it is."""
    name = f"{NOTEBOOKS[0].stem}_whole"
    return [pytest.param((name, partial(read, NOTEBOOKS[0])), id=name, marks=pytest.mark.slow)]


def read(path: Path) -> NotebookNode:
    """Read a notebook as it is stored."""
    return nbformat.read(path, as_version=4)
