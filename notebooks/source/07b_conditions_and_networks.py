# %% [markdown]
# # 07b · Conditions and whole networks
#
# 90 minutes. Nothing is downloaded. It follows [lesson 06](06_adaln_zero.ipynb), of which it uses AdaLN, and [lesson 07a](07a_residual_block.ipynb), the residual block. Of
# [lesson 02](02_layer_norm.ipynb) it uses what a norm does to four numbers.
#
# By the end you can
#
# - **measure** whether a network uses what it is told, and **find** where a label's gradient ends;
# - **compute** on paper which part of a label's vector passes a group norm;
# - **mend** a network that ignores its label;
# - **remove** branches of a trained network, and say what that shows and what it does not.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import conditions as plots
from residual_edu.plotting.adaln_zero import plot_digits

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
# Its two blocks are those of the networks that draw pictures (U-Nets): norm, SiLU, convolution, then *the label's vector is added to every pixel*, and norm, SiLU, convolution. The norm is
# `GroupNorm(g, channels)`: it divides the channels of a picture into g groups, and takes one mean and one spread for each group, over its channels and all pixels. In
# [openai/improved-diffusion](https://github.com/openai/improved-diffusion/blob/main/improved_diffusion/unet.py) the norm is
# [`GroupNorm(32, channels)`](https://github.com/openai/improved-diffusion/blob/main/improved_diffusion/nn.py), whatever the number of channels. Ours has 32 channels, to train on a laptop (and no dropout, and a last convolution that does not start at zero).


# %%
class Block(nn.Module):
    def __init__(self, groups=32, width=32, vectors=1):
        super().__init__()
        self.norm1, self.norm2 = (nn.GroupNorm(groups, width) for _ in range(2))
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.told = nn.Linear(width, vectors * width)

    def forward(self, x, label):
        h = self.conv1(F.silu(self.norm1(x)))
        vector = self.told(F.silu(label))  # (batch, channels)
        h = h + vector[:, :, None, None]  # the same for all pixels of a channel
        return x + self.conv2(F.silu(self.norm2(h)))


# %% [markdown]
# (Folded: the network around the blocks, with a table of one vector for each label, and the training, Adam for 300 steps of 32 digits, with a rate that rises and falls. The loss is the mean squared error of the
# lower half.)


# %% jupyter={"source_hidden": true}
class Completer(nn.Module):
    def __init__(self, block=Block, width=32, **sizes):
        super().__init__()
        self.table = nn.Embedding(11, width)  # the label 10 stands for any digit
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(block(width=width, **sizes) for _ in range(2))
        self.norm, self.last = nn.GroupNorm(8, width), nn.Conv2d(width, 1, 3, padding=1)
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
# Shapes fit, nothing warns, and the loss falls as one hopes. But in each row ten labels give one picture.
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
# <details><summary>Hint 2</summary>For k from 1 to 9, <code>(labels + k) % 10</code> is wrong for every sample, and all nine together are all
# wrong labels.</details>


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
# Our network, by a folded copy of the test:


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def swap_test(model):
    """Return the test loss with right labels, and what a wrong label adds."""
    right = loss_of(model, new, truth).item()
    wrong = [loss_of(model, new, (truth + k) % 10).item() for k in range(1, 10)]
    return right, sum(wrong) / 9 - right


# %% tags=["trained"]
right, added = swap_test(sick)
print(f"this network: test loss {right:.3f}, a wrong label adds {abs(added):.4f}")
holds(abs(added) < 1e-5, "A wrong label adds nothing.")

# %% [markdown]
# ### Where does the label's gradient end?
#
# Perhaps the vector is too small to matter? In both blocks we compare its size (rms, the root of the mean square) with that of the sum h + vector, which the second norm receives. (Folded: forward hooks read them. A forward hook is a function that a layer calls with its output; what it returns takes the output's place.)


# %% jupyter={"source_hidden": true}
from residual_edu.lesson import stored_runs

stored = stored_runs("07b_conditions_and_networks")["runs"]  # its code: at the end


def row(name):
    """Return a stored number for three seeds."""
    return [stored[seed][name] for seed in range(3)]


def told(name, digits=3):
    return "  ".join(f"{round(one, digits) + 0:.{digits}f}" for one in row(name))


# %% jupyter={"source_hidden": true}
def rms(x):
    return x.square().mean().sqrt().item()


@torch.no_grad()
def shares(model):
    """Return the size of the label's vector over that of h + vector, in each block."""
    seen, hooks = [], []
    for block in model.blocks:
        hooks.append(block.conv1.register_forward_hook(lambda m, i, h: seen.append(h)))
        hooks.append(block.told.register_forward_hook(lambda m, i, v: seen.append(v)))
    loss_of(model, new, truth)
    for hook in hooks:
        hook.remove()
    pairs = zip(seen[::2], seen[1::2], strict=True)
    return [rms(v) / rms(h + v[:, :, None, None]) for h, v in pairs]


# %% tags=["trained"]
print("vector / (h + vector):", *[f"{one:.2f}" for one in shares(sick)])
holds(min(shares(sick)) > 0.3, "The vector is a good part of what the norm receives.")

# %% tags=["predict"]
guess = predict(
    "The trained network, its vectors now set to 0: the test loss",
    ["stays as it is", "grows by a tenth", "about doubles"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
with torch.no_grad():
    hooks = [b.told.register_forward_hook(lambda m, i, o: 0 * o) for b in sick.blocks]
    alone = loss_of(sick, new, truth).item()
    for hook in hooks:
        hook.remove()
print(f"test loss with the vectors {right:.6f}, without them {alone:.6f}")
holds(abs(alone - right) < 1e-5, "Without its vectors the network does the same.")
CHOICES = {0: "stays as it is", 0.1: "grows by a tenth", 1: "about doubles"}
guess.reveal(
    CHOICES[min(CHOICES, key=lambda grown: abs(alone / right - 1 - grown))],
    why={
        "stays as it is": "No part of the vector reaches the output, its size, its "
        "mean, what all labels have in common: nothing.",
        "grows by a tenth": "Layers after it could rely on a part that all labels "
        "share. They would, if it reached them.",
        "about doubles": "The vector is nearly as large as h. But the next layer "
        "decides whether it matters.",
    },
    after="So the size of a vector beside the sum does not tell whether it matters.",
)

# %% [markdown]
# Is its loss that of a network which knows no label? Beside it one that gets the label 0 for every digit, in training and test, three seeds. (Stored runs: their code is at the end.)

# %% tags=["trained"] jupyter={"source_hidden": true}
print("test loss, three seeds")
for name, label in {"groups 32": "this network", "no label": "always label 0"}.items():
    print(f"  {label:16}", told(f"{name}: loss"))
gaps = [
    a - b for a, b in zip(row("groups 32: loss"), row("no label: loss"), strict=True)
]
holds(max(map(abs, gaps)) < 0.01, "It does as well as a network without labels.")

# %% [markdown]
# It is. So follow the gradient back from the loss, in a new network, to the places in block 1 that the label's vector goes through. Beside it a network with 8 groups instead of 32:

# %% tags=["figure"]
PLACES = "norm's\noutput", "h", "vector", "label's\ntable"


def way_back(groups):
    """Return the size of the gradient at PLACES, in block 1 of a new network."""
    model, seen = fresh(0, groups=groups), {}
    block = model.blocks[0]
    for layer in (block.norm2, block.conv1, block.told):
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
# The norm subtracts the channel's mean, and with it all that the label added. **norm(h + c) = norm(h)** for every number c and every picture (up to rounding), so the derivative of the loss by c is 0.
# It is also the sum of the gradients of all pixels of h, since c is added to each: one pixel's gradient is not 0, and together they cancel.

# %%
h = torch.tensor([0.0, 0, 0, 4], requires_grad=True)
c = torch.tensor(5.0, requires_grad=True)
loss = F.group_norm((h + c).view(1, 1, 4), 1)[0, 0, 0].exp()
loss.backward()
print("gradient of h:", [round(one, 3) + 0 for one in h.grad.tolist()])
print(f"gradient of c: {abs(c.grad.item()):.6f}")

# %% [markdown]
# (The last 0 of h is an accident of these four numbers.) The 1e-9 in the figure is rounding: compare such a gradient with the others, never with 0.
#
# **Law 1.** A number that is added to all pixels of a channel does not pass a norm that subtracts this channel's mean over these pixels. If the sum reaches the output through that norm alone, no output depends on the number, and its gradient is 0.
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
# So each group costs one number. Of the 32 numbers of a label's vector, 16 pass `GroupNorm(16, 32)`, 24 pass 8 groups, and 31 pass a single group.

# %% tags=["predict"]
guess = predict(
    "With 16 groups a wrong label adds, compared with 1 group,",
    ["nothing", "about half", "about as much"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
DOSE = {f"{groups} groups": row(f"groups {groups}: adds") for groups in (32, 16, 8, 1)}
ax = plots.plot_rows(DOSE, Figure(figsize=(6, 2.8)).add_subplot())
ax.set_xlabel("a wrong label adds to the test loss")
ax.set_title("From 32 groups to 16 everything changes")
alt = (
    "Dots of three seeds for 32, 16, 8 and 1 groups: 0 for 32, and about 0.25 for all "
)
show(ax.figure, alt=alt + "others.")
share = min(DOSE["16 groups"]) / max(DOSE["1 groups"])
holds(max(map(abs, DOSE["32 groups"])) < 1e-5 < 0.8 < share, "16 groups are enough.")
guess.reveal(
    "about as much" if share > 0.75 else "about half" if share > 0.25 else "nothing",
    why={
        "nothing": "That would need every difference to be removed. Within a pair one "
        "difference is left.",
        "about half": "Half of the numbers pass. But how many are needed?",
        "about as much": "For ten labels sixteen numbers are enough. (Two still give "
        "0.15: the appendix.)",
    },
    after="So the fault is easily missed: with 64 channels, 32 groups are pairs, and "
    "the label passes.",
)

# %% [markdown]
# Where does law 1 stop? One thing changed at a time in the first network: 64 channels for the 32 groups; `BatchNorm2d`, whose mean is over the other pictures too; a norm that divides a channel by its rms
# and subtracts nothing; or the vector added to the stream x, where the skip carries it past this norm (the network's last norm has 8 groups; with 32 it would end there: 0.0000, two seeds run aside).

# %% tags=["trained"] jupyter={"source_hidden": true}
PASSING = ["64 channels", "BatchNorm2d", "rms of a channel", "added to the stream"]
print("three seeds             a wrong label adds")
for name in PASSING:
    print(f"  {name:20}", told(f"{name}: adds"))
    holds(min(row(f"{name}: adds")) > 0.1, "Here the label passes.")

# %% [markdown]
# ## Two mends
#
# Fewer groups are one mend. The other keeps 32 groups and lets the label act *after* the norm, by a scale and a shift for each channel. You know it from lesson 06: AdaLN. In
# improved-diffusion it is an option, `use_scale_shift_norm`, which its training scripts switch on; SPADE ([Park et al., 2019](https://arxiv.org/abs/1903.07291)) was made for this reason.


# %%
class ScaleShift(Block):
    def __init__(self, groups=32, width=32):
        super().__init__(groups, width, vectors=2)

    def forward(self, x, label):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.told(F.silu(label))[:, :, None, None].chunk(2, dim=1)
        return x + self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))


# %% tags=["figure", "trained"]
mended = fresh(0, block=ScaleShift)
train(mended, 0)
right, added = swap_test(mended)
fig = Figure(figsize=(6, 2.4))
ax = plot_digits(ten_labels(mended), fig.add_subplot(), rows, list("0123456789"))
fig.suptitle("Mended: the label decides", x=0.01, ha="left", weight="bold")
alt = (
    "The upper halves of a 3, a 5 and a 9, completed with ten labels. The lower halves "
)
alt += "differ: the 3 becomes a 7 or a 2, the 5 a 6, the 9 a 7; some are blurred."
show(fig, alt=alt)
print(f"this network: test loss {right:.3f}, a wrong label adds {added:.3f}")
print("three seeds                 test loss              a wrong label adds")
for name in "groups 32", "scale and shift", "groups 8":
    print(f"  {name:24}", told(f"{name}: loss"), "  ", told(f"{name}: adds"))
holds(added > 0.15 and right < 0.13, "The mended network uses its label.")

# %% [markdown]
# Where label and upper half contradict each other, the answer is more blurred: no such pair was in the training.
#
# ## Four patients
#
# What would tell you that a network ignores its label, if not the loss? Four more networks, all with 8 groups, have something wrong with the label:
#
# - **detached**: `table(label).detach()`, so the table has no gradient;
# - **forgotten**: the table is not given to the optimizer;
# - **faint**: the label's vector from the table is divided by 100;
# - **hidden**: in training, 95 of 100 labels are replaced by "any digit".
#
# Before you run the chart, note for each patient: is its loss that of a network without labels? Has its table a gradient? Does a wrong label add anything?

# %% jupyter={"source_hidden": true}
CASES = {"healthy": "groups 8", "detached": "detached", "forgotten": "forgotten"}
CASES |= {"faint": "faint", "hidden": "hidden", "32 groups": "groups 32"}
SIGNS = {"test loss": "loss", "vector / sum": "share"}
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
        sum(row("no label: loss")) / 3, color="#222222", lw=0.9, ls="--"
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
        "about as much": "Ten random vectors are ten different vectors, and the layers "
        "after the table learn what to make of them.",
    },
    after="A table that learns ten times as fast, and moves by a fifth, brings no more "
    "either. The appendix has a task in which the table must move.",
)

# %% [markdown]
# The *table's gradient* is missing in a network that uses its label (detached), and is as large as usual in one that hardly does (hidden). The vector's *share* is about as large where nothing passes as in the healthy network.
#
# The swap test tells whether the label is **used**: as much as by the healthy network, little (faint, hidden), or not at all (32 groups). It does not tell whether the label **helps**. That the loss tells, beside the dashed line, the loss of a network without labels: the hidden one makes some use of its label, and is no better than without. Detached and forgotten are as good as the healthy one.
#
# **Law 2.** Whether a condition is used is measured by exchanging it, and whether it helps, by a network trained without it. A loss that falls, a large vector, a usual gradient: each was there in a network that makes little or no use of its label.
#
# ## A U-Net
#
# Real U-Nets have more channels at a smaller size. Ours goes from 8 × 8 pixels with 32 channels to 4 × 4 with 64 and 2 × 2 with 128, and back, with `GroupNorm(32, channels)` in all its blocks (folded). After 300 steps a wrong label adds 0.20 to 0.22, nearly as much as in the healthy network above (stored runs). Does each level use the label? We set the label's vectors to zero, in all blocks of one level.


# %% jupyter={"source_hidden": true}
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = 32, 64, 128
        self.table, self.change = nn.Embedding(11, 32), lambda vectors: vectors
        self.first = nn.Conv2d(1, 32, 3, padding=1)
        self.maps = nn.ModuleList(nn.Linear(32, size) for size in sizes)
        self.down = nn.ModuleList(Block(32, size) for size in sizes)
        self.up = nn.ModuleList(Block(32, size) for size in sizes[:2])
        self.shrink, self.grow = nn.ModuleList(), nn.ModuleList()
        for a, b in ((32, 64), (64, 128)):
            self.shrink.append(nn.Conv2d(a, b, 3, stride=2, padding=1))
            self.grow.append(nn.ConvTranspose2d(b, a, 2, stride=2))
        self.norm, self.last = nn.GroupNorm(8, 32), nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, x, label):
        told, x, kept = self.change(self.table(label)), self.first(x), []
        for at, block in enumerate(self.down):
            x = block(self.shrink[at - 1](x) if at else x, self.maps[at](told))
            kept.append(x)
        for at in (1, 0):
            x = self.up[at](kept[at] + self.grow[at](x), self.maps[at](told))
        return self.last(F.silu(self.norm(x)))


# %% tags=["predict"]
guess = predict(
    "The label's vectors set to zero at one level: at which does the loss grow?",
    ["at none", "64 and 128 channels", "128 channels", "all three"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
LEVELS = {f"{n} channels": row(f"U-Net: without {n}") for n in (32, 64, 128)}
ax = plots.plot_rows(LEVELS, Figure(figsize=(6, 2.6)).add_subplot())
ax.set_xlabel("added to the test loss by zeros for the label's vectors of a level")
ax.set_title("A network that uses its label, and a level that does not")
alt = "Dots of three seeds for levels of 32, 64 and 128 channels: exactly 0, about "
show(ax.figure, alt=alt + "0.02, and 0.02 to 0.03.")
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
    after="The swap test of the whole network found nothing. In networks for noisy "
    "pictures the vector of the time takes the same way as the label's.",
)

# %% [markdown]
# ## A network to mend
#
# In another network each of two blocks has attention between its pixels. Pixel i has a query, a key and a value; its output is the mean of all values, weighted by the
# softmax of the scores query i · key j ([lesson 08a](08a_attention.ipynb)). The label's vector is added to all keys.


# %%
class Handed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.qkv, self.told = nn.Conv2d(width, 3 * width, 1), nn.Linear(width, width)

    def forward(self, x, label):
        h = self.norm2(self.conv1(F.silu(self.norm1(x))))
        # query, key and value: (batch, pixels, channels)
        q, k, v = self.qkv(h).flatten(2).mT.chunk(3, dim=-1)
        k = k + self.told(F.silu(label))[:, None]
        h = F.scaled_dot_product_attention(q, k, v).mT.unflatten(2, x.shape[2:])
        return x + self.conv2(F.silu(h))


# %% [markdown]
# ### Exercise 3 · 12 minutes · ●●●●○
#
# After 300 steps a wrong label adds less than 0.0001, with three seeds (stored runs). Find out why, and return a block of a given width whose network uses its label: any block will do with which a wrong label adds at least 0.05 after only 150
# steps of 16 digits (with two seeds, and three of the nine wrong labels), and the loss is at most 0.25. Measure first, in a cell of your own: `fresh(0, block=Handed)` is such a network, `train(model, 0, 150, size=16)` trains it, `swap_test(model)` tests it, and `torch.autograd.grad` tells where
# the gradient ends.
#
# <details><summary>Hint 1</summary>Compare the gradients of the vector, of the keys and of the scores. What does the vector add to the 64 scores of one query?</details>
# <details><summary>Hint 2</summary>softmax(s + c) = softmax(s), if c is the same for all scores of a query. Where in this block would a vector that is the same for all pixels not cancel?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "listening-block", "locked": false, "schema_version": 3, "solution": true, "task": false}
def listening_block(width):
    """Return a block whose network uses its label."""

    ### BEGIN SOLUTION
    class Listening(Handed):
        def forward(self, x, label):
            h = self.norm2(self.conv1(F.silu(self.norm1(x))))
            q, k, v = self.qkv(h).flatten(2).mT.chunk(3, dim=-1)
            v = v + self.told(F.silu(label))[:, None]
            h = F.scaled_dot_product_attention(q, k, v).mT.unflatten(2, x.shape[2:])
            return x + self.conv2(F.silu(h))

    return Listening(width)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "listening-block-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(listening_block, "listening_block")

# %% [markdown]
# ## Three kinds of branches
#
# A label can be a branch of its own. The residual block of lesson 07a has up to three, and each adds to the stream:
#
#     x = x + sequence_mixer(norm(x))               # positions exchange information
#     x = x + condition_mixer(norm(x), condition)   # positions read the condition
#     x = x + mlp(norm(x))                          # each position by itself
#
# The condition mixer is cross-attention: each position makes a query, and the tokens of the condition make keys and values. The package has it as `QKVConditionMixer` (two options of [lesson 08a](08a_attention.ipynb) are off). With a label as one token:

# %%
from residual_edu import Attention, QKVConditionMixer

# %% tags=["predict"]
guess = predict(
    "One token: the condition mixer's output at a position depends on",
    ["the position's x", "the token", "both"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
torch.manual_seed(0)
heads = Attention(48, 4, apply_qk_norm=False, use_rope=False)
cross, x = QKVConditionMixer(48, heads), torch.randn(2, 16, 48)
for amount in 1, 4:
    tokens = torch.randn(2, amount, 48)
    others = (torch.randn_like(x), tokens), (x, torch.randn_like(tokens))
    far = [(cross(*other) - cross(x, tokens)).abs().max().item() for other in others]
    print(f"tokens: {amount}; another x: {far[0]:.1f}, other tokens: {far[1]:.1f}")
    if amount == 1:
        on = tuple(one > 1e-4 for one in far)
guess.reveal(
    {(True, False): "the position's x", (False, True): "the token"}.get(on, "both"),
    why={
        "the position's x": "It makes the query, and a query only weighs the tokens.",
        "the token": "A softmax over one score is 1, whatever the query is.",
        "both": "A query chooses among tokens. With one there is no choice.",
    },
    after="All positions receive the same vector. With four tokens the query counts, "
    "so a label becomes four tokens below.",
)

# %% [markdown]
# ### 48 blocks from one description
#
# A network needs many blocks of one kind. `[build(block)] * 48` is 48 times the *same* block: it runs, and has the parameters of one. So one does not hand over a block, but a
# description that can be built often. `LazyConfig` is a `functools.partial` that refuses a misspelt argument where it is written; `build` makes the module. `nn.Identity` in the place of a branch leaves it out ([lesson 07a](07a_residual_block.ipynb)).

# %%
from residual_edu import MLP, InvalidInput, LayerNorm, LazyConfig, ResidualBlock, build

norm = LazyConfig(LayerNorm)(dim=48)
mlp = LazyConfig(MLP)(
    dim=48, activation="gelu", dropout_cfg=nn.Identity, expansion_factor=4, bias=True
)
off = {"sequence_mixer_cfg": nn.Identity, "sequence_mixer_norm_cfg": nn.Identity}
off |= {"condition_mixer_cfg": nn.Identity, "condition_mixer_norm_cfg": nn.Identity}
block = LazyConfig(ResidualBlock)(
    **off, mlp_cfg=mlp, mlp_norm_cfg=norm, dropout_cfg=nn.Identity
)
for blocks in [build(block)] * 48, [build(block) for _ in range(48)]:
    amount = sum(p.numel() for p in nn.Sequential(*blocks).parameters())
    print(f"{len(blocks)} blocks, {amount:,} parameters")
try:
    LazyConfig(MLP)(dim=48, activation="gelu", expansion=4)
except InvalidInput as error:
    print("refused:", str(error).splitlines()[0][:60])

# %% [markdown]
# A block also marks its norms as spared from weight decay ([lesson 05](05_layer_scale.ipynb)), and `parameter_groups` reads the marks; it spares all biases too:

# %%
from residual_edu import parameter_groups

decayed, spared = parameter_groups(build(block), weight_decay=0.01)
for group in decayed, spared:
    print(f"weight decay {group['weight_decay']}:", [len(p) for p in group["params"]])

# %% [markdown]
# ### A network from these pieces
#
# The same task with attention: 16 patches of 2 × 2 pixels (`Patchify`, a convolution with a stride), a learned vector for each row and column of patches, four blocks of three branches with 48 channels, and
# a way back to pixels. (Folded: the settings of the branches, and `Told`, which makes four tokens of a label for the package's `ResidualNetwork`.)


# %% jupyter={"source_hidden": true}
from residual_edu import Patchify, PositionEmbedding, QKVSequenceMixer, Unpatchify

attention = LazyConfig(Attention)(
    hidden_dim=48, num_heads=4, apply_qk_norm=False, use_rope=False
)
mixer = LazyConfig(QKVSequenceMixer)(hidden_dim=48, mixer_cfg=attention)
cross = LazyConfig(QKVConditionMixer)(hidden_dim=48, mixer_cfg=attention)
three = LazyConfig(ResidualBlock)(
    sequence_mixer_cfg=mixer,
    sequence_mixer_norm_cfg=norm,
    condition_mixer_cfg=cross,
    condition_mixer_norm_cfg=norm,
    mlp_cfg=mlp,
    mlp_norm_cfg=norm,
    dropout_cfg=nn.Identity,
)


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


# %% jupyter={"source_hidden": true}
from residual_edu import ResidualNetwork


class Pixels(Unpatchify):
    def __init__(self, in_features, out_features):
        super().__init__(in_features, out_features, data_dim=2, patch_size=2)
        nn.init.normal_(
            self.deconv.weight, std=0.1
        )  # torch's start is 5 times as large


class Told(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 4 * 48)
        ends = {"in_channels": 1, "in_proj_cfg": Patches}
        ends |= {"out_channels": 1, "out_proj_cfg": Pixels, "norm_cfg": norm}
        sizes = {"num_blocks": 4, "hidden_dim": 48, "data_dim": 2}
        self.net = ResidualNetwork(
            **ends, **sizes, block_cfg=three, dropout_in_cfg=nn.Identity
        )

    def forward(self, x, label):  # the package has channels last
        tokens = self.table(label).unflatten(-1, (4, 48))
        inputs = {"input": x.movedim(1, -1), "condition": tokens}
        return self.net(inputs)["logits"].movedim(-1, 1)


# %% tags=["trained"]
model = fresh(0, Told)
train(model, 0, steps=300, rate=0.002, size=64)
whole, added = swap_test(model)
print(f"this network: test loss {whole:.3f}, a wrong label adds {added:.3f}")
print("three seeds               ", told("told: loss"), "  ", told("told: adds"))
holds(whole < 0.16 and added > 0.1, "This network uses its label.")

# %% [markdown]
# ## Whose branch matters?
#
# Twelve branches. Remove one, and see what is lost. A forward hook that returns a tensor replaces the layer's output by it:


# %%
def silent(layer, given, out):
    return torch.zeros_like(out)


@torch.no_grad()
def without(layers, loss, instead=silent):
    """Return the loss while the layers return zeros."""
    hooks = [layer.register_forward_hook(instead) for layer in layers]
    found = loss()
    for hook in hooks:
        hook.remove()
    return found


# %% jupyter={"source_hidden": true}
KINDS = {"attention": "sequence_mixer", "condition": "condition_mixer", "MLP": "mlp"}
NORMS = {"sequence_mixer": "input_norm", "mlp": "mlp_norm"}
NORMS["condition_mixer"] = "condition_mixer_norm"


@torch.no_grad()
def branch_sizes(blocks, kinds, loss):
    """Return each branch's size over that of the stream after it, by block and kind."""
    seen, names = {}, [KINDS[kind] for kind in kinds]
    pairs = [
        (getattr(b, name), getattr(b, NORMS[name])) for b in blocks for name in names
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


# %% [markdown]
# Each of the twelve removed alone, three seeds:


# %% tags=["figure", "trained"]
def each_branch(name, kinds=KINDS):
    """Return stored numbers of all branches, (seeds, blocks, kinds)."""
    places = [f"{kind} {block + 1}" for block in range(4) for kind in kinds]
    found = [[stored[seed][f"{name} {p}"] for p in places] for seed in range(3)]
    return torch.tensor(found).view(3, 4, len(kinds))


alone = each_branch("told: without")
ax = plots.plot_removed(alone, list(KINDS), Figure(figsize=(6, 3.6)).add_subplot())
ax.set_title("Removed alone, each branch costs something")
alt = (
    "What removing one of twelve branches adds to the test loss, three seeds: 0.04 to "
)
alt += "0.08 in block 1, 0.01 to 0.05 in the blocks after it."
show(ax.figure, alt=alt)
now = without([model.net.blocks[0].mlp], lambda: loss_of(model, new, truth)) - whole
print(f"this network, without the MLP of block 1: {now:+.3f}")
holds(alone.min() > 0, "Each branch costs something.")

# %% [markdown]
# The four MLPs, removed one at a time, cost this much, and their sum:

# %% tags=["trained"] jupyter={"source_hidden": true}
for seed, four in enumerate(alone[..., 2].tolist()):
    print(f"seed {seed}:", *[f"{x:.3f}" for x in four], f"  sum {sum(four):.3f}")
holds(alone[..., 2].min() > 0, "Each MLP costs something.")

# %% tags=["predict"]
guess = predict(
    "All four MLPs at once cost",
    ["less than the sum", "about the sum", "about twice or more"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
sums = alone.sum(1)
SUMS = {k: (sums[:, at], row(f"told: without all {k}")) for at, k in enumerate(KINDS)}
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
        "less than the sum": "It is more: for the MLPs about twice the sum, for the "
        "others 1.0 to 2.1 times.",
        "about the sum": "For one of three seeds of attention it is that.",
        "about twice or more": "For attention and condition it is 1.0 to 2.1 times.",
    },
    after="So single removals do not add up.",
)

# %% [markdown]
# Part of this is arithmetic. Each MLP that is removed changes the output, and the loss squares changes. If the four changes simply *add up* in the output, the loss grows by the four single costs and by twice the products of each two changes, which are positive where two changes agree. We add
# them up:


# %% tags=["trained"]
def completed(layers=()):
    """Return the completed pictures without some layers."""
    return without(layers, lambda: model(upper(new), truth))


def cost(out):
    return (out - new)[:, :, 4:].square().mean().item() - whole


mlps = [[block.mlp] for block in model.net.blocks]
base, every = completed(), completed(sum(mlps, []))
changes = [completed(one) - base for one in mlps]
single = sum(cost(base + change) for change in changes)
print(f"the four single costs, added           {single:.3f}")
print(f"the four changes, added in the output  {cost(base + sum(changes)):.3f}")
print(f"all four removed at once               {cost(every):.3f}")
holds(cost(base + sum(changes)) > 1.1 * single, "The square explains a part.")

# %% [markdown]
# Three seeds, as multiples of the four single costs, and the same after ten times the steps (stored runs):

# %% tags=["trained"] jupyter={"source_hidden": true}
print(f"{'':27}  300 steps      3,000 steps")
for title, key in {
    "changes added in the output": "changes added",
    "all four at once": "at once",
}.items():
    print(f"{title:27}  {told(f'told: {key}', 1)}  {told(f'long: {key}', 1)}")
shift = row("told: changes added"), row("told: at once")
holds(all(b > 1.1 * a for a, b in zip(*shift, strict=True)), "At once costs more.")
more = row("long: changes added") + row("long: at once")
holds(min(more) > 1.1, "Single costs do not add up after 3,000 steps either.")

# %% [markdown]
# If each MLP changed the output whether or not the others are there, both lines would be the same. They are not: **what one MLP does depends on the others.** After 300 steps the four at once cost more than their changes added, after 3,000 less with two seeds of three.
#
# ### Can it be read off the stream?
#
# Removal takes a run for each branch. A size is free: how large is a branch beside the stream that it is added to? And there is something even cheaper: a branch's place in the stack. We compare the order by removal with the order
# by size and with the order by place (first to last), as rank correlations: 1 is the same order, 0 no relation.
#
# So that it is not one task alone, a second network: four blocks without condition mixers, in which `ClassificationResNet` averages all positions and predicts the digit of a whole picture.

# %% jupyter={"source_hidden": true}
from residual_edu import ClassificationResNet

two = LazyConfig(ResidualBlock)(
    sequence_mixer_cfg=mixer,
    sequence_mixer_norm_cfg=norm,
    condition_mixer_cfg=nn.Identity,
    condition_mixer_norm_cfg=nn.Identity,
    mlp_cfg=mlp,
    mlp_norm_cfg=norm,
    dropout_cfg=nn.Identity,
)


# %% jupyter={"source_hidden": true}
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = ClassificationResNet(
            1, 10, 4, 48, 2, Patches, nn.Linear, norm, two, nn.Identity
        )

    def forward(self, x):
        return self.net({"input": x.movedim(1, -1), "condition": None})["logits"]


def classify(model, x, label):
    return F.cross_entropy(model(x), label)


def ranks(values):
    return torch.as_tensor(values).argsort().argsort().double()


def agree(a, b):
    """Return the rank correlation."""
    return torch.corrcoef(torch.stack([ranks(a), ranks(b)]))[0, 1].item()


# %% tags=["trained"] jupyter={"source_hidden": true}
print("share of new digits read, three seeds:", told("reads: right"))
holds(min(row("reads: right")) > 0.9, "The classifier reads digits.")

NETS = {"told": ("completes", list(KINDS)), "reads": ("reads", ["attention", "MLP"])}
NETS["long"] = "3,000 steps", list(KINDS)

# %% tags=["predict"]
guess = predict(
    "The order by removal is nearest to the order by",
    ["size, in both", "place, in both", "size, then place", "place, then size"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
wins = {}
print("rank correlations   removal, size         removal, place        size, place")
for name, (label, kinds) in NETS.items():
    lost = each_branch(f"{name}: without", kinds).flatten(1)
    sizes = each_branch(f"{name}: size", kinds).flatten(1)
    first = [-torch.arange(lost.shape[1])] * 3
    rows = (sizes, lost), (first, lost), (first, sizes)
    by = [[agree(a, b) for a, b in zip(*pair, strict=True)] for pair in rows]
    columns = ["  ".join(f"{x:5.2f}" for x in three) for three in by]
    print(f"{label:16}", "  ".join(columns))
    wins[name] = sum(size > place for size, place, _ in zip(*by, strict=True))
holds(wins["told"] == 3, "In the first network size is better.")
at = 2 * (wins["told"] > 1) + (wins["reads"] > 1)
words = ["place, in both", "place, then size", "size, then place", "size, in both"]
guess.reveal(
    words[at],
    why={
        "size, in both": "In the second network it is mostly place.",
        "place, in both": "Not in the first network.",
        "size, then place": "In the second with two seeds of these three.",
        "place, then size": "It is the other way round.",
    },
    after="The last column: after 300 steps large branches stand early, so the two "
    "orders are not independent. The last row is the first network, trained longer.",
)

# %% [markdown]
# All branches of three networks in one picture: the twelve of this lesson's last network, and the label's vectors of the first one, with 32 groups and with 8 (three seeds each):


# %% tags=["figure", "trained"]
def vectors(name):
    """Return sizes and effects of the label's two vectors, three seeds."""
    keys = "size 1", "size 2", "without 1", "without 2"
    found = [row(f"{name}: {key}") for key in keys]
    return found[:2], found[2:]


DOTS = {
    "label, 32 groups": vectors("groups 32"),
    "label, 8 groups": vectors("groups 8"),
}
DOTS["twelve branches"] = each_branch("told: size").flatten(), alone.flatten()
ax = plots.plot_shares(DOTS, Figure(figsize=(6, 4)).add_subplot())
ax.set_title("Half of the sum, and no effect")
alt = "Effect of removal over size, a mark a branch. Twelve branches: the larger, the "
alt += "more costly, roughly. The label's vectors with 8 groups: half of the sum, and "
show(ax.figure, alt=alt + "costly. With 32 groups: as large, and exactly no effect.")
none = max(abs(one) for two in DOTS["label, 32 groups"][1] for one in two)
some = min(one for two in DOTS["label, 8 groups"][1] for one in two)
print(f"label's vectors removed: at most {none:.4f} with 32 groups,", end=" ")
print(f"at least {some:.4f} with 8")
holds(none < 1e-5 < 0.01 < some, "As large, and no effect.")

# %% [markdown]
# And does it matter *how* a branch is removed? Instead of zeros, a branch can be set to its mean over the test digits; then only what differs from digit to digit is lost. The single costs of a kind, added up, three seeds:

# %% tags=["trained"] jupyter={"source_hidden": true}
means, zeros = each_branch("told: averaged").sum(1), alone.sum(1)
longer = each_branch("long: averaged").sum(1) / each_branch("long: without").sum(1)
print(f"{'':12} set to 0               set to the mean        part left, 3,000 steps")
for at, kind in enumerate(KINDS):
    cells = [f"{x:.3f}" for x in (*zeros[:, at].tolist(), *means[:, at].tolist())]
    left = "  ".join(f"{x:.2f}" for x in longer[:, at].tolist())
    print(f"{kind:12}", "  ".join(cells[:3]), "  ", "  ".join(cells[3:]), "  ", left)
for part in means / zeros, longer:
    holds(
        part[:, 2].max() < 0.6 and part[:, 1].min() > 0.8,
        "The kinds lose unlike parts.",
    )

# %% [markdown]
# The mean takes more than half of the MLPs' cost away, and about a tenth of the condition's (also after 3,000 steps, last columns). So what a removal costs, and which kind costs most, depends on what stands in the branch's place.
#
# **Law 3.** Size alone does not say what a branch does: it ordered the branches of one network and not of the other. Removal measures the effect of one set of branches, replaced in one way.
#
# ### Find out
#
# The network of this lesson, with branches removed as it completes ten digits. **Which single branch costs most? Which two cost more together than alone, added? Without all condition mixers: which
# digits still come out right, and why these?**

# %% tags=["explorer"] jupyter={"source_hidden": true}
from residual_edu.explorers.conditions import explore_branches

ten = torch.stack([new[truth == digit][1] for digit in range(10)])


def ten_without(gone):
    """Return ten completed digits and the test loss without some branches."""
    kinds, asked = list(KINDS.values()), torch.arange(10, device=device)
    layers = [getattr(model.net.blocks[block], kinds[kind]) for block, kind in gone]
    loss = without(layers, lambda: loss_of(model, new, truth))
    made = without(layers, lambda: model(upper(ten), asked))
    return torch.cat([ten[:, 0, :4], made[:, 0, 4:]], dim=1).cpu(), loss.item()


explore_branches(ten_without, ten[:, 0].cpu())

# %% [markdown]
# ## What practice does
#
# - **diffusers** has the same block: `ResnetBlock2D` adds the time's vector before its second norm (`time_embedding_norm="default"`), with `norm_num_groups=32` as the default of its
# [UNet2DModel](https://github.com/huggingface/diffusers/blob/main/src/diffusers/models/unets/unet_2d.py). Who sets the first of `block_out_channels` to 32 has our block there.
# - **Swap the condition** before you publish: it costs one evaluation.
#
# **Limits.** Two tasks with digits of 8 × 8 pixels. Removal is a large step: the network never saw a stream without that branch. All of this is after 300 steps (100 for the classifier): with ten times as many a faint label was used (one seed), and a hidden one was not.
#
# ## Summary
#
# The folded cell holds the code of the stored runs, about two minutes a seed. A first reader may skip it.


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
class OnStream(Block):
    def forward(self, x, label):
        x = x + self.told(F.silu(label))[:, :, None, None]
        h = self.conv1(F.silu(self.norm1(x)))
        return x + self.conv2(F.silu(self.norm2(h)))


class ScaleBefore(ScaleShift):
    factor = staticmethod(lambda scale: 1 + scale)

    def forward(self, x, label):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.told(F.silu(label))[:, :, None, None].chunk(2, dim=1)
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
    "scale and shift": {"block": ScaleShift},
    "64 channels": {"width": 64},
    "detached": {"groups": 8, "change": torch.Tensor.detach},
    "forgotten": {"groups": 8, "frozen": ["table.weight"]},
    "faint": {"groups": 8, "change": lambda vectors: vectors / 100},
    "hidden": {"groups": 8, "hidden": 0.95},
    "BatchNorm2d": {"block": partial(OtherNorm, partial(nn.BatchNorm2d, 32))},
    "rms of a channel": {"block": partial(OtherNorm, ChannelRMS)},
    "added to the stream": {"block": OnStream},
    "ten times the rate": {"groups": 8, "change": lambda v: 10 * v, "start": 0.1},
    "keys": {"block": Handed},
    "scale before": {"block": ScaleBefore},
    "positive scale before": {"block": PositiveScaleBefore},
    "two numbers": {"groups": 8, "change": two_numbers},
    "two held": {"groups": 8, "change": lambda vectors: two_numbers(vectors).detach()},
    "two faster": {"groups": 8, "change": lambda v: 10 * two_numbers(v), "start": 0.1},
}
SIZED = [*(f"groups {n}" for n in (32, 16, 8, 1)), "detached", "forgotten"]
SIZED += ["faint", "hidden"]


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
    if name in SIZED:
        out["size 1"], out["size 2"] = shares(net)
        for at, block in enumerate(net.blocks):
            loss = without([block.told], lambda: loss_of(net, new, truth))
            out[f"without {at + 1}"] = loss - whole
        out["share"] = out["size 1"]
    return {f"{name}: {key}": number for key, number in out.items()}


# %% jupyter={"source_hidden": true}
def level_runs(seed):
    """Return the stored numbers of the U-Net."""
    net, out = fresh(seed, UNet), {}
    train(net, seed)
    out["loss"], out["adds"] = whole, _ = swap_test(net)
    for at, size in enumerate((32, 64, 128)):
        layers = [
            block.told for block in (*net.down[at : at + 1], *net.up[at : at + 1])
        ]
        out[f"without {size}"] = (
            without(layers, lambda: loss_of(net, new, truth)) - whole
        )
    return {f"U-Net: {key}": number for key, number in out.items()}


# %% jupyter={"source_hidden": true}
def branch_runs(net, name, kinds, loss):
    """Return size and effect of each branch, and the effect of all of a kind."""
    whole, out, blocks = without([], loss), {}, net.net.blocks
    sizes = iter(branch_sizes(blocks, kinds, loss))
    for at, block in enumerate(blocks):
        for kind in kinds:
            layer, place = [getattr(block, KINDS[kind])], f"{kind} {at + 1}"
            out[f"without {place}"] = without(layer, loss) - whole
            out[f"averaged {place}"] = without(layer, loss, averaged) - whole
            out[f"size {place}"] = next(sizes)
    for kind in kinds:
        every = [getattr(block, KINDS[kind]) for block in blocks]
        out[f"without all {kind}"] = without(every, loss) - whole
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


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.15):
    """Return what labels and branches do in all networks of the lesson."""
    out = {}
    for name, how in NETWORKS.items():
        out |= label_runs(seed, name, **how)
    out |= level_runs(seed)
    for name, steps in {"told": 300, "long": 3000}.items():
        net = fresh(seed, Told)
        train(net, seed, steps=steps, rate=0.002, size=64)
        whole, out[f"{name}: adds"] = swap_test(net)
        loss = partial(loss_of, net, new, truth)
        out |= {f"{name}: loss": whole} | branch_runs(net, name, list(KINDS), loss)
        out |= added_up(net, name, whole)
    net = fresh(seed, Classifier)
    train(net, seed, steps=100, rate=0.002, size=64, loss=classify)
    with torch.no_grad():
        out["reads: right"] = (net(new).argmax(-1) == truth).double().mean().item()
    kinds = ["attention", "MLP"]
    out |= branch_runs(net, "reads", kinds, lambda: classify(net, new, truth))
    return {name: float(f"{number:.4g}") for name, number in out.items()}


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. What is added to all pixels of a channel does not pass a norm that subtracts this channel's mean: no effect, no gradient | groups of two channels and more lose one number a group; BatchNorm, a norm without a mean, or a skip round all such norms lets it pass |
# | 2. Exchanging a condition measures whether it is used, a network without it whether it helps; a falling loss, size and the table's gradient do not tell | the whole may use it and a part of it not (the U-Net); a label can change the output and not the loss |
# | 3. Size alone does not say what a branch does. Removal measures the effect of one set, replaced in one way; effects do not add up | two tasks; zeros cost the MLPs twice as much as their mean, and the condition hardly more |

# %%
summary("07b")

# %% [markdown]
# ## Next
#
# - [Lesson 08a](08a_attention.ipynb) opens the part in which positions exchange information.
# - [The appendix](07b_conditions_and_networks_more.ipynb): the finished pieces, a config of your own, a table that must move, and more controls.
# - [Homework for lessons 06, 07a and 07b](homework/hw_06_07.ipynb).
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
