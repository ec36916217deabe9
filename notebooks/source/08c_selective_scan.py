# %% [markdown]
# # 08c · Mamba, cost, and what separates the mixers
#
# 80 minutes. Nothing is downloaded. Of [lesson 08b](08b_long_convolution.ipynb) it uses `CKConv` and `Hyena`; of [lesson 08a](08a_attention.ipynb), queries, keys, values and rotary positions.
#
# By the end you can
#
# - **write** one step of a scan, from a differential equation;
# - **test** the reason for a difference between two networks, one change at a time;
# - **say** what a state of fixed size holds, and what each mixer costs;
# - **cut** a scan into chunks;
# - **mend** a selective scan by measurements.
#
# Why another mixer? Attention keeps a key and a value for every position, and compares each with every query. A **scan** carries a state of fixed size from position to position. Which of them can do what? We ask one small task.

# %% jupyter={"source_hidden": true}
import math

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu.exercises import check
from residual_edu.lesson import holds, predict, progress, setup, show, stored_runs
from residual_edu.lesson import summary
from residual_edu.parts.position import rotary_angles, rotate
from residual_edu.plotting import selective_scan as plots

setup()
progress("08c")

# %% [markdown]
# ## Copy two symbols
#
# Among twelve positions stand two symbols, at random places, in noise (·). Then two positions ask (?): the first wants the symbol that came first, the second the other. This is **selective copying**, in small, the task with which [Mamba](https://arxiv.org/abs/2312.00752) was introduced. Each token is a number: 0 noise, 1 a question, 2 to 9 the symbols a to h.


# %% jupyter={"source_hidden": true}
def copying(count, length, generator, two=False):
    places = torch.rand(count, length, generator=generator).argsort(1)[:, :2]
    symbols = torch.randint(2, 10, (count, 2), generator=generator)
    tokens = torch.zeros(count, length).long()
    tokens = tokens.scatter(1, places.sort(1).values, symbols)
    asks = torch.tensor([1, 10 if two else 1]).expand(count, 2)
    return torch.cat([tokens, asks], dim=1), symbols


SIGNS = "·?abcdefgh!"
tokens, symbols = copying(3, 12, torch.Generator().manual_seed(1))
for row, wanted in zip(tokens, symbols, strict=True):
    asked = " ".join(SIGNS[token] for token in row)
    print(asked, "  wanted:", " ".join(SIGNS[token] for token in wanted))
print("the first as numbers:", tokens[0].tolist())

# %% [markdown]
# On paper: a guess among eight symbols is right in 1/8 = .125. A network that knows *which* two symbols there were, but not their order, is right in half of the cases, and in 1/8 of the rest, where both symbols are equal: 1/2 + 1/2 · 1/8 = .5625. So is one that gives both questions the same one of the two.
#
# Four networks of 6,000 parameters, one residual block each, learn it in 400 steps of 64 new sequences. Their mixers: attention; `CKConv`, a convolution with a generated kernel; `Hyena`, with a gate before it and one after it; and `Mamba`, a scan, which you will write below. (Folded from here on: what draws figures; stored runs of three seeds, their code at the end.)


# %% jupyter={"source_hidden": true}
stored = stored_runs("08c_selective_scan")["runs"]
LEVELS = {"a guess": 1 / 8, "one of the two": 9 / 16}
LENGTHS = 12, 24, 48


def three(name, length=12):
    return [stored[seed][f"{name}: {length}"] for seed in range(3)]


def mean_of(name, length=12):
    return sum(three(name, length)) / 3


def tell(*names, lengths=(12,)):
    for name in names:
        rows = (
            "  ".join(f"{score:.2f}" for score in three(name, length))
            for length in lengths
        )
        print(f"{name:42}", "   |   ".join(rows))


def axes(height=2.6):
    return Figure(figsize=(6, height)).add_subplot()


# %% tags=["figure", "trained"] jupyter={"source_hidden": true}
from residual_edu.explorers.switches import AS_BUILT

found = {name: three(job) for name, job in AS_BUILT.items()}
ax = plots.plot_rows(found, axes(2.4), LEVELS)
ax.set_title("12 positions, 400 steps: two mixers copy")
alt = "Right answers of four mixers, three seeds: Attention and CKConv near two "
show(ax.figure, alt=alt + "thirds, Hyena and Mamba at or near 100 %.")
holds(max(found["Attention"] + found["CKConv"]) < 0.75, "Two of them do not copy.")
holds(min(found["Hyena"] + found["Mamba"]) > 0.85, "Two of them copy.")

# %% [markdown]
# "In one block, Mamba copies and attention does not": figures like this stand in papers, with each mixer as its authors build it. The block around it is the same, a norm before the mixer and an MLP after it.
#
# Attention has a little more than .5625. Is one of these changes enough to bring it above 95 %, in the same 400 steps?

# %% jupyter={"source_hidden": true}
CHANGES = {
    "four heads": "Attention, four heads",
    "width 32": "Attention, width 32",
    "a 3-tap convolution": "Attention, 3 taps, one ?",
}

# %% tags=["predict"]
guess = predict(
    "Attention: which change alone is enough?",
    ["four heads", "width 32", "a 3-tap convolution", "none of these"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
found = {"as it was": three("Attention, 1 tap, one ?")}
found |= {name: three(job) for name, job in CHANGES.items()}
ax = plots.plot_rows(found, axes(2.4), LEVELS)
ax.set_title("A convolution of 3 taps, and it copies")
show(ax.figure, alt="Attention, four heads, width 32: .63 to .75. With 3 taps: 1.")
holds(min(found["a 3-tap convolution"]) > 0.95, "Three taps are enough.")
done = [name for name in CHANGES if min(found[name]) > 0.95]
many = len(done) != 1
guess.reveal(
    "none of these" if many else done[0],
    why={
        "four heads": "More places to attend to, and still nothing that tells the "
        "first ? from the second, but its position.",
        "width 32": "Twice the width in the mixer, and a smaller MLP, since the "
        "parameters stay the same.",
        "a 3-tap convolution": "The first figure compared two things at once.",
        "none of these": "One of them is what Hyena and Mamba had all the while.",
    },
    after="**The first figure misleads.** Hyena and Mamba come with a short "
    "convolution on what enters them, attention and CKConv without. It did not show "
    "that a scan copies and attention does not.",
)

# %% [markdown]
# ## What else differs
#
# The forward pass, the same for all:
#
#     x = self.embed(tokens)              # (rows, positions, 16)
#     x = x + self.mixer(self.norm1(x))
#     x = x + self.mlp(self.norm2(x))
#     return self.out(self.norm3(x))
#
# (Folded: the class, its MLP as wide as it takes for 6,000 parameters, to 33; attention, two heads and rotary positions, as in 08a; CKConv and Hyena as in 08b; the training, Adam at 0.01, falling to 0 in the second half; the score on 500 sequences.)


# %% jupyter={"source_hidden": true}
class Net(nn.Module):
    def __init__(self, mixer, width=16):
        super().__init__()
        self.embed, self.mixer = nn.Embedding(11, width), mixer
        self.norm1, self.norm2, self.norm3 = (
            nn.RMSNorm(width, eps=1e-5) for _ in range(3)
        )
        self.out = nn.Linear(width, 11)
        left = 6000 - width - sum(p.numel() for p in self.parameters())
        hidden = left // (2 * width + 1)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)
        )

    def forward(self, tokens):  # (rows, positions)
        x = self.embed(tokens)  # (rows, positions, 16)
        x = x + self.mixer(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.out(self.norm3(x))


# %% jupyter={"source_hidden": true}
class Taps(nn.Module):
    def __init__(self, channels, taps):
        super().__init__()
        self.taps = taps
        self.conv = nn.Conv1d(channels, channels, taps, groups=channels)

    def forward(self, x):  # (rows, positions, channels)
        return self.conv(F.pad(x.mT, (self.taps - 1, 0))).mT


# %% jupyter={"source_hidden": true}
class Attention(nn.Module):
    def __init__(self, taps=1, width=16, heads=2):
        super().__init__()
        self.enter = nn.Linear(width, 3 * width, bias=False)
        self.taps, self.heads = Taps(3 * width, taps), heads
        self.leave = nn.Linear(width, width, bias=False)

    def forward(self, x):
        parts = self.taps(self.enter(x)).unflatten(-1, (3, self.heads, -1))
        y = self.attend(*parts.movedim(-3, 0).transpose(2, 3))  # q, k, v
        return self.leave(y.transpose(1, 2).flatten(2))

    def attend(self, q, k, v):  # (rows, heads, positions, channels of a head)
        angles = rotary_angles([q.shape[2]], q.shape[3])
        q, k = rotate(q, angles), rotate(k, angles)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


# %% jupyter={"source_hidden": true}
class LongConvolution(nn.Module):
    """Causal, its kernel generated from positions, and a shortcut."""

    def __init__(self, width, hidden=16, omega=10, reach=64):
        super().__init__()
        sizes, bound = [1, hidden, hidden, width], math.sqrt(6 / hidden)
        pairs = zip(sizes, sizes[1:], strict=False)
        self.maps = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        limits = 2 * math.pi * omega, bound, bound / reach**0.5
        for linear, limit in zip(self.maps, limits, strict=True):
            nn.init.uniform_(linear.weight, -limit, limit)
            nn.init.zeros_(linear.bias)
        self.skip, self.reach = nn.Parameter(torch.randn(width) / width**0.5), reach

    def forward(self, x):
        T = x.shape[1]
        h = torch.arange(T)[:, None] / self.reach
        for linear in self.maps[:-1]:
            h = linear(h).sin()
        taps, x = self.maps[-1](h).T, x.mT
        y = torch.fft.irfft(torch.fft.rfft(x, 2 * T) * torch.fft.rfft(taps, 2 * T))
        return (y[..., :T] + self.skip[:, None] * x).mT


# %% jupyter={"source_hidden": true}
class CKConv(nn.Module):
    def __init__(self, taps=1, width=16):
        super().__init__()
        self.enter = nn.Linear(width, width, bias=False)
        self.taps, self.conv = Taps(width, taps), LongConvolution(width)
        self.leave = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.leave(self.conv(self.taps(self.enter(x))))


class Hyena(nn.Module):
    def __init__(self, taps=1, width=16):
        super().__init__()
        self.enter = nn.Linear(width, 3 * width, bias=False)
        self.taps, self.conv = Taps(3 * width, taps), LongConvolution(width)
        self.leave = nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = self.taps(self.enter(x)).chunk(3, dim=-1)
        return self.leave(q * self.conv(k * v))


# %% jupyter={"source_hidden": true}
def learn(make, seed=0, two=False, steps=400, length=12, width=16, rate=1e-2):
    torch.manual_seed(seed)
    net = Net(make(), width)
    generator = torch.Generator().manual_seed(seed + 1)
    adam = torch.optim.Adam(net.parameters(), fused=True)
    for step in range(steps):
        adam.param_groups[0]["lr"] = rate * min(1, 2 * (1 - step / steps))
        tokens, symbols = copying(64, length, generator, two)
        logits = net(tokens)[:, -2:]
        loss = F.cross_entropy(logits.flatten(0, 1), symbols.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return net


@torch.no_grad()
def score(net, length=12, two=False):
    tokens, symbols = copying(500, length, torch.Generator().manual_seed(99), two)
    return (net(tokens)[:, -2:].argmax(-1) == symbols).float().mean().item()


# %% tags=["trained"] jupyter={"source_hidden": true}
live = score(learn(Attention))
print(f"attention, one tap, trained now: {live:.2f}")
holds(live < 0.75, "Trained now, it does not copy either.")

# %% [markdown]
# The `Taps` are a causal convolution of each channel of what enters a mixer: of q, k and v in attention. With one tap they only scale it. What could three do? Two explanations:
#
# - **neighbours**: each position, among the twelve too, receives what stands before it;
# - **two questions**: with one tap both ? have the same query, but for its rotation; with three the second also receives the first.
#
# A test of the second: no convolution, and the second question is written !, a token of its own.

# %% jupyter={"source_hidden": true}
WAYS = "1 tap, one ?", "3 taps, one ?", "1 tap, ? and !"

# %% tags=["predict"]
guess = predict(
    "Attention, 1 tap, the questions ? and !: it has",
    ["about .65", "about .80", "1.00"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
found = {
    f"{name}, {way}": three(f"{name}, {way}")
    for name in ("Attention", "Hyena", "CKConv")
    for way in WAYS
}
ax = plots.plot_rows(found, axes(3.6), LEVELS)
ax.set_title("Taps or a second token: either is enough")
alt = "Attention and Hyena: near .65 with one tap and one ?, at 1 with three taps and "
show(ax.figure, alt=alt + "at 1 with a second token. CKConv near .65 in all three.")
both = [three(f"{name}, {way}") for name in ("Attention", "Hyena") for way in WAYS]
holds(min(map(min, both[1:3] + both[4:])) > 0.9, "Either way is enough.")
holds(max(both[0] + both[3]) < 0.75, "Without both they do not copy.")
level = mean_of("Attention, 1 tap, ? and !")
guess.reveal(
    "about .65" if level < 0.72 else "about .80" if level < 0.95 else "1.00",
    why={
        "about .65": "So it would be if neighbours among the twelve were what counts.",
        "about .80": "A half-way result would need a second reason.",
        "1.00": "Two tokens are two embeddings, so two queries.",
    },
    after="No convolution, and 1.00: two different questions are enough for attention "
    "and Hyena in these 400 steps. Neighbours may be enough too: the next rows show "
    "it. CKConv stays near .65 in all three.",
)

# %% [markdown]
# Is the first explanation wrong, then? We hide neighbours. In the first two rows the second ? receives the first by one tap, and nobody else receives a neighbour. In the next two the twelve positions receive their neighbours, and both ? none. The last rows have no neighbours, and ten times the steps. All are trained on twelve positions.

# %% tags=["trained"] jupyter={"source_hidden": true}
HIDDEN = "tap from ? to ?", "taps on the twelve"
ONLY = [f"{name}, {way}" for way in HIDDEN for name in ("Attention", "Hyena")]
print(f"{'':42} 12 positions           |   48 positions")
LATE = "Attention, 4,000 steps", "CKConv, one ?, 4,000 steps"
tell(*ONLY, *LATE, lengths=(12, 48))
one_tap = [score for name in ONLY[:2] for score in three(name)]
holds(min(one_tap) > 0.95, "One tap from the second ? to the first is enough.")
late = [score for name in LATE for score in three(name)]
holds(min(late) > 0.95, "After 4,000 steps both copy 12.")

# %% [markdown]
# One tap, from the second ? to the first, is enough. So, nearly, are neighbours: with taps on the twelve alone, where the two ? stay alike, attention copies with two of three seeds, and Hyena comes to .85 and more. And with none of this attention copies twelve positions after 4,000 steps. So "attention cannot" was wrong, and "attention needs a convolution" would be too: **it had not learned it in 400 steps**. Nor had CKConv. At 48 positions, for which none was trained, no row is above .53.

# %% [markdown]
# ## A state that leaks
#
# Mamba begins with a differential equation. A state S falls at a rate of its own and is filled by the input x:
#
# $$\frac{dS}{dt} = A\,S + B\,x \qquad A \lt 0$$
#
# Without input S shrinks to $e^{A\,dt}$ of itself in the time dt: that solves the equation. Let x be constant during a step dt. Then there are two ways to take it:
#
# - **exact:** $S \leftarrow e^{A\,dt} S + \frac{e^{A\,dt} - 1}{A} B x$
# - **Euler**, with the slope at the start: $S \leftarrow S + dt\,(A S + B x) = (1 + A\,dt)\,S + dt\,B x$
#
# By hand, A = −1 and dt = 0.5: the exact step keeps .607 of S and writes .393 of B x; Euler keeps .5 and writes .5. For other steps:

# %% jupyter={"source_hidden": true}
A = -1.0
for dt in (0.1, 1.0, 3.0):
    keep, write = math.exp(A * dt), (math.exp(A * dt) - 1) / A
    print(f"dt {dt:3}: exact keeps {keep:.3f}, writes {write:.3f};", end="  ")
    print(f"Euler keeps {1 + A * dt:.1f}, writes {dt:.1f}")

# %% [markdown]
# The exact factor lies between 0 and 1 for *every* step. Euler's is below −1 as soon as dt |A| > 2: a state of 8 that receives nothing becomes −16, then 32, and so on.
#
# Mamba keeps with the exact factor and writes with Euler's. Its S is a vector of N numbers; B says where x is written to, and a vector C where the output is read from:
#
# $$S_t = e^{dt_t A}\, S_{t-1} + dt_t\, x_t B_t \qquad y_t = C_t \cdot S_t$$
#
# So S holds **everything that was written, each thing faded**, added up. By hand, nothing fading (A = 0) and steps of 1: write 3 with B = (1, 0), then 5 with (0, 1). The state is (3, 5). C = (0, 1) reads 5, C = (1, 1) reads 8.
#
# **dt, in words:** how long a position lasts for the state. A position with dt = 0 leaves it as it was; a long one wipes out the past and writes itself large.
#
# ### Exercise 1 · 8 minutes · ●●○○○
#
# Write this scan. x and dt are (T,), A is a number, B and C are (T, N). Return y, (T,); the state is 0 before the first position. By hand: 8, 4, 2, 0 with steps of 1, A = −log 2 (half is kept), N = 1, B and C all ones: 8, 8, 6, 3.
#
# <details><summary>Hint 1</summary>One tensor of N numbers goes through a loop. What happens to it at a position, in which order?</details>
# <details><summary>Hint 2</summary>Two lines in the loop are the two equations; <code>torch.stack</code> joins a list of outputs.</details>


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
# Now unroll the loop. What position s wrote has been multiplied, when t reads it, by every factor after s:
#
# $$y_t = \sum_{s \le t} (C_t \cdot B_s)\; e^{A (dt_{s+1} + \dots + dt_t)}\; dt_s\, x_s$$
#
# **Attention without a softmax, faded**: C is the query, B the key, and dt x the value. As matrices, several heads at once, each with its own A and dt:


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
# One sequence, drawn: h writes 3 at (1, 0), g writes 5 at (0, 1), all others 0; dt is 1 at the symbols and .1 elsewhere, A = −1. What to see: noise and questions keep .90 of both numbers; g, whose step is long, writes its own and keeps .37 of what h wrote.

# %% tags=["figure"] jupyter={"source_hidden": true}
from residual_edu.plotting import scan_state as inside

x = torch.tensor([0.0, 3, 0, 0, 5, 0, 0, 0])
dt = torch.tensor([0.1, 1, 0.1, 0.1, 1, 0.1, 0.1, 0.1])
B = torch.eye(2)[[0, 0, 0, 0, 1, 1, 1, 1]]
given = x.view(1, 8, 1, 1), dt.view(1, 8, 1), torch.tensor([-1.0]), B[None]
S = [scan(*given, C.expand(1, 8, 2)).flatten() for C in torch.eye(2)]
fig = Figure(figsize=(6, 3.2))
above, below = fig.subplots(2, 1, height_ratios=[3, 1])
written = (dt * x)[:, None] * B
inside.plot_state(torch.stack(S, 1), written, dt, list("·h··g·??"), above, below)
title = "A long step writes, and fades the rest"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Two numbers of a state at eight positions, the steps below. h writes 3 to the "
alt += "first, which then falls slowly, and at g, where 5 is written to the second, "
show(fig, alt=alt + "to a third; both fall slowly after that.")

# %% [markdown]
# ### With constant dt, B and C
#
# Then each factor is the same a = e^{A dt}, and the sum over s has the weight $k_m = (C \cdot B)\, dt\; a^m$ at lag m = t − s: **the scan is a convolution of 08b**, with a kernel that fades. [S4](https://arxiv.org/abs/2111.00396) is such a convolution too. (Folded: the check.)

# %% jupyter={"source_hidden": true}
x, B, C, dt, T = torch.randn(20), torch.randn(4), torch.randn(4), 0.3, 20
kernel = (C @ B) * dt * math.exp(A * dt) ** torch.arange(T)
convolved = [(kernel[: t + 1].flip(0) * x[: t + 1]).sum() for t in range(T)]
steps = torch.full((1, T, 1), dt)
B, C = B.expand(1, T, 4), C.expand(1, T, 4)
y = scan(x.view(1, T, 1, 1), steps, torch.tensor([A]), B, C)
same = torch.allclose(y.flatten(), torch.stack(convolved), atol=1e-5)
print("the scan is the convolution with c a^m b:", same)

# %% [markdown]
# ## Selective
#
# In Mamba the input chooses dt, B and C at each position: a linear map, followed for B and C by the taps and a SiLU, for dt by a softplus. That is what *selective* means. There is no kernel any more: what is left of s at t depends on what came in between.
#
# Below is the mixer, in the form of [Mamba-2](https://arxiv.org/abs/2405.21060): one A for each head, the same B and C for all heads. `dt0` sets the steps at the start: softplus(dt0) is drawn between `first[0]` and `first[1]`, evenly on a logarithmic scale; Mamba's range is .001 to .1. D adds a position's own input; a gate and a norm follow.


# %%
class Mamba(nn.Module):
    def __init__(self, taps=1, first=(0.001, 0.1), heads=4, width=16, N=16):
        super().__init__()
        self.cut, self.parts = [2 * width, 2 * width + 2 * N, heads], [2 * width, N, N]
        self.enter = nn.Linear(width, sum(self.cut), bias=False)
        self.taps, self.norm = Taps(self.cut[1], taps), nn.RMSNorm(2 * width, eps=1e-5)
        dt = torch.empty(heads).uniform_(*map(math.log, first)).exp()
        self.dt0 = nn.Parameter(dt.expm1().log())  # softplus of it is dt
        self.log_A = nn.Parameter(torch.arange(1.0, heads + 1).log())
        self.D = nn.Parameter(torch.ones(heads, 1))
        self.leave = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        gate, u, dt = self.enter(x).split(self.cut, dim=-1)
        u, B, C = F.silu(self.taps(u)).split(self.parts, dim=-1)
        u = u.unflatten(-1, (dt.shape[-1], -1))  # in heads
        y = scan(u, F.softplus(dt + self.dt0), -self.log_A.exp(), B, C) + self.D * u
        return self.leave(self.norm(y.flatten(2) * F.silu(gate)))


# %% tags=["figure"] jupyter={"source_hidden": true}
def through(mixer, x):
    """Return what goes along the arrows of the mixer, by name."""
    gate, u, raw = mixer.enter(x).split(mixer.cut, dim=-1)
    values, B, C = F.silu(mixer.taps(u)).split(mixer.parts, dim=-1)
    dt = F.softplus(raw + mixer.dt0)
    values = values.unflatten(-1, (dt.shape[-1], -1))
    y = scan(values, dt, -mixer.log_A.exp(), B, C)
    found = {"input": x, "gate": gate, "u": u, "raw dt": raw, "x": values}
    return found | {"B": B, "C": C, "dt": dt, "y": y, "output": mixer(x)}


shapes = through(Mamba(), torch.randn(1, 14, 16)).items()
ax = inside.plot_mamba({name: part.shape[1:] for name, part in shapes}, axes(4.6))
ax.set_title("Mamba: its input makes dt, B and C")
alt = (
    "Boxes: a linear map makes a gate, u and raw dt; u becomes x, B and C, raw dt the "
)
alt += "steps; x, B, C and dt enter the scan; its output is multiplied by the gate, "
show(ax.figure, alt=alt + "normed and mapped to 16 channels. Each arrow has its shape.")

# %% [markdown]
# What to see: what steers the scan, in orange, comes from the same input as x. The four heads share B and C, and each has its own dt.
#
# ## Take the convolution away
#
# In the first figure Mamba had 3 taps. Without them, and with one ?:

# %% jupyter={"source_hidden": true}
SMALL, LARGE = "Mamba, small steps, 1 tap, one ?", "Mamba, large steps, 1 tap, one ?"

# %% tags=["trained"] jupyter={"source_hidden": true}
tell("Mamba, small steps, 3 taps, one ?", SMALL)
holds(min(three(SMALL)) < 0.7, "Without taps not every seed copies.")

# %% [markdown]
# Without taps one seed of three copies, and two have .58, as if both ? got the same answer. What else was chosen? The steps at the start. Now they start between .2 and 1, in the place of .001 to .1: the state fades faster, and more is written to it. Nothing else changes.

# %% jupyter={"source_hidden": true}
ROWS = {
    "first steps .001 to .01": "Mamba, tiny steps",
    "first steps .001 to .1": SMALL,
    "the same, 2,000 steps": "Mamba, 2,000 steps",
    "first steps .2 to 1": LARGE,
    "all first steps .45": "Mamba, equal steps",
    ".2 to 1, no fading": "Mamba, no decay",
}
copier = learn(lambda: Mamba(first=(0.2, 1.0)))
one = torch.tensor([[0, 0, 0, 0, 0, 5, 0, 0, 2, 0, 0, 0, 1, 1]])
signs = [SIGNS[token] for token in one[0]]


def nearest(level):
    return "above .95" if level > 0.95 else "about .60" if level > 0.3 else "about .125"


# %% tags=["predict"]
guess = predict(
    "Mamba, 1 tap, one ?, first steps of .2 to 1: its worst seed has",
    ["about .125", "about .60", "above .95"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
found = {name: three(job) for name, job in ROWS.items()}
ax = plots.plot_rows(found, axes(3.2), LEVELS)
ax.set_title("No taps: the size of the first steps counts")
alt = "Without taps: first steps of .001 to .01 near .57; of .001 to .1 one seed of 3 "
show(ax.figure, alt=alt + "at 1; of .2 to 1, or all .45, all; without fading near .6.")
low = found["first steps .001 to .01"] + found[".2 to 1, no fading"]
holds(max(low) < 0.75, "Tiny first steps, and no fading, do not copy.")
guess.reveal(
    nearest(min(found["first steps .2 to 1"])),
    why={
        "about .125": "It would have to lose the symbols altogether.",
        "about .60": "After attention and Hyena this was to be expected.",
        "above .95": "Both ? have the same C, and between the two readings the state "
        "has changed: it faded once more, and the first ? wrote to it.",
    },
    after="So attention's story is half right for Mamba. In 400 steps no seed copies "
    "with first steps of .001 to .01, one with .001 to .1, all with .2 to 1 or all "
    ".45. Without fading and with 1 tap none can: the state is then a sum of what was "
    "written, and does not show which came first.",
)

# %% [markdown]
# Large first steps are not better in general: these sequences have 14 positions, and texts thousands. (The appendix separates what the questions write from what they fade.)
#
# ## Four times the length
#
# Everything here was trained on twelve positions. Which part of being selective carries to 48? We take the Mamba with large first steps and 1 tap, and make dt, B or C constant, one at a time: learned numbers in the place of a map of the input.

# %% jupyter={"source_hidden": true}
PARTS = {"dt, B and C selective": LARGE, "dt constant": "Mamba, constant dt"}
PARTS |= {"B constant": "Mamba, constant B", "C constant": "Mamba, constant C"}
PARTS["all constant"] = "Mamba, all constant"
NAMED = {"dt": "the step dt", "B": "the address B", "C": "the address C"}

# %% tags=["predict"]
guess = predict(
    "At 48 positions it costs most to make constant",
    ["the step dt", "the address B", "the address C", "each about the same"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
found = {name: [three(job, T) for T in LENGTHS] for name, job in PARTS.items()}
conditions = [f"{T} positions" for T in LENGTHS]
ax = plots.plot_rows(found, axes(3.6), LEVELS, conditions)
ax.set_title("A constant step costs most at 48 positions")
alt = "At 48 all selective has .85 and more, dt constant .64 and less, B or C constant "
show(ax.figure, alt=alt + ".68 and more, and all constant below .3.")
selective, constant = (three(name, 48) for name in (LARGE, "Mamba, constant dt"))
holds(min(selective) > 0.8 > 0.7 > max(constant), "At 48 a constant step costs most.")
lost = {p: mean_of(LARGE, 48) - mean_of(f"Mamba, constant {p}", 48) for p in NAMED}
print("lost at 48, means:", *(f"{part} {less:.2f}" for part, less in lost.items()))
most, second = sorted(lost, key=lost.get, reverse=True)[:2]
guess.reveal(
    NAMED[most] if lost[most] > lost[second] + 0.1 else "each about the same",
    why={
        "the step dt": "It fades and writes at 46 noise tokens in the place of 10.",
        "the address B": "It says where a token is written to; with a short step "
        "little is written, wherever that is.",
        "the address C": "Both questions are one token, and read alike with any C.",
        "each about the same": "Each is one third of what is selective, and dt does "
        "two things: it fades, and it writes.",
    },
    after="At 48 every seed is below .7 with a constant step, above .8 with all three "
    "selective. So a dt that depends on the input helps here. Alone it is not enough: "
    "with B constant one seed has .68.",
)

# %% tags=["trained"] jupyter={"source_hidden": true}
print(f"{'':42} 12 positions          |   24                 |   48")
FAR = "Mamba, constant dt, 4,000 steps", "Attention, 3 taps, one ?"
tell("Mamba, all constant", *FAR, lengths=LENGTHS)
holds(max(three(FAR[0], 48) + three(FAR[1], 48)) < 0.7, "Neither carries to 48.")

# %% [markdown]
# All constant is the convolution c a^m b, with a gate after it: below .3 at 48. A constant dt with ten times the steps copies 12, and is no better at 48. Attention has .58 and less there. (Appendix: attention with other positions, .71 and less; every mixer with every switch.)
#
# What does the trained network do with its own dt? Here is what a position leaves of the state, exp(dt A), for each head:

# %% tags=["trained"] jupyter={"source_hidden": true}
print("trained now:", *(f"{T}: {score(copier, T):.2f}" for T in LENGTHS))
tokens, _ = copying(500, 48, torch.Generator().manual_seed(5))
with torch.no_grad():
    given = copier.mixer.enter(copier.norm1(copier.embed(tokens)))[..., -4:]
    keep = torch.exp(-F.softplus(given + copier.mixer.dt0) * copier.mixer.log_A.exp())
kept = {"noise": keep[tokens == 0].mean(0)}
kept |= {"a symbol": keep[tokens > 1].mean(0), "a question": keep[tokens == 1].mean(0)}
for name, heads in kept.items():
    print(f"{name:12} leaves", *(f"{one:.3f}" for one in heads))
short, long = kept["noise"].min(), kept["a symbol"].max()
holds(short > 0.9 > 0.75 > long, "Noise leaves nearly all, a symbol much less.")

# %% [markdown]
# A noise token leaves .96 to .98 of the state in each head, a symbol .57 or less: for this state noise is short, and a symbol long. With a constant dt one number has to do for both. The first head as a matrix, for one sequence: what is left with its mean step everywhere, and with its own steps; then the weight of the unrolled sum, $|C_t \cdot B_s|$ times what is left times $dt_s$:


# %% tags=["figure", "trained"] jupyter={"source_hidden": true}
def left_of(dt, A):  # (T,), a number
    total = (dt * A).cumsum(0)
    return (total[:, None] - total).tril().exp().tril()


with torch.no_grad():
    parts = through(copier.mixer, copier.norm1(copier.embed(one)))
    A, dt = -copier.mixer.log_A[0].exp(), parts["dt"][0, :, 0]
    equal, own = left_of(dt.mean().expand(14), A), left_of(dt, A)
    weight = (parts["C"] @ parts["B"].mT)[0].abs() * own * dt
fig = Figure(figsize=(6, 2.75))
matrices = {
    "left, equal steps": equal,
    "left, own steps": own,
    "weight, own steps": weight,
}
inside.plot_left(matrices, signs, fig.subplots(1, 3))
title = "Symbols fade the state, noise hardly does"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = (
    "Three triangles. Equal steps: the shade depends on the distance alone. Own steps: "
)
alt += "it changes at the rows of d and a. Weight: the columns of d and a are dark, in "
show(fig, alt=alt + "both rows of the questions too, and those of noise are pale.")
noise, two = weight[-2:, :5].max(), weight[-2:, [5, 8]].min()
holds(two > 4 * noise, "Both questions take both symbols, and little noise.")

# %% [markdown]
# What to see: with equal steps each diagonal has one shade, as in a convolution. With its own steps the shade changes at the rows of d and a. In the framed rows, the two ?, the weight is on d and a. (Blue-grey: the future.)
#
# ## What the questions depend on
#
# A trained mixer can be asked on which inputs its output at one ? depends: the size of the derivative of that output with respect to each input (folded).


# %% jupyter={"source_hidden": true}
def dependence(net, tokens, at):  # (rows, positions)
    x = net.norm1(net.embed(tokens)).detach().requires_grad_()
    y = net.mixer(x)[:, at].sum(0)  # (16,)
    rows = [torch.autograd.grad(one, x, retain_graph=True)[0] for one in y]
    return torch.stack(rows).square().sum((0, -1)).sqrt()


# %% [markdown]
# Three trained networks, the same sequence; wanted are d and a. Each row is divided by its largest.

# %% jupyter={"source_hidden": true}
nets = {"Attention, 1 tap": learn(Attention)}
nets["Attention, 3 taps"] = learn(lambda: Attention(taps=3))
nets["Mamba, large first steps, 1 tap"] = copier
rows = {}
for name, net in nets.items():
    rows[name] = torch.cat([dependence(net, one, at) for at in (-2, -1)])
first, second, ask = (rows["Attention, 3 taps"][1, at].item() for at in (5, 8, 12))
size = {"the first symbol": first, "the second symbol": second, "the first ?": ask}
most = max(size, key=size.get)
alike = min(first, second) > 0.6 * max(first, second)

# %% tags=["predict"]
guess = predict(
    "Attention, 3 taps: the second ? depends most on",
    ["both symbols", "the first symbol", "the second symbol", "the first ?"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
fig = Figure(figsize=(6, 4))
panels = plots.plot_dependence(rows, signs, fig.subplots(3, 1))
title = "What each question's output depends on"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Attention, 1 tap: both rows dark at d and a; 3 taps: the first darkest at d, "
show(fig, alt=alt + "the second at a. Mamba: both symbols, and the first ? at itself.")
holds(most == "the second symbol" and not alike, "The second ? has found the a.")
guess.reveal(
    "both symbols" if alike else most,
    why={
        "both symbols": "So it is with one tap, where both questions have one query.",
        "the first symbol": "It answers the other question.",
        "the second symbol": "It receives the first ? by its taps, and then needs one "
        "symbol alone.",
        "the first ?": "That is what tells it apart, and holds no symbol.",
    },
    after="With 1 tap both rows are nearly alike. With 3, in this network, the first "
    "is darkest at the d, the second at the a. In Mamba both show both symbols, and "
    "the first ? most of all itself: **sizes do not say how it tells the two apart**.",
)

# %% tags=["trained"] jupyter={"source_hidden": true}
for name, net in nets.items():
    print(f"{name}: answers", *(SIGNS[t] for t in net(one)[0, -2:].argmax(-1)))
right = nets["Attention, 3 taps"](one)[0, -2:].argmax(-1).tolist()
holds(right == [5, 2], "With 3 taps both answers are right.")

# %% [markdown]
# ## A state of fixed size
#
# Attention keeps every key and value, a scan one state: for 8 channels a table of 8 × N numbers. How many things can it hold? Take away all training: P **pairs** of a random address a, N numbers with length 1, and a value v, one of eight (a one-hot). The state adds $v_i a_i^\top$ over all pairs, without fading, and is read with the address of one of them:
#
# $$S a_j = \sum_i v_i\,(a_i \cdot a_j) = v_j + \sum_{i \ne j} v_i\,(a_i \cdot a_j)$$
#
# On paper: the wanted value has the weight 1. Each of the P − 1 others comes with $a_i \cdot a_j$, which for random addresses has the mean 0 and the variance 1/N. So the disturbance has a variance of (P − 1)/N in all: pairs and N doubled together should change little. Attention reads with a softmax of 20 $a_i \cdot a_j$; the 20 is chosen, a trained network can learn it.


# %% jupyter={"source_hidden": true}
def recalled(P, N, values=8, sharp=20, rows=200, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = F.normalize(torch.randn(rows, P, N, generator=generator), dim=-1)
    value = torch.randint(values, (rows, P), generator=generator)
    v = F.one_hot(value, values).float()
    S = v.mT @ a  # (rows, 8, N), whatever P is
    by_state = (a @ S.mT).argmax(-1)
    by_attention = ((sharp * a @ a.mT).softmax(-1) @ v).argmax(-1)
    return [(one == value).float().mean().item() for one in (by_state, by_attention)]


# %% tags=["figure"] jupyter={"source_hidden": true}
found = {}
for N in (4, 16, 64):
    pairs = [P for P in (2, 4, 8, 16, 32, 64, 128) if 1 / 4 <= P / N <= 16]
    found[f"N = {N}"] = [P / N for P in pairs], [recalled(P, N)[0] for P in pairs]
pairs = [2, 4, 8, 16, 32, 64]
found["attention, N = 4"] = [P / 4 for P in pairs], [recalled(P, 4)[1] for P in pairs]
ax = plots.plot_held(found, axes(3.2))
ax.set_title("Eight values: with P / N fewer are recalled")
alt = (
    "Right answers over P/N: three curves for N of 4, 16 and 64 lie close together and "
)
show(ax.figure, alt=alt + "fall from 1 to .3; attention stays at 1.")
once, twice = recalled(16, 16)[0], recalled(32, 32)[0]
print(f"16 pairs, N = 16: {once:.2f}; 32 pairs, N = 32: {twice:.2f}")
print(f"attention, 16 pairs, N = 4, times 1: {recalled(16, 4, sharp=1)[1]:.2f}")
holds(abs(twice - once) < 0.03, "Pairs and N doubled change little.")

# %% [markdown]
# So it is. Now 16 pairs and N = 16, and one of 64 values in the place of 8:

# %% tags=["predict"]
guess = predict("64 values in the place of 8: right answers", ["rise", "fall", "stay"])

# %% tags=["reveal"]
# Answer first, then run this cell.
right = {values: recalled(16, 16, values)[0] for values in (2, 8, 64)}
print("P = N = 16:", *(f"{values} values {one:.2f}" for values, one in right.items()))
more = right[64] - right[8]
guess.reveal(
    "stay" if abs(more) < 0.03 else "rise" if more > 0 else "fall",
    why={
        "rise": "The disturbances are spread over more values, so fewer add up in one.",
        "fall": "A guess is right less often; but the largest is taken, and no wrong "
        "value gets as much.",
        "stay": "The variance of all disturbances together stays. It is spread over "
        "more values.",
    },
    after="(P − 1)/N is how much disturbs in all; with more values less of it falls "
    "to a wrong one. So P/N decides for a given number of values.",
)

# %% [markdown]
# The price: attention keeps P (N + 8) numbers, the state 8 N: at N = 16 attention keeps more from 6 pairs on, and for 65,536 pairs 1,572,864 in the place of 128.
#
# Nothing was trained so far. A check: trained networks of 6,000 parameters, eight pairs of one of 16 keys and a value, then the eight keys in another order; 600 steps, Mamba with large first steps. Beside each: random addresses, for the same P and N.

# %% tags=["figure", "trained"] jupyter={"source_hidden": true}
found = {}
for N in (1, 2, 4, 16):
    law = [recalled(8, N, seed=seed)[0] for seed in range(3)]
    found[f"N = {N}"] = [law, three(f"recall, N = {N}")]
law = [recalled(8, 4, seed=seed)[1] for seed in range(3)]
found["attention"] = [law, three("recall, attention")]
ways = ["random addresses", "trained"]
ax = plots.plot_rows(found, axes(3.2), {"a guess": 1 / 8}, ways)
ax.set_title("Eight pairs: N of 16 holds them, N of 1 not")
alt = (
    "Right answers for a state of N = 1, 2, 4, 16 and attention, with random addresses "
)
show(ax.figure, alt=alt + "and trained. Both rise with N; N = 16 and attention at 1.")
small = three("recall, N = 1") + three("recall, N = 2")
holds(max(small) < 0.75, "One or two numbers do not hold eight pairs.")
holds(min(three("recall, N = 16") + three("recall, attention")) > 0.95, "Both recall.")

# %% [markdown]
# In these 600 steps attention recalls all, and Mamba with N = 16; with N of 1 or 2 at most .57, with 4 between .25 and .98. (A trained network may choose its addresses, and may not find them in 600 steps.) **This separates them**: attention keeps every pair, a scan what its state has room for. Copying two symbols at the trained length does not: attention and CKConv had learned that too, after 4,000 steps.

# %% [markdown]
# ## All positions at once
#
# A loop of T steps is slow where a product of matrices is fast, and `scan` above has T² entries. Two other ways give the same numbers: the associative scan (in the appendix), and chunks.
#
# **Chunks.** Cut the sequence. Within a chunk use the matrix of all pairs, which is small; between chunks carry one state. By hand with chunks of two: chunk 1 writes ½ · 8 + 4 = 8, chunk 2 writes ½ · 2 + 0 = 1, and each keeps ¼ of what comes in. So the states *before* the chunks are 0 and 8. The first position of chunk 2 is then its own 2 and half of the 8 that came in: 6. With chunks of 64, 4,096 positions take 64 steps of the loop, and 64 matrices of 64 × 64.
#
# ### Exercise 2 · 9 minutes · ●●●○○
#
# Return the state before each chunk, (chunks, N), for x and dt, (T,), a number A, and B, (T, N). The chunks have `length` positions; the last one may have fewer. A loop over chunks is enough.
#
# <details><summary>Hint 1</summary>Two things of each chunk are needed: what it leaves of a state that comes in, and what it writes, as far as that is left at its end.</details>
# <details><summary>Hint 2</summary>What position s wrote is faded by the steps after s. A running sum of the steps, and their sum, say how much time that is.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "states-before", "locked": false, "schema_version": 3, "solution": true, "task": false}
def states_before(x, dt, A, B, length):
    """Return the state before each chunk, (chunks, N)."""
    ### BEGIN SOLUTION
    S, before = torch.zeros_like(B[0]), []
    parts = zip(x.split(length), dt.split(length), B.split(length), strict=True)
    for number, step, address in parts:
        before.append(S)
        left = torch.exp(A * (step.sum() - step.cumsum(0)))
        S = torch.exp(A * step.sum()) * S + (left * step * number) @ address
    return torch.stack(before)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "states-before-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(states_before, "states_before")

# %% [markdown]
# ## What it costs
#
# Count on paper what grows with T, for one head of d channels. Attention: two products of T × T scores with d channels, 4 T² d operations. Scan in chunks of L: the same with T · L pairs in the place of T², and T N d for the states: proportional to T. Long convolution: T log T. Twice the length then costs 4, 2, and a little over 2 times as much. The library's layers, with their projections, 32 channels (folded):

# %% jupyter={"source_hidden": true}
from residual_edu import mixers as library
from residual_edu.config import LazyConfig, build
from residual_edu.parts.causal_conv import CausalConv1D
from residual_edu.parts.flop_count import flop_count


def convolutions(width, length):
    """Return how to build the library's long convolution, and a short one."""
    kernel = LazyConfig(library.SIRENKernel)(
        out_dim=width, data_dim=1, L_cache=length, mlp_hidden_dim=16, num_layers=3,
        embedding_dim=16, omega_0=10.0, use_bias=True,
    )  # fmt: skip
    ckconv = LazyConfig(library.CKConv)(
        hidden_dim=width, kernel_cfg=kernel, mask_cfg=nn.Identity, data_dim=1,
        grid_type="double", fft_padding="zero", is_causal=True,
    )  # fmt: skip
    short = LazyConfig(CausalConv1D)(
        in_channels=3 * width, out_channels=3 * width, kernel_size=3, groups=3 * width
    )
    return ckconv, short


# %% jupyter={"source_hidden": true}
def layers(width, length):
    """Return the library's four mixers, causal, for signals of up to ``length``."""
    ckconv, short = convolutions(width, length)
    hyena = LazyConfig(library.Hyena)(
        global_conv_cfg=ckconv, short_conv_cfg=short, gate_nonlinear_cfg=nn.Identity,
        pixelhyena_norm_cfg=nn.Identity, qk_norm_cfg=None,
    )  # fmt: skip
    attention = LazyConfig(library.Attention)(
        hidden_dim=width,
        num_heads=2,
        apply_qk_norm=False,
        use_rope=True,
        is_causal=True,
    )
    inner = {"Attention": attention, "CKConv": ckconv, "Hyena": hyena}
    found = {
        name: build(
            LazyConfig(library.QKVSequenceMixer)(hidden_dim=width, mixer_cfg=cfg)
        )
        for name, cfg in inner.items()
    }
    layer = LazyConfig(library.MambaLayer)(d_model=width, d_state=16, headdim=width)
    return found | {"Mamba": library.Mamba(layer)}


models = layers(32, 8192)


# %% jupyter={"source_hidden": true}
import time


def seconds(mixer, length):
    """Return the processor seconds of one pass forward and back."""
    x = torch.randn(1, length, 32, requires_grad=True)
    start = time.process_time()
    mixer(x).sum().backward()
    return time.process_time() - start


def cheapest(models, length, rounds):
    """Return the least time of each, measured in turns: a busy moment meets all."""
    spent = [{k: seconds(m, length) for k, m in models.items()} for _ in range(rounds)]
    return {name: min(row[name] for row in spent) for name in models}


# %% tags=["figure", "nbval-ignore-output"]
lengths = [128, 256, 512, 1024, 2048, 4096, 8192]
cheapest(models, 128, 2)
rows = [cheapest(models, T, 5 if T < 4096 else 2) for T in lengths]
costs = {name: [row[name] for row in rows] for name in models}
ax = plots.plot_cost(lengths, costs, axes(3.6))
ax.set_title("At 8,192 positions attention costs most")
alt = "Time over length, both axes logarithmic. CKConv, Hyena and Mamba rise side by "
alt += "side with a slope near 1, attention more steeply: the longest time at 8,192 "
show(ax.figure, alt=alt + "positions, and not at 128.")
steep = plots.slope(lengths, costs["Attention"])
flat = [plots.slope(lengths, costs[name]) for name in costs if name != "Attention"]
holds(steep > 1.35 > max(flat), "Attention's time rises most steeply.")

# %% jupyter={"source_hidden": true}
grown = {k: flop_count(m, 8192) / flop_count(m, 4096) for k, m in models.items()}
print("operations, 8,192 over 4,096:", *(f"{k} {x:.2f}" for k, x in grown.items()))

# %% [markdown]
# At 128 positions attention is among the cheapest. A slope holds far out; at your length, measure.
#
# ## A mixer with three wrong lines
#
# This selective mixer is smaller than Mamba: 840 parameters, no gate, no norm, no taps. It raises no error, and three lines are wrong.


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
        steps = F.softplus(self.dt0).expand_as(dt)
        total = (steps * -self.log_A.exp()).cumsum(1).mT
        later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        left = total[..., :, None] - total[..., None, :]
        left = left.masked_fill(later, -torch.inf).exp()
        y = ((C @ B.mT)[:, None] * left) @ v.transpose(1, 2)
        return self.leave(y.transpose(1, 2).flatten(2))


# %% tags=["trained"] jupyter={"source_hidden": true}
handed = learn(Handed)
print("handed, trained:", *(f"{T}: {score(handed, T):.2f}" for T in LENGTHS))
holds(score(handed, 48) < 0.8, "The handed mixer does not carry to 48 positions.")

# %% [markdown]
# ### Exercise 3 · 12 minutes · ●●●●○
#
# Return a mixer with at most 1,000 parameters: no output depends on a later input, and after 400 steps it is right in .95 at 12 positions and in .85 at 48 (one of three seeds is enough). Any mend counts, a new class as well. Measure first, in a cell of your own: one number for each line.
#
# <details><summary>Hint 1</summary>In a new mixer: other inputs at the end, outputs at the start; what two different first inputs make differ in the last output, with two kinds of inputs in between.</details>
# <details><summary>Hint 2</summary>Write the equation of <code>S</code> beside the lines, and compare the first steps with those that copied.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-scan", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_scan():
    """Return a mixer, (rows, positions, 16) to the same."""

    ### BEGIN SOLUTION
    class Mended(Handed):
        def __init__(self):
            super().__init__()
            nn.init.zeros_(self.dt0)  # steps of about .7

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
# (Folded: the code of the stored runs.)


# %% jupyter={"source_hidden": true}
class Neighbours(nn.Module):
    """Three taps, of which each position uses those that its place allows."""

    def __init__(self, conv, only_last):
        super().__init__()
        self.conv, self.only_last = conv, only_last

    def forward(self, x):
        T, weight = x.shape[1], self.conv.weight[:, 0]
        place, y = torch.arange(T)[:, None], x * weight[:, 2] + self.conv.bias
        for lag in (1, 2):
            allowed = (place == T - 1) & (lag == 1) if self.only_last else place < T - 2
            y = y + F.pad(x, (0, 0, lag, 0))[:, :T] * weight[:, 2 - lag] * allowed
        return y


def neighbours(kind, only_last):
    mixer = kind(taps=3)
    mixer.taps = Neighbours(mixer.taps.conv, only_last)
    return mixer


class Slopes(Attention):
    """ALiBi, a bias that falls with the distance; or no positions at all."""

    slopes = 1 / 2, 1 / 16

    def attend(self, q, k, v):
        T = q.shape[2]
        back = torch.arange(T) - torch.arange(T)[:, None]  # 0 and below in the past
        bias = torch.tensor(self.slopes)[:, None, None] * back
        bias = bias.masked_fill(back > 0, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


class Unplaced(Slopes):
    slopes = 0.0, 0.0


# %% jupyter={"source_hidden": true}
def large(**more):
    return Mamba(**{"first": (0.2, 1.0)} | more)


def without_decay():
    mixer = large()
    nn.init.constant_(mixer.log_A, -20.0)  # A is -2e-9
    return mixer


def fixed(*names):
    """Return a Mamba of which dt, B or C do not depend on the input, as named."""
    mixer = large()
    N, heads = mixer.parts[1], mixer.cut[2]
    ends = {"dt": (-heads, None), "C": (-heads - N, -heads)}
    ends["B"] = (-heads - 2 * N, -heads - N)
    depends = torch.ones(sum(mixer.cut))
    for name in names:
        depends[slice(*ends[name])] = 0
    mixer.enter.register_forward_hook(lambda layer, given, out: out * depends)
    return mixer


# %% jupyter={"source_hidden": true}
class Asked(Mamba):
    """The questions write nothing to the state, or leave it as it was."""

    def __init__(self, kept):
        super().__init__(first=(0.2, 1.0))
        self.kept = kept

    def forward(self, x):
        gate, u, dt = self.enter(x).split(self.cut, dim=-1)
        u, B, C = F.silu(self.taps(u)).split(self.parts, dim=-1)
        u, dt = u.unflatten(-1, (dt.shape[-1], -1)), F.softplus(dt + self.dt0)
        asks = (torch.arange(x.shape[1]) >= x.shape[1] - 2)[:, None]  # the last two
        steps = dt.where(~asks, 1e-4) if self.kept else dt
        written = u * (dt / steps)[..., None] if self.kept else u * ~asks[..., None]
        y = scan(written, steps, -self.log_A.exp(), B, C) + self.D * u
        return self.leave(self.norm(y.flatten(2) * F.silu(gate)))


# %% jupyter={"source_hidden": true}
class Both(nn.Module):
    """A position holds a key, one of 16, and a value, 1 to 8, or 0: a question."""

    def __init__(self, width=16):
        super().__init__()
        self.key, self.value = nn.Embedding(16, width), nn.Embedding(9, width)

    def forward(self, x):  # (rows, positions, 2)
        return self.key(x[..., 0]) + self.value(x[..., 1])


def pairs_of(count, generator, P=8):
    keys = torch.rand(count, 16, generator=generator).argsort(1)[:, :P]
    values = torch.randint(8, (count, P), generator=generator)
    order = torch.rand(count, P, generator=generator).argsort(1)
    asked = torch.stack([keys.gather(1, order), torch.zeros_like(keys)], -1)
    written = torch.stack([keys, values + 1], -1)
    return torch.cat([written, asked], 1), values.gather(1, order)


# %% jupyter={"source_hidden": true}
def recall_learned(make, seed, steps=600, P=8):
    """Return the right answers of a network trained to recall P pairs."""
    torch.manual_seed(seed)
    net, generator = Net(make()), torch.Generator().manual_seed(seed + 1)
    net.embed = Both()
    adam = torch.optim.Adam(net.parameters(), fused=True)
    for step in range(steps):
        adam.param_groups[0]["lr"] = 5e-3 * min(1, 2 * (1 - step / steps))
        x, wanted = pairs_of(64, generator)
        loss = F.cross_entropy(net(x)[:, P:].flatten(0, 1), wanted.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    x, wanted = pairs_of(300, torch.Generator().manual_seed(99))
    with torch.no_grad():
        return (net(x)[:, P:].argmax(-1) == wanted).float().mean().item()


# %% jupyter={"source_hidden": true}
KINDS = {"Attention": Attention, "CKConv": CKConv, "Hyena": Hyena}
KINDS |= {"Mamba, small steps": Mamba, "Mamba, large steps": large}
JOBS = {}
for kind, make in KINDS.items():
    for taps, told in ((1, "1 tap"), (3, "3 taps")):
        for two, asks in ((False, "one ?"), (True, "? and !")):
            job = {"make": lambda make=make, taps=taps: make(taps=taps), "two": two}
            JOBS[f"{kind}, {told}, {asks}"] = job
for name in ("Attention", "Hyena"):
    for told, last in (("tap from ? to ?", True), ("taps on the twelve", False)):
        make = lambda kind=KINDS[name], last=last: neighbours(kind, last)  # noqa: E731
        JOBS[f"{name}, {told}"] = {"make": make}

# %% jupyter={"source_hidden": true}
JOBS["Attention, 4,000 steps"] = {"make": Attention, "steps": 4000}
JOBS["Mamba, 2,000 steps"] = {"make": Mamba, "steps": 2000}
JOBS |= {
    "Attention, four heads": {"make": lambda: Attention(heads=4)},
    "Attention, width 32": {"make": lambda: Attention(width=32), "width": 32},
    "Attention, ALiBi": {"make": lambda: Slopes(taps=3)},
    "Attention, no positions": {"make": lambda: Unplaced(taps=3)},
    "Mamba, tiny steps": {"make": lambda: Mamba(first=(0.001, 0.01))},
    "Mamba, two heads": {"make": lambda: large(heads=2)},
    "Mamba, equal steps": {"make": lambda: large(first=(0.45, 0.45))},
    "Mamba, no decay": {"make": without_decay},
    "Mamba, constant dt": {"make": lambda: fixed("dt")},
    "Mamba, constant B": {"make": lambda: fixed("B")},
    "Mamba, constant C": {"make": lambda: fixed("C")},
    "Mamba, all constant": {"make": lambda: fixed("dt", "B", "C")},
    "CKConv, one ?, 4,000 steps": {"make": CKConv, "steps": 4000},
    "CKConv, ? and !, 4,000 steps": {"make": CKConv, "steps": 4000, "two": True},
    "Mamba, constant dt, 4,000 steps": {"make": lambda: fixed("dt"), "steps": 4000},
    "Mamba, questions write nothing": {"make": lambda: Asked(kept=False)},
    "Mamba, questions do not fade": {"make": lambda: Asked(kept=True)},
}
RECALL = {f"recall, N = {N}": lambda N=N: large(N=N) for N in (1, 2, 4, 16)}
RECALL["recall, attention"] = Attention


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.5):
    """Return right answers at 12, 24 and 48 positions, of networks trained at 12."""
    found = {}
    for name, job in JOBS.items():
        net = learn(seed=seed, **job)
        for length in (12, 24, 48):
            right = score(net, length, job.get("two", False))
            found[f"{name}: {length}"] = round(right, 4)
    for name, make in RECALL.items():
        found[f"{name}: 12"] = round(recall_learned(make, seed), 4)
    return found


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. A difference between two networks has as many possible causes as they have differences. Here 3 taps, or a second question token, took attention and Hyena from .65 to 1.00; Mamba with small first steps got there by larger ones too | 12 positions, 400 steps, three seeds. After 4,000 steps attention copied 12 with neither |
# | 2. A scan keeps exp(dt A) of its state and writes dt x B. With constant dt, B and C it is the convolution c a^m b | A below 0; with dt, B and C from the input there is no fixed kernel |
# | 3. From 12 to 48 positions a dt that depends on the input carried further: .85 to .88, and .64 and less with a constant dt | one task, one block, large first steps, three seeds; alone it is not enough |
# | 4. P pairs in a state of N numbers for each value: with eight values (P − 1) / N decides. Attention keeps all pairs, and pays T² where a scan pays T | random addresses, nothing trained; more values change it; at 128 positions attention is among the cheapest |

# %%
summary("08c")

# %% [markdown]
# ## Next
#
# - [Lesson 09](09_vit5_block.ipynb) puts these mixers into the block of a vision transformer.
# - [The appendix](08c_selective_scan_more.ipynb): every switch to try, other positions, the associative scan, the library's Mamba.
# - [Homework for lessons 08c and 09](homework/hw_08c_09.ipynb), after lesson 09.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
