"""Homework on the configurable block: two branches, and a flag that says where their norms stand."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_edu.exercises.exercise import Exercise, Mistake, Property, close, draw, run
from residual_edu.parts.residual import Map, post_norm_residual, pre_norm_residual

Assembly = Callable[[Tensor, Map, Map, Map, Map, bool], Tensor]
Branch = Callable[[Tensor, Map, Map], Tensor]  # x, its layer, its norm


def attention(x: Tensor) -> Tensor:
    """Stand in for a layer that mixes positions."""
    return 0.7 * x.cumsum(dim=-2)


def ffn(x: Tensor) -> Tensor:
    """Stand in for a layer that maps each position by itself."""
    return torch.tanh(2 * x + 1)


def attn_norm(x: Tensor) -> Tensor:
    """Stand in for the norm beside the attention."""
    return 1.5 * x / x.square().mean(dim=-1, keepdim=True).sqrt()


def ffn_norm(x: Tensor) -> Tensor:
    """Stand in for the norm beside the feed-forward network."""
    return x - x.mean(dim=-1, keepdim=True) + 0.5


def of(pre: Branch, post: Branch) -> Assembly:
    """Return the block whose branches are added by ``pre`` or ``post``."""

    def assembled(x: Tensor, mix: Map, think: Map, mix_norm: Map, think_norm: Map, pre_norm: bool) -> Tensor:
        add = pre if pre_norm else post
        return add(add(x, mix, mix_norm), think, think_norm)

    return assembled


def before(x: Tensor, f: Map, norm: Map) -> Tensor:
    """Add a branch behind its norm."""
    return x + f(norm(x))


def behind(x: Tensor, f: Map, norm: Map) -> Tensor:
    """Add a branch, then norm the sum."""
    return norm(x + f(x))


def side_by_side(x: Tensor, mix: Map, think: Map, mix_norm: Map, think_norm: Map, pre_norm: bool) -> Tensor:
    """Give both branches the x of the start."""
    if pre_norm:
        return x + mix(mix_norm(x)) + think(think_norm(x))
    return think_norm(mix_norm(x + mix(x)) + think(x))


def both_at_the_end(x: Tensor, mix: Map, think: Map, mix_norm: Map, think_norm: Map, pre_norm: bool) -> Tensor:
    """In post-norm, norm twice at the end."""
    if pre_norm:
        return before(before(x, mix, mix_norm), think, think_norm)
    x = x + mix(x)
    return think_norm(mix_norm(x + think(x)))


def pre(f: Assembly, x: Tensor) -> Tensor:
    """Return what a candidate makes of ``x`` with its norms before the branches."""
    return run(lambda x: f(x, attention, ffn, attn_norm, ffn_norm, True), x, like=x)


def post(f: Assembly, x: Tensor) -> Tensor:
    """Return what a candidate makes of ``x`` with its norms behind the sums."""
    return run(lambda x: f(x, attention, ffn, attn_norm, ffn_norm, False), x, like=x)


def skip(f: Assembly) -> None:
    """Test that x comes through branches that say nothing."""
    x = draw(4, 6)
    got = run(lambda x: f(x, torch.zeros_like, torch.zeros_like, attn_norm, ffn_norm, True), x, like=x)
    close(got, x, "with branches that say 0, the output")


REFERENCE = of(pre_norm_residual, post_norm_residual)

ASSEMBLE = Exercise(
    reference=REFERENCE,
    also_right=(of(before, behind),),
    observe=lambda f: [pre(f, draw(4, 6)), post(f, draw(4, 6))],
    properties=(
        Property("pre-norm: the stream itself is not touched by a norm", skip),
        Property("pre-norm: both branches", lambda f: close(pre(f, x := draw(2, 4, 6)), pre(REFERENCE, x))),
        Property("post-norm: both branches", lambda f: close(post(f, x := draw(2, 4, 6)), post(REFERENCE, x))),
    ),
    mistakes=(
        Mistake(
            of(lambda x, f, n: n(x + f(n(x))), lambda x, f, n: n(x + f(n(x)))),
            "a norm added twice, before the branch and behind the sum",
            "Each branch has one norm, in one of the two places.",
        ),
        Mistake(
            of(lambda x, f, n: n(x) + f(n(x)), behind),
            "a skip that carries the normed x",
            "Give norm(x) to the branch alone: x + f(norm(x)).",
        ),
        Mistake(
            of(before, lambda x, f, n: x + n(f(x))),
            "a norm behind the branch, where the sum should be normed",
            "In post-norm the bracket closes around the sum: norm(x + f(x)).",
        ),
        Mistake(of(before, before), "a flag that nobody reads, always pre-norm", "Ask `if pre_norm:`."),
        Mistake(of(behind, behind), "a flag that nobody reads, always post-norm", "Ask `if pre_norm:`."),
        Mistake(of(behind, before), "the two placements in each other's place", "Pre means: norm first, then branch."),
        Mistake(
            of(lambda x, f, n: f(n(x)), lambda x, f, n: n(f(x))),
            "branches without their skip",
            "Every line begins with x + ...",
        ),
        Mistake(
            both_at_the_end,
            "both norms behind the second sum",
            "Each sum has its norm: norm the first before the second branch hears it.",
        ),
        Mistake(side_by_side, "two branches side by side", "The second one starts from what the first made of x."),
        Mistake(
            lambda x, mix, think, a, b, flag: REFERENCE(x, think, mix, b, a, flag),
            "the feed-forward network first",
            "First hear the others, then think: attention, then ffn.",
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
        "`x = x + attention(attn_norm(x))` for pre-norm, `x = attn_norm(x + attention(x))` for post-norm.",
    ),
)

EXERCISES = {"assemble": ASSEMBLE}
