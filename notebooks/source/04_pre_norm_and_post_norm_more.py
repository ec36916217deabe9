# %% [markdown]
# # 04, appendix · The norm that gets lost, and a placement found by calling
#
# Not needed for [lesson 04](04_pre_norm_and_post_norm.ipynb), and not counted in it.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu import LayerNorm, SimpleFeedForward, layer_norm
from residual_edu import post_norm_residual, pre_norm_residual
from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, setup, show, stored_runs
from residual_course.plots.stream import plot_stream
from residual_course.training import accuracy, minibatches, train

device = setup()

# %% [markdown]
# ## A layer with two branches
#
# ### Exercise · 5 minutes · ●●○○○
#
# A Transformer's layer has two branches: first attention, then a feed-forward layer, each with a norm of its own. The
# second receives the sum after the first. Write the pre-norm layer. All four parts are functions of one tensor.
#
# <details><summary>Hint 1</summary>Follow the blue line of the lesson's diagram: which sums does x meet, and in which
# order?</details>
# <details><summary>Hint 2</summary>One line for each branch, and each begins with the x that the line before has
# made.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "two-branches", "locked": false, "schema_version": 3, "solution": true, "task": false}
def two_branches(x, attention, feed_forward, norm_1, norm_2):
    """Return what a pre-norm layer with two branches makes of x."""
    ### BEGIN SOLUTION
    x = x + attention(norm_1(x))
    return x + feed_forward(norm_2(x))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "two-branches-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(two_branches, "two_branches")

# %% [markdown]
# ## Found by calling
#
# `pre_norm_residual` and `post_norm_residual` are the library's two lines. A branch of zeros leaves x in pre-norm, and
# norm(x) in post-norm. An f that is `nn.Identity` means that there is no branch: x comes back, with either.

# %%
x = torch.tensor([5.0, 1.0])
for residual in (pre_norm_residual, post_norm_residual):
    silent = residual(x, torch.zeros_like, layer_norm)
    print(residual.__name__, silent, residual(x, nn.Identity(), layer_norm) is x)

# %% [markdown]
# ### Exercise · 12 minutes · ●●●●○
#
# `block` is a function of one tensor, `x` some rows `(n, features)`; the norm inside, if there
# is one, has no gain and no bias. Call `block` as often as you like, on x or on what you make of it, and return
# `"pre"`, `"post"` or `"neither"`.
#
# <details><summary>Hint 1</summary>Which of the two leaves every row with mean 0 and rms 1? And on what of x does a norm
# before f not depend?</details>
# <details><summary>Hint 2</summary>post: is <code>layer_norm(y)</code> still y? pre: is what the block adds, block(x) - x,
# the same for x and for 2x + 3?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "placement-of", "locked": false, "schema_version": 3, "solution": true, "task": false}
def placement_of(block, x):
    """Return where the norm of a block stands: "pre", "post" or "neither"."""
    ### BEGIN SOLUTION
    y, other = block(x), 2 * x + 3
    if torch.allclose(y, layer_norm(y), atol=1e-4):
        return "post"
    same = torch.allclose(block(other) - other, y - x, atol=1e-4)
    return "pre" if same else "neither"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "placement-of-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(placement_of, "placement_of")

# %% [markdown]
# ## The norm that gets lost
#
# Pre-norm has one norm more than it has blocks. It belongs to no block, and is easily forgotten. Take it away from networks of
# the lesson's blocks, before any training: the loss of guessing at random is 2.3.

# %% jupyter={"source_hidden": true}
data = digits()
images, test_images = (layer_norm(x.flatten(1)).to(device) for x in data[::2])
labels, test_labels = (y.to(device) for y in data[1::2])


class Block(nn.Module):
    def __init__(self, residual):
        super().__init__()
        self.residual, self.norm = residual, LayerNorm(64)
        self.layer = SimpleFeedForward(64, 64)
        layers = (self.layer.linear1, 1.0), (self.layer.linear2, 2**0.5)
        for linear, gain in layers:
            nn.init.normal_(linear.weight, std=gain / 8)
            nn.init.zeros_(linear.bias)

    def forward(self, x):
        return self.residual(x, self.layer, self.norm)


def build(residual, depth, seed=0, last=False):
    torch.manual_seed(seed)
    blocks = [Block(residual) for _ in range(depth)]
    end = LayerNorm(64) if last else nn.Identity()
    return nn.Sequential(*blocks, end, nn.Linear(64, 10)).to(device)


# %%
@torch.no_grad()
def first_loss(model):
    return F.cross_entropy(model(images[:256]), labels[:256]).item()


for depth in (4, 16, 64):
    for last in (True, False):
        models = [build(pre_norm_residual, depth, seed, last) for seed in range(12)]
        mean = sum(map(first_loss, models)) / 12
        print(f"{depth:2} blocks, last norm {last!s:5}: first loss {mean:.1f}")
holds(mean > 4.5, "Without its last norm a deep network starts with a large loss.")

# %% [markdown]
# The head was made for rows of rms 1 and receives rows of rms √65 = 8, so its outputs are large and its wrong predictions costly. Does it matter
# for the training? At this size little:

# %% tags=["trained"]
right = []
for seed in range(3):
    model = build(pre_norm_residual, 24, seed)
    adam, batches = (
        torch.optim.Adam(model.parameters(), 0.001),
        minibatches(images, labels, seed=seed),
    )
    train(lambda x, y, model=model: F.cross_entropy(model(x), y), batches, adam, 120)
    right.append(accuracy(model, test_images, test_labels))
print(
    "24 blocks without a last norm, 120 steps at 0.001:", *[f"{r:.0%}" for r in right]
)
holds(min(right) > 0.8, "It trains.")

# %% [markdown]
# ### Exercise · 4 minutes · ●●○○○
#
# This network has a fault. `norms` is a list with one norm more than there are
# layers. Repair it.
#
# ```python
# def final_norm(x, layers, norms, head):
#     for layer, norm in zip(layers, norms):
#         x = x + layer(norm(x))
#     return head(x)
# ```
#
# <details><summary>Hint 1</summary>How many norms are in the list, and how many does the loop call?</details>
# <details><summary>Hint 2</summary><code>zip</code> stops at the shorter list. Which norm is left over, and where does a
# pre-norm network apply it?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "final-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def final_norm(x, layers, norms, head):
    """Return the outputs of a pre-norm network; it has one norm more than layers."""
    ### BEGIN SOLUTION
    for layer, norm in zip(layers, norms, strict=False):
        x = x + layer(norm(x))
    return head(norms[-1](x))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "final-norm-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(final_norm, "final_norm")

# %% [markdown]
# ## What pre-norm bears
#
# 48 pre-norm blocks, and at the start something is added to each branch: a turn of its input, as large as in the lesson; a random vector of rms 2;
# the same vector in every block; or vectors of rms 10. Stored runs of the lesson: 240 steps at 0.0003, means over the last 20, three seeds.

# %% tags=["trained"]
stored = stored_runs("04_pre_norm_and_post_norm")["runs"]
for name in "pre, turn", "pre, vector", "pre, same vector", "pre, vector of rms 10":
    three = [stored[seed][f"{name}: 240"] for seed in range(3)]
    print(f"{name:28}", *[f"{one:4.0%}" for one in three])
    holds("10" in name or "same" in name or min(three) > 0.8, f"{name}: it trains.")

# %% [markdown]
# Independent vectors add up to √48 times one; equal ones to 48 times one, which leaves less of the digits after the last norm.
#
# ## Other suspects
#
# 48 post-norm blocks, the lesson's, with Adam at 0.001 and one suspect switched off at a time. The shares are
# stored runs of the lesson, means over the last 20 steps, three seeds.

# %% tags=["trained"]
suspects = {
    "post": "nothing",
    "post, no biases in f": "biases",
    "post, statistics without gradient": "gradient of mean and rms",
    "post, gradients clipped to 0.1": "large gradients",
    "post, SGD at 0.3": "Adam",
    "post, SGD at 0.3, clipped to 0.3": "Adam, and large gradients",
}
found = {}
for name, suspect in suspects.items():
    found[name] = [stored[seed][f"{name}: 240"] for seed in range(3)]
    print(f"{suspect:28}", *[f"{one:4.0%}" for one in found[name]])
*rest, clipped = found.values()
holds(max(map(max, rest)) < 0.45 < min(clipped), "Only the last trains.")
small = [stored[seed]["post, SGD at 0.005: 240"] for seed in range(3)]
print(f"{'SGD at 0.005':28}", *[f"{one:4.0%}" for one in small])
holds(min(small) > 0.45, "SGD trains at a smaller rate.")

# %% [markdown]
# Clipping with Adam tests little: Adam divides each gradient by its own size anyway. With SGD at 0.3, which is too
# large without it, clipping mends. So does a smaller rate: SGD too has a largest rate.

# %% [markdown]
# ## The last gradient, and the stream as a river
#
# Two new networks of twelve blocks: the stream's rms is the width of the blue bed, the gradient's that of the green one.

# %% tags=["figure"]
from residual_edu.gradient_flow import GradientFlowRecorder

fig = Figure(figsize=(6, 6.4))
kinds = ("pre", pre_norm_residual, True), ("post", post_norm_residual, False)
for ax, (name, residual, last) in zip(fig.subplots(2, 1), kinds, strict=True):
    model = build(residual, 12, last=last)
    with GradientFlowRecorder(model, model[:-2]) as flow:
        start = images[:64].clone().requires_grad_()
        F.cross_entropy(model(start), labels[:64]).backward()
    plot_stream(flow, ax, norms=name)
    grown = flow.activation[0, -1] / flow.activation[0, 0]
    ax.set_title(f"{name}-norm: the stream times {grown:.1f}")
alt = "Two rivers. Pre-norm: the bed of the signal widens from block to block, and the "
alt += "gradient's on the way back. Post-norm: both beds keep their width, with a norm "
show(fig, alt=alt + "after each block.")

# %% [markdown]
# Move it yourself. Above, the stream's rms; below, the gradient of each block's output weights; right, a mark for each
# setting that you try: what the last norm divides by, and the gradient of the last block. "He's" are the lesson's
# weights. **Find** the weights with which the two placements cannot be told apart by their last gradient.

# %% tags=["explorer"]
from residual_course.explorers.placement import explore_placement

explore_placement()

# %% [markdown]
# <details><summary>Answer</summary>With zeros; nearly so with He's / √L, where the two differ by about √2: pre-norm's last
# norm then receives √(1 + 1), as post-norm's does with He's weights, and post-norm's next to 1. All marks lie on one
# line: gradient times divisor is between 0.6 and 0.75.</details>
