r"""Masks for long kernels: each channel's taps shrink with their distance, at a scale that is learned.

.. math::
    \text{exponential:} \; &k(p) \leftarrow k(p) \prod_d e^{-|p_d| |w_d|} \\
    \text{Gaussian:} \; &k(p) \leftarrow k(p) \prod_d e^{-p_d^2 / 2 \sigma_d^2}

p is the position of a tap, in [-1, 1] for a kernel of the length that its network was made for.
Romero et al., 2021, https://arxiv.org/abs/2110.08059; Poli et al., 2023, https://arxiv.org/abs/2302.10866
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from residual_edu.checked import DataDim, Positive, Size, checked
from residual_edu.old_errors import InvalidInput, check_device, check_width
from residual_edu.parts.start import copy_values
from residual_edu.parts.weight_decay import no_weight_decay


class ExponentialModulation(nn.Module):
    r"""Multiply a kernel by :math:`e^{-|p| |w|}`, one w for each axis and channel, exempt from weight decay.

    Args:
        data_dim: number of space axes, 1 to 3.
        num_channels: number of channels of the kernel, at least 1.
        fast_decay_pct: initial w of the last channel, above 0, divided by ``data_dim``; with 13.81 the factor at p = 1
            is a millionth.
        slow_decay_pct: the same for the first channel; the channels between are evenly spaced.

    Raises:
        InvalidInput: for arguments out of range, or a grid or kernel of another width.
    """

    @checked
    def __init__(
        self,
        data_dim: DataDim,
        num_channels: Size,
        fast_decay_pct: Positive = 13.81,
        slow_decay_pct: Positive = 2.3,
    ) -> None:
        super().__init__()
        self.slow_decay_pct, self.fast_decay_pct = slow_decay_pct, fast_decay_pct
        self.weight = nn.Parameter(torch.empty(data_dim, num_channels))
        self.reset_parameters()
        no_weight_decay(self)

    def reset_parameters(self) -> None:
        """Space the decays evenly, from the first channel's to the last one's."""
        axes, channels = self.weight.shape
        decay = (
            torch.linspace(self.slow_decay_pct, self.fast_decay_pct, channels) / axes
        )
        copy_values(self.weight, decay.repeat(axes, 1))

    def forward(
        self,
        grid: Float[Tensor, "1 *taps axes"],
        x: Float[Tensor, "batch *taps channels"],
    ) -> Float[Tensor, "batch *taps channels"]:
        """Return the kernel ``x`` times the mask at the positions ``grid``; shape and dtype stay."""
        check_kernel_and_grid(x, grid, self.weight)
        return x * torch.exp(-grid.abs() @ self.weight.abs().to(grid.dtype)).type_as(x)


class GaussianModulation(nn.Module):
    r"""Multiply a kernel by :math:`e^{-p^2 / 2 \sigma^2}`, one sigma for each axis and channel.

    Sigma is clamped to its limits, but the gradient ignores the clamp, so that a sigma outside them can return. It is
    exempt from weight decay.

    Args:
        data_dim: number of space axes, 1 to 3.
        num_channels: number of channels of the kernel, at least 1.
        min_std: the smallest sigma, above 0.
        max_std: the largest sigma, above ``min_std``; None for no limit.
        init_std_low: initial sigma of the first channel, above 0.
        init_std_high: the same for the last channel; the channels between are evenly spaced in their logarithm.
        parametrization: the parameter: sigma itself (``"direct"``), its logarithm (``"log"``), or the number whose
            softplus it is (``"softplus"``).

    Raises:
        InvalidInput: for arguments out of range, or a grid or kernel of another width.
    """

    @checked
    def __init__(
        self,
        data_dim: DataDim,
        num_channels: Size,
        min_std: Positive = 1e-3,
        max_std: Positive | None = None,
        init_std_low: Positive = 0.05,
        init_std_high: Positive = 1.0,
        parametrization: Literal["direct", "log", "softplus"] = "direct",
    ) -> None:
        super().__init__()
        self.min_std, self.max_std, self.parametrization = (
            min_std,
            max_std,
            parametrization,
        )
        self.init_std = init_std_low, init_std_high
        self.std_param = nn.Parameter(torch.empty(data_dim, num_channels))
        check_start(self)
        self.reset_parameters()
        no_weight_decay(self)

    def reset_parameters(self) -> None:
        """Set every sigma to its starting value."""
        copy_values(self.std_param, self.initial().repeat(len(self.std_param), 1))

    def initial(self) -> Float[Tensor, "channels"]:
        """Return what the parameter of each channel starts at, on the CPU."""
        low, high = torch.tensor(self.init_std, device="cpu").log().tolist()
        std = torch.linspace(low, high, self.std_param.shape[1], device="cpu").exp()
        softplus_inverse = (
            std + (-(-std).expm1()).log()
        )  # log(exp(std) - 1), which overflows for std above 88
        return {"direct": std, "log": std.log(), "softplus": softplus_inverse}[
            self.parametrization
        ]

    @property
    def std(self) -> Float[Tensor, "axes channels"]:
        """Every sigma, within its limits."""
        learned = self.std_param
        std = {
            "direct": learned,
            "log": learned.exp(),
            "softplus": functional.softplus(learned),
        }[self.parametrization]
        return std + (std.clamp(self.min_std, self.max_std) - std).detach()

    def forward(
        self,
        grid: Float[Tensor, "1 *taps axes"],
        x: Float[Tensor, "batch *taps channels"],
    ) -> Float[Tensor, "batch *taps channels"]:
        """Return the kernel ``x`` times the mask at the positions ``grid``; shape and dtype stay."""
        check_kernel_and_grid(x, grid, self.std_param)
        return x * torch.exp(
            -0.5 * grid.square() @ self.std.to(grid.dtype).square().reciprocal()
        ).type_as(x)


def check_start(mask: GaussianModulation) -> None:
    """Raise ``InvalidInput`` unless the limits are in order, and the starting values within what float32 holds."""
    if mask.max_std is not None and mask.min_std >= mask.max_std:
        raise InvalidInput(
            f"min_std must be below max_std={mask.max_std}, got {mask.min_std}"
        )
    if not mask.initial().isfinite().all():
        low, high = mask.init_std
        raise InvalidInput(
            f"init_std_low and init_std_high must be within float32's range, got {low} and {high}"
        )


def check_kernel_and_grid(
    x: Tensor, grid: Tensor, weight: Float[Tensor, "axes channels"]
) -> None:
    """Raise ``InvalidInput`` unless the ``grid`` has the axes of ``weight`` and the kernel ``x`` its channels."""
    axes, channels = weight.shape
    check_width("grid", grid, axes)
    check_width("x", x, channels)
    for name, tensor in (("grid", grid), ("x", x)):
        check_device(name, tensor, weight)
    if grid.ndim != x.ndim or grid.shape[0] != 1 or grid.shape[1:-1] != x.shape[1:-1]:
        wanted = (1, *x.shape[1:-1], axes)
        raise InvalidInput(
            f"grid must hold the position of each tap of x, {wanted}, got {tuple(grid.shape)}"
        )


ExponentialModulationND, GaussianModulationND = (
    ExponentialModulation,
    GaussianModulation,
)
