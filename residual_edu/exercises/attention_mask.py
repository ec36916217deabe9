"""Exercise on masks: causal and within a window at once."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_edu.exercises.exercise import Exercise, Mistake, Property, Unmet, close, run
from residual_edu.parts import attention_mask

Mask = Callable[[int, int], Tensor]


def ahead(count: int) -> Tensor:
    """Return the key's position minus the query's, (queries, keys)."""
    places = torch.arange(count)
    return places - places[:, None]


def causal_window(count: int, window: int) -> Tensor:
    """Return True where a query may attend: to itself and the ``window - 1`` positions before it."""
    return (ahead(count) <= 0) & (ahead(count) > -window)


def asked(f: Mask, count: int, window: int) -> Tensor:
    """Return an answer's mask, or raise ``Unmet`` for one of another shape or dtype."""
    return run(lambda: f(count, window), like=causal_window(count, window))


def row(f: Mask) -> None:
    """Test the row that the lesson shows."""
    close(asked(f, 6, 2)[3].long(), causal_window(6, 2)[3].long(), "row 3 of 6, window 2,")


def future(f: Mask) -> None:
    """Test that no position attends to a later one."""
    found = (asked(f, 6, 3) & (ahead(6) > 0)).nonzero().tolist()
    if found:
        raise Unmet(f"position {found[0][0]} may attend to {found[0][1]}, which comes later")


def itself(f: Mask) -> None:
    """Test that each position attends to itself."""
    close(asked(f, 5, 2).diagonal().long(), torch.ones(5).long(), "the diagonal")


def every_size(f: Mask) -> None:
    """Test all small sizes."""
    for count in range(1, 7):
        for window in (1, 2, 3, 9):
            close(
                asked(f, count, window).long(),
                causal_window(count, window).long(),
                f"for {count} positions, window {window}, the mask",
            )


CAUSAL_WINDOW = Exercise(
    reference=causal_window,
    also_right=(lambda count, window: attention_mask(count, count, causal=True, window=window),),
    observe=lambda f: [run(lambda n=n, w=w: f(n, w)) for n, w in ((6, 3), (9, 2))],
    properties=(
        Property("every position may attend to itself", itself),
        Property("no position may attend to a later one", future),
        Property("with a window of 2, position 3 may attend to 2 and 3", row),
        Property("every number of positions, every window", every_size),
    ),
    mistakes=(
        Mistake(
            lambda n, w: (ahead(n) <= 0) | (ahead(n).abs() < w),
            "the two combined by or",
            "Both conditions must hold at once: `&`.",
        ),
        Mistake(
            lambda n, w: ~causal_window(n, w),
            "a mask of what is forbidden",
            "Here True means: may attend. Negate the mask with `~`.",
        ),
        Mistake(
            lambda n, w: causal_window(n, w).mT,
            "the past and the future exchanged",
            "Rows are queries, columns are keys.",
        ),
        Mistake(
            lambda n, w: (ahead(n) <= 0) & (ahead(n) >= -w),
            "a window of one too many",
            "Itself is one of the window: `< window`.",
        ),
        Mistake(
            lambda n, w: (ahead(n) < 0) & (ahead(n) > -w),
            "a position that does not see itself",
            "Itself is allowed: `<=`.",
        ),
        Mistake(
            lambda n, w: ahead(n).abs() < w,
            "a window to both sides",
            "And no key that comes later: `&` the causal mask.",
        ),
        Mistake(
            lambda n, w: ahead(n) <= 0, "the causal mask alone", "And no key that is window or more positions away."
        ),
        Mistake(lambda n, w: ahead(n) > -w, "a window that forgets the future", "And no key that comes later."),
        Mistake(
            lambda n, w: torch.zeros(n, n).masked_fill(~causal_window(n, w), -torch.inf),
            "a mask of numbers to add to the scores",
            "Return truth values, True where a query may attend.",
        ),
        Mistake(
            lambda n, w: causal_window(n, w).long(),
            "a mask of zeros and ones",
            "Return truth values: a comparison gives them, or `.bool()`.",
        ),
    ),
    hints=(
        "Write down for each pair how far ahead the key stands. Which of these numbers are allowed?",
        "`torch.arange(count)` as a row minus the same as a column gives these numbers. Two comparisons, both needed.",
    ),
)

EXERCISES = {"causal_window": CAUSAL_WINDOW}
