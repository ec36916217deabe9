import copy

import pytest
import torch

from residual_edu import InvalidInput, LayerScale

pytestmark = pytest.mark.usefixtures("as_installed")


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 2, 2, 3, 4), (0, 4)])
def test_values_and_gradients_in_float64(shape):
    module, x = LayerScale(4).double(), torch.randn(shape, dtype=torch.float64, requires_grad=True)
    torch.nn.init.normal_(module.gamma)
    g = torch.randn(shape, dtype=torch.float64)
    y = module(x)
    y.backward(g)
    gamma, n = module.gamma.detach(), x.detach()
    assert y.equal(n * gamma) and x.grad.equal(g * gamma)
    torch.testing.assert_close(module.gamma.grad, (g * n).reshape(-1, 4).sum(0))


@pytest.mark.parametrize("init_value", [1e-4, 0.0, 1, 0.1])
def test_every_channel_starts_at_the_same_value(init_value):
    module = LayerScale(3, init_value)
    assert module.gamma.dtype == torch.float32
    assert module.gamma.tolist() == [torch.tensor(init_value, dtype=torch.float32).item()] * 3


def test_the_name_the_default_and_the_repr():
    module = LayerScale(3)
    assert list(module.state_dict()) == ["gamma"] and repr(module) == "LayerScale(3)"
    torch.testing.assert_close(module.gamma.detach(), torch.full((3,), 1e-4))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("parameters", [torch.float32, torch.bfloat16])
def test_the_dtype_is_kept(parameters, dtype):
    assert LayerScale(4).to(parameters)(torch.ones(2, 4, dtype=dtype)).dtype == dtype


def test_a_small_gamma_is_not_rounded_to_16_bits_before_it_is_used():
    x, module = torch.full((1, 1), 1000.0, dtype=torch.float16), LayerScale(1, 1e-7)
    torch.testing.assert_close(module(x).item(), 1e-4, rtol=1e-3, atol=0)  # float16 has 1.2e-7 beside 1e-7


def test_compile_vmap_deepcopy(compiled):
    module, x = LayerScale(4, 0.5), torch.randn(3, 4)
    expected = module(x)
    assert compiled(module)(x).equal(expected)
    assert torch.vmap(module)(x).equal(expected) and copy.deepcopy(module)(x).equal(expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LayerScale(4, -1e-4), "init_value must be at least 0, got -0.0001"),
        (lambda: LayerScale(4)(torch.zeros(2, 1)), "x must be floating point of shape"),
        (lambda: LayerScale(4)(torch.arange(4)), "x must be floating point of shape"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
