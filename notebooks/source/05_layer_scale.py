# %% [markdown]
# # 05 · LayerScale
#
# 85 minutes. Nothing is downloaded. It follows [lesson 04](04_pre_norm_and_post_norm.ipynb), whose network it uses. Of
# [lesson 02](02_layer_norm.ipynb) it uses that the mean squares of x and f(x) add.
#
# By the end you can
#
# - **compute** on paper how far Adam moves 48 branches, and **say** what that number tells in advance;
# - **compute** the gradients of a gated branch;
# - **separate** what a gate does at the start from what it does to the steps, by runs that change one of them;
# - **diagnose** and **mend** a network that trains, but less well than it should.

# %%
import math

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, predict, progress, setup, show, summary
from residual_course.plots import layer_scale as plots
from residual_course.training import accuracy

device = setup()
progress("05")

# %% [markdown]
# ## 48 blocks in three wirings
#
# In lesson 04, 48 post-norm blocks did not train at a rate of 0.002. **LayerScale**, from CaiT
# ([Touvron et al., 2021](https://arxiv.org/abs/2103.17239)), multiplies the output of each branch by learned **gates** g that start small. CaiT's vision
# transformers of 24 and 36 layers end more accurate with it than without. There it is a vector, a gate for each feature, so that each feature has
# its own size; in CaiT's comparison one gate for a whole branch ended less accurate.
#
# Here the rate is 0.003, three times Adam's default, so that 80 steps show which networks train. All gates start at one value, `start`, in three wirings:
#
# - skip alone: x + g · f(x)
# - post-norm: norm(x + g · f(x))
# - pre-norm: x + g · f(norm(x))
#
# The weights are lesson 04's, so f's output is as large as its input.


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
# In every table the losses are means over the last 20 steps, for three seeds. The last line is the measure: a network **trains** if its loss is lower than
# without any block, after as many steps at the same rate. At 0.003 that is 0.58 after 80 steps and 0.28 after 160; it stands at the head of each table.
#
# ## Would smaller weights do?
#
# A gate of 0.1 makes a branch smaller. So do smaller weights, and a smaller rate makes its steps smaller: why a gate? Call the weights of f's last layer
# **V**. Here V starts at a hundredth, without gates, beside gates from 0.1. (What takes minutes was computed before; its code stands
# at the end.)

# %% jupyter={"source_hidden": true}


def right(net):
    return accuracy(net, test_x, test_y)


STARTS = (None, 1.0, 0.1, 0.01, 1e-4, 1e-6, 0.0)
RATES = 0.0003, 0.001, 0.003, 0.01
SIZES = {48: (0.15, 0.3, 0.6), 192: (0.075, 0.15, 0.3)}


def named(place, start):
    return f"{place}, {start}" if start is None else f"{place}, {start:g}"


def gates(net):
    return torch.cat([block.gate.detach().expand(64) for block in net[:-2]])


def set_gates(net, value):
    for block in net[:-2]:
        block.gate.data.fill_(value)


# %% jupyter={"source_hidden": true}
from residual_course.lesson import stored_runs

stored = stored_runs("05_layer_scale")["runs"]


def row(name, step, what="right"):
    """Return a stored number at a step, for three seeds."""
    return [stored[seed][f"{name}: {step} {what}"] for seed in range(3)]


def mean(name, step, what="right"):
    return sum(row(name, step, what)) / 3


def head(steps):
    title = f"after {steps} steps (no blocks: {mean('no blocks', steps, 'loss'):.2f})"
    print(f"{title:38} test digits right   training loss")


def tell(name, step, label=""):
    shares = "  ".join(f"{one:4.0%}" for one in row(name, step))
    losses = "  ".join(f"{one:.2f}" for one in row(name, step, "loss"))
    print(f"{label or name:38} {shares}     {losses}")


def first_above(value, limits):
    """Return the name of the first limit that is above a value."""
    return next(name for limit, name in limits.items() if value < limit)


# %% tags=["trained"] jupyter={"source_hidden": true}
KINDS = {"no gate": "post, None", "V / 100": "post, V / 100"}
KINDS |= {"gates from 0.1": "post, 0.1", "no blocks": "no blocks"}


def ends_at(kind, rate):
    """Return the losses of step 160 at a rate, for three seeds."""
    at = "" if rate == 0.003 else f", rate {rate:g}"
    return row(f"{KINDS[kind]}{at}", 160, "loss")


print("post-norm, loss after 160 steps, means of three seeds")
print(f"{'rate':8}" + "".join(f"{kind:>16}" for kind in KINDS))
for rate in RATES:
    means = [sum(ends_at(kind, rate)) / 3 for kind in KINDS]
    print(f"{rate:<8g}" + "".join(f"{end:16.2f}" for end in means))
holds(min(ends_at("no gate", 0.001)) > 1.5, "Without gates 0.001 is too much.")
holds(max(ends_at("no gate", 0.0003)) < 1.2, "Without gates 0.0003 is not.")
holds(min(ends_at("V / 100", 0.01)) > 1.5, "With a small V 0.01 is too much.")
holds(max(ends_at("gates from 0.1", 0.01)) < 0.2, "With gates it is not.")

# %% [markdown]
# Without gates it trains at the smallest rate alone, with a small V at three rates, with gates at all four. At 0.0003 a small V does better than gates; the lowest loss
# is that of gates, at 0.001. So what gates buy here is the choice of the rate. Why do they bear larger steps than small weights? Must they be learned?
#
# ## Learned from 1
#
# Gates that are learned may also start at 1, where the network is the one without gates, and become smaller by themselves.

# %% tags=["predict"]
guess = predict(
    "Post-norm at 0.003, gates learned from 1: the loss after 480 steps?",
    ["as without gates", "halfway", "as from 0.1"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print(f"{'':38} test digits right   training loss")
tell("post, None", 480, "no gate, 480 steps")
name = "post, 1, gates x 1"
tell(name, 480, "gates from 1, 480 steps")
print("mean size of the gates at step 480:", *row(name, 480, "gate"))
holds(min(row(name, 480, "loss")) > 2, "Gates from 1 do not make post-norm train.")
holds(min(row(name, 480, "gate")) > 0.9, "They stay near 1.")
guess.reveal(
    first_above(
        mean(name, 480, "loss"),
        {0.3: "as from 0.1", 2: "halfway", 9: "as without gates"},
    ),
    why={
        "as without gates": "They learn, but their gradient does not make them small.",
        "halfway": "Then their gradient would close them, if slowly.",
        "as from 0.1": "Then it would not matter where gates start.",
    },
)

# %% [markdown]
# Now we set the gates by hand, at step 40: from 1 to 0.1 in networks that have failed by then, and the
# other way round.

# %% tags=["trained"] jupyter={"source_hidden": true}
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

# %% [markdown]
# Their size decides, at step 40 too. What have the failed steps done?
#
# ## Inside the network
#
# We send 64 test digits through the blocks and measure three things:
#
# - the gradient of the loss with respect to the stream, before each block;
# - the **own part**: how much of the stream at the end differs between digits;
# - how much of the gradient of the blocks' weights changes when the labels are given to other digits.
#
# (Folded: `look`, which measures them.)

# %% jupyter={"source_hidden": true}
X, Y = test_x[:64], test_y[:64]


def rms(x):
    return x.square().mean().sqrt().item()


def look(net):
    """Return the gradient along the stream, the own part, and what labels change."""
    stream, weights = [X.clone().requires_grad_()], [b.first.weight for b in net[:-2]]
    for block in net[:-2]:
        stream.append(block(stream[-1]))
    out, end = net[-2:](stream[-1]), stream[-1].detach()
    loss, other = F.cross_entropy(out, Y), F.cross_entropy(out, Y.roll(1))
    found = torch.autograd.grad(loss, [*stream, *weights], retain_graph=True)
    mine = torch.stack(found[len(stream) :])
    theirs = torch.stack(torch.autograd.grad(other, weights))
    own, change = rms(end - end.mean(0)) / rms(end), rms(mine - theirs) / rms(mine)
    return [rms(one) for one in found[: len(stream)]], own, change


# %% jupyter={"source_hidden": true}
def watched(start, steps, seed=0, place="post"):
    """Train, and return what `look` returns before some of the steps."""
    net, found = build(place, start, seed=seed), {}

    def watch(step):
        if step in steps:
            found[step] = look(net)

    train(net, 0.003, max(steps) + 1, seed, watch)
    return found


inside = {start: watched(start, (0, 1, 10, 40)) for start in (1.0, 0.3, 0.1)}
curves = {
    f"gates from {start:g}": {step: found[step][0] for step in found}
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
# In lesson 04 the first step of Adam moved each branch's output by nearly the same vector for all digits. Is it this **common part**
# of the move? We **put it in** alone: into the new network, as a bias in each block. And we **take it out** after the step, and leave the rest.

# %% jupyter={"source_hidden": true}
import copy


def given(block, x):
    return block.norm(x) if block.place == "pre" else x


@torch.no_grad()
def with_common(net, old, new, sign, turned=False):
    """Add to each bias of a copy what a step moves f by for all digits, or take it."""
    net, x, chance = copy.deepcopy(net), X, torch.Generator().manual_seed(0)
    for block, was, now in zip(net[:-2], old[:-2], new[:-2], strict=True):
        move = now.gate * now.f(given(now, x)) - was.gate * was.f(given(was, x))
        common = move.mean(0)
        if turned:  # as long, in a random direction
            other = torch.randn(64, generator=chance).to(common)
            common = other * common.norm() / other.norm()
        block.second.bias += sign * common  # for networks without gates
        x = block(x)
    return net


def swapped(seed):
    """Return what `look` returns: before a step, after it, and with one change."""
    old = build("post", seed=seed)
    new = copy.deepcopy(old)
    train(new, 0.003, 1, seed)
    put, taken = with_common(old, old, new, 1), with_common(new, old, new, -1)
    turned = with_common(old, old, new, 1, turned=True)
    return [look(net) for net in (old, new, put, turned, taken)]


# %% tags=["trained"] jupyter={"source_hidden": true}
def line(label, found):
    gradient, own, change = found
    print(f"{label:32} {own:8.1g}   {gradient[0]:8.1g}   {change:8.1g}")


print(f"{'no gate, seed 0':32} own part   gradient   labels change")
names = ["new", "after one step", "common part put in"]
names += ["random, as long, put in", "common part taken out"]
for seed in range(3):
    old, new, put, turned, taken = found = swapped(seed)
    for name, one in zip(names, found, strict=True) if seed == 0 else ():
        line(f"post-norm, {name}", one)
    for bad, good in (new, old), (put, old), (put, taken):
        holds(bad[1] < good[1] / 8 and bad[0][0] < good[0][0] / 8, "The common part.")
    holds(put[1] < turned[1] / 3 < old[1] / 3, "Random directions do less.")
line("post-norm, 10 steps", inside[1.0][10])
line("the same with gates from 0.1", inside[0.1][10])
late = {place: watched(None, (10,), place=place)[10] for place in ("skip", "pre")}
for place, found in late.items():
    line(f"{PLACES[place]}, 10 steps", found)
late_changes = [watched(1.0, (10,), seed)[10][2] for seed in range(3)]
holds(max(late_changes) < 0.01 < 0.3 < inside[0.1][10][2], "Labels change nothing.")
holds(late["skip"][2] < 0.01 < 0.3 < late["pre"][2], "In the skip alone too.")
name = "post, None, taken out"
kept, losses = row(name, 160, "own"), row(name, 160, "loss")
print("taken out after each of 160 steps: own part", *kept, "  loss", *losses)
holds(min(kept) > 0.5 and min(losses) > 1.4, "Taken out always, it does not train.")

# %% [markdown]
# So the first step of post-norm does this:
#
# 1. **A large common move makes the own part small.** Put in alone, it leaves as little of the digits as the whole step; without it the step does no such
#    harm. Vectors as long in random directions do less: the direction counts too.
# 2. **The gradient at the first block falls** in the same networks.
# 3. After 10 steps **the gradient does not depend on the digits.** The gradient of a weight matrix is a sum over digits, Σ δ hᵀ, with h what the
#    matrix receives. Where h is the same for all, it is (Σ δ) hᵀ, whichever digit has which label.
#
# Each holds with three seeds; new networks keep between 0.06 and 0.33. It is not the whole failure: taken out after every step, the digits keep their
# own part, and yet the network hardly learns. The skip alone keeps 0.2, and labels change nothing. Why, we did not find out. Pre-norm keeps both.
#
# ## One step on paper
#
# How large is the common move? Call **c** the size of the move of f's output over the size of f's input. The gate multiplies it: the branch moves by **g · c**. L branches
# move by **L · g · c** in all, each over the size of its stream: the **total move** of the step.
#
# f has two layers, so c has two parts: V moves, and V passes on what the first layer's move has changed. We measure c in the
# first block, and each part with the other layer at rest:


# %%
def first_step(net, rate=0.003, seed=0, **times):
    """Return how far one step moves each gated branch, over the size of its stream."""
    old, x, moves = copy.deepcopy(net), X, []
    train(net, rate, 1, seed, **times)
    with torch.no_grad():
        for was, now in zip(old[:-2], net[:-2], strict=True):
            move = now.gate * now.f(given(was, x)) - was.gate * was.f(given(was, x))
            moves.append(rms(move.mean(0)) / rms(x))  # what all digits share of it
            x = was(x)
    return moves


parts = {"c": {}, "first layer's part": {"second": 0}, "V's part": {"first": 0}}
for name, rest in parts.items():
    found = [first_step(build("post", seed=s), seed=s, **rest) for s in range(3)]
    parts[name] = sum(one[0] for one in found) / 3
    print(f"{name:18}", *[f"{one[0]:.3f}" for one in found], end="   in 48 blocks: ")
    print(*[f"{sum(one):.1f}" for one in found])
c = parts["c"]
print(f"48 branches, gates of 1: {48 * c:.1f} times the stream; of 0.1: {4.8 * c:.2f}")

# %% [markdown]
# On paper, gates of 1 move five times the stream in one step. (We add lengths, not vectors.) The first layer's part is the larger. It passes V, so it is
# proportional to V; V's own part is not.
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
from residual_course.exercises.total_move import total as on_paper

for place in "post", "skip", "pre":
    for start in 1.0, 0.1:
        nets = [build(place, start, seed=seed) for seed in range(3)]
        found = [sum(first_step(net, seed=seed)) for seed, net in enumerate(nets)]
        paper = on_paper(place, 48, start, c)
        numbers = "  ".join(f"{one:.2f}" for one in found)
        name = f"{PLACES[place]}, gates from {start:g}"
        print(f"{name:30} {paper:8.2f}   {numbers}")
        holds(min(found) > paper / 2 and max(found) < paper * 2, "To a factor of 2.")
moves = first_step(build("post", 1.0))
print(f"post-norm, gates from 1, seed 0: c is {moves[0]:.2f} in the first block,")
print(f"{sum(moves[24:]) / 24:.2f} on average in the second half")

# %% [markdown]
# Paper is too small by half at most, since c is not the same in all blocks. Without gates pre-norm's total move is five times smaller than post-norm's.
#
# **Law 1.** The first step of Adam moves L branches with gates of g by about L · g · c in all, each over its stream; in pre-norm by less, since the stream grows by g² in
# each block. c is about 0.1 at a rate of 0.003, most of it from the first layer. (Gates that learn move too, which adds about 0.1 in all.)
#
# ## From 48 blocks to 192
#
# After 80 steps 48 post-norm blocks train with gates from 0.3, and with gates from 0.6 they do not. Now there are 192 blocks.

# %% tags=["predict"]
guess = predict(
    "192 post-norm blocks: the largest start that trains, of these?",
    ["0.3", "0.15", "0.075", "none"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
head(80)
for depth, starts in SIZES.items():
    for start in starts:
        label = f"{depth:3} blocks, from {start:<6g} L · g = {depth * start:.3g}"
        tell(f"post, {depth} blocks, {start:g}", 80, label)
alone = mean("no blocks", 80, "loss")
few = [f"{place}, 48 blocks, {g:g}" for place in ("post", "skip") for g in (0.15, 0.3)]
many = ["post, 48 blocks, 0.6", "skip, 48 blocks, 0.6", "post, 192 blocks, 0.15"]
few = max(max(row(name, 80, "loss")) for name in [*few, "post, 192 blocks, 0.075"])
many = min(min(row(name, 80, "loss")) for name in many)
holds(few < alone < many, "L · g decides, with the skip alone too.")
sizes = [g for g in SIZES[192] if mean(f"post, 192 blocks, {g:g}", 80, "loss") < alone]
guess.reveal(
    f"{max(sizes):g}" if sizes else "none",
    why={
        "0.3": "That would be so if each branch mattered by itself.",
        "0.15": "That would be so if the squares of the moves added: √4 is 2.",
        "0.075": "Four times the branches, a quarter of g: the same L · g.",
        "none": "Then depth would do harm beside the total move.",
    },
)

# %% [markdown]
# So much for large gates. How small may they be? May they start at 0, where the gate multiplies all of its branch away?
#
# ## From 1 down to 0

# %% tags=["predict"]
guess = predict(
    "Gates from exactly 0: the loss after 80 steps, beside gates from 0.000001?",
    ["about the same", "twice to 10 times", "stays at 2.3"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print("80 steps, means of three seeds: test digits right,")
print("training loss in steps 5 to 14, and at the end")
print("from    " + "".join(f"{title:23}" for title in PLACES.values()))
for start in (start for start in STARTS if start != 1e-4):
    text = "none    " if start is None else f"{start:<8g}"
    for name in (named(place, start) for place in PLACES):
        early, late = (mean(name, at, "loss") for at in (14, 80))
        text += f"{mean(name, 80):4.0%}  {early:.2f}  {late:.2f}       "
    print(text.rstrip())
small = [max(row(named(p, s), 80, "loss")) for p in PLACES for s in STARTS[2:]]
holds(max(small) < 0.2, "From 0.1 down to 0 all train.")
times = mean("post, 0", 80, "loss") / mean("post, 1e-06", 80, "loss")
limits = {2: "about the same", 10: "twice to 10 times", math.inf: "stays at 2.3"}
guess.reveal(
    first_above(times, limits),
    why={
        "about the same": "Something opens the gates at once: the section below.",
        "twice to 10 times": "The branches lose about one step of 80.",
        "stays at 2.3": "That would be so if a gate of 0 had no gradient.",
    },
    after="From 0.01 down to 0 all end alike; they begin more slowly than 0.1, and in "
    "pre-norm more slowly than without gates.",
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
# ([Bachlechner et al., 2020](https://arxiv.org/abs/2003.04887)) have one gate for a whole branch, and start it at 0.
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
        "0.0001 alone": "It also multiplies all that the branch learns.",
        "neither": "Then learning would help. But learned gates from 1 did not train.",
    },
    after="Frozen at 0.0001 it does as well as without trained branches: the norms "
    "take it below 0.58. With longer steps of V it does as well as with learned gates.",
)

# %% [markdown]
# So must gates be learned? Not if their size is known: here a constant 0.1 is enough. Learned gates may start anywhere from 0.1 down to 0.
#
# ## Start or steps?
#
# What does a gate do that small weights do not? f ends in a linear layer, W · h + b. With a fixed gate, g · (W · h + b) = V · h + d,
# where **V = g · W** and d = g · b. So a network without gates, with V for f's last layer, computes the same. What differs in training?
#
# - **The start.** V starts g times as small as W.
# - **The steps.** Adam divides a gradient by its own size, so W moves by about the rate in each step, whatever g is. Then V = g · W
#   moves by g times the rate.
#
# So under Adam, without weight decay, a fixed gate g *is* a last layer with g times the start and g times the rate, and nothing else. At 0.003 V may start at a
# tenth, without gates, and the network trains; its total move is 2.4. Gates from 0.3 (measured: 1.9) train for 80 steps, gates from 0.4 (2.7) do not. Compute the
# total move of each choice below, from c's two parts.

# %% tags=["predict"]
guess = predict(
    "V / 10 trains, without gates. Which of these does, too?",
    [
        "V's rate / 10",
        "both layers' rates x 0.23",
        "V / 10, its rate x 2.5",
        "none of them",
    ],
)

# %% jupyter={"source_hidden": true}
QUARTER = {"first": 0.23, "second": 0.23}
TWENTIETH = {"first": 0.05, "second": 0.05}
FIXED = (  # beside one change: what the table calls it, and how the network is made
    ("V / 10", "V starts at a tenth", {"last": 0.1}),
    ("V's rate / 10", "V's rate / 10", {"second": 0.1}),
    ("branches x 0.23", "both layers' rates x 0.23", QUARTER),
    ("fixed 0.1, x 25", "V / 10, its rate x 2.5", {"start": 0.1, "second": 25}),
    ("0.1, frozen", "gates fixed at 0.1", {"start": 0.1}),
    ("V / 100", "V starts at a hundredth", {"last": 0.01}),
    ("branches x 0.05", "both layers' rates x 0.05", TWENTIETH),
    ("fixed 0.1, x 10", "gate 0.1, V's rate x 10", {"start": 0.1, "second": 10}),
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
head(160)
alone, works = mean("no blocks", 160, "loss"), []
for name, label, _ in (("None", "no gate", {}), *FIXED[:5]):
    move = mean(f"post, {name}", 1, "move")
    tell(f"post, {name}", 160, f"post, {label:27} {move:3.1f}")
    works += [label] if mean(f"post, {name}", 160, "loss") < alone else []
bad = [f"{p}, {name}" for p in ("post", "skip") for name, *_ in FIXED[1:4]]
holds(min(min(row(name, 160, "loss")) for name in bad) > 1.4, "None of the three.")
guess.reveal(
    next((label for _, label, _ in FIXED[1:4] if label in works), "none of them"),
    why={
        "V's rate / 10": "The first layer's part passes a V of full size.",
        "both layers' rates x 0.23": "It moves no more than V / 10, but starts full.",
        "V / 10, its rate x 2.5": "V's own part is proportional to its rate.",
        "none of them": "Two of them move too far in all, and one starts too large.",
    },
    after="Beside a name: its total move. Gates fixed at 0.1 end lower than V / 10.",
)

# %% [markdown]
# ## All runs, by one number
#
# Here are the networks of this lesson at 0.003, of 12, 48 and 192 blocks, gates learned and fixed: the total move of the first step, and the loss
# after 80 or 160 steps. Gates frozen at 0.0001 are left out. That lengths are added, and the limits 2.5 and 4 below, were chosen after most runs were seen.


# %% jupyter={"source_hidden": true}
NOT_SHOWN = "set to", ", rate 0", "begun", "taken"


def moves_and_losses():
    """Return total moves, losses and steps, for each kind of network."""
    kinds = "post-norm", "skip alone", "pre-norm", "full start"
    found = {kind: [] for kind in kinds}
    for name in dict.fromkeys(key.partition(":")[0] for key in stored[0]):
        at = next((at for at in (80, 160) if f"{name}: {at} loss" in stored[0]), None)
        if at is None or any(one in name for one in NOT_SHOWN):
            continue
        move, loss = mean(name, 1, "move"), mean(name, at, "loss")
        if move > 0.05:
            full = "branches x 0." in name
            kind = "full start" if full else PLACES[name.split(",")[0]]
            found[kind].append((move, loss, at))
    return found


# %% tags=["figure", "trained"]
found, ax = moves_and_losses(), Figure(figsize=(6, 4)).add_subplot()
alone = {at: mean("no blocks", at, "loss") for at in (80, 160)}
plots.plot_moves(found, alone, ax)
ax.set_title("Above a total move of 4 no post-norm trains")
alt = "Loss over the total move of the first step, both logarithmic, open marks after "
alt += "80 steps, filled after 160, and a line without blocks for each. Post-norm and "
alt += "skip alone: below 2.5 under their line, above 4 over it. Pre-norm stays under "
show(ax.figure, alt=alt + "it. From a full start, at moves of 2 and 0.4, over it.")
two = found["post-norm"] + found["skip alone"]
print(f"{len(two)} post-norm and skip alone, {len(found['pre-norm'])} pre-norm")
below = [loss < alone[at] for move, loss, at in two if move < 2.5]
above = [loss < alone[at] for move, loss, at in two if move > 4]
holds(all(below), "Below 2.5 all train.")
holds(not any(above), "Above 4 none does.")
holds(max(loss for _, loss, _ in found["pre-norm"]) < 0.5, "Pre-norm trains with all.")
holds(min(loss for _, loss, _ in found["full start"]) > alone[160], "Full: none.")

# %% [markdown]
# "Full start" are networks without gates whose branches take small steps. Between 2.5 and 4 the total move is not the whole story. Pre-norm trains at a move of 5.
#
# The first step stands for all that follow; it does not decide alone. Here it is taken at another rate, and all others at 0.003. Below, two networks near the
# limit are trained on.

# %% tags=["trained"] jupyter={"source_hidden": true}
head(160)
for start, by in (0.1, 10), (1, 0.01):
    name = f"post, {start:g}, begun x {by:g}"
    label = f"gates from {start:g}, first step x {by:g}"
    tell(name, 160, f"{label:32} {mean(name, 1, 'move'):4.1f}")
head(480)
for start in 0.3, 0.4:
    name = f"post, 48 blocks, {start:g}"
    tell(name, 480, f"{f'gates from {start:g}':32} {mean(name, 1, 'move'):4.1f}")
holds(max(row("post, 0.1, begun x 10", 160, "loss")) < 0.15, "One long step is mended.")
holds(min(row("post, 1, begun x 0.01", 160, "loss")) > 2, "One short step is no help.")
holds(min(row("post, 48 blocks, 0.4", 480, "loss")) > 1.5, "From 0.4 it is lost later.")

# %% [markdown]
# Gates from 0.4 had a loss of 0.6 to 1 after 80 steps, and fail later. Gates from 0.3 then do no better than no blocks.
#
# **Law 3.** A fixed gate makes the start and the steps of f's last layer g times as large. At 0.003, post-norm and skip alone trained from a small start (gates to 0.8, or
# V to a tenth) where the total move of the first step, taken at the rate of all others, was below 2.5. Above 4 none did.
#
# ## A network that should do better
#
# `handed_over` builds eight pre-norm blocks, with the layers and gates of this lesson, and somebody's own starting values. Beside it, our eight
# blocks with gates from 0.1. Both are trained for 60 steps at 0.003.

# %% tags=["trained"] jupyter={"source_hidden": true}
from residual_course.exercises.mended_blocks import handed_over

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
# - **Trained gates** are larger towards the last block, and their size says little about how much a block matters ([appendix](05_layer_scale_more.ipynb)): g · W and g · b stay the same if g
# is doubled, and W and b are halved.
# - **Weight decay** would pull gates to 0, so vectors (gates, gains, biases) are usually left out of it.
#
# ## Summary
#
# The folded cells hold the code of the stored runs, which takes some minutes. A first reader may skip them. The finished class follows.


# %% jupyter={"source_hidden": true}
SETTINGS = {}  # for a name: makes the network of a seed, rate, times, what differs


def new(place, start=None, **settings):
    """Return a function that builds the network of a seed."""
    return lambda seed: build(place, start, seed=seed, **settings)


# %% jupyter={"source_hidden": true}
def add(name, make, times=(80,), rate=0.003, **factors):
    SETTINGS[name] = make, rate, times, factors


for place in PLACES:
    for start in STARTS:
        times = {("post", None): (80, 160, 480), ("skip", None): (80, 160)}
        times = times.get(
            (place, start), (80, 160) if (place, start) == ("post", 0.1) else (80,)
        )
        add(named(place, start), new(place, start), times)
    for start in 0.1, 0.0001:
        add(f"{place}, {start:g}, frozen", new(place, start, fixed=True))
add("no blocks", new("post", depth=0), (80, 160, 480))
for rate in 0.0003, 0.001, 0.01:
    add(f"no blocks, rate {rate:g}", new("post", depth=0), (160,), rate)
    small = new("post", fixed=True, last=0.01)
    add(f"post, V / 100, rate {rate:g}", small, (160,), rate)
frozen = new("post", 0.0001, fixed=True)
add("post, 0.0001, frozen, branches x 0", frozen, first=0, second=0)
add("post, 0.0001, frozen, last layer x 1000", frozen, second=1000)
add("post, 1, gates x 1", new("post", 1.0), (480,), gate=1)


# %% jupyter={"source_hidden": true}
for place in "post", "skip":
    for start, then in (1.0, 0.1), (0.1, 1.0):
        name = f"{place}, {start:g}, set to {then:g}"
        add(name, new(place, start), (160,), set=then)
    for name, _, changes in FIXED:
        factors = {key: by for key, by in changes.items() if key in QUARTER}
        made = {key: by for key, by in changes.items() if key not in QUARTER}
        make = new(place, fixed=True, **made)
        times = (80, 160) if name == "0.1, frozen" else (160,)
        add(f"{place}, {name}", make, times, **factors)
    make = new(place, 0.1, fixed=True)
    add(f"{place}, fixed 0.1, first layer x 10", make, first=10)


# %% jupyter={"source_hidden": true}
starts = {12: (0.8, 1.6), 48: (0.15, 0.2, 0.3, 0.4, 0.6)}
starts = {"skip": starts, "post": starts | {192: (0.05, 0.075, 0.1, 0.15, 0.3)}}
for place, depth in (
    ("post", 12),
    ("post", 48),
    ("post", 192),
    ("skip", 12),
    ("skip", 48),
):
    for start in starts[place][depth]:
        late = place == "post" and depth == 48 and start in (0.3, 0.4)
        make = new(place, start, depth=depth)
        add(f"{place}, {depth} blocks, {start:g}", make, (80, 480) if late else (80,))
for start, by in (0.1, 10), (1.0, 0.01):
    add(f"post, {start:g}, begun x {by:g}", new("post", start), (160,), begun=by)
add("post, None, taken out", new("post"), (160,), taken=True)
small = {"fixed": True, "last": 0.1}
add("post, V / 10, first layer x 10", new("post", **small), (160,), first=10)
add("pre, fixed 0.1, x 25", new("pre", 0.1, fixed=True), second=25)


# %% jupyter={"source_hidden": true}
for place in "post", "pre":
    for rate in 0.0003, 0.001, 0.01:
        for start in None, 1.0, 0.1, 0.01, 0.0001:
            times = (80, 160) if place == "post" and start in (None, 0.1) else (80,)
            name = f"{named(place, start)}, rate {rate:g}"
            add(name, new(place, start), times, rate)
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


# %% jupyter={"source_hidden": true}
OURS = "set", "begun", "taken"  # changes that `train` does not know


def follow(net, seen, changes):
    """Return what is called before each step: it measures, and changes the network."""
    was = []

    def watch(step):
        for at, shares in seen.items():
            if at - 20 < step <= at and step % 4 == 0:
                shares.append(right(net))
        if step == 40 and "set" in changes:
            set_gates(net, changes["set"])
        if "taken" in changes:  # what all digits share of the last step's move
            if was:
                rest = with_common(net, was.pop(), net, -1)
                net.load_state_dict(rest.state_dict())
            was.append(copy.deepcopy(net))

    return watch


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.4, only=()):
    """Return share right and loss at each time, means over its last 20 steps."""
    found = {}
    for name in only or SETTINGS:
        make, rate, times, changes = SETTINGS[name]
        factors = {key: by for key, by in changes.items() if key not in OURS}
        net, seen, begun = make(seed), {at: [] for at in times}, changes.get("begun", 1)
        move = sum(first_step(make(seed), rate * begun, seed, **factors))
        if begun != 1:  # the first step, at another rate
            train(net, rate * begun, 1, seed)
        watch = follow(net, seen, changes)
        losses = train(net, rate, max(times) + 1, seed, watch, **factors)
        for at, shares in seen.items():
            found[f"{name}: {at} right"] = round(sum(shares) / len(shares), 3)
            found[f"{name}: {at} loss"] = round(sum(losses[at - 20 : at]) / 20, 3)
        found[f"{name}: 14 loss"] = round(sum(losses[5:15]) / 10, 3)
        found[f"{name}: 1 move"] = round(move, 3)
        if "gate" in factors:
            size = gates(net).abs().mean().item()
            found[f"{name}: {max(times)} gate"] = round(size, 3)
        if "taken" in changes:
            found[f"{name}: {max(times)} own"] = round(look(net)[1], 3)
    return found


# %% tags=["trained"] jupyter={"source_hidden": true}
again = runs(0, only=("pre, 12 blocks, 0.1", "post, 48 blocks, 0.6"))
near = max(abs(share - stored[0][name]) for name, share in again.items())
holds(near < 0.4, "The stored runs are those of this code.")

# %% tags=["promote:parts/layer_scale"]
import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_shape
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


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. One step of Adam moves L gated branches by L · g · c in all, each over its stream; in pre-norm by less | to a factor of 2; c is 0.1 in the first block, at a rate of 0.003 |
# | 2. A gate's gradient contains the branch's output, the branch's gradient contains the gate. Of two zeros in a row neither learns | exact zeros |
# | 3. A fixed gate g makes start and steps of f's last layer g times as large. Post-norm and skip alone train if the total move of their steps is small: below 2.5 all of ours did, above 4 none | 12 to 192 blocks (skip alone: to 48), 80 or 160 steps of Adam at 0.003 without weight decay; near 2 some are lost later; pre-norm bears more, a large start less |


# %%
summary("05")

# %% [markdown]
# ## Next
#
# - [Lesson 06](06_adaln_zero.ipynb) computes the gates from a condition.
# - [Homework for lessons 04 and 05](homework/hw_04_05.ipynb).
# - [The appendix](05_layer_scale_more.ipynb): the class, the gates as they open and by block, a fixed gate under plain descent, starts by depth, weight decay, an explorer of four rates.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
