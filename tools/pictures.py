"""When a picture that a cell shows now counts as the one that is stored, so that no changed drawing goes unnoticed.

Both are reduced to squares of 8 pixels, which rounding does not change. At most one square in 50 may have another
colour. What a training drew lies elsewhere in each build of torch and on each processor, so of a cell tagged
``trained`` half of the squares may.
"""

import base64
from io import BytesIO

import numpy as np
from matplotlib import image
from numpy.typing import NDArray

PNG = "iVBORw0KGgo"  # the first letters of each
SQUARE, SEEN = 8, 16  # pixels; the difference of 256 that is seen
SHARE, MOVED = 1 / 50, 1 / 2  # squares that may differ so, and those that may where a training drew


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
        return bool(differ <= (MOVED if self.trained else SHARE))

    def __ne__(self, other: object) -> bool:
        return not self == other


def squares(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean colour of each square."""
    rows, columns = (size // SQUARE for size in pixels.shape[:2])
    cut = pixels[: rows * SQUARE, : columns * SQUARE]
    return cut.reshape(rows, SQUARE, columns, SQUARE, 3).mean(axis=(1, 3))
