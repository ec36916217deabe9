r"""RMSNorm: keep a token's direction, set its length to sqrt(d).

.. math:: y = \frac{x}{\sqrt{\mathrm{mean}(x^2) + \epsilon}} \cdot \mathrm{weight}

Zhang & Sennrich, 2019, https://arxiv.org/abs/1910.07467
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_floating, check_positive, check_size, check_width
from residual_edu.parts.flop_count import Shape, count_positions


def rms_norm(
    x: Float[Tensor, "*batch channels"], weight: Float[Tensor, "channels"] | None = None, eps: float = 1e-6
) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`x / \sqrt{\mathrm{mean}(x^2) + \epsilon} \cdot \mathrm{weight}`.

    The mean runs over the last axis, in float32 or better; the result has x's dtype.
    """
    check_floating("x", x)
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    y = wide * (wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (y if weight is None else y * weight).type_as(x)


class RMSNorm(nn.Module):
    """``rms_norm`` with a learned gain, by torch's kernel or, with ``fused=False``, by the formula.

    Args:
        dim: number of features on the last axis, at least 1.
        eps: added to the mean square inside the root, above 0.
        fused: whether to call torch's kernel; the numbers are the same.

    Raises:
        InvalidInput: for a ``dim`` or ``eps`` out of range, an integer input, or one of another width.
    """

    def __init__(self, dim: int, eps: float = 1e-6, *, fused: bool = True) -> None:
        super().__init__()
        check_size("dim", dim)
        check_positive("eps", eps)
        self.dim, self.eps, self.fused = dim, eps, fused
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; shape and dtype stay."""
        check_width("x", x, self.dim)
        if not self.fused:
            return rms_norm(x, self.weight, self.eps)
        wide = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(x.to(dtype=wide), (self.dim,), self.weight.to(dtype=wide), self.eps).type_as(x)

    def extra_repr(self) -> str:
        """Say width, eps and which of the two ways runs."""
        return f"{self.dim}, eps={self.eps}, fused={self.fused}"

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Count three operations for each number: its square, its division, its gain."""
        return 3 * count_positions(shape) * self.dim
