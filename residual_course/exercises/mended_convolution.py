"""Exercise on mending: a gated long convolution in which three lines are wrong, one of them silently."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet
from residual_course.exercises.handed_convolution import MENDED, Backwards, ByLoop, Cut, Halved, Handed, changed

Answer = Callable[[], Any]  # makes a network

LENGTH, STEPS, RATE = 128, 600, 1e-2
CHANGE, ROUNDING, ASKED = 1e-4, 1e-7, 0.1  # what moves an output, what a gradient may be, the error that is reached
SILENT = 1e-5  # a move that is rounding alone, over the farthest
SEEDS = 3  # of which one is enough: some trainings of a right network are slow to begin


def adding(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return numbers and marks, (count, length, 2), two positions marked, and the sum of the marked numbers so far."""
    number, mark = torch.rand(count, length, generator=generator), torch.zeros(count, length)
    mark.scatter_(1, torch.rand(count, length, generator=generator).argsort(1)[:, :2], 1.0)
    return torch.stack([number, mark], dim=-1), (number * mark).cumsum(1)


def network(f: Answer, seed: int = 0) -> nn.Module:
    """Return a new network of an answer, or raise for what is none."""
    torch.manual_seed(seed)
    net = f()
    if not isinstance(net, nn.Module):
        raise Broken(f"it returned a {type(net).__name__}, where an nn.Module was asked for")
    for length in (LENGTH, LENGTH // 2):
        out = net(torch.ones(3, length, 2))
        if not isinstance(out, Tensor) or out.shape != (3, length):
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise Broken(f"for x of shape (3, {length}, 2) it returned {shape}, where (3, {length}) was asked for")
    return net


def given() -> Tensor:
    """Return rows of the adding problem, the same each time."""
    return adding(4, LENGTH, torch.Generator().manual_seed(5))[0]


def dependence(net: nn.Module, position: int, length: int = LENGTH) -> Tensor:
    """Return the gradient of the output at one position with respect to each position, the largest of the batch."""
    x = given()[:, :length].requires_grad_()
    with torch.enable_grad():
        (grad,) = torch.autograd.grad(net(x)[:, position].sum(), x, allow_unused=True, materialize_grads=True)
    return grad.abs().amax((0, 2))


def _is_a_network(f: Answer) -> None:
    network(f)


@torch.no_grad()
def later(net: nn.Module, cut: int = 70) -> float:
    """Return how far other inputs from a position on move the outputs before it, over the outputs' size."""
    x = given()
    moved = x.clone()
    moved[:, cut:] += 1
    before, after = net(x), net(moved)
    return ((after - before)[:, :cut].abs().max() / before.abs().max().clamp(min=1e-12)).item()


@torch.no_grad()
def reached(net: nn.Module, length: int = LENGTH) -> Tensor:
    """Return how far another number and a mark at each position move the last output, over the farthest of all."""
    x = torch.full((1, length, 2), 0.5)
    x[..., 1] = 0
    moved = x.repeat(length, 1, 1)
    moved[range(length), range(length)] = 1.0
    by = (net(moved)[:, -1] - net(x)[:, -1]).abs()
    return by / by.max().clamp(min=1e-12)


@torch.no_grad()
def stretch(net: nn.Module) -> float:
    """Return how far the outputs for the first half of each row alone are from those for the whole row."""
    x = given()
    x[:, LENGTH // 2 :] = 0
    whole = net(x)[:, : LENGTH // 2]
    return ((net(x[:, : LENGTH // 2]) - whole).abs().max() / whole.abs().max().clamp(min=1e-12)).item()


def _past_alone(f: Answer) -> None:
    net = network(f)
    if (moved := later(net)) > CHANGE:
        raise Unmet(f"other inputs from position 70 on move the outputs before it by {moved:.0%} of the largest")
    if dependence(net, 40)[41:].max() > ROUNDING:
        raise Unmet("the output at position 40 has a gradient at a later position")


def _same_kernel(f: Answer) -> None:
    if (off := stretch(network(f))) > CHANGE:
        raise Unmet(f"for 64 positions alone the outputs differ from those for 128 by {off:.0%} of the largest")


def _reaches(f: Answer) -> None:
    silent = (reached(network(f)) < SILENT).nonzero()
    if len(silent):
        raise Unmet(f"the last output does not depend on position {silent[0].item()}")


def taught(f: Answer, seed: int = 0) -> float:
    """Return the error of a network of an answer after training, over that of guessing the mean, at all positions."""
    net, generator = network(f, seed), torch.Generator().manual_seed(seed)
    if learned := [p for p in net.parameters() if p.requires_grad]:
        adam = torch.optim.Adam(learned, RATE)
        with torch.enable_grad():
            for step in range(STEPS):
                adam.param_groups[0]["lr"] = RATE * min(1, 2 * (1 - step / STEPS))
                x, y = adding(32, LENGTH, generator)
                loss = F.mse_loss(net(x), y)
                adam.zero_grad()
                loss.backward()
                adam.step()
    x, y = adding(500, LENGTH, torch.Generator().manual_seed(99))
    with torch.no_grad():
        return (F.mse_loss(net(x), y) / y.var(correction=0)).item()


def _learns(f: Answer) -> None:
    errors = []
    for seed in range(SEEDS):
        errors.append(taught(f, seed))
        if errors[-1] < ASKED:
            return
    raise Unmet(f"the error over all positions is {min(errors):.2f} of what guessing the mean costs, at best")


def _observe(f: Answer) -> Any:
    net = network(f)
    tight = [later(net) > CHANGE, stretch(net) > CHANGE, bool((reached(net) < SILENT).any())]
    gradients = [dependence(net, LENGTH - 1), dependence(net, LENGTH // 2 - 1, LENGTH // 2)]
    return [*tight, dependence(net, 40)[:100] > ROUNDING, *((1e3 * one).round() for one in gradients)]


def nothing() -> None:
    """Return no network."""


MENDED_CONVOLUTION = Exercise(
    reference=changed(**MENDED),
    also_right=(ByLoop,),
    observe=_observe,
    effort=45,  # it trains up to three networks
    properties=(
        Property("it returns a network: (batch, positions, 2) to (batch, positions)", _is_a_network, ()),
        Property("no output depends on a later input", _past_alone),
        Property("64 positions alone give the first 64 outputs of 128", _same_kernel),
        Property("the last output depends on every position", _reaches, ()),
        Property(f"after {STEPS} steps the error over all positions is below {ASKED}", _learns),
    ),
    mistakes=(
        Mistake(Handed, "the network as it was handed over", "Change the last inputs, and look at the first outputs."),
        Mistake(
            changed(before=True),
            "a gate before the convolution, in a network whose end wraps around",
            "Change the last inputs, and look at the first outputs.",
        ),
        Mistake(
            changed(zeros=True),
            "a transform with zeros, and a kernel that stretches with the signal",
            "Compare the outputs for 64 positions with the first of 128: where is the kernel read?",
        ),
        Mistake(
            changed(zeros=True, before=True),
            "a gate before a convolution with zeros, and a kernel that stretches with the signal",
            "Compare the outputs for 64 positions with the first of 128: where is the kernel read?",
        ),
        Mistake(
            changed(stretched=False),
            "a kernel that keeps its length, in a network whose end wraps around",
            "How many points need the transforms, so that no tap reaches round?",
        ),
        Mistake(
            changed(stretched=False, zeros=True),
            "a gate behind the convolution",
            "What does the convolution sum up, before the gate can select anything?",
        ),
        Mistake(
            changed(stretched=False, before=True),
            "a circle without zeros, the rest mended",
            "Change the last inputs, and look at the first outputs: how many points need the transforms?",
        ),
        Mistake(Halved, "a circle that is half a length too small", "Each of 128 taps may reach round: add as many."),
        Mistake(Cut, "a kernel of 16 lags", "The first marked number may stand at position 0."),
        Mistake(Backwards, "a kernel that looks ahead", "Tap m meets the input m positions before."),
        Mistake(nothing, "a function without its `return`", "It returns the network, an nn.Module."),
    ),
    hints=(
        "Three measurements: other inputs at the end; 64 positions beside 128; the error after training.",
        "Which of the three lines does each number accuse? The points of the transform, the positions, or the gate?",
    ),
)

EXERCISES = {"mended_convolution": MENDED_CONVOLUTION}
