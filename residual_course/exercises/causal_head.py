"""Exercise on attention: one causal head from its three maps."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, close, draw, run, same_gradients
from residual_course.checking.gradients import Case
from residual_course.checking.seen import seen
from residual_course.exercises.causal_weights import Weights, causal, shares

Map = Callable[[Tensor], Tensor]
Head = Callable[[Tensor, Map, Map, Map], Tensor]


def head(
    h: Tensor,
    to_q: Map,
    to_k: Map,
    to_v: Map,
    *,
    scale: Callable[[Tensor, Tensor], float] = lambda h, q: q.shape[-1] ** -0.5,
    weigh: Weights = causal,
) -> Tensor:
    """Return softmax(q k / sqrt(d)) v over each position's past."""
    q, k, v = to_q(h), to_k(h), to_v(h)
    return weigh(q @ k.mT * scale(h, q)) @ v


def maps(width: int, d: int, out: int) -> list[nn.Linear]:
    """Return three linear maps, the same each time."""
    made = [nn.Linear(width, d, bias=False), nn.Linear(width, d, bias=False), nn.Linear(width, out, bias=False)]
    for seed, each in enumerate(made):
        each.weight.data = draw(each.out_features, each.in_features, seed=seed + 5)
    return made


def case(
    batch: int = 2, positions: int = 5, width: int = 6, d: int = 4, out: int = 3
) -> tuple[Tensor, list[nn.Linear]]:
    """Return an input and its maps."""
    return draw(batch, positions, width), maps(width, d, out)


def asked(f: Head, h: Tensor, three: list[nn.Linear]) -> Tensor:
    """Return an answer's output."""
    return run(lambda h: f(h, *three), h, like=head(h, *three))


def _past(f: Head) -> None:
    h, three = case()
    changed = h.clone()
    changed[:, 3:] += 1
    moved = (asked(f, changed, three) - asked(f, h, three))[:, :3].abs().amax()
    if not moved < 1e-9:
        raise Unmet("positions 3 and 4 were changed, and the output before them changed too")


def _only_one(f: Head) -> None:
    h, three = case(positions=1)
    close(asked(f, h, three), three[2](h), "for a single position the output")


def _agrees(f: Head, *cases: dict[str, int]) -> None:
    for sizes in cases:
        h, three = case(**sizes)
        close(
            asked(f, h, three), head(h, *three), f"with {h.shape[1]} positions and d = {sizes.get('d', 4)} the output"
        )


def _called(f: Head) -> None:
    h, three = case()
    for seed, each in enumerate(three):
        each.bias = nn.Parameter(draw(each.out_features, seed=seed + 8))
    close(asked(f, h, three), head(h, *three), "with maps that have a bias the output")


def _learned() -> list[Case]:
    return [dict(zip(("h", "to_q", "to_k", "to_v"), (h, *three), strict=True)) for h, three in (case(), case(d=7))]


HEAD_BY_HAND = Exercise(
    reference=head,
    also_right=(
        lambda h, q, k, v: nn.functional.scaled_dot_product_attention(q(h), k(h), v(h), is_causal=True),
        lambda h, q, k, v: causal((q(h) / q(h).shape[-1] ** 0.5) @ k(h).mT) @ v(h),
    ),
    observe=lambda f: seen(
        *(
            lambda sizes=sizes: asked(f, *case(**sizes))
            for sizes in ({}, {"d": 9, "positions": 4}, {"positions": 7, "out": 4})
        )
    ),
    properties=(
        Property("a single position gets its own value", _only_one),
        Property("an output depends on no later position", _past),
        Property("the output, with 4 features a query", lambda f: _agrees(f, {})),
        Property(
            "any number of positions, any widths",
            lambda f: _agrees(f, {"d": 9, "positions": 4}, {"positions": 7, "out": 1}, {"d": 1}, {"batch": 1}),
        ),
        Property("the maps are called, whatever they do", _called, hints=()),
        Property(
            "gradients reach the input and all three maps",
            lambda f: same_gradients(head, *_learned())(f),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            lambda h, q, k, v: head(h, q, k, v, scale=lambda h, q: 1.0),
            "scores that were not divided",
            "Divide them by the root of the features of a query: `q.shape[-1] ** 0.5`.",
        ),
        Mistake(
            lambda h, q, k, v: head(h, q, k, v, scale=lambda h, q: 1 / q.shape[-1]),
            "scores divided by d",
            "By its root.",
        ),
        Mistake(
            lambda h, q, k, v: head(h, q, k, v, scale=lambda h, q: h.shape[-1] ** -0.5),
            "scores divided by the root of the width of h",
            "A score is a sum over the features of a query: it is their number that counts.",
        ),
        Mistake(
            lambda h, q, k, v: head(h, q, k, v, scale=lambda h, q: h.shape[-2] ** -0.5),
            "scores divided by the root of the number of positions",
            "A score is a sum over the features of a query: it is their number that counts.",
        ),
        Mistake(
            lambda h, q, k, v: head(h, q, k, v, weigh=lambda s: s.softmax(-1)),
            "a head without a mask",
            "Set the scores of later positions to minus infinity before the softmax.",
        ),
        Mistake(
            lambda h, q, k, v: head(h, q, k, v, weigh=lambda s: s.softmax(-1).tril()),
            "a mask after the softmax",
            "Then a row does not sum to 1. Mask the scores, before the softmax.",
        ),
        Mistake(
            lambda h, q, k, v: head(h, k, q, v),
            "query and key exchanged",
            "Row i is the query of position i: `q @ k.mT`.",
        ),
        Mistake(
            lambda h, q, k, v: head(h, q, q, v),
            "queries compared with queries",
            "The columns are keys: `to_k(h)`.",
        ),
        Mistake(
            lambda h, q, k, v: head(h, q, k, k),
            "a mean of the keys",
            "Keys make the scores; what is handed over is `to_v(h)`.",
        ),
        Mistake(
            lambda h, q, k, v: v(h),
            "values that are not mixed",
            "The output is a weighted mean: `weights @ v`.",
        ),
        Mistake(
            lambda h, q, k, v: head(h, q, k, v, weigh=lambda s: shares(torch.ones_like(s))),
            "an equal mean of the past",
            "The weights come from the scores.",
        ),
    ),
    hints=(
        "Four lines: the three maps of h, scores, weights (your first exercise), a mean.",
        "`k.mT` swaps the last two axes, so `q @ k.mT` has a row for each query. Divide, mask, softmax, `@ v`.",
    ),
)

EXERCISES = {"head_by_hand": HEAD_BY_HAND}
