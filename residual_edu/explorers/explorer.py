"""A picture with sliders, which redraws fast and brings a still picture for pages without a kernel."""

import base64
import html
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from residual_edu.errors import check_text


class Explorer(widgets.VBox):
    """Sliders over one persistent figure, drawn by Agg and sent to one image, with a live reading under it.

    The first picture is drawn in full and its layout kept. Where ``animated`` names the artists that move, only they
    are drawn again, in that order, over the rest. On a page without a kernel the first picture is shown, with ``alt``
    as its alternative text. Where a later one cannot be drawn, the last picture stays and the reason is shown below.

    Args:
        figure: a figure made without pyplot.
        draw: called with the controls' values by name; moves the artists and returns the reading, one sentence that
            with the numbers that the picture now shows.
        controls: the sliders and toggles, by the name that ``draw`` takes; it labels those without a description.
        alt: what the first picture shows and means, in one or two sentences.
        animated: the artists that ``draw`` moves, titles and texts too; empty to redraw the whole figure.

    Raises:
        InvalidInput: if ``alt`` is empty.
    """

    def __init__(
        self,
        figure: Figure,
        draw: Callable[..., str],
        controls: dict[str, widgets.ValueWidget],
        *,
        alt: str,
        animated: Sequence[Artist] = (),
    ) -> None:
        check_text("alt", alt)
        self.canvas, self.still_frame = FigureCanvasAgg(figure), None
        self.draw, self.inputs, self.alt, self.animated = draw, controls, alt, animated
        for artist in animated:
            artist.set_animated(True)
        self.image = widgets.Image(format="png", layout={"align_self": "flex-start"})  # else stretched, and blurred
        self.reading = widgets.HTML()
        super().__init__([*labelled(controls), self.image, self.reading])
        self.add_class("residual-edu-explorer")
        self.redraw()
        self.first_picture = self.image.value
        for control in controls.values():
            control.observe(self.changed, "value")

    def redraw(self) -> None:
        """Draw the picture for the controls' values, and show its reading."""
        reading = self.draw(**{name: control.value for name, control in self.inputs.items()})
        self.paint()
        self.image.value = self.png()
        self.reading.value = status(reading)

    def changed(self, _: Any) -> None:
        """Redraw, or show under the picture why not: a traceback would go to a log that no learner reads."""
        try:
            self.redraw()
        except Exception as error:
            self.reading.value = status(f"This cannot be drawn, so the picture stays as it was: {error}")

    def paint(self) -> None:
        """Draw the moving artists over the kept frame, or everything if none was named."""
        figure = self.canvas.figure
        if self.animated and self.still_frame:
            self.canvas.restore_region(self.still_frame)
        else:
            self.canvas.draw()
            figure.set_layout_engine("none")  # axes that shift while a slider moves distract, and cost a layout
            self.still_frame = self.canvas.copy_from_bbox(figure.bbox)
        for artist in self.animated:
            figure.draw_artist(artist)

    def png(self) -> bytes:
        """Return the canvas as an opaque PNG, compressed for speed."""
        buffer = io.BytesIO()
        Image.fromarray(np.asarray(self.canvas.buffer_rgba())).convert("RGB").save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        still = {"text/plain": self.alt, "image/png": base64.b64encode(self.first_picture).decode()}
        return super()._repr_mimebundle_(**kwargs) | still, {"image/png": {"alt": self.alt}}


def labelled(controls: dict[str, widgets.ValueWidget]) -> list[widgets.ValueWidget]:
    """Return the controls with their labels, aligned in one column of labels and one of controls."""
    for name, control in controls.items():
        control.description = control.description or name.replace("_", " ")
    longest = max((len(control.description) for control in controls.values()), default=0)
    for control in controls.values():
        control.style.description_width, control.layout.width = f"{longest}ch", "min(100%, 36em)"
        if isinstance(control, widgets.ToggleButtons):
            control.add_class("widget-inline-hbox")  # the label to the left, where every other control has it
    return list(controls.values())


def choice_buttons(options: Iterable[object], description: str = "") -> widgets.ToggleButtons:
    """Return one button for each of a few options, as wide as its word."""
    return widgets.ToggleButtons(options=list(options), description=description, style={"button_width": "auto"})


def status(sentence: str) -> str:
    """Return ``sentence`` as HTML that a screen reader announces when it changes."""
    return f'<div role="status">{html.escape(sentence, quote=False)}</div>'
