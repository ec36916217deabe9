"""Exercise on weight decay: sort a model's parameters by name into those that decay and those that do not."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, unchanged
from residual_edu.parts import LayerNorm, LayerScale


def sort_parameters(model: nn.Module) -> tuple[list[str], list[str]]:
    """Return the names of the parameters with two axes or more, and of the others."""
    return sorted_by(lambda name, parameter: parameter.ndim > 1)(model)


def sorted_by(decays: Callable[[str, nn.Parameter], bool]) -> Callable[[nn.Module], tuple[list[str], list[str]]]:
    """Return a sorter of names for which ``decays`` decides."""

    def sort(model: nn.Module) -> tuple[list[str], list[str]]:
        named = list(model.named_parameters())
        return [n for n, p in named if decays(n, p)], [n for n, p in named if not decays(n, p)]

    return sort


class ScalarGate(nn.Module):
    """A gate of a single number, which has no axis."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(()))


class Misnamed(nn.Module):
    """Parameters whose names do not give their kind away, one that is frozen, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(12, 8))
        self.matrix = nn.Parameter(torch.zeros(40), requires_grad=False)
        self.register_buffer("table", torch.zeros(4, 4))


def model() -> nn.Module:
    """Return a model with matrices, kernels, biases, gains, gates of both kinds, and misleading names."""
    names = {"embed": nn.Linear(3, 4), "norm": LayerNorm(4), "mix": nn.Conv1d(4, 4, 3), "gate": LayerScale(4)}
    others = {
        "layer": nn.Linear(4, 4),
        "gate": ScalarGate(),
        "odd": Misnamed(),
        "norm": nn.LayerNorm(4),
        "row": nn.Linear(4, 1),
    }
    return nn.ModuleDict(names | {"inner": nn.ModuleDict(others)})


def two_lists(f: Any) -> tuple[list[str], list[str]]:
    """Return the two lists of an answer, in alphabetical order, or raise ``Unmet``."""
    given = model()
    with unchanged(model=given):
        pair = f(given)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise Unmet("it did not return two lists of names, what decays and what is spared")
    decayed, spared = (sorted(map(str, names)) if isinstance(names, Iterable) else [] for names in pair)
    return decayed, spared


def places(f: Any, place: int, *wanted: str) -> None:
    """Test that all ``wanted`` names are in one list (0: with decay) and not in the other."""
    lists = two_lists(f)
    for name in wanted:
        if name not in lists[place] or name in lists[1 - place]:
            where = "decays" if name in lists[0] else "is spared" if name in lists[1] else "is in neither list"
            raise Unmet(f"{name} {where}, where it should {('decay', 'be spared')[place]}")


def once_each(f: Any) -> None:
    """Test that every parameter is in one list and nothing else is."""
    names, wanted = sorted([*two_lists(f)[0], *two_lists(f)[1]]), sorted(name for name, _ in model().named_parameters())
    if names != wanted:
        raise Unmet(f"its lists hold {len(names)} names, where the {len(wanted)} of the model were asked for")


SORT_PARAMETERS = Exercise(
    reference=sort_parameters,
    observe=two_lists,
    properties=(
        Property("matrices decay", lambda f: places(f, 0, "embed.weight", "inner.layer.weight")),
        Property("kernels decay", lambda f: places(f, 0, "mix.weight")),
        Property("biases are spared", lambda f: places(f, 1, "embed.bias", "mix.bias", "inner.layer.bias")),
        Property("the gain of a norm is spared, and its bias", lambda f: places(f, 1, "norm.weight", "norm.bias")),
        Property("gates are spared, one number or many", lambda f: places(f, 1, "gate.gamma", "inner.gate.alpha")),
        Property(
            "a matrix of one row or of any name decays", lambda f: places(f, 0, "inner.row.weight", "inner.odd.gamma")
        ),
        Property("a vector is spared, however long, frozen or named", lambda f: places(f, 1, "inner.odd.matrix")),
        Property("each parameter stands in one list, and nothing else does", once_each),
    ),
    mistakes=(
        Mistake(sorted_by(lambda n, p: True), "decay for everything", "Vectors do not decay: check `parameter.ndim`."),
        Mistake(sorted_by(lambda n, p: False), "decay for nothing", "Matrices and kernels do decay."),
        Mistake(lambda m: sort_parameters(m)[::-1], "the two lists in the other order", "Return what decays first."),
        Mistake(
            sorted_by(lambda n, p: not n.endswith("bias")),
            "biases spared, gains and gates not",
            "Ask for the number of axes, not for the name.",
        ),
        Mistake(
            sorted_by(lambda n, p: not n.endswith(("bias", "gamma", "alpha"))),
            "names asked for, by which a norm's `weight` passes for a matrix",
            "Ask for the number of axes: a gain has one.",
        ),
        Mistake(
            sorted_by(lambda n, p: p.ndim != 1),
            "vectors spared, but not the scalar gate",
            "A single number has no axis: `ndim` is 0. Spare it too.",
        ),
        Mistake(
            sorted_by(lambda n, p: p.ndim == 2),
            "matrices alone, which spares a kernel of three axes",
            "Two axes or more decay: `parameter.ndim > 1`.",
        ),
        Mistake(
            lambda m: sorted_by(lambda n, p: p.ndim > 1)(m["embed"]),
            "one module's own parameters, without the others",
            "`model.named_parameters()` walks through all of them.",
        ),
    ),
    hints=(
        "What do gains, biases and gates have in common, and what sets a matrix apart?",
        "Go through `model.named_parameters()` and look at each shape, not at its name. What about a single number?",
    ),
)

EXERCISES = {"sort_parameters": SORT_PARAMETERS}
