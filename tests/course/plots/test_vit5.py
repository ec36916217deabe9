import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.style import REFERENCE
from residual_course.plots.vit5 import (
    plot_competition,
    plot_costs,
    plot_heard,
    plot_layout,
    plot_tokens,
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_layout_draws_the_image_and_a_row_of_other_tokens_filled_up_with_zeros(ax):
    image = np.random.default_rng(0).random((50, 85, 3))
    assert plot_layout(image, 20, ["CLS", "R", "R"], ax) is ax
    assert np.allclose(ax.images[0].get_array(), image[:40, :80]) and ax.images[0].get_extent() == [0, 4, 2, 0]
    assert words(ax)[:4] == ["CLS", "R", "R", "0"] and words(ax)[4:] == ["0", "3", "4", "7"]
    assert [text.get_position() for text in ax.texts[:4]] == [(0.5, 2.5), (1.5, 2.5), (2.5, 2.5), (3.5, 2.5)]


def test_tokens_are_the_patches_row_by_row_between_cls_and_the_registers(ax):
    picture = np.random.default_rng(0).random((16, 16))
    plot_tokens(picture, 4, ax)
    below = [image for image in ax.images if image.get_extent()[3] == 6]
    wanted = [picture[i : i + 4, j : j + 4] for i in range(0, 16, 4) for j in range(0, 16, 4)]
    assert all(np.array_equal(image.get_array(), patch) for image, patch in zip(below, wanted, strict=True))
    assert [image.get_extent()[0] for image in below] == [place + 1.1 for place in range(16)]
    assert len(ax.patches) == 5 and words(ax) == ["CLS", "registers"]


def test_layout_without_other_tokens(ax):
    plot_layout(np.zeros((40, 40, 3)), 20, [], ax)
    assert words(ax) == ["0", "1", "2", "3"] and ax.get_ylim() == (2, 0)


def test_competition_draws_a_bar_for_each_channel_of_each_sample(ax):
    shares = {"one": [2.0, 0.5, 0.5], "other": [0.4, 1.6, 1.0]}
    assert plot_competition(shares, ["a", "b", "c"], ax) is ax
    assert [bar.get_width() for bar in ax.patches] == [*shares["one"], *shares["other"]]
    assert words(ax) == ["one", "other"] and [text.xy[0] for text in ax.texts] == [2.0, 1.6]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"] and ax.yaxis_inverted()


def test_heard_draws_a_square_of_patches_and_a_column_of_others(ax):
    weights = [0.1, 0.2, 0.05, 0.15, 0.3, 0.2]
    assert plot_heard(weights, ["CLS", "R"], 0.3, ax) is ax
    patches, *others = ax.images
    assert np.allclose(patches.get_array(), [[0.1, 0.2], [0.05, 0.15]])
    assert [float(cell.get_array()[0, 0]) for cell in others] == [0.3, 0.2]
    assert all(image.get_clim() == (0, 0.3) for image in ax.images)
    assert words(ax) == ["CLS", "R", "patches 50%"]
    assert [text.get_color() for text in ax.texts[:2]] == ["white", REFERENCE]


def test_heard_of_patches_alone(ax):
    plot_heard([0.25] * 4, [], 1.0, ax)
    assert len(ax.images) == 1 and words(ax) == ["patches 100%"]


def test_costs_draws_both_and_where_they_cross(ax):
    tokens = np.array([1.0, 10, 100])
    assert plot_costs(tokens, 16 * tokens, 4 * tokens**2, 4.0, ax) is ax
    maps, tables, crossing = ax.lines
    assert np.allclose(maps.get_ydata(), 16 * tokens) and np.allclose(tables.get_ydata(), 4 * tokens**2)
    assert list(crossing.get_xdata()) == [4, 4] and ax.get_xscale() == ax.get_yscale() == "log"
    assert words(ax) == ["maps: 16 T C²", "tables: 4 T² C", "T = 4"]
