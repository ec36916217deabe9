"""What exercises on a deep network share: the digits, and building, training and judging what an answer returns."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from residual_course.checking.exercise import Broken, Mistake, Property, Unmet
from residual_course.datasets import digits
from residual_course.training import minibatches, train

Answer = Callable[[int], Any]  # maps a depth to a network

SMALLEST = 4096  # numbers that a block must have of its own: one linear layer of 64 by 64
LEARNERS = [8, 24]  # depths at which the weights that learn are counted


@cache
def pictures() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return images (n, 64), of mean 0 and size 1, and labels to train on and to test on."""
    train_x, train_y, test_x, test_y = digits()
    mean, spread = train_x.mean(), train_x.std()
    return ((train_x - mean) / spread).flatten(1), train_y, ((test_x - mean) / spread).flatten(1), test_y


def built(f: Answer, depth: int, seed: int = 0) -> nn.Module:
    """Return the network of ``depth`` blocks that ``f`` makes, or raise ``Unmet`` for what is none."""
    torch.manual_seed(seed)
    network = f(depth)
    if network is None:
        raise Broken("it returned nothing (is a `return` missing?), where an nn.Module was asked for")
    if not isinstance(network, nn.Module):
        raise Unmet(f"it returned a {type(network).__name__}, where one nn.Module was asked for")
    shape = tuple(network(pictures()[0][:5].clone()).shape)
    if shape != (5, 10):
        raise Unmet(f"the outputs for 5 images are {shape}, where (5, 10) was asked for")
    return network


def taught(network: nn.Module, seed: int, rate: float, steps: int = 60) -> list[float]:
    """Train a network with Adam on batches of 64 digits, and return its losses."""
    x, y, _, _ = pictures()
    adam = torch.optim.Adam(network.parameters(), rate)
    return train(lambda x, y: cross_entropy(network(x), y), minibatches(x, y, seed=seed), adam, steps=steps)


def right(network: nn.Module) -> float:
    """Return the share of test digits that a network classifies rightly."""
    _, _, x, y = pictures()
    with torch.no_grad():
        return (network.eval()(x).argmax(-1) == y).float().mean().item()


def learning(f: Answer, depth: int, rate: float) -> int:
    """Return how many of a network's numbers stand in tensors that four steps of training change."""
    network = built(f, depth)
    before = [p.detach().clone() for p in network.parameters()]
    taught(network, 0, rate, steps=4)
    return sum(p.numel() for p, old in zip(network.parameters(), before, strict=True) if not p.equal(old))


def learnt(f: Answer, rate: float) -> list[int]:
    """Return how many blocks' weights learn in networks of ``LEARNERS`` blocks: as many, where all is well."""
    return [min(learning(f, depth, rate) // SMALLEST, depth) for depth in LEARNERS]


def blocks_learn(f: Answer, rate: float) -> None:
    """Raise ``Unmet`` unless each block of the network that ``f`` makes has enough weights of its own that learn."""
    for depth in LEARNERS:
        if (found := learning(f, depth, rate)) < SMALLEST * depth:
            raise Unmet(f"of {depth} blocks, {found:,} weights and biases learn; one block of the lesson has 16,576")


def reads(f: Answer, rate: float, asked: float) -> None:
    """Raise ``Unmet`` unless networks of three depths, each with a seed of its own, reach the share ``asked``."""
    for depth, seed in ((24, 0), (48, 1), (64, 2)):
        network = built(f, depth, seed)
        losses = taught(network, seed, rate)
        if (share := right(network)) < asked:
            raise Unmet(
                f"with {depth} blocks and seed {seed} it is {share:.0%}; the loss began at {losses[0]:.2g} and ended "
                f"at {losses[-1]:.2g}"
            )


def properties(rate: float, asked: float) -> tuple[Property, ...]:
    """Return what such a network must have; ``asked`` is the share of test digits that must be right."""
    trains = f"{asked:.0%} of the test digits are right after 60 steps, with three seeds and depths"
    return (
        Property("it returns a network from 64 numbers to 10 outputs", lambda f: (built(f, 3), None)[1]),
        Property("each block has weights of its own that learn", lambda f: blocks_learn(f, rate)),
        Property(trains.replace("%", " %", 1), lambda f: reads(f, rate, asked)),
    )


def formal_mistakes(right: Answer, block: Callable[[], nn.Module]) -> tuple[Mistake, ...]:
    """Return mistakes of any such exercise, made of a right answer (blocks, then what follows them) and its block."""

    def frozen(depth: int) -> nn.Module:
        network = right(depth)
        for one in list(network)[:depth]:
            one.requires_grad_(False)
        return network

    return (
        Mistake(lambda depth: right(4), "a network of the same few blocks for every depth", "Make `depth` blocks."),
        Mistake(
            lambda depth: nn.Sequential(*[block()] * depth, *list(right(1))[1:]),
            "a network whose blocks have no weights of their own",
            "Make a new block for each place, and let x pass all of them.",
        ),
        Mistake(frozen, "a network in which the head alone learns", "Let the weights of the blocks learn too."),
        Mistake(lambda depth: None, "a function without its `return`", "Return the network."),
        Mistake(
            lambda depth: list(right(depth))[:depth],
            "a list of blocks, where a network is asked for",
            "Join the blocks and what follows them in one module, as `as_handed` does.",
        ),
        Mistake(
            lambda depth: right(depth)[:-1],
            "a network without its head",
            "Let a linear layer to 10 outputs come last.",
        ),
    )
