"""Exercise on causal convolution: no output depends on a later input."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

Convolution = Callable[[Tensor, Tensor], Tensor]


def by_lags(x: Tensor, kernel: Tensor, lags: Callable[[Tensor], Tensor] = lambda m: m) -> Tensor:
    """Return the sum of copies of ``x``, that of tap m shifted by ``lags(m)``, with zeros shifted in."""
    at = torch.arange(len(x))[:, None] - lags(torch.arange(len(kernel)))
    inside = (at >= 0) & (at < len(x))
    return x[at.clamp(0, len(x) - 1)].where(inside, 0) @ kernel


def _by_hand(f: Convolution) -> None:
    x, kernel = torch.tensor([1.0, 2, 3, 4]).double(), torch.tensor([1.0, 2, -1]).double()
    close(run(f, x, kernel, like=x), torch.tensor([1.0, 4, 6, 8]).double(), "the output for the lesson's four numbers")


def _matches(f: Convolution, *sizes: tuple[int, int]) -> None:
    for length, taps in sizes:
        x, kernel = draw(length), draw(taps, seed=1)
        close(run(f, x, kernel, like=x), by_lags(x, kernel), f"the output for {length} numbers and {taps} taps")


def _is_causal(f: Convolution) -> None:
    x, kernel = draw(8), draw(8, seed=1)
    later = torch.cat([x[:5], x[5:] + 1])
    before, after = run(f, x, kernel, like=x), run(f, later, kernel, like=x)
    close(after[:5], before[:5], "with other numbers from position 5 on, the output before it")


LEARNED = [{"x": draw(length), "kernel": draw(taps, seed=1)} for length, taps in ((6, 4), (3, 5))]

CAUSAL_CONVOLUTION = Exercise(
    reference=by_lags,
    observe=lambda f: f(draw(6, seed=2), draw(4, seed=3)),
    properties=(
        Property("1, 2, 3, 4 with the taps 1, 2, -1 gives 1, 4, 6, 8", _by_hand),
        Property("no output depends on a later input", _is_causal),
        Property("a kernel as long as the signal", lambda f: _matches(f, (7, 7), (40, 40))),
        Property("one that is shorter, and one of a single tap", lambda f: _matches(f, (7, 3), (5, 1))),
        Property("one that is longer, and a signal of one number", lambda f: _matches(f, (4, 9), (1, 3), (1, 1))),
        Property("gradients reach the signal and the kernel", same_gradients(by_lags, *LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(
            lambda x, k: by_lags(x, k, lambda m: -m),
            "a kernel that looks ahead",
            "Tap m stands at lag m: it meets x[i - m], not x[i + m].",
        ),
        Mistake(
            lambda x, k: by_lags(x, k, lambda m: m - (len(k) - 1) // 2),
            "the centred convolution, whose middle tap stands at lag 0",
            "Here the first tap is at lag 0, so that no tap reaches a later input.",
        ),
        Mistake(
            lambda x, k: by_lags(x, k.flip(0)),
            "the kernel the other way round",
            "Tap 0 meets the position itself, the last tap the one farthest back: k[m] goes with x[i - m].",
        ),
        Mistake(
            lambda x, k: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(k, len(x)), len(x)),
            "a circular convolution: the end of the signal wraps around to its start",
            "Pad before you transform, or leave out positions before the start.",
        ),
    ),
    hints=(
        "y_i is the sum over m of k[m] · x[i - m]. What stands at i - m when that is below 0?",
        "Each tap m adds a copy of x, moved m places to the right. What moves in, and what if m is too large?",
    ),
)

EXERCISES = {"causal_convolution": CAUSAL_CONVOLUTION}
