"""Checks of what attention takes: queries, keys and values, masks, and positions before and after them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from residual_edu.errors import InvalidInput, check_axes, check_finite, check_floating, check_instance, check_not_empty
from residual_edu.values import is_readable


def check_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None, scale: float | None
) -> None:
    """Raise ``InvalidInput`` unless these can be the arguments of ``attention``, each spread over query's axes."""
    check_keys(query, key, value)
    if mask is not None:
        check_mask(mask)
        check_over_scores("mask", mask, query, key)
        if mask.ndim not in (2, query.ndim):  # (batch, queries, keys) would be taken for (heads, queries, keys)
            mend = "give it an axis of 1 where it is the same for all"
            raise InvalidInput(f"mask must have 2 axes or query's {query.ndim}, got {tuple(mask.shape)}; {mend}")
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
        raise InvalidInput(f"key must have query's {query.shape[-1]} features, got shape {tuple(key.shape)}")
    if value.shape[-2] != key.shape[-2]:
        raise InvalidInput(f"value must have key's {key.shape[-2]} positions, got shape {tuple(value.shape)}")
    for name, x in (("key", key), ("value", value)):
        check_spreads(name, x.shape[:-2], query.shape[:-2])


def check_as_query(name: str, x: Tensor, query: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is on the device of ``query`` and of its dtype, which autocast may change."""
    differs = x.dtype != query.dtype and not torch.is_autocast_enabled(x.device.type)
    if differs or x.device != query.device:
        mine, theirs = f"{x.dtype} on {x.device}", f"{query.dtype} on {query.device}"
        raise InvalidInput(f"{name} must be as query is, {theirs}, got {mine}; convert it with {name}.to(query)")


def check_over_scores(name: str, x: Tensor, query: Tensor, key: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` can be broadcast to the scores, (*batch, queries, keys)."""
    scores = (*query.shape[:-1], key.shape[-2])
    check_axes(name, x, "queries", "keys")
    check_spreads(name, x.shape, scores)


def check_spreads(name: str, shape: Sequence[int], whole: Sequence[int]) -> None:
    """Raise ``InvalidInput`` unless each axis of ``shape`` is 1 or that of ``whole``, counted from the last."""
    last = whole[len(whole) - len(shape) :]
    if len(shape) > len(whole) or any(one not in (1, all_of) for one, all_of in zip(shape, last, strict=True)):
        raise InvalidInput(f"{name} must have axes of 1 or those of {tuple(whole)}, got {tuple(shape)}")


def check_mask(mask: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``mask`` is boolean and allows each query at least one key."""
    check_instance("mask", mask, Tensor)
    if mask.dtype != torch.bool:
        raise InvalidInput(
            f"mask must be boolean, True where a query may attend to a key, got {mask.dtype}; "
            "what is added to the scores is given as bias"
        )
    if is_readable(mask) and not mask.any(dim=-1).all():
        raise InvalidInput("mask must allow each query at least 1 key, got a row that is all False")


def check_bias(name: str, bias: Tensor) -> None:
    """Raise ``InvalidInput`` where ``bias`` holds NaN or infinity, or leaves a query no key: a row of -1e9 or less."""
    if is_readable(bias):
        largest = bias.amax(dim=-1)
        if not (largest < torch.inf).all():
            raise InvalidInput(f"{name} must hold numbers or minus infinity, got NaN or infinity")
        if not (largest > max(-1e9, torch.finfo(bias.dtype).min)).all():
            raise InvalidInput(f"{name} must leave each query at least 1 key, got a row of -1e9 or less")


def check_room(kept: int, new: int, limit: int) -> None:
    """Raise ``InvalidInput`` where ``new`` positions after ``kept`` ones are more than ``limit``."""
    if isinstance(kept, float) or kept < 0:
        raise InvalidInput(f"start must be a whole number of at least 0, got {kept}")
    if kept + new > limit:
        cached = f"{kept} before and {new} new ones" if kept else new
        raise InvalidInput(f"positions must be at most max_seq_len={limit}, got {cached}")


def check_last_queries(queries: int, keys: int) -> None:
    """Raise ``InvalidInput`` unless ``queries`` positions can be the last of ``keys``."""
    if queries > keys:
        raise InvalidInput(f"queries must be the last positions of keys, got {queries} queries and {keys} keys")
