r"""Norms of queries and keys, head by head, which bound the attention scores.

.. math:: \hat q = q / \lVert q \rVert, \qquad -1 \le \hat q \cdot \hat k \le 1

Henry, Dachapally, Pawar & Chen, 2020, https://arxiv.org/abs/2010.04245
"""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_positive
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.norm import widened
from residual_edu.parts.rms_norm import RMSNorm


class L2Norm(nn.Module):
    """Scale each vector along one axis to Euclidean length 1; zero vectors stay zero.

    Args:
        dim: the axis along which the length is computed.
        eps: the smallest divisor, above 0.
    """

    def __init__(self, dim: int = -1, eps: float = 1e-12) -> None:
        super().__init__()
        check_positive("eps", eps)
        self.dim, self.eps = dim, eps

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return ``x`` with length 1 along the axis; its shape and dtype are kept."""
        wide = widened(x)  # eps is 0 in float16
        return nn.functional.normalize(wide, dim=self.dim, eps=self.eps).type_as(x)


class PerHeadRMSNorm(nn.Module):
    """``RMSNorm`` of each head by itself; all heads share one gain.

    Args:
        num_heads, head_dim: numbers of heads and of a head's features, at least 1.
        eps: added to the mean square inside the root, above 0.
    """

    def __init__(self, num_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        self.norm = RMSNorm(head_dim, eps)

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Normalise each head on the last axis of ``x``; shape and dtype are kept."""
        return self.norm(x.unflatten(-1, (self.num_heads, self.head_dim))).flatten(-2)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return 3 operations for each element: square and sum, division, gain."""
        return 3 * count_positions(shape) * self.num_heads * self.head_dim
