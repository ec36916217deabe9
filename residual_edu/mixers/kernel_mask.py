r"""Masks for long kernels: each channel hears near positions louder than far ones, at a scale that it learns.

.. math::
    \text{exponential:} \; k(p) \leftarrow k(p) \prod_d e^{-|p_d| |w_d|} \qquad
    \text{Gaussian:} \; k(p) \leftarrow k(p) \prod_d e^{-p_d^2 / 2 \sigma_d^2}

p is a position in [-1, 1]. Romero et al., 2021, https://arxiv.org/abs/2110.08059; Poli et al., 2023,
https://arxiv.org/abs/2302.10866
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from residual_edu.errors import check_below, check_choice, check_data_dim, check_positive, check_size, check_width
from residual_edu.parts.weight_decay import no_weight_decay


class ExponentialModulation(nn.Module):
    r"""Multiply a kernel by :math:`e^{-|p| |w|}`, one w for each axis and channel, spared by weight decay.

    Args:
        data_dim: number of space axes, 1 to 3.
        num_channels: number of channels of the kernel, at least 1.
        fast_decay_pct: where w starts in the last channel, above 0, divided by ``data_dim``; 13.81 is a millionth at
            the end.
        slow_decay_pct: where it starts in the first one; those between are evenly spaced.

    Raises:
        InvalidInput: for numbers out of range, or a grid or kernel of another width.
    """

    def __init__(
        self, data_dim: int, num_channels: int, fast_decay_pct: float = 13.81, slow_decay_pct: float = 2.3
    ) -> None:
        super().__init__()
        check_data_dim("data_dim", data_dim)
        check_size("num_channels", num_channels)
        check_positive("fast_decay_pct", fast_decay_pct)
        check_positive("slow_decay_pct", slow_decay_pct)
        decay = torch.linspace(slow_decay_pct, fast_decay_pct, num_channels) / data_dim
        self.weight = nn.Parameter(decay.repeat(data_dim, 1))
        no_weight_decay(self)

    def forward(
        self, grid: Float[Tensor, "1 *taps axes"], x: Float[Tensor, "batch *taps channels"]
    ) -> Float[Tensor, "batch *taps channels"]:
        """Return ``x``, quieter the farther ``grid`` says that it stands from 0; shape and dtype stay."""
        check_width("grid", grid, len(self.weight))
        check_width("x", x, self.weight.shape[-1])
        return x * torch.exp(-grid.abs() @ self.weight.abs().to(grid.dtype)).type_as(x)


class GaussianModulation(nn.Module):
    r"""Multiply a kernel by :math:`e^{-p^2 / 2 \sigma^2}`, one sigma for each axis and channel, spared by weight decay.

    A sigma outside its limits counts as the limit, but keeps its gradient, so that it can come back.

    Args:
        data_dim: number of space axes, 1 to 3.
        num_channels: number of channels of the kernel, at least 1.
        min_std: the smallest sigma that counts, above 0.
        max_std: the largest one, or no limit.
        init_std_low: where sigma starts in the first channel, above 0.
        init_std_high: where it starts in the last one; those between are evenly spaced in their logarithm.
        parametrization: what is learned: sigma itself (``"direct"``), its logarithm (``"log"``), or what ``"softplus"``
            turns into it.

    Raises:
        InvalidInput: for numbers out of range, an unknown parametrization, or a grid or kernel of another width.
    """

    def __init__(
        self,
        data_dim: int,
        num_channels: int,
        min_std: float = 1e-3,
        max_std: float | None = None,
        init_std_low: float = 0.05,
        init_std_high: float = 1.0,
        parametrization: str = "direct",
    ) -> None:
        super().__init__()
        check_data_dim("data_dim", data_dim)
        check_size("num_channels", num_channels)
        limits = {"min_std": min_std, "init_std_low": init_std_low, "init_std_high": init_std_high}
        for name, value in (limits if max_std is None else {**limits, "max_std": max_std}).items():
            check_positive(name, value)
        if max_std is not None:
            check_below("min_std", min_std, max_std)
        check_choice("parametrization", parametrization, ["direct", "log", "softplus"])
        self.min_std, self.max_std, self.parametrization = min_std, max_std, parametrization
        low, high = torch.tensor([init_std_low, init_std_high]).log().tolist()
        std = torch.linspace(low, high, num_channels).exp().repeat(data_dim, 1)
        self.std_param = nn.Parameter({"direct": std, "log": std.log(), "softplus": std.expm1().log()}[parametrization])
        no_weight_decay(self)

    @property
    def std(self) -> Float[Tensor, "axes channels"]:
        """Every sigma, within its limits."""
        learned = self.std_param
        std = {"direct": learned, "log": learned.exp(), "softplus": functional.softplus(learned)}[self.parametrization]
        return std + (std.clamp(self.min_std, self.max_std) - std).detach()

    def forward(
        self, grid: Float[Tensor, "1 *taps axes"], x: Float[Tensor, "batch *taps channels"]
    ) -> Float[Tensor, "batch *taps channels"]:
        """Return ``x``, quieter the farther ``grid`` says that it stands from 0; shape and dtype stay."""
        check_width("grid", grid, len(self.std_param))
        check_width("x", x, self.std_param.shape[-1])
        return x * torch.exp(-0.5 * grid.square() @ self.std.to(grid.dtype).square().reciprocal()).type_as(x)


ExponentialModulationND, GaussianModulationND = ExponentialModulation, GaussianModulation
