"""Answers to the exercises of lesson 07b that no list of mistakes holds."""

import numpy as np
import torch
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.cross_attention import Parts, cross, mixed, network, read
from residual_course.exercises.mended_words import Numbers, Placed, of_answers


def word_by_word(query, key, value):
    words = range(key.shape[1])
    scores = torch.stack([(query * key[:, i, None]).sum(-1) for i in words], -1) / query.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return sum(weights[..., i, None] * value[:, i, None] for i in words)


def mixing(way):
    return cross(lambda maps, q, k, v: maps.out_proj(way(q, k, v)))


right("cross_attention", "torch's kernel")(mixing(F.scaled_dot_product_attention))
right("cross_attention", "a loop over the words")(mixing(word_by_word))
right("cross_attention", "exponentials, divided by their sum")(
    mixing(lambda q, k, v: (e := (q @ k.mT / 2).exp()) @ v / e.sum(-1, keepdim=True))
)
wrong("cross_attention", "only the first word")(mixing(lambda q, k, v: mixed(q, k[:, :1], v[:, :1])))
wrong("cross_attention", "weights cut off from the gradient")(mixing(lambda q, k, v: mixed(q.detach(), k, v)))


def stream(net, pictures, told):
    x = net.in_proj(pictures)
    for i in range(len(net.blocks)):
        x = net.blocks[i](x, told())
    return read(net, x)


def told(words):
    """A network whose blocks, by their index, receive what ``words`` makes of the table's rows."""
    return type("Network", (Parts,), {"forward": lambda self, p, w: stream(self, p, lambda: words(self.table(w)))})


right("network_forward", "the table asked in every block")(told(lambda rows: rows))
right("network_forward", "a sum, divided")(network(lambda net, x: net.out_proj(net.out_norm(x.sum(1) / x.shape[1]))))
wrong("network_forward", "a mean over batch and positions")(
    network(lambda net, x: net.out_proj(net.out_norm(x.mean((0, 1)).expand(len(x), -1))))
)
wrong("network_forward", "words cut off from the gradient")(told(torch.detach))

right("swap_test", "NumPy")(of_answers(lambda a, b: np.mean(a.numpy() != b.numpy())))
right("swap_test", "counted in a loop")(of_answers(lambda a, b: sum(map(int.__ne__, a.tolist(), b.tolist())) / len(a)))
right("swap_test", "1 less those that stay")(of_answers(lambda a, b: 1 - (a == b).double().mean()))
wrong("swap_test", "one picture alone")(of_answers(lambda a, b: float(a[0] != b[0])))
wrong("swap_test", "the share of words that differ")(lambda net, x, w, o: (w != o).any(1).float().mean())


def table(forward):
    return type("Table", (Numbers,), {"forward": forward})


right("mended_words", "a place that starts at 0")(type("Table", (Placed,), {"size": 0.0}))
wrong("mended_words", "both added up")(table(lambda self, numbers: self.table(numbers).sum(1, keepdim=True)))
wrong("mended_words", "both added up, twice")(
    table(lambda self, numbers: self.table(numbers).sum(1, keepdim=True).expand(-1, 2, -1))
)
