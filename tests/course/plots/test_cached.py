"""The boxes of what a cache keeps are as long as what they stand for."""

from matplotlib.figure import Figure

from residual_course.plots.cached import plot_cached

SIZES = {"MHA": [16, 16, 16, 16], "MLA": [16, 8]}
LABELS = {"MHA": ["k 1", "v 1", "k 2", "v 2"], "MLA": ["c", "t"]}


def test_each_box_stands_after_the_one_before_and_each_row_has_its_sum():
    ax = Figure().add_subplot()
    plot_cached(SIZES, LABELS, ax)
    boxes = [(box.get_x(), box.get_width()) for box in ax.patches]
    assert boxes == [(0, 16), (16, 16), (32, 16), (48, 16), (0, 16), (16, 8)]
    assert [text.get_text() for text in ax.texts] == ["k 1", "v 1", "k 2", "v 2", "64", "c", "t", "24"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["MHA", "MLA"]
