"""The pictures of the lesson on AdaLN-Zero draw what they were given."""

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from residual_edu.plotting import adaln_zero as plots
from residual_edu.plotting.style import DROPPED, GRADIENT


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_each_condition_has_its_cloud_and_its_name_in_the_middle(ax):
    clouds = {"a": np.array([[1.0, 2.0], [3.0, 6.0]]), "b": np.array([[-1.0, 0.0], [-3.0, 1.0]])}
    assert plots.plot_conditions(clouds, ax) is ax
    for drawn, points, text in zip(ax.collections, clouds.values(), ax.texts, strict=True):
        assert np.array_equal(drawn.get_offsets(), points) and np.array_equal(text.xy, points.mean(0))
    assert [text.get_text() for text in ax.texts] == ["a", "b"]


@pytest.mark.parametrize("alive", [set(), {"gate", "branch"}, set(plots.ROUTE)])
def test_the_route_has_an_arrow_where_a_gradient_arrives_and_a_0_where_not(ax, alive):
    sizes = {name: 1e-9 * (name in alive) for name in plots.ROUTE}
    assert plots.plot_route(sizes, ax) is ax
    arrows = {text.xy: text.arrow_patch for text in ax.texts if getattr(text, "arrow_patch", None)}
    for name, (_, end) in plots.ROUTE.items():
        arrow = arrows[end]
        assert same_color(arrow.get_edgecolor(), GRADIENT if name in alive else DROPPED)
        assert (arrow.get_linestyle() == ":") == (name not in alive)
    assert [text.get_text() for text in ax.texts].count("0") == len(plots.ROUTE) - len(alive)


def test_every_box_of_the_route_is_named(ax):
    plots.plot_route(dict.fromkeys(plots.ROUTE, 1.0), ax)
    assert set(plots.BOXES) <= {text.get_text() for text in ax.texts}


def test_exact_zeros_are_white_and_marked_and_larger_gradients_deeper(ax):
    sizes = np.array([[0.0, 1e-30], [1e-6, 1e-1]])
    assert plots.plot_wake_up(sizes, ["front", "back"], [0, 7], ax) is ax
    field = ax.images[0].get_array()[..., :3]
    assert (field[0, 0] == 1).all() and field.sum(-1).argsort(axis=None).tolist() == [3, 2, 1, 0]
    assert {text.get_position(): text.get_text() for text in ax.texts} == {
        (0, 0): "0",
        (1, 0): "$10^{-30}$",
        (0, 1): "$10^{-6}$",
        (1, 1): "$10^{-1}$",
    }
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "7"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["front", "back"]


def test_without_numbers_zeros_alone_are_marked(ax):
    plots.plot_wake_up([[0.0, 0.2]], ["only"], [0, 1], ax, numbers=False)
    assert [text.get_text() for text in ax.texts] == ["0"]


def test_images_stand_in_rows_and_columns_between_lines_of_paper(ax):
    images = np.linspace(-1, 1, 24).reshape(2, 3, 2, 2)
    assert plots.plot_digits(images, ax, rows=["x", "y"], columns=["1", "2", "3"]) is ax
    sheet = ax.images[0].get_array()
    for row, column in np.ndindex(2, 3):
        tile = sheet[3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
        assert np.array_equal(tile[:2, :2], images[row, column])
        assert (tile[2] == -1).all() and (tile[:, 2] == -1).all()
    assert ax.images[0].get_clim() == (-1, 1) and np.array_equal(sheet, plots.mosaic(images))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "3"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x", "y"]


def test_rows_and_columns_need_no_names(ax):
    plots.plot_digits(np.zeros((1, 2, 4, 4)), ax)
    assert [label.get_text() for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]] == ["", "", ""]


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.plot_conditions({"a": np.eye(2)}, ax),
        lambda ax: plots.plot_route(dict.fromkeys(plots.ROUTE, 0.0), ax),
        lambda ax: plots.plot_wake_up(np.eye(2), ["a", "b"], [0, 1], ax),
        lambda ax: plots.plot_digits(np.zeros((1, 2, 4, 4)), ax),
    ],
)
def test_every_picture_can_be_rendered(ax, draw):
    draw(ax).figure.canvas.draw()
