# %% [markdown]
# # 05, appendix · The class, the gates as they open and by block, plain descent, Adam's first step, starts by depth, weight decay
#
# Not needed for [lesson 05](05_layer_scale.ipynb), and not counted in it.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import LayerNorm, LayerScale, SimpleFeedForward, pre_norm_residual
from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, setup, show, stored_runs

device = setup()
stored = stored_runs("05_layer_scale")["runs"]


def row(name, what):
    """Return a stored number of the lesson, for three seeds."""
    return [stored[seed][f"{name} {what}"] for seed in range(3)]


# %% [markdown]
# ## The class
#
# ### Exercise · 5 minutes · ●●○○○
#
# LayerScale as a module. It takes `dim` and `init_value`, 1e-4 unless told, and has one parameter, `gamma`.
#
# <details><summary>Hint 1</summary>What must a tensor be, so that an optimiser finds it?</details>
# <details><summary>Hint 2</summary><code>torch.full</code> makes a tensor of one number, and takes over that number's
# dtype; <code>nn.Parameter</code> registers it.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "layer-scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MyLayerScale(nn.Module):
    """Multiply each channel by its own learned number, ``gamma``."""

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
# The finished class, folded at the end of the lesson, has a `.type_as(x)`: a branch in 16 bits meets gates in float32 and stays in 16 bits.
#
# ### Exercise · 5 minutes · ●●●○○
#
# Four networks of one branch, x + gate · (W2 · relu(W1 · x + b1) + b2). What is not named is drawn at random.
#
# | | gate | W2 | b2 |
# |---|---|---|---|
# | A | 0 | | |
# | B | 0 | 0 | |
# | C | 0 | 0 | 0 |
# | D | 1 | 0 | 0 |
#
# In one of them no parameter of the branch ever changes. Return its letter.
#
# <details><summary>Hint 1</summary>The gate's gradient is a multiple of the branch's output, and the branch's a multiple of the
# gate.</details>
# <details><summary>Hint 2</summary>A branch with W2 = 0 returns b2.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "which-never-wakes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def which_never_wakes():
    """Return one letter, "A", "B", "C" or "D"."""
    ### BEGIN SOLUTION
    return "C"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "which-never-wakes-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(which_never_wakes, "which_never_wakes")

# %% [markdown]
# ## A fixed gate under plain descent
#
# Under Adam a fixed gate g is a last layer with g times the start and g times the rate. And under plain gradient descent, W ← W − rate ·
# (gradient with respect to W)?
#
# ### Exercise · 8 minutes · ●●●○○
#
# Return two numbers for the network without gates: the factor by which V's start is smaller or larger than W's, and V's rate, such that both
# networks take the same steps.
#
# <details><summary>Hint 1</summary>Let G be the gradient with respect to V = g · W. What is the gradient with respect to
# W?</details>
# <details><summary>Hint 2</summary>Write down W after one step, multiply by g, and read off what was subtracted from
# V.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "without-gate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def without_gate(g, rate):
    """Return the factor of V's start, and V's rate, under plain gradient descent."""
    ### BEGIN SOLUTION
    return g, g**2 * rate
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "without-gate-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(without_gate, "without_gate")

# %% [markdown]
# Both claims can be tried with eight blocks in float64 and 20 steps. (Adam's eps of 10⁻⁸ is made 10⁻²⁰ here.)

# %% jupyter={"source_hidden": true}
from functools import partial
from itertools import islice

from residual_course.training import minibatches

data = digits()
images, labels = (
    F.layer_norm(data.train_images.flatten(1), (64,)).to(device),
    data.train_labels.to(device),
)


class Block(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.norm, self.layer = LayerNorm(64), SimpleFeedForward(64, 64)
        self.gate = LayerScale(64, start)

    def forward(self, x):
        return pre_norm_residual(x, self.layer, self.norm, [self.gate])


# %% jupyter={"source_hidden": true}
def network(start, seed=0, depth=8):
    torch.manual_seed(seed)
    blocks = [Block(start) for _ in range(depth)]
    return nn.Sequential(*blocks, LayerNorm(64), nn.Linear(64, 10)).to(device)


def descend(net, optimizer, steps, watch=lambda: None):
    """Train on batches of 64, and return the losses."""
    losses = []
    for x, y in islice(minibatches(images, labels, seed=0), steps):
        watch()
        loss = F.cross_entropy(net(x.to(net[-1].weight)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% jupyter={"source_hidden": true}
def fixed(gate, factor, last_rate, rate, make):
    """Return the losses with gates fixed at `gate`, and last layers times `factor`."""
    net, groups = network(1.0).double(), ([], [])
    for block in net[:8]:
        block.gate.gamma.requires_grad_(False).fill_(gate)
        for parameter in block.layer.linear2.parameters():
            parameter.data *= factor
    for name, parameter in net.named_parameters():
        if parameter.requires_grad:
            groups["linear2" in name].append(parameter)
    rates = [
        {"params": group, "lr": lr}
        for group, lr in zip(groups, (rate, last_rate), strict=True)
    ]
    return torch.tensor(descend(net, make(rates), 20), dtype=torch.float64)


# %% tags=["trained"]
adam = partial(torch.optim.Adam, eps=1e-20)
gated = fixed(0.1, 1, 0.003, 0.003, adam)
gap = (fixed(1, 0.1, 0.1 * 0.003, 0.003, adam) - gated).abs().max()
print(f"Adam, start and rate times 0.1: the losses differ by {gap:.0e} at most")
holds(gap < 1e-6, "Under Adam the two networks are the same.")
try:
    factor, rate = without_gate(0.1, 0.03)
    gated = fixed(0.1, 1, 0.03, 0.03, torch.optim.SGD)
    gap = (fixed(1, factor, rate, 0.03, torch.optim.SGD) - gated).abs().max()
    print(f"SGD, start and rate of the exercise: by {gap:.0e} at most")
    holds(gap < 1e-6, "Under SGD the two networks are the same.")
except NotImplementedError:
    print("The exercise is not written yet: run this cell again after it.")

# %% [markdown]
# ## The gates as they open
#
# The mean size of the gates over the steps, eight pre-norm blocks, from five starts:


# %% tags=["figure", "trained"]
from matplotlib.figure import Figure

from residual_course.plots import layer_scale as plots


def opening(start):
    """Return the mean size of the gates before each step, and the gates at the end."""
    net, sizes = network(start), []
    gates = [block.gate.gamma for block in net[:8]]
    adam = torch.optim.Adam(net.parameters(), 0.003)
    descend(net, adam, 80, lambda: sizes.append(torch.cat(gates).abs().mean().item()))
    return sizes, torch.cat(gates).detach()


opened = {start: opening(start) for start in (1.0, 0.1, 0.01, 1e-4, 1e-6)}
ax = plots.plot_funnel(
    [[sizes] for sizes, _ in opened.values()], Figure().add_subplot()
)
ax.set_title("Starts of 0.01 and below end at one size")
alt = "Mean size of the gates over 80 steps, both axes logarithmic. Starts of 0.01, "
alt += "0.0001 and 0.000001 meet; 0.1 and 1 stay near where they were."
show(ax.figure, alt=alt)
ends = {start: sizes[-1] for start, (sizes, _) in opened.items()}
print("size at the end:", ", ".join(f"from {s:g} {e:.3f}" for s, e in ends.items()))
negative = [(opened[start][1] < 0).float().mean().item() for start in (0.01, 1e-6)]
print("gates below 0: from 0.01 {:.0%}, from 0.000001 {:.0%}".format(*negative))
small = [ends[start] for start in (0.01, 1e-4, 1e-6)]
holds(max(small) < 1.3 * min(small), "Small starts end at one size.")
holds(negative[0] < negative[1] - 0.05, "The gates themselves differ.")

# %% [markdown]
# Starts of 0.1 and 1 do not join them in 80 steps. And gates of one size are not the same gates: from 0.000001 half of them end
# below 0, from 0.01 fewer.
#
# ## Gates by block
#
# Which blocks end with large gates, and do these blocks matter more? 16 pre-norm blocks, gates from 0.0001, 200 steps. Then the gates of one block
# at a time are set to 0: by how much does the training loss rise?


# %% jupyter={"source_hidden": true}
def by_block(seed):
    """Return the size of each block's gates, and by how much the loss rises without."""
    net, sizes, rises = network(1e-4, seed, 16), [], []
    descend(net, torch.optim.Adam(net.parameters(), 0.003), 200)
    with torch.no_grad():
        whole = F.cross_entropy(net(images), labels)
        for block in net[:16]:
            gates = block.gate.gamma.clone()
            block.gate.gamma.zero_()
            rises.append(F.cross_entropy(net(images), labels) - whole)
            block.gate.gamma.copy_(gates)
            sizes.append(gates.abs().mean())
    return torch.stack(sizes), torch.stack(rises)


# %% tags=["trained"]
for seed in range(3):
    sizes, rises = by_block(seed)
    ranks = torch.stack([sizes.argsort().argsort(), rises.argsort().argsort()])
    likeness = torch.corrcoef(ranks.double())[0, 1].item()
    first, last = sizes[:4].mean().item(), sizes[-4:].mean().item()
    print(f"seed {seed}: gates of the first four blocks {first:.3f}", end=", ")
    print(f"of the last four {last:.3f};", end=" ")
    print(f"rank correlation of size and rise {likeness:.2f}")
    holds(last > 1.1 * first, "Gates are larger towards the last block.")
    holds(likeness < 0.85, "The order of the sizes is not that of what blocks matter.")

# %% [markdown]
# Gates are larger towards the last block with each seed. Their size tells little about how much a block matters: the rank correlation is 0.0 to 0.6.
#
# ## Adam's first step
#
# Adam divides a gradient by its own size, so a small gate should not shorten a step of the branch's weights. It divides by that size
# plus an eps of 10⁻⁸. With gates of 0.000001 the gradient of a branch's weight is about as small as that. How far do two steps move a
# typical weight, over the rate?


# %% jupyter={"source_hidden": true}
def first_moves(start, seed):
    """Return how far each of two steps moves a typical weight, over the rate."""
    net, moves = network(start, seed), []
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    for _ in range(2):
        before = net[0].layer.linear2.weight.detach().clone()
        descend(net, optimizer, 1)
        change = net[0].layer.linear2.weight.detach() - before
        moves.append(change.abs().median().item() / 0.003)
    return moves


# %% tags=["trained"]
for seed in range(3):
    moves = {start: first_moves(start, seed) for start in (1e-2, 1e-4, 1e-6, 0.0)}
    print(
        f"seed {seed}",
        *(f"from {s:g}: {a:.2f}, then {b:.2f}" for s, (a, b) in moves.items()),
        sep="; ",
    )
    holds(
        moves[1e-2][0] > 0.98 and moves[1e-4][0] > 0.9, "From 0.0001 the step is full."
    )
    holds(0.1 < moves[1e-6][0] < 0.25 and moves[0.0][0] == 0, "From 0.000001 a sixth.")
    holds(min(moves[s][1] for s in (1e-4, 1e-6, 0.0)) > 0.5, "The second is alike.")

# %% [markdown]
# From 0.000001 most of the last layer's first step is lost; the second is nearly whole, since by then the gates stand at about 0.003.
#
# ## Starts by depth
#
# CaiT starts at 0.1 up to 18 blocks, at 0.00001 up to 24, at 0.000001 beyond (Touvron et al., 2021). Pre-norm blocks of the lesson at 0.003,
# three seeds: the loss in steps 5 to 14, and after 80 steps (192 blocks: 40 steps).

# %% tags=["trained"] jupyter={"source_hidden": true}
for depth, at in (12, 80), (24, 80), (48, 80), (192, 40):
    for start in "None", "0.1", "1e-05", "1e-06":
        name = f"pre, {depth} blocks, {start}"
        if depth == 48:  # the lesson's own runs
            name = f"pre, {'0.0001' if start == '1e-05' else start}"
        early, late = row(name + ": 14", "loss"), row(f"{name}: {at}", "loss")
        print(
            f"{depth:3} blocks, gates from {name.split(', ')[-1]:7}",
            *[f"{one:.2f}" for one in early],
            end="   ",
        )
        print("end", *[f"{one:.2f}" for one in late])
    both = (
        [
            sum(row(f"pre, {depth} blocks, {start}: {at}", "loss"))
            for start in ("1e-05", "1e-06")
        ]
        if depth != 48
        else [1, 1]
    )
    holds(max(both) < 1.3 * min(both), "The two smallest starts end alike.")

# %% tags=["trained"] jupyter={"source_hidden": true}
ends = [row(f"pre, 192 blocks, {s}, rate 0.001: 40", "loss") for s in ("0.1", "1e-05")]
for start, end in zip((0.1, 1e-5), ends, strict=True):
    print(
        f"192 blocks at 0.001, gates from {start:g}: end",
        *[f"{one:.2f}" for one in end],
    )
holds(max(ends[0]) < 0.8 * min(ends[1]), "At 0.001 the order is the other one.")

# %% [markdown]
# 0.00001 and 0.000001 give nearly the same numbers at each depth. Beside them 0.1 ends lower with 12 and 24 blocks, about level with 48, and a little
# higher with 192. At a rate of 0.001 it ends lower with 192 too: which start ends lower changes with the rate. So our runs do not test CaiT's rule.
#
# ## Weight decay
#
# Weight decay multiplies each parameter by 1 − rate · decay in each step. For a gate without a gradient, at a rate of 0.01 and a
# decay of 0.1, that leaves 0.999¹⁰⁰⁰ = 37 % after 1,000 steps:

# %%
gamma = nn.Parameter(torch.ones(4))
optimizer = torch.optim.AdamW([gamma], lr=0.01, weight_decay=0.1)
gamma.grad = torch.zeros(4)
for _ in range(1000):
    optimizer.step()
print(f"left of the gate: {gamma[0].item():.3f}, on paper {0.999**1000:.3f}")

# %% [markdown]
# That is a gate without a gradient; one that learns has a gradient against it, and we show no run in which decay of the gates does harm. The usual
# practice is to leave them out all the same. `parameter_groups(model, decay)` gives an
# optimiser two groups: what has two axes or more decays, and vectors (biases, gains, gates) do not.

# %%
from residual_edu import parameter_groups

decayed, spared = parameter_groups(Block(0.1), 0.1)
for group in decayed, spared:
    print(f"decay {group['weight_decay']}:", [tuple(p.shape) for p in group["params"]])

# %% [markdown]
# ### Exercise · 8 minutes · ●●●○○
#
# Write the sorting yourself. Given a model, return two lists of parameter names: what decays (two axes or more), and
# what does not (all others). Every name stands in one of them.
#
# <details><summary>Hint 1</summary>Biases, gains and gates: what have they in common, whatever they are
# called?</details>
# <details><summary>Hint 2</summary>Go through <code>model.named_parameters()</code> and look at
# <code>parameter.ndim</code>; for a single number it is 0.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "sort-parameters", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sort_parameters(model):
    """Return the names of the parameters that decay, and the names of the others."""
    ### BEGIN SOLUTION
    named = list(model.named_parameters())
    decayed = [name for name, parameter in named if parameter.ndim > 1]
    return decayed, [name for name, parameter in named if parameter.ndim <= 1]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sort-parameters-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(sort_parameters, "sort_parameters")

# %% [markdown]
# ## Start and rate
#
# 48 blocks after 80 steps, in post-norm and in pre-norm, for four rates. The dashed line stands for networks without gates. **Find** the largest rate at which
# post-norm has a loss below 0.3, and with which gates; the rate at which pre-norm has no use for gates; and what becomes of gates from 1.

# %% tags=["explorer"]
from residual_course.explorers.layer_scale import explore_gates

KINDS = {"none": "None", "from 1": "1", "from 0.1": "0.1", "from 0.01": "0.01"}
KINDS |= {"from 0.0001": "0.0001", "0.1, frozen": "0.1, frozen"}
KINDS |= {"0.0001, frozen": "0.0001, frozen"}
losses = {}
for place in "post", "pre":
    for kind, start in KINDS.items():
        for rate in 0.0003, 0.001, 0.003, 0.01:
            name = f"{place}, {start}" + ("" if rate == 0.003 else f", rate {rate:g}")
            losses[f"{place}-norm", kind, rate] = row(f"{name}: 80", "loss")
explore_gates(losses)

# %% [markdown]
# <details><summary>Answer</summary>Post-norm has a loss below 0.3 at 0.01, the largest rate, with gates that are learned from 0.1 or less or frozen at 0.1; the smaller
# starts end lower there. Pre-norm has no use for gates at 0.0003, and little at 0.001. Gates from 1 lie on the dashed line, or close to it, at each rate.</details>
