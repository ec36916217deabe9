"""Tokens that are all alike, told apart by their positions alone: who hears whom."""

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.figure import Figure

from residual_edu.explorers.explorer import Explorer
from residual_edu.parts import attention, attention_mask, rotary_angles, rotate
from residual_edu.plotting.mixing_matrix import plot_mixing_matrix
from residual_edu.plotting.style import BRANCH, DROPPED, STREAM

POSITIONS, LISTENER = 17, 8


def listen(features: int, sharpness: float, rotation: bool, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the score by distance, ``(POSITIONS,)``, and the weights, ``(POSITIONS, POSITIONS)``, of equal tokens.

    Query and key are one vector of length 1 at every position, so that a score is at most 1; the weights are the
    softmax of ``sharpness`` times the scores.
    """
    x = torch.full((POSITIONS, features), features**-0.5, dtype=torch.float64)
    x = rotate(x, rotary_angles([POSITIONS], features)) if rotation else x
    said = torch.eye(POSITIONS, dtype=torch.float64)  # what position j says is "j", so what is heard are the weights
    mask = attention_mask(POSITIONS, POSITIONS, causal=causal)
    return (x @ x[0]).numpy(), attention(x, x, said, mask, scale=sharpness).numpy()


def rival(scores: np.ndarray) -> int:
    """Return the distance, 2 at least, at which a position is heard loudest."""
    return 2 + int(scores[2:].argmax())


class ListeningPicture:
    """Who hears whom, beside the score by distance; ``draw`` moves the artists listed in ``moving``."""

    def __init__(self, figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.2])
        plot_mixing_matrix(np.tri(POSITIONS), left)
        (self.matrix,) = left.images
        right.axhline(0, color=DROPPED, lw=0.6)
        (self.neighbour,) = right.plot([], [], color=DROPPED, lw=1, ls="--")
        (self.line,) = right.plot([], [], color=STREAM, marker="o", ms=4)
        (self.loud,) = right.plot([], [], "o", color=BRANCH, ms=9, mec="white")
        self.name = right.text(0, 0, "", color=BRANCH, weight="bold", ha="center", va="bottom")
        right.set(xlim=(-0.7, POSITIONS - 0.3), ylim=(-1.12, 1.3), xlabel="distance", ylabel="score")
        right.set_xticks(range(0, POSITIONS, 4))
        right.text(POSITIONS - 0.4, -1.1, "dashed: the neighbour's score", color=DROPPED, ha="right")
        self.title = figure.suptitle(" ", x=0.01, ha="left", size=12, weight="bold")
        self.moving = [self.matrix, self.neighbour, self.line, self.loud, self.name, self.title]

    def draw(self, features: int, sharpness: float, rotation: bool, causal: bool) -> str:
        """Show tokens with so many features, and say whom the middle one hears."""
        scores, weights = listen(features, sharpness, rotation, causal)
        far = rival(scores)
        self.matrix.set_data(np.ma.masked_equal(weights, 0))
        self.matrix.set_clim(0, weights.max())
        self.line.set_data(range(POSITIONS), scores)
        self.neighbour.set_data([1, POSITIONS], [scores[1]] * 2)
        self.loud.set_data([far], [scores[far]])
        self.name.set(
            position=(max(far, 4.5), max(scores[far], 0.95) + 0.1), text=f"{scores[far]:.2f} at distance {far}"
        )
        self.name.set_visible(rotation)
        self.loud.set_visible(rotation)
        kind = "rotated by position" if rotation else "not rotated"
        self.title.set_text(f"{features} features, {kind}{', causal' * causal}")
        return reading(weights[LISTENER], scores, far)


def reading(row: np.ndarray, scores: np.ndarray, far: int) -> str:
    """Say what the middle position hears, and how a distant one compares with the neighbour."""
    heard = [f"{'itself' if j == LISTENER else j} with {row[j]:.3f}" for j in (8, 7, 2, 0, 9)]
    above = scores[far] - scores[1]
    level = "as loud as" if abs(above) < 1e-9 else "louder than" if above > 0 else "softer than"
    return (
        f"Position {LISTENER} hears {', '.join(heard)}. "
        f"Distance {far} scores {scores[far]:.2f}, {level} the neighbour with {scores[1]:.2f}."
    )


def explore_attention() -> Explorer:
    """Return sliders over equal tokens: how many features, how sharp, rotated or not, causal or not."""
    picture = ListeningPicture(figure := Figure(figsize=(7, 3.5)))
    controls = {
        "features": widgets.SelectionSlider(options=[2, 4, 8, 16, 32, 64], value=2),
        "sharpness": widgets.FloatSlider(value=4, min=0, max=20, step=0.5),
        "rotation": widgets.Checkbox(True),
        "causal": widgets.Checkbox(False),
    }
    alt = (
        "Left, who hears whom among 17 equal tokens with 2 rotated features: dark stripes on the diagonal and 6 and "
        "13 positions beside it. Right, the score by distance, a cosine that is back at 0.96 at distance 6."
    )
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving)
