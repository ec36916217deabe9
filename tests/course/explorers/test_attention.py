"""The explorer of equal tokens shows the weights and the scores of what was chosen."""

import itertools

import numpy as np
import pytest

from residual_course.explorers.attention import POSITIONS, QUERY, attend, explore_attention, rival

FEATURES = (2, 4, 8, 16, 32, 64)


@pytest.fixture
def explorer():
    return explore_attention()


def by_hand(features, sharpness, rotation, causal):
    """Scores of equal tokens are the mean of the cosines of what their hands are apart."""
    speeds = 10000.0 ** (-np.arange(features // 2) / (features // 2)) if rotation else np.zeros(1)
    places = np.arange(POSITIONS)
    scores = np.cos(places[:, None] * speeds).mean(-1)
    weights = np.exp(sharpness * scores[abs(places - places[:, None])])
    weights = np.tril(weights) if causal else weights
    return scores, weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("rotation, causal", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("sharpness", [0.0, 4.0, 20.0])
def test_scores_and_weights_by_hand(features, sharpness, rotation, causal):
    for seen, expected in zip(
        attend(features, sharpness, rotation, causal), by_hand(features, sharpness, rotation, causal), strict=True
    ):
        np.testing.assert_allclose(seen, expected, rtol=1e-10, atol=1e-12)


def test_what_there_is_to_find():
    """Up to 8 features a full turn, six positions away, scores more than the neighbour; from 16 on it is not."""
    for features in FEATURES:
        scores = attend(features, 4.0, True, False)[0]
        assert (scores[rival(scores)] > scores[1]) == (features <= 8)
        assert rival(scores) == 6 or features > 16
    weights = attend(8, 4.0, False, True)[1]
    np.testing.assert_allclose(weights, np.tri(POSITIONS) / np.arange(1, POSITIONS + 1)[:, None])


def choose(explorer, **values):
    for name, value in values.items():
        explorer.inputs[name].value = value


def test_the_picture_and_the_reading_show_what_was_chosen(explorer):
    choose(explorer, features=8, sharpness=6.0, causal=True)
    _, matrix, neighbour, line, high, *_ = explorer.animated
    scores, weights = by_hand(8, 6.0, True, True)
    assert np.allclose(matrix.get_array().filled(0), weights) and matrix.get_clim()[1] == pytest.approx(weights.max())
    assert np.allclose(line.get_ydata(), scores) and np.allclose(neighbour.get_ydata(), scores[1])
    assert np.allclose(high.get_xydata(), [[6, scores[6]]])
    assert f"Position 8 attends to itself with {weights[QUERY, 8]:.3f}, 7 with" in explorer.reading.value
    assert "9 with 0.000" in explorer.reading.value and "Distance 6 scores 0.95, more than" in explorer.reading.value
    assert explorer.animated[-1].get_text() == "8 features, rotated by position, causal"


def test_without_rotation_all_scores_are_equal(explorer):
    choose(explorer, rotation=False)
    assert "as much as the neighbour" in explorer.reading.value and not explorer.animated[4].get_visible()


def test_every_corner_of_the_controls_can_be_drawn(explorer):
    for features, sharpness, rotation, causal in itertools.product((2, 64), (0, 20), (False, True), (False, True)):
        choose(explorer, features=features, sharpness=sharpness, rotation=rotation, causal=causal)
        assert "cannot be drawn" not in explorer.reading.value


def test_each_control_changes_the_picture_and_the_reading(explorer):
    seen = {(explorer.image.value, explorer.reading.value)}
    for name, value in [("features", 16), ("sharpness", 9.0), ("causal", True), ("rotation", False)]:
        choose(explorer, **{name: value})
        seen.add((explorer.image.value, explorer.reading.value))
    assert len(seen) == 5
