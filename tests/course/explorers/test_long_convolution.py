"""The explorer of implicit kernels shows the kernel that was chosen, and says how much of it the taps draw."""

import itertools

import numpy as np
import pytest
import torch

from residual_course.explorers.long_convolution import FINE, OMEGAS, explore_kernel, masked_kernel, recovered, unmasked
from residual_edu.mixers import ExponentialModulation


@pytest.fixture
def explorer():
    return explore_kernel()


def choose(explorer, **values):
    for name, value in values.items():
        explorer.inputs[name].value = value


def test_a_longer_signal_asks_for_more_taps_of_the_same_kernel():
    few, many = masked_kernel(8.0, 16, 2.0), masked_kernel(8.0, 31, 2.0)
    assert len(few[0]) == 31 and len(many[0]) == 61
    assert np.allclose(many[0][::2], few[0], atol=1e-6) and np.allclose(many[1][::2], few[1], atol=1e-4)


def test_the_mask_fades_what_is_far():
    (places, bare), (_, faded) = masked_kernel(4.0, 32, 0.0), masked_kernel(4.0, 32, 5.0)
    mask = ExponentialModulation(1, 1, fast_decay_pct=5.0, slow_decay_pct=5.0)
    masked = mask(torch.tensor(places).view(1, -1, 1), torch.tensor(bare).view(1, -1, 1)).detach().flatten()
    assert np.allclose(faded, masked, atol=1e-5)


def test_no_other_random_number_moves():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    unmasked.__wrapped__(4.0, 8)
    assert torch.rand(1).equal(expected)


def test_recovered_is_one_on_the_curve_and_never_below_zero():
    fine = np.linspace(-1, 1, 101)
    assert recovered(fine, np.sin(fine), fine, np.sin(fine)) == 1
    assert recovered(np.array([-1.0, 1]), np.array([5.0, 5]), fine, np.sin(9 * fine)) == 0
    line = recovered(np.array([-1.0, 1]), np.array([-1.0, 1]), fine, fine**3)
    assert line == pytest.approx(1 - np.mean((fine - fine**3) ** 2) / np.mean(fine**6))


def test_the_discovery_three_positions_for_each_wave():
    for omega, least in {4.0: 13, 8.0: 24, 16.0: 47}.items():
        whole = masked_kernel(omega, FINE, 0.0)
        shares = [recovered(*masked_kernel(omega, length, 0.0), *whole) for length in range(least - 1, least + 8)]
        assert shares[0] < 0.9 <= min(shares[1:])


def test_the_picture_shows_the_chosen_kernel(explorer):
    choose(explorer, omega=16.0, length=20, decay=3.0)
    curve, taps, title, image, *_ = explorer.animated
    places, values = masked_kernel(16.0, 20, 3.0)
    assert np.allclose(taps.get_xydata(), np.stack([places, values], 1))
    assert np.allclose(curve.get_ydata(), masked_kernel(16.0, FINE, 3.0)[1])
    share = recovered(places, values, *masked_kernel(16.0, FINE, 3.0))
    assert title.get_text() == f"39 taps draw {100 * share:.0f} % of the curve"
    lag = np.subtract.outer(np.arange(20), np.arange(20))
    assert np.allclose(image.get_array(), np.abs(values)[lag + 19] / np.abs(values).max(), atol=1e-6)


def test_the_reading_says_the_numbers(explorer):
    choose(explorer, omega=4.0, length=64, decay=5.0)
    assert "With ω₀ = 4 and a signal of 64 there are 127 taps" in explorer.reading.value
    assert "At the far ends the mask leaves 0.674 %." in explorer.reading.value


def test_each_control_changes_the_picture_and_the_reading(explorer):
    seen = {(explorer.image.value, explorer.reading.value)}
    for name, value in [("omega", 16.0), ("length", 40), ("decay", 6.0)]:
        choose(explorer, **{name: value})
        seen.add((explorer.image.value, explorer.reading.value))
    assert len(seen) == 4


def test_every_corner_of_the_controls_can_be_drawn(explorer):
    for omega, length, decay in itertools.product(OMEGAS, (4, 128), (0.0, 14.0)):
        choose(explorer, omega=omega, length=length, decay=decay)
        assert "cannot be drawn" not in explorer.reading.value
