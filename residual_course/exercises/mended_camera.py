"""Exercise on mending: a network with LayerNorm that does not learn from a camera's pictures."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, unchanged
from residual_course.datasets import camera_digits, digits
from residual_course.exercises.classifier import Network, outputs
from residual_course.training import minibatches, train

Answer = Callable[[Tensor, Tensor, int], Network]

ASKED = 0.9  # the share of test digits that must be right, with each seed
GUESSED = 0.35  # below this a part counts as not read at all


@cache
def pictures() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return images (n, 64) and labels to train on and to test on; the test images from the darkest on."""
    train_x, train_y, test_x, test_y = camera_digits()
    order = test_x.amax((1, 2)).argsort()
    return train_x.flatten(1), train_y, test_x.flatten(1)[order], test_y[order]


def right(network: Network, x: Tensor, y: Tensor) -> Tensor:
    """Return for each image whether ``network`` classifies it rightly, or raise ``Unmet`` for what is no network."""
    return (outputs(network, x).argmax(-1) == y).float()


def trained(f: Answer, seed: int) -> Network:
    """Return what ``f`` returns for copies of the training pictures."""
    x, y = (part.clone() for part in pictures()[:2])
    with unchanged(x=x, y=y), torch.random.fork_rng(devices=[]):  # an answer may seed, as the lesson's own does
        return f(x, y, seed)


def shares(f: Answer, seed: int) -> list[float]:
    """Return the share of test digits that are right: of all, of the darkest third, and of the brightest third."""
    _, _, x, y = pictures()
    found = right(trained(f, seed), x, y)
    third = len(found) // 3
    return [part.mean().item() for part in (found, found[:third], found[-third:])]


def _outputs(f: Answer) -> None:
    shares(f, 0)


def _reads(f: Answer) -> None:
    for seed in range(3):
        all_of_them, dark, bright = shares(f, seed)
        if all_of_them < ASKED:
            raise Unmet(
                f"with seed {seed} it is {all_of_them:.0%}: {dark:.0%} of the darkest third of the images and "
                f"{bright:.0%} of the brightest third"
            )


def _observe(f: Answer) -> Any:
    """Return in words which pictures are read: the darkest, the brightest, and plain digits."""
    network, plain = trained(f, 0), digits()
    _, _, x, y = pictures()
    found, third = right(network, x, y), len(x) // 3
    parts = found[:third], found[-third:], right(network, plain.test_images.flatten(1), plain.test_labels)
    return ["read" if part.mean() > ASKED else "partly" if part.mean() > GUESSED else "not read" for part in parts]


# Answers of our own: a network of two layers shows the same as the lesson's sixteen blocks


def learn(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """Return a network with a LayerNorm, trained with Adam on ``x`` and ``y``."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10))
    adam = torch.optim.Adam(network.parameters(), 0.01)
    train(lambda x, y: cross_entropy(network(x), y), minibatches(x, y, seed=seed), adam, steps=200)
    return network


def first(change: Callable[[Tensor], Tensor]) -> Answer:
    """Return an answer that applies ``change`` to images before it trains and before it classifies."""

    def mended(x: Tensor, y: Tensor, seed: int) -> Network:
        network = learn(change(x), y, seed)
        return lambda images: network(change(images))

    return mended


def one_factor(x: Tensor, y: Tensor, seed: int) -> Network:
    """Return a network whose images are all divided by the rms of the training images."""
    size = x.square().mean().sqrt()
    network = learn(x / size, y, seed)
    return lambda images: network(images / size)


def own_size(x: Tensor) -> Tensor:
    """Return each image divided by its own rms."""
    return x / x.square().mean(-1, keepdim=True).sqrt()


def classes(x: Tensor, y: Tensor, seed: int) -> Network:
    """Return a function that maps images to classes."""
    network = first(own_size)(x, y, seed)
    return lambda images: network(images).argmax(-1)


MENDED_CAMERA = Exercise(
    reference=first(lambda x: layer_norm(x, (64,), eps=1e-20)),
    also_right=(first(own_size), first(lambda x: x / x.amax(-1, keepdim=True))),
    observe=_observe,
    effort=10,  # it trains
    properties=(
        Property("it returns a function that maps images to ten outputs each", _outputs),
        Property("90 % of the test digits are right with each of three seeds", _reads),
    ),
    mistakes=(
        Mistake(
            learn,
            "a network that reads none of the camera's images",
            "Print the standard deviation of a few images, and what the first norm returns for them.",
        ),
        Mistake(
            one_factor,
            "a mend for the bright images alone",
            "Compare a dark image with a bright one, before and after what your mend does to them.",
        ),
        Mistake(
            lambda x, y, seed: learn(own_size(x), y, seed),
            "a network that was trained on other numbers than it is given afterwards",
            "What you do to the images before training must happen to every image later: return a function that does.",
        ),
        Mistake(
            classes,
            "a function that returns classes",
            "Return the ten outputs; the check takes the largest.",
        ),
        Mistake(
            lambda x, y, seed: None,
            "a function without its `return`",
            "Return the trained network, or a function that calls it.",
        ),
        Mistake(
            lambda x, y, seed: first(own_size)(x, y, seed)(x),
            "the outputs in the place of the network",
            "Return the function itself; the check calls it with images that you have not seen.",
        ),
    ),
    hints=(
        "Print a few images, then what the first layer and the first norm return for them.",
        "A bias of the first layer moves far more in one step of Adam than these images differ. Change the images.",
    ),
)

EXERCISES = {"mended_camera": MENDED_CAMERA}
