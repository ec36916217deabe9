# %% [markdown]
# # 04 · Pre-norm and post-norm
#
# 90 minutes; readers took 110 to 130. Nothing is downloaded. It follows [lesson 03](03_dropout_and_stochastic_depth.ipynb). Of [lesson 02](02_layer_norm.ipynb) it uses what LayerNorm does to a row, and to the
# gradient on its way back; of [lesson 00](00_residual_connection.ipynb), how to follow a distance through x + f(x) on paper.
#
# By the end you can
#
# - **compute** on paper what each placement of the norm leaves of the difference between two inputs;
# - **say** what one step of Adam adds to every branch, and what each placement makes of it;
# - **separate**, by runs that change one thing, a cause from what only goes with it;
# - **choose** placement, learning rate, warm-up and initial weights, and **recognise** a placement in somebody's code.

# %%
import math

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, predict, progress, setup, show, summary
from residual_course.plots import placement as plots
from residual_course.training import accuracy

device = setup()
progress("04")

# %% [markdown]
# ## One norm, two places
#
# The first Transformer ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)) has its norm after each sum. Since
# [GPT-2](https://github.com/openai/gpt-2/blob/master/src/model.py) most have it before each branch. Follow the blue
# line, the residual stream:

# %% tags=["figure"]
fig = Figure(figsize=(6, 4.2))
above, below = fig.subplots(2, 1)
plots.plot_wiring("pre", above).set_title(
    "pre-norm: on the stream stand sums, then one norm"
)
plots.plot_wiring("post", below).set_title("post-norm: each sum is followed by a norm")
alt = "Two blocks, drawn twice. Pre-norm: the norm stands before f on the branch, and "
alt += "one more after the last block. Post-norm: the norm stands on the stream, after "
show(fig, alt=alt + "each sum.")

# %% [markdown]
# `Block` is both. f is a linear layer, a ReLU, a linear layer. The weights are random, with the variances 1/64 and
# 2/64. On paper, as in lesson 02, the two layers multiply a mean square by 1 and by 2, and the ReLU halves it: f(x) is as large as x. That is
# our choice: with PyTorch's own, smaller weights f(x) is a quarter as large.


# %%
class Block(nn.Module):
    def __init__(self, place, size=1.0):
        super().__init__()
        self.place, self.norm = place, nn.LayerNorm(64)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        nn.init.normal_(self.first.weight, std=math.sqrt(1 / 64))
        nn.init.normal_(self.second.weight, std=math.sqrt(2 / 64) * size)
        nn.init.zeros_(self.first.bias)
        nn.init.zeros_(self.second.bias)

    def f(self, x):
        return self.second(F.relu(self.first(x)))

    def forward(self, x):
        if self.place == "pre":
            return x + self.f(self.norm(x))
        return self.norm(x + self.f(x))


def build(place, depth=48, seed=0, size=1.0):
    torch.manual_seed(seed)
    blocks = [Block(place, size) for _ in range(depth)]
    last = nn.LayerNorm(64) if place == "pre" else nn.Identity()
    return nn.Sequential(*blocks, last, nn.Linear(64, 10)).to(device)


# %% [markdown]
# We train 48 blocks of each kind on digits of 8 × 8 pixels, with Adam at twice its default rate, 0.002, and three seeds. (Folded: the data
# and the training loop, with a `watch` called before each step.)


# %% jupyter={"source_hidden": true}
from functools import partial

data = digits()
train_x, test_x = (F.layer_norm(x.flatten(1), (64,)).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


def train(net, rate, steps, seed, watch=lambda step: None, make=None, clip=None):
    optimizer = (make or partial(torch.optim.Adam, fused=True))(net.parameters(), 0.1)
    generator, losses = torch.Generator().manual_seed(seed), []
    for step in range(steps):
        watch(step)
        for group in optimizer.param_groups:  # `rate` may be a function of the step
            group["lr"] = rate(step) if callable(rate) else rate
        rows = torch.randint(len(train_x), (64,), generator=generator).to(device)
        loss = F.cross_entropy(net(train_x[rows]), train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return losses


def right(net):
    return accuracy(net, test_x, test_y)


# %% tags=["figure", "trained"]
from residual_course.plots.plain_and_residual import plot_two_losses

nets = {
    place: [build(place, seed=seed) for seed in range(3)] for place in ("pre", "post")
}
losses, shares = {}, {}
for place, three in nets.items():
    found = [train(net, 0.002, 120, seed) for seed, net in enumerate(three)]
    losses[f"{place}-norm"] = found
    shares[place] = [right(net) for net in three]
    print(f"{place}-norm: test digits right", *[f"{one:4.0%}" for one in shares[place]])
holds(min(shares["pre"]) > 0.85, "Pre-norm trains with each seed.")
holds(max(shares["post"]) < 0.3, "Post-norm trains with none.")
ax = plot_two_losses(losses, Figure().add_subplot(), guessing=math.log(10))
ax.set_title("48 blocks, 120 steps of Adam at 0.002")
ax.texts[-1].set_position((25, 2.1))  # below the curves
alt = (
    "Training loss, three seeds. Pre-norm falls to about 0.1; post-norm stays at 2.3, "
)
show(ax.figure, alt=alt + "the loss of guessing at random.")

# %% [markdown]
# Layers, rate and batches are the same. Perhaps post-norm is only slow?

# %% jupyter={"source_hidden": true}
from residual_course.lesson import stored_runs

stored = stored_runs("04_pre_norm_and_post_norm")["runs"]  # its code: at the end


def row(name, step):
    """Return what is stored for three seeds: at a step, the test digits right."""
    return [stored[seed][f"{name}: {step}"] for seed in range(3)]


def tell(name, *columns):
    """Print three seeds a column: of a step, or of a key, with a form and a factor."""
    found = []
    for column in columns:
        key, form, times = (
            column if isinstance(column, tuple) else (column, "{:4.0%}", 1)
        )
        found.append("  ".join(form.format(times * one) for one in row(name, key)))
    print(f"{name:36}", "      ".join(found))


# %% tags=["predict"]
guess = predict(
    "Post-norm trains on, to 1,200 steps. How many test digits are right?",
    ["about 10 %", "about 50 %", "over 80 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print(f"{'rate 0.002':36} 120 steps             240 steps             1,200 steps")
tell("post, 0.002", 120, 240, 1200)
print("rate 0.001, Adam's default")
for name in "post", "post, PyTorch's weights":
    tell(name, 120, 240, 1200)
end = sum(row("post, 0.002", 1200)) / 3
holds(end < 0.3, "After 1,200 steps post-norm still guesses.")
guess.reveal(
    "about 10 %" if end < 0.3 else "about 50 %" if end < 0.65 else "over 80 %",
    why={
        "about 10 %": "More steps at this rate do not help it.",
        "about 50 %": "That would be so if the steps were right and too few.",
        "over 80 %": "That would be so if the two placements differed in speed alone.",
    },
    after="With PyTorch's weights post-norm trains, so the size of the branches "
    "matters. Shares in tables are means over the 20 steps before, stored, one number "
    "for each seed.",
)

# %% [markdown]
# ## Where the digits went
#
# Take 64 test digits, and follow them through the blocks of seed 0: how far apart are they? We measure `apart`: the root mean square (rms) of
# their differences from their mean, after a norm, so that the two placements can be compared. For the images it is 0.7, and it can be at most 1.


# %%
import copy


def rms(x):
    return x.square().mean().sqrt().item()


def apart(x):
    x = F.layer_norm(x, (64,))
    return rms(x - x.mean(0))


@torch.no_grad()
def distances(net, x):
    """Return how far the rows of x are apart after each block, over the start."""
    net, x = copy.deepcopy(net).cpu().double(), x.cpu().double()
    found = [apart(x)]
    for block in net[:-2]:
        x = block(x)
        found.append(apart(x))
    return [one / found[0] for one in found]


# %% tags=["figure", "trained"]
def watched(place, steps, seed=0):
    """Train, and return `distances` before some of the steps."""
    net, found = build(place, seed=seed), {}

    def watch(step):
        if step in steps:
            found[f"{place}-norm, step {step}"] = distances(net, test_x[:64])

    train(net, 0.002, max(steps) + 1, seed, watch)
    return found


curves = watched("post", (0, 1, 10, 60)) | watched("pre", (60,))
ax = plots.plot_distances(curves, Figure(figsize=(6, 4)).add_subplot())
ax.set_title("Post-norm's digits become alike")
alt = (
    "Distance between digits after each block, over the start, logarithmic. Post-norm "
)
alt += "loses half at step 0, and at step 60 all but less than a thousandth. "
show(ax.figure, alt=alt + "Pre-norm at step 60 has lost nothing.")
ends = {name: curve[-1] for name, curve in curves.items()}
lost = ends["post-norm, step 60"]
print(", ".join(f"{name}: {end:.1g}" for name, end in ends.items()))
holds(lost < 1e-3 < 0.4 < ends["pre-norm, step 60"], "Post-norm makes digits alike.")

# %% [markdown]
# At step 0 half of the distance is left. After 60 steps less than a thousandth is left: the last linear layer (the **head**)
# receives nearly the same 64 numbers for every digit. What multiplies a distance in each block?
#
# ## One block on paper
#
# Take two inputs x that differ a little, and rows of rms 1. Two numbers describe a branch:
#
# - **r**, its size: rms of f(x) over rms of x.
# - its **gain**: how many times as far apart two outputs are as the two inputs, on average over the directions in which these may differ.
#
# Both are 1 for our weights at the start. The weights are random, so f(x) is perpendicular to x on average, and squares
# add (lesson 02). **The sum** x + f(x) has the rms √(1 + r²), and the distance has become √(1 + gain²) times as large. **Post-norm's norm** divides both by √(1 + r²). It also
# removes two of 64 directions (the mean, and the row itself), on average 2/64 of the square. So one block of post-norm multiplies a
# distance by
#
# $$\sqrt{\frac{1 + \mathrm{gain}^2}{1 + r^2}\cdot\frac{62}{64}}$$
#
# and 48 blocks by the product of 48 such factors. The gradient on its way back passes the transposed matrices, whose average gain is the same, and is
# multiplied by the same product. For r = gain = 1 that is 0.984 a block, 0.47 in all.
#
# In pre-norm the sum is not divided, until the last norm. The rest is yours.
#
# ### Exercise 1 · 9 minutes · ●●●○○
#
# Return what a pre-norm network leaves of a small distance, after its last norm, if each of `depth` branches has the
# same r and gain. The stream starts with the rms 1. A branch receives norm(x), and its output is perpendicular to
# the stream. Leave the two directions out, since they matter little here.
#
# <details><summary>Hint 1</summary>Follow two numbers from block to block: the squared rms of the stream, and the
# squared distance.</details>
# <details><summary>Hint 2</summary>The norm before a branch divides the distance, too, by the rms of the stream at that
# place. What the branch then adds to the two squares is r² and gain² · (the divided distance)².</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "pre-norm-left", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pre_norm_left(r, gain, depth):
    """Return the distance after the last norm, over that at the start."""
    ### BEGIN SOLUTION
    size, distance = 1.0, 1.0  # both squared
    for _ in range(depth):
        distance += gain**2 * distance / size
        size += r**2
    return math.sqrt(distance / size)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "pre-norm-left-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(pre_norm_left, "pre_norm_left")

# %% [markdown]
# ## Larger branches, or a smaller gain?
#
# A factor below 1 needs r above the gain. In the 60 steps in which the digits became alike, did r grow, or did the gain
# fall? We measure the gain with small random differences.


# %%
@torch.no_grad()
def size_and_gain(f, x):
    v = 0.01 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
    out = f(x)
    return rms(out) / rms(x), rms(f(x + v) - out) / rms(v)


def factor(r, gain):
    return math.sqrt((1 + gain**2) / (1 + r**2) * 62 / 64)


# %% jupyter={"source_hidden": true}
def state(net):
    """Return r, common part, gain, two products, what is left, and the gradients'."""
    net, x = copy.deepcopy(net).cpu().double(), test_x[:64].cpu().double()
    logs, paper, summed = [], 1.0, 1.0
    for block in net[:-2]:
        r, gain = size_and_gain(block.f, x)
        with torch.no_grad():
            out = block.f(x)
            common = rms(out.mean(0)) / rms(x)
            logs.append([math.log(one) for one in (r, common, gain)])
            paper *= factor(r, gain)
            summed *= factor(r, gain) * math.sqrt(1 + r**2) / rms(x + out)
            x = block(x)
    batch, labels = train_x[:64].cpu().double(), train_y[:64].cpu()
    F.cross_entropy(net(batch), labels).backward()
    first, last = (rms(net[place].second.weight.grad) for place in (0, 47))
    means = [math.exp(sum(one) / len(logs)) for one in zip(*logs, strict=True)]
    return *means, paper, summed, distances(net, test_x[:64])[-1], first / last


# %% jupyter={"source_hidden": true}
states = {}
for seed in range(3):
    net = build("post", seed=seed)

    def watch(step, net=net, seed=seed):
        if step in (0, 10, 60):
            states[step, seed] = state(net)

    train(net, 0.002, 61, seed, watch)
pairs = [(states[0, seed], states[60, seed]) for seed in range(3)]
grown = sum(after[0] - before[0] for before, after in pairs) / 3
fallen = sum(before[2] - after[2] for before, after in pairs) / 3
if max(grown, fallen) < 0.05:
    became = "neither"
elif fallen < grown / 2:
    became = "r grows"
else:
    became = "the gain falls" if grown < fallen / 2 else "both, equally"

# %% tags=["predict"]
guess = predict(
    "From step 0 to step 60 of failing: what becomes of the branches?",
    ["r grows", "the gain falls", "both, equally", "neither"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print("step seed     r   gain    (means over the blocks)")
for (step, seed), (r, _, gain, *_) in sorted(states.items()):
    print(f"{step:4} {seed:4}  {r:.2f}   {gain:.2f}")
holds(grown > 0.1 and fallen < 0.08, "r grows, and the gain stays.")
guess.reveal(
    became,
    why={
        "r grows": "The branches' outputs become larger, and the gain stays.",
        "the gain falls": "That happens where units of the ReLU die. Here they do not.",
        "both, equally": "Then the branches would only have become steeper or flatter.",
        "neither": "Then the factor would stay what it was at step 0.",
    },
)

# %% [markdown]
# Now the product of the 48 factors, beside the distance that is left, and beside the gradient of the first block over that of the last. "With
# sum" divides by the measured rms of x + f(x) in the place of √(1 + r²).

# %% tags=["trained"] jupyter={"source_hidden": true}
print("step seed    product   with sum   distance   gradient")
for (step, seed), (*_, paper, summed, left, gradient) in sorted(states.items()):
    numbers = f"{paper:8.1g}   {summed:8.1g}   {left:8.1g}   {gradient:8.1g}"
    print(f"{step:4} {seed:4}   {numbers}")
holds(max(after[5] for _, after in pairs) < 1e-3, "Little of the distance is left.")

# %% [markdown]
# **Law 1.** A post-norm block multiplies the distance between inputs, and the gradient, by √(1 + gain²) over the rms of x +
# f(x), which is √(1 + r²) where the two are perpendicular.
#
# So nearly the same product makes the digits alike and the gradient of the first blocks vanish. Over 48 blocks both
# products are right to a factor of fifty only: after 60 steps "product" is too large, and "with sum" too small.
#
# ## Why do the branches grow?
#
# The first step of Adam moves each weight by the rate, up or down, unless its gradient is near Adam's eps of 10⁻⁸ or smaller. One output of f is a
# weighted sum of 64 hidden units. After the ReLU these are never negative; their mean is 0.4, and their mean square ½. If all 64
# weights of a sum move the same way, the output moves at a rate of 0.001 by 64 · 0.4 · 0.001 = 0.026. If each moved up or down by chance, it would move by
# 0.001 · √(64 · ½) = 0.006.
#
# We compare each f of new networks before and after a step (folded).


# %% jupyter={"source_hidden": true}
def moved(place, seed, rate=0.001):
    """Return how far one step of Adam moves f(x): all of it, and what digits share."""
    net = build(place, seed=seed)
    old, x, found = copy.deepcopy(net), test_x[:64], []
    train(net, rate, 1, seed)
    with torch.no_grad():
        for was, now in zip(old[:-2], net[:-2], strict=True):
            given = was.norm(x) if place == "pre" else x
            hidden = F.relu(was.first(given))
            second = now.second(hidden) - was.second(hidden)
            whole = now.f(given) - was.f(given)
            both = second, second.mean(0), whole, whole.mean(0)
            found.append([rms(part) for part in both])
            x = was(x)
    return [sum(column) / 48 for column in zip(*found, strict=True)]


moves = {(p, seed): moved(p, seed) for p in ("post", "pre") for seed in range(3)}
shared = sum(moves["post", seed][3] / moves["post", seed][2] for seed in range(3)) / 3

# %% tags=["predict"]
guess = predict(
    "One step, post-norm: how much of f's move is the same for all digits?",
    ["about a tenth", "about half", "over nine tenths"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print("              second layer alone        all of f")
print("place seed    moves    shared        moves    shared")
for (place, seed), (second, alike, whole, common) in moves.items():
    print(f"{place:5} {seed:4}    {second:.3f}    {alike:.3f}", end="")
    print(f"         {whole:.3f}    {common:.3f}")
holds(shared > 0.85, "One step moves f alike for all digits.")
guess.reveal(
    "about a tenth"
    if shared < 0.3
    else "about half"
    if shared < 0.8
    else "over nine tenths",
    why={
        "about a tenth": "That would be so if two digits had little in common in the "
        "hidden units.",
        "about half": "They have more in common than that: a unit that is never "
        "negative has a mean.",
        "over nine tenths": "A weight is moved once, for all digits, and most of what "
        "it is multiplied by, its hidden unit, is the same for all of them.",
    },
    after="The second layer alone comes near to 0.026. With the first layer f moves "
    "more than twice as far. Pre-norm's branches move so too.",
)

# %% [markdown]
# Why do most weights of a sum move the same way? The gradient of a weight is a sum over the digits: its hidden unit times the gradient of its
# output. Where the hidden units are nearly the same for all digits, and none is negative, all 64 weights of an output have gradients of one sign.
#
# So one step of Adam adds a common part to all 48 branches, with both placements. A tenth of the rate makes a tenth of the step. How much of r
# is common? We average f's output over the 64 digits, and take the rms of what is left:

# %% tags=["trained"]
print("step seed     r   common")
for (step, seed), (r, common, *_) in sorted(states.items()):
    print(f"{step:4} {seed:4}  {r:.2f}     {common:.2f}")
holds(min(one[1] / one[0] for one in states.values()) > 0.8, "Most of r is common.")
early = [max(states[10, seed][5:]) for seed in range(3)]
holds(max(early) < 1e-3, "After ten steps the digits are alike.")

# %% [markdown]
# Nearly all of it, from the start: hidden units that are never negative have a mean, the digits share one, and each block's common output makes the
# inputs of the next more alike. And the common part is what grows; being the same for all inputs, it raises r and not the gain. In post-norm each of 48 norms then divides the distance a little more; in pre-norm, as you derived, one norm
# does. Ten steps are enough: after them less than a thousandth of the distance is left, and of the gradient that reaches the first block.
#
# ## Put the common part in
#
# All this goes together. Is a common part enough to stop a network? At a rate of 0.0003, 48 post-norm blocks do train, if
# slowly. Before training, we add something to each branch:
#
# - A: **post-norm, a vector.** A random vector of rms 2 is added to f's bias, another one in each block. Now r = √(1 + 4) =
#   2.24, and the gain is still 1.
# - B: **post-norm, a turn.** f(x) + 2 · Qx, with a random rotation Q in each block. This is as large, r = 2.24, but
#   it moves with x: the gain is 2.24 too.
# - C: **pre-norm, a vector**, as in A.
#
# First compute what 48 blocks leave in each, in a cell of your own: `factor(r, gain) ** 48`, and `pre_norm_left(r, gain, 48)`.


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def with_vectors(net, seed, size=2.0, same=False):
    """Add a random vector to the bias of each branch."""
    generator = torch.Generator().manual_seed(100 + seed)
    vectors = F.layer_norm(torch.randn(48, 64, generator=generator), (64,))
    for block, vector in zip(net[:-2], vectors, strict=False):
        block.second.bias += size * (vectors[0] if same else vector).to(device)
    return net


def with_turns(net, seed, size=2.0):
    """Add a rotation of its input to each branch's output."""
    generator = torch.Generator().manual_seed(100 + seed)
    for block in net[:-2]:
        turn, _ = torch.linalg.qr(torch.randn(64, 64, generator=generator))
        block.f = partial(turned, block.f, size * turn.to(device))
    return net


def turned(f, turn, x):
    return f(x) + x @ turn.to(x)


# %% tags=["predict"]
guess = predict(
    "Which of them train, in 240 steps at 0.0003?",
    ["A, B and C", "B and C", "B alone", "C alone"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print(f"{'rate 0.0003, right after':36} 240 steps")
tell("post, 0.0003", 240)
cases = {"A": "post, vector", "B": "post, turn", "C": "pre, vector"}
for name in cases.values():
    tell(name, 240)
train_well = [case for case, name in cases.items() if sum(row(name, 240)) / 3 > 0.6]
holds(max(row("post, vector", 240)) < 0.3, "A does not train.")
holds(min(row("post, turn", 240) + row("pre, vector", 240)) > 0.8, "B and C train.")
choice = {"ABC": "A, B and C", "BC": "B and C", "B": "B alone", "C": "C alone"}
guess.reveal(
    choice.get("".join(train_well), "none of these"),
    why={
        "A, B and C": "In A 48 factors of 0.57 leave 10⁻¹² of the distance.",
        "B and C": "In B the distance grows with the sum. In C the vectors add up in "
        "the stream, but they are divided out once.",
        "B alone": "A norm does not remove such a vector (it removes the mean over "
        "features). But pre-norm divides by the sum of all vectors once.",
        "C alone": "B's branches are as large as A's, and r = gain.",
    },
)

# %% [markdown]
# How large must the vectors be? (Pre-norm with turns, or with larger or equal vectors: [appendix](04_pre_norm_and_post_norm_more.ipynb).)

# %% tags=["trained"] jupyter={"source_hidden": true}
print("post, vectors of rms    right after 240 steps   48 factors")
for size in 0.25, 0.75:
    shares = (f"{one:4.0%}" for one in row(f"post, vector of rms {size}", 240))
    left = factor(math.hypot(1, size), 1) ** 48
    print(f"{size:<23} {'  '.join(shares)}        {left:.0e}")
for name, edit in ("vector", with_vectors), ("turn", with_turns):
    r, common, gain, *_ = state(edit(build("post"), 0))
    print(f"new, {name}: r {r:.1f}, common {common:.1f}, gain {gain:.1f}")
holds(min(row("post, vector of rms 0.25", 240)) > 0.6, "Small vectors do not stop it.")
holds(max(row("post, vector of rms 0.75", 240)) < 0.4, "Vectors of 0.75 do.")

# %% tags=["figure"]
from residual_course.exercises.pre_norm_left import left as solved

curves, paper = {}, {}
kinds = ("post-norm, vector", with_vectors), ("post-norm, turn", with_turns)
for name, edit in (*kinds, ("pre-norm, vector", with_vectors)):
    made = [edit(build(name.partition("-")[0], seed=s), s).double() for s in range(3)]
    curves[name] = [distances(net, test_x[:64].double()) for net in made]
paper["post"] = [factor(5**0.5, 1) ** depth for depth in range(49)]
paper["turn"] = [factor(5**0.5, 5**0.5) ** depth for depth in range(49)]
paper["pre"] = [solved(5**0.5, 1, depth) for depth in range(49)]  # exercise 1
ax = plots.plot_distances(curves, Figure(figsize=(6, 4)).add_subplot(), paper)
ax.set_title("New networks: measured, and on paper (thin)")
alt = (
    "Distance left after each of 48 blocks, logarithmic. Post-norm with vectors falls "
)
alt += "along its thin line to 1e-12; with turns, and pre-norm with vectors, it stays "
show(ax.figure, alt=alt + "above a tenth.")

# %% [markdown]
# **Law 2.** What raises r and not the gain, here a vector from 0.75 of x on, is enough to stop 48 post-norm blocks for 240 steps. A turn as large raises both and
# does not, though most of its output is common too. Pre-norm divides by the sum of all parts once.
#
# ## A network that has failed
#
# Does it recover? The folded cell makes one, with 40 steps at 0.003. Then it trains at 0.0003, as a new network does.


# %% jupyter={"source_hidden": true}
def failed(seed):
    """Return 48 post-norm blocks after 40 steps at a rate of 0.003."""
    net = build("post", seed=seed)
    train(net, 0.003, 40, seed)
    return net


handed_over = failed(0)

# %% tags=["predict"]
guess = predict(
    "400 more steps at 0.0003: what becomes of the failed network?",
    ["it trains", "half-way", "it still guesses"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print(f"{'at 0.0003, right after':36} 400 steps")
for name in "failed", "post, 0.0003":
    tell(name, 400)
middle = sum(row("failed", 400)) / 3
r, common, gain, *_, left, _ = state(handed_over)
print(f"seed 0: r {r:.2f}, common {common:.2f}, gain {gain:.2f}, left {left:.0e}")
holds(max(row("failed", 400)) < 0.4, "The failed network does not recover.")
guess.reveal(
    "it still guesses"
    if middle < 0.3
    else "half-way"
    if middle < 0.65
    else "it trains",
    why={
        "it trains": "A new network does, at this rate. But here the head "
        "receives the same numbers for all digits.",
        "half-way": "That would be so if some blocks had stayed as they were.",
        "it still guesses": "When this training begins, the head receives the "
        "same for all digits.",
    },
)

# %% jupyter={"source_hidden": true}
net = copy.deepcopy(handed_over)
F.cross_entropy(net(train_x[:64]), train_y[:64]).backward()
print(
    f"gradient of the first block's last weights: {rms(net[0].second.weight.grad):.0e}"
)

# %% [markdown]
# That is far below Adam's eps. But eps is not why it stays so: with 10⁻¹⁶ it still guesses.
#
# ### Exercise 2 · 14 minutes · ●●●●○
#
# Mend it, without a step of training, and without touching a weight: only the 48 bias vectors `block.second.bias` may
# change. `blocks` are the 48 blocks, each with `block.f(x)` and `block(x)`; `x` are 256 digits. The check wants half of
# the distance between *other* digits to be left after the last block.
#
# <details><summary>Hint 1</summary>Which part of <code>block.f(x)</code>, with one row a digit, do all digits share?</details>
# <details><summary>Hint 2</summary>The bias is added to f's output, so it can cancel that part. The second block
# receives what the first one, mended, returns.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mend-the-biases", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mend(blocks, x):
    """Change the biases `block.second.bias` in place, so that digits stay apart."""
    ### BEGIN SOLUTION
    with torch.no_grad():
        for block in blocks:
            block.second.bias -= block.f(x).mean(0)
            x = block(x)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mend-the-biases-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mend, "mended_biases")

# %% [markdown]
# Does it learn again? The next cell trains the network that was handed over, with your biases, for 400 steps at 0.0003.

# %% tags=["trained"]
mine = copy.deepcopy(handed_over)
try:
    mend(mine[:48], train_x[:256])
except NotImplementedError:
    print("Exercise 2 is not written yet: run this cell again after it.")
else:
    r, common, gain, *_, left, _ = state(mine)
    print(f"mended: r {r:.2f}, common {common:.2f}, gain {gain:.2f}, left {left:.2g}")
    train(mine, 0.0003, 400, 9)
    print(f"after 400 steps: {right(mine):.0%} of the test digits right")
    holds(right(mine) > 0.35, "The mended network learns.")

# %% [markdown]
# Stored, for three seeds, with other ways to change the same biases:

# %% tags=["trained"] jupyter={"source_hidden": true}
print(f"{'at 0.0003, right after':36} 1,200 steps")
ways = "mended as in exercise 2", "set to 0", "a random vector added"
for name in ("failed", *(f"failed, {way}" for way in ways)):
    tell(name, 1200)
mended, *others = (row(f"failed, {way}", 1200) for way in ways)
zeros = copy.deepcopy(handed_over)
for block in zeros[:48]:
    block.second.bias.data.zero_()
print(f"biases set to 0, seed 0: r {state(zeros)[0]:.2f}")
holds(min(mended) > 0.45 > max(max(one) for one in others), "Only the first mends.")

# %% [markdown]
# With biases of 0, r stays large: the weights produce the common part too.
#
# ## Take it out in each step
#
# Now the rate is 0.001, Adam's default. From each branch's output we subtract its mean over the digits of the batch (in the test,
# over all test digits), in each step. The mean is a constant there: no gradient passes through it.
#
# That changes two things: the common part goes, and the branch becomes smaller, since most of it was common. So we also change one at a time:
# "size kept" multiplies what is left until it is as large as f(x); "as small" leaves the common part in, and makes f(x) as small as what would be left.

# %% tags=["trained"] jupyter={"source_hidden": true}
taken = "common part subtracted"
three = taken, "subtracted, size kept", "common part left in, as small"
print(f"{'rate 0.001, right after':36} 120 steps             240 steps")
for name in "post", *(f"post, {how}" for how in three):
    tell(name, 120, 240)
least = min(min(row(f"post, {how}", 240)) for how in three)
holds(max(row("post", 120)) < 0.3 < least, "Each change lets it learn.")
print(f"\n{'after 240 steps':36} r                common            gain")
for how in three:
    numbers = [(f"240 {what}", "{:4.2f}", 1) for what in ("r", "common", "gain")]
    tell(f"post, {how}", *numbers)

# %% [markdown]
# Each alone lets the network learn: either there is no common part, or it is small. The factor is far below 1 only where r is large *and* above the gain.

# %% tags=["predict"]
guess = predict(
    "The common part is subtracted in each step. What is right after 1,200 steps?",
    ["over 85 %", "about as many", "under 50 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print(f"{'rate 0.001, right after':36} 240 steps             1,200 steps")
for how in three:
    tell(f"post, {how}", 240, 1200)
end = sum(row(f"post, {taken}", 1200)) / 3
holds(end < 0.5, "Without the common part it learns, and falls back.")
guess.reveal(
    "under 50 %" if end < 0.5 else "about as many" if end < 0.85 else "over 85 %",
    why={
        "over 85 %": "That would be so if the common part were the only way to fail.",
        "about as many": "That would be so if it had found a place to stay.",
        "under 50 %": "There is a second way to fail, and it comes later.",
    },
)

# %% [markdown]
# ## A second failure
#
# Are the digits alike again? We look at the last block: the distance that is left, and the **number of directions** in which its outputs
# differ. Take their differences from the mean, and the squared singular values s of that matrix: (Σs)²/Σs² is 1 if all differ along one line,
# and 64 if they differ equally in all directions.

# %% tags=["trained"] jupyter={"source_hidden": true}
print(f"{'distance left':36} 120 steps             1,200 steps")
for name in "pre", f"post, {taken}":
    tell(name, ("120 left", "{:4.1f}", 1), ("1200 left", "{:4.1f}", 1))
print("directions")
for name in "pre", f"post, {taken}":
    tell(name, *((f"{at} directions", "{:4.1f}", 64) for at in (120, 1200)))
late = [64 * one for one in row(f"post, {taken}", "1200 directions")]
holds(max(late) < 4, "Few directions are left.")
holds(min(row(f"post, {taken}", "1200 left")) > 0.5, "The distance is left.")

# %% [markdown]
# The digits stay as far apart as can be: `apart` is 0.7 at the start and at most 1, so 1.4 is the ceiling. But nearly all their differences lie along one or
# two lines. So post-norm fails in two ways at this rate: the digits become alike; and where that is prevented, they come to differ along few
# directions. (Why steps of this size do that, we did not find out. The appendix switches off other
# suspects of the first failure. SGD fails at 0.3 as well; at 0.005 it trains.)
#
# ## What makes post-norm train
#
# Smaller initial weights, as with PyTorch's above; "branches / √48" divides f's last weights by √48, so that r = 0.14. And a
# smaller rate:

# %% tags=["trained"] jupyter={"source_hidden": true}
SMALLER = "post, 0.003, branches / √48"
print(f"{'':36} 240 steps             2,400 steps")
for name in SMALLER, "post, 0.0003":
    tell(name, 240, 2400)
holds(min(row(SMALLER, 2400)) > 0.6, "Small branches train.")
holds(min(row("post, 0.0003", 2400)) > 0.6, "At a smaller rate it trains.")

# %% [markdown]
# The first Transformer was trained with a **schedule**: the rate grows to its full value, the **warm-up**, and then falls as 1/√step. We
# take 0.0006, between a rate that trains and one that fails, and 2,400 steps:
#
# - constant, which fails
# - warm-up of 300 steps, then constant
# - falling alone: constant for 300 steps, then as 1/√step
# - both: warm-up of 300 steps, then falling

# %% tags=["predict"]
guess = predict(
    "48 post-norm blocks, 2,400 steps. Which of the last three end over 80 %?",
    ["all three", "warm-up, and both", "falling, and both", "both alone"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print(f"{'':36} 300 steps             2,400 steps")
ends = {}
for name in "", ", falling", ", warm-up", ", both":
    tell(f"post, 0.0006{name}", 300, 2400)
    ends[name[2:3]] = min(row(f"post, 0.0006{name}", 2400))
well = "".join(one for one in "wfb" if ends[one] > 0.8)
holds(ends["b"] > 0.8 > max(ends["f"], ends["w"]), "Both are needed.")
guess.reveal(
    {"wfb": "all three", "wb": "warm-up, and both", "fb": "falling, and both"}.get(
        well, "both alone"
    ),
    why={
        "all three": "Without a warm-up the first steps are too large at this rate.",
        "warm-up, and both": "The warm-up gets the network through the first steps. "
        "But at the full rate it does not last.",
        "falling, and both": "It fails before the rate falls.",
        "both alone": "The warm-up gets it through the first steps, and the smaller "
        "rate later keeps it there.",
    },
)

# %% [markdown]
# What ends the training, without a warm-up and with it? And does the *fall* help, or only that the rate is small later? Two more: the same
# warm-up, then 0.0003 from step 600 on; and 0.0003 from the first step.

# %% tags=["trained"] jupyter={"source_hidden": true}
warm, both, down = (
    f"post, 0.0006, {how}" for how in ("warm-up", "both", "warm-up, then 0.0003")
)
print(f"{'':36} right, 2,400 steps    directions, 300       2,400")
for name in "post, 0.0006", warm, both, down:
    tell(name, 2400, *((f"{at} directions", "{:4.1f}", 64) for at in (300, 2400)))
tell("post, 0.0003", 2400)
least = min(min(row(name, 2400)) for name in (both, down, "post, 0.0003"))
holds(least > 0.8, "A small rate later is enough.")
few = max(row("post, 0.0006", "300 directions"))
holds(few < min(row(warm, "300 directions")), "A warm-up keeps directions.")
late = max(row(warm, "2400 directions"))
holds(late < min(row(down, "2400 directions")), "At the full rate it loses them.")

# %% [markdown]
# Without a warm-up few directions are left after 300 steps; with it they go later, at the full rate. The fall itself is not
# needed: one step down to 0.0003 does as well, and so does a rate that never exceeds it. So at 0.0006 a schedule must begin small, and be small again in time.
#
# ### Move it yourself
#
# 64 settings, three seeds each, 80 steps. "As large": branches as large as x; "small": divided by √depth. Each setting that
# you try leaves a mark, small branches as squares. **Find** post-norm's largest rate for each depth, with branches as large as x. Does
# it fall as 1 over the depth? What becomes of it with small branches, and in pre-norm?

# %% tags=["explorer"] jupyter={"source_hidden": true}
from residual_course.explorers.depth_and_rate import explore_rates

PLACES, SIZES = ("pre-norm", "post-norm"), ("as large", "small")
DEPTHS, RATES = (6, 12, 24, 48), (0.0003, 0.001, 0.003, 0.01)
grid = [(p, s, d, r) for p in PLACES for s in SIZES for d in DEPTHS for r in RATES]
explore_rates(
    {
        key: [stored[s]["map, {} {} {} {:g}".format(*key)] for s in range(3)]
        for key in grid
    }
)

# %% [markdown]
# <details><summary>Answer</summary>Post-norm, branches as large as x: 0.01 at 6 blocks, 0.003
# at 12, 0.001 at 24, and 0.0003 at 48, where it learns slowly: eight times the depth, a thirtieth of the rate, so faster than 1 over the depth. With small branches the limit is
# several times higher: 48 blocks train at 0.003, and 24 fail at 0.01. All of pre-norm's settings train.</details>
#
# **Law 3.** The largest rate at which post-norm trains falls with the depth, here from 0.01 or more at 6 blocks to less than
# 0.001 at 48, in 80 steps. Small branches raise it several times. Above it digits become alike, or come to differ along few
# directions. At 48 blocks a rate that begins small and is small again in time trains where a constant one fails.
#
# [DeepNorm](https://arxiv.org/abs/2203.00555) (Wang et al., 2022) makes post-norm trainable at 1,000 layers by smaller weights and a larger
# skip. [Liu et al. (2020)](https://arxiv.org/abs/2004.08249) study the same on translation.

# %% [markdown]
# ## The same with attention
#
# Does all this hold for a Transformer? Each digit is now a sequence of eight rows of pixels, and the blocks are 24 of PyTorch's own
# `nn.TransformerEncoderLayer`, with `norm_first` True or False: 48 branches, of attention and of an MLP, with PyTorch's weights.


# %% jupyter={"source_hidden": true}
class Layers(nn.Module):
    def __init__(self, place):
        super().__init__()
        self.enter = nn.Linear(8, 64)
        self.position = nn.Parameter(0.02 * torch.randn(8, 64))
        pre, how = place == "pre", {"dropout": 0, "batch_first": True}
        layers = [
            nn.TransformerEncoderLayer(64, 4, 64, norm_first=pre, **how)
            for _ in range(24)
        ]
        self.layers = nn.Sequential(*layers)
        self.last = nn.LayerNorm(64) if pre else nn.Identity()
        self.head = nn.Linear(64, 10)

    def through(self, x):
        return self.layers(self.enter(x.unflatten(1, (8, 8))) + self.position)

    def forward(self, x):
        return self.head(self.last(self.through(x)).mean(1))


# %% jupyter={"source_hidden": true}
def layers(place, seed):
    torch.manual_seed(seed)
    return Layers(place).to(device)


# %% tags=["trained"] jupyter={"source_hidden": true}
print(f"{'after 480 steps':36} right                 apart, last layer")
rates = 0.001, 0.002
found = [f"layers, {place}, {rate}" for place in ("pre", "post") for rate in rates]
for name in found:
    tell(name, 480, ("480 apart", "{:4.2f}", 1))
holds(max(row(found[-1], 480)) < 0.2, "Post-norm fails at 0.002.")
holds(min(min(row(name, 480)) for name in found[:-1]) > 0.85, "The others train.")
holds(max(row(found[-1], "480 apart")) < 0.05, "There digits are alike.")

# %% [markdown]
# Here too post-norm has a largest rate, and pre-norm trains above it. There all digits are alike at each position.

# %% [markdown]
# ## What the last block receives
#
# [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745) compared the two before training, at the last block: post-norm's gradient
# there stays the same with more blocks. And pre-norm's? The same loss and head, and four times as many blocks. ("Scaled": branches
# divided by √depth.)


# %% jupyter={"source_hidden": true}
def last_norm(place, depth, size, seed):
    """Return what the last norm divides by, and the gradient of the last weights."""
    sizes = []
    for head in range(4):
        net = build(place, depth, seed, size)
        norm = net[-2] if place == "pre" else net[-3].norm
        norm.register_forward_pre_hook(lambda _, inputs: sizes.append(rms(inputs[0])))
        torch.manual_seed(1000 + head)
        net[-1] = nn.Linear(64, 10).to(device)
        F.cross_entropy(net(train_x[:64]), train_y[:64]).backward()
        sizes.append(net[-3].second.weight.grad.norm().item())
    return sizes[0], math.exp(sum(map(math.log, sizes[1::2])) / 4)


depths, found = (2, 4, 8, 16, 32), {}
for name, small in ("pre-norm", 0), ("post-norm", 0), ("pre-norm, scaled", 1):
    found[name] = [
        [
            last_norm(name[:-5] if not small else "pre", d, d**-0.5 if small else 1, s)
            for d in depths
        ]
        for s in range(6)
    ]


def mean_at(name, depth):
    logs = [math.log(one[depths.index(depth)][1]) for one in found[name]]
    return math.exp(sum(logs) / len(logs))


# %% tags=["predict"]
guess = predict(
    "From 4 to 16 blocks, pre-norm: what becomes of the last block's gradient?",
    ["divided by 4", "divided by 2", "unchanged", "doubled"],
)


# %% tags=["reveal"]
# Answer first, then run this cell.
for name in found:
    print(f"{name:16}", *[f"{d} blocks {mean_at(name, d):.2f}  " for d in depths])
ratio = mean_at("pre-norm", 16) / mean_at("pre-norm", 4)
limits = {0.35: "divided by 4", 0.75: "divided by 2", 1.4: "unchanged"}
guess.reveal(
    next((name for limit, name in limits.items() if ratio < limit), "doubled"),
    why={
        "divided by 4": "That would be 1 over the depth. The stream grows as its root.",
        "divided by 2": "The last norm divides the gradient by the stream's rms, and "
        "√(1 + 4) = 2.2 has become √(1 + 16) = 4.1.",
        "unchanged": "That is post-norm, whose last norm receives √(1 + 1).",
        "doubled": "Nothing here grows on the way from the loss to the last block.",
    },
)

# %% [markdown]
# The last norm is handed √(1 + depth) in pre-norm and √2 in post-norm, and divides the gradient by that (lesson 02).
# So gradient times divisor is about one number, while divisors differ by a factor of 4 (means of six networks; single ones: 2):

# %% tags=["figure"]
everything = {
    name: tuple(zip(*(p for one in six for p in one), strict=True))
    for name, six in found.items()
}
means = [
    math.exp(sum(math.log(size * gradient) for size, gradient in same) / 6)
    for six in found.values()
    for same in zip(*six, strict=True)
]
middle = sorted(means)[len(means) // 2]
ax = plots.plot_last_drop(everything, Figure().add_subplot(), middle)
ax.set_title("The last gradient is what the last norm leaves")
alt = "Gradient of the last block against what the last norm divides by, logarithmic. "
show(ax.figure, alt=alt + "The marks of all networks lie along one falling line.")
print(f"means: {min(means):.2f} to {max(means):.2f}")
holds(max(means) < 1.3 * min(means), "Gradient times divisor varies little.")

# %% [markdown]
# **Law 4.** In a new pre-norm network the stream grows as √(1 + depth · r²), here r = 1, and the gradient of the last block falls as 1 over
# that. A late block adds as much as an early one, to a larger stream.
#
# Xiong et al. conclude that post-norm's large last gradient makes it need a warm-up. But the size of Adam's first step depends on the rate,
# and above eps not on the size of the gradient.
#
# ## Which placement is it?
#
# A is modelled on [The Annotated Transformer](https://nlp.seas.harvard.edu/annotated-transformer/).
#
# ```python
# # A
# def forward(self, x, sublayer):
#     """A residual connection, followed by a layer norm."""
#     return x + self.dropout(sublayer(self.norm(x)))
#
# # B
# def forward(self, x):
#     x = self.norm(x)
#     return x + self.layer(x)
#
# # C
# def forward(self, x):
#     out = self.layer(x)
#     out += x
#     return self.norm(out)
#
# # D
# def forward(self, x):
#     skip = x
#     x = self.norm(x)
#     x = self.layer(x)
#     return skip + x
# ```
#
# ### Exercise 3 · 5 minutes · ●●○○○
#
# Return four words, one for each of A to D: `pre`, `post`, or `neither`.
#
# <details><summary>Hint 1</summary>For each: which x is added, and is the sum the last thing that happens?</details>
# <details><summary>Hint 2</summary>Set f(x) = 0 in each. Is x returned as it came? If not: was the sum normalised, or
# what is added?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "which-wiring", "locked": false, "schema_version": 3, "solution": true, "task": false}
def which_placement():
    """Return four words, such as "pre post neither pre"."""
    ### BEGIN SOLUTION
    return "pre neither post pre"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "which-wiring-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(which_placement, "which_placement")

# %% [markdown]
# <details><summary>More on B, once you have answered</summary>The skip of B carries norm(x). One such block is neither. In a stack of them, each
# sum is followed by a norm, that of the next block: so a stack of B is a post-norm network with a norm before the first
# block and none after the last. The check takes both words.</details>

# %% [markdown]
# ## What practice does
#
# - **Language models** since GPT-2 are mostly pre-norm, with one norm after the last block. That norm belongs to no block, and is easily
#   forgotten: the [appendix](04_pre_norm_and_post_norm_more.ipynb) measures what then happens.
# - **Post-norm** is in the first Transformer (6 + 6 layers of two or three branches) and in BERT (12 or 24 layers of two), with weights of
#   standard deviation 0.02 in BERT, and rates that rise, then fall.
# - **Both**: some newer models put a second norm on the branch's output, before the sum (the homework builds it).
#
# ## Summary
#
# The folded cells hold the code of the stored runs. A first reader may skip them.


# %% jupyter={"source_hidden": true}
class Still(nn.Module):
    """LayerNorm whose mean and standard deviation pass no gradient."""

    def forward(self, x):
        fixed = x.detach()
        spread = fixed.var(-1, keepdim=True, unbiased=False).add(1e-5).sqrt()
        return (x - fixed.mean(-1, keepdim=True)) / spread


def pytorchs(block):
    for layer in (block.first, block.second):
        layer.reset_parameters()
        layer.bias.zero_()


def centred(f, how, x):
    out = f(x)
    rest = out - out.mean(0).detach()
    smaller = rms(rest) / rms(out)
    if how == "common part left in, as small":
        return out * smaller
    return rest / smaller if how == "subtracted, size kept" else rest


# %% jupyter={"source_hidden": true}
TAKEN = "common part subtracted"
CHANGES = TAKEN, "subtracted, size kept", "common part left in, as small"


@torch.no_grad()
def changed(net, how, seed):
    x, generator = train_x[:256], torch.Generator().manual_seed(100 + seed)
    for block in net[:-2]:
        mean = block.f(x).mean(0)
        if how == "mended as in exercise 2":
            block.second.bias -= mean
        elif how == "set to 0":
            block.second.bias.zero_()
        elif how == "a random vector added":
            other = F.layer_norm(torch.randn(64, generator=generator), (64,))
            block.second.bias += rms(mean) * other.to(device)
        elif how in CHANGES:
            block.f = partial(centred, block.f, how)
        elif how == "no biases in f":
            block.first.bias = block.second.bias = None
        elif how == "statistics without gradient":
            block.norm = Still()
        elif how == "PyTorch's weights":
            pytorchs(block)
        x = block(x)
    return net


# %% jupyter={"source_hidden": true}
SMALL, SGD = 48**-0.5, torch.optim.SGD
post, pre = partial(build, "post"), partial(build, "pre")
SETTINGS = {  # for each name: makes the network of a seed, rate, times
    "pre": (lambda s: pre(seed=s), 0.001, (120, 1200)),
    "post": (lambda s: post(seed=s), 0.001, (120, 240, 1200)),
    "post, turn": (lambda s: with_turns(post(seed=s), s), 0.0003, (240,)),
    "post, vector": (lambda s: with_vectors(post(seed=s), s), 0.0003, (240,)),
    "pre, turn": (lambda s: with_turns(pre(seed=s), s), 0.0003, (240,)),
    "pre, vector": (lambda s: with_vectors(pre(seed=s), s), 0.0003, (240,)),
    "pre, vector of rms 10": (
        lambda s: with_vectors(pre(seed=s), s, 10),
        0.0003,
        (240,),
    ),
    "failed": (failed, 0.0003, (400, 1200)),
}
same = partial(with_vectors, same=True)
SETTINGS["pre, same vector"] = lambda s: same(pre(seed=s), s), 0.0003, (240,)


# %% jupyter={"source_hidden": true}
def schedule(full, warm_up=True, falls=False):
    """Return a rate that grows for 300 steps, if asked, then falls or stays."""

    def rate(step):
        grown = min(1, (step + 1) / 300) if warm_up else 1
        return full * grown * (min(1, math.sqrt(300 / (step + 1))) if falls else 1)

    return rate


for rate, times in (
    (0.0003, (240, 400, 2400)),
    (0.0006, (300, 2400)),
    (0.002, (120, 240, 1200)),
):
    SETTINGS[f"post, {rate}"] = SETTINGS["post"][0], rate, times
for name, how in ("warm-up", {}), ("falling", {"warm_up": False}), ("both", {}):
    rate = schedule(0.0006, **how, falls=name != "warm-up")
    SETTINGS[f"post, 0.0006, {name}"] = SETTINGS["post"][0], rate, (300, 2400)


def halved(step):
    return schedule(0.0006)(step) if step < 600 else 0.0003


# %% jupyter={"source_hidden": true}
HALVED = "post, 0.0006, warm-up, then 0.0003"
SETTINGS[HALVED] = SETTINGS["post"][0], halved, (300, 2400)
for size in 0.25, 0.75:
    make = partial(with_vectors, size=size)
    make = partial(lambda make, s: make(post(seed=s), s), make)
    SETTINGS[f"post, vector of rms {size}"] = make, 0.0003, (240,)
for place in "pre", "post":
    for rate in 0.001, 0.002:
        make = partial(layers, place)
        SETTINGS[f"layers, {place}, {rate}"] = make, rate, (480,)

# %% jupyter={"source_hidden": true}
SETTINGS["post, 0.003, branches / √48"] = (
    lambda s: post(seed=s, size=SMALL),
    0.003,
    (240, 2400),
)
others = "no biases in f", "statistics without gradient", "PyTorch's weights"
for how in (*CHANGES, *others):
    make = partial(lambda how, s: changed(post(seed=s), how, s), how)
    long = how in (*CHANGES, "PyTorch's weights")
    SETTINGS[f"post, {how}"] = make, 0.001, (120, 240, 1200) if long else (240,)
clipped = "SGD at 0.3, clipped to 0.3"
for how, settings in {
    "gradients clipped to 0.1": {"rate": 0.001, "clip": 0.1},
    "SGD at 0.3": {"rate": 0.3, "make": SGD},
    "SGD at 0.005": {"rate": 0.005, "make": SGD},
    clipped: {"rate": 0.3, "make": SGD, "clip": 0.3},
}.items():
    rate = settings.pop("rate")
    SETTINGS[f"post, {how}"] = SETTINGS["post"][0], rate, (240,), settings

# %% jupyter={"source_hidden": true}
for how in "mended as in exercise 2", "set to 0", "a random vector added":
    make = partial(lambda how, s: changed(failed(s), how, s), how)
    SETTINGS[f"failed, {how}"] = make, 0.0003, (400, 1200)
for place in "pre", "post":
    for size in "as large", "small":
        for depth in 6, 12, 24, 48:
            make = partial(build, place, depth)
            if size == "small":
                make = partial(make, size=depth**-0.5)
            for rate in 0.0003, 0.001, 0.003, 0.01:
                name = f"map, {place}-norm {size} {depth} {rate:g}"
                SETTINGS[name] = (
                    partial(lambda make, s: make(seed=s), make),
                    rate,
                    (80,),
                )


# %% jupyter={"source_hidden": true}
def branches(net):
    return dict(zip(("r", "common", "gain"), state(net), strict=False))


def left(net):
    return {"left": distances(net, test_x[:64])[-1]}


@torch.no_grad()
def directions(net):
    """Return in how many directions the last block's outputs differ, over 64."""
    x = net[:-2](test_x)
    s = torch.linalg.svdvals(x - x.mean(0)).square()
    return {"directions": (s.sum() ** 2 / s.square().sum()).item() / 64}


@torch.no_grad()
def last_layer(net):
    return {"apart": apart(net.through(test_x[:64]))}


# %% jupyter={"source_hidden": true}
LOOK = {}
for name in SETTINGS:
    if name.startswith("post, 0.0006"):
        LOOK |= {f"{name}: {at}": [directions] for at in (300, 2400)}
for name in "pre", f"post, {TAKEN}":
    LOOK |= {f"{name}: {at}": [left, directions] for at in (120, 1200)}
for name in SETTINGS:
    if name.startswith("layers"):
        LOOK[f"{name}: 480"] = [last_layer]
LOOK |= {f"post, {how}: 240": [branches] for how in CHANGES}


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, part=slice(None), within=0.3, only=()):
    """Return what is right after each time: the mean over its last 20 steps."""
    found = {}
    for name in [*(only or SETTINGS)][part]:
        make, rate, times, *more = SETTINGS[name]
        net, seen = make(seed), {at: [] for at in times}

        def watch(step, name=name, net=net, seen=seen):
            for at, shares in seen.items():
                if at - 20 < step <= at and step % 4 == 0:
                    shares.append(right(net))
            for look in LOOK.get(f"{name}: {step}", ()):
                for what, there in look(net).items():
                    found[f"{name}: {step} {what}"] = round(there, 4)

        batches = seed + 9 if name.startswith("failed") else seed
        train(net, rate, max(times) + 1, batches, watch, **dict(*more))
        for at, shares in seen.items():
            found[f"{name}: {at}" if "map" not in name else name] = round(
                sum(shares) / len(shares), 3
            )
    return found


# %% tags=["trained"] jupyter={"source_hidden": true}
again = runs(0, only=("post, turn",))
near = max(abs(share - stored[0][name]) for name, share in again.items())
holds(near < 0.3, "The stored runs are those of this code.")

# %% [markdown]
# The finished `pre_norm_residual` and `post_norm_residual`, as the library has them:

# %% tags=["promote:parts/residual"]
from typing import Any

from torch import Tensor, nn

from residual_edu.errors import check_same_shape
from residual_edu.parts.residual import Gates, Map, Stream


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


def is_bypassed(layer: Map) -> bool:
    """Whether ``layer`` is ``nn.Identity``: a branch or gate that is left out."""
    return isinstance(layer, nn.Identity)


def apply_gates(gates: Gates, branch: Tensor, x: Tensor) -> Tensor:
    """Apply the gates in their order; of another shape, the sum would broadcast."""
    check_same_shape("a branch", branch, "x", x)
    for gate in gates:
        if not is_bypassed(gate):
            branch = gate(branch)
            check_same_shape("a gate", branch, "x", x)
    return branch


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. A post-norm block multiplies a distance, and the gradient, by √(1 + gain²) over the rms of x + f(x); a part that all digits share raises r alone | small distances |
# | 2. A common part that raises r and not the gain is enough to stop deep post-norm, and one step of Adam adds some to each branch; a turn as large raises both, and does not. Pre-norm divides once | pre-norm learns slowly with equal vectors (appendix) |
# | 3. The largest rate of post-norm falls with the depth; small branches raise it. Above it digits become alike, or come to differ along few directions; a rate that begins small, and is small again in time, trains where a constant one fails | Adam, 6 to 48 blocks, these digits |
# | 4. Pre-norm's stream grows as √(1 + depth · r²), its last gradient falls as 1 over that | new networks, with the last norm |

# %%
summary("04")

# %% [markdown]
# ## Next
#
# - [Lesson 05](05_layer_scale.ipynb) puts a learned gate on the branch.
# - [Homework for lessons 04 and 05](homework/hw_04_05.ipynb), once you have done lesson 05.
# - [The appendix](04_pre_norm_and_post_norm_more.ipynb): the norm that gets lost, a placement found by calling the block, the explorer of the last gradient.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
