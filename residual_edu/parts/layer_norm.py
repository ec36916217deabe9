r"""LayerNorm: subtract the mean of a token's d features, and divide by their standard deviation.

.. math:: y = \frac{x - \mathrm{mean}(x)}{\sqrt{\mathrm{var}(x) + \epsilon}} \cdot \mathrm{weight} + \mathrm{bias}

Before weight and bias, y lies on the sphere of radius sqrt(d), perpendicular to (1, ..., 1).
Ba, Kiros & Hinton, 2016, https://arxiv.org/abs/1607.06450
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Flag, Positive, Size, checked
from residual_edu.old_errors import check_width
from residual_edu.parts.norm_checks import Several, check_normed


def layer_norm(
    x: Float[Tensor, "*batch channels"],
    weight: Float[Tensor, "channels"] | None = None,
    bias: Float[Tensor, "channels"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`(x - \mathrm{mean}) / \sqrt{\mathrm{var} + \epsilon} \cdot \mathrm{weight} + \mathrm{bias}`.

    Mean and variance (divided by n) are taken over the last axis, in float32 at least; the result has the dtype of
    ``x``.

    Raises:
        InvalidInput: for an integer input, a weight or bias of another width, or an ``eps`` below 0.
    """
    check_normed(x, eps, weight=weight, bias=bias)
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    centred = wide - wide.mean(dim=-1, keepdim=True)
    y = centred * (centred.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y.type_as(x)


def fused_layer_norm(
    x: Float[Tensor, "*batch channels"],
    weight: Float[Tensor, "channels"] | None = None,
    bias: Float[Tensor, "channels"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*batch channels"]:
    """Return what ``layer_norm`` returns, by torch's kernel; given 16 bits, it would sum the gradients in 16 bits."""
    if x.dtype in (torch.float32, torch.float64) and (
        weight is None or weight.dtype == x.dtype
    ):
        return nn.functional.layer_norm(
            x, (x.shape[-1],), weight, bias, eps
        )  # without Tensor.to, which takes time
    wide = torch.promote_types(x.dtype, torch.float32)
    weight, bias = (p if p is None else p.to(dtype=wide) for p in (weight, bias))
    return nn.functional.layer_norm(
        x.to(dtype=wide), (x.shape[-1],), weight, bias, eps
    ).type_as(x)


class LayerNorm(nn.Module):
    """``layer_norm`` with a learned gain and bias, by torch's kernel or, with ``fused=False``, by the formula.

    Args:
        dim: number of features on the last axis, at least 1.
        eps: added to the variance inside the root, above 0.
        elementwise_affine: whether to learn ``weight`` (ones) and ``bias`` (zeros), each of shape ``(dim,)``.
        bias: whether to learn ``bias`` as well as ``weight``.
        fused: whether to call torch's kernel; both ways return the same numbers, up to rounding.

    Raises:
        InvalidInput: for a ``dim`` or ``eps`` out of range, an integer input, or one of another width.
    """

    @checked
    def __init__(
        self,
        dim: Size,
        eps: Positive = 1e-5,
        *,
        elementwise_affine: Flag = True,
        bias: Flag = True,
        fused: Flag = True,
    ) -> None:
        super().__init__()
        self.dim, self.eps, self.fused = dim, eps, fused
        self.weight = nn.Parameter(torch.ones(dim)) if elementwise_affine else None
        self.bias = (
            nn.Parameter(torch.zeros(dim)) if elementwise_affine and bias else None
        )

    def reset_parameters(self) -> None:
        """Set the gain to 1 and the bias to 0, where they are learned."""
        for parameter, value in ((self.weight, 1.0), (self.bias, 0.0)):
            if parameter is not None:
                nn.init.constant_(parameter, value)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        check_width("x", x, self.dim, self)
        norm = fused_layer_norm if self.fused else layer_norm
        return norm(x, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Show width, eps and whether torch's kernel is called."""
        return f"{self.dim}, eps={self.eps}, fused={self.fused}"


class LayerNormalization(nn.Module):
    r"""The layer norm of tutorials: :math:`\alpha (x - \mathrm{mean}) / (\mathrm{std} + \epsilon) + \mathrm{bias}`.

    Its standard deviation divides by n - 1, and its eps is added outside the root. Up to eps, its output is that of
    ``LayerNorm`` times :math:`\sqrt{(n - 1)/n}`; a single feature, of which it would make NaN, is refused. Kept for
    comparison.

    Args:
        features: number of features on the last axis, at least 2.
        eps: added to the standard deviation, above 0.

    Raises:
        InvalidInput: for a size or ``eps`` out of range, an integer input, or one of another width.
    """

    @checked
    def __init__(self, features: Several, eps: Positive = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.alpha = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def reset_parameters(self) -> None:
        """Set the gain to 1 and the bias to 0."""
        nn.init.ones_(self.alpha)
        nn.init.zeros_(self.bias)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; its shape is kept."""
        check_width("x", x, len(self.alpha), self)
        mean = x.mean(dim=-1, keepdim=True)
        std = x.std(dim=-1, keepdim=True)
        return self.alpha * (x - mean) / (std + self.eps) + self.bias
