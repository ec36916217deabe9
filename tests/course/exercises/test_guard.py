import os
import signal
import sys
import time

import pytest
import torch

from residual_course.checking import guard
from residual_course.checking.guard import Guard, Outcome

# The tests' own deadline would take the timer that is tested here.
pytestmark = pytest.mark.timeout(300, method="thread")
from residual_course.checking.time_limit import OutOfTime
from residual_course.checking.unmet import Broken, Unmet


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(guard, "LIMIT", 0.2)


def outcome(function):
    return Guard(None).call(lambda _: function())


def throw(error):
    raise error


def forever():
    while True:
        pass


class Wordless(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "error, trouble",
    [
        (Unmet("it is 1 where 2 is right"), "it is 1 where 2 is right"),
        (Unmet(), "it does not"),
        (KeyError("a"), "it raised KeyError: 'a'"),
        (ValueError("first\nsecond"), "it raised ValueError: first"),
        (ValueError("x" * 999), "it raised ValueError: " + "x" * 200),
        (ValueError("<object at 0x7fEd0>"), "it raised ValueError: <object at 0x...>"),
        (SystemExit(3), "it raised SystemExit: 3"),
        (Wordless(), "it raised Wordless"),
    ],
)
def test_an_error_becomes_an_outcome(error, trouble):
    found = outcome(lambda: throw(error))
    assert found.error is error and found.trouble == trouble
    assert not found.timed_out and not found.unwritten


def test_what_did_not_run_through_or_returned_nothing_is_mechanical():
    for error in (NameError("x"), SystemExit(), OutOfTime(), Broken("it returned nothing")):
        assert outcome(lambda error=error: throw(error)).mechanical
    assert not outcome(lambda: throw(Unmet("it is 1 where 2 is right"))).mechanical
    assert not Outcome(value=7).mechanical


def test_only_a_stub_without_words_is_unwritten():
    assert outcome(lambda: throw(NotImplementedError)).unwritten
    assert outcome(lambda: throw(NotImplementedError())).unwritten
    assert not outcome(lambda: torch.nn.Module()(1)).unwritten  # torch: "missing the required forward function"
    assert not outcome(lambda: throw(ValueError)).unwritten


def test_an_endless_call_is_stopped_and_no_other_is_made(hurried):
    calls, careful = [], Guard(None)
    found = [careful.call(lambda _: forever()), careful.call(calls.append)]
    assert [one.timed_out for one in found] == [True, True] and calls == []
    assert found[0].trouble.startswith("it did not come to an end in time, and was stopped")


def test_all_calls_together_have_a_budget(monkeypatch):
    monkeypatch.setattr(guard, "BUDGET", 0.3)
    slow, start = Guard(None), time.monotonic()
    found = [slow.call(lambda _: time.sleep(0.4)) for _ in range(20)]  # less than LIMIT
    assert not found[0].timed_out and found[-1].timed_out
    assert time.monotonic() - start < 5


@pytest.mark.usefixtures("interruptible")
def test_the_learners_own_interrupt_passes_and_all_is_put_back():
    def interrupted():
        torch.set_default_dtype(torch.float64)
        os.kill(os.getpid(), signal.SIGINT)
        forever()

    stdout = sys.stdout
    with pytest.raises(KeyboardInterrupt):
        outcome(interrupted)
    assert torch.get_default_dtype() == torch.float32 and sys.stdout is stdout
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_setting_that_an_answer_leaves_behind_is_told_and_put_back():
    """Which settings there are, test_unchanged.py and test_known_state.py say."""
    found = outcome(lambda: torch.set_default_device("meta"))
    assert found.mechanical and found.trouble.startswith("it left torch.get_default_device() at meta, where it was cpu")
    assert torch.get_default_device().type == "cpu"
