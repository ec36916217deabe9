"""One training step: the places along the stream, the table of what was measured there, and the recorder's results."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from torch import Tensor, nn

from residual_edu.gradient_flow.hooks import Removable
from residual_edu.gradient_flow.sizes import Measured

QUANTITIES = ["activation", "added", "stream_gradient", "branch_gradient", "weight_gradient"]


@dataclass(eq=False, slots=True)
class Place:
    """A place on the stream where a block begins or the last one ends, and what was measured at it."""

    sizes: dict[str, Measured]
    end: Optional["Place"] = None  # where the block that begins here ends
    gradient: Tensor | None = None  # with respect to the stream here, until the branch's part has been measured

    def take_gradient(self, otherwise: Tensor) -> Tensor:
        """Return the gradient and drop it, so that its memory is freed.

        Where a block returns its input itself, one tensor has the hooks of both its ends, and the hook of the first
        end is called first: then the second has no gradient yet, and it will be ``otherwise``.
        """
        gradient, self.gradient = self.gradient, None
        return otherwise if gradient is None else gradient


Run = tuple[nn.Module, Place]  # a block and the place where it began


@dataclass(eq=False, slots=True)
class Step:
    """What is known between one call of the model and the next."""

    number: int = -1  # of the call, from 0; -1 before the first
    inside: dict[nn.Module, tuple[Tensor, int, Place]] = field(default_factory=dict)  # blocks that have begun
    latest: tuple[Tensor | None, int, Place | None] = (None, 0, None)  # the stream, its version, and its last place
    runs: list[Run] = field(default_factory=list)  # that a complete backward pass has reached, the last one first
    hooks: list[Removable] = field(default_factory=list)  # on the stream


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
    """Return the root mean squares of one step, (quantities, blocks + 1), nan where nothing was measured.

    ``runs`` are in the order of the backward pass, the last one first. Each block of the list takes the next of its
    own, and the last column is the place after the last block.
    """
    waiting: dict[nn.Module, list[Place]] = defaultdict(list)
    for block, place in runs:
        waiting[block].append(place)
    nowhere = Place({})
    places = [waiting[block].pop() if waiting[block] else nowhere for block in blocks]
    places.append(places[-1].end or nowhere)
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
