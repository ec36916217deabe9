"""Exercise on generated kernels: compute every tap by a network of sines."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients
from residual_course.checking.seen import seen

Taps = Callable[[Tensor, Tensor, Tensor, Tensor, int, int], Tensor]
Where = Callable[[int, int], Tensor]


def positions(lags: int, reach: int) -> Tensor:
    """Return the positions 0, 1 / reach, 2 / reach and so on, one for each lag."""
    return torch.arange(lags).double() / reach


def still(h: Tensor) -> Tensor:
    """Return ``h``: no nonlinearity."""
    return h


SINES: tuple[Callable[[Tensor], Tensor], ...] = (torch.sin, torch.sin, still)


def taps(
    first: Tensor,
    shift: Tensor,
    hidden: Tensor,
    last: Tensor,
    lags: int,
    reach: int,
    where: Where = positions,
    waves: tuple[Callable[[Tensor], Tensor], ...] = SINES,
) -> Tensor:
    """Return the taps at the positions ``where``; ``waves`` are the nonlinearities after the three maps."""
    h = waves[0](where(lags, reach)[:, None] * first + shift)
    return waves[2](waves[1](h @ hidden.T) @ last)


def network(width: int = 5, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the weights of a small network, in float64."""
    first, shift, last = (draw(width, seed=seed + k) for k in range(3))
    return 3 * first, shift, draw(width, width, seed=seed + 3), last


def at(f: Taps, lags: int, reach: int) -> Callable[..., Tensor]:
    """Return ``f`` as a function of the weights alone."""
    return lambda first, shift, hidden, last: f(first, shift, hidden, last, lags, reach)


def _matches(f: Taps, *sizes: tuple[int, int]) -> None:
    for lags, reach in sizes:
        wanted = at(taps, lags, reach)(*network())
        close(run(at(f, lags, reach), *network(), like=wanted), wanted, f"for {lags} lags and reach {reach} the kernel")


def _one_sine(f: Taps) -> None:
    one, zero = torch.ones(1).double(), torch.zeros(1).double()
    wanted = positions(4, 4).sin().sin()
    found = run(at(f, 4, 4), one, zero, one[:, None], one, like=wanted)
    close(found, wanted, "for weights of 1 and a shift of 0 the kernel, sin(sin(p)),")


def _further(f: Taps) -> None:
    near, far = (run(at(f, lags, 8), *network(), like=at(taps, lags, 8)(*network())) for lags in (8, 20))
    close(far[:8], near, "of a kernel read out to 20 lags instead of 8, the beginning")


def _finer(f: Taps) -> None:
    coarse, fine = (run(at(f, n, n), *network(), like=at(taps, n, n)(*network())) for n in (8, 16))
    close(fine[::2], coarse, "of a kernel with 16 lags in its reach instead of 8, every other tap")


LEARNED = [
    dict(zip(("first", "shift", "hidden", "last"), network(width), strict=True)) | {"lags": lags, "reach": reach}
    for width, lags, reach in ((5, 4, 4), (3, 7, 5))
]


def wrong(**changes: object) -> Taps:
    """Return an answer that differs in ``where`` or ``waves``."""
    return lambda *given: taps(*given, **changes)  # type: ignore[arg-type]


SIREN_TAPS = Exercise(
    reference=taps,
    also_right=(
        lambda first, shift, hidden, last, lags, reach: (
            last @ (hidden @ (first[:, None] * positions(lags, reach) + shift[:, None]).sin()).sin()
        ),
    ),
    observe=lambda f: seen(*(lambda n=n, r=r: run(at(f, n, r), *network(seed=7)) for n, r in ((4, 4), (7, 5), (3, 9)))),
    properties=(
        Property("weights of 1: the tap at position p is sin(sin(p))", _one_sine),
        Property("a kernel of 5 lags, in a reach of 5", lambda f: _matches(f, (5, 5))),
        Property("read further out, it begins with the same taps", _further),
        Property("read twice as finely, it keeps every other tap", _finer),
        Property("any number of lags and any reach", lambda f: _matches(f, (2, 9), (12, 5), (1, 3))),
        Property("gradients reach all weights", same_gradients(taps, *LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(wrong(waves=(torch.cos, torch.cos, still)), "cosines", "Use `torch.sin`."),
        Mistake(
            wrong(waves=(torch.sin, still, still)),
            "one sine alone",
            "There is a sine after the hidden map too; without it the two maps are one.",
        ),
        Mistake(
            wrong(waves=(still, torch.sin, still)),
            "no sine after the first map",
            "Positions go through `first`, then through a sine, then through `hidden`.",
        ),
        Mistake(
            wrong(waves=(torch.sin, torch.sin, torch.sin)),
            "a sine after the last map too",
            "The last map is linear: a tap may be larger than 1.",
        ),
        Mistake(
            wrong(where=lambda n, r: torch.arange(n).double() / n),
            "positions that are divided by the number of lags",
            "Then the kernel stretches with what is read of it. Divide by `reach`.",
        ),
        Mistake(
            wrong(where=lambda n, r: torch.arange(n).double()),
            "positions counted in whole lags",
            "Divide by `reach`: lag `reach` stands at position 1.",
        ),
        Mistake(
            wrong(where=lambda n, r: torch.linspace(0, 1, n).double()),
            "positions from 0 to 1, both included",
            "Lag m stands at position m / reach, however many lags are read.",
        ),
        Mistake(
            wrong(where=lambda n, r: torch.arange(1, n + 1).double() / r),
            "positions that begin with lag 1",
            "The first tap stands at lag 0, so at position 0.",
        ),
        Mistake(
            lambda first, shift, hidden, last, lags, reach: taps(first, 0 * shift, hidden, last, lags, reach),
            "no shift",
            "The shift is added inside the first sine.",
        ),
        Mistake(
            lambda first, shift, hidden, last, lags, reach: taps(first, shift, hidden.T, last, lags, reach),
            "the hidden map transposed",
            "As in `nn.Linear`, rows are outputs: `h @ hidden.T` for positions in rows.",
        ),
    ),
    hints=(
        "First the positions: lag m stands at m / reach. Each position is a row, each feature a column.",
        "`p[:, None] * first` has a row for each position. Which of the three maps are followed by a sine?",
    ),
)

EXERCISES = {"siren_taps": SIREN_TAPS}
