"""Runs of the investigation of learning rates, minutes long: python notebooks/runs/02.py writes what it reads."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.training import accuracy, minibatches
from residual_edu import layer_norm

OUT = Path(__file__).parents[2] / "residual_course" / "data" / "runs" / "02_learning_rates.json"
SEEDS = 3
data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1) for x in data[::2])
train_y, test_y = data[1::2]

Norm = Callable[[Tensor], Tensor]


class Block(nn.Module):
    """x + f(norm(x))."""

    def __init__(self, norm: Norm) -> None:
        super().__init__()
        self.norm = norm
        self.f = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        return x + self.f(self.norm(x))


class Network(nn.Module):
    """Sixteen blocks with PyTorch's weights and biases of 0, as the investigation has them."""

    def __init__(self, norm: Norm, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.last, self.norm = nn.Linear(64, 32), nn.Linear(32, 10), norm
        self.blocks = nn.Sequential(*[Block(norm) for _ in range(16)])
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return ten scores."""
        return self.last(self.norm(self.blocks(self.first(x))))


def writers(net: Network) -> list[Tensor]:
    """Return W, the weights and biases that write into the stream."""
    layers = [net.first, *(block.f[2] for block in net.blocks)]
    return [p for layer in layers for p in layer.parameters()]


def length(tensors: list[Tensor]) -> Tensor:
    """Return the length of all tensors as one vector."""
    return torch.cat([t.detach().flatten() for t in tensors]).norm()


@torch.no_grad()
def scale(tensors: list[Tensor], a: Tensor) -> None:
    """Multiply each tensor by ``a``."""
    for t in tensors:
        t.mul_(a)


def share(norm: Norm, rate: float, seed: int, what: str = "W", hold: bool = False, adam: bool = False) -> float:
    """Train for 400 steps; return the share of the test digits that is read, mean of the last 20; 0 for NaN."""
    net = Network(norm, seed)
    moved = writers(net) if what == "W" else list(net.parameters())
    optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(moved, rate)
    first, right = length(moved), []
    for step, (x, y) in zip(range(400), minibatches(train_x, train_y, seed=seed), strict=False):
        loss = F.cross_entropy(net(x), y)
        if not math.isfinite(loss.item()):
            return 0
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if hold:
            scale(moved, first / length(moved))
        if step >= 380:
            right.append(accuracy(net, test_x, test_y))
    return round(sum(right) / len(right), 3)


def nothing(x: Tensor) -> Tensor:
    """Return x."""
    return x


RUNS = {
    f"{name}, rate {rate:g}": (norm, rate, settings)
    for name, norm, rates, settings in (
        ("no norm", nothing, (0.001, 0.01, 0.1, 1, 10, 100), {}),
        ("LayerNorm", layer_norm, (0.001, 0.01, 0.1, 1, 10, 100), {}),
        ("no norm, held", nothing, (0.1, 1, 10), {"hold": True}),
        ("LayerNorm, held", layer_norm, (0.1, 1, 10, 100), {"hold": True}),
        ("all weights, no norm", nothing, (0.01, 0.03, 0.1, 0.3, 1, 3), {"what": "all"}),
        ("all weights, LayerNorm", layer_norm, (0.01, 0.03, 0.1, 0.3, 1, 3), {"what": "all"}),
        ("Adam, no norm", nothing, (0.001, 0.003, 0.01, 0.03, 0.1, 0.3), {"what": "all", "adam": True}),
        ("Adam, LayerNorm", layer_norm, (0.001, 0.003, 0.01, 0.03, 0.1, 0.3), {"what": "all", "adam": True}),
    )
    for rate in rates
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    runs = {}
    for seed in range(SEEDS):
        runs[str(seed)] = {name: share(norm, rate, seed, **more) for name, (norm, rate, more) in RUNS.items()}
        print(seed, runs[str(seed)], flush=True)
    OUT.write_text(json.dumps({"settings": {"within": 0.2}, "runs": runs}, indent=1) + "\n", encoding="utf-8")
