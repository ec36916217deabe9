"""Exercises on a recorder: the hooks that note two sizes at each block, and the class that takes them away again."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, close, draw
from residual_course.checking.properties import numbers_of
from residual_course.checking.seen import seen

Heard = tuple[list[Any], list[Any], list[Any]]
Listen = Callable[[list[nn.Module]], Heard]


def rms(x: Tensor) -> float:
    """Return the root mean square."""
    return x.detach().square().mean().sqrt().item()


class _Block(nn.Module):
    """x + tanh(x W) W', as a tensor or as a tuple with more."""

    def __init__(self, seed: int, width: int = 4, as_tuple: bool = False) -> None:
        super().__init__()
        self.first = nn.Parameter((seed + 1) / 4 * draw(width, width, seed=seed))
        self.second = nn.Parameter(draw(width, width, seed=seed + 7) / 2)
        self.as_tuple = as_tuple

    def forward(self, x: Tensor) -> Any:
        y = x + torch.tanh(x @ self.first) @ self.second
        return (y, y.detach()) if self.as_tuple else y


def stack(count: int = 3, as_tuple: bool = False) -> list[nn.Module]:
    """Return blocks that differ in size, in the gradient and in the weights' gradients."""
    return [_Block(seed, as_tuple=as_tuple) for seed in range(count)]


def forward(blocks: Sequence[nn.Module], x: Tensor) -> list[Tensor]:
    """Return x and the stream after each block."""
    places = [x]
    for block in blocks:
        y = block(places[-1])
        places.append(y[0] if isinstance(y, tuple) else y)
    return places


def loss(x: Tensor) -> Tensor:
    """Return one number whose gradient differs from entry to entry."""
    return (x * draw(*x.shape, seed=9)).sum() + x.pow(3).mean()


def back(blocks: Sequence[nn.Module]) -> Tensor:
    """Run the blocks forward and back, and return the input, whose gradient is there if one came."""
    x = draw(5, 4, seed=5).requires_grad_()
    loss(forward(blocks, x)[-1]).backward()
    return x


def true_sizes(count: int) -> tuple[list[float], list[float]]:
    """Return the sizes after each block and those of the gradients there, by autograd."""
    places = forward(stack(count), draw(5, 4, seed=5).requires_grad_())
    gradients = torch.autograd.grad(loss(places[-1]), places[1:])
    return [rms(x) for x in places[1:]], [rms(g) for g in gradients]


def same(got: Any, want: list[float], name: str) -> None:
    """Test one list."""
    numbers = numbers_of(got)
    if len(numbers) != len(want):
        raise Unmet(f"`{name}` has {len(numbers)} numbers for {len(want)} blocks")
    close(numbers, torch.tensor(want).double(), f"`{name}`", 1e-5)


def heard(f: Listen, count: int = 3, as_tuple: bool = False) -> Heard:
    """Return what an answer noted."""
    found = f(blocks := stack(count, as_tuple))
    back(blocks)
    return found


def notes(which: int, name: str, as_tuple: bool = False) -> Callable[[Listen], None]:
    """Return the test of one of the two lists."""

    def test(f: Listen) -> None:
        for count in 4, 1:
            same(heard(f, count, as_tuple)[which], true_sizes(count)[which], name)

    return test


def _quiet(f: Listen) -> None:
    for enabled in False, True:  # without gradients, then with frozen weights
        blocks = stack()
        for block in blocks:
            block.requires_grad_(not enabled)
        sizes, later, _ = f(blocks)
        with torch.set_grad_enabled(enabled):
            forward(blocks, draw(5, 4, seed=5))
        same(sizes, true_sizes(3)[0], "forward")
        if len(later):
            raise Unmet(f"`backward` has {len(later)} numbers after a run without gradients, where none was to come")


def _changes_nothing(f: Listen) -> None:
    f(pairs := stack(as_tuple=True))
    if not isinstance(pairs[0](draw(5, 4, seed=5)), tuple):
        raise Unmet("a block that returned a tuple returns something else; let the hooks return nothing")
    f(blocks := stack())
    found, wanted = back(blocks).grad, back(stack()).grad
    if found is None:
        raise Unmet("no gradient comes back through the blocks; let the hooks return nothing")
    close(found, wanted, "with the hooks, the gradient at the input")


def listener(into: Callable[[list[Any], Tensor, Tensor], Any], asks: bool = True) -> Listen:
    """Return an answer whose tensor hook does ``into(backward, gradient, x)``; it ``asks`` whether one will come."""

    def listen(blocks: list[nn.Module]) -> Heard:
        before: list[Any] = []
        after: list[Any] = []

        def hook(block: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            x = output[0] if isinstance(output, tuple) else output
            before.append(rms(x))
            if x.requires_grad or not asks:
                x.register_hook(lambda g: into(after, g, x))

        return before, after, [block.register_forward_hook(hook) for block in blocks]

    return listen


listen = listener(lambda sizes, g, x: sizes.insert(0, rms(g)))

LISTEN = Exercise(
    reference=listen,
    observe=lambda f: seen(lambda: [list(found) for found in heard(f)[:2]], lambda: _quiet(f)),
    properties=(
        Property("forward", notes(0, "forward"), hints=(1,)),
        Property("backward", notes(1, "backward")),
        Property("with blocks that return tuples", notes(1, "backward", as_tuple=True)),
        Property("without gradients", _quiet, hints=()),
        Property("nothing else changes", _changes_nothing, hints=()),
    ),
    mistakes=(
        Mistake(
            listener(lambda sizes, g, x: sizes.append(rms(g))),
            "a list `backward` that begins with the last block",
            "The gradient reaches the last block first: put each number in front of the others.",
        ),
        Mistake(
            listener(lambda sizes, g, x: sizes.insert(0, rms(x))),
            "the size of x in both lists",
            "The hook gets the gradient: measure that.",
        ),
        Mistake(
            listener(lambda sizes, g, x: sizes.insert(0, rms(g)), asks=False),
            "a hook on every x, also where no gradient will come",
            "Ask x.requires_grad before you leave the hook.",
        ),
    ),
    hints=(
        "x is there when the hook is called: note its size at once.",
        "What a tensor hook is called with is the gradient at that tensor, and the last block's comes first.",
    ),
)

# The class around it


def size_of_gradients(block: nn.Module) -> float:
    """Return the size of all of a block's gradients, as one."""
    grads = [w.grad.flatten() for w in block.parameters() if w.grad is not None]
    return rms(torch.cat(grads)) if grads else float("nan")


def size_of_weights(block: nn.Module) -> float:
    """Return the size of all of a block's weights, as one."""
    return rms(torch.cat([w.flatten() for w in block.parameters()]))


def recorder(
    size: Callable[[nn.Module], float] = size_of_gradients, takes_away: bool = True, returns: Any = None
) -> type:
    """Return a recorder whose ``__exit__`` measures so, ``takes_away`` its hooks, and returns this."""

    class Recorder:
        def __init__(self, blocks: Sequence[nn.Module]) -> None:
            self.blocks = list(blocks)

        def __enter__(self) -> Any:
            self.activation, self.stream_gradient, self.handles = listen(self.blocks)
            return self

        def __exit__(self, *error: Any) -> Any:
            for handle in self.handles if takes_away else ():
                handle.remove()
            self.weight_gradient = [size(block) for block in self.blocks]
            return returns

    return Recorder


def recorded(f: type, blocks: list[nn.Module]) -> Any:
    """Return a recorder after one step."""
    with f(blocks) as flow:
        back(blocks)
    return flow


def left(blocks: Sequence[nn.Module]) -> int:
    """Return how many hooks the blocks still have."""
    return sum(len(block._forward_hooks) for block in blocks)


def error_passes(f: type) -> tuple[bool, int]:
    """Return whether an error comes out of the ``with``, and how many hooks it leaves."""
    blocks, raised = stack(), True
    with suppress(KeyError):
        with f(blocks):
            raise KeyError
        raised = False
    return raised, left(blocks)


def second_frozen(count: int) -> list[nn.Module]:
    """Return blocks of which the second, if there is one, gets no gradients of its weights."""
    blocks = stack(count)
    for block in blocks[1:2]:
        block.requires_grad_(False)
    return blocks


def _weights(f: type) -> None:
    for count in 3, 1:
        back(twin := second_frozen(count))
        flow = recorded(f, second_frozen(count))
        if not hasattr(flow, "weight_gradient"):
            raise Unmet("the recorder has no `weight_gradient` after the `with`")
        same(flow.weight_gradient, [size_of_gradients(block) for block in twin], "weight_gradient")
        for name, sizes in zip(("activation", "stream_gradient"), true_sizes(count), strict=True):
            same(getattr(flow, name, ()), sizes, name)


def _removes(f: type) -> None:
    blocks = stack()
    blocks[1].register_forward_hook(lambda *_: None)
    recorded(f, blocks)
    if (count := left(blocks) - 1) > 0:
        raise Unmet(f"{count} of 3 hooks are still there after the `with`")
    if count < 0:
        raise Unmet("a hook that somebody else had left is gone; remove those in self.handles alone")


def _survives(f: type) -> None:
    raised, count = error_passes(f)
    if not raised:
        raise Unmet("an error in the `with` was swallowed, since __exit__ returned something true")
    if count:
        raise Unmet(f"{count} hooks are still there after an error in the `with`")


RECORDER = Exercise(
    reference=recorder(),
    observe=lambda f: seen(lambda: list(recorded(f, stack()).weight_gradient), lambda: error_passes(f)),
    properties=(
        Property("weight_gradient", _weights),
        Property("no hook is left", _removes, hints=(1,)),
        Property("also after an error", _survives, hints=()),
    ),
    mistakes=(
        Mistake(recorder(takes_away=False), "hooks that stay", "Call remove() on each of self.handles."),
        Mistake(recorder(size_of_weights), "the weights' own sizes", "Use size_of_gradients."),
        Mistake(
            recorder(returns=True),
            "an __exit__ that returns something",
            "Return nothing, so that an error in the `with` comes out of it.",
        ),
    ),
    hints=(
        "What did step 2 do with its handles?",
        "One call of size_of_gradients for each of self.blocks, kept as self.weight_gradient.",
    ),
)

EXERCISES = {"listen": LISTEN, "recorder": RECORDER}
