"""Ten digits that a network draws while the sliders move: the label, how strongly it counts, and the noise."""

from collections.abc import Callable

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from torch import Tensor

from residual_course.explorers.explorer import WIDTH, Explorer
from residual_course.explorers.states import States
from residual_course.plots.adaln_zero import mosaic
from residual_edu.errors import check_shape

WEIGHTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
SHOWN = (0.0, 1.0, 2.0, 4.0, 12.0)  # on a page without a kernel
LABELS, START, COLUMNS, KEPT = 10, 3, 5, 6
LEFT = 40  # pixels left and right of the pictures
Path = Callable[[Tensor, int, float], Tensor]  # noise, label, guidance: the pictures after 0, 1, 2, ... steps


def noise_at(noises: Tensor, place: float) -> Tensor:
    """Return the noise at ``place`` on a way that leads through all ``noises``, as large as they are everywhere."""
    at = min(int(place), len(noises) - 2)
    angle = np.pi / 2 * (place - at)
    return np.cos(angle) * noises[at] + np.sin(angle) * noises[at + 1]


def apart(pictures: Tensor) -> float:
    """Return how far two of ``pictures`` are from each other on average, as the root mean square of a pixel."""
    flat = pictures.flatten(1)
    return torch.pdist(flat).square().mean().div(flat.shape[1]).sqrt().item()


class Sheet(Artist):
    """Pictures side by side, pasted pixel for pixel: an axes would resample them, which takes ten times as long."""

    def __init__(self, left: int, bottom: int, enlarged: int) -> None:
        super().__init__()
        self.left, self.bottom, self.enlarged = left, bottom, enlarged
        self.pixels = np.zeros((0, 0, 4), np.uint8)  # the lowest row first

    def set_images(self, images: Tensor) -> None:
        """Take ``(rows, columns, side, side)`` pictures, from -1 (white) to 1 (black)."""
        ink = np.clip(mosaic(images.numpy(), enlarged=self.enlarged)[::-1], -1, 1)
        grey = np.rint((1 - ink) * 127.5).astype(np.uint8)
        self.pixels = np.dstack([grey, grey, grey, np.full_like(grey, 255)])

    def draw(self, renderer: RendererBase) -> None:
        """Paste the pictures."""
        context = renderer.new_gc()
        renderer.draw_image(context, self.left, self.bottom, self.pixels)
        context.restore()


class DrawingsPicture:
    """Ten drawings, and the first of them on its way; ``draw`` moves the artists listed in ``moving``."""

    def __init__(self, figure: Figure, path: Path, noises: Tensor) -> None:
        self.path, self.noises = path, noises
        self.steps = len(path(noises[0], START, 1.0)) - 1
        self.kept = np.linspace(0, self.steps, KEPT).round().astype(int)
        side = noises.shape[-1] + 2  # with the gap after each picture
        large, small = (int(WIDTH - 2 * LEFT) // (across * side) for across in (COLUMNS, KEPT))
        self.way, self.drawings = Sheet(LEFT, 10, small), Sheet(LEFT, 10 + small * side + 75, large)
        height = 10 + small * side + 75 + 2 * large * side + 35
        figure.set_size_inches(WIDTH / 100, height / 100)
        for x, y, words, weight in (
            (LEFT, height - 25, "Ten drawings, each from its own noise", "bold"),
            (LEFT, 10 + small * side + 42, "The first one on its way", "normal"),
            *((LEFT + at * small * side, 10 + small * side + 12, f"t = {step / self.steps:g}", "normal")
              for at, step in enumerate(self.kept)),
        ):  # fmt: skip
            figure.text(x / WIDTH, y / height, words, weight=weight, va="baseline")
        self.moving: list[Artist] = [figure.add_artist(one) for one in (self.drawings, self.way)]

    def draw(self, label: int, guidance: float, noise: float) -> str:
        """Draw ten digits, and return the reading."""
        pictures = self.path(noise_at(self.noises, noise), label, guidance)
        last = pictures[-1].clamp(-1, 1)  # as it is shown
        self.drawings.set_images(last.unflatten(0, (2, COLUMNS)))
        self.way.set_images(pictures[self.kept, 0][None])
        return f"Label {label}, guidance {guidance:g}: two of the ten drawings differ by {apart(last):.2f} on average."


def explore_drawings(path: Path, noises: Tensor) -> Explorer:
    """Return sliders for the label, the guidance and the noise, over ten digits that are drawn as they move.

    Args:
        path: takes noise (10, side, side), a label from 0 to 9 and a guidance of at least 0, and returns the pictures
            from the noise to the drawings, (steps + 1, 10, side, side), from -1 (paper) to 1 (ink).
        noises: at least two sets of noise, (sets, 10, side, side), through which the slider leads.

    Raises:
        InvalidInput: for noise of another shape.
    """
    check_shape("noises", noises, "sets", 2 * COLUMNS, "side", "side")
    picture = DrawingsPicture(figure := Figure(), path, noises)
    controls = {
        "label": widgets.IntSlider(value=START, min=0, max=LABELS - 1),
        "guidance": widgets.SelectionSlider(options=[(f"{one:g}", one) for one in WEIGHTS], value=2.0),
        "noise": widgets.FloatSlider(value=0.0, min=0.0, max=len(noises) - 1, step=0.1),
    }
    alt = (
        f"Ten drawings of a {START}, each from its own noise, and below them the first one on its way: "
        "six pictures from pure noise to the digit."
    )
    states: States = {"label": list(range(LABELS)), "guidance": SHOWN}
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states=states)
