"""Answers to the exercises of lesson 07b that no list of mistakes holds."""

from contextlib import ExitStack

import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.handed_attention import Handed, Values, joined

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


@wrong("mended_attention", "a louder vector at the same place")
def _(width):
    class Louder(Handed):
        own, groups = True, 8

        def place(self, q, k, v, vector):
            return super().place(q, k, v, 10 * vector)

    return Louder(width)


wrong("mended_attention", "values alone, and each sample its own")(joined(Values, own=True))
wrong("mended_attention", "a width of its own")(lambda width: joined(Values, own=True, groups=8)(32))


@wrong("mended_attention", "scale and shift after the norm, from the mean over the samples")
def _(width):
    return ScaleShift(width, 0)


@wrong("mended_attention", "scale and shift after the norm, no attention")
def _(width):
    return ScaleShift(width, 1)


@wrong("mended_attention", "the lesson's first block with fewer groups")
def _(width):
    return Block(width)


@wrong("mended_attention", "the handed block with a vector in front of its branch, which has all three faults")
def _(width):
    class Branch(Handed):
        def forward(self, x, label):
            return x + super().forward(x + self.vector(label)[:, :, None, None], label)

    return Branch(width)


@wrong("mended_attention", "a vector after the attention")
def _(width):
    class After(Handed):
        own, groups = True, 8

        def forward(self, x, label):
            return super().forward(x, label) + self.vector(label)[:, :, None, None] * torch.linspace(0, 1, 8)

    return After(width)


right("mended_attention", "queries of its own")(joined(Handed, True, 8, lambda q, k, v, label: (q + label, k, v)))
right("mended_attention", "values multiplied")(joined(Handed, True, 8, lambda q, k, v, label: (q, k, v * (1 + label))))


@wrong("mended_attention", "a new label for each pixel, before everything")
def _(width):
    class Pixels(nn.Module):
        def __init__(self):
            super().__init__()
            self.places = nn.Parameter(torch.randn(width, 8, 8))
            self.block = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 1))

        def forward(self, x, label):
            return x + self.block(x + label[:, :, None, None] * self.places)

    return Pixels()


class Block(nn.Module):
    """Norm, SiLU and convolution twice, the label's vector between them."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2, self.vector = nn.GroupNorm(8, width), nn.GroupNorm(8, width), nn.Linear(width, width)
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x, label):
        h = self.conv1(torch.relu(self.norm1(x))) + self.vector(label)[:, :, None, None]
        return x + self.conv2(torch.relu(self.norm2(h)))


class ScaleShift(nn.Module):
    """Scale and shift after a norm of single channels; a mean of the label's vectors over an axis."""

    def __init__(self, width, axis):
        super().__init__()
        self.norm, self.vector, self.axis = nn.GroupNorm(width, width), nn.Linear(width, 2 * width), axis
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x, label):
        vector = self.vector(label)[:, None].mean(self.axis, keepdim=True)[:, 0]
        scale, shift = vector[..., None, None].chunk(2, 1)
        return x + self.conv(torch.relu(self.norm(x) * (1 + scale) + shift))
