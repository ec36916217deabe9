"""Describe a module now, build it later.

A description is a call that has not happened yet; Python's word for it is ``functools.partial``.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from torch import nn

from residual_edu.errors import InvalidInput, check_keywords

Spec = nn.Module | Callable[..., nn.Module] | Mapping[str, Any]
"""What stands for a module: itself, something that returns one when called, or a mapping with ``__target__``."""


class LazyConfig:
    """``LazyConfig(X)(k=v)`` is ``partial(X, k=v)``, its keywords checked at once: a typo fails where it is written.

    Args:
        target: a class or function that returns a module, or the dotted name of a module class.

    Raises:
        InvalidInput: for a keyword that ``target`` does not take.
    """

    def __init__(self, target: Callable[..., nn.Module] | str) -> None:
        self.target = _module_class(target) if isinstance(target, str) else target

    def __call__(self, **keywords: Any) -> "partial[nn.Module]":
        """Return the call to come."""
        check_keywords(self.target, keywords)
        return partial(self.target, **keywords)


def build(spec: Spec) -> nn.Module:
    """Return the module that ``spec`` stands for: itself if it is one, else a new one from each call.

    Raises:
        InvalidInput: for what stands for no module.
    """
    if isinstance(spec, nn.Module):
        return spec
    if isinstance(spec, Mapping):
        spec = _from_mapping(spec)
    module = spec() if callable(spec) else spec
    if not isinstance(module, nn.Module):
        raise InvalidInput(
            f"a module was to be built, got {module!r}; give a module, a class or function that returns one, "
            "or a mapping with '__target__'"
        )
    return module


def _from_mapping(mapping: Mapping[str, Any]) -> "partial[nn.Module]":
    keywords = dict(mapping)
    if "__target__" not in keywords:
        raise InvalidInput(f"a mapping that stands for a module needs the key '__target__', got {sorted(keywords)}")
    return LazyConfig(keywords.pop("__target__"))(**keywords)


def _module_class(name: str) -> type[nn.Module]:
    """Import ``name``. Only classes of modules: a file that is read should not be able to call anything else."""
    home, _, attribute = name.rpartition(".")
    try:
        found = getattr(import_module(home), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"__target__ {name!r} cannot be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise InvalidInput(f"__target__ must name a class of modules, got {name!r}")
    return found
