"""What mixers refuse, since torch would answer it without a word."""

from functools import partial

import torch
from torch import nn

import residual_edu as library
from residual_edu import CKConv, GaussianModulation, KernelFiLMGenerator, SIRENKernel, long_convolution
from residual_edu.mixers import Attention, chunked_scan, selective_scan
from tests.library.helpers import refused

OFF, zeros = nn.Identity, torch.zeros
FILM = partial(KernelFiLMGenerator, 4, kernel_hidden_dim=5, num_film_layers=2)
SCAN = [zeros(2, 5, 3, 2), zeros(2, 5, 3), zeros(3), zeros(2, 5, 4), zeros(2, 5, 4), zeros(3)]
PADDED = nn.Conv1d(12, 12, 3, padding=1)
X, TAPS, POINTS = zeros(2, 7, 4), zeros(1, 7, 4), zeros(1, 7, 1)


def attended(query, key, value=None, rope=True, **options):
    return Attention(12, 2, apply_qk_norm=False, use_rope=rope, **options)(*map(zeros, (query, key, value or key)))


def kernel(axes=1, **changes):
    return SIRENKernel(**({"out_dim": 4, "data_dim": axes, "mlp_hidden_dim": 5, "num_layers": 3} | SIREN | changes))


SIREN = {"embedding_dim": 4, "omega_0": 5.0, "L_cache": 8, "use_bias": True}


def conv(axes=1, channels=4, grid="double", padding="zero", causal=False, film=None):
    return CKConv(axes, channels, partial(kernel, axes, film_cfg=film), OFF, grid, padding, causal)


def hyena(causal=False, **changes):
    parts = {"global_conv_cfg": conv(causal=causal), "short_conv_cfg": OFF, "gate_nonlinear_cfg": OFF}
    return library.Hyena(**(parts | {"pixelhyena_norm_cfg": OFF, "qk_norm_cfg": None} | changes))


class Narrow(nn.Module):
    def forward(self, x, conditioning=None):
        return x[..., :1]


def narrowed(part, narrow=Narrow, **changes):
    return hyena(**{part: narrow} | changes)(X, X, X)


def mamba(**sizes):
    return library.MambaLayer(**({"d_model": 6, "headdim": 4} | sizes))


def scanned(place, value, scan=selective_scan):
    return scan(*SCAN[:place], value, *SCAN[place + 1 :])


def vit5(**changes):
    return library.ViT5Attention(**({"hidden_dim": 16, "num_heads": 2} | changes), num_patches_h=3, num_patches_w=4)


FLAT, GRID, FIVE = (2, 4, 12), (2, 2, 2, 12), (2, 5, 12)
REFUSED = [
    (lambda: Attention(12, 5, False, False), "hidden_dim must be a multiple of num_heads=5"),
    (lambda: Attention(12, 2, False, False, attn_dropout=1.0), "attn_dropout must "),
    (lambda: attended((2, 4, 8), (2, 4, 8)), "query must have 12 channels"),
    (lambda: attended(FLAT, FIVE, (1, 5, 12)), "value must have the shape of key"),
    (lambda: attended(GRID, FLAT, rope_spatial_dims=(4,)), "key must have 4 axes"),
    (lambda: attended(FIVE, FLAT, is_causal=True), ""),
    (lambda: attended(FIVE, FIVE, rope_spatial_dims=(2,)), ""),
    (lambda: attended(GRID, GRID), "head_dim must "),
    (lambda: conv(grid="triple"), "grid_type must be one of"),
    (lambda: conv(padding="causal"), "fft_padding must be one of"),
    (lambda: conv(padding="circular"), "grid_type must be single or None on a circle"),
    (lambda: conv(axes=2, causal=True), "fft_padding must be ['zero'] if causal"),
    (lambda: conv(grid=None, padding="circular", causal=True), "fft_padding must be ['zero'] if causal"),
    (lambda: conv(channels=1)(X), "x must be floating point of shape (batch, length, 1)"),
    (lambda: conv()(X.long()), "x must be floating point"),
    (lambda: FILM(no_weight_decay=0.01), "no_weight_decay must be one of True, False"),
    (lambda: FILM(init_std=0.0), "init_std must "),
    (lambda: FILM(init_type="zero"), "init_type must be one of"),
    *[(lambda shape=shape: FILM()(zeros(shape)), "conditioning must be") for shape in ((2, 5), (4,), (2, 3, 4))],
    (lambda: hyena(short_conv_cfg=nn.Linear(12, 12)), "short_conv must be nn.Conv1d to 3d or Identity"),
    (lambda: hyena(True, short_conv_cfg=PADDED), "short_conv must be causal"),
    (lambda: hyena(True, short_conv_cfg=library.CausalConv1D(12, 12, 3, is_causal=False)), "short_conv must be causal"),
    (lambda: hyena(True, output_norm_cfg=nn.GroupNorm(2, 4)), "output_norm must be causal"),
    (lambda: narrowed("short_conv_cfg", nn.Conv1d(12, 12, 3)), "Conv1d(x) must have the shape of x"),
    (lambda: narrowed("short_conv_cfg", nn.Conv2d(12, 12, 1)), "short_conv must have as many axes as the signal"),
    *[
        (lambda part=part: narrowed(f"{part}_cfg"), "Narrow(x) must have the shape of x")
        for part in ("gate_nonlinear", "gate_nonlinear_2", "pixelhyena_norm", "qk_norm", "output_norm")
    ],
    (lambda: narrowed("global_conv_cfg", short_conv_cfg=PADDED), "global_conv(z) must have the shape of z"),
    (lambda: hyena()(X, zeros(2, 7, 5), X[..., :3]), "key must have the shape of query"),
    (lambda: kernel(num_layers=0), "num_layers must be a whole number, at least 2"),
    (lambda: kernel(hidden_omega_0="a"), "hidden_omega_0 must "),
    (lambda: kernel(L_cache=1)([4]), "reach must be a whole number, at least 2"),
    (lambda: library.position_grid([1.5], [8], like=X), "lengths must be a whole number, at least 1"),
    (lambda: kernel(film_cfg=partial(FILM, kernel_hidden_dim=1)), "film_cfg must modulate widths [5, 5]"),
    (lambda: kernel(film_cfg=partial(FILM, num_film_layers=3)), "film_cfg must modulate widths [5, 5]"),
    (
        lambda: kernel(film_cfg=FILM, film_after_pos_embed=True),
        "film_cfg must modulate widths [4, 5, 5]",
    ),
    *[
        (lambda kind=kind, given=given: kind(1, 4)(*given), f"{name} must be floating point of shape ")
        for kind in (library.ExponentialModulation, GaussianModulation)
        for name, given in (("x", (POINTS, TAPS[..., :1])), ("x", (POINTS[:, :1], TAPS)), ("grid", (X[..., :1], TAPS)))
    ],
    (lambda: library.ExponentialModulation(1, 3, fast_decay_pct=0.0), "fast_decay_pct must "),
    (lambda: library.ExponentialModulation(1, 3, slow_decay_pct=-1.0), "slow_decay_pct must "),
    (lambda: GaussianModulation(1, 3, min_std=0.0), "min_std and init_std must be float32 above 0"),
    (lambda: GaussianModulation(1, 3, init_std_high=float("nan")), "min_std and init_std must be float32 above 0"),
    *[
        (
            lambda way=way, change=change: GaussianModulation(1, 4, parametrization=way, **change),
            "min_std and init_std mus",
        )
        for way in ("direct", "log", "softplus")
        for change in ({"init_std_high": 1e39}, {"init_std_low": 1e-46})
    ],
    (lambda: GaussianModulation(1, 3, min_std=0.5, max_std=0.1), "max_std must be above min_std=0.5"),
    (lambda: long_convolution(X, TAPS, "zeros"), "padding must be one of"),
    (lambda: library.convolution_matrix(TAPS[0].T, 4, "zeros"), "padding must be one of"),
    (lambda: long_convolution(X[:, :4], TAPS, "circular"), "a circular axis has 4 lags, got 7 taps"),
    (lambda: library.convolution_matrix(TAPS[0].T, 4, "circular"), "a circular axis has 4 lags, got 7 taps"),
    *[
        (lambda x=x, taps=taps: long_convolution(x, taps), "kernel must be floating point of shape")
        for x, taps in ((X, TAPS[..., :1]), (X, TAPS[0]), (X, zeros(3, 7, 4)), (X[:1], zeros(2, 7, 4)))
    ],
    (lambda: long_convolution(X.long(), TAPS), "x must be floating point"),
    (lambda: mamba(d_state=0), "d_state must "),
    (lambda: mamba(dt_init_floor=float("nan")), "dt_init_floor must "),
    (lambda: library.Mamba(mamba(), bidirectional=True), "mamba_layer_cfg must build two layers"),
    *[
        (lambda place=place, value=value, scan=scan: scanned(place, value, scan), f"{name} must be floating point of ")
        for scan in (selective_scan, chunked_scan)
        for name, place, value in (
            ("dt", 1, zeros(2, 1, 3)),
            ("A", 2, zeros(1)),
            ("B", 3, zeros(1, 5, 4)),
            ("C", 4, zeros(2, 5, 1)),
            ("D", 5, zeros(3, 2)),
        )
    ],
    (lambda: scanned(4, SCAN[4].to("meta")), "dt, A, B and C must be on the device of x"),
    (lambda: vit5(num_heads=8), "head_dim must "),
    (lambda: vit5(num_registers=-1), "num_registers must "),
    (lambda: vit5(attn_dropout=1.0), "attn_dropout must "),
    (lambda: vit5(proj_dropout=1.0), "proj_dropout must "),
    (lambda: vit5()(zeros(2, 18, 16)), "x must be floating point of shape (batch, 17, channels)"),
    (lambda: vit5()(zeros(2, 1, 16)), "x must be floating point of shape (batch, 17, channels)"),
    (lambda: library.RegisterPooling(0), "num_registers must "),
    (lambda: library.RegisterPooling(3)(zeros(2, 1, 4)), "registers must be floating point of shape (batch, 3"),
    (lambda: library.RegisterCompressConcat(3, 4, 2)(zeros(2, 2, 4)), "registers must be floating point of shape (bat"),
]

test_what_is_refused = refused(*REFUSED)
