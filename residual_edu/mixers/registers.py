r"""Registers: learned tokens beside the patches of an image, read out as one vector.

.. math:: \text{pooled:} \quad c = \sum_r \mathrm{softmax}(a)_r\, t_r \qquad
    \text{concatenated:} \quad c = [W t_1, \dots, W t_R]

Darcet et al., 2023, https://arxiv.org/abs/2309.16588
Concatenated: Wang et al., 2024, https://arxiv.org/abs/2405.14858
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_shape, check_size

Registers = Float[Tensor, "batch registers channels"]


class RegisterPooling(nn.Module):
    """A learned weighted mean of ``num_registers``, at least 1; at first their mean."""

    def __init__(self, num_registers: int) -> None:
        super().__init__()
        check_size("num_registers", num_registers)
        self.logits = nn.Parameter(torch.zeros(num_registers))

    def reset_parameters(self) -> None:
        """Set all weights alike: the mean."""
        nn.init.zeros_(self.logits)

    def forward(self, registers: Registers) -> Float[Tensor, "batch channels"]:
        """Return one vector for each sample; dtype stays."""
        check_shape("registers", registers, "batch", len(self.logits), "channels")
        weights = self.logits.softmax(dim=0).to(registers.dtype)
        return (weights[:, None] * registers).sum(dim=1)

    def flop_count(self, hidden_dim: int, inference: bool = False) -> int:
        """Return the cost for one sample: softmax, 3 a register; mean, 2 a number."""
        return len(self.logits) * (3 + 2 * hidden_dim)


class RegisterCompressConcat(nn.Module):
    """All ``num_registers``, mapped to ``compressed_dim`` channels and concatenated."""

    def __init__(
        self, num_registers: int, hidden_dim: int, compressed_dim: int
    ) -> None:
        super().__init__()
        check_size("num_registers", num_registers)
        check_size("compressed_dim", compressed_dim)
        self.num_registers = num_registers
        self.compress = nn.Linear(hidden_dim, compressed_dim, bias=False)

    @property
    def out_dim(self) -> int:
        """Width of the result, R times ``compressed_dim``."""
        return self.num_registers * self.compress.out_features

    def forward(self, registers: Registers) -> Float[Tensor, "batch out_dim"]:
        """Return one vector of ``out_dim`` numbers for each sample."""
        check_shape("registers", registers, "batch", self.num_registers, "channels")
        return self.compress(registers).flatten(1)

    def flop_count(self, hidden_dim: int, inference: bool = False) -> int:
        """Return the cost for one sample of ``hidden_dim`` channels."""
        return 2 * self.out_dim * hidden_dim
