"""Runs of the investigation "Which property of the coins?", minutes long: python notebooks/runs/03.py writes them."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.training import accuracy

OUT = Path(__file__).parents[2] / "residual_course" / "data" / "runs" / "03_which_property.json"
SEEDS = 3
Settings = list[dict[str, Any]]
Build = Callable[[], nn.Sequential]
Task = tuple[Tensor, Tensor]


def labelled(seed: int, redrawn: float = 0.3) -> list[Tensor]:
    """Return images, given labels and true labels of 300 digits, then images and labels to test on."""
    data = digits(seed, test=1497)
    generator = torch.Generator().manual_seed(100 + seed)
    chosen = torch.rand(300, generator=generator) < redrawn
    given = torch.where(chosen, torch.randint(10, (300,), generator=generator), data.train_labels)
    test = data.test_images.flatten(1), data.test_labels
    return [data.train_images.flatten(1), given, data.train_labels, *test]


class OwnMasks(nn.Module):
    """Dropout of 0.7 with a mask for each of 300 digits, drawn once; ``rows`` says which digits these are."""

    rows: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.kept: Tensor | None = None

    def forward(self, h: Tensor) -> Tensor:
        """Return what is left."""
        if not self.training:
            return h
        if self.kept is None:
            self.kept = torch.rand(300, h.shape[-1]) >= 0.7
        return h * self.kept[OwnMasks.rows] / (1 - 0.7)


def plain(gate: Callable[[], nn.Module]) -> nn.Sequential:
    """Return two hidden layers, each with a gate."""
    first = nn.Linear(64, 256), nn.ReLU(), gate()
    return nn.Sequential(*first, nn.Linear(256, 256), nn.ReLU(), gate(), nn.Linear(256, 10))


class Coin(nn.Module):
    """Dropout with one coin for all features of a sample, or of the batch."""

    def __init__(self, p: float, shape: str) -> None:
        super().__init__()
        self.p, self.shape = p, shape

    def forward(self, h: Tensor) -> Tensor:
        """Return what is left."""
        if not self.training or self.p == 0:
            return h
        shape = (len(h), 1) if self.shape == "sample" else (1, 1)
        return h * (torch.rand(shape) >= self.p) / (1 - self.p)


class Block(nn.Module):
    """x + f(norm(x)), with gates on f's input, inside, on its output, on the sum."""

    def __init__(
        self,
        width: int,
        inputs: float = 0,
        inside: float = 0,
        outputs: float = 0,
        stream: float = 0,
        gate: Callable[[float], nn.Module] = nn.Dropout,
    ) -> None:
        super().__init__()
        before = nn.LayerNorm(width), gate(inputs), nn.Linear(width, 2 * width)
        self.f = nn.Sequential(*before, nn.ReLU(), gate(inside), nn.Linear(2 * width, width), gate(outputs))
        self.stream, self.removed = gate(stream), False

    def forward(self, x: Tensor) -> Tensor:
        """Return the stream after the block."""
        return x if self.removed else self.stream(x + self.f(x))


def residual(settings: Settings, start: float = 0.0, width: int = 128) -> nn.Sequential:
    """Return a network with a block for each of ``settings``."""
    blocks = [Block(width, **one) for one in settings]
    first = nn.Linear(64, width), nn.Dropout(start)
    return nn.Sequential(*first, *blocks, nn.LayerNorm(width), nn.Linear(width, 10))


def fit(build: Build, task: Task, seed: int, steps: int, rate: float = 1e-3) -> Iterable[nn.Sequential]:
    """Train a network, and yield it after each step."""
    x, y = task
    torch.manual_seed(seed)
    network = build()
    adam = torch.optim.AdamW(network.parameters(), rate, weight_decay=0.0)
    for _ in range(steps):
        rows = OwnMasks.rows = torch.randint(len(y), (50,))
        loss = F.cross_entropy(network(x[rows]), y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        yield network


@torch.no_grad()
def shares(network: nn.Module, data: list[Tensor]) -> tuple[float, float]:
    """Return what is right of the test digits, and which share of the wrong labels the network returns."""
    x, given, true, test_x, test_y = data
    network.eval()
    right, returned = network(test_x).argmax(1) == test_y, network(x).argmax(1) == given
    network.train()
    wrong = given != true
    return right.float().mean().item(), returned[wrong].float().mean().item() if wrong.any() else 0.0


def somewhere(where: str, p: float, places: Iterable[int] = range(4)) -> Settings:
    """Return settings of four blocks, with a rate at some of them."""
    return [{where: p if place in places else 0.0} for place in range(4)]


NONE = somewhere("inputs", 0)
FOUR: dict[str, tuple[Any, ...]] = {"no dropout": (NONE,), "branch inputs, 0.7": (somewhere("inputs", 0.7),)}
FOUR |= {f"branch outputs, {p}": (somewhere("outputs", p),) for p in (0.7, 0.9)}
for clean in range(4):
    rest = somewhere("inputs", 0.7, {0, 1, 2, 3} - {clean})
    FOUR[f"branch inputs, 0.7, but block {clean + 1}"] = (rest,)
FOUR |= {"inside branches, 0.7": (somewhere("inside", 0.7),), "once, at the start, 0.7": (NONE, 0.7)}
FOUR["branch inputs, 0.7, block 1 alone"] = (somewhere("inputs", 0.7, [0]),)
FOUR["input of branch 1, and outputs"] = ([one | {"outputs": 0.7} for one in somewhere("inputs", 0.7, [0])],)

DEEP: dict[str, dict[str, Any]] = {"no dropout": {}, "no dropout, rate 0.003": {}}
DEEP |= {"a coin a unit": {"outputs": 0.5}, "a coin a unit, on inputs": {"inputs": 0.5}}
DEEP["a coin a sample"] = {"outputs": 0.5, "gate": partial(Coin, shape="sample")}


def deep(name: str, seed: int) -> dict[str, float]:
    """Train 24 blocks on 1,437 digits; return the test share, and without 12 blocks."""
    x, y, test_x, test_y = digits()
    x, test_x = x.flatten(1), test_x.flatten(1)
    build = partial(residual, [DEEP[name]] * 24, width=64)
    *_, network = fit(build, (x, y), seed, 200, 3e-3 if "rate" in name else 1e-3)
    blocks = [layer for layer in network if isinstance(layer, Block)]
    right, generator = [accuracy(network, test_x, test_y)], torch.Generator().manual_seed(seed)
    for _ in range(5):
        for place in torch.randperm(22, generator=generator)[:12].tolist():
            blocks[1 + place].removed = True
        right.append(accuracy(network, test_x, test_y))
        for block in blocks:
            block.removed = False
    return {f"24, {name}: test": right[0], f"24, {name}: without 12": sum(right[1:]) / 5}


def runs(seed: int) -> dict[str, float]:
    """Return all numbers of one seed."""
    found: dict[str, float] = {}
    for kind, redrawn in (("wrong labels", 0.3), ("right labels", 0.0)):
        gates: dict[str, Callable[[], nn.Module]] = {f"p = {p}": partial(nn.Dropout, p) for p in (0, 0.5, 0.7)}
        for name, gate in (gates | {"own masks": OwnMasks}).items():
            data = labelled(seed, redrawn)
            *_, network = fit(partial(plain, gate), (data[0], data[1]), seed, 600)
            test, wrong = shares(network, data)
            found |= {f"{kind}, {name}: test": test, f"{kind}, {name}: wrong": wrong}
    data = labelled(seed)
    for name, settings in FOUR.items():
        for step, network in enumerate(fit(partial(residual, *settings), (data[0], data[1]), seed, 400), 1):
            if step in (200, 400):
                test, wrong = shares(network, data)
                found |= {f"4, {name}: test {step}": test, f"4, {name}: wrong {step}": wrong}
    for name in DEEP:
        found |= deep(name, seed)
    return {name: round(share, 3) for name, share in found.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {str(seed): runs(seed) for seed in range(SEEDS)}
    OUT.write_text(json.dumps({"settings": {"within": 0.15}, "runs": found}, indent=1) + "\n", encoding="utf-8")
