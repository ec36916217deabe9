"""Exercise on DropPath: one Bernoulli draw for each sample."""

from collections.abc import Callable, Sequence
from itertools import product

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

Gate = Callable[[Tensor, Tensor, float], Tensor]

# One draw for each sample: u is uniform on [0, 1), and the sample stays where u >= p.

U = torch.tensor([0.1, 0.25, 0.9], dtype=torch.float64)
SQUARE = draw(3, 3) + 3  # as many features as samples, so that draws along the wrong axis fit


def per_sample(branch: Tensor, u: Tensor, p: float) -> Tensor:
    """Return the samples that stay divided by 1 - p, and 0 for the others."""
    return branch * (u >= p).view(-1, *[1] * (branch.ndim - 1)) / (1 - p)


def _drops(rates: Sequence[float], *shapes: tuple[int, ...]) -> Callable[[Gate], None]:
    def test(f: Gate) -> None:
        for p, shape in product(rates, shapes):
            branch, u = draw(*shape) + 3, U[: shape[0]]
            got = run(lambda branch, u, p=p: f(branch, u, p), branch, u, like=branch)
            close(got, per_sample(branch, u, p), f"for p = {p} and shape {shape} the output")

    return test


def _whole_samples(f: Gate) -> None:
    got = run(lambda branch: f(branch, U.clone(), 0.25), torch.ones(3, 4, dtype=torch.float64))
    close((got != 0).double().mean(-1), torch.tensor([0.0, 1.0, 1.0]), "the share of each sample that stays")


DROP_PATH = Exercise(
    reference=per_sample,
    observe=lambda f: run(lambda branch: f(branch, U.clone(), 0.25), SQUARE),
    properties=(
        Property("a sample stays or goes as a whole", _whole_samples),
        Property("the sample with u = 0.1 goes at p = 0.25, the others are divided by 0.75", _drops([0.25], (3, 3))),
        Property("any rate will do", _drops([0.0, 0.05, 0.5, 0.85], (3, 5), (1, 4))),
        Property("any number of axes will do", _drops([0.25], (3,), (3, 2, 4), (3, 2, 2, 5))),
        Property(
            "a dropped sample sends no gradient back, a kept one 1/(1 - p) of it",
            same_gradients(per_sample, {"branch": draw(3, 4), "u": U, "p": 0.25}),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            lambda b, u, p: per_sample(b, u, p) * (1 - p),
            "dropping without scaling",
            "Divide what stays by 1 - p.",
        ),
        Mistake(
            lambda b, u, p: per_sample(b, u, p) * (1 - p) / p,
            "a division by the share that goes",
            "Divide by the share that stays.",
        ),
        Mistake(
            lambda b, u, p: b / (1 - p) - per_sample(b, u, p), "coins read upside down", "A sample stays where u >= p."
        ),
        Mistake(
            lambda b, u, p: b * (u >= p) / (1 - p),
            "a draw for each feature: u was aligned with the last axis",
            "Give u an axis of 1 for each axis after the samples: `u.view(-1, 1, 1)` for three axes.",
        ),
    ),
    hints=(
        "Compare u with p first: one yes or no for each sample. Which shape lets it meet a branch of three axes?",
        "`u >= p` needs as many axes as the branch, each of length 1 but the first: `.view(-1, 1, 1)` for three.",
    ),
)

EXERCISES = {"drop_path": DROP_PATH}
