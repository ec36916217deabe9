"""What a block is made of, as names and numbers that are checked together before anything is built."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from residual_edu.configurable.validation import agreement_checks, model_checks, value_checks
from residual_edu.errors import check_together


@dataclass(frozen=True)
class BlockConfig:
    """One block: four names, and the numbers that their classes read. ``dataclasses.replace`` swaps one of them.

    Args:
        attention: ``mha``, ``gqa``, ``sliding_window_gqa`` (or ``sliding_window``), ``mla``, ``none``.
        ffn: ``standard``, ``gated``, ``relu2``, ``gated_relu2``, ``none``.
        norm: ``layer_norm``, ``rms_norm``.
        position: ``sinusoidal``, ``rope``, ``alibi``, ``none``.
        d_model: features of the stream.
        n_heads: heads of the attention; divides ``d_model``.
        n_kv_heads: heads of the keys and values, ``n_heads`` if not given; divides ``n_heads``. Not read by ``mha``.
        d_ff: hidden features of the feed-forward network.
        bias: whether its linear maps, and the attention's, have one.
        dropout: rate in [0, 1) at which each branch's features are dropped in training.
        norm_eps: added inside the root of each norm, above 0.
        rope_theta: base of the rotary angles, above 0.
        max_seq_len: the longest sequence, what a cache holds included.
        pre_norm: whether a norm stands before its branch, on it, or behind the sum, on the stream.
        window_size: how many positions, its own the last of them, a query of ``sliding_window_gqa`` looks at.
        kv_lora_rank: numbers of the latent from which ``mla`` makes all its keys and values.
        q_lora_rank: the same for its queries; straight from the stream if not given.
        rope_dim: features of each key of ``mla`` that its heads share and ``rope`` turns, at most a head's; if not
            given, half of a head with ``rope``, none without.
        qk_norm: whether ``mha``, ``gqa`` and ``sliding_window_gqa`` normalise each head's queries and keys.

    Raises:
        InvalidInput: with every fault at once.
    """

    attention: str = "mha"
    ffn: str = "standard"
    norm: str = "layer_norm"
    position: str = "sinusoidal"
    d_model: int = 512
    n_heads: int = 8
    n_kv_heads: int | None = None
    d_ff: int = 2048
    bias: bool = True
    dropout: float = 0.0
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_seq_len: int = 2048
    pre_norm: bool = True
    window_size: int | None = None
    kv_lora_rank: int | None = None
    q_lora_rank: int | None = None
    rope_dim: int | None = None
    qk_norm: bool = False

    def __post_init__(self) -> None:
        check_together(type(self).__name__, [*value_checks(self), *agreement_checks(self)])

    @property
    def head_dim(self) -> int:
        """Features of a head."""
        return self.d_model // self.n_heads

    @property
    def effective_n_kv_heads(self) -> int:
        """Heads of the keys and values."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def effective_rope_dim(self) -> int:
        """Features of each key of ``mla`` that its heads share."""
        half = max(2, self.head_dim // 4 * 2) if self.position == "rope" else 0
        return half if self.rope_dim is None else self.rope_dim


@dataclass(frozen=True)
class ModelConfig:
    """A language model: its blocks, and what stands around them.

    Args:
        block: every block, unless ``block_configs`` says otherwise; also says which norm is the last.
        vocab_size: number of different tokens.
        n_layers: number of blocks.
        tie_embeddings: whether the head is the embedding, transposed, or has a matrix of its own.
        block_configs: one config for each of ``n_layers`` blocks, all of one ``d_model``.

    Raises:
        InvalidInput: with every fault at once.
    """

    block: BlockConfig = field(default_factory=BlockConfig)
    vocab_size: int = 32000
    n_layers: int = 6
    tie_embeddings: bool = True
    block_configs: Sequence[BlockConfig] | None = None

    def __post_init__(self) -> None:
        check_together(type(self).__name__, model_checks(self, BlockConfig))

    def get_block_config(self, layer: int) -> BlockConfig:
        """Return the config of block ``layer``, counted from 0."""
        return self.block if self.block_configs is None else self.block_configs[layer]
