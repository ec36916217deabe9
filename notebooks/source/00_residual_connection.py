# %% [markdown]
# # 00 · The residual connection, step by step
#
# 75 minutes. You need PyTorch's tensors and `backward()`; the rest is made here, and nothing is downloaded.
#
# At the end you can
# - trace each number of x + g·f(norm(x)) back to where it came from,
# - write the connection in both orders, pre-norm and post-norm,
# - say what an input's gradient sums to before `backward()` has run,
# - repair a stack of 64 connections that floods.

# %% [markdown]
# ## Two lines, four letters
#
# A stream of numbers x runs through a network. A **branch** looks at it, and what the branch says is added:
#
# $$\text{pre-norm:}\quad x \leftarrow x + g \cdot f(\mathrm{norm}(x)) \qquad\qquad
# \text{post-norm:}\quad x \leftarrow \mathrm{norm}(x + g \cdot f(x))$$
#
# **Every topic of this course is a choice of one letter.**
#
# | letter | what may stand there | lesson |
# |---|---|---|
# | norm | LayerNorm, RMSNorm, a norm that listens to a condition | 02, 06 |
# | f, the layer | two linear maps, attention, a very long convolution, a state space | 07, 08 |
# | g, the gate | 1; a coin for each number; a coin for each sample; a learned number; 0 | 03, 05, 06 |
# | placement | pre or post | 04 |

# %%
import torch
from matplotlib.figure import Figure
from torch import nn

from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.explorers.residual_connection import explore_stack
from residual_edu.lesson import predict, progress, setup, show, summary
from residual_edu.parts.residual import post_norm_residual, pre_norm_residual
from residual_edu.plotting import residual_connection as draw

device = setup()
progress("00")

# %% [markdown]
# ## One token, four numbers
#
# A token, the row of numbers that stands for one word, has the features 1, 2, 3, 4. The branch normalises them and asks
# f. Then a coin is thrown for each of f's four answers: one in ten is dropped, the others are divided by 0.9. Say the
# third coin is the unlucky one.
#
# This lesson grew out of a demo that printed such a connection in eight steps. It drew its f without a seed, so that f
# is lost; but the demo printed what f said: 0.0744, -0.3077, -0.0528, -0.0717. Here another f is drawn, and its last
# bias shifted until it says the same.

# %% tags=["predict"]
guess = predict("The third is 3, and its branch is dropped. What leaves?", ["0", "3", "3.33"])

token = torch.tensor([1.0, 2.0, 3.0, 4.0])
normed = (token - token.mean()) / token.std()
first, second = nn.Linear(4, 8), nn.Linear(8, 4)
hidden = torch.relu(first(normed))
second.bias.data += torch.tensor([0.0744, -0.3077, -0.0528, -0.0717]) - second(hidden)
answer = second(hidden)
gated = answer / 0.9 * torch.tensor([1, 1, 0, 1])

# %% tags=["reveal"]
# Answer first, then run this cell.
fig = Figure(figsize=(6, 4.6))
stages = [stage.tolist() for stage in (token, normed, hidden, answer, gated)]
ax = draw.plot_connection(*stages, fig.add_subplot())
ax.set_title("x goes straight through; the branch only adds")
show(
    fig,
    alt="Four numbers cross the picture in a straight stream. Below it a branch normalises "
    "them, sends them through f and a gate, and adds: 1 becomes 1.08, 2 becomes 1.66, 4 "
    "becomes 3.92. The third is dropped, and 3 stays 3.",
)
guess.reveal("3")
assert (token + gated)[2] == 3

# %% [markdown]
# Read it from the right. 1.08 is 1 + 0.08; 0.08 is 0.0744 / 0.9; and 0.0744 is what f made of all four normalised
# numbers together. The third number lost its branch and still arrived. A layer may fail, be dropped, or have nothing to
# say: x gets through.
#
# The rest of the lesson takes this picture apart, in the demo's eight steps.

# %% [markdown]
# ## Step 1: the input
#
# Two sentences of three tokens, four features each: the demo's numbers, 1 to 24. Beside them the first 24 primes, for a
# reason that step 2 will show.
#
# ## Step 2: the norm
#
# Subtract the mean of a token's features, divide by their standard deviation. Two learned vectors follow, `alpha` and
# `bias`; they begin as ones and zeros, so that for now they do nothing. Below is the demo's class, its arguments
# checked.

# %% tags=["predict"]
x = torch.arange(1.0, 25.0).view(2, 3, 4).to(device)
primes = [n for n in range(2, 90) if all(n % k for k in range(2, n))]
primes = torch.tensor(primes, dtype=torch.float32).view(2, 3, 4).to(device)
guess = predict("Six tokens enter the norm. How many different ones leave?", ["6", "2", "1"])

# %% tags=["promote:parts/layer_norm"]
import torch
from torch import nn


class LayerNormalization(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.alpha = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        # x: ..., channels
        mean = x.mean(dim=-1, keepdim=True)
        std = x.std(dim=-1, keepdim=True)
        return self.alpha * (x - mean) / (std + self.eps) + self.bias


# %% [markdown]
# The demo printed all six results and went on. Look at them.

# %% tags=["reveal"]
# Answer first, then run this cell.
norm = LayerNormalization(4).to(device)
rows = norm(x).flatten(0, 1).detach().cpu()
one = torch.tensor([-1.1619, -0.3873, 0.3873, 1.1619])
assert torch.allclose(rows, one.expand(6, 4), atol=1e-4)

fig = Figure(figsize=(6, 3.3))
left, right = fig.subplots(1, 2)
draw.plot_tokens(x.flatten(0, 1).tolist(), left).set_title("Six tokens before the norm")
draw.plot_tokens(rows.tolist(), right).set_title("All six are one after it")
show(
    fig,
    alt="Left: six parallel rising lines, one for each token, from 1 2 3 4 up to 21 22 23 24. "
    "Right: after the norm all six lie on one line, from -1.16 to 1.16.",
)
guess.reveal("1")

# %% [markdown]
# Each of these tokens rises by one from feature to feature. The norm takes out where a token stands and how large it
# is, and nothing is left to tell them apart. So the demo asked its f a single question, six times. The primes ask six.

# %%
rows = norm(primes).flatten(0, 1).detach().cpu()
print(rows)
assert len(rows.round(decimals=2).unique(dim=0)) == 6
assert torch.allclose(norm(3 * primes + 7), norm(primes), atol=1e-4)
assert abs(nn.LayerNorm(4, device=device)(x).max() - 1.3416) < 1e-4

# %% [markdown]
# **Law.** norm(a·x + c) = norm(x), for any a above 0 and any c. Keep the c in mind; step 7 lives on it.
#
# A footnote: where this class gives 1.1619, `nn.LayerNorm` gives 1.3416, because the demo's standard deviation divides
# by n - 1. Lesson 02 shows why the course's own `LayerNorm` is PyTorch's. In a residual connection either will do.

# %% [markdown]
# ## Step 3: the layer f
#
# Two linear maps with a ReLU between, for each token by itself. It gets the weights from the picture.


# %% tags=["promote:parts/mlp"]
import torch
from torch import nn


class SimpleFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        # x: ..., channels
        return self.linear2(torch.relu(self.linear1(x)))


# %%
f = SimpleFeedForward(4, 8)
f.linear1, f.linear2 = first, second
f = f.to(device)
print(f(norm(x))[0, 0].detach().cpu(), f(norm(primes))[0, 0].detach().cpu())
assert torch.allclose(f(norm(x)), answer.to(device).expand(2, 3, 4), atol=1e-5)

# %% [markdown]
# ## Step 4: the gate
#
# Dropout throws the coins. The demo showed 24 numbers, one of them zero, and wrote "about 10 %". One in 24 is 4 %, and
# no cause for alarm: exactly one comes up in 24 × 0.1 × 0.9²³ = 21 % of all runs. To see a rate, throw 100,000 coins.

# %% tags=["predict"]
guess = predict("A tenth of 100,000 ones becomes 0. And their mean?", ["it falls", "it stays"])

# %% tags=["reveal"]
# Answer first, then run this cell.
ones, dropout = torch.ones(100_000, device=device), nn.Dropout(0.1)
for seed in range(3):
    torch.manual_seed(seed)
    dropped = dropout(ones)
    assert abs((dropped == 0).float().mean() - 0.1) < 0.004  # four standard deviations
    assert abs(dropped.mean() - 1) < 0.005
print(dropped.unique().cpu())
guess.reveal("it stays")
assert dropout.eval()(ones).equal(ones)
assert [round(v / 0.9, 4) for v in (0.0744, -0.3077)] == [0.0827, -0.3419]

# %% [markdown]
# The kept ones became 1.1111 = 1 / 0.9, and that is why the mean stays, to half a percent. The demo shows it: f said
# 0.0744, dropout handed on 0.0827. For a network in use there is `eval()`, which the demo never called: every
# number stays as it is.
#
# ## Step 5: the sum
#
# Now x comes back, unchanged. Here is the demo's first token, of which no number was dropped, and beside it how long x
# and the branch are, as vectors.

# %%
added = token + answer / 0.9
print(added.detach(), f"x: {token.norm():.2f}, the branch: {(answer / 0.9).norm():.2f}")
assert torch.allclose(added, torch.tensor([1.0827, 1.6581, 2.9413, 3.9203]), atol=1e-4)

# %% [markdown]
# The branch is 7 % of the stream: at the start of training it is a suggestion, not a replacement.
#
# ## Step 6: end to end
#
# The two lines of the beginning have names in this course: `pre_norm_residual(x, f, norm, gates)` is x + g(f(norm(x))),
# `post_norm_residual(x, f, norm, gates)` is norm(x + g(f(x))), and `gates` is a list of what f's answer passes through,
# here dropout alone. Lesson 04 weighs the two; here they make the whole class.


# %% tags=["promote:parts/residual"]
from torch import nn

from residual_edu.parts.residual import post_norm_residual, pre_norm_residual


class ResidualConnection(nn.Module):
    def __init__(self, features, dropout, placement="pre"):
        super().__init__()
        self.placement = placement
        self.dropout = nn.Dropout(dropout)
        self.norm = LayerNormalization(features)

    def forward(self, x, sublayer):
        # x: ..., channels
        residual = pre_norm_residual if self.placement == "pre" else post_norm_residual
        return residual(x, sublayer, self.norm, [self.dropout])


# %%
connection = ResidualConnection(4, dropout=0.1).to(device)
noisy = [connection(primes, f) for _ in range(2)]
assert not noisy[0].equal(noisy[1])
connection.eval()
assert connection(primes, f).equal(primes + f(norm(primes)))
print(list(connection.state_dict()))

# %% [markdown]
# In training no two calls agree; after `eval()` the class is the equation to the last bit. f is an argument, so its
# weights are not among the connection's own: keep f somewhere, or your optimiser will not find it.
#
# Post-norm is the same three parts in another order, the one of the first Transformer.

# %% tags=["predict"]
guess = predict("norm(x + f(x)) for 2 3 5 7: its four numbers sum to", ["17", "near 17", "0"])

# %% tags=["reveal"]
# Answer first, then run this cell.
post = ResidualConnection(4, dropout=0.1, placement="post").to(device).eval()
before, after = (layer(primes, f)[0].detach().cpu() for layer in (connection, post))
print(before, after, sep="\n")
assert after.sum(-1).abs().max() < 1e-5
assert torch.allclose(after.std(-1), torch.ones(3), atol=1e-4)
guess.reveal("0")

# %% [markdown]
# In the rows of pre-norm the primes are still legible. In those of post-norm they are not: there the norm stands on the
# stream itself, and every token leaves with mean 0 and spread 1.

# %% [markdown]
# ### Exercise 1 · 3 minutes · ●○○○○
# Write pre-norm from its three parts. Each of `sublayer`, `norm` and `dropout` is a function of one tensor.
# <details><summary>Hint 1</summary>Read the branch from the inside out: which part sees x first?</details>
# <details><summary>Hint 2</summary>branch = dropout(sublayer(norm(x))), and then one addition.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "residual-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def residual_forward(x, sublayer, norm, dropout):
    """Return x with what the branch says about it added, pre-norm."""
    ### BEGIN SOLUTION
    return x + dropout(sublayer(norm(x)))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "residual-forward-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(residual_forward, "residual_forward")

# %% [markdown]
# ### Exercise 2 · 3 minutes · ●●○○○
# The same three parts in post-norm's order, each used once. (The comment in the demo left one of them out.)
# <details><summary>Hint 1</summary>Which part comes last now?</details>
# <details><summary>Hint 2</summary>Add first, x + dropout(sublayer(x)), then hand the sum to the norm.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "post-norm-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def post_norm_forward(x, sublayer, norm, dropout):
    """Return x with what the branch says about it added, post-norm."""
    ### BEGIN SOLUTION
    return norm(x + dropout(sublayer(x)))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "post-norm-forward-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(post_norm_forward, "post_norm_forward")

# %% [markdown]
# ## Step 7: the gradient
#
# The demo drew a random x, ran `out.sum().backward()`, and printed the gradient of one token: 0.8409, 0.8771, 0.7823,
# 1.4997. It looks like nothing in particular. It sums to 4.0000.

# %% tags=["predict"]
guess = predict("Another token, other weights: its sum?", ["anything", "near 4", "4"])


# %% tags=["reveal"]
# Answer first, then run this cell.
def input_gradient(x, *branches, placement="pre"):
    """Return the gradient of out.sum() at x, through one connection for each branch."""
    connection = ResidualConnection(x.shape[-1], dropout=0.0, placement=placement).to(x)
    leaf = x.detach().clone().requires_grad_()
    out = leaf
    for branch in branches:
        out = connection(out, branch)
    return torch.autograd.grad(out.sum(), leaf)[0]


assert round(0.8409 + 0.8771 + 0.7823 + 1.4997, 4) == 4
for seed in range(3):
    torch.manual_seed(seed)
    tokens = torch.randn(2, 3, 4).to(device)
    sums = input_gradient(tokens, SimpleFeedForward(4, 8).to(device)).sum(-1)
    assert torch.allclose(sums, torch.full_like(sums, 4.0), atol=1e-4)
guess.reveal("4")

# %% [markdown]
# Eighteen tokens, three networks, always 4: the number of features. Why? Add a small c to all features of a token. The
# norm does not see it (step 2), so f says the same as before, and each of the 4 outputs moves by c. Their sum moves by
# 4c.
#
# **Law.** A shift of x comes out of pre-norm as the same shift. Now put 64 connections one after another.

# %% tags=["predict"]
guess = predict("64 connections: one token's gradient sums to", ["4", "4 × 64", "2 to the 64"])

# %% tags=["reveal"]
# Answer first, then run this cell.
assert torch.allclose(connection(primes + 5, f), connection(primes, f) + 5, atol=1e-4)

branches = [SimpleFeedForward(4, 8).double() for _ in range(64)]
tokens = torch.randn(6, 4, dtype=torch.float64)
sums = input_gradient(tokens, *branches).sum(-1)
assert torch.allclose(sums, torch.full_like(sums, 4.0), atol=1e-9)
guess.reveal("4")
assert input_gradient(tokens, *branches, placement="post").abs().max() < 1e-9

# %% [markdown]
# A shift passes through any number of them. And post-norm, in the last line? Its gradient is 0, every entry. Nothing
# has vanished: what leaves a norm sums to 0, so `out.sum()` is a constant. Never test a post-norm network with it.

# %% [markdown]
# ### Exercise 3 · 3 minutes · ●●○○○
# Ten pre-norm connections of width 64, and the loss is `3 * out.sum()`. Return what the gradient of one token sums to,
# without running it.
# <details><summary>Hint 1</summary>Add a small c to all 64 features. By how much does each number of out
# move?</details>
# <details><summary>Hint 2</summary>Each of the 64 numbers moves by c, at any depth. By how much does the
# loss?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "input-gradient-sum", "locked": false, "schema_version": 3, "solution": true, "task": false}
def input_gradient_sum():
    """Return the sum of one token's 64 gradients."""
    ### BEGIN SOLUTION
    return 3 * 64
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "input-gradient-sum-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(input_gradient_sum, "input_gradient_sum")

# %% [markdown]
# Under its gradient the demo wrote "non-zero even if the sublayer gradient vanishes". Then let it vanish: a gate g on
# the branch, from 1 down to 0, with the skip and without it.


# %% tags=["predict"]
def gate_gradients(skip):
    """Return the gradient of out.sum() at three small tokens: (gates, entries)."""
    gates = torch.linspace(0, 1, 11, device=device)[:, None, None]
    leaf = (0.1 * norm(primes[0])).expand(11, 3, 4).detach().clone().requires_grad_()
    out = skip * leaf + gates * f(norm(leaf))
    return torch.autograd.grad(out.sum(), leaf)[0].flatten(1).cpu()


kept, lost = gate_gradients(skip=1), gate_gradients(skip=0)
guess = predict("g = 0, with the skip: each entry of the gradient is", ["0", "1", "different"])

# %% tags=["reveal"]
# Answer first, then run this cell.
fig = Figure(figsize=(6, 3.6))
ax = draw.plot_gate_gradients(torch.linspace(0, 1, 11), kept, lost, fig.add_subplot())
ax.set_title("A silent branch leaves a gradient of 1, not of 0")
show(
    fig,
    alt="Entries of the input's gradient against the gate g. With the skip, straight lines fan "
    "out from exactly 1 at g = 0; without it, the same fan starts at 0.",
)
guess.reveal("1")
assert (kept[0] == 1).all() and (lost[0] == 0).all()
assert torch.allclose(kept - 1, lost, atol=1e-5)
assert (input_gradient(primes, *[lambda x: 0 * f(x)] * 64) == 1).all()  # and at depth 64

# %% [markdown]
# **Law.** For `out.sum()`, gradient = 1 + g · (what comes through the branch), and the 1 asks nothing of the branch.
# With another loss the 1 is whatever arrives at the output. Is it enough?

# %% [markdown]
# ## Step 8: with and without, 64 times
#
# The demo compared one connection with none. What skips are for shows in a stack. The input is real now: 32 handwritten
# digits, 64 pixels each, normalised. A random gradient is put in at the end, and two sizes are measured against what
# was put in: the signal at the end, and the gradient that comes back. All of it in float64; you will see why.

# %%
DEPTHS = [2, 4, 8, 16, 32, 64]
pixels = digits().train_images[:32].flatten(1).double()
images = LayerNormalization(64).double()(pixels).detach()


def run_stack(step, layers):
    """Return what a stack makes of the images, and the sizes of signal and gradient."""
    leaf = images.clone().requires_grad_()
    out = leaf
    for layer in layers:
        out = step(out, layer, len(layers))
    probe = torch.randn_like(images)
    gradient = torch.autograd.grad((out * probe).sum(), leaf)[0]
    return out.detach(), out.detach().norm() / images.norm(), gradient.norm() / probe.norm()


# %% [markdown]
# Three seeds, six depths. The weights are those that PyTorch draws, and one thing differs: the skip.


# %% tags=["predict"]
def sweep(make, steps):
    """Return signal and gradient: for each step's name its sizes, (seeds, depths)."""
    found = {name: torch.empty(2, 3, len(DEPTHS), dtype=torch.float64) for name in steps}
    for seed in range(3):
        torch.manual_seed(seed)
        layers = [make(64, 64).double() for _ in range(max(DEPTHS))]
        for name, step in steps.items():
            sizes = [run_stack(step, layers[:depth])[1:] for depth in DEPTHS]
            found[name][:, seed] = torch.tensor(sizes, dtype=torch.float64).T
    return [{name: both[part] for name, both in found.items()} for part in (0, 1)]


steps = {"f(x)": lambda x, f, depth: f(x), "x + f(x)": lambda x, f, depth: x + f(x)}
signal, gradient = sweep(SimpleFeedForward, steps)
guess = predict("64 times f, no skip: a gradient of 1 comes back as", ["0.1", "1e-6", "1e-40"])


# %% tags=["reveal"]
# Answer first, then run this cell.
def show_depths(title, alt, laws=()):
    """Show signal and gradient against depth, side by side."""
    fig = Figure(figsize=(6, 4))
    left, right = fig.subplots(1, 2, sharey=True)
    draw.plot_depths(DEPTHS, signal, left, laws)
    left.set_title("signal at the end", weight="normal")
    draw.plot_depths(DEPTHS, gradient, right, laws)
    right.set_title("gradient at the input", weight="normal")
    left.set_ylabel("size, against what was put in")
    draw.label_ends(right)
    fig.suptitle(title, x=0.01, ha="left", weight="bold")
    show(fig, alt=alt)


show_depths(
    "Without the skip a tenth of the signal is left, and no gradient",
    "Signal and gradient against depth, on log scales, three seeds. Left: f alone keeps the "
    "signal near a tenth, x + f(x) lets it grow to 5. Right: the gradient of f alone falls to "
    "1e-41, that of x + f(x) grows to 5.",
)
guess.reveal("1e-40")
assert (gradient["f(x)"][:, -1] < 1e-39).all()
assert ((gradient["x + f(x)"] > 1) & (gradient["x + f(x)"] < 10)).all()

# %% [markdown]
# The right side: the square of PyTorch's weights is 1/(3n) on average, n being the width, so each of f's two maps keeps
# a third of the square, and the ReLU between them a half. A layer keeps 1/18 of the square, 64 of them 18⁻³² of the
# size. That is 7e-41, below the normal range of float32. The left side is a trap. A tenth of the signal is left: **does
# it still say which digit came in?**

# %%
torch.manual_seed(0)
out = run_stack(steps["f(x)"], [SimpleFeedForward(64, 64).double() for _ in range(64)])[0]
apart = (out - out.mean(0)).norm() / out.norm()
print("All 32 digits leave as the same vector:", bool(apart < 1e-14))
assert signal["f(x)"][:, -1].min() > 0.05 and apart < 1e-14

# %% [markdown]
# No. What is left is the biases talking to themselves. The size of a signal does not say what it carries; that is why
# this course looks at gradients.
#
# ### Exercise 4 · 10 minutes · ●●●○○
# Find the depth. `layers` is a list of functions and `x` a tensor; send x through the first 1, 2, 3, ... of them,
# without skips. Return the smallest number of layers for which every entry of the gradient of `out.sum()` at x is below
# 1e-6 in size, or None if there is none.
# <details><summary>Hint 1</summary>For one depth: a fresh copy of x, that many layers, backward() from the sum, the
# gradient's largest entry.</details>
# <details><summary>Hint 2</summary>for depth in range(1, len(layers) + 1), in it leaf = x.clone().requires_grad_(),
# then layers[:depth].</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "depth-to-find", "locked": false, "schema_version": 3, "solution": true, "task": false}
def depth_to_find(layers, x):
    """Return the smallest depth at which the gradient is below 1e-6, or None."""
    ### BEGIN SOLUTION
    for depth in range(1, len(layers) + 1):
        leaf = x.detach().clone().requires_grad_()
        out = leaf
        for layer in layers[:depth]:
            out = layer(out)
        gradient = torch.autograd.grad(out.sum(), leaf)[0]
        if gradient.abs().max() < 1e-6:
            return depth
    return None
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "depth-to-find-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check(depth_to_find, "depth_to_find")

# %% [markdown]
# ## Is the skip enough?
#
# PyTorch's weights are small: what f says is a quarter as large as what it is asked. The rule of Kaiming He draws them
# so that f(x) is as large as x, and a stack without skips need not dry out. That sounds better. Now add the skip.


# %% tags=["predict"]
def he(width, hidden):
    """Return f with He's weights: what it says is, on average, as large as what it is asked."""
    f = SimpleFeedForward(width, hidden)
    for linear, before in ((f.linear1, "linear"), (f.linear2, "relu")):
        nn.init.kaiming_normal_(linear.weight, nonlinearity=before)
        nn.init.zeros_(linear.bias)
    return f


unit = LayerNormalization(64).double()
steps["x + f(norm(x))"] = lambda x, f, depth: x + f(unit(x))
steps["x + f(x)/√L"] = lambda x, f, depth: x + f(x) / depth**0.5
signal, gradient = sweep(he, steps)
guess = predict("How large is the signal after 64 times x + f(x)?", ["1", "8", "64", "4e9"])

# %% tags=["reveal"]
# Answer first, then run this cell.
laws = {
    "x + f(x)": [2 ** (depth / 2) for depth in DEPTHS],
    "x + f(norm(x))": [(1 + depth) ** 0.5 for depth in DEPTHS],
    "x + f(x)/√L": [(1 + 1 / depth) ** (depth / 2) for depth in DEPTHS],
}
show_depths(
    "The skip alone floods; a norm or a gate of 1/√L holds it",
    "Signal and gradient against depth with He's weights. x + f(x) doubles in square with each "
    "connection and ends near 4e9; x + f(norm(x)) ends at 8, x + f(x)/√L at 1.6; f alone "
    "shrinks towards 0.1. Dotted laws lie on them.",
    laws.values(),
)
guess.reveal("4e9")
within = {"x + f(x)": (16, 3), "x + f(norm(x))": (64, 1.4), "x + f(x)/√L": (64, 1.3)}
for sizes in (signal, gradient):
    for name, (depth, factor) in within.items():
        ratio = sizes[name][:, DEPTHS.index(depth)] / laws[name][DEPTHS.index(depth)]
        assert ((ratio > 1 / factor) & (ratio < factor)).all()
    assert (sizes["x + f(x)"][:, -1] > 1e8).all()

# %% [markdown]
# x and f(x) have nothing to do with each other, so their squares add: 1 + 1 = 2. Sixty-four doublings of the square are
# 2³² = 4e9 in size. **The skip made it explode**, and two letters can hold it:
#
# - the **norm** makes every branch add 1 to the square, however large x is: 1 + 64, and √65 = 8;
# - the **gate** 1/√L makes it add one 64th of the square each time: (1 + 1/64)⁶⁴ is nearly e, and √e = 1.65 at any
#   depth.
#
# And f alone? With He's weights it loses a factor between 3 and 12, not of 1e40. Are skips a matter of size, then?
# Compare how alike two different digits are, before and after 64 layers: the cosine of the angle between them.


# %%
def likeness(out):
    """Return the mean cosine between two different rows."""
    rows = out / out.norm(dim=-1, keepdim=True)
    return ((rows @ rows.T).sum() - len(rows)) / (len(rows) * (len(rows) - 1))


for seed in range(3):
    torch.manual_seed(seed)
    layers = [he(64, 64).double() for _ in range(64)]
    alike = {name: likeness(run_stack(step, layers)[0]) for name, step in steps.items()}
    assert 0.49 < likeness(images) < 0.52 and alike["f(x)"] > 0.98 and alike["x + f(x)"] > 0.8
    assert 0.65 < alike["x + f(norm(x))"] < 0.9 and 0.5 < alike["x + f(x)/√L"] < 0.7
print(f"the input: {likeness(images):.1f}")
print("\n".join(f"{name}: {value:.1f}" for name, value in alike.items()))

# %% [markdown]
# Without a skip all digits turn into nearly one direction, at any size. A skip that floods lets them come close too, to
# between 0.8 and 1 over three seeds. With a gate of 1/√L, or less well with a norm, they stay apart.

# %% [markdown]
# ## Find the rule yourself
#
# Below, the same experiment, moving: signal from left to right, gradient from right to left. With the norm off, **find
# the largest gate for which 64 connections hold**, both sizes within a factor of 2. Then for 16, and for 4. Each setting
# that you try stays on the map to the right, a dot if it holds. What do the three gates have in common? (Click a slider,
# then use the arrow keys.)

# %% tags=["explorer"]
explore_stack()

# %% [markdown]
# <details><summary>Answer</summary>0.125 at depth 64, 0.275 at 16, 0.575 at 4: four times the depth, half the gate. The
# gate times √L stays near 1, so the gate that holds is about 1/√L. Now, the norm still off, switch the skip off and look
# for a gate that holds at depth 64. There is none on the slider: without a skip even 1 shrinks. With it, every gate from
# 0 up to 0.125 does.
# </details>
#
# ## True or false?
#
# - A skip keeps a deep stack from exploding. <details><summary>Answer</summary>False. x + f(x) with f as large as x
#   doubles its square each time; the norm or the gate is what holds it.</details>
# - If the branch's gradient vanishes, so does the input's. <details><summary>Answer</summary>False. It is exactly what
#   arrived at the output, 1 for `out.sum()` (step 7).</details>
# - A signal that keeps its size still carries its input. <details><summary>Answer</summary>False. 64 plain layers keep
#   a tenth of the size and nothing of the digit.</details>
# - Dropout may drop part of x. <details><summary>Answer</summary>False here: its coins fall on the branch. Lesson 03
#   puts them on the stream and measures the damage.</details>

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | norm(a·x + c) = norm(x) | six tokens, one row: -1.1619, -0.3873, 0.3873, 1.1619 | a > 0, eps small beside the spread |
# | kept numbers grow by 1/(1 - p) | 0.0744 became 0.0827; 100,000 ones kept their mean within 0.005 | training; `eval()` changes nothing |
# | pre-norm: one token's gradient of `out.sum()` sums to its features | 4.0000, at depth 1 and 64 | any f, any depth |
# | post-norm: the same gradient is 0 | below 1e-9 | while `alpha` is all ones |
# | gradient = 1 + g · (branch's gradient) | exactly 1 at g = 0 | any branch; the loss is `out.sum()` |
# | f alone: the gradient falls by √18 = 4.2 a layer | 1e-41 at depth 64 | PyTorch's weights at the start of training |
# | x + f(x): size 2^(L/2) | 256 within a factor of 3 at depth 16, above 1e8 at 64 | He's weights, f independent of x, at the start |
# | x + f(norm(x)): size √(1 + L) | near 8 at depth 64 | the same |
# | x + f(x)/√L: size near √e at any depth | 1.65 within 30 % at depth 64 | the same |
#
# Each repair was a choice of one letter: norm, or g. Lesson 01 measures what flows through such a stack place by place,
# 02 and 03 take apart the norm and the coins, 04 moves the norm, 05 and 06 let the network learn g, and from 07 on f
# becomes whatever lets positions talk to each other. The two lines stay.

# %%
summary("00")

# %% [markdown]
# ## Next
#
# - [Lesson 01](01_gradient_flow.ipynb) measures signal and gradient at every place of such a stack.
# - [Homework for lessons 00 and 01](homework/hw_00_01.ipynb), once you have done lesson 01.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
