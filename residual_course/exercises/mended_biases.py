"""Exercise on mending: a deep post-norm network that makes all digits alike, of which only the biases may change."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, unchanged
from residual_course.datasets import digits

Answer = Callable[[Any, Tensor], Any]

ASKED = 0.5  # the distance between digits that must be left, over that of the input
WIDTH = 64


class Block(nn.Module):
    """norm(x + f(x)), whose f has an output that is mostly the same for all digits."""

    def __init__(self, common: float, generator: torch.Generator) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        with torch.no_grad():
            self.first.weight.copy_(torch.randn(WIDTH, WIDTH, generator=generator) / 8)
            self.second.weight.copy_(torch.randn(WIDTH, WIDTH, generator=generator) * 2**0.5 / 8)
            # hidden units are never negative, so that their sum is much the same for all digits
            self.second.weight.add_(common * torch.randn(WIDTH, 1, generator=generator) / (0.4 * WIDTH))
            self.first.bias.zero_()
            self.second.bias.copy_(0.3 * torch.randn(WIDTH, generator=generator))

    def f(self, x: Tensor) -> Tensor:
        """Return the branch's output."""
        return self.second(torch.relu(self.first(x)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the stream after the block."""
        return self.norm(x + self.f(x))


@cache
def images() -> tuple[Tensor, Tensor]:
    """Return 256 digits to measure with, and 64 others."""
    data = digits()
    parts = data.train_images[:256], data.test_images[:64]
    seen, unseen = (nn.functional.layer_norm(part.flatten(1), (WIDTH,)) for part in parts)
    return seen, unseen


@cache
def failed(depth: int, common: float, seed: int) -> nn.ModuleList:
    """Return blocks in which most of the distance between digits is lost."""
    generator = torch.Generator().manual_seed(seed)
    return nn.ModuleList(Block(common, generator) for _ in range(depth))


def apart(x: Tensor) -> float:
    """Return the rms distance of the rows from their mean."""
    return (x - x.mean(0)).square().mean().sqrt().item()


@torch.no_grad()
def left(blocks: nn.ModuleList) -> float:
    """Return what is left of the distance between 64 digits after all blocks."""
    x = start = images()[1]
    for block in blocks:
        x = block(x)
    return apart(x) / apart(start)


def mended(f: Answer, depth: int, common: float = 1.0, seed: int = 0) -> nn.ModuleList:
    """Return a copy of the failed blocks after ``f`` has changed it."""
    blocks, x = deepcopy(failed(depth, common, seed)), images()[0].clone()
    ids = [id(block) for block in blocks]
    with unchanged(x=x):
        f(blocks, x)
    if [id(block) for block in blocks] != ids:
        raise Unmet("the blocks are no longer those that it was given")
    return blocks


def _biases_alone(f: Answer) -> None:
    blocks = mended(f, 6)
    changed = set[str]()
    for block, before in zip(blocks, failed(6, 1.0, 0), strict=True):
        now = dict(block.named_parameters())
        for name, parameter in before.named_parameters():
            if name not in now or now[name].shape != parameter.shape:
                raise Broken(f"`{name}` of a block is gone, or has another shape")
            if not now[name].equal(parameter):
                changed.add(name)
    if others := sorted(changed - {"second.bias"}):
        raise Broken(f"it changed `{others[0]}`, where only `second.bias` may change")
    if not changed:
        raise Broken("no bias has changed: does it write to `block.second.bias` itself?")


def _digits_differ(f: Answer, *cases: tuple[int, float, int]) -> None:
    for depth, common, seed in cases:
        before, after = left(failed(depth, common, seed)), left(mended(f, depth, common, seed))
        if not after > ASKED:
            raise Unmet(
                f"of {depth} blocks {after:.1e} of the distance is left, and {before:.1e} before the mend; half of it "
                "is asked for"
            )


def _observe(f: Answer) -> Any:
    """Return what is left after 2 and 12 blocks, to one decimal of its logarithm, and how many tensors changed."""
    nets, found = [mended(f, depth) for depth in (2, 12)], list[float]()
    for blocks in nets:
        found.append(round(torch.tensor(left(blocks)).log10().item(), 1))
    pairs = zip(nets[0].parameters(), failed(2, 1.0, 0).parameters(), strict=True)
    return [*found, sum(not one.equal(other) for one, other in pairs)]


def each_in_turn(step: Callable[[Any, Tensor], Tensor], follow: bool = True) -> Answer:
    """Return an answer that takes ``step(block, x)`` from each bias, and lets x pass the mended block."""

    def answer(blocks: Any, x: Tensor) -> None:
        with torch.no_grad():
            for block in blocks:
                after = block(x)
                block.second.bias -= step(block, x)
                x = block(x) if follow else after

    return answer


def overwritten(blocks: Any, x: Tensor) -> None:
    """Put the negative mean in the place of each bias."""
    with torch.no_grad():
        for block in blocks:
            block.second.bias.copy_(block.second.bias - block.f(x).mean(0))
            x = block.norm(x + block.f(x))


def of_the_images(blocks: Any, x: Tensor) -> None:
    """Take the mean of each branch for the images themselves."""
    with torch.no_grad():
        for block in blocks:
            block.second.bias -= block.f(x).mean(0)


def weights(blocks: Any, x: Tensor) -> None:
    """Make the branches small."""
    with torch.no_grad():
        for block in blocks:
            block.second.weight *= 0.1


def in_a_copy(blocks: Any, x: Tensor) -> None:
    """Change other tensors than the biases."""
    with torch.no_grad():
        for block in blocks:
            bias = block.second.bias - block.f(x).mean(0)
            x = block(x) + 0 * bias


MENDED_BIASES = Exercise(
    reference=each_in_turn(lambda block, x: block.f(x).mean(0)),
    also_right=(overwritten, each_in_turn(lambda block, x: 1.1 * block.f(x).median(0).values)),
    observe=_observe,
    properties=(
        Property("the biases of the second layers change, and nothing else", _biases_alone, ()),
        Property("6 blocks keep half of the distance between digits", lambda f: _digits_differ(f, (6, 1.5, 1))),
        Property(
            "48 blocks keep half of it", lambda f: _digits_differ(f, (48, 1.0, 0), (48, 0.7, 2), (24, 2.0, 3)), (2,)
        ),
    ),
    mistakes=(
        Mistake(
            each_in_turn(lambda block, x: block.second.bias.clone()),
            "biases that are 0",
            "Measure r and the gain after your mend: the weights too give an output that all digits share.",
        ),
        Mistake(
            each_in_turn(lambda block, x: block.f(x).mean(0), follow=False),
            "means that were all measured in the network as it was handed over",
            "A mended block hands on other numbers. Which x does the next block receive then?",
        ),
        Mistake(
            of_the_images,
            "means that were all measured for the images themselves",
            "Only the first block receives the images. Let x pass each block before you measure the next.",
        ),
        Mistake(
            each_in_turn(lambda block, x: -block.f(x).mean(0)),
            "means that are added",
            "Which sign makes the mean of the branch 0?",
        ),
        Mistake(
            each_in_turn(lambda block, x: block.f(x).mean()),
            "one number for the whole bias",
            "The common part is a vector: 64 numbers, each a mean over the digits.",
        ),
        Mistake(
            each_in_turn(lambda block, x: x.mean(0)),
            "the mean of the stream",
            "What all digits share is added by the branch: measure `block.f(x)`.",
        ),
        Mistake(weights, "other weights", "The weights stay as they are; only `second.bias` may change."),
        Mistake(
            lambda blocks, x: None,
            "blocks as they were",
            "Write with `torch.no_grad()`: `block.second.bias -= ...`.",
        ),
    ),
    hints=(
        "What of f(x) is the same for all digits? Print f(x).mean(0) of the first block, and its size beside f(x)'s.",
        "A bias is added to f's output. Mend the first block, let x pass it, then measure and mend the second.",
    ),
)

EXERCISES = {"mended_biases": MENDED_BIASES}
