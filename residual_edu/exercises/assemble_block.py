"""Exercise on the configurable block: two branches, and a flag for the placement of their norms."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from residual_edu.exercises.exercise import Broken, Exercise, Mistake, Part, Property, close, draw, run, same_gradients
from residual_edu.parts.residual import Map, post_norm_residual, pre_norm_residual

Assembly = Callable[[Tensor, Map, Map, Map, Map, bool], Tensor]
Branch = Callable[[Tensor, Map, Map], Tensor]  # x, its layer, its norm


def attention(x: Tensor) -> Tensor:
    """Replace a layer that mixes positions."""
    return 0.7 * x.cumsum(dim=-2)


def ffn(x: Tensor) -> Tensor:
    """Replace a layer that maps each position by itself."""
    return torch.tanh(2 * x + 1)


def attn_norm(x: Tensor) -> Tensor:
    """Replace the norm of the attention branch."""
    return 1.5 * x / x.square().mean(dim=-1, keepdim=True).sqrt()


def ffn_norm(x: Tensor) -> Tensor:
    """Replace the norm of the feed-forward branch."""
    return x - x.mean(dim=-1, keepdim=True) + 0.5


def of(pre: Branch, post: Branch) -> Assembly:
    """Return the block whose branches are added by ``pre`` or ``post``."""

    def assembled(x: Tensor, mix: Map, think: Map, mix_norm: Map, think_norm: Map, pre_norm: bool) -> Tensor:
        add = pre if pre_norm else post
        return add(add(x, mix, mix_norm), think, think_norm)

    return assembled


def add_pre(x: Tensor, f: Map, norm: Map) -> Tensor:
    """Return x + f(norm(x))."""
    return x + f(norm(x))


def add_post(x: Tensor, f: Map, norm: Map) -> Tensor:
    """Return norm(x + f(x))."""
    return norm(x + f(x))


def side_by_side(x: Tensor, mix: Map, think: Map, mix_norm: Map, think_norm: Map, pre_norm: bool) -> Tensor:
    """Give both branches the block's input."""
    if pre_norm:
        return x + mix(mix_norm(x)) + think(think_norm(x))
    return think_norm(mix_norm(x + mix(x)) + think(x))


def both_at_the_end(x: Tensor, mix: Map, think: Map, mix_norm: Map, think_norm: Map, pre_norm: bool) -> Tensor:
    """In post-norm, apply both norms at the end."""
    if pre_norm:
        return add_pre(add_pre(x, mix, mix_norm), think, think_norm)
    x = x + mix(x)
    return think_norm(mix_norm(x + think(x)))


def pre(f: Assembly, x: Tensor) -> Tensor:
    """Return an answer's output for ``x`` with ``pre_norm=True``."""
    return run(lambda x: f(x, attention, ffn, attn_norm, ffn_norm, True), x, like=x)


def post(f: Assembly, x: Tensor) -> Tensor:
    """Return an answer's output for ``x`` with ``pre_norm=False``."""
    return run(lambda x: f(x, attention, ffn, attn_norm, ffn_norm, False), x, like=x)


def skip(f: Assembly) -> None:
    """Test that the output is x where both branches return 0."""
    x = draw(4, 6)
    got = run(lambda x: f(x, torch.zeros_like, torch.zeros_like, attn_norm, ffn_norm, True), x, like=x)
    close(got, x, "with branches that return 0, the output")


class Counted:
    """A part that counts its calls."""

    def __init__(self, part: Map) -> None:
        self.part, self.calls = part, 0

    def __call__(self, x: Tensor) -> Tensor:
        """Return the part's output."""
        self.calls += 1
        return self.part(x)


def once_each(f: Assembly) -> None:
    """Test that each part is called once, in either placement."""
    for flag in (True, False):
        first, second, norm_1, norm_2 = parts = [Counted(part) for part in (attention, ffn, attn_norm, ffn_norm)]
        f(draw(4, 6), first, second, norm_1, norm_2, flag)
        for name, part in zip(NAMES, parts, strict=True):
            if part.calls != 1:
                raise Broken(f"with pre_norm={flag} it called `{name}` {part.calls} times, where once was asked for")


def as_it_is(x: Tensor) -> Tensor:
    """Return the very tensor that is handed over."""
    return x


NAMES = "attention", "ffn", "attn_norm", "ffn_norm"
LEARNED: list[dict[str, Any]] = [
    {"x": draw(2, 5, 4)} | parts | {"pre_norm": flag}
    for parts in ({name: Part(4, seed) for seed, name in enumerate(NAMES)}, dict.fromkeys(NAMES, as_it_is))
    for flag in (True, False)
]
REFERENCE = of(pre_norm_residual, post_norm_residual)

ASSEMBLE = Exercise(
    reference=REFERENCE,
    also_right=(of(add_pre, add_post),),
    observe=lambda f: [pre(f, draw(4, 6)), post(f, draw(4, 6))],
    properties=(
        Property("pre-norm: the stream itself is not touched by a norm", skip),
        Property("pre-norm: both branches", lambda f: close(pre(f, x := draw(2, 4, 6)), pre(REFERENCE, x))),
        Property("post-norm: both branches", lambda f: close(post(f, x := draw(2, 4, 6)), post(REFERENCE, x))),
        Property("each part is called once, in either placement", once_each, hints=()),
        Property("the gradients of x and of all four parts", same_gradients(REFERENCE, *LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(
            of(lambda x, f, n: n(x + f(n(x))), lambda x, f, n: n(x + f(n(x)))),
            "a norm applied twice, before the branch and after the sum",
            "Each branch has one norm, in one of the two places.",
        ),
        Mistake(
            of(lambda x, f, n: n(x) + f(n(x)), add_post),
            "a skip that carries the normed x",
            "Give norm(x) to the branch alone: x + f(norm(x)).",
        ),
        Mistake(
            of(add_pre, lambda x, f, n: x + n(f(x))),
            "a norm after the branch, where the sum should be normed",
            "In post-norm the bracket closes around the sum: norm(x + f(x)).",
        ),
        Mistake(of(add_pre, add_pre), "a flag that is never read, always pre-norm", "Write `if pre_norm:`."),
        Mistake(of(add_post, add_post), "a flag that is never read, always post-norm", "Write `if pre_norm:`."),
        Mistake(of(add_post, add_pre), "the two placements exchanged", "Pre means: norm first, then branch."),
        Mistake(
            of(lambda x, f, n: f(n(x)), lambda x, f, n: n(f(x))),
            "branches without their skip",
            "Every line begins with x + ...",
        ),
        Mistake(
            both_at_the_end,
            "both norms after the second sum",
            "Each sum has its norm: norm the first before it enters the second branch.",
        ),
        Mistake(side_by_side, "two branches side by side", "The second one starts from what the first made of x."),
        Mistake(
            lambda x, mix, think, a, b, flag: REFERENCE(x, think, mix, b, a, flag),
            "the feed-forward network first",
            "Mix the positions first, then map each: attention, then ffn.",
        ),
        Mistake(
            lambda x, mix, think, a, b, flag: REFERENCE(x, mix, think, a, a, flag),
            "one norm for both branches",
            "The second branch has a norm of its own, `ffn_norm`.",
        ),
        Mistake(
            lambda x, mix, think, a, b, flag: REFERENCE(x, mix, think, b, a, flag),
            "the two norms in each other's place",
            "`attn_norm` stands beside the attention.",
        ),
    ),
    hints=(
        "Two lines for each placement. Where does the bracket of the norm close?",
        "Pre-norm: the branch gets the normed x, the sum the x itself. Post-norm: the sum is normed. Twice, in order.",
    ),
)

EXERCISES = {"assemble": ASSEMBLE}
