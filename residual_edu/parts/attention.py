r"""Scaled dot-product attention: each query attends to all keys and returns a weighted mean of their values.

.. math:: y = \mathrm{softmax}(s \, q k^\top + \mathrm{bias}) \, v, \qquad s = 1 / \sqrt{d}

Vaswani et al., 2017, https://arxiv.org/abs/1706.03762
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from residual_edu.old_errors import check_flag, check_rate, check_size
from residual_edu.parts.attention_checks import (
    check_attention,
    check_heads,
    check_last_queries,
    check_merged,
)


def attention(
    query: Float[Tensor, "*batch queries head_dim"],
    key: Float[Tensor, "*#batch keys head_dim"],
    value: Float[Tensor, "*#batch keys value_dim"],
    mask: Bool[Tensor, "*#batch queries keys"] | None = None,
    bias: Float[Tensor, "*#batch queries keys"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    r"""Return :math:`\mathrm{softmax}(s \, q k^\top + \mathrm{bias}) \, v`, by the formula.

    ``mask`` is True where a query may attend to a key, ``bias`` is added to the scores, and ``scale`` is s,
    1 / sqrt(head_dim) unless it is given.

    Raises:
        InvalidInput: for shapes, dtypes or a scale that do not fit, a mask that is not boolean, or a query with
            no key left.
    """
    check_attention(query, key, value, mask, bias, scale)
    scores = (
        query * (query.shape[-1] ** -0.5 if scale is None else scale) @ key.mT
    )  # (*batch, queries, keys)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1) @ value


def fused_attention(
    query: Float[Tensor, "*batch queries head_dim"],
    key: Float[Tensor, "*#batch keys head_dim"],
    value: Float[Tensor, "*#batch keys value_dim"],
    mask: Bool[Tensor, "*#batch queries keys"] | None = None,
    bias: Float[Tensor, "*#batch queries keys"] | None = None,
    scale: float | None = None,
    *,
    dropout: float = 0.0,
    is_causal: bool = False,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Return what ``attention`` returns, by torch's kernel, which does not store the scores.

    ``dropout`` is the rate at which attention weights are dropped, in evaluation too. With ``is_causal`` the queries
    are the last of the keys' positions, and each attends to its own and earlier positions alone, where ``mask`` allows.

    Raises:
        InvalidInput: as ``attention``, and for a rate outside [0, 1), or more queries than keys beside ``is_causal``.
    """
    check_attention(query, key, value, mask, bias, scale)
    check_rate("dropout", dropout)
    check_flag("is_causal", is_causal)
    # The kernel's own causal mask allows no other mask, and puts the queries at the first positions of the keys.
    if is_causal and (
        mask is not None or bias is not None or query.shape[-2] != key.shape[-2]
    ):
        causal = attention_mask(
            query.shape[-2], key.shape[-2], causal=True, device=query.device
        )
        mask, is_causal = both(mask, causal), False
    if bias is not None and mask is not None:
        bias = bias.masked_fill(~mask, -torch.inf)
    return nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        mask if bias is None else bias,
        dropout,
        is_causal,
        scale=scale,
    )


def attention_mask(
    queries: int,
    keys: int,
    *,
    causal: bool = False,
    window: int | None = None,
    device: torch.device | None = None,
) -> Bool[Tensor, "queries keys"] | None:
    """Return where queries, which are the last of the keys' positions, may attend; None if everywhere.

    With ``causal``, at no later position; with ``window``, less than that many positions away; with both, where both
    hold. So every query attends to its own position.

    Raises:
        InvalidInput: for a size below 1, or more queries than keys.
    """
    check_size("queries", queries)
    check_size("keys", keys)
    check_flag("causal", causal)
    if not causal and window is None:
        return None
    check_last_queries(queries, keys)
    offset = (
        torch.arange(keys, device=device)
        - torch.arange(keys - queries, keys, device=device)[:, None]
    )
    mask = offset <= 0 if causal else None
    if window is not None:
        check_size("window", window)
        mask = both(mask, offset.abs() < window)
    return mask


def both(mask: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Return where both masks are True; None is True everywhere."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask & other


def split_heads(
    x: Float[Tensor, "batch *space channels"], heads: int
) -> Float[Tensor, "batch heads positions width"]:
    """Split the channels into heads, and flatten the space axes into positions, in raster order.

    Raises:
        InvalidInput: for channels that ``heads`` does not divide, no axis of space, or an empty axis.
    """
    check_heads("channels", x, heads)
    return x.reshape(x.shape[0], -1, heads, x.shape[-1] // heads).transpose(1, 2)


def merge_heads(
    x: Float[Tensor, "batch heads positions width"],
) -> Float[Tensor, "batch positions channels"]:
    """Concatenate the channels of all heads: the inverse of ``split_heads``, its positions still flat.

    Raises:
        InvalidInput: unless ``x`` has these four axes.
    """
    check_merged(x)
    return x.transpose(1, 2).flatten(2)
