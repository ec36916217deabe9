"""Building the blocks of a network, and the modules to which the network gives their sizes.

A network gets descriptions of its modules (``config.Spec``) and completes them with what it alone knows: widths, drop
rates, the index of the first register. One description makes every block, so each call must return new parameters.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from torch import nn

from residual_edu.calls import check_keywords, check_takes
from residual_edu.config import Spec, build, from_mapping
from residual_edu.old_errors import InvalidInput, shown


def build_with(name: str, spec: Spec, **given: Any) -> nn.Module:
    """Return the module that ``spec`` describes, its call completed with ``given``; a built module as it is.

    Args:
        name: the network's argument that ``spec`` came from, for the messages.
        spec: a module, what returns one, or a mapping with ``__target__``.
        given: the keyword arguments that the network fills in.

    Raises:
        InvalidInput: for what describes no module, takes no such keyword, or sets one of them to another value.
    """
    if isinstance(spec, nn.Module):
        return spec
    call = from_mapping(spec) if isinstance(spec, Mapping) else spec
    if not callable(call):
        raise InvalidInput(
            f"{name} must be a module, what returns one, or a mapping, got {shown(call)}"
        )
    own = call.keywords if isinstance(call, partial) else {}
    for key, value in given.items():
        if own.get(key, value) != value:
            raise InvalidInput(
                f"{name} has {key}={own[key]!r}, the network sets it to {value!r}; leave {key} out"
            )
    check_keywords(call, given)
    return build(partial(call, **given))


def build_blocks(
    name: str, spec: Spec, given: Iterable[Mapping[str, Any]]
) -> nn.ModuleList:
    """Return one new block for each mapping in ``given``: the keyword arguments that the network fills in for it.

    Raises:
        InvalidInput: as ``build_with``, and for a built block, or blocks that have a parameter in common.
    """
    if isinstance(spec, nn.Module):
        kind = type(spec).__name__
        raise InvalidInput(
            f"{name} must be something to build a module from, got a built {kind}: all blocks would be this one "
            f"module and share its weights; give LazyConfig({kind})(...), or a function that returns a new one"
        )
    blocks = nn.ModuleList(build_with(name, spec, **keywords) for keywords in given)
    check_own_parameters(name, blocks)
    return blocks


def check_own_parameters(name: str, blocks: Iterable[nn.Module]) -> None:
    """Raise ``InvalidInput`` where two of ``blocks`` have a parameter in common."""
    owners: dict[int, int] = {}
    for place, block in enumerate(blocks):
        for path, parameter in block.named_parameters():
            if (other := owners.setdefault(id(parameter), place)) != place:
                raise InvalidInput(
                    f"{name} must build new weights for each block, blocks {other} and {place} share {path}; "
                    "replace a built module inside it by a config"
                )


def check_stack(
    name: str, blocks: Iterable[nn.Module], *arguments: str, checkpointing: bool = False
) -> None:
    """Raise ``InvalidInput`` unless each block takes ``arguments``, and can be run twice under ``checkpointing``."""
    for place, block in enumerate(blocks):
        check_takes(f"{name}, block {place},", block, *arguments)
        for path, module in block.named_modules() if checkpointing else ():
            if getattr(module, "generator", None) is not None:
                raise InvalidInput(
                    "gradient_checkpointing runs each block twice, and would draw other random numbers the second "
                    f"time: blocks.{place}.{path}, a {type(module).__name__}, has a generator of its own; leave it "
                    "out, since torch's global generator is set back for the second run"
                )
