r"""The selective scan: a linear recurrence whose coefficients depend on the signal.

.. math::
    S_t = e^{\Delta_t A} S_{t-1} + \Delta_t \, x_t \otimes B_t, \qquad
    y_t = S_t C_t + D x_t

The state S, (headdim, state) in each head, is zero before the first position.
:math:`A < 0` is one number for each head; :math:`\Delta_t > 0`, :math:`B_t` and
:math:`C_t` are computed from the input at t.
Gu & Dao, 2023, https://arxiv.org/abs/2312.00752
In chunks: Dao & Gu, 2024, https://arxiv.org/abs/2405.21060
"""

import torch
from jaxtyping import Float
from torch import Tensor, einsum
from torch.nn.functional import pad

from residual_edu.errors import InvalidInput, check_shape, check_size
from residual_edu.parts.norm import widened


def selective_scan(
    x: Float[Tensor, "batch time heads headdim"],
    dt: Float[Tensor, "batch time heads"],
    A: Float[Tensor, "heads"],
    B: Float[Tensor, "batch time state"],
    C: Float[Tensor, "batch time state"],
    D: Float[Tensor, "heads"] | None = None,
) -> Float[Tensor, "batch time heads headdim"]:
    """Return y of the recurrence, position by position; all heads share B and C.

    Args:
        x: input of the recurrence; the state is summed in float32 at least.
        dt: step, at least 0; a larger one forgets and writes more.
        A: decay rate of each head, at most 0: a step keeps exp(dt A) of the state.
        B: vector by which a position writes to the state.
        C: vector by which a position reads from it.
        D: weight of x itself in the output; None for 0.
    """
    check_scan(x, dt, A, B, C, D)
    wide, dt, A, B, C = map(widened, (x, dt, A, B, C))
    keep, write = (dt * A).exp(), dt[..., None] * wide
    # batch, head, headdim, state
    state = wide.new_zeros(x.shape[0], *x.shape[2:], B.shape[-1])
    read = []
    for t in range(x.shape[1]):
        written = write[:, t, :, :, None] * B[:, t, None, None]
        state = keep[:, t, :, None, None] * state + written
        read.append((state * C[:, t, None, None]).sum(-1))
    y = torch.stack(read, 1)
    return (y if D is None else y + D[:, None] * wide).type_as(x)


def chunked_scan(
    x: Float[Tensor, "batch time heads headdim"],
    dt: Float[Tensor, "batch time heads"],
    A: Float[Tensor, "heads"],
    B: Float[Tensor, "batch time state"],
    C: Float[Tensor, "batch time state"],
    D: Float[Tensor, "heads"] | None = None,
    chunk_size: int = 64,
) -> Float[Tensor, "batch time heads headdim"]:
    """Return what ``selective_scan`` returns, by matrix products.

    Within a chunk they take all pairs of positions, between chunks there is one state;
    the result does not depend on ``chunk_size``. Nothing is divided by a decay, and no
    decay is a difference of long sums: large steps cost no digits of small ones.
    """
    check_scan(x, dt, A, B, C, D)
    check_size("chunk_size", chunk_size)
    wide, dt, A, B, C = map(widened, (x, dt, A, B, C))
    length = min(chunk_size, x.shape[1])
    # b batch, c chunk, l and s positions in it, h head, p channel of a head, n state
    write, fade = in_chunks(dt[..., None] * wide, length), in_chunks(dt * A, length)
    B, C = in_chunks(B, length), in_chunks(C, length)
    decay = segsum(fade.transpose(2, 3)).exp_()  # b c h l s: what l keeps of s
    since = fade.cumsum(2)  # b c l h: its exp is what l keeps of what its chunk finds
    written = einsum("bchs,bcshp,bcsn->bchpn", decay[..., -1, :], write, B)
    found = initial_states(written, since[:, :, -1])
    across = einsum("bcln,bchpn,bclh->bclhp", C, found, since.exp())
    y = within_chunks(decay, write, B, C) + across
    y = y.flatten(1, 2)[:, : x.shape[1]]
    return (y if D is None else y + D[:, None] * wide).type_as(x)


def in_chunks(z: Tensor, length: int) -> Float[Tensor, "batch chunks length *rest"]:
    """Cut time into chunks; zeros, which neither decay nor write, fill the last one."""
    missing = -z.shape[1] % length
    z = pad(z, (0, 0) * (z.ndim - 2) + (0, missing)) if missing else z
    return z.unflatten(1, (-1, length))


def segsum(fade: Float[Tensor, "*b length"]) -> Float[Tensor, "*b length length"]:
    r"""Return :math:`\sum_{s < r \le t} \mathrm{fade}_r` in row t and column s.

    With fade = dt A its exponential is the decay from s to t; 0 above the diagonal.
    """
    columns = fade[..., None].expand(*fade.shape, fade.shape[-1])
    return columns.tril(-1).cumsum(-2)


def within_chunks(decay: Tensor, write: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Return what each position reads of what its own chunk wrote up to there."""
    scores = einsum("bcln,bcsn->bcls", C, B).tril()
    # A later s counts 0 times, but 0 times infinity is NaN. So what is not finite is
    # left out of the product, and then makes NaN of what is at its position or later.
    finite = write.nan_to_num(0.0, 0.0, 0.0)
    y = einsum("bcls,bchls,bcshp->bclhp", scores, decay, finite)
    return y.add_((0 * write.detach()).cumsum(2))


def initial_states(written: Tensor, fade: Tensor) -> Tensor:
    """Return the state before each chunk, which keeps exp(fade) of it and writes."""
    # written: b c h p n; fade: b c h
    state, initial = torch.zeros_like(written[:, 0]), []
    for keep, new in zip(fade.exp().unbind(1), written.unbind(1), strict=True):
        initial.append(state)
        state = keep[..., None, None] * state + new
    return torch.stack(initial, 1)


def check_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None
) -> None:
    """Raise ``InvalidInput`` where a tensor would broadcast, or is elsewhere."""
    batch, time, heads, _ = x.shape
    check_shape("dt", dt, batch, time, heads)
    check_shape("A", A, heads)
    check_shape("B", B, batch, time, "state")
    check_shape("C", C, batch, time, B.shape[-1])
    if D is not None:
        check_shape("D", D, heads)
    if any(z.device != x.device for z in (dt, A, B, C)):  # bmm would read a meta tensor
        raise InvalidInput(f"dt, A, B and C must be on the device of x, {x.device}")
