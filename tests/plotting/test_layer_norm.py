"""The pictures of the lesson on LayerNorm draw what they were given."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from residual_edu.plotting import layer_norm as plots
from residual_edu.plotting.style import STREAM


@pytest.fixture
def ax():
    return Figure().add_subplot()


def dots(collection):
    return np.asarray(collection.get_offsets())


def test_rows_keep_their_distance_from_the_line_of_ones_seen_from_the_side(ax):
    rows = np.array([[1.0, 1, 1], [1, -1, 0], [-1, 1, 0], [1, 1, -2]])
    assert plots.plot_around_ones(rows, ax) is ax
    across, up = dots(ax.collections[0]).T
    assert np.allclose(across, [0, np.sqrt(2), -np.sqrt(2), 0])
    assert np.allclose(up, [0.94 * np.sqrt(3), 0, 0, 0.35 * np.sqrt(6)])


def test_the_first_three_rows_are_numbered_where_they_are(ax):
    plots.plot_around_ones(np.random.default_rng(0).normal(size=(5, 3)), ax)
    numbered = {text.get_text(): text.xy for text in ax.texts if text.get_text().isdigit()}
    assert list(numbered) == ["1", "2", "3"]
    assert np.allclose(list(numbered.values()), dots(ax.collections[0])[:3])


def test_normalised_rows_lie_on_the_circle_that_is_drawn(ax):
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows -= rows.mean(-1, keepdims=True)
    plots.plot_around_ones(rows / rows.std(-1, keepdims=True), ax)
    across, up = dots(ax.collections[0]).T
    assert np.allclose(across**2 + (up / 0.35) ** 2, 3)
    circle = ax.lines[1].get_xydata()
    assert np.allclose(circle[:, 0] ** 2 + (circle[:, 1] / 0.35) ** 2, 3)


def test_floors_are_marked_and_named_where_they_are(ax):
    spread = np.array([0.1, 1.0, 10.0])
    lengths = {"inside": [0.1, 0.7, 1.0], "outside": [0.5, 0.9, 1.0]}
    assert plots.plot_floors(spread, lengths, {"inside": 1.0, "outside": 0.1}, ax) is ax
    curves = [line.get_ydata() for line in ax.lines if len(line.get_xdata()) == 3]
    assert np.allclose(curves, list(lengths.values()))
    assert [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 2] == [1.0, 0.1]
    assert [(text.get_text().strip(), text.xy[0]) for text in ax.texts] == [("inside", 1.0), ("outside", 0.1)]


def test_the_coloured_cells_are_those_that_the_output_depends_on(ax):
    heard = np.array([[True, False, False], [False, True, True]])
    assert plots.plot_influence(heard, (1, 2), ax) is ax
    coloured = {patch.get_xy() for patch in ax.patches if to_hex(patch.get_facecolor()) == STREAM.lower()}
    assert coloured == {(0, 0), (1, 1), (2, 1)} and len(ax.patches) == 6
    assert ax.lines[0].get_xydata().tolist() == [[2.5, 1.5]]


def test_each_column_has_its_strip_and_its_name(ax):
    table = np.arange(12.0).reshape(4, 3)
    assert plots.plot_strips(table, ["a", "b", "c"], ax) is ax
    for place, strip in enumerate(ax.collections):
        values, heights = dots(strip).T
        assert np.array_equal(values, table[:, place]) and np.all(np.abs(heights - place) < 0.5)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]


def test_an_image_is_shown_between_its_limits(ax):
    image = np.arange(6.0).reshape(2, 3)
    assert plots.plot_image(image, ax, -1.0, 9.0) is ax
    assert np.array_equal(ax.images[0].get_array(), image) and ax.images[0].get_clim() == (-1, 9)


def test_singular_values_are_bars_and_zeros_are_written(ax):
    assert plots.plot_singular_values({"LayerNorm": [2.0, 0.0, 0.0], "RMSNorm": [1.5, 1.0, 1e-16]}, ax) is ax
    heights = [[bar.get_height() for bar in group] for group in ax.containers]
    assert heights == [[2.0, 0.0, 0.0], [1.5, 1.0, 1e-16]]
    assert [text.get_text() for text in ax.texts] == ["0", "0", "0"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["LayerNorm", "RMSNorm"]


def test_errors_are_lines_named_at_their_ends(ax):
    errors = {"centred": [1e-7, 1e-6], "shortcut": [1e-7, 1.0]}
    assert plots.plot_variance_errors([1.0, 1e4], errors, ax) is ax
    assert [list(line.get_ydata()) for line in ax.lines[:2]] == list(errors.values())
    named = {text.get_text(): text.xy[1] for text in ax.texts}
    assert named["centred"] == 1e-6 and named["shortcut"] == 1.0
