"""``residual-edu check --try``: each answer of a file is judged by its check; what differs from the file is marked."""

import pytest

from residual_course.checking.tries import Try
from residual_course.commands import main
from tools.check import judged

ANSWERS = """
from residual_course.checking.tries import right, wrong

@right("dead", "one unit after the other")
def answer(x):
    return sum(not column.any() for column in x.T) / len(x.T)

@wrong("dead", "zeros")
def answer(x):
    return (x == 0).float().mean()

wrong("listen", "the demo's")(lambda: 12)
"""


@pytest.fixture
def tried(tmp_path, capsys):
    def run(text, *options):
        (tmp_path / "answers.py").write_text(text)
        return main(["check", "--try", str(tmp_path / "answers.py"), *options]), capsys.readouterr().out

    return run


def test_answers_that_are_judged_as_their_file_says(as_installed, tried):
    code, out = tried(ANSWERS)
    assert code == 0 and "3 of 3 are judged as their file says." in out
    assert "REFUSED" not in out and "PASSES" not in out and "not yet" not in out


def test_a_wrong_one_that_passes_and_a_right_one_that_is_refused(as_installed, tried):
    turned = ANSWERS.replace("@right", "@x").replace("@wrong", "@right").replace("@x", "@wrong")
    code, out = tried(turned)
    assert code == 1 and "1 of 3 are judged as their file says." in out
    assert [word for word in out.split() if word in ("REFUSED", "PASSES")] == ["PASSES", "REFUSED"]


def test_with_reports_and_one_exercise_alone(as_installed, tried):
    _, out = tried(ANSWERS, "--reports", "--only", "dead")
    assert "not yet: two of five units" in out and "2 answers" in out and "listen" not in out


def test_each_answer_stands_alone(as_installed):
    """The report on an answer is the same after others as at first."""
    one, other = (Try("dead", "", answer, False) for answer in (lambda x: 2.0, lambda x: x @ x))
    first = judged(one)
    judged(other)
    assert judged(one) == first and first[0] is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "registers no answer"),
        ('from residual_course.checking.tries import right\nright("drop_pth", "")(len)', "did you mean 'drop_path'"),
    ],
)
def test_a_file_that_cannot_be_tried(as_installed, tmp_path, capsys, text, message):
    (tmp_path / "answers.py").write_text(text)
    assert main(["check", "--try", str(tmp_path / "answers.py")]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys):
    assert main(["check", "--try", "nowhere.py"]) == 2
    assert "There is no file nowhere.py." in capsys.readouterr().err
