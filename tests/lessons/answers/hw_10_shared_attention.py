"""Right and wrong answers to `SharedAttention` of the homework of lesson 10."""

import torch
from torch import nn

from residual_edu import AttentionBase, attention_mask, cache_length, extend, split_heads


class Shared(AttentionBase):
    """A right answer in parts, each of which a wrong one replaces."""

    def __init__(self, config):
        super().__init__(config)
        self.q_proj, self.o_proj = (nn.Linear(self.d_model, self.d_model) for _ in range(2))
        self.kv_proj = nn.Linear(self.d_model, self.head_dim)

    def forward(self, x, mask=None, cache=None):
        start = cache_length(cache)
        shared, cache = self.keep(self.kv_proj(x)[:, None], cache)
        query = self.turned_query(split_heads(self.q_proj(x), self.n_heads), start)
        key = self.position.rotate(shared, 0)
        return self.o_proj(self.attend(query, key, shared, self.masked(mask, x, start))), cache

    def keep(self, new, cache):
        cache = extend(cache, new, new[..., :0])
        return cache[0], cache

    def turned_query(self, query, start):
        return self.position.rotate(query, start)

    def masked(self, mask, x, start):
        return mask


class QueriesFromZero(Shared):
    def turned_query(self, query, start):
        return self.position.rotate(query, 0)


class KeepsAHeadForEach(Shared):
    def keep(self, new, cache):
        many = new.expand(-1, self.n_heads, -1, -1)
        cache = extend(cache, many, many[..., :0])
        return cache[0], cache


class KeepsInItself(Shared):
    """It goes on with its own last cache, whichever it is handed."""

    def keep(self, new, cache):
        self.kept = extend(self.kept if cache is not None else None, new, new[..., :0])
        return self.kept[0], self.kept


class AlwaysCausal(Shared):
    def masked(self, mask, x, start):
        return attention_mask(x.shape[1], start + x.shape[1], causal=True)


class ByHand(Shared):
    """The scores are written out, all heads in the rows of one product."""

    def forward(self, x, mask=None, cache=None):
        held = self.kv_proj(x) if cache is None else torch.cat([cache[0], self.kv_proj(x)], dim=1)
        query = self.turned_query(split_heads(self.q_proj(x), self.n_heads), held.shape[1] - x.shape[1])
        scores = query @ self.position.rotate(held, 0)[:, None].mT / self.head_dim**0.5
        bias = self.position.bias(query, held.shape[1])
        scores = scores if bias is None else scores + bias
        if mask is not None:
            mask = mask[:, None] if mask.ndim == 3 else mask
            scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        y = scores.softmax(-1) @ held[:, None]
        return self.o_proj(y.transpose(1, 2).flatten(2)), (held, held[..., :0])


class InHalves(Shared):
    """The cache is a pair all the same: the first half of each vector, and the second."""

    def keep(self, new, cache):
        cache = extend(cache, *new.tensor_split([new.shape[-1] // 2], dim=-1))
        return torch.cat(cache, dim=-1), cache


WRONG = {"SharedAttention": [QueriesFromZero, KeepsAHeadForEach, KeepsInItself, AlwaysCausal]}
RIGHT = {"SharedAttention": [ByHand, InHalves]}
