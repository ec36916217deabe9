"""Answers to the exercises of lesson 07b that no list of mistakes holds."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong


class Maps(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.kv_proj = nn.Linear(dim, 2 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)


def cross(forward):
    return type("CrossAttention", (Maps,), {"forward": forward})


def by_hand(self, x, words):
    query, (key, value) = self.q_proj(x), self.kv_proj(words).tensor_split(2, dim=-1)
    logits = torch.matmul(query, key.transpose(-1, -2)).div(np.sqrt(query.shape[-1]))
    return self.out_proj(torch.matmul(F.softmax(logits, -1), value))


def word_by_word(self, x, words):
    query, (key, value) = self.q_proj(x), self.kv_proj(words).chunk(2, -1)
    logits = torch.stack([(query * key[:, i, None]).sum(-1) for i in range(words.shape[1])], -1)
    weights = (logits / x.shape[-1] ** 0.5).softmax(-1)
    return self.out_proj(sum(weights[..., i, None] * value[:, i, None] for i in range(words.shape[1])))


right("cross_attention", "matmul, transposed")(cross(by_hand))
right("cross_attention", "a loop over the words")(cross(word_by_word))
wrong("cross_attention", "only the first word")(cross(lambda self, x, w: by_hand(self, x, w[:, :1])))
wrong("cross_attention", "weights cut off from the gradient")(
    cross(
        lambda self, x, w: self.out_proj(
            F.scaled_dot_product_attention(self.q_proj(x).detach(), *self.kv_proj(w).chunk(2, -1))
        )
    )
)


class Five(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.in_proj = nn.Embedding(4, 4), nn.Linear(1, 4)
        self.blocks = nn.ModuleList([nn.Identity(), nn.Identity()])
        self.out_norm, self.out_proj = nn.LayerNorm(4), nn.Linear(4, 10)


def network(forward):
    return type("Network", (Five,), {"forward": forward})


def stream(self, pictures, words, told=None):
    x = self.in_proj(pictures)
    for block in self.blocks:
        x = block(x, self.table(words) if told is None else told)
    return x


def by_index(self, pictures, words):
    x, told = self.in_proj(pictures), self.table(words)
    for i in range(len(self.blocks)):
        x = self.blocks[i](x, told)
    return self.out_proj(self.out_norm(torch.mean(x, 1)))


right("network_forward", "blocks by their index")(network(by_index))
right("network_forward", "the table asked in every block")(
    network(lambda self, p, w: self.out_proj(self.out_norm(stream(self, p, w).mean(-2))))
)
wrong("network_forward", "a mean over batch and positions")(
    network(lambda self, p, w: self.out_proj(self.out_norm(stream(self, p, w).mean((0, 1)).expand(len(p), -1))))
)
wrong("network_forward", "words cut off from the gradient")(
    network(lambda self, p, w: self.out_proj(self.out_norm(stream(self, p, w, self.table(w).detach()).mean(1))))
)

right("swap_test", "NumPy")(lambda net, x, w, o: np.mean(net(x, w).argmax(-1).numpy() != net(x, o).argmax(-1).numpy()))
right("swap_test", "counted in a loop")(
    lambda net, x, w, o: sum(net(x, w)[i].argmax() != net(x, o)[i].argmax() for i in range(len(x))) / len(x)
)
wrong("swap_test", "one picture alone")(lambda net, x, w, o: float(net(x, w)[0].argmax() != net(x, o)[0].argmax()))
wrong("swap_test", "the share of words that differ")(lambda net, x, w, o: (w != o).any(1).float().mean())


class Table(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.table = nn.Embedding(2, dim)


@right("mended_words", "a place that starts at 0")
class _(Table):
    def __init__(self, dim):
        super().__init__(dim)
        self.place = nn.Parameter(torch.zeros(2, dim))

    def forward(self, numbers):
        return self.table(numbers) + self.place


@wrong("mended_words", "rows alone have a place")
class _(Table):
    def forward(self, numbers):
        return self.table(numbers).sum(1, keepdim=True).expand(-1, 2, -1)


@wrong("mended_words", "both added up")
class _(Table):
    def forward(self, numbers):
        return self.table(numbers).sum(1, keepdim=True)
