"""Exercise on GRN: let the channels of each sample compete."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, gradients, run, same_gradients

Compete = Callable[[Tensor, Tensor, Tensor, float], Tensor]
Sizes = Callable[[Tensor], Tensor]


def size(x: Tensor) -> Tensor:
    """Return the size of each channel of each sample, over all its tokens."""
    return x.square().sum(1, keepdim=True).sqrt()


def by(sizes: Sizes, mean: Sizes = lambda s: s.mean(-1, keepdim=True)) -> Compete:
    """Return GRN with another way to take ``sizes`` or their ``mean``."""
    return lambda x, gamma, beta, eps: gamma * x * sizes(x) / (mean(sizes(x)) + eps) + beta + x


compete = by(size)
HAND = torch.tensor([[[3.0, 1], [4, 0]]], dtype=torch.float64)  # sizes 5 and 1, their mean 3
ONES, ZEROS = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)


def called(f: Compete, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-6) -> Tensor:
    """Return the output of ``f`` for copies of all three tensors."""
    return run(lambda x, gamma, beta: f(x, gamma, beta, eps), x, gamma, beta, like=x)


def _closed(f: Compete) -> None:
    close(called(f, HAND, ZEROS, ZEROS), HAND, "with gamma and beta 0, the output for 3, 1 and 4, 0")


def _by_hand(f: Compete) -> None:
    close(called(f, HAND, ONES, ZEROS), HAND * (1 + HAND.new_tensor([5 / 3, 1 / 3])), "with gamma 1, the output", 1e-5)


def _eps(f: Compete) -> None:
    right = HAND * (1 + HAND.new_tensor([5 / 4, 1 / 4]))
    close(called(f, HAND, ONES, ZEROS, 1.0), right, "with gamma 1 and eps 1, the output", 1e-5)


def _bias(f: Compete) -> None:
    close(called(f, HAND, ZEROS, ONES), HAND + 1, "with gamma 0 and beta 1, the output")


def _samples(f: Compete) -> None:
    x, gamma = torch.cat([HAND, 10 * draw(2, 2, 2)]), ONES
    close(called(f, x, gamma, ZEROS)[:1], compete(HAND, gamma, ZEROS, 1e-6), "beside other samples, the output", 1e-5)


def _any_shape(f: Compete) -> None:
    for shape in [(2, 3, 4), (3, 7, 2), (1, 1, 5)]:
        x, gamma, beta = draw(*shape), draw(shape[-1], seed=1), draw(shape[-1], seed=2)
        close(called(f, x, gamma, beta), compete(x, gamma, beta, 1e-6), f"the output for shape {shape}", 1e-5)


def _silence(f: Compete) -> None:
    close(called(f, 0 * HAND, ONES, ZEROS), 0 * HAND, "the output for a sample of zeros")


LEARNED = {"x": draw(2, 3, 4), "gamma": draw(4, seed=1), "beta": draw(4, seed=2), "eps": 0.1}


def observe(f: Compete) -> tuple[Tensor, ...]:
    """Return the output and a gradient for one input, and the output for zeros."""
    x, gamma, beta = draw(2, 5, 3, seed=7) + 1, draw(3, seed=8), draw(3, seed=9)
    silent = called(f, torch.zeros(1, 2, 2, dtype=torch.float64), ONES, ZEROS)
    return called(f, x, gamma, beta, 0.5), *gradients(lambda x: f(x, gamma, beta, 1e-6), x), silent


COMPETE = Exercise(
    reference=compete,
    also_right=(by(lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True)),),
    observe=observe,
    properties=(
        Property("with gamma and beta 0 nothing changes", _closed),
        Property("channels of sizes 5 and 1 grow by 5/3 and by 1/3", _by_hand),
        Property("eps is added to the mean, 3 + 1 for an eps of 1", _eps),
        Property("beta is added to each channel", _bias),
        Property("a sample does not see the others", _samples),
        Property("any number of samples, tokens and channels will do", _any_shape),
        Property("a sample of zeros stays zero", _silence),
        Property(
            "gradients reach x, through the sizes too, gamma and beta", same_gradients(compete, LEARNED), hints=()
        ),
    ),
    mistakes=(
        Mistake(
            lambda x, gamma, beta, eps: compete(x, gamma, beta, eps) - x,
            "the competition without the skip",
            "Add x itself at the end: at gamma 0 GRN must return its input.",
        ),
        Mistake(
            by(lambda x: x.square().sum(-1, keepdim=True).sqrt(), lambda s: s.mean(1, keepdim=True)),
            "tokens that compete: each one's size over its channels",
            "A channel's size is taken over the tokens: `dim=1`.",
        ),
        Mistake(
            by(lambda x: x.square().sum((0, 1), keepdim=True).sqrt()),
            "one competition for the whole batch",
            "Leave the first axis alone: each sample has sizes of its own.",
        ),
        Mistake(
            by(lambda x: x.square().sum(1, keepdim=True)), "the sum of squares without its root", "Take the root of it."
        ),
        Mistake(
            by(lambda x: x.abs().sum(1, keepdim=True)), "the sum of absolute values", "Square, add up, take the root."
        ),
        Mistake(
            by(size, lambda s: s.sum(-1, keepdim=True)),
            "a division by the sum of the sizes",
            "Divide by their mean, so that a channel of middling size gets 1.",
        ),
        Mistake(
            by(size, lambda s: s.amax(-1, keepdim=True)),
            "a division by the largest size",
            "Divide by the mean of the sizes.",
        ),
        Mistake(
            by(size, lambda s: s.mean()),
            "a mean over all samples",
            "Keep a mean for each sample: `.mean(-1, keepdim=True)`.",
        ),
        Mistake(
            lambda x, gamma, beta, eps: compete(x, gamma, 0 * beta, eps), "beta left out", "Add beta to each channel."
        ),
        Mistake(
            lambda x, gamma, beta, eps: compete(x, gamma, 0 * beta, eps) + (gamma - 1) * x + beta,
            "gamma laid on the skip as well",
            "Only the competition is scaled: `gamma * (x * n) + beta + x`.",
        ),
        Mistake(
            lambda x, gamma, beta, eps: compete(x, gamma, beta, 0.0),
            "a division without eps",
            "Add eps to the mean: a silent sample is 0/0 without it.",
        ),
        Mistake(
            lambda x, gamma, beta, eps: compete(x, gamma, beta, 1e-6),
            "an eps of your own instead of the one that is given",
            "Add the argument `eps` to the mean.",
        ),
        Mistake(
            by(lambda x: x.square().mean(1, keepdim=True).sqrt()),
            "the mean of the squares over the tokens, instead of their sum",
            "Add the squares up: `.sum(1, keepdim=True)`.",
        ),
        Mistake(
            by(lambda x: size(x).detach()),
            "sizes cut off from their gradient",
            "Leave out `.detach()` and `no_grad`.",
        ),
    ),
    hints=(
        "How many sizes does a sample have: as many as it has tokens, or as many as it has channels?",
        "Sum the squares over the tokens and keep that axis: (samples, 1, channels). Over which axis runs the mean?",
    ),
)

EXERCISES = {"compete": COMPETE}
