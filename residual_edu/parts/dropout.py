r"""Dropout: set randomly chosen elements to zero, so that no unit can rely on another one.

.. math:: y = \frac{x \cdot m}{1 - p}, \qquad m_i \sim \mathrm{Bernoulli}(1 - p)

Srivastava, Hinton, Krizhevsky, Sutskever & Salakhutdinov, 2014, https://jmlr.org/papers/v15/srivastava14a.html
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Rate, checked
from residual_edu.old_errors import check_flag, check_floating, check_rate


def bernoulli_mask(
    shape: tuple[int, ...],
    rate: float,
    device: torch.device,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return a boolean mask on ``device``, each element False with probability ``rate``.

    The numbers are drawn on the generator's own device: the same CPU generator gives the same mask on every device.
    """
    drawn_on = device if generator is None else generator.device
    return (torch.rand(shape, generator=generator, device=drawn_on) >= rate).to(device)


def dropout(
    x: Float[Tensor, "*shape"],
    p: float = 0.5,
    training: bool = True,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*shape"]:
    r"""Return :math:`x \cdot m / (1 - p)`, one random m for each element; in evaluation, or at p = 0, ``x`` itself.

    The division keeps the expected value of each element, so that evaluation needs no correction.

    Raises:
        InvalidInput: for a rate outside [0, 1) or an integer input.
    """
    check_floating("x", x)
    check_rate("p", p)
    check_flag("training", training)
    if not training or p == 0:
        return x
    return x * bernoulli_mask(x.shape, p, x.device, generator) / (1 - p)


class Dropout(nn.Module):
    """``dropout`` in training, the identity in evaluation.

    Args:
        p: rate in [0, 1) at which elements are dropped.
        generator: source of the random numbers; torch's global generator unless one is given.

    Raises:
        InvalidInput: for a rate out of range or an integer input.
    """

    @checked
    def __init__(self, p: Rate = 0.5, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.p, self.generator = p, generator

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop elements of ``x``; its shape and dtype are kept."""
        return dropout(x, self.p, self.training, self.generator)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"p={self.p}"
