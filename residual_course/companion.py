"""What belongs to a lesson and stands where no learner reads it: ``data/lessons/NN_name.toml``.

    [predictions."How does the loss end?"]        # the question itself
    truth = "'lower' if losses[-1] < 2 else 'the same'"  # which choice it is, from what the cell has measured
    after = "It is no overfitting."               # shown with the answer, whatever was predicted
    why."lower" = "That is what one hopes for."   # a reason for each choice

    [cells.sixteen]                               # by the cell's title, as in "# %% sixteen"
    holds = ["losses[-1] > 2"]                    # true after the cell, asserted by the build and the tests
    alt = ["Training loss against the step: ..."] # one for each of its pictures, in their order

The build, the tests and the book read a lesson's own file. A kernel does not know which lesson it runs, so it looks for
a question in all of them.
"""

import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

FOLDER: Traversable = files("residual_course") / "data" / "lessons"
Companion = dict[str, dict[str, Any]]  # "predictions" by question, "cells" by title


def read(path: Traversable) -> Companion:
    """Return what the file ``path`` says; of a lesson without one, nothing.

    Raises:
        ValueError: for what is no TOML.
    """
    said = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {"predictions": {}, "cells": {}} | said


def answer_of(question: str) -> dict[str, Any]:
    """Return what is said of a question: truth, why and after; nothing where no file has it."""
    for path in FOLDER.iterdir() if FOLDER.is_dir() else ():
        if said := read(path)["predictions"].get(question):
            return said
    return {}
