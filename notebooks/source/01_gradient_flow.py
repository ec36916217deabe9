# %% [markdown]
# # 01 · Gradient flow: three curves
#
# 95 minutes. Of [lesson 00](00_residual_connection.ipynb) it needs what the skip brings to the gradient, and what keeps
# a deep stack from exploding.
#
# By the end you can
#
# - **read** three curves along a network, and say which of them shows a vanishing gradient and which one hides it;
# - **compute** a delta and a weight gradient by hand;
# - **place** a hook, and take it away again whatever happens;
# - **separate** what came back along a skip from what came back through its branch.

# %% [markdown]
# ## Before we start: three questions on lesson 00
#
# Answer aloud, then open.
#
# <details><summary>1. 64 plain layers keep a tenth of the signal's size. What else would you ask of it?</summary>Whether
# it still says what came in. It did not: all digits left as the same vector.</details>
#
# <details><summary>2. A gate g on the branch: what is the gradient of the input when g = 0?</summary>Exactly what was put
# in at the end. The skip brings it, and asks nothing of the branch.</details>
#
# <details><summary>3. Why does a skip alone flood, and which two letters hold it?</summary>Each branch adds something as
# large as what it is handed. A norm before the branch holds it, or a gate of about 1/√L.</details>

# %%
from contextlib import contextmanager, suppress

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn.functional import cross_entropy

from residual_edu.datasets import digits
from residual_edu.exercises import check
from residual_edu.explorers.gradient_flow import explore_gradient_flow
from residual_edu.gradient_flow.step import remove
from residual_edu.lesson import holds, predict, progress, setup, show, summary
from residual_edu.parts import layer_norm
from residual_edu.plotting import three_curves as plots
from residual_edu.plotting.stream import plot_stream
from residual_edu.training import accuracy, minibatches, train

device = setup()
progress("01")

# %% [markdown]
# ## A picture to distrust
#
# Thirty-two layers, each a linear map of 64 numbers and a GELU, no biases, no skips, fresh from PyTorch. Sixty-four
# handwritten digits go in, a loss comes out, `backward()` runs. The usual health check looks at the gradient in each
# layer's weights. **At which end of the stack will it be smaller?**


# %% tags=["predict"]
class Block(nn.Module):
    """A layer, and how it is wired to the stream that passes it."""

    def __init__(self, layer, wiring):
        super().__init__()
        self.layer, self.wiring = layer, wiring

    def forward(self, x):
        return self.wiring(x, self.layer)


def stack(wiring, depth=32, bias=False, activation=nn.GELU, seed=0):
    """Return blocks that are all wired one way, and behind them a linear map to ten classes."""
    torch.manual_seed(seed)
    layers = [nn.Sequential(nn.Linear(64, 64, bias=bias), activation()) for _ in range(depth)]
    blocks = [Block(layer, wiring) for layer in layers]
    return nn.Sequential(*blocks, nn.Linear(64, 10, bias=bias)).double().to(device)


def plain(x, f):
    return f(x)


guess = predict("The smaller weight gradient stands at", ["the first layer", "the last layer", "neither"])

# %% tags=["reveal"]
# Answer first, then run this cell.
data = digits()
images = layer_norm(data.train_images[:64].flatten(1).double()).to(device).requires_grad_()
labels = data.train_labels[:64].to(device)

found = torch.empty(3, 32)
for seed in range(3):
    model = stack(plain, seed=seed)
    cross_entropy(model(images), labels).backward()
    gradients = [block.layer[0].weight.grad for block in model[:-1]]
    found[seed] = torch.tensor([gradient.square().mean().sqrt() for gradient in gradients])

fig = Figure()
ax = plots.plot_three_curves({"weight gradient": found}, fig.add_subplot())
ax.set(title="32 layers: no layer has a smaller gradient", ylim=(1e-21, 1))
ax.text(16, 4e-18, "weight gradient, three seeds", color=plots.COLORS["weight gradient"], weight="bold", ha="center")
show(
    fig,
    alt="The root mean square of the gradient in each layer's weights, for three seeds: three flat lines near 1e-19 "
    "from the first of 32 layers to the last.",
)
guess.reveal("neither")
ends = found[:, [0, -1]].log10()
assert ((ends > -19.3) & (ends < -18.6)).all() and (found.amax(1) / found.amin(1) < 3).all()

# %% [markdown]
# Flat, near 1e-19 at both ends, for three seeds. (That is a root mean square. As one norm over a layer's 4,096 weights
# it is 64 times as much: about 10 to the −17.) Tiny, but nothing shrinks on the way. So no gradient vanishes here, it
# is merely small, and a large learning rate would do?
#
# It would not, and this picture cannot tell you. To see why, take a network that fits in your head.

# %% [markdown]
# ## Three layers, one number each
#
# 8 goes in. Each layer multiplies by its weight, and each weight is 1/2, so the stream reads 8, 4, 2, 1. The loss is
# the last number itself. **Which of the three weights has the largest gradient?** Work it out: move a weight by a
# little, and see how far the end moves.

# %% tags=["predict"]
guess = predict("8 → 4 → 2 → 1: the largest gradient is that of", ["the first", "the last", "all are equal"])


# %% tags=["reveal"]
# Answer first, then run this cell.
def chain(weights, x=8.0, bias=0.0, skip=0.0):
    """Send one number through layers skip·x + w·x + bias, and print activation, delta and weight gradient."""
    stream = [torch.tensor(x, requires_grad=True)]
    weights = [torch.tensor(w, requires_grad=True) for w in weights]
    for w in weights:
        stream.append(skip * stream[-1] + w * stream[-1] + bias)
        stream[-1].retain_grad()
    stream[-1].backward()
    print("activation     ", *[f"{place.item():7.3f}" for place in stream])
    print("delta          ", *[f"{place.grad.item():7.3f}" for place in stream])
    print("weight gradient    ", *[f"{w.grad.item():7.3f}" for w in weights])
    return [place.item() * place.grad.item() for place in stream], [w.grad.item() for w in weights]


products, gradients = chain([0.5, 0.5, 0.5])
guess.reveal("all are equal")
assert gradients == [2.0, 2.0, 2.0] and products == [1.0, 1.0, 1.0, 1.0]

# %% [markdown]
# Three rows, three names.
#
# - The **activation** is the stream itself: 8, 4, 2, 1.
# - The **delta** is the gradient of the loss with respect to the stream: how far the end moves when this place moves by
#   1. Read it from the right: 1, 1/2, 1/4, 1/8.
# - The **weight gradient** is the activation before the layer times the stream gradient after the block: 8 · 1/4, then 4 · 1/2, then
#   2 · 1. Always 2.
#
# Autograd forgets the deltas of inner places, to save memory; `retain_grad()` asks it to keep one.
#
# So the delta does vanish, by half a layer, and the weight gradient hides it: the first weight has a small delta and a
# large activation, the last has them the other way round. What the stream lost on its way here, the delta has still
# to lose.
#
# ### From one number to a row
#
# With 64 features the product becomes an outer product: weight (i, j) leads from feature j to feature i, so its
# gradient is the delta at i times the activation at j, summed over the samples of the batch.

# %%
for seed in range(3):
    torch.manual_seed(seed)
    x, layer = torch.randn(5, 3).to(device), nn.Linear(3, 2).to(device)
    out = layer(x)
    out.retain_grad()
    out.square().sum().backward()
    by_hand = sum(torch.outer(delta, row) for delta, row in zip(out.grad, x, strict=True))
    assert torch.allclose(layer.weight.grad, by_hand, atol=1e-5)
print("five outer products of", list(out.grad[0].shape), "and", list(x[0].shape), "make", list(by_hand.shape))

# %% [markdown]
# **Law.** Weight gradient = delta × activation, summed over the batch. Where one is small and the other large, you see
# neither.

# %% [markdown]
# ### Exercise 1 · 5 minutes · ●●○○○
#
# Write it without the loop: `x` is `(batch, inputs)`, `delta` is `(batch, outputs)`, and the gradient has the shape of
# `nn.Linear`'s weight, `(outputs, inputs)`.
#
# <details><summary>Hint 1</summary>Which axis is summed over? A matrix product sums over the axis that its two factors
# share.</details>
# <details><summary>Hint 2</summary>Turn delta around: (outputs, batch) times (batch, inputs).</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "weight-gradient", "locked": false, "schema_version": 3, "solution": true, "task": false}
def weight_gradient(x, delta):
    """Return the gradient of a linear layer's weight from the activation before it and the stream gradient after the block."""
    ### BEGIN SOLUTION
    return delta.T @ x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "weight-gradient-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(weight_gradient, "weight_gradient")

# %% [markdown]
# ### A bias changes the picture
#
# Now each layer adds 1 after halving: 8, 5, 3.5, and so on. The deltas do not notice, for a constant has no slope.
# **After six such layers, does the weight gradient still hide what the delta does?**

# %% tags=["predict"]
guess = predict("Six layers x/2 + 1: the weight gradient", ["is flat", "shrinks towards the input"])

# %% tags=["reveal"]
# Answer first, then run this cell.
products, gradients = chain([0.5] * 6, bias=1.0)
assert gradients[0] == 8 / 32 and gradients[-1] > 2
guess.reveal("shrinks towards the input")

# %% [markdown]
# The activations settle at 2, which the layer maps to itself: it is the biases that talk there, as in lesson 00. With one
# factor at rest the product does what the other does, and the weight gradient shows the vanishing delta after all.
#
# The same vanishing, seen in one network and hidden in the other: that is why there are three curves.

# %% [markdown]
# ### Exercise 2 · 8 minutes · ●●●○○
#
# Two linear layers: h = W₁x, y = W₂h, and the loss is ½ Σ (y − target)². Return the delta at h, for any x, without
# autograd.
#
# <details><summary>Hint 1</summary>What is the delta at y? It has no matrix in it.</details>
# <details><summary>Hint 2</summary>y_i holds W₂[i, j] · h_j, so h_j collects W₂[i, j] times the delta at y_i, over all
# i: the transpose of W₂.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "first-delta", "locked": false, "schema_version": 3, "solution": true, "task": false}
def first_delta(x, w1, w2, target):
    """Return the gradient of ½ Σ (w2 @ w1 @ x - target)² with respect to w1 @ x."""
    ### BEGIN SOLUTION
    return w2.T @ (w2 @ (w1 @ x) - target)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "first-delta-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(first_delta, "first_delta")

# %% [markdown]
# ## Hooks
#
# `retain_grad` keeps a whole tensor where we want one number, its size. A **hook** is a function that you leave with a
# tensor; autograd calls it with the gradient when that arrives. It can measure and let go. **In which order will these
# three hooks speak?**

# %%
place = torch.tensor(8.0, requires_grad=True)
for number in (1, 2, 3):
    place = place / 2
    place.register_hook(lambda delta, number=number: print(f"place {number}: delta {delta.item()}"))
place.backward()

# %% [markdown]
# Backwards, of course. Those hooks go when their tensors go, at the end of the step. A second kind stays: a module
# has `register_forward_hook`, called with what the module returns at each call, and there we can leave a tensor hook
# each time.
#
# It returns a handle with a `remove()`. Forget it, and the hook stays as long as the model: run such a cell three times
# and each number is measured three times. A `with` block is the place to put that right.


# %%
@contextmanager
def watch_deltas(blocks):
    """Collect the size of the delta behind each block, the last block first, and leave no hook behind."""
    sizes = []

    def leave_hook(block, args, output):
        output.register_hook(lambda delta: sizes.append(delta.square().mean().sqrt().item()))

    handles = [block.register_forward_hook(leave_hook) for block in blocks]
    try:
        yield sizes
    finally:
        for handle in handles:
            handle.remove()


model = stack(plain)
with watch_deltas(model[:-1]) as sizes:
    cross_entropy(model(images), labels).backward()
print(f"{len(sizes)} deltas; last layer {sizes[0]:.0e}, first layer {sizes[-1]:.0e}")
assert sizes[0] > 5e-4 and sizes[-1] < 1e-18

# %% [markdown]
# There it is: from a thousandth at the end to below 1e-18 behind the first layer, where the weight gradient was flat.
#
# The `finally` is not decoration: it runs however the block is left. Pressing the stop button raises a
# `KeyboardInterrupt`, and next time the cell runs, the model should be as it was.

# %%
for fault in (KeyboardInterrupt, ValueError):
    with suppress(fault), watch_deltas(model[:-1]):
        assert len(model[0]._forward_hooks) == 1
        raise fault
    assert not any(module._forward_hooks for module in model.modules())
print("no hook is left, neither after a KeyboardInterrupt nor after a ValueError")

# %% [markdown]
# ### Exercise 3 · 10 minutes · ●●●○○
#
# Write the forward sibling: `with watch_activations(blocks) as sizes:` collects the root mean square of what each block
# returns, one number a call, and leaves no hook behind, however the block is left.
#
# <details><summary>Hint 1</summary>It needs a forward hook and no tensor hook. What has to be kept, so that it can be
# removed?</details>
# <details><summary>Hint 2</summary>Keep the handles in a list; <code>yield sizes</code> inside <code>try:</code>, and
# remove each handle under <code>finally:</code>.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "watch-activations", "locked": false, "schema_version": 3, "solution": true, "task": false}
@contextmanager
def watch_activations(blocks):
    """Collect the root mean square of each block's output, and leave no hook behind."""
    ### BEGIN SOLUTION
    sizes = []
    handles = [
        block.register_forward_hook(lambda block, args, output: sizes.append(output.square().mean().sqrt().item()))
        for block in blocks
    ]
    try:
        yield sizes
    finally:
        for handle in handles:
            handle.remove()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "watch-activations-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(watch_activations, "watch_activations")

# %% [markdown]
# ## The finished recorder
#
# What the course uses from here on is the same idea, for all three curves and any number of steps. It stands at
# the blocks' two ends, calls `enter` and `leave` as the stream passes, and waits at the same places for the gradient.
# The arithmetic, root mean squares and a table of them, is in `gradient_flow/`, in `sizes.py` and `step.py`. Looking at
# each step costs a few per cent of it; a long run needs one step of ten, say: `every=10`.


# %% tags=["promote:gradient_flow/recorder"] jupyter={"source_hidden": true}
from functools import partial

import torch
from torch.autograd import Variable

from residual_edu.gradient_flow.blocks import blocks_of
from residual_edu.gradient_flow.sizes import size, size_between, size_of_gradients
from residual_edu.gradient_flow.step import (
    Place,
    Step,
    first_tensor,
    remove,
    result,
    table,
)


class GradientFlowRecorder:
    activation = result(
        "activation",
        "The stream before each block and after the last, (steps, blocks + 1).",
    )
    added = result(
        "added", "What each block added to the stream, (steps, blocks).", end=-1
    )
    stream_gradient = result(
        "stream_gradient",
        "The stream's gradient at the same places, (steps, blocks + 1).",
    )
    skip_gradient = result(
        "stream_gradient",
        "Its part through each skip connection, (steps, blocks).",
        start=1,
    )
    branch_gradient = result(
        "branch_gradient", "Its part through each branch, (steps, blocks).", end=-1
    )
    weight_gradient = result(
        "weight_gradient",
        "The gradient of each block's weights, (steps, blocks).",
        end=-1,
    )

    def __init__(self, model, blocks, every=1):
        self.model, self.blocks, self.every = model, blocks_of(model, blocks), every
        self.weights = {block: list(block.parameters()) for block in self.blocks}
        self.hooks = []
        self.steps = []
        self.step = Step()

    def __enter__(self):
        self.hooks.append(self.model.register_forward_pre_hook(self.end_step))
        for block in self.weights:
            self.hooks.append(
                block.register_forward_pre_hook(self.enter, with_kwargs=True)
            )
            self.hooks.append(block.register_forward_hook(self.leave))
        return self

    def __exit__(self, *exception):
        self.end_step()
        remove(self.hooks)

    def end_step(self, *call):
        if not call or torch.is_grad_enabled():
            remove(self.step.hooks)
            self.steps += [table(self.blocks, self.step.runs)] if self.step.runs else []
            self.step = Step(self.step.number + bool(call))

    def enter(self, block, args, kwargs):
        x = (
            None
            if self.step.number % self.every
            else first_tensor(*args, *kwargs.values())
        )
        if x is not None and torch.is_grad_enabled() and not x.is_inference():
            self.step.inside[block] = x, x._version, self.mark(x)

    def leave(self, block, args, output):
        y = first_tensor(output)
        if block in self.step.inside and y is not None and y.requires_grad:
            x, version, place = self.step.inside.pop(block)
            if x._version == version:  # otherwise the block has overwritten its input
                place.sizes["added"] = size_between(y, x)
            place.end = self.mark(y, (block, place))

    def mark(self, x, run=None):
        y, version, place = self.step.latest
        if run is not None or place is None or x is not y or x._version != version:
            place = Place({"activation": size(x)})
            self.step.latest = x, x._version, place
            if x.requires_grad:
                self.step.hooks.append(
                    x.register_hook(partial(self.measure_gradient, place, run))
                )
        return place

    def measure_gradient(self, place, run, gradient):
        place.sizes["stream_gradient"], place.gradient = size(gradient), gradient
        if place.end is not None:
            place.sizes["branch_gradient"] = size_between(
                gradient, place.end.take_gradient(gradient)
            )
        # weights receive their gradients later, in an order that autograd chooses
        if run is not None:
            Variable._execution_engine.queue_callback(
                partial(self.measure_weights, run)
            )

    def measure_weights(self, run):
        block, place = run
        place.sizes["weight_gradient"] = size_of_gradients(self.weights[block])
        self.step.runs.append(run)


# %% [markdown]
# Most of its lines are for cases that a short one forgets: a block that runs twice or hands on a tuple, a forward pass
# without gradients, a step that fails halfway.

# %%
model = stack(plain)
with GradientFlowRecorder(model, model[:-1]) as flow:
    cross_entropy(model(images), labels).backward()
print(list(flow.activation.shape), list(flow.stream_gradient.shape), list(flow.weight_gradient.shape))
assert torch.allclose(flow.stream_gradient[0, 1:].flip(0), torch.tensor(sizes, dtype=torch.float64))
assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())

# %% [markdown]
# One row a step; 33 places, because a stack of 32 blocks has a place before the first and one after the last. The weight
# gradient is that of all of a block's parameters, biases too. And the few-line version measured the same deltas.
#
# ## Three curves
#
# Back to the 32 layers. The chain of single numbers has told you what to expect, without biases and with them.
# **PyTorch draws a weight's square as 1/(3 · 64) on average, and GELU halves small numbers. By what factor does a layer
# shrink the delta?**


# %% tags=["predict"]
def record(wiring, **options):
    """Return the flow of one step through fresh stacks, one for each of three seeds."""
    flows = []
    for seed in range(3):
        model = stack(wiring, seed=seed, **options)
        with GradientFlowRecorder(model, model[:-1]) as flow:
            cross_entropy(model(images), labels).backward()
        flows.append(flow)
    return flows


def three_curves(wiring, **options):
    """Return activation, delta and weight gradient by name, (seeds, places) each."""
    flows, names = record(wiring, **options), ("activation", "stream gradient", "weight gradient")
    return {name: torch.cat([getattr(flow, name.replace(" ", "_")) for flow in flows]) for name in names}


bare, biased = three_curves(plain), three_curves(plain, bias=True)
guess = predict("Each layer multiplies the delta by about", ["0.5", "0.29", "0.08"])

# %% tags=["reveal"]
# Answer first, then run this cell.
fig = Figure(figsize=(6, 4))
left, right = fig.subplots(1, 2, sharey=True)
plots.plot_three_curves(bare, left).set_title("without biases", weight="normal")
plots.plot_three_curves(biased, right).set_title("with biases", weight="normal")
plots.label_curves(left, {"activation": (7, 1e-2), "stream gradient": (9, 1e-16), "weight gradient": (13, 1e-20)})
right.set_ylabel("")
fig.suptitle("Both deltas vanish; one weight gradient shows it", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Three curves against the layers passed, on log scales. Without biases the activation falls from 1 to 5e-18, "
    "the delta rises from 1e-20 to 1e-3, the weight gradient is flat. With biases the activation stays near 0.04 "
    "and the weight gradient rises with the delta.",
)
for curves in (bare, biased):
    factor = (curves["stream gradient"][:, 0] / curves["stream gradient"][:, -1]) ** (1 / 32)
    assert ((factor > 0.28) & (factor < 0.30)).all()
flat, steep = (rows["weight gradient"].amax(1) / rows["weight gradient"].amin(1) for rows in (bare, biased))
assert (flat < 3).all() and (steep > 1e15).all()
guess.reveal("0.29")

# %% [markdown]
# 1/(2√3) = 0.29, thirty-two times: 10 to the −17, with biases and without. Without them the activation falls as the
# delta rises, and the weight gradient, their product, is flat within a factor of 3. With them the activation comes to
# rest, and the weight gradient follows the delta over fifteen orders of magnitude.
#
# ### What no layer changes
#
# In the chain, activation times delta was 1 at each place. For a whole row the sum of activation times delta plays that
# part. With ReLU and no biases it is exact, since doubling a layer's input doubles its output; GELU keeps it nearly.


# %%
def walk(model):
    """Return the stream at each place, and the delta at each."""
    stream = [images]
    for block in model[:-1]:
        stream.append(block(stream[-1]))
    return stream, torch.autograd.grad(cross_entropy(model[-1](stream[-1]), labels), stream)


for seed in range(3):
    stream, deltas = walk(stack(plain, activation=nn.ReLU, seed=seed))
    sums = torch.stack([(x * delta).sum() for x, delta in zip(stream, deltas, strict=True)])
    assert torch.allclose(sums / sums[0], torch.ones_like(sums), rtol=1e-6)
print("Σ activation · delta is the same at all", len(sums), "places, three seeds")

# %% [markdown]
# **Law.** In a bias-free ReLU stack Σ activation · delta is the same at every place, whatever the weights. A flat weight
# gradient is this law seen from the side. It says that the network has no biases; it says nothing about its health.
#
# ## Now the skip
#
# The same layers, with x beside them: x + f(x). In the chain, x + x/2, each layer multiplies by 1.5, forward and
# backward: 8, 12, 18, 27. **What does the delta do over 32 layers?**


# %% tags=["predict"]
def skip_alone(x, f):
    return x + f(x)


def pre_norm(x, f):
    return x + f(layer_norm(x))


products, gradients = chain([0.5, 0.5, 0.5], skip=1.0)
guess = predict("32 times x + f(x): the first delta is", ["smaller", "equal", "10 × larger", "over 100 × larger"])

# %% tags=["reveal"]
# Answer first, then run this cell.
alone, normed = three_curves(skip_alone), three_curves(pre_norm)
fig = Figure(figsize=(6, 4))
left, right = fig.subplots(1, 2, sharey=True)
plots.plot_three_curves(alone, left).set_title("x + f(x)", weight="normal")
plots.plot_three_curves(normed, right).set_title("x + f(norm(x))", weight="normal")
plots.label_curves(left, {"activation": (8, 250), "stream gradient": (1, 0.003), "weight gradient": (1, 35)})
right.set_ylabel("")
fig.suptitle("The skip alone explodes; a norm holds both ways", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="With a skip alone the activation grows from 1 to about 500 and the delta, read from the right, from 0.0015 to "
    "0.4. With a norm before each branch the activation ends near 4 and the delta a little above where it began.",
)
grown = [rows["activation"][:, -1] / rows["activation"][:, 0] for rows in (alone, normed)]
back = [rows["stream gradient"][:, 0] / rows["stream gradient"][:, -1] for rows in (alone, normed)]
assert (grown[0] > 250).all() and (back[0] > 100).all()
assert all((ratio < 6).all() for ratio in (grown[1], back[1]))
flat = [rows["weight gradient"].amax(1) / rows["weight gradient"].amin(1) for rows in (alone, normed)]
assert all((ratio < 10).all() for ratio in flat)
guess.reveal("over 100 × larger")

# %% [markdown]
# A branch that sees x itself adds in proportion to x, and so the stream grows like money at interest: about 20 % a
# layer, some 500-fold in 32. On the way back the same factors are met again, and the delta grows as the stream did.
# A norm in front of the branch ends the interest. The branch adds the same amount each time, whatever stands on the
# account.
#
# And look at the dashed weight gradient: flat within a factor of ten in both. **Flat weight gradients have now stood for a network that
# vanishes, one that explodes, and one that is well.**

# %% [markdown]
# ## Whose doing is it?
#
# The delta that enters a block from behind, g_out, goes two ways: along the skip unchanged, and through the branch. In
# front of the block both are added to g_in. So
#
# $$\underbrace{g_\text{out}}_{\text{skip share}} \qquad\text{and}\qquad \underbrace{g_\text{in} - g_\text{out}}_{\text{branch share}}$$
#
# come from two measurements on the stream. Nothing inside the branch is touched, whatever it is made of. The cell below
# asks autograd for the branch alone, in a pre-norm stack of 32, and compares.
#
# **How much comes back through the last branch, beside the skip?**

# %% tags=["predict"]
guess = predict("The last branch's share, beside the skip's, is about", ["as large", "a fifth", "a thousandth"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for seed in range(3):
    model = stack(pre_norm, seed=seed)
    stream, deltas = walk(model)
    for block, x, g_in, g_out in zip(model, stream, deltas, deltas[1:], strict=False):
        leaf = x.detach().requires_grad_()
        (through_branch,) = torch.autograd.grad(block.layer(layer_norm(leaf)), leaf, g_out)
        assert torch.allclose(g_in - g_out, through_branch, rtol=1e-9, atol=1e-15)

flows = record(pre_norm)
parts = "skip_gradient", "branch_gradient"
skip, branch = (torch.cat([getattr(flow, part) / flow.stream_gradient[:, -1:] for flow in flows]) for part in parts)
fig = Figure()
ax = plots.plot_shares(skip, branch, fig.add_subplot())
ax.set_title("Most of what comes back takes the skip")
show(
    fig,
    alt="Size of skip share and branch share at each of 32 pre-norm blocks, three seeds, against the delta at the end. "
    "The skip share rises from 1 at the last block to about 2 at the first, the branch share from 0.2 to 0.8.",
)
ratio = branch / skip
assert ((ratio[:, 0] > 0.3) & (ratio[:, 0] < 0.45)).all() and ((ratio[:, -1] > 0.14) & (ratio[:, -1] < 0.22)).all()
guess.reveal("a fifth")

# %% [markdown]
# **Law.** Branch share = g_in − g_out, equal to autograd through the branch alone, to a billionth, at all 32 blocks. The
# recorder's `skip_gradient` and `branch_gradient` are the sizes of the two.
#
# At the last block the skip's share is more than five times the branch's, at the first about three times. No branch has
# to be alive for a delta to arrive, which is what lesson 00 found with its gate.
#
# ### Exercise 4 · 5 minutes · ●●○○○
#
# `block` is a function that returns x + f(x), and you are not told f. Given x and the delta behind the block, return
# what came back through the branch.
#
# <details><summary>Hint 1</summary>Autograd gives you the delta in front of the whole block. What of it is not the
# branch's?</details>
# <details><summary>Hint 2</summary><code>torch.autograd.grad(block(leaf), leaf, g_out)</code> takes the delta as its
# third argument; the skip's part of the result is g_out.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "branch-share", "locked": false, "schema_version": 3, "solution": true, "task": false}
def branch_gradient(block, x, g_out):
    """Return the part of the delta in front of the block that came through its branch."""
    ### BEGIN SOLUTION
    leaf = x.detach().requires_grad_()
    (g_in,) = torch.autograd.grad(block(leaf), leaf, g_out)
    return g_in - g_out
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "branch-share-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(branch_gradient, "branch_gradient")

# %% [markdown]
# ## The stream
#
# Four of the recorder's arrays fit into one picture, and it will return in every lesson. Here are 24 pre-norm blocks.
# Read it in this order.
#
# 1. **Above**, blue, left to right: the stream. Its width is its size, and the numbers stand at both ends.
# 2. Each orange **tributary** is what a block adds, to the same scale. A dark bar is a norm, here where each branch
#    begins.
# 3. **Below**, green, right to left: the delta, on a scale of its own. Its tributaries are the branch shares.
#
# A bed that swells more than ten times is cut off and hatched.

# %%
flow = record(pre_norm, depth=24, bias=True)[0]
fig = Figure(figsize=(6, 3.6))
plot_stream(flow, fig.add_subplot(), norms="pre").set_title("Pre-norm: both rivers swell steadily")
show(fig, alt="Two rivers swell steadily: the blue stream to the right, the green delta below it to the left.")

# %% [markdown]
# Four other wirings of the same layers: plain, skip alone, norm(x + f(x)) as in post-norm, and pre-norm with a gate of
# 0.1. **Before you scroll: in which does the signal keep its width, whatever the layers are?**


# %% tags=["predict"]
def post_norm(x, f):
    return layer_norm(x + f(x))


def gated(x, f):
    return x + 0.1 * f(layer_norm(x))


guess = predict("The signal keeps its width in", ["plain", "skip alone", "post-norm", "gated"])

# %% tags=["reveal"]
# Answer first, then run this cell.
wirings = {
    "Plain: the river dries out, both ways": (plain, ""),
    "Skip alone: it floods, both ways": (skip_alone, ""),
    "Post-norm: a canal of constant width": (post_norm, "post"),
    "Gate 0.1: a bed whose tributaries are still thin": (gated, "pre"),
}
flows = {title: record(wiring, depth=24, bias=True) for title, (wiring, _) in wirings.items()}
fig = Figure(figsize=(6, 12))
for ax, title in zip(fig.subplots(4, 1), flows, strict=True):
    plot_stream(flows[title][0], ax, norms=wirings[title][1]).set_title(title)
show(
    fig,
    alt="Four pairs of rivers. Plain: both dry out. Skip alone: both swell until they are cut off and hatched. "
    "Post-norm: the stream keeps one width, a norm behind every block. Gate 0.1: wide beds, hairline tributaries.",
)
for dry, flood, canal, bed in zip(*flows.values(), strict=True):
    assert dry.activation[0, -1] < 0.05 and dry.stream_gradient[0, 0] / dry.stream_gradient[0, -1] < 1e-12
    assert flood.activation[0, -1] > 50 and flood.stream_gradient[0, 0] / flood.stream_gradient[0, -1] > 10
    assert (canal.activation - 1).abs().max() < 1e-4
    assert (bed.activation - 1).abs().max() < 0.1 and abs(
        bed.stream_gradient[0, 0] / bed.stream_gradient[0, -1] - 1
    ) < 0.1
guess.reveal("post-norm")

# %% [markdown]
# A plain stack has no skip, so what its blocks "add" is f(x) − x: mostly they take x away. With a gate a block adds a hair, forward and backward, and both beds arrive as they
# left. A network that begins like this is close to doing nothing, and lessons 05 and 06 let it open its tributaries as
# it learns.
#
# ## While it learns
#
# So far one step. A recorder may stay open for a whole training run, and then has a row for each step. Twenty-four
# layers with biases, plain against pre-norm, Adam, 60 steps on the digits. **Give the plain stack time: does the delta
# at its input wake up?**


# %% tags=["predict"]
def train_recorded(wiring, seed, steps=60):
    """Train a stack on the digits; return its flow, and its accuracy on digits it has not seen."""
    model = stack(wiring, depth=24, bias=True, seed=seed)
    pixels = [layer_norm(part.flatten(1).double()).to(device) for part in (data.train_images, data.test_images)]
    answers = [part.to(device) for part in (data.train_labels, data.test_labels)]
    batches = minibatches(pixels[0].requires_grad_(), answers[0], seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with GradientFlowRecorder(model, model[:-1]) as flow:
        train(lambda x, labels: cross_entropy(model(x), labels), batches, optimizer, steps)
    return flow, accuracy(model, pixels[1], answers[1])


guess = predict("After 60 steps, the plain stack's first delta over its last", ["1", "1e-4", "below 1e-10"])

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
runs = {wiring: [train_recorded(wiring, seed) for seed in range(3)] for wiring in (plain, pre_norm)}
fig = Figure(figsize=(6, 3.8))
left, right = fig.subplots(1, 2, sharey=True)
for ax, name, run in zip((left, right), ("plain", "pre-norm"), runs.values(), strict=True):
    plots.plot_heat_map(run[0][0].stream_gradient, ax, 1e-16, 1e-2).set_title(name, weight="normal")
right.set_ylabel("")
fig.colorbar(right.images[0], ax=[left, right], label="stream gradient")
fig.suptitle("60 steps leave the plain stack's delta tiny", x=0.01, ha="left", weight="bold")
show(
    fig,
    alt="Two heat maps of the delta, training step against layers passed. Plain: yellow at the top, dark blue at the "
    "bottom, from the first step to the last. Pre-norm: yellow everywhere.",
)
first = {wiring: torch.stack([flow.stream_gradient[:, 0] / flow.stream_gradient[:, -1] for flow, _ in run]) for wiring, run in runs.items()}
scores = {wiring: [score for _, score in run] for wiring, run in runs.items()}
for name, wiring in (("plain", plain), ("pre-norm", pre_norm)):
    print(f"{name}: first delta over last {first[wiring].min():.2g} to {first[wiring].max():.2g},", end=" ")
    print(f"test accuracy {min(scores[wiring]):.2f} to {max(scores[wiring]):.2f}")
holds(first[plain].max() < 1e-10, "At each step the plain stack's first delta is below 1e-10 of its last.")
holds(first[pre_norm].min() > 1 and first[pre_norm].max() < 100, "Pre-norm's first delta is 1 to 100 times its last.")
holds(max(scores[plain]) < 0.25, "The plain stack stays near chance.")
holds(min(scores[pre_norm]) > 0.9, "Pre-norm classifies more than nine new digits in ten.")
guess.reveal("below 1e-10")

# %% [markdown]
# Three seeds each: the plain stack stays at chance, pre-norm tells more than nine digits in ten. A delta of 1e-15 is not
# a slow teacher, it is none. The last layers do have one, but what reaches them is nearly the same for every digit.

# %% [markdown]
# ### How far does a weight move?
#
# The **update-to-data ratio** is the size of one step over the size of the weight; around 1e-3 is a common rule of
# thumb. Adam divides a gradient by its own size, so that its first step moves every weight by the learning rate,
# whatever the gradient is. **Then can Adam save the plain stack?** Its first weight gradients are near 1e-15.

# %% tags=["predict"]
guess = predict("Adam, lr 0.001, plain: the first layer's update-to-data ratio", ["1e-2", "1e-3", "below 1e-7"])

# %% tags=["reveal"]
# Answer first, then run this cell.
for seed in range(3):
    for wiring in (plain, pre_norm):
        model = stack(wiring, depth=24, bias=True, seed=seed)
        weights = [block.layer[0].weight.detach() for block in model[:-1]]
        before = [weight.clone() for weight in weights]
        cross_entropy(model(images), labels).backward()
        torch.optim.Adam(model.parameters(), lr=1e-3).step()
        ratios = torch.tensor([(w - b).norm() / b.norm() for w, b in zip(weights, before, strict=True)])
        law = 1e-3 / before[0].square().mean().sqrt().item()
        assert ratios[0] < 1e-7 if wiring is plain else ((ratios / law - 1).abs() < 0.03).all()
        assert abs(ratios[-1] / law - 1) < 0.03
print(f"pre-norm, all 24 layers, and plain, the last: {law:.3f}; plain, the first: below 1e-7")
guess.reveal("below 1e-7")

# %% [markdown]
# **Law.** Adam's first ratio is lr / rms(weight), here 0.014, and says nothing about the gradient, as long as that is
# well above Adam's eps of 1e-8. Below it, eps wins and the weight stands still. So the ratio hides a shrinking delta
# just as the flat curve did, until it is too late to hide anything.
#
# ### Exercise 5 · 4 minutes · ●○○○○
#
# Write the ratio: the root mean square of the step, over the root mean square of the weight before it.
#
# <details><summary>Hint 1</summary>What is the step, in terms of before and after? Can its numbers cancel?</details>
# <details><summary>Hint 2</summary>The step is a subtraction. Square it number by number before you average, and take the root
# last.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "update-ratio", "locked": false, "schema_version": 3, "solution": true, "task": false}
def update_ratio(before, after):
    """Return how far a step moved a weight, beside the weight's size before it."""
    ### BEGIN SOLUTION
    return (after - before).square().mean().sqrt() / before.square().mean().sqrt()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "update-ratio-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(update_ratio, "update_ratio")

# %% [markdown]
# ## Find the flat line yourself
#
# Below, the three curves of one stack, its weights as PyTorch draws them; a delta of size 1 is put in at the end. It
# opens with skip, biases and ReLU.
#
# **Find the setting in which the weight gradient is flat while the delta vanishes.** Then one in which it is flat while
# the delta explodes. And which of the three activations lets 32 skips alone neither vanish nor explode?

# %% tags=["explorer"]
explore_gradient_flow()

# %% [markdown]
# <details><summary>Answer</summary>Flat and vanishing: depth 32, no bias, no skip, any activation. Put the bias back and
# the flat line tips over by six orders (tanh) to fifteen (GELU), while the delta hardly moves. Flat and exploding: depth
# 32, skip, ReLU or GELU. tanh holds: its branch cannot say more than 1, however large x has become, so 32 of them bring
# the stream to about 4 and the delta to about 6. In all three the weight gradient is flat within a factor of
# ten.</details>
#
# ## True or false?
#
# - Small weight gradients in the first layers are how a vanishing gradient looks. <details><summary>Answer</summary>Only
#   with biases. Without them the weight gradient is the same in all layers, at any depth.</details>
# - A skip keeps the gradient from exploding. <details><summary>Answer</summary>False. It keeps it from vanishing; 32
#   skips alone made it more than 100 times as large.</details>
# - To know what came back through a branch, one must look into the branch. <details><summary>Answer</summary>False: g_in
#   − g_out.</details>
# - Adam repairs vanishing gradients, since it divides by their size. <details><summary>Answer</summary>Down to its eps,
#   1e-8. A weight whose gradient is 1e-15 stays where it is.</details>

# %% [markdown]
# ## The laws of this lesson
#
# | law | number seen | where it holds |
# |---|---|---|
# | weight gradient = delta × activation, summed over the batch | 8 · 1/4 = 4 · 1/2 = 2 · 1 | every linear layer |
# | Σ activation · delta is the same at every place | 33 places, to six digits | no biases, ReLU or no activation |
# | a bias-free stack's weight gradient is flat | near 1e-19 at both ends of 32 layers, within a factor of 3 | no biases, at the start of training |
# | plain: a layer shrinks the delta by 1/(2√3) = 0.29 | 0.28 to 0.30, with biases and without | GELU, PyTorch's weights, at the start |
# | skip alone: signal and delta both grow like interest | above 250 and 100 times after 32 layers | branches that see x itself |
# | branch share = g_in − g_out | equal to autograd through the branch, 1e-9 | any block that adds its branch to x |
# | post-norm: activation 1 at every place | within 1e-4 | behind a norm without gain |
# | Adam's first update ratio is lr / rms(weight) | 0.014 at lr 0.001 | gradients well above 1e-8 |
#
# Two instruments come along from here: the recorder, and the stream. Lesson 02 takes apart the norm that held the
# flood, 03 the coins, and 04 asks where the norm should stand.

# %%
summary("01")

# %% [markdown]
# ## Next
#
# - [Lesson 02](02_layer_norm.ipynb) takes apart the norm that kept the stack from exploding.
# - [Homework for lessons 00 and 01](homework/hw_00_01.ipynb).
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
