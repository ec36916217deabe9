r"""Patches: split a signal into pieces of equal size, each mapped to one position of the stream, and the way back.

.. math:: y_j = \sum_k W_k\, x_{s j + k} + b, \qquad 0 \le k < p \text{ along each axis}

With stride s = p the patches do not overlap. The way back is a transposed convolution, which sums where they overlap.
Dosovitskiy et al., 2020, https://arxiv.org/abs/2010.11929
"""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import DataDim, Flag, Size, checked
from residual_edu.old_errors import check_fits, check_signal


class Patchify(nn.Module):
    """Map each patch of a signal to one position: a strided convolution, channels last.

    Args:
        in_features: number of channels of the signal, at least 1.
        out_features: number of channels of a position, at least 1.
        data_dim: number of space axes, 1 to 3.
        patch_size: length of a patch along each axis, at least 1.
        stride: step between patches, at least 1; ``patch_size`` unless it is given.
        bias: whether to learn a bias.

    Raises:
        InvalidInput: for a size out of range, a signal of another shape, or one shorter than a patch.
    """

    @checked
    def __init__(
        self,
        in_features: Size,
        out_features: Size,
        data_dim: DataDim,
        patch_size: Size,
        stride: Size | None = None,
        bias: Flag = True,
    ) -> None:
        super().__init__()
        self.data_dim, self.patch_size, self.stride = (
            data_dim,
            patch_size,
            stride or patch_size,
        )
        convolution = getattr(nn, f"Conv{data_dim}d")
        self.conv = convolution(
            in_features, out_features, patch_size, self.stride, bias=bias
        )

    def forward(
        self, x: Float[Tensor, "batch *space in_features"]
    ) -> Float[Tensor, "batch *grid out_features"]:
        """Return ``(length - patch_size) // stride + 1`` positions along each axis of ``x``."""
        check_patches(x, self.conv, [self.patch_size] * self.data_dim)
        return self.conv(x.movedim(-1, 1)).movedim(1, -1)


class Unpatchify(nn.Module):
    """Map each position back to a patch of the signal: a transposed convolution, channels last.

    Args:
        in_features: number of channels of a position, at least 1.
        out_features: number of channels of the signal, at least 1.
        data_dim, patch_size, stride, bias: as in ``Patchify``.

    Raises:
        InvalidInput: for a size out of range, or positions of another shape.
    """

    @checked
    def __init__(
        self,
        in_features: Size,
        out_features: Size,
        data_dim: DataDim,
        patch_size: Size,
        stride: Size | None = None,
        bias: Flag = True,
    ) -> None:
        super().__init__()
        self.data_dim, self.patch_size, self.stride = (
            data_dim,
            patch_size,
            stride or patch_size,
        )
        deconvolution = getattr(nn, f"ConvTranspose{data_dim}d")
        self.deconv = deconvolution(
            in_features, out_features, patch_size, self.stride, bias=bias
        )

    def forward(
        self, x: Float[Tensor, "batch *grid in_features"]
    ) -> Float[Tensor, "batch *space out_features"]:
        """Return ``(length - 1) * stride + patch_size`` positions along each axis of ``x``."""
        check_signal("x", x, self.deconv.in_channels, self.data_dim, self.deconv)
        return self.deconv(x.movedim(-1, 1)).movedim(1, -1)


def check_patches(
    x: Tensor, conv: nn.Conv1d | nn.Conv2d | nn.Conv3d, patch: list[int]
) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a signal that fits ``conv``, no axis shorter than a ``patch``."""
    check_signal("x", x, conv.in_channels, len(patch), conv)
    check_fits("patch_size", patch, x.shape[1:-1])
