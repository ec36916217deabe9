r"""Global response normalisation (GRN): scale each channel by its size relative to the mean size of all channels.

.. math::
    s_c = \lVert x_{:,c} \rVert_2, \qquad n_c = \frac{s_c}{\mathrm{mean}_c(s) + \epsilon}, \qquad
    y = \gamma \cdot (x \cdot n) + \beta + x

The size of a channel is its norm over all positions of one sample, including registers and padding.
Woo et al., 2023, https://arxiv.org/abs/2301.00808
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Positive, Size, checked
from residual_edu.old_errors import check_axes, check_shape, check_width
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.norm_checks import check_normed


def global_response_norm(
    x: Float[Tensor, "batch *space channels"],
    gamma: Float[Tensor, "channels"],
    beta: Float[Tensor, "channels"],
    eps: float = 1e-6,
) -> Float[Tensor, "batch *space channels"]:
    r"""Return :math:`\gamma \cdot (x \cdot n) + \beta + x`, with n the channels' sizes over their mean.

    Sizes are computed for each sample, in float32 at least; the result has the dtype of ``x``.

    Raises:
        InvalidInput: for an integer input, one of another width than ``gamma``, or one without an axis of positions,
            whose norm would mix the samples.
    """
    check_shape("gamma", gamma, "channels")
    check_shape("beta", beta, "channels")
    check_width("x", x, len(gamma))
    check_normed(x, eps, gamma=gamma, beta=beta)
    check_axes("x", x, "batch", "positions", "channels")
    wide = x.to(
        dtype=torch.promote_types(x.dtype, torch.float32)
    )  # a sum of squares overflows float16
    size = torch.linalg.vector_norm(wide, dim=tuple(range(1, x.ndim - 1)), keepdim=True)
    n = size / (size.mean(dim=-1, keepdim=True) + eps)  # (batch, 1, ..., 1, channels)
    return (gamma * (wide * n) + beta + wide).type_as(x)


class GlobalResponseNorm(nn.Module):
    """``global_response_norm`` with a learned gain and bias, which start at zero: the identity.

    Args:
        dim: number of channels on the last axis, at least 1.
        eps: added to the mean size, above 0.

    Raises:
        InvalidInput: for a ``dim`` or ``eps`` out of range, and as ``global_response_norm`` does.
    """

    @checked
    def __init__(self, dim: Size, eps: Positive = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.zeros(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def reset_parameters(self) -> None:
        """Set gain and bias to 0: the identity."""
        nn.init.zeros_(self.gamma)
        nn.init.zeros_(self.beta)

    def forward(
        self, x: Float[Tensor, "batch *space channels"]
    ) -> Float[Tensor, "batch *space channels"]:
        """Scale the channels of each sample; the shape and dtype of ``x`` are kept."""
        return global_response_norm(x, self.gamma, self.beta, self.eps)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return 6 operations for each element: square and sum, times n, times gamma, plus beta, plus x."""
        return 6 * count_positions(shape) * len(self.gamma)

    def extra_repr(self) -> str:
        """Show width and eps."""
        return f"{len(self.gamma)}, eps={self.eps}"
