import pytest
import torch

from residual_edu import InvalidInput, L2Norm, PerHeadRMSNorm
from residual_edu.parts.flop_count import flop_count

pytestmark = pytest.mark.usefixtures("as_installed")


def test_three_and_four_have_length_five():
    torch.testing.assert_close(L2Norm()(torch.tensor([[3.0, 4.0]])), torch.tensor([[0.6, 0.8]]))


@pytest.mark.parametrize("dim", [-1, 1])
def test_lengths_are_one_along_the_axis(dim):
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    y = L2Norm(dim)(x)
    torch.testing.assert_close(y.norm(dim=dim), torch.ones_like(y.norm(dim=dim)), rtol=1e-14, atol=0)
    torch.testing.assert_close(torch.cosine_similarity(x, y, dim=dim), torch.ones_like(y.norm(dim=dim)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_zeros_stay_zeros_in_every_dtype(dtype):
    y = L2Norm()(torch.zeros(2, 4, dtype=dtype))
    assert y.dtype == dtype and torch.equal(y, torch.zeros(2, 4, dtype=dtype))


def test_it_has_no_parameters():
    assert not L2Norm().state_dict()


def test_each_head_by_itself_with_one_gain():
    norm = PerHeadRMSNorm(3, 4, eps=1e-5).double()
    assert list(norm.state_dict()) == ["norm.weight"] and norm.norm.weight.shape == (4,)
    torch.nn.init.uniform_(norm.norm.weight)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    heads = [torch.nn.functional.rms_norm(head, (4,), norm.norm.weight, 1e-5) for head in x.split(4, dim=-1)]
    torch.testing.assert_close(norm(x), torch.cat(heads, dim=-1), rtol=1e-13, atol=1e-13)


def test_cost():
    assert flop_count(PerHeadRMSNorm(3, 4), (5, 2)) == 3 * 10 * 12


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: L2Norm(eps=0.0), "eps must be a finite number above 0, got 0.0"),
        (lambda: L2Norm()(torch.ones(2, dtype=torch.int64)), "x must be floating point"),
        (lambda: PerHeadRMSNorm(2, 4, eps=-1.0), "eps must be a finite number above 0, got -1.0"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
