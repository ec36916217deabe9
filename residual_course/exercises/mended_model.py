"""Exercise on mending: a language model with a norm that leaks, and a mask that is wrong once something is kept."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet
from residual_course.exercises.handed_model import (
    MENDED,
    VOCABULARY,
    Blind,
    Handed,
    WholeRows,
    changed,
    peeking,
    text,
    top_left_of_several,
)

Answer = Callable[[], Any]  # makes a model
STEPS, RATE, ASKED = 150, 6e-3, 2.35  # the lesson's training, and the loss asked for
NEAR = 1e-3
LONG = 72  # characters of the longest row that is tried
PIECES = ((1,) * 12, (5, 1, 1), (4, 3, 6), (40, 1, 1, 22))


def model_of(f: Answer, seed: int = 0) -> nn.Module:
    """Return a new model of an answer, or raise for what is none."""
    torch.manual_seed(seed)
    model = f()
    if not isinstance(model, nn.Module):
        raise Broken(f"it returned a {type(model).__name__}, where an nn.Module was asked for")
    out = model(torch.zeros(2, 5, dtype=torch.long))
    if not isinstance(out, Tensor) or out.shape != (2, 5, VOCABULARY):
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise Broken(f"for tokens of shape (2, 5) it returned {shape}, where (2, 5, {VOCABULARY}) was asked for")
    if not callable(getattr(model, "step", None)):
        raise Broken("it has no method `step(tokens, kept)`")
    return model.eval()


def ahead(model: nn.Module, length: int = LONG) -> list[int]:
    """Return the positions from which on other characters move an earlier score."""
    row = text()[1][:2, :64].reshape(1, -1)[:, :length]
    with torch.no_grad():
        before, found = model(row), []
        for at in range(1, length):
            other = row.clone()
            other[:, at:] = (other[:, at:] + 1) % VOCABULARY
            if (model(other) - before)[:, :at].abs().max() > NEAR / 10:
                found.append(at)
    return found


def begun(model: Any, part: Tensor) -> Any:
    """Call ``step`` with nothing kept, as it is written: with a default for what is kept, or without one."""
    try:
        signature(model.step).bind(part)
    except TypeError:
        return model.step(part, None)
    return model.step(part)


def apart(model: Any, pieces: tuple[int, ...]) -> float:
    """Return how far scores in pieces are from those of the whole row."""
    row, kept, found = text()[1][:2, : sum(pieces)], None, list[Tensor]()
    with torch.no_grad():
        for part in row.split(list(pieces), dim=1):
            scores, kept = model.step(part, kept) if found else begun(model, part)
            found.append(scores)
        return (torch.cat(found, dim=1) - model(row)).abs().max().item()


def _is_a_model(f: Answer) -> None:
    model_of(f)


def _no_leak(f: Answer) -> None:
    if found := ahead(model_of(f)):
        places = ", ".join(map(str, found[:6]))
        raise Unmet(f"with other characters from position {places} on, earlier scores change")


def _in_steps(f: Answer) -> None:
    for pieces in PIECES:
        if not (gap := apart(model_of(f), pieces)) < NEAR:
            told = ", ".join(map(str, pieces))
            raise Unmet(f"in pieces of {told} characters, scores are up to {gap:.2f} away from those of the whole row")


def taught(f: Answer, seed: int = 0) -> float:
    """Return the loss on new text after the lesson's training."""
    model, (known, new) = model_of(f, seed), text()
    if not (learned := [p for p in model.parameters() if p.requires_grad]):
        raise Unmet("none of its parameters learns")
    adam = torch.optim.AdamW(learned, RATE, weight_decay=0, fused=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, STEPS, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    with torch.enable_grad():
        for _ in range(STEPS):
            rows = known[torch.randint(len(known) - 64, (16, 1), generator=generator) + torch.arange(65)]
            adam.zero_grad()
            F.cross_entropy(model(rows[:, :-1]).mT, rows[:, 1:]).backward()
            adam.step()
            plan.step()
    with torch.no_grad():
        return F.cross_entropy(model.eval()(new[:, :-1]).mT, new[:, 1:]).item()


def _learns(f: Answer) -> None:
    if not (loss := taught(f)) < ASKED:
        raise Unmet(f"after {STEPS} steps its loss on new text is {loss:.2f}")


def _observe(f: Answer) -> Any:
    model = model_of(f)
    sizes = [p.numel() * p.requires_grad for p in model.parameters()]
    gaps = [round(apart(model, pieces), 2) for pieces in ((1,) * 9, (4, 5))]
    others = text()[1][:2, :9].clone()
    others[:, 0] = 1
    with torch.no_grad():
        reach = (model(others) - model(text()[1][:2, :9]))[:, -1].abs().max().item() > NEAR
    return [ahead(model), gaps, len(sizes), sum(sizes), reach]


def nothing() -> None:
    """Return no model."""


MENDED_MODEL = Exercise(
    reference=changed(**MENDED),
    also_right=(WholeRows,),
    observe=_observe,
    effort=12,  # it trains a model
    properties=(
        Property("it returns a model with a method step", _is_a_model, ()),
        Property("no score depends on a later character", _no_leak),
        Property("step by step it gives the scores of the whole row", _in_steps),
        Property(f"after {STEPS} steps its loss on new text is below {ASKED}", _learns, ()),
    ),
    mistakes=(
        Mistake(Handed, "the model as it was handed over", "Change one character, at several places, and compare."),
        Mistake(
            changed(over_positions=False),
            "a model that does not leak, and steps that are not right",
            "Compare the scores of step after step with those of the whole row.",
        ),
        Mistake(
            changed(hides=MENDED["hides"]),
            "a mask that is right, and something else that leaks",
            "Which other part of the model sees more than one position at once?",
        ),
        Mistake(
            changed(over_positions=False, hides=top_left_of_several),
            "steps that are right for one character, and wrong for several",
            "Give it 4 characters, then 3: which keys may the first of the 3 see?",
        ),
        Mistake(
            changed(over_positions=False, hides=peeking(*range(LONG))),
            "a mask that leaks at every position",
            "The query at position p sees keys up to p.",
        ),
        Mistake(
            changed(over_positions=False, hides=peeking(37)),
            "a mask that leaks at a single position",
            "No position may see a later one.",
        ),
        Mistake(Blind, "a model in which no position sees another", "Hide what is later, and only that."),
        Mistake(nothing, "a function without its `return`", "It returns the model, an nn.Module."),
    ),
    hints=(
        "Two tests of this lesson need no training: change one character, at several places; and compare step by step "
        "with all at once.",
        "Is the difference there for one new character, or only for several? With all at once? Which parts of the "
        "model see more than one position?",
    ),
)

EXERCISES = {"mended_model": MENDED_MODEL}
