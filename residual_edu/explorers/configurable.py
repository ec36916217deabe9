"""Pick two configs and compare their losses, parameters, bytes cached a token, and gradients."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import ipywidgets as widgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_edu.explorers.explorer import Explorer
from residual_edu.plotting.configurable import COLORS, plot_learning
from residual_edu.plotting.style import DROPPED, SERIES

DASHES = "– –", "—"  # before the numbers of a run: its curves' dash
SMOOTH = 15  # steps over which a loss is averaged


class Run(NamedTuple):
    """Measurements of a config that was trained."""

    losses: ArrayLike  # before each step
    tested: float  # the loss on text that it has not seen
    parameters: int
    kept: float  # bytes for a token
    stream_gradient: ArrayLike  # the gradient's size at each end of the blocks of a deep stack, before any training


class RunsPicture:
    """Two runs side by side; ``draw`` moves the artists listed in ``moving``."""

    def __init__(self, figure: Figure, runs: Mapping[str, Run], bound: float) -> None:
        self.runs = runs
        halves = figure.add_gridspec(1, 2, width_ratios=[1.25, 1])
        left, right = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
        smooth = [smoothed(run.losses) for run in runs.values()]
        learned = plot_learning(smooth[:2], bound, left.subplots())
        learned.set_title("how they learned")
        learned.set_ylim(0.9 * min(map(min, smooth)), max(losses[len(losses) // 16] for losses in smooth))
        self.curves = learned.lines[:2]
        bars, back = right.subplots(2, 1)
        self.bars, self.words = draw_bars(bars)
        self.returns = draw_returns(back, runs)
        self.moving: list[Artist] = [*self.curves, *self.bars, *self.words, *self.returns]

    def draw(self, dashed: str, solid: str) -> str:
        """Show two runs, and return the reading."""
        pair = [self.runs[dashed], self.runs[solid]]
        largest = [max(run.parameters for run in self.runs.values()), max(run.kept for run in self.runs.values())]
        for i, run in enumerate(pair):
            self.curves[i].set_ydata(smoothed(run.losses))
            self.returns[i].set_ydata(against_end(run))
            words = f"{run.parameters:,} parameters", f"{run.kept:,.0f} bytes a token"
            for j, amount in enumerate((run.parameters, run.kept)):
                self.bars[2 * j + i].set_width(amount / largest[j])
                self.words[2 * j + i].set_text(f"{DASHES[i]} {words[j]}")
        return " ".join(map(sentence, ("Dashed", "Solid"), (dashed, solid), pair))


def sentence(line: str, name: str, run: Run) -> str:
    """Return the reading for one run."""
    return (
        f"{line}, {name}: a loss of {run.tested:.2f} on new text, {run.parameters:,} parameters, {run.kept:,.0f} "
        f"bytes a token; before training the first block's gradient is {against_end(run)[0]:.2f} times the last one's."
    )


def smoothed(losses: ArrayLike) -> np.ndarray:
    """Return the running mean over ``SMOOTH`` steps."""
    return np.convolve(np.asarray(losses, float), np.full(SMOOTH, 1 / SMOOTH), mode="valid")


def against_end(run: Run) -> np.ndarray:
    """Return the gradient at each end of the blocks, divided by the last."""
    delta = np.asarray(run.stream_gradient, float)
    return delta / delta[-1]


def draw_bars(ax: Axes) -> tuple[list[Any], list[Any]]:
    """Return two bars of length 0 for the parameters and two for the bytes, and their labels."""
    rows = [0, 1, 2.5, 3.5]
    bars = ax.barh(rows, np.zeros(4), color=[*COLORS[:2], *COLORS[:2]], height=0.8, alpha=0.45)
    words = [ax.text(0.02, row, "", va="center") for row in rows]
    ax.set(ylim=(4.2, -0.7), xlim=(0, 1), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_title("weights, bytes kept")
    return list(bars), words


def draw_returns(ax: Axes, runs: Mapping[str, Run]) -> list[Any]:
    """Return the curves of two runs' gradients, over those of all in grey."""
    for run in runs.values():
        ax.plot(against_end(run), color=DROPPED, lw=0.6, alpha=0.5)
    first = against_end(next(iter(runs.values())))
    curves = [ax.plot(first, color=color, ls=dash, lw=2)[0] for color, dash, _ in SERIES[:2]]
    ax.set(yscale="log", xlabel="blocks passed", ylabel="over the last's")
    ax.set_yticks([1, 3, 10], ["1", "3", "10"])
    ax.minorticks_off()
    ax.set_xticks(range(0, len(first), 2))
    ax.set_title("gradient at the start")
    return curves


def explore_runs(runs: Mapping[str, Run], bound: float) -> Explorer:
    """Return two pickers over ``runs``; ``bound`` is the loss that a table of pairs reaches."""
    figure = Figure(figsize=(6, 4.4))
    picture = RunsPicture(figure, runs, bound)
    names = list(runs)
    controls = {
        "dashed": widgets.Dropdown(options=names, value=names[0]),
        "solid": widgets.Dropdown(options=names, value=names[-1]),
    }
    alt = (
        f"Two configs side by side, {names[0]} and {names[-1]}: their losses over the steps with a dotted line at "
        "that of a table of pairs, bars for parameters and for bytes kept a token, and the gradient along 8 blocks."
    )
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states={"solid": names})
