# %% [markdown]
# # Investigation 00 · Signal or gradient: what stops a plain stack?
#
# 45 minutes. You need [lesson 00](../00_residual_connection.ipynb). No lesson needs this.
#
# In lesson 00 a network of 16 plain blocks learned nothing. Two things shrank in it, by
# about 4.24 in each block: on the way forward the **signal**, which is what differs
# between the digits, and on the way back the gradient. Which of the two stops it? We
# keep one at its size and let the other shrink, then the other way round.

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
from residual_course.plots.along_depth import along_depth
from residual_course.plots.style import GATE, REFERENCE, STREAM, A, B
from residual_course.training import accuracy, minibatches, train

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])
stored = stored_runs("00_signal_or_gradient")["runs"]


def network(block, depth, seed):
    torch.manual_seed(seed)
    return nn.Sequential(*[block() for _ in range(depth)], nn.Linear(64, 10)).to(device)


def trained(block, seed, depth=16, rate=0.0003, steps=100, eps=1e-8):
    net = network(block, depth, seed)
    adam = torch.optim.Adam(net.parameters(), rate, eps=eps, fused=True)
    batches = minibatches(train_x, train_y, seed=seed)
    train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps=steps)
    return net


def shares(block, **settings):
    nets = [trained(block, seed, **settings) for seed in range(3)]
    return [accuracy(net, test_x, test_y) for net in nets]


def say(name, found):
    print(f"{name:34}", *[f"{share:5.0%}" for share in found])


def long(name):
    return [seed[name] for seed in stored.values()]


def rms(x):
    return x.detach().square().mean().sqrt().item()


def draw(ax, rows, ink, dash="-", first=1):
    for row in rows:
        ax.plot(range(first, first + len(row)), row, dash, color=ink, linewidth=1.3)
    ax.set(yscale="log", xlabel="block")
    ax.minorticks_off()


# %% [markdown]
# ## 1 · Where does the 4.24 come from?
#
# Follow the difference of two digits forward through one block. `nn.Linear` draws weights
# of variance 1/(3n) for n inputs.
#
# - Each output of the first layer is a sum of n products, so the mean square of the
#   difference is 1/3 of what came in.
# - The ReLU sets about half of the outputs to 0: 1/2. The second layer: 1/3 again.
# - Together 1/3 · 1/2 · 1/3 = 1/18, so a size is divided by √18 = 4.24.
#
# Backwards, each number is a sum over a layer's outputs. The second layer has 64 of them
# and weights of variance 1/(3 · 128), which makes 1/6; the ReLU 1/2; the first layer 128
# outputs and weights of variance 1/(3 · 64), which makes 2/3. The product is 1/18 too,
# because a block is as wide at its end as at its start.

# %% paper-and-measured
ROOT18 = 18**0.5


def plain_block():
    return SimpleFeedForward(64, 128)


factors = []
for seed in range(3):
    x = test_x.double()
    end = network(plain_block, 16, seed).double()[:-1](x)
    factors.append((rms(x - x.mean(0)) / rms(end - end.mean(0))) ** (1 / 16))
print(f"on paper {ROOT18:.2f}, measured", *[f"{factor:.2f}" for factor in factors])

# %% [markdown]
# The measured factors are 2 to 6 % larger, sixteen times in a row. With x + f(x), a block
# only *adds* about 1/18 to the mean square: what came in stays.
#
# ## 2 · Two switches
#
# The signal is kept if each block multiplies its output by √18 = 4.24. But then autograd
# multiplies the gradient by the same number. To set the two apart we use a **hook**, a
# function that autograd calls with the gradient at a tensor; what it returns goes on in
# the gradient's place. The forward pass does not notice.


# %%
class Switched(SimpleFeedForward):
    signal = gradient = 1.0

    def forward(self, x):
        x = self.signal * super().forward(x)
        if x.requires_grad:  # autograd will multiply by `signal`: divide that out
            x.register_hook(lambda v: v * self.gradient / self.signal)
        return x


def switched(signal, gradient):
    block = Switched(64, 128)
    block.signal, block.gradient = signal, gradient
    return block


# %% [markdown]
# `switched(1, 4.24)` keeps the gradient alone, `switched(4.24, 1)` the signal alone. The
# weights stay as PyTorch draws them, and nothing else changes. We train with Adam at a
# rate of 0.0003, for 100 steps, with three seeds.

# %% gradient-alone tags=["trained"]
with predict(
    "The gradient is kept, the signal vanishes. What share of the digits is read?",
    ["under 15 %", "15 to 50 %", "over 50 %"],
):
    neither = shares(lambda: switched(1, 1))
    gradient_alone = shares(lambda: switched(1, ROOT18))
    say("neither kept", neither)
    say("gradient kept", gradient_alone)

# %% signal-alone tags=["trained"]
with predict(
    "The signal is kept, the gradient vanishes. What share of the digits is read?",
    ["under 15 %", "15 to 50 %", "over 50 %"],
):
    signal_alone = shares(lambda: switched(ROOT18, 1))
    both = shares(lambda: switched(ROOT18, ROOT18))
    say("signal kept", signal_alone)
    say("both kept", both)

# %% [markdown]
# Here are all four once more, after ten times the steps (stored runs, from
# `notebooks/runs/00.py`; the second has a rate of 0.001, which suits it better):

# %% four-long
for name in "neither", "gradient", "signal", "both":
    say(f"{name} kept", long(f"{name} kept, 1000 steps"))

# %% [markdown]
# So neither word is the answer alone. Either repair is enough to begin. In 100 steps the
# signal helps more, and with both the network is nearly done by then.
#
# ## 3 · How can a vanished gradient stop Adam?
#
# There is a riddle in this. Adam divides the gradient of each weight by the gradient's
# usual size, so a tiny gradient should move a weight as far as a large one. But Adam
# divides by the usual size **plus eps**, and eps is 10⁻⁸. A gradient far below eps
# moves its weight by almost nothing.
#
# Which blocks have such gradients in the plain network? And what do the others receive?
# We measure both before training, and then how far 100 steps at a rate of 0.001 move the
# weights of each block, with Adam's own eps and with one of 10⁻³⁰.


# %%
def before_training(seed):
    """Return the signal before each block, and the size of its weight gradient."""
    net = network(plain_block, 16, seed).double()
    x, signal = test_x.double(), []
    for block in net[:-1]:
        signal.append(rms(x - x.mean(0)))
        x = block(x)
    F.cross_entropy(net[-1](x), test_y).backward()
    return signal, [rms(block.linear1.weight.grad) for block in net[:-1]]


def moved(seed, eps):
    """Return how far 100 steps move the weights of each block, in learning rates."""
    start = network(plain_block, 16, seed)
    net = trained(plain_block, seed, rate=0.001, eps=eps)
    pairs = zip(net[:-1], start[:-1], strict=True)
    return [rms(new.linear1.weight - old.linear1.weight) / 0.001 for new, old in pairs]


# %% eps jupyter={"source_hidden": true}
signal, gradient = zip(*[before_training(seed) for seed in range(3)], strict=True)
moves = {eps: [moved(seed, eps) for seed in range(3)] for eps in (1e-8, 1e-30)}
figure = Figure(figsize=(6, 3.8))
left, right = figure.subplots(1, 2)
draw(left, signal, B, "--")
draw(left, gradient, A)
left.axhline(1e-8, color=REFERENCE, linewidth=0.8)
left.text(1, 2.5e-8, "Adam's eps")
left.text(4, 3e-2, "signal", color=B, weight="bold")
left.text(1.6, 3e-14, "weight gradient", color=A, weight="bold")
left.set(ylim=(1e-15, 10), ylabel="size (rms)")
left.set_title("before training", weight="normal")
draw(right, moves[1e-8], A)
draw(right, moves[1e-30], REFERENCE, "-.")
right.text(7, 0.1, "eps 1e-8", color=A, weight="bold")
right.text(2, 55, "eps 1e-30", color=REFERENCE, weight="bold")
right.set(ylim=(1e-3, 300), ylabel="weights moved by / rate")
right.set_title("after 100 steps", weight="normal")
figure.suptitle("What receives the digits has no gradient above eps", weight="bold")
show(figure)

# %% [markdown]
# The first blocks receive digits that differ, but their gradients lie below eps, and so
# their weights hardly move. The last blocks move, but what they receive is the same for
# every digit, to five decimals and more. Nothing in the network is both.
#
# If that is right, then one number of the optimizer should make a difference, while the
# network stays as it is and both its losses remain.

# %% small-eps tags=["trained"]
with predict(
    "Plain network, eps 1e-30, 200 steps at 0.001: how much is read (middle seed)?",
    ["under 15 %", "15 to 25 %", "over 25 %"],
):
    as_usual = shares(plain_block, rate=0.001, steps=200)
    small_eps = shares(plain_block, rate=0.001, steps=200, eps=1e-30)
    say("eps 1e-8", as_usual)
    say("eps 1e-30", small_eps)

# %% [markdown]
# It begins, so it was eps that kept it from beginning. And where the signal is kept, what
# does the vanished gradient cost if eps is small?

# %% signal-and-eps tags=["trained"]
signal_eps = shares(lambda: switched(ROOT18, 1), eps=1e-30)
say("signal kept, eps 1e-8", signal_alone)
say("signal kept, eps 1e-30", signal_eps)
say("both kept, eps 1e-8", both)

# %% [markdown]
# Next to nothing, in these 100 steps. With Adam, a vanished gradient does its harm through
# eps.
#
# ## 4 · Sizes are not everything
#
# A norm at the start of each plain block keeps the signal and the gradient from vanishing:


# %%
class Normed(SimpleFeedForward):
    def forward(self, x):
        return super().forward(F.layer_norm(x, (64,)))


nets = {}
for name, block in {"f(x)": plain_block, "f(norm(x))": lambda: Normed(64, 128)}.items():
    net = network(block, 16, seed=0).double()
    nets[name] = net, net[:-1]
show(along_depth(nets, test_x.double(), lambda out: F.cross_entropy(out, test_y)))

# %% [markdown]
# Does it train, then? In lesson 00 it did not, at a rate of 0.001. Here are 300 steps
# (stored):

# %% norm-alone
for name in (
    "plain, rate 0.0003",
    "norm, rate 0.001",
    "norm, rate 0.0003",
    "norm and dropout, rate 0.0003",
):
    say(name, long(name))

# %% [markdown]
# At the smaller rate the norm is enough to learn, at the larger one it is not, and dropout
# slows it down. x + f(x) reads 96 to 98 % at the larger rate after 100 steps, and 96 or
# 97 % at the smaller one. Why a network with healthy sizes is so fussy is not answered
# here. It is the older riddle, by the way: the plain networks of
# [He and others](https://arxiv.org/abs/1512.03385) had a norm in every layer, and the
# authors write that vanishing gradients are unlikely to be their trouble.
# [Balduzzi and others](https://arxiv.org/abs/1702.08591) have a proposal.
#
# ## 5 · Branches as large as x
#
# PyTorch's weights make a branch about a quarter as large as its input. He's weights
# ([He and others, 2015](https://arxiv.org/abs/1502.01852)) make it as large: variance 1/n
# in the first layer, whose input has passed no ReLU, and 2/n in the second. (With the
# ReLU's 2/n in both layers, f would double the mean square.) Take those, and 64 blocks
# x + f(x).


# %%
class Deep(SimpleFeedForward):
    """A block with He's weights; `wiring` makes the output of x and f."""

    def __init__(self, wiring):
        super().__init__(64, 128)
        self.wiring = wiring
        nn.init.kaiming_normal_(self.linear1.weight, nonlinearity="linear")
        nn.init.kaiming_normal_(self.linear2.weight, nonlinearity="relu")
        nn.init.zeros_(self.linear1.bias)
        nn.init.zeros_(self.linear2.bias)

    def forward(self, x):
        return self.wiring(x, super().forward)


def sizes(wiring, seed):
    """Return the size of x before each of 64 new blocks, and after the last."""
    found = [test_x.double()]
    for block in network(lambda: Deep(wiring), 64, seed).double()[:-1]:
        found.append(block(found[-1]))
    return [rms(x) for x in found]


# %% flood tags=["trained"]
with predict(
    "How large is x after 64 blocks x + f(x) with He's weights? (It starts at 1.)",
    ["about 1", "about 8", "about 64", "over a million"],
):
    flood = [sizes(lambda x, f: x + f(x), seed) for seed in range(3)]
    print("x after 64 blocks:", *[f"{row[-1]:.1e}" for row in flood])

# %% [markdown]
# f(x) is as large as x and points in no particular direction, so their squares add: each
# block doubles the mean square. The stream **floods**. Two means prevent it:
#
# - A norm before f. Then f receives numbers of size 1 whatever the size of x, so each
#   block adds 1 to the mean square, and after 64 blocks x has the size √65 = 8.1.
# - A gate on the branch, a factor g = 1/√L for L blocks. Then each block multiplies the
#   mean square by 1 + 1/L, which makes about e over L blocks, and the size √e = 1.65.

# %% norm-or-gate jupyter={"source_hidden": true}
WIRINGS = {
    "x + f(norm(x))": lambda x, f: x + f(F.layer_norm(x, (64,))),
    "x + f(x)/√L": lambda x, f: x + f(x) / 8,
}
held = {
    name: [sizes(wiring, seed) for seed in range(3)] for name, wiring in WIRINGS.items()
}
ax = Figure(figsize=(6, 3.6)).add_subplot()
looks = {
    "x + f(x)": (A, "--", (14, 1e4)),
    "x + f(norm(x))": (STREAM, "-", (22, 14)),
    "x + f(x)/√L": (GATE, "-.", (22, 0.3)),
}
for name, rows in {"x + f(x)": flood, **held}.items():
    ink, dash, place = looks[name]
    draw(ax, rows, ink, dash, first=0)
    ax.text(*place, name, color=ink, weight="bold")
k = torch.arange(65)
for law in 2 ** (k / 2), (1 + k).sqrt(), (65 / 64) ** (k / 2):
    ax.plot(k, law, color=REFERENCE, linewidth=0.7)
ax.set(ylim=(0.1, 1e11), xlim=(0, 64), xlabel="blocks passed", ylabel="size of x (rms)")
ax.set_title("A norm or a gate prevents the flood (thin: paper)")
show(ax.figure)

# %% [markdown]
# And in training, 100 steps at a rate of 0.001 (stored)? The number before the name is
# that of the blocks.

# %% deep-table
for name in (
    "16 He, f(x)",
    "64 He, f(x)",
    "64 He, x + f(x)",
    "64 He, x + f(norm(x))",
    "64 He, x + f(x)/8",
    "64 PyTorch, x + f(x)",
):
    say(name, long(name))

# %% [markdown]
# With He's weights 16 plain blocks learn, so "plain networks cannot be trained" is wrong:
# how deep a plain network may be depends on how its weights are drawn. For 64 blocks and
# these 100 steps it takes the sum, and with branches this large the sum takes a norm or a
# gate. The gate has a lesson of its own, [lesson 05](../05_layer_scale.ipynb).
#
# ## What we found
#
# - PyTorch's weights make a plain stack lose the signal and the gradient, by the same
#   factor. Either repair lets it begin, and both together are quick.
# - With Adam the vanished gradient stops it through eps: what receives digits does not
#   move, and what moves receives no digits.
# - Healthy sizes alone do not make a network easy to train. What a skip does beyond them
#   stays open here.
# - A sum keeps both, and has its own price: if branches are as large as x, it floods.
