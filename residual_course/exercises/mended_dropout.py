"""Exercises on dropout that stays on in evaluation: a test that finds it, and a network to mend."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw
from residual_course.checking.properties import tensor
from residual_course.checking.seen import seen

Calm = Callable[[nn.Module, Tensor], Any]
Forward = Callable[[Any, Tensor], Tensor]

X = draw(40, 10).float()


class Gated(nn.Module):
    """A linear layer with dropout on its first ``places`` outputs, in training or ``always``."""

    def __init__(self, always: bool, places: int = 64) -> None:
        super().__init__()
        self.linear, self.always, self.places = nn.Linear(10, 64), always, places

    def forward(self, x: Tensor) -> Tensor:
        """Return what is left."""
        head, tail = self.linear(x).split((self.places, 64 - self.places), dim=-1)
        return torch.cat([F.dropout(head, 0.5, self.training or self.always), tail], dim=-1)


# The test


def is_calm(net: nn.Module, x: Tensor) -> Any:
    """Return whether two calls in evaluation mode agree."""
    mode = net.training
    net.eval()
    calm = torch.equal(net(x), net(x))
    net.train(mode)
    return calm


def asked(f: Calm, always: bool, training: bool = True, places: int = 64) -> tuple[Any, bool]:
    """Return what ``f`` returns for such a network, and the mode in which it leaves it."""
    net = Gated(always, places).train(training)
    return f(net, X.clone()), net.training


def tells(f: Calm, always: bool, training: bool = True, places: int = 64) -> None:
    """Test one network."""
    found = tensor(asked(f, always, training, places)[0], "True or False")
    if found.numel() != 1:
        raise Unmet(f"it returned {found.numel()} values, where one True or False was asked for")
    if bool(found) == always:
        kind = "always drops" if always else "drops in training alone"
        raise Unmet(f"for a network in {'training' if training else 'evaluation'} mode that {kind} it is {bool(found)}")


def keeps_mode(f: Calm) -> None:
    """Test that the mode stays."""
    for training in (True, False):
        if asked(f, False, training)[1] != training:
            came, left = ("training", "evaluation") if training else ("evaluation", "training")
            raise Unmet(f"a network that came in {came} mode was left in {left} mode")


def kinds(f: Calm) -> None:
    """Test both kinds of networks, in both modes."""
    for always in (False, True):
        for training in (True, False):
            tells(f, always, training)


def measured(prepare: Callable[[nn.Module], Any], after: Callable[[nn.Module, bool], Any], same: Any) -> Calm:
    """Return a test that prepares a network, compares two calls and does something after."""

    def calm(net: nn.Module, x: Tensor) -> Any:
        mode = net.training
        prepare(net)
        found = same(net(x), net(x))
        after(net, mode)
        return found

    return calm


def back(net: nn.Module, mode: bool) -> None:
    """Restore the mode."""
    net.train(mode)


def copied(net: nn.Module, x: Tensor) -> bool:
    """Return whether a copy in evaluation mode is calm."""
    with torch.no_grad():
        other = deepcopy(net).eval()
        return bool((other(x) - other(x)).abs().max() == 0)


def one_call(net: nn.Module, x: Tensor) -> bool:
    """Compare one output with itself."""
    mode = net.training
    y = net.eval()(x)
    net.train(mode)
    return torch.equal(y, y)


IS_CALM = Exercise(
    reference=is_calm,
    also_right=(
        copied,
        measured(nn.Module.eval, back, torch.allclose),
        measured(nn.Module.eval, back, lambda a, b: (a == b).all()),
        measured(nn.Module.eval, back, lambda a, b: a.tolist() == b.tolist()),
        measured(lambda net: net.train(False), back, lambda a, b: bool(a.sub(b).count_nonzero() == 0)),
        measured(nn.Module.eval, lambda net, mode: net.train() if mode else net.eval(), torch.equal),
    ),
    observe=lambda f: seen(
        lambda: [tensor(one, "a value").numel() if isinstance(one, Tensor) else bool(one) for one in asked(f, False)],
        lambda: [bool(torch.as_tensor(one).all()) for one in asked(f, False, False)],
        lambda: [bool(torch.as_tensor(one).all()) for one in asked(f, True, False)],
        lambda: bool(torch.as_tensor(asked(f, True, True, 8)[0]).all()),
    ),
    properties=(
        Property("it tells networks that are calm in evaluation from those that are not", kinds),
        Property("outputs that differ in some places only are not equal", lambda f: tells(f, True, places=8)),
        Property("the mode stays as it was", keeps_mode, (2,)),
    ),
    mistakes=(
        Mistake(
            measured(lambda net: None, back, torch.equal),
            "two calls in whatever mode the network came",
            "Call net.eval() first.",
        ),
        Mistake(
            measured(nn.Module.eval, lambda net, mode: None, torch.equal),
            "a network that is left in evaluation mode",
            "Note net.training before, and set it again at the end.",
        ),
        Mistake(
            measured(nn.Module.eval, lambda net, mode: net.train(), torch.equal),
            "a network that is always left in training mode",
            "Set the mode in which it came: net.train(mode).",
        ),
        Mistake(one_call, "one output, compared with itself", "Call the network twice."),
        Mistake(
            measured(nn.Module.eval, back, lambda a, b: not torch.equal(a, b)),
            "True for a network whose calls differ",
            "Return True where both outputs are equal.",
        ),
        Mistake(
            measured(nn.Module.train, back, torch.equal), "two calls in training mode", "Measure in evaluation mode."
        ),
        Mistake(
            measured(nn.Module.eval, back, lambda a, b: a == b),
            "True or False for each number",
            "Return one value: torch.equal(a, b).",
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


def of(first: Callable[..., Tensor], second: Callable[..., Tensor] | None = None, act: Any = F.relu) -> type[nn.Module]:
    """Return the network with these gates, functions of a hidden layer's output and the mode."""

    def forward(self: Any, x: Tensor) -> Tensor:
        h = first(act(self.first(x)), self.training)
        h = (second or first)(act(self.second(h)), self.training)
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


def output(net: nn.Module, x: Tensor) -> Tensor:
    """Return the output, one number for each row."""
    y = tensor(net(x), "the output")
    if y.shape != (len(x), 1):
        raise Broken(f"for x of shape {tuple(x.shape)} the output has the shape {tuple(y.shape)}, not ({len(x)}, 1)")
    return y


@torch.no_grad()
def moments(f: Any, training: bool) -> tuple[float, float]:
    """Return mean and deviation of outputs that are the mean of 256 ones, after two gates of each."""
    net = built(f).train(training)
    for layer, weight, bias in ((net.first, 0.0, 1.0), (net.second, 0.0, 0.0), (net.last, 1 / 256, 0.0)):
        nn.init.constant_(layer.weight, weight), nn.init.constant_(layer.bias, bias)
    nn.init.eye_(net.second.weight)
    y = output(net, torch.zeros(3000, 10))
    return y.mean().item(), y.std().item()


def calm(f: Any) -> None:
    """Test that evaluation has no coins."""
    net = built(f).eval()
    if not torch.equal(output(net, X), output(net, X)):
        raise Unmet("in evaluation two calls on the same x differ")


def plain(f: Any) -> None:
    """Test the output in evaluation."""
    net = built(f).eval()
    want = net.last(torch.relu(net.second(torch.relu(net.first(X)))))
    close(output(net, X).double(), want.double(), "in evaluation the output", 1e-4)


def is_plain(f: Any) -> bool:
    """Return True where the output in evaluation is right, and raise where it is not."""
    plain(f)
    return True


TWO, ONE = (3 / 256) ** 0.5, (1 / 256) ** 0.5  # deviations with two gates of rate 0.5, and with one


def drops(f: Any) -> None:
    """Test that training has its coins at both places."""
    mean, spread = moments(f, training=True)
    if abs(mean - 1) > 0.03:
        raise Unmet(f"in training, a mean of 1 becomes {mean:.2f}")
    if spread < 0.01:
        raise Unmet("in training nothing is dropped")
    if abs(spread - TWO) > 0.015:
        raise Unmet(f"in training the outputs vary by {spread:.3f}, where two gates of rate 0.5 give {TWO:.3f}")


def rate(p: float, always: bool | None = None) -> Callable[[Tensor, bool], Tensor]:
    """Return a gate of PyTorch's, in training or always or never."""
    return lambda h, training: F.dropout(h, p, training if always is None else always)


def smaller(h: Tensor, training: bool) -> Tensor:
    """Drop in training, and halve in evaluation."""
    return F.dropout(h, 0.5) if training else h / 2


def modules(self: Any) -> None:
    """Build the layers, and two modules of dropout."""
    Parts.__init__(self)
    self.drop = nn.Dropout(0.5)


def with_modules(self: Any, x: Tensor) -> Tensor:
    """Return the output by way of modules."""
    return self.last(self.drop(F.relu(self.second(self.drop(F.relu(self.first(x)))))))


def if_training(h: Tensor, training: bool) -> Tensor:
    """Return dropout behind a condition."""
    if training:
        h = F.dropout(h)
    return h


MENDED_DROPOUT = Exercise(
    reference=of(rate(0.5)),
    also_right=(
        type("Net", (Parts,), {"__init__": modules, "forward": with_modules}),
        of(if_training),
        of(lambda h, training: h * (torch.rand_like(h) >= 0.5) * 2 if training else h),
        of(lambda h, training: nn.Dropout(0.5).train(training)(h)),
        of(rate(0.5), act=lambda h: h.clamp(min=0)),
        of(lambda h, training: F.dropout(h, 0.5 * training)),
    ),
    observe=lambda f: seen(
        lambda: [round(moment * scale) for moment, scale in zip(moments(f, True), (4, 20), strict=True)],
        lambda: [round(moment * scale) for moment, scale in zip(moments(f, False), (4, 20), strict=True)],
        lambda: is_plain(f),
    ),
    properties=(
        Property("in evaluation two calls agree", calm),
        Property("in evaluation the output is that of the three layers", plain, (1,)),
        Property("in training both hidden layers have dropout of 0.5", drops),
    ),
    mistakes=(
        Mistake(of(rate(0.5, True)), "the network as it was handed over", "Give F.dropout the module's mode."),
        Mistake(of(rate(0.5, False)), "a network without dropout", "In training it should act, as before."),
        Mistake(
            of(lambda h, training: F.dropout(h, 0.5, not training)),
            "a mode read upside down",
            "self.training is True in training.",
        ),
        Mistake(
            of(rate(0.5), rate(0.5, True)),
            "one of two places mended",
            "F.dropout stands in forward twice.",
        ),
        Mistake(of(rate(0.5), rate(0.5, False)), "dropout at one place only", "Keep it after both hidden layers."),
        Mistake(of(smaller), "outputs that are halved in evaluation", "The factor of F.dropout is all it takes."),
        Mistake(
            of(lambda h, training: F.dropout(h, float(training))),
            "the mode where the rate should stand",
            "The second argument of F.dropout is the rate, the third is the mode.",
        ),
        Mistake(of(rate(0.5), act=lambda h: h), "a network without its ReLU", "Keep torch.relu around each layer."),
    ),
    hints=(
        "What does F.dropout do if nobody tells it the mode?",
        "Call it with three arguments: the numbers, the rate 0.5, and self.training.",
    ),
)

EXERCISES = {"is_calm": IS_CALM, "mended_dropout": MENDED_DROPOUT}
