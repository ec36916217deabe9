r"""Dropout: a gate that flips a coin for each unit, so that no unit can rely on another.

.. math:: y = \frac{x \cdot m}{1 - p}, \qquad m_i \sim \mathrm{Bernoulli}(1 - p)

Srivastava, Hinton, Krizhevsky, Sutskever & Salakhutdinov, 2014, https://jmlr.org/papers/v15/srivastava14a.html
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_floating, check_rate


def flip_coins(
    shape: tuple[int, ...], rate: float, device: torch.device, generator: torch.Generator | None = None
) -> Tensor:
    """Return ones and zeros on ``device``, each a zero with probability ``rate``.

    A generator may live on another device: the same CPU generator gives the same coins everywhere.
    """
    drawn_on = device if generator is None else generator.device
    return (torch.rand(shape, generator=generator, device=drawn_on) >= rate).to(device)


def dropout(
    x: Float[Tensor, "*shape"], p: float = 0.5, training: bool = True, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    r"""Return :math:`x \cdot m / (1 - p)`, a coin for each element; in evaluation or at p = 0 the very same ``x``.

    The division keeps the mean of every element what it was, so that evaluation needs no correction.
    """
    check_floating("x", x)
    check_rate("p", p)
    if not training or p == 0:
        return x
    return x * flip_coins(x.shape, p, x.device, generator) / (1 - p)


class Dropout(nn.Module):
    """``dropout`` in training, the very same tensor in evaluation.

    Args:
        p: rate in [0, 1) at which elements are dropped.
        generator: where the coins come from; torch's global generator if none is given.

    Raises:
        InvalidInput: for a rate out of range or an integer input.
    """

    def __init__(self, p: float = 0.5, generator: torch.Generator | None = None) -> None:
        super().__init__()
        check_rate("p", p)
        self.p, self.generator = p, generator

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop elements of ``x``; shape and dtype stay."""
        return dropout(x, self.p, self.training, self.generator)

    def extra_repr(self) -> str:
        """Say the rate."""
        return f"p={self.p}"
