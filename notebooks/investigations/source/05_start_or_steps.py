# %% [markdown]
# # Investigation 05 · A gate under Adam: small start or small steps?
#
# 35 minutes. You need [lesson 05](../05_layer_scale.ipynb). No lesson needs this.
#
# In lesson 05 a small gate let 192 blocks x + f(x) learn. It multiplies the output of each
# branch, so the branch starts small. But it multiplies whatever the branch learns, too, so
# the branch also takes small steps. Which of the two helps? We take them apart.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import SimpleFeedForward
from residual_course.lesson import predict, setup, show, stored_runs

device = setup()

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.plots.style import GATE, REFERENCE, A, B
from residual_course.training import minibatches, train

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x = ((data.train_images - mean) / std).flatten(1).to(device).double()
train_y = data.train_labels.to(device)
stored = stored_runs("05_start_or_steps")["runs"]


def row(place, name):
    """Return the share read after the training, for three seeds."""
    return [seed[f"{place}, {name}"] for seed in stored.values()]


def say(place, *names):
    for name in names:
        print(f"{name:32}", *[f"{share:5.0%}" for share in row(place, name)])


# %% [markdown]
# ## 1 · A fixed gate is two things, and nothing else
#
# Take a gate g that does not learn. The branch ends in a linear layer, W h + b, and the gate
# makes of it
#
# $$g\,(W h + b) = V h + d, \qquad V = g W, \quad d = g b$$
#
# So a network *without* a gate, whose last layer is V, computes the same. What differs in its
# training?
#
# - **The start.** V starts g times as large as W.
# - **The steps.** Adam divides a gradient by its own size, so a step moves W by about the
#   rate, whatever g is. Then it moves V = g W by g times the rate.
#
# If that is all, then a network without gates, with its last layers' initial values times g *and*
# their rate times g, takes the very same steps. We try it with 8 blocks, in float64, for 20
# steps. (Adam adds an eps to the size by which it divides; we make it 10⁻²⁰.)


# %%
class Block(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.f, self.gate = SimpleFeedForward(64, 128), gate

    def forward(self, x):
        return x + self.gate * self.f(x)


def losses(gate, start, last_rate, optimizer, rate):
    """Train 8 blocks with a fixed gate; f's last layers have their start and rate."""
    torch.manual_seed(0)
    blocks = [Block(gate) for _ in range(8)]
    net = nn.Sequential(*blocks, nn.Linear(64, 10)).to(device).double()
    last = [p for block in blocks for p in block.f.linear2.parameters()]
    for parameter in last:
        parameter.data *= start
    others = [p for p in net.parameters() if all(p is not one for one in last)]
    groups = [{"params": others}, {"params": last, "lr": last_rate}]
    return torch.tensor(
        train(
            lambda x, y: F.cross_entropy(net(x), y),
            minibatches(train_x, train_y),
            optimizer(groups, lr=rate),
            steps=20,
        )
    )


def adam(groups, lr):
    return torch.optim.Adam(groups, lr=lr, eps=1e-20)


# %% same-steps
with predict(
    "Start and rate times 0.1, no gate: how far is it from a fixed gate of 0.1?",
    ["rounding errors", "a little", "far"],
):
    gated = losses(0.1, 1, 0.001, adam, 0.001)
    without = losses(1, 0.1, 0.0001, adam, 0.001)
    gap = (gated - without).abs().max().item()
    print(f"largest difference of the losses in 20 steps: {gap:.0e}")

# %% [markdown]
# They are one network, written in two ways. And under plain SGD? There a step is the rate times
# the gradient, and W's gradient is g times V's. So W moves by g times as much, and V = g W
# by g² times as much: the rate has to be multiplied by g².

# %% sgd
gated = losses(0.1, 1, 0.01, torch.optim.SGD, 0.01)
for power in 1, 2:
    without = losses(1, 0.1, 0.01 * 0.1**power, torch.optim.SGD, 0.01)
    print(f"rate times 0.1^{power}: {(gated - without).abs().max().item():.0e}")

# %% [markdown]
# ## 2 · One without the other
#
# This gives us two switches that we can turn alone:
#
# - a small start: the last layers' initial values are divided by 10, the rates stay;
# - small steps: the rate of the last layers is divided by 10, the initial values stay.
#
# A gate fixed at 0.1 turns both. The networks are the lesson's, 192 blocks, 30 steps at 0.001.
# (These runs and those below are stored; `notebooks/runs/05.py` has their code.)

# %% one-alone
with predict(
    "192 blocks x + f(x): which switch alone reads more?",
    ["the small start", "the small steps", "about the same"],
):
    say("skip", "no gate", "start / 10", "V's steps / 10", "fixed at 0.1")

# %% [markdown]
# Both switches help, the small start more, and each leaves something to the other. Perhaps this is
# special to x + f(x), where a large start makes x itself large? In post-norm, norm(x + f(x)),
# x has the size 1 after each block. There 128 blocks do not learn without a gate:

# %% post-norm
say("post", "no gate", "start / 10", "V's steps / 10", "fixed at 0.1")

# %% [markdown]
# Here either switch alone is enough to learn, and they do about equally well. So there is no
# single answer: both count, how much depends on the wiring, and with both, as a gate of 0.1
# has them, the networks read most. Here they are side by side, the middle one of three seeds.

# %% side-by-side jupyter={"source_hidden": true}
figure = Figure(figsize=(6, 3.2))
names = "no gate", "V's steps / 10", "start / 10", "fixed at 0.1"
words = "no gate", "small steps", "small start", "both: gate 0.1"
titles = {"skip": "192 blocks, x + f(x)", "post": "128 blocks, post-norm"}
for ax, place in zip(figure.subplots(1, 2, sharey=True), titles, strict=True):
    shares = [sorted(row(place, name))[1] for name in names]
    ax.barh(words, shares, color=[REFERENCE, A, B, GATE])
    for height, share in enumerate(shares):
        ax.text(share + 0.03, height, f"{share:.0%}", va="center")
    ax.set(xlim=(0, 1.25), xticks=[0, 0.5, 1], xlabel="share of digits read")
    ax.set_title(titles[place], weight="normal")
figure.axes[0].invert_yaxis()  # both panels share it
figure.suptitle("A gate makes start and steps small, and both help", weight="bold")
show(figure)

# %% [markdown]
# ## 3 · Too small, and learned
#
# If small is good, is smaller better? Here are gates that do not learn, and gates that do.

# %% frozen
with predict(
    "Gates that do not learn: which of them reads least (x + f(x), 192 blocks)?",
    ["0.1", "0.01", "0.0001"],
):
    say("skip", "fixed at 0.1", "fixed at 0.01", "fixed at 0.0001")

# %% learned
say("skip", *[f"learned from {start}" for start in ("1", "0.1", "0.01", "0.0001", "0")])

# %% [markdown]
# Fixed at 0.0001, start and steps are ten thousand times smaller, and that is too small for 30 steps.
# If the gate learns, the same start costs little, while a start of 1 costs as much as no gate. So this
# is what learning buys, here: you need not know how small the gate should be, as long as you err on
# the small side. Where you do know it, a fixed gate of 0.1 does as well as a learned one.
#
# In post-norm it is the same:

# %% post-learned
say("post", "fixed at 0.1", "fixed at 0.01", "fixed at 0.0001")
say("post", *[f"learned from {start}" for start in ("1", "0.1", "0.0001", "0")])

# %% [markdown]
# ## 4 · What else could one do?
#
# The usual answer to a training that explodes is a smaller rate, or a **warm-up**, a rate that
# starts small and grows (here over 15 steps). Another is a norm before the branch.

# %% others
say("skip", "no gate", "no gate, rate 0.0003", "no gate, rate 0.0001")
say("skip", "no gate, warm-up", "ReZero", "learned from 0.0001")
print("x + f(norm(x)):")
say("pre", "no gate", "learned from 0.0001", "learned from 0.1")

# %% [markdown]
# A smaller rate helps, and leaves the start as loud as before. The warm-up does worse than nothing in
# these 30 steps. With a norm before the branch the network learns without a gate, and a gate still
# adds something. That is where the gates of vision transformers stand.
#
# And with more time? After 200 steps:

# %% long
for place in "skip", "post":
    print({"skip": "x + f(x)", "post": "norm(x + f(x))"}[place])
    say(place, "no gate, 200 steps", "learned from 0.0001, 200 steps")

# %% [markdown]
# x + f(x) recovers, though not entirely. The post-norm networks without a gate still guess.
#
# ## What we found
#
# - Under Adam, without weight decay, a fixed gate g is a last layer with g times the start and g
#   times the rate. Under SGD it is g² times the rate.
# - Small start and small steps each help alone, and most together. In x + f(x) the start
#   counts more, in post-norm they are about equal.
# - Learning does not make the gate better than a fixed one of the right size. It makes a size that
#   is too small harmless.
# - Open: how the best size depends on the depth. CaiT makes its starts smaller the deeper the
#   network is. In our 192 blocks, 0.1 is the best of those that we tried.
