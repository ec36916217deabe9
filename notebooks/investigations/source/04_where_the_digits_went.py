# %% [markdown]
# # Investigation 04 · Where the digits went: how a post-norm stack of 48 fails
#
# 30 minutes. You need [lesson 04](../04_pre_norm_and_post_norm.ipynb). No lesson needs
# this.
#
# In lesson 04 sixteen post-norm blocks stopped telling digits apart after 40 steps. What
# exactly took the digits away? We look at 48 blocks, find what multiplies the distance
# between two digits in each of them, and then cause the failure on purpose, and undo it.

# %%
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from residual_course.lesson import predict, setup, show, stored_runs

device = setup()

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.plots.placement import plot_distances
from residual_course.training import minibatches, train

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y = data[1].to(device)
some = test_x[:64].double()
stored = stored_runs("04_where_the_digits_went")["runs"]


def say(*names):
    """Print the stored shares of digits that are read, one for each seed."""
    for name in names:
        print(f"{name:32}", *[f"{seed[name]:5.0%}" for seed in stored.values()])


def mean_of(name):
    return sum(seed[name] for seed in stored.values()) / 3


# %% [markdown]
# Each block has two linear layers of width 64. Their weights have the variances 1/64 and
# 2/64, so that a branch's output is as large as its input. (That is our choice: with
# PyTorch's own weights it is a quarter as large, and 48 blocks of post-norm train at
# a higher rate.)


# %%
class Block(nn.Module):
    def __init__(self, place):
        super().__init__()
        self.place, self.norm = place, nn.LayerNorm(64)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        nn.init.normal_(self.first.weight, std=math.sqrt(1 / 64))
        nn.init.normal_(self.second.weight, std=math.sqrt(2 / 64))
        nn.init.zeros_(self.first.bias), nn.init.zeros_(self.second.bias)

    def f(self, x):
        return self.second(F.relu(self.first(x)))

    def forward(self, x):
        if self.place == "pre":
            return x + self.f(self.norm(x))
        return self.norm(x + self.f(x))


def build(place, seed=0):
    torch.manual_seed(seed)
    blocks = [Block(place) for _ in range(48)]
    final = nn.LayerNorm(64) if place == "pre" else nn.Identity()
    return nn.Sequential(*blocks, final, nn.Linear(64, 10)).to(device)


def taught(place, steps, rate=0.002, seed=0):
    net = build(place, seed)
    if steps:
        adam = torch.optim.Adam(net.parameters(), rate, fused=True)
        batches = minibatches(train_x, train_y, seed=seed)
        train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps)
    return net.double()


# %% [markdown]
# ## 1 · How far apart are the digits?
#
# We follow 64 test digits through the network. Their distance is the rms of what differs
# from their mean, after a norm, so that the placements can be compared. We divide it by
# the distance at the start.


# %%
def rms(x):
    return x.square().mean().sqrt().item()


def apart(x):
    x = F.layer_norm(x, (64,))
    return rms(x - x.mean(0))


@torch.no_grad()
def distances(net, x=some):
    found = [apart(x)]
    for block in net[:48]:
        x = block(x)
        found.append(apart(x))
    return [one / found[0] for one in found]


# %% digits tags=["trained"]
nets = {f"post-norm, step {steps}": taught("post", steps) for steps in (0, 1, 10, 60)}
nets["pre-norm, step 60"] = taught("pre", 60)
curves = {name: distances(net) for name, net in nets.items()}
ax = plot_distances(curves, Figure(figsize=(6, 4)).add_subplot())
ax.set_title("Post-norm's digits become alike")
show(ax.figure)

# %% [markdown]
# Before training post-norm keeps about half of the distance. After 60 steps at a rate of
# 0.002 less than a thousandth is left, while pre-norm has lost nothing.
#
# ## 2 · One block on paper
#
# Two numbers describe a branch, for an x of size 1:
#
# - **r**, the size of f(x);
# - its **gain**: how many times as far apart two outputs are as the two inputs.
#
# If f(x) has nothing to do with x, squares add. The sum x + f(x) has the size √(1 + r²),
# and a distance in it is √(1 + gain²) times what it was. Then the norm divides both by
# √(1 + r²). So a block multiplies a distance by
#
# $$\sqrt{\frac{1 + \mathrm{gain}^2}{1 + r^2}}$$
#
# (and by a little less, since the norm also removes two of 64 directions). Digits become
# alike only where r is larger than the gain. Before training both are 1. Which of them
# changes in 60 steps?


# %%
@torch.no_grad()
def r_and_gain(net, x=some):
    """Return r, the part of it that all digits share, and the gain: block means."""
    found = []
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    step = 0.01 * noise.to(x)
    for block in net[:48]:
        out = block.f(x)
        gain = rms(block.f(x + step) - out) / rms(step)
        found.append([rms(out) / rms(x), rms(out.mean(0)) / rms(x), gain])
        x = block(x)
    return [sum(column) / 48 for column in zip(*found, strict=True)]


# %% r-or-gain tags=["trained"]
with predict(
    "From step 0 to step 60 of failing: what becomes of the branches?",
    ["r grows", "the gain falls", "both, equally"],
):
    print("step seed    r  shared  gain")
    states = {}
    for steps in 0, 60:
        for seed in range(3):
            states[steps, seed] = r_and_gain(taught("post", steps, seed=seed))
            r, shared, gain = states[steps, seed]
            print(f"{steps:4} {seed:4} {r:5.2f} {shared:6.2f} {gain:6.2f}")

# %% [markdown]
# The middle column is the part of f(x) that is the same for all 64 digits: the mean of the
# outputs. It is most of r, and it grows with it. A part that all digits share makes f(x)
# larger, but no two digits differ by it, so it adds to r and not to the gain.
#
# ## 3 · Put the common part in
#
# So far all of this only goes together. Is a common part *enough*? At a rate of 0.0003, 48
# post-norm blocks do train. Before training we add something to each branch:
#
# - A: **post-norm, vectors.** A random vector of size 2, another in each block, is added
#   to the last bias. Now r = √(1 + 4) = 2.24, and the gain is still 1.
# - B: **post-norm, turns.** f(x) + 2 Qx, with a random rotation Q. This is as large, but
#   it moves with x: the gain is 2.24 too.
# - C: **pre-norm, vectors**, as in A.
#
# (Stored runs of 240 steps, three seeds each, from `notebooks/runs/04.py`.)

# %% put-in
with predict(
    "Which of them train?",
    ["A, B and C", "B and C", "B alone", "C alone"],
):
    say("post", "post, vectors of 2", "post, turns of 2", "pre, vectors of 2")

# %% [markdown]
# In A each block multiplies a distance by √(2/6) = 0.58, and 0.58 to the power of 48 is
# 10⁻¹¹. In B it is multiplied by 1. In C the vectors add up in the stream, but there one
# norm divides by them, once. How large must the vectors be? An eighth of the size does not
# stop post-norm, though one seed is slower:

# %% dose
say("post, vectors of 0.25", "post, vectors of 2")

# %% [markdown]
# So what raises r and not the gain is enough to stop 48 post-norm blocks, and a part as
# large that moves with x does not.
#
# ## 4 · Take it out
#
# Now the other way round. We let a network fail, with 40 steps at 0.003. Then we change
# nothing but the 48 bias vectors: from each we subtract what its branch returns for all
# digits alike, block after block. All weights stay.


# %%
@torch.no_grad()
def take_out(net, x):
    for block in net[:48]:
        block.second.bias -= block.f(x).mean(0)
        x = block(x)
    return net


# %% taken-out tags=["trained"]
failed = taught("post", 40, rate=0.003)
mended = take_out(copy.deepcopy(failed), train_x[:256].double())
for name, net in {"failed": failed, "mended": mended}.items():
    r, shared, gain = r_and_gain(net)
    print(f"{name}: r {r:.2f}, shared {shared:.2f}, left {distances(net)[-1]:.1g}")

# %% [markdown]
# Digits are apart again. Does the network learn again, in 400 steps at 0.0003? And do
# other changes of the same biases do it too?

# %% again
with predict(
    "Which change of the biases lets the failed network learn again?",
    ["taking the common part out", "setting them to 0", "both", "none"],
):
    say("failed", "failed, common part taken out", "failed, biases set to 0")
    say("failed, vectors of 1 added")

# %% [markdown]
# So its weights were not ruined: without the part that all digits share it learns again.
# Biases of 0 or other biases are no help. (A branch without a bias may have such a part
# too: hidden units after a ReLU are never negative, so their mean is not 0.)
#
# ## 5 · What stays open
#
# - The common part is enough to stop a deep post-norm stack, and taking it out is enough
#   to let it learn. That it is the only way to fail is not shown.
# - Why the steps of Adam let just this part grow, we have not isolated.
# - All of this is for ReLU branches as large as x, 48 blocks, Adam and these digits.
