"""A prediction in the book: what is asked, what each answer is told, and that nothing of it stands in the question."""

from tools.book.questions import Question, answered, asked

REASONS = {"3": "A sum of squares grows.", "a < b": "A sum of two."}
SAID = "**You made no prediction; we measured 4.** Four it is.\n\nSo it is."


def test_the_question_has_a_button_for_each_choice_and_one_without():
    html = asked(Question('Is "a" < b?', ("3", "a < b")), "answer-1")
    assert html.count("<button") == 3 and "show me" in html
    assert ">a &lt; b</button>" in html and 'data-question="Is &quot;a&quot; &lt; b?"' in html
    assert "\n" not in html  # a blank line would end the block of HTML


def test_each_answer_has_its_text_and_the_explanation_stands_once():
    text = answered(Question("How many?", ("3", "4", "a < b")), REASONS, SAID)
    assert "**You said 3; we measured 4.** A sum of squares grows.\n" in text
    assert "**You said 4; we measured 4.** Four it is.\n" in text
    assert text.count("**We measured 4.** Four it is.") == text.count("So it is.") == 1
    assert answered(Question("How many?"), {}, "Something else.") == "Something else."
    assert [f"said-{at}" in text for at in range(4)] == [True, True, True, False]
