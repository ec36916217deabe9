from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import (
    MLP,
    AdaLNZeroResidualBlock,
    Attention,
    DropPath,
    LayerNorm,
    QKVSequenceMixer,
    SimpleFeedForward,
)
from tests.library.helpers import TableNorm, agree, decayed, normed, refused

pytestmark = pytest.mark.usefixtures("all_as_installed")

C, OFF = 6, nn.Identity
NORM = partial(LayerNorm, C)
X = torch.zeros(3, 5, C).double()


class Mixer(nn.Module):
    """Mixes the positions of any number of axes, and listens to its own condition."""

    def __init__(self, dim=C):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.film = nn.Linear(dim, dim)

    def forward(self, x, *, conditioning=None):
        film = self.film(conditioning).view(len(conditioning), *[1] * (x.ndim - 2), -1)
        space = tuple(range(1, x.ndim - 1))
        return self.inner(x - x.mean(space, keepdim=True) if space else x) * film


def block(awake=True, norm=NORM, **changes):
    parts = {
        "sequence_mixer_cfg": Mixer,
        "sequence_mixer_norm_cfg": norm,
        "mlp_cfg": partial(SimpleFeedForward, C, 2 * C),
        "mlp_norm_cfg": norm,
        "condition_norm_cfg": norm,
        "dropout_cfg": OFF,
        "hidden_dim": C,
    }
    made = AdaLNZeroResidualBlock(**(parts | changes)).double()
    for p in made.parameters() if awake else []:
        nn.init.normal_(p, std=0.5)
    return made


def transcribed(x, c, p):
    """The block's equations on (batch, positions, channels), one channel block of the projection after another."""
    shape, x = x.shape, x.reshape(len(x), -1, C)
    c = normed(c.reshape(len(c), -1, C).mean(1), p, "condition_norm")
    six = (c / (1 + torch.exp(-c))) @ p["condition_proj.1.weight"].T + p["condition_proj.1.bias"]
    shift_s, scale_s, gate_s, shift_m, scale_m, gate_m = (six[:, None, i * C : (i + 1) * C] for i in range(6))
    h = normed(x, p, "sequence_norm") * (1 + scale_s) + shift_s
    if len(shape) > 2:
        h = h - h.mean(1, keepdim=True)
    film = (c @ p["sequence_mixer.film.weight"].T + p["sequence_mixer.film.bias"])[:, None]
    x = x + gate_s * ((h @ p["sequence_mixer.inner.weight"].T + p["sequence_mixer.inner.bias"]) * film)
    h = normed(x, p, "mlp_norm") * (1 + scale_m) + shift_m
    h = (h @ p["mlp.linear1.weight"].T + p["mlp.linear1.bias"]).clamp(min=0)
    return (x + gate_m * (h @ p["mlp.linear2.weight"].T + p["mlp.linear2.bias"])).view(shape)


@pytest.mark.parametrize("samples", [3, 1])  # of the condition: one may serve every sample
@pytest.mark.parametrize("elsewhere", [(), (2, 3)])
@pytest.mark.parametrize("space", [(), (5,), (2, 1, 3)])
def test_values_and_gradients_in_float64(space, elsewhere, samples):
    made = block()
    x = torch.randn(3, *space, C, dtype=torch.float64, requires_grad=True)
    c = torch.randn(samples, *elsewhere, C, dtype=torch.float64, requires_grad=True)
    agree(made(x, c), transcribed(x, c, dict(made.named_parameters())), [x, c, *made.parameters()], 1e-11)


def test_state_dict_keys_in_order_and_norms_are_spared_by_weight_decay():
    expected = ["sequence_mixer", "sequence_norm", "mlp", "mlp_norm", "condition_norm", "condition_proj"]
    assert list(dict.fromkeys(key.split(".")[0] for key in block().state_dict())) == expected
    weights = [
        f"{name}.weight" for name in ("sequence_mixer.inner", "sequence_mixer.film", "mlp.linear1", "mlp.linear2")
    ]
    assert decayed(block(norm=TableNorm)) == [*weights, "condition_proj.1.weight"]


@pytest.mark.parametrize("left_out", ["sequence_mixer", "mlp"])
def test_an_identity_leaves_its_branch_out(left_out):
    made, x, c = block(**{f"{left_out}_cfg": OFF}), torch.randn(3, 5, C).double(), torch.randn(3, C).double()
    other = block()
    other.load_state_dict(made.state_dict(), strict=False)
    with torch.no_grad():  # a branch whose gate is shut
        gate = 2 if left_out == "sequence_mixer" else 5
        for p in other.condition_proj[1].parameters():
            p[gate * C : (gate + 1) * C] = 0
    torch.testing.assert_close(made(x, c), other(x, c), rtol=1e-13, atol=1e-13)


def test_dropout_falls_on_each_branch_by_itself_before_its_gate_and_never_on_the_stream():
    made = block(dropout_cfg=partial(DropPath, 0.5))
    x, c = torch.randn(1, 5, C).double().expand(400, 5, C), torch.randn(1, C).double()
    ways = made(x, c).flatten(1).unique(dim=0)
    assert len(ways) == 4 and (ways - x[0].flatten()).abs().amax(1).min() == 0
    assert len(made.eval()(x, c).flatten(1).unique(dim=0)) == 1
    shut, seen = block(awake=False), []
    shut.dropout = nn.Dropout(0.0)
    shut.dropout.register_forward_hook(lambda _, inputs, y: seen.append(y))
    assert shut(x, c).equal(x) and all(branch.any() for branch in seen) and len(seen) == 2


test_what_is_refused = refused(
    (lambda: block()(X, None), "condition must be given and not be empty, got None"),
    (lambda: block()(X, X[:, :0]), "condition must be given and not be empty, got shape (3, 0, 6)"),
    (lambda: block(sequence_mixer_cfg=OFF, mlp_cfg=OFF), "sequence_mixer_cfg or mlp_cfg must build a branch"),
    (lambda: block()(X[:1], X), "a branch must "),
    (lambda: block(mlp_cfg=partial(nn.Linear, C, 1))(X, X), "a branch must "),
)


def test_the_standard_block_spelled_out():
    heads = partial(Attention, C, 2, apply_qk_norm=False, use_rope=False, is_causal=True)
    plain = partial(LayerNorm, C, elementwise_affine=False)
    spelled = block(
        norm=plain,
        sequence_mixer_cfg=partial(QKVSequenceMixer, C, heads, qkv_bias=True, out_proj_bias=True),
        mlp_cfg=partial(MLP, C, "gelu", OFF, expansion_factor=4, bias=True),
        condition_norm_cfg=OFF,
    )
    short = AdaLNZeroResidualBlock.standard(C, 2, dropout=0.5, causal=True).double().eval()
    short.load_state_dict(spelled.state_dict())
    x, c = torch.randn(3, 5, C).double(), torch.randn(3, C).double()
    assert short(x, c).equal(spelled(x, c)) and short.dropout.p == 0.5
    assert AdaLNZeroResidualBlock.standard(C, 2).dropout.p == 0
