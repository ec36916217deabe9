"""What the tests of parts, mixers and blocks share."""

import re

import pytest
import torch
from torch import nn

from residual_edu import InvalidInput, parameter_groups


def refused(*cases, error=InvalidInput):
    """A test that each call is refused, where no hook checks its shapes, in a sentence that begins with these words."""

    @pytest.mark.usefixtures("as_installed")
    @pytest.mark.parametrize(("call", "words"), cases)
    def test(call, words):
        with pytest.raises(error, match=f"^{re.escape(words)}"):
            call()

    return test


def agree(ours, theirs, leaves, tolerance=1e-10):
    """Compare two results, and their gradients with respect to ``leaves`` under one random pull."""
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    pull, leaves = torch.randn_like(theirs), list(leaves)
    found, expected = (torch.autograd.grad(y, leaves, pull) for y in (ours, theirs))
    torch.testing.assert_close(found, expected, rtol=10 * tolerance, atol=10 * tolerance)


def normed(x, p, name):
    """A layer norm by the parameters of that name."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() * p[f"{name}.weight"] + p[f"{name}.bias"]


def rms(x, gain):
    """A root-mean-square norm."""
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain


def decayed(module):
    """Return the names of the parameters that an optimizer shrinks."""
    found = {id(p) for p in parameter_groups(module, 0.1)[0]["params"]}
    return [name for name, p in module.named_parameters() if id(p) in found]


class TableNorm(nn.Module):
    """A norm whose gain is no vector, so that only a mark spares it from weight decay."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(2, 4))
