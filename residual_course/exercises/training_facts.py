"""What can be told of training examples that are drawn at random: whether x, t, labels and velocity are as asked."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Broken, Unmet, note
from residual_course.checking.unchanged import unchanged
from residual_course.checking.unmet import wrong_kind

Four = tuple[Tensor, Tensor, Tensor, Tensor]  # x, t, the labels that are told, the velocity
Answer = Callable[[Tensor, Tensor], Four]

NO_LABEL, HIDDEN = 10, 0.1
MANY, SIDE = 2000, 4
KINDS = ("x_t", "t", "label", "velocity")


def given(count: int = MANY) -> tuple[Tensor, Tensor]:
    """Return pictures that are all different, from -1 to 1, and labels whose order tells nothing."""
    generator = torch.Generator().manual_seed(3)
    pictures = torch.rand(count, SIDE, SIDE, generator=generator) * 2 - 1
    return pictures, torch.randint(10, (count,), generator=generator)


def made(f: Answer, count: int = MANY) -> tuple[Tensor, Four]:
    """Return the pictures, and the four tensors that ``f`` makes of them, their shapes and kinds tested."""
    pictures, labels = given(count)
    copies = pictures.clone(), labels.clone()
    with unchanged(picture=copies[0], label=copies[1]):
        got = f(*copies)
    if not isinstance(got, tuple | list) or len(got) != 4:
        if not isinstance(got, tuple | list):
            raise wrong_kind("it returned", got, "x_t, t, label and velocity were asked for")
        raise Broken(f"it returned {len(got)} things, where x_t, t, label and velocity were asked for")
    for name, one, shape in zip(KINDS, got, (pictures.shape, (count,), (count,), pictures.shape), strict=True):
        if not isinstance(one, Tensor) or one.shape != torch.Size(shape):
            found = f"shape {tuple(one.shape)}" if isinstance(one, Tensor) else f"a {type(one).__name__}"
            raise Broken(f"for {name} it returned {found}, where shape {tuple(shape)} was asked for")
    if got[2].is_floating_point() or got[2].dtype == torch.bool:
        raise Broken(f"for label it returned {got[2].dtype}, where whole numbers were asked for")
    x, t, told, velocity = got
    if {x.dtype, t.dtype, velocity.dtype} != {torch.float32}:
        note("Your answer returned another dtype than torch.float32; it was cast, and tested on.")
    return pictures, (x.double(), t.double(), told, velocity.double())


def wide(t: Tensor) -> Tensor:
    """Return ``t`` with two more axes, for the pixels."""
    return t[:, None, None]


def noise_of(pictures: Tensor, x: Tensor, t: Tensor) -> Tensor:
    """Return the noise from which ``x`` was made at ``t``, where t is not so near 1 that nothing is left of it."""
    early = t < 0.9
    return ((x - wide(t) * pictures) / (1 - wide(t)))[early]


def is_noise(n: Tensor) -> bool:
    """Whether these are standard normal numbers, as far as mean, variance and their extremes tell."""
    return bool(len(n)) and bool(n.mean().abs() < 0.05 and (n.var() - 1).abs() < 0.08 and 3 < n.abs().max() < 7)


def is_shared(noise: Tensor) -> bool:
    """Whether all pictures have one noise; else its mean over the pictures is next to 0."""
    return len(noise) > 1 and bool(noise.mean(0).var() > 0.1)


def times_are_right(f: Answer) -> None:
    """Test that the times are uniform, and each picture's own."""
    _, (_, t, _, _) = made(f)
    if float(t.min()) < 0 or float(t.max()) > 1:
        raise Unmet(f"t reaches from {t.min():.2f} to {t.max():.2f}, where 0 to 1 was asked for")
    if len(t.unique()) < MANY / 2:
        raise Unmet(f"{MANY} pictures were made with {len(t.unique())} different values of t")
    share, want = torch.histc(t, 5, 0, 1) / MANY, 1 / 5
    if (share - want).abs().max() > 0.05:
        raise Unmet(f"a fifth of the times should be below 0.2, and {share[0]:.0%} are; above 0.8, {share[-1]:.0%}")
    _, (_, again, _, _) = made(f)
    if again.equal(t):
        raise Unmet("a second call gives the same times")


def is_on_the_line(f: Answer) -> None:
    """Test that x is (1 - t) n + t p with fresh standard normal noise for each picture and pixel."""
    pictures, (x, t, _, _) = made(f)
    late, early = t > 0.9, t < 0.1
    if early.any() and late.any():
        from_p = [float((x - pictures)[at].square().mean().sqrt()) for at in (early, late)]
        if from_p[0] < from_p[1]:
            raise Unmet("near t = 0 x_t is close to the picture, and near t = 1 far from it")
    noise = noise_of(pictures, x, t)
    if is_shared(noise):
        raise Unmet("all pictures have the same noise")
    if not is_noise(noise):
        size = f"mean {noise.mean():.2f} and variance {noise.var():.2f}" if len(noise) else "nothing"
        raise Unmet(f"x_t less t times the picture, over 1 - t, should be standard normal noise; it has {size}")
    if noise.mean((1, 2)).var() > 0.2:  # 1/16 where each pixel has its own
        raise Unmet("all pixels of a picture have the same noise")


def velocity_is_right(f: Answer) -> None:
    """Test that the velocity leads from x at t to the picture at 1."""
    pictures, (x, t, _, velocity) = made(f)
    off = (x + (1 - wide(t)) * velocity - pictures).abs().amax((1, 2))
    if float(off.max()) > 1e-3:
        at = int(off.argmax())
        end = (x + (1 - wide(t)) * velocity)[at].flatten()
        worst = int((end - pictures[at].flatten()).abs().argmax())
        raise Unmet(
            f"x_t + (1 - t) velocity should be the picture; at t = {t[at]:.2f} a pixel ends at {end[worst]:.2f} "
            f"where the picture has {pictures[at].flatten()[worst]:.2f}"
        )


def shown(f: Answer) -> tuple[Tensor, Tensor, Tensor]:
    """Return the true labels, those that ``f`` tells, and which are another than the true ones."""
    _, (_, _, told, _) = made(f)
    labels = given()[1]
    return labels, told, told != labels


def labels_are_right(f: Answer) -> None:
    """Test that a label is the digit's own or 10."""
    labels, told, other = shown(f)
    if (wrong := other & (told != NO_LABEL)).any():
        at = int(wrong.nonzero()[0])
        raise Unmet(f"a picture of the label {int(labels[at])} has got the label {int(told[at])}")


def some_are_hidden(f: Answer) -> None:
    """Test that about a tenth of the labels is hidden, drawn for each picture."""
    labels, told, _ = shown(f)
    share = float((told == NO_LABEL).double().mean())
    if not 0.07 < share < 0.13:
        raise Unmet(f"{share:.0%} of {MANY} labels are 10")
    for digit in range(10):
        of_it = float((told == NO_LABEL)[labels == digit].double().mean())
        if not 0.02 < of_it < 0.25:
            raise Unmet(f"of the label {digit} {of_it:.0%} are 10, of all labels {share:.0%}")
    _, (_, t, told, _) = made(f)
    apart = float(t[told == NO_LABEL].mean() - t[told != NO_LABEL].mean())
    if abs(apart) > 0.15:
        raise Unmet(f"the mean of t is {apart:+.2f} apart between hidden labels and the others: the two are tied")
    if told.equal(shown(f)[1]):
        raise Unmet("a second call hides the same labels")


def small_batches(f: Answer) -> None:
    """Test one picture, and two."""
    for count in (1, 2):
        made(f, count)


def described(f: Answer) -> list[str]:
    """Return in words what the four tensors are: they are random, so that numbers tell nothing."""
    pictures, (x, t, told, velocity) = made(f)
    labels, hidden = given()[1], told == NO_LABEL
    seen = [f"one noise: {is_shared(noise_of(pictures, x, t))}"]
    for name, share in (("t", t), ("1 - t", 1 - t)):
        if is_noise(noise_of(pictures, x, share)):
            seen.append(f"the picture's share is {name}")
            n = (x - wide(share) * pictures) / (1 - wide(share)).clamp(min=1e-9)
            known = {"p - n": pictures - n, "n - p": n - pictures, "n": n, "p - x": pictures - x}
            at = share < 0.95
            seen += [word for word, one in known.items() if float((velocity - one)[at].abs().max()) < 1e-3]
    seen.append("t: each" if len(t.unique()) > MANY / 2 else "t: one")
    tenth = round(float(hidden.double().mean()), 1)
    wrong = sorted(set(told[(told != labels) & ~hidden].tolist()))
    tied = hidden.any() and not hidden.all() and bool((t[hidden].mean() - t[~hidden].mean()).abs() > 0.15)
    return [*seen, f"hidden {tenth}", f"others {wrong[:3]}", f"tied {bool(tied)}"]
