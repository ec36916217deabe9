"""Exercises on AdaLN-Zero: a branch that a condition shifts, scales and gates, and the block of two of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import (
    Exercise,
    Mistake,
    Part,
    Property,
    Unmet,
    close,
    construct,
    draw,
    filled,
    run,
    same_gradients,
)

Map = Callable[[Tensor], Tensor]
Branch = Callable[[Tensor, Map, Tensor, Tensor, Tensor], Tensor]

# x + gate * f(norm(x) (1 + scale) + shift)

X = (5 * draw(3, 3, 4) + 1).float()
THREE = tuple(draw(3, 4, seed=seed).float() for seed in (1, 2, 3))  # shift, scale, gate


def norm(x: Tensor) -> Tensor:
    """Return each row without its mean, over its standard deviation."""
    return F.layer_norm(x, x.shape[-1:])


def right(x: Tensor, f: Map, shift: Tensor, scale: Tensor, gate: Tensor) -> Tensor:
    """Return x plus the gated branch."""
    shift, scale, gate = (one[:, None] for one in (shift, scale, gate))
    return x + gate * f(norm(x) * (1 + scale) + shift)


def wide(step: Branch) -> Branch:
    """Return ``step`` with an axis of positions in each of the three vectors."""
    return lambda x, f, *three: step(x, f, *(one[:, None] for one in three))


def bent(x: Tensor) -> Tensor:
    """Return something that is neither linear nor 0 at 0."""
    return torch.tanh(x) + 0.5 * x - 1


def added(f: Branch, *kept: int, x: Tensor = X) -> Tensor:
    """Return the output of a branch, with those of shift, scale and gate that are not kept at 0."""
    three = [THREE[i][: len(x)] * (i in kept) for i in range(3)]
    return run(lambda x, *three: f(x, bent, *three), x, *three, like=x)


def agrees(f: Branch, *kept: int, x: Tensor = X) -> None:
    """Test the output."""
    close(added(f, *kept, x=x), added(right, *kept, x=x))


INPUTS: dict[str, Any] = {"x": X, "f": Part(4).float()} | dict(zip(("shift", "scale", "gate"), THREE, strict=True))

ADALN_BRANCH = Exercise(
    reference=right,
    also_right=(
        lambda x, f, b, s, g: torch.einsum("bc,bpc->bpc", g, f(torch.addcmul(b[:, None], norm(x), 1 + s[:, None]))) + x,
        lambda x, f, b, s, g: torch.stack([r + g[i] * f(norm(r) * (1 + s[i]) + b[i]) for i, r in enumerate(x)]),
    ),
    observe=lambda f: (added(f, 0, 1, 2), added(f, 0, 1, 2, x=X[:2])),
    properties=(
        Property("a gate of 0 returns x", lambda f: agrees(f, 0, 1)),
        Property("a gate alone", lambda f: agrees(f, 2)),
        Property("the shift", lambda f: agrees(f, 0, 2)),
        Property("the scale", lambda f: agrees(f, 1, 2)),
        Property("two pictures of three positions", lambda f: agrees(f, 0, 2, x=X[:2])),
        Property("three pictures of three positions", lambda f: agrees(f, 0, 1, 2)),
        Property("the gradients of x, the three vectors and f", same_gradients(right, INPUTS), hints=()),
    ),
    mistakes=(
        Mistake(
            lambda x, f, b, s, g: x + g * f(norm(x) * (1 + s) + b),
            "the vectors lined up with the positions, not with the pictures",
            "Give each an axis for the positions: `gate[:, None]`.",
        ),
        Mistake(wide(lambda x, f, b, s, g: g * f(norm(x) * (1 + s) + b)), "the branch without x", "Add it to x."),
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
            wide(lambda x, f, b, s, g: norm(x) + g * f(norm(x) * (1 + s) + b)),
            "a sum with the norm of x",
            "Keep the name x for what came in, and add to that.",
        ),
        Mistake(
            wide(lambda x, f, b, s, g: (h := norm(x) * (1 + s) + b) + g * f(h)),
            "a sum with the modulated norm",
            "Keep the name x for what came in, and add to that.",
        ),
        Mistake(
            wide(lambda x, f, b, s, g: x + f(g * (norm(x) * (1 + s) + b))),
            "a gate before f",
            "The gate multiplies what f returns.",
        ),
        Mistake(
            wide(lambda x, f, b, s, g: g * (x + f(norm(x) * (1 + s) + b))),
            "a gate on the sum, so that a shut one loses x",
            "Gate the branch, then add.",
        ),
        Mistake(
            wide(lambda x, f, b, s, g: x + g * f((norm(x) + b) * (1 + s))),
            "a shift that is scaled too",
            "Scale first, then shift.",
        ),
        Mistake(
            wide(lambda x, f, b, s, g: x + g * f(norm(x) * (1 + b) + s)),
            "shift and scale exchanged",
            "The shift is added, the scale multiplies.",
        ),
        Mistake(
            wide(lambda x, f, b, s, g: x + (1 + g) * f(norm(x) * (1 + s) + b)),
            "a gate of 1 + gate",
            "Multiply by the gate as it is: at 0 the branch adds nothing.",
        ),
    ),
    hints=(
        "Follow the drawing from left to right, and add what comes out to the x that came in.",
        "Each of the three vectors is (batch, features): `[:, None]` gives it an axis for the positions.",
    ),
)

# The block: such a branch around the attention, then one around the MLP, from six vectors that are 0 at first

C = draw(3, 4, seed=4).float()
Blocks = type[nn.Module]


def block(step: Branch = right, order: str = "bsgBSG", start: float = 0.0, parallel: bool = False) -> Blocks:
    """Return a class of blocks with this branch, order of the six vectors, and start of the projection."""

    class Block(nn.Module):
        def __init__(self, sequence_mixer: nn.Module, mlp: nn.Module, dim: int) -> None:
            super().__init__()
            self.sequence_mixer, self.mlp = sequence_mixer, mlp
            self.condition_proj = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
            for parameter in self.condition_proj.parameters():
                nn.init.constant_(parameter, start)

        def forward(self, x: Tensor, c: Tensor) -> Tensor:
            six = dict(zip(order, self.condition_proj(c).chunk(6, dim=-1), strict=True))
            y = step(x, self.sequence_mixer, *(six[name] for name in "bsg"))
            second = step(x if parallel else y, self.mlp, *(six[name] for name in "BSG"))
            return y + second - x if parallel else second

    return Block


def made(f: Blocks) -> Any:
    """Return a new block of ``f`` whose attention and MLP are drawn."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return construct(f, Part(4), Part(4, 1), 4).float()


def output(f: Blocks, *kept: int) -> Tensor:
    """Return what a block makes of X, with those of its six vectors that are not kept at 0."""
    found: Any = filled(made(f)).float()
    with torch.no_grad():
        for parameter in found.condition_proj[1].parameters():
            six = parameter.view(6, 4, -1)
            six[[i for i in range(6) if i not in kept]] = 0
    return run(found, X, C, like=X)


def starts_at_zero(f: Blocks) -> None:
    """Test that a new block returns x, and that the linear layer is 0 and the rest is not."""
    close(run(made(f), X, C, like=X), X, "of a new block the output")
    if any(parameter.any() for parameter in made(f).condition_proj.parameters()):
        raise Unmet("`condition_proj` of a new block is not 0")


def only(*kept: int) -> Callable[[Blocks], None]:
    """Return a test of a block with some of the six vectors."""
    return lambda f: close(output(f, *kept), output(block(), *kept))


def whole(f: Blocks, x: Tensor, c: Tensor) -> tuple[Tensor, nn.Module]:
    """Return the output of a block with drawn weights, and the block."""
    found = filled(made(f)).float()
    return found(x, c), found


ADALN_ZERO_BLOCK = Exercise(
    reference=block(),
    observe=lambda f: (run(made(f), X, C, like=X), output(f, *range(6))),
    properties=(
        Property("a new block returns x, its linear layer is 0", starts_at_zero),
        Property("the attention's three vectors", only(0, 1, 2)),
        Property("the MLP's three vectors", only(3, 4, 5)),
        Property("both branches, one after the other", only(*range(6))),
        Property(
            "the gradients of x, c and all weights", same_gradients(block(), {"x": X, "c": C}, call=whole), hints=()
        ),
    ),
    mistakes=(
        Mistake(
            block(start=0.1),
            "a linear layer that does not start at 0",
            "Fill its weights and its biases with `nn.init.zeros_`.",
        ),
        Mistake(
            block(parallel=True),
            "an MLP that receives the x from before the attention",
            "Let the second branch begin with what the first returned.",
        ),
        Mistake(block(order="bsBSgG"), "gates that are cut off last", "The order is shift, scale, gate, twice."),
        Mistake(block(order="sbgSBG"), "shift and scale exchanged", "Of three vectors the first is the shift."),
        Mistake(
            block(order="BSGbsg"), "the MLP's vectors given to the attention", "The first three are the attention's."
        ),
        Mistake(block(order="gbsGBS"), "gates that are cut off first", "The order is shift, scale, gate, twice."),
        Mistake(
            block(wide(lambda x, f, b, s, g: g * f(norm(x) * (1 + s) + b))),
            "branches without x",
            "Add each branch to the x that it began with.",
        ),
        Mistake(
            block(wide(lambda x, f, b, s, g: x + g * f(norm(x) * s + b))),
            "scale where 1 + scale was asked for",
            "Call your `branch`, or add 1 to the scale.",
        ),
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
