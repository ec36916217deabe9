# %% [markdown]
# # 08b, appendix · The library's long convolution, CKConv and Hyena; two dimensions
#
# Not needed for [lesson 08b](08b_long_convolution.ipynb), and not counted in it.

# %%
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import digits, photos
from residual_course.exercises import check
from residual_course.explorers.lags import explore_lags
from residual_course.lesson import holds, setup, show
from residual_course.plots import long_convolution as plots

device = setup()

# %% [markdown]
# ## Where must 16 taps stand?
#
# The lesson's neuron. Move 16 taps and the horizon; the map below keeps what you tried. **Find out:** for 100 ms ahead, at which first lags do they work? The nearest needed lag is not P − h: what is it? And for which horizons are the lags 0 to 15 enough?

# %% tags=["explorer"]
explore_lags()

# %% [markdown]
# <details><summary>Answer</summary>P − 100 is below 0, so the nearest lag is 2P − 100, about 43: first lags from about 28 to 43, and again a period further, from about 100 on. The lags 0 to 15 do where P − h or 2P − h is among them: 56 to 71 ms ahead, and from 127 on.</details>

# %% [markdown]
# ## The long convolution
#
# `long_convolution` is the convolution by Fourier transform, for one to three axes; `convolution_matrix` is its definition. There are three answers to what lies beyond the ends: "zero" puts zeros there and the *middle* tap at lag 0; "circular" closes a circle; "causal" puts the *first* tap at lag 0, as in the lesson.
#
# A centred kernel reaches only half as far to either side, so (taps − 1) / 2 zeros are enough; `fft_size` adds them, and rounds up to a length of small prime factors, which a transform likes best. The transforms run along the last axes of a contiguous tensor, where memory is read in order. `real_fft` is `torch.fft.rfftn` with a cheaper backward pass: a real transform, where torch takes a complex one. A first reader may skip the code.

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


# %% tags=["figure"]
kernel, x = torch.tensor([1.0, 2, -1]), torch.tensor([1.0, 2, 3, 4])
fig = Figure(figsize=(6, 2.8))
for ax, padding in zip(
    fig.subplots(1, 3, sharey=True), ("zero", "circular", "causal"), strict=True
):
    matrix = convolution_matrix(kernel, 4, padding)
    result = ", ".join(f"{y:g}" for y in matrix @ x)
    plots.plot_taps(matrix, ax).set_title(f"{padding}: {result}", weight="normal")
    ax.set(xlabel="input position", ylabel="output" if padding == "zero" else "")
title = "Three answers to what lies beyond the ends"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Matrices of the same taps, green above 0 and purple below: zero has three "
show(fig, alt=alt + "diagonals, circular two corners more, causal nothing above.")

# %% [markdown]
# Transform and definition agree up to rounding, not bit for bit: what should be 0 will be 0.0000001. For 100 positions and 199 centred taps, 199 points are needed, rounded up to 200.

# %%
for dtype, bound in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
    x, kernel = torch.randn(2, 100, 3), torch.randn(1, 199, 3)
    matrix = convolution_matrix(kernel[0].double().T, 100)
    wanted = torch.einsum("cij,bjc->bic", matrix, x.double())
    found = long_convolution(x.to(device, dtype), kernel.to(device, dtype))
    off = (found.double().cpu() - wanted).abs().max() / wanted.abs().max()
    holds(off < bound, "Transform and definition agree.")
print("agree; points of the transform:", fft_size(100, 199, "zero"))

# %% [markdown]
# ## The generated kernel
#
# `SIRENPositionalEmbedding` is the first layer, `SIRENKernel` the whole network. Its grid runs from −1 to 1: 2 · length − 1 taps, so that either end of a signal reaches the other. ω₀ counts waves, as in the lesson. (The SIREN paper counts radians, sin(ω₀ (w p + b)) with w between ±1: its ω₀ = 30 is about 5 waves in one unit of p.) The hidden weights begin in ±√(6 / inputs), and `hidden_omega_0` is accepted and changes nothing: in the SIREN paper it multiplies inside
# the sine and divides the first weights, which cancels at the start. (There it makes the steps of a training larger as well; not here.) `film_cfg` names a network that scales and shifts the hidden features by a condition; without one, nothing is scaled. A first reader may skip the code.

# %% tags=["promote:mixers/implicit_kernel"] jupyter={"source_hidden": true}
from functools import partial
from math import pi, sqrt

import torch
from torch import nn
from torch.nn import functional

from residual_edu.mixers.implicit_kernel import length_of_each_axis
from residual_edu.parts.start import filled
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
    bound = (sqrt(6 / linear.in_features) if bound is None else bound) / shrink
    return filled(linear, partial(nn.init.uniform_, a=-bound, b=bound))


def modulated(h, film):
    # h: batch or 1, ..., hidden
    if film is None:
        return h
    gamma, beta = (each.view(each.shape[0], *[1] * (h.ndim - 2), -1) for each in film)
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
# The last weights are divided by the root of the number of positions, so that a sum over all taps has about the signal's size. In `SIRENKernel` all biases begin at 0, and a sine is odd: so a new kernel is odd, k(−p) = −k(p), with a 0 at lag 0. A first reader may skip the code.

# %% tags=["promote:mixers/implicit_kernel"] jupyter={"source_hidden": true}
from functools import partial
from itertools import pairwise
from math import prod, sqrt

from torch import nn

from residual_edu.config import build
from residual_edu.parts.start import (
    reset_parameters,
    scale_weight,
    start_again,
    starting,
)
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

    resets_children = True  # in the order of the constructor

    def reset_parameters(self):
        reset_parameters(self.positional_embedding)
        for linear in self.hidden_linears:
            nn.Linear.reset_parameters(linear)
        for linear in self.hidden_linears:
            start_again(linear)
        self.out_linear.reset_parameters()
        if self.film_generator is not None:
            reset_parameters(self.film_generator)

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
        starting(
            self.out_linear,
            partial(scale_weight, factor=sqrt(prod(lengths) / prod(halved))),
        )

    def _films(self, conditioning):
        if conditioning is None or self.film_generator is None:
            return [None] * len(self.widths)
        films = self.film_generator(conditioning)
        return [*[None] * (len(self.widths) - len(films)), *films]


# %% tags=["figure"]
kernels = {}
for omega in (1.0, 4.0, 16.0):
    torch.manual_seed(0)
    taps, grid = SIRENKernel(1, 1, 16, 2, 16, omega, 256, use_bias=True)([256])
    kernels[f"ω₀ = {omega:g}"] = taps.flatten().detach()
    off = (taps + taps.flip(1)).abs().max() / taps.abs().max()
    holds(off < 1e-3, "A new kernel is odd.")
ax = plots.plot_ridges(grid.flatten(), kernels, Figure(figsize=(6, 3.2)).add_subplot())
ax.set_title("ω₀ sets how fast a new kernel may wiggle")
alt = "New kernels at ω₀ of 1, 4 and 16, each wavier than the last, all of them odd."
show(ax.figure, alt=alt)

# %% [markdown]
# Why must the last bias begin at 0? It adds one constant to all taps, and 256 constants add up. Here beside torch's start of that bias, which the lesson's `Siren` has; white noise in, 40 new kernels:

# %%
sizes = {"0": [], "torch's": []}
noise = torch.randn(1, 4000, 1, generator=torch.Generator().manual_seed(0))
for seed in range(40):
    torch.manual_seed(seed)
    new = SIRENKernel(1, 1, 32, 2, 32, 16.0, 256, use_bias=True)
    for name, found in sizes.items():
        if name != "0":
            nn.init.uniform_(new.out_linear.bias, -1 / sqrt(32), 1 / sqrt(32))
        taps = new([256])[0][:, 255:].detach()  # the causal half
        found.append(long_convolution(noise, taps, "causal")[:, 256:].std())
means = {name: torch.stack(found).mean().item() for name, found in sizes.items()}
print(*(f"bias {name}: output {size:.2f}" for name, size in means.items()), sep="; ")

# %% [markdown]
# ### Move it yourself
#
# The grey curve is what one network gives everywhere, the dots are the taps that a signal of this length reads. Below, the matrix of the convolution, and a map of the lengths and ω₀ that you tried without a window.
#
# **Find out:** at ω₀ = 4, how long must the signal be for its taps to draw 90 % of the curve? At 8, at 16? Then give the window a decay of 5 and watch the matrix.

# %% tags=["explorer"]
from residual_course.explorers.long_convolution import explore_kernel

explore_kernel()

# %% [markdown]
# <details><summary>Answer</summary>13, 24 and 47: about three positions for each wave of ω₀. With fewer, the taps fall between the waves, and the kernel that a longer signal reads is another one. A decay turns the stripes into a band: near positions count, far ones fade.</details>
#
# ## Windows
#
# The library calls them masks. `ExponentialModulation` multiplies the tap at p by $e^{-|p||w|}$, with w from 2.3 (a tenth is left at the far end) to 13.8 (a millionth), a value for each channel; `GaussianModulation` by $e^{-p^2 / 2\sigma^2}$. Both are learned, and exempt from weight decay. A first reader may skip the code.

# %% tags=["promote:mixers/kernel_mask"] jupyter={"source_hidden": true}
import torch
from torch import nn
from torch.nn import functional

from residual_edu.parts.start import copy_values
from residual_edu.parts.weight_decay import no_weight_decay


class ExponentialModulation(nn.Module):
    def __init__(
        self, data_dim, num_channels, fast_decay_pct=13.81, slow_decay_pct=2.3
    ):
        super().__init__()
        self.slow_decay_pct, self.fast_decay_pct = slow_decay_pct, fast_decay_pct
        self.weight = nn.Parameter(torch.empty(data_dim, num_channels))
        self.reset_parameters()
        no_weight_decay(self)

    def reset_parameters(self):
        axes, channels = self.weight.shape
        decay = (
            torch.linspace(self.slow_decay_pct, self.fast_decay_pct, channels) / axes
        )
        copy_values(self.weight, decay.repeat(axes, 1))

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
        self.init_std = init_std_low, init_std_high
        self.std_param = nn.Parameter(torch.empty(data_dim, num_channels))
        self.reset_parameters()
        no_weight_decay(self)

    def reset_parameters(self):
        copy_values(self.std_param, self.initial().repeat(len(self.std_param), 1))

    def initial(self):
        # result: channels
        low, high = torch.tensor(self.init_std, device="cpu").log().tolist()
        std = torch.linspace(low, high, self.std_param.shape[1], device="cpu").exp()
        # log(exp(std) - 1), which overflows for std above 88
        softplus_inverse = std + (-(-std).expm1()).log()
        return {"direct": std, "log": std.log(), "softplus": softplus_inverse}[
            self.parametrization
        ]

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
# A *continuous kernel* convolution: kernel, window, convolution, and a shortcut s · x, since a new kernel has a 0 at lag 0. `grid_type="double"` takes 2 T − 1 taps; on a circle there are only T places, so `"single"`. A first reader may skip the code of `CKConv`.

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
        self.shortcut = nn.Parameter(torch.empty(hidden_dim))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.uniform_(self.shortcut, -1, 1).data.div_(sqrt(self.hidden_dim))

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
# A digit is an image of 8 × 8. Read row by row it is a sequence of 64, in which the pixel above stands eight places back. With a narrow window the ringed pixel depends on what is near: in the image on all sides, in the sequence in its own row.


# %%
from residual_edu.gradient_flow import mixing_matrix
from residual_course.training import train


def ckconv(channels, axes, length, omega=4.0, mask=None, film=None, **ways):
    """Return a CKConv with a small kernel network, zeros beyond its ends."""
    sizes = (channels, axes, 16, 3, 16, omega, length, True)
    kernel = partial(SIRENKernel, *sizes, film_cfg=film)
    masked = nn.Identity if mask is None else partial(mask, axes, channels)
    ways = {"grid_type": "double", "fft_padding": "zero"} | ways
    return CKConv(axes, channels, kernel, masked, **ways)


# %% tags=["figure"]
data = digits()
digit = data.train_images[:1, :, :, None].to(device)
torch.manual_seed(0)
wide, thin = (
    partial(GaussianModulation, init_std_low=std, init_std_high=std)
    for std in (0.2, 0.03)
)
plane = ckconv(16, 2, 8, mask=wide).to(device)
line = ckconv(16, 1, 64, 32.0, mask=thin).to(device)
around = mixing_matrix(plane, digit.expand(1, 8, 8, 16))[28].view(8, 8)
along = mixing_matrix(line, digit.view(1, 64, 1).expand(1, 64, 16))[28].view(8, 8)
fig = Figure(figsize=(6, 3.8))
named = {"as an image": around, "as a sequence, row by row": along}
for ax, (name, sizes) in zip(fig.subplots(1, 2), named.items(), strict=True):
    plots.plot_heard(sizes, (3, 4), ax).set_title(name, weight="normal")
title = "In a sequence the pixel above is far away"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "What the ringed pixel depends on: in the image those on all sides, in the "
show(fig, alt=alt + "sequence those in its own row.")
holds(around[2, 4] > 0.3 * around[3, 3], "In the image the pixel above counts.")
holds(along[2, 4] < 0.05 * along[3, 3], "In the sequence it does not.")

# %% [markdown]
# With `is_causal=True` a CKConv keeps the taps from the middle on. The test for any causal mixer: change the second half of the input, look at the first half of the output. By the transform it moves by rounding, about 0.0000001; by the matrix by exactly 0.

# %%
before = digit.view(1, 64, 1)
other = data.train_images[1:2].view(1, 64, 1)[:, 32:].to(device)
after = torch.cat([before[:, :32], other], dim=1)
for name, causal in (("causal", True), ("all taps", False)):
    torch.manual_seed(0)
    conv = ckconv(1, 1, 64, is_causal=causal).to(device)
    moved = (conv(after) - conv(before)).detach().abs().flatten()[:32].max().item()
    words = "by rounding" if moved < 1e-5 else "by more"
    print(f"{name:9} the first half of the output moves {words}")
    holds((moved < 1e-5) == causal, "A causal output does not depend on the future.")

# %% [markdown]
# ## A condition changes the kernel
#
# FiLM (feature-wise linear modulation, [Perez et al., 2018](https://arxiv.org/abs/1709.07871)) gives each hidden layer of the kernel's network a scale γ and a shift β, computed from a condition c. At the start γ is 1 and β is 0, so that the kernel is the one it would be without. A first reader may skip the code of `KernelFiLMGenerator`.

# %% tags=["promote:mixers/film"] jupyter={"source_hidden": true}
from functools import partial

from torch import nn

from residual_edu.mixers.film import identity_film
from residual_edu.parts.start import filled
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
        normal = partial(
            nn.init.normal_, std=init_std if init_type == "small_random" else 0.0
        )
        last = filled(last, normal, partial(identity_film, layers=num_film_layers))
        self.mlp = nn.Sequential(nn.Linear(cond_dim, film_hidden_dim), nn.GELU(), last)
        if no_weight_decay:
            exempt(self.mlp)

    resets_children = True  # in the order of the constructor

    def reset_parameters(self):
        self.mlp[2].reset_parameters()
        self.mlp[0].reset_parameters()

    def forward(self, conditioning):
        # conditioning: batch, channels
        films = self.mlp(conditioning).unflatten(
            -1, (self.num_film_layers, 2, self.kernel_hidden_dim)
        )
        return [(layer[:, 0], layer[:, 1]) for layer in films.unbind(1)]


# %% [markdown]
# A task that one kernel cannot do: move a signal round a circle by 0, 5, 10 or −7 places, as the condition tells. For white noise of size 1 the best single kernel has a tap of ¼ at each of the four lags, and leaves a mean square error of 1 − ¼.

# %%
shifts = torch.tensor([0, 5, 10, -7])


def shifted(seed):
    """Yield white noise, one of four conditions each, and the noise moved by it."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        x = torch.randn(64, 32, 1, generator=generator)
        which = torch.randint(4, (64,), generator=generator)
        rows = zip(x, which, strict=True)
        moved = torch.stack([row.roll(int(shifts[k]), 0) for row, k in rows])
        c = F.one_hot(which, 4).float()
        yield x.to(device), c.to(device), moved.to(device)


def learn(film, seed):
    """Return a circular CKConv after 300 steps, and its error over the last 50."""
    torch.manual_seed(seed)
    ways = {"grid_type": "single", "fft_padding": "circular"}
    conv = ckconv(1, 1, 32, 8.0, film=film, **ways).to(device)
    adam = torch.optim.Adam(conv.parameters(), lr=3e-3, fused=True)

    def loss(x, c, y):
        return F.mse_loss(conv(x, conditioning=c), y)

    losses = train(loss, shifted(seed), adam, 300)
    return conv, sum(losses[-50:]) / 50


# %% tags=["trained"]
film = partial(KernelFiLMGenerator, 4, 16, 2, 32)
(_, plain), (bent, told) = learn(None, 0), learn(film, 0)
print(f"mean square error {plain:.2f}, with FiLM {told:.4f}")
holds(0.7 < plain < 0.9 and told < 0.05, "One kernel misses 0.75, with FiLM nothing.")

# %% tags=["figure", "trained"]
taps = bent.taps([32], torch.eye(4, device=device))[..., 0].detach().cpu()
names = ["c for 0", "c for 5", "c for 10", "c for −7"]
ridges = dict(zip(names, taps, strict=True))
ax = Figure(figsize=(6, 3.4)).add_subplot()
ax = plots.plot_ridges(torch.arange(-15, 16), ridges, ax, "lag")
ax.set_title("Four kernels of one network, each a single tap")
alt = (
    "Four learned kernels, each with one peak, at lags 0, 5, 10 and −7, the last three "
)
show(ax.figure, alt=alt + "with a second one at lag 0, which takes back the shortcut.")
peaks = (taps.argmax(1) - 15).tolist()
holds(peaks == shifts.tolist(), "Each kernel is one tap, at the lag of its condition.")

# %% [markdown]
# For a given condition it is still one kernel for every signal.
#
# ## Hyena
#
# The short convolution before query, key and value is a `CausalConv1D`, where the mixer is causal: all of its zeros stand before the first position. A first reader may skip the code.

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


# %% [markdown]
# `Hyena` is conv(q · σ(k)) · σ(v), σ a SiLU: the lesson's form up to the names of q, k and v, and the SiLU. Three norms may be switched on: `pixelhyena_norm_cfg` on what is convolved (the name comes from a Hyena for images), `qk_norm_cfg` on query and key, `output_norm_cfg` on the result. A first reader may skip the code.

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
# A convolution is linear, so its Jacobian is its matrix, whatever the signal. Hyena's depends on the signal, although no T × T matrix of scores is made. A 6 and a 5, each a signal of eight rows:

# %%
torch.manual_seed(0)
conv = partial(ckconv, 8, 1, 8, is_causal=True)
short = partial(CausalConv1D, 24, 24, 3, groups=24)
hyena = Hyena(conv, short, nn.SiLU, nn.Identity, None).to(device)
mixers = {"CKConv": hyena.global_conv, "Hyena": lambda rows: hyena(rows, rows, rows)}
drawn = {"6": data.train_images[:1], "5": data.train_images[1:2]}
maps = {
    (name, digit): mixing_matrix(mixers[name], drawn[digit].to(device))
    for name in mixers
    for digit in drawn
}
for name in mixers:
    change = (maps[name, "6"] - maps[name, "5"]).abs().max() / maps[name, "6"].max()
    holds((change < 1e-6) == (name == "CKConv"), "Only Hyena's matrix changes.")

# %% tags=["figure"]
from residual_course.plots.mixing_matrix import plot_mixing_matrix

fig = Figure(figsize=(6, 2.4))
for ax, ((name, digit), sizes) in zip(fig.subplots(1, 4), maps.items(), strict=True):
    shown = sizes.where(sizes > 1e-6, 0)
    ax = plot_mixing_matrix(shown, ax, named=False)
    ax.set_title(f"{name}, a {digit}", weight="normal")
title = "The convolution ignores content; Hyena does not"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Causal mixing matrices for a 6 and a 5: the convolution's are the same, Hyena's "
show(fig, alt=alt + "differ from each other.")

# %% [markdown]
# ### Exercise · 6 minutes · ●●○○○
#
# Write Hyena's middle, this library's or the paper's: `query`, `key` and `value` are given, and a function `convolve`. The check takes either and names it.
#
# <details><summary>Hint 1</summary>Which two of the three meet before the convolution?</details>
# <details><summary>Hint 2</summary>One gate multiplies what is convolved, the other what comes out: which, in your form?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "hyena-gates", "locked": false, "schema_version": 3, "solution": true, "task": false}
def hyena_gates(query, key, value, convolve):
    """Return query, key and value, gated, convolved and gated again."""
    ### BEGIN SOLUTION
    z = query * F.silu(key)
    return convolve(z) * F.silu(value)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "hyena-gates-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(hyena_gates, "hyena_gates")

# %% [markdown]
# ## In the block
#
# Four residual blocks of lesson 07a, each with a Hyena and an MLP, read a digit as eight rows.


# %% jupyter={"source_hidden": true}
from residual_edu import MLP, LayerNorm, QKVSequenceMixer, ResidualBlock
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_course.plots.stream import plot_stream
from residual_course.training import accuracy, minibatches


class Reader(nn.Module):
    """Rows in, four blocks, the mean over positions, ten digits out."""

    def __init__(self, width=32):
        super().__init__()
        conv = partial(ckconv, width, 1, 8, mask=ExponentialModulation)
        wide = 3 * width
        short = partial(nn.Conv1d, wide, wide, 3, padding=1, groups=wide)
        middle = partial(Hyena, conv, short, nn.SiLU, nn.Identity, None)
        hyena, norm = (
            partial(QKVSequenceMixer, width, middle),
            partial(LayerNorm, width),
        )
        mlp, none = partial(MLP, width, "gelu", nn.Identity), nn.Identity
        block = partial(ResidualBlock, hyena, norm, none, none, mlp, norm, none)
        self.enter = nn.Linear(8, width)
        self.blocks = nn.ModuleList(block() for _ in range(4))
        self.leave = nn.Sequential(LayerNorm(width), nn.Linear(width, 10))

    def forward(self, rows):
        x = self.enter(rows)
        for block in self.blocks:
            x = block(x, None)
        return self.leave(x).mean(1)


# %% tags=["trained"]
torch.manual_seed(0)
net = Reader().to(device)
pictures, labels = data.train_images.to(device), data.train_labels.to(device)
adam = torch.optim.Adam(net.parameters(), lr=3e-3, fused=True)
with GradientFlowRecorder(net, net.blocks) as flow:

    def loss(rows, y):
        return F.cross_entropy(net(rows), y)

    train(loss, minibatches(pictures, labels, seed=0), adam, 150)
right = accuracy(net, data.test_images.to(device), data.test_labels.to(device))
print(f"test digits named after 150 steps: {right:.1%}")
holds(right > 0.93, "More than 93 % of the test digits are named.")
ax = plot_stream(flow, Figure(figsize=(6, 3.4)).add_subplot(), step=149, norms="pre")
ax.set_title("Every trained Hyena block adds to the stream")
alt = "A river through four trained blocks: every block adds a tributary about as wide "
show(ax.figure, alt=alt + "as the bed that it enters.")
added = (flow.added[-1] / flow.activation[-1, :-1]).min()
holds(added > 0.5, "Each block adds about as much as it finds.")

# %% [markdown]
# After training each block adds about as much as it finds, so that the stream widens and widens again.
#
# ## Two dimensions: the ghost in a picture
#
# A kernel can be read off in two dimensions as well. Through a window pane a picture may have a **ghost**: a fainter copy beside it. We add 0.6 of the picture, moved by 5 pixels down and 9 to the right, and learn a kernel of 31 × 31 taps that takes it away: on one photograph, tried on another.
#
# On paper: if y(r) = x(r) + a x(r − d), then x(r) = y(r) − a y(r − d) + a² y(r − 2d) − ... So the kernel is 1 at lag 0, −a at lag d, a² at 2d. Where is the largest tap below 0?


# %%
def gray(name):
    """Return a photograph in grey levels, (1, 212, 320, 1), with mean 0."""
    picture = photos()[name].mean(-1)[:424:2, ::2]
    return (picture - picture.mean())[None, ..., None].to(device)


def ghosted(x):
    """Add 0.6 of the picture, moved by 5 rows and 9 columns."""
    return x + 0.6 * F.pad(x, (0, 0, 9, 0, 5, 0))[:, : x.shape[1], : x.shape[2]]


def edges(x):
    """Return differences of neighbouring pixels, which are less alike than pixels."""
    return x.diff(dim=1).diff(dim=2)


learned, tried = gray("china"), gray("flower")
taps = torch.zeros(1, 31, 31, 1, device=device)
taps[0, 0, 0] = 1  # the picture as it is
taps.requires_grad_()
adam = torch.optim.Adam([taps], 2e-2)
sizes = edges(learned).square().mean(), 10 * learned.square().mean()
for step in range(300):
    adam.param_groups[0]["lr"] = 2e-2 * min(1, 2 * (1 - step / 300))
    off = long_convolution(ghosted(learned), taps, "causal") - learned
    loss = edges(off).square().mean() / sizes[0] + off.square().mean() / sizes[1]
    adam.zero_grad()
    loss.backward()
    adam.step()

# %% tags=["trained"]
kernel, ghost = taps.detach(), ghosted(tried)
after = long_convolution(ghost, kernel, "causal")
left = F.mse_loss(after, tried) / F.mse_loss(ghost, tried)
print(f"of the ghost's squared error on the other photograph {left:.2f} is left")
for place, paper in (((5, 9), -0.6), ((10, 18), 0.36), ((15, 27), -0.216)):
    print(f"tap at {place}: {kernel[0, *place].item():.2f}, on paper {paper:.2f}")
lowest, highest = kernel.argmin().item(), kernel.flatten()[1:].argmax().item() + 1
holds(lowest == 5 * 31 + 9 and highest == 10 * 31 + 18, "The taps find the ghost.")
holds(left < 0.15, "Little is left of the ghost.")

# %% tags=["figure", "trained"]
others = kernel[0, ..., 0].cpu().clone()
others[0, 0] = 0  # the tap at lag 0, about 1, would leave no colour for the others
fig = Figure(figsize=(6, 2.6))
axes = fig.subplots(1, 3)
for ax, x, name in zip(axes, (ghost, after), ("with a ghost", "cleaned"), strict=False):
    ax.imshow(x[0, 60:180, 100:260, 0].cpu(), cmap="gray", vmin=-0.5, vmax=0.6)
    ax.set_title(name, weight="normal")
    ax.set(xticks=[], yticks=[])
plots.plot_signed(others, axes[2]).set_title("the kernel", weight="normal")
axes[2].set(xlabel="columns back", ylabel="rows back")
title = "Two taps tell the ghost: (5, 9) and (10, 18)"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = (
    "A flower with its ghost, the same cleaned, and the kernel over rows and columns: "
)
show(fig, alt=alt + "purple below 0, green above: purple at (5, 9), green at (10, 18).")
holds(others.argmin().item() == 5 * 31 + 9, "The kernel shows the ghost.")

# %% [markdown]
# Read off as in the lesson: the taps tell where the ghost stands, and about how strong it is. They are smaller than on paper: neighbours, whose pixels are alike, have taken a part. (The loss counts differences of neighbouring pixels; on pixels alone, 200 steps spread each tap over many.)
