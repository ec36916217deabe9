"""The explorer of placement: its numbers against modules of torch's own, and the answer that the lesson tells."""

import itertools

import numpy as np
import pytest
import torch

from residual_course.explorers.placement import (
    DEEPEST,
    IMAGES,
    NETWORKS,
    WEIGHTS,
    WIDTH,
    explore_placement,
    ingredients,
    measure,
)

PLACEMENTS = ["pre-norm", "post-norm"]
DEPTHS = [1, 2, 3, 5, 8, 12, 16, 24, 32]


@pytest.fixture(scope="module")
def explorer():
    return explore_placement()


def one_by_one(depth, placement, scale):
    """What ``measure`` says, from one network after the other, in float64."""
    x, inward, outward, head, labels = ingredients()
    squares, logs = [], []
    for net in range(NETWORKS):
        weights = [(scale * outward[block, net]).double().requires_grad_() for block in range(depth)]
        stream, handed = x[net].double(), []
        for block, weight in enumerate(weights):
            inner = torch.nn.functional.layer_norm(stream, (WIDTH,)) if placement == "pre-norm" else stream
            total = stream + (inner @ inward[block, net].double()).clamp(min=0) @ weight
            handed.append(stream if placement == "pre-norm" else total)
            stream = total if placement == "pre-norm" else torch.nn.functional.layer_norm(total, (WIDTH,))
        if placement == "pre-norm":
            handed.append(stream)
            stream = torch.nn.functional.layer_norm(stream, (WIDTH,))
        torch.nn.functional.cross_entropy(stream @ head[net].double(), labels).backward()
        squares.append([float(size.detach().square().mean()) for size in handed])
        logs.append([float(weight.grad.norm().log()) for weight in weights])
    return np.sqrt(np.mean(squares, 0)), np.exp(np.mean(logs, 0))


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_measure_agrees_with_networks_taken_one_by_one(placement, scale):
    for got, want in zip(measure(4, placement, scale), one_by_one(4, placement, scale), strict=True):
        assert got == pytest.approx(want, rel=1e-4)


def test_measure_is_the_same_each_time_and_leaves_the_random_numbers_alone():
    state = torch.get_rng_state()
    assert all(map(np.array_equal, measure(6, "post-norm", 1.0), measure(6, "post-norm", 1.0)))
    assert torch.get_rng_state().equal(state)


def test_ingredients_are_normalised_digits_and_he_weights():
    x, inward, outward, head, labels = ingredients()
    assert x.shape == (NETWORKS, IMAGES, WIDTH) and labels.shape == (IMAGES,)
    assert inward.shape == outward.shape == (DEEPEST, NETWORKS, WIDTH, WIDTH) and head.shape == (NETWORKS, WIDTH, 10)
    assert torch.allclose(x.square().mean(-1), torch.ones(NETWORKS, IMAGES), atol=1e-3)
    assert inward.square().mean() * WIDTH == pytest.approx(1, rel=0.02)
    assert outward.square().mean() * WIDTH == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_answer_in_the_lesson_divisor_times_gradient_is_the_same_everywhere(placement, weights):
    for depth in DEPTHS:
        handed, gradients = measure(depth, placement, WEIGHTS[weights](depth))
        assert 0.6 < handed[-1] * gradients[-1] < 0.75


def test_the_answer_in_the_lesson_the_two_products(explorer):
    readings = []
    for placement in PLACEMENTS:
        explorer.draw(placement, 24, "He's")
        readings.append(explorer.draw(placement, 24, "He's"))
    assert "divides by 5.14; the gradient of the last block is 0.124" in readings[0]
    assert "divides by 1.40; the gradient of the last block is 0.453" in readings[1]


def test_the_answer_in_the_lesson_pre_norm_falls_as_its_stream_grows():
    handed, gradients = measure(24, "pre-norm", 1.0)
    assert handed[1:] * gradients == pytest.approx(0.63, rel=0.15)


def test_the_answer_in_the_lesson_with_zeros_the_placements_are_one():
    pre, post = (measure(12, placement, 0.0) for placement in PLACEMENTS)
    assert pre[0] == pytest.approx(1, abs=1e-3) and post[0] == pytest.approx(1, abs=1e-3)
    assert pre[1] == pytest.approx(post[1], rel=1e-3)


@pytest.mark.parametrize(("weights", "factor"), [("He's", 3.6), ("PyTorch's", 1.5)])
def test_the_factors_in_the_lesson_between_the_placements(weights, factor):
    pre, post = (measure(24, placement, WEIGHTS[weights](24))[1][-1] for placement in PLACEMENTS)
    assert post / pre == pytest.approx(factor, abs=0.1)


def test_post_norms_first_and_last_block_hear_about_the_same_at_the_start():
    for depth in DEPTHS:
        gradients = measure(depth, "post-norm", 1.0)[1]
        assert 0.5 < gradients[0] / gradients[-1] < 2


@pytest.mark.parametrize("depth", [8, 32])
def test_the_stream_grows_by_one_in_the_square(depth):
    assert measure(depth, "pre-norm", 1.0)[0][-1] == pytest.approx((1 + depth) ** 0.5, rel=0.1)
    assert measure(depth, "post-norm", 1.0)[0][-1] == pytest.approx(2**0.5, rel=0.1)


def test_the_picture_shows_what_was_measured(explorer):
    explorer.draw("post-norm", 3, "He's")
    handed, gradients = measure(3, "post-norm", 1.0)
    line, drop, divisor, dots, last, title, *_ = explorer.animated
    assert np.allclose(line.get_ydata(), [1, handed[0], 1, handed[1], 1, handed[2], 1])
    assert np.allclose(drop.get_ydata(), [handed[-1], 1]) and divisor.get_text() == f"÷ {handed[-1]:.2f}"
    assert np.allclose(dots.get_xydata(), np.stack([[1, 2, 3], gradients], axis=1))
    assert last.get_text() == f"{gradients[-1]:.3f}"
    assert title.get_text() == "post-norm, 3 blocks, output weights: He's"


def test_every_control_moves_picture_and_reading(explorer):
    seen = {(explorer.image.value, explorer.reading.value)}
    for name, value in (("placement", "post-norm"), ("depth", 7), ("weights", "PyTorch's")):
        explorer.inputs[name].value = value
        seen.add((explorer.image.value, explorer.reading.value))
    assert len(seen) == 4


def test_every_corner_of_the_controls_can_be_drawn(explorer):
    for placement, depth, weights in itertools.product(PLACEMENTS, (1, DEEPEST), WEIGHTS):
        for name, value in (("placement", placement), ("depth", depth), ("weights", weights)):
            explorer.inputs[name].value = value
        assert "nan" not in explorer.reading.value and "cannot be drawn" not in explorer.reading.value


def test_the_alternative_text_tells_the_first_picture():
    first = explore_placement()
    assert "divides by 5.1" in first.reading.value and "5.1" in first.alt
    assert "block is 0.12" in first.reading.value and "0.12 at the last" in first.alt
