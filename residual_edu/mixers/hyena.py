r"""Hyena: a long convolution between two gates, so that what mixes the positions depends on what they say.

.. math::
    z = q \cdot \sigma(k), \qquad h = \mathrm{conv}(\mathrm{norm}(z)), \qquad y = \mathrm{norm}(h \cdot \sigma_2(v))

Poli et al., 2023, https://arxiv.org/abs/2302.10866
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import (
    check_conditionable,
    check_floating,
    check_hears_no_future,
    check_same_shape,
    check_short_channels,
    check_short_convolution,
    check_short_kept,
)
from residual_edu.parts.causal_conv import convolution_flops
from residual_edu.parts.flop_count import Shape, count_positions, flop_count
from residual_edu.parts.residual import is_bypassed
from residual_edu.parts.weight_decay import no_weight_decay

CHANNELS_FIRST = (nn.GroupNorm, nn.modules.batchnorm._NormBase)
"""Torch's norms that look for channels on axis 1, and whose numbers may come from all positions."""


class Hyena(nn.Module):
    r"""Mix positions by a long convolution of :math:`q \cdot \sigma(k)`, gated by :math:`\sigma_2(v)`.

    Args:
        global_conv_cfg: what to build (``config.build``) to mix positions far and near, such as ``CKConv``:
            ``forward(x, *, conditioning)``.
        short_conv_cfg: a convolution of torch's over query, key and value side by side (3 x channels, padded to keep
            the length), a ``CausalConv1D``, or ``nn.Identity``.
        gate_nonlinear_cfg: the first gate's sigma, such as ``nn.SiLU``; ``nn.Identity`` gives a plain product.
        pixelhyena_norm_cfg: the norm before the long convolution, or ``nn.Identity``.
        qk_norm_cfg: the norm of the query, and where the first gate is plain of the key too; or ``None``.
        output_norm_cfg: the norm after the second gate.
        gate_nonlinear_2_cfg: the second gate's sigma; by default the first one.

    Raises:
        InvalidInput: for a short convolution of another kind, a part that hears later positions beside a causal long
            convolution, or signals whose shapes differ.
    """

    def __init__(
        self,
        global_conv_cfg: Spec,
        short_conv_cfg: Spec,
        gate_nonlinear_cfg: Spec,
        pixelhyena_norm_cfg: Spec,
        qk_norm_cfg: Spec | None,
        output_norm_cfg: Spec = nn.Identity,
        gate_nonlinear_2_cfg: Spec | None = None,
    ) -> None:
        super().__init__()
        self.global_conv: Any = build(global_conv_cfg)
        check_conditionable("global_conv", self.global_conv)
        self.short_conv: Any = check_short_convolution(build(short_conv_cfg))
        self.gate_nonlinear = build(gate_nonlinear_cfg)
        self.gate_nonlinear_2 = self.gate_nonlinear if gate_nonlinear_2_cfg is None else build(gate_nonlinear_2_cfg)
        self.pixelhyena_norm = no_weight_decay(build(pixelhyena_norm_cfg))
        self.output_norm = no_weight_decay(build(output_norm_cfg))
        self.q_norm = None if qk_norm_cfg is None else build(qk_norm_cfg)
        gated = not is_bypassed(self.gate_nonlinear)
        self.k_norm = None if qk_norm_cfg is None or gated else build(qk_norm_cfg)
        if getattr(self.global_conv, "is_causal", False):
            self._check_causal()

    def forward(
        self,
        query: Float[Tensor, "batch *space channels"],
        key: Float[Tensor, "batch *space channels"],
        value: Float[Tensor, "batch *space channels"],
        *,
        conditioning: Tensor | None = None,
    ) -> Float[Tensor, "batch *space channels"]:
        """Mix the positions of the three signals into one; ``conditioning`` goes to the long convolution."""
        check_floating("query", query)
        check_same_shape("key", key, "query", query)
        check_same_shape("value", value, "query", query)
        query, key, value = self._short(torch.cat([query, key, value], dim=-1)).chunk(3, dim=-1)
        query, key = over_channels(self.q_norm, query), over_channels(self.k_norm, key)
        z = over_channels(self.pixelhyena_norm, query * self.gate_nonlinear(key))
        h = self.global_conv(z, conditioning=conditioning)
        return over_channels(self.output_norm, h * self.gate_nonlinear_2(value))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: short convolution, norms (3 a number), gates, and the long convolution."""
        numbers = count_positions(shape) * self.global_conv.hidden_dim
        norms = [self.q_norm, self.k_norm, self.pixelhyena_norm, self.output_norm]
        active = sum(norm is not None and not is_bypassed(norm) for norm in norms)
        sigmas = sum(not is_bypassed(gate) for gate in (self.gate_nonlinear, self.gate_nonlinear_2))
        short = 0 if is_bypassed(self.short_conv) else convolution_flops(self.short_conv, count_positions(shape))
        return short + (3 * active + 2 + sigmas) * numbers + flop_count(self.global_conv, shape, inference)

    def _short(self, x: Float[Tensor, "batch *space channels"]) -> Float[Tensor, "batch *space channels"]:
        """Let each position hear its neighbours; torch's convolutions look for channels on axis 1."""
        if is_bypassed(self.short_conv):
            return x
        check_short_channels(self.short_conv, x)
        y = self.short_conv(x.movedim(-1, 1)).movedim(1, -1)
        check_short_kept(x, y)
        return y

    def _check_causal(self) -> None:
        """Refuse what would tell a position of later ones although the long convolution does not."""
        short = self.short_conv
        ahead = not getattr(short, "is_causal", is_bypassed(short) or set(short.kernel_size) == {1})
        check_hears_no_future("short_conv", short, ahead)
        for name, norm in self.named_children():
            check_hears_no_future(name, norm, isinstance(norm, CHANNELS_FIRST))


def over_channels(norm: nn.Module | None, x: Float[Tensor, "batch *space channels"]) -> Tensor:
    """Apply ``norm`` to the channels of ``x``, wherever it looks for them; without one return ``x``."""
    if norm is None:
        return x
    return norm(x.movedim(-1, 1)).movedim(1, -1) if isinstance(norm, CHANNELS_FIRST) else norm(x)
