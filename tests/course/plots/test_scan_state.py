import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from residual_course.plots.scan_state import PARTS, plot_left, plot_mamba, plot_state

SIGNS = ["h", "·", "?"]


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_a_state_is_a_kept_part_and_a_written_part_above_it_and_its_steps_stand_below():
    above, below = Figure().subplots(2, 1)
    states, written = [[3.0, 0], [2, 5], [1, 4]], [[3.0, 0], [0, 5], [0, 0]]
    assert plot_state(states, written, [1.0, 0.5, 0.1], SIGNS, above, below) is above
    heights = [[bar.get_height() for bar in bars] for bars in above.containers]
    assert heights == [[0, 2, 1], [3, 0, 0], [0, 0, 4], [0, 5, 0]]
    assert [[bar.get_y() for bar in bars] for bars in above.containers[1::2]] == [[0, 2, 1], [0, 0, 4]]
    assert [bar.get_height() for bar in below.containers[0]] == [1.0, 0.5, 0.1]
    assert [label.get_text() for label in below.get_xticklabels()] == SIGNS
    assert words(above) == ["first number", "second number"]
    centres = [bars[0].get_x() + bars[0].get_width() / 2 for bars in above.containers[::2]]
    assert centres[0] < 0 < centres[1]


def test_each_number_is_named_at_its_largest_written_part():
    above, below = Figure().subplots(2, 1)
    plot_state([[1.0], [5], [2]], [[1.0], [4], [0]], [1.0, 1, 1], SIGNS, above, below)
    assert words(above) == ["first number"] and above.texts[0].get_position() == (1, 5)


def test_matrices_are_drawn_over_their_largest_and_the_asking_rows_are_framed():
    panels = list(Figure().subplots(1, 2))
    left = np.tril([[1.0, 1, 1], [0.5, 1, 1], [0.25, 0.5, 1]])
    assert plot_left({"left": left, "weight": 4 * left}, SIGNS, panels, asked=1) == panels
    for ax in panels:
        assert ax.images[0].get_array().filled(0).tolist() == left.tolist()
        (frame,) = ax.patches
        assert (frame.get_y(), frame.get_width(), frame.get_height()) == (1.5, 3, 1)
        assert [label.get_text() for label in ax.get_xticklabels()] == SIGNS
    assert [label.get_text() for label in panels[0].get_yticklabels()] == SIGNS
    assert [label.get_text() for label in panels[1].get_yticklabels()] == ["", "", ""]
    assert [ax.get_title() or ax.get_title(loc="left") for ax in panels] == ["left", "weight"]


def test_a_matrix_of_zeros_is_drawn():
    (ax,) = plot_left({"left": np.zeros((3, 3))}, SIGNS, [Figure().add_subplot()])
    assert ax.images[0].get_array().mask.all()


def test_mamba_has_the_shape_of_each_part_beside_its_arrow():
    shapes = {name: (14, place + 1) for place, name in enumerate(PARTS)} | {"x": (14, 4, 8)}
    ax = plot_mamba(shapes, Figure().add_subplot())
    told = words(ax)
    assert {"x\n14 × 4 × 8", "input\n14 × 1", "output\n14 × 10", "B\n14 × 6"} <= set(told)
    assert "scan with A; state S: 14 × 11; + D x" in told
    assert told.count("14 × 2") == 1 and "gate\n14 × 2" in told  # before its SiLU, and after it
    assert len([patch for patch in ax.patches if isinstance(patch, Rectangle)]) == 6
    inks = {text.get_text().split("\n")[0]: text.get_color() for text in ax.texts}
    assert inks["B"] == inks["C"] == inks["dt"] != inks["x"] == inks["raw dt"]
