"""The pictures of the lesson on LayerNorm draw what they were given."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from residual_course.plots import layer_norm as plots
from residual_course.plots.style import A, B

ROWS = np.random.default_rng(0).normal(size=(5, 3)) + 1
FLAT = ROWS - ROWS.mean(-1, keepdims=True)
ENDS = FLAT / ROWS.std(-1, keepdims=True)


@pytest.fixture
def axes():
    return plots.plot_two_steps(ROWS, FLAT, ENDS).axes


def test_three_rows_of_numbers_with_their_means():
    figure = plots.plot_four_numbers([8, 2, 0, -6], [7, 1, -1, -7], [1.4, 0.2, -0.2, -1.4])
    means = [ax.lines[-1].get_xdata()[0] for ax in figure.axes]
    assert np.allclose(means, [1, 0, 0])
    assert [text.get_text() for text in figure.axes[2].texts] == ["1.4", "0.2", "−0.2", "−1.4"]


def test_the_first_step_ends_straight_below_its_row(axes):
    segments = [line.get_xydata() for line in axes[0].lines[:5]]
    assert all(np.allclose(one[0, 0], one[1, 0]) and np.allclose(one[1, 1], 0) for one in segments)
    heights = [one[0, 1] for one in segments]
    assert np.allclose(heights, np.sqrt(3) * ROWS.mean(-1))


def test_the_second_step_follows_a_ray_and_ends_on_the_circle(axes):
    for line in axes[1].lines[:5]:
        start, end = line.get_xydata()
        assert np.isclose(np.hypot(*end), np.sqrt(3))
        assert np.isclose(np.cross(np.append(start, 0), np.append(end, 0))[2], 0) and start @ end > 0


def test_distances_in_the_plane_are_kept(axes):
    _, *points = (line.get_xydata() for line in axes[1].lines[4:6])
    assert np.allclose(np.linalg.norm(points[0], axis=-1), np.linalg.norm(FLAT, axis=-1))


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_the_coloured_cells_are_those_that_the_output_depends_on(ax):
    heard = np.array([[True, False, False], [False, True, True]])
    assert plots.plot_influence(heard, (1, 2), ax) is ax
    coloured = {patch.get_xy() for patch in ax.patches if to_hex(patch.get_facecolor()) == A.lower()}
    assert coloured == {(0, 0), (1, 1), (2, 1)} and len(ax.patches) == 6
    assert ax.lines[0].get_xydata().tolist() == [[2.5, 1.5]]


def test_an_image_is_shown_between_its_limits(ax):
    image = np.arange(6.0).reshape(2, 3)
    assert plots.plot_image(image, ax, -1.0, 9.0) is ax
    assert np.array_equal(ax.images[0].get_array(), image) and ax.images[0].get_clim() == (-1, 9)


def test_each_training_and_guessing_are_lines(ax):
    assert plots.plot_losses([[100.0, 10.0], [90.0, 9.0], [80.0, 8.0]], ax, 2.3) is ax
    drawn = [line.get_ydata() for line in ax.lines]
    assert [list(one) for one in drawn[:3]] == [[100, 10], [90, 9], [80, 8]] and set(drawn[3]) == {2.3}
    assert ax.get_yscale() == "log" and ax.get_ylim()[0] < 2.3 < 100 < ax.get_ylim()[1]
    assert "2.3" in ax.texts[0].get_text()


def test_each_image_stands_above_what_came_of_it():
    before, after = np.zeros((2, 3, 3)), np.ones((2, 3, 3))
    figure = plots.plot_before_and_after(before, after, ["x", "y"])
    shown = [ax.images[0].get_array() for ax in figure.axes]
    assert [image.mean() for image in shown] == [0, 0, 1, 1]
    assert [ax.get_title() for ax in figure.axes] == ["x", "y", "", ""]


def test_each_norm_has_a_table():
    figure = plots.plot_influences({"one": np.eye(2), "two": np.ones((2, 2))}, (0, 1))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["one", "two"]
    assert [len(ax.patches) for ax in figure.axes] == [4, 4]


def test_only_what_learns_is_drawn_in_the_ink_of_what_learns():
    good, bad = ([2.0, 0.1], 0.9), ([2.0, 2.0], 0.1)
    figure = plots.plot_halves({"a": [good, good], "b": [good, bad], "c": [bad, bad], "d": [good, good]})
    inks = [to_hex(ax.lines[0].get_color()) for ax in figure.axes]
    assert inks == [B.lower(), A.lower(), A.lower(), B.lower()]
    assert figure.axes[1].texts[0].get_text() == "read: 90%, 10%"
