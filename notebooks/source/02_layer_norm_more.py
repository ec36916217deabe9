# %% [markdown]
# # 02, appendix · Large means, 16 bits, fused kernels, and Adam
#
# Not needed for [lesson 02](02_layer_norm.ipynb), and not counted in it.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu import RMSNorm, layer_norm
from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, setup, show
from residual_course.plots.style import SERIES
from residual_course.training import accuracy

device = setup()

# %% [markdown]
# ## A large mean
#
# Textbooks also write the variance as mean(x²) − mean(x)². It needs one pass over the data, which
# is tempting on a GPU. We try it on four rows of mean 10,000 and variance 1.

# %%
exact = torch.randn(
    4, 512, generator=torch.Generator().manual_seed(0), dtype=torch.float64
)
x = (exact + 10_000).float()
print("true variance     ", exact.var(-1, correction=0).numpy().round(3))
print("centred first     ", x.var(-1, correction=0).numpy().round(3))
shortcut = x.square().mean(-1) - x.mean(-1).square()
print("the shortcut is a multiple of 8:", (shortcut % 8 == 0).all().item())
print("numbers left in bfloat16:", x.bfloat16().unique().tolist())

# %% [markdown]
# x² is about 10⁸, and neighbouring float32 numbers there lie 8 apart. So the difference is a
# multiple of 8: 0, or 8, or even −8, and the root of a negative number is NaN. Centring first
# subtracts while the digits are still there. In bfloat16, the 16 bits in which many large networks
# are trained, neighbours near 10,000 lie 64 apart: the row is constant before any norm sees it, and
# no norm can bring it back.


# %% jupyter={"source_hidden": true}
def errors(offset):
    """Median relative errors of the variance: centred, the shortcut, centred in
    bfloat16."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(256, 512, generator=generator, dtype=torch.float64)
    true, x = rows.var(-1, correction=0), (rows + offset).float()
    shortcut = x.square().mean(-1) - x.mean(-1).square()
    found = (
        x.var(-1, correction=0),
        shortcut,
        x.bfloat16().float().var(-1, correction=0),
    )
    return [((one - true) / true).abs().median() for one in found]


# %% tags=["figure"]
offsets = torch.logspace(-1, 5, 13)
curves = torch.tensor([errors(offset.double()) for offset in offsets]).T
names = "centred first", "mean(x²) − mean(x)²", "centred first, x in bfloat16"
fig = Figure()
ax = fig.add_subplot()
for curve, (colour, dash, _), name in zip(curves, SERIES[:3], names, strict=True):
    ax.loglog(offsets, curve.clamp_min(1e-8), dash, color=colour, label=name)
ax.set(xlabel="mean of a row (standard deviation 1)", ylabel="error of the variance")
ax.legend()
ax.set_title("At a mean of 10,000 the shortcut is all error")
alt = (
    "Relative error of the variance against the mean of the row, on logarithmic axes. "
    "The "
    "shortcut's error grows with the square of the mean and passes 1 near 3,000, as "
    "it does "
    "for bfloat16 inputs. Centring first stays below 0.001."
)
show(fig, alt=alt)

# %%
print("largest error of centring first:", f"{curves[0].max():.0e}")
holds(
    curves[0].max() < 1e-3 and curves[1, -3] > 0.9, "Centring first keeps the digits."
)

# %% [markdown]
# ## 16 bits
#
# For inputs of 16 bits, PyTorch's LayerNorm computes the statistics in float32, and so does the
# library's formula: that is its line `wide`. What if it did not?

# %%
x = (3 + torch.randn(64, 4096, generator=torch.Generator().manual_seed(0))).bfloat16()
want = F.layer_norm(x.double(), (4096,))
centred = x - x.mean(-1, keepdim=True)  # all in bfloat16
narrow = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
for name, y in ("all in bfloat16", narrow), ("statistics in float32", layer_norm(x)):
    print(f"{name:22} largest error {(y.double() - want).abs().max():.3f}")

# %% [markdown]
# ## One kernel
#
# Our formula reads well and is slow: each operation reads the whole tensor and writes a new one, and
# autograd keeps track of each. PyTorch has the same formula as one **fused** kernel, a compiled
# routine that reads the tensor once and writes the result. Count what autograd sees:


# %%
def steps(node):
    """Return the operations behind a tensor, without its leaves."""
    found = set() if node is None or node.name().endswith("AccumulateGrad") else {node}
    return (
        found.union(*(steps(last) for last, _ in node.next_functions))
        if found
        else found
    )


row, weight, bias = (
    torch.ones(shape, requires_grad=True) for shape in ((3, 4), (4,), (4,))
)
ours, theirs = layer_norm(row, weight, bias), F.layer_norm(row, (4,), weight, bias)
print(
    f"formula: {len(steps(ours.grad_fn))} operations, kernel: "
    f"{len(steps(theirs.grad_fn))}"
)

# %% [markdown]
# So the library's `LayerNorm` calls the kernel, and `LayerNorm(dim, fused=False)` is the formula. A
# test shows that the two agree in float64, gradients included.
#
# ## RMSNorm's time
#
# RMSNorm does less arithmetic than LayerNorm. Is it faster? We time PyTorch's two layers on 512 rows of 768 features.

# %% tags=["nbval-ignore-output"]
import timeit

x, seconds = torch.randn(512, 768), {}
for norm in nn.LayerNorm(768), nn.RMSNorm(768):
    timed = timeit.Timer("norm(x)", globals={"norm": norm, "x": x})
    seconds[type(norm)] = min(timed.repeat(5, 50))
longer = seconds[nn.RMSNorm] > 1.2 * seconds[nn.LayerNorm]
print(
    "RMSNorm takes", "longer than LayerNorm" if longer else "no longer than LayerNorm"
)

# %% [markdown]
# On the CPU where this page was made it takes several times as long: PyTorch runs LayerNorm there as one fused
# kernel, RMSNorm as several operations.
#
# ## Adam
#
# Lesson 02 trains with SGD to see what a norm does to a step. Adam divides each gradient by a running
# mean of its size. Does a norm still matter to it? All weights are trained now, from PyTorch's
# start, for 100 steps at four rates.

# %% jupyter={"source_hidden": true}
data = digits()
train_x, test_x = (
    x.flatten(1).to(device) for x in (data.train_images, data.test_images)
)
train_y, test_y = (y.to(device) for y in (data.train_labels, data.test_labels))


# %% jupyter={"source_hidden": true}
class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.branch = nn.Sequential(
            norm(32), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)
        )

    def forward(self, x):
        return x + self.branch(x)


def share_right(norm, rate, seed, steps=100):
    torch.manual_seed(seed)
    blocks = [Block(norm) for _ in range(16)]
    network = nn.Sequential(nn.Linear(64, 32), *blocks, norm(32), nn.Linear(32, 10)).to(
        device
    )
    adam = torch.optim.Adam(network.parameters(), rate)
    for _ in range(steps):
        rows = torch.randint(len(train_x), (64,)).to(device)
        loss = F.cross_entropy(network(train_x[rows]), train_y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
    return accuracy(network, test_x, test_y)


# %% tags=["trained"]
table = {}
for rate in (0.0003, 0.003, 0.03, 0.1):
    for name, norm in ("no norm", nn.Identity), ("LayerNorm", nn.LayerNorm):
        table[name, rate] = [share_right(norm, rate, seed) for seed in range(3)]
        print(
            f"rate {rate:<6g} {name:9}", *[f"{one:4.0%}" for one in table[name, rate]]
        )
holds(
    sum(table["LayerNorm", 0.0003]) > sum(table["no norm", 0.0003]),
    "At the smallest rate the network with norms is ahead after 100 steps.",
)

# %% [markdown]
# At 0.003 the two are alike. At the smallest rate the norm is ahead after these few steps; that is a
# statement about speed, not about where the two end.
#
# ## Two causes of one failure
#
# The camera of exercise 3 in lesson 02 gives images of standard deviation 10⁻⁷ to 10⁻³. Two things are in the way: the
# norms' eps, and the first layer's bias, which Adam moves by 0.003 a step. We switch off one at a time.

# %% jupyter={"source_hidden": true}
from residual_course.datasets import camera_digits

camera = camera_digits()
camera_x, camera_test = camera.train_images.flatten(1), camera.test_images.flatten(1)


def camera_right(eps, bias, seed, prepare=lambda images: images):
    torch.manual_seed(seed)
    layers = [
        nn.Linear(64, 32),
        *(Block(lambda width: nn.LayerNorm(width, eps)) for _ in range(16)),
    ]
    network = nn.Sequential(*layers, nn.LayerNorm(32, eps), nn.Linear(32, 10))
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    network[0].bias.requires_grad_(bias)
    adam = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], 0.003)
    for _ in range(100):
        rows = torch.randint(len(camera_x), (64,))
        images = prepare(camera_x[rows])
        loss = F.cross_entropy(network(images), camera.train_labels[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
    return accuracy(network, prepare(camera_test), camera.test_labels)


# %% tags=["trained"]
for eps in (1e-5, 1e-20):
    for bias in (True, False):
        found = [camera_right(eps, bias, seed) for seed in range(3)]
        what = "trained" if bias else "fixed at 0"
        print(f"eps {eps:g}, first bias {what:10}", *[f"{one:4.0%}" for one in found])
holds(min(found) > 0.85, "Without both causes the network trains.")
ways = {
    "all divided by one number": lambda images: images / camera_x.std(),
    "each brought to size 1": lambda images: F.layer_norm(images, (64,), eps=1e-20),
}
for name, prepare in ways.items():
    found = [camera_right(1e-5, True, seed, prepare) for seed in range(3)]
    print(f"{name:30}", *[f"{one:4.0%}" for one in found])
holds(min(found) > 0.9, "Each image brought to size 1 mends it.")

# %% [markdown]
# Neither mend is enough alone; together they are. Bringing each image to size 1 removes both causes at once. Dividing all
# images by one number, the usual way of standardising, reaches less: the darkest stay below √eps.
#
# ## RMSNorm's eps
#
# `nn.RMSNorm` takes eps = None by default, which means the machine epsilon of x's dtype. The
# library's `RMSNorm` takes 0.000001, as Llama's does. For rows of size 1 there is no difference; for
# small rows there is one.

# %%
for size in (1, 0.001):
    x = size * torch.tensor([1.0, -1, 1, -1])
    found = [norm(x)[0].item() for norm in (nn.RMSNorm(4), RMSNorm(4))]
    print(
        f"rows of size {size:<6g} PyTorch's {found[0]:.3f}, the library's "
        f"{found[1]:.3f}"
    )

# %% [markdown]
# ## Move it yourself
#
# Four numbers: `first`, −spread, 0 and spread. Left: the first output against `first`; the green line is its slope.
# Right: the row, the outputs, and the gradient of the first output (green). "The tutorials' LayerNorm" divides by
# n − 1 and has eps outside the root.
#
# **Find** the settings with the steepest slope for PyTorch's LayerNorm, and say which part of the backward formula
# makes it so steep.

# %% tags=["explorer"]
from residual_course.explorers.layer_norm import explore_layer_norm

explore_layer_norm()

# %% [markdown]
# <details><summary>Answer</summary><code>first</code> 0, spread 0 and the smallest eps: all four numbers are equal, s
# is √eps, and the slope is (1 − 1/4)/√eps. It is the 1/s.</details>
#
# ## RMSNorm as a class
#
# ### Exercise · 8 minutes · ●●●○○
#
# Write RMSNorm as a class: y = x/√(mean(x²) + eps) · weight, over the last axis. It takes `dim` and `eps` and has one
# parameter, `weight`, that starts at ones.
#
# <details><summary>Hint 1</summary>Which lines of LayerNorm are left out when the mean stays?</details>
# <details><summary>Hint 2</summary><code>weight</code> is an <code>nn.Parameter</code> of length <code>dim</code>;
# the mean of the squares keeps its axis.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "rms-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MyRMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) * weight, over the last axis, which is ``dim`` long."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        ### BEGIN SOLUTION
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        return (
            x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt() * self.weight
        )
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "rms-norm-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(MyRMSNorm, "rms_norm")
