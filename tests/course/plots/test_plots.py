"""Each verb draws the numbers that it is given, and an alternative text says them."""

import io

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image
from torch import nn
from torch.nn import functional as F

from residual_course.plots import adaln_zero, cached, changes, conditions, dependence, dropout, layer_norm, neuron
from residual_course.plots.along_depth import along_depth
from residual_course.plots.long_convolution import plot_ridges
from residual_course.plots.mixing_matrix import plot_mixing_matrix
from residual_course.plots.picture import palette_png, words
from residual_course.plots.placement import label_ends, look, plot_distances, plot_wiring
from residual_course.plots.residual_connection import plot_connection
from residual_course.plots.scan_state import plot_state
from residual_course.plots.selective_scan import plot_rows
from residual_course.plots.style import A, B

NAN = np.nan


@pytest.fixture
def ax():
    return Figure().add_subplot()


def texts(ax):
    return [text.get_text() for text in ax.texts]


def points(ax):
    return [np.asarray(line.get_xydata(), float) for line in ax.get_lines()]


def image(ax):
    return np.ma.filled(ax.images[0].get_array().astype(float), NAN)


# A verb, its arguments before and after the axes, and all lines that it draws, as x and as y; None for any.
LINES = {
    "plot_weights": (
        lambda ax: adaln_zero.plot_weights([0, 1.5, 12], {"near": [[3, 1, 2]], "spread": [[5, 4, 6], [7, 8, 9]]}, ax),
        [(None, [1, 1]), ([0, 1.5, 12], [3, 1, 2]), ([0, 1.5, 12], [5, 4, 6]), ([0, 1.5, 12], [7, 8, 9])],
    ),
    "plot_runs": (
        lambda ax: changes.plot_runs({"one": [1, 2, 6], "two": [0.5, 0.9]}, ax, beside="two"),
        [
            ([1, 6], [1, 1]), ([1, 2, 6], [1, 1, 1]), ([3, 3], None),
            ([0.5, 0.9], [0, 0]), ([0.5, 0.9], [0, 0]), ([0.7, 0.7], None),
        ],
    ),
    "conditions.plot_rows": (
        lambda ax: conditions.plot_rows({"none": [NAN, 1], "first": [0.1, 0.3]}, ax),
        [(None, [0, 0]), (None, [1, 1]), ([0.1, 0.3], [1, 1])],
    ),
    "plot_way_back": (
        lambda ax: conditions.plot_way_back(["loss", "label"], {"sick": [1, 1e-9], "healthy": [1, 0.1]}, ax),
        [([0, 1], [1, 1e-9]), ([0, 1], [1, 0.1])],
    ),
    "plot_named": (
        lambda ax: dependence.plot_named([1, 4], [[0.6, 0.7], [0.5, 0.8]], ax),
        [([1, 4], [0.6, 0.7]), ([1, 4], [0.5, 0.8]), (None, [0.5, 0.5])],
    ),
    "plot_losses": (
        lambda ax: layer_norm.plot_losses([[100, 10], [90, 9], [80, 8]], ax, 2.3),
        [([0, 1], [100, 10]), ([0, 1], [90, 9]), ([0, 1], [80, 8]), (None, [2.3, 2.3])],
    ),
    "plot_ridges": (
        lambda ax: plot_ridges([-1, 0, 1], {"low": [0, 1, -1], "high": [0, 5, 10], "silent": [0, 0, 0]}, ax),
        [
            ([-1, 1], [0, 0]), ([-1, 0, 1], [0, 0.45, -0.45]), ([-1, 1], [-1, -1]), ([-1, 0, 1], [-1, -0.775, -0.55]),
            ([-1, 1], [-2, -2]), ([-1, 0, 1], [-2, -2, -2]), ([0, 0], None),
        ],
    ),
    "plot_predictions": (
        lambda ax: neuron.plot_predictions([0, 2, 1], {"one": [1, 1, 1], "two": [0, 3, 0]}, ax, first=10),
        [([10, 11, 12], [0, 2, 1]), ([10, 11, 12], [1, 1, 1]), ([10, 11, 12], [0, 3, 0])],
    ),
    "plot_predictions without measured": (
        lambda ax: neuron.plot_predictions(None, {"one": [1, 2]}, ax),
        [([0, 1], [1, 2])],
    ),
    "plot_kernel": (
        lambda ax: neuron.plot_kernel([0, 0.5, 0.1, -0.2], ax, named=[1]),
        [(None, [0, 0]), ([0, 1, 2, 3], [0, 0.5, 0.1, -0.2]), ([1], [0.5])],
    ),
    "plot_by_waves": (
        lambda ax: neuron.plot_by_waves([4, 16], {"coarse": [[0.3, 0.4], [0.1, 0.2]]}, ax, [0.12]),
        [([64], [0.12]), ([4, 4, 16, 16], [0.3, 0.4, 0.1, 0.2]), ([4, 16], [0.35, 0.15]), (None, [0.12, 0.12])],
    ),
    "plot_between": (
        lambda ax: neuron.plot_between([0, 1], [1, 2], [0, 0.5, 1], [1, 9, 2], ax),
        [([0, 0.5, 1], [1, 9, 2]), ([0, 1], [1, 2])],
    ),
    "plot_errors_by_name": (
        lambda ax: neuron.plot_errors_by_name({"a": [0.9, 1], "b": 0.01}, ax),
        [([0.9, 1], [1, 1]), ([0.01], [0])],
    ),
    "plot_distances": (
        lambda ax: plot_distances({"post-norm, step 30": [[1, 0.1], [1, 0.2]], "pre": [1, 0.9]}, ax, {"p": [1, 0.4]}),
        [([0, 1], [1, 0.4]), ([0, 1], [1, 0.1]), ([0, 1], [1, 0.2]), ([0, 1], [1, 0.9])],
    ),
    "selective_scan.plot_rows": (
        lambda ax: plot_rows({"Attention": [0.6, 0.7], "Mamba": [0.9, 1]}, ax, {"a guess": 0.125}),
        [([0.125, 0.125], None), ([0.6, 0.7], [0, 0]), ([0.9, 1], [1, 1])],
    ),
    "selective_scan.plot_rows of conditions": (
        lambda ax: plot_rows({"a": [[0.9, 1], [0.1, 0.2]]}, ax, {}, ["12", "48"]),
        [([0.9, 1], [-0.11, -0.11]), ([0.1, 0.2], [0.11, 0.11])],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("draw", "expected"), LINES.values(), ids=LINES)
def test_the_lines_are_those_of_the_numbers(ax, draw, expected):
    assert draw(ax) is ax
    drawn = points(ax)
    assert len(drawn) == len(expected)
    for line, axes in zip(drawn, expected, strict=True):
        for values, wanted in zip(line.T, axes, strict=True):
            assert wanted is None or values == pytest.approx(wanted)
    ax.figure.canvas.draw()


def test_images_stand_in_rows_and_columns_with_gaps_between(ax):
    images = np.linspace(-1, 1, 6)[:, None, None] * np.ones((2, 2))
    adaln_zero.plot_digits(images.reshape(2, 3, 2, 2), ax, rows=["x", "y"], columns=["1", "2", "3"])
    sheet = image(ax)
    assert sheet.shape == (2 * 24, 3 * 24) and ax.images[0].get_clim() == (-1, 1)
    for at, (row, column) in enumerate(np.ndindex(2, 3)):
        part = sheet[24 * row : 24 * (row + 1), 24 * column : 24 * (column + 1)]
        np.testing.assert_allclose(part[:12, :12], images[at, 0, 0], atol=1e-6)
        assert (part[12:] == -1).all() and (part[:, 12:] == -1).all()
    turned = adaln_zero.mosaic(np.array([[[[-1.0, 1.0], [1.0, -1.0]]]]))
    assert (np.sign(turned[[0, 0, 11, 11], [0, 11, 0, 11]]) == [-1, 1, 1, -1]).all()
    velocities = image(adaln_zero.plot_velocities(np.ones((1, 2, 4, 4)), Figure().add_subplot()))
    assert np.nanmin(velocities) == pytest.approx(1) and np.isnan(velocities[24:]).all()


def test_gradients_of_zero_are_white_and_larger_ones_deeper(ax):
    adaln_zero.plot_wake_up([[0, 1e-30], [1e-6, 1e-1]], ["front", "back"], [0, 7], ax)
    field = ax.images[0].get_array()[..., :3]
    assert (field[0, 0] == 1).all() and field.sum(-1).argsort(axis=None).tolist() == [3, 2, 1, 0]
    assert texts(ax) == ["0", "$10^{-30}$", "$10^{-6}$", "$10^{-1}$"]


def test_a_mixing_matrix_is_drawn_as_it_is_and_silence_is_left_out(ax):
    assert plot_mixing_matrix([[1, 0, 6], [1e-30, 1, 2]], ax) is ax
    np.testing.assert_array_equal(image(ax), [[1, NAN, 6], [1e-30, 1, 2]])
    assert ax.images[0].get_clim() == (0, 6) and ax.get_ylim() == (1.5, -0.5)
    silent = plot_mixing_matrix(np.zeros((20, 20)), Figure().add_subplot(), named=False)
    assert np.isnan(image(silent)).all() and list(silent.get_xticks()) == [0, 3, 6, 9, 12, 15, 18]


def test_pictures_stand_above_what_came_of_them_and_one_after_the_other():
    before, after = np.zeros((2, 3, 3)), np.ones((2, 3, 3))
    shown = [ax.images[0] for ax in layer_norm.plot_before_and_after(before, after, ["x", "y"]).axes]
    assert [(each.get_array().mean(), each.get_clim()) for each in shown] == 2 * [(0, (0, 1))] + 2 * [(1, (-2, 2))]
    movie = dependence.plot_movie(np.arange(4)[:, None, None] * np.ones((2, 3)), "Movie")
    assert [image(ax).mean() for ax in movie.axes] == [0, 1, 2, 3] and movie.get_label().startswith("4 frames")


def test_flips_and_moved_positions_are_told_in_words():
    figure = dependence.plot_flips({"leaky": [(None, [0.7, 0.1], 0.97)], "tight": [(None, [0.7, 0.7], 0.5)]}, "Flips")
    assert [line[:, 1].tolist() for line in points(figure.axes[0])[1:]] == [[0.7, 0.1], [0.7, 0.7]]
    assert "leaky: 97% predicted, loss from 0.70 to 0.40. tight: 50% predicted" in figure.get_label()
    figure = dependence.plot_moved({"none": [[False, False]], "one": [[True, False]]}, "Moved")
    assert image(figure.axes[1]).tolist() == [[1, 0]] and "none: 0; one: 1." in figure.get_label()


def test_marks_and_tables_hold_what_they_are_given(ax):
    dependence.plot_shares({"a": {"one": [0.5, 0.6], "two": [0.9]}, "b": {"one": [0.7], "two": [0.8]}}, ax)
    assert [marks.get_offsets()[:, 0].tolist() for marks in ax.collections] == [[0.5, 0.6], [0.7], [0.9], [0.8]]
    ax = dependence.plot_trained_patients({"healthy": [0.9, 1.0], "x": [0.8]}, {"x": [0.7]}, Figure().add_subplot())
    offsets = [marks.get_offsets().tolist() for marks in ax.collections]
    assert offsets == [[[0.9, -0.15], [1.0, -0.15]], [[0.8, 0.85]], [[0.7, 1.15]]]
    assert ax.lines[-1].get_xdata() == [0.95, 0.95]
    probes = {"count": 75648, "rows": 0.0123, "None": 0, "× 100": 97.4, "slope": 0.989}
    assert texts(dependence.plot_probes({"healthy": probes}, Figure().add_subplot())) == [
        "75,648", "1e-2", "0", "97", "0.99",
    ]  # fmt: skip


def test_the_two_steps_of_a_norm_end_on_the_plane_and_on_the_circle():
    rows = np.random.default_rng(0).normal(size=(5, 3)) + 1
    flat = rows - rows.mean(-1, keepdims=True)
    side, above = layer_norm.plot_two_steps(rows, flat, flat / rows.std(-1, keepdims=True)).axes
    for line, row in zip(points(side)[:5], rows, strict=True):
        assert line[0, 0] == pytest.approx(line[1, 0]) and line[:, 1] == pytest.approx([np.sqrt(3) * row.mean(), 0])
    for (start, end), row in zip(points(above)[:5], flat, strict=True):
        assert np.hypot(*end) == pytest.approx(np.sqrt(3)) and np.hypot(*start) == pytest.approx(np.linalg.norm(row))
        assert start @ end == pytest.approx(np.hypot(*start) * np.hypot(*end))  # on one ray
    four = layer_norm.plot_four_numbers([8, 2, 0, -6], [7, 1, -1, -7], [1.4, 0.2, -0.2, -1.4])
    assert [ax.lines[-1].get_xdata()[0] for ax in four.axes] == pytest.approx([1, 0, 0])


def test_coloured_cells_are_those_that_the_output_depends_on_and_what_learns_has_the_ink_of_that():
    heard = [[True, False, False], [False, True, True]]
    ax = layer_norm.plot_influences({"one": heard, "two": np.eye(2)}, (1, 2)).axes[0]
    coloured = {patch.get_xy() for patch in ax.patches if to_hex(patch.get_facecolor()) == A.lower()}
    assert coloured == {(0, 0), (1, 1), (2, 1)} and ax.lines[0].get_xydata().tolist() == [[2.5, 1.5]]
    good, bad = ([2.0, 0.1], 0.9), ([2.0, 2.0], 0.1)
    four = layer_norm.plot_halves({"a": [good, good], "b": [good, bad], "c": [bad, bad], "d": [good, good]})
    assert [to_hex(ax.lines[0].get_color()) for ax in four.axes] == [ink.lower() for ink in (B, A, A, B)]
    assert texts(four.axes[1]) == ["read: 90%, 10%"]


def test_boxes_and_bars_are_as_large_as_what_they_stand_for(ax):
    cached.plot_cached({"MHA": [16, 16, 16], "MLA": [16, 8]}, {"MHA": ["k", "v", "k"], "MLA": ["c", "t"]}, ax)
    boxes = [(box.get_x(), box.get_width()) for box in ax.patches]
    assert boxes == [(0, 16), (16, 16), (32, 16), (0, 16), (16, 8)] and texts(ax) == [
        "k",
        "v",
        "k",
        "48",
        "c",
        "t",
        "24",
    ]
    above, below = Figure().subplots(2, 1)
    plot_state([[3, 0], [2, 5], [1, 4]], [[3, 0], [0, 5], [0, 0]], [1, 0.5, 0.1], ["h", "·", "?"], above, below)
    assert [[bar.get_height() for bar in bars] for bars in above.containers] == [
        [0, 2, 1], [3, 0, 0], [0, 0, 4], [0, 5, 0],
    ]  # fmt: skip
    assert [[bar.get_y() for bar in bars] for bars in above.containers[1::2]] == [[0, 2, 1], [0, 0, 4]]
    assert [bar.get_height() for bar in below.containers[0]] == [1.0, 0.5, 0.1]


def test_a_connection_adds_up_and_a_wiring_has_its_norms_where_they_belong(ax):
    plot_connection([5, -7], [5, -7], [1], [0.25, 0], [0.5, 0], ax)
    assert {"0.25", "+ 0.50", "5.50", "+ 0", "-7"} <= set(texts(ax))
    for placement, order in (("pre", "norm f norm f norm"), ("post", "f norm f norm")):
        wired = plot_wiring(placement, Figure().add_subplot())
        boxes = sorted((t.get_position(), t.get_text()) for t in wired.texts if t.get_text() in ("norm", "f"))
        assert " ".join(word for _, word in boxes) == order
        assert [word for (_, height), word in boxes if height == 30] == ["norm"] * (2 if placement == "post" else 1)


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_names_stand_at_the_ends_and_apart(ax, scale):
    for name, end in {"upper": 1.01, "lower, twice as tall": 1.0, "far": 0.2}.items():
        ax.plot([1, 2], [end, end], label=name, **look(name))
    ax.plot([1, 2], [3, 3])  # without a name
    ax.set(yscale=scale, ylim=(0.1, 10))
    places = {text.get_text(): text.xy for text in label_ends(ax).texts}
    assert len(places) == 3 and places["far"] == pytest.approx((2, 0.2))
    low, high = (ax.transAxes.inverted().transform(ax.transData.transform(places[n]))[1] for n in list(places)[1:])
    assert high - low > 0.1


def test_a_thinned_network_and_errors_have_their_lines():
    plot = Figure()
    dropout.plot_thinned({"all": np.ones((2, 4)), "some": [[1, 0, 0, 0], [1, 1, 0, 0]]}, plot)
    lines = [[line for line in ax.lines if line.get_marker() == "None"] for ax in plot.axes]
    assert [len(each) for each in lines] == [3 * 4 + 4 * 4 + 4, 3 + 2 + 2] and texts(plot.axes[1]) == ["0"] * 5
    plot = Figure()
    dropout.plot_errors({"none": [[[0, 0.9], [0.1, 0.91]]], "dropout": [[[0.2, 0.9], [0.3, 0.9]]]}, [0, 20], plot)
    own, new = ([line[:, 1].tolist() for line in points(ax)[:2]] for ax in plot.axes)
    assert own == [[0, 0.1], [0.2, 0.3]] and new == [[0.9, 0.91], [0.9, 0.9]]


class Net(nn.Module):
    """Blocks ``skip * x + f(x)``, and a head."""

    def __init__(self, skip=1.0):
        super().__init__()
        self.skip, self.head = skip, nn.Linear(4, 2)
        self.blocks = nn.ModuleList(Block(skip) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Block(nn.Sequential):
    def __init__(self, skip):
        super().__init__(nn.Linear(4, 4), nn.Tanh())
        self.skip = skip

    def forward(self, x):
        return self.skip * x + super().forward(x)


def rms(x):
    return x.double().square().mean().sqrt().item()


def by_hand(net, x, labels):
    """The three curves along the depth, from autograd alone."""
    stream = [x.clone().requires_grad_()]
    for block in net.blocks:
        stream.append(block(stream[-1]))
    loss = F.cross_entropy(net.head(stream[-1]), labels)
    backward = torch.autograd.grad(loss, stream, retain_graph=True)
    weights = [torch.autograd.grad(loss, [*block.parameters()], retain_graph=True) for block in net.blocks]
    sizes = [rms(torch.cat([g.flatten() for g in each])) for each in weights]
    return [rms(x - x.mean(0)) for x in stream], [rms(g) for g in backward], sizes


def test_along_the_depth_stands_what_autograd_has_and_the_models_gradients_stay():
    x, labels, nets = torch.randn(5, 4), torch.tensor([0, 1, 0, 1, 1]), {"x + f(x)": Net(), "f(x)": Net(skip=0.0)}
    net = nets["x + f(x)"]
    net.head.weight.grad = kept = torch.ones(2, 4)
    figure = along_depth({name: (each, each.blocks) for name, each in nets.items()}, (x, labels), F.cross_entropy)
    for ax, ours, theirs in zip(figure.axes, *(by_hand(each, x, labels) for each in nets.values()), strict=True):
        np.testing.assert_allclose([line[:, 1] for line in points(ax)], [ours, theirs], rtol=1e-5)
        ends = {text.get_text(): text.xy[1] for text in ax.texts}
        assert ends.keys() == nets.keys() and abs(ends["f(x)"] - ends["x + f(x)"]) >= 0.169
    first, *_, last = by_hand(net, x, labels)[1]
    assert f"The gradient of the stream: x + f(x) from {first:.2g} to {last:.2g}, f(x) from" in figure.get_label()
    assert net.head.weight.grad is kept and net.head.bias.grad is None
    assert not any(block._forward_pre_hooks or block._forward_hooks for block in net.blocks)


def test_along_the_depth_zeros_are_told_and_another_axis_may_be_taken():
    net, rows = Net(), torch.randn(2, 3, 4)
    figure = along_depth(net, net.blocks, rows, lambda out: 0 * out.sum(), over=1)
    (differs,), *zeros = (points(ax) for ax in figure.axes)
    assert differs[0, 1] == pytest.approx(rms(rows - rows.mean(1, keepdim=True)), rel=1e-5)
    assert all(np.isnan(line[:, 1]).all() for (line,) in zeros)
    assert [texts(ax) for ax in figure.axes] == [[""], ["is 0"], ["is 0"]]


def test_a_figure_without_a_label_is_told_by_its_own_words():
    figure = Figure()
    assert words(figure) == "A picture"
    figure.add_subplot(title="A line rises", xlabel="step", ylabel="loss")
    assert words(figure) == "A line rises; loss against step"
    figure.set_label("Said.")
    assert words(figure) == "Said."


def test_more_than_256_colours_become_256_that_are_near():
    ramp = np.stack(np.broadcast_arrays(*np.ogrid[0:256, 0:256], np.uint8(0)), -1).astype(np.uint8)
    few = np.array(Image.open(io.BytesIO(palette_png(Image.fromarray(ramp)))).convert("RGB")).astype(int)
    assert len(np.unique(few.reshape(-1, 3), axis=0)) <= 256 and np.abs(few - ramp).mean() < 8
