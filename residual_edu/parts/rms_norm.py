r"""RMSNorm: divide a token's features by their root mean square; the direction stays.

.. math:: y = \frac{x}{\sqrt{\mathrm{mean}(x^2) + \epsilon}} \cdot \mathrm{weight}

Before the weight, y lies on the sphere of radius sqrt(d).
Zhang & Sennrich, 2019, https://arxiv.org/abs/1910.07467
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.norm import Norm, check_normed, widened


def rms_norm(
    x: Float[Tensor, "*batch dim"],
    weight: Float[Tensor, "dim"] | None = None,
    eps: float = 1e-6,
) -> Float[Tensor, "*batch dim"]:
    """Divide the last axis of ``x`` by its root mean square, in float32 at least."""
    check_normed(x, eps, weight)
    wide = widened(x)
    y = wide * (wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (y if weight is None else y * weight).type_as(x)


class RMSNorm(Norm):
    """``rms_norm`` with a learned gain.

    Args:
        dim: number of features on the last axis, at least 1.
        eps: added to the mean square inside the root, above 0.
        fused: whether to call torch's kernel; the formula gives the same numbers.
    """

    def __init__(self, dim: int, eps: float = 1e-6, *, fused: bool = True) -> None:
        super().__init__(dim, eps, fused)
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        if not self.fused:
            return rms_norm(x, self.weight, self.eps)
        wide = widened(x)  # given 16 bits, the kernel would sum in 16 bits
        weight = self.weight.type_as(wide)
        return F.rms_norm(wide, (self.dim,), weight, self.eps).type_as(x)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return 3 operations for each element: square and sum, division, gain."""
        return 3 * count_positions(shape) * self.dim
