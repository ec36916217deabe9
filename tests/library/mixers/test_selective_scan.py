import math
import re

import pytest
import torch

from residual_edu import InvalidInput
from residual_edu.mixers import chunked_scan, selective_scan
from residual_edu.mixers.selective_scan import in_chunks, segsum

pytestmark = pytest.mark.usefixtures("as_installed")


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


def test_a_leaky_sum_by_hand():
    """One channel that keeps half at each step."""
    x = torch.tensor([8.0, 4.0, 2.0, 0.0]).view(1, 4, 1, 1)
    dt, ones = torch.ones(1, 4, 1), torch.ones(1, 4, 1)
    half = -torch.tensor([2.0]).log()
    for scan in (selective_scan, chunked_scan):
        torch.testing.assert_close(scan(x, dt, half, ones, ones).flatten(), torch.tensor([8.0, 8.0, 6.0, 3.0]))


@pytest.mark.parametrize("chunk_size", [1, 2, 7, 16, 64])
@pytest.mark.parametrize("time", [1, 2, 7, 16, 33])
def test_chunks_give_the_loop_and_its_gradients_at_any_length(time, chunk_size):
    given = [z.requires_grad_() for z in reading(time)]
    loop, chunks = selective_scan(*given), chunked_scan(*given, chunk_size=chunk_size)
    torch.testing.assert_close(chunks, loop, rtol=1e-11, atol=1e-11)
    pull = torch.randn_like(loop)
    grads = [torch.autograd.grad(y, given, pull) for y in (chunks, loop)]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_gradients_against_differences():
    assert torch.autograd.gradcheck(lambda *z: chunked_scan(*z, chunk_size=3), [z.requires_grad_() for z in reading(5)])


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("which", [0, 1, 3, 4])  # x, dt, B or C
def test_a_number_that_is_not_finite_spoils_no_earlier_position(which, bad, compiled):
    """What is finite after the loop is finite and the same in chunks, and the rest in neither."""
    graph = torch.compile(chunked_scan, fullgraph=True, backend="eager", dynamic=True)
    scan, step = (graph, 5) if compiled else (chunked_scan, 1)
    for place in range(0, 11, step):
        given = [z.clone() for z in reading(11)]
        given[which][0, place, 0] = bad
        loop, found = selective_scan(*given), scan(*given, chunk_size=4)
        fine = loop.isfinite()
        torch.testing.assert_close(found[fine], loop[fine], rtol=1e-11, atol=1e-11)
        assert fine[:, :place].all() and fine[1:].all() and not found[~fine].isfinite().any()


def test_without_d():
    given = reading(5)
    for scan in (selective_scan, chunked_scan):
        torch.testing.assert_close(scan(*given), scan(*given[:-1]) + given[-1][:, None] * given[0])


def popular(x, dt, A, B, C, D):
    """The form that divides by the decay: exp(L) * cumsum(u * exp(-L)), L the running sum of dt A."""
    total = (dt * A).cumsum(1)[..., None, None]
    drive = (dt[..., None] * x)[..., None] * B[:, :, None, None]
    states = total.exp() * (drive * (-total).exp()).cumsum(1)
    return (states * C[:, :, None, None]).sum(-1) + D[:, None] * x


def test_large_steps_break_the_popular_form_and_not_this_one():
    x, dt, *rest = reading(64, dtype=torch.float32)
    small = x, 0.1 * dt, *rest
    torch.testing.assert_close(popular(*small), selective_scan(*small), rtol=1e-4, atol=1e-4)
    large = [z.requires_grad_() for z in (x, 50 * dt, *rest)]
    assert popular(*large).isnan().any()
    y = chunked_scan(*large)
    torch.testing.assert_close(y, selective_scan(*large), rtol=1e-5, atol=1e-4)
    assert all(g.isfinite().all() for g in torch.autograd.grad(y.sum(), large))


def test_one_huge_step_does_not_blur_the_small_ones_after_it():
    """A difference of running sums would leave no correct digit here."""
    x, dt, *rest = reading(64, dtype=torch.float32)
    dt = 0.1 * dt
    dt[:, 5] = 1e6
    expected = selective_scan(*(z.double() for z in (x, dt, *rest))).float()
    torch.testing.assert_close(chunked_scan(x, dt, *rest)[:, 6:], expected[:, 6:], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_an_overflow_stays_out_of_earlier_chunks(place):
    given = reading(40)
    clean = chunked_scan(*given, chunk_size=8)
    given[place][:, 24] = torch.inf  # the first position of the fourth chunk: x, dt, or B
    y = chunked_scan(*given, chunk_size=8)
    assert y[:, :24].equal(clean[:, :24]) and not y[:, 24].isfinite().all()


def test_float32_is_as_exact_as_the_loop():
    given = reading(300, dtype=torch.float32)
    exact = selective_scan(*(z.double() for z in given))
    error = [(scan(*given) - exact).abs().max() / exact.abs().max() for scan in (selective_scan, chunked_scan)]
    assert max(error) < 1e-6


def test_decays_between_positions_by_hand():
    halves = torch.tensor([0.5, 0.25, 0.5]).log()
    assert torch.allclose(segsum(halves).exp(), torch.tensor([[1, 1, 1], [0.25, 1, 1], [0.125, 0.5, 1.0]]))


@pytest.mark.parametrize("time, length", [(5, 2), (4, 2), (1, 1), (3, 3)])
def test_cutting_into_chunks(time, length):
    z = torch.randn(2, time, 3)
    cut = in_chunks(z, length)
    assert cut.shape == (2, -(-time // length), length, 3)
    assert cut.flatten(1, 2)[:, :time].equal(z) and not cut.flatten(1, 2)[:, time:].any()


@pytest.mark.parametrize("scan", [selective_scan, chunked_scan])
def test_no_samples(scan):
    assert scan(*reading(5, batch=0)).shape == (0, 5, 3, 2)


def test_compiled_and_mapped(compiled):
    given = reading(9)
    for time in (9, 14):
        longer = reading(time)
        torch.testing.assert_close(compiled(chunked_scan)(*longer, chunk_size=4), selective_scan(*longer))
    x, dt, A, B, C, D = given
    one = lambda x, dt, B, C: chunked_scan(x[None], dt[None], A, B[None], C[None], D)[0]  # noqa: E731
    torch.testing.assert_close(torch.func.vmap(one)(x, dt, B, C), selective_scan(*given))


zeros = torch.zeros
REFUSED = [
    (1, zeros(2, 1, 3), "dt must be floating point of shape (2, 5, 3), got torch.float32 (2, 1, 3)"),
    (2, zeros(1), "A must be floating point of shape (3), got torch.float32 (1,)"),
    (3, zeros(1, 5, 4), "B must be floating point of shape (2, 5, state), got torch.float32 (1, 5, 4)"),
    (4, zeros(2, 5, 1), "C must be floating point of shape (2, 5, 4), got torch.float32 (2, 5, 1)"),
    (4, zeros(2, 5, 4, device="meta"), "dt, A, B and C must be on the device of x, cpu"),
    (5, zeros(3, 2), "D must be floating point of shape (3), got torch.float32 (3, 2)"),
]


@pytest.mark.parametrize("scan", [selective_scan, chunked_scan])
@pytest.mark.parametrize("place, value, words", REFUSED)
def test_what_is_refused(scan, place, value, words):
    given = list(reading(5))
    given[place] = value
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        scan(*given)


@pytest.mark.parametrize("chunk_size", [0, 2.5])
def test_a_chunk_holds_whole_positions(chunk_size):
    with pytest.raises(InvalidInput, match="^chunk_size must be a whole number, at least 1, got "):
        chunked_scan(*reading(5), chunk_size=chunk_size)
