# %% [markdown]
# # 08a · Attention
#
# 90 minutes. Nothing is downloaded. It follows [lesson 07b](07b_conditions_and_networks.ipynb). Of [lesson 07a](07a_residual_block.ipynb) it uses the mixer,
# the part of a block that carries information from position to position; of [lesson 02](02_layer_norm.ipynb), LayerNorm.
#
# By the end you can
#
# - **write** a causal head, and **say** what each of its maps is for;
# - **name** what a network with a given mixer is missing, by comparing its score with that of a simple rule;
# - **say** what the division by √d changes, and what it does not;
# - **read** a trained attention map, and **test** a hypothesis about it;
# - **mend** a head in which three lines are wrong, by one measurement for each.

# %%
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu.datasets import ink_rows
from residual_edu.exercises import check
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import attention as plots

device = setup()
progress("08a")

# %% [markdown]
# ## A question that one picture cannot answer
#
# A row holds twelve handwritten digits, each in one of four inks. At every picture there are two questions.
#
# - **A:** Which ink had the digit that is *one larger*, the last time before? (0 follows 9. Asked only where there is one.)
# - **B:** Which ink had the picture just before?
#
# The letters name the inks: red, blue, green, K for black.

# %% tags=["figure"]
row = torch.tensor([[4, 5, 3, 4, 6, 5, 4, 3, 3, 5, 4, 3]])
tokens, answers, _ = ink_rows(1, torch.Generator().manual_seed(4), test=True, shown=row)
ax = Figure(figsize=(6, 1.8)).add_subplot()
plots.plot_row(tokens[0], answers[0, :, 0], ax, (9, 4))
ax.set_title("Question A: the ink of the last digit one larger")
alt = (
    "A row of twelve digits in four inks, with the letter of each ink, and the answer "
)
show(ax.figure, alt=alt + "to A below. An arrow leads from the tenth, a 5, to the 6.")

# %% [markdown]
# To answer A, a network has to recognise a digit, search the past for another one, take the last of several, and read its ink. We begin with a network that
# treats each position by itself: an input map, a mixer that adds nothing yet, and an MLP.


# %%
def two_layers(inputs, hidden, out):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, out))


class Network(nn.Module):
    def __init__(self, mixer, width=32):
        super().__init__()
        self.embed = two_layers(68, width, width)  # 64 pixels, 4 inks
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixer = mixer(width)
        self.mlp = two_layers(width, 4 * width, width)
        self.answers = nn.Linear(width, 2 * 4)  # two questions, four inks

    def forward(self, x):  # (rows, 12, 68)
        x = self.embed(x)
        x = x + self.mixer(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.answers(x).unflatten(-1, (2, 4))


# %% [markdown]
# (Folded: the training, 700 steps of Adam on 64 fresh rows each, and the score, on 1,000 rows of pictures that were not trained on.)


# %% tags=["trained"] jupyter={"source_hidden": true}
def learn(mixer, asked=(0,), seed=0, steps=700, up=1, **sizes):
    torch.manual_seed(seed)
    net = Network(mixer, **sizes).to(device)
    generator = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(net.parameters(), 3e-3, fused=True)
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, 3e-3, total_steps=steps)
    for _ in range(steps):
        x, y, _ = (part.to(device) for part in ink_rows(64, generator, up=up))
        logits = net(x)  # (rows, positions, questions, inks)
        loss = sum(F.cross_entropy(logits[:, :, q].mT, y[:, :, q]) for q in asked)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
    return net


@torch.no_grad()
def right(net, question=0, **rows):
    x, y, _ = ink_rows(1000, torch.Generator().manual_seed(99), test=True, **rows)
    logits, wanted = net(x.to(device))[:, :, question].cpu(), y[:, :, question]
    found = logits.argmax(-1)
    return (found == wanted)[wanted >= 0].float().mean().item()


alone = right(learn(lambda width: torch.zeros_like))
print(f"A, each position alone: {alone:.2f}")
holds(0.2 < alone < 0.3, "A position by itself guesses.")

# %% [markdown]
# A quarter, as by guessing. The inks are drawn independently, so a picture tells nothing about the ink of another one.
#
# ## From a mean to weights
#
# Each picture must receive something from those before it. The simplest is their mean, here with the picture itself:
#
#     for i in range(12):
#         mixed[i] = h[: i + 1].mean(0)
#
# As a matrix: `mixed = weights @ h`, and row i of `weights` holds 1/(i + 1) in the columns 0 to i, and 0 after them. Now the loop is gone, and the weights may differ. They should
# stay a mean: not negative, with a sum of 1 in each row.
#
# So let each pair (i, j) have a **score**, any number, and make weights of a row of scores: take the exponential of each, and divide by the sum of the row. That is the
# **softmax**. By hand: the scores 0, 0, log 2 have the exponentials 1, 1, 2, with the sum 4, so the weights are ¼, ¼, ½. Equal scores give equal weights, and a score of −∞ gives exactly 0: so the future is left out, by a **causal mask**.
#
# ### Exercise 1 · 5 minutes · ●●○○○
#
# Make weights of scores (..., n, n): row i is a mean over the columns 0 to i. The scores are at most 10.
#
# <details><summary>Hint 1</summary>Make every number positive, set what comes later to 0, divide each row by its sum: in this order.</details>
# <details><summary>Hint 2</summary><code>torch.ones(n, n).triu(1).bool()</code> is True above the diagonal;
# <code>masked_fill(mask, value)</code> writes there.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "weights-by-hand", "locked": false, "schema_version": 3, "solution": true, "task": false}
def weights_by_hand(scores):
    """Return the causal weights of scores, (..., n, n)."""
    ### BEGIN SOLUTION
    later = torch.ones(scores.shape[-2:]).triu(1).bool()
    shares = scores.exp().masked_fill(later, 0)
    return shares / shares.sum(-1, keepdim=True)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "weights-by-hand-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(weights_by_hand, "weights_by_hand")

# %% [markdown]
# Two mixers: the mean, whose scores are all 0, and a table of 12 × 12 scores that is learned. `out` is a linear map of what was mixed.


# %% tags=["trained"]
class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, width, bias=False)

    def scores(self, h):
        return torch.zeros(12, 12, device=h.device)

    def weights(self, h):
        later = torch.ones(h.shape[1], h.shape[1], device=h.device).triu(1).bool()
        return self.scores(h).masked_fill(later, -torch.inf).softmax(-1)

    def forward(self, h):
        return self.out(self.weights(h) @ h)


class Table(Mixer):
    def __init__(self, width):
        super().__init__(width)
        self.table = nn.Parameter(torch.zeros(12, 12))

    def scores(self, h):
        return self.table


mean, table = right(learn(Mixer)), right(learn(Table))
print(f"A: mean {mean:.2f}, table {table:.2f}")
holds(0.44 < mean < table < 0.58, "Mean and table know something.")

# %% [markdown]
# Twice a guess, and little more. The mean weighs all earlier pictures alike. The table may weigh positions, in the same way for every row, whatever digits stand there.
#
# ## Scores that depend on the pictures
#
# So the score of i and j has to come from the two pictures. A first idea: the product of what the network has made of them, large where two vectors point the
# same way.
#
#     def scores(self, h):                      # h: (rows, 12, 32), after the norm
#         return h @ h.mT / 32**0.5             # (rows, 12, 12); why divided: soon
#
# `embed` is trained, so it may arrange the digits as it likes.

# %% tags=["predict"]
guess = predict(
    "Weights from h times h in the place of equal ones: the score in A is then about",
    [".49", ".60", ".74"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
class Alike(Mixer):
    def scores(self, h):
        return h @ h.mT / h.shape[-1] ** 0.5


alike, same = learn(Alike), learn(Alike, up=0)
print(f"one larger {right(alike):.2f}, the same digit {right(same, up=0):.2f}")
holds(right(alike) < 0.55 < 0.65 < right(same, up=0), "It finds the same digit alone.")
guess.reveal(
    min((".49", ".60", ".74"), key=lambda text: abs(float(text) - right(alike))),
    why={
        ".49": "That is the mean again, although the weights may now follow the "
        "pictures.",
        ".60": "It would have to put some more weight on the wanted digit.",
        ".74": "So it would be if the products could find the wanted digit. They do so "
        "if A asks for the *same* digit.",
    },
    after="Asked for the last picture of the **same** digit, a network with this mixer "
    "reaches about .72. So the pictures are recognised, and the products can find a "
    "digit. What keeps them from finding the next one is tested below.",
)

# %% [markdown]
# ## A query and a key
#
# Let the picture that asks and the picture that is found each have a linear map of its own. The **query** of a picture is what it looks for, its **key** is
# what it is found by. The score is query · key. A third map, the **value**, makes what is handed over.
#
# $$q = hW_q \qquad k = hW_k \qquad v = hW_v \qquad \mathrm{softmax}\!\left(\frac{q k^T}{\sqrt d}\right) v$$


# %% tags=["trained"]
class QKV(Mixer):
    def __init__(self, width, d=32):
        super().__init__(width)
        self.q = nn.Linear(width, d, bias=False)
        self.k = nn.Linear(width, d, bias=False)
        self.v = nn.Linear(width, width, bias=False)

    def scores(self, h):
        q, k = self.q(h), self.k(h)
        return q @ k.mT / q.shape[-1] ** 0.5

    def forward(self, h):
        return self.out(self.weights(h) @ self.v(h))


asking = learn(QKV)
print(f"A, with q, k and v: {right(asking):.2f}")
holds(right(asking) > 0.7, "q, k and v find the wanted digit.")

# %% [markdown]
# (Folded: the stored runs of this lesson, with three seeds each. Their code stands at the end.)

# %% jupyter={"source_hidden": true}
from residual_edu.lesson import stored_runs

stored = stored_runs("08a_attention")["runs"]


def tell(*names):
    for name in names:
        scores = [stored[seed][name] for seed in range(3)]
        print(f"{name:36}", "  ".join(f"{score:.2f}" for score in scores))


def least(name):
    return min(stored[seed][name] for seed in range(3))


# %% [markdown]
# This is the attention of [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762). Which of its parts does question A need? Here are four changes of h · h,
# one at a time, without q, k and v:
#
# *Own masked*: h · h, where no picture may attend to itself (but for the first). *One map*: a learned map, the same on both sides, scores Wh · Wh. *Rolled by 16*, *rolled by 13*: h · roll(h), where the 32 features of one side are shifted in
# a circle by 16 or 13 places, always; no parameter is added. Two features by hand, rolled by 1: (a, b) · (d, c) is ad + bc.

# %% tags=["predict"]
guess = predict(
    "Which of the four changes reaches .74 in A?",
    ["own masked", "one map", "rolled by 16", "rolled by 13"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print("A, three seeds")
tell("h h", "own masked", "one map", "rolled by 16", "rolled by 13", "q, k, v")
tell("q and k, no v", "h h, 2,100 steps")
CHANGES = ["own masked", "one map", "rolled by 16", "rolled by 13"]
better = [name for name in CHANGES if least(name) > 0.7]
holds(better == ["rolled by 13"], "Only two sides that differ reach .74.")
guess.reveal(
    better[0],
    why={
        "own masked": "The own picture is hidden, and others of the same digit score "
        "as high.",
        "one map": "Wh · Wh is largest with what is like the asker, as h · h is.",
        "rolled by 16": "16 + 16 = 32: rolled(h) · h and h · rolled(h) are the same. "
        "A 3 gives a 4 the score that a 4 gives a 3.",
        "rolled by 13": "h · roll(h) differs in the two directions, and nothing is "
        "learned anew.",
    },
    after="Two steps. Of vectors of about the same length, such as a norm makes, "
    "h · h is largest for those that are alike, with or without a map on both sides. "
    "Rolled by 16 it is free of that, but the same in both directions: .62. Rolled by "
    "13 the directions may differ: .74. And v adds nothing here: "
    "`out(weights @ v(h))` applies two linear maps in a row, which are one map.",
)

# %% [markdown]
# ### What a query asks
#
# Scores can be looked at. For many test rows, this is the mean score that a picture of one digit gives a picture of another (the mean of each row of scores is taken away: a
# softmax does not see it). Grey: two digits that never stand in one row.


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def pair_scores(net):
    """Return the mean score of each digit with each, (10, 10)."""
    x, _, digit = ink_rows(1000, torch.Generator().manual_seed(5), test=True)
    scores = net.mixer.scores(net.norm1(net.embed(x.to(device)))).cpu()
    scores = scores - scores.mean(-1, keepdim=True)
    one = F.one_hot(digit, 10).float()
    total, count = (one.mT @ part @ one for part in (scores, torch.ones(1000, 12, 12)))
    return total.sum(0) / count.sum(0)


# %% tags=["figure", "trained"]
nets = {"h h, same digit": same, "h h, one larger": alike, "q k, one larger": asking}
found = {name: pair_scores(net) for name, net in nets.items()}
axes = (fig := Figure(figsize=(6, 2.7))).subplots(1, 3, sharey=True)
for ax, (name, scores) in zip(axes, found.items(), strict=True):
    plots.plot_pair_scores(scores, ax, top=3.5).set_title(name, weight="normal")
axes[0].set_ylabel("digit that asks")
title = "A query for one larger: a band beside the diagonal"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Three tables of 10 by 10 digits, orange for high. h h for the same digit: the "
alt += (
    "diagonal. h h for one larger: nothing. q k for one larger: a band one beside the "
)
show(fig, alt=alt + "diagonal, and a second one further off.")
larger = found["q k, one larger"][range(10), [*range(1, 10), 0]]
flat = found["h h, one larger"].nan_to_num().abs().max().item()
print(f"largest mean score of h h, one larger: {flat:.2f}")
holds(larger.min() > 1 and flat < 0.5, "q k has the band; h h has made itself equal.")

# %% [markdown]
# So what is a query really asking? Read a row of the last table: a 3 scores high with a 4, and with nothing near it. The middle one is empty: the network has made its products equal, and so has gone back to the mean.
#
# The last table has a second band, from 3 to 0. Why? A row holds four neighbours, so a row with a 0 and a 3 has no 4, and a 3 is never asked there. **What was never
# asked is mostly not punished.** (A part of this band is the measurement: a 3 meets a 0 only in rows without a 4, and each row's mean was taken away.)
#
# ### Exercise 2 · 8 minutes · ●●●○○
#
# Write a causal head. `h` is (batch, positions, width); `to_q`, `to_k` and `to_v` are maps to call, such as linear layers. Queries and keys have d features, which need not be the
# width of h; values may have any number. Return the weighted means of the values.
#
# <details><summary>Hint 1</summary>Four lines: the maps, scores, weights, a mean.</details>
# <details><summary>Hint 2</summary><code>k.mT</code> swaps the last two axes. Ask q for d, and h for the number of positions.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "head-by-hand", "locked": false, "schema_version": 3, "solution": true, "task": false}
def head_by_hand(h, to_q, to_k, to_v):
    """Return softmax(q k / sqrt(d)) v over each position's past."""
    ### BEGIN SOLUTION
    q, k, v = to_q(h), to_k(h), to_v(h)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:]).triu(1).bool()
    return scores.masked_fill(later, -torch.inf).softmax(-1) @ v
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "head-by-hand-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(head_by_hand, "head_by_hand")

# %% [markdown]
# ## Divided by the root of d
#
# A score is a sum of d products. If query and key hold independent numbers of variance 1, each product has variance 1, and the sum has variance d: the spread of a score is √d. With d = 1,024 that is 32, and of two scores that are 32 apart the larger
# takes all the weight but $e^{-32}$. Divided by √d the spread is 1 at every width.
#
# We give the queries and keys of our network d = 1,024 features, and leave the division out.

# %% tags=["predict"]
guess = predict(
    "d = 1,024 and no division, 700 steps: the score in A",
    ["about .25", "about .50", "about .74"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
D = "d 1,024, not divided"
tell("q and k, no v", "d 32, not divided", "d 1,024, divided")
tell(D, D + ", small start", "d 1,024, divided, large start")
middle = sum(stored[seed][D] for seed in range(3)) / 3
enough = min(least(D + ", small start"), least("d 1,024, divided, large start"))
holds(enough > 0.65 > 0.6 > middle, "Either mend is enough.")
CHOICES = {"about .25": 0.25, "about .50": 0.5, "about .74": 0.74}
guess.reveal(
    min(CHOICES, key=lambda name: abs(CHOICES[name] - middle)),
    why={
        "about .25": "It can still take the mean of the past, or something like it.",
        "about .50": "It gets about as far as a mean of the past does.",
        "about .74": "With d = 32 that is so. With 1,024 these steps do not make up "
        "for the start.",
    },
    after="*Small start*: not divided, but q and k start smaller by d to the power ¼, "
    "so the first scores are those of a division. *Large start*: divided, but q and k "
    "start larger, so the first scores are those without. Both reach .70 and more. It "
    "takes two things to fail: a sharp start, and no division after it, so that each "
    "step moves the scores further. Either mend is enough.",
)

# %% [markdown]
# With d = 32 the division changes nothing in this network: it matters where heads are wide. This is what a softmax makes of random queries and keys:

# %% tags=["figure"]
dims, curves = [1, 4, 16, 64, 256, 1024], {}
powers = {"as they are": 0, "divided by √d": -0.5, "divided by d": -1}
for name, power in powers.items():
    generator, curves[name] = torch.Generator().manual_seed(0), []
    for d in dims:
        q, k = (torch.randn(600, n, d, generator=generator) for n in (1, 16))
        curves[name].append((q @ k.mT * d**power).softmax(-1).amax(-1).mean().item())
ax = plots.plot_sharpness(dims, curves, Figure(figsize=(6, 2.9)).add_subplot())
ax.set_title("Random queries: equally sharp if divided by √d")
alt = "Largest of 16 weights against d. As they are: from 0.2 to 0.96. Divided by the "
show(
    ax.figure, alt=alt + "root of d: about 0.25 from 4 on. Divided by d: falls to 1/16."
)

# %% [markdown]
# ## Where .74 comes from
#
# We count, without any network. A rule takes the most frequent ink among certain earlier pictures:


# %%
x, y, digit = ink_rows(4000, torch.Generator().manual_seed(99), test=True)
ink, wanted, past = x[..., 64:], y[..., 0], torch.ones(12, 12).tril(-1)
tie = 1e-3 * torch.rand(ink.shape, generator=torch.Generator().manual_seed(0))
step = (digit[:, None, :] - digit[:, :, None]) % 10  # from row to column


def rule(chosen):
    found = (chosen * past @ ink + tie).argmax(-1)
    return (found == wanted)[wanted >= 0].float().mean().item()


print(f"mean .49       the most frequent ink so far: {rule(torch.ones(12, 12)):.3f}")
print(f"table .53      the ink just before: {rule(past - past.tril(-2)):.3f}")
print(f"by 16 .62      most frequent, one larger or smaller: {rule(step % 8 == 1):.3f}")
print(f"q, k, v .74    most frequent, one larger: {rule(step == 1):.3f}")
count = ((step == 1) * past).sum(-1)[wanted >= 0].mean()
print(f"earlier pictures of the wanted digit: {count:.2f}")

# %% [markdown]
# For the mean, the table and the features rolled by 16 these are simple rules and not limits. (9 = −1 counts as one smaller: `step % 8 == 1`.) What keeps q, k, v near the last rule?

# %% tags=["predict"]
guess = predict(
    "One mixing step with q, k, v: which change brings A above .8?",
    ["2,100 steps", "two heads", "width 128", "the table added"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
class Placed(QKV):
    def __init__(self, width):
        super().__init__(width)
        self.table = nn.Parameter(torch.zeros(12, 12))

    def scores(self, h):
        return super().scores(h) + self.table


CHANGES = ["2,100 steps", "two heads", "width 128", "the table added"]
tell("q, k, v", *CHANGES, "two mixing steps, 2,100 steps")
print(f"the table added, trained now: {right(learn(Placed)):.2f}")
better = [name for name in CHANGES if least(name) > 0.8]
holds(better == ["the table added"], "Of these, only positions pass the limit.")
guess.reveal(
    better[0],
    why={
        "2,100 steps": "More steps cannot pass .759, with weights from content.",
        "two heads": "Two rows of weights, both from content: neither knows the order.",
        "width 128": "Recognising the digits better does not tell which was last.",
        "the table added": "exp(q·k) · exp(table): the right digit, *and* recent.",
    },
    after="The last rule is a limit. Scores from content alone do not change when the "
    "past is shuffled, and neither does the weighted mean. So *one* mixing step, "
    "without positions, can do no better: it finds two pictures of the wanted digit on "
    "average, and not which was last. Two mixing steps pass .759 without a table: the "
    "causal mask gives each position another past.",
)

# %% [markdown]
# `scores = q·k/√d + table`. Content says *which*, the table says *when*. Since exp(a + b) = exp(a) · exp(b), scores that are *added* give weights that are *multiplied*. Does that matter? A sigmoid of each score gives positive weights too, whose sum is free. Of the sum, it does not multiply; of q·k alone, times exp(table), it does:

# %% tags=["trained"] jupyter={"source_hidden": true}
tell("the table added", "sigmoid(q·k + table)", "sigmoid(q·k) · exp(table)")
product = least("sigmoid(q·k) · exp(table)")
holds(product > max(stored[s]["sigmoid(q·k + table)"] for s in range(3)), "It does.")

# %% [markdown]
# ## Two questions, one softmax
#
# Now ask both questions at each picture. B needs nothing but the table: alone it answers B nearly perfectly. With q, k, v and the table, one network has all that A needs and all that B needs.

# %% tags=["predict"]
guess = predict(
    "Trained on A and B at once, with one softmax: what becomes of A's .92 and B's "
    "1.00?",
    ["both stay", "A falls", "B falls", "both fall"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print("A and B, three seeds")
for name in ("table alone", "one head", "one head, sigmoid", "two heads"):
    tell(name + ": A", name + ": B")
tell("one head, 2,100 steps: A", "two heads, 2,100 steps: A")
tell("one head, 7,000 steps: A", "two heads, v = h: A")
a, b = (sum(stored[s][f"one head: {q}"] for s in range(3)) / 3 for q in "AB")
falls = (a < 0.85) + 2 * (b < 0.95)
holds(least("two heads: A") > 0.8 > 0.79 > a, "Two heads answer both.")
guess.reveal(
    ["both stay", "A falls", "B falls", "both fall"][falls],
    why={
        "both stay": "The network has what it needs for each. But there is one mean "
        "for both.",
        "A falls": "B needs the table alone; A needs table and digits.",
        "B falls": "B is the easier one: it needs no digit.",
        "both fall": "Weight that is given to one is taken from the other. But an "
        "ink can be read from less than all the weight.",
    },
    after="A wants weight on the larger digit, B on the neighbour. But each pair has "
    "*one* weight for both questions, so both inks arrive in one mixture. (That a row "
    "sums to 1 is not the cause: with a sigmoid A falls as well.) So let there be two "
    "rows of weights for each picture: two **heads**, each with half of the features. "
    "One head takes about ten times the steps to get as far.",
)

# %% [markdown]
# Two heads: the features of q, k and v are cut in two, each half has its own scores and weights, and the results are put side by side.


# %%
class Heads(QKV):
    def __init__(self, width, heads=2):
        super().__init__(width)
        self.heads = heads
        self.table = nn.Parameter(torch.zeros(heads, 12, 12))

    def split(self, z):  # (rows, 12, width) to (rows, heads, 12, width / heads)
        return z.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def scores(self, h):
        q, k = self.split(self.q(h)), self.split(self.k(h))
        return q @ k.mT / q.shape[-1] ** 0.5 + self.table

    def forward(self, h):
        mixed = self.weights(h) @ self.split(self.v(h))
        return self.out(mixed.transpose(1, 2).flatten(2))


# %% tags=["trained"] jupyter={"source_hidden": true}
two = learn(Heads, asked=(0, 1))
print(f"two heads, trained now: A {right(two, 0):.2f}, B {right(two, 1):.2f}")
holds(right(two, 0) > 0.8, "Two heads answer A beside B.")

# %% [markdown]
# The maps have as many parameters as before. And v: here a head with `v = h` would hand over its own half of h and nothing else; a map v lets it choose from all of h. Without it A is lower for each of the three seeds, by .03 in the mean.
#
# ## A trained map
#
# Both heads over the row from above, before and after training. A row of a map is the picture that asks; its weights are grey to black, and sum to 1. Rings: the answers.


# %% tags=["trained"] jupyter={"source_hidden": true}
@torch.no_grad()
def weights_of(net, tokens):
    """Return the weights of both heads, (rows, 2, 12, 12), the one for B last."""
    found = net.mixer.weights(net.norm1(net.embed(tokens.to(device)))).cpu()
    return found[:, order]


many, asked, digit = ink_rows(1000, torch.Generator().manual_seed(7), test=True)
order = [0, 1]
before = weights_of(two, many)[..., range(1, 12), range(11)].mean((0, 2))
order = before.argsort().tolist()  # by the weight on the picture just before
torch.manual_seed(0)
new = Network(Heads).to(device)
holds(before.max() > 2 * before.min() or before.max() > 0.4, "A head does B.")

# %% tags=["figure", "trained"]
digits = row[0].tolist()
larger = [[j for j in range(i) if digits[j] == digits[i] + 1] for i in range(12)]
rings = [max(found, default=-1) for found in larger], range(-1, 11)
fig = Figure(figsize=(6, 6.4))
for axes, name in zip(fig.subplots(2, 2), ("before", "trained"), strict=True):
    maps = weights_of(two if name == "trained" else new, tokens)[0]
    for head, ax in enumerate(axes):
        plots.plot_attention_map(maps[head], tokens[0], ax, rings[head])
        ax.set_title(f"{name}, head {head + 1}", weight="normal")
title = "One head finds the larger digit, one the neighbour"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Four triangles of weights over a row of twelve digits. Before training they are "
alt += "evenly grey. Trained, head 1 is dark in nearly all rings around the digit one "
show(fig, alt=alt + "larger, and head 2 in the line just below the diagonal.")
hits = sum(maps[0, i].argmax().item() == rings[0][i] for i in range(12))
print(f"head 1 gives its largest weight to the ringed digit in {hits} of 9 rows")
holds(hits >= 6, "Head 1 finds the larger digit.")

# %% [markdown]
# Nobody told the heads to share the work. We call the one with more weight on the picture just before head 2. A 6 has no 7 before it in this row, and is not asked.
#
# ### Your hypothesis
#
# What does head 1 do where there is *no* digit one larger? Which one does it take where there are two? What happens with digits that never stand in one row of the training, such as 2, 4, 6, 8, 0? **Write one sentence down before you
# move anything, and then look for a row that refutes it.** Type any twelve digits, and press Enter.

# %% tags=["explorer"] jupyter={"source_hidden": true}
from residual_edu.explorers.attention_map import explore_map


def attend(digits, handwriting, trained):
    generator = torch.Generator().manual_seed(handwriting)
    rows = ink_rows(1, generator, test=True, shown=torch.tensor([digits]))
    return rows.x[0], weights_of(two if trained else new, rows.x)[0]


explore_map(attend)

# %% [markdown]
# One row refutes a sentence, and no row proves it. So here is a count, over all pictures from the fifth on in 1,000 test rows: the share of head 1's weight that goes to digits that are smaller, the same (itself included) or larger. Where A is asked, the
# digit one larger should lead. And where it is not?

# %% tags=["predict"]
guess = predict(
    "Where A is not asked, most of head 1's weight goes to digits that are",
    ["three smaller", "the same", "two larger", "all alike"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
head1 = weights_of(two, many)[:, 0, 4:]
up = ((digit[:, None, :] - digit[:, 4:, None] + 3) % 10) - 3  # -3 to 3
for name, rows in (("asked", asked[:, 4:, 0] >= 0), ("not asked", asked[:, 4:, 0] < 0)):
    parts = [(head1 * (up == n)).sum(-1)[rows].mean().item() for n in range(-3, 4)]
    told = [f"{at - 3:+d}: {part:.2f}" for at, part in enumerate(parts)]
    print(f"{name:10}", "   ".join(told))
    holds((parts[4] > 0.6) == (name == "asked"), "Asked, most weight is on one larger.")
most = max(range(7), key=parts.__getitem__)
named = {0: "three smaller", 3: "the same", 5: "two larger"}
guess.reveal(
    named.get(most, "all alike") if parts[most] > 0.25 else "all alike",
    why={
        "three smaller": "It is the second band from above: 3 and 0 meet only where "
        "there is no 4.",
        "the same": "The own picture is always there, and no training asked for it.",
        "two larger": "It is near one larger; but training asked to leave it out.",
        "all alike": "Scores that no question shaped need not be equal.",
    },
    after="Where A is not asked the weight has to go somewhere, since a softmax cannot "
    "give nothing: it goes to whatever scores highest. No answer was wanted there. A "
    "dark cell in a map does not say that it is used.",
)

# %% [markdown]
# ## Masks that hold together
#
# A **window** is a second mask: at most so many positions back. Where both are wanted, both must hold: `&`. Some programs write masks as numbers to be added to scores, 0 or −1,000,000,000, and
# [one of them](https://github.com/michaelellis003/lmxlab/blob/61febc6405f0dd6b94088de32e791c9f7c73cacb/src/lmxlab/core/attention.py#L238-L246) takes the maximum of two. A 0 allows. Look at the last panel:

# %% tags=["figure"]
ahead = torch.arange(8) - torch.arange(8)[:, None]  # key's position minus query's
causal, recent = ahead <= 0, ahead > -3
added = [(~mask).float() * -1e9 for mask in (causal, recent)]
masks = {"causal": causal, "not 3 or more back": recent, "both hold": causal & recent}
masks["the maximum"] = torch.maximum(*added) == 0
fig = Figure(figsize=(6, 2.3))
plots.plot_masks(masks, fig.subplots(1, 4, sharey=True))
fig.suptitle(
    "Both masks must hold; a maximum forbids nothing", x=0.01, ha="left", weight="bold"
)
alt = "Four masks of 8 by 8. Causal: the lower triangle. Window: a band and above. "
show(
    fig,
    alt=alt + "Both: a band below the diagonal. The maximum: everything is allowed.",
)

# %% [markdown]
# The maximum is "or": the causal mask is gone and the network reads the future. Where the next token is the answer, the loss then looks wonderful. The opposite slip is a mask that leaves a position nothing: the softmax of a row of −∞ is 0 divided by 0 (torch's fused function returns 0), and one nan
# makes a whole network nan in the next step. So let every position attend to itself.
#
# ## Positions without a table
#
# A table of 12 × 12 has nothing for a thirteenth position. Write the position as an angle instead. Take pairs of features as points in the plane, and turn those of position p by p times an angle, in queries and keys alike. The product of two turned vectors
# depends on the *difference* of their angles: turning both by the same angle changes nothing. That is the **rotary embedding** ([Su et al., 2021](https://arxiv.org/abs/2104.09864)).
#
# By hand: query and key are (1, 0), and a position is a quarter turn. At positions 5 and 7 the two are two quarters apart, so they point in opposite directions: their score is −1. So it is at 6 and 8, and at 105 and 107.
#
# But 0 and 4 would be the same. So each pair turns at a speed of its own, pair i of d/2 by base^(−2i/d) radians a position. With base 100:

# %% tags=["figure"]
angles = torch.arange(8)[:, None] * 100.0 ** (-torch.arange(4) / 4)
ax = plots.plot_hands(angles, Figure(figsize=(6, 3.6)).add_subplot())
ax.set_title("Fast pairs tell near positions, slow ones far")
alt = "Eight columns of four hands. The first turns by a radian a position, the next "
show(
    ax.figure,
    alt=alt + "a third as fast each; the last has hardly moved at position 7.",
)


# %%
def angles_of(count, d, base=100.0, first=0):  # (count, d / 2)
    positions = torch.arange(first, first + count)
    return positions[:, None] * base ** (-torch.arange(d // 2) / (d // 2))


def turn(x, angles):  # the features i and i + d / 2 are pair i
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Rotary(QKV):
    first = 0  # the position of a row's first picture

    def scores(self, h):
        angles = angles_of(h.shape[1], 32, first=self.first).to(h.device)
        return turn(self.q(h), angles) @ turn(self.k(h), angles).mT / 32**0.5


# %% [markdown]
# No parameter is added and no length is built in, so the network, with one head and trained on A, can be run on rows of 24, which it has never seen:

# %% tags=["trained"] jupyter={"source_hidden": true}
rotary = learn(Rotary)
print(f"A: {right(rotary):.2f}, on rows of 24: {right(rotary, length=24):.2f}")
tell("the table added", "rotary", "rotary, rows of 24")
holds(least("rotary") > 0.9 and least("rotary, rows of 24") > 0.8, "It needs no table.")

# %% [markdown]
# ### A slip that trains
#
# There are two good ways to choose pairs: features i and i + d/2, as here, so that the row of angles is repeated as a whole, θ₀ θ₁ θ₀ θ₁; or neighbours 2i and 2i + 1, so that each angle is repeated beside itself, θ₀ θ₀ θ₁ θ₁. It is easy to take the angles of one
# and the pairs of the other:


# %%
def mixture(x, angles):
    cos, sin = (each.repeat_interleave(2, -1) for each in (angles.cos(), angles.sin()))
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


# %% [markdown]
# By hand: x = (1, 0, 0, 0), a quarter turn for the first pair and none for the second.

# %% tags=["predict"]
guess = predict(
    "How long is (1, 0, 0, 0) after the mixture?", ["one", "zero", "root of two"]
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
one, quarter = torch.eye(4)[:1], torch.tensor([[torch.pi / 2, 0.0]])
lengths = [f(one, quarter).norm().item() for f in (turn, mixture)]
print("length after turn {:.2f}, after mixture {:.2f}".format(*lengths))
print("A, at the positions of the training, then at 12 to 23")
tell("rotary", "rotary, from 12 on", "mixture", "mixture, from 12 on")
worse = least("mixture") - least("mixture, from 12 on")
holds(worse > 0.02, "The mixture does worse at other positions.")
guess.reveal(
    {0.0: "zero", 1.0: "one"}.get(round(lengths[1], 3), "root of two"),
    why={
        "one": "So it is after a rotation. But feature 0 takes its cosine from the "
        "first angle, and its partner takes its sine from the second.",
        "zero": "Feature 0 is multiplied by cos 90° = 0. Its partner, feature 2, has "
        "the *other* angle, 0, whose sine is 0. So nothing arrives.",
        "root of two": "Then both features would have arrived in full.",
    },
    after="It raises no error, and the network trains as well as before. But run on "
    "rows counted from position 12 on, it is worse, and the rotation is not: with "
    "the mixture a score depends on more than the distance. What finds it at once: "
    "**measure lengths**, before and after.",
)

# %% tags=["figure"]
axes = (fig := Figure(figsize=(6, 2.8))).subplots(1, 2, sharey=True)
pair = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(0))
for ax, f in zip(axes, (turn, mixture), strict=True):
    q, k = f(pair.expand(2, 16, 8), angles_of(16, 8))
    plots.plot_scores_by_distance(q @ k.mT, ax).set_title(f.__name__, weight="normal")
title = "turn: one score a distance; mixture: many"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Scores of two vectors at all pairs of 16 positions against their distance. "
show(fig, alt=alt + "Turned: one curve. Mixture: a column of scores at each distance.")

# %% [markdown]
# ## A head with three wrong lines
#
# This head should be causal, with a window, and with rotary positions. It raises no error.


# %%
class Handed(nn.Module):
    def __init__(self, width, window):
        super().__init__()
        self.window = window
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in "qkv")

    def turn(self, x):  # (batch, positions, width)
        angles = angles_of(x.shape[1], x.shape[2]).repeat_interleave(2, -1)
        a, b = x.chunk(2, dim=-1)
        return x * angles.cos() + torch.cat([-b, a], dim=-1) * angles.sin()

    def mask(self, count):  # True: may attend
        ahead = torch.arange(count) - torch.arange(count)[:, None]
        return (ahead <= 0) | (ahead > -self.window)

    def weights(self, h):
        scores = self.turn(self.q(h)) @ self.turn(self.k(h)).mT / h.shape[-1] ** 0.5
        return scores.masked_fill(~self.mask(h.shape[1]), -torch.inf).softmax(dim=1)

    def forward(self, h):
        return self.weights(h) @ self.v(h)


# %% [markdown]
# ### Exercise 3 · 10 minutes · ●●●●○
#
# Return a head of a width and a window that is right: a copy of `Handed` with changes, or a subclass. Position i attends to itself and to the `window` − 1 positions before it. Keep the names of the four methods and of the maps q, k and v. Measure first, in a cell of your own: one
# number for each line.
#
# <details><summary>Hint 1</summary>Three measurements: lengths before and after <code>turn</code>; <code>mask(6).int()</code>; the sums of <code>weights</code> along each axis.</details>
# <details><summary>Hint 2</summary>Angles are repeated as the pairs are chosen; both masks must hold; a row of weights belongs to a query.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-head", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_head(width, window):
    """Return a causal head with a window and rotary positions."""

    ### BEGIN SOLUTION
    class Mended(Handed):
        def turn(self, x):
            return turn(x, angles_of(x.shape[1], x.shape[2]))

        def mask(self, count):
            ahead = torch.arange(count) - torch.arange(count)[:, None]
            return (ahead <= 0) & (ahead > -self.window)

        def weights(self, h):
            q, k = self.turn(self.q(h)), self.turn(self.k(h))
            scores = q @ k.mT / h.shape[-1] ** 0.5
            hidden = ~self.mask(h.shape[1])
            return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)

    return Mended(width, window)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-head-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mended_head, "mended_head")

# %% [markdown]
# ## Where it stops
#
# All of this was one mixing step on rows of twelve, with 700 steps of training. Language models stack many such layers; [lesson 10](10_configurable_block.ipynb) builds a small one. What attention costs, a score for every pair of positions, is
# the subject of [lesson 08c](08c_selective_scan.ipynb). The library's own pieces, on images too, stand in the [appendix](08a_attention_more.ipynb).
#
# ## The ladder
#
# All steps of this lesson for question A, three seeds, beside the simple rules. (Folded: this figure and the code of the stored runs, about four minutes a seed. A first reader may skip the code.)

# %% tags=["figure", "trained"]
STEPS = [
    "alone",
    "mean",
    "table",
    "h h",
    "rolled by 16",
    "rolled by 13",
    "q, k, v",
    "the table added",
    "rotary",
]
found = {name: [stored[seed][name] for seed in range(3)] for name in STEPS}
rules = {"alone": 0.25, "mean": 0.488, "table": 0.507, "rolled by 16": 0.649}
rules |= {"rolled by 13": 0.759, "q, k, v": 0.759}
ax = plots.plot_ladder(found, rules, Figure(figsize=(6, 3.4)).add_subplot())
ax.set_title("Dots: three seeds; bars: the simple rule")
alt = "Scores in A. Alone 0.25, mean 0.49, table 0.53, h h 0.49, "
alt += "rolled by 16 0.62, by 13 and q k v 0.74, with the table 0.92, rotary 0.94. "
show(ax.figure, alt=alt + "Bars of rules stand near.")
holds(min(found["rotary"]) > max(found["q, k, v"]), "Positions are worth a step.")


# %% jupyter={"source_hidden": true}
class Masked(Alike):
    def scores(self, h):
        own = torch.eye(12, device=h.device).bool()
        own[0, 0] = False
        return super().scores(h).masked_fill(own, -torch.inf)


class OneMap(QKV):
    def scores(self, h):
        return self.q(h) @ self.q(h).mT / h.shape[-1] ** 0.5


class Rolled(Mixer):
    def __init__(self, width, places=13):
        super().__init__(width)
        self.places = places

    def scores(self, h):
        return h @ h.roll(self.places, -1).mT / h.shape[-1] ** 0.5


class NoValue(QKV):
    """q and k alone; they start larger by d to a power, or scores are not divided."""

    def __init__(self, width, d=32, divided=True, power=0):
        super().__init__(width, d)
        self.v, self.factor = nn.Identity(), 1 if divided else d**0.5
        for each in (self.q, self.k):
            each.weight.data *= d**power

    def scores(self, h):
        return super().scores(h) * self.factor


# %% jupyter={"source_hidden": true}
class SigmoidOfSum(Heads):
    def weights(self, h):  # sigmoid(q k + table)
        return self.scores(h).sigmoid() * torch.ones(12, 12, device=h.device).tril()


class SigmoidTimes(Heads):
    def weights(self, h):  # sigmoid(q k) exp(table)
        content = (self.scores(h) - self.table).sigmoid()
        return content * self.table.exp().tril()


# %% jupyter={"source_hidden": true}
class Twice(nn.Module):
    """Two mixing steps, each with a norm before it and a skip around it."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = QKV(width), QKV(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, h):
        mixed = self.first(h)
        return mixed + self.second(self.norm(h + mixed))


# %% jupyter={"source_hidden": true}
class Own(Heads):
    """Each head hands over its own part of h."""

    def __init__(self, width):
        super().__init__(width)
        self.v = nn.Identity()


class Unplaced(Heads):
    def __init__(self, width):
        super().__init__(width)
        self.table.requires_grad_(False)


class Mixture(Rotary):
    def scores(self, h):
        angles = angles_of(h.shape[1], 32, first=self.first).to(h.device)
        q, k = mixture(self.q(h), angles), mixture(self.k(h), angles)
        return q @ k.mT / 32**0.5


# %% jupyter={"source_hidden": true}
JOBS = {
    "alone": {"mixer": lambda width: torch.zeros_like},
    "mean": {"mixer": Mixer},
    "table": {"mixer": Table},
    "h h": {"mixer": Alike},
    "h h, 2,100 steps": {"mixer": Alike, "steps": 2100},
    "h h, same digit": {"mixer": Alike, "up": 0},
    "own masked": {"mixer": Masked},
    "one map": {"mixer": OneMap},
    "rolled by 16": {"mixer": partial(Rolled, places=16)},
    "rolled by 13": {"mixer": Rolled},
    "q, k, v": {"mixer": QKV},
    "q and k, no v": {"mixer": NoValue},
    "q, k, v, same digit": {"mixer": QKV, "up": 0},
    "2,100 steps": {"mixer": QKV, "steps": 2100},
    "two heads": {"mixer": Unplaced},
    "width 128": {"mixer": partial(QKV, d=128), "width": 128},
    "the table added": {"mixer": partial(Heads, heads=1)},
    "two mixing steps, 2,100 steps": {"mixer": Twice, "steps": 2100},
}

# %% jupyter={"source_hidden": true}
for d in (32, 1024):
    JOBS[f"d {d:,}, not divided"] = {"mixer": partial(NoValue, d=d, divided=False)}
JOBS["d 1,024, divided"] = {"mixer": partial(NoValue, d=1024)}
small = partial(NoValue, d=1024, divided=False, power=-0.25)
JOBS["d 1,024, not divided, small start"] = {"mixer": small}
large = partial(NoValue, d=1024, power=0.25)
JOBS["d 1,024, divided, large start"] = {"mixer": large}
JOBS["sigmoid(q·k + table)"] = {"mixer": partial(SigmoidOfSum, heads=1)}
JOBS["sigmoid(q·k) · exp(table)"] = {"mixer": partial(SigmoidTimes, heads=1)}
TURNED = {"rotary": Rotary, "mixture": Mixture}
BOTH = {
    "table alone": {"mixer": Table},
    "one head": {"mixer": partial(Heads, heads=1)},
    "two heads": {"mixer": Heads},
    "two heads, v = h": {"mixer": Own},
    "one head, sigmoid": {"mixer": partial(SigmoidOfSum, heads=1)},
    "one head, 2,100 steps": {"mixer": partial(Heads, heads=1), "steps": 2100},
    "one head, 7,000 steps": {"mixer": partial(Heads, heads=1), "steps": 7000},
    "two heads, 2,100 steps": {"mixer": Heads, "steps": 2100},
}


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.15):
    """Return shares of test questions that are answered right."""
    found = {}
    for name, how in JOBS.items():
        found[name] = right(learn(seed=seed, **how), up=how.get("up", 1))
    for name, mixer in TURNED.items():
        net = learn(mixer, seed=seed)
        found |= {name: right(net), f"{name}, rows of 24": right(net, length=24)}
        net.mixer.first = 12
        found[f"{name}, from 12 on"] = right(net)
    for name, how in BOTH.items():
        net = learn(seed=seed, asked=(0, 1), **how)
        found |= {
            f"{name}: {question}": right(net, "AB".index(question)) for question in "AB"
        }
    return {name: round(score, 4) for name, score in found.items()}


# %% tags=["trained"] jupyter={"source_hidden": true}
near = abs(right(asking) - stored[0]["q, k, v"])
holds(near < 0.06, "The stored runs are those of this code.")

# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. Attention is a weighted mean of the past, its weights the softmax of query · key. h · h is largest for what is alike: A .49. Free of that, but the same in both directions: .62. With two sides that differ: .74 | this task, 700 steps; "the same digit" needs no q and k |
# | 2. With one mixing step and scores from content alone, the order of the past does not count: .759 here | positions in the scores, or a second mixing step below a causal mask |
# | 3. In one head each pair has one weight: two questions at once want two heads | one head gets as far with about ten times the steps |
# | 4. Divided by √d, new scores are as sharp at every width | wide heads; a division or a smaller start, either was enough |
# | 5. A rotation keeps lengths, and scores depend on distances alone | pairs and angles must be chosen the same way |

# %%
summary("08a")

# %% [markdown]
# ## Next
#
# - [Lesson 08b](08b_long_convolution.ipynb) lets each position depend on distant ones without comparing every pair.
# - [The appendix](08a_attention_more.ipynb): the library's attention, images, QK-norm, what one position's output depends on.
# - [Homework for lessons 08a and 08b](homework/hw_08a_08b.ipynb), once you have done lesson 08b.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
