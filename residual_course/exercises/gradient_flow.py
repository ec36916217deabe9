"""Exercise on stream gradients, weight gradients, and the parts of skip and branch."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Property,
    close,
    draw,
    gradients,
    run,
    unchanged,
)
from residual_course.checking.seen import seen

Pair = Callable[[Tensor, Tensor], Tensor]
Share = Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], Tensor]

# Weight gradient = gradient at the output times input, summed over the batch


def is_the_gradient(f: Pair, batch: int, inputs: int, outputs: int) -> None:
    """Test one shape against autograd."""
    x, delta = draw(batch, inputs), draw(batch, outputs, seed=1)
    want = gradients(lambda weight: x @ weight.T, draw(outputs, inputs, seed=2))[0]
    close(run(f, x, delta, like=want), want, "the gradient")


def one_feature(f: Pair) -> None:
    """Test a layer of one output, and one of one input."""
    is_the_gradient(f, 4, 3, 1)
    is_the_gradient(f, 4, 1, 2)


SQUARE = draw(3, 3), draw(3, 3, seed=1)  # as many samples as features, so that a product the wrong way round fits
OBLONG = draw(6, 4), draw(6, 2, seed=1)

WEIGHT_GRADIENT = Exercise(
    reference=lambda x, delta: delta.T @ x,
    also_right=(
        lambda x, delta: torch.einsum("bo,bi->oi", delta, x),
        lambda x, delta: (delta[:, :, None] * x[:, None, :]).sum(0),
    ),
    observe=lambda f: seen(lambda: run(f, *SQUARE), lambda: run(f, *OBLONG)),
    properties=(
        Property("one sample: the outer product of g and x", lambda f: is_the_gradient(f, 1, 3, 2)),
        Property("a batch: summed over its samples", lambda f: is_the_gradient(f, 5, 3, 2)),
        Property("as many samples as features will do", lambda f: is_the_gradient(f, 3, 3, 3)),
        Property("one output, and one input: the axis of length 1 stays", one_feature),
    ),
    mistakes=(
        Mistake(lambda x, d: x.T @ d, "the transpose", "Rows belong to outputs: g comes first."),
        Mistake(lambda x, d: d @ x, "a product without a transpose", "Sum over samples, not features: turn g."),
        Mistake(lambda x, d: d.T @ x / len(x), "a mean over the batch", "Sum: a mean in the loss is in g already."),
        Mistake(
            lambda x, d: d[:, :, None] * x[:, None, :], "one gradient a sample", "Add them up over the first axis."
        ),
        Mistake(
            lambda x, d: torch.outer(d.sum(0), x.sum(0)),
            "sums taken before the product",
            "Multiply within each sample first, then sum over samples.",
        ),
        Mistake(lambda x, d: torch.outer(d[0], x[0]), "the first sample alone", "Sum over all samples."),
        Mistake(lambda x, d: x * d, "a product number by number", "Each output meets each input: an outer product."),
        Mistake(lambda x, d: -d.T @ x, "a step downhill", "The gradient itself has no minus."),
    ),
    hints=(
        "Which axis is summed over? A matrix product sums over the axis that its two factors share.",
        "(outputs, batch) times (batch, inputs): which of the two has to be turned for that?",
    ),
)

# What came back through the branch of y = x + f(x)


def branch(x: Tensor) -> Tensor:
    """Return a branch whose Jacobian is no constant."""
    return torch.tanh(x @ draw(4, 4, seed=5)) * x


def residual(x: Tensor) -> Tensor:
    """Return x + f(x)."""
    return x + branch(x)


def moved(x: Tensor) -> Tensor:
    """Return x + f(x) for an f that does not depend on x."""
    return x + draw(3, 4, seed=6)


def is_the_share(f: Share, f_of: Callable[[Tensor], Tensor], seed: int) -> None:
    """Test one branch and one delta against autograd through the branch alone."""
    x, delta = draw(3, 4), draw(3, 4, seed=seed)
    leaf = x.clone().requires_grad_()
    (want,) = torch.autograd.grad(f_of(leaf), leaf, delta)
    close(run(lambda x, delta: f(lambda x: x + f_of(x), x, delta), x, delta, like=x), want, "the share")


def leaves_all(f: Share) -> None:
    """Test that no gradient and no request for one is left on x, and that a constant branch has a share of 0."""
    x, delta = draw(3, 4), draw(3, 4, seed=1)
    for block in (residual, moved):
        with unchanged(x=x, g_out=delta):
            f(block, x, delta)
        if x.requires_grad or x.grad is not None:
            raise Broken("it left `requires_grad` or a gradient on `x`; work on `x.detach().clone()`")
    got = run(lambda x, g_out: f(moved, x, g_out), x, delta, like=x)
    close(got, 0 * x, "for a branch that does not depend on x, the share")


def split(block: Callable[[Tensor], Tensor], x: Tensor, delta: Tensor) -> Tensor:
    """Return the gradient with respect to the block's input."""
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(block(leaf), leaf, delta)[0]


def norm_apart(block: Callable[[Tensor], Tensor], x: Tensor, delta: Tensor) -> Tensor:
    """Return the difference of two sizes."""
    return split(block, x, delta).norm() - delta.norm()


BRANCH_GRADIENT = Exercise(
    reference=lambda block, x, delta: split(block, x, delta) - delta,
    also_right=(lambda block, x, delta: split(lambda x: block(x) - x, x, delta),),
    observe=lambda f: run(lambda x, delta: f(residual, x, delta), draw(6, 4), draw(6, 4, seed=1)),
    properties=(
        Property("it is what autograd finds through the branch alone", lambda f: is_the_share(f, branch, 1)),
        Property(
            "twice the gradient after the block, twice the branch's part", lambda f: is_the_share(f, lambda x: 2 * x, 2)
        ),
        Property("a branch that is 0 has a share of 0", lambda f: is_the_share(f, lambda x: 0 * x, 3)),
        Property("x and g_out stay as they are, also where f does not depend on x", leaves_all, hints=()),
    ),
    mistakes=(
        Mistake(split, "the gradient before the whole block", "Subtract what came along the skip."),
        Mistake(lambda b, x, d: d - split(b, x, d), "a wrong sign", "Before minus after."),
        Mistake(lambda b, x, d: d.clone(), "the skip's share", "That is what has to be taken away."),
        Mistake(
            lambda b, x, d: (b(x) - x).detach(),
            "what the branch adds to the signal",
            "Subtract on the way back, gradients from each other.",
        ),
        Mistake(
            lambda b, x, d: split(b, x, torch.ones_like(d)) - 1,
            "a gradient of ones after the block",
            "Hand `g_out` to `torch.autograd.grad` as its third argument.",
        ),
        Mistake(
            lambda b, x, d: split(b, x, d) - 1,
            "a skip that brings a 1, whatever was put in",
            "The skip brings g_out, number by number.",
        ),
        Mistake(norm_apart, "a difference of sizes", "Subtract the tensors, number by number."),
        Mistake(lambda b, x, d: split(b, x, d) - x, "x taken away", "Take g_out away, not the signal."),
        Mistake(lambda b, x, d: split(b, x, d) / d, "a ratio", "The two ways add up, so subtract."),
    ),
    hints=(
        "Autograd gives you the gradient before the whole block. Which part of it is not the branch's?",
        "`torch.autograd.grad` takes the gradient after the block third. What of its result came along the skip?",
    ),
)

EXERCISES = {"weight_gradient": WEIGHT_GRADIENT, "branch_gradient": BRANCH_GRADIENT}
