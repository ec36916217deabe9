"""Which parameters are exempt from weight decay: vectors, and all parameters of a marked module.

Decay shrinks a matrix towards simpler maps. Gains, gates and biases it would only shrink towards zero, and those are
vectors: the parameters of norms, LayerScale's gamma, every bias. Other parameters that should be exempt, such as a
table of positions, belong to a module that is marked.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, TypeVar

from torch import nn

from residual_edu.checked import NotNegative, checked
from residual_edu.old_errors import check_instance

Module = TypeVar("Module", bound=nn.Module)


def no_weight_decay(module: Module) -> Module:
    """Exempt all parameters of ``module`` from weight decay, and return it.

    The module and each of its parameters get ``_no_weight_decay``, and so do those of a deep copy.

    Raises:
        InvalidInput: for what is no module, such as a class of them.
    """
    check_instance("module", module, nn.Module)
    module._no_weight_decay = Mark(module)  # type: ignore[assignment]
    mark_parameters(module.parameters())
    return module


class Mark:
    """The mark of a module, which is true. A deep copy of a parameter loses its own, so this one marks the copies."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __deepcopy__(self, memo: dict[int, Any]) -> "Mark":
        mark_parameters(
            deepcopy(each, memo) for each in self.module.parameters()
        )  # the copies that the module gets
        return Mark(
            deepcopy(self.module, memo)
        )  # which exists already, since its attributes are being copied


def mark_parameters(parameters: Iterable[nn.Parameter]) -> None:
    """Mark each of ``parameters`` as exempt, the way optimizers of other projects read it."""
    for parameter in parameters:
        parameter._no_weight_decay = True  # type: ignore[attr-defined]


@checked
def parameter_groups(
    model: nn.Module, weight_decay: NotNegative
) -> list[dict[str, Any]]:
    """Return two groups for an optimizer: what decays at ``weight_decay``, and what is exempt.

    Raises:
        InvalidInput: for a negative ``weight_decay``, or what is no module.
    """
    check_instance("model", model, nn.Module)
    marked = {
        id(p)
        for m in model.modules()
        if getattr(m, "_no_weight_decay", False)
        for p in m.parameters()
    }
    marked |= {
        id(p) for p in model.parameters() if getattr(p, "_no_weight_decay", False)
    }
    decayed = [p for p in model.parameters() if p.ndim > 1 and id(p) not in marked]
    exempt = [p for p in model.parameters() if p.ndim <= 1 or id(p) in marked]
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": exempt, "weight_decay": 0.0},
    ]
