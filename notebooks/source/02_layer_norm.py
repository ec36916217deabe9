# %% [markdown]
# # 02 · LayerNorm from four numbers
#
# 70 minutes. It needs no network connection. Of [lesson 01](01_gradient_flow.ipynb) it uses that a norm before each
# branch kept a stack of skip connections from growing; of [lesson 00](00_residual_connection.ipynb), what a norm does
# not see of a token.
#
# By the end you can
#
# - **compute** LayerNorm of four numbers by hand, and say which variance and which eps are torch's;
# - **predict** what a norm forgets, for the signal and for the gradient;
# - **write** its backward pass, and RMSNorm from an empty class;
# - **spot** the norm that is not torch's, and the one that will fail on a constant row or a large mean.

# %% [markdown]
# ## Before we start: three questions on lesson 00
#
# Answer aloud, then open.
#
# <details><summary>1. The loss is the sum of x + f(norm(x)). Why does each token's gradient sum to the number of
# features?</summary>The skip brings a 1 to each feature. The branch brings numbers that sum to 0: adding a constant
# to the token changes nothing behind the norm.</details>
#
# <details><summary>2. Dropout keeps a value with probability 0.9. What does it do to a kept one?</summary>It divides
# it by 0.9, so that the average stays. In evaluation it does nothing.</details>
#
# <details><summary>3. A skip, and no norm: what happens to the signal over 64 connections?</summary>With He's weights
# it explodes, to 4e9: each branch adds something as large as what it is handed. With PyTorch's smaller ones it grows by
# a factor of 5.</details>

# %%
import math

import torch
from matplotlib.figure import Figure
from torch import nn

from residual_edu import LayerNormalization
from residual_edu.datasets import digits, wine
from residual_edu.exercises import check
from residual_edu.explorers.layer_norm import explore_layer_norm
from residual_edu.lesson import predict, progress, setup, show, summary
from residual_edu.plotting import layer_norm as plots

device = setup()
progress("02")


def draw(*shape, seed=0):
    """Standard normal numbers in float64, the same on every run."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


# %% [markdown]
# ## Four numbers
#
# A token has four features: a one and three zeros. LayerNorm subtracts their mean, then divides by their spread. All
# of it fits in your head: the mean is 1/4. **What does the 1 become?**

# %% tags=["predict"]
guess = predict("In LayerNorm of [1, 0, 0, 0] the 1 becomes", ["1.5", "1.732", "2"])

# %% tags=["reveal"]
# Answer first, then run this cell.
x = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
centred = x - x.mean()  # 3/4, -1/4, -1/4, -1/4
squares = centred.square().sum()  # 9/16 and three times 1/16: 3/4
for n in (4, 3):
    row = centred / (squares / n).sqrt()
    print(f"variance (3/4)/{n}: the row becomes {row.numpy().round(3)}")
y = centred / (squares / 4).sqrt()
assert torch.allclose(y, nn.LayerNorm(4, eps=1e-12).double()(x))
guess.reveal("1.732")

# %% [markdown]
# Both are spreads. Dividing by 4, to 3/16, asks how far these four numbers lie from their mean; dividing by 3, to 1/4,
# guesses at a population they were drawn from. LayerNorm has no population in mind. It wants the four to have length 2,
# the square root of 4.
#
# Four numbers cannot be drawn, three can. Below, 120 rows of three numbers; follow the three that are numbered. The
# vertical line holds the rows whose numbers are all equal, and the grey plane is perpendicular to it.

# %%
rows = 0.6 * draw(120, 3) + draw(120, 1, seed=1).abs()
rows[:3] = torch.tensor([[2.8, 0.4, 0.9], [1.0, 2.6, 0.9], [1.8, 1.9, 2.7]])
flat = rows - rows.mean(-1, keepdim=True)
even = flat / flat.square().mean(-1, keepdim=True).sqrt()
fig = Figure(figsize=(7, 3))
titles = "120 rows of three numbers", "centred: the mean is gone", "scaled: the length too"
for ax, title, points in zip(fig.subplots(1, 3), titles, (rows, flat, even), strict=True):
    plots.plot_around_ones(points, ax).set_title(title, size=10.5, loc="center")
fig.suptitle("LayerNorm moves every row onto one circle", weight="bold")
show(
    fig,
    alt="Points around a vertical line, first scattered, then flattened onto the plane through "
    "0, then all on a circle of radius 1.73 in that plane. LayerNorm keeps a row's direction "
    "in the plane and nothing else.",
)

# %% [markdown]
# **Law.** LayerNorm projects a row off (1, ..., 1), then onto the sphere of radius √d. So no single output can be
# larger than √(d − 1): the 1.732 above is already the most that four numbers allow.
#
# ## 1.732 or 1.5
#
# You will meet the 1.5 in many tutorials; lesson 00 began with one, and kept its numbers as `LayerNormalization`. It
# divides by n − 1, and "my LayerNorm does not match PyTorch's" is among the most asked questions about this layer.
# **How large is the gap in a layer of realistic width?**

# %% tags=["predict"]
guess = predict("768 features: the tutorials' norm is smaller by", ["13 %", "1.3 %", "0.07 %"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for d in (2, 4, 64, 768):
    row = draw(3, d, seed=d)
    row[0, 0] += 100  # an outlier
    torchs = nn.LayerNorm(d, eps=1e-12).double()(row)
    ratio = LayerNormalization(d, eps=1e-12).double()(row) / torchs
    factor, ceiling = math.sqrt((d - 1) / d), math.sqrt(d - 1)
    assert torch.allclose(ratio, torch.full_like(ratio, factor)) and torchs.max() <= ceiling
    assert torch.allclose(torchs.norm(dim=-1), torch.full((3,), d, dtype=torch.float64).sqrt())
    print(f"{d:3} features: tutorials' / torch's = {factor:.4f}, no output above {ceiling:.2f}")
guess.reveal("0.07 %")

# %% [markdown]
# **Law.** The ratio is √((d − 1)/d), the same for each output of each row. A learned gain can absorb a constant
# factor, so a model trained from nothing will not care. Load somebody's trained weights into the wrong one and it
# will.
#
# ## eps: inside the root or outside
#
# A constant row has spread 0, and 0/0 is no number. So a small eps is added: by torch to the variance, inside the
# root; by the tutorials to the standard deviation, outside. With eps = 0.00001, take a row whose spread is 0.001.
# **What root mean square (rms) does it come out with, where a healthy row has 1?**

# %% tags=["predict"]
guess = predict("eps = 0.00001 inside the root, spread 0.001: rms", ["0.99", "0.95", "0.30"])

# %% tags=["reveal"]
# Answer first, then run this cell.
spread = torch.logspace(-7, 1, 161, dtype=torch.float64)
inside = spread / (spread.square() + 1e-5).sqrt()
outside = spread / (spread + 1e-5)
for s in (1.0, 1e-2, 1e-3, 1e-5):
    rms = nn.functional.layer_norm(s * y, (4,), eps=1e-5).square().mean().sqrt().item()
    other = s / (s + 1e-5)
    print(f"spread {s:<7g} inside {rms:.3f}   outside {other:.3f}   gap {abs(other - rms):.6f}")
guess.reveal("0.30")

fig = Figure()
ax = fig.add_subplot()
lengths = {"eps inside": inside, "eps outside": outside}
plots.plot_floors(spread, lengths, {"eps inside": math.sqrt(1e-5), "eps outside": 1e-5}, ax)
ax.set_title("The same eps bites 300 times earlier inside the root")
show(
    fig,
    alt="Length of the output against the spread of the row. With eps outside it falls below 1 "
    "near a spread of 0.00001; with eps inside the root already near 0.003.",
)

# %% [markdown]
# **Law.** Inside the root the floor stands at √eps, 0.003 here; outside it stands at eps. Well above both the choice
# is invisible (a gap of five millionths at spread 1), which is why it hides so well.

# %% [markdown]
# ### Exercise 1 · 5 minutes · ●●○○○
#
# Fill in two lines, `centred` and `variance`, so that the last axis is normalised whatever axes stand before it.
#
# <details><summary>Hint 1</summary>Which axis is averaged? What must <code>keepdim</code> do, so that the subtraction
# works for every row?</details>
# <details><summary>Hint 2</summary><code>centred = x - x.mean(dim=-1, keepdim=True)</code>; the variance is the mean
# of <code>centred.square()</code> over the same axis.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "center-and-scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
def center_and_scale(x, eps=1e-5):
    """Centre the last axis of x, then divide it by its spread."""
    ### BEGIN SOLUTION
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    ### END SOLUTION
    return centred / (variance + eps).sqrt()


# %% nbgrader={"grade": true, "grade_id": "center-and-scale-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(center_and_scale, "center_and_scale")

# %% [markdown]
# ## A gain and a bias
#
# Mean 0 and spread 1 need not be what the next layer wants, so two learned numbers per feature follow: y · weight +
# bias. Here is the finished formula, word for word what `from residual_edu import layer_norm` gives you. Its `wide`
# line is for numbers of 16 bits, which come later.


# %% tags=["promote:parts/layer_norm"]
import torch


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    # x: ..., channels; weight, bias: channels
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    centred = wide - wide.mean(dim=-1, keepdim=True)
    y = centred * (centred.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y.type_as(x)


# %% [markdown]
# **Can a gain and a bias bring back what the norm threw away?** Take one handwritten digit, fade it, wash it out, and
# send each through one and the same LayerNorm, its 64 pixels as one row.

# %% tags=["predict"]
options = ["all different", "two of them alike", "all alike"]
guess = predict("A digit, a faded and a washed-out copy come out", options)

# %% tags=["reveal"]
# Answer first, then run this cell.
seven = digits().test_images[8].to(device)
versions = torch.stack([seven, 0.4 * seven, 0.3 * seven + 0.6])
normed = layer_norm(versions.flatten(1)).view_as(versions)
fig = Figure(figsize=(7, 4.3))
axes = fig.subplots(2, 3)
for column, name in enumerate(["as it is", "faded", "washed out"]):
    plots.plot_image(versions[column].cpu(), axes[0, column], 0, 1)
    plots.plot_image(normed[column].cpu(), axes[1, column], -1, 2)
    axes[0, column].set_title(name, size=10.5, loc="center")
axes[0, 0].set_ylabel("before")
axes[1, 0].set_ylabel("after LayerNorm")
fig.suptitle("Brightness and contrast go in; neither comes out", weight="bold")
show(
    fig,
    alt="Top: a handwritten seven as it is, faded, and washed out to light grey. Below: the "
    "three after LayerNorm over their 64 pixels, which look the same.",
)
guess.reveal("all alike")

tokens = torch.tensor([[1.0, 0, 0, 0], [5.0, 2, 2, 2]], dtype=torch.float64)
weight, bias = torch.tensor([[2.0, -1, 3, 0.5], [10.0, 20, 30, 40]], dtype=torch.float64)
shifted, stretched = layer_norm(tokens, weight, bias, eps=1e-12)
assert torch.allclose(shifted, stretched) and (normed - normed[0]).abs().max() < 0.01

# %% [markdown]
# **Law.** LayerNorm(a·x + b) = LayerNorm(x) for a > 0, as long as a·x stays well above the floor of eps. A token's
# mean is its brightness, its spread its contrast; a branch behind a LayerNorm sees neither. Gain and bias are the
# same for every token, so they cannot know what one token lost: [1, 0, 0, 0] and [5, 2, 2, 2] come out equal under
# any of them.

# %% [markdown]
# ## Whose numbers are averaged?
#
# BatchNorm uses the same formula along another axis. Which numbers does one output depend on? We need not argue: the
# gradient of that output, with respect to the whole table, is zero wherever it does not listen. **And once a
# BatchNorm is trained and set to `eval()`?**

# %% tags=["predict"]
guess = predict("In eval(), one BatchNorm output listens to", ["row", "column", "itself alone"])

# %% tags=["reveal"]
# Answer first, then run this cell.
table = draw(5, 4).requires_grad_()
norms = nn.LayerNorm(4), nn.BatchNorm1d(4), nn.BatchNorm1d(4).eval()
titles = "LayerNorm", "BatchNorm, training", "BatchNorm, eval()"
fig = Figure(figsize=(7, 3.4))
for ax, norm, title, count in zip(fig.subplots(1, 3), norms, titles, (4, 5, 1), strict=True):
    (gradient,) = torch.autograd.grad(norm.double()(table)[2, 1], table)
    plots.plot_influence(gradient != 0, (2, 1), ax).set_title(title, size=10.5)
    assert (gradient != 0).sum() == count
fig.suptitle("LayerNorm listens along the row, BatchNorm down the column", weight="bold")
show(
    fig,
    alt="Three tables of five rows and four features. The output at row 2, feature 1 listens "
    "to its whole row under LayerNorm, to its whole column under BatchNorm in training, and to "
    "itself alone under its eval().",
)
guess.reveal("itself alone")

batch = nn.BatchNorm1d(4, momentum=1.0, eps=1e-12).double()  # remembers the last batch alone
trained = batch(table)
ratio = batch.eval()(table) / trained
assert torch.allclose(batch.running_var, table.var(0, correction=1))
assert torch.allclose(ratio, torch.full_like(ratio, math.sqrt(4 / 5)))
print(f"after one batch, BatchNorm in eval() / in training: {ratio.mean():.3f}")
layer = nn.LayerNorm(4).double()
assert torch.equal(layer(table), layer.eval()(table))

# %% [markdown]
# In `eval()` BatchNorm takes its mean and variance from a running average of the batches it was trained on. So an
# output depends on its neighbours in training, and on history afterwards. LayerNorm asks the token alone and has no
# second mode.
#
# Even a BatchNorm that has seen nothing but this one batch disagrees with itself, by 0.894 or √(4/5). An old
# acquaintance: it normalises with the variance divided by n, and remembers the one divided by n − 1.

# %% [markdown]
# ## What a norm across features assumes
#
# The wine table has 178 wines and 13 measurements, each in its own unit: hue about 1, proline up to 1,680.
# **LayerNorm goes across one wine. What does its proline become?** (Remember the largest number that thirteen allow.)

# %% tags=["predict"]
guess = predict("After LayerNorm across each wine, proline is about", ["0", "1", "3.4"])

# %% tags=["reveal"]
# Answer first, then run this cell.
wines, names = wine()
across = layer_norm(wines)
down = (wines - wines.mean(0)) / wines.std(0, correction=0)
fig = Figure(figsize=(7, 4))
left, right = fig.subplots(1, 2, sharey=True, sharex=True)
labels = [name.replace("_", " ").removesuffix(" of diluted wines") for name in names]
plots.plot_strips(across, labels, left).set_title("LayerNorm, across each wine", size=10.5)
plots.plot_strips(down, labels, right).set_title("each column standardised", size=10.5)
fig.suptitle("Across a wine, proline's unit drowns the other twelve", weight="bold")
show(
    fig,
    alt="Thirteen strips of dots, one per measurement. After LayerNorm every wine looks alike: "
    "proline near 3.4, magnesium near 0, all others near -0.3. After standardising each "
    "column, every measurement spreads from -2 to 3.",
)
guess.reveal("3.4")
assert across[:, -1].min() > 3.3 and across[:, -1].max() < math.sqrt(12)

in_grams = wines.clone()
in_grams[:, -1] /= 1000
moved = (layer_norm(in_grams) - across).abs().max()
unmoved = ((in_grams - in_grams.mean(0)) / in_grams.std(0, correction=0) - down).abs().max()
print(f"in grams: LayerNorm changes by {moved:.1f}, standardised columns by {unmoved:.1f}")
assert moved > 3 and unmoved < 1e-3

# %% [markdown]
# Every wine has become the same wine. To average hue with proline is to add colours to milligrams; write proline in
# grams, and LayerNorm's answer is another one, while a standardised column does not notice.
#
# So LayerNorm across raw columns of a table is a strange thing to do. Inside a network it is not: the linear layer
# before it mixed and rescaled the columns, the features share one unit, whichever suits the next layer, and the batch
# may be a single token. Standardise your inputs by column; normalise your stream by token.

# %% [markdown]
# ## The way back
#
# Now the gradient. Before any algebra, look at four losses on y = LayerNorm([1, 0, 0, 0]), eps left out. **Three of
# the four give x no gradient at all. Which one does?**

# %% tags=["predict"]
guess = predict("x gets a gradient from the loss", ["sum of y", "sum of y²", "y[0]", "y[1]"])

# %% tags=["reveal"]
# Answer first, then run this cell.
leaf = x.clone().requires_grad_()
y = layer_norm(leaf, eps=0.0)
losses = {"sum of y": y.sum(), "sum of y²": y.square().sum(), "y[0]": y[0], "y[1]": y[1]}
for name, loss in losses.items():
    (gradient,) = torch.autograd.grad(loss, leaf, retain_graph=True)
    print(f"{name:9} {(gradient.numpy().round(3) + 0.0).tolist()}")
    assert (gradient.abs().max() < 1e-12) == (name != "y[1]")
guess.reveal("y[1]")

# %% [markdown]
# The sum of y is 0 and the sum of its squares is 4, whatever x is: nothing to gain there. And y[0] already stands at
# its ceiling of 1.732. What the forward pass forgets, the backward pass cannot ask for.
#
# ### The formula, in two steps
#
# Write c for the centred row, s = √(mean(c²) + eps), y = c/s, and g for the gradient that arrives at y.
#
# **Scaling.** c moves y directly, by 1/s, and through s, whose derivative with respect to c is c/(d·s) = y/d.
# Together
#
# $$\frac{\partial L}{\partial c} = \frac{1}{s}\bigl(g - y\,\mathrm{mean}(g\,y)\bigr).$$
#
# What g said along y has been taken out, for y has a fixed length (all of it at eps = 0).
#
# **Centring.** Each x moves its own c by 1 and all of them by −1/d, so the gradient is centred too. As y has mean 0,
#
# $$\frac{\partial L}{\partial x} = \frac{1}{s}\bigl(g - \mathrm{mean}(g) - y\,\mathrm{mean}(g\,y)\bigr).$$
#
# With a gain, g is first multiplied by it.

# %% [markdown]
# ### Exercise 2 · 10 minutes · ●●●○○
#
# Write it for any leading axes; `weight` is the gain. Four lines are enough, and no autograd is needed.
#
# <details><summary>Hint 1</summary>Two parts leave the gradient: one lies along (1, ..., 1), the other along
# y.</details>
# <details><summary>Hint 2</summary>With <code>h = grad * weight</code>: subtract its mean and <code>y * (h *
# y).mean(-1, keepdim=True)</code>, then divide by the spread of the row.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "layer-norm-backward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def layer_norm_backward(grad, x, weight, eps=1e-5):
    """Return the gradient at x, given the gradient that arrives at layer_norm(x, weight)."""
    ### BEGIN SOLUTION
    spread = (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt()
    y = (x - x.mean(dim=-1, keepdim=True)) / spread
    h = grad * weight
    return (h - h.mean(dim=-1, keepdim=True) - y * (h * y).mean(dim=-1, keepdim=True)) / spread
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "layer-norm-backward-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(layer_norm_backward, "layer_norm_backward")

# %% [markdown]
# Taught to autograd as a function of its own, a formula can be held against plain differences: `gradcheck` nudges
# each input by a millionth, in float64, and compares. Here it is without the gain.


# %%
class Norm(torch.autograd.Function):
    """LayerNorm with its backward pass from the formula."""

    @staticmethod
    def forward(ctx, x):
        spread = (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        y = (x - x.mean(-1, keepdim=True)) / spread
        ctx.save_for_backward(y, spread)
        return y

    @staticmethod
    def backward(ctx, g):
        y, spread = ctx.saved_tensors
        return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / spread


for seed in range(3):
    assert torch.autograd.gradcheck(Norm.apply, draw(2, 3, 5, seed=seed).requires_grad_())
print("gradcheck agrees, for three seeds")

# %% [markdown]
# ## What the Jacobian cannot pass
#
# The derivatives of four outputs by four inputs make a 4 × 4 matrix, the Jacobian. Its singular values are the gains
# of the gradient along four perpendicular directions. **How many of them are zero?**

# %% tags=["predict"]
guess = predict("Zero singular values of LayerNorm's Jacobian", ["0", "1", "2", "3"])

# %% tags=["reveal"]
# Answer first, then run this cell.
jacobian = torch.autograd.functional.jacobian(lambda v: layer_norm(v, eps=0.0), x)
gains = torch.linalg.svdvals(jacobian)
print(gains.numpy().round(3), "and 1/spread is", round(1 / x.std(correction=0).item(), 3))
assert (gains < 1e-12).sum() == 2 and torch.allclose(gains[:2], 1 / x.std(correction=0))
guess.reveal("2")

# %% [markdown]
# **Law.** The Jacobian is a projection divided by the spread: two gains are zero (the mean, the length), all others
# are 1/spread. A row twice as large gets half the gradient, and a row that hardly varies gets a lot of it. How much
# can it be? Take the extreme, a constant row: without eps it comes out as NaN, with either eps as zeros.

# %%
constant = torch.full((4,), 7.0, dtype=torch.float64)
assert ((constant - constant.mean()) / constant.std(correction=0)).isnan().all()
for name, norm in {"torch's": nn.LayerNorm(4), "the tutorials'": LayerNormalization(4)}.items():
    assert (norm.double()(constant) == 0).all()
    gains = torch.linalg.svdvals(torch.autograd.functional.jacobian(norm, constant))
    print(f"{name:14} LayerNorm multiplies the gradient by {gains[0].item():,.0f}")

columns = digits().train_images.transpose(1, 2).flatten(0, 1)
constant_share = (columns.amax(-1) == columns.amin(-1)).float().mean()
print(f"{constant_share:.0%} of the digits' {len(columns)} columns of pixels are constant")
assert 0.25 < constant_share < 0.28

# %% [markdown]
# That is 1/√eps for torch's 0.00001, and 1/eps for the tutorials' 0.000001. And such rows are not rare: cut the
# digits into columns of eight pixels, and a quarter of them are blank from top to bottom.

# %% [markdown]
# ## Move it yourself
#
# Four numbers: `first`, then −spread, 0, spread. On the left, where the first comes out, for every place it could
# stand; the green line is the slope, which is the first green bar on the right.
#
# **Find out:** leave the spread at 0 and drag `first` from 3 to −3. When does the output move at all? Stop at 0: how
# does the slope there depend on eps? Then switch to the tutorials' norm and divide eps by 10 again.

# %% tags=["explorer"]
explore_layer_norm()

# %% [markdown]
# <details><summary>Answer</summary>While the other three are equal, only the sign of <code>first</code> matters: the
# output stands at 1.73 or −1.73 and moves only within about √eps of 0. The slope at 0 is 0.75/√eps, 7.5 at eps =
# 0.01, and grows by √10 for each tenth of eps. In the tutorials' norm it is 0.75/eps, 75 at eps = 0.01, and grows by
# the whole 10. With a spread in the others the step becomes a gentle slope, and eps hardly counts. The green bars of
# LayerNorm always sum to 0.</details>

# %% [markdown]
# ## RMSNorm: forget the length alone
#
# RMSNorm leaves out the centring: y = x / √(mean(x²) + eps) · weight, with no bias. So LayerNorm is RMSNorm of the
# centred row, and where a row has mean 0 they agree.
#
# ### Exercise 3 · 8 minutes · ●●●○○
#
# Write the whole class. It takes `dim` and `eps`, has one parameter `weight` that begins at ones, and works on the
# last axis.
#
# <details><summary>Hint 1</summary>Which lines of LayerNorm fall away when the mean stays?</details>
# <details><summary>Hint 2</summary><code>x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt() *
# self.weight</code>, where <code>weight</code> is an <code>nn.Parameter</code>.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "rms-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MyRMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) * weight, over the last axis, which is ``dim`` long."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        ### BEGIN SOLUTION
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        return x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt() * self.weight
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "rms-norm-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(MyRMSNorm, "rms_norm")

# %% [markdown]
# The finished piece, formula and class. Its `fused` calls torch's own; the last section says why.


# %% tags=["promote:parts/rms_norm"]
import torch
from torch import nn


def rms_norm(x, weight=None, eps=1e-6):
    # x: ..., channels; weight: channels
    wide = x.to(dtype=torch.promote_types(x.dtype, torch.float32))
    y = wide * (wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (y if weight is None else y * weight).type_as(x)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6, *, fused=True):
        super().__init__()
        self.dim, self.eps, self.fused = dim, eps, fused
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        # x: ..., channels
        if not self.fused:
            return rms_norm(x, self.weight, self.eps)
        # the kernel sums in the dtype that it is given
        wide = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(
            x.to(dtype=wide), (self.dim,), self.weight.to(dtype=wide), self.eps
        ).type_as(x)


# %%
row = draw(8)
gains = {}
for name, norm in {"LayerNorm": layer_norm, "RMSNorm": rms_norm}.items():
    jacobian = torch.autograd.functional.jacobian(lambda v, norm=norm: norm(v, eps=0.0), row)
    gains[name] = torch.linalg.svdvals(jacobian)
fig = Figure()
ax = fig.add_subplot()
plots.plot_singular_values(gains, ax).set_title("LayerNorm forgets two directions, RMSNorm one")
show(
    fig,
    alt="Singular values of the two Jacobians for one row of eight numbers: seven equal bars "
    "and one zero for RMSNorm, six equal bars and two zeros for LayerNorm.",
)
assert [int((found < 1e-9).sum()) for found in gains.values()] == [2, 1]
assert torch.allclose(layer_norm(row, eps=1e-6), rms_norm(row - row.mean(), eps=1e-6))

# %% [markdown]
# ## Large numbers in small formats
#
# Textbooks offer a shortcut, var = E[x²] − E[x]², one pass over the data. On paper it is exact. **In float32, with a
# mean of 10,000 and a spread of 1, the variance it finds is**

# %% tags=["predict"]
options = ["right to 4 digits", "right to 1", "sometimes negative"]
guess = predict("E[x²] − E[x]² in float32 at a mean of 10,000 is", options)


# %% tags=["reveal"]
# Answer first, then run this cell.
def three_ways(offset, seed=0):
    """256 variances over the true ones: centred first, the shortcut, centred in bfloat16."""
    rows = draw(256, 512, seed=seed)
    x = (rows + offset).float().to(device)
    coarse = (rows + offset).bfloat16().float().to(device)
    shortcut = x.square().mean(-1) - x.mean(-1).square()
    centred, stored = ((r - r.mean(-1, keepdim=True)).square().mean(-1) for r in (x, coarse))
    return torch.stack([centred, shortcut, stored]).cpu() / rows.var(-1, correction=0)


for seed in range(3):
    ratios = three_ways(1e4, seed)
    centred, shortcut, stored = (ratios - 1).abs().median(dim=-1).values
    assert ratios[1].min() < 0 and shortcut > 1 and centred < 1e-4 and stored > 0.99
print("at a mean of 10,000 the shortcut errs by more than 100 %; some variances are negative")
assert torch.tensor(1e8).nextafter(torch.tensor(2e8)) - 1e8 == 8
guess.reveal("sometimes negative")

# %% [markdown]
# At 10,000, x² is 10⁸, and neighbouring float32 numbers up there lie 8 apart: the 1 we are looking for falls between
# them. A negative variance under a root is NaN. Centring first subtracts while the digits are still there, and keeps
# four of them. bfloat16, the 16 bits in which most large networks are trained, is another matter: near 10,000 its
# neighbours lie 64 apart, so the row is constant before any norm sees it.

# %%
offsets = torch.logspace(-1, 5, 13, dtype=torch.float64)
errors = [(three_ways(offset) - 1).abs().median(dim=-1).values for offset in offsets]
names = ["centred first", "E[x²] − E[x]²", "centred first,\nx in bfloat16"]
fig = Figure()
ax = fig.add_subplot()
plots.plot_variance_errors(offsets, dict(zip(names, torch.stack(errors).T, strict=True)), ax)
ax.set_title("At a mean of 10,000 the shortcut is all error, centring is not")
show(
    fig,
    alt="Relative error of the variance against the mean of the row, both axes logarithmic. "
    "The shortcut's error grows with the square of the mean and passes 1 near 3,000, as it "
    "does for bfloat16 inputs; centring first stays below 0.0002.",
)

far = draw(4, 512) + 1e4
reference = layer_norm(far)
kept, lost = (layer_norm(v.to(device)).cpu() for v in (far.float(), far.bfloat16()))
kernel = nn.functional.layer_norm(far.float().to(device), (512,)).cpu()
assert (kept - reference).abs().max() < 2e-3 and (kernel - reference).abs().max() < 2e-3
assert far.bfloat16().unique().numel() == 1 and (lost == 0).all()
assert (rms_norm(far.bfloat16()) == 1).all() and (rms_norm(far) - 1).abs().max() < 1e-3
print("float32: right to 2 thousandths; bfloat16: all zeros; RMSNorm: all ones")

# %% [markdown]
# RMSNorm keeps the mean, and here the mean is nearly everything it has: each output is 1. Two repairs follow: keep
# the stream in float32 and cast after the norm; compute statistics in float32 even for 16-bit inputs, which is what
# `wide` does.
#
# ## One kernel instead of nine
#
# Our formula reads well and runs slowly: each step reads the whole tensor and writes a new one, and autograd keeps
# track of each. Torch has the same formula as one kernel, a compiled routine that goes over the tensor by itself. Count
# what autograd sees:


# %%
def steps(node):
    """The operations behind a tensor, without its leaves."""
    found = set() if node is None or node.name().endswith("AccumulateGrad") else {node}
    return found.union(*(steps(last) for last, _ in node.next_functions)) if found else found


row, weight, bias = (torch.ones(shape, requires_grad=True) for shape in ((3, 4), (4,), (4,)))
ours, theirs = layer_norm(row, weight, bias), nn.functional.layer_norm(row, (4,), weight, bias)
print(f"formula: {len(steps(ours.grad_fn))} steps, kernel: {len(steps(theirs.grad_fn))}")

# %% [markdown]
# So the finished class calls the kernel, and keeps the formula one keyword away. That both give the same numbers is a
# claim, so the cell after the class checks values and gradients of both classes, in float64, from no rows and a single
# feature to five axes.


# %% tags=["promote:parts/layer_norm"]
import torch
from torch import nn

from residual_edu.parts.layer_norm import fused_layer_norm


class LayerNorm(nn.Module):
    def __init__(
        self, dim, eps=1e-5, *, elementwise_affine=True, bias=True, fused=True
    ):
        super().__init__()
        self.dim, self.eps, self.fused = dim, eps, fused
        self.weight = nn.Parameter(torch.ones(dim)) if elementwise_affine else None
        self.bias = (
            nn.Parameter(torch.zeros(dim)) if elementwise_affine and bias else None
        )

    def forward(self, x):
        # x: ..., channels
        norm = fused_layer_norm if self.fused else layer_norm
        return norm(x, self.weight, self.bias, self.eps)


# %%
def outcome(norm, x):
    """Values, and the gradients of input and parameters for one fixed upstream gradient."""
    x = x.clone().requires_grad_()
    y = norm(x)
    return [y, *torch.autograd.grad(y, [x, *norm.parameters()], draw(*y.shape, seed=1))]


for shape in [(4,), (0, 4), (3, 1), (5, 8), (2, 3, 8), (2, 1, 3, 2, 7)]:
    rows = 3 * draw(*shape) + 2
    for Kind in (LayerNorm, RMSNorm):
        fused, formula = Kind(shape[-1]).double(), Kind(shape[-1], fused=False).double()
        for theirs, ours in zip(outcome(fused, rows), outcome(formula, rows), strict=True):
            assert torch.allclose(theirs, ours, rtol=1e-9, atol=1e-11)
print("kernel and formula agree")

# %% [markdown]
# ### Exercise 4 · 5 minutes · ●●○○○
#
# Three LayerNorms from three code bases, `c` being the centred row. One is torch's, one divides by n − 1, one has its
# eps outside.
#
# ```python
# A   c / (x.var(-1, keepdim=True) + eps).sqrt()
# B   c / (c.square().mean(-1, keepdim=True) + eps).sqrt()
# C   c / (c.square().mean(-1, keepdim=True).sqrt() + eps)
# ```
#
# Return three letters in that order: torch's, the one that divides by n − 1, the one with eps outside.
#
# <details><summary>Hint 1</summary>Put [1, 0, 0, 0] through each, then [0.001, 0, 0, 0].</details>
# <details><summary>Hint 2</summary><code>x.var(-1, keepdim=True)</code> divides by n − 1. Of B and C, one adds eps
# under the root.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "which-is-torch", "locked": false, "schema_version": 3, "solution": true, "task": false}
def which_is_torch():
    """Return three letters, such as "ABC": torch's, n - 1, eps outside."""
    ### BEGIN SOLUTION
    return "BAC"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "which-is-torch-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(which_is_torch, "which_is_torch")

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | LayerNorm moves a row to the sphere of radius √d, perpendicular to (1, ..., 1) | 1.732, three times −0.577 | spread well above √eps |
# | no output exceeds √(d − 1) | proline 3.4 of at most 3.46 | before gain and bias |
# | tutorials' / torch's = √((d − 1)/d) | 0.866 at 4, 0.9993 at 768 | eps negligible, d at least 2 |
# | eps inside the root is a floor at √eps, outside at eps | rms 0.30 against 0.99 at spread 0.001 | eps = 0.00001 |
# | shift and stretch of a token are lost | [1, 0, 0, 0] and [5, 2, 2, 2] agree | stretch above 0, spread above the floor |
# | LayerNorm's output listens to its row; BatchNorm's to its column, then to history | evaluating / training 0.894 on one batch of 5 | always; the factor is √((n − 1)/n) |
# | the Jacobian has two zero gains, RMSNorm's one; the others are 1/spread, 1/rms | 2.309, 2.309, 0, 0 | exactly at eps = 0 |
# | a constant row passes gradient times 1/√eps, in the tutorials' norm 1/eps | 316 against 1,000,000 | any constant row |
# | centre first: E[x²] − E[x]² is noise once the format cannot tell mean² from mean² + 1 | negative variances at mean 10,000 | float32; in bfloat16 the input is lost before |
# | kernel and formula are one function | 1 step for 9, equal in float64 | values and gradients |
#
# Sources: LayerNorm, Ba, Kiros and Hinton, 2016 (arXiv 1607.06450); RMSNorm, Zhang and Sennrich, 2019 (arXiv
# 1910.07467); BatchNorm, Ioffe and Szegedy, 2015 (arXiv 1502.03167). From the next lesson on, `LayerNorm` and
# `RMSNorm` are imported.

# %%
summary("02")

# %% [markdown]
# ## Next
#
# - [Lesson 03](03_dropout_and_stochastic_depth.ipynb) is about the gate g: a coin for each number, or for each sample.
# - [Homework for lessons 02 and 03](homework/hw_02_03.ipynb), once you have done lesson 03.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
