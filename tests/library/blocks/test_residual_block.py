from functools import partial
from itertools import product

import pytest
import torch
from torch import nn

from residual_edu import MLP, DropPath, LayerNorm, LazyConfig, ResidualBlock
from tests.library.helpers import TableNorm, agree, decayed, normed, refused

pytestmark = pytest.mark.usefixtures("all_as_installed")

C = 6
PATTERNS = list(product([False, True], repeat=3))  # mixer, condition mixer, MLP: there or left out
NORM = LazyConfig(LayerNorm)(dim=C)
OFF = nn.Identity


class Mixer(nn.Module):
    """Mixes the positions of any number of axes: each hears the mean of all."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(C, C)

    def forward(self, x):
        return self.map(x - x.mean(tuple(range(1, x.ndim - 1)), keepdim=True))


class Listener(nn.Module):
    """Multiplies each sample by what its condition says."""

    def __init__(self):
        super().__init__()
        self.say = nn.Linear(C, C)

    def forward(self, x, condition):
        return x * self.say(condition).view(len(x), *[1] * (x.ndim - 2), C)


def block(mixer=True, listener=True, mlp=True, dropout_cfg=OFF, **changes):
    parts = {
        "sequence_mixer_cfg": Mixer if mixer else OFF,
        "sequence_mixer_norm_cfg": NORM if mixer else OFF,
        "condition_mixer_cfg": Listener if listener else OFF,
        "condition_mixer_norm_cfg": NORM if listener else OFF,
        "mlp_cfg": LazyConfig(MLP)(dim=C, activation="gelu", dropout_cfg=OFF) if mlp else OFF,
        "mlp_norm_cfg": NORM if mlp else OFF,
        "dropout_cfg": dropout_cfg,
    }
    made = ResidualBlock(**(parts | changes)).double()
    for p in made.parameters():
        nn.init.normal_(p, std=0.5)
    return made


def transcribed(x, c, p, mixer, listener, mlp):
    """The block's three equations on (batch, positions, channels)."""
    shape, x = x.shape, x.reshape(len(x), -1, C)
    if mixer:
        h = normed(x, p, "input_norm")
        h = h - h.sum(1, keepdim=True) / h.shape[1]
        x = x + h @ p["sequence_mixer.map.weight"].T + p["sequence_mixer.map.bias"]
    if listener:
        said = c @ p["condition_mixer.say.weight"].T + p["condition_mixer.say.bias"]
        x = x + normed(x, p, "condition_mixer_norm") * said[:, None]
    if mlp:
        h = normed(x, p, "mlp_norm") @ p["mlp.layer1.weight"].T
        x = x + (h * (1 + torch.erf(h / 2**0.5)) / 2) @ p["mlp.layer2.weight"].T
    return x.view(shape)


def signals(*space):
    return [torch.randn(3, *s, C, dtype=torch.float64, requires_grad=True) for s in (space, ())]


@pytest.mark.parametrize("there", PATTERNS[1:])
@pytest.mark.parametrize("space", [(5,), (2, 3, 2)])
def test_values_and_gradients_of_all_patterns(there, space):
    made, (x, c) = block(*there), signals(*space)
    ours, p = made(x, c), dict(made.named_parameters())
    agree(ours, transcribed(x, c, p, *there), [x, *([c] if there[1] else []), *p.values()], 1e-12)
    if not there[1]:
        assert made(x, None).equal(ours)


def test_three_branches_left_out_return_the_very_same_tensor():
    made, (x, c) = ResidualBlock(OFF, OFF), signals(5)  # those that are not given are left out
    assert made(x) is x and made(x, c) is x and not made.state_dict()


def test_one_dropout_for_all_branches_which_draws_anew_and_never_touches_the_stream():
    made = block(dropout_cfg=LazyConfig(DropPath)(drop_prob=0.5))
    assert [m for m in made.modules() if isinstance(m, DropPath)] == [made.dropout]
    x, c = torch.randn(1, 5, C).double().expand(800, 5, C), torch.randn(1, C).double().expand(800, C)
    ways = made(x, c).flatten(1).unique(dim=0)
    assert len(ways) == 8 and (ways - x[0].flatten()).abs().amax(1).min() == 0
    assert len(made.eval()(x, c).flatten(1).unique(dim=0)) == 1


def test_keys_in_order_and_norms_are_spared_by_weight_decay():
    made = block(**{f"{name}_norm_cfg": TableNorm for name in ("sequence_mixer", "condition_mixer", "mlp")})
    keys = ["sequence_mixer", "input_norm", "condition_mixer", "condition_mixer_norm", "mlp", "mlp_norm"]
    assert list(dict.fromkeys(key.split(".")[0] for key in made.state_dict())) == keys
    weights = ["sequence_mixer.map", "condition_mixer.say", "mlp.layer1", "mlp.layer2"]
    assert decayed(made) == [f"{name}.weight" for name in weights]


def test_its_cost_is_its_parts_cost():
    class Costly(Mixer):
        def flop_count(self, shape, inference=False):
            return 1000 if inference else 2000

    made = block(sequence_mixer_cfg=Costly)
    assert made.flop_count((2, 3)) == 2000 + made.mlp.flop_count(6)
    assert made.flop_count((2, 3), inference=True) == 1000 + made.mlp.flop_count(6)


test_what_is_refused = refused(
    (lambda: block(sequence_mixer_cfg=OFF), "sequence_mixer_norm_cfg must be nn.Identity where sequence_mixer_cfg"),
    (lambda: block(condition_mixer_cfg=OFF()), "condition_mixer_norm_cfg must be nn.Identity where condition_mix"),
    (lambda: block(mlp_cfg={"__target__": "torch.nn.Identity"}), "mlp_norm_cfg must be nn.Identity where mlp_cfg"),
    (lambda: block()(signals(5)[0], None), "condition must be given, got None"),
    (lambda: block(mlp_cfg=partial(nn.Linear, C, 1))(*signals(5)), "a branch must "),
    error=AssertionError,  # as the page promises, and InvalidInput is a ValueError too
)


@pytest.mark.parametrize("causal", [False, True])
def test_the_standard_block_is_torchs_encoder_layer(causal):
    ours = ResidualBlock.standard(C, 2, dropout=0.3, **({"causal": True} if causal else {}))
    assert ours.dropout.p == 0.3 and ResidualBlock.standard(C, 2).dropout.p == 0
    theirs = nn.TransformerEncoderLayer(C, 2, 4 * C, 0.0, "gelu", batch_first=True, norm_first=True)
    pairs = {
        "self_attn.in_proj_": "sequence_mixer.qkv_proj.",
        "self_attn.out_proj.": "sequence_mixer.out_proj.",
        "linear1.": "mlp.layer1.",
        "linear2.": "mlp.layer2.",
        "norm1.": "input_norm.",
        "norm2.": "mlp_norm.",
    }
    for p in ours.parameters():
        nn.init.normal_(p, std=0.5)
    state = ours.eval().state_dict()
    theirs.load_state_dict({f"{a}{w}": state[f"{b}{w}"] for a, b in pairs.items() for w in ("weight", "bias")})
    x, mask = torch.randn(2, 5, C), nn.Transformer.generate_square_subsequent_mask(5) if causal else None
    torch.testing.assert_close(ours(x, None), theirs(x, mask, is_causal=causal), rtol=1e-5, atol=1e-5)
