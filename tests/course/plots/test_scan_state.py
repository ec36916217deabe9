from matplotlib.figure import Figure

from residual_course.plots.scan_state import plot_state

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
