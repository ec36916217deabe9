r"""AdaLN-Zero: a condition c shifts and scales the normalised input of a branch f, and gates its output.

.. math::
    x \leftarrow x + \mathrm{gate} \cdot f(\mathrm{norm}(x) \cdot (1 + \mathrm{scale}) + \mathrm{shift}), \qquad
    (\mathrm{shift}, \mathrm{scale}, \mathrm{gate}) = W\,\mathrm{silu}(c) + b, \quad W = b = 0 \text{ at the start}

At the start every gate is 0, so that each block is the identity. Peebles & Xie, 2023, https://arxiv.org/abs/2212.09748
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Size, checked
from residual_edu.old_errors import (
    InvalidInput,
    check_floating,
    check_instance,
    check_size,
    check_width,
)
from residual_edu.parts.attention_checks import check_spreads
from residual_edu.parts.start import fill


class Modulation(NamedTuple):
    """Shift, scale and gate of one branch, computed from a condition; each is ``(batch, 1, ..., 1, channels)``."""

    shift: Tensor
    scale: Tensor
    gate: Tensor

    def modulate(self, norm: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        r"""Return the map :math:`x \mapsto \mathrm{norm}(x) \cdot (1 + \mathrm{scale}) + \mathrm{shift}`."""
        return lambda x: norm(x) * (1 + self.scale) + self.shift

    def apply_gate(self, branch: Tensor) -> Tensor:
        r"""Return :math:`\mathrm{gate} \cdot \mathrm{branch}`."""
        check_instance("gate", self.gate, Tensor)
        check_width("branch", branch, self.gate.shape[-1])
        check_spreads("gate", self.gate.shape, branch.shape)
        return branch * self.gate


@checked
def zero_projection(dim: Size, branches: Size = 2) -> nn.Sequential:
    """Return SiLU and a linear map from a condition, (batch, dim), to (batch, 3 * branches * dim); it starts at zero.

    Raises:
        InvalidInput: for a size below 1.
    """
    return nn.Sequential(
        nn.SiLU(), fill(nn.Linear(dim, 3 * branches * dim), nn.init.zeros_)
    )


def modulations(
    projected: Float[Tensor, "batch parameters"], ndim: int, branches: int = 2
) -> list[Modulation]:
    """Split a projected condition into the ``Modulation`` of each branch, to be broadcast to a signal of ``ndim`` axes.

    Raises:
        InvalidInput: unless ``projected`` is (batch, parameters), with a multiple of 3 * branches parameters.
    """
    check_instance("projected", projected, Tensor)
    check_floating("projected", projected)
    check_size("ndim", ndim, least=2)
    check_size("branches", branches)
    if projected.ndim != 2 or projected.shape[-1] % (3 * branches):
        raise InvalidInput(
            f"projected must have shape (batch, a multiple of {3 * branches}), a shift, a scale and a gate for each of "
            f"{branches} branches, got {tuple(projected.shape)}"
        )
    batch, parameters = projected.shape
    pieces = projected.view(batch, *[1] * (ndim - 2), parameters).chunk(
        3 * branches, dim=-1
    )
    return [Modulation(*pieces[i : i + 3]) for i in range(0, len(pieces), 3)]
