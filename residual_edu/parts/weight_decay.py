"""Who is spared by weight decay: whatever is a vector, and whatever is marked.

Decay pulls a matrix towards simpler maps. A gain, a gate or a bias it would only pull shut, and those are vectors:
the parameters of norms, LayerScale's gamma, every bias. What is no vector and should be spared all the same, a table of
positions say, stands in a module that is marked. The mark is the module's, since a deep copy loses a parameter's.
"""

from typing import Any, TypeVar

from torch import nn

from residual_edu.errors import check_not_negative

Module = TypeVar("Module", bound=nn.Module)


def no_weight_decay(module: Module) -> Module:
    """Mark ``module``, so that all its parameters are spared, and return it."""
    module._no_weight_decay = True  # type: ignore[assignment]
    return module


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return two groups for an optimizer: what decays at ``weight_decay``, and what is spared.

    Raises:
        InvalidInput: for a negative ``weight_decay``.
    """
    check_not_negative("weight_decay", weight_decay)
    marked = {id(p) for m in model.modules() if getattr(m, "_no_weight_decay", False) for p in m.parameters()}
    decayed = [p for p in model.parameters() if p.ndim > 1 and id(p) not in marked]
    spared = [p for p in model.parameters() if p.ndim <= 1 or id(p) in marked]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}]
