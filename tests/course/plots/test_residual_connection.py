"""The pictures of one residual connection and of stacks: they show the numbers that they are given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.residual_connection import plot_connection
from residual_course.plots.style import BRANCH, DROPPED, STREAM

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
