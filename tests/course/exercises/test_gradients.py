"""Gradients beside a right answer's: what is cut off, overwritten or left out is told by the name of its weight."""

import pytest
import torch
from torch import nn

from residual_course.checking.gradients import Part, filled, gradients, same_gradients
from residual_course.checking.properties import draw
from residual_course.checking.unmet import Unmet

pytestmark = pytest.mark.usefixtures("all_as_installed")


def unmet(function, *arguments, **keywords):
    with pytest.raises(Unmet) as caught:
        function(*arguments, **keywords)
    return str(caught.value)


def test_gradients_are_those_of_a_weighted_sum_and_what_has_none_is_named():
    x, y = draw(2, 3), draw(3, seed=1)
    found = gradients(lambda x, y: x * y, x, y)
    weights = draw(2, 3, seed=1)
    torch.testing.assert_close(found[0], weights * y)
    torch.testing.assert_close(found[1], (weights * x).sum(0))
    with torch.no_grad():
        assert torch.equal(gradients(lambda x, y: x * y, x, y)[0], found[0])
    assert unmet(gradients, lambda x, w: x * w.detach(), x, y).startswith("no gradient reaches `w`; is there")
    assert unmet(gradients, lambda x: x[0], y, like=y).startswith("it returned shape (), where (3,) was asked for")


def test_the_weights_are_not_alike():
    """A sum with equal weights has gradient 0 through every norm, so a wrong one would pass."""
    assert gradients(lambda x: nn.functional.layer_norm(x, (4,)), draw(2, 4))[0].abs().max() > 0.1


def two_branches(x, f, g):
    x = x + f(x)
    return x + g(x)


CASE = {"x": draw(2, 4), "f": Part(4), "g": Part(4, seed=1)}
TEST = same_gradients(two_branches, CASE)


def in_place(x, f, g):
    x = x + f(x)
    x += g(x)
    return x


def of_the_output(x, f, g):
    out = f(x)
    out += x
    return out + g(out)


@pytest.mark.parametrize("right", [two_branches, of_the_output, lambda x, f, g: torch.add(y := f(x) + x, g(y))])
def test_a_right_answer_passes_and_leaves_the_case_as_it_was(right):
    TEST(right)
    assert torch.equal(CASE["x"], draw(2, 4)) and CASE["f"].weight.grad is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (in_place, "its backward fails: an operation in place, such as `x += f(x)`, overwrote what a part had saved"),
        (lambda x, f, g: two_branches(x, f, lambda z: g(z).detach()), "no gradient reaches `g.weight`; is there a"),
        (lambda x, f, g: two_branches(x, lambda z: f(z.detach()), g), "the gradient of `x` at [0, 0] is "),
        (lambda x, f, g: two_branches(x, f, g).detach(), "no gradient reaches `x`; "),
        (lambda x, f, g: two_branches(x, g, f), "the output at [0, 0] is "),
        (lambda x, f, g: two_branches(x, f.requires_grad_(False), g), "it changed requires_grad of `f.weight` from "),
    ],
)
def test_what_is_wrong_is_told_by_name(wrong, message):
    assert unmet(TEST, wrong).startswith(message)


def test_modules_and_tensors_in_lists_are_compared_too():
    def chain(layers, pair):
        x = pair[0] * pair[1]
        for layer in layers:
            x = layer(x)
        return x

    test = same_gradients(chain, {"layers": [Part(4), Part(4, seed=1)], "pair": (draw(2, 4), draw(4, seed=1))})
    test(chain)
    assert unmet(test, lambda layers, pair: chain(layers, (pair[0], pair[1].data))).startswith(
        "no gradient reaches `pair[1]`"
    )
    cut = lambda layers, pair: layers[1](layers[0](pair[0] * pair[1]).detach())  # noqa: E731
    assert unmet(test, cut).startswith("no gradient reaches `layers[0].weight`")
    assert unmet(test, lambda layers, pair: layers.pop()(chain(layers, pair))).startswith(
        "it changed the length of `layers`"
    )


def scale(multiply, learn=True):
    class Scale(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.gamma = nn.Parameter(torch.zeros(dim)) if learn else torch.ones(dim)

        def forward(self, x):
            return multiply(x, self.gamma)

    return Scale


def test_a_class_is_built_filled_and_its_parameters_are_compared():
    def call(cls, x):
        module = filled(cls(4))
        return module(x), module

    test = same_gradients(scale(torch.mul), {"x": draw(3, 4)}, call=call)
    test(scale(lambda x, gamma: gamma * x))
    assert unmet(test, scale(lambda x, gamma: x * gamma.data)).startswith("no gradient reaches `gamma`")
    assert unmet(test, scale(torch.add)).startswith("the output at ")
    assert unmet(same_gradients(scale(lambda x, g: x), {"x": draw(2, 4)}, call=call), scale(lambda x, g: x, False)) == (
        "`gamma` is no parameter of its module; assign an `nn.Parameter` or a module to it"
    )


def test_parameters_are_filled_by_name_whatever_their_order():
    one, other = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}), nn.ModuleDict()
    other["b"], other["a"] = nn.Linear(2, 2), nn.Linear(2, 2)
    first, second = (dict(filled(module).named_parameters()) for module in (one, other))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["a.weight"], first["b.weight"])
