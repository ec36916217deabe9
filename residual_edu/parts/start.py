"""Starting values: what parameters are set to when they are built, and again wherever they are reset.

A class that owns parameters has ``reset_parameters``, as torch's layers have. So a model can be built without memory,
get it on another device or in parts, and start there::

    with torch.device("meta"):
        model = LanguageModel(config)
    model.to_empty(device="cuda")
    reset_parameters(model)
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from residual_edu.calls import check_callable
from residual_edu.old_errors import InvalidInput, check_instance
from residual_edu.parts.weight_decay import mark_parameters

Layer = TypeVar("Layer", bound=nn.Module)
Fill = Callable[[Tensor], object]
"""Fills a tensor in place."""


def reset_parameters(module: nn.Module) -> None:
    """Set each parameter of ``module`` to a new starting value, in the order in which they were built.

    So they are the numbers that it would be built with under the same seed. Each module's own method is called after
    those of its children; one with ``resets_children = True`` calls them itself, in another order.

    Raises:
        InvalidInput: for a module that owns parameters but cannot reset them.
    """
    check_instance("module", module, nn.Module)
    own = getattr(module, "reset_parameters", None)
    check_can_reset(module, own)
    if not getattr(module, "resets_children", False):
        for child in module.children():
            reset_parameters(child)
    if own is not None:
        own()
    for marked in (
        each for each in module.modules() if getattr(each, "_no_weight_decay", False)
    ):
        mark_parameters(marked.parameters())  # to_empty made new ones


def check_can_reset(module: nn.Module, own: object) -> None:
    """Raise ``InvalidInput`` where ``module`` has parameters, those of its children aside, and no method for them."""
    names = [name for name, _ in module.named_parameters(recurse=False)]
    if names and not callable(own):
        raise InvalidInput(
            f"{type(module).__name__} must have reset_parameters, which sets {', '.join(names)}"
        )


def starting(layer: Layer, start: Callable[[Any], object]) -> Layer:
    """Call ``start(layer)`` now and after each ``layer.reset_parameters()``, and return ``layer``.

    ``layer`` is one of torch's; its own start comes first, so that the same random numbers are drawn each time.
    """
    start(layer)
    layer.starts = [*getattr(layer, "starts", ()), start]  # type: ignore[assignment]
    layer.reset_parameters = partial(restart, layer)  # type: ignore[assignment]
    return layer


def restart(layer: Any) -> None:
    """Reset ``layer`` as its class does, then as ``starting`` was told."""
    type(layer).reset_parameters(layer)
    start_again(layer)


def start_again(layer: Any) -> None:
    """Repeat what ``starting`` was told, and nothing else."""
    for start in layer.starts:
        start(layer)


def filled(layer: Layer, fill: Fill | None, fill_bias: Fill = nn.init.zeros_) -> Layer:
    """Return ``layer``, its weight filled by ``fill`` and its bias by ``fill_bias``; unchanged if ``fill`` is None."""
    return (
        layer
        if fill is None
        else starting(layer, partial(fill_layer, fill=fill, fill_bias=fill_bias))
    )


def fill_layer(layer: Any, fill: Fill, fill_bias: Fill) -> None:
    """Fill weight and bias of ``layer``; the bias only where there is one."""
    check_callable("init_fn", fill)
    fill(layer.weight.data)
    if getattr(layer, "bias", None) is not None:
        fill_bias(layer.bias.data)


def scale_weight(layer: Any, factor: float) -> None:
    """Multiply the weight of ``layer`` by ``factor``."""
    layer.weight.data *= factor


@torch.no_grad()
def copy_values(parameter: Tensor, values: Tensor) -> None:
    """Copy ``values`` into ``parameter``; of one that is sharded over processes, each process its part."""
    if hasattr(parameter, "placements"):  # torch's DTensor, which takes no plain tensor
        from torch.distributed.tensor import distribute_tensor

        mesh: Any = parameter.device_mesh  # type: ignore[attr-defined]
        values = distribute_tensor(
            values.to(mesh.device_type), mesh, parameter.placements
        )
    parameter.copy_(values)
