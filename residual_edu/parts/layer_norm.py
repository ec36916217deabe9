r"""LayerNorm: subtract the mean of a token's features, divide by their deviation.

.. math:: y = \frac{x - \mathrm{mean}(x)}{\sqrt{\mathrm{var}(x) + \epsilon}}
    \cdot \mathrm{weight} + \mathrm{bias}

Before weight and bias, y lies on the sphere of radius sqrt(d), perpendicular to
(1, ..., 1). Ba, Kiros & Hinton, 2016, https://arxiv.org/abs/1607.06450
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.errors import check_positive, check_shape, check_size
from residual_edu.parts.norm import Norm, check_normed, widened


def layer_norm(
    x: Float[Tensor, "*batch dim"],
    weight: Float[Tensor, "dim"] | None = None,
    bias: Float[Tensor, "dim"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*batch dim"]:
    """Normalise the last axis of ``x``, in float32 at least; the variance is over d."""
    check_normed(x, eps, weight, bias)
    wide = widened(x)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    y = centred * (variance + eps).rsqrt()
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.type_as(x)


class LayerNorm(Norm):
    """``layer_norm`` with a learned gain and bias.

    Args:
        dim: number of features on the last axis, at least 1.
        eps: added to the variance inside the root, above 0.
        elementwise_affine, bias: whether to learn ``weight``, and ``bias`` beside it.
        fused: whether to call torch's kernel; the formula gives the same numbers.
    """

    def __init__(
        self,
        dim: int,
        eps: float = 1e-5,
        *,
        elementwise_affine: bool = True,
        bias: bool = True,
        fused: bool = True,
    ) -> None:
        super().__init__(dim, eps, fused)
        affine = elementwise_affine
        self.weight = nn.Parameter(torch.ones(dim)) if affine else None
        self.bias = nn.Parameter(torch.zeros(dim)) if affine and bias else None

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        if not self.fused:
            check_shape("x", x, "...", self.dim)
            return layer_norm(x, self.weight, self.bias, self.eps)
        wide = widened(x)  # given 16 bits, the kernel would sum gradients in 16 bits
        weight = None if self.weight is None else self.weight.type_as(wide)
        bias = None if self.bias is None else self.bias.type_as(wide)
        return F.layer_norm(wide, (self.dim,), weight, bias, self.eps).type_as(x)


class LayerNormalization(nn.Module):
    r"""The norm of tutorials: its deviation divides by d - 1, and eps is added to it.

    .. math:: y = \alpha (x - \mathrm{mean}) / (\mathrm{std} + \epsilon) + \mathrm{bias}

    Up to eps, that is ``LayerNorm`` times sqrt((d - 1) / d). Kept for comparison.

    Args:
        features: number of features on the last axis, at least 2.
        eps: added to the standard deviation, above 0.
    """

    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        check_size("features", features, least=2)  # d - 1 must not be 0
        check_positive("eps", eps)
        self.eps = eps
        self.alpha = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def reset_parameters(self) -> None:
        """Set the gain to 1 and the bias to 0."""
        nn.init.ones_(self.alpha)
        nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        check_shape("x", x, "...", len(self.alpha))
        wide = widened(x)
        centred = wide - wide.mean(dim=-1, keepdim=True)
        std = wide.std(dim=-1, keepdim=True)
        return (self.alpha * centred / (std + self.eps) + self.bias).type_as(x)
