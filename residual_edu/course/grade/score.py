"""From a submission to its points: each check that its process says it passed, and that its evidence confirms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from residual_edu.course.checkout import Refusal
from residual_edu.course.grade.assignment import Assignment, Check, Task
from residual_edu.course.grade.submission import Submission
from residual_edu.course.sandbox.evidence import confirmed

Job = dict[str, Any]
Ask = Callable[[Job], Job]
Rights = dict[str, list[list[Any]]]  # for each check the evidence of the right answers
UNSEEN = "The tests say yes, but what the answer returned is not what a right answer returns: to be looked at by hand."


@dataclass(frozen=True)
class Mark:
    """What came of one check: its points, and what is said about it."""

    check: Check
    points: float
    said: str
    earned: bool = False


@dataclass(frozen=True)
class Result:
    """A submission with its marks, in the order of the checks."""

    submission: Submission
    marks: list[Mark]
    megabytes: int = 0

    @property
    def points(self) -> float:
        """The sum."""
        return float(sum(mark.points for mark in self.marks))


def calibrate(assignment: Assignment, ask: Ask) -> Rights:
    """Grade the source's own solutions and return their evidence.

    Raises:
        Refusal: where they do not get all points here, so that nobody could.
    """
    rights: Rights = {}
    for task in assignment.tasks:
        reply = ask(job_of(task, {each.id: each.solution for each in assignment.tasks}, assignment, reference=True))
        said = {each["id"]: each for each in reply["said"]}
        for check in task.checks:
            mine = said.get(check.id, {"passed": False, "said": reply["end"]})
            if not mine["passed"]:
                raise Refusal(f"The solution of {task.id!r} itself fails {check.id!r} here: {mine['said']}")
            rights[check.id] = mine["evidence"]
    return rights


def score(assignment: Assignment, submission: Submission, rights: Rights, ask: Ask) -> Result:
    """Return the result of ``submission``; whatever goes wrong in an answer costs its own points alone."""
    marks, megabytes, good = [], 0, dict(submission.answers)
    for task in assignment.tasks:
        if task.id not in submission.answers:
            marks += [Mark(check, 0.0, submission.troubles[task.id]) for check in task.checks]
            continue
        reply = ask(job_of(task, good, assignment))
        megabytes = max(megabytes, reply["megabytes"])
        marks += [mark_of(check, reply, rights) for check in task.checks]
        if len(reply["said"]) < len(task.checks):  # it does not end: later answers do without it
            good.pop(task.id)
    return Result(submission, marks, megabytes)


def job_of(task: Task, answers: dict[str, str], assignment: Assignment, reference: bool = False) -> Job:
    """Return what a server is told: the answers up to ``task``, and its checks."""
    above = assignment.tasks[: assignment.tasks.index(task)]
    return {
        "earlier": [{"id": each.id, "source": answers[each.id]} for each in above if each.id in answers],
        "answer": {"id": task.id, "source": answers[task.id]},
        "names": task.names,
        "checks": [{"id": check.id, "source": check.source} for check in task.checks],
        "reference": reference,
    }


def mark_of(check: Check, reply: Job, rights: Rights) -> Mark:
    """Return the mark of one check: all points or none, and none where anything is odd."""
    mine = [each for each in reply["said"] if each.get("id") == check.id]
    if len(mine) != 1:
        return Mark(check, 0.0, f"{reply['end']}.")
    said = shown(check, str(mine[0].get("said")).strip())
    if mine[0].get("passed") is not True:
        return Mark(check, 0.0, said)
    if not check.many and not confirmed(firsts(mine[0].get("evidence")), rights[check.id]):
        return Mark(check, 0.0, f"{said}\n{UNSEEN}".strip())
    return Mark(check, check.points, said, earned=True)


def shown(check: Check, said: str) -> str:
    """Return what the learner may read: of a hidden check what its author wrote, and nothing that an answer printed."""
    if not check.hidden or (said and said in check.source):
        return said
    return "A hidden test does not hold." if said else ""


def firsts(evidence: Any) -> Any:
    """Return what the answer itself returned, of evidence that has room for alternatives."""
    try:
        return [each[0] for each in evidence]
    except (TypeError, KeyError, IndexError):
        return None
