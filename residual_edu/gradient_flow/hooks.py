"""The hooks of a recorder: on modules, and at the end of a backward pass."""

from collections.abc import Callable
from typing import Any

from torch.autograd import Variable
from torch.utils.hooks import RemovableHandle


class Hook:
    """Calls a function, but not on a deep copy of its module: that is not recorded."""

    def __init__(self, call: Callable[..., None] | None) -> None:
        self.call = call

    def __call__(self, *args: Any) -> None:
        """Call the function, where there still is one."""
        if self.call is not None:
            self.call(*args)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Hook":
        return Hook(None)


def remove(hooks: list[RemovableHandle]) -> None:
    """Remove all ``hooks`` from where they were registered, and from the list."""
    while hooks:
        hooks.pop().remove()


def after_backward(call: Callable[[], None]) -> None:
    """Run ``call`` after the backward pass and after what others queued for its end.

    There DistributedDataParallel and ``fully_shard`` wait for the gradients' mean.
    """
    queue = Variable._execution_engine.queue_callback
    queue(lambda: queue(call))
