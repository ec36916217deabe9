import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.dropout import (
    plot_coins,
    plot_depths_left,
    plot_gap,
    plot_memorised,
    plot_moments,
    plot_noise,
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def dots(ax):
    return [np.asarray(line.get_ydata(), float) for line in ax.lines if line.get_marker() in ("o", "s")]


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_moments_draws_what_was_measured_over_the_laws(ax):
    assert plot_moments([0, 0.5], [1.01, 0.99], [0, 1.1], ax) is ax
    means, variances = dots(ax)
    assert means.tolist() == [1.01, 0.99] and variances.tolist() == [0, 1.1]
    mean_law, variance_law = (line.get_ydata()[-1] for line in ax.lines if line.get_marker() != "o")
    assert mean_law == 1 and variance_law == pytest.approx(1)  # p / (1 - p) at 1/2


def test_coins_are_a_field_of_two_colours(ax):
    assert plot_coins([[1, 0, 1], [0, 0, 1]], ax) is ax
    assert ax.images[0].get_array().tolist() == [[True, False, True], [False, False, True]]


def test_depths_left_draws_bars_dots_and_the_uniform_line(ax):
    assert plot_depths_left([0.25, 0.5, 0.25], [0.2, 0.5, 0.3], ax) is ax
    assert [bar.get_height() for bar in ax.patches] == [0.25, 0.5, 0.25]
    assert dots(ax)[0].tolist() == [0.2, 0.5, 0.3]
    assert any("uniform" in text for text in words(ax))
    assert ax.lines[1].get_ydata()[0] == 0.5  # one half each for 1 and 2 branches


def test_the_gap_has_a_panel_for_each_kind_of_labels_and_a_line_a_seed():
    figure = Figure()
    curves = {("wrong", 0): [[0.7, 0.6]] * 3, ("wrong", 0.7): [[0.8, 0.9]] * 3, ("right", 0): [[0.9, 0.9]] * 3}
    plot_gap(curves, [30, 60], figure)
    left, right = figure.axes
    assert [len(left.lines), len(right.lines)] == [6, 3]
    assert list(left.lines[0].get_ydata()) == [0.7, 0.6] and left.lines[0].get_linestyle() == "--"
    assert "wrong" in left.get_title("center") and "right" in right.get_title("center")


def test_memorised_draws_every_seed_and_names_each_curve(ax):
    assert plot_memorised({"p = 0": [[0.5, 1]] * 3, "p = 0.7": [[0.1, 0.9]] * 3}, [200, 400], ax) is ax
    assert len(ax.lines) == 6 and words(ax) == ["p = 0", "p = 0.7"]
    assert ax.lines[0].get_linestyle() != ax.lines[3].get_linestyle()


def test_noise_begins_with_the_curve(ax):
    assert plot_noise([0.1, 0.5, 2], ax) is ax
    assert list(ax.lines[0].get_ydata()) == [0.1, 0.5, 2]
