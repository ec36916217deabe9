"""Exercises on a small GPT: the decoder block, and an attention whose queries may be fewer than its keys."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, Unmet
from residual_course.checking.gradients import filled, same_gradients
from residual_course.checking.properties import close, construct, draw, run

NAMES = ("attn_norm", "attention", "ffn_norm", "ffn")

# x <- x + attention(attn_norm(x)), then x <- x + ffn(ffn_norm(x))


class Parts(nn.Module):
    """A block that keeps its four parts."""

    def __init__(self, d_model: int = 64, n_heads: int = 4, d_ff: int = 256) -> None:
        super().__init__()
        for name in NAMES:
            setattr(self, name, nn.Identity())


def made(forward: Callable[[Any, Tensor], Tensor]) -> type[nn.Module]:
    """Return a class of blocks with this ``forward``."""
    return type("Block", (Parts,), {"forward": forward})


def fitted(maker: Callable[..., nn.Module], left_out: str = "") -> nn.Module:
    """Return a block whose four parts are the check's own; ``left_out`` returns zeros."""
    block = construct(maker, 4, 2, 8)
    for seed, name in enumerate(NAMES):
        if not isinstance(getattr(block, name, None), nn.Module):
            raise Unmet(f"it has no part `self.{name}`; leave `__init__` as it was")
        part = filled(nn.LayerNorm(4)) if "norm" in name else Part(4, seed)  # some write a norm out, with its eps
        for parameter in part.parameters():
            parameter.data *= (1 + seed) * (name != left_out)
        setattr(block, name, part)
    return block


RIGHT = made(lambda b, x: (y := x + b.attention(b.attn_norm(x))) + b.ffn(b.ffn_norm(y)))
X = draw(2, 3, 4)


def _agrees(left_out: str = "") -> Callable[[Callable[..., nn.Module]], None]:
    return lambda maker: close(run(fitted(maker, left_out), X, like=X), fitted(RIGHT, left_out)(X))


def _called(maker: Callable[..., nn.Module], x: Tensor) -> tuple[Tensor, nn.Module]:
    return (block := fitted(maker))(x), block


DECODER_BLOCK = Exercise(
    reference=RIGHT,
    observe=lambda maker: run(fitted(maker), X),
    properties=(
        Property("attention's branch", _agrees("ffn")),
        Property("the branch of the feed-forward network", _agrees("attention")),
        Property("one after the other", _agrees()),
        Property("gradients reach x and all four parts", same_gradients(RIGHT, {"x": X}, call=_called), ()),
    ),
    mistakes=(
        Mistake(
            made(lambda b, x: x + b.attention(b.attn_norm(x)) + b.ffn(b.ffn_norm(x))),
            "two branches of the same x",
            "The second one starts from what the first has made.",
        ),
        Mistake(
            made(lambda b, x: b.ffn(b.ffn_norm(x + b.attention(b.attn_norm(x))))),
            "a second branch without its x",
            "Add to its output what went into its norm.",
        ),
        Mistake(
            made(lambda b, x: b.ffn_norm((y := b.attn_norm(x + b.attention(x))) + b.ffn(y))),
            "norms after the sums",
            "Here the norm stands before its branch.",
        ),
        Mistake(
            made(lambda b, x: (y := b.ffn_norm((x := b.attn_norm(x)) + b.attention(x))) + b.ffn(y)),
            "sums with the norm of x",
            "Keep the name x for what came in, and add to that.",
        ),
    ),
    hints=(
        "Two lines of the same form: x = x + f(norm(x)).",
        "The second line starts from the x that the first one made: use the same name x for both.",
    ),
)

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def attended(first_hidden: Callable[[int, int], int]) -> Attend:
    """Return an attention of n queries to m keys; query 0 must not look from key ``first_hidden(n, m)`` on."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        hide = torch.ones_like(scores).triu(first_hidden(*scores.shape[-2:])).bool()
        return scores.masked_fill(hide, -torch.inf).softmax(-1).nan_to_num() @ v

    return attend


ATTEND = attended(lambda n, m: 1 + m - n)
Q, K, V = (draw(2, 2, 6, 4, seed=seed) for seed in (1, 2, 3))


def _output(f: Attend, n: int, m: int = 6) -> Tensor:
    inputs = Q[..., m - n : m, :], K[..., :m, :], V[..., :m, :]
    return run(f, *inputs, like=inputs[0])


def _rows(*pairs: tuple[int, int]) -> Callable[[Attend], None]:
    def test(f: Attend) -> None:
        for n, m in pairs:
            close(_output(f, n, m), _output(ATTEND, n, m), f"for {n} queries and {m} keys the output")

    return test


MENDED_ATTEND = Exercise(
    reference=ATTEND,
    observe=lambda f: [_output(f, n) for n in (1, 3, 6)],
    properties=(
        Property("as many queries as keys: as before", _rows((6, 6), (4, 4), (1, 1))),
        Property("one query, the last, sees all keys", _rows((1, 6), (1, 3))),
        Property("several queries, the last ones", _rows((3, 6), (5, 6), (2, 5))),
        Property("gradients of q, k and v", same_gradients(ATTEND, {"q": Q[..., 3:, :], "k": K, "v": V}), ()),
    ),
    mistakes=(
        Mistake(
            attended(lambda n, m: 1),
            "a mask that is counted from the first key, as PyTorch's `is_causal=True` is",
            "Query i stands at position m - n + i: move the diagonal by m - n.",
        ),
        Mistake(
            attended(lambda n, m: 1 if n > 1 else m),
            "a special case for one query",
            "Two queries at the end of six keys want the same mending: move the diagonal by m - n.",
        ),
        Mistake(
            attended(lambda n, m: m - n),
            "queries that do not see their own position",
            "One column further to the right: a query sees itself.",
        ),
        Mistake(
            attended(lambda n, m: 1 + n - m),
            "a diagonal moved the other way",
            "There are more keys than queries, so the diagonal moves to the right.",
        ),
    ),
    hints=(
        "Query i stands at position m - n + i. Up to which key may it look?",
        "`torch.ones_like(scores).triu(d)` keeps row i from column i + d on; for n = m the right d is 1.",
    ),
)

EXERCISES = {"decoder_block": DECODER_BLOCK, "mended_attend": MENDED_ATTEND}
