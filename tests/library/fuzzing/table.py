"""The case of every public name that can be called."""

from functools import partial
from math import prod

import torch
from torch import nn

import residual_edu as library
from residual_edu import ModelConfig

from . import cases as c
from .cases import OFF, C, Case, function, layer, x


def space(x, **more):
    return (*x.shape[:-1], C)


CASES = {
    "ALiBi": Case(
        {"config": c.config()},
        {"query": x(3, 2, 5, 2), "keys": 6},
        lambda query, keys: (2, query.shape[-2], keys),
        (),
        "bias",
    ),
    "PositionBase": Case({"config": c.config()}, {"x": x(3, 5, C), "start": 1}, c.same, ("x",), "embed"),
    "RoPE": Case({"config": c.config()}, {"x": x(3, 2, 5, 2), "start": 1}, c.same, ("x",), "rotate"),
    "Sinusoidal": Case({"config": c.config()}, {"x": x(3, 5, C), "start": 1}, c.same, ("x",), "embed"),
    "AdaLNZeroResidualBlock": layer(
        c.ADALN | {"condition_norm_cfg": OFF, "dropout_cfg": OFF, "hidden_dim": C},
        rows=("x", "condition"),
        x=x(3, 5, C),
        condition=x(3, C),
    ),
    "Attention": layer(
        c.HEADS | {"attn_dropout": 0.1, "rope_base": 9.0}, c.attended, ("query", "key", "value"), **c.qkv(3)
    ),
    "BlockConfig": Case(c.SIZES | {"attention": "gqa", "bias": True, "dropout": 0.1, "rope_dim": 2}, None),
    "BlockLayerNorm": layer({"config": c.config()}, rows=("input",), input=x(3, 5, C)),  # torch's name
    "BlockRMSNorm": layer({"config": c.config()}),
    "CKConv": layer(
        {"data_dim": 1, "hidden_dim": C, "kernel_cfg": c.KERNEL, "mask_cfg": OFF, "grid_type": "double"}
        | {"fft_padding": "zero", "is_causal": True}
    ),
    "CausalConv1D": layer(
        {"in_channels": 5, "out_channels": 5, "kernel_size": 2, "stride": 1, "dilation": 2, "groups": 5, "bias": True},
        lambda x: x.shape,
    ),
    "ClassificationResNet": Case(c.network(), {"inputs": {"input": x(3, 5, 2), "condition": None}}),
    "ConfigurableBlock": c.of_config(),
    "Denoiser": layer(
        {"patch_size": 2, "grid": 2, "hidden_dim": C, "depth": 1, "num_classes": 3},
        rows=("images", "time", "labels"),
        images=x(3, 4, 4),
        time=x(3).sigmoid(),
        labels=torch.tensor([0, 1, 3]),
    ),
    "DropPath": layer({"drop_prob": 0.2}),
    "Dropout": layer({"p": 0.2}),
    "ExponentialModulation": layer(
        {"data_dim": 1, "num_channels": C, "fast_decay_pct": 9.0, "slow_decay_pct": 2.0},
        lambda grid, x: x.shape,
        ("x",),
        **c.taps(),
    ),
    "GaussianModulation": layer(
        {"data_dim": 1, "num_channels": C} | c.GAUSSIAN, lambda grid, x: x.shape, ("x",), **c.taps()
    ),
    "GQA": c.of_config("gqa", qk_norm=True),
    "GatedFFN": layer({"config": c.config()}),
    "GatedReLU2FFN": layer({"config": c.config()}),
    "GlobalResponseNorm": layer({"dim": C, "eps": 1e-6}),
    "Hyena": layer(
        {"global_conv_cfg": c.CONV, "short_conv_cfg": OFF, "gate_nonlinear_cfg": nn.SiLU, "pixelhyena_norm_cfg": c.NORM}
        | {"qk_norm_cfg": c.NORM, "output_norm_cfg": OFF},
        rows=("query", "key", "value"),
        query=x(3, 5, C),
        key=x(3, 5, C),
        value=x(3, 5, C),
    ),
    "KernelFiLMGenerator": layer(
        c.FILM | {"no_weight_decay": True, "init_std": 0.1}, lambda **call: None, (), conditioning=x(3, C)
    ),
    "L2Norm": layer({"dim": -1, "eps": 1e-9}, rows=()),
    "LanguageModel": Case(
        {"config": ModelConfig(c.config(), vocab_size=7, n_layers=2)},
        {"tokens": c.TOKENS, "cache": None, "token_mask": c.PADDED},
        lambda tokens, cache, token_mask: (*tokens.shape, 7),
        ("tokens", "token_mask"),
    ),
    "LayerNorm": layer({"dim": C, "eps": 1e-5, "elementwise_affine": True, "bias": True, "fused": False}),
    "LayerNormalization": layer({"features": C, "eps": 1e-6}),
    "LayerScale": layer({"dim": C, "init_value": 0.1}),
    "LazyConfig": Case(
        {"target": library.MLP}, {"dim": C, "activation": "relu", "dropout_cfg": OFF}, method="__call__"
    ),
    "MHA": c.of_config(),
    "MLA": c.of_config("mla", rope_dim=2, position="none"),
    "MLP": layer(c.MLPS),
    "Mamba": layer({"mamba_layer_cfg": partial(library.MambaLayer, C, headdim=4), "bidirectional": True}),
    "MambaLayer": layer({"d_model": C} | c.MAMBA | {"bias": True, "conv_bias": False, "dt_init_floor": 1e-4}),
    "ModelCache": Case({"length": 2, "blocks": (c.cached(),)}, {}, method="bytes_per_token"),
    "ModelConfig": Case({"block": c.config(), "vocab_size": 7, "n_layers": 1, "tie_embeddings": True}, None),
    "Modulation": Case(
        dict.fromkeys(("shift", "scale", "gate"), x(3, 1, C)), {"branch": x(3, 5, C)}, c.same, (), "apply_gate"
    ),
    "NoAttention": c.of_config("none"),
    "Patchify": layer(c.PATCH, lambda x: (len(x), (x.shape[1] - 2) // 2 + 1, 3)),
    "Unpatchify": layer(c.PATCH, lambda x: (len(x), (x.shape[1] - 1) * 2 + 2, 3)),
    "PerHeadRMSNorm": layer({"num_heads": 2, "head_dim": 2, "eps": 1e-6}),
    "PositionEmbedding": layer({"embedding_dim": C, "data_dim": 1, "max_dim_lengths": 9}),
    "QKVConditionMixer": layer(
        {"hidden_dim": C, "mixer_cfg": c.ATTENTION}, rows=("x", "condition"), x=x(3, 5, C), condition=x(3, 2, C)
    ),
    "QKVSequenceMixer": layer({"hidden_dim": C, "mixer_cfg": c.ATTENTION, "qkv_bias": True, "out_proj_bias": False}),
    "RMSNorm": layer({"dim": C, "eps": 1e-6, "fused": True}),
    "ReLU2FFN": layer({"config": c.config()}),
    "RegisterCompressConcat": layer(
        {"num_registers": 2, "hidden_dim": C, "compressed_dim": 3},
        lambda registers: (len(registers), 6),
        ("registers",),
        registers=x(3, 2, C),
    ),
    "RegisterPooling": layer(
        {"num_registers": 2},
        lambda registers: (len(registers), registers.shape[2]),
        ("registers",),
        registers=x(3, 2, C),
    ),
    "Registry": Case({"name": "norm"}, {"key": "mine", "value": nn.ReLU}, method="register"),
    "ResidualBlock": layer(
        {"sequence_mixer_cfg": c.MIXER, "sequence_mixer_norm_cfg": c.NORM, "condition_mixer_cfg": OFF}
        | {"condition_mixer_norm_cfg": OFF, "mlp_cfg": c.DENSE, "mlp_norm_cfg": c.NORM, "dropout_cfg": OFF},
        rows=("x",),
        x=x(3, 5, C),
        condition=None,
    ),
    "ResidualConnection": layer(
        {"features": C, "dropout": 0.1, "placement": "post"}, rows=("x",), x=x(3, 5, C), sublayer=nn.Linear(C, C)
    ),
    "ResidualNetwork": Case(c.network(), {"inputs": {"input": x(3, 5, 2), "condition": None}}),
    "SIRENKernel": layer(c.kernel(), lambda lengths: None, (), lengths=[5]),
    "SIRENPositionalEmbedding": layer(
        {"data_dim": 1, "embedding_dim": 4, "L_cache": 6, "omega_0": 1.0, "use_bias": False},
        lambda lengths: None,
        (),
        lengths=[5],
    ),
    "SimpleFeedForward": layer({"d_model": C, "d_ff": 3}),
    "SlidingWindowGQA": c.of_config("sliding_window_gqa"),
    "StandardFFN": layer({"config": c.config()}),
    "ViT5Attention": layer(
        {"hidden_dim": C, "num_heads": 1} | c.VIT | {"attn_dropout": 0.1, "qkv_bias": True}, x=x(3, 6, C)
    ),
    "ViT5ClassificationNet": layer(
        {"in_channels": 2, "num_classes": 3, "hidden_dim": C, "block_cfg": c.VIT5, "norm_cfg": c.NORM} | c.STACK,
        lambda images: (len(images), 3),
        ("images",),
        images=x(3, 4, 4, 2),
    ),
    "ViT5HyenaAdapter": layer({"inner_mixer_cfg": c.MIXER, "grid_w": 2}, lambda x: x.shape, x=x(3, 6, C)),
    "ViT5ResidualBlock": layer(
        {"sequence_mixer_cfg": c.MIXER, "sequence_mixer_norm_cfg": c.NORM, "mlp_cfg": c.DENSE, "mlp_norm_cfg": c.NORM}
        | {"hidden_dim": C, "layer_scale_init": 0.1, "drop_path_rate": 0.1, "num_registers": 1, "register_start_idx": 1}
        | {
            "register_pooling_cfg": partial(library.RegisterPooling, 1),
            "grn_cfg": partial(library.GlobalResponseNorm, C),
        }
    ),
    "alibi_bias": function(
        lambda queries, keys, slopes: (len(slopes), queries, keys), queries=3, keys=5, slopes=x(2).abs()
    ),
    "alibi_slopes": function(lambda heads: (heads,), heads=4),
    "attention": function(c.attended, ("query", "key", "value"), **c.qkv(3, mask=c.MASK, bias=c.BIAS, scale=0.5)),
    "fused_attention": function(
        c.attended,
        ("query", "key", "value"),
        **c.qkv(3, mask=c.MASK, bias=c.BIAS, scale=0.5, dropout=0.0, is_causal=True),
    ),
    "attention_mask": function(lambda queries, keys, **more: (queries, keys), queries=3, keys=5, causal=True, window=2),
    "build": function(spec=c.DENSE),
    "cache_length": function(cache=c.cached()),
    "extend": function(cache=c.cached(), first=x(3, 2, 1, C), second=x(3, 2, 1, C)),
    "chunked_scan": function(c.same, ("x", "dt", "B", "C"), **c.scan(), chunk_size=2),
    "selective_scan": function(c.same, ("x", "dt", "B", "C"), **c.scan()),
    "convolution_matrix": function(
        lambda kernel, length, padding: (*kernel.shape[:-1], length, length),
        kernel=x(2, 3),
        length=5,
        padding="circular",
    ),
    "long_convolution": function(c.same, ("x",), x=x(3, 5, C), kernel=x(1, 3, C), padding="zero"),
    "drop_path": function(c.same, (), x=x(3, 5, C), drop_prob=0.1, training=True),
    "drop_path_schedule": function(depth=3, max_rate=0.2),
    "dropout": function(c.same, (), x=x(3, 5, C), p=0.1, training=True),
    "generate": function(
        model=c.model(),
        prompt=c.TOKENS,
        max_tokens=2,
        temperature=0.5,
        top_k=2,
        top_p=0.9,
        seed=0,
        prompt_mask=c.PADDED,
    ),
    "global_response_norm": function(c.same, ("x",), x=x(3, 5, C), gamma=x(C), beta=x(C), eps=1e-6),
    "is_bypassed": function(layer=nn.ReLU()),
    "layer_norm": function(c.same, ("x",), x=x(3, 5, C), weight=x(C), bias=x(C), eps=1e-5),
    "rms_norm": function(c.same, ("x",), x=x(3, 5, C), weight=x(C), eps=1e-5),
    "merge_heads": function(lambda x: (len(x), x.shape[2], x.shape[1] * x.shape[3]), ("x",), x=x(3, 2, 5, C)),
    "split_heads": function(
        lambda x, heads: (len(x), heads, x[0, ..., 0].numel(), x.shape[-1] // heads), ("x",), x=x(3, 5, C), heads=2
    ),
    "repeat_heads": function(lambda x, heads: (len(x), heads, *x.shape[2:]), ("x",), x=x(3, 2, 5, C), heads=4),
    "modulations": function(projected=x(3, 6 * C), ndim=3, branches=2),
    "no_weight_decay": function(module=nn.Linear(2, 2)),
    "parameter_groups": function(model=nn.Linear(2, 2), weight_decay=0.1),
    "reset_parameters": function(module=nn.Sequential(nn.Linear(2, 2), library.LayerScale(2))),
    "position_grid": function(
        lambda lengths, reach, like: (1, 2 * lengths[0] - 1, 1), lengths=[5], reach=[6], like=x(1)
    ),
    "post_norm_residual": function(c.same, ("x",), **c.RESIDUAL),
    "pre_norm_residual": function(c.same, ("x",), **c.RESIDUAL),
    "rotary_angles": function(
        lambda lengths, head_dim, **more: (prod(lengths), head_dim // 2), lengths=[5], **c.ROTATED
    ),
    "rotary_cos_sin": function(angles=x(5, 2)),
    "rotate": function(c.same, ("x",), x=x(3, 5, C), angles=x(5, 2)),
    "rotate_by": function(c.same, ("x",), x=x(3, 5, C), cos=x(5, C), sin=x(5, C)),
    "sinusoidal": function(
        lambda positions, channels, **more: (positions, channels), positions=5, channels=4, base=9.0, start=2
    ),
    "zero_projection": function(dim=C, branches=2),
}
