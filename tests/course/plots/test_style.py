"""Inks are dark enough for text and thin lines, and colour-blind readers can tell those of the course apart.

Contrast is that of WCAG 2.1 (https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio). Colour blindness is simulated by the
matrices of Machado et al. 2009 for the whole loss of one cone (https://doi.org/10.1109/TVCG.2009.113), in linear RGB;
the distance is CIEDE2000, where 2 is a difference just seen side by side.
"""

import ast
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_params_from_file
from matplotlib.colors import to_hex, to_rgb

from residual_course.plots import style
from residual_course.plots.style import SERIES, STYLE_FILE, A, B, words_on

COURSE = {name: getattr(style, name) for name in ("STREAM", "BRANCH", "GRADIENT", "GATE", "DROPPED", "REFERENCE")}
INKS = COURSE | {"A": A, "B": B}
CONTRAST, APART, PAIR_APART = 4.5, 10, 5
BLIND = {
    "nothing": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
SMALLEST, SIZES = 11, ("size", "fontsize", "labelsize", "title_fontsize")  # points


def linear(ink):
    parts = np.array(to_rgb(ink))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(ink, paper="white"):
    low, high = sorted(linear(color) @ [0.2126, 0.7152, 0.0722] for color in (ink, paper))
    return (high + 0.05) / (low + 0.05)


def lab(ink, blind):
    """CIE L*, a*, b* of an ink as somebody sees it, against D65."""
    tristimulus = XYZ @ np.clip(np.array(BLIND[blind]) @ linear(ink), 0, 1) / [0.95047, 1, 1.08883]
    x, y, z = np.where(tristimulus > 216 / 24389, np.cbrt(tristimulus), (24389 / 27 * tristimulus + 16) / 116)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(one, other):
    """Sharma, Wu and Dalal 2005, equations 2 to 22 (http://www2.ece.rochester.edu/~gsharma/ciede2000/)."""
    (light1, a1, b1), (light2, a2, b2) = one, other
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1 + 0.5 * (1 - np.sqrt(mean**7 / (mean**7 + 25.0**7)))
    chroma1, chroma2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    hue1, hue2 = (np.degrees(np.arctan2(b, stretch * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    grey = chroma1 * chroma2 == 0
    turn = 0 if grey else (hue2 - hue1 + 180) % 360 - 180
    hue = hue1 + hue2 if grey else (hue1 + turn / 2) % 360
    light, chroma = (light1 + light2) / 2, (chroma1 + chroma2) / 2
    cosines = np.cos(np.radians([hue - 30, 2 * hue, 3 * hue + 6, 4 * hue - 63]))
    by_hue = 1 + cosines @ [-0.17, 0.24, 0.32, -0.20]
    s_light = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2)
    d_light = (light2 - light1) / s_light
    d_chroma = (chroma2 - chroma1) / (1 + 0.045 * chroma)
    d_hue = 2 * np.sqrt(chroma1 * chroma2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * by_hue)
    swing = 2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    rotation = -np.sin(np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2)))) * swing
    return np.sqrt(d_light**2 + d_chroma**2 + d_hue**2 + rotation * d_chroma * d_hue)


def calls(module):
    """Every call in a module's source."""
    return [node for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]


def distance(one, other):
    """The distance for whichever reader sees the least of it."""
    return min(ciede2000(lab(one, blind), lab(other, blind)) for blind in BLIND)


@pytest.mark.parametrize(
    ("one", "other", "published"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, -1, 2), (50, 0, 0), 2.3669),
        ((50, 2.49, -0.001), (50, -2.49, 0.0009), 7.1792),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ],
)
def test_the_distance_is_that_of_the_published_pairs(one, other, published):
    assert ciede2000(one, other) == pytest.approx(published, abs=1e-4)
    assert ciede2000(other, one) == pytest.approx(published, abs=1e-4)


@pytest.mark.parametrize("name", INKS)
def test_an_ink_can_be_read_on_white(name):
    assert contrast(INKS[name]) >= CONTRAST


def test_contrast_is_that_of_the_standard():
    assert contrast("black") == pytest.approx(21) and contrast("#777777") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("one", "other"), [*combinations(COURSE, 2)])
def test_inks_of_the_course_are_told_apart_by_colour_blind_readers(one, other):
    assert distance(COURSE[one], COURSE[other]) >= APART


def test_those_of_okabe_and_ito_are_told_apart_and_the_same_lightness_is_not():
    assert distance("#0072B2", "#D55E00") > 2 * APART
    red, olive = "#B00000", "#5A5A00"
    assert distance(red, olive) < APART / 2 < ciede2000(lab(red, "nothing"), lab(olive, "nothing"))


def test_a_pair_of_series_is_told_apart_and_from_the_inks_of_the_course():
    assert distance(A, B) >= APART
    assert min(distance(ink, other) for ink, other in product((A, B), COURSE.values())) >= PAIR_APART


def test_series_differ_by_dash_or_marker_too():
    inks, dashes, marks = zip(*SERIES, strict=True)
    assert inks[:2] == (A, B) and len(set(dashes)) == len(set(marks)) == len(SERIES)


@pytest.mark.parametrize(
    "fill", [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5), (0.72, 0.35, 0.0), (0.2, 0.5, 0.9, 1.0)]
)
def test_words_on_a_fill_are_those_with_more_contrast(fill):
    both = {ink: contrast(ink, fill[:3]) for ink in ("white", style.REFERENCE)}
    assert words_on(fill) == max(both, key=both.get) and max(both.values()) >= 3.9


def test_the_style_is_600_pixels_wide_with_twice_as_many_and_no_small_text():
    settings = rc_params_from_file(STYLE_FILE, use_default_template=False)
    assert settings["figure.figsize"][0] == 6 and settings["savefig.dpi"] == 200
    sizes = {name: settings[name] for name in settings if name.endswith("size") and name != "figure.figsize"}
    assert {"font.size", "axes.titlesize", "xtick.labelsize", "legend.fontsize"} <= sizes.keys()
    assert set(sizes.values()) == {SMALLEST}
    used = {to_hex(color).upper() for color in settings["axes.prop_cycle"].by_key()["color"]}
    assert used == {ink for ink, _, _ in SERIES}


LINES = {"plot", "loglog", "semilogx", "semilogy", "step", "axhline", "axvline", "hlines", "vlines"}
MODULES = sorted(Path(style.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_no_line_is_paler_than_its_ink(module):
    for call in calls(module):
        pale = any(each.arg == "alpha" for each in call.keywords) and getattr(call.func, "attr", "") in LINES
        values = [*call.args, *(each.value for each in call.keywords)]
        words = {each.value for each in values if isinstance(each, ast.Constant)}
        assert not pale or words & {"o", "white"}, "only dots may be pale, and white lines on a fill"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_no_plotting_function_asks_for_smaller_text(module):
    sizes = [each.value for call in calls(module) for each in call.keywords if each.arg in SIZES]
    assert all(isinstance(size, ast.Constant) and size.value >= SMALLEST for size in sizes)
