r"""Global response normalisation (GRN): scale each channel by its relative size.

.. math:: s_c = \lVert x_{:,c} \rVert_2, \qquad
    n_c = \frac{s_c}{\mathrm{mean}_c(s) + \epsilon}, \qquad
    y = \gamma \cdot (x \cdot n) + \beta + x

The size of a channel is its norm over all positions of one sample, registers and
padding included. Woo et al., 2023, https://arxiv.org/abs/2301.00808
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_positive, check_shape
from residual_edu.parts.flop_count import Shape, Signal, count_positions
from residual_edu.parts.norm import check_normed, widened

Gain = Float[Tensor, "channels"]


def global_response_norm(
    x: Signal, gamma: Gain, beta: Gain, eps: float = 1e-6
) -> Signal:
    r"""Return :math:`\gamma \cdot (x \cdot n) + \beta + x`, in float32 at least."""
    check_shape("x", x, "...", "batch", "positions", "channels")  # or samples mix
    check_normed(x, eps, gamma, beta)
    wide, space = widened(x), tuple(range(1, x.ndim - 1))
    size = torch.linalg.vector_norm(wide, dim=space, keepdim=True)
    n = size / (size.mean(dim=-1, keepdim=True) + eps)  # (batch, 1, ..., 1, channels)
    return (gamma * (wide * n) + beta + wide).type_as(x)


class GlobalResponseNorm(nn.Module):
    """``global_response_norm`` with a learned gain and bias, both 0 at the start.

    Args:
        dim: number of channels on the last axis, at least 1.
        eps: added to the mean size, above 0.
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        check_positive("eps", eps)
        self.eps = eps
        self.gamma = nn.Parameter(torch.zeros(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def reset_parameters(self) -> None:
        """Set gain and bias to 0: the identity."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Signal) -> Signal:
        """Scale the channels of each sample; the shape and dtype of ``x`` are kept."""
        return global_response_norm(x, self.gamma, self.beta, self.eps)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return 6 operations for each element: s takes 2, and n, gamma, beta, x 1."""
        return 6 * count_positions(shape) * len(self.gamma)

    def extra_repr(self) -> str:
        """Show width and eps."""
        return f"{len(self.gamma)}, eps={self.eps}"
