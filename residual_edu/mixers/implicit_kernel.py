r"""The implicit kernel: a small network computes the tap at each position, so that no tap is stored.

.. math::
    h_0 = \sin(W_0 p + b_0), \qquad h_l = \gamma_l \sin(W_l h_{l-1} + b_l) + \beta_l, \qquad k(p) = W h_L + b

p is the position of a tap, 0 in the middle; gamma = 1 and beta = 0 unless a condition sets them (FiLM).

Sitzmann, Martel, Bergman, Lindell & Wetzstein, 2020, https://arxiv.org/abs/2006.09661;
Romero, Kuzina, Bekkers, Tomczak & Hoogendoorn, 2022, https://arxiv.org/abs/2102.02611
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import pi, prod, sqrt
from typing import Annotated, Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from residual_edu.checked import DataDim, Flag, Positive, Size, checked
from residual_edu.config import Spec, build
from residual_edu.mixers.film import KernelFiLMGenerator
from residual_edu.old_errors import (
    InvalidInput,
    check_equal,
    check_instance,
    check_one_per_axis,
    check_sequence,
    check_size,
)
from residual_edu.parts.flop_count import Shape
from residual_edu.parts.start import fill
from residual_edu.parts.weight_decay import no_weight_decay


def position_grid(
    lengths: Sequence[int], reach: Sequence[int], like: Tensor
) -> Float[Tensor, "1 *taps axes"]:
    """Return the positions of the taps of a kernel with ``lengths`` - 1 of them on either side along each axis.

    Neighbours are 1 / (reach - 1) apart: with lengths = reach positions run from -1 to 1, and those of a longer kernel
    continue beyond with the same step. On ``like``'s device and in its dtype, float32 at least.
    """
    check_sequence("reach", reach)
    check_lengths("lengths", lengths, len(reach))
    check_lengths("reach", reach, len(reach), least=2)
    check_instance("like", like, Tensor)
    dtype = torch.promote_types(
        like.dtype, torch.float32
    )  # in 16 bits the positions of neighbours would be equal
    lines = [
        torch.arange(1 - length, length, dtype=dtype, device=like.device) / (last - 1)
        for length, last in zip(lengths, reach, strict=True)
    ]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1)[None]


class SIRENPositionalEmbedding(nn.Module):
    r"""The first layer: :math:`\sin(W_0 p + b_0)` at each position p of a grid, exempt from weight decay.

    Args:
        data_dim: number of space axes, 1 to 3.
        embedding_dim: number of features, at least 1.
        L_cache: the length at which positions run from -1 to 1, at least 2, for all axes or a list with one for each.
        omega_0: the largest number of periods between the positions 0 and 1 at the start, above 0: W_0 starts uniform
            in :math:`\pm 2 \pi \omega_0 / \mathrm{data\_dim}`.
        use_bias: whether there is a b_0, zero at the start.

    Raises:
        InvalidInput: for arguments out of range, or another number of lengths than of axes.
    """

    @checked
    def __init__(
        self,
        data_dim: DataDim,
        embedding_dim: Size,
        L_cache: int | Sequence[int],
        omega_0: Positive,
        use_bias: Flag = True,
    ) -> None:
        super().__init__()
        self.L_cache = length_of_each_axis("L_cache", L_cache, data_dim, least=2)
        self.bound = 2 * pi * omega_0 / data_dim
        self.linear = nn.Linear(data_dim, embedding_dim, bias=use_bias)
        self.reset_parameters()
        no_weight_decay(self)

    def reset_parameters(self) -> None:
        """Draw W_0, and set b_0 to 0."""
        uniform(self.linear, self.bound)

    def forward(
        self, lengths: Sequence[int]
    ) -> tuple[Float[Tensor, "1 *taps features"], Float[Tensor, "1 *taps axes"]]:
        """Return the features, in the weights' dtype, and the grid of 2 length - 1 positions along each axis."""
        weight, bias = self.linear.weight, self.linear.bias
        grid = position_grid(lengths, self.L_cache, like=weight)
        wave = functional.linear(
            grid, weight.to(grid.dtype), None if bias is None else bias.to(grid.dtype)
        )
        return wave.sin().to(weight.dtype), grid


class SIRENKernel(nn.Module):
    r"""A kernel of any length from the same few parameters: a network with sines as activations.

    All but ``out_linear.weight`` is exempt from weight decay; the module of ``film_cfg`` decides for itself.

    Args:
        out_dim: number of channels of the kernel, at least 1.
        data_dim: number of space axes, 1 to 3.
        mlp_hidden_dim: width of the hidden layers, at least 1.
        num_layers: number of layers with a sine, the first one included, at least 2.
        embedding_dim: width of the first layer, at least 1.
        omega_0: the largest number of periods between the positions 0 and 1 in the first layer at the start, above 0.
        L_cache: the length at which positions run from -1 to 1, at least 2, for all axes or a list with one for each.
        use_bias: whether the linear maps have biases, zero at the start.
        hidden_omega_0: frequency of the hidden layers, above 0. It has no effect, since SIREN multiplies the weights by
            it and divides their bound, :math:`\sqrt{6 / \mathrm{fan\_in}}`, by it.
        film_cfg: what to build (``config.build``) to modulate each hidden layer by a condition: a
            ``KernelFiLMGenerator`` of ``num_layers - 1`` layers of ``mlp_hidden_dim`` features.
        film_after_pos_embed: whether the first layer is modulated too, by one film layer more; it then must be as wide
            as the hidden ones.

    Raises:
        InvalidInput: for arguments out of range, or a ``film_cfg`` that does not fit.
    """

    @checked
    def __init__(
        self,
        out_dim: Size,
        data_dim: DataDim,
        mlp_hidden_dim: Size,
        num_layers: Annotated[int, partial(check_size, least=2)],
        embedding_dim: Size,
        omega_0: Positive,
        L_cache: int | Sequence[int],
        use_bias: Flag,
        hidden_omega_0: Positive = 1.0,
        film_cfg: Spec | None = None,
        film_after_pos_embed: Flag = False,
    ) -> None:
        super().__init__()
        self.out_dim, self.data_dim = out_dim, data_dim
        self.widths = [embedding_dim] + [mlp_hidden_dim] * (num_layers - 1)
        self.positional_embedding = SIRENPositionalEmbedding(
            data_dim, embedding_dim, L_cache, omega_0, use_bias
        )
        hidden = [nn.Linear(*pair, bias=use_bias) for pair in pairwise(self.widths)]
        self.hidden_linears = nn.ModuleList(
            no_weight_decay(uniform(each)) for each in hidden
        )
        self.out_linear = nn.Linear(mlp_hidden_dim, out_dim, bias=use_bias)
        self.start_output()
        self.film_generator: Any = None if film_cfg is None else build(film_cfg)
        check_film(self.film_generator, self.widths, film_after_pos_embed)

    def reset_parameters(self) -> None:
        """Draw the weights of the hidden and the last layers, and set their biases to 0."""
        for linear in self.hidden_linears:
            uniform(cast(nn.Linear, linear))
        self.start_output()

    def start_output(self) -> None:
        """Draw the last weights, smaller the more taps there are, over which a convolution sums."""
        uniform(self.out_linear, shrink=sqrt(prod(self.positional_embedding.L_cache)))

    def forward(
        self,
        lengths: Sequence[int],
        conditioning: Float[Tensor, "batch features"] | None = None,
    ) -> tuple[Float[Tensor, "samples *taps channels"], Float[Tensor, "1 *taps axes"]]:
        """Return 2 length - 1 taps along each axis, and their positions.

        With a film generator and a condition there is one kernel for each sample, else one for all.
        """
        first, *others = self._films(conditioning)
        features, grid = self.positional_embedding(lengths)
        h = modulated(features, first)  # batch or 1, *taps, embedding_dim
        for linear, film in zip(self.hidden_linears, others, strict=True):
            h = modulated(linear(h).sin(), film)
        return self.out_linear(h), grid

    def halve_grid(self, axes: Sequence[bool]) -> None:
        """Let positions run from -1 to 1 at half of ``L_cache``, rounded up, along those of the ``axes`` that are True.

        The last weights become larger, as they start for that length.
        """
        lengths = self.positional_embedding.L_cache
        halved = [
            (length + 1) // 2 if half else length
            for length, half in zip(lengths, axes, strict=True)
        ]
        check_lengths("half of L_cache", halved, len(lengths), least=2)
        self.positional_embedding.L_cache = halved
        self.out_linear.weight.data *= sqrt(prod(lengths) / prod(halved))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost of all taps for a signal of ``shape``: 0 at inference where no condition changes them."""
        film = self.film_generator
        if inference and film is None:
            return 0
        taps = prod(
            2 * length - 1 for length in ([shape] if isinstance(shape, int) else shape)
        )
        maps = zip(
            [self.data_dim, *self.widths], [*self.widths, self.out_dim], strict=True
        )
        sines = sum(2 * fan_in * fan_out for fan_in, fan_out in maps) + sum(self.widths)
        if film is None:
            return taps * sines
        return (
            taps * (sines + 2 * film.num_film_layers * film.kernel_hidden_dim)
            + film.flop_count()
        )

    def _films(self, conditioning: Tensor | None) -> list[tuple[Tensor, Tensor] | None]:
        """Return (gamma, beta) of each layer with a sine, ``None`` for one that is not modulated."""
        if conditioning is None or self.film_generator is None:
            return [None] * len(self.widths)
        films = self.film_generator(conditioning)
        return [*[None] * (len(self.widths) - len(films)), *films]


def uniform(
    linear: nn.Linear, bound: float | None = None, shrink: float = 1.0
) -> nn.Linear:
    """Draw the weight from +- ``bound`` / ``shrink``, by default SIREN's sqrt(6 / fan_in), and set the bias to 0."""
    bound = (sqrt(6 / linear.in_features) if bound is None else bound) / shrink
    return fill(linear, partial(nn.init.uniform_, a=-bound, b=bound))


def modulated(
    h: Float[Tensor, "#batch *taps hidden"], film: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Return gamma h + beta, the same at all taps of a sample, or ``h`` itself without them."""
    if film is None:
        return h
    gamma, beta = (each.view(each.shape[0], *[1] * (h.ndim - 2), -1) for each in film)
    return gamma * h + beta


def check_lengths(name: str, lengths: Sequence[int], axes: int, least: int = 1) -> None:
    """Raise ``InvalidInput`` unless ``lengths`` is a list of ``axes`` whole numbers, each at least ``least``."""
    check_sequence(name, lengths)
    check_one_per_axis(name, lengths, axes)
    for length in lengths:
        check_size(name, length, least)


def length_of_each_axis(
    name: str, value: int | Sequence[int], axes: int, least: int = 1
) -> list[int]:
    """Return one length for each of ``axes``, or raise ``InvalidInput`` unless each is at least ``least``."""
    lengths = list(value) if isinstance(value, Sequence) else [value] * axes
    check_lengths(name, lengths, axes, least)
    return lengths


def check_film(film: nn.Module | None, widths: list[int], first_too: bool) -> None:
    """Raise ``InvalidInput`` unless ``film`` modulates the hidden layers of those ``widths``, and the ``first_too``."""
    embedding_dim, hidden_dim = widths[:2]
    if first_too:
        check_equal(
            "embedding_dim",
            embedding_dim,
            hidden_dim,
            "mlp_hidden_dim, with film_after_pos_embed",
        )
    if film is None:
        return
    if not isinstance(film, KernelFiLMGenerator):
        raise InvalidInput(
            f"film_cfg must build a KernelFiLMGenerator, got {type(film).__name__}"
        )
    layers = len(widths) - 1 + first_too
    check_equal(
        "num_film_layers",
        film.num_film_layers,
        layers,
        "one for each layer that is modulated",
    )
    check_equal(
        "kernel_hidden_dim", film.kernel_hidden_dim, hidden_dim, "mlp_hidden_dim"
    )


SIRENKernelND, SIRENPositionalEmbeddingND = SIRENKernel, SIRENPositionalEmbedding
