r"""Mamba-2: positions exchange information through the state of a selective scan.

.. math::
    (z, u, \Delta) &= W x, \qquad (x', B, C) = \mathrm{silu}(\mathrm{conv}(u)) \\
    h &= \mathrm{scan}(x', \mathrm{softplus}(\Delta + b), -e^{A}, B, C, D) \\
    y &= W_o \, \mathrm{norm}(h \cdot \mathrm{silu}(z))

Its cost grows with the number of positions, not with their square.
Gu & Dao, 2023, https://arxiv.org/abs/2312.00752
Dao & Gu, 2024, https://arxiv.org/abs/2405.21060
"""

from functools import partial
from math import log

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from residual_edu.config import Spec, build
from residual_edu.errors import InvalidInput, check_positive, check_size
from residual_edu.mixers.selective_scan import chunked_scan
from residual_edu.parts.causal_conv import CausalConv1D
from residual_edu.parts.flop_count import Shape, Signal, count_positions, flop_count
from residual_edu.parts.norm import widened
from residual_edu.parts.rms_norm import RMSNorm
from residual_edu.parts.start import copy_values

Sequence = Float[Tensor, "batch positions channels"]


class MambaLayer(nn.Module):
    r"""The core of Mamba-2: each position depends on itself and earlier ones.

    One projection gives a gate, the input of a short convolution, and a step for each
    head. Steps start log-uniform in [dt_min, dt_max] and head h with :math:`A = -h`:
    heads differ in how fast they forget. All heads share B and C.

    Args:
        d_model: number of channels in and out.
        d_state: length of B and C, hence of each row of the state, at least 1.
        d_conv: number of taps of the short convolution, its own position included.
        expand: number of inner channels for each outer one, at least 1.
        headdim: number of inner channels of a head; it divides ``expand * d_model``.
        dt_min, dt_max: smallest and largest step at the start, above 0.
        dt_init_floor: steps below it start at it, above 0.
        bias, conv_bias: whether both projections, and the convolution, have a bias.
        chunk_size: number of positions that the scan takes at once.
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 128,
        d_conv: int = 4,
        expand: int = 2,
        headdim: int = 64,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        dt_init_floor: float = 1e-4,
        bias: bool = False,
        conv_bias: bool = True,
        chunk_size: int = 64,
    ) -> None:
        super().__init__()
        check_size("d_state", d_state)
        check_size("expand", expand)
        check_positive("dt_init_floor", dt_init_floor)
        self.d_model, self.d_state = d_model, d_state
        self.headdim, self.chunk_size = headdim, chunk_size
        inner, heads = expand * d_model, expand * d_model // headdim
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

    def forward(self, x: Sequence) -> Sequence:
        """Mix each position with those before it; shape and dtype stay."""
        # batch, position, and: inner; inner + 2 state; head
        z, u, dt = self.in_proj(x).split(self.pieces, dim=-1)
        y = self._scan(silu(self.conv1d(u.mT)).mT, softplus(dt + self.dt_bias))
        return self.out_proj(self.norm(y * silu(z)))

    def _scan(self, u: Tensor, dt: Tensor) -> Tensor:
        x, B, C = u.split([self.pieces[0], self.d_state, self.d_state], dim=-1)
        x = x.unflatten(-1, (-1, self.headdim))  # batch, position, head, headdim
        A = -widened(self.A_log).exp()
        return chunked_scan(x, dt, A, B, C, self.D, self.chunk_size).flatten(-2)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: maps, convolution, norm, and scan."""
        positions, inner = count_positions(shape), self.pieces[0]
        maps = 2 * positions * self.d_model * (sum(self.pieces) + inner)
        rest = flop_count(self.conv1d, positions) + flop_count(self.norm, positions)
        length = min(self.chunk_size, positions)
        filled = positions + -positions % length
        scan = length * (self.d_state + inner) + 2 * inner * self.d_state
        return maps + rest + 2 * filled * scan


def initial_scan(
    heads: int, dt_min: float, dt_max: float, floor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dt_bias, A_log and D at the start; softplus of dt_bias is a step."""
    steps = torch.empty(heads).uniform_(log(dt_min), log(dt_max)).exp().clamp(min=floor)
    dt_bias = steps + (-(-steps).expm1()).log()  # the inverse of softplus
    return dt_bias, torch.arange(1.0, heads + 1).log(), torch.ones(heads)


class Mamba(nn.Module):
    r"""A Mamba layer for signals with 1 to 3 axes, read row by row as one sequence.

    With ``bidirectional=True`` a second layer reads the sequence from its end:
    :math:`\mathrm{core}(x) + \mathrm{flip}(\mathrm{core\_rev}(\mathrm{flip}(x)))`.

    Args:
        mamba_layer_cfg: what to build (``config.build``) for each direction, such as
            ``MambaLayer``; one built layer cannot read both ways.
        bidirectional: whether a second layer with weights of its own reads backwards.
    """

    def __init__(self, mamba_layer_cfg: Spec, bidirectional: bool = False) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.core_layer = build(mamba_layer_cfg)
        if bidirectional:
            self.core_layer_rev = build(mamba_layer_cfg)
            if self.core_layer_rev is self.core_layer:
                raise InvalidInput("mamba_layer_cfg must build two layers, got one")

    def forward(self, x: Signal, *, conditioning: Tensor | None = None) -> Signal:
        """Mix the positions of ``x``; shape stays. ``conditioning`` is ignored."""
        sequence = x.flatten(1, -2)
        y = self.core_layer(sequence)
        if self.bidirectional:
            y = y + self.core_layer_rev(sequence.flip(1)).flip(1)
        return y.view_as(x)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: that of one direction, or of both."""
        return (1 + self.bidirectional) * flop_count(self.core_layer, shape, inference)
