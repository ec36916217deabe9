"""Runs of the investigation "Ten labels, one picture": python notebooks/runs/07b.py writes what it reads."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits

OUT = Path(__file__).parents[2] / "residual_course" / "data" / "runs" / "07b_ten_labels.json"
STEPS, RATE, SIZE, ANY = 300, 0.003, 32, 10
data = digits()
pictures, new = 2 * data.train_images[:, None] - 1, 2 * data.test_images[:, None] - 1
labels, truth = data.train_labels, data.test_labels


class ChannelRMS(nn.Module):
    """Divide each channel by its root mean square over the pixels, and subtract nothing."""

    def forward(self, h: Tensor) -> Tensor:
        """Return the channels."""
        return h / (h.square().mean((2, 3), keepdim=True) + 1e-5).sqrt()


class Block(nn.Module):
    """The investigation's block, with the label's vector before its second norm or, with ``after``, behind it."""

    def __init__(self, groups: int = 32, width: int = 32, after: bool = False, norm: Any = None) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, width)
        self.norm2 = norm() if norm else nn.GroupNorm(groups, width)
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.vector, self.after = nn.Linear(width, (1 + after) * width), after

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return x after its branch."""
        h, vector = self.conv1(F.silu(self.norm1(x))), self.vector(F.silu(label))[:, :, None, None]
        if self.after:
            scale, shift = vector.chunk(2, dim=1)
            return x + self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))
        return x + self.conv2(F.silu(self.norm2(h + vector)))


class Completer(nn.Module):
    """Two blocks; ``change`` acts on the labels' vectors."""

    def __init__(self, change: Callable[[Tensor], Tensor] | None = None, width: int = 32, **sizes: Any) -> None:
        super().__init__()
        self.table, self.first = nn.Embedding(ANY + 1, width), nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width=width, **sizes) for _ in range(2))
        self.norm, self.last = nn.GroupNorm(8, width), nn.Conv2d(width, 1, 3, padding=1)
        self.change = change or (lambda vectors: vectors)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return whole pictures."""
        x, vectors = self.first(x), self.change(self.table(label))
        for block in self.blocks:
            x = block(x, vectors)
        return self.last(F.silu(self.norm(x)))


class UNet(nn.Module):
    """Three levels of 32, 64 and 128 channels, with 32 groups everywhere."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (32, 64, 128)
        self.table, self.first = nn.Embedding(ANY + 1, 32), nn.Conv2d(1, 32, 3, padding=1)
        self.maps = nn.ModuleList(nn.Linear(32, size) for size in sizes)
        self.down = nn.ModuleList(Block(width=size) for size in sizes)
        self.up = nn.ModuleList(Block(width=size) for size in sizes[:2])
        pairs = ((32, 64), (64, 128))
        self.shrink = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairs)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs)
        self.norm, self.last = nn.GroupNorm(32, 32), nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return whole pictures."""
        vectors, x, kept = self.table(label), self.first(x), list[Tensor]()
        told = [each(vectors) for each in self.maps]
        for at, block in enumerate(self.down):
            x = block(self.shrink[at - 1](x) if at else x, told[at])
            kept.append(x)
        for at in (1, 0):
            x = self.up[at](kept[at] + self.grow[at](x), told[at])
        return self.last(F.silu(self.norm(x)))


def loss_of(model: nn.Module, x: Tensor, label: Tensor) -> Tensor:
    """Return the mean squared error of the lower halves."""
    half = torch.cat([x[:, :, :4], torch.zeros_like(x[:, :, 4:])], dim=2)
    return (model(half, label) - x)[:, :, 4:].square().mean()


def rms(x: Tensor) -> float:
    """Return the root of the mean square."""
    return x.detach().square().mean().sqrt().item()


def trained(make: Callable[[], Any], seed: int, hidden: float = 0.0, frozen: bool = False) -> tuple[Any, float]:
    """Return a trained network, and the share of its table's gradient in all gradients at the last step."""
    torch.manual_seed(seed)
    model, generator = make(), torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam([p for n, p in model.named_parameters() if not (frozen and "table" in n)], RATE, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, total_steps=STEPS)
    for _ in range(STEPS):
        rows = torch.randint(len(pictures), (SIZE,), generator=generator)
        hide = torch.rand(SIZE, generator=generator) < hidden
        model.zero_grad()
        loss_of(model, pictures[rows], labels[rows].masked_fill(hide, ANY)).backward()
        adam.step()
        schedule.step()
    grads = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None])
    own = model.table.weight.grad
    return model, 0.0 if own is None else (own.norm() / grads.norm()).item()


@torch.no_grad()
def measured(name: str, make: Callable[[], Any], seed: int, **how: Any) -> dict[str, float]:
    """Return the test loss, what a wrong label adds, the table's gradient, and how far the table has moved."""
    torch.manual_seed(seed)
    start = make().table.weight.clone()
    with torch.enable_grad():
        model, gradient = trained(make, seed, **how)
    right = loss_of(model, new, truth).item()
    wrong = sum(loss_of(model, new, (truth + k) % 10).item() for k in range(1, 10)) / 9
    found = {"loss": right, "adds": wrong - right, "gradient": gradient}
    found["moved"] = rms(model.table.weight - start) / rms(start)
    if isinstance(model, UNet):
        for at, size in enumerate((32, 64, 128)):
            blocks = [*model.down[at : at + 1], *model.up[at : at + 1]]
            hooks = [block.vector.register_forward_hook(lambda layer, given, out: 0 * out) for block in blocks]
            found[f"without {size}"] = loss_of(model, new, truth).item() - right
            for each in hooks:
                each.remove()
    return {f"{name}: {key}": float(f"{number:.4g}") for key, number in found.items()}


NETWORKS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    **{f"groups {n}": (partial(Completer, groups=n), {}) for n in (32, 16, 8, 1)},
    "64 channels": (partial(Completer, width=64), {}),
    "rms of a channel": (partial(Completer, norm=ChannelRMS), {}),
    "scale and shift": (partial(Completer, after=True), {}),
    "no label, 8": (partial(Completer, torch.zeros_like, groups=8), {}),
    "detached": (partial(Completer, torch.Tensor.detach, groups=8), {}),
    "forgotten": (partial(Completer, groups=8), {"frozen": True}),
    "faint": (partial(Completer, lambda vectors: vectors / 100, groups=8), {}),
    "hidden": (partial(Completer, groups=8), {"hidden": 0.95}),
    "U-Net": (UNet, {}),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    runs: dict[str, dict[str, float]] = {str(seed): {} for seed in range(3)}
    for name, (make, how) in NETWORKS.items():
        for seed in range(3):
            runs[str(seed)] |= measured(name, make, seed, **how)
        print(name, *[f"{runs[seed][f'{name}: loss']} {runs[seed][f'{name}: adds']}" for seed in runs], flush=True)
    settings = {"steps": STEPS, "rate": RATE, "torch": torch.__version__}
    OUT.write_text(json.dumps({"settings": settings, "runs": runs}, indent=1) + "\n", encoding="utf-8")
