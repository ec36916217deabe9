r"""Who hears whom: how much of what one position says arrives at another, in anything that maps signals to signals.

.. math:: M_{ij} = \Big\lVert \frac{\partial y_i}{\partial x_j} \Big\rVert_F

A zero says that position i does not hear position j at all, whatever happens in between.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_edu.errors import check_axes, check_floating, check_follows


def mixing_matrix(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    r"""Return :math:`M_{ij}`, (positions of y, positions of x): the Jacobian's norm between positions.

    It is in float64, on the CPU, positions in raster order; over several samples, which must not hear each other, it
    is the root of the mean square. It takes a backward pass for each number in a sample of y, and holds no more of the
    Jacobian at a time than that pass gives, one gradient of the size of ``x``. No parameter gets a gradient.

    Args:
        module: what maps (batch, *space, channels) to (batch, *space, channels), in the mode that it is in.
        x: where the Jacobian is taken.

    Raises:
        InvalidInput: for an integer input, one without an axis of space, or an output that does not follow from it.
    """
    check_floating("x", x)
    check_axes("x", x, "batch", "positions", "channels")
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = module(x)
        check_axes("module(x)", y, "batch", "positions", "channels")
        check_follows("module(x)", y)
        rows = [mean_squares(position, x) for position in y.flatten(1, -2).unbind(1)]
    return torch.stack(rows).sqrt()


def mean_squares(y: Tensor, x: Tensor) -> Tensor:
    """Return the mean over samples of the squared Jacobian of ``y``, (batch, channels), at each position of ``x``."""
    total = torch.zeros(x[0, ..., 0].numel(), dtype=torch.float64)
    for channel in y.unbind(-1):
        (gradient,) = torch.autograd.grad(channel.sum(), x, retain_graph=True, materialize_grads=True)
        total += gradient.cpu().double().flatten(1, -2).square().sum(dim=-1).mean(dim=0)
    return total
