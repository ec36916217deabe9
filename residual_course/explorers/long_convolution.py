"""Change an implicit kernel's frequency, number of taps and mask: when do the taps still follow the kernel?"""

from functools import cache

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from residual_course.explorers.explorer import Explorer
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.mixing_matrix import LOUDNESS
from residual_course.plots.style import BRANCH, DROPPED, REFERENCE
from residual_edu.mixers import SIRENKernel, convolution_matrix

FINE = 401  # positions at which the whole curve is drawn
OMEGAS, LONGEST, ENOUGH = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0), 128, 0.9


@cache
def unmasked(omega: float, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions and taps, (2 length - 1,) each, of one network with this ``omega``."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        taps, grid = SIRENKernel(1, 1, 16, 2, 16, omega, length, True)([length])
    return grid.flatten().numpy(), taps.flatten().numpy() * length**0.5 / 2  # the length does not change their size


def masked_kernel(omega: float, length: int, decay: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions and taps of the kernel times an exponential mask, as in ``ExponentialModulation``."""
    places, taps = unmasked(omega, length)
    return places, taps * np.exp(-decay * np.abs(places))


def recovered(places: np.ndarray, taps: np.ndarray, fine: np.ndarray, curve: np.ndarray) -> float:
    """Return the share of ``curve``'s energy that straight lines between the taps recover, from 0 to 1."""
    missed = np.mean((np.interp(fine, places, taps) - curve) ** 2)
    return max(0.0, 1 - float(missed / np.mean(curve**2)))


class KernelPicture:
    """The kernel that the network generates, and its taps; below the matrix of the convolution, and what was tried.

    ``draw`` moves the artists listed in ``moving``; nothing else changes.
    """

    def __init__(self, figure: Figure) -> None:
        axes: dict[str, Axes] = figure.subplot_mosaic([["kernel", "kernel"], ["matrix", "map"]], width_ratios=[1, 1.6])
        left, right = axes["kernel"], axes["matrix"]
        left.set(xlim=(-1.03, 1.03), ylim=(-1.6, 1.6), xlabel="position p", ylabel="kernel")
        left.axhline(0, color=REFERENCE, lw=0.6)
        (self.curve,) = left.plot([], [], color=DROPPED, lw=1.5)
        (self.taps,) = left.plot([], [], "o-", color=BRANCH, ms=4, lw=1)
        self.title = left.text(0, 1.04, "", transform=left.transAxes, weight="bold")
        self.image = right.imshow(np.zeros((2, 2)), cmap=LOUDNESS, vmin=0, vmax=1, extent=(0, 1, 1, 0))
        right.set(xticks=[], yticks=[], xlabel="input position", ylabel="output position")
        self.enough, self.few, self.here = plot_map(axes["map"])
        self.moving: list[Artist] = [self.curve, self.taps, self.title, self.image, self.few, self.enough, self.here]
        self.tried: Marks = {}

    def draw(self, omega: float, length: int, decay: float) -> str:
        """Move curve, taps and matrix, and return the reading."""
        places, taps = masked_kernel(omega, length, decay)
        fine, curve = masked_kernel(omega, FINE, decay)
        self.curve.set_data(fine, curve)
        self.taps.set_data(places, taps)
        matrix = np.abs(convolution_matrix(torch.from_numpy(taps), length).numpy())
        self.image.set_data(matrix / max(matrix.max(), 1e-12))
        share = recovered(places, taps, fine, curve)
        self.title.set_text(f"{len(taps)} taps draw {100 * share:.0f} % of the curve")
        self.here.set_data([length], [omega])
        line = self.enough if share >= ENOUGH else self.few
        self.tried = {line: self.here.get_data()} if decay == 0 else {}
        far = float(np.exp(-decay))
        return (
            f"With ω₀ = {omega:g} and a signal of {length} there are {len(taps)} taps; straight lines between them "
            f"recover {100 * share:.0f} % of the kernel. At the far ends the mask leaves {100 * far:.3g} %."
        )


def plot_map(ax: Axes) -> tuple[Line2D, Line2D, Line2D]:
    """Return three lines on a map of length and ω₀: dots for enough taps, crosses for too few, and a ring."""
    (few,) = ax.plot([], [], "x", color=DROPPED, ms=6)
    (enough,) = ax.plot([], [], "o", color=REFERENCE, ms=6)
    (here,) = ax.plot([], [], "o", color=BRANCH, ms=12, fillstyle="none")
    ax.set(xscale="log", yscale="log", xlim=(3, 1.4 * LONGEST), ylim=(0.7, 45), xlabel="length", ylabel="ω₀")
    ax.set_xticks(ticks := [4, 8, 16, 32, 64, 128], [str(tick) for tick in ticks])
    ax.set_yticks(OMEGAS[::2], [f"{omega:g}" for omega in OMEGAS[::2]])
    ax.minorticks_off()
    ax.set_title(f"no mask: ● at least {100 * ENOUGH:.0f} %, × less", weight="normal")
    return enough, few, here


def explore_kernel() -> Explorer:
    """Return an explorer of one implicit kernel, its taps and its matrix."""
    figure = Figure(figsize=(6, 4.8))
    controls = {
        "omega": widgets.SelectionSlider(options=OMEGAS, value=4.0, description="ω₀"),
        "length": widgets.IntSlider(8, 4, LONGEST, description="length of the signal"),
        "decay": widgets.FloatSlider(0.0, min=0.0, max=14.0, step=0.5, description="decay of the mask"),
    }
    picture = KernelPicture(figure)
    alt = (
        "Above, a wavy kernel from -1 to 1, and its 15 taps as dots that miss its turns. Below, the matrix "
        "of the convolution, constant along every diagonal, and a map of length and ω₀ with one cross."
    )
    states: States = {"omega": [4.0, 8.0, 16.0], "length": [8, 13, 24, 47, 64], "decay": [0.0, 5.0]}
    return Explorer(
        figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=lambda: picture.tried, states=states
    )
