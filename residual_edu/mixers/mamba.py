r"""Mamba: a sequence mixer whose positions exchange information through the state of a selective scan.

.. math::
    (z, u, \Delta) &= W x, \\
    (x', B, C) &= \mathrm{silu}(\mathrm{conv}(u)), \\
    y &= W_o \, \mathrm{norm}(\mathrm{scan}(x', \mathrm{softplus}(\Delta + b), -e^{A}, B, C, D) \cdot \mathrm{silu}(z))

Its cost grows with the number of positions, not with their square.
Gu & Dao, 2023, https://arxiv.org/abs/2312.00752; Dao & Gu, 2024, https://arxiv.org/abs/2405.21060
"""

import math
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from residual_edu.checked import Flag, Positive, Size, checked
from residual_edu.config import Spec, build
from residual_edu.mixers.selective_scan import chunked_scan
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_divisible,
    check_not_empty,
    check_signal,
)
from residual_edu.parts.causal_conv import CausalConv1D
from residual_edu.parts.flop_count import Shape, count_positions, flop_count
from residual_edu.parts.rms_norm import RMSNorm
from residual_edu.parts.start import copy_values


class MambaLayer(nn.Module):
    r"""The core of Mamba-2 for (batch, positions, channels): each position depends on itself and earlier ones.

    One projection gives a gate z, the input u of a short convolution, and a step for each head. The steps start
    log-uniform in [dt_min, dt_max] and head h starts with :math:`A = -h`, so that heads differ in how fast they forget.
    Names are those of the ``mamba_ssm`` package; all heads share B and C (its ``ngroups=1``).

    Args:
        d_model: number of channels in and out, at least 1.
        d_state: length of the vectors B and C, hence of each row of the state, at least 1.
        d_conv: number of taps of the short convolution, its own position included, at least 1.
        expand: number of inner channels for each outer one, at least 1.
        headdim: number of inner channels of a head; it divides ``expand * d_model``.
        dt_min: smallest step at the start, above 0.
        dt_max: largest step at the start, at least ``dt_min``.
        dt_init_floor: steps below it start at it, above 0.
        bias: whether both projections have a bias.
        conv_bias: whether the convolution has one.
        chunk_size: number of positions that the scan takes at once, at least 1; the result does not depend on it.

    Raises:
        InvalidInput: for an argument out of range, an integer input, or one of another shape.
    """

    @checked
    def __init__(
        self,
        d_model: Size,
        d_state: Size = 128,
        d_conv: Size = 4,
        expand: Size = 2,
        headdim: Size = 64,
        dt_min: Positive = 0.001,
        dt_max: Positive = 0.1,
        dt_init_floor: Positive = 1e-4,
        bias: Flag = False,
        conv_bias: Flag = True,
        chunk_size: Size = 64,
    ) -> None:
        super().__init__()
        inner, heads = expand * d_model, expand * d_model // headdim
        check_divisible("expand * d_model", inner, headdim, "headdim")
        self.d_model, self.d_state, self.headdim, self.chunk_size = (
            d_model,
            d_state,
            headdim,
            chunk_size,
        )
        mixed = inner + 2 * d_state  # x, B and C, which the short convolution reads
        self.pieces = [inner, mixed, heads]
        self.in_proj = nn.Linear(d_model, sum(self.pieces), bias=bias)
        self.conv1d = CausalConv1D(mixed, mixed, d_conv, groups=mixed, bias=conv_bias)
        self.scan_start = partial(initial_scan, heads, dt_min, dt_max, dt_init_floor)
        self.dt_bias, self.A_log, self.D = map(nn.Parameter, self.scan_start())
        self.norm = RMSNorm(inner, eps=1e-5)
        self.out_proj = nn.Linear(inner, d_model, bias=bias)

    def reset_parameters(self) -> None:
        """Draw the steps again, and set A and D to where they start."""
        parameters = self.dt_bias, self.A_log, self.D
        for parameter, values in zip(parameters, self.scan_start(), strict=True):
            copy_values(parameter, values)

    def forward(
        self, x: Float[Tensor, "batch positions channels"]
    ) -> Float[Tensor, "batch positions channels"]:
        """Mix each position with those before it; shape and dtype stay."""
        check_signal("x", x, self.d_model, 1, self.in_proj)
        z, u, dt = self.in_proj(x).split(
            self.pieces, dim=-1
        )  # batch, position, and: inner; inner + 2 state; head
        y = self._scan(silu(self.conv1d(u.mT)).mT, softplus(dt + self.dt_bias))
        return self.out_proj(self.norm(y * silu(z)))

    def _scan(self, u: Tensor, dt: Tensor) -> Float[Tensor, "batch positions inner"]:
        """Scan the output of the convolution, in float32 at least; dtype stays."""
        wide = torch.promote_types(
            u.dtype, torch.float32
        )  # a 16-bit state would lose the digits of what it sums
        x, B, C = u.to(wide).split([self.pieces[0], self.d_state, self.d_state], dim=-1)
        x, A = (
            x.unflatten(-1, (-1, self.headdim)),
            -self.A_log.to(wide).exp(),
        )  # x: batch, position, head, headdim
        y = chunked_scan(x, dt.to(wide), A, B, C, self.D.to(wide), self.chunk_size)
        return y.flatten(-2).to(u.dtype)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: matrix products, convolution and norm, the scan in chunks."""
        positions, inner = count_positions(shape), self.pieces[0]
        length = min(self.chunk_size, positions)
        filled = positions + -positions % length
        projections = 2 * positions * self.d_model * (sum(self.pieces) + inner)
        scan = 2 * filled * (length * (self.d_state + inner) + 2 * inner * self.d_state)
        return (
            projections
            + scan
            + sum(
                flop_count(part, positions, inference)
                for part in (self.conv1d, self.norm)
            )
        )


def initial_scan(
    heads: int, dt_min: float, dt_max: float, floor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dt_bias, A_log and D at the start; softplus of the first is a step for each head."""
    steps = initial_steps(heads, dt_min, dt_max, floor)
    return (
        steps + (-(-steps).expm1()).log(),
        torch.arange(1.0, heads + 1).log(),
        torch.ones(heads),
    )


def initial_steps(
    heads: int, dt_min: float, dt_max: float, floor: float
) -> Float[Tensor, "heads"]:
    """Draw a step for each head, log-uniform in [dt_min, dt_max] and at least ``floor``.

    Raises:
        InvalidInput: where ``dt_min`` is above ``dt_max``.
    """
    if dt_min > dt_max:
        raise InvalidInput(f"dt_min must be at most dt_max={dt_max}, got {dt_min}")
    return (
        torch.empty(heads)
        .uniform_(math.log(dt_min), math.log(dt_max))
        .exp()
        .clamp(min=floor)
    )


class Mamba(nn.Module):
    r"""A Mamba layer for signals with 1 to 3 axes: the positions are read row by row, as one sequence.

    With ``bidirectional=True`` a second layer reads the sequence from its end, and both are added:
    :math:`\mathrm{core}(x) + \mathrm{flip}(\mathrm{core\_rev}(\mathrm{flip}(x)))`. Otherwise no position depends on a
    later one.

    Args:
        mamba_layer_cfg: what to build (``config.build``) for each direction, such as ``MambaLayer``:
            ``forward(x)`` of (batch, positions, channels).
        bidirectional: whether a second layer with weights of its own reads backwards.

    Raises:
        InvalidInput: for one built layer where two are needed, or an input without an axis of positions.
    """

    @checked
    def __init__(self, mamba_layer_cfg: Spec, bidirectional: Flag = False) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.core_layer = build(mamba_layer_cfg)
        if bidirectional:
            self.core_layer_rev = build(mamba_layer_cfg)
            check_two_layers(self.core_layer, self.core_layer_rev)

    def forward(
        self,
        x: Float[Tensor, "batch *space channels"],
        *,
        conditioning: Tensor | None = None,
    ) -> Float[Tensor, "batch *space channels"]:
        """Mix the positions of ``x``; shape stays. ``conditioning`` is ignored."""
        check_positions("x", x)
        sequence = x.flatten(1, -2)
        y = self.core_layer(sequence)
        if self.bidirectional:
            y = y + self.core_layer_rev(sequence.flip(1)).flip(1)
        return y.view_as(x)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: that of one direction, or of both."""
        return (1 + self.bidirectional) * flop_count(self.core_layer, shape, inference)


def check_positions(name: str, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, *space, channels), not empty."""
    check_axes(name, x, "batch", "position", "channels")
    check_not_empty(name, x)


def check_two_layers(first: nn.Module, second: nn.Module) -> None:
    """Raise ``InvalidInput`` where both directions would share one layer, as they do where it was built before."""
    if first is second:
        mend = "give its class or a config, which builds a new one each time"
        raise InvalidInput(
            f"mamba_layer_cfg must build 2 layers, got the same {type(first).__name__} twice; {mend}"
        )
