# %% [markdown]
# # 00 · The residual connection
#
# 85 minutes. You need Python and basic PyTorch: tensors, `nn.Module`, `backward()`. Nothing is downloaded.
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

from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import plain_and_residual as plots
from residual_edu.training import accuracy

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
# Both are trained by the same loop, on batches of 64 digits. `build` seeds the weights; `start` may change them.


# %%
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


def right(stack):
    return accuracy(stack, test_x, test_y)


# %% [markdown]
# The folded cell loads 1,437 digits to train on and 360 to test on. (One mean is subtracted from all pixels, and one
# standard deviation divided out.) It trains both networks with Adam, at a rate of 0.001, for 150 steps, with the
# seeds 0, 1 and 2. `holds(...)` states what a cell should show.

# %% tags=["figure", "trained"]
data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


def trained(wiring, start=None, rate=0.001, seed=0, steps=150, depth=16):
    """Return a trained stack and its losses."""
    stack = build(wiring, start, seed, depth)
    adam = torch.optim.Adam(stack.parameters(), rate)
    return stack, train(stack, adam, train_x, train_y, steps)


wirings = {"f(x)": plain, "x + f(x)": residual}
nets = {name: [trained(w, seed=s) for s in range(3)] for name, w in wirings.items()}
curves = {name: [one[1] for one in found] for name, found in nets.items()}
shares = {name: [right(one[0]) for one in found] for name, found in nets.items()}
for name, found in curves.items():
    ends = [f"{sum(losses[-10:]) / 10:.3f}" for losses in found]
    print(f"x = {name:8}  loss at the end", *ends, end="")
    print("   test digits right", *[f"{one:4.0%}" for one in shares[name]])
holds(max(shares["f(x)"]) < 0.15, "Without x + nothing is learned.")
holds(min(shares["x + f(x)"]) > 0.94, "With x + nearly all digits are right.")
ax = plots.plot_two_losses(curves, Figure().add_subplot(), guessing=math.log(10))
ax.set_title("The same blocks, with and without x +")
alt = "Training loss, three seeds. With x = f(x) it stays at 2.303, as in guessing. "
show(ax.figure, alt=alt + "With x = x + f(x) it falls below 0.1.")

# %% [markdown]
# A loss of ln 10 = 2.303 is that of ten equally likely classes: the network of `x = f(x)` has learned nothing. It has
# as many parameters as the other, and the rate is not the cause (seed 0):

# %% tags=["trained"] jupyter={"source_hidden": true}
for name, wiring in wirings.items():
    for rate in (0.0003, 0.003):
        found = right(trained(wiring, rate=rate)[0])
        print(f"x = {name:8}  rate {rate:<6}  {found:.0%} right")
        holds((found > 0.9) == (wiring is residual), "The rate does not decide.")

# %% [markdown]
# `x + f(x)` is a **residual connection** ([He et al., 2015](https://arxiv.org/abs/1512.03385)). Nearly every deep
# network since then has it. The path of x past f is the **skip**, f is the **branch**, and the running sum x is the
# **residual stream**. A stack without skips is called **plain**.
#
# ## What reaches block 16
#
# Why does the plain stack not learn? Follow two digits through it. What can be told apart at the end is the
# **difference** d of their two vectors. How large is d after one block, on average over the random weights?
#
# - **First layer.** `nn.Linear` draws weights of variance 1/(3n) for n inputs. Each output of the difference is a sum
#   of n products, so its mean square is 1/3 of that of d.
# - **ReLU.** About half of the outputs become 0, and with them their differences: 1/2.
# - **Second layer.** 1/3 again.
#
# Together 1/3 · 1/2 · 1/3 = 1/18. So a block divides differences by √18 = **4.24**, and 16 blocks by
# 18⁸ = 1.1 · 10¹⁰.
#
# The **gradient** comes back from the end. For a small change of its input a block acts as a matrix, its Jacobian J:
# a difference d becomes Jd, and a gradient g becomes Jᵀg, by the chain rule. J and Jᵀ have the same entries. So each
# block also divides the gradient by 4.24, on its way from the head to block 1.
#
# That is paper. `along` (folded) measures both in a new stack, in float64. It also measures the root mean square
# (rms) of x itself, which is more than what differs between digits.


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
plots.label_along(
    ax, {"x": (8, 0.3), "differences": (9.5, 1e-5), "gradient": (3, 1e-9)}
)
ax.set_ylabel("rms")
ax.set_title("x keeps a size, its differences do not (thin: paper)")
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
    after="On paper: biases have the variance 1/(3n). If s is the rms, a block turns "
    "s² into s²/18 + (1/192) · ½ · ⅓ + 1/384. It stays the same at s = 0.061.",
)

# %% [markdown]
# The head receives vectors that are the same for all digits, to ten decimals. The size of x does not say what it
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
# Try it on `list(build(plain).blocks)` and `test_x`.
#
# ## The gradient, the signal, or likeness?
#
# Three explanations are common: the gradient vanishes; the signal (what differs between digits) vanishes; all digits
# become alike, measured by the cosine of the angle between two of them. In our stack all three are true at once, so
# it cannot decide. We need networks in which they are switched one at a time.
#
# **The gradient** can be switched with a hook. It multiplies what comes back and leaves the forward pass alone:


# %%
def switched(forward=1.0, back=1.0):
    """Return a plain wiring with other sizes: f(x) times `forward`, the gradient that
    comes back times `back`."""

    def wiring(x, f):
        x = forward * f(x)
        if x.requires_grad:
            x.register_hook(lambda gradient: back * gradient)
        return x

    return wiring


# %% [markdown]
# **The signal** needs weights that keep it. Since relu(a) − relu(−a) = a, the two layers below multiply x by A and
# then by B, exactly. A and B are random rotations (orthogonal matrices). So the block begins as a rotation, which
# keeps all lengths and angles, forward and back. It is a plain block all the same, and all of its weights are
# trained.


# %%
def rotation(f, back=False):
    """Let the block f begin as a rotation, or as the identity if it turns back."""
    A, B = (nn.init.orthogonal_(torch.empty(64, 64)) for _ in range(2))
    f[0].weight.data = torch.cat([A, -A])
    f[2].weight.data = torch.cat([A.T, -A.T] if back else [B, -B], dim=1)
    nn.init.zeros_(f[0].bias), nn.init.zeros_(f[2].bias)


# %% [markdown]
# With `switched(forward=1 / 4.24)` the same stack loses its signal. **Likeness**: one constant vector, added to all
# images, makes the digits alike and leaves their differences as they are.
#
# Three switches make eight networks, all plain, all of 16 blocks. Each is trained for 100 steps at three rates, and
# the best rate counts. The folded cells hold the runs: three seeds were computed with them and stored, and the last
# one computes a part of seed 0 anew.

# %% jupyter={"source_hidden": true}
from functools import partial

ROOT18 = math.sqrt(18)
common = torch.randn(64, generator=torch.Generator().manual_seed(0)).to(device)
common *= 4 / common.square().mean().sqrt()


def no_biases(f):
    nn.init.zeros_(f[0].bias), nn.init.zeros_(f[2].bias)


def he(f):
    """He's weights: variance 2/n after a ReLU and 1/n otherwise, biases 0."""
    nn.init.kaiming_normal_(f[0].weight, nonlinearity="linear")
    nn.init.kaiming_normal_(f[2].weight, nonlinearity="relu")
    no_biases(f)


def run(seed, wiring, start, rate=0.001, steps=100, depth=16, add=0.0, **more):
    """Train all blocks and the head, or the blocks `only`; return the share right."""
    stack = build(wiring, start, seed, depth)
    chosen = stack.blocks[more["only"]] if "only" in more else stack
    if more.get("head"):
        chosen = nn.ModuleList([chosen, stack.head])
    adam = torch.optim.Adam(chosen.parameters(), rate, eps=more.get("eps", 1e-8))
    train(stack, adam, train_x + add, train_y, steps)
    return round(accuracy(stack, test_x + add, test_y), 3)


# %% jupyter={"source_hidden": true}
def cosine(x):
    """Return the mean cosine between two different digits."""
    rows = F.normalize(x.detach().flatten(1))
    return ((rows @ rows.T).sum().item() - len(x)) / (len(x) * (len(x) - 1))


SWITCHES = {  # signal, gradient, digits apart: kept (+) or not (-)
    "---": (plain, None, 0.0),
    "-+-": (switched(1, ROOT18), None, 0.0),
    "--+": (switched(1 / ROOT18), rotation, 0.0),
    "-++": (switched(1 / ROOT18, ROOT18), rotation, 0.0),
    "+--": (switched(1, 1 / ROOT18), rotation, common),
    "++-": (plain, rotation, common),
    "+-+": (switched(1, 1 / ROOT18), rotation, 0.0),
    "+++": (plain, rotation, 0.0),
}
first, vanishing = {"only": slice(1)}, switched(1, 1 / ROOT18)
OTHERS = {
    "no biases": (plain, no_biases, {}),
    "gradient kept, 1000 steps": (switched(1, ROOT18), None, {"steps": 1000}),
    "as drawn, 2000 steps": (plain, None, {"steps": 2000}),
    "as drawn, eps 1e-30": (plain, None, {"eps": 1e-30}),
    "upper half": (vanishing, rotation, {"only": slice(8, 16), "head": True}),
    "first block": (plain, rotation, first),
    "first block, vanishing": (vanishing, rotation, first),
    "first block, vanishing, eps 1e-30": (vanishing, rotation, first | {"eps": 1e-30}),
}

# %% jupyter={"source_hidden": true}
for depth, steps in (2, 150), (4, 150), (8, 150), (8, 1500):
    OTHERS[f"depth {depth}, {steps} steps"] = (
        plain,
        None,
        {"depth": depth, "steps": steps},
    )
for depth in 16, 64:
    settings = {"depth": depth, "steps": 150, "rate": 0.0003}
    OTHERS[f"He, depth {depth}"] = plain, he, settings
FLOODS = {
    "x + f(x)": residual,
    "x + f(norm(x))": lambda x, f: x + f(F.layer_norm(x, (64,))),
    "x + f(x)/√L": lambda x, f: x + f(x) / 8,
}
for name, wiring in FLOODS.items():
    OTHERS[name] = wiring, he, {"steps": 60, "depth": 64}
OTHERS["x + f(x), PyTorch"] = residual, None, {"steps": 60, "depth": 64}


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.15, only=()):
    found = {}
    for name, (wiring, start, add) in SWITCHES.items():
        for rate in (0.0003, 0.001, 0.003):
            if not only or f"{name} {rate:g}" in only:
                found[f"{name} {rate:g}"] = run(seed, wiring, start, rate, add=add)
    for name, (wiring, start, settings) in OTHERS.items():
        if not only or name in only:
            found[name] = run(seed, wiring, start, **settings)
    return found


# %% tags=["trained"] jupyter={"source_hidden": true}
from residual_edu.lesson import stored_runs

stored = stored_runs("00_residual_connection")["runs"]
again = runs(0, only=("-+- 0.001", "first block"))
print("seed 0 anew: ", {name: f"{share:.0%}" for name, share in again.items()})
holds(
    max(abs(share - stored[0][name]) for name, share in again.items()) < 0.15,
    "The stored runs are those of this code.",
)


out = test_x
for f in build(plain).blocks:
    out = f(out)
print(
    f"mean cosine of two digits: {cosine(test_x):.2f}, after 16 plain blocks ", end=""
)
print(f"{cosine(out):.3f}, with the common vector {cosine(test_x + common):.2f}")


def row(name):
    """Return the shares of three seeds; for a row of switches, at its best rate."""
    keys = [key for key in stored[0] if name in (key, key.rsplit(" ", 1)[0])]
    seeds = [[stored[seed][key] for seed in range(3)] for key in keys]
    return max(seeds, key=sum)


def say(name, words):
    print(f"{words:52}", *[f"{share:4.0%}" for share in row(name)])


def choice(name):
    low, high = min(row(name)), max(row(name))
    return "under 15 %" if high < 0.15 else "over 80 %" if low > 0.8 else "15 to 50 %"


# %% [markdown]
# First the gradient. PyTorch's weights as before, and hooks that multiply the gradient by 4.24 in every block, so
# that it arrives at block 1 as large as it left the head.

# %% tags=["predict"]
guess = predict(
    "The gradient keeps its size. What share is right after 100 steps?",
    ["under 15 %", "15 to 50 %", "over 80 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
say("---", "as drawn")
say("-+-", "the gradient repaired")
holds(max(row("---")) < 0.15 < min(row("-+-")), "The repair helps a little.")
guess.reveal(
    choice("-+-"),
    why={
        "under 15 %": "That is the stack as drawn. With a gradient of full size every "
        "block learns.",
        "15 to 50 %": "Every block gets a gradient of full size. But what it passes on "
        "begins with differences of 10⁻¹⁰ at the head.",
        "over 80 %": "Every block gets a gradient of full size. But what it passes on "
        "still begins with differences of 10⁻¹⁰ at the head.",
    },
)

# %% [markdown]
# Next, likeness. Rotations keep the digits at a cosine of 0.48, in every block. The factor 1/4.24 makes signal and
# gradient shrink as before.

# %% tags=["predict"]
guess = predict(
    "Digits stay apart in angle; signal and gradient shrink. What share is right?",
    ["under 15 %", "15 to 50 %", "over 80 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
say("--+", "digits apart; signal and gradient shrink")
say("++-", "digits alike; signal and gradient kept")
holds(max(row("--+")) < 0.15 and min(row("++-")) > 0.8, "Likeness does not decide.")
guess.reveal(
    choice("--+"),
    why={
        "under 15 %": "All angles are kept, and yet it does as badly as the stack as "
        "drawn.",
        "15 to 50 %": "Angles are kept, but signal and gradient end at 10⁻¹⁰, as in "
        "the stack as drawn.",
        "over 80 %": "Angles are kept, but signal and gradient end at 10⁻¹⁰, as in "
        "the stack as drawn.",
    },
    after="The second row is the reverse: the common vector is added, and signal and "
    "gradient keep their size.",
)

# %% [markdown]
# And the reverse of the first: the signal keeps its size, and hooks divide the gradient by 4.24 in each block. At
# block 1 it is 10⁻¹⁰ of what it was at the head.

# %% tags=["predict"]
guess = predict(
    "Only the gradient vanishes. What share is right after 100 steps?",
    ["under 15 %", "15 to 50 %", "over 80 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
say("+-+", "only the gradient vanishes")
holds(min(row("+-+")) > 0.8, "A vanishing gradient alone does little harm here.")
guess.reveal(
    choice("+-+"),
    why={
        "under 15 %": "Block 1 gets next to nothing. But block 16 gets the whole "
        "gradient, and the signal that it receives is whole too.",
        "15 to 50 %": "Block 1 gets next to nothing. But block 16 gets the whole "
        "gradient, and the signal that it receives is whole too.",
        "over 80 %": "The signal reaches the upper blocks, and they get enough of the "
        "gradient to do the task. A control follows below.",
    },
)

# %% [markdown]
# All eight. A plus says that it is kept:

# %% tags=["trained"] jupyter={"source_hidden": true}
print("signal  gradient  digits apart   right after 100 steps")
for name in SWITCHES:
    marks = [mark.replace("-", "−") for mark in name]
    print("{:^6}  {:^8}  {:^12}  ".format(*marks), *[f"{s:4.0%}" for s in row(name)])
print()
say("gradient kept, 1000 steps", "gradient repaired (− + −), 1,000 steps")
say("as drawn, 2000 steps", "as drawn (− − −), 2,000 steps")
say("no biases", "as drawn, but with biases 0")
lost = [s for name in SWITCHES if name[0] == "-" for s in row(name)]
kept = [s for name in SWITCHES if name[0] == "+" for s in row(name)]
holds(max(lost) < 0.5 and min(kept) > 0.8, "The signal decides after 100 steps.")
holds(
    min(row("gradient kept, 1000 steps"))
    > 0.8
    > 0.15
    > max(row("as drawn, 2000 steps")),
    "With the gradient repaired it learns slowly, without it does not.",
)

# %% [markdown]
# No single word explains it:
#
# - **"The gradient vanishes."** Repaired alone, it gives 19 % after 100 steps. Lost alone, it does little harm.
# - **"All digits become alike."** Kept apart, they are not learned; made alike, they are.
# - **"The signal vanishes."** After 100 steps the first column decides. But with the signal lost and the gradient
#   repaired, 1,000 steps reach about 90 %.
#
# The plain stack loses both, signal and gradient. Give back the signal, and it trains at once; give back the
# gradient, and it trains slowly. (The last row answers another question: differences of 10⁻¹¹ beside an x of 0.06 are
# lost in the rounding of float32. Without biases there is no such x, and it is at chance all the same.)
#
# ### When a vanishing gradient is fatal
#
# In a stack of rotations, which blocks need a gradient? We let some of them learn and leave all others as they were
# drawn.

# %% tags=["trained"] jupyter={"source_hidden": true}
say("upper half", "blocks 9 to 16 and the head learn, it vanishes")
say("first block", "only block 1 learns, gradient kept")
say("first block, vanishing", "only block 1 learns, gradient vanishes")
say("first block, vanishing, eps 1e-30", "the same, Adam's eps 1e-30 for 1e-8")
say("as drawn, eps 1e-30", "as drawn (− − −), with this eps")
holds(
    max(row("first block, vanishing"))
    < 0.3
    < 0.8
    < min(row("first block") + row("upper half"))
    and min(row("first block, vanishing, eps 1e-30")) > 0.8,
    "It is fatal where only block 1 can help, through Adam's eps.",
)

# %% [markdown]
# The upper half does the task without the lower one. Where only block 1 can help, a vanishing gradient is fatal. But
# the fourth row shows through what: Adam divides a gradient by its usual size plus eps = 10⁻⁸, and at block 1 the
# gradient is about 10⁻¹⁰. With an eps far below that, block 1 learns as if nothing had vanished. For the stack as
# drawn, 100 steps with this eps do what the hooks did, and no more.
#
# ### Where plain stops
#
# All that was for 16 blocks and PyTorch's weights.

# %% tags=["trained"] jupyter={"source_hidden": true}
for depth in (4, 8):
    say(f"depth {depth}, 150 steps", f"PyTorch's weights, {depth} blocks, 150 steps")
say("depth 8, 1500 steps", "PyTorch's weights, 8 blocks, 1,500 steps")
say("as drawn, 2000 steps", "PyTorch's weights, 16 blocks, 2,000 steps")
say("He, depth 16", "He's weights, 16 blocks, 150 steps")
say("He, depth 64", "He's weights, 64 blocks, 150 steps")
holds(
    min(row("depth 8, 1500 steps")) > 0.85 and min(row("He, depth 16")) > 0.7,
    "8 blocks are slow, and He's weights move the limit.",
)

# %% [markdown]
# 8 blocks are slow, 16 stay at chance. **He's weights** ([He et al., 2015](https://arxiv.org/abs/1502.01852)) have a
# variance of 2/n after a ReLU and, here, 1/n otherwise, so that f(x) is on average as large as x. With them 16 plain
# blocks train, and 64 are far behind after as many steps. So "plain stacks cannot be trained" is wrong: the depth at
# which they stop depends on the weights at the start.
#
# **Law 1.** With PyTorch's weights a plain block of two layers divides what differs between inputs, and the gradient,
# by √18 = 4.24.
#
# ## What the sum changes
#
# Now x + f(x). The block's Jacobian is the identity plus that of f: **1 + J**.
#
# - A difference d becomes d + Jd. J is random, so Jd is on average perpendicular to d, and the squares add: the mean
#   square is multiplied by 1 + 1/18.
# - A gradient g becomes g + Jᵀg: the same factor. If f is constant, J = 0 and g comes through unchanged.
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
# **Law 2.** The Jacobian of x + f(x) is 1 + J. The 1 brings x and the gradient past f, whatever f does.
#
# In practice the connection has two more parts: a **norm** before f, which brings x to a fixed size, and a **gate** g
# after f, here dropout:
#
# $$x \leftarrow x + g \cdot f(\mathrm{norm}(x))$$
#
# Every topic of this course is a choice of one of these letters: the norm in lessons 02 and 06, f from lesson 07 on,
# g in 03, 05 and 06, and in 04 the place of the norm.
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
# ## One connection in eight steps
#
# Now with numbers. **Step 1**, the input: two sentences of three tokens. A token is the row of numbers that stands for
# one word; here it has four features. The first is 1, 2, 3, 4, and they go on counting to 24.
#
# **Step 2**, the norm: subtract a token's mean and divide by its standard deviation, with n − 1 = 3. (`nn.LayerNorm`
# divides by n; lesson 02 compares them.)

# %% jupyter={"source_hidden": true}
x = torch.arange(1.0, 25.0).view(2, 3, 4)
normed = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
print(normed.view(6, 4).unique(dim=0))

# %% [markdown]
# Six tokens go in, and the same row comes out for all of them: they differ in their means alone. The branch no longer
# knows where a token stands. The stream does.
#
# **Steps 3 to 5.** f has 8 hidden features. Its weights were drawn so that it returns the four numbers below for the
# first token (folded). Dropout at rate 0.1 sets each of them to 0 with probability 0.1 and divides the others by 0.9.
# Here none is dropped. Then x is added.

# %% jupyter={"source_hidden": true}
torch.manual_seed(0)
f = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
wanted = torch.tensor([0.0744, -0.3077, -0.0528, -0.0717])
f[2].bias.data += wanted - f(normed[0, 0]).detach()
branch = f(normed).detach()
print("Step 3, f(norm(x)):      ", branch[0, 0])
print("Step 4, divided by 0.9:  ", branch[0, 0] / 0.9)
print("Step 5, x + that:        ", x[0, 0] + branch[0, 0] / 0.9)
sums = torch.tensor([1.0827, 1.6581, 2.9413, 3.9203])
holds((x[0, 0] + branch[0, 0] / 0.9 - sums).abs().max() < 1e-4, "The sums are right.")

# %% [markdown]
# If dropout takes the third number of the branch, only x is left there:

# %% tags=["figure"]
from residual_edu.plotting import residual_connection as draw

coins = torch.tensor([1.0, 1, 0, 1])
hidden = f[:2](normed[0, 0]).detach()
stages = x[0, 0], normed[0, 0], hidden, branch[0, 0], branch[0, 0] / 0.9 * coins
fig = Figure(figsize=(6, 4.6))
ax = draw.plot_connection(*[stage.tolist() for stage in stages], fig.add_subplot())
ax.set_title("The branch adds to x, and may fail")
show(
    fig,
    alt="Four numbers cross the picture in a straight stream. Below it a branch "
    "normalises them, sends them through f and a gate, and adds: 1 becomes 1.08, 2 "
    "becomes 1.66. The third is dropped, and 3 stays 3.",
)

# %% [markdown]
# **Step 6**, the whole as a class. f is an argument, so its weights are not among those of the connection.


# %%
class Connection(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        norm = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
        return x + self.dropout(sublayer(norm))


connection = Connection(dropout=0.1).eval()  # eval() switches dropout off
print(connection(x, f)[0, 0].detach(), "=", (x[0, 0] + branch[0, 0]))

# %% [markdown]
# **Step 7**, the gradient. For a random token and another f, `out.sum().backward()` gave
# the token's four features the gradients 0.8409, 0.8771, 0.7823 and 1.4997.

# %% tags=["predict"]
guess = predict(
    "Another token, other weights, 64 connections in a row: what do the four sum to?",
    ["anything", "exactly 4", "4 · 64", "4 · 2⁶⁴"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
print(f"above: {0.8409 + 0.8771 + 0.7823 + 1.4997:.4f}")
sums = []
for seed in range(3):
    torch.manual_seed(seed)
    leaf = torch.randn(4).double().requires_grad_()
    out = leaf
    for _ in range(64):
        sublayer = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).double()
        out = connection(out, sublayer)
    (gradient,) = torch.autograd.grad(out.sum(), leaf)
    sums.append(gradient.sum().item())
    print(f"seed {seed}:", gradient.numpy().round(2), f"sum {sums[-1]:.4f}")
exact = max(abs(one - 4) for one in sums) < 1e-6
guess.reveal(
    "exactly 4" if exact else "4 · 64" if min(sums) > 200 else "anything",
    why={
        "anything": "Each single gradient does depend on the weights.",
        "exactly 4": "Add c to all four features. The norm removes c, no branch moves, "
        "and each of the four outputs moves by c. Their sum moves by 4c, at any depth.",
        "4 · 64": "The connections follow one another; each passes a shift on.",
        "4 · 2⁶⁴": "A shift of x does not change any branch, because of the norm. "
        "Nothing is there to double it.",
    },
)

# %% [markdown]
# **Step 8**, with and without the skip. Without it, the row is the same six times; with it, the tokens are still six.

# %% jupyter={"source_hidden": true}
print(f"without the skip: {branch.min():.4f} to {branch.max():.4f}")
print(f"with it: {(x + branch).min():.4f} to {(x + branch).max():.4f}")

# %% [markdown]
# ## A flood
#
# PyTorch's branches are small: f(x) is a quarter of x. He's weights make f(x) as large as x, which saved the plain
# stack of 16 blocks. Use them in a residual stack of 64.

# %% tags=["predict"]
guess = predict(
    "How large is x after 64 blocks x + f(x) with He's weights? (It starts at 1.)",
    ["about 1", "about 8", "about 64", "over a million"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
floods = {n: [along(w, he, s, 64) for s in range(3)] for n, w in FLOODS.items()}
ends = [found[0][-1] for found in floods["x + f(x)"]]
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
# In the equation x + g · f(norm(x)), two letters can hold the flood.
#
# - **The norm.** f receives norm(x), of size 1, so each block adds 1 to the mean square: after L blocks it is 1 + L,
#   and the size is √(1 + L). For 64 blocks that is 8.1.
# - **The gate.** With g = 1/√L each block multiplies the mean square by 1 + 1/L. Over L blocks that is nearly e at
#   any depth, and the size √e = 1.65.

# %% tags=["figure"]
k = torch.arange(65)
laws = {"x + f(x)": 2 ** (k / 2), "x + f(norm(x))": (1 + k).sqrt()}
laws["x + f(x)/√L"] = (65 / 64) ** (k / 2)
fig = Figure(figsize=(6, 3.8))
left, right_ax = fig.subplots(1, 2, sharey=True)
forward = {name: [one[0] for one in found] for name, found in floods.items()}
back = {name: [one[2] for one in found] for name, found in floods.items()}
plots.plot_along(forward, laws, left).set_title("size of x", weight="normal")
gradient_laws = {name: law[-1] / law for name, law in laws.items()}
plots.plot_along(back, gradient_laws, right_ax)
right_ax.set_title("gradient, from the end", weight="normal")
places = {"x + f(x)": (5, 1e7), "x + f(norm(x))": (22, 35), "x + f(x)/√L": (20, 0.25)}
plots.label_along(left, places)
left.set(ylim=(0.1, 1e11))
fig.suptitle("Two letters hold the flood (thin: paper)", weight="bold")
alt = "Size of x, and of the gradient, along 64 blocks with He's weights, three seeds. "
alt += "x + f(x) grows to 4e9 along its law, a norm keeps it at 8, a gate at 1.6."
show(fig, alt=alt)
for name, law in laws.items():
    for sizes in (forward[name], [one[::-1] for one in back[name]]):
        near = [abs(math.log(one[-1] / law[-1])) < 2 for one in sizes]
        holds(all(near), "The sizes end near their laws.")

# %% tags=["trained"] jupyter={"source_hidden": true}
for name in FLOODS:
    say(name, f"He's weights, {name}, 60 steps")
say("x + f(x), PyTorch", "PyTorch's weights, x + f(x), 60 steps")
print()
for start, words in ((he, "He's weights"), (None, "PyTorch's weights")):
    for name, wiring in FLOODS.items():
        stream, _, gradient = along(wiring, start, 0, 64)
        size = f"x {stream[-1] / stream[0]:9.3g}, gradient {gradient[0]:9.3g}"
        print(f"{words:18} {name:15} {size}")
holds(
    max(row("x + f(x)")) < 0.4 < 0.85 < min(row("x + f(norm(x))") + row("x + f(x)/√L")),
    "The flood does not train, the repaired ones do.",
)

# %% [markdown]
# For the gradient, √(1 + L) has a reason of its own. After l blocks the norm divides by √(1+l), and so does the way
# back through it. So the branch multiplies the mean square of the gradient by 1/(1+l), and the whole block by
# 1 + 1/(1+l) = (l+2)/(l+1). The product of all of them is 1 + L.
#
# **Law 3.** With branches as large as their input, x and the gradient grow by 2^(L/2) for x + f(x), by √(1 + L) with
# a norm before f, and by at most √e with a gate of 1/√L. It ends where branches are smaller: with PyTorch's weights x
# + f(x) grows by (19/18)³² = 5.6 alone, and trains without any repair.
#
# The [appendix](00_residual_connection_more.ipynb) has an explorer: find the largest gate that holds for any depth.
#
# ## In a trained network
#
# Back to the residual networks of the opening, trained to 97 or 98 %. Delete one of the 16 blocks, and test what is
# left without any further training. `parts` (folded) does so with each block, and also lets the head read after the
# first 0, 1, 2, ... blocks.


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


# %% tags=["predict"]
guess = predict(
    "A trained residual network loses one of 16 blocks. How much is lost at worst?",
    ["under 5 %", "about 1/16", "nearly all"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
found = {"residual": [parts(stack) for stack, _ in nets["x + f(x)"]]}
losses = [max(cut[-1] - one for one in gone) for cut, gone in found["residual"]]
print("the worst block of each seed costs", *[f"{one:.1%}" for one in losses])
worst = max(losses)
holds(worst < 0.05, "No single block is needed.")
guess.reveal(
    "under 5 %" if worst < 0.05 else "about 1/16" if worst < 0.12 else "nearly all",
    why={
        "under 5 %": "The blocks above still find what they need in the stream. Why "
        "they do, the control below tells.",
        "about 1/16": "That would be a fair share if the blocks did separate parts of "
        "the task.",
        "nearly all": "That would be so if the blocks above could not use the input of "
        "the missing block in place of its output.",
    },
)

# %% [markdown]
# [Veit, Wilber and Belongie (2016)](https://arxiv.org/abs/1605.06431) found this in large image networks. The usual
# explanation is the sum: x passes the missing block by its skip. For a control we need plain stacks that train as
# well. One has blocks that begin as rotations. In the other they begin as the **identity**: `rotation(f, back=True)`
# turns x and turns it back. And the reverse: a residual stack with a sum that begins as a rotation. The folded cell
# trains all three, with three seeds.


# %% jupyter={"source_hidden": true}
def to_rotation(f):
    """Let x + f(x) begin as a rotation Q: f multiplies x by Q - 1."""
    A, Q = (nn.init.orthogonal_(torch.empty(64, 64)) for _ in range(2))
    B = (Q - torch.eye(64)) @ A.T
    f[0].weight.data, f[2].weight.data = torch.cat([A, -A]), torch.cat([B, -B], dim=1)
    no_biases(f)


for name, wiring, start in (
    ("residual, from rotation", residual, to_rotation),
    ("plain, from rotation", plain, rotation),
    ("plain, from identity", plain, partial(rotation, back=True)),
):
    stacks = [trained(wiring, start, 0.0003, s, steps=100)[0] for s in range(3)]
    found[name] = [parts(stack) for stack in stacks]

# %% tags=["predict"]
guess = predict(
    "The plain stack from the identity loses its worst block. How much is right?",
    ["over 90 %", "30 to 90 %", "under 30 %"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
cut, gone = ({n: [s[i] for s in seeds] for n, seeds in found.items()} for i in (0, 1))
for name in found:
    print(f"{name:24} whole", *[f"{one[-1]:4.0%}" for one in cut[name]], end="")
    print("   without its worst block", *[f"{min(one):4.0%}" for one in gone[name]])
fig = Figure(figsize=(6, 3.8))
plots.plot_parts(cut, gone, fig)
fig.suptitle("Where the blocks begin decides, not the sum", weight="bold")
alt = "Share right, left with few blocks, right without one: high from the identity, "
show(fig, alt=alt + "chance from rotations, with a sum or without.")
turned = [min(one) for name in gone for one in gone[name] if "rotation" in name]
low = min(min(one) for one in gone["plain, from identity"])
holds(max(turned) < 0.4 < 0.9 < low, "The start decides.")
guess.reveal(
    "over 90 %" if low > 0.9 else "30 to 90 %" if low > 0.3 else "under 30 %",
    why={
        "over 90 %": "There is no skip and no sum. But its blocks began as the "
        "identity, as x + f(x) with a small f does.",
        "30 to 90 %": "Its blocks began as the identity, as x + f(x) with a small f "
        "does. The sum is not needed.",
        "under 30 %": "So it is for the two that begin as rotations: the blocks above "
        "then get x in other coordinates than they learned with.",
    },
    after="The sum alone does not do it either: x + f(x) that begins as a rotation "
    "falls as the plain one does.",
)

# %% [markdown]
# The left half shows the same in another way: where the blocks begin as the identity, the head can read half-way.
#
# **Law 4.** After a short training, one block can be deleted, and the head reads half-way, if the blocks began **near
# the identity**. A skip with small branches begins there.
#
# ## A network that does not train
#
# A colleague wants blocks that may change the width later, and so has put a linear layer on the skip. All weights are
# He's. 64 blocks, 60 steps:


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
# ### Exercise 3 · 15 minutes · ●●●●○
#
# One of our laws names one cause; there is a second.
#
# 1. **Measure** what passes through the untrained network: sizes, and what differs between digits.
# 2. **Name** the law that it breaks. Repair that, train, and measure again.
# 3. **Repair** it in any way: `repaired(depth)` returns a network from 64 numbers to 10 outputs with `depth` blocks
#    that all learn. The check trains it as above, with three seeds and depths, and wants 85 % right.
#
# <details><summary>Hint 1</summary>`along` measures along a stack. Two things are worth following here: the rms of x,
# and how far apart two digits are.</details>
# <details><summary>Hint 2</summary>Repair the sizes first, and train: it is better, and not enough. Then send the
# digits through the 64 shortcuts alone, without any f. How many of the 64 directions in which they differ are
# left?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "repair-the-flood", "locked": false, "schema_version": 3, "solution": true, "task": false}
def repaired(depth):
    """Return a network of `depth` blocks that learns; its weights are drawn here."""

    ### BEGIN SOLUTION
    # Law 3: branches as large as x flood the stream, so f receives norm(x). And 64
    # random matrices one after another leave little of x even where they keep its size:
    # the skip must be x itself, or begin as the identity.
    class Repaired(Block):
        def forward(self, x):
            return x + self.f(F.layer_norm(x, x.shape[-1:]))

    return nn.Sequential(*[Repaired() for _ in range(depth)], nn.Linear(64, 10))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-the-flood-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(repaired, "repaired_flood")

# %% [markdown]
# The [appendix](00_residual_connection_more.ipynb) switches its two causes off one at a time.
#
# ## Summary
#
# The folded cells hold the finished `LayerNormalization`, `SimpleFeedForward` and `ResidualConnection`. A first
# reader may skip them.


# %% tags=["promote:parts/layer_norm"] jupyter={"source_hidden": true}
import torch
from torch import nn


class LayerNormalization(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.alpha = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        # x: ..., channels
        mean = x.mean(dim=-1, keepdim=True)
        std = x.std(dim=-1, keepdim=True)
        return self.alpha * (x - mean) / (std + self.eps) + self.bias


# %% tags=["promote:parts/mlp"] jupyter={"source_hidden": true}
import torch
from torch import nn


class SimpleFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        # x: ..., channels
        return self.linear2(torch.relu(self.linear1(x)))


# %% tags=["promote:parts/residual"] jupyter={"source_hidden": true}
from torch import nn

from residual_edu.parts.residual import post_norm_residual, pre_norm_residual


class ResidualConnection(nn.Module):
    def __init__(self, features, dropout, placement="pre"):
        super().__init__()
        self.placement = placement
        self.dropout = nn.Dropout(dropout)
        self.norm = LayerNormalization(features)

    def forward(self, x, sublayer):
        # x: ..., channels
        residual = pre_norm_residual if self.placement == "pre" else post_norm_residual
        return residual(x, sublayer, self.norm, [self.dropout])


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. A plain block with PyTorch's weights divides differences, and the gradient, by √18 = 4.24 | at the start of training; other weights, other factors |
# | 2. The Jacobian of x + f(x) is 1 + J: x and the gradient come past f | any f; only the skip must be x itself |
# | 3. Branches as large as their input: 2^(L/2) for x + f(x), √(1 + L) with a norm, √e at most with g = 1/√L | at the start of training; PyTorch's branches are a quarter as large |
# | 4. Blocks that began near the identity: one may be deleted, and the head reads half-way | measured after 100 and 150 steps |
#
# So why does a plain stack of 16 blocks not learn? With PyTorch's weights it loses the signal and the gradient, both
# by the same factor. x + f(x) keeps both. What it does not do by itself is to keep x small.

# %%
summary("00")

# %% [markdown]
# ## Next
#
# - [Lesson 01](01_gradient_flow.ipynb) measures signal and gradient at every place of such a stack.
# - [Homework for lessons 00 and 01](homework/hw_00_01.ipynb), once you have done lesson 01.
# - [The appendix](00_residual_connection_more.ipynb): the explorer, post-norm, a gate, the causes of exercise 3.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
