"""The stack explorer: its sizes against an independent stack and against laws, its words against its numbers."""

import numpy as np
import pytest
import torch

from residual_course.explorers.residual_connection import (
    DEEPEST,
    TOKENS,
    WIDTH,
    explore_stack,
    formula,
    ingredients,
    sizes,
    verdict,
)


@pytest.fixture(scope="module")
def explorer():
    return explore_stack()


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("norm", [True, False])
def test_sizes_agree_with_a_stack_written_with_modules(skip, norm):
    x, first, second, probe = ingredients()
    out = stream = x.clone().requires_grad_()
    for layer in range(5):
        inner = torch.nn.functional.layer_norm(stream, (WIDTH,)) if norm else stream
        branch = 0.5 * torch.nn.functional.linear(
            torch.nn.functional.linear(inner, first[layer].T).clamp(min=0), second[layer].T
        )
        stream = branch + stream if skip else branch
    (stream * probe).sum().backward()
    signal, gradient = sizes(5, 0.5, skip, norm)
    assert len(signal) == len(gradient) == 6
    assert signal[-1] == pytest.approx(float(stream.detach().norm() / x.norm()), rel=1e-9)
    assert gradient[0] == pytest.approx(float(out.grad.norm() / probe.norm()), rel=1e-9)


def test_sizes_are_the_same_each_time_and_leave_the_random_numbers_alone():
    state = torch.get_rng_state()
    assert all(map(np.array_equal, sizes(8, 0.5, True, True), sizes(8, 0.5, True, True)))
    assert torch.get_rng_state().equal(state)


def test_a_gate_of_zero_lets_everything_through():
    signal, gradient = sizes(DEEPEST, 0.0, True, False)
    assert (signal == 1).all() and np.allclose(gradient, 1, rtol=1e-12)


def test_without_skip_a_gate_of_zero_lets_nothing_through():
    for norm in (True, False):
        signal, gradient = sizes(4, 0.0, False, norm)
        assert signal[-1] == gradient[0] == 0


@pytest.mark.parametrize("depth", [4, 16, 64])
def test_the_square_grows_by_one_plus_gate_squared(depth):
    gate = depth**-0.5
    for size in (sizes(depth, gate, True, False)[0][-1], sizes(depth, gate, True, False)[1][0]):
        assert size == pytest.approx((1 + gate**2) ** (depth / 2), rel=0.25)


def test_a_norm_adds_one_to_the_square_each_time():
    signal, gradient = sizes(DEEPEST, 1.0, True, True)
    assert signal[-1] == pytest.approx((1 + DEEPEST) ** 0.5, rel=0.3)
    assert gradient[0] == pytest.approx((1 + DEEPEST) ** 0.5, rel=0.3)


@pytest.mark.parametrize(("depth", "largest"), [(64, 0.125), (16, 0.275), (4, 0.575)])
def test_the_largest_gate_that_holds_is_the_one_the_lesson_tells(depth, largest):
    gates = [0.025 * step for step in range(41)]
    holds = [gate for gate in gates if held(depth, gate) == "holds"]
    assert max(holds) == pytest.approx(largest)
    assert [gate for gate in gates if gate <= max(holds)] == holds
    assert largest * depth**0.5 == pytest.approx(1, abs=0.2)


def test_without_skip_no_gate_holds_at_depth_64():
    assert not any(verdict_of(DEEPEST, 0.025 * step, False) == "holds" for step in range(41))


def held(depth, gate):
    return verdict_of(depth, gate, True)


def verdict_of(depth, gate, skip):
    signal, gradient = sizes(depth, gate, skip, False)
    return verdict(signal[-1], gradient[0])


@pytest.mark.parametrize(
    ("signal", "gradient", "said"),
    [
        (1.0, 1.0, "holds"),
        (2.0, 0.5, "holds"),
        (2.1, 1.0, "swells"),
        (1.0, 101.0, "floods"),
        (0.4, 1.0, "shrinks"),
        (1.0, 0.001, "dries out"),
        (0.0, 0.0, "dries out"),
        (0.001, 3.0, "swells"),
    ],
)
def test_verdict(signal, gradient, said):
    assert verdict(signal, gradient) == said


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ((1.0, True, False), "x + f(x)"),
        ((0.125, True, True), "x + 0.125·f(norm(x))"),
        ((1.0, False, False), "f(x)"),
        ((0.0, True, False), "x + 0·f(x)"),
    ],
)
def test_formula(settings, written):
    assert formula(*settings) == written


def test_ingredients_are_normalised_digits_and_he_weights():
    x, first, second, probe = ingredients()
    assert x.shape == probe.shape == (TOKENS, WIDTH) and first.shape == second.shape == (DEEPEST, WIDTH, WIDTH)
    assert torch.allclose(x.mean(-1), torch.zeros(TOKENS).double(), atol=1e-9)
    assert first.square().mean() * WIDTH == pytest.approx(1, rel=0.02)
    assert second.square().mean() * WIDTH == pytest.approx(2, rel=0.02)


def test_the_first_picture_floods(explorer):
    assert "floods" in explorer.reading.value and "floods" not in explorer.alt
    assert explorer.alt and bytes(explorer.image.value).startswith(b"\x89PNG")


def test_every_control_moves_picture_and_reading(explorer):
    for name, value in (("depth", 16), ("gate", 0.25), ("norm", True), ("skip", False)):
        before = explorer.image.value, explorer.reading.value
        explorer.inputs[name].value = value
        assert explorer.image.value != before[0] and explorer.reading.value != before[1]


def test_extremes_are_drawn(explorer):
    for depth, gate, skip, norm in (
        (1, 0, False, True),
        (64, 1, True, False),
        (64, 0, False, False),
        (1, 1, True, True),
    ):
        for name, value in (("depth", depth), ("gate", gate), ("skip", skip), ("norm", norm)):
            explorer.inputs[name].value = value
        assert "cannot be drawn" not in explorer.reading.value


def test_the_gates_of_the_answer_can_be_reached_by_keys(explorer):
    gate = explorer.inputs["gate"]
    for wanted in (0.125, 0.275, 0.575):
        assert wanted / gate.step == pytest.approx(round(wanted / gate.step))
