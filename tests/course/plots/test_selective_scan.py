import pytest
from matplotlib.figure import Figure

from residual_course.plots.selective_scan import plot_rows


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_rows_have_a_mark_for_each_seed_and_named_levels(ax):
    assert plot_rows({"Attention": [0.6, 0.7], "Mamba": [0.9, 1.0]}, ax, {"a guess": 0.125}) is ax
    level, attention, mamba = ax.lines
    assert set(level.get_xdata()) == {0.125} and words(ax) == ["a guess"]
    assert attention.get_xydata().tolist() == [[0.6, 0], [0.7, 0]]
    assert mamba.get_xydata().tolist() == [[0.9, 1], [1.0, 1]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Attention", "Mamba"] and not ax.figure.legends


def test_rows_of_several_conditions_have_a_line_and_a_mark_each(ax):
    plot_rows({"a": [[0.9, 1.0], [0.1, 0.2]], "b": [[0.5, 0.6], [0.3, 0.4]]}, ax, {}, ["12", "48"])
    assert [line.get_xdata().tolist() for line in ax.lines] == [[0.9, 1.0], [0.1, 0.2], [0.5, 0.6], [0.3, 0.4]]
    heights = [line.get_ydata()[0] for line in ax.lines]
    assert heights[0] < 0 < heights[1] < heights[2] < 1 < heights[3]
    assert ax.lines[0].get_marker() == ax.lines[2].get_marker() != ax.lines[1].get_marker()
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["12", "48"]
