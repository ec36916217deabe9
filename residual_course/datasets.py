"""Real data that needs no download: it comes with scikit-learn or matplotlib, or stands in ``residual_course/data``."""

import gzip
import re
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from residual_edu.errors import InvalidInput, check_size

NO_SKLEARN = "this data comes with scikit-learn, which is not installed: pip install 'residual_edu[lab]'"


class Digits(NamedTuple):
    """Handwritten digits, split for training and testing.

    Images are ``(n, 8, 8)``, float32 in [0, 1]; labels are ``(n,)``, int64, 0 to 9. All on the CPU.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def sklearn_datasets() -> ModuleType:
    """Return ``sklearn.datasets``, or raise an ``ImportError`` that says what to install."""
    try:
        return import_module("sklearn.datasets")
    except ModuleNotFoundError as error:
        raise ImportError(NO_SKLEARN) from error


def digits(seed: int = 0, test: int = 360) -> Digits:
    """Return scikit-learn's 1,797 digits, shuffled by ``seed``; the last ``test`` of them are for testing.

    Raises:
        InvalidInput: if ``test`` is below 1 or leaves none for training.
    """
    if not (found := find_spec("sklearn")) or not found.origin:
        raise ImportError(NO_SKLEARN)
    file = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"  # its import takes a second or two
    table = torch.from_numpy(np.loadtxt(file, delimiter=","))  # 64 pixels and the class
    check_size("test", test)  # of 0 every image would be left out
    if test >= len(table):
        raise InvalidInput(f"test must be below {len(table)}, the number of digits, got {test}")
    table = table[torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))]
    images, labels = table[:, :64].float().view(-1, 8, 8) / 16, table[:, 64].long()
    return Digits(images[:-test], labels[:-test], images[-test:], labels[-test:])


class InkRows(NamedTuple):
    """Rows of digits in four inks, and two questions at each.

    x is ``(count, length, 68)``: the 64 pixels of a picture, then its ink as one of four. answers is ``(count, length,
    2)``: the ink of the digit that is ``up`` larger, the last time before, and the ink just before, -100 where there is
    none. digits is ``(count, length)``. All on the CPU.
    """

    x: Tensor
    answers: Tensor
    digits: Tensor


def ink_rows(
    count: int,
    generator: torch.Generator,
    *,
    test: bool = False,
    up: int = 1,
    length: int = 12,
    shown: Tensor | None = None,
) -> InkRows:
    """Return rows of handwritten digits, each drawn in one of four inks; 0 follows 9.

    The digits of a row are four neighbours, such as 3, 4, 5, 6, or those of ``shown``, ``(count, length)``. The
    pictures are those for training or for testing.

    Raises:
        InvalidInput: for ``shown`` of another shape.
    """
    first = torch.randint(10, (count, 1), generator=generator)
    drawn = (first + torch.randint(4, (count, length), generator=generator)) % 10
    if shown is not None and shown.shape != drawn.shape:
        raise InvalidInput(f"shown must have the shape {tuple(drawn.shape)}, got {tuple(shown.shape)}")
    digit = drawn if shown is None else shown
    images, members, sizes = _by_digit(test)
    chance = torch.rand(count, length, generator=generator)
    picture = members[digit, (chance * sizes[digit]).long()]
    ink = torch.randint(4, (count, length), generator=generator)
    x = torch.cat([images[picture], nn.functional.one_hot(ink, 4)], dim=-1)
    place = torch.arange(length)
    wanted = (digit[:, :, None] + up) % 10 == digit[:, None, :]
    last = place.where(wanted & (place < place[:, None]), -1).amax(-1)
    larger = ink.gather(1, last.clamp(min=0)).where(last >= 0, -100)
    before = nn.functional.pad(ink[:, :-1], (1, 0), value=-100)
    return InkRows(x, torch.stack([larger, before], dim=-1), digit)


@cache
def _by_digit(test: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return pictures, (n, 64), the places of each digit's pictures, padded, and how many each has."""
    data = digits()
    images, labels = (data.test_images, data.test_labels) if test else (data.train_images, data.train_labels)
    members = [(labels == one).nonzero()[:, 0] for one in range(10)]
    return images.flatten(1), nn.utils.rnn.pad_sequence(members, batch_first=True), torch.tensor([*map(len, members)])


FONTS = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSansMono-Bold"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "STIXGeneral", "STIXGeneralBol"),
    *("STIXGeneralItalic", "cmr10", "cmss10", "cmb10"),
)
LETTERS = "ABCDEFGHKR"


class Letters(NamedTuple):
    """Pictures of letters, ``(count, 1, side, side)`` float32, and their labels, places in ``LETTERS``, on the CPU."""

    pictures: Tensor
    labels: Tensor


def font_letters(
    count: int,
    seed: int = 0,
    *,
    side: int = 16,
    height: float = 12.0,
    reach: float = 2.0,
    noise: float = 0.1,
) -> Letters:
    """Return ten letters drawn in fourteen fonts that ship with matplotlib; ink is 1, paper 0.

    Each is turned by up to 20 degrees, scaled by 0.8 to 1.2 and moved by up to ``reach`` pixels along both axes.
    ``height`` is that of a letter that is not scaled, in pixels; ``noise`` is the deviation of what is added to each.
    """
    r, drawn = torch.Generator().manual_seed(seed), _glyphs()
    font, label = (torch.randint(size, (count,), generator=r) for size in drawn.shape[:2])
    angle = (torch.rand(count, generator=r) * 40 - 20) * torch.pi / 180
    zoom = (torch.rand(count, generator=r) * 0.4 + 0.8) * height / side
    move = (2 * torch.rand(count, 2, 1, generator=r) - 1) * 2 * reach / side
    cos, sin = angle.cos(), angle.sin()
    turn = torch.stack([cos, sin, -sin, cos], dim=1).view(-1, 2, 2) / zoom.view(-1, 1, 1)
    grid = nn.functional.affine_grid(torch.cat([turn, -turn @ move], 2), [count, 1, side, side], align_corners=False)
    x = nn.functional.grid_sample(drawn[font, label][:, None], grid, align_corners=False)
    return Letters(x + noise * torch.randn(x.shape, generator=r), label)


@cache
def _glyphs(size: int = 32) -> Tensor:
    """Return each letter in each font, (fonts, letters, size, size), as large as fits."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    rows = []
    for font in FONTS:
        face = ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font}.ttf"), 4 * size)
        for letter in LETTERS:
            left, top, right, bottom = face.getbbox(letter)
            side = int(max(right - left, bottom - top))
            picture = Image.new("L", (side, side))
            corner = ((side - right + left) / 2 - left, (side - bottom + top) / 2 - top)
            ImageDraw.Draw(picture).text(corner, letter, font=face, fill=255)
            small = picture.resize((size, size), Image.Resampling.LANCZOS).tobytes()
            rows.append(torch.frombuffer(bytearray(small), dtype=torch.uint8))
    return torch.stack(rows).view(len(FONTS), len(LETTERS), size, size) / 255


def neuron_voltage() -> Tensor:
    """Return 6 seconds of a neuron's voltage in millivolts, ``(12000,)`` float32, one number each half millisecond.

    It spikes regularly from 0.9 to 3.6 s and irregularly from there to 5.4 s. The recording comes with matplotlib,
    whose first logo was drawn from it.
    """
    from matplotlib import cbook

    stored = Path(cbook.get_sample_data("membrane.dat", asfileobj=False)).read_bytes()
    return 100 * torch.frombuffer(bytearray(stored), dtype=torch.float32)


def python_documentation() -> str:
    """Return the text of Python 3.11.7's ``help()`` on the language, 465,126 characters, 103 different ones.

    It is the same on every Python, since it is stored here: ``residual_course/data/LICENSE.txt`` says how it was made.
    """
    stored = files("residual_course") / "data" / "python_documentation.txt.gz"
    return gzip.decompress(stored.read_bytes()).decode()


CODE = re.compile(r"::=|>>>|\|\s|==|--")  # grammar, examples, tables


def python_prose() -> str:
    """Return the prose of ``python_documentation``, 257,726 characters: each paragraph once, on a line of its own.

    Paragraphs that end in neither a full stop nor a colon, and those with grammar, examples or tables, are left out.
    """
    paragraphs = (" ".join(each.split()) for each in python_documentation().split("\n\n"))
    prose = (each for each in paragraphs if each.endswith((".", ":")) and not CODE.search(each))
    return "\n".join(dict.fromkeys(prose))
