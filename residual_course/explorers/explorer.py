"""A picture with sliders, which redraws fast and brings a still picture for pages without a kernel."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from residual_course.explorers.controls import FLUSH, labelled, status
from residual_course.explorers.states import States, check_states

WIDTH = 600  # pixels of every picture


class Explorer(widgets.VBox):
    """Sliders over one persistent figure, drawn by Agg and sent to one image, with a live reading under it.

    The first picture is drawn in full and its layout kept. Where ``animated`` names the artists that move, only they
    are drawn again, in that order, over the rest. On a page without a kernel the first picture is shown, with ``alt``
    as its alternative text. Where a later one cannot be drawn, the last picture stays and the reason is shown below.

    Args:
        figure: a figure made without pyplot, 6 inches wide: its picture has 600 pixels.
        draw: called with the controls' values by name; moves the artists and returns the reading, one sentence that
            with the numbers that the picture now shows.
        controls: the sliders, by the name that ``draw`` takes; it labels those without a description.
        alt: what the first picture shows and means, in one or two sentences.
        animated: the artists that ``draw`` moves, titles and texts too; empty to redraw the whole figure.
        states: for a page without a kernel, the values of some controls, at most 60 combinations; the others stay.

    Raises:
        InvalidInput: if ``alt`` is empty, or ``states`` are too many, without the start, or of no control.
    """

    def __init__(
        self,
        figure: Figure,
        draw: Callable[..., str],
        controls: dict[str, widgets.ValueWidget],
        *,
        alt: str,
        animated: Sequence[Artist] = (),
        states: States | None = None,
    ) -> None:
        self.states, self.start = states or {}, {name: control.value for name, control in controls.items()}
        check_states(self.states, self.start)
        figure.set_dpi(WIDTH / figure.get_figwidth())
        self.canvas, self.still_frame = FigureCanvasAgg(figure), None
        self.draw, self.inputs, self.alt, self.animated = draw, controls, alt, animated
        for artist in animated:
            artist.set_animated(True)
        layout = {"align_self": "flex-start", "margin": FLUSH}  # else stretched, and blurred
        self.image = widgets.Image(format="png", layout=layout)
        self.reading = widgets.HTML()
        super().__init__([*labelled(controls), self.image, self.reading])
        self.add_class("residual-edu-explorer")
        self.redraw()
        self.first_picture = self.image.value
        for control in controls.values():
            control.observe(self.changed, "value")

    def redraw(self) -> None:
        """Draw the picture for the controls' values, and show its reading."""
        reading = self.draw_setting({name: control.value for name, control in self.inputs.items()})
        self.image.value = self.png()
        self.reading.value = status(reading)

    def draw_setting(self, values: Mapping[str, Any]) -> str:
        """Draw the canvas for ``values`` of the controls, and return the reading."""
        reading = self.draw(**values)
        self.paint()
        return reading

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
        self.pixels().save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()

    def pixels(self) -> Image.Image:
        """Return the canvas without its alpha channel."""
        return Image.fromarray(np.asarray(self.canvas.buffer_rgba())).convert("RGB")

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        still = {"text/plain": self.alt, "image/png": base64.b64encode(self.first_picture).decode()}
        return super()._repr_mimebundle_(**kwargs) | still, {"image/png": {"alt": self.alt}}
