"""The pictures of the lesson on conditions draw what they were given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots import conditions as plots


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_a_row_a_name_from_the_top_and_a_word_for_what_is_not_there(ax):
    assert plots.plot_rows({"first": [0.1, 0.3], "second": [np.nan, 1.0]}, ax) is ax
    dots = next(line for line in ax.lines if line.get_label() == "first")
    assert dots.get_xdata().tolist() == [0.1, 0.3] and dots.get_ydata().tolist() == [0, 0]
    assert [text.get_text() for text in ax.texts] == ["none"] and ax.get_ylim() == (1.5, -0.5)
    assert plots.plot_rows({"small": [1e-9]}, Figure().add_subplot(), log=True).get_xscale() == "log"


def test_the_way_back_is_a_line_a_network(ax):
    plots.plot_way_back(["loss", "label"], {"sick": [1, 1e-9], "healthy": [1, 0.1]}, ax)
    assert [line.get_ydata().tolist() for line in ax.lines] == [[1, 1e-9], [1, 0.1]] and ax.get_yscale() == "log"
    assert len({line.get_linestyle() for line in ax.lines}) == 2


def test_a_mark_a_branch_and_a_look_a_group(ax):
    plots.plot_shares({"one": ([[0.1, 0.2]], [[1, 2]]), "other": ([0.5], [0])}, ax)
    assert ax.lines[0].get_xydata().tolist() == [[0.1, 1], [0.2, 2]]
    assert ax.lines[0].get_marker() != ax.lines[1].get_marker()


def test_removed_branches_stand_beside_each_other_in_their_block(ax):
    plots.plot_removed(np.arange(12.0).reshape(2, 3, 2), ["mixer", "MLP"], ax)
    assert ax.lines[0].get_xdata() == pytest.approx([0.9, 1.9, 2.9]) and ax.lines[0].get_ydata().tolist() == [0, 2, 4]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mixer", "MLP"]


def test_sums_stand_above_what_all_cost_at_once(ax):
    plots.plot_sum({"MLP": ([0.1], [0.4]), "mixer": ([0.2], [0.1])}, ax)
    assert [line.get_xdata().tolist() for line in ax.lines] == [[0.1], [0.4], [0.2], [0.1]]
    assert ax.lines[0].get_ydata()[0] < ax.lines[1].get_ydata()[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one by one, summed", "all at once"]
