"""Which parameters are exempt from weight decay: vectors, and those of marked modules.

Decay shrinks a matrix towards simpler maps, but gains, gates and biases (vectors) only
towards zero. What else is exempt, such as a table of positions, is marked.
"""

from typing import Any, TypeVar

from torch import nn

from residual_edu.errors import InvalidInput

Module = TypeVar("Module", bound=nn.Module)


def no_weight_decay(module: Module, *names: str) -> Module:
    """Exempt parameters of ``module``, all or those ``names``, and return it.

    The mark stands on the module, which outlasts its parameters. Other projects read
    ``_no_weight_decay`` of those too: new ones are marked by ``load_state_dict``,
    ``reset_parameters`` and ``parameter_groups``.
    """
    for name in names:
        module.get_parameter(name)  # torch refuses one that is not there
    module.register_load_state_dict_post_hook(mark_parameters)
    module._no_weight_decay = names or True  # type: ignore[assignment]
    mark_parameters(module)
    return module


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return two groups for an optimizer: what decays, and what is exempt."""
    if not 0 <= weight_decay < float("inf"):
        raise InvalidInput(f"weight_decay must be at least 0, got {weight_decay}")
    for module in model.modules():
        mark_parameters(module)
    decayed: list[nn.Parameter] = []
    exempt: list[nn.Parameter] = []
    for parameter in model.parameters():
        spared = parameter.ndim <= 1 or getattr(parameter, "_no_weight_decay", False)
        (exempt if spared else decayed).append(parameter)
    rates = (decayed, weight_decay), (exempt, 0.0)
    return [{"params": group, "weight_decay": rate} for group, rate in rates]


def mark_parameters(module: nn.Module, keys: object = None) -> None:
    """Mark the parameters that ``no_weight_decay`` has exempted; a hook, with keys."""
    names: Any = getattr(module, "_no_weight_decay", ()) or ()
    for name, parameter in module.named_parameters():
        if names is True or name in names:
            parameter._no_weight_decay = True  # type: ignore[attr-defined]
