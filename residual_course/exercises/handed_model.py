"""The language model that lesson 10 hands over to be mended: a norm over positions, and a mask aligned top left."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import python_prose
from residual_edu.parts import rotary_angles, rotate

VOCABULARY, WIDTH, HEADS, LAYERS = 103, 64, 4, 2
Pair = tuple[Tensor, Tensor]
Kept = list[Pair | None]


Hides = Callable[[int, int], Tensor]  # of how many queries and keys: which keys are hidden, (queries, keys)


def top_left(queries: int, keys: int) -> Tensor:
    """Hide as if the first new query stood at position 0."""
    return torch.ones(queries, keys).triu(1) > 0


def later(queries: int, keys: int) -> Tensor:
    """Hide what is later: the last query stands at the last key."""
    return torch.ones(queries, keys).triu(1 + keys - queries) > 0


def top_left_of_several(queries: int, keys: int) -> Tensor:
    """Hide nothing from a single query, which is right, and too much from several."""
    return top_left(queries, keys) & torch.tensor(queries > 1)


def peeking(*places: int) -> Hides:
    """Return a mask with which the queries at ``places`` see the next key as well."""

    def hides(queries: int, keys: int) -> Tensor:
        here = torch.arange(keys)[-queries:]
        return torch.arange(keys) > (here + torch.isin(here, torch.tensor(places)))[:, None]

    return hides


class Attention(nn.Module):
    """Attention with a cache."""

    def __init__(self, hides: Hides) -> None:
        super().__init__()
        self.hides = hides
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, kept: Pair | None) -> tuple[Tensor, Pair]:
        """Return the output, and keys and values."""
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if kept is not None:
            k, v = torch.cat([kept[0], k], dim=2), torch.cat([kept[1], v], dim=2)
        angles = rotary_angles([k.shape[2]], WIDTH // HEADS).float()
        scores = rotate(q, angles[-x.shape[1] :]) @ rotate(k, angles).mT / 4
        scores = scores.masked_fill(self.hides(*scores.shape[-2:]), -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)


class Block(nn.Module):
    """A pre-norm block."""

    def __init__(self, hides: Hides) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(hides)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


class Handed(nn.Module):
    """The model as it is handed over; its class attributes are what a mend changes."""

    hides, over_positions = staticmethod(top_left), True

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embed.weight, std=WIDTH**-0.5)
        self.blocks = nn.ModuleList(Block(self.hides) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def logits(self, x: Tensor) -> Tensor:
        """Return the scores of the next tokens."""
        x = F.layer_norm(x, x.shape[1:] if self.over_positions else x.shape[2:])
        return (x * self.norm.weight + self.norm.bias) @ self.embed.weight.T

    def step(self, tokens: Tensor, kept: Kept | None = None) -> tuple[Tensor, Kept]:
        """Return the scores of the next tokens, and what to hand over with those after."""
        x, longer = self.embed(tokens), Kept()
        for block, pair in zip(self.blocks, kept or [None] * LAYERS, strict=True):
            y, pair = block.attention(block.norm1(x), pair)  # type: ignore[operator]
            x = x + y
            x = x + block.mlp(block.norm2(x))  # type: ignore[operator]
            longer.append(pair)
        return self.logits(x), longer

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (batch, positions, vocabulary)."""
        return self.step(tokens)[0]


def changed(**values: Any) -> type[Handed]:
    """Return the model with other values of its attributes."""
    values = {name: staticmethod(value) if callable(value) else value for name, value in values.items()}
    return type("Changed", (Handed,), values)


MENDED = {"hides": later, "over_positions": False}


class WholeRows(changed(**MENDED)):  # type: ignore[misc]
    """A causal model that keeps the tokens themselves, and computes all anew: slow, and right."""

    def step(self, tokens: Tensor, kept: Any = None) -> tuple[Tensor, Any]:
        """Return the scores of the new tokens, and all tokens."""
        whole = tokens if kept is None else torch.cat([kept, tokens], dim=1)
        return super().step(whole)[0][:, -tokens.shape[1] :], whole


class Blind(changed(**MENDED)):  # type: ignore[misc]
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
