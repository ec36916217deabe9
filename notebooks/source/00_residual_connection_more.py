# %% [markdown]
# # 00, appendix · An explorer, post-norm, a gate, and the causes of exercise 3
#
# Not needed for [lesson 00](00_residual_connection.ipynb), and not counted in it.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu import LayerNormalization, ResidualConnection, SimpleFeedForward
from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.lesson import holds, setup, show
from residual_edu.plotting import residual_connection as draw
from residual_edu.training import accuracy, minibatches, train

device = setup()

# %% [markdown]
# ## Which gate holds
#
# Law 3 has a gate of 1/√L. Where does it come from? Below is a stack of x + g · f(x) with He's weights, its norm
# switched off. **Find the largest gate with which 64 blocks hold**, both sizes within a factor of 2; then for 16, and
# for 4. Each setting that you try stays on the map to the right. What do the three gates have in common? (Click a
# slider, then use the arrow keys.)

# %% tags=["explorer"]
from residual_edu.explorers.residual_connection import explore_stack

explore_stack()

# %% [markdown]
# <details><summary>Answer</summary>0.125 at depth 64, 0.275 at 16, 0.575 at 4: four times the depth, half the gate.
# So the largest gate that holds is about 1/√L. With the skip off, no gate holds at depth 64.</details>
#
# ## Post-norm
#
# The first Transformer ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)) put the norm after the sum:
#
# $$x \leftarrow \mathrm{norm}(x + g \cdot f(x))$$
#
# ### Exercise A · 4 minutes · ●●○○○
#
# Write it from the same three parts as in exercise 2 of the lesson, each used once.
#
# <details><summary>Hint 1</summary>Which part comes last now?</details>
# <details><summary>Hint 2</summary>Nothing stands before f. The sum is made first, and the norm takes the
# sum.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "post-norm-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def post_norm_forward(x, sublayer, norm, dropout):
    """Return the norm of x plus its branch; the gate is dropout."""
    ### BEGIN SOLUTION
    return norm(x + dropout(sublayer(x)))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "post-norm-forward-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(post_norm_forward, "post_norm_forward")

# %% [markdown]
# Step 7 of the lesson for both placements, with 64 connections: what a token's gradient of `out.sum()` sums to, and
# its largest entry.


# %%
def input_gradient(placement, depth, width=4):
    connection = ResidualConnection(width, dropout=0.0, placement=placement).double()
    out = leaf = torch.randn(6, width).double().requires_grad_()
    for _ in range(depth):
        out = connection(out, SimpleFeedForward(width, 2 * width).double())
    return torch.autograd.grad(out.sum(), leaf)[0]


pre, post = input_gradient("pre", 64), input_gradient("post", 64)
for name, found in ("pre-norm", pre), ("post-norm", post):
    print(
        f"{name:9} sum {found.sum(-1).abs().max():.4f}, largest {found.abs().max():.1e}"
    )
holds((pre.sum(-1) - 4).abs().max() < 1e-6, "Each sum is 4.")
holds(post.abs().max() < 1e-9, "In post-norm every entry is 0.")

# %% [markdown]
# In post-norm every entry is 0, and nothing has vanished: the outputs of a norm sum to 0, so `out.sum()` is a constant.
# Never test a post-norm network with it. Lesson 04 compares the two placements.
#
# ### Exercise B · 4 minutes · ●●○○○
#
# Ten pre-norm connections of width 64, and the loss is `3 * out.sum()`. Return what the gradient of one token sums to,
# without running it.
#
# <details><summary>Hint 1</summary>Add a small c to all 64 features. By how much does each output move?</details>
# <details><summary>Hint 2</summary>Every output moves by c, whatever the depth. How many outputs are there, and what
# does the loss make of each?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "input-gradient-sum", "locked": false, "schema_version": 3, "solution": true, "task": false}
def input_gradient_sum():
    """Return the sum of one token's 64 gradients."""
    ### BEGIN SOLUTION
    return 3 * 64
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "input-gradient-sum-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(input_gradient_sum, "input_gradient_sum")

# %% [markdown]
# ## A gate on the branch
#
# Law 2 with a gate g: the Jacobian of x + g · f(norm(x)) is 1 + g · J. We turn g down to 0, with the skip and without
# it, and draw each entry of the gradient of `out.sum()` at three small tokens.

# %% tags=["figure"]
torch.manual_seed(0)
norm, f = LayerNormalization(4), SimpleFeedForward(4, 8)
tokens = torch.tensor([[2.0, 3, 5, 7], [11, 13, 17, 19], [23, 29, 31, 37]])
gates = torch.linspace(0, 1, 11)


def gate_gradients(skip):
    leaf = (0.1 * norm(tokens)).expand(11, 3, 4).detach().clone().requires_grad_()
    out = skip * leaf + gates[:, None, None] * f(norm(leaf))
    return torch.autograd.grad(out.sum(), leaf)[0].flatten(1)


kept, lost = gate_gradients(skip=1), gate_gradients(skip=0)
ax = Figure(figsize=(6, 3.6)).add_subplot()
draw.plot_gate_gradients(gates, kept, lost, ax)
ax.set_title("At g = 0 the skip leaves a gradient of 1")
show(
    ax.figure,
    alt="Entries of the input's gradient against the gate g. With the skip, straight "
    "lines fan out from exactly 1 at g = 0; without it, the same fan starts at 0.",
)
holds((kept - 1 - lost).abs().max() < 1e-5, "The skip adds exactly 1.")

# %% [markdown]
# ## The two causes of exercise 3
#
# The network of exercise 3 had no norm before f, and a random matrix on each skip. Each is repaired alone, then both.
# All are trained as in the lesson, for 60 steps.


# %%
class Block(nn.Module):
    def __init__(self, norm, shortcut):
        super().__init__()
        self.norm = norm(64)
        self.shortcut = shortcut(64, 64, bias=False)
        self.f = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        for layer, kind in (self.f[0], "linear"), (self.f[2], "relu"):
            nn.init.kaiming_normal_(layer.weight, nonlinearity=kind)
            nn.init.zeros_(layer.bias)
        if shortcut is nn.Linear:
            nn.init.kaiming_normal_(self.shortcut.weight, nonlinearity="linear")

    def forward(self, x):
        return self.shortcut(x) + self.f(self.norm(x))


# %% jupyter={"source_hidden": true}
data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


def trained(norm, shortcut, seed):
    torch.manual_seed(seed)
    blocks = [Block(norm, shortcut) for _ in range(64)]
    network = nn.Sequential(*blocks, nn.Linear(64, 10)).to(device)
    adam = torch.optim.Adam(network.parameters(), 0.001)
    batches = minibatches(train_x, train_y, seed=seed)
    losses = train(lambda x, y: F.cross_entropy(network(x), y), batches, adam, steps=60)
    return losses[0], accuracy(network, test_x, test_y)


# %% tags=["trained"]
found = {}
for name, norm, shortcut in (
    ("as handed over", nn.Identity, nn.Linear),
    ("a norm before f", nn.LayerNorm, nn.Linear),
    ("x on the skip", nn.Identity, nn.Identity),
    ("both", nn.LayerNorm, nn.Identity),
):
    losses, found[name] = zip(
        *[trained(norm, shortcut, s) for s in range(3)], strict=True
    )
    print(
        f"{name:16} first loss {min(losses):8.2g} to {max(losses):8.2g}  right", end=""
    )
    print("", *[f"{share:4.0%}" for share in found[name]])
alone = found["a norm before f"] + found["x on the skip"]
holds(max(alone) < 0.85 < min(found["both"]), "It takes both.")

# %% [markdown]
# Without the norm it floods, with any skip. With the norm alone the sizes are right, and it is slow. What have 64
# random matrices done to x? Each keeps the size of a vector on average, and so they do one after another. But they do
# not keep all directions alike. The singular values of their product say by how much each of 64 perpendicular
# directions is stretched:

# %%
for seed in range(3):
    torch.manual_seed(seed)
    product = torch.eye(64).double()
    for _ in range(64):
        product = torch.randn(64, 64).double() / 8 @ product
    stretch = torch.linalg.svdvals(product)
    share = stretch.square() / stretch.square().sum()
    print(
        f"seed {seed}: the largest {stretch[0]:.1f}, the eighth {stretch[7]:.2g}, the "
        f"middle one {stretch[32]:.0e}; the first four hold {share[:4].sum():.0%}"
    )
    holds(share[:4].sum() > 0.5 and stretch[32] < 1e-6, "Few directions are left.")

# %% [markdown]
# A few directions are left of 64. A rotation has singular values of 1 alone: `nn.init.orthogonal_` on the shortcut is
# a repair too, and so is the identity. [He et al. (2016)](https://arxiv.org/abs/1603.05027) compare layers on the
# skip of image networks, and find that the bare x trains best.
