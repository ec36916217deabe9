"""LayerNorm's own laws, and the LayerNormalization of tutorials. What every norm must do: test_norms.py."""

import pytest
import torch

from residual_edu import InvalidInput, LayerNorm, LayerNormalization, layer_norm

pytestmark = pytest.mark.usefixtures("as_installed")


def test_four_numbers_by_hand():
    x = torch.tensor([1, 0, 0, 0], dtype=torch.float64)
    root = 3**0.5  # centred (3, -1, -1, -1)/4, variance 3/16
    expected = torch.tensor([root, -1 / root, -1 / root, -1 / root], dtype=torch.float64)
    torch.testing.assert_close(layer_norm(x, eps=0.0), expected, rtol=1e-15, atol=1e-15)


def test_rows_land_on_the_sphere_perpendicular_to_the_ones():
    y = layer_norm(torch.randn(8, 16, dtype=torch.float64), eps=0.0)
    torch.testing.assert_close(y.square().sum(-1), torch.full((8,), 16.0).double())
    torch.testing.assert_close(y.sum(-1), torch.zeros(8).double(), rtol=0, atol=1e-12)


def test_neither_shift_nor_scale_of_a_row_matters():
    x = torch.randn(8, 16, dtype=torch.float64)
    torch.testing.assert_close(layer_norm(7 * x + 3, eps=0.0), layer_norm(x, eps=0.0), rtol=1e-12, atol=1e-12)


def test_two_directions_are_lost():
    jacobian = torch.autograd.functional.jacobian(lambda x: layer_norm(x, eps=0.0), torch.randn(6).double())
    assert (torch.linalg.svdvals(jacobian) < 1e-12).sum() == 2


@pytest.mark.parametrize("eps", [1e-5, 1e-2, 1.0])
def test_eps_is_added_inside_the_root(eps):
    x = torch.tensor([1.0, -1.0], dtype=torch.float64)  # variance 1
    torch.testing.assert_close(layer_norm(x, eps=eps), x / (1 + eps) ** 0.5, rtol=1e-15, atol=0)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("options", "keys"),
    [({}, ["weight", "bias"]), ({"bias": False}, ["weight"]), ({"elementwise_affine": False}, [])],
)
def test_options_and_state_dict_are_those_of_torch(options, keys, fused):
    ours, theirs = LayerNorm(6, fused=fused, **options).double(), torch.nn.LayerNorm(6, **options).double()
    for p in theirs.parameters():
        torch.nn.init.normal_(p)
    assert list(ours.state_dict()) == keys
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 3, 6).double()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-12, atol=1e-12)
    theirs.load_state_dict(ours.state_dict())


def test_starts_as_the_plain_normalisation():
    assert LayerNorm(3).weight.tolist() == [1, 1, 1] and LayerNorm(3).bias.tolist() == [0, 0, 0]


@pytest.mark.parametrize("start", [1.0, -5.0, 100.0])
@pytest.mark.parametrize("step", [1.0, 0.1, 25.0])
def test_layer_normalization_of_any_arithmetic_progression(start, step):
    y = LayerNormalization(4)(start + step * torch.arange(4.0))
    expected = torch.tensor([-1.1619, -0.3873, 0.3873, 1.1619])
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("width", [2, 4, 64, 400])
def test_layer_normalization_is_short_of_torchs_by_an_exact_ratio(width):
    x = torch.randn(5, width, dtype=torch.float64)
    ours = LayerNormalization(width, eps=1e-300).double()(x)
    theirs = torch.nn.functional.layer_norm(x, (width,), eps=0.0)
    torch.testing.assert_close(ours, theirs * ((width - 1) / width) ** 0.5, rtol=1e-13, atol=1e-13)


def test_layer_normalization_against_its_formula():
    module, x = LayerNormalization(5, eps=0.5).double(), torch.randn(3, 5, dtype=torch.float64)
    torch.nn.init.normal_(module.alpha), torch.nn.init.normal_(module.bias)
    alpha, bias = module.alpha.detach().numpy(), module.bias.detach().numpy()
    n = x.numpy()
    expected = alpha * (n - n.mean(-1, keepdims=True)) / (n.std(-1, ddof=1, keepdims=True) + 0.5) + bias
    torch.testing.assert_close(module(x).detach(), torch.as_tensor(expected), rtol=1e-13, atol=1e-13)
    assert list(module.state_dict()) == ["alpha", "bias"]


def test_a_single_feature_is_the_bias_as_torch_has_it():
    x, ours, theirs = torch.randn(3, 1), LayerNorm(1), torch.nn.LayerNorm(1)
    torch.nn.init.constant_(ours.bias, 0.5)
    torch.nn.init.constant_(theirs.bias, 0.5)
    assert ours(x).equal(theirs(x)) and ours(x).eq(0.5).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LayerNorm(4, 0.0), "eps must be a finite number above 0, got 0.0"),
        (lambda: layer_norm(torch.zeros(2, 4), eps=-1.0), "eps must be at least 0, got -1.0"),
        (
            lambda: LayerNorm(4, elementwise_affine=False, fused=False)(torch.zeros(2, 3)),
            "x must be floating point of shape",
        ),
        (lambda: LayerNorm(4)(torch.zeros(2, 4, dtype=torch.int64)), "x must be floating point"),
        (lambda: layer_norm(torch.tensor([1, 0, 0, 0])), "x must be floating point"),
        (lambda: layer_norm(torch.zeros(2, 4), torch.ones(1)), "weight must be floating point of shape"),
        (lambda: layer_norm(torch.zeros(2, 1), bias=torch.ones(4)), "weight must be floating point of shape"),
        (lambda: LayerNormalization(1), "features must be a whole number, at least 2, got 1"),
        (lambda: LayerNormalization(4, -1.0), "eps must be a finite number above 0, got -1.0"),
        (lambda: LayerNormalization(4)(torch.zeros(3, 1)), "x must be floating point of shape"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
