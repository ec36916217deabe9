"""Blocks to hand to an answer: any of the three branches, each with weights, and a dropout that halves."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import draw
from residual_edu.blocks import ResidualBlock
from residual_edu.parts import LayerNorm


class Mixer(nn.Module):
    """A mixer: a map of each position plus the mean of all positions."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions of (batch, positions, channels)."""
        return torch.tanh(self.map(x + x.mean(1, keepdim=True)))


class Listener(nn.Module):
    """A condition mixer: scale each channel by a map of the condition."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(4, 4)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Scale the channels of each sample."""
        return x * self.map(condition)[:, None]


class Off(nn.Identity):
    """An Identity that takes further inputs, so that a branch that calls it returns a number and no error."""

    def forward(self, x: Tensor, *_: Tensor | None) -> Tensor:
        """Return ``x``."""
        return x


@cache
def block(*there: str, rate: float = 0.0) -> ResidualBlock:
    """Return a block in float64 with these branches, the same each time; with a ``rate`` its dropout halves."""

    def on(name: str, layer: Any) -> tuple[Any, Any]:
        return (layer, lambda: LayerNorm(4)) if name in there else (Off, nn.Identity)

    made = ResidualBlock(
        *on("sequence_mixer", Mixer),
        *on("condition_mixer", Listener),
        *on("mlp", lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))),
        dropout_cfg=Halve if rate else nn.Identity,
    ).double()
    for seed, p in enumerate(made.parameters()):
        p.data = draw(*p.shape, seed=seed) / 2 + (p.ndim == 1) / 2
    return made


class Halve(nn.Module):
    """Replaces dropout by a fixed factor, so that its place changes the result."""

    def forward(self, x: Tensor) -> Tensor:
        """Return half of ``x``."""
        return x / 2
