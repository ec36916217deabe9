"""Exercises on a norm over the wrong axis: a test of what a token can see, and the mend."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, run
from residual_course.checking.properties import tensor
from residual_course.checking.unchanged import unchanged

Model = Callable[[Tensor], Tensor]
Test = Callable[[Model, Tensor], Any]

# Whether a position sees the last token

WEIGHT = draw(2, 3, seed=1)
FLIPS = (draw(5, 6, seed=2) > 0).long()


def alone(flips: Tensor) -> Tensor:
    """Return scores (batch, position, 3) that depend on each token alone."""
    return WEIGHT[flips]


def past(flips: Tensor) -> Tensor:
    """Return scores that depend on a token and on those before it."""
    return alone(flips).cumsum(1)


def everything(flips: Tensor) -> Tensor:
    """Return scores that depend on all tokens, a little."""
    return alone(flips) + 1e-4 * alone(flips).sum(1, keepdim=True)


def neighbour(flips: Tensor) -> Tensor:
    """Return scores that depend on the next token too."""
    return alone(flips) + alone(flips.roll(-1, 1))


def one_score(flips: Tensor) -> Tensor:
    """Return scores of which one looks ahead, at position 1."""
    found = past(flips)
    found[:, 1, 2] += flips[:, -1]
    return found


def one_sequence(flips: Tensor) -> Tensor:
    """Return scores that look ahead in one sequence, at position 2."""
    found = past(flips)
    found[3, 2] += flips[3, -1, None]
    return found


def falling(flips: Tensor) -> Tensor:
    """Return scores that are smaller at position 0 if the last token is another than in ``FLIPS``."""
    found = past(flips)
    found[:, 0] -= (flips[:, -1:] != FLIPS[:, -1:]).double()
    return found


def blind(flips: Tensor) -> Tensor:
    """Return scores that depend on no token but the first."""
    return alone(flips[:, :1]).expand(-1, flips.shape[1], -1)


def changed(flips: Tensor) -> Tensor:
    """Return the sequences with another last token."""
    other = flips.clone()
    other[:, -1] = 1 - other[:, -1]
    return other


def difference(model: Model, flips: Tensor) -> Tensor:
    """Return by how much each score changes."""
    return (model(changed(flips)) - model(flips)).abs()


def sees_last(model: Model, flips: Tensor) -> Tensor:
    """Return whether the scores at each position depend on the last token."""
    return difference(model, flips).amax(dim=(0, 2)) > 1e-6


def verdict(f: Test, model: Model) -> list[bool]:
    """Return what an answer says of each position."""
    flips = FLIPS.clone()
    with unchanged(flips=flips):
        found = f(model, flips)
    found = tensor(torch.tensor(found) if isinstance(found, list | tuple) else found, "it returned")
    if found.shape != FLIPS.shape[1:]:
        raise Broken(f"it returned shape {tuple(found.shape)}, where one value for each of 6 positions was asked for")
    if found.dtype != torch.bool and not bool(((found == 0) | (found == 1)).all()):
        raise Unmet("it returned numbers, where True or False was asked for")
    return found.bool().tolist()


def says(model: Model, *seen: int) -> Callable[[Test], None]:
    """Return a property's test: these positions see the last token."""

    def test(f: Test) -> None:
        found = [at for at, one in enumerate(verdict(f, model)) if one]
        if found != list(seen):
            raise Unmet(f"it is True at the positions {found}, where {list(seen)} is right")

    return test


MODELS = alone, past, everything, neighbour, one_score, one_sequence, falling, blind

SEES_LAST = Exercise(
    reference=sees_last,
    also_right=(
        lambda model, flips: [bool(one) for one in difference(model, flips).amax((0, 2)) > 1e-6],
        lambda model, flips: (difference(model, flips) > 1e-6).any(2).any(0),
        lambda model, flips: (difference(model, flips).transpose(0, 1).flatten(1).amax(1) > 1e-6).int(),
        lambda model, flips: (difference(model, flips).detach().numpy() > 1e-6).any((0, 2)),
        lambda model, flips: difference(model, flips).amax(0).amax(-1).gt(1e-6),
        lambda model, flips: torch.stack([one.max() > 1e-6 for one in difference(model, flips).unbind(1)]),
    ),
    observe=lambda f: [verdict(f, model) for model in MODELS],
    properties=(
        Property("tokens that stand alone", says(alone, 5)),
        Property("tokens that see those before them", says(past, 5)),
        Property("tokens that see all others", says(everything, *range(6))),
        Property("tokens that see the next one", says(neighbour, 4, 5)),
        Property("one that looks ahead in one score", says(one_score, 1, 5)),
        Property("one that looks ahead in one sequence", says(one_sequence, 2, 5)),
        Property("one whose scores fall", says(falling, 0, 5)),
        Property("tokens that see the first alone", says(blind)),
    ),
    mistakes=(
        Mistake(
            lambda model, flips: difference(model, flips).amax(dim=(0, 2)) <= 1e-6,
            "the opposite: True where nothing changed",
            "Return True where a score changed.",
        ),
        Mistake(
            lambda model, flips: (model(1 - flips) - model(flips)).abs().amax(dim=(0, 2)) > 1e-6,
            "all tokens replaced, so that each position sees its own change",
            "Change `[:, -1]` alone.",
        ),
        Mistake(
            lambda model, flips: (model(changed(flips.flip(1)).flip(1)) - model(flips)).abs().amax((0, 2)) > 1e-6,
            "the first token replaced",
            "The last one is `[:, -1]`.",
        ),
        Mistake(
            lambda model, flips: difference(model, flips)[0].amax(-1) > 1e-6,
            "the first sequence alone",
            "Take the maximum over the batch, axis 0, too.",
        ),
        Mistake(
            lambda model, flips: difference(model, flips)[..., 0].amax(0) > 1e-6,
            "one of the scores alone",
            "Take the maximum over the scores, axis 2, too.",
        ),
        Mistake(
            lambda model, flips: difference(model, flips).amax(dim=(0, 2)) > 0.1,
            "a bound that small changes pass under",
            "Compare with 1e-6.",
        ),
        Mistake(
            lambda model, flips: (difference(model, flips) > 1e-6).all(2).all(0),
            "True only where every score of every sequence changed",
            "One changed score is enough: take the maximum.",
        ),
        Mistake(
            lambda model, flips: (model(changed(flips)) - model(flips)).amax(dim=(0, 2)) > 1e-6,
            "changes upward alone",
            "Take the size of the difference, with abs().",
        ),
    ),
    hints=(
        "Call the model twice: with the sequences, and with a copy whose last token is the other one.",
        "The other token is 1 - flips[:, -1]. A score changed if the size of the difference exceeds 1e-6.",
    ),
)

# The mend

X, SMALL = 2 * draw(3, 4, 5, seed=4) + 1, 1e-3 * draw(2, 4, 5, seed=5)
Norm = type[nn.Module]


class Parts(nn.Module):
    """The gain and the bias of the handed norm."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))


def norm_of(forward: Callable[[Any, Tensor], Tensor]) -> Norm:
    """Return a class of norms with this ``forward``."""
    return type("HandedNorm", (Parts,), {"forward": forward})


def over(*axes: int, eps: float = 1e-5, correction: int = 0) -> Norm:
    """Return a norm whose mean and variance run over these axes."""

    def forward(norm: Any, x: Tensor) -> Tensor:
        c = x - x.mean(axes, keepdim=True)
        variance = x.var(axes, correction=correction, keepdim=True)
        return c / (variance + eps).sqrt() * norm.weight + norm.bias

    return norm_of(forward)


def drawn(f: Norm) -> nn.Module:
    """Return an answer's norm with a drawn gain and bias."""
    norm = f(5).double()
    with torch.no_grad():
        norm.weight.copy_(1 + draw(5, seed=6))
        norm.bias.copy_(draw(5, seed=7))
    return norm


def wanted(norm: Any, x: Tensor) -> Tensor:
    """Return what a norm over the features makes of x."""
    return F.layer_norm(x, (5,), norm.weight, norm.bias)


def normed(f: Norm, x: Tensor, what: str = "the output") -> None:
    """Test the output with a drawn gain and bias."""
    norm = drawn(f)
    close(run(norm, x, like=x), wanted(norm, x), what)


def separate(f: Norm) -> None:
    """Test that a changed last position changes no other."""
    norm, other = f(5).double(), X.clone()
    other[:, -1] = draw(3, 5, seed=8)
    before, after = run(norm, X, like=X), run(norm, other, like=X)
    close(after[:, :-1], before[:, :-1], "with another last position, the output before it")


def plain(f: Norm) -> None:
    """Test the output with a gain of 1 and no bias."""
    norm = f(5).double()
    close(run(norm, X, like=X), wanted(norm, X))


def backward(f: Norm) -> None:
    """Test the gradient of the gain and of x."""
    norm, leaf = drawn(f), X.clone().requires_grad_()
    found = torch.autograd.grad(run(norm, leaf).pow(2).sum(), [leaf, norm.weight])
    right = torch.autograd.grad(wanted(norm, leaf).pow(2).sum(), [leaf, norm.weight])
    for got, want, what in zip(found, right, ("x", "the gain"), strict=True):
        close(got, want, f"the gradient of {what}")


MENDED_NORM = Exercise(
    reference=over(-1),
    also_right=(
        norm_of(wanted),
        over(2),
        norm_of(
            lambda norm, x: (
                ((x - x.mean(2)[..., None]) / (x.var(2, False)[..., None] + 1e-5) ** 0.5).mul(norm.weight) + norm.bias
            )
        ),
        norm_of(lambda norm, x: torch.stack([wanted(norm, one) for one in x])),
        norm_of(lambda norm, x: torch.stack([wanted(norm, one) for one in x.unbind(1)], 1)),
        norm_of(lambda norm, x: wanted(norm, x.flatten(0, 1)).view_as(x)),
        norm_of(lambda norm, x: torch.addcmul(norm.bias, F.layer_norm(x, x.shape[2:]), norm.weight)),
    ),
    observe=lambda f: (drawn(f)(X), f(5).double()(X), drawn(f)(SMALL)),
    properties=(
        Property("no position sees the last", separate),
        Property("the features are normalised", plain),
        Property("gain and bias are used", lambda f: normed(f, X)),
        Property("small rows, where eps counts", lambda f: normed(f, SMALL)),
        Property("gradients reach x and the gain", backward, hints=()),
    ),
    mistakes=(
        Mistake(over(1), "the norm as it was handed over", "The features are the last axis: -1, in both means."),
        Mistake(over(1, 2), "a norm over positions and features", "Take the features alone: -1."),
        Mistake(over(0), "a norm over the batch, as BatchNorm's", "Take the features alone: -1."),
        Mistake(over(0, 1), "a norm over batch and positions, as BatchNorm's", "Take the features alone: -1."),
        Mistake(
            norm_of(
                lambda norm, x: (
                    (x - x.mean(-1, keepdim=True))
                    / ((x - x.mean(-1, keepdim=True)).square().mean(1, keepdim=True) + 1e-5).sqrt()
                    * norm.weight
                    + norm.bias
                )
            ),
            "a mean over the features, and still a variance over the positions",
            "Change the axis in the second mean too.",
        ),
        Mistake(over(-1, correction=1), "a variance divided by n - 1", "Divide by n: take the mean of the squares."),
        Mistake(
            norm_of(lambda norm, x: F.layer_norm(x, (5,))), "no gain and no bias", "Keep `* self.weight + self.bias`."
        ),
        Mistake(
            norm_of(lambda norm, x: F.layer_norm(x, (5,), norm.weight)), "no bias", "Keep `+ self.bias` at the end."
        ),
        Mistake(over(-1, eps=0.0), "no eps", "Keep `+ 1e-5` inside the root."),
    ),
    hints=(
        "x has the shape (batch, position, feature). Which of its axes is 1, and which is -1?",
        "There are two means, one in c and one in s. Both run over the features.",
    ),
)

EXERCISES = {"sees_last": SEES_LAST, "mended_norm": MENDED_NORM}
