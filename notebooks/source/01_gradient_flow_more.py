# %% [markdown]
# # 01, appendix · Exercise 3's causes, k, hooks that stay, the branch's share, Adam's steps, an explorer
#
# Not needed for [lesson 01](01_gradient_flow.ipynb), and not counted in it.

# %%
from contextlib import contextmanager, suppress

import torch
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, setup
from residual_course.training import accuracy, minibatches, train

device = setup()

# %% [markdown]
# ## The two causes of exercise 3
#
# The network of exercise 3 divides each sum by √2, and its weights have variance 1, with He's factor in each call. Each is
# mended alone, then both. A block returns a · x + b · f(norm(x)) with a² + b² = 1, so the stream keeps its size whatever b
# is: the division by √2 is b = 1/√2, the mend b = 1/8.
# ([Karras et al., 2024](https://arxiv.org/abs/2312.02696) call such a sum magnitude-preserving.) All are trained as in the
# lesson.


# %%
class Block(nn.Module):
    def __init__(self, a, b, scaled):
        super().__init__()
        self.a, self.b = a, b
        self.norm, self.layers = nn.LayerNorm(64), nn.ModuleList()
        self.factors = []
        for inputs, outputs, gain in (64, 128, 2), (128, 64, 1):
            he = (gain / inputs) ** 0.5
            self.layers.append(nn.Linear(inputs, outputs))
            nn.init.normal_(self.layers[-1].weight, std=1 if scaled else he)
            nn.init.zeros_(self.layers[-1].bias)
            self.factors.append(he if scaled else 1)

    def forward(self, x):
        y = self.norm(x)
        for layer, factor in zip(self.layers, self.factors, strict=True):
            y = F.linear(y, factor * layer.weight, layer.bias)
            y = y.relu() if layer is self.layers[0] else y
        return self.a * x + self.b * y


# %% jupyter={"source_hidden": true}
data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


def build(a, b, scaled, seed):
    torch.manual_seed(seed)
    blocks = [Block(a, b, scaled) for _ in range(64)]
    return nn.Sequential(*blocks, nn.LayerNorm(64), nn.Linear(64, 10)).to(device)


def trained(b, scaled, seed, steps=60):
    net = build((1 - b * b) ** 0.5, b, scaled, seed)
    with torch.no_grad():
        size = net[:-2](train_x).square().mean().sqrt().item()
    adam = torch.optim.Adam(net.parameters(), 3e-4)
    batches = minibatches(train_x, train_y, seed=seed)
    train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps=steps)
    return accuracy(net, test_x, test_y), size


# %% tags=["trained"]
found, sizes = {}, []
for name, b, scaled in (
    ("as handed over", 0.5**0.5, True),
    ("He's weights themselves", 0.5**0.5, False),
    ("a branch of an eighth", 1 / 8, True),
    ("both", 1 / 8, False),
):
    runs = [trained(b, scaled, seed) for seed in range(3)]
    found[name] = [share for share, _ in runs]
    sizes += [size for _, size in runs]
    print(f"{name:24} right, three seeds", *[f"{share:4.0%}" for share in found[name]])
print(f"the stream after block 64 has rms {min(sizes):.2f} to {max(sizes):.2f}")
alone = found["He's weights themselves"] + found["a branch of an eighth"]
holds(max(alone) < 0.88 < 0.9 < min(found["both"]), "It takes both.")
holds(min(sizes) > 0.5 and max(sizes) < 2, "The stream keeps its size.")

# %% [markdown]
# He's weights alone make it worse. They are smaller than 1, so the same step turns them further; the failing network of
# the lesson, too, did worse at the larger rate.
#
# ## Where k comes from
#
# The gradient of a layer's weight is the sum of the outer products g xᵀ of all B samples. The square of its norm is
# therefore a sum over all pairs of samples, and for one pair
#
# $$\langle g\,x^\top, g'\,x'^\top\rangle = (g \cdot g')\,(x \cdot x')$$
#
# So two **Gram matrices**, of all products x · x′ and of all g · g′, are enough. The pairs of a sample with itself give
# the sum of |x|² |g|². For the rms of the whole batch to be √B · rms(x) · rms(g), the sum over all pairs has to be
# (Σ|x|²) (Σ|g|²) / B, which is that of B samples of equal size whose outer products are perpendicular. k² is what the sum
# is in truth, divided by this. Here for one layer on 64 digits, with and without a vector that is added to all of them:


# %%
def k_of(x, g):
    """Return k from the two Gram matrices; x is (batch, inputs), g (batch, outputs)."""
    pairs = (x @ x.T) * (g @ g.T)
    return (pairs.sum() * len(x) / (x.square().sum() * g.square().sum())).sqrt().item()


def rms(x):
    return x.square().mean().sqrt().item()


for name, add in ("digits", 0.0), ("digits, all shifted by 2", 2.0):
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 10).to(device), train_x[:64] + add
    y = layer(x)
    y.retain_grad()
    F.cross_entropy(y, train_y[:64]).backward()
    measured = rms(layer.weight.grad) / (len(x) ** 0.5 * rms(x) * rms(y.grad))
    print(
        f"{name:25} k measured {measured:.3f}, from the matrices {k_of(x, y.grad):.3f}"
    )
    holds(abs(measured - k_of(x, y.grad)) < 1e-3, "The two are one number.")

# %% [markdown]
# ## Hooks that stay
#
# The hooks of the lesson were left with tensors, and go when these go, at the end of a step. A second kind stays: a
# module's `register_forward_hook(hook)`. After each call of the module it calls `hook(module, args, output)`, and it does
# so as long as the module lives. It returns a handle with a `remove()`. Forget it, run the cell three times, and every
# number is measured three times. `finally` removes it however the block is left, also when you press the stop button:


# %%
@contextmanager
def watch_gradients(blocks):
    """Collect the rms of the gradient after each block, the last block first."""
    sizes = []

    def leave_hook(block, args, output):
        output.register_hook(lambda g: sizes.append(g.square().mean().sqrt().item()))

    handles = [block.register_forward_hook(leave_hook) for block in blocks]
    try:
        yield sizes
    finally:
        for handle in handles:
            handle.remove()


net = build(1, 1, False, 0)
with watch_gradients(net[:-2]) as sizes:
    F.cross_entropy(net(train_x[:64]), train_y[:64]).backward()
with suppress(KeyboardInterrupt), watch_gradients(net[:-2]):
    raise KeyboardInterrupt
left = sum(len(block._forward_hooks) for block in net)
print(f"{len(sizes)} gradients measured; hooks left after the stop button: {left}")

# %% [markdown]
# ### Exercise A · 10 minutes · ●●●○○
#
# Write the same for the signal: `with watch_activations(blocks) as sizes:` collects the rms of what each block returns,
# one number a call, in a list, and leaves no hook behind, however the block is left. The blocks return what they
# returned before, gradients flow through them, and hooks of others stay.
#
# <details><summary>Hint 1</summary>It needs a forward hook and no tensor hook. What has to be kept, so that it can be
# removed?</details>
# <details><summary>Hint 2</summary><code>register_forward_hook</code> returns a handle. Which part of a
# <code>try</code> statement runs however its body is left?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "watch-activations", "locked": false, "schema_version": 3, "solution": true, "task": false}
@contextmanager
def watch_activations(blocks):
    """Collect the root mean square of each block's output, and leave no hook behind."""
    ### BEGIN SOLUTION
    sizes = []

    def note(block, args, output):
        sizes.append(output.detach().square().mean().sqrt().item())

    handles = [block.register_forward_hook(note) for block in blocks]
    try:
        yield sizes
    finally:
        for handle in handles:
            handle.remove()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "watch-activations-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(watch_activations, "watch_activations")

# %% [markdown]
# ## A batch in one product
#
# ### Exercise B · 5 minutes · ●●○○○
#
# The weight gradient of a linear layer is the sum over samples of the outer products of g and x. Write it without a
# loop: `x` is (batch, inputs), `g` is (batch, outputs), and the result has the shape of the layer's weight, (outputs,
# inputs).
#
# <details><summary>Hint 1</summary>Which axis is summed over? A matrix product sums over the axis that its two factors
# share.</details>
# <details><summary>Hint 2</summary>(outputs, batch) times (batch, inputs): which of the two has to be turned for
# that?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "weight-gradient", "locked": false, "schema_version": 3, "solution": true, "task": false}
def weight_gradient(x, g):
    """Return the gradient of a linear layer's weight, (outputs, inputs)."""
    ### BEGIN SOLUTION
    return g.T @ x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "weight-gradient-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(weight_gradient, "weight_gradient")

# %% [markdown]
# ## Whose gradient is it?
#
# The gradient after a block, g_out, takes two ways: along the skip unchanged, and through the branch. Before the block
# both are added to g_in. So the skip's share is g_out, and the branch's share is g_in − g_out: nothing inside the branch
# has to be measured. Autograd, asked for the branch alone, finds the same:

# %%
x = train_x[:64].double().requires_grad_()
block = build(1, 1, False, 0).double()[5]
g_out = torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
(g_in,) = torch.autograd.grad(block(x), x, g_out)
(through,) = torch.autograd.grad(block(x) - x, x, g_out)
print("equal:", torch.allclose(g_in - g_out, through, atol=1e-12))
ratio = (through.norm() / g_out.norm()).item()
print(f"the branch's share is {ratio:.2f} times the skip's")

# %% [markdown]
# ### Exercise C · 5 minutes · ●●○○○
#
# `block` is a function that returns x + f(x), and you are not told f. Given x and the gradient after the block, return
# what came back through the branch. x and `g_out` stay as they are, and x need not require a gradient.
#
# <details><summary>Hint 1</summary>Autograd gives you the gradient before the whole block. What of it is not the
# branch's?</details>
# <details><summary>Hint 2</summary><code>torch.autograd.grad</code> takes the gradient after the block as its third
# argument. What of its result came along the skip?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "branch-share", "locked": false, "schema_version": 3, "solution": true, "task": false}
def branch_gradient(block, x, g_out):
    """Return the part of the gradient before the block that came through its branch."""
    ### BEGIN SOLUTION
    leaf = x.detach().clone().requires_grad_()
    (g_in,) = torch.autograd.grad(block(leaf), leaf, g_out)
    return g_in - g_out
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "branch-share-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(branch_gradient, "branch_gradient")

# %% [markdown]
# ## How far a step moves a weight
#
# The **update-to-data ratio** is the rms of one step over the rms of the weight before it; about 1e-3 is a common rule of
# thumb. Adam's first step moves every weight by the rate, whatever its gradient is, as long as that is well above Adam's
# eps of 1e-8. So its first ratio is rate / rms(weight), and says nothing about the gradient.

# %%
for name, scaled in ("He's weights", False), ("weights of variance 1", True):
    net = build(1, 1, scaled, 0)
    weight = net[0].layers[0].weight
    old = weight.detach().clone()
    F.cross_entropy(net(train_x[:64]), train_y[:64]).backward()
    torch.optim.Adam(net.parameters(), 3e-4).step()
    ratio = ((weight - old).norm() / old.norm()).item()
    law = 3e-4 / old.square().mean().sqrt().item()
    print(f"{name:22} measured {ratio:.5f}, rate / rms(weight) {law:.5f}")

# %% [markdown]
# ### Exercise D · 4 minutes · ●○○○○
#
# Write the ratio, for weights with any number of axes.
#
# <details><summary>Hint 1</summary>Two root mean squares: of what the step changed, and of what was there
# before.</details>
# <details><summary>Hint 2</summary>The step is a subtraction. Square it number by number before you average, and take
# the root last.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "update-ratio", "locked": false, "schema_version": 3, "solution": true, "task": false}
def update_ratio(before, after):
    """Return the rms of a step over the rms of the weight before it."""
    ### BEGIN SOLUTION
    return (after - before).square().mean().sqrt() / before.square().mean().sqrt()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "update-ratio-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(update_ratio, "update_ratio")

# %% [markdown]
# ## Find the flat line
#
# Below are the three curves of one stack whose blocks have a single layer, with weights as PyTorch draws them. A gradient
# of size 1 is put in at the end. **Find** the setting in which the weight gradient is flat while the stream gradient
# vanishes, and then one in which it is flat while the stream gradient explodes.

# %% tags=["explorer"]
from residual_course.explorers.gradient_flow import explore_gradient_flow

explore_gradient_flow()

# %% [markdown]
# <details><summary>Answer</summary>Vanishing: depth 32, no bias, no skip, any activation. Signal and gradient then shrink
# by the same factor in each block. With the bias the signal no longer shrinks, and the weight gradient follows the stream
# gradient. Exploding: depth 32, with skip, ReLU or GELU.</details>
