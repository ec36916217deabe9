"""Exercises on who moves information between positions: a test, and a norm that keeps each position to itself."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, close, draw, run, same_gradients

Map = Callable[[Tensor], Tensor]
Place = tuple[int, ...]  # or the shape of space
Answer = Callable[[Map, Tensor, Place], Any]

# Which outputs move


def normed(x: Tensor) -> Tensor:
    """Normalise the channels of each position."""
    return F.layer_norm(x, x.shape[-1:])


def cubes(x: Tensor) -> Tensor:
    """Return the cubes of normalised channels, whose sum is free."""
    return normed(x) ** 3


def shares(x: Tensor) -> Tensor:
    """Return channels that add up to 1 at each position, whatever x is."""
    return x.softmax(-1)


def falls(x: Tensor) -> Tensor:
    """Return 0 for the x that is asked, and less for any other."""
    return -(x - draw(*x.shape, seed=x.ndim - 2, dtype=x.dtype)).square()


def neighbours(x: Tensor) -> Tensor:
    """Add to each position a hundredth of the one before, along every axis of space."""
    return x + sum(0.01 * x.roll(1, axis) for axis in range(1, x.ndim - 1))


def far(x: Tensor) -> Tensor:
    """Return numbers of about 10,000 in which ``neighbours`` still shows."""
    return neighbours(x) + 10_000


def total(x: Tensor) -> Tensor:
    """Add to each position the mean of all."""
    return x + x.mean(dim=tuple(range(1, x.ndim - 1)), keepdim=True)


def last(x: Tensor) -> Tensor:
    """Return what ``total`` makes of the last channel, and zeros in the others."""
    return F.pad(total(x)[..., -1:], (x.shape[-1] - 1, 0))


def there_and_back(x: Tensor) -> Tensor:
    """Return x after a Fourier transform and its inverse: rounding reaches every position."""
    return torch.fft.irfft(torch.fft.rfft(x, dim=1), n=x.shape[1], dim=1)


def answer(
    change: Map = torch.randn_like, size: Map = lambda y: y.abs().amax(dim=-1), more_than: float = 1e-5
) -> Answer:
    """Return an answer that is right where its change, and how it looks at the output, are right."""

    def moved(part: Map, x: Tensor, place: Place) -> Tensor:
        other = x.clone()
        other[(0, *place)] = change(x[(0, *place)])
        return size(part(other) - part(x))[0] > more_than

    return moved


def asked(f: Answer, part: Map, shape: Place, place: Place) -> Tensor:
    """Return what an answer finds, as True and False of the shape of space, or raise for what is none."""
    torch.manual_seed(0)

    def called(x: Tensor) -> Any:
        found = f(part, x, place)
        return torch.as_tensor(found) if isinstance(found, list) else found

    x = draw(1, *shape, 4, seed=len(shape), dtype=torch.float32)
    return run(called, x, like=torch.empty(shape, dtype=torch.bool))


def finds(*cases: tuple[Map, Place, Place]) -> Callable[[Answer], None]:
    """Return a property's test: the positions that move, for parts, spaces and places."""

    def test(f: Answer) -> None:
        for part, shape, place in cases:
            got, want = (asked(one, part, shape, place) for one in (f, answer()))
            if not torch.equal(got, want):
                raise Unmet(f"for space {shape} and place {place}, {_told(got)} where {_told(want)} is right")

    return test


def _told(found: Tensor) -> str:
    where = [tuple(place) for place in found.nonzero().tolist()]
    few = ", ".join(str(place) for place in where[:3])
    return f"True stands at {len(where)} positions" + (f" ({few}{', ...' if len(where) > 3 else ''})" if where else "")


def _observe(f: Answer) -> Any:
    parts = (cubes, shares, falls, neighbours, total)
    return [*(asked(f, part, (3, 4), (1, 2)) for part in parts), asked(f, there_and_back, (16,), (5,))]


MOVED = Exercise(
    reference=answer(),
    observe=_observe,
    properties=(
        Property(
            "one position moves, or all of them",
            finds((normed, (5,), (3,)), (total, (6,), (2,)), (last, (6,), (2,)), (far, (6,), (2,))),
        ),
        Property(
            "two and three axes of space", finds((neighbours, (3, 4), (1, 2)), (neighbours, (2, 3, 4), (1, 0, 2)))
        ),
        Property(
            "changes that cancel, and changes that are all negative",
            finds((shares, (5,), (0,)), (falls, (5,), (0,))),
            hints=(2,),
        ),
        Property("rounding is no movement", finds((there_and_back, (16,), (5,))), hints=()),
    ),
    mistakes=(
        Mistake(
            answer(change=lambda v: v + 1),
            "the same number added to every channel, which a LayerNorm takes away",
            "Put new random numbers there: `torch.randn_like(...)`.",
        ),
        Mistake(
            answer(size=lambda y: y.sum(-1).abs()),
            "a sum over the channels, in which changes can cancel",
            "Take the size first: `.abs().amax(dim=-1)`.",
        ),
        Mistake(
            answer(size=lambda y: y.amax(-1)),
            "the largest number, where the largest size was asked for",
            "A change can be negative: `.abs()` before the maximum.",
        ),
        Mistake(answer(more_than=0.0), "any change at all, so that rounding counts", "Compare with 0.00001."),
    ),
    hints=(
        "Copy x, change the copy at `place`, and send both through the part.",
        "The difference of the outputs has the shape (1, *space, channels): `.abs().amax(dim=-1)`, then take sample 0.",
    ),
)

# A norm with the channels second


def over(axis: int) -> Map:
    """Return a norm whose mean and variance run over this axis."""
    return lambda x: normed(x.movedim(axis, -1)).movedim(-1, axis)


def tells(*shapes: tuple[int, ...], size: float = 1.0) -> Callable[[Map], None]:
    """Return a property's test: the output for these shapes."""

    def test(f: Map) -> None:
        for shape in shapes:
            x = 2 * size * draw(*shape, seed=len(shape)) + size
            close(run(f, x, like=x), over(1)(x), f"the output for shape {shape}")

    return test


CHANNELS_FIRST_NORM = Exercise(
    reference=over(1),
    observe=lambda f: [run(f, 2 * draw(*shape, seed=7) + 1) for shape in ((4, 4, 4), (4, 4, 4, 4), (2, 4, 2, 3, 4))],
    properties=(
        Property("one axis of space", tells((2, 4, 5), (4, 4, 4))),
        Property("two and three axes of space", tells((2, 4, 3, 5), (2, 4, 2, 3, 5))),
        Property("small numbers, where eps counts", tells((2, 4, 5), size=1e-3)),
        Property("gradients reach x", same_gradients(over(1), {"x": draw(2, 4, 5, seed=5)}), hints=()),
    ),
    mistakes=(
        Mistake(
            lambda x: F.group_norm(x, 1), "the norm as it was handed over", "Each position needs a mean of its own."
        ),
        Mistake(over(-1), "a norm along the last axis, which is space here", "The channels are axis 1."),
        Mistake(
            lambda x: normed(x.mT).mT,
            "two axes swapped, which is right for one axis of space only",
            "`x.movedim(1, -1)` moves the channels to the end, whatever stands between.",
        ),
    ),
    hints=(
        "Which axis are the channels, in (batch, channels, positions) and in (batch, channels, height, width)?",
        "x.movedim(1, -1), then F.layer_norm over the last axis, then x.movedim(-1, 1). Or var_mean along dim=1.",
    ),
)

EXERCISES = {"moved": MOVED, "channels_first_norm": CHANNELS_FIRST_NORM}
