"""What every notebook starts with: a seed, one thread, a device, the style of the figures; and what its cells call."""

import base64
import json
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import torch
from IPython.display import display

from residual_course.plots.style import use_style
from residual_course.summary import progress_at, summary_of
from residual_edu.errors import InvalidInput, check_choice

if TYPE_CHECKING:  # what draws or predicts imports it then: a homework, graded by the hundred, does neither
    from matplotlib.figure import Figure

    from residual_course.explorers import Prediction


class Prose(str):
    """A text that a notebook displays as Markdown, and a page that cannot as it is."""

    def _repr_markdown_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return str(self)


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


def show(figure: "Figure", alt: str = "") -> None:
    """Display ``figure``; ``alt`` says in one or two sentences what is seen and what it means.

    Without ``alt`` it is the figure's label, which a verb of ``residual_course.plots`` writes from its arguments, or
    else the words in the figure; the build takes the lesson's own from its companion.

    The picture has twice the pixels that it is shown with, and states its width: 600 for the lessons' 6 inches. Its
    height is left to the page, which shrinks it on a phone.
    """
    from residual_course.plots.picture import figure_png, shown_width, words

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


def predict(question: str, choices: Sequence[str]) -> "Prediction":
    """Ask for a prediction before the result is shown: what the block of ``with predict(...):`` shows."""
    from residual_course.explorers import Prediction

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
