"""Exercise on the gradient of the input: a sum to predict, and a depth to find."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, draw, value_of

# Ten pre-norm connections of width 64, loss = 3 * out.sum(): what does one token's input gradient sum to?


def is_the_sum(f: Callable[[], float]) -> None:
    """Test the number; the message does not give it away."""
    got = value_of(f, float)
    if got != 192:
        raise Unmet(f"{got:g} is not what the gradient sums to; try it on one connection of width 4 first")


INPUT_GRADIENT_SUM = Exercise(
    reference=lambda: 192,
    also_right=(lambda: 192.0, lambda: torch.tensor(192.0)),
    observe=lambda f: value_of(f, float),
    properties=(Property("it is what one token's 64 gradients sum to", is_the_sum),),
    mistakes=(
        Mistake(lambda: 64, "the sum for out.sum()", "This loss is three times as steep."),
        Mistake(
            lambda: 1920,
            "the sum counted once per connection",
            "Shift x by 1: by how much does out move, at any depth?",
        ),
        Mistake(lambda: 640, "features times depth", "The depth does not matter, and the 3 does."),
        Mistake(lambda: 3, "one entry, as if the branches were silent", "Sum over the token's features."),
        Mistake(lambda: 30, "one entry, once per connection", "Sum over features; the depth does not matter."),
        Mistake(
            lambda: 0, "post-norm's answer", "In pre-norm nothing normalises the sum: a shift of x arrives in out."
        ),
        Mistake(
            lambda: 4,
            "the sum of the lesson's tokens, which have four features",
            "This token has 64, and the loss a factor.",
        ),
        Mistake(lambda: 12, "the sum for four features", "This token has 64."),
        Mistake(
            lambda: 3 * 64 * 2**10, "a sum that doubles with each connection", "The sum does not change with depth."
        ),
    ),
    hints=(
        "Add a small c to all 64 features of the token. By how much does each number of out move?",
        "Each of the 64 numbers of out moves by c, at any depth. By how much does the loss move?",
    ),
)


# The depth at which the gradient of a stack without skips passes below 1e-6

Layer = Callable[[Tensor], Tensor]
Finder = Callable[[Sequence[Layer], Tensor], Any]


def input_gradient(layers: Sequence[Layer], x: Tensor) -> Tensor:
    """Return the gradient, at ``x``, of the sum of the last layer's output."""
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(last_output(layers, leaf).sum(), leaf)[0]


def last_output(layers: Sequence[Layer], x: Tensor) -> Tensor:
    """Return the last layer's output."""
    for layer in layers:
        x = layer(x)
    return x


def size(layers: Sequence[Layer], x: Tensor) -> Tensor:
    """Return the largest absolute entry of the gradient."""
    return input_gradient(layers, x).abs().max()


def finder(measure: Callable[[Sequence[Layer], Tensor], Tensor]) -> Finder:
    """Return a search for the first depth at which ``measure`` is below 1e-6, None where there is none."""
    return lambda layers, x: next((d for d in range(1, len(layers) + 1) if measure(layers[:d], x) < 1e-6), None)


def turn(factor: float, seed: int, bias: float = 0.0) -> Layer:
    """Return a layer that rotates x, scales it, and adds a bias."""
    rotation = torch.linalg.qr(draw(4, 4, seed=seed))[0]
    return lambda x: factor * x @ rotation + bias


UNEVEN = torch.tensor([0.01, 0.1, 0.1, 0.1], dtype=torch.float64)
STACKS: dict[str, list[Layer]] = {
    "twelve layers that shrink by 5": [turn(0.2, seed) for seed in range(12)],
    "the same with biases": [turn(0.2, seed, 1.0) for seed in range(12)],
    "layers that shrink and then grow": [turn(factor, 3) for factor in (1e-4, 1e-4, 1e5, 1e5)],
    "layers that grow and then shrink": [turn(factor, 4) for factor in (1e3, 1e-4, 1e-4, 1e-4, 1e-4)],
    "one large layer and two tiny ones": [turn(factor, 6) for factor in (1e3, 1e-7, 1e-7)],
    "layers that shrink one feature faster": [lambda x: x * UNEVEN] * 8,
    "one layer that shrinks by ten million": [turn(1e-7, 5)],
    "three layers that hold their size": [lambda x: -0.999 * x] * 3,
}
TOKENS = draw(3, 4)


def finds(f: Finder, name: str) -> None:
    """Test one stack."""
    got, truth = f(list(STACKS[name]), TOKENS.clone()), finder(size)(STACKS[name], TOKENS)
    if got != truth:
        raise Unmet(f"for {name} it returned {got!r} where {truth!r} is right")


def observe_depths(f: Finder) -> list[str]:
    """Return the depths found as text, since None is one of the right answers."""
    return [str(f(list(layers), TOKENS.clone())) for layers in STACKS.values()]


def accumulated(layers: Sequence[Layer], x: Tensor) -> int | None:
    """Return the depth that is found if ``x.grad`` is never cleared."""
    leaf = x.detach().clone().requires_grad_()
    for depth in range(1, len(layers) + 1):
        last_output(layers[:depth], leaf).sum().backward()
        if leaf.grad is not None and leaf.grad.abs().max() < 1e-6:
            return depth
    return None


def with_skip(layer: Layer) -> Layer:
    """Return the layer with a skip around it."""
    return lambda x: x + layer(x)


DEPTH_TO_FIND = Exercise(
    reference=finder(size),
    observe=observe_depths,
    properties=tuple(Property(f"the depth is right for {name}", partial(finds, name=name)) for name in STACKS),
    mistakes=(
        Mistake(
            lambda layers, x: next((d for d in range(len(layers)) if size(layers[: d + 1], x) < 1e-6), None),
            "an index, which counts from 0",
            "Return how many layers the stack has: one more than the index.",
        ),
        Mistake(
            finder(lambda layers, x: last_output(layers, x).abs().max()),
            "the depth at which the signal fades, not the gradient",
            "Ask autograd for the gradient of the sum with respect to x.",
        ),
        Mistake(
            finder(lambda layers, x: size(list(map(with_skip, layers)), x)),
            "a stack with skips",
            "Leave out the `x +`: here each layer gets the output of the one before, and nothing else.",
        ),
        Mistake(
            finder(lambda layers, x: size(layers[-1:], x)),
            "each layer tried alone",
            "The gradient passes through all of the first layers: `layers[:depth]`, not `layers[depth - 1]`.",
        ),
        Mistake(
            accumulated,
            "gradients of all depths added up in x.grad",
            "Take a fresh copy of x for each depth, or use torch.autograd.grad.",
        ),
        Mistake(
            finder(lambda layers, x: input_gradient(layers, x).max()),
            "a negative gradient taken for a small one",
            "Take the absolute value before the maximum.",
        ),
        Mistake(
            finder(lambda layers, x: input_gradient(layers, x).sum().abs()),
            "a sum in which entries of both signs cancel",
            "Take the largest entry, `.abs().max()`.",
        ),
        Mistake(
            finder(lambda layers, x: input_gradient(layers, x).abs().min()),
            "the smallest entry",
            "Ask for the largest: only when that is below 1e-6 are all of them.",
        ),
        Mistake(
            lambda layers, x: len(layers) if size(layers, x) < 1e-6 else None,
            "the whole stack tried, and no other depth",
            "Try 1 layer, then 2, then 3, and stop at the first that is below.",
        ),
        Mistake(
            lambda layers, x: None,
            "a search that never returns a depth",
            "Is a `return` missing, or its condition never met? Print the size of the gradient at each depth.",
        ),
        Mistake(
            finder(lambda layers, x: 1e-6 - size(layers, x)),
            "the first depth that is above",
            "Turn the comparison around: below is `<`.",
        ),
    ),
    hints=(
        "For one depth: what must be made anew before each measurement?",
        "For each depth from 1 on: a fresh copy of x that requires a gradient, that many layers, its largest size.",
    ),
)

EXERCISES = {"input_gradient_sum": INPUT_GRADIENT_SUM, "depth_to_find": DEPTH_TO_FIND}
