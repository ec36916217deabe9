r"""The residual connection: the one equation that every block of this library repeats.

A branch is a layer f with a norm before it, or after the sum, and gates g: LayerScale,
dropout, stochastic depth, ... Its output is added to the residual stream x.

.. math::
    \text{pre-norm:}  \quad x \leftarrow x + g(f(\mathrm{norm}(x))) \qquad
    \text{post-norm:} \quad x \leftarrow \mathrm{norm}(x + g(f(x)))

He et al., 2015, https://arxiv.org/abs/1512.03385; post- and pre-norm: Xiong et al.,
2020, https://arxiv.org/abs/2002.04745
"""

from collections.abc import Callable, Iterable
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import TypeAliasType

from residual_edu.errors import check_choice, check_rate, check_same_shape
from residual_edu.parts.layer_norm import LayerNormalization

Map = TypeAliasType("Map", Callable[..., Tensor])
Gates = Iterable[Map]
Stream = Float[Tensor, "*batch dim"]


def pre_norm_residual(
    x: Stream, layer: Map, norm: Map, gates: Gates = (), *inputs: Any, **keywords: Any
) -> Stream:
    """Return x + g(f(norm(x))), or ``x`` if the layer is bypassed.

    ``inputs`` and ``keywords`` are further arguments of ``layer``, such as a condition.
    """
    if is_bypassed(layer):
        return x
    branch = layer(norm(x), *inputs, **keywords)
    return x + apply_gates(gates, branch, x)


def post_norm_residual(
    x: Stream, layer: Map, norm: Map, gates: Gates = (), *inputs: Any, **keywords: Any
) -> Stream:
    """Return norm(x + g(f(x))), or ``x`` if the layer is bypassed."""
    if is_bypassed(layer):
        return x
    branch = layer(x, *inputs, **keywords)
    y = norm(x + apply_gates(gates, branch, x))
    check_same_shape("norm", y, "x", x)
    return y


def is_bypassed(layer: Map) -> bool:
    """Whether ``layer`` is ``nn.Identity``: a branch or gate that is left out."""
    return isinstance(layer, nn.Identity)


def apply_gates(gates: Gates, branch: Tensor, x: Tensor) -> Tensor:
    """Apply the gates in their order; of another shape, the sum would broadcast."""
    check_same_shape("a branch", branch, "x", x)
    for gate in gates:
        if not is_bypassed(gate):
            branch = gate(branch)
            check_same_shape("a gate", branch, "x", x)
    return branch


class ResidualConnection(nn.Module):
    """x + dropout(sublayer(norm(x))), the sublayer an argument of each call.

    Args:
        features: number of features on the last axis, at least 2.
        dropout: rate in [0, 1) at which elements of the branch are dropped in training.
        placement: ``"pre"`` as above, or ``"post"``, norm(x + dropout(sublayer(x))).
    """

    def __init__(self, features: int, dropout: float, placement: str = "pre") -> None:
        super().__init__()
        check_rate("dropout", dropout)
        check_choice("placement", placement, ("pre", "post"))
        self.placement = placement
        self.dropout = nn.Dropout(dropout)
        self.norm = LayerNormalization(features)

    def forward(self, x: Stream, sublayer: Map) -> Stream:
        """Add the branch of ``sublayer`` to ``x``; its shape is kept."""
        residual = pre_norm_residual if self.placement == "pre" else post_norm_residual
        return residual(x, sublayer, self.norm, [self.dropout])
