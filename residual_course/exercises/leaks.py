"""Exercise on dependence: the gradient of an output at later positions, and in other rows of the batch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, draw, unchanged
from residual_course.checking.properties import apart

Network = Callable[[Tensor], Tensor]
Answer = Callable[[Network, Tensor, int], Any]


def leaks(net: Network, x: Tensor, position: int) -> list[float]:
    """Return the largest gradient of an output of row 0 at later positions, and in other rows."""
    return variant(right_parts)(net, x, position)


def largest(part: Tensor) -> float:
    """Return the largest absolute number of a tensor, 0 for none."""
    return part.abs().max().item() if part.numel() else 0.0


class Mixing(nn.Module):
    """Weighted sums over positions, and over rows, between two maps of the channels."""

    def __init__(self, positions: int, rows: int, later: float = 0.0, others: float = 0.0) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(3, 4), nn.Linear(4, 2)
        for seed, p in enumerate(self.parameters()):
            p.data = draw(*p.shape, seed=seed)
        past = draw(positions, positions, seed=5).abs() + 0.5
        self.register_buffer("places", past.tril() + later * past.mT.triu(1))
        itself, share = torch.eye(rows).double(), torch.arange(1, rows + 1).double()  # the last row has the most
        self.register_buffer("batch", itself + others * share * (1 - itself))

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, positions, 2)."""
        return self.out(torch.einsum("rs,ij,sjc->ric", self.batch, self.places, torch.tanh(self.into(x))))


def case(positions: int = 5, rows: int = 3, shares: bool = False, **how: float) -> tuple[nn.Module, Tensor]:
    """Return a network, the same each time, and an input; its outputs add up to 1 where they are ``shares``."""
    net = Mixing(positions, rows, **how)
    return nn.Sequential(net, nn.Softmax(-1)) if shares else net, draw(rows, positions, 3, seed=7)


def asked(f: Answer, net: nn.Module, x: Tensor, position: int) -> list[float]:
    """Return the two numbers of an answer, or raise for what is no pair of numbers."""
    given = x.clone()
    with unchanged(x=given), torch.enable_grad():
        found = f(net, given, position)
    if any(p.grad is not None for p in net.parameters()):
        raise Broken("the network's weights have gradients now: `torch.autograd.grad(y, x)` stores none")
    if given.requires_grad or given.grad is not None:
        raise Broken("x was changed: it requires a gradient now. Work on a copy")
    if isinstance(found, Tensor | np.ndarray) and found.ndim == 1:
        found = found.tolist()
    if not isinstance(found, list | tuple) or len(found) != 2:
        raise Broken("it did not return two numbers")
    try:
        return [float(one) for one in found]
    except (TypeError, ValueError):
        raise Broken("it did not return two numbers") from None


def near(f: Answer, position: int, part: int, **how: Any) -> None:
    """Test one of the two numbers."""
    got, want = (asked(one, *case(**how), position)[part] for one in (f, leaks))
    if not abs(got - want) <= 1e-6 * max(1.0, abs(want)):
        seen, right = apart(got, want)
        raise Unmet(f"it is {seen} where {right} is right")


def _tight(f: Answer) -> None:
    for part in (0, 1):
        near(f, 2, part)


def _later(f: Answer) -> None:
    near(f, 1, 0, later=0.4)
    near(f, 1, 0, later=0.4, others=2.0)


def _last(f: Answer) -> None:
    near(f, 4, 0, later=0.4)
    near(f, 1, 1, rows=1, later=0.4)


def _shares(f: Answer) -> None:
    for part in (0, 1):
        near(f, 1, part, shares=True, later=0.4, others=0.3)


def _more(f: Answer) -> None:
    for part in (0, 1):
        near(f, 3, part, positions=9, rows=5, later=0.2, others=0.1)


def _observe(f: Answer) -> Any:
    leaky = case(later=0.4, others=2.0)
    return [asked(f, *leaky, 1), asked(f, *leaky, 3), asked(f, *case(), 2)]


def each(y: Tensor, position: int) -> Sequence[Tensor]:
    """Return every output of row 0 at the position."""
    return list(y[0, position])


def variant(
    pick: Callable[[Tensor, int], list[Tensor]],
    outputs: Callable[[Tensor, int], Sequence[Tensor]] = each,
    size: Callable[[Tensor], float] = largest,
) -> Callable[[Network, Tensor, int], list[float]]:
    """Return an answer that picks these parts of the gradients of these outputs; wrong unless they are the right."""

    def answer(net: Network, x: Tensor, position: int) -> list[float]:
        x = x.detach().clone().requires_grad_()
        grads = [torch.autograd.grad(one, x, retain_graph=True)[0] for one in outputs(net(x), position)]
        return [max(map(size, parts)) for parts in zip(*(pick(grad, position) for grad in grads), strict=True)]

    return answer


def signed(part: Tensor) -> float:
    """Return the largest number, not its size."""
    return part.max().item() if part.numel() else 0.0


def right_parts(grad: Tensor, position: int) -> list[Tensor]:
    """Return later positions of row 0, and other rows."""
    return [grad[0, position + 1 :], grad[1:]]


LEAKS = Exercise(
    reference=leaks,
    observe=_observe,
    properties=(
        Property("a network that leaks nothing: 0 and 0", _tight),
        Property("a network that leaks: the gradient at later positions", _later),
        Property("a network that leaks: the gradient in other rows", lambda f: near(f, 3, 1, others=0.3)),
        Property("at the last position, and with a single row, there is nothing to leak: 0", _last, (2,)),
        Property("outputs that add up to 1, as after a softmax", _shares, ()),
        Property("longer rows, more of them", _more, ()),
    ),
    mistakes=(
        Mistake(
            variant(lambda g, i: [g[0, i:], g[1:]]),
            "the position itself counted as later",
            "Later than i begins at i + 1.",
        ),
        Mistake(
            variant(lambda g, i: [g[0, :i], g[1:]]),
            "earlier positions in the place of later ones",
            "A causal output may depend on what came before; look behind `position`.",
        ),
        Mistake(
            variant(lambda g, i: [g[:, i + 1 :], g[1:]]),
            "later positions of all rows",
            "The first number concerns row 0 alone.",
        ),
        Mistake(
            variant(lambda g, i: [g[0, i + 1 :], g[1]]), "one other row alone", "All rows after row 0 are other rows."
        ),
        Mistake(
            variant(lambda g, i: right_parts(g, i)[::-1]), "the two in the other order", "Later positions come first."
        ),
        Mistake(
            variant(right_parts, lambda y, i: [y[0, i, 0]]),
            "the first of the outputs alone",
            "Ask every output at the position, one after the other.",
        ),
        Mistake(
            variant(right_parts, lambda y, i: [y[0, i].sum()]),
            "the sum of the outputs, in which they can cancel",
            "Ask every output by itself: after a softmax their sum is 1, whatever x is.",
        ),
        Mistake(
            variant(right_parts, lambda y, i: list(y[:, i].sum(0))),
            "outputs of all rows, so that each row counts as another's",
            "Take the output of row 0 alone: `net(x)[0, position]`.",
        ),
        Mistake(
            variant(right_parts, lambda y, i: list(y[0].sum(0))),
            "the outputs at all positions",
            "Take the output at `position` alone.",
        ),
        Mistake(
            variant(right_parts, size=signed),
            "the largest number, where the largest size was asked for",
            "A gradient may be negative.",
        ),
    ),
    hints=(
        "`torch.autograd.grad(y, x)` returns a tuple with the gradient of y, and stores none. "
        "`x.detach().clone()` is a tensor of your own.",
        "Behind the last position there is no later one, and the largest of no numbers is an error: append a zero, or "
        "look first whether there are any.",
    ),
)

EXERCISES = {"leaks": LEAKS}
