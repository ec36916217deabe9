"""Exercise on a pre-norm network: its skip carries norm(x), and the final norm is missing."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, Unmet, close, draw, run, same_gradients
from residual_course.exercises.placement import Map, X, bend, norm_with

LAYERS = [bend(0.3), bend(-0.1), bend(0.2)]
NORMS = [norm_with(gain) for gain in (1.0, 0.8, 1.2, 0.6)]


def head(x: Tensor) -> Tensor:
    """Return the logits of three classes."""
    return x @ draw(4, 3, seed=5)


def body(x: Tensor, layers: Sequence[Map], norms: Sequence[Map]) -> Tensor:
    """Return the stream after the last block."""
    for layer, norm in zip(layers, norms, strict=False):
        x = x + layer(norm(x))
    return x


def final_norm(x: Tensor, layers: Sequence[Map], norms: Sequence[Map], head: Map) -> Tensor:
    """Return the logits of a pre-norm network."""
    return head(norms[-1](body(x, layers, norms)))


def cut(x: Tensor, layers: Sequence[Map], norms: Sequence[Map]) -> Tensor:
    """Return the stream of blocks whose skips carry what their norms return."""
    for layer, norm in zip(layers, norms, strict=False):
        x = norm(x)
        x = x + layer(x)
    return x


def norm_in_the_loop(x: Tensor, layers: Sequence[Map], norms: Sequence[Map], head: Map) -> Tensor:
    """Return the logits of a network whose final norm is applied to the stream after every block."""
    for layer, norm in zip(layers, norms, strict=False):
        x = norms[-1](x + layer(norm(x)))
    return head(x)


def logits_of(f: Callable[..., Tensor], count: int, x: Tensor = X, top: Map = head) -> Tensor:
    """Return an answer's logits with the first ``count`` layers."""
    layers, norms = LAYERS[:count], [*NORMS[:count], NORMS[-1]]
    return run(lambda x: f(x, layers, norms, top), x, like=final_norm(x, layers, norms, top))


def _head_gets_a_norm(f: Callable[..., Tensor]) -> None:
    seen = list[Tensor]()

    def record(x: Tensor) -> Tensor:
        seen.append(x.clone())
        return head(x)

    logits_of(f, 3, top=record)
    if not seen:
        raise Unmet("it never called `head`")
    size = seen[-1].square().mean(-1).sqrt()
    close(size, torch.full_like(size, 0.6), "the size of each row that the head is handed", 1e-4)


def _count(f: Callable[..., Tensor], count: int) -> None:
    layers, norms = LAYERS[:count], [*NORMS[:count], NORMS[-1]]
    close(logits_of(f, count), final_norm(X, layers, norms, head), "the logits")


def _observe_network(f: Callable[..., Tensor]) -> Any:
    return logits_of(f, 3), logits_of(f, 1), logits_of(f, 0, 3 * X)


def _learned(count: int) -> dict[str, Any]:
    layers, norms = [Part(4, seed) for seed in range(count)], [Part(4, 10 + seed) for seed in range(count + 1)]
    return {"x": draw(2, 3, 4), "layers": layers, "norms": norms, "head": Part(4, 20)}


LEARNED = [_learned(2), _learned(0)]

FINAL_NORM = Exercise(
    reference=final_norm,
    observe=_observe_network,
    properties=(
        Property("without any block, the head still receives a normalised x", lambda f: _count(f, 0)),
        Property("the head receives a stream of one size, whatever the blocks added", _head_gets_a_norm),
        Property("one block", lambda f: _count(f, 1)),
        Property("three blocks, each with its own norm", lambda f: _count(f, 3)),
        Property(
            "the gradients of x and of all parts; the lists stay as they are",
            same_gradients(final_norm, *LEARNED),
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
            lambda x, layers, norms, head: head(cut(x, layers, norms)),
            "the network as it was handed over",
            "Inside the loop, keep x itself for the sum. After the loop one norm is left over: who calls it?",
        ),
        Mistake(
            lambda x, layers, norms, head: head(norms[-1](cut(x, layers, norms))),
            "a final norm, and still a skip that carries norm(x)",
            "Write the loop's sum with x as it came: `x + layer(norm(x))`.",
        ),
        Mistake(
            lambda x, layers, norms, head: head(norms[0](body(x, layers, norms))),
            "the first norm used a second time",
            "The one that is left over stands at the end of the list: `norms[-1]`.",
        ),
        Mistake(
            lambda x, layers, norms, head: norms[-1](head(body(x, layers, norms))),
            "a norm on the logits",
            "The norm comes before the head, so that the head receives a stream of one size.",
        ),
        Mistake(
            lambda x, layers, norms, head: head(body(norms[-1](x), layers, norms)),
            "the last norm at the beginning",
            "It belongs after the loop, where the stream has grown.",
        ),
        Mistake(
            lambda x, layers, norms, head: head(body(x, layers, norms[1:])),
            "the list of norms shifted by one, and still none at the end",
            "The loop was right; what is missing stands after it.",
        ),
        Mistake(
            norm_in_the_loop,
            "the last norm inside the loop, on the stream of every block",
            "Once is enough: call it after the loop.",
        ),
        Mistake(
            lambda x, layers, norms, head: head(norms[-1](x)),
            "the last norm without any block before it",
            "Keep the loop, and norm what it returns.",
        ),
    ),
    hints=(
        "What does the name x stand for in the line with the plus sign? And how many of the norms does the loop call?",
        "Leave x as it is until the sum. `zip` stops at the shorter list: which norm is left, and where is it due?",
    ),
)

EXERCISES = {"final_norm": FINAL_NORM}
