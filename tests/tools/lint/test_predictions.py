import pytest
from nbformat.v4 import new_markdown_cell

from .conftest import ASK, TEXTS


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["zero", "one"]', "choices", "must write out its question and its choices"),
        (', ["zero", "one"]', "", "must write out its question and its choices"),
        ('"one"]', '"two"]', "has no reason in 00_lesson.toml for 'two'"),
        ('"zero" if middle == 0 else "one"', '"zero"', "must compute the truth from what it measured"),
        ("guess.truth", "truth", "must compute the truth from what it measured"),
    ],
)
def test_a_prediction_without_one_of_its_parts_is_found(source, find, old, new, said):
    source.cells[4].source = ASK.replace(old, new)
    assert any(finding.endswith(said) for finding in find())


def test_a_choice_without_a_reason_is_found(find):
    (found,) = find(texts=TEXTS.partition("why.one")[0])
    assert found == 'cell 5 (with predict("What is the mean?", ["zero) has no reason in 00_lesson.toml for \'one\''


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("## The mean is zero", 1),
        ("By the end you can\n\n- say why it is Zero.", 1),
        ("## The mean is zeroed", 0),
        ("The mean is zero, in a sentence", 0),
    ],
)
def test_a_truth_told_before_is_found(source, find, told, found):
    source.cells.insert(2, new_markdown_cell(told))
    assert ["measures 'zero', which was told before" in one for one in find()] == [True] * found


def test_a_picture_s_words_tell_nothing_either(find):
    def spoil(built):
        built.cells[2].outputs = built.cells[4].outputs[1:2]
        built.cells[4].outputs[1].metadata["image/png"] = {"alt": "All are zero."}

    (found,) = find(spoil)
    assert found.endswith("which was told before: 'All are zero.'")
