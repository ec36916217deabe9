r"""The selective scan: a linear recurrence whose decay, input and output vectors depend on the signal itself.

.. math::
    S_t = e^{\Delta_t A} S_{t-1} + \Delta_t \, x_t \otimes B_t, \qquad y_t = S_t C_t + D x_t

S is a state of (headdim, state) numbers for each head, zero before the first position. :math:`A < 0` is one number for
each head; :math:`\Delta_t > 0`, :math:`B_t` and :math:`C_t` are computed from the input at t.

Gu & Dao, 2023, https://arxiv.org/abs/2312.00752; in chunks: Dao & Gu, 2024, https://arxiv.org/abs/2405.21060
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, einsum
from torch.nn.functional import pad

from residual_edu.old_errors import (
    InvalidInput,
    check_floating,
    check_shape,
    check_size,
)
from residual_edu.values import is_readable


def selective_scan(
    x: Float[Tensor, "batch time heads headdim"],
    dt: Float[Tensor, "batch time heads"],
    A: Float[Tensor, "heads"],
    B: Float[Tensor, "batch time state"],
    C: Float[Tensor, "batch time state"],
    D: Float[Tensor, "heads"] | None = None,
) -> Float[Tensor, "batch time heads headdim"]:
    """Return y of the recurrence, one position after another; all heads share B and C.

    Args:
        x: input of the recurrence.
        dt: step of each position and head, above 0; a larger step forgets more of the state and writes more to it.
        A: decay rate of each head, below 0: a step keeps exp(dt A) of the state.
        B: vector by which each position writes to the state.
        C: vector by which each position reads from it.
        D: weight of x itself in each head's output; None for 0.

    Raises:
        InvalidInput: for shapes that do not fit each other, integers, or no positions.
    """
    check_scan(x, dt, A, B, C, D)
    keep, write = (dt * A).exp(), dt[..., None] * x
    state, y = (
        x.new_zeros(x.shape[0], *x.shape[2:], B.shape[-1]),
        [],
    )  # batch, head, headdim, state
    for t in range(x.shape[1]):
        state = (
            keep[:, t, :, None, None] * state
            + write[:, t, :, :, None] * B[:, t, None, None]
        )
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
    """Return what ``selective_scan`` returns, by matrix products: all pairs within a chunk, a state between chunks.

    Axes: b batch, c chunk, l and s two positions of a chunk, h head, p channel of a head, n state. The result does not
    depend on ``chunk_size``, at least 1. Nothing is divided by a decay, and no decay is computed as the difference of
    two long sums, so that large steps neither overflow nor cost the digits of small ones.

    Raises:
        InvalidInput: as ``selective_scan``, and for a ``chunk_size`` out of range.
    """
    check_scan(x, dt, A, B, C, D)
    check_size("chunk_size", chunk_size)
    length = min(chunk_size, x.shape[1])
    write, fade, B, C = (
        in_chunks(z, length) for z in (dt[..., None] * x, dt * A, B, C)
    )
    decay = segsum(
        fade.transpose(2, 3)
    ).exp_()  # b c h l s: the part of what s wrote that is left at l
    since = fade.cumsum(
        2
    ).exp()  # b c l h: the part of the chunk's initial state that is left at l
    scores = einsum("bcln,bcsn->bcls", C, B).tril()
    # A later s counts 0 times, and 0 times infinity is NaN: what is not finite is left out, and spoils l from s on.
    finite = is_readable(write) and bool(
        write.detach().sum().isfinite()
    )  # mostly, and told at little cost
    within = einsum(
        "bcls,bchls,bcshp->bclhp",
        scores,
        decay,
        write if finite else write.nan_to_num(0.0, 0.0, 0.0),
    )
    within = within if finite else within.masked_fill(spoilt(write), torch.nan)
    written = einsum(
        "bchs,bcshp,bcsn->bchpn", decay[..., -1, :], write, B
    )  # at the end of its chunk
    initial = initial_states(written, since[:, :, -1])
    across = einsum("bcln,bchpn,bclh->bclhp", C, initial, since)
    y = (within + across).flatten(1, 2)[:, : x.shape[1]]
    return y if D is None else y + D[:, None] * x


def check_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None
) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, time, heads, headdim), not empty in time, and the others fit."""
    check_shape("x", x, "batch", "time", "heads", "headdim")
    check_shape("B", B, "batch", "time", "state")
    batch, time, heads, _ = x.shape
    states = (batch, time, B.shape[-1])
    shapes = {
        "dt": (dt, (batch, time, heads)),
        "A": (A, (heads,)),
        "B": (B, states),
        "C": (C, states),
    }
    for name, (tensor, shape) in (
        shapes if D is None else shapes | {"D": (D, (heads,))}
    ).items():
        check_floating(name, tensor)
        if tensor.shape != shape:
            raise InvalidInput(
                f"{name} must have shape {shape}, got {tuple(tensor.shape)}"
            )
    check_signs(dt, A)


def check_signs(dt: Tensor, A: Tensor) -> None:
    """Raise ``InvalidInput`` for a step below 0 or a decay rate above 0, with which the state would grow."""
    if is_readable(dt) and ((dt < 0).any() or (A > 0).any()):
        lowest, highest = dt.min().item(), A.max().item()
        raise InvalidInput(
            f"dt must be at least 0 and A at most 0, got dt from {lowest:g} and A to {highest:g}"
        )


def in_chunks(
    z: Float[Tensor, "batch time *rest"], length: int
) -> Float[Tensor, "batch chunks length *rest"]:
    """Cut the time axis into chunks. The last one is filled with zeros, which neither decay nor write anything."""
    missing = -z.shape[1] % length
    if (
        torch.compiler.is_compiling()
    ):  # a graph serves all lengths: it always pads, where a pad by nothing would copy
        missing = length - z.shape[1] % length
    z = pad(z, (0, 0) * (z.ndim - 2) + (0, missing)) if missing else z
    return z.unflatten(1, (-1, length))


def spoilt(
    write: Float[Tensor, "batch chunks length heads headdim"],
) -> Bool[Tensor, "batch chunks length heads headdim"]:
    """Return where a chunk holds a number that is not finite, there or before; a maximum is faster than a sum."""
    left = torch.arange(write.shape[2], 0, -1.0, device=write.device)[
        :, None, None
    ]  # positions from here to the end
    bad = (0 * write.detach()).nan_to_num(1.0)  # 0 times infinity is NaN
    return left <= (bad * left).amax(2, keepdim=True)


def segsum(
    fade: Float[Tensor, "*batch length"],
) -> Float[Tensor, "*batch length length"]:
    r"""Return :math:`\sum_{s < r \le t} \mathrm{fade}_r` in row t and column s, and minus infinity for s > t.

    With fade = dt A its exponential is the decay from position s to position t.
    """
    length = fade.shape[-1]
    sums = (
        fade[..., None].expand(*fade.shape, length).tril(-1).cumsum(-2)
    )  # column s: 0 down to row s, then the sums
    return sums.add_(
        fade.new_full((length, length), -torch.inf).triu(1)
    )  # in place: these are the largest tensors


def initial_states(
    written: Float[Tensor, "batch chunks heads headdim state"],
    keep: Float[Tensor, "batch chunks heads"],
) -> Float[Tensor, "batch chunks heads headdim state"]:
    """Return the state before each chunk, from what each chunk writes to it and the factor of what it keeps of it.

    A loop, whose cost grows with the number of chunks and not with its square; a graph has one for all lengths, and so
    no loop.
    """
    if torch.compiler.is_compiling():
        return initial_states_by_pairs(written, keep)
    state, initial = torch.zeros_like(written[:, 0]), []
    for new, kept in zip(
        written.unbind(1), keep[..., None, None].unbind(1), strict=True
    ):
        initial.append(state)
        state = kept * state + new
    return torch.stack(initial, 1)


def initial_states_by_pairs(
    written: Tensor, keep: Tensor
) -> Float[Tensor, "batch chunks heads headdim state"]:
    """Return what ``initial_states`` returns, by a product of all pairs of chunks."""
    decay = segsum(
        keep.log().mT
    ).exp()  # b h z c: the part of what chunk c wrote that is left after chunk z
    states = einsum("bhzc,bchpn->bzhpn", decay, written.nan_to_num(0.0, 0.0, 0.0)) + (
        0 * written
    ).cumsum(1)
    return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)
