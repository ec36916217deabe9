r"""A network that generates images: it predicts the velocity that moves noise towards an image of a given class.

On the straight line from noise :math:`n` to an image :math:`p`, at time :math:`t` from 0 to 1,

.. math:: x_t = (1 - t)\, n + t\, p, \qquad \dot x_t = p - n

and the network learns to predict that velocity from :math:`x_t`, :math:`t` and the class.

Lipman et al., 2022, https://arxiv.org/abs/2210.02747; the network is a smaller version of that of Peebles & Xie, 2022,
https://arxiv.org/abs/2212.09748; guidance, Ho & Salimans, 2022, https://arxiv.org/abs/2207.12598
"""

from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.blocks.adaln_zero_block import AdaLNZeroResidualBlock
from residual_edu.checked import NotNegative, Size, checked
from residual_edu.networks.labels import check_labels
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_device,
    check_floating,
    check_layer,
    check_rate,
    check_shape,
)
from residual_edu.parts.attention import attention
from residual_edu.parts.layer_norm import LayerNorm
from residual_edu.parts.mlp import SimpleFeedForward
from residual_edu.parts.start import fill
from residual_edu.values import is_readable


class SelfAttention(nn.Module):
    r"""One head of attention between all positions: :math:`W_o\,\mathrm{softmax}(q k^\top / \sqrt{d})\, v`."""

    @checked
    def __init__(self, dim: Size) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(
        self,
        x: Float[Tensor, "batch positions channels"],
        *,
        conditioning: Tensor | None = None,
    ) -> Float[Tensor, "batch positions channels"]:
        """Mix the positions of ``x``. ``conditioning`` is not used: the norm before has already applied it."""
        check_shape("x", x, "batch", "positions", self.qkv.in_features, layer=self.qkv)
        return self.out(attention(*self.qkv(x).chunk(3, dim=-1)))


def denoiser_block(dim: int) -> AdaLNZeroResidualBlock:
    """Return attention and an MLP, each after a norm whose gain and bias come from the condition alone."""
    mixer, mlp = partial(SelfAttention, dim), partial(SimpleFeedForward, dim, 2 * dim)
    norm = partial(LayerNorm, dim, elementwise_affine=False)
    return AdaLNZeroResidualBlock(mixer, norm, mlp, norm, nn.Identity, nn.Identity, dim)


class Denoiser(nn.Module):
    """Predicts the velocity of each pixel of noisy images, given a time and a class; before training, 0 everywhere.

    The image is cut into ``grid`` times ``grid`` patches, each one position of the stream.

    Args:
        patch_size: pixels along each side of a patch, at least 1.
        grid: patches along each side of the image, at least 1.
        hidden_dim: number of channels of the stream, at least 1.
        depth: number of blocks, at least 1.
        num_classes: number of classes, at least 1; the label ``num_classes`` stands for "any class".

    Raises:
        InvalidInput: for a size out of range, images of another size, or times and labels that do not fit them.
    """

    @checked
    def __init__(
        self,
        patch_size: Size,
        grid: Size,
        hidden_dim: Size,
        depth: Size,
        num_classes: Size,
    ) -> None:
        super().__init__()
        self.patch_size, self.grid, self.num_classes = patch_size, grid, num_classes
        self.patches = nn.Linear(patch_size**2, hidden_dim)
        self.position = nn.Parameter(torch.randn(grid**2, hidden_dim) / 2)
        self.label = nn.Embedding(num_classes + 1, hidden_dim)
        self.time = nn.Sequential(
            nn.Linear(1, hidden_dim), nn.SiLU(), nn.Linear(hidden_dim, hidden_dim)
        )
        self.blocks = nn.ModuleList(denoiser_block(hidden_dim) for _ in range(depth))
        self.norm = LayerNorm(hidden_dim, elementwise_affine=False)
        self.final = fill(nn.Linear(hidden_dim, patch_size**2), nn.init.zeros_)

    def reset_parameters(self) -> None:
        """Draw the positions again, and set the last map to 0."""
        nn.init.normal_(self.position, std=0.5)
        fill(self.final, nn.init.zeros_)

    def forward(
        self,
        images: Float[Tensor, "batch side side"],
        time: Float[Tensor, "#batch"],
        labels: Int[Tensor, "#batch"],
    ) -> Float[Tensor, "batch side side"]:
        """Return the velocity of each pixel at ``time``, 0 to 1; one time or one label serves all images."""
        self._check_inputs(images, time, labels)
        patches = F.pixel_unshuffle(
            images[:, None], self.patch_size
        )  # (batch, pixels of a patch, grid, grid)
        x = (
            self.patches(patches.flatten(2).mT) + self.position
        )  # (batch, grid * grid, channels)
        condition = self.time(time[:, None]) + self.label(
            labels
        )  # (batch or 1, channels)
        for block in self.blocks:
            x = block(x, condition)
        velocity = self.final(self.norm(x)).mT.unflatten(2, (self.grid, self.grid))
        return F.pixel_shuffle(velocity, self.patch_size)[:, 0]

    def _check_inputs(self, images: Tensor, time: Tensor, labels: Tensor) -> None:
        check_shape(
            "images",
            images,
            "batch",
            *[self.grid * self.patch_size] * 2,
            layer=self.patches,
        )
        check_floating("time", time)
        check_layer("time", time, cast(nn.Linear, self.time[0]))
        check_times("time", time)
        check_one_per_image("time", time, images)
        check_one_per_image("labels", labels, images)
        check_labels("labels", labels, self.num_classes + 1)


def check_times(name: str, time: Tensor) -> None:
    """Raise ``InvalidInput`` unless all times lie in [0, 1], where a path from noise to images is defined."""
    if is_readable(time) and not ((time >= 0) & (time <= 1)).all():
        raise InvalidInput(
            f"{name} must lie in [0, 1], got {time.min().item():g} to {time.max().item():g}"
        )


def check_one_per_image(name: str, x: Tensor, images: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch,) or (1,); (batch, 1) would give each image the others' values."""
    check_axes(name, x, "batch")
    check_axes("images", images, "batch", "height", "width")
    check_device(name, x, images)
    count = images.shape[0]
    if x.ndim != 1 or x.shape[0] not in (1, count):
        raise InvalidInput(
            f"{name} must have shape ({count},), or (1,) for all images, got {tuple(x.shape)}"
        )


def flow_matching_loss(
    model: Denoiser,
    images: Float[Tensor, "batch side side"],
    labels: Int[Tensor, "batch"],
    unlabelled: float = 0.1,
    generator: torch.Generator | None = None,
) -> Float[Tensor, ""]:
    """Return the mean squared error of the velocity, at one random time and with new noise for each image.

    Noise and times are drawn on the CPU. With probability ``unlabelled``, in [0, 1), a label is replaced by "any
    class", ``model.num_classes``.

    Raises:
        InvalidInput: for a probability out of range, or other than one label for each image.
    """
    check_rate("unlabelled", unlabelled)
    check_floating("images", images)
    check_labels("labels", labels, model.num_classes + 1)
    check_one_per_image("labels", labels, images)
    noise = torch.randn(images.shape, generator=generator).to(images)
    time, draws = torch.rand(2, images.shape[0], generator=generator).to(images)
    labels = labels.where(draws >= unlabelled, model.num_classes)
    x_t = noise.lerp(images, time[:, None, None])
    return (model(x_t, time, labels) - (images - noise)).square().mean()


@checked
def sample_path(
    model: Denoiser,
    noise: Float[Tensor, "batch side side"],
    labels: Int[Tensor, "#batch"],
    steps: Size = 25,
    guidance: NotNegative = 2.0,
) -> Float[Tensor, "times batch side side"]:
    """Follow the velocity from ``noise`` in ``steps`` equal steps of time; return the images before and after each.

    Each step takes the velocity without a class, plus ``guidance`` times the difference that the class makes to it;
    1 is the velocity with the class.

    Raises:
        InvalidInput: for fewer than 1 step, or a negative ``guidance``.
    """
    check_floating("noise", noise)
    check_one_per_image("labels", labels, noise)
    path, any_class = [noise], torch.full_like(labels, model.num_classes)
    with torch.no_grad():
        for step in range(steps):
            time = noise.new_full((1,), step / steps)
            told, untold = (
                model(path[-1], time, labels),
                model(path[-1], time, any_class),
            )
            path.append(path[-1] + (untold + guidance * (told - untold)) / steps)
    return torch.stack(path)


def sample(
    model: Denoiser,
    noise: Float[Tensor, "batch side side"],
    labels: Int[Tensor, "#batch"],
    steps: int = 25,
    guidance: float = 2.0,
) -> Float[Tensor, "batch side side"]:
    """Follow the velocity from ``noise`` to images of the classes ``labels``, as ``sample_path`` does.

    Raises:
        InvalidInput: for fewer than 1 step, or a negative ``guidance``.
    """
    return sample_path(model, noise, labels, steps, guidance)[-1]
