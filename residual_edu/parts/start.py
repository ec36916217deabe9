"""Starting values: what parameters are set to when built, and when they are reset.

A class that owns parameters, or fills a layer of torch's in its constructor, does so
again in ``reset_parameters``. So a model can be built on the meta device, get memory by
``model.to_empty(device="cuda")``, and start there by ``reset_parameters(model)``.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from typing_extensions import TypeAliasType

from residual_edu.errors import InvalidInput
from residual_edu.parts.weight_decay import mark_parameters

Layer = TypeVar("Layer", bound=nn.Module)
Fill = Callable[[Tensor], object]  # in place, as those of ``torch.nn.init``
InitMethod = TypeAliasType("InitMethod", Callable[[int], Fill])  # of a layer's width


def reset_parameters(module: nn.Module) -> None:
    """Start ``module`` anew: its children, then what it owns or fills itself."""
    for child in module.children():
        reset_parameters(child)
    own = getattr(module, "reset_parameters", None)
    if own is not None:
        own()
    elif names := [name for name, _ in module.named_parameters(recurse=False)]:
        kind, missing = type(module).__name__, ", ".join(names)
        raise InvalidInput(f"{kind} must have reset_parameters, which sets {missing}")
    mark_parameters(module)  # to_empty made new ones


def fill(layer: Layer, weight: Fill | None, bias: Fill = nn.init.zeros_) -> Layer:
    """Fill weight and bias of ``layer``, unless ``weight`` is None, and return it."""
    if weight is not None:
        fills = {"weight": weight, "bias": bias}
        for name, parameter in layer.named_parameters(recurse=False):
            fills[name](parameter.data)
    return layer


def init_weight(
    layer: nn.Linear, init_method: InitMethod | None, width: int | None = None
) -> nn.Linear:
    """Fill ``layer`` by ``init_method(width)``, by default that of its outputs."""
    return fill(layer, init_method and init_method(width or layer.out_features))


@torch.no_grad()
def copy_values(parameter: Tensor, values: Tensor) -> None:
    """Copy ``values`` into ``parameter``; if it is sharded, each process its part."""
    if hasattr(parameter, "placements"):  # torch's DTensor, which takes no plain tensor
        from torch.distributed.tensor import distribute_tensor

        mesh: Any = parameter.device_mesh  # type: ignore[attr-defined]
        values = values.to(mesh.device_type)
        values = distribute_tensor(values, mesh, parameter.placements)
    parameter.copy_(values)
