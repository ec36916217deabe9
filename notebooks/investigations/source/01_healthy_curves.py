# %% [markdown]
# # Investigation 01 · Healthy curves, and it does not learn
#
# 40 minutes. You need [lesson 01](../01_gradient_flow.ipynb). No lesson needs this.
#
# In lesson 01 each network that failed had a curve that faded or exploded. Is the reverse
# true? If the size of x, the gradient and the weight gradients are healthy at every depth,
# will the network learn? Here is one that has all three and does not, and we look for what
# it lacks.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.lesson import predict, setup, show, stored_runs

device = setup()

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.plots.along_depth import along_depth
from residual_course.plots.style import REFERENCE, A, B
from residual_course.training import accuracy, minibatches, train

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])
stored = stored_runs("01_healthy_curves")["runs"]


def fit(net, x, rate, steps, seed):
    batches = minibatches(x, train_y, seed=seed)
    adam = torch.optim.Adam(net.parameters(), rate, fused=True)
    train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps)


def rms(x):
    return x.detach().square().mean().sqrt().item()


def row(name, rate=0.0003, steps=60):
    return [seed[f"{name}, {rate:g}, {steps}"] for seed in stored.values()]


def probes(name):
    return [seed[f"{name}, probe"] for seed in stored.values()]


def shares(found):
    return " ".join(f"{share:4.0%}" for share in found)


# %% [markdown]
# ## 1 · Three healthy curves
#
# A network of 64 blocks, then a LayerNorm and a linear layer. In each block, f is two layers
# with a ReLU between them, and He's weights make f(x) about as large as its input. The sum
# x + f(x) would grow by √2 in each block, so each block divides it by √2 again. Beside it we
# build the same blocks with a norm before f and no division.


# %%
def f():
    layers = nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)
    nn.init.kaiming_normal_(layers[0].weight)
    nn.init.kaiming_normal_(layers[2].weight, nonlinearity="linear")
    nn.init.zeros_(layers[0].bias)
    nn.init.zeros_(layers[2].bias)
    return nn.Sequential(*layers)


class Block(nn.Module):
    def __init__(self, wiring):
        super().__init__()
        self.f, self.wiring = f(), wiring

    def forward(self, x):
        return self.wiring(x, self.f)


# %%
def divided(x, f):
    return (x + f(x)) / 2**0.5


def normed(x, f):
    return x + f(F.layer_norm(x, (64,)))


def network(wiring, seed):
    torch.manual_seed(seed)
    blocks = [Block(wiring) for _ in range(64)]
    return nn.Sequential(*blocks, nn.LayerNorm(64), nn.Linear(64, 10)).to(device)


# %% curves
nets = {}
for name, wiring in {"(x + f(x))/√2": divided, "x + f(norm(x))": normed}.items():
    net = network(wiring, seed=0)
    nets[name] = net, net[:-2]
show(along_depth(nets, (train_x[:64], train_y[:64]), F.cross_entropy))

# %% [markdown]
# Over 64 blocks, no curve of (x + f(x))/√2 changes by more than a factor of about five. Those of
# the other network change more. Now train both, for 60 steps of Adam at a rate of 0.0003.

# %% healthy-fails tags=["trained"]
with predict(
    "(x + f(x))/√2, all curves healthy: what share of the digits is read?",
    ["under 40 %", "40 to 80 %", "over 80 %"],
):
    found = {}
    for name, wiring in {"(x + f(x))/√2": divided, "x + f(norm(x))": normed}.items():
        found[name] = []
        for seed in range(3):
            net = network(wiring, seed)
            fit(net, train_x, 0.0003, 60, seed)
            found[name].append(accuracy(net, test_x, test_y))
        print(f"{name:15}", shares(found[name]))

# %% [markdown]
# Do more steps help, or a smaller rate? (Stored runs from here on, three seeds each, by
# `notebooks/runs/01.py`.)

# %% rates
for rate, steps in (0.0003, 600), (0.0001, 60), (0.0001, 600):
    print(f"rate {rate}, {steps:3} steps ", shares(row("(x + f(x))/√2", rate, steps)))

# %% [markdown]
# At the rate of 0.0003 ten times the steps do not help. At a third of it, it learns, and needs these
# steps. We stay with 60 steps at 0.0003, where the other network reads over 90 %.
#
# ## 2 · What can a head still read?
#
# Sizes do not say what x still tells about the *classes*. So we ask for that: leave the 64 blocks
# as they were drawn, and train nothing but one linear layer on their output. This is a **probe**
# ([Alain and Bengio, 2016](https://arxiv.org/abs/1610.01644)). Each feature is first centred and
# scaled, so that no size can be to blame.


# %%
@torch.no_grad()
def features(blocks):
    """Return what blocks make of the digits, each feature centred and scaled."""
    x, test = blocks(train_x), blocks(test_x)
    return [(each - x.mean(0)) / x.std(0) for each in (x, test)]


def probe(x, test):
    torch.manual_seed(0)
    head = nn.Linear(64, 10).to(device)
    fit(head, x, rate=0.03, steps=300, seed=0)
    return accuracy(head, test, test_y)


# %% probes tags=["trained"]
with predict(
    "(x + f(x))/√2, untrained: what share does a head alone read?",
    ["as much as after x + f(norm(x))", "half as much or less", "nothing (10 %)"],
):
    both = {}
    for name, (net, _) in nets.items():
        both[name] = probe(*features(net[:-1]))
        print(f"{name:15} {both[name]:.0%}")

# %% [markdown]
# So this is a fourth curve. Where along the depth is it lost? Here is what a head reads after 0, 8, 16,
# ... of the untrained blocks, with three seeds. (The digits themselves are read at the left end.)

# %% along tags=["trained"] jupyter={"source_hidden": true}
places = range(0, 65, 8)
read = {"(x + f(x))/√2": [], "x + f(norm(x))": []}
for name, wiring in zip(read, (divided, normed), strict=True):
    for seed in range(3):
        net = network(wiring, seed)
        stages = [nn.Sequential(*net[:place], nn.LayerNorm(64)) for place in places]
        pairs = [features(stage.to(device)) for stage in stages]
        read[name].append([probe(x, test) for x, test in pairs])
ax = Figure(figsize=(6, 3.4)).add_subplot()
for (name, rows), ink, dash, at in zip(
    read.items(), (A, B), ("--", "-"), ((3, 0.55), (30, 0.97)), strict=True
):
    for one in rows:
        ax.plot(places, one, dash, color=ink)
    ax.text(*at, name, color=ink, weight="bold")
ax.axhline(0.1, color=REFERENCE, linewidth=0.7)
ax.text(1, 0.12, "guessing")
ax.set(
    xlabel="blocks passed", ylabel="share read by a head", xlim=(0, 64), ylim=(0, 1.05)
)
ax.set_title("Block by block, the classes are lost")
show(ax.figure)

# %% [markdown]
# Every few blocks of (x + f(x))/√2 cost some more, while x keeps its size.
#
# ## 3 · What does the norm change?
#
# With zero biases, f(ax) = a · f(x) for every positive a. So f(norm(x)) is f of x without its mean,
# divided by the size of x. The norm therefore does two things: it takes the mean away, and it makes
# the branch small beside a stream that has grown. After l blocks, x has a size of about √(1 + l), and
# a branch that stays at 1. We can have either of the two alone:
#
# - x + f(x)/√(1 + l) has no norm, and its branches are as small as those of the normed network.
# - x + size(x) · f(norm(x)) has the norm, and branches that are as large as x.

# %% which-half
with predict(
    "Which of the two learns as x + f(norm(x)) does?",
    ["the one without a norm", "the one with a norm", "both", "neither"],
):
    print("                     probe           trained")
    names = "x + f(norm(x))", "x + f(x)/√(1 + l)", "norm, branch like x"
    for name in names:
        print(f"{name:20} {shares(probes(name))}  {shares(row(name))}")

# %% [markdown]
# What the norm did here was to make the branches small beside the stream. Taking the mean away, with
# large branches, does not help at this rate. And how small must a branch be? We drop the norm and
# multiply f(x) by one number in all blocks.

# %% gates
gates = "x + f(x)/2", "x + f(x)/4", "x + f(x)/8", "x + f(x)/1000"
print("                     probe           trained")
for name in gates:
    print(f"{name:20} {shares(probes(name))}  {shares(row(name))}")
print(f"{'the last, 600 steps':37}", shares(row("x + f(x)/1000", steps=600)))

# %% [markdown]
# Half as large as x is small enough to begin with, and a quarter or an eighth does as well as the norm.
# A branch can also be too small. With a thousandth nearly everything can be read, but the blocks hardly
# contribute, and 60 steps change little; 600 steps do.
#
# Are the curves of x + f(x)/2, which learns, healthy?

# %% half
from residual_edu import GradientFlowRecorder

net = network(lambda x, f: x + f(x) / 2, seed=0)
with GradientFlowRecorder(net, net[:-2]) as flow:
    F.cross_entropy(net(train_x[:64]), train_y[:64]).backward()
for name in "activation", "stream_gradient":
    size = getattr(flow, name)[0, 1:]
    print(f"{name:15} after block 1 {size[0]:.1e}, after block 64 {size[-1]:.1e}")

# %% [markdown]
# They are not: x grows about a thousandfold, and the gradient shrinks nearly as much.
#
# ## 4 · Does the probe tell who learns?
#
# Each point is a network of this page, with three seeds.

# %% probe-tells jupyter={"source_hidden": true}
ax = Figure(figsize=(6, 3.8)).add_subplot()
every = ("(x + f(x))/√2", *names, *gates)
PLACES = {
    "(x + f(x))/√2": (0.46, 0.19),
    "norm, branch like x": (0.22, 0.03),
    "x + f(x)/1000": (0.83, 0.43),
}
for name in every:
    learns = min(row(name)) > 0.8
    ink, mark = (B, "o") if learns else (A, "s")
    ax.plot(probes(name), row(name), mark, color=ink, markersize=5)
    if not learns:
        ax.text(*PLACES[name], name, color=ink)
ax.set(xlabel="read by a head before training", ylabel="read after training")
ax.set(xlim=(0.2, 1.05), ylim=(0, 1.05))
ax.set_title("A low probe warns, a high one promises nothing")
show(ax.figure)

# %% [markdown]
# The two networks with the lowest probes fail. The one with a thousandth of the branch has a high probe and
# fails in these 60 steps. So a probe before training can warn, on the evidence of two networks, and it
# cannot promise.
#
# ## What we found
#
# - Three healthy curves do not make a network that learns, and two ill ones need not prevent it.
# - (x + f(x))/√2 loses, block by block, what tells a linear head the classes. Its branches are as large as
#   x. With smaller branches the classes stay, with a norm or without one.
# - A probe asks for this directly: leave the blocks as they are, and train a head alone.
# - Not shown: that lost classes are what stops the training. At a smaller rate the same network learns,
#   with the same low probe, and we did not look into the steps themselves.
