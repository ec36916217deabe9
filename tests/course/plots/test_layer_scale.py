import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.layer_scale import (
    plot_funnel,
    plot_gradients,
    plot_moves,
    plot_race,
    plot_valley,
    plot_wirings,
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def curves(ax):
    return [np.asarray(line.get_ydata(), float).tolist() for line in ax.lines]


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_valley_draws_each_path_and_rings_and_names_its_start(ax):
    axis = np.linspace(-1, 1, 9)
    paths = {"here": [(0.0, 0.5), (0.1, 0.6)], "there": [(0.5, 0.0), (0.6, 0.2)]}
    assert plot_valley(axis, axis, axis[:, None] * axis, paths, ax) is ax
    assert [line.get_xydata().tolist() for line in ax.lines[::2]] == [
        [list(p) for p in path] for path in paths.values()
    ]
    assert [line.get_xydata().tolist() for line in ax.lines[1::2]] == [[[0.0, 0.5]], [[0.5, 0.0]]]
    assert {"here", "there"} <= set(words(ax)) and ax.collections


def test_valley_has_the_gate_across_and_the_weight_up(ax):
    gates, weights = np.linspace(-1, 1, 5), np.linspace(-2, 2, 7)
    plot_valley(gates, weights, np.ones((7, 1)) * np.arange(5.0), {}, ax)
    assert ax.get_xlim() == (-1, 1) and ax.get_ylim() == (-2, 2)


def test_funnel_draws_every_seed_marks_each_start_and_writes_the_end_of_the_lowest(ax):
    low, high = [[1e-6, 0.01, 0.12], [1e-6, 0.02, 0.14]], [[0.1, 0.1, 0.2]]
    assert plot_funnel([np.array(high), np.array(low)], ax) is ax
    assert all(row in curves(ax) for row in low + high)
    assert sorted(row for row in curves(ax) if len(row) == 1) == [[1e-6], [0.1]]
    assert words(ax) == ["0.13"]


def test_race_draws_every_seed_and_names_both(ax):
    rows = {"without": [[2.0, 2, 2], [2, 1, 2]], "with": [[2.0, 1, 0]]}
    assert plot_race(rows, ax) is ax
    assert curves(ax) == rows["without"] + rows["with"]
    assert words(ax) == ["without", "with"]
    ends = {text.get_text(): text.xy for text in ax.texts}
    assert ends["without"] == (3, 2) and ends["with"] == (3, 1)


def test_race_without_names(ax):
    plot_race({"without": [[1.0, 2]], "with": [[1.0, 0]]}, ax, named=False)
    assert not words(ax) and len(ax.lines) == 2


def test_wirings_draws_a_panel_each_with_its_name_on_one_scale():
    curves = {name: {"without": [[2.0] * 9], "with": [[2.0, 1, 1, 0.5, 0.5, 0.1]]} for name in ("skip", "post", "pre")}
    figure = plot_wirings(curves, Figure())
    assert [ax.get_title("left") or ax.get_title() for ax in figure.axes] == ["skip", "post", "pre"]
    assert all(ax.get_yscale() == "log" and len(ax.lines) == 2 for ax in figure.axes)
    assert [len(ax.texts) for ax in figure.axes] == [2, 0, 0]
    assert np.allclose(figure.axes[0].lines[1].get_ydata(), [1.0, 0.62])  # means over five steps


def test_gradients_draws_a_panel_for_each_network_and_names_the_steps_in_the_first():
    found = {"gates 1": {0: [1.0] * 6, 10: [0.1] * 6}, "gates 0.1": {0: [2.0] * 6, 10: [3.0] * 6}}
    figure = plot_gradients(found, Figure())
    assert [ax.get_title("left") or ax.get_title() for ax in figure.axes] == ["gates 1", "gates 0.1"]
    assert [curves(ax) for ax in figure.axes] == [list(steps.values()) for steps in found.values()]
    assert [words(ax) for ax in figure.axes] == [["step 0", "step 10"], []]
    assert all(ax.get_yscale() == "log" for ax in figure.axes)
    assert len({line.get_linestyle() for line in figure.axes[0].lines}) == 2


def test_moves_draws_every_run_open_or_filled_by_its_steps_and_the_losses_without_blocks(ax):
    found = {
        "post-norm": [(0.5, 0.04, 80), (9, 2.3, 160)],
        "skip alone": [(0.6, 0.05, 80)],
        "pre-norm": [(5.0, 0.3, 80)],
    }
    assert plot_moves(found, {80: 0.6, 160: 0.3}, ax) is ax
    drawn = [(line.get_xydata().tolist(), line.get_mfc() == "none") for line in ax.lines[:6]]
    assert drawn == [
        ([[run[0], run[1]] for run in runs if run[2] == at], at == 80) for runs in found.values() for at in (80, 160)
    ]
    assert [0.6, 0.6] in curves(ax) and [0.3, 0.3] in curves(ax)
    lines = ["no blocks, 80 steps", "no blocks, 160 steps"]
    assert words(ax) == ["□ post-norm", "○ skip alone", "△ pre-norm", *lines]
    assert ax.get_ylabel() == "loss after 80 (open) or 160 steps (filled)"


def test_moves_draws_an_empty_kind_as_nothing(ax):
    plot_moves({"post-norm": []}, {80: 0.6, 160: 0.3}, ax)
    assert [len(line.get_xdata()) for line in ax.lines[:2]] == [0, 0]
