r"""The mixing matrix: how much the output at each position depends on the input at each other position.

.. math:: M_{ij} = \Big\lVert \frac{\partial y_i}{\partial x_j} \Big\rVert_F

:math:`M_{ij} = 0` where a small change at position j does not change the output at position i.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_edu.old_errors import InvalidInput, check_axes, check_floating


def mixing_matrix(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    r"""Return :math:`M_{ij}`, (positions of y, positions of x): the norm of the Jacobian between two positions.

    The result is float64, on the CPU, with the positions in raster order. For several samples, which must not affect
    each other, it is the root of their mean square. It takes one backward pass for each number in a sample of y and
    stores one row of the Jacobian at a time, a gradient of the shape of ``x``. No parameter receives a gradient.

    Args:
        module: maps (batch, *space, channels) to (batch, *space, channels); it stays in its mode.
        x: the input at which the Jacobian is taken, floating point.

    Raises:
        InvalidInput: for an integer input, one without an axis of space, or an output that autograd cannot trace to it.
    """
    check_floating("x", x)
    check_axes("x", x, "batch", "positions", "channels")
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = module(x)
        check_axes("module(x)", y, "batch", "positions", "channels")
        if not y.requires_grad:
            raise InvalidInput(
                "module(x) must have a gradient with respect to x, got none; detach nothing on the way"
            )
        rows = [mean_squares(position, x) for position in y.flatten(1, -2).unbind(1)]
    return torch.stack(rows).sqrt()


def mean_squares(y: Tensor, x: Tensor) -> Tensor:
    """Return the mean over samples of the squared Jacobian of ``y``, (batch, channels), at each position of ``x``."""
    total = torch.zeros(x[0, ..., 0].numel(), dtype=torch.float64)  # (positions of x,)
    for channel in y.unbind(-1):
        (gradient,) = torch.autograd.grad(
            channel.sum(), x, retain_graph=True, materialize_grads=True
        )
        total += gradient.cpu().double().flatten(1, -2).square().sum(dim=-1).mean(dim=0)
    return total
