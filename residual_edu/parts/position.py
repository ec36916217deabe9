r"""Encodings of position without parameters: rotary embedding, sinusoids and ALiBi.

The rotary embedding turns each pair of features by an angle that grows with the position p:

.. math::
    \begin{pmatrix} x_i \\ x_{i + d/2} \end{pmatrix} \leftarrow
    \begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}
    \begin{pmatrix} x_i \\ x_{i + d/2} \end{pmatrix}, \qquad \theta = p \cdot \mathrm{base}^{-2i/d}

A rotation keeps norms, and the product of a query at p with a key at p' depends on p - p' alone. With several axes each
has an equal share of the pairs, and its own p and d. Su et al., 2021, https://arxiv.org/abs/2104.09864
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_data_dim,
    check_divisible,
    check_floating,
    check_instance,
    check_positive,
    check_sequence,
    check_shape,
    check_size,
)
from residual_edu.parts.attention_checks import check_last_queries, check_tables


def rotary_angles(
    lengths: Sequence[int], head_dim: int, base: float = 10000.0, start: int = 0
) -> Float[Tensor, "positions pairs"]:
    r"""Return :math:`\theta = p \cdot \mathrm{base}^{-2i/d}` of each position and pair, in radians.

    ``lengths`` are those of 1 to 3 axes, whose positions are counted as in a flattened array, the last axis fastest.
    ``start`` is the first position of the first axis: the number of positions in a cache. The angles are computed on
    the CPU, in float64: float32 would be off by up to 1/20 radian at position one million.

    Raises:
        InvalidInput: for no or more than 3 axes, a length below 1, a base not above 0, or a ``head_dim`` without an
            equal number of pairs for each axis.
    """
    check_sequence("lengths", lengths)
    check_data_dim("the number of lengths", len(lengths))
    for length in lengths:
        check_size("lengths", length)
    check_size("start", start, least=0)
    check_size("head_dim", head_dim)
    check_positive("base", base)
    check_divisible(
        "head_dim",
        head_dim,
        2 * len(lengths),
        f"a pair of features for each of the axes, {len(lengths)}",
    )
    pairs = head_dim // (2 * len(lengths))  # of each axis
    frequencies = base ** (
        -torch.arange(pairs, dtype=torch.float64, device="cpu") / pairs
    )
    places = [
        torch.arange(n, device="cpu") + (start if axis == 0 else 0)
        for axis, n in enumerate(lengths)
    ]
    grid = torch.stack(torch.meshgrid(*places, indexing="ij"), dim=-1).flatten(
        0, -2
    )  # (positions, axes)
    return (grid[:, :, None] * frequencies).flatten(1)


def rotate(
    x: Float[Tensor, "*batch positions head_dim"],
    angles: Float[Tensor, "positions pairs"],
) -> Float[Tensor, "*batch positions head_dim"]:
    """Turn the features i and i + head_dim / 2 of each position by its angle; shape, dtype and norms are kept.

    Raises:
        InvalidInput: for an odd ``head_dim``, or angles of other positions or pairs.
    """
    check_floating("x", x)
    check_axes("x", x, "positions", "head_dim")
    check_divisible("head_dim", x.shape[-1], 2, "features come in pairs")
    check_instance("angles", angles, Tensor)
    if angles.shape != (x.shape[-2], x.shape[-1] // 2):
        raise InvalidInput(
            f"angles must have shape {(x.shape[-2], x.shape[-1] // 2)}, one for each position and pair of features, "
            f"got {tuple(angles.shape)}"
        )
    return rotate_by(x, *rotary_cos_sin(angles))


def rotary_cos_sin(angles: Float[Tensor, "positions pairs"]) -> tuple[Tensor, Tensor]:
    """Return cosines (cos, cos) and signed sines (-sin, sin) of the angles, both (positions, head_dim).

    Raises:
        InvalidInput: for angles of another shape.
    """
    check_shape("angles", angles, "positions", "pairs")
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)


def rotate_by(
    x: Float[Tensor, "*batch positions head_dim"],
    cos: Float[Tensor, "positions head_dim"],
    sin: Float[Tensor, "positions head_dim"],
) -> Float[Tensor, "*batch positions head_dim"]:
    """Return what ``rotate`` returns, from ``rotary_cos_sin`` of the angles, which a model computes once.

    Raises:
        InvalidInput: for an odd ``head_dim``, or tables of another shape than (positions, head_dim).
    """
    check_tables(x, cos, sin)
    wide = x.to(
        dtype=torch.promote_types(x.dtype, torch.float32)
    )  # a single rounding to 16 bits, at the end
    partners = wide.roll(
        x.shape[-1] // 2, dims=-1
    )  # feature i + head_dim / 2 at i, and the reverse
    return (wide * cos.type_as(wide) + partners * sin.type_as(wide)).type_as(x)


def sinusoidal(
    positions: int, channels: int, base: float = 10000.0, start: int = 0
) -> Float[Tensor, "positions channels"]:
    r"""Return sines and cosines of each position, at frequencies that fall from pair to pair.

    .. math:: y_{p, 2i} = \sin\theta, \qquad y_{p, 2i + 1} = \cos\theta, \qquad \theta = p \cdot \mathrm{base}^{-2i/d}

    On the CPU, in float64, as ``rotary_angles``. Vaswani et al., 2017, https://arxiv.org/abs/1706.03762

    Raises:
        InvalidInput: for a size below 1, an odd number of channels, or a base not above 0.
    """
    check_size("positions", positions)
    check_divisible("channels", channels, 2, "a sine and a cosine for each frequency")
    angles = rotary_angles([positions], channels, base, start)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def alibi_slopes(heads: int) -> Float[Tensor, "heads"]:
    r"""Return the slope of each head, its penalty per position: :math:`m_h = 2^{-8h/n}` for h from 1 to n = ``heads``.

    That holds for powers of two. Other numbers of heads have the slopes of the power of two below, and then every
    other slope of the power of two above. On the CPU, in float64. Press, Smith & Lewis, 2021,
    https://arxiv.org/abs/2108.12409

    Raises:
        InvalidInput: for fewer than 1 head.
    """
    check_size("heads", heads)
    heads = int(heads)  # a number of NumPy's has no bit_length
    below = 2 ** (heads.bit_length() - 1)
    slopes = 2 ** (
        -8 / below * torch.arange(1, below + 1, dtype=torch.float64, device="cpu")
    )
    between = 2 ** (
        -4 / below * torch.arange(1, 2 * below, 2, dtype=torch.float64, device="cpu")
    )
    return torch.cat([slopes, between[: heads - below]])


def alibi_bias(
    queries: int, keys: int, slopes: Float[Tensor, "heads"]
) -> Float[Tensor, "heads queries keys"]:
    r"""Return :math:`-m_h\, |i - j|`, for queries i that are the last of the keys' positions j.

    Raises:
        InvalidInput: for a size below 1, more queries than keys, or slopes that are no list of numbers.
    """
    check_size("queries", queries)
    check_size("keys", keys)
    check_last_queries(queries, keys)
    check_shape("slopes", slopes, "heads")
    positions = torch.arange(keys, device=slopes.device)
    offset = positions - positions[keys - queries :, None]
    return -slopes[:, None, None] * offset.abs()
