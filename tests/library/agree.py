"""A result beside a reference's: its values, and its gradients under one random pull."""

import torch


def agree(ours, theirs, leaves, tolerance=1e-10):
    """Compare two results, and their gradients with respect to ``leaves``."""
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    pull, leaves = torch.randn_like(theirs), list(leaves)
    found, expected = (torch.autograd.grad(y, leaves, pull) for y in (ours, theirs))
    torch.testing.assert_close(found, expected, rtol=10 * tolerance, atol=10 * tolerance)
