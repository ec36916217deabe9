"""Inks that mean the same thing in every lesson, and the style file.

The hues are Okabe and Ito's palette (https://jfly.uni-koeln.de/color), which colour-blind readers can tell apart; all
but the blue are darker here, so that text and thin lines have a contrast of 4.5:1 on white. No meaning rests on hue
alone: beside the ink a figure has a dash, a marker or the name at the curve.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

STREAM = "#0072B2"  # the residual stream x
BRANCH = "#B85A00"  # what a branch adds to it
GRADIENT = "#006246"  # the gradient of the loss with respect to the stream
GATE = "#85357A"  # a gate, a learned gain
DROPPED = "#757575"  # what was dropped or switched off; thin guide lines
REFERENCE = "#222222"  # a law, a bound, words

# Series that are none of these: two take A and B; a third and a fourth are rare.
A, B = "#882255", "#117733"
SERIES = ((A, "--", "s"), (B, "-", "o"), (DROPPED, ":", "^"), (REFERENCE, "-.", "D"))  # ink, dash, marker
PALE = "#D9D9D9"  # a fill, for what is switched off

STYLE_FILE = Path(__file__).with_name("residual_edu.mplstyle")
PRIMARIES = np.array([0.2126, 0.7152, 0.0722])  # the shares of red, green and blue in the luminance
DARK = 0.21  # a fill with less luminance takes white words, one with more takes ``REFERENCE``: at least 4:1


def words_on(fill: Sequence[float] | np.ndarray) -> str:
    """Return the colour of words that can be read on ``fill``, its red, green and blue between 0 and 1."""
    parts = np.asarray(fill, float)[:3]
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return "white" if linear @ PRIMARIES < DARK else REFERENCE


def use_style() -> None:
    """Draw every figure of this process in the style of the lessons."""
    import matplotlib.style

    matplotlib.style.use(STYLE_FILE)
