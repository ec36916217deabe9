"""When a picture that a cell shows now counts as the one that is stored, so that no changed drawing goes unnoticed.

Both are reduced to squares of 8 pixels, which rounding does not change. At most one square in 200 may have another
colour. What a training drew lies elsewhere in each build of torch, so of a cell tagged ``trained`` one in four may,
and each ink that one picture has in a thousandth of its pixels occurs in the other one.
"""

import base64
from io import BytesIO

import numpy as np
from matplotlib import image
from numpy.typing import NDArray

PNG = "iVBORw0KGgo"  # the first letters of each
SQUARE, SEEN = 8, 16  # pixels; the difference of 256 that is seen
SHARE, MOVED = 1 / 200, 1 / 4  # squares that may differ so, and those that may where a training drew
LEVELS, MUCH, FEW = 4, 1e-3, 1e-4  # of each colour; the share of an ink that counts, and the one at which it is gone


class Picture(str):
    """A stored picture, as the words that name it; it equals another one in which nobody sees a difference."""

    pixels: NDArray[np.float64]
    trained: bool

    def __new__(cls, png: str, trained: bool = False) -> "Picture":
        """Read a picture from a notebook's text."""
        pixels = 255 * image.imread(BytesIO(base64.b64decode(png)))[..., :3].astype(float)
        picture = super().__new__(cls, "a picture of {1} x {0} pixels".format(*pixels.shape))
        picture.pixels, picture.trained = pixels, trained
        return picture

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Picture) or self.pixels.shape != other.pixels.shape:
            return False
        differ = (np.abs(squares(self.pixels) - squares(other.pixels)).max(axis=-1) > SEEN).mean()
        if not self.trained:
            return bool(differ <= SHARE)
        inks = has_inks_of(self.pixels, other.pixels) and has_inks_of(other.pixels, self.pixels)
        return bool(differ <= MOVED) and inks

    def __ne__(self, other: object) -> bool:
        return not self == other


def squares(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean colour of each square."""
    rows, columns = (size // SQUARE for size in pixels.shape[:2])
    cut = pixels[: rows * SQUARE, : columns * SQUARE]
    return cut.reshape(rows, SQUARE, columns, SQUARE, 3).mean(axis=(1, 3))


def inks(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of the pixels that each of 64 colours has; greys, as of a photograph, are no ink."""
    levels = (pixels * LEVELS // 256).astype(int) @ np.array([LEVELS**2, LEVELS, 1])
    shares = np.bincount(levels.ravel(), minlength=LEVELS**3) / levels.size
    shares[:: LEVELS**2 + LEVELS + 1] = 0
    return shares


def has_inks_of(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether each ink of ``other`` occurs in ``one``."""
    return bool((inks(one)[inks(other) > MUCH] > FEW).all())
