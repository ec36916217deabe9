"""Exercise on removal: the loss of a network some of whose layers return zeros."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, value_of

Answer = Callable[[Sequence[nn.Module], Callable[[], Any]], Any]


def by_hooks(layers: Sequence[nn.Module], loss: Callable[[], Any]) -> Any:
    """Return the loss while hooks replace the outputs."""
    hooks = [layer.register_forward_hook(lambda layer, given, out: torch.zeros_like(out)) for layer in layers]
    try:
        return loss()
    finally:
        for hook in hooks:
            hook.remove()


def by_forward(layers: Sequence[nn.Module], loss: Callable[[], Any]) -> Any:
    """Return the loss while ``forward`` of each layer is another one."""

    def silenced(layer: nn.Module) -> Callable[..., Tensor]:
        return lambda *given, **named: torch.zeros_like(type(layer).forward(layer, *given, **named))

    for layer in layers:
        layer.forward = silenced(layer)
    try:
        return loss()
    finally:
        for layer in layers:
            del layer.forward


class Layer(nn.Module):
    """A layer with a bias, which takes a second input by name."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4).double()
        with torch.no_grad():
            for at, p in enumerate(self.linear.parameters()):
                p.copy_(draw(*p.shape, seed=10 * seed + at))

    def forward(self, x: Tensor, *, told: Tensor) -> Tensor:
        """Return a map of x, moved by ``told``."""
        return self.linear(x).tanh() + told


class Network:
    """Four layers in a row, each with a skip."""

    def __init__(self) -> None:
        self.layers = [Layer(seed) for seed in range(4)]
        self.x, self.told = draw(6, 4, seed=1), draw(6, 4, seed=2)

    def loss(self, gone: Sequence[int] = ()) -> Tensor:
        """Return the loss, from paper without the layers numbered in ``gone``."""
        x = self.x
        for at, layer in enumerate(self.layers):
            if at not in gone:
                x = x + layer(x, told=self.told)
        return x.square().mean()

    def without(self, f: Answer, gone: Sequence[int]) -> Tensor:
        """Return an answer's result."""
        layers = [self.layers[at] for at in gone]
        return torch.tensor(value_of(lambda: f(layers, self.loss), float), dtype=torch.float64)


def compares(*cases: Sequence[int]) -> Callable[[Answer], None]:
    """Return a test of some sets of layers."""

    def test(f: Answer) -> None:
        for gone in cases:
            network = Network()
            names = " and ".join(str(at + 1) for at in gone) or "none"
            close(network.without(f, gone).detach(), network.loss(gone).detach(), f"without layers {names} the loss")

    return test


def _as_before(f: Answer) -> None:
    network = Network()
    before = network.loss().item(), [{k: v.clone() for k, v in layer.state_dict().items()} for layer in network.layers]
    network.without(f, (1, 2))
    if network.loss().item() != before[0]:
        raise Unmet("after the call the network's loss is another one; the layers must work again")
    for layer, state in zip(network.layers, before[1], strict=True):
        if any(not value.equal(state[name]) for name, value in layer.state_dict().items()):
            raise Broken("it changed the weights of a layer")
        if layer._forward_hooks or layer._forward_pre_hooks:
            raise Broken("a hook is left on a layer")


def _after_an_error(f: Answer) -> None:
    network = Network()
    before = network.loss().item()

    def fails() -> Tensor:
        raise KeyError("the loss fails")

    with suppress(KeyError):
        f(network.layers[:2], fails)
    if network.loss().item() != before:
        raise Unmet("where `loss()` raises an error, the layers stay removed; use try and finally")


def _asked_once(f: Answer) -> None:
    network, calls = Network(), list[int]()

    def counted() -> Tensor:
        calls.append(1)
        return network.loss()

    f(network.layers[:2], counted)
    if len(calls) != 1:
        raise Unmet(f"`loss` was called {len(calls)} times, where once is right")


def one_at_a_time(layers: Sequence[nn.Module], loss: Callable[[], Any]) -> Any:
    """Return the mean of the losses without one layer each."""
    return sum(by_hooks([layer], loss) for layer in layers) / max(len(layers), 1)


def hooks_stay(layers: Sequence[nn.Module], loss: Callable[[], Any]) -> Any:
    """Return the loss, and leave the hooks."""
    for layer in layers:
        layer.register_forward_hook(lambda layer, given, out: torch.zeros_like(out))
    return loss()


def no_finally(layers: Sequence[nn.Module], loss: Callable[[], Any]) -> Any:
    """Return the loss, and remove the hooks where there was no error."""
    hooks = [layer.register_forward_hook(lambda layer, given, out: 0 * out) for layer in layers]
    found = loss()
    for hook in hooks:
        hook.remove()
    return found


def replaced(by: Callable[[Any, Tensor], Any]) -> Answer:
    """Return an answer whose hooks return something else."""

    def answer(layers: Sequence[nn.Module], loss: Callable[[], Any]) -> Any:
        hooks = [layer.register_forward_hook(lambda layer, given, out: by(given, out)) for layer in layers]
        try:
            return loss()
        finally:
            for hook in hooks:
                hook.remove()

    return answer


def no_weights(layers: Sequence[nn.Module], loss: Callable[[], Any]) -> Any:
    """Return the loss with all weights at zero."""
    with torch.no_grad():
        for layer in layers:
            for p in layer.parameters():
                p.zero_()
    return loss()


def _observe(f: Answer) -> Any:
    network = Network()
    found = [network.without(f, gone).detach() for gone in ((1,), (0, 2, 3))]
    network = Network()
    found.append(network.without(f, (2,)).detach())
    found.append(network.loss().detach())
    try:
        _after_an_error(f)
    except Unmet:
        found.append(torch.ones(1))
    return found


LOSS_WITHOUT = Exercise(
    reference=by_hooks,
    also_right=(by_forward,),
    observe=_observe,
    properties=(
        Property("no layer removed: the loss itself", compares(()), ()),
        Property("one layer returns zeros", compares((0,), (2,))),
        Property("several at once", compares((1, 3), (0, 1, 2, 3))),
        Property("`loss` is called once", _asked_once, ()),
        Property("afterwards the layers work as before", _as_before),
        Property("also where `loss` raises an error", _after_an_error, hints=()),
    ),
    mistakes=(
        Mistake(hooks_stay, "hooks that stay on the layers", "`register_forward_hook` returns a handle; remove it."),
        Mistake(no_finally, "hooks that stay where the loss fails", "Remove them in a `finally`."),
        Mistake(
            one_at_a_time, "the mean of single removals", "All layers are removed together, in one call of `loss`."
        ),
        Mistake(
            replaced(lambda given, out: None),
            "a hook whose result is None, which leaves the output as it is",
            "A forward hook that returns a tensor replaces the output by it.",
        ),
        Mistake(
            replaced(lambda given, out: given[0]),
            "layers that return their input",
            "A removed branch adds zeros; one that returns its input doubles the stream.",
        ),
        Mistake(
            replaced(lambda given, out: out.mean(0, keepdim=True).expand_as(out)),
            "outputs set to their mean over the samples",
            "Replace the output by zeros.",
        ),
        Mistake(no_weights, "weights set to zero", "Leave the weights alone: replace the outputs."),
    ),
    hints=(
        "What does PyTorch call just after a module's forward, and what may it return?",
        "`layer.register_forward_hook(function)` calls function(layer, inputs, output) and takes what it returns as "
        "the output. It returns a handle with a method `remove`.",
    ),
)

EXERCISES = {"loss_without": LOSS_WITHOUT}
