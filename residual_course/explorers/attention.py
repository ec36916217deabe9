"""Attention among equal tokens, which differ by their positions alone."""

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.figure import Figure

from residual_course.explorers.explorer import Explorer
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.mixing_matrix import plot_mixing_matrix
from residual_course.plots.style import BRANCH, DROPPED, STREAM
from residual_edu.parts import attention, attention_mask, rotary_angles, rotate

POSITIONS, QUERY = 17, 8


def attend(features: int, sharpness: float, rotation: bool, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the score by distance, ``(POSITIONS,)``, and the weights, ``(POSITIONS, POSITIONS)``, of equal tokens.

    Query and key are one vector of length 1 at every position, so that a score is at most 1; the weights are the
    softmax of ``sharpness`` times the scores.
    """
    x = torch.full((POSITIONS, features), features**-0.5, dtype=torch.float64)
    x = rotate(x, rotary_angles([POSITIONS], features)) if rotation else x
    values = torch.eye(POSITIONS, dtype=torch.float64)  # value j is the j-th unit vector, so the output is the weights
    mask = attention_mask(POSITIONS, POSITIONS, causal=causal)
    return (x @ x[0]).numpy(), attention(x, x, values, mask, scale=sharpness).numpy()


def rival(scores: np.ndarray) -> int:
    """Return the distance of at least 2 with the highest score."""
    return 2 + int(scores[2:].argmax())


class AttentionPicture:
    """The attention weights, beside the score by distance; ``draw`` moves the artists listed in ``moving``."""

    def __init__(self, figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.2])
        plot_mixing_matrix(np.tri(POSITIONS), left)
        (self.matrix,) = left.images
        right.axhline(0, color=DROPPED, lw=0.6)
        (self.neighbour,) = right.plot([], [], color=DROPPED, lw=1, ls="--")
        (self.pale,) = right.plot([], [], color=DROPPED, lw=0.8)
        (self.line,) = right.plot([], [], color=STREAM, marker="o", ms=4)
        (self.high,) = right.plot([], [], "o", color=BRANCH, ms=9, mec="white")
        self.name = right.text(0, 0, "", color=BRANCH, weight="bold", ha="center", va="bottom")
        right.set(xlim=(-0.7, POSITIONS - 0.3), ylim=(-1.12, 1.3), xlabel="distance", ylabel="score")
        right.set_xticks(range(0, POSITIONS, 4))
        right.set_title("dashed: the neighbour's score", color=DROPPED, weight="normal")
        self.title = figure.suptitle(" ", x=0.01, ha="left", weight="bold")
        self.moving = [self.pale, self.matrix, self.neighbour, self.line, self.high, self.name, self.title]

    def tried(self) -> Marks:
        """Return the present scores, which stay as a thin curve."""
        return {self.pale: self.line.get_data()}

    def draw(self, features: int, sharpness: float, rotation: bool, causal: bool) -> str:
        """Show tokens with so many features, and return the reading for the middle one."""
        scores, weights = attend(features, sharpness, rotation, causal)
        far = rival(scores)
        self.matrix.set_data(np.ma.masked_equal(weights, 0))
        self.matrix.set_clim(0, weights.max())
        self.line.set_data(range(POSITIONS), scores)
        self.neighbour.set_data([1, POSITIONS], [scores[1]] * 2)
        self.high.set_data([far], [scores[far]])
        within = np.clip(far, 5.2, POSITIONS - 6)  # the words are ten positions wide
        self.name.set(position=(within, max(scores[far], 0.95) + 0.1), text=f"{scores[far]:.2f} at distance {far}")
        self.name.set_visible(rotation)
        self.high.set_visible(rotation)
        kind = "rotated by position" if rotation else "not rotated"
        self.title.set_text(f"{features} features, {kind}{', causal' * causal}")
        return reading(weights[QUERY], scores, far)


def reading(row: np.ndarray, scores: np.ndarray, far: int) -> str:
    """Return what the middle position attends to, and how a distant key's score compares with the neighbour's."""
    weights = [f"{'itself' if j == QUERY else j} with {row[j]:.3f}" for j in (8, 7, 2, 0, 9)]
    above = scores[far] - scores[1]
    level = "as much as" if abs(above) < 1e-9 else "more than" if above > 0 else "less than"
    return (
        f"Position {QUERY} attends to {', '.join(weights)}. "
        f"Distance {far} scores {scores[far]:.2f}, {level} the neighbour with {scores[1]:.2f}."
    )


def explore_attention() -> Explorer:
    """Return sliders over equal tokens: how many features, how sharp, rotated or not, causal or not."""
    picture = AttentionPicture(figure := Figure(figsize=(6, 3.5)))
    controls = {
        "features": widgets.SelectionSlider(options=[2, 4, 8, 16, 32, 64], value=2),
        "sharpness": widgets.FloatSlider(value=4, min=0, max=20, step=0.5),
        "rotation": widgets.Checkbox(True),
        "causal": widgets.Checkbox(False),
    }
    alt = (
        "Left, attention among 17 equal tokens with 2 rotated features: dark stripes on the diagonal and 6 and 13 "
        "positions beside it. Right, the score by distance, a cosine that is back at 0.96 at distance 6."
    )
    states: States = {
        "features": [2, 4, 8, 16, 32, 64],
        "sharpness": [4.0, 12.0],
        "rotation": [False, True],
        "causal": [False, True],
    }
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=picture.tried, states=states)
