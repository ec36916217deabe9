"""The pictures of the lesson on LayerNorm draw what they were given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_edu.plotting import layer_norm as plots

ROWS = np.random.default_rng(0).normal(size=(5, 3)) + 1
FLAT = ROWS - ROWS.mean(-1, keepdims=True)
ENDS = FLAT / ROWS.std(-1, keepdims=True)


@pytest.fixture
def axes():
    drawn = Figure().subplots(1, 2)
    plots.plot_two_steps(ROWS, FLAT, ENDS, *drawn)
    return drawn


def test_the_first_step_ends_straight_below_its_row(axes):
    segments = [line.get_xydata() for line in axes[0].lines[:5]]
    assert all(np.allclose(one[0, 0], one[1, 0]) and np.allclose(one[1, 1], 0) for one in segments)
    heights = [one[0, 1] for one in segments]
    assert np.allclose(heights, np.sqrt(3) * ROWS.mean(-1))


def test_the_second_step_follows_a_ray_and_ends_on_the_circle(axes):
    for line in axes[1].lines[:5]:
        start, end = line.get_xydata()
        assert np.isclose(np.hypot(*end), np.sqrt(3))
        assert np.isclose(np.cross(np.append(start, 0), np.append(end, 0))[2], 0) and start @ end > 0


def test_distances_in_the_plane_are_kept(axes):
    _, *points = (line.get_xydata() for line in axes[1].lines[4:6])
    assert np.allclose(np.linalg.norm(points[0], axis=-1), np.linalg.norm(FLAT, axis=-1))


def test_four_series_are_all_drawn():
    ax = plots.plot_by_rate({name: {1.0: [0.5]} for name in "abcd"}, Figure().add_subplot())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [*"abcd"]


def test_each_seed_is_a_mark_and_the_line_goes_through_the_worst():
    shares = {"none": {0.1: [0.9, 0.8, 0.7], 1: [0, 0, 0]}, "norm": {0.1: [0.9, 0.95, 1]}}
    ax = plots.plot_by_rate(shares, Figure().add_subplot())
    worst, marks, *_ = ax.lines
    assert worst.get_ydata().tolist() == [0.7, 0] and worst.get_xdata().tolist() == [0.1, 1]
    assert sorted(marks.get_ydata()) == [0.7, 0.8, 0.9]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["none", "norm"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.1", "1"]
