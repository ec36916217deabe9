"""Answers to the exercises of lesson 09's appendix that no list of mistakes holds."""

import numpy as np
import torch

from residual_course.checking.tries import right, wrong

wrong("compete", "a gain without a gradient")(
    lambda x, gamma, beta, eps: (
        gamma.detach() * x * (n := x.square().sum(1, keepdim=True).sqrt()) / (n.mean(-1, keepdim=True) + eps) + beta + x
    )
)
right("compete", "vector_norm")(
    lambda x, gamma, beta, eps: torch.addcmul(
        beta + x, gamma * x, (n := torch.linalg.vector_norm(x, dim=1, keepdim=True)) / (n.mean(-1, keepdim=True) + eps)
    )
)
wrong("block_flops", "32 bits")(lambda t, c: int(np.int32((16 * t * c * c + 4 * t * t * c + 2**31) % 2**32 - 2**31)))
right("block_flops", "a float")(lambda t, c: 4.0 * t * c * (4 * c + t))
