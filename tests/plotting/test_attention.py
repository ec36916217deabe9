import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_edu.plotting import attention as plots


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_a_weighted_mean_has_a_bar_for_each_token_and_a_line_at_the_mean(ax):
    weights, values = [0.125, 0.125, 0.25, 0.5], [8, 0, 4, 2]
    assert plots.plot_weighted_mean(weights, values, ax) is ax
    bars = ax.containers[0]
    assert [bar.get_width() for bar in bars] == weights and [bar.get_height() for bar in bars] == values
    assert [bar.get_x() for bar in bars] == [0, 0.125, 0.25, 0.5]
    assert ax.lines[0].get_ydata()[0] == 3
    assert "mean: 3" in words(ax) and words(ax)[:2] == ["8", "0"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1\n0.125", "2\n0.125", "3\n0.25", "4\n0.5"]


def test_sharpness_draws_every_seed_and_names_every_scale(ax):
    dims, rows = [1, 4, 16], {"one": [[0.2, 0.4, 0.7], [0.2, 0.5, 0.8]], "two": [[0.2, 0.2, 0.2]]}
    assert plots.plot_sharpness(dims, rows, ax) is ax
    assert [line.get_ydata().tolist() for line in ax.lines] == [*rows["one"], *rows["two"]]
    assert words(ax) == ["one", "two"] and [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "4", "16"]


def test_masks_are_drawn_side_by_side_under_their_names():
    axes = Figure().subplots(1, 2)
    masks = {"causal": np.tri(3, dtype=bool), "all": np.ones((3, 3), dtype=bool)}
    assert plots.plot_masks(masks, axes) == list(axes)
    assert [ax.get_title() for ax in axes] == ["causal", "all"]
    shown = axes[0].images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown), ~masks["causal"])


def test_patches_show_the_image_and_where_it_is_cut(ax):
    image = np.arange(64).reshape(8, 8) / 64
    assert plots.plot_patches(image, 2, ax) is ax
    assert np.array_equal(ax.images[0].get_array(), image) and len(ax.lines) == 6


def test_hands_stand_at_their_angles(ax):
    angles = np.array([[0.0, 0.0], [np.pi / 2, 0.1], [np.pi, 0.2]])
    assert plots.plot_hands(angles, ax) is ax
    hands = [line.get_xydata() for line in ax.lines[1::2]]
    assert len(hands) == 6
    turned = [np.arctan2(start[1] - tip[1], tip[0] - start[0]) for start, tip in hands]
    assert np.allclose(turned, angles.ravel())


def test_scores_stand_above_their_distance(ax):
    scores = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert plots.plot_scores_by_distance(scores, ax) is ax
    assert ax.lines[0].get_xydata().tolist() == [[0, 0], [1, 1], [-1, 2], [0, 3]]


def test_a_score_map_rings_the_query(ax):
    scores = np.eye(3)
    assert plots.plot_score_map(scores, (2, 1), ax) is ax
    assert np.array_equal(ax.images[0].get_array(), scores)
    assert ax.lines[0].get_xydata().tolist() == [[1, 2]]
