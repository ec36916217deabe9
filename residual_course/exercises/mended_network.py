"""Exercise on mending: a stack with healthy curves; its branches and its weights are too large, its stream is not."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet
from residual_course.exercises.deep_network import (
    LEARNERS,
    Answer,
    built,
    formal_mistakes,
    learnt,
    pictures,
    properties,
    right,
    taught,
)

ASKED = 0.9  # the share of test digits that must be right
DEPTH, RATE = 64, 3e-4
SMALLEST, LARGEST = 0.5, 2.0  # how large the stream may be after a block, before training; the digits have size 1
Wiring = Callable[[Tensor, nn.Module], Tensor]


def _observe(f: Answer) -> Any:
    """Return in words whether the blocks learn, how large what is read is, and how well it is read after training."""
    if (blocks := learnt(f, RATE)) != LEARNERS:
        return ["blocks that do not learn", blocks]
    network = built(f, DEPTH)
    with torch.no_grad():
        spread = network(pictures()[2]).std().item()
    found = sizes(network, DEPTH)
    stream = "shrinks" if min(found) < SMALLEST else "grows" if max(found) > LARGEST else "keeps its size"
    losses = taught(network, 0, RATE)
    share = right(network)
    kind = "reads" if share > ASKED else "is slow" if share > 0.6 else "is stuck" if share > 0.3 else "reads nothing"
    return [kind, "floods" if not spread < 100 else "holds", "falls" if losses[-1] < 1.6 else "stays", stream]


def sizes(network: nn.Module, depth: int) -> list[float]:
    """Return the rms of the stream after each of the first ``depth`` modules of a network, for the test digits.

    Raises:
        Broken: for a network that is no ``nn.Sequential`` of these blocks, a LayerNorm and a head.
    """
    if not isinstance(network, nn.Sequential) or not ends_as_asked(network, depth):
        raise Broken(
            f"it returned {described(network)}, where `nn.Sequential(*blocks, nn.LayerNorm(64), nn.Linear(64, 10))` "
            f"of {depth} blocks was asked for"
        )
    x, found = pictures()[2].clone(), []
    with torch.no_grad():
        for block in list(network)[:depth]:
            x = block(x)
            found.append(x.square().mean().sqrt().item())
    return found


def ends_as_asked(network: nn.Sequential, depth: int) -> bool:
    """Whether ``depth`` modules, an nn.LayerNorm and an nn.Linear make a network."""
    return len(network) == depth + 2 and isinstance(network[-2], nn.LayerNorm) and isinstance(network[-1], nn.Linear)


def described(network: nn.Module) -> str:
    """Return in words which module a network is."""
    if not isinstance(network, nn.Sequential):
        return f"a {type(network).__name__}"
    last = " and ".join(f"{type(one).__name__}" for one in list(network)[-2:])
    return f"a Sequential of {len(network)} modules that ends with {last}"


def keeps(f: Answer) -> None:
    """Raise ``Unmet`` unless the stream keeps its size in networks of three depths, before training."""
    for depth, seed in ((8, 0), (24, 1), (DEPTH, 2)):
        found = sizes(built(f, depth, seed), depth)
        if not (min(found) >= SMALLEST and max(found) <= LARGEST):
            raise Unmet(
                f"with {depth} blocks the stream, of rms 1 before the first, has between {min(found):.2g} and "
                f"{max(found):.2g} after them, where {SMALLEST:g} to {LARGEST:g} was asked for"
            )


# Answers of our own


class Scaled(nn.Linear):
    """A layer whose weights have variance 1 and are multiplied by He's standard deviation in each call."""

    def __init__(self, inputs: int, outputs: int, gain: float) -> None:
        super().__init__(inputs, outputs)
        self.factor = (gain / inputs) ** 0.5
        nn.init.normal_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        return linear(x, self.factor * self.weight, self.bias)


def he(inputs: int, outputs: int, gain: float) -> nn.Module:
    """Return a layer with He's weights."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=(gain / inputs) ** 0.5)
    nn.init.zeros_(layer.bias)
    return layer


class Wired(nn.Module):
    """A block: ``wiring`` of x and f, whose two layers ``layer`` makes."""

    def __init__(self, wiring: Wiring, layer: Callable[[int, int, float], nn.Module]) -> None:
        super().__init__()
        self.wiring, self.f = wiring, nn.Sequential(layer(64, 128, 2.0), nn.ReLU(), layer(128, 64, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        """Return the stream after the block."""
        return self.wiring(x, self.f)


def divided(x: Tensor, f: nn.Module) -> Tensor:
    """Return what the network as handed over makes of x."""
    return (x + f(layer_norm(x, (64,)))) / 2**0.5


def pre_norm(x: Tensor, f: nn.Module) -> Tensor:
    """Return x + f(norm(x))."""
    return x + f(layer_norm(x, (64,)))


def kept(x: Tensor, f: nn.Module) -> Tensor:
    """Return x plus an eighth of a branch, divided by the size that the sum then has."""
    return (x + f(layer_norm(x, (64,))) / 8) / (1 + 1 / 64) ** 0.5


def stack(wiring: Wiring, layer: Callable[[int, int, float], nn.Module] = he) -> Answer:
    """Return an answer whose blocks are wired so, from such layers."""
    return lambda depth: nn.Sequential(*[Wired(wiring, layer) for _ in range(depth)], nn.LayerNorm(64), *head())


def head() -> list[nn.Module]:
    """Return the last layer."""
    return [nn.Linear(64, 10)]


MENDED_NETWORK = Exercise(
    reference=stack(kept),
    also_right=(
        stack(lambda x, f: x + f(x) / 8),
        stack(lambda x, f: 0.98 * x + 0.2 * f(layer_norm(x, (64,)))),
        stack(lambda x, f: layer_norm(x + f(x) / 4, (64,))),
    ),
    observe=_observe,
    effort=25,  # it trains networks of 64 blocks
    properties=(
        *properties(RATE, ASKED)[:2],
        Property("before training the stream keeps its size, between 0.5 and 2", keeps),
        *properties(RATE, ASKED)[2:],
    ),
    mistakes=(
        Mistake(
            stack(divided, Scaled),
            "the network as it was handed over",
            "Train a head on the untrained blocks: what can it still tell?",
        ),
        Mistake(
            stack(kept, Scaled),
            "a network that learns, but slowly",
            "How far can 60 steps at this rate move a weight, and how large are the weights that you draw?",
        ),
        Mistake(
            stack(divided),
            "a network whose weights are as they should be, and whose blocks lose the classes",
            "Compare the size of a branch with that of the stream that it joins, in each block.",
        ),
        Mistake(
            stack(pre_norm),
            "a network that learns, and whose stream grows",
            "By which factor does one block change the mean square of the stream? Divide by its root.",
        ),
        *formal_mistakes(stack(kept), lambda: Wired(kept, he)),
    ),
    hints=(
        "Compare the rms of a branch with that of the stream that it joins, here and in the networks that learned.",
        "Once the probe reads 90 %: compare how far 60 steps can move a weight with how large the weights are.",
    ),
)

EXERCISES = {"mended_network": MENDED_NETWORK}
