"""Runs of the investigation "Signal or gradient?", minutes long: python notebooks/runs/00.py writes what it reads."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.training import accuracy, minibatches, train
from residual_edu import LayerNormalization, SimpleFeedForward

OUT = Path(__file__).parents[2] / "residual_course" / "data" / "runs" / "00_signal_or_gradient.json"
SEEDS = 3
ROOT18 = 18**0.5
data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1) for x in data[::2])
train_y, test_y = data[1::2]

Wiring = Callable[[Tensor, "Block"], Tensor]


class Block(SimpleFeedForward):
    """A plain block in a wiring: what it makes of x, with He's weights or PyTorch's."""

    def __init__(self, wiring: Wiring, he: bool) -> None:
        super().__init__(64, 128)
        self.norm, self.dropout, self.wiring = LayerNormalization(64), nn.Dropout(0.1), wiring
        if he:
            nn.init.kaiming_normal_(self.linear1.weight, nonlinearity="linear")
            nn.init.kaiming_normal_(self.linear2.weight, nonlinearity="relu")
            nn.init.zeros_(self.linear1.bias), nn.init.zeros_(self.linear2.bias)

    def f(self, x: Tensor) -> Tensor:
        """Return the plain block's output."""
        return super().forward(x)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the wiring makes of x and f."""
        return self.wiring(x, self)


def switched(signal: float, gradient: float) -> Wiring:
    """Return f(x) times ``signal``; what comes back is multiplied by ``gradient``."""

    def wiring(x: Tensor, block: Block) -> Tensor:
        x = signal * block.f(x)
        if x.requires_grad:
            x.register_hook(lambda v: v * gradient / signal)
        return x

    return wiring


def share(wiring: Wiring, seed: int, depth: int = 16, he: bool = False, rate: float = 0.001, steps: int = 100) -> float:
    """Train, and return the share of the test digits that is read."""
    torch.manual_seed(seed)
    net = nn.Sequential(*[Block(wiring, he) for _ in range(depth)], nn.Linear(64, 10))
    adam = torch.optim.Adam(net.parameters(), rate)
    batches = minibatches(train_x, train_y, seed=seed)
    train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps)
    return round(accuracy(net, test_x, test_y), 3)


LONG = {"steps": 1000, "rate": 0.0003}
DEEP = {"depth": 64, "he": True}
RUNS = {
    "neither kept, 1000 steps": (switched(1, 1), LONG),
    "gradient kept, 1000 steps": (switched(1, ROOT18), LONG | {"rate": 0.001}),
    "signal kept, 1000 steps": (switched(ROOT18, 1), LONG),
    "both kept, 1000 steps": (switched(ROOT18, ROOT18), LONG),
    "norm, rate 0.001": (lambda x, b: b.f(b.norm(x)), {"steps": 300}),
    "norm, rate 0.0003": (lambda x, b: b.f(b.norm(x)), {"steps": 300, "rate": 0.0003}),
    "norm and dropout, rate 0.0003": (lambda x, b: b.dropout(b.f(b.norm(x))), {"steps": 300, "rate": 0.0003}),
    "plain, rate 0.0003": (lambda x, b: b.f(x), {"steps": 300, "rate": 0.0003}),
    "16 He, f(x)": (lambda x, b: b.f(x), {"he": True}),
    "64 He, f(x)": (lambda x, b: b.f(x), DEEP),
    "64 He, x + f(x)": (lambda x, b: x + b.f(x), DEEP),
    "64 He, x + f(norm(x))": (lambda x, b: x + b.f(b.norm(x)), DEEP),
    "64 He, x + f(x)/8": (lambda x, b: x + b.f(x) / 8, DEEP),
    "64 PyTorch, x + f(x)": (lambda x, b: x + b.f(x), {"depth": 64}),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    runs = {}
    for seed in range(SEEDS):
        runs[str(seed)] = {name: share(wiring, seed, **settings) for name, (wiring, settings) in RUNS.items()}
        print(seed, runs[str(seed)], flush=True)
    OUT.write_text(json.dumps({"settings": {"within": 0.15}, "runs": runs}, indent=1) + "\n", encoding="utf-8")
