import json
import os
import time

import pytest

from residual_edu.course.sandbox.server import run_steps, told, watch

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # a fork beside torch's threads
GOOD = {"secret": "s", "id": "a", "passed": True}


def test_a_line_counts_only_with_the_secret():
    lines = [GOOD, GOOD | {"secret": "t"}, {"id": "a"}, "text", [1], 5, None]
    heard = "\n".join([*map(json.dumps, lines), "no json", "[" * 100_000, ""]).encode() + b"\xff\xfe"
    assert told(heard, "s") == [{"id": "a", "passed": True}]


def child(code):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            code(writer)
        finally:
            os._exit(0)
    os.close(writer)
    return pid, reader


@pytest.mark.parametrize(
    ("code", "seconds", "said", "end"),
    [
        (lambda pipe: os.write(pipe, json.dumps(GOOD).encode()), 5, 1, "its process ended before its tests did"),
        (lambda pipe: os._exit(1), 5, 0, "its process ended before its tests did"),
        (lambda pipe: time.sleep(60), 1, 0, "it ran out of time"),
        (
            lambda pipe: [os.write(pipe, bytes(1 << 16)) for _ in iter(int, 1)],
            5,
            0,
            "its process ended before its tests did",
        ),
    ],
    ids=["ends", "dies", "sleeps", "floods"],
)
def test_a_child_is_heard_and_does_not_outlive_its_time(code, seconds, said, end):
    pid, reader = child(code)
    found = watch(pid, reader, seconds, "s")
    assert (len(found["said"]), found["end"]) == (said, end)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def test_each_exercise_sees_the_names_that_stand_above_it():
    stages = run_steps([{"source": "x = 1"}, {"task": "a"}, {"source": "x = 2; y = 3"}, {"task": "b"}])
    assert stages["a"]["x"] == 1 and "y" not in stages["a"]
    assert stages["b"]["x"] == 2 and stages["b"]["y"] == 3
