"""Registries: a name in a config stands for a class, so that a new class is used without a change elsewhere.

Write ``@attention_registry.register("name")`` above a class, or call ``register("name", cls)`` after it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

from torch import nn

from residual_edu.old_errors import InvalidInput, check_choice, shown

T = TypeVar("T")  # what the classes of a registry build
C = TypeVar(
    "C", bound=Callable[..., Any]
)  # a class that is registered, which register returns unchanged
MISSING: Any = object()  # the default of register's value; None is not, since register refuses None as a mistake


class UnknownName(InvalidInput, KeyError):
    """A name under which no class is registered: an ``InvalidInput`` and, as for a mapping, a ``KeyError``."""

    __str__ = (
        InvalidInput.__str__
    )  # KeyError's would put the message into quotation marks


class Registry(Generic[T]):
    """Classes by name. Each builds a ``T`` from a ``BlockConfig`` alone.

    Args:
        name: what is registered here, for messages.
        aliases: other spellings of a name; a class that is registered under one replaces it.

    Raises:
        InvalidInput: for a name that is taken, or one that is not known (then also a ``KeyError``).
    """

    def __init__(self, name: str, aliases: Mapping[str, str] | None = None) -> None:
        self.name, self.aliases = name, dict(aliases or {})
        self.entries: dict[str, Callable[..., T]] = {}

    @overload
    def register(self, key: str) -> Callable[[C], C]: ...

    @overload
    def register(self, key: str, value: C) -> C: ...

    def register(self, key: str, value: C = MISSING) -> C | Callable[[C], C]:
        """Store ``value`` under ``key`` and return it; without a ``value``, return the decorator that does so."""
        if value is MISSING:
            return lambda value: self.register(key, value)
        self._check_entry(key, value)
        self.entries[key] = value
        return value

    def get(self, key: str) -> Callable[..., T]:
        """Return the class that is registered under ``key``."""
        self._check_known(key)
        return self.entries[key if key in self.entries else self.aliases[key]]

    def keys(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(
            {
                *self.entries,
                *(alias for alias, key in self.aliases.items() if key in self.entries),
            }
        )

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __repr__(self) -> str:
        return f"Registry({self.name}: {', '.join(self.keys())})"

    def _check_entry(self, key: str, value: object) -> None:
        """Raise unless ``value`` can be registered; when a cell is run again, its class replaces its earlier self."""
        if not isinstance(key, str) or not key.strip():
            raise InvalidInput(
                f"{self.name} must be registered under a name, got {shown(key)}"
            )
        if not callable(value) or isinstance(value, nn.Module):
            raise InvalidInput(
                f"{self.name} {key!r} must be a class that takes a BlockConfig, got {shown(value)}"
            )
        if key in self.entries and not is_rerun(self.entries[key], value):
            raise InvalidInput(
                f"{self.name} already has key {key!r}, {getattr(self.entries[key], '__qualname__', 'an object')}; "
                "choose another name"
            )

    def _check_known(self, key: str) -> None:
        try:
            check_choice(self.name, key, self)
        except InvalidInput as fault:
            raise UnknownName(str(fault)) from None


def is_rerun(old: object, new: object) -> bool:
    """Whether ``new`` is another object than ``old`` from the same definition in a notebook."""
    homes = [
        (getattr(one, "__module__", None), getattr(one, "__qualname__", None))
        for one in (old, new)
    ]
    return old is not new and homes[0] == homes[1] and homes[0][0] == "__main__"


attention_registry: Registry[nn.Module] = Registry(
    "attention", aliases={"sliding_window": "sliding_window_gqa"}
)
ffn_registry: Registry[nn.Module] = Registry("ffn")
norm_registry: Registry[nn.Module] = Registry("norm")
position_registry: Registry[Any] = Registry(
    "position"
)  # of PositionBase, whose module imports this one
