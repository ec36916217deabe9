# %% [markdown]
# # 03, appendix · How many branches stay, and how large the noise is
#
# Not needed for [lesson 03](03_dropout_and_stochastic_depth.ipynb), and not counted in it.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn.functional import cross_entropy

from residual_edu import drop_path_schedule
from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, setup, show
from residual_edu.parts.dropout import bernoulli_mask
from residual_course.plots import dropout as plots

device = setup()

# %% [markdown]
# ## Mean and variance, drawn
#
# Law 1 says that dropout gives a number x the variance x² · p/(1 − p). A 1, dropped 100,000 times at each rate:

# %%
generator = torch.Generator().manual_seed(0)
rates = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
coins = [torch.rand(100_000, generator=generator) >= p for p in rates]
draws = torch.stack([kept / (1 - p) for kept, p in zip(coins, rates, strict=True)])
means, variances = draws.mean(1), draws.var(1)
fig = Figure(figsize=(6, 3.6))
ax = plots.plot_moments(rates, means.tolist(), variances.tolist(), fig.add_subplot())
ax.set_title("The mean stays 1; the variance grows to 4")
show(
    fig,
    alt="Mean and variance of a 1 after dropout against the rate p, over 100,000 "
    "draws each. The mean stays at 1; the variance follows p/(1 − p), up to 4 at p = "
    "0.8.",
)

# %% [markdown]
# ## A coin a unit, a coin a sample
#
# The masks of a batch of eight samples with six features, at p = 0.3.

# %%
units = bernoulli_mask((8, 6), 0.3, torch.empty(0), torch.Generator().manual_seed(2))
samples = bernoulli_mask((8, 1), 0.3, torch.empty(0), torch.Generator().manual_seed(7))
fields = {"a coin a unit": units, "a coin a sample": samples.expand(8, 6)}
fig = Figure(figsize=(6, 3.3))
for ax, (name, coins) in zip(fig.subplots(1, 2), fields.items(), strict=True):
    plots.plot_coins(coins.tolist(), ax).set_title(name, weight="normal")
fig.suptitle(
    "A coin a sample takes whole rows (grey)", x=0.01, ha="left", weight="bold"
)
show(
    fig,
    alt="Two fields of eight samples by six features. With a coin a unit single "
    "squares are grey, scattered; with a coin a sample whole rows are grey.",
)

# %% [markdown]
# ## How many branches stay?
#
# With the rates of `drop_path_schedule(12, 0.5)`, from 0 to 0.5 in even steps, a sample passes 12 − Σp = 9 branches on
# average. It is sometimes told that each depth from 1 to 12 is equally likely. The number that stays is a sum of
# coins that differ (a Poisson-binomial distribution), and that is a hill.

# %%
rates = drop_path_schedule(12, 0.5)
exact = torch.ones(1, dtype=torch.float64)
for rate in rates:  # a branch goes, or it stays and moves every count up by one
    goes, stays = rate * exact, (1 - rate) * exact
    exact = nn.functional.pad(goes, (0, 1)) + nn.functional.pad(stays, (1, 0))
generator = torch.Generator().manual_seed(0)
coins = torch.rand(100_000, 12, generator=generator) >= torch.tensor(rates)
seen = coins.sum(1).bincount(minlength=13) / 100_000
spread = sum(rate * (1 - rate) for rate in rates) ** 0.5
print(f"mean {12 - sum(rates):.1f}, standard deviation {spread:.2f}")
holds(
    exact[:5].sum() < 0.01,
    "At most 4 of 12 branches stay in less than 1 % of all cases.",
)

# %% tags=["figure"]
fig = Figure(figsize=(6, 3.6))
ax = plots.plot_depths_left(exact.tolist(), seen.tolist(), fig.add_subplot())
ax.set_title("6 to 12 of 12 branches stay: far from uniform")
show(
    fig,
    alt="Probability that 0 to 12 branches stay, exact bars under measured dots: a "
    "hill with its top at 9, next to nothing below 5. A dashed line shows the uniform "
    "distribution.",
)

# %% [markdown]
# ### Exercise · 8 minutes · ●●●○○
#
# Write that distribution: `depths_left(rates)` returns the probability that 0, 1, ..., n branches stay, as a tensor of
# n + 1 numbers. (The loop above does it with padding; do it without.)
#
# <details><summary>Hint 1</summary>Begin with no branch: 0 stay, for certain. What does one more branch do to each
# probability?</details>
# <details><summary>Hint 2</summary>A branch of rate r leaves <code>r * chances</code> at the same counts and adds
# <code>(1 - r) * chances</code> one count higher.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "depths_left", "locked": false, "schema_version": 3, "solution": true, "task": false}
def depths_left(rates):
    """Return the probability that 0, 1, ..., n branches stay."""
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
# ### Exercise · 3 minutes · ●○○○○
#
# With dropout on the stream after each block, what is the probability that one number of the stream is never dropped?
#
# <details><summary>Hint 1</summary>What is left after one gate? And of that, after the next?</details>
# <details><summary>Hint 2</summary>One factor of (1 - p) for each gate.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "survival", "locked": false, "schema_version": 3, "solution": true, "task": false}
def survival(p, depth):
    """Return the probability that a number passes `depth` gates of rate p."""
    ### BEGIN SOLUTION
    return (1 - p) ** depth
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "survival-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(survival, "survival")

# %% [markdown]
# ## The stream as a river
#
# Dropout of 0.3 on the outputs of 24 branches, and on the stream after each of 24 blocks. By Law 1 the second multiplies the rms of
# the stream by 72, and what the blocks add comes on top. The width of the river is the rms of the stream in a new
# network, each tributary is what one block adds. (As in lesson 01, a tick is a norm, and the green half below is the
# gradient, on its way back.)


# %%
class Block(nn.Module):
    def __init__(self, width, outputs=0.0, stream=0.0):
        super().__init__()
        first, second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        layers = nn.LayerNorm(width), first, nn.ReLU(), second, nn.Dropout(outputs)
        self.f, self.stream = nn.Sequential(*layers), nn.Dropout(stream)

    def forward(self, x):
        return self.stream(x + self.f(x))


# %% tags=["figure"]
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_course.plots.stream import plot_stream

images = digits().train_images.flatten(1)[:300].to(device)
labels = digits().train_labels[:300].to(device)
fig = Figure(figsize=(6, 6))
places = {"outputs": "outputs of the branches", "stream": "stream, after each block"}
for ax, (where, name) in zip(fig.subplots(2, 1), places.items(), strict=True):
    torch.manual_seed(0)
    blocks = [Block(64, **{where: 0.3}) for _ in range(24)]
    last = nn.LayerNorm(64), nn.Linear(64, 10)
    model = nn.Sequential(nn.Linear(64, 64), *blocks, *last).to(device)
    with GradientFlowRecorder(model, blocks) as flow:
        cross_entropy(model(images.requires_grad_()), labels).backward()
    plot_stream(flow, ax, norms="pre")
    grown = flow.activation[0, -1] / flow.activation[0, 0]
    ax.set_title(f"Dropout 0.3, {name}: times {grown:.0f}")
show(
    fig,
    alt="Two rivers of 24 new blocks. With dropout on the branches' outputs the bed "
    "grows a few times. With dropout on the stream after each block it is cut off.",
)

# %% [markdown]
# ## Move it yourself
#
# How large is the noise of dropout beside the signal, block after block, in a new network? The signal is the stream without dropout;
# the noise is how far two runs with other masks lie apart (over √2, since both are noisy). The branches have He's
# weights. Each curve that you try stays, with a dash for its place.
#
# **Compare**, at p = 0.3 and 24 blocks, dropout once at the start with dropout on the branches and on the stream after
# each block. Which noise fades, which stays below the signal, which passes it, and after how many blocks?

# %% tags=["explorer"]
from residual_course.explorers.dropout import explore_coins

explore_coins()

# %% [markdown]
# <details><summary>Answer</summary>Once at the start: 0.6 times the signal there, 0.5 after 24 blocks; it fades a
# little. On the branches it rises from 0 to 0.9 and stays below the signal, for units and for samples alike. On the
# stream after each block it passes the signal after three blocks, and after 24 it is 55 times as large.</details>
