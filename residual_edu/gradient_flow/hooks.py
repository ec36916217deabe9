"""The hooks of a recorder: on modules, without a trace on their deep copies, and at the end of a backward pass."""

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from torch import nn
from torch.autograd import Variable
from torch.utils.hooks import RemovableHandle


class Hook:
    """Calls a function before or after each call of a module, until it is removed.

    ``copy.deepcopy`` of a module copies what is registered on it. There a hook does nothing, and it is removed from all
    copies when it is removed from the module.

    Args:
        module: the module.
        call: the function; None does nothing.
    """

    def __init__(self, module: nn.Module, call: Callable[..., None] | None) -> None:
        self.module, self.call = module, call
        self.copies: WeakSet[nn.Module] = WeakSet()

    def before(self, with_kwargs: bool = False) -> "Hook":
        """Register it to be called before the module."""
        self.module.register_forward_pre_hook(self, with_kwargs=with_kwargs)
        return self

    def after(self) -> "Hook":
        """Register it to be called after the module."""
        self.module.register_forward_hook(self)
        return self

    def __call__(self, *args: Any) -> None:
        """Call the function, where there is one."""
        if self.call is not None:
            self.call(*args)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Hook":
        twin = memo.get(id(self.module), self.module)  # a module is copied before its hooks
        copied = Hook(twin, None)
        copied.copies = self.copies  # of a copy of the copy too
        self.copies.add(twin)
        return copied

    def remove(self) -> None:
        """Remove it from the module and from all copies of the module."""
        for module in [self.module, *self.copies]:
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                for key in [key for key, hook in hooks.items() if self.is_of(hook)]:
                    del hooks[key]
                    module._forward_pre_hooks_with_kwargs.pop(key, None)

    def is_of(self, hook: object) -> bool:
        """Whether ``hook`` is this one or a copy of it."""
        return isinstance(hook, Hook) and hook.copies is self.copies


Removable = Hook | RemovableHandle


def remove(hooks: list[Removable]) -> None:
    """Remove all ``hooks`` from where they were registered, and from the list."""
    while hooks:
        hooks.pop().remove()


def after_backward(call: Callable[[], None]) -> None:
    """Run ``call`` when the backward pass has ended, and what others have it run at its end is done.

    DistributedDataParallel and ``fully_shard`` wait there for the gradients' mean over processes.
    """
    queue = Variable._execution_engine.queue_callback
    queue(lambda: queue(call))
