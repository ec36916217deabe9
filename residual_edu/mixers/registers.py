r"""Registers: learned tokens that belong to no place of the image, for the network to write on and read from.

.. math::
    \text{pooled:} \quad c = \sum_r \mathrm{softmax}(a)_r\, t_r \qquad
    \text{concatenated:} \quad c = [W t_1, \dots, W t_R]

Darcet et al., 2023, https://arxiv.org/abs/2309.16588; the second, Wang et al., 2024, https://arxiv.org/abs/2405.14858
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_size, check_tokens


class RegisterPooling(nn.Module):
    r"""A learned weighted mean of the registers, :math:`\sum_r \mathrm{softmax}(a)_r\, t_r`; at the start, the mean.

    Args:
        num_registers: number of registers R, at least 1.

    Raises:
        InvalidInput: for a number out of range, or registers of another number.
    """

    def __init__(self, num_registers: int) -> None:
        super().__init__()
        check_size("num_registers", num_registers)
        self.logits = nn.Parameter(torch.zeros(num_registers))

    def forward(self, registers: Float[Tensor, "batch registers channels"]) -> Float[Tensor, "batch channels"]:
        """Return one vector for each sample; dtype stays."""
        check_tokens("registers", registers, len(self.logits))
        weights = self.logits.softmax(dim=0).to(registers.dtype)
        return (weights[:, None] * registers).sum(dim=1)

    def flop_count(self, hidden_dim: int, inference: bool = False) -> int:
        """Return the cost at ``hidden_dim`` channels: three for each weight, two for each number it is laid on."""
        return 3 * len(self.logits) + 2 * len(self.logits) * hidden_dim


class RegisterCompressConcat(nn.Module):
    r"""All registers side by side, each through the same narrow map: :math:`[W t_1, \dots, W t_R]`.

    Args:
        num_registers: number of registers R, at least 1.
        hidden_dim: number of channels of each, at least 1.
        compressed_dim: number of channels that each is narrowed to, at least 1.

    Raises:
        InvalidInput: for a number out of range, or registers of another number or width.
    """

    def __init__(self, num_registers: int, hidden_dim: int, compressed_dim: int) -> None:
        super().__init__()
        check_size("num_registers", num_registers)
        check_size("hidden_dim", hidden_dim)
        check_size("compressed_dim", compressed_dim)
        self.num_registers = num_registers
        self.compress = nn.Linear(hidden_dim, compressed_dim, bias=False)

    @property
    def out_dim(self) -> int:
        """Return the width of the result, R times ``compressed_dim``."""
        return self.num_registers * self.compress.out_features

    def forward(self, registers: Float[Tensor, "batch registers channels"]) -> Float[Tensor, "batch out_dim"]:
        """Return one vector of ``out_dim`` numbers for each sample."""
        check_tokens("registers", registers, self.num_registers, self.compress.in_features)
        return self.compress(registers).flatten(1)

    def flop_count(self, hidden_dim: int, inference: bool = False) -> int:
        """Return the cost of the map at ``hidden_dim`` channels, once for each register."""
        return 2 * self.out_dim * hidden_dim
