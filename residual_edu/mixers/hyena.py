r"""Hyena: a long convolution between two gates, so that mixing depends on the signal.

.. math:: z = q \cdot \sigma(k), \qquad h = \mathrm{conv}(\mathrm{norm}(z)), \qquad
    y = \mathrm{norm}(h \cdot \sigma_2(v))

Poli et al., 2023, https://arxiv.org/abs/2302.10866
"""

from typing import Any

import torch
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import InvalidInput, check_same_shape
from residual_edu.parts.causal_conv import convolution_flops
from residual_edu.parts.flop_count import Shape, Signal, count_positions, flop_count
from residual_edu.parts.residual import is_bypassed
from residual_edu.parts.weight_decay import no_weight_decay

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.GroupNorm, nn.modules.batchnorm._NormBase)
"""Torch's layers that expect channels on axis 1; these norms mix positions too."""


class Hyena(nn.Module):
    r"""Mix positions by a long convolution between two gates.

    Args:
        global_conv_cfg: what to build (``config.build``) to mix positions at any
            distance, such as ``CKConv``: ``forward(x, *, conditioning)``.
        short_conv_cfg: a convolution of torch's over query, key and value side by side
            (3 x channels, padded), a ``CausalConv1D``, or ``nn.Identity``.
        gate_nonlinear_cfg: the first gate's sigma, ``nn.Identity`` for none.
        pixelhyena_norm_cfg: the norm before the long convolution, or ``nn.Identity``.
        qk_norm_cfg: the norm of the query and, where the first gate is ``nn.Identity``,
            of the key; None for neither.
        output_norm_cfg: the norm after the second gate, or ``nn.Identity``.
        gate_nonlinear_2_cfg: the second gate's sigma; None for the first one.
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
        self.short_conv: Any = build(short_conv_cfg)
        gate = self.gate_nonlinear = build(gate_nonlinear_cfg)
        second = gate if gate_nonlinear_2_cfg is None else gate_nonlinear_2_cfg
        self.gate_nonlinear_2 = build(second)
        self.pixelhyena_norm = no_weight_decay(build(pixelhyena_norm_cfg))
        self.output_norm = no_weight_decay(build(output_norm_cfg))
        self.q_norm = None if qk_norm_cfg is None else build(qk_norm_cfg)
        gated = not is_bypassed(gate)
        self.k_norm = None if qk_norm_cfg is None or gated else build(qk_norm_cfg)
        check_parts(self)

    def forward(
        self, query: Signal, key: Signal, value: Signal, *, conditioning: Any = None
    ) -> Signal:
        """Mix the positions of the three; the convolution gets ``conditioning``."""
        check_same_shape("key", key, "query", query)
        check_same_shape("value", value, "query", query)
        qkv = over_channels(self.short_conv, torch.cat([query, key, value], dim=-1))
        q, k, v = qkv.chunk(3, dim=-1)
        q, k = over_channels(self.q_norm, q), over_channels(self.k_norm, k)
        gated = q * over_channels(self.gate_nonlinear, k)
        z = over_channels(self.pixelhyena_norm, gated)
        h = self.global_conv(z, conditioning=conditioning)
        check_same_shape("global_conv(z)", h, "z", z)
        gated = h * over_channels(self.gate_nonlinear_2, v)
        return over_channels(self.output_norm, gated)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample; a norm takes 3 operations a number."""
        positions = count_positions(shape)
        norms = self.q_norm, self.k_norm, self.pixelhyena_norm, self.output_norm
        gates = self.gate_nonlinear, self.gate_nonlinear_2
        each = sum(3 for norm in norms if norm is not None and not is_bypassed(norm))
        each += 2 + sum(not is_bypassed(gate) for gate in gates)
        cost = each * positions * self.global_conv.hidden_dim
        if not is_bypassed(self.short_conv):
            cost += convolution_flops(self.short_conv, positions)
        return cost + flop_count(self.global_conv, shape, inference)


def over_channels(part: nn.Module | None, x: Signal) -> Tensor:
    """Apply ``part`` with the channels of ``x`` on the axis where it expects them."""
    if part is None:
        return x
    if isinstance(part, CONVOLUTIONS) and len(part.kernel_size) != x.ndim - 2:
        # torch would take the samples of a batch for the channels of one sample
        axes = f"as many axes as the signal, {x.ndim - 2}"
        raise InvalidInput(f"short_conv must have {axes}, got {len(part.kernel_size)}")
    first = isinstance(part, CONVOLUTIONS + NORMS)
    y = part(x.movedim(-1, 1)).movedim(1, -1) if first else part(x)
    check_same_shape(f"{type(part).__name__}(x)", y, "x", x)
    return y


def reads_later(part: nn.Module) -> bool:
    """Whether ``part``, a norm or a short convolution, reads later positions."""
    if isinstance(part, CONVOLUTIONS):
        return not getattr(part, "is_causal", set(part.kernel_size) == {1})
    return isinstance(part, NORMS)


def check_parts(hyena: Hyena) -> None:
    """Raise ``InvalidInput`` for a short convolution of another kind, or a leak."""
    short, causal = hyena.short_conv, getattr(hyena.global_conv, "is_causal", False)
    if not isinstance(short, (*CONVOLUTIONS, nn.Identity)):
        wanted = "nn.Conv1d to 3d or Identity"
        raise InvalidInput(f"short_conv must be {wanted}, got {short}")
    for name, part in hyena.named_children():
        if causal and reads_later(part):
            raise InvalidInput(f"{name} must be causal, as global_conv is, got {part}")
