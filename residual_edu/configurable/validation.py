"""What a config must hold, as a list of checks that are run together."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from residual_edu.configurable.registry import attention_registry, ffn_registry, norm_registry, position_registry
from residual_edu.errors import (
    are_sizes,
    check_at_most,
    check_config,
    check_count,
    check_divides,
    check_equal,
    check_even,
    check_flag,
    check_needed,
    check_positive,
    check_rate,
    check_size,
    check_whole,
)

Check = Callable[[], object]
REGISTRIES = {
    "attention": attention_registry,
    "ffn": ffn_registry,
    "norm": norm_registry,
    "position": position_registry,
}


def value_checks(config: Any) -> Iterator[Check]:
    """Yield the checks of each value by itself."""
    for name, registry in REGISTRIES.items():
        yield partial(registry.get, getattr(config, name))
    for name in ("d_model", "n_heads", "d_ff", "max_seq_len"):
        yield partial(check_size, name, getattr(config, name))
    for name in ("n_kv_heads", "window_size", "kv_lora_rank", "q_lora_rank"):
        if getattr(config, name) is not None:
            yield partial(check_size, name, getattr(config, name))
    if config.rope_dim is not None:
        yield partial(check_whole, "rope_dim", config.rope_dim)
    for name in ("bias", "pre_norm", "qk_norm"):
        yield partial(check_flag, name, getattr(config, name))
    yield partial(check_rate, "dropout", config.dropout)
    yield partial(check_positive, "norm_eps", config.norm_eps)
    yield partial(check_positive, "rope_theta", config.rope_theta)


def agreement_checks(config: Any) -> Iterator[Check]:
    """Yield the checks of a ``BlockConfig``'s values against each other."""
    if config.attention in attention_registry:
        for name in getattr(attention_registry.get(config.attention), "needs", ()):
            yield partial(check_needed, name, getattr(config, name, None), f"attention {config.attention!r}")
    if are_sizes(config.d_model, config.n_heads):
        yield partial(check_divides, "n_heads", config.n_heads, "d_model", config.d_model)
        yield partial(check_divides, "n_kv_heads", config.effective_n_kv_heads, "n_heads", config.n_heads)
        yield partial(check_at_most, "rope_dim", config.effective_rope_dim, "head_dim", config.head_dim)
        if config.position == "rope":
            yield partial(check_even, "head_dim", config.head_dim, "position 'rope'")
            yield partial(check_even, "rope_dim", config.effective_rope_dim, "position 'rope'")
        if config.position == "sinusoidal":
            yield partial(check_even, "d_model", config.d_model, "position 'sinusoidal'")


def model_checks(config: Any, kind: type[Any]) -> Iterator[Check]:
    """Yield the checks of a ``ModelConfig`` whose blocks are of ``kind``."""
    yield partial(check_size, "vocab_size", config.vocab_size)
    yield partial(check_size, "n_layers", config.n_layers)
    yield partial(check_flag, "tie_embeddings", config.tie_embeddings)
    yield partial(check_config, "block", config.block, kind)
    if config.block_configs is not None:
        yield partial(check_count, "block_configs", config.block_configs, "n_layers", config.n_layers)
        for layer, block in enumerate(config.block_configs):
            yield partial(check_config, f"block_configs[{layer}]", block, kind)
            if all(isinstance(one, kind) for one in (block, config.block)):
                widths = block.d_model, config.block.d_model
                yield partial(check_equal, f"block_configs[{layer}].d_model", *widths, "block.d_model")
