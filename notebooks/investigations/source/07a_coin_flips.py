# %% [markdown]
# # Investigation 07a · Can a score show a mistake?
#
# 35 minutes. You need [lesson 07a](../07a_residual_block.ipynb). No lesson needs this.
#
# A network in lesson 07a predicted fair coin flips, so its score was too good to be true. We
# first ask how its norm can carry 15 flips. Then we ask the opposite: which mistakes in a block
# leave the score as it should be? Four norms and eight faulty blocks answer.

# %%
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import SimpleFeedForward
from residual_course.lesson import predict, setup, show, stored_runs

device = setup()

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.plots.rows import plot_rows
from residual_course.plots.style import DROPPED, REFERENCE, A
from residual_course.training import train

stored = stored_runs("07a_coin_flips")["runs"]


def row(name):
    """Return a stored share for three seeds."""
    return [seed[name] for seed in stored.values()]


# %% [markdown]
# ## 1 · How can a spread hold fifteen flips?
#
# A norm over the positions subtracts one mean and divides by one spread for each channel. At
# position t a channel is x + p, where x is the flip and p is what the network has learned for this
# position. Take three positions with p = 1, −1, 0, and two rows that differ in the second flip
# alone.

# %% three-positions
p = torch.tensor([1.0, -1.0, 0.0])
for flips in [1.0, 1, 1], [1.0, -1, 1]:
    h = torch.tensor(flips) + p
    spread = h.std(correction=0)
    first = (h - h.mean())[0] / spread
    print(f"flips {flips}: spread {spread:.2f}, first output {first:.2f}")

# %% [markdown]
# The first position has the same flip in both rows, and its output tells the second flip. With T
# positions, and since the square of a flip is 1,
#
# $$\mathrm{spread}^2 = \mathrm{const} + \frac{2}{T} \sum_t x_t\,(p_t - \bar p) - \bar x^2$$
#
# (bars are means over the positions). But for the last term this is a weighted sum of all flips,
# a different one in every channel. Can the flips be read from such sums? No training is needed to
# find out: we draw p at random, compute the squared spreads of some channels, fit each flip by
# least squares, and test on new rows.


# %% jupyter={"source_hidden": true}
def told(channels, seed, rows=4000):
    """Return the share of new flips that the spreads of random channels tell."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(channels, generator=generator) + 0.5
    place = torch.randn(16, channels, generator=generator) / 2
    x = 2.0 * torch.randint(2, (rows, 16), generator=generator) - 1
    spread = (weight * x[..., None] + place).var(1, correction=0)
    known = torch.cat([spread, torch.ones(rows, 1)], dim=1).double()
    fit = torch.linalg.lstsq(known[:2000], x[:2000].double()).solution
    return ((known[2000:] @ fit > 0) == (x[2000:] > 0)).float().mean().item()


# %% spreads
with predict(
    "16 random channels: how many flips does a linear fit find from the spreads?",
    ["about 65 %", "about 80 %", "all"],
):
    amounts = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32)
    shares = [[told(channels, seed) for channels in amounts] for seed in range(3)]
    ax = Figure(figsize=(6, 3.2)).add_subplot()
    for one in shares:
        ax.plot(amounts, one, "o-", ms=5, lw=0.9, color=A, alpha=0.8)
    ax.axhline(0.5, color=REFERENCE, lw=0.9, ls="--")
    ax.text(32, 0.51, "guessing", ha="right", va="bottom")
    ax.set(xlabel="channels", ylabel="flips told right", ylim=(0.45, 1.03))
    ax.set_title("Sixteen spreads hold sixteen flips")
    show(ax.figure)

# %% [markdown]
# The weights of each sum add up to 0. So 16 spreads give the differences of the flips from their
# mean, and the sign of a flip's difference is the flip (unless all flips are equal). The lesson's
# network has 32 channels, twice as many as it needs.
#
# ## 2 · Four norms, two tests
#
# Now the lesson's network with four norms, which differ in the axes of their means. The first
# test is the score. The second changes all flips after position 3, and in another run all other
# rows of the batch, and looks how far the outputs at position 3 of row 0 move.


# %% jupyter={"source_hidden": true}
class PastMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        count = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return self.linear(x.cumsum(dim=1) / count)


class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm, self.mixer, self.mlp = norm, PastMean(), SimpleFeedForward(32, 128)

    def forward(self, x):
        x = x + self.mixer(self.norm(x))
        return x + self.mlp(self.norm(x))


class Network(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.first, self.last = nn.Linear(1, 32), nn.Linear(32, 2)
        self.position = nn.Parameter(torch.randn(16, 32) / 2)
        self.blocks = nn.Sequential(Block(norm), Block(norm))

    def forward(self, x):
        return self.last(self.blocks(self.first(x) + self.position))


def rows_of_flips(seed):
    generator = torch.Generator().manual_seed(seed)
    while True:
        coins = torch.randint(2, (64, 17), generator=generator).to(device)
        yield 2.0 * coins[:, :-1, None] - 1, coins[:, 1:]


def fit(norm, seed=0):
    """Train as the lesson does; return the network and the share of flips predicted."""
    torch.manual_seed(seed)
    net, new = Network(norm).to(device), rows_of_flips(99)
    adam = torch.optim.Adam(net.parameters(), lr=0.003, fused=True)
    train(lambda x, y: F.cross_entropy(net(x).mT, y), rows_of_flips(seed), adam, 200)
    with torch.no_grad():
        hits = [net(x).argmax(-1) == y for x, y in (next(new) for _ in range(15))]
    return net, torch.stack(hits).float().mean().item()


# %%
def norm_over(x, axes):
    x = x - x.mean(axes, keepdim=True)
    return x / (x.square().mean(axes, keepdim=True) + 1e-5).sqrt()


@torch.no_grad()
def moves(net, x):
    """Return how far the outputs at [0, 3] move: with later flips, with other rows."""
    later, others = x.clone(), x.clone()
    later[0, 4:] *= -1
    others[1:] *= -1
    before = net(x)[0, 3]
    return [(net(other)[0, 3] - before).abs().max().item() for other in (later, others)]


# %% four-norms tags=["trained"]
with predict(
    "Means over batch and positions (BatchNorm): what do score and test say?",
    ["both find the leak", "only the score", "only the test", "there is no leak"],
):
    x = next(rows_of_flips(5))[0]
    axes = {"channels": 2, "positions, channels": (1, 2), "positions": 1}
    axes["batch, positions"] = (0, 1)
    found = {}
    print("mean over              score   later flips   other rows")
    for name, over in axes.items():
        net, score = fit(partial(norm_over, axes=over))
        found[name] = score, *moves(net, x)
        print("{:20}  {:5.0%}   {:11.3f}   {:10.3f}".format(name, *found[name]))

# %% [markdown]
# Means over the channels alone are tight: nothing moves. Means over the positions let nearly all
# flips through, and means over both let some. With BatchNorm the outputs move too, when
# later flips change and when other rows do, and yet the score is that of guessing: among 64 rows
# of 16 flips a single one hardly counts. So **a score above one half proves a leak, and a score
# of one half proves nothing**.
#
# The lesson's `moved` sends x through twice. A gradient does the same with one pass, and can
# fail: here is a norm over the positions whose mean and spread are detached.


# %% detached
def detached(x):
    mean = x.mean(1, keepdim=True).detach()
    spread = x.std(1, keepdim=True, correction=0).detach()
    return (x - mean) / (spread + 1e-5)


torch.manual_seed(0)
net = Network(detached).to(device)
net.blocks[0].mixer = net.blocks[1].mixer = nn.Identity()
leaf = x.clone().requires_grad_()
(gradient,) = torch.autograd.grad(net(leaf)[0, 3].square().sum(), leaf)
print("largest gradient at later flips:", gradient[0, 4:].abs().max().item())
print(f"outputs move by {moves(net, x)[0]:.2f}")

# %% [markdown]
# The gradient is exactly 0, and the outputs move. Autograd does not follow what is detached.
#
# ## 3 · The same with a text
#
# The rows are now 32 letters of Python's documentation, the mixer is causal attention
# ([lesson 08a](../08a_attention.ipynb)), and the question is the next letter. (These runs and
# those below are stored; `notebooks/runs/07a.py` has their code.) We look at the 17th letter,
# which is predicted from 16. But who continues a text has no later letters, so we also cut the
# test rows after 16.

# %% text
with predict(
    "Norm over the positions: what do cut rows do to its score?",
    ["nothing", "it falls a little", "it falls by more than half"],
):
    names = "channels", "positions and channels", "positions"
    how = "rows of 32", "cut after 16"
    texts = {name: {one: row(f"text, {name}: {one}") for one in how} for name in names}
    ax = plot_rows(texts, Figure(figsize=(6, 3)).add_subplot())
    ax.set_title("It reads what comes later")
    ax.set(xlabel="letters predicted right", xlim=(0, 0.8))
    show(ax.figure)

# %% [markdown]
# In whole rows the norm over the positions looks best. With the past alone it is far worse than
# the norm over the channels, which does not notice the cut at all. With a text nobody knows
# beforehand which score is too good, and so nothing warns.
#
# ## 4 · Eight patients
#
# A norm over the wrong axis is one mistake of many. Here are eight copies of a block with
# attention and an MLP whose branch has a gate, as in [lesson 05](../05_layer_scale.ipynb). Each
# has one mistake, and all run without an error. The healthy line is
# `x = x + gate * mlp(norm(x))`.
#
# 1. no skip: `x = gate * mlp(norm(x))`
# 2. norm on the stream: `x = norm(x)`, then `x = x + gate * mlp(x)`
# 3. norm forgotten: `x = x + gate * mlp(x)`
# 4. branch detached: `mlp(norm(x.detach()))`
# 5. mixer in the MLP's place: `x = x + gate * mixer(norm(x))`
# 6. zero gate and zero output: both start at 0
# 7. one block six times: `[Block()] * 6`
# 8. mixer over the batch, as with `batch_first=False`
#
# Six blocks of a kind read handwritten digits, cut into four patches. They are trained for 200
# steps, with three seeds.

# %% patients
with predict(
    "How many of the eight end, on average, over 5 points below the healthy one?",
    ["one patient", "about four", "all eight"],
):
    faults = list(stored[0]["probes"])
    ends = {fault: row(f"{fault}: 200 steps") for fault in faults}
    alone = {fault: row(f"{fault}: one at a time") for fault in faults}
    both = {
        fault: {"in one batch": ends[fault], "one at a time": alone[fault]}
        for fault in faults
    }
    ax = plot_rows(both, Figure(figsize=(6, 4.2)).add_subplot())
    ax.set_title("After 200 steps most patients look healthy")
    ax.set(xlabel="test digits right", xlim=(0.7, 1))
    show(ax.figure)

# %% [markdown]
# Only the lost skip stands out. Most of the others have a way to learn digits all the same. The
# mixer over the batch is different: it reads well in a batch, and worse when the digits come one
# at a time (squares), because it has learned with other digits beside each.
#
# What would have found them? Six numbers, measured before any long training:
#
# - **size**: the size of block(x) over that of x. **× 100**: that of block(100 x) over block(x).
# - **slope**: how far the output moves in a small step, over what autograd says.
# - **None**, **zero**: how many tensors of weights have no gradient, or one that is 0
#   throughout, after four steps.
# - **rows**: the gradient of row 0's outputs in other rows. **count**: the blocks' parameters.

# %% probes jupyter={"source_hidden": true}
cards = stored[0]["probes"]
figure = Figure(figsize=(6, 3.6))
ax = figure.add_subplot()
FORMS = {"None": "{:.0f}", "zero": "{:.0f}", "count": "{:,.0f}", "rows": "{:.0e}"}
for place, card in enumerate(cards.values()):
    for column, (probe, value) in enumerate(card.items()):
        large = probe == "× 100" and value > 20
        form = "{:.0f}" if large or value == 0 else FORMS.get(probe, "{:.2f}")
        number = form.format(value).replace("e-0", "e-")
        ax.text(column, place, number, ha="center", va="center")
    ax.axhline(place + 0.5, color=DROPPED, lw=0.5)
ax.set_yticks(range(len(cards)), list(cards))
ax.set_xticks(range(len(card)), list(card))
ax.xaxis.tick_top()
ax.tick_params(length=0)
ax.set(xlim=(-0.5, len(card) - 0.4), ylim=(len(cards) - 0.5, -0.5))
ax.spines[:].set_visible(False)
ax.set_title("Six probes tell all eight apart")
show(figure)

# %% [markdown]
# Compare each row with the first. Without a skip the block returns a fraction of x. Without a
# skip, and with the norm on the stream, a hundredfold x changes little: norm(100 x) is norm(x). A
# detached branch returns the right values and a wrong slope. What is never called has no gradient
# at all (None), and a gate and an output that are both 0 keep each other's gradients at 0. One
# block six times has a sixth of the parameters, and only a mixer over the batch has a gradient in
# other rows. With two other seeds every patient has the same signs.
#
# ## What we found
#
# - A norm over the positions passes on one weighted sum of all flips for each channel, and
#   16 such sums hold 16 flips.
# - A score that is too good proves a leak. A score as it should be proves nothing: BatchNorm leaks
#   and guesses, and seven of eight faulty blocks end within 5 points of the healthy
#   one after 200 steps.
# - A test that changes an input and looks at the outputs finds a leak without a score. A gradient
#   finds it too, unless something is detached.
# - Open: whether these faults would stay hidden in a large network that is trained for long.
