"""Finished trainings: choose placement, size of the branches, depth and learning rate, and see which networks train."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from residual_course.explorers.explorer import Explorer, choice_buttons
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.placement import SHIFT, TRAINED, look, plot_map, trained

Choice = tuple[str, str, int, float]  # placement, size of the branches, depth, learning rate


class MapPicture:
    """A map of depth and rate for each placement, with a mark for each setting that was tried.

    ``draw`` moves the artists listed in ``moving``, and nothing else changes.
    """

    def __init__(self, figure: Figure, shares: Mapping[Choice, Sequence[float]]) -> None:
        self.shares = shares
        places, self.sizes, depths, rates = (list(dict.fromkeys(part)) for part in zip(*shares, strict=True))
        self.axes = dict(zip(places, figure.subplots(1, len(places), sharey=True), strict=True))
        self.marks, self.rings = dict[tuple[str, str, str], Line2D](), dict[str, Line2D]()
        for place, ax in self.axes.items():
            lines, self.rings[place] = plot_map(ax, depths, rates, self.sizes, look(place)["color"])
            self.marks |= {(place, *key): line for key, line in lines.items()}
            ax.set_title(place, weight="normal")
        self.axes[places[0]].set_ylabel("learning rate")
        levels = zip(("full: over", "half:", "empty:"), TRAINED, strict=True)
        words = ", ".join(f"{name} {level}" for name, level in levels)
        shapes = ", ".join(
            f"{shape}: branches {size}" for shape, size in zip(("circle", "square"), self.sizes, strict=False)
        )
        figure.supxlabel(f"{words} of the test digits right\n{shapes}", size=11)
        self.title = figure.suptitle(" ", x=0.01, ha="left", weight="bold")
        self.moving = [*self.marks.values(), *self.rings.values(), self.title]
        self.tried: Marks = {}

    def draw(self, place: str, size: str, depth: int, rate: float) -> str:
        """Mark a setting, and return the reading."""
        found = self.shares[place, size, depth, rate]
        x = depth * SHIFT ** self.sizes.index(size)
        self.tried = {self.marks[place, size, trained(found)]: ([x], [rate])}
        for name, ring in self.rings.items():
            ring.set_data(([x], [rate]) if name == place else ([], []))
        shares = " ".join(f"{share:.0%}" for share in found)
        self.title.set_text(f"{place}, {depth} blocks, rate {rate:g}: {shares}")
        return f"{place}, branches {size}, {depth} blocks at a rate of {rate:g}: right with three seeds {shares}."


def explore_rates(shares: Mapping[Choice, Sequence[float]]) -> Explorer:
    """Return an explorer of finished trainings.

    Args:
        shares: for each placement, size of the branches, depth and learning rate, what is right with each seed.
    """
    picture = MapPicture(figure := Figure(figsize=(6, 3.8)), shares)
    places, sizes, depths, rates = (list(dict.fromkeys(part)) for part in zip(*shares, strict=True))
    controls = {
        "place": choice_buttons(places, "norm"),
        "size": choice_buttons(sizes, "branches"),
        "depth": choice_buttons([(str(depth), depth) for depth in depths], "blocks"),
        "rate": choice_buttons([(f"{rate:g}", rate) for rate in rates], "rate"),
    }
    alt = (
        f"Two maps of depth and learning rate, {places[0]} and {places[-1]}. One mark stands at {depths[0]} blocks "
        f"and a rate of {rates[0]:g}, {places[0]}: each setting that is tried leaves one."
    )
    states: States = {"place": places, "size": sizes, "depth": depths, "rate": [rates[0], *rates[-2:]]}
    return Explorer(
        figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=lambda: picture.tried, states=states
    )
