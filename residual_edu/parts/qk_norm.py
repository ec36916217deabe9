r"""Norms of queries and keys, head by head, so that no score can run away.

.. math:: \hat q = q / \lVert q \rVert, \qquad -1 \le \hat q \cdot \hat k \le 1

Henry, Dachapally, Pawar & Chen, 2020, https://arxiv.org/abs/2010.04245
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_floating, check_positive, check_size, check_width
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.rms_norm import RMSNorm


class L2Norm(nn.Module):
    """Divide by the length along one axis, so that it becomes 1; zeros stay zeros.

    Args:
        dim: the axis along which the length is measured.
        eps: the least length that is divided by, above 0.

    Raises:
        InvalidInput: for an ``eps`` out of range, or an integer input.
    """

    def __init__(self, dim: int = -1, eps: float = 1e-12) -> None:
        super().__init__()
        check_positive("eps", eps)
        self.dim, self.eps = dim, eps

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return ``x`` with length 1 along the axis; shape and dtype stay."""
        check_floating("x", x)
        wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
        return nn.functional.normalize(wide, dim=self.dim, eps=self.eps).type_as(x)

    def extra_repr(self) -> str:
        """Say axis and eps."""
        return f"dim={self.dim}, eps={self.eps}"


class PerHeadRMSNorm(nn.Module):
    """``RMSNorm`` of each head by itself; all heads share one gain.

    Args:
        num_heads: number of heads that lie side by side on the last axis, at least 1.
        head_dim: number of features of each, at least 1.
        eps: added to the mean square inside the root, above 0.

    Raises:
        InvalidInput: for sizes or an ``eps`` out of range, an integer input, or one of another width.
    """

    def __init__(self, num_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        check_size("num_heads", num_heads)
        check_size("head_dim", head_dim)
        self.num_heads, self.head_dim = num_heads, head_dim
        self.norm = RMSNorm(head_dim, eps)

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Normalise each ``head_dim`` features of the last axis; shape and dtype stay."""
        check_width("x", x, self.num_heads * self.head_dim)
        return self.norm(x.unflatten(-1, (self.num_heads, self.head_dim))).flatten(-2)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: square and sum, divide, and gain, 3 for each number."""
        return 3 * count_positions(shape) * self.num_heads * self.head_dim
