"""Exercise on a recorder: the size of the gradient with respect to the stream after each block."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, unchanged
from residual_course.checking.properties import numbers_of
from residual_course.checking.seen import seen
from residual_course.checking.watches import rms

Answer = Callable[[Sequence[nn.Module], Tensor, Callable[[Tensor], Tensor]], Any]


class Block(nn.Module):
    """x + f(x) for a linear f whose weights depend on ``seed``; counts its calls."""

    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        self.weight, self.calls = nn.Parameter(draw(width, width, seed=seed) * (seed + 1) / width), 0

    def forward(self, x: Tensor) -> Tensor:
        """Return the stream after the block."""
        self.calls += 1
        return x + torch.tanh(x @ self.weight)


def stack(count: int, width: int) -> list[Block]:
    """Return blocks that scale the gradient by different factors."""
    return [Block(width, seed) for seed in range(count)]


def loss(x: Tensor) -> Tensor:
    """Return one number whose gradient differs from entry to entry."""
    return (x * draw(*x.shape, seed=9)).sum() + x.pow(3).mean()


def places(blocks: Sequence[nn.Module], x: Tensor) -> list[Tensor]:
    """Return the stream after each block."""
    found = []
    for block in blocks:
        x = block(x)
        found.append(x)
    return found


def gradients_at(blocks: Sequence[nn.Module], x: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    """Return the gradient with respect to the stream after each block."""
    found = places(blocks, x)
    return torch.autograd.grad(loss(found[-1]), found)


def hooked(blocks: Sequence[nn.Module], x: Tensor, loss: Callable[[Tensor], Tensor]) -> list[float]:
    """Return the sizes by hooks, as the lesson does."""
    sizes: list[float] = []
    for block in blocks:
        x = block(x)
        x.register_hook(lambda gradient: sizes.insert(0, rms(gradient)))
    loss(x).backward()
    return sizes


def kept(blocks: Sequence[nn.Module], x: Tensor, loss: Callable[[Tensor], Tensor]) -> list[float]:
    """Return the sizes by ``retain_grad``."""
    found = places(blocks, x)
    for place in found:
        place.retain_grad()
    loss(found[-1]).backward()
    return [rms(place.grad) for place in found if place.grad is not None]


def numbers(f: Answer, blocks: Sequence[nn.Module], x: Tensor) -> Tensor:
    """Return what ``f`` returns as a tensor of one number a block, or raise for what is none."""
    with unchanged(x=x):
        found = f(blocks, x, loss)
    if x.requires_grad or x.grad is not None:
        raise Broken("it left `requires_grad` or a gradient on `x`")
    found = numbers_of(found)
    if len(found) != len(blocks):
        raise Unmet(f"it returned {len(found)} numbers for {len(blocks)} blocks")
    return found


def is_right(f: Answer, count: int, *shape: int) -> None:
    """Test one depth and one shape against autograd."""
    blocks, x = stack(count, shape[-1]), draw(*shape, seed=5)
    want = torch.tensor([rms(gradient) for gradient in gradients_at(blocks, x, loss)], dtype=torch.float64)
    close(numbers(f, blocks, x), want, "the list of sizes", 1e-5)


def once(f: Answer) -> None:
    """Test that each block is called once."""
    blocks = stack(3, 4)
    f(blocks, draw(5, 4), loss)
    if (calls := [block.calls for block in blocks]) != [1, 1, 1]:
        raise Broken(f"the three blocks were called {', '.join(map(str, calls))} times, where once each is enough")


def by(measure: Callable[[Tensor], Any]) -> Answer:
    """Return an answer that measures each gradient so."""
    return lambda blocks, x, loss: [float(measure(gradient)) for gradient in gradients_at(blocks, x, loss)]


def before_each(blocks: Sequence[nn.Module], x: Tensor, loss: Callable[[Tensor], Tensor]) -> list[float]:
    """Return the sizes before each block."""
    leaf = x.clone().requires_grad_()
    found = [leaf, *places(blocks, leaf)]
    return [rms(gradient) for gradient in torch.autograd.grad(loss(found[-1]), found[:-1])]


def each_alone(blocks: Sequence[nn.Module], x: Tensor, loss: Callable[[Tensor], Tensor]) -> list[float]:
    """Return the gradient of the loss of each place by itself, as if no block came after it."""
    leaves = [place.detach().requires_grad_() for place in places(blocks, x)]
    return [rms(torch.autograd.grad(loss(leaf), leaf)[0]) for leaf in leaves]


STREAM_GRADIENTS = Exercise(
    reference=hooked,
    also_right=(
        kept,
        by(rms),
        lambda blocks, x, loss: torch.tensor([rms(gradient) for gradient in gradients_at(blocks, x, loss)]),
    ),
    observe=lambda f: seen(
        lambda: list(f(stack(3, 4), draw(5, 4), loss)), lambda: list(f(stack(2, 3), draw(6, 3), loss))
    ),
    properties=(
        Property("one number for each block, the first block's first", lambda f: is_right(f, 4, 5, 3)),
        Property("the root mean square, whatever the shape of x", lambda f: is_right(f, 2, 7, 2, 4)),
        Property("one block alone", lambda f: is_right(f, 1, 3, 4)),
        Property("each block is called once", once, hints=()),
    ),
    mistakes=(
        Mistake(
            lambda blocks, x, loss: hooked(blocks, x, loss)[::-1],
            "a list that begins with the last block",
            "The gradient reaches the last block first: which end of the list does a new number belong to?",
        ),
        Mistake(
            lambda blocks, x, loss: [rms(place) for place in places(blocks, x)],
            "the signal",
            "A hook is called with the gradient; measure what it is called with.",
        ),
        Mistake(by(Tensor.norm), "norms, which grow with the batch", "Take the mean of the squares, then the root."),
        Mistake(by(lambda g: g.square().mean()), "mean squares without the root", "Take the root after the mean."),
        Mistake(by(lambda g: g.abs().mean()), "means of sizes", "Square, average, take the root."),
        Mistake(by(lambda g: g.mean()), "means, in which signs cancel", "Square before you average."),
        Mistake(
            before_each,
            "the gradients before each block",
            "Leave the hook on what the block returns, not on what it receives.",
        ),
        Mistake(
            each_alone,
            "the loss of each place by itself",
            "Send x through all blocks, and call `backward()` once, at the end.",
        ),
        Mistake(
            lambda blocks, x, loss: hooked(blocks, x, loss)[-1:],
            "the last place alone",
            "Leave a hook at every place, inside the loop.",
        ),
    ),
    hints=(
        "A hook can be left on a tensor that a block has just returned. When is it called, and with what?",
        "Hooks are called from the last place to the first. So a new number goes to the front of the list.",
    ),
)

EXERCISES = {"stream_gradients": STREAM_GRADIENTS}
