"""What an answer must leave as it found it: what it is handed, and the settings of the session."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.unmet import Broken

SETTINGS: dict[str, Callable[[], Any]] = {
    "torch.is_grad_enabled()": torch.is_grad_enabled,
    "torch.is_inference_mode_enabled()": torch.is_inference_mode_enabled,
    "torch.get_default_dtype()": torch.get_default_dtype,
    "torch.get_default_device()": torch.get_default_device,
}
SEED: dict[str, Callable[[], Any]] = {"the seed of torch's random numbers": torch.initial_seed}


@contextmanager
def unchanged(**handed: Any) -> Iterator[None]:
    """Test that a body leaves what is ``handed`` to an answer, and the session's settings, as they are.

    Args:
        handed: by name, tensors, modules, and lists, tuples and dicts of these. Values, shapes, lengths, the modules'
            modes and hooks, and which parameters ask for gradients are compared.

    Raises:
        Broken: at the end, with the name of what changed, and how.
    """
    before = dict(facts(handed))
    with settings_stay(SETTINGS | SEED):
        yield
    after = dict(facts(handed))
    for name, old in before.items():
        if not equal(old, after.get(name)):
            raise Broken(told(name, old, after.get(name)))
    if new := next((name for name in after if name not in before), ""):
        raise Broken(f"it added {new}; what it is handed must stay as it is")


@contextmanager
def settings_stay(settings: dict[str, Callable[[], Any]]) -> Iterator[None]:
    """Test that a body leaves these settings as they are, or raise ``Broken`` with the first that it changed."""
    before = {name: read() for name, read in settings.items()}
    yield
    for name, value in before.items():
        if settings[name]() != value:
            raise Broken(f"it left {name} at {settings[name]()}, where it was {value} before; put it back")


def facts(handed: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what is compared: a name that a learner can read, and a value that later changes do not reach."""
    for name, value in handed.items():
        if isinstance(value, Tensor):
            yield f"`{name}`", value.detach().clone()
            yield f"requires_grad of `{name}`", value.requires_grad
        elif isinstance(value, list | tuple):
            yield f"the length of `{name}`", len(value)
            yield f"the entries of `{name}`", [id(one) for one in value]
            yield from facts({f"{name}[{i}]": one for i, one in enumerate(value)})
        elif isinstance(value, dict):
            yield f"the keys of `{name}`", list(value)
            yield from facts({f"{name}[{key!r}]": one for key, one in value.items()})
        elif isinstance(value, nn.Module):
            yield from facts_of(name, value)


def facts_of(name: str, module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the facts of a module: its tensors, and each inner module's mode and hooks."""
    for inner, one in module.named_modules(prefix=name):
        yield f"the mode of `{inner}`", "train" if one.training else "eval"
        yield f"the number of hooks of `{inner}`", sum(len(getattr(one, kind)) for kind in HOOKS)
    for inner, parameter in module.named_parameters(prefix=name):
        yield f"`{inner}`", parameter.detach().clone()
        yield f"requires_grad of `{inner}`", parameter.requires_grad
    for inner, buffer in module.named_buffers(prefix=name):
        yield f"`{inner}`", buffer.detach().clone()


HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


def equal(a: Any, b: Any) -> bool:
    """Whether two facts are equal; NaN is equal to NaN."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
    return type(a) is type(b) and a == b


def told(name: str, old: Any, new: Any) -> str:
    """Return the sentence on a fact that changed."""
    if isinstance(old, Tensor):
        return f"it changed {name} in place; write `x = x - m`, not `x -= m`, and no function that ends in `_`"
    if new is None or isinstance(old, list):
        return f"it changed {name}; work on a copy"
    return f"it changed {name} from {old} to {new}; leave what you are handed as it is"
