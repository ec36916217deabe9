r"""Norms of queries and keys, head by head, which bound the attention scores.

.. math:: \hat q = q / \lVert q \rVert, \qquad -1 \le \hat q \cdot \hat k \le 1

Henry, Dachapally, Pawar & Chen, 2020, https://arxiv.org/abs/2010.04245
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Positive, Size, Whole, checked
from residual_edu.old_errors import InvalidInput, check_floating, check_width
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.rms_norm import RMSNorm


class L2Norm(nn.Module):
    """Divide by the length (the Euclidean norm) along one axis, which so becomes 1; zeros stay zeros.

    Args:
        dim: the axis along which the length is computed.
        eps: the smallest divisor, above 0.

    Raises:
        InvalidInput: for an ``eps`` out of range, or an integer input.
    """

    @checked
    def __init__(self, dim: Whole = -1, eps: Positive = 1e-12) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return ``x`` with length 1 along the axis; its shape and dtype are kept."""
        check_axis("x", x, self.dim)
        wide = x.to(
            dtype=torch.promote_types(x.dtype, torch.float32)
        )  # eps is 0 in float16
        return nn.functional.normalize(wide, dim=self.dim, eps=self.eps).type_as(x)

    def extra_repr(self) -> str:
        """Show axis and eps."""
        return f"dim={self.dim}, eps={self.eps}"


def check_axis(name: str, x: Tensor, dim: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is floating point and ``dim`` one of its axes."""
    check_floating(name, x)
    if not -x.ndim <= dim < x.ndim:
        raise InvalidInput(
            f"dim must be an axis of {name}, got {dim} for shape {tuple(x.shape)}"
        )


class PerHeadRMSNorm(nn.Module):
    """``RMSNorm`` of each head by itself; all heads share one gain.

    Args:
        num_heads: number of heads, which lie side by side on the last axis, at least 1.
        head_dim: number of features of a head, at least 1.
        eps: added to the mean square inside the root, above 0.

    Raises:
        InvalidInput: for sizes or an ``eps`` out of range, an integer input, or one of another width.
    """

    @checked
    def __init__(self, num_heads: Size, head_dim: Size, eps: Positive = 1e-6) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        self.norm = RMSNorm(head_dim, eps)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Normalise each head on the last axis of ``x``; its shape and dtype are kept."""
        check_width("x", x, self.num_heads * self.head_dim, self.norm)
        return self.norm(x.unflatten(-1, (self.num_heads, self.head_dim))).flatten(-2)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return 3 operations for each element: square and sum, division, gain."""
        return 3 * count_positions(shape) * self.num_heads * self.head_dim
