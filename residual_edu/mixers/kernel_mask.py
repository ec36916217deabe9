r"""Masks for long kernels: taps shrink with their distance, at a scale that is learned.

.. math::
    \text{exponential:} \; &k(p) \leftarrow k(p) \prod_d e^{-|p_d| |w_d|} \\
    \text{Gaussian:} \; &k(p) \leftarrow k(p) \prod_d e^{-p_d^2 / 2 \sigma_d^2}

p is the position of a tap. Romero et al., 2021, https://arxiv.org/abs/2110.08059;
Poli et al., 2023, https://arxiv.org/abs/2302.10866
"""

from math import log
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from residual_edu.errors import InvalidInput, check_choice, check_positive, check_shape
from residual_edu.mixers.implicit_kernel import Grid, Taps
from residual_edu.parts.norm import widened
from residual_edu.parts.start import copy_values
from residual_edu.parts.weight_decay import no_weight_decay


class ExponentialModulation(nn.Module):
    r"""Multiply a kernel by :math:`e^{-|p| |w|}`, by axis and channel; no decay of w.

    Args:
        data_dim, num_channels: numbers of space axes and of the kernel's channels.
        fast_decay_pct: initial w of the last channel, above 0, divided by ``data_dim``;
            with 13.81 the factor at p = 1 is a millionth.
        slow_decay_pct: the same for the first channel; those between are evenly spaced.
    """

    def __init__(
        self,
        data_dim: int,
        num_channels: int,
        fast_decay_pct: float = 13.81,
        slow_decay_pct: float = 2.3,
    ) -> None:
        super().__init__()
        check_positive("fast_decay_pct", fast_decay_pct)
        check_positive("slow_decay_pct", slow_decay_pct)
        self.slow_decay_pct, self.fast_decay_pct = slow_decay_pct, fast_decay_pct
        self.weight = nn.Parameter(torch.empty(data_dim, num_channels))
        self.reset_parameters()
        no_weight_decay(self)

    def reset_parameters(self) -> None:
        """Space the decays evenly, from the first channel's to the last one's."""
        axes, channels = self.weight.shape
        decay = torch.linspace(self.slow_decay_pct, self.fast_decay_pct, channels)
        copy_values(self.weight, (decay / axes).repeat(axes, 1))

    def forward(self, grid: Grid, x: Taps) -> Taps:
        """Return the kernel ``x`` times the mask at the positions ``grid``."""
        check_taps(grid, x, self.weight)
        exponent = -grid.abs() @ self.weight.abs().to(grid.dtype)
        return x * exponent.exp().type_as(x)


PARAMETRIZATIONS = {  # sigma from its parameter, and the parameter from sigma
    "direct": (lambda parameter: parameter, lambda std: std),
    "log": (torch.exp, torch.log),
    # log(e^std - 1), which would overflow from std = 89 on
    "softplus": (softplus, lambda std: std + (-(-std).expm1()).log()),
}


class GaussianModulation(nn.Module):
    r"""Multiply a kernel by :math:`e^{-p^2 / 2 \sigma^2}`, by axis and channel.

    Sigma is clamped to its limits, but the gradient ignores the clamp, so that a sigma
    outside them can return. It is exempt from weight decay.

    Args:
        data_dim, num_channels: numbers of space axes and of the kernel's channels.
        min_std, max_std: limits of sigma, above 0; ``max_std`` may be None for none.
        init_std_low, init_std_high: initial sigma of the first and of the last channel,
            above 0; those between are evenly spaced in their logarithm.
        parametrization: the parameter: sigma itself (``"direct"``), its logarithm
            (``"log"``), or the number whose softplus it is (``"softplus"``).
    """

    def __init__(
        self,
        data_dim: int,
        num_channels: int,
        min_std: float = 1e-3,
        max_std: float | None = None,
        init_std_low: float = 0.05,
        init_std_high: float = 1.0,
        parametrization: Literal["direct", "log", "softplus"] = "direct",
    ) -> None:
        super().__init__()
        check_sigmas(min_std, max_std, init_std_low, init_std_high)
        check_choice("parametrization", parametrization, PARAMETRIZATIONS)
        self.min_std, self.max_std = min_std, max_std
        self.init_std = init_std_low, init_std_high
        self.parametrization = parametrization
        self.std_param = nn.Parameter(torch.empty(data_dim, num_channels))
        self.reset_parameters()
        no_weight_decay(self)

    def reset_parameters(self) -> None:
        """Space the sigmas evenly in their logarithm, from the first to the last."""
        axes, channels = self.std_param.shape
        low, high = map(log, self.init_std)
        std = torch.linspace(low, high, channels).exp()
        _, parameter_of = PARAMETRIZATIONS[self.parametrization]
        copy_values(self.std_param, parameter_of(std).repeat(axes, 1))

    @property
    def std(self) -> Float[Tensor, "axes channels"]:
        """Every sigma, within its limits."""
        std_of, _ = PARAMETRIZATIONS[self.parametrization]
        std = std_of(widened(self.std_param))
        return std.clamp(self.min_std, self.max_std).detach() + (std - std.detach())

    def forward(self, grid: Grid, x: Taps) -> Taps:
        """Return the kernel ``x`` times the mask at the positions ``grid``."""
        check_taps(grid, x, self.std_param)
        precision = self.std.to(grid.dtype).square().reciprocal()
        return x * (-0.5 * grid.square() @ precision).exp().type_as(x)


def check_sigmas(min_std: float, max_std: float | None, *starts: float) -> None:
    """Raise ``InvalidInput`` unless sigma can start, and be clamped, in float32."""
    given, float32 = (min_std, *starts), torch.finfo(torch.float32)
    if not all(float32.tiny <= std <= float32.max for std in given):
        raise InvalidInput(f"min_std and init_std must be float32 above 0, got {given}")
    if max_std is not None and not min_std < max_std:
        raise InvalidInput(f"max_std must be above min_std={min_std}, got {max_std}")


def check_taps(grid: Grid, x: Taps, weight: Float[Tensor, "axes channels"]) -> None:
    """Raise ``InvalidInput`` unless ``grid`` has a position for each tap of ``x``."""
    axes, channels = weight.shape
    check_shape("x", x, "batch", *grid.shape[1:-1], channels)
    check_shape("grid", grid, 1, *x.shape[1:-1], axes)


ExponentialModulationND = ExponentialModulation
GaussianModulationND = GaussianModulation
