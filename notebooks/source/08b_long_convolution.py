# %% [markdown]
# # 08b · Long convolutions and Hyena
#
# 75 minutes. It needs lessons 00 to 07 and 08a, and no network connection.
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
# work?</summary>Four times: every position asks every other one (lesson 08a).</details>
#
# <details><summary>2. In the block of lesson 07, which part lets one position hear another?</summary>The sequence mixer
# alone. Norm, MLP and skip work on each position by itself.</details>
#
# <details><summary>3. What does a row of a mixing matrix hold?</summary>How loudly one position hears each of the
# others: the size of the Jacobian between them (lesson 08a).</details>

# %%
import time
from functools import partial
from math import log2, pi
from timeit import repeat

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional

from residual_edu import MLP, LayerNorm, QKVSequenceMixer, ResidualBlock
from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.explorers.long_convolution import explore_kernel
from residual_edu.gradient_flow import GradientFlowRecorder, mixing_matrix
from residual_edu.lesson import predict, setup, show
from residual_edu.plotting import long_convolution as plots
from residual_edu.plotting.mixing_matrix import plot_mixing_matrix
from residual_edu.plotting.stream import plot_stream
from residual_edu.training import accuracy, minibatches, train

device = setup()

# %%
# What the finished pieces of this lesson are made with.
from collections.abc import Sequence
from itertools import pairwise
from math import prod, sqrt
from typing import Any

from jaxtyping import Float

from residual_edu.config import Spec, build
from residual_edu.errors import check_below, check_causal_axes, check_choice, check_condition
from residual_edu.errors import check_conditionable, check_data_dim, check_divisible, check_equal, check_flag
from residual_edu.errors import check_floating, check_grid_type, check_hears_no_future, check_kernel, check_kind
from residual_edu.errors import check_one_per_axis, check_positive, check_same_shape, check_shape, check_short_channels
from residual_edu.errors import check_short_convolution, check_short_kept, check_size, check_some_positions, check_space
from residual_edu.errors import check_width
from residual_edu.mixers.hyena import CHANNELS_FIRST, over_channels
from residual_edu.mixers.long_convolution import PADDINGS, Padding, convolution_matrix, padding_of_each_axis
from residual_edu.mixers.real_fft import real_fft
from residual_edu.parts.causal_conv import convolution_flops
from residual_edu.parts.flop_count import Shape, count_positions, flop_count
from residual_edu.parts.residual import is_bypassed
from residual_edu.parts.weight_decay import no_weight_decay
from residual_edu.parts.weight_decay import no_weight_decay as spare

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

# %%
x, kernel = torch.tensor([1.0, 2, 3, 4]), torch.tensor([1.0, 2, -1])
matrix = torch.zeros(4, 4)
for i in range(4):
    for j in range(4):
        if 0 <= i - j + 1 < 3:
            matrix[i, j] = kernel[i - j + 1]
print(matrix @ x)
guess.reveal("6")

fig = Figure(figsize=(7, 3.6))
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
fig = Figure(figsize=(7, 3.1))
for ax, padding in zip(fig.subplots(1, 3, sharey=True), PADDINGS, strict=True):
    matrix = convolution_matrix(kernel, 4, padding)
    plots.plot_taps(matrix, ax).set_title(f"{padding}: {', '.join(f'{y:g}' for y in matrix @ x)}", weight="normal")
    ax.set(xlabel="is heard", ylabel="hears" if padding == "zero" else "")
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
# The mixing matrix of lesson 08a is *measured*, through Jacobians, for any mixer. The last lines of the cell measured
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

# %%
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

fig = Figure(figsize=(7, 3.2))
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


# %% tags=["promote:mixers/long_convolution"]
def convolution_matrix(
    kernel: Float[Tensor, "*batch taps"], length: int, padding: str = "zero"
) -> Float[Tensor, "*batch {length} {length}"]:
    """Return the matrix of a convolution along one axis: row i, column j holds the tap k[i - j + c], or 0.

    Multiplying by it is the definition, in length squared steps.

    Raises:
        InvalidInput: for a length below 1 or an unknown padding.
    """
    check_size("length", length)
    check_choice("padding", padding, PADDINGS)
    position = torch.arange(length, device=kernel.device)
    tap = position[:, None] - position + centre(kernel.shape[-1], padding)
    if padding == "circular":
        tap = tap % length
    within = (tap >= 0) & (tap < kernel.shape[-1])
    return kernel[..., tap.clamp(0, kernel.shape[-1] - 1)].where(within, 0)


def centre(taps: int, padding: str) -> int:
    """Return the tap that stands at lag 0."""
    return 0 if padding == "causal" else (taps - 1) // 2


def long_convolution(
    x: Float[Tensor, "batch *space channels"], kernel: Float[Tensor, "#batch *taps channels"], padding: Padding = "zero"
) -> Float[Tensor, "batch *space channels"]:
    r"""Convolve each channel of ``x`` with its own kernel along 1 to 3 axes, by fast Fourier transform.

    Args:
        x: the signal; computed in float32 or better, the result has its dtype.
        kernel: taps for all samples, or one set for each.
        padding: what lies beyond the ends, for all axes or a list with one for each: ``"zero"``, ``"circular"``
            (the other end), or ``"causal"``, zero with the first tap at lag 0: j <= i alone is heard.

    Raises:
        InvalidInput: for an unknown padding, or a kernel that does not fit ``x``.
    """
    paddings = padding_of_each_axis("padding", padding, x.ndim - 2)
    check_space("x", x, x.shape[-1])
    check_some_positions("x", x)
    check_kernel(kernel, x, [one == "circular" for one in paddings])
    space, taps = x.shape[1:-1], kernel.shape[1:-1]
    wide = torch.promote_types(torch.promote_types(x.dtype, kernel.dtype), torch.float32)
    signal, kernel = (each.to(wide).movedim(-1, 1).contiguous() for each in (x, kernel))  # transforms run along rows
    sizes = [circle_size(*each) for each in zip(space, taps, paddings, strict=True)]
    for axis, (size, one) in enumerate(zip(sizes, paddings, strict=True), start=2):
        kernel = laid_on_circle(kernel, axis, size, one)
    spectrum = real_fft(signal, sizes) * real_fft(kernel, sizes)
    y = torch.fft.irfftn(spectrum, s=sizes)[(..., *map(slice, space))]
    return y.movedim(1, -1).type_as(x)


def laid_on_circle(kernel: Tensor, axis: int, size: int, padding: str) -> Tensor:
    """Pad ``axis`` to ``size`` and turn it until the tap of lag 0 is the first, those of negative lag the last."""
    middle, taps = centre(kernel.shape[axis], padding), kernel.shape[axis]
    padded = functional.pad(kernel.movedim(axis, -1), (0, size - taps)).movedim(-1, axis)
    return padded.roll(-middle, axis) if middle else padded


def circle_size(length: int, taps: int, padding: str) -> int:
    """Return how many points a transform needs: for a line, so many that no tap reaches round to the other end."""
    if padding == "circular":
        return length
    middle = centre(taps, padding)
    return fast_length(length + max(middle, taps - 1 - middle))


def fast_length(least: int) -> int:
    """Return the first length from ``least`` on without a prime factor above 5, that is, a divisor of a power of 30."""
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
print(
    "the FFT is the definition, within 1e-6 in float32 and 1e-14 in float64;", circle_size(100, 199, "zero"), "points"
)
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


# %%
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

points = [circle_size(length, length, "causal") for length in lengths]
work = {"tap by tap": [2 * n**2 for n in lengths], "FFT": [15 * n * log2(n) + 6 * n for n in points]}
slopes, clock = ({name: log2(row[-1] / row[-4]) / 3 for name, row in found.items()} for found in (work, spent))
fig = Figure(figsize=(7, 3.4))
ax = plots.plot_costs(lengths, work, slopes, fig.add_subplot())
ax.set(ylabel="operations a channel", title="Twice the length: four times the work, or about twice")
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


# %% tags=["promote:mixers/implicit_kernel"]
def position_grid(lengths: Sequence[int], reach: Sequence[int], like: Tensor) -> Float[Tensor, "1 *taps axes"]:
    """Return the positions of a kernel that reaches ``lengths`` - 1 to either side along each axis.

    Neighbours stand 1 / (reach - 1) apart: at a length of ``reach`` positions run from -1 to 1, and a longer kernel
    reads on beyond, with the same steps. In ``like``'s dtype, float32 at least, lest neighbours fall together.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    lines = [
        torch.arange(1 - length, length, dtype=dtype, device=like.device) / (last - 1)
        for length, last in zip(lengths, reach, strict=True)
    ]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1)[None]


def uniform(linear: nn.Linear, bound: float | None = None, shrink: float = 1.0) -> nn.Linear:
    """Draw the weight from +- ``bound``, by default SIREN's sqrt(6 / fan_in), zero the bias, return the map."""
    bound = sqrt(6 / linear.in_features) if bound is None else bound
    nn.init.uniform_(linear.weight, -bound / shrink, bound / shrink)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear


def modulated(h: Float[Tensor, "#batch *taps hidden"], film: tuple[Tensor, Tensor] | None) -> Tensor:
    """Return gamma h + beta, the same at all taps of a sample, or the very same ``h`` without them."""
    if film is None:
        return h
    gamma, beta = (each.view(len(each), *[1] * (h.ndim - 2), -1) for each in film)
    return gamma * h + beta


class SIRENPositionalEmbedding(nn.Module):
    r"""The first layer: :math:`\sin(W_0 p + b_0)` at each position p of a grid, spared by weight decay.

    Args:
        data_dim: number of space axes, 1 to 3.
        embedding_dim: number of features, at least 1.
        L_cache: the length at which positions run from -1 to 1, at least 2, for all axes or a list with one for each.
        omega_0: how many waves fit between 0 and 1 at most, above 0: W_0 starts in
            :math:`\pm 2 \pi \omega_0 / \mathrm{data\_dim}`.
        use_bias: whether there is a b_0, zero at the start.

    Raises:
        InvalidInput: for numbers out of range, or another number of lengths than of axes.
    """

    def __init__(
        self, data_dim: int, embedding_dim: int, L_cache: int | Sequence[int], omega_0: float, use_bias: bool = True
    ) -> None:
        super().__init__()
        check_data_dim("data_dim", data_dim)
        check_size("embedding_dim", embedding_dim)
        check_positive("omega_0", omega_0)
        self.L_cache = [L_cache] * data_dim if isinstance(L_cache, int) else list(L_cache)
        check_one_per_axis("L_cache", self.L_cache, data_dim)
        for length in self.L_cache:
            check_size("L_cache", length, 2)
        self.linear = uniform(nn.Linear(data_dim, embedding_dim, bias=use_bias), 2 * pi * omega_0 / data_dim)
        no_weight_decay(self)

    def forward(
        self, lengths: Sequence[int]
    ) -> tuple[Float[Tensor, "1 *taps features"], Float[Tensor, "1 *taps axes"]]:
        """Return the features, in the weights' dtype, and the grid of 2 length - 1 positions along each axis."""
        check_one_per_axis("lengths", list(lengths), len(self.L_cache))
        weight, bias = self.linear.weight, self.linear.bias
        grid = position_grid(lengths, self.L_cache, like=weight)
        wave = functional.linear(grid, weight.to(grid.dtype), None if bias is None else bias.to(grid.dtype))
        return wave.sin().to(weight.dtype), grid


# %% [markdown]
# The hidden weights begin in ±√(6 / inputs), which keeps the spread of what goes into a sine at 1, layer after layer.
# The last ones are divided by the root of the number of positions, so that a sum over them all has about the signal's
# size. (`film` comes later; without a condition it does nothing.)


# %% tags=["promote:mixers/implicit_kernel"]
class SIRENKernel(nn.Module):
    r"""A kernel said by a network of sines: as long as one likes, from the same few parameters.

    All but ``out_linear.weight`` is spared by weight decay; a ``film_cfg`` says for itself.

    Args:
        out_dim: number of channels of the kernel, at least 1.
        data_dim: number of space axes, 1 to 3.
        mlp_hidden_dim: width of the hidden layers, at least 1.
        num_layers: layers of sines, the first one included, at least 2.
        embedding_dim: width of the first layer, at least 1.
        omega_0: how many waves fit between 0 and 1 at most in the first layer, above 0.
        L_cache: the length at which positions run from -1 to 1, at least 2, for all axes or a list with one for each.
        use_bias: whether the linear maps have biases, zero at the start.
        hidden_omega_0: frequency of the hidden layers, above 0; it cancels, since it multiplies the weights and divides
            their bound, :math:`\sqrt{6 / \mathrm{fan\_in}}`.
        film_cfg: what to build (``config.build``) to modulate each hidden layer by a condition: a
            ``KernelFiLMGenerator`` of ``num_layers - 1`` layers of ``mlp_hidden_dim`` features.
        film_after_pos_embed: whether the first layer is modulated too, by one film layer more.

    Raises:
        InvalidInput: for numbers out of range, or a ``film_cfg`` that does not fit.
    """

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
        check_size("out_dim", out_dim)
        check_size("mlp_hidden_dim", mlp_hidden_dim)
        check_size("num_layers", num_layers, 2)
        check_positive("hidden_omega_0", hidden_omega_0)
        if film_after_pos_embed:
            check_equal("embedding_dim", embedding_dim, mlp_hidden_dim, "mlp_hidden_dim, with film_after_pos_embed")
        self.out_dim, self.data_dim = out_dim, data_dim
        self.widths = [embedding_dim] + [mlp_hidden_dim] * (num_layers - 1)
        self.positional_embedding = SIRENPositionalEmbedding(data_dim, embedding_dim, L_cache, omega_0, use_bias)
        hidden = [nn.Linear(*pair, bias=use_bias) for pair in pairwise(self.widths)]
        self.hidden_linears = nn.ModuleList(no_weight_decay(uniform(each)) for each in hidden)
        volume = prod(self.positional_embedding.L_cache)  # a sum over so many taps should keep the signal's size
        self.out_linear = uniform(nn.Linear(mlp_hidden_dim, out_dim, bias=use_bias), shrink=sqrt(volume))
        self.film_generator = None
        if film_cfg is not None:
            film = check_kind("film_cfg", build(film_cfg), KernelFiLMGenerator)
            layers = num_layers - 1 + film_after_pos_embed
            check_equal("num_film_layers", film.num_film_layers, layers, "one for each layer that is modulated")
            check_equal("kernel_hidden_dim", film.kernel_hidden_dim, mlp_hidden_dim, "mlp_hidden_dim")
            self.film_generator = film

    def forward(
        self, lengths: Sequence[int], conditioning: Float[Tensor, "batch features"] | None = None
    ) -> tuple[Float[Tensor, "samples *taps channels"], Float[Tensor, "1 *taps axes"]]:
        """Return 2 length - 1 taps along each axis, and the grid on which they stand.

        With a film generator and a condition there is one kernel for each sample, else one for them all.
        """
        first, *others = self._films(conditioning)
        features, grid = self.positional_embedding(lengths)
        h = modulated(features, first)
        for linear, film in zip(self.hidden_linears, others, strict=True):
            h = modulated(linear(h).sin(), film)
        return self.out_linear(h), grid

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost of all taps for a signal of ``shape``: 0 at inference where no condition changes them."""
        film = self.film_generator
        if inference and film is None:
            return 0
        taps = prod(2 * length - 1 for length in ([shape] if isinstance(shape, int) else shape))
        maps = zip([self.data_dim, *self.widths], [*self.widths, self.out_dim], strict=True)
        sines = sum(2 * fan_in * fan_out for fan_in, fan_out in maps) + sum(self.widths)
        if film is None:
            return taps * sines
        return taps * (sines + 2 * film.num_film_layers * film.kernel_hidden_dim) + film.flop_count()

    def _films(self, conditioning: Tensor | None) -> list[tuple[Tensor, Tensor] | None]:
        """Return (gamma, beta) of each layer of sines, ``None`` where nothing modulates it."""
        if conditioning is None or self.film_generator is None:
            return [None] * len(self.widths)
        films = self.film_generator(conditioning)
        return [*[None] * (len(self.widths) - len(films)), *films]


# %% [markdown]
# **From 64 positions to 8,192: how many more parameters does the network need?**

# %% tags=["predict"]
guess = predict("A kernel for 8,192 positions instead of 64: the network has", ["no more", "128 times as many"])

# %%
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
fig = Figure(figsize=(7, 3.6))
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
# <details><summary>Hint 2</summary>positions[:, None] * first has shape (positions, h); then a sine, then
# <code>@ hidden.T</code>, a sine, <code>@ last</code>.</details>


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
# The grey curve is what one network says everywhere, the dots are the taps that a signal of this length asks for. To
# the right, who hears whom.
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


# %% tags=["promote:mixers/kernel_mask"]
class ExponentialModulation(nn.Module):
    r"""Multiply a kernel by :math:`e^{-|p| |w|}`, one w for each axis and channel, spared by weight decay.

    Args:
        data_dim: number of space axes, 1 to 3.
        num_channels: number of channels of the kernel, at least 1.
        fast_decay_pct: where w starts in the last channel, above 0, divided by ``data_dim``; 13.81 is a millionth at
            the end.
        slow_decay_pct: where it starts in the first one; those between are evenly spaced.

    Raises:
        InvalidInput: for numbers out of range, or a grid or kernel of another width.
    """

    def __init__(
        self, data_dim: int, num_channels: int, fast_decay_pct: float = 13.81, slow_decay_pct: float = 2.3
    ) -> None:
        super().__init__()
        check_data_dim("data_dim", data_dim)
        check_size("num_channels", num_channels)
        check_positive("fast_decay_pct", fast_decay_pct)
        check_positive("slow_decay_pct", slow_decay_pct)
        decay = torch.linspace(slow_decay_pct, fast_decay_pct, num_channels) / data_dim
        self.weight = nn.Parameter(decay.repeat(data_dim, 1))
        no_weight_decay(self)

    def forward(
        self, grid: Float[Tensor, "1 *taps axes"], x: Float[Tensor, "batch *taps channels"]
    ) -> Float[Tensor, "batch *taps channels"]:
        """Return ``x``, quieter the farther ``grid`` says that it stands from 0; shape and dtype stay."""
        check_width("grid", grid, len(self.weight))
        check_width("x", x, self.weight.shape[-1])
        return x * torch.exp(-grid.abs() @ self.weight.abs().to(grid.dtype)).type_as(x)


class GaussianModulation(nn.Module):
    r"""Multiply a kernel by :math:`e^{-p^2 / 2 \sigma^2}`, one sigma for each axis and channel, spared by weight decay.

    A sigma outside its limits counts as the limit, but keeps its gradient, so that it can come back.

    Args:
        data_dim: number of space axes, 1 to 3.
        num_channels: number of channels of the kernel, at least 1.
        min_std: the smallest sigma that counts, above 0.
        max_std: the largest one, or no limit.
        init_std_low: where sigma starts in the first channel, above 0.
        init_std_high: where it starts in the last one; those between are evenly spaced in their logarithm.
        parametrization: what is learned: sigma itself (``"direct"``), its logarithm (``"log"``), or what ``"softplus"``
            turns into it.

    Raises:
        InvalidInput: for numbers out of range, an unknown parametrization, or a grid or kernel of another width.
    """

    def __init__(
        self,
        data_dim: int,
        num_channels: int,
        min_std: float = 1e-3,
        max_std: float | None = None,
        init_std_low: float = 0.05,
        init_std_high: float = 1.0,
        parametrization: str = "direct",
    ) -> None:
        super().__init__()
        check_data_dim("data_dim", data_dim)
        check_size("num_channels", num_channels)
        limits = {"min_std": min_std, "init_std_low": init_std_low, "init_std_high": init_std_high}
        for name, value in (limits if max_std is None else {**limits, "max_std": max_std}).items():
            check_positive(name, value)
        if max_std is not None:
            check_below("min_std", min_std, max_std)
        check_choice("parametrization", parametrization, ["direct", "log", "softplus"])
        self.min_std, self.max_std, self.parametrization = min_std, max_std, parametrization
        low, high = torch.tensor([init_std_low, init_std_high]).log().tolist()
        std = torch.linspace(low, high, num_channels).exp().repeat(data_dim, 1)
        self.std_param = nn.Parameter({"direct": std, "log": std.log(), "softplus": std.expm1().log()}[parametrization])
        no_weight_decay(self)

    @property
    def std(self) -> Float[Tensor, "axes channels"]:
        """Every sigma, within its limits."""
        learned = self.std_param
        std = {"direct": learned, "log": learned.exp(), "softplus": functional.softplus(learned)}[self.parametrization]
        return std + (std.clamp(self.min_std, self.max_std) - std).detach()

    def forward(
        self, grid: Float[Tensor, "1 *taps axes"], x: Float[Tensor, "batch *taps channels"]
    ) -> Float[Tensor, "batch *taps channels"]:
        """Return ``x``, quieter the farther ``grid`` says that it stands from 0; shape and dtype stay."""
        check_width("grid", grid, len(self.std_param))
        check_width("x", x, self.std_param.shape[-1])
        return x * torch.exp(-0.5 * grid.square() @ self.std.to(grid.dtype).square().reciprocal()).type_as(x)


# %% [markdown]
# ## CKConv
#
# A *continuous kernel* convolution. Kernel, mask, convolution and shortcut: a mixer for signals of one, two or three
# axes. `grid_type="double"` asks for 2 T − 1 taps, so that either end hears the other; round a circle there are only T
# places, so `"single"`.


# %% tags=["promote:mixers/ckconv"]
class CKConv(nn.Module):
    r"""Convolve each channel with a long implicit kernel, and add :math:`s \cdot x`.

    Args:
        data_dim: number of space axes, 1 to 3.
        hidden_dim: number of channels, at least 1.
        kernel_cfg: what to build (``config.build``) to say the kernel, such as ``SIRENKernel``: called with a length
            for each axis and a condition, it returns 2 length - 1 taps along each, and their grid.
        mask_cfg: what to build to fade the kernel: ``forward(grid, kernel)``, or ``nn.Identity``.
        grid_type: ``"double"``, 2 T - 1 taps, so that either end hears the other; ``"single"``, about T taps, half of
            them to either side; ``None``: single along circular axes, double along the others.
        fft_padding: what lies beyond the ends, ``"zero"`` or ``"circular"``, for all axes or a list with one for each.
        is_causal: whether a position hears only itself and earlier ones: of the taps, those from the middle on. One
            axis only.

    Raises:
        InvalidInput: for numbers or names out of range, what does not go together, or a signal of another shape.
    """

    def __init__(
        self,
        data_dim: int,
        hidden_dim: int,
        kernel_cfg: Spec,
        mask_cfg: Spec,
        grid_type: str | None,
        fft_padding: Padding,
        is_causal: bool = False,
    ) -> None:
        super().__init__()
        check_data_dim("data_dim", data_dim)
        check_size("hidden_dim", hidden_dim)
        paddings = padding_of_each_axis("fft_padding", fft_padding, data_dim, ["zero", "circular"])
        if grid_type is not None:
            check_choice("grid_type", grid_type, ["double", "single"])
        check_grid_type(grid_type, paddings)
        if is_causal:
            check_causal_axes(data_dim, paddings)
        self.data_dim, self.hidden_dim, self.is_causal = data_dim, hidden_dim, is_causal
        self.single = [grid_type == "single" or padding == "circular" for padding in paddings]
        self.paddings = ["causal"] if is_causal else paddings
        self.kernel, self.mask = build(kernel_cfg), build(mask_cfg)
        check_equal("kernel's out_dim", getattr(self.kernel, "out_dim", hidden_dim), hidden_dim, "hidden_dim")
        check_equal("kernel's data_dim", getattr(self.kernel, "data_dim", data_dim), data_dim, "as many axes as here")
        self.shortcut = nn.Parameter(torch.empty(hidden_dim).uniform_(-1, 1) / sqrt(hidden_dim))

    def forward(
        self, x: Float[Tensor, "batch *space channels"], *, conditioning: Float[Tensor, "#batch features"] | None = None
    ) -> Float[Tensor, "batch *space channels"]:
        """Mix the positions of ``x``; ``conditioning`` goes to the kernel, which may bend by it, sample by sample."""
        check_shape("x", x, self.data_dim, self.hidden_dim)
        kernel = self.taps(x.shape[1:-1], conditioning)
        return long_convolution(x, kernel, self.paddings) + (self.shortcut * x).type_as(x)

    def taps(
        self, space: Sequence[int], conditioning: Float[Tensor, "samples features"] | None = None
    ) -> Float[Tensor, "kernels *taps channels"]:
        """Return the kernel, masked, for a signal with axes of length ``space``."""
        kernel, grid = self.kernel(self._lengths(space), conditioning)
        kernel = kernel if is_bypassed(self.mask) else self.mask(grid, kernel)
        return kernel[:, kernel.shape[1] // 2 :] if self.is_causal else kernel

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: the kernel, three transforms (two where it can be kept), and the products."""
        space = [shape] if isinstance(shape, int) else list(shape)
        check_one_per_axis("shape", space, self.data_dim)
        lengths, positions = self._lengths(space), count_positions(space)
        taps = [length if self.is_causal else 2 * length - 1 for length in lengths]
        sizes = [circle_size(*each) for each in zip(space, taps, self.paddings, strict=True)]
        said = flop_count(self.kernel, lengths, inference)
        transforms = 2 if inference and said == 0 else 3
        points = self.hidden_dim * prod(sizes)
        return said + int(transforms * 5 * points * sum(map(log2, sizes))) + 6 * points + self.hidden_dim * positions

    def _lengths(self, space: Sequence[int]) -> list[int]:
        """Return how far the kernel reaches along each axis, its middle tap included."""
        return [(length + 1) // 2 if single else length for length, single in zip(space, self.single, strict=True)]


# %% [markdown]
# A digit is an image of 8 × 8. Read row by row it is a sequence of 64, and the pixel above is the one eight places
# back. A narrow mask lets a pixel hear what is near. **In the sequence, what is near?**

# %% tags=["predict"]
guess = predict(
    "In the sequence, behind a narrow mask, a pixel hears",
    ["those around it, on all sides", "those beside it in its row", "all alike"],
)


# %%
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

fig = Figure(figsize=(7, 3.6))
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

# %%
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

fig = Figure(figsize=(7, 3.4))
for ax, (name, way) in zip(fig.subplots(1, 2), {"all taps": free, "from the middle on": causal}.items(), strict=True):
    heard = mixing_matrix(way, before[:, ::4])
    plot_mixing_matrix(heard.where(heard > 1e-6, 0), ax).set_title(name, weight="normal")
fig.suptitle("Causal: nobody hears a later position", x=0.01, ha="left", weight="bold")
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


# %% tags=["promote:mixers/film"]
class KernelFiLMGenerator(nn.Module):
    r"""Say :math:`(\gamma, \beta)` of each layer of a kernel network, from a condition, by a small MLP.

    Args:
        cond_dim: number of channels of the condition, at least 1.
        kernel_hidden_dim: number of features of each layer that is modulated, at least 1.
        num_film_layers: number of those layers, at least 1.
        film_hidden_dim: width of the MLP, at least 1.
        no_weight_decay: whether its matrices are spared by ``parameter_groups``, as its vectors always are.
        init_type: ``"identity"`` starts from zero weights, so that every kernel is the unconditioned one, exactly;
            ``"small_random"`` from normal ones.
        init_std: their standard deviation, above 0.

    Raises:
        InvalidInput: for a size out of range, an unknown ``init_type``, or a condition of another width.
    """

    def __init__(
        self,
        cond_dim: int,
        kernel_hidden_dim: int,
        num_film_layers: int,
        film_hidden_dim: int = 64,
        no_weight_decay: bool = False,
        init_type: str = "identity",
        init_std: float = 1e-4,
    ) -> None:
        super().__init__()
        sizes = {"cond_dim": cond_dim, "kernel_hidden_dim": kernel_hidden_dim, "num_film_layers": num_film_layers}
        for name, size in {**sizes, "film_hidden_dim": film_hidden_dim}.items():
            check_size(name, size)
        check_choice("init_type", init_type, ["identity", "small_random"])
        check_positive("init_std", init_std)
        check_flag("no_weight_decay", no_weight_decay)
        self.cond_dim, self.kernel_hidden_dim, self.num_film_layers = cond_dim, kernel_hidden_dim, num_film_layers
        self.film_hidden_dim = film_hidden_dim
        last = nn.Linear(film_hidden_dim, num_film_layers * 2 * kernel_hidden_dim)
        nn.init.normal_(last.weight, std=init_std if init_type == "small_random" else 0.0)
        with torch.no_grad():
            last.bias.view(num_film_layers, 2, -1).copy_(torch.tensor([[1.0], [0.0]]))  # gamma 1, beta 0
        self.mlp = nn.Sequential(nn.Linear(cond_dim, film_hidden_dim), nn.GELU(), last)
        if no_weight_decay:
            spare(self.mlp)

    def forward(
        self, conditioning: Float[Tensor, "batch channels"]
    ) -> list[tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch hidden"]]]:
        r"""Return :math:`(\gamma, \beta)` of each layer, a row for each sample."""
        check_condition("conditioning", conditioning, self.cond_dim)
        said = self.mlp(conditioning).unflatten(-1, (self.num_film_layers, 2, self.kernel_hidden_dim))
        return [(layer[:, 0], layer[:, 1]) for layer in said.unbind(1)]

    def flop_count(self, shape: Shape = 1, inference: bool = False) -> int:
        """Return the cost of one condition, whatever the length of the signal."""
        return sum(2 * each.numel() for each in self.mlp.parameters() if each.ndim == 2) + self.film_hidden_dim


# %% [markdown]
# A task that one kernel cannot do: move a signal round a circle by 0, 5, 10 or −7 places, as the condition says. A single
# kernel must serve all four at once. For white noise of size 1 its best is a tap of ¼ at each of the four lags. **What
# mean square error is left?**

# %% tags=["predict"]
guess = predict("The least mean square error of one kernel for four shifts:", ["0", "0.25", "0.75", "1"])

# %%
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
    assert torch.equal(conv.taps([32], torch.ones(1, 4, device=device)), conv.taps([32]))  # not bent yet
    adam = torch.optim.Adam(conv.parameters(), lr=3e-3, fused=True)
    losses = train(lambda x, c, y: functional.mse_loss(conv(x, conditioning=c), y), shifted(seed), adam, 300)
    return conv, sum(losses[-50:]) / 50


film = partial(KernelFiLMGenerator, 4, 16, 2, 32)
for seed in range(3):
    (_, plain), (bent, told) = learn(None, seed), learn(film, seed)
    assert 0.7 < plain < 0.9 and told < 0.05
guess.reveal("0.75")

# %% [markdown]
# 1 − ¼ is the least that one kernel can miss, and it misses about that much. With FiLM almost nothing is left, three
# seeds. Here are the four kernels that the network says now.

# %%
taps = bent.taps([32], torch.eye(4, device=device))[..., 0].detach().cpu()
fig = Figure(figsize=(7, 4.0))
ax = plots.plot_ridges(torch.arange(-15, 16), dict(zip(names, taps, strict=True)), fig.add_subplot(), "lag")
ax.set_title("One network, four kernels: a single tap each, at the lag that c says")
show(fig, alt="Four learned kernels, each with one peak, at lags 0, 5, 10 and −7, the last three with a dip at lag 0.")
assert (taps.argmax(1) - 15).tolist() == shifts.tolist() and (taps[1:, 15] + bent.shortcut.item()).abs().max() < 0.05

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


# %% tags=["promote:parts/causal_conv"]
class CausalConv1D(nn.Conv1d):
    """``nn.Conv1d`` with its zeros before the start, so that no position hears a later one.

    Channels stand on the axis before the last one, as in ``nn.Conv1d``; ``groups=in_channels`` gives each its own
    kernel. With a stride of 1 the length stays.

    Args:
        in_channels: number of channels in, at least 1.
        out_channels: number of channels out, at least 1.
        kernel_size: number of taps, at least 1.
        stride: every how many positions there is an output, at least 1.
        dilation: how far apart the taps stand, at least 1.
        groups: into how many parts the channels fall that do not hear each other; it divides both numbers of channels.
        bias: whether a bias is learned.
        is_causal: if not, the zeros stand half before the start and half beyond the end, as torch's ``"same"`` has it.

    Raises:
        InvalidInput: for a size out of range, groups that do not divide the channels, or an integer input.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        is_causal: bool = True,
    ) -> None:
        sizes = {"in_channels": in_channels, "out_channels": out_channels, "kernel_size": kernel_size}
        for name, size in {**sizes, "stride": stride, "dilation": dilation, "groups": groups}.items():
            check_size(name, size)
        check_divisible("in_channels", in_channels, groups, "groups")
        check_divisible("out_channels", out_channels, groups, "groups")
        super().__init__(
            in_channels, out_channels, kernel_size, stride=stride, dilation=dilation, groups=groups, bias=bias
        )
        self.is_causal = is_causal

    def forward(self, x: Float[Tensor, "*batch channels time"]) -> Float[Tensor, "*batch out_channels steps"]:
        """Convolve the last axis of ``x``."""
        check_floating("x", x)
        reach = (self.kernel_size[0] - 1) * self.dilation[0]
        before = reach if self.is_causal else reach // 2
        return super().forward(functional.pad(x, (before, reach - before)))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample of ``shape`` positions."""
        return convolution_flops(self, -(-count_positions(shape) // self.stride[0]))


# %% tags=["promote:mixers/hyena"]
class Hyena(nn.Module):
    r"""Mix positions by a long convolution of :math:`q \cdot \sigma(k)`, gated by :math:`\sigma_2(v)`.

    Args:
        global_conv_cfg: what to build (``config.build``) to mix positions far and near, such as ``CKConv``:
            ``forward(x, *, conditioning)``.
        short_conv_cfg: a convolution of torch's over query, key and value side by side (3 x channels, padded to keep
            the length), a ``CausalConv1D``, or ``nn.Identity``.
        gate_nonlinear_cfg: the first gate's sigma, such as ``nn.SiLU``; ``nn.Identity`` gives a plain product.
        pixelhyena_norm_cfg: the norm before the long convolution, or ``nn.Identity``.
        qk_norm_cfg: the norm of the query, and where the first gate is plain of the key too; or ``None``.
        output_norm_cfg: the norm after the second gate.
        gate_nonlinear_2_cfg: the second gate's sigma; by default the first one.

    Raises:
        InvalidInput: for a short convolution of another kind, a part that hears later positions beside a causal long
            convolution, or signals whose shapes differ.
    """

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
        check_conditionable("global_conv", self.global_conv)
        self.short_conv: Any = check_short_convolution(build(short_conv_cfg))
        self.gate_nonlinear = build(gate_nonlinear_cfg)
        self.gate_nonlinear_2 = self.gate_nonlinear if gate_nonlinear_2_cfg is None else build(gate_nonlinear_2_cfg)
        self.pixelhyena_norm = no_weight_decay(build(pixelhyena_norm_cfg))
        self.output_norm = no_weight_decay(build(output_norm_cfg))
        self.q_norm = None if qk_norm_cfg is None else build(qk_norm_cfg)
        gated = not is_bypassed(self.gate_nonlinear)
        self.k_norm = None if qk_norm_cfg is None or gated else build(qk_norm_cfg)
        if getattr(self.global_conv, "is_causal", False):
            self._check_causal()

    def forward(
        self,
        query: Float[Tensor, "batch *space channels"],
        key: Float[Tensor, "batch *space channels"],
        value: Float[Tensor, "batch *space channels"],
        *,
        conditioning: Tensor | None = None,
    ) -> Float[Tensor, "batch *space channels"]:
        """Mix the positions of the three signals into one; ``conditioning`` goes to the long convolution."""
        check_floating("query", query)
        check_same_shape("key", key, "query", query)
        check_same_shape("value", value, "query", query)
        query, key, value = self._short(torch.cat([query, key, value], dim=-1)).chunk(3, dim=-1)
        query, key = over_channels(self.q_norm, query), over_channels(self.k_norm, key)
        z = over_channels(self.pixelhyena_norm, query * self.gate_nonlinear(key))
        h = self.global_conv(z, conditioning=conditioning)
        return over_channels(self.output_norm, h * self.gate_nonlinear_2(value))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: short convolution, norms (3 a number), gates, and the long convolution."""
        numbers = count_positions(shape) * self.global_conv.hidden_dim
        norms = [self.q_norm, self.k_norm, self.pixelhyena_norm, self.output_norm]
        active = sum(norm is not None and not is_bypassed(norm) for norm in norms)
        sigmas = sum(not is_bypassed(gate) for gate in (self.gate_nonlinear, self.gate_nonlinear_2))
        short = 0 if is_bypassed(self.short_conv) else convolution_flops(self.short_conv, count_positions(shape))
        return short + (3 * active + 2 + sigmas) * numbers + flop_count(self.global_conv, shape, inference)

    def _short(self, x: Float[Tensor, "batch *space channels"]) -> Float[Tensor, "batch *space channels"]:
        """Let each position hear its neighbours; torch's convolutions look for channels on axis 1."""
        if is_bypassed(self.short_conv):
            return x
        check_short_channels(self.short_conv, x)
        y = self.short_conv(x.movedim(-1, 1)).movedim(1, -1)
        check_short_kept(x, y)
        return y

    def _check_causal(self) -> None:
        """Refuse what would tell a position of later ones although the long convolution does not."""
        short = self.short_conv
        ahead = not getattr(short, "is_causal", is_bypassed(short) or set(short.kernel_size) == {1})
        check_hears_no_future("short_conv", short, ahead)
        for name, norm in self.named_children():
            check_hears_no_future(name, norm, isinstance(norm, CHANNELS_FIRST))


# %% [markdown]
# Take a 6 and a 5, each a signal of eight rows, and measure two mixing matrices at both: a causal Hyena's, and that of
# the CKConv inside it by itself. **Does the CKConv's differ from the 6 to the 5?**

# %% tags=["predict"]
guess = predict("The mixing matrices of a CKConv at two different signals are", ["the same", "different"])

# %%
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

fig = Figure(figsize=(7, 2.5))
for ax, ((name, digit), heard) in zip(fig.subplots(1, 4), maps.items(), strict=True):
    plot_mixing_matrix(heard.where(heard > 1e-6, 0), ax, named=False).set_title(f"{name}, a {digit}", weight="normal")
fig.suptitle("The convolution mixes the same way whatever it reads; Hyena listens", x=0.01, ha="left", weight="bold")
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
# <details><summary>Hint 2</summary><code>convolve(query * silu(key))</code>, and then the value. <code>silu</code> is
# <code>torch.nn.functional.silu</code>.</details>


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
# Four residual blocks of lesson 07, each with a Hyena and an MLP, read a digit as eight rows. **After 150 steps of
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


for seed in range(3):
    torch.manual_seed(seed)
    net = Reader().to(device)
    batches = minibatches(data.train_images.to(device), data.train_labels.to(device), seed=seed)
    adam = torch.optim.Adam(net.parameters(), lr=3e-3, fused=True)
    with GradientFlowRecorder(net, net.blocks) as flow:
        train(lambda rows, y, net=net: functional.cross_entropy(net(rows), y), batches, adam, 150)
    assert accuracy(net, data.test_images.to(device), data.test_labels.to(device)) > 0.93
    assert (flow.added[-1] / flow.activation[-1, :-1]).min() > 0.5 and flow.delta[-1, 0] > 10 * flow.delta[-1, -1]

# %%
fig = Figure(figsize=(7, 3.6))
ax = plot_stream(flow, fig.add_subplot(), step=149, norms="pre")
ax.set_title("Four blocks of Hyena, trained: every one adds to the stream")
show(fig, alt="A river through four trained blocks: every block adds a tributary, as wide as the bed that it enters.")
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
