"""Ten digits that a network draws while the sliders move: the label, how strongly it counts, and the noise."""

from collections.abc import Callable

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from torch import Tensor

from residual_edu.errors import check_shape
from residual_edu.explorers.explorer import Explorer
from residual_edu.explorers.states import States
from residual_edu.plotting.adaln_zero import mosaic, plot_digits

WEIGHTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
SHOWN = (0.0, 1.0, 2.0, 4.0, 12.0)  # on a page without a kernel
LABELS, START, COLUMNS = 10, 3, 5
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


class DrawingsPicture:
    """Ten drawings, and the first of them on its way; ``draw`` moves the artists listed in ``moving``."""

    def __init__(self, figure: Figure, path: Path, noises: Tensor) -> None:
        self.path, self.noises = path, noises
        self.steps = len(path(noises[0], START, 1.0)) - 1
        self.kept = np.linspace(0, self.steps, 6).round().astype(int)
        upper, lower = figure.subplots(2, 1, height_ratios=[1.9, 1])
        empty = np.full((2, COLUMNS, *noises.shape[2:]), -1.0)
        self.drawings = plot_digits(empty, upper).images[0]
        times = [f"t = {step / self.steps:g}" for step in self.kept]
        self.way = plot_digits(empty[:1, [0] * 6], lower, columns=times).images[0]
        lower.set_title("the first one on its way", weight="normal")
        self.title = upper.text(0, 1.04, "", transform=upper.transAxes, weight="bold")
        self.moving: list[Artist] = [self.drawings, self.way, self.title]

    def draw(self, label: int, guidance: float, noise: float) -> str:
        """Draw ten digits, and return the reading."""
        pictures = self.path(noise_at(self.noises, noise), label, guidance)
        last = pictures[-1].clamp(-1, 1)  # as it is shown
        self.drawings.set_data(np.clip(mosaic(last.unflatten(0, (2, COLUMNS)).numpy()), -1, 1))
        self.way.set_data(np.clip(mosaic(pictures[self.kept, 0][None].numpy()), -1, 1))
        self.title.set_text(f"label {label}, guidance {guidance:g}")
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
    picture = DrawingsPicture(figure := Figure(figsize=(6, 4.4)), path, noises)
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
