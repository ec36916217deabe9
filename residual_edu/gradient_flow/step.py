"""What a recorder keeps of a step: a table of sizes, and the results read from it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from residual_edu.gradient_flow.stream import Place, Run

AT_PLACES = ["activation", "stream_gradient"]
OF_BLOCKS = ["added", "branch_gradient", "weight_gradient"]
QUANTITIES = AT_PLACES + OF_BLOCKS


def first_tensor(*values: Any) -> Tensor | None:
    """Return the first real or complex tensor in ``values``, also within containers."""
    for value in values:
        inner = tuple(value.values()) if isinstance(value, Mapping) else value
        if is_dataclass(inner) and not isinstance(inner, type):
            inner = tuple(getattr(inner, each.name) for each in fields(inner))
        found = first_tensor(*inner) if isinstance(inner, tuple | list) else inner
        if isinstance(found, Tensor) and found.real.is_floating_point():
            return found
    return None


def table(blocks: Iterable[nn.Module], runs: Iterable[tuple[nn.Module, Run]]) -> Tensor:
    """Return the root mean squares of one step, (quantities, blocks + 1), or nan.

    ``runs`` are in the order of the backward pass. Each entry of ``blocks`` takes the
    next run of its block, and the last column is the place after the last of them.
    """
    waiting: dict[nn.Module, list[Run]] = defaultdict(list)
    for block, run in runs:
        waiting[block].append(run)
    none = Run(Place({}), Place({}))
    found = [waiting[block].pop() if waiting[block] else none for block in blocks]
    columns = [run.start.sizes | run.sizes for run in found] + [found[-1].end.sizes]
    missing = torch.tensor(torch.nan), 1
    cells = [column.get(name, missing) for name in QUANTITIES for column in columns]
    device = next(norm.device for column in columns for norm, _ in column.values())
    norms = torch.stack([norm.to(device) for norm, _ in cells])
    counts = norms.new_tensor([count for _, count in cells])
    return (norms / counts.sqrt()).view(len(QUANTITIES), -1)


def result(name: str, doc: str, start: int = 0) -> Any:
    """Return a property of a recorder: a quantity from column ``start`` on."""

    def read(flow: Any) -> Tensor:
        none = torch.empty(0, len(QUANTITIES), len(flow.blocks) + 1)
        steps = torch.stack(flow.steps) if flow.steps else none
        end = -1 if name in OF_BLOCKS else None
        return steps[:, QUANTITIES.index(name), start:end].cpu().double()

    return property(read, doc=doc)
