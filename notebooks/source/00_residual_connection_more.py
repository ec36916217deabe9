# %% [markdown]
# # 00, appendix · Eight steps, an explorer, post-norm, a gate, and the causes of exercise 3
#
# Not needed for [lesson 00](00_residual_connection.ipynb), and not counted in it.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu import LayerNormalization, ResidualConnection, SimpleFeedForward
from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, predict, setup, show, stored_runs
from residual_course.plots import residual_connection as draw
from residual_course.training import accuracy, minibatches, train

device = setup()

# %% [markdown]
# ## One connection in eight steps
#
# The connection of the lesson with numbers that can be checked by hand. **Step 1**, the input: two sentences of three tokens. A token is the row of numbers that stands for
# one word; here it has four features. The first is 1, 2, 3, 4, and they go on counting to 24.
#
# **Step 2**, the norm: subtract a token's mean and divide by its standard deviation, with n − 1 = 3. (`nn.LayerNorm`
# divides by n; lesson 02 compares them.)

# %% jupyter={"source_hidden": true}
x = torch.arange(1.0, 25.0).view(2, 3, 4)
normed = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
print(normed.view(6, 4).unique(dim=0))

# %% [markdown]
# Six tokens go in, and the same row comes out for all of them: they differ in their means alone. The branch no longer
# knows where a token stands. The stream does.
#
# **Steps 3 to 5.** f has 8 hidden features. Its last bias is set so that it returns the four numbers below for the
# first token (folded). Dropout at rate 0.1 sets each of them to 0 with probability 0.1 and divides the others by 0.9.
# Here none is dropped. Then x is added.

# %% jupyter={"source_hidden": true}
torch.manual_seed(0)
f = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
wanted = torch.tensor([0.0744, -0.3077, -0.0528, -0.0717])
f[2].bias.data += wanted - f(normed[0, 0]).detach()
branch = f(normed).detach()
print("Step 3, f(norm(x)):      ", branch[0, 0])
print("Step 4, divided by 0.9:  ", branch[0, 0] / 0.9)
print("Step 5, x + that:        ", x[0, 0] + branch[0, 0] / 0.9)
sums = torch.tensor([1.0827, 1.6581, 2.9413, 3.9203])
holds((x[0, 0] + branch[0, 0] / 0.9 - sums).abs().max() < 1e-4, "The sums are right.")

# %% [markdown]
# If dropout takes the third number of the branch, only x is left there:

# %% tags=["figure"]
coins = torch.tensor([1.0, 1, 0, 1])
hidden = f[:2](normed[0, 0]).detach()
stages = x[0, 0], normed[0, 0], hidden, branch[0, 0], branch[0, 0] / 0.9 * coins
fig = Figure(figsize=(6, 4.6))
ax = draw.plot_connection(*[stage.tolist() for stage in stages], fig.add_subplot())
ax.set_title("The branch adds to x, and may fail")
show(
    fig,
    alt="Four numbers cross the picture in a straight stream. Below it a branch "
    "normalises them, sends them through f and a gate, and adds: 1 becomes 1.08, 2 "
    "becomes 1.66. The third is dropped, and 3 stays 3.",
)

# %% [markdown]
# **Step 6**, the whole as the class of the lesson; `eval()` switches dropout off.

# %%
connection = ResidualConnection(4, dropout=0.1).eval()
print(connection(x, f)[0, 0].detach(), "=", (x[0, 0] + branch[0, 0]))

# %% [markdown]
# **Step 7**, the gradient. We take a random token, another f, and the gradient of `out.sum()` with respect to the
# token's four features.

# %% tags=["predict"]
guess = predict(
    "64 connections in a row: what do the gradients of the four features sum to?",
    ["anything", "exactly 4", "4 · 64", "4 · 2⁶⁴"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
sums = []
for seed in range(3):
    torch.manual_seed(seed)
    leaf = torch.randn(4).double().requires_grad_()
    out = leaf
    for _ in range(64):
        sublayer = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).double()
        out = connection(out, sublayer)
    (gradient,) = torch.autograd.grad(out.sum(), leaf)
    sums.append(gradient.sum().item())
    print(f"seed {seed}:", gradient.numpy().round(2), f"sum {sums[-1]:.4f}")
exact = max(abs(one - 4) for one in sums) < 1e-6
guess.reveal(
    "exactly 4" if exact else "4 · 64" if min(sums) > 200 else "anything",
    why={
        "anything": "Each single gradient does depend on the weights.",
        "exactly 4": "Add c to all four features. The norm removes c, no branch moves, "
        "and each of the four outputs moves by c. Their sum moves by 4c, at any depth.",
        "4 · 64": "The connections follow one another; each passes a shift on.",
        "4 · 2⁶⁴": "A shift of x does not change any branch, because of the norm. "
        "Nothing is there to double it.",
    },
)

# %% [markdown]
# (One connection with the weights of the page on which this course is based gave 0.8409, 0.8771, 0.7823 and 1.4997:
# 4.0000 in all.)
#
# **Step 8**, with and without the skip. Without it, the row is the same six times; with it, the tokens are still six.

# %% jupyter={"source_hidden": true}
print(f"without the skip: {branch.min():.4f} to {branch.max():.4f}")
print(f"with it: {(x + branch).min():.4f} to {(x + branch).max():.4f}")

# %% [markdown]
# ## Which blocks need a gradient
#
# The lesson's stack that begins as rotations keeps the signal. In it we divide the gradient by 4.24 in each block, and let
# only a part of the stack learn, for 100 steps (stored runs of the lesson, three seeds):

# %% tags=["trained"]
stored = stored_runs("00_residual_connection")["runs"]
parts = {
    "head alone": "the head alone learns",
    "upper half": "blocks 9 to 16 and the head learn",
    "first block, vanishing": "only block 1 learns",
    "first block, vanishing, eps 1e-30": "only block 1 learns, eps 1e-30",
    "first block": "only block 1 learns, the gradient kept",
}
rows = {name: [stored[seed][name] for seed in range(3)] for name in parts}
for name, words in parts.items():
    print(f"{words:40}", *[f"{share:4.0%}" for share in rows[name]])
lowest = rows.pop("first block, vanishing")
holds(
    max(lowest) < 0.3 < 0.8 < min(map(min, rows.values())),
    "It stops block 1, through Adam's eps.",
)

# %% [markdown]
# A vanishing gradient does no harm as long as the blocks near the head can do the task, and here the head alone nearly
# can. Where only block 1 can help, it stops the network, through Adam's eps.
#
# ## Which gate holds
#
# Law 3 has a gate of 1/√L. Where does it come from? Below is a stack of x + g · f(x) with He's weights, its norm
# switched off. **Find the largest gate with which 64 blocks hold**, both sizes within a factor of 2; then for 16, and
# for 4. Each setting that you try stays on the map to the right. What do the three gates have in common? (Click a
# slider, then use the arrow keys.)

# %% tags=["explorer"]
from residual_course.explorers.residual_connection import explore_stack

explore_stack()

# %% [markdown]
# <details><summary>Answer</summary>0.125 at depth 64, 0.275 at 16, 0.575 at 4: four times the depth, half the gate.
# So the largest gate that holds is about 1/√L. With the skip off, no gate holds at depth 64.</details>
#
# ## Why the gradient grows by √(1 + L) too
#
# Law 3, with a norm before f, and branches as large as their input. After l blocks x is √(1 + l) large. The norm divides
# by that, and so does the chain rule on the way back through it. So a branch adds 1/(1 + l) to the mean square of the
# gradient, and the whole block multiplies it by 1 + 1/(1 + l) = (l + 2)/(l + 1). The product of these over all L blocks is
# 1 + L.
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
# Step 7 for both placements, with 64 connections: what a token's gradient of `out.sum()` sums to, and
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
# All are trained as in the lesson, for 60 steps. A rotation on the skip is tried too, with a norm and without.


# %%
class Rotation(nn.Linear):
    """A linear layer that begins as a rotation."""


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
        elif shortcut is Rotation:
            nn.init.orthogonal_(self.shortcut.weight)

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


# %% tags=["trained"] jupyter={"source_hidden": true}
found = {}
for name, norm, shortcut in (
    ("as handed over", nn.Identity, nn.Linear),
    ("a norm before f", nn.LayerNorm, nn.Linear),
    ("x on the skip", nn.Identity, nn.Identity),
    ("both", nn.LayerNorm, nn.Identity),
    ("a rotation alone", nn.Identity, Rotation),
    ("and a norm", nn.LayerNorm, Rotation),
):
    losses, found[name] = zip(
        *[trained(norm, shortcut, s) for s in range(3)], strict=True
    )
    print(
        f"{name:16} first loss {min(losses):8.2g} to {max(losses):8.2g}  right", end=""
    )
    print("", *[f"{share:4.0%}" for share in found[name]])
alone = ("a norm before f", "x on the skip", "a rotation alone")
holds(
    max(max(found[one]) for one in alone)
    < 0.85
    < min(found["both"] + found["and a norm"]),
    "It takes both.",
)

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
# A few directions are left of 64. A rotation has singular values of 1 alone, so it is a repair too, and so is the
# identity. (The norm alone is slow: with 300 steps it reached 91 to 95 %.)
# [He et al. (2016)](https://arxiv.org/abs/1603.05027) compare layers on the
# skip of image networks, and find that the bare x trains best.

# %% [markdown]
# ## The finished classes
#
# What the package holds of this lesson, without its checks (folded).


# %% tags=["module:parts/layer_norm"]
import torch
from torch import nn

from residual_edu.parts.layer_norm import LayerNormalization


# %% tags=["module:parts/mlp"]
import torch
from torch import nn

from residual_edu.parts.mlp import SimpleFeedForward


# %% tags=["module:parts/residual"]
from torch import nn

from residual_edu.parts.residual import ResidualConnection
