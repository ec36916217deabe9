"""Exercise on positions after a cache: new keys are rotated by their own positions and appended to the old ones."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from residual_edu.exercises.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients
from residual_edu.parts import rotary_angles, rotate

Keep = Callable[[Tensor | None, Tensor, Tensor], Tensor]


def remember(kept: Tensor | None, new: Tensor, angles: Tensor) -> Tensor:
    """Rotate the new keys by the angles of their own positions, and append them to those that are kept."""
    return at(lambda kept, new: kept)(kept, new, angles)


def at(start: Callable[[int, int], int]) -> Keep:
    """Return an answer that rotates the new keys as if their first position were ``start(kept, new)``."""

    def keep(kept: Tensor | None, new: Tensor, angles: Tensor) -> Tensor:
        before, count = 0 if kept is None else kept.shape[-2], new.shape[-2]
        begin = start(before, count)
        turned = rotate(new, angles[begin : begin + count])
        return turned if kept is None else torch.cat([kept, turned], dim=-2)

    return keep


def turned_again(kept: Tensor | None, new: Tensor, angles: Tensor) -> Tensor:
    """Append the new keys unrotated, and rotate all keys again."""
    both = new if kept is None else torch.cat([kept, new], dim=-2)
    return rotate(both, angles[: both.shape[-2]])


def one_angle(kept: Tensor | None, new: Tensor, angles: Tensor) -> Tensor:
    """Rotate all new keys by the angle of the first."""
    before = 0 if kept is None else kept.shape[-2]
    turned = rotate(new, angles[before].expand(new.shape[-2], -1))
    return turned if kept is None else torch.cat([kept, turned], dim=-2)


def in_front(kept: Tensor | None, new: Tensor, angles: Tensor) -> Tensor:
    """Put the new keys before the old ones."""
    whole = remember(kept, new, angles)
    return whole.roll(new.shape[-2], dims=-2)


def asked(f: Keep, kept: Tensor | None, new: Tensor, angles: Tensor) -> Tensor:
    """Return an answer's keys, or raise ``Unmet`` for another shape."""
    want = remember(kept, new, angles)
    if kept is None:
        return run(lambda new, angles: f(None, new, angles), new, angles, like=want)
    return run(f, kept, new, angles, like=want)


def quarters(f: Keep) -> None:
    """Test one pair of features that is rotated by a quarter turn more at each position."""
    angles, hand = torch.arange(8).double()[:, None] * torch.pi / 2, torch.tensor([[1.0, 0]]).double()
    got = asked(f, draw(3, 2), hand, angles)[-1]
    close(got, torch.tensor([0.0, -1]).double(), "after 3 kept keys, (1, 0), to be rotated by 3 quarters,")


def in_pieces(f: Keep, pieces: list[int]) -> Tensor:
    """Return all keys, given to the answer in pieces."""
    angles, kept = rotary_angles([sum(pieces)], 6), None
    for piece in draw(2, sum(pieces), 6).split(pieces, dim=1):
        kept = asked(f, kept, piece, angles)
    return torch.zeros(0) if kept is None else kept


def same_in_pieces(f: Keep) -> None:
    """Test that the result does not depend on the pieces."""
    want = rotate(draw(2, 7, 6), rotary_angles([7], 6))
    for pieces in ([7], [3, 4], [1] * 7, [4, 1, 2]):
        close(in_pieces(f, pieces), want, f"in pieces of {', '.join(map(str, pieces))}, what is kept")


def old_ones_stay(f: Keep) -> None:
    """Test that the kept keys are returned unchanged."""
    kept = draw(2, 3, 6)
    got = asked(f, kept, draw(2, 2, 6, seed=1), rotary_angles([5], 6))
    close(got[:, :3], kept, "what was kept")


ANGLES = draw(9, 3, seed=2)
LEARNED: list[dict[str, Any]] = [
    {"kept": draw(2, 2, 3, 6), "new": draw(2, 2, 2, 6, seed=1), "angles": ANGLES},
    {"kept": draw(3, 6), "new": draw(1, 6, seed=1), "angles": ANGLES},
    {"kept": None, "new": draw(2, 4, 6, seed=1), "angles": ANGLES},
]

CACHED_POSITIONS = Exercise(
    reference=remember,
    also_right=(at(lambda kept, new: kept),),
    observe=lambda f: [
        run(f, draw(7, 3, 6), draw(7, 5, 6, seed=1), rotary_angles([11], 6, 10.0)),
        run(lambda new, angles: f(None, new, angles), draw(7, 5, 6, seed=1), rotary_angles([11], 6, 10.0)),
    ],
    properties=(
        Property("the kept keys come first, unchanged", old_ones_stay),
        Property("the fourth key is turned by three quarters", quarters),
        Property("key by key, in chunks and all at once: the same", same_in_pieces),
        Property(
            "any number of axes before the positions, and gradients of what is handed over",
            same_gradients(remember, *LEARNED),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            at(lambda kept, new: 0),
            "positions that restart at 0 after the cache",
            "The first new key stands at position `kept.shape[-2]`.",
        ),
        Mistake(
            at(lambda kept, new: max(kept - 1, 0)),
            "new keys one position too early",
            "Three are kept, at 0, 1 and 2: the next one stands at 3.",
        ),
        Mistake(at(lambda kept, new: kept + 1), "new keys one position too late", "Positions are counted from 0."),
        Mistake(
            at(lambda kept, new: new),
            "a start counted in new keys",
            "Count those that are kept.",
        ),
        Mistake(
            lambda kept, new, angles: at(lambda k, n: len(angles) - n)(kept, new, angles),
            "the last rows of the table",
            "The table is longer than the text: begin at the number of kept keys.",
        ),
        Mistake(
            turned_again,
            "old keys that are turned a second time",
            "What is kept was turned when it came. Turn `new` alone.",
        ),
        Mistake(one_angle, "one angle for all new keys", "A chunk has as many positions as keys."),
        Mistake(
            lambda kept, new, angles: new if kept is None else torch.cat([kept, new], dim=-2),
            "new keys that were not rotated",
            "`rotate(new, angles[start : start + new.shape[-2]])`.",
        ),
        Mistake(in_front, "new keys before the old ones", "In `torch.cat`, what is kept comes first."),
        Mistake(
            lambda kept, new, angles: remember(kept, new, angles)[..., -new.shape[-2] :, :],
            "new keys alone, the old ones forgotten",
            "Return all keys: `torch.cat([kept, turned], dim=-2)`.",
        ),
    ),
    hints=(
        "At which position does the first new key stand, if three are kept?",
        "The first new key stands right after the kept ones, and the table has a row for each position: which rows?",
    ),
)

EXERCISES = {"remember": CACHED_POSITIONS}
