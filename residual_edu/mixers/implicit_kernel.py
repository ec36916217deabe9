r"""The implicit kernel: a small network is asked for the tap at each position, so that no tap is stored.

.. math::
    h_0 = \sin(W_0 p + b_0), \qquad h_l = \gamma_l \sin(W_l h_{l-1} + b_l) + \beta_l, \qquad k(p) = W h_L + b

p is a position, 0 in the middle; gamma = 1 and beta = 0 unless a condition says otherwise (FiLM).

Sitzmann, Martel, Bergman, Lindell & Wetzstein, 2020, https://arxiv.org/abs/2006.09661;
Romero, Kuzina, Bekkers, Tomczak & Hoogendoorn, 2022, https://arxiv.org/abs/2102.02611
"""

from collections.abc import Sequence
from itertools import pairwise
from math import pi, prod, sqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from residual_edu.config import Spec, build
from residual_edu.errors import (
    check_data_dim,
    check_equal,
    check_kind,
    check_one_per_axis,
    check_positive,
    check_size,
)
from residual_edu.mixers.film import KernelFiLMGenerator
from residual_edu.parts.flop_count import Shape
from residual_edu.parts.weight_decay import no_weight_decay


def position_grid(lengths: Sequence[int], reach: Sequence[int], like: Tensor) -> Float[Tensor, "1 *taps axes"]:
    """Return the positions of a kernel that reaches ``lengths`` - 1 to either side along each axis.

    Neighbours stand 1 / (reach - 1) apart: at a length of ``reach`` positions run from -1 to 1, and a longer kernel
    reads on beyond, with the same steps. In ``like``'s dtype, float32 at least, lest neighbours fall together.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    lines = [
        torch.arange(1 - length, length, dtype=dtype, device=like.device) / (last - 1)
        for length, last in zip(lengths, reach, strict=True)
    ]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1)[None]


class SIRENPositionalEmbedding(nn.Module):
    r"""The first layer: :math:`\sin(W_0 p + b_0)` at each position p of a grid, spared by weight decay.

    Args:
        data_dim: number of space axes, 1 to 3.
        embedding_dim: number of features, at least 1.
        L_cache: the length at which positions run from -1 to 1, at least 2, for all axes or a list with one for each.
        omega_0: how many waves fit between 0 and 1 at most, above 0: W_0 starts in
            :math:`\pm 2 \pi \omega_0 / \mathrm{data\_dim}`.
        use_bias: whether there is a b_0, zero at the start.

    Raises:
        InvalidInput: for numbers out of range, or another number of lengths than of axes.
    """

    def __init__(
        self, data_dim: int, embedding_dim: int, L_cache: int | Sequence[int], omega_0: float, use_bias: bool = True
    ) -> None:
        super().__init__()
        check_data_dim("data_dim", data_dim)
        check_size("embedding_dim", embedding_dim)
        check_positive("omega_0", omega_0)
        self.L_cache = [L_cache] * data_dim if isinstance(L_cache, int) else list(L_cache)
        check_one_per_axis("L_cache", self.L_cache, data_dim)
        for length in self.L_cache:
            check_size("L_cache", length, 2)
        self.linear = uniform(nn.Linear(data_dim, embedding_dim, bias=use_bias), 2 * pi * omega_0 / data_dim)
        no_weight_decay(self)

    def forward(
        self, lengths: Sequence[int]
    ) -> tuple[Float[Tensor, "1 *taps features"], Float[Tensor, "1 *taps axes"]]:
        """Return the features, in the weights' dtype, and the grid of 2 length - 1 positions along each axis."""
        check_one_per_axis("lengths", list(lengths), len(self.L_cache))
        weight, bias = self.linear.weight, self.linear.bias
        grid = position_grid(lengths, self.L_cache, like=weight)
        wave = functional.linear(grid, weight.to(grid.dtype), None if bias is None else bias.to(grid.dtype))
        return wave.sin().to(weight.dtype), grid


class SIRENKernel(nn.Module):
    r"""A kernel said by a network of sines: as long as one likes, from the same few parameters.

    All but ``out_linear.weight`` is spared by weight decay; a ``film_cfg`` says for itself.

    Args:
        out_dim: number of channels of the kernel, at least 1.
        data_dim: number of space axes, 1 to 3.
        mlp_hidden_dim: width of the hidden layers, at least 1.
        num_layers: layers of sines, the first one included, at least 2.
        embedding_dim: width of the first layer, at least 1.
        omega_0: how many waves fit between 0 and 1 at most in the first layer, above 0.
        L_cache: the length at which positions run from -1 to 1, at least 2, for all axes or a list with one for each.
        use_bias: whether the linear maps have biases, zero at the start.
        hidden_omega_0: frequency of the hidden layers, above 0; it cancels, since it multiplies the weights and divides
            their bound, :math:`\sqrt{6 / \mathrm{fan\_in}}`.
        film_cfg: what to build (``config.build``) to modulate each hidden layer by a condition: a
            ``KernelFiLMGenerator`` of ``num_layers - 1`` layers of ``mlp_hidden_dim`` features.
        film_after_pos_embed: whether the first layer is modulated too, by one film layer more.

    Raises:
        InvalidInput: for numbers out of range, or a ``film_cfg`` that does not fit.
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
        check_size("out_dim", out_dim)
        check_size("mlp_hidden_dim", mlp_hidden_dim)
        check_size("num_layers", num_layers, 2)
        check_positive("hidden_omega_0", hidden_omega_0)
        if film_after_pos_embed:
            check_equal("embedding_dim", embedding_dim, mlp_hidden_dim, "mlp_hidden_dim, with film_after_pos_embed")
        self.out_dim, self.data_dim = out_dim, data_dim
        self.widths = [embedding_dim] + [mlp_hidden_dim] * (num_layers - 1)
        self.positional_embedding = SIRENPositionalEmbedding(data_dim, embedding_dim, L_cache, omega_0, use_bias)
        hidden = [nn.Linear(*pair, bias=use_bias) for pair in pairwise(self.widths)]
        self.hidden_linears = nn.ModuleList(no_weight_decay(uniform(each)) for each in hidden)
        volume = prod(self.positional_embedding.L_cache)  # a sum over so many taps should keep the signal's size
        self.out_linear = uniform(nn.Linear(mlp_hidden_dim, out_dim, bias=use_bias), shrink=sqrt(volume))
        self.film_generator = None
        if film_cfg is not None:
            film = check_kind("film_cfg", build(film_cfg), KernelFiLMGenerator)
            layers = num_layers - 1 + film_after_pos_embed
            check_equal("num_film_layers", film.num_film_layers, layers, "one for each layer that is modulated")
            check_equal("kernel_hidden_dim", film.kernel_hidden_dim, mlp_hidden_dim, "mlp_hidden_dim")
            self.film_generator = film

    def forward(
        self, lengths: Sequence[int], conditioning: Float[Tensor, "batch features"] | None = None
    ) -> tuple[Float[Tensor, "samples *taps channels"], Float[Tensor, "1 *taps axes"]]:
        """Return 2 length - 1 taps along each axis, and the grid on which they stand.

        With a film generator and a condition there is one kernel for each sample, else one for them all.
        """
        first, *others = self._films(conditioning)
        features, grid = self.positional_embedding(lengths)
        h = modulated(features, first)
        for linear, film in zip(self.hidden_linears, others, strict=True):
            h = modulated(linear(h).sin(), film)
        return self.out_linear(h), grid

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost of all taps for a signal of ``shape``: 0 at inference where no condition changes them."""
        film = self.film_generator
        if inference and film is None:
            return 0
        taps = prod(2 * length - 1 for length in ([shape] if isinstance(shape, int) else shape))
        maps = zip([self.data_dim, *self.widths], [*self.widths, self.out_dim], strict=True)
        sines = sum(2 * fan_in * fan_out for fan_in, fan_out in maps) + sum(self.widths)
        if film is None:
            return taps * sines
        return taps * (sines + 2 * film.num_film_layers * film.kernel_hidden_dim) + film.flop_count()

    def _films(self, conditioning: Tensor | None) -> list[tuple[Tensor, Tensor] | None]:
        """Return (gamma, beta) of each layer of sines, ``None`` where nothing modulates it."""
        if conditioning is None or self.film_generator is None:
            return [None] * len(self.widths)
        films = self.film_generator(conditioning)
        return [*[None] * (len(self.widths) - len(films)), *films]


def uniform(linear: nn.Linear, bound: float | None = None, shrink: float = 1.0) -> nn.Linear:
    """Draw the weight from +- ``bound``, by default SIREN's sqrt(6 / fan_in), zero the bias, return the map."""
    bound = sqrt(6 / linear.in_features) if bound is None else bound
    nn.init.uniform_(linear.weight, -bound / shrink, bound / shrink)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear


def modulated(h: Float[Tensor, "#batch *taps hidden"], film: tuple[Tensor, Tensor] | None) -> Tensor:
    """Return gamma h + beta, the same at all taps of a sample, or the very same ``h`` without them."""
    if film is None:
        return h
    gamma, beta = (each.view(len(each), *[1] * (h.ndim - 2), -1) for each in film)
    return gamma * h + beta


SIRENKernelND, SIRENPositionalEmbeddingND = SIRENKernel, SIRENPositionalEmbedding
