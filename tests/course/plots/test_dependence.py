import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.dependence import (
    brief,
    plot_flips,
    plot_moved,
    plot_movie,
    plot_named,
    plot_probes,
    plot_shares,
    plot_trained_patients,
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_flips_stand_at_the_loss_of_guessing_and_say_what_was_predicted():
    figure = plot_flips({"leaky": [(None, [0.7, 0.1], 0.97)], "tight": [(None, [0.7, 0.7], 0.5)]}, "Flips")
    (ax,) = figure.axes
    assert [line.get_ydata().tolist() for line in ax.lines[1:]] == [[0.7, 0.1], [0.7, 0.7]]
    assert words(ax) == ["leaky: 97% predicted", "tight: 50% predicted", "guessing: 0.69"]
    assert "leaky: 97% predicted, loss from 0.70 to 0.40" in figure.get_label()


def test_moved_positions_are_counted_and_dark():
    figure = plot_moved({"none": [[False, False]], "one": [[True, False]]}, "Moved")
    assert [ax.get_title(loc="left") or ax.get_title() for ax in figure.axes] == [
        "none: 0 of 2 move",
        "one: 1 of 2 move",
    ]
    assert figure.axes[1].images[0].get_array().tolist() == [[True, False]]


def test_a_movie_has_an_image_a_frame():
    figure = plot_movie(np.zeros((4, 2, 3)), "Movie")
    assert [ax.get_xlabel() for ax in figure.axes] == ["frame 1", "frame 2", "frame 3", "frame 4"]


def test_named_draws_every_seed_over_the_channels(ax):
    plot_named([1, 4], [[0.6, 0.7], [0.5, 0.8]], ax)
    assert [line.get_ydata().tolist() for line in ax.lines[:2]] == [[0.6, 0.7], [0.5, 0.8]]


def test_shares_have_a_row_a_name_and_a_mark_a_kind(ax):
    plot_shares({"a": {"one": [0.5, 0.6], "two": [0.9]}, "b": {"one": [0.7], "two": [0.8]}}, ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]
    assert [marks.get_offsets()[:, 0].tolist() for marks in ax.collections] == [[0.5, 0.6], [0.7], [0.9], [0.8]]
    assert len({marks.get_paths()[0].vertices.tobytes() for marks in ax.collections}) == 2


@pytest.mark.parametrize(
    ("probe", "value", "word"),
    [
        ("count", 75648, "75,648"),
        ("None", 12, "12"),
        ("rows", 0.0, "0"),
        ("rows", 0.0123, "1e-2"),
        ("× 100", 97.4, "97"),
        ("× 100", 1.0, "1.00"),
        ("slope", 0.989, "0.99"),
    ],
)
def test_a_probe_is_written_briefly(probe, value, word):
    assert brief(probe, value) == word


def test_probes_are_a_table_of_what_they_are_given(ax):
    plot_probes({"healthy": {"size": 1.03, "None": 0}, "A": {"size": 0.2, "None": 12}}, ax)
    assert words(ax) == ["1.03", "0", "0.20", "12"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["size", "None"]


def test_trained_patients_have_two_marks_a_seed_and_a_line_at_the_first(ax):
    plot_trained_patients({"healthy": [0.9, 1.0], "x": [0.8]}, {"healthy": [0.9, 1.0], "x": [0.7]}, ax)
    assert [marks.get_offsets()[:, 0].tolist() for marks in ax.collections] == [[0.9, 1.0], [0.8], [0.9, 1.0], [0.7]]
    assert ax.lines[-1].get_xdata() == [0.95, 0.95]


def test_a_patient_asked_one_by_one_stands_in_its_networks_row(ax):
    plot_trained_patients({"healthy": [0.9], "x": [0.8], "y": [0.7]}, {"y": [0.7]}, ax)
    assert ax.collections[-1].get_offsets()[:, 1].tolist() == [2.15]
