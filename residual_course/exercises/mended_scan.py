"""Exercise on mending: a small selective mixer in which three lines are wrong, one of them silent in training."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet
from residual_course.exercises.handed_scan import (
    MENDED,
    WIDTH,
    ByLoop,
    Handed,
    Network,
    changed,
    copying,
)

Answer = Callable[[], Any]  # makes a mixer

TRAINED, LONGER, STEPS, RATE = 12, 48, 400, 1e-2
NEAR, FAR, PARAMETERS = 0.95, 0.85, 1000  # right answers at both lengths, and the parameters that a mixer may have
SEEDS, CHANGE = 3, 1e-4  # of which one is enough; what moves an output, over the largest


def mixer_of(f: Answer, seed: int = 0) -> nn.Module:
    """Return a new mixer of an answer, or raise for what is none."""
    torch.manual_seed(seed)
    mixer = f()
    if not isinstance(mixer, nn.Module):
        raise Broken(f"it returned a {type(mixer).__name__}, where an nn.Module was asked for")
    for length in (TRAINED + 2, LONGER + 2):
        out = mixer(torch.ones(3, length, WIDTH))
        if not isinstance(out, Tensor) or out.shape != (3, length, WIDTH):
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise Broken(f"for x of shape (3, {length}, {WIDTH}) it returned {shape}, where the same was asked for")
    return mixer


def drawn(length: int = LONGER) -> Tensor:
    """Return inputs of a mixer, the same each time."""
    return torch.randn(4, length, WIDTH, generator=torch.Generator().manual_seed(7))


@torch.no_grad()
def later(mixer: nn.Module, cut: int = 30) -> float:
    """Return how far other inputs from a position on move the outputs before it, over the largest of these."""
    x = drawn()
    moved = torch.cat([x[:, :cut], x[:, cut:].flip(0) + 1], dim=1)
    before, after = mixer(x)[:, :cut], mixer(moved)[:, :cut]
    return ((after - before).abs().max() / before.abs().max().clamp(min=1e-12)).item()


@torch.no_grad()
def left_over(mixer: nn.Module) -> float:
    """Return how much the positions in between change what is left of the first input, from 0 to 1.

    What two first inputs make differ in the last output is compared for two kinds of positions in between.
    """
    x = drawn(14)
    moved, other = x.clone(), x.clone()
    moved[:, 0] = x.flip(0)[:, 0]
    other[:, 1:-1] = 3 * x.flip(0)[:, 1:-1]
    changed_both = torch.cat([moved[:, :1], other[:, 1:]], dim=1)
    one, two = (mixer(moved) - mixer(x))[:, -1], (mixer(changed_both) - mixer(other))[:, -1]
    return ((one - two).norm() / (one.norm() + two.norm()).clamp(min=1e-12)).item()


@torch.enable_grad()
def taught(f: Answer, seed: int = 0) -> Network:
    """Return a network around a mixer of the answer, trained at the shorter length."""
    net, generator = Network(mixer_of(f, seed)), torch.Generator().manual_seed(seed + 1)
    adam = torch.optim.Adam([p for p in net.parameters() if p.requires_grad])
    for step in range(STEPS):
        adam.param_groups[0]["lr"] = RATE * min(1, 2 * (1 - step / STEPS))
        tokens, symbols = copying(64, TRAINED, generator)
        loss = F.cross_entropy(net(tokens)[:, -2:].flatten(0, 1), symbols.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return net


@torch.no_grad()
def right(net: Network, length: int) -> float:
    """Return the share of right answers."""
    tokens, symbols = copying(500, length, torch.Generator().manual_seed(99))
    return (net(tokens)[:, -2:].argmax(-1) == symbols).float().mean().item()


def _is_a_mixer(f: Answer) -> None:
    count = sum(p.numel() for p in mixer_of(f).parameters())
    if count > PARAMETERS:
        raise Unmet(f"it has {count:,} parameters, where at most {PARAMETERS:,} are allowed")


@torch.no_grad()
def by_others(mixer: nn.Module) -> float:
    """Return how far the other rows of a batch move a row's output, over the largest."""
    x = drawn()
    together, alone = mixer(x)[:1], mixer(x[:1])
    return ((together - alone).abs().max() / together.abs().max().clamp(min=1e-12)).item()


def _past_alone(f: Answer) -> None:
    mixer = mixer_of(f)
    for cut in (30, 1, LONGER - 1):
        if not (moved := later(mixer, cut)) <= CHANGE:
            raise Unmet(f"other inputs from position {cut} on move the outputs before it by {moved:.0%} of the largest")
    if not (moved := by_others(mixer)) <= CHANGE:
        raise Unmet(f"other sequences in a batch move a sequence's outputs by {moved:.0%} of the largest")


def _learns(f: Answer) -> None:
    best = (0.0, 0.0)
    for seed in range(SEEDS):
        net = taught(f, seed)
        found = right(net, TRAINED), right(net, LONGER)
        if found[0] >= NEAR and found[1] >= FAR:
            return
        best = max(best, found, key=sum)
    raise Unmet(
        f"after {STEPS} updates it is right in {best[0]:.2f} at {TRAINED} positions and {best[1]:.2f} at {LONGER}"
    )


def _observe(f: Answer) -> Any:
    mixer = mixer_of(f)
    out = mixer(drawn(14)).detach()
    return [later(mixer) > CHANGE, round(left_over(mixer), 1), (1e3 * out).round()]


def nothing() -> None:
    """Return no mixer."""


MENDED_SCAN = Exercise(
    reference=changed(**MENDED),
    also_right=(ByLoop,),
    observe=_observe,
    effort=45,  # it trains up to three networks
    properties=(
        Property(f"it returns a mixer of {WIDTH} channels, with at most {PARAMETERS:,} parameters", _is_a_mixer, ()),
        Property("no output depends on a later input, or on another sequence", _past_alone),
        Property(f"after {STEPS} updates {NEAR} at {TRAINED} positions and {FAR} at {LONGER} are right", _learns),
    ),
    mistakes=(
        Mistake(Handed, "the mixer as it was handed over", "Change the last inputs, and look at the first outputs."),
        Mistake(
            changed(alone=True),
            "steps of their own, in a scan whose fading does not use them",
            "What is left of the first input at the last position: does it depend on what lies between?",
        ),
        Mistake(
            changed(fades=True),
            "fading by the steps, which are still divided by their mean",
            "Change the last inputs, and look at the first outputs.",
        ),
        Mistake(
            changed(alone=True, fades=True),
            "a scan whose first steps are .007",
            "After how many positions is half of the state left?",
        ),
        Mistake(
            changed(alone=True, first=0.0),
            "a fading that does not depend on the input",
            "What is left of the first input at the last position: does it depend on what lies between?",
        ),
        Mistake(
            changed(fades=True, first=0.0),
            "large first steps, divided by their mean",
            "Change the last inputs, and look at the first outputs.",
        ),
        Mistake(
            changed(first=0.0),
            "large first steps, with the other two lines as they were",
            "Change the last inputs, and look at the first outputs.",
        ),
        Mistake(nothing, "a function without its `return`", "It returns the mixer, an nn.Module."),
    ),
    hints=(
        "Three measurements in a new mixer: other inputs at the end; what is left of the first input with other "
        "inputs in between; after how many positions half of the state is left.",
        "Each of the three numbers has a line of its own. Which line takes more than its own position? Which numbers "
        "does the fading use, and which does the writing? How large is softplus(dt0)?",
    ),
)

EXERCISES = {"mended_scan": MENDED_SCAN}
