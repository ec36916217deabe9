"""Right and wrong answers to `add_shared_attention` of the homework of lesson 10."""

import torch
from torch import nn

from residual_edu import AttentionBase, cache_length, extend
from residual_edu.configurable import position_registry
from residual_edu.parts.attention import attention_mask, split_heads


class Shared(AttentionBase):
    """A right answer in parts, each of which a wrong one replaces."""

    def __init__(self, config):
        super().__init__(config)
        self.q_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        self.kv_proj = nn.Linear(self.d_model, self.head_dim, bias=config.bias)
        self.o_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)

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


def adding(attention):
    """An answer to the exercise."""
    return lambda registry: registry.register("shared", type(attention.__name__, (attention,), {}))


class ByHand(nn.Module):
    """Without AttentionBase: the scores are written out, all heads in the rows of one product."""

    def __init__(self, config):
        super().__init__()
        self.heads, self.dim = config.n_heads, config.head_dim
        self.q_proj, self.o_proj = (nn.Linear(config.d_model, config.d_model, bias=config.bias) for _ in range(2))
        self.kv_proj = nn.Linear(config.d_model, config.head_dim, bias=config.bias)
        self.position = position_registry.get(config.position)(config)

    def forward(self, x, mask=None, cache=None):
        new = self.kv_proj(x)
        held = new if cache is None else torch.cat([cache[0], new], dim=1)
        start = held.shape[1] - x.shape[1]
        query = self.position.rotate(self.q_proj(x).unflatten(-1, (self.heads, self.dim)).transpose(1, 2), start)
        scores = query @ self.position.rotate(held, 0)[:, None].mT / self.dim**0.5
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


def registered_in_a_line(registry):
    registry.entries["shared"] = lambda config: Shared(config)


WRONG = {"add_shared_attention": [*map(adding, (QueriesFromZero, KeepsAHeadForEach, KeepsInItself, AlwaysCausal))]}
RIGHT = {"add_shared_attention": [*map(adding, (ByHand, InHalves)), registered_in_a_line]}
