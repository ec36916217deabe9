"""Watches of the hook exercise: the right one, and by its arguments each usual mistake."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

Watch = Callable[[list[nn.Module]], AbstractContextManager[Any]]


def rms(x: Tensor) -> float:
    """Return the root mean square."""
    return float(x.detach().square().mean().sqrt())


def take_away(handles: list[RemovableHandle], modules: list[nn.Module]) -> None:
    """Remove the hooks of these handles."""
    for handle in handles:
        handle.remove()


def sweep(handles: list[RemovableHandle], modules: list[nn.Module]) -> None:
    """Remove every hook, foreign ones too."""
    for module in modules:
        module._forward_hooks.clear()


def watch(
    measure: Callable[[Tensor, Tensor], float] = lambda x, y: rms(y),
    remove: Callable[[list[RemovableHandle], list[nn.Module]], None] = take_away,
    caught: tuple[type[BaseException], ...] = (BaseException,),
    replaces: bool = False,
) -> Watch:
    """Return a watch; the arguments choose what it measures and how it cleans up, to make the mistakes."""

    @contextmanager
    def watching(modules: list[nn.Module]) -> Iterator[list[float]]:
        sizes: list[float] = []

        def hook(module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor | None:
            sizes.append(measure(args[0], output))
            return output / sizes[-1] if replaces else None

        handles = [module.register_forward_hook(hook) for module in modules]
        try:
            yield sizes
        except caught:
            remove(handles, modules)
            raise
        remove(handles, modules)

    return watching


@contextmanager
def swallowing(modules: list[nn.Module]) -> Iterator[list[float]]:
    """Watch, clean up, and swallow every error."""
    with watch()(modules) as sizes, suppress(BaseException):
        yield sizes
