# %% [markdown]
# # 08c · Selective scans: a state that chooses what to keep
#
# 75 minutes. You need Python and basic PyTorch; of [lesson 08b](08b_long_convolution.ipynb), the
# lesson before, what a causal convolution is, and of [08a](08a_attention.ipynb) queries and keys.
#
# Attention keeps a key and a value for every position, so it becomes expensive in long sequences. A
# **scan** carries a state of fixed size from one position to the next. You write one in four lines,
# let its input choose what the state keeps, which is the idea of Mamba, cut it into chunks, and mend
# a mixer with three wrong lines. Here is the mixer, with a shape at every arrow (T positions).
#
# ```
#              ┌─ v   (T, 4 heads, 4)  what is written ─┐
# x (T, 16) ─ linear ─ B   (T, 8)      where to         ├─▶ scan, state S (4, 4, 8) ─▶ linear ─▶ (T, 16)
#              ├─ C   (T, 8)           where to read    │
#              └─ dt  (T, 4)           how long it lasts┘
# ```

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary

setup()
progress("08c")

# %% [markdown]
# ## 1 · What goes wrong without it?
#
# Our task is **selective copying** ([Gu and Dao, 2023](https://arxiv.org/abs/2312.00752)). Among twelve
# positions stand two letters, at random places, in noise (·). Then two positions ask (?): the first
# wants the letter that came first, the second wants the other.

# %% task
SIGNS = "·?abcdefgh"


def copying(count, length, generator):
    places = torch.rand(count, length, generator=generator).argsort(1)[:, :2]
    letters = torch.randint(2, 10, (count, 2), generator=generator)
    tokens = torch.zeros(count, length).long()
    tokens = tokens.scatter(1, places.sort(1).values, letters)
    return torch.cat([tokens, torch.ones(count, 2).long()], dim=1), letters


for row, wanted in zip(*copying(2, 12, torch.Generator().manual_seed(1)), strict=True):
    print(
        "".join(SIGNS[token] for token in row), "->", SIGNS[wanted[0]], SIGNS[wanted[1]]
    )

# %% [markdown]
# A guess among eight letters is right in 1/8 of the cases. A network that knows *which* two letters there
# were, but not their order, is right in half of them, and in 1/8 of the rest, where both are the same:
# 1/2 · 7/8 + 1/8 = 0.56.
#
# The first mixer is a causal convolution: sixteen channels, each with a weight for every lag. The network
# around it is one residual block. (Folded: the network, and a training of 400 steps with 64 new rows each.)

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.plots import scan_state
from residual_course.plots.rows import plot_rows
from residual_course.plots.mixing_matrix import plot_mixing_matrix
from residual_edu.gradient_flow import mixing_matrix


class Network(nn.Module):
    def __init__(self, mixer, width=16):
        super().__init__()
        self.embed, self.mixer = nn.Embedding(10, width), mixer
        self.norm1, self.norm2, self.norm3 = (nn.RMSNorm(width) for _ in range(3))
        up, down = nn.Linear(width, 128), nn.Linear(128, width)
        self.mlp, self.out = nn.Sequential(up, nn.GELU(), down), nn.Linear(width, 10)

    def forward(self, tokens):  # (rows, positions)
        x = self.embed(tokens)  # (rows, positions, 16)
        x = x + self.mixer(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.out(self.norm3(x))


def learn(make, seed=0, updates=400, length=12):
    torch.manual_seed(seed)
    net, generator = Network(make()), torch.Generator().manual_seed(seed + 1)
    adam = torch.optim.Adam(net.parameters(), fused=True)
    for update in range(updates):
        adam.param_groups[0]["lr"] = 0.01 * min(1, 2 * (1 - update / updates))
        tokens, letters = copying(64, length, generator)
        logits = net(tokens)[:, -2:]
        loss = F.cross_entropy(logits.flatten(0, 1), letters.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return net


@torch.no_grad()
def score(net, length=12):
    tokens, letters = copying(2000, length, torch.Generator().manual_seed(99))
    found = torch.cat([net(some)[:, -2:].argmax(-1) for some in tokens.split(200)])
    return (found == letters).float().mean().item()


LEVELS = {"a guess": 1 / 8, "one of the two": 9 / 16}


def plot_scores(found, title):
    figure = Figure(figsize=(6, 1.4 + 0.5 * len(found)))
    ax = plot_rows(found, figure.add_subplot(), levels=LEVELS)
    ax.set(xlabel="right answers", xlim=(0, 1.02), title=title)
    return figure


# %%
class Convolution(nn.Module):
    def __init__(self, width=16, lags=14):
        super().__init__()
        self.enter, self.leave = nn.Linear(width, width), nn.Linear(width, width)
        self.conv = nn.Conv1d(width, width, lags, groups=width)

    def forward(self, x):  # (rows, positions, width)
        past = F.pad(self.enter(x).mT, (self.conv.kernel_size[0] - 1, 0))
        return self.leave(self.conv(past).mT)


# %% convolution tags=["slow", "trained"]
with predict(
    "How often is the convolution right after its training?",
    ["about 1/8", "between 1/2 and 9/10", "nearly always"],
):
    fixed = [learn(Convolution, seed) for seed in range(3)]
    found = {"convolution": [score(net) for net in fixed]}
    show(plot_scores(found, "A convolution, three seeds"))

# %% [markdown]
# It is better than 0.56, and not good. Does it only need more steps? We give it four times as many, and
# then rows of 24 positions as well.

# %% longer tags=["slow", "trained"]
longer = learn(Convolution, updates=1600)
print(f"12 positions: {score(longer):.2f}")
print(f"24 positions: {score(longer, 24):.2f}")

# %% [markdown]
# It has learned its rows. But it has one weight for each of 14 *distances*, and in a row of 24 many letters
# stand farther away than it can see. (Section 5 has a control that sees any distance.) We want weights that
# depend on *what* stands there.
#
# ## 2 · What exactly is it?
#
# ### Step 1 · A sum that fades
#
# Take a single number S, the **state**. At each position a part of it is kept, and the input is added.

# %% fading
S = 0.0
for x in [8.0, 4, 2, 0]:
    S = 0.5 * S + x
    print(f"x = {x:g}: S = {S:g}")

# %% [markdown]
# The 8 counts 8, 4, 2, 1 at the four positions. Unrolled, S is 1 · x + ½ · (the x before) + ¼ · (the one
# before that) and so on: a convolution whose kernel fades. Its weights too belong to distances. We let
# the *input* choose how much is kept.
#
# ### Step 2 · How long a position lasts
#
# A state that decays at the rate A < 0 keeps exp(dt · A) of itself during a time dt. So let each position
# have its own dt, and let what it writes count dt times. So dt is one dial, from *keep* to *replace*: a
# position with a short dt passes unnoticed, one with a long dt writes much and fades what was there. With A = −log 2, one unit of time halves the state.

# %% own-dt
A = -torch.tensor(2.0).log()
S = torch.tensor(0.0)
for x, dt in [(8.0, 1.0), (9.0, 0.0), (9.0, 0.0), (2.0, 1.0)]:
    S = torch.exp(dt * A) * S + dt * x
    print(f"x = {x:g}, dt = {dt:g}: S = {S:g}")

# %% [markdown]
# The two nines are noise: with dt = 0 they neither wrote nor faded anything.
#
# ### Step 3 · Where to write, where to read
#
# One number holds one thing. So let S be a vector of N numbers. Each position has a vector B that says
# where it writes, and a vector C that says where it reads:
#
# $$S_t = e^{A\,dt_t}\, S_{t-1} + dt_t\, x_t\, B_t \qquad\qquad y_t = C_t \cdot S_t$$
#
# By hand, nothing fading (A = 0) and all dt 1: write 3 with B = (1, 0), then 5 with (0, 1). The state is
# (3, 5). C = (0, 1) reads 5, and C = (1, 1) reads 8.
#
# ### Exercise 1 · The scan (6 minutes)
#
# Write it for one channel. x and dt are (T,), A is a number, B and C are (T, N). Return y, (T,); the state
# is 0 before the first position. A gradient has to pass, so make a new state at each position and change none
# in place.
#
# <details><summary>Hint 1</summary>One tensor of N numbers goes through a loop. What happens to it at a
# position, in which order?</details>
# <details><summary>Hint 2</summary>Two lines in the loop are the two equations; <code>torch.stack</code>
# joins a list of outputs.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "scan-by-hand", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scan_by_hand(x, dt, A, B, C):
    """Return the output at each position, (T,)."""
    ### BEGIN SOLUTION
    S, y = torch.zeros_like(B[0]), []
    for t in range(len(x)):
        S = torch.exp(dt[t] * A) * S + dt[t] * x[t] * B[t]
        y.append(C[t] @ S)
    return torch.stack(y)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "scan-by-hand-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(scan_by_hand, "scan_by_hand")

# %% [markdown]
# Here is a state of two numbers, drawn. The letter h writes 3 to the first, g writes 5 to the second, and
# everything else writes 0; dt is 1 at the letters and 0.1 elsewhere, A = −1.

# %% drawn jupyter={"source_hidden": true}
x = torch.tensor([0.0, 3, 0, 0, 5, 0, 0, 0])
dt = torch.tensor([0.1, 1, 0.1, 0.1, 1, 0.1, 0.1, 0.1])
B = torch.eye(2)[[0, 0, 0, 0, 1, 1, 1, 1]]
S = [scan_by_hand(x, dt, torch.tensor(-1.0), B, C.expand(8, 2)) for C in torch.eye(2)]
figure = Figure(figsize=(6, 3.2))
above, below = figure.subplots(2, 1, height_ratios=[3, 1])
written = (dt * x)[:, None] * B
scan_state.plot_state(torch.stack(S, 1), written, dt, list("·h··g·??"), above, below)
title = "A long dt writes, and fades the rest"
figure.suptitle(title, x=0.01, ha="left", weight="bold")
show(figure)

# %% [markdown]
# Noise leaves 0.90 of both numbers, and g, whose dt is long, leaves 0.37 of what h wrote. At the first
# question both are still there, the first one small.
#
# ### Step 4 · The same without a loop
#
# Unroll the loop. What position s wrote has been multiplied, when t reads it, by every factor after s:
#
# $$y_t = \sum_{s \le t} (C_t \cdot B_s)\; e^{A (dt_{s+1} + \dots + dt_t)}\; dt_s\, x_s$$
#
# This is causal attention without a softmax, faded: C is the query, B the key, and dt · x the value. So
# matrices can do it, for many rows and heads at once. (A head has its own A and dt; B and C are shared.)


# %%
def scan(x, dt, A, B, C):
    # x: rows, T, heads, channels; dt: rows, T, heads; A: heads; B, C: rows, T, N
    total = (dt * A).cumsum(1).mT  # rows, heads, T
    left = total[..., :, None] - total[..., None, :]  # row t, column s
    later = torch.ones(left.shape[-2:]).triu(1).bool()
    left = left.masked_fill(later, -torch.inf).exp()
    scores = (C @ B.mT)[:, None] * left
    return (scores @ (dt[..., None] * x).transpose(1, 2)).transpose(1, 2)


# %% [markdown]
# ### Step 5 · Selective
#
# Where do dt, B and C come from? In a state space of lesson 08b they are learned numbers, the same at each
# position. Here the input makes them, by a linear map, and for dt a softplus, which is above 0. That is
# what **selective** means.


# %%
class Scan(nn.Module):
    def __init__(self, width=16, heads=4, N=8):
        super().__init__()
        self.sizes = [N, N, heads]
        self.value = nn.Linear(width, width, bias=False)
        self.choose = nn.Linear(width, sum(self.sizes), bias=False)
        self.dt0 = nn.Parameter(torch.zeros(heads))  # softplus(0) is 0.69
        self.log_A = nn.Parameter(torch.arange(1.0, heads + 1).log())
        self.leave = nn.Linear(width, width, bias=False)

    def choices(self, x):
        B, C, dt = self.choose(x).split(self.sizes, dim=-1)
        return B, C, F.softplus(dt + self.dt0)

    def forward(self, x):  # (rows, positions, width)
        B, C, dt = self.choices(x)
        v = self.value(x).unflatten(-1, (len(self.dt0), -1))  # in heads
        y = scan(v, dt, -self.log_A.exp(), B, C)
        return self.leave(y.flatten(2))


# %% [markdown]
# [Mamba-2](https://arxiv.org/abs/2405.21060) has this core, and around it a short convolution, a gate and a
# norm. In the first [Mamba](https://arxiv.org/abs/2312.00752) each channel and each number of the state has a
# rate A of its own.
#
# ## 3 · Is mine right?
#
# Your loop, the matrices of step 4 and the package's two functions (folded, word for word; the second one
# is step 6) must agree, in values and gradients.

# %% jupyter={"source_hidden": true} tags=["promote:mixers/selective_scan"]
from jaxtyping import Float
from torch import Tensor, einsum

from residual_edu.errors import check_size
from residual_edu.mixers.selective_scan import (
    check_scan,
    in_chunks,
    initial_states,
    segsum,
    within_chunks,
)
from residual_edu.parts.norm import widened


def selective_scan(
    x: Float[Tensor, "batch time heads headdim"],
    dt: Float[Tensor, "batch time heads"],
    A: Float[Tensor, "heads"],
    B: Float[Tensor, "batch time state"],
    C: Float[Tensor, "batch time state"],
    D: Float[Tensor, "heads"] | None = None,
) -> Float[Tensor, "batch time heads headdim"]:
    """Return y of the recurrence, position by position; all heads share B and C."""
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
    """Return what ``selective_scan`` returns, by matrix products."""
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


# %% same-numbers
torch.manual_seed(0)
x, dt = torch.randn(1, 9, 1, 1).double(), torch.rand(1, 9, 1).double()
B, C = torch.randn(2, 1, 9, 4, dtype=torch.float64)
A = torch.tensor([-0.5], dtype=torch.float64)
dt.requires_grad_()
mine = scan_by_hand(x.flatten(), dt.flatten(), A[0], B[0], C[0])
(of_mine,) = torch.autograd.grad(mine.square().sum(), dt)
ways = {"matrices": scan, "package": selective_scan, "chunks": chunked_scan}
for name, way in ways.items():
    y = way(x, dt, A, B, C).flatten()
    (of_y,) = torch.autograd.grad(y.square().sum(), dt)
    print(f"{name:8} {(y - mine).abs().max():.0e}", end=", gradients ")
    print(f"{(of_y - of_mine).abs().max():.0e}")

# %% [markdown]
# ### Step 6 · Chunks
#
# Which way is best for long sequences? The loop takes T small steps, one after the other. The matrices have
# T · T entries. **Chunks** are in between: within a chunk of L positions take the small matrix, and
# between chunks carry one state. By hand, with the 8, 4, 2, 0 of step 1 and chunks of two: the first chunk
# writes ½ · 8 + 4 = 8, so the state before the second is 8. This works since two steps are one step of the
# same kind, "fade by a, then add b": a step (a, b) and then (a', b') is (a' a, a' b + b'). So one may put
# the brackets anywhere, and that lets it run in parallel. All running results of such a rule are called a
# *scan*.
#
# ### Exercise 2 · The states between chunks (10 minutes)
#
# Return the state before each chunk, (chunks, N), for x and dt, (T,), a number A, and B, (T, N). The chunks
# have `length` positions; the last one may have fewer. A gradient has to pass here too.
#
# <details><summary>Hint 1</summary>Compute two things of each chunk: the factor by which it fades a state
# that comes in, and what is left at its end of what it wrote.</details>
# <details><summary>Hint 2</summary>What position s wrote fades during the dt after s. A running sum of dt,
# and the whole sum, say how much time that is.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "states-before", "locked": false, "schema_version": 3, "solution": true, "task": false}
def states_before(x, dt, A, B, length):
    """Return the state before each chunk, (chunks, N)."""
    ### BEGIN SOLUTION
    S, before = torch.zeros_like(B[0]), []
    parts = zip(x.split(length), dt.split(length), B.split(length), strict=True)
    for x, dt, B in parts:
        before.append(S)
        left = torch.exp(A * (dt.sum() - dt.cumsum(0)))
        S = torch.exp(A * dt.sum()) * S + (left * dt * x) @ B
    return torch.stack(before)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "states-before-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(states_before, "states_before")

# %% [markdown]
# From the states to y: each position reads what its chunk found, faded, and what its own chunk wrote.


# %%
def by_chunks(x, dt, A, B, C, length):
    y = []
    for n, S in enumerate(states_before(x, dt, A, B, length)):
        part = slice(n * length, (n + 1) * length)
        total = (dt[part] * A).cumsum(0)
        left = (total[:, None] - total).tril().exp().tril()  # as in step 4
        own = (C[part] @ B[part].T * left) @ (dt[part] * x[part])
        y.append(total.exp() * (C[part] @ S) + own)
    return torch.cat(y)


# %% [markdown]
# We take 2,048 positions, and the time of one pass on this machine, against that of the chunks.

# %% timed tags=["nbval-ignore-output"]
import time


def least(way, rounds=5):
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        way()
        spent.append(time.process_time() - start)
    return min(spent)


T, A = 2048, torch.tensor(-0.1)
x, dt, B, C = torch.randn(T), torch.rand(T), torch.randn(T, 16), torch.randn(T, 16)
in_heads = x.view(1, T, 1, 1), dt.view(1, T, 1), A[None], B[None], C[None]
chunks = least(lambda: by_chunks(x, dt, A, B, C, length=64))
print(
    f"loop          {least(lambda: scan_by_hand(x, dt, A, B, C)) / chunks:4.1f} times"
)
print(f"T × T matrix  {least(lambda: scan(*in_heads)) / chunks:4.1f} times")

# %% [markdown]
# On paper, for T positions: attention and the T × T matrix take a number of operations that grows with T²,
# a long convolution by FFT with T log T, and chunks with T · L, so twice the length costs twice as much.
#
# ## 4 · What does it do to the gradient?
#
# The mixer's gradient says who is heard. By the formula of step 4, the derivative of y_t with respect to
# what position s wrote is (C_t · B_s) times the fading between them. In a convolution it belongs to the
# distance t − s. We train the selective mixer and draw how much each output (row) depends on each input (column), on
# one row of the task.

# %% who-is-heard tags=["slow", "trained"]
chosen = [learn(Scan, seed) for seed in range(3)]
tokens = torch.tensor([[SIGNS.index(sign) for sign in "··d···a·····??"]])
figure = Figure(figsize=(6, 3.4))
heard = {}
nets = {"convolution": fixed[0], "selective": chosen[0]}
for ax, (name, net) in zip(figure.subplots(1, 2), nets.items(), strict=True):
    heard[name] = mixing_matrix(net.mixer, net.norm1(net.embed(tokens)))
    plot_mixing_matrix(heard[name], ax, named=False)
    ax.set(title=name, xlabel="input", ylabel="output")
show(figure)

# %% [markdown]
# Left, every diagonal has nearly one shade: noise is heard as much as letters are. Right, two columns stand
# out, those of the letters (2 and 6), and the first one pales where the second is written. Noise is heard by
# hardly anyone but itself (the diagonal: each input also makes the C of its own position).
#
# Which dt has the mixer learned? Here are those of its four heads, for noise and for the letter a.

# %% learned-dt tags=["slow", "trained"]
net = chosen[0]
signs = torch.tensor([SIGNS.index("·"), SIGNS.index("a")])
_, _, dt = net.mixer.choices(net.norm1(net.embed(signs)))
print("noise", [round(each, 2) for each in dt[0].tolist()])
print("a    ", [round(each, 2) for each in dt[1].tolist()])

# %% [markdown]
# Nobody told it: noise has a dt near 0, so the state passes it by, and a letter is written.
#
# ## 5 · Does it help?
#
# The control is the same mixer with constant dt, B and C: its map gets ones in place of x. In a third mixer
# the input chooses dt alone. All were trained at twelve positions. We test at 12, and then at 24 and 48,
# where there is more noise between the letters and the questions.


# %%
class Constant(Scan):
    def choices(self, x):
        return super().choices(torch.ones_like(x))


class OnlyTime(Scan):
    def choices(self, x):
        B, C, _ = super().choices(torch.ones_like(x))
        return B, C, super().choices(x)[2]


# %% does-it-help tags=["slow", "trained"]
with predict(
    "Trained at 12 positions: how often is the selective scan right at 48?",
    ["about 1/8", "about 0.56", "above 0.8"],
):
    kinds = {
        "constant": [learn(Constant, seed) for seed in range(3)],
        "dt chosen": [learn(OnlyTime, seed) for seed in range(3)],
        "all chosen": chosen,
    }
    found = {
        name: {f"{n} positions": [score(net, n) for net in nets] for n in (12, 24, 48)}
        for name, nets in kinds.items()
    }
    show(plot_scores(found, "Trained at 12 positions, three seeds each"))

# %% [markdown]
# With constant dt, B and C the scan is a convolution, whose kernel is a sum of fading exponentials. At the
# length of its training it may learn to copy (it does with two of three seeds), but not at four times that
# length. Where the input chooses all three, it copies at both. And dt alone is most of it: with a
# short dt the state passes much more noise unharmed.
#
# There is a price. The state has 4 · 4 · 8 = 128 numbers, however long the sequence is, where attention keeps
# a key and a value of each position.
#
# ## 6 · Where do people go wrong?
#
# This selective mixer was handed to you. It raises no error, its loss falls, and three lines are wrong: two
# compute something else, and one sets where training starts.


# %%
class Handed(nn.Module):
    def __init__(self, width=16, heads=4, N=8):
        super().__init__()
        self.cut = [width, N, N, heads]
        self.enter = nn.Linear(width, sum(self.cut), bias=False)
        self.dt0 = nn.Parameter(torch.full((heads,), -5.0))
        self.log_A = nn.Parameter(torch.arange(1.0, heads + 1).log())
        self.leave = nn.Linear(width, width, bias=False)

    def forward(self, x):  # (rows, positions, 16)
        v, B, C, dt = self.enter(x).split(self.cut, dim=-1)
        dt = F.softplus(dt + self.dt0)
        dt = dt / dt.mean(1, keepdim=True)
        v = v.unflatten(-1, (len(self.dt0), -1)) * dt[..., None]
        total = -(F.softplus(self.dt0) * self.log_A.exp()).expand_as(dt).cumsum(1).mT
        later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        left = total[..., :, None] - total[..., None, :]
        left = left.masked_fill(later, -torch.inf).exp()
        y = ((C @ B.mT)[:, None] * left) @ v.transpose(1, 2)
        return self.leave(y.transpose(1, 2).flatten(2))


# %% handed tags=["slow", "trained"]
handed = learn(Handed)
for length in (12, 24, 48):
    print(f"{length} positions: {score(handed, length):.2f}")

# %% [markdown]
# ### Exercise 3 · Measure, then mend (12 minutes)
#
# Measure first, on a new `Handed()` and random x of shape (1, 20, 16): change the last position, and see
# whether an earlier output moves. Then return a mended mixer of at most 1,000
# parameters: no output depends on a later input or on another row, and after the training it is right in
# 0.95 at 12 and 0.85 at 48 positions. (The check trains it for a few seconds, from up to three seeds, of
# which one is enough.)
#
# <details><summary>Hint 1</summary>Write the equation of S beside the lines. Which line looks at all
# positions? Which line should contain this position's dt, and has none?</details>
# <details><summary>Hint 2</summary>`scan` of step 4 takes v, dt, A, B and C. And softplus(−5) is 0.007: how
# much does a position write at the start?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-scan", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_scan():
    """Return a mixer, (rows, positions, 16) to the same."""

    ### BEGIN SOLUTION
    class Mended(Handed):
        def __init__(self):
            super().__init__()
            nn.init.zeros_(self.dt0)  # dt of about 0.7

        def forward(self, x):
            v, B, C, dt = self.enter(x).split(self.cut, dim=-1)
            dt = F.softplus(dt + self.dt0)
            v = v.unflatten(-1, (len(self.dt0), -1))
            return self.leave(scan(v, dt, -self.log_A.exp(), B, C).flatten(2))

    return Mended()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-scan-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mended_scan, "mended_scan")

# %% [markdown]
# None of the three mends is enough alone. The mean over all positions looked into the future, which a loss
# on whole rows does not show. The fading
# used dt0 alone: the input chose how much to write, never how much to keep. And once the mean is gone, a dt
# of 0.007 writes next to nothing. For 400 steps on twelve positions that start is too slow; for rows of
# thousands a small one is usual.
#
# Two more mistakes of this kind. Euler's 1 + dt · A in place of exp(dt · A) falls below −1 where dt is long,
# and the state grows. And a state may be carried from one row of a batch to the next.
#
# ## 7 · What do I keep?
#
# $$S_t = e^{A\,dt_t}\, S_{t-1} + dt_t\, x_t\, B_t \qquad\qquad y_t = C_t \cdot S_t$$
#
# where $dt_t$, $B_t$ and $C_t$ are read off $x_t$.
#
# ```python
# S = torch.zeros(N)
# for t in range(T):
#     S = torch.exp(dt[t] * A) * S + dt[t] * x[t] * B[t]
#     y[t] = C[t] @ S
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>What decides how much a position counts, in a convolution and in a selective
# scan?</summary>In a convolution the distance alone. In a selective scan also what stands there, and what
# stood in between.</details>
#
# <details><summary>What does a dt near 0 do, and what does a long one?</summary>Near 0 the position neither
# writes nor fades: the state passes it by. A long one writes much and fades what was there.</details>
#
# <details><summary>dt, B and C are constant. Which layer is it?</summary>A convolution, whose kernel is
# (C · B) dt times powers of exp(dt · A).</details>
#
# **Next.** [Lesson 09](09_vit5_block.ipynb) builds a vision transformer. The
# [investigation](investigations/08c_which_mixers_copy.ipynb) adds attention and gates to the comparison
# of section 5, and asks what else differs between networks that copy and networks that do not.
# [Homework](homework/hw_08c.ipynb) is on lesson 08c; the
# [glossary](../docs/glossary.md) has all words.

# %%
summary("08c")
