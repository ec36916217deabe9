"""Inks are dark enough for text and thin lines, and colour-blind readers can tell those of the course apart.

Contrast is that of WCAG 2.1 (https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio). Colour blindness is simulated by the
matrices of Machado et al. 2009 for the whole loss of one cone (https://doi.org/10.1109/TVCG.2009.113), in linear RGB.
"""

import ast
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_params_from_file
from matplotlib.colors import to_rgb

from residual_course.plots import style
from residual_course.plots.style import SERIES, STYLE_FILE, A, B, words_on

COURSE = {name: getattr(style, name) for name in ("STREAM", "BRANCH", "GRADIENT", "GATE", "DROPPED", "REFERENCE")}
BLIND = (
    np.eye(3),
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
)
XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
SMALLEST, SIZES = 11, ("size", "fontsize", "labelsize", "title_fontsize")  # points


def linear(ink):
    parts = np.array(to_rgb(ink))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(ink, paper="white"):
    low, high = sorted(linear(color) @ [0.2126, 0.7152, 0.0722] for color in (ink, paper))
    return (high + 0.05) / (low + 0.05)


def lab(ink, blind):
    """CIE L*, a*, b* of an ink as somebody sees it, against D65."""
    tristimulus = np.array(XYZ) @ np.clip(np.array(blind) @ linear(ink), 0, 1) / [0.95047, 1, 1.08883]
    x, y, z = np.where(tristimulus > 216 / 24389, np.cbrt(tristimulus), (24389 / 27 * tristimulus + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one, other):
    """The distance for whichever reader sees the least of it; 2.3 is a difference just seen side by side."""
    return min(np.linalg.norm(lab(one, blind) - lab(other, blind)) for blind in BLIND)


def test_inks_can_be_read_on_white_and_told_apart_by_colour_blind_readers():
    assert {name: ink for name, ink in (COURSE | {"A": A, "B": B}).items() if contrast(ink) < 4.5} == {}
    assert contrast("black") == pytest.approx(21) and distance("#B00000", "#5A5A00") < 10 < distance("red", "blue")
    assert [pair for pair in [*combinations(COURSE.values(), 2), (A, B)] if distance(*pair) < 10] == []
    inks, dashes, marks = zip(*SERIES, strict=True)
    assert inks[:2] == (A, B) and len(set(dashes)) == len(set(marks)) == len(SERIES)


@pytest.mark.parametrize("fill", [(0.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.72, 0.35, 0.0), (0.2, 0.5, 0.9, 1.0)])
def test_words_on_a_fill_are_those_with_more_contrast(fill):
    both = {ink: contrast(ink, fill[:3]) for ink in ("white", style.REFERENCE)}
    assert words_on(fill) == max(both, key=both.get) and max(both.values()) >= 3.9


def test_no_text_is_small_and_no_line_is_paler_than_its_ink():
    settings = rc_params_from_file(STYLE_FILE, use_default_template=False)
    assert settings["figure.figsize"][0] == 6 and settings["savefig.dpi"] == 200
    assert {settings[name] for name in settings if name.endswith("size") and name != "figure.figsize"} == {SMALLEST}
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in Path(style.__file__).parent.glob("*.py")]
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        given = {each.arg: each.value for each in call.keywords}
        sizes = [given[name] for name in SIZES if name in given]
        assert all(isinstance(size, ast.Constant) and size.value >= SMALLEST for size in sizes)
        if "alpha" in given and getattr(call.func, "attr", "") in ("plot", "semilogy", "axhline", "axvline"):
            values = {each.value for each in (*call.args, *given.values()) if isinstance(each, ast.Constant)}
            assert values & {"o", "white"}, "only dots may be pale, and white lines on a fill"
