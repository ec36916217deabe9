"""Runs of the investigation "What guidance costs", minutes long: python notebooks/runs/06.py writes what it reads."""

import json
from pathlib import Path

import torch
from sklearn.svm import SVC
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.training import minibatches, train
from residual_edu.networks.denoiser import Denoiser, denoiser_block, flow_matching_loss, sample

OUT = Path(__file__).parents[2] / "residual_course" / "data" / "runs" / "06_what_guidance_costs.json"
SEEDS = 3
TRAININGS = (50, 0.001), (50, 0.003), (50, 0.01), (400, 0.003)
WEIGHTS = 0, 1, 1.5, 2, 3, 5, 8, 12
data = digits()
pictures, labels, new_digits = 2 * data.train_images - 1, data.train_labels, 2 * data.test_images - 1
start = torch.randn(200, 8, 8, generator=torch.Generator().manual_seed(7))
asked = torch.arange(10).repeat(20)
known, fresh = pictures.flatten(1), new_digits.flatten(1)
judge = SVC().fit(known, labels)


class AddCondition(nn.Module):
    """Add a linear map of the condition to every position."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        """Return the sum."""
        return x + self.linear(F.silu(c))[:, None]


class Untold(nn.Module):
    """A block that receives zeros in the place of its condition."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        """Return what the block makes of x alone."""
        return self.block(x, torch.zeros_like(c))


def blocks(told: bool, gate: float) -> list[nn.Module]:
    """Return lesson 06's twelve blocks, told in every branch or before the first, with gates that start at ``gate``."""
    made = [denoiser_block(64) for _ in range(12)]
    for block in made:
        block.condition_proj[1].bias.data.view(2, 3, 64)[:, 2] = gate
    return list(made) if told else [AddCondition(64), *map(Untold, made)]


def trained(net: Denoiser, seed: int, steps: int, falling: bool, rate: float = 0.003) -> Denoiser:
    """Train at a rate that is constant, or rises to it and falls."""
    generator = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, rate, total_steps=steps) if falling else None

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return flow_matching_loss(net, x, y, generator=generator)

    train(loss, minibatches(pictures, labels, seed=seed), adam, steps, schedule)
    return net


def four(told: bool, gate: float, seed: int, steps: int, rate: float) -> int:
    """Return how many of 200 drawings of one of lesson 06's four networks are recognised."""
    torch.manual_seed(seed)
    net = Denoiser(4, 2, 64, 1, 10)
    net.blocks = nn.ModuleList(blocks(told, gate))
    drawings = sample(trained(net, seed, steps, False, rate), start, asked, steps=10).clamp(-1, 1)
    return int((judge.predict(drawings.flatten(1)) == asked.numpy()).sum())


def between(flat: Tensor, digit: Tensor) -> float:
    """Return the mean distance between two pictures of one digit."""
    return sum(torch.pdist(flat[digit == one]).mean().item() for one in range(10)) / 10


def near(flat: Tensor) -> float:
    """Return the median distance to the nearest training digit."""
    return torch.cdist(flat, known).amin(1).median().item()


def runs(seed: int) -> dict[str, float]:
    """Return the counts of four networks, and near and spread of another by its guidance."""
    names = {(False, 1.0): "added once, gates from 1", (False, 0.0): "added once, gates from 0"}
    names |= {(True, 1.0): "every branch, gates from 1", (True, 0.0): "every branch, gates from 0"}
    out: dict[str, float] = {
        f"{name}, {steps} at {rate:g}": four(told, gate, seed, steps, rate)
        for (told, gate), name in names.items()
        for steps, rate in TRAININGS
    }
    torch.manual_seed(seed)
    net = trained(Denoiser(2, 4, 64, 4, 10), seed, 600, falling=True)
    for weight in WEIGHTS:
        flat = sample(net, start, asked, 10, float(weight)).clamp(-1, 1).flatten(1)
        out[f"near, {weight:g}"] = round(near(flat) / near(fresh), 4)
        out[f"spread, {weight:g}"] = round(between(flat, asked) / between(fresh, data.test_labels), 4)
    return out


if __name__ == "__main__":
    torch.set_num_threads(1)
    settings = "50 or 400 steps at a constant rate, twelve blocks; 600 steps at 0.003, rising and falling, four blocks"
    found = {"settings": settings, "runs": {seed: runs(seed) for seed in range(SEEDS)}}
    OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
