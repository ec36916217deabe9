import torch

from residual_course.checking.exercise import Exercise, Mistake, Property
from residual_course.checking.guard import Guard, Outcome
from residual_course.checking.observation import alike, diagnosis, failures, outcome, same
from residual_course.checking.time_limit import OutOfTime
from residual_course.checking.unmet import Unmet

DIFFERENT = [(None, 0), (3, "3"), (float("inf"), -float("inf")), (1.0, torch.tensor(1.0)), ({"a": 1}, {"b": 1})]
DIFFERENT += [((1, 2), (1, 2, 3)), (torch.ones(2), torch.ones(1, 2)), (torch.ones(2), torch.ones(2) > 0)]


def test_different_values_and_calls_that_ran_out_of_time_are_not_alike():
    assert not [pair for pair in DIFFERENT if same(*pair) or same(*pair[::-1])]
    assert not alike(Outcome(error=OutOfTime()), Outcome(error=OutOfTime()))


def refuse():
    raise ValueError("no number")


def is_seven(f):
    if f()[0] != 7:
        raise Unmet("it is not 7")


def is_short(f):
    if len(f()) > 2:
        raise Unmet("it is long")


NINE, ONES, NO = (
    Mistake(lambda: [9, 1], "nine", "Less."),
    Mistake(lambda: [1, 1], "ones", "More."),
    Mistake(refuse, "a refusal", "More."),
)
PAIR = Exercise(
    lambda: [7, 1],
    lambda f: f()[:2],
    (Property("it is 7", is_seven), Property("it is short", is_short)),
    (NINE, ONES, NO),
    ("a", "b"),
)


def found(answer):
    return diagnosis(PAIR, Guard(answer).call(PAIR.observe), failures(PAIR, answer))


def test_a_mistake_is_named_where_what_was_seen_and_what_fails_are_its_own():
    assert found(lambda: [9.0, 1]) == (NINE, True)
    assert found(lambda: [9, 1, 5]) == (NINE, False)  # another property fails, too
    assert found(lambda: [8, 1]) is None and found(lambda: [7, 1]) is None


def test_thin_evidence_is_not_sure():
    assert found(lambda: [1, 1]) == (ONES, False)  # one number, twice
    assert found(refuse) == (NO, False)  # an error's text


def test_what_a_right_answer_does_too_is_no_evidence():
    """A mistake that the observation does not show is never named."""
    unseen = Mistake(lambda: [7, 1, 5], "a third", "Two.")
    exercise = Exercise(lambda: [7, 1], PAIR.observe, PAIR.properties, (unseen,), ("a", "b"))
    seen = Guard(unseen.wrong).call(exercise.observe)
    assert diagnosis(exercise, seen, failures(exercise, unseen.wrong)) is None


def test_a_reference_that_the_session_breaks_is_not_kept():
    broken = [True]
    exercise = Exercise(lambda: [1 / (not broken[0])], PAIR.observe, (), (), ("a", "b"))
    assert outcome(exercise, -1).trouble
    broken[0] = False
    assert not outcome(exercise, -1).trouble
