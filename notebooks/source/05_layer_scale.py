# %% [markdown]
# # 05 · LayerScale
#
# 85 minutes. Nothing is downloaded. It follows [lesson 04](04_pre_norm_and_post_norm.ipynb), whose network and whose one step of Adam it uses. Of
# [lesson 02](02_layer_norm.ipynb) it uses that the mean squares of x and f(x) add.
#
# By the end you can
#
# - **compute** on paper how far Adam moves 48 branches, and **say** in advance which networks that ruins;
# - **compute** the gradients of a gated branch;
# - **separate** what a gate does at the start from what it does to the steps, by runs that change one of them;
# - **diagnose** and **mend** a network that trains, but less well than it should.

# %%
import math

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import layer_scale as plots
from residual_edu.training import accuracy

device = setup()
progress("05")

# %% [markdown]
# ## 48 blocks in three wirings
#
# In lesson 04, 48 post-norm blocks did not train at a rate of 0.002. This lesson takes 0.003, three times Adam's default: 80 steps are
# then enough to see which networks train. Now each branch is multiplied by a **gate** g, and there is a third
# wiring, without a norm in the block:
#
# - skip alone: x + g · f(x)
# - post-norm: norm(x + g · f(x))
# - pre-norm: x + g · f(norm(x))
#
# In **LayerScale** ([Touvron et al., 2021](https://arxiv.org/abs/2103.17239)) g is a vector of learned numbers, one for each
# feature. All of them start at the same value, `start`. The weights are lesson 04's, so f's output is as large as its input.


# %%
data = digits()
train_x, test_x = (F.layer_norm(x.flatten(1), (64,)).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


class Block(nn.Module):
    def __init__(self, place, start):
        super().__init__()
        self.place = place
        self.norm = nn.Identity() if place == "skip" else nn.LayerNorm(64)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        nn.init.normal_(self.first.weight, std=math.sqrt(1 / 64))
        nn.init.normal_(self.second.weight, std=math.sqrt(2 / 64))
        nn.init.zeros_(self.first.bias)
        nn.init.zeros_(self.second.bias)
        self.gate = 1.0 if start is None else nn.Parameter(torch.full((64,), start))

    def f(self, x):
        return self.second(F.relu(self.first(x)))

    def forward(self, x):
        if self.place == "post":
            return self.norm(x + self.gate * self.f(x))
        return x + self.gate * self.f(self.norm(x))


# %% [markdown]
# A network is 48 such blocks, a norm and a head, the last linear layer. (Folded: how it is built, and lesson 04's training loop.
# Its new arguments multiply the rate of some parameters: `gate=10` trains the gates at ten times the rate.)


# %% jupyter={"source_hidden": true}
def build(place, start=None, depth=48, seed=0, fixed=False, last=1.0):
    """Return a network; `fixed` gates do not learn, `last` scales f's last weights."""
    torch.manual_seed(seed)
    blocks = nn.Sequential(*[Block(place, start) for _ in range(depth)])
    for name, parameter in blocks.named_parameters():
        parameter.requires_grad_(not (fixed and "gate" in name))
        parameter.data *= last if "second" in name else 1
    return nn.Sequential(*blocks, nn.LayerNorm(64), nn.Linear(64, 10)).to(device)


def train(net, rate, steps, seed, watch=lambda step: None, **times):
    groups = {}
    for name, parameter in net.named_parameters():
        factor = math.prod(by for part, by in times.items() if part in name)
        groups.setdefault(rate * factor, []).append(parameter)
    groups = [{"params": group, "lr": lr} for lr, group in groups.items()]
    optimizer, losses = torch.optim.Adam(groups, fused=True), []
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        watch(step)
        rows = torch.randint(len(train_x), (64,), generator=generator).to(device)
        loss = F.cross_entropy(net(train_x[rows]), train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% tags=["figure", "trained"]
PLACES = {"skip": "skip alone", "post": "post-norm", "pre": "pre-norm"}


def three(label, *made, **settings):
    """Train three seeds; return all losses, and the means of the last 20."""
    nets = [build(*made, seed=seed, **settings) for seed in range(3)]
    found = [train(net, 0.003, 80, seed) for seed, net in enumerate(nets)]
    ends = [sum(losses[-20:]) / 20 for losses in found]
    shares = "  ".join(f"{accuracy(net, test_x, test_y):4.0%}" for net in nets)
    print(f"{label:38} {shares}    ", "  ".join(f"{end:.2f}" for end in ends))
    return found, ends


curves, ends = {}, {}
print(f"{'after 80 steps':38} test digits right   training loss")
for place, title in PLACES.items():
    for start, name in (None, "no gate"), (0.1, "from 0.1"):
        found, ends[place, name] = three(f"{title}, {name}", place, start)
        curves.setdefault(title, {})[name] = found
alone = three("norm and head, no blocks", "post", depth=0)[1]
fig = Figure(figsize=(6, 3.6))
plots.plot_wirings(curves, fig)
fig.suptitle("48 blocks, 80 steps of Adam at 0.003", x=0.01, ha="left", weight="bold")
alt = "Loss over 80 steps for skip alone, post-norm and pre-norm, logarithmic, three "
alt += "seeds. Without gates the first two stay at 2.3. With gates that start at 0.1 "
show(fig, alt=alt + "all fall below 0.1. Pre-norm falls with both, with gates further.")
stuck = ends["skip", "no gate"] + ends["post", "no gate"]
holds(min(stuck) > 2, "Without gates two wirings stay at guessing.")
gated = [one for place in PLACES for one in ends[place, "from 0.1"]]
holds(max(gated) < 0.2 < 0.4 < min(alone), "With gates from 0.1 the blocks learn.")

# %% [markdown]
# In every table the losses are means over the last 20 steps, for three seeds. The last line is the measure: a norm and a head, without any block, have
# nine of ten digits right. Whether blocks help in so few steps shows in the loss.
#
# Are the two that fail only slow? (Some settings take minutes, and were computed before; their code stands at the end.)

# %% jupyter={"source_hidden": true}


def right(net):
    return accuracy(net, test_x, test_y)


STARTS = (None, 1.0, 0.1, 0.01, 1e-4, 1e-6, 0.0)
SIZES = {12: (0.8, 1.6, 2.4), 48: (0.2, 0.4, 0.6), 192: (0.05, 0.1, 0.15)}
QUARTER = {"first": 0.23, "second": 0.23}
TWENTIETH = {"first": 0.05, "second": 0.05}
FIXED = (  # beside one change: what the table calls it, and how the network is made
    ("V / 10", "V starts at a tenth", {"last": 0.1}),
    ("V / 100", "V starts at a hundredth", {"last": 0.01}),
    ("V's rate / 10", "V's rate a tenth", {"second": 0.1}),
    ("branches x 0.23", "both layers' rate x 0.23", QUARTER),
    ("branches x 0.05", "both layers' rate x 0.05", TWENTIETH),
    ("0.1, frozen", "both: gate fixed at 0.1", {"start": 0.1}),
    ("fixed 0.1, x 10", "gate 0.1, last layer x 10", {"start": 0.1, "second": 10}),
    ("fixed 0.1, x 25", "gate 0.1, last layer x 25", {"start": 0.1, "second": 25}),
)


def named(place, start):
    return f"{place}, {start}" if start is None else f"{place}, {start:g}"


def gates(net):
    return torch.cat([block.gate.detach().expand(64) for block in net[:-2]])


def set_gates(net, value):
    for block in net[:-2]:
        block.gate.data.fill_(value)


# %% jupyter={"source_hidden": true}
from residual_edu.lesson import stored_runs

stored = stored_runs("05_layer_scale")["runs"]


def row(name, step, what="right"):
    """Return a stored number at a step, for three seeds."""
    return [stored[seed][f"{name}: {step} {what}"] for seed in range(3)]


def mean(name, step, what="right"):
    return sum(row(name, step, what)) / 3


def head(steps):
    print(f"{f'after {steps} steps':38} test digits right   training loss")


def tell(name, step, label=""):
    shares = "  ".join(f"{one:4.0%}" for one in row(name, step))
    losses = "  ".join(f"{one:.2f}" for one in row(name, step, "loss"))
    print(f"{label or name:38} {shares}     {losses}")


def first_above(value, limits):
    """Return the name of the first limit that is above a value."""
    return next(name for limit, name in limits.items() if value < limit)


# %% tags=["trained"] jupyter={"source_hidden": true}
head(800)
for place in "skip", "post":
    tell(f"{place}, None", 800, f"{PLACES[place]}, no gate")
slow = row("skip, None", 800, "loss") + row("post, None", 800, "loss")
holds(min(slow) > 1.8, "After 800 steps two wirings still do not train.")

# %% [markdown]
# No. What helps, then? The gates are *learned*. So they may also start at 1, where the network is the one without gates, and become
# smaller by themselves.

# %% tags=["trained"] jupyter={"source_hidden": true}
head(480)
name = "post, 1, gates x 1"
tell(name, 480, "post-norm, gates from 1")
print("mean size of the gates then:", *row(name, 480, "gate"))
head(80)
tell("post, 1, gates x 100", 80, "the same, their rate x 100")
holds(min(row(name, 480, "loss")) > 2, "Gates from 1 do not make post-norm train.")
holds(min(row(name, 480, "gate")) > 0.9, "They stay near 1.")

# %% [markdown]
# Their mean size is still 1.00: their gradient does not make them smaller. So we do it by hand, in a network that has failed for 40
# steps.


# %%
def switched(start, then, place="post", seed=0):
    """Train 160 steps; before step 40 all gates are set by hand."""
    net = build(place, start, seed=seed)

    def watch(step):
        if step == 40:
            set_gates(net, then)

    losses = train(net, 0.003, 160, seed, watch)
    return right(net), sum(losses[-20:]) / 20


# %% tags=["predict"]
guess = predict(
    "Gates from 1, set to 0.1 at step 40: digits right at step 160?",
    ["about 10 %", "about 50 %", "over 93 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
share, loss = switched(1.0, 0.1)
print(f"live, seed 0: {share:.0%} right, loss {loss:.2f}")
head(160)
for place in "post", "skip":
    for name in "1, set to 0.1", "0.1, set to 1":
        tell(f"{place}, {name}", 160, f"{PLACES[place]}, from {name}")
late, lost = (
    row(f"post, {name}", 160, "loss") + row(f"skip, {name}", 160, "loss")
    for name in ("1, set to 0.1", "0.1, set to 1")
)
holds(max(late) < 0.15, "Set to 0.1 at step 40, the network trains.")
holds(min(lost) > 2, "Set to 1 at step 40, it is back at guessing.")
guess.reveal(
    first_above(share, {0.3: "about 10 %", 0.93: "about 50 %", 2: "over 93 %"}),
    why={
        "about 10 %": "That would be so if the 40 failed steps had spoilt the weights.",
        "about 50 %": "That would be so if some of the branches were lost.",
        "over 93 %": "Whatever the failed steps have done, smaller gates mend it.",
    },
    after="The reverse holds too: gates from 0.1 that are set to 1 at step 40 stop a "
    "network that was training.",
)

# %% [markdown]
# So the size of the gates decides, at step 40 too. How?
#
# ## Inside the network
#
# We build an instrument. It sends 64 test digits through the blocks and keeps the stream before each block. Two things are measured: the
# gradient of the loss with respect to the stream, and how much of the stream at the end differs between digits.

# %%
X, Y = test_x[:64], test_y[:64]


def rms(x):
    return x.square().mean().sqrt().item()


def look(net):
    """Return the gradient at each place of the stream, and the digits' own part."""
    stream = [X.clone().requires_grad_()]
    for block in net[:-2]:
        stream.append(block(stream[-1]))
    loss = F.cross_entropy(net[-2:](stream[-1]), Y)
    found = torch.autograd.grad(loss, stream)
    end = stream[-1].detach()
    return [rms(one) for one in found], rms(end - end.mean(0)) / rms(end)


# %% jupyter={"source_hidden": true}
def watched(start, steps, seed=0):
    """Train post-norm, and return what `look` returns before some of the steps."""
    net, found = build("post", start, seed=seed), {}

    def watch(step):
        if step in steps:
            found[step] = look(net)

    train(net, 0.003, max(steps) + 1, seed, watch)
    return found


inside = {start: watched(start, (0, 1, 2, 5, 10, 40)) for start in (1.0, 0.3, 0.1)}
curves = {
    f"gates from {start:g}": {step: found[step][0] for step in (0, 1, 10, 40)}
    for start, found in inside.items()
}

# %% tags=["predict"]
guess = predict(
    "Gates of 1: how many steps until the first block's gradient is under a tenth?",
    ["a single one", "about ten", "about 40"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
fig = plots.plot_gradients(curves, Figure(figsize=(6, 4)))
fig.suptitle("Gates of 1 lose the gradient", x=0.01, ha="left", weight="bold")
alt = "Gradient at the stream after each block. At step 0 it is level. With gates of 1 "
show(fig, alt=alt + "it falls steeply towards the first blocks; with 0.3 and 0.1 not.")
first = {step: found[0][0] for step, found in inside[1.0].items()}
under = next((step for step in first if first[step] < first[0] / 10), None)
holds(inside[0.1][40][0][0] > inside[0.1][0][0][0] / 5, "At 0.1 the gradient stays.")
guess.reveal(
    {1: "a single one", 40: "about 40"}.get(under, "about ten"),
    why={
        "a single one": "One step is enough. So it has to be understood.",
        "about ten": "By then it is below a thousandth.",
        "about 40": "By then it is below 10⁻¹¹.",
    },
)

# %% [markdown]
# The other measurement, the digits' own part of the stream after the last block:

# %% tags=["trained"] jupyter={"source_hidden": true}
print("step   ", *[f"{step:5}" for step in inside[1.0]])
for start, found in inside.items():
    print(f"from {start:<4g}", *[f"{own:5.2f}" for _, own in found.values()])
print("gates from 1, seeds 1 and 2, before and after the first step:")
for seed in 1, 2:
    (old, was), (new, now) = watched(1.0, (0, 1), seed).values()
    print(f"own part {was:.2f}, {now:.3f};", end=" ")
    print(f"first block's gradient {old[0]:.1e}, {new[0]:.1e}")
    holds(now < was / 8 and new[0] < old[0] / 8, "One step does it with each seed.")
holds(inside[0.1][40][1] > 0.8, "With gates of 0.1 they come apart.")

# %% [markdown]
# With gates of 1 all digits are alike after one step, and stay so. With gates of 0.3 the first step makes them more alike too, but the next
# ones take them apart again.
#
# That is post-norm. Do the other two wirings fail, or not, in the same way? Without gates, the own part and the size of the stream after the last block, at
# steps 0, 1, 2, 5, 10:

# %% tags=["trained"] jupyter={"source_hidden": true}
sizes = {}
for place, title in PLACES.items():
    net = build(place)

    def watch(step, net=net, place=place):
        if step in (0, 1, 2, 5, 10):
            with torch.no_grad():
                end = net[:-2](X)
            sizes[place, step] = rms(end - end.mean(0)) / rms(end), rms(end)

    train(net, 0.003, 11, 0, watch)
    numbers = [sizes[place, step] for step in (0, 1, 2, 5, 10)]
    print(f"{title:11} own part", *[f"{own:7.2f}" for own, _ in numbers])
    print(f"{'':11} size    ", *[f"{size:7.2g}" for _, size in numbers])
holds(sizes["skip", 10][1] > 1e3 * sizes["skip", 0][1], "The stream explodes.")
holds(sizes["pre", 10][0] > 0.7 > 0.1 > sizes["post", 10][0], "Pre-norm comes back.")

# %% [markdown]
# With the skip alone the stream is long at the start, since x + f(x) doubles the mean square 48 times, and becomes ten times longer in a step: each
# block multiplies what it receives. Pre-norm's digits become more alike in the first step, too, and come apart again: its branches receive norm(x), so a longer
# stream does not lengthen what later blocks add.
#
# ## One step on paper
#
# In lesson 04 the first step of Adam moved each branch's output by nearly the same vector for all digits. Call **c** the size of that move over
# the size of f's input. The gate multiplies f's output and with it the move: the branch moves by **g · c**. There are L branches, so their moves,
# each over the size of its stream, are **L · g · c** in all. That is the **total move** of the step. We measure c, in the first block:

# %%
import copy


def first_step(net, rate=0.003, seed=0, **times):
    """Return how far one step moves each gated branch, over the size of its stream."""
    old, x, moves = copy.deepcopy(net), X, []
    train(net, rate, 1, seed, **times)
    with torch.no_grad():
        for was, now in zip(old[:-2], net[:-2], strict=True):
            given = was.norm(x) if was.place == "pre" else x
            move = now.gate * now.f(given) - was.gate * was.f(given)
            moves.append(rms(move.mean(0)) / rms(x))  # what all digits share of it
            x = was(x)
    return moves


found = [first_step(build("post", seed=seed), seed=seed)[0] for seed in range(3)]
c = sum(found) / 3
print("c:", *[f"{one:.3f}" for one in found], f"  mean {c:.2f}")
print(f"48 branches, gates of 1: {48 * c:.1f} times the stream; of 0.1: {4.8 * c:.2f}")

# %% [markdown]
# On paper, that is five times the stream in one step, and nearly the same for every digit. (We add lengths, not vectors.)
#
# In pre-norm the stream grows: f receives norm(x), of size 1, so each block adds g² to the mean square of the stream (lesson 02). After ℓ
# blocks it is **1 + ℓ · g²**.
#
# ### Exercise 1 · 8 minutes · ●●○○○
#
# Return the total move: the sum over the blocks of how far g · f moves, over the size (the root of the mean square) of the stream before the block. `place` is
# `"post"`, `"skip"` or `"pre"`; f's move is `move` times the size of f's input; the stream starts with size 1.
#
# <details><summary>Hint 1</summary>What does f receive in each wiring: the stream, or something of size 1? In two of them the quotient is the same in each
# block.</details>
# <details><summary>Hint 2</summary>In pre-norm follow the mean square of the stream from block to block.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "total-move", "locked": false, "schema_version": 3, "solution": true, "task": false}
def total_move(place, depth, gate, move):
    """Return how far one step moves all gated branches, each over its stream."""
    ### BEGIN SOLUTION
    total, square = 0.0, 1.0
    for _ in range(depth):
        total += gate * move / math.sqrt(square)
        square += gate**2 if place == "pre" else 0
    return total
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "total-move-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(total_move, "total_move")

# %% [markdown]
# Measured in 48 blocks, beside your number:

# %% tags=["trained"] jupyter={"source_hidden": true}
print(f"{'total move of the first step':30} on paper   measured, three seeds")
from residual_edu.exercises.total_move import total as on_paper

for place in "post", "skip", "pre":
    for start in 1.0, 0.3, 0.1:
        nets = [build(place, start, seed=seed) for seed in range(3)]
        found = [sum(first_step(net, seed=seed)) for seed, net in enumerate(nets)]
        paper = on_paper(place, 48, start, c)
        numbers = "  ".join(f"{one:.2f}" for one in found)
        name = f"{PLACES[place]}, gates from {start:g}"
        print(f"{name:30} {paper:8.2f}   {numbers}")
        holds(min(found) > paper / 2 and max(found) < paper * 2, "To a factor of 2.")
moves = first_step(build("post", 1.0))
print(f"gates from 1, seed 0: c is {moves[0]:.2f} in the first block,", end=" ")
print(f"{sum(moves[24:]) / 24:.2f} on average in the second half")

# %% [markdown]
# With gates of 0.1 paper is 1.2 times too small, with gates of 1 it is twice too small, since there c is not the same in all blocks. And without gates pre-norm's total move is five times smaller than post-norm's.
#
# **Law 1.** The first step of Adam moves L branches with gates of g by about L · g · c in all, each over its stream; in pre-norm by less, since the stream grows by g² in
# each block. c is about 0.1 at a rate of 0.003. (Gates that learn move too, which adds about 0.1 in all.)
#
# ## From 48 blocks to 192
#
# If the total move decides, the number of blocks must matter as much as the gates. After 80 steps, 48 post-norm blocks have learned something with gates from 0.4, and nothing with gates from
# 0.6. Were the moves perpendicular, they would add to √L · g · c.

# %% tags=["predict"]
guess = predict(
    "192 post-norm blocks: which is the largest start that learns something?",
    ["the same, 0.4", "half, 0.2", "a quarter, 0.1"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
head(80)
for depth, starts in SIZES.items():
    for start in starts:
        label = f"{depth:3} blocks, from {start:<5g} L · g = {depth * start:.3g}"
        tell(f"post, {depth} blocks, {start:g}", 80, label)
for place in "post", "skip":
    for depth in 48, 192:
        small, large = (
            row(f"{place}, {depth} blocks, {start:g}", 80, "loss")
            for start in SIZES[depth][1:]
        )
        holds(sum(large) > 2 * sum(small), "L · g decides, with the skip alone too.")
ends = [mean(f"post, 192 blocks, {g}", 80, "loss") for g in (0.4, 0.2, 0.1)]
names = "the same, 0.4", "half, 0.2", "a quarter, 0.1"
trained = [name for name, end in zip(names, ends, strict=True) if end < 1.2]
guess.reveal(
    trained[0] if trained else "none",
    why={
        "the same, 0.4": "That would be so if each branch mattered by itself.",
        "half, 0.2": "That would be so if the squares of the moves added.",
        "a quarter, 0.1": "Four times the branches, a quarter of g: the same L · g.",
    },
    after="12 blocks show the same, less sharply. And 80 steps are few: by step 800 "
    "gates from 0.4 have lost what they had learned, gates from 0.3 have not.",
)

# %% [markdown]
# So much for large gates. How small may they be? May they start at 0, where the gate multiplies all of its branch away?
#
# ## From 1 down to 0

# %% tags=["predict"]
guess = predict(
    "Post-norm, gates from exactly 0: the loss after 80 steps, beside gates from 0.01?",
    ["about the same", "twice to 10 times", "stays at 2.3"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print("80 steps, means of three seeds: test digits right,")
print("training loss in steps 5 to 14, and at the end")
print("from    " + "".join(f"{title:23}" for title in PLACES.values()))
for start in STARTS:
    text = "none    " if start is None else f"{start:<8g}"
    for name in (named(place, start) for place in PLACES):
        early, late = (mean(name, at, "loss") for at in (14, 80))
        text += f"{mean(name, 80):4.0%}  {early:.2f}  {late:.2f}       "
    print(text.rstrip())
small = [max(row(named(p, s), 80, "loss")) for p in PLACES for s in STARTS[2:]]
holds(max(small) < 0.2, "From 0.1 down to 0 all train.")
times = mean("post, 0", 80, "loss") / mean("post, 0.01", 80, "loss")
limits = {2: "about the same", 10: "twice to 10 times", math.inf: "stays at 2.3"}
guess.reveal(
    first_above(times, limits),
    why={
        "about the same": "Something opens the gates at once: the section below.",
        "twice to 10 times": "The branches lose about one step of 80.",
        "stays at 2.3": "That would be so if a gate of 0 had no gradient.",
    },
    after="Starts from 0.01 down to 0 end alike. They begin more slowly than 0.1, and "
    "in pre-norm more slowly than without gates.",
)

# %% [markdown]
# How can a branch that is multiplied by 0 learn?
#
# ## One gate, one number
#
# The smallest case: the stream is one number, x = 2, the branch multiplies it by a weight w = 0.5, and one learned gate
# starts at α = 0. We want y = x + α · w · x to be 3, and descend on the loss (y − 3)²/2. The two derivatives:
#
# - of α: (y − 3) · **w** · x = −1 at the start
# - of w: (y − 3) · **α** · x = 0 at the start
#
# Each contains the other factor. A step of size 0.1 moves α to 0.1, and from then on w has a gradient too. Descent from three
# starts:


# %% tags=["figure"]
def slopes(alpha, w, x=2.0):
    error = x + alpha * w * x - 3
    return error * w * x, error * alpha * x


begins = {"gate 0": (0.0, 0.5), "weight 0": (0.5, 0.0), "both 0": (0.0, 0.0)}
paths = {}
for name, (alpha, w) in begins.items():
    paths[name] = [(alpha, w)]
    for _ in range(60):
        first, second = slopes(alpha, w)
        alpha, w = alpha - 0.1 * first, w - 0.1 * second
        paths[name].append((alpha, w))
axis = torch.linspace(-1.1, 1.3, 97)
losses = (2 * axis[:, None] * axis - 1).square() / 2
ax = plots.plot_valley(axis, axis, losses, paths, Figure(figsize=(6, 4)).add_subplot())
ax.set_title("Descent leaves one zero, and not two")
alt = "The loss over gate and weight: a bright valley upper right, another lower left, "
alt += "between them a saddle at 0, 0. From a gate of 0 and from a weight of 0 descent "
show(ax.figure, alt=alt + "ends in a valley. From 0, 0 it does not move.")
holds(paths["both 0"][-1] == (0, 0), "From 0, 0 descent does not move.")

# %% [markdown]
# ### Exercise 2 · 8 minutes · ●●○○○
#
# Now LayerScale, a gate for each feature. `branch` is f's output and `upstream` the gradient of the loss with respect to
# `gamma * branch`, both of shape (..., features); `gamma` has shape (features,). Return the gradient of the loss with respect to
# `branch`, then that with respect to `gamma`, without autograd. By hand for one row: branch [3, −1, 0, 2], upstream [1, 1, 1, −1], gamma 0.1 throughout.
#
# <details><summary>Hint 1</summary>A product has two factors, and the gradient of each contains the other.</details>
# <details><summary>Hint 2</summary>All rows share gamma, so its gradient is a sum over every axis but the
# last.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "gate-gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gate_gradients(upstream, branch, gamma):
    """Return the gradients with respect to branch and to gamma."""
    ### BEGIN SOLUTION
    return upstream * gamma, (upstream * branch).reshape(-1, len(gamma)).sum(0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gate-gradients-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(gate_gradients, "gate_gradients")

# %% [markdown]
# SkipInit ([De and Smith, 2020](https://arxiv.org/abs/2002.10444)) and ReZero
# ([Bachlechner et al., 2020](https://arxiv.org/abs/2003.04887)) have one gate for a whole branch, and start it at 0. Does a gate have to be a vector?

# %% tags=["trained"] jupyter={"source_hidden": true}
head(80)
names = [f"{place}, {s:g}, one gate" for place in ("post", "skip") for s in (0.1, 0.0)]
for name in names:
    tell(name, 80)
holds(max(max(row(name, 80, "loss")) for name in names) < 0.2, "One gate is enough.")

# %% [markdown]
# Here it does not: with a gate for each feature the losses are the same, 0.04 to 0.08.
#
# **Law 2.** The gradient of a gate is the branch's output times the upstream gradient, summed over all that share the gate.
# The gradient of the branch is multiplied by the gate. So a gate of 0 learns from the first step on, its branch from the second;
# where the branch's output is 0 too, neither learns.
#
# ## Freeze the gates
#
# Must gates learn at all? Keep them as they are, with `requires_grad_(False)`: at 0.1 in all blocks, or at 0.0001.

# %% tags=["predict"]
guess = predict(
    "Post-norm: which frozen gates do as well as learned ones that start there?",
    ["both", "0.1 alone", "0.0001 alone", "neither"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
well = []
head(80)
for start in 0.1, 0.0001:
    name = f"post, {start:g}"
    tell(name, 80, f"post-norm, learned from {start:g}")
    tell(f"{name}, frozen", 80, f"post-norm, frozen at {start:g}")
    if mean(f"{name}, frozen", 80, "loss") < 1.5 * mean(name, 80, "loss"):
        well.append(f"{start:g}")
tell(f"{name}, frozen, branches x 0", 80, "... and branches that do not train")
tell(f"{name}, frozen, last layer x 1000", 80, "... and the last layers' rate x 1000")
holds(well == ["0.1"], "Frozen at 0.1 they do as well as learned ones, at 0.0001 not.")
fast = row(f"{name}, frozen, last layer x 1000", 80, "loss")
holds(max(fast) < 0.15, "With longer steps of the last layers 0.0001 trains.")
guess.reveal(
    "both" if len(well) == 2 else f"{well[0]} alone" if well else "neither",
    why={
        "both": "At 0.0001 the total move is a thousandth of that at 0.1.",
        "0.1 alone": "At 0.1 nothing is lost when the gates do not learn.",
        "0.0001 alone": "It leaves the stream even more alone, but it also "
        "multiplies all that the branch learns.",
        "neither": "Then learning would help. But learned gates from 1 did not train.",
    },
    after="Frozen at 0.0001, it does as well as with branches that do not train; with "
    "longer steps, as well as with learned gates: the steps were too small.",
)

# %% [markdown]
# So here, at 0.003 and for 80 steps, a constant gate of 0.1 is enough.
#
# ## Start or steps?
#
# f ends in a linear layer, W · h + b. With a fixed gate, g · (W · h + b) = V · h + d, where **V = g · W** and d = g · b. So the network
# without gates whose last layer of f is V computes the same. What differs in training?
#
# - **The start.** V starts g times as small as W.
# - **The steps.** Adam divides a gradient by its own size, so W moves by about the rate in each step, whatever g is. Then V = g · W
#   moves by g times the rate.
#
# So under Adam, without weight decay, a fixed gate g *is* a last layer with g times the start and g times the rate, and nothing else. Now we can change one of the
# two and keep the other, without any gate.

# %% tags=["predict"]
guess = predict(
    "48 blocks, no gate: which change of V alone lets them train in 160 steps?",
    ["a tenth of the start", "a tenth of the rate", "either", "neither"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
head(160)
for name, label, _ in (("None", "no gate", {}), *FIXED):
    for place in ("post", "skip") if name == "V / 10" or name[0] == "b" else ("post",):
        move = mean(f"{place}, {name}", 1, "move")
        tell(f"{place}, {name}", 160, f"{place}, {label:25} {move:3.1f}")
start, steps, beyond = (
    row(f"post, {name}", 160, "loss") + row(f"skip, {name}", 160, "loss")
    for name in ("V / 10", "V's rate / 10", "fixed 0.1, x 25")
)
holds(max(start) < 0.5 and min(steps) > 1.8, "A small start is enough.")
holds(min(beyond) > 1.4, "At 2.5 times V's rate a small start fails.")
names = {(1, 0): "a tenth of the start", (0, 1): "a tenth of the rate"}
works = max(start) < 1, max(steps) < 1
guess.reveal(
    names.get(works, "either" if all(works) else "neither"),
    why={
        "a tenth of the start": "It also shortens the first layer's part of the step, "
        "since what that changes passes V.",
        "a tenth of the rate": "What the first layer changes passes a V of full size.",
        "either": "That would be so if V alone moved the branch's output.",
        "neither": "Then both would be needed.",
    },
    after="The number beside a name is its total move. Both together, the gate, end "
    "lower than the small start alone.",
)

# %% [markdown]
# "gate 0.1, last layer x 10" has V's rate of the network without gates, so it is V / 10 once more, but for Adam's eps and rounding. "x 25"
# is 2.5 times that rate, and a small start does not save it. Nor does it with a first layer that moves ten times as far:

# %% tags=["trained"] jupyter={"source_hidden": true}
head(160)
name = "post, V / 10, first layer x 10"
tell(name, 160, f"{name:32} {mean(name, 1, 'move'):3.1f}")
tell("no blocks", 160)
holds(min(row(name, 160, "loss")) > 1.4, "V / 10 fails with long steps.")

# %% [markdown]
# "Both layers' rate x 0.23" makes the total move as small as V / 10 does, from a full start, and it fails. With x 0.05 and a move of 0.4 it does learn, slowly (a loss of .02 to .15 after 800 steps). So a full start
# bears less. A small V makes both small, start and move, in 48 blocks. And in 192?

# %% tags=["predict"]
guess = predict(
    "192 blocks, V a hundredth, all rates kept: the loss after 160 steps?",
    ["under 0.5", "about 1", "about 2.3"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
head(160)
for name in "post, V / 100", "post, 192 blocks, V / 100":
    tell(name, 160, f"{name:32} {mean(name, 1, 'move'):3.1f}")
end = mean("post, 192 blocks, V / 100", 160, "loss")
holds(min(row("post, 192 blocks, V / 100", 160, "loss")) > 1.4, "192 blocks fail.")
guess.reveal(
    "under 0.5" if end < 0.5 else "about 1" if end < 1.5 else "about 2.3",
    why={
        "under 0.5": "That would be so if a small start were enough by itself.",
        "about 1": "That would be the end if 192 blocks were only slower.",
        "about 2.3": "Four times the blocks, four times the total move: about 8.",
    },
)

# %% [markdown]
# ## All runs, by one number
#
# Here are the networks of this lesson at 0.003, of 12, 48 and 192 blocks, learned and fixed: what one step moves, before anything
# is trained, and the loss after 80 steps (160 in the last section). Those that move less than 0.05 are left out: gates frozen at 0.0001 learn too slowly. That lengths are added, and the limits 2.5
# and 5 below, were chosen after most of these runs were seen.


# %% jupyter={"source_hidden": true}
def moves_and_losses():
    """Return for each kind of network the total moves and the losses."""
    kinds = "post-norm", "skip alone", "pre-norm", "full start"
    found = {kind: [] for kind in kinds}
    for name in dict.fromkeys(key.partition(":")[0] for key in stored[0]):
        at = next((at for at in (80, 160) if f"{name}: {at} loss" in stored[0]), None)
        if at is None or "set to" in name or ", rate 0" in name:
            continue
        move, loss = mean(name, 1, "move"), mean(name, at, "loss")
        if move > 0.05:
            full = "branches x 0." in name
            kind = "full start" if full else PLACES[name.split(",")[0]]
            found[kind].append((move, loss))
    return found


# %% tags=["figure", "trained"]
found, ax = moves_and_losses(), Figure(figsize=(6, 4)).add_subplot()
plots.plot_moves(found, mean("no blocks", 80, "loss"), ax)
ax.set_title("Above 5 none trains; below 2.5 all with a small start")
alt = (
    "Loss over the total move of the first step, both logarithmic. Post-norm and skip "
)
alt += "alone: below 2.5 under 0.3, above 5 at 2.3. Pre-norm stays below 0.3. From a "
show(
    ax.figure,
    alt=alt + "full start with small steps, at a move of 2: about 2, at 0.4: 0.5.",
)
two = found["post-norm"] + found["skip alone"]
print(f"{len(two)} post-norm and skip alone, {len(found['pre-norm'])} pre-norm")
holds(max(loss for move, loss in two if move < 2.5) < 0.6, "Below 2.5 all train.")
holds(min(loss for move, loss in two if move > 5) > 1.5, "Above 5 none does.")
holds(max(loss for _, loss in found["pre-norm"]) < 0.6, "Pre-norm trains with all.")
large = [loss for move, loss in found["full start"] if move > 1.5]
holds(min(large) > 1.5, "From a full start a move of 2 fails.")

# %% [markdown]
# "Full start" are the networks without gates whose branches take small steps, in both wirings. Between 2.5 and 5 the total move is not the whole story. Pre-norm takes moves of 5.
#
# **Law 3.** A fixed gate makes the start and the steps of f's last layer g times as large. At 0.003, post-norm and skip alone trained from a small start (gates to 0.3, or
# V to a tenth) where the total move of the first step was below 2.5. Above 5 none did. From a full start the limit is lower, below 2.
#
# ## A network that should do better
#
# `handed_over` builds eight pre-norm blocks, with the layers and gates of this lesson, and somebody's own starting values. Beside it, our eight
# blocks with gates from 0.1. Both are trained for 60 steps at 0.003.

# %% tags=["trained"] jupyter={"source_hidden": true}
from residual_edu.exercises.mended_blocks import handed_over

theirs = [handed_over(8, seed).to(device) for seed in range(3)]
ours = [build("pre", 0.1, 8, seed) for seed in range(3)]
before = [p.detach().clone() for p in theirs[0][:-2].parameters()]
for name, nets in ("ours", ours), ("handed over", theirs):
    found = [train(net, 0.003, 60, seed) for seed, net in enumerate(nets)]
    print(f"{name:11} first loss", *[f"{one[0]:.2f}" for one in found], end="  last ")
    print(*[f"{sum(one[-10:]) / 10:.2f}" for one in found], " right", end=" ")
    print(*[f"{right(net):.0%}" for net in nets])
holds(
    0.8 < right(theirs[0]) < 0.95 < right(ours[0]) + 0.02, "Theirs trains, less well."
)

# %% tags=["predict"]
guess = predict(
    "In how many of its 8 blocks have 60 steps changed a weight?",
    ["all 8", "4", "1", "none"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
pairs = zip(theirs[0][:-2].parameters(), before, strict=True)
moved = [not now.equal(old) for now, old in pairs]
each = len(moved) // 8
blocks = sum(any(moved[each * b : each * (b + 1)]) for b in range(8))
print(f"of {len(moved)} tensors in the blocks, {sum(moved)} have changed")
guess.reveal(
    {8: "all 8", 1: "1", 0: "none"}.get(blocks, "4"),
    why={
        "all 8": "A loss that falls does not show that.",
        "4": "Then half of the blocks would help, and it would do better.",
        "1": "One block that learns does better than this.",
        "none": "The head reads the pixels: nine of ten digits without any block.",
    },
    after="A loss that falls does not show that the blocks learn.",
)

# %% [markdown]
# ### Exercise 3 · 15 minutes · ●●●●○
#
# Find out why, and mend it: write starting values into the blocks, before any training. `blocks` are the untrained blocks, each with
# `norm`, `first`, `second`, `gate` and `f`. In the check they are 8 or 24; after 60 steps at 0.003 every weight matrix in every
# block must have changed, and 93 % of the test digits be right, with three seeds. Any starting values that do this are right, but **change as few
# tensors as you can**: drawing everything anew finds no fault. The check knows how many faults each block has, and counts the tensors that you change in it.
# Measure first, in a cell of your own: `handed_over(8, 0)[:-2]` gives you blocks.
#
# <details><summary>Hint 1</summary>Which tensors receive a gradient in the first step, and in the tenth? Look at the values of those
# that do not. After a first mend, look again.</details>
# <details><summary>Hint 2</summary>Law 2. Then: what are the hidden units of the second block for some
# digits?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-blocks", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mend(blocks):
    """Change starting values of the blocks in place."""
    ### BEGIN SOLUTION
    with torch.no_grad():
        for block in blocks:
            block.gate.fill_(0.1)
            block.first.bias.zero_()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-blocks-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mend, "mended_blocks")

# %% [markdown]
# ## What practice does
#
# - **CaiT** starts its gates at 0.1 up to 18 blocks, at 0.00001 up to 24 and at 0.000001 beyond; ConvNeXt starts all at 0.000001. These are
# warmed-up networks whose norm stands inside the branch. Our runs do not test that rule: which start ends lower changes with the rate ([appendix](05_layer_scale_more.ipynb)).
# - **A gate's size** alone does not say how much its block matters: g · W and g · b stay the same if g is doubled, and W and b are halved.
# - Gates that are computed from a condition are the next lesson's.
#
# ## Summary
#
# The folded cells hold the code of the stored runs, which takes some minutes, and the finished class. A first reader may skip them.


# %% jupyter={"source_hidden": true}
SETTINGS = {}  # for a name: makes the network of a seed, rate, times, what differs


def new(place, start=None, one=False, **settings):
    """Return a function that builds the network of a seed."""

    def make(seed):
        net = build(place, start, seed=seed, **settings)
        for block in net[:-2] if one else ():  # one gate for a whole branch
            block.gate = nn.Parameter(torch.tensor(start, device=device))
        return net

    return make


# %% jupyter={"source_hidden": true}
def add(name, make, times=(80,), rate=0.003, **factors):
    SETTINGS[name] = make, rate, times, factors


for place in PLACES:
    for start in STARTS:
        times = (80, 160, 800) if start is None and place != "pre" else (80,)
        add(named(place, start), new(place, start), times)
    for start in 0.1, 0.0001:
        add(f"{place}, {start:g}, frozen", new(place, start, fixed=True))
add("no blocks", new("post", depth=0), (80, 160))
frozen = new("post", 0.0001, fixed=True)
add("post, 0.0001, frozen, branches x 0", frozen, first=0, second=0)
add("post, 0.0001, frozen, last layer x 1000", frozen, second=1000)
add("post, 1, gates x 1", new("post", 1.0), (480,), gate=1)
add("post, 1, gates x 100", new("post", 1.0), gate=100)


# %% jupyter={"source_hidden": true}
for place in "post", "skip":
    for start, then in (1.0, 0.1), (0.1, 1.0):
        name = f"{place}, {start:g}, set to {then:g}"
        add(name, new(place, start), (160,), set=then)
    for name, _, changes in FIXED:
        factors = {key: by for key, by in changes.items() if key in QUARTER}
        made = {key: by for key, by in changes.items() if key not in QUARTER}
        make = new(place, fixed=True, **made)
        longer = {"0.1, frozen": (80, 160), "branches x 0.05": (160, 800)}
        times = longer.get(name, (160,))
        add(f"{place}, {name}", make, times, **factors)
    make = new(place, 0.1, fixed=True)
    add(f"{place}, fixed 0.1, first layer x 10", make, first=10)


# %% jupyter={"source_hidden": true}
for place in "post", "skip":
    for depth, starts in SIZES.items():
        for start in starts:
            make = new(place, start, depth=depth)
            add(f"{place}, {depth} blocks, {start:g}", make)
    for start in (0.2, 0.4) if place == "post" else ():
        add(f"{place}, 192 blocks, {start:g}", new(place, start, depth=192))
    for start in 0.1, 0.0:
        add(f"{place}, {start:g}, one gate", new(place, start, one=True))
for start in 0.3, 0.4:
    add(f"post, {start:g}", new("post", start), (80, 800))
small = {"fixed": True, "last": 0.1}
add("post, V / 10, first layer x 10", new("post", **small), (160,), first=10)
small = {"fixed": True, "last": 0.01, "depth": 192}
add("post, 192 blocks, V / 100", new("post", **small), (160,))
add("pre, fixed 0.1, x 25", new("pre", 0.1, fixed=True), second=25)


# %% jupyter={"source_hidden": true}
for place in "post", "pre":
    for rate in 0.0003, 0.001, 0.01:
        for start in None, 1.0, 0.1, 0.01, 0.0001:
            add(f"{named(place, start)}, rate {rate:g}", new(place, start), rate=rate)
        for start in 0.1, 0.0001:
            make = new(place, start, fixed=True)
            add(f"{place}, {start:g}, frozen, rate {rate:g}", make, rate=rate)
for depth in 12, 24, 192:
    for start in None, 0.1, 1e-5, 1e-6:
        name = f"pre, {depth} blocks, {start if start is None else f'{start:g}'}"
        make, times = new("pre", start, depth=depth), (40,) if depth == 192 else (80,)
        add(name, make, times)
for start in 0.1, 1e-5:
    make = new("pre", start, depth=192)
    add(f"pre, 192 blocks, {start:g}, rate 0.001", make, (40,), 0.001)


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.4, only=()):
    """Return share right and loss at each time, means over its last 20 steps."""
    found = {}
    for name in only or SETTINGS:
        make, rate, times, given = SETTINGS[name]
        factors = {key: by for key, by in given.items() if key != "set"}
        net, seen, then = make(seed), {at: [] for at in times}, given.get("set")

        def watch(step, net=net, seen=seen, then=then):
            for at, shares in seen.items():
                if at - 20 < step <= at and step % 4 == 0:
                    shares.append(right(net))
            if then and step == 40:
                set_gates(net, then)

        move = sum(first_step(make(seed), rate, seed, **factors))
        losses = train(net, rate, max(times) + 1, seed, watch, **factors)
        for at, shares in seen.items():
            found[f"{name}: {at} right"] = round(sum(shares) / len(shares), 3)
            found[f"{name}: {at} loss"] = round(sum(losses[at - 20 : at]) / 20, 3)
        found[f"{name}: 14 loss"] = round(sum(losses[5:15]) / 10, 3)
        found[f"{name}: 1 move"] = round(move, 3)
        if "gate" in factors:
            size = gates(net).abs().mean().item()
            found[f"{name}: {max(times)} gate"] = round(size, 3)
    return found


# %% tags=["trained"] jupyter={"source_hidden": true}
again = runs(0, only=("post, 0.1", "post, None"))
near = max(abs(share - stored[0][name]) for name, share in again.items())
holds(near < 0.4, "The stored runs are those of this code.")

# %% tags=["promote:parts/layer_scale"] jupyter={"source_hidden": true}
import torch
from torch import nn


class LayerScale(nn.Module):
    def __init__(self, dim, init_value=1e-4):
        super().__init__()
        self.dim = dim
        self.gamma = nn.Parameter(torch.full((dim,), float(init_value)))

    def forward(self, x):
        # x: ..., channels
        return (x * self.gamma).type_as(x)


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. One step of Adam moves L gated branches by L · g · c in all, each over its stream; in pre-norm by less | to a factor of 2; c is 0.1 in the first block, at a rate of 0.003 |
# | 2. A gate's gradient contains the branch's output, the branch's gradient contains the gate. Of two zeros in a row neither learns | exact zeros |
# | 3. A fixed gate g makes start and steps of f's last layer g times as large. Post-norm and skip alone train if the total move of a step is small: below 2.5 all of ours did, above 5 none | 12 to 192 blocks, 80 steps of Adam at 0.003 without weight decay; pre-norm bears more, and a large start less |


# %%
summary("05")

# %% [markdown]
# ## Next
#
# - [Lesson 06](06_adaln_zero.ipynb) computes the gates from a condition.
# - [Homework for lessons 04 and 05](homework/hw_04_05.ipynb).
# - [The appendix](05_layer_scale_more.ipynb): the class, the gates as they open, a fixed gate under plain descent, starts by depth, weight decay, an explorer of four rates.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
