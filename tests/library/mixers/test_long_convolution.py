"""The long convolution against its definition; and its Fourier transform."""

import itertools

import pytest
import torch

from residual_edu import convolution_matrix, long_convolution
from residual_edu.mixers.long_convolution import fft_size, next_fast_len
from residual_edu.mixers.real_fft import real_fft
from tests.library.helpers import agree

from .by_definition import by_definition


def double(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


LINES = itertools.product([1, 5, 8], [1, 2, 3, 8, 14], ["zero", "causal", "circular"])
CASES = [((length,), (taps,), [one]) for length, taps, one in LINES if one != "circular" or taps <= length]
CASES += [
    ((3, 4), (5, 7), ["zero", "zero"]),
    ((3, 4), (2, 4), ["causal", "circular"]),
    ((2, 3, 4), (1, 5, 3), ["circular", "zero", "causal"]),
]


@pytest.mark.parametrize("space, taps, paddings", CASES)
@pytest.mark.parametrize("kernels", [1, 2])  # for two samples
def test_it_is_the_definition(space, taps, paddings, kernels):
    x, kernel = double(2, *space, 3), double(kernels, *taps, 3)
    agree(long_convolution(x, kernel, paddings), by_definition(x, kernel, paddings), (x, kernel), 1e-12)


@pytest.mark.parametrize("padding", ["zero", "circular", "causal"])
@pytest.mark.parametrize("length, taps", [(1, 1), (6, 4), (7, 3)])
def test_the_matrix_is_the_convolution(length, taps, padding):
    x, kernel = double(2, length, 3), double(1, taps, 3)
    matrix = convolution_matrix(kernel[0].T, length, padding)
    torch.testing.assert_close(torch.einsum("cij,bjc->bic", matrix, x), long_convolution(x, kernel, padding))
    if padding == "zero":  # which is the default, for all axes
        assert convolution_matrix(kernel[0].T, length).equal(matrix)
        x, kernel = x[:, None], kernel[:, None]
        assert long_convolution(x, kernel).equal(long_convolution(x, kernel, ["zero", "zero"]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("length", [3, 100])
def test_a_large_late_number_changes_earlier_outputs_by_no_more_than_the_docstring_says(length, dtype):
    x, kernel = torch.randn(20, length, 2, dtype=dtype), torch.randn(20, length, 2, dtype=dtype)
    kernel *= torch.logspace(0, -4, length, dtype=dtype)[:, None] ** torch.rand(20, 1, 1, dtype=dtype)
    before = long_convolution(x, kernel, "causal")
    x[:, -1] = 10.0 ** torch.arange(-2, 18, dtype=dtype)[:, None]
    change = (long_convolution(x, kernel, "causal") - before)[:, :-1].abs().amax(1)
    size = torch.finfo(dtype).eps * x.norm(dim=1) * kernel.norm(dim=1)
    assert (change[5:] <= 2 * size[5:]).all() and (change > 0).any()
    x[:, -1] = torch.nan
    assert long_convolution(x, kernel, "causal").isnan().all()


def test_a_transform_is_as_short_as_it_may_be():
    assert fft_size(100, 199, "zero") == next_fast_len(199) == 200  # not the 298 of the whole convolution
    assert fft_size(64, 64, "causal") == next_fast_len(127) == 128
    assert fft_size(97, 97, "circular") == 97
    assert [next_fast_len(least) for least in (1, 7, 11, 2046, 4097)] == [1, 8, 12, 2048, 4320]


@pytest.mark.parametrize("sizes", [(8,), (9,), (5,), (6, 7), (4, 5, 6)])  # even, odd, cut, two axes, three
def test_the_real_transform_is_torchs_its_gradient_too_once_and_twice(sizes):
    x = double(1, 2, *[5] * len(sizes))
    agree(real_fft(x, sizes), torch.fft.rfftn(x, s=sizes), [x], 1e-12)
    assert torch.autograd.gradgradcheck(lambda x: real_fft(x, sizes).abs().square().sum(), x[:, :1])


def test_the_real_transform_is_vectorised():
    x = torch.randn(3, 5)
    torch.testing.assert_close(torch.func.vmap(lambda row: real_fft(row, [8]))(x), torch.fft.rfft(x, 8))
    jacobian = torch.func.jacrev(lambda row: real_fft(row, [8]).real)(x[0])
    torch.testing.assert_close(jacobian, torch.func.jacrev(lambda row: torch.fft.rfft(row, 8).real)(x[0]))
