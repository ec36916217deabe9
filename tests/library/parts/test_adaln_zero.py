import pytest
import torch

from residual_edu import InvalidInput, LayerNorm, Modulation, modulations, zero_projection

pytestmark = pytest.mark.usefixtures("as_installed")


def test_a_modulation_by_hand():
    x = torch.tensor([[[1.0, 10.0]]])
    modulation = Modulation(*torch.tensor([[[[5.0, 6.0]]], [[[1.0, -1.0]]], [[[0.5, 0.0]]]]))
    assert modulation.modulate(lambda h: h)(x).tolist() == [[[7.0, 6.0]]]  # x (1 + scale) + shift
    assert modulation.apply_gate(x).tolist() == [[[0.5, 0.0]]]


def test_no_scale_and_no_shift_leave_the_norm_as_it_is():
    norm, x = LayerNorm(4), torch.randn(2, 3, 4)
    assert Modulation(*torch.zeros(3, 2, 1, 4)).modulate(norm)(x).equal(norm(x))


def test_the_projection_starts_at_zero_with_silu_before_it():
    projection = zero_projection(4, branches=3)
    assert list(projection.state_dict()) == ["1.weight", "1.bias"]
    assert projection[1].weight.shape == (36, 4) and not any(p.any() for p in projection.parameters())
    torch.nn.init.normal_(projection[1].weight)
    c = torch.randn(2, 4)
    torch.testing.assert_close(projection(c), (c * torch.sigmoid(c)) @ projection[1].weight.T)


@pytest.mark.parametrize("ndim", [2, 3, 4, 5])
@pytest.mark.parametrize("branches", [1, 2, 3])
def test_pieces_come_in_the_order_shift_scale_gate_branch_by_branch(branches, ndim):
    dim = 4
    projected = torch.arange(2.0 * 3 * branches * dim).view(2, -1)
    found = modulations(projected, ndim, branches)
    assert [m._fields for m in found] == [("shift", "scale", "gate")] * branches
    for k, piece in enumerate(piece for m in found for piece in m):
        assert piece.shape == (2, *[1] * (ndim - 2), dim)
        assert piece.reshape(2, dim).equal(projected[:, k * dim : (k + 1) * dim])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: modulations(torch.zeros(2, 10), 3), "projected must have a multiple of 6 parameters, got 10"),
        (
            lambda: Modulation(*torch.zeros(3, 2, 1, 4)).apply_gate(torch.zeros(2, 5, 1)),
            "branch must be floating point of shape",
        ),
        (
            lambda: Modulation(*torch.zeros(3, 2, 1, 1)).apply_gate(torch.zeros(2, 5, 4)),
            "branch must be floating point of shape",
        ),
        (
            lambda: Modulation(*torch.zeros(3, 2, 1, 4)).apply_gate(torch.zeros(1, 5, 4)),
            "branch . gate must have the shape of branch",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
