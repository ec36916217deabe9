"""Exercises on who moves information between positions: a test, and a norm that keeps each position to itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Property,
    Unmet,
    close,
    draw,
    run,
    same_gradients,
    unchanged,
)

Part = Callable[[Tensor], Tensor]
Place = tuple[int, ...]
Answer = Callable[[Part, Tensor, Place], Any]
Norm = Callable[[Tensor], Tensor]
Change = Callable[[Tensor], Tensor]
Look = Callable[[Tensor], Tensor]

# Which outputs move


def normed(x: Tensor) -> Tensor:
    """Normalise the channels of each position."""
    return F.layer_norm(x, x.shape[-1:])


def shares(x: Tensor) -> Tensor:
    """Return channels that add up to 1 at each position, whatever x is."""
    return x.softmax(-1)


def neighbours(x: Tensor) -> Tensor:
    """Add to each position a hundredth of the one before, along every axis of space."""
    return x + sum(0.01 * x.roll(1, axis) for axis in range(1, x.ndim - 1))


def there_and_back(x: Tensor) -> Tensor:
    """Return x after a Fourier transform and its inverse: rounding reaches every position."""
    return torch.fft.irfft(torch.fft.rfft(x, dim=1), n=x.shape[1], dim=1)


def cubes(x: Tensor) -> Tensor:
    """Return the cubes of normalised channels, whose sum is free."""
    return normed(x) ** 3


def falls(x: Tensor) -> Tensor:
    """Return 0 for the x that is asked, and less for any other."""
    return -(x - draw(*x.shape, seed=x.ndim - 2, dtype=x.dtype)).square()


def total(x: Tensor) -> Tensor:
    """Add to each position the mean of all."""
    return x + x.mean(dim=tuple(range(1, x.ndim - 1)), keepdim=True)


def answer(
    change: Change = torch.randn_like,
    size: Look = lambda y: y.abs().amax(dim=-1),
    more_than: float = 1e-5,
) -> Answer:
    """Return an answer; wrong unless what it puts at the place, and how it looks at the output, are right."""

    def moved(part: Part, x: Tensor, place: Place) -> Tensor:
        other = x.clone()
        other[(0, *place)] = change(x[(0, *place)])
        return size(part(other) - part(x))[0] > more_than

    return moved


def changed_along_the_first_axis(part: Part, x: Tensor, place: Place) -> Tensor:
    """Change a whole row of space, where a position was asked for."""
    other = x.clone()
    other[0, place[0]] = torch.randn_like(other[0, place[0]])
    return (part(other) - part(x)).abs().amax(dim=-1)[0] > 1e-5


def compared_with_the_input(part: Part, x: Tensor, place: Place) -> Tensor:
    """Compare the output with the input, where two outputs were asked for."""
    other = x.clone()
    other[(0, *place)] = torch.randn_like(x[(0, *place)])
    return (part(other) - x).abs().amax(dim=-1)[0] > 1e-5


def asked(f: Answer, part: Part, *shape: int, place: Place, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return what an answer finds, as True and False of the shape of space, or raise for what is none."""
    x = draw(1, *shape, 4, seed=len(shape), dtype=dtype)
    given = x.clone()
    torch.manual_seed(0)
    with unchanged(x=given):
        found = f(part, given, place)
    if isinstance(found, np.ndarray | list):
        found = torch.as_tensor(found)
    if not isinstance(found, Tensor):
        raise Broken(f"it returned a {type(found).__name__}, where a tensor was asked for")
    if found.dtype != torch.bool:
        raise Broken(f"it returned {found.dtype}, where True and False were asked for: compare with 0.00001")
    if found.shape != shape:
        raise Broken(f"it returned shape {tuple(found.shape)}, where {shape}, that of the space, was asked for")
    return found


def finds(part: Part, *shape: int, place: Place) -> Callable[[Answer], None]:
    """Return a property's test: the positions that move."""

    def test(f: Answer) -> None:
        got, want = (asked(one, part, *shape, place=place) for one in (f, answer()))
        if not torch.equal(got, want):
            raise Unmet(f"for space {shape} and place {place}, {told(got)} where {told(want)} is right")

    return test


def _one_or_all(f: Answer) -> None:
    finds(normed, 5, place=(3,))(f)
    finds(total, 6, place=(2,))(f)


def _axes(f: Answer) -> None:
    finds(neighbours, 3, 4, place=(1, 2))(f)
    finds(neighbours, 2, 3, 4, place=(1, 0, 2))(f)


def _signs(f: Answer) -> None:
    finds(shares, 5, place=(0,))(f)
    finds(falls, 5, place=(0,))(f)


def told(found: Tensor) -> str:
    """Return in words which positions are True."""
    where = [tuple(place) for place in found.nonzero().tolist()]
    few = ", ".join(str(place) for place in where[:3])
    return f"True stands at {len(where)} positions" + (f" ({few}{', ...' if len(where) > 3 else ''})" if where else "")


def observe(f: Answer) -> Any:
    """Return what an answer finds for some parts of two axes, and for one whose rounding reaches every position."""
    parts = (normed, cubes, shares, falls, neighbours, total)
    found = [asked(f, part, 3, 4, place=(1, 2)) for part in parts]
    return [*found, asked(f, there_and_back, 16, place=(5,))]


MOVED = Exercise(
    reference=answer(),
    also_right=(
        answer(size=lambda y: y.square().sum(-1), more_than=1e-10),
        answer(size=lambda y: y.norm(dim=-1)),
        answer(change=lambda v: torch.randn(v.shape).to(v)),
        answer(change=lambda v: 3 * torch.randn_like(v) + 1),
        lambda part, x, place: (~torch.isclose(*both(part, x, place), rtol=0, atol=1e-5)).any(-1)[0],
        lambda part, x, place: answer()(part, x, place).numpy(),
    ),
    observe=observe,
    properties=(
        Property("one position moves, or all of them", _one_or_all),
        Property("two and three axes of space", _axes),
        Property("changes that cancel, and changes that are all negative", _signs, hints=(2,)),
        Property("rounding is no movement", finds(there_and_back, 16, place=(5,)), hints=()),
    ),
    mistakes=(
        Mistake(
            answer(change=lambda v: v + 1),
            "the same number added to every channel, which a LayerNorm takes away",
            "Put new random numbers there: `torch.randn_like(...)`.",
        ),
        Mistake(
            answer(change=lambda v: 2 * v),
            "the vector made longer, which a LayerNorm takes away",
            "Put new random numbers there: `torch.randn_like(...)`.",
        ),
        Mistake(
            answer(size=lambda y: y.sum(-1).abs(), more_than=1e-5),
            "a sum over the channels, in which changes can cancel",
            "Take the size first: `.abs().amax(dim=-1)`.",
        ),
        Mistake(
            answer(size=lambda y: y.amax(-1), more_than=1e-5),
            "the largest number, where the largest size was asked for",
            "A change can be negative: `.abs()` before the maximum.",
        ),
        Mistake(
            answer(more_than=0.0),
            "any change at all, so that rounding counts",
            "Compare with 0.00001.",
        ),
        Mistake(
            answer(more_than=0.1),
            "a threshold so high that small changes do not count",
            "Compare with 0.00001.",
        ),
        Mistake(
            changed_along_the_first_axis,
            "a whole row changed, where one position was asked for",
            "`place` has an index for each axis of space: `other[(0, *place)]`.",
        ),
        Mistake(
            compared_with_the_input,
            "the output compared with x",
            "Compare two outputs: part(other) and part(x).",
        ),
        Mistake(
            lambda part, x, place: ~answer()(part, x, place),
            "the positions that stay",
            "True is for positions that move: use `>`.",
        ),
    ),
    hints=(
        "Copy x, change the copy at `place`, and send both through the part.",
        "The difference of the outputs has the shape (1, *space, channels): `.abs().amax(dim=-1)`, then take sample 0.",
    ),
)


def both(part: Part, x: Tensor, place: Place) -> tuple[Tensor, Tensor]:
    """Return the outputs with and without a change."""
    other = x.clone()
    other[(0, *place)] = torch.randn_like(x[(0, *place)])
    return part(other), part(x)


# A norm with the channels second


def over(*axes: int, eps: float = 1e-5, correction: int = 0) -> Norm:
    """Return a norm whose mean and variance run over these axes; without any, over all axes of space."""

    def norm(x: Tensor) -> Tensor:
        along = axes or tuple(range(2, x.ndim))
        variance, mean = torch.var_mean(x, dim=along, correction=correction, keepdim=True)
        return (x - mean) / (variance + eps).sqrt()

    return norm


def handed(x: Tensor) -> Tensor:
    """Return the norm that was handed over."""
    return F.group_norm(x, 1)


def tells(*shape: int, size: float = 1.0) -> Callable[[Norm], None]:
    """Return a property's test: the output for this shape."""
    x = 2 * size * draw(*shape, seed=len(shape)) + size

    def test(f: Norm) -> None:
        close(run(f, x, like=x), over(1)(x), f"the output for shape {shape}")

    return test


def _one_axis(f: Norm) -> None:
    tells(2, 4, 5)(f)
    tells(4, 4, 4)(f)


def _more_axes(f: Norm) -> None:
    tells(2, 4, 3, 5)(f)
    tells(2, 4, 2, 3, 5)(f)


def observe_norm(f: Norm) -> Any:
    """Return an answer's outputs for one, two and three axes of space, and for small numbers."""
    shapes = ((4, 4, 4), (4, 4, 4, 4), (2, 4, 2, 3, 4))
    return [run(f, 2 * draw(*shape, seed=7) + 1) for shape in shapes] + [run(f, 1e-3 * draw(4, 4, 4, seed=8))]


CHANNELS_FIRST_NORM = Exercise(
    reference=over(1),
    also_right=(
        lambda x: F.layer_norm(x.movedim(1, -1), x.shape[1:2]).movedim(-1, 1),
        lambda x: F.layer_norm(x.transpose(1, -1), x.shape[1:2]).transpose(1, -1),
        lambda x: (x - x.mean(1, True)) * (x.var(1, correction=0, keepdim=True) + 1e-5).rsqrt(),
        lambda x: (x - x.mean(1).unsqueeze(1)) / (x.var(1, False).unsqueeze(1) + 1e-5) ** 0.5,
        lambda x: normed(x.flatten(2).mT).mT.reshape(x.shape),
        lambda x: torch.stack([over(0)(sample) for sample in x]),
        lambda x: torch.nn.LayerNorm(x.shape[1], elementwise_affine=False)(x.movedim(1, -1)).movedim(-1, 1),
    ),
    observe=observe_norm,
    properties=(
        Property("one axis of space", _one_axis),
        Property("two and three axes of space", _more_axes),
        Property("small numbers, where eps counts", tells(2, 4, 5, size=1e-3)),
        Property("gradients reach x", same_gradients(over(1), {"x": draw(2, 4, 5, seed=5)}), hints=()),
    ),
    mistakes=(
        Mistake(handed, "the norm as it was handed over", "Each position needs a mean of its own."),
        Mistake(over(-1), "a norm along the last axis, which is space here", "The channels are axis 1."),
        Mistake(over(), "a norm over the positions of each channel", "The channels are axis 1; take them alone."),
        Mistake(over(0), "a norm over the batch", "The channels are axis 1; the batch is axis 0."),
        Mistake(
            lambda x: normed(x.mT).mT,
            "two axes swapped, which is right for one axis of space only",
            "`x.movedim(1, -1)` moves the channels to the end, whatever stands between.",
        ),
        Mistake(over(1, correction=1), "a variance divided by n - 1", "Take `correction=0`, as LayerNorm does."),
        Mistake(over(1, eps=0.0), "a division without eps", "Add 1e-5 inside the root."),
        Mistake(
            lambda x: (x - x.mean(1, True)) / (x.var(1, correction=0, keepdim=True) + 1e-5),
            "a division by the variance, without the root",
            "Divide by the root: `.sqrt()`.",
        ),
        Mistake(
            lambda x: x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt(),
            "an RMSNorm, which does not subtract the mean",
            "Subtract the mean along axis 1 first.",
        ),
    ),
    hints=(
        "Which axis are the channels, in (batch, channels, positions) and in (batch, channels, height, width)?",
        "x.movedim(1, -1), then F.layer_norm over the last axis, then x.movedim(-1, 1). Or var_mean along dim=1.",
    ),
)

EXERCISES = {"moved": MOVED, "channels_first_norm": CHANNELS_FIRST_NORM}
