"""What a block is made of, as names and numbers that are checked together before anything is built."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from residual_edu.checked import Choice, Count, Flag, Positive, Rate, Size
from residual_edu.configurable.registry import (
    attention_registry,
    ffn_registry,
    norm_registry,
    position_registry,
)
from residual_edu.configurable.validation import (
    block_agreements,
    check_together,
    model_agreements,
)
from residual_edu.old_errors import InvalidInput, shown


@dataclass(frozen=True)
class BlockConfig:
    """One block: four names, and the numbers that their classes read. ``dataclasses.replace`` changes one of them.

    Args:
        attention: ``mha``, ``gqa``, ``sliding_window_gqa`` (or ``sliding_window``), ``mla``, ``none``.
        ffn: ``standard``, ``gated``, ``relu2``, ``gated_relu2``, ``none``.
        norm: ``layer_norm``, ``rms_norm``.
        position: ``sinusoidal``, ``rope``, ``alibi``, ``none``.
        d_model: width of the residual stream, in features.
        n_heads: number of query heads; divides ``d_model``.
        n_kv_heads: number of key and value heads, ``n_heads`` if None; divides ``n_heads``. ``mha`` ignores it.
        d_ff: hidden features of the feed-forward network.
        bias: whether the linear maps of the attention and of the feed-forward network have one.
        dropout: rate in [0, 1) at which elements of each branch's output are dropped in training.
        norm_eps: added inside the root of each norm, above 0.
        rope_theta: base of the rotary angles, above 0.
        max_seq_len: the largest number of positions, those in the cache included.
        pre_norm: True: x + f(norm(x)). False: norm(x + f(x)).
        window_size: number of positions that a query of ``sliding_window_gqa`` attends to, its own the last of them.
        kv_lora_rank: width of the latent from which ``mla`` makes all keys and values.
        q_lora_rank: width of the latent from which it makes all queries; None makes them from the stream itself.
        rope_dim: number of features of each ``mla`` key that all heads share and that are rotated, by any ``position``,
            0 to ``head_dim``; None: half of ``head_dim`` with ``rope``, else 0.
        qk_norm: whether ``mha``, ``gqa`` and ``sliding_window_gqa`` normalise each head's queries and keys.

    Raises:
        InvalidInput: with every fault at once.
    """

    attention: Annotated[str, Choice(attention_registry)] = "mha"
    ffn: Annotated[str, Choice(ffn_registry)] = "standard"
    norm: Annotated[str, Choice(norm_registry)] = "layer_norm"
    position: Annotated[str, Choice(position_registry)] = "sinusoidal"
    d_model: Size = 512
    n_heads: Size = 8
    n_kv_heads: Size | None = None
    d_ff: Size = 2048
    bias: Flag = True
    dropout: Rate = 0.0
    norm_eps: Positive = 1e-5
    rope_theta: Positive = 10000.0
    max_seq_len: Size = 2048
    pre_norm: Flag = True
    window_size: Size | None = None
    kv_lora_rank: Size | None = None
    q_lora_rank: Size | None = None
    rope_dim: Count | None = None
    qk_norm: Flag = False

    def __post_init__(self) -> None:
        check_together(self, block_agreements)

    @property
    def head_dim(self) -> int:
        """Features of each head."""
        return self.d_model // self.n_heads

    @property
    def effective_n_kv_heads(self) -> int:
        """Number of key and value heads."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def effective_rope_dim(self) -> int:
        """Number of features of each ``mla`` key that all heads share."""
        half = max(2, self.head_dim // 4 * 2) if self.position == "rope" else 0
        return half if self.rope_dim is None else self.rope_dim


def check_config(name: str, value: object) -> None:
    """Raise ``InvalidInput`` unless ``value`` has what a ``BlockConfig`` has; a class of one's own may."""
    if isinstance(value, type) or not hasattr(value, "effective_n_kv_heads"):
        raise InvalidInput(f"{name} must be a BlockConfig, got {shown(value)}")


GivenConfig = Annotated[BlockConfig, check_config]
"""What a class that is registered is built from, as ``@checked`` reads it."""


@dataclass(frozen=True)
class ModelConfig:
    """A language model: its blocks, and what stands around them.

    Args:
        block: the config of every block, unless ``block_configs`` is given, and of the last norm.
        vocab_size: number of different tokens.
        n_layers: number of blocks.
        tie_embeddings: whether the head's matrix is the embedding's, transposed, or one of its own.
        block_configs: one config for each of ``n_layers`` blocks, all of the same ``d_model`` as ``block``.

    Raises:
        InvalidInput: with every fault at once.
    """

    block: BlockConfig = field(default_factory=BlockConfig)
    vocab_size: Size = 32000
    n_layers: Size = 6
    tie_embeddings: Flag = True
    block_configs: Sequence[BlockConfig] | None = None

    def __post_init__(self) -> None:
        check_together(self, partial(model_agreements, BlockConfig))

    def get_block_config(self, layer: int) -> BlockConfig:
        """Return the config of block ``layer``, counted from 0."""
        return self.block if self.block_configs is None else self.block_configs[layer]
