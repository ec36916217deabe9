# %% [markdown]
# # 08a · Attention
#
# 90 minutes. It needs no network connection. The block of lessons [07a](07a_residual_block.ipynb) and [07b](07b_conditions_and_networks.ipynb) has one part in which
# positions exchange information, its sequence mixer; this lesson opens the most used one. Of
# [lesson 02](02_layer_norm.ipynb) it uses what LayerNorm keeps of a token.
#
# By the end you can
#
# - **compute** softmax(q k) v for four tokens in your head, and say what the division by √d is for;
# - **build** masks that hold together, and name the row that must not exist;
# - **predict** what attention makes of a shuffled image, and mend it with a rotation on one axis and on two;
# - **find** a rotary embedding that is none, by the lengths of its tokens;
# - **read** who hears whom, for any layer, and tell from it whether a layer is causal.

# %% [markdown]
# ## Before we start: three questions on earlier lessons
#
# Answer aloud, then open.
#
# <details><summary>1. Which letter of x + g · f(norm(x)) is this lesson about?</summary>f. A
# feed-forward layer works on each position by itself; attention lets positions exchange information.</details>
#
# <details><summary>2. What does LayerNorm keep of a token, and what does it throw away?</summary>Its direction, once
# the mean is taken out; the mean and the length are lost (lesson 02).</details>
#
# <details><summary>3. A product of two vectors of 64 random numbers of variance 1: how large is it,
# typically?</summary>64 products of variance 1 add up to a variance of 64: about 8. You will need it in ten
# minutes.</details>

# %%
import itertools
from functools import partial
from math import log

import torch
from matplotlib.figure import Figure
from torch import nn

from residual_edu import LayerNorm, pre_norm_residual
from residual_edu import mixers as finished
from residual_edu.datasets import digits
from residual_edu.parts.attention import check_mask
from residual_edu.exercises import check
from residual_edu.explorers.attention import explore_attention
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import attention as plots
from residual_edu.plotting.stream import plot_stream
from residual_edu.training import accuracy, minibatches, train

device = setup()
progress("08a")

# %% [markdown]
# ## Four tokens
#
# One token asks, with a vector called its **query**. Four tokens can answer. Each has a **key**, which the query is
# compared with, and a **value**, which is what it says. Query and key are compared by their dot product, the
# **score**. Here the four scores are 0, 0, log 2 and log 4, and the values are 8, 0, 4 and 2.
#
# The softmax turns scores into weights: take the exponential of each, then divide by their sum. What is heard is the
# mean of the values with these weights. **Do it in your head: what does the token hear?**

# %% tags=["predict"]
guess = predict("Scores 0, 0, log 2, log 4; values 8, 0, 4, 2: the token hears", ["2", "3", "3.5"])

# %% tags=["reveal"]
# Answer first, then run this cell.
query = torch.tensor([[1.0, 0.0]])
key = torch.tensor([[0.0, 3.0], [0.0, -5.0], [log(2), 1.0], [log(4), 0.0]])
value = torch.tensor([[8.0], [0.0], [4.0], [2.0]])
scores = query @ key.mT
weights = scores.exp() / scores.exp().sum()
fig = Figure(figsize=(6, 3.4))
ax = plots.plot_weighted_mean(weights[0], value[:, 0], fig.add_subplot())
ax.set_title("The top token has half of the weight, not all")
show(
    fig,
    alt="Four bars, as wide as a token's weight and as high as its value: 8 with an eighth, 0 with an eighth, 4 with a "
    "quarter, 2 with a half. A line at 3 is what is heard.",
)
assert weights.tolist() == [[0.125, 0.125, 0.25, 0.5]] and (weights @ value).item() == 3
guess.reveal("3")

# %% [markdown]
# The exponentials are 1, 1, 2 and 4, and their sum is 8. So the weights are ⅛, ⅛, ¼ and ½, and 8/8 + 0/8 + 4/4 + 2/2
# is 3. (2 would be the loudest token alone, and 3.5 the mean without weights.) The second features of the keys, 3, −5
# and 1, did not matter: the query has a 0 there and does not ask.
#
# **Law.** Attention is softmax(q kᵀ) v: a weighted mean, so that what is heard lies between the smallest and the largest
# value. Every token is heard a little.

# %% [markdown]
# ## Why scores are divided by the root of d
#
# Now let queries and keys have d features, random ones of variance 1, and let 16 tokens compete. A score is a sum of d
# products, so it grows like √d. **With d = 1,024 and no scale, how large is the largest of the 16 weights, on average?**

# %% tags=["predict"]
guess = predict("d = 1,024, scores as they are: the largest of 16 weights", ["0.06", "0.25", "0.96"])


def sharpness(scale, seed):
    """Return the largest of 16 weights for each number of features, a mean over 200 queries."""
    generator = torch.Generator().manual_seed(seed)
    pairs = ([torch.randn(200, n, d, generator=generator) for n in (1, 16)] for d in dims)
    return torch.stack([(q @ k.mT * scale(q.shape[-1])).softmax(-1).amax(-1).mean() for q, k in pairs])


# %% tags=["reveal"]
# Answer first, then run this cell.
dims = [1, 4, 16, 64, 256, 1024]
scales = {"as they are": lambda d: 1.0, "divided by √d": lambda d: d**-0.5, "divided by d": lambda d: 1 / d}
curves = {name: torch.stack([sharpness(scale, seed) for seed in range(3)]) for name, scale in scales.items()}
fig = Figure(figsize=(6, 3.6))
ax = plots.plot_sharpness(dims, curves, fig.add_subplot())
ax.set_title("Over √d a softmax is as sharp at every width")
show(
    fig,
    alt="The largest of 16 weights against the number of features, three seeds. With raw scores it rises from 0.2 to "
    "0.96; divided by the root of d it stays at 0.25; divided by d it falls to a sixteenth.",
)
as_they_are, by_root, by_width = (rows[:, 2:] for rows in curves.values())
assert (as_they_are[:, -1] > 0.93).all() and (by_width[:, -1] < 0.08).all()
assert (by_root - 0.245).abs().max() < 0.035
guess.reveal("0.96")

# %% [markdown]
# With raw scores, wide queries hear one token alone before anything was learned. And then little is learned: a weight w
# follows its score with the slope w (1 − w), which is nearly 0 where w is nearly 0 or 1. Divided by d, nobody stands
# out. In between lies the one power of d that leaves the scores alone.
#
# **Law.** The spread of a product of d random features is √d; scores divided by it have the same spread at every width.
# This holds at the start. What queries and keys learn is their own business.
#
# ### Exercise 1 · 6 minutes · ●●○○○
#
# Write attention for any number of axes in front: `query` is (..., queries, d), `key` (..., keys, d), `value`
# (..., keys, any width); return (..., queries, that width). Divide by √d. Scores may be in the thousands.
#
# <details><summary>Hint 1</summary>Three steps: scores, weights, mean. Which axis do the weights sum to 1
# along?</details>
# <details><summary>Hint 2</summary><code>key.mT</code> swaps the last two axes; <code>.softmax(dim=-1)</code> runs over
# the keys.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def my_attention(query, key, value):
    """Return softmax(query · key / √d) · value."""
    ### BEGIN SOLUTION
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ value
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attention-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(my_attention, "attention")

# %% [markdown]
# ## Heads
#
# One softmax gives one mean. Say token 1 says (8, 0), token 2 says (0, 8), and you want to hear both: (8, 8). With
# weights w and 1 − w you hear (8 w, 8 − 8 w), (4, 4) at best. With two **heads**, each with a query of its own and half
# of the features of the value, the first hears 8 from token 1, the second 8 from token 2.
#
# So the features are cut into heads, and each attends by itself. Nothing is added: eight heads cost as many
# multiplications as one, since each has an eighth of the features. (You will see this asserted below.)

# %% [markdown]
# ## Masks: True may look
#
# A **mask** says where a query may look. Where it is False, the score becomes −∞ before the softmax, and the weight
# exactly 0. Two masks are used everywhere: *causal*, no key that comes later, and *a window*, no key that is too far
# away. Where both are wanted, both must hold: `&`.
#
# One library wrote masks as numbers to be added to scores, 0 or −1,000,000,000, and took the maximum of the two.
# **A 0 allows. What does the maximum of two masks forbid?** Look at the last panel, then read on.

# %%
ahead = torch.arange(8) - torch.arange(8)[:, None]  # how far ahead of the query, a row, the key stands
causal, recent = ahead <= 0, ahead > -3
added = [(~mask).float() * -1e9 for mask in (causal, recent)]
masks = {"causal": causal, "not 3 or more back": recent, "both hold": causal & recent}
masks["the maximum"] = torch.maximum(*added) == 0
fig = Figure(figsize=(6, 2.5))
plots.plot_masks(masks, fig.subplots(1, 4, sharey=True))
fig.suptitle("Both masks must hold; a maximum forbids nothing", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Four masks of 8 by 8. Causal: the lower triangle. Not 3 or more back: a band and everything above it. Both: a "
    "band of three below the diagonal. The maximum of the two as numbers: everything.",
)
assert masks["the maximum"].all() and masks["both hold"].sum(-1).tolist() == [1, 2, 3, 3, 3, 3, 3, 3]

# %% [markdown]
# The maximum is 0 wherever *one* of the two allows, which is "or". Here that is everywhere: the causal mask is gone, the
# future is heard, and the loss looks wonderful. With such numbers, take the minimum.
#
# Now forbid everything. **A query that may look at no key: what does its softmax give?**

# %% tags=["predict"]
guess = predict("The softmax of a row of −∞", ["zeros", "equal weights", "nan"])

# %% tags=["reveal"]
# Answer first, then run this cell.
print(torch.full((4,), -torch.inf).softmax(dim=-1).tolist())
try:
    check_mask(torch.tensor([[True, True], [False, False]]))
except ValueError as refusal:
    print(refusal)
guess.reveal("nan")

# %% [markdown]
# 0 divided by 0. One such row is enough to turn a whole network into nan at the next step. So this library refuses it,
# and its mask builder cannot make one: each query sees itself.
#
# ### Exercise 2 · 6 minutes · ●●○○○
#
# Build the mask that is causal *and* has a window: True where a query may look, at itself and at the `window − 1`
# positions before it. It is (count, count), a row for each query.
#
# <details><summary>Hint 1</summary>How far ahead of its query does each key stand? Which of these numbers are
# allowed?</details>
# <details><summary>Hint 2</summary>Two comparisons of <code>ahead</code>, joined by <code>&</code>. Try window 1 in your
# head: only the diagonal is left.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "causal-window", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_window(count, window):
    """Return a mask, (count, count), True where a query may look at a key."""
    ### BEGIN SOLUTION
    ahead = torch.arange(count) - torch.arange(count)[:, None]
    return (ahead <= 0) & (ahead > -window)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "causal-window-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(causal_window, "causal_window")

# %% [markdown]
# The finished pieces: the formula, torch's kernel, which never keeps the table of scores, and the one mask builder of
# this library. Where there are fewer queries than keys, they are the *last* of the positions: when a text grows, only
# its newest token has to ask. Cutting into heads and putting them together again stands at the end.


# %% tags=["promote:parts/attention"] jupyter={"source_hidden": true}
import torch
from torch import nn


def attention(query, key, value, mask=None, bias=None, scale=None):
    # query: ..., queries, head_dim; key: ..., keys, head_dim
    # value: ..., keys, value_dim; mask, bias: ..., queries, keys
    # result: ..., queries, value_dim
    # (*batch, queries, keys)
    scores = query * (query.shape[-1] ** -0.5 if scale is None else scale) @ key.mT
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1) @ value


def fused_attention(
    query, key, value, mask=None, bias=None, scale=None, *, dropout=0.0, is_causal=False
):
    # query: ..., queries, head_dim; key: ..., keys, head_dim
    # value: ..., keys, value_dim; mask, bias: ..., queries, keys
    # result: ..., queries, value_dim
    # The kernel's own causal mask allows no other mask, and puts the queries at the
    # first positions of the keys.
    by_kernel = (
        is_causal and mask is None and bias is None and query.shape[-2] == key.shape[-2]
    )
    if is_causal and not by_kernel:
        mask = both(
            mask,
            attention_mask(
                query.shape[-2], key.shape[-2], causal=True, device=query.device
            ),
        )
    if bias is not None and mask is not None:
        bias = bias.masked_fill(~mask, -torch.inf)
    return nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        mask if bias is None else bias,
        dropout,
        by_kernel,
        scale=scale,
    )


def attention_mask(queries, keys, *, causal=False, window=None, device=None):
    # result: queries, keys
    if not causal and window is None:
        return None
    offset = (
        torch.arange(keys, device=device)
        - torch.arange(keys - queries, keys, device=device)[:, None]
    )
    mask = offset <= 0 if causal else None
    if window is not None:
        mask = both(mask, offset.abs() < window)
    return mask


def both(mask, other):
    """Return where both masks are True; None is True everywhere."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask & other


def split_heads(x, heads):
    # x: batch, ..., channels; result: batch, heads, positions, width
    return x.reshape(x.shape[0], -1, heads, x.shape[-1] // heads).transpose(1, 2)


def merge_heads(x):
    # x: batch, heads, positions, width; result: batch, positions, channels
    return x.transpose(1, 2).flatten(2)


# %% [markdown]
# ## Attention has no order
#
# Real data: a handwritten digit, 8 by 8 pixels, cut into 16 patches of four pixels. Each patch is a token; let query,
# key and value be the patch itself. Now shuffle the patches. **What does each patch hear then?**

# %% tags=["predict"]
guess = predict("In the shuffled digit, each patch hears", ["the same as before", "what now lies beside it", "noise"])
data = digits()


def patches(images):
    """Cut images, (n, 8, 8), into patches on a grid, (n, 4, 4, 4 pixels)."""
    return images.unfold(1, 2, 2).unfold(2, 2, 2).flatten(3)


# %% tags=["reveal"]
# Answer first, then run this cell.
tokens = patches(data.train_images[:64]).flatten(1, 2).double().to(device)
order = torch.randperm(16)
heard, heard_shuffled = (attention(x, x, x) for x in (tokens, tokens[:, order]))
assert torch.allclose(heard_shuffled, heard[:, order], rtol=0, atol=1e-12)
assert torch.allclose(heard_shuffled.mean(1), heard.mean(1), rtol=0, atol=1e-12)
assert torch.allclose(fused_attention(tokens, tokens, tokens), heard, rtol=0, atol=1e-12)
shuffled = tokens[0, order].cpu().view(4, 4, 2, 2).transpose(1, 2).reshape(8, 8)
fig = Figure(figsize=(6, 3))
left, right = fig.subplots(1, 2)
plots.plot_patches(data.train_images[0], 2, left).set_title("a digit", weight="normal", loc="center")
plots.plot_patches(shuffled, 2, right).set_title("its patches, shuffled", weight="normal", loc="center")
fig.suptitle("To attention, these two are the same image", x=0.01, ha="left", weight="bold")
show(fig, alt="Left a handwritten digit cut into 16 patches, right the same patches in another order, unreadable.")
guess.reveal("the same as before")

# %% [markdown]
# Each patch takes its answer with it, to twelve decimals. (The cell also asserts that kernel and formula agree.)
#
# **Law.** Attention is *permutation equivariant*: shuffle the tokens, and its answers are shuffled alike. A mean over all
# positions of what comes out then does not change at all. If order matters, it must be written into the tokens.

# %% [markdown]
# ## Order as an angle
#
# Write the position as an angle. A query is a hand of a clock, say (1, 0), and so is a key. At position p both are
# turned by p quarter turns. The score of two hands is the cosine of the angle between them.
# **The query stands at position 5, the key at 7. What is their score?**

# %% tags=["predict"]
guess = predict("(1, 0) turned by 5 quarters, times (1, 0) turned by 7", ["1", "0", "−1"])

# %% tags=["reveal"]
# Answer first, then run this cell.
quarters = torch.arange(8) * torch.pi / 2
hands = torch.stack([quarters.cos(), quarters.sin()], dim=-1)
table = (hands @ hands.mT).round().long()
print(table.tolist()[5], "are the scores of position 5")
assert all(table[i, j] == table[i + 1, j + 1] for i in range(7) for j in range(7))
guess.reveal("−1")

# %% [markdown]
# Two quarters apart: opposite hands, −1, wherever the two stand. Turning both by the same angle changes nothing, so only
# the difference of the positions counts. That is the **rotary embedding**, RoPE: turn queries and keys, not values.
#
# One hand cannot tell position 0 from position 4. So the d features make d/2 pairs, each the two coordinates of a hand,
# and the hands turn at different speeds: pair i by base^(−2i/d) radians a position. Watch eight positions with base 100.

# %%
angles = torch.arange(8)[:, None] * 100.0 ** (-torch.arange(4) / 4)
fig = Figure(figsize=(6, 3.9))
ax = plots.plot_hands(angles, fig.add_subplot())
ax.set_title("Fast hands tell near positions, slow ones far")
show(
    fig,
    alt="Eight columns of four clock hands. The first turns by a radian a position and has gone round once at position "
    "6; each one below turns about a third as fast, and the last has barely moved at position 7.",
)
assert (angles[6, 0] - 2 * torch.pi).abs() < 0.3 and angles[7, 3] < 0.23

# %% [markdown]
# ### Exercise 3 · 8 minutes · ●●●○○
#
# Turn the pairs. `x` is (..., positions, d), `angles` is (positions, d/2), and the features i and i + d/2 are the two
# coordinates of hand i. Return a new tensor of x's shape.
#
# <details><summary>Hint 1</summary>Where does the point (a, b) go, turned by an angle? Try a quarter turn of
# (1, 0).</details>
# <details><summary>Hint 2</summary><code>x.chunk(2, dim=-1)</code> gives both coordinates of all pairs. Each new one is a sum of two
# products of the old.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "rotate-pairs", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rotate_pairs(x, angles):
    """Return x with each pair of features turned by its angle."""
    ### BEGIN SOLUTION
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "rotate-pairs-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(rotate_pairs, "rotate_pairs")

# %% [markdown]
# The finished pieces. With two axes, half of the pairs turn with the row and half with the column; with three, a third
# each. A head needs a pair for each axis, so its width is a multiple of 2, 4 or 6. Rolled by half a head, each feature
# meets its partner: a cos − b sin and b cos + a sin are the two halves of one line. A network asks for its cosines and
# sines once, by `rotary_cos_sin`, and turns by them in every step.


# %% tags=["promote:parts/position"]
import torch


def rotary_angles(lengths, head_dim, base=10000.0, start=0):
    # result: positions, pairs
    pairs = head_dim // (2 * len(lengths))  # of each axis
    frequencies = base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    places = [
        torch.arange(length) + (start if axis == 0 else 0)
        for axis, length in enumerate(lengths)
    ]
    # (positions, axes)
    grid = torch.stack(torch.meshgrid(*places, indexing="ij"), dim=-1).flatten(0, -2)
    return (grid[:, :, None] * frequencies).flatten(1)


def rotate(x, angles):
    # x: ..., positions, head_dim; angles: positions, pairs
    return rotate_by(x, *rotary_cos_sin(angles))


def rotary_cos_sin(angles):
    # angles: positions, pairs
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)


def rotate_by(x, cos, sin):
    # x: ..., positions, head_dim; cos, sin: positions, head_dim
    # a single rounding to 16 bits, at the end
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    # feature i + head_dim / 2 at i, and the reverse
    partners = wide.roll(x.shape[-1] // 2, dims=-1)
    return (wide * cos.type_as(wide) + partners * sin.type_as(wide)).type_as(x)


# %% [markdown]
# **Law.** A rotation keeps every length, and the score of a query at p with a key at p′ depends on p − p′ alone, axis by
# axis. The first lines below shift everything and compare. On a grid it looks like this: equal tokens everywhere, one
# query in each panel. (Six away there is an echo: the fastest hand has gone round once.)

# %%
for seed, (lengths, width) in itertools.product(range(3), {(64,): 8, (8, 8): 16, (4, 4, 4): 12}.items()):
    pair = torch.randn(2, 1, width, generator=torch.Generator().manual_seed(seed)).double().expand(2, 64, width)
    angles = rotary_angles(lengths, width)
    here, shifted = rotate(pair, angles), rotate(pair, angles + angles[21])
    assert torch.allclose(here.norm(dim=-1), pair.norm(dim=-1), rtol=1e-12)
    assert torch.allclose(here[0] @ here[1].mT, shifted[0] @ shifted[1].mT, rtol=0, atol=1e-10)
print("lengths stay, and scores survive a shift: on 1, 2 and 3 axes, three seeds")
turned = rotate(torch.ones(64, 16).double(), rotary_angles((8, 8), 16, base=100.0))
maps = (turned @ turned.mT).view(8, 8, 8, 8)
fig = Figure(figsize=(6, 3))
for ax, here in zip(fig.subplots(1, 2), [(2, 2), (5, 4)], strict=True):
    plots.plot_score_map(maps[here], here, ax).set_title(f"asked at row {here[0]}, column {here[1]}", weight="normal")
fig.suptitle("On two axes the pattern goes with the query", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Two 8 by 8 maps of scores. In each the query's own place is darkest, and the score falls with the distance in "
    "rows and in columns, with an echo six away. The second map is the first one, shifted with its query.",
)
assert torch.allclose(maps[2, 2, :5, :6], maps[5, 4, 3:, 2:])

# %% [markdown]
# ## A popular slip
#
# There are two good ways to choose pairs. Either the features i and i + d/2 are a pair, as here, and the row of angles is
# repeated as a whole: θ₀ θ₁ θ₀ θ₁. Or the neighbours 2i and 2i + 1 are one, and each angle is repeated beside itself:
# θ₀ θ₀ θ₁ θ₁. Both are rotations. More than one well-made library has taken the angles from one and the pairs from
# the other.
#
# By hand: four features, (1, 0, 0, 0), a quarter turn for the first hand and none for the second.
# **How long is the token after the mixture?**

# %% tags=["predict"]
guess = predict("The length of (1, 0, 0, 0), angles of one way, pairs of the other", ["1", "0", "√2"])


def mixture(x, angles):
    """Repeat each angle beside itself, yet pair each feature with the one half a head away."""
    cos, sin = (turn.repeat_interleave(2, dim=-1) for turn in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


# %% tags=["reveal"]
# Answer first, then run this cell.
quarter = torch.tensor([[torch.pi / 2, 0.0]])
print("rotated:", rotate(torch.eye(4)[:1], quarter).round().abs().tolist()[0], "length 1")
print("mixture:", mixture(torch.eye(4)[:1], quarter).round().abs().tolist()[0], "length 0")
guess.reveal("0")
fig = Figure(figsize=(6, 3.2))
vectors = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(0)).double().expand(2, 16, 8)
for ax, turn in zip(fig.subplots(1, 2, sharey=True), (rotate, mixture), strict=True):
    query, key = (turn(x, rotary_angles([16], 8)) for x in vectors)
    plots.plot_scores_by_distance(query @ key.mT, ax).set_title(turn.__name__, weight="normal", loc="center")
fig.suptitle("A rotation: one score a distance; mixture: many", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Scores of 16 positions with 16 against the difference of positions. Under the rotation every difference has one "
    "score, a single curve. Under the mixture each difference has a whole column of scores.",
)
for seed, width in itertools.product(range(3), (2, 8)):
    pair = torch.randn(2, 1, width, generator=torch.Generator().manual_seed(seed)).double().expand(2, 16, width)
    query, key = mixture(pair, rotary_angles([16], width))
    off = (query.norm(dim=-1) / pair[0].norm(dim=-1) - 1).abs()
    assert off[0] == 0 and (off.max() > 0.1 if width == 8 else off.max() < 1e-12)
    assert width == 2 or (query[0] @ key[1] - query[5] @ key[6]).abs() > 1

# %% [markdown]
# The angles are 90°, 90°, 0, 0. The first feature is multiplied by cos 90° = 0, as it should be. Its partner stands half
# a head away, where the angle of the *other* hand lies: 0, whose sine is 0. So nothing arrives, and the token is gone.
#
# The slip hides well. Position 0 is right, since nothing is turned there. A head of two features is right, since there is
# only one angle. And a network with it trains: its positions are still told apart. What is lost is the law above: with
# the mixture (0, 1) and (5, 6) have different scores. **To find it, measure lengths**: in each of three seeds they
# are off by more than a tenth.

# %% [markdown]
# ## Move it yourself
#
# Seventeen tokens that are all alike: query and key are the same vector of length 1 everywhere, so only the rotation
# tells them apart, and a score is at most 1. Left who hears whom, right the score by distance. *Sharpness* is what the
# scores are multiplied by before the softmax.
#
# **Find out:** with 2 features, who is louder to a token than its own neighbour, and why just there? How many features
# does it take until the neighbour is the loudest of the others? Then switch the rotation off and *causal* on: do tokens
# that are all alike still hear different things? (The scores that you tried stay as thin curves.)

# %% tags=["explorer"]
explore_attention()

# %% [markdown]
# <details><summary>Answer</summary>With 2 features there is one hand, which turns by a radian a position: 6 positions
# are nearly a full turn, 2π = 6.28, and score 0.96 where the neighbour has 0.54. With 4 and 8 features the echo at 6
# still wins, with 16 it does not: slower hands have moved too far by then. Without a rotation, and causal, position p
# hears p + 1 tokens evenly. The tokens being alike, so are the answers. But make one different, the first, say: it is
# heard with the weight 1/(p + 1), and that number tells the position. A causal network is not blind to order.</details>
#
# ## Scores that cannot run away
#
# Queries and keys grow in training, and their scores with them. **QK-norm** gives each of them length 1, head by head;
# the score is then a cosine, and the scale is 1. Two tokens, one score of +1 and one of −1: **how many times as loud can
# the louder one be, at most?**

# %% tags=["predict"]
guess = predict("Weights from scores +1 and −1: their ratio", ["2", "about 7.4", "no limit"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for seed in range(3):
    query, key = torch.randn(17, 64, generator=torch.Generator().manual_seed(seed)).split([1, 16])
    raw, kept = [], []
    for grown in (1.0, 10.0, 100.0):
        raw.append((grown * query @ key.mT / 8).softmax(dim=-1).amax())
        unit = nn.functional.normalize(grown * query), nn.functional.normalize(grown * key)
        kept.append((unit[0] @ unit[1].mT).softmax(dim=-1))
    assert raw[0] < 0.7 and raw[2] > 0.99 and torch.allclose(kept[0], kept[2], atol=1e-6)
    assert kept[0].max() / kept[0].min() < torch.e**2
alone = torch.tensor([1.0] + 15 * [-1.0]).softmax(dim=-1)[0]
print(f"at most {torch.e**2:.2f} times as loud; alone against 15, at most {alone:.2f} of all weight")
guess.reveal("about 7.4")

# %% [markdown]
# e² is 7.39, however large queries have grown. It has its price: no token can have more than a third of the weight
# against 15 others. So some models multiply the cosines by a learned number, and others take RMSNorm per head, whose
# gain is learned: its vectors have length √d, not 1.


# %% tags=["promote:parts/qk_norm"]
import torch
from torch import nn

from residual_edu.parts.rms_norm import RMSNorm


class L2Norm(nn.Module):
    def __init__(self, dim=-1, eps=1e-12):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x):
        # x: any shape
        # eps is 0 in float16
        wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
        return nn.functional.normalize(wide, dim=self.dim, eps=self.eps).type_as(x)


class PerHeadRMSNorm(nn.Module):
    """``RMSNorm`` of each head by itself; all heads share one gain."""

    def __init__(self, num_heads, head_dim, eps=1e-6):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        self.norm = RMSNorm(head_dim, eps)

    def forward(self, x):
        # x: ..., channels
        return self.norm(x.unflatten(-1, (self.num_heads, self.head_dim))).flatten(-2)


# %% [markdown]
# Everything in one mixer. A signal may have 1 to 3 axes of space, channels last; heads are cut from the channels,
# positions are laid in one line, and *causal* means in that order: row by row, left to right. That is a choice. An image
# has no arrow of time.


# %% tags=["promote:mixers/attention"] jupyter={"source_hidden": true}
from torch import nn


class Attention(nn.Module):
    def __init__(
        self,
        hidden_dim,
        num_heads,
        apply_qk_norm,
        use_rope,
        is_causal=False,
        attn_dropout=0.0,
        rope_base=10000.0,
        rope_spatial_dims=None,
    ):
        super().__init__()
        self.hidden_dim, self.num_heads, self.head_dim = (
            hidden_dim,
            num_heads,
            hidden_dim // num_heads,
        )
        self.apply_qk_norm, self.use_rope, self.is_causal = (
            apply_qk_norm,
            use_rope,
            is_causal,
        )
        self.attn_dropout, self.rope_base = attn_dropout, rope_base
        self.rope_spatial_dims = (
            None if rope_spatial_dims is None else tuple(rope_spatial_dims)
        )
        self.qk_norm = L2Norm() if apply_qk_norm else nn.Identity()
        self.scale = 1.0 if apply_qk_norm else self.head_dim**-0.5

    def forward(self, query, key, value, *, conditioning=None):
        # query: batch, ..., channels; key, value: batch or 1, ..., channels
        # batch, head, position, head_dim
        q, k, v = (split_heads(x, self.num_heads) for x in (query, key, value))
        if self.use_rope:
            q, k = rotate(q, self._angles(query)), rotate(k, self._angles(key))
        if self.apply_qk_norm:
            q, k = self.qk_norm(q), self.qk_norm(k)
        dropout = self.attn_dropout if self.training else 0.0
        y = fused_attention(
            q, k, v, scale=self.scale, dropout=dropout, is_causal=self.is_causal
        )
        return y.transpose(1, 2).reshape_as(query)

    def _angles(self, x):
        # result: positions, pairs
        lengths = self.rope_spatial_dims or tuple(x.shape[1:-1])
        return rotary_angles(lengths, self.head_dim, self.rope_base)


# %% [markdown]
# ## Who hears whom
#
# Weights tell who is listened to in one layer. A question that makes sense for *any* layer is: if position j says a
# little more, how much does the output at position i change? That is a piece of the Jacobian, and its norm is one number
# for each pair of positions. A row of the matrix is one listener.


# %% tags=["promote:gradient_flow/mixing_matrix"]
import torch


def mixing_matrix(module, x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = module(x)
        rows = [mean_squares(position, x) for position in y.flatten(1, -2).unbind(1)]
    return torch.stack(rows).sqrt()


def mean_squares(y, x):
    total = torch.zeros(x[0, ..., 0].numel(), dtype=torch.float64)  # (positions of x,)
    for channel in y.unbind(-1):
        (gradient,) = torch.autograd.grad(
            channel.sum(), x, retain_graph=True, materialize_grads=True
        )
        total += gradient.cpu().double().flatten(1, -2).square().sum(dim=-1).mean(dim=0)
    return total


# %% tags=["predict"]
guess = predict("Patch 9 of 16 changes. Under a causal mask, which outputs change?", ["9 alone", "0 to 9", "9 to 15"])
embed = nn.Sequential(nn.Linear(4, 24), LayerNorm(24)).to(device)
x = embed(patches(data.train_images[:1]).to(device)).detach()
plain = partial(Attention, 24, 4, apply_qk_norm=False, use_rope=False)
mixers = {name: plain(is_causal=name == "causal") for name in ("not causal", "causal")}
heard = {name: mixing_matrix(lambda x, mixer=mixer: mixer(x, x, x), x) for name, mixer in mixers.items()}

# %% [markdown]
# We ask twice: the matrix, and a change of patch 9, put in by hand.

# %% tags=["reveal"]
# Answer first, then run this cell.
fig = Figure(figsize=(6, 3.5))
for ax, (name, matrix) in zip(fig.subplots(1, 2), heard.items(), strict=True):
    plots.plot_mixing_matrix(matrix, ax, top=1.5).set_title(name, weight="normal", loc="center")
fig.suptitle("Causal: exactly nothing above the diagonal", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Who hears whom among the 16 patches of a digit. Without a mask every cell is coloured, the diagonal most. With "
    "the causal mask everything above the diagonal is grey, exactly zero.",
)
changed = x.clone()
changed[0, 2, 1] += 1  # row 2, column 1: position 9 in raster order
for name, mixer in mixers.items():
    moved = (mixer(changed, changed, changed) != mixer(x, x, x)).any(-1).flatten().nonzero().flatten().tolist()
    assert moved == list(range(9 if name == "causal" else 0, 16))
    assert (heard[name] > 0).equal(torch.ones(16, 16).tril() > 0 if name == "causal" else torch.ones(16, 16) > 0)
costs = {finished.Attention(24, heads, False, False).flop_count((4, 4)) for heads in (1, 2, 4, 8)}
assert len(costs) == 1  # heads are free
guess.reveal("9 to 15")

# %% [markdown]
# Outputs 0 to 8 are the same bit for bit. The two ways of asking agree: the matrix finds all pairs at once, for one
# input; the change is a test that any model passes or fails.
#
# **Law.** The mixing matrix of a causal layer is zero above the diagonal, at every input: exactly for attention, up to
# rounding for a mixer that works by FFT (lesson 08b). More than that is a leak. (So one matrix can convict a layer; it
# cannot acquit it, since another input might leak.)

# %% [markdown]
# ## Where queries, keys and values come from
#
# From the stream, by one linear map from C to 3C channels, cut in three; behind the mixer another map leads back. These
# two hold all the weights, 4 C² of them: `Attention` itself has none. The same projection serves mixers that take a
# single signal, which you will meet in 08b and 08c; they get a map from C to C.


# %% tags=["promote:mixers/projections"] jupyter={"source_hidden": true}
from torch import nn

from residual_edu.config import build
from residual_edu.mixers.projections import count_signals
from residual_edu.parts.mlp import start


class QKVSequenceMixer(nn.Module):
    def __init__(
        self,
        hidden_dim,
        mixer_cfg,
        qkv_bias=False,
        out_proj_bias=False,
        init_method_in=None,
        init_method_out=None,
    ):
        super().__init__()
        self.hidden_dim = hidden_dim
        mixer = build(mixer_cfg)
        self.signals = count_signals(mixer)
        maps = nn.Linear(hidden_dim, self.signals * hidden_dim, bias=qkv_bias)
        self.qkv_proj = start(maps, init_method_in, hidden_dim)
        self.out_proj = start(
            nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias), init_method_out
        )
        self.mixer = mixer

    def forward(self, x, *, conditioning=None):
        # x: batch, ..., channels
        signals = self.qkv_proj(x).chunk(self.signals, dim=-1)
        return self.out_proj(self.mixer(*signals, conditioning=conditioning))


# %% [markdown]
# In **cross-attention** the query comes from the stream, key and value from somewhere else: a text, a class, another
# image. Then rows and columns of the matrix are different things.


# %% tags=["promote:mixers/projections"] jupyter={"source_hidden": true}
from torch import Tensor, nn

from residual_edu.config import build
from residual_edu.parts.mlp import start


class QKVConditionMixer(nn.Module):
    def __init__(
        self, hidden_dim, mixer_cfg, init_method_in=None, init_method_out=None
    ):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.mixer = build(mixer_cfg)
        self.kv_proj = start(
            nn.Linear(hidden_dim, 2 * hidden_dim, bias=False),
            init_method_in,
            hidden_dim,
        )
        self.q_proj = start(
            nn.Linear(hidden_dim, hidden_dim, bias=False), init_method_in
        )
        self.out_proj = start(
            nn.Linear(hidden_dim, hidden_dim, bias=False), init_method_out
        )

    def forward(self, x, condition):
        # x: batch, ..., channels; condition: batch or 1, ..., channels
        condition = (
            condition[:, None]
            if isinstance(condition, Tensor) and condition.ndim == 2
            else condition
        )
        key, value = (
            self.kv_proj(condition)
            .expand(len(x), *[-1] * (condition.ndim - 1))
            .chunk(2, dim=-1)
        )
        return self.out_proj(self.mixer(self.q_proj(x), key, value))


# %%
cross = QKVConditionMixer(24, plain).to(device)
classes = torch.randn(1, 3, 24).to(device)
matrix = mixing_matrix(lambda tokens: cross(x, tokens), classes)
spread = [cross(x, tokens).flatten(1, 2).std(1).max() for tokens in (classes, classes[:, 0])]
assert matrix.shape == (16, 3) and (matrix > 0).all() and spread[0] > 1e-3 and spread[1] < 1e-6
print("three tokens: 16 different answers; one token: 16 times the same")

# %% [markdown]
# With three class tokens each patch hears its own mixture of three. With a single one all 16 hear the same: a softmax
# over one key is 1, whatever the query. Cross-attention to one token is a bias with many weights.
#
# ## What order is worth
#
# Now train. Two blocks x + mixer(norm(x)), attention alone, no feed-forward layer, on the 4 by 4 patches of the digits;
# a mean over the positions, and a linear map to ten classes. Once without positions, once with the rotation on two axes.
# A mean over a shuffled digit is the same mean, so the first network sees a bag of patches. **How much of the digits can
# be read from the bag?**

# %% tags=["predict"]
guess = predict("Test accuracy of the network that knows no positions", ["10 %", "about 55 %", "about 85 %"])


class Block(nn.Module):
    def __init__(self, use_rope):
        super().__init__()
        self.norm = LayerNorm(32)
        self.mixer = QKVSequenceMixer(32, partial(Attention, 32, 4, False, use_rope, rope_base=10.0))

    def forward(self, x):
        return pre_norm_residual(x, self.mixer, self.norm)


def reader(use_rope, seed):
    """Return a network from patches, (n, 4, 4, 4), to ten classes."""
    torch.manual_seed(seed)
    mean = nn.Sequential(LayerNorm(32), nn.Flatten(1, 2), nn.AdaptiveAvgPool2d((1, 32)), nn.Flatten())
    return nn.Sequential(nn.Linear(4, 32), Block(use_rope), Block(use_rope), mean, nn.Linear(32, 10)).to(device)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
images, test_images = (patches(x).to(device) for x in (data.train_images, data.test_images))
labels, test_labels = data.train_labels.to(device), data.test_labels.to(device)


def trained(use_rope, seed):
    """Return a reader after 150 steps, and its test accuracy."""
    net = reader(use_rope, seed)
    adam = torch.optim.Adam(net.parameters(), lr=4e-3)
    train(lambda x, y: nn.functional.cross_entropy(net(x), y), minibatches(images, labels, seed=seed), adam, 150)
    return net, accuracy(net, test_images, test_labels)


bags = [trained(False, seed)[1] for seed in range(3)]
nets, grids = zip(*[trained(True, seed) for seed in range(3)], strict=True)
print("150 steps, three seeds: a bag of patches", *(f"{share:.0%}" for share in bags), end=", ")
print("with positions", *(f"{share:.0%}" for share in grids))
holds(min(bags) > 0.4 and max(bags) < 0.7, "A bag of patches tells 40 to 70 % of the digits.")
holds(min(grids) > 0.75, "With positions more than 75 % are told.")
guess.reveal("about 55 %")

# %% [markdown]
# About half of the digits can be told from which patches occur, without knowing where. Most of the rest is order. (The
# base is 10 here and not 10,000: an axis of four positions has no use for hands that need thousands.) Both numbers belong
# to this small network and 150 steps.
#
# The stream of the first network with positions, before and after these 150 steps:

# %% tags=["trained"]
fig = Figure(figsize=(6, 6.6))
shares, grown = {"new": [], "trained": []}, []
for seed, name in itertools.product(range(3), shares):
    net = reader(True, seed) if name == "new" else nets[seed]
    with GradientFlowRecorder(net, net[1:3]) as flow:
        nn.functional.cross_entropy(net(images[:64]), labels[:64]).backward()
    shares[name] += (flow.added / flow.activation[:, :-1]).flatten().tolist()
    grown += [flow.stream_gradient[0, 0] / flow.stream_gradient[0, -1]]
    if seed == 0:
        ax = fig.add_subplot(2, 1, 1 if name == "new" else 2)
        plot_stream(flow, ax, norms="pre").set_title(name, weight="normal")
fig.suptitle("Each trained block adds as much as it received", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Two river pictures of two blocks. New: both tributaries are thinner than the bed. Trained: the second is wider "
    "than the bed it joins, and the gradient floods on its way back.",
)
print(*(f"{name}: added over handed {min(s):.2f} to {max(s):.2f}" for name, s in shares.items()), sep="; ", end="; ")
print(f"the gradient grows at most {max(grown[::2]):.1f} times, trained at least {min(grown[1::2]):.0f} times")
holds(max(shares["new"]) < 1 < 1.05 * min(shares["trained"]), "Trained, each block adds as much as it was handed.")
holds(max(grown[::2]) < 2 and min(grown[1::2]) > 10, "Trained, the gradient comes back over ten times as large.")

# %% [markdown]
# The stream that leaves the first linear map is small, and behind a norm that does not matter: attention answers at the
# size of its own weights, and these have grown. The price stands in the lower bed: the gradient comes back more than ten
# times as large as it went in. With more blocks that asks for the gates of lesson 05.
#
# ## What you have seen
#
# | law | seen here | where it stops |
# |---|---|---|
# | Attention is a weighted mean | weights ⅛, ⅛, ¼, ½: 3 of 8, 0, 4, 2 | with dropout on the weights they no longer sum to 1 |
# | Scores spread like √d; divided by it they do not | largest of 16 weights 0.25 from d = 16 to 1,024; raw 0.96 | at the start; trained queries are not random |
# | Two masks hold by "and" | the maximum of two added masks forbade nothing of 64 | with added numbers, take the minimum |
# | A query must see a key | softmax of nothing: nan | refused here |
# | Attention has no order | a shuffled digit, the same to 12 decimals | a causal mask breaks it, positions break it |
# | A rotation keeps lengths; scores know differences alone | 1, 2, 3 axes, three seeds, to 10 decimals | not with angles of one convention and pairs of the other |
# | QK-norm bounds the ratio of two weights | e² = 7.39 | a learned scale moves the bound |
# | Causal: zero above the diagonal | 120 zeros, 9 outputs unchanged bit for bit | on images, "later" is raster order |
# | One key is a softmax of 1 | 16 patches, one answer | from two keys on |
# | Order is worth something | digits: bag 40 to 70 %, with positions above 75 % | this network, 150 steps |
#
# What attention costs, every pair of positions, is the subject of 08c; how to hear far without asking every pair, of 08b.

# %%
summary("08a")

# %% [markdown]
# ## Next
#
# - [Lesson 08b](08b_long_convolution.ipynb) lets each position depend on distant ones without comparing every pair.
# - [Homework for lessons 08a and 08b](homework/hw_08a_08b.ipynb), once you have done lesson 08b.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
