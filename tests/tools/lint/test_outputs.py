import pytest
from nbformat import from_dict
from nbformat.v4 import new_output

from residual_course.commands.exercise_cells import tags
from tools.lint.outputs import WIDGET


@pytest.fixture
def find(built, findings):
    return lambda: [finding.removeprefix("lesson.ipynb: ") for finding in findings(built, "lesson.ipynb")]


@pytest.fixture
def picture(built):
    return next(o for cell in built.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {}))


@pytest.fixture
def says(built, first):
    """Replace the explorer's stored output by a text."""

    def put(text):
        first(built, "explorer").outputs = [new_output("stream", text=text)]

    return put


def test_another_kernel_is_found(built, find):
    built.metadata.kernelspec.name = "my-env"
    assert find() == ["the notebook asks for the kernel 'my-env', not 'python3'"]


@pytest.mark.parametrize("count", [None, 1, 99])
def test_a_cell_out_of_turn_is_found(built, find, first, count):
    first(built, "explorer").execution_count = count
    assert [f.partition(") ")[2] or f for f in find()] == [f"has the execution count {count}, where 15 is its turn"]


def test_counts_begin_at_1(built, find):
    for cell in built.cells:
        if cell.cell_type == "code":
            cell.execution_count += 1
    stored = [cell for cell in built.cells if cell.cell_type == "code" and not {"reveal", "solution"} & set(tags(cell))]
    assert len(find()) == len(stored) > 10


@pytest.mark.parametrize("line", ["print(1)", "show(1)", 'check(1, "a")', 'guess = predict("a")', "guess.reveal(1)"])
def test_an_output_that_is_gone_is_found(built, find, first, line):
    cell = first(built, "explorer")
    cell.update(outputs=[], source="x = 1")
    assert find() == []
    cell.source = line
    assert [f.endswith("prints or shows something, and no output is stored") for f in find()] == [True]


def test_a_stored_error_is_found(built, find, first):
    first(built, "explorer").outputs = [new_output("error", ename="ValueError", evalue="no", traceback=[])]
    assert [f.endswith("stores an error, ValueError: no") for f in find()] == [True]


@pytest.mark.parametrize("metadata", [{}, {"image/png": {}}, {"image/png": {"alt": " "}}, {"image/jpeg": {"alt": "a"}}])
def test_a_picture_without_words_is_found(picture, find, metadata):
    picture.metadata = from_dict(metadata)
    assert [f.endswith("a picture without alternative text; use show(figure, alt=...)") for f in find()] == [True]


def test_a_notebook_above_1_MB_is_found_with_what_is_stored_apart(built, picture, find, first):
    picture.data["image/png"] = "A" * 960_000
    assert find() == []
    first(built, "solution").outputs[0].text = "A" * 50_000
    assert find() == ["the notebook has 1.03 MB with its answers, more than 1"]


def test_svg_is_found(picture, find):
    picture.data = from_dict({"image/svg+xml": "<svg/>"})
    picture.metadata = from_dict({"image/svg+xml": {"alt": "words"}})
    assert [f.endswith("stores an SVG picture; show it as PNG") for f in find()] == [True]


def test_a_widget_view_is_found(picture, find):
    picture.data[WIDGET] = {"model_id": "1"}
    assert ["stores a widget's view" in f for f in find()] == [True]


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
def test_the_builders_machine_is_found(says, find, text, named):
    says(text)
    assert [f.rpartition(") ")[2] for f in find()] == [f"names this machine in its output: {named}"]


@pytest.mark.parametrize(
    "text", ["1/2 and 3/4/5", "mean/std/max", "https://arxiv.org/abs/1607", "cpuset", "x: /", "</b></i>"]
)
def test_slashes_and_words_are_no_paths(says, find, text):
    says(text)
    assert find() == []


def test_paths_are_found_in_data_and_in_tracebacks(built, find, first):
    first(built, "explorer").outputs = [new_output("execute_result", {"text/html": "in (/usr/lib/python)"})]
    assert len(find()) == 1
    first(built, "explorer").outputs = [new_output("error", ename="E", evalue="", traceback=["at /usr/lib/x"])]
    assert len(find()) == 2
