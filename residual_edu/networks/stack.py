"""Building parts from descriptions, which the network completes with its sizes."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from torch import nn

from residual_edu.config import Spec, build
from residual_edu.errors import InvalidInput


def build_with(spec: Spec, **given: Any) -> nn.Module:
    """Build ``spec`` with the arguments ``given``; a built module stays as it is."""
    if isinstance(spec, nn.Module):
        return spec
    own = spec if isinstance(spec, Mapping) else getattr(spec, "keywords", {})
    for name, value in given.items():
        if own.get(name, value) != value:
            wanted = f"{value!r}, as the network sets it"
            raise InvalidInput(f"{name} must be {wanted}, got {own[name]!r}")
    if isinstance(spec, Mapping):
        return build({**spec, **given})
    return build(partial(spec, **given))


def build_blocks(spec: Spec, given: Iterable[Mapping[str, Any]]) -> nn.ModuleList:
    """Build a block with weights of its own for each mapping in ``given``."""
    blocks = nn.ModuleList(build_with(spec, **arguments) for arguments in given)
    weights = [id(weight) for block in blocks for weight in block.parameters()]
    if len(weights) > len(set(weights)):
        mend = "got one module in all of them; give what builds it"
        raise InvalidInput(f"block_cfg must build each block's own weights, {mend}")
    return blocks
