# %% [markdown]
# # Investigation 08a · What a head needs to find the digit before
#
# 35 minutes. You need [lesson 08a](../08a_attention.ipynb). No lesson needs this.
#
# In the lesson a head with two maps finds the digit that is one larger, and with rotary
# positions the *last* such digit. Does it need two maps? Does it need weights that depend on
# the digits at all? And does it need positions? Each time we take something away. The networks
# are the lesson's, trained for 400 steps or, where it says so, for 2,000, three seeds each
# (stored; `notebooks/runs/08a.py` computes them).

# %%
import torch
from torch.nn import functional as F

from residual_course.lesson import predict, setup, show, stored_runs

device = setup()

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import ink_rows
from residual_course.plots.rows import plot_rows

stored = stored_runs("08a_the_digit_before")["runs"].values()


def shares(name):
    """Return the stored shares of right answers, three seeds."""
    return [seed[name] for seed in stored]


def mean(name):
    return sum(shares(name)) / 3


def plot_shares(names, title, height=2.6):
    ax = Figure(figsize=(6, height)).add_subplot()
    plot_rows({name: shares(name) for name in names}, ax)
    ax.set(xlabel="share of right answers", xlim=(0.4, 1))
    ax.set_title(title)
    return ax.figure


# %% [markdown]
# ## 1 · Is it the symmetry?
#
# With one map, query · query, the lesson's head is no better than the mean. But one map is also
# a map less: 1,024 weights of about 15,000. So we keep one map, and break the symmetry without
# a single new weight: the numbers of one side are rolled, that is moved round in a circle. With
# four numbers:

# %% rolled
a = torch.tensor([1.0, 0, 0, 0])
b = torch.tensor([0.0, 1, 0, 0])
for places in (1, 2):
    print(f"rolled by {places}:", a @ b.roll(places), "and", b @ a.roll(places))

a, b = torch.randn(2, 4)
for places in (1, 2):
    print(f"rolled by {places}: {a @ b.roll(places):.2f} and {b @ a.roll(places):.2f}")

# %% [markdown]
# Rolled by 1 of 4, a scores b otherwise than b scores a. Rolled by 2, half a circle, both ways
# are the same again: the scores are symmetric. Our head has 32 numbers.

# %% which-roll
with predict(
    "One map, one side rolled by 13 or by 16 of 32 places: which finds the 6?",
    ["both", "only 13", "only 16", "neither"],
):
    names = ["mean", "one map", "one map, 2,000 steps", "rolled by 16", "rolled by 13"]
    names += ["two maps", "two maps, 2,000 steps"]
    show(plot_shares(names, "One map is enough, if it is not symmetric", 3.2))

# %% [markdown]
# Rolled by 13 places, one map does what two do, and more steps do not help the symmetric one.
# So it is the symmetry here, and not the number of weights. Rolled by 16 the head stands in
# between: symmetric scores can be high for the digit one larger if they are as high for the one
# that is one smaller, while query · query alone is always high for the own digit.
#
# The opposite question is symmetric: *which ink had the same digit, the last time before?* Then
# one map should be as good as two.

# %% same-digit
names = ["same digit: mean", "same digit: one map", "same digit: two maps"]
for name in names:
    print(f"{name:22}", *shares(name))

# %% [markdown]
# It is.
#
# ## 2 · Can a mean answer?
#
# The lesson's mean of the past gets about half of the answers. Is the wanted ink no longer in
# it? We change the input alone. In place of 68 pixels and inks that a network embeds in 32
# numbers, a position arrives as 40 numbers, all 0 but one: the one for its digit *and* its ink,
# a one-hot. Here is the mean of three positions, with three digits and two inks:

# %% one-hots
digit, ink = torch.tensor([2, 0, 2]), torch.tensor([1, 0, 1])
one_hot = F.one_hot(2 * digit + ink, 6).float()
print(one_hot)
print(one_hot.mean(dim=0))

# %% [markdown]
# The mean counts each digit with each ink: two thirds are a 2 in ink 1.

# %% mean-of-one-hots
with predict(
    "The mean of one-hots, with no weights to choose: how many answers are right?",
    ["0.49", "0.60", "0.75"],
):
    names = ["mean", "mean, one-hot", "table, one-hot"]
    show(plot_shares(names, "A mean of one-hots holds the answer", 2.2))

# %% [markdown]
# The MLP after the mean can look up the inks of the digit that it needs. What is the best that
# such a count allows? The most frequent ink among *all* earlier digits that are one larger,
# which we count on 4,000 rows without any network:


# %% counted
rows = ink_rows(4000, torch.Generator().manual_seed(99), test=True)
digit = rows.digits  # (rows, 12)
larger = (digit[:, None, :] - digit[:, :, None]) % 10 == 1  # (rows, who asks, where)
before = torch.ones(12, 12).tril(-1).bool()
votes = (larger & before).float() @ rows.x[..., 64:]
votes += 1e-3 * torch.rand(votes.shape)  # ties are drawn
wanted = rows.answers[..., 0]
best = (votes.argmax(dim=-1) == wanted)[wanted >= 0].float().mean().item()
print(f"the most frequent ink of the digits one larger: {best:.2f}")

# %% [markdown]
# The mean of one-hots stands at this limit, as the head with two maps does. The table (2,000
# steps) has learned weights, one for each pair of positions and the same in every row of digits.
# It knows nothing of the digits, but it can give more weight to what is recent, and passes the
# limit. So this task does not *force* attention. But from embedded pictures no training here
# arranged the 32 numbers as such a count; and one-hots take a number for each digit with each
# ink. With 50,000 words that is out of reach.
#
# ## 3 · Where does the order come from?
#
# One head without positions stands at the limit, because it cannot know which of several 6s came
# last (the lesson's shuffled past). Now let the network mix twice, each time with q, k and v of
# its own, and still without positions.

# %% two-steps
with predict(
    "Two steps of attention, no positions, 2,000 steps of training: right answers?",
    ["0.75, the limit", "about 0.85", "about 0.95"],
):
    names = ["two maps, 2,000 steps", "two steps, first not causal", "two steps"]
    show(plot_shares(names, "The mask of the first step tells the order", 2.2))

# %% [markdown]
# The row in the middle has the same two steps, but without the mask in the first. Then all
# positions are treated alike, whatever their order, and the limit holds. With the mask each
# position has a past of its own, and what it receives differs from what later ones receive.
#
# What of its past does the first step use? We hide digits from it, after the training: those that
# are by so much larger than the digit that asks.

# %% hidden
names = {f"{n:+d}": f"two steps, {n:+d} hidden" for n in range(-3, 4)}
names["all but +0"] = "two steps, +0 alone"
ax = Figure(figsize=(6, 3.2)).add_subplot()
plot_rows({name: shares(key) for name, key in names.items()}, ax)
ax.set(xlabel="right answers", xlim=(0.4, 1), ylabel="hidden in the first step")
ax.set_title("The first step needs the same digit alone")
show(ax.figure)

# %% [markdown]
# Only the same digit matters. If a 6 cannot see the 6s before it in the first step, the answers
# fall back to the limit; if it sees nothing else, they stay. So the second step, which looks for
# a 6, relies on what each 6 received from the earlier 6s, and thereby tells the last one from
# the first.
#
# That is one way in which networks without positions know an order. Language models with a
# causal mask and no positions at all learn text nearly as well as others
# ([Haviv and others, 2022](https://arxiv.org/abs/2203.16634)).
#
# **What stays open.** Why the head that is rolled by 16 places ends where it does; and whether
# embedded pictures of more than 32 numbers would let a mean learn the count.
