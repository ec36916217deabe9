r"""Mamba: a sequence mixer whose memory is one state, written and read by a selective scan.

.. math::
    (z, u, \Delta) = W x, \quad (x', B, C) = \mathrm{silu}(\mathrm{conv}(u)), \quad
    y = W_o \, \mathrm{norm}(\mathrm{scan}(x', \mathrm{softplus}(\Delta + b), -e^{A}, B, C, D) \cdot \mathrm{silu}(z))

Its cost grows with the number of positions, not with their square.
Gu & Dao, 2023, https://arxiv.org/abs/2312.00752; Dao & Gu, 2024, https://arxiv.org/abs/2405.21060
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from residual_edu.config import Spec, build
from residual_edu.errors import (
    check_apart,
    check_axes,
    check_divisible,
    check_positive,
    check_shape,
    check_size,
)
from residual_edu.mixers.selective_scan import chunked_scan
from residual_edu.parts.causal_conv import CausalConv1D
from residual_edu.parts.flop_count import Shape, count_positions, flop_count
from residual_edu.parts.rms_norm import RMSNorm


class MambaLayer(nn.Module):
    r"""The core of Mamba-2 for (batch, positions, channels), left to right.

    One projection gives a gate z, what the short convolution reads, and a step for each head. The steps start
    log-uniform in [dt_min, dt_max], head h fades with :math:`A = -h`, so that memories of many lengths are there from
    the start. Names are those of the ``mamba_ssm`` package; B and C are shared by all heads (its ``ngroups=1``).

    Args:
        d_model: number of channels in and out, at least 1.
        d_state: length of the vectors B and C, hence width of the state.
        d_conv: how many positions the short convolution sees, its own included.
        expand: how many inner channels there are for each outer one.
        headdim: number of inner channels of a head; it divides ``expand * d_model``.
        dt_min: smallest step at the start, above 0.
        dt_max: largest step at the start.
        dt_init_floor: no step starts below it.
        bias: whether both projections have a bias.
        conv_bias: whether the convolution has one.
        chunk_size: number of positions that the scan takes at once; the result does not depend on it.

    Raises:
        InvalidInput: for a size or a step out of range, an integer input, or one of another shape.
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
        sizes = {"d_model": d_model, "d_state": d_state, "d_conv": d_conv, "expand": expand, "headdim": headdim}
        for name, size in (sizes | {"chunk_size": chunk_size}).items():
            check_size(name, size)
        for name, step in {"dt_min": dt_min, "dt_max": dt_max, "dt_init_floor": dt_init_floor}.items():
            check_positive(name, step)
        inner, heads = expand * d_model, expand * d_model // headdim
        check_divisible("expand * d_model", inner, headdim, "headdim")
        self.d_model, self.d_state, self.headdim, self.chunk_size = d_model, d_state, headdim, chunk_size
        mixed = inner + 2 * d_state
        self.pieces = [inner, mixed, heads]
        self.in_proj = nn.Linear(d_model, sum(self.pieces), bias=bias)
        self.conv1d = CausalConv1D(mixed, mixed, d_conv, groups=mixed, bias=conv_bias)
        steps = torch.empty(heads).uniform_(math.log(dt_min), math.log(dt_max)).exp().clamp(min=dt_init_floor)
        self.dt_bias = nn.Parameter(steps + (-(-steps).expm1()).log())  # softplus of it is the step
        self.A_log = nn.Parameter(torch.arange(1.0, heads + 1).log())
        self.D = nn.Parameter(torch.ones(heads))
        self.norm = RMSNorm(inner, eps=1e-5)
        self.out_proj = nn.Linear(inner, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "batch positions channels"]) -> Float[Tensor, "batch positions channels"]:
        """Let each position hear those before it; shape and dtype stay."""
        check_shape("x", x, 1, self.d_model)
        z, u, dt = self.in_proj(x).split(self.pieces, dim=-1)
        y = self._scan(silu(self.conv1d(u.mT)).mT, softplus(dt + self.dt_bias))
        return self.out_proj(self.norm(y * silu(z)))

    def _scan(self, u: Tensor, dt: Tensor) -> Float[Tensor, "batch positions inner"]:
        """Scan what the convolution gave, in float32 at least."""
        wide = torch.promote_types(u.dtype, torch.float32)
        x, B, C = u.to(wide).split([self.pieces[0], self.d_state, self.d_state], dim=-1)
        heads, A = x.unflatten(-1, (-1, self.headdim)), -self.A_log.to(wide).exp()
        return chunked_scan(heads, dt.to(wide), A, B, C, self.D.to(wide), self.chunk_size).flatten(-2).to(u.dtype)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return what the matrix products, the convolution and the norm cost, the scan in its form in chunks."""
        positions, inner = count_positions(shape), self.pieces[0]
        length = min(self.chunk_size, positions)
        filled = positions + -positions % length
        projections = 2 * positions * self.d_model * (sum(self.pieces) + inner)
        scan = 2 * filled * (length * (self.d_state + inner) + 2 * inner * self.d_state)
        return projections + scan + sum(flop_count(part, positions, inference) for part in (self.conv1d, self.norm))


class Mamba(nn.Module):
    r"""A Mamba layer for signals of any dimension: the positions are read row by row, as one sequence.

    With ``bidirectional=True`` a second layer reads the sequence from its end, and both are added:
    :math:`\mathrm{core}(x) + \mathrm{flip}(\mathrm{core\_rev}(\mathrm{flip}(x)))`. Else no position hears a later one.

    Args:
        mamba_layer_cfg: what to build (``config.build``) for a direction, such as ``MambaLayer``.
        bidirectional: whether a second layer with weights of its own reads backwards.

    Raises:
        InvalidInput: for one built layer where two are needed, or an input without positions.
    """

    def __init__(self, mamba_layer_cfg: Spec, bidirectional: bool = False) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.core_layer = build(mamba_layer_cfg)
        if bidirectional:
            self.core_layer_rev = build(mamba_layer_cfg)
            check_apart("mamba_layer_cfg", self.core_layer, self.core_layer_rev)

    def forward(
        self, x: Float[Tensor, "batch *space channels"], *, conditioning: Tensor | None = None
    ) -> Float[Tensor, "batch *space channels"]:
        """Mix the positions of ``x``; shape stays. There is no use for ``conditioning`` here."""
        check_axes("x", x, "batch", "position", "channels")
        sequence = x.flatten(1, -2)
        y = self.core_layer(sequence)
        if self.bidirectional:
            y = y + self.core_layer_rev(sequence.flip(1)).flip(1)
        return y.view_as(x)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return what one direction costs, or both."""
        return (1 + self.bidirectional) * flop_count(self.core_layer, shape, inference)
