# %% [markdown]
# # 00 · The residual connection
#
# One hour. You need Python and basic PyTorch: tensors, `nn.Module`, `backward()`.
#
# Is a deeper network always a better one? You guess first, and then you see. You write
# one line of code, follow its numbers through a tensor that you can check on paper, look
# at what it does to the gradient, and train networks with it and without it.

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
# with a ReLU between them, 64 numbers in, 128 in the middle, 64 out. The task is to read
# handwritten digits of 8 × 8 pixels, so after the last block a linear layer computes ten
# scores. (Folded: the digits, and a training loop, 100 steps of Adam at a rate of 0.001.)

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
    """Train such blocks; return the losses and the share of test digits read."""
    torch.manual_seed(seed)
    net = network(block, depth).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=0.001)
    batches = minibatches(train_x, train_y, seed=seed)
    losses = train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps=100)
    return losses, accuracy(net, test_x, test_y)


def draw_losses(ax, seeds, ink, dash="-"):
    ax.axhline(2.303, color=REFERENCE, linewidth=0.6, zorder=0)
    for losses, _ in seeds:
        ax.plot(losses, dash, color=ink, linewidth=1.5)
    ax.set(ylim=(0, 3.2), xlim=(0, 100), xticks=[0, 25, 50, 75])


def shares(seeds):
    return ", ".join(f"{share:.0%}" for _, share in seeds)


def plot_depths(runs):
    ax = Figure(figsize=(6, 3.2)).add_subplot()
    looks = (DROPPED, "-", (45, 0.9)), (A, "--", (45, 1.95))
    for (name, seeds), (ink, dash, place) in zip(runs.items(), looks, strict=True):
        draw_losses(ax, seeds, ink, dash)
        words = f"{name}\nread correctly: {shares(seeds)}"
        ax.text(*place, words, color=ink, weight="bold", va="center")
    ax.text(1, 2.4, "guessing: ln 10 = 2.303")
    ax.set(xlabel="training step", ylabel="loss on training data")
    ax.set_title("Fourteen more blocks, and nothing is learned")
    return ax.figure


def plot_four(runs):
    """Draw four networks as a table: with and without x +, norm and dropout."""
    figure = Figure(figsize=(6, 4.4))
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax, (name, seeds) in zip(axes.flat, runs.items(), strict=True):
        learns = min(share for _, share in seeds) > 0.5
        draw_losses(ax, seeds, B if learns else A, "-" if learns else "--")
        ax.set_title(name)
        ax.text(98, 1.4, f"correct: {shares(seeds)}", ha="right")
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
# With 2 blocks the task is easy. Now we take 16. The larger network can do everything
# that the small one can: 14 of its blocks would only have to pass on what they receive.
# (They could: a pair of hidden numbers, ReLU of x and ReLU of −x, copies an x exactly.)

# %% sixteen-blocks
with predict(
    "16 blocks in place of 2: how does the training loss end?",
    ["lower", "about the same", "a little higher", "as high as guessing"],
):
    runs = {}
    for depth in 2, 16:
        trials = [trained(plain_block, depth, seed) for seed in range(3)]
        runs[f"{depth} plain blocks"] = trials
    show(plot_depths(runs))

# %% [markdown]
# More steps do not help: after 1,000 the loss still stands there, and so it does at a
# rate three times smaller or larger. (What does matter is how the weights are drawn at
# the start. Ours are PyTorch's.)
#
# ## 2 · What exactly is it?
#
# Fourteen idle blocks would have been enough. But a plain block cannot simply be idle:
# to pass on 64 numbers it has to find weights that copy them. In 2015
# [Kaiming He and others](https://arxiv.org/abs/1512.03385) turned the task around. Let
# a block compute only what is to be *added* to its input. Then it is idle as soon as it
# returns 0:
#
# ```
# x ──┬──────────── + ──▶ out      the skip: x itself
#     └──▶ f ───────┘              the branch: what to add
# ```
#
# The whole is a **residual connection** (or skip connection, or shortcut), the upper path
# is its **skip**, the lower one its **branch**; what the branch adds is the residual, the
# rest that x still lacks.
#
# ### Exercise 1 · The decisive line (3 minutes)
#
# Give the plain block a skip: write `forward` so that the block returns the sum of its
# input and what the plain block makes of it.
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
# Train it at once: 16 blocks, and everything else as before.


# %% sum-trained tags=["trained"]
def sum_block():
    return SumBlock(64, 128)


for seed in range(3):
    losses, share = trained(sum_block, 16, seed)
    print(f"loss at the end {losses[-1]:.2f}, test digits read correctly {share:.0%}")

# %% [markdown]
# Sixteen blocks learn. Let us now see what happens to single numbers. Often f has two
# helpers, a norm before it and dropout after it, and we build that form, because it is
# the one that you meet in a Transformer:
#
# ```
# x ──┬─────────────────────────────────── + ──▶ out
#     └──▶ norm ──▶ sublayer ──▶ dropout ──┘
# ```
#
# ### Step 1 · A tensor, and the norm
#
# We take two sentences of three tokens. A token is the row of numbers that stands for a
# word; ours have four features. The norm brings a token to a fixed size: it subtracts the
# token's mean and divides by its standard deviation.

# %%
x = torch.arange(1.0, 25.0).view(2, 3, 4)
norm = LayerNormalization(4).requires_grad_(False)
normed = norm(x)
print(x[0])
print(normed[0])

# %% [markdown]
# Check the first number: the mean of 1, 2, 3, 4 is 2.5, their standard deviation is
# 1.291, and (1 − 2.5) / 1.291 = −1.162. (This divides by n − 1 = 3, as a statistician
# does; PyTorch's `nn.LayerNorm` divides by n = 4.) All rows have become equal, because
# our tokens differ only by a constant, which the norm removes.
#
# ### Step 2 · The sublayer
#
# The sublayer does the work. Ours has 4 inputs, 8 hidden numbers and 4 outputs, so that
# its output can be added to x.

# %%
torch.manual_seed(2)
sublayer = SimpleFeedForward(4, 8).requires_grad_(False)
hidden = torch.relu(sublayer.linear1(normed))
branch = sublayer.linear2(hidden)
print(branch[0])

# %% [markdown]
# ### Step 3 · Dropout
#
# During training, dropout sets each number to 0 with probability 0.1, and divides the
# others by 0.9, so that each keeps its value on average.

# %%
dropout = nn.Dropout(0.1)
torch.manual_seed(225)
dropped = dropout(branch)
print(dropped[0])

# %% [markdown]
# Two numbers of the first sentence are 0 now. For the others you can check the division:
# 0.1654 / 0.9 = 0.1837.
#
# ### Step 4 · Exercise 2 · The whole connection (4 minutes)
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

# %% what-comes-out
torch.manual_seed(225)  # the same dropout as in step 3
out = my_residual(x, sublayer, norm, dropout)
print(out[0])

# %% [markdown]
# The tokens are different tokens again, because x came along the skip. And where dropout
# had put a 0, the number of x stands there unchanged: 2.0000 in the first token, 8.0000
# in the second. Here is the first token on its way.

# %% one-token jupyter={"source_hidden": true}
ax = Figure(figsize=(6, 4.3)).add_subplot()
draw.plot_connection(
    x[0, 0], normed[0, 0], hidden[0, 0], branch[0, 0], dropped[0, 0], ax
)
show(ax.figure)

# %% [markdown]
# ### Step 5 · The gradient
#
# What does the sum do on the way back? `backward` needs one number, so we add up all of
# `out`, and ask for the gradient at x: once for the branch alone and once for the whole
# connection, both without dropout, so that they compute the same branch.


# %% plus-one
def gradient_at_x(function):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf).sum(), leaf)[0]


off = nn.Identity()  # in the place of dropout
alone = gradient_at_x(lambda x: sublayer(norm(x)))
whole = gradient_at_x(lambda x: my_residual(x, sublayer, norm, off))
print("branch alone", alone[0, 0])
print("with the sum", whole[0, 0])
print("difference  ", (whole - alone)[0, 0])

# %% [markdown]
# The sum adds exactly 1, the gradient that arrives at `out`, to every number. If we write f(x) for all that the branch does,
# then the connection is x + f(x), and its derivative is 1 + f′. This 1 is there whatever
# the branch does, though a branch of slope −1 would cancel it.
#
# ## 3 · Is mine right?
#
# This is how the package `residual_edu` has it, word for word. Its last two lines are
# yours; the rest lets a block have no branch, or several parts in the place of dropout.

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
# The folded cell has the module `ResidualConnection`, which owns its norm and its
# dropout. We compare it with your function in float64, outputs and gradients.

# %% tags=["promote:parts/residual"] jupyter={"source_hidden": true}
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
# Not one digit differs.
#
# ## 4 · What does it do to the gradient?
#
# Begin with single numbers. Sixteen blocks stand in a row, and each has the slope
# f′ = 0.1. By the chain rule their slopes are multiplied: sixteen factors f′ in the
# plain row, sixteen factors 1 + f′ in the row with skips.


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
# In a network x is a vector and f′ a matrix, but the rule is the same. For two blocks
# we can write it out:
#
# $$(1 + f_2')\,(1 + f_1') \;=\; 1 + f_1' + f_2' + f_2' f_1'$$
#
# The plain network has only the last term, in which every block stands as a factor.
# With skips there is also a 1, the path that passes no block at all, and it is there
# however many blocks there are.
#
# Now we look at both networks of 16 blocks. They begin with the same weights, and differ
# in `x +` alone. We send the test digits through them, once forward and once back, and
# measure three sizes at each depth. A size is the root of the mean square (rms), and the
# **stream** is x on its way from block to block.


# %%
nets = {}
for name, block in {"f(x)": plain_block, "x + f(x)": sum_block}.items():
    torch.manual_seed(0)
    net = network(block, depth=16).to(device).double()
    nets[name] = net, net[:-1]
show(along_depth(nets, test_x.double(), lambda out: F.cross_entropy(out, test_y)))

# %% [markdown]
# Read the middle panel from right to left, as the gradient travels. Each plain block
# divides it by more than 4, and 4¹⁶ is more than four billion. With skips the gradient
# arrives at block 1 about as large as it was after block 16, so the weights of all blocks
# get gradients of one size (lower panel).
#
# The upper panel shows that the same happens on the way forward. It follows what
# *differs* between the digits. After 16 plain blocks two digits differ by less than a
# billionth, so the last layer gives a 3 and an 8 the same scores to nine digits.
#
# Why about 4? `nn.Linear` draws weights of variance 1/(3n) for n inputs, so it leaves 1/3
# of the mean square of a difference. The ReLU leaves about half of it, the second layer
# 1/3 again: together 1/18, and √18 is 4.2. For the gradient the factors are 1/6, 1/2 and
# 2/3, whose product is 1/18 too. With x + f(x) the block only *adds* its 1/18: what came in stays.
#
# ## 5 · Does it help?
#
# `SumBlock` has learnt already. Your whole connection brings a norm and dropout as well,
# and blocks with norm and dropout that lack only the `x +` show which part it is.


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


# %% two-by-two
with predict(
    "16 blocks with norm and dropout, but without x +: what share of digits is read?",
    ["about 10 %, as in guessing", "about half", "over 90 %"],
):
    four = {
        "plain": runs["16 plain blocks"],
        "norm and dropout": [trained(WithoutSkip, 16, seed) for seed in range(3)],
        "x + alone": [trained(sum_block, 16, seed) for seed in range(3)],
        "x +, norm and dropout": [trained(MyBlock, 16, seed) for seed in range(3)],
    }
    show(plot_four(four))

# %% [markdown]
# With PyTorch's weights and at this rate, one plus sign makes the difference. Norm and
# dropout do not replace it, and at this depth they are not needed beside it.
#
# Two plain blocks read these digits too: the skip lets 16 blocks learn, and what they gain
# over 2 is small here. What else lets a plain stack learn (larger weights, or a norm
# without dropout and at a smaller rate), and why many skips need a norm beside them, is
# measured in the [investigation](investigations/00_signal_or_gradient.ipynb).
#
# If the width changes, x cannot be added as it is. There one usually puts a layer on the
# skip that brings x to the new width, `shortcut(x) + f(x)`;
# [d2l](https://d2l.ai/chapter_convolutional-modern/resnet.html) has the code.
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
print(f"loss at the end {losses[-1]:.2f}, test digits read correctly {share:.0%}")

# %% [markdown]
# **Measure first.** If the branch returns 0, a residual block must return x: not nearly,
# exactly. Fill in `keeps_x`: set the weight and the bias of `block.linear2` to 0, send x
# through a block in training mode, and return whether x comes out. Compare with a copy that you took
# before, `x.clone()`. You will see below why.
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
print(f"loss at the end {losses[-1]:.2f}, test digits read correctly {share:.0%}")

# %% [markdown]
# The name x was overwritten three times, so in the last line x was the branch itself:
# branch + dropout(branch). It
# is an easy mistake to make, because the line with the plus sign looks right.
#
# Here are three relatives, each called with a branch that returns 0. The first column
# compares what comes out with x, the second with a copy of x that was taken before.


# %% relatives
def norm_overwritten(x, f):
    x = norm(x)
    return x + dropout(f(x))


def dropout_on_the_sum(x, f):
    return dropout(x + f(norm(x)))


def relu_in_place(x, f):
    return x + dropout(f(x.relu_()))


torch.manual_seed(21)
for wrong in norm_overwritten, dropout_on_the_sum, relu_in_place:
    token = torch.tensor([-1.0, 2.0, -3.0, 4.0])
    copy = token.clone()
    out = wrong(token, torch.zeros_like)
    print(f"{wrong.__name__:19}", torch.equal(out, token), torch.equal(out, copy), out)

# %% [markdown]
# None returns −1, 2, −3, 4, and the comparison with the copy finds all three. The
# comparison with x is fooled by the last one: its ReLU works in place, so it has changed
# x itself before x is added. One
# [published model](https://github.com/rosinality/vq-vae-2-pytorch/issues/60) had this
# mistake, and one block of [another](https://github.com/znxlwm/UGATIT-pytorch/issues/32) had no
# `x +` at all.
#
# Put this test into your own projects: silence the branch of a copy, in training mode,
# and ask for x. It holds for a connection like ours, with nothing on the skip and nothing after the sum. Post-norm
# (lesson 04), a ReLU after the sum as in the first ResNets, and a layer on the skip
# change x on purpose.
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
# last layer of the branch to 0. The block must return exactly x, compared with a copy that
# was taken before.</details>
#
# **Next.** [Lesson 01](01_gradient_flow.ipynb) builds the tool of section 4. The plain
# network loses what differs between its inputs, and the gradient. Which of the two stops
# it? That is the question of the
# [investigation](investigations/00_signal_or_gradient.ipynb).
# [Homework](homework/hw_00_01.ipynb) follows lesson 01; the
# [glossary](../docs/glossary.md) has all words.

# %%
summary("00")
