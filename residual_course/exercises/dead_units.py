"""Exercises on dead units: their share, and a rate with which the units of a ReLU network stay alive."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, unchanged
from residual_course.checking.properties import tensor
from residual_course.datasets import digits
from residual_course.training import accuracy, minibatches, train

Measure = Callable[[Tensor], Any]
READ, ALIVE = 0.7, 0.5


def dead(x: Tensor) -> float:
    """Return the share of columns that are 0 throughout."""
    return (x == 0).all(dim=0).float().mean().item()


COLUMNS = draw(7, 5).abs() + 0.1  # five units after a ReLU; two of them are 0 for all seven digits, one nearly
COLUMNS[::2, 0], COLUMNS[:, 1], COLUMNS[1:, 2], COLUMNS[:, 4] = 0, 0, 0, 0
COLUMNS[:, 3] *= 1e-9
ONES, ZEROS = torch.ones(3, 4), torch.zeros(3, 4)


def _share(*cases: tuple[Tensor, float]) -> Callable[[Measure], None]:
    def test(f: Measure) -> None:
        for x, want in cases:
            x = x.clone()
            with unchanged(x=x):
                found = tensor(f(x), "the share is")
            if found.numel() != 1:
                raise Unmet(f"it returned {found.numel()} numbers, where one share was asked for")
            close(found.double().reshape(()), torch.tensor(want).double(), "the share", 1e-5)

    return test


DEAD = Exercise(
    reference=dead,
    observe=lambda f: [f(x.clone()) for x in (COLUMNS, ZEROS, ONES)],
    properties=(
        Property("two of five units", _share((COLUMNS, 0.4))),
        Property("one of three", _share((COLUMNS[:, 2:], 1 / 3))),
        Property("none, and all", _share((ONES, 0.0), (ZEROS, 1.0))),
    ),
    mistakes=(
        Mistake(lambda x: (x == 0).float().mean().item(), "the share of zeros", "Ask of each unit whether all are 0."),
        Mistake(
            lambda x: (x == 0).any(dim=0).float().mean().item(),
            "the share of units that are 0 for some digit",
            "Dead is what is 0 for all digits.",
        ),
        Mistake(
            lambda x: (x == 0).all(dim=1).float().mean().item(),
            "the share of digits for which all units are 0",
            "The digits are axis 0: run over that one.",
        ),
    ),
    hints=(
        "For one unit, a column of x: what holds of all of its numbers?",
        "(x == 0).all(dim=0) has True for each dead unit. What is the mean of that?",
    ),
)

# The network, trained


@cache
def images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the digits as the lesson has them."""
    data = digits()
    mean, std = data.train_images.mean(), data.train_images.std()
    train_x, test_x = (((x - mean) / std).flatten(1) for x in data[::2])
    return train_x, data.train_labels, test_x, data.test_labels


def relu_network() -> nn.Sequential:
    """Return the network that was handed over."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, 64, bias=False) for _ in range(16)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=2**0.5 / 8)
    return nn.Sequential(*[nn.Sequential(layer, nn.ReLU()) for layer in layers], nn.Linear(64, 10))


def mended(
    rate: float = 0.002, steps: int = 100, make: Callable[[], nn.Module] = relu_network, how: Any = torch.optim.Adam
) -> nn.Module:
    """Return the network, trained so."""
    x, y, *_ = images()
    net = make()
    train(lambda x, y: F.cross_entropy(net(x), y), minibatches(x, y, seed=0), how(net.parameters(), lr=rate), steps)
    return net


def returned(f: Callable[[], Any]) -> nn.Sequential:
    """Return the answer's network on the CPU, or raise for what is none."""
    torch.manual_seed(0)
    net = f()
    if not isinstance(net, nn.Module):
        raise Unmet(f"it returned {'None' if net is None else f'a {type(net).__name__}'}; return the network")
    if not isinstance(net, nn.Sequential) or len(net) != 17:
        raise Broken("it returned another network than relu_network() of 16 blocks and a last layer")
    return net.cpu()


@torch.no_grad()
def after_each(net: nn.Sequential) -> list[Tensor]:
    """Return what leaves each block, for the digits."""
    x, found = images()[0], []
    for block in list(net)[:16]:
        x = block(x)
        found.append(x)
    return found


def _has_relus(f: Callable[[], Any]) -> None:
    if not all(F.relu(x).equal(x) for x in after_each(returned(f))):
        raise Unmet("a block returned numbers below 0; keep the ReLU")


def _alive(f: Callable[[], Any]) -> None:
    if (most := max(map(dead, after_each(returned(f))))) >= ALIVE:
        raise Unmet(f"in one block {most:.0%} of the units are dead, where less than half was asked for")


def _reads(f: Callable[[], Any]) -> None:
    if (found := accuracy(returned(f), *images()[2:])) < READ:
        raise Unmet(f"{found:.0%} of the test digits are read, where {READ:.0%} was asked for")


def observe(f: Callable[[], Any]) -> Any:
    """Return in words what became of the network."""
    net = returned(f)
    weight, start = (next(each.parameters()) for each in (net, relu_network()))
    moved = (weight - start).square().mean().sqrt().item() if weight.shape == start.shape else 0
    far = ("not", "hardly", "some", "far")[sum(moved > limit for limit in (0, 0.013, 0.3))]
    return far, "dead" if max(map(dead, after_each(net))) >= ALIVE else "alive"


MENDED_RATE = Exercise(
    reference=mended,
    observe=observe,
    effort=4,
    properties=(
        Property("it is the ReLU network", _has_relus, hints=()),
        Property("most units of every block live", _alive),
        Property("70 % of the digits are read", _reads),
    ),
    mistakes=(
        Mistake(partial(mended, 0.1), "the network as it was handed over", "Make Adam's rate smaller."),
        Mistake(
            partial(mended, 0.01),
            "steps that are still too large",
            "Take a rate of about a hundredth of the weights, or a little less.",
        ),
        Mistake(
            partial(mended, 0.0001),
            "a rate that is too small for 100 steps",
            "Take a rate of about a hundredth of the weights.",
        ),
    ),
    hints=(
        "Which number was left over from SGD?",
        "Divide the rate by how far a step may move a weight: 0.18 / 100 is a good size for it.",
    ),
)

EXERCISES = {"dead": DEAD, "mended_rate": MENDED_RATE}
