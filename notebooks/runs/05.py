"""What the investigation of lesson 05 reads: python notebooks/runs/05.py writes it, in about ten minutes."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.training import accuracy, minibatches, train
from residual_edu import SimpleFeedForward

DATA = Path(__file__).parents[2] / "residual_course" / "data" / "runs"
STEPS, RATE = 30, 0.001
DEPTHS = {"skip": 192, "post": 128, "pre": 192}

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1) for x in data[::2])
train_y, test_y = data[1::2]


class Block(nn.Module):
    """A branch with or without a gate, and its norm, if any, before the branch or after the sum."""

    def __init__(self, place: str, gate: float | None, width: int, learned: bool) -> None:
        super().__init__()
        self.place, self.f = place, SimpleFeedForward(64, 128)
        self.gate: Any = 1.0 if gate is None else nn.Parameter(torch.full((width,), float(gate)), learned)

    def forward(self, x: Tensor) -> Tensor:
        """Return x after the block."""
        y = x + self.gate * self.f(F.layer_norm(x, (64,)) if self.place == "pre" else x)
        return F.layer_norm(y, (64,)) if self.place == "post" else y


def run(
    place: str,
    seed: int,
    gate: float | None = None,
    learned: bool = True,
    width: int = 64,
    last: float = 1,
    steps: int = STEPS,
    rate: float = RATE,
    warm: int = 0,
    **times: float,
) -> tuple[float, float]:
    """Train; return the share read and the mean loss of the last ten steps. ``times`` multiply rates by a name."""
    torch.manual_seed(seed)
    blocks = [Block(place, gate, width, learned) for _ in range(DEPTHS[place])]
    net = nn.Sequential(*blocks, nn.Linear(64, 10))
    for block in blocks:
        for parameter in block.f.linear2.parameters():
            parameter.data *= last
    groups: dict[float, list[Tensor]] = {}
    for name, parameter in net.named_parameters():
        factor = next((by for part, by in times.items() if part in name), 1.0)
        if parameter.requires_grad:
            groups.setdefault(rate * factor, []).append(parameter)
    adam = torch.optim.Adam([{"params": group, "lr": lr} for lr, group in groups.items()], fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(adam, 1 / warm, total_iters=warm) if warm else None
    batches = minibatches(train_x, train_y, seed=seed)
    losses = train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps, schedule)
    return round(accuracy(net, test_x, test_y), 3), float(f"{sum(losses[-10:]) / 10:.3g}")


BOTH: dict[str, dict[str, Any]] = {
    "no gate": {},
    "start / 10": {"last": 0.1},
    "start / 100": {"last": 0.01},
    "steps / 10": {"f.": 0.1},
    "steps / 100": {"f.": 0.01},
    "V's steps / 10": {"linear2": 0.1},
    "V's steps / 100": {"linear2": 0.01},
    "fixed at 0.1": {"gate": 0.1, "learned": False},
    "fixed at 0.01": {"gate": 0.01, "learned": False},
    "fixed at 0.0001": {"gate": 0.0001, "learned": False},
    "learned from 1": {"gate": 1.0},
    "learned from 0.1": {"gate": 0.1},
    "learned from 0.01": {"gate": 0.01},
    "learned from 0.0001": {"gate": 0.0001},
    "learned from 0": {"gate": 0.0},
    "ReZero": {"gate": 0.0, "width": 1},
    "no gate, rate 0.0003": {"rate": 0.0003},
    "no gate, rate 0.0001": {"rate": 0.0001},
    "no gate, warm-up": {"warm": 15},
    "no gate, 200 steps": {"steps": 200},
    "learned from 0.0001, 200 steps": {"gate": 0.0001, "steps": 200},
}
PRE = ("no gate", "learned from 0.1", "learned from 0.0001")

if __name__ == "__main__":
    runs: dict[str, dict[str, Any]] = {str(seed): {} for seed in range(3)}
    for place in DEPTHS:
        for name in BOTH if place != "pre" else PRE:
            for seed in range(3):
                share, loss = run(place, seed, **BOTH[name])
                runs[str(seed)] |= {f"{place}, {name}": share, f"{place}, {name}: loss": loss}
            print(f"{place}, {name}", *[runs[seed][f"{place}, {name}"] for seed in runs], flush=True)
    settings = {"steps": STEPS, "rate": RATE, "depths": DEPTHS, "torch": torch.__version__}
    text = json.dumps({"settings": settings, "runs": runs}, indent=1, ensure_ascii=False)
    (DATA / "05_start_or_steps.json").write_text(text + "\n", encoding="utf-8")
