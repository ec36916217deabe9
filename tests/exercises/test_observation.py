import numpy as np
import pytest
import torch

from residual_edu.exercises.exercise import Exercise, Mistake, Property
from residual_edu.exercises.guard import Guard, Outcome
from residual_edu.exercises.observation import alike, known_mistake, same
from residual_edu.exercises.time_limit import OutOfTime
from residual_edu.exercises.unmet import Unmet

nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize(
    "a, b",
    [
        (None, None),
        (3, 3),
        (3, 3.0),
        (0.1 + 0.2, 0.3),
        (nan, nan),
        (inf, inf),
        ("b", "b"),
        (torch.tensor([1.0, nan]), torch.tensor([1.0, nan])),
        (torch.ones(2), torch.ones(2) + 1e-6),
        ((1, [2.0, "c"]), (1, [2.0, "c"])),
        ([1, 2], (1, 2)),
        ({"a": torch.ones(1)}, {"a": torch.ones(1)}),
        (torch.float32, torch.float32),
    ],
)
def test_alike_values(a, b):
    assert same(a, b) and same(b, a)


@pytest.mark.parametrize(
    "a, b",
    [
        (None, 0),
        (3, 4),
        (3, "3"),
        (1.0, 1.01),
        (nan, 0.0),
        (inf, -inf),
        (inf, 1e300),
        ("b", "B"),
        (1.0, torch.tensor(1.0)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.ones(1, 2)),
        (torch.ones(1), torch.ones(3)),
        (torch.ones(2), torch.tensor([1.0, 1.01])),
        ((1, 2), (1, 2, 3)),
        ((1, 2), (2, 1)),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 2}),
        (np.ones(2), np.ones(2)),  # what cannot be told is not the same
        (object(), object()),
    ],
)
def test_different_values(a, b):
    assert not same(a, b) and not same(b, a)


def test_errors_are_observations_too():
    assert alike(Outcome(error=ValueError("a")), Outcome(error=ValueError("a")))
    assert alike(Outcome(error=Unmet("it is 1")), Outcome(error=Unmet("it is 1")))
    assert not alike(Outcome(error=ValueError("a")), Outcome(error=ValueError("b")))
    assert not alike(Outcome(error=ValueError("a")), Outcome(error=TypeError("a")))
    assert not alike(Outcome(error=ValueError("a")), Outcome(value=None))
    assert not alike(Outcome(error=OutOfTime()), Outcome(error=OutOfTime()))


def refuse():
    raise ValueError("no number")


def test_the_first_mistake_that_does_the_same_is_known():
    nine, no = Mistake(lambda: 9, "nine", "Less."), Mistake(refuse, "a refusal", "More.")
    exercise = Exercise(lambda: 7, lambda f: f(), (Property("it is 7", lambda f: None),), (nine, no), ("a", "b"))

    def known(answer):
        return known_mistake(exercise, Guard(answer).call(exercise.observe))

    assert known(lambda: 9.0) is nine and known(refuse) is no
    assert known(lambda: 8) is None and known(lambda: 7) is None
