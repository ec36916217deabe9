import pytest
from matplotlib.figure import Figure

from residual_course.plots.residual_block import (
    plot_patient,
    plot_text,
)
from residual_course.plots.style import GRADIENT, STREAM, A


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_text_has_a_box_for_each_letter(ax):
    assert plot_text("a bc", ax) is ax
    assert words(ax) == ["a", " ", "b", "c"] and len(ax.patches) == 4


def test_a_patient_is_drawn_over_the_healthy_one_and_nothing_below_the_floor(ax):
    healthy, sick = ([1.0, 1, 2], [2.0, 1, 1], [0.5, 0.5]), ([1.0, 3, 9], [9.0, 3, 1], [0.0, 0.0])
    assert plot_patient(sick, healthy, ax, low=0.01) is ax
    assert [line.get_ydata().tolist() for line in ax.lines] == [*map(list, healthy), *sick[:2], [0.01, 0.01]]
    assert [line.get_color() for line in ax.lines] == 2 * [STREAM, GRADIENT, A]
    assert [line.get_marker() for line in ax.lines] == 2 * ["", "^", "s"]
    assert [line.get_linestyle() for line in ax.lines] == 3 * ["--"] + 3 * ["-"]
    assert ax.lines[2].get_xdata().tolist() == [0.5, 1.5] and ax.get_yscale() == "log"
