"""Answers to the exercises of lesson 01 that no list of mistakes holds; each passed or was refused once."""

import numpy as np
import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.dead_units import images, mended, relu_network
from residual_course.exercises.recorder import recorder, rms, size_of_gradients
from residual_course.training import train


def listener(size=rms, hook=lambda back: lambda g: back.insert(0, rms(g)), note=list.append):
    def answer(blocks):
        sizes, back = [], []

        def heard(block, args, output):
            x = output[0] if isinstance(output, tuple) else output
            note(sizes, size(x))
            if x.grad_fn is not None:
                x.register_hook(hook(back))

        return sizes, back, [block.register_forward_hook(heard) for block in blocks]

    return answer


def by_numpy(x):
    return np.sqrt(np.mean(x.detach().numpy() ** 2))


right("listen", "NumPy's numbers")(listener(by_numpy, lambda back: lambda g: back.insert(0, by_numpy(g))))
right("listen", "a norm over the root of a count")(listener(lambda x: x.detach().norm() / x.numel() ** 0.5))
wrong("listen", "a hook that returns a new gradient")(
    listener(hook=lambda back: lambda g: (back.insert(0, rms(g)), g / 2)[1])
)
wrong("listen", "one number for a place, whatever the place")(
    listener(note=lambda sizes, one: sizes.__setitem__(slice(None), [one]))
)


def leaving(kind, empties=False):
    class Recorder(recorder()):
        def __exit__(self, *error):
            for handle in self.handles:
                handle.remove()
            if empties:
                self.activation.clear()
            self.weight_gradient = kind(map(size_of_gradients, self.blocks))

    return Recorder


right("recorder", "a tensor of sizes, by map")(leaving(lambda sizes: torch.tensor([*sizes])))
right("recorder", "a tuple")(leaving(tuple))
wrong("recorder", "lists emptied on the way out")(leaving(list, empties=True))
wrong("recorder", "sizes added up over the block's weights")(
    recorder(lambda block: sum(rms(w.grad) for w in block.parameters()))
)

right("dead", "by sorting")(lambda x: (x.sort(0).values[-1] == 0).float().mean())
right("dead", "in NumPy")(lambda x: np.mean(~x.numpy().any(axis=0)))
right("dead", "sums of 0")(lambda x: (x.sum(0) == 0).double().mean())
right("dead", "a loop over the columns")(lambda x: sum(not column.any() for column in x.T) / x.shape[1])
wrong("dead", "units of small mean")(lambda x: (x.mean(0) < 0.2).float().mean())
wrong("dead", "units of small numbers")(lambda x: (x < 1e-3).all(0).float().mean())
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
