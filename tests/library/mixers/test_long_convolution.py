"""The long convolution against its definition: a loop over every pair of positions."""

import itertools
import re

import pytest
import torch

from residual_edu import InvalidInput, convolution_matrix, long_convolution
from residual_edu.mixers.long_convolution import fft_size, next_fast_len


def by_definition(x, kernel, paddings):
    """y_i = sum over j of k[i - j + c] x_j, one position at a time, for any number of axes."""
    space, taps = x.shape[1:-1], kernel.shape[1:-1]
    places = list(itertools.product(*map(range, space)))
    rows = []
    for i in places:
        total = torch.zeros(len(x), x.shape[-1], dtype=x.dtype)
        for j in places:
            tap = []
            for here, there, length, count, padding in zip(i, j, space, taps, paddings, strict=True):
                lag = here - there + (0 if padding == "causal" else (count - 1) // 2)
                tap.append(lag % length if padding == "circular" else lag)
            if all(0 <= lag < count for lag, count in zip(tap, taps, strict=True)):
                total = total + kernel[(slice(None), *tap)] * x[(slice(None), *j)]
        rows.append(total)
    return torch.stack(rows, dim=1).view(x.shape)


def double(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


CASES = [
    *[
        ((length,), (taps,), [one])
        for length in (1, 2, 5, 8)
        for taps in (1, 2, 3, 9, 14)
        for one in ("zero", "causal")
    ],
    *[((length,), (taps,), ["circular"]) for length in (1, 2, 5, 8) for taps in (1, 2, 5, 8) if taps <= length],
    ((3, 4), (5, 7), ["zero", "zero"]),
    ((3, 4), (3, 4), ["circular", "circular"]),
    ((4, 3), (3, 5), ["circular", "zero"]),
    ((3, 4), (2, 4), ["causal", "circular"]),
    ((2, 3, 2), (3, 5, 3), ["zero", "zero", "zero"]),
    ((2, 3, 4), (1, 5, 3), ["circular", "zero", "causal"]),
]


@pytest.mark.parametrize("space, taps, paddings", CASES)
def test_it_is_the_definition(space, taps, paddings):
    x, kernel = double(2, *space, 3), double(1, *taps, 3)
    expected, found = by_definition(x, kernel, paddings), long_convolution(x, kernel, paddings)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(expected)
    want = torch.autograd.grad((expected * weight).sum(), (x, kernel))
    torch.testing.assert_close(torch.autograd.grad((found * weight).sum(), (x, kernel)), want, rtol=1e-12, atol=1e-12)


def test_a_kernel_for_each_sample():
    x, kernel = double(3, 6, 2), double(3, 11, 2)
    torch.testing.assert_close(long_convolution(x, kernel), by_definition(x, kernel, ["zero"]))


def test_one_padding_serves_all_axes():
    x, kernel = torch.randn(1, 3, 4, 2), torch.randn(1, 3, 3, 2)
    assert long_convolution(x, kernel, "circular").equal(long_convolution(x, kernel, ["circular"] * 2))


def test_four_numbers_by_hand():
    x, kernel = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 0.0, -1.0])
    hand = {"zero": [2, 2, 2, -3], "circular": [-2, 2, 2, -2], "causal": [1, 2, 2, 2]}
    for padding, expected in hand.items():
        found = long_convolution(x.view(1, 4, 1), kernel.view(1, 3, 1), padding).flatten()
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32), atol=1e-6, rtol=0)
        assert (convolution_matrix(kernel, 4, padding) @ x).tolist() == expected


def test_the_matrix_by_hand():
    kernel = torch.tensor([1.0, 2.0, 3.0])
    assert convolution_matrix(kernel, 4).tolist() == [[2, 1, 0, 0], [3, 2, 1, 0], [0, 3, 2, 1], [0, 0, 3, 2]]
    assert convolution_matrix(kernel, 4, "circular").tolist() == [
        [2, 1, 0, 3],
        [3, 2, 1, 0],
        [0, 3, 2, 1],
        [1, 0, 3, 2],
    ]
    assert convolution_matrix(kernel, 4, "causal").tolist() == [[1, 0, 0, 0], [2, 1, 0, 0], [3, 2, 1, 0], [0, 3, 2, 1]]


@pytest.mark.parametrize("padding", ["zero", "circular", "causal"])
@pytest.mark.parametrize("length, taps", [(1, 1), (6, 4), (6, 6), (7, 3)])
def test_the_matrix_is_the_convolution(length, taps, padding):
    x, kernel = double(2, length, 3), double(1, taps, 3)
    matrix = convolution_matrix(kernel[0].T, length, padding)
    torch.testing.assert_close(torch.einsum("cij,bjc->bic", matrix, x), long_convolution(x, kernel, padding))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_sums_run_in_float32_at_least(dtype):
    x, kernel = torch.randn(1, 64, 2, dtype=torch.float64), torch.randn(1, 127, 2, dtype=torch.float64) / 8
    x, kernel = x.to(dtype), kernel.to(dtype)
    found = long_convolution(x, kernel)
    wide = by_definition(x.double(), kernel.double(), ["zero"])
    assert found.dtype == dtype
    accuracy = {torch.float64: 1e-14, torch.float32: 1e-6}.get(dtype, torch.finfo(dtype).eps)  # 16 bits: one rounding
    assert (found.double() - wide).abs().max() < accuracy * wide.abs().max()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("length", [3, 16, 100, 1024])
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


def test_fast_lengths_have_small_factors():
    by_trial = [n for n in range(1, 5000) if smooth(n)]
    for least in (1, 2, 7, 11, 127, 2046, 4097):
        assert next_fast_len(least) == min(n for n in by_trial if n >= least)


def smooth(n):
    for p in (2, 3, 5):
        while n % p == 0:
            n //= p
    return n == 1


@pytest.mark.usefixtures("as_installed")
def test_it_compiles(compiled):
    x, kernel = torch.randn(2, 5, 6, 3), torch.randn(1, 9, 6, 3)
    paddings = ["zero", "circular"]
    torch.testing.assert_close(compiled(long_convolution)(x, kernel, paddings), long_convolution(x, kernel, paddings))


X, KERNEL = torch.zeros(2, 4, 3), torch.zeros(1, 7, 3)
SHAPE = "kernel must be floating point of shape"
REFUSED = [
    (lambda: long_convolution(X, KERNEL, "zeros"), "padding must be one of 'zero', 'circular', 'causal', got 'zeros'"),
    (
        lambda: convolution_matrix(KERNEL[0, :, 0], 4, "zeros"),
        "padding must be one of 'zero', 'circular', 'causal', go",
    ),
    (lambda: long_convolution(X, KERNEL, "circular"), "a circular axis has 4 lags, got 7 taps"),
    (lambda: convolution_matrix(KERNEL[0, :, 0], 4, "circular"), "a circular axis has 4 lags, got 7"),
    (lambda: long_convolution(X, KERNEL[..., :1]), f"{SHAPE} (1, taps, 3), got torch.float32 (1, 7, 1)"),
    (lambda: long_convolution(X, KERNEL[0]), f"{SHAPE} (2, taps, 3), got torch.float32 (7, 3)"),
    (lambda: long_convolution(X, KERNEL.expand(3, 7, 3)), f"{SHAPE} (2, taps, 3), got torch.float32 (3, 7, 3)"),
    (lambda: long_convolution(X[:1], KERNEL.expand(2, 7, 3)), f"{SHAPE} (1, taps, 3), got torch.float32 (2, 7, 3)"),
    (lambda: long_convolution(X.long(), KERNEL), "x must be floating point of shape (..., channels), got torch.int64"),
]


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("call, words", REFUSED)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()
