"""Exercise on the loss of a language model at each position: which token is the right answer where."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, run

Model = Callable[[Tensor], Tensor]
Answer = Callable[[Model, Tensor], Tensor]
VOCABULARY = 7


def entropy(scores: Tensor, wanted: Tensor) -> Tensor:
    """Return the cross-entropies, (batch, positions)."""
    return F.cross_entropy(scores.mT, wanted, reduction="none")


def losses(model: Model, rows: Tensor) -> Tensor:
    """Return the mean over the rows of the loss at each position."""
    return entropy(model(rows[:, :-1]), rows[:, 1:]).mean(0)


def by_log_softmax(model: Model, rows: Tensor) -> Tensor:
    """Write the cross-entropy out."""
    shares = model(rows[:, :-1]).log_softmax(-1)
    return -shares.gather(-1, rows[:, 1:, None])[..., 0].mean(0)


def all_given(model: Model, rows: Tensor) -> Tensor:
    """Give the last token too, and drop its scores."""
    return entropy(model(rows)[:, :-1], rows[:, 1:]).mean(0)


class Sums(nn.Module):
    """A causal model of sums: scores depend on the position, the token, and those before; it counts its calls."""

    def __init__(self, vocabulary: int = VOCABULARY, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(vocabulary, vocabulary, generator=generator, dtype=torch.float64)
        self.table, self.calls = nn.Parameter(table), 0

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (batch, positions, vocabulary)."""
        self.calls += 1
        place = torch.arange(1, tokens.shape[1] + 1, dtype=torch.float64)
        return self.table[tokens].cumsum(1) / place.sqrt()[:, None] * 1.5


def rows_of(batch: int, length: int, seed: int = 1) -> Tensor:
    """Return random tokens."""
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def asked(f: Answer, batch: int = 3, length: int = 6, seed: int = 0) -> Tensor:
    """Return an answer's losses, or raise for another shape."""
    model, rows = Sums(seed=seed), rows_of(batch, length, seed + 1)
    return run(lambda: f(model, rows), like=losses(model, rows))


def _next(f: Answer) -> None:
    def copies(tokens: Tensor) -> Tensor:
        return 20 * F.one_hot(tokens, VOCABULARY).double()

    def follows(tokens: Tensor) -> Tensor:
        return 20 * F.one_hot((tokens + 1) % VOCABULARY, VOCABULARY).double()

    rows = torch.arange(5)[None].repeat(2, 1)  # each token is one more than the one before
    seen = run(lambda: f(follows, rows), like=torch.zeros(4).double())
    if not seen.max() < 0.1:
        raise Unmet(f"for a model that is always right about the next token the largest loss is {seen.max():.2f}")
    seen = run(lambda: f(copies, rows), like=torch.zeros(4).double())
    if not seen.min() > 10:
        raise Unmet(f"for a model that repeats its input the smallest loss is {seen.min():.2f}")


def _values(f: Answer) -> None:
    for batch, length in [(3, 6), (5, 4), (1, 8), (4, 2)]:
        model, rows = Sums(), rows_of(batch, length)
        wanted = losses(model, rows)
        name = f"for {batch} rows of {length} tokens the loss"
        close(run(lambda model=model, rows=rows: f(model, rows), like=wanted), wanted, name)


def _learns(f: Answer) -> None:
    model, other, rows = Sums(), Sums(), rows_of(4, 6)
    with torch.enable_grad():
        total = f(model, rows).mean()
        if not (isinstance(total, Tensor) and total.requires_grad):
            raise Broken("no gradient reaches the model's weights")
        total.backward()
        losses(other, rows).mean().backward()
    grad = model.table.grad
    close(torch.zeros_like(other.table) if grad is None else grad, other.table.grad, "the gradient of a weight")


def _once(f: Answer) -> None:
    model = Sums()
    f(model, rows_of(3, 6))
    if model.calls != 1:
        raise Broken(f"it called the model {model.calls} times, where once was asked for")


LOSSES = Exercise(
    reference=losses,
    also_right=(by_log_softmax, all_given),
    observe=lambda f: [asked(f), asked(f, 4, 5, seed=3), asked(f, 2, 4, seed=5).requires_grad],
    properties=(
        Property("the right answer at a position is the next token", _next),
        Property("n losses, each the mean over the rows", _values),
        Property("a gradient for the training", _learns, ()),
        Property("the model is called once", _once, ()),
    ),
    mistakes=(
        Mistake(
            lambda model, rows: entropy(model(rows[:, :-1]), rows[:, :-1]).mean(0),
            "a model asked for the token that it has just received",
            "The right answers begin one token later.",
        ),
        Mistake(
            lambda model, rows: entropy(model(rows[:, 1:]), rows[:, :-1]).mean(0),
            "a model asked for the token before",
            "It receives all but the last token, and is asked for all but the first.",
        ),
        Mistake(
            lambda model, rows: entropy(model(rows[:, 1:]), rows[:, 1:]).mean(0),
            "a model that receives the right answers",
            "It receives all but the last token.",
        ),
        Mistake(
            lambda model, rows: entropy(model(rows[:, :-1]).softmax(-1), rows[:, 1:]).mean(0),
            "a softmax before the cross-entropy, which takes one itself",
            "Hand the scores over as they are.",
        ),
        Mistake(
            lambda model, rows: entropy(model(rows[:, :-1]), rows[:, 1:]).sum(0),
            "a sum over the rows",
            "Take the mean over the rows.",
        ),
        Mistake(
            lambda model, rows: entropy(model(rows[:, :-1]), rows[:, 1:]).mean(1),
            "a mean over the positions, one number for each row",
            "Positions are axis 1, and stay.",
        ),
        Mistake(
            lambda model, rows: entropy(model(rows[:, :-1]), rows[:, 1:]).mean(),
            "one number for all positions",
            "Take the mean over the rows alone.",
        ),
        Mistake(
            lambda model, rows: entropy(model(rows[:, :-1]), rows[:, 1:])[0],
            "the losses of the first row alone",
            "Take the mean over the rows.",
        ),
        Mistake(
            lambda model, rows: entropy(model(rows[:, :-1]), rows[:, 1:]).mean(0).detach(),
            "losses that give no gradient",
            "The training needs it: leave out `.detach()` and `no_grad`.",
        ),
        Mistake(
            lambda model, rows: entropy(model(rows[:, :-1]), rows[:, 1:]).mean(0) / torch.log(torch.tensor(2.0)),
            "bits in the place of the natural logarithm",
            "`F.cross_entropy` is right as it is.",
        ),
    ),
    hints=(
        "Which tokens does the model receive, and which are the right answers? Both have n positions.",
        '`F.cross_entropy` wants the classes on axis 1; `reduction="none"` keeps rows and positions, of which one axis '
        "is then averaged.",
    ),
)

EXERCISES = {"losses_by_position": LOSSES}
