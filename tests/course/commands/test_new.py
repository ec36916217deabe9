"""An empty homework is whole: every mark in place, and what is there is never overwritten."""

import pytest

from residual_course.commands import main
from residual_course.commands.assignment import teacher
from residual_course.commands.checkout import Refusal
from residual_course.commands.exercise_cells import HIDDEN, SOLUTION, solved
from residual_course.commands.new import run
from residual_course.commands.student import student


@pytest.fixture
def source(tmp_path, capsys):
    assert run(["hw_my_spring", "--into", str(tmp_path / "private")]) == 0
    assert "residual-edu assignment OUT --from" in capsys.readouterr().out
    return tmp_path / "private" / "hw_my_spring.py"


def test_its_own_solution_passes_its_tests_its_stub_does_not_and_neither_is_handed_out(source):
    code = [cell.source for cell in teacher(source).cells if cell.cell_type == "code"]
    exec("\n".join(solved(text) for text in code), {})
    with pytest.raises((NotImplementedError, AssertionError)):
        exec("\n".join(SOLUTION.sub("    raise AssertionError\n", text) for text in code), {})
    text = "\n".join(cell.source for cell in student(source).cells)
    assert not SOLUTION.search(text) and not HIDDEN.search(text)
    ids = [cell.metadata.nbgrader.grade_id for cell in teacher(source).cells if "nbgrader" in cell.metadata]
    assert ids == ["my-spring-1", "my-spring-1-check", "my-spring-1-hidden"]


def test_what_is_there_is_left_as_it_is_and_what_nbgrader_would_trip_over_is_refused(source, tmp_path, capsys):
    with pytest.raises(Refusal, match="the grade_id 'my-spring-1' comes twice"):
        source.write_text(source.read_text().replace("my-spring-1-hidden", "my-spring-1"))
        teacher(source)
    source.write_text("mine")
    with pytest.raises(Refusal, match="is there already, and is left as it is"):
        run(["hw_my_spring", "--into", str(source.parent)])
    assert source.read_text() == "mine"
    for name in ("spring", "hw_", "hw_Spring", "../hw_a"):
        with pytest.raises(Refusal, match="A homework's name is hw_ and small letters"):
            run([name, "--into", str(tmp_path)])
    (tmp_path / "file").touch()
    assert main(["new", "hw_a", "--into", str(tmp_path / "file" / "deeper")]) == 2
    assert main(["assignment", str(tmp_path / "out"), "--from", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "cannot be written" in said and "There is no hw_*.py in" in said
