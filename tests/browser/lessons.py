"""The lessons that the browser opens, as parameters: two always, the others and one whole where all is asked for."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from residual_edu.course.checkout import lessons, notebook_of
from residual_edu.course.drafts import finished

from .tiny import sound

NOTEBOOKS = [notebook_of(source) for source in finished(lessons(Path(__file__).parents[2]))]
ALWAYS = ("00_residual_connection", "02_layer_norm")


def every_lesson(cut: Callable[[NotebookNode], NotebookNode], tiny: bool = True) -> list:
    """Return a parameter for the tiny lesson and for each real one, ``cut``."""
    params = [pytest.param(("tiny", sound), id="tiny")] if tiny else []
    for path in NOTEBOOKS:
        marks = [] if path.stem in ALWAYS else [pytest.mark.slow]
        params.append(pytest.param((path.stem, lambda path=path: cut(read(path))), id=path.stem, marks=marks))
    return params


def one_whole() -> list:
    """Return a parameter for the first lesson as it is."""
    name = f"{NOTEBOOKS[0].stem}_whole"
    return [pytest.param((name, partial(read, NOTEBOOKS[0])), id=name, marks=pytest.mark.slow)]


def read(path: Path) -> NotebookNode:
    """Read a notebook as it is stored."""
    return nbformat.read(path, as_version=4)
