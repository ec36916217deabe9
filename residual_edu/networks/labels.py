"""The check of labels and tokens: whole numbers below a count."""

import torch
from torch import Tensor

from residual_edu.old_errors import InvalidInput, check_axes, check_not_empty
from residual_edu.values import is_readable


def check_labels(name: str, labels: Tensor, count: int) -> None:
    """Raise ``InvalidInput`` unless ``labels`` is a tensor of whole numbers from 0 to ``count`` - 1, at least one."""
    check_axes(name, labels, "batch")
    check_not_empty(name, labels)
    whole = labels.dtype in (torch.int32, torch.int64)
    read = whole and is_readable(labels)
    low, high = (int(end) for end in labels.aminmax()) if read else (0, 0)
    if not whole or low < 0 or high >= count:
        seen = f"{low} to {high}" if whole else str(labels.dtype)
        raise InvalidInput(
            f"{name} must be whole numbers from 0 to {count - 1}, got {seen}"
        )
