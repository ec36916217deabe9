"""The mixing matrix against the whole Jacobian, and on maps whose mixing is known."""

import weakref

import pytest
import torch
from torch import nn

from residual_edu.gradient_flow import mixing_matrix

pytestmark = pytest.mark.usefixtures("all_as_installed")


def test_it_is_the_norm_of_the_jacobian():
    """From 2 x 3 positions of 3 channels to 5 of 4, with slopes as small as float32 cannot square."""
    mix, change = torch.randn(5, 6).double(), 1e-30 * torch.randn(4, 3).double()

    def module(x):
        return mix @ x.flatten(1, -2).tanh() @ change.T

    x = torch.randn(1, 2, 3, 3).double()
    jacobian = torch.autograd.functional.jacobian(module, x).view(5, 4, 6, 3)
    torch.testing.assert_close(mixing_matrix(module, x), jacobian.norm(dim=(1, 3)), rtol=1e-12, atol=0)
    torch.testing.assert_close(mixing_matrix(lambda z: 1e-30 * z, torch.ones(1, 1, 1)).item(), 1e-30, atol=0, rtol=1e-6)


def test_samples_are_averaged_as_squares():
    x = torch.tensor([[[3.0]], [[4.0]]])  # slopes 3 and 4
    torch.testing.assert_close(mixing_matrix(lambda x: x.square() / 2, x), torch.tensor([[12.5**0.5]]).double())


def test_it_changes_nothing_and_needs_no_grad_mode():
    module, x = nn.Linear(3, 3).eval(), torch.randn(1, 4, 3)
    with torch.no_grad():
        assert mixing_matrix(module, x).any()
    assert not module.training and not x.requires_grad
    assert all(weight.grad is None for weight in module.parameters())


def test_it_holds_one_row_of_the_jacobian_at_a_time(monkeypatch):
    """Each backward pass gives a row, a gradient of x; when the next begins, at most the last one is still there."""
    rows, alive, grad = [], [], torch.autograd.grad

    def watched(*args, **options):
        alive.append(sum(row() is not None for row in rows))
        result = grad(*args, **options)
        rows.append(weakref.ref(result[0]))
        return result

    monkeypatch.setattr(torch.autograd, "grad", watched)
    mixing_matrix(nn.Linear(3, 4), torch.randn(1, 5, 3))
    assert len(rows) == 5 * 4 and max(alive) <= 1
