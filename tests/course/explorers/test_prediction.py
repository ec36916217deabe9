"""A prediction: what it shows and keeps; what its block does in a kernel, ``test_with_predict`` says."""

import pytest

from residual_course.explorers import Prediction


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """A learner's own folder, as the current one."""
    (tmp_path / "my_lessons").mkdir()
    monkeypatch.chdir(tmp_path / "my_lessons")
    monkeypatch.delenv("RESIDUAL_EDU_STRICT", raising=False)
    monkeypatch.delenv("RESIDUAL_EDU_BUILD", raising=False)
    return tmp_path / "my_lessons"


def measured(choices=("yes", "no"), truth="no"):
    with Prediction("How?", list(choices)) as made:
        made.truth = truth
    return made


def test_nothing_is_chosen_at_first_and_a_screen_reader_and_a_page_have_the_question():
    made = Prediction("Is [1, 0] < [0, 1]?", ["yes", "no"])
    assert made.control.value is None and made.control.options == ("yes", "no")
    assert made.control.tooltips == ("Is [1, 0] < [0, 1]?",) * 2
    assert made.children[0].value == "<b>Is [1, 0] &lt; [0, 1]?</b>"
    assert made._repr_mimebundle_()["text/plain"] == "Predict: Is [1, 0] < [0, 1]? (yes / no)"


@pytest.mark.parametrize("kept", ['"no"', "[1]", "{}"])
def test_a_kept_answer_that_is_no_choice_any_more_is_left_out(mine, kept):
    (mine / "answers.json").write_text(f'{{"predictions": {{"How?": {kept}}}}}')
    assert Prediction("How?", ["always", "never"]).control.value is None


def test_an_answer_that_cannot_be_kept_is_told_below_it_and_judged(mine):
    (mine / "answers.json").mkdir()
    made = measured(truth="yes")
    made.control.value = "no"
    assert made.verdict.value.startswith('<div role="status">You said no; we measured yes. Not kept in my_lessons/')
