"""Exercise on mending: a causal head with a window and rotary positions, in which three lines are wrong."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, draw
from residual_course.checking.seen import seen
from residual_course.exercises.handed_head import (
    CausalAlone,
    EitherMask,
    Handed,
    Mended,
    Neighbours,
    OneSpeed,
    OneTooMany,
    Rows,
    Scaled,
    Turned,
    Undivided,
    Unturned,
    joined,
)

Answer = Callable[[int, int], Any]  # makes a head of a width and a window

WIDTH, WINDOW, POSITIONS = 8, 3, 9


def made(f: Answer, width: int = WIDTH, window: int = WINDOW) -> Any:
    """Return the head that ``f`` makes, in float64, its weights drawn; or raise for what is no head."""
    head = f(width, window)
    if not isinstance(head, nn.Module):
        raise Broken(f"it made a {type(head).__name__}, where an nn.Module was asked for")
    head = head.double()
    for name in ("turn", "mask", "weights"):
        if not callable(getattr(head, name, None)):
            raise Broken(f"its head has no method `{name}`: keep those of `Handed`")
    for name in "qkv":
        if not callable(getattr(head, name, None)):
            raise Broken(f"its head has no map `{name}`: keep the three of `Handed`")
    with torch.no_grad():
        for seed, p in enumerate(head.parameters()):
            p.copy_(draw(*p.shape, seed=seed + 3) / 4)
    return head


def weights(f: Answer, h: Tensor, **sizes: int) -> Tensor:
    """Return the weights of a head, or raise for another shape."""
    found = made(f, **sizes).weights(h)
    want = (len(h), h.shape[1], h.shape[1])
    if not isinstance(found, Tensor) or found.shape != want:
        raise Broken(f"`weights` did not return shape {want}")
    return found.detach()


def turned(f: Answer, x: Tensor) -> Tensor:
    """Return what a head makes of x with positions, or raise for another shape."""
    found = made(f, width=x.shape[-1]).turn(x)
    if not isinstance(found, Tensor) or found.shape != x.shape:
        raise Broken(f"`turn` did not return the shape of its input, {tuple(x.shape)}")
    return found.detach()


def _lengths(f: Answer) -> None:
    x = draw(2, POSITIONS, WIDTH)
    off = turned(f, x).norm(dim=-1) / x.norm(dim=-1) - 1
    if not off.abs().max() < 1e-4:
        raise Unmet(f"`turn` changes the length of a vector, by up to {off.abs().max().item():.0%}")


def _differences(f: Answer) -> None:
    for width in (WIDTH, 12):
        q, k = (turned(f, draw(1, 1, width, seed=seed).expand(1, POSITIONS, width).clone())[0] for seed in (0, 1))
        scores = q @ k.mT
        if not (scores[5, 3] - scores[3, 1]).abs() < 1e-4:
            raise Unmet("positions 5 and 3 have another score than 3 and 1, with the same two vectors")
        if (scores[5, 3] - scores[5, 4]).abs() < 1e-4:
            raise Unmet("positions 5 and 3 have the same score as 5 and 4: a score does not tell the distance")


def _speeds(f: Answer) -> None:
    # the cosine of the angle by which each feature turns from position 0 to 1
    found = turned(f, torch.eye(WIDTH, dtype=torch.float64)[:, None].expand(WIDTH, 2, WIDTH).clone())
    cosines = (found[:, 0] * found[:, 1]).sum(-1).sort().values
    if (cosines.max() - cosines.min()) < 1e-4:
        raise Unmet("`turn` turns every pair of features at the same speed")
    if (cosines[2::2] - cosines[1:-1:2]).min() < 1e-5:
        raise Unmet("`turn` turns two pairs of features at the same speed")


def _later(f: Answer) -> None:
    h = draw(2, POSITIONS, WIDTH)
    late = weights(f, h).triu(1).abs().amax(0)
    if not late.max() < 1e-9:
        i, j = (late == late.max()).nonzero()[0].tolist()
        raise Unmet(f"position {i} gives position {j}, which comes later, the weight {late[i, j].item():.2g}")
    changed = h.clone()
    changed[:, 5:] += 1
    head = made(f)
    moved = (head(changed) - head(h))[:, :5].abs().amax(dim=(0, 2))
    if not moved.max() < 1e-9:
        raise Unmet(f"a change at position 5 changes the output at {int(moved.argmax())}")


def _window(f: Answer) -> None:
    for window in (1, 3, 20):
        found = weights(f, draw(1, POSITIONS, WIDTH), window=window)[0] > 1e-12
        for i in range(POSITIONS):
            want = min(i + 1, window)
            if (count := int(found[i].sum())) != want or not found[i, i]:
                raise Unmet(
                    f"with a window of {window}, position {i} attends to {count} positions, where {want} is right"
                )


def _sums(f: Answer) -> None:
    sums = weights(f, draw(1, POSITIONS, WIDTH)).sum(-1)[0]
    at = int((sums - 1).abs().argmax())
    if not (sums[at] - 1).abs() < 1e-4:
        raise Unmet(f"the weights of position {at} sum to {sums[at].item():.3g}")


def _longer(f: Answer) -> None:
    h = draw(1, POSITIONS, WIDTH)
    short, long = weights(f, h[:, :4])[0], weights(f, h)[0, :4, :4]
    off = (long - short).abs()
    if not off.max() < 1e-4:
        i, j = (off == off.max()).nonzero()[0].tolist()
        raise Unmet(
            f"position {i} gives position {j} the weight {short[i, j].item():.3g} in a row of 4, and "
            f"{long[i, j].item():.3g} when {POSITIONS - 4} later positions are added"
        )


def _scores(f: Answer) -> None:
    for width in (WIDTH, 12):
        _scores_of(f, width)


def _scores_of(f: Answer, width: int) -> None:
    head, h = made(f, width=width), draw(1, POSITIONS, width)
    ahead = torch.arange(POSITIONS) - torch.arange(POSITIONS)[:, None]
    scores = head.turn(head.q(h)) @ head.turn(head.k(h)).mT / width**0.5
    want = scores.masked_fill((ahead > 0) | (ahead <= -WINDOW), -torch.inf).softmax(-1)
    found = weights(f, h, width=width)
    off = (found - want).abs()[0]
    if not off.max() < 1e-4:
        i, j = (off == off.max()).nonzero()[0].tolist()
        raise Unmet(
            f"position {i} gives position {j} the weight {found[0, i, j].item():.3g}, "
            f"where `turn`, `mask`, `q` and `k` give {want[0, i, j].item():.3g}"
        )


def _values(f: Answer) -> None:
    head, h = made(f), draw(2, POSITIONS, WIDTH)
    off = (head(h) - head.weights(h) @ head.v(h)).abs().max()
    if not off < 1e-4:
        raise Unmet(f"the output differs from `weights(h) @ v(h)` by up to {off.item():.2g}")


def _learns(f: Answer) -> None:
    head = made(f)
    with torch.enable_grad():
        (head(draw(2, POSITIONS, WIDTH)) * draw(2, POSITIONS, WIDTH, seed=9)).sum().backward()
    still = [name for name, p in head.named_parameters() if p.grad is None or not p.grad.any()]
    if still:
        raise Unmet(f"no gradient reaches `{still[0]}`")
    if sum(p.numel() for p in head.parameters()) < 3 * WIDTH**2:
        raise Unmet("it has fewer parameters than the three maps")


def _observe(f: Answer) -> Any:
    head, h = f(WIDTH, WINDOW), draw(2, POSITIONS, WIDTH)
    if not isinstance(head, nn.Module):
        return [type(head).__name__, "no module"]
    return seen(lambda: turned(f, h), lambda: made(f).mask(7).long(), lambda: weights(f, h))


MENDED_HEAD = Exercise(
    reference=lambda width, window: Mended(width, window),
    also_right=(Mended, joined(Neighbours, Scaled, Rows)),
    observe=_observe,
    properties=(
        Property("`turn` keeps every length", _lengths),
        Property("a score tells how far apart two positions are, and not where they stand", _differences),
        Property("pairs of features turn at speeds of their own", _speeds),
        Property("no position attends to a later one", _later),
        Property("each position attends to itself and to the window - 1 positions before it", _window),
        Property("the weights of each position sum to 1", _sums),
        Property("weights stay when later positions are added", _longer),
        Property("the weights are the masked softmax of turned queries and turned keys over √d", _scores),
        Property("the output is the weighted means of the values", _values),
        Property("gradients reach all three maps", _learns),
    ),
    mistakes=(
        Mistake(Handed, "the head as it was handed over", "Measure lengths before and after `turn`."),
        Mistake(
            joined(Turned),
            "a mended rotation, in a head whose columns sum to 1",
            "Sum the weights along each axis. Which axis are the keys?",
        ),
        Mistake(
            joined(Scaled, Rows),
            "angles of one way to choose pairs, with the pairs of the other",
            "Which angle does feature 0 get, and which its partner?",
        ),
        Mistake(
            joined(Turned, Scaled),
            "columns that sum to 1",
            "Sum the weights along each axis. Which axis are the keys?",
        ),
        Mistake(
            joined(Turned, Rows),
            "scores divided by the root of the number of positions",
            "A score is a sum of products. How many are there?",
        ),
        Mistake(
            joined(Turned, Undivided, Rows),
            "scores that are not divided",
            "Divide each score by the root of the number of products in it.",
        ),
        Mistake(joined(Turned, EitherMask, Scaled, Rows), "masks joined by or", "Both must hold."),
        Mistake(joined(Turned, CausalAlone, Scaled, Rows), "the window dropped", "Both must hold: keep the window."),
        Mistake(
            joined(Turned, OneTooMany, Scaled, Rows), "a window of one too many", "The own position counts as one."
        ),
        Mistake(
            joined(OneSpeed, Scaled, Rows), "one speed for all pairs", "Give pair i an angle of its own: `angles_of`."
        ),
        Mistake(joined(Unturned, Scaled, Rows), "positions left out", "A rotation keeps lengths, and so does nothing."),
    ),
    hints=(
        "Three measurements: lengths before and after `turn`; sums of `weights` along each axis; the scores of a row "
        "of 4 beside those of the same 4 in a row of 9.",
        "Each measurement points at one method. Work one pair of features, or one row of two positions, through it "
        "by hand, with names for its axes.",
    ),
)

EXERCISES = {"mended_head": MENDED_HEAD}
