"""Answers to the exercises of lesson 07b that no list of mistakes holds."""

from fractions import Fraction
from functools import partial, partialmethod

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.cross_attention import Parts, cross, mixed, network, read
from residual_course.exercises.mended_words import Numbers, Placed, of_answers, swap_test


def word_by_word(query, key, value):
    words = range(key.shape[1])
    scores = torch.stack([(query * key[:, i, None]).sum(-1) for i in words], -1) / query.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return sum(weights[..., i, None] * value[:, i, None] for i in words)


def mixing(way):
    return cross(lambda maps, q, k, v: maps.out_proj(way(q, k, v)))


for what, way in {
    "torch's kernel": F.scaled_dot_product_attention,
    "a loop over the words": word_by_word,
    "exponentials, divided by their sum": lambda q, k, v: (e := (q @ k.mT / 2).exp()) @ v / e.sum(-1, keepdim=True),
    "picture by picture": lambda q, k, v: torch.stack([*map(mixed, q, k, v)]),
    "einsum": lambda q, k, v: torch.einsum("bxw,bwd->bxd", torch.einsum("bxd,bwd->bxw", q / 2, k).softmax(2), v),
}.items():
    right("cross_attention", what)(mixing(way))
right("cross_attention", "the last map before the mixture")(cross(lambda maps, q, k, v: mixed(q, k, maps.out_proj(v))))
wrong("cross_attention", "only the first word")(mixing(lambda q, k, v: mixed(q, k[:, :1], v[:, :1])))
wrong("cross_attention", "weights cut off from the gradient")(mixing(lambda q, k, v: mixed(q.detach(), k, v)))


def changed(base, forward, **more):
    return type("Changed", (base,), {"forward": forward} | more)


def stream(net, pictures, words, told=lambda rows: rows):
    x = net.in_proj(pictures)
    for i in range(len(net.blocks)):
        x = net.blocks[i](x, told(net.table(words)))
    return read(net, x)


for what, scores in {
    "a sum, divided": lambda net, x: net.out_proj(net.out_norm(x.sum(1) / x.shape[1])),
    "a Sequential for the end": lambda net, x: nn.Sequential(net.out_norm, net.out_proj)(x.mT.mean(-1)),
    "a pool": lambda net, x: net.out_proj(net.out_norm(F.adaptive_avg_pool1d(x.mT, 1).squeeze(-1))),
    "a matrix": lambda net, x: net.out_proj(net.out_norm((x.new_ones(1, x.shape[1]) @ x)[:, 0].div(x.shape[1]))),
}.items():
    right("network_forward", what)(network(scores))
right("network_forward", "the table asked in every block")(changed(Parts, stream))
right("network_forward", "picture by picture")(
    changed(Parts, lambda net, p, w: torch.cat([*map(partial(stream, net), p.split(1), w.split(1))]))
)
wrong("network_forward", "a mean over batch and positions")(
    network(lambda net, x: net.out_proj(net.out_norm(x.mean((0, 1)).expand(len(x), -1))))
)
wrong("network_forward", "words cut off from the gradient")(changed(Parts, partialmethod(stream, told=torch.detach)))
wrong("network_forward", "words added up")(changed(Parts, partialmethod(stream, told=lambda rows: rows.sum(1, True))))

right("swap_test", "NumPy")(of_answers(lambda a, b: np.mean(a.numpy() != b.numpy())))
right("swap_test", "counted in a loop")(of_answers(lambda a, b: sum(map(int.__ne__, a.tolist(), b.tolist())) / len(a)))
right("swap_test", "1 less those that stay")(of_answers(lambda a, b: 1 - (a == b).double().mean()))
right("swap_test", "a Fraction")(of_answers(lambda a, b: Fraction(torch.count_nonzero(a - b).item(), len(a))))
right("swap_test", "one call with all pictures twice")(
    lambda net, x, w, o: torch.ne(*net(torch.cat([x, x]), torch.cat([w, o])).argmax(-1).chunk(2)).float().mean()
)
right("swap_test", "one by one")(lambda net, *xwo: np.mean([*map(partial(swap_test, net), *(z.split(1) for z in xwo))]))
wrong("swap_test", "one picture alone")(of_answers(lambda a, b: float(a[0] != b[0])))
wrong("swap_test", "the share of words that differ")(lambda net, x, w, o: (w != o).any(1).float().mean())
wrong("swap_test", "the words overwritten")(lambda net, x, w, o: (swap_test(net, x, w, o), w.copy_(o))[0])

right("mended_words", "a place that starts at 0")(changed(Placed, Placed.forward, size=0.0))
right("mended_words", "rows of their own")(
    changed(Numbers, lambda self, n: self.table(n + n.new_tensor([0, 2])), rows=4)
)
right("mended_words", "one word")(changed(Numbers, lambda self, n: self.table(2 * n[:, :1] + n[:, 1:]), rows=4))
right("mended_words", "a minus")(changed(Numbers, lambda self, n: self.table(n) * n.new_tensor([[1], [-1]])))
right("mended_words", "the second word turned")(
    changed(Numbers, lambda self, n: torch.stack([self.table(n[:, 0]), self.table(n[:, 1]).roll(1, -1)], 1))
)


@right("mended_words", "two tables")
class Two(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.row, self.column = nn.Embedding(2, dim), nn.Embedding(2, dim)

    def forward(self, numbers):
        return torch.stack([self.row(numbers[:, 0]), self.column(numbers[:, 1])], dim=1)


wrong("mended_words", "both added up")(changed(Numbers, lambda self, n: self.table(n).sum(1, True)))
wrong("mended_words", "in place")(changed(Numbers, lambda self, n: self.table(n.add_(n.new_tensor([0, 2]))), rows=4))
wrong("mended_words", "both added, twice")(
    changed(Numbers, lambda self, n: self.table(n).sum(1, True).expand(-1, 2, -1))
)
