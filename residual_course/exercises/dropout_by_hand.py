"""Exercise on dropout: the gate itself."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Property,
    Unmet,
    close,
    draw,
    run,
)

Gate = Callable[[Tensor, float, bool], Tensor]


def by_hand(x: Tensor, p: float, training: bool) -> Tensor:
    """Return x after dropout in training, and x itself in evaluation."""
    return x * (torch.rand(x.shape) >= p) / (1 - p) if training else x


def dropped(f: Gate, p: float, *shape: int) -> tuple[Tensor, Tensor]:
    """Return which of the numbers stay in one call, and what they are multiplied by, (those that stay,)."""
    x = draw(*shape).abs() + 1
    factors = run(lambda x: f(x, p, True), x, like=x).detach().double() / x
    return factors != 0, factors[factors != 0]


def scaled(f: Gate) -> None:
    """Test that what stays is divided by 1 - p."""
    for p in (0.25, 0.8):
        _, factors = dropped(f, p, 40, 50)
        if not len(factors):
            raise Unmet(f"for p = {p} no number stays")
        close(factors.amin(), 1 / (1 - p), f"for p = {p} the smallest factor of those that stay")
        close(factors.amax(), 1 / (1 - p), f"for p = {p} the largest factor of those that stay")


def rate(f: Gate) -> None:
    """Test the share that goes, to 7 standard deviations."""
    for p in (0.25, 0.8):
        gone = 1 - dropped(f, p, 200, 200)[0].double().mean().item()
        if abs(gone - p) > 0.015:
            raise Unmet(f"for p = {p} a share of {gone:.2f} is set to 0")


def own_coins(f: Gate) -> None:
    """Test that each number has its own draw: no row and no column stays or goes as one."""
    kept = dropped(f, 0.5, 60, 60)[0].double()
    for axis, name in ((1, "row"), (0, "column")):
        if kept.mean(axis).std() > 0.2:
            raise Unmet(f"in a table of 60 × 60 at p = 0.5 whole {name}s stay or go together")
    for axis, name in ((0, "rows"), (1, "columns")):
        if kept.std(axis).max() == 0 or (kept == kept.narrow(axis, 0, 1)).all():
            raise Unmet(f"in a table of 60 × 60 at p = 0.5 all {name} have the same mask")


def new_coins(f: Gate) -> None:
    """Test that two calls differ, also where the caller has seeded in between."""
    first, second = (dropped(f, 0.5, 30, 30)[0] for _ in range(2))
    if first.equal(second):
        raise Unmet("two calls drop the same numbers, where each call draws anew")


def evaluation(f: Gate) -> None:
    """Test that evaluation returns x, for any rate."""
    x = draw(5, 7)
    for p in (0.3, 0.9):
        close(run(lambda x, p=p: f(x, p, False), x, like=x), x, f"in evaluation, at p = {p}, the output")


def shapes(f: Gate) -> None:
    """Test a rate of 0, and other shapes."""
    for shape in ((400,), (3, 4, 5), (2, 3, 4, 5)):
        x = draw(*shape)
        close(run(lambda x: f(x, 0.0, True), x, like=x), x, f"at p = 0 and shape {shape} the output")
        dropped(f, 0.5, *shape)


def slope(f: Gate) -> None:
    """Test that the gradient of a number is the factor that it was multiplied by."""
    x = (draw(20, 30).abs() + 1).requires_grad_()
    y = run(lambda x: f(x, 0.5, True), x, like=x)
    if not y.requires_grad:
        raise Broken("no gradient reaches x")
    (gradient,) = torch.autograd.grad(y.sum(), x)
    close(gradient, (y / x).detach(), "the gradient of x")


def what_it_does(f: Gate) -> list[Any]:
    """Return in numbers with one digit what two calls in training and one in evaluation do."""
    x = torch.ones(80, 80, dtype=torch.float64)
    first, second, calm = f(x.clone(), 0.25, True), f(x.clone(), 0.25, True), f(x.clone(), 0.25, False)
    kept = (first != 0).double()
    numbers = (kept.mean(), first.max(), calm.min(), calm.max(), kept.mean(0).std(), kept.mean(1).std())
    return [*(round(float(number), 1) for number in numbers), bool(first.equal(second))]


def always(x: Tensor, p: float, training: bool) -> Tensor:
    """Return dropout whatever the mode."""
    return by_hand(x, p, True)


def seeded(x: Tensor, p: float, training: bool) -> Tensor:
    """Return dropout with the same mask in each call."""
    generator = torch.Generator().manual_seed(0)
    return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p) if training else x


def shared(shape: Callable[[Tensor], tuple[int, ...]]) -> Gate:
    """Return dropout whose mask has another shape."""
    return lambda x, p, training: x * (torch.rand(shape(x)) >= p) / (1 - p) if training else x


def twisted(change: Callable[[Tensor, float], Tensor], calm: Callable[[Tensor, float], Tensor] | None = None) -> Gate:
    """Return a gate: ``change`` in training, ``calm`` in evaluation, or x itself."""
    return lambda x, p, training: change(x, p) if training else calm(x, p) if calm else x


DROPOUT = Exercise(
    reference=by_hand,
    also_right=(lambda x, p, training: functional.dropout(x, p, training),),
    observe=what_it_does,
    properties=(
        Property("in evaluation x comes back as it is", evaluation, (2,)),
        Property("a share of p is set to 0", rate),
        Property("what stays is divided by 1 - p", scaled, ()),
        Property("each number has a coin of its own", own_coins, (2,)),
        Property("each call throws new coins", new_coins, ()),
        Property("any shape will do, and p = 0 changes nothing", shapes, (2,)),
        Property("the gradient passes where the number passed", slope, ()),
    ),
    mistakes=(
        Mistake(
            twisted(lambda x, p: x * (torch.rand(x.shape) >= p)),
            "dropping without scaling",
            "Compare the mean of many ones before and after.",
        ),
        Mistake(
            twisted(lambda x, p: x * (torch.rand(x.shape) >= p), lambda x, p: x * (1 - p)),
            "the correction in evaluation, as in the first papers",
            "Here the correction belongs to training: evaluation returns x.",
        ),
        Mistake(
            twisted(lambda x, p: x * (torch.rand(x.shape) >= p) / (1 - p), lambda x, p: x * (1 - p)),
            "a correction in training and another in evaluation",
            "One of the two is enough.",
        ),
        Mistake(
            twisted(lambda x, p: x * (torch.rand(x.shape) < p) / p),
            "a share of p that stays, where it should go",
            "For p = 0.25 three of four numbers stay.",
        ),
        Mistake(
            twisted(lambda x, p: x * (torch.rand(x.shape) < p) / (1 - p)),
            "coins that are read upside down",
            "Count the zeros for p = 0.25.",
        ),
        Mistake(always, "dropout in evaluation too", "What is `training` for?"),
        Mistake(
            shared(lambda x: tuple(x.shape[-1:])),
            "one mask for all rows",
            "Draw as many numbers as x has.",
        ),
        Mistake(
            shared(lambda x: (x.shape[0], *[1] * (x.ndim - 1))),
            "one coin for a whole row",
            "Draw as many numbers as x has.",
        ),
        Mistake(seeded, "the same coins in each call", "Leave the generator as it is; each call draws on."),
        Mistake(
            twisted(lambda x, p: x * (torch.rand(x.shape) >= p) / p),
            "a division by the share that goes",
            "On average 1 - p of each number stays.",
        ),
    ),
    hints=(
        "Solve (1 - p) * s = 1 for s. When must x come back as it is?",
        "`torch.rand_like(x) >= p` is True where a number stays. A product with True is a product with 1.",
    ),
)

EXERCISES = {"dropout": DROPOUT}
