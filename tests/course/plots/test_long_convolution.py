import numpy as np
from matplotlib.figure import Figure

from residual_course.plots.long_convolution import plot_ridges


def test_ridges_stand_one_under_the_other_each_as_high_as_its_largest_tap():
    ax = Figure().add_subplot()
    kernels = {"low": [0.0, 1, -1], "high": [0.0, 5, 10], "silent": [0.0, 0, 0]}
    assert plot_ridges([-1, 0, 1], kernels, ax, "lag") is ax
    drawn = [line for line in ax.lines if len(line.get_ydata()) == 3]
    assert np.allclose([line.get_ydata() for line in drawn], [[0, 0.45, -0.45], [-1, -0.775, -0.55], [-2, -2, -2]])
    assert [text.get_text() for text in ax.texts] == ["low", "high", "silent"] and [
        text.get_position()[1] for text in ax.texts
    ] == [0, -1, -2]
    assert ax.get_xlabel() == "lag"
