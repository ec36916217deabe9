"""The ViT that lesson 09 hands over to be mended: nothing that it returns depends on where a patch stands."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import font_letters
from residual_edu.parts.position import rotary_angles, rotary_cos_sin, rotate_by

WIDTH, HEADS, DEPTH, SMALL = 48, 3, 4, 0.02


class Attention(nn.Module):
    """Attention with three heads; rotary positions if asked."""

    def __init__(self, rotary: bool) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        angles = torch.cat([torch.zeros(1, 8), rotary_angles((4, 4), 16)]) * rotary
        self.cos_sin = rotary_cos_sin(angles.float())

    def forward(self, x: Tensor) -> Tensor:
        """Mix the tokens of x."""
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q, k = (rotate_by(each, *self.cos_sin) for each in (q, k))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A pre-norm block."""

    def __init__(self, rotary: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = Attention(rotary)
        self.ffn = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Add both branches."""
        x = x + self.attention(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class Handed(nn.Module):
    """The network as it is handed over; its class attributes are what a mend changes."""

    scaled, rows, start, learned, rotary = True, 1, SMALL, False, False

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, WIDTH, 4, 4)
        self.cls = nn.Parameter(SMALL * torch.randn(1, 1, WIDTH))
        self.table = nn.Parameter(self.start * torch.randn(1, self.rows, WIDTH), requires_grad=self.learned)
        self.blocks = nn.ModuleList(Block(self.rotary) for _ in range(DEPTH))
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def placed(self, tokens: Tensor) -> Tensor:
        """Return the tokens with their positions."""
        return tokens + self.table

    def forward(self, x: Tensor) -> Tensor:
        """Return ten scores for each picture, (n, 1, 16, 16)."""
        x = self.embed(x).flatten(2).mT * (WIDTH**0.5 if self.scaled else 1)
        x = self.placed(torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x[:, 0]))


def changed(**values: Any) -> type[Handed]:
    """Return the network with other values of its attributes."""
    return type("Changed", (Handed,), values)


class Shifted(Handed):
    """The same vector of another size at every patch."""

    start, scaled = 0.2, False


class Mean(Handed):
    """A position that is taken away again: the mean over all patches is what is left of the table."""

    scaled, rows, start = False, 17, 0.2

    def placed(self, tokens: Tensor) -> Tensor:
        """Return the tokens with the mean of all positions."""
        return tokens + self.table.mean(1, keepdim=True)


class Pixels(nn.Module):
    """No ViT, but a network of all pixels, which knows where each is."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x: Tensor) -> Tensor:
        """Return ten scores."""
        return self.net(x)


MENDED: dict[str, Any] = {"scaled": False, "rows": 17, "start": 0.2}


def letters(test: bool = False) -> tuple[Tensor, Tensor]:
    """Return pictures and labels, for training or new ones."""
    found = font_letters(1000, seed=1) if test else font_letters(16_000, seed=0)
    return found.pictures, found.labels
