"""A question asked before its answer is shown."""

import html
from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets

from residual_edu import progress
from residual_edu.errors import check_choice, check_text
from residual_edu.explorers.explorer import status


class Prediction(widgets.VBox):
    """A question with buttons (a choice) or a box (a number); ``reveal`` sets what was said beside what was seen.

    An unanswered one never fails a run, and answering after the reveal shows the verdict at once. Nothing is marked
    right or wrong: both answers stand side by side, and the learner judges how near a number came. In a learner's own
    copy the answer is kept, and stands there again after a restart.

    Args:
        question: what to predict.
        choices: the answers to choose from; ``None`` asks for a number.

    Raises:
        InvalidInput: if ``question`` is empty, or the truth revealed is none of the choices.
    """

    def __init__(self, question: str, choices: Sequence[str] | None = None) -> None:
        check_text("question", question)
        self.question, self.choices, self.truth = question, choices, ""
        self.control = buttons(choices) if choices else number_box(question)
        self.verdict, kept = widgets.HTML(), progress.recall("predictions", question)
        super().__init__([widgets.HTML(f"<b>{html.escape(question, quote=False)}</b>"), self.control, self.verdict])
        self.add_class("residual-edu-prediction")
        if isinstance(kept, str) and (not choices or kept in choices):
            self.control.value = kept
        self.control.observe(self.answered, "value")

    def reveal(self, truth: str | int | float) -> None:
        """Print what was said beside what was seen, ``truth``: one of the choices, or a number."""
        if self.choices:
            check_choice("truth", str(truth), self.choices)
        self.truth = f"{truth:.4g}" if isinstance(truth, float) else str(truth)
        self.judge()
        print(self.sentence())

    @property
    def said(self) -> str:
        """The learner's answer, empty where there is none yet."""
        return (self.control.value or "").strip()

    def sentence(self) -> str:
        """Set the answer beside the truth, in one sentence."""
        said = f"You said {self.said}" if self.said else "You made no prediction"
        return f"{said}; we saw {self.truth}."

    def answered(self, _: Any) -> None:
        """Keep the answer, and judge it."""
        self.judge(progress.keep("predictions", self.question, self.said))

    def judge(self, trouble: str = "") -> None:
        """Show under the answer the verdict, once the truth is known, and what went wrong on the way."""
        verdict = self.sentence() if self.said and self.truth else ""
        self.verdict.value = status(f"{verdict} {trouble}".strip()) if verdict or trouble else ""

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        choices = f" ({' / '.join(self.choices)})" if self.choices else ""
        return super()._repr_mimebundle_(**kwargs) | {"text/plain": f"Predict: {self.question}{choices}"}


def buttons(choices: Sequence[str]) -> widgets.ToggleButtons:
    """Return one button for each choice, none of them pressed."""
    return widgets.ToggleButtons(options=list(choices), value=None, style={"button_width": "auto"})


def number_box(question: str) -> widgets.Text:
    """Return an empty box; a screen reader names it by the question."""
    return widgets.Text(placeholder="a number", tooltip=question, layout={"width": "10em"})
