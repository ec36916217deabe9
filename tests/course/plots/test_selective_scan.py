import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.selective_scan import (
    MIXERS,
    plot_chunks,
    plot_cost,
    plot_errors,
    plot_held,
    plot_latch,
    plot_rows,
    plot_states,
    plot_switches,
    slope,
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


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


def test_rows_have_a_mark_for_each_seed_and_named_levels(ax):
    assert plot_rows({"Attention": [0.6, 0.7], "Mamba": [0.9, 1.0]}, ax, {"a guess": 0.125}) is ax
    level, attention, mamba = ax.lines
    assert set(level.get_xdata()) == {0.125} and words(ax) == ["a guess"]
    assert attention.get_xydata().tolist() == [[0.6, 0], [0.7, 0]]
    assert mamba.get_xydata().tolist() == [[0.9, 1], [1.0, 1]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Attention", "Mamba"] and not ax.figure.legends


def test_rows_of_several_conditions_have_a_line_and_a_mark_each(ax):
    plot_rows({"a": [[0.9, 1.0], [0.1, 0.2]], "b": [[0.5, 0.6], [0.3, 0.4]]}, ax, {}, ["12", "48"])
    assert [line.get_xdata().tolist() for line in ax.lines] == [[0.9, 1.0], [0.1, 0.2], [0.5, 0.6], [0.3, 0.4]]
    heights = [line.get_ydata()[0] for line in ax.lines]
    assert heights[0] < 0 < heights[1] < heights[2] < 1 < heights[3]
    assert ax.lines[0].get_marker() == ax.lines[2].get_marker() != ax.lines[1].get_marker()
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["12", "48"]


def test_what_a_state_holds_is_a_curve_for_each_name(ax):
    assert plot_held({"N = 4": ([0.5, 1, 2], [1.0, 0.9, 0.7]), "attention": ([1, 4], [1.0, 1.0])}, ax) is ax
    small, attention, guess = ax.lines
    assert small.get_xydata().tolist() == [[0.5, 1.0], [1, 0.9], [2, 0.7]] and attention.get_ydata().tolist() == [1, 1]
    assert set(guess.get_ydata()) == {0.125}
    assert [ax.xaxis.get_major_formatter()(value, 0) for value in (0.5, 2)] == ["1/2", "2"]


def test_switches_are_an_empty_table_with_a_line_for_each_mixer(ax):
    lines = plot_switches(["Attention", "Mamba"], ["1 tap", "3 taps"], ax)
    assert list(lines) == ["Attention", "Mamba"] and all(len(line.get_xdata()) == 0 for line in lines.values())
    assert lines["Attention"].get_marker() != lines["Mamba"].get_marker()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1 tap", "3 taps"]
