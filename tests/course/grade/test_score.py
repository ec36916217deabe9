"""Points from what a process claims, with a pretended server in place of one."""

import pytest

from residual_edu.course.checkout import Refusal, with_homework
from residual_edu.course.grade.assignment import read_assignment
from residual_edu.course.grade.score import UNSEEN, calibrate, score
from residual_edu.course.grade.submission import Submission

ANSWERS = {"scale": "a", "center": "b"}
RIGHTS = {"scale-check": [[1.0]], "scale-hidden": [[2.0], [3.0, 4.0]], "center-check": []}
GOOD = {"scale-check": [[1.0]], "scale-hidden": [[2.0], [4.0]], "center-check": []}


@pytest.fixture
def assignment(room):
    return read_assignment(with_homework(room)[0])


def server(changes=(), end="it ended"):
    """Say that every check passed, with good evidence, but for the changes; None says nothing of a check."""

    def ask(job):
        said = [
            {"id": check["id"], "passed": True, "said": "fine", "evidence": GOOD[check["id"]]}
            for check in job["checks"]
        ]
        said = [each | dict(changes).get(each["id"], {}) for each in said]
        return {"said": [each for each in said if each["passed"] is not None], "end": end, "megabytes": 7}

    return ask


def points(assignment, ask, submission=None):
    result = score(assignment, submission or Submission("x", "d", ANSWERS), RIGHTS, ask)
    return [mark.points for mark in result.marks], [mark.said for mark in result.marks], result


def test_a_confirmed_answer_has_all_its_points(assignment):
    found, _, result = points(assignment, server())
    assert found == [1, 2, 2] and result.points == 5 and result.megabytes == 7


@pytest.mark.parametrize(
    "claim",
    [
        {"evidence": [[9.0], [3.0]]},
        {"evidence": []},
        {"evidence": [[2.0], [3.0], [3.0]]},
        {"evidence": None},
        {"evidence": [2.0, 3.0]},
        {"evidence": "text"},
        {"evidence": [[], []]},
    ],
)
def test_a_claim_without_its_evidence_has_none(assignment, claim):
    found, said, _ = points(assignment, server({"scale-hidden": claim}))
    assert found == [1, 0, 2] and UNSEEN in said[1]


@pytest.mark.parametrize("claim", [{"passed": False}, {"passed": 1}, {"passed": "True"}])
def test_only_a_plain_yes_is_one(assignment, claim):
    assert points(assignment, server({"scale-check": claim}))[0] == [0, 2, 2]


def test_what_is_not_said_or_said_twice_has_none(assignment):
    found, said, _ = points(assignment, server({"scale-check": {"passed": None}}, "it died"))
    assert found == [0, 2, 2] and said[0] == "it died."
    assert points(assignment, server({"scale-check": {"id": "scale-hidden"}}))[0] == [0, 0, 2]


def test_of_a_hidden_test_only_its_author_s_words_are_told(assignment):
    for words, told in (("another factor", "another factor"), ("secret_factor is 3", "A hidden test does not hold.")):
        claim = {"passed": False, "said": words}
        assert points(assignment, server({"scale-hidden": claim}))[1][1] == told


def test_a_missing_answer_is_not_asked_for(assignment):
    sent = Submission("x", "d", {"center": "b"}, {"scale": "the cell is missing"})
    found, said, _ = points(assignment, server(), sent)
    assert found == [0, 0, 2] and said[:2] == ["the cell is missing"] * 2


def test_an_answer_that_does_not_end_is_left_out_for_later_ones(assignment):
    earlier = []

    def ask(job):
        earlier.append([each["id"] for each in job["earlier"]])
        return server({"scale-check": {"passed": None}})(job)

    points(assignment, ask)
    points(assignment, lambda job: earlier.append([each["id"] for each in job["earlier"]]) or server()(job))
    assert earlier == [[], [], [], ["scale"]]


def test_the_solutions_must_pass(assignment):
    assert calibrate(assignment, server()) == GOOD
    with pytest.raises(Refusal, match="The solution of 'scale' itself fails 'scale-hidden' here: no"):
        calibrate(assignment, server({"scale-hidden": {"passed": False, "said": "no"}}))
    with pytest.raises(Refusal, match="itself fails 'center-check' here: it died"):
        calibrate(assignment, server({"center-check": {"passed": None}}, "it died"))
