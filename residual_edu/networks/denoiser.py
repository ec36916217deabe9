r"""A network that generates images: it predicts the velocity from noise to an image.

On the straight line from noise :math:`n` to an image :math:`p`, time t from 0 to 1,

.. math:: x_t = (1 - t)\, n + t\, p, \qquad \dot x_t = p - n

and the network learns to predict that velocity from :math:`x_t`, t and the class.
Lipman et al., 2022, https://arxiv.org/abs/2210.02747; a smaller version of the network
of Peebles & Xie, 2022, https://arxiv.org/abs/2212.09748
Guidance: Ho & Salimans, 2022, https://arxiv.org/abs/2207.12598
"""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.blocks.adaln_zero_block import AdaLNZeroResidualBlock
from residual_edu.errors import InvalidInput, check_rate, check_shape, check_size
from residual_edu.parts.attention import attention
from residual_edu.parts.layer_norm import LayerNorm
from residual_edu.parts.mlp import SimpleFeedForward
from residual_edu.parts.start import fill
from residual_edu.parts.weight_decay import no_weight_decay

Stream = Float[Tensor, "batch positions channels"]
Images = Float[Tensor, "batch side side"]
Times = Float[Tensor, "#batch"]
Labels = Int[Tensor, "#batch"]


class SelfAttention(nn.Module):
    r"""One head: :math:`W_o\,\mathrm{softmax}(q k^\top / \sqrt{d})\, v`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Stream, *, conditioning: Tensor | None = None) -> Stream:
        """Mix the positions of ``x``; the norm before has applied the conditioning."""
        return self.out(attention(*self.qkv(x).chunk(3, dim=-1)))


def denoiser_block(dim: int) -> AdaLNZeroResidualBlock:
    """Return attention and an MLP; their norms have no gain and bias of their own."""
    mixer, mlp = partial(SelfAttention, dim), partial(SimpleFeedForward, dim, 2 * dim)
    norm = partial(LayerNorm, dim, elementwise_affine=False)
    return AdaLNZeroResidualBlock(mixer, norm, mlp, norm, nn.Identity, nn.Identity, dim)


class Denoiser(nn.Module):
    """Predicts the velocity of each pixel of noisy images, given a time and a class.

    Each patch is one position of the stream. Before training the velocity is 0.

    Args:
        patch_size: pixels along each side of a patch.
        grid: patches along each side of the image.
        hidden_dim: number of channels of the stream.
        depth: number of blocks, at least 1.
        num_classes: number of classes; the label ``num_classes`` means "any class".
    """

    def __init__(
        self, patch_size: int, grid: int, hidden_dim: int, depth: int, num_classes: int
    ) -> None:
        super().__init__()
        check_size("depth", depth)
        self.patch_size, self.grid, self.num_classes = patch_size, grid, num_classes
        self.patches = nn.Linear(patch_size**2, hidden_dim)
        self.position = nn.Parameter(torch.randn(grid**2, hidden_dim) / 2)
        self.label = no_weight_decay(nn.Embedding(num_classes + 1, hidden_dim))
        self.time = nn.Sequential(
            nn.Linear(1, hidden_dim), nn.SiLU(), nn.Linear(hidden_dim, hidden_dim)
        )
        self.blocks = nn.ModuleList(denoiser_block(hidden_dim) for _ in range(depth))
        self.norm = LayerNorm(hidden_dim, elementwise_affine=False)
        self.final = fill(nn.Linear(hidden_dim, patch_size**2), nn.init.zeros_)
        no_weight_decay(self, "position")

    def reset_parameters(self) -> None:
        """Start the table of positions and the last layer as the constructor does."""
        nn.init.normal_(self.position, std=0.5)
        fill(self.final, nn.init.zeros_)

    def forward(self, images: Images, time: Times, labels: Labels) -> Images:
        """Return the velocity of each pixel; one time or label may serve all images."""
        side = self.grid * self.patch_size
        check_shape("images", images, "batch", side, side)
        check_one_per_image("time", time, images)
        check_one_per_image("labels", labels, images)
        patches = F.pixel_unshuffle(images[:, None], self.patch_size).flatten(2).mT
        x = self.patches(patches) + self.position  # (batch, grid * grid, channels)
        condition = self.time(time[:, None]) + self.label(labels)  # (batch, channels)
        for block in self.blocks:
            x = block(x, condition)
        velocity = self.final(self.norm(x)).mT.unflatten(2, (self.grid, self.grid))
        return F.pixel_shuffle(velocity, self.patch_size)[:, 0]


def check_one_per_image(name: str, x: Tensor, images: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch,) or (1,): it would broadcast."""
    if x.ndim != 1 or x.shape[0] not in (1, images.shape[0]):
        wanted = f"shape ({images.shape[0]},), or (1,) for all images"
        raise InvalidInput(f"{name} must have {wanted}, got {tuple(x.shape)}")


def flow_matching_loss(
    model: Denoiser,
    images: Images,
    labels: Labels,
    unlabelled: float = 0.1,
    generator: torch.Generator | None = None,
) -> Float[Tensor, ""]:
    """Return the mean squared error of the velocity at a random time for each image.

    Noise and times are drawn on the CPU. With probability ``unlabelled``, in [0, 1), a
    label is replaced by "any class", ``model.num_classes``.
    """
    check_rate("unlabelled", unlabelled)
    wide = torch.float32  # in 16 bits a probability would be one of 256
    noise = torch.randn(images.shape, generator=generator, dtype=wide).to(images)
    time, draws = torch.rand(2, len(images), generator=generator, dtype=wide)
    labels = labels.where(draws.to(labels.device) >= unlabelled, model.num_classes)
    time = time.to(images)
    x_t = noise.lerp(images, time[:, None, None])
    return (model(x_t, time, labels) - (images - noise)).square().mean()


def sample_path(
    model: Denoiser,
    noise: Images,
    labels: Labels,
    steps: int = 25,
    guidance: float = 2.0,
) -> Float[Tensor, "times batch side side"]:
    """Follow the velocity from ``noise`` in equal steps; return all images on the way.

    Each of the ``steps``, at least 1, takes the velocity without a class, plus
    ``guidance`` times the difference that the class makes to it.
    """
    check_size("steps", steps)
    path, any_class = [noise], torch.full_like(labels, model.num_classes)
    with torch.no_grad():
        for step in range(steps):
            x, time = path[-1], noise.new_full((1,), step / steps)
            told, untold = model(x, time, labels), model(x, time, any_class)
            path.append(x + (untold + guidance * (told - untold)) / steps)
    return torch.stack(path)


def sample(
    model: Denoiser,
    noise: Images,
    labels: Labels,
    steps: int = 25,
    guidance: float = 2.0,
) -> Images:
    """Return the last images of ``sample_path``."""
    return sample_path(model, noise, labels, steps, guidance)[-1]
