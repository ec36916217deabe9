"""Tables: tensors that are computed and not learned, such as rotary angles."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Tables(nn.Module):
    """Tensors that move with the module that holds them, and are not stored with it.

    A buffer would be rounded by ``.half()``, and would lose its values to ``to_empty``.
    """

    def __init__(self, *tables: Tensor) -> None:
        super().__init__()
        self.tables = tables

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Tables":
        """Follow a move; but meta would lose the values, and mps has no float64."""
        device = fn(torch.empty(0, device=self.tables[0].device)).device
        if device.type not in ("meta", "mps"):
            self.tables = tuple(table.to(device) for table in self.tables)
        return self
