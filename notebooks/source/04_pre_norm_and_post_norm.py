# %% [markdown]
# # 04 · Pre-norm and post-norm
#
# 90 minutes. Nothing is downloaded. Of [lesson 03](03_dropout_and_stochastic_depth.ipynb) it needs what a coin on the
# stream does to all that came before; of [lesson 02](02_layer_norm.ipynb), what a norm does to the gradient on its way
# back; of [lesson 00](00_residual_connection.ipynb), how the stream grows with depth.
#
# By the end you can
#
# - **write** both wirings of a block from one diagram;
# - **predict** the gradient of the last block at any depth, from a single number;
# - **choose** a placement, the size of the first weights and a warm-up for a deep stack;
# - **tell** the wirings apart in somebody's code, whatever its docstring says;
# - **repair** a pre-norm network that has lost its last norm.

# %% [markdown]
# ## Before we start: three questions on earlier lessons
#
# Answer aloud, then open.
#
# <details><summary>1. Each of 64 branches says something as large as what it is asked. How large does the stream
# become, with and without a norm before the branch?</summary>With it about 8, the root of 1 + 64: each branch adds 1 to
# the square. Without it 2³², for each branch doubles the square (lesson 00).</details>
#
# <details><summary>2. LayerNorm is handed a row with a spread of 5. What happens to the gradient on its way
# back?</summary>Two directions of it are taken out, and the rest is divided by 5 (lesson 02).</details>
#
# <details><summary>3. 24 coins of 0.3 in a row fall on the stream. How much of it gets past all of them?</summary>0.7²⁴,
# two in ten thousand (lesson 03). You will meet this number again.</details>

# %%
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn.functional import cross_entropy

from residual_edu import LayerNorm, SimpleFeedForward, layer_norm
from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.explorers.placement import explore_placement
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.plotting import placement as draw
from residual_edu.plotting.stream import plot_stream
from residual_edu.training import accuracy, linear_warmup, minibatches, train

device = setup()
progress("04")

# %% [markdown]
# ## One diagram
#
# Two blocks of a network, drawn twice. Put a finger on the blue line at the left and follow it to the right. **What do
# you meet?**

# %%
fig = Figure(figsize=(6, 4.4))
above, below = fig.subplots(2, 1)
draw.plot_wiring("pre", above).set_title("pre-norm: nothing but sums, until the end")
draw.plot_wiring("post", below).set_title("post-norm: a norm on the line in every block")
show(
    fig,
    alt="Two wirings of two blocks. Pre-norm: the norm stands before f on the branch, and one more norm after the "
    "last block. Post-norm: the norm stands on the stream behind each sum.",
)

# %% [markdown]
# The first Transformer was the lower one; GPT-2 and most networks since are the upper one. The same boxes, one of them
# moved. It is also among the most asked questions about Transformers, because a well-known page describes the lower
# one and its code runs the upper.
#
# Each is one line. Around f go the gates of the other lessons (`apply_gates`), and an f that is `nn.Identity` means that
# there is no branch: then the very same x comes back. What f returns must have the shape of x (`check_branch`), since a
# sum would quietly broadcast. Here is the finished piece.


# %% tags=["promote:parts/residual"]
from torch import nn


def pre_norm_residual(x, layer, norm, gates=(), *inputs, **keywords):
    # x: ..., channels
    if is_bypassed(layer):
        return x
    branch = layer(norm(x), *inputs, **keywords)
    return x + apply_gates(gates, branch)


def post_norm_residual(x, layer, norm, gates=(), *inputs, **keywords):
    # x: ..., channels
    if is_bypassed(layer):
        return x
    branch = layer(x, *inputs, **keywords)
    return norm(x + apply_gates(gates, branch))


def is_bypassed(layer):
    return isinstance(layer, nn.Identity)


def apply_gates(gates, branch):
    for gate in gates:
        if not is_bypassed(gate):
            branch = gate(branch)
    return branch


# %% [markdown]
# ## Two numbers
#
# LayerNorm of two numbers is easy: the larger becomes 1, the other −1. Let f hand back what it is given, and take x =
# [5, 1]. Pre-norm: the norm makes [1, −1] of it, f repeats that, and the sum is [6, 0]. **And post-norm?**

# %% tags=["predict"]
guess = predict("norm(x + f(x)) for [5, 1], with f(x) = x", ["[10, 2]", "[6, 0]", "[1, -1]"])

# %% tags=["reveal"]
# Answer first, then run this cell.
pre = post = x = torch.tensor([5.0, 1.0])
for _ in range(10):
    pre = pre_norm_residual(pre, lambda x: x, layer_norm)
    post = post_norm_residual(post, lambda x: x, layer_norm)
print(f"after ten blocks: pre-norm {pre.numpy().round(2)}, post-norm {post.numpy().round(2)}")
guess.reveal("[1, -1]")

# %% [markdown]
# After ten blocks pre-norm's numbers are still 5 and 1 with ten times [1, −1] added. Post-norm's have been [1, −1]
# since the first block, and whether it was [5, 1] or [500, 499] at the start cannot be seen any more.
#
# A branch that says 0 leaves x in pre-norm, and norm(x) in post-norm. Only an f that is `nn.Identity` leaves x alone in
# both.

# %%
assert torch.allclose(torch.stack([pre, post]), torch.tensor([[15.0, -9.0], [1.0, -1.0]]), atol=1e-3)
silent = torch.zeros_like
assert pre_norm_residual(x, silent, layer_norm).equal(x)
assert post_norm_residual(x, silent, layer_norm).equal(layer_norm(x))
for residual in (pre_norm_residual, post_norm_residual):
    assert residual(x, nn.Identity(), layer_norm) is x

# %% [markdown]
# ### Exercise 1 · 5 minutes · ●●○○○
#
# A Transformer's layer has two branches: first attention, then a feed-forward layer. Each has a norm of its own, and
# the second hears what the first has said. Write the pre-norm layer. All four parts are functions of one tensor.
#
# <details><summary>Hint 1</summary>Follow the blue line of the diagram: which sums does x meet, and in which
# order?</details>
# <details><summary>Hint 2</summary>One line for each branch, both of the form <code>x = x +
# layer(norm(x))</code>.</details>


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
# ## How large the stream becomes
#
# Now a real stack: digits, 64 pixels as 64 features, one feed-forward branch a block, ten classes at the end. The
# weights are drawn by He's rule, so that a branch says something as large as what it is asked. `scale` is for later.

# %%
RESIDUALS = {"pre-norm": pre_norm_residual, "post-norm": post_norm_residual}
data = digits()
images, test_images = (layer_norm(x.flatten(1)).to(device) for x in (data.train_images, data.test_images))
labels, test_labels = data.train_labels.to(device), data.test_labels.to(device)


class Block(nn.Module):
    """One branch, its output weights multiplied by ``scale``, and its norm."""

    def __init__(self, residual, scale):
        super().__init__()
        self.residual, self.layer, self.norm = residual, SimpleFeedForward(64, 64), LayerNorm(64)
        for linear, gain in ((self.layer.linear1, 1.0), (self.layer.linear2, 2**0.5 * scale)):
            nn.init.normal_(linear.weight, std=gain / 8)
            nn.init.zeros_(linear.bias)

    def forward(self, x):
        return self.residual(x, self.layer, self.norm)


def build(placement, depth=24, scale=1.0, seed=0):
    """Return a classifier: the blocks, for pre-norm a last norm, and the head."""
    torch.manual_seed(seed)
    blocks = [Block(RESIDUALS[placement], scale) for _ in range(depth)]
    final = LayerNorm(64) if placement == "pre-norm" else nn.Identity()
    return nn.Sequential(*blocks, final, nn.Linear(64, 10)).to(device)


# %% [markdown]
# **How large is the stream after 24 pre-norm blocks, if it begins at 1?**


# %% tags=["predict"]
def handed(model, x):
    """Return the size (root mean square) of what each norm of a model is handed."""
    sizes = []
    norms = [module for module in model.modules() if isinstance(module, LayerNorm)]

    def note(_, inputs):
        sizes.append(inputs[0].square().mean().sqrt().item())

    hooks = [norm.register_forward_pre_hook(note) for norm in norms]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return sizes


guess = predict("The size of the stream after 24 pre-norm blocks", ["1", "5", "25", "4,096"])

# %% tags=["reveal"]
# Answer first, then run this cell.
courses = {name: [handed(build(name, seed=seed), images) for seed in range(3)] for name in RESIDUALS}
fig = Figure()
ax = draw.plot_courses({name: sizes[0] for name, sizes in courses.items()}, fig.add_subplot())
ax.set_title("Pre-norm's stream grows, post-norm's is reset")
show(
    fig,
    alt="Size of the stream along 24 blocks. Pre-norm: a curve from 1 to 5, which the last norm divides by. Post-norm: "
    "teeth of a saw between 1 and 1.4, cut back by each block's norm.",
)
guess.reveal("5")
law = np.sqrt(1 + np.arange(25))
assert np.all(np.abs(np.array(courses["pre-norm"]) / law - 1) < 0.2)
assert np.all(np.abs(np.array(courses["post-norm"]) / 2**0.5 - 1) < 0.25)

# %% [markdown]
# **Law.** At the start of training, each branch adds 1 to the square. In pre-norm the sums pile up: √(1 + L), and √25 =
# 5. In post-norm each norm cuts √2 back to 1.
#
# Look again at the teeth. A norm divides *everything* on the line by √2: what the last branch said, and what came in
# as well. **After 24 of them, how much of the digit itself is still on the line?**

# %% tags=["predict"]
guess = predict("The digit's own part of post-norm's stream after 24 blocks", ["one 5th", "one 24th", "one 4,000th"])

# %% tags=["reveal"]
# Answer first, then run this cell.
kept = {"pre-norm": 1 / np.array(courses["pre-norm"])[:, -1], "post-norm": 1 / np.prod(courses["post-norm"], axis=1)}
print(f"by the law: pre-norm 1/{25**0.5:.0f}, post-norm 1/{2**12:,}")
assert np.all((kept["pre-norm"] > 1 / 7) & (kept["pre-norm"] < 1 / 4))
assert np.all((kept["post-norm"] > 2**-14) & (kept["post-norm"] < 2**-10))
guess.reveal("one 4,000th")

# %% [markdown]
# **Law.** Along the line there is left 1/√(1 + L) of the input in pre-norm, and 2^(−L/2) in post-norm. Two in ten
# thousand, as with 24 coins of 0.3 on the stream. The digit is not lost, for the branches have carried it on in words
# of their own; but the straight road of lesson 00 is closed. Keep that in mind for the end.

# %% [markdown]
# ## What the last block hears
#
# Now the gradient. Take the output weights of the last block: one matrix, next to the head in both wirings. The loss is
# the digits' cross-entropy. **From 4 blocks to 16, what becomes of its gradient in pre-norm?** A single network is a
# noisy thing, so each point below stands for four, with eight heads each, and there are three points at every depth.


# %% tags=["predict"]
def last_block(model):
    """Return what the last norm divides by, and the gradient of the last block's output weights, for eight heads."""
    x, weight, sizes = images[:64], model[-3].layer.linear2.weight, []
    stream = model[:-1](x)
    for _ in range(8):
        head = nn.Linear(64, 10).to(device)
        loss = cross_entropy(head(stream), labels[:64])
        sizes.append(torch.autograd.grad(loss, weight, retain_graph=True)[0].norm())
    return handed(model, x)[-1], torch.stack(sizes).log().mean().exp().item()


def sweep(placement, scale=lambda depth: 1.0):
    """Return both numbers for three times four networks at each depth, geometric means: (2, seeds, depths)."""
    every = [[last_block(build(placement, depth, scale(depth), seed)) for depth in DEPTHS] for seed in range(12)]
    return torch.tensor(every).view(3, 4, len(DEPTHS), 2).log().mean(1).exp().permute(2, 0, 1).numpy()


DEPTHS = [2, 4, 8, 16, 32]
found = {name: sweep(name) for name in RESIDUALS}
guess = predict("Pre-norm's last gradient, from 4 blocks to 16", ["a quarter", "half", "the same"])

# %% tags=["reveal"]
# Answer first, then run this cell.
fig = Figure()
guide = 0.6 / np.sqrt(DEPTHS)
gradients = {name: gradient for name, (_, gradient) in found.items()}
ax = draw.plot_last_gradients(DEPTHS, gradients, fig.add_subplot(), guide)
ax.set_title("Only pre-norm's last gradient falls with depth")
show(
    fig,
    alt="Gradient of the last block against 2 to 32 blocks, both axes logarithmic, three seeds. Pre-norm falls from "
    "0.37 to 0.1 along a dotted line of slope -1/2, post-norm stays near 0.45.",
)
guess.reveal("half")


def slope(curves):
    """Return the exponent of each curve from 4 blocks on."""
    return np.polyfit(np.log(DEPTHS[1:]), np.log(curves[:, 1:]).T, 1)[0]


assert np.all(np.abs(slope(gradients["pre-norm"]) + 0.5) < 0.12)
assert np.all(np.abs(slope(gradients["post-norm"])) < 0.15)

# %% [markdown]
# **Law.** At the start, pre-norm's last gradient falls with a slope of −1/2 from depth 4 on: four times the depth, half
# the gradient. Post-norm's does not fall. This is the picture with which pre-norm won (Xiong and others, 2020).
#
# But why? Both blocks stand next to the head. Before it is told, find it.

# %% [markdown]
# ## Find the rule yourself
#
# Below is one stack: its stream, with the drop at its last norm, and under it the gradient of each block's output
# weights. Each setting that you try leaves a dot on the map to the right: what the last norm divides by, and the gradient
# of the last block. **Try several settings: which arithmetic ties the two numbers together?** (Both axes are
# logarithmic.) Then find the weights with which you cannot tell pre-norm from post-norm.

# %% tags=["explorer"]
explore_placement()

# %% [markdown]
# <details><summary>Answer</summary>Multiply them: 5.14 · 0.124 and 1.40 · 0.453 are both about 0.63, and so is every
# other product, between 0.6 and 0.75, at any depth, with any weights, in both placements. With zeros the pictures are
# the same, with He's / √L nearly so. On the map all dots lie on one line of slope −1. (Look at the two curves, too: in
# pre-norm the gradient falls from block to block just as the stream above it grows.)</details>
#
# Here is the rule for all networks of this lesson so far, and for as many whose output weights were divided by √L.

# %%
for name in RESIDUALS:
    found[f"{name}, scaled"] = sweep(name, scale=lambda depth: depth**-0.5)
products = {name: divisor * gradient for name, (divisor, gradient) in found.items()}
middle = float(np.median(np.concatenate(list(products.values()))))
fig = Figure()
ax = draw.plot_last_drop(found, fig.add_subplot(), middle)
ax.set_title("The last gradient is what the last norm leaves")
show(
    fig,
    alt="Gradient of the last block against what the last norm divides by, both logarithmic. The dots of four kinds of "
    "networks, 2 to 32 blocks deep, lie along one falling line: gradient times divisor is constant.",
)
assert all(np.all(np.abs(product / middle - 1) < 0.2) for product in products.values())

# %% [markdown]
# **Law.** Last gradient × what the last norm divides by = a constant (0.6 here; another head or loss, another
# constant). It is lesson 02's: on its way back through a norm, a gradient is divided by the spread of what the norm was
# handed. Pre-norm's last norm is handed the whole pile, √(1 + L); post-norm's only a row of size 1 and one branch, √2.
# Everything else on the way from the loss to that matrix is the same.

# %% [markdown]
# ## Weights that make the question go away
#
# GPT-2 divides the output weights of its N branches by √N at the start. (A layer has two branches; code that counts
# layers writes 1/√(2L).) All branches together then add 1 to the square, at any depth. At 32 blocks and with He's
# weights, post-norm's last gradient is four times pre-norm's, √33/√2. **With the output weights divided by √L?**

# %% tags=["predict"]
guess = predict("Scaled weights, 32 blocks: post-norm's last gradient over pre-norm's", ["4", "1.4", "0.25"])

# %% tags=["reveal"]
# Answer first, then run this cell.
gradients = {name: gradient for name, (_, gradient) in found.items()}
fig = Figure()
ax = draw.plot_last_gradients(DEPTHS, gradients, fig.add_subplot())
ax.set_title("Output weights over √L: neither gradient falls")
show(
    fig,
    alt="Gradient of the last block against depth for both placements, with He's weights and with scaled ones. Only "
    "pre-norm with He's weights falls; both scaled curves are flat, near 0.45 and 0.6.",
)
guess.reveal("1.4")
ratio = {kind: gradients[f"post-norm{kind}"] / gradients[f"pre-norm{kind}"] for kind in ("", ", scaled")}
assert np.all((ratio[""][:, -1] > 2.8) & (ratio[""][:, -1] < 5.5))
assert np.all((ratio[", scaled"] > 1) & (ratio[", scaled"] < 1.65))
assert all(np.all(np.abs(slope(gradients[f"{name}, scaled"])) < 0.15) for name in RESIDUALS)

# %% [markdown]
# **Law.** With output weights divided by √L neither last gradient falls, and they differ by about √2. (Pre-norm with
# scaled weights and post-norm with He's lie on one another: both last norms divide by √2.) So "post-norm has the larger
# gradients" is a sentence about weights as much as about norms. With PyTorch's own weights, whose branches say a quarter
# of what they are asked, the factor at 24 blocks is 1.5, and not 3.6 (try it above).
#
# Both stacks as a river, twelve blocks, He's weights: what the stream carries, and the gradient that comes back.

# %%
fig = Figure(figsize=(6, 6.4))
for name, ax in zip(RESIDUALS, fig.subplots(2, 1), strict=True):
    model = build(name, 12)
    with GradientFlowRecorder(model, model[:-2]) as flow:
        cross_entropy(model(images[:64].clone().requires_grad_()), labels[:64]).backward()
    plot_stream(flow, ax, norms=name.removesuffix("-norm"))
    assert (flow.activation[0, -1] > 3) == (name == "pre-norm")
    ax.set_title({"pre-norm": "Pre-norm swells", "post-norm": "Post-norm is a canal"}[name])
show(
    fig,
    alt="Two rivers. Pre-norm: the bed of the signal widens from block to block to more than three times its width, "
    "and the gradient's on the way back. Post-norm: both beds keep their width, with a lock behind each block.",
)

# %% [markdown]
# ## Which of them trains?
#
# It is often said: post-norm's last gradients are large, so its first steps are too large, so it needs a warm-up. The
# middle of this sentence deserves a look, because nearly everyone trains with Adam. **Multiply the loss by 1,000, and
# every gradient is 1,000 times as large. What becomes of Adam's first step?**


# %% tags=["predict"]
def first_step(placement, depth, seed=0, factor=1):
    """Return how far one step of Adam moves what the head hears, against its size."""
    model = build(placement, depth, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)
    before = model[:-1](images[:64]).detach()
    (factor * cross_entropy(model(images[:64]), labels[:64])).backward()
    optimizer.step()
    return ((model[:-1](images[:64]) - before).norm() / before.norm()).item()


guess = predict("Loss times 1,000: Adam's first step becomes", ["1,000 times as long", "32 times", "as it was"])

# %% tags=["reveal"]
# Answer first, then run this cell.
assert abs(first_step("post-norm", 24, factor=1000) / first_step("post-norm", 24) - 1) < 0.05
for depth, low, high in ((2, 1, 1.4), (24, 3, 7)):
    moves = [[first_step(name, depth, seed) for seed in range(12)] for name in ("post-norm", "pre-norm")]
    ratios = np.exp(np.log(np.divide(*moves)).reshape(3, 4).mean(1))
    assert np.all((ratios > low) & (ratios < high))
guess.reveal("as it was")

# %% [markdown]
# Adam divides each gradient by its own size, so a large gradient is no large step. What is large is the *effect* of a
# step. It changes every branch a little. In pre-norm these changes are added to a stream five times their size. In
# post-norm each goes through all later blocks, where it grows. At 2 blocks there is hardly a difference, at 24 the output
# moves five times as far (Liu and others, 2020). A warm-up begins with small steps.
#
# Enough prepared. 24 blocks, 120 steps, Adam at a rate of 0.003 and again at 0.001. **How does post-norm do at 0.003,
# without a warm-up?**


# %% tags=["predict"]
def race(model, rate, warmup=0, seed=0):
    """Train for 120 steps; return the model and, every 10, the loss and the first block's gradient over the last's."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)  # fused saves a third of the time
    schedule = linear_warmup(optimizer, warmup) if warmup else None
    batches, losses, heard = minibatches(images, labels, seed=seed), [], []
    for _ in range(12):
        ten = train(lambda x, y: cross_entropy(model(x), y), batches, optimizer, 10, schedule)
        losses.append(np.mean(ten))
        first, last = (block.layer.linear2.weight.grad.norm().item() for block in (model[0], model[-3]))
        heard.append(first / last)
    optimizer.zero_grad()
    return model, losses, heard


guess = predict("Post-norm, rate 0.003, no warm-up: test accuracy after 120 steps", ["95 %", "70 %", "below 40 %"])

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
fast = {name: [race(build(name, seed=seed), 3e-3, seed=seed) for seed in range(3)] for name in RESIDUALS}
fast["post-norm, warm-up"] = [race(build("post-norm", seed=seed), 3e-3, 60, seed) for seed in range(3)]
slow = {name: [race(build(name, seed=seed), 1e-3, seed=seed) for seed in range(3)] for name in RESIDUALS}
fig = Figure(figsize=(6, 3.8))
for ax, rate, group in zip(fig.subplots(1, 2, sharey=True), ("0.003", "0.001"), (fast, slow), strict=True):
    draw.plot_runs({name: [losses for _, losses, _ in runs] for name, runs in group.items()}, ax)
    ax.set(yscale="log", ylim=(0.015, 5), title=f"rate {rate}")
    draw.label_ends(ax)
fig.axes[0].set_ylabel("training loss")
fig.suptitle("Post-norm trains at a lower rate or with warm-up", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Training loss over 120 steps, three seeds. At a rate of 0.003 pre-norm falls below 0.1, post-norm stays above "
    "2, post-norm with 60 steps of warm-up falls below 1. At 0.001 both fall, pre-norm to 0.04, post-norm to 0.2.",
)
scores, lowest = {}, {}
for name, runs in {**fast, "post-norm, slow": slow["post-norm"]}.items():
    scores[name] = [accuracy(run[0], test_images, test_labels) for run in runs]
    lowest[name] = [min(losses) for _, losses, _ in runs]
    print(f"{name}: accuracy {np.round(scores[name], 2).tolist()}, lowest loss {np.round(lowest[name], 2).tolist()}")
holds(min(scores["pre-norm"]) > 0.85 and max(scores["post-norm"]) < 0.4, "At 0.003 pre-norm alone trains.")
holds(min(lowest["post-norm"]) > 1.2 > 1 > max(lowest["post-norm, warm-up"]), "With a warm-up post-norm trains too.")
holds(min(scores["post-norm, slow"]) > 0.75, "At 0.001 post-norm trains without a warm-up.")
holds(np.median(scores["post-norm, slow"]) > np.median(scores["post-norm, warm-up"]), "The slower run ends better.")
guess.reveal("below 40 %")

# %% [markdown]
# **Law** (24 blocks, He's weights, three seeds). At 0.003 pre-norm trains without a warm-up and post-norm does not; with
# 60 steps of warm-up it does, if unsteadily. At 0.001 it trains without any. So "post-norm cannot be trained without
# warm-up" is half a sentence: the other half is the rate. What a warm-up buys is a larger rate, and at this size the
# slower run even ends better.

# %% [markdown]
# ## What breaks
#
# The loss of those runs stands near ln 10 = 2.3, which is what knowing nothing costs. Where did the digits go? Compare
# the gradient of the first block with that of the last, as training goes on. **In the runs that fail, the first
# block's gradient becomes**

# %% tags=["predict"]
guess = predict("First block's gradient over the last's, in the failing runs", ["very large", "about 1", "very small"])

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
fig = Figure()
ax = draw.plot_runs({name: [heard for *_, heard in runs] for name, runs in fast.items()}, fig.add_subplot())
ax.set(yscale="log", ylabel="first block's gradient / last block's")
draw.label_ends(ax)
ax.set_title("No warm-up: post-norm's first gradient vanishes")
show(
    fig,
    alt="Gradient of the first block over that of the last during training, logarithmic. Pre-norm is near 20, "
    "post-norm with warm-up a few times lower; post-norm without it falls below a thousandth.",
)
guess.reveal("very small")
worst = {name: [min(heard) for *_, heard in runs] for name, runs in fast.items()}
for name, least in worst.items():
    print(f"{name}, the least of each seed:", *(f"{each:.2g}" for each in least))
holds(max(worst["post-norm"]) < 0.03, "In failing runs the first block's gradient falls below 0.03 of the last's.")
holds(min(worst["post-norm, warm-up"]) > 0.05 and min(worst["pre-norm"]) > 0.5, "In the runs that train it does not.")

# %% [markdown]
# Here is the road again that was nearly closed at the start. A norm on the line divides all that is on it, and the
# gradient on its way back by the same number. What do these norms divide by after training?

# %% tags=["trained"]
divide = {name: [np.exp(np.log(handed(run[0], images)).mean()) for run in runs] for name, runs in fast.items()}
loud, quiet = np.array(divide["post-norm"]), np.array(divide["post-norm, warm-up"])
print("post-norm's norms divide by", loud.round(2), "and with a warm-up by", quiet.round(2))
holds(loud.min() > 2.1 and quiet.min() > 1.5 and quiet.max() < 2.05, "With a warm-up the norms divide by less.")
holds(np.median((loud / quiet) ** 24) > 100, "With a warm-up more than a hundred times as much gets through.")

# %% [markdown]
# Large first steps made the branches loud. So each norm divides by more than 2.1, where at the start it was √2 = 1.4,
# and 24 of them in a row leave less than a ten-millionth on the line, of the digit and of the gradient. With a warm-up
# the branches stay quieter, and more than a hundred times as much gets through. Pre-norm may be as loud as it likes:
# its line is divided once, at the end.
#
# Smaller branches should then do as well as a warm-up. They do: the scaled weights of before, at 0.003.

# %% tags=["trained"]
scaled = [race(build("post-norm", 24, 24**-0.5, seed), 3e-3, seed=seed)[0] for seed in range(3)]
reached = [accuracy(model, test_images, test_labels) for model in scaled]
print("post-norm with scaled weights, at 0.003 without a warm-up: accuracy", *(f"{each:.2f}" for each in reached))
holds(min(reached) > 0.85, "Post-norm with scaled weights trains at 0.003 without a warm-up, on all three seeds.")

# %% [markdown]
# ## Which wiring is it?
#
# Four snippets as you may meet them. A is modelled on a much copied page. Not every docstring can be trusted.
#
# ```python
# # A
# def forward(self, x, sublayer):
#     """A residual connection, followed by a layer norm."""
#     return x + self.dropout(sublayer(self.norm(x)))
#
# # B
# def forward(self, x):
#     x = self.norm(x)
#     return x + self.layer(x)
#
# # C
# def forward(self, x):
#     out = self.layer(x)
#     out += x
#     return self.norm(out)
#
# # D
# def forward(self, x):
#     skip = x
#     x = self.norm(x)
#     x = self.layer(x)
#     return skip + x
# ```

# %% [markdown]
# ### Exercise 2 · 5 minutes · ●●○○○
#
# Return four words, one for each of A to D: `pre`, `post`, or `neither`.
#
# <details><summary>Hint 1</summary>For each: which x is added, and is the sum the last thing that happens?</details>
# <details><summary>Hint 2</summary>The docstring of A lies. In B, x has changed before it is added. C norms the sum. D
# keeps x as <code>skip</code>.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "which-wiring", "locked": false, "schema_version": 3, "solution": true, "task": false}
def which_placement():
    """Return four words, such as "pre post neither pre"."""
    ### BEGIN SOLUTION
    return "pre neither post pre"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "which-wiring-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(which_placement, "which_placement")

# %% [markdown]
# ### Exercise 3 · 12 minutes · ●●●●○
#
# Now without reading. `block` is a function of one tensor, `x` some tokens `(n, features)`; the norm inside, if there
# is one, has no gain and no bias. Call `block` as often as you like, on x or on what you make of it, and return
# `"pre"`, `"post"` or `"neither"`.
#
# <details><summary>Hint 1</summary>Which of the two leaves every row with mean 0 and spread 1? And what does a norm
# before f not hear?</details>
# <details><summary>Hint 2</summary>post: is <code>layer_norm(y)</code> still y? pre: is what the block adds, block(x) - x, the same for
# x and for 2x + 3?</details>


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
# Pre-norm has one norm more than it has blocks, and because no block owns it, it gets forgotten. Take it away.
# **Before any training, what is the loss of 64 blocks?** (Knowing nothing costs 2.3.)

# %% tags=["predict"]
guess = predict("The first loss of 64 pre-norm blocks without a final norm", ["2.3", "3", "7"])


# %% tags=["reveal"]
# Answer first, then run this cell.
def without_final(depth, seed):
    """Return a pre-norm classifier that has lost its final norm."""
    model = build("pre-norm", depth, seed=seed)
    model[-2] = nn.Identity()
    return model


@torch.no_grad()
def first_loss(model):
    """Return the loss on 256 digits."""
    return cross_entropy(model(images[:256]), labels[:256]).item()


for depth in (4, 16, 64):
    losses = [first_loss(without_final(depth, seed)) for seed in range(12)]
    print(f"{depth} blocks: {np.mean(losses):.0f}")
assert np.all(np.reshape(losses, (3, 4)).mean(1) > 4.5)
assert max(first_loss(build("pre-norm", 64, seed=seed)) for seed in range(12)) < 2.8
louder = [last_block(without_final(64, seed))[1] / last_block(without_final(4, seed))[1] for seed in range(3)]
assert min(louder) > 0.8
guess.reveal("7")

# %% [markdown]
# The head was made for numbers of size 1 and is handed numbers of size 8, so it is sure of itself and wrong. The last
# gradient does not fall with depth any more either: there is no norm left to divide it.
#
# Does it matter? At this size less than you may have heard: all the same it trains.

# %% tags=["trained"]
bare = [race(without_final(24, seed), 3e-3, seed=seed)[0] for seed in range(3)]
reached = [accuracy(model, test_images, test_labels) for model in bare]
print("24 pre-norm blocks without a final norm, at 0.003: accuracy", *(f"{each:.2f}" for each in reached))
holds(min(reached) > 0.85, "24 pre-norm blocks without a final norm train at 0.003, on all three seeds.")

# %% [markdown]
# ### Exercise 4 · 4 minutes · ●●○○○
#
# This network was trained for months before somebody looked. `norms` is a list with one norm more than there are
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
# <details><summary>Hint 2</summary><code>zip</code> stops at the shorter list. Which norm is left over, and where does a pre-norm
# network apply it?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "final-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def final_norm(x, layers, norms, head):
    """Return the logits of a pre-norm network; there is one norm more than there are layers."""
    ### BEGIN SOLUTION
    for layer, norm in zip(layers, norms, strict=False):
        x = x + layer(norm(x))
    return head(norms[-1](x))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "final-norm-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(final_norm, "final_norm")

# %% [markdown]
# ## True or false?
#
# - Post-norm's gradients vanish towards the first block. <details><summary>Answer</summary>Not at the start: with these
#   weights first and last block hear about the same (see the explorer). They do vanish in a run that has failed.
#   </details>
# - Post-norm's large gradients make Adam's first steps too long. <details><summary>Answer</summary>False. Adam's step
#   does not know how large the gradient is; the same step has a larger effect.</details>
# - Post-norm needs a warm-up. <details><summary>Answer</summary>At 0.003 with He's weights, yes. Not at 0.001, and not
#   with scaled weights.</details>
# - In pre-norm all blocks hear equally well. <details><summary>Answer</summary>False. The later a block, the larger the
#   stream behind it, and the smaller its gradient.</details>

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | pre-norm's stream grows as √(1 + L), post-norm's stays at 1 | 5 after 24 blocks | branches as large as what they are asked, at the start |
# | of the input there stays on the line 1/√(1 + L), or 2^(−L/2) | 1/5, 1/4,096 at 24 blocks | the same |
# | pre-norm's last gradient falls with a slope of −1/2, post-norm's does not fall | −0.49 and 0.00 from 4 to 32 blocks | the same, with a final norm |
# | last gradient × what the last norm divides by = a constant | 0.6, all within a fifth | at the start, any depth, both placements, any scale |
# | output weights / √L: neither gradient falls, they differ by about √2 | 1.3 to 1.4 at 32 blocks | at the start |
# | the same step moves post-norm's output further | 1.1 times at 2 blocks, 5 times at 24 | first step of Adam, He's weights |
# | at 0.003 post-norm needs a warm-up or scaled weights, at 0.001 neither | lowest loss above 1.2; below 1 with the warm-up | 24 blocks, digits, 120 steps, three seeds |
# | in the failing runs the first block's gradient falls below 3 % of the last's | each norm divides by more than 2.1 | the same |
# | without its final norm pre-norm begins with a loss that grows with depth | 3, 4, 7 at 4, 16, 64 blocks | at the start; here it trains all the same |
#
# Sources: post-norm, Vaswani and others, 2017 (arXiv 1706.03762); the two compared, Xiong and others, 2020 (arXiv
# 2002.04745); why the same step goes further, Liu and others, 2020 (arXiv 2004.08249); the 1/√N of GPT-2, Radford and
# others, 2019. Next, lesson 05 puts a learned gate on the branch, so that a stack can begin with none of this.

# %%
summary("04")

# %% [markdown]
# ## Next
#
# - [Lesson 05](05_layer_scale.ipynb) puts a learned gate on the branch.
# - [Homework for lessons 04 and 05](homework/hw_04_05.ipynb), once you have done lesson 05.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
