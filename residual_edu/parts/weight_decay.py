"""Which parameters are exempt from weight decay: vectors, and those of marked modules.

Decay shrinks a matrix towards simpler maps, but gains, gates and biases (vectors) only
towards zero. What else is exempt, such as a table of positions, is marked.
"""

from typing import Any, TypeVar

from torch import nn

from residual_edu.errors import InvalidInput

Module = TypeVar("Module", bound=nn.Module)


def no_weight_decay(module: Module) -> Module:
    """Exempt all parameters of ``module`` from weight decay, and return it.

    Other projects read ``_no_weight_decay`` of parameters, whose deep copies lose it;
    ``parameter_groups`` reads that of the module too, which stays.
    """
    for parameter in module.parameters():
        parameter._no_weight_decay = True  # type: ignore[attr-defined]
    module._no_weight_decay = True  # type: ignore[assignment]
    return module


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return two groups for an optimizer: what decays, and what is exempt."""
    if not 0 <= weight_decay < float("inf"):
        raise InvalidInput(f"weight_decay must be at least 0, got {weight_decay}")
    spared = {id(p) for m in model.modules() if marked(m) for p in m.parameters()}
    spared |= {id(p) for p in model.parameters() if marked(p) or p.ndim <= 1}
    decayed = [p for p in model.parameters() if id(p) not in spared]
    exempt = [p for p in model.parameters() if id(p) in spared]
    rates = (decayed, weight_decay), (exempt, 0.0)
    return [{"params": group, "weight_decay": rate} for group, rate in rates]


def marked(each: nn.Module | nn.Parameter) -> bool:
    """Whether ``no_weight_decay`` has marked a module or parameter."""
    return getattr(each, "_no_weight_decay", False)
