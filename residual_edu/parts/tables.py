"""Tables: tensors of a module that are computed and not learned, such as the rotary angles of its positions."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn


class Tables(nn.Module):
    """Tensors that move with the module which holds them, keep their dtype, and are not stored with the weights.

    A buffer would be rounded by ``.half()``, and would have no values after ``to_empty``. These keep theirs.

    Args:
        tables: the tensors, at least one.
    """

    def __init__(self, *tables: Tensor) -> None:
        super().__init__()
        self.tables = tables

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tables)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Tables":
        """Follow a move to another device; the meta device has no values, and mps has no float64."""
        device = fn(torch.empty(0, device=self.tables[0].device)).device
        if device.type not in ("meta", "mps"):
            self.tables = tuple(table.to(device) for table in self.tables)
        return self
