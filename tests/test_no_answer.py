"""Calls that have no right answer, and would get one by broadcasting, cutting or clamping: each is an error."""

from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import (
    MLP,
    AdaLNZeroResidualBlock,
    Attention,
    BlockConfig,
    CKConv,
    ClassificationResNet,
    DropPath,
    GaussianModulation,
    GlobalResponseNorm,
    InvalidInput,
    KernelFiLMGenerator,
    LanguageModel,
    LayerNorm,
    LayerScale,
    ModelCache,
    ModelConfig,
    Patchify,
    PositionEmbedding,
    QKVConditionMixer,
    QKVSequenceMixer,
    RegisterPooling,
    ResidualBlock,
    ResidualNetwork,
    RMSNorm,
    SIRENKernel,
    ViT5Attention,
    ViT5ClassificationNet,
    ViT5HyenaAdapter,
    ViT5ResidualBlock,
)

pytestmark = pytest.mark.usefixtures("as_installed")
zeros = torch.zeros
C, OFF = 6, nn.Identity
NORM, MAP = partial(LayerNorm, C), partial(MLP, C, "relu", OFF)
ATTENTION = partial(Attention, C, 2, apply_qk_norm=False, use_rope=False)
MIXER, CROSS = partial(QKVSequenceMixer, C, ATTENTION), partial(QKVConditionMixer, C, ATTENTION)
KERNEL = partial(SIRENKernel, C, 1, 4, 2, 4, 1.0, use_bias=True)
CONV = partial(CKConv, 1, C, partial(KERNEL, L_cache=8), OFF)
WIDE = partial(nn.Linear, C, 1)
X, CONDITION = zeros(2, 5, C), zeros(2, C)


class Narrow(nn.Module):
    def forward(self, x, *, conditioning=None):
        return x[..., :1]


def block(mixer=OFF, cross=OFF, mlp=OFF):
    layers = [(layer, OFF if layer is OFF else NORM) for layer in (mixer, cross, mlp)]
    return ResidualBlock(*[part for pair in layers for part in pair], OFF)


def adaln(mixer=OFF, mlp=OFF, hidden_dim=C):
    return AdaLNZeroResidualBlock(mixer, NORM, mlp, NORM, OFF, OFF, hidden_dim)


def vit5(**changes):
    return ViT5ResidualBlock(MIXER, NORM, MAP, NORM, C, **changes)


def network(kind=ResidualNetwork, x=None, **changes):
    blocks = {"block_cfg": partial(block, mlp=MAP), "dropout_in_cfg": OFF}
    x = zeros(2, 4, 5, 3) if x is None else x
    depth = changes.pop("num_blocks", 2)
    made = kind(3, 4, depth, C, 2, nn.Linear, nn.Linear, NORM, **(blocks | changes))
    return made({"input": x, "condition": None})


def vit5_network(**changes):
    sizes = {"patch_size": 2, "image_size": 4, "num_registers": 1} | changes
    return ViT5ClassificationNet(3, 4, C, 2, block_cfg=vit5, norm_cfg=NORM, **sizes)(zeros(2, 4, 4, 3))


def decoded(length, kept):
    made = LanguageModel(ModelConfig(BlockConfig(d_model=8, n_heads=2, d_ff=12, max_seq_len=9), 7, 1))
    cache = made(torch.tensor([[1, 2, 3]]))[1]
    return made(torch.tensor([[4]]), ModelCache(length, cache.blocks if kept else (None,)))


NO_ANSWER = {
    "a norm beside a layer that is left out": lambda: ResidualBlock(OFF, NORM, OFF, OFF, OFF, OFF, OFF),
    "a condition mixer without a condition": lambda: block(cross=CROSS)(X, None),
    "a branch that broadcasts": lambda: block(mlp=WIDE)(X, None),
    "a branch that broadcasts, in AdaLN": lambda: adaln(mlp=WIDE)(X, CONDITION),
    "a mixer that broadcasts": lambda: adaln(mixer=Narrow)(X, CONDITION),
    "a hidden_dim of 1 that broadcasts": lambda: adaln(hidden_dim=1)(X, zeros(2, 1)),
    "a condition without a batch": lambda: adaln()(X, zeros(C)),
    "a condition for other samples": lambda: adaln()(zeros(3, 5, C), CONDITION),
    "the mean of no positions": lambda: adaln()(X, zeros(2, 0, C)),
    "a condition for other samples, in cross-attention": lambda: CROSS()(zeros(3, 5, C), CONDITION),
    "a negative layer scale": lambda: vit5(layer_scale_init=-0.1),
    "a negative rate": lambda: vit5(drop_path_rate=-0.1),
    "a rate above 1": lambda: DropPath(1.5),
    "registers past the end": lambda: vit5(register_pooling_cfg=partial(RegisterPooling, 4), num_registers=4)(X[:, 1:]),
    "registers of another number": lambda: RegisterPooling(4)(zeros(2, 3, C)),
    "a gain that broadcasts": lambda: LayerScale(1)(X),
    "a norm that broadcasts": lambda: RMSNorm(1)(X),
    "a response norm that broadcasts": lambda: GlobalResponseNorm(1)(X),
    "a response norm without positions": lambda: GlobalResponseNorm(3)(zeros(2, 3)),
    "no hidden features": lambda: MLP(C, "relu", OFF, expansion_factor=0.1),
    "no FiLM layers": lambda: KernelFiLMGenerator(C, 4, 0),
    "FiLM layers of another number": lambda: KERNEL(L_cache=8, film_cfg=partial(KernelFiLMGenerator, C, 4, 3)),
    "a signal shorter than a patch": lambda: Patchify(3, C, 1, 4)(zeros(2, 3, 3)),
    "positions of channels that do not divide": lambda: PositionEmbedding(8, 3, 4),
    "a signal longer than its positions": lambda: PositionEmbedding(C, 1, 4)(X),
    "heads that do not divide": lambda: Attention(C, 4, False, False),
    "tokens of another number": lambda: ViT5Attention(8, 2, 2, 2)(zeros(2, 5, 8)),
    "rows that are not full": lambda: ViT5HyenaAdapter(MIXER, 4)(zeros(2, 6, C)),
    "a circle of taps twice as long": lambda: CONV("double", "circular"),
    "a causal order in two dimensions": lambda: CKConv(
        2, C, partial(SIRENKernel, C, 2, 4, 2, 4, 1.0, 8, True), OFF, "double", "zero", is_causal=True
    ),
    "a kernel of another width": lambda: CKConv(1, 1, partial(KERNEL, L_cache=8), OFF, None, "zero"),
    "a grid of one point": lambda: KERNEL(L_cache=1),
    "a mask without spread": lambda: GaussianModulation(1, C, min_std=0.0),
    "one block for all": lambda: network(block_cfg=block(mlp=MAP)),
    "one layer in all blocks": lambda: network(block_cfg=partial(block, mlp=MAP())),
    "fewer space axes": lambda: network(x=zeros(2, 4, 3)),
    "a target longer than the output": lambda: network(target_size=5),
    "the mean of a target longer than the output": lambda: network(ClassificationResNet, target_size=5),
    "a target for the channels": lambda: network(target_size=(2, 2, 2)),
    "no blocks": lambda: network(num_blocks=0),
    "pixels that no patch covers": lambda: vit5_network(image_size=5),
    "fewer than no registers": lambda: vit5_network(num_registers=-1),
    "tokens that a negative padding cuts off": lambda: vit5_network(pad_to_multiple_of=-3),
    "an unknown readout": lambda: vit5_network(readout="mean"),
    "a cache whose length is not that of its tensors": lambda: decoded(2, kept=True),
    "a length without a cache": lambda: decoded(3, kept=False),
}


@pytest.mark.parametrize("name", NO_ANSWER)
def test_there_is_no_answer(name):
    """Refused, or an error of torch's own at the same call."""
    with pytest.raises((InvalidInput, TypeError, IndexError, RuntimeError)):
        NO_ANSWER[name]()
