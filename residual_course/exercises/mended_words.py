"""Exercises on a network that ignores a part of its condition: the swap test, and a table of words to mend."""

from collections.abc import Callable
from functools import cache, partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Property,
    Unmet,
    close,
    draw,
    run,
    unchanged,
    value_of,
)
from residual_course.checking.properties import construct
from residual_course.datasets import digits
from residual_course.training import minibatches, train
from residual_edu import Attention, ClassificationResNet, LayerNorm, Patchify, QKVConditionMixer, ResidualBlock

# The swap test

Swap = Callable[[Any, Tensor, Tensor, Tensor], Any]
PICTURES = draw(40, 6).float()
WORDS = torch.randint(2, (40, 2), generator=torch.Generator().manual_seed(0))
OTHERS = torch.randint(2, (40, 2), generator=torch.Generator().manual_seed(1))


class _Net(nn.Module):
    def __init__(self, counts: float) -> None:
        super().__init__()
        self.pictures, self.words = draw(6, 10, seed=2).float(), 3 * counts * draw(2, 10, seed=3).float()

    def forward(self, pictures: Tensor, words: Tensor) -> Tensor:
        return pictures @ self.pictures + words.float() @ self.words


def swap_test(net: Any, pictures: Tensor, words: Tensor, others: Tensor) -> Any:
    """Return the share of answers that differ."""
    before, after = (net(pictures, asked).argmax(dim=-1) for asked in (words, others))
    return (before != after).float().mean().item()


def _share(f: Swap, others: Tensor = OTHERS, counts: float = 1) -> float:
    handed = {"pictures": PICTURES.clone(), "words": WORDS.clone(), "others": others.clone()}
    with unchanged(**handed):
        return float(value_of(lambda: f(_Net(counts), *handed.values())))


def tells(others: Tensor, counts: float = 1) -> Callable[[Swap], None]:
    """Return a test on a network, for words that are swapped for others."""

    def test(f: Swap) -> None:
        want = _share(swap_test, others, counts)
        close(_share(f, others, counts), want, "the share of changed answers", rtol=1e-5)

    return test


def of_answers(compare: Callable[[Tensor, Tensor], Any]) -> Swap:
    """Return a test that compares the answers so."""
    return lambda net, x, w, o: compare(net(x, w).argmax(-1), net(x, o).argmax(-1))


SWAP_TEST = Exercise(
    reference=swap_test,
    observe=lambda f: [_share(f), _share(f, WORDS)],
    properties=(
        Property("the same words: no answer changes", tells(WORDS)),
        Property("a network without words: no answer changes", tells(OTHERS, 0)),
        Property("other words: the share that changes", tells(OTHERS)),
    ),
    mistakes=(
        Mistake(of_answers(lambda a, b: (a == b).float().mean()), "the share that stays", "Compare with `!=`."),
        Mistake(of_answers(lambda a, b: (a != b).sum()), "a number of pictures, and no share", "Take the mean."),
        Mistake(
            lambda net, x, w, o: (net(x, w) != net(x, o)).float().mean(),
            "scores compared, and not answers",
            "An answer is the place of the largest score: `.argmax(dim=-1)`.",
        ),
    ),
    hints=(
        "Two calls of the network, and what differs between their answers.",
        "`.argmax(dim=-1)` of both, then the mean of where they differ, as a float.",
    ),
)

# The table

Table = Callable[[int], Any]  # makes what maps (batch, 2) numbers to (batch, 2, dim)
WIDTH, STEPS, RATE, ASKED = 32, 350, 0.002, 0.8
QUESTIONS = "0 0", "0 1", "1 0", "1 1"


class Numbers(nn.Module):
    """The table as it is handed over."""

    rows = 2

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(self.rows, dim)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return a vector for each number."""
        return self.table(numbers)


class Placed(Numbers):
    """The table, and a vector for each place."""

    size, learned = 1.0, True

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.place = nn.Parameter(self.size * torch.randn(2, dim), requires_grad=self.learned)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the sum."""
        return super().forward(numbers) + self.place


def _changed(base: type[Numbers], **values: Any) -> type[Numbers]:
    return type("Changed", (base,), values)


def table(f: Table) -> nn.Module:
    """Return an answer's table, or raise for what is none."""
    torch.manual_seed(0)
    made = construct(f, WIDTH).float()
    out = run(made, torch.tensor([[0, 1], [1, 0], [1, 1]]))
    if out.ndim != 3 or (len(out), out.shape[2]) != (3, WIDTH):
        raise Broken(f"`forward(numbers)` returned {tuple(out.shape)}, where (3, 2, {WIDTH}) was asked for")
    return made


@torch.no_grad()
def vectors(f: Table) -> Tensor:
    """Return each question's vectors in an order of their own: a set, (4, words, dim). What learns has moved a bit."""
    made = table(f)
    for parameter in made.parameters():
        parameter.add_(torch.randn(parameter.shape), alpha=0.1 * parameter.requires_grad)
    found = made(torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]))
    return torch.stack([one[one[:, 0].argsort()] for one in found])


def _differ(f: Table) -> None:
    for (name, one), (other_name, other) in combinations(zip(QUESTIONS, vectors(f), strict=True), 2):
        if torch.equal(one, other):
            raise Unmet(f'"{name}" and "{other_name}" are the same vectors, in one order or the other')


class _Patches(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.patchify = Patchify(in_features, out_features, 2, 4)
        self.place = nn.Parameter(0.5 * torch.randn(16, out_features))

    def forward(self, pictures: Tensor) -> Tensor:
        return self.patchify(pictures).flatten(1, 2) + self.place


def _block() -> ResidualBlock:
    made = ResidualBlock.standard(WIDTH, 4)
    made.condition_mixer = QKVConditionMixer(WIDTH, partial(Attention, WIDTH, 1, False, False))
    made.condition_mixer_norm = LayerNorm(WIDTH)
    return made


@cache
def _data() -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    found = digits()
    return _ask(found.train_images, found.train_labels, 6_000, 0), _ask(found.test_images, found.test_labels, 1_000, 1)


def _ask(images: Tensor, labels: Tensor, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(images), (count, 4), generator=generator)
    four = (2 * images[chosen] - 1).unflatten(1, (2, 2))  # (count, row, column, 8, 8)
    pictures = four.transpose(2, 3).flatten(3).flatten(1, 2)[..., None]
    numbers = torch.randint(2, (count, 2), generator=generator)
    return pictures, numbers, labels[chosen].gather(1, 2 * numbers[:, :1] + numbers[:, 1:])[:, 0]


def _reads(f: Table) -> None:
    made, (pictures, numbers, answers), (new, asked, truth) = table(f), *_data()
    torch.manual_seed(0)
    parts = (_Patches, nn.Linear, partial(LayerNorm, WIDTH), _block, nn.Identity)
    net = ClassificationResNet(1, 10, 2, WIDTH, 2, *parts)

    def scores(x: Tensor, c: Tensor) -> Tensor:
        return net({"input": x, "condition": made(c.clone())})["logits"]

    learned = [p for p in (*net.parameters(), *made.parameters()) if p.requires_grad]
    adam = torch.optim.Adam(learned, RATE, fused=True)
    with torch.enable_grad():
        batches = minibatches(pictures, numbers, answers, seed=0)
        train(lambda x, c, y: F.cross_entropy(scores(x, c), y), batches, adam, STEPS)
    with torch.no_grad():
        found = (scores(new, asked).argmax(-1) == truth).float().mean().item()
    if not found >= ASKED:
        raise Unmet(f"after {STEPS} steps it reads {found:.0%} of new digits")


MENDED_WORDS = Exercise(
    reference=Placed,
    observe=vectors,
    effort=25,  # it trains a network
    properties=(
        Property("no two of the four questions are the same vectors", _differ),
        Property(f"a network reads at least {ASKED:.0%} of new digits", _reads, trains=True),
    ),
    mistakes=(
        Mistake(Numbers, "the table as it was handed over", "What tells a row's number from a column's?"),
        Mistake(
            _changed(Numbers, rows=4),
            "a larger table, of which two rows are used",
            "Which numbers arrive? Let a column's number find a row of its own.",
        ),
        Mistake(
            _changed(Numbers, forward=lambda self, numbers: self.table(numbers) + self.table.weight.mean(0)),
            "the same vector added at both places",
            "Add another vector to a row's number than to a column's.",
        ),
        Mistake(
            _changed(Placed, size=1e-4, learned=False),
            "places that are far smaller than the words, and do not learn",
            "Compare their size with that of the table's rows.",
        ),
    ),
    hints=(
        'Print the table\'s output for "0 1" and for "1 0". In what do they differ, and does a sum over the words see '
        "it?",
        "What `Patches` adds to tell one place from another, two numbers need too: a vector for each of two places.",
    ),
)

EXERCISES = {"swap_test": SWAP_TEST, "mended_words": MENDED_WORDS}
