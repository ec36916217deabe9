# %% [markdown]
# # 02 · LayerNorm from four numbers
#
# One hour. You need PyTorch's basics and, from
# [lesson 00](00_residual_connection.ipynb), the block x + f(norm(x)). The lesson before is
# [01, gradient flow](01_gradient_flow.ipynb).
#
# A Transformer has a norm before every branch. You write it, forward and backward, until it
# agrees with PyTorch's. Then you see which half of it rescues a network whose first loss is
# in the thousands, and mend a network that reads digits in a batch but not one alone.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary
from residual_course.plots import layer_norm as draw

device = setup()
progress("02")

# %% [markdown]
# ## Four numbers
#
# Take the four numbers 8, 2, 0, −6. **LayerNorm**
# ([Ba, Kiros and Hinton, 2016](https://arxiv.org/abs/1607.06450)) does two things with
# them, and you can follow both in your head.
#
# 1. *Centre.* Their mean is 1. Subtract it: 7, 1, −1, −7.
# 2. *Divide.* The squares of these are 49, 1, 1, 49. Their mean, the variance, is 25, and its
#    root, the standard deviation, is 5. Divide by it: 1.4, 0.2, −0.2, −1.4.

# %% four-numbers
x = torch.tensor([8.0, 2, 0, -6])
show(draw.plot_four_numbers(x, x - 1, (x - 1) / 5))

# %% [markdown]
# The triangle marks the mean. Whatever goes in, mean 0 and standard deviation 1 come out,
# unless its numbers are (nearly) equal.
#
# ### Exercise 1 · Centre and divide (4 minutes)
#
# Write it for a tensor of any shape. Numbers that belong together, a **row**, lie along the
# last axis, and each row is normalised by itself. Add a tiny `eps` to the variance before you
# take the root, as PyTorch does (step 3 says why).
#
# <details><summary>Hint 1</summary>Three lines: the centred rows, their variance, the
# quotient. Each mean runs over <code>dim=-1</code>.</details>
# <details><summary>Hint 2</summary><code>keepdim=True</code> leaves an axis of length 1
# where the last one was, so that each mean lines up with its row.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "center-and-scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
def center_and_scale(x, eps=1e-5):
    """Return the rows of x with mean 0 and standard deviation 1."""
    ### BEGIN SOLUTION
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / (variance + eps).sqrt()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "center-and-scale-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(center_and_scale, "center_and_scale")

# %% [markdown]
# ## 1 · What goes wrong without it?
#
# Sixteen blocks x + f(norm(x)) read handwritten digits of 8 × 8 pixels. The weights start as
# [He and others (2015)](https://arxiv.org/abs/1502.01852) propose for ReLU networks, with
# variance 2/n for n inputs.


# %%
class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm
        self.f = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))

    def forward(self, x):
        return x + self.f(self.norm(x))


# %% [markdown]
# A linear layer stands before the blocks, and another one after them.
# Folded are this network and its training, 100 steps of Adam at a rate of 0.003. We begin
# with a `norm` that returns its input.

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.plots.along_depth import along_depth
from residual_course.plots.style import A
from residual_course.training import accuracy, minibatches, train

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])


class Network(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)
        self.blocks = nn.Sequential(*[Block(norm) for _ in range(16)])

    def forward(self, x):
        return self.last(self.blocks(self.first(x)))


def he(layer):
    """Draw the weights with variance 2/n for n inputs; set the biases to 0."""
    if isinstance(layer, nn.Linear):
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)


def network(norm, start, seed):
    torch.manual_seed(seed)
    return Network(norm).apply(start).to(device)


def fit(norm, start, seed):
    """Train a network; return it and its losses."""
    net = network(norm, start, seed)
    adam = torch.optim.Adam(net.parameters(), lr=0.003, fused=True)
    batches = minibatches(train_x, train_y, seed=seed)
    losses = train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps=100)
    return net, losses


def trained(norm, start, seed):
    """Train a network; return the losses and the share of digits read correctly."""
    net, losses = fit(norm, start, seed)
    return losses, accuracy(net, test_x, test_y)


def shares(seeds):
    return ", ".join(f"{share:.0%}" for _, share in seeds)


def plot_one(seeds):
    ax = Figure(figsize=(6, 3.2)).add_subplot()
    draw.plot_losses([losses for losses, _ in seeds], ax, guessing=2.3)
    ax.set_title("Three seeds begin with a loss of thousands")
    ax.text(98, 300, f"read correctly: {shares(seeds)}", color=A, ha="right")
    return ax.figure


# %% thousands tags=["trained"]
nothing = nn.Identity()
bare = [trained(nothing, he, seed) for seed in range(3)]
show(plot_one(bare))

# %% [markdown]
# The first loss is measured before the first step, so no learning rate made it. (How far 100
# steps get does depend on the rate.) Where do the thousands come from? An output of a linear
# layer is a sum of n products with weights of variance 2/n, so the layer doubles the mean
# square. The ReLU halves it. So f turns a mean square of 1 into 2 · ½ · 2 = 2. Then x is added,
# and since x and f(x) point in unrelated directions, their mean squares add up: 1 + 2 = 3.
# Sixteen blocks multiply the mean square by 3¹⁶, and the *size*, its root, by 3⁸ = 6,561.
# (That is an average over many draws; section 4 measures one.)
#
# Smaller weights would help, and section 5 tries them. A norm does more: it gives f numbers of
# size 1 *whatever the size of x*.
#
# ## 2 · What exactly is it?
#
# ### Step 1 · One line, one shape
#
# Two sentences of three tokens, four features each: the rows are the tokens.

# %%
rows = torch.randn(2, 3, 4)
mean = rows.mean(dim=-1, keepdim=True)  # (2, 3, 1)
c = rows - mean  # (2, 3, 4)
variance = c.square().mean(dim=-1, keepdim=True)  # (2, 3, 1)
s = (variance + 1e-5).sqrt()  # (2, 3, 1)
y = c / s  # (2, 3, 4)
print("mean", tuple(mean.shape), "  s", tuple(s.shape), "  y", tuple(y.shape))

# %% [markdown]
# There is one mean and one s for each of the 2 · 3 tokens, so no token's output depends on
# another token.
#
# ### Step 2 · n or n − 1?

# %% n
x = torch.tensor([8.0, 2, 0, -6])
print("x.std()            ", x.std())
print("x.std(correction=0)", x.std(correction=0))
print("PyTorch's norm     ", F.layer_norm(x, (4,)))

# %% [markdown]
# `x.std()` divides the sum of squares, 100, by n − 1 = 3, to estimate the spread of a
# population from a sample. LayerNorm describes these four numbers alone and divides by
# n = 4. With `std()`, as in lesson 00, the output is 13 % smaller for 4 features, and 0.07 %
# for 768.
#
# ### Step 3 · Where eps stands
#
# A row of equal numbers has variance 0, and 0/0 is NaN. With eps the output is 0, whether eps
# stands inside the root or outside. Now look at the gradients of the first output:

# %% eps
same = torch.ones(4, requires_grad=True)
c = same - same.mean()
inside = c / (c.square().mean() + 1e-5).sqrt()
outside = c / (c.square().mean().sqrt() + 1e-5)
for y in inside, outside:
    print(y.detach(), torch.autograd.grad(y[0], same, retain_graph=True)[0])

# %% [markdown]
# The root has an infinite slope at 0, and the chain rule multiplies it by 0. An eps outside
# comes too late for that, so eps stands *inside the root*.
#
# ### Step 4 · Gain and bias
#
# Size 1 may not be what the next layer needs. So LayerNorm ends with two learned numbers for
# each feature: y · weight + bias. The weight is also called **gain** and begins at 1, the bias
# at 0. They are the same for all rows, so they cannot bring back what one row has lost.
#
# ### Step 5 · What a row loses
#
# Take the picture of a 7 and three copies of it, each one a row of 64 pixels.

# %% sevens
with predict(
    "How many different outputs do the four pictures have?",
    ["four", "three", "two", "one"],
):
    seven = data.test_images[64]
    copies = torch.stack([seven, 0.4 * seven, 0.3 * seven + 0.6, 1 - seven])
    out = F.layer_norm(copies.flatten(1), (64,)).view(4, 8, 8)
    names = ["x", "0.4 x", "0.3 x + 0.6", "1 − x"]
    show(draw.plot_before_and_after(copies, out, names))

# %% [markdown]
# A row that is multiplied by a positive number, or has one added to it, comes out the same.
# Brightness and contrast are gone. What is left? Here are twelve rows of three numbers.

# %% plane-then-circle
points = torch.randn(12, 3, generator=torch.Generator().manual_seed(4)) * 0.9 + 0.7
flat = points - points.mean(dim=-1, keepdim=True)
show(draw.plot_two_steps(points, flat, F.layer_norm(points, (3,))))

# %% [markdown]
# Left: centring moves each row (open dot) straight onto the plane of the rows whose sum is 0.
# Right, seen from above: dividing moves it along a ray to the circle of radius √3. Only the
# *direction within the plane* is left.
#
# ### Step 6 · Where it stands
#
# ```
# words ─▶ embedding ─▶ 12 blocks ─▶ norm ─▶ linear ─▶ scores
#
# block:  x ─┬───────────────────────── + ─┬─────────────────── + ─▶
#            └─▶ norm ─▶ attention ─────┘   └─▶ norm ─▶ MLP ─────┘
# ```
#
# This is the smallest GPT-2. It has two norms in a block and one at the end, 25 in all, each for 768
# features. A norm changes what a branch *receives*; the x on the upper line goes on as it is.
#
# ## 3 · Is mine right?
#
# The package's `layer_norm` has your lines, turns 16-bit numbers into 32-bit ones before it
# computes, and refuses a gain of the wrong length; its module `LayerNorm` owns gain and bias.
# Both are folded here, word for word. We compare yours and theirs with PyTorch's in float64:
# the outputs, and the gradients of a loss.

# %% jupyter={"source_hidden": true} tags=["promote:parts/layer_norm"]
from jaxtyping import Float
from torch import Tensor

from residual_edu.errors import check_shape
from residual_edu.parts.norm import Norm, check_normed, widened


def layer_norm(
    x: Float[Tensor, "*batch dim"],
    weight: Float[Tensor, "dim"] | None = None,
    bias: Float[Tensor, "dim"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*batch dim"]:
    """Normalise the last axis of ``x``, in float32 at least; the variance is over d."""
    check_normed(x, eps, weight, bias)
    wide = widened(x)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    y = centred * (variance + eps).rsqrt()
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.type_as(x)


class LayerNorm(Norm):
    """``layer_norm`` with a learned gain and bias."""

    def __init__(
        self,
        dim: int,
        eps: float = 1e-5,
        *,
        elementwise_affine: bool = True,
        bias: bool = True,
        fused: bool = True,
    ) -> None:
        super().__init__(dim, eps, fused)
        affine = elementwise_affine
        self.weight = nn.Parameter(torch.ones(dim)) if affine else None
        self.bias = nn.Parameter(torch.zeros(dim)) if affine and bias else None

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        if not self.fused:
            check_shape("x", x, "...", self.dim)
            return layer_norm(x, self.weight, self.bias, self.eps)
        wide = widened(x)  # given 16 bits, the kernel would sum gradients in 16 bits
        weight = None if self.weight is None else self.weight.type_as(wide)
        bias = None if self.bias is None else self.bias.type_as(wide)
        return F.layer_norm(wide, (self.dim,), weight, bias, self.eps).type_as(x)


# %% same-numbers jupyter={"source_hidden": true}
def values_and_gradients(norm):
    leaf = rows.double().requires_grad_()
    y = norm(leaf)
    return torch.stack([y, torch.autograd.grad(y.pow(3).sum(), leaf)[0]])


theirs = values_and_gradients(nn.LayerNorm(4).double())
for name, norm in ("yours", center_and_scale), ("package", layer_norm):
    gap = (values_and_gradients(norm) - theirs).abs().max().item()
    print(f"{name:8} largest difference {gap:.0e}")

# %% [markdown]
# **RMSNorm** ([Zhang and Sennrich, 2019](https://arxiv.org/abs/1910.07467)), which Llama and
# many later language models use, is LayerNorm with one line less. It does not centre:
#
# ```python
# y = x * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
# ```
#
# (Folded: `rms_norm` and `RMSNorm`, as the package has them.)

# %% jupyter={"source_hidden": true} tags=["promote:parts/rms_norm"]
from residual_edu.parts.flop_count import Shape, count_positions


def rms_norm(
    x: Float[Tensor, "*batch dim"],
    weight: Float[Tensor, "dim"] | None = None,
    eps: float = 1e-6,
) -> Float[Tensor, "*batch dim"]:
    """Divide the last axis of ``x`` by its root mean square, in float32 at least."""
    check_normed(x, eps, weight)
    wide = widened(x)
    y = wide * (wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (y if weight is None else y * weight).type_as(x)


class RMSNorm(Norm):
    """``rms_norm`` with a learned gain."""

    def __init__(self, dim: int, eps: float = 1e-6, *, fused: bool = True) -> None:
        super().__init__(dim, eps, fused)
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        if not self.fused:
            return rms_norm(x, self.weight, self.eps)
        wide = widened(x)  # given 16 bits, the kernel would sum in 16 bits
        weight = self.weight.type_as(wide)
        return F.rms_norm(wide, (self.dim,), weight, self.eps).type_as(x)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return 3 operations for each element: square and sum, division, gain."""
        return 3 * count_positions(shape) * self.dim


# %% two-norms
threes = torch.tensor([3.0, 3.0, 3.0])
print(layer_norm(threes), rms_norm(threes))

# %% [markdown]
# Of equal numbers LayerNorm leaves nothing, and RMSNorm leaves their sign.
#
# ## 4 · What does it do to the gradient?
#
# Given g, the gradient of the loss at the output y, what is the gradient at x? For this loss
# you need no formula:

# %% sum-of-squares
with predict(
    "The loss is the sum of the four squares of y. What is the gradient at x?",
    ["2 · x", "2 · y", "2 · y / 5", "four zeros"],
):
    leaf = x.double().requires_grad_()
    y = F.layer_norm(leaf, (4,), eps=0)
    found = torch.autograd.grad(y.square().sum(), leaf)[0]
    print("gradient", found.abs().round(decimals=6))

# %% [markdown]
# ### Line by line
#
# The forward pass is c = x − mean(x), s = √mean(c²), y = c / s. We go through it from its end to
# its beginning, with one rule: **if a number is used in several places, its gradient is the
# sum of what comes back from each.** Our row has s = 5 and y = 1.4, 0.2, −0.2, −1.4. The loss
# shall be the first output, y₀, so g = 1, 0, 0, 0.
#
# *From y to s.* All n outputs use the one s, and ∂yᵢ/∂s = −cᵢ/s² = −yᵢ/s. So the gradient of
# s is −Σ gᵢyᵢ/s. Here it is −1.4/5 = −0.28: a larger s would make the first output smaller.
#
# *From y and s to c.* Each cⱼ is used twice. In yⱼ = cⱼ/s its slope is 1/s. In s it is
# ∂s/∂cⱼ = cⱼ/(n·s) = yⱼ/n, because s² is the mean of the squares. Together:
#
# $$\text{gradient of } c_j = \frac{g_j}{s} - \frac{y_j}{s}\cdot\frac{1}{n}\sum_i g_i y_i$$
#
# For c₀ this is 1/5 − 0.28 · 1.4/4 = 0.102.
#
# *From c to x.* This step is yours: each xⱼ is used in its own cⱼ, and in the mean that
# *every* c subtracts.
#
# ### Exercise 2 · The way back (6 minutes)
#
# Write the gradient of x in g, y and s, for rows along the last axis. Three lines are given.
# (The gain multiplies last on the way forward, so it multiplies first on the way back.)
#
# <details><summary>Hint 1</summary>(1/n) Σ gᵢyᵢ is the mean of g · y over a row. Write the
# gradient of c with it.</details>
# <details><summary>Hint 2</summary>Subtract from it what comes back through the mean of x: its
# own mean over the row. What is the mean of y?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "layer-norm-backward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def layer_norm_backward(grad, x, weight, eps=1e-5):
    """Return the gradient of x, given the gradient of layer_norm(x, weight)."""
    s = (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt()
    y = (x - x.mean(dim=-1, keepdim=True)) / s
    g = grad * weight
    ### BEGIN SOLUTION
    along_y = y * (g * y).mean(dim=-1, keepdim=True)
    return (g - g.mean(dim=-1, keepdim=True) - along_y) / s
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "layer-norm-backward-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(layer_norm_backward, "layer_norm_backward")

# %% by-hand
g = torch.tensor([1.0, 0, 0, 0])
print(layer_norm_backward(g, x, torch.ones(4)))

# %% [markdown]
# The check has compared it with autograd. It takes two parts out of g, the one along
# (1, 1, 1, 1) and the one along y, because a step of x in either direction leaves y as it is.
# (The sum of squares had g = 2y, which is all along y.) What is left is divided by s.
#
# Gain and bias are easier. Each is one vector for all rows, so its gradient is a sum over them:
# of grad · y for the gain, of grad for the bias. PyTorch finds the same.

# %% gain-and-bias
layer = nn.LayerNorm(4)
grad = rows.cos()  # any numbers will do
layer(rows).backward(grad)
print("gain", layer.weight.grad, (grad * center_and_scale(rows)).sum(dim=(0, 1)))
print("bias", layer.bias.grad, grad.sum(dim=(0, 1)))

# %% [markdown]
# Your function computed y and s a second time. What does PyTorch keep from the way forward?

# %% kept
kept = nn.LayerNorm(4)(rows).grad_fn
for name in "_saved_input", "_saved_result1", "_saved_result2":
    print(name, tuple(getattr(kept, name).shape))

# %% [markdown]
# It keeps x, and for each token two numbers, the mean and 1/s. They give y = (x − mean)/s again
# with one subtraction and one product, so y itself need not be kept.
#
# ### Along the depth
#
# Without a norm each block multiplies the mean square of x by about 1 + 2 = 3, and that of the
# gradient on its way back too. With a norm, f receives x / s, and the gradient that comes back
# through f is divided by s as well. So in both directions a block multiplies by about
#
# $$1 + \frac{2}{s^2}$$
#
# Here s² is 2 before the first block and grows by 2 in each. Sixteen blocks multiply the mean
# square by (4/2) · (6/4) · … · (34/32) = 17, and the size by √17 = 4.1, where it was 6,561.
# Now we measure it, before training.

# %% along-depth
nets = {}
for name, norm in {"x + f(x)": nothing, "x + f(norm(x))": layer_norm}.items():
    net = network(norm, he, seed=0).double()
    nets[name] = net, net.blocks
show(along_depth(nets, test_x.double(), lambda out: F.cross_entropy(out, test_y)))

# %% [markdown]
# The upper panel shows what differs between the digits. It grows about four times with the norm
# and thousands of times without. So does the gradient, which you read from right to left
# (middle). The gradients of the weights (lower panel) are even along the depth in both
# networks, and without the norm thousands of times as large.
#
# ## 5 · Does it help?
#
# A norm has two halves. We train the network of section 1 with neither, with each alone, and
# with both, which is your `center_and_scale`: same seeds, same weights, same 100 steps.


# %%
def centre(x):
    return x - x.mean(dim=-1, keepdim=True)


# %% two-halves tags=["slow", "trained"]
with predict(
    "Which half of the norm is enough for all three seeds to read over 80 %?",
    ["centring", "dividing", "either one", "neither one"],
):
    four = {"neither: x + f(x)": bare}
    for name, norm in {
        "centring alone": centre,
        "dividing alone: RMSNorm": rms_norm,
        "both: LayerNorm": center_and_scale,
    }.items():
        four[name] = [trained(norm, he, seed) for seed in range(3)]
    show(draw.plot_halves(four))

# %% [markdown]
# The division does it. And smaller weights? PyTorch draws them with a sixth of He's variance:


# %% smaller-weights tags=["slow", "trained"] jupyter={"source_hidden": true}
def as_drawn(layer):
    """Keep the weights that nn.Linear drew."""


for name, norm in ("no norm", nothing), ("LayerNorm", layer_norm):
    seeds = [trained(norm, as_drawn, seed) for seed in range(3)]
    first = ", ".join(f"{losses[0]:.1f}" for losses, _ in seeds)
    print(f"{name:9}  first loss {first}  read correctly {shares(seeds)}")

# %% [markdown]
# From there the network learns without a norm too, and the norm gains nothing in these 100
# steps. With it, the network trains from either start. Which learning rates it can take is the
# question of the [investigation](investigations/02_learning_rates.ipynb).
#
# ## 6 · Where do people go wrong?
#
# A norm one year older, **BatchNorm** ([Ioffe and Szegedy, 2015](https://arxiv.org/abs/1502.03167)),
# computes the same formula down a *column*: one feature, over all rows of the batch. In use, a
# prediction should not depend on what else is in the batch, so BatchNorm also keeps running
# averages and takes those after `eval()`. The output at the dot depends on what is coloured.

# %% rows-and-columns jupyter={"source_hidden": true}
table = torch.randn(5, 4).requires_grad_()
depends = {}
for name, norm in {
    "LayerNorm": LayerNorm(4),
    "BatchNorm": nn.BatchNorm1d(4),
    "BatchNorm, eval()": nn.BatchNorm1d(4).eval(),
}.items():
    depends[name] = torch.autograd.grad(norm(table)[2, 1], table)[0] != 0
show(draw.plot_influences(depends, (2, 1)))

# %% [markdown]
# The axis decides who depends on whom, and with the wrong one no error is raised.
#
# ### Exercise 3 · Right together, wrong alone (7 minutes)
#
# A colleague has written a norm and tested it on our four numbers. With it, the network of
# section 1 reads the test digits well.


# %% handed tags=["trained"]
def handed_norm(x):
    variance, mean = torch.var_mean(x, dim=0, correction=0)
    return (x - mean) / (variance + 1e-5).sqrt()


print(handed_norm(x))
net, losses = fit(handed_norm, he, seed=0)
print(f"first loss {losses[0]:.1f}, read correctly {accuracy(net, test_x, test_y):.0%}")

# %% [markdown]
# In use the digits arrive one at a time. **Measure first.** Write `one_by_one`: send each row of
# x through the network by itself, and return the scores as `net(x)` would, one row for each
# row of x.
#
# <details><summary>Hint</summary>A batch of one row is <code>x[i : i + 1]</code>, of shape (1, 64);
# <code>torch.cat</code> joins the scores.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "one-by-one", "locked": false, "schema_version": 3, "solution": true, "task": false}
def one_by_one(net, x):
    """Return net's scores for the rows of x, each one sent alone."""
    ### BEGIN SOLUTION
    return torch.cat([net(x[i : i + 1]) for i in range(len(x))])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "one-by-one-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(one_by_one, "one_by_one")


# %% alone tags=["trained"]
def tell(net):
    scores = one_by_one(net, test_x)
    share = (scores.argmax(dim=-1) == test_y).float().mean().item()
    print(f"together {accuracy(net, test_x, test_y):.0%}, one by one {share:.0%}")


tell(net)

# %% [markdown]
# One by one, every digit gets the same answer. Now **mend the norm.** It should normalise the features
# of a row (4,), of a batch (64, 4) and of tokens (2, 3, 4).
#
# <details><summary>Hint</summary>Counted from the end, which axis are the features in all
# three? And what did exercise 1 need, so that each mean lines up with its row?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_norm(x):
    ### BEGIN SOLUTION
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-norm-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(mended_norm, "mended_norm")

# %% mended tags=["slow", "trained"]
net, losses = fit(mended_norm, he, seed=0)
tell(net)

# %% [markdown]
# In one row of four numbers axis 0 is the features, so the colleague's test passed. In a batch it
# is the digits, and a digit alone is its own mean: the norm returns 0 for every digit. The
# mistake has relatives:
#
# - BatchNorm that is still in training mode
#   [does the same in Keras](https://github.com/keras-team/keras/issues/13762) (PyTorch refuses a
#   single row);
# - in a much-used [Transformer](https://github.com/jadore801120/attention-is-all-you-need-pytorch/pull/17)
#   the norm ran over the positions;
# - elsewhere a [square](https://github.com/131250208/TPlinker-joint-extraction/issues/37) stood
#   for the root, or [n − 1](https://github.com/harvardnlp/annotated-transformer/pull/119) for n.
#
# ## 7 · What do I keep?
#
# $$y = \frac{x - \mathrm{mean}(x)}{s}, \qquad s = \sqrt{\mathrm{var}(x) + \mathrm{eps}}$$
#
# $$\text{gradient of } x = \frac{1}{s}\Bigl(g - \mathrm{mean}(g) - y \cdot \mathrm{mean}(g\,y)\Bigr)$$
#
# ```python
# def layer_norm(x, weight, bias, eps=1e-5):
#     c = x - x.mean(dim=-1, keepdim=True)
#     s = (c.square().mean(dim=-1, keepdim=True) + eps).sqrt()
#     return c / s * weight + bias
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>You multiply x by 2 before a norm. What changes in its output, and in the
# gradient at x?</summary>The output stays (while s is well above √eps), and the gradient is
# halved.</details>
#
# <details><summary>What does RMSNorm keep that LayerNorm removes?</summary>A mean other than 0. A row of
# equal numbers, say 3, 3, 3, comes out as 1, 1, 1, where LayerNorm returns zeros.</details>
#
# <details><summary>A network does well in your test and badly in use. What do you
# try?</summary>Send one example alone and in a batch. After <code>eval()</code> its output
# must be the same.</details>
#
# **Next.** [Lesson 03](03_dropout_and_stochastic_depth.ipynb) drops numbers at random, and
# whole branches. [Homework](homework/hw_02_03.ipynb) follows it; the
# [glossary](../docs/glossary.md) has all words.

# %%
summary("02")
