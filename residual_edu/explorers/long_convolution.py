"""Change an implicit kernel's frequency, number of taps and mask: when do the taps still follow the kernel?"""

from functools import cache

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from residual_edu.explorers.explorer import Explorer
from residual_edu.mixers import SIRENKernel, convolution_matrix
from residual_edu.plotting.mixing_matrix import LOUDNESS
from residual_edu.plotting.style import BRANCH, DROPPED, REFERENCE

FINE = 401  # positions at which the whole curve is drawn


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
    """Left the kernel that the network generates, and its taps; right the matrix of the convolution.

    ``draw`` moves the artists listed in ``moving``; nothing else changes.
    """

    def __init__(self, figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=[1.7, 1])
        left.set(xlim=(-1.03, 1.03), ylim=(-1.6, 1.6), xlabel="position p", ylabel="kernel")
        left.axhline(0, color=REFERENCE, lw=0.6)
        (self.curve,) = left.plot([], [], color=DROPPED, lw=1.5)
        (self.taps,) = left.plot([], [], "o-", color=BRANCH, ms=4, lw=1)
        self.title = left.text(0, 1.04, "", transform=left.transAxes, size=12, weight="bold")
        self.image = right.imshow(np.zeros((2, 2)), cmap=LOUDNESS, vmin=0, vmax=1, extent=(0, 1, 1, 0))
        right.set(xticks=[], yticks=[], xlabel="input position", ylabel="output position")
        self.moving: list[Artist] = [self.curve, self.taps, self.title, self.image]

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
        far = float(np.exp(-decay))
        return (
            f"With ω₀ = {omega:g} and a signal of {length} there are {len(taps)} taps; straight lines between them "
            f"recover {100 * share:.0f} % of the kernel. At the far ends the mask leaves {100 * far:.3g} %."
        )


def explore_kernel() -> Explorer:
    """Return an explorer of one implicit kernel, its taps and its matrix."""
    figure = Figure(figsize=(7, 3.4))
    controls = {
        "omega": widgets.SelectionSlider(options=[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], value=4.0, description="ω₀"),
        "length": widgets.IntSlider(8, 4, 128, description="length of the signal"),
        "decay": widgets.FloatSlider(0.0, min=0.0, max=14.0, step=0.5, description="decay of the mask"),
    }
    picture = KernelPicture(figure)
    alt = (
        "Left, a wavy kernel from -1 to 1, and its 15 taps as dots that miss its turns. Right, the matrix "
        "of the convolution, constant along every diagonal."
    )
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving)
