# %% [markdown]
# # 08b · Long convolutions and Hyena
#
# 85 minutes. It needs no network connection. Of [lesson 08a](08a_attention.ipynb) it uses what causal means and
# that attention has a score for every pair of positions; of its [appendix](08a_attention_more.ipynb), the mixing matrix. At the end a convolution is the mixer in the block of
# [lesson 07a](07a_residual_block.ipynb).
#
# By the end you can
#
# - **compute** a convolution by hand, and write it as a matrix of who hears whom;
# - **choose** the circle on which a Fourier transform gives the right answer, and say what goes wrong on a smaller one;
# - **say** a kernel of any length with the same few thousand numbers, and bend it by a condition;
# - **test** that no position hears a later one;
# - **tell** a mixer that mixes the same way whatever it reads from one that listens.

# %% [markdown]
# ## Before we start: three questions on earlier lessons
#
# Answer aloud, then open.
#
# <details><summary>1. Attention among T positions. The signal gets twice as long: how many times as much
# work?</summary>Four times: there is a score for every pair of positions (lesson 08a).</details>
#
# <details><summary>2. In the block of lesson 07a, which part lets one position hear another?</summary>The sequence mixer
# alone. Norm, MLP and skip work on each position by itself.</details>
#
# <details><summary>3. What does a row of a mixing matrix hold?</summary>How loudly one position hears each of the
# others: the size of the Jacobian between them (08a, appendix).</details>

# %%
import time
from functools import partial
from math import log2, pi
from timeit import repeat

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional

from residual_edu import MLP, LayerNorm, QKVSequenceMixer, ResidualBlock
from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.explorers.long_convolution import explore_kernel
from residual_edu.gradient_flow import GradientFlowRecorder, mixing_matrix
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import long_convolution as plots
from residual_edu.plotting.mixing_matrix import plot_mixing_matrix
from residual_edu.plotting.stream import plot_stream
from residual_edu.training import accuracy, minibatches, train

device = setup()
progress("08b")

# %%
# What the finished pieces of this lesson are made with.

from residual_edu.mixers.long_convolution import PADDINGS, convolution_matrix
from residual_edu.mixers.real_fft import real_fft

# %% [markdown]
# ## Four numbers
#
# A signal says 1, 2, 3, 4. A kernel has three taps, 1, 2 and −1, and slides along it:
#
# $$y_i = \sum_j k_{i - j + c} \, x_j$$
#
# i − j is the **lag**, how far back position i listens, and c is the tap that stands at lag 0, here the middle one. So
# the first tap meets the number *after*, the last one the number *before*. **What comes out at position 1, where the
# signal says 2?**

# %% tags=["predict"]
guess = predict("1, 2, 3, 4 with the taps 1, 2, −1. At position 1:", ["2", "4", "6"])

# %% tags=["reveal"]
# Answer first, then run this cell.
x, kernel = torch.tensor([1.0, 2, 3, 4]), torch.tensor([1.0, 2, -1])
matrix = torch.zeros(4, 4)
for i in range(4):
    for j in range(4):
        if 0 <= i - j + 1 < 3:
            matrix[i, j] = kernel[i - j + 1]
print(matrix @ x)
guess.reveal("6")

fig = Figure(figsize=(6, 3.6))
ax = plots.plot_taps(matrix, fig.add_subplot())
ax.set_title("Each row is the row above it,\nmoved one to the right")
show(fig, alt="A 4 by 4 matrix: 2 on the diagonal, 1 right of it, −1 left of it, else 0. All rows are alike but moved.")

# %% [markdown]
# 1 · 3 + 2 · 2 − 1 · 1 is 6. Had you laid the taps the other way round you would have found 2, and been in good company:
# what PyTorch calls a convolution does not turn its kernel round. For learned taps that makes no difference. Here we do,
# since Fourier does.
#
# **Law.** A convolution is a matrix with one number on each diagonal (a Toeplitz matrix): what one position hears from
# three places back is what every position hears from there. 2 T − 1 taps say T² numbers.
#
# ## Beyond the ends
#
# Position 0 has nobody before it, and there are three answers to that. Zeros, as above. The other end, as if the signal
# ran round a circle. Or a kernel whose *first* tap stands at lag 0, so that nobody ahead is heard at all.
# `convolution_matrix` writes all three; its text stands further down.

# %%
fig = Figure(figsize=(6, 3.1))
for ax, padding in zip(fig.subplots(1, 3, sharey=True), PADDINGS, strict=True):
    matrix = convolution_matrix(kernel, 4, padding)
    plots.plot_taps(matrix, ax).set_title(f"{padding}: {', '.join(f'{y:g}' for y in matrix @ x)}", weight="normal")
    ax.set(xlabel="input position", ylabel="output position" if padding == "zero" else "")
fig.suptitle("Three answers to what lies beyond the ends", x=0.01, ha="left", weight="bold")
show(
    fig, alt="Three matrices of the same taps: zero has three diagonals, circular two corners more, causal none above."
)

for padding in PADDINGS:
    written = convolution_matrix(kernel, 4, padding).to(device)
    measured = mixing_matrix(lambda s, m=written: m @ s, x.view(1, 4, 1).to(device))
    assert torch.equal(measured, written.abs().double().cpu())
print("measured = written, for all three")

# %% [markdown]
# The circle fills two corners: position 0 hears position 3 as its neighbour. The causal matrix is empty above its
# diagonal, and that empty triangle is what *causal* means.
#
# The mixing matrix of 08a's appendix is *measured*, through Jacobians, for any mixer. The last lines of the cell measured
# these three, and found what we wrote down.

# %% [markdown]
# ## Why a circle
#
# By the matrix a signal of T takes T² steps. The way round goes through waves. Send a wave $e^{2 \pi i f t / T}$ through
# the circular matrix. **What comes out?**

# %% tags=["predict"]
guess = predict(
    "A wave through a circular convolution:",
    ["the same wave, louder or softer, and moved", "a mixture of waves", "a constant"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
circle = convolution_matrix(kernel, 4, "circular").to(torch.complex64)
laid = torch.tensor([2.0, -1, 0, 1])  # the taps at lags 0, 1, 2, 3; lag 3 is lag −1, once round
for f, number in enumerate(torch.fft.fft(laid)):
    wave = torch.exp(2j * pi * f * torch.arange(4) / 4)
    assert torch.allclose(circle @ wave, number * wave, atol=1e-6)
guess.reveal("the same wave, louder or softer, and moved")

# %% [markdown]
# One complex number for each wave: its size says how much louder, its angle how far moved. And those numbers are the
# Fourier transform of the taps. So a circular convolution is three steps: transform both, multiply wave by wave,
# transform back. A fast transform (FFT) does each in about T log T.
#
# The price: waves that fit into T positions know circles alone. Here is a signal with a bump near its right end, and
# eight taps that carry it further to the right.

# %%
bump = torch.zeros(24)
bump[19:22] = torch.tensor([0.5, 1.0, 0.5])
taps = 0.35 * 0.75 ** torch.arange(8)
wrapped = torch.fft.irfft(torch.fft.rfft(bump) * torch.fft.rfft(taps, 24), 24)
padded = torch.fft.irfft(torch.fft.rfft(bump, 31) * torch.fft.rfft(taps, 31), 31)[:24]

fig = Figure(figsize=(6, 3.2))
ax = plots.plot_ends(bump, {"on a circle of 24": wrapped, "on one of 31": padded}, fig.add_subplot())
ax.set(ylim=(-0.05, 1.4), title="What leaves on the right comes back on the left")
show(fig, alt="A bump at position 20. On a circle of 24 its trail comes back at 0 to 4; on one of 31 it does not.")
assert wrapped[:5].min() > 0.01 and padded[:5].abs().max() < 1e-6
assert torch.allclose(wrapped[7:], padded[7:], atol=1e-6)

# %% [markdown]
# **Law.** A transform of n points convolves round a circle of n. A line is laid on a circle with so many zeros between
# its ends that no tap reaches across: seven for these eight taps, 24 + 7. A centred kernel reaches only half as far to
# either side, and needs (taps − 1) / 2: the same zeros stand after the end and before the start.

# %% [markdown]
# ### Exercise 1 · 8 minutes · ●●○○○
#
# Write the causal convolution of a signal `x`, shape (T,), with a `kernel`, shape (taps,): $y_i = \sum_m k_m x_{i - m}$,
# zeros before the start. As many numbers come out as went in. The kernel may be longer than the signal.
#
# <details><summary>Hint 1</summary>Two ways: add moved copies of the signal, or go through <code>torch.fft</code> with
# room to spare.</details>
# <details><summary>Hint 2</summary><code>torch.fft.rfft(x, n)</code> pads with zeros up to n points. With
# n = len(x) + len(kernel) nothing comes round; keep the first len(x) of the result.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "causal-convolution", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_convolution(x, kernel):
    """Return the causal convolution of x, (T,), with kernel, (taps,)."""
    ### BEGIN SOLUTION
    points = len(x) + len(kernel)
    spectrum = torch.fft.rfft(x, points) * torch.fft.rfft(kernel, points)
    return torch.fft.irfft(spectrum, points)[: len(x)]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "causal-convolution-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(causal_convolution, "causal_convolution")

# %% [markdown]
# ## The long convolution
#
# All of it together: the matrix, which is the definition, and the fast way, for one to three axes and any padding. Three
# habits are worth a look. The transforms run along the *last* axes of a contiguous tensor, where memory is read in
# order. The circle is rounded up to a length of small prime factors, which an FFT likes best. And `real_fft` is
# `torch.fft.rfftn` with a cheaper backward pass: a real transform, where torch takes a complex one, half of it zeros. The
# cell below compares the fast way with the definition, three seeds, and then it asks you.


# %% tags=["promote:mixers/long_convolution"] jupyter={"source_hidden": true}
import torch
from torch.nn import functional

from residual_edu.mixers.long_convolution import padding_of_each_axis
from residual_edu.mixers.real_fft import real_fft


def convolution_matrix(kernel, length, padding="zero"):
    # kernel: ..., taps; result: ..., length, length
    position = torch.arange(length, device=kernel.device)
    tap = position[:, None] - position + centre(kernel.shape[-1], padding)
    if padding == "circular":
        tap = tap % length
    within = (tap >= 0) & (tap < kernel.shape[-1])
    return kernel[..., tap.clamp(0, kernel.shape[-1] - 1)].where(within, 0)


def centre(taps, padding):
    """Return the index of the tap at lag 0."""
    return 0 if padding == "causal" else (taps - 1) // 2


def long_convolution(x, kernel, padding="zero"):
    # x: batch, ..., channels; kernel: batch or 1, ..., channels
    paddings = padding_of_each_axis("padding", padding, x.ndim - 2)
    space, taps = x.shape[1:-1], kernel.shape[1:-1]
    # the CPU has no 16-bit FFT
    wide = torch.promote_types(
        torch.promote_types(x.dtype, kernel.dtype), torch.float32
    )
    # batch, channel, *space: fast rows
    signal, kernel = (z.to(wide).movedim(-1, 1).contiguous() for z in (x, kernel))
    sizes = [fft_size(*each) for each in zip(space, taps, paddings, strict=True)]
    for axis, (size, one) in enumerate(zip(sizes, paddings, strict=True), start=2):
        kernel = pad_and_roll(kernel, axis, size, one)
    spectrum = real_fft(signal, sizes) * real_fft(kernel, sizes)
    y = torch.fft.irfftn(spectrum, s=sizes)[(..., *map(slice, space))]
    return y.movedim(1, -1).type_as(x)


def pad_and_roll(kernel, axis, size, padding):
    middle, taps = centre(kernel.shape[axis], padding), kernel.shape[axis]
    padded = functional.pad(kernel.movedim(axis, -1), (0, size - taps)).movedim(
        -1, axis
    )
    return padded.roll(-middle, axis) if middle else padded


def fft_size(length, taps, padding):
    if padding == "circular":
        return length
    middle = centre(taps, padding)
    return next_fast_len(length + max(middle, taps - 1 - middle))


def next_fast_len(least):
    # Such a number is 2^a 3^b 5^c. Below 2^64 no exponent reaches 64, so they are the
    # numbers that divide 30^64.
    while 30**64 % least:
        least += 1
    return least


# %% tags=["predict"]
for seed in range(3):
    torch.manual_seed(seed)
    x, kernel = torch.randn(2, 100, 3), torch.randn(1, 199, 3)
    definition = torch.einsum("cij,bjc->bic", convolution_matrix(kernel[0].double().T, 100), x.double())
    for dtype, bound in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
        found = long_convolution(x.to(device, dtype), kernel.to(device, dtype)).double().cpu()
        assert (found - definition).abs().max() < bound * definition.abs().max()
print("the FFT is the definition, within 1e-6 in float32 and 1e-14 in float64;", fft_size(100, 199, "zero"), "points")
guess = predict("8,192 positions: the time tap by tap, over the time by FFT", ["about 1", "about 3", "more than 10"])

# %% [markdown]
# The FFT gives the definition's numbers up to rounding, not bit for bit. Keep that in mind below: what should be 0 will
# be 0.0000001.
#
# ## What it costs
#
# A kernel as long as the signal, 8 channels, from 128 positions to 8,192: PyTorch's own convolution, tap by tap, and
# ours. Times are a machine's own, and a busy one gives others. So the picture counts work, and the clock gives only a
# verdict. Tap by tap, each of T positions meets T taps, a product and a sum each. By FFT, three transforms of P points
# are counted with 5 P log₂ P each, as is the custom (real ones take half), and the products of complex numbers with 6 P.


# %% tags=["reveal"]
# Answer first, then run this cell.
def directly(x, kernel):
    """Return the causal convolution by torch's conv1d, which wants channels first and the taps the other way round."""
    before = functional.pad(x.mT, (x.shape[1] - 1, 0))
    return functional.conv1d(before, kernel[0].flip(0).T[:, None], groups=x.shape[-1]).mT


lengths, ways = (
    [128 * 2**k for k in range(7)],
    {"tap by tap": directly, "FFT": partial(long_convolution, padding="causal")},
)
spent = {name: [] for name in ways}
for length in lengths:
    pair = torch.randn(1, length, 8), torch.randn(1, length, 8) / length
    assert torch.allclose(*(way(*pair) for way in ways.values()), atol=1e-4)
    for name, way in ways.items():
        spent[name].append(min(repeat(partial(way, *pair), number=1, repeat=5, timer=time.process_time)))

points = [fft_size(length, length, "causal") for length in lengths]
work = {"tap by tap": [2 * n**2 for n in lengths], "FFT": [15 * n * log2(n) + 6 * n for n in points]}
slopes, clock = ({name: log2(row[-1] / row[-4]) / 3 for name, row in found.items()} for found in (work, spent))
fig = Figure(figsize=(6, 3.4))
ax = plots.plot_costs(lengths, work, slopes, fig.add_subplot())
ax.set(ylabel="operations a channel", title="Length × 2: work × 4, or about × 2")
show(fig, alt="Operations over length: tap by tap with slope 2.0, FFT with slope 1.1; over 30 times less at 8,192.")
assert slopes["tap by tap"] == 2 and slopes["FFT"] < 1.15 and work["tap by tap"][-1] > 30 * work["FFT"][-1]
assert clock["tap by tap"] > 1.5 and clock["FFT"] < 1.4 and spent["tap by tap"][-1] > 10 * spent["FFT"][-1]
guess.reveal("more than 10")

# %% [markdown]
# The clock agrees with the count: over the four longest, a slope near 2 against one near 1. At 128 positions the two
# counts meet. Lesson 08c sets all mixers side by side.
#
# ## A kernel that nobody stores
#
# Now length costs little, but a kernel as long as the signal is as many numbers: for 8,192 positions and 64 channels,
# one tap for each lag, about a million. And it would serve 8,192 positions alone. So let a small network *say* the tap
# at each position p, from −1 to 1:
#
# $$h_0 = \sin(W_0 p + b_0), \quad h_l = \sin(W_l h_{l-1} + b_l), \quad k(p) = W h_L + b$$
#
# Why sines? A network of ReLUs says broken lines and learns slow bends first; sines (SIREN) can wiggle from the start.
# How fast is set by ω₀: the first weights begin in ±2π ω₀, so that a sine of the first layer makes at most ω₀ waves
# between 0 and 1.


# %% tags=["promote:mixers/implicit_kernel"] jupyter={"source_hidden": true}
from math import pi, sqrt

import torch
from torch import nn
from torch.nn import functional

from residual_edu.mixers.implicit_kernel import length_of_each_axis
from residual_edu.parts.weight_decay import no_weight_decay


def position_grid(lengths, reach, like):
    # result: 1, ..., axes
    # in 16 bits the positions of neighbours would be equal
    dtype = torch.promote_types(like.dtype, torch.float32)
    lines = [
        torch.arange(1 - length, length, dtype=dtype, device=like.device) / (last - 1)
        for length, last in zip(lengths, reach, strict=True)
    ]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1)[None]


def uniform(linear, bound=None, shrink=1.0):
    bound = sqrt(6 / linear.in_features) if bound is None else bound
    nn.init.uniform_(linear.weight, -bound / shrink, bound / shrink)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear


def modulated(h, film):
    # h: batch or 1, ..., hidden
    if film is None:
        return h
    gamma, beta = (each.view(len(each), *[1] * (h.ndim - 2), -1) for each in film)
    return gamma * h + beta


class SIRENPositionalEmbedding(nn.Module):
    def __init__(self, data_dim, embedding_dim, L_cache, omega_0, use_bias=True):
        super().__init__()
        self.L_cache = length_of_each_axis("L_cache", L_cache, data_dim, least=2)
        self.linear = uniform(
            nn.Linear(data_dim, embedding_dim, bias=use_bias),
            2 * pi * omega_0 / data_dim,
        )
        no_weight_decay(self)

    def forward(self, lengths):
        weight, bias = self.linear.weight, self.linear.bias
        grid = position_grid(lengths, self.L_cache, like=weight)
        wave = functional.linear(
            grid, weight.to(grid.dtype), None if bias is None else bias.to(grid.dtype)
        )
        return wave.sin().to(weight.dtype), grid


# %% [markdown]
# The hidden weights begin in ±√(6 / inputs), which keeps the spread of what goes into a sine at 1, layer after layer.
# The last ones are divided by the root of the number of positions, so that a sum over them all has about the signal's
# size. (`film` comes later; without a condition it does nothing.)


# %% tags=["promote:mixers/implicit_kernel"] jupyter={"source_hidden": true}
from itertools import pairwise
from math import prod, sqrt

from torch import nn

from residual_edu.config import build
from residual_edu.parts.weight_decay import no_weight_decay


class SIRENKernel(nn.Module):
    def __init__(
        self,
        out_dim,
        data_dim,
        mlp_hidden_dim,
        num_layers,
        embedding_dim,
        omega_0,
        L_cache,
        use_bias,
        hidden_omega_0=1.0,
        film_cfg=None,
        film_after_pos_embed=False,
    ):
        super().__init__()
        self.out_dim, self.data_dim = out_dim, data_dim
        self.widths = [embedding_dim] + [mlp_hidden_dim] * (num_layers - 1)
        self.positional_embedding = SIRENPositionalEmbedding(
            data_dim, embedding_dim, L_cache, omega_0, use_bias
        )
        hidden = [nn.Linear(*pair, bias=use_bias) for pair in pairwise(self.widths)]
        self.hidden_linears = nn.ModuleList(
            no_weight_decay(uniform(each)) for each in hidden
        )
        taps = prod(self.positional_embedding.L_cache)
        # The convolution sums over about that many taps, and its output should be about
        # as large as its input.
        self.out_linear = uniform(
            nn.Linear(mlp_hidden_dim, out_dim, bias=use_bias), shrink=sqrt(taps)
        )
        self.film_generator = None if film_cfg is None else build(film_cfg)

    def forward(self, lengths, conditioning=None):
        # conditioning: batch, features
        first, *others = self._films(conditioning)
        features, grid = self.positional_embedding(lengths)
        h = modulated(features, first)  # batch or 1, *taps, embedding_dim
        for linear, film in zip(self.hidden_linears, others, strict=True):
            h = modulated(linear(h).sin(), film)
        return self.out_linear(h), grid

    def halve_grid(self, axes):
        lengths = self.positional_embedding.L_cache
        halved = [
            (length + 1) // 2 if half else length
            for length, half in zip(lengths, axes, strict=True)
        ]
        self.positional_embedding.L_cache = halved
        self.out_linear.weight.data *= sqrt(prod(lengths) / prod(halved))

    def _films(self, conditioning):
        if conditioning is None or self.film_generator is None:
            return [None] * len(self.widths)
        films = self.film_generator(conditioning)
        return [*[None] * (len(self.widths) - len(films)), *films]


# %% [markdown]
# **From 64 positions to 8,192: how many more parameters does the network need?**

# %% tags=["predict"]
guess = predict("A kernel for 8,192 positions instead of 64: the network has", ["no more", "128 times as many"])

# %% tags=["reveal"]
# Answer first, then run this cell.
kernel, small = (SIRENKernel(64, 1, 32, 3, 32, 10.0, length, use_bias=True) for length in (8192, 64))
stored, saying = kernel([8192])[0].numel(), sum(p.numel() for p in kernel.parameters())
assert saying == sum(p.numel() for p in small.parameters())
assert 0.8 < kernel.hidden_linears[0](kernel.positional_embedding([8192])[0]).std() < 1.2
print(f"{stored:,} taps, said by {saying:,} numbers")
guess.reveal("no more")

kernels = {}
for omega in (1.0, 4.0, 16.0):
    torch.manual_seed(0)
    taps, grid = SIRENKernel(1, 1, 16, 2, 16, omega, 256, use_bias=True)([256])
    kernels[f"ω₀ = {omega:g}"] = taps.flatten().detach()
fig = Figure(figsize=(6, 3.6))
ax = plots.plot_ridges(grid.flatten(), kernels, fig.add_subplot())
ax.set_title("ω₀ says how fast a kernel may wiggle")
show(fig, alt="New kernels at ω₀ of 1, 4 and 16, each wavier than the last. All are odd: k(−p) is −k(p).")
assert max((taps + taps.flip(0)).abs().max() / taps.abs().max() for taps in kernels.values()) < 1e-3

# %% [markdown]
# Look again: every kernel is odd, k(−p) = −k(p). Sines are, and all biases begin at 0. So a new kernel has a 0 at lag 0:
# nobody hears *themselves*. That is one reason why the layer below adds a shortcut, s · x.

# %% [markdown]
# ### Exercise 2 · 10 minutes · ●●●○○
#
# Write a kernel of two layers of sines without biases. Given the weights `first` (h,), `hidden` (h, h) and `last` (h,),
# return the taps for a signal of `length` positions: 2 · length − 1 numbers, for p from −1 to 1.
#
# <details><summary>Hint 1</summary>Begin with the positions: <code>torch.linspace</code>. Each one is a row, each
# feature a column.</details>
# <details><summary>Hint 2</summary>positions[:, None] * first has shape (positions, h). Which of the three maps are followed by a
# sine?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "siren-taps", "locked": false, "schema_version": 3, "solution": true, "task": false}
def siren_taps(first, hidden, last, length):
    """Return the 2 · length − 1 taps that the network says."""
    ### BEGIN SOLUTION
    positions = torch.linspace(-1, 1, 2 * length - 1, dtype=first.dtype)
    h = (positions[:, None] * first).sin()
    return (h @ hidden.T).sin() @ last
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "siren-taps-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(siren_taps, "siren_taps")

# %% [markdown]
# ## Move it yourself
#
# The grey curve is what one network says everywhere, the dots are the taps that a signal of this length asks for. Below,
# who hears whom, and a map of the lengths and ω₀ that you tried without a mask.
#
# **Find out:** at ω₀ = 4, how long must the signal be for its taps to draw 90 % of the curve? At 8, at 16? Then give the
# mask a decay of 5 and watch the matrix.

# %% tags=["explorer"]
explore_kernel()

# %% [markdown]
# <details><summary>Answer</summary>13, 24 and 47: about three positions for each wave of ω₀ (with other weights, two to
# three). With fewer, the taps fall between the waves, and the kernel that a longer signal asks for is another one. So
# ω₀ is chosen for the length. A decay turns the stripes into a band: near positions are heard, far ones fade.</details>
#
# ## Masks
#
# Nothing so far prefers a neighbour to a stranger. A mask does, and gives each channel a reach of its own: exponential,
# $e^{-|p| |w|}$ with w from 2.3 (a tenth left at the far end) to 13.8 (a millionth); or Gaussian,
# $e^{-p^2 / 2 \sigma^2}$. Both are learned, and spared by weight decay.


# %% tags=["promote:mixers/kernel_mask"] jupyter={"source_hidden": true}
import torch
from torch import nn
from torch.nn import functional

from residual_edu.parts.weight_decay import no_weight_decay


class ExponentialModulation(nn.Module):
    def __init__(
        self, data_dim, num_channels, fast_decay_pct=13.81, slow_decay_pct=2.3
    ):
        super().__init__()
        decay = torch.linspace(slow_decay_pct, fast_decay_pct, num_channels) / data_dim
        self.weight = nn.Parameter(decay.repeat(data_dim, 1))  # axes, channels
        no_weight_decay(self)

    def forward(self, grid, x):
        # grid: 1, ..., axes; x: batch, ..., channels
        return x * torch.exp(-grid.abs() @ self.weight.abs().to(grid.dtype)).type_as(x)


class GaussianModulation(nn.Module):
    def __init__(
        self,
        data_dim,
        num_channels,
        min_std=1e-3,
        max_std=None,
        init_std_low=0.05,
        init_std_high=1.0,
        parametrization="direct",
    ):
        super().__init__()
        self.min_std, self.max_std, self.parametrization = (
            min_std,
            max_std,
            parametrization,
        )
        low, high = torch.tensor([init_std_low, init_std_high]).log().tolist()
        # axes, channels
        std = torch.linspace(low, high, num_channels).exp().repeat(data_dim, 1)
        # log(exp(std) - 1), which overflows for std above 88
        softplus_inverse = std + (-(-std).expm1()).log()
        self.std_param = nn.Parameter(
            {"direct": std, "log": std.log(), "softplus": softplus_inverse}[
                parametrization
            ]
        )
        no_weight_decay(self)

    @property
    def std(self):
        # result: axes, channels
        learned = self.std_param
        std = {
            "direct": learned,
            "log": learned.exp(),
            "softplus": functional.softplus(learned),
        }[self.parametrization]
        return std + (std.clamp(self.min_std, self.max_std) - std).detach()

    def forward(self, grid, x):
        # grid: 1, ..., axes; x: batch, ..., channels
        return x * torch.exp(
            -0.5 * grid.square() @ self.std.to(grid.dtype).square().reciprocal()
        ).type_as(x)


# %% [markdown]
# ## CKConv
#
# A *continuous kernel* convolution. Kernel, mask, convolution and shortcut: a mixer for signals of one, two or three
# axes. `grid_type="double"` asks for 2 T − 1 taps, so that either end hears the other; round a circle there are only T
# places, so `"single"`.


# %% tags=["promote:mixers/ckconv"] jupyter={"source_hidden": true}
from math import sqrt

import torch
from torch import nn

from residual_edu.config import build
from residual_edu.mixers.long_convolution import padding_of_each_axis
from residual_edu.parts.residual import is_bypassed


class CKConv(nn.Module):
    def __init__(
        self,
        data_dim,
        hidden_dim,
        kernel_cfg,
        mask_cfg,
        grid_type,
        fft_padding,
        is_causal=False,
    ):
        super().__init__()
        paddings = padding_of_each_axis(
            "fft_padding", fft_padding, data_dim, ["zero", "circular"]
        )
        self.data_dim, self.hidden_dim, self.is_causal = data_dim, hidden_dim, is_causal
        self.single = [
            grid_type == "single" or padding == "circular" for padding in paddings
        ]
        self.paddings = ["causal"] if is_causal else paddings
        self.kernel = build(kernel_cfg)
        self.mask = build(mask_cfg)
        if (
            any(self.single)
            and self.kernel is not kernel_cfg
            and hasattr(self.kernel, "halve_grid")
        ):
            # which has half as many taps to either side along these axes
            self.kernel.halve_grid(self.single)
        self.shortcut = nn.Parameter(
            torch.empty(hidden_dim).uniform_(-1, 1) / sqrt(hidden_dim)
        )

    def forward(self, x, *, conditioning=None):
        # x: batch, ..., channels; conditioning: batch or 1, features
        kernel = self.taps(x.shape[1:-1], conditioning)  # 1 or batch, *taps, channels
        return long_convolution(x, kernel, self.paddings) + (self.shortcut * x).type_as(
            x
        )

    def taps(self, space, conditioning=None):
        # conditioning: samples, features; result: kernels, ..., channels
        kernel, grid = self.kernel(self._lengths(space), conditioning)
        kernel = kernel if is_bypassed(self.mask) else self.mask(grid, kernel)
        return kernel[:, kernel.shape[1] // 2 :] if self.is_causal else kernel

    def _lengths(self, space):
        return [
            (length + 1) // 2 if single else length
            for length, single in zip(space, self.single, strict=True)
        ]


# %% [markdown]
# A digit is an image of 8 × 8. Read row by row it is a sequence of 64, and the pixel above is the one eight places
# back. A narrow mask lets a pixel hear what is near. **In the sequence, what is near?**

# %% tags=["predict"]
guess = predict(
    "In the sequence, behind a narrow mask, a pixel hears",
    ["those around it, on all sides", "those beside it in its row", "all alike"],
)


# %% tags=["reveal"]
# Answer first, then run this cell.
def ckconv(channels, axes, length, omega=4.0, mask=None, film=None, **ways):
    """Return a CKConv with a small kernel network: double grid and zeros beyond the ends, unless said otherwise."""
    kernel = partial(SIRENKernel, channels, axes, 16, 3, 16, omega, length, True, film_cfg=film)
    masked = nn.Identity if mask is None else partial(mask, axes, channels)
    return CKConv(axes, channels, kernel, masked, **{"grid_type": "double", "fft_padding": "zero"} | ways)


data = digits()
digit = data.train_images[:1, :, :, None].to(device)
torch.manual_seed(0)
wide, thin = (partial(GaussianModulation, init_std_low=std, init_std_high=std) for std in (0.2, 0.03))
plane, line = ckconv(16, 2, 8, mask=wide).to(device), ckconv(16, 1, 64, 32.0, mask=thin).to(device)
around = mixing_matrix(plane, digit.expand(1, 8, 8, 16))[28].view(8, 8)
along = mixing_matrix(line, digit.view(1, 64, 1).expand(1, 64, 16))[28].view(8, 8)

left = ExponentialModulation(1, 2)(torch.ones(1, 1, 1), torch.ones(1, 1, 2)).flatten()
assert torch.allclose(left, torch.tensor([0.1, 1e-6]), rtol=0.01, atol=0)

fig = Figure(figsize=(6, 3.6))
named = {"as an image": around, "as a sequence, row by row": along}
for ax, (name, heard) in zip(fig.subplots(1, 2), named.items(), strict=True):
    plots.plot_heard(heard, (3, 4), ax).set_title(name, weight="normal")
fig.suptitle("A sequence does not know who stands above whom", x=0.01, ha="left", weight="bold")
show(fig, alt="Whom the ringed pixel hears: in the image those on all sides, in the sequence those in its own row.")
assert around[2, 4] > 0.3 * around[3, 3] and along[2, 4] < 0.05 * along[3, 3]
guess.reveal("those beside it in its row")

# %% [markdown]
# A convolution brings the shape of its space along. To attention, in lesson 08a, positions had to be told.
#
# ## The future
#
# To predict what comes next, no position may hear a later one. Of the 2 T − 1 taps keep those from the middle on: lags
# 0, 1, 2, and so on. The test for any mixer: change the future, look at the past. Row by row, we change the lower half
# of a digit. **By how much does the output change in the upper half?**

# %% tags=["predict"]
guess = predict(
    "Upper half of the output, lower half of the input changed:", ["not at all", "by about 0.0000001", "by half"]
)

# %% tags=["reveal"]
# Answer first, then run this cell.
before = digit.view(1, 64, 1)
after = torch.cat([before[:, :32], data.train_images[1:2].view(1, 64, 1)[:, 32:].to(device)], dim=1)
for seed in range(3):
    torch.manual_seed(seed)
    causal, free = (ckconv(1, 1, 64, is_causal=way).to(device) for way in (True, False))
    past, future = (causal(after) - causal(before)).detach().abs().flatten().chunk(2)
    written = convolution_matrix(causal.taps([64])[0].T, 64, "causal")[0]
    assert torch.equal((written @ before[0])[:32], (written @ after[0])[:32])
    assert 0 < past.max() < 1e-5 and future.max() > 1e-2
    assert (free(after) - free(before))[:, :32].abs().max() > 1e-2
guess.reveal("by about 0.0000001")

fig = Figure(figsize=(6, 3.4))
for ax, (name, way) in zip(fig.subplots(1, 2), {"all taps": free, "from the middle on": causal}.items(), strict=True):
    heard = mixing_matrix(way, before[:, ::4])
    plot_mixing_matrix(heard.where(heard > 1e-6, 0), ax).set_title(name, weight="normal")
fig.suptitle("Causal: no output depends on a later position", x=0.01, ha="left", weight="bold")
show(
    fig, alt="With all taps each of 16 positions hears every other; from the middle tap on, nobody above the diagonal."
)
assert heard.triu(1).max() < 1e-6 and heard.diagonal().min() > 1e-2

# %% [markdown]
# Rounding, and nothing else: the FFT adds up numbers of the future and takes them away again. By the matrix the change
# is exactly 0. The mixing matrix shows the triangle, once we call 0 what is below a millionth.
#
# ## A condition bends the kernel
#
# FiLM (feature-wise linear modulation) gives each hidden layer of the kernel's network a scale γ and a shift β, both
# said by a condition c. At the start γ is 1 and β is 0: the kernel is the one it would be without.


# %% tags=["promote:mixers/film"] jupyter={"source_hidden": true}
import torch
from torch import nn

from residual_edu.parts.weight_decay import no_weight_decay as exempt


class KernelFiLMGenerator(nn.Module):
    def __init__(
        self,
        cond_dim,
        kernel_hidden_dim,
        num_film_layers,
        film_hidden_dim=64,
        no_weight_decay=False,
        init_type="identity",
        init_std=1e-4,
    ):
        super().__init__()
        self.cond_dim, self.kernel_hidden_dim, self.num_film_layers = (
            cond_dim,
            kernel_hidden_dim,
            num_film_layers,
        )
        self.film_hidden_dim = film_hidden_dim
        last = nn.Linear(film_hidden_dim, num_film_layers * 2 * kernel_hidden_dim)
        nn.init.normal_(
            last.weight, std=init_std if init_type == "small_random" else 0.0
        )
        with torch.no_grad():
            # gamma 1, beta 0
            last.bias.view(num_film_layers, 2, -1).copy_(torch.tensor([[1.0], [0.0]]))
        self.mlp = nn.Sequential(nn.Linear(cond_dim, film_hidden_dim), nn.GELU(), last)
        if no_weight_decay:
            exempt(self.mlp)

    def forward(self, conditioning):
        # conditioning: batch, channels
        films = self.mlp(conditioning).unflatten(
            -1, (self.num_film_layers, 2, self.kernel_hidden_dim)
        )
        return [(layer[:, 0], layer[:, 1]) for layer in films.unbind(1)]


# %% [markdown]
# A task that one kernel cannot do: move a signal round a circle by 0, 5, 10 or −7 places, as the condition says. A single
# kernel must serve all four at once. For white noise of size 1 its best is a tap of ¼ at each of the four lags. **What
# mean square error is left?**

# %% tags=["predict"]
guess = predict("The least mean square error of one kernel for four shifts:", ["0", "0.25", "0.75", "1"])

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
shifts, names = torch.tensor([0, 5, 10, -7]), ["c says 0", "c says 5", "c says 10", "c says −7"]


def shifted(seed):
    """Yield white noise of 32 positions, one of four conditions each, and the noise moved by as many places."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        x, which = torch.randn(64, 32, 1, generator=generator), torch.randint(4, (64,), generator=generator)
        moved = torch.stack([row.roll(int(shifts[k]), 0) for row, k in zip(x, which, strict=True)])
        yield x.to(device), functional.one_hot(which, 4).float().to(device), moved.to(device)


def learn(film, seed):
    """Train a circular CKConv for 300 steps; return it and its error over the last 50."""
    torch.manual_seed(seed)
    conv = ckconv(1, 1, 32, 8.0, film=film, grid_type="single", fft_padding="circular").to(device)
    holds(torch.equal(conv.taps([32], torch.ones(1, 4, device=device)), conv.taps([32])), "A new FiLM bends nothing.")
    adam = torch.optim.Adam(conv.parameters(), lr=3e-3, fused=True)
    losses = train(lambda x, c, y: functional.mse_loss(conv(x, conditioning=c), y), shifted(seed), adam, 300)
    return conv, sum(losses[-50:]) / 50


film = partial(KernelFiLMGenerator, 4, 16, 2, 32)
for seed in range(3):
    (_, plain), (bent, told) = learn(None, seed), learn(film, seed)
    print(f"seed {seed}: mean square error {plain:.2f}, with FiLM {told:.4f}")
    holds(0.7 < plain < 0.9 and told < 0.05, "One kernel misses about 0.75, with FiLM almost nothing.")
guess.reveal("0.75")

# %% [markdown]
# 1 − ¼ is the least that one kernel can miss, and it misses about that much. With FiLM almost nothing is left, three
# seeds. Here are the four kernels that the network says now.

# %% tags=["trained"]
taps = bent.taps([32], torch.eye(4, device=device))[..., 0].detach().cpu()
fig = Figure(figsize=(6, 4.0))
ax = plots.plot_ridges(torch.arange(-15, 16), dict(zip(names, taps, strict=True)), fig.add_subplot(), "lag")
ax.set_title("Four kernels of one network, each a single tap")
show(fig, alt="Four learned kernels, each with one peak, at lags 0, 5, 10 and −7, the last three with a dip at lag 0.")
left = (taps[1:, 15] + bent.shortcut.item()).abs().max()
print(f"largest taps at lags {(taps.argmax(1) - 15).tolist()}; of the shortcut {left:.3f} is left")
holds(
    (taps.argmax(1) - 15).tolist() == shifts.tolist() and left < 0.05, "Each kernel is one tap, at the lag that c says."
)

# %% [markdown]
# The dip at lag 0, in the last three: there the kernel takes back the shortcut s, which nobody asked for. And yet, for a
# given condition, it is still one kernel for every signal.
#
# ## Listening: Hyena
#
# Attention looks at what a signal says before it decides who hears whom. A convolution's matrix is there before the
# signal comes. Hyena puts a gate on either side of it: $y = \mathrm{conv}(q \cdot \sigma(k)) \cdot \sigma(v)$. The
# key decides what each position *says*, the value what each *hears*; σ is SiLU here. In front stands a convolution of
# three taps over query, key and value, so that a gate can see its neighbours. In a causal Hyena that one must be causal
# as well, and no other is accepted.


# %% tags=["promote:parts/causal_conv"] jupyter={"source_hidden": true}
from torch import nn
from torch.nn import functional


class CausalConv1D(nn.Conv1d):
    """``nn.Conv1d`` with all of its padding, zeros, before the first position."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        dilation=1,
        groups=1,
        bias=True,
        is_causal=True,
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )
        self.is_causal = is_causal

    def forward(self, x):
        # x: ..., channels, time; result: ..., out_channels, steps
        padding = (self.kernel_size[0] - 1) * self.dilation[0]
        before = padding if self.is_causal else padding // 2
        return super().forward(functional.pad(x, (before, padding - before)))


# %% tags=["promote:mixers/hyena"] jupyter={"source_hidden": true}
import torch
from torch import nn

from residual_edu.config import build
from residual_edu.mixers.hyena import over_channels
from residual_edu.parts.residual import is_bypassed
from residual_edu.parts.weight_decay import no_weight_decay


class Hyena(nn.Module):
    def __init__(
        self,
        global_conv_cfg,
        short_conv_cfg,
        gate_nonlinear_cfg,
        pixelhyena_norm_cfg,
        qk_norm_cfg,
        output_norm_cfg=nn.Identity,
        gate_nonlinear_2_cfg=None,
    ):
        super().__init__()
        self.global_conv = build(global_conv_cfg)
        self.short_conv = build(short_conv_cfg)
        self.gate_nonlinear = build(gate_nonlinear_cfg)
        self.gate_nonlinear_2 = (
            self.gate_nonlinear
            if gate_nonlinear_2_cfg is None
            else build(gate_nonlinear_2_cfg)
        )
        self.pixelhyena_norm = no_weight_decay(build(pixelhyena_norm_cfg))
        self.output_norm = no_weight_decay(build(output_norm_cfg))
        self.q_norm = None if qk_norm_cfg is None else build(qk_norm_cfg)
        gated = not is_bypassed(self.gate_nonlinear)
        self.k_norm = None if qk_norm_cfg is None or gated else build(qk_norm_cfg)

    def forward(self, query, key, value, *, conditioning=None):
        # query, key, value: batch, ..., channels
        query, key, value = self._short(torch.cat([query, key, value], dim=-1)).chunk(
            3, dim=-1
        )
        query, key = over_channels(self.q_norm, query), over_channels(self.k_norm, key)
        gate = self.gate_nonlinear(key)
        z = over_channels(self.pixelhyena_norm, query * gate)
        h, gate = (
            self.global_conv(z, conditioning=conditioning),
            self.gate_nonlinear_2(value),
        )
        return over_channels(self.output_norm, h * gate)

    def _short(self, x):
        # x: batch, ..., channels
        if is_bypassed(self.short_conv):
            return x
        y = self.short_conv(x.movedim(-1, 1)).movedim(1, -1)
        return y


# %% [markdown]
# Take a 6 and a 5, each a signal of eight rows, and measure two mixing matrices at both: a causal Hyena's, and that of
# the CKConv inside it by itself. **Does the CKConv's differ from the 6 to the 5?**

# %% tags=["predict"]
guess = predict("The mixing matrices of a CKConv at two different signals are", ["the same", "different"])

# %% tags=["reveal"]
# Answer first, then run this cell.
torch.manual_seed(0)
conv = partial(ckconv, 8, 1, 8, is_causal=True)
hyena = Hyena(conv, partial(CausalConv1D, 24, 24, 3, groups=24), nn.SiLU, nn.Identity, None).to(device)
mixers = {"CKConv": hyena.global_conv, "Hyena": lambda rows: hyena(rows, rows, rows)}
drawn = {"6": data.train_images[:1].to(device), "5": data.train_images[1:2].to(device)}
maps = {(name, digit): mixing_matrix(mixers[name], drawn[digit]) for name in mixers for digit in drawn}
change = {name: float((maps[name, "6"] - maps[name, "5"]).abs().max() / maps[name, "6"].max()) for name in mixers}
assert change["CKConv"] < 1e-6 and change["Hyena"] > 0.1
assert all(heard.triu(1).max() < 1e-6 for heard in maps.values())
guess.reveal("the same")

fig = Figure(figsize=(6, 2.5))
for ax, ((name, digit), heard) in zip(fig.subplots(1, 4), maps.items(), strict=True):
    plot_mixing_matrix(heard.where(heard > 1e-6, 0), ax, named=False).set_title(f"{name}, a {digit}", weight="normal")
fig.suptitle("The convolution ignores content; Hyena does not", x=0.01, ha="left", weight="bold")
show(fig, alt="Causal mixing matrices for a 6 and a 5: the convolution's are the same, Hyena's differ from each other.")

# %% [markdown]
# **Law.** A convolution is linear, so that its Jacobian is its matrix, and no signal changes it. Hyena's Jacobian does
# depend on the signal, although nowhere a T × T matrix of scores is made: what it costs beyond its convolution, two gates
# and a short convolution, grows with T alone.

# %% [markdown]
# ### Exercise 3 · 6 minutes · ●●○○○
#
# Write Hyena's middle: given `query`, `key`, `value` and a function `convolve`, gate, convolve, gate. Use SiLU for both
# gates.
#
# <details><summary>Hint 1</summary>Which two of the three meet before the convolution?</details>
# <details><summary>Hint 2</summary>Each gate is the SiLU of one signal, <code>torch.nn.functional.silu</code>. One gate multiplies
# what is convolved, the other what comes out.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "hyena-gates", "locked": false, "schema_version": 3, "solution": true, "task": false}
def hyena_gates(query, key, value, convolve):
    """Return convolve(query · silu(key)) · silu(value)."""
    ### BEGIN SOLUTION
    z = query * functional.silu(key)
    return convolve(z) * functional.silu(value)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "hyena-gates-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(hyena_gates, "hyena_gates")

# %% [markdown]
# ## In the block
#
# Four residual blocks of lesson 07a, each with a Hyena and an MLP, read a digit as eight rows. **After 150 steps of
# training, how many of the test digits do they name?**


# %% tags=["predict"]
guess = predict("Test digits named after 150 steps:", ["about 60 %", "about 80 %", "more than 90 %"])


class Reader(nn.Module):
    """Rows in, four blocks of Hyena and MLP, the mean over positions, ten digits out."""

    def __init__(self, width=32):
        super().__init__()
        conv = partial(ckconv, width, 1, 8, mask=ExponentialModulation)
        short = partial(nn.Conv1d, 3 * width, 3 * width, 3, padding=1, groups=3 * width)
        hyena = partial(QKVSequenceMixer, width, partial(Hyena, conv, short, nn.SiLU, nn.Identity, None))
        norm, mlp, none = partial(LayerNorm, width), partial(MLP, width, "gelu", nn.Identity), nn.Identity
        self.enter = nn.Linear(8, width)
        self.blocks = nn.ModuleList(ResidualBlock(hyena, norm, none, none, mlp, norm, none) for _ in range(4))
        self.leave = nn.Sequential(LayerNorm(width), nn.Linear(width, 10))

    def forward(self, rows):
        x = self.enter(rows)
        for block in self.blocks:
            x = block(x, None)
        return self.leave(x).mean(1)


found = []
for seed in range(3):
    torch.manual_seed(seed)
    net = Reader().to(device)
    batches = minibatches(data.train_images.to(device), data.train_labels.to(device), seed=seed)
    adam = torch.optim.Adam(net.parameters(), lr=3e-3, fused=True)
    with GradientFlowRecorder(net, net.blocks) as flow:
        train(lambda rows, y, net=net: functional.cross_entropy(net(rows), y), batches, adam, 150)
    found.append((accuracy(net, data.test_images.to(device), data.test_labels.to(device)), flow))

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
fig = Figure(figsize=(6, 3.6))
ax = plot_stream(flow, fig.add_subplot(), step=149, norms="pre")
ax.set_title("Every trained Hyena block adds to the stream")
show(fig, alt="A river through four trained blocks: every block adds a tributary, as wide as the bed that it enters.")
for seed, (named, flow) in enumerate(found):
    print(f"seed {seed}: {named:.1%} named", end="; ")
    print(f"a block adds at least {(flow.added[-1] / flow.activation[-1, :-1]).min():.2f} of what it finds", end="; ")
    print(f"the gradient becomes {flow.stream_gradient[-1, 0] / flow.stream_gradient[-1, -1]:.0f} times as large")
    holds(named > 0.93, "More than 93 % of the test digits are named.")
    holds((flow.added[-1] / flow.activation[-1, :-1]).min() > 0.5, "Each block adds about as much as it finds.")
    holds(flow.stream_gradient[-1, 0] > 10 * flow.stream_gradient[-1, -1], "The gradient becomes more than ten times as large.")
guess.reveal("more than 90 %")

# %% [markdown]
# More than 93 %, three seeds. After training each block adds about as much as it finds, so that the bed widens and widens
# again. On the way back the gradient gathers what came through each of them, more than ten times what it set out with:
# off the chart.

# %% [markdown]
# ## True or false?
#
# - A convolution through Fourier is an approximation. <details><summary>Answer</summary>False. It is exact but for
#   rounding, on a circle that is large enough.</details>
# - A kernel twice as long needs twice the parameters. <details><summary>Answer</summary>Not if a network says it. But
#   what it can say is limited by ω₀.</details>
# - Zeros on both sides make a convolution causal. <details><summary>Answer</summary>False. What counts is which tap
#   stands at lag 0.</details>
# - Hyena is a convolution, hence linear. <details><summary>Answer</summary>False. Its gates multiply what comes from
#   the signal by what comes from the signal.</details>

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | a convolution is a matrix with one number on each diagonal | measured = written, all three paddings | one axis; with more, blocks of such blocks |
# | a wave passes a circular convolution as the same wave | all four waves of four positions | circles; hence the padding |
# | a centred kernel needs a circle of length + (taps − 1) / 2 | 199 for 100 positions and 199 taps, rounded up to 200 | an odd number of taps, zeros beyond the ends |
# | the FFT is the definition | within 1e-6 in float32, 1e-14 in float64 | three seeds; never bit for bit |
# | slope 2 tap by tap, about 1 by FFT | 2.0 and 1.1 counted, over 10 times at 8,192 by the clock | kernels as long as the signal; at 128 positions the counts meet |
# | the network that says a kernel does not grow with it | 4,288 numbers for 1,048,512 taps | two to three positions for each wave of ω₀ |
# | a new kernel is odd, 0 at lag 0 | within 1e-3 | as long as the biases are 0 |
# | taps from the middle on hear no future | below 1e-5 in the past, above 1e-2 after it | three seeds; the rest is rounding |
# | one kernel for S shifts misses 1 − 1/S | about 0.75 for four; below 0.05 with FiLM | white noise round a circle |
# | a convolution's Jacobian does not depend on the signal, Hyena's does | below 1e-6 against more than a tenth | random weights, before any training |
#
# Sources: CKConv, Romero et al., 2022 (arXiv 2102.02611); SIREN, Sitzmann et al., 2020 (arXiv 2006.09661); FiLM, Perez
# et al., 2018 (arXiv 1709.07871); Hyena, Poli et al., 2023 (arXiv 2302.10866). In lesson 08c a mixer carries its memory
# along instead, step by step: a scan.

# %%
summary("08b")

# %% [markdown]
# ## Next
#
# - [Lesson 08c](08c_selective_scan.ipynb) carries a memory along the sequence, step by step.
# - [Homework for lessons 08a and 08b](homework/hw_08a_08b.ipynb).
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
