r"""The attention family: how many heads keys and values have, and what of them is kept.

======================  ==================================  =========================
name                    each query attends to               numbers cached for a token
======================  ==================================  =========================
``mha``                 what the mask allows                2 * n_heads * head_dim
``gqa``                 what the mask allows                2 * n_kv_heads * head_dim
``sliding_window_gqa``  the last window_size of it          2 * n_kv_heads * head_dim
``mla``                 what the mask allows                kv_lora_rank + rope_dim
======================  ==================================  =========================

Grouped queries: Ainslie et al., 2023, https://arxiv.org/abs/2305.13245; with one key
head, Shazeer, 2019, https://arxiv.org/abs/1911.02150; windows: Beltagy et al., 2020,
https://arxiv.org/abs/2004.05150; latents: DeepSeek-AI, 2024,
https://arxiv.org/abs/2405.04434
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.configurable.cache import Cache, Mask, Stream, cache_length, extend
from residual_edu.configurable.config import BlockConfig
from residual_edu.configurable.position import PositionBase, RoPE
from residual_edu.configurable.registry import attention_registry, position_registry
from residual_edu.errors import InvalidInput, check_size
from residual_edu.parts import attention_mask, fused_attention, merge_heads, split_heads
from residual_edu.parts.rms_norm import RMSNorm


def repeat_heads(x: Float[Tensor, "batch kv_heads positions d"], heads: int) -> Tensor:
    """Return ``heads`` heads: head h is head h // (heads / kv_heads) of ``x``."""
    if x.ndim != 4 or heads < 1 or heads % x.shape[1]:
        wanted = f"x must have 4 axes, the second one a divisor of heads={heads}"
        raise InvalidInput(f"{wanted}, got shape {tuple(x.shape)}")
    group = heads // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, dim=1)


class AttentionBase(nn.Module):
    """What all attentions share: sizes and the position encoding. It has no parameters.

    A subclass adds ``forward(x, mask, cache) -> (output, updated_cache)``. Its class
    attribute ``needs`` names the sizes in the config that must not be None.
    """

    needs: tuple[str, ...] = ()

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        for name in self.needs:
            check_size(name, getattr(config, name))
        self.d_model, self.head_dim = config.d_model, config.head_dim
        self.n_heads, self.n_kv_heads = config.n_heads, config.effective_n_kv_heads
        self.position: PositionBase = position_registry.get(config.position)(config)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Return the output of all heads, (batch, positions, features).

        ``query`` is (batch, n_heads, positions, head_dim), the last of the keys'
        positions; ``key`` and ``value`` may have fewer heads.
        """
        key, value = repeat_heads(key, self.n_heads), repeat_heads(value, self.n_heads)
        bias = self.position.bias(query, key.shape[-2])
        if mask is not None:
            check_mask(mask, query, key)
            mask = mask[:, None] if mask.ndim == 3 else mask  # the same for all heads
            if mask.is_floating_point():
                bias = mask.to(query) if bias is None else bias + mask.to(query)
                mask = None
        return merge_heads(fused_attention(query, key, value, mask, bias))


def check_mask(mask: Tensor, query: Tensor, key: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``mask`` ends in a place for each query and key."""
    pairs = (query.shape[-2], key.shape[-2])
    if mask.shape[-2:] != pairs:
        wanted = f"mask must end in (queries, keys) = {pairs}"
        raise InvalidInput(f"{wanted}, got shape {tuple(mask.shape)}")
    if torch.compiler.is_compiling() or not (mask.is_cpu and mask.is_floating_point()):
        return  # reading it would break the graph, or make a GPU wait
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(mask)  # by vmap
    if not wrapped and mask.any() and mask.eq(mask != 0).all():
        wanted = "mask must be boolean, since numbers are added to the scores"
        raise InvalidInput(f"{wanted}, got {mask.dtype} of 0 and 1")


@attention_registry.register("none")
class NoAttention(nn.Identity):
    """No attention: a block leaves the branch out. The cache only counts positions."""

    def forward(  # type: ignore[override]
        self, x: Tensor, mask: Tensor | None = None, cache: Cache | None = None
    ) -> tuple[Tensor, Cache]:
        """Return ``x`` itself, and the cache, longer by its positions."""
        return x, extend(cache, x[..., :0], x[..., :0])  # no features


@attention_registry.register("gqa")
class GQA(AttentionBase):
    """Grouped-query attention: groups of query heads share one key and value head."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        kv_dim = self.n_kv_heads * self.head_dim
        self.q_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        self.k_proj = nn.Linear(self.d_model, kv_dim, bias=config.bias)
        self.v_proj = nn.Linear(self.d_model, kv_dim, bias=config.bias)
        self.o_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        self.qk_norm = config.qk_norm
        if self.qk_norm:
            self.q_norm = RMSNorm(self.head_dim, config.norm_eps)
            self.k_norm = RMSNorm(self.head_dim, config.norm_eps)

    def forward(
        self, x: Stream, mask: Mask | None = None, cache: Cache | None = None
    ) -> tuple[Stream, Cache]:
        """Mix positions; the cache is the keys, normed and rotated, and the values."""
        batch, positions, channels = x.shape  # other axes would be taken for these
        query = split_heads(self.q_proj(x), self.n_heads)
        key = split_heads(self.k_proj(x), self.n_kv_heads)
        value = split_heads(self.v_proj(x), self.n_kv_heads)
        if self.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        start, position = cache_length(cache), self.position
        query, key = position.rotate(query, start), position.rotate(key, start)
        key, value = cache = extend(cache, key, value)  # (batch, heads, keys, head_dim)
        return self.o_proj(self.attend(query, key, value, mask)), cache


@attention_registry.register("mha")
class MHA(GQA):
    """Multi-head attention: a key and value head for each query head."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(replace(config, n_kv_heads=None))


@attention_registry.register("sliding_window_gqa")
class SlidingWindowGQA(GQA):
    """Grouped-query attention to the last ``window_size`` positions alone.

    It is causal with or without a mask. The cache keeps all positions.
    """

    needs = ("window_size",)

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.window_size = config.window_size

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Return the output of all heads within the window."""
        pairs, size = (query.shape[-2], key.shape[-2]), self.window_size
        window = attention_mask(*pairs, causal=True, window=size, device=query.device)
        if mask is not None:
            check_mask(mask, query, key)
            shut = False if mask.dtype == torch.bool else float("-inf")
            window = mask.masked_fill(~window, shut)  # type: ignore[operator]
        return super().attend(query, key, value, window)


@attention_registry.register("mla")
class MLA(AttentionBase):
    """Multi-head latent attention: keys and values come from one small cached latent.

    The first ``rope_dim`` features of every key are one vector that all heads share,
    and only they are rotated: a rotated key cannot be computed from a latent that does
    not contain its position. A ``position`` that rotates does it, and else ``RoPE``.
    """

    needs = ("kv_lora_rank",)

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        rank: int = config.kv_lora_rank  # type: ignore[assignment]  # needs names it
        self.rope_dim = config.effective_rope_dim
        rotates = type(self.position).rotate is not PositionBase.rotate
        self.rotary = self.position if rotates else RoPE(config)
        own = 2 * self.head_dim - self.rope_dim  # each head's features of key and value
        self.kv_down = nn.Linear(self.d_model, rank + self.rope_dim, bias=False)
        self.kv_norm = RMSNorm(rank, config.norm_eps)
        self.kv_up = nn.Linear(rank, self.n_heads * own, bias=False)
        if config.q_lora_rank is None:
            self.q_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        else:
            self.q_down = nn.Linear(self.d_model, config.q_lora_rank, bias=False)
            self.q_norm = RMSNorm(config.q_lora_rank, config.norm_eps)
            self.q_up = nn.Linear(config.q_lora_rank, self.d_model, bias=False)
        self.o_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)

    def forward(
        self, x: Stream, mask: Mask | None = None, cache: Cache | None = None
    ) -> tuple[Stream, Cache]:
        """Mix positions; the cache is the latents, and the keys' shared features."""
        batch, positions, channels = x.shape  # other axes would be taken for these
        start = cache_length(cache)
        latent, shared = self.kv_down(x).tensor_split([self.kv_norm.dim], dim=-1)
        latent, shared = self.kv_norm(latent), self.turn(shared, start)
        latent, shared = cache = extend(cache, latent, shared)  # of all keys
        query = self.turn(split_heads(self.queries(x), self.n_heads), start)
        key, value = self.keys_and_values(latent, shared)
        return self.o_proj(self.attend(query, key, value, mask)), cache

    def keys_and_values(self, latent: Tensor, shared: Tensor) -> tuple[Tensor, Tensor]:
        """Return both, (batch, n_heads, keys, head_dim), made from what is cached."""
        own = split_heads(self.kv_up(latent), self.n_heads)
        own, value = own.tensor_split([self.head_dim - self.rope_dim], dim=-1)
        if own.shape[-1] * own.element_size() % 16:  # where a GPU's kernel cannot begin
            value = value.contiguous()
        shared = shared[:, None].expand(-1, self.n_heads, -1, -1)
        return torch.cat([shared, own], dim=-1), value

    def queries(self, x: Tensor) -> Tensor:
        """Return the queries of all heads side by side, (batch, positions, d_model)."""
        if hasattr(self, "q_proj"):
            return self.q_proj(x)
        return self.q_up(self.q_norm(self.q_down(x)))  # from a latent of their own

    def turn(self, x: Tensor, start: int) -> Tensor:
        """Rotate the first ``rope_dim`` features of each vector on the last axis."""
        if not self.rope_dim:
            return x
        turned, rest = x.tensor_split([self.rope_dim], dim=-1)
        return torch.cat([self.rotary.rotate(turned, start), rest], dim=-1)
