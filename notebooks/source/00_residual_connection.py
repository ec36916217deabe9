# %% [markdown]
# # 00 · The residual connection
#
# One hour. You need Python and basic PyTorch: tensors, `nn.Module`, `backward()`.
#
# A network of 2 blocks learns our task in a second. What do 16 blocks do? Guess first.
# Then you write the piece that Transformers and ResNets put around every block, follow
# its numbers through a tensor that is small enough to check on paper, and see what it
# does to the gradient.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import LayerNormalization, SimpleFeedForward
from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary

device = setup()
progress("00")

# %% [markdown]
# ## 1 · What goes wrong without it?
#
# A deep network is a row of **blocks**. Ours are `SimpleFeedForward`: two linear layers
# with a ReLU between them, 64 numbers in, 128 between, 64 out. The task is to read
# handwritten digits of 8 × 8 pixels; a last linear layer computes the ten scores.
# (Folded: the digits, and a training loop, 100 steps of Adam at a rate of 0.001.)

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.plots import residual_connection as draw
from residual_course.plots.along_depth import along_depth
from residual_course.plots.style import DROPPED, REFERENCE, A, B
from residual_course.training import accuracy, minibatches, train

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


def trained(block, depth, seed):
    """Train such blocks; return the losses and the share of digits read correctly."""
    torch.manual_seed(seed)
    net = network(block, depth).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=0.001, fused=True)
    batches = minibatches(train_x, train_y, seed=seed)
    losses = train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps=100)
    return losses, accuracy(net, test_x, test_y)


def draw_losses(ax, seeds, ink, dash="-"):
    ax.axhline(2.303, color=REFERENCE, linewidth=0.6, zorder=0)
    for losses, _ in seeds:
        ax.plot(losses, dash, color=ink, linewidth=1.5)
    ax.set(ylim=(0, 3.4), xlim=(0, 100), xticks=[0, 25, 50, 75])


def shares(seeds):
    return ", ".join(f"{share:.0%}" for _, share in seeds)


LOOKS = {
    "2 plain blocks": (DROPPED, "-", 1.15),
    "16 plain blocks": (A, "--", 1.9),
    "16 blocks x + f(x)": (B, "-", 0.9),
}
TITLES = {
    "2 plain blocks": "Fourteen more blocks, and nothing is learned",
    "16 blocks x + f(x)": "The same 16 blocks, and a plus sign",
}


def plot_losses(*names):
    ax = Figure(figsize=(6, 3.2)).add_subplot()
    for name in names:
        ink, dash, height = LOOKS[name]
        draw_losses(ax, runs[name], ink, dash)
        words = f"{name}\nread correctly: {shares(runs[name])}"
        ax.text(45, height, words, color=ink, weight="bold", va="center")
    ax.text(99, 2.4, "guessing: ln 10 = 2.303", ha="right")
    ax.set(xlabel="training step", ylabel="loss on training data")
    ax.set_title(TITLES[names[0]])
    return ax.figure


def plot_four(runs):
    """Draw four networks as a table: with and without x +, norm and dropout."""
    figure = Figure(figsize=(6, 4.4))
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax, (name, seeds) in zip(axes.flat, runs.items(), strict=True):
        learns = min(share for _, share in seeds) > 0.5
        draw_losses(ax, seeds, B if learns else A, "-" if learns else "--")
        ax.set_title(name)
        ax.text(98, 1.2, f"read correctly:\n{shares(seeds)}", ha="right")
    for ax in axes[:, 0]:
        ax.set_ylabel("training loss")
    for ax in axes[1]:
        ax.set_xlabel("training step")
    figure.suptitle("At this rate only the lower row learns")
    return figure


# %%
def plain_block():
    return SimpleFeedForward(64, 128)


def network(block, depth):
    return nn.Sequential(*[block() for _ in range(depth)], nn.Linear(64, 10))


# %% [markdown]
# Whatever the 2 blocks can do, 16 can do too: the other 14 only have to copy what they
# receive. They could: of the 128 hidden numbers, 64 can keep x where it is positive and
# 64 where it is negative, and the second layer puts them together again.

# %% sixteen-blocks tags=["trained"]
with predict(
    "16 blocks in place of 2: how does the training loss end?",
    ["lower", "about the same", "a little higher", "as high as guessing"],
):
    runs = {}
    for depth in 2, 16:
        three = [trained(plain_block, depth, seed) for seed in range(3)]
        runs[f"{depth} plain blocks"] = three
    show(plot_losses("2 plain blocks", "16 plain blocks"))

# %% [markdown]
# More steps do not help: after 1,000 the network still guesses, at this rate and at
# 0.0003. (What does help is to draw larger initial weights than PyTorch does. Section 5 comes
# back to this.)
#
# ## 2 · What exactly is it?
#
# A plain block can be idle only if it finds weights that copy 64 numbers. In 2015
# [Kaiming He and others](https://arxiv.org/abs/1512.03385) turned the task around: let
# a block f compute only what is to be *added* to its input. Then it is idle as soon as
# it returns 0.
#
# ```
# x ──┬────────── + ──▶ x + f(x)
#     └──▶  f  ───┘
# ```
#
# The whole is a **residual connection** (or skip connection, or shortcut), the upper path
# is its **skip**, the lower one its **branch**. What the branch adds is the residual, the
# rest that x still lacks.
#
# ### Exercise 1 · The decisive line (2 minutes)
#
# Write `forward` so that each block adds its input to its output.
#
# <details><summary>Hint</summary><code>super().forward(x)</code> is the output of the
# plain block.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "sum-block", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SumBlock(SimpleFeedForward):
    def forward(self, x):
        ### BEGIN SOLUTION
        return x + super().forward(x)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sum-block-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(SumBlock, "sum_block")

# %% [markdown]
# Sixteen of *your* blocks now train with the seeds, the initial weights and the 100 steps
# of the plain ones.


# %% one-plus-sign tags=["trained"]
def sum_block():
    return SumBlock(64, 128)


runs["16 blocks x + f(x)"] = [trained(sum_block, 16, seed) for seed in range(3)]
show(plot_losses("16 blocks x + f(x)", "16 plain blocks"))

# %% [markdown]
# That is all it takes here. In today's Transformers the branch usually has two helpers
# around the layer that does the work, the sublayer: a norm before it and dropout after
# it.
#
# ```
# x ─┬──────────────────────────────── + ─▶ out
#    └─▶ norm ─▶ sublayer ─▶ dropout ──┘
# ```
#
# ### Step 1 · The input
#
# Three **tokens**. A token is the row of numbers that stands for a word; ours have four.

# %%
x = torch.tensor([[1.0, 2, 3, 4], [6, 2, 2, 2], [3, 3, 7, 3]])
print(x.shape)

# %% [markdown]
# ### Step 2 · The norm
#
# The norm gives the sublayer numbers of one size, whatever the size of x: it subtracts a
# token's mean and divides by its standard deviation.

# %%
norm = LayerNormalization(4).requires_grad_(False)
normed = norm(x)
print(normed)

# %% [markdown]
# Check the second token: the mean of 6, 2, 2, 2 is 3, the standard deviation is
# √(12 / 3) = 2, and (6 − 3) / 2 = 1.5. (PyTorch's `nn.LayerNorm` divides by n = 4, not by
# n − 1 = 3, and would print 1.732.)
#
# ### Step 3 · The sublayer and dropout
#
# The sublayer has 4 inputs, 8 hidden numbers and 4 outputs, so that we can add what it
# returns to x. During training, dropout then sets each number to 0 with probability 0.1
# and divides the others by 0.9, so that each keeps its value on average.

# %%
torch.manual_seed(2)
sublayer = SimpleFeedForward(4, 8).requires_grad_(False)
hidden = torch.relu(sublayer.linear1(normed))
branch = sublayer.linear2(hidden)
print(branch)

dropout = nn.Dropout(0.1)
torch.manual_seed(580)
dropped = dropout(branch)
print(dropped)

# %% [markdown]
# Two of the twelve numbers are 0 now, and 0.1654 / 0.9 = 0.1837.
#
# ### Exercise 2 · The whole connection (4 minutes)
#
# Write what the second drawing shows as one function. `sublayer`, `norm` and `dropout`
# are functions of one tensor, like the ones above.
#
# <details><summary>Hint</summary>Follow the lower path of the drawing: three calls, one
# inside the other, with the norm innermost. Then follow the upper path: what does x
# pass through there?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "residual-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def my_residual(x, sublayer, norm, dropout):
    """Return what leaves the residual connection."""
    ### BEGIN SOLUTION
    return x + dropout(sublayer(norm(x)))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "residual-forward-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(my_residual, "residual_forward")

# %% [markdown]
# ### Step 4 · What comes out
#
# Your function, with the same dropout as in step 3:

# %% what-comes-out
torch.manual_seed(580)
out = my_residual(x, sublayer, norm, dropout)
print(out)

# %% [markdown]
# Look where dropout had put a 0: the 2 of the first token and the 7 of the third come
# through unchanged. Here is the first token on its way.

# %% one-token jupyter={"source_hidden": true}
ax = Figure(figsize=(6, 4.3)).add_subplot()
draw.plot_connection(x[0], normed[0], hidden[0], branch[0], dropped[0], ax)
show(ax.figure)

# %% [markdown]
# ### Step 5 · The gradient
#
# What does the sum do on the way back? We take the gradient at x of the branch alone and
# of the whole connection, with a dropout that drops nothing, so that both compute the
# same branch. (Going back needs one number to start from, so we sum the output.)


# %% plus-one
def gradient_at_x(function):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf).sum(), leaf)[0]


off = nn.Dropout(0.0)
alone = gradient_at_x(lambda x: sublayer(norm(x)))
whole = gradient_at_x(lambda x: my_residual(x, sublayer, norm, off))
print("branch alone", alone[0])
print("with the sum", whole[0])
print("difference  ", (whole - alone)[0])

# %% [markdown]
# The sum adds the gradient that arrives at the output, here 1, to every number. If we
# write f(x) for all that the branch does, the connection is x + f(x), and its derivative
# is 1 + f′. This 1 is there whatever the branch does (though a branch of slope −1 would
# cancel it).
#
# ## 3 · Is mine right?
#
# This is the package's function, word for word: the last two lines are yours, and the
# rest lets later lessons put more than dropout into `gates`, or leave the branch out.

# %% tags=["promote:parts/residual"]
from typing import Any

from residual_edu.parts.residual import Gates, Map, Stream, apply_gates, is_bypassed


def pre_norm_residual(
    x: Stream, layer: Map, norm: Map, gates: Gates = (), *inputs: Any, **keywords: Any
) -> Stream:
    """Return x + g(f(norm(x))), or ``x`` if the layer is bypassed."""
    if is_bypassed(layer):
        return x
    branch = layer(norm(x), *inputs, **keywords)
    return x + apply_gates(gates, branch, x)


# %% [markdown]
# Folded are the package's module, which owns its norm and its dropout, and a comparison of
# it with yours in float64: outputs and gradients, with the same seed for dropout.

# %% jupyter={"source_hidden": true} tags=["promote:parts/residual"]
from residual_edu.errors import check_choice, check_rate
from residual_edu.parts.residual import post_norm_residual


class ResidualConnection(nn.Module):
    """x + dropout(sublayer(norm(x))), the sublayer an argument of each call."""

    def __init__(self, features: int, dropout: float, placement: str = "pre") -> None:
        super().__init__()
        check_rate("dropout", dropout)
        check_choice("placement", placement, ("pre", "post"))
        self.placement = placement
        self.dropout = nn.Dropout(dropout)
        self.norm = LayerNormalization(features)

    def forward(self, x: Stream, sublayer: Map) -> Stream:
        """Add the branch of ``sublayer`` to ``x``; its shape is kept."""
        residual = pre_norm_residual if self.placement == "pre" else post_norm_residual
        return residual(x, sublayer, self.norm, [self.dropout])


# %% same-numbers jupyter={"source_hidden": true}
theirs = ResidualConnection(4, dropout=0.1).double()
f, found = SimpleFeedForward(4, 8).double(), []
for connection in (
    lambda x: theirs(x, f),
    lambda x: my_residual(x, f, theirs.norm, theirs.dropout),
):
    torch.manual_seed(0)
    leaf = x.double().requires_grad_()
    y = connection(leaf)
    found.append(torch.stack([y, torch.autograd.grad(y.square().sum(), leaf)[0]]))
print("largest difference:", (found[0] - found[1]).abs().max().item())

# %% [markdown]
# ## 4 · What does it do to the gradient?
#
# Begin with single numbers. Sixteen blocks stand in a row, and each has the slope
# f′ = 0.1. By the chain rule the slopes of a row are multiplied.


# %%
def slope_of_16(block):
    x = out = torch.tensor(1.0, requires_grad=True)
    for _ in range(16):
        out = block(out)
    return torch.autograd.grad(out, x)[0].item()


# %% sixteen-slopes
with predict(
    "16 blocks x + f(x), each with f′ = 0.1: how large is the gradient at the input?",
    ["about 1e-16", "exactly 1", "about 5", "about 1,000"],
):
    plain, skips = slope_of_16(lambda x: 0.1 * x), slope_of_16(lambda x: x + 0.1 * x)
    print(f"plain:     {plain:.1e}")
    print(f"with skip: {skips:.1f}")

# %% [markdown]
# In a network x is a vector and f′ a matrix, but the rule is the same. For two blocks:
#
# $$(1 + f_2')\,(1 + f_1') \;=\; 1 + f_1' + f_2' + f_2' f_1'$$
#
# The plain network has only the last term, in which every block stands as a factor.
# With skips there is also the 1, the path along all the skips.
#
# Now we measure it in the two networks of 16 blocks, before training. We send the test
# digits forward once and back once. A size is the root of the mean square (rms), and the
# **stream** is x on its way from block to block.

# %% along-depth
nets = {}
for name, block in {"f(x)": plain_block, "x + f(x)": sum_block}.items():
    torch.manual_seed(0)
    net = network(block, depth=16).to(device).double()
    nets[name] = net, net[:-1]
show(along_depth(nets, test_x.double(), lambda out: F.cross_entropy(out, test_y)))

# %% [markdown]
# Read the middle panel from right to left, as the gradient travels. Each plain block
# divides it by a little more than 4, and 4¹⁶ is more than four billion. With skips it
# arrives at block 1 about as large as it was after block 16, and the weights of all
# blocks get gradients of one size (lower panel). A weight's gradient grows with
# this gradient and with what the block receives. In the first plain blocks what they
# receive shrinks about as fast as the gradient grows, so that curve begins flat.
#
# The upper panel shows the way forward, and follows what *differs* between the digits.
# It shrinks in the plain network as the gradient does: the scores of a 3 and of an 8
# differ by less than a billionth.
#
# ## 5 · Does it help?
#
# `SumBlock` did. Now we train your `my_residual`, with its norm and dropout, and a block
# that lacks only the `x +`. Are norm and dropout enough?


# %%
class MyBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = LayerNormalization(64)
        self.sublayer = SimpleFeedForward(64, 128)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return my_residual(x, self.sublayer, self.norm, self.dropout)


class WithoutSkip(MyBlock):
    def forward(self, x):
        return self.dropout(self.sublayer(self.norm(x)))


# %% two-by-two tags=["slow", "trained"]
with predict(
    "16 blocks with norm and dropout, but no x +: does the training loss fall?",
    ["as fast as with x +", "more slowly", "not at all"],
):
    four = {
        "plain": runs["16 plain blocks"],
        "norm and dropout": [trained(WithoutSkip, 16, seed) for seed in range(3)],
        "x + alone": runs["16 blocks x + f(x)"],
        "x +, norm and dropout": [trained(MyBlock, 16, seed) for seed in range(3)],
    }
    show(plot_four(four))

# %% [markdown]
# At this rate norm and dropout do not replace the `x +`, and with these initial weights
# it does not need them. Why the norm fails here stays open, since before training it keeps both sizes
# of section 4 from vanishing. At a rate of 0.0003 and without dropout, such blocks learn.
#
# With larger initial weights 16 plain blocks learn too. With those, 64 blocks do not,
# plain or x + f(x), but x + f(norm(x)) does. The
# [investigation](investigations/00_signal_or_gradient.ipynb) has these runs, and computes
# the factor 4 on paper.
#
# If a block changes the width, x cannot be added as it is. There one usually puts a
# linear layer on the skip: `shortcut(x) + f(x)`.
#
# ## 6 · Where do people go wrong?
#
# ### Exercise 3 · Mend a network (10 minutes)
#
# A colleague has written the connection and the sublayer as one module. There is a plus
# sign, the shapes are right, no error is raised:


# %% handed tags=["trained"]
class HandedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = LayerNormalization(64)
        self.linear1 = nn.Linear(64, 128)
        self.linear2 = nn.Linear(128, 64)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = self.norm(x)
        x = torch.relu(self.linear1(x))
        x = self.linear2(x)
        return x + self.dropout(x)


losses, share = trained(HandedBlock, 16, seed=0)
print(f"loss at the end {losses[-1]:.2f}, read correctly {share:.0%}")

# %% [markdown]
# **Measure first.** If the branch returns 0, a residual block must return x: not nearly,
# exactly. Fill in `keeps_x`: set the weight and the bias of `block.linear2` to 0, send x
# through the block, and return whether x comes out. Compare with a copy that you took
# before, `x.clone()`.
#
# <details><summary>Hint</summary><code>nn.init.zeros_(block.linear2.weight)</code>, and
# the same for the bias; <code>torch.equal(a, b)</code> compares two
# tensors.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "keeps-x", "locked": false, "schema_version": 3, "solution": true, "task": false}
def keeps_x(block, x):
    """Silence the branch of a block; return whether x comes out as it went in."""
    ### BEGIN SOLUTION
    nn.init.zeros_(block.linear2.weight)
    nn.init.zeros_(block.linear2.bias)
    before = x.clone()
    return torch.equal(block(x), before)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "keeps-x-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(keeps_x, "keeps_x")

# %% silenced
handed, some = HandedBlock(), train_x[:1].cpu()
print("does x come through?", keeps_x(handed, some))
print("x in ", some[0, 2:8])
print("out  ", handed(some)[0, 2:8].detach())  # its branch is silent now

# %% [markdown]
# Then mend `forward`.
#
# <details><summary>Hint</summary>Read the old <code>forward</code> line by line and say
# aloud what the name x stands for after each line. Which x is added at the
# end?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-skip", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MendedBlock(HandedBlock):
    def forward(self, x):
        ### BEGIN SOLUTION
        branch = torch.relu(self.linear1(self.norm(x)))
        return x + self.dropout(self.linear2(branch))
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-skip-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(MendedBlock, "mended_skip")

# %% mended tags=["trained"]
losses, share = trained(MendedBlock, 16, seed=0)
print(f"loss at the end {losses[-1]:.2f}, read correctly {share:.0%}")

# %% [markdown]
# The name x was overwritten three times, so at the end the branch was added to its own
# dropped-out copy. It is easy to miss, because the line with the plus sign looks right.
#
# Here are two relatives, each called with a branch that returns 0. The first column
# compares what comes out with x, the second with a copy of x that was taken before.


# %% relatives
def dropout_on_the_sum(x, f):
    return dropout(x + f(norm(x)))


def relu_in_place(x, f):
    return x + dropout(f(x.relu_()))


torch.manual_seed(48)
for wrong in dropout_on_the_sum, relu_in_place:
    token = torch.tensor([-1.0, 2.0, -3.0, 4.0])
    copy = token.clone()
    out = wrong(token, torch.zeros_like)
    print(f"{wrong.__name__:18}", torch.equal(out, token), torch.equal(out, copy), out)

# %% [markdown]
# Neither returns −1, 2, −3, 4. The comparison with x is fooled by the second: its ReLU
# works in place, so it has changed x itself before x is added. One
# [published model](https://github.com/rosinality/vq-vae-2-pytorch/issues/60) had this
# mistake; in [another](https://github.com/znxlwm/UGATIT-pytorch/issues/32) one of the
# blocks had no `x +`.
#
# Take this test into your own projects:
#
# - silence the branch of a `copy.deepcopy` of the block, since the zeros stay in it;
# - leave it in training mode, where dropout acts;
# - ask for x. (Blocks with a layer on the skip, or with a norm or a ReLU after the sum,
#   change x on purpose.)
#
# ## 7 · What do I keep?
#
# $$x \;\leftarrow\; x + \mathrm{dropout}(\mathrm{sublayer}(\mathrm{norm}(x)))$$
#
# $$\frac{d}{dx}\,\bigl(x + f(x)\bigr) = 1 + f'$$
#
# ```python
# def forward(self, x):
#     branch = self.norm(x)
#     branch = self.sublayer(branch)
#     branch = self.dropout(branch)
#     return x + branch
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>Why is it easier for a residual block to do nothing than for a plain
# one?</summary>It only has to return 0. A plain block has to find the weights that copy
# its input.</details>
#
# <details><summary>A colleague says: "The skip guarantees a gradient of at least 1."
# Find an f for which it is 0.</summary>f(x) = −x has f′ = −1, so 1 + f′ = 0. The 1 helps
# as long as the blocks do not work against it.</details>
#
# <details><summary>How do you test in one minute that a skip works?</summary>Set the
# last layer of a copy's branch to 0. The block must return exactly x, compared with a
# copy of x that was taken before.</details>
#
# **Next.** [Lesson 01](01_gradient_flow.ipynb) builds the tool of section 4; lessons 02
# and 03 build the norm and dropout. The plain network loses what differs between its
# inputs, and the gradient. Which of the two stops it? That is the question of the
# [investigation](investigations/00_signal_or_gradient.ipynb).
# [Homework](homework/hw_00_01.ipynb) follows lesson 01; the
# [glossary](../docs/glossary.md) has all words.

# %%
summary("00")
