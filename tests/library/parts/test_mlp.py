import copy
import pickle

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import MLP, Dropout, InvalidInput, LazyConfig, SimpleFeedForward, reset_parameters

pytestmark = pytest.mark.usefixtures("as_installed")


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 2, 3, 4), (0, 4)])
def test_two_linear_maps_with_a_relu_between(shape):
    mlp, x = SimpleFeedForward(4, 7).double(), torch.randn(shape, dtype=torch.float64)
    w1, b1, w2, b2 = (p.detach().numpy() for p in mlp.parameters())
    expected = (x.numpy() @ w1.T + b1).clip(min=0) @ w2.T + b2
    torch.testing.assert_close(mlp(x).detach(), torch.as_tensor(expected), rtol=1e-13, atol=1e-13)


def test_names_and_shapes_of_the_parameters():
    shapes = {name: tuple(p.shape) for name, p in SimpleFeedForward(4, 7).state_dict().items()}
    assert shapes == {"linear1.weight": (7, 4), "linear1.bias": (7,), "linear2.weight": (4, 7), "linear2.bias": (4,)}


def test_each_position_is_mapped_by_itself():
    mlp, x = SimpleFeedForward(4, 7), torch.randn(2, 3, 4)
    torch.testing.assert_close(mlp(x)[1, 2], mlp(x[1, 2]))


def sigmoid(v):
    return 1 / (1 + torch.exp(-v))


FORMULAS = {  # of the first map's output, and its width over that of the second map's input
    "relu": (lambda h: torch.where(h > 0, h, 0), 1),
    "gelu": (lambda h: h * (1 + torch.erf(h / 2**0.5)) / 2, 1),
    "gelu_tanh": (lambda h: h * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (h + 0.044715 * h**3))) / 2, 1),
    "silu": (lambda h: h * sigmoid(h), 1),
    "glu": (lambda h: h[..., :7] * sigmoid(h[..., 7:]), 2),
    "swiglu": (lambda h: h[..., :7] * sigmoid(h[..., :7]) * h[..., 7:], 2),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", FORMULAS)
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 2, 3, 4)])
def test_values_and_gradients_of_each_activation(activation, bias, shape):
    formula, halves = FORMULAS[activation]
    mlp = MLP(4, activation, nn.Identity, expansion_factor=1.8, bias=bias).double()
    p = dict(mlp.named_parameters())
    assert p["layer1.weight"].shape == (7 * halves, 4) and p["layer2.weight"].shape == (4, 7)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    hidden = formula(x @ p["layer1.weight"].T + p.get("layer1.bias", 0))
    theirs = hidden @ p["layer2.weight"].T + p.get("layer2.bias", 0)
    ours, g, leaves = mlp(x), torch.randn(shape, dtype=torch.float64), [x, *p.values()]
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for a, b in zip(torch.autograd.grad(ours, leaves, g), torch.autograd.grad(theirs, leaves, g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_the_mlp_of_dit_is_torchs_layers_with_the_tanh_approximation():
    mlp, x = MLP(8, "gelu_tanh", nn.Identity, 4.0, bias=True), torch.randn(2, 5, 8)
    torchs = nn.Sequential(mlp.layer1, nn.GELU(approximate="tanh"), mlp.layer2)
    exact = nn.Sequential(mlp.layer1, nn.GELU(), mlp.layer2)
    assert mlp(x).equal(torchs(x)) and not torch.allclose(mlp(x), exact(x), rtol=0, atol=1e-6)


def test_names_and_defaults():
    mlp = MLP(4, "swiglu", nn.Identity)
    assert {name: tuple(p.shape) for name, p in mlp.state_dict().items()} == {
        "layer1.weight": (16, 4),
        "layer2.weight": (4, 8),
    }


def test_by_default_it_is_a_gelu_without_dropout_or_bias():
    mlp, x = MLP(64), torch.randn(2, 64)
    assert isinstance(mlp.dropout, nn.Identity) and mlp.layer1.bias is None
    assert mlp(x).equal(nn.Sequential(mlp.layer1, nn.GELU(), mlp.layer2)(x))


def test_dropout_acts_on_the_hidden_features_in_training_alone():
    mlp = MLP(4, "relu", LazyConfig(Dropout)(p=0.5, generator=torch.Generator().manual_seed(1)))
    seen = []
    mlp.layer2.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    x = torch.randn(64, 4)
    mlp(x), mlp.eval()(x)
    kept = seen[0] != 0
    torch.testing.assert_close(seen[0][kept], 2 * seen[1][kept])
    assert 0.4 < kept.sum() / (seen[1] != 0).sum() < 0.6


def test_init_methods_are_given_the_width_of_their_layer_and_biases_become_zero():
    def fill(width):
        return lambda weight: nn.init.constant_(weight, width)

    mlp = MLP(4, "glu", nn.Identity, bias=True, init_method_in=fill, init_method_out=fill)
    assert mlp.layer1.weight.eq(16).all() and mlp.layer2.weight.eq(4).all()
    assert not mlp.layer1.bias.any() and not mlp.layer2.bias.any()
    nn.init.zeros_(mlp.layer1.weight)
    reset_parameters(mlp)
    assert mlp.layer1.weight.eq(16).all()
    half = MLP(4, "glu", nn.Identity, bias=True, init_method_out=fill)
    assert half.layer1.bias.any() and half.layer2.weight.eq(4).all()


@pytest.mark.parametrize("activation", FORMULAS)
@pytest.mark.parametrize("shape", [5, (5,), (2, 3)])
def test_operations_are_those_that_torch_counts_and_the_pointwise_ones(activation, shape):
    mlp, lengths = MLP(4, activation, nn.Identity, expansion_factor=1.75), [shape] if shape == 5 else shape
    with FlopCounterMode(display=False) as counter:
        mlp(torch.randn(1, *lengths, 4))
    positions = torch.Size(lengths).numel()
    pointwise = 7 * positions * FORMULAS[activation][1]  # 1 for each activated number, 1 more for each gated one
    assert mlp.flop_count(shape) == mlp.flop_count(shape, inference=True) == counter.get_total_flops() + pointwise


@pytest.mark.parametrize("activation", FORMULAS)
@pytest.mark.parametrize("way", ["compile", "deepcopy", "pickle"])
def test_same_numbers_by_another_way(activation, way, compiled):
    mlp, x = MLP(4, activation, nn.Identity).double(), torch.randn(3, 4).double()
    ways = {"compile": compiled, "deepcopy": copy.deepcopy, "pickle": lambda m: pickle.loads(pickle.dumps(m))}
    torch.testing.assert_close(ways[way](mlp)(x), mlp(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: MLP(4, "gleu"), "activation must be one of 'relu', 'gelu', 'gelu_tanh', 'silu', "),
        (lambda: MLP(4, expansion_factor=0.2), "int.dim . expansion_factor. must be a whole number, at least 1, got 0"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
