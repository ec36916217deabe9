# %% [markdown]
# # 03 · Dropout and stochastic depth
#
# 70 minutes. Nothing is downloaded. It is about one value of the gate g of [lesson 00](00_residual_connection.ipynb): a
# coin. Its blocks begin with the LayerNorm of [lesson 02](02_layer_norm.ipynb), and it draws the stream as
# [lesson 01](01_gradient_flow.ipynb) does.
#
# By the end you can
#
# - **write** dropout by hand, and say why evaluation needs no correction;
# - **predict** mean and variance of a dropped-out number;
# - **turn** a coin for each number into a coin for each sample, and count the branches that stay;
# - **place** the coins where they help, and show what happens where they do not.

# %% [markdown]
# ## Before we start: three questions on earlier lessons
#
# Answer aloud, then open.
#
# <details><summary>1. In x + g·f(norm(x)), which letter is a dropped branch?</summary>g = 0. The stream x is not
# touched (lesson 00).</details>
#
# <details><summary>2. In a picture of the stream, what does a tributary show, and what does hatching?</summary>What one
# block adds; and a bed that swells more than ten times, which is cut off (lesson 01).</details>
#
# <details><summary>3. LayerNorm in evaluation: which statistics does it use?</summary>The same as in training, those of
# the token before it. It has no second mode (lesson 02). Dropout has.</details>

# %%
import torch
from matplotlib.figure import Figure
from torch import nn

from residual_edu import LayerNorm, pre_norm_residual
from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.explorers.dropout import explore_coins
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.parts.dropout import bernoulli_mask
from residual_edu.plotting.dropout import plot_coins, plot_depths_left
from residual_edu.plotting.dropout import plot_moments, plot_scores
from residual_edu.plotting.stream import plot_stream
from residual_edu.training import accuracy, minibatches, train

device = setup()
progress("03")

# %% [markdown]
# ## Four numbers, four coins
#
# A branch says 1, 2, 3, 4. A coin is thrown for each number: with probability p, the **rate**, the number is dropped,
# that is, set to 0. Say p is 1/4, and the second coin fell badly. **What should become of the three that stay?** Think
# of the sum that the next layer will see, on average over many throws.

# %% tags=["predict"]
guess = predict("The 3 stays, at p = 1/4. What should it be afterwards?", ["3", "2.25", "4"])

# %% tags=["reveal"]
# Answer first, then run this cell.
branch = torch.tensor([1.0, 2.0, 3.0, 4.0])
keep = torch.tensor([1.0, 0.0, 1.0, 1.0])
p = 0.25
print(branch * keep / (1 - p))
guess.reveal("4")

# %% [markdown]
# 4 is 3 / (3/4). A number that is seen three times out of four, and then as 4/3 of itself, is itself on average. This
# is **inverted** dropout: the correction is made in training, where the coins are. Let us see whether the average
# holds, over 100,000 throws for each rate, for a number that is 1.

# %%
generator = torch.Generator().manual_seed(0)
rates = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
coins = [torch.rand(100_000, generator=generator) >= p for p in rates]
draws = torch.stack([kept / (1 - p) for kept, p in zip(coins, rates, strict=True)])
means, variances = draws.mean(1), draws.var(1)

fig = Figure(figsize=(6, 3.6))
ax = plot_moments(rates, means.tolist(), variances.tolist(), fig.add_subplot())
ax.set_title("The mean stays 1; the variance grows to 4")
show(
    fig,
    alt="Mean and variance of a dropped-out 1 against the rate p, over 100,000 draws each. The "
    "mean stays at 1; the variance follows p over 1 minus p, up to 4 at p = 0.8.",
)

# %% [markdown]
# **Law.** Dropout keeps the mean of every number and gives it the variance x² · p / (1 - p).

# %% [markdown]
# Two lines of algebra say why: the number is x / (1 - p) with chance 1 - p, so its mean is x and its mean square
# x² / (1 - p). Subtract x² and there it is. Now with a 2, over three seeds:

# %%
for seed in range(3):
    coins = torch.rand(100_000, generator=torch.Generator().manual_seed(seed)) >= 0.3
    dropped = 2.0 * coins / 0.7
    assert abs(dropped.mean() - 2.0) < 4 * (4 * 0.3 / 0.7 / 100_000) ** 0.5  # 4 standard errors
    assert abs(dropped.var() - 4 * 0.3 / 0.7) < 0.02
print("2 stays 2 on average, with variance 4 · 0.3 / 0.7 = 1.714")

# %% [markdown]
# ## The finished piece
#
# A function for the formula, a module for the rate and the mode: in training it throws coins, and `model.eval()`
# switches it off. A **generator** can be handed in; whoever wants the same coins again seeds it again, and no other
# random number in the program moves.


# %% tags=["promote:parts/dropout"]
from torch import nn

from residual_edu.parts.dropout import bernoulli_mask


def dropout(x, p=0.5, training=True, generator=None):
    # x: any shape
    if not training or p == 0:
        return x
    return x * bernoulli_mask(x.shape, p, x.device, generator) / (1 - p)


class Dropout(nn.Module):
    """``dropout`` in training, the identity in evaluation."""

    def __init__(self, p=0.5, generator=None):
        super().__init__()
        self.p, self.generator = p, generator

    def forward(self, x):
        # x: any shape
        return dropout(x, self.p, self.training, self.generator)


# %% [markdown]
# The coins themselves, `bernoulli_mask`, are one line of the same module: `torch.rand(...) >= rate`.
#
# A model left in training mode by mistake is dropout's classic trap: nothing fails, the answers are just worse. There
# is a simple test: ask twice. **A gate of rate 0.3, left in training, gets the same ones twice. How many of the numbers
# that leave it are the same both times?**

# %% tags=["predict"]
guess = predict("Two calls at rate 0.3: the share that agrees", ["all", "0.7", "0.58", "0.49"])

# %% tags=["reveal"]
# Answer first, then run this cell.
gate, ones = Dropout(0.3), torch.ones(100, 1000, device=device)
for seed in range(3):
    gate.generator = torch.Generator().manual_seed(seed)
    assert abs((gate(ones) == gate(ones)).float().mean() - (0.7 * 0.7 + 0.3 * 0.3)) < 0.01
again = [Dropout(0.3, torch.Generator().manual_seed(5))(ones) for _ in range(2)]
assert again[0].equal(again[1])  # the same generator, the same coins
assert gate.eval()(ones) is ones and Dropout(0.0)(ones) is ones  # no coin, no copy
assert nn.Dropout(0.3).eval()(ones).equal(ones)  # and so says torch's own
guess.reveal("0.58")

# %% [markdown]
# Kept twice, 0.49, or dropped twice, 0.09. In evaluation everything agrees, for the very same tensor comes back: the
# division in training has already set the average right. Older texts multiply by 1 - p in evaluation instead; who does
# both shrinks twice.

# %% [markdown]
# ## One coin for a whole sample
#
# A residual block can go without its branch: x gets through. So why not throw one coin for the whole branch? Each
# *sample* of a batch has its own coin. That is **stochastic depth**, and its gate is called DropPath.
#
# Could dropout do the same by chance? It throws a coin for each number, or **unit**. **How often does a sample of six
# units lose all six, at p = 0.3?** For DropPath it is three times in ten.

# %% tags=["predict"]
guess = predict("Six coins of rate 0.3, all badly", ["3 in 10", "1 in 20", "1 in 1,400"])

# %% tags=["reveal"]
# Answer first, then run this cell.
units = bernoulli_mask((8, 6), 0.3, "cpu", torch.Generator().manual_seed(2))
samples = bernoulli_mask((8, 1), 0.3, "cpu", torch.Generator().manual_seed(7)).expand(8, 6)
fields = {"a coin for each unit": units, "a coin for each sample": samples}
fig = Figure(figsize=(6, 3.3))
for ax, (name, coins) in zip(fig.subplots(1, 2), fields.items(), strict=True):
    plot_coins(coins.tolist(), ax).set_title(name, weight="normal")
finding = "A coin for each sample takes whole rows (grey: dropped)"
fig.suptitle(finding, x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Two fields of eight samples by six features. With a coin for each unit single squares "
    "are grey, scattered; with a coin for each sample whole rows are grey.",
)
for seed in range(3):
    coins = bernoulli_mask((1_000_000, 6), 0.3, "cpu", torch.Generator().manual_seed(seed))
    assert abs((coins == 0).all(1).sum() - 0.3**6 * 1_000_000) < 110  # 4 standard deviations
guess.reveal("1 in 1,400")

# %% [markdown]
# 0.3 to the sixth is 0.0007. So dropout thins every sample a little, and DropPath takes the branch from some samples
# altogether. In shapes: the coins of a branch `(batch, tokens, channels)` are `(batch, 1, 1)`, and broadcasting does
# the rest.


# %% tags=["promote:parts/drop_path"]
from torch import nn

from residual_edu.parts.dropout import bernoulli_mask


def drop_path(x, drop_prob=0.0, training=True, generator=None):
    # x: batch, ...
    if not training or drop_prob == 0:
        return x
    one_per_sample = (x.shape[0], *[1] * (x.ndim - 1))
    return (
        x
        * bernoulli_mask(one_per_sample, drop_prob, x.device, generator)
        / (1 - drop_prob)
    )


class DropPath(nn.Module):
    def __init__(self, drop_prob=0.0, generator=None):
        super().__init__()
        self.drop_prob, self.generator = drop_prob, generator

    def forward(self, x):
        # x: batch, ...
        return drop_path(x, self.drop_prob, self.training, self.generator)


# %%
x = torch.randn(1000, 3, 4).to(device)
for seed in range(3):
    out = DropPath(0.3, torch.Generator().manual_seed(seed))(x)
    gone = (out == 0).all(-1).all(-1)
    assert out[~gone].allclose(x[~gone] / 0.7)  # a sample stays whole and grows, or goes whole
    assert 0.24 < gone.float().mean() < 0.36

# %% [markdown]
# For each single number, mean and variance are dropout's. The difference is who shares a coin: with DropPath a sample
# meets a whole branch or none of it, and so, in a stack of blocks, a network of its own depth.

# %% [markdown]
# ### Exercise 1 · 6 minutes · ●●○○○
#
# Write DropPath's formula. `u` holds one number for each sample, drawn evenly from [0, 1); the sample stays where
# `u >= p`. The branch may have any number of axes. Two lines are enough.
#
# <details><summary>Hint 1</summary>Compare u with p first: one yes or no for each sample. Which shape lets it meet a branch of three axes?</details>
# <details><summary>Hint 2</summary><code>u >= p</code> needs as many axes as the branch, each of length 1 but the first. By what is the rest divided?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "drop_path", "locked": false, "schema_version": 3, "solution": true, "task": false}
def my_drop_path(branch, u, p):
    """Keep the samples with u >= p, divided by 1 - p; set the others to 0."""
    ### BEGIN SOLUTION
    keep = (u >= p).view(-1, *[1] * (branch.ndim - 1))
    return branch * keep / (1 - p)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "drop_path-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(my_drop_path, "drop_path")

# %% [markdown]
# ## How deep is the network today?
#
# The paper behind DropPath argues that early blocks matter most, since all others build on them. So the rate climbs
# with depth: here from 0 at the first block, in even steps, to the given rate at the last. **Twelve blocks, up to 0.5:
# how many branches are at work on average?**

# %% tags=["predict"]
guess = predict("On average, of 12 branches there stay", ["6", "9", "11"])


# %% tags=["promote:parts/drop_path"]
def drop_path_schedule(depth, max_rate):
    return [max_rate * (i / max(depth - 1, 1)) for i in range(depth)]


# %% [markdown]
# The first block is never dropped, the last every other time.

# %% tags=["reveal"]
# Answer first, then run this cell.
rates = drop_path_schedule(12, 0.5)
print([round(rate, 2) for rate in rates])
guess.reveal(f"{12 - sum(rates):g}")

# %% [markdown]
# The average rate is 1/4, so nine of twelve. But how does the number spread? It is sometimes told that each depth from
# 1 to 12 is equally likely. **What do you think?**

# %% tags=["predict"]
guess = predict(
    "Of 12 branches, with rates up to 0.5: how likely is it that at most 4 stay?",
    ["1/3", "about 1/10", "less than 1/100"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
exact = torch.ones(1, dtype=torch.float64)
for rate in rates:  # one more branch: it goes, or it stays and moves every count up by one
    goes, stays = rate * exact, (1 - rate) * exact
    exact = nn.functional.pad(goes, (0, 1)) + nn.functional.pad(stays, (1, 0))
generator = torch.Generator().manual_seed(0)
coins = torch.rand(100_000, 12, generator=generator) >= torch.tensor(rates)
seen = coins.sum(1).bincount(minlength=13) / 100_000
fig = Figure(figsize=(6, 3.6))
ax = plot_depths_left(exact.tolist(), seen.tolist(), fig.add_subplot())
ax.set_title("6 to 12 of 12 branches stay: far from uniform")
show(
    fig,
    alt="Probability that 0 to 12 branches stay, exact bars under measured dots: a hill with "
    "its top at 9, next to nothing below 5. A dashed line shows the uniform distribution, "
    "which it does not resemble.",
)
guess.reveal("less than 1/100")
assert exact[:5].sum() < 0.01 and exact[6:].sum() > 0.98
assert abs((exact * torch.arange(13)).sum() - 9) < 1e-9

# %% [markdown]
# **Law.** The number of branches that stay is a sum of coins that differ, which is called Poisson-binomial: mean
# n - Σp, variance Σp(1 - p). Here 9, give or take 1.4. A sum of many such coins is a hill, not a plain.

# %%
for seed in range(3):
    generator = torch.Generator().manual_seed(seed)
    coins = torch.rand(100_000, 12, generator=generator) >= torch.tensor(rates)
    left = coins.sum(1).double()
    assert abs(left.mean() - 9) < 0.02
    assert abs(left.var() - sum(r * (1 - r) for r in rates)) < 0.05
print(f"standard deviation {sum(r * (1 - r) for r in rates) ** 0.5:.2f}")

# %% [markdown]
# ### Exercise 2 · 8 minutes · ●●●○○
#
# The loop above the figure went by fast. Write it yourself: `depths_left(rates)` returns the chance that 0, 1, ..., n
# branches stay, as a tensor of n + 1 numbers.
#
# <details><summary>Hint 1</summary>Begin with no branch: 0 stay, for certain. What does one more branch do to each chance?</details>
# <details><summary>Hint 2</summary>A branch of rate r leaves <code>r * chances</code> at the same counts and adds <code>(1 - r) * chances</code> one count higher.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "depths_left", "locked": false, "schema_version": 3, "solution": true, "task": false}
def depths_left(rates):
    """Return the chance that 0, 1, ..., n branches stay."""
    ### BEGIN SOLUTION
    chances = torch.ones(1, dtype=torch.float64)
    for rate in rates:
        grown = torch.zeros(len(chances) + 1, dtype=torch.float64)
        grown[:-1] += rate * chances
        grown[1:] += (1 - rate) * chances
        chances = grown
    return chances
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "depths_left-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(depths_left, "depths_left")

# %% [markdown]
# ## Where the coins fall
#
# A coin can fall in two places: on the branch, `x + g·f(norm(x))`, or on the stream, `g·(x + f(norm(x)))`. On paper
# they look alike. Take coins on the stream, 24 blocks at p = 0.3, and follow one number. **How likely is it that no
# coin has hit it by the end?**

# %% tags=["predict"]
guess = predict("24 gates at p = 0.3: no coin has hit it", ["1/3", "1/100", "1/5,000"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for seed in range(3):
    generator = torch.Generator().manual_seed(seed)
    untouched = torch.ones(1_000_000)
    for _ in range(24):
        untouched *= bernoulli_mask((1_000_000,), 0.3, "cpu", generator)
    assert 130 < untouched.sum() < 250
print("of a million numbers, fewer than 250 are left")
guess.reveal("1/5,000")

# %% [markdown]
# ### Exercise 3 · 3 minutes · ●○○○○
#
# Write that chance down, for any rate and depth: `survival(p, depth)`, for one number of the stream.
#
# <details><summary>Hint 1</summary>What is left after one gate? And of that, after the next?</details>
# <details><summary>Hint 2</summary>One factor of (1 - p) for each gate.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "survival", "locked": false, "schema_version": 3, "solution": true, "task": false}
def survival(p, depth):
    """Return the chance that a number passes `depth` gates of rate p."""
    ### BEGIN SOLUTION
    return (1 - p) ** depth
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "survival-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(survival, "survival")

# %% [markdown]
# On the branch, a coin takes one contribution of many. On the stream it takes everything that came before, and what
# survives is divided by 0.7 each time: the mean is kept. Is the mean square? **What is it after six gates, if every
# number began as 1?**

# %% tags=["predict"]
guess = predict("The mean square behind six gates at 0.3", ["1", "1.4", "8.5"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for seed in range(3):
    generator = torch.Generator().manual_seed(seed)
    stream = torch.ones(1_000_000)
    for _ in range(6):
        stream = Dropout(0.3, generator)(stream)
    assert abs(stream.square().mean() * 0.7**6 - 1) < 0.02
guess.reveal("8.5")

# %% [markdown]
# **Law.** Coins on the stream multiply its mean square by 1 / (1 - p) at every gate: 8.5-fold after 6, 5,200-fold after
# 24. A few numbers carry everything.

# %% [markdown]
# ## Twenty-four blocks of digits
#
# Now for real: 24 pre-norm blocks of width 64 on scikit-learn's digits, 120 steps of Adam. The gate is dropout; the
# `if` in `forward` decides whether its coins fall on the branch or on the stream.


# %%
class Block(nn.Module):
    def __init__(self, gate, on, width=64):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.norm, self.gate, self.on = LayerNorm(width), gate, on

    def forward(self, x):
        if self.on == "branch":
            return pre_norm_residual(x, self.layer, self.norm, [self.gate])
        return self.gate(pre_norm_residual(x, self.layer, self.norm))


def stack(p, on, seed, depth=24):
    torch.manual_seed(seed)
    gate = Dropout(p, torch.Generator().manual_seed(seed))
    blocks = [Block(gate, on) for _ in range(depth)]
    return nn.Sequential(*blocks, LayerNorm(64), nn.Linear(64, 10)).to(device)


# %%
data = digits()
images, labels = data.train_images.flatten(1).to(device), data.train_labels.to(device)
test_images, test_labels = data.test_images.flatten(1).to(device), data.test_labels.to(device)


def score(on, p, seed, depth=24):
    model = stack(p, on, seed, depth)
    adam = torch.optim.Adam(model.parameters(), 1e-3, fused=True)  # fused saves a third of the time
    batches = minibatches(images, labels, seed=seed)
    train(lambda x, y: nn.functional.cross_entropy(model(x), y), batches, adam, 120)
    return accuracy(model, test_images, test_labels)


# %% [markdown]
# Twelve networks follow, about fifteen seconds of work. **What will coins on the stream leave of the accuracy?** There
# are ten digits, so that guessing scores 0.1.

# %% tags=["predict"]
guess = predict("At p = 0.3 on the stream, the test accuracy is about", ["0.9", "0.5", "0.1"])

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
scores = {"on the branch": [], "on the stream": []}
for name, rows in scores.items():
    for p in (0.1, 0.3):
        rows.append([score(name.removeprefix("on the "), p, seed) for seed in range(3)])
fig = Figure(figsize=(6, 3.6))
ax = plot_scores(scores, [0.1, 0.3], fig.add_subplot())
ax.set_title("Rate 0.3: harmless on the branch, not the stream")
show(
    fig,
    alt="Test accuracy of 24 blocks on digits, three seeds each. On the branch above 0.9 at "
    "both rates; on the stream still above 0.9 at p = 0.1 but at chance, 0.1, at p = 0.3.",
)
guess.reveal("0.1")
for name, rows in scores.items():
    ranges = (f"p = {p}: {min(r):.2f} to {max(r):.2f}" for p, r in zip((0.1, 0.3), rows, strict=True))
    print(f"{name}, three seeds:", "; ".join(ranges))
holds(min(min(row) for row in scores["on the branch"]) > 0.93, "With coins on the branch the accuracy is above 0.93.")
holds(max(scores["on the stream"][1]) < 0.3, "With coins on the stream at p = 0.3 it is near chance.")
holds(min(scores["on the stream"][0]) > 0.85, "With coins on the stream at p = 0.1 it is above 0.85.")

# %% [markdown]
# **Law.** Coins belong on the branch. There they are a gate like any other: g is 0 or 1 / (1 - p), and the stream is
# never cut.
#
# Be fair to the loser: at p = 0.1 it still learns. There 0.9^24 leaves 8 numbers in 100 untouched, at p = 0.3 it is 2
# in 10,000. If that is the reason, p = 0.3 should do no harm in a stack of six blocks, where 0.7^6 leaves 12 in 100.
# **Does it learn?**

# %% tags=["predict"]
guess = predict("Six blocks, p = 0.3 on the stream: test accuracy", ["about 0.1", "above 0.9"])

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
shallow = [score("stream", 0.3, seed, depth=6) for seed in range(3)]
print("test accuracy of three seeds:", *(f"{accuracy:.2f}" for accuracy in shallow))
holds(min(shallow) > 0.9, "In six blocks coins on the stream at p = 0.3 leave an accuracy above 0.9.")
guess.reveal("above 0.9")

# %% [markdown]
# The same rate, the same place: it is depth that makes the difference. Which is why a coin on the stream can go
# unnoticed in a shallow model, until somebody stacks more of it.

# %% [markdown]
# ## The same, as a river
#
# Both stacks are new, p = 0.3, 24 blocks, one batch of digits, with the coins thrown. **In which of the two will the
# bed flood?**

# %%
fig = Figure(figsize=(6, 6.4))
for ax, on in zip(fig.subplots(2, 1), ("branch", "stream"), strict=True):
    model = stack(0.3, on, seed=0)
    with GradientFlowRecorder(model, model[:24]) as flow:
        said = model(images[:64].clone().requires_grad_())
        nn.functional.cross_entropy(said, labels[:64]).backward()
    plot_stream(flow, ax, norms="pre")
    finding = "a river with a steady bed" if on == "branch" else "every block shakes all of it"
    ax.set_title(f"Coins on the {on}: {finding}")
    swells = flow.activation[0, -1] / flow.activation[0, 0]
    assert swells < 5 if on == "branch" else swells > 10
show(
    fig,
    alt="Two rivers of 24 blocks. With coins on the branch the signal swells gently, to less "
    "than three times its size, and thin tributaries join it. With coins on the stream the "
    "tributaries widen with the bed, and from the twelfth block on the bed is cut off and "
    "hatched: it floods.",
)

# %% [markdown]
# On the branch a coin takes something from one tributary, and the bed hardly notices. On the stream it tears a hole
# into the bed itself; what a block "adds" there, its output minus its input, is mostly the damage.

# %% [markdown]
# ## Move it yourself
#
# How large is the noise of the coins beside the signal, block after block? The signal is the stream without coins; the
# noise is how far two runs with different coins lie apart (over √2, since both are noisy). The branches here are new
# ones, with weights as large as He's.
#
# **Find out:** at p = 0.3, behind how many blocks are coins on the stream as loud as the signal? Can coins on the
# branch get there, for units or for whole samples? And if you raise the rate? (What you tried stays as a grey curve.)

# %% tags=["explorer"]
explore_coins()

# %% [markdown]
# <details><summary>Answer</summary>On the stream it takes three blocks, and every further one makes it worse: 24 blocks
# are at 55 times the signal. On the branch 48 blocks at 0.3 come close and do not get there: each adds a little fresh
# noise to a stream that has grown. A coin for each sample is about as loud as a coin for each unit. From p = 0.35 on
# the branch's noise does pass the signal, near block 20, but it stays near it: at 0.6 and 48 blocks it is 1.5 times
# as large.</details>

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | dropout keeps the mean | 2 stays 2, over 100,000 draws | training; evaluation needs no correction |
# | its variance is x² p / (1 - p) | 1.714 for x = 2, p = 0.3 | independent coins |
# | evaluation returns the very same tensor | two calls agree; in training, 58 % do | any p; 58 % at p = 0.3 |
# | a sample of k units loses all of them: p^k by unit coins, p by its own | 1 in 1,400 against 3 in 10 | k = 6, p = 0.3 |
# | branches that stay: mean n - Σp, a hill | 9 ± 1.4 of 12, at most 4 in less than 1 of 100 | independent coins, any rates |
# | coins on the stream multiply its mean square by 1 / (1 - p) at each gate | 8.5 after 6 at p = 0.3 | what the blocks add comes on top |
# | coins on the branch: it learns | above 0.93 test accuracy at p = 0.1 and 0.3 | 24 blocks, digits, three seeds |
# | coins on the stream: depth decides | chance at p = 0.3; above 0.85 at p = 0.1, above 0.9 at six blocks | the same |
#
# Sources: dropout, Srivastava et al., 2014 (jmlr.org/papers/v15/srivastava14a.html); stochastic depth, Huang et al.,
# 2016 (arXiv 1603.09382). Dropout and DropPath are one gate with two coins. Lesson 04 takes the placement of the norm;
# lesson 05 learns the gate instead of tossing it.

# %%
summary("03")

# %% [markdown]
# ## Next
#
# - [Lesson 04](04_pre_norm_and_post_norm.ipynb) asks where the norm should stand.
# - [Homework for lessons 02 and 03](homework/hw_02_03.ipynb).
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
