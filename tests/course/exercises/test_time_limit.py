import signal
import sys
import threading
import time

import pytest

from residual_course.checking import time_limit
from residual_course.checking.time_limit import OutOfTime, Stopwatch, limited

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


def locked():
    lock = threading.Lock()
    lock.acquire()
    return lock


def in_a_thread(function):
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    return result[0]


def test_an_endless_call_is_stopped_whatever_it_catches():
    start = time.process_time()  # a busy machine stops it later, after no more work
    with pytest.raises(OutOfTime):
        limited(0.1, catches_exceptions)
    assert time.process_time() - start < 3
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.parametrize("wait", [lambda: time.sleep(30), locked().acquire])
def test_a_call_that_sleeps_or_waits_is_stopped(wait):
    start = time.monotonic()
    with pytest.raises(OutOfTime):
        limited(0.1, wait)
    assert time.monotonic() - start < 3


@pytest.mark.parametrize("place", [lambda f: f(), in_a_thread])
def test_a_call_in_time_returns_its_result(place):
    assert place(lambda: limited(5.0, lambda: 7)) == 7
    with pytest.raises(ZeroDivisionError):
        limited(5.0, lambda: 1 / 0)


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


def test_an_import_does_not_count(tmp_path, monkeypatch):
    """Torch imports a thousand modules when it is asked for its first derivative of a function."""
    (tmp_path / "slow_to_import.py").write_text(
        "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def imports():
        import slow_to_import

        return slow_to_import.end

    assert limited(0.25, imports)
    del sys.modules["slow_to_import"]
    with pytest.raises(OutOfTime):
        limited(0.25, lambda: (imports(), forever()))


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


@pytest.mark.parametrize("place", ["a thread", "no alarm"])
def test_where_there_is_no_alarm_a_message_says_how_to_stop_it(monkeypatch, capfd, place):
    monkeypatch.setattr(time_limit, "PATIENCE", 1)
    if place == "no alarm":  # as on Windows
        monkeypatch.delattr(signal, "setitimer")
    run = in_a_thread if place == "a thread" else lambda function: function()
    assert run(lambda: limited(0.1, lambda: time.sleep(0.5) or 7)) == 7
    assert run(lambda: limited(5.0, lambda: 8)) == 8
    assert capfd.readouterr().out.count("the kernel's stop button") == 1
