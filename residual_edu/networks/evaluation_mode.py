"""Running a model in evaluation mode for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put ``model`` into evaluation mode; afterwards each of its modules is in the mode that it was in before.

    ``model.train()`` would not do: it would also put those modules into training mode that were frozen by ``eval()``.
    """
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in in_training:
            module.training = True
