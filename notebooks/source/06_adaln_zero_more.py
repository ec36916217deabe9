# %% [markdown]
# # 06, appendix · AdaLN for any axes, the block, its two ways in, the package's network
#
# Not needed for [lesson 06](06_adaln_zero.ipynb), and not counted in it.

# %%
from functools import partial

import torch
from torch import nn

from residual_edu import AdaLNZeroResidualBlock, LayerNorm, SimpleFeedForward
from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, setup

device = setup()

# %% [markdown]
# ## AdaLN for any number of axes
#
# ### Exercise · 6 minutes · ●●○○○
#
# Write AdaLN for a signal with any number of axes: x is (batch, positions, ..., features), or only (batch, features); shift and scale are
# (batch, features). `norm` is a function of one tensor. Each sample has its own shift and scale, the same at all its positions.
#
# <details><summary>Hint 1</summary>Which axis does (batch, features) line up with, when x has three? Try a batch of 3
# with 3 positions.</details>
# <details><summary>Hint 2</summary>Shift and scale need as many axes as x: samples first, features last, and an axis of 1 for each
# other.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "modulate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def modulate(x, norm, shift, scale):
    """Return norm(x) times 1 + scale, plus shift, each sample with its own."""
    ### BEGIN SOLUTION
    shape = (len(x), *[1] * (x.ndim - 2), -1)
    return norm(x) * (1 + scale.view(shape)) + shift.view(shape)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "modulate-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(modulate, "modulate")

# %% [markdown]
# ## The block from its parts
#
# ### Exercise · 12 minutes · ●●●●○
#
# Write the block's forward pass for x of (batch, positions, features). `projection(condition)` is (batch, 6 · features): shift, scale and gate of the
# mixer, then of the MLP. `norm`, `mixer` and `mlp` are functions of one tensor. Two of the mistakes that the check knows were found in public code.
#
# <details><summary>Hint 1</summary>Which x does the MLP's norm receive: the one that came in, or the one that the mixer has
# added to?</details>
# <details><summary>Hint 2</summary><code>.chunk(6, dim=-1)</code> cuts the projection into six; they need an axis of 1 for the
# positions. Both branches have one form: x plus the gate times the layer of the modulated norm.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "adaln-zero-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def adaln_zero_forward(x, condition, projection, norm, mixer, mlp):
    """Return x with the outputs of mixer and MLP added, both modulated and gated."""
    ### BEGIN SOLUTION
    six = projection(condition)[:, None].chunk(6, dim=-1)
    for f, (shift, scale, gate) in zip((mixer, mlp), (six[:3], six[3:]), strict=True):
        x = x + gate * f(norm(x) * (1 + scale) + shift)
    return x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "adaln-zero-forward-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check(adaln_zero_forward, "adaln_zero_forward")

# %% [markdown]
# ## Two ways in
#
# In the package's `AdaLNZeroResidualBlock` a condition has two ways in: through the six vectors, and as `conditioning=` of the mixer, for mixers that can
# use it. A condition with positions of its own, an image say, is averaged over them first. Here is a mixer that keeps what it was told, in a new
# block, in three formats. The output is x, bit for bit, since the gates are 0 and the branches finite.


# %% jupyter={"source_hidden": true}
class Average(nn.Module):
    """Give every position a linear map of the mean of all."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, *, conditioning):
        self.told = conditioning
        mean = x.mean(tuple(range(1, x.ndim - 1)), keepdim=True)
        return self.linear(mean).expand_as(x)


norm = partial(LayerNorm, 8, elementwise_affine=False)
mlp, none = partial(SimpleFeedForward, 8, 16), nn.Identity
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    block = AdaLNZeroResidualBlock(Average, norm, mlp, norm, none, none, hidden_dim=8)
    block, condition = (
        block.to(device, dtype),
        torch.randn(2, 4, 6, 8),
    )  # 4 x 6 positions
    condition = condition.to(device, dtype)
    for space in (5,), (3, 4), (2, 3, 4):
        x = torch.randn(2, *space, 8).to(device, dtype)
        same = block(x, condition).equal(x)
        holds(same, "A new block returns x.")
    told = block.sequence_mixer.told
    print(str(dtype), "returns x:", same, "  the mixer was told:", tuple(told.shape))

# %% [markdown]
# ## Velocity or noise
#
# Lesson 06 predicts the velocity p − n along the straight line. Many papers on diffusion predict the noise n, along the curve $x_t = \sin(\frac{\pi t}{2})\,p +
# \cos(\frac{\pi t}{2})\,n$. That is two changes. Here is each by itself: the same network, guidance 2 in ten steps, three seeds. *Near* is the median distance
# to the nearest training digit over that of new digits: 1 is as near as a real digit, and below 1 nearer. (The code of these runs is at the end of the lesson.)

# %% tags=["trained"] jupyter={"source_hidden": true}
from residual_course.lesson import stored_runs

stored = stored_runs("06_adaln_zero")["runs"]
NAMES = {"zero, 0.003": "line, velocity"}


def row(name):
    return [stored[seed][name] for seed in range(3)]


print(f"{'':28} near                recognised")
SHORT = "zero, 0.003", "curve, velocity", "line, noise", "curve, noise"
for kind in SHORT:
    found = [row(f"{kind}, 600: {what}") for what in ("near", "recognised")]
    columns = ["  ".join(f"{one:.2f}" for one in three) for three in found]
    print(f"{NAMES.get(kind, kind)}, 600 steps".ljust(28), "    ".join(columns))
near = {kind: row(f"{kind}, 600: near") for kind in SHORT}
fast, slow = (sum((near[kind] for kind in pair), []) for pair in (SHORT[:2], SHORT[2:]))
holds(max(fast) + 0.05 < min(slow), "The velocity draws better on both paths.")

# %% [markdown]
# With the velocity the path makes no difference that we could see; with the noise the curve draws a little better. The
# target also changes how much each t counts in the loss, and that was not taken apart. The lesson takes the straight line since its formula is shorter.
#
# ## The package's network
#
# `Denoiser`, `flow_matching_loss` and `sample` as the package has them: one head of attention, a smaller MLP, and the time as a single number.


# %% tags=["module:networks/denoiser"]
from functools import partial
import torch
from torch import nn
from residual_edu.blocks.adaln_zero_block import AdaLNZeroResidualBlock
from residual_edu.parts.layer_norm import LayerNorm
from residual_edu.parts.mlp import SimpleFeedForward

from residual_edu.networks.denoiser import Denoiser


# %% tags=["module:networks/denoiser"]
import torch

from residual_edu.networks.denoiser import flow_matching_loss


# %% [markdown]
# 200 steps of it, with patches of 4 × 4:

# %% tags=["trained"]
from residual_course.training import minibatches, train

data, model = digits(), Denoiser(4, 2, 64, 2, 10).to(device)
batches = minibatches(
    (2 * data.train_images - 1).to(device), data.train_labels.to(device)
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
generator = torch.Generator().manual_seed(0)
losses = train(
    lambda x, y: flow_matching_loss(model, x, y, generator=generator),
    batches,
    optimizer,
    200,
)
print(f"loss {losses[0]:.2f} at first, {sum(losses[-20:]) / 20:.2f} at the end")
holds(sum(losses[-20:]) / 20 < 0.8, "The package's network trains.")

# %% [markdown]
# ## The finished pieces
#
# As the package has them. First `Modulation`:


# %% tags=["module:parts/adaln_zero"]
from torch import nn


# %% [markdown]
# `AdaLNZeroResidualBlock`:


# %% tags=["module:blocks/adaln_zero_block"]
from torch import nn

from residual_edu.blocks.adaln_zero_block import AdaLNZeroResidualBlock
