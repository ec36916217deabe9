"""A right call of every public name, which the fuzzer spoils: how it is made, called, and what shape it must return."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

import residual_edu as library
from residual_edu import BlockConfig, ModelConfig

C, OFF, DRAWS = 4, nn.Identity, torch.Generator().manual_seed(0)
torch.manual_seed(0)  # the layers that are made below, which would have other weights in each run
NORM, DENSE = partial(library.LayerNorm, C), partial(library.MLP, C, "relu", OFF)
ATTENTION = partial(library.Attention, C, 2, False, False)
MIXER = partial(library.QKVSequenceMixer, C, ATTENTION)
KERNEL = partial(library.SIRENKernel, C, 1, 4, 2, 4, 1.0, 6, True)
CONV = partial(library.CKConv, 1, C, KERNEL, OFF, "double", "zero")
BLOCK = partial(library.ResidualBlock, MIXER, NORM, OFF, OFF, DENSE, NORM, OFF)
SIZES = {"d_model": C, "n_heads": 2, "d_ff": 6, "max_seq_len": 9, "window_size": 2, "kv_lora_rank": 3, "n_kv_heads": 1}


def config(**changes: Any) -> BlockConfig:
    return BlockConfig(**(SIZES | {"position": "rope"} | changes))


class Case(NamedTuple):
    """``made`` are the arguments of the class, None for a function; ``call`` those of the call; ``shape`` its result's.

    ``shape`` takes the arguments of the call and returns the shape, or None where there is no rule. ``rows`` are the
    arguments whose samples must not affect each other.
    """

    made: dict[str, Any] | None
    call: dict[str, Any] | None
    shape: Callable[..., tuple[int, ...] | None] = lambda **call: None
    rows: tuple[str, ...] = ()
    method: str = "forward"


def x(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=DRAWS)  # the same numbers in each run


def same(**call: Any) -> tuple[int, ...]:
    return tuple(next(iter(call.values())).shape)


def layer(made: dict[str, Any], shape: Callable[..., Any] = same, rows: tuple[str, ...] = ("x",), **call: Any) -> Case:
    return Case(made, call or {"x": x(3, 5, C)}, shape, rows)


def function(shape: Callable[..., Any] = lambda **call: None, rows: tuple[str, ...] = (), **call: Any) -> Case:
    return Case(None, call, shape, rows)


def attended(query: Any, key: Any, value: Any, **more: Any) -> tuple[int, ...]:
    return (*query.shape[:-1], value.shape[-1])


def of_config(kind: str = "mha", **changes: Any) -> Case:
    mask = torch.ones(3, 5, 5, dtype=torch.bool).tril()
    return Case({"config": config(attention=kind, **changes)}, {"x": x(3, 5, C), "mask": mask}, same, ("x", "mask"))


def network() -> dict[str, Any]:
    sizes = {"in_channels": 2, "out_channels": 3, "num_blocks": 2, "hidden_dim": C, "data_dim": 1}
    specs = {"in_proj_cfg": nn.Linear, "out_proj_cfg": nn.Linear, "norm_cfg": NORM, "block_cfg": BLOCK}
    return sizes | specs | {"dropout_in_cfg": OFF, "target_size": 2, "gradient_checkpointing": False}


def kernel() -> dict[str, Any]:
    sizes = {"out_dim": C, "data_dim": 1, "mlp_hidden_dim": 4, "num_layers": 2, "embedding_dim": 4, "omega_0": 1.0}
    return sizes | {"L_cache": 6, "use_bias": True, "hidden_omega_0": 1.0, "film_after_pos_embed": False}


def scan() -> dict[str, Any]:
    ins = {"x": x(3, 5, 2, 3), "dt": x(3, 5, 2).sigmoid(), "A": -x(2).sigmoid(), "B": x(3, 5, 4), "C": x(3, 5, 4)}
    return ins | {"D": x(2)}


def qkv(*before: int, **more: Any) -> dict[str, Any]:
    return {"query": x(*before, 5, C), "key": x(*before, 6, C), "value": x(*before, 6, C)} | more


def taps() -> dict[str, Any]:
    return {"grid": library.position_grid([5], [6], x(1)), "x": x(2, 9, C)}


def cached() -> library.Cache:
    return x(3, 2, 5, C), x(3, 2, 5, C)


def model() -> library.LanguageModel:
    return library.LanguageModel(ModelConfig(config(), vocab_size=7, n_layers=1)).eval()


TOKENS = torch.tensor([[0, 3, 2], [1, 1, 6]])
PADDED = torch.tensor([[False, True, True], [True, True, True]])  # a row of two tokens beside one of three
MASK, BIAS = torch.ones(5, 6, dtype=torch.bool), torch.zeros(5, 6)
ROTATED = {"head_dim": 4, "base": 100.0, "start": 2}
ADALN = {"sequence_mixer_cfg": MIXER, "sequence_mixer_norm_cfg": NORM, "mlp_cfg": DENSE, "mlp_norm_cfg": NORM}
RESIDUAL = {"x": x(3, 5, C), "layer": nn.Linear(C, C), "norm": nn.LayerNorm(C), "gates": [nn.Dropout(0.0)]}
MLPS = {"dim": C, "activation": "relu", "dropout_cfg": OFF, "expansion_factor": 2.0, "bias": True}
PATCH = {"in_features": C, "out_features": 3, "data_dim": 1, "patch_size": 2, "stride": 2, "bias": True}
GAUSSIAN = {"min_std": 1e-3, "max_std": 2.0, "init_std_low": 0.05, "init_std_high": 1.0, "parametrization": "softplus"}
MAMBA = {"d_state": 3, "d_conv": 2, "expand": 2, "headdim": 4, "dt_min": 0.01, "dt_max": 0.1, "chunk_size": 2}
HEADS = {"hidden_dim": C, "num_heads": 1, "apply_qk_norm": True, "use_rope": True, "is_causal": True}
VIT = {"num_patches_h": 2, "num_patches_w": 2, "num_registers": 1, "has_cls": True, "rope_base": 9.0, "scale": 1.0}
FILM = {"cond_dim": C, "kernel_hidden_dim": 3, "num_film_layers": 1, "film_hidden_dim": 2, "init_type": "identity"}
STACK = {"num_blocks": 1, "patch_size": 2, "image_size": 4, "num_registers": 1, "readout": "cls"}
VIT5 = partial(library.ViT5ResidualBlock, MIXER, NORM, DENSE, NORM, C)
