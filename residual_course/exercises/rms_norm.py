"""Exercise on RMSNorm: write the class."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import (
    Exercise,
    Mistake,
    Property,
    Unmet,
    close,
    construct,
    draw,
    filled,
    gradients,
    run,
    same_gradients,
)
from residual_edu.parts import RMSNorm, rms_norm

Maker = Callable[..., nn.Module]


def mean_square(x: Tensor) -> Tensor:
    """Return each row's mean of squares, its axis kept."""
    return x.square().mean(-1, keepdim=True)


def made(forward: Callable[[Tensor, Tensor, float], Tensor], start: Callable[[int], Tensor] = torch.ones) -> Maker:
    """Return a class that applies ``forward(x, weight, eps)``; its ``weight`` begins as ``start(dim)``."""

    class MyRMSNorm(nn.Module):
        def __init__(self, dim: int, eps: float = 1e-6) -> None:
            super().__init__()
            self.eps = eps
            self.weight = nn.Parameter(start(dim))

        def forward(self, x: Tensor) -> Tensor:
            return forward(x, self.weight, self.eps)

    return MyRMSNorm


class Frozen(nn.Module):
    """A gain that is no parameter."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = torch.ones(dim, dtype=torch.float64), eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis of ``x``."""
        return rms_norm(x, self.weight.to(x.dtype), self.eps)


def with_gain(maker: Maker, gain: Tensor, eps: float = 1e-6) -> nn.Module:
    """Return a module of ``maker`` in float64 whose gain is ``gain``."""
    module = construct(maker, len(gain), eps)
    with torch.no_grad():
        gain_of(module).copy_(gain)
    return module


def gain_of(module: nn.Module) -> Tensor:
    """Return the module's only parameter, ``weight``, or raise ``Unmet``."""
    names = [name for name, _ in module.named_parameters()]
    if names != ["weight"]:
        raise Unmet(f"its parameters are {names or 'none'}, where `weight` alone was asked for")
    return module.get_parameter("weight")


def _one_gain(maker: Maker) -> None:
    close(gain_of(construct(maker, 4)), torch.ones(4), "the gain of a new module")


def _three_four(maker: Maker) -> None:
    x = torch.tensor([3.0, 4.0], dtype=torch.float64)
    close(run(construct(maker, 2), x, like=x), x / 12.5**0.5, "the output for [3, 4]")


def _any_shape(maker: Maker) -> None:
    for seed, shape in enumerate([(4,), (3, 5), (2, 3, 8)]):
        x = draw(*shape, seed=seed) + 1
        close(run(construct(maker, shape[-1]), x, like=x), rms_norm(x), f"the output for shape {shape}")


def _small_rows(maker: Maker) -> None:
    x = 1e-3 * draw(3, 4)
    close(
        run(construct(maker, 4, 1e-4), x), rms_norm(x, eps=1e-4), "with eps = 1e-4, the output for rows of size 0.001"
    )


def _gain_multiplies(maker: Maker) -> None:
    x, gain = draw(3, 5), draw(5, seed=1)
    close(run(with_gain(maker, gain), x), rms_norm(x, gain), "the output with another gain")


def _float32(maker: Maker) -> None:
    run(construct(maker, 4).float(), x := draw(2, 4, dtype=torch.float32), like=x)


def _evaluates(maker: Maker) -> None:
    x, gain = draw(3, 5), draw(5, seed=1)
    close(run(with_gain(maker, gain).eval(), x), rms_norm(x, gain), "after `eval()` the output")


def _called(maker: Maker, x: Tensor) -> tuple[Tensor, nn.Module]:
    return (module := filled(maker(5, 1e-2)))(x), module


def observe(maker: Maker) -> Any:
    """Return outputs and gradients of a new module and of one with another gain, in float64."""
    x = draw(3, 5, seed=7) + 1
    module = construct(maker, 5, 1e-2)
    before = [p.detach().clone() for p in module.parameters()]
    for parameter in module.parameters():
        torch.nn.init.constant_(parameter, 2.0)
    return before, run(module, x), run(module, 0.1 * x), gradients(module, x)


RMS_NORM = Exercise(
    reference=made(lambda x, weight, eps: x * (mean_square(x) + eps).rsqrt() * weight),
    also_right=(nn.RMSNorm, RMSNorm),
    observe=observe,
    properties=(
        Property("it has one parameter, `weight`, a one per feature", _one_gain),
        Property("[3, 4] is divided by the root of 12.5", _three_four),
        Property("each row is normalised by itself, whatever axes stand before", _any_shape),
        Property("eps stands inside the root", _small_rows),
        Property("the gain multiplies the normalised row", _gain_multiplies),
        Property("float32 stays float32", _float32, hints=()),
        Property("evaluation changes nothing", _evaluates, hints=()),
        Property(
            "gradients reach x, through the root mean square too, and the gain",
            same_gradients(RMSNorm, {"x": draw(3, 5)}, call=_called),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            made(lambda x, w, eps: rms_norm(x - x.mean(-1, keepdim=True), w, eps)),
            "LayerNorm: the mean is subtracted",
            "RMSNorm leaves the mean where it is; divide x itself.",
        ),
        Mistake(
            made(lambda x, w, eps: rms_norm(x, None, eps) + 0 * w),
            "a gain that exists and is never used",
            "Multiply by `self.weight` at the end.",
        ),
        Mistake(
            made(lambda x, w, eps: rms_norm(x, w, eps), torch.zeros),
            "a gain that begins at 0, which silences the layer",
            "Begin with `torch.ones(dim)`.",
        ),
        Mistake(
            Frozen,
            "a gain that is a plain tensor, which no optimiser will find",
            "Wrap it: `self.weight = nn.Parameter(torch.ones(dim))`.",
        ),
        Mistake(
            made(lambda x, w, eps: x / (mean_square(x).sqrt() + eps) * w),
            "eps added outside the root",
            "Add eps to the mean of the squares, then take the root.",
        ),
        Mistake(
            made(lambda x, w, eps: rms_norm(x, w, 0.0)),
            "a division without any eps",
            "Add `self.eps` to the mean of the squares: a row of zeros is 0/0 without it.",
        ),
        Mistake(
            made(lambda x, w, eps: x / (x.square().sum(-1, keepdim=True) + eps).sqrt() * w),
            "the sum of the squares: every row comes out with length 1, not sqrt(d)",
            "Take their mean; that is the M in RMS.",
        ),
        Mistake(
            made(lambda x, w, eps: x / (mean_square(x) + eps) * w),
            "a division by the mean square, without the root",
            "Divide by its square root.",
        ),
        Mistake(
            made(lambda x, w, eps: x / (x.square().mean() + eps).sqrt() * w),
            "one root mean square for all rows together",
            "Average over `dim=-1` alone, and keep the axis.",
        ),
        Mistake(
            made(lambda x, w, eps: x / (x.square().mean(-1) + eps).sqrt() * w),
            "a mean whose axis is gone, so that it no longer lines up with its row",
            "Keep it: `x.square().mean(dim=-1, keepdim=True)`.",
        ),
        Mistake(
            made(lambda x, w, eps: x / (mean_square(x) + eps).sqrt() + w - 1),
            "the gain added, as a bias would be",
            "A gain multiplies.",
        ),
    ),
    hints=(
        "Which two lines of LayerNorm fall away when the mean stays?",
        "The gain is an `nn.Parameter` of ones. The mean of the squares keeps its axis; eps is added before the root.",
    ),
)

EXERCISES = {"rms_norm": RMS_NORM}
