"""Exercise on guidance: follow the guided velocity from noise to a picture, step by step."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, close, draw, run

Model = Callable[[Tensor, Tensor, Tensor], Tensor]
Drawing = Callable[[Model, Tensor, Tensor, float, int], Tensor]

ANY = 10  # the label that stands for any digit
NOISE, LABELS = draw(6, 4, 4), torch.tensor([3, 0, 7, 3, 9, 5])
GOALS = draw(11, 4, 4, seed=1)


def model(x: Tensor, t: Tensor, labels: Tensor) -> Tensor:
    """Return a velocity that depends on the picture, the time and the label, and on nothing else.

    Raises:
        Broken: for a time or labels that are no vectors, as a network would refuse them.
    """
    for name, given in (("time", t), ("labels", labels)):
        if not isinstance(given, Tensor) or given.ndim != 1 or len(given) not in (1, len(x)):
            shape = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise Broken(f"it called the model with {name} {shape}, where a tensor (1,) or ({len(x)},) was asked for")
    if labels.is_floating_point() or not 0 <= int(labels.min()) <= int(labels.max()) <= ANY:
        raise Broken("it called the model with labels that are not whole numbers from 0 to 10")
    time = t.to(x)[:, None, None]
    return GOALS.to(x)[labels] * (1 + time) - (0.5 + time.square()) * x


def guided(model: Model, noise: Tensor, labels: Tensor, weight: float, steps: int) -> Tensor:
    """Return the pictures at the end of the way."""
    return way(model, noise, labels, weight, steps)


def way(
    model: Model,
    noise: Tensor,
    labels: Tensor,
    weight: float,
    steps: int,
    *,
    join: Callable[[Tensor, Tensor, float], Tensor] = lambda told, untold, w: untold + w * (told - untold),
    length: Callable[[int], float] = lambda steps: 1 / steps,
    time: Callable[[int, int], float] = lambda step, steps: step / steps,
    at: Callable[[Tensor, Tensor], Tensor] = lambda x, noise: x,
) -> Tensor:
    """Return the end of a way whose parts can be exchanged."""
    x = noise
    for step in range(steps):
        t = torch.full((1,), float(time(step, steps)))
        here = at(x, noise)
        told, untold = model(here, t, labels), model(here, t, torch.full_like(labels, ANY))
        x = x + length(steps) * join(told, untold, weight)
    return x


def drawn(f: Drawing, weight: float, steps: int) -> Tensor:
    """Return what ``f`` draws from ``NOISE``."""
    return run(lambda noise, labels: f(model, noise, labels, weight, steps), NOISE, LABELS, like=NOISE)


def agrees(f: Drawing, *settings: tuple[float, int]) -> None:
    """Test the pictures for pairs of a weight and a number of steps."""
    for weight, steps in settings:
        close(
            drawn(f, weight, steps),
            drawn(guided, weight, steps),
            f"with weight {weight:g} and {steps} step{'s' * (steps > 1)} the picture",
            rtol=1e-4,
        )


def at_once(model: Model, noise: Tensor, labels: Tensor, weight: float, steps: int) -> Tensor:
    """Ask for both velocities in one call, with a time for each picture."""
    x, both = noise, torch.cat([labels, torch.full_like(labels, ANY)])
    for step in range(steps):
        told, untold = model(torch.cat([x, x]), torch.full((len(both),), step / steps), both).chunk(2)
        x = torch.lerp(untold, told, weight) / steps + x
    return x


def in_place(model: Model, noise: Tensor, labels: Tensor, weight: float, steps: int) -> Tensor:
    """Walk on the noise itself."""
    for step in range(steps):
        t = torch.full((1,), step / steps)
        told, untold = model(noise, t, labels), model(noise, t, torch.full_like(labels, ANY))
        noise += (untold + weight * (told - untold)) / steps
    return noise


GUIDED_DRAWING = Exercise(
    reference=guided,
    also_right=(at_once,),
    observe=lambda f: [drawn(f, 0.0, 1), drawn(f, 1.0, 4), drawn(f, 2.5, 4)],
    properties=(
        Property("weight 1 and one step: noise plus the velocity with the label", lambda f: agrees(f, (1.0, 1))),
        Property("weight 0 and one step: the velocity for any digit", lambda f: agrees(f, (0.0, 1)), hints=(1,)),
        Property("weight 1 in 2, 4 and 7 steps", lambda f: agrees(f, (1.0, 2), (1.0, 4), (1.0, 7)), hints=(2,)),
        Property("weights 0, 0.5, 2 and 8 in 5 steps", lambda f: agrees(f, *((w, 5) for w in (0.0, 0.5, 2.0, 8.0)))),
    ),
    mistakes=(
        Mistake(
            lambda *given: way(*given, join=lambda told, untold, w: told + w * (told - untold)),
            "a weight that is counted from the velocity with the label (so Ho and Salimans count it)",
            "Here weight 0 is to leave the label out, and weight 1 to leave the guidance out.",
        ),
        Mistake(
            lambda *given: way(*given, join=lambda told, untold, w: told + w * (untold - told)),
            "the two velocities exchanged",
            "The weight multiplies what the label adds: told minus untold.",
        ),
        Mistake(
            lambda *given: way(*given, join=lambda told, untold, w: untold + w * told),
            "a weighted sum in which the part that both velocities share counts twice",
            "The weight multiplies the difference of the two velocities.",
        ),
        Mistake(
            lambda *given: way(*given, join=lambda told, untold, w: told),
            "a drawing whose weight is not used",
            "A second velocity is needed, for the label 10.",
        ),
        Mistake(
            lambda *given: way(*given, length=lambda steps: 1.0),
            "steps that are each as long as the whole way",
            "The time from 0 to 1 is divided into `steps` equal parts.",
        ),
        Mistake(
            lambda *given: way(*given, time=lambda step, steps: 1 - step / steps),
            "a time that runs from 1 to 0",
            "Here t = 0 is noise and t = 1 the picture; papers on diffusion count the other way.",
        ),
        Mistake(
            lambda *given: way(*given, time=lambda step, steps: (step + 1) / steps),
            "the time at the end of each step",
            "The velocity of a step is that at its start: the first one at t = 0.",
        ),
        Mistake(
            lambda *given: way(*given, time=lambda step, steps: step / max(steps - 1, 1)),
            "times whose last one is 1",
            "The last step starts at 1 - 1/steps and ends at 1.",
        ),
        Mistake(
            lambda *given: way(*given, at=lambda x, noise: noise),
            "velocities that are all computed from the noise",
            "Ask the model at the picture as it is by now.",
        ),
        Mistake(
            lambda *given: way(*given, length=lambda steps: -1 / steps),
            "steps against the velocity",
            "The velocity points from the noise to the picture: add it.",
        ),
        Mistake(
            lambda *given: way(*given).clamp(-1, 1),
            "pictures that are clipped",
            "Return them as they are: how far they leave the range is measured below.",
        ),
        Mistake(in_place, "noise that is overwritten", "Give the picture a name of its own: `x = x + ...`."),
    ),
    hints=(
        "A label of 10 stands for any digit: `torch.full_like(labels, 10)`. Which weight must give each velocity back?",
        "In each step: the time at its start as a tensor of shape (1,), two velocities, and a part 1/steps of the way.",
    ),
)

EXERCISES = {"guided_drawing": GUIDED_DRAWING}
