r"""Stochastic depth: a gate that flips one coin for a whole sample, which so meets a network of its own depth.

.. math:: y_b = \frac{x_b \cdot m_b}{1 - p}, \qquad m_b \sim \mathrm{Bernoulli}(1 - p)

Of n branches with rates p_1 to p_n, n - sum(p) stay on average; their number is Poisson-binomial, not uniform.
Huang, Sun, Liu, Sedra & Weinberger, 2016, https://arxiv.org/abs/1603.09382
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_axes, check_floating, check_rate, check_size
from residual_edu.parts.dropout import flip_coins


def drop_path(
    x: Float[Tensor, "batch *shape"],
    drop_prob: float = 0.0,
    training: bool = True,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch *shape"]:
    r"""Return :math:`x_b \cdot m_b / (1 - p)`, a coin for each sample; in evaluation or at p = 0 the same ``x``."""
    check_floating("x", x)
    check_axes("x", x, "batch")
    check_rate("drop_prob", drop_prob)
    if not training or drop_prob == 0:
        return x
    one_per_sample = (len(x), *[1] * (x.ndim - 1))
    return x * flip_coins(one_per_sample, drop_prob, x.device, generator) / (1 - drop_prob)


class DropPath(nn.Module):
    """``drop_path`` in training, the very same tensor in evaluation. Each call flips its own coins.

    Args:
        drop_prob: rate in [0, 1) at which samples lose the branch.
        generator: where the coins come from; torch's global generator if none is given.

    Raises:
        InvalidInput: for a rate out of range, an integer input, or one without a batch axis.
    """

    def __init__(self, drop_prob: float = 0.0, generator: torch.Generator | None = None) -> None:
        super().__init__()
        check_rate("drop_prob", drop_prob)
        self.drop_prob, self.generator = drop_prob, generator

    def forward(self, x: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        """Drop samples of ``x``; shape and dtype stay."""
        return drop_path(x, self.drop_prob, self.training, self.generator)

    def extra_repr(self) -> str:
        """Say the rate."""
        return f"drop_prob={self.drop_prob}"


def drop_path_schedule(depth: int, max_rate: float) -> list[float]:
    r"""Return a rate for each of ``depth`` blocks, from 0 at the first: :math:`p_i = p_{\max} \, i / (n - 1)`.

    Raises:
        InvalidInput: for a depth below 1, or a rate outside [0, 1).
    """
    check_size("depth", depth)
    check_rate("max_rate", max_rate)
    return [max_rate * (i / max(depth - 1, 1)) for i in range(depth)]
