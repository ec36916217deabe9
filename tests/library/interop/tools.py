"""What the tests of this folder share: the tensors within arguments and results."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map


def tensors(value: Any) -> list[Tensor]:
    """Every tensor within ``value``, in order."""
    return [each for each in tree_leaves(value) if isinstance(each, Tensor)]


def replaced(value: Any, change: Callable[[Tensor], Any], otherwise: Any = lambda each: each) -> Any:
    """``value`` with ``change`` applied to each tensor, and ``otherwise`` to what is none."""
    return tree_map(lambda each: change(each) if isinstance(each, Tensor) else otherwise(each), value)


def same(found: Any, expected: Any, **tolerance: Any) -> None:
    """Compare all tensors of two results."""
    for a, b in zip(tensors(found), tensors(expected), strict=True):
        torch.testing.assert_close(a, b, **tolerance)


def gradients(model: Any, call: dict[str, Any]) -> list[Any]:
    """What the model returns, and the gradients of the sum of its squares."""
    found = model(**call)
    total = sum(each.square().sum() for each in tensors(found) if each.requires_grad)
    weights = [each for each in model.parameters() if each.requires_grad]
    return [found, *torch.autograd.grad(total, weights, allow_unused=True, materialize_grads=True)]
