"""Wrong answers to `add_shared_attention` of the homework of lesson 10."""

import torch
from torch import nn

from residual_edu import AttentionBase, cache_length, extend
from residual_edu.parts.attention import attention_mask, split_heads


class Shared(AttentionBase):
    """A right answer in parts, each of which a wrong one replaces."""

    bias = None

    def __init__(self, config):
        super().__init__(config)
        bias = config.bias if self.bias is None else self.bias
        self.q_proj = nn.Linear(self.d_model, self.d_model, bias=bias)
        self.kv_proj = nn.Linear(self.d_model, self.head_dim, bias=bias)
        self.o_proj = nn.Linear(self.d_model, self.d_model, bias=bias)

    def forward(self, x, mask=None, cache=None):
        start = cache_length(cache)
        shared, cache = self.keep(self.kv_proj(x)[:, None], cache)
        query = self.turned_query(split_heads(self.q_proj(x), self.n_heads), start)
        key, value = self.key(shared, start), self.value(shared)
        return self.o_proj(self.attend(query, key, value, self.masked(mask, x, start))), cache

    def keep(self, new, cache):
        cache = extend(cache, new, new[..., :0])
        return cache[0], cache

    def turned_query(self, query, start):
        return self.position.rotate(query, start)

    def key(self, shared, start):
        return self.position.rotate(shared, 0)

    def value(self, shared):
        return shared

    def masked(self, mask, x, start):
        return mask


class QueriesFromZero(Shared):
    def turned_query(self, query, start):
        return self.position.rotate(query, 0)


class NothingRotated(Shared):
    def turned_query(self, query, start):
        return query

    def key(self, shared, start):
        return shared


class ValuesRotated(Shared):
    def value(self, shared):
        return self.position.rotate(shared, 0)


class QueriesOneLate(Shared):
    def turned_query(self, query, start):
        return self.position.rotate(query, start - 1 if start else 0)


class OnlyNewKeysRotated(Shared):
    def key(self, shared, start):
        old, new = shared.tensor_split([start], dim=-2)
        return torch.cat([old, self.position.rotate(new, start)], dim=-2)


class KeepsKeyAndValue(Shared):
    def forward(self, x, mask=None, cache=None):
        start, value = cache_length(cache), self.kv_proj(x)[:, None]
        key, value = cache = extend(cache, self.position.rotate(value, start), value)
        query = self.position.rotate(split_heads(self.q_proj(x), self.n_heads), start)
        return self.o_proj(self.attend(query, key, value, mask)), cache


class KeepsRotated(Shared):
    def forward(self, x, mask=None, cache=None):
        start = cache_length(cache)
        new = self.position.rotate(self.kv_proj(x)[:, None], start)
        key, _ = cache = extend(cache, new, new[..., :0])
        query = self.position.rotate(split_heads(self.q_proj(x), self.n_heads), start)
        return self.o_proj(self.attend(query, key, key, mask)), cache


class RotatedTwice(Shared):
    def keep(self, new, cache):
        start = cache_length(cache)
        turned = torch.cat([cache[0], new], dim=-2) if start else new
        return turned, (self.position.rotate(turned, 0), turned[..., :0])


class KeepsAHeadForEach(Shared):
    def keep(self, new, cache):
        many = new.expand(-1, self.n_heads, -1, -1)
        cache = extend(cache, many, many[..., :0])
        return cache[0], cache


class KeepsThePairTwice(Shared):
    def keep(self, new, cache):
        cache = extend(cache, new, new)
        return cache[0], cache


class KeepsTheNewAlone(Shared):
    def keep(self, new, cache):
        whole, _ = super().keep(new, cache)
        return whole, (new, new[..., :0])


class KeepsInItself(Shared):
    """It goes on with its own last cache, whichever it is handed."""

    def keep(self, new, cache):
        self.kept = extend(self.kept if cache is not None else None, new, new[..., :0])
        return self.kept[0], self.kept


class KeepsInOneBuffer(Shared):
    """It writes over what an earlier cache shows."""

    def keep(self, new, cache):
        start, stop = cache_length(cache), cache_length(cache) + new.shape[-2]
        if cache is None:
            self.room = torch.zeros(*new.shape[:2], 64, new.shape[-1], dtype=new.dtype)
        self.room = self.room.clone() if new.requires_grad else self.room
        self.room.data[..., start:stop, :] = new.data
        whole = torch.cat([self.room[..., :start, :], new], dim=-2)
        return whole, (self.room[..., :stop, :], self.room[..., :stop, :0])


class Detached(Shared):
    def keep(self, new, cache):
        cache = extend(cache, new.detach(), new[..., :0])
        return torch.cat([cache[0][..., : -new.shape[-2], :], new], dim=-2), cache


class ValueDetached(Shared):
    def value(self, shared):
        return shared.detach()


class NoMask(Shared):
    def masked(self, mask, x, start):
        return None


class AlwaysCausal(Shared):
    def masked(self, mask, x, start):
        return attention_mask(x.shape[1], start + x.shape[1], causal=True)


class NeverABias(Shared):
    bias = False


class AlwaysABias(Shared):
    bias = True


class TwoMatrices(Shared):
    def __init__(self, config):
        super().__init__(config)
        self.v_proj = nn.Linear(self.d_model, self.head_dim, bias=config.bias)


def adding(attention, name="shared"):
    """An answer to the exercise; without a name it registers nothing."""

    def add(registry):
        if name:
            registry.register(name, type(attention.__name__, (attention,), {}))

    return add


WRONG = {
    "add_shared_attention": [
        *map(
            adding,
            (
                QueriesFromZero,
                NothingRotated,
                ValuesRotated,
                QueriesOneLate,
                OnlyNewKeysRotated,
                KeepsKeyAndValue,
                KeepsRotated,
                RotatedTwice,
                KeepsAHeadForEach,
                KeepsThePairTwice,
                KeepsTheNewAlone,
                KeepsInItself,
                KeepsInOneBuffer,
                Detached,
                ValueDetached,
                NoMask,
                AlwaysCausal,
                NeverABias,
                AlwaysABias,
                TwoMatrices,
            ),
        ),
        adding(Shared, name=None),
    ],
}
