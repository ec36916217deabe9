"""Lines that fit into a notebook's output: broken between words, the text below itself, eight of them at most."""

import pytest

from residual_course.checking import report
from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet
from residual_course.checking.guard import Notepad, Outcome
from residual_course.checking.session import Attempts

LONG = "one word after another " * 8 + "`a - b` and keyword-only ends"
PROPERTY = Property(LONG, lambda f: None)
MISTAKE = Mistake(None, LONG, "Mend it.")
EXERCISE = Exercise(None, lambda f: f, (PROPERTY,), (MISTAKE,), (f"1 {LONG}", f"2 {LONG}"))
UNMET = Outcome(error=Unmet(LONG))


@pytest.fixture(autouse=True)
def no_notes(monkeypatch):
    monkeypatch.setattr(report, "NOTES", [])


def written(text):
    notes = Notepad()
    notes.write(text)
    return notes


@pytest.mark.parametrize(
    ("indent", "lines"),
    [
        (9, report.passing(EXERCISE)),
        (9, report.verdict(Property("", PROPERTY.test), UNMET, [UNMET], None)[1:]),
        (6, report.next_step(EXERCISE, PROPERTY, UNMET, None, Attempts([1, 2], [1, 2]))),
        (0, report.next_step(EXERCISE, PROPERTY, UNMET, (MISTAKE, True), Attempts([1], [1]))),
    ],
)
def test_a_long_line_is_broken_between_words_and_continues_below_its_text(indent, lines):
    first, *more = "\n".join(lines).split("\n")
    assert more and max(map(len, (first, *more))) <= 88
    assert all(line[:indent].isspace() or not indent for line in more)
    assert all(line[indent] != " " for line in more)
    words = " ".join([first, *(line.strip() for line in more)])
    assert LONG[:80] in words


def test_where_the_code_does_not_run_a_known_mistake_is_named_alone_and_a_long_error_takes_four_lines():
    broken = Outcome(error=NameError("word " * 400))
    assert "Mend that" not in "".join(report.next_step(EXERCISE, PROPERTY, broken, (MISTAKE, False), Attempts([1])))
    assert (
        len(report.verdict(Property("it runs", PROPERTY.test), Outcome(error=Unmet(broken.trouble * 3)), [UNMET], None))
        == 5
    )


def test_a_report_that_is_too_long_leaves_out_what_holds_first():
    lines = ["not yet: a", "         b", "holds:   1 of the 2 properties.", *map(str, range(6))]
    assert report.shortened(lines) == [*lines[:2], *lines[3:]]
    assert report.shortened([*lines, "7", "8"]) == [*lines[:2], *lines[3:]]
    assert report.shortened(lines[:8]) == lines[:8]


@pytest.mark.parametrize(("room", "lines"), [(9, 7), (5, 5), (3, 3), (2, 0), (-1, 0)])
def test_what_it_printed_takes_the_room_that_is_left(room, lines):
    shown = report.printing(written("a\n" * 99), room)
    assert len(shown) == lines
    assert not lines or shown[-1] == f"         ... and {99 - (lines - 2)} more lines"
