"""The pictures of plain and residual stacks show the numbers that they are given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.plain_and_residual import LOOKS, label_along, plot_along, plot_parts, plot_two_losses
from residual_course.plots.style import REFERENCE


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


class TestAlong:
    SIZES = {"x": np.array([[1.0, 2, 4], [1, 3, 9]]), "gradient": np.array([[4.0, 2, 1]])}

    def test_laws_are_drawn_thin_and_first_then_a_line_a_seed(self, ax):
        assert plot_along(self.SIZES, {"law": [1.0, 5, 25]}, ax) is ax
        drawn = [list(map(float, line.get_ydata())) for line in ax.lines]
        assert drawn == [[1, 5, 25], [1, 2, 4], [1, 3, 9], [4, 2, 1]]
        assert ax.lines[0].get_color() == REFERENCE and ax.lines[0].get_linewidth() < ax.lines[1].get_linewidth()

    def test_places_in_the_blocks_are_counted_from_one(self, ax):
        plot_along({"weight gradient": [[3.0, 2, 1]]}, {"law": [4.0, 2, 1]}, ax, first=1)
        assert [list(map(float, line.get_xdata())) for line in ax.lines] == [[1, 2, 3]] * 2
        assert ax.get_xlabel() == "block" and ax.get_xlim() == (1, 3)

    @pytest.mark.parametrize(
        "kind",
        [
            ("x", "differences", "gradient"),
            ("x + f(x)", "x + f(norm(x))", "x + f(x)/√L"),
            ("differences", "weight gradient"),
            ("eps 1e-08", "eps 1e-30"),
        ],
    )
    def test_no_two_looks_are_told_apart_by_hue_alone(self, kind):
        assert len({LOOKS[name][1] for name in kind}) == len(kind)

    def test_the_axis_is_logarithmic_and_ends_with_the_stack(self, ax):
        plot_along(self.SIZES, {}, ax)
        assert ax.get_yscale() == "log" and ax.get_xlim() == (0, 2)

    def test_labels_have_the_ink_of_their_curve(self, ax):
        assert label_along(plot_along(self.SIZES, {}, ax), {"x": (1.0, 3.0), "gradient": (0.5, 2.0)}) is ax
        assert texts(ax) == ["x", "gradient"]
        assert [text.get_color() for text in ax.texts] == [LOOKS["x"][0], LOOKS["gradient"][0]]


def test_parts_draw_the_mean_and_every_seed():
    cut = {"residual": [[0.1, 0.5, 0.9], [0.3, 0.7, 0.9]], "plain": [[0.1, 0.1, 0.9], [0.1, 0.3, 0.7]]}
    without = {name: [row[1:] for row in rows] for name, rows in cut.items()}
    left, right = plot_parts(cut, without, Figure())
    for ax, shares, first in ((left, cut, 0), (right, without, 1)):
        means = [line for line in ax.lines if line.get_label() in shares]
        for line, rows in zip(means, shares.values(), strict=True):
            assert np.allclose(line.get_ydata(), np.mean(rows, 0)) and line.get_xdata()[0] == first
        marks = sorted(y for line in ax.lines if line not in means for y in line.get_ydata())
        assert np.allclose(marks, sorted(np.ravel(list(shares.values()))))
