"""Exercise on faulty blocks: four of them, four faults, found by their signals and gradients."""

from collections.abc import Callable
from functools import partial

from residual_edu.exercises.exercise import Exercise, Mistake, Property, Unmet, letters_of

RIGHT = {"no skip": "C", "norm on the stream": "D", "mixer for MLP": "B", "dropout on the stream": "A"}
FAULTS = list(RIGHT)  # the order that is asked for


def letters(f: Callable[[], str]) -> str:
    """Return the four letters of the answer, or raise ``Unmet``."""
    got = letters_of(f).upper()
    if sorted(got) != list("ABCD"):
        raise Unmet(f"it returned {got!r}, where the letters A to D were asked for, each once")
    return got


def named(f: Callable[[], str], fault: str) -> None:
    """Test the letter of one fault."""
    got = letters(f)[FAULTS.index(fault)]
    if got != RIGHT[fault]:
        raise Unmet(f"it names patient {got} for it")


def say(text: str) -> Callable[[], str]:
    """Return a function that returns ``text``."""
    return lambda: text


BLOCK_FAULTS = Exercise(
    reference=say("CDBA"),
    also_right=(say("cdba"), say("C, D, B, A"), lambda: ["C", "D", "B", "A"]),
    observe=letters,
    properties=tuple(Property(f"the patient with {fault}", partial(named, fault=fault)) for fault in FAULTS),
    mistakes=(
        Mistake(
            say("DCBA"),
            "a lost skip taken for a norm on the stream",
            "A norm keeps the stream at one size. What is left without a skip is as small as a branch.",
        ),
        Mistake(
            say("CDAB"),
            "dropout on the stream taken for a repeated mixer",
            "Dropout on the stream makes all of it larger each time, by 1 over the square root of the share kept.",
        ),
        Mistake(
            say("DCAB"),
            "both pairs exchanged",
            "Begin with the patient whose MLPs have no gradient at all: who is never called?",
        ),
        Mistake(
            say("CBDA"),
            "a norm on the stream that keeps the MLP from learning",
            "A norm scales a gradient, it stops none. Whose gradient is missing altogether, and whose stream is flat?",
        ),
        Mistake(
            say("BDCA"),
            "a lost skip that keeps the MLP from learning",
            "Without the skip all the signal goes through the MLP, and its gradient too.",
        ),
        Mistake(
            say("ADBC"),
            "a stream that swells because its skip is missing",
            "What swells has something to add to. A lost skip leaves the branch alone.",
        ),
        Mistake(
            say("CABD"),
            "a norm on a stream that swells",
            "Behind a norm the size is the same, block after block: which blue line is flat?",
        ),
        Mistake(
            say("ABCD"),
            "the order of the alphabet",
            "Begin with the patient whose MLPs have no gradient at all.",
        ),
    ),
    hints=(
        "Which fault leaves the MLP without any gradient? Which one makes the stream as small as a branch?",
        "Take the two that the sizes tell first: what does a norm on the stream do to its size, and what do coins that "
        "divide by 0.8 at every block?",
    ),
)

EXERCISES = {"block_faults": BLOCK_FAULTS}
