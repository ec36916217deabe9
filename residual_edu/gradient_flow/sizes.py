"""How large tensors are: a norm, kept where the tensor is and read once at the end, and over how many elements."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

Size = tuple[Tensor, int]  # a norm, and the number of elements it is over
AT_LEAST = {torch.float16: torch.float32, torch.bfloat16: torch.float32}  # what squares are summed in


def size(x: Tensor) -> Size:
    """Return the norm of ``x``, its squares summed in float32 at least, and the number of its elements.

    Where float32 would lose the squares, those of 1e-23 or 1e20 say, they are summed in float64.
    """
    x = x.detach()
    norm = torch.linalg.vector_norm(x, dtype=torch.float64 if x.is_cuda else AT_LEAST.get(x.dtype))
    return torch.linalg.vector_norm(x, dtype=torch.float64) if is_doubtful(norm) else norm, x.numel()


def is_doubtful(norm: Tensor) -> bool:
    """Whether squares may have been lost on the way to ``norm``; asked on the CPU alone, where it takes no wait."""
    return norm.is_cpu and not 1e-12 < norm.item() < 1e18


def size_between(x: Tensor, y: Tensor) -> Size:
    """Return the size of ``x - y``, or nan where they cannot be subtracted: other shapes, other devices."""
    if x.shape != y.shape or x.device != y.device:
        return x.new_full((), torch.nan), 1
    return size(x.detach() - y.detach())


def size_of_gradients(weights: Iterable[nn.Parameter]) -> Size:
    """Return the size of all gradients that stand in ``weights``, as if they were one tensor, or nan for none."""
    gradients = [weight.grad for weight in weights if weight.requires_grad and weight.grad is not None]
    if not gradients:
        return torch.tensor(torch.nan), 1
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if is_doubtful(norm):
        norm = torch.linalg.vector_norm(torch.stack([size(gradient)[0] for gradient in gradients]))
    return norm, sum(gradient.numel() for gradient in gradients)
