"""The pictures of lesson 04: they show the numbers that they are given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.placement import label_ends, look, plot_distances, plot_wiring
from residual_course.plots.style import REFERENCE, A, B


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

    def test_a_name_that_is_pushed_above_the_axes_is_drawn(self, ax):
        places = self.label(ax, "linear", {"upper": 10, "lower": 9.9})
        assert places["upper"][1] > 10
        assert not any(text.get_annotation_clip() for text in ax.texts)

    def test_curves_without_a_name_get_none(self, ax):
        ax.plot([1, 2], [1, 1])
        assert self.label(ax, "log", {"one": 1}) == {"one": (2, pytest.approx(1))}


class TestDistances:
    CURVES = {"post-norm, step 0": [1, 0.5], "post-norm, step 30": [[1, 0.001], [1, 0.002]], "pre-norm": [1, 0.9]}

    def test_draws_each_seed_and_names_the_first_at_its_end(self, ax):
        assert plot_distances(self.CURVES, ax) is ax
        assert sorted(heights(ax)) == [[1, 0.001], [1, 0.002], [1, 0.5], [1, 0.9]]
        places = {text.get_text(): text.xy for text in ax.texts}
        assert places["post-norm,\nstep 0"] == pytest.approx((1, 0.5)) and ax.get_yscale() == "log"
        assert places["post-norm,\nstep 30"] == pytest.approx((1, 0.001))

    def test_names_are_pushed_apart(self, ax):
        plot_distances({"pre-norm": [1, 0.5], "post-norm": [1, 0.501], "post-norm, low": [1, 1e-4]}, ax)
        places = sorted(text.xy[1] for text in ax.texts)
        assert places[2] > 1.5 * places[1]

    def test_what_was_computed_is_dark_and_below_the_measured(self, ax):
        plot_distances({"pre-norm": [1, 0.5]}, ax, {"pre": [1, 0.4]})
        assert [line.get_color() for line in ax.lines] == [REFERENCE, A]
