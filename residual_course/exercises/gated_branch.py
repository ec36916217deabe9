"""Exercise on a branch with two gates: SwiGLU inside of it, LayerScale on it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Part,
    Property,
    close,
    draw,
    run,
    same_gradients,
)

Map = Callable[[Tensor], Tensor]
Branch = Callable[[Tensor, Map, Map, Map, Map, Tensor], Tensor]
Inner = Callable[[Tensor, Tensor], Tensor]  # of the outputs of up and gate


def by(inner: Inner) -> Branch:
    """Return the branch with another product inside."""

    def branch(x: Tensor, norm: Map, up: Map, gate: Map, down: Map, gamma: Tensor) -> Tensor:
        n = norm(x)
        return x + gamma * down(inner(up(n), gate(n)))

    return branch


right = by(lambda u, g: F.silu(g) * u)


def without_skip(x: Tensor, norm: Map, up: Map, gate: Map, down: Map, gamma: Tensor) -> Tensor:
    """Return the branch alone."""
    return right(x, norm, up, gate, down, gamma) - x


def gated_sum(x: Tensor, norm: Map, up: Map, gate: Map, down: Map, gamma: Tensor) -> Tensor:
    """Lay gamma on the stream as well."""
    return gamma * right(x, norm, up, gate, down, torch.ones_like(gamma))


def normed_stream(x: Tensor, norm: Map, up: Map, gate: Map, down: Map, gamma: Tensor) -> Tensor:
    """Let the skip carry the normed x."""
    return right(x, norm, up, gate, down, gamma) - x + norm(x)


def without_norm(x: Tensor, norm: Map, up: Map, gate: Map, down: Map, gamma: Tensor) -> Tensor:
    """Give x itself to both maps."""
    return right(x, lambda z: z, up, gate, down, gamma)


def gate_reads_x(x: Tensor, norm: Map, up: Map, gate: Map, down: Map, gamma: Tensor) -> Tensor:
    """Give x itself to the gate."""
    return x + gamma * down(F.silu(gate(x)) * up(norm(x)))


def fixed(x: Tensor, norm: Map, up: Map, gate: Map, down: Map, gamma: Tensor) -> Tensor:
    """Detach gamma."""
    return right(x, norm, up, gate, down, gamma.detach())


def by_hand(x: Tensor, norm: Map, up: Map, gate: Map, down: Map, gamma: Tensor) -> Tensor:
    """Write silu out."""
    n = norm(x)
    g = gate(n)
    return down(g * torch.sigmoid(g) * up(n)) * gamma + x


def _norm(x: Tensor) -> Tensor:
    return x / x.square().mean(-1, keepdim=True).sqrt()


HAND: tuple[Map, Map, Map, Map] = (_norm, lambda n: 2 * n + 1, lambda n: 3 * n - 1, lambda h: h - 0.5)


def called(f: Branch, x: Tensor, gamma: Tensor) -> Tensor:
    """Return what ``f`` returns for four simple maps."""
    return run(lambda x, gamma: f(x, *HAND, gamma), x, gamma, like=x)


def _zero(f: Branch) -> None:
    x = draw(2, 3, 4)
    close(called(f, x, torch.zeros(4).double()), x, "with gamma 0 the output")


def _values(f: Branch) -> None:
    for shape in [(5, 4), (2, 3, 4)]:
        x, gamma = draw(*shape), torch.tensor([0.5, -2.0, 1.5, -0.1]).double()
        close(called(f, x, gamma), right(x, *HAND, gamma), "the output")


def _once(f: Branch) -> None:
    counts = [0] * 4

    def counted(at: int) -> Map:
        def part(z: Tensor) -> Tensor:
            counts[at] += 1
            return HAND[at](z)

        return part

    norm, up, gate, down = (counted(at) for at in range(4))
    f(draw(2, 4), norm, up, gate, down, torch.ones(4).double())
    for name, count in zip(("norm", "up", "gate", "down"), counts, strict=True):
        if count != 1:
            raise Broken(f"it called `{name}` {count} times, where once was asked for")


NAMES = ("norm", "up", "gate", "down")
LEARNED: dict[str, Any] = {"x": draw(2, 3, 4)} | {name: Part(4, at) for at, name in enumerate(NAMES)}
LEARNED |= {"gamma": draw(4, seed=9)}

GATED_BRANCH = Exercise(
    reference=right,
    also_right=(by_hand,),
    observe=lambda f: [
        called(f, draw(3, 4, seed=5), draw(4, seed=6)),
        (called(f, draw(3, 4, seed=5), draw(4, seed=6).requires_grad_())).requires_grad,
    ],
    properties=(
        Property("with gamma 0 the stream is untouched", _zero),
        Property("the output: stream, gates, maps and norm", _values),
        Property("the norm and each map are called once", _once, hints=()),
        Property("the gradients of x, gamma and all four parts", same_gradients(right, LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(without_skip, "a branch without its skip", "Add x at the end."),
        Mistake(gated_sum, "gamma on the stream too", "gamma multiplies the branch alone."),
        Mistake(normed_stream, "a skip that carries the normed x", "The sum begins with x itself."),
        Mistake(without_norm, "maps that get x without the norm", "Both maps read norm(x)."),
        Mistake(gate_reads_x, "a gate that reads x without the norm", "Both maps read norm(x)."),
        Mistake(by(lambda u, g: F.silu(u) * g), "silu on the output of up", "silu belongs to the gate's output."),
        Mistake(
            by(lambda u, g: F.silu(u * g)), "silu of the product", "Take silu of the gate's output, then multiply."
        ),
        Mistake(by(lambda u, g: torch.sigmoid(g) * u), "a sigmoid", "silu(z) is z · sigmoid(z)."),
        Mistake(by(lambda u, g: F.gelu(g) * u), "GELU in the place of silu (that is GEGLU)", "Write `F.silu`."),
        Mistake(by(lambda u, g: F.silu(g) + u), "a sum in the place of the product", "A gate multiplies."),
        Mistake(by(lambda u, g: F.silu(u)), "a branch without its gate", "Multiply by silu of the gate's output."),
        Mistake(fixed, "a gamma that gets no gradient", "Leave out `.detach()`, `.data` and `no_grad`."),
    ),
    hints=(
        "Name norm(x) first: who reads it, and who reads x itself?",
        "Inside: silu of the gate's output times the output of up. Around it: down, then gamma, then the sum.",
    ),
)

EXERCISES = {"gated_branch": GATED_BRANCH}
