"""The pictures of lesson 04: they show the numbers that they are given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_edu.plotting.placement import (
    course,
    label_ends,
    look,
    plot_courses,
    plot_last_drop,
    plot_last_gradients,
    plot_runs,
    plot_wiring,
)
from residual_edu.plotting.style import REFERENCE, A, B


@pytest.fixture
def ax():
    return Figure().add_subplot()


def texts(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def heights(ax):
    return [np.asarray(line.get_ydata(), float).tolist() for line in ax.lines]


@pytest.mark.parametrize(
    ("name", "color", "dashes"),
    [
        ("pre-norm", A, "--"),
        ("post-norm", B, "-"),
        ("pre-norm, scaled", A, ":"),
        ("post-norm, warm-up", B, "-."),
    ],
)
def test_a_placement_has_one_colour_and_each_of_its_curves_a_dash(name, color, dashes):
    assert look(name) == {"color": color, "ls": dashes}


class TestWiring:
    STREAM_LINE = 30

    def boxes(self, ax):
        return sorted((text.get_position(), text.get_text()) for text in ax.texts if text.get_text() in ("norm", "f"))

    def on_the_stream(self, ax):
        return [word for (_, height), word in self.boxes(ax) if height == self.STREAM_LINE]

    def test_pre_norm_has_its_norms_before_f_and_one_at_the_end(self, ax):
        assert plot_wiring("pre", ax) is ax
        assert [word for _, word in self.boxes(ax)] == ["norm", "f", "norm", "f", "norm"]
        assert self.on_the_stream(ax) == ["norm"]

    def test_post_norm_has_each_norm_on_the_stream(self, ax):
        plot_wiring("post", ax)
        assert [word for _, word in self.boxes(ax)] == ["f", "norm", "f", "norm"]
        assert self.on_the_stream(ax) == ["norm", "norm"]

    @pytest.mark.parametrize("placement", ["pre", "post"])
    def test_there_are_two_sums_and_nothing_stands_outside(self, ax, placement):
        plot_wiring(placement, ax)
        assert texts(ax).count("+") == 2
        for line in ax.lines:
            assert ((np.asarray(line.get_xydata()) >= 0) & (np.asarray(line.get_xydata()) <= 100)).all()


class TestCourses:
    def test_pre_norm_grows_and_drops_after_the_last_block(self):
        places, sizes = course([1, 2, 3], "pre")
        assert places.tolist() == [0, 1, 2, 3, 3] and sizes.tolist() == [1, 2, 3, 3, 1]

    def test_post_norm_drops_after_each_block(self):
        places, sizes = course([2, 3], "post")
        assert places.tolist() == [0, 1, 1, 2, 2] and sizes.tolist() == [1, 2, 1, 3, 1]

    def test_draws_each_course_with_its_last_drop(self, ax):
        assert plot_courses({"pre-norm": [1, 2, 3], "post-norm": [1.5, 1.25]}, ax) is ax
        assert heights(ax) == [[1, 2, 3, 3, 1], [3, 1], [1, 1.5, 1, 1.25, 1], [1.25, 1]]
        assert [line.get_color() for line in ax.lines] == [A, REFERENCE, B, REFERENCE]
        assert texts(ax) == ["÷ 3.0", "pre-norm", "÷ 1.2", "post-norm"]


class TestLastGradients:
    CURVES = {"pre-norm": [[0.4, 0.2], [0.5, 0.3], [0.3, 0.1]], "post-norm": [[0.4, 0.4]]}

    def test_draws_each_seed_and_the_median(self, ax):
        assert plot_last_gradients([2, 8], self.CURVES, ax) is ax
        assert heights(ax) == [[0.4, 0.2], [0.5, 0.3], [0.3, 0.1], [0.4, 0.2], [0.4, 0.4], [0.4, 0.4]]
        assert texts(ax) == ["pre-norm", "post-norm"]

    def test_the_guide_is_dotted_and_named(self, ax):
        plot_last_gradients([2, 8], self.CURVES, ax, [0.5, 0.25])
        dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
        assert [list(line.get_ydata()) for line in dotted] == [[0.5, 0.25]] and "slope −1/2" in texts(ax)

    def test_axes_are_logarithmic_with_plain_numbers(self, ax):
        plot_last_gradients([2, 8], self.CURVES, ax)
        assert ax.get_xscale() == ax.get_yscale() == "log"
        assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "8"]
        assert [label.get_text() for label in ax.get_yticklabels()] == ["0.1", "0.2", "0.4", "0.8"]


def test_last_drop_draws_every_network_over_the_law(ax):
    found = {"pre-norm": ([[2, 4]], [[0.3, 0.15]]), "post-norm, scaled": ([1], [0.6])}
    assert plot_last_drop(found, ax, 0.6) is ax
    assert heights(ax)[:2] == [[0.3, 0.15], [0.6]]
    sizes, law = (np.asarray(values) for values in ax.lines[2].get_data())
    assert np.allclose(sizes * law, 0.6) and sizes[-1] > 4
    assert [line.get_markerfacecolor() for line in ax.lines[:2]] == [A, "white"]
    assert [line.get_marker() for line in ax.lines[:2]] == ["s", "o"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(found)


def test_runs_draws_the_median_over_the_band_of_the_seeds(ax):
    assert plot_runs({"post-norm": [[3, 1], [4, 2], [8, 6]]}, ax, every=5) is ax
    assert ax.lines[0].get_xydata().tolist() == [[5, 4], [10, 2]]
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == 1 and band.max() == 8


class TestEnds:
    def label(self, ax, scale, ends):
        for name, end in ends.items():
            ax.plot([1, 2], [end, end], label=name)
        ax.set(yscale=scale, ylim=(0.1, 10))
        return {text.get_text(): text.xy for text in label_ends(ax).texts}

    @pytest.mark.parametrize("scale", ["log", "linear"])
    def test_names_stand_at_the_ends(self, ax, scale):
        places = self.label(ax, scale, {"low": 0.2, "high": 5})
        assert places["low"] == pytest.approx((2, 0.2)) and places["high"] == pytest.approx((2, 5))

    @pytest.mark.parametrize("scale", ["log", "linear"])
    def test_names_are_pushed_apart_in_their_order(self, ax, scale):
        places = self.label(ax, scale, {"upper": 1.01, "lower, twice as tall": 1.0})
        transform = ax.transAxes.inverted().transform
        low, high = (transform(ax.transData.transform(places[n]))[1] for n in ("lower,\ntwice as tall", "upper"))
        assert high - low > 0.1

    def test_curves_without_a_name_get_none(self, ax):
        ax.plot([1, 2], [1, 1])
        assert self.label(ax, "log", {"one": 1}) == {"one": (2, pytest.approx(1))}
