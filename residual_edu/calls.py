"""Checks of what is called: a module's ``forward`` takes what it will be given, a function takes certain keywords."""

from collections.abc import Callable, Iterable
from functools import partial
from inspect import Parameter, signature

from torch import nn

from residual_edu.old_errors import InvalidInput, shown


def check_takes(name: str, module: nn.Module, *arguments: str, mend: str = "wrap it in a module that fits") -> None:
    """Raise ``InvalidInput`` unless ``module`` can be called with ``arguments``; "conditioning=" is a keyword."""
    positional = [one for one in arguments if not one.endswith("=")]
    keywords = {one.rstrip("="): None for one in arguments if one.endswith("=")}
    try:
        signature(module.forward).bind(*positional, **keywords)
    except TypeError:
        kind, taken = type(module).__name__, ", ".join(signature(module.forward).parameters)
        wanted = ", ".join(arguments)
        raise InvalidInput(f"{name} must take ({wanted}), {kind}.forward takes ({taken}); {mend}") from None


def check_conditionable(name: str, module: nn.Module) -> None:
    """Raise ``InvalidInput`` unless ``module`` can be called with one signal and ``conditioning=``."""
    mend = "wrap it in a module whose forward does; QKVSequenceMixer makes query, key and value"
    check_takes(name, module, "x", "conditioning=", mend=mend)


def check_keywords(function: Callable[..., object], keywords: Iterable[str]) -> None:
    """Raise ``InvalidInput``, with what there is, unless ``function`` takes all ``keywords``."""
    try:
        signature(function).bind_partial(**dict.fromkeys(keywords))
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise InvalidInput(f"{name} {error}; it takes {', '.join(signature(function).parameters)}") from None


def check_callable(name: str, value: object) -> None:
    """Raise ``InvalidInput`` unless ``value`` can be called."""
    if not callable(value):
        raise InvalidInput(f"{name} must be a function, got {shown(value)}")


def check_complete(spec: object) -> None:
    """Raise ``InvalidInput`` where ``spec``, which is to be called without arguments, needs some."""
    if isinstance(spec, nn.Module) or not callable(spec):
        return
    try:
        parameters = signature(spec).parameters.values()
    except ValueError:  # some builtins have no signature
        return
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in OPEN]
    if needed:
        target = spec.func if isinstance(spec, partial) else spec
        name = getattr(target, "__name__", repr(target))
        raise InvalidInput(f"{name} must be given {', '.join(needed)}; write LazyConfig({name})({needed[0]}=...)")


OPEN = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)  # *args and **kwargs, which may stay empty
