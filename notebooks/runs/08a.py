"""Runs of the investigation "What a head needs to find the digit before": python notebooks/runs/08a.py stores them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import ink_rows
from residual_course.training import minibatches, train

OUT = Path(__file__).parents[2] / "residual_course" / "data" / "runs" / "08a_the_digit_before.json"
SEEDS = 3
CAUSAL = torch.ones(12, 12).tril().bool()
Scores = Callable[[Tensor, Tensor], Tensor]


def divided(q: Tensor, k: Tensor) -> Tensor:
    """Return the scores of the lesson."""
    return q @ k.mT / q.shape[-1] ** 0.5


def rolled(by: int) -> Scores:
    """Return scores of the query with itself, one side rolled."""
    return lambda q, k: divided(q, q.roll(by, dims=-1))


class Head(nn.Module):
    """One head of attention with other scores or another mask."""

    def __init__(self, scores: Scores, width: int = 32, mask: Tensor = CAUSAL) -> None:
        super().__init__()
        self.scores, self.mask = scores, mask
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, h: Tensor) -> Tensor:
        """Return the head's output."""
        weights = self.scores(self.q(h), self.k(h)).masked_fill(~self.mask, -torch.inf).softmax(-1)
        return self.out(weights @ self.v(h))


class Table(Head):
    """A learned score for each pair of places, the same in every row."""

    def __init__(self, width: int = 32) -> None:
        super().__init__(divided, width=width)
        self.table = nn.Parameter(torch.zeros(12, 12))

    def forward(self, h: Tensor) -> Tensor:
        """Return the head's output."""
        return self.out(self.table.masked_fill(~CAUSAL, -torch.inf).softmax(-1) @ self.v(h))


class Twice(nn.Module):
    """Two steps of attention, each with a norm before it and a skip around it."""

    def __init__(self, mask: Tensor = CAUSAL) -> None:
        super().__init__()
        self.first, self.second, self.norm = Head(divided, mask=mask), Head(divided), nn.LayerNorm(32)

    def forward(self, h: Tensor) -> Tensor:
        """Return what both steps add."""
        mixed = self.first(h)
        return mixed + self.second(self.norm(h + mixed))


def two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Return an MLP."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class Network(nn.Module):
    """The lesson's; with one-hots of digit and ink, 40 numbers, nothing is embedded."""

    def __init__(self, mixer: nn.Module, one_hot: bool) -> None:
        super().__init__()
        width = 40 if one_hot else 32
        self.embed = nn.Identity() if one_hot else two_layers(68, 32, 32)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixer, self.mlp = mixer, two_layers(width, 4 * width, width)
        self.answers = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Return (rows, 12, inks)."""
        x = self.embed(x)
        x = x + self.mixer(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.answers(x)


def rows(count: int, seed: int, one_hot: bool, up: int, *, test: bool) -> tuple[Tensor, Tensor]:
    """Return rows, as pictures or as one-hots, and the answers."""
    x, answers, digits = ink_rows(count, torch.Generator().manual_seed(seed), test=test, up=up)
    kinds = F.one_hot(digits, 10)[..., :, None] * x[..., None, 64:]
    return (kinds.flatten(-2) if one_hot else x), answers


def trained(
    mixer: Callable[[], nn.Module], seed: int, *, one_hot: bool = False, up: int = 1, steps: int = 400
) -> Network:
    """Train a network as the lesson does."""
    torch.manual_seed(seed)
    net = Network(mixer(), one_hot)
    adam = torch.optim.Adam(net.parameters())
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, 3e-3, total_steps=steps)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(net(x).mT, y[:, :, 0])

    train(loss, minibatches(*rows(10_000, 0, one_hot, up, test=False), seed=seed), adam, steps, plan)
    return net


@torch.no_grad()
def right(net: nn.Module, one_hot: bool = False, up: int = 1) -> float:
    """Return the share of right answers on 1,000 test rows."""
    x, y = rows(1000, 99, one_hot, up, test=True)
    found, wanted = net(x).argmax(-1), y[:, :, 0]
    return (found == wanted)[wanted >= 0].float().mean().item()


def hidden_first(net: Any, difference: int, only: bool = False) -> float:
    """Return the score with digits so much larger hidden in the first of two steps, or with all others hidden."""
    _, _, digit = ink_rows(1000, torch.Generator().manual_seed(99), test=True)
    hide = (digit[:, None, :] - digit[:, :, None] - difference) % 10 == 0
    first = net.mixer.first
    first.mask = CAUSAL & (~(hide ^ only) | torch.eye(12).bool())
    found = right(net)
    first.mask = CAUSAL
    return found


EVEN, ONE, TWO = (partial(Head, s) for s in (lambda q, k: 0 * divided(q, k), lambda q, k: divided(q, q), divided))
ALL = torch.ones(12, 12).bool()
HOT = {"one_hot": True}
JOBS: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "mean": (EVEN, {}),
    "mean, one-hot": (partial(EVEN, width=40), HOT),
    "table, one-hot": (partial(Table, 40), HOT | {"steps": 2000}),
    "one map": (ONE, {}),
    "one map, 2,000 steps": (ONE, {"steps": 2000}),
    "rolled by 13": (partial(Head, rolled(13)), {}),
    "rolled by 16": (partial(Head, rolled(16)), {}),
    "two maps": (TWO, {}),
    "two maps, 2,000 steps": (TWO, {"steps": 2000}),
    "same digit: mean": (EVEN, {"up": 0}),
    "same digit: one map": (ONE, {"up": 0}),
    "same digit: two maps": (TWO, {"up": 0}),
    "two steps": (Twice, {"steps": 2000}),
    "two steps, first not causal": (partial(Twice, ALL), {"steps": 2000}),
}


def runs(seed: int) -> dict[str, float]:
    """Return the shares of all networks."""
    found = {}
    for name, (mixer, how) in JOBS.items():
        net = trained(mixer, seed, **how)
        found[name] = right(net, how.get("one_hot", False), how.get("up", 1))
        if name == "two steps":
            found |= {f"{name}, {n:+d} hidden": hidden_first(net, n) for n in range(-3, 4)}
            found[f"{name}, +0 alone"] = hidden_first(net, 0, only=True)
    return {name: round(share, 3) for name, share in found.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    stored = {}
    for seed in range(SEEDS):
        stored[str(seed)] = runs(seed)
        print(seed, stored[str(seed)], flush=True)
    OUT.write_text(json.dumps({"settings": {"within": 0.15}, "runs": stored}, indent=1) + "\n", encoding="utf-8")
