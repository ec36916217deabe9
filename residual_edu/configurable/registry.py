"""Registries: a name in a config stands for a class.

So a new class is used without a change elsewhere: write
``@attention_registry.register("name")`` above it, in any file or cell.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from torch import nn

from residual_edu.errors import InvalidInput, check_choice

T = TypeVar("T")  # what the classes of a registry build


class Registry(Generic[T]):
    """Classes by name. Each builds a ``T`` from a ``BlockConfig`` alone.

    Args:
        name: what is registered here, for messages.
        aliases: other spellings of a name, until a class is registered under them.
    """

    def __init__(self, name: str, aliases: Mapping[str, str] | None = None) -> None:
        self.name, self.aliases = name, dict(aliases or {})
        self.entries: dict[str, Callable[..., T]] = {}

    def register(self, key: str, value: Any = None) -> Any:
        """Store ``value`` under ``key`` and return it; without it, be a decorator."""
        if value is None:
            return partial(self.register, key)
        if key in self.entries and not is_rerun(self.entries[key], value):
            raise InvalidInput(f"{self.name} {key!r} is taken, choose another name")
        self.entries[key] = value
        return value

    def get(self, key: str) -> Callable[..., T]:
        """Return the class that is registered under ``key``."""
        check_choice(self.name, key, self)
        return self.entries[key if key in self.entries else self.aliases[key]]

    def keys(self) -> list[str]:
        """Return all names, sorted."""
        known = [alias for alias, key in self.aliases.items() if key in self.entries]
        return sorted({*self.entries, *known})

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __repr__(self) -> str:
        return f"Registry({self.name}: {', '.join(self)})"


def is_rerun(old: Any, new: Any) -> bool:
    """Whether ``new`` is ``old`` once more, its cell of a notebook having run again."""
    same = old.__qualname__ == new.__qualname__
    return same and old.__module__ == new.__module__ == "__main__"


ALIASES = {"sliding_window": "sliding_window_gqa"}
attention_registry: Registry[nn.Module] = Registry("attention", ALIASES)
ffn_registry: Registry[nn.Module] = Registry("ffn")
norm_registry: Registry[nn.Module] = Registry("norm")
position_registry: Registry[Any] = Registry("position")  # of PositionBase
