"""The lessons that the browser opens, as parameters: two always, the others and one whole where all is asked for."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from residual_course.commands.checkout import is_optional, lessons, notebook_of

from .needed import explorers_only
from .tiny import sound

ROOT = Path(__file__).parents[2]
NOTEBOOKS = [notebook_of(source) for source in lessons(ROOT) if not is_optional(source)]
EXPLORERS = {path.stem: path.read_text(encoding="utf-8").count('"explorer"') for path in NOTEBOOKS}
ALWAYS = ("00_residual_connection", "02_layer_norm")
TINY = pytest.param(("tiny", sound), id="tiny")


def every_lesson(cut: Callable[[NotebookNode], NotebookNode], paths: Sequence[Path]) -> list:
    """Return a parameter for each lesson, ``cut``."""
    return [
        pytest.param((path.stem, lambda path=path: cut(read(path))), id=path.stem, marks=marks(path)) for path in paths
    ]


def marks(path: Path) -> list[pytest.MarkDecorator]:
    """Return the marks of a lesson's tests."""
    return [] if path.stem in ALWAYS else [pytest.mark.slow]


def with_explorers() -> list:
    """Return a parameter for each lesson with explorers, cut to what these need."""
    return every_lesson(explorers_only, [path for path in NOTEBOOKS if EXPLORERS[path.stem]])


def one_whole() -> list:
    """Return a parameter for the first lesson as it is."""
    name = f"{NOTEBOOKS[0].stem}_whole"
    return [pytest.param((name, partial(read, NOTEBOOKS[0])), id=name, marks=pytest.mark.slow)]


def read(path: Path) -> NotebookNode:
    """Read a notebook as it is stored."""
    return nbformat.read(path, as_version=4)
