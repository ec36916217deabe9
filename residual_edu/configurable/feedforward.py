r"""What maps each position by itself: two linear maps with a nonlinearity between, or three, one of them a gate.

.. math::
    \text{standard:} \quad W_\mathrm{down}\, \phi(W_\mathrm{up} x) \qquad
    \text{gated:} \quad W_\mathrm{down}\, (\phi(W_\mathrm{gate} x) \cdot W_\mathrm{up} x)

Gates: Shazeer, 2020, https://arxiv.org/abs/2002.05202; the squared ReLU: So et al., 2021,
https://arxiv.org/abs/2109.08668
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.checked import checked
from residual_edu.configurable.config import BlockConfig, GivenConfig
from residual_edu.old_errors import check_width


def squared_relu(
    x: Float[Tensor, "*batch channels"],
) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`\max(0, x)^2`, element by element."""
    return torch.relu(x).square()


class FFNBase(nn.Module):
    """What all feed-forward networks share: the width of the stream and their own. A subclass adds ``forward(x)``."""

    @checked
    def __init__(self, config: GivenConfig) -> None:
        super().__init__()
        self.d_model, self.d_ff = config.d_model, config.d_ff


class StandardFFN(FFNBase):
    r""":math:`W_\mathrm{down}\, \phi(W_\mathrm{up} x)`; :math:`\phi` is ``activation``, here the exact GELU."""

    activation: Callable[[Tensor], Tensor] = staticmethod(F.gelu)

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.up = nn.Linear(self.d_model, self.d_ff, bias=config.bias)
        self.down = nn.Linear(self.d_ff, self.d_model, bias=config.bias)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Map each position by itself; shape stays."""
        try:
            return self.down(self.activation(self.up(x)))
        except (RuntimeError, TypeError):  # the check after torch's own
            check_width("x", x, self.d_model, self.up)
            raise


class GatedFFN(FFNBase):
    r""":math:`W_\mathrm{down}\, (\phi(W_\mathrm{gate} x) \cdot W_\mathrm{up} x)`, by SiLU: SwiGLU."""

    activation: Callable[[Tensor], Tensor] = staticmethod(F.silu)

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.gate = nn.Linear(self.d_model, self.d_ff, bias=config.bias)
        self.up = nn.Linear(self.d_model, self.d_ff, bias=config.bias)
        self.down = nn.Linear(self.d_ff, self.d_model, bias=config.bias)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Map each position by itself; shape stays."""
        try:
            return self.down(self.activation(self.gate(x)) * self.up(x))
        except (RuntimeError, TypeError):  # the check after torch's own
            check_width("x", x, self.d_model, self.up)
            raise


class ReLU2FFN(StandardFFN):
    r""":math:`W_\mathrm{down}\, \max(0, W_\mathrm{up} x)^2`."""

    activation = staticmethod(squared_relu)


class GatedReLU2FFN(GatedFFN):
    r""":math:`W_\mathrm{down}\, (\max(0, W_\mathrm{gate} x)^2 \cdot W_\mathrm{up} x)`."""

    activation = staticmethod(squared_relu)
