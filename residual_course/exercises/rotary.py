"""Exercise on the rotary embedding: rotate pairs of features by an angle for each position."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients
from residual_edu.parts import rotary_angles, rotate

Rotation = Callable[[Tensor, Tensor], Tensor]
Halves = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

# The features i and i + d/2 are the two coordinates of one hand.


def by_halves(turn: Halves) -> Rotation:
    """Return an answer whose two halves are ``rule(first, second, cos, sin)``."""

    def rotation(x: Tensor, angles: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat(turn(a, b, angles.cos(), angles.sin()), dim=-1)

    return rotation


def reference(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return both coordinates after the rotation."""
    return a * cos - b * sin, a * sin + b * cos


def one_after_the_other(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate the first coordinate, and use the rotated one for the second."""
    a = a * cos - b * sin
    return a, a * sin + b * cos


def repeated_beside(x: Tensor, angles: Tensor) -> Tensor:
    """Repeat each angle in adjacent slots, and pair each feature with that half a head away."""
    cos, sin = (turn.repeat_interleave(2, dim=-1) for turn in (angles.cos(), angles.sin()))
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


def adjacent(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the features 2i and 2i + 1: a rotation too, of other pairs."""
    a, b = reference(x[..., ::2], x[..., 1::2], angles.cos(), angles.sin())
    return torch.stack([a, b], dim=-1).flatten(-2)


def woven(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the right pairs, and interleave the results."""
    a, b = x.chunk(2, dim=-1)
    a, b = reference(a, b, angles.cos(), angles.sin())
    return torch.stack([a, b], dim=-1).flatten(-2)


def asked(f: Rotation, x: Tensor, angles: Tensor) -> Tensor:
    """Return an answer's output for ``x``, which has a position for each row of ``angles``."""
    return run(f, x, angles, like=x)


def quarter_turn(f: Rotation) -> None:
    """Test one pair that is rotated by a quarter turn more at each position."""
    angles = torch.arange(4).double()[:, None] * torch.pi / 2
    x = torch.tensor([1.0, 0]).double().expand(4, 2)
    want = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    close(asked(f, x, angles), want.double(), "(1, 0), turned by 0, 1, 2 and 3 quarters,")


def keeps_lengths(f: Rotation) -> None:
    """Test that a rotation changes no length."""
    x = draw(6, 8)
    close(asked(f, x, rotary_angles([6], 8)).norm(dim=-1), x.norm(dim=-1), "the length of a token")


def relative(f: Rotation) -> None:
    """Test that equal distances have equal scores."""
    q, k = (asked(f, draw(8, seed=seed).expand(7, 8), rotary_angles([7], 8)) for seed in (0, 1))
    scores = q @ k.mT
    close(scores[5, 6], scores[0, 1], "the score of positions 5 and 6, against that of 0 and 1,")


def same_values(f: Rotation) -> None:
    """Test values for several shapes."""
    for shape in [(6, 8), (2, 6, 8), (2, 3, 6, 8), (1, 8), (5, 2)]:
        x, angles = draw(*shape), draw(shape[-2], shape[-1] // 2, seed=1)
        close(asked(f, x, angles), rotate(x, angles), f"for shape {shape} the output")


ROTATE_PAIRS = Exercise(
    reference=by_halves(reference),
    also_right=(rotate,),
    observe=lambda f: run(f, draw(6, 8), rotary_angles([6], 8, base=10.0)),
    properties=(
        Property("a quarter turn takes (1, 0) to (0, 1), and two to (-1, 0)", quarter_turn),
        Property("lengths stay", keeps_lengths),
        Property("positions 5 and 6 score as 0 and 1 do", relative),
        Property("the features i and i + d/2 are a pair, with any number of axes before them", same_values),
        Property(
            "gradients reach x and the angles",
            same_gradients(rotate, {"x": draw(2, 6, 8), "angles": draw(6, 4, seed=1)}),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            repeated_beside,
            "angles repeated side by side, for pairs that stand half a head apart",
            "The features i and i + d/2 need the same angle: repeat the whole row, `torch.cat([angles, angles], -1)`.",
        ),
        Mistake(
            by_halves(lambda a, b, c, s: (a * c + b * s, b * c - a * s)),
            "a turn the other way round",
            "Check it with a quarter turn: (1, 0) becomes (0, 1).",
        ),
        Mistake(
            by_halves(lambda a, b, c, s: (a * c + b * s, a * s + b * c)),
            "two plus signs, which is no rotation",
            "One of the four terms is negative: a · cos - b · sin.",
        ),
        Mistake(
            by_halves(lambda a, b, c, s: (a * c - b * s, a * s - b * c)),
            "a mirror, not a rotation",
            "The second row is a · sin + b · cos.",
        ),
        Mistake(
            by_halves(one_after_the_other),
            "a second half that was made from the new first",
            "Compute both from the old ones; give the results new names.",
        ),
        Mistake(
            by_halves(lambda a, b, c, s: (a * c, b * c)),
            "the cosine alone, which shrinks",
            "The sine brings in the other of the pair.",
        ),
        Mistake(
            by_halves(lambda a, b, c, s: (a * c - b * s, b)),
            "one coordinate turned, the other left",
            "Both coordinates of a pair change: a · sin + b · cos.",
        ),
        Mistake(
            by_halves(lambda a, b, c, s: reference(a, b, c, s)[::-1]),
            "the two halves in each other's place",
            "The first half comes first in `torch.cat`.",
        ),
        Mistake(
            adjacent,
            "a rotation of the pairs (2i, 2i + 1)",
            "It is a rotation, of other pairs than asked for: split with `x.chunk(2, dim=-1)`.",
        ),
        Mistake(
            woven, "the right turn, woven together", "Put the halves one after the other: `torch.cat`, not `stack`."
        ),
        Mistake(
            by_halves(lambda a, b, c, s: (a * s - b * c, a * c + b * s)),
            "sine and cosine in each other's place",
            "At angle 0 nothing may change: the cosine stands by the feature itself.",
        ),
    ),
    hints=(
        "Where does the point (a, b) go, turned by an angle about the origin?",
        "`x.chunk(2, dim=-1)` gives both coordinates of all pairs. Each new one is a sum of two products of the old.",
    ),
)

EXERCISES = {"rotate_pairs": ROTATE_PAIRS}
