import pytest
import torch

from residual_edu.course.sandbox.answer import define, nothing, shown, tried, witnessed, work
from residual_edu.exercises.check import check

CHECK = {"id": "c", "source": "check(f, 'center_and_scale')"}
ADD = {"id": "t", "source": "assert f(1) + f(2) == 5, 'sum'"}


def steps():
    return {"torch": torch, "check": check}


def test_a_cell_adds_its_own_names_and_sees_idle_checks():
    own = {"helper": 3}
    assert define({"id": "a", "source": "x = helper + 1\nseen = check\ntorch = None"}, steps(), own) == ""
    assert own["x"] == 4 and own["seen"] is nothing and own["torch"] is None
    assert (
        define({"id": "a", "source": "y = 1\n1 / 0"}, steps(), own)
        == "the cell raised ZeroDivisionError: division by zero"
    )
    with nothing(1, "x"):
        pass


def test_tests_run_among_the_source_s_own_names_and_the_answer_s_results_are_written_down():
    said = tried(ADD, {"f": None, "torch": torch}, {"f": lambda x: x + 1}, False)
    assert said == {"id": "t", "passed": True, "said": "", "evidence": [[2.0], [3.0]]}
    said = tried(ADD, {}, {"f": lambda x: x}, False)
    assert (said["passed"], said["said"]) == (False, "sum")
    assert tried(ADD, {}, {}, False)["said"] == "NameError: name 'f' is not defined"


@pytest.mark.usefixtures("as_installed")
def test_a_check_gives_what_the_exercise_observes_and_of_the_reference_every_right_answer():
    def f(x, eps=1e-5):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=eps)

    said = tried(CHECK, steps(), {"f": f}, False)
    assert said["passed"] and "Everything holds." in said["said"]
    assert len(said["evidence"]) == len(said["evidence"][0]) == 1
    assert len(tried(CHECK, steps(), {"f": f}, True)["evidence"][0]) == 3
    assert not tried(CHECK, steps(), {"f": lambda x, eps=0: x}, False)["passed"]


def test_a_class_is_watched_through_its_instances():
    evidence = []
    watched = witnessed(torch.nn.Identity, evidence)
    assert watched.__name__ == "Identity" and isinstance(watched(), torch.nn.Identity)
    assert watched()(torch.ones(1)) == 1 and evidence == [[{"shape": [1], "numbers": [1.0]}]]
    assert witnessed(5, evidence) == 5


def test_an_answer_that_cannot_be_defined_fails_each_test_with_its_reason(monkeypatch):
    monkeypatch.setattr("residual_edu.course.sandbox.answer.hide_exercises", lambda: None)
    job = {"earlier": [{"id": "e", "source": "g = 2"}], "names": ["f"], "checks": [ADD, ADD], "reference": False}
    heard = []
    work(job | {"answer": {"id": "a", "source": "raise SystemExit"}}, {}, heard.append)
    assert [each["said"] for each in heard] == ["the cell raised SystemExit"] * 2
    work(job | {"answer": {"id": "a", "source": "def f(x): return x + g - 1"}}, {}, heard.append)
    assert [each["passed"] for each in heard] == [False, False, True, True]


class Mute(Exception):
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("error", "text"), [(AssertionError("why"), "why"), (AssertionError(), "AssertionError"), (Mute(), "Mute")]
)
def test_an_error_in_words(error, text):
    assert shown(error) == text
