"""The language model that lesson 10 hands over to be mended: a mask that leaks, and queries that forget the cache."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from residual_edu.datasets import python_prose
from residual_edu.parts import rotary_angles, rotate

VOCABULARY, WIDTH, HEADS, LAYERS = 103, 64, 4, 2
Pair = tuple[Tensor, Tensor]
Kept = list[Pair | None]


class Attention(nn.Module):
    """Attention with a cache, and the two slips."""

    def __init__(self, leak: int, restarts: bool) -> None:
        super().__init__()
        self.leak, self.restarts = leak, restarts
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, kept: Pair | None) -> tuple[Tensor, Pair]:
        """Return the output, and keys and values."""
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if kept is not None:
            k, v = torch.cat([kept[0], k], dim=2), torch.cat([kept[1], v], dim=2)
        there = torch.arange(k.shape[2])
        here = torch.arange(x.shape[1]) if self.restarts else there[-x.shape[1] :]
        angles = rotary_angles([len(there)], WIDTH // HEADS).float()
        scores = rotate(q, angles[here]) @ rotate(k, angles).mT / 4
        reach = here + (here % self.leak == self.leak - 1) if self.leak else here
        scores = scores.masked_fill(there > reach[:, None], -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)


class Block(nn.Module):
    """A pre-norm block."""

    def __init__(self, leak: int, restarts: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(leak, restarts)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


class Handed(nn.Module):
    """The model as it is handed over; its class attributes are what a mend changes."""

    leak, restarts = 4, True

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embed.weight, std=WIDTH**-0.5)
        self.blocks = nn.ModuleList(Block(self.leak, self.restarts) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def step(self, tokens: Tensor, kept: Kept | None = None) -> tuple[Tensor, Kept]:
        """Return the scores of the next tokens, and what to hand over with those after."""
        x, longer = self.embed(tokens), Kept()
        for block, pair in zip(self.blocks, kept or [None] * LAYERS, strict=True):
            y, pair = block.attention(block.norm1(x), pair)  # type: ignore[operator]
            x = x + y
            x = x + block.mlp(block.norm2(x))  # type: ignore[operator]
            longer.append(pair)
        return self.norm(x) @ self.embed.weight.T, longer

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (batch, positions, vocabulary)."""
        return self.step(tokens)[0]


def changed(**values: Any) -> type[Handed]:
    """Return the model with other values of its attributes."""
    return type("Changed", (Handed,), values)


class WholeRows(changed(leak=0, restarts=False)):  # type: ignore[misc]
    """A causal model that keeps the tokens themselves, and computes all anew: slow, and right."""

    def step(self, tokens: Tensor, kept: Any = None) -> tuple[Tensor, Any]:
        """Return the scores of the new tokens, and all tokens."""
        whole = tokens if kept is None else torch.cat([kept, tokens], dim=1)
        return super().step(whole)[0][:, -tokens.shape[1] :], whole


class Blind(changed(leak=0, restarts=False)):  # type: ignore[misc]
    """A model in which a token sees itself alone: it leaks nothing, its steps agree, and it learns pairs."""

    def step(self, tokens: Tensor, kept: Kept | None = None) -> tuple[Tensor, Kept]:
        """Return the scores after each token by itself."""
        whole, _ = super().step(tokens.reshape(-1, 1))
        return whole.view(*tokens.shape, -1), [None] * LAYERS


@cache
def text() -> tuple[Tensor, Tensor]:
    """Return the lesson's characters to train, (n,), and rows to test, (rows, 65)."""
    prose = python_prose()
    number = {character: at for at, character in enumerate(sorted(set(prose)))}
    cut = torch.tensor([number[each] for each in prose]).unfold(0, 2570, 2570)
    test = torch.arange(len(cut)) % 10 == 9
    return cut[~test].flatten(), cut[test].reshape(-1, 257)[:, :65]
