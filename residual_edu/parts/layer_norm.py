r"""LayerNorm: move a token's features to the sphere of radius sqrt(d), perpendicular to (1, ..., 1).

.. math:: y = \frac{x - \mathrm{mean}(x)}{\sqrt{\mathrm{var}(x) + \epsilon}} \cdot \mathrm{weight} + \mathrm{bias}

Ba, Kiros & Hinton, 2016, https://arxiv.org/abs/1607.06450
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_floating, check_positive, check_size, check_width


def layer_norm(
    x: Float[Tensor, "*batch channels"],
    weight: Float[Tensor, "channels"] | None = None,
    bias: Float[Tensor, "channels"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`(x - \mathrm{mean}) / \sqrt{\mathrm{var} + \epsilon} \cdot \mathrm{weight} + \mathrm{bias}`.

    Mean and variance (divided by n) run over the last axis, in float32 or better; the result has x's dtype.
    """
    check_floating("x", x)
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    centred = wide - wide.mean(dim=-1, keepdim=True)
    y = centred * (centred.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y.type_as(x)


class LayerNorm(nn.Module):
    """``layer_norm`` with a learned gain and bias, by torch's kernel or, with ``fused=False``, by the formula.

    Args:
        dim: number of features on the last axis, at least 1.
        eps: added to the variance inside the root, above 0.
        elementwise_affine: whether to learn ``weight`` (ones) and ``bias`` (zeros), each of shape ``(dim,)``.
        bias: whether to learn ``bias`` as well as ``weight``.
        fused: whether to call torch's kernel; the numbers are the same.

    Raises:
        InvalidInput: for a ``dim`` or ``eps`` out of range, an integer input, or one of another width.
    """

    def __init__(
        self, dim: int, eps: float = 1e-5, *, elementwise_affine: bool = True, bias: bool = True, fused: bool = True
    ) -> None:
        super().__init__()
        check_size("dim", dim)
        check_positive("eps", eps)
        self.dim, self.eps, self.fused = dim, eps, fused
        self.weight = nn.Parameter(torch.ones(dim)) if elementwise_affine else None
        self.bias = nn.Parameter(torch.zeros(dim)) if elementwise_affine and bias else None

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; shape and dtype stay."""
        check_width("x", x, self.dim)
        if not self.fused:
            return layer_norm(x, self.weight, self.bias, self.eps)
        weight: Tensor | None = self.weight
        bias: Tensor | None = self.bias
        if x.dtype in (torch.float32, torch.float64) and (weight is None or weight.dtype == x.dtype):
            return nn.functional.layer_norm(x, (self.dim,), weight, bias, self.eps)
        wide = torch.promote_types(x.dtype, torch.float32)  # in 16 bits the kernel's sums over rows would stall
        weight, bias = (p if p is None else p.to(wide) for p in (weight, bias))
        return nn.functional.layer_norm(x.to(wide), (self.dim,), weight, bias, self.eps).type_as(x)

    def extra_repr(self) -> str:
        """Say width, eps and which of the two ways runs."""
        return f"{self.dim}, eps={self.eps}, fused={self.fused}"


class LayerNormalization(nn.Module):
    r"""The tutorials' layer norm: :math:`\alpha (x - \mathrm{mean}) / (\mathrm{std} + \epsilon) + \mathrm{bias}`.

    Its standard deviation divides by n - 1 and its eps stands outside the root. Next to ``LayerNorm`` its output is
    smaller by exactly :math:`\sqrt{(n - 1)/n}`, and a single feature gives NaN. Kept to be compared with.

    Args:
        features: number of features on the last axis, at least 1.
        eps: added to the standard deviation, above 0.

    Raises:
        InvalidInput: for sizes out of range, an integer input, or one of another width.
    """

    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        check_size("features", features)
        check_positive("eps", eps)
        self.eps = eps
        self.alpha = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; shape stays."""
        check_width("x", x, len(self.alpha))
        mean = x.mean(dim=-1, keepdim=True)
        std = x.std(dim=-1, keepdim=True)
        return self.alpha * (x - mean) / (std + self.eps) + self.bias
