"""Exercise on repairing: a deep stack whose sizes flood, and which does not train when they no longer do."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm

from residual_edu.datasets import digits
from residual_edu.exercises.exercise import Broken, Exercise, Mistake, Property, Unmet
from residual_edu.training import minibatches, train

Answer = Callable[[int], Any]

ASKED = 0.85  # the share of test digits that must be right
DEPTH, STEPS = 64, 60
SMALLEST = 4096  # numbers that a block must have of its own: one linear layer of 64 by 64
LARGE = 1000.0  # outputs of an untrained network beyond which it floods


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


def taught(network: nn.Module, seed: int, steps: int = STEPS) -> list[float]:
    """Train a network as the lesson does, and return its losses."""
    x, y, _, _ = pictures()
    adam = torch.optim.Adam(network.parameters(), 0.001)
    return train(lambda x, y: cross_entropy(network(x), y), minibatches(x, y, seed=seed), adam, steps=steps)


def right(network: nn.Module) -> float:
    """Return the share of test digits that a network classifies rightly."""
    _, _, x, y = pictures()
    with torch.no_grad():
        return (network.eval()(x).argmax(-1) == y).float().mean().item()


def learning(f: Answer, depth: int) -> int:
    """Return how many of a network's numbers stand in tensors that four steps of training change."""
    network = built(f, depth)
    before = [p.detach().clone() for p in network.parameters()]
    taught(network, 0, steps=4)
    return sum(p.numel() for p, old in zip(network.parameters(), before, strict=True) if not p.equal(old))


def _outputs(f: Answer) -> None:
    built(f, 3)


def _blocks(f: Answer) -> None:
    for depth in (8, 24):
        if (found := learning(f, depth)) < SMALLEST * depth:
            raise Unmet(f"of {depth} blocks, {found:,} weights and biases learn; one block of the lesson has 16,576")


def _trains(f: Answer) -> None:
    for depth, seed in ((24, 0), (48, 1), (DEPTH, 2)):
        network = built(f, depth, seed)
        losses = taught(network, seed)
        if (share := right(network)) < ASKED:
            raise Unmet(
                f"with {depth} blocks and seed {seed} it is {share:.0%}; the loss began at {losses[0]:.2g} and ended "
                f"at {losses[-1]:.2g}"
            )


def _observe(f: Answer) -> Any:
    """Return in words how large the outputs are, whether the blocks learn, and, where both is well, what is read."""
    enough = [learning(f, depth) >= SMALLEST * depth for depth in (8, 24)]
    network = built(f, DEPTH)
    with torch.no_grad():
        size = network(pictures()[2]).square().mean().sqrt().item()
    if not size < LARGE or not all(enough):
        return ["floods" if not size < LARGE else "holds", enough]
    taught(network, 0)
    share = right(network)
    return ["holds", enough, "reads" if share > ASKED else "reads a part" if share > 0.3 else "reads nothing"]


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


def shared(depth: int) -> nn.Module:
    """Return a stack that repeats one block."""
    return nn.Sequential(*[Parts(pre_norm)] * depth, nn.Linear(64, 10))


REPAIRED_FLOOD = Exercise(
    reference=stack(pre_norm),
    also_right=(gated,),
    observe=_observe,
    effort=20,  # it trains networks of 64 blocks
    properties=(
        Property("it returns a network from 64 numbers to 10 outputs", _outputs),
        Property("each block has weights of its own that learn", _blocks),
        Property("85 % of the test digits are right after 60 steps, with three seeds and depths", _trains),
    ),
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
        Mistake(
            lambda depth: stack(pre_norm)(4),
            "a network of the same few blocks for every depth",
            "Make `depth` blocks.",
        ),
        Mistake(
            shared,
            "a network whose blocks have no weights of their own",
            "Make a new block for each place, and let x pass all of them.",
        ),
        Mistake(
            lambda depth: None,
            "a function without its `return`",
            "Return the network.",
        ),
        Mistake(
            lambda depth: [Parts(pre_norm) for _ in range(depth)],
            "a list of blocks, where a network is asked for",
            "Join blocks and head in one module, as `as_handed` does.",
        ),
        Mistake(
            lambda depth: stack(pre_norm)(depth)[:-1],
            "a network without its head",
            "Let a linear layer to 10 outputs follow the last block.",
        ),
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

EXERCISES = {"repaired_flood": REPAIRED_FLOOD}
