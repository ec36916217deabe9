"""Registries: from the name in a config to the class that it stands for, so that a new part needs no change elsewhere.

A class is registered by ``@attention_registry.register("name")`` above it, or by ``register("name", cls)`` after it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from residual_edu.errors import check_key_free, check_known

Component = Callable[..., Any]
LATER = object()  # no class yet: register returns a decorator, which will be given one


class Registry:
    """Classes by name. Each is built from a ``BlockConfig`` alone.

    Args:
        name: what is registered here, for messages.
        aliases: other spellings of a name; a class that is registered under one takes its place.

    Raises:
        InvalidInput: for a name that is taken, or one that is not known.
    """

    def __init__(self, name: str, aliases: Mapping[str, str] | None = None) -> None:
        self.name, self.aliases = name, dict(aliases or {})
        self.entries: dict[str, Component] = {}

    def register(self, key: str, value: Any = LATER) -> Any:
        """Keep ``value`` under ``key`` and return it; without a ``value``, return the decorator that does so."""
        if value is LATER:
            return partial(self.register, key)
        check_key_free(self.name, key, self.entries, value)
        self.entries[key] = value
        return value

    def get(self, key: str) -> Component:
        """Return what stands under ``key``."""
        check_known(self.name, key, self.keys())
        return self.entries[key if key in self.entries else self.aliases[key]]

    def keys(self) -> list[str]:
        """Return all names, sorted."""
        return sorted({*self.entries, *(alias for alias, key in self.aliases.items() if key in self.entries)})

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __repr__(self) -> str:
        return f"Registry({self.name}: {', '.join(self.keys())})"


attention_registry = Registry("attention", aliases={"sliding_window": "sliding_window_gqa"})
ffn_registry = Registry("ffn")
norm_registry = Registry("norm")
position_registry = Registry("position")
