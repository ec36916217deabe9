"""Exercise on chunks: the state before each chunk of a scan, from what each chunk keeps and writes."""

from collections.abc import Callable
from math import log

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

States = Callable[[Tensor, Tensor, float, Tensor, int], Tensor]


def chunked(
    left: Callable[[Tensor], Tensor] = lambda dt: dt.sum() - dt.cumsum(0),
    all_of: Callable[[Tensor], Tensor] = torch.sum,
    after: bool = False,
) -> States:
    """Return the states before each chunk, or ``after`` it.

    What a chunk writes fades for the time that is ``left`` at each position, what came in for ``all_of`` its dt.
    """

    def states(x: Tensor, dt: Tensor, A: float, B: Tensor, length: int) -> Tensor:
        state, found = torch.zeros_like(B[0]), []
        for start in range(0, len(x), length):
            part = slice(start, start + length)
            kept, later = (A * all_of(dt[part])).exp(), (A * left(dt[part])).exp()
            new = kept * state + (later * dt[part] * x[part]) @ B[part]
            found.append(new if after else state)
            state = new
        return torch.stack(found)

    return states


states_before = chunked()


def follows(x: Tensor, dt: Tensor, A: float, B: Tensor, length: int) -> Callable[[States], None]:
    """Return the test of one input."""
    wanted = states_before(x, dt, A, B, length)
    what = f"for {len(x)} positions in chunks of {length} the state"
    return lambda f: close(run(lambda x, dt, B: f(x, dt, A, B, length), x, dt, B), wanted, what)


def _drawn(time: int, size: int, length: int) -> tuple[Tensor, Tensor, float, Tensor, int]:
    """Return numbers in float32, as the lesson's: some take the sums of dt by a matrix of ones, which is in float32."""
    x, dt, B = (draw(*shape, seed=k).float() for k, shape in enumerate([(time,), (time,), (time, size)]))
    return x, dt.abs() + 0.1, -0.6, B, length


def _smallest(f: States) -> None:
    follows(*_drawn(5, 2, 1))(f)
    follows(*_drawn(5, 2, 5))(f)


GIVEN = dict(zip(("x", "dt", "A", "B", "length"), _drawn(6, 3, 2), strict=True))
ONES, EIGHT = torch.ones(6, 1), torch.tensor([8.0, 4.0, 2.0, 0.0, 4.0, 4.0])

STATES_BEFORE = Exercise(
    reference=states_before,
    observe=lambda f: f(*_drawn(9, 3, 3)),
    properties=(
        Property(
            "8, 4 | 2, 0 | 4, 4 with half kept at each: before the chunks 0, 8, 3",
            follows(EIGHT, ONES[:, 0], -log(2), ONES, 2),
        ),
        Property("any numbers and dt, several numbers in a state", follows(*_drawn(12, 4, 3))),
        Property("chunks of one position, and one chunk for all", _smallest),
        Property("a last chunk that is shorter", follows(*_drawn(10, 3, 4))),
        Property("large dt, which leave nothing", follows(EIGHT, 900 * ONES[:, 0], -1.0, ONES, 2)),
        Property("gradients reach x, dt and B", same_gradients(states_before, GIVEN), hints=()),
    ),
    mistakes=(
        Mistake(chunked(after=True), "the states after the chunks", "The first row is the state before anything: 0."),
        Mistake(
            chunked(lambda dt: dt.sum() - dt.cumsum(0) + dt),
            "a number that is faded by its own step",
            "What position s writes fades during the dt after s alone.",
        ),
        Mistake(
            chunked(lambda dt: dt.cumsum(0)),
            "numbers faded by the dt up to them",
            "Fade position s by the dt after s, up to the chunk's end.",
        ),
        Mistake(
            chunked(all_of=lambda dt: dt[-1]),
            "a state that a chunk fades by its last step alone",
            "All dt of the chunk fade the state that came in.",
        ),
    ),
    hints=(
        "Two things of each chunk are needed: what it leaves of a state that comes in, and what it writes itself.",
        "For position s of a chunk: the sum of the chunk's dt less the running sum up to s is the time that is "
        "left. The loop over chunks is then the loop of exercise 1.",
    ),
)

EXERCISES = {"states_before": STATES_BEFORE}
