r"""The implicit kernel: a small network computes the tap at each position.

.. math::
    h_0 = \sin(W_0 p + b_0), \quad h_l = \gamma_l \sin(W_l h_{l-1} + b_l) + \beta_l,
    \quad k(p) = W h_L + b

p is the position of a tap, 0 in the middle; gamma = 1 and beta = 0 unless a condition
sets them (FiLM). Sitzmann et al., 2020, https://arxiv.org/abs/2006.09661; Romero et
al., 2022, https://arxiv.org/abs/2102.02611
"""

from collections.abc import Sequence
from itertools import pairwise
from math import pi, prod, sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from residual_edu.config import Spec, build
from residual_edu.errors import InvalidInput, check_positive, check_size
from residual_edu.mixers.long_convolution import Taps
from residual_edu.parts.flop_count import Shape
from residual_edu.parts.weight_decay import no_weight_decay

Grid = Float[Tensor, "1 *taps axes"]
Condition = Float[Tensor, "#batch features"]


def position_grid(lengths: Sequence[int], reach: Sequence[int], like: Tensor) -> Grid:
    """Return the positions of a kernel's taps, ``lengths`` - 1 on either side of 0.

    Neighbours are 1 / (reach - 1) apart: with lengths = reach positions run from -1 to
    1. They are on ``like``'s device and in its dtype, or float32 if that is narrower.
    """
    # in 16 bits the positions of neighbours would be equal
    dtype = torch.promote_types(like.dtype, torch.float32)
    lines = []
    for length, last in zip(lengths, reach, strict=True):
        check_size("lengths", length)
        check_size("reach", last, least=2)
        taps = torch.arange(1 - length, length, dtype=dtype, device=like.device)
        lines.append(taps / (last - 1))
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1)[None]


class SIRENPositionalEmbedding(nn.Module):
    r"""The first layer, :math:`\sin(W_0 p + b_0)` at each position p; no weight decay.

    Args:
        data_dim, embedding_dim: numbers of space axes and of features.
        L_cache: ``reach`` of the positions, at least 2, for all axes or one for each.
        omega_0: the largest number of periods between the positions 0 and 1 at the
            start, above 0: W_0 is uniform in +- 2 pi omega_0 / data_dim.
        use_bias: whether there is a b_0, zero at the start.
    """

    def __init__(
        self,
        data_dim: int,
        embedding_dim: int,
        L_cache: int | Sequence[int],
        omega_0: float,
        use_bias: bool = True,
    ) -> None:
        super().__init__()
        check_positive("omega_0", omega_0)
        each = L_cache if isinstance(L_cache, Sequence) else [L_cache] * data_dim
        self.L_cache, self.omega_0 = list(each), omega_0
        self.linear = nn.Linear(data_dim, embedding_dim, bias=use_bias)
        self.reset_parameters()
        no_weight_decay(self)

    def reset_parameters(self) -> None:
        """Draw the weights, as frequencies of up to ``omega_0`` periods."""
        uniform(self.linear, 2 * pi * self.omega_0 / self.linear.in_features)

    def forward(self, lengths: Sequence[int]) -> tuple[Taps, Grid]:
        """Return features and positions of 2 length - 1 taps along each axis."""
        weight, bias = self.linear.weight, self.linear.bias
        grid = position_grid(lengths, self.L_cache, like=weight)
        wide = None if bias is None else bias.to(grid.dtype)
        wave = functional.linear(grid, weight.to(grid.dtype), wide)
        return wave.sin().to(weight.dtype), grid


class SIRENKernel(nn.Module):
    r"""A kernel of any length from the same few parameters, by a network of sines.

    All but ``out_linear.weight`` and the film generator is exempt from weight decay.

    Args:
        out_dim, data_dim: numbers of the kernel's channels and of space axes.
        mlp_hidden_dim: width of the hidden layers.
        num_layers: number of layers with a sine, the first one included, at least 2.
        embedding_dim, omega_0, L_cache: as in its ``SIRENPositionalEmbedding``.
        use_bias: whether the linear maps have biases, zero at the start.
        hidden_omega_0: above 0, no effect: it multiplies weights, divides their bound.
        film_cfg: what to build (``config.build``) to modulate the hidden layers by a
            condition: a ``KernelFiLMGenerator`` with a film layer for each of them.
        film_after_pos_embed: whether the first layer, as wide then, is modulated too.
    """

    def __init__(
        self,
        out_dim: int,
        data_dim: int,
        mlp_hidden_dim: int,
        num_layers: int,
        embedding_dim: int,
        omega_0: float,
        L_cache: int | Sequence[int],
        use_bias: bool,
        hidden_omega_0: float = 1.0,
        film_cfg: Spec | None = None,
        film_after_pos_embed: bool = False,
    ) -> None:
        super().__init__()
        check_size("num_layers", num_layers, least=2)
        check_positive("hidden_omega_0", hidden_omega_0)
        self.out_dim, self.data_dim = out_dim, data_dim
        self.widths = [embedding_dim] + [mlp_hidden_dim] * (num_layers - 1)
        self.positional_embedding = SIRENPositionalEmbedding(
            data_dim, embedding_dim, L_cache, omega_0, use_bias
        )
        hidden = [nn.Linear(*pair, bias=use_bias) for pair in pairwise(self.widths)]
        self.hidden_linears = no_weight_decay(nn.ModuleList(map(uniform, hidden)))
        self.out_linear = nn.Linear(mlp_hidden_dim, out_dim, bias=use_bias)
        self.start_output()
        self.film_generator: Any = None if film_cfg is None else build(film_cfg)
        if film_cfg is not None:
            check_film(self.film_generator, self.widths[not film_after_pos_embed :])

    def start_output(self) -> None:
        """Draw the last weights: a sum over all taps is as large as the signal."""
        taps = prod(self.positional_embedding.L_cache)
        uniform(self.out_linear, sqrt(6 / self.out_linear.in_features) / sqrt(taps))

    def reset_parameters(self) -> None:
        """Draw the hidden and the last weights; the other children draw their own."""
        for hidden in self.hidden_linears:
            uniform(hidden)  # type: ignore[arg-type]
        self.start_output()

    def forward(
        self, lengths: Sequence[int], conditioning: Condition | None = None
    ) -> tuple[Taps, Grid]:
        """Return 2 length - 1 taps an axis, by condition, and their positions."""
        conditioned = conditioning is not None and self.film_generator is not None
        films = self.film_generator(conditioning) if conditioned else []
        first, *others = [None] * (len(self.widths) - len(films)) + films
        features, grid = self.positional_embedding(lengths)
        h = modulated(features, first)  # batch or 1, *taps, embedding_dim
        for hidden, film in zip(self.hidden_linears, others, strict=True):
            h = modulated(hidden(h).sin(), film)
        return self.out_linear(h), grid

    def halve_grid(self, axes: Sequence[bool]) -> None:
        """Halve ``L_cache`` along ``axes`` that are True, and enlarge the weights."""
        reach = self.positional_embedding.L_cache
        shorter = self.positional_embedding.L_cache = halved(reach, axes)
        self.out_linear.weight.data *= sqrt(prod(reach) / prod(shorter))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost of all taps, 0 at inference if no condition changes them."""
        film = self.film_generator
        lengths = [shape] if isinstance(shape, int) else shape
        taps = prod(2 * length - 1 for length in lengths)
        maps = pairwise([self.data_dim, *self.widths, self.out_dim])
        each = sum(2 * fan_in * fan_out for fan_in, fan_out in maps) + sum(self.widths)
        if film is None:
            return 0 if inference else taps * each
        modulation = 2 * film.num_film_layers * film.kernel_hidden_dim
        return taps * (each + modulation) + film.flop_count()


def halved(lengths: Sequence[int], axes: Sequence[bool]) -> list[int]:
    """Return ``lengths``, half of them, rounded up, along ``axes`` that are True."""
    each = zip(lengths, axes, strict=True)
    return [(length + 1) // 2 if half else length for length, half in each]


def uniform(layer: nn.Linear, bound: float | None = None) -> nn.Linear:
    """Draw the weights from +- ``bound``, sqrt(6 / fan_in) in SIREN; the bias is 0."""
    bound = sqrt(6 / layer.in_features) if bound is None else bound
    nn.init.uniform_(layer.weight, -bound, bound)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def modulated(h: Taps, film: tuple[Tensor, Tensor] | None) -> Tensor:
    """Return gamma h + beta, the same at all taps of a sample; ``h`` without them."""
    if film is None:
        return h
    gamma, beta = (each.view(each.shape[0], *[1] * (h.ndim - 2), -1) for each in film)
    return gamma * h + beta


def check_film(film: Any, widths: list[int]) -> None:
    """Raise ``InvalidInput`` unless ``film`` modulates layers of these ``widths``."""
    found = [film.kernel_hidden_dim] * film.num_film_layers
    if found != widths:
        raise InvalidInput(f"film_cfg must modulate widths {widths}, got {found}")


SIRENKernelND, SIRENPositionalEmbeddingND = SIRENKernel, SIRENPositionalEmbedding
