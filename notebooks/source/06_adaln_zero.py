# %% [markdown]
# # 06 · AdaLN-Zero: tell a network what to do
#
# 60 to 90 minutes. You know LayerNorm, residual connections and the gates of
# [lesson 05](05_layer_scale.ipynb); of attention you need only that it mixes positions. You write
# the block of the diffusion transformer (DiT), draw digits with it, and see which of its weights
# learn first, and why.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import SimpleFeedForward
from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary
from residual_edu.networks.denoiser import Denoiser, SelfAttention
from residual_edu.networks.denoiser import flow_matching_loss, sample

device = setup()
progress("06")

# %% [markdown]
# ## 1 · What goes wrong without it?
#
# We want a network that draws the digit we ask for. In training it sees real digits mixed
# with noise, and learns in which direction such a picture has to change to become a digit:
#
# ```
# x_t = (1 - t) * noise + t * picture   # t is drawn between 0 and 1
# c = time(t) + table[digit]            # 64 numbers: a small MLP of t, plus a learned row
# velocity = network(x_t, c)            # learns to guess picture - noise
# ```
#
# To draw, we start from noise, at t = 0, and take ten small steps along the velocity. This is
# [flow matching](https://arxiv.org/abs/2210.02747). The folded cell below loads the digits and
# defines `trained(blocks)`: it calls `blocks` for a list of blocks, builds a network of them, and
# takes 50 steps of Adam at a rate of 0.003.
#
# The vector c, the **condition**, tells which digit we want, and how much of the noise is gone.
# How does the network hear it? There are 12 transformer blocks of two branches each: attention
# mixes the positions of the picture (four patches), an MLP works on each position alone. The
# obvious way is to add c to the input of the first block, once:


# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.explorers.adaln_zero import explore_drawings
from residual_course.plots import adaln_zero as plots
from residual_course.training import minibatches, train
from residual_edu.networks.denoiser import sample_path

data = digits()
pictures = (2 * data.train_images - 1).to(device)  # paper -1, ink 1
labels = data.train_labels.to(device)
ten = torch.arange(10, device=device)
noises = torch.randn(7, 10, 8, 8, generator=torch.Generator().manual_seed(0)).to(device)
one_noise = noises[0, :1].expand(10, 8, 8)
real = torch.stack([pictures[labels == digit][0] for digit in range(10)]).cpu()


def trained(blocks, seed=0, steps=50):
    torch.manual_seed(seed)
    net = Denoiser(patch_size=4, grid=2, hidden_dim=64, depth=1, num_classes=10)
    net.blocks = nn.ModuleList(blocks())
    net.to(device)
    generator = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(net.parameters(), lr=0.003, fused=True)

    def loss(x, y):
        return flow_matching_loss(net, x, y, generator=generator)

    train(loss, minibatches(pictures, labels, seed=seed), adam, steps)
    return net


def draw_ten(net):
    return sample(net, one_noise, ten, steps=10).cpu()


def sheet(rows, title, height=0.55):
    figure = Figure(figsize=(6, height * len(rows) + 0.5))
    ax = figure.add_subplot()
    plots.plot_digits(torch.stack([*rows.values()]), ax, [*rows], list("0123456789"))
    ax.set_title(title)
    return figure


# %%
class AddCondition(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x, c):  # (batch, positions, dim), (batch, dim)
        return x + self.linear(F.silu(c))[:, None]


class PlainBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mixer, self.mlp = SelfAttention(dim), SimpleFeedForward(dim, 2 * dim)

    def forward(self, x, c):  # c is in x already
        x = x + self.mixer(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# %% added-once tags=["slow", "trained"]
def added_once():
    return [AddCondition(64)] + [PlainBlock(64) for _ in range(12)]


rows = {"real": real, "drawn": draw_ten(trained(added_once))}
show(sheet(rows, "Ten labels, and almost the same blot"))

# %% [markdown]
# We asked for 0 to 9, each time from the same noise, and got almost the same blot ten times. The
# network is slow, not unable: with 400 steps it draws digits too. We stop after 50, so that a
# difference in speed shows. In the block that you build now, two things are different: every branch
# hears the condition, and every branch starts switched off, by a gate of 0. Section 5 tries each
# alone.
#
# ## 2 · What exactly is it?
#
# Every branch of every block now hears the condition, and at two places: it changes what the
# branch receives, and how much of the branch's answer is added.
#
# ```
# c ─▶ SiLU ─▶ linear, zero at first ──┬───────────────────┐
#                                      │                   │
#                                 shift, scale            gate
#                                      ▼                   ▼
# x ─┬─▶ norm ─▶ · (1 + scale) + shift ─▶ attention/MLP ─▶ · gate ─▶ + ─▶ out
#    └──────────────────────────────────────────────────────────────┘
# ```
#
# ### Step 1 · A signal and a condition
#
# Two pictures, three positions each, four numbers a position; and for each picture its
# condition.

# %%
x = torch.arange(1.0, 25).view(2, 3, 4)  # (batch, positions, features)
c = torch.tensor([[2.0, 0, 0, 0], [0, 2, 0, 0]])  # (batch, features)
print(x)

# %% [markdown]
# ### Step 2 · The norm
#
# LayerNorm subtracts each row's mean and divides by its standard deviation. Our rows all
# count up by 1, so every row becomes the same four numbers.

# %%
normed = F.layer_norm(x, (4,))
print(normed[0, 0])  # the first row

# %% [markdown]
# An ordinary LayerNorm would now multiply by a learned gain and add a learned bias, the
# same for every picture. Ours come from the condition.
#
# ### Step 3 · Shift and scale
#
# We type them in for now. The first picture has its last feature doubled; the second has
# its last feature switched off, and 10 added to its first.

# %% modulated
scale = torch.tensor([[0.0, 0, 0, 1], [0, 0, 0, -1]])
shift = torch.tensor([[0.0, 0, 0, 0], [10, 0, 0, 0]])
print(scale.shape, "->", scale[:, None].shape)
h = normed * (1 + scale[:, None]) + shift[:, None]
print(h[:, 0])  # the first position of both pictures

# %% [markdown]
# We multiply by 1 + scale, so that a scale of 0 leaves the norm as it is. `[:, None]` adds an
# axis of 1 for the positions, so each picture uses its one row of numbers at all of them.
# This much is **AdaLN**, adaptive layer norm.
#
# ### Step 4 · The branch and its gate
#
# A layer f works on h; ReLU stands for it now, so that you can follow the numbers. A third
# vector, the **gate**, multiplies what f returns. We open it for the first picture and shut
# it for the second.

# %%
f = torch.relu
gate = torch.tensor([[1.0, 1, 1, 1], [0, 0, 0, 0]])
print((gate[:, None] * f(h))[:, 0])

# %% [markdown]
# ### Exercise 1 · One branch (4 minutes)
#
# One thing is left: the gated branch is added to x. Write steps 2 to 4 and the sum as one
# function, for rows of any length.
#
# <details><summary>Hint</summary>Follow the drawing from left to right. Each of the three
# vectors is (batch, features), and needs an axis for the positions.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "adaln-branch", "locked": false, "schema_version": 3, "solution": true, "task": false}
def branch(x, f, shift, scale, gate):
    """Return x plus a branch whose input and output the condition changes."""
    ### BEGIN SOLUTION
    shift, scale, gate = shift[:, None], scale[:, None], gate[:, None]
    h = F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift
    return x + gate * f(h)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "adaln-branch-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(branch, "adaln_branch")

# %% [markdown]
# ### Step 5 · Where the three vectors come from
#
# One linear layer computes them from the condition, after a SiLU (a smooth ReLU). Here is the
# *Zero* of the name: the weights and biases of this layer start at 0. Its first four rows make
# the shift, the next four the scale, the last four the gate. Our f is now a small MLP.

# %%
torch.manual_seed(0)
f = SimpleFeedForward(4, 8)
projection = nn.Sequential(nn.SiLU(), nn.Linear(4, 3 * 4))
nn.init.zeros_(projection[1].weight)
nn.init.zeros_(projection[1].bias)
shift, scale, gate = projection(c).chunk(3, dim=-1)
print(gate)

# %% [markdown]
# The branch has random weights, but its gate is 0. So your function returns x, exactly:

# %% identity
out = branch(x, f, shift, scale, gate)
print(torch.equal(out, x))

# %% [markdown]
# ### Step 6 · Can it learn?
#
# Shift, scale and gate are 0, and so is every weight that makes them. Is that a dead end? We
# take three steps of gradient descent on the sum of all outputs, and before each one print
# the size of the gradient: of the rows of the linear layer that make shift, scale and gate,
# and of f's first layer.

# %% three-steps
with predict(
    "The first backward pass: which rows of the linear layer get a gradient?",
    ["none", "only the gate's", "all of them"],
):
    sgd = torch.optim.SGD([*projection.parameters(), *f.parameters()], lr=0.01)
    rows = []
    for _ in range(3):
        sgd.zero_grad()
        branch(x, f, *projection(c).chunk(3, dim=-1)).sum().backward()
        parts = [*projection[1].weight.grad.chunk(3), f.linear1.weight.grad]
        rows.append([part.norm().item() for part in parts])
        sgd.step()
    print("        shift,  scale,   gate,      f")
    print(torch.tensor(rows))

# %% [markdown]
# The gate moves first, and one step later what stands behind it can move. (The gate's own
# gradient is the same twice: it is made of what f returns, and f has not moved yet.)
#
# ## 3 · Is mine right?
#
# A transformer block has two branches, attention and MLP, so it needs six vectors.
#
# ### Exercise 2 · The block of DiT (8 minutes)
#
# Complete the block: let `condition_proj` start at zero, and write `forward`. As in step 2, the
# norms have no weights of their own. The six
# vectors come in the order shift, scale, gate of the attention, then of the MLP. You may
# call your `branch`. `sequence_mixer` is the attention.
#
# <details><summary>Hint</summary><code>self.condition_proj(c).chunk(6, dim=-1)</code> cuts six
# pieces of (batch, dim), as <code>branch</code> wants them. Begin the second branch with what
# the first returned.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "adaln-zero-block", "locked": false, "schema_version": 3, "solution": true, "task": false}
class AdaLNZeroBlock(nn.Module):
    def __init__(self, sequence_mixer, mlp, dim):
        super().__init__()
        self.sequence_mixer, self.mlp = sequence_mixer, mlp
        self.condition_proj = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        ### BEGIN SOLUTION
        nn.init.zeros_(self.condition_proj[1].weight)
        nn.init.zeros_(self.condition_proj[1].bias)
        ### END SOLUTION

    def forward(self, x, c):
        ### BEGIN SOLUTION
        six = self.condition_proj(c).chunk(6, dim=-1)
        x = branch(x, self.sequence_mixer, *six[:3])
        return branch(x, self.mlp, *six[3:])
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "adaln-zero-block-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(AdaLNZeroBlock, "adaln_zero_block")

# %% [markdown]
# The package's block has the same parameters, so its weights fit into yours. We fill its linear
# layer with random numbers, since two blocks that return x would agree too easily.

# %% same-numbers
from residual_edu.networks.denoiser import denoiser_block

theirs = denoiser_block(4).double()
nn.init.normal_(theirs.condition_proj[1].weight)
mine = AdaLNZeroBlock(SelfAttention(4), SimpleFeedForward(4, 8), 4).double()
mine.load_state_dict(theirs.state_dict())
a, b = mine(x.double(), c.double()), theirs(x.double(), c.double())
(a.square().sum() + b.square().sum()).backward()
right = dict(theirs.named_parameters())
far = max((p.grad - right[n].grad).abs().max() for n, p in mine.named_parameters())
print(f"outputs differ by {(a - b).abs().max():.0e}, gradients by {far:.0e}")

# %% [markdown]
# Folded, and not needed for what follows: how the package writes the same block.

# %% jupyter={"source_hidden": true} tags=["promote:parts/adaln_zero"]
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from residual_edu.errors import check_same_shape, check_shape
from residual_edu.parts.norm import widened
from residual_edu.parts.start import fill


class Modulation(NamedTuple):
    """Shift, scale and gate of one branch, each ``(batch, 1, ..., 1, channels)``."""

    shift: Tensor
    scale: Tensor
    gate: Tensor

    def modulate(self, norm: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Return ``norm`` with the scale and the shift that the condition gives it."""

        def modulated(x: Tensor) -> Tensor:
            h = norm(x)
            y = widened(h) * (1 + widened(self.scale)) + self.shift  # rounded once
            return y.to(torch.promote_types(h.dtype, self.scale.dtype))

        return modulated

    def apply_gate(self, branch: Tensor) -> Tensor:
        """Multiply ``branch`` by the gate, which must not broadcast it."""
        check_shape("branch", branch, "...", self.gate.shape[-1])
        gated = branch * self.gate
        check_same_shape("branch * gate", gated, "branch", branch)
        return gated


def zero_projection(dim: int, branches: int = 2) -> nn.Sequential:
    """Return SiLU and a linear map from a condition to ``branches`` modulations."""
    linear = fill(nn.Linear(dim, 3 * branches * dim), nn.init.zeros_)
    return nn.Sequential(nn.SiLU(), linear)


# %% jupyter={"source_hidden": true} tags=["promote:blocks/adaln_zero_block"]
from functools import partial
from typing import cast

from residual_edu import MLP, Attention, Dropout, LayerNorm, QKVSequenceMixer
from residual_edu.blocks.adaln_zero_block import pooled
from residual_edu.config import Spec, build, build_beside
from residual_edu.errors import InvalidInput
from residual_edu.mixers.projections import Condition, Signal
from residual_edu.parts.adaln_zero import modulations
from residual_edu.parts.residual import Map, is_bypassed, pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class AdaLNZeroResidualBlock(nn.Module):
    """A sequence mixer and an MLP, each modulated and gated by a condition."""

    def __init__(
        self,
        sequence_mixer_cfg: Spec,
        sequence_mixer_norm_cfg: Spec,
        mlp_cfg: Spec,
        mlp_norm_cfg: Spec,
        condition_norm_cfg: Spec,
        dropout_cfg: Spec,
        hidden_dim: int,
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.sequence_mixer = build(sequence_mixer_cfg)
        norm = build_beside(self.sequence_mixer, sequence_mixer_norm_cfg)
        self.sequence_norm = no_weight_decay(norm)
        self.mlp = build(mlp_cfg)
        self.mlp_norm = no_weight_decay(build_beside(self.mlp, mlp_norm_cfg))
        if is_bypassed(self.sequence_mixer) and is_bypassed(self.mlp):
            raise InvalidInput("sequence_mixer_cfg or mlp_cfg must build a branch")
        self.condition_norm = no_weight_decay(build(condition_norm_cfg))
        self.dropout = build(dropout_cfg)
        self.condition_proj = zero_projection(hidden_dim)

    @classmethod
    def standard(
        cls, dim: int, heads: int, *, dropout: float = 0.0, causal: bool = False
    ) -> "AdaLNZeroResidualBlock":
        """Return attention and an MLP with 4 * dim hidden features, as in DiT."""
        attention = partial(
            Attention, dim, heads, apply_qk_norm=False, use_rope=False, is_causal=causal
        )
        mixer = partial(QKVSequenceMixer, dim, attention, True, True)  # with biases
        mlp = partial(MLP, dim, "gelu", nn.Identity, expansion_factor=4.0, bias=True)
        norm = partial(LayerNorm, dim, elementwise_affine=False)
        return cls(mixer, norm, mlp, norm, nn.Identity, partial(Dropout, dropout), dim)

    def reset_parameters(self) -> None:
        """Set the projection of the condition to 0 again."""
        fill(cast(nn.Linear, self.condition_proj[1]), nn.init.zeros_)

    def forward(self, x: Signal, condition: Condition) -> Signal:
        """Add both branches to ``x``; positions of ``condition`` are averaged."""
        check_shape("x", x, "...", self.hidden_dim)
        c = self.condition_norm(pooled(condition))  # (batch, channels)
        mixing, mapping = modulations(self.condition_proj(c), x.ndim)
        mixer, norm = self.sequence_mixer, mixing.modulate(self.sequence_norm)
        gates: list[Map] = [self.dropout, mixing.apply_gate]
        x = pre_norm_residual(x, mixer, norm, gates, conditioning=c)
        norm, gates = mapping.modulate(self.mlp_norm), [gates[0], mapping.apply_gate]
        return pre_norm_residual(x, self.mlp, norm, gates)


# %% [markdown]
# ## 4 · What does it do to the gradient?
#
# Step 6 showed an order. It follows from one product. Let b be what a branch returns and g
# its gate, so that the block returns x + g · b. If a gradient u arrives at the output, then
#
# $$\text{g receives } u \cdot b, \qquad \text{b receives } u \cdot g, \qquad \text{x receives } u \text{ along the skip}$$
#
# and x receives what comes back through b as well. All of this is feature by feature; one gate
# serves all positions, so for g it is summed over them. So a gate of 0 receives a gradient if that sum of u · b is not 0. The
# branch behind it receives none, and neither do shift and scale, which act through the branch.
#
# Here is the whole network, with twelve of your blocks. It has one more zero: like DiT's, its
# last layer starts at 0.


# %%
def adaln_zero():
    return [
        AdaLNZeroBlock(SelfAttention(64), SimpleFeedForward(64, 128), 64)
        for _ in range(12)
    ]


# %% jupyter={"source_hidden": true}
GROUPS = ["last layer", "gates' rows", "patches, positions"]
GROUPS += ["shift's, scale's rows", "attention, MLP", "digits, time"]
HOME = {"final": 0, "patches": 2, "position": 2, "blocks": 4, "label": 5, "time": 5}


def gradients_before(blocks, steps):
    """Return the largest gradient of each group of weights before steps 0, 1, ..."""
    largest = torch.zeros(len(GROUPS), steps)
    for step in range(steps):
        for name, p in trained(blocks, steps=step + 1).named_parameters():
            parts = {HOME[name.split(".")[0]]: p.grad}
            if "condition_proj" in name:
                rows = p.grad.view(2, 3, -1)
                parts = {1: rows[:, 2], 3: rows[:, :2]}
            for group, part in parts.items():
                size = part.abs().max().item()
                largest[group, step] = max(largest[group, step], size)
    return largest


def plot_wake_up(largest):
    ax = Figure(figsize=(6, 2.8)).add_subplot()
    plots.plot_wake_up(largest, GROUPS, range(largest.shape[1]), ax)
    ax.set_title("The largest gradient of each group of weights")
    return ax.figure


# %% wake-up
with predict(
    "When does the table of the digits (in section 1) first get a gradient?",
    ["at once, like all weights", "after one step", "after two steps", "never"],
):
    largest = gradients_before(adaln_zero, steps=3)
    show(plot_wake_up(largest))

# %% [markdown]
# At first only the last layer gets a gradient: its weights are 0, so nothing comes back through
# it. After one step they are not 0 any more, and the gradient
# runs back along the skips, to the gates and to the patches and positions. After two steps the
# gates are not 0 either, and all weight matrices get a gradient.
#
# ## 5 · Does it help?
#
# Back to the question of the first picture. Two things are new: the condition acts in every branch, and the
# gates start at 0. So we train four networks of *your* block, one for each combination. In those
# called "added once", only the input hears c, as in section 1. Their blocks get c = 0, so only the
# biases of `condition_proj` act: every picture gets the same shift, scale and gate (and fewer weights
# learn).


# %% jupyter={"source_hidden": true}
def open_gates(blocks):
    for block in blocks:
        block.condition_proj[1].bias.data.view(2, 3, -1)[:, 2] = 1
    return blocks


class Untold(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, c):
        return self.block(x, torch.zeros_like(c))


def added(blocks):
    return [AddCondition(64), *(Untold(block) for block in blocks)]


# %%
FOUR = {
    "added once, gates from 1": lambda: added(open_gates(adaln_zero())),
    "added once, gates from 0": lambda: added(adaln_zero()),
    "every branch, gates from 1": lambda: open_gates(adaln_zero()),
    "every branch, gates from 0": adaln_zero,
}

# %% [markdown]
# A support vector machine that was trained on the real digits reads 100 drawings, and we count
# how often it reads the digit that we asked for. (Ten would be luck. The classifier says which
# digit a drawing is most like, and not whether it is a good one.)

# %% jupyter={"source_hidden": true}
from sklearn.svm import SVC

judge = SVC().fit(pictures.flatten(1).cpu(), labels.cpu())
many = torch.randn(100, 8, 8, generator=torch.Generator().manual_seed(7)).to(device)
asked = ten.repeat(10)


def recognised(net):
    drawings = sample(net, many, asked, steps=10).clamp(-1, 1).flatten(1).cpu()
    return int((judge.predict(drawings) == asked.cpu().numpy()).sum())


def plot_four(four, counts):
    rows = {name.replace(", ", ",\n"): draw_ten(nets[0]) for name, nets in four.items()}
    figure = sheet(rows, "After 50 steps, both together draw", 0.43)
    ax = figure.axes[0]
    for tick, three in zip(ax.get_yticks(), counts.values(), strict=True):
        ax.text(606, tick, ", ".join(map(str, sorted(three))), fontsize=9, va="center")
    ax.text(606, -8, "recognised, of 100\n(three seeds)", fontsize=9, va="bottom")
    ax.tick_params(axis="y", labelsize=9)
    return figure


# %% two-by-two tags=["slow", "trained"]
with predict(
    "One of the two changes alone: how many of 100 drawings are recognised?",
    ["about 20", "about 50", "about 100"],
):
    four = {
        name: [trained(blocks, seed) for seed in range(3)]
        for name, blocks in FOUR.items()
    }
    counts = {name: [recognised(net) for net in nets] for name, nets in four.items()}
    show(plot_four(four, counts))

# %% [markdown]
# After 50 steps at this rate each change helps alone, with each of three seeds, and with both all
# are recognised. How much each helps alone depends on the rate. Both together did best at the three
# that we tried, and after 400 steps all four draw (the
# [investigation](investigations/06_what_guidance_costs.ipynb) has the numbers). The
# [authors of DiT](https://arxiv.org/abs/2212.09748) compared four blocks that take a condition,
# and chose this one (their figure 5). It has a price: DiT's blocks have 12 · d² weights in
# attention and MLP, and 6 · d² more for the six vectors.
#
# ### Now use it
#
# We train your blocks for 200 steps. In training, one label in ten was replaced by an eleventh,
# "any digit", so the network also knows a velocity without a digit, v(any). A
# drawing follows v(any) + w · (v(digit) − v(any)), and w is the *guidance*: 1 would be the network
# as it is, and in all drawings so far it was 2.
# Move the label, then the noise: what does each of them decide? What is drawn at w = 0?

# %% artist
artist = trained(adaln_zero, steps=200)

# %% tags=["explorer"] jupyter={"source_hidden": true}


def path(noise, label, guidance):
    label = torch.tensor([label], device=device)
    return sample_path(artist, noise.to(device), label, 10, guidance).cpu()


explore_drawings(path, noises.cpu())

# %% [markdown]
# <details><summary>And at guidance 0?</summary>The same ten pictures for every label: the noise
# decides.</details>
#
# ## 6 · Where do people go wrong?
#
# A colleague has written the block anew. They have heard that biases, and the last layer of
# each branch, should start at 0, so that a new block returns x.


# %%
class Handed(AdaLNZeroBlock):
    def __init__(self, dim):
        super().__init__(SelfAttention(dim), SimpleFeedForward(dim, 2 * dim), dim)
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        attention, mlp = self.sequence_mixer, self.mlp
        for layer in (attention.qkv, attention.out, mlp.linear1, mlp.linear2):
            nn.init.zeros_(layer.bias)
        for layer in (attention.out, mlp.linear2):
            nn.init.zeros_(layer.weight)

    def forward(self, x, c):
        six = self.condition_proj(c)[:, None].chunk(6, dim=-1)  # (batch, 1, dim) each
        shift1, scale1, gate1, shift2, scale2, gate2 = six
        x = x + gate1 * self.sequence_mixer(self.norm(x) * scale1 + shift1)
        return x + gate2 * self.mlp(self.norm(x) * scale2 + shift2)


# %% [markdown]
# A new block does return x. Does the network learn? We train it for 50 steps, then look at the
# gradients. (The label enters through the blocks alone. While their gates stay 0 it
# cannot change a drawing, and what is recognised is luck.)

# %% handed tags=["slow", "trained"]
handed = trained(lambda: [Handed(64) for _ in range(12)])
sizes = {name: p.grad.norm().item() for name, p in handed.blocks.named_parameters()}
print("largest gradient in the twelve blocks:", max(sizes.values()))
count = recognised(handed)
print(count, "of 100 recognised")

# %% [markdown]
# ### Exercise 3 · Find and mend (10 minutes)
#
# There are two faults. As long as the biases start at 0, mending one alone changes nothing. Return a
# mended `Handed`: change its code, or its starting values.
# (The check trains small networks of it, for about 10 seconds.)
#
# <details><summary>Hint</summary>By section 4, a gate of 0 receives a gradient if what the
# branch returns is not 0. What does a new branch return here? And what does it
# <em>receive</em>? Compare with step 3.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-block", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_block(dim):
    """Return a mended block."""
    ### BEGIN SOLUTION
    block = Handed(dim)
    block.sequence_mixer.out.reset_parameters()
    block.mlp.linear2.reset_parameters()
    with torch.no_grad():  # scale is 1 at first
        block.condition_proj[1].bias.view(2, 3, dim)[:, 1] = 1
    return block
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-block-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mended_block, "mended_block")

# %% mended tags=["slow", "trained"]
count = recognised(trained(lambda: [mended_block(64) for _ in range(12)]))
print(count, "of 100 recognised")

# %% [markdown]
# <details><summary>Once it draws: why did one mend change nothing?</summary>
# Gate and branch are the two factors of one product. If both are 0, neither gets a gradient.
# And with biases of 0 the branch returned 0 for two reasons: it received zeros, because scale
# stood in the place of 1 + scale, and the weights of its last layer were 0. (With
# random biases the branch returns something, so it learns, and you would not have noticed.)</details>
#
# A related mistake is `model.apply(init_weights)` after the blocks have been built: if it
# initialises every linear layer, random numbers replace the zeros, and no error tells you. So
# test a new block twice: it returns x, and after a few steps all its weight matrices get a
# gradient.
#
# ## 7 · What do I keep?
#
# $$x \;\leftarrow\; x + \mathrm{gate} \cdot f\bigl(\mathrm{norm}(x) \cdot (1 + \mathrm{scale}) + \mathrm{shift}\bigr)$$
#
# $$(\mathrm{shift}, \mathrm{scale}, \mathrm{gate}) = W\,\mathrm{silu}(c) + \beta, \qquad W = \beta = 0 \text{ at first}$$
#
# ```python
# linear = nn.Linear(dim, 3 * dim)
# nn.init.zeros_(linear.weight)
# nn.init.zeros_(linear.bias)
#
# shift, scale, gate = linear(F.silu(c))[:, None].chunk(3, dim=-1)
# h = F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift
# x = x + gate * f(h)
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>Why 1 + scale, and not scale?</summary>A scale of 0 then leaves the norm
# as it is. With scale alone a new branch would receive only zeros.</details>
#
# <details><summary>Which weights of a new block receive a gradient first, and
# why?</summary>The gates' rows: a gate's gradient is u · b, and b is not 0. Shift, scale and
# the branch stand behind a gate that is still 0.</details>
#
# **Next.** In [lesson 07a](07a_residual_block.ipynb) this block and the plain one become one
# class. The [investigation](investigations/06_what_guidance_costs.ipynb) asks what such a
# network draws: why ten steps and not one, and what guidance costs.
# [Homework](homework/hw_06_07.ipynb) follows lesson 07b; the
# [glossary](../docs/glossary.md) has all words.

# %%
summary("06")
