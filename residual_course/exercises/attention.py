"""Exercises on attention: the function, several heads of it, and two that see the future, to be mended."""

from collections.abc import Callable
from functools import partial
from math import log
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet
from residual_course.checking.gradients import filled, same_gradients
from residual_course.checking.properties import close, construct, draw, run

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Weigh = Callable[[Tensor, Tensor], Tensor]


def causal(n: int) -> Tensor:
    """Return True where a query may attend to a key: at no later position."""
    return torch.ones(n, n).tril().bool()


def softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Return weights that sum to 1 along an axis."""
    return scores.masked_fill(~mask, -torch.inf).softmax(dim)


columns = partial(softmax, dim=-2)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, weigh: Weigh = softmax) -> Tensor:
    """Return softmax(mask(q k / sqrt(d))) v."""
    return weigh(q @ k.mT / q.shape[-1] ** 0.5, mask) @ v


def four(*batch: int, n: int = 5, d: int = 3, e: int = 2, mask: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return queries, keys and values of these sizes, and a mask, by default the causal one."""
    q, k, v = draw(*batch, n, d), draw(*batch, n, d, seed=1), draw(*batch, n, e, seed=2)
    return q, k, v, causal(n) if mask is None else mask


EXAMPLE = (  # the lesson's
    torch.tensor([[0.0, 1], [1, 0], [1, 1]]).double() * log(2),
    torch.tensor([[1.0, 0], [0, 1], [1, 1]]).double(),
    torch.tensor([[6.0, 0], [0, 12], [1, 2]]).double(),
    causal(3),
)
ALL = torch.ones(5, 5).bool()


def _attended(f: Attend, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return run(f, q, k, v, mask, like=attend(q, k, v, mask))


def _agrees(output: Callable[..., Tensor], right: Any, what: str, *cases: tuple[Any, ...]) -> Callable[[Any], None]:
    """Return a test that in each case an output is the right answer's."""

    def test(f: Any) -> None:
        for case in cases:
            close(output(f, *case), output(right, *case), what.format(*case))

    return test


_attends = partial(_agrees, _attended, attend)


def _hides(f: Attend) -> None:
    q, k, v, mask = four()
    later = (torch.arange(5) > 2)[:, None]
    if not (_attended(f, q, k + later, v + later, mask) - _attended(f, q, k, v, mask))[:3].abs().max() < 1e-9:
        raise Unmet("keys and values of positions 3 and 4 were changed, and outputs before them changed too")


ATTEND = Exercise(
    reference=attend,
    observe=lambda f: _attended(f, *four()),
    properties=(
        Property("no output depends on what the mask hides", _hides),
        Property("the lesson's three positions", _attends("the output", EXAMPLE)),
        Property(
            "other masks",
            _attends("with another mask the output", four(mask=ALL.tril() & ALL.triu(-1)), four(mask=ALL)),
        ),
        Property(
            "any number of positions, any widths, any axes before",
            _attends("for q of {0.shape} the output", four(2, n=7, d=9), four(2, 3, n=4, d=1, e=6), four(1, 2, n=1)),
        ),
        Property(
            "gradients reach q, k and v",
            same_gradients(attend, dict(zip(("q", "k", "v", "mask"), four(2, n=4), strict=True))),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            lambda q, k, v, mask: softmax(q @ k.mT, mask) @ v,
            "scores that were not divided",
            "Divide by the root of d, `q.shape[-1]`.",
        ),
        Mistake(
            lambda q, k, v, mask: attend(q, k, v, mask, lambda scores, mask: scores.softmax(-1) * mask),
            "a mask after the softmax",
            "Then a row does not sum to 1. Mask the scores, before the softmax.",
        ),
        Mistake(
            lambda q, k, v, mask: attend(q, k, v, ~mask),
            "a mask the wrong way round",
            "True means: may attend. Fill where it is False, `~mask`.",
        ),
        Mistake(
            lambda q, k, v, mask: attend(q, k, v, mask, columns),
            "columns that sum to 1",
            "Each query has a row of weights: take the softmax along the last axis.",
        ),
    ),
    hints=(
        "Four steps, in this order: scores over the root of d, the mask, the softmax of each row, the mean of v.",
        "`k.mT` swaps the last two axes, so `q @ k.mT` has a row for each query; `~mask` is True where one is hidden.",
    ),
)

# Several heads


class Parts(nn.Module):
    """What the lesson's class has before its forward is written."""

    def __init__(self, width: int = 32, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)

    def split(self, x: Tensor) -> Tensor:
        """Return (batch, heads, n, width / heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def class_of(forward: Callable[[Any, Tensor], Tensor]) -> type[nn.Module]:
    """Return the class with this forward."""
    return type("SelfAttention", (Parts,), {"forward": forward})


def heads(
    self: Any,
    x: Tensor,
    merge: Callable[[Tensor], Tensor] = lambda y: y.transpose(1, 2).flatten(2),
    weigh: Weigh = softmax,
) -> Tensor:
    """Return what `out_proj` is given."""
    q, k, v = (self.split(z) for z in self.qkv_proj(x).chunk(3, dim=-1))
    return merge(attend(q, k, v, causal(x.shape[1]), weigh))


def changed(**how: Any) -> type[nn.Module]:
    """Return the class with one step of its forward changed."""
    return class_of(lambda self, x: self.out_proj(heads(self, x, **how)))


def side_by_side(y: Tensor) -> Tensor:
    """Put two positions of one head side by side."""
    return y.reshape(len(y), y.shape[2], -1)


RIGHT = changed()


def _made(f: Any, width: int = 6, heads: int = 2) -> Any:
    """Return an answer's heads with drawn weights, and with a ``mix`` that is right."""
    found = construct(f, width, heads)
    found.mix = lambda q, k, v: attend(q, k, v, causal(q.shape[-2]))  # type: ignore[assignment]
    return filled(found)


def _output(f: Any, n: int = 5, width: int = 6, heads: int = 2) -> Tensor:
    x = draw(2, n, width)
    return run(_made(f, width, heads), x, like=x)


def _sees_no_future(f: Any) -> None:
    mixer, x = _made(f), draw(2, 5, 6)
    late = x + (torch.arange(5) == 3)[:, None]
    moved = (run(mixer, late, like=x) - run(mixer, x, like=x)).abs().amax(dim=(0, 2))[:3]
    if not moved.max() < 1e-9:
        raise Unmet(f"the input at position 3 was changed, and the output at position {int(moved.argmax())} moved")


_same = partial(_agrees, _output, RIGHT, "with {} positions, width {}, heads {} the output")
PROPERTIES = (
    Property("no output depends on a later input", _sees_no_future),
    Property("a single head", _same((5, 6, 1))),
    Property("several heads, any number of positions", _same((5, 6, 2), (1, 4, 4), (9, 8, 4))),
    Property(
        "gradients reach x and both maps",
        same_gradients(RIGHT, {"x": draw(2, 4, 6)}, call=lambda cls, x: ((module := _made(cls))(x), module)),
        hints=(),
    ),
)

SELF_ATTENTION = Exercise(
    reference=RIGHT,
    observe=_output,
    properties=PROPERTIES,
    mistakes=(
        Mistake(
            changed(merge=side_by_side),
            "heads put side by side without the transpose",
            "Bring the positions before the heads, `transpose(1, 2)`, then join the last two axes.",
        ),
        Mistake(
            class_of(lambda self, x: self.out_proj(self.mix(*self.qkv_proj(x).chunk(3, dim=-1)))),
            "one head of the whole width",
            "Split q, k and v with `self.split` before you mix them.",
        ),
        Mistake(class_of(heads), "heads without the last map", "End with `out_proj`."),
        Mistake(
            class_of(lambda self, x: x + RIGHT.forward(self, x)),
            "the input, added to the heads",
            "The sum belongs to the residual connection; return what `out_proj` returns.",
        ),
    ),
    hints=(
        "Write down the shape after each step, for two heads and three positions.",
        "`transpose(1, 2)` is its own inverse, and `flatten(2)` joins the axes that `unflatten` cut.",
    ),
)

# Heads that see the future

MENDED_HEADS = Exercise(
    reference=RIGHT,
    observe=_output,
    properties=PROPERTIES,
    mistakes=(
        Mistake(
            changed(merge=side_by_side, weigh=columns),
            "the heads as they were handed over",
            "Print the sums of `weights` along each axis.",
        ),
        Mistake(
            changed(merge=side_by_side),
            "a mended softmax, with two positions of one head side by side",
            "Which axis must stand before which, so that `reshape` joins the heads of one position?",
        ),
        Mistake(
            changed(weigh=columns),
            "heads in their places, with columns that sum to 1",
            "Each query has a row: which axis are the keys?",
        ),
    ),
    hints=(
        "Print the sums of `weights` along each axis. Which should be 1?",
        "Take two heads and three positions of step 8 through the last line by hand.",
    ),
)

EXERCISES = {"attend": ATTEND, "self_attention": SELF_ATTENTION, "mended_heads": MENDED_HEADS}
