"""Exercise on the swap test: what a wrong label adds to a network's loss."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, value_of

Loss = Callable[[Tensor], Tensor]
Answer = Callable[[Loss, Tensor], Any]


def swap_test(loss: Loss, labels: Tensor) -> Any:
    """Return the mean loss of the nine wrong labels of each sample, less that of the right ones."""
    return sum(loss((labels + k) % 10) for k in range(1, 10)) / 9 - loss(labels)


def one_hot_way(loss: Loss, labels: Tensor) -> Any:
    """Return the same from all ten rotations, of which one is right."""
    every = torch.stack([loss((labels + k) % 10) for k in range(10)])
    return (every.sum() - every[0]) / 9 - every[0]


class Network:
    """Stands for a trained network: what each of ten labels costs for each sample. It counts its calls."""

    def __init__(self, samples: int, seed: int = 0, deaf: bool = False) -> None:
        self.costs = draw(samples, 10, seed=seed).square() * (0 if deaf else 1) + 0.3
        self.labels = torch.randint(10, (samples,), generator=torch.Generator().manual_seed(seed + 1))
        self.asked: list[Tensor] = []

    def loss(self, labels: Tensor) -> Tensor:
        """Return the mean loss where sample i is told ``labels[i]``."""
        if not isinstance(labels, Tensor) or labels.shape != self.labels.shape:
            raise Broken("`loss` takes one label for each sample, a tensor with the shape of `labels`")
        if labels.min() < 0 or labels.max() > 9:
            raise Broken(f"`loss` was asked for label {int(labels.max())}; there are ten, 0 to 9")
        self.asked.append(labels.clone())
        return self.costs.gather(1, labels.long()[:, None]).mean()

    def right(self) -> float:
        """Return what a wrong label adds, from the table."""
        true = self.costs.gather(1, self.labels[:, None]).squeeze(1)
        return float(((self.costs.sum(1) - true) / 9 - true).mean())


def measured(f: Answer, samples: int, seed: int = 0, deaf: bool = False) -> tuple[float, Network]:
    """Return an answer's number, and the network that it asked."""
    network = Network(samples, seed, deaf)
    before = network.labels.clone()
    got = float(value_of(lambda: f(network.loss, network.labels), float))
    if not network.labels.equal(before):
        raise Broken("it changed `labels`; work on a copy")
    return got, network


def _deaf(f: Answer) -> None:
    got, _ = measured(f, 40, deaf=True)
    if not abs(got) < 1e-6:
        raise Unmet(f"for a network whose loss is the same with every label it returned {got:.4g}, where 0 is right")


def _number(f: Answer) -> None:
    for samples, seed in ((40, 0), (7, 3), (1, 5)):
        got, network = measured(f, samples, seed)
        close(torch.tensor(got), torch.tensor(network.right()), f"with {samples} samples, what a wrong label adds")


def _each_once(f: Answer) -> None:
    _, network = measured(f, 30)
    wrong = [tuple(asked.tolist()) for asked in network.asked if not asked.equal(network.labels)]
    seen = torch.zeros(30, 10)
    for asked in wrong:
        seen[torch.arange(30), torch.tensor(asked)] += 1
    seen[torch.arange(30), network.labels] = 1
    if not (seen > 0).all():
        raise Unmet(f"{int((seen == 0).sum())} of 270 pairs of a sample and a wrong label were never asked for")


WRONG_LABEL_ADDS = Exercise(
    reference=swap_test,
    also_right=(one_hot_way,),
    observe=lambda f: [measured(f, 40)[0], measured(f, 7, 3)[0]],
    properties=(
        Property("a network that ignores its label: 0", _deaf, ()),
        Property("every sample is asked for with each of its nine wrong labels", _each_once),
        Property("the mean of the wrong ones, less the right one", _number),
    ),
    mistakes=(
        Mistake(
            lambda loss, labels: loss((labels + 1) % 10) - loss(labels),
            "one wrong label for each sample",
            "There are nine wrong labels: for k from 1 to 9, every sample can be told its label plus k.",
        ),
        Mistake(
            lambda loss, labels: sum(loss((labels + k) % 10) for k in range(10)) / 10 - loss(labels),
            "a mean over ten labels, in which the right one counts too",
            "With k = 0 every sample is told its right label.",
        ),
        Mistake(
            lambda loss, labels: sum(loss((labels + k) % 10) for k in range(1, 10)) - loss(labels),
            "a sum where a mean was asked for",
            "Divide by the number of wrong labels.",
        ),
        Mistake(
            lambda loss, labels: loss(labels) - sum(loss((labels + k) % 10) for k in range(1, 10)) / 9,
            "the difference the other way round",
            "What a wrong label *adds* is above 0 where the label is used.",
        ),
        Mistake(
            lambda loss, labels: sum(loss((labels + k) % 10) for k in range(1, 10)) / 9,
            "the loss with wrong labels alone",
            "Subtract the loss with the right ones.",
        ),
        Mistake(
            lambda loss, labels: loss(torch.zeros_like(labels)) - loss(labels),
            "one label for all samples, which is right for some of them",
            "Add k to each sample's own label, so that none is told the right one.",
        ),
        Mistake(
            lambda loss, labels: loss(labels.flip(0)) - loss(labels),
            "labels in another order, some of which are right by chance",
            "Add k to each sample's own label instead: then none is right.",
        ),
        Mistake(
            lambda loss, labels: sum(loss((labels + k) % 10) for k in range(1, 10)) / 9 / loss(labels),
            "a ratio where a difference was asked for",
            "Subtract the loss with the right labels.",
        ),
    ),
    hints=(
        "How do you change all labels at once so that every one of them is wrong, and stays between 0 and 9?",
        "For k from 1 to 9, the remainder of the label plus k, divided by 10, is a wrong label; these are all.",
    ),
)

EXERCISES = {"wrong_label_adds": WRONG_LABEL_ADDS}
