from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_edu.plotting.stream import FULL, GRADIENT_BED, SIGNAL_BED, plot_stream, top_of


def flow(signal, added, delta=None, share=None):
    delta = signal[::-1] if delta is None else delta
    share = added[::-1] if share is None else share
    steps = {"activation": [signal], "added": [added], "delta": [delta], "branch_share": [share]}
    return SimpleNamespace(**{name: np.array(rows, float) for name, rows in steps.items()})


def width_at(ax, index, place):
    """Return the height of a filled shape at ``place``, from its outline."""
    points = ax.collections[index].get_paths()[0].vertices
    return np.ptp(points[np.isclose(points[:, 0], place), 1])


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_the_bed_is_as_wide_as_the_signal_at_each_place(ax):
    assert plot_stream(flow([1, 2, 4], [1, 2]), ax) is ax
    assert [width_at(ax, 0, place) for place in (0, 1, 2)] == pytest.approx([FULL / 4, FULL / 2, FULL])


def test_a_tributary_is_as_wide_as_what_its_block_adds(ax):
    plot_stream(flow([1, 2, 4], [1, 2]), ax)
    springs = [width_at(ax, index, place) for index, place in ((2, 0.05), (3, 1.05))]
    assert springs == pytest.approx([FULL / 4, FULL / 2])


def test_the_gradient_flows_to_the_left_below_the_signal(ax):
    plot_stream(flow([1, 1], [0], delta=[4, 1], share=[3]), ax)
    shapes = [c for c in ax.collections if len(c.get_paths()) and c.get_paths()[0].vertices[:, 1].mean() < 0]
    bed = shapes[0].get_paths()[0].vertices
    assert np.ptp(bed[np.isclose(bed[:, 0], 0), 1]) == pytest.approx(FULL)  # widest where it arrives, at the left
    assert np.ptp(bed[np.isclose(bed[:, 0], 1), 1]) == pytest.approx(FULL / 4)


@pytest.mark.parametrize(
    ("sizes", "top"),
    [
        ([1, 1, 1], 2),
        ([1, 2, 4], 4),
        ([1, 50, 3000], 10),
        ([2, 0.1, 0], 4),
        ([1, np.nan, 3], 3),
        ([0, 1, 1], 2),
        ([0, 0, 0], 2),
    ],
)
def test_a_bed_is_scaled_between_twice_and_ten_times_its_source(sizes, top):
    assert top_of(np.array(sizes, float)) == top


def test_only_a_flood_is_hatched_and_never_wider_than_full(ax):
    plot_stream(flow([1, 5, 100], [4, 95]), ax)
    assert [c.get_hatch() for c in ax.collections if c.get_hatch() and c.get_paths()] == ["////", "////"]
    assert max(np.ptp(c.get_paths()[0].vertices[:, 1]) for c in ax.collections[:1]) == pytest.approx(FULL)


@pytest.mark.parametrize(("norms", "at"), [("post", SIGNAL_BED), ("pre", SIGNAL_BED + FULL / 2 + 0.62)])
def test_each_norm_is_a_lock_where_it_stands(ax, norms, at):
    plot_stream(flow([1, 1, 1], [1, 1]), ax, norms=norms)
    bars = ax.collections[-1].get_segments()
    assert len(bars) == 2 and all(np.mean(bar[:, 1]) == pytest.approx(at) for bar in bars)


def test_the_sizes_stand_at_both_ends(ax):
    plot_stream(flow([1, 2, 4], [1, 2], delta=[3, 2, 0.5]), ax)
    words = {(text.get_text(), np.sign(text.get_position()[0])) for text in ax.texts}
    assert {("signal\n1", -1.0), ("signal\n4", 1.0), ("gradient\n3", -1.0), ("gradient\n0.5", 1.0)} <= words


def test_a_size_that_was_not_measured_is_not_written(ax):
    plot_stream(flow([1, 2], [1], delta=[np.nan, 1], share=[np.nan]), ax)
    assert "gradient" in {text.get_text() for text in ax.texts}


def test_another_step_is_another_picture(ax):
    both = SimpleNamespace(activation=[[1, 1], [1, 4]], added=[[0], [3]], delta=[[1, 1]] * 2, branch_share=[[0]] * 2)
    plot_stream(both, ax, step=1)
    assert width_at(ax, 0, 1) == pytest.approx(FULL)


def test_forty_eight_blocks_and_beds_that_have_run_dry_are_drawn(ax):
    plot_stream(flow(np.zeros(49), np.zeros(48)), ax, norms="post")
    assert GRADIENT_BED < 0
    ax.figure.canvas.draw()
