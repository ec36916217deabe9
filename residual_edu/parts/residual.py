r"""The residual connection: the one equation that every block of this library repeats.

A branch is a layer with a norm beside it and gates after it; it adds to the residual stream.

.. math::
    \text{pre-norm:}  \quad x \leftarrow x + g(f(\mathrm{norm}(x))) \qquad
    \text{post-norm:} \quad x \leftarrow \mathrm{norm}(x + g(f(x)))

He et al., 2015, https://arxiv.org/abs/1512.03385; Xiong et al., 2020, https://arxiv.org/abs/2002.04745
"""

from collections.abc import Callable, Iterable

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_branch, check_choice, check_rate
from residual_edu.parts.layer_norm import LayerNormalization

Map = Callable[[Tensor], Tensor]


def pre_norm_residual(
    x: Float[Tensor, "*batch channels"], layer: Map, norm: Map, gates: Iterable[Map] = ()
) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`x + g(f(\mathrm{norm}(x)))`, or the very same ``x`` where ``layer`` is ``nn.Identity``."""
    return x if is_bypassed(layer) else x + through(gates, check_branch(layer(norm(x)), x))


def post_norm_residual(
    x: Float[Tensor, "*batch channels"], layer: Map, norm: Map, gates: Iterable[Map] = ()
) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`\mathrm{norm}(x + g(f(x)))`, or the very same ``x`` where ``layer`` is ``nn.Identity``."""
    return x if is_bypassed(layer) else norm(x + through(gates, check_branch(layer(x), x)))


def is_bypassed(layer: Map) -> bool:
    """Whether ``layer`` is ``nn.Identity``, the mark of a branch that is left out."""
    return isinstance(layer, nn.Identity)


def through(gates: Iterable[Map], branch: Tensor) -> Tensor:
    """Pass a branch's output through its gates, in order; ``nn.Identity`` is none."""
    for gate in gates:
        if not is_bypassed(gate):
            branch = gate(branch)
    return branch


class ResidualConnection(nn.Module):
    """A residual connection that takes its layer when it is called: x + dropout(sublayer(norm(x))).

    Its norm is the tutorials' ``LayerNormalization``; with another one, call ``pre_norm_residual`` itself.

    Args:
        features: number of features on the last axis, at least 1.
        dropout: rate in [0, 1) at which elements of the branch are dropped in training.
        placement: ``"pre"`` as above, or ``"post"``: norm(x + dropout(sublayer(x))), as Vaswani et al. (2017) had it.

    Raises:
        InvalidInput: for a size, a rate or a placement out of range.
    """

    def __init__(self, features: int, dropout: float, placement: str = "pre") -> None:
        super().__init__()
        check_rate("dropout", dropout)
        check_choice("placement", placement, ["pre", "post"])
        self.placement = placement
        self.dropout = nn.Dropout(dropout)
        self.norm = LayerNormalization(features)

    def forward(self, x: Float[Tensor, "*batch channels"], sublayer: Map) -> Float[Tensor, "*batch channels"]:
        """Add what ``sublayer`` makes of ``x``; shape stays."""
        residual = pre_norm_residual if self.placement == "pre" else post_norm_residual
        return residual(x, sublayer, self.norm, [self.dropout])
