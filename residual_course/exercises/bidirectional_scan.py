"""Exercise on the bidirectional scan: a second layer reads the sequence from its end."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, close, draw, run, same_gradients

Core = Callable[[Tensor], Tensor]
Both = Callable[[Core, Core, Tensor], Tensor]


def bidirectional_scan(core: Core, core_rev: Core, x: Tensor) -> Tensor:
    """Return core(x) + flip(core_rev(flip(x)))."""
    return core(x) + core_rev(x.flip(1)).flip(1)


def by_index(core: Core, core_rev: Core, x: Tensor) -> Tensor:
    """Return the same, by indexing the positions downwards."""
    back = torch.arange(x.shape[1] - 1, -1, -1)
    return core(x) + core_rev(x[:, back])[:, back]


def total(x: Tensor) -> Tensor:
    """Return the sum of all positions so far: a core for tests."""
    return x.cumsum(1)


def squares(x: Tensor) -> Tensor:
    """Return the sum of all squares so far, each channel with its own weight: another core."""
    return (x.square() * torch.arange(1, x.shape[-1] + 1)).cumsum(1)


def run_both(f: Both, x: Tensor, core: Core = total, core_rev: Core = squares) -> Tensor:
    """Return the output of ``f`` for ``x``."""
    return run(lambda x: f(core, core_rev, x), x, like=x)


def ones_and_twos(f: Both) -> None:
    """Test 1, 2, 4 with sums both ways."""
    x = torch.tensor([1.0, 2, 4], dtype=torch.float64).view(1, 3, 1)
    close(run_both(f, x, total, total).flatten(), torch.tensor([8.0, 9, 11]), "sums of 1, 2, 4 both ways: the output")


def depends_on_all(f: Both) -> None:
    """Test that each position depends on each."""
    (effect,) = torch.autograd.functional.jacobian(lambda x: run_both(f, x, total, total), (draw(1, 4, 1),))
    if not effect.view(4, 4).all():
        after, before = (effect.view(4, 4) == 0).nonzero()[0].tolist()
        close(0.0, 1.0, f"the derivative of output {after} with respect to input {before}")


def swapped(f: Both) -> None:
    """Test that swapping the cores and flipping x flips the output."""
    x = draw(2, 5, 3)
    close(
        run_both(f, x.flip(1), squares, total),
        bidirectional_scan(total, squares, x).flip(1),
        "with cores swapped the output",
    )


def matches(f: Both, *shape: int) -> None:
    """Test one shape."""
    x = draw(*shape)
    close(run_both(f, x), bidirectional_scan(total, squares, x), f"for shape {shape} the output")


def any_signal(f: Both) -> None:
    """Test two shapes."""
    matches(f, 2, 5, 3)
    matches(f, 4, 4, 4)


def as_it_is(x: Tensor) -> Tensor:
    """Return the very tensor that is handed over."""
    return x


LEARNED: list[dict[str, Any]] = [
    {"core": Part(3), "core_rev": Part(3, 1), "x": draw(2, 5, 3)},
    {"core": total, "core_rev": squares, "x": draw(2, 5, 3)},
    {"core": as_it_is, "core_rev": as_it_is, "x": draw(1, 4, 3)},
]
CUBE = draw(4, 4, 4, seed=5)  # as many positions as channels, so that a wrong axis fits

BIDIRECTIONAL_SCAN = Exercise(
    reference=bidirectional_scan,
    also_right=(by_index,),
    observe=lambda f: run_both(f, draw(2, 6, 3, seed=5)),
    properties=(
        Property("1, 2, 4 with running sums both ways: 8, 9, 11", ones_and_twos),
        Property("every position depends on every other", depends_on_all),
        Property("any signal, with two different cores", any_signal),
        Property("cores swapped and the signal reversed: the output reversed", swapped),
        Property("a single position", lambda f: matches(f, 2, 1, 3)),
        Property(
            "gradients reach the signal and both cores; what is handed over stays as it is",
            same_gradients(bidirectional_scan, *LEARNED),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            lambda core, rev, x: core(x) + rev(x.flip(1)),
            "a flip forgotten on the way back",
            "What core_rev returns is still in reverse order: flip it again before you add.",
        ),
        Mistake(
            lambda core, rev, x: core(x) + rev(x).flip(1),
            "a flip forgotten on the way in",
            "core_rev should read from the end: give it x.flip(1).",
        ),
        Mistake(
            lambda core, rev, x: core(x) + rev(x),
            "two cores that both read forwards",
            "Flip before core_rev and after it.",
        ),
        Mistake(
            lambda core, rev, x: core(x) + core(x.flip(1)).flip(1),
            "one core for both directions",
            "core_rev has weights of its own: use it for the way back.",
        ),
        Mistake(
            lambda core, rev, x: bidirectional_scan(core, rev, x) / 2,
            "an average of both directions",
            "Add them; nothing is halved.",
        ),
        Mistake(
            lambda core, rev, x: core(x) + rev(x.flip(-1)).flip(-1),
            "a flip of the channels",
            "Positions are axis 1: flip(1).",
        ),
        Mistake(lambda core, rev, x: rev(x.flip(1)).flip(1), "the way back alone", "Add core(x)."),
        Mistake(
            lambda core, rev, x: rev(core(x).flip(1)).flip(1),
            "one direction after the other",
            "Both read x itself; only their outputs are added.",
        ),
        Mistake(
            lambda core, rev, x: (core(x) + rev(x.flip(1))).flip(1),
            "a flip of the sum",
            "Flip what core_rev returns, and only that.",
        ),
    ),
    hints=(
        "core_rev reads the sequence from its end. In which order is its output?",
        "`x.flip(1)` reads from the end. Where must the order be turned back, so that each number is at its own place?",
    ),
)

EXERCISES = {"bidirectional_scan": BIDIRECTIONAL_SCAN}
