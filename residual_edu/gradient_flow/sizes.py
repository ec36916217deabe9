"""How large tensors are: a norm, kept where the tensor is and read once at the end, and over how many elements."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

Size = tuple[Tensor, int]  # a norm, and the number of elements it is over
AT_LEAST = {torch.float16: torch.float32, torch.bfloat16: torch.float32}  # what squares are summed in
MANY = 2**16  # squares, beyond which a running sum loses digits: 4e-4 of a norm at 10**7


def size(x: Tensor) -> Size:
    """Return the norm of ``x`` and the number of its elements."""
    return norm_of(x.detach()), x.numel()


def norm_of(x: Tensor) -> Tensor:
    """Return the norm of ``x``, its squares summed in float32 at least, many of them in pairs.

    Where float32 would lose the squares, those of 1e-23 or 1e20 say, they are summed in float64.
    """
    if x.numel() > MANY and not x.is_cuda:
        norm = x.to(AT_LEAST.get(x.dtype, x.dtype)).square().sum().sqrt()
    else:
        norm = torch.linalg.vector_norm(x, dtype=torch.float64 if x.is_cuda else AT_LEAST.get(x.dtype))
    return torch.linalg.vector_norm(x, dtype=torch.float64) if is_doubtful(norm) else norm


def is_doubtful(norm: Tensor) -> bool:
    """Whether squares may have been lost on the way to ``norm``; asked on the CPU alone, where it takes no wait."""
    return norm.is_cpu and not 1e-12 < norm.item() < 1e18


def size_between(x: Tensor, y: Tensor) -> Size:
    """Return the size of ``x - y``, or nan where they cannot be subtracted: other shapes, other devices."""
    if x.shape != y.shape or x.device != y.device:
        return x.new_full((), torch.nan), 1
    return norm_of(x.detach() - y.detach()), x.numel()


def size_of_gradients(weights: Iterable[nn.Parameter]) -> Size:
    """Return the size of all gradients that stand in ``weights``, as if they were one tensor, or nan for none."""
    gradients = [weight.grad for weight in weights if weight.requires_grad and weight.grad is not None]
    if not gradients:
        return torch.tensor(torch.nan), 1
    few = all(gradient.numel() <= MANY for gradient in gradients)
    norms = torch._foreach_norm(gradients) if few else [norm_of(gradient) for gradient in gradients]
    norm = torch.linalg.vector_norm(torch.stack(norms))
    if is_doubtful(norm):
        norm = torch.linalg.vector_norm(torch.stack([norm_of(gradient) for gradient in gradients]))
    return norm, sum(gradient.numel() for gradient in gradients)
