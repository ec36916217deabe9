import pytest
import torch

from residual_edu.mixers.real_fft import real_fft

SIZES = [(8,), (9,), (5,), (6, 7), (4, 5, 6)]  # even, odd, cut, two axes, three


def signal(sizes):
    torch.manual_seed(0)
    return torch.randn(2, 3, *[5] * len(sizes), dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("sizes", SIZES)
def test_values_and_gradients_are_torchs(sizes):
    x = signal(sizes)
    ours, theirs = real_fft(x, sizes), torch.fft.rfftn(x, s=sizes)
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-13)
    weight = torch.randn_like(theirs)
    for a, b in zip(*(torch.autograd.grad(y, x, weight) for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_against_differences_once_and_twice(sizes):
    x = signal(sizes)[:1, :1].detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: real_fft(x, sizes), x)
    assert torch.autograd.gradgradcheck(lambda x: real_fft(x, sizes).abs().square().sum(), x)


def test_vectorised():
    x = signal((8,)).detach()
    torch.testing.assert_close(torch.func.vmap(lambda row: real_fft(row, [8]))(x), torch.fft.rfft(x, 8))
    jacobian = torch.func.jacrev(lambda row: real_fft(row, [8]).real)(x[0, 0])
    torch.testing.assert_close(jacobian, torch.func.jacrev(lambda row: torch.fft.rfft(row, 8).real)(x[0, 0]))
