"""Exercise on Hyena: two gates and a long convolution between them, as in this library or as in the paper."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, close, draw, note, run, same_gradients
from residual_edu.mixers import long_convolution

Convolve = Callable[[Tensor], Tensor]
Mixer = Callable[[Tensor, Tensor, Tensor, Convolve], Tensor]


def gated(query: Tensor, key: Tensor, value: Tensor, convolve: Convolve) -> Tensor:
    """Return convolve(query · silu(key)) · silu(value)."""
    return convolve(query * silu(key)) * silu(value)


def papers(query: Tensor, key: Tensor, value: Tensor, convolve: Convolve) -> Tensor:
    """Return query · convolve(key · value), as in Poli et al., 2023."""
    return query * convolve(key * value)


def convolving(x: Tensor) -> Tensor:
    """Convolve with a fixed kernel."""
    return long_convolution(x, draw(1, 2 * x.shape[1] - 1, x.shape[-1], seed=9))


def with_convolution(f: Mixer, convolve: Convolve = convolving) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a mixer of three signals."""
    return lambda query, key, value: f(query, key, value, convolve)


def signals(seed: int = 0) -> list[Tensor]:
    """Return a query, a key and a value."""
    return [draw(2, 6, 3, seed=seed + k) for k in range(3)]


def nearest(f: Mixer) -> Mixer:
    """Return the Hyena, this library's or the paper's, whose output is nearer to that of ``f``."""
    given = signals()
    found = run(with_convolution(f), *given, like=given[0])
    return min((gated, papers), key=lambda one: float((found - with_convolution(one)(*given)).abs().max()))


def _matches(f: Mixer) -> None:
    given, wanted = signals(), nearest(f)
    close(run(with_convolution(f), *given, like=given[0]), with_convolution(wanted)(*given), "the output")
    if wanted is papers:
        note("This is the paper's Hyena: q · conv(k · v), without a SiLU.")


def _without_mixing(f: Mixer) -> None:
    ones, wanted = torch.ones(1, 2, 1).double(), nearest(f)
    found = run(with_convolution(f, lambda z: z), 2 * ones, ones, 3 * ones, like=ones)
    want = wanted(2 * ones, ones, 3 * ones, lambda z: z)
    close(found, want, "without mixing, for q = 2, k = 1 and v = 3, the output")


def _closed_behind(f: Mixer) -> None:
    query, key, value = signals()
    query[:, 2] = value[:, 2] = 0
    found = run(with_convolution(f), query, key, value)[:, 2]
    close(found, torch.zeros(2, 3), "where query and value are 0 the output")


def _closed_before(f: Mixer) -> None:
    query, key, value = signals()
    key[:, 2] = 0
    found = []
    for more in (0, 1):
        other = [signal.clone() for signal in (query, value)]
        for signal in other:
            signal[:, 2] += more
        found.append(run(with_convolution(f), other[0], key, other[1])[:, [0, 1, 3, 4, 5]])
    close(found[1], found[0], "for another query and value at a position whose key is 0 an output elsewhere")


def _gradients(f: Mixer) -> None:
    same_gradients(nearest(f), *(LEARNED | {"convolve": convolve} for convolve in CONVOLVES))(f)


LEARNED: dict[str, Any] = dict(zip(("query", "key", "value"), signals(), strict=True))
CONVOLVES = convolving, Part(3), nn.Tanh()  # the backward of tanh needs its output as it was

HYENA_GATES = Exercise(
    reference=gated,
    also_right=(papers, lambda q, k, v, c: silu(v) * c(silu(k) * q)),
    observe=lambda f: with_convolution(f)(*signals(seed=4)),
    properties=(
        Property("a position whose key is 0 changes no other output", _closed_before),
        Property("where query and value are 0 the output is 0", _closed_behind),
        Property("without mixing: q · silu(k) · silu(v), or q · k · v", _without_mixing),
        Property("the convolution stands between two gates", _matches),
        Property("gradients reach query, key, value and what convolves", _gradients, hints=()),
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
        Mistake(
            lambda q, k, v, c: c(q * k) * v,
            "the paper's products with query and value exchanged",
            "In the paper the value is convolved and the query gates the result; here each gate is a `silu`.",
        ),
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
            "the library's Hyena with query and value exchanged, or the paper's with a `silu` on its gates",
            "With `silu`, the query is convolved and the value gates the result; the paper has no `silu`.",
        ),
        Mistake(lambda q, k, v, c: c(k * v), "the paper's first gate alone", "The query gates the result."),
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
