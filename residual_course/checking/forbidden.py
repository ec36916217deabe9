"""What an exercise forbids: an answer that is asked to work without autograd must record nothing for it."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from residual_course.checking.unmet import Unmet

USED = "it used autograd, where the gradient by hand was asked for: a formula of the inputs"


def without_autograd(call: Callable[[], Any]) -> None:
    """Call ``call``, whose inputs ask for no gradient, and raise ``Unmet`` if an operation saved a tensor for autograd.

    torch.func refuses to run where this is watched.
    """
    saved = list[Tensor]()

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    try:
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            call()
    except RuntimeError as error:
        if "saved tensor hooks" in str(error):
            raise Unmet(USED) from None
        raise
    if saved:
        raise Unmet(USED)
