"""Exercises on a small GPT: the decoder block, and an attention whose queries may be fewer than its keys."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import (
    Exercise,
    Mistake,
    Part,
    Property,
    Unmet,
    close,
    construct,
    draw,
    run,
    same_gradients,
)

Forward = Callable[[Any, Tensor], Tensor]
NAMES = ("attn_norm", "attention", "ffn_norm", "ffn")

# x <- x + attention(attn_norm(x)), then x <- x + ffn(ffn_norm(x))


def made(step: Forward) -> type[nn.Module]:
    """Return a block with this ``forward``."""

    class Block(nn.Module):
        def __init__(self, d_model: int = 64, n_heads: int = 4, d_ff: int = 256) -> None:
            super().__init__()
            for name in NAMES:
                setattr(self, name, nn.Identity())

        def forward(self, x: Tensor) -> Tensor:
            return step(self, x)

    return Block


def fitted(maker: Callable[..., nn.Module], left_out: str = "") -> nn.Module:
    """Return a block whose four parts are the check's own; ``left_out`` returns zeros."""
    block = construct(maker, 4, 2, 8)
    for seed, name in enumerate(NAMES):
        if not isinstance(getattr(block, name, None), nn.Module):
            raise Unmet(f"it has no part `self.{name}`; leave `__init__` as it was")
        part = Part(4, seed)
        if name == left_out:
            nn.init.zeros_(part.weight)
            nn.init.zeros_(part.bias)
        setattr(block, name, part)
    return block


def added(block: Any, x: Tensor) -> Tensor:
    """Return x with both branches added, one after the other."""
    x = x + block.attention(block.attn_norm(x))
    return x + block.ffn(block.ffn_norm(x))


RIGHT, X = made(added), draw(2, 3, 4)


def agrees(left_out: str = "") -> Callable[[Callable[..., nn.Module]], None]:
    """Return a test of the output."""
    return lambda maker: close(run(fitted(maker, left_out), X, like=X), fitted(RIGHT, left_out)(X))


def _called(maker: Callable[..., nn.Module], x: Tensor) -> tuple[Tensor, nn.Module]:
    return (block := fitted(maker))(x), block


def _after_the_sum(block: Any, x: Tensor) -> Tensor:
    x = block.attn_norm(x + block.attention(x))
    return block.ffn_norm(x + block.ffn(x))


def _to_the_norm(block: Any, x: Tensor) -> Tensor:
    for norm, f in ((block.attn_norm, block.attention), (block.ffn_norm, block.ffn)):
        x = norm(x)
        x = x + f(x)
    return x


DECODER_BLOCK = Exercise(
    reference=RIGHT,
    also_right=(made(lambda b, x: b.ffn(b.ffn_norm(h := b.attention(b.attn_norm(x)) + x)) + h),),
    observe=lambda maker: run(fitted(maker), X),
    properties=(
        Property("attention's branch", agrees("ffn")),
        Property("the branch of the feed-forward network", agrees("attention")),
        Property("one after the other", agrees()),
        Property("gradients reach x and all four parts", same_gradients(RIGHT, {"x": X}, call=_called), ()),
    ),
    mistakes=(
        Mistake(
            made(lambda b, x: b.ffn(b.ffn_norm(b.attention(b.attn_norm(x))))),
            "branches without x",
            "Add what came in: x + f(norm(x)), twice.",
        ),
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
            made(lambda b, x: x + b.ffn(b.ffn_norm(b.attention(b.attn_norm(x))))),
            "one sum around both branches",
            "Each branch has a sum of its own.",
        ),
        Mistake(made(_after_the_sum), "norms after the sums", "Here the norm stands before its branch."),
        Mistake(
            made(lambda b, x: (x := x + b.attention(x)) + b.ffn(x)),
            "branches without their norms",
            "Attention receives `self.attn_norm(x)`, and `ffn` its own norm of x.",
        ),
        Mistake(
            made(lambda b, x: (x := x + b.attention(b.ffn_norm(x))) + b.ffn(b.attn_norm(x))),
            "the two norms exchanged",
            "`attn_norm` stands before `attention`.",
        ),
        Mistake(
            made(_to_the_norm),
            "sums with the norm of x",
            "Keep the name x for what came in, and add to that.",
        ),
        Mistake(
            made(lambda b, x: (x := x + b.ffn(b.ffn_norm(x))) + b.attention(b.attn_norm(x))),
            "the feed-forward network first",
            "First attention, then the feed-forward network.",
        ),
    ),
    hints=(
        "Two lines of the same form: x = x + f(norm(x)).",
        "The second line starts from the x that the first one made: use the same name x for both.",
    ),
)

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def attended(hide: Callable[[int, int], Tensor], root: bool = True) -> Attend:
    """Return an attention of n queries to m keys; ``hide(n, m)`` is True where a query must not look."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT / (q.shape[-1] ** 0.5 if root else 1)
        return scores.masked_fill(hide(*scores.shape[-2:]), -torch.inf).softmax(-1).nan_to_num() @ v

    return attend


def later(n: int, m: int) -> Tensor:
    """Return where a key comes after its query, the queries being the last n of m positions."""
    return torch.arange(m) > torch.arange(m - n, m)[:, None]


def first(n: int, m: int) -> Tensor:
    """Return where a key comes after its query, both counted from 0."""
    return torch.ones(n, m).triu(1).bool()


def _masked_late(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights.masked_fill(later(*weights.shape[-2:]), 0) @ v


ATTEND = attended(later)
Q, K, V = (draw(2, 2, 6, 4, seed=seed) for seed in (1, 2, 3))


def output(f: Attend, n: int, m: int = 6) -> Tensor:
    """Return the output of the last n of m positions."""
    inputs = Q[..., m - n : m, :], K[..., :m, :], V[..., :m, :]
    return run(f, *inputs, like=inputs[0])


def _rows(*pairs: tuple[int, int]) -> Callable[[Attend], None]:
    def test(f: Attend) -> None:
        for n, m in pairs:
            close(output(f, n, m), output(ATTEND, n, m), f"for {n} queries and {m} keys the output")

    return test


MENDED_ATTEND = Exercise(
    reference=ATTEND,
    also_right=(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=~later(q.shape[-2], k.shape[-2])),
        attended(lambda n, m: ~torch.ones(n, m).tril(m - n).bool()),
    ),
    observe=lambda f: [output(f, n) for n in (1, 3, 6)],
    properties=(
        Property("as many queries as keys: as before", _rows((6, 6), (4, 4), (1, 1))),
        Property("one query, the last, sees all keys", _rows((1, 6), (1, 3))),
        Property("several queries, the last ones", _rows((3, 6), (5, 6), (2, 5))),
        Property(
            "gradients of q, k and v",
            same_gradients(ATTEND, {"q": Q[..., 3:, :], "k": K, "v": V}),
            (),
        ),
    ),
    mistakes=(
        Mistake(
            attended(first),
            "a mask that is counted from the first key, as PyTorch's `is_causal=True` is",
            "Query i stands at position m - n + i: move the diagonal by m - n.",
        ),
        Mistake(
            attended(lambda n, m: torch.zeros(n, m).bool()),
            "no mask",
            "Of several queries all but the last have later keys.",
        ),
        Mistake(
            attended(lambda n, m: first(n, m) if n > 1 else torch.zeros(n, m).bool()),
            "a special case for one query",
            "Two queries at the end of six keys want the same mending: move the diagonal by m - n.",
        ),
        Mistake(
            attended(lambda n, m: torch.ones(n, m).triu(m - n).bool()),
            "queries that do not see their own position",
            "One column further to the right: a query sees itself.",
        ),
        Mistake(
            attended(lambda n, m: torch.ones(n, m).triu(2 + m - n).bool()),
            "queries that see one position too many",
            "A leak of one: `triu` begins at the first column that is hidden.",
        ),
        Mistake(
            attended(lambda n, m: torch.ones(n, m).triu(1 + n - m).bool()),
            "a diagonal moved the other way",
            "There are more keys than queries, so the diagonal moves to the right.",
        ),
        Mistake(
            attended(later, root=False), "scores that are not divided", "Divide by the root of the features, as before."
        ),
        Mistake(
            _masked_late,
            "a mask after the softmax",
            "What comes later took its share before it was set to 0: put -inf in before the softmax.",
        ),
    ),
    hints=(
        "Query i stands at position m - n + i. Up to which key may it look?",
        "`torch.ones_like(scores).triu(d)` keeps row i from column i + d on; for n = m the right d is 1.",
    ),
)

EXERCISES = {"decoder_block": DECODER_BLOCK, "mended_attend": MENDED_ATTEND}
