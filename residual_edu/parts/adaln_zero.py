r"""AdaLN-Zero: a condition c shifts, scales and gates a branch f, and starts with the gate shut.

.. math::
    x \leftarrow x + \mathrm{gate} \cdot f(\mathrm{norm}(x) \cdot (1 + \mathrm{scale}) + \mathrm{shift}), \qquad
    (\mathrm{shift}, \mathrm{scale}, \mathrm{gate}) = W\,\mathrm{silu}(c) + b, \quad W = b = 0 \text{ at the start}

Peebles & Xie, 2023, https://arxiv.org/abs/2212.09748
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_pieces, check_size


class Modulation(NamedTuple):
    """What a condition says to one branch; each field is ``(batch, 1, ..., 1, channels)``."""

    shift: Tensor
    scale: Tensor
    gate: Tensor

    def after(self, norm: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        r"""Return the map :math:`x \mapsto \mathrm{norm}(x) \cdot (1 + \mathrm{scale}) + \mathrm{shift}`."""
        return lambda x: norm(x) * (1 + self.scale) + self.shift

    def open(self, branch: Tensor) -> Tensor:
        r"""Return :math:`\mathrm{gate} \cdot \mathrm{branch}`."""
        return branch * self.gate


def zero_projection(dim: int, branches: int = 2) -> nn.Sequential:
    """Return SiLU and a linear map from a condition to the modulations of ``branches`` branches, all zero."""
    check_size("dim", dim)
    check_size("branches", branches)
    projection = nn.Linear(dim, 3 * branches * dim)
    nn.init.zeros_(projection.weight)
    nn.init.zeros_(projection.bias)
    return nn.Sequential(nn.SiLU(), projection)


def modulations(projected: Float[Tensor, "batch parameters"], ndim: int, branches: int = 2) -> list[Modulation]:
    """Cut a projected condition into (shift, scale, gate) of each branch, ready for a signal of ``ndim`` axes."""
    check_pieces("projected", projected, 3 * branches)
    spread = projected.view(len(projected), *[1] * (ndim - 2), -1)
    pieces = spread.chunk(3 * branches, dim=-1)
    return [Modulation(*pieces[i : i + 3]) for i in range(0, len(pieces), 3)]
