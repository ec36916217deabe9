# %% [markdown]
# # Investigation 02 · What does a norm do to learning rates?
#
# 40 minutes. You need [lesson 02](../02_layer_norm.ipynb). No lesson needs this.
#
# In lesson 02 a network with PyTorch's weights learned as well without a norm as with one. So
# what does a norm buy there? Networks with norms are said to forgive large learning rates. We
# work out on paper why they might, predict numbers from it, and measure them.

# %%
import math

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import layer_norm
from residual_course.lesson import predict, setup, show, stored_runs

device = setup()

# %% [markdown]
# The network is that of lesson 02: a linear layer, 16 blocks x + f(norm(x)) of width 32, a
# norm, a linear layer; here with PyTorch's weights, and biases that start at 0. (Folded: the
# digits and the pictures.)

# %% jupyter={"source_hidden": true}
from itertools import islice

from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.plots.style import REFERENCE, SERIES
from residual_course.training import minibatches

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])
stored = stored_runs("02_learning_rates")["runs"]


def shares(name, rate):
    return [seed[f"{name}, rate {rate:g}"] for seed in stored.values()]


def plot_rates(title, **names):
    """Draw the worst and the other seeds at each rate."""
    ax = Figure(figsize=(6, 3.6)).add_subplot()
    for (name, rates), (ink, dash, mark) in zip(names.items(), SERIES, strict=False):
        name = name.replace("_", " ")
        rows = [shares(name, rate) for rate in rates]
        label = name.removeprefix("all weights, ").removeprefix("Adam, ")
        ax.semilogx(rates, [min(row) for row in rows], dash, color=ink, label=label)
        look = {"color": ink, "markerfacecolor": "none", "linestyle": ""}
        ax.semilogx(rates, rows, mark, **look)
    ax.set(xlabel="learning rate", ylabel="share read (line: worst seed)")
    ax.set(title=title, ylim=(-0.04, 1.04))
    ax.legend(loc="center left", bbox_to_anchor=(0, 0.35))
    return ax.figure


def plot_angles(found):
    """Draw the angle of each step, and paper's."""
    ax = Figure(figsize=(6, 3.4)).add_subplot()
    for ((rate, decay), seeds), (ink, *_) in zip(found.items(), SERIES, strict=False):
        for one in seeds:
            smooth = one.unfold(0, 20, 1).square().mean(-1).sqrt()
            ax.plot(range(10, 291), smooth.rad2deg(), color=ink, linewidth=1)
        paper = math.degrees(math.sqrt(2 * rate * decay))
        ax.axhline(paper, color=REFERENCE, linestyle="--", linewidth=1)
        words = f"rate {rate:g}, decay {decay:g}"
        ax.text(298, paper + 2.6, words, color=ink, weight="bold", ha="right")
    ax.set(
        xlabel="step", ylabel="degrees, rms of 20 steps", xlim=(0, 300), ylim=(0, 35)
    )
    ax.set_title("The angles settle where paper says (dashed)")
    return ax.figure


# %%
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))

    def forward(self, x):
        return x + self.f(layer_norm(x))


class Network(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)
        self.blocks = nn.Sequential(*[Block() for _ in range(16)])
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.zeros_(layer.bias)

    def forward(self, x):
        return self.last(layer_norm(self.blocks(self.first(x))))


# %% [markdown]
# ## 1 · A length that does not matter
#
# Call **W** all weights and biases that write into the stream: those of the first layer, and
# of the second layer of each f. Multiply W by a > 0. Then every summand of the stream is
# multiplied by a, and each norm divides it out again. So the loss does not change:
#
# $$L(aW) = L(W)$$
#
# (As long as the stream stays well above √eps.) Two lines follow.
#
# - Differentiate with respect to W: a · ∇L(aW) = ∇L(W). A W that is a times as long gets
#   **1/a** of the gradient.
# - Differentiate with respect to a, at a = 1: W · ∇L(W) = 0. The gradient is
#   **perpendicular** to W.


# %%
def writers(net):
    layers = [net.first] + [block.f[2] for block in net.blocks]
    return [p for layer in layers for p in layer.parameters()]


@torch.no_grad()
def scale(tensors, a):
    for p in tensors:
        p.mul_(a)


def joined(tensors):
    return torch.cat([t.detach().flatten() for t in tensors]).double()


# %% two-lines
for a in 1, 16:
    net = Network(seed=0).to(device)
    W = writers(net)
    scale(W, a)
    loss = F.cross_entropy(net(test_x), test_y)
    g = joined(torch.autograd.grad(loss, W))
    cosine = F.cosine_similarity(g, joined(W), dim=0).abs().item()
    print(f"|W| {joined(W).norm():6.1f}  loss {loss:.3f}  ", end="")
    print(f"|gradient| {g.norm():.5f}  |cosine| below 0.001: {cosine < 0.001}")

# %% [markdown]
# So only the direction of W matters, and of a step only the **angle** by which it turns W. A W
# that is 16 times as long gets 1/16 of the gradient, and needs a step 16 times as long to be
# turned as far. We train W alone for 20 steps of plain SGD; all other weights stay as drawn.


# %%
def first_losses(optimizer, longer, rate):
    net = Network(seed=0).to(device)
    scale(writers(net), longer)
    chosen = optimizer(writers(net), rate)
    losses = []
    for x, y in islice(minibatches(train_x, train_y, seed=0), 20):
        loss = F.cross_entropy(net(x), y)
        chosen.zero_grad()
        loss.backward()
        chosen.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def gaps(optimizer, rate):
    """Return how far the losses of a longer W are off, by the factor of its rate."""
    usual = first_losses(optimizer, 1, rate)
    found = {}
    for faster in 1, 16, 256:
        longer = first_losses(optimizer, 16, rate * faster)
        found[faster] = (longer - usual).abs().max().item()
        print(f"{faster:3} times the rate: losses off by up to {found[faster]:.2f}")
    return found


# %% sgd tags=["trained"]
with predict(
    "W is 16 times as long. With which rate does SGD give the same losses?",
    ["the same rate", "16 times the rate", "256 times the rate"],
):
    sgd = gaps(torch.optim.SGD, 0.01)

# %% [markdown]
# And Adam? It divides the size of the gradient out of its step.

# %% adam tags=["trained"]
with predict(
    "W is 16 times as long. With which rate does Adam give the same losses?",
    ["the same", "16 times", "256 times"],
):
    adam = gaps(torch.optim.Adam, 0.001)

# %% [markdown]
# ## 2 · Which rates work?
#
# With plain SGD the angle of a step is about rate · |∇L|/|W|, and |∇L| falls as 1/|W|, so the
# angle falls as 1/|W|². A step perpendicular to W makes it longer. So a rate that is much too
# large makes W long in its first steps, and later steps turn it less.
#
# Here are 400 steps of SGD on W alone at six rates, with the norm and without (stored runs,
# from `notebooks/runs/02.py`). A share is the mean over the last 20 steps, and 0 where the
# loss became NaN. In the third series |W| is held: scaled back to its first length after each
# step.

# %% rates
with predict(
    "Without a norm 0.1 works, 1 gives NaN. Which is the last to work with LayerNorm?",
    ["0.1", "1", "10", "100"],
):
    rates = 0.001, 0.01, 0.1, 1, 10, 100
    last = max(rate for rate in rates if min(shares("LayerNorm", rate)) > 0.8)
    names = {"no_norm": rates, "LayerNorm": rates, "LayerNorm,_held": rates[2:]}
    show(plot_rates("W alone: with a norm, rates up to 100 work", **names))

# %% table
print("rate                        1                10               100")
for name in "LayerNorm", "LayerNorm, held", "no norm":
    rows = [" ".join(f"{x:4.0%}" for x in shares(name, rate)) for rate in (1, 10, 100)]
    print(f"{name:16}", "   ".join(rows))
held = shares("no norm, held", 1)
print(f"{'no norm, held':16}", " ".join(f"{x:4.0%}" for x in held))

# %% [markdown]
# Without a norm a rate of 1 fails, and holding |W| prevents the NaN and does not help. With a norm
# and |W| held, 1 works, and 10 and 100 do not. With a norm and a free W all three work. So the
# norm is needed, and that W may grow does the rest. How long does W become?

# %% lengths tags=["trained"]
for rate in 1, 10, 100:
    net = Network(seed=0).to(device)
    W = writers(net)
    before = joined(W).norm()
    sgd = torch.optim.SGD(W, rate)
    x, y = next(minibatches(train_x, train_y, seed=0))
    F.cross_entropy(net(x), y).backward()
    sgd.step()
    print(f"rate {rate:3}: |W| {before:.1f}, after one step {joined(W).norm():.1f}")

# %% [markdown]
# At a rate of 100 one step makes W about 17 times as long. By the rule of section 1, that is as
# if the rate had become 300 times smaller.
#
# ## 3 · Weight decay sets the angle
#
# Weight decay multiplies W by 1 − rate · decay in each step. Since L(aW) = L(W), this changes no
# output. It changes the angles of later steps, and we can compute to what. A perpendicular
# step at the angle φ multiplies |W|² by 1 + φ²; the decay multiplies it by about
# 1 − 2 · rate · decay. After a few times 1/(rate · decay) steps the two balance:
#
# $$\varphi = \sqrt{2 \cdot \mathrm{rate} \cdot \mathrm{decay}}$$
#
# Neither the loss nor the network is in it, as long as the size of ∇L holds steady.


# %%
def angles(seed, rate, decay, steps=300):
    """Train W alone; return each step's angle in radians."""
    net = Network(seed).to(device)
    W, found = writers(net), []
    sgd = torch.optim.SGD(W, rate, weight_decay=decay)
    for x, y in islice(minibatches(train_x, train_y, seed=seed), steps):
        before = joined(W)
        sgd.zero_grad()
        F.cross_entropy(net(x), y).backward()
        sgd.step()
        found.append(F.cosine_similarity(before, joined(W), 0).acos())
    return torch.stack(found).cpu()


# %% decay tags=["trained"]
with predict(
    "Rate 1, decay 0.01: by how many degrees does a step turn W in the end?",
    ["0.6", "5.7", "8.1", "30"],
):
    found = {}
    for rate, decay in (1, 0.1), (1, 0.01):
        found[rate, decay] = [angles(seed, rate, decay) for seed in range(3)]
        last = [one[-100:].square().mean().sqrt() for one in found[rate, decay]]
        paper = math.degrees(math.sqrt(2 * rate * decay))
        degrees = " ".join(f"{math.degrees(one):.1f}" for one in last)
        print(f"rate {rate}, decay {decay}: paper {paper:.1f}, measured {degrees}")
    show(plot_angles(found))

# %% [markdown]
# For such weights the decay changes no output by itself. It sets how far a step turns them.
#
# ## 4 · All weights
#
# Usually all weights are trained, and no norm divides out the size of some of them, such as the
# last layer's. What is left of it? 400 steps (stored), first SGD, then Adam.

# %% all-sgd
rates = 0.01, 0.03, 0.1, 0.3, 1, 3
names = {"all_weights,_no_norm": rates, "all_weights,_LayerNorm": rates}
show(plot_rates("SGD on all weights: a norm gives a factor of 10 or more", **names))

# %% all-adam
with predict(
    "Adam on all weights. Without a norm 0.03 works, 0.1 fails. With LayerNorm?",
    ["0.03 works, 0.1 fails", "0.1 works, 0.3 fails", "both work"],
):
    rates = 0.001, 0.003, 0.01, 0.03, 0.1, 0.3
    names = {"Adam,_no_norm": rates, "Adam,_LayerNorm": rates}
    both = min(min(shares("Adam, LayerNorm", rate)) for rate in (0.1, 0.3))
    show(plot_rates("Adam on all weights: likewise", **names))

# %% [markdown]
# The gain is smaller than for W alone, and still at least ten. At the best rate both networks read
# about the same share, so the norm buys freedom of choice and not a better end. For Adam the
# argument of section 2 would have to be another one, since its step does not shrink with the
# gradient; we did not look for it.
#
# ## What we found
#
# - With a norm before every reader of the stream, L(aW) = L(W) for the weights W that write
#   into it. Their gradient is perpendicular to W and proportional to 1/|W|.
# - W 16 times as long needs 256 times the rate with SGD, and 16 times with Adam.
# - Trained alone with SGD, W stands rates up to 100 where it stands 0.1 without a norm. With its
#   length held it stands 1.
# - Under weight decay, a step comes to turn W by √(2 · rate · decay), whatever the loss.
#
# [Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167) noticed 1/|W| for BatchNorm;
# [van Laarhoven (2017)](https://arxiv.org/abs/1706.05350) worked out what it means for weight
# decay, [Wan and others (2020)](https://arxiv.org/abs/2006.08419) the angle, and
# [Kosson, Messmer and Jaggi (2023)](https://arxiv.org/abs/2305.17212) carried it to Adam.
