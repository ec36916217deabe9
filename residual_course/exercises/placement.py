"""Exercise on norm placement: the pre-norm layer of a Transformer, which has two branches."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Part,
    Property,
    close,
    draw,
    gradients,
    run,
    same_gradients,
)

Map = Callable[[Tensor], Tensor]

X = 2 * draw(2, 3, 4) + 1


# The parts that an answer is given: norms that differ, and branches with different nonlinearities


def norm_with(gain: float) -> Map:
    """Return a norm that centres each row and scales it to a size of this norm's own."""
    return lambda x: gain * torch.nn.functional.layer_norm(x, x.shape[-1:])


def bend(strength: float) -> Map:
    """Return a branch."""
    return lambda x: strength * x.square() + x + 1


PARTS: dict[str, Map] = {
    "attention": bend(0.5),
    "feed_forward": bend(-0.2),
    "norm_1": norm_with(1.0),
    "norm_2": norm_with(0.7),
}


def silent(x: Tensor) -> Tensor:
    """Return zeros."""
    return 0 * x


def layer_with(f: Callable[..., Tensor], **others: Map) -> Tensor:
    """Return an answer's output for ``X`` with the parts, some of them replaced by ``others``."""
    parts = PARTS | others
    return run(lambda x: f(x, *parts.values()), X, like=X)


def two_branches(x: Tensor, attention: Map, feed_forward: Map, norm_1: Map, norm_2: Map) -> Tensor:
    """Return the pre-norm layer."""
    x = x + attention(norm_1(x))
    return x + feed_forward(norm_2(x))


def norms_on_the_stream(x: Tensor, attention: Map, feed_forward: Map, norm_1: Map, norm_2: Map) -> Tensor:
    """Return a layer whose skips carry what its norms return."""
    x = norm_1(x)
    x = norm_2(x + attention(x))
    return x + feed_forward(x)


def _gets(f: Callable[..., Tensor], part: str) -> None:
    """Test the input of one part."""

    def overheard(by: Callable[..., Tensor]) -> list[Tensor]:
        seen = list[Tensor]()

        def record(x: Tensor) -> Tensor:
            seen.append(x.clone())
            return PARTS[part](x)

        layer_with(by, **{part: record})
        return seen

    seen = overheard(f)
    if len(seen) != 1:
        raise Broken(f"it called `{part}` {len(seen)} times, where once was asked for")
    close(seen[0], overheard(two_branches)[0], f"what `{part}` is handed")


def _silent_layer(f: Callable[..., Tensor]) -> None:
    close(layer_with(f, attention=silent, feed_forward=silent), X, "with two branches that return 0, the output")


def as_it_is(x: Tensor) -> Tensor:
    """Return the very tensor that is handed over."""
    return x


NAMES = "attention", "feed_forward", "norm_1", "norm_2"
LEARNED: list[dict[str, Any]] = [
    {"x": draw(2, 3, 4)} | {name: Part(4, seed) for seed, name in enumerate(NAMES)},
    {"x": draw(4)} | dict.fromkeys(NAMES, as_it_is),
]

TWO_BRANCHES = Exercise(
    reference=two_branches,
    observe=lambda f: (layer_with(f), gradients(lambda x: f(x, *PARTS.values()), X)),
    properties=(
        Property("the output is x where both branches return 0", _silent_layer),
        Property("attention gets the normalised x", lambda f: _gets(f, "attention")),
        Property("the second norm's input is the stream after the first sum", lambda f: _gets(f, "norm_2")),
        Property("the feed-forward layer gets the output of the second norm", lambda f: _gets(f, "feed_forward")),
        Property("the output is the second sum", lambda f: close(layer_with(f), two_branches(X, *PARTS.values()))),
        Property("the gradients of x and of all four parts", same_gradients(two_branches, *LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(
            lambda x, a, f, n1, n2: x + a(n1(x)) + f(n2(x)),
            "two branches side by side, both of the first x",
            "The second branch follows the first: give `norm_2` the first sum.",
        ),
        Mistake(
            lambda x, a, f, n1, n2: x + f(n2(x + a(n1(x)))),
            "a first branch whose output the second branch gets and the stream does not",
            "The second skip carries the first sum, not the x of the beginning.",
        ),
        Mistake(
            lambda x, a, f, n1, n2: n2((h := n1(x + a(x))) + f(h)),
            "post-norm",
            "Move each norm into its branch, so that nothing but sums stands on the stream.",
        ),
        Mistake(
            norms_on_the_stream,
            "norms on the stream: each skip carries a normalised x",
            "Write `x + attention(norm_1(x))`, without a line `x = norm_1(x)` before it.",
        ),
        Mistake(
            lambda x, a, f, n1, n2: f(n2(x + a(n1(x)))),
            "a second branch without its skip",
            "Add the first sum to the feed-forward layer's output.",
        ),
        Mistake(
            lambda x, a, f, n1, n2: (h := x + f(n1(x))) + a(n2(h)),
            "the two branches in the other order",
            "Attention comes first.",
        ),
        Mistake(
            lambda x, a, f, n1, n2: (h := x + a(n1(x))) + f(n1(h)),
            "one norm for both branches",
            "Each branch has a norm of its own: the second is `norm_2`.",
        ),
        Mistake(
            lambda x, a, f, n1, n2: (h := x + a(n1(x))) + f(h),
            "a second branch without its norm",
            "Hand the feed-forward layer `norm_2` of the sum.",
        ),
        Mistake(
            lambda x, a, f, n1, n2: (h := x + n1(a(x))) + n2(f(h)),
            "norms on the branches' answers",
            "Each norm comes before its layer: `attention(norm_1(x))`.",
        ),
    ),
    hints=(
        "Follow the blue line of the diagram: which sums does x meet, and in which order?",
        "One line for each branch, both of the form `x = x + layer(norm(x))`.",
    ),
)

EXERCISES = {"two_branches": TWO_BRANCHES}
