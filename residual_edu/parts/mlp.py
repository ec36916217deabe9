r"""Multilayer perceptrons, which map each position by itself: two linear maps with an activation between them.

.. math:: y = W_2\,\phi(W_1 x), \qquad \phi_{\mathrm{glu}}(a, b) = a\,\sigma(b), \quad
    \phi_{\mathrm{swiglu}}(a, b) = \mathrm{silu}(a)\, b

GELU and its tanh approximation: Hendrycks & Gimpel, 2016, https://arxiv.org/abs/1606.08415
Gated activations: Shazeer, 2020, https://arxiv.org/abs/2002.05202
"""

from functools import partial
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.checked import Choice, Flag, Positive, Size, checked
from residual_edu.config import Spec, build
from residual_edu.old_errors import check_size, check_width
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.residual import Map
from residual_edu.parts.start import InitMethod, init_weight


class SimpleFeedForward(nn.Module):
    r"""Two linear maps with a ReLU between them: :math:`W_2 \max(0, W_1 x + b_1) + b_2`.

    Args:
        d_model: number of input and output features, at least 1.
        d_ff: number of hidden features, at least 1.

    Raises:
        InvalidInput: for a size out of range, an integer input, or one of another width.
    """

    @checked
    def __init__(self, d_model: Size, d_ff: Size) -> None:
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Map each position by itself; the shape of ``x`` is kept."""
        check_width("x", x, self.linear1.in_features, self.linear1)
        return self.linear2(torch.relu(self.linear1(x)))


def swiglu(x: Float[Tensor, "*batch doubled"]) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`\mathrm{silu}(a)\, b` for the two halves a and b of the last axis of ``x``."""
    a, b = x.chunk(2, dim=-1)
    return F.silu(a) * b


class MLP(nn.Module):
    r"""Two linear maps with an activation and a dropout between them: :math:`W_2\,\phi(W_1 x)`.

    Args:
        dim: number of input and output features, at least 1.
        activation: ``"relu"``, ``"gelu"`` (exact), ``"gelu_tanh"`` (its tanh approximation, as in GPT-2 and DiT) or
            ``"silu"``; or a gated one, whose first map is twice as wide, a being its first half: ``"glu"``,
            :math:`a\,\sigma(b)`, or ``"swiglu"``, :math:`\mathrm{silu}(a)\,b`.
        dropout_cfg: what to build (``config.build``) between the two maps; ``nn.Identity`` for none.
        expansion_factor: hidden features per input feature, above 0; ``int(dim * expansion_factor)`` is at least 1.
        bias: whether the maps have biases.
        init_method_in: takes the first map's number of outputs, and returns a function that fills its weight in place;
            its bias, if any, becomes 0. By default both start as in ``nn.Linear``.
        init_method_out: the same for the second map.

    Raises:
        InvalidInput: for an unknown activation, a size out of range, an integer input, or one of another width.
    """

    ACTIVATIONS: ClassVar[dict[str, Map]] = {
        "relu": F.relu,
        "gelu": F.gelu,
        "gelu_tanh": partial(F.gelu, approximate="tanh"),
        "silu": F.silu,
        "glu": F.glu,
        "swiglu": swiglu,
    }

    @checked
    def __init__(
        self,
        dim: Size,
        activation: Annotated[str, Choice(ACTIVATIONS)],
        dropout_cfg: Spec,
        expansion_factor: Positive = 2.0,
        bias: Flag = False,
        init_method_in: InitMethod | None = None,
        init_method_out: InitMethod | None = None,
    ) -> None:
        super().__init__()
        hidden = int(dim * expansion_factor)
        check_size("int(dim * expansion_factor)", hidden)
        self.dim, self.activation = dim, activation
        self.gated = activation in ("glu", "swiglu")
        self.init_method_in, self.init_method_out = init_method_in, init_method_out
        self.layer1 = init_weight(
            nn.Linear(dim, 2 * hidden if self.gated else hidden, bias), init_method_in
        )
        self.dropout = build(dropout_cfg)
        self.layer2 = init_weight(nn.Linear(hidden, dim, bias), init_method_out)

    def reset_parameters(self) -> None:
        """Fill both maps again, where there is an ``init_method``."""
        init_weight(self.layer1, self.init_method_in)
        init_weight(self.layer2, self.init_method_out)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Map each position by itself; the shape of ``x`` is kept."""
        check_width("x", x, self.dim, self.layer1)
        return self.layer2(
            self.dropout(self.ACTIVATIONS[self.activation](self.layer1(x)))
        )

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the operations of both maps, 1 for each activated number, and 1 more for each gated one."""
        maps = self.layer1.weight.numel() + self.layer2.weight.numel()
        return count_positions(shape) * (
            2 * maps + (1 + self.gated) * self.layer2.in_features
        )
