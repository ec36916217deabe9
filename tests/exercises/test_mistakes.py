"""Every exercise of the course: right answers pass, and each wrong one is told its own mend."""

import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

from residual_edu import exercises
from residual_edu.exercises import check
from residual_edu.exercises import report as check_report
from residual_edu.exercises.catalogue import catalogue
from residual_edu.exercises.check import NotYet
from residual_edu.exercises.observation import known_mistake, outcome

pytestmark = pytest.mark.usefixtures("as_installed")

EXERCISES = catalogue().items()
each = pytest.mark.parametrize("name, exercise", EXERCISES, ids=catalogue())
RIGHT = [
    pytest.param(name, answer, id=f"{name}-{i}")
    for name, exercise in EXERCISES
    for i, answer in enumerate((exercise.reference, *exercise.also_right))
]
WRONG = [
    pytest.param(name, mistake, id=f"{name}-{mistake.looks_like[:40]}")
    for name, exercise in EXERCISES
    for mistake in exercise.mistakes
]


@pytest.fixture(autouse=True)
def unbroken_lines(monkeypatch):
    monkeypatch.setattr(check_report, "WIDTH", 10_000)


def unwritten(*_, **__):
    raise NotImplementedError


def report(capsys, answer, name):
    """Return what a check prints and what it raises."""
    error = None
    try:
        check(answer, name)
    except NotYet as caught:
        error = str(caught)
    out, err = capsys.readouterr()
    assert not err and not re.search(r'Traceback|File "|0x[0-9a-f]', out)
    return out, error


@pytest.mark.parametrize("name, answer", RIGHT)
def test_a_right_answer_passes(capsys, name, answer):
    out, error = report(capsys, answer, name)
    count = len(catalogue()[name].properties)
    assert error is None, out
    assert out.count("holds: ") == count and out.endswith("\nEverything holds.\n")


@pytest.mark.parametrize("name, mistake", WRONG)
def test_a_wrong_answer_fails_and_is_told_its_own_mend(capsys, name, mistake):
    out, error = report(capsys, mistake.wrong, name)
    assert error is not None, "this wrong answer passes"
    assert out.endswith(f"\nThis looks like {mistake.looks_like}. {mistake.next_step}\n")
    assert out.count("This looks like") == 1
    assert report(capsys, mistake.wrong, name) == (out, error)


@each
def test_at_least_six_mistakes_with_hints_of_their_own(name, exercise):
    assert len(exercise.mistakes) >= 6
    hints = [f"{mistake.looks_like}. {mistake.next_step}" for mistake in exercise.mistakes]
    assert sorted(hints) == sorted(set(hints))
    for mistake in exercise.mistakes:
        assert mistake.looks_like[-1] not in ".!" and mistake.next_step[-1] in ".?"


@each
def test_two_levels_of_hints(name, exercise):
    nudge, nearly = exercise.hints
    assert nudge.strip() and nearly.strip() and nudge != nearly
    assert not {nudge, nearly} & {mistake.next_step for mistake in exercise.mistakes}


@each
def test_properties_differ(name, exercise):
    assert len({prop.holds for prop in exercise.properties}) == len(exercise.properties) > 0


@each
def test_a_right_answer_looks_like_no_mistake(name, exercise):
    for right in (exercise.reference, *exercise.also_right):
        mistake = known_mistake(exercise, outcome(exercise, right))
        assert mistake is None, mistake.looks_like


@each
def test_an_untouched_stub_is_told_the_first_hint(capsys, name, exercise):
    stubs = [unwritten]
    if isinstance(exercise.reference, type):
        stubs.append(type("Stub", (exercise.reference,), {"forward": unwritten}))
    for stub in stubs:
        assert report(capsys, stub, name) == (f"{name}: not attempted yet.\nHint: {exercise.hints[0]}\n", None)


@each
@pytest.mark.parametrize(
    "answer", [lambda *_, **__: None, lambda *_, **__: "x", lambda: 1 / 0, lambda *_, **__: object()]
)
def test_nonsense_fails_with_a_next_step(capsys, name, exercise, answer):
    out, error = report(capsys, answer, name)
    assert error is not None
    assert out.splitlines()[-1].startswith(("Hint: ", "This looks like ", "Mend that first"))


def test_no_exercise_hides_another():
    modules = [import_module(f"residual_edu.exercises.{found.name}") for found in iter_modules(exercises.__path__)]
    assert len(catalogue.__wrapped__()) == sum(len(getattr(module, "EXERCISES", ())) for module in modules)
