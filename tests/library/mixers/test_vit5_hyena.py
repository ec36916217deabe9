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
    assert made.flop_count(11, inference) == made.flop_count(12, inference), "padded"
    assert ViT5HyenaAdapter(Grid, 3).flop_count(12) == 0


def test_only_whole_rows_of_tokens_and_nothing_else():
    made = ViT5HyenaAdapter(Grid, 3)
    with pytest.raises(RuntimeError, match="unflatten"):
        made(torch.zeros(2, 11, C))
    with pytest.raises(InvalidInput, match=r"^x must be floating point of shape \(batch, tokens, channels\), got "):
        made(torch.zeros(2, 6, 3, C))
    with pytest.raises(TypeError):
        ViT5HyenaAdapter(nn.LeakyReLU, 3)(torch.zeros(2, 12, C), conditioning=None)
