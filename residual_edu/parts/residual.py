r"""The residual connection: the one equation that every block of this library repeats.

A branch is a layer f with a norm before it, or after the sum, and gates g: LayerScale, dropout, stochastic depth, ...
Its output is added to the residual stream x.

.. math::
    \text{pre-norm:}  \quad x \leftarrow x + g(f(\mathrm{norm}(x))) \qquad
    \text{post-norm:} \quad x \leftarrow \mathrm{norm}(x + g(f(x)))

He et al., 2015, https://arxiv.org/abs/1512.03385; Xiong et al., 2020, https://arxiv.org/abs/2002.04745
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.calls import check_callable
from residual_edu.checked import Rate, checked
from residual_edu.old_errors import InvalidInput, check_floating, shown
from residual_edu.parts.layer_norm import LayerNormalization
from residual_edu.parts.norm_checks import Several

Map = Callable[..., Tensor]


def pre_norm_residual(
    x: Float[Tensor, "*batch channels"],
    layer: Map,
    norm: Map,
    gates: Iterable[Map] = (),
    *inputs: Any,
    **keywords: Any,
) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`x + g(f(\mathrm{norm}(x)))`, or ``x`` itself if ``layer`` is ``nn.Identity``.

    ``inputs`` and ``keywords`` are further arguments of ``layer``, such as a condition.

    Raises:
        InvalidInput: for a layer or a gate that changes the shape.
    """
    if is_bypassed(layer):
        return x
    check_residual(x, layer, norm)
    branch = layer(norm(x), *inputs, **keywords)
    check_branch("a branch", branch, x)
    branch = apply_gates(gates, branch)
    if gates:
        check_branch("a gate", branch, x)
    return x + branch


def post_norm_residual(
    x: Float[Tensor, "*batch channels"],
    layer: Map,
    norm: Map,
    gates: Iterable[Map] = (),
    *inputs: Any,
    **keywords: Any,
) -> Float[Tensor, "*batch channels"]:
    r"""Return :math:`\mathrm{norm}(x + g(f(x)))`, or ``x`` itself if ``layer`` is ``nn.Identity``.

    ``inputs`` and ``keywords`` are further arguments of ``layer``, such as a condition.

    Raises:
        InvalidInput: for a layer or a gate that changes the shape.
    """
    if is_bypassed(layer):
        return x
    check_residual(x, layer, norm)
    branch = layer(x, *inputs, **keywords)
    check_branch("a branch", branch, x)
    branch = apply_gates(gates, branch)
    if gates:
        check_branch("a gate", branch, x)
    x = norm(x + branch)
    check_branch("norm", x, branch)
    return x


def check_residual(x: Tensor, layer: Map, norm: Map) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor of numbers, and ``layer`` and ``norm`` can be called."""
    if not (
        isinstance(x, Tensor)
        and x.is_floating_point()
        and callable(layer)
        and callable(norm)
    ):
        check_floating("x", x)
        check_callable("layer", layer)
        check_callable("norm", norm)


def check_branch(name: str, branch: Tensor, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``branch`` has the shape of ``x``: a sum would broadcast another one."""
    if not isinstance(branch, Tensor):
        raise InvalidInput(
            f"{name} must return a tensor of the shape of x, got {shown(branch)}"
        )
    if branch.shape != x.shape:
        raise InvalidInput(
            f"{name} must keep the shape of x, {tuple(x.shape)}, got {tuple(branch.shape)}"
        )


def is_bypassed(layer: Map) -> bool:
    """Whether ``layer`` is ``nn.Identity``, which stands for a branch or gate that is left out."""
    return isinstance(layer, nn.Identity)


def apply_gates(gates: Iterable[Map], branch: Tensor) -> Tensor:
    """Apply the gates to the output of a branch, in their order; ``nn.Identity`` is not called."""
    for gate in gates:
        if not is_bypassed(gate):
            check_callable("a gate", gate)
            branch = gate(branch)
    return branch


class ResidualConnection(nn.Module):
    """A residual connection that takes its layer as an argument of each call: x + dropout(sublayer(norm(x))).

    Its norm is ``LayerNormalization``, the one of many tutorials; for another one, call ``pre_norm_residual`` instead.

    Args:
        features: number of features on the last axis, at least 2.
        dropout: rate in [0, 1) at which elements of the branch are dropped in training.
        placement: ``"pre"`` as above, or ``"post"``, as in Vaswani et al. (2017): norm(x + dropout(sublayer(x))).

    Raises:
        InvalidInput: for a size, rate or placement out of range, an input of another width, or a sublayer that changes
            the shape.
    """

    @checked
    def __init__(
        self,
        features: Several,
        dropout: Rate,
        placement: Literal["pre", "post"] = "pre",
    ) -> None:
        super().__init__()
        self.placement = placement
        self.dropout = nn.Dropout(dropout)
        self.norm = LayerNormalization(features)

    def forward(
        self, x: Float[Tensor, "*batch channels"], sublayer: Map
    ) -> Float[Tensor, "*batch channels"]:
        """Add the branch of ``sublayer`` to ``x``; its shape is kept."""
        residual = pre_norm_residual if self.placement == "pre" else post_norm_residual
        return residual(x, sublayer, self.norm, [self.dropout])
