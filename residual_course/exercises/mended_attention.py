"""Exercise on mending: a block with attention whose network ignores its label, for three reasons."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet
from residual_course.exercises.handed_attention import (
    WIDTH,
    Completer,
    Flat,
    Front,
    Handed,
    Values,
    data,
    joined,
    loss_of,
)

Answer = Callable[[int], Any]  # makes a block of a width

ADDS, LOSS = 0.05, 0.25  # what a wrong label must add at least, and the loss that the right ones may have at most
STEPS, RATE, SIZE = 150, 0.003, 16


def blocks_of(f: Answer, width: int) -> list[nn.Module]:
    """Return two of the answer's blocks, or raise for what is no block."""
    x, label, blocks = torch.zeros(3, width, 8, 8), torch.zeros(3, width), [f(width) for _ in range(2)]
    for block in blocks:
        if not isinstance(block, nn.Module):
            raise Broken(f"it made a {type(block).__name__}, where an nn.Module was asked for")
        out = block(x, label)
        if not isinstance(out, Tensor) or out.shape != x.shape:
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise Broken(f"`forward(x, label)` returned {shape}, where {tuple(x.shape)} was asked for")
    return blocks


def network(f: Answer, seed: int) -> Completer:
    """Return an untrained network with two of the answer's blocks."""
    torch.manual_seed(seed)
    return Completer(blocks_of(f, WIDTH))


def measured(f: Answer, seed: int) -> tuple[float, float]:
    """Return the loss with right labels, and what wrong ones add, of a network trained with two of the blocks."""
    model, (pictures, labels, new, truth) = network(f, seed), data()
    with torch.enable_grad():
        chosen = [p for p in model.parameters() if p.requires_grad]
        adam = torch.optim.Adam(chosen, RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, total_steps=STEPS)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(STEPS):
            rows = torch.randint(len(pictures), (SIZE,), generator=generator)
            adam.zero_grad()
            loss_of(model, pictures[rows], labels[rows]).backward()
            adam.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        right = loss_of(model, new, truth).item()
        wrong = sum(loss_of(model, new, (truth + k) % 10).item() for k in (1, 3, 6)) / 3
    return right, wrong - right


def _is_a_block(f: Answer) -> None:
    blocks_of(f, WIDTH)
    try:
        blocks_of(f, 2 * WIDTH)
    except RuntimeError as error:
        raise Broken(f"with a width of {2 * WIDTH} it raises {error}; use the `width` that is given") from error


class WithoutAttention(TorchFunctionMode):
    """While it is entered, ``F.scaled_dot_product_attention`` returns zeros."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what ``func`` returns, or zeros in its place."""
        out = func(*args, **(kwargs or {}))
        return torch.zeros_like(out) if func is F.scaled_dot_product_attention else out


def _comes_in_by_attention(f: Answer) -> None:
    """Raise where a label has an effect on what ``qkv`` returns, or past the attention."""
    torch.manual_seed(0)
    block, x, made = f(WIDTH).eval(), torch.randn(2, WIDTH, 8, 8), list[Tensor]()
    if not isinstance(getattr(block, "qkv", None), nn.Module):
        raise Unmet("it has no `qkv`, so it is another block: mend the one that is handed over")
    hook = block.qkv.register_forward_hook(lambda layer, given, out: made.append(out))
    with torch.no_grad(), WithoutAttention():
        one, other = (block(x, label) for label in 5 * torch.randn(2, 2, WIDTH))
    hook.remove()
    if len(made) != 2:
        raise Unmet(f"it calls its `qkv` {len(made) // 2} times, where the handed block calls it once")
    if (made[0] - made[1]).abs().max() > 1e-5:
        raise Unmet("the label already changes what `qkv` returns; let it in between `qkv` and the attention's result")
    if (one - other).abs().max() > 1e-5:
        raise Unmet("with zeros in the place of the attention's result the label still changes the output")


def _uses_its_label(f: Answer) -> None:
    for seed in (0, 1):
        right, added = measured(f, seed)
        if not added >= ADDS:
            raise Unmet(f"with seed {seed} a wrong label adds {added:.4f} to a loss of {right:.3f}")
        if not right <= LOSS:
            raise Unmet(f"with seed {seed} the label is used, and with the right one the loss is {right:.3f}")


def _observe(f: Answer) -> Any:
    """Return a new block's outputs, what another label of sample 0 moves, and which parameters have a gradient."""
    network(f, 0)
    torch.manual_seed(0)
    block, x, label = f(WIDTH).eval(), torch.randn(2, WIDTH, 8, 8), torch.randn(3, WIDTH)
    with torch.enable_grad():
        out, received = _received(block, x, label[:2])
        other, instead = _received(block, x, label[1:].flip(0))
        out.square().mean().backward()
    moved = (out - other).detach()
    inside = [float((a - b).abs().max() > 1e-5) for a, b in zip(received, instead, strict=True)]
    graded = [float(p.grad is not None) for p in block.parameters()]
    return [out.detach(), moved if moved.abs().max() > 1e-5 else 0 * moved, *inside, *graded]


def _received(block: nn.Module, x: Tensor, label: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return a block's output, and what each of its layers received."""
    seen = list[Tensor]()
    hooks = [
        layer.register_forward_pre_hook(lambda layer, given: seen.append(given[0].detach()))
        for layer in block.children()
    ]
    out = block(x, label)
    for hook in hooks:
        hook.remove()
    return out, seen


def nothing(width: int) -> None:
    """Return no block."""


MENDED_ATTENTION = Exercise(
    reference=joined(Values, own=True, groups=8),
    also_right=(
        joined(  # the label as one more pixel
            Handed, True, 8, lambda q, k, v, label: (q, torch.cat([k, label], dim=1), torch.cat([v, label], dim=1))
        ),
    ),
    observe=_observe,
    effort=25,  # it trains two networks, slowly where threads wait for each other
    properties=(
        Property("it makes a block: forward(x, label) returns the shape of x", _is_a_block, ()),
        Property("the label comes in between `qkv` and the attention's result alone", _comes_in_by_attention),
        Property(
            f"after {STEPS} steps a wrong label adds at least {ADDS}, and the loss with right ones is below {LOSS}",
            _uses_its_label,
        ),
    ),
    mistakes=(
        Mistake(Handed, "a vector that is added to every key", "Where on its way back does the vector's gradient end?"),
        Mistake(
            joined(Handed, groups=8),
            "a vector that is added to every key, with another norm after the attention",
            "What does it add to the 64 scores of one query?",
        ),
        Mistake(
            Values,
            "a vector that is added to every value, before a norm of single channels",
            "Weights that sum to 1 hand it on to every pixel alike. Which norm stands there?",
        ),
        Mistake(
            joined(Values, groups=8),
            "a vector that is the same for all samples",
            "Change the label of one sample alone: which samples' outputs change?",
        ),
        Mistake(
            joined(Handed, True, 8, lambda q, k, v, label: (q, k, v)),
            "a block without its label",
            "The label's vector must reach something that depends on it.",
        ),
        Mistake(
            joined(Handed, True, 8, lambda q, k, v, label: (q, k, v + label / 1000)),
            "a label too faint to be learned in these steps",
            "Compare the size of the vector with what it is added to.",
        ),
        Mistake(
            Front,
            "the handed block with a vector put in front",
            "Its three faults are still there. Let the label in between `qkv` and the attention's result.",
        ),
        Mistake(Flat, "pixels in a row", "Bring the output back to (batch, width, height, width)."),
        Mistake(nothing, "a function without its `return`", "It is called with the width, and returns a block."),
    ),
    hints=(
        "Change the label of one sample alone, in a new block: which samples' outputs change? Then follow the "
        "gradient back from the output: where does it end?",
        "A softmax cancels what is added to all scores of a query; weights that sum to 1 hand on what all values "
        "have in common. What do the layers after the attention do to that?",
    ),
)

EXERCISES = {"mended_attention": MENDED_ATTENTION}
