"""Homework on where the norm stands: the pre-norm layer of a Transformer, which has two branches."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_edu.exercises.exercise import Exercise, Mistake, Property, Unmet, close, draw, gradients, run

Map = Callable[[Tensor], Tensor]

X = 2 * draw(2, 3, 4) + 1


# The parts that a candidate is handed: norms that differ, and branches that bend each number in their own way


def norm_with(gain: float) -> Map:
    """Return a norm that centres each row and scales it to a size of its own."""
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
    """Say nothing."""
    return 0 * x


def layer_with(f: Callable[..., Tensor], **others: Map) -> Tensor:
    """Return what a candidate makes of ``X`` with the parts, or with ``others`` in their place."""
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


def _handed(f: Callable[..., Tensor], part: str) -> None:
    """Test what one part is handed."""

    def overheard(by: Callable[..., Tensor]) -> list[Tensor]:
        seen = list[Tensor]()

        def listen(x: Tensor) -> Tensor:
            seen.append(x.clone())
            return PARTS[part](x)

        layer_with(by, **{part: listen})
        return seen

    seen = overheard(f)
    if len(seen) != 1:
        raise Unmet(f"it called `{part}` {len(seen)} times, where once was asked for")
    close(seen[0], overheard(two_branches)[0], f"what `{part}` is handed")


def _silent_layer(f: Callable[..., Tensor]) -> None:
    close(layer_with(f, attention=silent, feed_forward=silent), X, "with two branches that say 0, the output")


TWO_BRANCHES = Exercise(
    reference=two_branches,
    observe=lambda f: (layer_with(f), gradients(lambda x: f(x, *PARTS.values()), X)),
    properties=(
        Property("x passes untouched where both branches say 0", _silent_layer),
        Property("attention is asked about the normalised x", lambda f: _handed(f, "attention")),
        Property("the second norm is handed the stream, the first sum", lambda f: _handed(f, "norm_2")),
        Property(
            "the feed-forward layer is asked about what the second norm returns", lambda f: _handed(f, "feed_forward")
        ),
        Property("the output is the second sum", lambda f: close(layer_with(f), two_branches(X, *PARTS.values()))),
    ),
    mistakes=(
        Mistake(
            lambda x, a, f, n1, n2: x + a(n1(x)) + f(n2(x)),
            "two branches side by side, both asked about the first x",
            "Let the second branch hear the first: hand `norm_2` the sum that the first branch made.",
        ),
        Mistake(
            lambda x, a, f, n1, n2: x + f(n2(x + a(n1(x)))),
            "a first branch that is heard but not kept",
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
            "Add the first sum to what the feed-forward layer says.",
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
