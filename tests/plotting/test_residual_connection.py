"""The pictures of one residual connection and of stacks: they show the numbers that they are given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_edu.plotting.residual_connection import (
    label_ends,
    plot_connection,
    plot_depths,
    plot_gate_gradients,
    plot_profile,
    plot_tokens,
)
from residual_edu.plotting.style import BRANCH, DROPPED, GRADIENT, STREAM

STAGES = (
    [1.0, 2, 3, 4],
    [-1.16, -0.39, 0.39, 1.16],
    [0, 0.5, 0, 1],
    [0.07, -0.31, -0.05, -0.07],
    [0.08, -0.34, 0, -0.08],
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def texts(ax):
    return [text.get_text() for text in ax.texts]


class TestConnection:
    def test_returns_its_axes(self, ax):
        assert plot_connection(*STAGES, ax) is ax

    def test_shows_each_stage_and_the_sum(self, ax):
        shown = texts(plot_connection(*STAGES, ax))
        for number in ("1", "−1.16", "0.07", "0.08", "+ 0.08", "1.08", "− 0.34", "1.66", "+ 0", "3", "3.92"):
            assert number in shown

    def test_each_row_of_the_stream_adds_up(self, ax):
        token, branch = [5.0, -7.0], [0.25, -0.5]
        shown = texts(plot_connection(token, token, [1], branch, branch, ax))
        assert "5.25" in shown and "−7.50" in shown

    def test_what_is_zero_is_grey_in_the_branch_and_in_the_stream(self, ax):
        plot_connection(*STAGES, ax)
        colors = {text.get_text(): text.get_color() for text in ax.texts}
        assert colors["0"] == colors["+ 0"] == DROPPED
        assert colors["0.08"] == colors["+ 0.08"] == BRANCH
        assert colors["1"] == colors["3"] == STREAM

    def test_takes_fewer_features(self, ax):
        plot_connection([1.0], [0.0], [1, 2, 3], [0.5], [0.5], ax).figure.canvas.draw()

    def test_nothing_is_drawn_outside(self, ax):
        plot_connection(*STAGES, ax)
        for line in ax.lines:
            assert ((np.asarray(line.get_xydata()) >= 0) & (np.asarray(line.get_xydata()) <= 100)).all()


def test_tokens_are_one_line_each(ax):
    tokens = np.arange(12).reshape(3, 4)
    assert plot_tokens(tokens, ax) is ax
    assert np.array_equal([line.get_ydata() for line in ax.lines], tokens)
    assert np.array_equal(ax.lines[0].get_xdata(), [1, 2, 3, 4])


def test_gate_gradients_name_where_they_meet(ax):
    gates, lost = np.array([0, 0.5, 1]), np.array([[0, 0], [0.5, -0.5], [1, -1]])
    assert plot_gate_gradients(gates, 1 + lost, lost, ax) is ax
    assert [text.strip() for text in texts(ax)] == ["with the skip: 1", "without it: 0"]
    entries = [line.get_ydata() for line in ax.lines if len(line.get_xdata()) == 3]
    assert np.array_equal(entries, np.concatenate([1 + lost, lost], axis=1).T)


class TestDepths:
    SIZES = np.array([[1.0, 10], [2, 20], [4, 80]])

    def test_draws_the_median_and_the_band(self, ax):
        assert plot_depths([2, 4], {"f(x)": self.SIZES}, ax) is ax
        assert np.array_equal(ax.lines[0].get_ydata(), [2, 20])
        heights = ax.collections[0].get_paths()[0].vertices[:, 1]
        assert heights.min() == 1 and heights.max() == 80

    def test_laws_are_dotted(self, ax):
        plot_depths([2, 4], {"f(x)": self.SIZES}, ax, [[3, 9]])
        assert ax.lines[-1].get_linestyle() == ":" and np.array_equal(ax.lines[-1].get_ydata(), [3, 9])

    def test_both_axes_are_logarithmic_and_the_depths_are_written_out(self, ax):
        plot_depths([2, 64], {"f(x)": self.SIZES}, ax)
        assert ax.get_xscale() == ax.get_yscale() == "log"
        assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "64"]

    def test_ends_carry_the_names_of_the_curves_and_no_other(self, ax):
        curves = {"f(x)": self.SIZES, "x + f(x)": 2 * self.SIZES}
        assert label_ends(plot_depths([2, 4], curves, ax, [[3, 9]])) is ax
        assert texts(ax) == list(curves)
        assert [text.xy for text in ax.texts] == [(4, 20), (4, 40)]


def test_profile_draws_signal_then_gradient(ax):
    assert plot_profile([1, 2, 4], [8, 4, 1], ax, depth=2) is ax
    assert np.array_equal(ax.lines[0].get_ydata(), [1, 2, 4]) and ax.lines[0].get_color() == STREAM
    assert np.array_equal(ax.lines[1].get_ydata(), [8, 4, 1]) and ax.lines[1].get_color() == GRADIENT
    assert texts(ax) == ["floods", "dries out"]
