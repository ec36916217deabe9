"""Exercise on mending: a ViT that cannot tell where a patch stands, for two reasons, one behind the other."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet
from residual_course.exercises.handed_positions import (
    MENDED,
    Handed,
    Mean,
    Pixels,
    Shifted,
    changed,
    letters,
)

Answer = Callable[[], Any]  # makes a network

STEPS, RATE, ASKED = 300, 2e-3, 0.5  # the lesson's training, and the share of right answers asked for


def network(f: Answer, seed: int = 0) -> nn.Module:
    """Return a new network of an answer, or raise for what is none."""
    torch.manual_seed(seed)
    net = f()
    if not isinstance(net, nn.Module):
        raise Broken(f"it returned a {type(net).__name__}, where an nn.Module was asked for")
    out = net(torch.zeros(3, 1, 16, 16))
    if not isinstance(out, Tensor) or out.shape != (3, 10):
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise Broken(f"for x of shape (3, 1, 16, 16) it returned {shape}, where (3, 10) was asked for")
    return net


def moved(net: nn.Module, patches: bool = True) -> float:
    """Return how far the outputs move if the patches of a picture change places, over the outputs' spread.

    With ``patches`` False a single patch is moved to another picture's, which every network must see.
    """
    x = letters(test=True)[0][:64]
    grid = x.unflatten(3, (4, 4)).unflatten(2, (4, 4)).transpose(3, 4).flatten(2, 3)  # (n, 1, 16, 4, 4)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    other = grid[:, :, order] if patches else torch.cat([grid[:, :, :8], grid.roll(1, 0)[:, :, 8:]], dim=2)
    other = other.unflatten(2, (4, 4)).transpose(3, 4).flatten(4).flatten(2, 3)
    with torch.no_grad():
        before, after = net(x), net(other)
    return ((after - before).square().mean() / before.var(0).mean().clamp(min=1e-20)).sqrt().item()


def _is_a_network(f: Answer) -> None:
    network(f)


def _is_a_vit(f: Answer) -> None:
    net = network(f)
    for name in ("embed", "blocks", "out"):
        if not isinstance(getattr(net, name, None), nn.Module):
            raise Unmet(f"it has no `{name}`, so it is another network: mend the one that is handed over")
    seen: list[tuple[int, ...]] = []
    hook = net.get_submodule("blocks.0").register_forward_hook(lambda block, given, out: seen.append(given[0].shape))
    net(torch.zeros(3, 1, 16, 16))
    hook.remove()
    if not seen or len(seen[0]) != 3 or seen[0][1] < 16:
        raise Unmet("its first block does not get a token for each of the 16 patches")


def _reads_its_blocks(f: Answer) -> None:
    net, x = network(f), torch.zeros(3, 1, 16, 16)
    before = net(x)
    net.get_submodule("blocks.0").register_forward_hook(lambda block, given, out: out + torch.randn(out.shape))
    if net(x).equal(before):
        raise Unmet("its output does not depend on what its blocks give out")


def taught(f: Answer, seed: int = 0) -> float:
    """Return the share of new letters that a network of an answer names after training."""
    net, generator, (x, y) = network(f, seed), torch.Generator().manual_seed(seed), letters()
    if not (learned := [p for p in net.parameters() if p.requires_grad]):
        raise Unmet("none of its parameters learns")
    adam = torch.optim.AdamW(learned, RATE, weight_decay=0.05, fused=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, STEPS, pct_start=0.1)
    with torch.enable_grad():
        for _ in range(STEPS):
            rows = torch.randint(len(x), (32,), generator=generator)
            adam.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            adam.step()
            plan.step()
    net.eval()
    x, y = letters(test=True)
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def _learns(f: Answer) -> None:
    if (right := taught(f)) < ASKED:
        raise Unmet(f"after {STEPS} steps it names {right:.0%} of new letters")


def _observe(f: Answer) -> Any:
    net = network(f)
    kinds = [hasattr(net, name) for name in ("embed", "blocks", "out")]
    sizes = [p.numel() * p.requires_grad for p in net.parameters()]
    return [round(moved(net), 3), round(moved(net, patches=False), 3), *kinds, len(sizes), sum(sizes)]


def nothing() -> None:
    """Return no network."""


MENDED_VIT = Exercise(
    reference=changed(**MENDED),
    also_right=(changed(rows=17, start=1.4, learned=True),),
    observe=_observe,
    effort=25,  # it trains a network
    properties=(
        Property("it returns a network: (n, 1, 16, 16) to (n, 10)", _is_a_network, ()),
        Property("it is the ViT that was handed over: patches, blocks, an output", _is_a_vit, ()),
        Property("what its blocks give out moves its output", _reads_its_blocks, ()),
        Property(f"after {STEPS} steps it names at least {ASKED:.0%} of new letters", _learns),
    ),
    mistakes=(
        Mistake(
            Handed, "the network as it was handed over", "Give it a picture and the same 16 patches in another order."
        ),
        Mistake(
            changed(learned=True),
            "a table that learns, the rest as it was handed over",
            "Does the table's gradient tell one patch from another?",
        ),
        Mistake(
            changed(rows=17, learned=True),
            "a table with rows that learn, far smaller than what it is added to",
            "Compare the size of the table's rows with that of the patches that they are added to.",
        ),
        Mistake(Shifted, "one vector for all patches, larger", "In what do two rows of the table differ?"),
        Mistake(changed(rows=17, scaled=False), "a table from 0.02", "The lesson's plain ViT is no further."),
        Mistake(Mean, "the mean of the table at every patch", "In what do two patches' positions differ?"),
        Mistake(Pixels, "another network", "Keep patches and blocks: what is missing is where a patch stands."),
        Mistake(nothing, "a function without its `return`", "It returns the network, an nn.Module."),
    ),
    hints=(
        "What must a reader of letters know that a bag of patches does not tell? Give a new network a picture, and the "
        "same picture with its patches in another order. After each mend, measure again before you train.",
        "Two sizes: how far two rows of what is added differ, and how large the patches are that it is added to.",
    ),
)

EXERCISES = {"mended_vit": MENDED_VIT}
