"""Answers to the exercises of lesson 09 that no list of mistakes holds."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.handed_positions import Block, Handed, changed
from residual_edu.parts.position import rotary_angles

right("grid_angles", "the library's")(lambda side, pairs, base: rotary_angles((side, side), 2 * pairs, base))
right("grid_angles", "NumPy")(
    lambda side, pairs, base: np.concatenate(
        [
            axis.reshape(-1, 1) * base ** (-np.arange(pairs // 2) / (pairs // 2))
            for axis in np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
        ],
        axis=1,
    )
)


@right("grid_angles", "a loop")
def _(side, pairs, base):
    angles, half = torch.zeros(side * side, pairs), pairs // 2
    for place in range(side * side):
        for j in range(half):
            angles[place, j] = place // side * base ** (-j / half)
            angles[place, half + j] = place % side * base ** (-j / half)
    return angles


wrong("grid_angles", "axes of a meshgrid exchanged")(
    lambda side, pairs, base: torch.cat(
        [
            axis.reshape(-1, 1) * base ** (-torch.arange(pairs // 2) / (pairs // 2))
            for axis in torch.meshgrid(torch.arange(side), torch.arange(side), indexing="xy")
        ],
        dim=1,
    )
)
wrong("grid_angles", "places around the middle")(
    lambda side, pairs, base: rotary_angles((side, side), 2 * pairs, base) - (side - 1) / 2
)
right("gated_branch", "torch.nn's SiLU")(
    lambda x, norm, up, gate, down, gamma: torch.addcmul(x, gamma, down(nn.SiLU()(gate(n := norm(x))) * up(n)))
)
wrong("gated_branch", "x changed in place")(
    lambda x, norm, up, gate, down, gamma: x.add_(gamma * down(F.silu(gate(norm(x))) * up(norm(x))))
)
wrong("gated_branch", "gamma before down")(
    lambda x, norm, up, gate, down, gamma: x + down(gamma * (F.silu(gate(n := norm(x))) * up(n)))
)


@right("mended_vit", "the lesson's way: an assigned table, the factor kept")
def _():
    class Mended(Handed):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(48**0.5 * 0.2 * torch.randn(1, 17, 48))

    return Mended()


@right("mended_vit", "sums of a row and a column")
def _():
    class Mended(Handed):
        scaled = False

        def __init__(self):
            super().__init__()
            self.row, self.column = (nn.Parameter(0.2 * torch.randn(4, 48)) for _ in range(2))

        def placed(self, tokens):
            places = (self.row[:, None] + self.column).flatten(0, 1)
            return torch.cat([tokens[:, :1], tokens[:, 1:] + places], dim=1)

    return Mended()


@wrong("mended_vit", "rotary positions that make whole turns")
def _():
    class Turned(changed(rotary=True)):
        def __init__(self):
            super().__init__()
            for block in self.blocks:
                block.attention.cos_sin = (torch.ones(17, 16), torch.zeros(17, 16))

    return Turned()


@wrong("mended_vit", "more blocks")
def _():
    net = Handed()
    net.blocks.append(Block(False))
    return net
