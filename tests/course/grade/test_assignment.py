import pytest

from residual_edu.course.checkout import Refusal, with_homework
from residual_edu.course.grade.assignment import names, read_assignment


@pytest.fixture
def source(room):
    return with_homework(room)[0]


def changed(source, old, new):
    text = source.read_text()
    assert old in text
    path = source.with_name("changed.py")
    path.write_text(text.replace(old, new))
    return path


def test_a_source_is_steps_and_tasks_with_their_checks(source):
    found = read_assignment(source)
    assert [step.get("task") or step["source"].split("\n")[0] for step in found.steps] == [
        "import torch",
        "scale",
        "center",
        'print("the end")',
    ]
    scale, center = found.tasks
    assert (scale.id, scale.names, center.names) == ("scale", ("scale",), ("center_and_scale",))
    assert "scaled_tensor" in scale.solution and "scaled_tensor" not in scale.stub
    assert [(check.id, check.points, check.hidden) for check in found.checks] == [
        ("scale-check", 1.0, False),
        ("scale-hidden", 2.0, True),
        ("center-check", 2.0, False),
    ]
    assert "HIDDEN" not in found.checks[1].source and "secret_factor" in found.checks[1].source
    assert not found.checks[0].many


def test_a_check_may_have_many_right_answers(source):
    path = changed(source, 'tags=["hidden-test"]', 'tags=["hidden-test", "many-answers"]')
    assert [check.many for check in read_assignment(path).checks] == [False, True, False]


def test_the_digest_is_that_of_the_source(source):
    assert read_assignment(source).digest != read_assignment(changed(source, "Small", "Other")).digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("### END SOLUTION", "", "changed.py: The exercise 'scale' needs whole pairs"),
        ('"scale-hidden"', '"scale-check"', "changed.py: the grade_id 'scale-check' comes twice"),
        ('"points": 2, ', "", "changed.py: the tests '### BEGIN HIDDEN TESTS' have no grade_id and points"),
        ('"exercise"', '"nothing"', "changed.py: the tests 'with attempt.*' stand above the first exercise"),
    ],
)
def test_a_source_that_cannot_be_graded_is_refused(source, old, new, message):
    with pytest.raises(Refusal, match=message):
        read_assignment(changed(source, old, new))


def test_a_source_without_exercises_is_refused(source):
    empty = source.with_name("changed.py")
    empty.write_text("# %%\nx = 1\n")
    with pytest.raises(Refusal, match=r"changed.py has no exercise to grade"):
        read_assignment(empty)


def test_the_names_that_an_answer_defines():
    assert names("import os\ndef f(): x = 1\nclass C: pass\ng = h = 3\na.b = 4") == ("f", "C", "g", "h")
