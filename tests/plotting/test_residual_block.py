import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from residual_edu.plotting.residual_block import (
    plot_answers,
    plot_branch_shares,
    plot_patient,
    plot_text,
    plot_trainings,
    plot_visitors,
    plot_volume,
)
from residual_edu.plotting.style import GRADIENT, STREAM, A


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_trainings_draw_every_seed_and_name_each_beside_its_dash(ax):
    curves = {"one": [[2.0, 1.0, 0.5], [2.0, 1.5, 1.0]], "eight": [[2.0, 0.5, 0.1]]}
    assert plot_trainings(curves, ax) is ax
    assert [line.get_ydata().tolist() for line in ax.lines] == curves["one"] + curves["eight"]
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["one", "eight"]
    assert [line.get_linestyle() for line in legend.get_lines()] == ["--", "-"]
    assert [line.get_linestyle() for line in ax.lines] == ["--", "--", "-"]
    assert [text.get_color() for text in legend.get_texts()] == [ax.lines[0].get_color(), ax.lines[2].get_color()]


def test_text_has_a_box_for_each_letter(ax):
    assert plot_text("a bc", ax) is ax
    assert words(ax) == ["a", " ", "b", "c"] and len(ax.patches) == 4


@pytest.mark.parametrize("depth", [1, 3])
def test_volume_draws_every_sheet_the_first_on_top_and_all_within_the_axes(ax, depth):
    volume = np.random.default_rng(0).random((depth, 2, 4))
    assert plot_volume(volume, ax, step=1.5) is ax
    sheets = sorted(ax.images, key=lambda image: -image.get_zorder())
    assert np.array_equal([sheet.get_array() for sheet in sheets], volume)
    assert sheets[0].get_extent() == [0, 4, 0, 2]
    left, right, low, high = sheets[-1].get_extent()
    assert right < ax.get_xlim()[1] and high < ax.get_ylim()[1] and len(ax.patches) == depth


def test_answers_have_the_digit_shown_down_and_the_digit_asked_across(ax):
    answers = np.eye(3, 4)
    assert plot_answers(answers, ax) is ax
    assert np.array_equal(ax.images[0].get_array(), answers) and ax.images[0].get_clim() == (0, 1)
    assert ax.get_xlabel() == "asked for" and ax.get_ylabel() == "digit shown"


def test_shares_are_areas_with_their_percentages_and_a_missing_branch_is_off(ax):
    shares = np.array([[0.1, 0.2], [np.nan, 0.4]])
    assert plot_branch_shares(shares, ["mixer", "MLP"], ax, GRADIENT) is ax
    (dots,) = ax.collections
    sizes = np.asarray(dots.get_sizes()).reshape(2, 2)
    assert sizes[0, 1] == pytest.approx(2 * sizes[0, 0]) and sizes[1, 1] == pytest.approx(4 * sizes[0, 0])
    assert sizes[1, 0] == 0 and words(ax) == ["10 %", "20 %", "off", "40 %"]
    assert to_hex(dots.get_facecolor()[0]).upper() == GRADIENT
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mixer", "MLP"]


def test_a_patient_is_drawn_over_the_healthy_one_and_nothing_below_the_floor(ax):
    healthy, sick = ([1.0, 1, 2], [2.0, 1, 1], [0.5, 0.5]), ([1.0, 3, 9], [9.0, 3, 1], [0.0, 0.0])
    assert plot_patient(sick, healthy, ax, low=0.01) is ax
    assert [line.get_ydata().tolist() for line in ax.lines] == [*map(list, healthy), *sick[:2], [0.01, 0.01]]
    assert [line.get_color() for line in ax.lines] == 2 * [STREAM, GRADIENT, A]
    assert [line.get_marker() for line in ax.lines] == 2 * ["", "^", "s"]
    assert [line.get_linestyle() for line in ax.lines] == 3 * ["--"] + 3 * ["-"]
    assert ax.lines[2].get_xdata().tolist() == [0.5, 1.5] and ax.get_yscale() == "log"


def test_visitors_stand_in_a_row_under_their_lists_and_over_the_verdicts(ax):
    images = np.random.default_rng(0).random((2, 8, 8))
    assert plot_visitors(images, [[1, 2, 3], [4, 5, 6]], [True, False], ax) is ax
    assert np.array_equal([image.get_array() for image in ax.images], images)
    assert words(ax) == ["1 2 3", "yes", "4 5 6", "no"]
