# %% [markdown]
# # 07a, appendix · An image read as a line, and what a called Identity costs
#
# Not needed for [lesson 07a](07a_residual_block.ipynb), and not counted in it.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn

from residual_course.lesson import holds, setup, show, stored_runs
from residual_course.plots import dependence as plots

device = setup()
stored = stored_runs("07a_residual_block")["runs"]


def row(name):
    return [stored[seed][name] for seed in range(3)]


# %% [markdown]
# ## An image read as a line
#
# The 64 pixels of a digit can be laid in one line, a row of the image after the other, and read by a convolution along that line. The pixel to the right is
# then the next one, and the pixel below is 8 places away. Networks, training and digits are those of the lesson.

# %% tags=["figure", "trained"]
names = ("convolution", "9 taps on a line", "17 taps on a line")
found = {n: {h: row(f"{n}, {h}") for h in ("as it is", "shuffled")} for n in names}
ax = plots.plot_shares(found, Figure(figsize=(6, 3)).add_subplot())
ax.set_title("9 taps on a line read less than 3 × 3")
ax.set(xlabel="test digits right", xlim=(0.7, 1))
alt = "Test digits right, three seeds. A convolution of 3 by 3: 0.97 as it is, 0.9 "
alt += "shuffled. 9 taps on a line: 0.85 to 0.9 in both. 17 taps: "
show(ax.figure, alt=alt + "above 0.9 in both.")
best, nine, wide = (sum(found[name]["as it is"]) / 3 for name in names)
holds(nine < wide - 0.03 and nine < best - 0.05, "Nine taps read worse.")

# %% [markdown]
# Nine weights a channel in all three directions of an image, and nine on a line: the second reads worse, and a shuffle does not cost it anything. With 17 taps, which reach the row above and
# the row below, it is nearly as good as 3 × 3. But 17 taps on *shuffled* pixels are good as well, so a longer kernel helps also where it meets no neighbours.
#
# Which shuffles cost the 3 × 3 convolution something? One that keeps all neighbours, the image mirrored at its diagonal, and one that keeps only those to the left and right:

# %% tags=["trained"]
for how in ("as it is", "transposed", "rows shuffled", "shuffled"):
    shares = row(f"convolution, {how}")
    print(f"{how:14}", "  ".join(f"{share:.3f}" for share in shares))
mirrored, whole = (
    sum(row(f"convolution, {how}")) / 3 for how in ("transposed", "shuffled")
)
holds(mirrored > whole + 0.02, "A shuffle that keeps neighbours costs less.")

# %% [markdown]
# ## What a called Identity costs
#
# Twelve blocks, each with one branch that is an Identity: with a LayerNorm in front of it, or left out. What does autograd keep for the way back?


# %%
class Called(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm, self.layer = norm, nn.Identity()

    def forward(self, x):
        return x + self.layer(self.norm(x))


def cost(blocks, x):
    """Return how many times as large x becomes, and the MiB kept for backward."""
    kept = {}

    def keep(tensor):
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = blocks(x)
    return (out.norm() / x.norm()).item(), sum(kept.values()) / 2**20


# %%
torch.manual_seed(0)
x = torch.randn(64, 64, 128, requires_grad=True)
ways = {
    "LayerNorm, then Identity": [Called(nn.LayerNorm(128)) for _ in range(12)],
    "Identity, then Identity": [Called(nn.Identity()) for _ in range(12)],
    "left out": [],
}
print(f"{'12 branches':26}  times as large   MiB kept")
for name, blocks in ways.items():
    times, kept = cost(nn.Sequential(*blocks), x)
    print(f"{name:26}  {times:14.3g}   {kept:8.1f}")

# %% [markdown]
# The norms keep their inputs for the way back, and their 3,072 parameters receive gradients. In a block that leaves the branch out there is nothing of it.
#
# ## Find out: which fault hides best?
#
# The explorer stacks blocks with a fault in the line of the MLP, dashed without it, before any training; here dropout drops a fifth of each branch. "Dropout on the stream" is `x = dropout(x + mlp(norm(x)))`. **Which faults can you tell from
# health by the stream and its gradient alone, and from which depth on?** Then switch branches off. **Which single branch makes all four faults disappear, and why?**

# %% tags=["explorer"] jupyter={"source_hidden": true}
from residual_course.explorers.residual_block import explore_blocks

explore_blocks()

# %% [markdown]
# <details><summary>Answer</summary>In one block only the lost skip stands out, at a fifth of the size; the other three leave
# the stream and its gradient within a seventh of the healthy ones. Dropout on the stream shows with depth, more than
# four times as large at 16 blocks; the norm on the stream too, since it holds what should grow. The mixer in the MLP's
# place hides best: only the MLPs' gradient tells. And with the MLP off all four are gone: they stand in its line.</details>
#
# Back to [lesson 07a](07a_residual_block.ipynb), or on to [lesson 07b](07b_conditions_and_networks.ipynb).
