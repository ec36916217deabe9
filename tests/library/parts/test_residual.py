import pytest
import torch
from torch import nn

from residual_edu import (
    InvalidInput,
    LayerNorm,
    ResidualConnection,
    SimpleFeedForward,
    is_bypassed,
    post_norm_residual,
    pre_norm_residual,
)

pytestmark = pytest.mark.usefixtures("as_installed")


def double(x):
    return 2 * x


def plus_one(x):
    return x + 1


def halved(x):
    return x / 2


X = torch.tensor([1.0, 10.0])


@pytest.mark.parametrize(
    ("residual", "gates", "expected"),
    [
        (pre_norm_residual, [], [3.0, 210.0]),  # x + 2x^2
        (pre_norm_residual, [halved], [2.0, 110.0]),  # x + x^2
        (pre_norm_residual, [halved, plus_one], [3.0, 111.0]),
        (pre_norm_residual, [plus_one, halved], [2.5, 110.5]),
        (post_norm_residual, [], [9.0, 900.0]),  # (x + 2x)^2
        (post_norm_residual, [halved], [4.0, 400.0]),  # (x + x)^2
        (post_norm_residual, [halved, plus_one], [9.0, 441.0]),
        (post_norm_residual, [plus_one, halved], [6.25, 420.25]),
    ],
)
def test_order_of_norm_layer_and_gates(residual, gates, expected):
    assert residual(X, double, norm=torch.square, gates=gates).tolist() == expected


@pytest.mark.parametrize(
    ("residual", "expected"),
    [(pre_norm_residual, [5.0, 311.0]), (post_norm_residual, [25.0, 1681.0])],  # x + 3x^2 + 1, (x + 3x + 1)^2
)
def test_further_arguments_reach_the_layer_by_position_and_by_name(residual, expected):
    def layer(x, factor, *, conditioning):
        return factor * x + conditioning

    three, one = torch.tensor(3.0), torch.tensor(1.0)
    found = residual(X, layer, torch.square, (), three, conditioning=one)
    assert found.tolist() == expected


@pytest.mark.parametrize("residual", [pre_norm_residual, post_norm_residual])
def test_a_bypassed_branch_returns_the_very_same_tensor_and_runs_nothing(residual):
    def never(x):
        raise RuntimeError("a bypassed branch ran its norm or gate")

    assert residual(X, nn.Identity(), norm=never, gates=[never]) is X


@pytest.mark.parametrize("residual", [pre_norm_residual, post_norm_residual])
def test_a_gate_that_is_the_identity_module_is_not_called(residual):
    gate, called = nn.Identity(), []
    gate.register_forward_hook(lambda *_: called.append(gate))
    assert residual(X, double, torch.square, [gate]).equal(residual(X, double, torch.square)) and not called


def test_only_the_identity_module_is_a_bypass():
    assert is_bypassed(nn.Identity())
    assert not any(map(is_bypassed, [nn.Linear(2, 2), nn.Sequential(), lambda x: x, nn.Identity]))


def transcribed(x, f, alpha, bias, placement):
    """Vaswani et al. (2017) for "post", its pre-norm sibling for "pre", with the n - 1 norm, dropout left out."""

    def norm(t):
        return alpha * (t - t.mean(-1, keepdim=True)) / (t.var(-1, keepdim=True).sqrt() + 1e-6) + bias

    return x + f(norm(x)) if placement == "pre" else norm(x + f(x))


@pytest.mark.filterwarnings("ignore:std.*degrees of freedom:UserWarning", "ignore:var.*degrees of freedom:UserWarning")
@pytest.mark.parametrize("mode", [{"dropout": 0.0}, {"dropout": 0.5}])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 3, 4)])
def test_values_and_gradients_in_float64(shape, placement, mode):
    connection = ResidualConnection(4, placement=placement, **mode).double().train(mode["dropout"] == 0)
    f = SimpleFeedForward(4, 8).double()
    nn.init.normal_(connection.norm.alpha), nn.init.normal_(connection.norm.bias)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    g = torch.randn(shape, dtype=torch.float64)
    leaves = [x, *connection.parameters(), *f.parameters()]
    ours, theirs = connection(x, f), transcribed(x, f, connection.norm.alpha, connection.norm.bias, placement)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for a, b in zip(torch.autograd.grad(ours, leaves, g), torch.autograd.grad(theirs, leaves, g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_pre_norm_is_the_default():
    assert ResidualConnection(4, 0.1).placement == "pre"


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_dropout_acts_on_the_branch_alone_and_keeps_its_mean(placement):
    connection = ResidualConnection(4, 0.25, placement)
    connection.norm = nn.Identity()
    branch = connection(torch.zeros(1000, 4), torch.ones_like)
    assert sorted(set(branch.flatten().tolist())) == [0.0, pytest.approx(1 / 0.75)]
    assert 0.7 < (branch != 0).float().mean() < 0.8


def test_attributes_and_state_dict_hold_the_norm_alone():
    connection = ResidualConnection(4, 0.1)
    assert isinstance(connection.dropout, nn.Dropout) and connection.dropout.p == 0.1
    assert list(connection.state_dict()) == ["norm.alpha", "norm.bias"]


def test_a_row_of_the_input_gradient_sums_to_the_number_of_features():
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    ResidualConnection(6, 0.0).double()(x, SimpleFeedForward(6, 9).double()).sum().backward()
    torch.testing.assert_close(x.grad.sum(-1), torch.full((5,), 6.0).double(), rtol=1e-12, atol=1e-12)


def test_with_a_branch_of_zeros_the_gradient_passes_unchanged():
    x = torch.randn(2, 4, requires_grad=True)
    pre_norm_residual(x, lambda h: 0 * h, LayerNorm(4)).backward(g := torch.randn(2, 4))
    assert x.grad.equal(g)


def test_compiles_into_one_graph(compiled):
    connection, f, x = ResidualConnection(4, 0.0), SimpleFeedForward(4, 8), torch.randn(2, 4)
    torch.testing.assert_close(compiled(connection)(x, f), connection(x, f))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pre_norm_residual(X, lambda x: x[:1], torch.square), "a branch must have the shape of x"),
        (lambda: pre_norm_residual(X, double, torch.square, [lambda b: b[:1]]), "a gate must have the shape of x"),
        (lambda: post_norm_residual(X, lambda x: x[:1], torch.square), "a branch must have the shape of x"),
        (lambda: post_norm_residual(X, double, lambda x: x[:1]), "norm must have the shape of x"),
        (lambda: ResidualConnection(4, 1.0), "dropout must be a number in"),
        (lambda: ResidualConnection(4, 0.1, "peri"), "placement must be one of 'pre', 'post', got 'peri'"),
        (lambda: ResidualConnection(4, 0.0)(torch.zeros(2, 1), double), "x must be floating point of shape"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
