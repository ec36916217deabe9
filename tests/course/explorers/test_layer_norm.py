"""The explorer of LayerNorm: its numbers are torch's, and its picture and reading follow them."""

import itertools

import numpy as np
import pytest
import torch

from residual_course.explorers.layer_norm import NORMS, REACH, NormPicture, explore_layer_norm, listed, normalise, rows

D = torch.float64


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("LayerNorm", lambda x, eps: torch.nn.functional.layer_norm(x, (4,), eps=eps)),
        ("RMSNorm", lambda x, eps: torch.nn.functional.rms_norm(x, (4,), eps=eps)),
        (
            "the tutorials' LayerNorm",
            lambda x, eps: (x - x.mean()) / ((x - x.mean()).square().sum().div(3).sqrt() + eps),
        ),
    ],
)
def test_outputs_and_gradients_are_those_of_an_independent_norm(name, theirs):
    for row in torch.randn(3, 4, dtype=D):
        output, gradient = normalise(row, 0.01, NORMS[name])
        assert torch.allclose(output, theirs(row, 0.01))
        assert torch.allclose(gradient, torch.autograd.functional.jacobian(lambda x: theirs(x, 0.01), row)[0])


def test_a_row_is_the_first_number_and_three_that_spread_evenly():
    assert rows(torch.tensor([2.0, -1.0]), 0.5).tolist() == [[2.0, -0.5, 0.0, 0.5], [-1.0, -0.5, 0.0, 0.5]]


@pytest.mark.parametrize(
    ("name", "slope"),
    [("LayerNorm", lambda eps: 0.75 / eps**0.5), ("the tutorials' LayerNorm", lambda eps: 0.75 / eps)],
)
@pytest.mark.parametrize("eps", [1e-1, 1e-2, 1e-4])
def test_the_answer_in_the_lesson_the_slope_at_a_constant_row(name, slope, eps):
    _, gradient = normalise(torch.zeros(4, dtype=D), eps, NORMS[name])
    assert gradient[0].item() == pytest.approx(slope(eps))


def test_the_answer_in_the_lesson_only_the_sign_counts_away_from_zero():
    outputs = NORMS["LayerNorm"](rows(torch.tensor([-3.0, -0.5, 0.5, 3.0], dtype=D), 0.0), 1e-5)[:, 0]
    assert torch.allclose(outputs, torch.tensor([-1.0, -1, 1, 1], dtype=D) * 3**0.5, rtol=1e-3)


def test_the_picture_shows_row_output_gradient_and_curve():
    explorer = explore_layer_norm()
    explorer.inputs["first"].value, explorer.inputs["spread"].value = 0.5, 1.0
    row = torch.tensor([0.5, -1.0, 0.0, 1.0], dtype=D)
    output, gradient = normalise(row, explorer.inputs["eps"].value, NORMS["LayerNorm"])
    _, _, _, here, text, *bars = explorer.animated
    assert np.allclose([bar.get_height() for bar in bars], torch.cat([row, output, gradient]))
    assert here.get_xydata().tolist() == [[0.5, output[0].item()]]
    assert text.get_text() == f"slope {gradient[0].item():.3g}"
    curve = explorer.animated[1].get_xydata()
    at = int((REACH - 0.5).abs().argmin())
    assert curve[at].tolist() == pytest.approx([0.5, output[0].item()])


def test_the_tangent_touches_the_curve_with_the_slope_of_the_gradient():
    from matplotlib.figure import Figure

    picture = NormPicture(Figure())
    picture.bars(np.array([1.0, 0, 0, 0]), np.array([0.5, 0, 0, 0]), np.array([7.0, 0, 0, 0]))
    (x0, y0), (x1, y1) = picture.slope.get_xydata()
    assert (y1 - y0) / (x1 - x0) == pytest.approx(7.0) and ((x0 + x1) / 2, (y0 + y1) / 2) == pytest.approx((1.0, 0.5))


def test_each_control_changes_the_picture_and_the_reading():
    explorer, seen = explore_layer_norm(), set()
    for name, value in [("first", 0.1), ("spread", 1.0), ("eps", 0.1), ("norm", "RMSNorm")]:
        explorer.inputs[name].value = value
        seen.add((explorer.image.value, explorer.reading.value))
    assert len(seen) == 4


def test_the_reading_gives_the_numbers():
    assert "output: 1.69, -0.56, -0.56, -0.56; gradient of the first output: 0.09, -0.03, -0.03, -0.03" in (
        explore_layer_norm().reading.value
    )


def test_numbers_are_listed_without_a_negative_zero():
    assert listed(torch.tensor([-0.001, 0.0, 1.239])) == "0.00, 0.00, 1.24"


def test_every_corner_of_the_controls_can_be_drawn():
    explorer = explore_layer_norm()
    for first, spread, eps, norm in itertools.product([-3, 0, 3], [0, 2], [1e-5, 1], NORMS):
        for name, value in {"first": first, "spread": spread, "eps": eps, "norm": norm}.items():
            explorer.inputs[name].value = value
        assert "nan" not in explorer.reading.value and "cannot be drawn" not in explorer.reading.value
