r"""Attention: each position asks all others, and takes a weighted mean of what they say.

.. math:: y = \mathrm{softmax}(s \, q k^\top + \mathrm{bias}) \, v, \qquad s = 1 / \sqrt{d}

Vaswani et al., 2017, https://arxiv.org/abs/1706.03762
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from residual_edu.errors import check_last_queries, check_mask, check_size


def attention(
    query: Float[Tensor, "*batch queries head_dim"],
    key: Float[Tensor, "*#batch keys head_dim"],
    value: Float[Tensor, "*#batch keys value_dim"],
    mask: Bool[Tensor, "*#batch queries keys"] | None = None,
    bias: Float[Tensor, "*#batch queries keys"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    r"""Return :math:`\mathrm{softmax}(s \, q k^\top + \mathrm{bias}) \, v`, by the formula.

    ``mask`` is True where a query may look at a key; a row that may look nowhere is refused. ``bias`` is added to the
    scores. ``scale`` is s, 1 / sqrt(head_dim) if none is given.
    """
    scores = query * (query.shape[-1] ** -0.5 if scale is None else scale) @ key.mT
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        check_mask("mask", mask)
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
    """Return what ``attention`` returns, by torch's kernel, which keeps no table of scores.

    ``dropout`` is the rate at which weights are dropped, whether in training or not; with ``is_causal`` the queries,
    the last of the keys' positions, look at no later key, besides what ``mask`` forbids.
    """
    if mask is not None:
        check_mask("mask", mask)
    by_kernel = is_causal and mask is None and bias is None and query.shape[-2] == key.shape[-2]
    if is_causal and not by_kernel:
        mask = both(mask, attention_mask(query.shape[-2], key.shape[-2], causal=True, device=query.device))
    if bias is not None and mask is not None:
        bias = bias.masked_fill(~mask, -torch.inf)
    return nn.functional.scaled_dot_product_attention(
        query, key, value, mask if bias is None else bias, dropout, by_kernel, scale=scale
    )


def attention_mask(
    queries: int, keys: int, *, causal: bool = False, window: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "queries keys"] | None:
    """Return where queries, the last of the keys' positions, may look, or None for everywhere.

    With ``causal``, at no later position; with ``window``, less than that many positions away; with both, where both
    hold. So every query sees itself.

    Raises:
        InvalidInput: for a size below 1, or more queries than keys.
    """
    check_size("queries", queries)
    check_size("keys", keys)
    if not causal and window is None:
        return None
    check_last_queries(queries, keys)
    ahead = torch.arange(keys, device=device) - torch.arange(keys - queries, keys, device=device)[:, None]
    mask = ahead <= 0 if causal else None
    if window is not None:
        check_size("window", window)
        mask = both(mask, ahead.abs() < window)
    return mask


def both(mask: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Return where both masks let look; None lets look everywhere."""
    return other if mask is None else mask if other is None else mask & other


def split_heads(x: Float[Tensor, "batch *space channels"], heads: int) -> Float[Tensor, "batch heads positions width"]:
    """Cut the channels into heads, and lay the positions in one line, in raster order."""
    return x.reshape(x.shape[0], -1, heads, x.shape[-1] // heads).transpose(1, 2)


def merge_heads(x: Float[Tensor, "batch heads positions width"]) -> Float[Tensor, "batch positions channels"]:
    """Put the channels of all heads beside each other: what ``split_heads`` took apart, its positions in one line."""
    return x.transpose(1, 2).flatten(2)
