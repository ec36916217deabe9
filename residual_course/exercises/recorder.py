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


class Block(nn.Module):
    """x + tanh(x W) W', as a tensor or as a tuple with more."""

    def __init__(self, seed: int, width: int = 4, as_tuple: bool = False) -> None:
        super().__init__()
        self.first = nn.Parameter((seed + 1) / 4 * draw(width, width, seed=seed))
        self.second = nn.Parameter(draw(width, width, seed=seed + 7) / 2)
        self.as_tuple = as_tuple

    def forward(self, x: Tensor | tuple[Tensor, ...]) -> Any:
        """Return the stream after the block."""
        x = x[0] if isinstance(x, tuple) else x
        y = x + torch.tanh(x @ self.first) @ self.second
        return (y, y.detach()) if self.as_tuple else y


def stack(count: int = 3, as_tuple: bool = False) -> list[nn.Module]:
    """Return blocks that differ in size, in the gradient and in the weights' gradients."""
    return [Block(seed, as_tuple=as_tuple) for seed in range(count)]


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


def leaf(*shape: int) -> Tensor:
    """Return an input that wants a gradient."""
    return draw(*(shape or (5, 4)), seed=5).requires_grad_()


def true_sizes(count: int) -> tuple[list[float], list[float]]:
    """Return the sizes after each block and those of the gradients there, by autograd."""
    places = forward(stack(count), leaf())
    gradients = torch.autograd.grad(loss(places[-1]), places[1:])
    return [rms(x) for x in places[1:]], [rms(g) for g in gradients]


def heard(f: Listen, count: int = 3, as_tuple: bool = False, runs: int = 1) -> Heard:
    """Return what an answer noted."""
    blocks = stack(count, as_tuple)
    found = f(blocks)
    for _ in range(runs):
        loss(forward(blocks, leaf())[-1]).backward()
    return found


def same(got: Any, want: list[float], name: str) -> None:
    """Test one list."""
    numbers = numbers_of(got)
    if len(numbers) != len(want):
        raise Unmet(f"`{name}` has {len(numbers)} numbers for {len(want)} blocks")
    close(numbers, torch.tensor(want).double(), f"`{name}`", 1e-5)


def notes(which: int, name: str, **how: Any) -> Callable[[Listen], None]:
    """Return the test of one of the two lists."""

    def test(f: Listen) -> None:
        for count in 4, 1:
            same(heard(f, count, **how)[which], true_sizes(count)[which], name)

    return test


def quiet(f: Listen) -> None:
    """Test a run without gradients."""
    blocks = stack()
    sizes, back, _ = f(blocks)
    with torch.no_grad():
        forward(blocks, draw(5, 4, seed=5))
    same(sizes, true_sizes(3)[0], "forward")
    if len(back):
        raise Unmet(f"`backward` has {len(back)} numbers after a run without gradients, where none was to come")


def changes_nothing(f: Listen) -> None:
    """Test that the gradient is what it was."""
    x, y = leaf(), leaf()
    loss(forward(stack(), x)[-1]).backward()
    blocks = stack()
    f(blocks)
    loss(forward(blocks, y)[-1]).backward()
    if y.grad is None:
        raise Unmet("no gradient comes back through the blocks; let the hooks return nothing")
    close(y.grad, x.grad, "with the hooks, the gradient at the input")


def listener(note: Callable[[list[Any], list[Any], Any, Tensor], Any]) -> Listen:
    """Return an answer with this body of ``note``, which gets both lists, the block's argument and x."""

    def listen(blocks: list[nn.Module]) -> Heard:
        before: list[Any] = []
        after: list[Any] = []

        def hook(block: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            x = output[0] if isinstance(output, tuple) else output
            start = args[0][0] if isinstance(args[0], tuple) else args[0]
            note(before, after, start, x)

        return before, after, [block.register_forward_hook(hook) for block in blocks]

    return listen


def both(size: Callable[[Tensor], Any] = rms, back: Callable[[list[Any], Any], Any] | None = None) -> Listen:
    """Return an answer that measures so and puts gradients into their list so."""
    into = back or (lambda sizes, number: sizes.insert(0, number))

    def note(before: list[Any], after: list[Any], _: Any, x: Tensor) -> None:
        before.append(size(x))
        if x.requires_grad:
            x.register_hook(lambda g: into(after, size(g)))

    return listener(note)


def unguarded(before: list[Any], after: list[Any], _: Any, x: Tensor) -> None:
    """Leave a hook in any case."""
    before.append(rms(x))
    x.register_hook(lambda g: after.insert(0, rms(g)))


def of_the_input(before: list[Any], after: list[Any], start: Any, x: Tensor) -> None:
    """Measure what the block received."""
    before.append(rms(start))
    if start.requires_grad:
        start.register_hook(lambda g: after.insert(0, rms(g)))


def of_x(before: list[Any], after: list[Any], _: Any, x: Tensor) -> None:
    """Note the size of x in both lists."""
    before.append(rms(x))
    if x.requires_grad:
        x.register_hook(lambda g: after.insert(0, rms(x)))


def front(before: list[Any], after: list[Any], _: Any, x: Tensor) -> None:
    """Put both numbers in front."""
    before.insert(0, rms(x))
    if x.requires_grad:
        x.register_hook(lambda g: after.insert(0, rms(g)))


def by_norm(before: list[Any], after: list[Any], _: Any, x: Tensor) -> None:
    """Measure by norms, and ask torch whether gradients are on."""
    before.append(float(torch.linalg.vector_norm(x.detach()) / x.numel() ** 0.5))
    if torch.is_grad_enabled():
        x.register_hook(lambda g: after.insert(0, (g * g).mean().sqrt().item()))


def at_once(before: list[Any], after: list[Any], _: Any, x: Tensor) -> None:
    """Leave the hook first, and note tensors of one number."""
    if x.requires_grad:
        x.register_hook(lambda g: after.insert(0, g.pow(2).mean().sqrt()))
    before += [x.detach().pow(2).mean().sqrt()]


def forward_only(before: list[Any], after: list[Any], _: Any, x: Tensor) -> None:
    """Leave no tensor hook."""
    before.append(rms(x))


LISTEN = Exercise(
    reference=both(),
    also_right=(listener(by_norm), listener(at_once)),
    observe=lambda f: seen(
        lambda: [list(found) for found in heard(f)[:2]],
        lambda: quiet(f),
        lambda: [list(found) for found in heard(f, runs=2)[:2]],
    ),
    properties=(
        Property("forward", notes(0, "forward"), hints=(1,)),
        Property("backward", notes(1, "backward")),
        Property("with blocks that return tuples", notes(1, "backward", as_tuple=True)),
        Property("without gradients", quiet, hints=()),
        Property("nothing else changes", changes_nothing, hints=()),
    ),
    mistakes=(
        Mistake(
            both(back=lambda sizes, number: sizes.append(number)),
            "a list `backward` that begins with the last block",
            "The gradient reaches the last block first: put each number in front of the others.",
        ),
        Mistake(listener(forward_only), "a hook that leaves none with x", "Leave a hook with x, for its gradient."),
        Mistake(listener(of_x), "the size of x in both lists", "The hook gets the gradient: measure that."),
        Mistake(listener(of_the_input), "what each block received", "Measure and hook x, which the block returned."),
        Mistake(both(lambda x: x.detach().norm().item()), "norms, which grow with the tensor", "Use rms."),
        Mistake(both(lambda x: x.detach().square().mean().item()), "mean squares without the root", "Use rms."),
        Mistake(both(lambda x: x.detach().abs().mean().item()), "means of absolute values", "Use rms."),
        Mistake(
            listener(unguarded),
            "a hook on every x, also where no gradient will come",
            "Ask x.requires_grad before you leave the hook.",
        ),
        Mistake(
            listener(front),
            "a list `forward` that begins with the last block",
            "The first block runs first: append its number.",
        ),
    ),
    hints=(
        "x is there when the hook is called: note its size at once.",
        "What a tensor hook is called with is the gradient at that tensor, and the last block's comes first.",
    ),
)

# The class around it

listen = both()


def size_of_gradients(block: nn.Module) -> float:
    """Return the size of all of a block's gradients, as one."""
    grads = [w.grad.flatten() for w in block.parameters() if w.grad is not None]
    return rms(torch.cat(grads)) if grads else float("nan")


Exit = Callable[[Any], Any]


def take_away(self: Any) -> None:
    """Remove all hooks."""
    for handle in self.handles:
        handle.remove()


def measure(self: Any) -> None:
    """Measure the weights' gradients."""
    self.weight_gradient = [size_of_gradients(block) for block in self.blocks]


def recorder(leave: Callable[..., Any]) -> type:
    """Return a recorder whose ``__exit__`` is ``leave``."""

    class Recorder:
        def __init__(self, blocks: Sequence[nn.Module]) -> None:
            self.blocks = list(blocks)

        def __enter__(self) -> Any:
            self.activation, self.stream_gradient, self.handles = listen(self.blocks)
            return self

        def __exit__(self, *error: Any) -> Any:
            return leave(self)

    return Recorder


def after(*steps: Exit) -> type:
    """Return a recorder that does these things at its end."""

    def leave(self: Any) -> None:
        for step in steps:
            step(self)

    return recorder(leave)


def recorded(f: type, blocks: list[nn.Module]) -> Any:
    """Return a recorder after one step."""
    with f(blocks) as flow:
        loss(forward(blocks, leaf())[-1]).backward()
    return flow


def left(blocks: Sequence[nn.Module]) -> int:
    """Return how many hooks the blocks still have."""
    return sum(len(block._forward_hooks) for block in blocks)


def weights(f: type) -> None:
    """Test the third list."""
    for count in 3, 1:
        blocks, twin = stack(count), stack(count)
        flow = recorded(f, blocks)
        loss(forward(twin, leaf())[-1]).backward()
        if not hasattr(flow, "weight_gradient"):
            raise Unmet("the recorder has no `weight_gradient` after the `with`")
        same(flow.weight_gradient, [size_of_gradients(block) for block in twin], "weight_gradient")


def removes(f: type) -> None:
    """Test that no hook of its own stays."""
    blocks = stack()
    blocks[1].register_forward_hook(lambda *_: None)
    recorded(f, blocks)
    if (count := left(blocks) - 1) > 0:
        raise Unmet(f"{count} of 3 hooks are still there after the `with`")
    if count < 0:
        raise Unmet("a hook that somebody else had left is gone; remove those in self.handles alone")


def error_passes(f: type) -> tuple[bool, int]:
    """Return whether an error comes out of the ``with``, and how many hooks it leaves."""
    blocks, raised = stack(), True
    with suppress(KeyError):
        with f(blocks):
            raise KeyError
        raised = False
    return raised, left(blocks)


def survives(f: type) -> None:
    """Test an error in the body."""
    raised, count = error_passes(f)
    if not raised:
        raise Unmet("an error in the `with` was swallowed, since __exit__ returned something true")
    if count:
        raise Unmet(f"{count} hooks are still there after an error in the `with`")


def one_hook(self: Any) -> None:
    """Remove the last hook."""
    self.handles[-1].remove()


def sweep(self: Any) -> None:
    """Remove everybody's hooks."""
    for block in self.blocks:
        block._forward_hooks.clear()


def first_weight(self: Any) -> None:
    """Measure one weight of each block."""
    self.weight_gradient = [rms(next(block.parameters()).grad) for block in self.blocks]


def weights_themselves(self: Any) -> None:
    """Measure the weights."""
    self.weight_gradient = [rms(torch.cat([w.flatten() for w in b.parameters()])) for b in self.blocks]


def one_number(self: Any) -> None:
    """Measure all blocks as one."""
    self.weight_gradient = [size_of_gradients(nn.ModuleList(self.blocks))]


def backwards(self: Any) -> None:
    """Begin with the last block."""
    self.weight_gradient = [size_of_gradients(block) for block in self.blocks[::-1]]


def by_loop(self: Any) -> None:
    """Fill the list block by block."""
    self.weight_gradient = []
    for block in self.blocks:
        self.weight_gradient.append(size_of_gradients(block))


def popped(self: Any) -> None:
    """Remove the hooks from the end, and the handles with them."""
    while self.handles:
        self.handles.pop().remove()


def returning(value: bool) -> Callable[[Any], bool]:
    """Return an ``__exit__`` that does both and returns ``value``."""

    def leave(self: Any) -> bool:
        take_away(self)
        measure(self)
        return value

    return leave


RECORDER = Exercise(
    reference=after(take_away, measure),
    also_right=(
        after(measure, take_away),
        after(by_loop, take_away),
        after(popped, measure),
        recorder(returning(False)),
    ),
    observe=lambda f: seen(
        lambda: list(recorded(f, stack()).weight_gradient),
        lambda: [recorded(f, blocks := stack()) and left(blocks), error_passes(f)],
        lambda: removes(f),
    ),
    properties=(
        Property("weight_gradient", weights),
        Property("no hook is left", removes, hints=(1,)),
        Property("also after an error", survives, hints=()),
    ),
    mistakes=(
        Mistake(after(take_away), "hooks removed, and no weight gradients", "Call size_of_gradients for each block."),
        Mistake(after(measure), "hooks that stay", "Call remove() on each of self.handles."),
        Mistake(after(one_hook, measure), "one hook removed", "Remove each of self.handles, in a loop."),
        Mistake(after(sweep, measure), "hooks of others removed too", "Remove those in self.handles, and no others."),
        Mistake(after(take_away, first_weight), "one weight of each block", "Use size_of_gradients on the block."),
        Mistake(after(take_away, weights_themselves), "the weights' own sizes", "Use size_of_gradients."),
        Mistake(after(take_away, one_number), "one number for all blocks", "Make one number for each block."),
        Mistake(
            after(take_away, backwards), "a list that begins with the last block", "Keep the order of self.blocks."
        ),
        Mistake(
            recorder(returning(True)),
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
