# %% [markdown]
# # 08b · Long convolutions and Hyena
#
# 75 minutes. Nothing is downloaded. Of [lesson 08a](08a_attention.ipynb) it uses what causal means: no output depends on a later input.
#
# By the end you can
#
# - **write** a causal convolution, and **say** at which lag a kernel that predicts must have its largest tap;
# - **say** which outputs are wrong if a Fourier transform is too short;
# - **generate** a kernel from positions, and **find** a fault in it that the training does not show;
# - **say** where a gate must stand, and why;
# - **mend** a long convolution in which three lines are wrong.

# %%
from math import log2, log10, pi, sqrt

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu.datasets import neuron_voltage
from residual_edu.exercises import check
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import long_convolution, neuron

setup()
progress("08b")

# %% [markdown]
# ## A neuron's next milliseconds
#
# The voltage of a neuron, a recording that ships inside matplotlib, in standard deviations (std) from the mean:

# %%
fine = neuron_voltage()  # 6 seconds, one number each half millisecond
volt = fine.view(-1, 2).mean(1)  # one each millisecond
level, spread = volt[900:3600].mean(), volt[900:3600].std()
fine, volt = (fine - level) / spread, (volt - level) / spread
training, test = volt[900:2700], volt[2700:3600]


# %% jupyter={"source_hidden": true}
def axes(height=2.6):
    return Figure(figsize=(6, height)).add_subplot()


spikes = ((fine[1:] > 2) & (fine[:-1] <= 2)).nonzero()[:, 0] / 2
early, late = (
    spikes[(spikes > a) & (spikes < a + b)].diff()
    for a, b in ((900, 1800), (2700, 900))
)
print(f"a spike every {early.min():.1f} to {early.max():.1f} ms;", end=" ")
print(f"on average {early.mean():.1f} in training, {late.mean():.1f} in test")

# %% tags=["figure"]
ax = neuron.plot_predictions(volt[900:1500], {}, axes(2.4))
ax.set_title("A neuron that fires about every 71 ms")
show(ax.figure, alt="600 ms of voltage: a slow rise, then a sharp spike, eight times.")

# %% [markdown]
# What will the voltage be h milliseconds after time t? The simplest model is a weighted sum of the last 16 numbers,
#
# $$\hat x_{t+h} = k_0 x_t + k_1 x_{t-1} + \dots + k_{15} x_{t-15}$$
#
# Each weight is a **tap**, how far it looks back is its **lag**, and all taps are the **kernel**. They are learned for one h, from 1,800 ms, and tried on the next 900. The error is the mean squared one over the variance: predicting
# the mean costs 1. (Folded: error and training, 400 steps of Adam from zero.)


# %% jupyter={"source_hidden": true}
def convolve(x, kernel):
    n = x.shape[-1] + kernel.shape[-1]
    spectrum = torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n)
    return torch.fft.irfft(spectrum, n)[..., : x.shape[-1]]


def error(kernel, signal, ahead, skip=256):
    found, wanted = convolve(signal, kernel)[..., skip:-ahead], signal[skip + ahead :]
    return (found - wanted).square().mean() / wanted.var(correction=0)


class Stored(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.taps = nn.Parameter(torch.zeros(taps))

    def forward(self):
        return self.taps


def train(kernel, ahead=32, signal=training, steps=400):
    adam = torch.optim.Adam(kernel.parameters())
    for step in range(steps):
        adam.param_groups[0]["lr"] = 3e-3 * min(1, 2 * (1 - step / steps))
        loss = error(kernel(), signal, ahead)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return kernel().detach()


# %% tags=["predict"]
guess = predict(
    "16 taps. Which voltage is predicted best?",
    ["8 ms ahead", "32 ms ahead", "64 ms ahead", "all three alike"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
short = {ahead: train(Stored(16), ahead) for ahead in (8, 32, 64)}
errors = {ahead: error(short[ahead], test, ahead).item() for ahead in short}
print("error of 16 taps:", *(f"{h} ms ahead {errors[h]:.2f};" for h in errors))
holds(errors[64] < 0.2 < 0.7 < errors[32] < errors[8], "64 ms ahead alone works.")
drawn = {f"{h} ms ahead": convolve(test, short[h])[300 - h : 600 - h] for h in (8, 64)}
ax = neuron.plot_predictions(test[300:600], drawn, axes())
ax.set_title("16 taps predict 64 ms ahead, and not 8")
show(ax.figure, alt="Four spikes: made 64 ms before, the prediction lies on them.")
alike = max(errors.values()) - min(errors.values()) < 0.1
guess.reveal(
    "all three alike" if alike else f"{min(errors, key=errors.get)} ms ahead",
    why={
        "8 ms ahead": "The nearest future is usually the easiest. Here the last 16 ms "
        "do not tell when the next spike comes.",
        "32 ms ahead": "Neither the nearest nor the furthest. It does as badly as 8.",
        "64 ms ahead": "Strange as it is: more is told about what is further away.",
        "all three alike": "The model is the same, and so is what it reads. What is to "
        "be predicted is not.",
    },
    after="All three read the same 16 ms with as many taps. So what do these 16 ms "
    "hold about 64 ms ahead, and not about 8? A longer kernel shows what is missing.",
)

# %% [markdown]
# ## 256 taps
#
# Now the kernel is three and a half periods long, and is trained in the same way for h = 32.

# %% tags=["predict"]
guess = predict(
    "256 taps, h = 32. At which lag is the largest tap?",
    ["near 0", "near 32", "near 39", "near 71"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
long = train(Stored(256), 32)
peaks = [a + long[a : a + 60].argmax().item() for a in (10, 82, 154)]
print(f"error {error(long, test, 32).item():.2f}; peaks at the lags {peaks}")
ax = neuron.plot_kernel(long, axes(), named=peaks)
ax.set_title("256 taps, learned to predict 32 ms ahead")
alt = "A kernel over lags 0 to 255: near zero, with three peaks, at 39, 111 and 184, "
show(ax.figure, alt=alt + "each smaller than the one before, and dips beside the last.")
holds(peaks[0] == long.argmax().item() and 37 < peaks[0] < 42, "The first is largest.")
nearest = min((0, 32, 39, 71), key=lambda lag: abs(lag - peaks[0]))
guess.reveal(
    f"near {nearest}",
    why={
        "near 0": "The latest voltage is the nearest one, but it stands in another "
        "part of the period than what is asked.",
        "near 32": "32 ms back from *now* is 64 ms back from what is asked.",
        "near 39": "One period back from what is asked, seen from now.",
        "near 71": "One period back from *now*. What is asked lies 32 ms ahead of now.",
    },
    after="The voltage repeats after a period P, so $x_{t+32}$ is about "
    "$x_{t+32-P}$: the lag is P − 32. With P = 71 that is 39. One and two periods "
    "further back, at 111 and 184, stand the next peaks.",
)

# %% [markdown]
# So the tap that is needed stands at lag **P − h**, or a whole number of periods further back. (Not examined: the dips beside later peaks.) For h = 64 that is 7, for h = 32 it is 39, for h = 8 it is 63: only the first is among the lags 0 to 15.
#
# Does the *place* of the taps count, or do 32 ms take more than 16 of them? We keep 16, and change only the lag at which they begin. (So few taps need no steps: the best ones solve linear equations, folded.)


# %% jupyter={"source_hidden": true}
def past(signal, lags, ahead):  # (times, lags), and what comes after
    times = len(signal) - ahead - 256
    rows = [signal[256 - lag : 256 - lag + times] for lag in lags]
    return torch.stack(rows, dim=1).double(), signal[256 + ahead :].double()


def solved(lags, ahead=32):
    x, y = past(training, lags, ahead)
    taps = torch.linalg.lstsq(x, y).solution
    x, y = past(test, lags, ahead)
    return ((x @ taps - y).square().mean() / y.var(correction=0)).item()


# %% tags=["figure"]
starts = range(0, 221, 4)
found = [solved(range(first, first + 16)) for first in starts]
ax = axes(2.8)
neuron.plot_first_lags(starts, found, 16, peaks, error(long, test, 32).item(), ax)
ax.set_title("16 taps work where they cover a needed lag")
alt = (
    "Error for 32 ms ahead against the first of 16 lags: near 0.8 to 0.9, and between "
)
alt += "0.1 and 0.2 where the taps cover lag 39, 111 or 184."
show(ax.figure, alt=alt)
holds(min(found[6:10]) < 0.15 and found[0] > 0.7, "The place of the taps decides.")

# %% [markdown]
# It is the place: where they cover 39, 111 or 184, 16 taps are about as good as 256. A single tap of 1 at lag P − 32 copies the voltage of one period before:

# %%
for period in (70, 71, 72, 73):
    copy = F.one_hot(torch.tensor(period - 32), 64).float()
    print(f"a copy from {period} ms before: error {error(copy, test, 32):.2f}")

# %% [markdown]
# So one tap, in the right place, is nearly as good as 256 (.11). What is left we have not taken apart; one millisecond less or more costs .16 and .27. (39 was learned where spikes come every 71.1 ms; in the test it is 71.7.)
#
# An explorer in the [appendix](08b_long_convolution_more.ipynb) moves the 16 taps and the horizon.

# %% [markdown]
# ### Exercise 1 · 7 minutes · ●●○○○
#
# Write the sum for all times at once: the **causal convolution** $y_i = \sum_m k_m x_{i-m}$, with zeros before the start of the signal. x is (T,), `kernel` is (taps,), and T numbers come out. The kernel may be longer than the signal. By hand: 1, 2, 3, 4 with the taps 1, 2, −1 gives at position 2
# $1 \cdot 3 + 2 \cdot 2 - 1 \cdot 1 = 6$, and in all 1, 4, 6, 8.
#
# A loop will do, or a matrix.
#
# <details><summary>Hint 1</summary>A loop over taps, each adding a moved copy of the signal; or a matrix with k[i − j] in row i and column j.</details>
# <details><summary>Hint 2</summary>What stands at x[i − m] when i − m is below 0? Python's negative indices count from the end: here they must give 0.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "causal-convolution", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_convolution(x, kernel):
    """Return the causal convolution of x, (T,), with kernel, (taps,)."""
    ### BEGIN SOLUTION
    y = torch.zeros_like(x)
    for m in range(min(len(x), len(kernel))):
        y = y + kernel[m] * F.pad(x, (m, 0))[: len(x)]
    return y
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "causal-convolution-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(causal_convolution, "causal_convolution")

# %% [markdown]
# ## What a long kernel costs
#
# As a matrix, a causal convolution has one number on each diagonal and nothing above the main one (a **Toeplitz matrix**):

# %% tags=["figure"]
matrix = torch.tensor([[1, 0, 0, 0], [2, 1, 0, 0], [-1, 2, 1, 0], [0, -1, 2, 1]])
ax = long_convolution.plot_taps(matrix, axes(2.7))
ax.set_title("Each row is the one above, moved by one", loc="center")
alt = "A 4 by 4 matrix with 1 on its diagonal, 2 below, −1 below that; green above 0, "
show(ax.figure, alt=alt + "purple below 0, and grey zeros.")

# %% [markdown]
# With as many taps as positions, T outputs have up to T products each. There is another way, three lines long:
#
#     spectrum = torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n)
#     y = torch.fft.irfft(spectrum, n)          # n points, at least T
#     y = y[:T]
#
# `rfft(x, n)` fills up with zeros to n points and writes the signal as a sum of waves with a whole number of periods in n points. A convolution turns each wave into the same wave times one complex number, which stands in the kernel's transform: so the long sum becomes one product a wave. A fast transform takes about n log₂ n steps.
# Counted on paper, with a product and a sum for each tap, and three transforms at 5 n log₂ n operations:

# %% tags=["figure"]
lengths = [128 * 2**k for k in range(7)]
work = {"tap by tap": [2 * T * T for T in lengths]}
work["transform"] = [15 * 2 * T * log2(2 * T) + 6 * 2 * T for T in lengths]
slopes = {name: log2(row[-1] / row[-4]) / 3 for name, row in work.items()}
ax = long_convolution.plot_costs(lengths, work, slopes, axes(2.8))
ax.set(ylabel="operations", title="Twice as long: 4 times the work, or about 2")
alt = (
    "Operations over length, both axes logarithmic: tap by tap rises with slope 2, the "
)
show(ax.figure, alt=alt + "transform with slope 1.1.")

# %% [markdown]
# The clock, with 16 channels:


# %% tags=["trained"] jupyter={"source_hidden": true}
from time import process_time
from timeit import repeat


def direct(x, kernel):  # torch's conv1d does not turn the kernel round, so we do
    padded = F.pad(x, (x.shape[-1] - 1, 0))
    return F.conv1d(padded, kernel.flip(-1)[:, None], groups=16)


def seconds(way, T):
    x, kernel = torch.randn(2, 16, T)
    return min(repeat(lambda: way(x, kernel), number=1, repeat=7, timer=process_time))


for name, way in {"conv1d": direct, "transform": convolve}.items():
    slope = log2(seconds(way, 4096) / seconds(way, 512)) / 3
    print(f"{name}, twice as long: about {2 ** round(slope)} times the seconds")
    holds(abs(slope - (2 if way is direct else 1)) < 0.5, "Slopes 2 and about 1.")

# %% [markdown]
# The slopes are the law. From which length on the transform is faster is a property of an implementation.

# %% [markdown]
# ## Round a circle
#
# Such waves repeat after n points. So this is a convolution on a circle: after the last position comes the first. We take our 900 ms, the 256 taps and n = 900, and compare with the causal sum.

# %% tags=["predict"]
guess = predict(
    "900 positions, 256 taps, n = 900: how many outputs are wrong?",
    ["none", "the first 255", "the last 255", "all 900"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
right, outputs = convolve(test, long), {}
for n in (1155, 1154, 901, 900):
    spectrum = torch.fft.rfft(test, n) * torch.fft.rfft(long, n)
    outputs[n] = torch.fft.irfft(spectrum, n)[:900]
    places = ((outputs[n] - right).abs() > 1e-4).nonzero()[:, 0].tolist()
    print(f"n = {n:5,}: {len(places)} wrong outputs")
drawn = {"n = 900": outputs[900][:400], "n = 1,155": right[:400]}
ax = neuron.plot_predictions(None, drawn, axes())
ax.set_title("On a circle the end comes before the start")
show(ax.figure, alt="The two outputs differ up to position 254, and not after it.")
names = {tuple(range(255)): "the first 255", tuple(range(645, 900)): "the last 255"}
guess.reveal(
    names.get(tuple(places), "all 900" if len(places) == 900 else "none"),
    why={
        "none": "So it is where n is at least 900 + 255.",
        "the first 255": "Output i reaches back to position i − 255.",
        "the last 255": "A causal kernel looks back. The last outputs have their past.",
        "all 900": "An output is wrong only if one of its taps reaches round.",
    },
    after="Output i sums x at the positions i down to i − 255. On the circle a "
    "position below 0 is one at the end: so exactly taps − 1 outputs are wrong, the "
    "first ones, and each zero between end and start saves one. These outputs depend "
    "on the *last* inputs: the future leaks into the past.",
)

# %% [markdown]
# ## A kernel from its positions
#
# A stored kernel has a parameter for each tap and channel, and belongs to one length and one sampling rate. A **generated** kernel is a function of the position instead: lag m stands at position p = m / reach (here reach is 256), and a small network of sines
# ([SIREN](https://arxiv.org/abs/2006.09661), as used in [CKConv](https://arxiv.org/abs/2102.02611)) gives the tap there:
#
# $$h = \sin(w\,p + b) \qquad h' = \sin(W h) \qquad k(p) = v \cdot h'$$
#
# ### Exercise 2 · 8 minutes · ●●●○○
#
# Write it. `first` is w and `shift` is b, both (width,); `hidden` is W, with a row for each output; `last` is v. Return the taps at lags 0 to `lags` − 1. Lag m stands at m / `reach`, however many lags are asked for: so the same network can be read further out, or more finely.
#
# <details><summary>Hint 1</summary>Begin with the positions: a row for each, a column for each feature.</details>
# <details><summary>Hint 2</summary><code>p[:, None] * first</code> has the shape (lags, width). Which of the three maps are followed by a sine?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "siren-taps", "locked": false, "schema_version": 3, "solution": true, "task": false}
def siren_taps(first, shift, hidden, last, lags, reach):
    """Return the taps at lags 0 to lags - 1."""
    ### BEGIN SOLUTION
    p = torch.arange(lags, dtype=first.dtype) / reach
    h = (p[:, None] * first + shift).sin()
    return (h @ hidden.T).sin() @ last
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "siren-taps-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(siren_taps, "siren_taps")

# %% [markdown]
# The same as a module, with two things more: a **window** $e^{-c\,p}$, and `per`, the number of taps in a millisecond (twice as many taps must be half as large).


# %%
class Siren(nn.Module):
    def __init__(self, omega, channels=1, width=32, reach=256, window=0.0):
        super().__init__()
        self.reach, self.window = reach, window
        self.first, self.hidden = nn.Linear(1, width), nn.Linear(width, width)
        self.last = nn.Linear(width, channels)
        bounds = 2 * pi * omega, sqrt(6 / width), sqrt(6 / width / reach)
        for layer, bound in zip(self.children(), bounds, strict=True):
            nn.init.uniform_(layer.weight, -bound, bound)
        nn.init.uniform_(self.first.bias, -pi, pi)

    def forward(self, lags=None, per=1):
        p = torch.arange((lags or self.reach) * per)[:, None] / (self.reach * per)
        h = self.hidden(self.first(p).sin()).sin()
        return (self.last(h) * torch.exp(-self.window * p) / per).mT  # (channels, lags)


# %% [markdown]
# How fast may it wiggle? **ω₀** sets the size of the first weights. Here it counts *waves*: they begin between ±2π ω₀, so a sine of the first layer makes up to ω₀ waves in 256 taps. The paper counts *radians*, sin(ω₀ (w p + b)) with w between ±1: its ω₀ = 30 is about 5 waves in one unit of p. (It has an ω₀ in
# the hidden layers as well, and weights smaller by that factor: this cancels at the start, and not in the steps that follow.)
#
# On paper: peaks 4 to 6 ms wide need some tens of waves in 256 ms. And a wave needs two taps, so 256 taps hold 128.
#
# (Folded: the stored runs, three seeds each; their code stands at the end.)

# %% jupyter={"source_hidden": true}
from residual_edu.lesson import stored_runs

stored = stored_runs("08b_long_convolution")["runs"]


def three(name):
    return [stored[seed][name] for seed in range(3)]


# %% tags=["predict"]
guess = predict(
    "ω₀ = 256 in place of 64: the error on the 900 ms of the test is",
    ["smaller", "about the same", "twice as large", "above 1"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
waves = [1, 4, 16, 64, 256]
found = {"one tap a ms, as trained": [three(f"ω₀ {omega}") for omega in waves]}
flat = error(long, test, 32).item()
ax = neuron.plot_by_waves(waves, found, axes(2.8), flat)
ax.set_title("Too few waves cost; too many do not, so far")
alt = "Error against waves: 0.33 to 0.48 at 1, 0.24 to 0.27 at 4, 0.11 to 0.12 "
show(ax.figure, alt=alt + "from 16 to 256, like a stored kernel.")
ratio = sum(three("ω₀ 256")) / sum(three("ω₀ 64"))
holds(0.85 < ratio < 1.15, "256 waves do as well as 64.")
CHOICES = {"smaller": 0.85, "about the same": 1.15, "twice as large": 3}
guess.reveal(
    next((name for name, top in CHOICES.items() if ratio < top), "above 1"),
    why={
        "smaller": "More waves than 256 taps can hold add nothing that the taps show.",
        "about the same": "The error sees the taps alone, and every tap is trained.",
        "twice as large": "256 waves in 256 taps is more than the taps can hold. But "
        "the training asks for the taps, and gets them.",
        "above 1": "A network that wiggles too fast to be read can still be trained at "
        "the positions where it is read.",
    },
    after="What lies *between* the taps is asked for nowhere, neither in the training "
    "nor in this test.",
)

# %% [markdown]
# The recording has a number each half millisecond. So the same kernels can be read twice as finely, and tried on it:

# %% tags=["figure", "trained"]
found["two taps a ms"] = [three(f"ω₀ {omega}, finer") for omega in waves]
ax = neuron.plot_by_waves(waves, found, axes(2.8), flat)
ax.set_title("Read more finely, 256 waves fail")
alt = (
    "As before, with a second curve: read twice as finely the error is the same up to "
)
show(ax.figure, alt=alt + "64 waves, and 0.3 to 0.5 at 256.")
finer = three("ω₀ 256, finer")
holds(min(finer) > 0.18 and max(three("ω₀ 64, finer")) < 0.15, "Only 256 waves fail.")

# %% jupyter={"source_hidden": true} tags=["figure", "trained"]
both = (fig := Figure(figsize=(6, 2.6))).subplots(1, 2, sharey=True)
for omega, ax in zip((16, 256), both, strict=True):
    torch.manual_seed(0)
    kernel = Siren(omega)
    taps, curve = train(kernel)[0], 16 * kernel(per=16)[0].detach()
    lags, near = torch.arange(30, 51), torch.arange(30 * 16, 50 * 16 + 1)
    neuron.plot_between(lags, taps[lags], near / 16, curve[near], ax)
    ax.set_title(f"ω₀ = {omega}", weight="normal")
    gap = (curve[near[8::16]] - (taps[lags[1:]] + taps[lags[:-1]]) / 2).abs().max()
    holds((gap > 0.1) == (omega == 256), "Between the taps ω₀ = 256 goes its own way.")
title = "Right at the taps, wrong between them"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = (
    "Taps at lags 30 to 50 as dots on the generated function. With 16 waves it passes "
)
show(fig, alt=alt + "smoothly; with 256 it swings widely between neighbouring dots.")

# %% [markdown]
# So choose ω₀ by what the kernel must show, below half a wave a tap, and test at another sampling.
#
# ### Further out
#
# The kernel read out to 512 lags, twice as far as trained, three seeds, 32 ms ahead:

# %% tags=["trained"] jupyter={"source_hidden": true}
for name in ("ω₀ 16", "ω₀ 16, window 5", "ω₀ 16, window 14", "ω₀ 16, window 40"):
    near, far = three(name), [10**e for e in three(f"{name}, further (log10)")]
    row = "  ".join(f"{e:.2f}" for e in near) + "   to 512: "
    print(f"{name:18}", row + "  ".join(f"{e:.2f}" for e in far))
holds(min(far) > 0.5, "A window of 40 costs too much.")
last = [10**e for e in three("ω₀ 16, window 5, further (log10)")]
first = [10**e for e in three("ω₀ 16, further (log10)")]
holds(max(last) < 0.13 and min(first) > 0.7, "A window of 5 makes it safe.")

# %% [markdown]
# With a window of 5, at most $e^{-5}$ of the function is left beyond lag 256, and reading further is safe. A window of 40 leaves 0.2 % at lag 39, where the tap is needed.
#
# **What generating does not buy here.** The stored kernel has 256 parameters and the smallest error; the generated ones have 1,153, and at best come near it. Generating has fewer parameters from 1,153 taps a channel on, or for many channels: each takes 33 more.
#
# ## Where the rhythm is lost
#
# From 3.65 to 5.4 s the neuron fires irregularly. We cut this part in two, train 256 taps on either half and try them on the other, 8, 32 and 64 ms ahead: six errors.

# %% jupyter={"source_hidden": true}
halves = volt[3650:4525], volt[4525:5400]


def irregular():
    """Return errors on the other half and on the own half, and the control's."""
    tried, seen = [], []
    for ahead in (8, 32, 64):
        for here, there in (halves, halves[::-1]):
            kernel = train(Stored(256), ahead, here)
            tried.append(error(kernel, there, ahead).item())
            seen.append(error(kernel, here, ahead).item())
    control = train(Stored(256), 32, volt[900:1775])
    return tried, seen, error(control, test, 32).item()


# %% tags=["predict"]
guess = predict(
    "Irregular spikes, 256 taps: the mean of the six errors is near",
    [".1", ".4", ".9"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
tried, seen, regular = irregular()
print("on the other half:", *(f"{one:.2f}" for one in tried))
print("on its own half:  ", *(f"{one:.2f}" for one in seen))
print(f"control, as many regular milliseconds, 32 ms ahead: {regular:.2f}")
mean = sum(tried) / 6
holds(0.7 < mean < 1.1 and regular < 0.2, "A fixed kernel does badly there.")
drawn = {"32 ms ahead": convolve(halves[1], train(Stored(256), 32, halves[0]))[228:828]}
ax = neuron.plot_predictions(halves[1][260:860], drawn, axes())
ax.set_title("Irregular spikes: late, missed or invented")
alt = "600 ms with spikes at irregular distances, and a prediction whose peaks come "
show(ax.figure, alt=alt + "late or elsewhere.")
guess.reveal(
    min((".1", ".4", ".9"), key=lambda text: abs(float(text) - mean)),
    why={
        ".1": "So it is on regular spikes. Here no lag is the same from one spike to "
        "the next.",
        ".4": "Nearer to what it reaches on the half that it was trained on.",
        ".9": "Little better than always predicting the mean.",
    },
    after="On their own half they reach .4 to .6: they have fitted distances that do "
    "not come again. As many milliseconds of *regular* spikes are enough. A kernel has "
    "its taps at fixed lags, and here the lag that is needed changes. Whether one that "
    "depends on the input does better on this recording we have not tried.",
)

# %% [markdown]
# ## The adding problem
#
# At each of 128 positions there are a number between 0 and 1 and a mark, 0 or 1. Two positions are marked, anywhere. Wanted, at the last position: the sum of the two marked numbers.
#
#     number   .3  .9  .1  .5  .7  .2
#     mark      0   1   0   0   1   0        wanted: .9 + .7 = 1.6
#
# On paper: the best weighted sum with fixed weights gives each number the weight 1/64, the chance that it is marked. Its error is 1 − 1/64 = .984 of guessing the mean: nearly nothing is gained.
#
# What is missing is a product, number times mark. A **gate** is a product of two linear maps of the same position. Five networks, with a generated kernel of 8 channels: the convolution alone; a gate, or an MLP on each position with a skip, before it or behind it. 600 steps.


# %%
class Adder(nn.Module):
    def __init__(self, stages, width=8, squash=nn.Identity):
        super().__init__()
        self.stages, self.squash = stages.split(), squash()
        self.enter, self.out = nn.Linear(2, 3 * width), nn.Linear(width, 1)
        self.kernel = Siren(1, width, 16, reach=128)
        layers = nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width)
        self.mlp = nn.Sequential(*layers)

    def forward(self, x):  # (batch, positions, 2)
        h, *gates = self.enter(x).chunk(3, dim=-1)
        for stage in self.stages:
            if stage == "convolution":
                h = convolve(h.mT, self.kernel()).mT
            else:
                h = h + self.mlp(h) if stage == "MLP" else h * self.squash(gates.pop())
        return self.out(h[:, -1])[:, 0]


# %% tags=["predict"]
guess = predict(
    "Which of the five networks reaches an error below .1 in 600 steps?",
    ["gate, convolution", "convolution, gate", "MLP, convolution", "two of them"],
)


# %% jupyter={"source_hidden": true}
FIVE = ["convolution", "convolution, MLP", "convolution, gate", "MLP, convolution"]
FIVE.append("gate, convolution")
MORE = {"MLP, convolution: 2,000": 2000, "MLP, convolution: 6,000": 6000}
MORE |= {"convolution, MLP: 6,000": 6000, "convolution, gate: 6,000": 6000}


def adding(count, generator):
    number, mark = torch.rand(count, 128, generator=generator), torch.zeros(count, 128)
    places = torch.rand(count, 128, generator=generator).argsort(1)[:, :2]
    mark.scatter_(1, places, 1.0)
    return torch.stack([number, mark], -1), (number * mark).sum(1)


def learn(stages, seed=0, steps=600, **ways):
    torch.manual_seed(seed)
    net, generator = Adder(stages, **ways), torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(net.parameters())
    for step in range(steps):
        adam.param_groups[0]["lr"] = 1e-2 * min(1, 2 * (1 - step / steps))
        x, y = adding(32, generator)
        loss = F.mse_loss(net(x), y)
        adam.zero_grad()
        loss.backward()
        adam.step()
    x, y = adding(2000, torch.Generator().manual_seed(99))
    with torch.no_grad():
        return (F.mse_loss(net(x), y) / y.var()).item()


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
live = learn("gate convolution")
holds(live < 0.05, "A gate before the convolution learns it.")
found = {name: three(name) for name in FIVE}
ax = neuron.plot_errors_by_name(found, axes(), 1 - 1 / 64)
ax.set_title("600 steps: a gate before the convolution")
alt = "Errors on a logarithmic axis, three seeds. Four networks at 0.97 to 1, on the "
show(ax.figure, alt=alt + "dashed line; a gate before the convolution: below 0.004.")
done = [name for name in FIVE if max(found[name]) < 0.1]
guess.reveal(
    done[0] if len(done) == 1 else "two of them",
    why={
        "gate, convolution": "The gate makes number times mark, and the convolution "
        "adds up.",
        "convolution, gate": "What it multiplies are sums of 128 numbers already.",
        "MLP, convolution": "It can make the product: GELU(number + mark − 1) is "
        "near it. In 600 steps it has not learned to.",
        "two of them": "An MLP before the convolution could, and has not yet.",
    },
    after="In three of them the convolution comes too early: a few fixed sums of 128 "
    "numbers do not tell which two were marked, whatever follows. An MLP before it "
    "could make the product. Is it the gate, then, or the place?",
)

# %% [markdown]
# Gate or place? The others get up to ten times the steps.

# %% tags=["trained", "figure"]
found = {name: three(name) for name in ("MLP, convolution", *MORE)}
ax = neuron.plot_errors_by_name(found, axes(), 1 - 1 / 64)
ax.set_title("The place decides; an MLP takes longer")
alt = (
    "Errors, three seeds. An MLP before the convolution: near 1 after 600 steps, below "
)
alt += "0.01 after 6,000. MLP or gate behind it: near 1 after 6,000 steps."
show(ax.figure, alt=alt)
late = three("convolution, MLP: 6,000") + three("convolution, gate: 6,000")
early = three("MLP, convolution: 6,000")
holds(max(early) < 0.1 < 0.9 < min(late), "The place decides.")

# %% [markdown]
# **What stands before the convolution decides.** A gate there learned it in 600 steps, an MLP there in 6,000; behind the convolution neither did in 6,000.
#
# ### Hyena
#
# Hyena has a gate on either side of a long generated kernel. Two forms share the names:
#
# | | formula | convolved | gates |
# |---|---|---|---|
# | [Poli et al., 2023](https://arxiv.org/abs/2302.10866), order 2 | q · conv(k · v) | the value | plain products |
# | this library's `Hyena`, a variant | conv(q · silu(k)) · silu(v) | the query | SiLU |
#
# In both, a short convolution of three taps comes before all three. Without it, on the adding problem:

# %% tags=["trained"] jupyter={"source_hidden": true}
for name in ("Hyena, the paper's", "Hyena, the library's"):
    for steps, row in (("600", three(name)), ("2,000", three(f"{name}: 2,000"))):
        errors = "  ".join(f"{error:.4f}" for error in row)
        print(f"{name}, {steps:>5} steps:", errors)
    holds(max(row) < 0.1, "Both learn it in 2,000 steps.")

# %% [markdown]
# Both learn it in 2,000 steps; in 600, one of three networks of the library's form had not begun to. One gate, before the convolution, is enough here. The whole mixer stands in the [appendix](08b_long_convolution_more.ipynb), with a check that takes either form.
#
# ## A network with three wrong lines
#
# At each position it should give, from the past alone, the sum of the marked numbers so far; it is trained at the last one. It raises no error.


# %%
class Handed(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.out = nn.Linear(2, 16), nn.Linear(8, 1)
        self.kernel = Siren(1, 8, 16, reach=128)

    def convolve(self, x, taps):
        n = x.shape[-1]
        return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(taps, n), n)

    def forward(self, x):  # (batch, positions, 2) to (batch, positions)
        content, gate = self.enter(x).mT.chunk(2, dim=1)
        self.kernel.reach = x.shape[1]
        h = self.convolve(content, self.kernel()) * gate
        return self.out(h.mT)[..., 0]


# %% [markdown]
# ### Exercise 3 · 12 minutes · ●●●●○
#
# Return a network that is right for up to 128 positions: causal; with one kernel for every length, so that the outputs for 64 positions are the first 64 of 128; and with an error below .1 after 600 steps as above. Any mend counts, a new class as well. Measure first, in a cell of your own: one number for each line.
#
# <details><summary>Hint 1</summary>Other inputs at the end, outputs at the start; 64 positions alone, and as the first of 128; the error after training.</details>
# <details><summary>Hint 2</summary>How many points has the circle? At which positions is the kernel read? What does the convolution sum up before the gate selects?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-convolution", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_convolution():
    """Return a network, (batch, positions, 2) to (batch, positions)."""

    ### BEGIN SOLUTION
    class Mended(Handed):
        def forward(self, x):
            content, gate = self.enter(x).mT.chunk(2, dim=1)
            h = convolve(content * gate, self.kernel(lags=x.shape[1]))
            return self.out(h.mT)[..., 0]

    return Mended()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-convolution-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mended_convolution, "mended_convolution")

# %% [markdown]
# Two faults leave no trace in the loss: at the last position nothing wraps around, and all rows of the training have one length.
#
# ## Where it stops
#
# One recording and a linear model; and a task made to need a product. The [appendix](08b_long_convolution_more.ipynb) reads a kernel off in two dimensions, where it finds the ghost in a photograph.
#
# (Folded: the code of the stored runs.)


# %% jupyter={"source_hidden": true}
JOBS = {name: (name.replace(",", ""), {}) for name in FIVE}
for name, steps in MORE.items():
    JOBS[name] = (name.partition(":")[0].replace(",", ""), {"steps": steps})
JOBS["Hyena, the paper's"] = ("gate convolution gate", {})
JOBS["Hyena, the library's"] = ("gate convolution gate", {"squash": nn.SiLU})
for name in ("Hyena, the paper's", "Hyena, the library's"):
    stages, how = JOBS[name]
    JOBS[f"{name}: 2,000"] = (stages, how | {"steps": 2000})


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.15):
    """Return errors, and of kernels read further out the logarithm of theirs."""
    found = {}
    for omega, window in [
        *((w, 0) for w in (1, 4, 16, 64, 256)),
        (16, 5),
        (16, 14),
        (16, 40),
    ]:
        torch.manual_seed(seed)
        kernel = Siren(omega, window=float(window))
        train(kernel)
        name = f"ω₀ {omega}" + (f", window {window}" if window else "")
        with torch.no_grad():
            found[name] = error(kernel(), test, 32).item()
            finer = error(kernel(per=2), fine[5400:7200], 64, skip=512).item()
            further = error(kernel(lags=512), volt[2444:3600], 32, skip=512).item()
        found |= {f"{name}, finer": finer, f"{name}, further (log10)": log10(further)}
    for name, (stages, ways) in JOBS.items():
        found[name] = learn(stages, seed, **ways)
    return {name: round(number, 4) for name, number in found.items()}


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. Where a signal repeats after P, a tap for h ahead belongs at lag P − h: one tap there has .12, 256 have .11, 16 elsewhere .8 | P > h, else whole periods more; regular spikes (irregular: .9) |
# | 2. On n points, of T outputs the first are wrong: taps − 1 for n = T, one less for each zero added. T² becomes T log T | where the two cross depends on the implementation |
# | 3. A generated kernel can be read further out and more finely, with waves enough for its peaks, not more than its taps hold, and a window. Too many waves show at a finer sampling alone | here a stored kernel is as good, with fewer parameters |
# | 4. What a convolution cannot select must be selected before it. A gate there learned it in 600 steps, an MLP in 6,000; behind it neither did in 6,000 | the adding problem |

# %%
summary("08b")

# %% [markdown]
# ## Next
#
# - [Lesson 08c](08c_selective_scan.ipynb) carries a memory along the sequence, step by step.
# - [The appendix](08b_long_convolution_more.ipynb): the library's long convolution, SIREN, masks, CKConv and Hyena; two dimensions.
# - [Homework for lessons 08a and 08b](homework/hw_08a_08b.ipynb).
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
