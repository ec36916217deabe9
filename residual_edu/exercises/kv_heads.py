"""Exercise on grouped queries: give each query head the key or value head of its group."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_edu.configurable import repeat_heads
from residual_edu.exercises.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

Spread = Callable[[Tensor, int], Tensor]


def share_heads(x: Tensor, heads: int) -> Tensor:
    """Return head h // group of ``x`` as head h."""
    return x[:, torch.arange(heads) // (heads // x.shape[1])]


def asked(f: Spread, x: Tensor, heads: int) -> Tensor:
    """Return an answer's heads, or raise ``Unmet`` for another shape."""
    return run(lambda x: f(x, heads), x, like=share_heads(x, heads))


def numbered(f: Spread) -> None:
    """Test which head goes where, with heads that hold their own number."""
    x = torch.arange(2.0).view(1, 2, 1, 1)
    close(asked(f, x, 6).flatten(), torch.tensor([0, 0, 0, 1, 1, 1.0]), "of 2 heads for 6, the number each head gets")


def every_size(f: Spread) -> None:
    """Test several numbers of heads."""
    for kv_heads, heads in [(1, 4), (2, 4), (4, 4), (3, 6), (2, 8)]:
        x = draw(2, kv_heads, 5, 3)
        close(asked(f, x, heads), share_heads(x, heads), f"for {kv_heads} heads of {heads} the output")


LEARNED = [{"x": draw(2, 2, 3, 5), "heads": heads} for heads in (6, 2)]

KV_HEADS = Exercise(
    reference=share_heads,
    also_right=(repeat_heads, lambda x, heads: x.repeat_interleave(heads // x.shape[1], dim=1)),
    observe=lambda f: run(lambda x: f(x, 6), draw(5, 2, 4, 7)),
    properties=(
        Property("of 2 heads for 6, the first three get the first", numbered),
        Property("any number of groups, one head for all and one for each too", every_size),
        Property(
            "a shared head's gradient is the sum over all heads that share it",
            same_gradients(share_heads, *LEARNED),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            lambda x, heads: x.repeat(1, heads // x.shape[1], 1, 1),
            "heads in the wrong order, 0 1 0 1 where 0 0 1 1 is asked for",
            "`repeat` lays whole copies one after the other; `repeat_interleave` repeats each head in place.",
        ),
        Mistake(
            lambda x, heads: share_heads(x, heads).flip(1),
            "the groups from the last to the first",
            "Head 0 shares the first key.",
        ),
        Mistake(
            lambda x, heads: x.repeat_interleave(heads, dim=1),
            "each head repeated for all that ask",
            "A head is needed once for each of its group: heads // x.shape[1].",
        ),
        Mistake(
            lambda x, heads: x.repeat_interleave(heads // x.shape[1], dim=2),
            "positions repeated, not heads",
            "The heads are axis 1.",
        ),
        Mistake(
            lambda x, heads: x.repeat_interleave(heads // x.shape[1], dim=0),
            "samples repeated, not heads",
            "Along axis 0 it is not the heads that are repeated: `dim=1`.",
        ),
        Mistake(
            lambda x, heads: x.repeat_interleave(heads // x.shape[1]),
            "numbers repeated, in one long row",
            "Say which axis: `dim=1`.",
        ),
        Mistake(
            lambda x, heads: x[:, :1].expand(-1, heads, -1, -1),
            "the first head for everyone",
            "That is multi-query attention. Here every group has a head of its own.",
        ),
        Mistake(
            lambda x, heads: x.mean(1, keepdim=True).expand(-1, heads, -1, -1),
            "the mean of all heads for everyone",
            "Nothing is averaged: each head is repeated as it is.",
        ),
        Mistake(
            lambda x, heads: share_heads(x, heads) / (heads // x.shape[1]),
            "heads divided among those that share them",
            "Every head of a group gets the whole head.",
        ),
        Mistake(lambda x, heads: x, "the heads as they came", "There must be as many as ask."),
    ),
    hints=(
        "Write down for 6 heads and 2 keys which key each head uses: 0 0 0 1 1 1. Which rule makes that list?",
        "`repeat_interleave` repeats each entry before the next one, `repeat` the whole row. How often? Which axis?",
    ),
)

EXERCISES = {"share_heads": KV_HEADS}
