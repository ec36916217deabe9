"""The size of a tensor: its norm, left on its device, and its number of elements."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

Measured = tuple[Tensor, int]


def size(x: Tensor) -> Measured:
    """Return the norm of ``x``, summed in float64, and its number of elements."""
    wide = torch.float32 if x.device.type == "mps" else torch.float64  # mps has none
    dense, dtype = x.detach().to_dense(), torch.promote_types(x.dtype, wide)
    return torch.linalg.vector_norm(dense, dtype=dtype), x.numel()


def size_between(x: Tensor, y: Tensor | None) -> Measured:
    """Return the size of ``x - y``, or nan where they cannot be subtracted."""
    if y is None or x.shape != y.shape or x.device != y.device:
        return torch.tensor(torch.nan, device=x.device), 1
    return size(x.detach() - y.detach())


def size_of_gradients(weights: Iterable[nn.Parameter]) -> Measured:
    """Return the size of this process's gradients as one, nan where there are none."""
    gradients = [w.grad for w in weights if w.requires_grad and w.grad is not None]
    if not gradients:
        return torch.tensor(torch.nan), 1
    shards = [g.to_local() if hasattr(g, "to_local") else g for g in gradients]
    norms, counts = zip(*map(size, shards), strict=True)
    return torch.linalg.vector_norm(torch.stack(norms)), sum(counts)
