"""The pictures of the configurable block draw what they were given."""

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from residual_edu.plotting import configurable as plots
from residual_edu.plotting.style import REFERENCE, B


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_the_menu_has_a_line_for_each_pair_of_neighbours_and_one_path(ax):
    menu = {"attention": ["a", "b", "c"], "ffn": ["d", "e"], "norm": ["f"]}
    assert plots.plot_menu(menu, ["b", "e", "f"], ax) is ax
    assert words(ax) == ["a", "b", "c", "d", "e", "f", "attention", "ffn", "norm"]
    path = [line for line in ax.lines if same_color(line.get_color(), B)]
    assert len(ax.lines) - len(path) == 3 * 2 + 2 * 1 and len(path) == 2
    at = {text.get_text(): text.get_position() for text in ax.texts}
    assert [tuple(map(tuple, line.get_xydata())) for line in path] == [(at["b"], at["e"]), (at["e"], at["f"])]
    chosen = [text.get_text() for text in ax.texts if same_color(text.get_color(), B)]
    assert chosen == ["b", "e", "f"]


def test_each_swap_is_a_dot_on_its_row_from_the_mean_of_chance(ax):
    losses = {"norm": {"rms_norm": 2.2}, "position": {"alibi": 2.3, "none": 2.5}}
    assert plots.plot_swaps(losses, [2.1, 2.2, 2.3], 2.4, ax) is ax
    dots = [tuple(line.get_xydata()[0]) for line in ax.lines if line.get_marker() == "o"]
    assert dots == [(2.2, 0), (2.3, 1), (2.5, 2)]
    starts = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 2 and line.get_ls() == "-"]
    assert starts == pytest.approx([2.2] * 3)
    dashed = next(line for line in ax.lines if line.get_ls() == "--")
    assert dashed.get_xdata() == [2.4, 2.4] and same_color(dashed.get_color(), REFERENCE)
    assert (ax.patches[0].get_x(), ax.patches[0].get_width()) == pytest.approx((2.1, 0.2))
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "norm: rms_norm",
        "position: alibi",
        "position: none",
    ]


def test_what_is_kept_is_a_bar_with_its_number(ax):
    assert plots.plot_kept({"mha": 1024, "mla": 192}, "bytes", ax) is ax
    assert [bar.get_width() for bar in ax.patches] == [1024, 192]
    assert words(ax) == ["  1024 bytes", "  192 bytes"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mha", "mla"]


def test_costs_are_named_at_their_end(ax):
    assert plots.plot_costs([16, 64], {"without": [2, 9], "with": [0.1, 0.2]}, ax) is ax
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[16, 2], [64, 9]], [[16, 0.1], [64, 0.2]]]
    assert {text.get_text(): text.xy for text in ax.texts} == {"without": (64, 9), "with": (64, 0.2)}


def test_learning_is_drawn_over_the_bound(ax):
    assert plots.plot_learning([[4, 3, 2], [4, 2, 1]], 2.5, ax) is ax
    first, second, bound = ax.lines
    assert np.array_equal(first.get_ydata(), [4, 3, 2]) and np.array_equal(second.get_xdata(), [0, 1, 2])
    assert bound.get_ydata() == [2.5, 2.5] and words(ax) == ["table\nof pairs"]
