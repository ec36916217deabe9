import re
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import CKConv, InvalidInput, QKVSequenceMixer, SIRENKernel, ViT5HyenaAdapter

pytestmark = pytest.mark.usefixtures("as_installed")

C = 4


class Grid(nn.Module):
    """Keeps its input."""

    def forward(self, x, *, conditioning=None):
        self.x, self.conditioning = x, conditioning
        return 2 * x


def test_tokens_are_reshaped_to_rows_and_flattened_again():
    made, x, c = ViT5HyenaAdapter(Grid, 3), torch.randn(2, 12, C), torch.randn(2, C)
    y = made(x, conditioning=c)
    assert y.equal(2 * x) and made.inner_mixer.x.shape == (2, 4, 3, C) and made.inner_mixer.conditioning is c
    assert made.inner_mixer.x[:, 1, 2].equal(x[:, 5])


def real():
    kernel = partial(SIRENKernel, C, 2, 5, num_layers=2, embedding_dim=4, omega_0=1.0, L_cache=4, use_bias=True)
    return partial(QKVSequenceMixer, C, partial(CKConv, 2, C, kernel, nn.Identity, "double", "zero"))


def test_around_a_convolution_it_is_that_convolution_of_the_picture():
    made, x = ViT5HyenaAdapter(real(), 3), torch.randn(2, 4, 3, C)
    torch.testing.assert_close(made(x.flatten(1, 2)).view(x.shape), made.inner_mixer(x))
    assert all(name.startswith("inner_mixer.") for name in made.state_dict())


@pytest.mark.parametrize("inference", [False, True])
def test_the_cost_is_that_of_the_grid(inference):
    made = ViT5HyenaAdapter(real(), 3)
    assert made.flop_count(12, inference) == made.inner_mixer.flop_count((4, 3), inference) > 0
    assert ViT5HyenaAdapter(Grid, 3).flop_count(12) == 0


def adapted(*shape):
    return ViT5HyenaAdapter(Grid, 3)(torch.zeros(shape))


REFUSED = [
    (lambda: ViT5HyenaAdapter(Grid, 0), "grid_w must be at least 1, got 0"),
    (lambda: ViT5HyenaAdapter(nn.LeakyReLU, 3), "inner_mixer must take (x, conditioning=), LeakyReLU.forward takes "),
    (lambda: adapted(2, 4, 3, C), "x must have shape (batch, tokens, channels), got (2, 4, 3, 4)"),
    (lambda: adapted(2, 11, C), "the number of tokens must be a multiple of grid_w=3, got 11; pad them with 1 more"),
    (lambda: ViT5HyenaAdapter(Grid, 3).flop_count(11), "the number of tokens must be a multiple of grid_w=3, got 11"),
]


@pytest.mark.parametrize("call, words", REFUSED)
def test_refusals(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()
