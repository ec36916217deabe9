"""A block with attention whose network ignores its label, for three reasons, the network, and other blocks like it."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits

Place = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]  # of query, key, value and vector

WIDTH = 32


class Handed(nn.Module):
    """The block as it is handed over: a mean over the samples, added to every key, and a norm of single channels."""

    own, groups = False, 0  # what is mended: each sample has its own vector; the last norm has groups of channels

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)
        self.norm3 = nn.GroupNorm(self.groups, width) if self.groups else nn.InstanceNorm2d(width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.qkv, self.vector = nn.Conv2d(width, 3 * width, 1), nn.Linear(width, width)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return x after the branch; ``label`` is (batch, width)."""
        vector = self.vector(F.silu(label))[:, None].mean(1 if self.own else 0, keepdim=True)
        h = self.norm2(self.conv1(F.silu(self.norm1(x))))
        q, k, v = self.qkv(h).flatten(2).mT.chunk(3, dim=-1)
        q, k, v = self.place(q, k, v, vector)
        h = F.scaled_dot_product_attention(q, k, v).mT.unflatten(2, h.shape[2:])
        return x + self.conv2(F.silu(self.norm3(h)))

    def place(self, q: Tensor, k: Tensor, v: Tensor, vector: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value (batch, pixels, width), one of them with the label's vector."""
        return q, k + vector, v


class Completer(nn.Module):
    """Two blocks that complete a digit from its upper half, told its label."""

    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.table, self.first = nn.Embedding(10, WIDTH), nn.Conv2d(1, WIDTH, 3, padding=1)
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.last = nn.GroupNorm(8, WIDTH), nn.Conv2d(WIDTH, 1, 3, padding=1)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return the whole pictures (batch, 1, 8, 8)."""
        x, label = self.first(x), self.table(label)
        for block in self.blocks:
            x = block(x, label)
        return self.last(F.silu(self.norm(x)))


@cache
def data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return pictures (n, 1, 8, 8) from -1 to 1 with their labels, for training and new ones."""
    found = digits()
    return (
        2 * found.train_images[:, None] - 1,
        found.train_labels,
        2 * found.test_images[:, None] - 1,
        found.test_labels,
    )


def loss_of(model: nn.Module, pictures: Tensor, labels: Tensor) -> Tensor:
    """Return the mean squared error of the lower halves."""
    half = torch.cat([pictures[:, :, :4], torch.zeros_like(pictures[:, :, 4:])], dim=2)
    return (model(half, labels) - pictures)[:, :, 4:].square().mean()


class Values(Handed):
    """The label's vector added to every value."""

    def place(self, q: Tensor, k: Tensor, v: Tensor, vector: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value."""
        return q, k, v + vector


class Front(Handed):
    """A second way for the label, in front of the handed block."""

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return x after a vector and the branch."""
        return super().forward(x + self.vector(F.silu(label))[:, :, None, None], label)


class Flat(Values):
    """The right place for the label, and an output whose pixels stand in a row."""

    own, groups = True, 8

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return (batch, width, pixels)."""
        return super().forward(x, label).flatten(2)


def joined(block: type[Handed], own: bool = False, groups: int = 0, place: Place | None = None) -> type[Handed]:
    """Return a block with what else is mended in it, and perhaps another place for the label's vector."""
    placed = {"place": staticmethod(place)} if place else {}
    return type("Joined", (block,), {"own": own, "groups": groups} | placed)
