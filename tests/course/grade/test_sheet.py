import pytest

from residual_edu.course.checkout import Refusal, with_homework
from residual_edu.course.grade.assignment import read_assignment
from residual_edu.course.grade.feedback import feedback, place
from residual_edu.course.grade.score import Mark, Result
from residual_edu.course.grade.sheet import FIRST, LAST, Sheet, remark
from residual_edu.course.grade.submission import Submission

DIGEST = "0123456789abcdef"
HEADER = "submission,points,of,scale-check,scale-hidden,center-check,remarks,digest"


@pytest.fixture
def assignment(room):
    return read_assignment(with_homework(room)[0])


def result(assignment, path, said='no,\n"way"'):
    marks = [Mark(check, check.points, "fine", True) for check in assignment.checks[:2]]
    return Result(Submission(path, DIGEST, {"scale": "x = 1"}), [*marks, Mark(assignment.checks[2], 0.0, said)])


def test_rows_are_written_at_once_and_ordered_in_the_end(tmp_path, assignment):
    sheet = Sheet(tmp_path / "s.csv", assignment)
    sheet.add(result(assignment, "b"))
    sheet.add(result(assignment, "a"))
    assert (tmp_path / "s.csv").read_text().split()[0] == HEADER
    assert [row[0] for row in Sheet(tmp_path / "s.csv", assignment).rows.values()] == ["b", "a"]
    sheet.write(["a", "never", "b"])
    assert (tmp_path / "s.csv").read_text().splitlines() == [
        HEADER,
        f'a,3,5,1,2,0,"center-check: no, ""way""",{DIGEST}',
        f'b,3,5,1,2,0,"center-check: no, ""way""",{DIGEST}',
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]


@pytest.mark.parametrize("torn", ["c,3", "c,3,5,1,2,0,text,0123", 'c,3,5,1,2,0,"open', ""])
def test_a_row_that_was_cut_short_is_graded_again(tmp_path, assignment, torn):
    sheet = Sheet(tmp_path / "s.csv", assignment)
    sheet.add(result(assignment, "a"))
    with (tmp_path / "s.csv").open("a") as file:
        file.write(torn)
    again = Sheet(tmp_path / "s.csv", assignment)
    assert again.has("a", DIGEST) and not again.has("a", "other") and not again.has("c", "0123")
    assert not again.has("a", "")


def test_another_file_is_left_alone(tmp_path, assignment):
    (tmp_path / "s.csv").write_text("name,grade\n")
    with pytest.raises(Refusal, match="holds something else than these scores"):
        Sheet(tmp_path / "s.csv", assignment)
    assert (tmp_path / "s.csv").read_text() == "name,grade\n"


def test_no_path_is_a_formula(tmp_path, assignment):
    sheet = Sheet(tmp_path / "s.csv", assignment)
    sheet.add(result(assignment, "=1+1"))
    assert "./=1+1" in sheet.rows and sheet.has("=1+1", DIGEST)


def test_a_remark_keeps_what_failed_first_and_the_next_step():
    assert remark("holds: a\nnot yet: b\n  c\nHint: d") == "not yet: b c Hint: d"
    long = remark(f"not yet: {'x' * 9000} Hint: d")
    assert long.startswith("not yet: x") and long.endswith("Hint: d") and len(long) == FIRST + LAST + 5


def test_feedback_has_each_answer_with_its_points_and_no_hidden_test(assignment):
    cells = feedback(result(assignment, "a", "no"), assignment).cells
    assert [cell.source.split("\n")[0] for cell in cells] == [
        "# hw_small: 3 of 5 points",
        "## scale: 3 of 3",
        "x = 1",
        'with attempt("scale"):',
        "# hidden tests, on other inputs",
        "## center: 0 of 2",
        'check(center_and_scale, "center_and_scale")',
    ]
    assert cells[-1].outputs[0].text == "0 of 2 points\nno\n"
    assert len({cell.id for cell in cells}) == len(cells)


def test_feedback_stands_at_the_submission_s_own_path(room, tmp_path):
    assert place("sent/a/x.ipynb", room / "f") == room / "f" / "sent" / "a" / "x.ipynb"
    assert place(str(tmp_path / "x.txt"), room / "f") == room / "f" / tmp_path.relative_to("/") / "x.ipynb"
