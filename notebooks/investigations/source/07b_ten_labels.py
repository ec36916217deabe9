# %% [markdown]
# # Investigation 07b · Ten labels, one picture: where a norm eats a label
#
# 45 minutes. You need [lesson 07b](../07b_conditions_and_networks.ipynb), and what a norm does
# to four numbers ([lesson 02](../02_layer_norm.ipynb)). No lesson needs this.
#
# A network is told ten different labels and draws ten times the same picture, while its loss
# falls as it should. Where does the label get lost? And which of the usual signs, the loss, the
# size of the label's vector, its gradient, would have told us?

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.lesson import predict, setup, show, stored_runs

device = setup()

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.plots.rows import plot_rows
from residual_course.plots.style import SERIES
from residual_course.plots.adaln_zero import plot_digits

data = digits()
pictures, new = (2 * x[:, None].to(device) - 1 for x in data[::2])  # paper -1, ink 1
labels, truth = (y.to(device) for y in data[1::2])
stored = stored_runs("07b_ten_labels")["runs"]
shown = torch.stack([new[truth == digit][0] for digit in (3, 5, 9)])


def long(name):
    """Return a stored number for each of three seeds."""
    return [seed[name] for seed in stored.values()]


def upper(x):
    return torch.cat([x[:, :, :4], torch.zeros_like(x[:, :, 4:])], dim=2)


def loss_of(model, x, label):
    return (model(upper(x), label) - x)[:, :, 4:].square().mean()


def rms(x):
    return x.square().mean().sqrt().item()


@torch.no_grad()
def ten_labels(model):
    """Return each shown upper half, completed with the labels 0 to 9."""
    made = [model(upper(shown), torch.full_like(truth[:3], k)) for k in range(10)]
    lower = torch.stack(made, dim=1)[:, :, 0, 4:]
    return torch.cat([shown[:, :, :4].expand(-1, 10, -1, -1), lower], dim=2).cpu()


def sheet(model, title):
    figure = Figure(figsize=(6, 2.3))
    rows = ["a 3", "a 5", "a 9"]
    plot_digits(ten_labels(model), figure.add_subplot(), rows, list("0123456789"))
    figure.suptitle(title, weight="bold")
    return figure


def dots(rows, title, label):
    ax = Figure(figsize=(6, 0.45 * len(rows) + 1.1)).add_subplot()
    plot_rows(rows, ax)
    ax.set_xlabel(label)
    ax.set_xlim(left=0)
    ax.figure.suptitle(title, weight="bold")
    return ax.figure


# %% [markdown]
# ## 1 · A loss that falls
#
# The network completes handwritten digits: it receives the upper half of a picture, and a
# label that says which digit it is. Its two blocks are those of the networks that draw pictures
# (U-Nets): norm, SiLU, convolution, then *the label's vector is added to every pixel*, and norm,
# SiLU, convolution.
#
# `GroupNorm(g, channels)` divides the channels into g groups, and takes one mean and one
# deviation for each group, over its channels and all pixels. In
# [openai/improved-diffusion](https://github.com/openai/improved-diffusion/blob/main/improved_diffusion/nn.py)
# there are 32 groups, whatever the number of channels. Ours has 32 channels, to train on a
# laptop.


# %%
class Block(nn.Module):
    def __init__(self, groups=32, width=32, vectors=1):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, width)
        self.norm2 = nn.GroupNorm(groups, width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.vector = nn.Linear(width, vectors * width)

    def forward(self, x, label):
        h = self.conv1(F.silu(self.norm1(x)))
        vector = self.vector(F.silu(label))  # (batch, channels)
        h = h + vector[:, :, None, None]  # the same for all pixels of a channel
        return x + self.conv2(F.silu(self.norm2(h)))


# %% [markdown]
# (Folded: the network around two such blocks, and 300 steps of Adam. A table holds a vector for
# each label. The loss is the mean squared error of the lower half.)


# %% jupyter={"source_hidden": true}
class Completer(nn.Module):
    def __init__(self, block=Block, **sizes):
        super().__init__()
        self.table, self.first = nn.Embedding(10, 32), nn.Conv2d(1, 32, 3, padding=1)
        self.blocks = nn.ModuleList(block(**sizes) for _ in range(2))
        self.norm, self.last = nn.GroupNorm(8, 32), nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, x, label):
        x, label = self.first(x), self.table(label)
        for block in self.blocks:
            x = block(x, label)
        return self.last(F.silu(self.norm(x)))


def fresh(seed=0, **settings):
    torch.manual_seed(seed)
    return Completer(**settings).to(device)


def train(model, seed=0, steps=300, size=32):
    generator, losses = torch.Generator().manual_seed(seed), []
    adam = torch.optim.Adam(model.parameters(), 0.003, fused=True)
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, 0.003, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(pictures), (size,), generator=generator).to(device)
        loss = loss_of(model, pictures[rows], labels[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
        losses.append(loss.item())
    return losses


# %% one-picture tags=["trained"]
sick = fresh()
losses = train(sick)
print(
    f"training loss {losses[0]:.2f}, mean of the last 50 {sum(losses[-50:]) / 50:.3f}"
)
show(sheet(sick, "Told 0 to 9, it draws one picture"))

# %% [markdown]
# Nothing warns. But in each row all ten labels give the same lower half.
#
# ## 2 · Is the label's vector too small?
#
# We swap the labels: each digit is told each of the nine wrong ones. What **a wrong label adds**
# is the mean loss with wrong labels minus the loss with the right one. Beside it we print the
# size of the vector over that of the sum h + vector, in both blocks.


# %% swapped tags=["trained"]
@torch.no_grad()
def swap_test(model):
    """Return the test loss with right labels, and what a wrong label adds."""
    right = loss_of(model, new, truth).item()
    wrong = [loss_of(model, new, (truth + k) % 10).item() for k in range(1, 10)]
    return right, sum(wrong) / 9 - right


@torch.no_grad()
def shares(model):
    seen = []
    for block in model.blocks:
        for layer in block.conv1, block.vector:
            layer.register_forward_hook(lambda m, i, out: seen.append(out))
    loss_of(model, new, truth)
    pairs = zip(seen[::2], seen[1::2], strict=True)
    return [rms(v) / rms(h + v[:, :, None, None]) for h, v in pairs]


right, added = swap_test(sick)
parts = shares(sick)
print(f"test loss {right:.3f}, a wrong label adds {abs(added):.4f}")
print("vector / sum:", *[f"{part:.2f}" for part in parts])

# %% without-vectors tags=["trained"]
with predict(
    "The trained network, its vectors now set to 0: the test loss",
    ["stays as it is", "grows by a tenth", "about doubles"],
):
    for block in sick.blocks:
        block.vector.register_forward_hook(lambda m, i, out: 0 * out)
    with torch.no_grad():
        alone = loss_of(sick, new, truth).item()
    print(f"with the vectors {right:.6f}, without them {alone:.6f}")

# %% [markdown]
# So a vector can be half as large as the sum and have no effect at all.
#
# ## 3 · Where does the gradient end?
#
# We follow the gradient back from the loss of a new network, through block 1, to the label's
# table. Beside it is the same network with 8 groups in its blocks.

# %% way-back
PLACES = "norm's\noutput", "h", "vector", "label's\ntable"


def way_back(groups):
    """Return the size of the gradient at PLACES, in block 1 of a new network."""
    model, seen = fresh(groups=groups), {}
    block = model.blocks[0]
    for layer in (block.norm2, block.conv1, block.vector):
        layer.register_forward_hook(lambda m, i, out: seen.update({m: out}))
    loss = loss_of(model, pictures[:64], labels[:64])
    found = torch.autograd.grad(loss, [*seen.values(), model.table.weight])
    conv, vector, norm, table = (one.norm().item() for one in found)
    return norm, conv, vector, table


backward = {f"{groups} groups": way_back(groups) for groups in (32, 8)}
ax = Figure(figsize=(6, 3.4)).add_subplot()
for (name, sizes), (ink, dash, mark) in zip(backward.items(), SERIES, strict=False):
    ax.plot(sizes, dash, color=ink, marker=mark, label=name)
ax.set(yscale="log", ylabel="size of the gradient")
ax.set_xticks(range(len(PLACES)), PLACES)
ax.minorticks_off()
ax.margins(x=0.08, y=0.1)
ax.legend(loc="lower left")
ax.set_title("With 32 groups it ends between h and the vector")
show(ax.figure)

# %% [markdown]
# h receives a gradient, and the vector that is added to it only rounding errors. With 32 groups
# for 32 channels, each channel is normed by itself, over its pixels. Take a channel of four
# pixels, and a label that adds 5:

# %% four-pixels
h = torch.tensor([0.0, 0, 0, 4], requires_grad=True)
c = torch.tensor(5.0, requires_grad=True)
print("less its mean:    ", (h - h.mean()).detach())
print("with 5, less mean:", (h + c - (h + c).mean()).detach())
F.group_norm((h + c).view(1, 1, 4), 1)[0, 0, 3].exp().backward()
print("gradient of the 5:", round(c.grad.item(), 5) + 0)

# %% [markdown]
# The norm subtracts the mean, and with it all that the label added: norm(h + c) = norm(h) for
# every h and every number c. So no output depends on c, and its gradient is 0.
#
# ## 4 · What passes a group?
#
# With fewer groups, a group has several channels, and the norm subtracts one mean for all of
# them.

# %% groups
with predict(
    "GroupNorm with 32, 16, 8 or 1 groups on 32 channels: which use the label?",
    ["only 1", "8 and 1", "all but 32", "the fewer groups, the more"],
):
    NORMS = {f"{n} groups": long(f"groups {n}: adds") for n in (32, 16, 8)}
    NORMS["1 group"] = long("groups 1: adds")
    NORMS["64 channels, 32 groups"] = long("64 channels: adds")
    NORMS["rms of a channel, no mean"] = long("rms of a channel: adds")
    title = "One step from 32 groups to 16 is all it takes"
    show(dots(NORMS, title, "a wrong label adds to the test loss"))

# %% [markdown]
# If a label adds 3 to one channel of a pair and 5 to the other, the mean grows by 4, and −1
# and 1 are left. So each group costs one number: of a vector of 32 numbers 16 pass
# `GroupNorm(16, 32)`, and they are enough here. With 64 channels, 32 groups are pairs, and
# the block works. The last row divides each channel by its rms and subtracts nothing; there
# the label passes, so it is the mean that removes it. (These are stored runs of three seeds,
# from `notebooks/runs/07b.py`, as are the following.)
#
# ## 5 · Two mends
#
# Fewer groups are one mend. The other keeps 32 groups and lets the label act *after* the norm,
# by a scale and a shift for each channel, which is AdaLN
# ([lesson 06](../06_adaln_zero.ipynb)). In improved-diffusion this is the option
# `use_scale_shift_norm`; [SPADE](https://arxiv.org/abs/1903.07291) gives a similar reason for it.


# %% mended tags=["trained"]
class ScaleShift(Block):
    def __init__(self):
        super().__init__(vectors=2)

    def forward(self, x, label):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.vector(F.silu(label))[:, :, None, None].chunk(2, dim=1)
        return x + self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))


mended = fresh(block=ScaleShift)
train(mended)
right, added = swap_test(mended)
print(f"test loss {right:.3f}, a wrong label adds {added:.3f}")
show(sheet(mended, "After the norm the label counts"))

# %% [markdown]
# Some halves are blurred: no label in training contradicted its upper half as these do.
#
# ## 6 · Which sign finds which patient?
#
# In four more networks, all with 8 groups, something is wrong with the label:
#
# - *detached*: `table(label).detach()`, so the table has no gradient;
# - *forgotten*: the table is not given to the optimizer;
# - *faint*: the label's vector is divided by 100;
# - *hidden*: in training, 95 of 100 labels are replaced by "any digit".

# %% jupyter={"source_hidden": true}
CASES = {"healthy": "groups 8", "detached": "detached", "forgotten": "forgotten"}
CASES |= {"faint": "faint", "hidden": "hidden", "32 groups": "groups 32"}


def charts():
    """Draw for six networks the table's gradient, and what wrong labels add."""
    figure = Figure(figsize=(6, 3))
    left, right = figure.subplots(1, 2, sharey=True)
    none = [float("nan")]
    gradients = {
        case: none if case == "detached" else long(f"{name}: gradient")
        for case, name in CASES.items()
    }
    plot_rows(gradients, left)
    left.set_xscale("log")
    left.text(0.02, 0.9, "none", transform=left.get_yaxis_transform())
    left.set_title("table's gradient / all", weight="normal")
    adds = {case: long(f"{name}: adds") for case, name in CASES.items()}
    plot_rows(adds, right)
    right.set_xlim(left=0)
    right.set_title("a wrong label adds", weight="normal")
    figure.suptitle("The gradient is neither needed nor enough", weight="bold")
    return figure


# %% patients
with predict(
    "Detached, the table stays random. Beside the healthy one, a wrong label adds",
    ["nothing", "about half", "about as much"],
):
    show(charts())

# %% [markdown]
# The detached network has no gradient in its table, and uses its label like the healthy one:
# ten random vectors are different enough for the layers after them to learn. (In these 300
# steps the healthy table moves by 3 % only, so a table that hardly moved stands beside one
# that was held.) The hidden one has a gradient as large as the healthy one, and hardly uses
# its label.
#
# Does a label that is used also help? That takes another network, without labels, and the
# test losses of both:

# %% helps
for name in "no label, 8", "hidden", "faint", "groups 8":
    print(f"{name:12}", *[f"{loss:.4f}" for loss in long(f"{name}: loss")])

# %% [markdown]
# How much a wrong label adds is not how much the right one helps: beside the faint label, the
# hidden one adds more when it is wrong, and lowers the loss less when it is right.
#
# ## 7 · A network that uses its label, and a level that does not
#
# Real U-Nets have more channels at smaller sizes. One goes from 8 × 8 pixels with 32 channels to
# 4 × 4 with 64 and 2 × 2 with 128, and back, with 32 groups everywhere. Here a wrong label adds
# nearly as much as in the healthy network. But does each level use it? We set the label's
# vectors to zero, at one level at a time.

# %% levels
with predict(
    "The label's vectors set to 0 at one level: at which does the loss grow?",
    ["at none", "64 and 128 channels", "128 channels", "all three"],
):
    LEVELS = {f"{n} channels": long(f"U-Net: without {n}") for n in (32, 64, 128)}
    title = "The first level ignores its label"
    show(dots(LEVELS, title, "without its vectors the loss grows by"))
    print("a wrong label adds", *[f"{added:.3f}" for added in long("U-Net: adds")])

# %% [markdown]
# So the swap test of a whole network does not show a part that ignores its condition. In
# lesson 07b it was a part of the condition that was ignored, here it is a part of the
# network. Both are found by swapping less at a time.
#
# ## What we found
#
# - What is added to all pixels of a channel does not pass a norm that subtracts this channel's
#   mean, if nothing stands between. Groups of two channels were enough here.
# - The loss falls, the shapes fit, and the label's vector is half of what enters the norm. None
#   of these signs tells.
# - The table's gradient is missing in a network that uses its label, and healthy in one that
#   hardly does. Exchanging the label told them apart.
# - This is one task, with small pictures and 300 steps. If a convolution with zero padding
#   stands between sum and norm, the label is not the same at the border any more; how much a
#   network makes of that stays open here.
