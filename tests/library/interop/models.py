"""Every part, block, mixer and network that holds code of its own, small, and a right call of each.

They are the classes of the fuzzer's table, where every public name has a case, and the ways to build them that run
other code: axes, directions, conditions, and each name that a config may hold.
"""

import copy
from collections.abc import Callable
from functools import cache, partial
from inspect import isclass
from typing import Any, NamedTuple

import torch
from tests.fuzzing import cases as c
from tests.fuzzing.cases import OFF, C
from tests.fuzzing.table import CASES
from torch import nn

import residual_edu as library
from residual_edu import BlockConfig, ConfigurableBlock, LanguageModel, ModelConfig


class Method(nn.Module):
    """A module whose call is a method of ``inner``."""

    def __init__(self, inner: nn.Module, name: str) -> None:
        super().__init__()
        self.inner, self.name = inner, name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.inner, self.name)(*args, **kwargs)


class Model(NamedTuple):
    """``build`` makes the module; ``call`` are the arguments of its call."""

    build: Callable[[], nn.Module]
    call: dict[str, Any]

    def made(self) -> nn.Module:
        """Build it in evaluation mode, from seed 0."""
        torch.manual_seed(0)
        return self.build().eval()

    def inputs(self) -> dict[str, Any]:
        return copy.deepcopy(self.call)


@cache
def seen(name: str) -> nn.Module:
    """Return a model made once, to look at while tests are collected."""
    return MODELS[name].made()


class Connected(nn.Module):
    """A residual connection and its sublayer."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = library.ResidualConnection(C, 0.1, "post")
        self.sublayer = nn.Linear(C, C)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.connection(x, self.sublayer)


def from_table(name: str) -> Model:
    case = CASES[name]
    make = partial(getattr(library, name), **case.made)
    build = make if case.method == "forward" else lambda: Method(make(), case.method)
    call = case.call | {"keys": 9} if name == "ALiBi" else case.call  # room for more queries
    return Model(build, call)


def is_module(name: str) -> bool:
    kind = getattr(library, name)
    return isclass(kind) and issubclass(kind, nn.Module) and CASES[name].call is not None


x = torch.randn
SIZES = {"d_model": 8, "n_heads": 2, "n_kv_heads": 1, "d_ff": 6, "max_seq_len": 9, "window_size": 3, "kv_lora_rank": 3}
MASK = torch.ones(3, 5, 5, dtype=torch.bool).tril()


def configurable(**changes: Any) -> Model:
    config = BlockConfig(**(SIZES | changes))
    return Model(partial(ConfigurableBlock, config), {"x": x(3, 5, 8), "mask": MASK})


def language_model(**changes: Any) -> Model:
    block = BlockConfig(**(SIZES | changes))
    config = ModelConfig(block, vocab_size=7, n_layers=2, tie_embeddings=not changes)
    return Model(partial(LanguageModel, config), {"tokens": c.TOKENS})


def qkv(mixer: Any, *space: int, width: int = C, **more: Any) -> Model:
    return Model(partial(library.QKVSequenceMixer, width, mixer), {"x": x(3, *space, width)} | more)


def siren(axes: int = 1, layers: int = 3, film: bool = False) -> Any:
    made = partial(library.KernelFiLMGenerator, C, 5, layers - 1, 6, init_type="small_random")
    return partial(library.SIRENKernel, C, axes, 5, layers, 4, 1.0, 6, True, film_cfg=made if film else None)


def ckconv(axes: int = 1, grid: str | None = "double", padding: str = "zero", mask: Any = OFF, **more: Any) -> Any:
    film = more.pop("film", False)
    return partial(library.CKConv, axes, C, siren(axes, film=film), mask, grid, padding, **more)


def hyena(conv: Any, axes: int = 1, short: Any = None) -> Any:
    short = short or partial(getattr(nn, f"Conv{axes}d"), 3 * C, 3 * C, 3, padding=1, groups=3 * C)
    return partial(library.Hyena, conv, short, nn.SiLU, c.NORM, c.NORM, c.NORM)


def mamba(**more: Any) -> Any:
    return partial(library.Mamba, partial(library.MambaLayer, C, 3, headdim=4, chunk_size=2), **more)


def vit5(mixer: Any, pooled: bool = True) -> Any:
    pooling = partial(library.RegisterPooling, 2) if pooled else None
    norm = partial(library.RMSNorm, C)
    dense, grn = partial(library.MLP, C, "swiglu", OFF), partial(library.GlobalResponseNorm, C)
    made = partial(library.ViT5ResidualBlock, mixer, norm, dense, norm, C, 0.1, register_pooling_cfg=pooling)
    return partial(made, grn_cfg=grn)


def vit5_block(mixer: Any) -> Model:
    """On 2 x 2 patches and 2 registers."""
    return Model(partial(vit5(mixer), num_registers=2, register_start_idx=4), {"x": x(3, 6, C)})


def vit5_net(block: Any, readout: str = "cls", pad: int = 1) -> Model:
    """Images of 2 x 2 patches of 2 x 2 pixels and 2 registers."""
    sizes = {"in_channels": 2, "num_classes": 3, "hidden_dim": C, "num_blocks": 2, "patch_size": 2, "image_size": 4}
    make = partial(library.ViT5ClassificationNet, **sizes, num_registers=2, block_cfg=block, norm_cfg=c.NORM)
    return Model(partial(make, readout=readout, pad_to_multiple_of=pad), {"images": x(3, 4, 4, 2)})


def started(layer: Any) -> Any:
    """With weights that start by functions of the user's."""
    fill = lambda out: partial(nn.init.normal_, std=out**-0.5)  # noqa: E731
    return partial(layer, init_method_in=fill, init_method_out=fill)


def with_block(block: Any, axes: int = 1, condition: Any = None, kind: str = "ResidualNetwork") -> Model:
    made = c.network() | {"data_dim": axes, "block_cfg": block}
    call = {"inputs": {"input": x(3, *[5, 4, 3][:axes], 2), "condition": condition}}
    return Model(partial(getattr(library, kind), **made), call)


def residual(mixer: Any, cross: Any = OFF) -> Any:
    norms = [OFF if each is OFF else c.NORM for each in (mixer, cross)]
    return partial(library.ResidualBlock, mixer, norms[0], cross, norms[1], c.DENSE, c.NORM, partial(library.DropPath))


attention = partial(library.Attention, C, 2)
sequence_mixer = partial(library.QKVSequenceMixer, C)
cross_attention = partial(library.QKVConditionMixer, C, partial(attention, False, False))
tokens_attention = partial(library.ViT5Attention, C, 1, 2, 2, 2, qk_norm=partial(library.RMSNorm, C))
grid_hyena = partial(library.ViT5HyenaAdapter, partial(sequence_mixer, hyena(ckconv(2, film=True), 2)), 2)

VARIANTS = {
    "ResidualConnection": Model(Connected, {"x": x(3, 5, C)}),
    "Attention_formula": Model(partial(attention, True, True, True, fused=False), CASES["Attention"].call),
    "LayerNorm_formula": Model(partial(library.LayerNorm, C, fused=False), {"x": x(3, 5, C)}),
    "LayerNorm_plain": Model(partial(library.LayerNorm, C, elementwise_affine=False), {"x": x(3, 5, C)}),
    "LayerNorm_without_bias": Model(partial(library.LayerNorm, C, bias=False), {"x": x(3, 5, C)}),
    "RMSNorm_formula": Model(partial(library.RMSNorm, C, fused=False), {"x": x(3, 5, C)}),
    "MLP_started": Model(started(partial(library.MLP, C, "swiglu", OFF, bias=True)), {"x": x(3, 5, C)}),
    "Patchify_2d": Model(partial(library.Patchify, 2, C, 2, 2), {"x": x(3, 6, 4, 2)}),
    "PositionEmbedding_2d": Model(partial(library.PositionEmbedding, C, 2, [9, 8]), {"x": x(3, 5, 4, C)}),
    "Gaussian_log": Model(
        partial(library.GaussianModulation, 1, C, max_std=2.0, parametrization="log"), CASES["GaussianModulation"].call
    ),
    "FiLM_random": Model(
        partial(library.KernelFiLMGenerator, C, 3, 2, init_type="small_random"), {"conditioning": x(3, C)}
    ),
    "SIREN_film": Model(siren(film=True), {"lengths": [5], "conditioning": x(3, C)}),
    "Attention_2d": qkv(partial(library.Attention, 8, 2, True, True), 5, 4, width=8),
    "Attention_causal": qkv(partial(attention, False, False, True), 5),
    "QKV_started": Model(
        started(partial(library.QKVSequenceMixer, C, partial(attention, False, True))), {"x": x(3, 5, C)}
    ),
    "QKV_CKConv": qkv(ckconv(), 5),
    "QKV_Hyena": qkv(hyena(ckconv()), 5),
    "QKV_Hyena_causal": qkv(
        hyena(ckconv(is_causal=True), short=partial(library.CausalConv1D, 3 * C, 3 * C, 3, groups=3 * C)), 5
    ),
    "QKV_Hyena_2d": qkv(hyena(ckconv(2, "single"), 2), 5, 4),
    "QKV_Hyena_film": qkv(hyena(ckconv(film=True)), 5, conditioning=x(3, C)),
    "QKV_Hyena_mask": qkv(hyena(ckconv(mask=partial(library.GaussianModulation, 1, C))), 5),
    "QKV_Mamba": qkv(mamba(), 5),
    "QKV_Mamba_both": qkv(mamba(bidirectional=True), 5, 4),
    "CKConv_circular": Model(ckconv(1, None, "circular"), {"x": x(3, 5, C)}),
    "CKConv_exponential": Model(ckconv(mask=partial(library.ExponentialModulation, 1, C)), {"x": x(3, 5, C)}),
    "CKConv_2d_mixed": Model(ckconv(2, None, ["zero", "circular"]), {"x": x(3, 5, 4, C)}),
    "CKConv_3d": Model(ckconv(3), {"x": x(3, 5, 4, 3, C)}),
    "ViT5Attention_started": Model(
        partial(tokens_attention, init_fn_qkv_proj=nn.init.ones_, init_fn_out_proj=nn.init.normal_), {"x": x(3, 7, C)}
    ),
    "ResidualBlock_cross": Model(
        residual(partial(sequence_mixer, partial(attention, True, True)), cross_attention),
        {"x": x(3, 5, C), "condition": x(3, 2, C)},
    ),
    "ResidualBlock_Hyena": Model(
        residual(partial(sequence_mixer, hyena(ckconv()))), {"x": x(3, 5, C), "condition": None}
    ),
    "ResidualBlock_Mamba": Model(residual(partial(sequence_mixer, mamba())), {"x": x(3, 5, C), "condition": None}),
    "AdaLN_Hyena": Model(
        partial(
            library.AdaLNZeroResidualBlock,
            **(c.ADALN | {"sequence_mixer_cfg": partial(sequence_mixer, hyena(ckconv(film=True)))}),
            condition_norm_cfg=c.NORM,
            dropout_cfg=OFF,
            hidden_dim=C,
        ),
        {"x": x(3, 5, C), "condition": x(3, 2, C)},
    ),
    "ViT5_attention": vit5_block(partial(tokens_attention, has_cls=False)),
    "ViT5_hyena": vit5_block(grid_hyena),
    "ViT5Net_attention": vit5_net(vit5(tokens_attention, pooled=False)),
    "ViT5Net_gap": vit5_net(vit5(partial(tokens_attention, has_cls=False)), "gap"),
    "ViT5Net_concat": vit5_net(vit5(grid_hyena), "register_concat"),
    "ResidualNetwork_cross": with_block(residual(c.MIXER, cross_attention), condition=x(3, 2, C)),
    "ResidualNetwork_2d": with_block(residual(partial(sequence_mixer, hyena(ckconv(2), 2))), 2),
    "ResidualNetwork_Mamba": with_block(residual(partial(sequence_mixer, mamba()))),
    "Classification_2d": with_block(residual(partial(sequence_mixer, mamba())), 2, kind="ClassificationResNet"),
}
KINDS = ["mha", "gqa", "sliding_window_gqa", "mla"]
for kind in KINDS:
    for position in ("sinusoidal", "rope", "alibi", "none"):
        VARIANTS[f"Configurable_{kind}_{position}"] = configurable(attention=kind, position=position)
for ffn in ("gated", "relu2", "gated_relu2", "none"):
    VARIANTS[f"Configurable_{ffn}"] = configurable(ffn=ffn, norm="rms_norm", qk_norm=True, bias=False, pre_norm=False)
VARIANTS["Configurable_none"] = configurable(attention="none")
VARIANTS["Configurable_mla_q"] = configurable(attention="mla", q_lora_rank=3, position="alibi", rope_dim=2)
for kind in KINDS:
    VARIANTS[f"LanguageModel_{kind}"] = language_model(attention=kind, position="rope")
VARIANTS["LanguageModel_sinusoidal"] = language_model()

MODELS = {name: from_table(name) for name in CASES if is_module(name)} | VARIANTS
