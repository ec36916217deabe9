r"""A network that draws: it moves noise into an image of the class that it is told.

On the straight way from noise :math:`n` to an image :math:`p`, at time :math:`t` from 0 to 1,

.. math:: x_t = (1 - t)\, n + t\, p, \qquad \dot x_t = p - n

and the network learns that velocity from :math:`x_t`, :math:`t` and the class alone.

Lipman et al., 2022, https://arxiv.org/abs/2210.02747; the network, smaller, is that of Peebles & Xie, 2022,
https://arxiv.org/abs/2212.09748; guidance, Ho & Salimans, 2022, https://arxiv.org/abs/2207.12598
"""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.blocks.adaln_zero_block import AdaLNZeroResidualBlock
from residual_edu.errors import (
    check_batch,
    check_floating,
    check_labels,
    check_not_negative,
    check_rate,
    check_size,
    check_square,
)
from residual_edu.parts.attention import attention
from residual_edu.parts.layer_norm import LayerNorm
from residual_edu.parts.mlp import SimpleFeedForward


class SelfAttention(nn.Module):
    r"""One head of attention between all positions: :math:`W_o\,\mathrm{softmax}(q k^\top / \sqrt{d})\, v`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(
        self, x: Float[Tensor, "batch positions channels"], *, conditioning: Tensor | None = None
    ) -> Float[Tensor, "batch positions channels"]:
        """Mix the positions of ``x``; the condition has come with the norm before, and is not asked again."""
        return self.out(attention(*self.qkv(x).chunk(3, dim=-1)))


def denoiser_block(dim: int) -> AdaLNZeroResidualBlock:
    """Return attention and an MLP, behind norms that have no gain of their own: the condition gives it."""
    mixer, mlp = partial(SelfAttention, dim), partial(SimpleFeedForward, dim, 2 * dim)
    norm = partial(LayerNorm, dim, elementwise_affine=False)
    return AdaLNZeroResidualBlock(mixer, norm, mlp, norm, nn.Identity, nn.Identity, dim)


class Denoiser(nn.Module):
    """Says where the pixels of a noisy image should go, for a time and a class; at the start it says 0 everywhere.

    The image is cut into ``grid`` times ``grid`` patches, each one position of the stream.

    Args:
        patch_size: pixels along a patch, at least 1.
        grid: patches along the image, at least 1.
        hidden_dim: number of channels of the stream, at least 1.
        depth: number of blocks, at least 1.
        num_classes: number of classes, at least 1; the label ``num_classes`` stands for "any of them".

    Raises:
        InvalidInput: for a size out of range, images of another size, or times and labels that do not fit them.
    """

    def __init__(self, patch_size: int, grid: int, hidden_dim: int, depth: int, num_classes: int) -> None:
        super().__init__()
        check_size("patch_size", patch_size)
        check_size("grid", grid)
        check_size("hidden_dim", hidden_dim)
        check_size("depth", depth)
        check_size("num_classes", num_classes)
        self.patch_size, self.grid, self.num_classes = patch_size, grid, num_classes
        self.patches = nn.Linear(patch_size**2, hidden_dim)
        self.position = nn.Parameter(torch.randn(grid**2, hidden_dim) / 2)
        self.label = nn.Embedding(num_classes + 1, hidden_dim)
        self.time = nn.Sequential(nn.Linear(1, hidden_dim), nn.SiLU(), nn.Linear(hidden_dim, hidden_dim))
        self.blocks = nn.ModuleList(denoiser_block(hidden_dim) for _ in range(depth))
        self.norm = LayerNorm(hidden_dim, elementwise_affine=False)
        self.final = nn.Linear(hidden_dim, patch_size**2)
        nn.init.zeros_(self.final.weight)
        nn.init.zeros_(self.final.bias)

    def forward(
        self,
        images: Float[Tensor, "batch side side"],
        time: Float[Tensor, "#batch"],
        labels: Int[Tensor, "#batch"],
    ) -> Float[Tensor, "batch side side"]:
        """Return the velocity of each pixel; one time or one label serves all images."""
        check_square("images", images, self.grid * self.patch_size)
        check_floating("time", time)
        check_batch("time", time, len(images))
        check_batch("labels", labels, len(images))
        check_labels("labels", labels, self.num_classes + 1)
        patches = F.pixel_unshuffle(images[:, None], self.patch_size)  # (batch, pixels of a patch, grid, grid)
        x = self.patches(patches.flatten(2).mT) + self.position
        condition = self.time(time[:, None]) + self.label(labels)
        for block in self.blocks:
            x = block(x, condition)
        velocity = self.final(self.norm(x)).mT.unflatten(2, (self.grid, self.grid))
        return F.pixel_shuffle(velocity, self.patch_size)[:, 0]


def flow_matching_loss(
    model: Denoiser,
    images: Float[Tensor, "batch side side"],
    labels: Int[Tensor, "batch"],
    unlabelled: float = 0.1,
    generator: torch.Generator | None = None,
) -> Float[Tensor, ""]:
    """Return the mean squared error of the velocity at a random time of each image's way from fresh noise.

    Noise and times are drawn on the CPU. A share ``unlabelled`` of the labels, in [0, 1), is replaced by "any".

    Raises:
        InvalidInput: for a share out of range.
    """
    check_rate("unlabelled", unlabelled)
    noise = torch.randn(images.shape, generator=generator).to(images)
    time, coins = torch.rand(2, len(images), generator=generator).to(images)
    labels = labels.where(coins >= unlabelled, model.num_classes)
    on_the_way = noise.lerp(images, time[:, None, None])
    return (model(on_the_way, time, labels) - (images - noise)).square().mean()


def sample(
    model: Denoiser,
    noise: Float[Tensor, "batch side side"],
    labels: Int[Tensor, "#batch"],
    steps: int = 25,
    guidance: float = 2.0,
) -> Float[Tensor, "batch side side"]:
    """Follow the velocity from ``noise`` to images of the classes ``labels``, in straight ``steps``.

    Each step goes ``guidance`` times as far as knowing the class would lead away from the way without it; 1 is the
    plain way.

    Raises:
        InvalidInput: for fewer than 1 step, or a negative ``guidance``.
    """
    check_size("steps", steps)
    check_not_negative("guidance", guidance)
    x, anything = noise, torch.full_like(labels, model.num_classes)
    with torch.no_grad():
        for step in range(steps):
            time = noise.new_full((1,), step / steps)
            told, untold = model(x, time, labels), model(x, time, anything)
            x = x + (untold + guidance * (told - untold)) / steps
    return x
