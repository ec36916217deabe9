r"""LayerScale: a learned gate for each channel, nearly closed at the start.

.. math:: y = x \cdot \gamma, \qquad \gamma_c = \gamma_0 \text{ at the start}

Touvron, Cord, Sablayrolles, Synnaeve & Jégou, 2021, https://arxiv.org/abs/2103.17239
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_not_negative, check_size, check_width
from residual_edu.parts.flop_count import Shape, count_positions


class LayerScale(nn.Module):
    r"""Multiply each channel by its own learned number: :math:`x \cdot \gamma`.

    Args:
        dim: number of channels on the last axis, at least 1.
        init_value: where every gamma starts, at least 0.

    Raises:
        InvalidInput: for a size or a start out of range, an integer input, or one of another width.
    """

    def __init__(self, dim: int, init_value: float = 1e-4) -> None:
        super().__init__()
        check_size("dim", dim)
        check_not_negative("init_value", init_value)
        self.dim = dim
        self.gamma = nn.Parameter(torch.full((dim,), float(init_value)))

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Scale the last axis of ``x``; shape and dtype stay."""
        check_width("x", x, self.dim)
        return (x * self.gamma).type_as(x)

    def extra_repr(self) -> str:
        """Say the width."""
        return f"{self.dim}"

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Count one multiplication for each number."""
        return count_positions(shape) * self.dim
