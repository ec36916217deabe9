# %% [markdown]
# # 06 · AdaLN-Zero
#
# 95 minutes. It needs no network connection. Of [lesson 05](05_layer_scale.ipynb) it uses which weights have a gradient
# when a gate is 0; of [lesson 04](04_pre_norm_and_post_norm.ipynb), what the norm of a pre-norm block acts on; of
# [lesson 02](02_layer_norm.ipynb), what LayerNorm takes out of a token.
#
# By the end you can
#
# - **modulate** a norm with a condition, and gate a branch with it;
# - **predict** which weights of a block, and of a whole network, have a gradient at steps 0, 1 and 2;
# - **say** how a gate at exactly zero learns, and which zeros never will;
# - **train** one small network to draw the digit that it is told, and check that it did.

# %% [markdown]
# ## Before we start: three questions
#
# Answer aloud, then open.
#
# <details><summary>1. Lesson 02: a token is made ten times as large. What does LayerNorm hand on?</summary>The same as
# before. It keeps the direction, and takes out mean and size.</details>
#
# <details><summary>2. Lesson 04: in a pre-norm block, what does a branch see, and what does the stream
# see?</summary>The branch sees norm(x). The stream sees no norm: it is added to, and nothing else.</details>
#
# <details><summary>3. Lesson 05: a gate stands at 0, and so does the branch's last layer. Which of the two moves
# first?</summary>Neither. Each one's gradient is multiplied by the other, so both are 0, for ever.</details>

# %%
from functools import partial
from itertools import pairwise, repeat
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from residual_edu import LayerNorm, SimpleFeedForward, pre_norm_residual, rms_norm
from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.explorers.adaln_zero import Pauses, explore_training
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import adaln_zero as plots
from residual_edu.plotting.stream import plot_stream
from residual_edu.training import minibatches, train

device, data = setup(), digits()
progress("06")
images, labels = (2 * data.train_images - 1).to(device), data.train_labels.to(device)  # paper -1, ink 1

# %% [markdown]
# ## One network, ten digits
#
# At the end of this lesson one network draws any digit, and we tell it which. **Where does one tell a network
# something?** An answer that lasted is FiLM: let a condition choose a *scale* and a *shift* for each channel.
#
# $$x \cdot (1 + \mathrm{scale}) + \mathrm{shift}$$
#
# Behind a norm this is AdaLN, adaptive layer norm. The norm then has no gain and bias of its own, since the condition
# brings both. Take four numbers that you know: LayerNorm makes 1.73, -0.58, -0.58, -0.58 of [1, 0, 0, 0]. Now a
# condition says shift = [-1, 0, 0, 0] and scale = [0, 0, 0, 1].

# %% tags=["predict"]
guess = predict("The fourth number, -0.58 before: what does it become?", ["-0.58", "0", "-1.15"])

# %% tags=["reveal"]
# Answer first, then run this cell.
norm = LayerNorm(4, elementwise_affine=False)
shift, scale = torch.tensor([[-1.0, 0, 0, 0], [0, 0, 0, 1.0]])
told = norm(torch.tensor([1.0, 0, 0, 0])) * (1 + scale) + shift
print([round(v, 2) for v in told.tolist()])
guess.reveal("-1.15")
assert torch.allclose(told, torch.tensor([0.7320, -0.5773, -0.5773, -1.1547]), atol=1e-3)

# %% [markdown]
# **Why behind a norm, and not on x itself?** Below, 80 tokens of two numbers, small ones and large ones, and three
# conditions a, b, c. (Two numbers can be drawn; the norm is RMSNorm, since LayerNorm of two numbers only ever says ±1.)

# %%
generator = torch.Generator().manual_seed(0)
tokens = rms_norm(torch.randn(80, 2, generator=generator)) * torch.logspace(-1, 0.6, 80)[:, None]
shifts = torch.tensor([[[4.0, 2.5]], [[-3.5, 2.0]], [[0.5, -3.0]]])
gains = 1 + torch.tensor([[[0.8, -0.4]], [[-0.3, 0.5]], [[0.2, -0.6]]])
fig = Figure(figsize=(6, 3.8))
axes = fig.subplots(1, 2, sharex=True, sharey=True)
for ax, h, title in zip(axes, (tokens, rms_norm(tokens)), ("FiLM, on x", "AdaLN, on norm(x)"), strict=True):
    plots.plot_conditions(dict(zip("abc", h * gains + shifts, strict=True)), ax).set_title(title)
fig.suptitle("After a norm the condition alone places tokens", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Left: shifted and scaled as they come, the tokens of three conditions form three wide, overlapping clouds. "
    "Right: normalised first, the tokens of each condition lie on a small ellipse of its own.",
)
assert torch.allclose(rms_norm(100 * tokens) * gains + shifts, rms_norm(tokens) * gains + shifts, atol=1e-2)

# %% [markdown]
# On x itself, a shift of 4 is much for a token of size 1 and nothing for one of size 100: what the condition can do
# depends on how loud the token is. Behind a norm all tokens are equally loud. (FiLM's authors put theirs behind a batch
# norm, too.)
#
# **Law.** AdaLN(a·x, c) = AdaLN(x, c) for a > 0.

# %% [markdown]
# ### Exercise 1 · 6 minutes · ●●○○○
#
# Write AdaLN for a signal with any number of axes: x is (batch, positions, ..., channels), shift and scale are (batch,
# channels), `norm` is a function of one tensor. Each sample hears its own condition, at all its positions.
#
# <details><summary>Hint 1</summary>Which axis does (batch, channels) line up with, when x has three? Try a batch of 3
# with 3 positions.</details>
# <details><summary>Hint 2</summary>Shift and scale need as many axes as x: samples first, channels last, and an axis of 1 for each
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
# ## If the gate is zero, how can it learn?
#
# The condition may also say how loud a branch is: a *gate*, the letter g of lesson 00. And AdaLN-Zero begins with every
# gate at exactly zero. Many readers of the paper stop here: nothing gets out of the branch, so how does it ever start?
#
# One channel is enough. x = 1, the branch says w·x, and the answer should be 3: y = 1 + g·w, loss = (y - 3)²/2. The
# gate stands at 0, the weight at 1.

# %% tags=["predict"]
guess = predict("g = 0 and w = 1: who has a gradient?", ["g", "w", "both", "neither"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for start in ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0)):
    g, w = (torch.tensor(number, requires_grad=True) for number in start)
    ((1 + g * w - 3) ** 2 / 2).backward()
    print(f"g = {g:.0f}, w = {w:.0f}: gradient {g.grad + 0:.0f} for g, {w.grad + 0:.0f} for w")
    assert (g.grad, w.grad) == (-2 * w, -2 * g)
guess.reveal("g")

# %% [markdown]
# The gradient of g is error times **w**, that of w is error times **g**: each asks for the *other* factor. So a shut
# gate hears very well what its branch has to offer, and opens; one step later the branch learns too. With two zeros in
# series nobody hears anything: lesson 05's dead pair.
#
# Here is the same in a branch with a condition: four channels, one step, and the gradient in each place. A linear map,
# all zeros, makes shift, scale and gate of the condition.


# %%
def largest(*tensors):
    """The largest entry in size."""
    return max(tensor.abs().max().item() for tensor in tensors)


def hearing(seed):
    """The largest gradient in each place of one branch, before step 0 and before step 1."""
    torch.manual_seed(seed)
    f, projection = SimpleFeedForward(4, 16), torch.zeros(4, 12, requires_grad=True)
    (x, condition, target), found = torch.randn(3, 64, 4), []
    for _ in range(2):
        x, condition = (leaf.detach().requires_grad_() for leaf in (x, condition))
        shift, scale, gate = (condition @ projection).chunk(3, dim=-1)
        normed = norm(x)
        modulated = normed * (1 + scale) + shift
        said = f(modulated)
        branch = gate * said
        loss = (x.detach() + branch - target).square().mean()  # so x hears through the branch alone
        places = {"branch": branch, "f": said, "modulated": modulated, "normed": normed, "x": x}
        places |= {"scale": scale, "gate": gate, "condition": condition}
        gradients = torch.autograd.grad(loss, [projection, *places.values()])
        projection.data -= 0.5 * gradients[0]
        found.append(dict(zip(places, map(largest, gradients[1:]), strict=True)))
    return found


# %%
for seed in range(3):
    start, later = hearing(seed)
    assert {name for name, size in start.items() if size > 0} == {"branch", "gate"} and min(later.values()) > 0

fig = Figure(figsize=(6, 4.8))
upper, lower = fig.subplots(2)
plots.plot_route(start, upper).set_title("step 0: only the gate receives one")
plots.plot_route(later, lower).set_title("step 1: every part does")
fig.suptitle("The gradient reaches a shut gate, and stops", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="A branch drawn as boxes: norm, modulation, f, gate, plus. At step 0 the gradient goes from the plus to the gate "
    "and to its rows of the projection, and is exactly 0 behind the gate; at step 1 arrows reach every box.",
)

# %% [markdown]
# **Law.** A gate at zero wakes at once, if its branch says something. One zero in a row is a start; two are an end.
#
# ## The zero
#
# So shift, scale and gate come from the condition, by one linear map that starts at zero. Zero means three things at
# once: no shift, a gain of 1 + 0, a shut gate. This is the finished piece, as `residual_edu.parts` has it: `after(norm)`
# is what you wrote in exercise 1, `open(branch)` is the gate.


# %% tags=["promote:parts/adaln_zero"] jupyter={"source_hidden": true}
from typing import NamedTuple

from torch import Tensor, nn


class Modulation(NamedTuple):
    shift: Tensor
    scale: Tensor
    gate: Tensor

    def modulate(self, norm):
        return lambda x: norm(x) * (1 + self.scale) + self.shift

    def apply_gate(self, branch):
        return branch * self.gate


def zero_projection(dim, branches=2):
    projection = nn.Linear(dim, 3 * branches * dim)
    nn.init.zeros_(projection.weight)
    nn.init.zeros_(projection.bias)
    return nn.Sequential(nn.SiLU(), projection)


def modulations(projected, ndim, branches=2):
    # projected: batch, parameters
    batch, parameters = projected.shape
    pieces = projected.view(batch, *[1] * (ndim - 2), parameters).chunk(
        3 * branches, dim=-1
    )
    return [Modulation(*pieces[i : i + 3]) for i in range(0, len(pieces), 3)]


# %% [markdown]
# **What does listening cost?** The projection of a block has 6 · dim · (dim + 1) parameters. An attention with its four
# maps and an MLP four times as wide have about 12 · dim² together.
#
# <details><summary>Answer</summary>Half as much again: of the whole block, a third is there to listen.</details>
#
# ## Why 1 + scale
#
# The 1 looks like a detail, and is easily left out: norm(x) · scale + shift, and every shape is still right. Let f be
# the feed-forward layer, its biases at 0, where large transformers usually start them. **What does one gated branch
# learn in 100 steps?**


# %% tags=["predict"]
def losses_with(one, seed):
    """The loss of one gated branch before each of 100 steps; ``one`` stands before the scale."""
    torch.manual_seed(seed)
    f, projection = SimpleFeedForward(4, 16), zero_projection(4, branches=1)
    for linear in (f.linear1, f.linear2):
        nn.init.zeros_(linear.bias)
    x, condition, target = torch.randn(3, 64, 4)

    def loss():
        (said,) = modulations(projection(condition), x.ndim, branches=1)
        return (x + said.gate * f(norm(x) * (one + said.scale) + said.shift) - target).square().mean()

    optimizer = torch.optim.SGD([*f.parameters(), *projection.parameters()], lr=0.5)
    return train(loss, repeat(()), optimizer, steps=100)


guess = predict("With scale for 1 + scale, the loss has", ["fallen as far", "fallen less", "not moved"])

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
for seed in range(3):
    with_one, without = losses_with(1, seed), losses_with(0, seed)
    holds(with_one[-1] < 0.7 * with_one[0] and without[-1] == without[0], "The loss falls with 1 + scale alone.")
weights = sum(p.numel() for p in zero_projection(8).parameters())
holds(weights == 6 * 8 * 9 and 28 * 6 * 1152 * 1153 == 223_147_008, "A projection has 6 C (C + 1) parameters.")
print(f"1 + scale: from {with_one[0]:.1f} to {with_one[-1]:.1f}; scale: from {without[0]:.1f} to {without[-1]:.1f}")
guess.reveal("not moved")

# %% [markdown]
# Without the 1, the branch is asked about 0 · norm(x) + 0. It is asked nothing, f(0) = 0, and there it is again: a gate
# of zero in front of a branch that says zero. The 1 keeps the second zero away.
#
# ## The block
#
# Two branches, a sequence mixer and an MLP, each with its norm, its modulation and its gate. Read `forward` aloud: it is
# `pre_norm_residual` twice, with a norm and a gate that listen.


# %% tags=["promote:blocks/adaln_zero_block"] jupyter={"source_hidden": true}
from torch import nn

from residual_edu.config import build
from residual_edu.parts.residual import pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class AdaLNZeroResidualBlock(nn.Module):
    def __init__(
        self,
        sequence_mixer_cfg,
        sequence_mixer_norm_cfg,
        mlp_cfg,
        mlp_norm_cfg,
        condition_norm_cfg,
        dropout_cfg,
        hidden_dim,
    ):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.sequence_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.mlp = build(mlp_cfg)
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.condition_norm = no_weight_decay(build(condition_norm_cfg))
        self.dropout = build(dropout_cfg)
        self.condition_proj = zero_projection(hidden_dim)

    def forward(self, x, condition):
        # x: batch, ..., channels; condition: batch or 1, ..., channels
        pooled = (
            condition if condition.ndim == 2 else condition.flatten(1, -2).mean(dim=1)
        )
        condition = self.condition_norm(pooled)  # (batch, channels)
        # one for each branch
        mixing, mapping = modulations(self.condition_proj(condition), x.ndim)
        norm = mixing.modulate(self.sequence_norm)
        gates = [self.dropout, mixing.apply_gate]
        x = pre_norm_residual(
            x, self.sequence_mixer, norm, gates, conditioning=condition
        )
        return pre_norm_residual(
            x,
            self.mlp,
            mapping.modulate(self.mlp_norm),
            [self.dropout, mapping.apply_gate],
        )


# %% [markdown]
# A condition has **two ways in**: through the six pieces, and as `conditioning=` of the mixer, for mixers that can use
# it. A condition that has positions of its own, an image say, is averaged first. Below is a small mixer that remembers
# what it was told. Its block is new: random weights in mixer and MLP, a random condition. **What leaves it?**


# %% tags=["predict"]
class Average(nn.Module):
    """Tells every position what a linear map makes of the mean of all."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, *, conditioning):
        self.told = conditioning
        mean = x.mean(tuple(range(1, x.ndim - 1)), keepdim=True)
        return self.linear(mean).expand_as(x)


def new_block():
    """A block of 8 channels."""
    norm, mlp = partial(LayerNorm, 8, elementwise_affine=False), partial(SimpleFeedForward, 8, 16)
    return AdaLNZeroResidualBlock(Average, norm, mlp, norm, nn.Identity, nn.Identity, hidden_dim=8)


guess = predict("out = block(x, condition). Then out is", ["0", "close to x", "x, bit for bit"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    block, condition = new_block().to(device, dtype), 100 * torch.randn(2, 4, 6, 8).to(device, dtype)  # 4 x 6 positions
    for x in (torch.randn(2, *space, 8).to(device, dtype) for space in ((5,), (3, 4), (2, 3, 4))):
        assert block(x, condition).equal(x)
    torch.testing.assert_close(block.sequence_mixer.told, condition.mean((1, 2)), rtol=0.02, atol=0.1)
guess.reveal("x, bit for bit")

# %% [markdown]
# Not close to x: x, to the last bit, in each format, for any number of axes, under a loud condition. The *branches* say
# nothing yet; the block says x. A hundred of them in a row would do no harm.
#
# ## Who wakes first
#
# Mixer, MLP, six row-blocks of the projection, the condition itself. A loss wants the output to be something else.
# **Which of them have a gradient at step 0?**


# %% tags=["predict"]
def wake_up(seed):
    """The largest gradient of each part before steps 0, 1 and 2, (parts, steps)."""
    torch.manual_seed(seed)
    block, (x, target), seen = new_block(), torch.randn(2, 16, 5, 8), []
    condition = torch.randn(16, 8, requires_grad=True)
    optimizer = torch.optim.SGD([*block.parameters(), condition], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        (block(x, condition) - target).square().mean().backward()
        inner = [[p.grad for p in part.parameters()] for part in (block.sequence_mixer, block.mlp)]
        rows = block.condition_proj[1].weight.grad.chunk(6)
        seen.append([largest(condition.grad), *(largest(*grads) for grads in inner), *map(largest, rows)])
        optimizer.step()
    return torch.tensor(seen).T


guess = predict("At step 0, gradients in", ["all weights", "the whole projection", "two sixths of the projection"])

# %% tags=["reveal"]
# Answer first, then run this cell.
parts = ["condition", "mixer", "MLP"]
parts += [f"{piece} of {branch}" for branch in ("mixer", "MLP") for piece in ("shift", "scale", "gate")]
for seed in range(3):
    seen = wake_up(seed)
    assert [name for name, size in zip(parts, seen[:, 0], strict=True) if size > 0] == ["gate of mixer", "gate of MLP"]
    assert (seen[:, 1:] > 0).all()
fig = Figure(figsize=(6, 3.9))
ax = plots.plot_wake_up(seen, parts, [0, 1, 2], fig.add_subplot())
ax.set_title("In a block two gates wake first, then everything")
show(
    fig,
    alt="A table of nine parts and the steps 0, 1, 2. At step 0 only the gate rows of mixer and MLP have a gradient; "
    "condition, mixer, MLP, shift and scale rows are exactly 0. From step 1 on every part has one.",
)
guess.reveal("two sixths of the projection")

# %% [markdown]
# A white cell is not small, it is exactly 0. Everything *behind* a gate, mixer, MLP, shift and scale, has its gradient
# multiplied by the gate; the condition sits behind the projection's weights; and all of these are 0. The gate's own
# gradient is multiplied by what the branch says, and that is not. One step later the gates are off zero, and all wake.
#
# **Law.** In a block at step 0: two row-blocks of six, and nothing else.

# %% [markdown]
# ### Exercise 2 · 12 minutes · ●●●●○
#
# Write the block's forward pass from its parts, for x of (batch, positions, channels). `projection(condition)` is
# (batch, 6 · channels): shift, scale and gate of the mixer, then of the MLP. `norm`, `mixer` and `mlp` are functions of
# one tensor. Two of the mistakes that the check knows were found in public code.
#
# <details><summary>Hint 1</summary>Which x does the MLP's norm see: the one that came in, or the one that the mixer has
# added to?</details>
# <details><summary>Hint 2</summary><code>.chunk(6, dim=-1)</code> cuts the projection into six; they need an axis of 1 for the
# positions. Both branches have one form: x plus the gate times the layer of the modulated norm.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "adaln-zero-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def adaln_zero_forward(x, condition, projection, norm, mixer, mlp):
    """Return x with what mixer and MLP say about it added, both modulated and gated by the condition."""
    ### BEGIN SOLUTION
    six = projection(condition)[:, None].chunk(6, dim=-1)
    for f, (shift, scale, gate) in zip((mixer, mlp), (six[:3], six[3:]), strict=True):
        x = x + gate * f(norm(x) * (1 + scale) + shift)
    return x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "adaln-zero-forward-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check(adaln_zero_forward, "adaln_zero_forward")

# %% [markdown]
# ## A way from noise to a digit
#
# Now the network. It learns to *denoise*, in the way called flow matching. Take an image p and as much noise n, and walk
# straight from one to the other while t goes from 0 to 1:
#
# $$x_t = (1 - t)\,n + t\,p, \qquad \text{velocity} = p - n$$
#
# A pixel that starts at n = 1 and should become p = -1 has velocity -2, all the way; at t = 1/4 it stands at 0.5. The
# network sees x_t, the time and the class, and is asked for the velocity. To draw, start from noise and follow what it
# says.

# %%
noise = torch.randn(20, 8, 8, generator=generator).to(device)
way = torch.stack([noise[0].lerp(images[labels == 3][0], t / 5) for t in range(6)]).cpu()
fig = Figure(figsize=(6, 1.8))
ax = plots.plot_digits(way[None], fig.add_subplot(), columns=[f"t = {t / 5:g}" for t in range(6)])
ax.set_title("At time t, a share t of the image has arrived")
show(fig, alt="Six pictures from pure noise to a handwritten three, which appears gradually and evenly.")

# %% [markdown]
# The network is small. An image of 8 × 8 is cut into four patches of 4 × 4, each a token of 64 channels; the mixer is
# one head of attention, softmax(q kᵀ / √d) v, which lesson 08a takes apart. Time and class are two vectors, and their
# sum is the condition. A last linear map leads back to pixels, and it starts at **zero** too: the whole network begins
# by saying 0.


# %% tags=["promote:networks/denoiser"] jupyter={"source_hidden": true}
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu.parts.attention import attention
from residual_edu.parts.layer_norm import LayerNorm
from residual_edu.parts.mlp import SimpleFeedForward


class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, *, conditioning=None):
        # x: batch, positions, channels
        return self.out(attention(*self.qkv(x).chunk(3, dim=-1)))


def denoiser_block(dim):
    mixer, mlp = partial(SelfAttention, dim), partial(SimpleFeedForward, dim, 2 * dim)
    norm = partial(LayerNorm, dim, elementwise_affine=False)
    return AdaLNZeroResidualBlock(mixer, norm, mlp, norm, nn.Identity, nn.Identity, dim)


class Denoiser(nn.Module):
    def __init__(self, patch_size, grid, hidden_dim, depth, num_classes):
        super().__init__()
        self.patch_size, self.grid, self.num_classes = patch_size, grid, num_classes
        self.patches = nn.Linear(patch_size**2, hidden_dim)
        self.position = nn.Parameter(torch.randn(grid**2, hidden_dim) / 2)
        self.label = nn.Embedding(num_classes + 1, hidden_dim)
        self.time = nn.Sequential(
            nn.Linear(1, hidden_dim), nn.SiLU(), nn.Linear(hidden_dim, hidden_dim)
        )
        self.blocks = nn.ModuleList(denoiser_block(hidden_dim) for _ in range(depth))
        self.norm = LayerNorm(hidden_dim, elementwise_affine=False)
        self.final = nn.Linear(hidden_dim, patch_size**2)
        nn.init.zeros_(self.final.weight)
        nn.init.zeros_(self.final.bias)

    def forward(self, images, time, labels):
        # images: batch, side, side; time, labels: batch or 1
        # (batch, pixels of a patch, grid, grid)
        patches = F.pixel_unshuffle(images[:, None], self.patch_size)
        # (batch, grid * grid, channels)
        x = self.patches(patches.flatten(2).mT) + self.position
        # (batch or 1, channels)
        condition = self.time(time[:, None]) + self.label(labels)
        for block in self.blocks:
            x = block(x, condition)
        velocity = self.final(self.norm(x)).mT.unflatten(2, (self.grid, self.grid))
        return F.pixel_shuffle(velocity, self.patch_size)[:, 0]


# %% [markdown]
# Two functions go with it: the loss, and the walk. Now and then the loss hides the class, so that the network also
# learns where any digit would go; the walk then goes twice as far as knowing the class leads away from that. This is
# guidance: it makes drawings clearer, and less varied.


# %% tags=["promote:networks/denoiser"]
import torch


def flow_matching_loss(model, images, labels, unlabelled=0.1, generator=None):
    # images: batch, side, side; labels: batch; result: a single number
    noise = torch.randn(images.shape, generator=generator).to(images)
    time, draws = torch.rand(2, images.shape[0], generator=generator).to(images)
    labels = labels.where(draws >= unlabelled, model.num_classes)
    x_t = noise.lerp(images, time[:, None, None])
    return (model(x_t, time, labels) - (images - noise)).square().mean()


def sample(model, noise, labels, steps=25, guidance=2.0):
    # noise: batch, side, side; labels: batch or 1
    x, any_class = noise, torch.full_like(labels, model.num_classes)
    with torch.no_grad():
        for step in range(steps):
            time = noise.new_full((1,), step / steps)
            conditional, unconditional = (
                model(x, time, labels),
                model(x, time, any_class),
            )
            x = x + (unconditional + guidance * (conditional - unconditional)) / steps
    return x


# %% [markdown]
# A network that says 0 has a loss that you can compute: the mean of (p - n)². The noise adds 1 to the mean of p², which
# is 0.72.


# %% tags=["predict"]
def fresh(seed):
    """A new network; all that is drawn from here on depends on ``seed``."""
    torch.manual_seed(seed)
    return Denoiser(patch_size=4, grid=2, hidden_dim=64, depth=4, num_classes=10).to(device)


guess = predict("Before any step, the loss is about", ["0", "1", "1.7"])

# %% tags=["reveal"]
# Answer first, then run this cell.
batch = images[:400], labels[:400]
for seed in range(3):
    loss = flow_matching_loss(fresh(seed), *batch).item()
    assert abs(loss - batch[0].square().mean().item() - 1) < 0.03
    assert sample(fresh(seed), noise, labels[:1]).equal(noise)
guess.reveal("1.7")

# %% [markdown]
# And what it draws is the noise that it was given, bit for bit: nobody has told it where to go.

# %% [markdown]
# ### Exercise 3 · 6 minutes · ●●●○○
#
# Predict the wake-up of the whole network, before you see it. Six groups of weights:
#
# **A** patches and positions, **B** time and class, **C** shift and scale rows, **D** gate rows, **E** mixers and MLPs,
# **F** the last linear map.
#
# Return six digits, for A to F the number of steps taken when a gradient first arrives: "000000" would say that all of
# them have one at the start.
#
# <details><summary>Hint 1</summary>Begin at the loss and walk back. What is the gradient behind a linear map whose
# weights are all 0?</details>
# <details><summary>Hint 2</summary>At step 0 it ends at F. At step 1 it runs along the whole stream: whom does it meet
# there, and who sits behind a gate or behind a projection that is still 0?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "wake-up-steps", "locked": false, "schema_version": 3, "solution": true, "task": false}
def wake_up_steps():
    """Return six digits: when A, B, C, D, E and F first have a gradient."""
    ### BEGIN SOLUTION
    return "122120"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "wake-up-steps-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(wake_up_steps, "wake_up_steps")

# %% [markdown]
# ## Training, with pauses
#
# 400 steps of 64 digits. At some of them we pause and look, first at what flows, and at the largest gradient in each of
# the six groups.

# %% tags=["predict"]
STEPS = [0, 1, 2, 3, 5, 10, 20, 40, 80, 150, 400]
GROUPS = ["patches, positions", "time, class", "shift, scale rows", "gate rows", "mixers, MLPs", "last linear"]
HOME = {"patches": 0, "position": 0, "time": 1, "label": 1, "blocks": 4, "final": 5}


def look_at_gradients(model):
    """The flow, and the largest gradient of each group, always on the same batch."""
    model.zero_grad()
    with GradientFlowRecorder(model, model.blocks) as flow:
        same = torch.Generator().manual_seed(0)
        flow_matching_loss(model, images[:128], labels[:128], generator=same).backward()
    found = [[] for _ in GROUPS]
    for name, p in model.named_parameters():
        if "condition_proj" in name:
            shifts, scales, gates = p.grad.view(2, 3, -1).unbind(1)
            found[2] += [shifts, scales]
            found[3] += [gates]
        else:
            found[HOME[name.partition(".")[0]]] += [p.grad]
    return flow, [largest(*gradients) for gradients in found]


guess = predict("The whole network after one step: gradients in", ["1 group of 6", "3 groups", "all 6"])


# %% [markdown]
# Then at how far the gates have opened, averaged over all classes and eleven times, and at what ten labels make of one
# noise.


# %%
@torch.no_grad()
def look_at_gates(model):
    """The mean size of each block's two gates, (blocks, 2)."""
    time, label = torch.linspace(0, 1, 11, device=device).repeat(10), torch.arange(110, device=device) // 11
    condition = model.time(time[:, None]) + model.label(label)
    six = torch.stack([block.condition_proj(condition).unflatten(-1, (6, -1)) for block in model.blocks])
    return six[:, :, [2, 5]].abs().mean((1, 3)).cpu()


def draw(model, rows):
    """Digits (rows, 10, 8, 8), one of each class from each noise."""
    told = torch.arange(10, device=device).repeat(rows)
    return sample(model, noise[:rows].repeat_interleave(10, dim=0), told).unflatten(0, (rows, 10)).cpu()


class Look(NamedTuple):
    """What is seen at one pause."""

    flow: GradientFlowRecorder
    gradients: list
    gates: Tensor
    drawings: Tensor


def look(model):
    return Look(*look_at_gradients(model), look_at_gates(model), draw(model, rows=2))


# %% [markdown]
# And this is the training: Adam, at a rate that climbs to 0.003 and falls again. Three seeds, three networks.


# %%
def learn(model, seed, look=lambda model: None):
    """Train on the digits, with pauses to ``look`` at STEPS; return the losses, and what was seen."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS[-1])
    batches, losses, seen = minibatches(images, labels, seed=seed), [], [look(model)]
    for now, then in pairwise(STEPS):
        losses += train(partial(flow_matching_loss, model), batches, optimizer, then - now, schedule)
        seen.append(look(model))
    return losses, seen


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
models, runs = [], []
for seed in range(3):
    models.append(fresh(seed))
    runs.append(learn(models[-1], seed, look))
for _, seen in runs:
    waking = torch.tensor([pause.gradients for pause in seen]).T
    woken = (waking > 0).int().argmax(1).tolist()
    holds(woken == [1, 2, 2, 1, 2, 0], "One group of weights has a gradient at step 0, three at step 1, six at step 2.")
    early, late = seen[STEPS.index(40)], seen[-1]  # for what follows
    opened, (mixers, mlps) = early.gates.mean() / late.gates.mean(), late.gates.mean(0)
    apart = early.drawings.std(dim=1).mean() / late.drawings.std(dim=1).mean()  # between the ten classes
    print(f"step 40 over 400: gates {opened:.2f}, classes apart {apart:.2f}; MLPs' over mixers' gates {mlps / mixers:.2f}")
    holds(opened > 0.5 and mlps > mixers, "At step 40 the gates are half open; MLPs' gates open wider.")
    holds(apart < 0.3, "At step 40 the drawings of the ten classes are nearly alike.")
    holds(not (seen[1].flow.added.any() or seen[1].flow.branch_gradient.any()), "After one step no branch adds anything.")
    holds(late.flow.added.min() > 0.05, "At the end every branch does.")
fig = Figure(figsize=(6, 3.2))
ax = plots.plot_wake_up(waking[:, :4], GROUPS, STEPS[:4], fig.add_subplot())
ax.set_title("It wakes from its end: last map, gates, the rest")
show(
    fig,
    alt="Six groups of weights at steps 0 to 3. At step 0 the last linear map alone has a gradient; at step 1 the "
    "patches and positions and the gate rows too; at step 2 all six groups.",
)
guess.reveal("3 groups")

# %% [markdown]
# Step 0: behind a linear map of zeros the gradient is 0. Step 1: it runs along the stream, through every block as if
# there were none, and meets the gates on its way and the patches at the other end. Step 2: the gates are off zero;
# branches, modulations, and with them time and class, hear at last.
#
# A last map of zeros and gates of zero, are these not two zeros in series? No: the skip leads past the gates, so that
# the last map is handed a stream and not a zero. And depth does not matter here: at step 1 the gradient reaches every
# block alike.
#
# **Law.** One group, three, six: at steps 0, 1 and 2.

# %% [markdown]
# ## Does it draw?
#
# Look for yourself, then say what somebody else would read: a support vector machine that has seen real digits alone,
# and no drawing. It will be shown 200 drawings of each network, 20 of each class.

# %% tags=["predict"]
known, new = ((2 * pixels - 1).flatten(1) for pixels in (data.train_images, data.test_images))
_, seen = runs[0]
shown = [0, 40, 80, 150, 400]
rows = torch.stack([seen[STEPS.index(step)].drawings[0] for step in shown])
fig = Figure(figsize=(6, 4))
ax = plots.plot_digits(rows, fig.add_subplot(), [f"step {step}" for step in shown], [str(n) for n in range(10)])
ax.set_title("One noise, ten labels: the label decides")
show(
    fig,
    alt="Ten columns of drawings from the same noise. At step 0 all are that noise; at step 40 all are alike; at step "
    "150 digits can be guessed, and at step 400 each column shows its digit.",
)
guess = predict("Of 200 drawings it reads as the digit asked for", ["about 100", "about 150", "at least 190"])


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
from sklearn.svm import SVC


def right(drawings):
    """How many of the drawings (rows, 10, 8, 8) the judge reads as the digit of their column."""
    return (judge.predict(drawings.clamp(-1, 1).view(-1, 64)).reshape(-1, 10) == range(10)).sum()


judge, drawn = SVC().fit(known, data.train_labels), [draw(model, rows=20) for model in models]
print("read as the digit asked for, of 200:", *map(right, drawn))
holds(judge.score(new, data.test_labels) > 0.98, "The judge reads more than 98 % of new real digits.")
holds(min(map(right, drawn)) >= 190, "It reads at least 190 of 200 drawings as the digit asked for, three seeds.")
guess.reveal("at least 190")

# %% [markdown]
# ## Drawn, or remembered?
#
# A network that had learned ten images by heart would pass this test. So measure how far each drawing is from the
# nearest of the 1,437 digits that it was trained on, and how far new, real digits are. And how far the 20 drawings of
# one class are from each other.

# %% tags=["trained"]
real = torch.cdist(new, known).amin(1)
for drawings in drawn:
    away = torch.cdist(drawings.view(-1, 64), known).amin(1)
    apart = min(torch.pdist(one_class).min() for one_class in drawings.view(20, 10, 64).unbind(1))
    ratio = away.median() / real.median()
    print(f"{ratio:.2f} times as far as new digits in the median;", end=" ")
    print(f"at least {away.min():.2f} from a known digit and {apart:.2f} from each other, real ones {real.min():.2f}")
    holds(1 < ratio < 1.6, "A drawing is no nearer to the known digits than a new digit is, in the median.")
    holds(min(away.min(), apart) > real.min(), "No drawing copies a known digit or another drawing.")

nearest = known[torch.cdist(drawn[0][0].view(-1, 64), known).argmin(1)].view(10, 8, 8)
fig = Figure(figsize=(6, 1.9))
ax = plots.plot_digits(torch.stack([drawn[0][0], nearest]), fig.add_subplot(), ["drawn", "nearest\nknown"])
ax.set_title("Like a digit that it knows, and not that digit")
show(fig, alt="Ten drawn digits, and under each the training digit nearest to it: alike in shape, different in pixels.")

# %% [markdown]
# ## And the zero, what is it worth?
#
# The paper that brought the zero reports better images with it, from networks and trainings far beyond a notebook.
# Here is ours with plain AdaLN: no gates, and a projection as torch draws it.


# %% tags=["predict"]
class PlainBlock(nn.Module):
    """The parts of a block with shift and scale from the condition, and no gate."""

    def __init__(self, block):
        super().__init__()
        self.mixer, self.mlp, self.norm = block.sequence_mixer, block.mlp, block.sequence_norm
        self.projection = nn.Sequential(nn.SiLU(), nn.Linear(64, 6 * 64))

    def forward(self, x, condition):
        mixing, mapping = modulations(self.projection(condition), x.ndim)
        x = pre_norm_residual(x, self.mixer, mixing.modulate(self.norm))
        return pre_norm_residual(x, self.mlp, mapping.modulate(self.norm))


guess = predict("With plain AdaLN this network draws", ["much worse", "a little worse", "as well"])

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
plain = fresh(0)
plain.blocks = nn.ModuleList(map(PlainBlock, plain.blocks)).to(device)
losses, _ = learn(plain, seed=0)
read, higher = right(draw(plain, rows=20)), sum(losses[-100:]) / sum(runs[0][0][-100:])
print(f"plain AdaLN: {read} of 200 read, the loss {higher:.3f} times as high")
holds(read >= 190 and 0.97 < higher < 1.08, "Plain AdaLN draws as well, its loss within 8 %.")
guess.reveal("as well")

# %% [markdown]
# No difference that one could see. The loss of plain AdaLN is a few percent higher, and nobody would notice in the
# drawings. **At this size the zero buys nothing but a calm start.** What you have seen it do, the identity at the start
# and the order of waking, holds at any size; what it is worth has to be measured on networks that are hard to train.
#
# ## The bed and its tributaries
#
# The training of seed 0 as a river, after its first step and at its end: what each block adds to the stream, and what
# comes back that way.

# %%
fig = Figure(figsize=(6, 6))
for ax, pause, words in zip(fig.subplots(2), (seen[1], seen[-1]), ("after 1 step", "after 400 steps"), strict=True):
    plot_stream(pause.flow, ax, norms="pre").set_title(words)
fig.suptitle("No tributaries until training opens them", x=0.01, ha="left", weight="bold")
show(fig, alt="Two rivers of four blocks: at first one even bed, at the end each block has a tributary, both ways.")

# %% [markdown]
# ## Find out: what opens first?
#
# Walk through this training, pause by pause. **When can you first tell which digits are meant? How far were the gates
# open by then, and which kind opens wider?** (Click the slider, then use the arrow keys.)

# %% tags=["explorer"]
_, gradients, gates, drawings = zip(*seen, strict=True)
explore_training(Pauses(STEPS, GROUPS, torch.tensor(gradients), torch.stack(gates), torch.stack(drawings)))

# %% [markdown]
# <details><summary>Answer</summary>At 80 steps a few digits can be guessed, at 150 most can be read. By 40 steps, when
# all ten drawings are still alike, the gates are already more than half as far open as at the end: they open for any
# digit first, and what differs from class to class is learned through them. The MLPs' gates open wider than the
# mixers', in each of the three networks.</details>
#
# ## True or false?
#
# - A new AdaLN-Zero block outputs zeros. <details><summary>Answer</summary>False. Its branches do; the block outputs
#   x.</details>
# - A gate at exactly zero has no gradient. <details><summary>Answer</summary>False. In a new block it is the only one
#   that has.</details>
# - The condition reaches a new block from the first step. <details><summary>Answer</summary>False. The projection's
#   weights are 0, so the condition's own gradient is 0 at step 0; in the whole network, for two steps.</details>
# - Gates differ from token to token. <details><summary>Answer</summary>False. From sample to sample and channel to
#   channel; all positions of a sample share them.</details>

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | AdaLN(a·x, c) = AdaLN(x, c) | the same at 100 times the size | a > 0, spread well above the floor of eps |
# | a gate at 0 has a gradient, its branch has none | -2 for g, 0 for w | a branch that says something |
# | `scale` for `1 + scale` never wakes | a loss that stays to the last digit, 100 steps | a branch with f(0) = 0 |
# | a new block returns x | bit for bit in three formats, any axes | while its branches are finite: 0 · inf is no number |
# | in a block, gates first, everything one step later | 2 of 6 row-blocks at step 0 | always |
# | in the whole network, one group, three, six | steps 0, 1, 2, three seeds | a last map that starts at 0 |
# | a network that says 0: loss mean(p²) + 1 | 1.7 | noise of variance 1 |
# | it draws the digit that it is told | at least 190 of 200, three seeds | 8 × 8 pixels, guidance 2 |
# | a drawing is no copy: it is no nearer to the known digits than a new one | 1.3 times as far, in the median | this recipe, three seeds |
# | plain AdaLN draws as well | at least 190 of 200, loss within 8 % | this size, one seed; not at the paper's |
# | gates open before the class is heard | at step 40 at least half as far as at the end | this recipe, three seeds |
#
# Sources: FiLM, Perez et al., 2017 (arXiv 1709.07871); AdaLN-Zero, Peebles and Xie, 2022 (arXiv 2212.09748); flow
# matching, Lipman et al., 2022 (arXiv 2210.02747); guidance, Ho and Salimans, 2022 (arXiv 2207.12598).

# %%
summary("06")

# %% [markdown]
# ## Next
#
# - [Lesson 07](07_residual_block.ipynb) builds one block for signals of any dimension.
# - [Homework for lessons 06 and 07](homework/hw_06_07.ipynb), once you have done lesson 07.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
