"""What every notebook starts with: a seed, one thread, a device, the style of the figures; and what its cells call."""

import base64
import json
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, TypeGuard

import numpy as np
import torch
from IPython.display import display
from matplotlib.figure import Figure
from torch import Tensor

from residual_course.explorers import Prediction
from residual_course.explorers.prediction import Prose
from residual_course.plots.picture import figure_png, shown_width, words
from residual_course.plots.style import use_style
from residual_course.summary import progress_at, summary_of
from residual_edu.errors import InvalidInput, check_choice

NOT_HERE = "Not with these settings:"


def setup(seed: int = 0) -> torch.device:
    """Seed torch, take one thread, set the figures' style, and return the device of ``RESIDUAL_EDU_DEVICE``.

    The variable is ``cpu`` (the default), ``cuda``, ``mps``, or ``auto``: the first of cuda, mps and cpu that exists.

    Raises:
        InvalidInput: for another name, or a device that does not exist here.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # more are slower on lesson-sized work
    torch.set_printoptions(precision=4, sci_mode=False)
    use_style()
    return find_device(os.environ.get("RESIDUAL_EDU_DEVICE", "cpu"))


def find_device(name: str) -> torch.device:
    """Return the device called ``name``; ``auto`` is the first that is there of cuda, mps and cpu."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    check_choice("RESIDUAL_EDU_DEVICE", name, [*there, "auto"])
    if name == "auto":
        name = next(device for device in there if there[device])
    if not there[name]:
        raise InvalidInput(f"RESIDUAL_EDU_DEVICE is {name!r}, but torch finds none here; set it to 'cpu' or 'auto'")
    return torch.device(name)


def show(figure: Figure, alt: str = "") -> None:
    """Display ``figure``; ``alt`` says in one or two sentences what is seen and what it means.

    Without ``alt`` it is the figure's label, which a verb of ``residual_course.plots`` writes from its arguments, or
    else the words in the figure; the build takes the lesson's own from its companion.

    The picture has twice the pixels that it is shown with, and states its width: 600 for the lessons' 6 inches. Its
    height is left to the page, which shrinks it on a phone.
    """
    alt = alt or words(figure)
    data = {"image/png": base64.b64encode(figure_png(figure)).decode(), "text/plain": alt}
    display(data, metadata={"image/png": {"alt": alt, "width": shown_width(figure)}}, raw=True)


def stored_runs(lesson: str) -> dict[str, Any]:
    """Return what longer runs stored, for a lesson or an investigation: ``settings``, and ``runs`` by seed.

    Raises:
        InvalidInput: for a lesson without stored runs; those that have them are named.
    """
    folder = files("residual_course") / "data" / "runs"
    check_choice("lesson", lesson, sorted(path.name.removesuffix(".json") for path in folder.iterdir()))
    stored = json.loads((folder / f"{lesson}.json").read_text(encoding="utf-8"))
    return stored | {"runs": {int(seed): numbers for seed, numbers in stored["runs"].items()}}


def predict(question: str, choices: Sequence[str] | None = None) -> Prediction:
    """Ask for a prediction before the result is shown: of ``with predict(...) as guess:``, what its block shows.

    The block sets ``guess.truth``, one of the choices. Without a block, ``guess.reveal(truth)`` answers.
    """
    prediction = Prediction(question, choices)
    display(prediction)
    return prediction


def progress(lesson: str) -> None:
    """Display where in the course one is: which lessons are done (all their exercises hold) and which is next.

    Args:
        lesson: the number of the lesson that the cell stands in, such as "08a".
    """
    display(Prose(progress_at(lesson)))


def summary(lesson: str) -> None:
    """Display what was predicted in a lesson beside what was measured, which exercises hold, and what to read again.

    What was kept beside the notebooks counts, so a restarted kernel need not run the lesson again.

    Args:
        lesson: the number of the lesson that the cell stands in, such as "08a".
    """
    display(Prose(summary_of(lesson)))


def holds(condition: bool | np.bool | Tensor, sentence: str) -> None:
    """Print "Not with these settings: ..." if ``condition``, the band of a law that a cell measures, is false.

    So a learner who changes a number sees what the law depends on, and the lesson goes on. A build and the tests set
    ``RESIDUAL_EDU_STRICT``, and there the same line is an error.

    Args:
        condition: one truth value: Python's, NumPy's, or a tensor of dtype bool without axes.
        sentence: the law, as in "Three seeds of pre-norm reach a loss below 0.1."

    Raises:
        InvalidInput: for a condition that is a number, several truth values, or nothing.
        AssertionError: for a condition that is false, where ``RESIDUAL_EDU_STRICT`` is set.
    """
    if not is_truth_value(condition):
        raise InvalidInput(
            f"condition must be one truth value, got {condition!r}; "
            "compare a number with its band, and join several comparisons with all() or .all()"
        )
    if condition:
        return
    said = f"{NOT_HERE} {sentence}"
    if os.environ.get("RESIDUAL_EDU_STRICT"):
        raise AssertionError(said)
    print(said)


def is_truth_value(condition: object) -> TypeGuard[bool | np.bool | Tensor]:
    """Whether ``condition`` is true or false and nothing else; a number is not, nor is a tensor with an axis."""
    if isinstance(condition, Tensor):
        return condition.dtype == torch.bool and condition.ndim == 0
    return isinstance(condition, bool | np.bool)
