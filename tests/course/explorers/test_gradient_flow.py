"""The three curves' explorer: its sizes against a stack of torch's modules, its words and the lesson's answer."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from residual_course.explorers.gradient_flow import (
    ACTIVATIONS,
    DEEPEST,
    LOW,
    TOKENS,
    WIDTH,
    apart,
    curves,
    explore_gradient_flow,
    fate,
    ingredients,
    verdict,
)

MODULES = {"ReLU": nn.ReLU(), "GELU": nn.GELU(), "tanh": nn.Tanh()}


@pytest.fixture(scope="module")
def explorer():
    return explore_gradient_flow()


def rms(x):
    return float(x.detach().square().mean().sqrt())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("skip", [True, False])
def test_curves_agree_with_a_stack_of_modules(activation, bias, skip):
    x, weights, biases, probe = ingredients()
    layers = [nn.Linear(WIDTH, WIDTH, bias=bias).double() for _ in range(4)]
    stream = [x.clone().requires_grad_()]
    for layer, weight, shift in zip(layers, weights, biases, strict=False):
        layer.weight.data = weight.T.clone()
        if bias:
            layer.bias.data = shift.clone()
        branch = MODULES[activation](layer(stream[-1]))
        stream.append(stream[-1] + branch if skip else branch)
    for place in stream:
        place.retain_grad()
    stream[-1].backward(probe)
    forward, delta, weight_gradient = curves(4, bias, activation, skip)
    assert forward == pytest.approx([rms(place) for place in stream], rel=1e-9)
    assert delta == pytest.approx([rms(place.grad) for place in stream], rel=1e-9)
    assert weight_gradient == pytest.approx([rms(layer.weight.grad) for layer in layers], rel=1e-9)


def test_curves_are_the_same_each_time_and_leave_the_random_numbers_alone():
    state = torch.get_rng_state()
    assert all(map(np.array_equal, curves(8, True, "GELU", True), curves(8, True, "GELU", True)))
    assert torch.get_rng_state().equal(state)


def test_ingredients_are_normalised_digits_pytorchs_weights_and_a_delta_of_size_1():
    x, weights, biases, probe = ingredients()
    assert x.shape == probe.shape == (TOKENS, WIDTH) and weights.shape == (DEEPEST, WIDTH, WIDTH)
    assert x.square().mean() == pytest.approx(1, rel=1e-3) and probe.square().mean() == pytest.approx(1)
    for drawn in (weights, biases):
        assert drawn.abs().max() < 1 / 8 and drawn.square().mean() * 3 * WIDTH == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_answer_flat_while_the_delta_vanishes(activation):
    assert verdict(curves(DEEPEST, False, activation, False)) == "the stream gradient vanishes, the weights' is flat"


@pytest.mark.parametrize(("activation", "orders"), [("ReLU", 10), ("GELU", 15), ("tanh", 6)])
def test_the_answer_a_bias_tips_the_flat_line(activation, orders):
    _, delta, weight = curves(DEEPEST, True, activation, False)
    assert np.log10(weight.max() / weight.min()) == pytest.approx(orders, abs=1)
    assert np.log10(delta[0] / curves(DEEPEST, False, activation, False)[1][0]) == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["ReLU", "GELU"])
def test_the_answer_flat_while_the_delta_explodes(activation, bias):
    assert verdict(curves(DEEPEST, bias, activation, True)) == "the stream gradient explodes, the weights' is flat"


@pytest.mark.parametrize("bias", [True, False])
def test_tanh_keeps_the_skip_from_exploding(bias):
    forward, delta, weight = curves(DEEPEST, bias, "tanh", True)
    assert forward[-1] == pytest.approx(4, abs=0.5) and delta[0] == pytest.approx(6, abs=0.5)
    assert verdict((forward, delta, weight)) == "the stream gradient grows, the weights' is flat"


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1e-4, "vanishes"), (0.49, "shrinks"), (0.5, "holds"), (2.0, "holds"), (2.1, "grows"), (101.0, "explodes")],
)
def test_fate(ratio, said):
    assert fate(ratio) == said


def test_names_are_kept_apart():
    heights = apart([1.0, 1.1, 1e-9])
    assert heights[0] == 1.0 and heights[2] == 1e-9 and heights[1] >= 50
    assert apart([1e-40, 1.0, 1e-40])[0] > LOW


def test_the_first_picture(explorer):
    assert explorer.animated[-1].get_text() == "The stream gradient vanishes, the weights' is not flat"
    assert "32 layers" in explorer.alt and "Over 32 layers" in explorer.reading.value
    assert bytes(explorer.image.value).startswith(b"\x89PNG")


def test_every_control_moves_picture_and_reading(explorer):
    for name, value in (("depth", 16), ("skip", True), ("bias", False), ("activation", "GELU")):
        before = explorer.image.value, explorer.reading.value
        explorer.inputs[name].value = value
        assert explorer.image.value != before[0] and explorer.reading.value != before[1]


def test_every_corner_is_drawn_inside_the_axes(explorer):
    for depth, activation, bias, skip in itertools.product([1, DEEPEST], ACTIVATIONS, [True, False], [True, False]):
        for name, value in {"depth": depth, "activation": activation, "bias": bias, "skip": skip}.items():
            explorer.inputs[name].value = value
        assert "cannot be drawn" not in explorer.reading.value and "nan" not in explorer.reading.value
        assert all(1e-20 < size < 1e6 for line in explorer.animated[:3] for size in line.get_ydata())
