"""Homework: right answers get their points, and wrong ones lose those of the hidden tests."""

import ast
import importlib
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

import jupytext
import nbformat
import pytest

from residual_course.commands.checkout import notebook_of, with_homework
from residual_course.commands.exercise_cells import HIDDEN, SOLUTION, shown, solved, tags
from residual_edu import attention_registry, norm_registry
from tools.lint import code, outputs

ROOT = Path(__file__).parents[2]
CELLS, EXERCISES, WRONG_ANSWERS = (12, 25), (2, 4), 3
SOURCES = {source.stem: source for source in with_homework(ROOT, ["hw"])}
each = pytest.mark.parametrize("name", SOURCES)
pytestmark = pytest.mark.usefixtures("all_as_installed")


@pytest.fixture(autouse=True)
def registries_stay():
    """What a homework or an answer registers is gone after its test, as it is when a notebook's kernel ends."""
    before = [(registry, dict(registry.entries)) for registry in (attention_registry, norm_registry)]
    yield
    for registry, entries in before:
        registry.entries = entries


@dataclass
class Task:
    """An exercise with the name it defines and its two cells of tests."""

    name: str
    visible: str
    hidden: str


@cache
def read(name):
    return jupytext.read(SOURCES[name], fmt="py:percent").cells


@cache
def tasks(name):
    cells = read(name)
    found = [place for place, cell in enumerate(cells) if "exercise" in tags(cell)]
    return [Task(defined(cells[at].source), cells[at + 1].source, cells[at + 2].source) for at in found]


def defined(source):
    (node,) = ast.parse(source).body
    return node.name


@cache
def answers(kind, name):
    """Return the answers to a homework by exercise; a long homework has a module for each exercise."""
    found, folder = {}, Path(__file__).parent / "answers"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)  # one module imports what another has
        for path in sorted(folder.glob(f"{name}*.py")):
            found |= getattr(importlib.import_module(path.stem), kind, {})
    return found


@cache
def solved_run(name):
    """Run every cell with the solutions in place, tests included; return the names it leaves and its words."""
    names = {"__name__": name}
    with redirect_stdout(StringIO()) as said:
        for cell in read(name):
            if cell.cell_type == "code":
                exec(solved(cell.source), names)
    return names, said.getvalue()


WRONG = [
    pytest.param(name, task, wrong, id=f"{name}-{task.name}-{number}")
    for name in SOURCES
    for task in tasks(name)
    for number, wrong in enumerate(answers("WRONG", name)[task.name])
]
RIGHT = [
    pytest.param(name, task, right, id=f"{name}-{task.name}-{number}")
    for name in SOURCES
    for task in tasks(name)
    for number, right in enumerate(answers("RIGHT", name).get(task.name, []))
]


def passes(tests, name, task, answer):
    names = solved_run(name)[0] | {task.name: answer}
    try:
        exec(tests, names)
    except Exception:
        return False
    return True


@each
def test_the_solutions_pass_every_test_and_say_so(name):
    said = [line for line in solved_run(name)[1].splitlines() if "tests of this cell hold" in line]
    assert [line.partition(":")[0] for line in said] == [task.name for task in tasks(name)]


@pytest.mark.parametrize("name, task, wrong", WRONG)
def test_a_wrong_answer_fails_the_hidden_tests(name, task, wrong):
    assert not passes(task.hidden, name, task, wrong)


@pytest.mark.parametrize("name, task, right", RIGHT)
def test_an_unusual_right_answer_passes_all_tests(name, task, right):
    names = solved_run(name)[0] | {task.name: right}
    exec(task.visible, names)
    exec(task.hidden, names)


@each
def test_the_visible_tests_reject_three_of_four_wrong_answers_and_are_not_enough(name):
    for task in tasks(name):
        wrong = answers("WRONG", name)[task.name]
        caught = sum(not passes(task.visible, name, task, answer) for answer in wrong)
        assert len(wrong) >= WRONG_ANSWERS
        assert 0.75 * len(wrong) <= caught < len(wrong), f"{task.name}: {caught} of {len(wrong)}"


@each
def test_it_is_small_and_every_exercise_has_tests_of_both_kinds_with_points(name):
    cells = read(name)
    places = [place for place, cell in enumerate(cells) if "exercise" in tags(cell)]
    assert EXERCISES[0] <= len(places) <= EXERCISES[1]
    assert CELLS[0] <= len(cells) <= CELLS[1]
    for place in places:
        exercise, visible, hidden = cells[place : place + 3]
        assert "homework" in tags(exercise) and "hidden-test" in tags(hidden)
        assert hidden.source == HIDDEN.search(hidden.source)[0] and shown(visible.source) == visible.source
        assert exercise.metadata["nbgrader"]["solution"] and SOLUTION.search(exercise.source)
        for tests in (visible, hidden):
            nbgrader = tests.metadata["nbgrader"]
            assert nbgrader["grade"] and nbgrader["locked"] and not nbgrader["solution"] and nbgrader["points"] > 0
            assert nbgrader["grade_id"].startswith(exercise.metadata["nbgrader"]["grade_id"])


def test_no_two_exercises_of_the_course_share_a_grade_id():
    texts = [source.read_text(encoding="utf-8") for source in with_homework(ROOT)]
    ids = [found for text in texts for found in re.findall('^# %%.*"grade_id": "([^"]+)"', text, re.M)]
    assert [one for one in set(ids) if ids.count(one) > 1] == [] and len(ids) > 100


@each
def test_it_keeps_the_lessons_rules_of_code_and_outputs(name):
    built, rules = nbformat.read(notebook_of(SOURCES[name]), as_version=4), [*code.RULES, *outputs.RULES]
    assert [finding for rule in rules for finding in rule(built, SOURCES[name])] == []
    assert not any(tag.startswith("promote") for cell in built.cells for tag in tags(cell))


@each
def test_every_assert_says_what_it_got_and_what_was_wanted(name):
    for task in tasks(name):
        nodes = [node for cell in (task.visible, task.hidden) for node in ast.walk(ast.parse(cell))]
        said = [ast.unparse(node.msg) if node.msg else "" for node in nodes if isinstance(node, ast.Assert)]
        assert [text for text in said if not re.search(r"\bgot\b.*\bwanted\b", text, re.S)] == [], task.name
        assert "no_grad" not in task.visible + task.hidden, task.name
