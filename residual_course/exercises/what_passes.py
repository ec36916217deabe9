"""Exercise on group norms: which part of a vector that is added to every pixel can change the norm's output."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, close, draw, run, same_gradients

Answer = Callable[[Tensor, int], Tensor]
CASES = ((3, 12, 4), (2, 12, 6), (5, 8, 1), (1, 6, 2), (4, 6, 3))  # batch, channels, groups


def passing(vector: Tensor, groups: int) -> Tensor:
    """Return the vector less the mean of each group of its channels."""
    split = vector.unflatten(1, (groups, -1))
    return (split - split.mean(-1, keepdim=True)).flatten(1)


def looped(vector: Tensor, groups: int) -> Tensor:
    """Return the same, a group at a time."""
    return torch.cat([part - part.mean(1, keepdim=True) for part in vector.chunk(groups, dim=1)], dim=1)


def passed(f: Answer, batch: int, channels: int, groups: int, shift: float = 0.0) -> Tensor:
    """Return an answer's result for a drawn vector."""
    vector = draw(batch, channels, seed=channels + groups) + shift
    return run(lambda vector: f(vector, groups), vector, like=vector)


def _all_groups(f: Answer) -> None:
    for batch, channels in ((2, 6), (3, 1)):
        got = passed(f, batch, channels, channels, 3.0)
        if got.abs().max() > 1e-9:
            raise Unmet(f"with {channels} groups of one channel it returned {got.abs().max():.3g}, where 0 is right")


def _same_norm(f: Answer) -> None:
    for batch, channels, groups in CASES:
        vector, h = draw(batch, channels, seed=channels + groups), draw(batch, channels, 3, 3, seed=9)
        got = passed(f, batch, channels, groups)
        wanted = F.group_norm(h + vector[:, :, None, None], groups)
        what = f"GroupNorm({groups}, {channels}) of h plus your vector, beside that of h plus the whole vector, "
        close(F.group_norm(h + got[:, :, None, None], groups), wanted, what, rtol=1e-5)


def _nothing_more(f: Answer) -> None:
    for batch, channels, groups in CASES:
        vector = draw(batch, channels, seed=channels + groups)
        close(passed(f, batch, channels, groups), passing(vector, groups), f"{channels} channels, {groups} groups: it")


GRADIENT = same_gradients(lambda vector: passing(vector, 2), {"vector": draw(3, 4)})

WHAT_PASSES = Exercise(
    reference=passing,
    also_right=(looped,),
    observe=lambda f: [passed(f, 3, 12, 4, 0.5), passed(f, 2, 6, 6, 0.5), passed(f, 5, 8, 1, 0.5)],
    properties=(
        Property("with one channel in each group nothing passes", _all_groups),
        Property("the norm of h plus this is the norm of h plus the whole vector", _same_norm),
        Property("nothing is left that has no effect: each group's mean is 0", _nothing_more),
        Property(
            "the gradient reaches the vector",
            lambda f: GRADIENT(lambda vector: f(vector, 2)),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            lambda vector, groups: vector - vector.mean(1, keepdim=True),
            "the mean of all channels removed, whatever the groups are",
            "A group norm subtracts one mean for each group.",
        ),
        Mistake(
            lambda vector, groups: (
                vector.unflatten(1, (groups, -1))
                .mean(-1, keepdim=True)
                .expand(-1, -1, vector.shape[1] // groups)
                .flatten(1)
            ),
            "the part that is lost",
            "The norm subtracts this part. What is left of the vector?",
        ),
        Mistake(
            lambda vector, groups: (
                vector.unflatten(1, (-1, groups)) - vector.unflatten(1, (-1, groups)).mean(-1, keepdim=True)
            ).flatten(1),
            "groups as large as their number",
            "`groups` is how many groups there are; each has channels / groups channels.",
        ),
        Mistake(
            lambda vector, groups: (
                vector.unflatten(1, (-1, groups)) - vector.unflatten(1, (-1, groups)).mean(1, keepdim=True)
            ).flatten(1),
            "every so many channels taken for a group",
            "The channels of a group stand next to each other.",
        ),
        Mistake(
            lambda vector, groups: F.group_norm(vector[..., None], groups)[..., 0],
            "a norm of the vector, which divides it too",
            "The division is by the spread of h and the vector together; here only the mean is removed.",
        ),
        Mistake(
            lambda vector, groups: vector - vector.mean(0, keepdim=True),
            "the mean over the samples removed",
            "A group norm looks at one sample at a time.",
        ),
        Mistake(
            lambda vector, groups: vector if groups < vector.shape[1] else torch.zeros_like(vector),
            "the whole vector wherever a group has two channels",
            "A group of two channels still loses one number, their mean.",
        ),
        Mistake(
            lambda vector, groups: torch.zeros_like(vector), "nothing at all", "What differs within a group stays."
        ),
    ),
    hints=(
        "Take one group of two channels, to which 3 and 5 are added. Which mean does the norm subtract?",
        "`vector.unflatten(1, (groups, -1))` puts the channels of a group on an axis of their own.",
    ),
)

EXERCISES = {"what_passes": WHAT_PASSES}
