"""Answers to the exercises of lesson 00 that no list of mistakes holds."""

import numpy as np
import torch
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_skip import block_of, branch, silence
from residual_edu import SimpleFeedForward

plain = SimpleFeedForward.forward

right("residual_forward", "the branch first")(lambda x, f, norm, drop: drop(f(norm(x))).add(x))
right("residual_forward", "torch.add")(lambda x, f, norm, drop: torch.add(x, drop(f(norm(x)))))
right("residual_forward", "a stack, summed")(lambda x, f, norm, drop: torch.stack([x, drop(f(norm(x)))]).sum(0))
wrong("residual_forward", "in place, on x")(lambda x, f, norm, drop: x.add_(drop(f(norm(x)))))
wrong("residual_forward", "a skip without its gradient")(lambda x, f, norm, drop: x.detach() + drop(f(norm(x))))


def block(forward):
    return type("Block", (SimpleFeedForward,), {"forward": forward})


right("sum_block", "torch.add")(block(lambda self, x: torch.add(x, plain(self, x))))
right("sum_block", "in place, on what the plain block returned")(block(lambda self, x: plain(self, x).add_(x)))
right("sum_block", "written out")(block(lambda self, x: self.linear2(self.linear1(x).clamp(min=0)) + x))
wrong("sum_block", "in place, on x")(block(lambda self, x: x.add_(plain(self, x))))
wrong("sum_block", "a skip without its gradient")(block(lambda self, x: x.detach() + plain(self, x)))
wrong("sum_block", "the mean of the two")(block(lambda self, x: (x + plain(self, x)) / 2))

right("keeps_x", "a copy handed over")(lambda block, x: torch.equal(silence(block)(x.clone()), x))
right("keeps_x", "a tensor of one True")(lambda block, x: (silence(block)(x.clone()) == x).all())
right("keeps_x", "no difference")(lambda block, x: not (silence(block)(x.clone()) - x).any())
right("keeps_x", "NumPy")(lambda block, x: np.array_equal(x.tolist(), silence(block)(x.clone()).tolist()))
wrong("keeps_x", "a tolerance of 0.002")(lambda block, x: torch.allclose(silence(block)(x.clone()), x, atol=2e-3))

right("mended_skip", "the branch first")(block_of(lambda self, x: self.dropout(branch(self, self.norm(x))).add(x)))
right("mended_skip", "torch's dropout")(
    block_of(lambda self, x: x + F.dropout(branch(self, self.norm(x)), 0.1, self.training))
)
wrong("mended_skip", "dropout in evaluation too")(
    block_of(lambda self, x: x + F.dropout(branch(self, self.norm(x)), 0.1))
)
wrong("mended_skip", "dropout on the hidden numbers")(
    block_of(lambda self, x: x + self.linear2(self.dropout(self.linear1(self.norm(x)).relu())))
)
