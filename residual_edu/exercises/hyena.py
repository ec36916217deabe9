"""Exercise on Hyena: two gates and a long convolution between them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from residual_edu.exercises.exercise import Exercise, Mistake, Part, Property, close, draw, run, same_gradients
from residual_edu.mixers import long_convolution

Convolve = Callable[[Tensor], Tensor]
Mixer = Callable[[Tensor, Tensor, Tensor, Convolve], Tensor]


def gated(query: Tensor, key: Tensor, value: Tensor, convolve: Convolve) -> Tensor:
    """Return convolve(query · silu(key)) · silu(value)."""
    return convolve(query * silu(key)) * silu(value)


def convolving(x: Tensor) -> Tensor:
    """Convolve with a fixed kernel."""
    return long_convolution(x, draw(1, 2 * x.shape[1] - 1, x.shape[-1], seed=9))


def with_convolution(f: Mixer, convolve: Convolve = convolving) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a mixer of three signals."""
    return lambda query, key, value: f(query, key, value, convolve)


def signals(seed: int = 0) -> list[Tensor]:
    """Return a query, a key and a value."""
    return [draw(2, 6, 3, seed=seed + k) for k in range(3)]


def _matches(f: Mixer) -> None:
    given = signals()
    close(run(with_convolution(f), *given, like=given[0]), with_convolution(gated)(*given), "the output")


def _without_mixing(f: Mixer) -> None:
    ones = torch.ones(1, 2, 1).double()
    found = run(with_convolution(f, lambda z: z), 2 * ones, ones, 3 * ones, like=ones)
    close(found, 2 * silu(ones) * silu(3 * ones), "without mixing, for q = 2, k = 1 and v = 3, the output")


def _silent_value(f: Mixer) -> None:
    query, key, value = signals()
    value[:, 2] = 0
    close(run(with_convolution(f), query, key, value)[:, 2], torch.zeros(2, 3), "where the value is 0 the output")


def _silent_key(f: Mixer) -> None:
    query, key, value = signals()
    key[:, 2] = 0
    other = query.clone()
    other[:, 2] += 1
    found = [run(with_convolution(f), q, key, value) for q in (query, other)]
    close(found[1], found[0], "for another query at a position whose key is 0 the output")


LEARNED: dict[str, Any] = dict(zip(("query", "key", "value"), signals(), strict=True))
CONVOLVES = convolving, Part(3), nn.Tanh()  # the backward of tanh needs its output as it was

HYENA_GATES = Exercise(
    reference=gated,
    also_right=(lambda q, k, v, c: silu(v) * c(silu(k) * q),),
    observe=lambda f: with_convolution(f)(*signals(seed=4)),
    properties=(
        Property("without mixing: q · silu(k) · silu(v)", _without_mixing),
        Property("a position whose key is 0 changes no output", _silent_key),
        Property("at a position whose value is 0 the output is 0", _silent_value),
        Property("the convolution stands between the two gates", _matches),
        Property(
            "gradients reach query, key, value and what convolves",
            same_gradients(gated, *(LEARNED | {"convolve": convolve} for convolve in CONVOLVES)),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            lambda q, k, v, c: c(q * silu(k) * silu(v)),
            "both gates before the convolution",
            "The value gates the output at a position, after the convolution.",
        ),
        Mistake(
            lambda q, k, v, c: c(q) * silu(k) * silu(v),
            "both gates after the convolution",
            "The key gates the input at a position: gate the query before it is convolved.",
        ),
        Mistake(lambda q, k, v, c: c(q * k) * v, "plain products", "Each gate is `silu` of what gates."),
        Mistake(
            lambda q, k, v, c: c(q * k.sigmoid()) * v.sigmoid(),
            "sigmoids",
            "Use `silu`, x · sigmoid(x): it is 0 at 0, where a sigmoid stands half open.",
        ),
        Mistake(
            lambda q, k, v, c: c(silu(q) * k) * silu(v),
            "the query gating the key",
            "The key goes through `silu`, the query stays as it is.",
        ),
        Mistake(
            lambda q, k, v, c: c(q * silu(k)) * v,
            "a second gate without its `silu`",
            "Both gates bend what they are given: silu(value).",
        ),
        Mistake(
            lambda q, k, v, c: c(q * silu(k)),
            "the first gate alone",
            "Multiply what the convolution returns by silu(value).",
        ),
        Mistake(
            lambda q, k, v, c: c(v * silu(k)) * silu(q),
            "query and value exchanged",
            "Unlike in attention, the query is what is convolved here, and the value gates the result.",
        ),
        Mistake(
            lambda q, k, v, c: c(q * silu(k)) + silu(v),
            "a second gate that adds",
            "A gate multiplies, so that it can shut.",
        ),
    ),
    hints=(
        "Three lines: gate, convolve, gate. Which of the three signals goes through the convolution?",
        "Each gate is the SiLU of one signal. One gate multiplies what is convolved, the other what comes out: which?",
    ),
)

EXERCISES = {"hyena_gates": HYENA_GATES}
