import os
import signal
from pathlib import Path

import pytest

from residual_edu.course.checkout import Refusal, with_homework
from residual_edu.course.grade.assignment import read_assignment
from residual_edu.course.grade.workers import DEAD, Limits, Workers

JOB = {"earlier": [], "names": ["f"], "checks": [{"id": "c", "source": "assert f() == 1"}], "reference": False}
ASKED = JOB | {"answer": {"id": "scale", "source": "def f(): return 1"}}


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_server_that_breaks_is_replaced_and_a_stopped_one_is_not(room, left_over):
    assignment = read_assignment(with_homework(room)[0])
    with Workers(assignment, 1, Limits(5, 1000, []), room) as workers:
        assert workers.missing == ""
        reply = workers.ask(ASKED)
        assert [each["passed"] for each in reply["said"]] == [True] and reply["megabytes"] > 50
        (server,) = children(workers.running[0].pid)
        os.kill(server, signal.SIGKILL)
        assert workers.ask(ASKED) == DEAD
        assert workers.ask(ASKED)["said"] == reply["said"]
        workers.close()
        for _ in range(2):  # the next job that a thread takes is not left waiting for a server
            with pytest.raises(ConnectionError, match="grading was stopped"):
                workers.ask(ASKED)
    assert left_over() == []


def test_cells_that_fail_are_refused(room, left_over):
    assignment = read_assignment(with_homework(room)[0])
    assignment.steps.insert(0, {"source": "1 / 0"})
    with (
        pytest.raises(Refusal, match="do not run by themselves: ZeroDivisionError"),
        Workers(assignment, 2, Limits(5, 1000, []), room),
    ):
        pass
    assignment.steps[0] = {"source": "import os; os._exit(0)"}
    with pytest.raises(Refusal, match="its process ended"), Workers(assignment, 1, Limits(5, 1000, []), room):
        pass
    assert left_over() == []
