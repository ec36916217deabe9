"""Exercise on chunks: the state before each chunk of a scan, from what each chunk keeps and writes."""

from collections.abc import Callable
from math import log

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

States = Callable[[Tensor, Tensor, float, Tensor, int], Tensor]


def written_at_the_end(x: Tensor, dt: Tensor, A: float, B: Tensor, own: float = 0.0) -> Tensor:
    """Return what a chunk has written, faded to its end; with ``own`` each also by that part of its own step."""
    later = dt.sum() - dt.cumsum(0) + own * dt
    return ((A * later).exp() * dt * x) @ B


def chunked(
    write: Callable[[Tensor, Tensor, float, Tensor], Tensor] = written_at_the_end,
    keep: Callable[[Tensor, float], Tensor] = lambda dt, A: (dt.sum() * A).exp(),
    after: bool = False,
) -> States:
    """Return the states before each chunk, or ``after`` it, with these two parts of a chunk."""

    def states(x: Tensor, dt: Tensor, A: float, B: Tensor, length: int) -> Tensor:
        state, found = torch.zeros_like(B[0]), []
        for start in range(0, len(x), length):
            part = slice(start, start + length)
            new = keep(dt[part], A) * state + write(x[part], dt[part], A, B[part])
            found.append(new if after else state)
            state = new
        return torch.stack(found)

    return states


states_before = chunked()


def by_positions(x: Tensor, dt: Tensor, A: float, B: Tensor, length: int) -> Tensor:
    """Return the same, by the loop over all positions."""
    state, found = torch.zeros_like(B[0]), []
    for t in range(len(x)):
        if t % length == 0:
            found.append(state)
        state = (dt[t] * A).exp() * state + dt[t] * x[t] * B[t]
    return torch.stack(found)


def follows(f: States, x: Tensor, dt: Tensor, A: float, B: Tensor, length: int) -> None:
    """Test one input."""
    wanted = states_before(x, dt, A, B, length)
    found = run(lambda x, dt, B: f(x, dt, A, B, length), x, dt, B, like=wanted)
    close(found, wanted, f"for {len(x)} positions in chunks of {length} the state")


def numbers(*values: float) -> Tensor:
    """Return the values in float64."""
    return torch.tensor(values, dtype=torch.float64)


def drawn(f: States, time: int, size: int, length: int) -> None:
    """Test drawn numbers."""
    follows(f, draw(time), draw(time, seed=1).abs() + 0.1, -0.6, draw(time, size, seed=2), length)


def _smallest(f: States) -> None:
    drawn(f, 5, 2, 1)
    drawn(f, 5, 2, 5)


GIVEN = {"x": draw(6), "dt": draw(6, seed=1).abs() + 0.1, "A": -0.6, "B": draw(6, 3, seed=2), "length": 2}
ONES = torch.ones(6, 1, dtype=torch.float64)
HALF = numbers(8.0, 4.0, 2.0, 0.0, 4.0, 4.0), numbers(1.0, 1.0, 1.0, 1.0, 1.0, 1.0), -log(2), ONES

STATES_BEFORE = Exercise(
    reference=states_before,
    also_right=(by_positions,),
    observe=lambda f: f(draw(9), draw(9, seed=1).abs() + 0.1, -0.6, draw(9, 3, seed=2), 3),
    properties=(
        Property(
            "8, 4 | 2, 0 | 4, 4 with half kept at each: before the chunks 0, 8, 3", lambda f: follows(f, *HALF, 2)
        ),
        Property("any numbers and dt, several numbers in a state", lambda f: drawn(f, 12, 4, 3)),
        Property("chunks of one position, and one chunk for all", _smallest),
        Property("a last chunk that is shorter", lambda f: drawn(f, 10, 3, 4)),
        Property("large dt, which leave nothing", lambda f: follows(f, HALF[0], 900 * HALF[1], -1.0, ONES, 2)),
        Property("gradients reach x, dt and B", same_gradients(states_before, GIVEN), hints=()),
    ),
    mistakes=(
        Mistake(chunked(after=True), "the states after the chunks", "The first row is the state before anything: 0."),
        Mistake(
            chunked(lambda x, dt, A, B: written_at_the_end(x, dt, A, B, own=1.0)),
            "a number that is faded by its own step",
            "What position s writes fades during the dt after s alone.",
        ),
        Mistake(
            chunked(lambda x, dt, A, B: (dt * x) @ B),
            "a chunk's numbers without fading",
            "Within the chunk an early number has faded by the chunk's end.",
        ),
        Mistake(
            chunked(keep=lambda dt, A: (dt[-1] * A).exp()),
            "a state that a chunk fades by its last step alone",
            "All dt of the chunk fade the state that came in.",
        ),
        Mistake(
            chunked(keep=lambda dt, A: (0 * dt.sum()).exp()),
            "a state that no chunk fades",
            "All dt of the chunk fade the state that came in.",
        ),
        Mistake(
            chunked(keep=lambda dt, A: 0 * dt.sum()),
            "chunks that forget those before",
            "Add what is left of the state before the last chunk.",
        ),
        Mistake(
            chunked(lambda x, dt, A, B: ((A * dt.cumsum(0)).exp() * dt * x) @ B),
            "numbers faded by the dt up to them",
            "Fade position s by the dt after s, up to the chunk's end.",
        ),
        Mistake(
            chunked(lambda x, dt, A, B: ((A * (dt.sum() - dt.cumsum(0))).exp() * x) @ B),
            "numbers that are written without their step",
            "Position s writes dt · x · B.",
        ),
    ),
    hints=(
        "Two things of each chunk are needed: what it leaves of a state that comes in, and what it writes itself.",
        "For position s of a chunk: the sum of the chunk's dt less the running sum up to s is the time that is "
        "left. The loop over chunks is then the loop of exercise 1.",
    ),
)

EXERCISES = {"states_before": STATES_BEFORE}
