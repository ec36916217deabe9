r"""Multilayer perceptrons: two linear maps of each position, a nonlinearity between.

.. math:: y = W_2\,\phi(W_1 x), \qquad \phi_{\mathrm{glu}}(a, b) = a\,\sigma(b), \quad
    \phi_{\mathrm{swiglu}}(a, b) = \mathrm{silu}(a)\, b

Hendrycks & Gimpel (GELU), 2016, https://arxiv.org/abs/1606.08415
Shazeer (gated activations), 2020, https://arxiv.org/abs/2002.05202
"""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.config import Spec, build
from residual_edu.errors import check_choice, check_size
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.residual import Map
from residual_edu.parts.start import InitMethod, init_weight


class SimpleFeedForward(nn.Module):
    r""":math:`W_2 \max(0, W_1 x + b_1) + b_2`, with ``d_ff`` hidden features."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Map each position by itself; the shape of ``x`` is kept."""
        return self.linear2(torch.relu(self.linear1(x)))


def swiglu(x: Float[Tensor, "*batch doubled"]) -> Float[Tensor, "*batch dim"]:
    r"""Return :math:`\mathrm{silu}(a)\, b` of the two halves of the last axis."""
    a, b = x.chunk(2, dim=-1)
    return F.silu(a) * b


ACTIVATIONS: dict[str, Map] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "glu": F.glu,
    "swiglu": swiglu,
}


class MLP(nn.Module):
    r"""Two linear maps with an activation and a dropout between them.

    Args:
        dim: number of input and output features, at least 1.
        activation: one of ``ACTIVATIONS``; ``"gelu"`` is exact, ``"gelu_tanh"`` is
            GPT-2's and DiT's, ``"glu"`` and ``"swiglu"`` double the first map: a and b.
        dropout_cfg: what to build (``config.build``) between the two maps.
        expansion_factor: hidden features per input feature, above 0.
        bias: whether the maps have biases.
        init_method_in, init_method_out: called with a map's number of outputs, return a
            function that fills its weight; its bias becomes 0. None: torch's start.
    """

    def __init__(
        self,
        dim: int,
        activation: str = "gelu",
        dropout_cfg: Spec = nn.Identity,
        expansion_factor: float = 2.0,
        bias: bool = False,
        init_method_in: InitMethod | None = None,
        init_method_out: InitMethod | None = None,
    ) -> None:
        super().__init__()
        check_choice("activation", activation, ACTIVATIONS)
        hidden = int(dim * expansion_factor)
        check_size("int(dim * expansion_factor)", hidden)
        self.dim, self.activation = dim, activation
        self.gated = activation in ("glu", "swiglu")
        self.init_method_in, self.init_method_out = init_method_in, init_method_out
        layer1 = nn.Linear(dim, 2 * hidden if self.gated else hidden, bias)
        self.layer1 = init_weight(layer1, init_method_in)
        self.dropout = build(dropout_cfg)
        self.layer2 = init_weight(nn.Linear(hidden, dim, bias), init_method_out)

    def reset_parameters(self) -> None:
        """Fill both maps again, where there is an ``init_method``."""
        init_weight(self.layer1, self.init_method_in)
        init_weight(self.layer2, self.init_method_out)

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Map each position by itself; the shape of ``x`` is kept."""
        hidden = ACTIVATIONS[self.activation](self.layer1(x))
        return self.layer2(self.dropout(hidden))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the operations of both maps, and 1 or (gated) 2 a hidden feature."""
        maps = self.layer1.weight.numel() + self.layer2.weight.numel()
        pointwise = (1 + self.gated) * self.layer2.in_features
        return count_positions(shape) * (2 * maps + pointwise)
