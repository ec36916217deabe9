"""Verbs draw the numbers that they are given, and an alternative text says them.

A picture that a lesson shows of numbers that no training gave is compared by nbval, and its verb is not tested here.
"""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.plots import adaln_zero, dependence, dropout, layer_norm, neuron
from residual_course.plots.along_depth import along_depth
from residual_course.plots.mixing_matrix import plot_mixing_matrix
from residual_course.plots.picture import words
from residual_course.plots.placement import label_ends, look, plot_distances
from residual_course.plots.rows import plot_rows
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
    "plot_losses": (
        lambda ax: layer_norm.plot_losses([[100, 10], [90, 9], [80, 8]], ax, 2.3),
        [([0, 1], [100, 10]), ([0, 1], [90, 9]), ([0, 1], [80, 8]), (None, [2.3, 2.3])],
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
    "plot_distances": (
        lambda ax: plot_distances({"post-norm, step 30": [[1, 0.1], [1, 0.2]], "pre": [1, 0.9]}, ax, {"p": [1, 0.4]}),
        [([0, 1], [1, 0.4]), ([0, 1], [1, 0.1]), ([0, 1], [1, 0.2]), ([0, 1], [1, 0.9])],
    ),
    "plot_rows": (
        lambda ax: plot_rows({"Attention": [0.6, 0.7], "Mamba": [0.9, 1]}, ax, "Mamba", {"a guess": 0.125}),
        [([0.125, 0.125], None), ([0.6, 0.7], [0, 0]), ([0.9, 1], [1, 1])],
    ),
    "plot_rows of two kinds": (
        lambda ax: plot_rows({"a": {"12": [0.9, 1], "48": [0.1, 0.2]}}, ax),
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


def test_a_mixing_matrix_is_drawn_as_it_is_and_silence_is_left_out(ax):
    assert plot_mixing_matrix([[1, 0, 6], [1e-30, 1, 2]], ax) is ax
    np.testing.assert_array_equal(image(ax), [[1, NAN, 6], [1e-30, 1, 2]])
    assert ax.images[0].get_clim() == (0, 6) and ax.get_ylim() == (1.5, -0.5)
    silent = plot_mixing_matrix(np.zeros((20, 20)), Figure().add_subplot(), named=False)
    assert np.isnan(image(silent)).all() and list(silent.get_xticks()) == [0, 3, 6, 9, 12, 15, 18]


def test_flips_are_told_in_words():
    figure = dependence.plot_flips({"leaky": [(None, [0.7, 0.1], 0.97)], "tight": [(None, [0.7, 0.7], 0.5)]}, "Flips")
    assert [line[:, 1].tolist() for line in points(figure.axes[0])[1:]] == [[0.7, 0.1], [0.7, 0.7]]
    assert "leaky: 97% predicted, loss from 0.70 to 0.40. tight: 50% predicted" in figure.get_label()


def test_a_half_that_learns_has_the_ink_of_that():
    good, bad = ([2.0, 0.1], 0.9), ([2.0, 2.0], 0.1)
    four = layer_norm.plot_halves({"a": [good, good], "b": [good, bad], "c": [bad, bad], "d": [good, good]})
    assert [to_hex(ax.lines[0].get_color()) for ax in four.axes] == [ink.lower() for ink in (B, A, A, B)]
    assert texts(four.axes[1]) == ["read: 90%, 10%"]


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


def test_errors_of_ones_own_and_of_new_patients_have_their_lines():
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
