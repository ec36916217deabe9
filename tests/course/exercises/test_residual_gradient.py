"""The stack that tells "each layer alone" from "gradients added up", by the factors alone: a rotation keeps lengths."""

from residual_course.exercises.residual_gradient import DEPTH_TO_FIND, STACKS, TOKENS

BY = {mistake.looks_like: mistake.wrong for mistake in DEPTH_TO_FIND.mistakes}


def test_one_large_layer_and_two_tiny_ones():
    """The gradient is 1e3, 1e-4, 1e-11 times one of length 2; alone 1e3, 1e-7; added up never below 1e3."""
    stack = STACKS["one large layer and two tiny ones"]
    assert DEPTH_TO_FIND.reference(stack, TOKENS) == 3
    assert BY["each layer tried alone"](stack, TOKENS) == 2
    assert BY["gradients of all depths added up in x.grad"](stack, TOKENS) is None
