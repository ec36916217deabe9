import pytest
import torch
from torch import nn

from residual_edu import MLP, Dropout, LazyConfig, SimpleFeedForward, reset_parameters
from tests.library.helpers import agree


def test_two_linear_maps_with_a_relu_between():
    mlp, x = SimpleFeedForward(4, 7).double(), torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    p = dict(mlp.named_parameters())
    assert list(p) == ["linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"]
    w1, b1, w2, b2 = p.values()
    agree(mlp(x), (x @ w1.T + b1).clamp(min=0) @ w2.T + b2, [x, *p.values()], 1e-13)
    mlp, x = MLP(64), torch.randn(2, 64)  # by default a GELU twice as wide, without dropout or bias
    assert isinstance(mlp.dropout, nn.Identity) and mlp.layer1.bias is None and mlp.layer1.out_features == 128
    assert mlp(x).equal(nn.Sequential(mlp.layer1, nn.GELU(), mlp.layer2)(x))


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
def test_values_and_gradients_of_each_activation(activation, bias):
    formula, halves = FORMULAS[activation]
    mlp = MLP(4, activation, nn.Identity, expansion_factor=1.8, bias=bias).double()
    p = dict(mlp.named_parameters())
    assert p["layer1.weight"].shape == (7 * halves, 4) and p["layer2.weight"].shape == (4, 7)
    x = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    hidden = formula(x @ p["layer1.weight"].T + p.get("layer1.bias", 0))
    agree(mlp(x), hidden @ p["layer2.weight"].T + p.get("layer2.bias", 0), [x, *p.values()], 1e-12)


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
    for _ in range(2):
        assert mlp.layer1.weight.eq(16).all() and mlp.layer2.weight.eq(4).all()
        assert not mlp.layer1.bias.any() and not mlp.layer2.bias.any()
        reset_parameters(mlp)  # draws them as torch does, then fills them again
    half = MLP(4, "glu", nn.Identity, bias=True, init_method_out=fill)
    assert half.layer1.bias.any() and half.layer2.weight.eq(4).all()
