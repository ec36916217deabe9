"""Layers that work on each position by itself."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_floating, check_size, check_width


class SimpleFeedForward(nn.Module):
    r"""Two linear maps with a ReLU between: :math:`W_2 \max(0, W_1 x + b_1) + b_2`.

    Args:
        d_model: number of features in and out, at least 1.
        d_ff: number of hidden features, at least 1.

    Raises:
        InvalidInput: for sizes out of range, an integer input, or one of another width.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        check_size("d_model", d_model)
        check_size("d_ff", d_ff)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Map each position by itself; shape stays."""
        check_floating("x", x)
        check_width("x", x, self.linear1.in_features)
        return self.linear2(torch.relu(self.linear1(x)))
