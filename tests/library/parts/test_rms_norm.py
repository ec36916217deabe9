"""RMSNorm's own laws. What every norm must do: test_norms.py."""

import pytest
import torch

from residual_edu import InvalidInput, RMSNorm, rms_norm

pytestmark = pytest.mark.usefixtures("as_installed")


def test_three_and_four_by_hand():
    x = torch.tensor([3, 4], dtype=torch.float64)  # mean square 25/2
    torch.testing.assert_close(rms_norm(x, eps=0.0), x / 12.5**0.5, rtol=1e-15, atol=0)


def test_rows_keep_their_direction_and_land_on_the_sphere():
    x = torch.randn(8, 16, dtype=torch.float64)
    y = rms_norm(x, eps=0.0)
    torch.testing.assert_close(y.norm(dim=-1), torch.full((8,), 4.0).double())
    torch.testing.assert_close(torch.cosine_similarity(x, y), torch.ones(8).double())


def test_the_scale_of_a_row_does_not_matter_its_shift_does():
    x = torch.randn(8, 16, dtype=torch.float64)
    torch.testing.assert_close(rms_norm(7 * x, eps=0.0), rms_norm(x, eps=0.0), rtol=1e-12, atol=1e-12)
    assert (rms_norm(x + 3, eps=0.0) - rms_norm(x, eps=0.0)).abs().max() > 0.1


def test_one_direction_is_lost():
    jacobian = torch.autograd.functional.jacobian(lambda x: rms_norm(x, eps=0.0), torch.randn(6).double())
    assert (torch.linalg.svdvals(jacobian) < 1e-12).sum() == 1


@pytest.mark.parametrize("eps", [1e-6, 1e-2, 1.0])
def test_eps_is_added_inside_the_root(eps):
    x = torch.tensor([1.0, -1.0], dtype=torch.float64)  # mean square 1
    torch.testing.assert_close(rms_norm(x, eps=eps), x / (1 + eps) ** 0.5, rtol=1e-15, atol=0)


def test_state_dict_is_that_of_torch():
    assert list(RMSNorm(4).state_dict()) == list(torch.nn.RMSNorm(4).state_dict()) == ["weight"]
    assert RMSNorm(3).weight.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: RMSNorm(4, 0.0), "eps must be a finite number above 0, got 0.0"),
        (lambda: rms_norm(torch.zeros(2, 4), eps=-1.0), "eps must be at least 0, got -1.0"),
        (lambda: RMSNorm(4, fused=False)(torch.zeros(4, 1)), "weight must be floating point of shape"),
        (lambda: RMSNorm(4)(torch.zeros(2, 4, dtype=torch.int64)), "x must be floating point"),
        (lambda: rms_norm(torch.zeros(2, 4), torch.ones(1)), "weight must be floating point of shape"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
