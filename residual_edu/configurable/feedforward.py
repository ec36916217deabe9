r"""What maps each position by itself: two linear maps, or three, one of them a gate.

.. math::
    \text{standard:} \quad W_\mathrm{down}\, \phi(W_\mathrm{up} x) \\
    \text{gated:} \quad W_\mathrm{down} (\phi(W_\mathrm{gate} x) \cdot W_\mathrm{up} x)

Gates: Shazeer, 2020, https://arxiv.org/abs/2002.05202; the squared ReLU: So et al.,
2021, https://arxiv.org/abs/2109.08668
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.configurable.config import BlockConfig
from residual_edu.configurable.registry import ffn_registry

ffn_registry.register("none", nn.Identity)


class FFNBase(nn.Module):
    """What all share: the width of the stream and their own. Add ``forward(x)``."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.d_model, self.d_ff = config.d_model, config.d_ff


@ffn_registry.register("standard")
class StandardFFN(FFNBase):
    """The standard network, with the exact GELU."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.up = nn.Linear(self.d_model, self.d_ff, bias=config.bias)
        self.down = nn.Linear(self.d_ff, self.d_model, bias=config.bias)

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """Map each position by itself."""
        return self.down(self.activation(self.up(x)))

    def activation(self, x: Tensor) -> Tensor:
        """Return GELU, the exact one."""
        return F.gelu(x)


@ffn_registry.register("gated")
class GatedFFN(FFNBase):
    """The gated network, with SiLU: SwiGLU."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.gate = nn.Linear(self.d_model, self.d_ff, bias=config.bias)
        self.up = nn.Linear(self.d_model, self.d_ff, bias=config.bias)
        self.down = nn.Linear(self.d_ff, self.d_model, bias=config.bias)

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """Map each position by itself."""
        return self.down(self.activation(self.gate(x)) * self.up(x))

    def activation(self, x: Tensor) -> Tensor:
        """Return SiLU."""
        return F.silu(x)


@ffn_registry.register("relu2")
class ReLU2FFN(StandardFFN):
    """The standard network, with a squared ReLU."""

    def activation(self, x: Tensor) -> Tensor:
        """Return the square of the positive part."""
        return torch.relu(x).square()


@ffn_registry.register("gated_relu2")
class GatedReLU2FFN(GatedFFN):
    """The gated network, with a squared ReLU."""

    activation = ReLU2FFN.activation
