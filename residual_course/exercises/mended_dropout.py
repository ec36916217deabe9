"""Exercises on dropout that stays on in evaluation: a test that finds it, and a network to mend."""

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, run
from residual_course.checking.gradients import all_learn
from residual_course.checking.properties import tensor
from residual_course.checking.seen import seen

Calm = Callable[[nn.Module, Tensor], Any]

X = draw(40, 10).float()


class _Gated(nn.Module):
    """A linear layer with dropout on its first ``places`` outputs, in training or ``always``."""

    def __init__(self, always: bool, places: int) -> None:
        super().__init__()
        self.linear, self.always, self.places = nn.Linear(10, 64), always, places

    def forward(self, x: Tensor) -> Tensor:
        head, tail = self.linear(x).split((self.places, 64 - self.places), dim=-1)
        return torch.cat([F.dropout(head, 0.5, self.training or self.always), tail], dim=-1)


# The test


def compared(prepare: Callable[[nn.Module], Any], after: Callable[[nn.Module, bool], Any]) -> Calm:
    """Return a test that prepares a network, compares two calls and does something after."""

    def calm(net: nn.Module, x: Tensor) -> bool:
        mode = net.training
        prepare(net)
        found = torch.equal(net(x), net(x))
        after(net, mode)
        return found

    return calm


def asked(f: Calm, always: bool, training: bool = True, places: int = 64) -> tuple[Any, bool]:
    """Return what ``f`` returns for such a network, and the mode in which it leaves its modules."""
    net = nn.Sequential(_Gated(always, places)).train(training)
    said = f(net, X.clone())
    return said, training if {each.training for each in net.modules()} == {training} else not training


def tells(f: Calm, always: bool, training: bool = True, places: int = 64) -> None:
    """Test what is said of one network."""
    found = tensor(asked(f, always, training, places)[0], "True or False")
    if found.numel() != 1:
        raise Unmet(f"it returned {found.numel()} values, where one True or False was asked for")
    if bool(found) == always:
        kind = "always drops" if always else "drops in training alone"
        raise Unmet(f"for a network in {'training' if training else 'evaluation'} mode that {kind} it is {bool(found)}")


def _keeps_mode(f: Calm) -> None:
    for always, training in product((False, True), repeat=2):
        if asked(f, always, training)[1] != training:
            came, left = ("training", "evaluation") if training else ("evaluation", "training")
            raise Unmet(f"a network that came in {came} mode was left in {left} mode")


def _kinds(f: Calm) -> None:
    for always in (False, True):
        for training in (True, False):
            tells(f, always, training)
    tells(f, True, places=8)


def _observe_test(f: Calm) -> Any:
    kinds = (False, True), (False, False), (True, False)
    return seen(*(lambda kind=kind: [bool(torch.as_tensor(one).all()) for one in asked(f, *kind)] for kind in kinds))


IS_CALM = Exercise(
    reference=compared(nn.Module.eval, nn.Module.train),
    observe=_observe_test,
    properties=(
        Property("it tells networks that are calm in evaluation from those that are not", _kinds),
        Property("the mode stays as it was", _keeps_mode, (2,)),
    ),
    mistakes=(
        Mistake(
            compared(lambda net: None, nn.Module.train),
            "two calls in whatever mode the network came",
            "Call net.eval() first.",
        ),
        Mistake(
            compared(nn.Module.eval, lambda net, mode: None),
            "a network that is left in evaluation mode",
            "Note net.training before, and set it again at the end.",
        ),
        Mistake(
            compared(nn.Module.eval, lambda net, mode: net.train()),
            "a network that is always left in training mode",
            "Set the mode in which it came: net.train(mode).",
        ),
    ),
    hints=(
        "In which mode must the two calls be made?",
        "Four steps: note net.training, net.eval(), compare two calls, net.train(what you noted).",
    ),
)

# The network


class Parts(nn.Module):
    """The layers of the network that was handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(10, 256), nn.Linear(256, 256), nn.Linear(256, 1)


def of(first: Callable[..., Tensor], second: Callable[..., Tensor] | None = None) -> type[nn.Module]:
    """Return the network with these gates, functions of a hidden layer's output and the mode."""

    def forward(self: Any, x: Tensor) -> Tensor:
        h = first(F.relu(self.first(x)), self.training)
        h = (second or first)(F.relu(self.second(h)), self.training)
        return self.last(h)

    return type("Net", (Parts,), {"forward": forward})


def built(f: Any) -> Any:
    """Return the answer's network on the CPU with weights that are drawn."""
    torch.manual_seed(0)
    net = f()
    missing = [name for name in ("first", "second", "last") if not isinstance(getattr(net, name, None), nn.Linear)]
    if missing:
        raise Broken(f"the network has no layer {missing[0]}; keep the three of HandedNet")
    return net.cpu()


def _output(net: nn.Module, x: Tensor) -> Tensor:
    return run(net, x, like=torch.empty(len(x), 1))


@torch.no_grad()
def moments(f: Any, training: bool) -> tuple[float, float]:
    """Return mean and deviation of outputs that are the mean of 256 ones, after two gates of each."""
    net = built(f).train(training)
    for layer, weight, bias in ((net.first, 0.0, 1.0), (net.second, 0.0, 0.0), (net.last, 1 / 256, 0.0)):
        nn.init.constant_(layer.weight, weight), nn.init.constant_(layer.bias, bias)
    nn.init.eye_(net.second.weight)
    y = _output(net, torch.zeros(3000, 10))
    return y.mean().item(), y.std().item()


def _calm(f: Any) -> None:
    net = built(f).eval()
    if not torch.equal(_output(net, X), _output(net, X)):
        raise Unmet("in evaluation two calls on the same x differ")


def _plain(f: Any) -> None:
    net = built(f).eval()
    want = net.last(torch.relu(net.second(torch.relu(net.first(X)))))
    close(_output(net, X).double(), want.double(), "in evaluation the output", 1e-4)


TWO = (3 / 256) ** 0.5  # the deviation with two gates of rate 0.5


def _drops(f: Any) -> None:
    mean, spread = moments(f, training=True)
    if abs(mean - 1) > 0.03:
        raise Unmet(f"in training, a mean of 1 becomes {mean:.2f}")
    if spread < 0.01:
        raise Unmet("in training nothing is dropped")
    if abs(spread - TWO) > 0.015:
        raise Unmet(f"in training the outputs vary by {spread:.3f}, where two gates of rate 0.5 give {TWO:.3f}")
    all_learn(built(f).train(), X)


def _observe_net(f: Any) -> Any:
    return seen(*(lambda on=on: [round(4 * (m := moments(f, on))[0]), round(20 * m[1])] for on in (True, False)))


def _mended(h: Tensor, training: bool) -> Tensor:
    return F.dropout(h, 0.5, training)


def _handed(h: Tensor, training: bool) -> Tensor:
    return F.dropout(h, 0.5)


MENDED_DROPOUT = Exercise(
    reference=of(_mended),
    observe=_observe_net,
    properties=(
        Property("in evaluation two calls agree", _calm),
        Property("in evaluation the output is that of the three layers", _plain, (1,)),
        Property("in training both hidden layers have dropout of 0.5", _drops),
    ),
    mistakes=(
        Mistake(of(_handed), "the network as it was handed over", "Give F.dropout the module's mode."),
        Mistake(of(_mended, _handed), "one of two places mended", "F.dropout stands in forward twice."),
        Mistake(of(lambda h, training: h), "a network without dropout", "In training it should act, as before."),
        Mistake(
            of(lambda h, training: F.dropout(h, float(training))),
            "the mode where the rate should stand",
            "The second argument of F.dropout is the rate, the third is the mode.",
        ),
    ),
    hints=(
        "What does F.dropout do if nobody tells it the mode?",
        "Call it with three arguments: the numbers, the rate 0.5, and self.training.",
    ),
)

EXERCISES = {"is_calm": IS_CALM, "mended_dropout": MENDED_DROPOUT}
