import os
import signal
import threading
import time

import pytest

from residual_edu.exercises.time_limit import OutOfTime, Stopwatch, limited

# The tests' own deadline would take the timer that is tested here.
pytestmark = pytest.mark.timeout(300, method="thread")


def forever():
    while True:
        pass


def catches_exceptions():
    while True:
        try:  # noqa: SIM105
            forever()
        except Exception:
            pass


def catches_everything():
    while True:
        try:  # noqa: SIM105
            forever()
        except:  # noqa: E722
            pass


def locked():
    lock = threading.Lock()
    lock.acquire()
    return lock


def in_a_thread(function):
    result = []

    def body():
        try:
            result.append(function())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    return result[0]


def here(function):
    try:
        return function()
    except BaseException as error:
        return error


@pytest.mark.parametrize(
    "place, function",
    [(here, forever), (here, catches_exceptions), (here, catches_everything)]
    + [(in_a_thread, forever), (in_a_thread, catches_exceptions)],
)
def test_an_endless_call_is_stopped(place, function):
    start = time.process_time()  # a busy machine stops it later, after no more work
    assert isinstance(place(lambda: limited(0.1, function)), OutOfTime)
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    "wait", [lambda: time.sleep(30), locked().acquire, threading.Event().wait, threading.Condition(locked()).acquire]
)
def test_a_call_that_sleeps_or_waits_is_stopped(wait):
    start = time.monotonic()
    with pytest.raises(OutOfTime):
        limited(0.1, wait)
    assert time.monotonic() - start < 3


@pytest.mark.parametrize("place", [here, in_a_thread])
def test_a_call_in_time_returns_its_result_and_raises_its_error(place):
    assert place(lambda: limited(5.0, lambda: 7)) == 7
    assert isinstance(place(lambda: limited(5.0, lambda: 1 / 0)), ZeroDivisionError)


def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_stopwatch_counts_work_in_full_and_waiting_by_a_third():
    watch = Stopwatch()
    time.sleep(0.3)
    assert 0.1 <= watch.seconds() < 0.25
    watch = Stopwatch()
    work(0.2)
    assert watch.seconds() >= 0.2


@pytest.mark.parametrize("place", [here, in_a_thread])
def test_nothing_strikes_later(place):
    def late():
        here(lambda: limited(0.02, forever))
        limited(1.0, lambda: time.sleep(0.15))
        for _ in range(100):
            time.sleep(0.005)
        return "unharmed"

    assert place(late) == "unharmed"


@pytest.mark.parametrize("place", [here, in_a_thread])
def test_a_call_that_ends_at_a_tick_is_one_or_the_other(place):
    def race():
        for _ in range(8):
            assert isinstance(here(lambda: limited(0.05, lambda: time.sleep(0.1))), OutOfTime | None)
            assert isinstance(here(lambda: limited(0.05, lambda: work(0.1))), OutOfTime | None)
        time.sleep(0.3)
        return "unharmed"

    assert place(race) == "unharmed"


def test_handler_and_timer_are_put_back():
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    try:
        mine = signal.getsignal(signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, 0.6)
        with pytest.raises(OutOfTime):
            limited(0.05, forever)
        assert signal.getsignal(signal.SIGALRM) is mine
        assert 0.05 < signal.getitimer(signal.ITIMER_REAL)[0] < 0.58
        time.sleep(0.6)
        assert rang == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_without_a_timer_before_none_is_left():
    limited(5.0, lambda: None)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, None)


@pytest.mark.usefixtures("interruptible")
def test_the_learners_own_interrupt_passes():
    def interrupted():
        os.kill(os.getpid(), signal.SIGINT)
        forever()

    with pytest.raises(KeyboardInterrupt):
        limited(5.0, interrupted)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_without_an_alarm_the_main_thread_is_watched(monkeypatch):
    monkeypatch.delattr(signal, "setitimer")  # as on Windows
    with pytest.raises(OutOfTime):
        limited(0.1, forever)


def test_threads_are_gone_afterwards():
    before = threading.active_count()
    in_a_thread(lambda: limited(0.05, forever))
    assert threading.active_count() == before
