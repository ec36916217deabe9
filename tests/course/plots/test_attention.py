import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots import attention as plots


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def tokens(count):
    """Some tokens: pixels that count up, and the inks in turn."""
    x = np.zeros((count, 68))
    x[:, :64] = np.linspace(0, 1, 64)
    x[range(count), 64 + np.arange(count) % 4] = 1
    return x


def test_inks_can_be_told_from_white_and_from_each_other_by_their_letters():
    assert len(plots.LETTERS) == len(plots.INKS) == 4 and (plots.INKS.mean(-1) < 0.5).all()


def test_a_map_names_the_digits_of_its_rows_and_columns(ax):
    plots.plot_attention_map(np.tri(3), tokens(3), ax, digits=[7, 0, 4])
    assert words(ax) == ["7", "7", "0", "0", "4", "4"]
    assert [text.get_position()[0] for text in ax.texts[::2]] == [-1.55] * 3 and ax.get_xlim()[0] < -1.55


def test_a_map_hides_what_comes_later_and_rings_what_is_named(ax):
    weights = np.tri(4) / np.arange(1, 5)[:, None]
    assert plots.plot_attention_map(weights, tokens(4), ax, [-1, 0, 0, 2]) is ax
    shown, *pictures = ax.images
    assert np.array_equal(np.ma.getmaskarray(shown.get_array()), np.triu(np.ones((4, 4)), 1) > 0) and len(pictures) == 8
    rings = [line.get_xydata().mean(0) for line in ax.lines if len(line.get_xydata()) == 41]
    assert np.allclose([ring[1] for ring in rings], [1.5, 2.5, 3.5], atol=0.02)
