"""What is wrong with a config, all of it at once: single fields by their annotations, and fields that do not agree."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from residual_edu.checked import annotated_checks
from residual_edu.configurable.cache import Cache, cache_length
from residual_edu.configurable.registry import attention_registry
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_device,
    check_divisible,
    check_equal,
    check_given,
    check_instance,
    check_layer,
    check_shape,
)

Check = Callable[[], object]
Sound = Callable[..., bool]
"""Whether the fields of these names have passed their own checks, so that they can be compared."""


def check_together(
    config: object, agreements: Callable[[Any, Sound], Iterable[Check]]
) -> None:
    """Run the checks of all annotations of ``config``, a dataclass, then its ``agreements``.

    Raises:
        InvalidInput: with the messages of all checks that fail.
    """
    constructor: Callable[..., object] = type(config)
    faults = {
        name: fault
        for name, checks in annotated_checks(constructor).items()
        for fault in failures(
            partial(check, name, getattr(config, name)) for check in checks
        )
    }
    lines = [
        *faults.values(),
        *failures(agreements(config, lambda *names: faults.keys().isdisjoint(names))),
    ]
    if lines:
        count = f"{len(lines)} faults" if len(lines) > 1 else "a fault"
        raise InvalidInput(
            "\n  ".join([f"{type(config).__name__} has {count}:", *lines])
        )


def failures(checks: Iterable[Check]) -> Iterator[str]:
    """Run all ``checks`` and yield the messages of those that raise ``InvalidInput``."""
    for check in checks:
        try:
            check()
        except InvalidInput as fault:
            yield str(fault)


def block_agreements(config: Any, sound: Sound) -> Iterator[Check]:
    """Yield the checks of a ``BlockConfig``'s fields against each other."""
    if sound("attention"):
        for name in getattr(attention_registry.get(config.attention), "needs", ()):
            yield partial(
                check_given,
                name,
                getattr(config, name, None),
                f"attention {config.attention!r}",
            )
    if sound("d_model", "n_heads"):
        yield partial(
            check_divisible, "d_model", config.d_model, config.n_heads, "n_heads"
        )
    if sound("n_heads", "n_kv_heads"):
        yield partial(
            check_divisible,
            "n_heads",
            config.n_heads,
            config.effective_n_kv_heads,
            "n_kv_heads",
        )
    if sound("d_model", "n_heads", "rope_dim"):
        yield partial(check_rope_dim, config)
    if sound("d_model", "n_heads") and config.position == "rope":
        yield partial(
            check_divisible,
            "head_dim",
            config.head_dim,
            2,
            "position 'rope' rotates pairs of features",
        )
    if sound("d_model") and config.position == "sinusoidal":
        yield partial(
            check_divisible,
            "d_model",
            config.d_model,
            2,
            "position 'sinusoidal' adds sines and cosines",
        )


def check_rope_dim(config: Any) -> None:
    """Raise ``InvalidInput`` unless the features that are rotated are part of a head, and pairs with ``rope``."""
    dim, limit = config.effective_rope_dim, config.head_dim
    if dim > limit:
        raise InvalidInput(
            f"rope_dim must be at most head_dim, got rope_dim={dim} and head_dim={limit}"
        )
    if dim % 2 and (config.position == "rope" or config.attention == "mla"):
        who = (
            "position 'rope'"
            if config.position == "rope"
            else "attention 'mla', which rotates them"
        )
        raise InvalidInput(f"rope_dim must be even for {who}, got {dim}")


def check_call(
    x: Tensor,
    mask: Tensor | None,
    cache: Cache | None,
    d_model: int,
    heads: int = 1,
    layer: nn.Module | None = None,
    limit: int | None = None,
) -> None:
    """Raise ``InvalidInput`` unless a block or an attention can be called so.

    It has that many ``heads``, begins with ``layer``, and allows at most ``limit`` positions.
    """
    check_tokens(x, d_model)
    if layer is not None:
        check_layer("x", x, layer)
    if limit is None and mask is None:
        return  # an attention takes the length of its cache itself
    kept = cache_length(cache)
    if limit is not None and kept + x.shape[1] > limit:
        found = f"{kept} before and {x.shape[1]} new ones" if kept else x.shape[1]
        raise InvalidInput(
            f"positions must be at most max_seq_len={limit}, got {found}"
        )
    if mask is not None:
        check_mask_of(mask, x, (x.shape[1], kept + x.shape[1]), heads)


def check_tokens(x: Tensor, d_model: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, tokens, ``d_model``), not empty: told by few comparisons."""
    if (
        isinstance(x, Tensor)
        and x.ndim == 3
        and x.shape[2] == d_model
        and x.numel()
        and x.is_floating_point()
    ):
        return
    check_shape("x", x, "batch", "tokens", d_model)


def check_mask_of(mask: Tensor, x: Tensor, pairs: tuple[int, int], heads: int) -> None:
    """Raise ``InvalidInput`` unless ``mask`` ends in ``pairs``, after no axis, batch, or batch and heads."""
    check_axes("mask", mask, "queries", "keys")
    if not (mask.is_floating_point() or mask.dtype == torch.bool):
        allowed = "boolean, True where a query may attend to a key, or numbers that are added to the scores"
        raise InvalidInput(
            f"mask must be {allowed}, got {mask.dtype}; convert it with mask.bool()"
        )
    if mask.shape[-2:] != pairs:
        raise InvalidInput(
            f"mask must end in (queries, keys) = {pairs}, got shape {tuple(mask.shape)}"
        )
    before, batch = tuple(mask.shape[:-2]), x.shape[0]
    if (
        len(before) > 2
        or before[:1] not in ((), (1,), (batch,))
        or before[1:] not in ((), (1,), (heads,))
    ):
        wanted = f"none, ({batch} or 1,) or ({batch} or 1, {heads} or 1)"
        raise InvalidInput(
            f"mask must have {wanted} before (queries, keys): batch, heads; got shape {tuple(mask.shape)}"
        )
    check_device("mask", mask, x)


def model_agreements(kind: type[Any], config: Any, sound: Sound) -> Iterator[Check]:
    """Yield the checks of a ``ModelConfig`` whose blocks are of ``kind``."""
    yield partial(check_instance, "block", config.block, kind)
    if config.block_configs is not None and sound("n_layers"):
        yield partial(
            check_equal,
            "len(block_configs)",
            len(config.block_configs),
            config.n_layers,
            "one for each layer",
        )
    for layer, block in enumerate(config.block_configs or ()):
        yield partial(check_instance, f"block_configs[{layer}]", block, kind)
        if isinstance(block, kind) and isinstance(config.block, kind):
            widths = block.d_model, config.block.d_model
            yield partial(
                check_equal,
                f"block_configs[{layer}].d_model",
                *widths,
                "as block.d_model",
            )
