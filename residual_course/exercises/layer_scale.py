"""Exercise on LayerScale: write the class."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet
from residual_course.checking.gradients import filled, same_gradients
from residual_course.checking.properties import close, construct, draw, run
from residual_edu.parts import LayerScale

Maker = Callable[..., nn.Module]
GAMMA = draw(4, seed=1)


def changed(change: Callable[[Tensor], Tensor]) -> Maker:
    """Return a class whose ``gamma`` is made of the right one."""

    class Changed(LayerScale):
        def __init__(self, dim: int, init_value: float = 1e-4) -> None:
            super().__init__(dim, init_value)
            gamma = self.gamma.detach()
            del self.gamma
            self.gamma = change(gamma)  # type: ignore[assignment]

    return Changed


class Whole(LayerScale):
    """The sum with its skip."""

    def forward(self, x: Tensor) -> Tensor:
        """Add x to the gated one."""
        return x + super().forward(x)


def gates(module: nn.Module) -> Tensor:
    """Return the module's only parameter, ``gamma``, or raise ``Unmet``."""
    names = [name for name, _ in module.named_parameters()]
    if names != ["gamma"]:
        raise Unmet(f"its parameters are {names or 'none'}, where `gamma` alone was asked for")
    return module.get_parameter("gamma")


def _starts(*cases: tuple[str, float, tuple[float, ...]]) -> Callable[[Maker], None]:
    def test(maker: Maker) -> None:
        for what, start, given in cases:
            close(gates(construct(maker, 3, *given)), torch.full((3,), float(start)), f"gamma {what}", 1e-6)

    return test


def _scales(*shapes: tuple[int, ...], mode: bool = True, what: str = "the output") -> Callable[[Maker], None]:
    def test(maker: Maker) -> None:
        module = construct(maker, 4, 0.5).train(mode)
        with torch.no_grad():
            gates(module).copy_(GAMMA)
        for x in (draw(*shape) for shape in shapes):
            close(run(module, x, like=x), x * GAMMA, what.format(tuple(x.shape)))

    return test


def _called(maker: Maker, x: Tensor) -> tuple[Tensor, nn.Module]:
    return (module := filled(maker(4)))(x), module


def _float32(maker: Maker) -> None:
    run(maker(4), x := draw(2, 4, dtype=torch.float32), like=x)


def _observe(maker: Maker) -> Any:
    new, module = construct(maker, 4), construct(maker, 4, 0.5)
    x = draw(4, 4, seed=7) + 1
    return [p.detach() for p in (*new.parameters(), *module.parameters())], run(module, x).detach()


LAYER_SCALE = Exercise(
    reference=LayerScale,
    observe=_observe,
    properties=(
        Property(
            "it has one parameter, `gamma`, which starts at init_value, by default 1e-4",
            _starts(("of a new module with init_value 0.25", 0.25, (0.25,)), ("of a new module", 1e-4, ())),
        ),
        Property("each channel is multiplied by its own gamma", _scales((3, 4))),
        Property(
            "any number of axes may stand before the channels",
            _scales((4,), (4, 4), (2, 3, 4), what="the output for shape {}"),
        ),
        Property(
            "gradients reach the branch and gamma",
            same_gradients(LayerScale, {"x": draw(3, 4)}, call=_called),
            hints=(),
        ),
        Property(
            "an init_value of 0 or 1, a whole number, will do",
            _starts(("with init_value 0", 0, (0,)), ("with init_value 1", 1, (1,))),
            hints=(),
        ),
        Property("evaluation changes nothing", _scales((3, 4), mode=False, what="after `eval()` the output"), hints=()),
        Property("float32 stays float32", _float32, hints=()),
    ),
    mistakes=(
        Mistake(
            changed(lambda gamma: nn.Parameter(gamma[0])),
            "one gate for all channels",
            "Make `gamma` as long as the channels: `torch.full((dim,), float(init_value))`.",
        ),
        Mistake(
            changed(lambda gamma: gamma),
            "gates that are a plain tensor, which no optimiser will find",
            "Wrap it: `self.gamma = nn.Parameter(...)`.",
        ),
        Mistake(Whole, "the whole residual connection", "The skip stands outside: return the gated branch alone."),
    ),
    hints=(
        "What must a tensor be, so that an optimiser finds it?",
        "`torch.full` makes a tensor of one number, in that number's own dtype; `nn.Parameter` registers it.",
    ),
)

EXERCISES = {"layer_scale": LAYER_SCALE}
