import pytest
import torch
from torch import nn

from residual_edu import LazyConfig
from residual_edu.gradient_flow import mixing_matrix
from residual_edu.mixers import Mamba, MambaLayer, selective_scan
from tests.library.helpers import agree

pytestmark = pytest.mark.usefixtures("all_as_installed")

C, N, K, P = 6, 5, 3, 4  # channels, state, convolution, headdim: 12 inner channels, 3 heads
LAYER = LazyConfig(MambaLayer)(d_model=C, d_state=N, d_conv=K, headdim=P, chunk_size=4)


def awake(module):
    """Draw every parameter anew, so that nothing is 0 or 1 by its start."""
    for p in module.parameters():
        nn.init.normal_(p, std=0.7)
    return module.double()


def transcribed(x, p):
    """Mamba-2's layer, step by step; the scan is held to its sum over all pairs in test_selective_scan."""
    inner, heads = 2 * C, 2 * C // P
    z, u, dt = (x @ p["in_proj.weight"].T).split([inner, inner + 2 * N, heads], dim=-1)
    late = torch.cat([u.new_zeros(len(u), K - 1, u.shape[2]), u], dim=1)
    mixed = p["conv1d.bias"] + sum(p["conv1d.weight"][:, 0, k] * late[:, k : k + u.shape[1]] for k in range(K))
    own, b, c = (mixed / (1 + torch.exp(-mixed))).split([inner, N, N], dim=-1)
    steps = torch.log1p(torch.exp(dt + p["dt_bias"]))
    read = selective_scan(own.unflatten(-1, (heads, P)), steps, -torch.exp(p["A_log"]), b, c, p["D"]).flatten(2)
    gated = read * z / (1 + torch.exp(-z))
    normed = gated / (gated.square().mean(-1, keepdim=True) + 1e-5).sqrt() * p["norm.weight"]
    return normed @ p["out_proj.weight"].T


@pytest.mark.parametrize("positions", [1, 7])
def test_values_and_gradients_in_float64_and_names(positions):
    layer = awake(LAYER())
    x = torch.randn(2, positions, C, dtype=torch.float64, requires_grad=True)
    agree(layer(x), transcribed(x, dict(layer.named_parameters())), [x, *layer.parameters()])
    maps = ["in_proj.weight", "conv1d.weight", "conv1d.bias", "norm.weight", "out_proj.weight"]  # as in mamba-ssm
    assert list(layer.state_dict()) == ["dt_bias", "A_log", "D", *maps]
    with_biases = MambaLayer(C, d_state=N, headdim=P, bias=True, conv_bias=False).state_dict()
    assert {"in_proj.bias", "out_proj.bias"} <= set(with_biases) and "conv1d.bias" not in with_biases


@pytest.mark.parametrize("floor", [1e-4, 5e-3])
def test_steps_start_log_uniform_in_their_range_and_not_below_the_floor(floor):
    layer = MambaLayer(256, headdim=1, dt_min=1e-3, dt_max=1e-1, dt_init_floor=floor)
    steps, least = nn.functional.softplus(layer.dt_bias.detach()), max(1e-3, floor)
    assert 0.999 * least < steps.min() < 1.3 * least and 0.8e-1 < steps.max() < 1.001e-1
    assert abs((steps < 0.01).float().mean() - 0.5) < 0.1  # log-uniform
    torch.testing.assert_close(layer.A_log.detach().exp(), torch.arange(1.0, 513))
    assert layer.D.detach().equal(torch.ones(512))


def test_a_signal_is_read_row_by_row_one_way_or_both():
    one_way, both = (awake(Mamba(LAYER, bidirectional=way)) for way in (False, True))
    x = torch.randn(2, 2, 3, C).double()
    rows, there, back = x.flatten(1, 2), both.core_layer, both.core_layer_rev
    torch.testing.assert_close(both(x), (there(rows) + back(rows.flip(1)).flip(1)).view_as(x))
    depends = mixing_matrix(one_way, x[:1]) > 0
    assert depends.equal(torch.ones(6, 6).tril() > 0) and (mixing_matrix(both, x[:1]) > 0).all()
