"""Colours that mean the same thing in every lesson, and the style file.

The hues are Okabe and Ito's palette (https://jfly.uni-koeln.de/color), which colour-blind readers can tell apart.
"""

from pathlib import Path

STREAM = "#0072B2"  # the residual stream x
BRANCH = "#D55E00"  # what a branch adds to it
GRADIENT = "#009E73"  # the gradient of the loss with respect to the stream
GATE = "#CC79A7"  # a gate, a learned gain
DROPPED = "#7F7F7F"  # what was dropped or switched off
REFERENCE = "#222222"  # a law, a bound, a guide line

STYLE_FILE = Path(__file__).with_name("residual_edu.mplstyle")


def use_style() -> None:
    """Draw every figure of this process in the style of the lessons."""
    import matplotlib.style

    matplotlib.style.use(STYLE_FILE)
