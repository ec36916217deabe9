# %% [markdown]
# # 05 · LayerScale
#
# 95 minutes. It needs no network connection. Of [lesson 04](04_pre_norm_and_post_norm.ipynb) it uses how post-norm and
# pre-norm train without a warm-up; of [lesson 00](00_residual_connection.ipynb), the gradient through a gated branch,
# and how large a gate may be in a deep stack.
#
# By the end you can
#
# - **answer** the most asked question about gates: if it is zero, how can it learn?
# - **compute** the two gradients of a gated branch by hand, and spot the one start that never wakes;
# - **predict** what a gate of 0.000001 does to the training of a network, and what it does not;
# - **train** 48 blocks that do not train without gates, and keep weight decay off the gates.

# %% [markdown]
# ## Before we start: three questions on earlier lessons
#
# Answer aloud, then open.
#
# <details><summary>1. A branch stands behind a gate: x + g · f(norm(x)). What is the derivative of the output
# with respect to x at g = 0?</summary>1: the skip's own, whatever f is (lesson 00).</details>
#
# <details><summary>2. 64 times x + f(x), f as large as x. What happens, and which two letters can hold
# it?</summary>Its square doubles each time, 2^64 in all: it floods. The norm can hold it, and so can the gate (lesson
# 00).</details>
#
# <details><summary>3. DropPath is a gate as well. Who chooses its value?</summary>A coin, for each sample, only while
# training (lesson 03). Here the network will choose.</details>

# %%
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn.functional import cross_entropy

from residual_edu import LayerNorm, layer_norm
from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.explorers.layer_scale import explore_gates
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.parts.mlp import SimpleFeedForward
from residual_edu.parts.residual import post_norm_residual, pre_norm_residual
from residual_edu.parts.weight_decay import parameter_groups
from residual_edu.plotting import layer_scale as plots
from residual_edu.plotting.stream import plot_stream
from residual_edu.training import accuracy, minibatches, train

device = setup()
progress("05")

# %% [markdown]
# ## One gate, one number
#
# Take the letter g of x + g · f(x) and let the network learn it. The smallest case: the stream is one number, x = 2;
# the branch multiplies it by a weight, w = ½, so it says 1; and a single learned number α stands behind it, closed at
# 0. We want y = x + α · w · x to be 3. It is 2, so the error is −1. **Which of the two, α and w, has a gradient?**

# %% tags=["predict"]
guess = predict("The gate α is 0. With a gradient other than 0:", ["α", "w", "both", "neither"])


def step(alpha, weight, x=2.0, target=3.0):
    """Return the gradients of (x + alpha · weight · x − target)² / 2 with respect to alpha and weight."""
    error = x + alpha * weight * x - target
    return error * weight * x, error * alpha * x + 0.0


# %% tags=["reveal"]
# Answer first, then run this cell.
for start in [(0.0, 0.5), (0.1, 0.5)]:
    print("α = {}, w = {}:".format(*start), "gradients {:.2f} and {:.2f}".format(*step(*start)))
leaves = [torch.tensor(number, requires_grad=True) for number in (0.0, 0.5)]
loss = (2 + leaves[0] * leaves[1] * 2 - 3) ** 2 / 2
assert torch.autograd.grad(loss, leaves) == step(0.0, 0.5) == (-1, 0)
guess.reveal("α")

# %% [markdown]
# The gate's gradient is the error times what the branch *says*, −1 · 1. The weight's is the error times what the gate
# *lets through*, −1 · 0. So a closed gate learns at once, and its branch does not yet. One step of size 0.1 opens α to
# 0.1; from then on w has a gradient too, −0.18 in the second line.
#
# That is the answer to the question in the goals: **the gate moves first, and pulls the branch after it.** Now close
# the other one instead, w = 0 and α = ½, or close both.

# %%
paths = {}
for name, start in {"closed gate": (0.0, 0.5), "silent branch": (0.5, 0.0), "both zero": (0.0, 0.0)}.items():
    paths[name] = [start]
    for _ in range(60):
        (alpha, weight), slopes = paths[name][-1], step(*paths[name][-1])
        paths[name].append((alpha - 0.1 * slopes[0], weight - 0.1 * slopes[1]))
assert paths["both zero"][-1] == (0, 0)
assert all(abs(2 * a * w - 1) < 1e-2 for a, w in (paths["closed gate"][-1], paths["silent branch"][-1]))

axis = torch.linspace(-1.1, 1.3, 97)
losses = (2 * axis[:, None] * axis - 1).square() / 2
fig = Figure(figsize=(6, 4.4))
ax = plots.plot_valley(axis, axis, losses, paths, fig.add_subplot())
ax.set_title("One zero rolls down; two zeros sit on the saddle")
show(
    fig,
    alt="The loss over gate and weight: two bright valleys, upper right and lower left, and a saddle between them at "
    "0, 0. Descent from a closed gate and from a silent branch ends in a valley; from both zero it never moves.",
)

# %% [markdown]
# In this landscape the two valleys hold every pair with α · w = ½, and the origin is the pass between them: level in
# each direction, so that descent stays there for ever.
#
# **Law.** One zero in a row wakes after a step. Two in a row never do: each waits for the other.
#
# ## The same in a network
#
# Blocks of pre-norm, a small feed-forward layer each, reading the 64 pixels of a handwritten digit as their stream. A
# norm and a linear map at the end say which digit it is. A single learned number for a whole branch goes by the names of
# SkipInit and ReZero.


# %%
class Gate(nn.Module):
    """One learned number for a whole branch, closed at the start."""

    def __init__(self, start=0.0):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(start))

    def forward(self, branch):
        return self.alpha * branch


class Block(nn.Module):
    """x + gate(f(norm(x))), or another wiring of the three."""

    def __init__(self, gate, norm, wiring):
        super().__init__()
        self.norm, self.layer, self.gate, self.wiring = norm, SimpleFeedForward(64, 64), gate, wiring

    def forward(self, x):
        return self.wiring(x, self.layer, self.norm, [self.gate])


def network(gate, depth=8, seed=0, norm=lambda: LayerNorm(64), wiring=pre_norm_residual):
    """Return ``depth`` blocks, each with a gate and a norm of its own, then a norm and a linear map to ten digits."""
    torch.manual_seed(seed)
    blocks = [Block(gate(), norm(), wiring) for _ in range(depth)]
    return nn.Sequential(*blocks, LayerNorm(64), nn.Linear(64, 10)).to(device)


# %% [markdown]
# A closed gate adds 0, so a new network of any depth hands its input on. **Then 100 blocks are as good as none, at
# step 0. What is the gradient that comes back to the input of the blocks?**

# %% tags=["predict"]
guess = predict("Through 100 closed blocks, a gradient comes back", ["0", "as it went in", "100 times as large"])
data = digits()
images, test_images = (layer_norm(x.flatten(1)).to(device) for x in (data.train_images, data.test_images))
labels, test_labels = data.train_labels.to(device), data.test_labels.to(device)


def fit(net, optimizer, steps, seed=0):
    """Train on minibatches of 64 digits and return the loss before each step."""
    return train(lambda x, y: cross_entropy(net(x), y), minibatches(images, labels, seed=seed), optimizer, steps)


# %% tags=["reveal"]
# Answer first, then run this cell.
blocks = network(Gate, depth=100)[:-2]
x = images[:32].clone().requires_grad_()
pull = torch.randn(32, 64).to(device)
assert blocks(x).equal(x)
assert torch.autograd.grad((blocks(x) * pull).sum(), x)[0].equal(pull)
guess.reveal("as it went in")

# %% [markdown]
# **Law.** Behind closed gates, with no norm on the stream, a network of any depth is the identity, forward and
# backward, bit for bit. No initialisation of the branches can break it, as long as what they say is finite.
#
# Now put zeros at both places: the gates at 0 or 1, and the last linear map of every branch, weight and bias, as drawn
# or 0. Sixty steps of Adam each. **What does the network with two zeros learn?**

# %% tags=["predict"]
guess = predict("Gates 0 and last maps 0: test accuracy after 60 steps", ["10 %", "90 %", "97 %"])


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
def awake(start, silent, seed):
    """Return the share of the blocks' parameters that 60 steps have moved, and the test accuracy."""
    net = network(lambda: Gate(start), seed=seed)
    for block in net[:-2]:
        for parameter in block.layer.linear2.parameters():
            parameter.data *= 0.0 if silent else 1.0
    before = [p.detach().clone() for p in net[:-2].parameters()]
    fit(net, torch.optim.Adam(net.parameters(), lr=3e-3, fused=True), 60, seed)
    moved = [not p.equal(old) for p, old in zip(net[:-2].parameters(), before, strict=True)]
    return sum(moved) / len(moved), accuracy(net, test_images, test_labels)


for start, silent in [(1.0, False), (0.0, False), (1.0, True), (0.0, True)]:
    shares, scores = zip(*[awake(start, silent, seed) for seed in range(3)], strict=True)
    sleeping = start == 0 and silent
    low, high = (0.84, 0.935) if sleeping else (0.935, 1)
    print(f"gates {start:g}, last maps {'0' if silent else 'drawn':5}: {shares[0]:4.0%} of the tensors moved", end=", ")
    print("test accuracy", *(f"{score:.3f}" for score in scores))
    holds(set(shares) == {0 if sleeping else 1}, "One zero, of either kind, wakes everything; two zeros move nothing.")
    holds(low < min(scores) and max(scores) < high, "With two zeros the accuracy is about 0.9, otherwise above 0.935.")
guess.reveal("90 %")

# %% [markdown]
# One zero, of either kind, wakes everything. Two zeros move nothing, in any of three seeds, and here is the trap: the
# dead network still reaches about 90 %, for its last linear map learns to read the pixels by itself. **A loss that
# falls does not show that the branches are alive.** A network with a zero-initialised output layer *and* a
# zero-initialised gate is a bug that trains.

# %% [markdown]
# ### Exercise 1 · 5 minutes · ●●●○○
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
# In one of them gate, W1, b1, W2 and b2 stay for ever as they are. Return its letter.
#
# <details><summary>Hint 1</summary>What does the gate hear? What does the branch say?</details>
# <details><summary>Hint 2</summary>The gate's gradient is the branch's answer times what comes from above. A branch
# with W2 = 0 answers b2.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "which-never-wakes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def which_never_wakes():
    """Return one letter, "A", "B", "C" or "D"."""
    ### BEGIN SOLUTION
    return "C"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "which-never-wakes-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(which_never_wakes, "which_never_wakes")

# %% [markdown]
# ## A gate for each channel
#
# One token. Its branch says 3, −1, 0, 2, and the gradient that comes from above is 1, 1, 1, −1: the loss wants the
# first three channels smaller and the last one larger. **What gradient does a single gate get, for all four?**

# %% tags=["predict"]
guess = predict("Branch 3, −1, 0, 2 and gradient 1, 1, 1, −1: the single gate hears", ["0", "2", "6"])

# %% tags=["reveal"]
# Answer first, then run this cell.
branch, upstream = torch.tensor([3.0, -1, 0, 2]), torch.tensor([1.0, 1, 1, -1])
alpha, gamma = torch.tensor(0.1, requires_grad=True), torch.full((4,), 0.1, requires_grad=True)
heard = [torch.autograd.grad((gate * branch * upstream).sum(), gate)[0] for gate in (alpha, gamma)]
print("one gate hears", heard[0].item(), "and four gates hear", heard[1].tolist())
assert heard[0] == 0 and heard[1].equal(upstream * branch)
guess.reveal("0")

# %% [markdown]
# 3 − 1 + 0 − 2. The channels disagree, and the single gate hears their sum: nothing. With a gate of its own each
# channel hears what concerns it.
#
# **Law.** A channel's gate gets upstream · branch, summed over the tokens; one gate for all gets the sum of that over
# the channels. LayerScale is the gate for each channel: as many numbers as the stream is wide, and it usually starts a
# little above zero, at some λ.

# %% [markdown]
# ### Exercise 2 · 8 minutes · ●●●○○
#
# Both gradients by hand, without autograd. `branch` and the `upstream` gradient that arrives at gamma · branch have
# shape (..., channels), with one or more axes in front; `gamma` has shape (channels,). Return the branch's gradient,
# then gamma's.
#
# <details><summary>Hint 1</summary>A product has two factors, and each one's gradient is scaled by the
# other.</details>
# <details><summary>Hint 2</summary>All tokens share gamma, so its gradient is a sum over every axis but the
# last.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "gate-gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gate_gradients(upstream, branch, gamma):
    """Return the gradient with respect to branch, (..., channels), and with respect to gamma, (channels,)."""
    ### BEGIN SOLUTION
    return upstream * gamma, (upstream * branch).flatten(0, -2).sum(0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gate-gradients-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(gate_gradients, "gate_gradients")

# %% [markdown]
# ### Exercise 3 · 5 minutes · ●●○○○
#
# The whole class, from nothing. It takes `dim` and `init_value`, 1e-4 unless told, and has one parameter, `gamma`.
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
# The finished piece. Its `.type_as(x)` lets a 16-bit branch meet gates in float32 and stay 16-bit.


# %% tags=["promote:parts/layer_scale"]
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
# ## Step 0: who hears what
#
# λ is a number one has to choose. Take the network of eight blocks before any training, and make λ a hundred times
# smaller. **What happens to the gradient of the first branch's weights, and to that of its gates?**

# %% tags=["predict"]
guess = predict("λ from 0.01 to 0.0001: which gradient falls a hundredfold?", ["the branch's", "the gates'", "both"])


# %% tags=["reveal"]
# Answer first, then run this cell.
def step_zero(start, seed):
    """Return the sizes of two gradients in the first block before training, of its layer and of its gates."""
    net = network(lambda: LayerScale(64, start), seed=seed).double()
    cross_entropy(net(images[:64].double()), labels[:64]).backward()
    weights = torch.cat([p.grad.flatten() for p in net[0].layer.parameters()])
    return weights.norm().item(), net[0].gate.gamma.grad.norm().item()


starts = torch.logspace(0, -8, 9, dtype=torch.float64)
sizes = torch.tensor([[step_zero(start, seed) for start in starts.tolist()] for seed in range(3)], dtype=torch.float64)
layers, gates = sizes.unbind(-1)
fig = Figure()
ax = plots.plot_step_zero(starts, layers, gates, fig.add_subplot())
ax.set_title("λ scales the branch's gradient, not the gate's")
show(
    fig,
    alt="Gradient sizes before training against λ from 1 down to a hundred-millionth, on log scales. That of the "
    "branch's weights is proportional to λ; that of the gates is level.",
)
guess.reveal("the branch's")

# %% [markdown]
# The dotted line is proportional to λ, and the branch's gradients lie on it. How exactly?

# %%
per_start = layers / starts
assert (per_start[:, 2:] / per_start[:, -1:] - 1).abs().max() < 0.02
assert (gates[:, 2:] / gates[:, -1:] - 1).abs().max() < 0.02
assert (per_start[:, 0] / per_start[:, -1] - 1).abs().max() < 0.3

layer, pull = SimpleFeedForward(64, 64), torch.randn(32, 64)
x, sizes = torch.randn(32, 64), []
for start in (1.0, 2.0**-10, 2.0**-20):
    gradients = torch.autograd.grad(LayerScale(64, start)(layer(x)), list(layer.parameters()), pull)
    sizes.append([gradient / start for gradient in gradients])
assert all(a.equal(b) and a.equal(c) for a, b, c in zip(*sizes, strict=True))
print("one branch: exactly λ times; in the network: within 2 % below λ = 0.01")

# %% [markdown]
# **Law.** With the same gradient from above, a branch's gradient scales exactly with λ, and the gate's own does not
# feel λ at all. (In a network the gradient from above depends a little on what the other gates let through; below
# 0.01 that hardly counts.)
#
# So at λ = 0.000001 the branches hear a millionth. ConvNeXt, a convolutional network for images, starts there,
# and its users have asked where the gradient of their branches had gone.

# %% [markdown]
# ## The funnel
#
# Train it, then. Four starts, from 0.000001 to 1; three seeds; 120 steps of Adam at 0.003 or of plain SGD at 0.3.
# **Where will the gates that began at 0.000001 stand, next to those that began at 0.01?**

# %% tags=["predict"]
guess = predict("After 120 steps, gates from 0.000001 against gates from 0.01", ["far below", "the same size", "above"])


def race(optimizer, start, seed):
    """Train eight blocks for 120 steps; return the gates, (steps, blocks, channels), and the loss, before each."""
    net, gates = network(lambda: LayerScale(64, start), seed=seed), []

    def loss(x, y):
        gates.append(torch.stack([block.gate.gamma.detach() for block in net[:-2]]))
        return cross_entropy(net(x), y)

    losses = train(loss, minibatches(images, labels, seed=seed), optimizer(net.parameters()), 120)
    return torch.stack(gates).cpu(), torch.tensor(losses)


optimizers = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=3e-3, fused=True),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.3, fused=True),
}
runs = [(name, start) for name in optimizers for start in (1e-6, 1e-4, 1e-2, 1.0)]
raced = {run: [race(optimizers[run[0]], run[1], seed) for seed in range(3)] for run in runs}

# %% tags=["reveal"]
# Answer first, then run this cell.
sizes = {run: torch.stack([gates.abs().mean((1, 2)) for gates, _ in raced[run]]) for run in runs}
fig = Figure(figsize=(6, 4))
for ax, name in zip(fig.subplots(1, 2, sharey=True), optimizers, strict=True):
    plots.plot_funnel([sizes[name, start] for _, start in runs[:4]], ax)
    ax.set_title(name, weight="normal")
    ax.set_ylabel("mean size of γ" if name == "Adam" else "")
fig.suptitle("Starts ten thousand apart end as one", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Mean size of the gates over 120 steps, log scales, three seeds each, under Adam and under SGD. Starts of "
    "0.000001, 0.0001 and 0.01 run together and end alike, near 0.11 and 0.024. A start of 1 stays at 1.",
)
guess.reveal("the same size")

# %% [markdown]
# Look at step 1. Under Adam the smallest start has already caught up with the second: Adam's first step moves every
# number by its learning rate, 0.003, and beside that a ten-thousandth is nothing. Under SGD the first step is the
# gradient times 0.3, and a gate's gradient does not know λ. Either way the gates open at their own pace, and the
# branch hears more with each step.
#
# The start is forgotten once the gates have moved much further than λ. From 0.01 that takes Adam some ten steps, and
# SGD some fifty.

# %% tags=["trained"]
for name, end in {"Adam": (0.08, 0.15), "SGD": (0.02, 0.04)}.items():
    ends, stayed = torch.stack([sizes[name, start][:, -1] for start in (1e-6, 1e-4, 1e-2)]), sizes[name, 1.0][:, -1]
    most, apart = (ends.amax(0) / ends.amin(0)).max(), sizes[name, 1e-2] / sizes[name, 1e-6]
    finals = [[raced[name, start][seed][0][-1].flatten() for start in (1e-6, 1e-2)] for seed in range(3)]
    alike = torch.stack([torch.corrcoef(torch.stack(pair))[0, 1] for pair in finals])
    print(
        f"{name}: {ends.min():.3f} to {ends.max():.3f}, at most {most:.2f} apart; from 1 {stayed.mean():.2f}", end="; "
    )
    print(f"correlation from 0.000001 and 0.01: {alike.min():.2f} to {alike.max():.2f}")
    holds(end[0] < ends.min() and ends.max() < end[1], f"Small starts under {name} end from {end[0]} to {end[1]}.")
    holds(most < 1.2 and (ends[0] / ends[1] - 1).abs().max() < 0.05, "Small starts end within 20 % of each other.")
    holds((sizes[name, 1e-6] / sizes[name, 1e-4] - 1)[:, 1].abs().max() < 0.1, "After one step two of them are alike.")
    holds((stayed - 1).abs().max() < 0.1, "A start of 1 stays near 1.")
    holds(alike.min() > 0.95 if name == "SGD" else alike.max() < 0.8, "Channel by channel gates agree under SGD alone.")
    late = apart[:, 15 if name == "Adam" else 100].max()
    holds(apart[:, 3].min() > 1.2 > late, "From 0.01 the start is forgotten later, under SGD far later.")
for seed in range(3):  # what the explorer below shows for the first seed
    below = [(raced["Adam", start][seed][0][-1] < 0).float().mean() for start in (1e-6, 1e-2)]
    adam, sgd = (raced[name, 1e-6][seed][0][-1].abs().mean(-1) for name in optimizers)
    free, held = (raced["SGD", start][seed][1][-20:].mean() for start in (1.0, 1e-6))
    print(f"seed {seed}: {below[0]:.0%} and {below[1]:.0%} of Adam's gates end below 0; SGD's loss {free / held:.2f}")
    holds(0.35 < below[0] < 0.6 and 0.05 < below[1] < 0.2, "From 0.000001 about half of Adam's gates end below 0.")
    holds(adam[-2:].mean() / adam[:2].mean() > 1.2, "Under Adam the gates open wider towards the end of the stack.")
    holds(sgd.max() / sgd.min() < 1.8, "Under SGD all blocks end alike.")
    holds(free < held / 3, "Under SGD a start of 1 ends with less than a third of the loss.")

# %% [markdown]
# **Law.** After 120 steps the three small starts have gates of one size, within 20 %. "1e-6 is too small to learn" is
# false here. Four limits to it:
#
# - The end is a place on the road, not a goal: it depends on the optimiser and the steps (0.11 under Adam, 0.024 under
#   SGD), and the gates are still growing.
# - A start of 1 does not join, not in 120 steps: 1 is far more than the gates move.
# - One size does not mean the same gates. Under SGD 0.000001 and 0.01 end with the same gates, channel by channel.
#   Under Adam they do not: from 0.000001 about half of the gates end below 0, from 0.01 an eighth.
# - At eight blocks of pre-norm the gate buys nothing; look at the losses in the explorer below. What it is for comes
#   at the end.
#
# ### Where 0.000001 does differ
#
# Adam divides a gradient by its size, so that λ should fall out, for the branch too. **How far does Adam's first step
# move a branch weight, against its learning rate, at λ = 0.000001?**

# %% tags=["predict"]
guess = predict("First step of a branch weight over the learning rate", ["about 1", "about 0.16", "about 0.000001"])


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
def first_moves(start, seed):
    """Return how far two Adam steps move a typical weight of the first branch, over the learning rate."""
    net, moves = network(lambda: LayerScale(64, start), seed=seed), []
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(2):
        before = net[0].layer.linear2.weight.detach().clone()
        fit(net, optimizer, 1, seed)
        moves.append((net[0].layer.linear2.weight.detach() - before).abs().median().item() / 3e-3)
    return moves


for seed in range(3):
    moves = {start: first_moves(start, seed) for start in (1e-2, 1e-4, 1e-6, 0.0)}
    print(f"seed {seed}", *(f"from {start:g}: {a:.2f}, then {b:.2f}" for start, (a, b) in moves.items()), sep="; ")
    holds(moves[1e-2][0] > 0.98 and moves[1e-4][0] > 0.9, "From 0.01 and 0.0001 the first step is nearly full.")
    holds(0.1 < moves[1e-6][0] < 0.25 and moves[0.0][0] == 0, "From 0.000001 it is about a sixth, from 0 nothing.")
    holds(min(moves[start][1] for start in (1e-4, 1e-6, 0.0)) > 0.5, "The second step is alike for all small starts.")
guess.reveal("about 0.16")

# %% [markdown]
# Adam divides by the gradient's size plus an eps of 0.00000001, and at λ = 0.000001 the branch's gradient is about
# that small. So most of the first step is lost, and only of the first: by then the gates have moved to 0.003, and all
# small starts hear alike. Zero itself loses one step, no more.
#
# ## A bed whose tributaries open
#
# The stream of eight blocks from λ = 0.0001, recorded through 60 steps of Adam: at the first, and at the last.

# %% tags=["trained"]
net = network(lambda: LayerScale(64, 1e-4))
with GradientFlowRecorder(net, net[:-2]) as flow:
    adam = torch.optim.Adam(net.parameters(), lr=3e-3)
    train(lambda x, y: cross_entropy(net(x.requires_grad_()), y), minibatches(images, labels), adam, 60)
fig = Figure(figsize=(6, 6.6))
for ax, moment in zip(fig.subplots(2, 1), (0, 59), strict=True):
    plot_stream(flow, ax, step=moment, norms="pre").set_title(f"step {moment}", weight="normal")
fig.suptitle("No tributaries at first; training opens them", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Two river pictures of eight blocks. At step 0 a straight bed of constant width, forward and back, no "
    "tributary to be seen. At step 59 every block adds a visible tributary and the bed widens.",
)
share = flow.added / flow.activation[:, :-1]
print(f"a branch adds at most {share[0].max():.5f} of the stream at step 0, at least {share[-1].min():.3f} at step 59")
holds(share[0].max() < 1e-3 and share[-1].min() > 0.01, "Branches add less than 0.001 at step 0, more than 0.01 at 59.")
holds(abs(flow.stream_gradient[0, 0] / flow.stream_gradient[0, -1] - 1) < 0.01, "At step 0 the gradient passes as if no block were there.")

# %% [markdown]
# At step 0 each branch adds less than a thousandth of the stream, and the gradient passes as if no block were there.
#
# ## Move it yourself
#
# The trainings of the funnel, first seed, step by step: left the mean size of all gates (grey: the other starts),
# right each block's, against that mean, and below that the loss. What you see at the last step stays: a grey curve over
# the blocks (Adam solid, SGD dotted), and a mark for the loss.
#
# **Find out:** stand at the last step and switch between Adam and SGD. In which blocks have the gates opened widest,
# under each? Then set λ to 1 and compare the loss at the last step with that of the small starts.

# %% tags=["explorer"]
explore_gates(
    {run: raced[run][0][0].abs().mean(-1) for run in runs},
    {run: raced[run][0][1] for run in runs},
)

# %% [markdown]
# <details><summary>Answer</summary>Under Adam the gates open wider towards the end of the stack: about 0.09 in the
# first block, 0.12 in the last. Under SGD all blocks end near 0.024, in no order that other seeds repeat. And λ = 1 is no
# worse, under SGD far better: these eight blocks of pre-norm are easy to train, so that holding their branches back
# costs steps and saves nothing.</details>

# %% [markdown]
# ## Weight decay pulls gates shut
#
# Weight decay multiplies each parameter by 1 − (learning rate · decay) at each step. A matrix that is pulled towards 0
# becomes a simpler map. A gate pulled towards 0 is a branch on its way out. **A gate that hears nothing, under AdamW
# with a learning rate of 0.01 and a decay of 0.1: what is left of it after 1,000 steps?**

# %% tags=["predict"]
guess = predict("0.01 · 0.1, a thousand times: what is left of the gate?", ["99.9 %", "37 %", "0"])
gamma = nn.Parameter(torch.ones(4))

# %% tags=["reveal"]
# Answer first, then run this cell.
optimizer = torch.optim.AdamW([gamma], lr=0.01, weight_decay=0.1)
gamma.grad = torch.zeros(4)
for _ in range(1000):
    optimizer.step()
assert torch.allclose(gamma, torch.full((4,), 0.999**1000), rtol=1e-3)
guess.reveal("37 %")

# %% [markdown]
# **Law.** What decides is learning rate · decay · steps: at 1 a gate without a gradient is at 1/e. A long training,
# 100,000 steps at 0.001 with a decay of 0.05, comes to 5. Our 120 steps at 0.003 come to 3.6 with a decay of 10,
# which makes up for most of the missing hours, and to 0.036 with the customary 0.1.
#
# `parameter_groups(model, decay)` gives an optimiser two groups: matrices, which decay, and vectors, which are spared.
# Gates are vectors. Let us spare them, or put them back.


# %%
def decayed(decay, spare, seed):
    """Return the mean size of gates that began at 0.0001, before each of 120 steps of AdamW."""
    net, sizes = network(lambda: LayerScale(64, 1e-4), seed=seed), []
    gates = [block.gate.gamma for block in net[:-2]]
    matrices, vectors = parameter_groups(net, decay)
    if not spare:
        vectors["params"] = [p for p in vectors["params"] if all(p is not gate for gate in gates)]
        matrices["params"] += gates

    def loss(x, y):
        sizes.append(torch.stack([gate.detach().abs().mean() for gate in gates]).mean())
        return cross_entropy(net(x), y)

    optimizer = torch.optim.AdamW([matrices, vectors], lr=3e-3, fused=True)
    train(loss, minibatches(images, labels, seed=seed), optimizer, 120)
    return torch.stack(sizes).cpu()


def compare(decay):
    """Return the gates that decay and those that are spared, (seeds, steps) each."""
    return {
        name: torch.stack([decayed(decay, spare, seed) for seed in range(3)])
        for name, spare in {"decayed": False, "spared": True}.items()
    }


strong, usual = compare(10.0), compare(0.1)

# %% tags=["trained"]
fig = Figure()
ax = plots.plot_race(strong, fig.add_subplot())
ax.set_title("With decay the gates reach a third as much")
ax.set(ylabel="mean size of γ", ylim=(0, None))
show(
    fig,
    alt="Mean size of the gates over 120 steps of AdamW with a decay of 10, three seeds. Spared gates climb to 0.19, "
    "decayed ones stop near 0.06.",
)
last = {(decay, kind): runs[kind][:, -1] for decay, runs in ((10, strong), (0.1, usual)) for kind in runs}
for (decay, kind), sizes in last.items():
    print(f"decay {decay}, {kind}: {sizes.min():.3f} to {sizes.max():.3f}")
holds((last[10, "decayed"] < 0.4 * last[10, "spared"]).all(), "A decay of 10 holds gates below 0.4 of the spared ones.")
holds((last[10, "spared"] > 1.5 * last[0.1, "spared"]).all(), "Spared, they open over 1.5 times as wide as at 0.1.")
holds((last[0.1, "decayed"] > 0.9 * last[0.1, "spared"]).all(), "A decay of 0.1 costs them less than a tenth.")

# %% [markdown]
# Decayed gates stop at about a third of the spared ones. With the customary 0.1 the two differ by less than a tenth:
# in a training as short as this one it hardly matters, in a long one it does.
#
# And spared gates open nearly twice as wide as they do with the customary decay. Only the product of gate and branch counts: as
# the matrices shrink, the gates make up for it.

# %% [markdown]
# ### Exercise 4 · 8 minutes · ●●●○○
#
# Write the sorting yourself. Given a model, return two lists of parameter names: what decays (two axes or more), and
# what is spared (all others). Every name stands in one of them.
#
# <details><summary>Hint 1</summary>Biases, gains and gates: what have they in common, whatever they are
# called?</details>
# <details><summary>Hint 2</summary>Go through <code>model.named_parameters()</code> and look at
# <code>parameter.ndim</code>; for a single number it is 0.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "sort-parameters", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sort_parameters(model):
    """Return the names of the parameters that decay, and the names of those that are spared."""
    ### BEGIN SOLUTION
    decayed = [name for name, parameter in model.named_parameters() if parameter.ndim > 1]
    spared = [name for name, parameter in model.named_parameters() if parameter.ndim <= 1]
    return decayed, spared
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sort-parameters-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(sort_parameters, "sort_parameters")

# %% [markdown]
# ## 48 blocks
#
# Now the reason to have gates. 48 blocks, weights drawn by Xavier's rule (variance 2 / (inputs + outputs), larger
# than PyTorch's own), Adam at 0.003 without warm-up, 40 steps.
# Three wirings: a plain skip without any norm, post-norm, pre-norm. Each with gates of 1 and with LayerScale from
# 0.0001, and nothing else differs. **Which of the three wirings train with gates of 1?**

# %% tags=["predict"]
guess = predict("48 blocks, gates of 1. It trains:", ["all three", "post-norm and pre-norm", "pre-norm alone", "none"])


def deep(gate, norm, wiring, seed, xavier=True):
    """Train 48 blocks for 40 steps; return the loss before each."""
    net = network(gate, depth=48, seed=seed, norm=norm, wiring=wiring)
    for linear in (m for m in net[:-2].modules() if isinstance(m, nn.Linear) and xavier):
        nn.init.xavier_normal_(linear.weight)
        nn.init.zeros_(linear.bias)
    return fit(net, torch.optim.Adam(net.parameters(), lr=3e-3, fused=True), 40, seed)


wirings = {
    "skip alone": (nn.Identity, pre_norm_residual),
    "post-norm": (lambda: LayerNorm(64), post_norm_residual),
    "pre-norm": (lambda: LayerNorm(64), pre_norm_residual),
}
kinds = {"gates of 1": nn.Identity, "LayerScale": lambda: LayerScale(64, 1e-4)}
curves = {
    name: {kind: torch.tensor([deep(gate, *wiring, seed) for seed in range(3)]) for kind, gate in kinds.items()}
    for name, wiring in wirings.items()
}
small = [deep(nn.Identity, *wirings[name], seed=0, xavier=False) for name in ("skip alone", "pre-norm")]

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
fig = Figure(figsize=(6, 3.6))
for ax, (name, found) in zip(fig.subplots(1, 3, sharey=True), curves.items(), strict=True):
    plots.plot_race(found, ax, named=name != "pre-norm").set_title(name, weight="normal")
    ax.set(ylim=(0, 3), ylabel="loss" if name == "skip alone" else "")
fig.suptitle("48 blocks: with LayerScale every wiring trains", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Loss over 40 steps at 48 blocks, three seeds. Skip alone and post-norm stay at 2.3, the loss of guessing, with "
    "gates of 1, and fall to about 0.1 with LayerScale. Pre-norm falls either way, a little further with LayerScale.",
)
ends = {(name, kind): curves[name][kind][:, -10:].mean(1) for name in wirings for kind in kinds}
for (name, kind), loss in ends.items():
    stuck = kind == "gates of 1" and name != "pre-norm"
    print(f"{name}, {kind}: loss {loss.min():.2f} to {loss.max():.2f}")
    holds(loss.min() > 2 if stuck else loss.max() < 0.5, "Pre-norm trains with gates of 1, and all do with LayerScale.")
helped = ends["pre-norm", "LayerScale"] < ends["pre-norm", "gates of 1"]
holds(helped.all(), "In pre-norm LayerScale helps a little at this depth.")
guess.reveal("pre-norm alone")
alone, normed = (sum(losses[-10:]) / 10 for losses in small)
print(f"with PyTorch's own weights and gates of 1: skip alone {alone:.2f}, pre-norm {normed:.2f}")
holds(max(alone, normed) < 1, "With PyTorch's own weights skip alone and pre-norm train with gates of 1.")

# %% [markdown]
# The plain skip floods, post-norm without warm-up is stuck at guessing (lesson 04), pre-norm trains by itself. Behind
# nearly closed gates all three begin as nearly the same network, one that hands its input on (post-norm too, because
# our digits come in already normalised), and all three train. In pre-norm, where nothing was broken, the gates still
# help a little at this depth, where at eight blocks they did not.
#
# Be fair to the other side. These weights are Xavier's; PyTorch's own are smaller to begin with, and with them the
# plain skip trains too (the last line; one seed each, to save time). A small branch is what a deep stack needs at the
# start, and there are several ways to it: small weights, 1/√L (lesson 00), a norm, a warm-up, a gate. What the gate adds
# is that it holds for *any* branch at *any* depth, and then gets out of the way.
#
# How small should λ be? By our funnel one would not expect to tell 0.00001 from 0.000001.

# %% [markdown]
# ## True or false?
#
# - A gate at zero has no gradient. <details><summary>Answer</summary>False. It hears what its branch says. Its
#   *branch* has none, for one step.</details>
# - Zero gates and zero output layers are twice as safe. <details><summary>Answer</summary>False. Two zeros in a row
#   never wake, and the loss falls all the same.</details>
# - λ = 0.000001 trains quite differently from 0.01. <details><summary>Answer</summary>False here, for the sizes:
#   they meet, and under Adam the branches lose most of one step. Which gates end below 0 does differ.</details>
# - A gate per channel is a gate per branch with more parameters. <details><summary>Answer</summary>Not quite: where
#   channels disagree, the single gate hears nothing.</details>

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | a closed gate has a gradient, its branch has none until the gate has moved | −1 and 0, then −0.9 and −0.18 | any branch that says something |
# | two zeros in a row never wake | 0 % of the tensors moved in 60 steps, three seeds; about 90 % accuracy all the same | exact zeros, weight and bias |
# | closed gates: the identity, forward and backward | bit for bit through 100 blocks | any initialisation, no norm on the stream |
# | a gate per channel hears upstream · branch, one for all the sum of it | 3, −1, 0, −2, and 0 | always |
# | the branch's gradient scales with λ, the gate's does not | exactly; in the network within 2 % below 0.01 | before training |
# | small starts end as one size | 0.000001 to 0.01, within 20 % after 120 steps | this network, Adam 0.003 and SGD 0.3; 1 stays at 1 |
# | at λ = 0.000001 Adam loses its first step for the branch | 0.16 of a step, then as from 0.0001 | Adam's eps of 1e-8 |
# | decay leaves (1 − rate · decay)^steps of a gate that hears nothing | 37 % at rate · decay · steps = 1 | AdamW |
# | decayed gates stop short of spared ones | a third at a decay of 10, less than a tenth off at 0.1 | 120 steps at 0.003 |
# | 48 blocks train behind LayerScale, whatever the wiring | loss below 0.5 against 2.3 for skip alone and post-norm | Xavier's weights, Adam 0.003, no warm-up; pre-norm and PyTorch's weights need no gate |
#
# Sources: SkipInit, De and Smith, 2020 (arXiv 2002.10444); ReZero, Bachlechner et al., 2020 (arXiv 2003.04887);
# LayerScale, Touvron et al., 2021 (arXiv 2103.17239). These gates are the same for every input. In the next lesson
# they listen: AdaLN-Zero computes them from a condition, and starts them all at zero.

# %%
summary("05")

# %% [markdown]
# ## Next
#
# - [Lesson 06](06_adaln_zero.ipynb) computes the gates from a condition.
# - [Homework for lessons 04 and 05](homework/hw_04_05.ipynb).
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
