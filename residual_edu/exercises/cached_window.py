"""Exercise on a window after a cache: which keys the newest queries may attend to, given another mask."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_edu.exercises.exercise import Exercise, Mistake, Property, Unmet, close, run
from residual_edu.parts import attention_mask
from residual_edu.parts.attention import both

Window = Callable[[int, int, int, Tensor | None], Tensor]


def ahead(queries: int, keys: int) -> Tensor:
    """Return the key's position minus the query's, (queries, keys); the queries are the last of the keys' positions."""
    return torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]


def window_mask(queries: int, keys: int, window: int, mask: Tensor | None) -> Tensor:
    """Return True where the key is in the window and not later, and ``mask`` is True."""
    return such(lambda ahead, window: (ahead <= 0) & (ahead > -window))(queries, keys, window, mask)


def such(rule: Callable[[Tensor, int], Tensor]) -> Window:
    """Return an answer that is True where ``rule(ahead, window)`` and the mask are."""

    def answer(queries: int, keys: int, window: int, mask: Tensor | None) -> Tensor:
        allowed = rule(ahead(queries, keys), window)
        return allowed if mask is None else allowed & mask

    return answer


def from_the_start(queries: int, keys: int, window: int, mask: Tensor | None) -> Tensor:
    """Count queries from 0, as if nothing were cached."""
    gap = torch.arange(keys) - torch.arange(queries)[:, None]
    allowed = (gap <= 0) & (gap > -window)
    return allowed if mask is None else allowed & mask


def either(queries: int, keys: int, window: int, mask: Tensor | None) -> Tensor:
    """Return True where one of the two masks is."""
    allowed = window_mask(queries, keys, window, None)
    return allowed if mask is None else allowed | mask


def without_the_mask(queries: int, keys: int, window: int, mask: Tensor | None) -> Tensor:
    """Ignore the other mask."""
    return window_mask(queries, keys, window, None)


def first_row(queries: int, keys: int, window: int, mask: Tensor | None) -> Tensor:
    """Give every query the other mask's first row."""
    return window_mask(queries, keys, window, None if mask is None else mask[0])


def seen_ahead(queries: int, keys: int, window: int, mask: Tensor | None) -> Tensor:
    """Rely on the other mask to forbid later keys."""
    return window_mask(queries, keys, window, None) if mask is None else mask & (ahead(queries, keys) > -window)


def mask_alone(queries: int, keys: int, window: int, mask: Tensor | None) -> Tensor:
    """Use the window only where there is no other mask."""
    return window_mask(queries, keys, window, None) if mask is None else mask


def asked(f: Window, queries: int, keys: int, window: int, mask: Tensor | None = None) -> Tensor:
    """Return an answer's mask, or raise ``Unmet`` for one of another shape or dtype."""
    like = window_mask(queries, keys, window, mask)
    if mask is None:
        return run(lambda: f(queries, keys, window, None), like=like)
    return run(lambda mask: f(queries, keys, window, mask), mask, like=like)


def future(f: Window) -> None:
    """Test that no query attends to a later key, with a mask that would allow it and without a mask."""
    for mask in (None, torch.ones(5, 5).bool()):
        found = (asked(f, 5, 5, 3, mask) & (ahead(5, 5) > 0)).nonzero().tolist()
        if found:
            raise Unmet(f"position {found[0][0]} may attend to {found[0][1]}, which comes later")


def newest(f: Window) -> None:
    """Test one new token after four that are cached."""
    got = asked(f, 1, 5, 2)[0].long()
    close(got, torch.tensor([0, 0, 0, 1, 1]), "after 4 cached positions, window 2, the row of the fifth")


def mask_agrees(f: Window) -> None:
    """Test that a key is allowed only where both masks allow it."""
    mask = torch.arange(6).expand(6, 6) != 2  # no query may attend to position 2
    close(asked(f, 6, 6, 3, mask).long(), window_mask(6, 6, 3, mask).long(), "with position 2 forbidden, the mask")
    mask = torch.arange(12).view(2, 6) % 4 != 3  # position 3 is hidden from the first query, 5 from the second
    close(asked(f, 2, 6, 3, mask).long(), window_mask(2, 6, 3, mask).long(), "2 queries, 6 keys, rows of their own:")


def every_size(f: Window) -> None:
    """Test all small sizes."""
    for keys in range(1, 6):
        for queries in range(1, keys + 1):
            for window in (1, 2, 9):
                want = window_mask(queries, keys, window, None).long()
                close(asked(f, queries, keys, window).long(), want, f"{queries} queries, {keys} keys, window {window}:")


CACHED_WINDOW = Exercise(
    reference=window_mask,
    also_right=(
        lambda queries, keys, window, mask: both(attention_mask(queries, keys, causal=True, window=window), mask),
    ),
    observe=lambda f: [
        run(lambda: f(4, 9, 3, None)),
        run(lambda m: f(4, 9, 3, m), (2 * torch.arange(4)[:, None] + torch.arange(9)) % 3 != 0),
    ],
    properties=(
        Property("no query attends to a later key, with a mask or without", future),
        Property("one new token after four that are cached attends to the last two", newest),
        Property("where another mask is given, both must hold", mask_agrees),
        Property("any number of queries and keys, any window", every_size),
    ),
    mistakes=(
        Mistake(
            such(lambda ahead, window: ahead.abs() < window),
            "a window to both sides, which leaks the future",
            "And no key that comes later: `ahead <= 0`.",
        ),
        Mistake(
            such(lambda ahead, window: ahead > -window),
            "a window that only forgets the far past",
            "And no key that comes later: `ahead <= 0`.",
        ),
        Mistake(
            from_the_start,
            "queries counted from 0 after a cache",
            "They are the last of the keys' positions: keys - queries, ..., keys - 1.",
        ),
        Mistake(either, "two masks combined by or", "Both must hold: `&`."),
        Mistake(
            without_the_mask,
            "a mask that is given and not used",
            "Where `mask` is not None, combine the two with `&`.",
        ),
        Mistake(
            mask_alone,
            "a window that gives way to the other mask",
            "The window holds with a mask, too: combine the two with `&`.",
        ),
        Mistake(
            such(lambda ahead, window: (ahead <= 0) & (ahead >= -window)),
            "a window of one too many",
            "Its own position is one of the window: `ahead > -window`.",
        ),
        Mistake(
            such(lambda ahead, window: (ahead <= 0) & (ahead > 1 - window)),
            "a window of one too few",
            "Its own position and `window - 1` before it: `ahead > -window`.",
        ),
        Mistake(
            first_row,
            "one row of the other mask for all queries",
            "Each query has a row of its own in `mask`: combine the whole of it.",
        ),
        Mistake(
            seen_ahead,
            "a mask that allows later keys",
            "No key that comes later, with another mask and without: `ahead <= 0` stands in both.",
        ),
        Mistake(
            such(lambda ahead, window: (ahead < 0) & (ahead > -window)),
            "a position that does not see itself",
            "Itself is allowed: `ahead <= 0`.",
        ),
        Mistake(
            such(lambda ahead, window: ahead <= 0),
            "the causal mask without a window",
            "And no key that is window or more positions back: `ahead > -window`.",
        ),
        Mistake(
            lambda queries, keys, window, mask: ~window_mask(queries, keys, window, mask),
            "a mask of what is forbidden",
            "Here True means: may attend. Negate the mask with `~`.",
        ),
    ),
    hints=(
        "Write down how far ahead of each query each key stands. At which position does the first query stand?",
        "The queries stand at keys - queries, ..., keys - 1. Key position minus query position is a table; two "
        "comparisons of it, and the mask.",
    ),
)

EXERCISES = {"window_mask": CACHED_WINDOW}
