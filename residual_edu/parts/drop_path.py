r"""Stochastic depth: set the branch of randomly chosen samples to zero, which so pass fewer layers in training.

.. math:: y_b = \frac{x_b \cdot m_b}{1 - p}, \qquad m_b \sim \mathrm{Bernoulli}(1 - p)

Of n branches with rates p_1 to p_n a sample passes n - sum(p) on average; their number is Poisson-binomial, not
uniform. Huang, Sun, Liu, Sedra & Weinberger, 2016, https://arxiv.org/abs/1603.09382
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Rate, Size, checked
from residual_edu.old_errors import check_axes, check_flag, check_floating, check_rate
from residual_edu.parts.dropout import bernoulli_mask


def drop_path(
    x: Float[Tensor, "batch *shape"],
    drop_prob: float = 0.0,
    training: bool = True,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch *shape"]:
    r"""Return :math:`x_b \cdot m_b / (1 - p)`, one random m for each sample; in evaluation, or at p = 0, ``x`` itself.

    Raises:
        InvalidInput: for a rate outside [0, 1), an integer input, or one without a batch axis.
    """
    check_floating("x", x)
    check_axes("x", x, "batch")
    check_rate("drop_prob", drop_prob)
    check_flag("training", training)
    if not training or drop_prob == 0:
        return x
    one_per_sample = (x.shape[0], *[1] * (x.ndim - 1))
    return (
        x
        * bernoulli_mask(one_per_sample, drop_prob, x.device, generator)
        / (1 - drop_prob)
    )


class DropPath(nn.Module):
    """``drop_path`` in training, the identity in evaluation. Each call draws its own random numbers.

    Args:
        drop_prob: rate in [0, 1) at which samples are dropped.
        generator: source of the random numbers; torch's global generator unless one is given.

    Raises:
        InvalidInput: for a rate out of range, an integer input, or one without a batch axis.
    """

    @checked
    def __init__(
        self, drop_prob: Rate = 0.0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.drop_prob, self.generator = drop_prob, generator

    def forward(
        self, x: Float[Tensor, "batch *shape"]
    ) -> Float[Tensor, "batch *shape"]:
        """Drop samples of ``x``; its shape and dtype are kept."""
        return drop_path(x, self.drop_prob, self.training, self.generator)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"drop_prob={self.drop_prob}"


@checked
def drop_path_schedule(depth: Size, max_rate: Rate) -> list[float]:
    r"""Return a rate for each of ``depth`` blocks, from 0 at the first: :math:`p_i = p_{\max} \, i / (n - 1)`.

    Raises:
        InvalidInput: for a depth below 1, or a rate outside [0, 1).
    """
    return [max_rate * (i / max(depth - 1, 1)) for i in range(depth)]
