"""Lines that fit into a notebook's output: broken between words, the text below itself."""

import pytest

from residual_edu.exercises import report
from residual_edu.exercises.exercise import Exercise, Mistake, Property, Unmet
from residual_edu.exercises.guard import Notepad, Outcome

LONG = "one word after another " * 8 + "`a - b` and keyword-only ends"


def exercise():
    prop = Property(LONG, lambda f: None)
    return Exercise(None, lambda f: f, (prop,), (Mistake(None, LONG, "Mend it."),), (f"1 {LONG}", f"2 {LONG}"))


def written(text):
    notes = Notepad()
    notes.write(text)
    return notes


@pytest.mark.parametrize(
    ("indent", "lines"),
    [
        (9, report.verdicts(exercise(), [Outcome()], None)),
        (9, report.verdicts(exercise(), [Outcome(error=Unmet(LONG))], None)[1:]),
        (6, [report.next_step(exercise(), None, Outcome(error=Unmet("no")))]),
        (0, [report.next_step(exercise(), exercise().mistakes[0], Outcome())]),
        (6, [report.not_attempted("center", exercise()).split("\n", 1)[1]]),
        (9, report.printing(written(LONG))[1:]),
    ],
)
def test_a_long_line_is_broken_between_words_and_continues_below_its_text(indent, lines):
    first, *more = "\n".join(lines).split("\n")
    assert more and max(map(len, (first, *more))) <= 88
    assert all(line[:indent].isspace() or not indent for line in more)
    assert all(line[indent] != " " for line in more)
    words = " ".join([first, *(line.strip() for line in more)])
    assert LONG[:80] in words


def test_what_has_no_spaces_stays_whole():
    assert report.wrapped("Hint: ", "x" * 99).split() == ["Hint:", "x" * 99]
    assert report.wrapped("", "a" * 80 + " keyword-only").endswith("\nkeyword-only")


def test_a_short_line_is_left_as_it_is():
    assert report.wrapped("holds:   ", "it is 7") == "holds:   it is 7"


@pytest.mark.parametrize("error", [NameError("x"), Unmet("it is 1 where 2 is right")])
def test_a_known_mistake_is_named_whatever_the_trouble(error):
    assert report.next_step(exercise(), exercise().mistakes[0], Outcome(error=error)).startswith("This looks like")
