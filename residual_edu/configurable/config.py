"""What a block and a model are made of, as names and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from residual_edu.errors import InvalidInput, check_positive, check_rate, check_size


@dataclass(frozen=True)
class BlockConfig:
    """One block: four names, and the numbers that their classes read.

    Args:
        attention: ``mha``, ``gqa``, ``sliding_window_gqa``, ``mla`` or ``none``.
        ffn: ``standard``, ``gated``, ``relu2``, ``gated_relu2`` or ``none``.
        norm: ``layer_norm`` or ``rms_norm``.
        position: ``sinusoidal``, ``rope``, ``alibi`` or ``none``.
        d_model: width of the residual stream, in features.
        n_heads: number of query heads; divides ``d_model``.
        n_kv_heads: of key and value heads; divides ``n_heads``. None or ``mha``: equal.
        d_ff: hidden features of the feed-forward network.
        bias: whether the linear maps of both branches have one.
        dropout: rate in [0, 1) at which elements of each branch's output are dropped.
        norm_eps: added inside the root of each norm, above 0.
        rope_theta: base of the rotary angles, above 0.
        max_seq_len: the largest number of positions, those in the cache included.
        pre_norm: True: x + f(norm(x)). False: norm(x + f(x)).
        window_size: positions a ``sliding_window_gqa`` query attends to, its own last.
        kv_lora_rank: width of the latent of ``mla``'s keys and values.
        q_lora_rank: width of the latent of its queries; None: made from the stream.
        rope_dim: features of each ``mla`` key that all heads share and that are
            rotated, 0 to ``head_dim``; None: half of it with ``rope``, else 0.
        qk_norm: whether each head's queries and keys are normalised, but for ``mla``.
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
        for name in ("d_model", "n_heads", "d_ff", "max_seq_len"):
            check_size(name, getattr(self, name))
        for name in ("n_kv_heads", "window_size", "kv_lora_rank", "q_lora_rank"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        check_size("rope_dim", self.effective_rope_dim, least=0)
        check_rate("dropout", self.dropout)
        check_positive("norm_eps", self.norm_eps)
        check_positive("rope_theta", self.rope_theta)
        model, heads, kv_heads = self.d_model, self.n_heads, self.effective_n_kv_heads
        if model % heads or heads % kv_heads:
            wanted = "n_kv_heads must divide n_heads, and n_heads d_model"
            raise InvalidInput(f"{wanted}, got {kv_heads}, {heads} and {model}")
        if (rotated := self.effective_rope_dim) > self.head_dim:
            wanted = f"rope_dim must be at most head_dim={self.head_dim}"
            raise InvalidInput(f"{wanted}, got {rotated}")

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


@dataclass(frozen=True)
class ModelConfig:
    """A language model: its blocks, and what stands around them.

    Args:
        block: the config of every block without one of its own, and of the last norm.
        vocab_size, n_layers: numbers of different tokens and of blocks.
        tie_embeddings: whether the head's matrix is the embedding's, transposed.
        block_configs: one config for each block, all of the same ``d_model``.
    """

    block: BlockConfig = field(default_factory=BlockConfig)
    vocab_size: int = 32000
    n_layers: int = 6
    tie_embeddings: bool = True
    block_configs: Sequence[BlockConfig] | None = None

    def __post_init__(self) -> None:
        check_size("vocab_size", self.vocab_size)
        check_size("n_layers", self.n_layers)
        given = self.n_layers if self.block_configs is None else len(self.block_configs)
        if given != self.n_layers:
            wanted = f"block_configs must hold n_layers={self.n_layers} configs"
            raise InvalidInput(f"{wanted}, got {given}")

    def get_block_config(self, layer: int) -> BlockConfig:
        """Return the config of block ``layer``, counted from 0."""
        return self.block if self.block_configs is None else self.block_configs[layer]
