"""A question asked before its answer is shown.

    with predict("How does the loss end?", ["lower", "as high as guessing"]):
        runs = train(...)  # at once; its names stay, what it shows is held back until a choice is clicked

Which choice is true, and the reason for each, says the lesson's companion. A choice displays what was predicted beside
what was measured, the reason that belongs to it, what the block showed, and the explanation.
"""

import html
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import ipywidgets as widgets
from IPython.core.getipython import get_ipython

from residual_course import companion, progress
from residual_course.explorers.controls import status
from residual_course.explorers.held import Held, Output, markdown, replay
from residual_edu.errors import check_choice


class Prediction(widgets.VBox):
    """A question with a button for each choice; an unanswered one never fails a run.

    Beside the course's notebooks the answer is kept, and stands there again after a restart.

    Args:
        question: what to predict.
        choices: the answers to choose from.
    """

    def __init__(self, question: str, choices: Sequence[str]) -> None:
        self.question, self.choices = question, choices
        self.truth = ""  # not known before the block has run
        self.why: dict[str, str] = {}
        self.after = ""
        self.held, self.waits = Held(), False  # what the block showed, and whether it waits for an answer
        tooltips = [question] * len(choices)  # for a screen reader: a group of buttons has neither a role nor a name
        style = {"button_width": "auto"}
        self.control = widgets.ToggleButtons(options=list(choices), value=None, tooltips=tooltips, style=style)
        self.asked, self.place = widgets.HTML(f"<b>{html.escape(question, quote=False)}</b>"), widgets.Output()
        self.verdict, kept = widgets.HTML(), progress.recall("predictions", question)
        super().__init__([self.asked, self.control, self.verdict, self.place])
        self.add_class("residual-edu-prediction")
        if kept in choices:
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
        if self.truth not in self.choices:
            replay(self.held.outputs)  # an error hides nothing
            self.children = [self.asked]
        if kind is None:
            self.keep_back()

    def look_up(self) -> None:
        """Ask the companion for the reasons, and for the truth, unless the block has set it."""
        said = companion.answer_of(self.question)
        self.why, self.after = said.get("why", {}), said.get("after", "")
        if not self.truth and "truth" in said and (shell := get_ipython()):
            self.truth = eval(said["truth"], shell.user_ns)  # the course's own words, over what the cell measured

    def keep_back(self) -> None:
        """Keep back what the block showed, unless the question is answered already, or this is a build."""
        check_choice("guess.truth", self.truth, self.choices)
        self.waits = True
        if self.answer or os.environ.get("RESIDUAL_EDU_BUILD"):
            self.uncover()
            replay(self.told())  # in the cell itself, so that a saved notebook has it

    def uncover(self, trouble: str = "") -> None:
        """Put the verdict in the place of the buttons."""
        self.children = [self.asked, self.verdict, self.place]
        kept = progress.keep("measured", self.question, {"text": self.truth})
        self.verdict.value = status(f"{self.sentence()} {trouble or kept}".strip())

    def told(self) -> list[Output]:
        """Return what an answer opens: the reason for it, what was held back, and the explanation."""
        reason = self.why.get(self.answer or self.truth, "")
        if not self.answer:
            reason = f"**{self.sentence()}** {reason}".strip()
        return [*markdown(reason), *self.held.outputs, *markdown(self.after)]

    @property
    def answer(self) -> str:
        """What the learner chose, empty where there is no answer yet."""
        return self.control.value or ""

    def sentence(self) -> str:
        """Return the answer beside the truth, in one sentence."""
        return f"You {f'said {self.answer}' if self.answer else 'made no prediction'}; we measured {self.truth}."

    def answered(self, _: Any) -> None:
        """Keep the answer, and open what it was asked before."""
        trouble = progress.keep("predictions", self.question, self.answer)
        if self.waits:
            self.uncover(trouble)
            self.place.outputs = tuple(self.told())
        else:
            self.verdict.value = status(trouble) if trouble else ""

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        text = f"Predict: {self.question} ({' / '.join(self.choices)})"
        return super()._repr_mimebundle_(**kwargs) | {"text/plain": text}
