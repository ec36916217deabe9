"""Exercise on the loss of a language model at each position: which token is the right answer where."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, run

Model = Callable[[Tensor], Tensor]
Answer = Callable[[Model, Tensor], Tensor]
VOCABULARY = 7


def _entropy(scores: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(scores.mT, wanted, reduction="none")


def losses(model: Model, rows: Tensor) -> Tensor:
    """Return the mean over the rows of the loss at each position."""
    return _entropy(model(rows[:, :-1]), rows[:, 1:]).mean(0)


class Sums(nn.Module):
    """A causal model of sums: scores depend on the position, the token, and those before; it counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.calls = nn.Parameter(draw(VOCABULARY, VOCABULARY)), 0

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (batch, positions, vocabulary)."""
        self.calls += 1
        place = torch.arange(1, tokens.shape[1] + 1, dtype=torch.float64)
        return self.table[tokens].cumsum(1) / place.sqrt()[:, None] * 1.5


def rows_of(batch: int, length: int) -> Tensor:
    """Return random tokens."""
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def _asked(f: Answer, model: Model, rows: Tensor) -> Tensor:
    return run(lambda: f(model, rows), like=torch.zeros(rows.shape[1] - 1).double())


def _next(f: Answer) -> None:
    def shifted(more: int) -> Model:
        return lambda tokens: 20 * F.one_hot((tokens + more) % VOCABULARY, VOCABULARY).double()

    rows = torch.arange(5)[None].repeat(2, 1)  # each token is one more than the one before
    copies, follows = (_asked(f, shifted(more), rows) for more in (0, 1))
    if not follows.max() < 0.1:
        raise Unmet(f"for a model that is always right about the next token the largest loss is {follows.max():.2f}")
    if not copies.min() > 10:
        raise Unmet(f"for a model that repeats its input the smallest loss is {copies.min():.2f}")


def _values(f: Answer) -> None:
    for batch, length in [(3, 6), (5, 4), (1, 8), (4, 2)]:
        model, rows = Sums(), rows_of(batch, length)
        close(_asked(f, model, rows), losses(model, rows), f"for {batch} rows of {length} tokens the loss")


def _learns(f: Answer) -> None:
    model, rows = Sums(), rows_of(4, 6)
    with torch.enable_grad():
        total, wanted = f(model, rows).mean(), losses(model, rows).mean()
    if not (isinstance(total, Tensor) and total.requires_grad):
        raise Broken("no gradient reaches the model's weights")
    got, want = (torch.autograd.grad(loss, model.table)[0] for loss in (total, wanted))
    close(got, want, "the gradient of a weight")


def _once(f: Answer) -> None:
    model = Sums()
    f(model, rows_of(3, 6))
    if model.calls != 1:
        raise Broken(f"it called the model {model.calls} times, where once was asked for")


LOSSES = Exercise(
    reference=losses,
    observe=lambda f: [f(Sums(), rows_of(3, 6)).detach(), f(Sums(), rows_of(4, 5)).detach()],
    properties=(
        Property("the right answer at a position is the next token", _next),
        Property("n losses, each the mean over the rows", _values),
        Property("a gradient for the training", _learns, ()),
        Property("the model is called once", _once, ()),
    ),
    mistakes=(
        Mistake(
            lambda model, rows: _entropy(model(rows[:, :-1]), rows[:, :-1]).mean(0),
            "a model asked for the token that it has just received",
            "The right answers begin one token later.",
        ),
        Mistake(
            lambda model, rows: _entropy(model(rows[:, :-1]).softmax(-1), rows[:, 1:]).mean(0),
            "a softmax before the cross-entropy, which takes one itself",
            "Hand the scores over as they are.",
        ),
        Mistake(
            lambda model, rows: _entropy(model(rows[:, :-1]), rows[:, 1:]).mean(1),
            "a mean over the positions, one number for each row",
            "Positions are axis 1, and stay.",
        ),
    ),
    hints=(
        "Which tokens does the model receive, and which are the right answers? Both have n positions.",
        '`F.cross_entropy` wants the classes on axis 1; `reduction="none"` keeps rows and positions, of which one axis '
        "is then averaged.",
    ),
)

EXERCISES = {"losses_by_position": LOSSES}
