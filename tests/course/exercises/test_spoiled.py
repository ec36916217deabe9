"""An answer that spoils all that it is handed: the answers after it are judged as if it had never been."""

import pytest
import torch
from torch import nn

from residual_course.checking.catalogue import catalogue
from residual_course.checking.guard import Guard
from residual_course.checking.judge import outcomes_of

pytestmark = pytest.mark.usefixtures("all_as_installed")


def spoil(value):
    """Fill tensors with NaN or 1, ask for their gradients, empty lists and dicts, and change modules' modes."""
    if isinstance(value, torch.Tensor):
        value.data.fill_(float("nan") if value.is_floating_point() or value.is_complex() else 1)
        if value.is_floating_point() and value.is_leaf:
            value.requires_grad_()
    elif isinstance(value, list | tuple | dict):
        for one in [*(value.values() if isinstance(value, dict) else value)]:
            spoil(one)
        if not isinstance(value, tuple):
            value.clear()
    elif isinstance(value, nn.Module):
        spoil((*value.parameters(), *value.buffers()))
        value.train(not value.training)


def spoiling(answer):
    """Return an answer that does what ``answer`` does, and then spoils what it was called with."""

    def called(*args, **keywords):
        found = answer(*args, **keywords)
        spoil((args, keywords))
        return found

    def forward(self, *args):
        found = answer.forward(self, *args)
        spoil(args)
        return found

    is_module = isinstance(answer, type) and issubclass(answer, nn.Module)
    return type("Spoiling", (answer,), {"forward": forward}) if is_module else called


@pytest.mark.parametrize("name, exercise", catalogue().items(), ids=catalogue())
def test_no_later_answer_is_harmed(name, exercise):
    for answer in (spoiling(exercise.reference), exercise.reference):
        guard = Guard(answer, exercise.effort)
        guard.call(exercise.observe)
        troubles = [outcome.trouble for outcome in outcomes_of(guard, exercise)]
    assert not any(troubles)
