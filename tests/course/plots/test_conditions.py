"""The pictures of the investigation on conditions draw what they were given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots import conditions as plots


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_a_row_a_name_from_the_top_and_a_word_for_what_is_not_there(ax):
    assert plots.plot_rows({"first": [0.1, 0.3], "second": [np.nan, 1.0]}, ax) is ax
    dots = next(line for line in ax.lines if line.get_label() == "first")
    assert dots.get_xdata().tolist() == [0.1, 0.3] and dots.get_ydata().tolist() == [0, 0]
    assert [text.get_text() for text in ax.texts] == ["none"] and ax.get_ylim() == (1.5, -0.5)
    assert plots.plot_rows({"small": [1e-9]}, Figure().add_subplot(), log=True).get_xscale() == "log"


def test_the_way_back_is_a_line_a_network(ax):
    plots.plot_way_back(["loss", "label"], {"sick": [1, 1e-9], "healthy": [1, 0.1]}, ax)
    assert [line.get_ydata().tolist() for line in ax.lines] == [[1, 1e-9], [1, 0.1]] and ax.get_yscale() == "log"
    assert len({line.get_linestyle() for line in ax.lines}) == 2
