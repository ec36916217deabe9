"""Describe a module now, build it later.

A description is a call that has not happened yet; Python's word for it is ``functools.partial``.
"""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import isfunction
from pkgutil import resolve_name
from typing import Any, get_type_hints

from torch import nn

from residual_edu.errors import InvalidInput, check_keywords, check_target

Spec = nn.Module | Callable[..., nn.Module] | Mapping[str, Any]
"""What stands for a module: itself, something that returns one when called, or a mapping with ``__target__``."""


class LazyConfig:
    """``LazyConfig(X)(k=v)`` is ``partial(X, k=v)``, its keywords checked at once: a typo fails where it is written.

    So are those of every mapping with ``__target__`` among the values; it stays as it is, for ``X`` to build.

    Args:
        target: a class or function that returns a module, or the dotted name of one.

    Raises:
        InvalidInput: for a target that returns no module, or a keyword that it does not take.
    """

    def __init__(self, target: Callable[..., nn.Module] | str) -> None:
        self.target = named(target) if isinstance(target, str) else target
        check_target(self.target)

    def __call__(self, **keywords: Any) -> "partial[nn.Module]":
        """Return the call to come."""
        check_keywords(self.target, keywords)
        for value in keywords.values():
            if isinstance(value, Mapping) and "__target__" in value:
                described(value)
        return partial(self.target, **keywords)


def build(spec: Spec) -> nn.Module:
    """Return the module that ``spec`` stands for: itself if it is one, else a new one from each call.

    Raises:
        InvalidInput: for what stands for no module.
    """
    if isinstance(spec, nn.Module):
        return spec
    if isinstance(spec, Mapping):
        spec = described(spec)
    module = spec() if callable(spec) else spec
    if not isinstance(module, nn.Module):
        raise InvalidInput(
            f"a module was to be built, got {module!r}; give a module, a class or function that returns one, "
            "or a mapping with '__target__'"
        )
    return module


def described(mapping: Mapping[str, Any]) -> "partial[nn.Module]":
    """Return the call that a mapping describes: ``__target__``, and its keywords. No value is read as code."""
    keywords = dict(mapping)
    if "__target__" not in keywords:
        raise InvalidInput(f"a mapping that stands for a module needs the key '__target__', got {sorted(keywords)}")
    return LazyConfig(keywords.pop("__target__"))(**keywords)


def named(name: str) -> Callable[..., nn.Module]:
    """Import what ``name`` says, and only what is known to return a module: a file that is read calls nothing else."""
    try:
        found = resolve_name(name)
        made = get_type_hints(found).get("return") if isfunction(found) else found
    except (ImportError, AttributeError, NameError, ValueError) as error:
        raise InvalidInput(f"__target__ {name!r} cannot be imported: {error}") from None
    if not (isinstance(made, type) and issubclass(made, nn.Module)):
        raise InvalidInput(f"__target__ must name a class of modules, or a function said to return one, got {name!r}")
    return found
