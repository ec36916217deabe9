r"""Dropout: set randomly chosen elements to zero, so that no unit can rely on another.

.. math:: y = \frac{x \cdot m}{1 - p}, \qquad m_i \sim \mathrm{Bernoulli}(1 - p)

The division keeps the expected value of y, so that evaluation needs no correction.
Srivastava et al., 2014, https://jmlr.org/papers/v15/srivastava14a.html
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import InvalidInput, check_rate


def bernoulli_mask(
    shape: tuple[int, ...], rate: float, x: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Return a boolean mask for ``x``, each element False with probability ``rate``."""
    if generator is not None and torch._C._current_graph_task_id() >= 0:  # in backward
        why = "where the second run would draw other numbers"
        raise InvalidInput(f"generator must be None under checkpointing, {why}")
    device = x.device if generator is None else generator.device
    # in 16 bits a rate would be one of 256
    draws = torch.rand(shape, generator=generator, device=device, dtype=torch.float32)
    return (draws >= rate).to(x.device)


def dropout(
    x: Float[Tensor, "*shape"],
    p: float = 0.5,
    training: bool = True,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*shape"]:
    """Drop elements of ``x``, at rate ``p`` in [0, 1); in evaluation return ``x``."""
    check_rate("p", p)
    if not training or p == 0:
        return x
    return x * bernoulli_mask(x.shape, p, x, generator) / (1 - p)


class Dropout(nn.Module):
    """``dropout`` in training, the identity in evaluation.

    Args:
        p: rate in [0, 1) at which elements are dropped.
        generator: source of the random numbers; by default torch's global one, which
            alone can be checkpointed or compiled into one graph.
    """

    def __init__(
        self, p: float = 0.5, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        check_rate("p", p)
        self.p, self.generator = p, generator

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop elements of ``x``; its shape and dtype are kept."""
        return dropout(x, self.p, self.training, self.generator)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"p={self.p}"
