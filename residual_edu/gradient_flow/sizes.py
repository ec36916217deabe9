"""The sizes of tensors: a norm, left on the tensor's device and read once at the end, and the number of elements."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

Measured = tuple[Tensor, int]  # the norm of a tensor, and its number of elements
SUM_IN = {torch.float16: torch.float32, torch.bfloat16: torch.float32}  # the dtype in which squares are summed
MANY = 2**16  # above this many elements a running sum loses digits: a norm of 10**7 elements is off by 4e-4


def size(x: Tensor) -> Measured:
    """Return the norm of ``x`` and the number of its elements."""
    return norm_of(x.detach()), x.numel()


def norm_of(x: Tensor) -> Tensor:
    """Return the norm of ``x``, with its squares summed in float32 at least, or in float64 where float32 loses them."""
    if x.numel() > MANY and not x.is_cuda:
        norm = x.to(SUM_IN.get(x.dtype, x.dtype)).square().sum().sqrt()  # sum() adds in pairs, vector_norm does not
    else:
        norm = torch.linalg.vector_norm(x, dtype=torch.float64 if x.is_cuda else SUM_IN.get(x.dtype))
    return torch.linalg.vector_norm(x, dtype=torch.float64) if is_doubtful(norm) else norm


def is_doubtful(norm: Tensor) -> bool:
    """Whether squares may have left float32's range, as those of 1e-23 or 1e20 do; always False off the CPU."""
    return norm.is_cpu and not 1e-12 < norm.item() < 1e18  # elsewhere item() would wait for the device


def size_between(x: Tensor, y: Tensor) -> Measured:
    """Return the size of ``x - y``, or nan where they cannot be subtracted: other shapes, other devices."""
    if x.shape != y.shape or x.device != y.device:
        return x.new_full((), torch.nan), 1
    return norm_of(x.detach() - y.detach()), x.numel()


def local(x: Tensor) -> Tensor:
    """Return the shard that this process has of a DTensor, and any other tensor as it is."""
    return x.to_local() if hasattr(x, "to_local") else x


def size_of_gradients(weights: Iterable[nn.Parameter]) -> Measured:
    """Return the size of the gradients of all ``weights``, as if they were one tensor, or nan where there are none."""
    gradients = [local(weight.grad) for weight in weights if weight.requires_grad and weight.grad is not None]
    if not gradients:
        return torch.tensor(torch.nan), 1
    few = all(gradient.numel() <= MANY for gradient in gradients)
    norms = torch._foreach_norm(gradients) if few else [norm_of(gradient) for gradient in gradients]
    norm = torch.linalg.vector_norm(torch.stack(norms))
    if is_doubtful(norm):
        norm = torch.linalg.vector_norm(torch.stack([norm_of(gradient) for gradient in gradients]))
    return norm, sum(gradient.numel() for gradient in gradients)
