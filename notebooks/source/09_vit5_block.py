# %% [markdown]
# # 09 · The ViT-5 block
#
# 95 minutes. It needs no network connection. Of [lesson 08c](08c_selective_scan.ipynb) it uses how the cost of
# attention grows and how operations are counted; of [lesson 08a](08a_attention.ipynb), attention and its rotation; of
# [lesson 08b](08b_long_convolution.ipynb), Hyena and its condition; and the norm, the coin and the gate of lessons
# [02](02_layer_norm.ipynb), [03](03_dropout_and_stochastic_depth.ipynb) and [05](05_layer_scale.ipynb).
#
# By the end you can
#
# - **lay out** a picture as a sequence: patches, a CLS token, registers, padding;
# - **let** channels compete, and say what that changes at the first step: nothing;
# - **build** the block from pieces that you have, and count by hand what it costs;
# - **measure** what attention does with registers, and whether they help here.

# %% [markdown]
# ## Before we start: three questions
#
# Answer aloud, then open.
#
# <details><summary>1. Lesson 02: a token becomes ten times as large. What does RMSNorm hand on?</summary>The same as
# before, a token of length √d. It keeps the direction, the mean included.</details>
#
# <details><summary>2. Lesson 05: every gate starts at 0.0001. Whose gradient is ten thousand times smaller for it, the
# gates' or the branches'?</summary>The branches'. The gates hear all of theirs.</details>
#
# <details><summary>3. Lesson 03: DropPath meets a batch of four. How many coins are flipped?</summary>Four, one for each
# sample, each time it is called.</details>

# %%
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu import CKConv, Hyena, KernelFiLMGenerator, MLP, QKVSequenceMixer
from residual_edu import RMSNorm, SIRENKernel, parameter_groups, pre_norm_residual
from residual_edu.datasets import digits, photos
from residual_edu.errors import InvalidInput
from residual_edu.exercises import check
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import vit5 as plots
from residual_edu.training import accuracy, minibatches, train

device, pictures = setup(), photos()
progress("09")

# %% [markdown]
# ## A picture as a sequence
#
# A transformer takes a sequence of tokens. So cut the picture into squares, map each square to a vector, and read them
# row by row. Then add tokens that stand for no place:
#
# - one **CLS** token, for *classification*: it starts alike for every picture, and at the end it is asked for the answer;
# - a few **registers**: they start alike for every picture too, and at the end nobody asks them anything.

# %%
fig = Figure(figsize=(6, 4.9))
ax = plots.plot_layout(pictures["china"], 64, ["CLS", "R", "R", "R", "R"], fig.add_subplot())
ax.set_title("60 patches, then a CLS token and four registers")
show(
    fig,
    alt="A photograph of a pagoda cut into six rows of ten numbered squares. Below them a seventh row: a CLS token, four "
    "registers, and five grey cells of padding.",
)

# %% [markdown]
# The order is [patches, CLS, registers, padding]. Attention needs no padding. A convolution along both axes does: it
# wants whole rows, and gets a seventh one here, filled up with zeros.
#
# Where do the registers begin? It is worth a rule of one's own: code that counts from the older order, [CLS, registers,
# patches], pools patches and calls them registers, and no error tells.
#
# ### Exercise 1 · 6 minutes · ●●○○○
#
# Given the number of patches, whether there is a CLS token, the number of registers and the length of a row, return a
# pair: how many tokens stand before the registers, and how many tokens of padding fill the last row.
#
# <details><summary>Hint 1</summary>Write the tokens down for 4 patches, a CLS token, 1 register and rows of 4. Python
# takes <code>True</code> for 1 in a sum.</details>
# <details><summary>Hint 2</summary>Of 6 tokens, rows of 4 miss 2; of 8 they miss 0. In Python <code>-6 % 4</code> is
# 2.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "token-places", "locked": false, "schema_version": 3, "solution": true, "task": false}
def token_places(patches, has_cls, registers, row):
    """Return (tokens before the registers, tokens of padding)."""
    ### BEGIN SOLUTION
    start = patches + has_cls
    return start, -(start + registers) % row
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "token-places-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(token_places, "token_places")

# %% [markdown]
# ## Three pieces that you have, and two that are new
#
# The block is a pre-norm block of two branches. Around each branch stand a norm from lesson 02, a gate from lesson 05
# and a coin from lesson 03: x + DropPath(LayerScale(f(RMSNorm(x)))). New are channels that compete, and tokens that
# belong to no place.
#
# ## Channels that compete
#
# Two tokens, two channels: the first channel says 3 and 4, the second 1 and 0. Over the tokens their sizes are 5 and 1,
# and the mean of the two is 3. **Global response normalisation** (GRN) gives each channel a share, its size over that
# mean, and adds the channel times its share: x + γ · x · share. **With γ = 1, what becomes of the small channel?**

# %% tags=["predict"]
guess = predict("Sizes 5 and 1, γ = 1. The small channel becomes", ["a third of itself", "itself and a third", "0"])

# %% tags=["reveal"]
# Answer first, then run this cell.
x = torch.tensor([[3.0, 1.0], [4.0, 0.0]])
sizes = x.norm(dim=0)
shares = sizes / sizes.mean()
print("sizes", sizes.tolist(), "shares", [round(share, 2) for share in shares.tolist()])
print("grown by", [round(factor, 2) for factor in (1 + shares).tolist()])
guess.reveal("itself and a third")

# %% [markdown]
# The large channel grows by 5/3, the small one by 1/3. Nobody shrinks, but the distance widens: what is strong *in this
# picture* is made stronger, for all its tokens at once.
#
# Do real pictures differ in that? Describe each of the 60 squares of a photograph by five numbers (`describe`, below):
# how much brighter than mid-grey it is, how much warmer than cold, how much greener than red, and how strong its edges
# are along both axes. Each channel in units of its mean size over both photographs, so that light and edges compare.
#
# **The pagoda or the flower: in which of the two do the edges get the largest shares?**

# %% tags=["predict"]
guess = predict("Edges get the largest shares in", ["the pagoda", "the flower", "both"])


def describe(photo):
    """Return five channels of 60 squares of a photograph, (60, 5)."""
    squares = photo[:384].unfold(0, 64, 64).unfold(1, 64, 64).flatten(0, 1)
    red, green, blue = squares.unbind(1)
    grey = squares.mean(1)
    edges = [grey.diff(dim=axis).abs() for axis in (1, 2)]
    return torch.stack([each.mean((1, 2)) for each in (grey - 0.5, red - blue, green - red, *edges)], dim=-1)


seen = torch.stack([describe(photo) for photo in pictures.values()])
seen = seen / seen.norm(dim=1).mean(0)

# %% tags=["reveal"]
# Answer first, then run this cell.
sizes = seen.norm(dim=1)
shares = dict(zip(("pagoda", "flower"), sizes / sizes.mean(-1, keepdim=True), strict=True))
names = ["brightness", "warmth", "green", "edges, down", "edges, across"]
fig = Figure(figsize=(6, 3.4))
ax = plots.plot_competition(shares, names, fig.add_subplot())
ax.set_title("In the pagoda edges win, in the flower colours")
show(
    fig,
    alt="Bars of the size of five channels over the mean size, for two photographs. In the pagoda both edge channels "
    "stand at 1.5 and colours at half or less; in the flower it is the other way round.",
)
assert min(shares["pagoda"][3:]) > 1.3 > 0.6 > max(shares["pagoda"][1:3])
assert min(shares["flower"][1:3]) > 1.3 > 0.6 > max(shares["flower"][3:])
guess.reveal("the pagoda")

# %% [markdown]
# The same five channels, and each picture has winners of its own. (In these units what is large in one of two pictures
# is small in the other; which channels those are, the pictures say.) That is why the sizes are taken *per sample*: two
# pictures of one batch have nothing to do with each other.
#
# ### Exercise 2 · 8 minutes · ●●●○○
#
# Write GRN for `x` of shape (samples, tokens, channels): γ · x · share + β + x, with γ and β of shape (channels,). The
# share is a channel's size, the root of its sum of squares over the tokens, over the mean size of all channels of the
# same sample plus `eps`.
#
# <details><summary>Hint 1</summary>How many sizes does a sample have: as many as tokens, or as many as
# channels?</details>
# <details><summary>Hint 2</summary>Sum the squares over the tokens and keep that axis: (samples, 1, channels). Over which axis runs
# the mean?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "compete", "locked": false, "schema_version": 3, "solution": true, "task": false}
def compete(x, gamma, beta, eps):
    """Let the channels of each sample compete."""
    ### BEGIN SOLUTION
    size = x.square().sum(1, keepdim=True).sqrt()
    share = size / (size.mean(-1, keepdim=True) + eps)
    return gamma * x * share + beta + x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "compete-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(compete, "compete")

# %% [markdown]
# The finished piece. γ and β start at 0, so at the first step it changes nothing. Can it learn, then?


# %% tags=["promote:parts/global_response_norm"]
import torch
from torch import nn


def global_response_norm(x, gamma, beta, eps=1e-6):
    # x: batch, ..., channels; gamma, beta: channels
    # a sum of squares overflows float16
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    size = torch.linalg.vector_norm(wide, dim=tuple(range(1, x.ndim - 1)), keepdim=True)
    n = size / (size.mean(dim=-1, keepdim=True) + eps)  # (batch, 1, ..., 1, channels)
    return (gamma * (wide * n) + beta + wide).type_as(x)


class GlobalResponseNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.zeros(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        # x: batch, ..., channels
        return global_response_norm(x, self.gamma, self.beta, self.eps)


# %%
for seed in range(3):
    x = torch.randn(2, 60, 5, generator=torch.Generator().manual_seed(seed))
    grn = GlobalResponseNorm(5)
    assert grn(x).equal(x)
    grn(x).square().sum().backward()
    assert grn.gamma.grad.all() and grn.beta.grad.all()
try:
    grn(seen[:, 0])
except InvalidInput as refusal:
    print(refusal)

# %% [markdown]
# **Law.** GRN starts as the identity, bit for bit, and both of its parameters have a gradient at once.
#
# The last lines ask for something else: five channels of each picture without an axis of tokens. There is nothing to
# measure a size over but the batch, and samples would leak into each other. GRN refuses.

# %% [markdown]
# ## Attention for pictures
#
# The attention of lesson 08a, with two changes for pictures. Queries and keys of each head are normalised, if asked.
# And the rotation knows two axes: half of the pairs turn with the row of a patch, half with its column. Registers turn on
# a small grid of their own. The CLS token, which stands nowhere, is not turned.


# %% tags=["promote:mixers/vit5_attention"] jupyter={"source_hidden": true}
from math import isqrt

import torch
from torch import nn

from residual_edu.config import build
from residual_edu.parts.attention import fused_attention, merge_heads
from residual_edu.parts.mlp import filled
from residual_edu.parts.position import rotary_angles, rotary_cos_sin, rotate_by


class ViT5Attention(nn.Module):
    """Multi-head attention over [patches, CLS, registers], with its own projections."""

    def __init__(
        self,
        hidden_dim,
        num_heads,
        num_patches_h,
        num_patches_w,
        num_registers=4,
        has_cls=True,
        qk_norm=None,
        rope_base=10000.0,
        reg_rope_base=100.0,
        attn_dropout=0.0,
        proj_dropout=0.0,
        qkv_bias=False,
        out_proj_bias=False,
        scale=None,
        init_fn_qkv_proj=None,
        init_fn_out_proj=None,
    ):
        super().__init__()
        head_dim = hidden_dim // num_heads
        self.num_heads, self.attn_dropout = num_heads, attn_dropout
        self.scale = head_dim**-0.5 if scale is None else scale
        patches = rotary_angles((num_patches_h, num_patches_w), head_dim, rope_base)
        registers = register_angles(num_registers, head_dim, reg_rope_base)
        angles = torch.cat(
            [patches, torch.zeros(int(has_cls), head_dim // 2), registers]
        )
        # No buffer: it would enter the state dict, and be rounded with the weights
        # where they go to 16 bits.
        self.num_tokens, self.cos_sin = len(angles), rotary_cos_sin(angles)
        self.qkv = filled(
            nn.Linear(hidden_dim, 3 * hidden_dim, bias=qkv_bias), init_fn_qkv_proj
        )
        self.q_norm, self.k_norm = (
            nn.Identity() if qk_norm is None else build(qk_norm) for _ in range(2)
        )
        self.proj = filled(
            nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias), init_fn_out_proj
        )
        self.proj_drop = nn.Dropout(proj_dropout) if proj_dropout else nn.Identity()

    def forward(self, x, *, conditioning=None):
        # x: batch, tokens, channels
        dropout = self.attn_dropout if self.training else 0.0
        # batch, head, token, head_dim
        y = fused_attention(*self.heads(x), scale=self.scale, dropout=dropout)
        return self.proj_drop(self.proj(merge_heads(y)))

    def heads(self, x):
        q, k, v = (
            self.qkv(x)
            .unflatten(-1, (3, self.num_heads, -1))
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        return (
            rotate_by(self.q_norm(q), *self.cos_sin),
            rotate_by(self.k_norm(k), *self.cos_sin),
            v,
        )


def register_angles(count, head_dim, base):
    # result: registers, pairs
    side = isqrt(max(count - 1, 0)) + 1
    return rotary_angles((side, side), head_dim, base)[:count]


# %% [markdown]
# Let all patches say the same, so that only their places differ. **What does the score between two of them depend on?**

# %% tags=["predict"]
guess = predict(
    "Twelve patches that look alike: a score depends on",
    ["nothing", "how they stand to each other", "where they stand"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
mixer = ViT5Attention(16, num_heads=2, num_patches_h=3, num_patches_w=4).double()
alike = torch.randn(1, 1, 16, dtype=torch.float64).expand(1, 17, 16)
q, k, _ = mixer.heads(alike)
scores = (q @ k.mT)[0, 0, :12, :12].view(3, 4, 3, 4)
assert torch.allclose(scores[1:, :, 1:], scores[:-1, :, :-1])
assert torch.allclose(scores[:, 1:, :, 1:], scores[:, :-1, :, :-1])
assert not torch.isclose(scores[0, 0, 0, 1], scores[0, 0, 1, 0])
cosines, _ = mixer.cos_sin
assert cosines[12].eq(1).all() and len(cosines[13:].unique(dim=0)) == 4
guess.reveal("how they stand to each other")

# %% [markdown]
# **Law.** Move a pair of patches down, or to the right, and its score stays; turn the pair from across to down, and the
# score is another. The CLS token has no angle, each register one of its own.
#
# ## Tokens that belong to no place
#
# The weights of attention add up to 1. A token that has found nothing must still look somewhere. In large vision
# transformers, trained for long, patches of plain sky were found with norms ten times those of their neighbours: the
# network had thrown away what they said and used them as scrap paper. Registers are scrap paper that belongs to nobody.
#
# A block can also *read* them: pool the registers into one vector, and hand that to the mixer as its condition.
# `RegisterPooling` takes their weighted mean, the weights a softmax of learned logits, at the start all alike. Its
# sibling sets all registers side by side, each made narrow by the same map; a network can answer from that, instead of
# from a CLS token.


# %% tags=["promote:mixers/registers"]
import torch
from torch import nn


class RegisterPooling(nn.Module):
    def __init__(self, num_registers):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(num_registers))

    def forward(self, registers):
        # registers: batch, registers, channels; result: batch, channels
        weights = self.logits.softmax(dim=0).to(registers.dtype)
        return (weights[:, None] * registers).sum(dim=1)


class RegisterCompressConcat(nn.Module):
    def __init__(self, num_registers, hidden_dim, compressed_dim):
        super().__init__()
        self.num_registers = num_registers
        self.compress = nn.Linear(hidden_dim, compressed_dim, bias=False)

    @property
    def out_dim(self):
        return self.num_registers * self.compress.out_features

    def forward(self, registers):
        # registers: batch, registers, channels; result: batch, out_dim
        return self.compress(registers).flatten(1)


# %% [markdown]
# A convolution wants a picture, not a sequence. This adapter lays the tokens out in rows, padding included, and reads them
# off again; the condition goes through.


# %% tags=["promote:mixers/vit5_hyena"]
from torch import nn

from residual_edu.config import build


class ViT5HyenaAdapter(nn.Module):
    """Apply a mixer of two space axes to a sequence of tokens."""

    def __init__(self, inner_mixer_cfg, grid_w):
        super().__init__()
        self.grid_w = grid_w
        self.inner_mixer = build(inner_mixer_cfg)

    def forward(self, x, *, conditioning=None):
        # x: batch, tokens, channels
        return self.inner_mixer(
            x.unflatten(1, (-1, self.grid_w)), conditioning=conditioning
        ).flatten(1, 2)


# %% [markdown]
# ## The block
#
# Now put it together. Count what is new in `forward`: two calls of `pre_norm_residual`, each with its gates. The checks
# around them are longer than the mathematics.


# %% tags=["promote:blocks/vit5_block"] jupyter={"source_hidden": true}
from functools import partial

from torch import nn

from residual_edu.config import build
from residual_edu.parts.drop_path import DropPath
from residual_edu.parts.layer_scale import LayerScale
from residual_edu.parts.residual import is_bypassed, pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class ViT5ResidualBlock(nn.Module):
    def __init__(
        self,
        sequence_mixer_cfg,
        sequence_mixer_norm_cfg,
        mlp_cfg,
        mlp_norm_cfg,
        hidden_dim,
        layer_scale_init=1e-4,
        drop_path_rate=0.0,
        register_pooling_cfg=None,
        num_registers=0,
        register_start_idx=1,
        grn_cfg=None,
    ):
        super().__init__()
        self.hidden_dim, self.num_registers, self.register_start_idx = (
            hidden_dim,
            num_registers,
            register_start_idx,
        )
        self.input_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.mlp = build(mlp_cfg)
        self.ls_attn = (
            LayerScale(hidden_dim, layer_scale_init)
            if layer_scale_init
            else nn.Identity()
        )
        self.ls_mlp = (
            LayerScale(hidden_dim, layer_scale_init)
            if layer_scale_init
            else nn.Identity()
        )
        self.drop_path = DropPath(drop_path_rate) if drop_path_rate else nn.Identity()
        self.grn = None if grn_cfg is None else build(grn_cfg)
        self.register_pooling = None
        if (
            register_pooling_cfg is not None
            and num_registers
            and not is_bypassed(self.sequence_mixer)
        ):
            self.register_pooling = build(register_pooling_cfg)

    def forward(self, x, condition=None):
        # x: batch, tokens, channels
        mixer = self.sequence_mixer
        pooling, drop = self.register_pooling, self.drop_path
        if pooling is not None:
            mixer = partial(self._mix_with_registers, pooling)
        competing = [] if self.grn is None else [self.grn]
        x = pre_norm_residual(
            x, mixer, self.input_norm, [*competing, self.ls_attn, drop]
        )
        return pre_norm_residual(x, self.mlp, self.mlp_norm, [self.ls_mlp, drop])

    def _mix_with_registers(self, pooling, tokens):
        # tokens: batch, tokens, channels
        start, end = (
            self.register_start_idx,
            self.register_start_idx + self.num_registers,
        )
        registers = tokens[:, start:end]  # (batch, registers, channels)
        return self.sequence_mixer(tokens, conditioning=pooling(registers))


# %% [markdown]
# A block for tokens of 16 channels: 3 by 3 patches, a CLS token, two registers. With attention, and with Hyena, whose
# kernel the registers bend. Give both mixers the same tokens and another condition.


# %%
def hyena():
    """Return Hyena over rows of three tokens, its kernel modulated by a condition."""
    film = partial(KernelFiLMGenerator, 16, kernel_hidden_dim=8, num_film_layers=1)
    kernel = partial(SIRENKernel, 16, 2, 8, 2, 8, omega_0=1.0, L_cache=3, use_bias=True, film_cfg=film)
    conv = partial(CKConv, 2, 16, kernel, nn.Identity, "double", "zero")
    short = partial(nn.Conv2d, 48, 48, 3, padding=1, groups=48)
    inner = partial(Hyena, conv, short, nn.SiLU, nn.Identity, partial(RMSNorm, 16))
    return ViT5HyenaAdapter(partial(QKVSequenceMixer, 16, inner), grid_w=3)


attention, feed_forward = partial(ViT5Attention, 16, 2, 3, 3, 2), partial(MLP, 16, "gelu", nn.Identity)


def block(mixer=attention, mlp=feed_forward, seed=0, start=1e-4, rate=0.0):
    """Return a block of 16 channels that pools its two registers, tokens 10 and 11."""
    torch.manual_seed(seed)
    norm, pooling = partial(RMSNorm, 16), partial(RegisterPooling, 2)
    return ViT5ResidualBlock(mixer, norm, mlp, norm, 16, start, rate, pooling, 2, 10).to(device)


for seed in range(3):
    torch.manual_seed(seed)
    x, other, bent = torch.randn(4, 12, 16).to(device), torch.randn(4, 16).to(device), hyena().to(device)
    for parameter in bent.parameters():
        nn.init.normal_(parameter, std=0.3)
    assert not torch.allclose(bent(x, conditioning=x[:, 10]), bent(x, conditioning=other))
    deaf = block(seed=seed).sequence_mixer
    assert deaf(x, conditioning=x[:, 10]).equal(deaf(x, conditioning=other))
    assert block(hyena, seed=seed)(x).shape == x.shape
    assert torch.allclose(RegisterPooling(2).to(device)(x[:, 10:]), x[:, 10:].mean(1), atol=1e-6)

# %% [markdown]
# Hyena answers differently, attention does not. Attention takes the word `conditioning` and has no use for it, for it can
# look at registers by itself; a kernel cannot, unless it is told.
#
# ### Three laws of the block
#
# First: with LayerScale at 0.0001 a new block is nearly the identity. **And how does the gradient of its mixer compare with
# that of a block whose gates start at 1?**

# %% tags=["predict"]
guess = predict("Gates at 1/8192 instead of 1: the mixer's gradient is", ["the same", "about 1/8192", "exactly 1/8192"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for seed in range(3):
    x, pull = (torch.randn(4, 12, 16, generator=torch.Generator().manual_seed(n)).to(device) for n in (seed, 9))
    assert 0 < (block(seed=seed)(x) - x).abs().max() < 1e-3
    pair = [block(seed=seed, mlp=nn.Identity, start=start) for start in (2.0**-13, 1.0)]
    small, full = (torch.autograd.grad(made(x), list(made.sequence_mixer.parameters()), pull) for made in pair)
    assert all(a.equal(b / 8192) for a, b in zip(small, full, strict=True))
guess.reveal("exactly 1/8192")

# %% [markdown]
# **Law.** At 0.0001 the block is the identity to a thousandth, and a branch hears its gate's size times what it would,
# exactly (a power of two shows it without rounding; one branch alone, so that both hear the same from above).
#
# Second: one DropPath module serves both branches. **400 copies of one picture go through a block with rate 0.5. How many
# different results come out?**

# %% tags=["predict"]
guess = predict("One module, two branches, rate 0.5: different results", ["1", "2", "4"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for seed in range(3):
    made, x = block(seed=seed, start=1.0, rate=0.5), torch.randn(1, 12, 16).to(device).expand(400, 12, 16)
    lengths, counts = (made(x) - x).flatten(1).norm(dim=1).round(decimals=2).unique(return_counts=True)
    assert len(lengths) == 4 and counts.min() > 60 and counts.max() < 140
guess.reveal("4")

# %% [markdown]
# **Law.** One module, two independent coins: both branches, one, the other, none, about a quarter each. A module that
# flipped one coin for both would give two results, and drop whole blocks.
#
# Third, the price. A product of an (a, b) matrix with a (b, c) matrix costs 2 · a · b · c operations.

# %% [markdown]
# ### Exercise 3 · 8 minutes · ●●●○○
#
# Count the matrix products of one block with attention, for one picture of T tokens and C channels. The MLP is twice as
# wide as the stream. Norms, gates and the softmax are not asked for. How many heads there are does not matter; why not?
#
# <details><summary>Hint 1</summary>Four maps of C by C, two products of all tokens with all tokens, two maps of the
# MLP.</details>
# <details><summary>Hint 2</summary>A map of C by C costs 2 T C². Queries with keys cost 2 T² C, and weights with values
# as much again.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "block-flops", "locked": false, "schema_version": 3, "solution": true, "task": false}
def block_flops(tokens, channels):
    """Return the operations of a block's matrix products, for one picture."""
    ### BEGIN SOLUTION
    maps, tables, mlp = 8 * tokens * channels**2, 4 * tokens**2 * channels, 8 * tokens * channels**2
    return maps + tables + mlp
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "block-flops-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(block_flops, "block_flops")

# %% [markdown]
# 16 T C² for all maps; 4 T² C for the two products with the table of who looks at whom, the *tables* for short. More
# heads are narrower heads: h tables of C / h channels cost what one of C does. PyTorch counts while it
# computes. **From how many tokens on do the tables cost more than all maps, at 48 channels?**

# %% tags=["predict"]
guess = predict("C = 48: the tables cost more than the maps from", ["48 tokens", "192 tokens", "768 tokens"])

# %% tags=["reveal"]
# Answer first, then run this cell.
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

made, tokens, channels = block(), 12, 16
with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
    made(torch.randn(1, tokens, channels).to(device))
counted, by_hand = counter.get_total_flops(), 16 * tokens * channels**2 + 4 * tokens**2 * channels
print(f"by hand {by_hand:,}, counted {counted:,}")
assert by_hand == counted

lengths = torch.logspace(0.7, 3.6, 40, dtype=torch.float64)
maps, tables = 16 * lengths * 48**2, 4 * lengths**2 * 48
fig = Figure(figsize=(6, 3.6))
ax = plots.plot_costs(lengths, maps, tables, 4 * 48, fig.add_subplot())
ax.set_title("Up to 4 C tokens the maps cost more")
show(
    fig,
    alt="Operations of a block of 48 channels over the number of tokens, log scales: the maps grow in proportion, the "
    "tables with the square. They cross at 192 tokens, four times the channels.",
)
assert 4 * 192**2 * 48 == 16 * 192 * 48**2
guess.reveal("192 tokens")

# %% [markdown]
# **Law.** 16 T C² + 4 T² C: the tables overtake the maps at T = 4 C. At the sizes of this lesson the tables are the
# cheap part. A photograph of 640 by 384 pixels in squares of 16 makes 960 tokens; a block of 384 channels still spends
# more on its maps.

# %% [markdown]
# ## The network
#
# Patches in, a table of learned tokens added, blocks, an answer. The table holds a position for each patch, then the CLS
# token, then the registers. The drop rate grows from block to block, from 0.


# %% tags=["promote:networks/vit5"] jupyter={"source_hidden": true}
from functools import partial

from torch import nn
from torch.nn import functional as F

from residual_edu.config import build
from residual_edu.networks.stack import build_blocks
from residual_edu.parts.drop_path import drop_path_schedule
from residual_edu.parts.patches import Patchify
from residual_edu.parts.weight_decay import no_weight_decay


class ViT5ClassificationNet(nn.Module):
    def __init__(
        self,
        in_channels,
        num_classes,
        hidden_dim,
        num_blocks,
        patch_size,
        image_size,
        num_registers,
        block_cfg,
        norm_cfg,
        readout="cls",
        drop_path_rate=0.0,
        neck_compression_ratio=1,
        pad_to_multiple_of=1,
    ):
        super().__init__()
        self.image_size, self.num_registers, self.readout = (
            image_size,
            num_registers,
            readout,
        )
        self.num_patches = (image_size // patch_size) ** 2
        self.register_start_idx = self.num_patches + (readout == "cls")
        self.num_tokens = self.register_start_idx + num_registers
        self.padding = -self.num_tokens % pad_to_multiple_of
        self.patch_embed = Patchify(in_channels, hidden_dim, 2, patch_size)
        self.tokens = no_weight_decay(nn.Embedding(self.num_tokens, hidden_dim))
        registers = {
            "num_registers": num_registers,
            "register_start_idx": self.register_start_idx,
        }
        rates = drop_path_schedule(num_blocks, drop_path_rate)
        self.blocks = build_blocks(
            "block_cfg",
            block_cfg,
            [registers | {"drop_path_rate": rate} for rate in rates],
        )
        self.out_norm = no_weight_decay(build(norm_cfg))
        concat = partial(
            RegisterCompressConcat,
            num_registers,
            hidden_dim,
            hidden_dim // neck_compression_ratio,
        )
        self.neck = concat() if readout == "register_concat" else nn.Identity()
        self.out_proj = nn.Linear(
            getattr(self.neck, "out_dim", hidden_dim), num_classes, bias=False
        )
        nn.init.trunc_normal_(self.tokens.weight, std=0.02)
        nn.init.trunc_normal_(self.out_proj.weight, std=0.02)

    def forward(self, images):
        # images: batch, side, side, in_channels; result: batch, classes
        x = self.embed(images)
        for block in self.blocks:
            x = block(x)
        return self.out_proj(self.neck(self.out_norm(self.pool(x))))

    def embed(self, images):
        # images: batch, side, side, in_channels; result: batch, tokens, channels
        # (batch, num_patches, channels)
        patches = self.patch_embed(images).flatten(1, 2)
        tokens = (
            F.pad(patches, (0, 0, 0, self.num_tokens - self.num_patches))
            + self.tokens.weight
        )
        return F.pad(tokens, (0, 0, 0, self.padding))

    def pool(self, x):
        # x: batch, tokens, channels; result: batch, ..., channels
        if self.readout == "register_concat":
            return x[:, self.register_start_idx : self.num_tokens]
        return (
            x[:, self.num_patches]
            if self.readout == "cls"
            else x[:, : self.num_patches].mean(dim=1)
        )


# %% [markdown]
# Digits: 4 patches of 4 by 4 pixels, 48 channels, three blocks. AdamW for seven epochs, the learning rate up to 0.005 and
# down again: some three seconds of processor time each. Three seeds with four registers, three without. **How much do
# registers gain?**

# %% tags=["predict"]
guess = predict("Four registers change the test accuracy by", ["+5 %", "less than 2 % either way", "−5 %"])
data = digits()
images, test_images = (x[..., None].to(device) for x in (data.train_images, data.test_images))
labels, test_labels = data.train_labels.to(device), data.test_labels.to(device)


def network(registers, seed, patch=4, dim=48, depth=3, heads=6, start=1e-4, rate=0.0):
    """Return a network for digits."""
    torch.manual_seed(seed)
    side, norm = 8 // patch, partial(RMSNorm, dim)
    mixer = partial(ViT5Attention, dim, heads, side, side, registers, qk_norm=partial(RMSNorm, dim // heads))
    made = partial(ViT5ResidualBlock, mixer, norm, partial(MLP, dim, "gelu", nn.Identity), norm, dim, start)
    return ViT5ClassificationNet(1, 10, dim, depth, patch, 8, registers, made, norm, drop_path_rate=rate).to(device)


def fit(net, epochs, seed=0, size=64):
    """Train with AdamW, the learning rate up to 0.005 and down again, and return the network."""
    steps, batches = epochs * len(images) // size, minibatches(images, labels, size=size, seed=seed)
    optimizer = torch.optim.AdamW(parameter_groups(net, 0.05), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    train(lambda x, y: F.cross_entropy(net(x), y), batches, optimizer, steps, schedule)
    return net


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
import time

began = time.process_time()
trained = {count: [fit(network(count, seed), 7, seed) for seed in range(3)] for count in (0, 4)}
holds(time.process_time() - began < 6 * 15, "Each takes less than 15 seconds.")
scores = {
    count: torch.tensor([accuracy(net, test_images, test_labels) for net in nets]) for count, nets in trained.items()
}
fig = Figure(figsize=(6, 2.2))
ax = plots.plot_scores({f"{count} registers": score for count, score in scores.items()}, fig.add_subplot())
ax.set_title("Registers: no difference that three seeds show")
ax.set(xlim=(0.95, 1), xlabel="test accuracy")
show(
    fig,
    alt="Test accuracy of three networks without registers and three with four, all dots between 0.96 and 0.99, the two "
    "groups overlapping.",
)
apart, least = scores[4].mean() - scores[0].mean(), min(score.min() for score in scores.values())
print(f"mean of three seeds with registers {scores[4].mean():.3f}, the difference {apart:+.3f}; the worst {least:.3f}")
holds(scores[4].mean() > 0.975 and least > 0.955, "With registers 97.5 % are right, the mean of three seeds.")
holds(abs(apart) < 0.02, "Registers change the accuracy by less than 2 %.")
guess.reveal("less than 2 % either way")

# %% [markdown]
# The network is good: 97.5 % of unseen digits and more. If registers help here, it is by less than three seeds can show.
# Be suspicious of whoever shows one seed of each.

# %% [markdown]
# ### What attention does with them
#
# Nine tokens, four of them registers. **Before training, which part of the CLS token's attention do the registers get?
# After?**

# %% tags=["predict"]
guess = predict(
    "The registers' part of CLS's attention", ["it grows with training", "it stays", "it falls with training"]
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
@torch.no_grad()
def attention_maps(net, x):
    """Return who looks at whom, averaged over heads, (blocks, samples, tokens, tokens), and the last stream."""
    maps, stream = [], net.embed(x)
    for block in net.blocks:
        q, k, _ = block.sequence_mixer.heads(block.input_norm(stream))
        maps.append((q @ k.mT * block.sequence_mixer.scale).softmax(-1).mean(1))
        stream = block(stream)
    return torch.stack(maps).cpu(), stream.cpu()


for seed, net in enumerate(trained[4]):
    before, after = (attention_maps(each.eval(), test_images)[0] for each in (network(4, seed), net))
    cls, patches = ([maps[:, :, rows, 5:].sum(-1).mean() for maps in (before, after)] for rows in ([4], [0, 1, 2, 3]))
    print(f"seed {seed}: CLS gives registers {cls[0]:.2f}, after training {cls[1]:.2f}; patches then {patches[1]:.2f}")
    holds(0.38 < cls[0] < 0.6 and cls[1] < 0.27, "CLS gives registers 4/9 before training, about half of that after.")
    holds(net.register_start_idx == 5, "Registers stand behind four patches and the CLS token.")
    holds(patches[1] > 0.28, "The patches keep looking at the registers.")
norms = [attention_maps(net.eval(), test_images)[1][:, :4].norm(dim=-1) for net in (*trained[0], *trained[4])]
largest = max(norm.max() / norm.median() for norm in norms)
print(f"the largest patch of all six networks: {largest:.2f} times the median")
holds(largest < 2.2, "No patch is an outlier.")
guess.reveal("it falls with training")

# %% [markdown]
# A new network prefers nothing but by the luck of its weights, so registers get about their even part, 4 of 9. Training
# turns the CLS token away from them: they start alike for every picture, and the digit is in the patches. The patches
# keep looking.
#
# And the scrap paper? In the large networks some patches ended with norms ten times those of the others. Here the last
# lines find none, on any test digit, that is much more than twice the typical one.
#
# **Law, and its limit.** With or without registers, no outlier appears in three blocks and some 160 steps. The
# artefacts that registers were made for were seen in networks more than a thousand times as large, trained for far
# longer. Where the illness is missing, its cure has nothing to show.
#
# To see where tokens look, four patches are few. Two networks with patches of 2, sixteen of them, one seed each: the mean
# over 120 test digits of what the CLS token sees in the first block, the darker, the more.

# %% tags=["trained"]
pair = {"without registers": 0, "with four registers": 4}
make = {name: partial(network, count, 0, patch=2, depth=2, heads=4) for name, count in pair.items()}
looks = {}
for name, build_net in make.items():
    new, old = build_net().eval(), fit(build_net(), 5, size=32).eval()
    looks[name] = torch.stack([attention_maps(net, test_images[:120])[0] for net in (new, old)])
    holds(accuracy(old, test_images[:120], test_labels[:120]) > 0.85, "Both networks read more than 85 %.")
to_registers = looks["with four registers"][:, 0, :, :, 17:].sum(-1).mean(1)  # before and after, by who looks
for name, token in (("CLS", 16), ("patch 0", 0)):
    print(f"{name} gives registers {to_registers[0, token]:.2f}, after training {to_registers[1, token]:.2f}")
holds(to_registers[0, 16] > 0.2 and to_registers[1, 16] < 0.12, "Training turns the CLS token away from registers.")
holds(to_registers[1, 0] > to_registers[0, 0] > 0.12, "Patch 0, a corner without ink, looks at them no less.")
fig = Figure(figsize=(6, 2.7))
for ax, (name, moment) in zip(fig.subplots(1, 4), [(name, moment) for name in looks for moment in (0, 1)], strict=True):
    others = ["CLS", "R", "R", "R", "R"][: looks[name].shape[-1] - 16]
    plots.plot_heard(looks[name][moment, 0, :, 16].mean(0), others, 0.15, ax)
    short = name.replace("without", "no").removeprefix("with ")
    ax.set_title(f"{short},\n{'after' if moment else 'before'} training", weight="normal")
fig.suptitle("Training turns the CLS token to the patches", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="What the CLS token attends to, averaged over 120 test digits, in four maps of four by four patches. Before "
    "training no patch stands out, and the registers get a third; after it a few patches do, and registers are pale.",
)

# %% [markdown]
# ## Look through the eyes of one token
#
# The same two networks, digit by digit. Choose who asks, and in which block.
#
# **Find out:** go from *before* to *after* in block 1, with the CLS token asking. What do the registers get? An even part
# would be 4 of 21, 19 %. Now let patch 0 ask, a corner without ink, and look at the registers again.

# %% tags=["explorer"]
from residual_edu.explorers.vit5_attention import explore_attention
from residual_edu.explorers.vit5_runs import explore_runs

few = {name: maps[:, :, :6].numpy() for name, maps in looks.items()}
explore_attention(data.test_images[:6], few, ["CLS", "R", "R", "R", "R"])

# %% [markdown]
# <details><summary>Answer</summary>Before training the CLS token gives the registers about a third, by the luck of its
# weights; after it, a few per cent, and a few patches stand out. Patch 0 gives them a fifth before, and no less after: a
# blank corner has no reason to look away.</details>
#
# ## The stream of nine blocks
#
# Now the gates. Nine blocks of 24 channels, with LayerScale from 0.0001, through 40 steps: the first and the last.

# %% tags=["trained"]
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.plotting.stream import plot_stream


def race(start, rate, depth, seed=0):
    """Train for 40 steps of 32 digits, without warm-up; return the flow, the losses and the test accuracy."""
    net = network(0, seed, dim=24, depth=depth, heads=2, start=start, rate=rate)
    optimizer = torch.optim.AdamW(parameter_groups(net, 0.05), lr=0.01, fused=True)
    batches = minibatches(images, labels, size=32, seed=seed)
    with GradientFlowRecorder(net, net.blocks) as flow:
        losses = train(lambda x, y: F.cross_entropy(net(x), y), batches, optimizer, 40)
    return flow, losses, accuracy(net, test_images, test_labels)


choices = [(start, rate, depth) for start in (0.0, 1e-4, 0.1) for rate in (0.0, 0.5) for depth in (1, 3, 9)]
raced = {choice: race(*choice) for choice in choices}
deep = {start: [raced[start, 0.0, 9], *(race(start, 0.0, 9, seed) for seed in (1, 2))] for start in (0.0, 1e-4)}
flow = deep[1e-4][0][0]
fig = Figure(figsize=(6, 6.6))
for ax, moment in zip(fig.subplots(2, 1), (0, 39), strict=True):
    plot_stream(flow, ax, step=moment, norms="pre").set_title(f"step {moment}", weight="normal")
fig.suptitle("Nine blocks begin as none and open in training", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Two river pictures of nine blocks. At step 0 a straight bed without tributaries, forward and back. At step 39 "
    "the bed swells from block to block, fed by visible tributaries.",
)
added = flow.added / flow.activation[:, :-1]
print(f"of the stream a block adds {added[0].max():.4f} at most at step 0, {added[-1].mean():.2f} on average at step 39")
holds(added[0].max() < 0.01 and added[-1].mean() > 0.05, "Nine blocks begin as none, and open as they train.")

# %% [markdown]
# **The same nine blocks without LayerScale, every gate 1: how many test digits are right after 40 steps, against those
# with gates from 0.0001?**

# %% tags=["predict"]
guess = predict("Nine blocks, 40 steps, gates of 1 against gates from 0.0001", ["more", "about as many", "far fewer"])

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
without, with_gates = ([run[2] for run in deep[start]] for start in (0.0, 1e-4))
print("right with gates of 1:", *(f"{share:.2f}" for share in without))
print("right with gates from 0.0001:", *(f"{share:.2f}" for share in with_gates))
holds(max(without) < 0.6 and min(with_gates) > 0.7, "Nine blocks need gates for 40 steps at 0.01.")
# What the explorer below shows:
one, shaken = ([raced[start, rate, 1][2] for start in (0.0, 1e-4, 0.1)] for rate in (0.0, 0.5))
nine, dropped = (raced[1e-4, rate, 9][2] for rate in (0.0, 0.5))
print("one block:", *(f"{share:.2f}" for share in one))
print(f"nine blocks from 0.0001: {nine:.2f}, with dropping {dropped:.2f}")
holds(min(one) > 0.6 and max(one) < 0.82, "One block reads about 70 %, whatever its gates.")
holds(max(abs(a - b) for a, b in zip(one, shaken, strict=True)) < 0.02, "At one block a drop rate does nothing.")
holds(dropped + 0.05 < nine > one[1] + 0.05, "Gates from 0.0001 gain from depth, and dropping branches costs.")
guess.reveal("far fewer")

# %% [markdown]
# ## Move it yourself
#
# 18 trainings of 40 steps: three starts of LayerScale, drop rates of 0 and 0.5, three depths.
#
# **Find out:** which start of LayerScale gains from depth, and which loses? And what does a drop rate of 0.5 do in so short
# a training, at one block and at nine?

# %% tags=["explorer"]
explore_runs({key: run[1] for key, run in raced.items()}, {key: run[2] for key, run in raced.items()})

# %% [markdown]
# <details><summary>Answer</summary>At one block the three starts are level, near 70 %. At nine, gates of 1 end near 40 %:
# nine branches change the stream at full strength from the first step, at a learning rate of 0.01 without warm-up.
# Gates from 0.0001 gain from depth, up to 90 %, and there dropping branches costs: it slows a training down, and forty
# steps are too few to overfit. At one block it does nothing at all, for the schedule starts at 0. One seed each:
# differences of a few per cent mean nothing.</details>
#
# ## True or false?
#
# - Registers hold a part of the picture. <details><summary>Answer</summary>False. They start alike for every picture and
#   belong to no place; what they hold at the end is up to training.</details>
# - GRN changes a network from its first step. <details><summary>Answer</summary>False. γ and β start at 0.</details>
# - One DropPath module for two branches drops both or none. <details><summary>Answer</summary>False. Each call flips its
#   own coins.</details>
# - Attention costs most in a vision transformer. <details><summary>Answer</summary>False below 4 C tokens, if attention
#   means its tables.</details>
# - Registers raise accuracy. <details><summary>Answer</summary>Not here: three seeds with and three without cannot be
#   told apart.</details>

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | [patches, CLS, registers, padding]: registers begin behind patches and CLS | place 5 for 4 patches | this order; older ones differ |
# | GRN is the identity at its start | bit for bit, three seeds | γ = β = 0 |
# | GRN favours what is strong in this picture | edges above 1.3 in the pagoda, colours in the flower | sizes per sample |
# | scores of patches that look alike depend on their offset alone | to rounding, float64 | rotations along two axes |
# | at 0.0001 a block is the identity to a thousandth | three seeds | new blocks, tokens of size 1 |
# | a branch's gradient scales with its gate | exactly 1/8192 | one branch, the same gradient from above |
# | one DropPath module, two independent coins | four results, a quarter each | training |
# | 16 T C² + 4 T² C operations | 58,368 by hand and by PyTorch's counter | MLP twice as wide; the tables lead from T = 4 C |
# | a digits ViT reaches 97.5 % | mean of three seeds | 4 patches, 48 channels, three blocks, seven epochs |
# | registers change accuracy by less than 2 % | three seeds each | here; large networks gain |
# | training turns the CLS token away from registers | from about 4/9 to half of that or less | three seeds, four patches |
# | no outliers among patches | largest below 2.2 times the median | three blocks, with and without registers |
# | nine blocks need gates for 40 steps at 0.01 | more than 70 % right against fewer than 60 % | three seeds, no warm-up |
#
# Sources: ViT-5, Wang et al., 2026 (arXiv 2602.08071); registers, Darcet et al., 2023 (arXiv 2309.16588); GRN, Woo et al.,
# 2023 (arXiv 2301.00808); registers side by side, Wang et al., 2024 (arXiv 2405.14858).

# %%
summary("09")

# %% [markdown]
# ## Next
#
# - [Lesson 10](10_configurable_block.ipynb) lets names choose the parts of a block.
# - [Homework for lessons 08c and 09](homework/hw_08c_09.ipynb).
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
