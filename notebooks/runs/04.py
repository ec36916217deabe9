"""Runs of the investigation "Where the digits went", minutes long: python notebooks/runs/04.py writes what it reads."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.training import accuracy, minibatches, train

OUT = Path(__file__).parents[2] / "residual_course" / "data" / "runs" / "04_where_the_digits_went.json"
SEEDS = 3
data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1) for x in data[::2])
train_y, test_y = data[1::2]


class Block(nn.Module):
    """A block of either placement, whose branch is as large as its input at the start."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place, self.norm = place, nn.LayerNorm(64)
        self.turn: Tensor | None = None
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        nn.init.normal_(self.first.weight, std=math.sqrt(1 / 64))
        nn.init.normal_(self.second.weight, std=math.sqrt(2 / 64))
        nn.init.zeros_(self.first.bias), nn.init.zeros_(self.second.bias)

    def f(self, x: Tensor) -> Tensor:
        """Return the branch's output."""
        out = self.second(F.relu(self.first(x)))
        return out if self.turn is None else out + x @ self.turn

    def forward(self, x: Tensor) -> Tensor:
        """Return x after the block."""
        return x + self.f(self.norm(x)) if self.place == "pre" else self.norm(x + self.f(x))


def build(place: str, seed: int) -> nn.Sequential:
    """Return 48 blocks, the final norm of pre-norm, and a head."""
    torch.manual_seed(seed)
    blocks = [Block(place) for _ in range(48)]
    return nn.Sequential(*blocks, nn.LayerNorm(64) if place == "pre" else nn.Identity(), nn.Linear(64, 10))


def blocks(net: nn.Sequential) -> list[Block]:
    """Return the blocks of a network."""
    return [part for part in net if isinstance(part, Block)]


def taught(net: nn.Sequential, seed: int, rate: float, steps: int) -> nn.Sequential:
    """Train a network with Adam, and return it."""
    adam = torch.optim.Adam(net.parameters(), rate)
    batches = minibatches(train_x, train_y, seed=seed)
    train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps)
    return net


def share(net: nn.Sequential) -> float:
    """Return the share of the test digits that is read."""
    return round(accuracy(net, test_x, test_y), 3)


@torch.no_grad()
def with_vectors(net: nn.Sequential, seed: int, size: float) -> nn.Sequential:
    """Add to each branch's bias a random vector of this size."""
    generator = torch.Generator().manual_seed(100 + seed)
    for block in blocks(net):
        block.second.bias += size * F.layer_norm(torch.randn(64, generator=generator), (64,))
    return net


def with_turns(net: nn.Sequential, seed: int, size: float) -> nn.Sequential:
    """Add to each branch a random rotation of its input, times ``size``."""
    generator = torch.Generator().manual_seed(100 + seed)
    for block in blocks(net):
        block.turn = size * torch.linalg.qr(torch.randn(64, 64, generator=generator))[0]
    return net


@torch.no_grad()
def centred(net: nn.Sequential, seed: int) -> nn.Sequential:
    """Take what all digits share out of each branch, by its bias."""
    x = train_x[:256]
    for block in blocks(net):
        block.second.bias -= block.f(x).mean(0)
        x = block(x)
    return net


@torch.no_grad()
def zeroed(net: nn.Sequential, seed: int) -> nn.Sequential:
    """Set each branch's bias to 0."""
    for block in blocks(net):
        block.second.bias.zero_()
    return net


def same(net: nn.Sequential, seed: int) -> nn.Sequential:
    """Return a network as it is."""
    return net


Change = Callable[[nn.Sequential, int], nn.Sequential]
NEW: dict[str, tuple[str, Change]] = {
    "post": ("post", same),
    "post, vectors of 0.25": ("post", lambda net, seed: with_vectors(net, seed, 0.25)),
    "post, vectors of 2": ("post", lambda net, seed: with_vectors(net, seed, 2)),
    "post, turns of 2": ("post", lambda net, seed: with_turns(net, seed, 2)),
    "pre, vectors of 2": ("pre", lambda net, seed: with_vectors(net, seed, 2)),
}
FAILED: dict[str, Change] = {
    "failed": same,
    "failed, biases set to 0": zeroed,
    "failed, vectors of 1 added": lambda net, seed: with_vectors(net, seed, 1),
    "failed, common part taken out": centred,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    runs = {}
    for seed in range(SEEDS):
        found = {}
        for name, (place, change) in NEW.items():
            found[name] = share(taught(change(build(place, seed), seed), seed, 0.0003, 240))
        failed = taught(build("post", seed), seed, 0.003, 40)
        found["failed, at once"] = share(failed)
        for name, mend in FAILED.items():
            found[name] = share(taught(mend(copy.deepcopy(failed), seed), seed + 9, 0.0003, 400))
        runs[str(seed)] = found
        print(seed, found, flush=True)
    OUT.write_text(json.dumps({"settings": {"within": 0.25}, "runs": runs}, indent=1) + "\n", encoding="utf-8")
