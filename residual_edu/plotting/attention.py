"""Attention: a weighted mean, the sharpness of a softmax, rotary angles as clock hands, scores by distance."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_edu.plotting.mixing_matrix import LOUDNESS, plot_mixing_matrix
from residual_edu.plotting.style import BRANCH, DROPPED, SERIES, STREAM, B
from residual_edu.renamed import refuse_old_keywords


def plot_weighted_mean(weights: ArrayLike, values: ArrayLike, ax: Axes) -> Axes:
    """Draw each token as a bar, as high as its value and as wide as its weight, and their weighted mean.

    The area of a bar is the token's share of the mean; the weights fill the axis from 0 to 1.
    """
    weights, values = np.asarray(weights, float), np.asarray(values, float)
    right = weights.cumsum()
    ax.bar(right - weights, values, weights, align="edge", color=STREAM, edgecolor="white", lw=2)
    for place, (weight, value) in enumerate(zip(weights, values, strict=True), 1):
        middle = right[place - 1] - weight / 2
        ax.text(middle, value + 0.12, f"{value:g}", ha="center", va="bottom", color=STREAM, weight="bold")
    mean = float(weights @ values)
    ax.axhline(mean, color=BRANCH)
    ax.text(1.01, mean, f"mean: {mean:g}", color=BRANCH, weight="bold", va="center")
    ax.set_xticks(right - weights / 2, [f"{place}\n{weight:g}" for place, weight in enumerate(weights, 1)])
    ax.tick_params(axis="x", length=0)
    ax.set(xlim=(0, 1), ylim=(0, 1.15 * values.max()), xlabel="token, and under it its weight", ylabel="value")
    return ax


def plot_sharpness(dims: ArrayLike, curves: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw the largest weight against the number of features, a named curve, (seeds, dims), for each scale."""
    dims = np.asarray(dims, float)
    for (name, rows), (color, dash, mark) in zip(curves.items(), SERIES, strict=False):
        rows = np.atleast_2d(np.asarray(rows, float))
        for row in rows:
            ax.plot(dims, row, color=color, ls=dash, lw=1.4, marker=mark, ms=3.5)
        ax.text(dims[-1] * 1.15, rows[:, -1].mean(), name, color=color, weight="bold", va="center")
    ax.set_xscale("log", base=2)
    ax.set_xticks(dims, [f"{dim:g}" for dim in dims])
    ax.minorticks_off()
    ax.set(ylim=(0, 1.03), xlabel="features of a query, d", ylabel="largest weight of 16")
    return ax


def plot_masks(masks: Mapping[str, ArrayLike], axes: Iterable[Axes]) -> list[Axes]:
    """Draw named masks, one in each of ``axes``: orange where a query (row) may attend to a key (column)."""
    panels = list(axes)
    for ax, (name, mask) in zip(panels, masks.items(), strict=True):
        plot_mixing_matrix(np.asarray(mask, float), ax, top=2.0, named=False).set_title(
            name, weight="normal", loc="center"
        )
        ax.set_xlabel("key")
    panels[0].set(xlabel="key (grey: no)", ylabel="query")
    return panels


def plot_patches(image: ArrayLike, patch: int, ax: Axes) -> Axes:
    """Draw an image with the lines along which it is cut into patches."""
    image = np.asarray(image, float)
    ax.imshow(image, cmap="gray_r", vmin=0, vmax=1)
    for line in range(patch, len(image), patch):
        ax.axhline(line - 0.5, color=B, lw=1.4)
        ax.axvline(line - 0.5, color=B, lw=1.4)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax


def plot_hands(angles: ArrayLike, ax: Axes) -> Axes:
    """Draw angles, (positions, pairs), as clock hands: a column for each position, a row for each pair."""
    angles = np.asarray(angles, float)
    for (position, pair), angle in np.ndenumerate(angles):
        circle = np.linspace(0, 2 * np.pi, 49)
        ax.plot(position + 0.4 * np.cos(circle), pair - 0.4 * np.sin(circle), color=DROPPED, lw=0.6)
        ax.plot([position, position + 0.4 * np.cos(angle)], [pair, pair - 0.4 * np.sin(angle)], color=B, lw=2.4)
    positions, pairs = angles.shape
    ax.set(xlim=(-0.6, positions - 0.4), ylim=(pairs - 0.4, -0.6), aspect="equal", xlabel="position")
    ax.set_xticks(range(positions))
    ax.set_yticks(range(pairs), [f"pair {pair}" for pair in range(pairs)])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return ax


@refuse_old_keywords
def plot_scores_by_distance(scores: ArrayLike, ax: Axes, color: str = B) -> Axes:
    """Draw every score, (queries, keys), as a dot over the distance between its two positions."""
    scores = np.asarray(scores, float)
    queries, keys = np.indices(scores.shape)
    ax.plot((keys - queries).ravel(), scores.ravel(), "o", color=color, ms=3, alpha=0.5, mew=0)
    ax.set(xlabel="key's position minus query's", ylabel="score")
    return ax


def plot_score_map(scores: ArrayLike, here: tuple[int, int], ax: Axes) -> Axes:
    """Draw the scores of the query at ``here``, (row, column), with the keys of a grid, and ring its place."""
    scores = np.asarray(scores, float)
    ax.imshow(scores, cmap=LOUDNESS)
    ax.plot(here[1], here[0], "o", ms=13, mfc="none", mec="white", mew=2)
    ax.set(xticks=[], yticks=[])
    return ax
