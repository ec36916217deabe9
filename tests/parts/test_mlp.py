import pytest
import torch

from residual_edu import InvalidInput, SimpleFeedForward

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


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 8), "d_model must be at least 1, got 0"),
        ((4, -1), "d_ff must be at least 1, got -1"),
        ((4, 8.0), r"d_ff must be a whole number, got 8\.0"),
    ],
)
def test_what_cannot_be_built(sizes, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        SimpleFeedForward(*sizes)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(()), r"x must have a feature axis of 4, got a single number \(no axes\)"),
        (torch.zeros(2, 7), r"x must have 4 features on its last axis, got shape \(2, 7\)"),
        (torch.zeros(2, 4, dtype=torch.long), r"x must be floating point, got torch\.int64; .*"),
    ],
)
def test_what_it_cannot_take(x, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        SimpleFeedForward(4, 7)(x)
