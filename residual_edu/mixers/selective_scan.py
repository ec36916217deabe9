r"""The selective scan: a memory that each position writes to, fades by a step of its own, and reads.

.. math::
    S_t = e^{\Delta_t A} S_{t-1} + \Delta_t \, x_t \otimes B_t, \qquad y_t = S_t C_t + D x_t

:math:`A < 0` is one number for each head; :math:`\Delta_t`, :math:`B_t` and :math:`C_t` depend on the input.
Gu & Dao, 2023, https://arxiv.org/abs/2312.00752; the form in chunks: Dao & Gu, 2024, https://arxiv.org/abs/2405.21060
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from residual_edu.errors import check_scan, check_size


def selective_scan(
    x: Float[Tensor, "batch time heads headdim"],
    dt: Float[Tensor, "batch time heads"],
    A: Float[Tensor, "heads"],
    B: Float[Tensor, "batch time state"],
    C: Float[Tensor, "batch time state"],
    D: Float[Tensor, "heads"] | None = None,
) -> Float[Tensor, "batch time heads headdim"]:
    """Return the recurrence as it is written, one position after another. B and C are shared by all heads."""
    check_scan(x, dt, A, B, C, D)
    keep, write = (dt * A).exp(), dt[..., None] * x
    state, y = x.new_zeros(len(x), *x.shape[2:], B.shape[-1]), []
    for t in range(x.shape[1]):
        state = keep[:, t, :, None, None] * state + write[:, t, :, :, None] * B[:, t, None, None]
        y.append((state * C[:, t, None, None]).sum(-1))
    return torch.stack(y, 1) if D is None else torch.stack(y, 1) + D[:, None] * x


def chunked_scan(
    x: Float[Tensor, "batch time heads headdim"],
    dt: Float[Tensor, "batch time heads"],
    A: Float[Tensor, "heads"],
    B: Float[Tensor, "batch time state"],
    C: Float[Tensor, "batch time state"],
    D: Float[Tensor, "heads"] | None = None,
    chunk_size: int = 64,
) -> Float[Tensor, "batch time heads headdim"]:
    """Return ``selective_scan`` of the same, by matrix products: all pairs within a chunk, one state between chunks.

    Nothing is divided by a decay, and no decay is the difference of two long sums, so that no step is too large.
    """
    check_scan(x, dt, A, B, C, D)
    check_size("chunk_size", chunk_size)
    length = min(chunk_size, x.shape[1])
    write, fade, B, C = (in_chunks(z, length) for z in (dt[..., None] * x, dt * A, B, C))
    keep = decay_between(fade.transpose(2, 3))
    within = ((C @ B.mT)[:, :, None] * keep) @ write.transpose(2, 3)
    left = keep[..., -1, :].transpose(2, 3)[..., None] * write
    before = states_before(left.flatten(3).mT @ B, fade.sum(2).exp().repeat_interleave(x.shape[-1], -1))
    across = (C @ before.mT).unflatten(-1, x.shape[2:]) * fade.cumsum(2).exp()[..., None]
    y = (within.transpose(2, 3) + across).flatten(1, 2)[:, : x.shape[1]]
    return y if D is None else y + D[:, None] * x


def in_chunks(z: Float[Tensor, "batch time *rest"], length: int) -> Float[Tensor, "batch chunks length *rest"]:
    """Cut the time axis; the zeros that fill the last chunk fade nothing and write nothing."""
    return pad(z, (0, 0) * (z.ndim - 2) + (0, -z.shape[1] % length)).unflatten(1, (-1, length))


def decay_between(fade: Float[Tensor, "*batch length"]) -> Float[Tensor, "*batch length length"]:
    r"""Return :math:`\exp(\sum_{s < r \le t} \mathrm{fade}_r)` in row t and column s, and 0 where s is after t."""
    later = torch.ones(2 * fade.shape[-1:], dtype=torch.bool, device=fade.device).tril(-1)
    sums = torch.where(later, fade[..., None], 0).cumsum(-2)
    return sums.masked_fill(later.mT, -torch.inf).exp()


def states_before(
    written: Float[Tensor, "batch chunks channels state"], keep: Float[Tensor, "batch chunks channels"]
) -> Float[Tensor, "batch chunks channels state"]:
    """Return the state that each chunk begins with: the recurrence again, a step for each chunk."""
    state, before = torch.zeros_like(written[:, 0]), []
    for kept, new in zip(keep[..., None].unbind(1), written.unbind(1), strict=True):
        before.append(state)
        state = kept * state + new
    return torch.stack(before, 1)
