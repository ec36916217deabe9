# %% [markdown]
# # 05 · LayerScale: let every branch start small
#
# One hour. You need Python and basic PyTorch: tensors, `nn.Module`, `backward()`. The lesson
# before is [04, pre-norm and post-norm](04_pre_norm_and_post_norm.ipynb); this one stands
# alone.
#
# In lesson 00 a plus sign let 16 blocks learn. What happens with 192 of them? Guess first. Then
# you write a piece of two lines that is found in many vision transformers, follow its numbers
# and its gradients by hand, and train the 192 blocks with it.

# %%
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import SimpleFeedForward
from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary

device = setup()
progress("05")

# %% [markdown]
# ## 1 · What goes wrong without it?
#
# Our blocks compute x + f(x). The **branch** f is a `SimpleFeedForward`: two linear layers with
# a ReLU between them, 64 numbers in, 128 between, 64 out. The task is to read handwritten
# digits of 8 × 8 pixels; a last linear layer computes the ten scores. The initial weights are
# PyTorch's own, and the optimizer is Adam at its default rate of 0.001. Only the depth is
# unusual. (Folded: the digits, a training loop of 30 steps, and the pictures.)

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.plots.along_depth import along_depth
from residual_course.plots.style import DROPPED, GATE, REFERENCE, A
from residual_course.training import accuracy, minibatches, train

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


def fit(net, seed, steps=30):
    """Train a network; return the losses and the share of digits read correctly."""
    adam = torch.optim.Adam(net.parameters(), fused=True)
    batches = minibatches(train_x, train_y, seed=seed)
    losses = train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps=steps)
    return losses, accuracy(net, test_x, test_y)


def shares(seeds):
    return ", ".join(f"{share:.0%}" for _, share in seeds)


LOOKS = {  # ink, dash, and where the name stands
    "16 blocks": (DROPPED, ":", (0.4, 0.06)),
    "192 blocks": (A, "--", (8, 1500)),
    "no gamma": (A, "--", (8, 4000)),
    "gamma from 1": (REFERENCE, "-.", (8, 1100)),
    "gamma from 0.0001": (GATE, "-", (0.4, 0.06)),
}


def plot_losses(runs, title):
    ax = Figure(figsize=(6, 3.4)).add_subplot()
    ax.axhline(2.303, color=REFERENCE, linewidth=0.6, zorder=0)
    for name, seeds in runs.items():
        ink, dash, place = LOOKS[name]
        for losses, _ in seeds:
            ax.plot(losses, dash, color=ink, linewidth=1.5)
        words = f"{name}: {shares(seeds)} read"
        ax.text(*place, words, color=ink, weight="bold", va="center")
    ax.text(28.8, 1.9, "guessing: 2.3", ha="right", va="top")
    ax.set(yscale="log", ylim=(0.02, 1e4), xlim=(0, 29), title=title)
    ax.set(xlabel="training step", ylabel="loss on training data")
    ax.minorticks_off()
    return ax.figure


# %%
class Block(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.f = SimpleFeedForward(64, 128)
        self.gate = gate

    def forward(self, x):
        return x + self.gate(self.f(x))


def network(depth, seed, gate=nn.Identity):
    torch.manual_seed(seed)
    blocks = [Block(gate()) for _ in range(depth)]
    return nn.Sequential(*blocks, nn.Linear(64, 10)).to(device)


# %% [markdown]
# For now `gate` is `nn.Identity`, which returns what it receives, so a block is x + f(x).

# %% deep tags=["slow", "trained"]
with predict(
    "192 blocks in place of 16: what does the first step of Adam do to the loss?",
    ["lowers it a little", "nothing visible", "more than doubles it"],
):
    runs = {}
    for depth in 16, 192:
        three = [fit(network(depth, seed), seed) for seed in range(3)]
        runs[f"{depth} blocks"] = three
    show(plot_losses(runs, "With 192 blocks the first step makes it worse"))

# %% [markdown]
# Look at the left edge. Before any training the loss of 192 blocks is 75 to 225, where guessing
# costs 2.3, and the first step takes it above 1,000. After 30 steps, the 16 blocks read more than
# nine of ten digits. The 192 are not even back where a new network usually starts. How large does x
# become on its way?

# %% how-loud
x = test_x
for block, layer in enumerate(network(192, seed=0)[:-1]):
    if block in (0, 1, 64, 128):
        print(f"before block {block:3}: x has the size {x.square().mean().sqrt():6.2f}")
    x = layer(x).detach()
print(f"after  block 191: x has the size {x.square().mean().sqrt():6.2f}")

# %% [markdown]
# (The size is the root of the mean square.) On average, a block makes x 2.6 % larger. That is
# little, but 1.026 multiplied 192 times by itself is about 140. No single branch is too loud;
# together they are.
#
# ## 2 · What exactly is it?
#
# In 2021 [Hugo Touvron and others](https://arxiv.org/abs/2103.17239) wanted deeper vision
# transformers. They multiplied what each branch adds by learned numbers γ (gamma) that start
# near 0:
#
# ```
# x ─┬──────────────────── + ──▶ x + γ · f(x)
#    └──▶ f ──▶ times γ ───┘
# ```
#
# A factor on a branch is called a **gate**. **LayerScale** is a gate with one number for each
# channel, that is, for each place in the row.
#
# ### Step 1 · Four numbers and a branch
#
# Four numbers x, and what some f made of them.

# %%
x = torch.tensor([1.0, 2, 3, 4])
branch = torch.tensor([3.0, -1, 0, 2])
print(x + branch)

# %% [markdown]
# The first number has become four times as large in a single block.
#
# ### Step 2 · Turn it down

# %%
gamma = torch.full((4,), 0.1)
print(gamma * branch)
print(x + gamma * branch)

# %% [markdown]
# Each number of the branch is multiplied by 0.1, and 1 becomes 1.3. With a gamma of 0 the block would
# return x, and with a gamma of 1 it would be as before: gamma is a volume control.
#
# ### Step 3 · A volume for each channel, the same for all rows
#
# Now two rows, and four different gammas.

# %%
gamma = torch.tensor([1.0, 0.1, 5, 0])
branches = torch.tensor([[3.0, -1, 0, 2], [1, 1, 1, 1]])
print(gamma * branches)

# %% [markdown]
# Read it by columns. The first passes as it was, the second is turned down, the third becomes
# louder (0 stays 0), and the last is silent. Both rows share the four gammas.
#
# ### Exercise 1 · The piece (4 minutes)
#
# Write it as a module. It has one parameter, `gamma` of shape (dim,), whose numbers all start at
# `init_value`, and it returns x times gamma. (Here x is whatever it receives: in a block, the
# output of the branch.)
#
# <details><summary>Hint 1</summary>What must a tensor be, so that an optimizer finds
# it?</details>
# <details><summary>Hint 2</summary>Step 2 has the tensor; wrap it in
# <code>nn.Parameter(...)</code>. For an <code>init_value</code> of 1, without a point,
# <code>torch.full</code> makes integers, which cannot learn: give it
# <code>float(init_value)</code>.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "layer-scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MyLayerScale(nn.Module):
    """Multiply each channel by its own learned number, gamma."""

    def __init__(self, dim, init_value=1e-4):
        super().__init__()
        ### BEGIN SOLUTION
        self.gamma = nn.Parameter(torch.full((dim,), float(init_value)))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        return x * self.gamma
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "layer-scale-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(MyLayerScale, "layer_scale")

# %% [markdown]
# ### Step 4 · The way back
#
# A gate that starts at 0.0001 makes a branch nearly silent. Does that ever change? It depends on
# two gradients. Let `upstream` be the gradient that arrives at the product gamma · branch.
#
# ### Exercise 2 · Two gradients by hand (5 minutes)
#
# Return the gradient with respect to `branch` and the one with respect to `gamma`, without
# autograd. `branch` and `upstream` have the shape (..., channels), `gamma` has (channels,).
#
# On paper first, for one row: branch (3, −1, 0, 2), upstream (1, 1, 1, −1), gamma 0.1
# throughout. What are the four numbers of each gradient?
#
# <details><summary>Hint 1</summary>The derivative of a product with respect to one factor is
# the other factor.</details>
# <details><summary>Hint 2</summary>All rows share gamma, so each row adds its share to
# gamma's gradient: sum over every axis but the last, for example after
# <code>.reshape(-1, len(gamma))</code>.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "gate-gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gate_gradients(upstream, branch, gamma):
    """Return the gradients with respect to branch and to gamma."""
    ### BEGIN SOLUTION
    return upstream * gamma, (upstream * branch).reshape(-1, len(gamma)).sum(0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gate-gradients-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(gate_gradients, "gate_gradients")

# %% by-hand
upstream = torch.tensor([1.0, 1, 1, -1])
for start in 0.1, 0.0001, 0.0:
    of_branch, of_gamma = gate_gradients(upstream, branch, torch.full((4,), start))
    print(f"gamma {start}:")
    print("  branch", of_branch)
    print("  gamma ", of_gamma)

# %% [markdown]
# Each gradient contains the *other* factor. So the branch's gradient shrinks with gamma, and at 0
# it is gone. Gamma's gradient is the same three times: gamma itself does not appear in it, only
# what arrives and what the branch returned.
#
# ### Step 5 · One step of Adam
#
# How far does gamma move? We take your module from 0.0001, and one step of Adam at the rate of
# 0.001.

# %%
layer = MyLayerScale(4)
adam = torch.optim.Adam(layer.parameters(), lr=0.001)
layer(branch).backward(upstream)

# %% one-step
with predict(
    "Gamma starts at 0.0001. How large are most gammas after one step of Adam?",
    ["about 0.0001", "about 0.001", "about 1"],
):
    adam.step()
    print(layer.gamma.data)

# %% [markdown]
# Adam divides each gradient by the gradient's own size, so its first step moves every number that
# has one by the rate, here 0.001, whether it is 3 or −1. That is ten times as much as gamma was.
# One gamma became negative, which is allowed. The third stayed at 0.0001: there the branch
# returned 0, so gamma's gradient is 0.
#
# ## 3 · Is mine right?
#
# The package's module (folded, word for word) has your two lines; its others check what they are
# given, and keep a branch in 16 bits when gamma is in 32.

# %% jupyter={"source_hidden": true} tags=["promote:parts/layer_scale"]
from jaxtyping import Float
from torch import Tensor

from residual_edu.errors import InvalidInput, check_shape
from residual_edu.parts.flop_count import Shape, count_positions


class LayerScale(nn.Module):
    r"""Multiply each channel by its own learned number: :math:`x \cdot \gamma`."""

    def __init__(self, dim: int, init_value: float = 1e-4) -> None:
        super().__init__()
        if not 0 <= init_value < float("inf"):
            raise InvalidInput(f"init_value must be at least 0, got {init_value}")
        self.dim, self.init_value = dim, init_value
        self.gamma = nn.Parameter(torch.full((dim,), float(init_value)))

    def reset_parameters(self) -> None:
        """Set every gamma to its starting value."""
        nn.init.constant_(self.gamma, self.init_value)

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Scale the last axis of ``x``; its shape and dtype are kept."""
        check_shape("x", x, "...", self.dim)
        return (x * self.gamma).type_as(x)

    def extra_repr(self) -> str:
        """Show the width."""
        return f"{self.dim}"

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return 1 multiplication for each element."""
        return count_positions(shape) * self.dim


# %% same-numbers jupyter={"source_hidden": true}
torch.manual_seed(0)
leaf = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
pull, gaps = torch.randn(2, 3, 4).double(), []
mine, theirs = MyLayerScale(4, 0.5).double(), LayerScale(4, 0.5).double()
for module in mine, theirs:
    y = module(leaf)
    found = torch.autograd.grad(y, [leaf, module.gamma], pull)
    wanted = gate_gradients(pull, leaf.detach(), module.gamma.detach())
    gaps += [(y - 0.5 * leaf).abs().max()]
    gaps += [(a - b).abs().max() for a, b in zip(found, wanted, strict=True)]
print("largest difference:", max(gap.item() for gap in gaps))

# %% [markdown]
# (Folded.) Both modules return x times gamma, and the gradients that autograd finds in them are
# those of your exercise 2.
#
# ## 4 · What does it do to the gradient?
#
# Take single numbers again. The derivative of a block is
#
# $$\frac{d}{dx}\,\bigl(x + \gamma f(x)\bigr) = 1 + \gamma f'$$
#
# In a row of 192 blocks, 192 such factors are multiplied. (Of vectors they are matrices. What a
# branch adds is nearly at right angles to x, so most blocks make lengths a little larger.) With
# γ = 0.0001 each factor differs from 1 by a ten-thousandth of f′, so the product stays near 1.


# %% along-depth tags=["trained"]
def small_gate():
    return MyLayerScale(64)


nets = {"no gamma": network(192, 0), "gamma": network(192, 0, small_gate)}
parts = {name: (net, net[:-1]) for name, net in nets.items()}
some_x, some_y = test_x[:64], test_y[:64]
show(along_depth(parts, some_x, lambda out: F.cross_entropy(out, some_y)))

# %% [markdown]
# The upper panel follows what *differs* between the digits on its way forward. Without gamma it
# becomes almost a hundred times as large; with gamma it stays as it was. Read the middle panel from
# right to left, as the gradient travels: without gamma it grows two hundredfold on its way to
# block 1, with gamma it is flat. With a small gamma, the 192 blocks pass everything on unchanged,
# both ways.
#
# In the lower panel, with gamma, the gradient of a block's weights is thousands of times smaller.
# Which parameter still has a sizeable gradient?

# %% what-is-left tags=["trained"]
block = nets["gamma"][0]
F.cross_entropy(nets["gamma"](some_x), some_y).backward()
for name, parameter in block.named_parameters():
    size = parameter.grad.square().mean().sqrt()
    print(f"{name:16} {size:.1e}")

# %% [markdown]
# It is gamma's own gradient. Those of the layers contain gamma (exercise 2), and are thousands of
# times smaller still. A step of SGD at a rate of 0.1 would move these weights by less than a
# millionth. Adam divides by the gradient's own size, so they move from the first step on.
#
# ## 5 · Does it help?
#
# We train the 192 blocks with your module and change nothing else. Beside it stands a control that
# differs in one number: its gamma starts at 1. That network begins as the one without gamma, but it
# is free to turn its branches down.

# %% three-seeds tags=["slow", "trained"]
with predict(
    "Gamma starts at 1 and learns. Where does that network end after 30 steps?",
    ["near no gamma", "halfway", "near a start of 0.0001"],
):
    starts = {"no gamma": runs["192 blocks"]}
    for start in 1, 0.0001:
        gate = partial(MyLayerScale, 64, start)
        three = [fit(network(192, seed, gate), seed) for seed in range(3)]
        starts[f"gamma from {start}"] = three
    show(plot_losses(starts, "It matters where gamma starts"))

# %% [markdown]
# With a small start, the loss begins at that of guessing and falls from there. With a start of 1
# gamma learns too, but 30 steps of about 0.001 cannot take it far from 1. So in these 30 steps it
# is not enough that gamma can learn: it has to start small.
#
# Does it have to be a number for each channel? **ReZero**
# ([Bachlechner and others, 2020](https://arxiv.org/abs/2003.04887)) has a single number for
# each branch, which starts at 0. Your module can do that too. And what do gates do to 16 blocks,
# which had no trouble?

# %% rezero tags=["slow", "trained"]
ways = {"no gamma": nn.Identity, "gamma from 0.0001": small_gate}
ways["ReZero"] = lambda: MyLayerScale(1, 0)
few = {way: [fit(network(16, s, ways[way]), s) for s in range(3)] for way in ways}
rezero = fit(network(192, 0, ways["ReZero"]), 0)
print("192 blocks, ReZero:", shares([rezero]))
for way, seeds in few.items():
    print(f" 16 blocks, {way}: {shares(seeds)}")

# %% [markdown]
# In 192 blocks one number does as well as 64 (we tried one seed), and a start of exactly 0 does no
# harm: gamma gets its gradient all the same. In 16 blocks both gates make the beginning slower. So
# here a gate paid where the depth was too much, and cost something where it was not.
#
# Smaller weights, a smaller rate or a norm help against loud branches too, and so does patience:
# after 200 steps the 192 blocks read 92 or 93 % without any gate, and 97 or 98 % with gamma. The
# [investigation](investigations/05_start_or_steps.ipynb) has these runs, and asks whether it
# is the small start that counts, or the small steps that come with it.
#
# **Where it stands today.** In large vision transformers the gate stands after a pre-norm branch,
# x + γ · f(norm(x)). CaiT, where it comes from, starts it at 0.1 for up to 18 blocks, at 0.00001
# for 24 and at 0.000001 for more. [DINOv2](https://arxiv.org/abs/2304.07193) has 0.00001 as its
# default, and [ViT-5](https://arxiv.org/abs/2602.08071), which you build in lesson 09, has 0.0001.
#
# ## 6 · Where do people go wrong?
#
# ### Exercise 3 · Twice as safe? (8 minutes)
#
# A colleague wants 16 blocks that return exactly x at the start. ReZero starts the gate at 0;
# [Fixup](https://arxiv.org/abs/1901.09321) starts the last layer of each branch at 0. To be safe,
# he does both.


# %% handed tags=["trained"]
def silence(block):
    nn.init.zeros_(block.gate.gamma)
    nn.init.zeros_(block.f.linear2.weight)
    nn.init.zeros_(block.f.linear2.bias)


def started(start):
    """Return 16 blocks and a last layer; `start` sets a block's initial values."""
    net = network(16, 0, small_gate)
    for block in net[:-1]:
        start(block)
    return net


net = started(silence)
losses, share = fit(net, seed=0, steps=100)
print(f"the loss falls from {losses[0]:.1f} to {losses[-1]:.1f}, {share:.0%} read")

# %% [markdown]
# The loss falls, and nothing looks broken. But in section 1, 16 blocks read more after 30 steps
# than these after 100.
#
# **Measure first.** Complete `asleep`: send the gradient through the network once, and return the
# names of the block's parameters whose gradient is 0 throughout.
#
# <details><summary>Hint</summary><code>block.named_parameters()</code> yields names and
# parameters; <code>p.grad.any()</code> is true if some number of it is not 0.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "asleep", "locked": false, "schema_version": 3, "solution": true, "task": false}
def asleep(block, loss):
    """Send the loss back; return the names of what gets no gradient in the block."""
    loss.backward()
    ### BEGIN SOLUTION
    return [name for name, p in block.named_parameters() if not p.grad.any()]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "asleep-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(asleep, "asleep")

# %% all-asleep tags=["trained"]
net.zero_grad()
print("after 100 steps:", asleep(net[0], F.cross_entropy(net(train_x), train_y)))

# %% [markdown]
# After 100 steps, nothing in the block gets a gradient. What reads the digits is the last layer
# alone, from the pixels that 16 idle blocks pass on. Why? Look at your two lines of exercise 2.
#
# **Then mend.** Complete `mended_start`. It sets initial values so that the block still returns
# *exactly* x at the start, and yet all of its parameters move within a few steps.
#
# <details><summary>Hint</summary>One zero is enough to silence a branch. Leave one of the two out:
# the new block comes with a gamma of 0.0001 and PyTorch's weights.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-start", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_start(block):
    """Set initial values: the block returns x, and all of it learns."""
    ### BEGIN SOLUTION
    nn.init.zeros_(block.gate.gamma)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-start-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(mended_start, "mended_start")

# %% mended tags=["trained"]
net = started(mended_start)
losses, share = fit(net, seed=0, steps=100)
print(f"the loss falls from {losses[0]:.1f} to {losses[-1]:.1f}, {share:.0%} read")
net.zero_grad()
print("after 100 steps:", asleep(net[0], F.cross_entropy(net(train_x), train_y)))

# %% [markdown]
# Gamma's gradient contains the branch, and the branch's gradient contains gamma. With two zeros
# both are 0 for ever; with one, the other factor lets it move. And remember: a loss that falls does
# not show that the blocks learn. Three relatives:
#
# - **The gate on the wrong side of the sum**, γ · (x + f(x)), turns x down too. After two such
#   blocks, what differs between two digits is a hundred-millionth of what it was:


# %% wrong-side
class WrongSide(Block):
    def forward(self, x):
        return self.gate(x + self.f(x))


torch.manual_seed(0)
block, x = WrongSide(small_gate()).double(), test_x[:2].double().cpu()
for _ in range(3):
    print(f"{(x[0] - x[1]).abs().mean():.0e}")
    x = block(x)

# %% [markdown]
# - **The start gets lost.** In 2025 `reset_parameters` of the LayerScale in timm, a library of
#   vision models, [set gamma to 1](https://github.com/huggingface/pytorch-image-models/pull/2605),
#   whatever start was asked for. No error is raised, and you train our control of section 5. So
#   print a gamma before you train.
# - **Gamma decays.** Weight decay pulls parameters towards 0, and here 0 means a silent branch. So
#   gates are usually left out of it, with the biases: all that has a single axis
#   (`parameter_groups` in the package does so).
#
# ## 7 · What do I keep?
#
# $$x \;\leftarrow\; x + \gamma \cdot f(x), \qquad \gamma \approx 0 \text{ at the start}$$
#
# ```python
# self.gamma = nn.Parameter(torch.full((dim,), 1e-4))
#
# def forward(self, x):
#     branch = self.f(x)
#     return x + self.gamma * branch
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>A gate starts at exactly 0. Does its branch ever
# learn?</summary>Yes, from the second step on, if the branch's output is not 0. The gate's gradient
# contains the branch's output, so the gate moves first, and then the branch gets a gradient
# too.</details>
#
# <details><summary>Why does a learned gamma that starts at 1 not rescue the 192
# blocks?</summary>At the start it is the same loud network. In 30 steps Adam moves a gamma by 0.03 at
# most or so, which hardly makes a branch smaller.</details>
#
# <details><summary>A network of 12 blocks trains well. What do you expect of LayerScale from
# 0.0001?</summary>A slower beginning: 12 branches are not loud, and the gates have to open
# first.</details>
#
# **Next.** In [lesson 06](06_adaln_zero.ipynb) the gate is no longer a parameter, but computed from
# what the network should draw. Small start or small steps? That is the question of the
# [investigation](investigations/05_start_or_steps.ipynb).
# [Homework](homework/hw_04_05.ipynb) is on lessons 04 and 05; the
# [glossary](../docs/glossary.md) has all words.

# %%
summary("05")
