"""Checks of what a residual branch is made of, and of what it returns."""

from collections.abc import Callable
from inspect import signature

from torch import Tensor, nn

from residual_edu.errors.invalid_input import InvalidInput, shown


def check_target(target: Callable[..., nn.Module]) -> None:
    """Raise ``InvalidInput`` where calling ``target`` is known to give no module."""
    if isinstance(target, nn.Module) or not callable(target):
        mend = "; a module that is built needs no config" if isinstance(target, nn.Module) else ""
        raise InvalidInput(f"target must be a class or function that returns a module, got {shown(target)}{mend}")
    if isinstance(target, type) and not issubclass(target, nn.Module):
        raise InvalidInput(f"target must be a class of modules, got {target.__qualname__}")


def check_norm_left_out(layer: str, norm: str, found: nn.Module, left_out: bool) -> None:
    """Raise ``InvalidInput`` unless the norm of a branch that is left out is ``left_out`` as well."""
    if not left_out:
        kind = type(found).__name__
        raise InvalidInput(f"{norm} must be nn.Identity where {layer} is, got {kind}, which would never run")


def check_takes(name: str, module: nn.Module, *arguments: str) -> None:
    """Raise ``InvalidInput`` unless ``module`` can be called with as many ``arguments`` as are named."""
    try:
        signature(module.forward).bind(*arguments)
    except TypeError:
        kind, taken = type(module).__name__, ", ".join(signature(module.forward).parameters)
        raise InvalidInput(
            f"{name} must take ({', '.join(arguments)}), {kind}.forward takes ({taken}); wrap it in a module that fits"
        ) from None


def check_branch(branch: Tensor, x: Tensor) -> Tensor:
    """Return ``branch``, or raise ``InvalidInput`` unless it can be added to ``x`` number by number."""
    if branch.shape != x.shape:
        raise InvalidInput(f"a branch must keep the shape of x, {tuple(x.shape)}, got {tuple(branch.shape)}")
    return branch
