import copy
import pickle
import re
from functools import partial
from itertools import product

import pytest
import torch
from torch import nn

from residual_edu import MLP, DropPath, InvalidInput, LayerNorm, LazyConfig, ResidualBlock, parameter_groups

pytestmark = pytest.mark.usefixtures("as_installed")

C = 6
PATTERNS = list(product([False, True], repeat=3))  # mixer, condition mixer, MLP: there or left out
COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda m: pickle.loads(pickle.dumps(m))}
NORM = LazyConfig(LayerNorm)(dim=C)
OFF = nn.Identity


class Mixer(nn.Module):
    """Mixes the positions of any number of axes: each hears the mean of all."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(C, C)

    def forward(self, x):
        return self.map(x - x.mean(tuple(range(1, x.ndim - 1)), keepdim=True))


class TableNorm(nn.Module):
    """A norm whose gain is no vector, so that only the block's mark spares it."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(2, C))


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


def normed(x, p, name):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() * p[f"{name}.weight"] + p[f"{name}.bias"]


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


@pytest.mark.parametrize("there", PATTERNS)
@pytest.mark.parametrize("space", [(5,), (2, 3), (2, 3, 2)])
def test_values_and_gradients_of_all_eight_patterns(there, space):
    made, (x, c) = block(*there), signals(*space)
    p = dict(made.named_parameters())
    ours, theirs, g = made(x, c), transcribed(x, c, p, *there), torch.randn(3, *space, C, dtype=torch.float64)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    leaves = [x, *([c] if there[1] else []), *p.values()]
    for a, b in zip(torch.autograd.grad(ours, leaves, g), torch.autograd.grad(theirs, leaves, g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    if not there[1]:
        assert made(x, None).equal(ours)


@pytest.mark.parametrize("there", PATTERNS)
def test_a_branch_left_out_has_no_parameters_and_no_forward(there):
    made, (x, c), ran = block(*there, dropout_cfg=partial(DropPath, 0.5)), signals(5), []
    for name, module in made.named_children():
        module.register_forward_hook(lambda *_, name=name: ran.append(name))
    made(x, c)
    branches = [
        ["input_norm", "sequence_mixer", "dropout"],
        ["condition_mixer_norm", "condition_mixer", "dropout"],
        ["mlp_norm", "mlp", "dropout"],
    ]
    assert ran == sum([names for names, on in zip(branches, there, strict=True) if on], [])
    assert {name.split(".")[0] for name, _ in made.named_parameters()} == set(ran) - {"dropout"}


def test_three_branches_left_out_return_the_very_same_tensor():
    made, (x, c) = block(False, False, False), signals(5)
    assert made(x, None) is x and made(x, c) is x and not made.state_dict()


def test_state_dict_keys_in_order():
    assert list(block().state_dict()) == [
        "sequence_mixer.map.weight",
        "sequence_mixer.map.bias",
        "input_norm.weight",
        "input_norm.bias",
        "condition_mixer.say.weight",
        "condition_mixer.say.bias",
        "condition_mixer_norm.weight",
        "condition_mixer_norm.bias",
        "mlp.layer1.weight",
        "mlp.layer2.weight",
        "mlp_norm.weight",
        "mlp_norm.bias",
    ]
    names = "sequence_mixer input_norm condition_mixer condition_mixer_norm mlp mlp_norm dropout"
    assert [name for name, _ in block().named_children()] == names.split()


def test_one_dropout_for_all_branches_which_draws_anew_and_never_touches_the_stream():
    made = block(dropout_cfg=LazyConfig(DropPath)(drop_prob=0.5))
    assert [m for m in made.modules() if isinstance(m, DropPath)] == [made.dropout]
    x, c = torch.randn(1, 5, C).double().expand(800, 5, C), torch.randn(1, C).double().expand(800, C)
    ways = made(x, c).flatten(1).unique(dim=0)
    assert len(ways) == 8 and (ways - x[0].flatten()).abs().amax(1).min() == 0
    assert len(made.eval()(x, c).flatten(1).unique(dim=0)) == 1


@pytest.mark.parametrize("copied", [lambda m: m, *COPIES.values()])
def test_norms_are_spared_by_weight_decay_also_in_a_copy(copied):
    made = copied(block(sequence_mixer_norm_cfg=TableNorm))
    spared = {id(p) for p in parameter_groups(made, 0.1)[1]["params"]}
    for name, p in made.named_parameters():
        assert (id(p) in spared) == ("norm" in name or "bias" in name), name


def test_a_norm_may_be_left_out_by_itself():
    made, (x, c) = block(sequence_mixer_norm_cfg=OFF, listener=False, mlp=False), signals(5)
    torch.testing.assert_close(made(x, c), x + made.sequence_mixer(x), rtol=0, atol=0)


def test_its_cost_is_its_parts_cost():
    class Costly(Mixer):
        def flop_count(self, shape, inference=False):
            return 1000 if inference else 2000

    made = block(sequence_mixer_cfg=Costly)
    assert made.flop_count((2, 3)) == 2000 + made.mlp.flop_count(6)
    assert made.flop_count((2, 3), inference=True) == 1000 + made.mlp.flop_count(6)


@pytest.mark.parametrize("there", PATTERNS[1:])
def test_compiles_into_one_graph(there, compiled):
    made, (x, c) = block(*there), signals(2, 3)
    ours, theirs = compiled(made)(x, c), made(x, c)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    both = [torch.autograd.grad(y.sum(), made.parameters()) for y in (ours, theirs)]
    for a, b in zip(*both, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_gives_the_same_numbers(way):
    made, (x, c) = block(), signals(2, 3)
    assert COPIES[way](made)(x, c).equal(made(x, c))


def test_factories_make_new_modules_and_mappings_are_read():
    mapping = {"__target__": "residual_edu.LayerNorm", "dim": C}
    cfg = partial(ResidualBlock, Mixer, mapping, OFF, OFF, OFF, OFF, OFF)
    first, second = cfg(), cfg()
    assert not {id(p) for p in first.parameters()} & {id(p) for p in second.parameters()}


def run(*shape, dtype=torch.float64, **changes):
    return block(**changes)(torch.zeros(shape, dtype=dtype), None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: block(sequence_mixer_cfg=OFF),
            "sequence_mixer_norm_cfg must be nn.Identity where sequence_mixer_cfg is",
        ),
        (
            lambda: block(condition_mixer_cfg=OFF()),
            "condition_mixer_norm_cfg must be nn.Identity where condition_mixer_",
        ),
        (
            lambda: block(mlp_cfg={"__target__": "torch.nn.Identity"}),
            "mlp_cfg is, got LayerNorm, which would never run",
        ),
        (
            lambda: block(sequence_mixer_cfg=Listener),
            "sequence_mixer must take (x), Listener.forward takes (x, condition)",
        ),
        (
            lambda: block(condition_mixer_cfg=Mixer),
            "condition_mixer must take (x, condition), Mixer.forward takes (x); wrap",
        ),
        (lambda: block(mlp_cfg=Listener), "mlp must take (x), Listener.forward takes (x, condition)"),
        (lambda: block(dropout_cfg=0.1), "a module was to be built, got 0.1"),
        (lambda: run(3, 5, C), "condition must be given, got None"),
        (lambda: run(C, listener=False), "x must have at least the axes (batch, channels), got shape (6,)"),
        (
            lambda: run(3, 5, 4, listener=False),
            "x must be floating point of shape (..., 6), got",
        ),
        (
            lambda: run(3, C, dtype=torch.long, mixer=False, listener=False, mlp=False),
            "x must be floating point, got torch.int64",
        ),
        (
            lambda: run(3, 5, C, listener=False, mlp_cfg=partial(nn.Linear, C, 1)),
            "a branch must have the shape of x, (3, 5, 6), got (3, 5, 1)",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        call()
