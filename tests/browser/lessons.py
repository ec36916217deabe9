"""The lessons that the browser opens, as parameters: two of them always, the others where slow tests are asked for."""

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
ALWAYS = ("00_residual_connection", "02_layer_norm")  # run whole


def every_lesson(cut: Callable[[NotebookNode], NotebookNode], whole: tuple[str, ...] = (), tiny: bool = True) -> list:
    """Return a parameter for the tiny lesson and for each real one, ``cut`` unless its name is in ``whole``."""
    params = [pytest.param(("tiny", sound), id="tiny")] if tiny else []
    for path in NOTEBOOKS:
        read = partial(nbformat.read, path, as_version=4)
        made = read if path.stem in whole else (lambda read=read: cut(read()))
        marks = [] if path.stem in ALWAYS else [pytest.mark.slow]
        params.append(pytest.param((path.stem, made), id=path.stem, marks=marks))
    return params
