"""The ViT-5 block's laws: what is left out, what a gate does to a gradient, who hears the registers, what it costs."""

import re
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import (
    MLP,
    CKConv,
    DropPath,
    GlobalResponseNorm,
    InvalidInput,
    KernelFiLMGenerator,
    LayerScale,
    RegisterPooling,
    RMSNorm,
    SIRENKernel,
    ViT5Attention,
    ViT5ResidualBlock,
)

pytestmark = pytest.mark.usefixtures("as_installed")

C, R, BEFORE, TOKENS = 8, 4, 7, 11
NORM, GRN, POOLING = partial(RMSNorm, C), partial(GlobalResponseNorm, C), partial(RegisterPooling, R)


class Listener(nn.Module):
    """Keeps what it hears."""

    def forward(self, x, *, conditioning="not asked"):
        self.x, self.conditioning = x, conditioning
        return x


class Hearing(ViT5Attention):
    """Attention that adds what it hears to each token."""

    def forward(self, x, *, conditioning):
        return super().forward(x + conditioning[:, None])


ATTENTION = {"hidden_dim": C, "num_heads": 2, "num_patches_h": 2, "num_patches_w": 3, "num_registers": R}
ATTENTION |= {"qk_norm": partial(RMSNorm, 4)}
HEARING = partial(Hearing, **ATTENTION)
POOLED = {"sequence_mixer_cfg": HEARING, "register_pooling_cfg": POOLING, "num_registers": R}
POOLED |= {"register_start_idx": BEFORE}
FILM = partial(KernelFiLMGenerator, C, 3, 1)
KERNEL = partial(SIRENKernel, C, 1, 3, 2, 3, 1.0, TOKENS, True, film_cfg=FILM)
FILMED = partial(CKConv, 1, C, KERNEL, nn.Identity, "double", "zero")


def block(awake=True, **changes):
    parts = {
        "sequence_mixer_cfg": partial(ViT5Attention, **ATTENTION),
        "sequence_mixer_norm_cfg": NORM,
        "mlp_cfg": partial(MLP, C, "gelu", nn.Identity),
        "mlp_norm_cfg": NORM,
        "hidden_dim": C,
    }
    torch.manual_seed(1)
    made = ViT5ResidualBlock(**(parts | changes)).double()
    for p in made.parameters() if awake else []:
        nn.init.normal_(p, std=0.5)
    return made


def tokens(batch=3):
    return torch.randn(batch, TOKENS, C, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_attributes_and_state_dict_keys_in_order():
    made = block(True, **POOLED, grn_cfg=GRN)
    prefixes = dict.fromkeys(key.split(".")[0] for key in made.state_dict())
    expected = ["input_norm", "sequence_mixer", "mlp_norm", "mlp", "ls_attn", "ls_mlp", "grn", "register_pooling"]
    assert list(prefixes) == expected
    assert "drop_path" in dict(made.named_children()) and (made.num_registers, made.register_start_idx) == (R, BEFORE)
    assert made.input_norm._no_weight_decay and made.mlp_norm._no_weight_decay
    plain = block()
    assert (plain.register_pooling, plain.grn, plain.num_registers, plain.register_start_idx) == (None, None, 0, 1)


@pytest.mark.parametrize("start, kind", [(0, nn.Identity), (0.0, nn.Identity), (1e-4, LayerScale), (1, LayerScale)])
def test_a_start_of_0_leaves_layer_scale_out(start, kind):
    made = block(awake=False, layer_scale_init=start)
    assert type(made.ls_attn) is type(made.ls_mlp) is kind
    assert kind is nn.Identity or made.ls_attn.gamma.unique().item() == torch.tensor(start, dtype=torch.float32).item()


@pytest.mark.parametrize("rate, kind", [(0.0, nn.Identity), (0.3, DropPath)])
def test_a_rate_of_0_leaves_drop_path_out(rate, kind):
    made = block(drop_path_rate=rate)
    assert type(made.drop_path) is kind and getattr(made.drop_path, "drop_prob", 0.0) == rate


@pytest.mark.parametrize("left_out", ["sequence_mixer", "mlp"])
def test_an_identity_leaves_its_branch_out(left_out):
    made, x = block(**{f"{left_out}_cfg": nn.Identity}, grn_cfg=GRN), tokens()
    whole = block(grn_cfg=GRN)
    whole.load_state_dict(made.state_dict(), strict=False)
    with torch.no_grad():
        (whole.ls_attn if left_out == "sequence_mixer" else whole.ls_mlp).gamma.zero_()
    torch.testing.assert_close(made(x), whole(x), rtol=1e-13, atol=1e-13)


def test_two_identities_return_the_very_same_tensor_and_pool_nothing():
    made = block(sequence_mixer_cfg=nn.Identity, mlp_cfg=nn.Identity, register_pooling_cfg=POOLING, num_registers=R)
    assert made(x := tokens()) is x and made.register_pooling is None and made.flop_count(TOKENS) == 0


def test_at_1e_4_the_block_is_the_identity_to_1e_3_and_its_branches_hear_a_ten_thousandth():
    x, g = tokens(), torch.randn(3, TOKENS, C).double()
    small = block(awake=False)
    assert 0 < (small(x) - x).abs().max() < 1e-3
    near, full = block(awake=False, layer_scale_init=2.0**-13), block(awake=False, layer_scale_init=1.0)
    for made in (near, full):  # one branch alone, so that both hear the same gradient from above
        made.mlp = nn.Identity()
    pairs = [torch.autograd.grad(made(x), [*made.sequence_mixer.parameters()], g) for made in (near, full)]
    assert all(a.equal(b * 2.0**-13) for a, b in zip(*pairs, strict=True))


def test_one_module_flips_two_independent_coins():
    made, x = block(drop_path_rate=0.5), tokens(1).expand(2000, -1, -1)
    ways, counts = made(x).flatten(1).unique(dim=0, return_counts=True)
    assert len(ways) == 4 and (counts > 400).all()  # 500 each; four standard deviations are 77
    assert len(made.eval()(x).flatten(1).unique(dim=0)) == 1


def test_grn_is_the_identity_at_its_start():
    x, made = tokens(), block(awake=False, grn_cfg=GRN)
    plain = block(awake=False)
    plain.load_state_dict(made.state_dict(), strict=False)
    torch.testing.assert_close(made(x), plain(x), rtol=0, atol=0)


def test_the_mixer_hears_the_pooled_normalised_registers():
    made = block(sequence_mixer_cfg=Listener, register_pooling_cfg=POOLING, num_registers=R, register_start_idx=BEFORE)
    made(x := tokens())
    normed = made.input_norm(x)
    weights = made.register_pooling.logits.softmax(0)
    assert made.sequence_mixer.x.equal(normed)
    torch.testing.assert_close(made.sequence_mixer.conditioning, torch.einsum("r,brc->bc", weights, normed[:, BEFORE:]))


@pytest.mark.parametrize("changes", [{"num_registers": R}, {"register_pooling_cfg": POOLING}])
def test_without_pooling_or_without_registers_the_mixer_is_not_asked(changes):
    made = block(sequence_mixer_cfg=Listener, **changes)
    made(tokens())
    assert made.sequence_mixer.conditioning == "not asked" and made.register_pooling is None


def test_the_condition_is_never_looked_at():
    made, x = block(), tokens()
    assert made(x, torch.full((3, C), torch.nan)).equal(made(x)) and made(x, "anything").equal(made(x, None))


class Costly(nn.Module):
    def __init__(self, price):
        super().__init__()
        self.price = price

    def forward(self, x, *, conditioning=None):
        return x

    def flop_count(self, shape, inference=False):
        return (2 if inference else 1) * self.price * shape


def test_cost_is_the_sum_of_the_parts_and_0_for_those_that_do_not_know():
    made = block(
        sequence_mixer_cfg=Costly(1), sequence_mixer_norm_cfg=Costly(10), mlp_cfg=Costly(100), mlp_norm_cfg=Costly(1000)
    )
    scales = 2 * 5 * C
    assert made.flop_count(5) == 5 * 1111 + scales and made.flop_count(5, inference=True) == 10 * 1111 + scales
    made = block(sequence_mixer_cfg=Listener, mlp_norm_cfg=nn.Identity, mlp_cfg=nn.LeakyReLU)
    assert made.flop_count(5) == 3 * 5 * C + 2 * 5 * C  # the norm and both scales
    pooled = block(sequence_mixer_cfg=Listener, register_pooling_cfg=POOLING, num_registers=R, grn_cfg=GRN)
    assert pooled.flop_count(5) - block(sequence_mixer_cfg=Listener).flop_count(5) == 3 * R + 2 * R * C + 6 * 5 * C


def test_cost_agrees_with_torchs_counter():
    made = block(True, **POOLED, grn_cfg=GRN)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # it cannot see into the fast one
        made(tokens(1))
    per_number = 3 + 3 + 1 + 1 + 6 + 6 + 6 + 2  # two norms, two scales, grn, qk-norms, two rotations, GELU of 2 C
    assert made.flop_count(TOKENS) == counter.get_total_flops() + per_number * TOKENS * C + 3 * R + 2 * R * C


def run(*shape, **changes):
    return block(**changes)(torch.zeros(shape).double())


def pooled(start, pooling=POOLING):
    return run(3, TOKENS, C, **POOLED | {"register_pooling_cfg": pooling, "register_start_idx": start})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: block(drop_path_rate=-0.1), "drop_prob must "),
        (lambda: block(drop_path_rate=1.0), "drop_prob must "),
        (lambda: block(num_registers=-1), "num_registers must be a whole number, at least 0, got -1"),
        (lambda: block(register_start_idx=-1), "register_start_idx must be a whole number, at least 0, got -1"),
        (lambda: block(sequence_mixer_cfg=FILMED), "sequence_mixer_cfg must have no film_cfg, since it gets no cond"),
        (lambda: pooled(8), "registers 8 to 11 must lie inside the sequence, got 11 tokens"),
        (lambda: pooled(200), "registers 200 to 203 must lie inside the sequence, got 11 tokens"),
        (lambda: pooled(11, partial(nn.AdaptiveAvgPool2d, (1, C))), "registers 11 to 14 must lie inside the sequence"),
        (lambda: run(3, TOKENS, 1), "x must be floating point of shape (batch, tokens, 8)"),
        (lambda: run(3, 2, 4, C), "x must be floating point of shape (batch, tokens, 8)"),
        (lambda: run(3, TOKENS, C, sequence_mixer_cfg=partial(nn.AdaptiveAvgPool2d, (1, C))), "a branch must "),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()


def test_the_standard_block_spelled_out():
    spelled = ViT5ResidualBlock(
        sequence_mixer_cfg=partial(ViT5Attention, C, 2, 2, 3, num_registers=4, qk_norm=partial(RMSNorm, 4)),
        sequence_mixer_norm_cfg=NORM,
        mlp_cfg=partial(MLP, C, "gelu", nn.Identity, expansion_factor=4),
        mlp_norm_cfg=NORM,
        hidden_dim=C,
    )
    short = ViT5ResidualBlock.standard(C, 2, num_patches_h=2, num_patches_w=3)
    for p in spelled.parameters():
        nn.init.normal_(p, std=0.5)
    short.load_state_dict(spelled.state_dict())
    x = torch.randn(2, TOKENS, C)
    assert short(x).equal(spelled(x))
    assert ViT5ResidualBlock.standard(C, 2, 2, 3, drop_path_rate=0.3).drop_path.drop_prob == 0.3
