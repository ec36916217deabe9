"""Exercise on a pre-norm network: its skip carries norm(x), and the final norm is missing."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, Unmet, close, draw, run, same_gradients

Map = Callable[[Tensor], Tensor]
Network = Callable[[Tensor, Sequence[Map], Sequence[Map], Map], Tensor]


def norm_with(gain: float) -> Map:
    """Return a norm with a size of its own."""
    return lambda x: gain * F.layer_norm(x, x.shape[-1:])


X = 2 * draw(2, 3, 4) + 1
LAYERS = [Part(4, seed) for seed in range(3)]
NORMS = [norm_with(gain) for gain in (1.0, 0.8, 1.2, 0.6)]
HEAD = Part(4, 20)


def body(x: Tensor, layers: Sequence[Map], norms: Sequence[Map], skips: bool = True) -> Tensor:
    """Return the stream after the last block; without ``skips`` each sum is with what the norm returned."""
    for layer, norm in zip(layers, norms, strict=False):
        x = (x if skips else norm(x)) + layer(norm(x))
    return x


def final_norm(x: Tensor, layers: Sequence[Map], norms: Sequence[Map], head: Map) -> Tensor:
    """Return the output of a pre-norm network."""
    return head(norms[-1](body(x, layers, norms)))


def _logits_of(f: Network, count: int, head: Map = HEAD) -> Tensor:
    layers, norms = LAYERS[:count], [*NORMS[:count], NORMS[-1]]
    return run(lambda x: f(x, *deepcopy((layers, norms, head))), X, like=X)


def _head_gets_a_norm(f: Network) -> None:
    seen = list[Tensor]()

    def record(x: Tensor) -> Tensor:
        seen.append(x.clone())
        return HEAD(x)

    _logits_of(f, 3, record)
    if not seen:
        raise Unmet("it never called `head`")
    size = seen[-1].square().mean(-1).sqrt()
    close(size, torch.full_like(size, 0.6), "the size of each row that the head is handed", 1e-4)


def _count(count: int) -> Callable[[Network], None]:
    return lambda f: close(_logits_of(f, count), _logits_of(final_norm, count), "the logits")


def _learned(count: int) -> dict[str, Any]:
    layers, norms = [Part(4, seed) for seed in range(count)], [Part(4, 10 + seed) for seed in range(count + 1)]
    return {"x": X, "layers": layers, "norms": norms, "head": HEAD}


FINAL_NORM = Exercise(
    reference=final_norm,
    observe=lambda f: [_logits_of(f, count) for count in (3, 1, 0)],
    properties=(
        Property("without any block, the head still receives a normalised x", _count(0)),
        Property("the head receives a stream of one size, whatever the blocks added", _head_gets_a_norm),
        Property("one block", _count(1)),
        Property("three blocks, each with its own norm", _count(3)),
        Property(
            "the gradients of x and of all parts; the lists stay as they are",
            same_gradients(final_norm, _learned(2), _learned(0)),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            lambda x, layers, norms, head: head(body(x, layers, norms)),
            "a clean skip, and no norm before the head",
            "Hand the head `norms[-1](x)`: the loop has left that one over.",
        ),
        Mistake(
            lambda x, layers, norms, head: head(body(x, layers, norms, skips=False)),
            "the network as it was handed over",
            "Inside the loop, keep x itself for the sum. After the loop one norm is left over: who calls it?",
        ),
        Mistake(
            lambda x, layers, norms, head: head(norms[-1](body(x, layers, norms, skips=False))),
            "a final norm, and still a skip that carries norm(x)",
            "Write the loop's sum with x as it came: `x + layer(norm(x))`.",
        ),
    ),
    hints=(
        "What does the name x stand for in the line with the plus sign? And how many of the norms does the loop call?",
        "Leave x as it is until the sum. `zip` stops at the shorter list: which norm is left, and where is it due?",
    ),
)

EXERCISES = {"final_norm": FINAL_NORM}
