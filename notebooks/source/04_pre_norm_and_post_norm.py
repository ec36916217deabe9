# %% [markdown]
# # 04 · Pre-norm and post-norm
#
# One hour. You need the block x + f(norm(x)) of
# [lesson 00](00_residual_connection.ipynb) and the norm of
# [lesson 02](02_layer_norm.ipynb). The lesson before is
# [03, dropout](03_dropout_and_stochastic_depth.ipynb).
#
# The first Transformer had its norm after each sum, and most of today's have it before each
# branch. You write both lines, follow four numbers through them, and compute what is left
# of x after 16 blocks. Then both train on handwritten digits, at one learning rate.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import SimpleFeedForward
from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary
from residual_course.plots.placement import plot_wiring

device = setup()
progress("04")

# %% [markdown]
# ## One norm, two places
#
# Here are two blocks of each kind. The blue line is x on its way through the network, the
# **residual stream**. Each orange branch computes something to add to it.

# %% wiring jupyter={"source_hidden": true}
from matplotlib.figure import Figure

figure = Figure(figsize=(6, 4.2))
for ax, name in zip(figure.subplots(2, 1), ("pre", "post"), strict=True):
    plot_wiring(name, ax)
figure.axes[0].set_title("pre-norm: the norm stands on the branch")
figure.axes[1].set_title("post-norm: the norm stands on the stream")
show(figure)

# %% [markdown]
# In **pre-norm** a norm stands before f, so the stream itself meets nothing but sums,
# and one last norm after all blocks. In **post-norm** the norm comes after the sum, so
# the stream has to pass through a norm in every block.
#
# ### Exercise 1 · The two lines (3 minutes)
#
# Write both. `f` and `norm` are functions of one tensor, `placement` is `"pre"` or
# `"post"`.
#
# <details><summary>Hint</summary>Each line has one x, one plus, one f and one norm. Ask
# of each: what does f receive, and what goes through the norm?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "two-placements", "locked": false, "schema_version": 3, "solution": true, "task": false}
def my_residual(x, f, norm, placement):
    """Return what leaves one block, with its norm at "pre" or at "post"."""
    ### BEGIN SOLUTION
    if placement == "pre":
        return x + f(norm(x))
    return norm(x + f(x))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "two-placements-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(my_residual, "two_placements")

# %% [markdown]
# Now follow four numbers through your function. These are the three tokens of lesson 00,
# and we follow the second one: 6, 2, 2, 2. Our f is simple enough to compute in the
# head: it moves each number one place to the right, and the last one to the front.

# %% four-numbers
x = torch.tensor([[1.0, 2, 3, 4], [6, 2, 2, 2], [3, 3, 7, 3]])
norm = nn.LayerNorm(4, elementwise_affine=False)


def f(x):
    return torch.roll(x, 1, dims=-1)


print("norm(x)  ", norm(x)[1])
print("pre-norm ", my_residual(x, f, norm, "pre")[1])
print("post-norm", my_residual(x, f, norm, "post")[1])

# %% [markdown]
# Check them on paper:
#
# - *norm(x).* The mean of 6, 2, 2, 2 is 3, and the standard deviation is √3 = 1.73. So
#   (6 − 3) / 1.73 = 1.73 and (2 − 3) / 1.73 = −0.58.
# - *pre-norm.* f turns this into −0.58, 1.73, −0.58, −0.58, and that is added to
#   6, 2, 2, 2. The first number is 6 − 0.58 = 5.42: the 6 is still in it, whole.
# - *post-norm.* f turns 6, 2, 2, 2 into 2, 6, 2, 2, and the sum is 8, 8, 4, 4. Its mean
#   is 6 and its standard deviation is 2, so the norm makes it 1, 1, −1, −1.
#
# In the last result x is not whole any more: what the 6 brought was divided by 2,
# together with all the rest. One division is harmless. What do sixteen of them do?
#
# ## 1 · Does the place matter?
#
# Two networks of 16 blocks read handwritten digits of 8 × 8 pixels. Each block is your
# line, with the two linear layers of lesson 00 as f and PyTorch's own initial weights.
# (Folded: the digits, and a loop that trains three seeds with Adam for 150 steps.)

# %% jupyter={"source_hidden": true}
from residual_course.datasets import digits
from residual_course.plots.along_depth import along_depth
from residual_course.plots.style import REFERENCE, A, B
from residual_course.training import accuracy, minibatches, train

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


def train_net(net, seed, rate, steps, factor):
    adam = torch.optim.Adam(net.parameters(), rate, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, factor)
    batches = minibatches(train_x, train_y, seed=seed)
    return train(
        lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps, schedule
    )


def trained(placement, rate=0.01, factor=lambda step: 1.0, make=None):
    """Train three seeds; return for each its losses and the share read correctly."""
    found = []
    for seed in range(3):
        net = (make or network)(placement, seed)
        losses = train_net(net, seed, rate, 150, factor)
        found.append((losses, accuracy(net, test_x, test_y)))
    return found


def shares(seeds):
    return ", ".join(f"{share:.0%}" for _, share in seeds)


TITLES = "One of them fails at this rate", "With a warm-up post-norm learns, restlessly"


def plot_losses(panels):
    """Draw each of two or four trainings in a panel of its own."""
    rows = len(panels) // 2
    figure = Figure(figsize=(6, 1 + 2 * rows))
    axes = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
    for ax, (name, seeds) in zip(axes.flat, panels.items(), strict=True):
        ax.axhline(2.303, color=REFERENCE, linewidth=0.6, zorder=0)
        for losses, _ in seeds:
            ax.plot(losses, color=A if "pre" in name else B, linewidth=1.2)
        ax.text(148, 3.5, f"read: {shares(seeds)}", ha="right")
        ax.set(ylim=(0, 4), xlim=(0, 150), xticks=[0, 50, 100])
        ax.set_title(name)
    axes[0, 0].text(148, 1.9, "guessing: 2.303", ha="right")
    for ax in axes[:, 0]:
        ax.set_ylabel("training loss")
    for ax in axes[-1]:
        ax.set_xlabel("training step")
    figure.suptitle(TITLES[rows - 1])
    return figure


# %%
class Block(nn.Module):
    def __init__(self, placement):
        super().__init__()
        self.placement = placement
        self.norm = nn.LayerNorm(64)
        self.f = SimpleFeedForward(64, 128)

    def forward(self, x):
        return my_residual(x, self.f, self.norm, self.placement)


def network(placement, seed, depth=16):
    torch.manual_seed(seed)
    blocks = [Block(placement) for _ in range(depth)]
    final = nn.LayerNorm(64) if placement == "pre" else nn.Identity()
    return nn.Sequential(*blocks, final, nn.Linear(64, 10)).to(device)


# %% [markdown]
# At Adam's default rate of 0.001 post-norm learns well. Now the same at 0.01, ten times as large.

# %% both-rates tags=["slow", "trained"]
with predict(
    "At 0.001 post-norm reads over 95 %. And at 0.01?",
    ["over 90 %, only faster", "50 to 90 %", "under 30 %, it guesses"],
):
    print("post-norm at 0.001 reads", shares(trained("post", rate=0.001)))
    runs = {f"{name}-norm": trained(name) for name in ("pre", "post")}
    show(plot_losses(runs))

# %% [markdown]
# Each panel has three seeds. Both networks have the same parts, batches and initial
# weights. Pre-norm has one norm more, at its end, so that both last layers receive numbers
# of size 1. Beside that only the place of the norm differs, and at this rate it decides. (We
# searched for a rate at which it does.)
#
# ## 2 · What exactly is it?
#
# What does each line leave of x? Post-norm computes (x + f(x) − mean) / s, where s is the
# standard deviation of the sum. So x comes out of the block divided by s, and the next
# block divides it again.
#
# How large is s? Take an x of size 1, and a branch whose output has size 1 too and has
# nothing to do with x. Then the squares add, and the sum has the size √(1 + 1) = √2.
# (A size is the root of the mean square, the rms.) On paper:
#
# | | post-norm: left of x | pre-norm: the stream | its size |
# |---|---|---|---|
# | 1 block | 1 / √2 | x + f₁ | √2 |
# | 2 blocks | 1 / √2 · 1 / √2 | x + f₁ + f₂ | √3 |
#
# In pre-norm x is still there, whole, but beside it stands a sum that grows. The layer
# that reads the result, the **head**, would receive larger numbers the deeper a network
# is. So a pre-norm network ends with one more norm, the **final norm**. It divides once:
# 1 / √2 of x is left after one block, and 1 / √3 after two.
#
# Now we print it, with your function. The branch returns random numbers of size 1. They
# have nothing to do with x and average to 0, so the mean of out · x is the share of x.


# %%
def left_of_x(placement, depth):
    torch.manual_seed(0)
    norm = nn.LayerNorm(2_000_000, elementwise_affine=False)
    start = x = norm(torch.randn(2_000_000))
    for _ in range(depth):
        x = my_residual(x, torch.randn_like, norm, placement)
    if placement == "pre":
        x = norm(x)  # the final norm
    return (x * start).mean().item()


# %% left-of-x
with predict(
    "How much of x is left after 16 blocks of post-norm?",
    ["about 1/4", "about 1/16", "1/32", "1/256"],
):
    print("blocks  post-norm  pre-norm")
    for depth in 1, 2, 16:
        post, pre = left_of_x("post", depth), left_of_x("pre", depth)
        print(f"{depth:6}  {post:9.3f}  {pre:8.3f}")

# %% [markdown]
# Post-norm divides sixteen times by √2, and 1 / 2⁸ = 0.004 (the random numbers are not quite
# unrelated to x). Pre-norm divides once, by
# √17 = 4.1, and keeps a quarter. Sixteen divisions multiply, sixteen sums only add.
#
# ## 3 · Is mine right?
#
# The package has your two lines as two functions, `pre_norm_residual` and
# `post_norm_residual` (folded, word for word). They take `gates` as well, which is where
# lessons 03 and 05 put dropout and LayerScale.

# %% jupyter={"source_hidden": true} tags=["promote:parts/residual"]
from typing import Any

from residual_edu.errors import check_same_shape
from residual_edu.parts.residual import Gates, Map, Stream, apply_gates, is_bypassed


def pre_norm_residual(
    x: Stream, layer: Map, norm: Map, gates: Gates = (), *inputs: Any, **keywords: Any
) -> Stream:
    """Return x + g(f(norm(x))), or ``x`` if the layer is bypassed."""
    if is_bypassed(layer):
        return x
    branch = layer(norm(x), *inputs, **keywords)
    return x + apply_gates(gates, branch, x)


def post_norm_residual(
    x: Stream, layer: Map, norm: Map, gates: Gates = (), *inputs: Any, **keywords: Any
) -> Stream:
    """Return norm(x + g(f(x))), or ``x`` if the layer is bypassed."""
    if is_bypassed(layer):
        return x
    branch = layer(x, *inputs, **keywords)
    y = norm(x + apply_gates(gates, branch, x))
    check_same_shape("norm", y, "x", x)
    return y


# %% [markdown]
# PyTorch has the switch too: it is called `norm_first`. A layer of its Transformer has two
# branches, attention and then two linear layers, so we call your function twice. We
# compare outputs and gradients in float64.


# %% same-numbers
def two_branches(x, layer, placement):
    x = my_residual(x, lambda z: layer.self_attn(z, z, z)[0], layer.norm1, placement)
    mlp = nn.Sequential(layer.linear1, nn.ReLU(), layer.linear2)
    return my_residual(x, mlp, layer.norm2, placement)


for placement in "pre", "post":
    first = placement == "pre"
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, norm_first=first).double()
    tokens = torch.randn(5, 3, 8, dtype=torch.float64, requires_grad=True)
    found = []
    for out in layer(tokens), two_branches(tokens, layer, placement):
        gradient = torch.autograd.grad(out.sin().sum(), tokens)[0]
        found.append(torch.stack([out, gradient]))
    print(f"{placement}-norm agrees:", torch.allclose(found[0], found[1]))

# %% [markdown]
# ## 4 · What does it do to the gradient?
#
# For one block, by the chain rule:
#
# $$\text{pre-norm: } 1 + f' \cdot \mathrm{norm}' \qquad\qquad \text{post-norm: } \mathrm{norm}' \cdot (1 + f')$$
#
# The 1 is the way along the skip. In pre-norm this 1 is there in every block, the branches add to
# it, and only the final norm divides it. In post-norm it is multiplied by the slope of a norm in each block, and that slope is about 1 / s.
# So sixteen blocks multiply what goes along the skips by 1 / s sixteen times, as they do with x
# itself; what goes through the branches comes in addition.
#
# We look at both networks before training. The upper panel follows what differs between
# the digits; the other two follow the gradient, and are read from right to left.


# %% before-training
def pictured(steps):
    nets = {}
    for placement in "pre", "post":
        net = network(placement, seed=0)
        if steps:
            train_net(net, 0, 0.01, steps, lambda step: 1.0)
        net.double()
        nets[f"{placement}-norm"] = net, net[:16]
    return nets


def picture(nets):
    return along_depth(nets, test_x.double(), lambda out: F.cross_entropy(out, test_y))


fresh = pictured(0)
show(picture(fresh))

# %% [markdown]
# There is hardly a difference: no curve changes by more than a factor of two. Before
# training, both are healthy. Now the same picture after 40 training steps at 0.01:

# %% after-40 tags=["trained"]
after = pictured(40)
show(picture(after))

# %% [markdown]
# In post-norm, in this run with seed 0, the digits have become alike: after the last block they
# differ by less than a thousandth of what they did. The gradient shrinks in the same blocks, the last six, and the weights
# of the first ones receive almost none. (Adam divides a gradient by its own size, so this alone
# does not show why learning stops.) In pre-norm the digits stay apart, and the gradient
# even grows on its way to block 1. What happened to s?

# %% divisors tags=["trained"]
for name, nets in {"before training": fresh, "after 40 steps": after}.items():
    _, blocks = nets["post-norm"]
    x, left = test_x.double(), 1.0
    for block in blocks:
        s = (x + block.f(x)).std(dim=-1, correction=0).mean().item()
        x, left = block(x), left / s
    print(f"{name}: the last norm divides by {s:.2f}, all 16 leave {left:.1g} of x")

# %% [markdown]
# Before training s is close to 1, since with PyTorch's initial weights the branches are
# small beside x. In 40 steps they have grown to several times its size, and sixteen divisions leave
# almost nothing of x. That alone would be no harm, since f(x) differs between the digits as well:
# up to block 9 the branches replace what the norms took. After it they add nearly the same to
# every digit, and the norms divide the difference away. (Whether
# this is what stops the network is the question of the
# [investigation](investigations/04_where_the_digits_went.ipynb), which causes it on purpose
# and undoes it.)
#
# ## 5 · Does it help?
#
# The first Transformer was post-norm, and it did train. Its authors used a **warm-up**:
# the rate begins small and grows for some thousand steps.
#
# ### Exercise 2 · Warm-up (3 minutes)
#
# Return the factor by which the rate is multiplied at `step`, which is counted from 0. The
# warm-up takes `steps` steps: the factor begins with 1/`steps`, grows by as much in each
# step until it is 1, and stays there.
#
# <details><summary>Hint</summary>With <code>steps</code> = 4 the factors are 0.25, 0.5,
# 0.75, 1, 1, 1, and so on.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "warm-up", "locked": false, "schema_version": 3, "solution": true, "task": false}
def warm_up(step, steps):
    """Return the factor of the learning rate at this step."""
    ### BEGIN SOLUTION
    return min(1.0, (step + 1) / steps)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "warm-up-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(warm_up, "warm_up")

# %% [markdown]
# Now both placements train with your warm-up: 100 steps of growing, then 50 at the full
# 0.01. All else is as in section 1.

# %% warmed-up tags=["slow", "trained"]
with predict(
    "Post-norm with a warm-up of 100 steps, rate 0.01: what is read after 150?",
    ["it still guesses", "much more, but less than pre-norm", "as much as pre-norm"],
):
    warm = {}
    for name in "pre", "post":
        warm[name] = trained(name, factor=lambda step: warm_up(step, 100))
    panels = {f"{name}-norm, warm-up": seeds for name, seeds in warm.items()}
    show(plot_losses(runs | panels))

# %% [markdown]
# Compare the two panels of post-norm: the same network guesses without the warm-up and
# learns with it. But as the rate comes near 0.01 it becomes restless, and loses part of
# what it had learned. Pre-norm needs no warm-up here. (A small rate throughout is the other
# way: at 0.001 post-norm read 98 %. And the first Transformer's rate fell again after its
# warm-up.)
#
# [Xiong and others (2020)](https://arxiv.org/abs/2002.04745) compared the two placements,
# and also trained pre-norm Transformers without any warm-up. Since GPT-2 most large
# models have been pre-norm: Llama, ViT, DiT. BERT and the first Transformer are
# post-norm. In code you will also meet the names pre-LN and post-LN.
#
# ## 6 · Where do people go wrong?
#
# ### Exercise 3 · Mend a network (9 minutes)
#
# A colleague has written a pre-norm network: "First the norm, then the sum." `norms` has
# one norm more than there are layers, for the end.


# %%
def handed_network(x, layers, norms, head):
    for layer, norm in zip(layers, norms, strict=False):
        x = norm(x)
        x = x + layer(x)
    return head(x)


# %% [markdown]
# **Measure first.** We silence all layers, so that they return 0, and send the token
# 6, 2, 2, 2 through. In pre-norm the stream then keeps these numbers to the end, every
# norm receives them, and the head receives what the last norm makes of them. Here each
# norm prints what it receives.


# %% silenced
def spoken(number):
    def norm(z):
        print(f"norm {number} receives", z)
        return F.layer_norm(z, z.shape)

    return norm


token = torch.tensor([6.0, 2, 2, 2])
silent = [torch.zeros_like, torch.zeros_like]
norms = [spoken(1), spoken(2), spoken(3)]
scores = handed_network(token, silent, norms, head=lambda z: z)
print("head receives  ", scores)

# %% [markdown]
# Two faults are in what is printed: one norm received something else than 6, 2, 2, 2,
# and one norm was never called. Write the network again without them.
#
# <details><summary>Hint</summary>What does the name x stand for in the line with the
# plus? And <code>zip</code> stops at the shorter list: which norm is never
# called?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "final-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_network(x, layers, norms, head):
    """Return the scores of a pre-norm network."""
    ### BEGIN SOLUTION
    for layer, norm in zip(layers, norms, strict=False):
        x = x + layer(norm(x))
    return head(norms[-1](x))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "final-norm-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(mended_network, "final_norm")

# %% [markdown]
# With your network each norm receives the token, and the third one is called:

# %% spoken-again
scores = mended_network(token, silent, norms, head=lambda z: z)
print("head receives  ", scores)

# %% [markdown]
# Does it matter? We train the handed network, yours, and one in which only the skip is
# mended, at 0.01 and without a warm-up.


# %%
def only_the_skip(x, layers, norms, head):
    for layer, norm in zip(layers, norms, strict=False):
        x = x + layer(norm(x))
    return head(x)


class Whole(nn.Module):
    def __init__(self, run, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.run, self.head = run, nn.Linear(64, 10)
        self.layers = nn.ModuleList(SimpleFeedForward(64, 128) for _ in range(16))
        self.norms = nn.ModuleList(nn.LayerNorm(64) for _ in range(17))

    def forward(self, x):
        return self.run(x, self.layers, self.norms, self.head)


# %% mended tags=["slow", "trained"]
found = {}
for run in handed_network, only_the_skip, mended_network:
    found[run] = trained(run, make=lambda run, seed: Whole(run, seed).to(device))
    print(f"{run.__name__:14} reads", shares(found[run]))

# %% [markdown]
# The line `x = norm(x)` put the norm back on the stream. Each sum goes through the norm of
# the next block, so this is a post-norm network that looks like pre-norm, and it fails
# at the same rate.
#
# The missing final norm is the milder fault here: the second network reads as many digits as the
# third. But its head receives a stream whose size depends on the depth and on what the
# branches have learned. GPT-2 and its successors have the norm, often named `ln_f`.
#
# Two more mistakes of this kind. A final norm is added to a post-norm network, whose last block
# ends with one already. Or weights that were trained with one placement are loaded into the
# other: names and shapes agree, so PyTorch raises no error, and the outputs are wrong.
#
# ## 7 · What do I keep?
#
# $$\text{pre-norm: } x \leftarrow x + f(\mathrm{norm}(x)) \qquad \text{post-norm: } x \leftarrow \mathrm{norm}(x + f(x))$$
#
# ```python
# for layer, norm in zip(layers, norms):
#     x = x + layer(norm(x))
# x = final_norm(x)
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>Each branch is as large as x and has nothing to do with it. What is left
# of x after 4 blocks, in each placement?</summary>Post-norm: 1/√2 four times, so 1/4.
# Pre-norm: 1/√5, from the one division by the final norm.</details>
#
# <details><summary>What is the final norm of a pre-norm network for, and why has a
# post-norm network none?</summary>In pre-norm the stream is a sum that grows with the
# depth, and the head receives it at one size. In post-norm the last block ends with a
# norm.</details>
#
# <details><summary>Someone's block reads <code>x = norm(x); return x + f(x)</code>.
# What is it?</summary>The skip carries norm(x). In a stack, every sum goes through the
# norm of the next block, as in post-norm.</details>
#
# **Next.** [Lesson 05](05_layer_scale.ipynb) puts a learned gate on the branch. The
# [investigation](investigations/04_where_the_digits_went.ipynb) asks where the digits went.
# [Homework](homework/hw_04_05.ipynb) is on lessons 04 and 05; the
# [glossary](../docs/glossary.md) has all words.

# %%
summary("04")
