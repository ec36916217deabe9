"""Exercises on AdaLN-Zero: a branch that a condition shifts, scales and gates, and the block of two of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, Unmet
from residual_course.checking.gradients import filled, same_gradients
from residual_course.checking.properties import close, construct, draw, run

Branch = Callable[..., Tensor]  # of x, f, shift, scale and gate
Blocks = type[nn.Module]

# x + gate * f(norm(x) (1 + scale) + shift)

X = (5 * draw(3, 3, 4) + 1).float()
THREE = tuple(draw(3, 4, seed=seed).float() for seed in (1, 2, 3))  # shift, scale, gate


def norm(x: Tensor) -> Tensor:
    """Return each row without its mean, over its standard deviation."""
    return F.layer_norm(x, x.shape[-1:])


def wide(step: Branch) -> Branch:
    """Return ``step`` with an axis of positions in each of the three vectors."""
    return lambda x, f, *three: step(x, f, *(one[:, None] for one in three))


right = wide(lambda x, f, b, s, g: x + g * f(norm(x) * (1 + s) + b))


def added(f: Branch, *kept: int) -> Tensor:
    """Return the output of a branch, with those of shift, scale and gate that are not kept at 0."""
    three = [THREE[i] * (i in kept) for i in range(3)]
    return run(lambda x, *three: f(x, lambda h: torch.tanh(h) + 0.5 * h - 1, *three), X, *three, like=X)


def _agrees(*kept: int) -> Callable[[Branch], None]:
    return lambda f: close(added(f, *kept), added(right, *kept))


INPUTS: dict[str, Any] = {"x": X, "f": Part(4).float()} | dict(zip(("shift", "scale", "gate"), THREE, strict=True))
SIX = [draw(*shape, seed=i).float() for i, shape in enumerate([(2, 3, 6), *[(2, 6)] * 3])]  # x, shift, scale, gate


def _six_features(f: Branch) -> None:
    close(run(lambda x, *three: f(x, torch.tanh, *three), *SIX, like=SIX[0]), right(SIX[0], torch.tanh, *SIX[1:]))


ADALN_BRANCH = Exercise(
    reference=right,
    observe=lambda f: added(f, 0, 1, 2),
    properties=(
        Property("a gate of 0 returns x", _agrees(0, 1)),
        Property("a gate alone", _agrees(2)),
        Property("the shift", _agrees(0, 2)),
        Property("the scale", _agrees(1, 2)),
        Property("three pictures of three positions", _agrees(0, 1, 2)),
        Property("rows of six features", _six_features, hints=()),
        Property("the gradients of x, the three vectors and f", same_gradients(right, INPUTS), hints=()),
    ),
    mistakes=(
        Mistake(
            lambda x, f, b, s, g: x + g * f(norm(x) * (1 + s) + b),
            "the vectors lined up with the positions, not with the pictures",
            "Give each an axis for the positions: `gate[:, None]`.",
        ),
        Mistake(
            wide(lambda x, f, b, s, g: x + g * f(norm(x) * s + b)),
            "scale where 1 + scale was asked for",
            "Add 1 to the scale: a scale of 0 leaves the norm as it is.",
        ),
        Mistake(
            wide(lambda x, f, b, s, g: x + g * f(x * (1 + s) + b)),
            "a branch without its norm",
            "Begin with step 2, the norm of x.",
        ),
        Mistake(
            wide(lambda x, f, b, s, g: (h := norm(x) * (1 + s) + b) + g * f(h)),
            "a sum with the modulated norm",
            "Keep the name x for what came in, and add to that.",
        ),
    ),
    hints=(
        "Follow the drawing from left to right, and add what comes out to the x that came in.",
        "Each of the three vectors is (batch, features): `[:, None]` gives it an axis for the positions.",
    ),
)

# The block: such a branch around the attention, then one around the MLP, from six vectors that are 0 at first

C = draw(3, 4, seed=4).float()


def block(step: Branch = right, order: str = "bsgBSG", parallel: bool = False) -> Blocks:
    """Return a class of blocks with this branch and this order of the six vectors."""

    class Block(nn.Module):
        def __init__(self, sequence_mixer: nn.Module, mlp: nn.Module, dim: int) -> None:
            super().__init__()
            self.sequence_mixer, self.mlp = sequence_mixer, mlp
            self.condition_proj = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
            for parameter in self.condition_proj.parameters():
                nn.init.zeros_(parameter)

        def forward(self, x: Tensor, c: Tensor) -> Tensor:
            six = dict(zip(order, self.condition_proj(c).chunk(6, dim=-1), strict=True))
            y = step(x, self.sequence_mixer, *(six[name] for name in "bsg"))
            second = step(x if parallel else y, self.mlp, *(six[name] for name in "BSG"))
            return y + second - x if parallel else second

    return Block


def made(f: Blocks) -> Any:
    """Return a new block of ``f`` whose attention and MLP are drawn."""
    return construct(f, Part(4), Part(4, 1), 4).float()


def output(f: Blocks, *kept: int) -> Tensor:
    """Return what a block makes of X, with those of its six vectors that are not kept at 0."""
    found: Any = filled(made(f)).float()
    with torch.no_grad():
        for parameter in found.condition_proj[1].parameters():
            parameter.view(6, 4, -1)[[i for i in range(6) if i not in kept]] = 0
    return run(found, X, C, like=X)


def _starts_at_zero(f: Blocks) -> None:
    close(run(made(f), X, C, like=X), X, "of a new block the output")
    new = made(f)
    if any(parameter.any() for parameter in new.condition_proj.parameters()):
        raise Unmet("`condition_proj` of a new block is not 0")
    if not all(parameter.any() for part in (new.sequence_mixer, new.mlp) for parameter in part.parameters()):
        raise Unmet("weights of the attention or the MLP are 0; leave them as they were drawn")


def _only(*kept: int) -> Callable[[Blocks], None]:
    return lambda f: close(output(f, *kept), output(block(), *kept))


def _whole(f: Blocks, x: Tensor, c: Tensor) -> tuple[Tensor, nn.Module]:
    found = filled(made(f)).float()
    return found(x, c), found


ADALN_ZERO_BLOCK = Exercise(
    reference=block(),
    observe=lambda f: (run(made(f), X, C, like=X), output(f, *range(6))),
    properties=(
        Property("a new block returns x, its linear layer is 0", _starts_at_zero),
        Property("the attention's three vectors", _only(0, 1, 2)),
        Property("the MLP's three vectors", _only(3, 4, 5)),
        Property("both branches, one after the other", _only(*range(6))),
        Property(
            "the gradients of x, c and all weights", same_gradients(block(), {"x": X, "c": C}, call=_whole), hints=()
        ),
    ),
    mistakes=(
        Mistake(
            block(parallel=True),
            "an MLP that receives the x from before the attention",
            "Let the second branch begin with what the first returned.",
        ),
        Mistake(block(order="bsBSgG"), "gates that are cut off last", "The order is shift, scale, gate, twice."),
        Mistake(block(order="sbgSBG"), "shift and scale exchanged", "Of three vectors the first is the shift."),
        Mistake(
            block(lambda x, f, b, s, g: x + g * f(norm(x) * (1 + s) + b)),
            "six vectors without an axis for the positions",
            "Call your `branch` with (batch, dim), or give them an axis: `[:, None]`.",
        ),
    ),
    hints=(
        "Call `branch` twice: around `self.sequence_mixer` with the first three, around `self.mlp` with the rest.",
        "`self.condition_proj(c).chunk(6, dim=-1)` cuts the six. The second call begins with what the first returned.",
    ),
)

EXERCISES = {"adaln_branch": ADALN_BRANCH, "adaln_zero_block": ADALN_ZERO_BLOCK}
