"""The pictures of a language model draw what they were given."""

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from residual_course.plots import configurable as plots
from residual_course.plots.style import REFERENCE, A


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_a_mean_stands_above_the_middle_of_its_window():
    heights = np.arange(40.0)
    for window in (9, 15):
        x, y = plots.smoothed(heights, window)
        assert x == pytest.approx(y) and x[0] == (window - 1) / 2 and len(x) == 41 - window
    x, y = plots.smoothed([1.0, 3.0])  # shorter than its window
    assert x == pytest.approx([0.5]) and y == pytest.approx([2])


def test_a_word_that_is_not_known_is_coloured_and_underlined(ax):
    text = "a word, a wrod, and an"
    plots.plot_written(text, ["a", "word", "and"], 8, ax, columns=6)
    signs = ax.texts[: len(text)]
    assert "".join(sign.get_text() for sign in signs) == text
    strange = [at for at, sign in enumerate(signs) if same_color(sign.get_color(), A)]
    assert strange == [10, 11, 12, 13]  # wrod; "an" may be the beginning of "and"
    assert all(same_color(signs[at].get_color(), REFERENCE) for at in range(len(text)) if at not in strange)
    assert [sign.get_position() for sign in signs[5:7]] == [(5.5, 0.5), (0.5, 1.5)]
    *under, line = ax.lines
    assert len(under) == 4 and list(line.get_ydata()) == [8 / 6, 8 / 6]


def test_losses_by_position_have_a_line_at_the_trained_length(ax):
    plots.plot_by_position({"plain": np.arange(30.0), "masked": np.ones(30)}, 12, ax)
    plain, masked, line = ax.lines
    assert plain.get_xdata() == pytest.approx(plain.get_ydata())
    assert masked.get_ydata() == pytest.approx(np.ones(22)) and set(line.get_xdata()) == {12}
    assert [text.get_text() for text in ax.texts] == ["plain", "masked", "trained to 12"]


def test_terms_are_drawn_as_they_are_with_a_line_at_zero(ax):
    plots.plot_terms({"pair 3": [1.0, -2.0, 1.5], "pair 4": np.zeros(3)}, 2, ax)
    third, fourth, length, zero = ax.lines
    assert list(third.get_xdata()) == [0, 1, 2] and list(third.get_ydata()) == [1, -2, 1.5]
    assert not fourth.get_ydata().any() and set(length.get_xdata()) == {2} and set(zero.get_ydata()) == {0}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["pair 3", "pair 4"]


def test_the_sum_of_terms_is_a_thick_line(ax):
    plots.plot_terms({"all": [2.0, 1.0], "pair 2": [1.0, 1.0], "pair 3": [1.0, 0.0]}, 1, ax, total="all")
    widths = {line.get_label(): line.get_linewidth() for line in ax.lines[:3]}
    assert widths["all"] > 1.5 * widths["pair 2"] == 1.5 * widths["pair 3"]


def test_losses_over_the_steps_are_averaged(ax):
    plots.plot_losses({"model": np.arange(20.0)}, ax, window=5)
    assert ax.lines[0].get_xdata() == pytest.approx(ax.lines[0].get_ydata())
    assert ax.get_xlabel() == "step"
