"""Describe a module now, build it later.

A description is a call not made yet: a ``functools.partial``, or a mapping naming it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import isfunction, signature
from pkgutil import resolve_name
from typing import Any, get_type_hints

from torch import nn
from typing_extensions import TypeAliasType

from residual_edu.errors import InvalidInput

Spec = TypeAliasType("Spec", nn.Module | Callable[..., nn.Module] | Mapping[str, Any])
"""What ``build`` takes: a module, something that returns one when called, or a mapping.

A mapping holds ``__target__``, what to call or its dotted name, and the keywords.
"""


class Call(partial[nn.Module]):
    """A ``functools.partial`` whose keywords are attributes, to read and to set."""

    def __getattr__(self, name: str) -> Any:  # for what is no attribute of partial's
        if name in self.keywords:
            return self.keywords[name]
        raise AttributeError(f"{self.func} was given no {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        signature(self.func).bind_partial(**{name: value})
        self.keywords[name] = value


class LazyConfig:
    """``LazyConfig(X)(k=v)`` is ``partial(X, k=v)``, its keywords checked at once.

    ``config.k`` reads a keyword, and ``config.k = w`` changes what will be built.

    Args:
        target: a class or function that returns a module, or the dotted name of one.
    """

    def __init__(self, target: Callable[..., nn.Module] | str) -> None:
        self.target = import_target(target) if isinstance(target, str) else target

    def __call__(self, **keywords: Any) -> Call:
        """Return the call of the target with ``keywords``, not made yet."""
        signature(self.target).bind_partial(**keywords)
        return Call(self.target, **keywords)


def build(spec: Spec) -> nn.Module:
    """Return the module that ``spec`` is or makes; raise ``InvalidInput`` if none."""
    if isinstance(spec, nn.Module):
        return spec
    call: Any = spec
    if isinstance(spec, Mapping):  # no value in it is run as code
        keywords = dict(spec)
        call = LazyConfig(keywords.pop("__target__"))(**keywords)
    module = call()
    if not isinstance(module, nn.Module):
        raise InvalidInput(f"{spec!r} must return a module, got {module!r}")
    return module


def build_beside(branch: nn.Module, spec: Spec) -> nn.Module:
    """Build a norm or gate of ``branch``, which is left out where that is."""
    return nn.Identity() if isinstance(branch, nn.Identity) else build(spec)


def import_target(name: str) -> Callable[..., nn.Module]:
    """Import the class or function called ``name``.

    It must be declared to return a module: a name in a file calls nothing else.
    """
    found = resolve_name(name)
    made = get_type_hints(found).get("return") if isfunction(found) else found
    if not (isinstance(made, type) and issubclass(made, nn.Module)):
        raise InvalidInput(f"{name} must be declared to return a module")
    return found
