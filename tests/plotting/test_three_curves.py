"""Curves, shares and heat map: drawn as handed over, on the axes that were handed over."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_edu.plotting.style import BRANCH, GRADIENT, STREAM, A
from residual_edu.plotting.three_curves import label_curves, plot_heat_map, plot_shares, plot_three_curves


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_curves_stand_between_the_layers_and_the_weight_gradient_at_them(ax):
    activation, delta, weight = np.logspace(0, -4, 5), np.logspace(-4, 0, 5), np.full(4, 1e-4)
    assert plot_three_curves({"activation": activation, "stream gradient": delta, "weight gradient": weight}, ax) is ax
    assert [line.get_color() for line in ax.lines] == [STREAM, GRADIENT, A]
    assert [line.get_linestyle() for line in ax.lines] == ["-", "-.", "--"]
    assert ax.lines[0].get_xydata().tolist() == [[place, value] for place, value in enumerate(activation)]
    assert ax.lines[2].get_xdata().tolist() == [0.5, 1.5, 2.5, 3.5] and ax.lines[2].get_ydata().tolist() == [1e-4] * 4
    assert ax.get_yscale() == "log" and "root mean square" in ax.get_ylabel()


def test_each_seed_has_a_line(ax):
    rows = np.arange(1.0, 13).reshape(3, 4)
    plot_three_curves({"stream gradient": rows}, ax)
    assert [line.get_ydata().tolist() for line in ax.lines] == rows.tolist()


def test_places_are_marked_at_quarters_of_a_deep_stack_and_all_of_a_shallow_one(ax):
    plot_three_curves({"weight gradient": np.ones(32)}, ax)
    assert ax.get_xticks().tolist() == [0, 8, 16, 24, 32]
    shallow = plot_three_curves({"weight gradient": np.ones(2)}, Figure().add_subplot())
    assert shallow.get_xticks().tolist() == [0, 1, 2]


def test_names_stand_where_they_are_put_in_the_colour_of_their_curve(ax):
    assert label_curves(ax, {"stream gradient": (3.0, 0.5)}) is ax
    (text,) = ax.texts
    assert (text.get_text(), text.get_position(), text.get_color()) == ("stream gradient", (3, 0.5), GRADIENT)


def test_shares_are_drawn_for_each_seed_from_zero(ax):
    skip, branch = np.array([[2.0, 1.0], [2.1, 1.0]]), np.array([[0.8, 0.2], [0.7, 0.2]])
    assert plot_shares(skip, branch, ax) is ax
    assert [line.get_ydata().tolist() for line in ax.lines] == [*skip.tolist(), *branch.tolist()]
    assert [line.get_color() for line in ax.lines] == [GRADIENT] * 2 + [BRANCH] * 2
    assert ax.get_ylim()[0] == 0 and [text.get_text() for text in ax.texts] == ["along the skip", "through the branch"]


def test_a_heat_map_has_steps_to_the_right_and_the_first_place_at_the_bottom(ax):
    delta = np.array([[1e-8, 1e-2], [1e-7, 1e-2], [1e-6, 1e-2]])
    assert plot_heat_map(delta, ax, 1e-10, 1e-2) is ax
    (image,) = ax.images
    assert image.get_array().tolist() == delta.T.tolist() and image.origin == "lower"
    assert image.norm(1e-10) == 0 and image.norm(1e-2) == 1 and image.norm(1e-6) == pytest.approx(0.5)
    assert image.norm(1e-30) == 0
