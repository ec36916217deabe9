"""One step under way: the places along the stream, the table that they make, and the results of all steps."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from residual_edu.gradient_flow.sizes import Size

QUANTITIES = ["activation", "added", "delta", "branch_share", "weight_gradient"]


@dataclass(eq=False, slots=True)
class Place:
    """A place on the stream where a block begins or the last one ends: what was measured from there on."""

    sizes: dict[str, Size]
    behind: Optional["Place"] = None  # where the block that begins here ends
    gradient: Tensor | None = None  # until the share of that block's branch is known

    def take_gradient(self, otherwise: Tensor) -> Tensor:
        """Return the gradient and let go of it.

        A bypassed block's two ends are one tensor, whose hook before the block came first and is called first: then
        there is none yet, and it will be ``otherwise``.
        """
        gradient, self.gradient = self.gradient, None
        return otherwise if gradient is None else gradient


Run = tuple[nn.Module, Place]  # a block and the place where it began


@dataclass(eq=False, slots=True)
class Step:
    """What is known between one call of the model and the next."""

    number: int = -1  # of the call, from 0; before the first there is none
    inside: dict[nn.Module, tuple[Tensor, int, Place]] = field(default_factory=dict)  # blocks that the stream is in
    latest: tuple[Tensor | None, int, Place | None] = (None, 0, None)  # the stream where it was last seen
    runs: list[Run] = field(default_factory=list)  # that a whole backward pass came to, the last one first
    hooks: list[RemovableHandle] = field(default_factory=list)  # on the stream


def first_tensor(*values: Any) -> Tensor | None:
    """Return the first floating-point tensor among ``values``, or within their tuples, lists and mappings."""
    for value in values:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
        if isinstance(value, tuple | list | dict):
            inner = first_tensor(*(value.values() if isinstance(value, dict) else value))
            if inner is not None:
                return inner
    return None


def table(blocks: Iterable[nn.Module], runs: Iterable[Run]) -> Tensor:
    """Return the root mean squares of one step, (quantities, blocks + 1), nan where there are none.

    ``runs`` stand as the gradient came to them, the last one first. Each block of the list takes the next of its own,
    and the last column is the place behind the last block.
    """
    waiting: dict[nn.Module, list[Place]] = defaultdict(list)
    for block, place in runs:
        waiting[block].append(place)
    nowhere = Place({})
    places = [waiting[block].pop() if waiting[block] else nowhere for block in blocks]
    places.append(places[-1].behind or nowhere)
    device = next(norm.device for place in places for norm, _ in place.sizes.values())
    missing = torch.tensor(torch.nan, device=device), 1
    norms, counts = zip(*(place.sizes.get(name, missing) for name in QUANTITIES for place in places), strict=True)
    sizes = torch.stack([norm.to(device) for norm in norms])
    return (sizes / torch.tensor(counts, dtype=sizes.dtype, device=device).sqrt()).view(len(QUANTITIES), -1)


def result(name: str, doc: str, start: int = 0, end: int | None = None) -> Any:
    """Return a property of a recorder: columns ``start`` to ``end`` of a quantity, (steps, columns), float64."""

    def read(flow: Any) -> Tensor:
        none = torch.empty(0, len(QUANTITIES), len(flow.blocks) + 1)
        steps = torch.stack(flow.steps) if flow.steps else none
        return steps[:, QUANTITIES.index(name), start:end].cpu().double()

    return property(read, doc=doc)


def remove(hooks: list[RemovableHandle]) -> None:
    """Remove all ``hooks``."""
    while hooks:
        hooks.pop().remove()
