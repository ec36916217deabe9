"""Answers to the exercises of lesson 07b that no list of mistakes holds."""

from contextlib import ExitStack

import torch

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
right("mended_attention", "queries of its own")(joined(Handed, True, 8, lambda q, k, v, label: (q + label, k, v)))
right("mended_attention", "values multiplied")(joined(Handed, True, 8, lambda q, k, v, label: (q, k, v * (1 + label))))
