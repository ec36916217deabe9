"""Exercise on flow matching: from pictures and labels to what a network is trained on."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property
from residual_course.exercises.training_facts import (
    HIDDEN,
    NO_LABEL,
    Four,
    described,
    is_on_the_line,
    labels_are_right,
    small_batches,
    some_are_hidden,
    times_are_right,
    velocity_is_right,
    wide,
)


def example(
    picture: Tensor,
    label: Tensor,
    *,
    noise: Callable[[Tensor], Tensor] = torch.randn_like,
    time: Callable[[Tensor], Tensor] = lambda p: torch.rand(len(p)),
    point: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda n, p, t: (1 - t) * n + t * p,
    speed: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda n, p, x: p - n,
    hide: Callable[[Tensor], Tensor] = lambda label: torch.rand(len(label)) < HIDDEN,
    hidden: int = NO_LABEL,
) -> Four:
    """Return x, t, labels and velocity, made of parts that can be exchanged."""
    n, t = noise(picture), time(picture)
    x = point(n, picture, wide(t))
    return x, t, label.where(~hide(label), hidden), speed(n, picture, x)


def right(picture: Tensor, label: Tensor) -> Four:
    """Return the training example of the lesson."""
    return example(picture, label)


def tied(picture: Tensor, label: Tensor) -> Four:
    """Hide the labels by the numbers that are the times, too."""
    x, t, _, velocity = example(picture, label)
    return x, t, label.where(t >= HIDDEN, NO_LABEL), velocity


def in_place(picture: Tensor, label: Tensor) -> Four:
    """Hide labels in the tensor that was handed over."""
    label[torch.rand(len(label)) < HIDDEN] = NO_LABEL
    return example(picture, label, hide=lambda one: one < 0)


def lerped(picture: Tensor, label: Tensor) -> Four:
    """Write it with lerp, times that are spread evenly, and exactly a tenth of the labels hidden."""
    count = len(picture)
    n, t = torch.randn(picture.shape), (torch.randperm(count) + torch.rand(count)) / count
    told = label.clone()
    told[torch.randperm(count)[: round(HIDDEN * count)]] = NO_LABEL
    return torch.lerp(n, picture, t.view(-1, 1, 1)), t, told, -(n - picture)


Wrong = partial(partial, example)

TRAINING_EXAMPLE = Exercise(
    reference=right,
    also_right=(lerped,),
    observe=described,
    properties=(
        Property("x_t and velocity have the shape of the pictures, t and label one number a picture", small_batches),
        Property("each picture has its own t, uniform from 0 to 1", times_are_right, (1,)),
        Property("x_t = (1 - t) n + t p, with standard normal noise", is_on_the_line),
        Property("from x_t the velocity leads to the picture", velocity_is_right, (1,)),
        Property("a label is the picture's own, or 10", labels_are_right, (2,)),
        Property("about one label in ten is 10, drawn for each picture", some_are_hidden, (2,)),
    ),
    mistakes=(
        Mistake(
            Wrong(hide=lambda label: torch.zeros(len(label), dtype=torch.bool)),
            "labels that are all told",
            "The network must also learn the velocity without a label: for a tenth of the pictures the label is 10.",
        ),
        Mistake(
            Wrong(hide=lambda label: torch.ones(len(label), dtype=torch.bool)),
            "labels that are all hidden",
            "The network would never learn what a label means.",
        ),
        Mistake(
            Wrong(hide=lambda label: torch.rand(len(label)) >= HIDDEN),
            "nine labels in ten hidden, and one told",
            "On which side of 0.1 does a uniform number lie in one of ten cases?",
        ),
        Mistake(Wrong(hidden=0), "the label 0 for no label", "0 is a digit. The eleventh label is 10."),
        Mistake(tied, "labels that are hidden where t is small", "Draw new numbers for it: hidden labels need all t."),
        Mistake(
            Wrong(speed=lambda n, p, x: n - p),
            "the velocity from the picture to the noise",
            "As t grows x_t moves towards the picture. What is the derivative of x_t by t?",
        ),
        Mistake(
            Wrong(point=lambda n, p, t: t * n + (1 - t) * p),
            "a t that is 0 at the picture, and a velocity that leads to it",
            "Papers on diffusion count so; here t = 0 is noise.",
        ),
        Mistake(
            Wrong(speed=lambda n, p, x: p - x),
            "the way that is left, in place of the velocity",
            "That is the velocity times 1 - t. What is the derivative of x_t by t?",
        ),
        Mistake(
            Wrong(speed=lambda n, p, x: n),
            "the noise as what is to be predicted",
            "Many papers on diffusion do so. Here it is the velocity.",
        ),
        Mistake(
            Wrong(time=lambda p: torch.rand(1).expand(len(p))),
            "one t for the whole batch",
            "Draw as many times as there are pictures, and give them two more axes for the pixels.",
        ),
        Mistake(
            Wrong(noise=lambda p: torch.randn(p.shape[1:]).expand_as(p)),
            "one noise for the whole batch",
            "Draw a number for each pixel of each picture.",
        ),
        Mistake(
            Wrong(noise=torch.rand_like),
            "noise that is uniform and not normal",
            "`torch.rand` is uniform from 0 to 1; the noise has mean 0 and variance 1.",
        ),
        Mistake(in_place, "labels that are overwritten", "Make new labels: `label.where(...)`, or a clone."),
    ),
    hints=(
        "Draw n with `torch.randn_like`, t with `torch.rand`. `t[:, None, None]` has an axis for each of the pixels' "
        "two. The velocity is the derivative of x_t by t.",
        "`torch.rand(len(label)) < 0.1` is True for one picture in ten; `label.where(keep, 10)` takes the label where "
        "keep is True, and 10 elsewhere.",
    ),
)

EXERCISES = {"training_example": TRAINING_EXAMPLE}
