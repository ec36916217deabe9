r"""RMSNorm: divide a token's d features by their root mean square, which keeps their direction.

.. math:: y = \frac{x}{\sqrt{\mathrm{mean}(x^2) + \epsilon}} \cdot \mathrm{weight}

Before the weight, y lies on the sphere of radius sqrt(d). Zhang & Sennrich, 2019, https://arxiv.org/abs/1910.07467
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Flag, Positive, Size, checked
from residual_edu.old_errors import check_width
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.norm_checks import check_normed


def rms_norm(
    x: Float[Tensor, "*batch channels"],
    weight: Float[Tensor, "channels"] | None = None,
    eps: float = 1e-6,
) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`x / \sqrt{\mathrm{mean}(x^2) + \epsilon} \cdot \mathrm{weight}`.

    The mean is taken over the last axis, in float32 at least; the result has the dtype of ``x``.

    Raises:
        InvalidInput: for an integer input, a weight of another width, or an ``eps`` below 0.
    """
    check_normed(x, eps, weight=weight)
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    y = wide * (wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (y if weight is None else y * weight).type_as(x)


class RMSNorm(nn.Module):
    """``rms_norm`` with a learned gain, by torch's kernel or, with ``fused=False``, by the formula.

    Args:
        dim: number of features on the last axis, at least 1.
        eps: added to the mean square inside the root, above 0.
        fused: whether to call torch's kernel; both ways return the same numbers, up to rounding.

    Raises:
        InvalidInput: for a ``dim`` or ``eps`` out of range, an integer input, or one of another width.
    """

    @checked
    def __init__(self, dim: Size, eps: Positive = 1e-6, *, fused: Flag = True) -> None:
        super().__init__()
        self.dim, self.eps, self.fused = dim, eps, fused
        self.weight = nn.Parameter(torch.ones(dim))

    def reset_parameters(self) -> None:
        """Set the gain to 1."""
        nn.init.ones_(self.weight)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        check_width("x", x, self.dim, self)
        if not self.fused:
            return rms_norm(x, self.weight, self.eps)
        wide = torch.promote_types(
            x.dtype, torch.float32
        )  # the kernel sums in the dtype that it is given
        return nn.functional.rms_norm(
            x.to(dtype=wide), (self.dim,), self.weight.to(dtype=wide), self.eps
        ).type_as(x)

    def extra_repr(self) -> str:
        """Show width, eps and whether torch's kernel is called."""
        return f"{self.dim}, eps={self.eps}, fused={self.fused}"

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return 3 operations for each element: square and sum, division, gain."""
        return 3 * count_positions(shape) * self.dim
