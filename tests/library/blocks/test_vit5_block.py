"""The ViT-5 block beside an independent transcription in float64, in every combination of its parts, and its laws."""

from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import (
    MLP,
    CKConv,
    DropPath,
    GlobalResponseNorm,
    KernelFiLMGenerator,
    RegisterPooling,
    RMSNorm,
    SIRENKernel,
    ViT5Attention,
    ViT5ResidualBlock,
    drop_path,
)
from tests.library.helpers import TableNorm, agree, decayed, refused, rms

pytestmark = pytest.mark.usefixtures("all_as_installed")

C, R, BEFORE, TOKENS = 8, 4, 7, 11  # 2 by 3 patches and the CLS token, before registers
NORM, GRN, POOLING = partial(RMSNorm, C), partial(GlobalResponseNorm, C), partial(RegisterPooling, R)
OFF, FEED_FORWARD = nn.Identity, partial(MLP, C, "gelu", nn.Identity)
POOLED = {"register_pooling_cfg": POOLING, "num_registers": R, "register_start_idx": BEFORE}
ATTENTION = partial(ViT5Attention, C, 2, 2, 3, num_registers=R, qk_norm=partial(RMSNorm, 4))
KERNEL = partial(SIRENKernel, C, 1, 3, 2, 3, 1.0, TOKENS, True, film_cfg=partial(KernelFiLMGenerator, C, 3, 1))
FILMED = partial(CKConv, 1, C, KERNEL, OFF, "double", "zero")


class Mixer(nn.Module):
    """Mixes the tokens, and adds what it hears to each."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(C, C, bias=False)

    def forward(self, x, *, conditioning=None):
        x = self.map(x - x.mean(1, keepdim=True))
        return x if conditioning is None else x + conditioning[:, None]


def block(awake=True, mixer=Mixer, norm=NORM, mlp=FEED_FORWARD, **changes):
    made = ViT5ResidualBlock(mixer, norm, mlp, norm, C, **changes).double()
    for p in made.parameters() if awake else []:
        nn.init.normal_(p, std=0.5)
    return made


def tokens(batch=3):
    return torch.randn(batch, TOKENS, C, dtype=torch.float64, requires_grad=True)


def transcribed(x, p, coins):
    n = rms(x, p["input_norm.weight"])
    m = (n - n.sum(1, keepdim=True) / TOKENS) @ p["sequence_mixer.map.weight"].T
    if "register_pooling.logits" in p:
        weights = torch.exp(p["register_pooling.logits"])
        m = m + (sum(weights[r] * n[:, BEFORE + r] for r in range(R)) / weights.sum())[:, None]
    if "grn.gamma" in p:
        size = (m * m).sum(1, keepdim=True).sqrt()
        m = p["grn.gamma"] * m * size / (size.mean(-1, keepdim=True) + 1e-6) + p["grn.beta"] + m
    x = x + coins[0] * m * p.get("ls_attn.gamma", 1)
    m = rms(x, p["mlp_norm.weight"]) @ p["mlp.layer1.weight"].T
    m = (m * (1 + torch.erf(m / 2**0.5)) / 2) @ p["mlp.layer2.weight"].T
    return x + coins[1] * m * p.get("ls_mlp.gamma", 1)


@pytest.mark.parametrize("rate", [0.0, 0.5])
@pytest.mark.parametrize("scale", [0, 0.0, 1e-4])
@pytest.mark.parametrize("grn", [None, GRN])
@pytest.mark.parametrize("pooled", [{}, POOLED])
def test_values_and_gradients_in_float64(pooled, grn, scale, rate):
    made, x, coins = block(layer_scale_init=scale, drop_path_rate=rate, grn_cfg=grn, **pooled), tokens(6), [1.0, 1.0]
    if rate:
        made.drop_path.generator, twin = (torch.Generator().manual_seed(3) for _ in range(2))
        coins = [drop_path(torch.ones(6, 1, 1).double(), 0.5, generator=twin) for _ in range(2)]
        assert len({tuple(coin.flatten().tolist()) for coin in coins}) == 2  # two masks, neither of them trivial
    p = dict(made.named_parameters())
    agree(made(x), transcribed(x, p, coins), [x, *p.values()])
    gates = ["ls_attn", "ls_mlp"] if scale else []
    names = ["input_norm", "sequence_mixer", "mlp_norm", "mlp", *gates]
    names += [*(["grn"] if grn else []), *(["register_pooling"] if pooled else [])]
    assert list(dict.fromkeys(name.split(".")[0] for name in p)) == names  # in this order


def test_defaults_and_that_norms_are_spared_by_weight_decay():
    made = block(awake=False)
    assert made.ls_attn.gamma.tolist() == made.ls_mlp.gamma.tolist() == [torch.tensor(1e-4).item()] * C
    assert made.ls_attn is not made.ls_mlp and type(made.drop_path) is OFF
    assert (made.register_pooling, made.grn, made.num_registers, made.register_start_idx) == (None, None, 0, 1)
    plain = block(awake=False, grn_cfg=GRN)
    plain.load_state_dict(made.state_dict(), strict=False)
    x = tokens()
    assert plain(x).equal(made(x)) and 0 < (made(x) - x).abs().max() < 1e-3
    weights = ["sequence_mixer.map.weight", "mlp.layer1.weight", "mlp.layer2.weight"]
    assert decayed(block(norm=TableNorm)) == weights


@pytest.mark.parametrize("left_out", ["mixer", "mlp"])
def test_an_identity_leaves_its_branch_out(left_out):
    made, x = block(**{left_out: OFF}, grn_cfg=GRN), tokens()
    whole = block(grn_cfg=GRN)
    whole.load_state_dict(made.state_dict(), strict=False)
    nn.init.zeros_((whole.ls_attn if left_out == "mixer" else whole.ls_mlp).gamma)
    torch.testing.assert_close(made(x), whole(x), rtol=1e-13, atol=1e-13)
    both = block(mixer=OFF, mlp=OFF, **POOLED)
    assert both(x) is x and both.register_pooling is None and both.flop_count(TOKENS) == 0


@pytest.mark.parametrize("mixer, pooled", [(ATTENTION, False), (FILMED, True), (Mixer, True)])
def test_registers_are_pooled_for_a_mixer_that_may_read_them(mixer, pooled):
    made, x = block(mixer=mixer, **POOLED), tokens()
    assert (made.register_pooling is not None) == pooled
    assert made(x, torch.full((3, C), torch.nan)).equal(made(x))  # the condition is for other blocks
    for changes in ({"num_registers": 0}, {"register_pooling_cfg": None}):
        if mixer is not FILMED:
            assert block(mixer=mixer, **(POOLED | changes)).register_pooling is None


def test_the_cost_of_pooled_registers_and_what_is_saved_at_inference():
    """Its other costs, beside torch's counter: those of the whole network."""
    pooled = block(mixer=Mixer, **POOLED, grn_cfg=GRN)
    assert pooled.flop_count(5) - block().flop_count(5) == 3 * R + 2 * R * C + 6 * 5 * C
    made = block(mixer=partial(CKConv, 1, C, partial(KERNEL, film_cfg=None), OFF, "double", "zero"))
    costs = [
        [each.flop_count(TOKENS, inference) for inference in (False, True)] for each in (made, made.sequence_mixer)
    ]
    assert costs[0][0] - costs[0][1] == costs[1][0] - costs[1][1] > 0


NARROW = partial(nn.AdaptiveAvgPool2d, (1, C))
LATE = POOLED | {"register_start_idx": 8, "register_pooling_cfg": NARROW}


test_what_is_refused = refused(
    (lambda: block(drop_path_rate=-0.1), "drop_prob must "),
    (lambda: block(num_registers=-1), "num_registers must be a whole number, at least 0, got -1"),
    (lambda: block(register_start_idx=-1), "register_start_idx must be a whole number, at least 0, got -1"),
    (lambda: block(mixer=FILMED), "sequence_mixer_cfg must have no film_cfg, since it gets no condition"),
    (lambda: block(**LATE)(tokens()), "registers 8 to 11 must lie inside the sequence, got 11 tokens"),
    (lambda: block()(tokens()[None]), "x must be floating point of shape (batch, tokens, 8)"),
    (lambda: block(mixer=NARROW)(tokens()), "a branch must "),
)


def test_the_standard_block_spelled_out():
    spelled = block(mixer=ATTENTION, mlp=partial(FEED_FORWARD, expansion_factor=4))
    short = ViT5ResidualBlock.standard(C, 2, num_patches_h=2, num_patches_w=3, drop_path_rate=0.3).double()
    short.load_state_dict(spelled.state_dict())
    assert isinstance(short.drop_path, DropPath) and short.drop_path.drop_prob == 0.3
    assert short.eval()(x := tokens()).equal(spelled(x))
