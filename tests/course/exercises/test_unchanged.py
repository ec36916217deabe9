"""What is handed to an answer stays as it was, and so do the session's settings; what does not is told by name."""

import pytest
import torch
from torch import nn

from residual_course.checking.properties import draw
from residual_course.checking.unchanged import unchanged
from residual_course.checking.unmet import Broken


def message(body, **handed):
    with pytest.raises(Broken) as caught, unchanged(**handed):
        body()
    return str(caught.value)


@pytest.fixture
def settings():
    yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)


def test_what_is_only_read_passes():
    layers, x = [nn.Linear(2, 2)], torch.tensor([float("nan"), 1.0])
    with unchanged(layers=layers, x=x, n=3, f=len):
        layers[0](x), list(layers), torch.rand(2)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda h: h["x"].add_(1), "it changed `x` in place; "),
        (lambda h: h["x"].requires_grad_(), "it changed requires_grad of `x` from False to True; leave what you are"),
        (lambda h: h["layers"].pop(), "it changed the length of `layers` from 2 to 1; "),
        (lambda h: h["layers"].reverse(), "it changed the entries of `layers`; work on a copy"),
        (lambda h: h["layers"][1].eval(), "it changed the mode of `layers[1]` from train to eval; "),
        (
            lambda h: h["layers"][0].register_forward_hook(print),
            "it changed the number of hooks of `layers[0]` from 0 to 1",
        ),
        (lambda h: h["layers"][0].bias.data.zero_(), "it changed `layers[0].bias` in place; "),
        (
            lambda h: h["layers"][0].requires_grad_(False),
            "it changed requires_grad of `layers[0].weight` from True to F",
        ),
        (lambda h: h["layers"][0].register_buffer("b", torch.ones(1)), "it added `layers[0].b`; "),
        (lambda h: h["norm"](draw(3, 2).float()), "it changed `norm.running_mean` in place; "),
        (lambda h: torch.set_grad_enabled(False), "it left torch.is_grad_enabled() at False, where it was True before"),
        (lambda h: torch.set_default_dtype(torch.float64), "it left torch.get_default_dtype() at torch.float64, where"),
        (lambda h: torch.manual_seed(3), "it left the seed of torch's random numbers at 3, where it was 0 before"),
    ],
)
def test_what_changes_is_named(settings, body, text):
    layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
    handed = {"x": draw(3), "layers": layers, "norm": nn.BatchNorm1d(2), "table": {"a": 1}}
    assert message(lambda: body(handed), **handed).startswith(text)


def test_an_error_of_the_body_comes_first():
    x = draw(2)
    with pytest.raises(ZeroDivisionError), unchanged(x=x):
        x.add_(1 / 0)
