"""The pictures of the lesson on AdaLN-Zero draw what they were given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots import adaln_zero as plots


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_exact_zeros_are_white_and_marked_and_larger_gradients_deeper(ax):
    sizes = np.array([[0.0, 1e-30], [1e-6, 1e-1]])
    assert plots.plot_wake_up(sizes, ["front", "back"], [0, 7], ax) is ax
    field = ax.images[0].get_array()[..., :3]
    assert (field[0, 0] == 1).all() and field.sum(-1).argsort(axis=None).tolist() == [3, 2, 1, 0]
    assert {text.get_position(): text.get_text() for text in ax.texts} == {
        (0, 0): "0",
        (1, 0): "$10^{-30}$",
        (0, 1): "$10^{-6}$",
        (1, 1): "$10^{-1}$",
    }
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "7"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["front", "back"]


def tile(sheet, row, column, side=2):
    """One image of a sheet, without the gap after it; and the gap to its right."""
    wide, one = 6 * side, 6 * side + 12
    part = sheet[one * row : one * (row + 1), one * column : one * (column + 1)]
    return part[:wide, :wide], np.r_[part[wide:].ravel(), part[:, wide:].ravel()]


def test_images_stand_in_rows_and_columns_two_pixels_apart(ax):
    images = np.linspace(-1, 1, 6)[:, None, None] * np.ones((2, 2))
    assert plots.plot_digits(images.reshape(2, 3, 2, 2), ax, rows=["x", "y"], columns=["1", "2", "3"]) is ax
    sheet = ax.images[0].get_array()
    for at, (row, column) in enumerate(np.ndindex(2, 3)):
        inside, gap = tile(sheet, row, column)
        np.testing.assert_allclose(inside, images[at, 0, 0], atol=1e-6)
        assert (gap == -1).all()
    assert ax.images[0].get_clim() == (-1, 1)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "3"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x", "y"]


def test_an_image_is_enlarged_six_times_and_keeps_its_light_and_dark(ax):
    image = np.array([[-1.0, 1.0], [1.0, -1.0]])
    inside, _ = tile(plots.mosaic(image[None, None]), 0, 0)
    corners = inside[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert (np.sign(corners) == [-1, 1, 1, -1]).all() and abs(inside.mean()) < 1e-6


def test_velocities_have_white_gaps_and_one_range_for_both_signs(ax):
    plots.plot_velocities(np.ones((1, 2, 4, 4)), ax, rows=["told"], columns=["a", "b"])
    inside, gap = tile(ax.images[0].get_array().filled(np.nan), 0, 1, side=4)
    np.testing.assert_allclose(inside, 1, atol=1e-6)
    assert np.isnan(gap).all() and ax.images[0].get_clim() == (-2, 2)


def test_rows_and_columns_need_no_names(ax):
    plots.plot_digits(np.zeros((1, 2, 4, 4)), ax)
    assert [label.get_text() for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]] == ["", "", ""]


def test_each_measure_has_a_curve_for_each_seed_and_real_digits_a_line_at_1(ax):
    curves = {"near": [[1.5, 1.1, 1.3], [1.6, 1.0, 1.2]], "spread": [[1.2, 0.7, 0.5], [1.1, 0.8, 0.6]]}
    assert plots.plot_weights([0.0, 1.5, 12.0], curves, ax) is ax
    drawn = [list(map(float, line.get_ydata())) for line in ax.lines]
    assert drawn == [[1, 1], *curves["near"], *curves["spread"]]
    assert [text.get_text() for text in ax.texts] == ["near", "spread", "real digits"]
    assert [list(line.get_xdata()) for line in ax.lines[1:]] == 4 * [[0, 1.5, 12]]  # to scale
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "12"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.plot_weights([0.0, 1.0], {"near": np.ones((3, 2))}, ax),
        lambda ax: plots.plot_wake_up(np.eye(2), ["a", "b"], [0, 1], ax),
        lambda ax: plots.plot_digits(np.zeros((1, 2, 4, 4)), ax),
        lambda ax: plots.plot_velocities(np.zeros((1, 2, 4, 4)), ax),
    ],
)
def test_every_picture_can_be_rendered(ax, draw):
    draw(ax).figure.canvas.draw()
