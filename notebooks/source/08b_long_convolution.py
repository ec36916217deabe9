# %% [markdown]
# # 08b · Long convolutions and state spaces
#
# 75 minutes. You know what causal means from [lesson 08a](08a_attention.ipynb): no output
# depends on a later input. You have met complex numbers.
#
# Attention compares every pair of positions. A **long convolution** mixes them with weights
# that depend on their distance alone, and its cost grows nearly like the length. Here is the
# whole that we build, Hyena's mixer, for a batch B, T positions and C channels:
#
# ```
# x ─▶ linear ─┬─ k (B,C,T) ─┐
# (B,T,C)      ├─ v (B,C,T) ─ · ─▶ long convolution ─ · ─▶ linear ─▶ y
#              │                 (B,C,T) ▲            │           (B,T,C)
#              └─ q (B,C,T) ─────────────┼────────────┘
#                                        │
#     a kernel (C,T), one weight for each distance. It can be
#       stored:        T parameters for each channel
#       a state space: C A^m B, a loop in disguise (steps 4 to 7)
#       generated:     a small network of the distance (step 8)
# ```

# %%
from math import pi, sqrt

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import long_convolution
from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary

setup()
progress("08b")

# %% [markdown]
# ## 1 · What goes wrong without it?
#
# A neuron fires about every 71 milliseconds (ms). We want its voltage h ms ahead, as a
# weighted sum of the latest numbers:
#
# $$\hat x_{t+h} = k_0 x_t + k_1 x_{t-1} + k_2 x_{t-2} + \dots$$
#
# Each weight is a **tap**, how far it looks back is its **lag**, and all taps are the
# **kernel**. With 16 taps this is a short convolution. (Folded: the recording, and 400
# steps of Adam at a rate of 0.003. They learn from 1,800 ms; the error is on the next
# 900, divided by the variance, so predicting the mean costs about 1.)

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import neuron_voltage
from residual_course.plots import neuron
from residual_course.plots.along_depth import along_depth
from residual_course.plots.long_convolution import plot_ridges

volt = neuron_voltage().view(-1, 2).mean(1)  # one number each millisecond
level, spread = volt[900:3600].mean(), volt[900:3600].std()
training, test = ((volt - level) / spread)[900:3600].split([1800, 900])


def predicted(signal, kernel):
    return long_convolution(signal[None, :, None], kernel[None, :, None], "causal")[
        0, :, 0
    ]


def error(kernel, signal, ahead=32, skip=256):
    found, wanted = predicted(signal, kernel)[skip:-ahead], signal[skip + ahead :]
    return (found - wanted).square().mean() / wanted.var(correction=0)


def trained(kernel, ahead=32, steps=400):
    """Train what makes a kernel to predict; return the kernel."""
    adam = torch.optim.Adam(kernel.parameters())
    for step in range(steps):
        adam.param_groups[0]["lr"] = 3e-3 * min(1, 2 * (1 - step / steps))
        loss = error(kernel().flatten(), training, ahead)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return kernel().detach().flatten()


def axes(height=2.6):
    return Figure(figsize=(6, height)).add_subplot()


def plot_ahead(kernels, title):
    drawn = {
        f"{h} ms ahead": predicted(test, kernels[h])[300 - h : 600 - h] for h in (8, 64)
    }
    ax = neuron.plot_predictions(test[300:600], drawn, axes(2.8))
    ax.set_title(title)
    return ax.figure


# %%
class Stored(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.taps = nn.Parameter(torch.zeros(taps))

    def forward(self):
        return self.taps


# %% sixteen-taps tags=["trained"]
with predict(
    "16 taps. Which voltage is predicted best?",
    ["8 ms ahead", "32 ms ahead", "64 ms ahead", "all three alike"],
):
    short = {h: trained(Stored(16), ahead=h) for h in (8, 32, 64)}
    for h in short:
        print(f"{h:2} ms ahead: error {error(short[h], test, h):.2f}")
    show(plot_ahead(short, "16 taps predict 64 ms ahead, and not 8"))

# %% [markdown]
# The same 16 numbers predict the far future and not the near one. A longer kernel will show
# why.
#
# ## 2 · What exactly is it?
#
# ### Step 1 · The sum by hand
#
# Four numbers, three taps. The output at position 2 is 1 · 3 + 2 · 2 − 1 · 1:

# %%
x = torch.tensor([1.0, 2, 3, 4])
kernel = torch.tensor([1.0, 2, -1])
print(kernel[0] * x[2] + kernel[1] * x[1] + kernel[2] * x[0])

# %% [markdown]
# ### Exercise 1 · All positions at once (5 minutes)
#
# Write the causal convolution $y_i = \sum_m k_m x_{i-m}$, with zeros before the start
# of the signal. x is (T,), the kernel (taps,) may be longer than x, and T numbers come
# out. For the four numbers above they are 1, 4, 6, 8. A loop will do.
#
# <details><summary>Hint</summary>Each tap m adds a copy of x that is moved m places to the
# right: <code>F.pad(x, (m, 0))[: len(x)]</code> is such a copy.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "causal-convolution", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_convolution(x, kernel):
    """Return the causal convolution of x, (T,), with kernel, (taps,)."""
    ### BEGIN SOLUTION
    y = torch.zeros_like(x)
    for m in range(len(kernel)):
        y = y + kernel[m] * F.pad(x, (m, 0))[: len(x)]
    return y
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "causal-convolution-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(causal_convolution, "causal_convolution")

# %% [markdown]
# ### Step 2 · The lag that is needed
#
# Back to the neuron. We train 256 taps in the same way, for 32 ms ahead, and look at them.

# %% long-kernel tags=["trained"]
long = trained(Stored(256))
copy = F.one_hot(torch.tensor(40), 256).float()  # a single tap, at lag 40
for name, taps in {"16 taps": short[32], "256 taps": long, "one tap": copy}.items():
    print(f"{name:9} error {error(taps, test):.2f}")

# %% long-kernel-drawn jupyter={"source_hidden": true} tags=["trained"]
peaks = [a + long[a : a + 60].argmax().item() for a in (10, 82, 154)]
ax = neuron.plot_kernel(long, axes(), named=peaks)
ax.set_title("256 taps, learned to predict 32 ms ahead")
show(ax.figure)

# %% [markdown]
# The largest tap stands at lag 39, and the others follow one and two periods later. The
# voltage repeats after a period P of 71 or 72 ms, so what comes in h ms is like what was
# P − h ago, here 39 or 40 ms. One single tap at lag 40 is nearly as good as 256.
#
# This solves the puzzle. For 64 ms ahead the lag is 7 or 8, which 16 taps reach. For 8 ms
# it is 63 or 64, which they do not.
#
# ### Step 3 · Cheap, by Fourier transform
#
# T outputs with T taps take T² products. There is a shorter way. In the sum a wave
# $x_t = e^{i\omega t}$ becomes
#
# $$\sum_m k_m e^{i\omega (t-m)} = e^{i\omega t} \cdot \sum_m k_m e^{-i\omega m}$$
#
# which is the same wave times one number. So we write the signal as a sum of waves, multiply
# each by its number, and add them up again. A fast Fourier transform (FFT) goes there and
# back in about T log T steps. `rfft(x, n)` first fills x up with zeros to n points.
#
# But its waves repeat after n points: they live on a circle, where position 0 follows the
# last one.

# %% wrap-around
with predict(
    "4 numbers, 3 taps, n = 4 points: which outputs are wrong?",
    ["none", "the first two", "the last two", "all four"],
):
    spectrum = torch.fft.rfft(x, 4) * torch.fft.rfft(kernel, 4)
    circle = torch.fft.irfft(spectrum, 4)
    print("on a circle of 4", circle.round(decimals=4))
    print("wanted          ", torch.tensor([1.0, 4, 6, 8]))

# %% [markdown]
# Output 0 should be 1 · 1. On the circle its taps reach round to the end and add
# 2 · 4 − 1 · 3, so the last inputs leak into the first outputs. With enough zeros between
# end and start no tap reaches round:


# %%
def fft_convolution(x, kernel):
    n = x.shape[-1] + kernel.shape[-1]
    spectrum = torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n)
    return torch.fft.irfft(spectrum, n)[..., : x.shape[-1]]


print(fft_convolution(x, kernel).round(decimals=4))

# %% [markdown]
# ### Step 4 · A state of one number
#
# A stored kernel has a parameter for each lag, and to compute one more output it must go
# over the whole past again. The second kind of kernel needs neither. It begins with a
# **state** s that leaks at a rate a < 0 and is filled by the input:
#
# $$\frac{ds}{dt} = a\,s + x$$
#
# The input is constant during a step of length dt. Then the equation has an exact solution:
# the state keeps a factor A of itself, and a factor B of the input is written.
#
# $$s \leftarrow A\,s + B\,x \qquad A = e^{a\,dt} \qquad B = \frac{A - 1}{a}$$

# %% one-number
a, dt = torch.tensor(-1.0), 0.5
A = (a * dt).exp()
B = (A - 1) / a
state = torch.tensor(0.0)
for number in [1.0, 0, 0, 0]:
    state = A * state + B * number
    print(state)
print("taps:", B * A ** torch.arange(4))

# %% [markdown]
# We sent in a 1 and then zeros. What comes out is B, which then shrinks by A at each step. So
# this loop *is* a convolution, whose tap at lag m is $A^m B$.
#
# The parameter of the system is a, and dt says how finely we sample it. Two steps of dt/2
# are one step of dt:

# %% half-steps
half_A = (a * dt / 2).exp()
half_B = (half_A - 1) / a
print("one step:      ", A, B)
print("two half steps:", half_A * half_A, half_A * half_B + half_B)

# %% [markdown]
# ### Step 5 · Let it turn
#
# Such taps only fade. Now let a be a complex number, a = −d + iω. Multiplying by
# $e^{i\omega\,dt}$ turns a complex number by the angle ω dt and leaves its size. So the
# state fades at the rate d and turns ω/2π times in a unit of time. We draw the real part
# of $A^m$:

# %% fading-and-turning
dt, m = 0.05, torch.arange(100)
kernels = {}
for a in (-2 + 0j, -0.5 + 0j, -0.5 + 4j, -0.5 + 16j):
    A = torch.tensor(a * dt).exp()
    kernels[f"{a.real:g} + {a.imag:g}i"] = (A**m).real

# %% fading-and-turning-drawn jupyter={"source_hidden": true}
ax = plot_ridges(m, kernels, axes(3.2), "lag m")
ax.set_title("The real part of a fades, the imaginary part turns")
show(ax.figure)

# %% [markdown]
# The first two kernels differ in the real part: −2 fades four times as fast as −0.5. The
# lower three fade alike and differ in the imaginary part alone.
#
# ### Step 6 · N numbers
#
# One turning number makes one wave. Take N of them, each with its own a, and read them
# with N weights C. This is a **state space**, and a diagonal one: as a matrix, A would have
# numbers on its diagonal alone.


# %%
def ssm_loop(A, B, C, x):
    """Return the outputs for x, (T,); A, B and C are complex, (states,)."""
    state = torch.zeros_like(A)
    outputs = []
    for number in x:
        state = A * state + B * number
        outputs.append((C * state).sum().real)
    return torch.stack(outputs)


A = torch.tensor([0.5 + 0j, -0.5 + 0j])
ones = torch.ones(2) + 0j
print(ssm_loop(A, ones, ones, torch.tensor([1.0, 0, 0, 0])))

# %% [markdown]
# The state was (1, 1), then (½, −½), then (¼, ¼), then (⅛, −⅛), and C adds the two up.
#
# ### Exercise 2 · The loop as a kernel (8 minutes)
#
# Return the kernel, (taps,) real numbers, with which a convolution does what this loop
# does. A, B and C are (states,).
#
# <details><summary>Hint</summary>Send a 1 and then zeros through the loop: what is state n
# after m steps? <code>A ** torch.arange(taps)[:, None]</code> has a row for each lag and a
# column for each state.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "ssm-kernel", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ssm_kernel(A, B, C, taps):
    """Return the kernel of the loop, (taps,)."""
    ### BEGIN SOLUTION
    powers = A ** torch.arange(taps)[:, None]
    return (powers * B * C).sum(-1).real
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "ssm-kernel-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(ssm_kernel, "ssm_kernel")

# %% [markdown]
# ### Step 7 · A layer that learns
#
# The parameters are d, ω and C, and `-exp(log_decay)` keeps the real part of a below 0
# whatever training does. We start with d = ½ and ω = 0, π, 2π, 3π and so on, so that the
# waves have 0, ½, 1, 1½ ... periods in a unit of time. This start is called
# [S4D-Lin](https://arxiv.org/abs/2206.11893).


# %%
class StateSpace(nn.Module):
    def __init__(self, states=32, dt=1 / 64):
        super().__init__()
        self.dt = dt
        self.log_decay = nn.Parameter(torch.full((states,), 0.5).log())
        self.frequency = nn.Parameter(pi * torch.arange(states))
        self.C = nn.Parameter(torch.randn(states, 2) / sqrt(states))

    def discrete(self):
        a = torch.complex(-self.log_decay.exp(), self.frequency)
        A = (a * self.dt).exp()
        B = (A - 1) / a
        return A, B, torch.view_as_complex(self.C)

    def forward(self, taps=256):
        return ssm_kernel(*self.discrete(), taps)


# %% [markdown]
# Is the loop equal to the convolution? We compare outputs and the gradients of all
# parameters, in float64:

# %% loop-is-kernel
space = StateSpace().double()
found = []
for y in (
    ssm_loop(*space.discrete(), test[:300].double()),
    fft_convolution(test[:300].double(), space(300)),
):
    gradients = torch.autograd.grad(y.square().sum(), space.parameters())
    found.append([y, *gradients])
apart = max((a - b).abs().max() / a.abs().max() for a, b in zip(*found, strict=True))
print("equal to 10 digits:", bool(apart < 1e-10))

# %% [markdown]
# Which one should you run? In training the whole signal is there, so no step has to wait
# for the one before: here the convolution is about four times as fast. In generation one
# number comes at a time. The loop then makes one step, the same whatever lies behind, and
# the convolution goes over the whole past. The time of the loop over that of the
# convolution (one processor core, `python -m benchmarks.state_space`):
#
# | positions | a training step | one more number |
# |---|---|---|
# | 256 | 3.9 | 2.4 |
# | 1,024 | 4.0 | 1.4 |
# | 4,096 | 4.8 | 0.5 |
# | 16,384 | 3.7 | 0.05 |
#
# And the loop keeps 32 complex numbers in place of the past. How much of it do they hold?
# We run the loop over the training signal, and let least squares find weights that read
# the last 256 voltages from the state. We try the same weights on states of the test signal:


# %%
@torch.no_grad()
def states(A, B, x):
    state = torch.zeros_like(A)
    rows = []
    for number in x:
        state = A * state + B * number
        rows.append(torch.view_as_real(state).flatten())
    return torch.stack(rows)  # (T, 64) real numbers


# %% what-the-state-holds
A, B, _ = StateSpace().double().discrete()
seen, past = {}, {}
for name, signal in {"training": training.double(), "test": test.double()}.items():
    seen[name] = states(A, B, signal)[455:]
    past[name] = signal.unfold(0, 256, 1)[200:]  # the last 256 numbers at each time
weights = torch.linalg.lstsq(seen["training"], past["training"]).solution
read = seen["test"] @ weights  # (times, 256)
print(f"error {(read - past['test']).square().mean() / test.var():.2f}")

# %% what-the-state-holds-drawn jupyter={"source_hidden": true}
drawn = {"read from the state": read[245]}
ax = neuron.plot_predictions(past["test"][245], drawn, axes(), first=-255)
ax.set_title("The last 256 ms, read from one state")
show(ax.figure)

# %% [markdown]
# The state is a summary of the past: with the right weights, one can read from it any of the
# last 256 voltages. This is the idea of [HiPPO](https://arxiv.org/abs/2008.07669): choose A so that
# the state summarises well. S4 starts from such a matrix, which is not diagonal and needs
# more work ([The Annotated S4](https://srush.github.io/annotated-s4/) builds it); our start
# is a diagonal relative.
#
# ### Step 8 · A kernel from positions
#
# The third kind of kernel is a small network that computes the tap at each lag. Lag m
# stands at the position p = m / 256, and a network of sines
# ([SIREN](https://arxiv.org/abs/2006.09661), as in
# [CKConv](https://arxiv.org/abs/2102.02611)) maps it to a number for each channel:


# %%
class Siren(nn.Module):
    def __init__(self, omega, channels=1, width=32, reach=256):
        super().__init__()
        self.reach = reach
        self.first = nn.Linear(1, width)
        self.hidden = nn.Linear(width, width)
        self.last = nn.Linear(width, channels)
        nn.init.uniform_(self.first.weight, -2 * pi * omega, 2 * pi * omega)
        nn.init.uniform_(self.first.bias, -pi, pi)
        nn.init.uniform_(self.hidden.weight, -sqrt(6 / width), sqrt(6 / width))
        self.last.weight.data /= sqrt(reach)

    def at(self, p):  # (taps,) to (channels, taps)
        h = torch.sin(self.first(p[:, None]))
        h = torch.sin(self.hidden(h))
        return self.last(h).mT

    def forward(self, taps=256):
        return self.at(torch.arange(taps) / self.reach)


siren = Siren(omega=64, channels=8)
print(siren(256).shape, siren(1000).shape)

# %% [markdown]
# The same parameters give a kernel of any length. `omega` is how many waves a sine of the
# first layer makes at most within 256 taps. How fast a kernel may wiggle is the question of
# the [investigation](investigations/08b_how_fast_may_a_kernel_wiggle.ipynb).
#
# ### Step 9 · Two gates
#
# A kernel does not depend on the signal. So a convolution cannot choose by content what it
# reads. Look at these six positions: each has a number, a mark and a question. Where the
# question is 1 we want the sum of all *marked* numbers so far. Hyena multiplies twice:


# %%
def hyena(q, k, v, kernel):
    return q * fft_convolution(k * v, kernel)


number = torch.tensor([0.3, 0.9, 0.1, 0.5, 0.7, 0.2])
mark = torch.tensor([0.0, 1, 0, 0, 1, 0])
question = torch.tensor([0.0, 0, 1, 0, 0, 1])
adds_up = torch.ones(6)  # a kernel of ones
print(hyena(question, mark, number, adds_up).round(decimals=4))

# %% [markdown]
# The two products are **gates**. The first, mark · number, selects what goes into the sum:
# 0.9, and later 0.7. The convolution adds up. The second lets the sum out where it is
# asked for.
# [Hyena](https://arxiv.org/abs/2302.10866) computes q, k and v from x by a linear map and a
# convolution of 3 taps, and learns the kernel as in step 8.
#
# ## 3 · Is mine right?
#
# We compare your convolution, and the gates, with the package's in float64: outputs and the
# gradients of all inputs.

# %% jupyter={"source_hidden": true}
from residual_edu import Hyena as PackageHyena


class Convolve(nn.Module):
    """What the package's Hyena calls: a causal convolution with a fixed kernel."""

    def __init__(self, kernel):
        super().__init__()
        self.kernel, self.is_causal = kernel, True

    def forward(self, x, *, conditioning=None):
        return long_convolution(x, self.kernel[None, :, None], "causal")


def package_convolution(x, kernel):
    return long_convolution(x[None, :, None], kernel[None, :, None], "causal")[0, :, 0]


def package_hyena(q, k, v, kernel):
    off = nn.Identity()
    mixer = PackageHyena(Convolve(kernel), off, off, off, None)
    return mixer(*(part[None, :, None] for part in (v, k, q)))[0, :, 0]


def compare(mine, theirs, *inputs):
    """Return how far outputs and gradients of two functions are apart."""
    found = []
    for function in (mine, theirs):
        leaves = [each.double().requires_grad_() for each in inputs]
        y = function(*leaves)
        found.append([y, *torch.autograd.grad(y.pow(3).sum(), leaves)])
    return max((a - b).abs().max().item() for a, b in zip(*found, strict=True))


# %% same-numbers
apart = compare(causal_convolution, package_convolution, number, adds_up)
print("convolution, equal to 10 digits:", apart < 1e-10)
apart = compare(hyena, package_hyena, question, mark, number, adds_up)
print("gates, equal to 10 digits:      ", apart < 1e-10)

# %% [markdown]
# Folded are three pieces of the package. `long_convolution` is the FFT of step 3 for one to
# three axes, with a choice of what lies beyond the ends. `SIRENKernel` is step 8 with
# positions on either side of 0. `Hyena` may have an activation in its gates; what is v, k
# and q here is its query, key and value.

# %% jupyter={"source_hidden": true} tags=["promote:mixers/long_convolution"]

from residual_edu.errors import check_shape
from residual_edu.mixers.long_convolution import Padding, Taps, fft_size
from residual_edu.mixers.long_convolution import pad_and_roll
from residual_edu.mixers.long_convolution import padding_of_each_axis
from residual_edu.mixers.real_fft import real_fft
from residual_edu.parts.flop_count import Signal


def long_convolution(x: Signal, kernel: Taps, padding: Padding = "zero") -> Signal:
    r"""Convolve each channel of ``x`` with its own kernel, by Fourier transform."""
    paddings = padding_of_each_axis("padding", padding, x.ndim - 2)
    check_shape("x", x, "...", "channels")  # the result would be rounded to integers
    samples = 1 if kernel.shape[0] == 1 else x.shape[0]
    check_shape("kernel", kernel, samples, *["taps"] * (x.ndim - 2), x.shape[-1])
    space, taps = x.shape[1:-1], kernel.shape[1:-1]
    both = torch.promote_types(x.dtype, kernel.dtype)
    wide = torch.promote_types(both, torch.float32)  # the CPU has no 16-bit FFT
    # batch, channels, *space: a transform runs along rows of neighbours in memory
    signal, kernel = (z.to(wide).movedim(-1, 1).contiguous() for z in (x, kernel))
    sizes = [fft_size(*each) for each in zip(space, taps, paddings, strict=True)]
    for axis, (size, each) in enumerate(zip(sizes, paddings, strict=True), start=2):
        kernel = pad_and_roll(kernel, axis, size, each)
    spectrum = real_fft(signal, sizes) * real_fft(kernel, sizes)
    y = torch.fft.irfftn(spectrum, s=sizes)[(..., *map(slice, space))]
    return y.movedim(1, -1).type_as(x)


# %% jupyter={"source_hidden": true} tags=["promote:mixers/implicit_kernel"]
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from residual_edu import SIRENPositionalEmbedding
from residual_edu.config import Spec, build
from residual_edu.errors import check_positive, check_size
from residual_edu.mixers.implicit_kernel import Condition, Grid, check_film, halved
from residual_edu.mixers.implicit_kernel import modulated, uniform
from residual_edu.parts.flop_count import Shape
from residual_edu.parts.weight_decay import no_weight_decay


class SIRENKernel(nn.Module):
    r"""A kernel of any length from the same few parameters, by a network of sines."""

    def __init__(
        self,
        out_dim: int,
        data_dim: int,
        mlp_hidden_dim: int,
        num_layers: int,
        embedding_dim: int,
        omega_0: float,
        L_cache: int | Sequence[int],
        use_bias: bool,
        hidden_omega_0: float = 1.0,
        film_cfg: Spec | None = None,
        film_after_pos_embed: bool = False,
    ) -> None:
        super().__init__()
        check_size("num_layers", num_layers, least=2)
        check_positive("hidden_omega_0", hidden_omega_0)
        self.out_dim, self.data_dim = out_dim, data_dim
        self.widths = [embedding_dim] + [mlp_hidden_dim] * (num_layers - 1)
        self.positional_embedding = SIRENPositionalEmbedding(
            data_dim, embedding_dim, L_cache, omega_0, use_bias
        )
        hidden = [nn.Linear(*pair, bias=use_bias) for pair in pairwise(self.widths)]
        self.hidden_linears = no_weight_decay(nn.ModuleList(map(uniform, hidden)))
        self.out_linear = nn.Linear(mlp_hidden_dim, out_dim, bias=use_bias)
        self.start_output()
        self.film_generator: Any = None if film_cfg is None else build(film_cfg)
        if film_cfg is not None:
            check_film(self.film_generator, self.widths[not film_after_pos_embed :])

    def start_output(self) -> None:
        """Draw the last weights: a sum over all taps is as large as the signal."""
        taps = prod(self.positional_embedding.L_cache)
        uniform(self.out_linear, sqrt(6 / self.out_linear.in_features) / sqrt(taps))

    def reset_parameters(self) -> None:
        """Draw the hidden and the last weights; the other children draw their own."""
        for hidden in self.hidden_linears:
            uniform(hidden)  # type: ignore[arg-type]
        self.start_output()

    def forward(
        self, lengths: Sequence[int], conditioning: Condition | None = None
    ) -> tuple[Taps, Grid]:
        """Return 2 length - 1 taps an axis, by condition, and their positions."""
        conditioned = conditioning is not None and self.film_generator is not None
        films = self.film_generator(conditioning) if conditioned else []
        first, *others = [None] * (len(self.widths) - len(films)) + films
        features, grid = self.positional_embedding(lengths)
        h = modulated(features, first)  # batch or 1, *taps, embedding_dim
        for hidden, film in zip(self.hidden_linears, others, strict=True):
            h = modulated(hidden(h).sin(), film)
        return self.out_linear(h), grid

    def halve_grid(self, axes: Sequence[bool]) -> None:
        """Halve ``L_cache`` along ``axes`` that are True, and enlarge the weights."""
        reach = self.positional_embedding.L_cache
        shorter = self.positional_embedding.L_cache = halved(reach, axes)
        self.out_linear.weight.data *= sqrt(prod(reach) / prod(shorter))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost of all taps, 0 at inference if no condition changes them."""
        film = self.film_generator
        lengths = [shape] if isinstance(shape, int) else shape
        taps = prod(2 * length - 1 for length in lengths)
        maps = pairwise([self.data_dim, *self.widths, self.out_dim])
        each = sum(2 * fan_in * fan_out for fan_in, fan_out in maps) + sum(self.widths)
        if film is None:
            return 0 if inference else taps * each
        modulation = 2 * film.num_film_layers * film.kernel_hidden_dim
        return taps * (each + modulation) + film.flop_count()


# %% jupyter={"source_hidden": true} tags=["promote:mixers/hyena"]
from residual_edu.errors import check_same_shape
from residual_edu.mixers.hyena import check_parts, over_channels
from residual_edu.parts.causal_conv import convolution_flops
from residual_edu.parts.flop_count import count_positions, flop_count
from residual_edu.parts.residual import is_bypassed


class Hyena(nn.Module):
    r"""Mix positions by a long convolution between two gates."""

    def __init__(
        self,
        global_conv_cfg: Spec,
        short_conv_cfg: Spec,
        gate_nonlinear_cfg: Spec,
        pixelhyena_norm_cfg: Spec,
        qk_norm_cfg: Spec | None,
        output_norm_cfg: Spec = nn.Identity,
        gate_nonlinear_2_cfg: Spec | None = None,
    ) -> None:
        super().__init__()
        self.global_conv: Any = build(global_conv_cfg)
        self.short_conv: Any = build(short_conv_cfg)
        gate = self.gate_nonlinear = build(gate_nonlinear_cfg)
        second = gate if gate_nonlinear_2_cfg is None else gate_nonlinear_2_cfg
        self.gate_nonlinear_2 = build(second)
        self.pixelhyena_norm = no_weight_decay(build(pixelhyena_norm_cfg))
        self.output_norm = no_weight_decay(build(output_norm_cfg))
        self.q_norm = None if qk_norm_cfg is None else build(qk_norm_cfg)
        gated = not is_bypassed(gate)
        self.k_norm = None if qk_norm_cfg is None or gated else build(qk_norm_cfg)
        check_parts(self)

    def forward(
        self, query: Signal, key: Signal, value: Signal, *, conditioning: Any = None
    ) -> Signal:
        """Mix the positions of the three; the convolution gets ``conditioning``."""
        check_same_shape("key", key, "query", query)
        check_same_shape("value", value, "query", query)
        qkv = over_channels(self.short_conv, torch.cat([query, key, value], dim=-1))
        q, k, v = qkv.chunk(3, dim=-1)
        q, k = over_channels(self.q_norm, q), over_channels(self.k_norm, k)
        gated = q * over_channels(self.gate_nonlinear, k)
        z = over_channels(self.pixelhyena_norm, gated)
        h = self.global_conv(z, conditioning=conditioning)
        check_same_shape("global_conv(z)", h, "z", z)
        gated = h * over_channels(self.gate_nonlinear_2, v)
        return over_channels(self.output_norm, gated)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample; a norm takes 3 operations a number."""
        positions = count_positions(shape)
        norms = self.q_norm, self.k_norm, self.pixelhyena_norm, self.output_norm
        gates = self.gate_nonlinear, self.gate_nonlinear_2
        each = sum(3 for norm in norms if norm is not None and not is_bypassed(norm))
        each += 2 + sum(not is_bypassed(gate) for gate in gates)
        cost = each * positions * self.global_conv.hidden_dim
        if not is_bypassed(self.short_conv):
            cost += convolution_flops(self.short_conv, positions)
        return cost + flop_count(self.global_conv, shape, inference)


# %% [markdown]
# ## 4 · What does it do to the gradient?
#
# A loop over 32 positions is a network of 32 layers, one for each number that comes in. A
# layer passes on the state, and the derivative of s ← A s + B x with respect to s is A. So
# m steps back the gradient has been multiplied by $A^m$. Three loops that differ in a alone:


# %%
class Step(nn.Module):
    def __init__(self, a, dt=0.2):
        super().__init__()
        A = torch.tensor(a * dt).exp()
        self.A = nn.Parameter(A)
        self.B = nn.Parameter((A - 1) / a)

    def forward(self, state, number):
        return self.A * state + self.B * number


class Loop(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.steps = nn.ModuleList(Step(a) for _ in range(32))

    def forward(self, x):  # (batch, 33); the first number is the first state
        state = x[:, :1]
        for step, number in zip(self.steps, x.mT[1:], strict=True):
            state = step(state, number[:, None])
        return state


# %% along-the-steps
signals = torch.randn(100, 33).double()
nets = {}
for name, a in {"a = 0.5": 0.5, "a = −0.1": -0.1, "a = −1": -1.0}.items():
    loop = Loop(a).double()
    nets[name] = loop, loop.steps
show(along_depth(nets, signals, lambda out: out.square().mean()))

# %% [markdown]
# Read the middle panel from right to left. With a = −1 the gradient is multiplied by
# $e^{-0.2}$ = 0.82 at each step, and less than a hundredth of it arrives at the first. With
# a = 0.5 it grows, and so does the state (upper panel). With a = −0.1 about half of it
# arrives. The weights' gradients (lower panel) vanish with a = −1 in the same way. These are
# the vanishing and exploding gradients of recurrent networks.
#
# `-exp(log_decay)` rules out growth, and numbers of the state that fade slowly carry
# gradients far. The imaginary part plays no role in this, because turning leaves the size.
#
# ## 5 · Does it help?
#
# Back to the neuron, 32 ms ahead. `StateSpace` has 128 parameters and takes the place of
# the stored taps; the training is that of section 1. As a control we take the turning
# away: ω stays 0. Then equal decays would be one number 32 times, so we spread them from 1
# to 32.


# %%
class Still(StateSpace):
    def __init__(self, states=32):
        super().__init__(states)
        self.log_decay = nn.Parameter(torch.arange(1.0, states + 1).log())
        self.frequency.requires_grad_(False).zero_()


# %% jupyter={"source_hidden": true}
def errors(make):
    """Train three seeds; return their errors on the test."""
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        found.append(error(trained(make()), test).item())
    return found


def plot_kinds(kinds):
    ax = neuron.plot_errors_by_name(kinds, axes(2.8))
    ax.set_title("128 parameters that turn replace 256 taps")
    return ax.figure


# %% five-kernels tags=["trained"]
with predict(
    "32 states that cannot turn: what is the error 32 ms ahead?",
    ["about 0.1", "about 0.4", "about 0.8"],
):
    kinds = {
        "stored, 16 taps": [error(short[32], test).item()],
        "stored, 256 taps": [error(long, test).item()],
        "state space": errors(StateSpace),
        "state space, ω = 0": errors(Still),
        "generated": errors(lambda: Siren(omega=64)),
    }
    show(plot_kinds(kinds))

# %% [markdown]
# Without turning, 32 numbers do no better than 16 taps. With it they are as good as 256
# taps, with half the parameters, and can run as a loop. We chose dt = 1/64 to make the
# waves fit: the slowest has a period of 128 ms, the fastest of 4. What if they do not fit?
# Try `StateSpace(dt=1 / 256)`. The generated kernel is as good as the stored one here and
# no better, and it has more parameters than 256.
#
# And the gates? We take the task of step 9 with 64 positions, about four marks a signal
# and questions at half of the positions. Where a gate is left out, its two factors are
# added. (Folded: the training, 300 steps of Adam.)


# %%
class GatedNetwork(nn.Module):
    def __init__(self, first, second, width=8):
        super().__init__()
        self.first, self.second = first, second
        self.enter = nn.Linear(3, 3 * width)
        self.kernel = Siren(omega=1, channels=width, width=16)
        self.leave = nn.Linear(width, 1)

    def forward(self, x):  # (batch, positions, 3)
        q, k, v = self.enter(x).mT.chunk(3, dim=1)  # (batch, width, positions)
        z = k * v if self.first else k + v
        h = fft_convolution(z, self.kernel(x.shape[1]))
        y = q * h if self.second else q + h
        return self.leave(y.mT)[..., 0]


# %% jupyter={"source_hidden": true}
def marked_sums(count, generator):
    """Return numbers, marks and questions, (count, 64, 3), and the wanted outputs."""
    number, mark, question = torch.rand(3, count, 64, generator=generator)
    mark, question = (mark < 4 / 64).float(), (question < 1 / 2).float()
    wanted = (number * mark).cumsum(1) * question
    return torch.stack([number, mark, question], -1), wanted


def learned(first, second, seed, steps=300):
    """Train a network; return its error over that of guessing the mean."""
    torch.manual_seed(seed)
    net = GatedNetwork(first, second)
    generator = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(net.parameters())
    for step in range(steps):
        adam.param_groups[0]["lr"] = 1e-2 * min(1, 2 * (1 - step / steps))
        x, wanted = marked_sums(32, generator)
        loss = F.mse_loss(net(x), wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()
    x, wanted = marked_sums(1000, torch.Generator().manual_seed(99))
    with torch.no_grad():
        return (F.mse_loss(net(x), wanted) / wanted.var()).item()


# %% two-gates tags=["trained"]
gates = {
    "no gate": (False, False),
    "first gate alone": (True, False),
    "second gate alone": (False, True),
    "both gates": (True, True),
}
scores = {}
for name, (first, second) in gates.items():
    scores[name] = [learned(first, second, seed) for seed in range(3)]
    print(f"{name:18}", *(f"{score:.2f}" for score in scores[name]))

# %% [markdown]
# The error is again over that of the mean. Each gate helps alone, the second more, and only
# both together solve the task, with every seed.
#
# ## 6 · Where do people go wrong?
#
# A colleague has written a long convolution with a generated kernel. It raises no error,
# and its shapes are right for every length:


# %%
class Handed(nn.Module):
    def __init__(self):
        super().__init__()
        self.siren = Siren(omega=64)

    def forward(self, x):  # (T,) to (T,)
        T = len(x)
        kernel = self.siren.at(torch.linspace(0, 1, T))[0]
        spectrum = torch.fft.rfft(x) * torch.fft.rfft(kernel)
        return torch.fft.irfft(spectrum, T)


# %% [markdown]
# **Measure first.** A causal mixer must not notice the second half of a signal in the
# first half of its outputs. So we change that half, then we take it away, and both times look
# how far the first outputs move:


# %%
@torch.no_grad()
def two_tests(mixer, x):
    half = len(x) // 2
    changed = torch.cat([x[:half], x[half:] + 1])
    first = mixer(x)[:half]
    by_change = (mixer(changed)[:half] - first).abs().max()
    by_cut = (mixer(x[:half]) - first).abs().max()
    return by_change / first.abs().max(), by_cut / first.abs().max()


# %% handed tags=["trained"]
torch.manual_seed(0)
by_change, by_cut = two_tests(Handed(), test[:128])
print(f"changed: moved by {by_change:.0%} of the largest output")
print(f"cut off: moved by {by_cut:.0%}")

# %% [markdown]
# ### Exercise 3 · Mend it (9 minutes)
#
# Two things in `forward` are wrong. After one mend the first test passes, after both the
# second does too. Write `forward` so that it is causal, and that lag m has the same tap for
# every length of the signal.
#
# <details><summary>Hint</summary>How many points has the circle? And where does lag 1 stand
# for T = 64, where for T = 128? <code>self.siren.reach</code> is 256.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-convolution", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Mended(Handed):
    def forward(self, x):
        ### BEGIN SOLUTION
        kernel = self.siren(len(x))[0]  # lag m at m / reach
        return fft_convolution(x, kernel)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-convolution-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(Mended, "mended_convolution")

# %% mended tags=["trained"]
torch.manual_seed(0)
by_change, by_cut = two_tests(Mended(), test[:128])
print(f"changed: moved by {by_change:.0%}, cut off: moved by {by_cut:.0%}")

# %% [markdown]
# Neither fault shows in the shapes. Users ask about the first, a circle of T points, in the
# repositories of [Hyena](https://github.com/HazyResearch/safari/issues/4) and
# [FlashFFTConv](https://github.com/HazyResearch/flash-fft-conv/issues/31). Hyena's code
# avoids the second: it makes its positions once, for the longest signal, and takes the
# first T of them.
#
# Relatives of these mistakes:
#
# - `F.conv1d` does not turn the kernel round. For the same result as above, pass it
#   `kernel.flip(-1)`.
# - A generated kernel may do anything beyond the lags seen in training. Hyena multiplies
#   it by a window that fades.
# - With `nn.Parameter(a)` in place of `-exp(log_decay)` training can carry a above 0.
#
# ## 7 · What do I keep?
#
# $$y_i = \sum_m k_m x_{i-m} \qquad k_m = \mathrm{Re} \sum_n C_n A_n^m B_n \qquad A = e^{a\,dt} \qquad B = \frac{A-1}{a}$$
#
# ```python
# n = x.shape[-1] + kernel.shape[-1]                     # zeros against the circle
# y = torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n), n)[..., :T]
# kernel = (A ** torch.arange(T)[:, None] * B * C).sum(-1).real    # a state space
# state = A * state + B * number                                   # the same, as a loop
# y = q * convolution(k * v)                                       # Hyena
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>A signal repeats after 50 steps, and you predict 20 ahead. At which lags
# are taps useful?</summary>At 30, 80, 130 and so on: whole periods minus 20.</details>
#
# <details><summary>What do the real and the imaginary part of a decide, and which of them
# the size of a gradient m steps back?</summary>The real part how fast the state fades, the
# imaginary part how fast it turns. The size is |A|<sup>m</sup>, which the real part
# decides.</details>
#
# <details><summary>When do you run a state space as a convolution, and when as a
# loop?</summary>As a convolution in training, where the whole signal is there. As a loop in
# generation, where one step and a small state replace the whole past.</details>
#
# **Next.** Our state space treats every input alike. In
# [lesson 08c](08c_selective_scan.ipynb) dt, B and C depend on the input: that is Mamba. The
# [investigation](investigations/08b_how_fast_may_a_kernel_wiggle.ipynb) reads generated
# kernels between their taps. [Homework](homework/hw_08a_08b.ipynb) is for lessons 08a and
# 08b; the [glossary](../docs/glossary.md) has all words.

# %%
summary("08b")
