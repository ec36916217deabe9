# %% [markdown]
# # 03 · Dropout
#
# One hour. You need Python and basic PyTorch: tensors, `nn.Module`, `backward()`. The lesson
# before is [02, LayerNorm](02_layer_norm.ipynb); this one stands alone. Only its last step
# uses the sum x + f(x) of [lesson 00](00_residual_connection.ipynb).
#
# **Dropout** sets numbers inside a network to 0, at random, as long as the network trains.
# You write it in four lines and compare it with PyTorch's. Then you train a network that
# learns its training data by heart, and see how much of that your four lines prevent.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary

device = setup()
progress("03")

# %% [markdown]
# ## 1 · What exactly is it?
#
# At each step a coin is thrown for each hidden unit, for every sample anew. If the coin says
# drop, the unit returns 0 this one time, so the layers after it have to do without it.
# (Folded: the pictures, and the data of section 3.)

# %% three-steps jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import sklearn_datasets
from residual_course.plots import dropout as draw
from residual_course.plots.along_depth import along_depth
from residual_course.training import minibatches

parts = sklearn_datasets().load_diabetes(return_X_y=True)
all_x, all_y = (torch.tensor(part, dtype=torch.float32) for part in parts)


def patients(seed):
    """Return measurements and outcomes of 221 patients, then of the other 221."""
    order = torch.randperm(442, generator=torch.Generator().manual_seed(seed))
    x, y = all_x[order], all_y[order, None]
    x = (x - x[:221].mean(0)) / x[:221].std(0)
    y = (y - y[:221].mean()) / y[:221].std()
    return [part.to(device) for part in (x[:221], y[:221], x[221:], y[221:])]


def plot_errors(title, *names):
    figure = Figure(figsize=(6, 3.2))
    draw.plot_errors({name: curves[name] for name in names}, STEPS, figure)
    figure.suptitle(title, weight="bold")
    return figure


torch.manual_seed(6)
figure = Figure(figsize=(6, 2.4))
draw.plot_thinned({f"step {n}": torch.rand(2, 4) >= 0.5 for n in (1, 2, 3)}, figure)
figure.suptitle("Each step trains another, thinner network", weight="bold")
show(figure)

# %% [markdown]
# ### Step 1 · Four numbers, four coins
#
# We take the output of a layer, four numbers, and a **rate** of p = 0.25: that is the
# probability with which a number is dropped. A coin that falls badly with probability p is a
# number drawn evenly from 0 to 1 that lies below p.

# %% four-coins
x, p = torch.tensor([1.0, 2.0, 3.0, 4.0]), 0.25
torch.manual_seed(5)
print(torch.rand_like(x))

# %% [markdown]
# `rand_like(x)` draws one number for each number of x. Here only the second lies below 0.25,
# so the 2 becomes 0, and 1, 3 and 4 stay.
#
# ### Step 2 · What becomes of those that stay?
#
# The next layer multiplies these numbers by weights and adds them up. If a quarter of them is
# missing, the sum is a quarter too small on average. Later, when the network is used, nothing
# is dropped, and the sums would suddenly be larger. So we multiply what stays by a factor s,
# such that the average over all coins is the x that came in. Each number stays with
# probability 1 − p:
#
# $$(1 - p) \cdot s\,x \;+\; p \cdot 0 \;=\; x$$
#
# ### Exercise 1 · Dropout (5 minutes)
#
# Write it. In training, return x with its coins thrown and what stays multiplied by s. In
# evaluation, when the network is tested or used, return x as it is.
#
# <details><summary>Hint 1</summary>Solve the line above for s.</details>
# <details><summary>Hint 2</summary>A comparison such as <code>draws &gt;= p</code> gives True
# and False, and in a product True counts as 1 and False as 0.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "dropout", "locked": false, "schema_version": 3, "solution": true, "task": false}
def my_dropout(x, p, training):
    """Return x after dropout of rate p in training, and x itself in evaluation."""
    ### BEGIN SOLUTION
    if not training:
        return x
    stays = torch.rand_like(x) >= p
    return x * stays / (1 - p)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "dropout-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(my_dropout, "dropout")

# %% [markdown]
# With the coins of step 1:

# %% four-dropped
torch.manual_seed(5)
print(my_dropout(x, p, training=True))
print(my_dropout(x, p, training=False))

# %% [markdown]
# ### Step 3 · On average nothing changes
#
# One throw changes a lot, but the average of 100,000 throws should be x:

# %% many-throws
many = my_dropout(x.expand(100_000, 4), p, training=True)
print("average            ", many.mean(0))
print("average of squares ", many.square().mean(0))

# %% [markdown]
# So it is, up to the luck of the coins. The squares are another matter: without dropout they
# are 1, 4, 9 and 16, and here all are larger by one third. Keep that for section 5.
#
# (The [main paper](https://jmlr.org/papers/v15/srivastava14a.html) did it the other way
# round: no factor in training, and times 1 − p in evaluation. The form with s is called
# *inverted* dropout, and PyTorch has it too.)
#
# ### Step 4 · Training or evaluation?
#
# Who tells the function whether we are training? Every module has an attribute `training`,
# which `net.train()` and `net.eval()` set in the whole network. So dropout becomes a module.


# %%
class MyDropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return my_dropout(x, self.p, self.training)


# %% two-modes
torch.manual_seed(0)
net = nn.Sequential(MyDropout(p))
print("train", net(x))
print("train", net(x))
net.eval()
print("eval ", net(x))

# %% [markdown]
# A new module is in training mode. Two calls differ, since each throws new coins.
#
# ### Step 5 · The gradient
#
# On the way back each number meets its own coin once more, because the derivative of s · x is
# s, and that of 0 is 0.

# %% gradient
torch.manual_seed(5)
leaf = x.clone().requires_grad_()
my_dropout(leaf, p, training=True).sum().backward()
print(leaf.grad)

# %% [markdown]
# The 2 was dropped, so it receives no gradient, and the weights that made it do not learn
# from this sample.
#
# ## 2 · Is mine right?
#
# The package's `dropout` and its module `Dropout` (folded, word for word) are your two pieces,
# with a check of the rate and a `generator` that makes the coins repeatable. We take yours, the
# package's and PyTorch's, apply each to 100,000 ones, and ask how many are dropped, and which
# numbers occur in the output and in the gradient.

# %% jupyter={"source_hidden": true} tags=["promote:parts/dropout"]
from jaxtyping import Float
from torch import Tensor

from residual_edu.errors import check_rate
from residual_edu.parts.dropout import bernoulli_mask


def dropout(
    x: Float[Tensor, "*shape"],
    p: float = 0.5,
    training: bool = True,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*shape"]:
    """Drop elements of ``x``, at rate ``p`` in [0, 1); in evaluation return ``x``."""
    check_rate("p", p)
    if not training or p == 0:
        return x
    return x * bernoulli_mask(x.shape, p, x, generator) / (1 - p)


class Dropout(nn.Module):
    """``dropout`` in training, the identity in evaluation."""

    def __init__(
        self, p: float = 0.5, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        check_rate("p", p)
        self.p, self.generator = p, generator

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop elements of ``x``; its shape and dtype are kept."""
        return dropout(x, self.p, self.training, self.generator)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"p={self.p}"


# %% three-dropouts
kinds = {"yours  ": MyDropout, "package": Dropout, "PyTorch": nn.Dropout}
for name, kind in kinds.items():
    torch.manual_seed(0)
    ones = torch.ones(100_000, requires_grad=True)
    out = kind(0.25)(ones)
    out.sum().backward()
    print(f"{name}  dropped {(out == 0).float().mean():.1%}  output", end=" ")
    print(out.detach().unique(), " gradient", ones.grad.unique())

# %% [markdown]
# The shares differ a little, because PyTorch draws its coins in another way.
#
# ## 3 · What goes wrong without it?
#
# [442 patients with
# diabetes](https://scikit-learn.org/stable/datasets/toy_dataset.html#diabetes-dataset) have
# ten measurements each, such as age and blood pressure, and a number that says how far the
# disease had advanced a year later. That number we want to predict. We train on 221 of the
# patients and test on the other 221.
#
# Our network is wide for so few: two hidden layers of 256 units. `gate` stands where dropout
# will come. For now it is `nn.Identity`, which does nothing.


# %%
def network(gate):
    return nn.Sequential(
        *(nn.Linear(10, 256), nn.ReLU(), gate()),
        *(nn.Linear(256, 256), nn.ReLU(), gate()),
        nn.Linear(256, 1),
    ).to(device)


@torch.no_grad()
def error(net, x, y):
    net.eval()
    loss = F.mse_loss(net(x), y).item()
    net.train()
    return loss


# %% [markdown]
# `error` measures in evaluation mode, and goes back to training mode. The outcomes are scaled
# such that predicting the mean for everyone gives an error of about 1. Here is the training,
#  600 steps of Adam.


# %%
STEPS = range(0, 601, 20)


def trained(net, seed):
    """Train a network; return its errors on its own patients and on new ones."""
    x, y, new_x, new_y = patients(seed)
    adam = torch.optim.Adam(net.parameters(), lr=0.001, fused=True)
    batches = minibatches(x, y, seed=seed)
    curve = []
    for step in range(601):
        if step in STEPS:
            curve.append([error(net, x, y), error(net, new_x, new_y)])
        batch_x, batch_y = next(batches)
        loss = F.mse_loss(net(batch_x), batch_y)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return curve


# %%
def three(gate):
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        found.append(trained(network(gate), seed))
    return found


# %% by-heart tags=["slow", "trained"]
with predict(
    "Without dropout, from step 100 to 600: what does the error on new patients do?",
    ["it falls on", "it stays about the same", "it rises"],
):
    curves = {"no dropout": three(nn.Identity)}
    show(plot_errors("It learns its own patients by heart", "no dropout"))

# %% [markdown]
# Each line is one of three seeds, each with a split of its own. On its own patients the
# network ends with an error of nearly 0: it has learned 221 outcomes by heart, with all that
# was accident in them. On new patients it is best within the first 100 steps. Then it gets
# worse and ends not far from whoever predicts the mean for everyone. That is **overfitting**.
#
# ## 4 · Does it help?
#
# Now your dropout stands at both places, with p = 0.5, the rate of the main paper. Nothing
# else changes: the same splits, the same initial weights, the same batches.

# %% with-dropout tags=["slow", "trained"]
curves["dropout"] = three(lambda: MyDropout(0.5))
show(plot_errors("The error rises far less", "no dropout", "dropout"))

# %% [markdown]
# It fits its training patients less well and predicts the new ones better, in all three seeds.
#
# Why? One might think that 0.5 simply makes the network half as wide, and a narrow network
# learns less by heart. So here is a control. It throws the same coins, but only once, at its
# first call, and keeps them for the whole training and in evaluation. Half of the units are
# gone for good.


# %%
class ThrownOnce(nn.Module):
    coins = None

    def forward(self, x):
        if self.coins is None:
            self.coins = my_dropout(torch.ones_like(x[0]), 0.5, training=True).detach()
        return x * self.coins


# %% thrown-once tags=["slow", "trained"]
with predict(
    "Coins that are thrown once and kept: how well does it predict new patients?",
    ["as with dropout", "half-way between", "as without dropout"],
):
    curves["thrown once"] = three(ThrownOnce)
    names = "no dropout", "dropout", "thrown once"
    show(plot_errors("Coins that never change do not help", *names))

# %% [markdown]
# So half as many units are not enough: the coins have to change. (Far fewer units, 16 in place of
# 256, are another remedy, and did as well here.)
#
# Two caveats. In its first hundred steps the network without dropout
# was as good as the one with dropout is at the end, or better. To stop there, where the error
# on some patients that were kept back is smallest, is called **early stopping**. And where
# there is little to overfit, dropout gains little: on 300 of the digits of lesson 00 a point
# at most, as the [investigation](investigations/03_which_property.ipynb) shows.
#
# **In practice.** The rate is about 0.5 or less after the hidden layers of such a network and
# 0 to 0.1 in Transformers, and it is chosen on data that were kept back. Dropout stands
# after the activation of a hidden layer or at the end of a residual branch, and not after the
# last layer, whose output is the prediction. `net.eval()` comes before every test, and
# `net.train()` after it.
#
# ## 5 · What does it do to the gradient?
#
# Step 3 left something over: the average stays, but the squares grow. A number becomes x/(1 −
# p) with probability 1 − p, so on average its square is
#
# $$(1 - p) \cdot \Bigl(\frac{x}{1 - p}\Bigr)^2 = \frac{x^2}{1 - p}$$
#
# For p = 0.25 that is 4/3 of x², as we saw. For p = 0.5 it is 2 x², and the size of x (the
# root of the mean square, rms) is multiplied by √2. Now stack twelve layers, each a linear
# layer, a ReLU and dropout of 0.5. The weights are drawn such that without dropout x keeps
# its size (`nn.init.kaiming_normal_`).


# %%
def deep(p):
    torch.manual_seed(0)
    layers = [nn.Linear(256, 256, bias=False) for _ in range(12)]
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight)
    blocks = [nn.Sequential(layer, nn.ReLU(), MyDropout(p)) for layer in layers]
    first, last = nn.Linear(10, 256), nn.Linear(256, 1)
    return nn.Sequential(first, *blocks, last).to(device)


def rms(x):
    return x.square().mean().sqrt().item()


new_x, new_y = patients(0)[2:]


# %% twelve-layers
with predict(
    "Twelve layers with p = 0.5, in training: how many times larger is x at their end?",
    ["as large as without", "about 8 times", "about 64 times", "about 4,000 times"],
):
    without, with_dropout = (rms(deep(p)[:-1](new_x)) for p in (0, 0.5))
    print(f"without {without:.2f}, with dropout {with_dropout:.1f}")

# %% [markdown]
# The gradient meets the same coins and the same factors on its way back.

# %% along-depth
nets = {f"p = {p}": (net := deep(p), net[1:-1]) for p in (0, 0.5)}
show(along_depth(nets, (new_x, new_y), F.mse_loss))

# %% [markdown]
# The upper panel shows what differs between the patients. With dropout it grows by about √2 in each
# layer, since the noise of the coins is a part of it. In the middle panel, from right to left, so
# does the gradient. A weight gradient is made of x times the gradient, one growing forwards
# and the other backwards, so it is larger by √2¹² = 64 in every layer. The rest of the factor of about a
# thousand is there at the last layer already, where the gradient begins larger.
#
# In evaluation nothing is dropped and nothing grows, so the deeper such a stack is, the more
# training and evaluation differ.
#
# ## 6 · One coin for a whole branch
#
# Our coins need not be thrown for single numbers. A residual block computes x + f(x), and if
# its branch f(x) is dropped as a whole, the block just returns x. So we throw one coin for
# each **sample**, that is for each row of a batch, and each sample passes through another,
# shallower network. [Huang and others](https://arxiv.org/abs/1603.09382) dropped
# branches for a whole batch and called it **stochastic depth**; libraries do it for each
# sample, as `DropPath`.
#
# ### Exercise 2 · DropPath (4 minutes)
#
# Write it for a branch of any shape (batch, ...). `u` holds one draw for each sample, and a
# sample stays where `u >= p`.
#
# <details><summary>Hint 1</summary>The comparison <code>u &gt;= p</code> has the shape
# (batch,). Against which axis of a branch of shape (batch, channels) would it be
# multiplied?</details>
# <details><summary>Hint 2</summary>It needs as many axes as the branch, all but the first of
# length 1. <code>view(-1, 1, 1)</code> does it for three axes, and <code>branch.ndim</code>
# says how many there are.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "drop_path", "locked": false, "schema_version": 3, "solution": true, "task": false}
def my_drop_path(branch, u, p):
    """Keep the samples with u >= p, divided by 1 - p; set the others to 0."""
    ### BEGIN SOLUTION
    stays = (u >= p).view(-1, *[1] * (branch.ndim - 1))
    return branch * stays / (1 - p)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "drop_path-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(my_drop_path, "drop_path")

# %% [markdown]
# Three samples of two numbers, whose branch returns ones. The draw of the second lies below p
# = 0.25.

# %% three-samples
stream = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
u = torch.tensor([0.7, 0.1, 0.4])
print(stream + my_drop_path(torch.ones(3, 2), u, p=0.25))

# %% [markdown]
# The 3 and the 4 of the second sample come through unchanged, and to the others 1/0.75 = 1.33
# was added. The package's `drop_path` and `DropPath` (folded) differ from `dropout` in one
# line, the shape of the mask.


# %% jupyter={"source_hidden": true} tags=["promote:parts/drop_path"]
def drop_path(
    x: Float[Tensor, "batch *rest"],
    drop_prob: float = 0.0,
    training: bool = True,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch *rest"]:
    """Drop samples of ``x``, at a rate in [0, 1); in evaluation return ``x`` itself."""
    check_rate("drop_prob", drop_prob)
    if not training or drop_prob == 0:
        return x
    one_per_sample = (x.shape[0], *[1] * (x.ndim - 1))
    mask = bernoulli_mask(one_per_sample, drop_prob, x, generator)
    return x * mask / (1 - drop_prob)


class DropPath(nn.Module):
    """``drop_path`` in training, the identity in evaluation."""

    def __init__(
        self, drop_prob: float = 0.0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        check_rate("drop_prob", drop_prob)
        self.drop_prob, self.generator = drop_prob, generator

    def forward(self, x: Float[Tensor, "batch *rest"]) -> Float[Tensor, "batch *rest"]:
        """Drop samples of ``x``, others at each call; shape and dtype are kept."""
        return drop_path(x, self.drop_prob, self.training, self.generator)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"drop_prob={self.drop_prob}"


# %% [markdown]
# Vision transformers use it, often with a rate that rises from 0 in the first block to 0.1 or
# more in the last (`drop_path_schedule` in the package).
#
# ## 7 · Where do people go wrong?
#
# ### Exercise 3 · Mend a network (8 minutes)
#
# A colleague uses PyTorch's function `F.dropout` in place of the module. Her network has
# dropout at the same two places and the same rate as yours. When she tests it on new patients
# several times, each test gives another error.


# %% handed tags=["trained"]
class HandedNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(10, 256), nn.Linear(256, 256)
        self.last = nn.Linear(256, 1)

    def forward(self, x):
        h = F.dropout(torch.relu(self.first(x)), p=0.5)
        h = F.dropout(torch.relu(self.second(h)), p=0.5)
        return self.last(h)


def tested(net):
    trained(net, seed=0)
    return [round(error(net, new_x, new_y), 2) for _ in range(5)]


torch.manual_seed(0)
handed = HandedNet().to(device)
print("five tests:", tested(handed))

# %% [markdown]
# **Measure first.** In evaluation mode a network should return the same for the same input,
# however often it is called. Write `is_calm`: it sets `net` to evaluation mode, calls it
# twice, and returns whether both outputs are equal. A measurement should leave no trace, so
# give the network back in the mode in which it came.
#
# <details><summary>Hint</summary><code>net.training</code> tells the mode, and
# <code>net.train(mode)</code> sets it. <code>torch.equal(a, b)</code> compares two
# tensors.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "is-calm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def is_calm(net, x):
    """Return whether two calls in evaluation mode agree; leave the mode as it was."""
    ### BEGIN SOLUTION
    mode = net.training
    net.eval()
    calm = torch.equal(net(x), net(x))
    net.train(mode)
    return calm
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "is-calm-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(is_calm, "is_calm")

# %% measured
print("calm?", is_calm(handed, new_x))

# %% [markdown]
# Then mend `forward`. Dropout should act in training, as it does now, and not in evaluation.
#
# <details><summary>Hint</summary><code>F.dropout</code> has a third argument,
# <code>training</code>, which is True unless you say otherwise. Where does a module keep its
# mode?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-dropout", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MendedNet(HandedNet):
    def forward(self, x):
        ### BEGIN SOLUTION
        h = F.dropout(torch.relu(self.first(x)), 0.5, self.training)
        h = F.dropout(torch.relu(self.second(h)), 0.5, self.training)
        return self.last(h)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-dropout-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(MendedNet, "mended_dropout")

# %% mended tags=["trained"]
torch.manual_seed(0)
mended = MendedNet().to(device)
print("five tests:", tested(mended))

# %% [markdown]
# A function has no mode: unless it is told otherwise, `F.dropout` drops in evaluation too.
# [Users of PyTorch](https://github.com/pytorch/pytorch/issues/26338) were surprised by it, and a
# [published model](https://github.com/Coderx7/SimpleNet/issues/2) left its dropout on, too. An
# `nn.Dropout` that is made in `__init__` follows `eval()` by itself. Relatives:
#
# - No `net.eval()` before a test. Then every kind of dropout acts in it.
# - `net.eval()` before the first test, and no `net.train()` after it. From then on the
#   network trains without dropout.
# - No factor, in a dropout of one's own. What does that cost? (`three` trains as in section
#   4.)


# %% no-factor tags=["slow", "trained"]
class NoFactor(MyDropout):
    def forward(self, x):
        return super().forward(x) * (1 - self.p) if self.training else x


curves["no factor"] = three(lambda: NoFactor(0.5))
print("error on new patients:", *[f"{seed[-1][1]:.1f}" for seed in curves["no factor"]])

# %% [markdown]
# Six and more, where the mean for everyone has an error of 1! In training each sum had half
# of its numbers. In evaluation it has all of them, and that in two layers in a row: the output is
# about four times too large.
#
# ## 8 · What do I keep?
#
# $$y = \frac{x \cdot m}{1 - p}, \qquad m = 1 \text{ with probability } 1 - p, \text{ else } 0$$
#
# ```python
# def dropout(x, p, training):
#     if not training:
#         return x
#     stays = torch.rand_like(x) >= p
#     return x * stays / (1 - p)
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>Why is what stays divided by 1 − p?</summary>Each number stays with
# probability 1 − p. With the factor its average over all coins is x, so the next layer
# receives sums of the same average in training and in evaluation.</details>
#
# <details><summary>Is dropout the same as half as many units?</summary>No. With coins that are
# thrown once the network has half as many, and it overfits as without dropout.</details>
#
# <details><summary>A network predicts something else at each call. What do you look
# for?</summary>A missing <code>net.eval()</code>, or an <code>F.dropout</code> without
# <code>training=self.training</code>.</details>
#
# **Next.** [Lesson 04](04_pre_norm_and_post_norm.ipynb) asks where in a residual block the
# norm should stand. Must it be coins, or would any noise do? That is the question of the
# [investigation](investigations/03_which_property.ipynb). [Homework](homework/hw_02_03.ipynb)
# is on lessons 02 and 03; the [glossary](../docs/glossary.md) has all words.

# %%
summary("03")
