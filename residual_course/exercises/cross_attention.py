"""Exercises on a classifier that is told what to read: its cross-attention, and its forward."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Part,
    Property,
    close,
    construct,
    draw,
    filled,
    run,
    same_gradients,
)

# Cross-attention

X, WORDS = draw(2, 5, 4), draw(2, 3, 4, seed=1)
LAYERS = ("q_proj", "kv_proj", "out_proj")
Signals = tuple[Tensor, Tensor, Tensor]


def signals(layer: Any, x: Tensor, words: Tensor) -> Signals:
    """Return query, key and value."""
    return layer.q_proj(x), *layer.kv_proj(words).chunk(2, dim=-1)


def turned(layer: Any, x: Tensor, words: Tensor) -> Signals:
    """Return query, key and value, the values cut off first."""
    query, value, key = signals(layer, x, words)
    return query, key, value


def scaled(query: Tensor, key: Tensor) -> Tensor:
    """Return the scores over the root of the number of features."""
    return query @ key.mT / query.shape[-1] ** 0.5


def mixed(weigh: Callable[[Tensor], Tensor], make: Any = signals, score: Any = scaled, out: bool = True) -> type[Any]:
    """Return a class of cross-attention with these steps."""

    class Cross(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.q_proj, self.out_proj = (nn.Linear(dim, dim, bias=False) for _ in range(2))
            self.kv_proj = nn.Linear(dim, 2 * dim, bias=False)

        def forward(self, x: Tensor, words: Tensor) -> Tensor:
            query, key, value = make(self, x, words)
            y = weigh(score(query, key)) @ value
            return self.out_proj(y) if out else y

    return Cross


softmax = partial(torch.softmax, dim=-1)
RIGHT = mixed(softmax)


def fused(layer: Any, x: Tensor, words: Tensor) -> Tensor:
    """Return the same by torch's own function."""
    return layer.out_proj(nn.functional.scaled_dot_product_attention(*signals(layer, x, words)))


def spelled(layer: Any, x: Tensor, words: Tensor) -> Tensor:
    """Return the same with a sum over the words, written out."""
    query, key, value = signals(layer, x, words)
    weights = (torch.einsum("bpd,bwd->bpw", query, key) / query.shape[-1] ** 0.5).exp()
    return layer.out_proj(torch.einsum("bpw,bwd->bpd", weights / weights.sum(-1, keepdim=True), value))


def made(f: Any) -> Any:
    """Return a layer of width 4 with drawn weights, or raise where a map is missing."""
    layer = construct(f, 4)
    for name in LAYERS:
        if not isinstance(getattr(layer, name, None), nn.Linear):
            raise Broken(f"it has no linear layer `{name}`; keep the three of the exercise")
    return filled(layer)


def output(f: Any, count: int = 3, x: Tensor = X) -> Tensor:
    """Return the output for some of the words."""
    return run(made(f), x, WORDS[: len(x), :count], like=x)


def agrees(count: int, x: Tensor = X) -> Callable[[Any], None]:
    """Return a test of the output for some of the words."""
    return lambda f: close(output(f, count, x), output(RIGHT, count, x), f"for {count} words the output")


def whole(f: Any, x: Tensor, words: Tensor) -> tuple[Tensor, nn.Module]:
    """Return the output, and the layer."""
    layer = made(f)
    return layer(x, words), layer


CROSS_ATTENTION = Exercise(
    reference=RIGHT,
    also_right=(type("Cross", (RIGHT,), {"forward": fused}), type("Cross", (RIGHT,), {"forward": spelled})),
    observe=lambda f: (output(f), output(f, 1)),
    properties=(
        Property("one word: every position receives what it gives", agrees(1)),
        Property("three words, five positions", agrees(3)),
        Property("as many words as positions", lambda f: agrees(3, X[:, :3])(f)),
        Property(
            "the gradients of x, the words and the maps",
            same_gradients(RIGHT, {"x": X, "words": WORDS}, call=whole),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            mixed(softmax, score=lambda q, k: q @ k.mT),
            "scores that are not divided by the root of the number of features",
            "Divide them before the softmax.",
        ),
        Mistake(
            mixed(softmax, score=lambda q, k: q @ k.mT / q.shape[-1]),
            "scores divided by the number of features, not by its root",
            "The root is `query.shape[-1] ** 0.5`.",
        ),
        Mistake(mixed(softmax, make=turned), "keys and values exchanged", "The keys are the first half."),
        Mistake(
            mixed(softmax, out=False), "a mixture that has not passed `out_proj`", "The fourth map comes at the end."
        ),
        Mistake(mixed(lambda s: s), "scores used as weights", "Take the softmax of each row first."),
        Mistake(
            mixed(partial(torch.softmax, dim=1)),
            "a softmax over the positions",
            "The weights of one position sum to 1 over the words, the last axis.",
        ),
        Mistake(
            mixed(softmax, make=lambda layer, x, words: signals(layer, x, x)),
            "keys and values made from x",
            "They come from `words`, queries from x.",
        ),
        Mistake(
            mixed(softmax, make=lambda layer, x, words: (x, *signals(layer, x, words)[1:])),
            "x itself compared with the keys",
            "Make the queries first: `self.q_proj(x)`.",
        ),
        Mistake(
            type("Cross", (RIGHT,), {"forward": lambda self, x, words: x + RIGHT.forward(self, x, words)}),
            "x added to what it receives",
            "The block adds it: return the mixture alone.",
        ),
    ),
    hints=(
        "Steps 2 to 4 are three lines: scores, softmax, a matrix product. What stands in the places of x, `two` and "
        "`gives`?",
        "Queries are made from x, keys and values from the words. Scores: queries times the turned keys (`.mT`), over "
        "the root of the features.",
    ),
)

# The network

PICTURES, ASKED = draw(3, 6), torch.tensor([[0, 1], [2, 3], [1, 2]])


class Told(nn.Module):
    """A block that depends on each position, on their order and on the condition."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.part = Part(4, seed)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Return x after it."""
        return x + torch.tanh(self.part(x) + condition.sum(1, keepdim=True))


class Rows(nn.Module):
    """Turn (batch, 6) into three positions of four features."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(2, 4)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return (batch, 3, 4)."""
        return self.map(pictures.unflatten(1, (3, 2)))


class Parts(nn.Module):
    """The five parts of the network."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.in_proj = nn.Embedding(4, 4), Rows()
        self.blocks = nn.ModuleList(Told(seed) for seed in range(2))
        self.out_norm, self.out_proj = nn.LayerNorm(4), nn.Linear(4, 10)


Forward = Callable[[Any, Tensor, Tensor], Any]


def network(forward: Forward) -> type[nn.Module]:
    """Return the class with this forward."""
    return type("Network", (Parts,), {"forward": forward})


def passed(net: Any, pictures: Tensor, words: Tensor) -> Tensor:
    """Return x after the blocks."""
    x, condition = net.in_proj(pictures), net.table(words)
    for block in net.blocks:
        x = block(x, condition)
    return x


def right(net: Any, pictures: Tensor, words: Tensor) -> Tensor:
    """Return the scores."""
    return net.out_proj(net.out_norm(passed(net, pictures, words).mean(dim=1)))


def side_by_side(net: Any, pictures: Tensor, words: Tensor) -> Tensor:
    """Give every block the same input."""
    x, condition = net.in_proj(pictures), net.table(words)
    return net.out_proj(net.out_norm(sum(block(x, condition) for block in net.blocks).mean(dim=1)))


def first_block(net: Any, pictures: Tensor, words: Tensor) -> Tensor:
    """Leave the loop too early."""
    x = net.blocks[0](net.in_proj(pictures), net.table(words))
    return net.out_proj(net.out_norm(x.mean(dim=1)))


def backwards(net: Any, pictures: Tensor, words: Tensor) -> Tensor:
    """Call the last block first."""
    x, condition = net.in_proj(pictures), net.table(words)
    for block in reversed(net.blocks):
        x = block(x, condition)
    return net.out_proj(net.out_norm(x.mean(dim=1)))


def swapped(f: Any) -> Any:
    """Return an answer's network with parts that the check knows."""
    net: Any = construct(f)
    known = Parts()
    for name in ("table", "in_proj", "blocks", "out_norm", "out_proj"):
        if not isinstance(getattr(net, name, None), nn.Module):
            raise Broken(f"it has no part `{name}`; keep the five of the exercise")
        setattr(net, name, getattr(known, name))
    return filled(net)


def scores(f: Any, count: int = 3) -> Tensor:
    """Return the scores of some pictures."""
    net = swapped(f)
    return run(lambda x: net(x, ASKED[:count]), PICTURES[:count], like=draw(count, 10))


def same_scores(count: int) -> Callable[[Any], None]:
    """Return a test of the scores."""
    return lambda f: close(scores(f, count), scores(network(right), count))


def graph(f: Any, pictures: Tensor) -> tuple[Tensor, nn.Module]:
    """Return the scores, and the network's own parts."""
    net = swapped(f)
    out = net(pictures, ASKED)
    kept = nn.ModuleDict({name: getattr(net, name) for name in ("table", "in_proj", "blocks", "out_norm", "out_proj")})
    return out, kept


NETWORK_FORWARD = Exercise(
    reference=network(right),
    also_right=(
        network(lambda net, p, w: net.out_proj(net.out_norm(passed(net, p, w).sum(1) / 3))),
        network(lambda net, p, w: torch.stack([right(net, p[i : i + 1], w[i : i + 1])[0] for i in range(len(p))])),
    ),
    observe=lambda f: scores(f),
    properties=(
        Property("one picture: ten scores", same_scores(1)),
        Property("three pictures, each with its own words", same_scores(3)),
        Property(
            "the gradients of all parts",
            same_gradients(network(right), {"pictures": PICTURES}, call=graph),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            network(lambda net, p, w: net.out_proj(net.out_norm(passed(net, p, w)).mean(dim=1))),
            "a norm before the mean",
            "In the drawing the mean comes first.",
        ),
        Mistake(
            network(lambda net, p, w: net.out_proj(passed(net, p, w).mean(dim=1))),
            "a network without its last norm",
            "`out_norm` stands between the mean and `out_proj`.",
        ),
        Mistake(network(first_block), "the first block alone", "A loop calls each of `self.blocks`."),
        Mistake(network(side_by_side), "blocks that all receive the same x", "Let each begin with what the last made."),
        Mistake(network(backwards), "the blocks in reverse", "The drawing goes downwards: the first block first."),
        Mistake(
            network(lambda net, p, w: net.out_proj(net.out_norm(passed(net, p, w)[:, 0]))),
            "the first position in the place of the mean",
            "Take the mean over the positions.",
        ),
        Mistake(
            network(lambda net, p, w: net.out_proj(net.out_norm(net.in_proj(p).mean(dim=1)))),
            "a network without its blocks",
            "A loop calls each of `self.blocks`.",
        ),
        Mistake(
            network(lambda net, p, w: net.out_proj(net.out_norm(passed(net, p, w))).softmax(-1).mean(dim=1)),
            "probabilities where scores were asked for",
            "Return what `out_proj` returns.",
        ),
        Mistake(
            network(lambda net, p, w: net.out_proj(net.out_norm(passed(net, p, w.flip(0)).mean(dim=1)))),
            "each picture told another picture's words",
            "Call `self.table(words)` with the words as they are.",
        ),
    ),
    hints=(
        "Follow the left column of the drawing downwards. Where does the right one join it?",
        "The table is called once, before the loop; each block with x and what the table returned.",
    ),
)

EXERCISES = {"cross_attention": CROSS_ATTENTION, "network_forward": NETWORK_FORWARD}
