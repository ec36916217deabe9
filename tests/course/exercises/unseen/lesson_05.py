"""Answers to the exercises of lesson 05 that no list of mistakes holds."""

import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.silent_branches import picks, start
from residual_edu import LayerScale

for what, answer in {
    "NumPy": lambda g, b, gamma: ((g * gamma).numpy(), (g * b).numpy().reshape(-1, len(gamma)).sum(0)),
    "einsum": lambda g, b, gamma: [g * gamma, torch.einsum("...c,...c->c", g, b)],
    "a sum to gamma's size": lambda g, b, gamma: (g * gamma, (g * b).sum_to_size(gamma.shape)),
    "row after row, in float32": lambda g, b, gamma: (gamma * g, sum(g.mul(b).float().view(-1, len(gamma)))),
    "matrices": lambda g, b, gamma: (g @ gamma.diag(), (g.flatten(0, -2).T @ b.flatten(0, -2)).diag()),
    "dot products": lambda g, b, gamma: (gamma * g, torch.vmap(torch.dot, -1)(b.flatten(0, -2), g.flatten(0, -2))),
}.items():
    right("gate_gradients", what)(answer)
wrong("gate_gradients", "the branch overwritten")(lambda g, b, gamma: (g * gamma, b.mul_(g).flatten(0, -2).sum(0)))
wrong("gate_gradients", "by autograd")(
    lambda g, b, gamma: torch.autograd.grad(
        (leaves := (b.clone().requires_grad_(), gamma.clone().requires_grad_()))[0] * leaves[1], leaves, g
    )
)


def scale(**methods):
    return type("Scale", (LayerScale,), methods)


def begun(fill):
    def init(self, dim, init_value=1e-4):
        LayerScale.__init__(self, dim)
        self.gamma = nn.Parameter(fill(dim, init_value))

    return scale(__init__=init)


for what, forward in {
    "einsum": lambda self, x: torch.einsum("...c,c->...c", x, self.gamma),
    "a diagonal matrix": lambda self, x: x @ self.gamma.diag(),
    "in float64 and back": lambda self, x: x.double().mul(self.gamma.double()).to(x),
    "channel by channel": lambda self, x: torch.stack([*map(torch.mul, x.unbind(-1), self.gamma)], dim=-1),
    "a step from 0": lambda self, x, origin=0.0: torch.lerp(torch.full_like(x, origin), x, self.gamma.expand_as(x)),
}.items():
    right("layer_scale", what)(scale(forward=forward))
right("layer_scale", "a list of floats")(begun(lambda dim, value: torch.tensor([float(value)] * dim)))
wrong("layer_scale", "a whole number makes whole gates")(begun(lambda dim, value: torch.full((dim,), value)))


@wrong("layer_scale", "gates in float64")
class _(nn.Module):
    def __init__(self, dim, init_value=1e-4):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), init_value, dtype=torch.float64))

    def forward(self, x):
        return x * self.gamma


wrong("layer_scale", "a gate in training alone")(scale(forward=lambda self, x: x * self.gamma if self.training else x))

right("asleep", "the largest is 0")(picks(lambda p, g: g.abs().max() == 0))
right("asleep", "nothing to count")(picks(lambda p, g: g.count_nonzero() == 0))
right("asleep", "a set")(
    lambda block, loss: loss.backward() or {n for n, p in block.named_parameters() if p.grad.norm() == 0}
)
right("asleep", "an iterator")(
    lambda block, loss: loss.backward() or filter(lambda n: not block.get_parameter(n).grad.any(), block.state_dict())
)
wrong("asleep", "no number above 0")(picks(lambda p, g: not (g > 0).any()))
wrong("asleep", "allclose")(picks(lambda p, g: torch.allclose(g, torch.zeros_like(g), atol=1e-5)))
wrong("asleep", "gates alone")(picks(lambda p, g: p.ndim == 1 and len(p) == 64 and not g.any() and not p.any()))
wrong("asleep", "a dict of all")(
    lambda block, loss: loss.backward() or {n: p.grad for n, p in block.named_parameters()}
)


@right("asleep", "without backward(), by autograd.grad")
def _(block, loss):
    names, parameters = zip(*block.named_parameters(), strict=True)
    return [name for name, g in zip(names, torch.autograd.grad(loss, parameters), strict=True) if g.eq(0).all()]


@right("asleep", "hooks that see the gradients pass")
def _(block, loss):
    silent = []
    for name, p in block.named_parameters():
        p.register_hook(lambda g, name=name: silent.extend([name] * (not g.any())))
    loss.backward()
    return silent


right("mended_start", "a last layer of 0, gates of both signs, all through .data")(
    lambda block: [p.data.mul_(0) for p in block.f.linear2.parameters()] and block.gate.gamma.data.uniform_(-1, 1)
)
right("mended_start", "a last layer of 0 alone")(start(last=0))
right("mended_start", "a bias of 1")(lambda block: start(0, last=0)(block) or block.f.linear2.bias.data.add_(1))
right("mended_start", "another gate")(lambda block: setattr(block, "gate", LayerScale(64, 0)))
right("mended_start", "a state")(lambda block: block.load_state_dict({"gate.gamma": torch.zeros(64)}, strict=False))
right("mended_start", "a gate of 0 for half of the channels, a last layer of 0 for the others")(
    lambda block: [p.data[32:].zero_() for p in block.f.linear2.parameters()] + [block.gate.gamma.data[:32].zero_()]
)
wrong("mended_start", "a gate of 0 for half of the channels")(lambda block: block.gate.gamma.data[::2].zero_())
wrong("mended_start", "a frozen last layer")(
    lambda block: start(last=0)(block) or block.f.linear2.requires_grad_(False)
)
