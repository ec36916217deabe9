# %% [markdown]
# # Investigation 08b · How fast may a generated kernel wiggle?
#
# 40 minutes. You need [lesson 08b](../08b_long_convolution.ipynb). No lesson needs this.
#
# In step 8 of the lesson a network of sines computes the tap at each lag. Its `omega` sets
# how many waves a sine of the first layer makes at most within 256 taps at the start. A
# wave needs two taps, so 256 taps can hold 128 waves. What if omega is smaller than the
# kernel needs? And what if it is larger than the taps can hold?

# %%
from math import pi, sqrt

import torch
from torch import nn

from residual_edu import long_convolution
from residual_course.lesson import predict, setup, show

device = setup()

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import neuron_voltage
from residual_course.plots.style import DROPPED, REFERENCE, SERIES, B

fine = neuron_voltage()  # one number each half millisecond
volt = fine.view(-1, 2).mean(1)  # and each millisecond
level, spread = volt[900:3600].mean(), volt[900:3600].std()
fine, volt = (fine - level) / spread, (volt - level) / spread
training, test = volt[900:2700], volt[2700:3600]
finer_test = fine[5400:7200]  # the same 900 ms


def error(kernel, signal, ahead=32, skip=256):
    x, taps = signal[None, :, None], kernel.flatten()[None, :, None]
    found = long_convolution(x, taps, "causal")[0, skip:-ahead, 0]
    wanted = signal[skip + ahead :]
    return (found - wanted).square().mean() / wanted.var(correction=0)


def trained(kind, *sizes, seed=0, steps=400):
    """Train a kernel to predict 32 ms ahead, as in the lesson."""
    torch.manual_seed(seed)
    kernel = kind(*sizes)
    adam = torch.optim.Adam(kernel.parameters())
    for step in range(steps):
        adam.param_groups[0]["lr"] = 3e-3 * min(1, 2 * (1 - step / steps))
        loss = error(kernel(), training)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return kernel


@torch.no_grad()
def scores(kernels, taps=256):
    return [error(kernel(taps), test).item() for kernel in kernels]


@torch.no_grad()
def scores_read_finely(kernels):
    return [error(kernel(per=2), finer_test, 64, 512).item() for kernel in kernels]


def axes(height=2.8):
    return Figure(figsize=(6, height)).add_subplot()


def say(name, found):
    print(f"{name:20}", "  ".join(f"{value:6.2f}" for value in found))


# %% [markdown]
# The network is the lesson's with a second layer of sines, and with `per` taps a
# millisecond. With twice as many taps each must be half as large.


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

    def forward(self, taps=256, per=1):
        p = torch.arange(taps * per) / (self.reach * per)
        h = torch.sin(self.first(p[:, None]))
        h = torch.sin(self.hidden(h))
        return self.last(h).mT / per


class Stored(nn.Module):
    def __init__(self):
        super().__init__()
        self.taps = nn.Parameter(torch.zeros(256))

    def forward(self):
        return self.taps


# %% [markdown]
# ## 1 · Too few waves, and too many
#
# The peaks of the lesson's stored kernel are 4 to 6 ms wide. Such a peak is half a wave of
# 8 to 12 ms, so on paper some 20 to 30 waves are needed. And 256 waves are twice what 256
# taps can hold.

# %% too-many tags=["trained"]
with predict(
    "omega = 256 in place of 64: the error on the test is",
    ["smaller", "about the same", "twice as large", "above 1"],
):
    waves = [1, 4, 16, 64, 96, 256]
    kernels = {
        omega: [trained(Siren, omega, seed=seed) for seed in range(3)]
        for omega in waves
    }
    coarse = {omega: scores(three) for omega, three in kernels.items()}
    stored = trained(Stored)().detach()
    for omega in waves:
        say(f"omega {omega}", coarse[omega])
    say("stored", [error(stored, test)])

# %% [markdown]
# Too few waves cost, as on paper: with 1 and 4 the error is larger, from 16 on it is that of the
# stored kernel. Too many cost nothing that this test would show.
#
# ## 2 · A finer reading
#
# The recording has a number each half millisecond. So the same kernels can be read twice as
# finely and tried on it. A stored kernel can be made finer too, by a straight line
# between neighbouring taps.

# %% finer tags=["trained"]
finer = {omega: scores_read_finely(three) for omega, three in kernels.items()}
between = (stored + torch.cat([stored[1:], stored[-1:]])) / 2
lined = torch.stack([stored, between], dim=1).flatten() / 2

# %% finer-drawn jupyter={"source_hidden": true} tags=["trained"]
rows = {
    "one tap a ms": [coarse[omega] for omega in waves],
    "two taps a ms": [finer[omega] for omega in waves],
}
flat = [error(stored, test).item(), error(lined, finer_test, 64, 512).item()]
ax, stored_at = axes(), 4 * waves[-1]
for name, own, look in zip(rows, flat, SERIES, strict=False):
    (ink, dash, mark), each = look, torch.tensor(rows[name])
    ax.plot(waves, each, mark, color=ink, ms=4, fillstyle="none")
    ax.plot(waves, each.mean(1), color=ink, ls=dash, lw=1.2, label=name)
    ax.plot(stored_at, own, mark, color=ink, ms=6, fillstyle="none")
ax.axhline(flat[0], color=REFERENCE, ls=":", lw=1)
ax.set_ylim(bottom=0)
ax.set_xscale("log", base=2)
ax.set_xticks([*waves, stored_at], [*(f"{each:g}" for each in waves), "stored"])
ax.minorticks_off()
ax.legend(loc="upper center")
ax.set(xlabel="omega: waves in 256 taps", ylabel="error")
ax.set_title("Read more finely, too many waves cost")
show(ax.figure)

# %% [markdown]
# Up to 64 waves the finer reading is as good as the other. From 96 on it is worse. Here
# is why: the network at lags 30 to 50, read sixteen times as finely, and the taps that were
# trained.

# %% between-drawn jupyter={"source_hidden": true} tags=["trained"]
figure = Figure(figsize=(6, 2.6))
gaps = {}
for omega, ax in zip((16, 256), figure.subplots(1, 2, sharey=True), strict=True):
    with torch.no_grad():
        taps = kernels[omega][0]()[0]
        curve = 16 * kernels[omega][0](per=16)[0]
    lags, near = torch.arange(30, 51), torch.arange(30 * 16, 50 * 16 + 1)
    ax.plot(near / 16, curve[near], color=DROPPED, lw=1)
    ax.plot(lags, taps[lags], "o", color=B, ms=5)
    ax.set(xlabel="lag (ms)", ylabel="tap")
    ax.set_title(f"omega = {omega}", weight="normal")
    middle = (taps[lags[1:]] + taps[lags[:-1]]) / 2
    gaps[omega] = (curve[near[8::16]] - middle).abs().max().item()
title = "256 waves: right at the taps, wrong between"
figure.suptitle(title, x=0.01, ha="left", weight="bold")
show(figure)

# %% [markdown]
# With 256 waves the function passes through the same taps and swings widely between them.
# Nothing in the training asks what happens there.
#
# ## 3 · Too few waves, or too few steps?
#
# `omega` bounds the first weights at the start only, and training can enlarge them. So are
# 400 steps too few for omega = 1? We give it ten times as many.

# %% longer tags=["trained"]
with predict(
    "omega = 1 and 4,000 steps: the error on the test is",
    ["as after 400", "somewhat smaller", "as with omega = 64"],
):
    slow = [trained(Siren, omega, steps=4000) for omega in (1, 4)]
    patient = scores(slow)
    say("omega 1, 4,000 steps", patient[:1])
    say("omega 4, 4,000 steps", patient[1:])

# %% [markdown]
# ## 4 · Beyond the taps
#
# The network gives a tap at *any* lag. What does it give beyond the 256 that were trained?
# We read 512. A second kernel is multiplied by a window $e^{-5p}$, in training
# too, as in Hyena; at p = 1 a hundred-and-fiftieth is left.


# %%
class Windowed(Siren):
    def forward(self, taps=256, per=1):
        p = torch.arange(taps * per) / (self.reach * per)
        return super().forward(taps, per) * torch.exp(-5 * p)


# %% beyond tags=["trained"]
with predict(
    "omega = 16, no window, 512 taps read: the error is",
    ["as with 256", "about twice as large", "above 1"],
):
    windowed = [trained(Windowed, 16, seed=seed) for seed in range(3)]
    bare, far = scores(kernels[16], taps=512), scores(windowed, taps=512)
    say("no window, 256 taps", scores(kernels[16]))
    say("no window, 512 taps", bare)
    say("window, 256 taps", scores(windowed))
    say("window, 512 taps", far)

# %% [markdown]
# Beyond the 256 taps nothing was trained, and nothing makes the taps small there. The window
# does, so a longer reading does no harm.
#
# ## 5 · Beside the question: the two gates
#
# The lesson's mixer has two gates. We take the task of its step 9 with 64 positions, about
# four marks a signal and questions at half of them. Without a gate its two factors are
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
        q, k, v = self.enter(x).chunk(3, dim=-1)
        z = k * v if self.first else k + v
        h = long_convolution(z, self.kernel(x.shape[1]).mT[None], "causal")
        y = q * h if self.second else q + h
        return self.leave(y)[..., 0]


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
        loss = nn.functional.mse_loss(net(x), wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()
    x, wanted = marked_sums(1000, torch.Generator().manual_seed(99))
    with torch.no_grad():
        return (nn.functional.mse_loss(net(x), wanted) / wanted.var()).item()


# %% two-gates tags=["trained"]
gates = {
    "no gate": (False, False),
    "first gate alone": (True, False),
    "second gate alone": (False, True),
    "both gates": (True, True),
}
ablated = {}
for name, (first, second) in gates.items():
    ablated[name] = [learned(first, second, seed) for seed in range(3)]
    say(name, ablated[name])

# %% [markdown]
# The error is over that of the mean, for three seeds. Each gate helps alone, the second more,
# and only both together solve the task.
#
# ## What we found
#
# - Too few waves cost at once, and more steps made up for it slowly.
# - Too many cost nothing at the taps, and much between them. A test at the sampling of the
#   training does not see it, so test at another one.
# - On this recording up to 64 waves were safe, a quarter of a wave a tap.
# - A longer reading needs a window.
# - A generated kernel was never better than a stored one here. It has fewer parameters from
#   about 1,150 taps on, or with many channels.
