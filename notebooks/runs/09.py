"""What the investigation of lesson 09 reads: python notebooks/runs/09.py writes it, in about four minutes."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import font_letters
from residual_edu.parts.position import rotary_angles

DATA = Path(__file__).parents[2] / "residual_course" / "data" / "runs" / "09_seven_changes.json"
STEPS, RATE = 300, 2e-3
VIT: dict[str, Any] = {"gamma": None, "norm": nn.LayerNorm, "table": 0.02, "rotary": 0}
VIT |= {"registers": 0, "turned": 0, "qk_norm": False, "bias": True}
CHANGES: dict[str, dict[str, Any]] = {
    "LayerScale": {"gamma": 1e-4},
    "RMSNorm": {"norm": nn.RMSNorm},
    "rotary": {"rotary": 1},
    "registers": {"registers": 4},
    "their rotation": {"turned": 1},
    "QK-norm": {"qk_norm": True},
    "no bias": {"bias": False},
}
VIT5 = VIT | {key: value for change in CHANGES.values() for key, value in change.items()}

train_x, train_y = font_letters(40_000, 0)
test_x, test_y = font_letters(1_000, 1)


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the pairs of (..., tokens, 16) by (tokens, 8)."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)


class Block(nn.Module):
    """Attention and an MLP; ``c`` says of what kind."""

    def __init__(self, c: dict[str, Any], width: int = 48) -> None:
        super().__init__()
        self.norm1, self.norm2 = (c["norm"](width, eps=1e-6) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=c["bias"]), nn.Linear(width, width)
        norm = partial(nn.RMSNorm, 16, 1e-6) if c["qk_norm"] else nn.Identity
        self.q_norm, self.k_norm = norm(), norm()
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.gamma = nn.Parameter(torch.full((2, width), c["gamma"] or 1.0), c["gamma"] is not None)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """Return x with both branches added."""
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 3, 16)).permute(2, 0, 3, 1, 4)
        q, k = turn(self.q_norm(q), angles), turn(self.k_norm(k), angles)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.gamma[0] * self.out(y)
        return x + self.gamma[1] * self.mlp(self.norm2(x))


class ViT(nn.Module):
    """CLS, 16 patches and registers through four blocks."""

    def __init__(self, c: dict[str, Any], width: int = 48) -> None:
        super().__init__()
        self.embed, self.head = nn.Conv2d(1, width, 4, 4), nn.Linear(width, 10)
        self.table = nn.Parameter(c["table"] * torch.randn(1, 16, width))
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.registers = nn.Parameter(0.02 * torch.randn(1, c["registers"], width))
        patches, square = c["rotary"] * rotary_angles((4, 4), 16), c["turned"] * rotary_angles((2, 2), 16, base=100.0)
        self.angles = torch.cat([torch.zeros(1, 8), patches, square[: c["registers"]]]).float()
        self.blocks = nn.ModuleList(Block(c) for _ in range(4))
        self.norm = c["norm"](width, eps=1e-6)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.5 / width**0.5)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return ten scores for each picture."""
        patches = self.embed(x).flatten(2).mT + self.table
        cls, registers = (t.expand(len(x), -1, -1) for t in (self.cls, self.registers))
        x = torch.cat([cls, patches, registers], dim=1)
        for block in self.blocks:
            x = block(x, self.angles)
        return self.head(self.norm(x[:, 0]))


def run(c: dict[str, Any], seed: int) -> float:
    """Train; return the loss on new letters."""
    torch.manual_seed(seed)
    net = ViT(c)
    adam = torch.optim.AdamW(net.parameters(), RATE, weight_decay=0.05)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, STEPS, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        rows = torch.randint(len(train_x), (32,), generator=generator)
        adam.zero_grad()
        F.cross_entropy(net(train_x[rows]), train_y[rows]).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()
        plan.step()
    with torch.no_grad():
        return round(F.cross_entropy(net(test_x), test_y).item(), 4)


JOBS: dict[str, dict[str, Any]] = {"ViT": VIT, "ViT-5": VIT5}
JOBS |= {f"without {name}": VIT5 | {key: VIT[key] for key in change} for name, change in CHANGES.items()}
JOBS |= {f"{name} alone": VIT | CHANGES[name] for name in ("LayerScale", "rotary", "QK-norm")}
JOBS |= {"table from 0.3": VIT | {"table": 0.3}, "ViT-5, table from 0.3": VIT5 | {"table": 0.3}}

if __name__ == "__main__":
    torch.set_num_threads(1)
    runs: dict[str, dict[str, float]] = {}
    for seed in range(3):
        runs[str(seed)] = {name: run(c, seed) for name, c in JOBS.items()}
        print(seed, runs[str(seed)], flush=True)
    DATA.write_text(json.dumps({"settings": {"steps": STEPS, "rate": RATE}, "runs": runs}, indent=1) + "\n")
