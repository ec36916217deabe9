"""Answers to the exercises of lesson 00 that no list of mistakes holds."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_skip import block_of, branch, silence
from residual_edu import SimpleFeedForward

plain = SimpleFeedForward.forward


def block(forward):
    return type("Block", (SimpleFeedForward,), {"forward": forward})


def inner(self, x):
    return branch(self, self.norm(x))


right("residual_forward", "the branch first")(lambda x, f, norm, drop: drop(f(norm(x))).add(x))
right("residual_forward", "torch.add")(lambda x, f, norm, drop: torch.add(x, drop(f(norm(x)))))
right("residual_forward", "a stack, summed")(lambda x, f, norm, drop: torch.stack([x, drop(f(norm(x)))]).sum(0))
right("residual_forward", "in place, on a copy")(lambda x, f, norm, drop: x.clone().add_(drop(f(norm(x)))))
right("residual_forward", "sample by sample")(lambda x, f, n, d: torch.stack([*map(torch.add, x, d(f(n(x))))]))
right("residual_forward", "flat, and viewed")(lambda x, f, n, d: (x.flatten() + d(f(n(x))).flatten()).view_as(x))
wrong("residual_forward", "in place, on x")(lambda x, f, norm, drop: x.add_(drop(f(norm(x)))))
wrong("residual_forward", "a skip without its gradient")(lambda x, f, norm, drop: x.detach() + drop(f(norm(x))))

right("sum_block", "torch.add")(block(lambda self, x: torch.add(x, plain(self, x))))
right("sum_block", "in place, on what the plain block returned")(block(lambda self, x: plain(self, x).add_(x)))
right("sum_block", "written out")(block(lambda self, x: self.linear2(self.linear1(x).clamp(min=0)) + x))
right("sum_block", "row by row")(block(lambda self, x: torch.stack([row + plain(self, row) for row in x])))
right("sum_block", "Sequential")(block(lambda self, x: nn.Sequential(self.linear1, nn.ReLU(), self.linear2)(x) + x))
right("sum_block", "addmm")(block(lambda b, x: (b.linear2.bias + x).addmm(b.linear1(x).relu(), b.linear2.weight.T)))
wrong("sum_block", "in place, on x")(block(lambda self, x: x.add_(plain(self, x))))
wrong("sum_block", "a skip without its gradient")(block(lambda self, x: x.detach() + plain(self, x)))
wrong("sum_block", "a branch without gradients")(block(lambda self, x: x + plain(self, x).detach()))
wrong("sum_block", "the mean of the two")(block(lambda self, x: (x + plain(self, x)) / 2))

right("keeps_x", "a copy handed over")(lambda block, x: torch.equal(silence(block)(x.clone()), x))
right("keeps_x", "a tensor of one True")(lambda block, x: (silence(block)(x.clone()) == x).all())
right("keeps_x", "no difference")(lambda block, x: not (silence(block)(x.clone()) - x).any())
right("keeps_x", "NumPy")(lambda block, x: np.array_equal(x.tolist(), silence(block)(x.clone()).tolist()))
right("keeps_x", "NumPy's own True")(lambda block, x: np.all(silence(block)(x.clone()).detach().numpy() == x.numpy()))
right("keeps_x", "data")(
    lambda block, x: [w.data.zero_() for w in block.linear2.parameters()] and block(x * 1).equal(x)
)
wrong("keeps_x", "allclose")(lambda block, x: torch.allclose(silence(block)(x.clone()), x))
wrong("keeps_x", "the first row alone")(lambda block, x: torch.equal(silence(block)(x.clone())[0], x[0]))

right("mended_skip", "the branch first")(block_of(lambda self, x: self.dropout(branch(self, self.norm(x))).add(x)))
right("mended_skip", "torch's dropout")(block_of(lambda self, x: x + F.dropout(inner(self, x), 0.1, self.training)))
right("mended_skip", "row by row")(block_of(lambda self, x: torch.stack([y + self.dropout(inner(self, y)) for y in x])))
right("mended_skip", "in place, on the branch")(block_of(lambda self, x: self.dropout(inner(self, x)).add_(x)))
right("mended_skip", "in float64")(
    block_of(lambda self, x: (x.double() + self.dropout(inner(self, x).double())).float())
)
right("mended_skip", "coins on ones")(block_of(lambda self, x: x.addcmul(inner(self, x), self.dropout(0 * x + 1))))
wrong("mended_skip", "a norm that learns nothing")(block_of(lambda b, x: x + b.dropout(branch(b, b.norm(x).detach()))))
wrong("mended_skip", "dropout in evaluation too")(block_of(lambda self, x: x + F.dropout(inner(self, x), 0.1)))
wrong("mended_skip", "dropout on the hidden numbers")(
    block_of(lambda b, x: x + b.linear2(b.dropout(b.linear1(b.norm(x)).relu())))
)
