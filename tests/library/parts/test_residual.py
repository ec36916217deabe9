"""A residual connection and what stands on its branch: gates, LayerScale, modulation by a condition."""

import pytest
import torch
from torch import nn

from residual_edu import (
    LayerScale,
    Modulation,
    ResidualConnection,
    SimpleFeedForward,
    is_bypassed,
    modulations,
    post_norm_residual,
    pre_norm_residual,
    zero_projection,
)
from residual_edu.parts.flop_count import flop_count
from tests.library.helpers import agree

pytestmark = pytest.mark.usefixtures("all_as_installed")
BOTH = pytest.mark.parametrize("residual", [pre_norm_residual, post_norm_residual])
X = torch.tensor([1.0, 10.0])


def double(x):
    return 2 * x


def plus_one(x):
    return x + 1


def halved(x):
    return x / 2


@pytest.mark.parametrize(
    ("residual", "gates", "expected"),
    [
        (pre_norm_residual, [], [3.0, 210.0]),  # x + 2x^2
        (pre_norm_residual, [halved, plus_one], [3.0, 111.0]),
        (pre_norm_residual, [plus_one, halved], [2.5, 110.5]),
        (post_norm_residual, [], [9.0, 900.0]),  # (x + 2x)^2
        (post_norm_residual, [halved, plus_one], [9.0, 441.0]),
        (post_norm_residual, [plus_one, halved], [6.25, 420.25]),
    ],
)
def test_order_of_norm_layer_and_gates(residual, gates, expected):
    assert residual(X, double, norm=torch.square, gates=gates).tolist() == expected


@BOTH
def test_the_identity_module_and_nothing_else_is_a_bypass_and_runs_nothing(residual):
    def never(*inputs):
        raise RuntimeError("a bypassed branch or gate ran")

    gate = nn.Identity()
    gate.register_forward_hook(never)
    assert residual(X, nn.Identity(), norm=never, gates=[never]) is X
    assert residual(X, double, torch.square, [gate]).equal(residual(X, double, torch.square))
    assert not any(map(is_bypassed, [nn.Linear(2, 2), nn.Sequential(), lambda x: x, nn.Identity]))


def transcribed(x, f, alpha, bias, placement):
    """Vaswani et al. (2017) for "post", its pre-norm sibling for "pre", with the n - 1 norm, dropout left out."""

    def norm(t):
        return alpha * (t - t.mean(-1, keepdim=True)) / (t.var(-1, keepdim=True).sqrt() + 1e-6) + bias

    return x + f(norm(x)) if placement == "pre" else norm(x + f(x))


@pytest.mark.parametrize("rate", [0.0, 0.5])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_connection_in_float64(placement, rate):
    connection, f = ResidualConnection(4, rate, placement).double().train(rate == 0), SimpleFeedForward(4, 8).double()
    nn.init.normal_(connection.norm.alpha), nn.init.normal_(connection.norm.bias)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    theirs = transcribed(x, f, connection.norm.alpha, connection.norm.bias, placement)
    agree(connection(x, f), theirs, [x, *connection.parameters(), *f.parameters()], 1e-12)
    assert list(connection.state_dict()) == ["norm.alpha", "norm.bias"]


@pytest.mark.parametrize("given", [(), ("post",)])
def test_dropout_acts_on_the_branch_alone_and_keeps_its_mean_and_pre_norm_is_the_default(given):
    connection = ResidualConnection(4, 0.25, *given)
    assert connection.placement == (given or ("pre",))[0]
    connection.norm = nn.Identity()
    branch = connection(torch.zeros(1000, 4), torch.ones_like)
    assert sorted(set(branch.flatten().tolist())) == [0.0, pytest.approx(1 / 0.75)]
    assert 0.7 < (branch != 0).float().mean() < 0.8


def test_layer_scale_in_float64_and_its_start_and_cost():
    module, x = LayerScale(4).double(), torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    nn.init.normal_(module.gamma)
    agree(module(x), torch.einsum("...c,c->...c", x, module.gamma), [x, module.gamma], 1e-14)
    assert LayerScale(3).gamma.tolist() == [torch.tensor(1e-4).item()] * 3 and LayerScale(3, 1).gamma.eq(1).all()
    y = LayerScale(1, 1e-7)(torch.full((1, 1), 1000.0, dtype=torch.float16))  # float16 has 1.2e-7 beside 1e-7
    assert y.dtype == torch.float16 and y.item() == pytest.approx(1e-4, rel=1e-3)
    assert list(module.state_dict()) == ["gamma"]
    assert flop_count(LayerScale(5), (2, 3)) == flop_count(LayerScale(5), 6, inference=True) == 30
    assert flop_count(nn.Identity(), 6) == 0


def test_a_modulation_by_hand():
    x = torch.tensor([[[1.0, 10.0]]])
    modulation = Modulation(*torch.tensor([[[[5.0, 6.0]]], [[[1.0, -1.0]]], [[[0.5, 0.0]]]]))
    assert modulation.modulate(lambda h: h)(x).tolist() == [[[7.0, 6.0]]]  # x (1 + scale) + shift
    assert modulation.apply_gate(x).tolist() == [[[0.5, 0.0]]]
    mixed = Modulation(*torch.zeros(3, 1, 1, 2)).modulate(lambda h: h)(x.bfloat16())
    assert mixed.dtype == torch.float32 and mixed.equal(x)


def test_the_projection_starts_at_zero_with_silu_before_it():
    projection = zero_projection(4, branches=3)
    assert list(projection.state_dict()) == ["1.weight", "1.bias"]
    assert projection[1].weight.shape == (36, 4) and not any(p.any() for p in projection.parameters())
    nn.init.normal_(projection[1].weight)
    c = torch.randn(2, 4)
    torch.testing.assert_close(projection(c), (c * torch.sigmoid(c)) @ projection[1].weight.T)


@pytest.mark.parametrize("ndim, branches", [(2, 1), (3, 2), (5, 3)])
def test_pieces_come_in_the_order_shift_scale_gate_branch_by_branch(ndim, branches):
    projected = torch.arange(2.0 * 3 * branches * 4).view(2, -1)
    found = modulations(projected, ndim, branches)
    assert [m._fields for m in found] == [("shift", "scale", "gate")] * branches
    for k, piece in enumerate(piece for m in found for piece in m):
        assert piece.shape == (2, *[1] * (ndim - 2), 4)
        assert piece.reshape(2, 4).equal(projected[:, k * 4 : (k + 1) * 4])
