r"""CKConv: a convolution whose kernel is as long as the signal and is said, not stored.

.. math:: y_i = \sum_j k(p_{i - j}) \, m(p_{i - j}) \, x_j + s \, x_i

k is an implicit kernel, m a mask, s a shortcut for each channel.

Romero, Kuzina, Bekkers, Tomczak & Hoogendoorn, 2022, https://arxiv.org/abs/2102.02611; Knigge et al., 2023,
https://arxiv.org/abs/2301.10540
"""

from collections.abc import Sequence
from math import log2, prod, sqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import (
    check_causal_axes,
    check_choice,
    check_data_dim,
    check_equal,
    check_grid_type,
    check_one_per_axis,
    check_shape,
    check_size,
)
from residual_edu.mixers.long_convolution import Padding, circle_size, long_convolution, padding_of_each_axis
from residual_edu.parts.flop_count import Shape, count_positions, flop_count
from residual_edu.parts.residual import is_bypassed


class CKConv(nn.Module):
    r"""Convolve each channel with a long implicit kernel, and add :math:`s \cdot x`.

    Args:
        data_dim: number of space axes, 1 to 3.
        hidden_dim: number of channels, at least 1.
        kernel_cfg: what to build (``config.build``) to say the kernel, such as ``SIRENKernel``: called with a length
            for each axis and a condition, it returns 2 length - 1 taps along each, and their grid.
        mask_cfg: what to build to fade the kernel: ``forward(grid, kernel)``, or ``nn.Identity``.
        grid_type: ``"double"``, 2 T - 1 taps, so that either end hears the other; ``"single"``, about T taps, half of
            them to either side; ``None``: single along circular axes, double along the others.
        fft_padding: what lies beyond the ends, ``"zero"`` or ``"circular"``, for all axes or a list with one for each.
        is_causal: whether a position hears only itself and earlier ones: of the taps, those from the middle on. One
            axis only.

    Raises:
        InvalidInput: for numbers or names out of range, what does not go together, or a signal of another shape.
    """

    def __init__(
        self,
        data_dim: int,
        hidden_dim: int,
        kernel_cfg: Spec,
        mask_cfg: Spec,
        grid_type: str | None,
        fft_padding: Padding,
        is_causal: bool = False,
    ) -> None:
        super().__init__()
        check_data_dim("data_dim", data_dim)
        check_size("hidden_dim", hidden_dim)
        paddings = padding_of_each_axis("fft_padding", fft_padding, data_dim, ["zero", "circular"])
        if grid_type is not None:
            check_choice("grid_type", grid_type, ["double", "single"])
        check_grid_type(grid_type, paddings)
        if is_causal:
            check_causal_axes(data_dim, paddings)
        self.data_dim, self.hidden_dim, self.is_causal = data_dim, hidden_dim, is_causal
        self.single = [grid_type == "single" or padding == "circular" for padding in paddings]
        self.paddings = ["causal"] if is_causal else paddings
        self.kernel, self.mask = build(kernel_cfg), build(mask_cfg)
        check_equal("kernel's out_dim", getattr(self.kernel, "out_dim", hidden_dim), hidden_dim, "hidden_dim")
        check_equal("kernel's data_dim", getattr(self.kernel, "data_dim", data_dim), data_dim, "as many axes as here")
        self.shortcut = nn.Parameter(torch.empty(hidden_dim).uniform_(-1, 1) / sqrt(hidden_dim))

    def forward(
        self, x: Float[Tensor, "batch *space channels"], *, conditioning: Float[Tensor, "#batch features"] | None = None
    ) -> Float[Tensor, "batch *space channels"]:
        """Mix the positions of ``x``; ``conditioning`` goes to the kernel, which may bend by it, sample by sample."""
        check_shape("x", x, self.data_dim, self.hidden_dim)
        kernel = self.taps(x.shape[1:-1], conditioning)
        return long_convolution(x, kernel, self.paddings) + (self.shortcut * x).type_as(x)

    def taps(
        self, space: Sequence[int], conditioning: Float[Tensor, "samples features"] | None = None
    ) -> Float[Tensor, "kernels *taps channels"]:
        """Return the kernel, masked, for a signal with axes of length ``space``."""
        kernel, grid = self.kernel(self._lengths(space), conditioning)
        kernel = kernel if is_bypassed(self.mask) else self.mask(grid, kernel)
        return kernel[:, kernel.shape[1] // 2 :] if self.is_causal else kernel

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: the kernel, three transforms (two where it can be kept), and the products."""
        space = [shape] if isinstance(shape, int) else list(shape)
        check_one_per_axis("shape", space, self.data_dim)
        lengths, positions = self._lengths(space), count_positions(space)
        taps = [length if self.is_causal else 2 * length - 1 for length in lengths]
        sizes = [circle_size(*each) for each in zip(space, taps, self.paddings, strict=True)]
        said = flop_count(self.kernel, lengths, inference)
        transforms = 2 if inference and said == 0 else 3
        points = self.hidden_dim * prod(sizes)
        return said + int(transforms * 5 * points * sum(map(log2, sizes))) + 6 * points + self.hidden_dim * positions

    def _lengths(self, space: Sequence[int]) -> list[int]:
        """Return how far the kernel reaches along each axis, its middle tap included."""
        return [(length + 1) // 2 if single else length for length, single in zip(space, self.single, strict=True)]


CKConvND = CKConv
