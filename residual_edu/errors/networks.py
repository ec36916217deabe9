"""Checks of what a network is built from and fed with."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

from torch import nn

from residual_edu.errors.branches import check_takes
from residual_edu.errors.invalid_input import InvalidInput, shown
from residual_edu.errors.numbers import check_size


def check_keys(name: str, mapping: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raise ``InvalidInput``, with the nearest key, unless ``mapping`` has exactly ``keys``."""
    wanted = list(keys)
    came = list(mapping) if isinstance(mapping, Mapping) else None
    if came is None or sorted(map(str, came)) != sorted(wanted):
        got = shown(mapping) if came is None else ", ".join(map(repr, came)) or "none"
        raise InvalidInput(f"{name} must have the keys {', '.join(map(repr, wanted))}, got {got}{_meant(wanted, came)}")


def _meant(wanted: list[str], came: list[Any] | None) -> str:
    """Say which key that came is nearly one that is missing."""
    strange = [key for key in came or [] if key not in wanted]
    pairs = [(key, near[0]) for key in strange if (near := get_close_matches(str(key), wanted, n=1))]
    return f"; did you mean {pairs[0][1]!r} by {pairs[0][0]!r}?" if pairs else ""


def check_sizes(**sizes: int) -> None:
    """Raise ``InvalidInput`` unless each of ``sizes`` is a whole number of at least 1."""
    for name, size in sizes.items():
        check_size(name, size)


def check_factory(name: str, spec: object) -> None:
    """Raise ``InvalidInput`` where ``spec`` is a module that is built already."""
    if isinstance(spec, nn.Module):
        kind = type(spec).__name__
        raise InvalidInput(
            f"{name} must be something to build a module from, got a built {kind}: all blocks would be this one "
            f"module and share its weights; give LazyConfig({kind})(...), or a function that returns a new one"
        )


def check_agreement(name: str, spec: object, sizes: Mapping[str, int]) -> None:
    """Raise ``InvalidInput`` where ``spec`` gives another number than ``sizes`` under one of their names."""
    given = spec.keywords if isinstance(spec, partial) else spec if isinstance(spec, Mapping) else {}
    for key, size in sizes.items():
        if given.get(key, size) != size:
            raise InvalidInput(f"{name} has {key}={given[key]}, the network's sizes ask for {size}; leave {key} out")


def check_stack(name: str, blocks: nn.ModuleList, run_twice: bool) -> None:
    """Raise ``InvalidInput`` unless each of ``blocks`` takes a condition, is its own, and can be ``run_twice``."""
    for place, block in enumerate(blocks):
        check_takes(f"{name}, block {place},", block, "x", "condition")
    check_own_parameters(name, blocks)
    if run_twice:
        check_no_generator("gradient_checkpointing", blocks)


def check_own_parameters(name: str, blocks: Iterable[nn.Module]) -> None:
    """Raise ``InvalidInput`` where two of ``blocks`` have a parameter in common."""
    owners: dict[int, int] = {}
    for place, block in enumerate(blocks):
        for path, p in block.named_parameters():
            if (other := owners.setdefault(id(p), place)) != place:
                raise InvalidInput(
                    f"{name} must build new weights for each block, blocks {other} and {place} share {path}; "
                    "give a config wherever a built module stands in it"
                )


def check_no_generator(name: str, model: nn.Module) -> None:
    """Raise ``InvalidInput`` where a module inside ``model`` draws its coins from a generator of its own."""
    for place, module in model.named_modules():
        if getattr(module, "generator", None) is not None:
            kind = type(module).__name__
            raise InvalidInput(
                f"{name} runs each block twice, and {place}, a {kind}, would flip other coins the second time; "
                "leave its generator out, torch's own is wound back"
            )
