"""A prediction is displayed beside what was measured, whenever it is answered, and fails no run where it is not."""

from types import SimpleNamespace

import pytest

from residual_course.explorers import Prediction
from residual_edu.errors import InvalidInput

WHY = {"yes": "The first entries differ.", "no": "Tensors are compared entry by entry."}


@pytest.fixture
def choice():
    return Prediction("Is [1, 0] < [0, 1]?", ["yes", "no"])


@pytest.fixture
def number():
    return Prediction("How long is [1, 1]?")


def test_an_answer_before_the_reveal_is_set_beside_the_truth(choice, capsys):
    choice.control.value = "yes"
    assert choice.verdict.value == ""
    choice.reveal("no")
    assert capsys.readouterr().out == "**You said yes; we measured no.**\n"
    assert choice.verdict.value == '<div role="status">You said yes; we measured no.</div>'


def test_an_answer_given_late_is_judged_at_once_and_changes_what_the_reveal_displayed(choice, monkeypatch):
    shown = []
    handle = SimpleNamespace(update=shown.append)
    monkeypatch.setattr("residual_course.explorers.prediction.display", lambda what, display_id: handle)
    choice.reveal("no", why=WHY, after="More.")
    assert choice.verdict.value == ""
    for said in ("no", "yes"):
        choice.control.value = said
        assert choice.verdict.value == f'<div role="status">You said {said}; we measured no.</div>'
    assert shown[-1] == shown[-1]._repr_markdown_() == f"**You said yes; we measured no.** {WHY['yes']}\n\nMore."


@pytest.mark.parametrize(
    ("said", "truth", "sentence"),
    [
        ("1.4", 2**0.5, "You said 1.4; we measured 1.414."),
        (" 7 ", 7, "You said 7; we measured 7."),
        ("3/16", 0.1875, "You said 3/16; we measured 0.1875."),
        ("2e-3", 1e-9, "You said 2e-3; we measured 1e-09."),
        *((said, 2, "You made no prediction; we measured 2.") for said in ("", "  ", "a lot", "1,5", "1/0", "nan")),
    ],
)
def test_a_number_stands_as_typed_and_what_is_none_is_no_answer(number, capsys, said, truth, sentence):
    number.control.value = said
    told = "Please type a number, such as 0.25 or 3/16." in number.verdict.value
    assert told == (bool(said) and "no prediction" in sentence)
    number.reveal(truth)
    assert capsys.readouterr().out == f"**{sentence}**\n"


@pytest.mark.parametrize(("answer", "reason"), [("yes", WHY["yes"]), ("no", WHY["no"]), (None, WHY["no"])])
def test_the_reason_is_the_chosen_ones_and_without_a_choice_the_right_ones(choice, capsys, answer, reason):
    choice.control.value = answer
    choice.reveal("no", why=WHY, after="Hence $a < b$ is no truth value.")
    assert capsys.readouterr().out.endswith(f".** {reason}\n\nHence $a < b$ is no truth value.\n")


@pytest.mark.parametrize(
    ("typed", "reason"), [("1.3", "low"), ("1.38", "near"), ("1.44", "near"), ("3/2", "high"), ("", "near")]
)
def test_a_number_is_judged_within_its_tolerance(number, typed, reason):
    number.control.value = typed
    number.reveal(2**0.5, why={"too low": "low", "about right": "near", "too high": "high"}, tolerance=0.05)
    assert number.reason() == reason


def test_a_reason_and_a_truth_that_belong_to_no_choice_are_refused(choice):
    with pytest.raises(InvalidInput, match="^why must be one of 'yes', 'no'"):
        choice.reveal("no", why={"perhaps": "."})
    with pytest.raises(InvalidInput, match="^truth must be one of 'yes', 'no', got 'perhaps'$"):
        choice.reveal("perhaps")


def test_nothing_is_chosen_at_first_and_a_screen_reader_and_a_page_have_the_question(choice, number):
    assert choice.control.value is None and choice.control.options == ("yes", "no")
    assert choice.control.tooltips == ("Is [1, 0] < [0, 1]?",) * 2 and number.control.tooltip == "How long is [1, 1]?"
    assert not number.control.continuous_update  # else a screen reader announces each key stroke
    assert choice.children[0].value == "<b>Is [1, 0] &lt; [0, 1]?</b>"
    assert choice._repr_mimebundle_()["text/plain"] == "Predict: Is [1, 0] < [0, 1]? (yes / no)"
    assert number._repr_mimebundle_()["text/plain"] == "Predict: How long is [1, 1]?"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A learner's own folder, as the current one."""
    (tmp_path / "my_lessons").mkdir()
    monkeypatch.chdir(tmp_path / "my_lessons")
    monkeypatch.delenv("RESIDUAL_EDU_STRICT", raising=False)
    return tmp_path / "my_lessons"


@pytest.mark.parametrize(("choices", "said"), [(["yes", "no"], "no"), (None, "3/16")])
def test_after_a_restart_the_answer_stands_there_again_and_is_judged(mine, capsys, choices, said):
    Prediction("How?", choices).control.value = said
    again = Prediction("How?", choices)
    assert again.control.value == said
    again.reveal("yes" if choices else 0.25)
    assert capsys.readouterr().out.startswith(f"**You said {said}; we measured")
    assert Prediction("Why?", choices).control.value == (None if choices else "")


def test_a_kept_answer_that_is_no_choice_any_more_is_left_out(mine):
    Prediction("How?", ["yes", "no"]).control.value = "no"
    assert Prediction("How?", ["always", "never"]).control.value is None
    (mine / "answers.json").write_text('{"predictions": {"How?": [1]}}')
    assert Prediction("How?", ["always", "never"]).control.value is None
    assert Prediction("How?").control.value == ""


def test_an_answer_that_cannot_be_kept_is_told_below_it_and_judged(mine):
    (mine / "answers.json").mkdir()
    made = Prediction("How?", ["yes", "no"])
    made.reveal("yes")
    made.control.value = "no"
    assert made.verdict.value.startswith('<div role="status">You said no; we measured yes. Not kept in my_lessons/')
