"""When the values of a tensor may be looked at."""

import torch
from torch import Tensor


def is_readable(x: Tensor) -> bool:
    """Whether a check may read ``x``: it would make a GPU wait, break a compiled graph, and fail within ``vmap``."""
    return x.is_cpu and not torch.compiler.is_compiling() and not torch._C._functorch.is_functorch_wrapped_tensor(x)
