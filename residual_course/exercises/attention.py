"""Exercises on attention: the function, several heads of it, and two that see the future, to be mended."""

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Property,
    Unmet,
    close,
    draw,
    filled,
    run,
    same_gradients,
)
from residual_course.checking.seen import seen

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Scores = Callable[[Tensor, Tensor], Tensor]
Weigh = Callable[[Tensor, Tensor], Tensor]

# softmax(mask(q k / sqrt(d))) v


def causal(n: int) -> Tensor:
    """Return True where a query may attend to a key: at no later position."""
    return torch.ones(n, n).tril().bool()


def softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax of each row over what the mask allows."""
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    scores: Scores = lambda q, k: q @ k.mT / q.shape[-1] ** 0.5,
    weigh: Weigh = softmax,
) -> Tensor:
    """Return the mean of the values for each query."""
    return weigh(scores(q, k), mask) @ v


def scored(scores: Scores) -> Attend:
    """Return attention with other scores."""
    return lambda q, k, v, mask: attend(q, k, v, mask, scores=scores)


def weighed(weigh: Weigh) -> Attend:
    """Return attention with other weights."""
    return lambda q, k, v, mask: attend(q, k, v, mask, weigh=weigh)


def four(*batch: int, n: int = 5, d: int = 3, e: int = 2) -> dict[str, Tensor]:
    """Return queries, keys and values of these sizes, and a causal mask."""
    return {"q": draw(*batch, n, d), "k": draw(*batch, n, d, seed=1), "v": draw(*batch, n, e, seed=2)} | {
        "mask": causal(n)
    }


def attended(f: Attend, **given: Tensor) -> Tensor:
    """Return an answer's output."""
    return run(f, *given.values(), like=attend(given["q"], given["k"], given["v"], given["mask"]))


def agrees(f: Attend, given: dict[str, Tensor], what: str) -> None:
    """Test an output."""
    close(attended(f, **given), attend(given["q"], given["k"], given["v"], given["mask"]), what)


EXAMPLE = {  # the lesson's
    "q": torch.tensor([[0.0, 1], [1, 0], [1, 1]]).double() * torch.tensor(2.0).double().log(),
    "k": torch.tensor([[1.0, 0], [0, 1], [1, 1]]).double(),
    "v": torch.tensor([[6.0, 0], [0, 12], [1, 2]]).double(),
    "mask": causal(3),
}


def _future(f: Attend) -> None:
    given = four()
    late = {**given, "k": given["k"].clone(), "v": given["v"].clone()}
    late["k"][3:] += 1
    late["v"][3:] += 1
    moved = (attended(f, **late) - attended(f, **given))[:3].abs().amax()
    if not moved < 1e-9:
        raise Unmet("keys and values of positions 3 and 4 were changed, and outputs before them changed too")


def _band(f: Attend) -> None:
    mask = torch.ones(5, 5).tril().bool() & torch.ones(5, 5).triu(-1).bool()
    agrees(f, four() | {"mask": mask}, "with a mask of two positions the output")
    agrees(f, four() | {"mask": torch.ones(5, 5).bool()}, "with a mask that allows all the output")


def _sizes(f: Attend) -> None:
    for given in (four(2, n=7, d=9), four(2, 3, n=4, d=1, e=6), four(1, 2, n=1)):
        agrees(f, given, f"for queries of shape {tuple(given['q'].shape)} the output")


ATTEND = Exercise(
    reference=attend,
    also_right=(
        lambda q, k, v, mask: nn.functional.scaled_dot_product_attention(q, k, v, mask),
        lambda q, k, v, mask: softmax((q / q.shape[-1] ** 0.5) @ k.mT, mask) @ v,
    ),
    observe=lambda f: seen(
        *(lambda given=given: attended(f, **given) for given in (four(), four(d=9, n=4), four(2, n=7, e=4), EXAMPLE))
    ),
    properties=(
        Property("no output depends on what the mask hides", _future),
        Property("the lesson's three positions", lambda f: agrees(f, EXAMPLE, "the output")),
        Property("other masks", _band),
        Property("any number of positions, any widths, any axes before", _sizes),
        Property("gradients reach q, k and v", same_gradients(attend, four(2, n=4)), hints=()),
    ),
    mistakes=(
        Mistake(
            scored(lambda q, k: q @ k.mT), "scores that were not divided", "Divide by the root of d, `q.shape[-1]`."
        ),
        Mistake(scored(lambda q, k: q @ k.mT / q.shape[-1]), "scores divided by d", "Divide by its root."),
        Mistake(
            scored(lambda q, k: q @ k.mT / q.shape[-2] ** 0.5),
            "scores divided by the root of the number of positions",
            "A score is a sum over the numbers of a query: their number counts.",
        ),
        Mistake(
            scored(lambda q, k: q @ k.mT * q.shape[-1] ** 0.5),
            "scores multiplied by the root of d",
            "Divide by it.",
        ),
        Mistake(
            weighed(lambda scores, mask: scores.softmax(-1)),
            "a head without a mask",
            "Set the scores where the mask is False to minus infinity before the softmax.",
        ),
        Mistake(
            weighed(lambda scores, mask: scores.softmax(-1) * mask),
            "a mask after the softmax",
            "Then a row does not sum to 1. Mask the scores, before the softmax.",
        ),
        Mistake(
            weighed(lambda scores, mask: (scores * mask).softmax(-1)),
            "hidden scores set to 0",
            "The exponential of 0 is 1, and that is a weight. Which score has the exponential 0?",
        ),
        Mistake(
            weighed(lambda scores, mask: scores.masked_fill(mask, -torch.inf).softmax(-1)),
            "a mask the wrong way round",
            "True means: may attend. Fill where it is False, `~mask`.",
        ),
        Mistake(
            weighed(lambda scores, mask: scores.masked_fill(~mask, -torch.inf).softmax(-2)),
            "columns that sum to 1",
            "Each query has a row of weights: take the softmax along the last axis.",
        ),
        Mistake(
            lambda q, k, v, mask: attend(k, q, v, mask),
            "query and key exchanged",
            "Row i belongs to query i: `q @ k.mT`.",
        ),
        Mistake(
            lambda q, k, v, mask: softmax(q @ k.mT / q.shape[-1] ** 0.5, mask),
            "the weights",
            "One step is left: the mean of the values.",
        ),
        Mistake(
            lambda q, k, v, mask: attend(q, k, k, mask),
            "a mean of the keys",
            "Keys make the scores; the mean is that of the values.",
        ),
    ),
    hints=(
        "Four steps, in this order: scores over the root of d, the mask, the softmax of each row, the mean of v.",
        "`k.mT` swaps the last two axes, so `q @ k.mT` has a row for each query; `~mask` is True where one is hidden.",
    ),
)

# Several heads

Forward = Callable[[Any, Tensor], Tensor]


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

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return what all heads attend to."""
        return attend(q, k, v, causal(q.shape[-2]))


def class_of(forward: Forward) -> type[nn.Module]:
    """Return the class with this forward."""
    return type("SelfAttention", (Parts,), {"forward": forward})


def heads(
    self: Any,
    x: Tensor,
    cut: Callable[[Any, Tensor], tuple[Tensor, ...]] = lambda self, x: self.qkv_proj(x).chunk(3, dim=-1),
    split: Callable[[Any, Tensor], Tensor] = lambda self, z: self.split(z),
    merge: Callable[[Tensor], Tensor] = lambda y: y.transpose(1, 2).flatten(2),
    weigh: Weigh = softmax,
) -> Tensor:
    """Return the output of all heads."""
    q, k, v = (split(self, z) for z in cut(self, x))
    return self.out_proj(merge(attend(q, k, v, causal(x.shape[1]), weigh=weigh)))


def changed(**how: Any) -> type[nn.Module]:
    """Return the class with one step of its forward changed."""
    return class_of(lambda self, x: heads(self, x, **how))


def side_by_side(y: Tensor) -> Tensor:
    """Put two positions of one head side by side."""
    return y.reshape(len(y), y.shape[2], -1)


def scrambled(self: Any, z: Tensor) -> Tensor:
    """Cut into heads without the transpose."""
    return z.reshape(len(z), self.heads, z.shape[1], -1)


def columns(scores: Tensor, mask: Tensor) -> Tensor:
    """Return weights whose columns sum to 1."""
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-2)


def made(f: Any, width: int = 6, heads: int = 2) -> Any:
    """Return an answer's heads, in float64, with drawn weights and the course's own ``mix``."""
    found = f(width, heads)
    if not isinstance(found, nn.Module):
        raise Broken(f"it made a {type(found).__name__}, where an nn.Module was asked for")
    found.mix = MethodType(Parts.mix, found)  # type: ignore[assignment]
    return filled(found)


def output(f: Any, n: int = 5, width: int = 6, heads: int = 2) -> Tensor:
    """Return the output for a batch of two."""
    x = draw(2, n, width)
    return run(made(f, width, heads), x, like=x)


RIGHT = changed()


def _sees_no_future(f: Any) -> None:
    mixer, x = made(f), draw(2, 5, 6)
    late = x.clone()
    late[:, 3] += 1
    moved = (run(mixer, late, like=x) - run(mixer, x, like=x)).abs().amax(dim=(0, 2))
    if not moved[:3].max() < 1e-9:
        raise Unmet(f"the input at position 3 was changed, and the output at position {int(moved[:3].argmax())} moved")


def agrees_with(*sizes: tuple[int, int, int]) -> Callable[[Any], None]:
    """Return a test for numbers of positions, widths and numbers of heads."""

    def test(f: Any) -> None:
        for size in sizes:
            close(
                output(f, *size), output(RIGHT, *size), "with {} positions, width {}, heads {} the output".format(*size)
            )

    return test


def called(cls: Any, x: Tensor) -> tuple[Tensor, nn.Module]:
    """Return an answer's output and its module."""
    module = made(cls)
    return module(x), module


def observed(f: Any) -> list[Any]:
    """Return outputs of several sizes."""
    return seen(*(lambda size=size: output(f, *size) for size in ((5, 6, 2), (4, 8, 4), (1, 6, 2), (6, 6, 1))))


PROPERTIES = (
    Property("no output depends on a later input", _sees_no_future),
    Property("a single head", agrees_with((5, 6, 1))),
    Property("several heads, any number of positions", agrees_with((5, 6, 2), (1, 4, 4), (9, 8, 4))),
    Property("gradients reach x and both maps", same_gradients(RIGHT, {"x": draw(2, 4, 6)}, call=called), hints=()),
)

SELF_ATTENTION = Exercise(
    reference=class_of(
        lambda self, x: self.out_proj(
            self.mix(*(self.split(z) for z in self.qkv_proj(x).chunk(3, dim=-1))).transpose(1, 2).flatten(2)
        )
    ),
    also_right=(RIGHT, changed(merge=lambda y: torch.cat(list(y.unbind(1)), dim=-1))),
    observe=observed,
    properties=PROPERTIES,
    mistakes=(
        Mistake(
            changed(merge=side_by_side),
            "heads put side by side without the transpose",
            "Bring the positions before the heads, `transpose(1, 2)`, then join the last two axes.",
        ),
        Mistake(
            changed(split=scrambled),
            "heads cut without the transpose",
            "Use `self.split`, which cuts each position by itself.",
        ),
        Mistake(
            changed(cut=lambda self, x: self.qkv_proj(x).chunk(3, dim=-1)[::-1]),
            "query and value exchanged",
            "`chunk` returns them in the order q, k, v.",
        ),
        Mistake(
            class_of(lambda self, x: self.mix(*self.qkv_proj(x).chunk(3, dim=-1))),
            "one head without the last map",
            "Split q, k and v into heads, and end with `out_proj`.",
        ),
        Mistake(
            class_of(lambda self, x: self.out_proj(self.mix(*self.qkv_proj(x).chunk(3, dim=-1)))),
            "one head of the whole width",
            "Split q, k and v with `self.split` before you mix them.",
        ),
        Mistake(
            class_of(
                lambda self, x: (
                    self.mix(*(self.split(z) for z in self.qkv_proj(x).chunk(3, dim=-1))).transpose(1, 2).flatten(2)
                )
            ),
            "heads without the last map",
            "End with `out_proj`.",
        ),
        Mistake(
            changed(merge=lambda y: y.permute(0, 2, 3, 1).flatten(2)),
            "the numbers of the heads in turns",
            "One head's numbers stay together: which axis comes last?",
        ),
        Mistake(
            class_of(lambda self, x: x + heads(self, x)),
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
    also_right=(SELF_ATTENTION.reference,),
    observe=observed,
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
        Mistake(
            changed(weigh=lambda scores, mask: scores.softmax(-1)),
            "a mask that is gone",
            "Keep the line with `later`.",
        ),
        Mistake(
            changed(weigh=lambda scores, mask: scores.softmax(-1).masked_fill(~mask, 0)),
            "a mask after the softmax",
            "Mask the scores before the softmax, so that each row sums to 1.",
        ),
        Mistake(
            changed(weigh=lambda scores, mask: scores.masked_fill(~mask, -torch.inf).softmax(1)),
            "a softmax over the heads",
            "Each query has a row: which axis are the keys?",
        ),
        Mistake(
            changed(merge=lambda y: y.permute(0, 2, 3, 1).flatten(2)),
            "the numbers of the heads in turns",
            "From (batch, heads, n, part) to (batch, n, heads, part): which two change places?",
        ),
    ),
    hints=(
        "Print the sums of `weights` along each axis. Which should be 1?",
        "Take two heads and three positions of step 8 through the last line by hand.",
    ),
)

EXERCISES = {"attend": ATTEND, "self_attention": SELF_ATTENTION, "mended_heads": MENDED_HEADS}
