"""Exercise on the update-to-data ratio: the size of one step over the size of the weight."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run

Ratio = Callable[[Tensor, Tensor], Tensor]


def rms(x: Tensor) -> Tensor:
    """Return the root mean square."""
    return x.square().mean().sqrt()


def ratio(before: Tensor, after: Tensor) -> Tensor:
    """Return the size of a step over the size of the weight before it."""
    return rms(after - before) / rms(before)


def is_the_ratio(f: Ratio, before: Tensor, step: Tensor) -> None:
    """Test one weight and one step."""
    want = ratio(before, before + step)
    close(run(lambda a, b: torch.as_tensor(f(a, b)), before, before + step), want, "the ratio", 1e-4)


def any_axes(f: Ratio) -> None:
    """Test weights of no axis, one and three."""
    for shape in ((), (4,), (2, 3, 4)):
        is_the_ratio(f, draw(*shape) + 1, 0.1 * draw(*shape, seed=1))


EVEN = torch.full((3, 4), 2.0, dtype=torch.float64)
SIGNS = torch.tensor([0.02, -0.02, 0.02, -0.02], dtype=torch.float64)
BIASED = draw(5, 3) + 1

UPDATE_RATIO = Exercise(
    reference=ratio,
    also_right=(lambda before, after: (after - before).norm() / before.norm(), lambda a, b: float(ratio(a, b))),
    observe=lambda f: run(lambda a, b: torch.as_tensor(f(a, b)), BIASED, BIASED + 0.1 * draw(5, 3, seed=1)),
    properties=(
        Property("all weights 2, each moved by 0.02: 0.01", lambda f: is_the_ratio(f, EVEN, SIGNS)),
        Property("any weights and any step", lambda f: is_the_ratio(f, draw(5, 3) + 1, 0.1 * draw(5, 3, seed=1))),
        Property("a weight of 0 among others does no harm", lambda f: is_the_ratio(f, torch.eye(3), 0.1 * EVEN[:, :3])),
        Property("weights with any number of axes, one number too", any_axes),
        Property("no step, no ratio: 0", lambda f: is_the_ratio(f, draw(4), torch.zeros(4))),
    ),
    mistakes=(
        Mistake(lambda a, b: ((b - a) / a).abs().mean(), "a mean of ratios", "Divide once, one size by one size."),
        Mistake(lambda a, b: rms(b - a) / rms(b), "the weight after the step", "Divide by the size before the step."),
        Mistake(
            lambda a, b: (rms(b) - rms(a)).abs() / rms(a), "a change of size", "A weight can turn: subtract first."
        ),
        Mistake(
            lambda a, b: (b - a).mean().abs() / rms(a), "a mean of signed steps", "Square the steps, then average."
        ),
        Mistake(lambda a, b: (ratio(a, b)).square(), "a ratio of squares", "Take the root of both."),
        Mistake(lambda a, b: ratio(a, b).log10(), "a logarithm", "Return the ratio itself; plot it on a log axis."),
        Mistake(lambda a, b: rms(b - a), "the step alone", "Divide by the size of the weight before it."),
        Mistake(lambda a, b: rms(b - a) / a.std(), "a spread about the mean", "Do not take the weights' mean away."),
        Mistake(lambda a, b: rms(a) / rms(b - a), "a ratio upside down", "The step goes on top."),
        Mistake(
            lambda a, b: (b - a).abs().max() / a.abs().max(), "the largest numbers", "Use the root mean square of each."
        ),
    ),
    hints=(
        "Two root mean squares: of what the step changed, and of what was there before.",
        "The step is a subtraction. Square it number by number before you average, and take the root last.",
    ),
)

EXERCISES = {"update_ratio": UPDATE_RATIO}
