import pytest
from nbformat import from_dict
from nbformat.v4 import new_output


@pytest.fixture
def spoilt(find):
    """Replace the outputs of the piece's cell, and return what lint finds in it."""

    def finds(*outputs):
        return [one.rpartition(") ")[2] for one in find(lambda built: built.cells[2].update(outputs=list(outputs)))]

    return finds


def picture(kind="image/png", data="iVBORw0=", **metadata):
    return new_output("display_data", {kind: data}, metadata=metadata)


def test_an_answer_that_is_stored_in_the_notebook_is_found(find):
    def spoil(built):
        built.cells[4].outputs = [new_output("stream", text="zero")]

    assert find(spoil_stored=spoil) == [
        'cell 5 (with predict("What is the mean?", ["zero) stores its answer in the notebook'
    ]


@pytest.mark.parametrize("metadata", [{}, {"image/png": {}}, {"image/png": {"alt": " "}}, {"image/jpeg": {"alt": "a"}}])
def test_a_picture_without_words_is_found(spoilt, metadata):
    assert spoilt(picture(**from_dict(metadata))) == ["stores a picture without alternative text; use show(figure)"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("/home/ada/lesson.py", "/home/ada"),
        ("UserWarning in '/tmp/ipykernel_1/2.py'", "/tmp/ipykernel_1"),
        (r"C:\Users\ada", r"C:\U"),
        ("tensor([1.], device='cuda:0')", "cuda"),
        ("runs on cpu", "cpu"),
        ("mps:0", "mps"),
    ],
)
def test_the_builders_machine_is_found(spoilt, text, named):
    for output in (new_output("stream", text=text), new_output("execute_result", {"text/html": text})):
        assert spoilt(output) == [f"names this machine in its output: {named}"]


@pytest.mark.parametrize(
    "text", ["1/2 and 3/4/5", "mean/std/max", "https://arxiv.org/abs/1607", "cpuset", "x: /", "</b></i>"]
)
def test_slashes_and_words_are_no_paths(spoilt, text):
    assert spoilt(new_output("stream", text=text)) == []
