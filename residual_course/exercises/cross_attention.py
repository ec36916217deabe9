"""Exercises on a classifier that is told what to read: its cross-attention, and its forward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Exercise, Mistake, Part, Property
from residual_course.checking.gradients import filled, same_gradients
from residual_course.checking.properties import close, construct, draw, run


def check_parts(net: nn.Module, names: tuple[str, ...], kind: type[nn.Module], what: str) -> None:
    """Raise ``Broken`` if one of the handed parts is missing."""
    for name in names:
        if not isinstance(getattr(net, name, None), kind):
            raise Broken(f"it has no {what} `{name}`; keep the {len(names)} of the exercise")


# Cross-attention

X, WORDS = draw(2, 5, 4), draw(2, 3, 4, seed=1)


class Maps(nn.Module):
    """The three maps as they are handed over."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.q_proj, self.out_proj = (nn.Linear(dim, dim, bias=False) for _ in range(2))
        self.kv_proj = nn.Linear(dim, 2 * dim, bias=False)


def cross(forward: Callable[[Any, Tensor, Tensor, Tensor], Tensor]) -> type[nn.Module]:
    """Return a class whose output is ``forward(maps, query, key, value)``."""
    signals = lambda self, x, words: (self.q_proj(x), *self.kv_proj(words).chunk(2, dim=-1))  # noqa: E731
    return type("Cross", (Maps,), {"forward": lambda self, x, words: forward(self, *signals(self, x, words))})


def mixed(query: Tensor, key: Tensor, value: Tensor, axis: int = -1, power: float = 0.5) -> Tensor:
    """Return the values, weighted by the softmax of the scores."""
    return (query @ key.mT / query.shape[-1] ** power).softmax(axis) @ value


RIGHT = cross(lambda maps, q, k, v: maps.out_proj(mixed(q, k, v)))


def _whole(f: Any, x: Tensor, words: Tensor) -> tuple[Tensor, nn.Module]:
    layer = construct(f, 4)
    check_parts(layer, ("q_proj", "kv_proj", "out_proj"), nn.Linear, "linear layer")
    return filled(layer)(x, words), layer


def _output(f: Any, count: int) -> Tensor:
    return run(lambda x, words: _whole(f, x, words)[0], X, WORDS[:, :count], like=X)


def _agrees(count: int) -> Callable[[Any], None]:
    return lambda f: close(_output(f, count), _output(RIGHT, count), f"for {count} words the output")


CROSS_ATTENTION = Exercise(
    reference=RIGHT,
    observe=lambda f: (_output(f, 3), _output(f, 1)),
    properties=(
        Property("one word: every position receives what it gives", _agrees(1)),
        Property("three words, five positions", _agrees(3)),
        Property(
            "the gradients of x, the words and the maps",
            same_gradients(RIGHT, {"x": X, "words": WORDS}, call=_whole),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            cross(lambda maps, q, k, v: maps.out_proj(mixed(q, k, v, power=0))),
            "scores that are not divided by the root of the number of features",
            "Divide them before the softmax.",
        ),
        Mistake(
            cross(lambda maps, q, k, v: maps.out_proj(mixed(q, v, k))),
            "keys and values exchanged",
            "The keys are the first half.",
        ),
        Mistake(
            cross(lambda maps, q, k, v: mixed(q, k, v)),
            "a mixture that has not passed `out_proj`",
            "The fourth map comes at the end.",
        ),
        Mistake(
            cross(lambda maps, q, k, v: maps.out_proj(mixed(q, k, v, axis=1))),
            "a softmax over the positions",
            "The weights of one position sum to 1 over the words, the last axis.",
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
PARTS = ("table", "in_proj", "blocks", "out_norm", "out_proj")


class Told(nn.Module):
    """A block that depends on each position, on their order and on the condition."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.part = Part(4, seed)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Return x after it."""
        return x + torch.tanh(self.part(x) + condition.tanh().sum(1, keepdim=True))


class Parts(nn.Module):
    """The five parts of the network; it turns (batch, 6) into three positions of four features."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.in_proj = nn.Embedding(4, 4), nn.Sequential(nn.Unflatten(1, (3, 2)), nn.Linear(2, 4))
        self.blocks = nn.ModuleList(Told(seed) for seed in range(2))
        self.out_norm, self.out_proj = nn.LayerNorm(4), nn.Linear(4, 10)


def network(read: Callable[[Any, Tensor], Tensor], side_by_side: bool = False) -> type[nn.Module]:
    """Return a class whose scores are ``read(net, x)`` of x after the blocks."""

    class Network(Parts):
        def forward(self, pictures: Tensor, words: Tensor) -> Tensor:
            x, condition = self.in_proj(pictures), self.table(words)
            if side_by_side:
                return read(self, sum(block(x, condition) for block in self.blocks))
            for block in self.blocks:
                x = block(x, condition)
            return read(self, x)

    return Network


def read(net: Any, x: Tensor) -> Tensor:
    """Return the scores of x after the blocks."""
    return net.out_proj(net.out_norm(x.mean(dim=1)))


def graph(f: Any, pictures: Tensor, words: Tensor = ASKED) -> tuple[Tensor, nn.Module]:
    """Return the scores of an answer's network with parts that the check knows, and the parts."""
    net: Any = construct(f)
    known = Parts()
    check_parts(net, PARTS, nn.Module, "part")
    for name in PARTS:
        setattr(net, name, getattr(known, name))
    return filled(net)(pictures, words), known


def _scores(f: Any, count: int = 3) -> Tensor:
    return run(lambda x: graph(f, x, ASKED[:count])[0], PICTURES[:count], like=draw(count, 10))


def _same_scores(count: int) -> Callable[[Any], None]:
    return lambda f: close(_scores(f, count), _scores(network(read), count))


NETWORK_FORWARD = Exercise(
    reference=network(read),
    observe=_scores,
    properties=(
        Property("one picture: ten scores", _same_scores(1)),
        Property("three pictures, each with its own words", _same_scores(3)),
        Property(
            "the gradients of all parts", same_gradients(network(read), {"pictures": PICTURES}, call=graph), hints=()
        ),
    ),
    mistakes=(
        Mistake(
            network(lambda net, x: net.out_proj(net.out_norm(x).mean(dim=1))),
            "a norm before the mean",
            "In the drawing the mean comes first.",
        ),
        Mistake(
            network(lambda net, x: net.out_proj(x.mean(dim=1))),
            "a network without its last norm",
            "`out_norm` stands between the mean and `out_proj`.",
        ),
        Mistake(
            network(read, side_by_side=True),
            "blocks that all receive the same x",
            "Let each begin with what the last made.",
        ),
    ),
    hints=(
        "Follow the left column of the drawing downwards. Where does the right one join it?",
        "The table is called once, before the loop; each block with x and what the table returned.",
    ),
)

EXERCISES = {"cross_attention": CROSS_ATTENTION, "network_forward": NETWORK_FORWARD}
