# %% [markdown]
# # 08a, appendix · The library's attention
#
# Not needed for [lesson 08a](08a_attention.ipynb), and not counted in it.

# %%
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import nn

from residual_edu import LayerNorm
from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.explorers.attention import explore_attention
from residual_course.lesson import holds, setup, show
from residual_course.plots import attention as plots
from residual_course.plots.mixing_matrix import plot_mixing_matrix

device = setup()

# %% [markdown]
# ## The formula, the kernel, the mask
#
# `attention` is the formula of the lesson, for any mask. `fused_attention` is torch's kernel, which keeps no table of scores where it can fuse the steps. `attention_mask` builds causal masks and windows; where there are fewer queries than keys, they are the *last* of the positions: when a text grows, only its newest token
# is asked for. `split_heads` and `merge_heads` cut the features and put them together.

# %% tags=["module:parts/attention"]
import torch
from torch import nn

from residual_edu.parts.attention import attention, fused_attention


# %% [markdown]
# Formula and kernel agree, on the 16 patches of 2 × 2 pixels of 64 digits, each its own query, key and value. And attention without positions and masks is **permutation equivariant**: shuffle the patches, and the outputs are shuffled in the same way, so that a mean over all of them does not change.


# %%
def patches(images):
    """Cut images, (n, 8, 8), into patches on a grid, (n, 4, 4, 4 pixels)."""
    return images.unfold(1, 2, 2).unfold(2, 2, 2).flatten(3)


data = digits()
tokens = patches(data.train_images[:64]).flatten(1, 2).double().to(device)
order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
mixed, shuffled = (attention(x, x, x) for x in (tokens, tokens[:, order]))
fused = fused_attention(tokens, tokens, tokens)
print("kernel as formula:", torch.allclose(fused, mixed, rtol=0, atol=1e-12))
equal = torch.allclose(shuffled, mixed[:, order], rtol=0, atol=1e-12)
print("shuffled in, shuffled out:", equal)
holds(equal, "Attention without positions is permutation equivariant.")

# %% [markdown]
# ## Two masks
#
# Where two masks are wanted, both must hold: `&`. Some programs write masks as numbers to be added to scores, 0 or −1,000,000,000, and
# [one of them](https://github.com/michaelellis003/lmxlab/blob/61febc6405f0dd6b94088de32e791c9f7c73cacb/src/lmxlab/core/attention.py#L238-L246) takes the maximum of two. A 0 allows, so the maximum is "or": the last panel.

# %% tags=["figure"]
ahead = torch.arange(8) - torch.arange(8)[:, None]  # key's position minus query's
causal, recent = ahead <= 0, ahead > -3
added = [(~mask).float() * -1e9 for mask in (causal, recent)]
masks = {"causal": causal, "not 3 or more back": recent, "both hold": causal & recent}
masks["the maximum"] = torch.maximum(*added) == 0
fig = Figure(figsize=(6, 2.3))
plots.plot_masks(masks, fig.subplots(1, 4, sharey=True))
fig.suptitle(
    "Both masks must hold; a maximum forbids nothing", x=0.01, ha="left", weight="bold"
)
alt = "Four masks of 8 by 8. Causal: the lower triangle. Window: a band and above. "
show(
    fig,
    alt=alt + "Both: a band below the diagonal. The maximum: everything is allowed.",
)

# %% [markdown]
# The opposite slip is a mask that leaves a position nothing: the softmax of a row of −∞ is 0 divided by 0 (torch's fused function returns 0).
#
# ## How sharp a softmax is
#
# The largest of 16 weights, for random queries and keys of variance 1:

# %% tags=["figure"]
dims, curves = [1, 4, 16, 64, 256, 1024], {}
powers = {"as they are": 0, "divided by √d": -0.5, "divided by d": -1}
for name, power in powers.items():
    generator, curves[name] = torch.Generator().manual_seed(0), []
    for d in dims:
        q, k = (torch.randn(600, n, d, generator=generator) for n in (1, 16))
        curves[name].append((q @ k.mT * d**power).softmax(-1).amax(-1).mean().item())
ax = plots.plot_sharpness(dims, curves, Figure(figsize=(6, 2.9)).add_subplot())
ax.set_title("Random queries: equally sharp if divided by √d")
alt = "Largest of 16 weights against d. As they are: from 0.2 to 0.96. Divided by the "
show(
    ax.figure, alt=alt + "root of d: about 0.25 from 4 on. Divided by d: falls to 1/16."
)

# %% [markdown]
# ## Rotary positions on one axis, two and three
#
# `rotary_angles` makes the angles: with two axes, half of the pairs turn with the row and half with the column. `rotate` turns, and `rotary_cos_sin` with `rotate_by` do so in two steps, since a network needs its cosines and sines once.

# %% tags=["module:parts/position"]
import torch

from residual_edu.parts.position import rotary_angles, rotate


# %% [markdown]
# Each pair of features turns at a speed of its own. As hands of clocks, with base 100:

# %% tags=["figure"]
angles = torch.arange(8)[:, None] * 100.0 ** (-torch.arange(4) / 4)
ax = plots.plot_hands(angles, Figure(figsize=(6, 3.6)).add_subplot())
ax.set_title("Fast pairs tell near positions, slow ones far")
alt = "Eight columns of four hands. The first turns by a radian a position, the next "
show(
    ax.figure,
    alt=alt + "a third as fast each; the last has hardly moved at position 7.",
)

# %% [markdown]
# ### Exercise · 6 minutes · ●●●○○
#
# The readable form: turn the pairs by hand, without `rotate`. `x` is (..., positions, d), `angles` is (positions, d/2), and the features i and i + d/2 are the two coordinates of pair i.
#
# <details><summary>Hint 1</summary>Where does the point (a, b) go, turned by an angle? Try a quarter turn of (1, 0).</details>
# <details><summary>Hint 2</summary><code>x.chunk(2, dim=-1)</code> gives both coordinates of all pairs. Each new one is a sum of two products of the old.</details>


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
# There are two good ways to choose pairs: features i and i + d/2, as here, so that the row of angles is repeated as a whole; or neighbours 2i and 2i + 1, so that each angle is repeated beside itself. The **mixture** takes the angles of one and the pairs of the other. It raises no error. Lengths find it: for (1, 0, 0, 0), with a quarter turn for the first pair and none for the second, `rotate` keeps 1.


# %%
def mixture(x, angles):
    cos, sin = (each.repeat_interleave(2, -1) for each in (angles.cos(), angles.sin()))
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


one, quarter = torch.eye(4)[:1], torch.tensor([[torch.pi / 2, 0.0]])
lengths = [f(one, quarter).norm().item() for f in (rotate, mixture)]
print("length after rotate {:.2f}, after mixture {:.2f}".format(*lengths))
holds(lengths[1] < 1e-6 < 0.999 < lengths[0], "A rotation keeps lengths.")

# %% tags=["figure"]
axes = (fig := Figure(figsize=(6, 2.8))).subplots(1, 2, sharey=True)
pair = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(0))
for ax, f in zip(axes, (rotate, mixture), strict=True):
    q, k = f(pair.expand(2, 16, 8), rotary_angles([16], 8, base=100.0))
    plots.plot_scores_by_distance(q @ k.mT, ax).set_title(f.__name__, weight="normal")
title = "rotate: one score a distance; mixture: many"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Scores of two vectors at all pairs of 16 positions against their distance. "
show(fig, alt=alt + "Rotated: one curve. Mixture: a column of scores at each distance.")

# %% [markdown]
# A score depends on the difference of positions, axis by axis. Equal tokens everywhere, one query in each panel, ringed. (The pattern comes again six positions away: the fastest pair has gone round once.)

# %% tags=["figure"]
turned = rotate(torch.ones(64, 16).double(), rotary_angles((8, 8), 16, base=100.0))
maps = (turned @ turned.mT).view(8, 8, 8, 8)
fig = Figure(figsize=(6, 3))
for ax, here in zip(fig.subplots(1, 2), [(2, 2), (5, 4)], strict=True):
    name = f"query at row {here[0]}, column {here[1]}"
    plots.plot_score_map(maps[here], here, ax).set_title(name, weight="normal")
title = "On two axes the pattern moves with the query"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Two 8 by 8 maps of scores. The query's own place is darkest, and the score "
show(fig, alt=alt + "falls with the distance. The second map is the first, shifted.")
same = torch.allclose(maps[2, 2, :5, :6], maps[5, 4, 3:, 2:])
holds(same, "The second map is the first one, shifted.")

# %% [markdown]
# ## Tokens that are all alike
#
# Seventeen tokens with the same query and key of length 1, so only the rotation tells them apart. Left the weights, right the score by distance. *Sharpness* is what the scores are multiplied by before the softmax. **Find out:** with 2 features, which other position has more weight than the neighbour, and why there? How many features does it take until the neighbour has the largest score of the others?

# %% tags=["explorer"]
explore_attention()

# %% [markdown]
# <details><summary>Answer</summary>With 2 features there is one pair, which turns by a radian a position: 6 positions are nearly a full turn, 2π = 6.28. With 4 and 8 features position 6 away still has a larger score than the neighbour, with 16 it has not: slower pairs have turned too far by then.</details>
#
# ## QK-norm
#
# Queries and keys can grow in training, and their scores with them. **QK-norm** gives each of them length 1, head by head (`L2Norm`); the score is then a cosine, and the scale is 1. `PerHeadRMSNorm` gives them length √d, times a gain that is learned.

# %% tags=["module:parts/qk_norm"]
import torch
from torch import nn


# %%
alone = torch.tensor([1.0] + 15 * [-1.0]).softmax(dim=-1)
print(f"scores +1 and -1: weights differ by a factor of {alone[0] / alone[1]:.2f} = e²")
print(f"one +1 beside fifteen -1: {alone[0]:.2f} of all weight")

# %% [markdown]
# However large queries have grown, one weight is at most e² = 7.39 times another. The price: one position has at most a third of the weight beside 15 others. So some models multiply the cosines by a number that is learned.
#
# ## All in one mixer
#
# `Attention` takes signals with 1 to 3 axes of space, channels last. Heads are cut from the channels, positions are laid in one line, and *causal* means in that order: row by row, left to right. On an image that is a choice.

# %% tags=["module:mixers/attention"]
from torch import nn

from residual_edu.mixers.attention import Attention


# %% [markdown]
# ## What one output depends on
#
# Weights belong to one layer of attention. For any layer one can ask: if position j changes a little, how much does the output at position i change? That is a piece of the Jacobian, and its norm is one number for each pair of positions: the **mixing matrix**.

# %% tags=["module:gradient_flow/mixing_matrix"]
import torch

from residual_edu.gradient_flow.mixing_matrix import mixing_matrix


# %% tags=["figure"]
embed = nn.Sequential(nn.Linear(4, 24), LayerNorm(24)).to(device)
x = embed(patches(data.train_images[:1]).to(device)).detach()
plain = partial(Attention, 24, 4, apply_qk_norm=False, use_rope=False)
fig, found = Figure(figsize=(6, 3.4)), {}
for ax, name in zip(fig.subplots(1, 2), ("not causal", "causal"), strict=True):
    mixer = plain(is_causal=name == "causal")
    found[name] = mixing_matrix(lambda x, mixer=mixer: mixer(x, x, x), x)
    plot_mixing_matrix(found[name], ax, top=1.5).set_title(name, weight="normal")
title = "Causal: exactly nothing above the diagonal"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Mixing matrices of 16 patches of a digit. Without a mask every cell is "
show(
    fig,
    alt=alt + "coloured, most the diagonal. Causal: all above the diagonal is grey, 0.",
)
zero = not found["causal"].triu(1).any()
holds(zero, "The mixing matrix of a causal layer is zero above the diagonal.")

# %% [markdown]
# For attention the zeros are exact; for a mixer that works by FFT (lesson 08b) they are as small as rounding. One such matrix can find a leak, and cannot exclude one: another input might leak.
#
# ## Where query, key and value come from
#
# `QKVSequenceMixer` maps the stream from C to 3C channels and cuts the result in three; after the mixer another map leads back. Mixers that take one signal, which follow in 08b and 08c, get a map from C to C.

# %% tags=["module:mixers/projections"]
from torch import nn


# %% [markdown]
# In **cross-attention**, `QKVConditionMixer`, the query comes from the stream, key and value from elsewhere: a text, a class, another image.

# %% tags=["module:mixers/projections"]
from torch import nn

from residual_edu.mixers.projections import QKVConditionMixer


# %%
cross = QKVConditionMixer(24, plain).to(device)
classes = torch.randn(1, 3, 24).to(device)
spread = [cross(x, z).flatten(1, 2).std(1).max() for z in (classes, classes[:, 0])]
print("outputs differ between patches: three tokens", bool(spread[0] > 1e-3), end=", ")
print("one token", bool(spread[1] > 1e-3))
holds(spread[1] < 1e-6 < 1e-3 < spread[0], "One token is handed to all alike.")

# %% [markdown]
# With a single token all 16 patches receive the same: a softmax over one key is 1, whatever the query.
