"""Exercise on mending: a block with attention whose network ignores the label that it is told."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.datasets import digits
from residual_edu.exercises.exercise import Broken, Exercise, Mistake, Property, Unmet

Answer = Callable[[int], Any]  # makes a block of a width

ADDS, LOSS = 0.05, 0.25  # what a wrong label must add at least, and the loss that the right ones may have at most
WIDTH, STEPS, RATE, SIZE = 32, 150, 0.003, 16


class Handed(nn.Module):
    """The block as it is handed over: the label's vector is added to every key."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.qkv, self.told = nn.Conv2d(width, 3 * width, 1), nn.Linear(width, width)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return x after the branch; ``label`` is (batch, width)."""
        h = self.conv1(F.silu(self.norm1(x)))
        q, k, v = self.place(self.norm2(h), self.told(F.silu(label))[:, None])
        h = F.scaled_dot_product_attention(q, k, v).mT.unflatten(2, h.shape[2:])
        return x + self.conv2(F.silu(h))

    def place(self, h: Tensor, told: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value (batch, pixels, width)."""
        q, k, v = self.qkv(h).flatten(2).mT.chunk(3, dim=-1)
        return q, k + told, v


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


def blocks_of(f: Answer, width: int) -> list[nn.Module]:
    """Return two of the answer's blocks, or raise for what is no block."""
    x, label, blocks = torch.zeros(3, width, 8, 8), torch.zeros(3, width), [f(width) for _ in range(2)]
    for block in blocks:
        if not isinstance(block, nn.Module):
            raise Broken(f"it made a {type(block).__name__}, where an nn.Module was asked for")
        out = block(x, label)
        if not isinstance(out, Tensor) or out.shape != x.shape:
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise Broken(f"`forward(x, label)` returned {shape}, where {tuple(x.shape)} was asked for")
    return blocks


def network(f: Answer, seed: int) -> Completer:
    """Return an untrained network with two of the answer's blocks."""
    torch.manual_seed(seed)
    return Completer(blocks_of(f, WIDTH))


def measured(f: Answer, seed: int) -> tuple[float, float]:
    """Return the loss with right labels, and what wrong ones add, of a network trained with two of the blocks."""
    model, (pictures, labels, new, truth) = network(f, seed), data()
    with torch.enable_grad():
        chosen = [p for p in model.parameters() if p.requires_grad]
        adam = torch.optim.Adam(chosen, RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, total_steps=STEPS)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(STEPS):
            rows = torch.randint(len(pictures), (SIZE,), generator=generator)
            adam.zero_grad()
            loss_of(model, pictures[rows], labels[rows]).backward()
            adam.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        right = loss_of(model, new, truth).item()
        wrong = sum(loss_of(model, new, (truth + k) % 10).item() for k in (1, 3, 6)) / 3
    return right, wrong - right


def _is_a_block(f: Answer) -> None:
    blocks_of(f, WIDTH)
    try:
        blocks_of(f, 2 * WIDTH)
    except RuntimeError as error:
        raise Broken(f"with a width of {2 * WIDTH} it raises {error}; use the `width` that is given") from error


def _listens(f: Answer) -> None:
    for seed in (0, 1):
        right, added = measured(f, seed)
        if not added >= ADDS:
            raise Unmet(f"with seed {seed} a wrong label adds {added:.4f} to a loss of {right:.3f}")
        if not right <= LOSS:
            raise Unmet(f"with seed {seed} the label is used, and with the right one the loss is {right:.3f}")


def _observe(f: Answer) -> Any:
    """Return a new block's output, how far another label moves it, and which parameters have a gradient."""
    network(f, 0)
    torch.manual_seed(0)
    block, x, label = f(WIDTH).eval(), torch.randn(1, WIDTH, 8, 8), torch.randn(2, WIDTH)
    with torch.enable_grad():
        out, other = block(x, label[:1]), block(x, label[1:])
        moved = (out - other).detach()
        out.square().mean().backward()
    found = moved if moved.abs().max() > 1e-5 else 0 * moved
    return [out.detach(), found, *(float(p.grad is not None) for p in block.parameters())]


def changed(place: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]) -> type[Handed]:
    """Return the block with another use of the label's vector."""

    class Changed(Handed):
        def place(self, h: Tensor, told: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            q, k, v = self.qkv(h).flatten(2).mT.chunk(3, dim=-1)
            return place(q, k, v, told)

    return Changed


def inputs(width: int) -> nn.Module:
    """Return the block whose label is added before the map to query, key and value."""

    class Inputs(Handed):
        def place(self, h: Tensor, told: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return super().place(h + told.mT[..., None], 0 * told)

    return Inputs(width)


class BeforeNorm(Handed):
    """The label before a norm with a group for each channel."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.norm2 = nn.GroupNorm(width, width)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return x after the branch."""
        h = self.norm2(self.conv1(F.silu(self.norm1(x))) + self.told(F.silu(label))[:, :, None, None])
        q, k, v = super().place(h, torch.zeros(1))
        h = F.scaled_dot_product_attention(q, k, v).mT.unflatten(2, x.shape[2:])
        return x + self.conv2(F.silu(h))


def nothing(width: int) -> None:
    """Return no block."""


class Flat(Handed):
    """The right place for the label, and an output whose pixels stand in a row."""

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """Return (batch, width, pixels)."""
        h = self.norm2(self.conv1(F.silu(self.norm1(x))))
        q, k, v = self.qkv(h).flatten(2).mT.chunk(3, dim=-1)
        return x.flatten(2) + F.scaled_dot_product_attention(q, k, v + self.told(label)[:, None]).mT


LISTENING_BLOCK = Exercise(
    reference=changed(lambda q, k, v, told: (q, k, v + told)),
    also_right=(changed(lambda q, k, v, told: (q + told, k, v)), inputs),
    observe=_observe,
    effort=25,  # it trains two networks, slowly where threads wait for each other
    properties=(
        Property("it makes a block: forward(x, label) returns the shape of x", _is_a_block, ()),
        Property(
            f"after {STEPS} steps a wrong label adds at least {ADDS}, and the loss with right ones is below {LOSS}",
            _listens,
        ),
    ),
    mistakes=(
        Mistake(Handed, "the block as it was handed over", "Where on its way back does the label's gradient end?"),
        Mistake(
            changed(lambda q, k, v, told: (q, k, v)),
            "a block without its label",
            "The label's vector must reach something that depends on it.",
        ),
        Mistake(
            changed(lambda q, k, v, told: (q, k, v + told / 1000)),
            "a label too faint to be learned in these steps",
            "Compare the size of the vector with what it is added to.",
        ),
        Mistake(BeforeNorm, "a label before a norm with one channel a group", "The lesson's first network did this."),
        Mistake(Flat, "pixels in a row", "Bring the output back to (batch, width, height, width)."),
        Mistake(nothing, "a function without its `return`", "It is called with the width, and returns a block."),
    ),
    hints=(
        "Train it, and compare the gradients of the vector, of the keys, of the scores and of the values.",
        "The vector adds q · told to the scores of one query. How does this number differ from key to key, and what "
        "does a softmax make of it?",
    ),
)

EXERCISES = {"listening_block": LISTENING_BLOCK}
