r"""Patches: a signal cut into equal pieces, each mapped to one position of the stream, and the way back.

.. math:: y_j = \sum_k W_k\, x_{s j + k} + b, \qquad 0 \le k < p \text{ along each axis}

With stride s = p the pieces do not overlap; a transposed convolution puts them back, and sums where they do.
Dosovitskiy et al., 2020, https://arxiv.org/abs/2010.11929
"""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_data_dim, check_fits, check_shape, check_sizes


class Patchify(nn.Module):
    """Map each patch of a signal to one position: a strided convolution, channels last.

    Args:
        in_features: number of channels of the signal, at least 1.
        out_features: number of channels of a position, at least 1.
        data_dim: number of space axes, 1 to 3.
        patch_size: length of a patch along each axis, at least 1.
        stride: step from patch to patch, at least 1; ``patch_size`` if none is given.
        bias: whether to learn a bias.

    Raises:
        InvalidInput: for a size out of range, a signal of another shape, or one shorter than a patch.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        data_dim: int,
        patch_size: int,
        stride: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        stride = patch_size if stride is None else stride
        check_data_dim("data_dim", data_dim)
        check_sizes(in_features=in_features, out_features=out_features, patch_size=patch_size, stride=stride)
        self.data_dim, self.patch_size, self.stride = data_dim, patch_size, stride
        self.conv = getattr(nn, f"Conv{data_dim}d")(in_features, out_features, patch_size, stride, bias=bias)

    def forward(self, x: Float[Tensor, "batch *space in_features"]) -> Float[Tensor, "batch *grid out_features"]:
        """Return ``(length - patch_size) // stride + 1`` positions along each axis of ``x``."""
        check_shape("x", x, self.data_dim, self.conv.in_channels)
        check_fits("patch_size", [self.patch_size] * self.data_dim, x.shape[1:-1])
        return self.conv(x.movedim(-1, 1)).movedim(1, -1)


class Unpatchify(nn.Module):
    """Map each position back to a patch of the signal: a transposed convolution, channels last.

    Args:
        in_features: number of channels of a position, at least 1.
        out_features: number of channels of the signal, at least 1.
        data_dim: number of space axes, 1 to 3.
        patch_size: length of a patch along each axis, at least 1.
        stride: step from patch to patch, at least 1; ``patch_size`` if none is given.
        bias: whether to learn a bias.

    Raises:
        InvalidInput: for a size out of range, or a grid of another shape.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        data_dim: int,
        patch_size: int,
        stride: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        stride = patch_size if stride is None else stride
        check_data_dim("data_dim", data_dim)
        check_sizes(in_features=in_features, out_features=out_features, patch_size=patch_size, stride=stride)
        self.data_dim, self.patch_size, self.stride = data_dim, patch_size, stride
        self.deconv = getattr(nn, f"ConvTranspose{data_dim}d")(in_features, out_features, patch_size, stride, bias=bias)

    def forward(self, x: Float[Tensor, "batch *grid in_features"]) -> Float[Tensor, "batch *space out_features"]:
        """Return ``(length - 1) * stride + patch_size`` positions along each axis of ``x``."""
        check_shape("x", x, self.data_dim, self.deconv.in_channels)
        return self.deconv(x.movedim(-1, 1)).movedim(1, -1)
