"""Exercise on paper: how far the first step moves all branches of a deep network, each beside its stream."""

from collections.abc import Callable
from functools import partial
from typing import Any

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, value_of

Total = Callable[[str, int, float, float], Any]


def total(place: str, depth: int, gate: float, move: float) -> float:
    """Return the sum over the blocks of a gated branch's move over the size of its stream."""
    found, square = 0.0, 1.0
    for _ in range(depth):
        found += gate * move / square**0.5
        square += gate**2 if place == "pre" else 0
    return found


def in_one_sum(place: str, depth: int, gate: float, move: float) -> float:
    """Return the same in one expression."""
    grown = gate**2 if place == "pre" else 0.0
    return sum(gate * move / (1 + block * grown) ** 0.5 for block in range(depth))


def number(f: Total, *case: Any) -> float:
    """Return an answer's number."""
    return value_of(partial(f, *case), float)


def is_near(f: Total, *cases: tuple[str, int, float, float]) -> None:
    """Test some settings to a thousandth."""
    for place, depth, gate, move in cases:
        got, want = number(f, place, depth, gate, move), total(place, depth, gate, move)
        if not abs(got - want) <= 1e-3 * want:
            raise Unmet(
                f'for "{place}", {depth} blocks, gates of {gate:g} and a move of {move:g} it is {got:.4g}, '
                f"where {want:.4g} is right"
            )


def walked(size: Callable[[float, float, str], float], step: Callable[[float, float], float]) -> Total:
    """Return an answer with other steps: ``size`` returns the next squared size, ``step`` what a block adds."""

    def wrong(place: str, depth: int, gate: float, move: float) -> float:
        found, square = 0.0, 1.0
        for _ in range(depth):
            found += gate * step(move, square)
            square = size(square, gate, place)
        return found

    return wrong


def grows(square: float, gate: float, place: str) -> float:
    """Return the squared size of the stream after a block."""
    return square + gate**2 if place == "pre" else square


def over_size(move: float, square: float) -> float:
    """Return a move over the size of the stream."""
    return move / square**0.5


def after_the_block(place: str, depth: int, gate: float, move: float) -> float:
    """Divide by the stream after each block."""
    grown = gate**2 if place == "pre" else 0.0
    return sum(gate * move / (1 + (block + 1) * grown) ** 0.5 for block in range(depth))


TOTAL_MOVE = Exercise(
    reference=total,
    also_right=(in_one_sum,),
    observe=lambda f: [
        number(f, "post", 5, 0.5, 0.1),
        number(f, "skip", 4, 2.0, 0.1),
        number(f, "pre", 5, 0.7, 0.3),
        number(f, "pre", 9, 2.0, 0.1),
    ],
    properties=(
        Property("one block", lambda f: is_near(f, *[(place, 1, 0.5, 0.1) for place in ("post", "skip", "pre")])),
        Property("post-norm", lambda f: is_near(f, ("post", 12, 0.5, 0.1), ("post", 48, 0.3, 0.12))),
        Property("skip alone", lambda f: is_near(f, ("skip", 12, 0.5, 0.1), ("skip", 48, 2.0, 0.12))),
        Property(
            "pre-norm", lambda f: is_near(f, ("pre", 2, 1.0, 0.1), ("pre", 48, 0.3, 0.12), ("pre", 192, 2.0, 1.0))
        ),
    ),
    mistakes=(
        Mistake(
            walked(lambda square, gate, place: square, over_size),
            "a pre-norm stream that stays at its size",
            "In pre-norm nothing divides the stream: what does each block add to its mean square?",
        ),
        Mistake(
            walked(lambda square, gate, place: square + gate**2, over_size),
            "a stream that grows in every wiring",
            "Post-norm's norm divides each sum. And what does a branch receive where there is no norm at all?",
        ),
        Mistake(
            walked(lambda square, gate, place: square if place == "post" else square + gate**2, over_size),
            "branches of the skip alone that receive a stream of size 1",
            "Without a norm f receives the stream itself, so f's move is as many times larger as the stream is.",
        ),
        Mistake(
            lambda place, depth, gate, move: total(place, depth, gate, move) / depth**0.5,
            "moves whose squares are added",
            "The lengths are asked for: add the moves as they are.",
        ),
        Mistake(
            lambda place, depth, gate, move: total(place, depth, gate, move) / gate,
            "a move that the gate does not multiply",
            "What reaches the stream is gate * f(x).",
        ),
        Mistake(
            walked(lambda square, gate, place: square + gate if place == "pre" else square, over_size),
            "a mean square to which each block adds gate",
            "A branch of the size `gate` has the mean square gate².",
        ),
        Mistake(
            walked(grows, lambda move, square: move / square),
            "moves over the mean square of the stream",
            "The size is the root of the mean square.",
        ),
        Mistake(
            after_the_block,
            "moves over the stream after the block",
            "Which size has the stream before its branch is added?",
        ),
    ),
    hints=(
        "Follow one number from block to block: the mean square of the stream. In two of the three wirings the "
        "quotient of move and stream is the same in each block.",
        "In pre-norm the mean square of the stream is 1 before the first block, 1 + gate² before the second.",
    ),
)

EXERCISES = {"total_move": TOTAL_MOVE}
