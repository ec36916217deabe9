import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.long_convolution import (
    plot_heard,
    plot_ridges,
    plot_signed,
    plot_taps,
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def curves(ax):
    return [np.asarray(line.get_ydata(), float).tolist() for line in ax.lines]


def test_taps_are_written_where_they_stand(ax):
    assert plot_taps([[2, 1, 0], [-1, 2, 1], [0, -1, 2]], ax) is ax
    assert words(ax) == ["2", "1", "0", "−1", "2", "1", "0", "−1", "2"]
    places = {(int(text.get_position()[1]), int(text.get_position()[0])): text.get_text() for text in ax.texts}
    assert places[1, 0] == "−1" and places[0, 1] == "1"
    assert ax.images[0].get_array().mask.tolist() == [[False, False, True], [False] * 3, [True, False, False]]


def test_taps_below_and_above_zero_have_two_colours(ax):
    plot_taps([[2.0, -2], [1, -1]], ax)
    image = ax.images[0]
    colors = image.cmap(image.norm(image.get_array()))[..., :3].reshape(4, 3)
    hues = [color.argmax() for color in colors]
    assert hues[0] == hues[2] == 1 and hues[1] == hues[3] == 0  # green, and red most in the purple


def test_a_signed_table_is_centred_on_zero(ax):
    assert plot_signed([[0.0, -3], [1, 0]], ax) is ax
    assert ax.images[0].get_clim() == (-3, 3)
    plot_signed(np.zeros((2, 2)), ax)
    assert ax.images[1].get_clim() == (-1, 1)


def test_a_negative_zero_is_a_zero(ax):
    plot_taps(np.array([[-0.0, 1.0], [1.0, -0.0]]), ax)
    assert words(ax) == ["0", "1", "1", "0"]


def test_ridges_stand_one_under_the_other_each_as_high_as_its_largest_tap(ax):
    kernels = {"low": [0.0, 1, -1], "high": [0.0, 5, 10], "silent": [0.0, 0, 0]}
    assert plot_ridges([-1, 0, 1], kernels, ax, "lag") is ax
    drawn = [line for line in ax.lines if len(line.get_ydata()) == 3]
    assert np.allclose([line.get_ydata() for line in drawn], [[0, 0.45, -0.45], [-1, -0.775, -0.55], [-2, -2, -2]])
    assert words(ax) == ["low", "high", "silent"] and [text.get_position()[1] for text in ax.texts] == [0, -1, -2]
    assert ax.get_xlabel() == "lag"


def test_heard_draws_every_pixel_and_rings_the_output(ax):
    loudness = np.arange(6.0).reshape(2, 3)
    assert plot_heard(loudness, (1, 2), ax) is ax
    assert ax.images[0].get_array().filled(0).tolist() == loudness.tolist()
    assert ax.images[0].get_array().mask[0, 0] and ax.lines[0].get_xydata().tolist() == [[2, 1]]
