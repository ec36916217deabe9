"""Checks of what attention takes: queries, keys and values, masks, and positions before and after them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_device,
    check_divisible,
    check_finite,
    check_floating,
    check_instance,
    check_not_empty,
    check_shape,
    check_size,
)
from residual_edu.values import is_readable


def check_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float | None,
) -> None:
    """Raise ``InvalidInput`` unless these can be the arguments of ``attention``, each spread over query's axes."""
    if not are_alike(query, key, value):
        check_keys(query, key, value)
    if mask is not None:
        check_mask(mask)
        check_over_scores("mask", mask, query, key)
        if mask.ndim not in (
            2,
            query.ndim,
        ):  # (batch, queries, keys) would be taken for (heads, queries, keys)
            mend = "give it an axis of 1 where it is the same for all"
            raise InvalidInput(
                f"mask must have 2 axes or query's {query.ndim}, got {tuple(mask.shape)}; {mend}"
            )
    if bias is not None:
        check_floating("bias", bias)
        check_as_query("bias", bias, query)
        check_over_scores("bias", bias, query, key)
        check_bias("bias", bias)
    if scale is not None:
        check_finite("scale", scale)


def check_keys(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise ``InvalidInput`` unless the three are of one dtype and device, not empty, and their shapes fit."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        check_floating(name, x)
        check_axes(name, x, "positions", "features")
        check_not_empty(name, x)
        check_as_query(name, x, query)
    if key.shape[-1] != query.shape[-1]:
        raise InvalidInput(
            f"key must have query's {query.shape[-1]} features, got shape {tuple(key.shape)}"
        )
    if value.shape[-2] != key.shape[-2]:
        raise InvalidInput(
            f"value must have key's {key.shape[-2]} positions, got shape {tuple(value.shape)}"
        )
    for name, x in (("key", key), ("value", value)):
        check_spreads(name, x.shape[:-2], query.shape[:-2])


def are_alike(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the three differ in the number of positions alone, as they do in most models: told by few comparisons."""
    if not (
        isinstance(query, Tensor)
        and isinstance(key, Tensor)
        and isinstance(value, Tensor)
    ):
        return False
    queries, keys, dtype, device = query.shape, key.shape, query.dtype, query.device
    shapes = (
        keys == value.shape
        and len(queries) > 1
        and queries[:-2] == keys[:-2]
        and queries[-1] == keys[-1]
    )
    kinds = dtype == key.dtype == value.dtype and device == key.device == value.device
    return (
        shapes
        and kinds
        and dtype.is_floating_point
        and 0 not in queries
        and 0 not in keys
    )


def check_as_query(name: str, x: Tensor, query: Tensor, other: str = "query") -> None:
    """Raise ``InvalidInput`` unless ``x`` is on the device of ``query``, ``other``, and of its dtype, bar autocast."""
    differs = x.dtype != query.dtype and not torch.is_autocast_enabled(x.device.type)
    if differs or x.device != query.device:
        mine, theirs = f"{x.dtype} on {x.device}", f"{query.dtype} on {query.device}"
        raise InvalidInput(
            f"{name} must be as {other} is, {theirs}, got {mine}; convert it with {name}.to({other})"
        )


def check_over_scores(name: str, x: Tensor, query: Tensor, key: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` can be broadcast to the scores, (*batch, queries, keys)."""
    scores = (*query.shape[:-1], key.shape[-2])
    check_axes(name, x, "queries", "keys")
    check_device(name, x, query)
    check_spreads(name, x.shape, scores)


def check_spreads(name: str, shape: Sequence[int], whole: Sequence[int]) -> None:
    """Raise ``InvalidInput`` unless each axis of ``shape`` is 1 or that of ``whole``, counted from the last."""
    last = whole[len(whole) - len(shape) :]
    if len(shape) > len(whole) or any(
        one not in (1, all_of) for one, all_of in zip(shape, last, strict=True)
    ):
        raise InvalidInput(
            f"{name} must have axes of 1 or those of {tuple(whole)}, got {tuple(shape)}"
        )


def check_mask(mask: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``mask`` is boolean and allows each query at least one key."""
    check_instance("mask", mask, Tensor)
    if mask.dtype != torch.bool:
        raise InvalidInput(
            f"mask must be boolean, True where a query may attend to a key, got {mask.dtype}; "
            "what is added to the scores is given as bias"
        )
    if is_readable(mask) and not mask.any(dim=-1).all():
        raise InvalidInput(
            "mask must allow each query at least 1 key, got a row that is all False"
        )


def check_bias(name: str, bias: Tensor) -> None:
    """Raise ``InvalidInput`` where ``bias`` holds NaN or infinity, or leaves a query no key: a row of -1e9 or less."""
    if is_readable(bias):
        largest = bias.amax(dim=-1)
        if not (largest < torch.inf).all():
            raise InvalidInput(
                f"{name} must hold numbers or minus infinity, got NaN or infinity"
            )
        if not (largest > max(-1e9, torch.finfo(bias.dtype).min)).all():
            raise InvalidInput(
                f"{name} must leave each query at least 1 key, got a row of -1e9 or less"
            )


def check_room(kept: int, new: int, limit: int) -> None:
    """Raise ``InvalidInput`` where ``new`` positions after ``kept`` ones are more than ``limit``."""
    check_size("start", kept, least=0)
    if kept + new > limit:
        cached = f"{kept} before and {new} new ones" if kept else new
        raise InvalidInput(
            f"positions must be at most max_seq_len={limit}, got {cached}"
        )


def check_last_queries(queries: int, keys: int) -> None:
    """Raise ``InvalidInput`` unless ``queries`` positions can be the last of ``keys``."""
    if queries > keys:
        raise InvalidInput(
            f"queries must be the last positions of keys, got {queries} queries and {keys} keys"
        )


def check_heads(name: str, x: Tensor, heads: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, *space, channels), not empty, and ``heads`` divides these."""
    known = isinstance(x, Tensor) and type(heads) is int and heads > 0
    if known and x.ndim > 2 and x.shape[-1] % heads == 0 and x.numel():
        return  # without the calls below: this runs three times in each attention
    check_axes("x", x, "batch", "positions", "channels")
    check_size("heads", heads)
    check_not_empty("x", x)
    check_divisible(name, x.shape[-1], heads, "heads")


def check_repeats(x: Tensor, heads: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, kv_heads, positions, head_dim), and kv_heads divides ``heads``."""
    if isinstance(x, Tensor) and x.ndim == 4 and x.shape[1] == heads and x.numel():
        return  # nothing is repeated
    check_shape("x", x, "batch", "kv_heads", "positions", "head_dim")
    check_divisible("heads", heads, x.shape[1], "x's heads")


def check_merged(x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, heads, positions, width), not empty."""
    if not (
        isinstance(x, Tensor) and x.ndim == 4 and x.numel() and x.is_floating_point()
    ):
        check_shape("x", x, "batch", "heads", "positions", "width")


def check_tables(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (*batch, positions, head_dim), its width even, and both tables fit it."""
    if isinstance(x, Tensor) and isinstance(cos, Tensor) and isinstance(sin, Tensor):
        shape = x.shape
        if (
            cos.shape == sin.shape == shape[-2:]
            and shape[-1] % 2 == 0
            and x.is_floating_point()
            and x.ndim > 1
        ):
            return
    check_axes("x", x, "positions", "head_dim")
    check_floating("x", x)
    check_divisible("head_dim", x.shape[-1], 2, "features come in pairs")
    for name, table in (("cos", cos), ("sin", sin)):
        if not isinstance(table, Tensor) or table.shape != x.shape[-2:]:
            check_shape(name, table, *x.shape[-2:])
