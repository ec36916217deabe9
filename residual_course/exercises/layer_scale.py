"""Exercise on LayerScale: write the class."""

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
    run,
    same_gradients,
)
from residual_course.checking.seen import seen
from residual_edu.parts import LayerScale

Maker = Callable[..., nn.Module]


def made(forward: Callable[[Tensor, Tensor], Tensor], start: Callable[[int, float], Tensor] | None = None) -> Maker:
    """Return a class that applies ``forward(x, gamma)``; its ``gamma`` begins as ``start(dim, init_value)``."""

    class MyLayerScale(nn.Module):
        def __init__(self, dim: int, init_value: float = 1e-4) -> None:
            super().__init__()
            self.gamma = nn.Parameter(start(dim, init_value) if start else torch.full((dim,), float(init_value)))

        def forward(self, x: Tensor) -> Tensor:
            return forward(x, self.gamma)

    return MyLayerScale


class Frozen(nn.Module):
    """Gates that are no parameters."""

    def __init__(self, dim: int, init_value: float = 1e-4) -> None:
        super().__init__()
        self.gamma = torch.full((dim,), float(init_value), dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """Scale the last axis of ``x``."""
        return x * self.gamma.to(x.dtype)


def gates(module: nn.Module) -> Tensor:
    """Return the module's only parameter, ``gamma``, or raise ``Unmet``."""
    names = [name for name, _ in module.named_parameters()]
    if names != ["gamma"]:
        raise Unmet(f"its parameters are {names or 'none'}, where `gamma` alone was asked for")
    return module.get_parameter("gamma")


def with_gates(maker: Maker, gamma: Tensor) -> nn.Module:
    """Return a module of ``maker`` in float64 whose gates are ``gamma``."""
    module = construct(maker, len(gamma), 0.5)
    with torch.no_grad():
        gates(module).copy_(gamma)
    return module


def _starts(maker: Maker) -> None:
    close(gates(construct(maker, 3, 0.25)), torch.full((3,), 0.25), "gamma of a new module with init_value 0.25", 1e-6)
    close(gates(construct(maker, 3)), torch.full((3,), 1e-4), "gamma of a new module", 1e-6)


def _whole_start(maker: Maker) -> None:
    for start in (0, 1):
        close(
            gates(construct(maker, 3, start)), torch.full((3,), start).double(), f"gamma with init_value {start}", 1e-6
        )


def _in_eval(maker: Maker) -> None:
    module, x, gamma = with_gates(maker, draw(4, seed=1)).eval(), draw(3, 4), draw(4, seed=1)
    close(run(module, x, like=x), x * gamma, "after `eval()` the output")


def _scales(maker: Maker) -> None:
    x, gamma = draw(3, 4), draw(4, seed=1)
    close(run(with_gates(maker, gamma), x, like=x), x * gamma, "the output")


def _any_shape(maker: Maker) -> None:
    for shape in [(4,), (4, 4), (2, 3, 4)]:
        x, gamma = draw(*shape), draw(4, seed=1)
        close(run(with_gates(maker, gamma), x, like=x), x * gamma, f"the output for shape {shape}")


def _called(maker: Maker, x: Tensor) -> tuple[Tensor, nn.Module]:
    return (module := filled(maker(4)))(x), module


def _float32(maker: Maker) -> None:
    run(construct(maker, 4).float(), x := draw(2, 4, dtype=torch.float32), like=x)


def observe(maker: Maker) -> Any:
    """Return the parameters of two new modules, and values and gradients of one, in float64."""
    new, module = construct(maker, 4), construct(maker, 4, 0.5)
    before = [p.detach().clone() for p in (*new.parameters(), *module.parameters())]
    x = draw(4, 4, seed=7) + 1  # as many rows as channels, so that gates along the wrong axis fit
    y = run(module, x)
    asking = [p for p in module.parameters() if p.requires_grad]
    found = torch.autograd.grad(y.square().sum(), asking, allow_unused=True) if asking and y.requires_grad else []
    other = seen(lambda: run(module, draw(2, 6, 4, seed=8)).detach())
    learns = [p.requires_grad for p in module.parameters()]
    return before, learns, y.detach(), [str(g) if g is None else g for g in found], other


LAYER_SCALE = Exercise(
    reference=made(lambda x, gamma: x * gamma),
    also_right=(LayerScale, made(lambda x, gamma: gamma * x)),
    observe=observe,
    properties=(
        Property("it has one parameter, `gamma`, which starts at init_value, by default 1e-4", _starts),
        Property("each channel is multiplied by its own gamma", _scales),
        Property("any number of axes may stand before the channels", _any_shape),
        Property(
            "gradients reach the branch and gamma",
            same_gradients(LayerScale, {"x": draw(3, 4)}, call=_called),
            hints=(),
        ),
        Property("an init_value of 0 or 1, a whole number, will do", _whole_start, hints=()),
        Property("evaluation changes nothing", _in_eval, hints=()),
        Property("float32 stays float32", _float32, hints=()),
    ),
    mistakes=(
        Mistake(
            made(lambda x, gamma: x * gamma, lambda dim, start: torch.tensor(float(start))),
            "one gate for all channels",
            "Make `gamma` as long as the channels: `torch.full((dim,), float(init_value))`.",
        ),
        Mistake(
            made(lambda x, gamma: x * gamma, lambda dim, start: torch.ones(dim)),
            "gates that start open",
            "Fill `gamma` with init_value.",
        ),
        Mistake(
            made(lambda x, gamma: x * gamma, lambda dim, start: torch.zeros(dim)),
            "gates that start at 0, whatever was asked",
            "Fill `gamma` with init_value; zero is one choice of it.",
        ),
        Mistake(
            made(lambda x, gamma: x * gamma, lambda dim, start: start * torch.rand(dim)),
            "gates that start at random",
            "All gates of a branch start at the same init_value.",
        ),
        Mistake(
            Frozen,
            "gates that are a plain tensor, which no optimiser will find",
            "Wrap it: `self.gamma = nn.Parameter(...)`.",
        ),
        Mistake(
            made(lambda x, gamma: x + x * gamma),
            "the whole residual connection",
            "The skip stands outside: return the gated branch alone.",
        ),
        Mistake(made(lambda x, gamma: x + gamma), "the gates added, as a bias would be", "A gate multiplies."),
        Mistake(
            made(lambda x, gamma: x * gamma.detach()),
            "gates cut off from their gradient",
            "Leave out `.detach()` and `.data`: gamma learns.",
        ),
        Mistake(
            made(lambda x, gamma: x * torch.sigmoid(gamma)),
            "gates squeezed by a sigmoid, half open at 0",
            "Multiply by gamma as it is; a sigmoid of 1e-4 is 0.5.",
        ),
        Mistake(
            made(lambda x, gamma: x * gamma.view(-1, *[1] * (x.ndim - 1))),
            "gates along the first axis",
            "Channels are the last axis: `x * self.gamma` lines them up.",
        ),
    ),
    hints=(
        "What must a tensor be, so that an optimiser finds it?",
        "`torch.full` makes a tensor of one number, in that number's own dtype; `nn.Parameter` registers it.",
    ),
)

EXERCISES = {"layer_scale": LAYER_SCALE}
