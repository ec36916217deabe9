r"""Layers that work on each position by itself: two linear maps with an activation between.

.. math:: y = W_2\,\phi(W_1 x), \qquad \phi_{\mathrm{glu}}(a, b) = a\,\sigma(b), \quad
    \phi_{\mathrm{swiglu}}(a, b) = \mathrm{silu}(a)\, b

Gated activations, Shazeer, 2020, https://arxiv.org/abs/2002.05202
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.config import Spec, build
from residual_edu.errors import check_choice, check_positive, check_size, check_width
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.residual import Map

InitMethod = Callable[[int], Callable[[Tensor], object]]
"""Takes a layer's number of outputs and returns what fills its weight in place."""


class SimpleFeedForward(nn.Module):
    r"""Two linear maps with a ReLU between: :math:`W_2 \max(0, W_1 x + b_1) + b_2`.

    Args:
        d_model: number of features in and out, at least 1.
        d_ff: number of hidden features, at least 1.

    Raises:
        InvalidInput: for sizes out of range, an integer input, or one of another width.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        check_size("d_model", d_model)
        check_size("d_ff", d_ff)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Map each position by itself; shape stays."""
        check_width("x", x, self.linear1.in_features)
        return self.linear2(torch.relu(self.linear1(x)))


def swiglu(x: Float[Tensor, "*batch doubled"]) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`\mathrm{silu}(a)\, b` for the two halves of x's last axis."""
    a, b = x.chunk(2, dim=-1)
    return F.silu(a) * b


class MLP(nn.Module):
    r"""Two linear maps with one of five activations and a dropout between: :math:`W_2\,\phi(W_1 x)`.

    Args:
        dim: number of features in and out, at least 1.
        activation: ``"relu"``, ``"gelu"`` (exact), ``"silu"``, or one of the gated, whose first map is twice as wide:
            ``"glu"``, :math:`a\,\sigma(b)`, and ``"swiglu"``, :math:`\mathrm{silu}(a)\,b`, a being the first half.
        dropout_cfg: what to build (``config.build``) between the two maps; ``nn.Identity`` for none.
        expansion_factor: hidden features for each feature, ``int(dim * expansion_factor)`` of them, at least 1.
        bias: whether the maps have biases.
        init_method_in: takes the first map's number of outputs and returns what fills its weight; its bias becomes 0.
        init_method_out: the same for the second map.

    Raises:
        InvalidInput: for an unknown activation, sizes out of range, an integer input, or one of another width.
    """

    ACTIVATIONS: ClassVar[dict[str, Map]] = {
        "relu": F.relu,
        "gelu": F.gelu,
        "silu": F.silu,
        "glu": F.glu,
        "swiglu": swiglu,
    }

    def __init__(
        self,
        dim: int,
        activation: str,
        dropout_cfg: Spec,
        expansion_factor: float = 2.0,
        bias: bool = False,
        init_method_in: InitMethod | None = None,
        init_method_out: InitMethod | None = None,
    ) -> None:
        super().__init__()
        check_size("dim", dim)
        check_choice("activation", activation, self.ACTIVATIONS)
        check_positive("expansion_factor", expansion_factor)
        hidden = int(dim * expansion_factor)
        check_size("int(dim * expansion_factor)", hidden)
        self.dim, self.activation, self.gated = dim, activation, activation in ("glu", "swiglu")
        self.layer1 = start(nn.Linear(dim, 2 * hidden if self.gated else hidden, bias), init_method_in)
        self.dropout = build(dropout_cfg)
        self.layer2 = start(nn.Linear(hidden, dim, bias), init_method_out)

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Map each position by itself; shape stays."""
        check_width("x", x, self.dim)
        return self.layer2(self.dropout(self.ACTIVATIONS[self.activation](self.layer1(x))))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Count both maps, one operation for each activated number, and one for each gated."""
        maps = self.layer1.weight.numel() + self.layer2.weight.numel()
        return count_positions(shape) * (2 * maps + (1 + self.gated) * self.layer2.in_features)


def start(layer: nn.Linear, init_method: InitMethod | None, width: int | None = None) -> nn.Linear:
    """Return ``layer``, its weight filled by ``init_method`` and its bias by zeros, if a method is given.

    The method is told ``width``, or the layer's number of outputs if there is none.
    """
    if init_method is not None:
        init_method(layer.out_features if width is None else width)(layer.weight.data)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return layer
