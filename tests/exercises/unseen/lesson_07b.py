"""Answers to the exercises of lesson 07b that no list of mistakes holds."""

from contextlib import ExitStack

import torch
from torch import nn

from residual_edu.exercises.listening_block import Handed
from residual_edu.exercises.tries import right, wrong

wrong("wrong_label_adds", "a label drawn for each sample")(
    lambda loss, labels: loss(torch.randint_like(labels, 10)) - loss(labels)
)
wrong("wrong_label_adds", "the largest of the nine")(
    lambda loss, labels: max(loss((labels + k) % 10) for k in range(1, 10)) - loss(labels)
)


@right("wrong_label_adds", "backwards, in a tensor")
def _(loss, labels):
    return torch.stack([loss((labels - k) % 10) for k in range(1, 10)]).mean() - loss(labels)


wrong("what_passes", "what is left after the mean over all, and over each group")(
    lambda vector, groups: vector - vector.mean(1, keepdim=True) - vector.view(len(vector), groups, -1).mean(-1).mean()
)


@right("what_passes", "a matrix that removes the means")
def _(vector, groups):
    size = vector.shape[1] // groups
    lost = torch.block_diag(*[torch.full((size, size), 1 / size, dtype=vector.dtype)] * groups)
    return vector - vector @ lost


@wrong("loss_without", "a hook on the first layer alone")
def _(layers, loss):
    hooks = [layer.register_forward_hook(lambda layer, given, out: 0 * out) for layer in layers[:1]]
    try:
        return loss()
    finally:
        for hook in hooks:
            hook.remove()


@right("loss_without", "an exit stack")
def _(layers, loss):
    with ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_hook(lambda layer, given, out: out * 0).remove)
        return loss()


@wrong("listening_block", "a louder vector at the same place")
def _(width):
    class Louder(Handed):
        def place(self, h, told):
            return super().place(h, 10 * told)

    return Louder(width)


@wrong("listening_block", "a width of its own")
def _(width):
    class Narrow(Handed):
        def place(self, h, told):
            q, k, v = super().place(h, 0 * told)
            return q, k, v + told

    return Narrow(32)


@right("listening_block", "scale and shift after the norm, no attention")
def _(width):
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.told = nn.GroupNorm(width, width), nn.Linear(width, 2 * width)
            self.conv = nn.Conv2d(width, width, 3, padding=1)

        def forward(self, x, label):
            scale, shift = self.told(label)[:, :, None, None].chunk(2, 1)
            return x + self.conv(torch.relu(self.norm(x) * (1 + scale) + shift))

    return Plain()
