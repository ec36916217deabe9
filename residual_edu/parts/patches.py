r"""Patches: split a signal into pieces, each mapped to one position, and the way back.

.. math:: y_j = \sum_k W_k\, x_{s j + k} + b, \qquad 0 \le k < p \text{ along each axis}

With stride s = p the patches do not overlap; where they do, the way back sums.
Dosovitskiy et al., 2020, https://arxiv.org/abs/2010.11929
"""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_shape
from residual_edu.parts.flop_count import Signal

Grid = Float[Tensor, "batch *grid features"]


class Patchify(nn.Module):
    """Map each patch of a signal to one position; channels are last.

    Args:
        in_features, out_features: number of channels of the signal, and of a position.
        data_dim: number of axes of space, 1 to 3.
        patch_size: length of a patch along each axis, at least 1.
        stride: step between patches, at least 1; ``patch_size`` by default.
        bias: whether to learn a bias.
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
        self.data_dim, self.patch_size = data_dim, patch_size
        self.stride = patch_size if stride is None else stride
        sizes = in_features, out_features, patch_size, self.stride
        self.conv = getattr(nn, f"Conv{data_dim}d")(*sizes, bias=bias)

    def forward(self, x: Signal) -> Grid:
        """Return ``(length - patch_size) // stride + 1`` positions along each axis."""
        check_shape("x", x, "batch", *"xyz"[: self.data_dim], self.conv.in_channels)
        return self.conv(x.movedim(-1, 1)).movedim(1, -1)


class Unpatchify(nn.Module):
    """Map each position back to a patch of the signal; channels are last.

    Args:
        in_features, out_features: number of channels of a position, and of the signal.
        data_dim, patch_size, stride, bias: as in ``Patchify``.
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
        self.data_dim, self.patch_size = data_dim, patch_size
        self.stride = patch_size if stride is None else stride
        sizes = in_features, out_features, patch_size, self.stride
        self.deconv = getattr(nn, f"ConvTranspose{data_dim}d")(*sizes, bias=bias)

    def forward(self, x: Grid) -> Signal:
        """Return ``(length - 1) * stride + patch_size`` positions along each axis."""
        check_shape("x", x, "batch", *"xyz"[: self.data_dim], self.deconv.in_channels)
        return self.deconv(x.movedim(-1, 1)).movedim(1, -1)
