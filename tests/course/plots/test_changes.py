import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots import changes
from residual_course.plots.style import REFERENCE


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_letters_stand_in_rows_in_their_order_with_paper_between(ax):
    pictures = np.arange(6)[:, None, None] + np.full((6, 2, 3), 1.0)
    assert changes.plot_letters(pictures, 2, ax) is ax
    table = np.asarray(ax.images[0].get_array())
    assert table.shape == (8, 15) and table[1, 1] == 1 and table[1, 6] == 2 and table[5, 1] == 4
    assert (table[0] == 0).all() and (table[:, 4] == 0).all()


def test_runs_are_dots_with_their_mean_and_one_range_is_shaded(ax):
    found = {"one": [1.0, 2.0, 3.0], "two": [0.5, 0.5, 0.8]}
    assert changes.plot_runs(found, ax, beside="two", label="loss") is ax
    (band,) = ax.patches
    assert np.isclose([band.get_x(), band.get_x() + band.get_width()], [0.5, 0.8]).all()
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [list(line.get_xdata()) for line in dots] == [found["one"], found["two"]]
    assert [set(line.get_ydata()) for line in dots] == [{1}, {0}]
    means = [line.get_xdata()[0] for line in ax.lines[2::3]]
    assert np.allclose(means, [2.0, 0.6]) and dots[1].get_color() == REFERENCE != dots[0].get_color()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "two"] and ax.get_xlabel() == "loss"


def test_runs_without_a_range(ax):
    changes.plot_runs({"one": [1.0, 2.0]}, ax)
    assert len(ax.patches) == 0 and ax.get_xlabel() == "test loss"


def test_four_runs_are_two_lines_from_without_to_with(ax):
    found = {"a": ([1.0, 3.0], [0.5, 0.7]), "b": ([0.2, 0.2], [0.4, 0.6])}
    assert changes.plot_four(found, ["off", "on"], ax) is ax
    lines = [line for line in ax.lines if list(line.get_xdata()) == [0, 1]]
    assert np.allclose([line.get_ydata() for line in lines], [[2.0, 0.6], [0.2, 0.5]])
    assert words(ax) == ["a", "b"] and [label.get_text() for label in ax.get_xticklabels()] == ["off", "on"]
    assert lines[0].get_linestyle() != lines[1].get_linestyle() and ax.get_ylim()[0] == 0


def test_rates_have_a_mark_a_seed_and_a_line_through_the_means(ax):
    found = {"a": {0.2: [0.5, 0.7], 0.1: [1.0, 3.0]}, "b": {0.4: [0.2, 0.4]}}
    assert changes.plot_rates(found, ax, label="loss") is ax
    lines = [line for line in ax.lines if line.get_label() in found]
    assert np.allclose(lines[0].get_xydata(), [[0.1, 2.0], [0.2, 0.6]]) and np.allclose(lines[1].get_ydata(), [0.3])
    marks = [line for line in ax.lines if line.get_label() not in found]
    assert [line.get_xydata().tolist() for line in marks] == [
        [[0.1, 1.0], [0.1, 3.0]],
        [[0.2, 0.5], [0.2, 0.7]],
        [[0.4, 0.2], [0.4, 0.4]],
    ]
    assert ax.get_xscale() == "log" and ax.get_ylabel() == "loss" and ax.get_ylim()[0] == 0
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.1", "0.2", "0.4"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]


def test_numbers_on_a_grid_stand_in_their_cells(ax):
    assert changes.plot_on_grid([[1.0, -2.0], [0.25, 3.0]], ax, digits=1) is ax
    assert words(ax) == ["1.0", "-2.0", "0.2", "3.0"]
    assert [text.get_position() for text in ax.texts] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_weights_of_patches_lie_under_the_outline_of_a_picture(ax):
    picture = np.zeros((8, 8))
    picture[2:6, 2:6] = 1
    assert changes.plot_over(picture, [[0.1, 0.2], [0.3, 0.4]], ax) is ax
    assert np.allclose(ax.images[0].get_array(), [[0.1, 0.2], [0.3, 0.4]]) and len(ax.collections) == 1
    outline = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])
    assert 0.4 < outline.min() < 0.6 and 1.4 < outline.max() < 1.6
