"""Exercise on repairing: a deep stack whose sizes flood, and which does not train when they no longer do."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from residual_course.checking.exercise import Exercise, Mistake
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

ASKED = 0.85  # the share of test digits that must be right
DEPTH, RATE = 64, 0.001
LARGE = 1000.0  # outputs of an untrained network beyond which it floods


def _observe(f: Answer) -> Any:
    """Return in words how large the outputs are, whether the blocks learn, and, where both is well, what is read."""
    blocks = learnt(f, RATE)
    network = built(f, DEPTH)
    with torch.no_grad():
        size = network(pictures()[2]).square().mean().sqrt().item()
    if not size < LARGE or blocks != LEARNERS:
        return ["floods" if not size < LARGE else "holds", blocks]
    taught(network, 0, RATE)
    share = right(network)
    return ["holds", blocks, "reads" if share > ASKED else "reads a part" if share > 0.3 else "reads nothing"]


# Answers of our own


class Parts(nn.Module):
    """A block of the lesson: what ``wiring`` makes of x, a linear layer for the skip, and f."""

    def __init__(self, wiring: Callable[[Tensor, nn.Module, nn.Module], Tensor]) -> None:
        super().__init__()
        self.wiring = wiring
        self.shortcut = nn.Linear(64, 64, bias=False)
        first, second = nn.Linear(64, 128), nn.Linear(128, 64)
        self.f = nn.Sequential(first, nn.ReLU(), second)
        nn.init.kaiming_normal_(self.shortcut.weight, nonlinearity="linear")
        nn.init.kaiming_normal_(first.weight, nonlinearity="linear")
        nn.init.kaiming_normal_(second.weight, nonlinearity="relu")
        for layer in (first, second):
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        return self.wiring(x, self.shortcut, self.f)


Wiring = Callable[[Tensor, nn.Module, nn.Module], Tensor]


def stack(wiring: Wiring) -> Answer:
    """Return an answer whose blocks are wired so."""
    return lambda depth: nn.Sequential(*[Parts(wiring) for _ in range(depth)], nn.Linear(64, 10))


def pre_norm(x: Tensor, shortcut: nn.Module, f: nn.Module) -> Tensor:
    """Return x + f(norm(x))."""
    return x + f(layer_norm(x, (64,)))


def gated(depth: int) -> nn.Module:
    """Return a stack of x + f(x)/√depth."""
    return stack(lambda x, shortcut, f: x + f(x) / depth**0.5)(depth)


REPAIRED_NETWORK = Exercise(
    reference=stack(pre_norm),
    also_right=(gated,),
    observe=_observe,
    effort=20,  # it trains networks of 64 blocks
    properties=properties(RATE, ASKED),
    mistakes=(
        Mistake(
            stack(lambda x, shortcut, f: shortcut(x) + f(x)),
            "a network that still floods",
            "Print the rms of x after 1, 2, 4, 8 blocks, and of what each of the two summands adds to it.",
        ),
        Mistake(
            stack(lambda x, shortcut, f: shortcut(x) + f(layer_norm(x, (64,)))),
            "a network of the right sizes in which most of the difference between digits is lost",
            "Follow what differs between digits along the skips alone, without any f: before, half-way, at the end.",
        ),
        *formal_mistakes(stack(pre_norm), lambda: Parts(pre_norm)),
        Mistake(
            lambda depth: stack(pre_norm)(depth)(torch.zeros(1, 64)),
            "the outputs in the place of the network",
            "Return the network itself; the check trains it.",
        ),
    ),
    hints=(
        "Measure two things along the untrained network: the rms of x, and how far apart two digits are.",
        "Repair the sizes first and train: it is better, and not enough. Then send digits through the shortcuts alone.",
    ),
)

EXERCISES = {"repaired_network": REPAIRED_NETWORK}
