# %% [markdown]
# # 08a · Attention
#
# 75 minutes. You need matrix products and `nn.Module`; the lesson before is
# [07b](07b_conditions_and_networks.ipynb).
#
# **Attention** gives each position of a sequence a weighted mean of the others, and the
# weights depend on what stands there. You write it for three positions, with numbers that
# you can check in your head, and then with heads. You look into two trained heads, and mend
# two that see the future. This is the whole of it, for a batch of sequences of n positions
# with 32 numbers each:
#
# ```
#              x  (batch, n, 32)
#      ┌───────┼───────┐
#      ▼       ▼       ▼           three linear maps
#    query    key    value         (batch, n, 32) each
#      └─▶ ∙ ◀─┘       │           products of all pairs, divided by √32
#          ▼           │
#       scores         │           (batch, n, n)
#          ▼           │           mask, then softmax
#       weights        │           (batch, n, n), each row sums to 1
#          └──▶ mean ◀─┘           (batch, n, 32)
#                ▼                 a fourth linear map
#             output               (batch, n, 32)
# ```

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary

device = setup()
progress("08a")

# %% [markdown]
# ## 1 · What goes wrong without it?
#
# Twelve handwritten digits stand in a row, each in one of four inks: red, blue, green and
# black (K). The digits of a row are four neighbours, such as 3 to 6; 0 follows 9. At
# every digit we ask: look back to the last digit that is one larger; *which ink had it?* Where
# there was none, nothing is asked (–).

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import ink_rows
from residual_course.plots import attention as plots
from residual_course.plots.along_depth import along_depth
from residual_course.plots.style import REFERENCE, A, B

rows = ink_rows(10_000, torch.Generator().manual_seed(0))
new_rows = ink_rows(1000, torch.Generator().manual_seed(99), test=True)


def trained(make, seed=0, questions=1, steps=300):
    """Train a network on the first of the questions, or on both."""
    torch.manual_seed(seed)
    net = Network(make()).to(device)
    order = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(net.parameters(), fused=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, 3e-3, total_steps=steps)
    for _ in range(steps):
        picked = torch.randint(len(rows.x), (64,), generator=order)
        inks, wanted = net(rows.x[picked].to(device)), rows.answers[picked].to(device)
        loss = sum(
            F.cross_entropy(inks[:, :, i].mT, wanted[:, :, i]) for i in range(questions)
        )
        adam.zero_grad()
        loss.backward()
        adam.step()
        plan.step()
    return net


@torch.no_grad()
def share_right(net, question=0):
    """Return the share of right answers on the new rows."""
    found = net(new_rows.x.to(device))[:, :, question].argmax(-1).cpu()
    wanted = new_rows.answers[:, :, question]
    return round((found == wanted)[wanted >= 0].float().mean().item(), 2)


def three_seeds(make):
    return [share_right(trained(make, seed)) for seed in range(3)]


# %% the-row jupyter={"source_hidden": true} tags=["figure"]
digits = [4, 5, 4, 4, 6, 5, 4, 3, 3, 5, 4, 3]
row = ink_rows(
    1, torch.Generator().manual_seed(4), test=True, shown=torch.tensor([digits])
)
ax = Figure(figsize=(6, 1.8)).add_subplot()
plots.plot_row(row.x[0], row.answers[0, :, 0], ax, (9, 4))
ax.set_title("The ink of the last digit that is one larger")
show(ax.figure)

# %% [markdown]
# The tenth digit is a 5, and the last 6 before it was blue, so the answer is B. Our network
# has layers that work on each position alone, and one layer, the `mixer`, that may carry
# numbers from one position to another.


# %%
class Network(nn.Module):
    def __init__(self, mixer):
        super().__init__()
        # 64 pixels and 4 inks
        self.embed = nn.Sequential(nn.Linear(68, 32), nn.ReLU(), nn.Linear(32, 32))
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.mixer = mixer
        self.mlp = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 32))
        self.answers = nn.Linear(32, 8)  # two questions, four inks

    def forward(self, x):  # (rows, 12, 68)
        x = self.embed(x)  # (rows, 12, 32)
        x = x + self.mixer(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.answers(x).unflatten(-1, (2, 4))


# %% [markdown]
# We train it with a mixer that leaves each position alone, and with one that gives it a
# linear map of the mean of all positions so far. (Folded above: 300 steps of Adam, and the
# share of right answers on 1,000 rows of other pictures. Section 5 has a second question.)


# %% alone-and-mean tags=["slow", "trained"]
class MeanSoFar(nn.Linear):
    def forward(self, h):  # (rows, 12, 32)
        count = torch.arange(1, h.shape[1] + 1, device=h.device)[:, None]
        return super().forward(h.cumsum(dim=1) / count)


alone = three_seeds(nn.Identity)
mean = three_seeds(lambda: MeanSoFar(32, 32))
print("alone       ", alone)
print("mean so far ", mean)

# %% [markdown]
# These are the shares of three seeds each. Alone, a position can only guess one of four inks.
# The mean helps, but it gives every earlier digit the same weight, and the 5 needs the 6.
#
# ## 2 · What exactly is it?
#
# Attention is a weighted mean, and each position computes the weights for itself
# ([Vaswani and others, 2017](https://arxiv.org/abs/1706.03762)). Four words:
#
# - The **query** of a position is a vector that describes what it looks for.
# - The **key** of a position is a vector that describes what it can be found by.
# - The **score** of a query and a key is their dot product. It is large if they match.
# - The **value** of a position is what it hands over. The output is the mean of the values,
#   weighted by the softmax of the scores.
#
# Here is one **head** at work for the 5 that asked. We chose the vectors by hand: its query
# is (2, 0), each 6 has the key (2, 0), and the values are the inks.

# %% one-head jupyter={"source_hidden": true} tags=["figure"]
keys = {6: [2.0, 0.0], 5: [0.0, 1.0], 4: [-1.0, 1.0], 3: [-1.0, 0.0]}
k = torch.tensor([keys[digit] for digit in digits[4:11]])
q, v = torch.tensor([2.0, 0.0]), row.x[0, 4:11, 64:]
score = k @ q / 2**0.5
score[6] = -torch.inf  # the last one comes later
weight = score.softmax(dim=-1)
mixture = weight @ v
ax = Figure(figsize=(6, 3.6)).add_subplot()
plots.plot_one_head(row.x[0, 4:11], 5, q, k, score, weight, mixture, ax)
ax.set_title("The weights find the 6, and its ink arrives")
show(ax.figure)

# %% [markdown]
# Read it from top to bottom; h is what comes into the mixer. The 6 has the largest score, so
# it gets nearly all the weight, and what arrives is nearly all blue. The 4 on the right comes
# later than the 5 that asks, so it is left out. Now the same in steps.
#
# ### Step 1 · Queries, keys and values
#
# Three positions, two numbers each. The queries are multiples of log 2 = 0.6931, so that
# all exponentials will be whole numbers.

# %%
q = torch.tensor([[0.0, 1], [1, 0], [1, 1]]) * torch.tensor(2.0).log()
k = torch.tensor([[1.0, 0], [0, 1], [1, 1]])
v = torch.tensor([[6.0, 0], [0, 12], [1, 2]])
print(q)

# %% [markdown]
# ### Step 2 · Scores
#
# Row i, column j is the dot product of query i with key j.

# %%
scores = q @ k.T
print(scores)

# %% [markdown]
# ### Step 3 · Softmax
#
# The softmax of a row takes exponentials and divides them by their sum. The exponential of
# log 2 is 2 and that of 2 log 2 is 4, so the last row becomes 2, 2, 4 and then ¼, ¼, ½.

# %%
print(scores.exp())
print(scores.softmax(dim=-1))

# %% [markdown]
# ### Step 4 · The mask
#
# Our question is about the past, so position i may use the positions up to i and no others.
# Such attention is called **causal**. We set the other scores to −∞, whose exponential is 0.

# %% masked
mask = torch.ones(3, 3).tril().bool()  # True: may attend
weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
print(weights)

# %% [markdown]
# Each row still sums to 1, because what is left out never enters its sum.
#
# ### Step 5 · The mean of the values

# %% mean-of-values
print(weights @ v)

# %% [markdown]
# Check the last row: ¼ · (6, 0) + ¼ · (0, 12) + ½ · (1, 2) = (2, 4). The first position has
# only itself, so it gets its own value.
#
# ### Step 6 · The root of d
#
# A query has d numbers, so a score is a sum of d products, and longer queries make larger
# scores. Therefore all scores are divided by √d before the softmax; section 4 shows what
# happens otherwise. Here d is 2, and the weights become a little more even:

# %%
scaled = scores / 2**0.5
print(scaled.masked_fill(~mask, -torch.inf).softmax(dim=-1))

# %% [markdown]
# ### Exercise 1 · Attention (5 minutes)
#
# Write steps 2 to 6 as one function. q and k are (..., n, d), v is (..., n, e) with any axes
# before, and the mask is True where a query (row) may attend to a key (column).
#
# <details><summary>Hint</summary>Divide, mask, softmax, mean, in this order. <code>.T</code>
# swaps the axes of a matrix; <code>k.mT</code> swaps the last two of any tensor.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "attend", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attend(q, k, v, mask):
    """Return the weighted mean of the values for each query, (..., n, e)."""
    ### BEGIN SOLUTION
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights @ v
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attend-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(attend, "attend")

# %% [markdown]
# ### Step 7 · Where the three come from
#
# All three come from the same x, by three linear maps that are learned. This is
# *self-attention*. (In cross-attention, keys and values come from another sequence.)
#
# Why does it take two maps to make the scores? If queries and keys were the same vectors, the
# table of scores would be symmetric:

# %%
h = torch.tensor([[1.0, 2], [3, -1], [0, 1]])
print(h @ h.T)

# %% [markdown]
# Then a 4 that scores the 5 high is scored as high by the 5, which looks for the 6. With a map
# for queries *and* a map for keys the two directions may differ.
#
# ### Step 8 · Heads
#
# One softmax gives one mean. To look for several things at once, we cut the numbers of each
# position into several heads, and each head attends by itself. Three positions of four
# numbers, two heads:

# %%
x = torch.arange(12).view(1, 3, 4)  # (batch, n, width)
heads = x.unflatten(-1, (2, 2)).transpose(1, 2)  # (batch, heads, n, width / heads)
print(x[0])
print(heads[0])

# %% [markdown]
# Each head has its part of all three positions. `unflatten` cuts the last axis in two, and
# `transpose` brings the heads before the positions, so that `q @ k.mT` multiplies positions
# within a head.
#
# ### Exercise 2 · Multi-head attention (10 minutes)
#
# Write `forward`: all three maps at once with `qkv_proj`, then `chunk(3, dim=-1)`; `split`
# each into heads; `mix` them; put the heads side by side again; `out_proj`.
#
# <details><summary>Hint 1</summary>After <code>mix</code> you have (batch, heads, n, width /
# heads). Two steps lead back to (batch, n, width): the two of <code>split</code>, undone in
# the opposite order.</details>
# <details><summary>Hint 2</summary><code>flatten(2)</code> joins the third axis with those
# after it.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "self-attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SelfAttention(nn.Module):
    def __init__(self, width=32, heads=1):
        super().__init__()
        self.heads = heads
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)

    def split(self, x):  # (batch, n, width) to (batch, heads, n, width / heads)
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def mix(self, q, k, v):
        n = q.shape[-2]
        mask = torch.ones(n, n, device=q.device).tril().bool()
        return attend(q, k, v, mask)

    def forward(self, x):  # (batch, n, width)
        ### BEGIN SOLUTION
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        y = self.mix(self.split(q), self.split(k), self.split(v))
        return self.out_proj(y.transpose(1, 2).flatten(2))
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "self-attention-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(SelfAttention, "self_attention")

# %% [markdown]
# ## 3 · Is mine right?
#
# PyTorch has your function as one call. We compare outputs and the gradients of q, k and v
# in float64, for two sequences, four heads and twelve positions:

# %% same-as-torch
causal = torch.ones(12, 12).tril().bool()
parts = [torch.randn(2, 4, 12, 8).double().requires_grad_() for _ in range(3)]
mine = attend(*parts, causal)
theirs = F.scaled_dot_product_attention(*parts, is_causal=True)
my_gradients = torch.autograd.grad(mine.square().sum(), parts)
their_gradients = torch.autograd.grad(theirs.square().sum(), parts)
print("same outputs:  ", torch.allclose(mine, theirs))
print("same gradients:", all(map(torch.allclose, my_gradients, their_gradients)))

# %% [markdown]
# Folded are the package's pieces, compared with yours: `attention`, which also takes a `bias`
# and gives 0 to a query that may attend to nothing; `Attention`, the heads; and
# `QKVSequenceMixer`, the maps around them.

# %% jupyter={"source_hidden": true} tags=["promote:parts/attention"]
from jaxtyping import Bool, Float
from torch import Tensor

from residual_edu.parts.attention import HIDDEN, check_attention, joined, sees_a_key
from residual_edu.parts.norm import widened


def attention(
    query: Float[Tensor, "*batch queries head_dim"],
    key: Float[Tensor, "*#batch keys head_dim"],
    value: Float[Tensor, "*#batch keys value_dim"],
    mask: Bool[Tensor, "*#batch queries keys"] | None = None,
    bias: Float[Tensor, "*#batch queries keys"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Return the mean of all values, weighted by the softmax of the scores."""
    check_attention(query, key, value, mask, bias)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = widened(query) * scale @ widened(key).mT  # (*batch, queries, keys)
    if bias is not None:
        scores = scores + widened(bias).clamp(min=HIDDEN)
    if mask is not None:
        scores = scores.masked_fill(~mask, HIDDEN)
    y = scores.softmax(dim=-1) @ widened(value)
    added = joined(mask, bias)
    return (y if added is None else y * sees_a_key(added)).type_as(value)


# %% jupyter={"source_hidden": true} tags=["promote:mixers/attention"]
from collections.abc import Sequence
from contextlib import nullcontext

from torch.nn.attention import SDPBackend, sdpa_kernel

from residual_edu.errors import InvalidInput, check_rate, check_same_shape
from residual_edu.mixers.attention import Other
from residual_edu.parts.attention import fused_attention, split_heads
from residual_edu.parts.flop_count import Shape, Signal, count_positions
from residual_edu.parts.position import rotary_angles, rotate
from residual_edu.parts.qk_norm import L2Norm


class Attention(nn.Module):
    """Softmax attention in heads, over all positions at once. It has no parameters."""

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        apply_qk_norm: bool = False,
        use_rope: bool = False,
        is_causal: bool = False,
        attn_dropout: float = 0.0,
        rope_base: float = 10000.0,
        rope_spatial_dims: Sequence[int] | None = None,
        *,
        fused: bool = True,
    ) -> None:
        super().__init__()
        if hidden_dim % num_heads:
            wanted = f"a multiple of num_heads={num_heads}"
            raise InvalidInput(f"hidden_dim must be {wanted}, got {hidden_dim}")
        check_rate("attn_dropout", attn_dropout)
        self.hidden_dim, self.num_heads = hidden_dim, num_heads
        self.head_dim = hidden_dim // num_heads
        self.apply_qk_norm, self.use_rope = apply_qk_norm, use_rope
        self.is_causal, self.attn_dropout = is_causal, attn_dropout
        self.rope_base, self.fused = rope_base, fused
        self.rope_spatial_dims = rope_spatial_dims and tuple(rope_spatial_dims)
        self.qk_norm = L2Norm() if apply_qk_norm else nn.Identity()
        self.scale = 1.0 if apply_qk_norm else self.head_dim**-0.5

    def forward(
        self, query: Signal, key: Other, value: Other, *, conditioning: object = None
    ) -> Signal:
        """Return a mean of ``value`` at each place of ``query``, unconditioned."""
        if query.shape[-1] != self.hidden_dim:
            wanted = f"query must have {self.hidden_dim} channels"
            raise InvalidInput(f"{wanted}, got {query.shape[-1]}")
        check_same_shape("value", value, "key", key)
        # batch, head, position, head_dim
        q, k, v = (split_heads(x, self.num_heads) for x in (query, key, value))
        if self.use_rope:
            if key.ndim != query.ndim:
                raise InvalidInput(f"key must have {query.ndim} axes, got {key.ndim}")
            q, k = rotate(q, self._angles(query)), rotate(k, self._angles(key))
        if self.apply_qk_norm:
            q, k = self.qk_norm(q), self.qk_norm(k)
        dropout = self.attn_dropout if self.training else 0.0
        with nullcontext() if self.fused else sdpa_kernel(SDPBackend.MATH):
            y = fused_attention(
                q, k, v, scale=self.scale, dropout=dropout, is_causal=self.is_causal
            )
        return y.transpose(1, 2).reshape_as(query)

    def _angles(self, x: Tensor) -> Float[Tensor, "positions pairs"]:
        lengths = self.rope_spatial_dims or x.shape[1:-1]
        return rotary_angles(lengths, self.head_dim, self.rope_base)

    def flop_count(
        self, shape: Shape, inference: bool = False, key_shape: Shape | None = None
    ) -> int:
        """Return the cost for one sample: products, 3 a number for norm or rotation."""
        queries = count_positions(shape)
        keys = queries if key_shape is None else count_positions(key_shape)
        pointwise = 3 * (self.apply_qk_norm + self.use_rope) * (queries + keys)
        return (4 * queries * keys + pointwise) * self.hidden_dim


# %% jupyter={"source_hidden": true} tags=["promote:mixers/projections"]
from residual_edu.config import Spec, build
from residual_edu.mixers.projections import count_signals
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.start import InitMethod, init_weight


class QKVSequenceMixer(nn.Module):
    """Project a signal to the mixer's inputs, mix its positions, project the result."""

    def __init__(
        self,
        hidden_dim: int,
        mixer_cfg: Spec,
        qkv_bias: bool = False,
        out_proj_bias: bool = False,
        init_method_in: InitMethod | None = None,
        init_method_out: InitMethod | None = None,
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.init_method_in, self.init_method_out = init_method_in, init_method_out
        self.mixer = build(mixer_cfg)
        self.signals = count_signals(self.mixer)
        qkv = nn.Linear(hidden_dim, self.signals * hidden_dim, bias=qkv_bias)
        self.qkv_proj = init_weight(qkv, init_method_in, hidden_dim)
        out = nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias)
        self.out_proj = init_weight(out, init_method_out)

    def reset_parameters(self) -> None:
        """Fill both maps again, where there is an ``init_method``."""
        init_weight(self.qkv_proj, self.init_method_in, self.hidden_dim)
        init_weight(self.out_proj, self.init_method_out)

    def forward(self, x: Signal, *, conditioning: Tensor | None = None) -> Signal:
        """Mix the positions of ``x``; ``conditioning`` is passed to the mixer."""
        signals = self.qkv_proj(x).chunk(self.signals, dim=-1)
        return self.out_proj(self.mixer(*signals, conditioning=conditioning))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: both maps, and the mixer."""
        maps = 2 * (self.signals + 1) * count_positions(shape) * self.hidden_dim**2
        return maps + flop_count(self.mixer, shape, inference)


# %% same-as-package jupyter={"source_hidden": true}
from residual_edu import LazyConfig

sizes = {"hidden_dim": 32, "num_heads": 4}
options = {"apply_qk_norm": False, "use_rope": False, "is_causal": True}
package = QKVSequenceMixer(32, LazyConfig(Attention)(**sizes, **options)).double()
mine = SelfAttention(32, 4).double()
mine.load_state_dict(package.state_dict())  # the weights have the same names

x = torch.randn(2, 12, 32).double()
outputs = mine(x), package(x)
gradients = [
    torch.autograd.grad(y.square().sum(), net.parameters())
    for y, net in zip(outputs, (mine, package), strict=True)
]
same = torch.allclose(*outputs) and all(map(torch.allclose, *gradients))
print("the package's three pieces, with your weights: the same numbers", same)

# %% [markdown]
# ## 4 · What does it do to the gradient?
#
# What is the division by √d for? If the numbers of q and k are independent,
# with mean 0 and variance 1, each product has variance 1, and a score, the sum of d of them,
# has variance d: a spread of √d. Divided by √d it is 1, for every d. What does a softmax over
# 12 keys make of such scores?

# %% largest-weight
torch.manual_seed(0)
for d in (4, 64, 1024):
    q, k = torch.randn(1000, 1, d), torch.randn(1000, 12, d)
    undivided = (q @ k.mT).softmax(dim=-1).amax(dim=-1).mean()
    divided = (q @ k.mT / d**0.5).softmax(dim=-1).amax(dim=-1).mean()
    print(f"d = {d:4}: largest weight {undivided:.2f}, divided by √d {divided:.2f}")

# %% [markdown]
# Without the division one key takes nearly everything in wide heads. Now let a gradient u arrive at the
# output $y = \sum_j w_j v_j$. Then
#
# $$\text{value } v_j \text{ receives } w_j\,u, \qquad \text{score } s_j \text{ receives } w_j\; u \cdot (v_j - y)$$
#
# If key j has all the weight, y is $v_j$, and the second product is 0; for the other keys
# $w_j$ is 0. So where a softmax has settled on one key, its scores receive nothing. Does the
# gradient vanish, then? We stack eight blocks x + attention(norm(x)), with one head of d = 64
# and random weights of variance 1/64, so that q and k have about variance 1. Beside them
# stand the same weights with the division taken back:


# %%
class Undivided(SelfAttention):
    def mix(self, q, k, v):
        return super().mix(q * q.shape[-1] ** 0.5, k, v)


class Block(nn.Module):
    def __init__(self, mixer):
        super().__init__()
        self.norm, self.mixer = nn.LayerNorm(64), mixer

    def forward(self, x):
        return x + self.mixer(self.norm(x))


# %% along-depth
with predict(
    "Without the division, how large is the gradient that arrives at the first block?",
    ["many times smaller", "about the same", "many times larger"],
):
    nets, arriving = {}, {}
    x, u = torch.randn(2, 8, 12, 64).double()
    x.requires_grad_()
    for name, kind in {"divided": SelfAttention, "not divided": Undivided}.items():
        torch.manual_seed(0)
        net = nn.Sequential(*[Block(kind(64)) for _ in range(8)]).double()
        for weight in net.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=64**-0.5)
        nets[name] = net, net
        gradient = torch.autograd.grad((net(x) * u).sum(), x)[0]
        arriving[name] = gradient.square().mean().sqrt()
        print(f"{name}: {arriving[name]:.1f}")
    show(along_depth(nets, (x, u), lambda y, u: (y * u).sum()))

# %% [markdown]
# The upper panel hardly tells the two apart. Read the middle one from right to left: without
# the division the gradient grows from block to block, and the weights of the first blocks
# receive most (lower panel). So the division keeps
# the gradients of all blocks alike.
#
# ## 5 · Does it help?
#
# Back to the row of digits, with *your* `SelfAttention` as the mixer, one head, three seeds.
# The control changes one thing: the query stands on both sides of the score.


# %%
class OneMap(SelfAttention):
    def mix(self, q, k, v):
        return super().mix(q, q, v)


# %% jupyter={"source_hidden": true}
def plot_shares(shares):
    ax = Figure(figsize=(6, 2.4)).add_subplot()
    for height, (name, found) in enumerate(shares.items()):
        ax.plot(found, [-height] * 3, "o", color=B if "maps" in name else A, alpha=0.7)
        ax.text(max(found) + 0.02, -height, f"{sum(found) / 3:.2f}", va="center")
    ax.set_yticks(range(0, -len(shares), -1), shares)
    ax.axvline(0.25, color=REFERENCE, linewidth=0.8, linestyle=":")
    ax.text(0.255, 0.6, "guessing", color=REFERENCE, va="center")
    ax.set(xlim=(0.2, 1), ylim=(-len(shares) + 0.5, 1), xlabel="share of right answers")
    ax.set_title("With a map for each side, the 6 is found")
    return ax.figure


# %% one-map tags=["slow", "trained"]
with predict(
    "One map for both sides, so symmetric scores: how many answers are right?",
    ["hardly more than with the mean", "half-way", "as many as with two maps"],
):
    shares = {"each alone": alone, "mean so far": mean}
    shares["one map"] = three_seeds(OneMap)
    shares["two maps"] = three_seeds(SelfAttention)
    show(plot_shares(shares))

# %% [markdown]
# With one map the head is hardly better than the mean. With two it finds the 6. (The
# [investigation](investigations/08a_the_digit_before.ipynb) shows that the smaller number of
# weights is not the reason.)
#
# ### What is still missing
#
# But more than a quarter of the answers are wrong. What does a head not know?

# %% shuffled
with predict(
    "We shuffle the first eleven positions. What becomes of the output at the twelfth?",
    ["it stays the same", "its numbers are shuffled too", "it becomes another vector"],
):
    new_head = SelfAttention()
    h = torch.randn(1, 12, 32)
    order = torch.randperm(11)
    shuffled = torch.cat([h[:, order], h[:, 11:]], dim=1)
    before, after = new_head(h)[0, 11], new_head(shuffled)[0, 11]
    print("the same:", torch.allclose(before, after, atol=1e-6))

# %% [markdown]
# Keys and values move together, and a mean does not depend on an order. So of two 6s the
# head cannot tell which one came last; it can only average their inks. Positions have to enter
# the scores.
#
# A usual way today is the *rotary embedding*
# ([Su and others, 2021](https://arxiv.org/abs/2104.09864)). The numbers of a query or key are
# taken in pairs, as points in a plane, and each point is turned by an angle that grows with
# the position. The dot product of two turned vectors depends on the difference of their
# angles, that is on how far apart the two positions are. Each pair has a speed of its own,
# from 1 radian a position down to nearly 1/`base`. (The paper's base is 10,000; 100 suits our
# short rows.)


# %%
def turn(x, base=100.0):  # (..., n, d)
    n, half = x.shape[-2], x.shape[-1] // 2
    speed = base ** (-torch.arange(half, device=x.device) / half)
    angle = torch.arange(n, device=x.device)[:, None] * speed
    a, b = x.chunk(2, dim=-1)  # number i and number i + d/2 are a pair
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Rotary(SelfAttention):
    def mix(self, q, k, v):
        return super().mix(turn(q), turn(k), v)


# %% rotary tags=["slow", "trained"]
rotary = three_seeds(Rotary)
print("two maps, turned:", rotary)

# %% [markdown]
# Now the answer is right in about nine cases of ten.
#
# ### Two questions, two heads
#
# We ask a second question at every position: *which ink had the digit just before?* One
# head has one weight for each pair of positions, and the two questions want it in different
# places. Two heads of 16 numbers have exactly as many parameters as one of 32.

# %% two-heads tags=["slow", "trained"]
one = trained(lambda: Rotary(32, 1), questions=2, steps=700)
two = trained(lambda: Rotary(32, 2), questions=2, steps=700)
print("one head :", share_right(one, 0), share_right(one, 1))
print("two heads:", share_right(two, 0), share_right(two, 1))

# %% [markdown]
# After these 700 steps, in this run, two heads are well ahead in the first question. What did each of them
# learn? With the rows of an identity matrix as values, the output of `mix` *is* the weights:

# %% trained-map jupyter={"source_hidden": true} tags=["slow", "trained"]
with torch.no_grad():
    h = two.norm1(two.embed(row.x.to(device)))
    q, k, _ = two.mixer.qkv_proj(h).chunk(3, dim=-1)
    identity = torch.eye(12, device=device)
    maps = two.mixer.mix(two.mixer.split(q), two.mixer.split(k), identity)[0].cpu()
before = maps[:, range(1, 12), range(11)].mean(-1)  # the weight on the digit before
maps = maps[before.argsort()]
larger = [[j for j in range(i) if digits[j] == digits[i] + 1] for i in range(12)]
rings = [max(found, default=-1) for found in larger], list(range(-1, 11))

figure = Figure(figsize=(6, 3.5))
titles = "one larger, last time", "just before"
for head, (ax, title) in enumerate(zip(figure.subplots(1, 2), titles, strict=True)):
    plots.plot_attention_map(maps[head], row.x[0], ax, rings[head], digits)
    ax.set_title(f"head {head + 1}; rings: {title}", weight="normal", size=10)
figure.suptitle("Each head serves one question", x=0.01, ha="left", weight="bold")
show(figure)

# %% [markdown]
# A row of a map belongs to the digit that asks, and shows its weights from white (0) to black
# (1). The rings mark where the answers are, and most of them lie on the darkest cell of their
# row. Nobody told the heads to share the work. A row without a ring, where nothing is asked,
# has its weight somewhere all the same, because a softmax cannot give nothing.
#
# ## 6 · Where do people go wrong?
#
# A colleague has written `forward` anew, with everything in one place.


# %%
class Handed(SelfAttention):
    def forward(self, x):
        batch, n, width = x.shape
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        q, k, v = self.split(q), self.split(k), self.split(v)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        later = torch.ones(n, n, device=x.device).triu(1).bool()
        weights = scores.masked_fill(later, -torch.inf).softmax(dim=-2)
        return self.out_proj((weights @ v).reshape(batch, n, width))


# %% [markdown]
# It raises no error, and it trains. We measure first: we put another random vector at position
# 6, and look which outputs change. In a causal mixer these are the outputs from position 6 on.


# %% handed tags=["slow", "trained"]
def changed(mixer):
    x = torch.randn(1, 12, 32)
    other = x.clone()
    other[:, 6] = torch.randn(32)
    change = (mixer(other) - mixer(x)).abs().amax(dim=-1)[0]
    return (change > 1e-6).nonzero().flatten().tolist()


handed = share_right(trained(lambda: Handed(32, 2)))
print("yours: ", changed(SelfAttention(32, 2)))
print("handed:", changed(Handed(32, 2)), "right answers:", handed)

# %% [markdown]
# Position 0 changes with position 6: it sees the future, in spite of the mask. And the
# network answers worse than with the mean.
#
# ### Exercise 3 · Mend it (10 minutes)
#
# There are two faults, and after one is mended the future still leaks. Write `forward` right,
# and call `changed(Mended(32, 2))` after each change.
#
# <details><summary>Hint 1</summary>Which sums of <code>weights</code> are 1, those of the rows
# or those of the columns?</details>
# <details><summary>Hint 2</summary>Take two heads and three positions, as in step 8. Which
# numbers does <code>reshape</code> put side by side?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Mended(Handed):
    def forward(self, x):
        ### BEGIN SOLUTION
        n = x.shape[1]
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        q, k, v = self.split(q), self.split(k), self.split(v)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        later = torch.ones(n, n, device=x.device).triu(1).bool()
        weights = scores.masked_fill(later, -torch.inf).softmax(dim=-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-heads-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(Mended, "mended_heads")

# %% mended tags=["slow", "trained"]
mended = share_right(trained(lambda: Mended(32, 2)))
print("mended:", changed(Mended(32, 2)), "right answers:", mended)

# %% [markdown]
# <details><summary>Once it is mended: what did the two lines do?</summary>
# <code>softmax(dim=-2)</code> makes the columns sum to 1, so how much a query gets from a key
# depends on all other queries. And <code>reshape</code> without <code>transpose</code> puts
# two positions of one head side by side, where two heads of one position belong: output 0
# then holds position 1.</details>
#
# Both mistakes have been made in public. With the first,
# [a diffusion model](https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146)
# trained as well as without it. The second
# [passed its test](https://github.com/jsbaan/transformer-from-scratch/pull/6), because the
# test's task was too easy. So change one position, and look which outputs move. A relative is
# the mask the wrong way round: in `F.scaled_dot_product_attention` True means *may attend*, in
# `nn.MultiheadAttention` it means *hidden*
# ([a book's example](https://github.com/rasbt/LLMs-from-scratch/issues/1061) mixed them up).
#
# ## 7 · What do I keep?
#
# $$\mathrm{softmax}\!\left(\mathrm{mask}\!\left(\frac{q k^\top}{\sqrt d}\right)\right) v$$
#
# These two classes are yours to paste: attention by PyTorch's function, which need not keep the
# n × n weights, and the pre-norm block of a transformer around it. `CausalAttention` takes the
# weights of your `SelfAttention`.


# %%
class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):  # (batch, n, width)
        parts = self.qkv_proj(x).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # (batch, heads, n, width / heads) each
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


# %%
class TransformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# %% paste
x = torch.randn(2, 12, 32)
mine, block = SelfAttention(32, 4), TransformerBlock(32, 4)
block.attention.load_state_dict(mine.state_dict())
print("as yours:", torch.allclose(block.attention(x), mine(x), atol=1e-6))
print("a block:", tuple(x.shape), "to", tuple(block(x).shape))

# %% [markdown]
# Answer from memory, then unfold.
#
# <details><summary>Why is there a map for queries and another one for keys?</summary>With one
# map i scores j exactly as j scores i. But what one position looks for need not look for it in
# turn.</details>
#
# <details><summary>Why is the mask applied before the softmax?</summary>A score of −∞ adds 0
# to the sum, so the rest sums to 1. If weights are set to 0 afterwards, the future has
# already entered the sum.</details>
#
# <details><summary>Why divide by √d?</summary>A score is a sum of d products and spreads by
# √d. Without the division a wide head gives nearly all weight to one key.</details>
#
# **Next.** Attention compares every pair: 4,096 positions have 16.8 million scores a head. The
# mixer of [lesson 08b](08b_long_convolution.ipynb) reaches as far without them. The
# [investigation](investigations/08a_the_digit_before.ipynb) asks what a head needs to find the
# digit before. The [homework](homework/hw_08a_08b.ipynb) follows lesson 08b; the
# [glossary](../docs/glossary.md) has all words.

# %%
summary("08a")
