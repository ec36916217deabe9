import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots import neuron


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def curves(ax):
    return [np.asarray(line.get_ydata(), float).tolist() for line in ax.lines]


def test_predictions_stand_over_what_was_measured_each_with_its_name(ax):
    assert neuron.plot_predictions([0.0, 2, 1], {"one": [1.0, 1, 1], "two": [0.0, 3, 0]}, ax, first=10) is ax
    assert curves(ax) == [[0, 2, 1], [1, 1, 1], [0, 3, 0]]
    assert ax.lines[0].get_xdata().tolist() == [10, 11, 12] and ax.get_xlim() == (10, 12)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["measured", "one", "two"]
    low, high = ax.get_ylim()
    assert low < 0 and high > 3.5


def test_predictions_alone_and_a_measurement_alone(ax):
    neuron.plot_predictions(None, {"one": [1.0, 2], "two": [0.0, 3]}, ax)
    assert curves(ax) == [[1, 2], [0, 3]]
    other = neuron.plot_predictions([1.0, 2], {}, Figure().add_subplot())
    assert curves(other) == [[1, 2]] and other.get_legend() is None


def test_a_kernel_has_its_peaks_named(ax):
    assert neuron.plot_kernel([0.0, 0.5, 0.1, -0.2], ax, named=[1]) is ax
    assert words(ax) == ["lag 1"] and curves(ax)[1] == [0, 0.5, 0.1, -0.2]
    assert ax.lines[2].get_xydata().tolist() == [[1, 0.5]]


def test_waves_are_on_a_logarithmic_axis_with_every_seed(ax):
    table = {"coarse": [[0.3, 0.4], [0.1, 0.2]], "fine": [[0.3, 0.5], [0.6, 0.4]]}
    assert neuron.plot_by_waves([4, 16], table, ax, [0.1, 0.12]) is ax
    assert np.allclose(curves(ax)[1], [0.3, 0.4, 0.1, 0.2]) and np.allclose(curves(ax)[2], [0.35, 0.15])
    assert np.allclose(curves(ax)[5], [0.4, 0.5]) and ax.get_xscale() == "log"
    assert curves(ax)[0] == [0.1] and curves(ax)[3] == [0.12] and curves(ax)[6] == [0.1, 0.1]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["4", "16", "stored"]


def test_between_taps_stands_the_curve(ax):
    assert neuron.plot_between([0, 1], [1.0, 2], [0, 0.5, 1], [1.0, 9, 2], ax) is ax
    assert curves(ax) == [[1, 9, 2], [1, 2]]


def test_errors_by_name_stand_one_under_the_other(ax):
    assert neuron.plot_errors_by_name({"a": [0.9, 1.0], "b": 0.01}, ax) is ax
    assert [line.get_ydata()[0] for line in ax.lines] == [1, 0] and ax.get_xlim()[0] == 0
    assert [line.get_xdata().tolist() for line in ax.lines] == [[0.9, 1], [0.01]]
    assert {label.get_text() for label in ax.get_yticklabels()} == {"a", "b"}
