"""Choose a token and see what it attends to, in one network or several, before training and after."""

from collections.abc import Mapping, Sequence
from math import isqrt

import ipywidgets as widgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_course.explorers.explorer import Explorer, choice_buttons
from residual_course.explorers.states import States
from residual_course.plots.style import BRANCH, REFERENCE
from residual_course.plots.vit5 import plot_heard, text_color

TOP = 0.25  # the share of attention that is drawn darkest


class AttentionPicture:
    """The attention of one token: the image with the token framed, then a map for each network."""

    def __init__(self, figure: Figure, images: ArrayLike, maps: Mapping[str, ArrayLike], others: Sequence[str]) -> None:
        self.images, self.others = np.asarray(images, float), list(others)
        self.maps = {name: np.asarray(table, float) for name, table in maps.items()}
        first, *rest = figure.subplots(1, 1 + len(maps), width_ratios=[1, *[1.25] * len(maps)])
        self.side = isqrt(next(iter(self.maps.values())).shape[-1] - 1)  # others are at most two rows of patches
        self.digit = first.imshow(self.images[0], cmap="Greys", vmin=0, vmax=1, extent=(0, self.side, self.side, 0))
        first.set(xticks=[], yticks=[])
        first.spines[:].set_visible(False)
        self.frame = Rectangle((0, 0), 1, 1, fill=False, edgecolor=BRANCH, lw=3)
        first.add_patch(self.frame)
        self.title = first.text(0, -0.25, "", weight="bold", color=REFERENCE)
        self.views = dict(zip(self.maps, rest, strict=True))
        for name, ax in self.views.items():
            plot_heard(self.maps[name][0, 0, 0, 0], self._rest(name), TOP, ax)
            ax.set_title(name, weight="normal")
        shown = [artist for ax in rest for artist in (*ax.images, *ax.texts)]
        self.moving: list[Artist] = [self.digit, self.frame, self.title, *shown]

    def _rest(self, name: str) -> list[str]:
        return self.others[: self.maps[name].shape[-1] - self.side**2]

    def draw(self, image: int, token: int, block: int, trained: bool) -> str:
        """Show the maps of one token, and return the reading."""
        patch = token < self.side**2
        self.digit.set_data(self.images[image])
        self.frame.set(visible=patch, xy=(token % self.side, token // self.side))
        who = f"patch {token}" if patch else "the CLS token"
        self.title.set_text(f"{who} attends to")
        shares = []
        for name, ax in self.views.items():
            weights = self.maps[name][int(trained), block - 1, image, token]
            move(ax, weights, self.side)
            others = weights[self.side**2 + 1 :]
            shares.append(
                f"{name}, {weights[: self.side**2].sum():.0%} for the patches, {others.sum():.0%} for registers"
            )
        when = "After" if trained else "Before"
        return f"{when} training, in block {block}, {who} gives: {'; '.join(shares)}."


def move(ax: Axes, weights: np.ndarray, side: int) -> None:
    """Update the pictures and the percentage that ``plot_heard`` drew, for other weights."""
    patches, *others = ax.images
    patches.set_data(weights[: side**2].reshape(side, side))
    *names, total = ax.texts
    for cell, name, weight in zip(others, names, weights[side**2 :], strict=True):
        cell.set_data([[weight]])
        name.set_color(text_color(weight, TOP))
    total.set_text(f"patches {weights[: side**2].sum():.0%}")


def explore_attention(images: ArrayLike, maps: Mapping[str, ArrayLike], others: Sequence[str]) -> Explorer:
    """Return an explorer of the attention of the tokens of some images.

    Args:
        images: (images, height, width), between 0 and 1.
        maps: for each named network, attention before and after training, (2, blocks, images, tokens, tokens), its
            tokens a square of patches, then some of ``others``, in the first network at most two rows of patches.
        others: names of the tokens after the patches.
    """
    figure = Figure(figsize=(6, 2.4))
    picture = AttentionPicture(figure, images, maps, others)
    count, patches = len(picture.images), picture.side**2
    tokens = [("CLS", patches), *((str(token), token) for token in range(patches))]
    blocks = [(str(block), block) for block in range(1, next(iter(picture.maps.values())).shape[1] + 1)]
    controls = {
        "image": widgets.IntSlider(0, 0, count - 1),
        "token": widgets.SelectionSlider(options=tokens, description="query"),
        "block": choice_buttons(blocks),
        "trained": choice_buttons([("before", False), ("after", True)], "training"),
    }
    alt = (
        f"A picture and, beside it, what its CLS token attends to in {'a network' if len(maps) == 1 else 'networks'} "
        "before training: no patch stands out."
    )
    states: States = {
        "image": [0, 1],
        "token": [patches, 0, patches // 3, patches // 2 + picture.side // 2],
        "block": [1, len(blocks)],
        "trained": [False, True],
    }
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states=states)
