# %% [markdown]
# # 07b · Conditions and whole networks
#
# 80 minutes. Nothing is downloaded. It follows [lesson 06](06_adaln_zero.ipynb), of which it uses AdaLN, and [lesson 07a](07a_residual_block.ipynb), the residual block. Of
# [lesson 02](02_layer_norm.ipynb) it uses what a norm does to four numbers.
#
# By the end you can
#
# - **measure** whether a network uses a label, and **find** where the label's gradient ends;
# - **compute** on paper which part of a label's vector passes a group norm;
# - **mend** a network that ignores its label, where one measurement is not enough;
# - **remove** branches of a trained network, and say what that shows and what it does not.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, predict, progress, setup, show, summary
from residual_course.plots import conditions as plots
from residual_course.plots.adaln_zero import plot_digits

device = setup()
progress("07b")

# %% [markdown]
# ## Ten labels, one picture
#
# A network completes handwritten digits: it receives the upper half of a picture (8 × 8 pixels), and a label that says which digit it is.

# %% tags=["figure"]
data = digits()
pictures, new = (2 * x[:, None].to(device) - 1 for x in data[::2])  # paper -1, ink 1
labels, truth = (y.to(device) for y in data[1::2])


def upper(x):
    return torch.cat([x[:, :, :4], torch.zeros_like(x[:, :, 4:])], dim=2)


def loss_of(model, x, label):
    return (model(upper(x), label) - x)[:, :, 4:].square().mean()


shown = torch.stack([new[truth == digit][0] for digit in (3, 5, 9)])
sheet = torch.stack([shown, upper(shown)])[:, :, 0].cpu()
ax = Figure(figsize=(6, 2.2)).add_subplot()
plot_digits(sheet, ax, ["a digit", "received"], ["label 3", "label 5", "label 9"])
ax.figure.suptitle("What it receives", x=0.01, ha="left", weight="bold")
alt = "A handwritten 3, 5 and 9; below each its upper half, the rest grey."
show(ax.figure, alt=alt)

# %% [markdown]
# Its two blocks are those of the networks that draw pictures (U-Nets): norm, SiLU, convolution, then *the label's vector is added to every pixel*, and norm, SiLU, convolution. `GroupNorm(g, channels)` divides the channels of a picture into g groups, and takes one mean and one spread for each group, over its channels and all pixels. In
# [openai/improved-diffusion](https://github.com/openai/improved-diffusion/blob/main/improved_diffusion/unet.py) it is
# [`GroupNorm(32, channels)`](https://github.com/openai/improved-diffusion/blob/main/improved_diffusion/nn.py), whatever the number of channels. Ours has 32 channels, to train on a laptop.


# %%
class Block(nn.Module):
    def __init__(self, groups=32, width=32, vectors=1):
        super().__init__()
        self.norm1, self.norm2 = (nn.GroupNorm(groups, width) for _ in range(2))
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.vector = nn.Linear(width, vectors * width)

    def forward(self, x, label):
        h = self.conv1(F.silu(self.norm1(x)))
        vector = self.vector(F.silu(label))  # (batch, channels)
        h = h + vector[:, :, None, None]  # the same for all pixels of a channel
        return x + self.conv2(F.silu(self.norm2(h)))


# %% [markdown]
# (Folded: the network around two such blocks, and the training. A table holds a vector for each label. After the blocks follow a last norm, of 8 groups, SiLU, and a convolution. Adam trains for 300 steps of 32 digits; the loss is the mean squared error of the lower half.)


# %% jupyter={"source_hidden": true}
class Completer(nn.Module):
    def __init__(self, block=Block, width=32, last=8, **sizes):
        super().__init__()
        self.table = nn.Embedding(11, width)  # the label 10 stands for any digit
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(block(width=width, **sizes) for _ in range(2))
        self.norm, self.last = (
            nn.GroupNorm(last, width),
            nn.Conv2d(width, 1, 3, padding=1),
        )
        self.change = lambda vectors: vectors

    def forward(self, x, label):
        x, label = self.first(x), self.change(self.table(label))
        for block in self.blocks:
            x = block(x, label)
        return self.last(F.silu(self.norm(x)))


def fresh(seed, kind=Completer, **sizes):
    torch.manual_seed(seed)
    return kind(**sizes).to(device)


# %% jupyter={"source_hidden": true}
def train(model, seed, steps=300, rate=0.003, size=32, hidden=0.0, frozen=(), **more):
    generator, losses = torch.Generator().manual_seed(seed), []
    chosen = [p for name, p in model.named_parameters() if name not in frozen]
    optimizer = torch.optim.Adam(chosen, rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(pictures), (size,), generator=generator).to(device)
        hide = (torch.rand(size, generator=generator) < hidden).to(device)
        label = labels[rows].masked_fill(hide, 10)
        loss = more.get("loss", loss_of)(model, pictures[rows], label)
        model.zero_grad()
        loss.backward()
        if "watch" in more:
            more["watch"](model)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


# %% tags=["figure", "trained"]
@torch.no_grad()
def ten_labels(model):
    """Return each shown upper half, completed with the labels 0 to 9."""
    made = [model(upper(shown), torch.full_like(truth[:3], k)) for k in range(10)]
    lower = torch.stack(made, dim=1)[:, :, 0, 4:]
    return torch.cat([shown[:, :, :4].expand(-1, 10, -1, -1), lower], dim=2).cpu()


sick = fresh(0)
losses = train(sick, 0)
fig = Figure(figsize=(6, 4.4))
above, below = fig.subplots(2, 1, height_ratios=[1, 1.5])
above.plot(losses, color="#222222", lw=1)
above.set(xlabel="step", ylabel="training loss", ylim=(0, 1))
above.set_title("The loss falls")
rows = ["a 3", "a 5", "a 9"]
plot_digits(ten_labels(sick), below, rows, list("0123456789"))
below.set_title("the lower half, for the label 0 to 9")
alt = (
    "Above, the training loss falls from 0.94 to about 0.12 in 300 steps. Below, three "
)
alt += "upper halves of digits, each completed with ten labels: in each row all ten "
show(fig, alt=alt + "pictures are the same.")
print(f"training loss at first {losses[0]:.2f}, last 50 {sum(losses[-50:]) / 50:.3f}")
holds(sum(losses[-50:]) / 50 < 0.2, "The loss falls.")

# %% [markdown]
# Nothing warns, and the loss falls. But in each row ten labels give one picture.
#
# ## The swap test
#
# Three lines measure what a label does: give the network wrong ones. Does the loss grow?
#
# ### Exercise 1 · 8 minutes · ●●○○○
#
# `loss(labels)` returns the test loss where sample i is told `labels[i]`; `labels` are the right ones, from 0 to 9. Return what **a wrong label adds**: the mean loss over all nine
# wrong labels of each sample, less the loss with the right one.
#
# <details><summary>Hint 1</summary>How do you change all labels at once so that each becomes a wrong one?</details>
# <details><summary>Hint 2</summary>For k from 1 to 9, <code>(labels + k) % 10</code> is wrong for every sample.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "wrong-label-adds", "locked": false, "schema_version": 3, "solution": true, "task": false}
def wrong_label_adds(loss, labels):
    """Return the mean loss of the nine wrong labels, less the loss of the right one."""
    ### BEGIN SOLUTION
    wrong = [loss((labels + k) % 10) for k in range(1, 10)]
    return sum(wrong) / 9 - loss(labels)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "wrong-label-adds-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(wrong_label_adds, "wrong_label_adds")

# %% [markdown]
# Our network, by a folded copy of the test (a solution: open it afterwards):


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def swap_test(model):
    """Return the test loss with right labels, and what a wrong label adds."""
    right = loss_of(model, new, truth).item()
    wrong = [loss_of(model, new, (truth + k) % 10).item() for k in range(1, 10)]
    return right, sum(wrong) / 9 - right


# %% tags=["trained"] jupyter={"source_hidden": true}
right, added = swap_test(sick)
print(f"this network: test loss {right:.3f}, a wrong label adds {abs(added):.4f}")
holds(abs(added) < 1e-5, "A wrong label adds nothing.")

# %% [markdown]
# ### Is its vector too small?
#
# Perhaps it is. In both blocks we take its **share**: its rms, the root of the mean square, over that of the sum h + vector, which the second norm receives. (Folded: forward hooks read them, functions that a layer calls with its output; what they return takes its place. And how stored runs are read: their code stands at the end.)


# %% jupyter={"source_hidden": true}
from residual_course.lesson import stored_runs

stored = stored_runs("07b_conditions_and_networks")["runs"]


def row(name):
    """Return a stored number for three seeds."""
    return [stored[seed][name] for seed in range(3)]


def three(name, digits=3):
    return "  ".join(f"{round(one, digits) + 0:.{digits}f}" for one in row(name))


# %% jupyter={"source_hidden": true}
def rms(x):
    return x.square().mean().sqrt().item()


@torch.no_grad()
def shares(model):
    """Return the share of the label's vector in h + vector, in each block."""
    seen, hooks = [], []
    for block in model.blocks:
        hooks.append(block.conv1.register_forward_hook(lambda m, i, h: seen.append(h)))
        hooks.append(block.vector.register_forward_hook(lambda m, i, v: seen.append(v)))
    loss_of(model, new, truth)
    for hook in hooks:
        hook.remove()
    pairs = zip(seen[::2], seen[1::2], strict=True)
    return [rms(v) / rms(h + v[:, :, None, None]) for h, v in pairs]


# %% tags=["trained"] jupyter={"source_hidden": true}
print("the vector's share:", *[f"{one:.2f}" for one in shares(sick)])
holds(min(shares(sick)) > 0.3, "The vector is a good part of what the norm receives.")

# %% tags=["predict"]
guess = predict(
    "The trained network, its vectors now set to 0: the test loss",
    ["stays as it is", "grows by a tenth", "about doubles"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
with torch.no_grad():
    hooks = [b.vector.register_forward_hook(lambda m, i, o: 0 * o) for b in sick.blocks]
    alone = loss_of(sick, new, truth).item()
    for hook in hooks:
        hook.remove()
print(f"test loss with the vectors {right:.6f}, without them {alone:.6f}")
holds(abs(alone - right) < 1e-5, "Without its vectors the network does the same.")
CHOICES = {0: "stays as it is", 0.1: "grows by a tenth", 1: "about doubles"}
guess.reveal(
    CHOICES[min(CHOICES, key=lambda grown: abs(alone / right - 1 - grown))],
    why={
        "stays as it is": "No part of the vector reaches the output, not even what all "
        "labels have in common.",
        "grows by a tenth": "Layers after it could rely on a part that all labels "
        "share. They would, if it reached them.",
        "about doubles": "The vector is nearly as large as h. But the next layer "
        "decides whether it matters.",
    },
    after="So a large share does not show that a vector matters.",
)

# %% [markdown]
# Beside it a network that knows no label: it gets 0 for every digit, in training and test. Three seeds, stored:

# %% tags=["trained"] jupyter={"source_hidden": true}
print("test loss, three seeds")
for name, label in {"groups 32": "this network", "no label": "always label 0"}.items():
    print(f"  {label:16}", three(f"{name}: loss"))
gaps = [
    a - b for a, b in zip(row("groups 32: loss"), row("no label: loss"), strict=True)
]
holds(max(map(abs, gaps)) < 0.01, "It does as well as a network without labels.")

# %% [markdown]
# The same loss. So follow the gradient back from the loss, in a new network, to the places in block 1 that the label's vector goes through. Beside it, 8 groups instead of 32:

# %% tags=["figure"]
PLACES = "norm's\noutput", "h", "vector", "label's\ntable"


def way_back(groups):
    """Return the size of the gradient at PLACES, in block 1 of a new network."""
    model, seen = fresh(0, groups=groups), {}
    block = model.blocks[0]
    for layer in (block.norm2, block.conv1, block.vector):
        layer.register_forward_hook(lambda m, i, out: seen.update({m: out}))
    loss = loss_of(model, pictures[:64], labels[:64])
    found = torch.autograd.grad(loss, [*seen.values(), model.table.weight])
    conv, vector, norm, table = (one.norm().item() for one in found)
    return norm, conv, vector, table


backward = {f"{groups} groups": way_back(groups) for groups in (32, 8)}
ax = plots.plot_way_back(PLACES, backward, Figure(figsize=(6, 3.6)).add_subplot())
ax.set_title("From h to the vector it falls to rounding errors")
alt = (
    "Gradient at four places on the way back, logarithmic. With 8 groups all are near "
)
alt += "0.01. With 32 groups the norm's output and h are as large, the vector and the "
show(ax.figure, alt=alt + "table are some 7 orders of magnitude smaller.")
ends = [line[2] / line[1] for line in backward.values()]
print("vector's gradient / h's:", *[f"{one:.0e}" for one in ends])
holds(ends[0] < 1e-5 < 1e-2 < ends[1], "With 32 groups the gradient ends at the sum.")

# %% [markdown]
# h receives a gradient, and the vector that is added to it does not. Why? With 32 groups for 32 channels, each channel is normed by itself, over its pixels. Take a channel of four
# pixels, h = [0, 0, 0, 4], and a label that adds 5:
#
# |  | mean | less the mean |
# |---|---|---|
# | 0, 0, 0, 4 | 1 | −1, −1, −1, 3 |
# | 5, 5, 5, 9 | 6 | −1, −1, −1, 3 |
#
# The norm subtracts the mean, and with it all that the label added. **norm(h + c) = norm(h)** for every number c and every picture (up to rounding), so the derivative of the loss by c is 0.
# It is also the sum of the gradients of all pixels of h, since c is added to each: one pixel's gradient is not 0, and together they cancel.
# (The 1e-9 in the figure is rounding: compare a gradient with others, never with 0.)
#
# **Law 1.** A number that is added to all pixels of a channel does not pass a norm that subtracts this channel's mean over these pixels. If nothing stands between, and the sum reaches the output through that norm alone, no output depends on the number, and its gradient is 0. (In the order convolution, norm, SiLU, vector, convolution, norm, a convolution with zero padding stands between: it lets the number pass at the border.)
#
# ### What passes a group?
#
# With fewer groups, a group is several channels, and the norm subtracts one mean for all of them. Which part of a label's vector passes then?
#
# ### Exercise 2 · 7 minutes · ●●●○○
#
# `vector` (batch, channels) is added to all pixels of h before `GroupNorm(groups, channels)`. Return the part of it that matters, (batch, channels): the norm of h + part is the norm
# of h + vector for every h, and the part is as small as it can be (the sum of its squares). A group is channels / groups channels that stand next to each other.
#
# <details><summary>Hint 1</summary>Two channels in one group, to which 3 and 5 are added. Which mean does the norm subtract, and what is left?</details>
# <details><summary>Hint 2</summary><code>vector.unflatten(1, (groups, -1))</code> puts the channels of a group on an axis of their own.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "what-passes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def what_passes(vector, groups):
    """Return the part of the vector that can change the norm's output."""
    ### BEGIN SOLUTION
    grouped = vector.unflatten(1, (groups, -1))
    return (grouped - grouped.mean(dim=-1, keepdim=True)).flatten(1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "what-passes-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(what_passes, "what_passes")

# %% [markdown]
# <details><summary>How many numbers pass, once you have solved it</summary>Each group costs one. Of 32, 16 pass <code>GroupNorm(16, 32)</code>, 24 pass 8 groups, 31 a single group.</details>
#
# How many does a network need? Its norms with other groups, or 64 channels; its second norm a `BatchNorm2d`, or one that divides a channel by its rms and subtracts nothing:

# %% tags=["figure", "trained"]
NORMS = {f"{n} groups of 32 channels": f"groups {n}" for n in (32, 16, 8)}
NORMS["1 group of 32 channels"] = "groups 1"
NORMS |= {"32 groups of 64 channels": "64 channels", "BatchNorm2d": "BatchNorm2d"}
NORMS["rms, no mean"] = "rms of a channel"
ADDS = {label: row(f"{name}: adds") for label, name in NORMS.items()}
ax = plots.plot_rows(ADDS, Figure(figsize=(6, 3.4)).add_subplot())
ax.set_xlabel("a wrong label adds to the test loss")
ax.set_title("Of seven norms one removes the label")
alt = "Dots of three seeds: 0 for 32 groups of 32 channels, and 0.22 to 0.26 for six "
show(ax.figure, alt=alt + "other norms.")
none, *others = ADDS.values()
holds(max(map(abs, none)) < 1e-5 < 0.1 < min(map(min, others)), "One of seven does.")
holds(min(others[0]) > 0.8 * max(others[2]), "16 groups are enough.")

# %% tags=["predict"]
guess = predict(
    "BatchNorm2d in train mode, one batch of 3s: all told 3, or all told another label",
    ["the same loss", "the wrong one costs"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
@torch.no_grad()
def told_one(model):
    """Return what a wrong label adds in a batch of 3s that are told one label."""
    x, told = new[truth == 3], truth[truth == 3]
    found = [loss_of(model, x, (told + k) % 10).item() for k in range(10)]
    return sum(found[1:]) / 9 - found[0]


one = fresh(0)
for block in one.blocks:
    block.norm2 = nn.BatchNorm2d(32).to(device)
train(one, 0)
evaluated, trained = told_one(one.eval()), told_one(one.train())
print(f"a batch of 3s, train mode: a wrong label adds {abs(trained):.4f}")
print(f"a batch of 3s, eval():     a wrong label adds {evaluated:.4f}")
holds(abs(trained) < 1e-5 < 0.05 < evaluated, "One label in train mode is removed.")
guess.reveal(
    "the same loss" if abs(trained) < 1e-5 else "the wrong one costs",
    why={
        "the same loss": "A vector that the whole batch shares is in the mean that the "
        "norm subtracts.",
        "the wrong one costs": "It does in eval(), or where a batch mixes labels.",
    },
    after="So test in eval().",
)

# %% [markdown]
# With 16 numbers a wrong label costs nearly as much as with 31 (the size of the groups changed too). With 64 channels, 32 groups are pairs, so with 64 channels this block works. `BatchNorm2d` in train mode subtracts a channel's mean over all pictures of a batch: labels pass while the batch mixes them; `eval()` takes a mean kept from the training.
#
# ## Around the norm
#
# A skip leads around both norms of a block, to the last norm of the network. So let us add the vector to the stream: x = x + vector, before `norm1`. (Folded: such a block.)


# %% jupyter={"source_hidden": true}
class OnStream(Block):
    def forward(self, x, label):
        x = x + self.vector(F.silu(label))[:, :, None, None]
        h = self.conv1(F.silu(self.norm1(x)))
        return x + self.conv2(F.silu(self.norm2(h)))


# %% tags=["predict"]
guess = predict(
    "On the stream: of how many groups may the last norm be, for the label to count?",
    ["8 alone", "32 alone", "either", "neither"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
LAST = {f"stream, last norm {n}": row(f"stream, last {n}: adds") for n in (8, 32)}
LAST["before norm2, last 32"] = row("branch, last 32: adds")
ax = plots.plot_rows(LAST, Figure(figsize=(6, 2.4)).add_subplot())
ax.set_xlabel("a wrong label adds to the test loss")
ax.set_title("A last norm of 32 groups ends it too")
alt = "Dots of three seeds. Vector on the stream: about 0.18 with a last norm of 8 "
alt += "groups, 0 with 32. Before norm2 of blocks with 8 groups, last norm 32: 0.25."
show(ax.figure, alt=alt)
train(one := fresh(0, block=OnStream, last=32), 0)
print(f"this network, stream, last norm 32: adds {abs(swap_test(one)[1]):.4f}")
passed = tuple(max(map(abs, LAST[f"stream, last norm {n}"])) > 1e-5 for n in (8, 32))
holds(passed == (True, False), "A last norm of 32 groups ends it.")
named = {(True, False): "8 alone", (False, True): "32 alone", (True, True): "either"}
guess.reveal(
    named.get(passed, "neither"),
    why={
        "8 alone": "Of groups of four channels 24 of 32 numbers can pass.",
        "32 alone": "There each channel's mean is removed at the very end.",
        "either": "The skip does not lead around the last norm.",
        "neither": "On the skip stands no norm, up to the last.",
    },
    after="Third row: from *inside* a branch of 8 groups the label passes a last norm "
    "of 32: after SiLU and convolution it is not the same for all pixels.",
)

# %% [markdown]
# ## Two mends
#
# Fewer groups are one mend. The other keeps 32 groups and lets the label act *after* the norm, by a scale and a shift for each channel. You know it from lesson 06: AdaLN. In
# improved-diffusion it is an option, `use_scale_shift_norm`, which its training scripts switch on; SPADE ([Park et al., 2019](https://arxiv.org/abs/1903.07291)) names a like reason, for masks.


# %%
class ScaleShift(Block):
    def __init__(self, groups=32, width=32):
        super().__init__(groups, width, vectors=2)

    def forward(self, x, label):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.vector(F.silu(label))[:, :, None, None].chunk(2, dim=1)
        return x + self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))


# %% tags=["figure", "trained"]
mended = fresh(0, block=ScaleShift)
train(mended, 0)
right, added = swap_test(mended)
fig = Figure(figsize=(6, 2.4))
ax = plot_digits(ten_labels(mended), fig.add_subplot(), rows, list("0123456789"))
fig.suptitle("The label changes the lower half", x=0.01, ha="left", weight="bold")
alt = (
    "The upper halves of a 3, a 5 and a 9, completed with ten labels. The lower halves "
)
alt += "differ: the 3 becomes a 7 or a 2, the 5 a 6, the 9 a 7; some are blurred."
show(fig, alt=alt)
print(f"this network: test loss {right:.3f}, a wrong label adds {added:.3f}")
print("three seeds                 test loss              a wrong label adds")
for name in "groups 32", "scale and shift", "groups 8":
    print(f"  {name:24}", three(f"{name}: loss"), "  ", three(f"{name}: adds"))
holds(added > 0.15 and right < 0.13, "The mended network uses its label.")

# %% [markdown]
# ## Four patients
#
# Which sign tells that a network ignores its label? In four more networks, all with 8 groups, something is wrong with the label:
#
# - **detached**: `table(label).detach()`, so the table has no gradient;
# - **forgotten**: the table is not given to the optimizer;
# - **faint**: the label's vector from the table is divided by 100;
# - **hidden**: in training, 95 of 100 labels are replaced by "any digit".
#
# Note first, for each patient: is its loss that of a network without labels? Has its table a gradient? Does a wrong label add anything?

# %% jupyter={"source_hidden": true}
CASES = {"healthy": "groups 8", "detached": "detached", "forgotten": "forgotten"}
CASES |= {"faint": "faint", "hidden": "hidden", "32 groups": "groups 32"}
SIGNS = {"test loss": "loss", "the vector's share": "share 1"}
SIGNS |= {"table's gradient": "gradient", "a wrong label adds": "adds"}


def charts(read):
    """Draw four charts of six rows, of the numbers that `read` returns for a name."""
    fig = Figure(figsize=(6, 5))
    axes = fig.subplots(2, 2, sharey=True).flat
    for ax, (title, sign) in zip(axes, SIGNS.items(), strict=True):
        rows = {case: read(f"{name}: {sign}") for case, name in CASES.items()}
        plots.plot_rows(rows, ax, log=sign == "gradient")
        ax.set_title(title, weight="normal")
    fig.axes[0].axvline(
        sum(row("no label, 8: loss")) / 3, color="#222222", lw=0.9, ls="--"
    )
    fig.suptitle("Which sign finds which patient?", x=0.01, ha="left", weight="bold")
    return fig


# %% tags=["predict"]
guess = predict(
    "Detached, the table stays random. A wrong label adds, beside the healthy network,",
    ["nothing", "about half", "about as much"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
missing = {"detached: gradient": [float("nan")]}
alt = "Four charts: healthy, detached, forgotten, faint, hidden, 32 groups. The "
alt += "table's gradient: none for detached, 1e-9 for 32 groups, healthy for hidden. A "
alt += "wrong label adds 0.25 for the first three, little for two, 0 for the last."
show(charts(lambda name: missing.get(name) or row(name)), alt=alt)
ratio = min(row("detached: adds")) / max(row("groups 8: adds"))
weak = max(row("faint: adds") + row("hidden: adds"))
holds(weak < 0.5 * min(row("forgotten: adds")), "The swap test tells them apart.")
guess.reveal(
    "about as much" if ratio > 0.75 else "about half" if ratio > 0.25 else "nothing",
    why={
        "nothing": "The table does not learn. But what comes after it does.",
        "about half": "What could the table learn that the layers after it cannot?",
        "about as much": "Ten random vectors are ten different vectors, and that was "
        "enough: the healthy table too moves by a few percent only.",
    },
    after="Dashed: a network with 8 groups and without labels.",
)

# %% [markdown]
# The *table's gradient* is missing in a network that uses its label (detached), and is as large as usual in one that hardly does (hidden). The *share* is about as large where nothing passes as in the healthy network.
#
# The swap test tells whether the label is **used**: much, little (faint, hidden), or not at all (32 groups). Whether it **helps**, the loss tells, beside that of a network that differs in the label alone: one with 8 groups, trained without labels (dashed), and the hidden network itself, told "any digit":

# %% tags=["trained"] jupyter={"source_hidden": true}
print("test loss, three seeds")
print("  8 groups, no label      ", three("no label, 8: loss", 4))
print("  hidden, told any digit  ", three("hidden: any digit", 4))
print("  hidden, the right label ", three("hidden: loss", 4))
print("  faint, the right label  ", three("faint: loss", 4))
helped = zip(row("hidden: loss"), row("hidden: any digit"), strict=True)
holds(all(told < untold for told, untold in helped), "The hidden label helps a little.")

# %% [markdown]
# The hidden label helps a little, the faint one more. How much a wrong label adds is not how much the right one helps.
#
# **Law 2.** Whether a condition is used is measured by exchanging it, and whether it helps, by a network without it that is else the same. A loss that falls, a large share, a usual gradient: each was there in a network that makes little or no use of its label. (A positive swap shows use. A swap that adds 0 shows none only where the outputs are equal too, for single samples and for batches of one label.)
#
# ## A U-Net
#
# Real U-Nets have more channels at a smaller size. Ours (folded) goes from 8 × 8 pixels with 32 channels to 4 × 4 with 64 and 2 × 2 with 128, and back, with `GroupNorm(32, channels)` everywhere, the last norm too. A wrong label adds:


# %% jupyter={"source_hidden": true}
class UNet(nn.Module):
    def __init__(self, groups=32, told_at=(0, 1, 2)):
        super().__init__()
        self.told_at, sizes = told_at, ((32, groups), (64, 32), (128, 32))
        self.table, self.change = nn.Embedding(11, 32), lambda vectors: vectors
        self.first = nn.Conv2d(1, 32, 3, padding=1)
        self.maps = nn.ModuleList(nn.Linear(32, size) for size, _ in sizes)
        self.down = nn.ModuleList(Block(groups, size) for size, groups in sizes)
        self.up = nn.ModuleList(Block(groups, size) for size, groups in sizes[:2])
        self.shrink, self.grow = nn.ModuleList(), nn.ModuleList()
        for a, b in ((32, 64), (64, 128)):
            self.shrink.append(nn.Conv2d(a, b, 3, stride=2, padding=1))
            self.grow.append(nn.ConvTranspose2d(b, a, 2, stride=2))
        self.norm, self.last = nn.GroupNorm(32, 32), nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, x, label):
        label, x, kept = self.change(self.table(label)), self.first(x), []
        labels = [(at in self.told_at) * m(label) for at, m in enumerate(self.maps)]
        for at, block in enumerate(self.down):
            x = block(self.shrink[at - 1](x) if at else x, labels[at])
            kept.append(x)
        for at in (1, 0):
            x = self.up[at](kept[at] + self.grow[at](x), labels[at])
        return self.last(F.silu(self.norm(x)))


# %% tags=["trained"] jupyter={"source_hidden": true}
print("three seeds:", three("U-Net: adds"))
holds(min(row("U-Net: adds")) > 0.15, "The U-Net uses its label.")

# %% [markdown]
# Nearly as much as in the healthy network. Does each level use the label? We set its vectors to zero, in all blocks of one level.

# %% tags=["predict"]
guess = predict(
    "The label's vectors set to zero at one level: at which does the loss grow?",
    ["at none", "64 and 128 channels", "128 channels", "all three"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
LEVELS = {f"{n} channels": row(f"U-Net: without {n}") for n in (32, 64, 128)}
ax = plots.plot_rows(LEVELS, Figure(figsize=(6, 2.6)).add_subplot())
ax.set_xlabel("zeros for a level's label vectors: the loss grows by")
ax.set_title("A network that uses its label, a level that does not")
alt = "Dots of three seeds for levels of 32, 64 and 128 channels: exactly 0, 0.015 "
show(ax.figure, alt=alt + "to 0.022, and 0.023 to 0.025.")
grows = [min(found) > 0.005 for found in LEVELS.values()]
holds(grows == [False, True, True], "Only the first level ignores its label.")
holds(max(map(abs, LEVELS["32 channels"])) < 1e-5, "It does so exactly.")
named = {(0, 0, 0): "at none", (0, 1, 1): "64 and 128 channels"}
named[0, 0, 1] = "128 channels"
guess.reveal(
    named.get(tuple(grows), "all three"),
    why={
        "at none": "A wrong label adds 0.2, so some level must use it.",
        "64 and 128 channels": "32 groups of 32 channels are single channels: nothing "
        "passes. Groups of two or four lose one number each.",
        "128 channels": "Groups of two channels let 32 of 64 numbers pass.",
        "all three": "With 32 channels each group is one channel: law 1.",
    },
    after="The vector of the time, in networks for noisy pictures, goes the same way.",
)

# %% [markdown]
# What is the label worth at the first level? Beside ours, a U-Net with 16 groups at that level, and one with 16 groups and no label there, in training and test:

# %% tags=["trained"] jupyter={"source_hidden": true}
print("test loss, three seeds")
COSTS = {"U-Net": "32 groups at the first level", "pairs": "16 groups"}
COSTS["pairs, untold"] = "16 groups, no label there"
for name, label in COSTS.items():
    print(f"  {label:30}", three(f"{name}: loss", 4))
pairs = list(zip(row("pairs, untold: loss"), row("pairs: loss"), strict=True))
print("the label at the first level: ", end="")
print("  ".join(f"{100 * (b / a - 1):.1f} %" for a, b in pairs))
holds(all(0.97 < b / a < 1.03 for a, b in pairs), "The label there matters little.")

# %% [markdown]
# With these three seeds the label there lowers the loss by 0.4 to 0.7 % (second row against third), with seed 3 by 0.1 %, and with seeds 4 and 5 the loss is 0.6 and 0.7 % higher: no effect that six seeds show. So the loss does not show a level that ignores its label, and the swap test of the whole does not either.
#
# ## A network to mend
#
# In another block, pixels exchange information by attention: each has a query, a key and a value, and the output of a pixel is the mean of all values, weighted by the
# softmax of the scores query · key ([lesson 08a](08a_attention.ipynb)). The label comes as a token, a vector.


# %%
class Handed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)
        self.norm3 = nn.InstanceNorm2d(width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.qkv, self.vector = nn.Conv2d(width, 3 * width, 1), nn.Linear(width, width)

    def forward(self, x, label):
        tokens = self.vector(F.silu(label))[:, None]  # (batch, tokens, channels)
        vector = tokens.mean(0, keepdim=True)
        h = self.norm2(self.conv1(F.silu(self.norm1(x))))
        # query, key and value: (batch, pixels, channels)
        q, k, v = self.qkv(h).flatten(2).mT.chunk(3, dim=-1)
        k = k + vector
        h = F.scaled_dot_product_attention(q, k, v).mT.unflatten(2, x.shape[2:])
        return x + self.conv2(F.silu(self.norm3(h)))


# %% tags=["trained"] jupyter={"source_hidden": true}
print("a network of two of these blocks, three seeds: a wrong label adds", end=" ")
print(three("handed: adds", 4))
holds(max(map(abs, row("handed: adds"))) < 1e-3, "It ignores its label.")

# %% [markdown]
# ### Exercise 3 · 15 minutes · ●●●●○
#
# Mend this block: return one of a given width whose network uses its label. Mending one thing may not be enough. Keep `qkv`, and let the label in between `qkv` and what the attention returns, nowhere else. A wrong label must add at least 0.05 after 150
# steps of 16 digits (two seeds), and the loss must be at most 0.25. Measure first: `model = fresh(0, block=Handed)` is such a network, `train(model, 0, 150, size=16)` trains it, `swap_test(model)` tests it, and `torch.autograd.grad` tells where
# a gradient ends.
#
# <details><summary>Hint 1</summary>Change the label of one sample alone: which samples' outputs change, in a new block? And on the way back, where does the vector's gradient end?</details>
# <details><summary>Hint 2</summary>softmax(s + c) = softmax(s), if c is the same for all scores of a query. Weights that sum to 1 hand on what all values have in common. What do the layers after the attention do to that?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_attention(width):
    """Return a block whose network uses its label."""

    ### BEGIN SOLUTION
    class Mended(Handed):
        def __init__(self, width):
            super().__init__(width)
            self.norm3 = nn.GroupNorm(8, width)

        def forward(self, x, label):
            tokens = self.vector(F.silu(label))[:, None]
            vector = tokens.mean(1, keepdim=True)
            h = self.norm2(self.conv1(F.silu(self.norm1(x))))
            q, k, v = self.qkv(h).flatten(2).mT.chunk(3, dim=-1)
            v = v + vector
            h = F.scaled_dot_product_attention(q, k, v).mT.unflatten(2, x.shape[2:])
            return x + self.conv2(F.silu(self.norm3(h)))

    return Mended(width)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-attention-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mended_attention, "mended_attention")

# %% [markdown]
# <details><summary>What was wrong, once you have mended it</summary>Three things, each enough alone (the appendix). The mean over axis 0 is over the samples: all receive the same vector, with a healthy gradient. What is added to all keys cancels in the softmax. What is added to all values comes out at every pixel alike, and an InstanceNorm, a GroupNorm of single channels, subtracts it.</details>
#
# ## Three kinds of branches
#
# A label can be a branch of its own. The residual block of lesson 07a has up to three, and each adds to the stream:
#
#     x = x + sequence_mixer(norm(x))               # positions exchange information
#     x = x + condition_mixer(norm(x), condition)   # positions read the condition
#     x = x + mlp(norm(x))                          # each position by itself
#
# The condition mixer is cross-attention: each position makes a query, and the tokens of the condition make keys and values. The package has it as `QKVConditionMixer`. A label becomes four tokens: with one, the softmax is over one score, which makes it 1, and all positions receive the same vector (the appendix).
#
# ### 48 blocks from one description
#
# A network often needs many blocks of one kind, so one hands over a description that can be built often. `LazyConfig` is a `functools.partial` that refuses a misspelt argument where it is written; `build` makes the module. (Folded: the other parts.)

# %%
from residual_edu import MLP, LayerNorm, LazyConfig, ResidualBlock, build

norm = LazyConfig(LayerNorm)(dim=48)
mlp = LazyConfig(MLP)(
    dim=48, activation="gelu", dropout_cfg=nn.Identity, expansion_factor=4, bias=True
)

# %% jupyter={"source_hidden": true}
from residual_edu import Attention, QKVConditionMixer, QKVSequenceMixer

attention = LazyConfig(Attention)(
    hidden_dim=48, num_heads=4, apply_qk_norm=False, use_rope=False
)
mixer = LazyConfig(QKVSequenceMixer)(hidden_dim=48, mixer_cfg=attention)
cross = LazyConfig(QKVConditionMixer)(hidden_dim=48, mixer_cfg=attention)
three_kinds = LazyConfig(ResidualBlock)(
    sequence_mixer_cfg=mixer,
    sequence_mixer_norm_cfg=norm,
    condition_mixer_cfg=cross,
    condition_mixer_norm_cfg=norm,
    mlp_cfg=mlp,
    mlp_norm_cfg=norm,
    dropout_cfg=nn.Identity,
)
two_kinds = LazyConfig(ResidualBlock)(
    sequence_mixer_cfg=mixer,
    sequence_mixer_norm_cfg=norm,
    condition_mixer_cfg=nn.Identity,
    condition_mixer_norm_cfg=nn.Identity,
    mlp_cfg=mlp,
    mlp_norm_cfg=norm,
    dropout_cfg=nn.Identity,
)

# %%
for blocks in [build(three_kinds)] * 48, [build(three_kinds) for _ in range(48)]:
    amount = sum(p.numel() for p in nn.Sequential(*blocks).parameters())
    print(f"{len(blocks)} blocks, {amount:,} parameters")

# %% [markdown]
# The first list holds the *same* block 48 times. It runs, and has the parameters of one. A block also marks its norms as spared from weight decay ([lesson 05](05_layer_scale.ipynb)), and `parameter_groups` reads the marks; it spares all biases too:

# %%
from residual_edu import parameter_groups

decayed, spared = parameter_groups(build(three_kinds), weight_decay=0.01)
for group in decayed, spared:
    print(f"weight decay {group['weight_decay']}: {len(group['params'])} tensors")

# %% [markdown]
# ### Two networks from these pieces
#
# The first completes digits: 16 patches of 2 × 2 pixels (`Patchify`, a convolution with a stride), positions, four blocks of three branches, and
# a way back to pixels. The second reads whole digits, without condition mixers: `ClassificationResNet` averages all positions. (Folded: both.)


# %% jupyter={"source_hidden": true}
from residual_edu import Patchify, PositionEmbedding, Unpatchify


class Patches(nn.Module):
    """Patches of 2 x 2 pixels, and where each of them stands."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.patches = Patchify(in_features, out_features, data_dim=2, patch_size=2)
        self.position = PositionEmbedding(out_features, 2, max_dim_lengths=4)
        for table in self.position.data_embeddings.values():
            nn.init.normal_(table.weight, std=0.5)

    def forward(self, x):
        x = self.patches(x)
        return x + self.position(x)


class Pixels(Unpatchify):
    def __init__(self, in_features, out_features):
        super().__init__(in_features, out_features, data_dim=2, patch_size=2)
        nn.init.normal_(
            self.deconv.weight, std=0.1
        )  # torch's start is 5 times as large


# %% jupyter={"source_hidden": true}
from residual_edu import ClassificationResNet, ResidualNetwork


class PatchCompleter(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 4 * 48)
        ends = {"in_channels": 1, "in_proj_cfg": Patches}
        ends |= {"out_channels": 1, "out_proj_cfg": Pixels, "norm_cfg": norm}
        sizes = {"num_blocks": 4, "hidden_dim": 48, "data_dim": 2}
        self.net = ResidualNetwork(
            **ends, **sizes, block_cfg=three_kinds, dropout_in_cfg=nn.Identity
        )

    def forward(self, x, label):  # the package has channels last
        tokens = self.table(label).unflatten(-1, (4, 48))
        inputs = {"input": x.movedim(1, -1), "condition": tokens}
        return self.net(inputs)["logits"].movedim(-1, 1)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = ClassificationResNet(
            1, 10, 4, 48, 2, Patches, nn.Linear, norm, two_kinds, nn.Identity
        )

    def forward(self, x):
        return self.net({"input": x.movedim(1, -1), "condition": None})["logits"]


def classify(model, x, label):
    return F.cross_entropy(model(x), label)


# %% tags=["trained"] jupyter={"source_hidden": true}
model = fresh(0, PatchCompleter)
train(model, 0, steps=300, rate=0.002, size=64)
whole, added = swap_test(model)
print(f"this network: test loss {whole:.3f}, a wrong label adds {added:.3f}")
print(
    "three seeds               ", three("patches: loss"), "  ", three("patches: adds")
)
print("the second reads of new digits, three seeds:", three("reads: right"))
holds(whole < 0.16 and added > 0.1, "This network uses its label.")
holds(min(row("reads: right")) > 0.9, "The classifier reads digits.")

# %% [markdown]
# ## Whose branch matters?
#
# The first network has twelve branches. Remove one, and see what is lost. (Folded: a forward hook returns zeros in the place of a layer's output.)


# %% jupyter={"source_hidden": true}
def zeros(layer, given, out):
    return torch.zeros_like(out)


@torch.no_grad()
def without(layers, loss, instead=zeros):
    """Return the loss while the layers return zeros."""
    hooks = [layer.register_forward_hook(instead) for layer in layers]
    found = loss()
    for hook in hooks:
        hook.remove()
    return found


# %% jupyter={"source_hidden": true}
KINDS = {"attention": "sequence_mixer", "condition": "condition_mixer", "MLP": "mlp"}
NORM_OF = {"sequence_mixer": "input_norm", "mlp": "mlp_norm"}
NORM_OF["condition_mixer"] = "condition_mixer_norm"


@torch.no_grad()
def branch_shares(blocks, kinds, loss):
    """Return each branch's share of the stream after it, by block and kind."""
    seen, names = {}, [KINDS[kind] for kind in kinds]
    pairs = [
        (getattr(b, name), getattr(b, NORM_OF[name])) for b in blocks for name in names
    ]
    hooks = [
        layer.register_forward_hook(lambda m, i, out: seen.update({m: (i[0], out)}))
        for pair in pairs
        for layer in pair
    ]
    loss()
    for hook in hooks:
        hook.remove()
    branches = [(seen[branch][1], seen[norm][0]) for branch, norm in pairs]
    return [rms(f) / rms(x + f) for f, x in branches]


# %% tags=["figure", "trained"]
def each_branch(name, kinds=KINDS):
    """Return stored numbers of all branches, (seeds, blocks, kinds)."""
    places = [f"{kind} {block + 1}" for block in range(4) for kind in kinds]
    found = [[stored[seed][f"{name} {p}"] for p in places] for seed in range(3)]
    return torch.tensor(found).view(3, 4, len(kinds))


alone = each_branch("patches: without")
ax = plots.plot_removed(alone, list(KINDS), Figure(figsize=(6, 3.6)).add_subplot())
ax.set_title("Removed alone, each branch costs something")
alt = (
    "What removing one of twelve branches adds to the test loss, three seeds: 0.04 to "
)
alt += "0.08 in block 1, 0.01 to 0.05 in the blocks after it."
show(ax.figure, alt=alt)
now = without([model.net.blocks[0].mlp], lambda: loss_of(model, new, truth)) - whole
print(f"this network, without the MLP of block 1: {now:+.3f}")
for seed, four in enumerate(alone[..., 2].tolist()):
    print(f"seed {seed}, MLPs:", *[f"{x:.3f}" for x in four], f"  sum {sum(four):.3f}")
holds(alone.min() > 0, "Each branch costs something.")

# %% tags=["predict"]
guess = predict(
    "All four MLPs at once cost",
    ["less than the sum", "about the sum", "about twice or more"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
sums = alone.sum(1)
SUMS = {
    k: (sums[:, at], row(f"patches: without all {k}")) for at, k in enumerate(KINDS)
}
ax = plots.plot_sum(SUMS, Figure(figsize=(6, 2.8)).add_subplot())
ax.set_title("Four MLPs at once cost about twice the sum")
alt = "Sum of four single removals beside the removal of all four, three seeds. MLPs: "
alt += "0.14 to 0.17, and 0.33 to 0.37. Attention and condition: 0.1, and 0.12 to 0.21."
show(ax.figure, alt=alt)
ratio = min(w / s for s, w in zip(*SUMS["MLP"], strict=True)).item()
holds(ratio > 1.5, "Four MLPs at once cost more than their sum.")
above, near = ("about twice or more", ratio > 1.5), ("about the sum", ratio > 0.8)
guess.reveal(
    next((word for word, holding in (above, near) if holding), "less than the sum"),
    why={
        "less than the sum": "For the MLPs it is about twice the sum.",
        "about the sum": "For one of three seeds of attention it is that.",
        "about twice or more": "For attention and condition it is 1.0 to 2.1 times.",
    },
    after="So single removals do not add up. The square alone does a part of it: two "
    "changes d in one direction cost d² each and 4d² together. The appendix asks more.",
)

# %% [markdown]
# ### Can it be read off the stream?
#
# Removal takes an evaluation for each branch. Its share costs one evaluation for all branches: the branch's rms over that of the stream after it. So is its place, first to last. How well does either order the branches as removal does? Rank correlations (1: the same order, 0: no relation), twelve seeds of both networks:

# %% jupyter={"source_hidden": true}
EXTRA = 0, 3, 6, 9  # twelve seeds: four beside each other in each stored run


def ranks(values):
    return values.argsort().argsort().double()


def agree(a, b):
    """Return the rank correlation."""
    return torch.corrcoef(torch.stack([ranks(a), ranks(b)]))[0, 1].item()


def order(name, kinds):
    """Return rank correlations with removal, of share and of place, for 3 seeds."""
    cost, share = (
        each_branch(f"{name}: {what}", kinds).flatten(1)
        for what in ("without", "share")
    )
    first = -torch.arange(cost.shape[1])
    by_share = [agree(a, b) for a, b in zip(share, cost, strict=True)]
    return by_share, [agree(first, one) for one in cost]


def orders(name, kinds):
    """Return the same for 12 seeds."""
    found = [order(f"{name}{extra or ''}", kinds) for extra in EXTRA]
    return [sum(part, []) for part in zip(*found, strict=True)]


# %% tags=["figure", "trained"]
found = {}
found["share, completes"], found["place, completes"] = orders("patches", list(KINDS))
found["share, reads"], found["place, reads"] = orders("reads", ["attention", "MLP"])
ax = plots.plot_rows(found, Figure(figsize=(6, 2.8)).add_subplot())
ax.set(xlabel="rank correlation with the order by removal", xlim=(-0.5, 1))
ax.set_title("Share fails in one network, place in none")
alt = "Dots of 12 seeds. Network that completes: share about 0.85, place 0.65. "
show(ax.figure, alt=alt + "Network that reads: share about 0.3, place about 0.7.")
mean = {name: sum(values) / len(values) for name, values in found.items()}
print("mean of 12 seeds: ", ",  ".join(f"{name} {x:.2f}" for name, x in mean.items()))
wins = [mean[f"share, {net}"] > mean[f"place, {net}"] for net in ("completes", "reads")]
holds(wins == [True, False], "Share orders better in one network, place in the other.")

# %% [markdown]
# Share ordered one of the two networks, better than place did. Place ordered both moderately. Neither replaces removal.
#
# All branches of the first network in one picture, and the label's vectors of this lesson's opening, with 32 groups and with 8 (three seeds each):


# %% tags=["figure", "trained"]
def vectors(name):
    """Return shares and effects of the label's two vectors, three seeds."""
    keys = "share 1", "share 2", "without 1", "without 2"
    found = [row(f"{name}: {key}") for key in keys]
    return found[:2], found[2:]


DOTS = {
    "label, 32 groups": vectors("groups 32"),
    "label, 8 groups": vectors("groups 8"),
}
DOTS["twelve branches"] = each_branch("patches: share").flatten(), alone.flatten()
ax = plots.plot_shares(DOTS, Figure(figsize=(6, 4)).add_subplot())
ax.set_title("A large share, and no effect")
alt = "Effect of removal over share, a mark a branch. Twelve branches: the larger, the "
alt += "more costly, roughly. The label's vectors with 8 groups: half of the sum, and "
show(ax.figure, alt=alt + "costly. With 32 groups: as large, and exactly no effect.")
none = max(abs(one) for two in DOTS["label, 32 groups"][1] for one in two)
some = min(one for two in DOTS["label, 8 groups"][1] for one in two)
print(f"label's vectors removed: at most {none:.4f} with 32 groups,", end=" ")
print(f"at least {some:.4f} with 8")
holds(none < 1e-5 < 0.01 < some, "As large, and no effect.")

# %% [markdown]
# **Law 3.** Neither a branch's share nor its place replaces removal: share ordered the branches of one network of two, place those of both, moderately. Removal measures the effect of one set of branches, replaced in one way, and these effects do not add up.
#
# ## What practice does
#
# - **diffusers** has the same block: `ResnetBlock2D` adds the time's vector before its second norm (`time_embedding_norm="default"`), with `norm_num_groups=32` as the default of its
# [UNet2DModel](https://github.com/huggingface/diffusers/blob/main/src/diffusers/models/unets/unet_2d.py). With 32 as the first of `block_out_channels` it is our block; its default is 224, 7 channels a group, which is not hit.
# - **Exchange the condition** before you publish: it costs a few evaluations. Then exchange it at one level at a time.
#
# **Limits.** Two tasks with digits of 8 × 8 pixels, 300 steps (100 for the classifier). Zeros are one replacement; with a branch's mean in its place the costs are others (the appendix).
#
# ## Summary
#
# The folded cells hold the code of the stored runs, about five minutes a seed. A first reader may skip them.


# %% jupyter={"source_hidden": true}
from functools import partial


class Unlabelled(Completer):
    def forward(self, x, label):
        return super().forward(x, torch.zeros_like(label))


class OtherNorm(Block):
    """The block with another second norm of 32 channels."""

    def __init__(self, norm, width=32):
        super().__init__(width=width)
        self.norm2 = norm()


class ChannelRMS(nn.Module):
    def forward(self, h):
        return h / (h.square().mean((2, 3), keepdim=True) + 1e-5).sqrt()


# %% jupyter={"source_hidden": true}
class PartlyMended(Handed):
    """The block to mend; `wrong` names what is still wrong."""

    def __init__(self, wrong, width):
        super().__init__(width)
        self.wrong = wrong
        if "norm" not in wrong:
            self.norm3 = nn.GroupNorm(8, width)

    def forward(self, x, label):
        vector = self.vector(F.silu(label))[:, None]
        if "mean" in self.wrong:
            vector = vector.mean(0, keepdim=True)
        h = self.norm2(self.conv1(F.silu(self.norm1(x))))
        q, k, v = self.qkv(h).flatten(2).mT.chunk(3, dim=-1)
        k, v = (k + vector, v) if "keys" in self.wrong else (k, v + vector)
        h = F.scaled_dot_product_attention(q, k, v).mT.unflatten(2, x.shape[2:])
        return x + self.conv2(F.silu(self.norm3(h)))


# %% jupyter={"source_hidden": true}
class ScaleBefore(ScaleShift):
    factor = staticmethod(lambda scale: 1 + scale)

    def forward(self, x, label):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.vector(F.silu(label))[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h * self.factor(scale) + shift)
        return x + self.conv2(F.silu(h))


class PositiveScaleBefore(ScaleBefore):
    factor = staticmethod(torch.exp)


def two_numbers(vectors):
    return F.pad(vectors[:, :2], (0, vectors.shape[1] - 2))


def averaged(layer, given, out):
    return out.mean(0, keepdim=True).expand_as(out)


# %% jupyter={"source_hidden": true}
NETWORKS = {f"groups {n}": {"groups": n} for n in (32, 16, 8, 1)}
NETWORKS |= {
    "no label": {"kind": Unlabelled},
    "no label, 8": {"kind": Unlabelled, "groups": 8},
    "scale and shift": {"block": ScaleShift},
    "64 channels": {"width": 64},
    "detached": {"groups": 8, "change": torch.Tensor.detach},
    "forgotten": {"groups": 8, "frozen": ["table.weight"]},
    "faint": {"groups": 8, "change": lambda vectors: vectors / 100},
    "hidden": {"groups": 8, "hidden": 0.95},
    "BatchNorm2d": {"block": partial(OtherNorm, partial(nn.BatchNorm2d, 32))},
    "rms of a channel": {"block": partial(OtherNorm, ChannelRMS)},
    "stream, last 8": {"block": OnStream},
    "stream, last 32": {"block": OnStream, "last": 32},
    "branch, last 32": {"groups": 8, "last": 32},
    "handed": {"block": Handed},
}


# %% jupyter={"source_hidden": true}
NETWORKS |= {
    "ten times the rate": {"groups": 8, "change": lambda v: 10 * v, "start": 0.1},
    "scale before": {"block": ScaleBefore},
    "positive scale before": {"block": PositiveScaleBefore},
    "two numbers": {"groups": 8, "change": two_numbers},
    "two held": {"groups": 8, "change": lambda vectors: two_numbers(vectors).detach()},
    "two faster": {"groups": 8, "change": lambda v: 10 * two_numbers(v), "start": 0.1},
}
for wrong in "mean", "keys", "norm", "":
    block = partial(PartlyMended, [wrong])
    NETWORKS[f"wrong: {wrong or 'nothing'}"] = {"block": block}
MEASURED = "groups 32", "groups 8", "detached", "forgotten", "faint", "hidden"


# %% jupyter={"source_hidden": true}
def part_of_table(found, model):
    """Note the share of the table's gradient in all gradients."""
    every = [p.grad for p in model.parameters() if p.grad is not None]
    whole = torch.stack([grad.norm() for grad in every]).norm()
    if model.table.weight.grad is not None:
        found.append((model.table.weight.grad.norm() / whole).item())


def label_runs(seed, name, change=None, start=1.0, frozen=(), hidden=0.0, **sizes):
    """Return the stored numbers of one network that completes digits."""
    net, found = fresh(seed, **sizes), []
    net.change = change or net.change
    before = net.table.weight.data.mul_(start).clone()
    watch = partial(part_of_table, found)
    train(net, seed, hidden=hidden, frozen=frozen, watch=watch)
    whole, added = swap_test(net)
    moved = rms(net.table.weight.detach() - before) / rms(before)
    out = {"loss": whole, "adds": added, "moved": moved}
    if found:
        out["gradient"] = found[-1]
    if hidden:
        with torch.no_grad():
            out["any digit"] = loss_of(net, new, torch.full_like(truth, 10)).item()
    if name in MEASURED:
        out["share 1"], out["share 2"] = shares(net)
        for at, block in enumerate(net.blocks):
            loss = without([block.vector], lambda: loss_of(net, new, truth))
            out[f"without {at + 1}"] = loss - whole
    return {f"{name}: {key}": number for key, number in out.items()}


# %% jupyter={"source_hidden": true}
def level_runs(seed):
    """Return the stored numbers of the U-Net, and of two with pairs at level one."""
    net, out = fresh(seed, UNet), {}
    train(net, seed)
    out["U-Net: loss"], out["U-Net: adds"] = whole, _ = swap_test(net)
    for at, size in enumerate((32, 64, 128)):
        blocks = *net.down[at : at + 1], *net.up[at : at + 1]
        loss = partial(loss_of, net, new, truth)
        zeroed = without([block.vector for block in blocks], loss)
        out[f"U-Net: without {size}"] = zeroed - whole
    for name, levels in {"pairs": (0, 1, 2), "pairs, untold": (1, 2)}.items():
        net = fresh(seed, UNet, groups=16, told_at=levels)
        train(net, seed)
        out[f"{name}: loss"], out[f"{name}: adds"] = swap_test(net)
    return out


# %% jupyter={"source_hidden": true}
def branch_runs(net, name, kinds, loss):
    """Return share and effect of each branch."""
    whole, out, blocks = without([], loss), {}, net.net.blocks
    sizes = iter(branch_shares(blocks, kinds, loss))
    for at, block in enumerate(blocks):
        for kind in kinds:
            layer, place = [getattr(block, KINDS[kind])], f"{kind} {at + 1}"
            out[f"without {place}"] = without(layer, loss) - whole
            out[f"share {place}"] = next(sizes)
    return {f"{name}: {key}": number for key, number in out.items()}


# %% jupyter={"source_hidden": true}
def kind_runs(net, name, loss):
    """Return what all of a kind cost, and each branch set to its mean."""
    whole, out, blocks = without([], loss), {}, net.net.blocks
    for kind, attribute in KINDS.items():
        every = [getattr(block, attribute) for block in blocks]
        out[f"without all {kind}"] = without(every, loss) - whole
        for at, one in enumerate(every):
            out[f"averaged {kind} {at + 1}"] = without([one], loss, averaged) - whole
    return {f"{name}: {key}": number for key, number in out.items()}


@torch.no_grad()
def added_up(net, name, whole):
    """Return what the MLPs' changes of the output cost, over the single costs."""

    def costs(out):
        return (out - new)[:, :, 4:].square().mean().item() - whole

    made = partial(net, upper(new), truth)
    layers, base = [block.mlp for block in net.net.blocks], made()
    changes = [without([one], made) - base for one in layers]
    single = sum(costs(base + change) for change in changes)
    added, at_once = costs(base + sum(changes)), costs(without(layers, made))
    out = {"changes added": added / single, "at once": at_once / single}
    return {f"{name}: {key}": number for key, number in out.items()}


# %% jupyter={"source_hidden": true}
def patch_runs(seed):
    """Return the stored numbers of the network of patches."""
    out = {}
    for name, steps in {"patches": 300, "longer": 3000}.items():
        net = fresh(seed, PatchCompleter)
        train(net, seed, steps=steps, rate=0.002, size=64)
        whole, out[f"{name}: adds"] = swap_test(net)
        loss = partial(loss_of, net, new, truth)
        out |= {f"{name}: loss": whole} | branch_runs(net, name, list(KINDS), loss)
        out |= kind_runs(net, name, loss) | added_up(net, name, whole)
    for extra in EXTRA[1:]:
        net = fresh(seed + extra, PatchCompleter)
        train(net, seed + extra, steps=300, rate=0.002, size=64)
        loss = partial(loss_of, net, new, truth)
        out |= branch_runs(net, f"patches{extra}", list(KINDS), loss)
    return out


# %% jupyter={"source_hidden": true}
def reading_runs(seed):
    """Return the stored numbers of the network that reads digits."""
    out = {}
    for extra in EXTRA:
        net, name = fresh(seed + extra, Classifier), f"reads{extra or ''}"
        train(net, seed + extra, steps=100, rate=0.002, size=64, loss=classify)
        with torch.no_grad():
            found = (net(new).argmax(-1) == truth).double().mean().item()
        out[f"{name}: right"] = found
        loss = partial(classify, net, new, truth)
        out |= branch_runs(net, name, ["attention", "MLP"], loss)
    return out


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.15):
    """Return what labels and branches do in all networks of the lesson."""
    out = {}
    for name, how in NETWORKS.items():
        out |= label_runs(seed, name, **how)
    out |= level_runs(seed) | patch_runs(seed) | reading_runs(seed)
    return {name: float(f"{number:.4g}") for name, number in out.items()}


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. What is added to all pixels of a channel does not pass a norm that subtracts this channel's mean | groups of two channels and more lose one number each; BatchNorm while a batch mixes labels, or in eval(); a convolution with zero padding between; a norm without a mean, a skip round all such norms |
# | 2. Exchanging a condition measures whether it is used, a network without it whether it helps | the whole may use it and a part of it not (the U-Net) |
# | 3. Neither share nor place replaces removal. Removal measures the effect of one set, replaced in one way; effects do not add up | share ordered one network of two, place both moderately |

# %%
summary("07b")

# %% [markdown]
# ## Next
#
# - [Lesson 08a](08a_attention.ipynb) opens the part in which positions exchange information.
# - [The appendix](07b_conditions_and_networks_more.ipynb): sliders that remove branches, why costs do not add up, 3,000 steps, the finished pieces.
# - [Homework for lessons 06, 07a and 07b](homework/hw_06_07.ipynb).
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
