"""Exercise on the AdaLN-Zero block: its forward pass, from its parts."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import (
    Exercise,
    Mistake,
    Part,
    Property,
    close,
    draw,
    filled,
    run,
    same_gradients,
)
from residual_course.exercises.adaln_zero import norm

Map = Callable[[Tensor], Tensor]
Forward = Callable[..., Tensor]

# The block: twice x + gate * f(norm(x) (1 + scale) + shift)

X, C, W = draw(2, 6, 4) + 1, draw(2, 4, seed=3), draw(4, 24, seed=4)


def project(condition: Tensor) -> Tensor:
    """Return six pieces of four channels, none of them 0."""
    return condition @ W


def mixer(x: Tensor) -> Tensor:
    """Mix positions and apply a nonlinearity, so that the order of the parts changes the result."""
    return x.cumsum(1).square() + 1


def mlp(x: Tensor) -> Tensor:
    """Apply another nonlinearity to each number."""
    return torch.tanh(x) + 0.5 * x - 1


def block(x: Tensor, condition: Tensor, projection: Map, norm: Map, mixer: Map, mlp: Map) -> Tensor:
    """Return x after both branches."""
    b1, s1, g1, b2, s2, g2 = pieces(projection, condition)
    x = x + g1 * mixer(norm(x) * (1 + s1) + b1)
    return x + g2 * mlp(norm(x) * (1 + s2) + b2)


def pieces(projection: Map, condition: Tensor) -> tuple[Tensor, ...]:
    """Return the six pieces, ready for a signal of three axes."""
    return projection(condition)[:, None].chunk(6, dim=-1)


def forward(f: Forward, projection: Map = project, **parts: Map) -> Tensor:
    """Return the output of ``f`` for X with these parts."""
    parts = {"norm": norm, "mixer": mixer, "mlp": mlp} | parts
    return run(lambda x, c: f(x, c, projection, parts["norm"], parts["mixer"], parts["mlp"]), X, C, like=X)


def only(*kept: int) -> Map:
    """Return a projection whose output is 0 but for the pieces ``kept``."""
    mask = torch.zeros(6, 4, dtype=torch.float64)
    mask[list(kept)] = 1
    return lambda condition: project(condition) * mask.flatten()


def agrees(f: Forward, what: str, projection: Map = project, **parts: Map) -> None:
    """Test that ``f`` agrees with the block, with some of its parts exchanged."""
    close(forward(f, projection, **parts), forward(block, projection, **parts), what)


def observe_block(f: Forward) -> Any:
    """Return the block's output for X, with both branches and with one at a time."""
    return forward(f), forward(f, only(0, 1, 2)), forward(f, only(3, 4, 5))


def nothing(x: Tensor) -> Tensor:
    """Return zeros."""
    return 0 * x


def variant(step: Callable[..., Tensor], order: str = "bsgbsg") -> Forward:
    """Return a block that takes ``step(x, shift, scale, gate, f, norm)`` twice, its pieces in another order."""

    def wrong(x: Tensor, condition: Tensor, projection: Map, norm: Map, mixer: Map, mlp: Map) -> Tensor:
        six = pieces(projection, condition)
        for f, names, three in ((mixer, order[:3], six[:3]), (mlp, order[3:], six[3:])):
            named = dict(zip(names, three, strict=True))
            x = step(x, named["b"], named["s"], named["g"], f, norm)
        return x

    return wrong


def right(x: Tensor, b: Tensor, s: Tensor, g: Tensor, f: Map, norm: Map) -> Tensor:
    """Return one branch added to x."""
    return x + g * f(norm(x) * (1 + s) + b)


def modulated_stream(x: Tensor, b: Tensor, s: Tensor, g: Tensor, f: Map, norm: Map) -> Tensor:
    """Lose x: the modulated x is assigned to its name."""
    x = norm(x) * (1 + s) + b
    return x + g * f(x)


def parallel(x: Tensor, condition: Tensor, projection: Map, norm: Map, mixer: Map, mlp: Map) -> Tensor:
    """Give both branches the block's input."""
    b1, s1, g1, b2, s2, g2 = pieces(projection, condition)
    return x + g1 * mixer(norm(x) * (1 + s1) + b1) + g2 * mlp(norm(x) * (1 + s2) + b2)


def shut() -> nn.Module:
    """Return a projection of zeros, as it stands before training."""
    made = nn.Linear(4, 24).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
    return made


LEARNED: dict[str, Any] = {"x": X, "condition": C, "projection": filled(nn.Linear(4, 24)), "norm": Part(4)}
LEARNED |= {"mixer": Part(4, 1), "mlp": Part(4, 2)}

ADALN_ZERO_FORWARD = Exercise(
    reference=block,
    also_right=(variant(right),),
    observe=observe_block,
    properties=(
        Property(
            "a projection of zeros leaves x as it is",
            lambda f: close(forward(f, only()), X, "with a projection of zeros the output"),
        ),
        Property(
            "mixer and MLP return 0: the output is x",
            lambda f: close(forward(f, mixer=nothing, mlp=nothing), X, "with branches that return 0 the output"),
        ),
        Property(
            "the third piece is the mixer's gate", lambda f: agrees(f, "with that piece alone the output", only(2))
        ),
        Property(
            "pieces one to three are the mixer's", lambda f: agrees(f, "with these alone the output", only(0, 1, 2))
        ),
        Property("pieces four to six are the MLP's", lambda f: agrees(f, "with these alone the output", only(3, 4, 5))),
        Property("both branches, one after the other", lambda f: agrees(f, "the output")),
        Property("the gradients of x, the condition and all four parts", same_gradients(block, LEARNED), hints=()),
        Property(
            "with a projection of zeros its gates have a gradient",
            same_gradients(block, LEARNED | {"projection": shut()}),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            variant(modulated_stream),
            "a modulated x that overwrites the stream",
            "Give what the branch sees a name of its own, and add to the x that came in.",
        ),
        Mistake(
            lambda x, c, p, n, mixer, mlp: block(x, c, p, n, mixer, mixer),
            "a mixer in the place of the MLP",
            "Ask `mlp` in the second branch.",
        ),
        Mistake(
            parallel,
            "an MLP whose input is the x from before the mixer",
            "Let the second branch start from what the first has made of x.",
        ),
        Mistake(
            variant(lambda x, b, s, g, f, n: x + g * f(n(x) * s + b)),
            "scale where 1 + scale was asked for",
            "Add 1 to the scale.",
        ),
        Mistake(
            variant(lambda x, b, s, g, f, n: g * (x + f(n(x) * (1 + s) + b))),
            "a gate on the whole stream, so that a shut one loses x",
            "Gate the branch, then add.",
        ),
        Mistake(
            variant(lambda x, b, s, g, f, n: x + (1 + g) * f(n(x) * (1 + s) + b)),
            "a gate that starts at 1",
            "Multiply by the gate as it is: at 0 the branch adds nothing.",
        ),
        Mistake(
            variant(lambda x, b, s, g, f, n: g * f(n(x) * (1 + s) + b)),
            "a branch without its skip",
            "Add x to each branch.",
        ),
        Mistake(
            variant(lambda x, b, s, g, f, n: x + f(g * (n(x) * (1 + s) + b))),
            "a gate before the layer",
            "Gate the layer's output, not its input.",
        ),
        Mistake(
            variant(lambda x, b, s, g, f, n: x + g * f(x * (1 + s) + b)),
            "branches without their norm",
            "Give each branch norm(x), modulated.",
        ),
        Mistake(variant(right, "gbsgbs"), "gates that are cut off first", "The order is shift, scale, gate."),
        Mistake(variant(right, "sbgsbg"), "shift and scale exchanged", "Of three pieces the first is the shift."),
        Mistake(
            lambda x, c, p, n, mixer, mlp: block(x, c, lambda c: p(c).roll(12, -1), n, mixer, mlp),
            "the MLP's three pieces given to the mixer, and the mixer's to the MLP",
            "The first three belong to the mixer.",
        ),
    ),
    hints=(
        "Which x does the MLP's norm see: the one that came in, or the one that the mixer has added to?",
        "`.chunk(6, dim=-1)` cuts the projection into six; they need an axis of 1 for the positions. Both branches "
        "have one form: x plus the gate times the layer of the modulated norm.",
    ),
)

EXERCISES = {"adaln_zero_forward": ADALN_ZERO_FORWARD}
