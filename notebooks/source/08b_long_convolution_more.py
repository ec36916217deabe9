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
# A centred kernel reaches only half as far to either side, so (taps − 1) / 2 zeros are enough; `fft_size` adds them, and rounds up to a length of small prime factors, which a transform likes best. The transforms run along the last axes of a contiguous tensor, where memory is read in order. `real_fft` is `torch.fft.rfftn` with a cheaper backward pass: a real transform, where torch takes a complex one.

# %% tags=["module:mixers/long_convolution"]
import torch

from residual_edu.mixers.long_convolution import (
    convolution_matrix,
    fft_size,
    long_convolution,
)


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
# the sine and divides the first weights, which cancels at the start. (There it makes the steps of a training larger as well; not here.) `film_cfg` names a network that scales and shifts the hidden features by a condition; without one, nothing is scaled.

# %% tags=["module:mixers/implicit_kernel"]
from functools import partial
from math import sqrt
import torch
from torch import nn


# %% [markdown]
# The last weights are divided by the root of the number of positions, so that a sum over all taps has about the signal's size. In `SIRENKernel` all biases begin at 0, and a sine is odd: so a new kernel is odd, k(−p) = −k(p), with a 0 at lag 0.

# %% tags=["module:mixers/implicit_kernel"]
from functools import partial
from math import sqrt
from torch import nn

from residual_edu.mixers.implicit_kernel import SIRENKernel


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
# The library calls them masks. `ExponentialModulation` multiplies the tap at p by $e^{-|p||w|}$, with w from 2.3 (a tenth is left at the far end) to 13.8 (a millionth), a value for each channel; `GaussianModulation` by $e^{-p^2 / 2\sigma^2}$. Both are learned, and exempt from weight decay.

# %% tags=["module:mixers/kernel_mask"]
import torch
from torch import nn

from residual_edu.mixers.kernel_mask import ExponentialModulation, GaussianModulation


# %% [markdown]
# ## CKConv
#
# A *continuous kernel* convolution: kernel, window, convolution, and a shortcut s · x, since a new kernel has a 0 at lag 0. `grid_type="double"` takes 2 T − 1 taps; on a circle there are only T places, so `"single"`. A first reader may skip the code of `CKConv`.

# %% tags=["module:mixers/ckconv"]
from math import sqrt
import torch
from torch import nn

from residual_edu.mixers.ckconv import CKConv


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

# %% tags=["module:mixers/film"]
from functools import partial
from torch import nn

from residual_edu.mixers.film import KernelFiLMGenerator


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
# The short convolution before query, key and value is a `CausalConv1D`, where the mixer is causal: all of its zeros stand before the first position.

# %% tags=["module:parts/causal_conv"]
from torch import nn

from residual_edu.parts.causal_conv import CausalConv1D


# %% [markdown]
# `Hyena` is conv(q · σ(k)) · σ(v), σ a SiLU: the lesson's form up to the names of q, k and v, and the SiLU. Three norms may be switched on: `pixelhyena_norm_cfg` on what is convolved (the name comes from a Hyena for images), `qk_norm_cfg` on query and key, `output_norm_cfg` on the result.

# %% tags=["module:mixers/hyena"]
import torch
from torch import nn

from residual_edu.mixers.hyena import Hyena


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
