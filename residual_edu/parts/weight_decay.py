"""Which parameters are exempt from weight decay: vectors, and all parameters of a marked module.

Decay shrinks a matrix towards simpler maps. Gains, gates and biases it would only shrink towards zero, and those are
vectors: the parameters of norms, LayerScale's gamma, every bias. Other parameters that should be exempt, such as a
table of positions, belong to a module that is marked.
"""

from typing import Any, TypeVar

from torch import nn

from residual_edu.checked import NotNegative, checked

Module = TypeVar("Module", bound=nn.Module)


def no_weight_decay(module: Module) -> Module:
    """Exempt all parameters of ``module`` from weight decay, and return it."""
    module._no_weight_decay = True  # type: ignore[assignment]  # on the module: a deep copy of a parameter loses it
    return module


@checked
def parameter_groups(model: nn.Module, weight_decay: NotNegative) -> list[dict[str, Any]]:
    """Return two groups for an optimizer: what decays at ``weight_decay``, and what is exempt.

    Raises:
        InvalidInput: for a negative ``weight_decay``.
    """
    marked = {id(p) for m in model.modules() if getattr(m, "_no_weight_decay", False) for p in m.parameters()}
    decayed = [p for p in model.parameters() if p.ndim > 1 and id(p) not in marked]
    exempt = [p for p in model.parameters() if p.ndim <= 1 or id(p) in marked]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": exempt, "weight_decay": 0.0}]
