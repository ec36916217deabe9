"""Curves, reconstruction and probe: drawn as handed over, on the axes that were handed over."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.style import GRADIENT, REFERENCE, STREAM, A, B
from residual_course.plots.three_curves import (
    label_curves,
    plot_probe,
    plot_read,
    plot_reconstruction,
    plot_three_curves,
    plot_two_stacks,
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_curves_stand_between_the_layers_and_the_weight_gradient_at_them(ax):
    activation, delta, weight = np.logspace(0, -4, 5), np.logspace(-4, 0, 5), np.full(4, 1e-4)
    assert plot_three_curves({"signal": activation, "stream gradient": delta, "weight gradient": weight}, ax) is ax
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


def test_two_stacks_have_a_line_a_seed_and_looks_of_their_own(ax):
    rows = {"x + f(x)": [[1.0, 2, 3], [2, 2, 2]], "x + f(norm(x))": [[3.0, 2, 1]]}
    assert plot_two_stacks(rows, ax) is ax
    assert [line.get_ydata().tolist() for line in ax.lines] == [[1, 2, 3], [2, 2, 2], [3, 2, 1]]
    assert [line.get_color() for line in ax.lines] == [A, A, B] and ax.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert ax.lines[0].get_linestyle() != ax.lines[2].get_linestyle() and ax.get_yscale() == "log"


def test_what_is_read_along_the_blocks_has_a_line_a_seed_between_0_and_all(ax):
    shares = {"x + f(x)": [[0.9, 0.6, 0.4], [0.9, 0.5, 0.3]], "f without ReLU": [[0.9, 0.9, 0.9]]}
    assert plot_read(shares, range(0, 9, 4), ax) is ax
    curves = [line for line in ax.lines if len(line.get_xdata()) == 3]
    assert [line.get_ydata().tolist() for line in curves] == [*shares["x + f(x)"], *shares["f without ReLU"]]
    assert [line.get_color() for line in curves] == [A, A, REFERENCE]
    assert len({line.get_linestyle() for line in curves}) == 2
    assert curves[0].get_xdata().tolist() == [0, 4, 8] and ax.get_ylim() == (0, 1.03)
    assert "guessing" in {text.get_text() for text in ax.texts}


def test_a_reconstruction_is_dots_at_the_blocks_of_the_measured_curve(ax):
    plot_three_curves({"weight gradient": [1.0, 2.0]}, ax)
    assert plot_reconstruction([1.1, 1.9], ax) is ax
    measured, dots = ax.lines
    assert dots.get_xdata().tolist() == measured.get_xdata().tolist() and dots.get_ydata().tolist() == [1.1, 1.9]
    assert dots.get_color() == REFERENCE and dots.get_linestyle() == "None"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["measured", "reconstructed"]


def test_a_probe_has_a_dot_for_each_seed_and_one_mark_for_each_group(ax):
    points = {"x + f(x)": ([0.3, 0.4], [0.1, 0.2]), "x + f(x)/2": ([0.7], [0.9]), "turning": ([0.98], [0.97])}
    points |= {"x + f(norm(x))": ([0.9], [0.95]), "turning, alike": ([0.97], [0.9])}
    assert plot_probe(points, ax) is ax
    drawn = [line.get_xydata().tolist() for line in ax.lines[: len(points)]]
    wanted = [[list(pair) for pair in zip(*both, strict=True)] for both in points.values()]
    assert drawn == wanted
    marks = [line.get_marker() for line in ax.lines[: len(points)]]
    assert marks[0] == marks[1] and len(set(marks)) == 4
    assert len(ax.get_legend().get_texts()) == 4 and "share right" in ax.get_xlabel()
