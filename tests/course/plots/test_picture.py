"""A figure's PNG: twice the pixels that it is shown with, few colours, opaque, and the same bytes each time."""

import io

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from residual_course.plots.picture import figure_png, palette_png, shown_width
from residual_course.plots.style import BRANCH, use_style


@pytest.fixture(autouse=True)
def style():
    with matplotlib.rc_context():
        use_style()
        yield


def figure():
    drawing = Figure(figsize=(6, 3))
    drawing.add_subplot(title="A line rises").plot([0, 1], [0, 1], color=BRANCH, lw=4)
    return drawing


def opened(png):
    return Image.open(io.BytesIO(png))


def test_a_figure_of_the_lessons_has_1200_pixels_for_the_600_of_its_place():
    assert shown_width(figure()) == 600 and opened(figure_png(figure())).size == (1200, 600)
    assert shown_width(Figure(figsize=(2.5, 1))) == 250


def test_it_is_a_palette_without_transparency_and_keeps_its_inks():
    picture = opened(figure_png(figure()))
    assert picture.format == "PNG" and picture.mode == "P" and "transparency" not in picture.info
    colors = np.array(picture.convert("RGB")).reshape(-1, 3)
    ink = np.array([int(BRANCH[at : at + 2], 16) for at in (1, 3, 5)])
    assert (np.abs(colors.astype(int) - ink).max(1) <= 2).sum() > 1000
    assert colors[0].tolist() == [255, 255, 255]


def test_the_bytes_are_the_same_each_time_and_fewer_than_those_of_matplotlib():
    first, plain = figure_png(figure()), io.BytesIO()
    figure().savefig(plain, format="png")
    assert first == figure_png(figure()) and len(first) < 0.7 * len(plain.getvalue())


def test_more_than_256_colours_become_256_that_are_near():
    ramp = np.stack(np.broadcast_arrays(*np.ogrid[0:256, 0:256], np.uint8(0)), -1).astype(np.uint8)
    picture = opened(palette_png(Image.fromarray(ramp)))
    few = np.array(picture.convert("RGB")).astype(int)
    assert len(np.unique(few.reshape(-1, 3), axis=0)) <= 256
    assert np.abs(few - ramp).mean() < 8
