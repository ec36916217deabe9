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


def test_its_own_solution_passes_its_tests_and_its_stub_does_not(source):
    code = [cell.source for cell in teacher(source).cells if cell.cell_type == "code"]
    exec("\n".join(solved(text) for text in code), {})
    with pytest.raises((NotImplementedError, AssertionError)):
        exec("\n".join(SOLUTION.sub("    raise AssertionError\n", text) for text in code), {})


def test_what_is_handed_out_has_neither_solution_nor_hidden_tests(source):
    text = "\n".join(cell.source for cell in student(source).cells)
    assert not SOLUTION.search(text) and not HIDDEN.search(text)
    assert "# More tests are run here when this notebook is graded." in text
    ids = [cell.metadata.nbgrader.grade_id for cell in teacher(source).cells if "nbgrader" in cell.metadata]
    assert ids == ["my-spring-1", "my-spring-1-check", "my-spring-1-hidden"]


def test_what_is_there_is_left_as_it_is(source):
    source.write_text("mine")
    with pytest.raises(Refusal, match="is there already, and is left as it is"):
        run(["hw_my_spring", "--into", str(source.parent)])
    assert source.read_text() == "mine"


@pytest.mark.parametrize("name", ["spring", "hw_", "hw_Spring", "hw_a/b", "../hw_a"])
def test_a_name_that_nbgrader_would_trip_over_is_refused(tmp_path, name):
    with pytest.raises(Refusal, match="A homework's name is hw_ and small letters"):
        run([name, "--into", str(tmp_path)])


def test_a_file_in_place_of_the_folder_is_a_sentence(tmp_path, capsys):
    (tmp_path / "private").touch()
    assert main(["new", "hw_a", "--into", str(tmp_path / "private" / "deeper")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_folder_without_sources_and_a_grade_id_that_comes_twice_are_refused(source, tmp_path, capsys):
    assert main(["assignment", str(tmp_path / "out"), "--from", str(tmp_path)]) == 2
    assert "There is no hw_*.py in" in capsys.readouterr().err
    source.write_text(source.read_text().replace("my-spring-1-hidden", "my-spring-1"))
    with pytest.raises(Refusal, match="the grade_id 'my-spring-1' comes twice"):
        teacher(source)
