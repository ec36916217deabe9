r"""Stochastic depth: skip the branch for randomly chosen samples.

.. math:: y_b = \frac{x_b \cdot m_b}{1 - p}, \qquad m_b \sim \mathrm{Bernoulli}(1 - p)

Of n branches with rates p_1 to p_n a sample passes n - sum(p) on average; their number
is Poisson-binomial, not uniform. Huang et al., 2016, https://arxiv.org/abs/1603.09382
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_rate, check_size
from residual_edu.parts.dropout import bernoulli_mask


def drop_path(
    x: Float[Tensor, "batch *rest"],
    drop_prob: float = 0.0,
    training: bool = True,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch *rest"]:
    """Drop samples of ``x``, at a rate in [0, 1); in evaluation return ``x`` itself."""
    check_rate("drop_prob", drop_prob)
    if not training or drop_prob == 0:
        return x
    one_per_sample = (x.shape[0], *[1] * (x.ndim - 1))
    mask = bernoulli_mask(one_per_sample, drop_prob, x, generator)
    return x * mask / (1 - drop_prob)


class DropPath(nn.Module):
    """``drop_path`` in training, the identity in evaluation.

    Args:
        drop_prob: rate in [0, 1) at which samples are dropped.
        generator: as in ``Dropout``, by default torch's global one.
    """

    def __init__(
        self, drop_prob: float = 0.0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        check_rate("drop_prob", drop_prob)
        self.drop_prob, self.generator = drop_prob, generator

    def forward(self, x: Float[Tensor, "batch *rest"]) -> Float[Tensor, "batch *rest"]:
        """Drop samples of ``x``, others at each call; shape and dtype are kept."""
        return drop_path(x, self.drop_prob, self.training, self.generator)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"drop_prob={self.drop_prob}"


def drop_path_schedule(depth: int, max_rate: float) -> list[float]:
    """Return the rates of ``depth`` blocks, from 0 to ``max_rate`` in equal steps."""
    check_size("depth", depth)
    check_rate("max_rate", max_rate)
    return [max_rate * (i / max(depth - 1, 1)) for i in range(depth)]
