"""Describe a module now, build it later.

A description is a call that has not been made yet: a ``functools.partial``, or a mapping that names the call.
"""

from collections.abc import Callable, Mapping
from inspect import isbuiltin, isfunction
from pkgutil import resolve_name
from typing import Any, get_type_hints

from torch import nn

from residual_edu.calls import check_complete, check_keywords
from residual_edu.lazy import partial
from residual_edu.old_errors import InvalidInput, shown

Spec = nn.Module | Callable[..., nn.Module] | Mapping[str, Any]
"""What ``build`` takes: a module, something that returns one when called, or a mapping with ``__target__``."""


class LazyConfig:
    """``LazyConfig(X)(k=v)`` is ``partial(X, k=v)``, its keywords checked at once: a typo fails where it is written.

    A keyword is an attribute of it: ``config.k`` reads it, and ``config.k = w`` sets what will be built.

    The keywords of every mapping with ``__target__`` among the values are checked too; the mapping itself is passed on
    as it is, for ``X`` to build.

    Args:
        target: a class or function that returns a module, or the dotted name of one.

    Raises:
        InvalidInput: for a target that returns no module, or a keyword that it does not take.
    """

    def __init__(self, target: Callable[..., nn.Module] | str) -> None:
        self.target = import_target(target) if isinstance(target, str) else target
        check_target(self.target)

    def __call__(self, **keywords: Any) -> "partial[nn.Module]":
        """Return the call of the target with ``keywords``, not made yet."""
        check_keywords(self.target, keywords)
        for value in keywords.values():
            if isinstance(value, Mapping) and "__target__" in value:
                from_mapping(value)
        return partial(self.target, **keywords)


def build(spec: Spec) -> nn.Module:
    """Return the module that ``spec`` describes: itself if it is a module, else a new one at each call.

    Raises:
        InvalidInput: for what describes no module, or lacks an argument.
    """
    if isinstance(spec, nn.Module):
        return spec
    if isinstance(spec, Mapping):
        spec = from_mapping(spec)
    check_complete(spec)
    module = spec() if callable(spec) else spec
    if not isinstance(module, nn.Module):
        raise InvalidInput(
            f"a module was to be built, got {module!r}; give a module, a class or function that returns one, "
            "or a mapping with '__target__'"
        )
    return module


def from_mapping(mapping: Mapping[str, Any]) -> "partial[nn.Module]":
    """Return the call that a mapping describes: ``__target__``, and its keywords. No value is run as code."""
    keywords = dict(mapping)
    if "__target__" not in keywords:
        raise InvalidInput(f"a mapping that describes a module needs the key '__target__', got {sorted(keywords)}")
    return LazyConfig(keywords.pop("__target__"))(**keywords)


def import_target(name: str) -> Callable[..., nn.Module]:
    """Import the class or function called ``name``.

    Only what is declared to return a module passes, so that a name in a file cannot call anything else.
    """
    try:
        found = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"__target__ {name!r} cannot be imported: {error}") from None
    check_makes_modules(name, found)
    return found


def check_makes_modules(name: str, found: object) -> None:
    """Raise ``InvalidInput`` unless ``found``, called ``name``, is a class of modules or a function annotated so."""
    try:
        made = get_type_hints(found).get("return") if isfunction(found) else found
    except (AttributeError, NameError) as error:
        raise InvalidInput(f"__target__ {name!r} cannot be imported: {error}") from None
    if not (isinstance(made, type) and issubclass(made, nn.Module)):
        raise InvalidInput(
            f"__target__ must name a class of modules, or a function annotated to return one, got {name!r}"
        )


def check_target(target: Callable[..., nn.Module]) -> None:
    """Raise ``InvalidInput`` where it is known that calling ``target`` returns no module."""
    if isinstance(target, nn.Module):
        raise InvalidInput(
            f"target must be a class or function that returns a module, got {shown(target)}, a module; "
            "a module needs no config"
        )
    other = isbuiltin(target) or (isinstance(target, type) and not issubclass(target, nn.Module))
    if not callable(target) or other:
        raise InvalidInput(f"target must be a class or function that returns a module, got {shown(target)}")
