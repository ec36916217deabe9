"""Exercise on mending: a generated long convolution whose circle is too small, and whose kernel stretches."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, construct, draw, run
from residual_course.checking.gradients import all_learn

Answer = Callable[[], Any]  # a class of networks: a signal, (positions,), to a signal
LENGTH, LONGER, SMALL = 64, 600, 1e-4  # the last: what counts as rounding, of the largest output


class Handed(nn.Module):
    """The network as the lesson hands it over; its class attributes are what a mend changes."""

    stretched = True
    zeros = 0  # appended to both, in lengths of the signal
    reach = 256

    def __init__(self) -> None:
        super().__init__()
        self.first, self.hidden, self.last = nn.Linear(1, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def positions(self, length: int) -> Tensor:
        """Return where the kernel is read."""
        each = torch.linspace(0, 1, length) if self.stretched else torch.arange(length) / self.reach
        return each[:, None]

    def taps(self, length: int) -> Tensor:
        """Return the kernel for a signal of this length."""
        h = torch.sin(self.first(self.positions(length)))
        return self.last(torch.sin(self.hidden(h)))[:, 0]

    def convolve(self, x: Tensor, taps: Tensor) -> Tensor:
        """Return the convolution by transforms."""
        points = int(len(x) * (1 + self.zeros))
        return torch.fft.irfft(torch.fft.rfft(x, points) * torch.fft.rfft(taps, points), points)[: len(x)]

    def forward(self, x: Tensor) -> Tensor:
        """Return the signal convolved with the kernel."""
        return self.convolve(x, self.taps(len(x)))


def changed(**values: Any) -> type[Handed]:
    """Return the network with other values of its attributes."""
    return type("Changed", (Handed,), values)


Mended = changed(stretched=False, zeros=1)


def _signal(length: int = LENGTH) -> Tensor:
    return draw(length, dtype=torch.float32)


def _network(f: Answer) -> nn.Module:
    torch.manual_seed(0)
    net = construct(f).float()
    for length in (5, LENGTH // 2, LENGTH):  # the shortest first, whose kernel must not be kept
        run(net, _signal(length), like=_signal(length))
    return net


@torch.no_grad()
def _apart(net: nn.Module, first: int, x: Tensor, other: Tensor) -> float:
    """Return how far the first outputs for two inputs are apart, over the size of all outputs."""
    a, b = net(x), net(other)
    return ((a[:first] - b[:first]).abs().max() / a.abs().max().clamp(min=1e-12)).item()


def _past_alone(f: Answer) -> None:
    net = _network(f)
    for length, start in ((LENGTH, LENGTH // 2), (LENGTH, LENGTH - 1), (LONGER, LONGER // 2)):
        x = _signal(length)
        other = torch.cat([x[:start], x[start:] + 1])
        if (off := _apart(net, start, x, other)) > SMALL:
            raise Unmet(f"other inputs from position {start} on move the outputs before it by {off:.0%} of the largest")


def _same_kernel(f: Answer) -> None:
    net, x = _network(f), _signal()
    for half in (LENGTH // 2, 5):
        if (off := _apart(net, half, x, x[:half])) > SMALL:
            raise Unmet(f"for {half} positions alone the outputs differ from those for {LENGTH} by {off:.0%}")


@torch.no_grad()
def _is_a_convolution(f: Answer) -> None:
    net, x = _network(f), _signal()
    later = torch.cat([x.new_zeros(3), x[:-3]])
    off = (net(later)[3:] - net(x)[:-3]).abs().max() / net(x).abs().max().clamp(min=1e-12)
    if off > SMALL:
        raise Unmet(f"an input that comes 3 positions later does not give the same output 3 later: {off:.0%} apart")


@torch.no_grad()
def _dependence(net: nn.Module) -> Tensor:
    """Return which output (row) depends on which input (column)."""
    still = net(torch.zeros(LENGTH))
    by = torch.stack([net(one) - still for one in torch.eye(LENGTH)]).mT.abs()
    return by > 1e-5 * by.max()


def _reaches(f: Answer) -> None:
    if (silent := (~_dependence(_network(f))[-1]).nonzero()).numel():
        raise Unmet(f"the last output does not depend on position {silent[0].item()}")


def _observe(f: Answer) -> list[Any]:
    """Return what depends on what, and whether the taps depend on the signal's length."""
    net, one = _network(f), torch.eye(LENGTH)[0]
    return [_dependence(net), _apart(net, LENGTH // 2, one, one[: LENGTH // 2]) > SMALL]


MENDED_CONVOLUTION = Exercise(
    reference=Mended,
    observe=_observe,
    properties=(
        Property("no output depends on a later input", _past_alone),
        Property("half of the positions alone give the first half of the outputs", _same_kernel),
        Property("it is still a convolution: a later input gives the same output later", _is_a_convolution, ()),
        Property("the last output depends on every position", _reaches, ()),
        Property("gradients reach all weights", lambda f: all_learn(_network(f), _signal()), ()),
    ),
    mistakes=(
        Mistake(Handed, "the network as it was handed over", "Both of its lines with `len(x)` are wrong."),
        Mistake(
            changed(zeros=1),
            "transforms with zeros, and a kernel that stretches with the signal",
            "Where does lag 1 stand for 64 positions, and where for 128? Divide by `reach`.",
        ),
        Mistake(
            changed(stretched=False),
            "a kernel that no longer stretches, on a circle without zeros",
            "How many points do the transforms need, so that no tap reaches round?",
        ),
        Mistake(
            changed(stretched=False, zeros=0.5),
            "a circle that is half a length too small",
            "A kernel as long as the signal needs as many zeros as the signal has positions.",
        ),
    ),
    hints=(
        "The first test accuses the transforms: how many points has their circle?",
        "The second accuses the positions: where must lag 1 stand, whatever the length of x is?",
    ),
)

EXERCISES = {"mended_convolution": MENDED_CONVOLUTION}
