from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from residual_course.plots.stream import FULL, LONG, MIDDLE, number, plot_stream
from residual_course.plots.style import BRANCH, GRADIENT, STREAM


def flow(signal, added, delta=None, share=None):
    delta = signal[::-1] if delta is None else delta
    share = added[::-1] if share is None else share
    steps = {"activation": [signal], "added": [added], "stream_gradient": [delta], "branch_gradient": [share]}
    return SimpleNamespace(**{name: np.array(rows, float) for name, rows in steps.items()})


def filled(ax, color):
    """The outlines of what is filled with ``color``, in the order in which it was drawn."""
    shapes = [c for c in ax.collections if isinstance(c, PolyCollection) and len(c.get_facecolor())]
    return [path.vertices for c in shapes if tuple(c.get_facecolor()[0]) == to_rgba(color) for path in c.get_paths()]


def height_at(outline, place):
    return np.ptp(outline[np.isclose(outline[:, 0], place), 1])


def words(ax):
    return {text.get_text(): text.get_position() for text in ax.texts}


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_the_bed_is_as_wide_as_the_signal_at_each_place(ax):
    assert plot_stream(flow([1, 2, 4], [1, 2]), ax) is ax
    bed = filled(ax, STREAM)[0]
    assert [height_at(bed, LONG * share) for share in (0, 0.5, 1)] == pytest.approx([FULL / 4, FULL / 2, FULL])


def test_the_gradient_flows_to_the_left_below_the_signal(ax):
    plot_stream(flow([1, 1], [0], delta=[4, 1], share=[3]), ax)
    bed, tip = filled(ax, GRADIENT)
    assert height_at(bed, LONG) == pytest.approx(FULL / 4) and height_at(bed, 0) == pytest.approx(FULL)
    assert bed[:, 1].max() < 0 < filled(ax, STREAM)[0][:, 1].min()
    assert tip[:, 0].min() < 0 and filled(ax, STREAM)[1][:, 0].max() > LONG  # arrowheads
    assert words(ax)["gradient in\n1"][0] > LONG and words(ax)["out\n4"][0] < 0


def test_a_tributary_is_as_wide_as_what_its_block_adds(ax):
    plot_stream(flow([1, 2, 4, 4], [1, 2, 0.1], share=[0, 0, 0]), ax)
    widths = [(outline[:40] - outline[40:80][::-1])[:, 1].max() for outline in filled(ax, BRANCH)[:3]]
    assert widths == pytest.approx([FULL / 4, FULL / 2, FULL / 40], rel=1e-3)


def test_a_tributary_comes_from_outside_and_ends_at_the_bank(ax):
    plot_stream(flow([1, 2], [1]), ax)
    above, below = filled(ax, BRANCH)
    assert above[0, 1] > above[39, 1] == pytest.approx(MIDDLE + FULL / 2) and above[39, 0] == pytest.approx(LONG)
    assert below[0, 1] < below[39, 1] == pytest.approx(-MIDDLE - FULL / 2) and below[39, 0] == pytest.approx(0)


def test_thin_tributaries_are_outlined_and_none_is_drawn_for_nothing(ax):
    plot_stream(flow([1, 1, 1, 1], [0.5, 0.05, 0]), ax)
    edges = next(c for c in ax.collections if isinstance(c, PolyCollection) and len(c.get_paths()) == 3).get_edgecolor()
    assert [tuple(edge) for edge in edges] == [to_rgba("white"), to_rgba(BRANCH), to_rgba("none")]


def test_no_tributary_is_wider_at_its_mouth_than_the_bed(ax):
    plot_stream(flow([1, 0.01], [1]), ax)
    mouth = filled(ax, BRANCH)[0]
    assert mouth[39, 1] - mouth[40, 1] == pytest.approx(0.01 * FULL / 2)


@pytest.mark.parametrize(
    ("sizes", "width"),
    [([1, 1], 1 / 2), ([1, 4], 1 / 4), ([1, 50], 1 / 10), ([2, 0.1], 1 / 2), ([0, 3], 0), ([1, np.inf], 1 / 10)],
)
def test_a_bed_is_scaled_between_twice_and_ten_times_its_source(ax, sizes, width):
    plot_stream(flow(sizes, [1]), ax)
    assert height_at(filled(ax, STREAM)[0], 0) == pytest.approx(FULL * width)


def test_a_flood_is_cut_off_hatched_and_named(ax):
    plot_stream(flow([1, 5, 100, 100], [4, 95, 0], delta=[1] * 4), ax)
    assert [c.get_hatch() for c in ax.collections if c.get_hatch() and c.get_paths()] == ["////"]
    assert np.ptp(filled(ax, STREAM)[0][:, 1]) == pytest.approx(FULL)
    assert words(ax)["off the chart"][1] == MIDDLE and "dry" not in words(ax)


def test_a_narrow_flood_is_named_in_two_lines_and_a_bed_may_be_allowed_to_swell_more(ax):
    swollen = flow([1, 1, 1, 1, 1, 100], [0] * 5, delta=[30, 30, 1, 1, 1, 1])
    plot_stream(swollen, ax)
    assert words(ax)["off the\nchart"][1] == -MIDDLE
    tall = plot_stream(swollen, Figure().add_subplot(), flood=100.0)
    assert not any("off the" in word for word in words(tall))
    assert height_at(filled(tall, STREAM)[0], 0) == pytest.approx(FULL / 100)


def test_a_dry_bed_is_dotted_and_named(ax):
    plot_stream(flow([1, 1e-3, 1e-6], [1, 1e-3], delta=[1, 1, 1], share=[0, 0]), ax)
    dotted = [line for line in ax.lines if line.get_linestyle() == ":" and np.isfinite(line.get_xdata()).any()]
    assert len(dotted) == 1 and dotted[0].get_color() == STREAM
    assert words(ax)["dry"][1] > MIDDLE and "off the chart" not in words(ax)


@pytest.mark.parametrize("depth", [4, 12, 48])
def test_arrowheads_in_the_beds_point_the_way_they_flow(ax, depth):
    plot_stream(flow(np.ones(depth + 1), np.zeros(depth)), ax)
    heads = [line for line in ax.lines if line.get_color() == "white"]
    assert len(heads) == 6
    for head in heads:
        (tail, tip, _), (middle, *_) = head.get_xdata(), head.get_ydata()[1:]
        assert np.sign(tip - tail) == np.sign(middle)


@pytest.mark.parametrize("depth", [4, 12, 48])
def test_each_norm_is_a_lock_where_it_stands(depth):
    picture = flow(np.ones(depth + 1), np.ones(depth))
    for norms, beside_bed in (("post", False), ("pre", True), ("", None)):
        ax = plot_stream(picture, Figure().add_subplot(), norms=norms)
        locks = [bar for c in ax.collections if isinstance(c, LineCollection) for bar in c.get_segments()]
        assert len(locks) == (2 * depth if norms else 0)
        for bar in locks:
            assert bool(abs(bar[:, 1].mean()) > MIDDLE + FULL / 4) is beside_bed
        assert ("▏ a norm" in words(ax)) is bool(norms)


def test_the_sizes_stand_at_both_ends(ax):
    plot_stream(flow([1, 2, 4], [1, 2], delta=[3, 2, 0.5]), ax)
    assert {"signal in\n1", "out\n4", "gradient in\n0.5", "out\n3"} <= words(ax).keys()


def test_blocks_are_counted(ax):
    plot_stream(flow(np.ones(49), np.ones(48)), ax)
    assert {"block 1", "12", "24", "36", "48"} <= words(ax).keys()


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_few_blocks_are_counted_from_one(ax, blocks):
    plot_stream(flow(np.ones(blocks + 1), np.ones(blocks)), ax)
    assert {"block 1", *map(str, range(2, blocks + 1))} <= words(ax).keys() and "0" not in words(ax)


def test_what_was_not_measured_is_not_drawn(ax):
    """A first block whose input needs no gradient; then no gradient at all."""
    plot_stream(flow([1, 2, 3], [1, np.nan], delta=[np.nan, 1, 1], share=[np.nan, 0]), ax)
    assert "out\n1" in words(ax) and len(filled(ax, BRANCH)) == 2
    ax = plot_stream(flow([1, 2], [1], delta=[np.nan, np.nan], share=[np.nan]), Figure().add_subplot())
    assert {"gradient in", "out"} <= words(ax).keys()
    ax.figure.canvas.draw()


def test_another_step_is_another_picture(ax):
    both = SimpleNamespace(
        activation=[[1, 1], [1, 4]], added=[[0], [3]], stream_gradient=[[1, 1]] * 2, branch_gradient=[[0]] * 2
    )
    plot_stream(both, ax, step=-1)
    assert height_at(filled(ax, STREAM)[0], LONG) == pytest.approx(FULL)


def test_a_stream_of_zeros_is_a_dry_bed(ax):
    plot_stream(flow(np.zeros(49), np.zeros(48)), ax, norms="post")
    assert "signal in\n0" in words(ax) and "dry" in words(ax)
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    ("size", "text"),
    [(1.0, "1"), (0.0871234, "0.0871"), (119.4, "119"), (1.1e-6, "1.1·10⁻⁶"), (13541.0, "1.4·10⁴"), (0.0, "0")],
)
def test_numbers_have_three_digits_or_a_power_of_ten(size, text):
    assert number(size) == text
