"""Exercise on reconstructing the curve of weight gradients from the curves of the signal and of its gradient."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw
from residual_course.checking.properties import numbers_of
from residual_course.checking.seen import seen

Sizes = Sequence[float]
Answer = Callable[[Sizes, Sizes, int, Sizes], Any]


def sizes(count: int, seed: int) -> list[float]:
    """Return numbers between 0.2 and 8, none equal to another."""
    return (2 ** draw(count, seed=seed).clamp(-2.3, 3)).tolist()


def curve(
    signal: Sizes,
    gradient: Sizes,
    batch: float,
    k: Sizes,
    before: int = 0,
    after: int = 1,
    factor: float = 0.5,
) -> list[float]:
    """Return factor √batch k times the signal at place block + ``before`` and the gradient at block + ``after``."""
    return [
        factor * batch**0.5 * each * signal[block + before] * gradient[block + after] for block, each in enumerate(k)
    ]


def numbers(f: Answer, blocks: int, batch: int, ones: bool = False) -> Tensor:
    """Return what ``f`` makes of two curves, as a tensor."""
    k = [1.0] * blocks if ones else sizes(blocks, 3)
    return numbers_of(f(sizes(blocks + 1, 1), sizes(blocks + 1, 2), batch, k))


def is_right(f: Answer, blocks: int, batch: int, ones: bool = False) -> None:
    """Test one depth and one batch."""
    k = [1.0] * blocks if ones else sizes(blocks, 3)
    want = torch.tensor(curve(sizes(blocks + 1, 1), sizes(blocks + 1, 2), batch, k), dtype=torch.float64)
    close(numbers(f, blocks, batch, ones), want, "the curve", 1e-3)


def others(f: Answer) -> None:
    """Test a deeper stack, and one block."""
    is_right(f, 5, 7)
    is_right(f, 1, 64)


THIRD_CURVE = Exercise(
    reference=curve,
    also_right=(
        lambda s, g, batch, k: (
            torch.tensor(s[:-1]) * torch.tensor(g[1:]) * torch.tensor(k) * torch.tensor(batch).sqrt() / 2
        ),
        lambda s, g, batch, k: [((batch / 4) * (a * b * c) ** 2) ** 0.5 for a, b, c in zip(s, g[1:], k, strict=False)],
        lambda s, g, batch, k: tuple(0.5 * batch**0.5 * k[i] * s[i] * g[i + 1] for i in range(len(k))),
    ),
    observe=lambda f: seen(lambda: numbers(f, 3, 6), lambda: numbers(f, 2, 1), lambda: numbers(f, 2, 40)),
    properties=(
        Property("one sample, k = 1: the right places, and the right factor", lambda f: is_right(f, 3, 1, ones=True)),
        Property("a batch of 64, k = 1", lambda f: is_right(f, 3, 64, ones=True)),
        Property("any k, any depth", others),
    ),
    mistakes=(
        Mistake(
            lambda s, g, b, k: curve(s, g, b, k, factor=1.0),
            "the stream gradient itself in the place of the first layer's",
            "The first layer's output lies inside the block. Follow the gradient to it, back through two steps.",
        ),
        Mistake(
            lambda s, g, b, k: curve(s, g, b, k, factor=0.25),
            "a factor of the mean square, where the root is meant",
            "The three curves are root mean squares: take the root of the factor.",
        ),
        Mistake(
            lambda s, g, b, k: curve(s, g, b, k, factor=0.5**0.5),
            "one of two steps back, the layer or the ReLU",
            "Both halve the mean square: the second layer by its 64 outputs, and then the ReLU.",
        ),
        Mistake(
            lambda s, g, b, k: curve(s, g, b * b, k),
            "B in the place of its root",
            "Outer products that are perpendicular add in their squares.",
        ),
        Mistake(
            lambda s, g, b, k: curve(s, g, 1, k),
            "a batch of any size taken for one sample",
            "Where does the number of samples enter?",
        ),
        Mistake(
            lambda s, g, b, k: curve(s, g, b, [1.0] * len(k)),
            "k left out",
            "Multiply by k of each block.",
        ),
        Mistake(
            lambda s, g, b, k: curve(s, g, b, k, after=0),
            "the gradient before the block",
            "The gradient reaches the block's layers from its end.",
        ),
        Mistake(
            lambda s, g, b, k: curve(s, g, b, k, before=1),
            "the signal after the block",
            "The first layer receives the stream as it enters the block.",
        ),
        Mistake(
            lambda s, g, b, k: curve(s, g, b, k, before=1, after=0),
            "signal and gradient each from the wrong end of the block",
            "What does the first layer receive, and from which side does the gradient come?",
        ),
        Mistake(
            lambda s, g, b, k: curve(s, g, 1 / b, k),
            "a division by the root of B",
            "The loss's own mean is in the stream gradient already. The samples' gradients are added.",
        ),
    ),
    hints=(
        "For one sample: which place's signal enters the first layer, and from which place does the gradient come?",
        "A hidden number gets back 64 products with weights of variance 1/128. Then for half of them nothing passes.",
    ),
)

EXERCISES = {"third_curve": THIRD_CURVE}
