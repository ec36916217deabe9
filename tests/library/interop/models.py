"""A few configurations, small, and a right call of each: what the tests of torch's tools run.

``MODELS`` are the classes of the fuzzer's table, where every public name has a case, and ``NETWORKS``: the ways to
build blocks and networks that run other code (axes, directions, conditions, positions, caches).
"""

import copy
from collections.abc import Callable
from functools import partial
from inspect import isclass
from typing import Any, NamedTuple

import torch
from torch import nn

import residual_edu as library
from residual_edu import BlockConfig, ConfigurableBlock, LanguageModel, ModelConfig
from tests.library.fuzzing import cases as c
from tests.library.fuzzing.cases import OFF, C, x
from tests.library.fuzzing.table import CASES


class Model(NamedTuple):
    """``build`` makes the module; ``call`` are the arguments of its call."""

    build: Callable[[], nn.Module]
    call: dict[str, Any]

    def made(self) -> nn.Module:
        """Build it in evaluation mode, from seed 0."""
        torch.manual_seed(0)
        return self.build().eval()

    def woken(self) -> nn.Module:
        """The same with random numbers for all weights that start at 0, so that every branch is at work."""
        model = self.made()
        for weight in model.parameters():
            if not weight.any():
                nn.init.normal_(weight, std=0.3)
        return model

    def inputs(self) -> dict[str, Any]:
        return copy.deepcopy(self.call)


def from_table(name: str) -> Model:
    case = CASES[name]
    return Model(partial(getattr(library, name), **case.made), case.call)


def is_module(name: str) -> bool:
    kind, case = getattr(library, name), CASES[name]
    module = isclass(kind) and issubclass(kind, nn.Module) and case.method == "forward"
    return module and bool(case.call) and name != "ResidualConnection"  # which takes a module at each call


SIZES = {"d_model": 8, "n_heads": 2, "n_kv_heads": 1, "d_ff": 6, "max_seq_len": 20, "window_size": 3}
SIZES |= {"kv_lora_rank": 3, "rope_dim": 2, "norm": "rms_norm", "ffn": "gated"}
MASK = torch.ones(3, 5, 5, dtype=torch.bool).tril()


def configurable(kind: str, position: str, **changes: Any) -> Model:
    config = BlockConfig(**(SIZES | {"attention": kind, "position": position} | changes))
    return Model(partial(ConfigurableBlock, config), {"x": x(3, 5, 8), "mask": MASK})


def language_model(kind: str, position: str) -> Model:
    config = ModelConfig(BlockConfig(**(SIZES | {"attention": kind, "position": position})), vocab_size=7, n_layers=2)
    return Model(partial(LanguageModel, config), {"tokens": torch.tensor([[0, 3, 2, 4, 5], [1, 1, 6, 0, 2]])})


attention = partial(library.Attention, C, 2, True, True)
qkv = partial(library.QKVSequenceMixer, C)
cross = partial(library.QKVConditionMixer, C, partial(library.Attention, C, 2, False, False))
mamba = partial(library.Mamba, partial(library.MambaLayer, C, 3, headdim=4, chunk_size=2), bidirectional=True)
tokens = partial(library.ViT5Attention, C, 1, 2, 2, 2, qk_norm=partial(library.RMSNorm, C))


def hyena(axes: int, film: bool = False, padding: str = "zero") -> Any:
    film_cfg = partial(library.KernelFiLMGenerator, C, 5, 2, 6, init_type="small_random") if film else None
    kernel = partial(library.SIRENKernel, C, axes, 5, 3, 4, 1.0, 6, True, film_cfg=film_cfg)
    mask = partial(library.GaussianModulation, axes, C)
    conv = partial(library.CKConv, axes, C, kernel, mask, "double" if padding == "zero" else None, padding)
    short = partial(getattr(nn, f"Conv{axes}d"), 3 * C, 3 * C, 3, padding=1, groups=3 * C)
    return partial(qkv, partial(library.Hyena, conv, short, nn.SiLU, OFF, c.NORM, OFF))


def residual(mixer: Any, cross: Any = OFF) -> Any:
    norm = OFF if cross is OFF else c.NORM
    return partial(library.ResidualBlock, mixer, c.NORM, cross, norm, c.DENSE, c.NORM, partial(library.DropPath, 0.1))


def vit5(mixer: Any, pooled: bool = False) -> Any:
    pooling = partial(library.RegisterPooling, 2) if pooled else None
    norm, dense = partial(library.RMSNorm, C), partial(library.MLP, C, "swiglu", OFF)
    made = partial(library.ViT5ResidualBlock, mixer, norm, dense, norm, C, 0.1, register_pooling_cfg=pooling)
    return partial(made, grn_cfg=partial(library.GlobalResponseNorm, C))


def vit5_net(block: Any, readout: str = "cls") -> Model:
    """Images of 2 x 2 patches of 2 x 2 pixels and 2 registers."""
    sizes = {"in_channels": 2, "num_classes": 3, "hidden_dim": C, "num_blocks": 2, "patch_size": 2, "image_size": 4}
    make = partial(library.ViT5ClassificationNet, **sizes, num_registers=2, block_cfg=block, norm_cfg=c.NORM)
    return Model(partial(make, readout=readout), {"images": x(3, 4, 4, 2)})


def network(block: Any, axes: int, condition: Any = None, kind: str = "ResidualNetwork") -> Model:
    made = c.network() | {"data_dim": axes, "block_cfg": block}
    call = {"inputs": {"input": x(3, *[5, 4][:axes], 2), "condition": condition}}
    return Model(partial(getattr(library, kind), **made), call)


def adaln(mixer: Any) -> Model:
    parts = {"condition_norm_cfg": c.NORM, "dropout_cfg": OFF, "hidden_dim": C, "sequence_mixer_cfg": mixer}
    return Model(
        partial(library.AdaLNZeroResidualBlock, **(c.ADALN | parts)), {"x": x(3, 5, C), "condition": x(3, 2, C)}
    )


NETWORKS = {
    "ResidualNetwork_cross": network(residual(partial(qkv, attention), cross), 1, x(3, 2, C)),
    "ResidualNetwork_Hyena_2d": network(residual(hyena(2)), 2),
    "Classification_Mamba_2d": network(residual(partial(qkv, mamba)), 2, kind="ClassificationResNet"),
    "Hyena_circular": Model(hyena(1, padding="circular"), {"x": x(3, 5, C)}),
    "AdaLN_Hyena": adaln(hyena(1, film=True)),
    "ViT5Net_attention": vit5_net(vit5(tokens)),
    "ViT5Net_Hyena": vit5_net(
        vit5(partial(library.ViT5HyenaAdapter, hyena(2, film=True), 2), pooled=True), "register_concat"
    ),
    "Configurable_mla_alibi": configurable("mla", "alibi", q_lora_rank=3, qk_norm=True, pre_norm=False),
    "Configurable_window": configurable("sliding_window_gqa", "rope", bias=False),
    "LanguageModel_gqa_rope": language_model("gqa", "rope"),
    "LanguageModel_mla": language_model("mla", "none"),
    "LanguageModel_sinusoidal": language_model("mha", "sinusoidal"),
    "Denoiser": from_table("Denoiser"),
}
MODELS = {name: from_table(name) for name in CASES if is_module(name)} | NETWORKS
