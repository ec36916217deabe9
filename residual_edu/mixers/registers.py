r"""Registers: learned tokens beside the patches of an image, read out as one vector for each sample.

.. math::
    \text{pooled:} \quad c = \sum_r \mathrm{softmax}(a)_r\, t_r \qquad
    \text{concatenated:} \quad c = [W t_1, \dots, W t_R]

Darcet et al., 2023, https://arxiv.org/abs/2309.16588; the second, Wang et al., 2024, https://arxiv.org/abs/2405.14858
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Size, checked
from residual_edu.old_errors import check_shape


class RegisterPooling(nn.Module):
    r"""A learned weighted mean of the registers, :math:`\sum_r \mathrm{softmax}(a)_r\, t_r`; at the start, the mean.

    Args:
        num_registers: number of registers R, at least 1.

    Raises:
        InvalidInput: for a number out of range, or another number of registers.
    """

    @checked
    def __init__(self, num_registers: Size) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(num_registers))

    def reset_parameters(self) -> None:
        """Set all weights alike: the mean."""
        nn.init.zeros_(self.logits)

    def forward(
        self, registers: Float[Tensor, "batch registers channels"]
    ) -> Float[Tensor, "batch channels"]:
        """Return one vector for each sample; dtype stays."""
        check_shape(
            "registers", registers, "batch", len(self.logits), "channels", layer=self
        )
        weights = self.logits.softmax(dim=0).to(registers.dtype)
        return (weights[:, None] * registers).sum(dim=1)

    def flop_count(self, hidden_dim: int, inference: bool = False) -> int:
        """Return the cost for one sample of ``hidden_dim`` channels: softmax, 3 a register; mean, 2 a number."""
        return 3 * len(self.logits) + 2 * len(self.logits) * hidden_dim


class RegisterCompressConcat(nn.Module):
    r"""All registers, each mapped to fewer channels by the same W, concatenated: :math:`[W t_1, \dots, W t_R]`.

    Args:
        num_registers: number of registers R, at least 1.
        hidden_dim: number of channels of each, at least 1.
        compressed_dim: number of channels that each is mapped to, at least 1.

    Raises:
        InvalidInput: for a number out of range, or registers of another number or width.
    """

    @checked
    def __init__(
        self, num_registers: Size, hidden_dim: Size, compressed_dim: Size
    ) -> None:
        super().__init__()
        self.num_registers = num_registers
        self.compress = nn.Linear(hidden_dim, compressed_dim, bias=False)

    @property
    def out_dim(self) -> int:
        """Width of the result, R times ``compressed_dim``."""
        return self.num_registers * self.compress.out_features

    def forward(
        self, registers: Float[Tensor, "batch registers channels"]
    ) -> Float[Tensor, "batch out_dim"]:
        """Return one vector of ``out_dim`` numbers for each sample."""
        check_shape(
            "registers",
            registers,
            "batch",
            self.num_registers,
            self.compress.in_features,
            layer=self.compress,
        )
        return self.compress(registers).flatten(1)

    def flop_count(self, hidden_dim: int, inference: bool = False) -> int:
        """Return the cost for one sample: the map of ``hidden_dim`` channels, once for each register."""
        return 2 * self.out_dim * hidden_dim
