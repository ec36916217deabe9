r"""Global response normalisation: channels compete, each scaled by its own size against the mean size of all.

.. math::
    s_c = \lVert x_{:,c} \rVert_2, \qquad n_c = \frac{s_c}{\mathrm{mean}_c(s) + \epsilon}, \qquad
    y = \gamma \cdot (x \cdot n) + \beta + x

The size of a channel is taken over all positions of one sample, registers and padding among them.
Woo et al., 2023, https://arxiv.org/abs/2301.00808
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_axes, check_floating, check_positive, check_size, check_width
from residual_edu.parts.flop_count import Shape, count_positions


def global_response_norm(
    x: Float[Tensor, "batch *space channels"],
    gamma: Float[Tensor, "channels"],
    beta: Float[Tensor, "channels"],
    eps: float = 1e-6,
) -> Float[Tensor, "batch *space channels"]:
    r"""Return :math:`\gamma \cdot (x \cdot n) + \beta + x`, with n the channels' sizes over their mean.

    Sizes are taken sample by sample, in float32 or better; the result has x's dtype.
    """
    check_floating("x", x)
    check_axes("x", x, "batch", "positions", "channels")
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    size = torch.linalg.vector_norm(wide, dim=tuple(range(1, x.ndim - 1)), keepdim=True)
    share = size / (size.mean(dim=-1, keepdim=True) + eps)
    return (gamma * (wide * share) + beta + wide).type_as(x)


class GlobalResponseNorm(nn.Module):
    """``global_response_norm`` with a learned gain and bias, both zero at the start: the identity.

    Args:
        dim: number of channels on the last axis, at least 1.
        eps: added to the mean size, above 0.

    Raises:
        InvalidInput: for a ``dim`` or ``eps`` out of range, an integer input, one of another width, or one without an
            axis of positions, whose samples would be mixed.
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        check_size("dim", dim)
        check_positive("eps", eps)
        self.eps = eps
        self.gamma = nn.Parameter(torch.zeros(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Float[Tensor, "batch *space channels"]) -> Float[Tensor, "batch *space channels"]:
        """Let the channels of each sample compete; shape and dtype stay."""
        check_width("x", x, len(self.gamma))
        return global_response_norm(x, self.gamma, self.beta, self.eps)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return six operations for each number: its square and the sum, times n, times gamma, plus beta, plus x."""
        return 6 * count_positions(shape) * len(self.gamma)

    def extra_repr(self) -> str:
        """Say width and eps."""
        return f"{len(self.gamma)}, eps={self.eps}"
