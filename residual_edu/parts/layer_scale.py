r"""LayerScale: multiply each channel of a branch by a learned number, small at first.

.. math:: y = x \cdot \gamma, \qquad \gamma_c = \gamma_0 \text{ at the start}

Touvron et al., 2021, https://arxiv.org/abs/2103.17239
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import InvalidInput, check_shape
from residual_edu.parts.flop_count import Shape, count_positions


class LayerScale(nn.Module):
    r"""Multiply each channel by its own learned number: :math:`x \cdot \gamma`.

    Args:
        dim: number of channels on the last axis, at least 1.
        init_value: starting value of every gamma, at least 0.
    """

    def __init__(self, dim: int, init_value: float = 1e-4) -> None:
        super().__init__()
        if not 0 <= init_value < float("inf"):
            raise InvalidInput(f"init_value must be at least 0, got {init_value}")
        self.dim, self.init_value = dim, init_value
        self.gamma = nn.Parameter(torch.full((dim,), float(init_value)))

    def reset_parameters(self) -> None:
        """Set every gamma to its starting value."""
        nn.init.constant_(self.gamma, self.init_value)

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Scale the last axis of ``x``; its shape and dtype are kept."""
        check_shape("x", x, "...", self.dim)
        return (x * self.gamma).type_as(x)

    def extra_repr(self) -> str:
        """Show the width."""
        return f"{self.dim}"

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return 1 multiplication for each element."""
        return count_positions(shape) * self.dim
