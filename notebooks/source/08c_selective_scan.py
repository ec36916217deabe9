# %% [markdown]
# # 08c · Mamba, cost, and a task that separates the mixers
#
# 90 minutes. It needs no network connection. Of [lesson 08b](08b_long_convolution.ipynb) it uses the causal convolution
# and its kernel; of [lesson 08a](08a_attention.ipynb), attention, and of its appendix the mixing matrix; of
# [lesson 07a](07a_residual_block.ipynb), the block, which takes any mixer.
#
# By the end you can
#
# - **write** a memory that decides, number by number, what to keep and what to overwrite;
# - **turn** its loop into matrix products without losing a digit, and name the short cut that ends in NaN;
# - **read** from one picture who hears whom, for Attention, CKConv, Hyena and Mamba;
# - **measure** how the cost of each grows with the length, and **pose** a task that tells them apart.

# %% [markdown]
# ## Before we start: three questions on earlier lessons
#
# Answer aloud, then open.
#
# <details><summary>1. Attention over 1,000 positions takes a second. Over 4,000?</summary>Sixteen seconds, as far as its
# two products go: every pair of positions is looked at (lesson 08a).</details>
#
# <details><summary>2. A long convolution is causal. Which of its taps are 0, and can one of them depend on what the signal
# says?</summary>Those that would hear later positions. None depends on the signal: the kernel is the same whatever comes
# in (lesson 08b).</details>
#
# <details><summary>3. A mixer in a residual block returns 0 for every input. What does the block
# return?</summary>Its input, as far as that branch goes: a branch only adds (lesson 00).</details>

# %%
import itertools
import math
import time

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn.functional import cross_entropy, pad, softplus

from residual_edu.blocks import ResidualBlock
from residual_edu.config import LazyConfig, build
from residual_edu.exercises import check
from residual_edu.explorers.selective_scan import explore_latch, held, wanted
from residual_edu.gradient_flow import GradientFlowRecorder, mixing_matrix
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.mixers import Attention, CKConv, Hyena, QKVSequenceMixer, SIRENKernel
from residual_edu.mixers import long_convolution
from residual_edu.parts import MLP, CausalConv1D, RMSNorm
from residual_edu import mixers as finished
from residual_edu.parts.flop_count import flop_count
from residual_edu.plotting import selective_scan as plots
from residual_edu.plotting.mixing_matrix import plot_mixing_matrix
from residual_edu.plotting.stream import plot_stream
from residual_edu.training import train

device = setup()
progress("08c")

# %% [markdown]
# ## A leaky sum of four numbers
#
# A memory is one number. At each position half of it leaks away, and what is heard there is added. It starts empty,
# and hears 8, 4, 2, 0. **What does it hold after the third?**

# %% tags=["predict"]
guess = predict("Half is kept each time, 8, 4, 2 are heard: the memory holds", ["2", "6", "14"])

# %% tags=["reveal"]
# Answer first, then run this cell.
heard, memory, memories = [8.0, 4.0, 2.0, 0.0], 0.0, []
for number in heard:
    memory = memory / 2 + number
    memories.append(memory)
assert memories == [8, 8, 6, 3]
guess.reveal("6")

# %% [markdown]
# The same, with what is left of each number drawn by itself.

# %%
shares = torch.tensor([[number / 2 ** (t - s) if s <= t else 0.0 for s, number in enumerate(heard)] for t in range(4)])
fig = Figure(figsize=(6, 3.2))
plots.plot_memory(shares, fig.add_subplot()).set_title("All fades alike, whatever it was")
show(fig, alt="Stacked bars, 8, 8, 6 and 3 high. The 8 heard first shrinks to 4, 2, 1, the others by the same factor.")
signal, kernel = torch.tensor(heard).view(1, 4, 1), 0.5 ** torch.arange(4.0).view(1, 4, 1)
assert torch.allclose(long_convolution(signal, kernel, "causal").flatten(), torch.tensor(memories), atol=1e-5)

# %% [markdown]
# You have met this mixer: it is a causal convolution (lesson 08b) with the kernel 1, ½, ¼, ⅛; the last line checks it.
# Where the convolution needs a kernel as long as the signal, the recurrence needs one number. That is what it buys.
#
# ## A step that listens
#
# A leak that is always the same forgets the important at the speed of the rest. So give each position a *step* dt of
# its own, and let it decide both things at once:
#
# $$S_t = e^{dt_t A}\, S_{t-1} + dt_t\, x_t \qquad A < 0$$
#
# Take A = −1. A step of 3 keeps exp(−3), a twentieth, of the memory and writes three times the number. **What does a
# step of 0 do?**

# %% tags=["predict"]
guess = predict("dt = 0", ["clears the memory", "leaves it as it is", "doubles it"])

# %% [markdown]
# A step of 0 stops the clock: nothing fades, nothing is written. A large one forgets the past and takes in the
# present. Where the step comes from is the idea behind Mamba: **the input chooses it**, by a linear map and a
# softplus that keeps it above 0. That is what *selective* means.
#
# Here are nine numbers, two of them marked. The task: hold the last marked one. One memory takes the same step
# everywhere; the other takes a step of 1 at marked numbers and 0 at the others, with A = −5.

# %% tags=["reveal"]
# Answer first, then run this cell.
numbers = [7.0, 2, 8, 1, 3, 6, 9, 0, 5]
marked = [place in (0, 4) for place in range(9)]
same, chosen = held(numbers, marked, 1.0, 0.5, 0.5), held(numbers, marked, 5.0, 1.0, 0.0)
fig = Figure()
ax = plots.plot_latch(numbers, marked, {"equal steps": same, "chosen steps": chosen}, fig.add_subplot())
ax.set_title("A selective step holds what it was told to hold")
show(fig, alt="Nine numbers, 7 and 3 marked. Equal steps follow all that is heard; chosen steps hold 7, then 3.")
assert abs(chosen - wanted(numbers, marked)).max() < 0.05 < 1 < abs(same - wanted(numbers, marked)).max()
guess.reveal("leaves it as it is")
without = held([7.0, 0, 0, 0], [True, False, False, False], 5.0, 1.0, 0.0)
between = held([7.0, 0, 0, 0], [True, False, True, False], 5.0, 1.0, 0.0)
assert without[-1] == 7 and between[-1] < 0.05

# %% [markdown]
# No convolution can do this. Its kernel says how much of a number is left *three positions later*, once and for all.
# Here it depends on what came in between: of a 7 that is followed by three zeros 7 is left, and 0.05 if one of them is
# marked (the last three lines).
#
# **Law.** What is left of position s at position t is exp(A · the sum of the steps after s, up to t). With steps that
# depend on the input, no fixed kernel does the same.
#
# ### Exercise 1 · 8 minutes · ●●○○○
#
# Write this memory. `x` and `dt` have shape (time,), `A` is a negative number. Return the memory after each position,
# (time,). It starts empty.
#
# <details><summary>Hint 1</summary>Keep one number, the memory, and go through x and dt side by side. What happens to
# it first?</details>
# <details><summary>Hint 2</summary>At position t the memory is first multiplied by what a step of dt[t] keeps, and then
# what is written is added. Append it; <code>torch.stack</code> at the end.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "leaky-scan", "locked": false, "schema_version": 3, "solution": true, "task": false}
def leaky_scan(x, dt, A):
    """Return the memory after each position, (time,)."""
    ### BEGIN SOLUTION
    memory, after = torch.zeros_like(x[0]), []
    for t in range(len(x)):
        memory = torch.exp(dt[t] * A) * memory + dt[t] * x[t]
        after.append(memory)
    return torch.stack(after)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "leaky-scan-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(leaky_scan, "leaky_scan")

# %% [markdown]
# ## Move it yourself
#
# The nine numbers again. Three sliders: how strongly the memory fades (−A), its step at marked numbers and at noise.
# The dotted line is what it should hold.
#
# **Find out:** with −A = 1, how close can you get? Which step at marked numbers writes the number in its right size?
# Then free −A.

# %% tags=["explorer"]
explore_latch(numbers, marked)

# %% [markdown]
# <details><summary>Answer</summary>At noise the step must be 0. At marked numbers only a step of 1 writes the number in
# its own size. But with −A = 1 such a step keeps 37 % of what was there, so that the 3 finds 7 · 0.37 in its way. The
# best compromise, a step of 0.8, is still off by 1.92: neither the right size nor a clean slate. Forgetting fast at
# the same step needs a stronger fade: from −A = 6 on the error is below 0.02. One step decides about both, so each
# head of Mamba has an A of its own.</details>

# %% [markdown]
# ## A memory with addresses
#
# One number holds one thing. Let the memory be a matrix, and let each position say *where* to write with a vector B,
# and where to read with a vector C:
#
# $$S_t = e^{dt_t A}\, S_{t-1} + dt_t\, x_t \otimes B_t \qquad y_t = S_t\, C_t$$
#
# Write 3 at the address (1, 0), then 5 at the address (0, 1), nothing fading. **What does C = (1, 1) read?**

# %% tags=["predict"]
guess = predict("3 at (1, 0), 5 at (0, 1); C = (1, 1) reads", ["3", "5", "8"])

# %% tags=["reveal"]
# Answer first, then run this cell.
state, states = torch.zeros(1, 2), []
for value, address in [(3.0, [1.0, 0.0]), (5.0, [0.0, 1.0]), (1.0, [1.0, 0.0])]:
    state = state + torch.outer(torch.tensor([value]), torch.tensor(address))
    states.append(state)
assert [(states[1] @ torch.tensor(C)).item() for C in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0])] == [3, 5, 8]
fig = Figure(figsize=(6, 2.2))
names = ["write 3\nat (1, 0)", "write 5\nat (0, 1)", "write 1\nat (1, 0)"]
ax = plots.plot_states(torch.stack(states), names, fig.add_subplot())
ax.set_title("Two addresses: what comes to one adds to it")
show(fig, alt="Three states of two cells: 3 and 0, then 3 and 5, then 4 and 5: the third write adds to the first.")
guess.reveal("8")

# %% [markdown]
# Keys and queries by other names: B writes under a key, C asks with a query. The difference to attention: everything
# goes into *one* matrix of fixed size, and what shares an address blurs. Four heads of 16 channels with addresses of
# length 16 hold 1,024 numbers, after ten positions and after ten million.
#
# The finished piece: all heads at once, as it is written. D lets a position speak past the memory.


# %% tags=["promote:mixers/selective_scan"]
import torch


def selective_scan(x, dt, A, B, C, D=None):
    # x: batch, time, heads, headdim; dt: batch, time, heads; A, D: heads
    # B, C: batch, time, state
    keep, write = (dt * A).exp(), dt[..., None] * x
    # batch, head, headdim, state
    state, y = x.new_zeros(len(x), *x.shape[2:], B.shape[-1]), []
    for t in range(x.shape[1]):
        state = (
            keep[:, t, :, None, None] * state
            + write[:, t, :, :, None] * B[:, t, None, None]
        )
        y.append((state * C[:, t, None, None]).sum(-1))
    return torch.stack(y, 1) if D is None else torch.stack(y, 1) + D[:, None] * x


# %% [markdown]
# ## All pairs at once
#
# A loop over positions is slow where a product of matrices is fast. Unroll it: what y at t hears of x at s is
# (B at s · C at t), times the step, times what the decays between have left. So the whole scan is one matrix,
#
# $$y = \big(C B^\top \circ L\big)\,(dt \cdot x) \qquad L_{ts} = \prod_{s < r \le t} e^{dt_r A}$$
#
# **Leave L out, all ones on and below the diagonal. Which mixer is that?**

# %% tags=["predict"]
guess = predict("y = (C Bᵀ, causal) x is", ["attention without its softmax", "a convolution", "a norm"])


# %% tags=["reveal"]
# Answer first, then run this cell.
def draw(time, batch=2, heads=3, headdim=4, state=5, seed=0):
    """Return x, dt, A, B, C and D of some scan, in float64."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch, time, heads, headdim), (batch, time, heads), (batch, time, state), (batch, time, state), (heads,)
    x, dt, B, C, D = (torch.randn(shape, generator=generator).double() for shape in shapes)
    return x, softplus(dt), -torch.arange(1.0, heads + 1).double(), B, C, D


x, dt, A, B, C, D = draw(9)
steps = (dt * A).cumsum(1).movedim(1, -1)
L = (steps[..., None] - steps[..., None, :]).exp().tril()
unrolled = torch.einsum("bts,bhts,bsh,bshp->bthp", C @ B.mT, L, dt, x) + D[:, None] * x
assert torch.allclose(selective_scan(x, dt, A, B, C, D), unrolled, atol=1e-12)
guess.reveal("attention without its softmax")

# %% [markdown]
# **Law.** The selective scan is causal attention without a softmax, its scores faded by L. The loop reads it row by
# row in time proportional to the length; the matrix does it in one go, in time proportional to its square.
#
# ### Exercise 2 · 8 minutes · ●●●○○
#
# Build L from the decays. `keep` has shape (time,), keep[t] is what position t leaves of the memory it finds. Return
# (time, time): in row t and column s what is left at t of what was written at s; 0 where s is after t.
#
# <details><summary>Hint 1</summary>Write row t = 2 by hand: what is left there of what was written at 0, at 1, at
# 2?</details>
# <details><summary>Hint 2</summary>Entry (t, s) is a product of decays. Does it begin with that of s, or with the next one? An empty
# product is 1.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "decay-matrix", "locked": false, "schema_version": 3, "solution": true, "task": false}
def decay_matrix(keep):
    """Return what is left at each position, a row, of what each wrote, a column, (time, time)."""
    ### BEGIN SOLUTION
    n = len(keep)
    rows = [[keep[s + 1 : t + 1].prod() if s <= t else 0 * keep[0] for s in range(n)] for t in range(n)]
    return torch.stack([torch.stack(row) for row in rows])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "decay-matrix-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(decay_matrix, "decay_matrix")

# %% [markdown]
# ## Chunks: the best of both
#
# Cut the sequence into chunks of 64. *Inside* a chunk use the matrix: 64 × 64, all pairs at once. *Between* chunks use
# the recurrence: what all earlier chunks said arrives as one state. **A sequence of 4,096 positions: how many steps
# does the loop between chunks take?**

# %% tags=["predict"]
guess = predict("4,096 positions in chunks of 64: steps of the loop", ["64", "4,096", "262,144"])

# %% tags=["reveal"]
# Answer first, then run this cell.
fade = -softplus(torch.randn(32, generator=torch.Generator().manual_seed(1)) - 2)
left = (fade.cumsum(0)[:, None] - fade.cumsum(0)).exp().tril()
fig = Figure(figsize=(6, 4.6))
plots.plot_chunks(left, 8, fig.add_subplot()).set_title("All pairs in a square, one state for the rest", x=-0.2)
show(fig, alt="A matrix of 32 by 32, fading to the lower left; squares on its diagonal, a dashed block beside each.")
guess.reveal("64")

# %% [markdown]
# For each row of squares one state comes in from the left: the sum of everything that earlier chunks wrote, faded to
# the chunk's first position. Its successor is the recurrence once more, a step for each chunk: `initial_states`.
#
# The finished piece, in matrix products. `segsum` is exercise 2 with sums instead of products, before the exponential; its last row is
# what is left at the chunk's end.


# %% tags=["promote:mixers/selective_scan"] jupyter={"source_hidden": true}
import torch
from torch import einsum
from torch.nn.functional import pad


def chunked_scan(x, dt, A, B, C, D=None, chunk_size=64):
    # x: batch, time, heads, headdim; dt: batch, time, heads; A, D: heads
    # B, C: batch, time, state
    length = min(chunk_size, x.shape[1])
    write, fade, B, C = (
        in_chunks(z, length) for z in (dt[..., None] * x, dt * A, B, C)
    )
    # b c h l s: the part of what s wrote that is left at l
    decay = segsum(fade.transpose(2, 3)).exp_()
    # b c l h: the part of the chunk's initial state that is left at l
    since = fade.cumsum(2).exp()
    scores = einsum("bcln,bcsn->bcls", C, B)
    within = einsum("bcls,bchls,bcshp->bclhp", scores, decay, write)
    # at the end of its chunk
    written = einsum("bchs,bcshp,bcsn->bchpn", decay[..., -1, :], write, B)
    initial = initial_states(written, since[:, :, -1])
    across = einsum("bcln,bchpn,bclh->bclhp", C, initial, since)
    y = (within + across).flatten(1, 2)[:, : x.shape[1]]
    return y if D is None else y + D[:, None] * x


def in_chunks(z, length):
    # z: batch, time, ...; result: batch, chunks, length, ...
    missing = -z.shape[1] % length
    # pad copies even where it adds nothing
    z = pad(z, (0, 0) * (z.ndim - 2) + (0, missing)) if missing else z
    return z.unflatten(1, (-1, length))


def segsum(fade):
    # fade: ..., length; result: ..., length, length
    length = fade.shape[-1]
    # column s: 0 down to row s, then the sums
    sums = fade[..., None].expand(*fade.shape, length).tril(-1).cumsum(-2)
    # in place: these are the largest tensors
    return sums.add_(fade.new_full((length, length), -torch.inf).triu(1))


def initial_states(written, keep):
    # written: batch, chunks, heads, headdim, state; keep: batch, chunks, heads
    state, initial = torch.zeros_like(written[:, 0]), []
    for new, kept in zip(
        written.unbind(1), keep[..., None, None].unbind(1), strict=True
    ):
        initial.append(state)
        state = kept * state + new
    return torch.stack(initial, 1)


# %% [markdown]
# In float64 it gives the loop's numbers, values and gradients, at lengths that chunks divide and at lengths that they
# do not; the next cell but one checks it.
#
# ### The short cut that ends in NaN
#
# A tempting line saves all of this. With ℓ the running sum of dt · A, what is left between s and t is exp(ℓ at t) /
# exp(ℓ at s), so that a single cumulative sum does it: `exp(ℓ) * cumsum(u * exp(-ℓ))`. On paper it is the same.
# **64 positions in float32, steps of 2 and A = −1. What is exp(−ℓ) at the end?**

# %% tags=["predict"]
guess = predict("exp(128) in float32", ["a large number", "infinity", "0"])


def short_cut(x, dt, A, B, C, D):
    """Return the scan by dividing one running decay by another."""
    total = (dt * A).cumsum(1)[..., None, None]
    written = (dt[..., None] * x)[..., None] * B[:, :, None, None]
    return ((total.exp() * (written * (-total).exp()).cumsum(1)) * C[:, :, None, None]).sum(-1) + D[:, None] * x


def error(scan, step):
    """Return the largest error of 64 positions in float32, against the loop in float64."""
    x, dt, A, B, C, D = draw(64)
    exact = selective_scan(x, step * dt, A, B, C, D)
    found = scan(*(z.float() for z in (x, step * dt, A, B, C, D)))
    return ((found - exact).abs().max() / exact.abs().max()).item()


# %% tags=["reveal"]
# Answer first, then run this cell.
for positions, chunk in [(1, 4), (12, 4), (13, 4), (30, 64)]:
    given = [z.requires_grad_() for z in draw(positions)]
    both = selective_scan(*given), chunked_scan(*given, chunk_size=chunk)
    slopes = [torch.autograd.grad(y.square().sum(), given) for y in both]
    assert torch.allclose(*both, atol=1e-10)
    assert all(torch.allclose(*pair, rtol=1e-8, atol=1e-8) for pair in zip(*slopes, strict=True))

sizes = [2.0**power for power in range(-7, 8)]
errors = {"divide": [error(short_cut, s) for s in sizes], "chunks": [error(chunked_scan, s) for s in sizes]}
fig = Figure()
plots.plot_errors(sizes, errors, fig.add_subplot()).set_title("Dividing by a decay works only for small steps")
show(fig, alt="Error over the size of the steps. Chunks stay near one in ten million; the short cut ends in NaN at 1.")
assert max(errors["chunks"]) < 1e-5 and errors["divide"][0] < 1e-5
assert all(math.isnan(e) for s, e in zip(sizes, errors["divide"], strict=True) if s >= 2)
guess.reveal("infinity")

# %% [markdown]
# exp(−ℓ) is infinite there, exp(ℓ) is 0, and 0 times infinity is NaN.
#
# **Law.** A decay may be multiplied, never divided by. Large steps are no accident here: they are how the memory is
# told to forget. `chunked_scan` takes exponentials of sums that are 0 or less, and so of nothing that can overflow.

# %% [markdown]
# ## The layer around the scan
#
# One linear map gives each position everything the scan wants from it: the number x, B, C, a step for each head, and a
# gate z. A convolution over four positions lets neighbours speak first. Then scan, gate, norm, and a map back.
#
# Steps start between 0.001 and 0.1, and head h fades with A = −h. Half of a number is left after ln 2 / (step · h)
# positions: 693 at the slowest, fewer than 1 at the fastest of eight heads. The next figure's cell checks it, below the
# figure.


# %% tags=["promote:mixers/mamba"] jupyter={"source_hidden": true}
import torch
from torch import nn
from torch.nn.functional import silu, softplus

from residual_edu.mixers.mamba import initial_steps
from residual_edu.parts.causal_conv import CausalConv1D
from residual_edu.parts.rms_norm import RMSNorm


class MambaLayer(nn.Module):
    def __init__(
        self,
        d_model,
        d_state=128,
        d_conv=4,
        expand=2,
        headdim=64,
        dt_min=0.001,
        dt_max=0.1,
        dt_init_floor=1e-4,
        bias=False,
        conv_bias=True,
        chunk_size=64,
    ):
        super().__init__()
        inner, heads = expand * d_model, expand * d_model // headdim
        self.d_model, self.d_state, self.headdim, self.chunk_size = (
            d_model,
            d_state,
            headdim,
            chunk_size,
        )
        mixed = inner + 2 * d_state  # x, B and C, which the short convolution reads
        self.pieces = [inner, mixed, heads]
        self.in_proj = nn.Linear(d_model, sum(self.pieces), bias=bias)
        self.conv1d = CausalConv1D(mixed, mixed, d_conv, groups=mixed, bias=conv_bias)
        steps = initial_steps(heads, dt_min, dt_max, dt_init_floor)
        # softplus of it is the step
        self.dt_bias = nn.Parameter(steps + (-(-steps).expm1()).log())
        self.A_log = nn.Parameter(torch.arange(1.0, heads + 1).log())
        self.D = nn.Parameter(torch.ones(heads))
        self.norm = RMSNorm(inner, eps=1e-5)
        self.out_proj = nn.Linear(inner, d_model, bias=bias)

    def forward(self, x):
        # x: batch, positions, channels
        # batch, position, and: inner; inner + 2 state; head
        z, u, dt = self.in_proj(x).split(self.pieces, dim=-1)
        y = self._scan(silu(self.conv1d(u.mT)).mT, softplus(dt + self.dt_bias))
        return self.out_proj(self.norm(y * silu(z)))

    def _scan(self, u, dt):
        # result: batch, positions, inner
        # a 16-bit state would lose the digits of what it sums
        wide = torch.promote_types(u.dtype, torch.float32)
        x, B, C = u.to(wide).split([self.pieces[0], self.d_state, self.d_state], dim=-1)
        # x: batch, position, head, headdim
        x, A = x.unflatten(-1, (-1, self.headdim)), -self.A_log.to(wide).exp()
        y = chunked_scan(x, dt.to(wide), A, B, C, self.D.to(wide), self.chunk_size)
        return y.flatten(-2).to(u.dtype)


# %% [markdown]
# Memories of many lengths, from the first step on, before anything is learned. Training bends the steps; the input
# bends them again at every position.
#
# ## Who hears whom
#
# Mamba for signals of any dimension reads the positions row by row as one sequence. And since a scan hears only the
# past, a second layer can read from the end, so that each position hears all others.


# %% tags=["promote:mixers/mamba"]
from torch import nn

from residual_edu.config import build


class Mamba(nn.Module):
    def __init__(self, mamba_layer_cfg, bidirectional=False):
        super().__init__()
        self.bidirectional = bidirectional
        self.core_layer = build(mamba_layer_cfg)
        if bidirectional:
            self.core_layer_rev = build(mamba_layer_cfg)

    def forward(self, x, *, conditioning=None):
        # x: batch, ..., channels
        sequence = x.flatten(1, -2)
        y = self.core_layer(sequence)
        if self.bidirectional:
            y = y + self.core_layer_rev(sequence.flip(1)).flip(1)
        return y.view_as(x)


# %% [markdown]
# The mixing matrix (08a, appendix): row i, column j is how strongly what position i says depends on what position j said, at
# random weights. Grey is nothing at all. **For Mamba read one way, which part is grey?**

# %% tags=["predict"]
guess = predict("Mamba, one way: grey is", ["above the diagonal", "below the diagonal", "nothing"])

# %% tags=["reveal"]
# Answer first, then run this cell.
x = torch.randn(4, 12, 16).to(device)
core = LazyConfig(MambaLayer)(d_model=16, d_state=8, headdim=8)
fig = Figure(figsize=(6, 3.9))
found = {}
for ax, both in zip(fig.subplots(1, 2), (False, True), strict=True):
    found[both] = mixing_matrix(Mamba(core, bidirectional=both).to(device), x)
    plot_mixing_matrix(found[both], ax).set_title("both ways" if both else "one way", weight="normal")
fig.suptitle("One way: no future; both ways: everything", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Two matrices of 12 by 12. One way: all above the diagonal is grey, loudest on and just below the diagonal. "
    "Both ways: no grey, loudest along the diagonal.",
)
assert not found[False].triu(1).any() and (found[True] > 0).all() and (found[False].tril() > 0).sum() == 78
guess.reveal("above the diagonal")
assert round(math.log(2) / 0.001) == 693
for seed in range(3):
    torch.manual_seed(seed)
    layer = MambaLayer(64, headdim=16)
    lives = math.log(2) / (softplus(layer.dt_bias) * layer.A_log.exp()).detach()
    assert 0.85 < lives.min() < 60 and 40 < lives.max() < 694 and len(lives) == 8

# %% [markdown]
# ### Exercise 3 · 5 minutes · ●●○○○
#
# Read both ways. `core` and `core_rev` map (batch, positions, channels) to the same shape and hear only the past; `x`
# is such a signal. Return core(x) plus what core_rev makes of x read from its end, each number at its own position.
#
# <details><summary>Hint 1</summary>core_rev reads the sequence from its end. In which order does its answer
# stand?</details>
# <details><summary>Hint 2</summary><code>x.flip(1)</code> reads from the end. Where must the order be turned
# back?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "both-ways", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bidirectional_scan(core, core_rev, x):
    """Return the sum of both directions, shaped as x."""
    ### BEGIN SOLUTION
    return core(x) + core_rev(x.flip(1)).flip(1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "both-ways-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(bidirectional_scan, "bidirectional_scan")

# %% [markdown]
# ### All four, side by side
#
# Attention, CKConv, Hyena and Mamba, each with its projections, as they go into a block, causal and not; Mamba is not
# when it reads both ways. We ask twice: the matrix, and a change of position 6, put in by hand.


# %%
def mixers(width, length, causal=True):
    """Return how to build each of the four for signals of up to ``length`` positions."""
    says = {"mlp_hidden_dim": 16, "num_layers": 3, "embedding_dim": 16, "omega_0": 10.0, "use_bias": True}
    kernel = LazyConfig(SIRENKernel)(out_dim=width, data_dim=1, L_cache=length, **says)
    line = {"data_dim": 1, "grid_type": "double", "fft_padding": "zero", "is_causal": causal}
    ckconv = LazyConfig(CKConv)(hidden_dim=width, kernel_cfg=kernel, mask_cfg=nn.Identity, **line)
    thrice = {"in_channels": 3 * width, "out_channels": 3 * width, "groups": 3 * width}
    short = LazyConfig(CausalConv1D)(kernel_size=3, is_causal=causal, **thrice)
    bare = {"gate_nonlinear_cfg": nn.Identity, "pixelhyena_norm_cfg": nn.Identity, "qk_norm_cfg": None}
    hyena = LazyConfig(Hyena)(global_conv_cfg=ckconv, short_conv_cfg=short, **bare)
    attention = LazyConfig(Attention)(
        hidden_dim=width, num_heads=2, apply_qk_norm=False, use_rope=True, is_causal=causal
    )
    inner = {"Attention": attention, "CKConv": ckconv, "Hyena": hyena}
    wrapped = {name: LazyConfig(QKVSequenceMixer)(hidden_dim=width, mixer_cfg=cfg) for name, cfg in inner.items()}
    layer = LazyConfig(MambaLayer)(d_model=width, d_state=16, headdim=width)
    return wrapped | {"Mamba": LazyConfig(Mamba)(mamba_layer_cfg=layer, bidirectional=not causal)}


# %%
fig, changed, even = Figure(figsize=(6, 4.3)), x.clone(), set()
changed[:, 6] += 1
for ax, (causal, name) in zip(fig.subplots(2, 4).flat, itertools.product([True, False], plots.MIXERS), strict=True):
    mixer = build(mixers(16, 32, causal)[name]).to(device)
    heard_by, moved = mixing_matrix(mixer, x), (mixer(changed) - mixer(x)).detach().abs().amax((0, 2))
    heard_by = heard_by * (heard_by > 1e-5 * heard_by.max())  # a transform rounds, and a zero becomes nearly zero
    assert (heard_by > 0).equal(torch.ones(12, 12).tril(0 if causal else 12) > 0)
    assert (moved > 1e-5 * moved.max()).tolist() == [not causal or place >= 6 for place in range(12)]
    if (heard_by[1:, 1:] - heard_by[:-1, :-1]).tril().abs().max() < 1e-3 * heard_by.max():
        even.add(name)
    plot_mixing_matrix(heard_by, ax, named=False)
    if causal:
        ax.set_title(name, color=plots.MIXERS[name])
    if name == "Attention":
        ax.set_ylabel("causal" if causal else "not causal", weight="bold")
assert even == {"CKConv"}
fig.suptitle("Four mixers, four patterns of dependence", x=0.01, ha="left", weight="bold")
fig.supxlabel("input position, a row for each output position (grey: 0)")
show(
    fig,
    alt="Two rows of four matrices of 12 by 12, grey above the diagonal in the causal row, without grey in the other. "
    "Attention: shared among all. CKConv: stripes along the diagonals. Hyena: uneven. Mamba: loud near the diagonal.",
)

# %% [markdown]
# CKConv's stripes run straight down the diagonals: what counts is the distance, and nothing else. The other three are
# uneven, because what is said decides how it is heard: by scores, by gates, by steps and addresses. Mamba's dark band,
# four wide, is its short convolution; steps start small, so that before any training the state only whispers.
#
# ## What it costs
#
# One pass forward and back, one sample, 32 channels, from 128 to 8,192 positions, measured here and now. The slope of
# each line, over its last four points, is written beside it: 1 means twice the length, twice the time. **Attention's?**

# %% tags=["predict"]
guess = predict("Slope of attention between 1,024 and 8,192 positions", ["1", "between 1.4 and 2", "3"])


def seconds(mixer, length):
    """Return the processor seconds of one pass forward and back over ``length`` positions."""
    x = torch.randn(1, length, 32, requires_grad=True)
    start = time.process_time()
    mixer(x).sum().backward()
    return time.process_time() - start


def cheapest(models, length, rounds):
    """Return the least time of each model, measured in turns, so that a busy moment meets them all."""
    spent = [{name: seconds(model, length) for name, model in models.items()} for _ in range(rounds)]
    return {name: min(row[name] for row in spent) for name in models}


# %% tags=["reveal", "nbval-ignore-output"]
# Answer first, then run this cell.
lengths = [128, 256, 512, 1024, 2048, 4096, 8192]
models = {name: build(spec) for name, spec in mixers(32, 8192).items()}
cheapest(models, 128, 2)
rows = [cheapest(models, length, 5 if length < 4096 else 2) for length in lengths]
costs = {name: [row[name] for row in rows] for name in models}
fig = Figure(figsize=(6, 4.2))
ax = plots.plot_cost(lengths, costs, fig.add_subplot())
ax.set_title("Only attention pays for every pair")
show(
    fig,
    alt="Time over length, both on log scales. CKConv, Hyena and Mamba rise side by side with a slope near 1, "
    "attention more steeply: last at the longest, though not at the shortest.",
)
slopes = {name: plots.slope(lengths, cost) for name, cost in costs.items()}
assert slopes["Attention"] > 1.35 and all(slopes[name] < 1.35 for name in ("CKConv", "Hyena", "Mamba"))
assert costs["Attention"][-1] > 1.5 * max(costs[name][-1] for name in ("CKConv", "Hyena", "Mamba"))
assert costs["Attention"][0] < costs["Mamba"][0]
layer = LazyConfig(finished.MambaLayer)(d_model=32, d_state=16, headdim=32)
counted = models | {"Mamba": finished.Mamba(layer)}  # the package's, which counts its operations
growth = {name: flop_count(model, 8192) / flop_count(model, 4096) for name, model in counted.items()}
assert 3.9 < growth["Attention"] < 4 and all(2 <= growth[name] < 2.1 for name in ("CKConv", "Hyena", "Mamba"))
guess.reveal("between 1.4 and 2")

# %% [markdown]
# **Law.** Attention's cost grows with the square of the length, once its products outweigh the rest; a scan's grows
# with the length, and a long convolution's hardly faster (T log T). Clocks waver, operations can be counted: from 4,096
# to 8,192 positions attention takes 3.97 times as many, Mamba 2, the convolutions not quite 2.1.
#
# Look at the left end too: at 128 positions attention is about as cheap as any, and cheaper than Mamba. Slopes tell what
# happens far out; what happens at your length, measure.
#
# ## A task that separates them
#
# *Selective copying.* Two symbols out of eight stand at random among twelve positions; the rest is noise. Then two
# positions ask: say the symbols, in their order.


# %%
def copying(count, length, generator):
    """Return tokens, (count, length + 2): 0 is noise, 1 asks, 2 to 9 are symbols; and the two symbols, in order."""
    places = torch.rand(count, length, generator=generator).argsort(1)[:, :2].sort(1).values
    symbols = torch.randint(2, 10, (count, 2), generator=generator)
    return pad(torch.zeros(count, length).long().scatter(1, places, symbols), (0, 2), value=1), symbols


def batches(seed, size):
    """Yield new sequences without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield tuple(z.to(device) for z in copying(size, 12, generator))


for row in torch.cat(copying(3, 12, torch.Generator().manual_seed(0)), 1):
    print("".join("·?abcdefgh"[token] for token in row[:-2]), "→", "".join("·?abcdefgh"[token] for token in row[-2:]))

# %% [markdown]
# The difficulty is where the symbols stand: never in the same places. Each mixer goes into the same small network, one
# residual block of lesson 07a, 16 channels, 200 steps of 32 sequences.


# %%
class Copier(nn.Module):
    """Tokens in, residual blocks, a norm, and what to say at each position."""

    def __init__(self, mixer_cfg, width, blocks):
        super().__init__()
        norm = LazyConfig(RMSNorm)(dim=width)
        mlp = LazyConfig(MLP)(dim=width, activation="gelu", dropout_cfg=nn.Identity)
        cfg = mixer_cfg, norm, nn.Identity, nn.Identity, mlp, norm, nn.Identity
        self.embed, self.norm, self.say = nn.Embedding(10, width), RMSNorm(width), nn.Linear(width, 10)
        self.blocks = nn.ModuleList([ResidualBlock(*cfg) for _ in range(blocks)])

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, None)
        return self.say(self.norm(x))[:, -2:]


def learn(name, seed, width=16, blocks=1, steps=200, size=32, rate=1e-2):
    """Train a network with the mixer of this name; return it."""
    torch.manual_seed(seed)
    net = Copier(mixers(width, 32)[name], width, blocks).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=rate, fused=True)
    train(lambda x, y: cross_entropy(net(x).flatten(0, 1), y.flatten()), batches(seed, size), adam, steps)
    return net


@torch.no_grad()
def score(net, length):
    """Return the share of symbols that come out right, in 500 sequences that were never seen."""
    tokens, symbols = (z.to(device) for z in copying(500, length, torch.Generator().manual_seed(99)))
    return (net(tokens).argmax(-1) == symbols).float().mean().item()


# %% [markdown]
# Two lines to hold the results against. Who guesses is right one time in eight, 12.5 %. Who knows *which* two symbols
# were there, but not their order, is right in 56 %: half of the time, and an eighth of the rest, when both are the same.
# **With one block, which mixers get past knowing which?**

# %% tags=["predict"]
guess = predict("Beyond 75 %, three seeds", ["all four", "Hyena and Mamba", "Attention and Mamba", "Mamba alone"])
nets = {name: [learn(name, seed) for seed in range(3)] for name in plots.MIXERS}
tests = {"12 positions, as in training": 12, "24 positions, never seen": 24}
scores = {words: {name: [score(net, n) for net in row] for name, row in nets.items()} for words, n in tests.items()}

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
fig = Figure(figsize=(6, 4))
levels = {"which,\nnot in which\norder": 9 / 16, "guessing": 1 / 8}
ax = plots.plot_scores(scores, levels, fig.add_subplot())
ax.set_title("Hyena and Mamba copy; long gaps favour Mamba")
show(
    fig,
    alt="Right answers of four mixers, three seeds each. At 12 positions Hyena and Mamba reach nine out of ten and "
    "more, Attention and CKConv about two thirds. At 24 positions Mamba keeps four in five, the others "
    "fall to two in three or less.",
)
trained, longer = scores.values()
for name in plots.MIXERS:
    print(f"{name}: {min(trained[name]):.2f} to {max(trained[name]):.2f}", end=", ")
    print(f"over 24 positions {min(longer[name]):.2f} to {max(longer[name]):.2f}")
holds(min(trained["Hyena"] + trained["Mamba"]) > 0.8, "Hyena and Mamba copy more than 80 %.")
holds(max(trained["Attention"] + trained["CKConv"]) < 0.75, "One block of Attention or CKConv stays below 75 %.")
others = longer["Attention"] + longer["CKConv"] + longer["Hyena"]
holds(min(longer["Mamba"]) > max(others), "Over longer gaps Mamba is ahead of every other, each seed.")
guess.reveal("Hyena and Mamba")
fairer = [score(learn("Attention", seed, width=32, blocks=2, steps=300, size=64, rate=5e-3), 12) for seed in range(3)]
print("two blocks of attention, twice as wide:", *(f"{share:.2f}" for share in fairer))
holds(min(fairer) > 0.9, "Two blocks of attention copy more than 90 %, each seed.")

# %% [markdown]
# What happened?
#
# - **CKConv** hears at fixed distances, whatever is said there. Where the symbols stand, it cannot follow, and so it
#   ends little above knowing which.
# - **Attention** finds the symbols at once, by what they are. To say which came first, someone has to count, and in
#   one block everybody looks at words that have not looked at anything yet. It ends no better.
# - **Hyena** multiplies what it hears by what is said, twice. At the trained length it is as good as Mamba.
# - **Mamba** alone stays well above knowing which when the gaps double, though one answer in five is wrong.
#
# Be fair to the losers. The last two lines of the cell train two blocks of attention, twice as wide, for 300 steps of
# 64 sequences: more than 90 % right, each seed. What the second block looks at has looked already.
#
# The ranking above is one of *small* networks on *one* task with a tight budget; it says what comes easily to each, not
# which is best.

# %% [markdown]
# ## Why does Mamba copy?
#
# "At noise it stops its clock" is the tempting answer: the steps listen. Test it. Take from the trained networks what
# the input says about the step, and put its mean there; then do the same with C, the address that is read.
# **Without steps that listen, how often is it right?**

# %% tags=["predict"]
guess = predict("Mamba's steps set to their mean, 12 positions", ["above 85 %", "about 56 %", "12.5 %"])


def deaf(net, piece):
    """Return the score with one piece of what the layer's projection gives, the last axis, set to its mean."""

    def set_to_mean(module, inputs, output):
        output[..., piece] = output[..., piece].mean((0, 1))

    with net.blocks[0].sequence_mixer.core_layer.in_proj.register_forward_hook(set_to_mean):
        return score(net, 12)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
layer = nets["Mamba"][0].blocks[0].sequence_mixer.core_layer
heads, state = layer.pieces[2], layer.d_state
steps, addresses = slice(-heads, None), slice(-heads - state, -heads)
still, lost = ([deaf(net, piece) for net in nets["Mamba"]] for piece in (steps, addresses))
print(f"steps that do not listen: {min(still):.0%} or more; addresses that do not: {max(lost):.0%} or less")
holds(min(still) > 0.85 and max(lost) < 0.7, "Mamba copies by its addresses, not by its steps.")
guess.reveal("above 85 %")

# %% [markdown]
# So the steps hardly matter here. With one address for all, Mamba is back near knowing which: the two positions that
# ask must read in two places to tell the first symbol from the second. A layer has many ways to be selective, and which
# one it learns is for a measurement to say.
#
# ## The stream of a deep Mamba
#
# Eight blocks, untrained, and the gradient of one step: does a recurrence inside the branch change what you know about
# pre-norm stacks?

# %%
for seed in range(3):
    torch.manual_seed(seed)
    deep, (tokens, symbols) = Copier(mixers(32, 32)["Mamba"], 32, 8).to(device), next(batches(seed, 32))
    with GradientFlowRecorder(deep, deep.blocks) as flow:
        cross_entropy(deep(tokens).flatten(0, 1), symbols.flatten()).backward()
    assert 1.5 < flow.activation[0, -1] / flow.activation[0, 0] < 3 < 50 * flow.added[0].min()
    assert 2 < flow.stream_gradient[0, 0] / flow.stream_gradient[0, -1] < 4
fig = Figure(figsize=(6, 3.3))
plot_stream(flow, fig.add_subplot(), norms="pre").set_title("Eight Mambas: the stream of any pre-norm stack")
show(fig, alt="Two rivers of eight blocks that swell steadily, the blue one to the right, the green one to the left.")

# %% [markdown]
# It does not. The stream about doubles, every block adds its share, and the gradient grows by a factor of 2 to 4 on its way
# back: the rivers of lesson 04. What a mixer does *between* positions, and what the blocks do *along* the stream, are
# two questions. The block does not care which mixer you put in.

# %% [markdown]
# ## True or false?
#
# - A recurrence must be computed step by step. <details><summary>Answer</summary>False where it is linear in its
#   state: chunks of 64 give the same numbers in a 64th of the steps.</details>
# - Mamba's memory grows with the length of the sequence. <details><summary>Answer</summary>False: it is one matrix of
#   fixed size for each head, so that what shares an address blurs.</details>
# - A state-space model is a long convolution. <details><summary>Answer</summary>With equal steps and the same addresses
#   B and C everywhere, yes. Where the input chooses any of them there is no fixed kernel.</details>
# - A lower cost in the limit means a lower cost. <details><summary>Answer</summary>False at a few hundred positions,
#   where attention was among the cheap.</details>

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | a leaky sum is a convolution with a fading kernel | 8, 8, 6, 3 both ways | equal steps |
# | what is left of s at t is exp(A · the steps between) | the loop and the matrix agree in float64 | steps that the input chooses: no fixed kernel |
# | a step of 0 stops the clock, a large one forgets | 7 held over three positions; below 0.05 left of it after a mark | A = −5, steps of 0 and 1 |
# | the scan is causal attention without softmax, faded | the same numbers in float64 | always |
# | chunks give the loop's numbers | values and gradients, to ten digits | any length, any chunk |
# | dividing by a decay overflows | NaN from steps of 2 on | float32, 64 positions, A to −3 |
# | half-lives at the start | 693 positions down to 0.9 | steps from 0.001 to 0.1, 8 heads |
# | causal, nobody hears the future; else all hear all | 78 of 144 pairs, and 144 | all four mixers; a change at 6 moves 6 to 11, or all |
# | cost: attention's grows with the square, the others' with the length | slopes above and below 1.35; operations × 3.97, × 2 to 2.1 for twice the length | 1,024 to 8,192 positions, 32 channels, one thread |
# | selective copying, one block | Hyena and Mamba above 80 %, Attention and CKConv below 75 % | 12 positions, 16 channels, 200 steps, three seeds |
# | over twice the length Mamba is ahead | of every other, each seed | the same networks at 24 positions |
# | two blocks of attention copy as well | above 90 %, three seeds | 32 channels, 300 steps of 64 |
# | Mamba copies by its addresses, not by its steps | above 85 % without steps that listen, below 70 % without addresses | these three networks |
# | a stack of Mamba blocks is a pre-norm stack | the stream grows 1.5 to 3 times, the gradient 2 to 4 times | eight blocks, untrained, three seeds |
#
# Sources: Mamba, Gu and Dao, 2023 (arXiv 2312.00752), whose selective copying this is in small; the form in chunks and
# the layer, Dao and Gu, 2024 (arXiv 2405.21060). This was the last of the four mixers. Next: the block of ViT-5, which
# takes any of them.

# %%
summary("08c")

# %% [markdown]
# ## Next
#
# - [Lesson 09](09_vit5_block.ipynb) puts these mixers into the block of a vision transformer.
# - [Homework for lessons 08c and 09](homework/hw_08c_09.ipynb), once you have done lesson 09.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
