# %% [markdown]
# # 00 · The residual connection
#
# 90 minutes. You need Python and basic PyTorch: tensors, `nn.Module`, `backward()`.
#
# By the end you can
#
# - **compute** on paper what a block does to the differences between its inputs, and to the gradient;
# - **say** why a deep stack of blocks does not train, and which experiment shows it;
# - **write** a residual connection, and trace each of its numbers;
# - **repair** a deep network that does not train.

# %%
import math

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, predict, progress, setup, show, summary
from residual_course.plots import plain_and_residual as plots
from residual_course.training import accuracy

device = setup()
progress("00")


# %% [markdown]
# ## Two networks and a plus sign
#
# Two networks read handwritten digits of 8 × 8 pixels. Each has 16 **blocks**. A block is a small network f of its own:
# two linear layers with a ReLU between. At the end a linear layer, the **head**, turns 64 numbers into one output for
# each of ten classes. The networks get the same initial weights and the same batches. They differ in the **wiring**:


# %%
def plain(x, f):
    return f(x)


def residual(x, f):
    return x + f(x)


class Stack(nn.Module):
    def __init__(self, wiring, depth=16):
        super().__init__()
        self.wiring = wiring
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
            for _ in range(depth)
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        for f in self.blocks:
            x = self.wiring(x, f)
        return self.head(x)


# %% [markdown]
# 1,437 digits are there to train on, and 360 to test on. From all pixels one mean is subtracted, and one standard
# deviation divided out, so that x has the size 1 (its root mean square, **rms**). We train with Adam at a rate of
# 0.001 for 150 steps of 64 digits, with the seeds 0, 1 and 2. (Folded: data, loop.)

# %% jupyter={"source_hidden": true}
data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


def train(stack, adam, x, y, steps):
    losses = []
    for _ in range(steps):
        rows = torch.randint(len(x), (64,)).to(x.device)
        loss = F.cross_entropy(stack(x[rows]), y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def build(wiring, start=None, seed=0, depth=16):
    torch.manual_seed(seed)
    stack = Stack(wiring, depth)
    for f in stack.blocks if start else ():
        start(f)
    return stack.to(device)


def trained(wiring, start=None, rate=0.001, seed=0, steps=150, depth=16):
    stack = build(wiring, start, seed, depth)
    adam = torch.optim.Adam(stack.parameters(), rate)
    return stack, train(stack, adam, train_x, train_y, steps)


# %% tags=["figure", "trained"]
def right(stack):
    """Return the share of the test digits that a stack gets right."""
    return accuracy(stack, test_x, test_y)


wirings = {"f(x)": plain, "x + f(x)": residual}
nets = {name: [trained(w, seed=s) for s in range(3)] for name, w in wirings.items()}
curves = {f"x = {name}": [one[1] for one in found] for name, found in nets.items()}
shares = {name: [right(one[0]) for one in found] for name, found in nets.items()}
for name in wirings:
    ends = [f"{sum(losses[-10:]) / 10:.3f}" for losses in curves[f"x = {name}"]]
    print(f"x = {name:8}  loss at the end", *ends, end="")
    print("   test digits right", *[f"{one:4.0%}" for one in shares[name]])
holds(max(shares["f(x)"]) < 0.15, "Without x + nothing is learned.")
holds(min(shares["x + f(x)"]) > 0.94, "With x + nearly all digits are right.")
ax = plots.plot_two_losses(curves, Figure().add_subplot(), guessing=math.log(10))
ax.set_title("The same blocks, with and without x +")
alt = "Training loss, three seeds. With x = f(x) it stays at 2.303, as in guessing. "
show(ax.figure, alt=alt + "With x = x + f(x) it falls to between 0.002 and 0.07.")

# %% [markdown]
# A loss of ln 10 = 2.303 is that of ten equally likely classes: the network of `x = f(x)` has learned nothing. Other
# rates do not help it in 150 steps. And depth is not needed here (seed 0):

# %% tags=["trained"] jupyter={"source_hidden": true}
rates = 0.0001, 0.0003, 0.003
found = [right(trained(plain, rate=rate)[0]) for rate in rates]
pairs = zip(rates, found, strict=True)
print("x = f(x):", *[f"{share:.0%} at {rate}," for rate, share in pairs])
holds(max(found) < 0.15, "Another rate does not help.")
few = [right(trained(residual, depth=depth)[0]) for depth in (0, 1)]
print(f"no block, the head alone: {few[0]:.0%}; one block x + f(x): {few[1]:.0%}")

# %% [markdown]
# We ask what lets a deep stack train, not what depth is good for.
#
# `x + f(x)` is a **residual connection**, as [He and others (2015)](https://arxiv.org/abs/1512.03385) proposed it for
# image networks of up to 152 layers. The path of x past f is the **skip**, f is the **branch**, and the running sum x is
# the **residual stream**. A stack without skips is called **plain**.
#
# ## What reaches block 16
#
# Why does the plain stack not learn? Follow two digits through it. What can be told apart at the end is the
# **difference** d of their two vectors. How large is d after one block, on average over the random weights?
#
# - **First layer.** `nn.Linear` draws weights and biases of variance 1/(3n) for n inputs. The biases are the same for both
#   digits, and drop out. Each output of the difference is a sum of n products, so its mean square is 1/3 of that of d.
# - **ReLU.** About half of the outputs become 0, and with them their differences, if these are small: 1/2.
# - **Second layer.** 1/3 again.
#
# Together 1/3 · 1/2 · 1/3 = 1/18. So a block divides differences by √18 = **4.24**, and 16 blocks by
# 18⁸ = 1.1 · 10¹⁰.
#
# The **gradient** comes back from the end. For a small change of its input a block acts as a matrix, its Jacobian J:
# a difference d becomes Jd, and a gradient v becomes Jᵀv, by the chain rule. J is square, and its entries are random,
# so J and Jᵀ change sizes alike, on average. So each block also divides the gradient by 4.24, on its way from the head
# to block 1.
#
# `along` (folded) measures both in a new stack, and the rms of x itself.


# %% jupyter={"source_hidden": true}
def rms(x):
    return x.detach().square().mean().sqrt().item()


def along(wiring, start=None, seed=0, depth=16):
    """Return, at each place of a new stack: the rms of x, that of its differences, and
    the size of the gradient against the end."""
    blocks = build(wiring, start, seed, depth).double().blocks
    places = [test_x.double().requires_grad_()]
    for f in blocks:
        places.append(wiring(places[-1], f))
    probe = torch.randn(places[-1].shape).to(places[-1])
    back = torch.autograd.grad((places[-1] * probe).sum(), places)
    return (
        [rms(x) for x in places],
        [rms(x - x.mean(0)) for x in places],
        [rms(g) / rms(back[-1]) for g in back],
    )


names = "x", "differences", "gradient"
sizes = dict(
    zip(names, zip(*[along(plain, seed=s) for s in range(3)], strict=True), strict=True)
)

# %% tags=["predict"]
guess = predict(
    "What is the rms of x after 16 plain blocks? (It starts at 1.)",
    ["about 1e-10", "about 0.06", "about 1"],
)


# %% tags=["reveal"]
# Answer first, then run this cell.
k = torch.arange(17)
laws = {"forward": 0.72 * 18 ** (-k / 2), "back": 18 ** ((k - 16) / 2)}
ax = plots.plot_along(sizes, laws, Figure().add_subplot())
places = {"x": (8, 0.3), "differences": (9.5, 1e-5), "gradient": (3, 1e-9)}
plots.label_along(ax, places)
ax.set(ylabel="rms", title="x keeps a size, its differences do not (thin: paper)")
alt = "Sizes along 16 plain blocks, three seeds. The differences fall along the line "
alt += "of paper to 1e-11, the gradient from right to left to 1e-10. x stays near 0.06."
show(ax.figure, alt=alt)
end = sorted(found[-1] for found in sizes["x"])[1]
guess.reveal(
    "about 1e-10" if end < 1e-3 else "about 0.06" if end < 0.3 else "about 1",
    why={
        "about 1e-10": "That is the end of the differences. Each layer also adds its "
        "biases, and they are the same for every digit.",
        "about 0.06": "The biases of each layer are added anew, the same for every "
        "digit.",
        "about 1": "Of what comes in, a block keeps less than a quarter. The biases "
        "that it adds are smaller than 1.",
    },
    after="On paper: the first biases add 1/192, of which 1/6 leaves the block, and "
    "the second 1/384: 0.0035 in all. Of the mean square s² that came in 1/18 is left. "
    "s² = s²/18 + 0.0035 holds at s = 0.061.",
)

# %% [markdown]
# The head receives vectors that are the same for all digits, to nine decimals. The size of x does not say what it
# carries. And paper (thin lines) was right to within a factor of 3, after 16 blocks.
#
# ### Exercise 1 · 10 minutes · ●●●○○
#
# Now measure the gradient yourself. On paper, 4.24 to the power of 10 is the first to exceed a million. Write a
# function that finds that depth by experiment. `layers` is a list of functions and `x` a tensor. Send x through the
# first 1, 2, 3, ... of the functions, without skips. Return the smallest number of them for which **every** entry of
# the gradient of `out.sum()` at x is below 1e-6 in size, or None if there is none.
#
# <details><summary>Hint 1</summary>For one depth: what must be made anew before each measurement?</details>
# <details><summary>Hint 2</summary>Loop over the depths from 1 to len(layers). In each turn take a fresh copy of x
# that requires a gradient, send it through layers[:depth], and look at the largest size in its gradient.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "depth-to-find", "locked": false, "schema_version": 3, "solution": true, "task": false}
def depth_to_find(layers, x):
    """Return the smallest depth at which the gradient is below 1e-6, or None."""
    ### BEGIN SOLUTION
    for depth in range(1, len(layers) + 1):
        leaf = x.detach().clone().requires_grad_()
        out = leaf
        for layer in layers[:depth]:
            out = layer(out)
        gradient = torch.autograd.grad(out.sum(), leaf)[0]
        if gradient.abs().max() < 1e-6:
            return depth
    return None
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "depth-to-find-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check(depth_to_find, "depth_to_find")

# %% [markdown]
# ## The gradient or the signal?
#
# In this stack two things vanish on their way: the **signal**, which is what differs between digits, and the
# **gradient**. Which of them stops the learning? We keep one of them at its size and let the other shrink. The
# weights stay as PyTorch draws them.
#
# The signal is kept if each block multiplies its output by 4.24. Autograd then multiplies the gradient by 4.24 too. To
# choose the second factor freely we use a **hook**: a function that autograd calls with the gradient at this place, and
# what it returns goes back in place of the gradient. The forward pass does not change.


# %%
ROOT18 = math.sqrt(18)


def switched(signal=1.0, gradient=1.0):
    """Return a plain wiring: f(x) times `signal`, what comes back times `gradient`."""

    def wiring(x, f):
        x = signal * f(x)
        if x.requires_grad:  # autograd will multiply by `signal`: divide that out
            x.register_hook(lambda v: v * gradient / signal)
        return x

    return wiring


# %% [markdown]
# So `switched(1, ROOT18)` keeps the gradient alone, and `switched(ROOT18, 1)` the signal alone. Each network trains
# for 100 steps at a rate of 0.0003, with three seeds. (For 100 steps, 0.001 and 0.003 are not better in any of these rows by
# more than 2 points.) That takes minutes, so the results are stored; the code stands at the end of the lesson, and the
# folded cell reads them.

# %% jupyter={"source_hidden": true}
from residual_course.lesson import stored_runs

stored = stored_runs("00_residual_connection")["runs"]


def row(name):
    """Return the shares of three seeds."""
    return [stored[seed][name] for seed in range(3)]


def say(name, words, width=54):
    print(f"{words:{width}}", *[f"{share:4.0%}" for share in row(name)])


def choice(name):
    low, high = min(row(name)), max(row(name))
    if high < 0.15 or low > 0.8:
        return "under 15 %" if high < 0.15 else "over 80 %"
    return "15 to 50 %" if high < 0.5 else "50 to 80 %"


# %% [markdown]
# First the gradient alone is kept: it arrives at block 1 as large as it left the head.

# %% tags=["predict"]
guess = predict(
    "Only the signal vanishes. What share is right after 100 steps?",
    ["under 15 %", "15 to 50 %", "50 to 80 %", "over 80 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
say("--", "both vanish", 30)
say("-+", "only the signal vanishes", 30)
holds(max(row("--")) < 0.15 < min(row("-+")), "The repair helps a little.")
reason = "Every block gets a gradient of full size. But the head begins with digits "
reason += "that differ by 10⁻¹⁰."
guess.reveal(
    choice("-+"),
    why={
        "under 15 %": "With a gradient of full size the weights of every block change.",
        "15 to 50 %": reason + " Two or three of the ten classes are told apart.",
        "50 to 80 %": reason,
        "over 80 %": reason,
    },
)

# %% [markdown]
# Now the signal alone is kept, and the gradient shrinks by 4.24 in each block.

# %% tags=["predict"]
guess = predict(
    "Only the gradient vanishes. What share is right after 100 steps?",
    ["under 15 %", "15 to 50 %", "50 to 80 %", "over 80 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
say("+-", "only the gradient vanishes", 30)
say("++", "both are kept", 30)
holds(min(row("+-")) > 0.5, "Most is learned without it.")
reason = "The blocks near the head get digits and enough gradient. What the first "
guess.reveal(
    choice("+-"),
    why={
        "under 15 %": "The digits reach the last blocks, and these get a gradient.",
        "15 to 50 %": "The digits reach the last blocks, and these get a gradient.",
        "50 to 80 %": reason + "blocks would add is missing.",
        "over 80 %": reason + "blocks would add is not needed.",
    },
)

# %% [markdown]
# All four, with ten times the steps, and with SGD in the place of Adam (momentum 0.9, 300 steps, for each row the best of the
# rates from 0.0001 to 0.3):

# %% tags=["trained"] jupyter={"source_hidden": true}
print("signal    gradient   Adam: 100 steps   1,000 steps      SGD")
for name in "--", "-+", "+-", "++":
    words = "".join("kept      " if mark == "+" else "vanishes  " for mark in name)
    found = row(name), row(f"{name}, 1000 steps"), row(f"{name}, SGD")
    print(words, *["".join(f"{one:5.0%}" for one in three) + "  " for three in found])
holds(
    max(row("--, 1000 steps")) < 0.15 < 0.6 < min(row("-+, 1000 steps")),
    "With the gradient kept it learns, slowly; as drawn it does not begin.",
)
holds(
    max(row("-+, SGD")) < 0.2 < max(row("+-, SGD")) < 0.8 < min(row("++, SGD")),
    "SGD needs both.",
)

# %% [markdown]
# So neither word is the answer alone. With Adam either repair is enough to begin, and it takes both to be quick: with the
# gradient alone, 1,000 steps reach about what both reach in 100. In 300 steps of SGD it takes the signal to
# begin, and both to finish. (1,000 steps at 0.0003, in the
# second row at 0.001, which is better there.)
#
# ### Where the stack as drawn stops
#
# Adam divides the gradient of a weight by its usual size, so a small gradient should do as well as a large one. But it
# divides by the usual size **plus eps**, and eps is 10⁻⁸. A gradient far below that moves its weight by almost nothing. Which
# blocks are so? And what do the others receive?


# %% jupyter={"source_hidden": true}
def weight_gradients(seed):
    """Return the rms of the first layers' weight gradients in a new plain stack."""
    stack = build(plain, seed=seed).double()
    F.cross_entropy(stack(test_x.double()), test_y).backward()
    return [rms(f[0].weight.grad) for f in stack.blocks]


def moved(seed, eps, rate=0.001):
    """Return how far 100 steps move the first layers' weights, divided by the rate."""
    stack = build(plain, seed=seed)
    before = [f[0].weight.detach().clone() for f in stack.blocks]
    adam = torch.optim.Adam(stack.parameters(), rate, eps=eps)
    train(stack, adam, train_x, train_y, 100)
    pairs = zip(stack.blocks, before, strict=True)
    return [rms(f[0].weight - old) / rate for f, old in pairs]


# %% tags=["figure", "trained"]
start = {
    "differences": [along(plain, seed=s)[1][:-1] for s in range(3)],
    "weight gradient": [weight_gradients(s) for s in range(3)],
}
moves = {f"eps {eps:.0e}": [moved(s, eps) for s in range(3)] for eps in (1e-8, 1e-30)}
fig = Figure(figsize=(6, 3.8))
left, right_ax = fig.subplots(1, 2)
plots.plot_along(start, {}, left, first=1).axhline(1e-8, color="black", lw=0.8)
left.text(1.5, 2.5e-8, "Adam's eps")
plots.label_along(left, {"differences": (4, 3e-2), "weight gradient": (1.6, 3e-14)})
left.set(ylim=(1e-15, 10), xlabel="block", ylabel="rms")
left.set_title("before training", weight="normal")
plots.plot_along(moves, {}, right_ax, first=1)
plots.label_along(right_ax, {"eps 1e-08": (7, 0.1), "eps 1e-30": (2, 55)})
right_ax.set(ylim=(1e-3, 300), xlabel="block", ylabel="weights moved by / rate")
right_ax.set_title("after 100 steps", weight="normal")
fig.suptitle("What gets digits has no gradient above eps", weight="bold")
alt = "Left, along 16 blocks: differences fall from 1 to 1e-10, weight gradients rise "
alt += (
    "from 1e-12 to 1e-4 and cross Adam's eps at block 10. Right: with eps 1e-8 blocks "
)
show(fig, alt=alt + "1 to 5 hardly move, with eps 1e-30 all blocks move.")
low, high = (torch.tensor(moves[name]) for name in moves)
holds(low[:, :4].max() < 1 and high.min() > 4, "Below eps a block hardly moves.")

# %% [markdown]
# Blocks 1 to 5 receive digits that differ, and their weights move by less than a tenth of what the last blocks' do. Blocks 10
# to 16 move, and receive vectors that are equal to five decimals and more.
#
# So change this one number of the optimizer, and nothing in the network: signal and gradient vanish as before.

# %% tags=["predict"]
guess = predict(
    "As drawn, eps 1e-30, 200 steps at 0.001: what is right, median of 3 seeds?",
    ["under 15 %", "15 to 25 %", "over 25 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
stacks = [build(plain, seed=seed) for seed in range(3)]
for stack in stacks:
    adam = torch.optim.Adam(stack.parameters(), 0.001, eps=1e-30)
    train(stack, adam, train_x, train_y, 200)
small = [right(stack) for stack in stacks]
print("signal    gradient  eps     right")
print("vanishes  vanishes  1e-30     200 steps    ", *[f"{one:4.0%}" for one in small])
say("+-", "kept      vanishes  1e-8      100 steps", 42)
say("+- eps", "kept      vanishes  1e-30     100 steps", 42)
holds(min(row("+- eps")) > 0.75 > max(row("+-")), "In 100 steps it costs little.")
middle = sorted(small)[1]
holds(middle > 0.25, "With the small eps the stack as drawn begins.")
reason = "Adam divides each gradient by its own size. The digits that reach the head "
reason += "differ by 10⁻¹⁰ at first, below what float32 tells apart there."
guess.reveal(
    "over 25 %" if middle > 0.25 else "15 to 25 %" if middle > 0.15 else "under 15 %",
    why={
        "under 15 %": "With the small eps the weights of all blocks change, and so do "
        "the factors by which signal and gradient shrink.",
        "15 to 25 %": reason,
        "over 25 %": reason,
    },
    after="So with Adam the vanished gradient does its harm through eps: it keeps the "
    "stack from beginning. (At this rate the share then swings.)",
)

# %% [markdown]
# The [appendix](00_residual_connection_more.ipynb) lets single blocks learn with Adam: the blocks far from the head are
# those that a vanished gradient stops.
#
# ### And likeness?
#
# A third explanation is that all digits become alike: the cosine of the angle between two of them goes to 1. In the
# plain stack it does so, since the biases, which are common to all, stay, and what differs shrinks. To switch likeness alone,
# we need a stack that keeps all angles. Let its blocks begin as **rotations**: since relu(a) − relu(−a) = a, two layers with
# the weights (A, −A) and (B, −B) return BAx, and A and B are random rotations (folded).


# %% jupyter={"source_hidden": true}
def rotation(f, back=False):
    """Let the block f begin as a rotation, or as the identity if it turns back."""
    A, B = (nn.init.orthogonal_(torch.empty(64, 64)) for _ in range(2))
    f[0].weight.data = torch.cat([A, -A])
    f[2].weight.data = torch.cat([A.T, -A.T] if back else [B, -B], dim=1)
    nn.init.zeros_(f[0].bias), nn.init.zeros_(f[2].bias)


# %% [markdown]
# In the first row signal and gradient are divided by 4.24 in each block, in the others nothing vanishes. The last two rows
# are a pair: equal differences, and only the constant vector is switched.


# %% jupyter={"source_hidden": true}
def cosine(x):
    """Return the mean cosine between two different digits."""
    rows = F.normalize(x.detach().flatten(1))
    return ((rows @ rows.T).sum().item() - len(x)) / (len(x) * (len(x) - 1))


common = torch.randn(64, generator=torch.Generator().manual_seed(0)).to(device)
common *= 4 / common.square().mean().sqrt()

# %% tags=["trained"] jupyter={"source_hidden": true}
drawn = build(plain).blocks
print(f"plain stack: cosine {cosine(test_x):.2f} before block 1", end="")
print(f", {cosine(nn.Sequential(*drawn[:4])(test_x)):.4f} after block 4")
print("rotations:                                     cosine   right, 100 steps")
for name, seen, words in (
    ("apart, both lost", test_x, "digits; signal and gradient vanish"),
    ("alike, both kept", test_x + common, "digits + a constant of size 4"),
    ("small", test_x / 60, "digits / 60"),
    (
        "small, alike",
        (test_x + 15 * common) / 60,
        "(digits + a constant of size 60) / 60",
    ),
):
    say(name, f"  {words:44} {cosine(seen):.4f}")
holds(
    max(row("apart, both lost")) < 0.15 < 0.8 < min(row("alike, both kept")),
    "At this cosine likeness is not what stops a stack.",
)
holds(max(row("small, alike")) < 0.4 < 0.8 < min(row("small")), "Nearer to 1 it is.")

# %% [markdown]
# A cosine of 0.97 does no harm. One of 0.9999 stops these 100 steps, with nothing else changed. (With ten times the steps it
# begins.) So likeness is a third cause. The plain stack has all three at once, and none of the three
# words alone is the answer.
#
# ### Where plain stops
#
# All that was for 16 blocks and PyTorch's weights. **He's weights**
# ([He et al., 2015](https://arxiv.org/abs/1502.01852)) have a variance of 2/n after a ReLU and, here, 1/n otherwise, so
# that f(x) is on average as large as x:


# %%
def he(f):
    nn.init.kaiming_normal_(f[0].weight, nonlinearity="linear")
    nn.init.kaiming_normal_(f[2].weight, nonlinearity="relu")
    nn.init.zeros_(f[0].bias), nn.init.zeros_(f[2].bias)


# %% tags=["trained"] jupyter={"source_hidden": true}
for name, words in (
    ("depth 8, 1500 steps", "PyTorch's weights,  8 blocks, 1,500 steps"),
    ("--, 1000 steps", "PyTorch's weights, 16 blocks, 1,000 steps"),
    ("He, depth 16, 150 steps", "He's weights,      16 blocks,   150 steps"),
    ("He, depth 64, 500 steps", "He's weights,      64 blocks,   500 steps"),
):
    say(name, words)
holds(
    min(row("depth 8, 1500 steps")) > 0.85
    and min(row("He, depth 16, 150 steps")) > 0.7
    and max(row("He, depth 64, 500 steps")) < 0.85,
    "8 blocks are slow, and He's weights move the limit.",
)

# %% [markdown]
# (Rates: 0.001 for 8 blocks, 0.0003 for the others.) 8 blocks are slow, not stuck. With He's weights 16 plain
# blocks train, and 64 are slow; why, is not separated here. So "plain stacks cannot be trained" is
# wrong. How deep a plain stack trains, in a given number of steps, depends on its weights at the start.
#
# **Law 1.** With PyTorch's weights a plain block of two layers divides what differs between inputs, and the gradient,
# by √18 = 4.24.
#
# ## What the sum changes
#
# Now x + f(x). The block's Jacobian is the identity plus that of f: **1 + J**.
#
# - A difference d becomes d + Jd. The entries of J are random with mean 0, so d · Jd is 0 on average, and the squares
#   add: the mean square is multiplied by 1 + 1/18.
# - A gradient v becomes v + Jᵀv: the same factor. If f is constant, J = 0 and v comes through unchanged.
#
# Over 16 blocks the rms grows by (19/18)⁸ = 1.54, where the plain stack had 10⁻¹⁰. Measured:

# %% jupyter={"source_hidden": true}
for seed in range(3):
    _, apart, gradient = along(residual, seed=seed)
    print(
        f"seed {seed}: differences times {apart[-1] / apart[0]:.2f}, gradient times "
        f"{gradient[0]:.2f}"
    )
    holds(
        1.2 < apart[-1] / apart[0] < 2 and 1.2 < gradient[0] < 2, "Both stay near 1.5."
    )

# %% [markdown]
# (The differences grow less: of large ones ReLU keeps less than 1/2.)
#
# Write two blocks out, and the sum shows its paths. Forward, x₂ = x + f₁(x) + f₂(x + f₁(x)). On the way back, the Jacobian is
#
# $$(1 + J_2)(1 + J_1) = 1 + J_1 + J_2 + J_2 J_1$$
#
# Each block is passed by the skip or by f, so there are 2² paths, and 2¹⁶ through 16 blocks. A plain stack has the last one
# alone. The first, the 1, has nothing on it that could shrink.
#
# **Law 2.** The Jacobian of x + f(x) is 1 + J. The 1 brings x and the gradient past f, unless f cancels it, as
# f(x) = −x does.
#
# ## Branches as large as x
#
# PyTorch's branches are small: f(x) is a quarter of x. He's weights make f(x) as large as x, with which the plain
# stack of 16 blocks trained. Use them in a residual stack of 64.

# %% tags=["predict"]
guess = predict(
    "How large is x after 64 blocks x + f(x) with He's weights? (It starts at 1.)",
    ["about 1", "about 8", "about 64", "over a million"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
ends = [along(residual, he, seed, 64)[0][-1] for seed in range(3)]
print("x after 64 blocks:", *[f"{end:.1e}" for end in ends])
limits = {4: "about 1", 25: "about 8", 1000: "about 64", math.inf: "over a million"}
guess.reveal(
    next(name for limit, name in limits.items() if sorted(ends)[1] < limit),
    why={
        "about 1": "The skip keeps x, and f(x) comes on top.",
        "about 8": "√64 = 8 would be right if each block added the same amount. But f "
        "receives a larger x in each block, and returns a larger f(x).",
        "about 64": "That adds sizes, each as large as the first. But f receives a "
        "larger x in each block.",
        "over a million": "x and f(x) are equally large, and perpendicular on average. "
        "The squares add, so each block doubles the mean square. 2³² = 4 · 10⁹.",
    },
)

# %% [markdown]
# The stream **floods**. In practice the connection has two more parts, and either prevents it:
#
# - A **norm** before f subtracts the mean of the 64 numbers and divides by their standard deviation. So f receives numbers of
#   size 1, whatever the size of x, and each block adds 1 to the mean square: after L blocks it is 1 + L, and the size is
#   √(1 + L). For 64 blocks that is 8.1.
# - A **gate** after f multiplies it by g. With g = 1/√L each block multiplies the mean square by 1 + 1/L. Over L blocks that
#   is about e, and the size √e = 1.65. (A random mask such as dropout often stands in its place; that does not
#   prevent a flood.)
#
# $$x \leftarrow x + g \cdot f(\mathrm{norm}(x))$$
#
# ```
# x ──┬────────────────────────── + ──▶   the skip, and the stream
#     └──▶ norm ──▶ f ──▶ gate ───┘       the branch
# ```

# %%
SIZED = {
    "x + f(x)": residual,
    "x + f(norm(x))": lambda x, f: x + f(F.layer_norm(x, (64,))),
    "x + f(x)/√L": lambda x, f: x + f(x) / 8,  # L = 64 blocks
}
sized = {n: [along(w, he, s, 64) for s in range(3)] for n, w in SIZED.items()}

# %% tags=["figure"]
k = torch.arange(65)
laws = {"x + f(x)": 2 ** (k / 2), "x + f(norm(x))": (1 + k).sqrt()}
laws["x + f(x)/√L"] = (65 / 64) ** (k / 2)
fig = Figure(figsize=(6, 3.8))
left, right_ax = fig.subplots(1, 2, sharey=True)
forward = {name: [one[0] for one in found] for name, found in sized.items()}
back = {name: [one[2] for one in found] for name, found in sized.items()}
plots.plot_along(forward, laws, left).set_title("size of x", weight="normal")
gradient_laws = {name: law[-1] / law for name, law in laws.items()}
plots.plot_along(back, gradient_laws, right_ax)
right_ax.set_title("gradient, from the end", weight="normal")
places = {"x + f(x)": (5, 1e7), "x + f(norm(x))": (22, 35), "x + f(x)/√L": (20, 0.25)}
plots.label_along(left, places)
left.set(ylim=(0.1, 1e11))
fig.suptitle("A norm or a gate prevents the flood (thin: paper)", weight="bold")
alt = "Size of x, and of the gradient, along 64 blocks with He's weights, three seeds. "
alt += "x + f(x) grows to about 1e9 along its law, a norm keeps it at 8, a gate at 1.6."
show(fig, alt=alt)
for name, law in laws.items():
    for sizes in (forward[name], [one[::-1] for one in back[name]]):
        near = [abs(math.log(one[-1] / law[-1])) < 2 for one in sizes]
        holds(all(near), "The sizes end near their laws.")

# %% tags=["trained"] jupyter={"source_hidden": true}
print("64 blocks                         grows by      right after 60 steps")
for name, wiring in SIZED.items():
    stream = along(wiring, he, 0, 64)[0]
    say(name, f"He's weights, {name:17} {stream[-1] / stream[0]:9.3g}")
stream = along(residual, None, 0, 64)[0]
say("x + f(x), PyTorch", f"PyTorch's weights, x + f(x)     {stream[-1]:9.3g}")
holds(
    max(row("x + f(x)"))
    < 0.4
    < 0.85
    < min(row("x + f(norm(x))") + row("x + f(x)/√L") + row("x + f(x), PyTorch")),
    "With He's branches a norm or a gate lets it train; PyTorch's need neither.",
)

# %% [markdown]
# With the norm or the gate the stack of 64 trains. Is it enough that x stays small? [Lesson 01](01_gradient_flow.ipynb)
# tests that.
#
# **Law 3.** With branches as large as their input, x and the gradient grow by 2^(L/2) for x + f(x), by √(1 + L) with
# a norm before f, and by about √e with a gate of 1/√L.
#
# The [appendix](00_residual_connection_more.ipynb) says why the gradient too, and has an explorer: find the largest gate that
# holds for any depth.
#
# ### Exercise 2 · 4 minutes · ●●○○○
#
# Write the connection. `sublayer`, `norm` and `dropout` are functions of one tensor.
#
# <details><summary>Hint 1</summary>Read the formula from the inside out: which part receives x first?</details>
# <details><summary>Hint 2</summary>Three calls, one inside the other, make the branch. What is left is one addition,
# and x itself passes through none of the three.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "residual-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def residual_forward(x, sublayer, norm, dropout):
    """Return x plus its branch; the gate is dropout."""
    ### BEGIN SOLUTION
    return x + dropout(sublayer(norm(x)))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "residual-forward-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(residual_forward, "residual_forward")

# %% [markdown]
# As a class, with f as an argument (the package's own is in the appendix):


# %%
class Connection(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        norm = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
        return x + self.dropout(sublayer(norm))


# %% [markdown]
# ## In a trained network
#
# Back to the residual networks of the opening, trained to 97 or 98 %. Delete one of the 16 blocks, and test what is
# left without further training. The folded cell also lets the head read after the first 0, 1, 2, ... blocks, and measures
# how much each block changes x, beside the size of x.


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def share(stack, blocks):
    """Return the share right if x passes only some of the blocks of a stack."""
    x = test_x
    for f in blocks:
        x = stack.wiring(x, f)
    return (stack.head(x).argmax(-1) == test_y).float().mean().item()


def parts(stack):
    """Return the shares after the first 0, 1, ... blocks, and without each block."""
    every = list(stack.blocks)
    cut = [share(stack, every[:k]) for k in range(17)]
    return cut, [share(stack, every[:k] + every[k + 1 :]) for k in range(16)]


@torch.no_grad()
def change(stack):
    """Return how far each block moves x, beside the size of x."""
    places = [test_x]
    for f in stack.blocks:
        places.append(stack.wiring(places[-1], f))
    return [rms(b - a) / rms(a) for a, b in zip(places, places[1:], strict=False)]


# %% tags=["predict"]
guess = predict(
    "A trained residual network loses one of 16 blocks. How much is lost at worst?",
    ["under 5 %", "about 1/16", "nearly all"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
found = {"x + f(x)": [(*parts(stack), change(stack)) for stack, _ in nets["x + f(x)"]]}
losses = [max(cut[-1] - one for one in gone) for cut, gone, _ in found["x + f(x)"]]
print("the worst block of each seed costs", *[f"{one:.1%}" for one in losses])
worst = max(losses)
holds(worst < 0.05, "No single block is needed.")
guess.reveal(
    "under 5 %" if worst < 0.05 else "about 1/16" if worst < 0.12 else "nearly all",
    why={
        "under 5 %": "What the other blocks add is still there.",
        "about 1/16": "That would be a fair share if the blocks did separate parts of "
        "the task.",
        "nearly all": "That would be so if the blocks above could not use the input of "
        "the missing block in place of its output.",
    },
)

# %% [markdown]
# [Veit, Wilber and Belongie (2016)](https://arxiv.org/abs/1605.06431) found this in large image networks. They explain
# it by the many paths of a sum: deleting one of 16 blocks leaves half of the 2¹⁶. We try other stacks, trained in the
# same way (folded):
#
# - no sum: blocks f(x) that begin as the identity (a rotation and back);
# - a sum that begins as a rotation: f multiplies x by Q − 1, so that x + f(x) = Qx;
# - He's weights, with a norm before f.


# %% jupyter={"source_hidden": true}
from functools import partial


def to_rotation(f):
    """Let x + f(x) begin as a rotation Q: f multiplies x by Q - 1."""
    A, Q = (nn.init.orthogonal_(torch.empty(64, 64)) for _ in range(2))
    B = (Q - torch.eye(64)) @ A.T
    f[0].weight.data, f[2].weight.data = torch.cat([A, -A]), torch.cat([B, -B], dim=1)
    nn.init.zeros_(f[0].bias), nn.init.zeros_(f[2].bias)


others = {
    "f(x), identity": (plain, partial(rotation, back=True)),
    "x + f(x), rotations": (residual, to_rotation),
    "x + f(norm(x)), He": (SIZED["x + f(norm(x))"], he),
}


def study(wiring, start):
    stacks = [trained(wiring, start, seed=s)[0] for s in range(3)]
    return [(*parts(stack), change(stack)) for stack in stacks]


def table():
    print(" " * 20 + "whole               without the worst block   its change of x")
    for name, seeds in found.items():
        worst = [min(range(16), key=gone.__getitem__) for _, gone, _ in seeds]
        pairs = list(zip(seeds, worst, strict=True))
        print(f"{name:19}", *[f"{cut[-1]:4.0%}" for cut, _, _ in seeds], end="      ")
        print(*[f"{gone[k]:4.0%}" for (_, gone, _), k in pairs], end="            ")
        print(*[f"{moved[k]:4.1f}" for (_, _, moved), k in pairs])


# %% tags=["predict"]
guess = predict(
    "f(x) that begins as the identity loses its worst block. How much is right?",
    ["over 85 %", "30 to 85 %", "under 30 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
found |= {name: study(*how) for name, how in others.items()}
table()
fig = Figure(figsize=(6, 4.4))
cut, gone = ({n: [s[i] for s in seeds] for n, seeds in found.items()} for i in (0, 1))
plots.plot_parts(cut, gone, fig)
fig.suptitle("Blocks that change x little can be deleted", weight="bold")
alt = "Share right with few blocks, and without one: high for small changes, chance "
show(fig, alt=alt + "for rotations; with He's weights and a norm block 1 is missed.")
turned = [min(one) for name in gone for one in gone[name] if "rotation" in name]
low = min(min(one) for one in gone["f(x), identity"])
one = max(min(seed) for seed in gone["x + f(norm(x)), He"])
holds(max(turned) < 0.3 < one < 0.85 < low, "Larger changes, greater losses.")
guess.reveal(
    "over 85 %" if low > 0.85 else "30 to 85 %" if low > 0.3 else "under 30 %",
    why={
        "over 85 %": "There is no sum and one path alone, and each block changes x "
        "little.",
        "30 to 85 %": "There is one path alone. But each block changes x little.",
        "under 30 %": "So it is where each block is a rotation: the blocks above then "
        "get x in other coordinates than they learned with.",
    },
    after="And a sum alone does not do it: x + f(x) that begins as a rotation falls "
    "to chance or below.",
)

# %% [markdown]
# With He's weights and a norm, block 1 adds as much as it receives, and it is the block that is missed most. In the left
# half, but for the rotations, the head can read half-way.
#
# **Law 4.** After these 150 steps, a block that changes x little can be deleted: where the change was less than half of the size of
# x, more than 85 % stayed right. Small branches on a skip change x little, and so do blocks that begin near the identity.
#
# ## A network that does not train
#
# A colleague has written blocks that may change the width later. 64 of them, 60 steps:


# %%
class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.shortcut = nn.Linear(width, width, bias=False)
        self.f = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        he(self.f)
        nn.init.kaiming_normal_(self.shortcut.weight, nonlinearity="linear")

    def forward(self, x):
        return self.shortcut(x) + self.f(x)


def as_handed(depth):
    return nn.Sequential(*[Block() for _ in range(depth)], nn.Linear(64, 10))


# %% tags=["trained"] jupyter={"source_hidden": true}
torch.manual_seed(0)
network = as_handed(64).to(device)
adam = torch.optim.Adam(network.parameters(), 0.001)
losses = train(network, adam, train_x, train_y, steps=60)
print(f"loss {losses[0]:.1e} to {losses[-1]:.1e}, {right(network):.0%} right")
holds(right(network) < 0.3, "The network as handed over does not train.")

# %% [markdown]
# ### Exercise 3 · 25 minutes · ●●●●○
#
# What is wrong with it?
#
# 1. **Measure**, block by block, in the untrained network: the rms of x; the rms of what differs between digits; and in how
#    many directions they differ. `torch.linalg.svdvals(x - x.mean(0))` gives the spread of the digits along 64
#    perpendicular directions, the largest first.
# 2. **Repair** what you find, train, and measure again, until it learns.
# 3. `repaired(depth)` returns a network from 64 numbers to 10 outputs with `depth` blocks that
#    all learn. The check trains it as above, with three seeds and depths, and wants 85 % right.
#
# <details><summary>Hint 1</summary>Is one of the sizes far from 1? When it is repaired, train again: is 85 % reached?
# Which of the three measurements is still unlike that of a stack that trains?</details>
# <details><summary>Hint 2</summary>Send the digits through the 64 shortcuts alone, without any f, and look at the
# directions that are left. What would a shortcut have to be at the start to keep all of them?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "repair-the-flood", "locked": false, "schema_version": 3, "solution": true, "task": false}
def repaired(depth):
    """Return a network of `depth` blocks that learns; its weights are drawn here."""

    ### BEGIN SOLUTION
    # Branches as large as x flood the stream, so f receives norm(x). And 64 random
    # matrices one after another keep few directions of x, so each shortcut begins as
    # the identity. It may still learn, or change the width somewhere.
    class Repaired(Block):
        def __init__(self):
            super().__init__()
            nn.init.eye_(self.shortcut.weight)

        def forward(self, x):
            return self.shortcut(x) + self.f(F.layer_norm(x, x.shape[-1:]))

    return nn.Sequential(*[Repaired() for _ in range(depth)], nn.Linear(64, 10))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-the-flood-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(repaired, "repaired_network")

# %% [markdown]
# The [appendix](00_residual_connection_more.ipynb) repairs its two causes one at a time. The tool of He et al. for a
# changed width is a linear layer (a 1 × 1 convolution) on the few skips where it changes, and x itself on all others.
#
# ## The code of the stored runs
#
# You may skip this. The folded cells hold all settings of the stored runs; the last one computes two of them again.


# %% jupyter={"source_hidden": true}
def run(seed, wiring, start=None, rate=0.001, steps=100, depth=16, add=0.0, **more):
    """Train all blocks and the head, or the blocks `only`; return the share right."""
    stack = build(wiring, start, seed, depth)
    chosen = stack.blocks[more["only"]] if "only" in more else stack
    if more.get("head"):
        chosen = nn.ModuleList([chosen, stack.head])
    optimizer = torch.optim.Adam(chosen.parameters(), rate, eps=more.get("eps", 1e-8))
    if "momentum" in more:
        optimizer = torch.optim.SGD(
            chosen.parameters(), rate, momentum=more["momentum"]
        )
    seen, test = ((x + add) * more.get("scale", 1) for x in (train_x, test_x))
    train(stack, optimizer, seen, train_y, steps)
    return round(accuracy(stack, test, test_y), 3)


# %% jupyter={"source_hidden": true}
slow = {"rate": 0.0003}
WIRINGS = {  # signal, gradient: vanishing (-) or kept (+)
    "--": plain,
    "-+": switched(1, ROOT18),
    "+-": switched(ROOT18, 1),
    "++": switched(ROOT18, ROOT18),
}
RUNS = {name: (wiring, None, slow) for name, wiring in WIRINGS.items()}
RUNS["+- eps"] = WIRINGS["+-"], None, slow | {"eps": 1e-30}
for (name, wiring), best in zip(
    WIRINGS.items(), (0.1, 0.0001, 0.03, 0.001), strict=True
):
    settings = {"steps": 1000, "rate": 0.001 if name == "-+" else 0.0003}
    RUNS[f"{name}, 1000 steps"] = wiring, None, settings
    settings = {"steps": 300, "rate": best, "momentum": 0.9}
    RUNS[f"{name}, SGD"] = wiring, None, settings

# %% jupyter={"source_hidden": true}
fades = switched(1, 1 / ROOT18)
first = {"only": slice(1)}
RUNS |= {
    "apart, both lost": (switched(1 / ROOT18, 1 / ROOT18), rotation, {}),
    "alike, both kept": (plain, rotation, slow | {"add": common}),
    "small": (plain, rotation, slow | {"scale": 1 / 60}),
    "small, alike": (plain, rotation, slow | {"add": 15 * common, "scale": 1 / 60}),
    "head alone": (fades, rotation, {"only": slice(0), "head": True}),
    "upper half": (fades, rotation, {"only": slice(8, 16), "head": True}),
    "first block": (plain, rotation, first),
    "first block, vanishing": (fades, rotation, first),
    "first block, vanishing, eps 1e-30": (fades, rotation, first | {"eps": 1e-30}),
}
RUNS["depth 8, 1500 steps"] = plain, None, {"depth": 8, "steps": 1500}
for depth, steps in (16, 150), (64, 500):
    settings = slow | {"depth": depth, "steps": steps}
    RUNS[f"He, depth {depth}, {steps} steps"] = plain, he, settings

# %% jupyter={"source_hidden": true}
for name, wiring in SIZED.items():
    RUNS[name] = wiring, he, {"steps": 60, "depth": 64}
RUNS["x + f(x), PyTorch"] = residual, None, {"steps": 60, "depth": 64}


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.15, only=()):
    found = {}
    for name, (wiring, start, settings) in RUNS.items():
        if not only or name in only:
            found[name] = run(seed, wiring, start, **settings)
    return found


# %% tags=["trained"] jupyter={"source_hidden": true}
again = runs(0, only=("-+", "small"))
for name, share in again.items():
    print(f"{name:12} stored {stored[0][name]:.0%}, again {share:.0%}")
holds(
    max(abs(share - stored[0][name]) for name, share in again.items()) < 0.15,
    "Two of the stored runs, computed again, are those of this code.",
)

# %% [markdown]
# ## Summary
#
# | law | where it stops |
# |---|---|
# | 1. A plain block with PyTorch's weights divides differences, and the gradient, by √18 = 4.24 | at the start of training; other weights, other factors |
# | 2. The Jacobian of x + f(x) is 1 + J: x and the gradient come past f | f can cancel it; a layer on the skip is no 1 |
# | 3. Branches as large as their input: 2^(L/2) for x + f(x), √(1 + L) with a norm, about √e with g = 1/√L | at the start of training; PyTorch's branches are a quarter as large |
# | 4. A block that changes x little can be deleted, and the head reads half-way | these digits, 150 steps; trained longer, blocks may come to change more |
#
# So why does a plain stack of 16 blocks not learn? With PyTorch's weights it loses the signal and the gradient, by the
# same factor. With Adam, the blocks that receive digits have gradients below eps, and the blocks that move receive no digits.
# x + f(x) keeps both. It does not keep its branches small beside x by itself.
#
# The plain image networks of He et al. failed in another way: they had He's weights and a norm in every layer, so neither
# signal nor gradient vanished, and the authors say so. What was measured here does not explain those;
# [Balduzzi et al. (2017)](https://arxiv.org/abs/1702.08591) study them.

# %%
summary("00")

# %% [markdown]
# ## Next
#
# - [Lesson 01](01_gradient_flow.ipynb) measures signal and gradient at every place of such a stack.
# - [Homework for lessons 00 and 01](homework/hw_00_01.ipynb), once you have done lesson 01.
# - [The appendix](00_residual_connection_more.ipynb): one connection in eight steps, the explorer, post-norm, a gate,
#   the causes of exercise 3.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
