import pytest

from residual_edu.course.shapes import shape, shape_comments

SHAPES = {
    'Float[Tensor, "batch positions channels"]': "batch, positions, channels",
    'Float[Tensor, "*batch channels"]': "..., channels",
    'Float[Tensor, "batch *space channels"] | None': "batch, ..., channels",
    'None | Bool[Tensor, "*#batch queries keys"]': "..., queries, keys",
    'Float[Tensor, "#batch ... channels"]': "batch or 1, ..., channels",
    'Int[Tensor, "{length} 1"]': "length, 1",
    'Float[Tensor, "2*pairs"]': "2*pairs",
    'Float[Tensor, "*shape"]': "any shape",
    'Float[Tensor, ""]': "a single number",
    'Float[Tensor, "a"] | Int[Tensor, "b"] | int': "a or b",
    "Tensor": None,
    "dict[str, Tensor]": None,
    'Literal["a", "b"]': None,
    'Annotated[Tensor, "batch"]': None,
    'tuple[Float[Tensor, "a"], Float[Tensor, "b"]]': None,
    "": None,
}


@pytest.mark.parametrize(("annotation", "said"), SHAPES.items())
def test_shapes(annotation, said):
    assert shape(annotation) == said


X, Y = 'Float[Tensor, "batch channels"]', 'Float[Tensor, "channels"] | None'


def test_arguments_of_one_shape_share_an_entry_and_no_array_has_none():
    arguments = {"x": X, "weight": Y, "bias": Y, "eps": "float"}
    assert shape_comments(arguments, "Tensor", 80) == ["# x: batch, channels; weight, bias: channels"]


def test_a_result_of_another_shape_has_an_entry():
    assert shape_comments({"x": X}, X, 80) == ["# x: batch, channels"]
    assert shape_comments({"x": X}, Y, 80) == ["# x: batch, channels; result: channels"]
    assert shape_comments({}, X, 80) == ["# result: batch, channels"]
    assert shape_comments({"n": "int"}, "int", 80) == []


@pytest.mark.parametrize("width", range(24, 60))
def test_entries_stay_whole_and_lines_within_their_width(width):
    lines = shape_comments({"x": X, "weight": Y, "bias": Y}, 'Float[Tensor, ""]', width)
    entries = [entry for line in lines for entry in line.removeprefix("# ").split("; ")]
    assert entries == ["x: batch, channels", "weight, bias: channels", "result: a single number"]
    assert max(map(len, lines)) <= max(width, len("# result: a single number"))
    assert len(lines) < 3 or width < 46
