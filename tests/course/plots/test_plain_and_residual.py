"""The pictures of plain and residual stacks show the numbers that they are given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.plain_and_residual import plot_two_losses


@pytest.fixture
def ax():
    return Figure().add_subplot()


def texts(ax):
    return [text.get_text() for text in ax.texts]


class TestTwoLosses:
    LOSSES = {"f(x)": np.full((3, 20), 2.3), "x + f(x)": np.linspace(3, 0.1, 20) + np.zeros((3, 1))}

    def test_a_line_a_seed_and_one_for_guessing(self, ax):
        assert plot_two_losses(self.LOSSES, ax, guessing=2.302) is ax
        drawn = [np.asarray(line.get_ydata(), float) for line in ax.lines]
        assert len(drawn) == 7 and (drawn[6] == 2.302).all()
        assert np.array_equal(drawn[:3], self.LOSSES["f(x)"]) and np.array_equal(drawn[3:6], self.LOSSES["x + f(x)"])

    def test_names_stand_above_their_curves_in_their_colours(self, ax):
        plot_two_losses(self.LOSSES, ax, guessing=2.302)
        for name, line in (("f(x)", ax.lines[0]), ("x + f(x)", ax.lines[3])):
            label = next(text for text in ax.texts if text.get_text() == name)
            assert label.get_color() == line.get_color()
            assert label.get_position()[1] > np.asarray(line.get_ydata(), float)[10]
        assert "guessing at random: 2.302" in texts(ax)
