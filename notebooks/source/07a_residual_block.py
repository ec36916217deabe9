# %% [markdown]
# # 07a · One block for text, images and movies
#
# One hour. You need the block x + f(norm(x)) of
# [lesson 04](04_pre_norm_and_post_norm.ipynb) and LayerNorm, from
# [lesson 02](02_layer_norm.ipynb). The lesson before is
# [06, AdaLN-Zero](06_adaln_zero.ipynb).
#
# You write a residual block of up to three branches, which takes a text, a picture or a movie
# as it is, and a test that tells which part of a network moves information from one position
# to another. With it you find out what is wrong with a network that is too good.

# %%
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import LayerNorm, LazyConfig, SimpleFeedForward, is_bypassed
from residual_edu.config import build
from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary

device = setup()
progress("07a")

# %% [markdown]
# ## 1 · What goes wrong without it?
#
# A fair coin is flipped 17 times, and each flip is +1 or −1. At each of 16 positions a network
# gets the flips up to there and predicts the next one. The coin is fair, so nobody can be right
# more than half of the time.
#
# The network has two blocks of two branches, a mixer and an MLP. A **mixer** is a layer that
# carries information from one position to another. Ours is *causal*, that is, it looks back
# only: position t gets the mean of the positions up to t. The MLP is the usual one.


# %%
class PastMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):  # (batch, positions, channels)
        count = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return self.linear(x.cumsum(dim=1) / count)


class Norm(nn.Module):
    def forward(self, x):
        x = x - x.mean(dim=1, keepdim=True)
        return x / (x.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()


# %%
class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm()
        self.mixer = PastMean()
        self.mlp = SimpleFeedForward(32, 128)

    def forward(self, x):
        x = x + self.mixer(self.norm(x))
        return x + self.mlp(self.norm(x))


# %% [markdown]
# (Folded: linear layers before and after the two blocks, a learned vector for each position, and
# 200 steps of Adam at a rate of 0.003, on 64 new rows each. `fit` returns the network, its losses
# and how many of 15,000 new flips it predicts.)

# %% jupyter={"source_hidden": true}
from residual_course.datasets import digits
from residual_course.plots import dependence as draw
from residual_course.plots.along_depth import along_depth
from residual_course.training import train

data = digits()  # for sections 4 and 5
mean, std = data.train_images.mean(), data.train_images.std()


class Network(nn.Module):
    def __init__(self, make_block):
        super().__init__()
        self.first = nn.Linear(1, 32)
        self.position = nn.Parameter(torch.randn(16, 32) / 2)
        self.blocks = nn.Sequential(make_block(), make_block())
        self.last = nn.Linear(32, 2)

    def forward(self, x):
        return self.last(self.blocks(self.first(x) + self.position))


def rows_of_flips(seed):
    """Yield batches of 16 flips, and for each flip the next one, 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        coins = torch.randint(2, (64, 17), generator=generator).to(device)
        yield 2.0 * coins[:, :-1, None] - 1, coins[:, 1:]


@torch.no_grad()
def share_right(net):
    new = rows_of_flips(seed=99)
    batches = [next(new) for _ in range(15)]
    hits = [(net(x).argmax(-1) == y).float().mean().item() for x, y in batches]
    return sum(hits) / len(hits)


def fit(make_block, seed):
    torch.manual_seed(seed)
    net = Network(make_block).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=0.003, fused=True)

    def loss(x, y):
        return F.cross_entropy(net(x).mT, y)

    losses = train(loss, rows_of_flips(seed), adam, steps=200)
    return net, losses, share_right(net)


# %% coins tags=["slow", "trained"]
with predict(
    "How many new flips of a fair coin does this network predict?",
    ["about 50 %", "about 65 %", "over 90 %"],
):
    leaky = [fit(TwoBranches, seed) for seed in range(3)]
    show(draw.plot_flips({"two blocks": leaky}, "It predicts fair coin flips"))

# %% [markdown]
# It gets 95 to 98 % right, where one half should be the limit, though the mixer looks back only and
# every row is new. Some part carries the later flips to the earlier positions, and no error
# tells us which. But in use the later flips do not exist yet.
#
# ## 2 · What exactly is it?
#
# We build a block in which it is clear what each part may do, and then test it.
#
# ### Step 1 · Channels last
#
# A text is a line of positions, a picture a rectangle, a movie a box. At each position stands a
# vector of channels, which is the last axis: (batch, \*space, channels). The axes between, the
# **space**, are 1, 2 or 3. LayerNorm and the linear layers of an MLP work along the last axis, so
# they take all three shapes and treat each position by itself.
#
# ### Step 2 · Three branches
#
# A block adds three branches to x, one after the other. Here they are on three positions of one
# channel each, still without norm and dropout.

# %%
x = torch.tensor([1.0, 3, 8])
x = x + x.cumsum(0) / torch.tensor([1, 2, 3])
print("sequence mixer ", x)
condition = 0.5
x = x + condition * x
print("condition mixer", x)
x = x + F.relu(10 - x)
print("MLP            ", x)

# %% [markdown]
# The **sequence mixer** looks at several positions: it adds 1, 2 and 4, and the 4 is the mean of
# 1, 3 and 8. The **condition mixer** also receives something from outside, such as a label or
# another text; here it adds half of x. The MLP is the same function at every position.
#
# ### Step 3 · A norm before each, dropout after each
#
# ```
# x = x + dropout( sequence_mixer( input_norm(x) ) )
# x = x + dropout( condition_mixer( condition_mixer_norm(x), condition ) )
# x = x + dropout( mlp( mlp_norm(x) ) )
# ```
#
# The norm works on what the branch receives, and dropout on what it adds. The x on the left of
# each sum goes on as it is.
#
# ### Step 4 · A branch that is left out
#
# Many networks have no condition, and some have no mixer. In PyTorch one usually puts
# `nn.Identity()` where nothing should happen. In a residual block that is not enough:

# %%
nothing = nn.Identity()
x = torch.tensor([1.0, 3, 8])
print(x + nothing(nothing(x)))

# %% [markdown]
# The branch that should do nothing doubles x. So the block has to look first, and skip a branch
# whose layer is an `nn.Identity`. The package's `is_bypassed(layer)` says whether it is one.
#
# ### Exercise 1 · The forward of the block (7 minutes)
#
# Write the three lines of step 3, and skip each branch whose *layer* is bypassed. The
# parts are attributes of `block`: `block.sequence_mixer`, `block.input_norm` and so on, with a
# single `block.dropout`. `condition` may be None if no branch takes it.
#
# <details><summary>Hint 1</summary>Three lines, each under an <code>if</code> of its own. Each
# starts from the x that the line before it made.</details>
# <details><summary>Hint 2</summary>Call <code>is_bypassed</code> with the layer, not with its norm:
# a layer without a norm still has to run.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "block-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def block_forward(block, x, condition):
    """Return x after those of the three branches that are there."""
    ### BEGIN SOLUTION
    if not is_bypassed(block.sequence_mixer):
        x = x + block.dropout(block.sequence_mixer(block.input_norm(x)))
    if not is_bypassed(block.condition_mixer):
        normed = block.condition_mixer_norm(x)
        x = x + block.dropout(block.condition_mixer(normed, condition))
    if not is_bypassed(block.mlp):
        x = x + block.dropout(block.mlp(block.mlp_norm(x)))
    return x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "block-forward-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(block_forward, "block_forward")

# %% [markdown]
# ### Step 5 · Seven parts, described
#
# Your lines are the forward of this module. `build(cfg)` makes a part from its description:


# %%
class MyBlock(nn.Module):
    def __init__(
        self,
        sequence_mixer_cfg,
        sequence_mixer_norm_cfg,
        condition_mixer_cfg,
        condition_mixer_norm_cfg,
        mlp_cfg,
        mlp_norm_cfg,
        dropout_cfg,
    ):
        super().__init__()
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.input_norm = build(sequence_mixer_norm_cfg)
        self.condition_mixer = build(condition_mixer_cfg)
        self.condition_mixer_norm = build(condition_mixer_norm_cfg)
        self.mlp, self.mlp_norm = build(mlp_cfg), build(mlp_norm_cfg)
        self.dropout = build(dropout_cfg)

    def forward(self, x, condition=None):
        return block_forward(self, x, condition)


# %% [markdown]
# A *description* is a call that is not made yet: `LazyConfig(LayerNorm)(dim=32)` stands for
# `LayerNorm(dim=32)`. Why not hand over the module itself?

# %% shared
described = LazyConfig(LayerNorm)(dim=32)
made = LayerNorm(dim=32)
print("described: one norm for all?", build(described) is build(described))
print("made:      one norm for all?", build(made) is build(made))

# %% [markdown]
# A module that is handed to twelve blocks is *one* module with one set of weights. A
# description gives each block its own, and its entries can be changed before it is built. Here
# is a block with a convolution as its mixer:


# %%
class Convolution(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(size) - 1]
        self.conv = kind(dim, dim, size, padding="same")

    def forward(self, x):
        y = self.conv(x.movedim(-1, 1))  # PyTorch's convolutions want channels second
        return y.movedim(1, -1)


# %%
config = LazyConfig(MyBlock)(
    sequence_mixer_cfg=LazyConfig(Convolution)(dim=32, size=(3,)),
    sequence_mixer_norm_cfg=LazyConfig(LayerNorm)(dim=32),
    condition_mixer_cfg=nn.Identity,
    condition_mixer_norm_cfg=nn.Identity,
    mlp_cfg=LazyConfig(SimpleFeedForward)(d_model=32, d_ff=128),
    mlp_norm_cfg=LazyConfig(LayerNorm)(dim=32),
    dropout_cfg=nn.Identity,
)

# %% [markdown]
# ### Step 6 · The same block on three shapes

# %% three-shapes
for space in (5,), (3, 5), (2, 3, 5):
    config.sequence_mixer_cfg.size = [3] * len(space)
    x = torch.randn(2, *space, 32)
    print(tuple(x.shape), "->", tuple(config()(x).shape))

# %% [markdown]
# A single entry of the description changes, the size of the convolution's kernel: 3, 3 × 3,
# 3 × 3 × 3. Norms, MLP and your forward are the same for all three.
#
# ### Step 7 · Who looks at other positions?
#
# We change x at one position, and look at which positions the output changes.
#
# ### Exercise 2 · Which outputs move? (6 minutes)
#
# Write this test for a `part` that keeps the shape of x, (1, \*space, channels). Put new random
# numbers at `place`, which has an index for each axis of space. Return a tensor of the shape
# `space`: True where the output changes by more than 0.00001 (less is rounding).
#
# <details><summary>Hint 1</summary>Work on <code>x.clone()</code>. The vector at
# <code>place</code> is <code>other[(0, *place)]</code>, and it can be assigned to.</details>
# <details><summary>Hint 2</summary>The largest absolute change over the channels of each
# position: <code>.abs().amax(dim=-1)</code>. A sum could cancel.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "moved", "locked": false, "schema_version": 3, "solution": true, "task": false}
def moved(part, x, place):
    """Return at which positions the output moves if x changes at place."""
    ### BEGIN SOLUTION
    other = x.clone()
    other[(0, *place)] = torch.randn_like(x[(0, *place)])
    return (part(other) - part(x)).abs().amax(dim=-1)[0] > 1e-5
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "moved-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(moved, "moved")

# %% [markdown]
# On a picture of 8 × 8 positions we change position (2, 5), and look at a block whose mixer is
# left out, and at one with a convolution of 3 × 3.

# %% who-moves
x = torch.randn(1, 8, 8, 32)
config.sequence_mixer_cfg.size = (3, 3)
with_mixer = config()
without_mixer = config()
without_mixer.sequence_mixer = nn.Identity()
maps = {
    "no mixer": moved(without_mixer, x, (2, 5)),
    "convolution": moved(with_mixer, x, (2, 5)),
}
show(draw.plot_moved(maps, "Which outputs move when one position does"))

# %% [markdown]
# Without a mixer only the changed position itself moves. With the convolution its eight
# neighbours move too, and no other position. And now the network that predicts coin flips. We
# change position 8 of what its first block receives:

# %% culprit tags=["slow", "trained"]
with predict(
    "Which parts of its first block move *earlier* positions?",
    ["the mixer", "the norm", "the MLP", "mixer and norm"],
):
    block = leaky[0][0].blocks[0]
    x = torch.randn(1, 16, 32, device=device)
    found = {}
    for name, part in block.named_children():
        found[name] = moved(part, x, (8,))
        print(f"{name:6}", "".join("x" if m else "." for m in found[name]))

# %% [markdown]
# Each x is a position that moves. The mixer moves position 8 and those after it, as it should,
# and the MLP moves position 8 alone. The norm moves *all* positions. Look at its code in section
# 1: its means run along axis 1, and that axis is the positions. So they contain the later flips,
# and every position is centred and divided by them.
#
# ## 3 · Is mine right?
#
# The package's `ResidualBlock` (folded, word for word) takes the same seven descriptions. It
# also exempts the norms from weight decay, refuses a norm without its layer and a missing
# condition, and counts operations. We give your block and the package's the same weights, a
# picture, and a condition of three vectors, in float64.

# %% jupyter={"source_hidden": true} tags=["promote:blocks/residual_block"]
from jaxtyping import Float
from torch import Tensor

from residual_edu.blocks.residual_block import check_pair
from residual_edu.config import Spec
from residual_edu.errors import InvalidInput
from residual_edu.parts.dropout import Dropout
from residual_edu.parts.flop_count import Shape, flop_count
from residual_edu.parts.mlp import MLP
from residual_edu.parts.residual import pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class ResidualBlock(nn.Module):
    """A sequence mixer, a condition mixer and an MLP, each after its own norm."""

    def __init__(
        self,
        sequence_mixer_cfg: Spec,
        sequence_mixer_norm_cfg: Spec,
        condition_mixer_cfg: Spec = nn.Identity,
        condition_mixer_norm_cfg: Spec = nn.Identity,
        mlp_cfg: Spec = nn.Identity,
        mlp_norm_cfg: Spec = nn.Identity,
        dropout_cfg: Spec = nn.Identity,
    ) -> None:
        super().__init__()
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.input_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.condition_mixer = build(condition_mixer_cfg)
        self.condition_mixer_norm = no_weight_decay(build(condition_mixer_norm_cfg))
        self.mlp = build(mlp_cfg)
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.dropout = build(dropout_cfg)
        check_pair("sequence_mixer", self.sequence_mixer, self.input_norm)
        check_pair("condition_mixer", self.condition_mixer, self.condition_mixer_norm)
        check_pair("mlp", self.mlp, self.mlp_norm)

    @classmethod
    def standard(
        cls, dim: int, heads: int, *, dropout: float = 0.0, causal: bool = False
    ) -> "ResidualBlock":
        """Return attention and an MLP with 4 * dim hidden features; no condition."""
        attention = partial(Attention, dim, heads, is_causal=causal)
        mixer = partial(QKVSequenceMixer, dim, attention, True, True)  # with biases
        mlp = partial(MLP, dim, "gelu", nn.Identity, expansion_factor=4.0, bias=True)
        norm, off = partial(LayerNorm, dim), nn.Identity
        return cls(mixer, norm, off, off, mlp, norm, partial(Dropout, dropout))

    def forward(
        self, x: Float[Tensor, "batch *space channels"], condition: Tensor | None = None
    ) -> Float[Tensor, "batch *space channels"]:
        """Add each branch to ``x``; only the condition mixer reads ``condition``."""
        if condition is None and not is_bypassed(self.condition_mixer):
            raise InvalidInput("condition must be given, got None")
        mixer, cross, gates = self.sequence_mixer, self.condition_mixer, [self.dropout]
        x = pre_norm_residual(x, mixer, self.input_norm, gates)
        x = pre_norm_residual(x, cross, self.condition_mixer_norm, gates, condition)
        return pre_norm_residual(x, self.mlp, self.mlp_norm, gates)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost of all parts for one sample; the sums are not counted."""
        return sum(flop_count(part, shape, inference) for part in self.children())


# %% same-numbers jupyter={"source_hidden": true}
from residual_edu import Attention, QKVConditionMixer

one_head = LazyConfig(Attention)(
    hidden_dim=8, num_heads=1, apply_qk_norm=False, use_rope=False
)
seven = [LazyConfig(Convolution)(dim=8, size=(3, 3)), partial(LayerNorm, 8)]
seven += [partial(QKVConditionMixer, 8, one_head), partial(LayerNorm, 8)]
seven += [partial(SimpleFeedForward, 8, 16), partial(LayerNorm, 8), nn.Identity]
mine, theirs = MyBlock(*seven).double(), ResidualBlock(*seven).double()
theirs.load_state_dict(mine.state_dict())
leaf = torch.randn(2, 3, 5, 8, dtype=torch.float64, requires_grad=True)
told = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
pull, found = torch.randn(2, 3, 5, 8).double(), []
for block in mine, theirs:
    y = block(leaf, told)
    leaves = [leaf, told, *block.parameters()]
    found.append([y, *torch.autograd.grad(y, leaves, pull)])
gaps = [(a - b).abs().max().item() for a, b in zip(*found, strict=True)]
print("tensors compared:", len(gaps), "  largest difference:", max(gaps))

# %% [markdown]
# (Folded.) The output and all gradients agree: those of x, of the condition and of every weight.
#
# ## 4 · What does it do to the gradient?
#
# The decisive word in your forward is `if`. A branch that is skipped leaves x, on its way
# forward, and the gradient, on its way back, as they are. Where its Identities are run, both are
# doubled:
#
# $$\frac{d}{dx}\,\bigl(x + \mathrm{Id}(\mathrm{Id}(x))\bigr) = 2$$
#
# Twelve such blocks multiply by 2¹² = 4,096. We stack 12 blocks with an MLP and no mixer, with
# and without the `if`. Both networks have the same weights and get the same digits, and neither
# is trained.


# %% along-depth tags=["trained"]
class RunsIdentity(MyBlock):
    def forward(self, x, condition=None):
        x = x + self.sequence_mixer(self.input_norm(x))
        return x + self.mlp(self.mlp_norm(x))


off = nn.Identity
norm, mlp = partial(LayerNorm, 64), partial(SimpleFeedForward, 64, 128)
nets = {}
for name, kind in {"skipped": MyBlock, "run": RunsIdentity}.items():
    torch.manual_seed(0)
    parts = {"mlp_cfg": mlp, "mlp_norm_cfg": norm, "dropout_cfg": off}
    blocks = [kind(off, off, off, off, **parts) for _ in range(12)]
    net = nn.Sequential(*blocks, norm(), nn.Linear(64, 10)).double().to(device)
    nets[name] = net, blocks
test_x = ((data.test_images - mean) / std).flatten(1).double().to(device)
test_y = data.test_labels.to(device)
show(along_depth(nets, test_x, lambda out: F.cross_entropy(out, test_y)))

# %% [markdown]
# Where the branch is skipped, all three curves are level. Where it is run, the spread between the
# digits doubles in every block (upper panel). Read the middle panel from right to left:
# the gradient doubles in every block too. It starts thousands of times smaller, because the norm
# before the last layer divides it by the size of x ([lesson 02](02_layer_norm.ipynb)). So the
# weights of the last block get a gradient more than a thousand times smaller than those of the
# first (lower panel). No error is raised. (Adam, which rescales every gradient, may still learn.)
#
# ## 5 · Does it help?
#
# Back to the coins: the same mixer, MLP, seeds and steps, now in your block, with a norm that
# works along the channels. Beside it stands a control, your block with the norm of section 1 and
# without any mixer.


# %%
def coin_block(mixer, norm):
    mixer_norm = off if mixer is off else norm
    mlp = partial(SimpleFeedForward, 32, 128)
    return MyBlock(mixer, mixer_norm, off, off, mlp, norm, off)


yours = partial(coin_block, PastMean, partial(LayerNorm, 32))
only_the_norm = partial(coin_block, off, Norm)

# %% three-seeds tags=["slow", "trained"]
with predict(
    "The norm of section 1 and no mixer: how many flips does it predict?",
    ["about 50 %", "about 65 %", "over 90 %"],
):
    runs = {
        "no mixer": [fit(only_the_norm, seed) for seed in range(3)],
        "your block": [fit(yours, seed) for seed in range(3)],
    }
    show(draw.plot_flips(runs, "The norm alone carries the flips"))

# %% [markdown]
# Your block can only guess, as it should. The control has no mixer, and yet predicts as much as
# the network of section 1. Its 32 means and spreads are taken over all positions, the later ones
# included. (How the flips are read from them, the
# [investigation](investigations/07a_coin_flips.ipynb) shows.) So we keep to a rule: norms and MLP
# treat each position by itself, and the mixer decides what a position gets to know.
#
# ### Now use it
#
# In this movie of four frames a digit runs to the right, around a ring. Half of the movies are
# played backwards, and a network of two of your blocks has to say which. (Folded: the movies, cut
# into 4 × 4 × 6 patches of 2 × 2 pixels; a last layer that gets the largest value of each channel
# over all positions; and 60 steps of training.)


# %% movie jupyter={"source_hidden": true}
def movies(images, size, generator):
    """Return digits that run around a ring of 12 columns: (size, 4, 8, 12)."""
    canvas = torch.zeros(size, 8, 12)
    rows = torch.randint(len(images), (size,), generator=generator)
    canvas[:, :, :8] = images[rows]
    start = torch.randint(12, (size, 1), generator=generator)
    columns = [(torch.arange(12) - start - t) % 12 for t in range(4)]
    frames = [canvas.gather(2, c[:, None].expand(size, 8, 12)) for c in columns]
    return torch.stack(frames, dim=1)


def clips(images, seed, size=32):
    """Yield movies in patches, half of them backwards, and which they are."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        x = ((movies(images, size, generator) - mean) / std).to(device)
        x = x.view(size, 4, 4, 2, 6, 2).transpose(3, 4).reshape(size, 4, 4, 6, 4)
        y = torch.randint(2, (size,), generator=generator).to(device)
        yield torch.where(y.view(-1, 1, 1, 1, 1) == 1, x.flip(1), x), y


class Judge(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.first, self.last = nn.Linear(4, 32), nn.Linear(32, 2)
        self.blocks, self.norm = nn.Sequential(config(), config()), LayerNorm(32)

    def forward(self, x):
        return self.last(self.norm(self.blocks(self.first(x))).flatten(1, 3).amax(1))


def judge(config, seed=0):
    """Train a network; return the share of 240 new movies that it judges right."""
    torch.manual_seed(seed)
    net = Judge(config).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=0.003, fused=True)
    batches = clips(data.train_images, seed)
    train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps=60)
    x, y = next(clips(data.test_images, seed=99, size=240))
    with torch.no_grad():
        return (net(x).argmax(-1) == y).float().mean().item()


frames = movies(data.train_images, 1, torch.Generator().manual_seed(14))[0]
show(draw.plot_movie(frames, "Forwards: the digit runs to the right"))

# %% mixers tags=["slow", "trained"]
right = []
for size in (1, 3, 3), (3, 3, 3):
    config.sequence_mixer_cfg.size = size
    right.append(judge(config))
    print(f"convolution {size}: {right[-1]:.0%} of new movies judged right")

# %% [markdown]
# A kernel of 1 × 3 × 3 sees each frame by itself, and the network can only guess. With 3 × 3 × 3
# it also sees the frame before and the frame after, and judges the movies right. One entry of
# the description was changed.
#
# ## 6 · Where do people go wrong?
#
# ### Exercise 3 · Equivalent with LayerNorm (7 minutes)
#
# PyTorch's convolutions want the channels second, but `nn.LayerNorm` wants them last. In
# [PyTorch's documentation](https://pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html) a
# colleague finds that a GroupNorm of a single group is "equivalent with LayerNorm", and takes
# that. We put it into your block (and move the channels there and back).


# %%
def handed_norm(x):  # (batch, channels, *space)
    return F.group_norm(x, num_groups=1)


class ChannelsSecond(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x.movedim(-1, 1)).movedim(1, -1)


# %% handed tags=["trained"]
def try_norm(norm):
    """Train a network with this norm; return its first block and its score."""
    parts = PastMean, partial(ChannelsSecond, norm)
    net, _, share = fit(partial(coin_block, *parts), seed=0)
    print(f"{share:.0%} of fair coin flips predicted")
    return net.blocks[0], share


handed, share = try_norm(handed_norm)

# %% [markdown]
# **Measure first**, with your test, part by part.


# %% measure tags=["trained"]
def report(block):
    x = torch.randn(1, 16, 32, device=device)
    for name in "input_norm", "sequence_mixer", "mlp":
        found = moved(getattr(block, name), x, (8,))
        print(f"{name:14}", "".join("x" if m else "." for m in found))


report(handed)

# %% [markdown]
# The norm is the part that moves earlier positions.
#
# **Then mend.** Write a norm for (batch, channels, \*space), with any number of axes of space:
# each position gets mean 0 and variance 1 over *its own* channels, as `nn.LayerNorm` does it
# (no gain and bias; 0.00001 inside the root).
#
# <details><summary>Hint</summary>Either move the channels to the end, call
# <code>F.layer_norm</code>, and move them back; or take mean and variance along axis 1, with
# <code>keepdim=True</code>.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "channels-first-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def channels_first_norm(x):
    """Normalise the channels of each position; x is (batch, channels, *space)."""
    ### BEGIN SOLUTION
    last = x.movedim(1, -1)
    return F.layer_norm(last, last.shape[-1:]).movedim(-1, 1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "channels-first-norm-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(channels_first_norm, "channels_first_norm")

# %% mended tags=["trained"]
mended, share = try_norm(channels_first_norm)
report(mended)

# %% [markdown]
# `F.group_norm(x, 1)` takes one mean over all channels *and all positions* of a sample. The norm
# of a Transformer takes one for each position. Two relatives:
#
# - **InstanceNorm** takes a mean over the positions for each channel: the norm of section 1.
# - **BatchNorm** in training takes it over the positions and the batch. It moves all positions
#   too, and yet its network predicts only half of the coins (the
#   [investigation](investigations/07a_coin_flips.ipynb) has the run). So a score of 50 % does not
#   show that nothing leaks.
#
# None of these norms is forbidden: a network that classifies pictures knows all pixels anyway.
#
# ## 7 · What do I keep?
#
# $$x \leftarrow x + \mathrm{mixer}(\mathrm{norm}(x)), \quad
# x \leftarrow x + \mathrm{cross}(\mathrm{norm}(x), c), \quad
# x \leftarrow x + \mathrm{mlp}(\mathrm{norm}(x))$$
#
# ```python
# other = x.clone()
# other[(0, *place)] = torch.randn_like(x[(0, *place)])
# moves = (part(other) - part(x)).abs().amax(dim=-1)[0] > 1e-5
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>Which part of a block changes when a text becomes a movie?</summary>At most
# the mixer. LayerNorm and MLP work along the last axis, whatever stands before it.</details>
#
# <details><summary>Why is it not enough to put an Identity where a branch should do
# nothing?</summary>x + Id(Id(x)) is 2x. The branch has to be skipped.</details>
#
# <details><summary>A causal network predicts fair coin flips. How do you find the
# part?</summary>Change one position of what each part receives, and look which outputs move. No
# earlier one may.</details>
#
# **Next.** In [lesson 07b](07b_conditions_and_networks.ipynb) the block gets its condition, and
# becomes a whole network. Can you trust a score? That is the question of the
# [investigation](investigations/07a_coin_flips.ipynb). [Homework](homework/hw_06_07.ipynb) is on
# lessons 06, 07a and 07b; the [glossary](../docs/glossary.md) has all words.

# %%
summary("07a")
