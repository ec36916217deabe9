"""Every exercise of the course: right answers pass, and each wrong one is told its own name."""

import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

from residual_course import exercises
from residual_course.checking.catalogue import catalogue
from residual_course.checking.check import NotYet
from residual_course.checking.guard import Guard
from residual_course.checking.judge import judge
from residual_course.checking.observation import diagnosis
from residual_course.checking.report import LINES, WIDTH, not_attempted
from residual_course.checking.session import ATTEMPTS, attempts
from residual_course.exercises import check

pytestmark = pytest.mark.usefixtures("all_as_installed")

EXERCISES = catalogue().items()
each = pytest.mark.parametrize("name, exercise", EXERCISES, ids=catalogue())
WRONG = [
    pytest.param(name, mistake, id=f"{name}-{mistake.looks_like[:40]}")
    for name, exercise in EXERCISES
    for mistake in exercise.mistakes
]


@pytest.fixture(autouse=True)
def fresh_session():
    ATTEMPTS.clear()


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


@each
def test_a_right_answer_passes(capsys, name, exercise):
    out, error = report(capsys, exercise.reference, name)
    count = len(exercise.properties)
    assert error is None, out
    assert out.count("holds: ") == count and out.endswith("\nEverything holds.\n")


@pytest.mark.parametrize("name, mistake", WRONG)
def test_a_wrong_answer_fails_and_is_told_its_own_name_in_eight_lines(name, mistake):
    attempts(name).ideas.extend(["one", "another"])  # so that this is the third, whose report is the longest
    judgement = judge(mistake.wrong, name, catalogue()[name])
    assert judgement.unmet, "this wrong answer passes"
    lines, text = judgement.text.splitlines(), " ".join(judgement.text.split())
    assert len(lines) <= LINES and max(map(len, lines)) <= WIDTH, judgement.text
    said = f"{mistake.looks_like}. {mistake.next_step}"
    assert f"This looks like {said}" in text or f"This may be {said}" in text, judgement.text
    hint = " ".join(catalogue()[name].hints[1].split())
    if "Hint: " in text:
        assert text.endswith(f"Hint: {hint}"), "the hint was cut off"
    assert text.count("not yet: ") == 1 and text.count("This looks like") + text.count("This may be") == 1


@each
def test_mistakes_hints_and_properties_differ_and_end_as_sentences_do(name, exercise):
    assert 3 <= len(exercise.mistakes) <= 4
    said = [f"{mistake.looks_like}. {mistake.next_step}" for mistake in exercise.mistakes]
    assert len(set(said)) == len(said) and len({hint.strip() for hint in exercise.hints} - {""}) == 2
    assert not set(exercise.hints) & {mistake.next_step for mistake in exercise.mistakes}
    assert all(mistake.looks_like[-1] not in ".!" and mistake.next_step[-1] in ".?" for mistake in exercise.mistakes)
    assert len({prop.holds for prop in exercise.properties}) == len(exercise.properties) > 0


@each
def test_a_right_answer_looks_like_no_mistake(name, exercise):
    seen = Guard(exercise.reference, exercise.effort).call(exercise.observe)
    assert diagnosis(exercise, seen, frozenset()) is None


@each
def test_an_untouched_stub_is_told_where_the_first_hint_is(capsys, name, exercise):
    stubs = [unwritten]
    if isinstance(exercise.reference, type):
        body = "forward" if hasattr(exercise.reference, "forward") else "__exit__"
        stubs.append(type("Stub", (exercise.reference,), {body: unwritten}))
    for stub in stubs:
        assert report(capsys, stub, name) == (f"{not_attempted(name)}\n", None)
    assert not ATTEMPTS


@each
@pytest.mark.parametrize(
    "answer", [lambda *_, **__: None, lambda *_, **__: "x", lambda: 1 / 0, lambda *_, **__: object()]
)
def test_nonsense_fails_in_eight_lines(capsys, name, exercise, answer):
    out, error = report(capsys, answer, name)
    assert error is not None and out.startswith("not yet: ") and len(out.splitlines()) <= LINES


def test_no_exercise_hides_another():
    modules = [import_module(f"residual_course.exercises.{found.name}") for found in iter_modules(exercises.__path__)]
    assert len(catalogue.__wrapped__()) == sum(len(getattr(module, "EXERCISES", ())) for module in modules)
