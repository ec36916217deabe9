r"""The attention family: how many heads the keys and values have, and what is kept of them while decoding.

======================  ==================  ========================================
name                    looks at            numbers kept for each token
======================  ==================  ========================================
``mha``                 what the mask says  2 * n_heads * head_dim
``gqa``                 what the mask says  2 * n_kv_heads * head_dim
``sliding_window_gqa``  the last w of it    2 * n_kv_heads * head_dim
``mla``                 what the mask says  kv_lora_rank + rope_dim
======================  ==================  ========================================

Grouped queries: Ainslie et al., 2023, https://arxiv.org/abs/2305.13245; with one key head, Shazeer, 2019,
https://arxiv.org/abs/1911.02150; windows: Beltagy et al., 2020, https://arxiv.org/abs/2004.05150; latents: DeepSeek-AI,
2024, https://arxiv.org/abs/2405.04434
"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from residual_edu.configurable.cache import Cache, cache_length, extend
from residual_edu.configurable.config import BlockConfig
from residual_edu.configurable.position import PositionBase
from residual_edu.configurable.registry import position_registry
from residual_edu.errors import check_needed
from residual_edu.parts.attention import attention_mask, both, fused_attention, merge_heads, split_heads
from residual_edu.parts.rms_norm import RMSNorm


def repeat_heads(x: Float[Tensor, "batch kv_heads positions head_dim"], heads: int) -> Tensor:
    """Return ``heads`` heads, each of ``x`` as often as needed and in a row: head h is head h // group of ``x``."""
    group = heads // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, dim=1)


class AttentionBase(nn.Module):
    """What every attention knows: sizes, and the position encoding. It has no parameters.

    A subclass adds ``forward(x, mask, cache) -> (output, updated_cache)``. A class attribute ``needs`` names the fields
    of the config that must be given.
    """

    needs: tuple[str, ...] = ()

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.d_model, self.head_dim = config.d_model, config.head_dim
        self.n_heads, self.n_kv_heads = config.n_heads, config.effective_n_kv_heads
        self.position: PositionBase = position_registry.get(config.position)(config)
        for name in self.needs:
            check_needed(name, getattr(config, name), type(self).__name__)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Return what each head's queries, the last of the keys' positions, hear: (batch, positions, features)."""
        key, value = repeat_heads(key, self.n_heads), repeat_heads(value, self.n_heads)
        bias = self.position.bias(query, key.shape[-2])
        return merge_heads(fused_attention(query, key, value, mask, bias))


class GQA(AttentionBase):
    """Grouped-query attention: ``n_heads`` heads ask, groups of them share one of ``n_kv_heads`` keys and values.

    Args:
        config: reads ``d_model``, ``n_heads``, ``n_kv_heads``, ``bias``, ``qk_norm`` and ``position``.
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        kv_dim = self.n_kv_heads * self.head_dim
        self.q_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        self.k_proj = nn.Linear(self.d_model, kv_dim, bias=config.bias)
        self.v_proj = nn.Linear(self.d_model, kv_dim, bias=config.bias)
        self.o_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        self.qk_norm = config.qk_norm
        if self.qk_norm:
            self.q_norm, self.k_norm = (RMSNorm(self.head_dim, config.norm_eps) for _ in range(2))

    def forward(
        self,
        x: Float[Tensor, "batch positions channels"],
        mask: Bool[Tensor, "*#batch positions keys"] | None = None,
        cache: Cache | None = None,
    ) -> tuple[Float[Tensor, "batch positions channels"], Cache]:
        """Mix positions; a key is kept as the queries meet it, turned by its own position."""
        start, position = cache_length(cache), self.position
        query, key = split_heads(self.q_proj(x), self.n_heads), split_heads(self.k_proj(x), self.n_kv_heads)
        if self.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = position.rotate(query, start), position.rotate(key, start)
        key, value = cache = extend(cache, key, split_heads(self.v_proj(x), self.n_kv_heads))
        return self.o_proj(self.attend(query, key, value, mask)), cache


class MHA(GQA):
    """Multi-head attention: a key and a value for each head that asks, whatever ``n_kv_heads`` says."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(replace(config, n_kv_heads=None))


class SlidingWindowGQA(GQA):
    """Grouped-query attention to a query's own position and the ``window_size`` - 1 before it, where ``mask`` agrees.

    It is causal with or without a mask. The cache keeps all positions.
    """

    needs = ("window_size",)

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.window_size = config.window_size

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Return what each head's queries hear within the window."""
        queries, keys = query.shape[-2], key.shape[-2]
        window = attention_mask(queries, keys, causal=True, window=self.window_size, device=query.device)
        return super().attend(query, key, value, both(window, mask))


class MLA(AttentionBase):
    """Multi-head latent attention: all heads' keys and values are made from one small latent, which alone is kept.

    The first ``rope_dim`` features of every key are one vector that all heads share. They alone tell positions by
    rotation, since a turned key could not be made from a latent that does not know its position.

    Args:
        config: reads ``d_model``, ``n_heads``, ``kv_lora_rank``, ``q_lora_rank``, ``rope_dim``, ``bias``,
            ``norm_eps`` and ``position``.
    """

    needs = ("kv_lora_rank",)

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        rank: int = config.kv_lora_rank  # type: ignore[assignment]  # needed, so given
        self.rope_dim = config.effective_rope_dim
        self.kv_down = nn.Linear(self.d_model, rank + self.rope_dim, bias=False)
        self.kv_norm = RMSNorm(rank, config.norm_eps)
        self.kv_up = nn.Linear(rank, self.n_heads * (2 * self.head_dim - self.rope_dim), bias=False)
        if config.q_lora_rank is None:
            self.q_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        else:
            self.q_down = nn.Linear(self.d_model, config.q_lora_rank, bias=False)
            self.q_norm = RMSNorm(config.q_lora_rank, config.norm_eps)
            self.q_up = nn.Linear(config.q_lora_rank, self.d_model, bias=False)
        self.o_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)

    def forward(
        self,
        x: Float[Tensor, "batch positions channels"],
        mask: Bool[Tensor, "*#batch positions keys"] | None = None,
        cache: Cache | None = None,
    ) -> tuple[Float[Tensor, "batch positions channels"], Cache]:
        """Mix positions; the cache is the latents and the keys' shared features, turned by their own positions."""
        start = cache_length(cache)
        latent, shared = self.kv_down(x).tensor_split([self.kv_norm.dim], dim=-1)
        latent, shared = cache = extend(cache, self.kv_norm(latent), self.turn(shared, start))
        own = split_heads(self.kv_up(latent), self.n_heads)
        own, value = own.tensor_split([self.head_dim - self.rope_dim], dim=-1)
        key = torch.cat([shared[:, None].expand(-1, self.n_heads, -1, -1), own], dim=-1)
        query = self.turn(split_heads(self.queries(x), self.n_heads), start)
        return self.o_proj(self.attend(query, key, value, mask)), cache

    def queries(self, x: Tensor) -> Tensor:
        """Return the queries of all heads, by way of a latent of their own if there is one."""
        return self.q_proj(x) if hasattr(self, "q_proj") else self.q_up(self.q_norm(self.q_down(x)))

    def turn(self, x: Tensor, start: int) -> Tensor:
        """Rotate the first ``rope_dim`` features."""
        turned, rest = x.tensor_split([self.rope_dim], dim=-1)
        return torch.cat([self.position.rotate(turned, start), rest], dim=-1) if self.rope_dim else x
