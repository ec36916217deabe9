"""Answers to the exercises of lesson 08a that no list of mistakes holds."""

import numpy as np
import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.causal_head import head
from residual_course.exercises.handed_head import EitherMask, Mended, Neighbours, Rows, Scaled, Turned, joined
from residual_edu import rotate


@right("weights_by_hand", "a loop over rows")
def _(scores):
    weights = torch.zeros_like(scores)
    for i in range(scores.shape[-1]):
        part = scores[..., i, : i + 1].exp()
        weights[..., i, : i + 1] = part / part.sum(-1, keepdim=True)
    return weights


right("weights_by_hand", "a mask by NumPy")(
    lambda scores: scores.where(torch.from_numpy(np.tri(scores.shape[-1]) > 0), -torch.inf).softmax(-1)
)
right("weights_by_hand", "a very negative number in the place of minus infinity")(
    lambda scores: (scores - 1e9 * torch.ones_like(scores).triu(1)).softmax(-1)
)
wrong("weights_by_hand", "a negative number that is too small")(
    lambda scores: (scores - 9 * torch.ones_like(scores).triu(1)).softmax(-1)
)
wrong("weights_by_hand", "three positions alone")(
    lambda scores: scores.masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf).softmax(-1)
)


@right("head_by_hand", "a loop over positions")
def _(h, to_q, to_k, to_v):
    q, k, v, rows = to_q(h), to_k(h), to_v(h), []
    for i in range(h.shape[1]):
        scores = torch.einsum("bd,bjd->bj", q[:, i], k[:, : i + 1]) / q.shape[-1] ** 0.5
        rows.append(torch.einsum("bj,bjd->bd", scores.softmax(-1), v[:, : i + 1]))
    return torch.stack(rows, dim=1)


wrong("head_by_hand", "a mask of twelve positions")(
    lambda h, q, k, v: head(
        h, q, k, v, weigh=lambda s: s.masked_fill(torch.ones(12, 12).triu(1).bool(), -torch.inf).softmax(-1)
    )
)
wrong("head_by_hand", "the maps' weights, without a call")(
    lambda h, q, k, v: head(h, *(lambda h, to=to: h @ to.weight.mT for to in (q, k, v)))
)
wrong("rotate_pairs", "angles that do not learn")(lambda x, angles: rotate(x, angles.detach()))
wrong("rotate_pairs", "written into x")(lambda x, angles: x.copy_(rotate(x, angles)))
right("rotate_pairs", "complex numbers")(
    lambda x, angles: torch.cat(
        [(z := torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)).real, z.imag], -1
    )
)


@right("mended_head", "with torch's kernel in forward, and a mask in one comparison")
def _(width, window):
    class Head(Turned, Scaled, Rows):
        def mask(self, count):
            back = torch.arange(count)[:, None] - torch.arange(count)
            return (back >= 0) & (back < self.window)

        def forward(self, h):
            q, k, mask = self.turn(self.q(h)), self.turn(self.k(h)), self.mask(h.shape[1])
            return nn.functional.scaled_dot_product_attention(q, k, self.v(h), mask)

    return Head(width, window)


right("mended_head", "complex numbers")(
    lambda width, window: type(
        "Head",
        (Mended,),
        {
            "turn": lambda self, x: torch.cat(
                [
                    (
                        z := torch.complex(*x.chunk(2, -1))
                        * torch.polar(
                            torch.ones(1).double(),
                            torch.arange(x.shape[1])[:, None] * 2.0 ** -torch.arange(x.shape[2] // 2).double(),
                        )
                    ).real,
                    z.imag,
                ],
                -1,
            )
        },
    )(width, window)
)
wrong("mended_head", "the class and no head")(lambda width, window: Mended)
wrong("mended_head", "neighbours rotated, masks joined by or")(joined(Neighbours, EitherMask, Scaled, Rows))


def weighed(scores, weigh=lambda scores: scores.softmax(-1)):
    """Return a head whose scores are those of a function of itself and h, its mask and its axis right."""

    class Head(Turned, Scaled):
        def weights(self, h):
            return weigh(scores(self, h).masked_fill(~self.mask(h.shape[1]), -torch.inf))

    return Head


def product(head, h):
    return head.turn(head.q(h)) @ head.turn(head.k(h)).mT / h.shape[-1] ** 0.5


right("mended_head", "a very negative number in the place of minus infinity")(
    weighed(product, weigh=lambda scores: scores.clamp(min=-1e9).softmax(-1))
)


def spun(base, way=1):
    """Return a right head that turns the other way, or at other speeds."""

    class Head(Scaled, Rows):
        def turn(self, x):
            half = x.shape[2] // 2
            return rotate(x, way * torch.arange(x.shape[1])[:, None] * base ** (-torch.arange(half) / half))

    return Head


right("mended_head", "base 10,000")(spun(10000.0))
right("mended_head", "the other way round")(spun(100.0, way=-1))


@right("mended_head", "divided before the product, by a constant of the maps")
def _(width, window):
    class Head(Turned, Rows):
        def scores(self, h):
            return self.turn(self.q(h) / self.q.out_features**0.5) @ self.turn(self.k(h)).mT

    return Head(width, window)
