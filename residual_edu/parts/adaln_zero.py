r"""AdaLN-Zero: a condition c shifts and scales a branch's input, and gates its output.

.. math::
    x \leftarrow x + \mathrm{gate} \cdot
        f(\mathrm{norm}(x) \cdot (1 + \mathrm{scale}) + \mathrm{shift}), \qquad
    (\mathrm{shift}, \mathrm{scale}, \mathrm{gate}) = W\,\mathrm{silu}(c) + b

W and b start at 0, so that every gate is closed and each block the identity.
Peebles & Xie, 2023, https://arxiv.org/abs/2212.09748
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import InvalidInput, check_same_shape, check_shape
from residual_edu.parts.norm import widened
from residual_edu.parts.start import fill


class Modulation(NamedTuple):
    """Shift, scale and gate of one branch, each ``(batch, 1, ..., 1, channels)``."""

    shift: Tensor
    scale: Tensor
    gate: Tensor

    def modulate(self, norm: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Return ``norm`` with the scale and the shift that the condition gives it."""

        def modulated(x: Tensor) -> Tensor:
            h = norm(x)
            y = widened(h) * (1 + widened(self.scale)) + self.shift  # rounded once
            return y.to(torch.promote_types(h.dtype, self.scale.dtype))

        return modulated

    def apply_gate(self, branch: Tensor) -> Tensor:
        """Multiply ``branch`` by the gate, which must not broadcast it."""
        check_shape("branch", branch, "...", self.gate.shape[-1])
        gated = branch * self.gate
        check_same_shape("branch * gate", gated, "branch", branch)
        return gated


def zero_projection(dim: int, branches: int = 2) -> nn.Sequential:
    """Return SiLU and a linear map from a condition to ``branches`` modulations.

    The map starts at zero; what owns it fills it so again in ``reset_parameters``.
    """
    linear = fill(nn.Linear(dim, 3 * branches * dim), nn.init.zeros_)
    return nn.Sequential(nn.SiLU(), linear)


def modulations(
    projected: Float[Tensor, "batch parameters"], ndim: int, branches: int = 2
) -> list[Modulation]:
    """Split a projected condition into ``branches``, for a signal of ``ndim`` axes."""
    batch, parameters = projected.shape
    if parameters % (3 * branches):
        wanted = f"a multiple of {3 * branches} parameters"
        raise InvalidInput(f"projected must have {wanted}, got {parameters}")
    pieces = projected.view(batch, *[1] * (ndim - 2), -1).chunk(3 * branches, dim=-1)
    return [Modulation(*pieces[i : i + 3]) for i in range(0, len(pieces), 3)]
