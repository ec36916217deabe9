"""Exercise on AdaLN: a norm whose output a condition shifts and scales."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, close, draw, run, same_gradients

Map = Callable[[Tensor], Tensor]
Modulated = Callable[[Tensor, Map, Tensor, Tensor], Tensor]


def norm(x: Tensor) -> Tensor:
    """Centre each row and halve it, so that norming twice changes the result."""
    return 0.5 * (x - x.mean(-1, keepdim=True))


def wide(piece: Tensor, x: Tensor) -> Tensor:
    """Return ``(batch, channels)`` as ``(batch, 1, ..., 1, channels)``, with as many axes as ``x``."""
    return piece.view(len(x), *[1] * (x.ndim - 2), -1)


# AdaLN: norm(x) (1 + scale) + shift

SHAPES = ((3, 3, 4), (3, 5, 4), (3, 4), (2, 3, 2, 4), (2, 2, 1, 3, 4))
SHIFT, SCALE = draw(3, 4, seed=1), draw(3, 4, seed=2)


def adaln(x: Tensor, norm: Map, shift: Tensor, scale: Tensor) -> Tensor:
    """Return the modulated norm."""
    return norm(x) * (1 + wide(scale, x)) + wide(shift, x)


def modulated(f: Modulated, shape: tuple[int, ...], shift: Tensor = SHIFT, scale: Tensor = SCALE) -> Tensor:
    """Return the output of ``f`` for one signal; each sample has its own row of ``shift`` and ``scale``."""
    x = draw(*shape) + 1
    return run(lambda x, shift, scale: f(x, norm, shift, scale), x, shift[: shape[0]], scale[: shape[0]], like=x)


def fits(f: Modulated, shape: tuple[int, ...], shift: Tensor = SHIFT, scale: Tensor = SCALE) -> None:
    """Test one shape."""
    right = modulated(adaln, shape, shift, scale)
    close(modulated(f, shape, shift, scale), right, f"for x of shape {shape} the output")


def any_axes(f: Modulated) -> None:
    """Test signals with none to three axes of positions."""
    for shape in SHAPES:
        fits(f, shape)


def one_sample(f: Modulated) -> None:
    """Test a batch of one."""
    for shape in ((1, 5, 4), (1, 4)):
        fits(f, shape)


def as_it_is(x: Tensor) -> Tensor:
    """Return the very tensor that is handed over."""
    return x


INPUTS = {"x": draw(3, 5, 4) + 1, "norm": Part(4), "shift": SHIFT, "scale": SCALE}

MODULATE = Exercise(
    reference=adaln,
    also_right=(lambda x, norm, b, s: torch.einsum("b...c,bc->b...c", norm(x), 1 + s) + wide(b, x),),
    observe=lambda f: [modulated(f, (3, 3, 4)), modulated(f, (3, 2, 5, 4))],
    properties=(
        Property("no shift and no scale leave the norm as it is", lambda f: fits(f, (3, 5, 4), 0 * SHIFT, 0 * SCALE)),
        Property("a shift alone is added", lambda f: fits(f, (3, 5, 4), SHIFT, 0 * SCALE)),
        Property("a scale alone is a gain of 1 + scale", lambda f: fits(f, (3, 5, 4), 0 * SHIFT, SCALE)),
        Property(
            "each sample gets its own shift and scale, also 3 samples of 3 positions", lambda f: fits(f, (3, 3, 4))
        ),
        Property("any number of axes will do", any_axes),
        Property("one sample with positions, and one without", one_sample),
        Property(
            "the gradient reaches x, shift, scale and the norm; what is handed over stays as it is",
            same_gradients(adaln, INPUTS, INPUTS | {"norm": as_it_is}),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            lambda x, n, b, s: n(x) * wide(s, x) + wide(b, x),
            "scale where 1 + scale was asked for",
            "Add 1 to the scale: at a scale of 0 the norm should come through as it is.",
        ),
        Mistake(
            lambda x, n, b, s: (n(x) + wide(b, x)) * (1 + wide(s, x)),
            "a shift that is scaled too",
            "Scale first, then shift.",
        ),
        Mistake(
            lambda x, n, b, s: n(x) * (1 + wide(b, x)) + wide(s, x),
            "shift and scale exchanged",
            "The shift is added, the scale multiplies.",
        ),
        Mistake(
            lambda x, n, b, s: n(x) * (1 + s) + b,
            "shift and scale lined up with the positions, not with the samples",
            "Give them an axis of 1 for each axis of positions: `scale.view(len(x), 1, -1)` where x has three axes.",
        ),
        Mistake(
            lambda x, n, b, s: n(x) * (1 + s[:, None]) + b[:, None],
            "one axis of positions taken for granted",
            "x may have none, or three: `x.ndim - 2` is how many axes of 1 are needed.",
        ),
        Mistake(
            lambda x, n, b, s: x * (1 + wide(s, x)) + wide(b, x),
            "FiLM on x itself, without the norm",
            "Pass x through `norm` first.",
        ),
        Mistake(
            lambda x, n, b, s: n(x * (1 + wide(s, x)) + wide(b, x)),
            "a norm that comes last and removes the condition's shift and scale",
            "Normalise first, then scale and shift.",
        ),
        Mistake(
            lambda x, n, b, s: x + n(x) * (1 + wide(s, x)) + wide(b, x),
            "a skip that was not asked for",
            "Leave x out of the sum: the stream is added later, after the branch.",
        ),
        Mistake(
            lambda x, n, b, s: n(x) * (1 + s.mean(0)) + b.mean(0),
            "one average condition for the whole batch",
            "Each sample has a row of its own.",
        ),
    ),
    hints=(
        "Which axis does (batch, channels) line up with, when x has three? Try a batch of 3 with 3 positions.",
        "Shift and scale need as many axes as x: samples first, channels last, and an axis of 1 for each other.",
    ),
)

EXERCISES = {"modulate": MODULATE}
