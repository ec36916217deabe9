"""Exercise on dropout: the gate itself."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, run

Gate = Callable[[Tensor, float, bool], Tensor]


def gate(
    keep: Callable[[Tensor, float], Tensor] = lambda x, p: torch.rand(x.shape) >= p,
    size: Callable[[float], float] = lambda p: 1 / (1 - p),
    calm: Callable[[float], float] = lambda p: 1,
) -> Gate:
    """Return a gate: what stays, what it is multiplied by, and what x is multiplied by in evaluation."""
    return lambda x, p, training: x * keep(x, p) * size(p) if training else x * calm(p)


def dropped(f: Gate, p: float, *shape: int) -> tuple[Tensor, Tensor]:
    """Return which of the numbers stay in one call, and what they are multiplied by, (those that stay,)."""
    x = draw(*shape).abs() + 1
    factors = run(lambda x: f(x, p, True), x, like=x).detach().double() / x
    return factors != 0, factors[factors != 0]


def _scaled(f: Gate) -> None:
    for p in (0.25, 0.8):
        _, factors = dropped(f, p, 40, 50)
        if not len(factors):
            raise Unmet(f"for p = {p} no number stays")
        close(factors.amin(), 1 / (1 - p), f"for p = {p} the smallest factor of those that stay")
        close(factors.amax(), 1 / (1 - p), f"for p = {p} the largest factor of those that stay")


def _rate(f: Gate) -> None:
    for p in (0.25, 0.8):
        gone = 1 - dropped(f, p, 200, 200)[0].double().mean().item()
        if abs(gone - p) > 0.015:  # 7 standard deviations
            raise Unmet(f"for p = {p} a share of {gone:.2f} is set to 0")


def _own_coins(f: Gate) -> None:
    kept = dropped(f, 0.5, 60, 60)[0].double()
    for axis, name in ((1, "row"), (0, "column")):
        if kept.mean(axis).std() > 0.2:
            raise Unmet(f"in a table of 60 × 60 at p = 0.5 whole {name}s stay or go together")


def _new_coins(f: Gate) -> None:
    first, second, third = (dropped(f, 0.5, 30, 30)[0] for _ in range(3))
    if first.equal(second):
        raise Unmet("two calls drop the same numbers, where each call draws anew")
    if first.sum() == second.sum() == third.sum():
        raise Unmet("three calls drop equally many numbers, which coins of their own would not")


def _evaluation(f: Gate) -> None:
    x = draw(5, 7)
    for p in (0.3, 0.9):
        close(run(lambda x, p=p: f(x, p, False), x, like=x), x, f"in evaluation, at p = {p}, the output")


def _shapes(f: Gate) -> None:
    for shape in ((400,), (3, 4, 5), (2, 3, 4, 5)):
        x = draw(*shape)
        close(run(lambda x: f(x, 0.0, True), x, like=x), x, f"at p = 0 and shape {shape} the output")
        dropped(f, 0.5, *shape)


def _slope(f: Gate) -> None:
    x = (draw(20, 30).abs() + 1).requires_grad_()
    y = run(lambda x: f(x, 0.5, True), x, like=x)
    if not y.requires_grad:
        raise Broken("no gradient reaches x")
    (gradient,) = torch.autograd.grad(y.sum(), x)
    close(gradient, (y / x).detach(), "the gradient of x")


def _what_it_does(f: Gate) -> list[Any]:
    x = torch.ones(80, 80, dtype=torch.float64)
    first, calm = f(x.clone(), 0.25, True), f(x.clone(), 0.25, False)
    kept = (first != 0).double()
    numbers = (kept.mean(), first.max(), calm.min(), calm.max(), kept.mean(0).std(), kept.mean(1).std())
    return [round(float(number), 1) for number in numbers]


DROPOUT = Exercise(
    reference=gate(),
    observe=_what_it_does,
    properties=(
        Property("in evaluation x comes back as it is", _evaluation, (2,)),
        Property("a share of p is set to 0", _rate),
        Property("what stays is divided by 1 - p", _scaled, ()),
        Property("each number has a coin of its own", _own_coins, (2,)),
        Property("each call throws new coins", _new_coins, ()),
        Property("any shape will do, and p = 0 changes nothing", _shapes, (2,)),
        Property("the gradient passes where the number passed", _slope, ()),
    ),
    mistakes=(
        Mistake(gate(size=lambda p: 1), "dropping without scaling", "Compare the mean of many ones before and after."),
        Mistake(
            gate(size=lambda p: 1, calm=lambda p: 1 - p),
            "the correction in evaluation, as in the first papers",
            "Here the correction belongs to training: evaluation returns x.",
        ),
        Mistake(
            gate(lambda x, p: torch.rand(x.shape) < p),
            "coins that are read upside down",
            "Count the zeros for p = 0.25.",
        ),
        Mistake(
            gate(lambda x, p: torch.rand(x.shape[-1:]) >= p),
            "one mask for all rows",
            "Draw as many numbers as x has.",
        ),
    ),
    hints=(
        "Solve (1 - p) * s = 1 for s. When must x come back as it is?",
        "`torch.rand_like(x) >= p` is True where a number stays. A product with True is a product with 1.",
    ),
)

EXERCISES = {"dropout": DROPOUT}
