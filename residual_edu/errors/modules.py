"""Checks of modules and of the calls that build them."""

from collections.abc import Callable, Iterable
from inspect import signature

from torch import nn

from residual_edu.errors.invalid_input import InvalidInput, shown


def check_keywords(function: Callable[..., object], keywords: Iterable[str]) -> None:
    """Raise ``InvalidInput``, with what there is, unless ``function`` takes all ``keywords``."""
    try:
        signature(function).bind_partial(**dict.fromkeys(keywords))
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise InvalidInput(f"{name} {error}; it takes {', '.join(signature(function).parameters)}") from None


def check_conditionable(name: str, module: nn.Module) -> None:
    """Raise ``InvalidInput`` unless ``module`` can be called with one signal and ``conditioning=``."""
    try:
        signature(module.forward).bind(None, conditioning=None)
    except TypeError:
        kind, taken = type(module).__name__, ", ".join(signature(module.forward).parameters)
        mend = "wrap it in a module whose forward does; QKVSequenceMixer makes query, key and value"
        raise InvalidInput(f"{name} must take (x, conditioning=), {kind}.forward takes ({taken}); {mend}") from None


def check_blocks(model: nn.Module, blocks: Iterable[nn.Module]) -> list[nn.Module]:
    """Return ``blocks`` as a list, or raise ``InvalidInput`` unless each is a module inside ``model``."""
    if not isinstance(blocks, Iterable):
        raise InvalidInput(f"blocks must be a list of modules, got {shown(blocks)}; put it into [ ]")
    listed, inside = list(blocks), set(model.modules())
    if not listed:
        raise InvalidInput("blocks must name at least 1 module, got none")
    for place, block in enumerate(listed):
        if not isinstance(block, nn.Module):
            raise InvalidInput(f"blocks[{place}] must be a module, got {shown(block)}")
        if block not in inside:
            kind = type(block).__name__
            raise InvalidInput(f"blocks[{place}], a {kind}, must be a module of model; keep blocks in an nn.ModuleList")
    return listed


def check_not_compiled(model: nn.Module, blocks: Iterable[nn.Module]) -> None:
    """Raise ``InvalidInput`` where ``torch.compile`` took more of ``model`` than single ``blocks``."""
    within = {outer for outer in model.modules() for block in blocks if block in set(outer.modules()) - {outer}}
    if any(hasattr(outer, "_orig_mod") or outer._compiled_call_impl is not None for outer in within):
        raise InvalidInput("model must not be compiled: it calls no hooks then; compile its blocks one by one, or none")
