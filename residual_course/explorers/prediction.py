"""A question asked before its answer is shown.

One cell asks, and measures:

    with predict("How does the loss end?", ["lower", "as high as guessing"]):
        runs = train(...)  # at once; its names stay, what it shows is held back until a choice is clicked

Which choice is true says the lesson's companion, or ``guess.truth = ...`` in a block ``with predict(...) as guess``.

Or the cell that asks holds ``guess = predict(...)`` and nothing else, and a folded cell below it measures and ends with
``guess.reveal(truth)``. Either displays what was predicted beside what was measured, the reason that belongs to what
the learner chose, and the explanation.
"""

import html
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from types import TracebackType
from typing import Any, Self

import ipywidgets as widgets
from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from residual_course import companion, progress
from residual_course.explorers.controls import status
from residual_course.explorers.held import Held, Output, markdown, replay
from residual_edu.errors import check_choice

LOW, NEAR, HIGH = "too low", "about right", "too high"  # how a number may compare with the measured one
NO_NUMBER = "Please type a number, such as 0.25 or 3/16."


class Prediction(widgets.VBox):
    """A question with buttons (a choice) or a box (a number); ``reveal`` displays the prediction beside the result.

    An unanswered one never fails a run. An answer that is given or changed after the reveal is judged too: what the
    reveal displayed changes. Beside the course's notebooks the answer is kept, and stands there again after a restart.

    Args:
        question: what to predict.
        choices: the answers to choose from; ``None`` asks for a number.
    """

    def __init__(self, question: str, choices: Sequence[str] | None = None) -> None:
        self.question, self.choices = question, choices
        self.truth: str | int | float | None = None  # not known before the reveal
        self.why: Mapping[str, str] = {}
        self.after, self.tolerance = "", 0.0
        self.shown: DisplayHandle | None = None
        self.held, self.waits = Held(), False  # what a block showed, and whether it waits for an answer
        self.control = buttons(question, choices) if choices else number_box(question)
        self.verdict, kept = widgets.HTML(), progress.recall("predictions", question)
        self.asked, self.place = widgets.HTML(f"<b>{html.escape(question, quote=False)}</b>"), widgets.Output()
        super().__init__([self.asked, self.control, self.verdict, self.place])
        self.add_class("residual-edu-prediction")
        if isinstance(kept, str) and (kept in choices if choices else number(kept) is not None):
            self.control.value = kept
        self.control.observe(self.answered, "value")

    def __enter__(self) -> Self:
        self.held.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.held.__exit__(kind, error, trace)
        if kind is None:
            self.look_up()
        if kind or (self.choices and str(self.truth) not in self.choices):
            replay(self.held.outputs)  # an error hides nothing
            self.children = [self.asked]
        if kind is None:
            self.keep_back()

    def look_up(self) -> None:
        """Ask the companion for the reasons, and for the truth, unless the block has set it."""
        said = companion.answer_of(self.question)
        self.why, self.after = said.get("why", {}), said.get("after", "")
        if self.truth is None and "truth" in said and (shell := get_ipython()):
            self.truth = eval(said["truth"], shell.user_ns)  # the course's own words, over what the cell measured

    def keep_back(self) -> None:
        """Keep back what the block showed, unless the question is answered already, or this is a build."""
        if self.choices:
            check_choice("guess.truth", str(self.truth), self.choices)
        self.waits = True
        if self.answer or os.environ.get("RESIDUAL_EDU_BUILD"):
            self.uncover()
            replay(self.told())  # in the cell itself, so that a saved notebook has it

    def uncover(self, trouble: str = "") -> None:
        """Put the verdict in the place of the buttons."""
        self.children = [self.asked, self.verdict, self.place]
        kept = progress.keep("measured", self.question, self.result())
        self.verdict.value = status(f"{self.sentence()} {trouble or kept}".strip())

    def told(self) -> list[Output]:
        """Return what an answer opens: the reason for it, what was held back, and the explanation."""
        reason = self.reason() if self.answer else f"**{self.sentence()}** {self.reason()}".strip()
        return [*markdown(reason), *self.held.outputs, *markdown(self.after)]

    def reveal(
        self, truth: str | int | float, why: Mapping[str, str] | None = None, after: str = "", tolerance: float = 0.0
    ) -> None:
        """Display what was predicted beside ``truth``, what was measured, with a reason and an explanation.

        Args:
            truth: one of the choices, or a number.
            why: Markdown for each choice; for a number, for "too low", "about right" and "too high".
            after: Markdown that explains the result, whatever was predicted.
            tolerance: how far a predicted number may be from ``truth`` to be about right, at least 0.

        Raises:
            InvalidInput: for a truth that is none of the choices, and for a reason that belongs to none.
        """
        if self.choices:
            check_choice("truth", str(truth), self.choices)
        for choice in why or {}:
            check_choice("why", choice, self.choices or (LOW, NEAR, HIGH))
        self.truth, self.why, self.after, self.tolerance = truth, why or {}, after, tolerance
        self.shown = display(self.revealed(), display_id=True)
        self.judge(progress.keep("measured", self.question, self.result()))

    @property
    def answer(self) -> str:
        """What the learner chose or typed, empty where there is no answer yet."""
        text = (self.control.value or "").strip()
        return text if self.choices or number(text) is not None else ""

    @property
    def measured(self) -> str:
        """The truth as it is displayed."""
        return f"{self.truth:.4g}" if isinstance(self.truth, float) else str(self.truth)

    def sentence(self) -> str:
        """Return the answer beside the truth, in one sentence."""
        return f"You {f'said {self.answer}' if self.answer else 'made no prediction'}; we measured {self.measured}."

    def result(self) -> dict[str, Any]:
        """Return what a summary needs after a restart: the truth as displayed, and how near a number must be."""
        near = {} if self.choices else {"truth": float(self.truth or 0), "tolerance": self.tolerance}
        return {"text": self.measured} | near

    def reason(self) -> str:
        """Return the reason that belongs to the answer; to the truth, where nothing was predicted."""
        if self.choices:
            return self.why.get(self.answer or str(self.truth), "")
        return self.why.get(comparison(self.answer, float(self.truth or 0), self.tolerance), "")

    def revealed(self) -> "Prose":
        """Return what the reveal displays."""
        parts = (f"**{self.sentence()}** {self.reason()}".strip(), self.after.strip())
        return Prose("\n\n".join(filter(None, parts)))

    def answered(self, _: Any) -> None:
        """Keep the answer, and judge it, or open what it was asked before."""
        if self.control.value and not self.answer:
            self.verdict.value = status(NO_NUMBER)
            return
        trouble = progress.keep("predictions", self.question, self.answer)
        if self.waits:
            self.uncover(trouble)
            self.place.outputs = tuple(self.told())
        else:
            self.judge(trouble)

    def judge(self, trouble: str = "") -> None:
        """Show the verdict under the answer and in the reveal, once the truth is known; say what went wrong."""
        known = self.truth is not None and self.answer
        self.verdict.value = status(text) if (text := f"{self.sentence() if known else ''} {trouble}".strip()) else ""
        if self.shown is not None:
            self.shown.update(self.revealed())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        choices = f" ({' / '.join(self.choices)})" if self.choices else ""
        return super()._repr_mimebundle_(**kwargs) | {"text/plain": f"Predict: {self.question}{choices}"}


class Prose(str):
    """A text that a notebook displays as Markdown, and a page that cannot as it is."""

    def _repr_markdown_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return str(self)


def buttons(question: str, choices: Sequence[str]) -> widgets.ToggleButtons:
    """Return one button for each choice, none of them pressed; a screen reader describes each by the question."""
    tooltips = [question] * len(choices)  # ipywidgets gives a group of buttons neither a role nor a name
    return widgets.ToggleButtons(options=list(choices), value=None, tooltips=tooltips, style={"button_width": "auto"})


def number_box(question: str) -> widgets.Text:
    """Return an empty box that answers on Enter or when it is left; a screen reader names it by the question."""
    return widgets.Text(placeholder="a number", tooltip=question, continuous_update=False, layout={"width": "10em"})


def comparison(answer: str, truth: float, tolerance: float) -> str:
    """Return how a typed number compares with ``truth``; what is no number counts as about right."""
    guess = number(answer)
    error = 0.0 if guess is None else guess - truth
    return NEAR if abs(error) <= tolerance else LOW if error < 0 else HIGH


def number(text: str) -> float | None:
    """Return the number that ``text`` writes, 0.25, 2e-3 or 3/16; ``None`` for anything else."""
    with suppress(ValueError, ZeroDivisionError, OverflowError):
        return float(Fraction(text.strip()))
    return None
