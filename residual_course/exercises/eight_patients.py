"""Exercise on diagnosis: eight blocks with a fault in each, told apart by six probes of new networks."""

from collections.abc import Callable
from functools import partial

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, letters_of

FAULTS = {  # what is asked for, in its order
    "no skip": "B",
    "norm on the stream": "F",
    "norm forgotten": "H",
    "branch detached": "E",
    "mixer in the MLP's place": "G",
    "zero gate and zero output": "A",
    "one block six times": "C",
    "mixer over the batch": "D",
}
RIGHT = "".join(FAULTS.values())


def letters(f: Callable[[], str]) -> str:
    """Return the eight letters of the answer, or raise ``Unmet``."""
    got = letters_of(f).upper()
    if sorted(got) != list("ABCDEFGH"):
        raise Unmet(f"it returned {got!r}, where the letters A to H were asked for, each once")
    return got


def named(f: Callable[[], str], fault: str) -> None:
    """Test the letter of one fault; the message does not give the right one away."""
    if (got := letters(f)[list(FAULTS).index(fault)]) != FAULTS[fault]:
        raise Unmet(f"it names patient {got} for it")


def say(text: str) -> Callable[[], str]:
    """Return a function that returns ``text``."""
    return lambda: text


def swapped(pair: str) -> Callable[[], str]:
    """Return an answer in which the two letters are exchanged."""
    return say(RIGHT.translate(str.maketrans(pair, pair[::-1])))


EIGHT_PATIENTS = Exercise(
    reference=say(RIGHT),
    also_right=(say(RIGHT.lower()), say(", ".join(RIGHT)), lambda: list(RIGHT)),
    observe=letters,
    properties=tuple(Property(f"the patient with {fault}", partial(named, fault=fault)) for fault in FAULTS),
    mistakes=(
        Mistake(
            swapped("BF"),
            "a lost skip taken for a norm on the stream",
            "A norm on the stream leaves something of size 1 to add to. Without a skip only the branch is left.",
        ),
        Mistake(
            swapped("HG"),
            "a forgotten norm taken for a repeated mixer",
            "Count the tensors: a norm has two, an MLP four, in each of six blocks.",
        ),
        Mistake(
            swapped("HA"),
            "parameters that are not used taken for parameters that wait",
            "What is never called has no gradient at all. What lies before a factor of 0 has one that is 0.",
        ),
        Mistake(
            swapped("GA"),
            "an MLP that is never called taken for one whose gradients are 0",
            "What is never called has no gradient at all. What lies before a factor of 0 has one that is 0.",
        ),
        Mistake(
            swapped("EA"),
            "a detached branch taken for a closed one",
            "Detaching stops the way back alone, and the branch still learns. Which probe compares both ways?",
        ),
        Mistake(
            swapped("EF"),
            "a detached branch taken for a norm on the stream",
            "Detaching changes nothing on the way forward. Who does not grow with x?",
        ),
        Mistake(
            swapped("CD"),
            "a shared block taken for a mixer over the batch",
            "The batch concerns the other rows, sharing the number of parameters.",
        ),
        Mistake(say("ABCDEFGH"), "the order of the alphabet", "Begin with the patient that has too few parameters."),
    ),
    hints=(
        "Which faults change what block(x) returns, and which only the way back? Which leave a part without use?",
        "If x is multiplied by 100, norm(x) stays as it is: what then grows with x, and what does not?",
    ),
)

EXERCISES = {"eight_patients": EIGHT_PATIENTS}
