import numpy as np
from matplotlib.figure import Figure

from residual_course.plots.dropout import plot_errors, plot_thinned


def test_a_thinned_network_has_lines_between_units_that_stay_and_zeros_for_the_others():
    figure = Figure()
    plot_thinned({"all": np.ones((2, 4)), "some": [[1, 0, 0, 0], [1, 1, 0, 0]]}, figure)
    whole, some = figure.axes
    lines = [[line for line in ax.lines if line.get_marker() == "None"] for ax in (whole, some)]
    assert [len(one) for one in lines] == [3 * 4 + 4 * 4 + 4, 3 + 2 + 2]
    assert [len(ax.texts) for ax in (whole, some)] == [0, 5]
    assert [ax.get_title("center") for ax in (whole, some)] == ["all", "some"]


def test_errors_have_a_line_a_seed_in_each_panel_and_the_names_apart():
    figure = Figure()
    curves = {"none": [[[0, 0.9], [0.1, 0.91]]] * 3, "dropout": [[[0.2, 0.9], [0.3, 0.9]]] * 3}
    plot_errors(curves, [0, 20], figure)
    own, new = figure.axes
    assert list(own.lines[0].get_ydata()) == [0, 0.1] and list(new.lines[0].get_ydata()) == [0.9, 0.91]
    assert len(own.lines) == len(new.lines) == 7  # with the reference
    heights = [text.get_position()[1] for text in new.texts]
    assert abs(heights[0] - heights[1]) > 0.1 and {text.get_text() for text in new.texts} == set(curves)
