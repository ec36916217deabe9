"""Where the pages say "not checked" or let an operation of torch fail deep inside: refused here, with the numbers.

Each row: what is asked for, and the words that the refusal must hold. Whole messages are matched in each class's tests.
"""

from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import (
    MLP,
    AdaLNZeroResidualBlock,
    Attention,
    CausalConv1D,
    CKConv,
    ClassificationResNet,
    DropPath,
    GaussianModulation,
    GlobalResponseNorm,
    Hyena,
    InvalidInput,
    KernelFiLMGenerator,
    LayerNorm,
    LayerScale,
    LazyConfig,
    Patchify,
    PerHeadRMSNorm,
    PositionEmbedding,
    QKVConditionMixer,
    QKVSequenceMixer,
    RegisterPooling,
    ResidualBlock,
    ResidualNetwork,
    RMSNorm,
    SIRENKernel,
    Unpatchify,
    ViT5Attention,
    ViT5ResidualBlock,
)

pytestmark = pytest.mark.usefixtures("as_installed")

C, OFF = 6, nn.Identity
NORM, MAP = partial(LayerNorm, C), partial(MLP, C, "relu", OFF)
ATTENTION = partial(Attention, C, 2, apply_qk_norm=False, use_rope=False)
CROSS = partial(QKVConditionMixer, C, ATTENTION)
KERNEL = partial(SIRENKernel, C, 1, 4, 2, 4, 1.0, use_bias=True)
CONV = partial(CKConv, 1, C, partial(KERNEL, L_cache=8), OFF)
zeros = torch.zeros


class Narrow(nn.Module):
    """Returns one channel, whatever came."""

    def forward(self, x, *, conditioning=None):
        return x[..., :1]


def block(mixer=OFF, cross=OFF, mlp=OFF):
    return ResidualBlock(
        *[part for layer in (mixer, cross, mlp) for part in (layer, OFF if layer is OFF else NORM)], OFF
    )


def adaln(mixer=OFF, mlp=OFF, hidden_dim=C):
    return AdaLNZeroResidualBlock(mixer, NORM, mlp, NORM, OFF, OFF, hidden_dim)


def vit5(**changes):
    return ViT5ResidualBlock(partial(QKVSequenceMixer, C, ATTENTION), NORM, MAP, NORM, C, **changes)


def network(kind=ResidualNetwork, **changes):
    blocks = {"block_cfg": partial(block, mlp=MAP), "dropout_in_cfg": OFF}
    return kind(3, 4, 2, C, 2, nn.Linear, nn.Linear, NORM, **(blocks | changes))


def fed(**changes):
    return {"input": zeros(2, 4, 5, 3), "condition": None} | changes


PLACES = {
    "block: a norm beside a layer that is left out": (
        lambda: ResidualBlock(OFF, NORM, OFF, OFF, OFF, OFF, OFF),
        "sequence_mixer_norm_cfg Identity LayerNorm",
    ),
    "block: no condition": (lambda: block(cross=CROSS)(zeros(2, 5, C), None), "condition None"),
    "block: channels": (lambda: block(mlp=MAP)(zeros(2, 5, 4), None), "6 (2, 5, 4)"),
    "block: a branch that would broadcast": (
        lambda: block(mlp=partial(nn.Linear, C, 1))(zeros(2, 5, C), None),
        "(2, 5, 6) (2, 5, 1)",
    ),
    "block: a bare mixer of three signals": (lambda: block(mixer=ATTENTION), "sequence_mixer (query, key, value"),
    "adaln: no condition": (lambda: adaln()(zeros(2, 5, C), None), "condition None"),
    "adaln: the condition's width": (lambda: adaln()(zeros(2, 5, C), zeros(2, 4)), "condition 6 (2, 4)"),
    "adaln: a condition without a batch": (lambda: adaln()(zeros(2, 5, C), zeros(C)), "condition (6,)"),
    "adaln: samples": (lambda: adaln()(zeros(3, 5, C), zeros(2, C)), "condition 3 (2, 6)"),
    "adaln: hidden_dim is not the channels": (
        lambda: adaln(hidden_dim=8)(zeros(2, 5, C), zeros(2, 8)),
        "x 8 (2, 5, 6)",
    ),
    "adaln: hidden_dim 1 by broadcasting": (
        lambda: adaln(hidden_dim=1)(zeros(2, 5, C), zeros(2, 1)),
        "x 1 (2, 5, 6)",
    ),
    "adaln: a mixer without conditioning=": (lambda: adaln(mixer=partial(nn.Linear, C, C)), "conditioning Linear"),
    "adaln: a bare mixer of three signals": (lambda: adaln(mixer=ATTENTION), "sequence_mixer (query, key, value"),
    "adaln: a branch that would broadcast": (
        lambda: adaln(mlp=partial(nn.Linear, C, 1))(zeros(2, 5, C), zeros(2, C)),
        "(2, 5, 6) (2, 5, 1)",
    ),
    "adaln: a mixer that would broadcast": (
        lambda: adaln(mixer=Narrow)(zeros(2, 5, C), zeros(2, C)),
        "(2, 5, 6) (2, 5, 1)",
    ),
    "adaln: an mlp of three signals": (lambda: adaln(mlp=ATTENTION), "mlp (x) (query, key, value"),
    "adaln: a condition without positions": (lambda: adaln()(zeros(2, 5, C), zeros(2, 0, C)), "condition 1 (2, 0, 6)"),
    "adaln: parts of another width": (
        lambda: adaln(mlp=partial(MLP, 8, "relu", OFF))(zeros(2, 5, C), zeros(2, C)),
        "8 (2, 5, 6)",
    ),
    "vit5: a negative layer scale": (lambda: vit5(layer_scale_init=-0.1), "layer_scale_init -0.1"),
    "vit5: a negative rate": (lambda: vit5(drop_path_rate=-0.1), "drop_path_rate [0, 1) -0.1"),
    "vit5: registers past the end": (
        lambda: vit5(register_pooling_cfg=partial(RegisterPooling, 4), num_registers=4)(zeros(2, 4, C)),
        "4 1",
    ),
    "DropPath: a rate above 1": (lambda: DropPath(1.5), "drop_prob [0, 1) 1.5"),
    "LayerScale: another width": (lambda: LayerScale(1)(zeros(2, 3)), "1 (2, 3)"),
    "RMSNorm: width 1 by broadcasting": (lambda: RMSNorm(1)(zeros(2, 3)), "1 (2, 3)"),
    "PerHeadRMSNorm: another width": (lambda: PerHeadRMSNorm(2, 3)(zeros(2, 3)), "6 (2, 3)"),
    "GlobalResponseNorm: width 1 by broadcasting": (lambda: GlobalResponseNorm(1)(zeros(2, 4, 3)), "1 (2, 4, 3)"),
    "GlobalResponseNorm: no positions": (lambda: GlobalResponseNorm(3)(zeros(2, 3)), "positions (2, 3)"),
    "MLP: an unknown activation": (lambda: MLP(C, "gleu", OFF), "activation 'gleu' 'gelu'"),
    "MLP: no hidden features": (lambda: MLP(C, "relu", OFF, expansion_factor=0.1), "at least 1 0"),
    "RegisterPooling: another number": (lambda: RegisterPooling(4)(zeros(2, 3, C)), "4 (2, 3, 6)"),
    "FiLM: another width": (lambda: KernelFiLMGenerator(C, 4, 1)(zeros(2, 5)), "conditioning 6 (2, 5)"),
    "FiLM: no layers": (lambda: KernelFiLMGenerator(C, 4, 0), "num_film_layers 1 0"),
    "FiLM: an unknown start": (lambda: KernelFiLMGenerator(C, 4, 1, init_type="zero"), "init_type 'zero' 'identity'"),
    "Patchify: four axes": (lambda: Patchify(3, C, 4, 2), "data_dim 1, 2 or 3 4"),
    "Patchify: a signal shorter than a patch": (lambda: Patchify(3, C, 1, 4)(zeros(2, 3, 3)), "(3,) (4,)"),
    "Unpatchify: another rank": (lambda: Unpatchify(C, 3, 2, 4)(zeros(2, 3, C)), "height, width, 6 (2, 3, 6)"),
    "positions: channels that do not divide": (lambda: PositionEmbedding(8, 3, 4), "embedding_dim 3 8"),
    "positions: a signal too long": (lambda: PositionEmbedding(C, 1, 4)(zeros(2, 5, C)), "(4,) (5,)"),
    "Attention: heads that do not divide": (lambda: Attention(C, 4, False, False), "hidden_dim 4 6"),
    "Attention: no rotation for three axes": (
        lambda: QKVSequenceMixer(C, partial(Attention, C, 3, False, True))(zeros(2, 2, 2, 2, C)),
        "head_dim 6 2",
    ),
    "Attention: no space": (lambda: ATTENTION()(*[zeros(2, C)] * 3), "query (2, 6)"),
    "ViT5Attention: features of a head": (lambda: ViT5Attention(C, 1, 2, 2), "4 6"),
    "ViT5Attention: another number of tokens": (lambda: ViT5Attention(8, 2, 2, 2)(zeros(2, 5, 8)), "9 (2, 5, 8)"),
    "Hyena: what is no short convolution": (
        lambda: Hyena(partial(CONV, "double", "zero"), nn.ReLU, OFF, OFF, OFF),
        "ReLU",
    ),
    "Hyena: signals that differ": (
        lambda: Hyena(partial(CONV, "double", "zero"), OFF, OFF, OFF, OFF)(
            zeros(2, 5, C), zeros(2, 4, C), zeros(2, 5, C)
        ),
        "key (2, 5, 6) (2, 4, 6)",
    ),
    "CausalConv1D: groups that do not divide": (lambda: CausalConv1D(C, C, 3, groups=4), "in_channels 4 6"),
    "CKConv: a padding": (lambda: CONV("double", "zeros"), "fft_padding 'zeros' 'zero'"),
    "CKConv: paddings": (lambda: CONV("double", ["zero", "zero"]), "fft_padding 1 ['zero', 'zero']"),
    "CKConv: a grid": (lambda: CONV("triple", "zero"), "grid_type 'triple'"),
    "CKConv: a circle twice as long": (lambda: CONV("double", "circular"), "grid_type circular 'single'"),
    "CKConv: causal in two dimensions": (
        lambda: CKConv(2, C, partial(SIRENKernel, C, 2, 4, 2, 4, 1.0, 8, True), OFF, "double", "zero", is_causal=True),
        "is_causal 1 2",
    ),
    "CKConv: another shape": (lambda: CONV("double", "zero")(zeros(2, 5, 4)), "x 6 (2, 5, 4)"),
    "CKConv: a kernel of another width": (lambda: CKConv(1, 8, partial(KERNEL, L_cache=8), OFF, None, "zero"), "8 6"),
    "SIREN: a length below 2": (lambda: KERNEL(L_cache=1), "L_cache 2 1"),
    "SIREN: lengths for other axes": (lambda: KERNEL(L_cache=[8, 8]), "L_cache 1 [8, 8]"),
    "SIREN: one layer": (lambda: SIRENKernel(C, 1, 4, 1, 4, 1.0, 8, True), "num_layers 2 1"),
    "SIREN: film on a first layer of another width": (
        lambda: SIRENKernel(C, 1, 4, 2, 5, 1.0, 8, True, film_after_pos_embed=True),
        "embedding_dim 4 5",
    ),
    "SIREN: another number of film layers": (
        lambda: KERNEL(L_cache=8, film_cfg=partial(KernelFiLMGenerator, C, 4, 3)),
        "num_film_layers 1 3",
    ),
    "mask: no spread": (lambda: GaussianModulation(1, C, min_std=0.0), "min_std 0.0"),
    "network: a key that is missing": (lambda: network()({"input": zeros(2, 4, 5, 3)}), "'input', 'condition' 'input'"),
    "network: a condition that is missing": (lambda: network(condition_in_proj_cfg=nn.Linear)(fed()), "condition None"),
    "network: channels": (lambda: network()(fed(input=zeros(2, 4, 5, 2))), "input 3 (2, 4, 5, 2)"),
    "network: axes": (lambda: network()(fed(input=zeros(2, 4, 3))), "input height, width, 3 (2, 4, 3)"),
    "network: one block for all": (lambda: network(block_cfg=block(mlp=MAP)), "block_cfg ResidualBlock weights"),
    "network: a target too large": (lambda: network(target_size=5)(fed()), "target_size (4, 5) (5, 5)"),
    "classifier: a target too large": (lambda: network(ClassificationResNet, target_size=5)(fed()), "(4, 5) (5, 5)"),
    "config: a typo": (lambda: LazyConfig(LayerNorm)(dmi=C), "'dmi' dim"),
}


@pytest.mark.parametrize("place", PLACES)
def test_it_is_refused_with_the_numbers(place):
    ask, words = PLACES[place]
    with pytest.raises(InvalidInput) as refusal:
        ask()
    message = str(refusal.value)
    assert [word for word in words.split() if word not in message] == []
