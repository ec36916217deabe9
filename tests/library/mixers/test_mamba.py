import math
import re

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import InvalidInput, LazyConfig
from residual_edu.mixers import Mamba, MambaLayer

pytestmark = pytest.mark.usefixtures("as_installed")

C, N, K, P = 6, 5, 3, 4  # channels, state, convolution, headdim: 12 inner channels, 3 heads
LAYER = LazyConfig(MambaLayer)(d_model=C, d_state=N, d_conv=K, headdim=P, chunk_size=4)


def awake(module):
    """Draw every parameter anew, so that nothing is 0 or 1 by its start."""
    for p in module.parameters():
        nn.init.normal_(p, std=0.7)
    return module.double()


def transcribed(x, p):
    """Mamba-2's core, position by position, head by head."""
    inner, heads = 2 * C, 2 * C // P
    y = torch.zeros_like(x)
    for n in range(len(x)):
        rows = x[n] @ p["in_proj.weight"].T
        z, u, dt = rows[:, :inner], rows[:, inner : 2 * inner + 2 * N], rows[:, 2 * inner + 2 * N :]
        states = [torch.zeros(P, N, dtype=x.dtype) for _ in range(heads)]
        for t in range(x.shape[1]):
            mixed = p["conv1d.bias"].clone()
            for k in range(K):
                if t - k >= 0:
                    mixed = mixed + p["conv1d.weight"][:, 0, K - 1 - k] * u[t - k]
            mixed = mixed / (1 + torch.exp(-mixed))
            b, c, read = mixed[inner : inner + N], mixed[inner + N :], []
            for h in range(heads):
                step = torch.log1p(torch.exp(dt[t, h] + p["dt_bias"][h]))
                own = mixed[h * P : (h + 1) * P]
                states[h] = torch.exp(-step * torch.exp(p["A_log"][h])) * states[h] + step * torch.outer(own, b)
                read.append(states[h] @ c + p["D"][h] * own)
            gated = torch.cat(read) * z[t] / (1 + torch.exp(-z[t]))
            normed = gated / (gated.square().mean() + 1e-5).sqrt() * p["norm.weight"]
            y[n, t] = p["out_proj.weight"] @ normed
    return y


@pytest.mark.parametrize("positions", [1, 2, 7])
def test_values_and_gradients_in_float64(positions):
    layer = awake(LAYER())
    x = torch.randn(2, positions, C, dtype=torch.float64, requires_grad=True)
    ours, theirs = layer(x), transcribed(x, dict(layer.named_parameters()))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    pull, leaves = torch.randn_like(ours), [x, *layer.parameters()]
    for a, b in zip(torch.autograd.grad(ours, leaves, pull), torch.autograd.grad(theirs, leaves, pull), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_names_and_shapes_are_those_of_mamba_ssm():
    assert {name: tuple(p.shape) for name, p in LAYER().state_dict().items()} == {
        "dt_bias": (3,),
        "A_log": (3,),
        "D": (3,),
        "in_proj.weight": (2 * 12 + 2 * N + 3, C),
        "conv1d.weight": (12 + 2 * N, 1, K),
        "conv1d.bias": (12 + 2 * N,),
        "norm.weight": (12,),
        "out_proj.weight": (C, 12),
    }
    with_biases = MambaLayer(C, d_state=N, headdim=P, bias=True, conv_bias=False).state_dict()
    assert {"in_proj.bias", "out_proj.bias"} <= set(with_biases) and "conv1d.bias" not in with_biases


@pytest.mark.parametrize("seed", range(3))
def test_steps_start_log_uniform_in_their_range(seed):
    torch.manual_seed(seed)
    layer = MambaLayer(256, headdim=1, dt_min=1e-3, dt_max=1e-1)
    steps = nn.functional.softplus(layer.dt_bias.detach())
    assert 0.999e-3 < steps.min() < 1.3e-3 and 0.8e-1 < steps.max() < 1.001e-1
    assert abs(steps.log10().mean() + 2) < 0.1  # log-uniform: half of them lie below 0.01
    torch.testing.assert_close(layer.A_log.detach().exp(), torch.arange(1.0, 513))
    assert layer.D.detach().equal(torch.ones(512))


def test_no_step_starts_below_the_floor():
    layer = MambaLayer(256, headdim=1, dt_min=1e-6, dt_max=1e-1, dt_init_floor=1e-3)
    assert nn.functional.softplus(layer.dt_bias).min() > 0.999e-3


def dependence(mixer, space):
    """Return, for each pair of positions, whether the one of the row depends on the one of the column."""
    x = torch.randn(1, *space, C, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(mixer, x)
    count = math.prod(space)
    return jacobian.view(count, C, count, C).abs().amax((1, 3)) > 0


@pytest.mark.parametrize("space", [(7,), (2, 3), (2, 1, 3)])
def test_which_positions_depend_on_which(space):
    one_way, both = (awake(Mamba(LAYER, bidirectional=way)) for way in (False, True))
    assert dependence(one_way, space).equal(torch.ones(math.prod(space), math.prod(space)).tril().bool())
    assert dependence(both, space).all()


@pytest.mark.parametrize("place", range(6))
def test_a_changed_position_changes_no_earlier_one(place):
    mixer, x = awake(Mamba(LAYER)), torch.randn(2, 6, C).double()
    other = x.clone()
    other[:, place] += 1
    same = (mixer(x) == mixer(other)).all(-1).all(0)
    assert same[:place].all() and not same[place:].any()


@pytest.mark.parametrize("space", [(7,), (2, 3), (2, 1, 3)])
def test_rows_are_read_as_one_sequence(space):
    mixer, x = awake(Mamba(LAYER, bidirectional=True)), torch.randn(2, *space, C).double()
    assert mixer(x).shape == x.shape
    assert mixer(x).flatten(1, -2).equal(mixer(x.flatten(1, -2)))


def test_both_directions_by_hand_and_swapped():
    mixer, x = awake(Mamba(LAYER, bidirectional=True)), torch.randn(2, 7, C).double()
    there, back = mixer.core_layer, mixer.core_layer_rev
    torch.testing.assert_close(mixer(x), there(x) + back(x.flip(1)).flip(1))
    swapped = Mamba(LAYER, bidirectional=True).double()
    swapped.core_layer, swapped.core_layer_rev = back, there
    torch.testing.assert_close(swapped(x.flip(1)).flip(1), mixer(x), rtol=1e-12, atol=1e-12)


def test_conditioning_is_accepted_and_ignored():
    mixer, x = Mamba(LAYER), torch.randn(2, 7, C)
    assert mixer(x, conditioning=torch.randn(2, C)).equal(mixer(x))


@pytest.mark.parametrize("chunk_size", [1, 3, 64])
def test_the_chunk_does_not_matter(chunk_size):
    layer, x = awake(LAYER()), torch.randn(2, 7, C).double()
    other = MambaLayer(C, d_state=N, d_conv=K, headdim=P, chunk_size=chunk_size).double()
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(x), layer(x), rtol=1e-12, atol=1e-12)


def test_half_precision_is_near_float32():
    layer, x = LAYER(), torch.randn(2, 40, C)
    y = layer.to(torch.bfloat16)(x.to(torch.bfloat16))
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), layer.float()(x.to(torch.bfloat16).float()), rtol=0.1, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_scan_runs_in_float32_at_least(dtype):
    layer = LAYER().to(dtype)
    u, dt = torch.randn(2, 300, 12 + 2 * N).to(dtype), torch.rand(2, 300, 3).to(dtype) / 8
    found = layer._scan(u, dt)
    exact = layer.double()._scan(u.double(), dt.double())  # from the same numbers
    rounding = (exact.to(dtype) - exact).norm()  # the least error that a result of this dtype can have
    accuracy = 1e-14 if dtype == torch.float64 else 1e-6
    assert found.dtype == dtype and (found - exact).norm() < 1.01 * rounding + accuracy * exact.norm()


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("shape", [1, 3, 4, 9, (2, 5), (2, 2, 3)])
def test_flops_are_those_that_torch_counts(shape, bidirectional):
    mixer = Mamba(LAYER, bidirectional)
    mixer.core_layer.norm.flop_count = lambda shape, inference: 0  # not a matrix product
    if bidirectional:
        mixer.core_layer_rev.norm.flop_count = mixer.core_layer.norm.flop_count
    space = (shape,) if isinstance(shape, int) else shape
    with FlopCounterMode(display=False) as counter:
        mixer(torch.randn(1, *space, C))
    uncounted = 2 * 2 * C * (1 + N) * (1 + bidirectional) if space == (1,) else 0  # one position: no sum, a product
    assert mixer.flop_count(shape) == counter.get_total_flops() + uncounted


def test_compiled(compiled):
    mixer, x = Mamba(LAYER, bidirectional=True), torch.randn(2, 7, C)
    torch.testing.assert_close(compiled(mixer)(x), mixer(x))


def test_the_cost_is_linear_in_the_length():
    mixer = Mamba(LAYER)
    assert [mixer.flop_count(4 * n) for n in (2, 16, 1024)] == [n * mixer.flop_count(4) for n in (2, 16, 1024)]


def built(**sizes):
    return MambaLayer(**({"d_model": C, "headdim": P} | sizes))


def test_one_built_layer_reads_one_way():
    layer = LAYER()
    assert Mamba(layer).core_layer is layer


REFUSED = [
    (lambda: built(d_state=0), "d_state must be a whole number, at least 1, got 0"),
    (lambda: built(expand=0), "expand must be a whole number, at least 1, got 0"),
    (lambda: built(expand=1.5), "expand must be a whole number, at least 1, got 1.5"),
    (lambda: built(dt_init_floor=math.nan), "dt_init_floor must be a finite number above 0, got nan"),
    (lambda: Mamba(LAYER(), bidirectional=True), "mamba_layer_cfg must build two layers, got one"),
]


@pytest.mark.parametrize("call, words", REFUSED)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: built(headdim=7)(torch.zeros(2, 7, C)),
        lambda: built(dt_min=0.2),
        lambda: built(dt_min=0.0),
        lambda: built(dt_max=math.inf),
        lambda: LAYER()(torch.zeros(2, 3, 3, C)),
        lambda: LAYER()(torch.zeros(7, C)),
        lambda: LAYER()(torch.zeros(2, 0, C)),
        lambda: Mamba(LAYER)(torch.zeros(2, C)),
    ],
)
def test_torch_and_python_refuse_the_rest(call):
    with pytest.raises((RuntimeError, ValueError, IndexError, ZeroDivisionError)):
        call()
