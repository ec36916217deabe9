r"""Hyena: a long convolution between two gates, so that how positions mix depends on the signal itself.

.. math::
    z = q \cdot \sigma(k), \qquad h = \mathrm{conv}(\mathrm{norm}(z)), \qquad y = \mathrm{norm}(h \cdot \sigma_2(v))

Poli et al., 2023, https://arxiv.org/abs/2302.10866
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.calls import check_conditionable
from residual_edu.config import Spec, build
from residual_edu.old_errors import InvalidInput, check_floating, check_same_shape
from residual_edu.parts.causal_conv import convolution_flops
from residual_edu.parts.flop_count import Shape, count_positions, flop_count
from residual_edu.parts.residual import is_bypassed
from residual_edu.parts.weight_decay import no_weight_decay

CHANNELS_FIRST = (nn.GroupNorm, nn.modules.batchnorm._NormBase)
"""Torch's norms that expect channels on axis 1, and whose statistics run over positions, later ones included."""


class Hyena(nn.Module):
    r"""Mix positions by a long convolution of :math:`q \cdot \sigma(k)`, gated by :math:`\sigma_2(v)`.

    Args:
        global_conv_cfg: what to build (``config.build``) to mix positions at any distance, such as ``CKConv``:
            ``forward(x, *, conditioning)``.
        short_conv_cfg: a convolution of torch's over query, key and value side by side (3 x channels, padded to keep
            the length), a ``CausalConv1D``, or ``nn.Identity``.
        gate_nonlinear_cfg: the first gate's sigma, such as ``nn.SiLU``; ``nn.Identity`` gives a plain product.
        pixelhyena_norm_cfg: the norm before the long convolution, or ``nn.Identity``.
        qk_norm_cfg: the norm of the query and, where the first gate is ``nn.Identity``, of the key; None for neither.
        output_norm_cfg: the norm after the second gate, or ``nn.Identity``.
        gate_nonlinear_2_cfg: the second gate's sigma; None for the first one.

    Raises:
        InvalidInput: for a short convolution of another kind, a part that depends on later positions beside a causal
            long convolution, or signals whose shapes differ.
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
        self.gate_nonlinear = build(gate_nonlinear_cfg)
        self.gate_nonlinear_2 = (
            self.gate_nonlinear
            if gate_nonlinear_2_cfg is None
            else build(gate_nonlinear_2_cfg)
        )
        self.pixelhyena_norm = no_weight_decay(build(pixelhyena_norm_cfg))
        self.output_norm = no_weight_decay(build(output_norm_cfg))
        self.q_norm = None if qk_norm_cfg is None else build(qk_norm_cfg)
        gated = not is_bypassed(self.gate_nonlinear)
        self.k_norm = None if qk_norm_cfg is None or gated else build(qk_norm_cfg)
        check_parts(self)

    def forward(
        self,
        query: Float[Tensor, "batch *space channels"],
        key: Float[Tensor, "batch *space channels"],
        value: Float[Tensor, "batch *space channels"],
        *,
        conditioning: Tensor | None = None,
    ) -> Float[Tensor, "batch *space channels"]:
        """Mix the positions of the three signals into one; ``conditioning`` is passed to the long convolution."""
        check_signals(query, key, value)
        query, key, value = self._short(torch.cat([query, key, value], dim=-1)).chunk(
            3, dim=-1
        )
        query, key = over_channels(self.q_norm, query), over_channels(self.k_norm, key)
        gate = self.gate_nonlinear(key)
        check_same_shape("gate_nonlinear(key)", gate, "key", key)
        z = over_channels(self.pixelhyena_norm, query * gate)
        h, gate = (
            self.global_conv(z, conditioning=conditioning),
            self.gate_nonlinear_2(value),
        )
        check_mixed(h, gate, value)
        return over_channels(self.output_norm, h * gate)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: short convolution, norms (3 a number), gates, and the long convolution."""
        numbers = count_positions(shape) * self.global_conv.hidden_dim
        norms = [self.q_norm, self.k_norm, self.pixelhyena_norm, self.output_norm]
        active = sum(norm is not None and not is_bypassed(norm) for norm in norms)
        sigmas = sum(
            not is_bypassed(gate)
            for gate in (self.gate_nonlinear, self.gate_nonlinear_2)
        )
        short = (
            0
            if is_bypassed(self.short_conv)
            else convolution_flops(self.short_conv, count_positions(shape))
        )
        return (
            short
            + (3 * active + 2 + sigmas) * numbers
            + flop_count(self.global_conv, shape, inference)
        )

    def _short(
        self, x: Float[Tensor, "batch *space channels"]
    ) -> Float[Tensor, "batch *space channels"]:
        """Apply the short convolution to ``x``; torch's convolutions expect channels on axis 1."""
        if is_bypassed(self.short_conv):
            return x
        check_short_fits(self.short_conv, x)
        y = self.short_conv(x.movedim(-1, 1)).movedim(1, -1)
        if y.shape != x.shape:
            raise InvalidInput(
                f"short_conv must keep all positions, {tuple(x.shape[1:-1])}, got {tuple(y.shape[1:-1])}; "
                "give it padding and a stride of 1"
            )
        return y


def depends_on_later(part: nn.Module) -> bool:
    """Whether ``part``, a norm or a short convolution, lets a position depend on later ones."""
    if isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return not getattr(part, "is_causal", set(part.kernel_size) == {1})
    return isinstance(part, CHANNELS_FIRST)


def check_parts(hyena: Hyena) -> None:
    """Raise ``InvalidInput`` for a convolution of another kind, or where only the long convolution is causal."""
    check_conditionable("global_conv", hyena.global_conv)
    if not isinstance(
        hyena.short_conv, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Identity
    ):
        kinds = "an nn.Conv1d, nn.Conv2d, nn.Conv3d, a CausalConv1D or nn.Identity"
        raise InvalidInput(
            f"short_conv must be {kinds}, got {type(hyena.short_conv).__name__}"
        )
    for name, part in hyena.named_children():
        if getattr(hyena.global_conv, "is_causal", False) and depends_on_later(part):
            kind = type(part).__name__
            raise InvalidInput(
                f"{name} must be causal, since global_conv is, got a {kind} that reads later positions"
            )


def check_signals(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise ``InvalidInput`` unless the three are floating-point tensors of one shape."""
    check_floating("query", query)
    check_same_shape("key", key, "query", query)
    check_same_shape("value", value, "query", query)


def check_mixed(h: Tensor, gate: Tensor, value: Tensor) -> None:
    """Raise ``InvalidInput`` unless the output of the long convolution and the second gate have the value's shape."""
    check_same_shape("global_conv(z)", h, "value", value)
    check_same_shape("gate_nonlinear_2(value)", gate, "value", value)


def check_short_fits(convolution: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``convolution`` keeps the channels of ``x`` and has as many axes."""
    axes, channels = (
        len(convolution.kernel_size),
        (convolution.in_channels, convolution.out_channels),
    )
    if channels != (x.shape[-1], x.shape[-1]):
        wanted = f"{x.shape[-1]} channels in and out (query, key, value)"
        raise InvalidInput(f"short_conv must have {wanted}, got {channels}")
    if axes != x.ndim - 2:
        raise InvalidInput(
            f"short_conv must have as many axes as the signal, {x.ndim - 2}, got {axes}"
        )


def over_channels(
    norm: nn.Module | None, x: Float[Tensor, "batch *space channels"]
) -> Tensor:
    """Apply ``norm`` to the channels of ``x``, on the axis where it expects them; without a norm return ``x``."""
    if norm is None:
        return x
    y = (
        norm(x.movedim(-1, 1)).movedim(1, -1)
        if isinstance(norm, CHANNELS_FIRST)
        else norm(x)
    )
    check_same_shape("norm(x)", y, "x", x)
    return y
