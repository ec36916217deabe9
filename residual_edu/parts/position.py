r"""Encodings of position without parameters: rotary embedding, sinusoids and ALiBi.

Rotary embedding turns each pair of features by an angle that grows with the position p:

.. math::
    \begin{pmatrix} x_i \\ x_{i + d/2} \end{pmatrix} \leftarrow
    \begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}
    \begin{pmatrix} x_i \\ x_{i + d/2} \end{pmatrix}, \qquad
    \theta = p \cdot \mathrm{base}^{-2i/d}

A rotation keeps norms, and the product of a query at p with a key at p' depends on
p - p' alone. With several axes each has an equal share of the pairs, and its own p and
d. Su et al., 2021, https://arxiv.org/abs/2104.09864
"""

from collections.abc import Sequence
from math import log2

import torch
from jaxtyping import Float
from torch import Tensor

from residual_edu.errors import InvalidInput, check_positive, check_shape, check_size
from residual_edu.parts.norm import widened

Angles = Float[Tensor, "positions pairs"]
Table = Float[Tensor, "positions head_dim"]
Heads = Float[Tensor, "*batch positions head_dim"]


def rotary_angles(
    lengths: Sequence[int], head_dim: int, base: float = 10000.0, start: int = 0
) -> Angles:
    r"""Return :math:`\theta = p \cdot \mathrm{base}^{-2i/d}` of each position and pair.

    ``lengths`` are those of the axes, the last of which runs fastest; ``start`` is the
    first position of the first, after a cache. In float64, on the CPU: float32 would be
    off by 1/20 radian at position one million.
    """
    for length in lengths:
        check_size("lengths", length)
    check_size("start", start, least=0)
    check_positive("base", base)
    if head_dim % (2 * len(lengths)):
        wanted = f"a multiple of {2 * len(lengths)}: pairs of features for each axis"
        raise InvalidInput(f"head_dim must be {wanted}, got {head_dim}")
    pairs = head_dim // (2 * len(lengths))  # of each axis
    exponents = -torch.arange(pairs, dtype=torch.float64, device="cpu") / pairs
    places = [torch.arange(length, device="cpu") for length in lengths]
    places[0] = places[0] + start
    grid = torch.stack(torch.meshgrid(*places, indexing="ij"), dim=-1)  # (*space, axes)
    return (grid.flatten(0, -2)[:, :, None] * base**exponents).flatten(1)


def rotate(x: Heads, angles: Angles) -> Heads:
    """Turn the features i and i + head_dim / 2 of each position by its angle."""
    return rotate_by(x, *rotary_cos_sin(angles))


def rotary_cos_sin(angles: Angles) -> tuple[Table, Table]:
    """Return (cos, cos) and (-sin, sin) of the angles."""
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)


def rotate_by(x: Heads, cos: Table, sin: Table) -> Heads:
    """Return what ``rotate`` returns, from tables; 16 bits are rounded at the end."""
    if not cos.shape == sin.shape == x.shape[-2:] or x.shape[-1] % 2:
        wanted = f"cos and sin must be of x's {tuple(x.shape[-2:])}, the last even"
        raise InvalidInput(f"{wanted}, got {tuple(cos.shape)} and {tuple(sin.shape)}")
    wide = widened(x)
    partners = wide.roll(x.shape[-1] // 2, dims=-1)  # the other feature of each pair
    return (wide * cos.type_as(wide) + partners * sin.type_as(wide)).type_as(x)


def sinusoidal(
    positions: int, channels: int, base: float = 10000.0, start: int = 0
) -> Float[Tensor, "positions channels"]:
    r"""Return sines and cosines of each position, slower from pair to pair.

    .. math:: y_{p, 2i} = \sin\theta, \qquad y_{p, 2i + 1} = \cos\theta, \qquad
        \theta = p \cdot \mathrm{base}^{-2i/d}

    Vaswani et al., 2017, https://arxiv.org/abs/1706.03762
    """
    angles = rotary_angles([positions], channels, base, start)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def alibi_slopes(heads: int) -> Float[Tensor, "heads"]:
    r"""Return each head's penalty a position: :math:`m_h = 2^{-8h/n}`, h from 1 to n.

    Numbers between powers of two have the slopes of the power below, then every other
    of the power above. Press, Smith & Lewis, 2021, https://arxiv.org/abs/2108.12409
    """
    check_size("heads", heads)
    below = 2 ** int(log2(heads))
    halves = torch.arange(1, 2 * below + 1, dtype=torch.float64, device="cpu")
    slopes = 2 ** (-4 / below * halves)  # of twice as many heads
    return torch.cat([slopes[1::2], slopes[::2][: heads - below]])


def alibi_bias(
    queries: int, keys: int, slopes: Float[Tensor, "heads"]
) -> Float[Tensor, "heads queries keys"]:
    r"""Return :math:`-m_h\, |i - j|`, queries i being the last of the keys j."""
    check_size("queries", queries)
    check_size("keys", keys, least=queries)
    check_shape("slopes", slopes, "heads")
    positions = torch.arange(keys, device=slopes.device)
    offset = positions - positions[keys - queries :, None]
    return -slopes[:, None, None] * offset.abs()
