# %% [markdown]
# # 09 · The ViT-5 block
#
# 90 minutes. It needs lessons 02 to 05, 07, 08a and 08b, and no network connection.
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
from math import isqrt

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu import CKConv, DropPath, Hyena, KernelFiLMGenerator, LayerScale, MLP, Patchify, QKVSequenceMixer
from residual_edu import RMSNorm, SIRENKernel, build, drop_path_schedule, fused_attention, is_bypassed, no_weight_decay
from residual_edu import merge_heads, parameter_groups, pre_norm_residual, rotary_angles, rotary_waves, rotate_by
from residual_edu.config import Spec
from residual_edu.datasets import digits, photos
from residual_edu.errors import InvalidInput, check_axes, check_choice, check_conditionable, check_divisible
from residual_edu.errors import check_floating, check_images, check_not_negative, check_own_parameters, check_positive
from residual_edu.errors import check_rate, check_registers_inside, check_rows, check_size, check_tokens, check_whole
from residual_edu.errors import check_width
from residual_edu.exercises import check
from residual_edu.lesson import predict, setup, show
from residual_edu.networks.vit5 import build_block
from residual_edu.parts.flop_count import Shape, count_positions, flop_count
from residual_edu.parts.mlp import InitMethod, start
from residual_edu.parts.residual import Map
from residual_edu.plotting import vit5 as plots
from residual_edu.training import accuracy, minibatches, train

device, pictures = setup(), photos()

# %% [markdown]
# ## A picture as a sequence
#
# A transformer takes a sequence of tokens. So cut the picture into squares, map each square to a vector, and read them
# row by row. Then add tokens that stand for no place:
#
# - one **CLS** token, for *classification*: it starts alike for every picture, and at the end it is asked for the answer;
# - a few **registers**: they start alike for every picture too, and at the end nobody asks them anything.

# %%
fig = Figure(figsize=(7, 4.9))
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

# %%
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

# %%
sizes = seen.norm(dim=1)
shares = dict(zip(("pagoda", "flower"), sizes / sizes.mean(-1, keepdim=True), strict=True))
names = ["brightness", "warmth", "green", "edges, down", "edges, across"]
fig = Figure(figsize=(7, 3.4))
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
# <details><summary>Hint 2</summary><code>size = x.square().sum(1, keepdim=True).sqrt()</code>, and the mean of it runs
# over the last axis, which is kept as well.</details>


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
def global_response_norm(
    x: Float[Tensor, "batch *space channels"],
    gamma: Float[Tensor, "channels"],
    beta: Float[Tensor, "channels"],
    eps: float = 1e-6,
) -> Float[Tensor, "batch *space channels"]:
    r"""Return :math:`\gamma \cdot (x \cdot n) + \beta + x`, with n the channels' sizes over their mean.

    Sizes are taken sample by sample, in float32 or better; the result has x's dtype.
    """
    check_floating("x", x)
    check_axes("x", x, "batch", "positions", "channels")
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    size = torch.linalg.vector_norm(wide, dim=tuple(range(1, x.ndim - 1)), keepdim=True)
    share = size / (size.mean(dim=-1, keepdim=True) + eps)
    return (gamma * (wide * share) + beta + wide).type_as(x)


class GlobalResponseNorm(nn.Module):
    """``global_response_norm`` with a learned gain and bias, both zero at the start: the identity.

    Args:
        dim: number of channels on the last axis, at least 1.
        eps: added to the mean size, above 0.

    Raises:
        InvalidInput: for a ``dim`` or ``eps`` out of range, an integer input, one of another width, or one without an
            axis of positions, whose samples would be mixed.
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        check_size("dim", dim)
        check_positive("eps", eps)
        self.eps = eps
        self.gamma = nn.Parameter(torch.zeros(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Float[Tensor, "batch *space channels"]) -> Float[Tensor, "batch *space channels"]:
        """Let the channels of each sample compete; shape and dtype stay."""
        check_width("x", x, len(self.gamma))
        return global_response_norm(x, self.gamma, self.beta, self.eps)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return six operations for each number: its square and the sum, times n, times gamma, plus beta, plus x."""
        return 6 * count_positions(shape) * len(self.gamma)

    def extra_repr(self) -> str:
        """Say width and eps."""
        return f"{len(self.gamma)}, eps={self.eps}"


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


# %% tags=["promote:mixers/vit5_attention"]
class ViT5Attention(nn.Module):
    """Multi-head attention over [patches, CLS, registers], with its own projections.

    Args:
        hidden_dim: number of channels, a multiple of ``num_heads``; that of a head is a multiple of 4.
        num_heads: how many parts of the channels attend by themselves.
        num_patches_h: number of patches down the image.
        num_patches_w: number of patches across it.
        num_registers: number of registers, at least 0; they fill a small square grid of their own, row by row.
        has_cls: whether a CLS token stands between patches and registers.
        qk_norm: what to build, once for queries and once for keys, to normalise the features of a head.
        rope_base: what the periods of the patches' rotations grow towards.
        reg_rope_base: the same for the registers.
        attn_dropout: rate in [0, 1) at which weights are dropped in training.
        proj_dropout: rate in [0, 1) at which elements of the result are.
        qkv_bias: whether the map in has a bias.
        out_proj_bias: whether the map out has one.
        scale: what scores are multiplied by, 1 / sqrt(head_dim) if none is given.
        init_fn_qkv_proj: called with ``hidden_dim``, returns what fills the weight of the map in; its bias becomes 0.
        init_fn_out_proj: the same for the map out.

    Raises:
        InvalidInput: for sizes that do not divide, numbers out of range, or another number of tokens.
    """

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        num_patches_h: int,
        num_patches_w: int,
        num_registers: int = 4,
        has_cls: bool = True,
        qk_norm: Spec | None = None,
        rope_base: float = 10000.0,
        reg_rope_base: float = 100.0,
        attn_dropout: float = 0.0,
        proj_dropout: float = 0.0,
        qkv_bias: bool = False,
        out_proj_bias: bool = False,
        scale: float | None = None,
        init_fn_qkv_proj: InitMethod | None = None,
        init_fn_out_proj: InitMethod | None = None,
    ) -> None:
        super().__init__()
        check_size("num_heads", num_heads)
        check_divisible("hidden_dim", hidden_dim, num_heads, "num_heads")
        check_whole("num_registers", num_registers)
        check_rate("attn_dropout", attn_dropout)
        check_rate("proj_dropout", proj_dropout)
        head_dim = hidden_dim // num_heads
        self.num_heads, self.attn_dropout = num_heads, attn_dropout
        self.scale = head_dim**-0.5 if scale is None else scale
        check_positive("scale", self.scale)
        patches = rotary_angles((num_patches_h, num_patches_w), head_dim, rope_base)
        registers = register_angles(num_registers, head_dim, reg_rope_base)
        angles = torch.cat([patches, torch.zeros(int(has_cls), head_dim // 2), registers])
        self.num_tokens, self.waves = len(angles), rotary_waves(angles)
        self.qkv = start(nn.Linear(hidden_dim, 3 * hidden_dim, bias=qkv_bias), init_fn_qkv_proj, hidden_dim)
        self.q_norm, self.k_norm = (nn.Identity() if qk_norm is None else build(qk_norm) for _ in range(2))
        self.proj = start(nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias), init_fn_out_proj)
        self.proj_drop = nn.Dropout(proj_dropout) if proj_dropout else nn.Identity()

    def forward(
        self, x: Float[Tensor, "batch tokens channels"], *, conditioning: Tensor | None = None
    ) -> Float[Tensor, "batch tokens channels"]:
        """Return what each token hears; ``conditioning`` is of no use here and not looked at."""
        dropout = self.attn_dropout if self.training else 0.0
        heard = fused_attention(*self.heads(x), scale=self.scale, dropout=dropout)
        return self.proj_drop(self.proj(merge_heads(heard)))

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, normalised and rotated, and values, each (batch, heads, tokens, head_dim)."""
        check_tokens("x", x, self.num_tokens, self.qkv.in_features)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return rotate_by(self.q_norm(q), *self.waves), rotate_by(self.k_norm(k), *self.waves), v

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample: the maps, the norms, 3 a number for a rotation, two products of all pairs.

        The softmax is not counted.
        """
        width = self.qkv.in_features
        norms = sum(flop_count(norm, num_tokens * self.num_heads) for norm in (self.q_norm, self.k_norm))
        return 8 * num_tokens * width**2 + norms + 6 * num_tokens * width + 4 * num_tokens**2 * width

    def extra_repr(self) -> str:
        """Say tokens and heads."""
        return f"{self.num_tokens} tokens, num_heads={self.num_heads}"


def register_angles(count: int, head_dim: int, base: float) -> Float[Tensor, "registers pairs"]:
    """Return the rotary angles of ``count`` registers on the smallest square grid that holds them, row by row."""
    side = isqrt(max(count - 1, 0)) + 1
    return rotary_angles((side, side), head_dim, base)[:count]


# %% [markdown]
# Let all patches say the same, so that only their places differ. **What does the score between two of them depend on?**

# %% tags=["predict"]
guess = predict(
    "Twelve patches that look alike: a score depends on",
    ["nothing", "how they stand to each other", "where they stand"],
)

# %%
mixer = ViT5Attention(16, num_heads=2, num_patches_h=3, num_patches_w=4).double()
alike = torch.randn(1, 1, 16, dtype=torch.float64).expand(1, 17, 16)
q, k, _ = mixer.heads(alike)
scores = (q @ k.mT)[0, 0, :12, :12].view(3, 4, 3, 4)
assert torch.allclose(scores[1:, :, 1:], scores[:-1, :, :-1])
assert torch.allclose(scores[:, 1:, :, 1:], scores[:, :-1, :, :-1])
assert not torch.isclose(scores[0, 0, 0, 1], scores[0, 0, 1, 0])
cosines, _ = mixer.waves
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
class RegisterPooling(nn.Module):
    r"""A learned weighted mean of the registers, :math:`\sum_r \mathrm{softmax}(a)_r\, t_r`; at the start, the mean.

    Args:
        num_registers: number of registers R, at least 1.

    Raises:
        InvalidInput: for a number out of range, or registers of another number.
    """

    def __init__(self, num_registers: int) -> None:
        super().__init__()
        check_size("num_registers", num_registers)
        self.logits = nn.Parameter(torch.zeros(num_registers))

    def forward(self, registers: Float[Tensor, "batch registers channels"]) -> Float[Tensor, "batch channels"]:
        """Return one vector for each sample; dtype stays."""
        check_tokens("registers", registers, len(self.logits))
        weights = self.logits.softmax(dim=0).to(registers.dtype)
        return (weights[:, None] * registers).sum(dim=1)

    def flop_count(self, hidden_dim: int, inference: bool = False) -> int:
        """Return the cost at ``hidden_dim`` channels: three for each weight, two for each number it is laid on."""
        return 3 * len(self.logits) + 2 * len(self.logits) * hidden_dim


class RegisterCompressConcat(nn.Module):
    r"""All registers side by side, each through the same narrow map: :math:`[W t_1, \dots, W t_R]`.

    Args:
        num_registers: number of registers R, at least 1.
        hidden_dim: number of channels of each, at least 1.
        compressed_dim: number of channels that each is narrowed to, at least 1.

    Raises:
        InvalidInput: for a number out of range, or registers of another number or width.
    """

    def __init__(self, num_registers: int, hidden_dim: int, compressed_dim: int) -> None:
        super().__init__()
        check_size("num_registers", num_registers)
        check_size("hidden_dim", hidden_dim)
        check_size("compressed_dim", compressed_dim)
        self.num_registers = num_registers
        self.compress = nn.Linear(hidden_dim, compressed_dim, bias=False)

    @property
    def out_dim(self) -> int:
        """Return the width of the result, R times ``compressed_dim``."""
        return self.num_registers * self.compress.out_features

    def forward(self, registers: Float[Tensor, "batch registers channels"]) -> Float[Tensor, "batch out_dim"]:
        """Return one vector of ``out_dim`` numbers for each sample."""
        check_tokens("registers", registers, self.num_registers, self.compress.in_features)
        return self.compress(registers).flatten(1)

    def flop_count(self, hidden_dim: int, inference: bool = False) -> int:
        """Return the cost of the map at ``hidden_dim`` channels, once for each register."""
        return 2 * self.out_dim * hidden_dim


# %% [markdown]
# A convolution wants a picture, not a sequence. This adapter lays the tokens out in rows, padding included, and reads them
# off again; the condition goes through.


# %% tags=["promote:mixers/vit5_hyena"]
class ViT5HyenaAdapter(nn.Module):
    """Lay tokens out as a grid for a mixer of two space axes, and back.

    Args:
        inner_mixer_cfg: what to build (``config.build``) to mix the grid, ``forward(x, *, conditioning)`` on
            (batch, rows, grid_w, channels): ``QKVSequenceMixer`` around ``Hyena``, or any other.
        grid_w: how many tokens make a row, at least 1: the number of patches across the image.

    Raises:
        InvalidInput: for a width below 1, a mixer that takes no conditioning, or tokens that do not fill their rows.
    """

    def __init__(self, inner_mixer_cfg: Spec, grid_w: int) -> None:
        super().__init__()
        check_size("grid_w", grid_w)
        self.grid_w = grid_w
        self.inner_mixer = build(inner_mixer_cfg)
        check_conditionable("inner_mixer", self.inner_mixer)

    def forward(
        self, x: Float[Tensor, "batch tokens channels"], *, conditioning: Tensor | None = None
    ) -> Float[Tensor, "batch tokens channels"]:
        """Return what each token hears; ``conditioning``, (batch, channels), goes on to the mixer."""
        check_tokens("x", x)
        check_rows(x.shape[1], self.grid_w)
        return self.inner_mixer(x.unflatten(1, (-1, self.grid_w)), conditioning=conditioning).flatten(1, 2)

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost of the mixer on the grid, for one sample of ``num_tokens``, padding included."""
        check_rows(num_tokens, self.grid_w)
        return flop_count(self.inner_mixer, (num_tokens // self.grid_w, self.grid_w), inference)


# %% [markdown]
# ## The block
#
# Now put it together. Count what is new in `forward`: two calls of `pre_norm_residual`, each with its gates. The checks
# around them are longer than the mathematics.


# %% tags=["promote:blocks/vit5_block"]
class ViT5ResidualBlock(nn.Module):
    """A sequence mixer and an MLP, each behind a norm, a gate for each channel, and a coin for each sample.

    The tokens stand as [patches, CLS, registers, padding]. Where registers are pooled, the mixer hears the pooled
    vector as ``conditioning=``; attention has no use for it and ignores it.

    Args:
        sequence_mixer_cfg: what to build (``config.build``) to mix the tokens, with its own projections;
            ``nn.Identity`` leaves the branch out, and the same for ``mlp_cfg``.
        sequence_mixer_norm_cfg: the norm before it.
        mlp_cfg: what to build to map each token by itself.
        mlp_norm_cfg: the norm before it.
        hidden_dim: number of channels, at least 1.
        layer_scale_init: where both gates start; 0 leaves LayerScale out.
        drop_path_rate: rate in [0, 1) at which samples lose a branch in training; one module flips both coins.
        register_pooling_cfg: what to build to turn (batch, registers, channels) into (batch, channels), or ``None``.
        num_registers: number of registers, at least 0; 0 switches the pooling off.
        register_start_idx: how many tokens stand before the registers: all patches, and the CLS token if there is one.
        grn_cfg: what lets the mixer's channels compete before its gate, ``GlobalResponseNorm``, or ``None``.

    Raises:
        InvalidInput: for a number out of range, a mixer that takes no conditioning where registers are pooled, an
            input of another shape, or one that ends before its registers do.
    """

    def __init__(
        self,
        sequence_mixer_cfg: Spec,
        sequence_mixer_norm_cfg: Spec,
        mlp_cfg: Spec,
        mlp_norm_cfg: Spec,
        hidden_dim: int,
        layer_scale_init: float = 1e-4,
        drop_path_rate: float = 0.0,
        register_pooling_cfg: Spec | None = None,
        num_registers: int = 0,
        register_start_idx: int = 1,
        grn_cfg: Spec | None = None,
    ) -> None:
        super().__init__()
        check_size("hidden_dim", hidden_dim)
        check_not_negative("layer_scale_init", layer_scale_init)
        check_rate("drop_path_rate", drop_path_rate)
        check_whole("num_registers", num_registers)
        check_whole("register_start_idx", register_start_idx)
        self.hidden_dim, self.num_registers, self.register_start_idx = hidden_dim, num_registers, register_start_idx
        self.input_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.mlp = build(mlp_cfg)
        self.ls_attn = LayerScale(hidden_dim, layer_scale_init) if layer_scale_init else nn.Identity()
        self.ls_mlp = LayerScale(hidden_dim, layer_scale_init) if layer_scale_init else nn.Identity()
        self.drop_path = DropPath(drop_path_rate) if drop_path_rate else nn.Identity()
        self.grn = None if grn_cfg is None else build(grn_cfg)
        self.register_pooling = None
        if register_pooling_cfg is not None and num_registers and not is_bypassed(self.sequence_mixer):
            check_conditionable("sequence_mixer", self.sequence_mixer)
            self.register_pooling = build(register_pooling_cfg)

    def forward(
        self, x: Float[Tensor, "batch tokens channels"], condition: Tensor | None = None
    ) -> Float[Tensor, "batch tokens channels"]:
        """Add what both branches make of ``x``; ``condition`` is there for other blocks' sake and never looked at."""
        check_tokens("x", x, channels=self.hidden_dim)
        drop, competing = self.drop_path, [] if self.grn is None else [self.grn]
        pooling = self.register_pooling
        mixer = self.sequence_mixer if pooling is None else self._listening(pooling)
        x = pre_norm_residual(x, mixer, self.input_norm, [*competing, self.ls_attn, drop])
        return pre_norm_residual(x, self.mlp, self.mlp_norm, [self.ls_mlp, drop])

    def _listening(self, pooling: Map) -> Map:
        """Return the sequence mixer with what the pooled registers say."""
        return lambda tokens: self.sequence_mixer(tokens, conditioning=pooling(self._registers(tokens)))

    def _registers(self, tokens: Tensor) -> Float[Tensor, "batch registers channels"]:
        start, count = self.register_start_idx, self.num_registers
        check_registers_inside(start, count, tokens.shape[1])
        return tokens[:, start : start + count]

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample of ``num_tokens``, registers and padding included; the two sums are not.

        What does not know its cost counts 0, and a branch that is left out has none.
        """
        mixing = [self.input_norm, self.sequence_mixer, self.grn, self.ls_attn]
        mapping = [self.mlp_norm, self.mlp, self.ls_mlp]
        parts = ([] if is_bypassed(self.sequence_mixer) else mixing) + ([] if is_bypassed(self.mlp) else mapping)
        pooling = 0 if self.register_pooling is None else flop_count(self.register_pooling, self.hidden_dim)
        return pooling + sum(flop_count(part, num_tokens, inference) for part in parts if part is not None)


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

# %%
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

# %%
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
# heads are narrower heads: h tables of C / h channels cost what one of C does. PyTorch counts while it computes; our block says what it costs, small
# things included. **From how many tokens on do the tables cost more than all maps, at 48 channels?**

# %% tags=["predict"]
guess = predict("C = 48: the tables cost more than the maps from", ["48 tokens", "192 tokens", "768 tokens"])

# %%
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

made, tokens, channels = block(), 12, 16
with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
    made(torch.randn(1, tokens, channels).to(device))
counted, by_hand = counter.get_total_flops(), 16 * tokens * channels**2 + 4 * tokens**2 * channels
small = (3 + 3 + 1 + 1 + 6 + 2) * tokens * channels  # two norms, two gates, rotations, GELU on twice the channels
small += 3 * 2 + 2 * 2 * channels  # pooling of two registers
print(f"by hand {by_hand:,}, counted {counted:,}; with norms, gates, rotations and pooling {made.flop_count(tokens):,}")
assert by_hand == counted and made.flop_count(tokens) == counted + small

lengths = torch.logspace(0.7, 3.6, 40, dtype=torch.float64)
maps, tables = 16 * lengths * 48**2, 4 * lengths**2 * 48
fig = Figure(figsize=(7, 3.6))
ax = plots.plot_costs(lengths, maps, tables, 4 * 48, fig.add_subplot())
ax.set_title("Up to 4 C tokens the maps cost more than the tables")
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


# %% tags=["promote:networks/vit5"]
class ViT5ClassificationNet(nn.Module):
    """Says which class a square image belongs to. Its tokens stand as [patches, CLS, registers, padding].

    Args:
        in_channels: number of channels of the images, at least 1.
        num_classes: number of classes, at least 1.
        hidden_dim: number of channels of the stream, at least 1.
        num_blocks: number of blocks, at least 1.
        patch_size: pixels along each side of a patch, at least 1.
        image_size: pixels along each side of an image, a multiple of ``patch_size``.
        num_registers: number of registers, at least 0.
        block_cfg: what to build each block from, ``ViT5ResidualBlock`` say; the network fills in ``drop_path_rate``,
            ``num_registers`` and ``register_start_idx``.
        norm_cfg: the norm before the readout; weight decay spares it.
        readout: who answers: ``"cls"``, a token of its own; ``"gap"``, the mean of the patches; or
            ``"register_concat"``, the registers side by side, each narrowed to a share of its channels.
        drop_path_rate: rate in [0, 1) of the last block; the first has 0, and between them it grows linearly.
        neck_compression_ratio: for ``"register_concat"``, how many times narrower each register gets.
        pad_to_multiple_of: zeros are added behind the registers up to such a number of tokens: the width of the grid,
            where a mixer lays the tokens out in rows.

    Raises:
        InvalidInput: for a number out of range, an unknown readout, a built block, or images of another shape.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        hidden_dim: int,
        num_blocks: int,
        patch_size: int,
        image_size: int,
        num_registers: int,
        block_cfg: Spec,
        norm_cfg: Spec,
        readout: str = "cls",
        drop_path_rate: float = 0.0,
        neck_compression_ratio: int = 1,
        pad_to_multiple_of: int = 1,
    ) -> None:
        super().__init__()
        check_size("num_classes", num_classes)
        check_size("patch_size", patch_size)
        check_divisible("image_size", image_size, patch_size, "patch_size")
        check_whole("num_registers", num_registers)
        check_choice("readout", readout, ["cls", "gap", "register_concat"])
        check_size("neck_compression_ratio", neck_compression_ratio)
        check_size("pad_to_multiple_of", pad_to_multiple_of)
        self.image_size, self.num_registers, self.readout = image_size, num_registers, readout
        self.num_patches = (image_size // patch_size) ** 2
        self.register_start_idx = start = self.num_patches + (readout == "cls")
        self.num_tokens = start + num_registers
        self.padding = -self.num_tokens % pad_to_multiple_of
        self.patch_embed = Patchify(in_channels, hidden_dim, 2, patch_size)
        self.tokens = no_weight_decay(nn.Embedding(self.num_tokens, hidden_dim))
        rates = drop_path_schedule(num_blocks, drop_path_rate)
        self.blocks = nn.ModuleList(build_block(block_cfg, rate, num_registers, start) for rate in rates)
        check_own_parameters("block_cfg", self.blocks)
        self.out_norm = no_weight_decay(build(norm_cfg))
        concat = partial(RegisterCompressConcat, num_registers, hidden_dim, hidden_dim // neck_compression_ratio)
        self.neck = concat() if readout == "register_concat" else nn.Identity()
        self.out_proj = nn.Linear(getattr(self.neck, "out_dim", hidden_dim), num_classes, bias=False)
        nn.init.trunc_normal_(self.tokens.weight, std=0.02)
        nn.init.trunc_normal_(self.out_proj.weight, std=0.02)

    def forward(self, images: Float[Tensor, "batch side side in_channels"]) -> Float[Tensor, "batch classes"]:
        """Return the logits of each class, from the stream after the last block."""
        x = self.embed(images)
        for block in self.blocks:
            x = block(x)
        return self.out_proj(self.neck(self.out_norm(self.answering(x))))

    def embed(self, images: Float[Tensor, "batch side side in_channels"]) -> Float[Tensor, "batch tokens channels"]:
        """Return the stream before the first block: [patches, CLS, registers, padding]."""
        check_images("images", images, self.image_size, self.patch_embed.conv.in_channels)
        patches, others = self.patch_embed(images).flatten(1, 2), self.num_tokens - self.num_patches
        tokens = F.pad(patches, (0, 0, 0, others)) + self.tokens.weight
        return F.pad(tokens, (0, 0, 0, self.padding))

    def answering(self, x: Float[Tensor, "batch tokens channels"]) -> Float[Tensor, "batch *registers channels"]:
        """Return what the readout reads: the CLS token, the mean of the patches, or the registers."""
        if self.readout == "register_concat":
            return x[:, self.register_start_idx : self.num_tokens]
        return x[:, self.num_patches] if self.readout == "cls" else x[:, : self.num_patches].mean(dim=1)

    def flop_count(self, inference: bool = False) -> int:
        """Return the cost for one image: patches, blocks, readout. Additions of tables and means are not counted."""
        maps = self.num_patches * self.patch_embed.conv.weight.numel() + self.out_proj.weight.numel()
        answers = self.num_registers if self.readout == "register_concat" else 1
        readout = flop_count(self.out_norm, answers) + flop_count(self.neck, self.tokens.embedding_dim)
        return sum((flop_count(b, self.num_tokens + self.padding, inference) for b in self.blocks), 2 * maps + readout)


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


# %%
import time

began = time.process_time()
trained = {count: [fit(network(count, seed), 7, seed) for seed in range(3)] for count in (0, 4)}
assert time.process_time() - began < 6 * 15
scores = {
    count: torch.tensor([accuracy(net, test_images, test_labels) for net in nets]) for count, nets in trained.items()
}
fig = Figure(figsize=(7, 2.2))
ax = plots.plot_scores({f"{count} registers": score for count, score in scores.items()}, fig.add_subplot())
ax.set_title("Registers make no difference that three seeds show")
ax.set(xlim=(0.95, 1), xlabel="test accuracy")
show(
    fig,
    alt="Test accuracy of three networks without registers and three with four, all dots between 0.96 and 0.99, the two "
    "groups overlapping.",
)
assert scores[4].mean() > 0.975
assert abs(scores[4].mean() - scores[0].mean()) < 0.02 and min(score.min() for score in scores.values()) > 0.955
print("with registers: 97.5 % or more, the mean of three seeds; the difference: less than 2 %")
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


# %%
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
    assert net.register_start_idx == 5 and 0.38 < cls[0] < 0.6 and cls[1] < 0.27 and patches[1] > 0.28
for net in (*trained[0], *trained[4]):
    norms = attention_maps(net.eval(), test_images)[1][:, :4].norm(dim=-1)
    assert norms.max() / norms.median() < 2.2
print(
    "CLS gives registers: before, near their even part of 4/9; after, about half of that or less; patches keep theirs"
)
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

# %%
pair = {"without registers": 0, "with four registers": 4}
make = {name: partial(network, count, 0, patch=2, depth=2, heads=4) for name, count in pair.items()}
looks = {}
for name, build_net in make.items():
    new, old = build_net().eval(), fit(build_net(), 5, size=32).eval()
    looks[name] = torch.stack([attention_maps(net, test_images[:120])[0] for net in (new, old)])
    assert accuracy(old, test_images[:120], test_labels[:120]) > 0.85
to_registers = looks["with four registers"][:, 0, :, :, 17:].sum(-1).mean(1)  # before and after, by who looks
assert to_registers[0, 16] > 0.2 and to_registers[1, 16] < 0.12 and to_registers[1, 0] > to_registers[0, 0] > 0.12
fig = Figure(figsize=(7, 2.7))
for ax, (name, moment) in zip(fig.subplots(1, 4), [(name, moment) for name in looks for moment in (0, 1)], strict=True):
    others = ["CLS", "R", "R", "R", "R"][: looks[name].shape[-1] - 16]
    plots.plot_heard(looks[name][moment, 0, :, 16].mean(0), others, 0.15, ax)
    ax.set_title(f"{name},\n{'after' if moment else 'before'} training", size=8.5, weight="normal")
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

# %%
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
fig = Figure(figsize=(7, 6.6))
for ax, moment in zip(fig.subplots(2, 1), (0, 39), strict=True):
    plot_stream(flow, ax, step=moment, norms="pre").set_title(f"step {moment}", weight="normal")
fig.suptitle("Nine blocks begin as none, and open as they train", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Two river pictures of nine blocks. At step 0 a straight bed without tributaries, forward and back. At step 39 "
    "the bed swells from block to block, fed by visible tributaries.",
)
added = flow.added / flow.activation[:, :-1]
assert added[0].max() < 0.01 and added[-1].mean() > 0.05
assert all(0.6 < raced[start, 0.0, 1][2] < 0.82 for start in (0.0, 1e-4, 0.1))

# %% [markdown]
# **The same nine blocks without LayerScale, every gate 1: how many test digits are right after 40 steps, against those
# with gates from 0.0001?**

# %% tags=["predict"]
guess = predict("Nine blocks, 40 steps, gates of 1 against gates from 0.0001", ["more", "about as many", "far fewer"])

# %%
for (*_, without), (*_, with_gates) in zip(deep[0.0], deep[1e-4], strict=True):
    assert without < 0.6 < 0.7 < with_gates
# What the explorer below shows:
assert all(abs(raced[start, 0.5, 1][2] - raced[start, 0.0, 1][2]) < 0.02 for start in (0.0, 1e-4, 0.1))
assert raced[1e-4, 0.5, 9][2] + 0.05 < raced[1e-4, 0.0, 9][2] > raced[1e-4, 0.0, 1][2] + 0.05
print("with gates from 0.0001 more than 70 % right, with gates of 1 fewer than 60 %, in each of three seeds")
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
