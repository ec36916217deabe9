"""What exercises on a deep network share: the digits, and building, training and judging what an answer returns."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from residual_edu.datasets import digits
from residual_edu.exercises.exercise import Broken, Unmet
from residual_edu.training import minibatches, train

Answer = Callable[[int], Any]  # maps a depth to a network

SMALLEST = 4096  # numbers that a block must have of its own: one linear layer of 64 by 64


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


def blocks_learn(f: Answer, rate: float) -> None:
    """Raise ``Unmet`` unless each block of the network that ``f`` makes has enough weights of its own that learn."""
    for depth in (8, 24):
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
