"""Exercise on attention with a cache: the positions of the new queries, and all keys, the kept ones first."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw
from residual_edu.parts import rotate

Pair = tuple[Tensor, Tensor]
Answer = Callable[[Any, Tensor, Pair | None], tuple[Tensor, Pair]]
HEADS, WIDTH = 2, 8
SPEED = torch.tensor([1.0, 0.3]).double()


class Attention(nn.Module):
    """The lesson's attention, of two heads with four features, in float64."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.qkv, self.out = draw(3 * WIDTH, WIDTH, seed=seed), draw(WIDTH, WIDTH, seed=seed + 1)
        self.qkv.requires_grad_()

    def heads_of(self, x: Tensor) -> Tensor:
        """Return queries, keys and values, (3, batch, heads, positions, features)."""
        return (x @ self.qkv.T).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, here: Tensor, there: Tensor) -> Tensor:
        """Return the output for queries at ``here`` and keys at ``there``."""
        for name, x, place in (("here", q, here), ("there", k, there)):
            if not isinstance(place, Tensor) or place.shape != (x.shape[2],):
                shape = tuple(place.shape) if isinstance(place, Tensor) else type(place).__name__
                raise Broken(f"`mix` got `{name}` of shape {shape}, where {(x.shape[2],)} are the positions")
        scores = rotate(q, here[:, None] * SPEED) @ rotate(k, there[:, None] * SPEED).mT / 2
        scores = scores.masked_fill(there > here[:, None], -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ self.out.T

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for a whole row."""
        place = torch.arange(x.shape[1])
        q, k, v = self.heads_of(x)
        return self.mix(q, k, v, place, place)


def such(
    here: Callable[[int, int], Tensor] = lambda kept, new: torch.arange(kept, kept + new),
    there: Callable[[int, int], Tensor] = lambda kept, new: torch.arange(kept + new),
    join: Callable[[Tensor, Tensor], Tensor] = lambda old, new: torch.cat([old, new], dim=2),
    join_values: Callable[[Tensor, Tensor], Tensor] | None = None,
    kept_on: Callable[[Pair, Pair | None, Pair], Pair] = lambda both, old, new: both,
) -> Answer:
    """Return an answer with other positions, another order, or something else that is kept."""

    def answer(attention: Any, x: Tensor, kept: Pair | None) -> tuple[Tensor, Pair]:
        q, k, v = attention.heads_of(x)
        new, length = (k, v), 0 if kept is None else kept[0].shape[2]
        if kept is not None:
            k, v = join(kept[0], k), (join_values or join)(kept[1], v)
        y = attention.mix(q, k, v, here(length, x.shape[1]), there(length, x.shape[1]))
        return y, kept_on((k, v), kept, new)

    return answer


attend = such()


def turned_twice(attention: Any, x: Tensor, kept: Pair | None) -> tuple[Tensor, Pair]:
    """Keep keys that are turned, which `mix` turns again."""
    y, (k, v) = attend(attention, x, kept)
    start = 0 if kept is None else kept[0].shape[2]
    turned = rotate(k[:, :, start:], torch.arange(start, k.shape[2])[:, None] * SPEED)
    return y, (torch.cat([k[:, :, :start], turned], dim=2), v)


def detached(attention: Any, x: Tensor, kept: Pair | None) -> tuple[Tensor, Pair]:
    """Cut the gradient."""
    y, pair = attend(attention, x, kept)
    return y.detach(), pair


def from_below(attention: Any, x: Tensor, kept: Pair | None) -> tuple[Tensor, Pair]:
    """Count positions from below 0: a score depends on the distance alone."""
    q, k, v = attention.heads_of(x)
    if kept is not None:
        k, v = (torch.cat(both, dim=2) for both in zip(kept, (k, v), strict=True))
    there = torch.arange(-k.shape[2], 0)
    return attention.mix(q, k, v, there[-x.shape[1] :], there), (k, v)


def called(f: Answer, attention: Attention, x: Tensor, kept: Pair | None) -> tuple[Tensor, Pair]:
    """Return an answer's output and pair, or raise for what is none."""
    found = f(attention, x, kept)
    if not (isinstance(found, tuple | list) and len(found) == 2 and isinstance(found[0], Tensor)):
        raise Broken("it did not return two things: an output, and keys and values")
    y, pair = found
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(each, Tensor) for each in pair)):
        raise Broken("the second thing that it returned is no pair of tensors: keys and values")
    if y.shape != x.shape:
        raise Unmet(f"its output has shape {tuple(y.shape)}, where {tuple(x.shape)} is that of x")
    return y, (pair[0], pair[1])


def in_pieces(f: Answer, pieces: list[int], seed: int = 0) -> Tensor:
    """Return the output for a row that is given in pieces."""
    attention, kept, found = Attention(seed), None, []
    for x in draw(2, sum(pieces), WIDTH, seed=seed + 2).split(pieces, dim=1):
        y, kept = called(f, attention, x, kept)
        found.append(y)
    return torch.cat(found, dim=1)


def as_a_whole(pieces: list[int], seed: int = 0) -> Tensor:
    """Return the right output."""
    return Attention(seed)(draw(2, sum(pieces), WIDTH, seed=seed + 2))


def same(*cases: list[int]) -> Callable[[Answer], None]:
    """Return a test that pieces give what the whole gives."""

    def test(f: Answer) -> None:
        for pieces in cases:
            name = f"in pieces of {', '.join(map(str, pieces))} the output"
            close(in_pieces(f, pieces), as_a_whole(pieces), name)

    return test


def _kept(f: Answer) -> None:
    attention, x, kept = Attention(), draw(2, 5, WIDTH), None
    for part in x.split([3, 2], dim=1):
        _, kept = called(f, attention, part, kept)
    _, k, v = attention.heads_of(x)
    for name, got, want in zip(("keys", "values"), kept or (), (k, v), strict=True):
        if got.shape != want.shape:
            raise Unmet(f"after 3 and 2 positions the {name} have shape {tuple(got.shape)}, not {tuple(want.shape)}")
        close(got, want, f"after 3 and 2 positions, of the {name}")


def _as_handed(f: Answer) -> None:
    attention = Attention()
    _, kept = called(attend, attention, draw(2, 3, WIDTH), None)
    before = [each.clone() for each in kept]
    called(f, attention, draw(2, 2, WIDTH, seed=5), kept)
    if any(not old.equal(new) for old, new in zip(before, kept, strict=True)):
        raise Broken("the kept keys or values were changed in place; return longer ones")


def _learns(f: Answer) -> None:
    mine, right = Attention(), Attention()
    with torch.enable_grad():
        for attention, one in ((mine, f), (right, attend)):
            y, kept = called(one, attention, draw(2, 3, WIDTH), None)
            total = y.sum() + called(one, attention, draw(2, 2, WIDTH, seed=5), kept)[0].square().sum()
            if not total.requires_grad:
                raise Broken("no gradient reaches the attention's weights")
            total.backward()
    close(mine.qkv.grad, right.qkv.grad, "the gradient of a weight")


CACHED_ATTENTION = Exercise(
    reference=attend,
    also_right=(from_below,),
    observe=lambda f: [in_pieces(f, [3, 2, 2], 7), in_pieces(f, [4], 8), in_pieces(f, [2, 1, 1, 3], 9).requires_grad],
    properties=(
        Property("with nothing kept: attention as it is", same([5], [1])),
        Property("one position after the other: the output of the whole row", same([1] * 5, [3, 1, 1], [1] * 40)),
        Property("several positions at once, after kept ones", same([3, 4], [2, 3, 2], [30, 3, 7])),
        Property("it returns all keys and values, the kept ones first", _kept),
        Property("the kept ones are not changed in place", _as_handed, ()),
        Property("the gradient of the attention's weights", _learns, ()),
    ),
    mistakes=(
        Mistake(
            such(here=lambda kept, new: torch.arange(new)),
            "queries whose positions begin at 0 again",
            "After 5 kept positions the first new query stands at position 5.",
        ),
        Mistake(
            such(here=lambda kept, new: torch.arange(kept, kept + new) - int(kept > 0)),
            "new queries one position too early",
            "After 5 kept positions, at 0 to 4, the first new query stands at 5.",
        ),
        Mistake(
            such(here=lambda kept, new: torch.full((new,), kept + new - 1)),
            "one position for all new queries, the last",
            "Each new query has a position of its own, or it attends to later ones.",
        ),
        Mistake(
            such(join=lambda old, new: torch.cat([new, old], dim=2)),
            "new keys before the kept ones",
            "In `torch.cat`, what is kept comes first.",
        ),
        Mistake(
            such(join_values=lambda old, new: torch.cat([new, old], dim=2)),
            "keys and values in different orders",
            "Append both in the same order.",
        ),
        Mistake(
            such(kept_on=lambda both, old, new: new),
            "only the new keys and values handed on",
            "Return all of them, the kept ones first.",
        ),
        Mistake(
            such(kept_on=lambda both, old, new: new if old is None else old),
            "the kept keys and values handed on as they came",
            "Return the longer ones.",
        ),
        Mistake(
            such(
                join=lambda old, new: new,
                there=lambda kept, new: torch.arange(kept, kept + new),
            ),
            "a cache that is never read",
            "Put the kept keys and values before the new ones, and hand all of them to `mix`.",
        ),
        Mistake(turned_twice, "kept keys that are turned a second time", "`mix` turns all keys: keep them unturned."),
        Mistake(detached, "an output without a gradient", "Leave out `.detach()` and `no_grad`."),
    ),
    hints=(
        "At which position does the first new query stand, if 5 are kept? How many keys are there then?",
        "`mix` needs the positions of the queries and of all keys: two ranges that end at the same number.",
    ),
)

EXERCISES = {"cached_attention": CACHED_ATTENTION}
