"""The explorer of lags solves for the taps, keeps what was tried at one horizon, and says the error."""

import itertools

import numpy as np
import pytest
import torch

from residual_course.explorers.lags import REACH, TAPS, explore_lags, past, regular_spikes, solved


@pytest.fixture
def explorer():
    return explore_lags()


def choose(explorer, **values):
    for name, value in values.items():
        explorer.inputs[name].value = value


def test_each_row_of_the_past_begins_at_its_lag():
    rows, coming = past(torch.arange(400.0), first=5, ahead=10)
    assert rows.shape == (400 - 10 - REACH, TAPS) and coming.shape == (len(rows),)
    assert rows[0].tolist() == [REACH - 5.0 - m for m in range(TAPS)] and coming[0] == REACH + 10
    assert rows[-1, 0] == 399 - 10 - 5 and coming[-1] == 399


def test_the_taps_are_those_of_least_squares():
    train, test = regular_spikes()
    x, y = past(train, 30, 32)
    taps = np.linalg.lstsq(x.numpy(), y.numpy(), rcond=None)[0]
    x, y = past(test, 30, 32)
    wanted = np.mean((x.numpy() @ taps - y.numpy()) ** 2) / y.numpy().var()
    error, prediction, measured = solved(30, 32)
    assert error == pytest.approx(wanted, rel=0.05) and measured.equal(y) and prediction.shape == y.shape


def test_the_discovery_taps_must_cover_a_period_minus_the_horizon():
    works = {ahead: [solved(first, ahead)[0] < 0.25 for first in range(0, 121, 5)] for ahead in (32, 64, 100)}
    assert [5 * i for i, fine in enumerate(works[32]) if fine][:3] == [25, 30, 35]
    assert works[64][0] and not works[32][0] and not works[100][0]
    assert works[100][7] and not works[100][12]


def test_the_picture_and_the_reading_show_the_error(explorer):
    choose(explorer, ahead=32, first=30)
    error, prediction, measured = solved(30, 32)
    curve, guess, title, _, _, here = explorer.animated
    assert np.allclose(curve.get_ydata(), measured[:300]) and np.allclose(guess.get_ydata(), prediction[:300])
    assert title.get_text() == f"32 ms ahead from lags 30 to 45: error {error:.2f}"
    assert here.get_xydata().tolist() == [[32, 30]] and f"an error of {error:.2f}." in explorer.reading.value


def test_what_was_tried_stays_as_a_dot_or_a_cross(explorer):
    choose(explorer, ahead=32)
    for first in (30, 60):
        choose(explorer, first=first)
    *_, bad, good, _ = explorer.animated
    good, bad = (line.get_xydata()[~np.isnan(line.get_xydata()).any(1)].tolist() for line in (good, bad))
    assert good == [[32, 30]] and bad == [[100, 0], [32, 0], [32, 60]]


def test_every_corner_of_the_controls_can_be_drawn(explorer):
    for ahead, first in itertools.product((4, 140), (0, 200)):
        choose(explorer, ahead=ahead, first=first)
        assert "cannot be drawn" not in explorer.reading.value
