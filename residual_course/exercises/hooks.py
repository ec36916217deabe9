"""Exercise on hooks: measure the outputs of blocks inside a ``with`` statement, and remove every hook at its end."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, unchanged
from residual_course.checking.watches import Watch, rms, swallowing, sweep, watch


class Leave(BaseException):
    """An error that ``except Exception`` does not catch, like the stop button's."""


def blocks() -> list[nn.Module]:
    """Return three blocks that scale by different factors."""
    found: list[nn.Module] = []
    for seed in range(3):
        linear = nn.Linear(4, 4).double()
        linear.weight.data, linear.bias.data = (seed + 1) * draw(4, 4, seed=seed), draw(4, seed=seed + 9)
        found.append(linear)
    return found


def forward(modules: Iterable[nn.Module], x: Tensor) -> list[float]:
    """Send x through the modules and return the root mean square after each."""
    sizes = []
    for module in modules:
        x = module(x)
        sizes.append(float(x.detach().square().mean().sqrt()))
    return sizes


def hooks(modules: Iterable[nn.Module]) -> int:
    """Return the number of hooks on the modules."""
    kinds = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
    return sum(len(getattr(module, kind)) for module in modules for kind in kinds)


def measures(f: Watch, calls: int) -> None:
    """Test what is collected in ``calls`` forward passes, and that a gradient still flows."""
    modules, want = blocks(), []
    with f(modules) as sizes:
        for call in range(calls):
            want += forward(modules, draw(5, 4, seed=call))
    if not isinstance(sizes, list):
        raise Unmet(f"it returned a {type(sizes).__name__}, where a list was asked for")
    close(torch.tensor(sizes).double(), torch.tensor(want).double(), "the list of sizes", 1e-5)


def leaves_none(f: Watch, error: type[BaseException] | None = None) -> None:
    """Test that no hook is left, after an ordinary end or after ``error``."""
    modules = blocks()
    with suppress(*[error] if error else []):
        with f(modules):
            forward(modules, draw(5, 4))
            if error:
                raise error
        if error:
            raise Unmet("it swallowed the error; `finally` lets it through")
    if left := hooks(modules):
        raise Unmet(f"it left {left} hooks")


def spares_others(f: Watch) -> None:
    """Test that a foreign hook stays, and that one watch can run inside another."""
    modules = blocks()
    modules[0].register_forward_hook(lambda *_: None)
    with f(modules) as outer:
        with f(modules) as inner:
            forward(modules, draw(5, 4))
        forward(modules, draw(5, 4))
    close(len(outer), 6, "the count of the outer of two watches")
    close(len(inner), 3, "the count of the inner of two watches")
    if hooks(modules) != 1:
        raise Unmet("it removed a hook that it had not put there")


def changes_nothing(f: Watch) -> None:
    """Test that the blocks return what they returned before, and that gradients flow as before."""
    modules, x = blocks(), draw(5, 4).requires_grad_()
    leaves = [x, *(p for module in modules for p in module.parameters())]
    want = torch.autograd.grad(nn.Sequential(*modules)(x).square().sum(), leaves)
    with f(modules):
        output = nn.Sequential(*modules)(x)
    if not output.requires_grad:
        raise Unmet("no gradient comes back through the watched blocks; let the hook return nothing")
    found = torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)
    names = ["x", *(f"blocks[{i}].{part}" for i in range(3) for part in ("weight", "bias"))]
    for name, mine, right in zip(names, found, want, strict=True):
        if mine is None:
            raise Unmet(f"no gradient reaches `{name}` through the watched blocks; let the hook return nothing")
        close(mine, right, f"through the watched blocks, the gradient of `{name}`")


def leaves_state(f: Watch) -> None:
    """Test that modes, methods and the session's settings stay as they are, inside and after."""
    modules = blocks()
    modules[1].eval()
    with unchanged(blocks=modules), f(modules):
        forward(modules, draw(5, 4))
        if [module.training for module in modules] != [True, False, True]:
            raise Broken("inside, it changed a block's mode; leave `train()` and `eval()` to the caller")
        if not torch.is_grad_enabled():
            raise Broken("inside, gradients are switched off; measure with `.detach()` and leave the mode alone")
    if any("forward" in vars(module) for module in modules):
        raise Broken("it left a `forward` of its own on a block; a hook needs none")


def left_after(f: Watch, error: type[BaseException]) -> int:
    """Return how many hooks are left after the ``with`` body raised ``error``."""
    modules = blocks()
    with suppress(error), f(modules):
        raise error
    return hooks(modules)


def observe(f: Watch) -> dict[str, Any]:
    """Return the sizes, the hooks left after each way out, and whether a foreign hook and an error survive."""
    modules = blocks()
    other = modules[0].register_forward_hook(lambda *_: None)
    with f(modules) as sizes:
        forward(modules, draw(5, 4))
    left = [hooks(modules), left_after(f, ValueError), left_after(f, Leave)]
    survives = other.id in modules[0]._forward_hooks
    return {"sizes": list(sizes), "left": left, "survives": survives, "raises": lets_through(f)}


def lets_through(f: Watch) -> bool:
    """Return whether an error in the ``with`` body is raised out of it."""
    try:
        with f(blocks()):
            raise Leave
    except Leave:
        return True
    return False


WATCH_ACTIVATIONS = Exercise(
    reference=watch(),
    observe=observe,
    properties=(
        Property("one root mean square for each block, in their order", lambda f: measures(f, 1)),
        Property("three calls, nine numbers", lambda f: measures(f, 3)),
        Property(
            "the blocks return what they returned before, and gradients flow through them", changes_nothing, hints=()
        ),
        Property("modes, methods and the gradient mode stay as they are", leaves_state, hints=()),
        Property("no hook is left at the end of the block", leaves_none),
        Property("no hook is left after an error", lambda f: leaves_none(f, ValueError)),
        Property("no hook is left after the stop button", lambda f: leaves_none(f, Leave)),
        Property("hooks of others stay, and two watches get along", spares_others),
    ),
    mistakes=(
        Mistake(watch(remove=lambda handles, modules: None), "hooks that stay", "Call `remove()` on each handle."),
        Mistake(
            watch(caught=()),
            "hooks removed after a good end alone",
            "Put `yield` into `try:` and the rest in `finally:`.",
        ),
        Mistake(
            watch(caught=(Exception,)),
            "an `except Exception`, which the stop button passes by",
            "Use `finally:`, which runs however the block is left.",
        ),
        Mistake(
            watch(remove=lambda handles, modules: handles[-1].remove()),
            "the last handle alone removed: each overwrote the one before",
            "Keep all handles, in a list.",
        ),
        Mistake(
            watch(remove=sweep),
            "all hooks swept away, those of others too",
            "Remove your own, by their handles.",
        ),
        Mistake(swallowing, "an error that never comes out", "`finally:` lets it through; do not `except` it."),
        Mistake(watch(lambda x, y: rms(x)), "the blocks' input", "A hook gets (block, args, output): take the third."),
        Mistake(
            watch(lambda x, y: float(y.detach().norm())),
            "norms, which grow with the batch",
            "Take `.mean()` of squares.",
        ),
        Mistake(
            watch(lambda x, y: float(y.detach().mean())),
            "means, in which signs cancel",
            "Square first, root at the end.",
        ),
        Mistake(
            watch(lambda x, y: float(y.detach().abs().mean())), "means of sizes", "Square, average, take the root."
        ),
        Mistake(
            watch(replaces=True),
            "a hook that returns something, which then replaces the block's output",
            "Let the hook return nothing.",
        ),
    ),
    hints=(
        "It needs a forward hook and no tensor hook. What has to be kept, so that it can be removed?",
        "`register_forward_hook` returns a handle. Which part of a `try` statement runs however its body is left?",
    ),
)

EXERCISES = {"watch_activations": WATCH_ACTIVATIONS}
