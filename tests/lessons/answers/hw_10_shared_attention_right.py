"""Right answers to `add_shared_attention` of the homework of lesson 10, unusual ones among them."""

import torch
from hw_10_shared_attention import Shared, adding
from torch import nn

from residual_edu import extend
from residual_edu.configurable import position_registry
from residual_edu.parts.attention import merge_heads


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


class HeadsMadeAtOnce(Shared):
    """Each head's key and value are laid out before attending."""

    def key(self, shared, start):
        return self.position.rotate(shared.expand(-1, self.n_heads, -1, -1), 0)

    def value(self, shared):
        return shared.repeat(1, self.n_heads, 1, 1)


class PositionByPosition(Shared):
    """A loop over the queries."""

    def attend(self, query, key, value, mask):
        if mask is not None and mask.ndim == 3:
            mask = mask[:, None]
        bias = self.position.bias(query, key.shape[-2])
        rows = []
        for n in range(query.shape[-2]):
            scores = query[..., n : n + 1, :] @ key.mT / self.head_dim**0.5
            scores = scores if bias is None else scores + bias[..., n : n + 1, :]
            if mask is not None:
                row = mask[..., n : n + 1, :]
                scores = scores.where(row, -torch.inf) if row.dtype == torch.bool else scores + row
            rows.append(scores.softmax(-1) @ value)
        return merge_heads(torch.cat(rows, dim=-2))


def registered_in_a_line(registry):
    registry.entries["shared"] = lambda config: Shared(config)


RIGHT = {
    "add_shared_attention": [
        *map(adding, (Shared, ByHand, InHalves, HeadsMadeAtOnce, PositionByPosition)),
        registered_in_a_line,
    ],
}
