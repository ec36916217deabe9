"""Exercise on paper: what a pre-norm network leaves of the distance between two inputs."""

from collections.abc import Callable
from typing import Any

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, value_of

Left = Callable[[float, float, int], Any]


def left(r: float, gain: float, depth: int) -> float:
    """Return the distance after the last norm over that at the start."""
    size, distance = 1.0, 1.0  # both squared
    for _ in range(depth):
        distance += gain**2 * distance / size
        size += r**2
    return (distance / size) ** 0.5


def by_product(r: float, gain: float, depth: int) -> float:
    """Return the same, as a product over the blocks."""
    product = 1.0
    for done in range(depth):
        size = 1 + done * r**2
        product *= (size + gain**2) / size
    return (product / (1 + depth * r**2)) ** 0.5


def number(f: Left, r: float, gain: float, depth: int) -> float:
    """Return an answer's number."""
    return value_of(lambda: f(r, gain, depth), float)


def is_near(f: Left, *cases: tuple[float, float, int]) -> None:
    """Test some settings to a thousandth."""
    for r, gain, depth in cases:
        got, want = number(f, r, gain, depth), left(r, gain, depth)
        if not abs(got - want) <= 1e-3 * want:
            raise Unmet(f"for r = {r:g}, gain = {gain:g} and {depth} blocks it is {got:.4g}, where {want:.4g} is right")


def without(f: Callable[[float, float, float, float], tuple[float, float]], end: str = "norm") -> Left:
    """Return an answer with other steps: ``f`` returns the squared size and distance after a block."""

    def wrong(r: float, gain: float, depth: int) -> float:
        size, distance = 1.0, 1.0
        for _ in range(depth):
            size, distance = f(size, distance, r, gain)
        return (distance / size if end == "norm" else distance) ** 0.5

    return wrong


PRE_NORM_LEFT = Exercise(
    reference=left,
    also_right=(by_product,),
    observe=lambda f: [number(f, 2.0, 0.5, 1), number(f, 1.5, 0.7, 3), number(f, 0.3, 1.3, 6)],
    properties=(
        Property("without a block nothing is lost", lambda f: is_near(f, (1.5, 0.7, 0)), ()),
        Property("a branch that is 0 changes nothing", lambda f: is_near(f, (0.0, 0.0, 7)), ()),
        Property("one block", lambda f: is_near(f, (2.0, 0.5, 1), (0.3, 1.2, 1))),
        Property("a few blocks", lambda f: is_near(f, (2.0, 0.5, 2), (1.5, 0.7, 3), (0.3, 1.3, 6)), (2,)),
        Property("any depth", lambda f: is_near(f, (1.0, 1.0, 24), (2.236, 1.0, 96)), (2,)),
    ),
    mistakes=(
        Mistake(
            lambda r, gain, depth: ((1 + gain**2) / (1 + r**2)) ** (depth / 2),
            "post-norm: it divides the stream in each block",
            "In pre-norm the sum is not divided until the last norm. What does the second branch receive?",
        ),
        Mistake(
            without(lambda size, distance, r, gain: (size + r**2, distance * (1 + gain**2))),
            "branches that receive the stream as it is",
            "Each branch receives norm(x). How far apart are the two inputs after that norm?",
        ),
        Mistake(
            without(lambda size, distance, r, gain: (size + r**2, distance + gain**2 * distance / size), end="sum"),
            "a network without its last norm",
            "The last norm divides the distance too.",
        ),
        Mistake(
            without(lambda size, distance, r, gain: (size * (1 + r**2), distance + gain**2 * distance / size)),
            "a stream whose branches grow with it",
            "A branch receives a row of size 1, so its output has the size r in every block.",
        ),
        Mistake(
            without(lambda size, distance, r, gain: (size + r**2, distance + gain**2)),
            "branches that add as much distance in each block",
            "A branch multiplies the distance that it receives, and the norm has divided that.",
        ),
        Mistake(
            without(lambda size, distance, r, gain: (size + r**2, distance + gain**2 * distance / (size + r**2))),
            "a branch that receives the sum to which it is added",
            "Which size has the stream before its branch is added?",
        ),
        Mistake(
            lambda r, gain, depth: left(r, gain, depth) ** 2,
            "the square of the distance",
            "You have followed squares; the distance itself is asked for.",
        ),
        Mistake(
            without(
                lambda size, distance, r, gain: (
                    (size**0.5 + r) ** 2,
                    (distance**0.5 + gain * (distance / size) ** 0.5) ** 2,
                )
            ),
            "sizes that are added, where their squares should be",
            "Perpendicular vectors: the squares add.",
        ),
    ),
    hints=(
        "Follow two numbers from block to block: the squared size of the stream, and the squared distance.",
        "The norm divides the branch's input, and with it the distance, by the stream's size at that place. The stream "
        "itself is divided once, at the end.",
    ),
)

EXERCISES = {"pre_norm_left": PRE_NORM_LEFT}
