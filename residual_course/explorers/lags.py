"""A few taps that predict a neuron's voltage: which lags must they cover, for which horizon?"""

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from torch import Tensor

from residual_course.datasets import neuron_voltage
from residual_course.explorers.explorer import Explorer
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.style import BRANCH, DROPPED, REFERENCE, B

TAPS, REACH, SHOWN, ENOUGH = 16, 256, 300, 0.25


def regular_spikes() -> tuple[Tensor, Tensor]:
    """Return the voltage of 1,800 ms for training and of 900 ms for testing, in standard deviations, float64."""
    volt = neuron_voltage().double().view(-1, 2).mean(1)[900:3600]
    volt = (volt - volt.mean()) / volt.std()
    return volt[:1800], volt[1800:]


def past(signal: Tensor, first: int, ahead: int) -> tuple[Tensor, Tensor]:
    """Return for each time ``TAPS`` numbers of the past, (times, TAPS), from lag ``first`` on, and what comes."""
    times = len(signal) - ahead - REACH
    rows = [signal[REACH - lag : REACH - lag + times] for lag in range(first, first + TAPS)]
    return torch.stack(rows, dim=1), signal[REACH + ahead :]


def solved(first: int, ahead: int) -> tuple[float, Tensor, Tensor]:
    """Return the test error of the best taps from lag ``first`` on, their prediction, and what was measured."""
    train, test = regular_spikes()
    x, y = past(train, first, ahead)
    taps = torch.linalg.solve(x.mT @ x + 1e-6 * len(x) * torch.eye(TAPS).double(), x.mT @ y)
    x, y = past(test, first, ahead)
    error = (x @ taps - y).square().mean() / y.var(correction=0)
    return error.item(), x @ taps, y


class LagPicture:
    """Above a prediction over the measured voltage, below a map of the horizons and first lags that were tried."""

    def __init__(self, figure: Figure) -> None:
        above, below = figure.subplots(2, 1)
        above.set(xlabel="time (ms)", ylabel="voltage (std)", xlim=(0, SHOWN), ylim=(-2, 6))
        (self.measured,) = above.plot([], [], ":", color=REFERENCE, lw=1.5)
        (self.prediction,) = above.plot([], [], color=B, lw=1.5)
        self.title = above.text(0, 1.04, "", transform=above.transAxes, weight="bold")
        (self.bad,) = below.plot([], [], "x", color=DROPPED, ms=6)
        (self.good,) = below.plot([], [], "o", color=REFERENCE, ms=6)
        (self.here,) = below.plot([], [], "o", color=BRANCH, ms=12, fillstyle="none")
        below.set(xlabel="milliseconds ahead", ylabel="first lag", xlim=(0, 144), ylim=(-8, 208))
        below.set_title(f"tried: ● error below {ENOUGH:g}, × above", weight="normal")
        self.moving: list[Artist] = [self.measured, self.prediction, self.title, self.bad, self.good, self.here]
        self.tried: Marks = {}

    def draw(self, ahead: int, first: int) -> str:
        """Move the curves, and return the reading."""
        error, prediction, measured = solved(first, ahead)
        time = np.arange(SHOWN)
        self.measured.set_data(time, measured[:SHOWN].numpy())
        self.prediction.set_data(time, prediction[:SHOWN].numpy())
        lags = f"lags {first} to {first + TAPS - 1}"
        self.title.set_text(f"{ahead} ms ahead from {lags}: error {error:.2f}")
        self.here.set_data([ahead], [first])
        self.tried = {self.good if error < ENOUGH else self.bad: self.here.get_data()}
        return f"{TAPS} taps at {lags} predict the voltage {ahead} ms ahead with an error of {error:.2f}."


def explore_lags() -> Explorer:
    """Return an explorer of where 16 taps must stand to predict a neuron's voltage some milliseconds ahead."""
    picture = LagPicture(figure := Figure(figsize=(6, 4.4)))
    controls = {
        "ahead": widgets.IntSlider(100, 4, 140, description="milliseconds ahead"),
        "first": widgets.IntSlider(0, 0, 200, description="first lag"),
    }
    alt = (
        "Above, the measured voltage with four spikes, and a low prediction 100 ms ahead from lags 0 to 15 that "
        "misses them. Below, a map of horizons and first lags with one cross."
    )
    states: States = {"ahead": [8, 32, 64, 100], "first": [0, 20, 35, 50, 60, 80, 100, 120]}
    return Explorer(
        figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=lambda: picture.tried, states=states
    )
