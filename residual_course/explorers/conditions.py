"""Ten digits that a network completes while branches are removed: what does it cost, and what is lost?"""

from collections.abc import Callable

import ipywidgets as widgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from torch import Tensor

from residual_course.explorers.explorer import Explorer
from residual_course.explorers.states import States
from residual_course.plots.adaln_zero import mosaic, plot_digits

KINDS = {"attention": 0, "condition": 1, "mlp": 2}
NONE, ALL = "none", "all"
Removed = frozenset[tuple[int, int]]  # (block, kind), both from 0
Complete = Callable[[Removed], tuple[Tensor, float]]  # the ten pictures (10, side, side), and the loss


def removed(depth: int, **choices: str) -> Removed:
    """Return the branches that are removed: of each kind none, those of one block ("block 2"), or all."""
    gone = set[tuple[int, int]]()
    for kind, choice in choices.items():
        if choice != NONE:
            blocks = range(depth) if choice == ALL else [int(choice.split()[-1]) - 1]
            gone |= {(block, KINDS[kind]) for block in blocks}
    return frozenset(gone)


class CompletedPicture:
    """Ten whole digits over what a network makes of their upper halves; ``draw`` moves what stands in ``moving``."""

    def __init__(self, figure: Figure, complete: Complete, whole: Tensor, depth: int) -> None:
        self.complete, self.depth, self.whole_loss = complete, depth, complete(frozenset())[1]
        axes = figure.add_subplot()
        sheet = np.stack([whole.numpy(), whole.numpy()])
        self.sheet, self.image = sheet, plot_digits(sheet, axes, ["digit", "made"]).images[0]
        self.title = axes.text(0, 1.08, "", transform=axes.transAxes, weight="bold")
        self.moving: list[Artist] = [self.image, self.title]

    def draw(self, **choices: str) -> str:
        """Draw what is made without the chosen branches, and return the reading."""
        gone = removed(self.depth, **choices)
        pictures, loss = self.complete(gone)
        self.sheet[1] = pictures.clamp(-1, 1).numpy()
        self.image.set_data(np.clip(mosaic(self.sheet), -1, 1))
        self.title.set_text(f"without {len(gone)} of {3 * self.depth} branches: loss {loss:.3f}")
        return f"Without {len(gone)} branches the loss is {loss:.3f}, {loss - self.whole_loss:+.3f}."


def explore_branches(complete: Complete, whole: Tensor, depth: int = 4) -> Explorer:
    """Return sliders that remove branches of a network, over the ten digits that it then completes.

    Args:
        complete: takes the removed branches, pairs of block and kind (attention, condition, MLP), counted from 0;
            returns the pictures (10, side, side) from -1 to 1, and the loss.
        whole: the ten digits as they are.
        depth: number of blocks.
    """
    picture = CompletedPicture(figure := Figure(figsize=(6, 1.7)), complete, whole, depth)
    options = [NONE, *(f"block {at + 1}" for at in range(depth)), ALL]
    names = {"attention": "attention removed", "condition": "condition removed", "mlp": "MLP removed"}
    controls = {name: widgets.SelectionSlider(options=options, value=NONE, description=d) for name, d in names.items()}
    alt = "Ten digits, and below them what the whole network makes of their upper halves and labels: nearly the same."
    states: States = {"attention": [NONE, options[1], ALL], "condition": [NONE, options[1], ALL], "mlp": options}
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states=states)
