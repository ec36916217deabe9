r"""Scaled dot-product attention: each query takes a weighted mean of all keys' values.

.. math:: y = \mathrm{softmax}(s \, q k^\top + \mathrm{bias}) \, v, \; s = 1 / \sqrt{d}

Vaswani et al., 2017, https://arxiv.org/abs/1706.03762
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from residual_edu.errors import InvalidInput, check_rate, check_shape, check_size
from residual_edu.parts.norm import widened

HIDDEN = -1e30  # as -inf, but a softmax over nothing else is no NaN


def attention(
    query: Float[Tensor, "*batch queries head_dim"],
    key: Float[Tensor, "*#batch keys head_dim"],
    value: Float[Tensor, "*#batch keys value_dim"],
    mask: Bool[Tensor, "*#batch queries keys"] | None = None,
    bias: Float[Tensor, "*#batch queries keys"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Return the mean of all values, weighted by the softmax of the scores.

    ``mask`` is True where a query may attend to a key; boolean, of 2 axes or query's.
    ``bias`` is added to the scores; -1e9 or less hides a key. A query from which every
    key is hidden gets 0. ``scale`` is s, 1 / sqrt(head_dim) by default.
    """
    check_attention(query, key, value, mask, bias)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = widened(query) * scale @ widened(key).mT  # (*batch, queries, keys)
    if bias is not None:
        scores = scores + widened(bias).clamp(min=HIDDEN)
    if mask is not None:
        scores = scores.masked_fill(~mask, HIDDEN)
    y = scores.softmax(dim=-1) @ widened(value)
    added = joined(mask, bias)
    return (y if added is None else y * sees_a_key(added)).type_as(value)


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
    """Return what ``attention`` returns, by torch's kernel, which stores no scores.

    ``dropout`` is the rate, in [0, 1), at which weights are dropped, in evaluation too.
    With ``is_causal`` each query, the last of the keys' positions, sees no later one.
    On the CPU a query that is NaN gets 0, if there is no mask or bias.
    """
    check_attention(query, key, value, mask, bias)
    check_rate("dropout", dropout)
    queries, keys = query.shape[-2], key.shape[-2]
    # The kernel's own causal mask allows no other, and puts the queries first.
    if is_causal and (mask is not None or bias is not None or queries != keys):
        causal = attention_mask(queries, keys, causal=True, device=query.device)
        mask = causal if mask is None or causal is None else mask & causal
        is_causal = False
    added = joined(mask, bias)
    if added is not None and added.is_floating_point():
        added = added.masked_fill(~sees_a_key(added), -torch.inf)  # not just -1e9
    return nn.functional.scaled_dot_product_attention(
        query, key, value, added, dropout, is_causal, scale=scale
    )


def attention_mask(
    queries: int,
    keys: int,
    *,
    causal: bool = False,
    window: int | None = None,
    device: torch.device | None = None,
) -> Bool[Tensor, "queries keys"] | None:
    """Return where queries, the last of the keys' positions, may attend; None: to all.

    With ``causal``, at no later position; with ``window``, less than that far away;
    with both, where both hold. So every query attends to its own position.
    """
    if not causal and window is None:
        return None
    check_size("queries", queries)
    check_size("keys", keys, least=queries)
    positions = torch.arange(keys, device=device)
    offset = positions - positions[keys - queries :, None]  # (queries, keys)
    if window is None:
        return offset <= 0
    check_size("window", window)
    near = offset.abs() < window
    return near & (offset <= 0) if causal else near


def split_heads(
    x: Float[Tensor, "batch *space channels"], heads: int
) -> Float[Tensor, "batch heads positions width"]:
    """Split the channels into heads; the axes of space become one, in raster order."""
    x = x if x.ndim == 3 else x.flatten(1, -2)
    batch, positions, channels = x.shape
    check_size("channels", channels, least=heads)
    return x.reshape(batch, positions, heads, -1).transpose(1, 2)


def merge_heads(
    x: Float[Tensor, "batch heads positions width"],
) -> Float[Tensor, "batch positions channels"]:
    """Concatenate the channels of all heads: ``split_heads`` undone, but for space."""
    batch, heads, positions, width = x.shape
    return x.transpose(1, 2).reshape(batch, positions, heads * width)


def check_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None
) -> None:
    """Raise an error for what would be spread over others' axes, or read in part."""
    keys, values = key.shape[-2], value.shape[-2]
    if keys != values:
        raise InvalidInput(f"value must have key's {keys} positions, got {values}")
    if query.device != key.device:  # torch multiplies even with the meta device
        raise InvalidInput(f"query must be on {key.device}, got {query.device}")
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        for x in (key, value):
            x.expand(*query.shape[:-2], -1, -1)  # torch refuses what would not fit
    if bias is not None:
        check_shape("bias", bias, "...", "queries", "keys")
    axes = 2, query.ndim  # (batch, queries, keys) would be taken for (heads, ...)
    if mask is not None and (mask.dtype != torch.bool or mask.ndim not in axes):
        found = f"{mask.dtype} {tuple(mask.shape)}"
        raise InvalidInput(f"mask must be boolean, of 2 or query's axes, got {found}")
    for added in (mask, bias):
        if added is not None:
            added.expand(*query.shape[:-1], keys)


def joined(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Return mask and bias as one tensor, a bias if there is one."""
    if mask is None or bias is None:
        return bias if mask is None else mask
    return bias.masked_fill(~mask, -torch.inf)


def sees_a_key(added: Tensor) -> Bool[Tensor, "*batch queries 1"]:
    """Whether a mask or bias leaves each query at least 1 key."""
    if added.dtype == torch.bool:
        return added.any(dim=-1, keepdim=True)
    lowest = max(-1e9, torch.finfo(added.dtype).min)
    return added.detach().amax(dim=-1, keepdim=True) > lowest
