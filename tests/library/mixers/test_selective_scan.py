import math

import pytest
import torch

from residual_edu.mixers import chunked_scan, selective_scan
from tests.library.helpers import agree

pytestmark = pytest.mark.usefixtures("all_as_installed")


def reading(time, batch=2, heads=3, headdim=2, state=4, dtype=torch.float64):
    """Return x, dt, A, B, C and D of some scan."""
    x, b, c = (torch.randn(batch, time, *rest, dtype=dtype) for rest in ((heads, headdim), (state,), (state,)))
    dt = torch.rand(batch, time, heads, dtype=dtype)
    return x, dt, -torch.arange(1.0, heads + 1, dtype=dtype), b, c, torch.randn(heads, dtype=dtype)


def unrolled(x, dt, A, B, C, D):
    """y_t = D x_t + sum over s <= t of exp(A sum of dt after s up to t) dt_s (B_s . C_t) x_s, number by number."""
    y = torch.zeros_like(x)
    for n in range(len(x)):
        for h in range(x.shape[2]):
            for t in range(x.shape[1]):
                y[n, t, h] = D[h] * x[n, t, h]
                for s in range(t + 1):
                    faded = math.exp(A[h] * sum(float(dt[n, r, h]) for r in range(s + 1, t + 1)))
                    y[n, t, h] += faded * dt[n, s, h] * sum(B[n, s] * C[n, t]) * x[n, s, h]
    return y


@pytest.mark.parametrize("scan", [selective_scan, chunked_scan])
def test_against_the_sum_over_all_pairs(scan):
    given = reading(9)
    torch.testing.assert_close(scan(*given), unrolled(*given), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(scan(*given[:-1]) + given[-1][:, None] * given[0], scan(*given))


@pytest.mark.parametrize("chunk_size", [1, 7, 64])
@pytest.mark.parametrize("time", [1, 7, 33])
def test_chunks_give_the_loop_and_its_gradients_at_any_length(time, chunk_size):
    given = [z.requires_grad_() for z in reading(time)]
    agree(chunked_scan(*given, chunk_size=chunk_size), selective_scan(*given), given, 1e-11)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("which", [0, 1, 3, 4])  # x, dt, B or C
def test_a_number_that_is_not_finite_spoils_no_earlier_position(which, bad):
    """What is finite after the loop is finite and the same in chunks, and the rest in neither."""
    for place in range(11):
        given = [z.clone() for z in reading(11)]
        given[which][0, place, 0] = bad
        loop, found = selective_scan(*given), chunked_scan(*given, chunk_size=4)
        fine = loop.isfinite()
        torch.testing.assert_close(found[fine], loop[fine], rtol=1e-11, atol=1e-11)
        assert fine[:, :place].all() and fine[1:].all() and not found[~fine].isfinite().any()


def test_large_steps_have_finite_values_and_gradients():
    """The popular form divides by the decay: exp(L) * cumsum(u * exp(-L)), L the running sum of dt A."""
    x, dt, A, *rest = reading(64, dtype=torch.float32)
    assert (-(50 * dt * A).cumsum(1)).exp().isinf().any()
    given = [z.requires_grad_() for z in (x, 50 * dt, A, *rest)]
    agree(chunked_scan(*given), selective_scan(*given), given, 1e-4)


def test_one_huge_step_does_not_blur_the_small_ones_after_it():
    """A difference of running sums would leave no correct digit here."""
    x, dt, *rest = reading(64, dtype=torch.float32)
    dt = 0.1 * dt
    dt[:, 5] = 1e6
    expected = selective_scan(*(z.double() for z in (x, dt, *rest))).float()
    torch.testing.assert_close(chunked_scan(x, dt, *rest)[:, 6:], expected[:, 6:], rtol=1e-5, atol=1e-4)
