"""Answers to the exercises of lesson 01 that no list of mistakes holds; each passed or was refused once."""

import numpy as np
import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.dead_units import images, mended, relu_network
from residual_course.exercises.recorder import listen, rms, size_of_gradients
from residual_course.training import train


def listener(note):
    def answer(blocks):
        sizes, back = [], []

        def hook(block, args, output):
            note(sizes, back, output[0] if isinstance(output, tuple) else output)

        return sizes, back, [block.register_forward_hook(hook) for block in blocks]

    return answer


@right("listen", "NumPy's numbers")
@listener
def _(sizes, back, x):
    sizes += [np.sqrt(np.mean(x.detach().numpy() ** 2))]
    if x.grad_fn is not None:
        x.register_hook(lambda g: back.insert(0, np.sqrt(np.mean(g.numpy() ** 2))))


@wrong("listen", "a hook that returns a new gradient")
@listener
def _(sizes, back, x):
    sizes.append(rms(x))
    if x.requires_grad:
        x.register_hook(lambda g: (back.insert(0, rms(g)), g / 2)[1])


@wrong("listen", "one number for a place, whatever the place")
@listener
def _(sizes, back, x):
    sizes[:] = [rms(x)]
    if x.requires_grad:
        x.register_hook(lambda g: back.insert(0, rms(g)))


def recorder(leave):
    class Recorder:
        def __init__(self, blocks):
            self.blocks = list(blocks)

        def __enter__(self):
            self.activation, self.stream_gradient, self.handles = listen(self.blocks)
            return self

        def __exit__(self, *error):
            return leave(self)

    return Recorder


@right("recorder", "a tensor of sizes, by map")
@recorder
def _(self):
    [handle.remove() for handle in self.handles]
    self.weight_gradient = torch.tensor([*map(size_of_gradients, self.blocks)])


@wrong("recorder", "sizes added up over the block's weights")
@recorder
def _(self):
    for handle in self.handles:
        handle.remove()
    self.weight_gradient = [sum(rms(w.grad) for w in block.parameters()) for block in self.blocks]


@wrong("recorder", "handles forgotten, hooks kept")
@recorder
def _(self):
    self.handles.clear()
    self.weight_gradient = [size_of_gradients(block) for block in self.blocks]


right("dead", "by sorting")(lambda x: (x.sort(0).values[-1] == 0).float().mean())
right("dead", "in NumPy")(lambda x: np.mean(~x.numpy().any(axis=0)))
wrong("dead", "units of small mean")(lambda x: (x.mean(0) < 0.2).float().mean())
wrong("dead", "0 in the first digit")(lambda x: (x[0] == 0).float().mean())
right("mended_rate", "warm-up to a higher rate")(lambda: warmed_up())
wrong("mended_rate", "SGD with half of its rate")(lambda: mended(0.05, how=torch.optim.SGD))
wrong("mended_rate", "one step")(lambda: mended(0.002, 1))


def warmed_up():
    net, (x, y, *_) = relu_network(), images()
    adam = torch.optim.Adam(net.parameters(), lr=0.003)
    warm = torch.optim.lr_scheduler.LinearLR(adam, 0.1, total_iters=20)
    rows = torch.Generator().manual_seed(1)
    batches = ((x[at], y[at]) for at in (torch.randint(len(x), (64,), generator=rows) for _ in range(100)))
    train(lambda x, y: nn.functional.cross_entropy(net(x), y), batches, adam, 100, warm)
    return net
