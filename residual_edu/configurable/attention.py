r"""The attention family: how many heads the keys and values have, and what of them is cached while decoding.

======================  =====================================  ========================================
name                    each query attends to                  numbers cached for each token
======================  =====================================  ========================================
``mha``                 what the mask allows                   2 * n_heads * head_dim
``gqa``                 what the mask allows                   2 * n_kv_heads * head_dim
``sliding_window_gqa``  the last window_size positions of it   2 * n_kv_heads * head_dim
``mla``                 what the mask allows                   kv_lora_rank + rope_dim
======================  =====================================  ========================================

Grouped queries: Ainslie et al., 2023, https://arxiv.org/abs/2305.13245; with one key head, Shazeer, 2019,
https://arxiv.org/abs/1911.02150; windows: Beltagy et al., 2020, https://arxiv.org/abs/2004.05150; latents: DeepSeek-AI,
2024, https://arxiv.org/abs/2405.04434
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from residual_edu.checked import checked
from residual_edu.configurable.cache import Cache, cache_length, extend
from residual_edu.configurable.config import BlockConfig, GivenConfig
from residual_edu.configurable.position import (
    PositionBase,
    RoPE,
    check_position,
    rotates,
)
from residual_edu.configurable.registry import position_registry
from residual_edu.configurable.validation import check_call
from residual_edu.old_errors import check_divisible, check_given, check_shape
from residual_edu.parts.attention import (
    attention_mask,
    check_keys_left,
    fused_attention,
    merge_heads,
    split_heads,
)
from residual_edu.parts.rms_norm import RMSNorm


def repeat_heads(
    x: Float[Tensor, "batch kv_heads positions head_dim"], heads: int
) -> Tensor:
    """Return ``heads`` heads, each of ``x`` repeated and its copies in a row: head h is head h // group of ``x``.

    Raises:
        InvalidInput: unless ``x`` has four axes, and a number of heads that divides ``heads``.
    """
    check_shape("x", x, "batch", "kv_heads", "positions", "head_dim")
    check_divisible("heads", heads, x.shape[1], "x's heads")
    group = heads // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, dim=1)


class AttentionBase(nn.Module):
    """What all attentions share: sizes and the position encoding. It has no parameters.

    A subclass adds ``forward(x, mask, cache) -> (output, updated_cache)``. Its class attribute ``needs`` names the
    fields of the config that must not be None.
    """

    needs: tuple[str, ...] = ()

    @checked
    def __init__(self, config: GivenConfig) -> None:
        super().__init__()
        self.d_model, self.head_dim = config.d_model, config.head_dim
        self.n_heads, self.n_kv_heads = config.n_heads, config.effective_n_kv_heads
        self.position: PositionBase = position_registry.get(config.position)(config)
        check_built(self, config)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Return the output of all heads, (batch, positions, features).

        ``query`` is (batch, n_heads, positions, head_dim), ``key`` and ``value`` (batch, heads, keys, head_dim) with a
        number of heads that divides ``n_heads``; the queries are the last of the keys' positions. Of numbers, ``mask``
        is added to the scores.
        """
        key, value = repeat_heads(key, self.n_heads), repeat_heads(value, self.n_heads)
        bias = self.position.bias(query, key.shape[-2])
        if mask is not None and mask.ndim == 3:
            mask = mask[:, None]  # the same for all heads
        if mask is not None and mask.is_floating_point():
            check_keys_left("mask", mask)
            bias = mask.to(query) if bias is None else bias + mask.to(query)
            mask = None
        return merge_heads(fused_attention(query, key, value, mask, bias))


def check_built(attention: AttentionBase, config: BlockConfig) -> None:
    """Raise ``InvalidInput`` unless the position is one, and ``config`` has the fields that ``attention`` needs."""
    check_position(config.position, attention.position)
    for name in attention.needs:
        check_given(name, getattr(config, name), type(attention).__name__)


class NoAttention(nn.Identity):
    """No attention: a block leaves the branch out, and a call returns ``x`` and a cache that only counts positions."""

    @checked
    def __init__(self, config: GivenConfig) -> None:
        super().__init__()
        self.heads = config.n_heads

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        mask: Shaped[Tensor, "*#batch positions keys"] | None = None,
        cache: Cache | None = None,
    ) -> tuple[Tensor, Cache]:
        """Return ``x`` itself, and the cache, longer by its positions."""
        check_call(x, mask, cache, x.shape[-1], self.heads)
        return x, extend(cache, x[..., :0], x[..., :0])


class GQA(AttentionBase):
    """Grouped-query attention: the ``n_heads`` query heads share ``n_kv_heads`` key and value heads, group by group.

    Args:
        config: reads ``d_model``, ``n_heads``, ``n_kv_heads``, ``bias``, ``qk_norm``, ``norm_eps`` and ``position``.
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
            self.q_norm, self.k_norm = (
                RMSNorm(self.head_dim, config.norm_eps) for _ in range(2)
            )

    def forward(
        self,
        x: Float[Tensor, "batch positions channels"],
        mask: Shaped[Tensor, "*#batch positions keys"] | None = None,
        cache: Cache | None = None,
    ) -> tuple[Float[Tensor, "batch positions channels"], Cache]:
        """Mix positions; the cache is the keys, normalised and rotated, and the values."""
        check_call(x, mask, cache, self.d_model, self.n_heads, self._modules["q_proj"])
        start, position = cache_length(cache), self.position
        query = split_heads(
            self.q_proj(x), self.n_heads
        )  # (batch, n_heads, positions, head_dim)
        key = split_heads(
            self.k_proj(x), self.n_kv_heads
        )  # (batch, n_kv_heads, positions, head_dim)
        value = split_heads(self.v_proj(x), self.n_kv_heads)
        if self.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = position.rotate(query, start), position.rotate(key, start)
        key, value = cache = extend(
            cache, key, value
        )  # (batch, n_kv_heads, keys, head_dim): the cached ones first
        return self.o_proj(self.attend(query, key, value, mask)), cache


class MHA(GQA):
    """Multi-head attention: each query head has a key and a value head of its own; ``n_kv_heads`` is ignored."""

    @checked
    def __init__(self, config: GivenConfig) -> None:
        super().__init__(replace(config, n_kv_heads=None))


class SlidingWindowGQA(GQA):
    """Grouped-query attention to a query's own position and the ``window_size`` - 1 before it, as ``mask`` allows.

    It is causal with or without a mask. The cache keeps all positions.
    """

    needs = ("window_size",)

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.window_size = config.window_size

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Return the output of all heads within the window, shapes as in ``AttentionBase.attend``."""
        queries, keys = query.shape[-2], key.shape[-2]
        window = attention_mask(
            queries, keys, causal=True, window=self.window_size, device=query.device
        )
        if mask is not None and mask.is_floating_point():
            mask = mask.masked_fill(~window, float("-inf"))  # type: ignore[operator]
            return super().attend(query, key, value, mask)
        mask = window if mask is None else mask & window  # type: ignore[operator]
        return super().attend(query, key, value, mask)


class MLA(AttentionBase):
    """Multi-head latent attention: all heads' keys and values are computed from one small latent, which is cached.

    The first ``rope_dim`` features of every key are one vector that all heads share, and only they are rotated: a
    rotated key cannot be computed from a latent that does not contain its position. A ``position`` that rotates does
    it, and ``RoPE`` beside any other.

    Args:
        config: reads ``d_model``, ``n_heads``, ``kv_lora_rank``, ``q_lora_rank``, ``rope_dim``, ``bias``,
            ``norm_eps`` and ``position``.
    """

    needs = ("kv_lora_rank",)

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        rank: int = config.kv_lora_rank  # type: ignore[assignment]  # not None, since needs names it
        self.rope_dim = config.effective_rope_dim
        self.rotary = self.position if rotates(self.position) else RoPE(config)
        self.kv_down = nn.Linear(self.d_model, rank + self.rope_dim, bias=False)
        self.kv_norm = RMSNorm(rank, config.norm_eps)
        self.kv_up = nn.Linear(
            rank, self.n_heads * (2 * self.head_dim - self.rope_dim), bias=False
        )
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
        mask: Shaped[Tensor, "*#batch positions keys"] | None = None,
        cache: Cache | None = None,
    ) -> tuple[Float[Tensor, "batch positions channels"], Cache]:
        """Mix positions; the cache is the latents, normalised, and the keys' shared features, rotated."""
        check_call(x, mask, cache, self.d_model, self.n_heads, self.kv_down)
        start = cache_length(cache)
        latent, shared = self.kv_down(x).tensor_split([self.kv_norm.dim], dim=-1)
        latent, shared = cache = extend(
            cache, self.kv_norm(latent), self.turn(shared, start)
        )  # (batch, keys, features)
        own = split_heads(
            self.kv_up(latent), self.n_heads
        )  # (batch, n_heads, keys, head_dim - rope_dim + head_dim)
        own, value = own.tensor_split([self.head_dim - self.rope_dim], dim=-1)
        if (
            own.shape[-1] * own.element_size() % 16
        ):  # a GPU's kernel reads 16 bytes at once, from where 16 divides
            value = value.contiguous()
        shared = shared[:, None].expand(
            -1, self.n_heads, -1, -1
        )  # (batch, n_heads, keys, rope_dim)
        key = torch.cat([shared, own], dim=-1)  # (batch, n_heads, keys, head_dim)
        query = self.turn(
            split_heads(self.queries(x), self.n_heads), start
        )  # (batch, n_heads, positions, head_dim)
        return self.o_proj(self.attend(query, key, value, mask)), cache

    def queries(self, x: Tensor) -> Tensor:
        """Return the queries of all heads, (batch, positions, d_model), from a latent of their own if there is one."""
        return (
            self.q_proj(x)
            if hasattr(self, "q_proj")
            else self.q_up(self.q_norm(self.q_down(x)))
        )

    def turn(self, x: Tensor, start: int) -> Tensor:
        """Rotate the first ``rope_dim`` features of each vector on the last axis."""
        turned, rest = x.tensor_split([self.rope_dim], dim=-1)
        return (
            torch.cat([self.rotary.rotate(turned, start), rest], dim=-1)
            if self.rope_dim
            else x
        )
