r"""The mixing matrix: how much the output at a position depends on each input position.

.. math:: M_{ij} = \Big\lVert \frac{\partial y_i}{\partial x_j} \Big\rVert_F

:math:`M_{ij} = 0` where a small change at position j leaves the output at i as it was.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def mixing_matrix(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    r"""Return :math:`M_{ij}`, (positions of y, positions of x), in float64 on the CPU.

    Positions are in raster order. For several samples, which must not affect each
    other, it is the root of their mean square. It takes a backward pass for each number
    in a sample of y, and holds one row of the Jacobian at a time.

    Args:
        module: maps (batch, *space, channels) to (batch, *space, channels).
        x: the input at which the Jacobian is taken, floating point.
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        outputs = module(x).flatten(1, -2).unbind(1)  # (batch, channels) each
        rows = [mean_squares(y, x) for y in outputs]
    return torch.stack(rows).sqrt()


def mean_squares(y: Tensor, x: Tensor) -> Tensor:
    """Return the mean squared Jacobian of ``y`` at each position of ``x``."""
    total = torch.zeros(x[0, ..., 0].numel(), dtype=torch.float64)  # (positions of x,)
    for channel in y.unbind(-1):
        (gradient,) = torch.autograd.grad(
            channel.sum(), x, retain_graph=True, materialize_grads=True
        )
        total += gradient.cpu().double().flatten(1, -2).square().sum(dim=-1).mean(dim=0)
    return total
