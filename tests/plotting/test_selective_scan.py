import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_edu.plotting.selective_scan import (
    MIXERS,
    plot_chunks,
    plot_cost,
    plot_errors,
    plot_latch,
    plot_memory,
    plot_scores,
    plot_states,
    slope,
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_memory_stacks_what_is_left_of_each_input_and_writes_the_totals(ax):
    shares = np.array([[8.0, 0, 0], [4, 4, 0], [2, 2, 2]])
    assert plot_memory(shares, ax) is ax
    heights = np.array([[bar.get_height() for bar in bars] for bars in ax.containers]).T
    floors = np.array([[bar.get_y() for bar in bars] for bars in ax.containers]).T
    assert heights.tolist() == shares.tolist() and floors.tolist() == (shares.cumsum(1) - shares).tolist()
    assert [text for text in words(ax) if text][-3:] == ["8", "8", "6"]


def test_latch_fills_what_is_marked_and_names_each_memory_at_its_end(ax):
    numbers, marked = [7.0, 2, 3], [True, False, True]
    assert plot_latch(numbers, marked, {"equal": [1.0, 2, 4], "chosen": [7.0, 7, 3]}, ax) is ax
    noise, marks, equal, chosen = [line.get_xydata().tolist() for line in ax.lines]
    assert noise == [[2, 2]] and marks == [[1, 7], [3, 3]]
    assert equal == [[1, 1], [2, 2], [3, 4]] and chosen == [[1, 7], [2, 7], [3, 3]]
    assert words(ax) == ["7", "3", "equal", "chosen"]
    assert {text.get_text(): text.xy for text in ax.texts}["equal"] == (3.5, 4)


def test_states_stand_side_by_side_with_their_numbers_and_names(ax):
    assert plot_states([[[3.0, 0]], [[3, 5]]], ["first", "then"], ax) is ax
    field = ax.images[0].get_array()
    assert field.filled(-1).tolist() == [[3, 0, -1, 3, 5]]
    assert words(ax) == ["first", "then", "3", "0", "3", "5"]


@pytest.mark.parametrize("count, chunk, squares", [(8, 4, [4, 4]), (7, 3, [3, 3, 1])])
def test_chunks_have_a_square_each_and_a_block_beside_all_but_the_first(ax, count, chunk, squares):
    left = np.tril(np.full((count, count), 0.5))
    assert plot_chunks(left, chunk, ax) is ax
    solid = [patch for patch in ax.patches if patch.get_linestyle() in ("-", "solid")]
    assert [patch.get_width() for patch in solid] == squares
    assert [patch.get_x() + 0.5 for patch in solid] == list(range(0, count, chunk))
    assert words(ax).count("one state") == len(squares) - 1 == len(ax.patches) - len(solid)
    shown = ax.images[0].get_array()
    assert shown.mask.tolist() == (left == 0).tolist()


def test_errors_end_in_a_cross_where_nan_begins(ax):
    steps = [0.1, 1.0, 10.0]
    assert plot_errors(steps, {"divide": [1e-7, 1e-6, math.nan], "chunks": [1e-7, 1e-7, 2e-7]}, ax) is ax
    divide, cross, chunks = ax.lines
    assert divide.get_ydata().tolist() == [1e-7, 1e-6] and cross.get_xydata().tolist() == [[1.0, 1e-6]]
    assert chunks.get_ydata().tolist() == [1e-7, 1e-7, 2e-7]
    assert words(ax) == ["divide: NaN beyond", "chunks"]


@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_a_slope_is_the_power_over_the_last_lengths(power):
    lengths = [2.0**k for k in range(7)]
    costs = [9.0, 9, 9, *(length**power for length in lengths[3:])]
    assert abs(slope(lengths, costs) - power) < 1e-9


def test_cost_is_drawn_against_the_smallest_with_its_slope_beside_it(ax):
    lengths = [64, 128, 256, 512]
    costs = {"Attention": [2.0, 8, 32, 128], "Mamba": [1.0, 2, 4, 8]}
    assert plot_cost(lengths, costs, ax) is ax
    assert [line.get_ydata().tolist() for line in ax.lines] == list(costs.values())
    assert words(ax) == ["Mamba: slope 1.0", "Attention: slope 2.0"]
    assert [text.get_color() for text in ax.texts] == [MIXERS["Mamba"], MIXERS["Attention"]]
    assert [label.get_text() for label in ax.get_xticklabels()] == list(map(str, lengths))


def test_names_that_would_touch_stand_apart(ax):
    plot_cost([1, 2, 4, 8], {"CKConv": [1.0, 2, 4, 8], "Hyena": [1.0, 2, 4, 8.1], "Mamba": [1.0, 2, 4, 80]}, ax)
    heights = [text.get_position()[1] for text in ax.texts]
    assert heights[0] == 8 and heights[1] == pytest.approx(1.45 * 8) and heights[2] == 80


def test_scores_have_a_dot_for_each_seed_and_named_levels(ax):
    scores = {"short": {"CKConv": [0.5, 0.6], "Mamba": [0.9, 1.0]}, "long": {"CKConv": [0.4, 0.5], "Mamba": [0.8, 0.7]}}
    assert plot_scores(scores, {"guessing": 0.125}, ax) is ax
    *dots, level = ax.lines
    assert [line.get_ydata().tolist() for line in dots] == [row for rows in scores.values() for row in rows.values()]
    assert [line.get_xdata()[0] for line in dots] == [0, 1, 3, 4]
    assert set(level.get_ydata()) == {0.125} and {"short", "long", "guessing"} <= set(words(ax))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(scores["short"])
