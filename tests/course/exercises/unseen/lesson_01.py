"""Answers to the exercises of lesson 01 that no list of mistakes holds; each passed or was refused once."""

from contextlib import suppress
from functools import cache, partial

import numpy as np
import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.dead_units import images, mended, relu_network
from residual_course.exercises.recorder import recorder, rms, size_of_gradients
from residual_course.training import minibatches, train


def listener(size=rms, hook=lambda back, g: back.insert(0, rms(g)), note=list.append, out=lambda x: None):
    def answer(blocks):
        sizes, back = [], []

        def heard(block, args, output):
            x = output[0] if isinstance(output, tuple) else output
            note(sizes, size(x))
            with suppress(RuntimeError):
                x.register_hook(partial(hook, back))
            return out(x)

        return sizes, back, [block.register_forward_hook(heard) for block in blocks]

    return answer


def by_numpy(x):
    return np.sqrt(np.mean(x.detach().numpy() ** 2))


right("listen", "NumPy's numbers")(listener(by_numpy, lambda back, g: back.insert(0, by_numpy(g))))
right("listen", "a norm over the root of a count")(listener(lambda x: x.detach().norm() / x.numel() ** 0.5))
right("listen", "an error where no gradient will come, caught")(listener())
right("listen", "slices")(listener(hook=lambda back, g: back.__setitem__(slice(0), [rms(g)])))
right("listen", "a hook that returns what it got")(listener(hook=lambda back, g: back.insert(0, rms(g)) or g))
right("listen", "tensors of one number")(listener(lambda x: x.detach().square().mean().sqrt()))
wrong("listen", "a hook that returns a new gradient")(listener(hook=lambda back, g: back.insert(0, rms(g)) or g / 2))
wrong("listen", "one number, whatever the place")(listener(note=lambda sizes, x: sizes.__setitem__(slice(9), [x])))
wrong("listen", "a hook that returns the first tensor")(listener(out=lambda x: x))


@wrong("listen", "the mode asked, where weights may be frozen")
def _(blocks):
    sizes, back = [], []

    def heard(block, args, output):
        x = output[0] if isinstance(output, tuple) else output
        sizes.append(rms(x))
        if torch.is_grad_enabled():
            x.register_hook(lambda g: back.insert(0, rms(g)))

    return sizes, back, [block.register_forward_hook(heard) for block in blocks]


def leaving(kind=list, handles=lambda self: self.handles, returned=None):
    def leave(self, *error):
        for handle in handles(self):
            handle.remove()
        self.weight_gradient = kind(map(size_of_gradients, self.blocks))
        return returned

    return type("Recorder", (recorder(),), {"__exit__": leave})


right("recorder", "a tensor of sizes, by map")(leaving(lambda sizes: torch.tensor([*sizes])))
right("recorder", "a tuple")(leaving(tuple))
right("recorder", "NumPy")(leaving(lambda sizes: np.fromiter(sizes, float)))
right("recorder", "tensors of one number")(leaving(lambda sizes: [*map(torch.tensor, sizes)]))
right("recorder", "handles popped")(leaving(handles=lambda self: (self.handles.pop() for _ in self.blocks)))
right("recorder", "False returned")(leaving(returned=False))
wrong("recorder", "lists emptied on the way out")(leaving(handles=lambda self: self.activation.clear() or self.handles))
wrong("recorder", "sizes added up")(recorder(lambda block: sum(rms(w.grad) for w in block.parameters())))
wrong("recorder", "frozen blocks left out")(leaving(lambda sizes: [size for size in sizes if size == size]))

right("dead", "by sorting")(lambda x: (x.sort(0).values[-1] == 0).float().mean())
right("dead", "in NumPy")(lambda x: np.mean(~x.numpy().any(axis=0)))
right("dead", "sums of 0")(lambda x: (x.sum(0) == 0).double().mean())
right("dead", "a loop over the columns")(lambda x: sum(not column.any() for column in x.T) / x.shape[1])
right("dead", "less those that are somewhere else")(lambda x: 1 - len(x.nonzero()[:, 1].unique()) / x.shape[1])
right("dead", "pooled")(lambda x: nn.functional.adaptive_max_pool1d(x.T, 1).eq(0).float().mean(0))
wrong("dead", "units of small mean")(lambda x: (x.mean(0) < 0.2).float().mean())
wrong("dead", "units of small numbers")(lambda x: (x < 1e-3).all(0).float().mean())
wrong("dead", "0 in the first digit")(lambda x: (x[0] == 0).float().mean())


def warmed_up():
    net = relu_network()
    adam = torch.optim.Adam(net.parameters(), lr=0.003)
    warm = torch.optim.lr_scheduler.LinearLR(adam, 0.1, total_iters=20)
    batches = minibatches(*images()[:2], seed=1)
    train(lambda x, y: nn.functional.cross_entropy(net(x), y), batches, adam, 100, warm)
    return net


right("mended_rate", "warm-up to a higher rate")(cache(warmed_up))
right("mended_rate", "half the rate, then frozen")(cache(lambda: mended(0.001).requires_grad_(False).eval()))
right("mended_rate", "double the rate")(cache(lambda: mended(0.004)))
right("mended_rate", "trained layers in a new network")(cache(lambda: nn.Sequential(*mended(0.003))))
right("mended_rate", "a rate that is a tensor")(cache(lambda: mended(torch.tensor(0.003))))
right("mended_rate", "a fused Adam")(cache(lambda: mended(how=partial(torch.optim.Adam, fused=True))))
wrong("mended_rate", "SGD with half of its rate")(lambda: mended(0.05, how=torch.optim.SGD))
wrong("mended_rate", "one step")(lambda: mended(0.002, 1))
