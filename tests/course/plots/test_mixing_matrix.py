import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.mixing_matrix import SILENCE, plot_mixing_matrix


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_the_matrix_is_drawn_listeners_down_and_speakers_across(ax):
    matrix = np.arange(1.0, 7).reshape(2, 3)
    assert plot_mixing_matrix(matrix, ax) is ax
    assert np.array_equal(ax.images[0].get_array(), matrix) and ax.images[0].get_clim() == (0, 6)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("input position", "output position")
    assert ax.get_xlim() == (-0.5, 2.5) and ax.get_ylim() == (1.5, -0.5)


def test_silence_is_grey_and_a_little_is_not(ax):
    plot_mixing_matrix([[1.0, 0.0], [1e-30, 1.0]], ax)
    assert np.ma.getmaskarray(ax.images[0].get_array()).tolist() == [[False, True], [False, False]]
    assert "grey: not at all" in ax.get_xlabel()
    from matplotlib.colors import to_rgba

    assert ax.get_facecolor() == to_rgba(SILENCE)


def test_a_common_top_and_no_names_for_one_panel_of_several(ax):
    plot_mixing_matrix(np.ones((20, 20)), ax, top=4.0, named=False)
    assert ax.images[0].get_clim() == (0, 4) and ax.get_xlabel() == ax.get_ylabel() == ""
    assert list(ax.get_xticks()) == [0, 3, 6, 9, 12, 15, 18]


def test_total_silence_can_be_drawn(ax):
    plot_mixing_matrix(np.zeros((3, 3)), ax)
    assert np.ma.getmaskarray(ax.images[0].get_array()).all()
