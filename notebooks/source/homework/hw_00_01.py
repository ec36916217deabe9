# %% [markdown]
# # Homework for lessons 00 and 01 · A block that never learns
#
# About 50 minutes. You need lessons 00 and 01, and of the library only what they built.
#
# We train two networks of twelve residual blocks, and in the second one somebody has left a mistake in a single block.
# Their test losses and their accuracies hardly differ, so neither tells you that something is wrong. At the end you
# will have written a function that finds such a block in any network, and you will have mended one.
#
# Below each exercise are tests that you can read. Your answers are graded with others too, on other inputs.

# %%
from contextlib import suppress
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import LayerNorm, SimpleFeedForward, pre_norm_residual
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_course.datasets import digits
from residual_course.training import accuracy, minibatches, train

from residual_course.checking.properties import close, unchanged
from residual_course.exercises import attempt
from residual_course.lesson import setup

device = setup()


# %% [markdown]
# A block computes x + f(norm(x)) with the `pre_norm_residual` of lesson 00. We look at two faults that keep it from
# learning: it may add nothing to the stream ("zero"), or it may add what it should while no gradient comes back through
# its branch ("detached").


# %%
FAULTS = {
    "none": pre_norm_residual,
    "zero": lambda x, layer, norm: x + 0 * layer(norm(x)),
    "detached": lambda x, layer, norm: x + layer(norm(x)).detach(),
}


class Block(nn.Module):
    def __init__(self, width, residual):
        super().__init__()
        self.norm = LayerNorm(width)
        self.layer = SimpleFeedForward(width, 2 * width)
        self.residual = residual

    def forward(self, x):
        return self.residual(x, self.layer, self.norm)


def stack_with(residual, place, depth=12, width=16):
    """Return healthy blocks, except for the one at `place`."""
    torch.manual_seed(0)
    blocks = [Block(width, pre_norm_residual) for _ in range(depth)]
    blocks[place].residual = residual
    return nn.Sequential(*blocks)


# %%
data = digits()
train_x, test_x = (images.flatten(1).to(device) for images in data[::2])
train_y, test_y = (labels.to(device) for labels in data[1::2])
for fault in ("none", "detached"):
    stack = stack_with(FAULTS[fault], place=5, width=64)
    net = nn.Sequential(stack, LayerNorm(64), nn.Linear(64, 10)).to(device)
    before = stack[5].layer.linear1.weight.detach().clone()
    adam = torch.optim.Adam(net.parameters(), lr=0.003)
    batches = minibatches(train_x, train_y)
    train(lambda x, y, net=net: F.cross_entropy(net(x), y), batches, adam, steps=60)
    with torch.no_grad():
        loss = F.cross_entropy(net(test_x), test_y)
    print(f"fault: {fault}")
    print(f"  test loss {loss:.2f}, read {accuracy(net, test_x, test_y):.0%}")
    print("  block 5 has moved:", not stack[5].layer.linear1.weight.equal(before))

# %% [markdown]
# After 60 steps the weights of block 5 are exactly those that were drawn at the start, and the network reads as well
# without them learning. In a network of your own you would not know which weights to compare, so we look for a sign
# that any block gives.
#
# ## What does a healthy block do to the gradient?
#
# This exercise is a warm-up: the search below needs no slope, but it rests on the same sum of a skip and a branch. In
# lesson 00, sixteen blocks x + f(x) of single numbers, each with the slope f′ = 0.1, made the gradient at the input 4.6
# times as large as at the output. Other slopes do more, or less:

# %%
for slope in (-0.1, 0.0, 0.1, 0.5):
    x = out = torch.tensor(1.0, requires_grad=True)
    for _ in range(16):
        out = out + slope * out
    out.backward()
    print(f"slope {slope:4}: the gradient at the input is {x.grad.item():.3g}")

# %% [markdown]
# ### Exercise 1 · From the growth to the slope (5 minutes)
#
# A recorder gives you the gradient at both ends of a stack. Their ratio says little as long as you do not know how many
# blocks lie between them: a growth of 4.6 is mild for 16 blocks and wild for 2. So we ask for the share of a single
# block, which can be compared between networks of any depth.
#
# Return the slope f′ with which `depth` blocks x + f(x) make the gradient `growth` times as large at the input as at
# the output: `branch_slope(4, 16.0)` is 1. The growth may be below 1.
#
# <details><summary>Hint 1</summary>By which factor does one block multiply the gradient, and by which factor do all of
# them?</details>
# <details><summary>Hint 2</summary>Which number, multiplied by itself <code>depth</code> times, is the growth? What of
# it is not f′?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "branch-slope", "locked": false, "schema_version": 3, "solution": true, "task": false}
def branch_slope(depth, growth):
    """Return f', a number above -1, for a depth of at least 1 and a growth above 0."""
    ### BEGIN SOLUTION
    per_block = growth ** (1 / depth)
    return per_block - 1
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "branch-slope-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("branch_slope"):
    close(branch_slope(4, 16.0), 1.0, "branch_slope(4, 16.0)")
    close(branch_slope(1, 1.5), 0.5, "branch_slope(1, 1.5), of a single block,")
    close(branch_slope(2, 9.0), 2.0, "branch_slope(2, 9.0), where a block triples it,")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "branch-slope-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
for true_slope in (-0.3, 0.02, 1.5):
    for depth in (1, 7, 48):
        growth = (1 + true_slope) ** depth
        close(branch_slope(depth, growth), true_slope, f"branch_slope({depth}, {growth:g})")
### END HIDDEN TESTS

# %% [markdown]
# ## Which of the blocks is it?
#
# A block's gradient is the sum of two parts, the one that comes back through its skip and the one that comes back
# through its branch. The skip's part never shows a fault, because the skip is always there, so we have to look at the
# part of the branch alone. The package's `GradientFlowRecorder`, the larger sister of your `Recorder`, measures it:

# %%
stack = stack_with(FAULTS["none"], place=0, depth=4)
x = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))
with GradientFlowRecorder(stack, stack) as flow:  # the model, and its blocks
    stack(x).square().sum().backward()
print("each block adds         ", flow.added[0])
print("back through each branch", flow.branch_gradient[0])

# %% [markdown]
# Each row has one number for each block, because `[0]` takes the first recorded step, and there was only one. The
# numbers are root mean squares, divided by nothing: those of what a block adds, and of what its branch adds to the
# gradient.
#
# ### Exercise 2 · Find the block (15 minutes)
#
# In a network of hundreds of blocks nobody reads such rows by eye, so let a function do it. One block of `stack`, an
# `nn.Sequential`, is broken in one of the two ways above. Return its place, counted from 0, and its fault, as in `(3,
# "zero")`. Every block returns its input plus its branch. x stays as it is. Do not look at weights or attributes: the
# stacks that grade you have other blocks, some of them quiet, and some without any weights.
#
# <details><summary>Hint 1</summary>Print both rows for a healthy stack, for one with a "zero" block and for one with a
# "detached" block, at place 0 as well. What does each fault do to each row?</details>
# <details><summary>Hint 2</summary>One number above is <code>nan</code>. The recorder compares the gradients before and
# after a block. When is there a gradient before the first block?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "broken-block", "locked": false, "schema_version": 3, "solution": true, "task": false}
def broken_block(stack, x):
    """Return (place, fault), such as (3, "zero") or (0, "detached")."""
    ### BEGIN SOLUTION
    with GradientFlowRecorder(stack, stack) as flow:
        stack(x.clone().requires_grad_()).square().sum().backward()
    place = int(flow.branch_gradient[0].argmin())
    return place, "zero" if flow.added[0, place] == 0 else "detached"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "broken-block-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
class Weightless(nn.Module):
    def __init__(self, detached):
        super().__init__()
        self.detached = detached

    def forward(self, x):
        return x + (x.detach() if self.detached else x).tanh()


with attempt("broken_block"):
    cases = ((12, 3, "zero"), (12, 7, "detached"), (12, 0, "detached"), (6, 5, "zero"))
    for depth, place, fault in cases:
        wanted = place, fault
        with unchanged(x=x):
            found = broken_block(stack_with(FAULTS[fault], place, depth), x)
        assert found == wanted, f"{depth} blocks: got {found}, wanted {wanted}"
    assert isinstance(found[0], int), f"the place is an int: got {found[0]!r}, wanted 5"
    blocks = [Weightless(detached=place == 0) for place in range(3)]
    found = broken_block(nn.Sequential(*blocks), x)
    assert found == (0, "detached"), f"no weights: got {found}, wanted (0, 'detached')"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "broken-block-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
class Other(nn.Module):
    def __init__(self, factor, fault):
        nn.Module.__init__(self)
        self.inner = SimpleFeedForward(12, 12) if factor < 1 else torch.tanh
        self.factor, self.fault = factor, fault

    def forward(self, tokens):
        out = self.factor * self.inner(nn.functional.layer_norm(tokens, (12,)))
        return tokens + (out.detach() if self.fault == "detached" else 0 * out if self.fault == "zero" else out)


for seed, (depth, place, fault) in enumerate(
    [(9, 0, "detached"), (9, 0, "zero"), (5, 4, "detached"), (5, 4, "zero"), (14, 6, "detached"), (14, 9, "zero")]
):
    torch.manual_seed(40 + seed)
    others = nn.Sequential(*[Other(0.01 * 10 ** (i % 3), fault if i == place else "") for i in range(depth)])
    found = broken_block(others, torch.randn(4, 3, 12))
    assert (int(found[0]), str(found[1])) == (place, fault), f"{depth} other blocks: got {found}, wanted {place, fault}"
### END HIDDEN TESTS

# %% [markdown]
# ## A block with a list
#
# A colleague wants to know how large her branches are, so her block notes it in a list at every call. Her block stands
# at place 4, and it does not learn. **Measure first**, with your function: which of the two faults is it?


# %%
def handed_residual(x, layer, norm, sizes):
    """Return the stream after a branch, whose size is noted in the list `sizes`."""
    branch = layer(norm(x)).detach()
    sizes.append(branch.square().mean().sqrt())
    return x + branch


stack = stack_with(partial(handed_residual, sizes=[]), place=4)
with suppress(NotImplementedError):  # prints as soon as exercise 2 is written
    print("broken:", broken_block(stack, x))

# %% [markdown]
# ### Exercise 3 · Mend it (8 minutes)
#
# Why is the `detach()` there? Without it, the training ran out of memory after an hour: a size that still hangs on its
# graph keeps its branch, and the nodes of the graph, alive after the step. With it, the memory stayed flat.
#
# If you only delete the `detach()`, the block learns and the memory fills again. So both things that the line is there
# for have to hold: the gradient must come back through the branch, and what is kept in the list must hold no graph.
#
# Return x + layer(norm(x)), and append the branch's size (rms) to `sizes`. The layer may be called only once: it costs
# time, and one with dropout would return something else the second time.
#
# <details><summary>Hint</summary>Two tensors leave the first line of <code>handed_residual</code>: one goes into the
# stream, the other into the list. Which of them is to be detached?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "mended-residual", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_residual(x, layer, norm, sizes):
    """Return the stream after a branch, whose size is noted in the list `sizes`."""
    ### BEGIN SOLUTION
    branch = layer(norm(x))
    sizes.append(branch.detach().square().mean().sqrt())
    return x + branch
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-residual-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("mended_residual"):
    pair, sizes = torch.tensor([1.0, 2.0], requires_grad=True), []
    with unchanged(x=pair):  # norm = z + 1, layer = z²: x + (x + 1)²
        found = mended_residual(pair, lambda z: z**2, lambda z: z + 1, sizes)
    close(found, torch.tensor([5.0, 11.0]), "x + (x + 1)² for x = (1, 2)")
    assert found.requires_grad, "got an output without a gradient, wanted one"
    found.sum().backward()
    close(pair.grad, torch.tensor([5.0, 7.0]), "the gradient of x, 1 + 2 (x + 1),")
    assert len(sizes) == 1, f"sizes after one call: got {len(sizes)}, wanted 1"
    holds = getattr(sizes[0], "requires_grad", False)
    assert not holds, "in the list: got a tensor that holds its graph, wanted none"
    close(float(sizes[0]), 48.5**0.5, "the size of the branch, which is (4, 9),")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "mended-residual-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(48)
mlp, first, calls, noted = SimpleFeedForward(6, 9), LayerNorm(6), [], ["kept"]
mlp.register_forward_hook(lambda *_: calls.append(1))
for step, shape in enumerate([(5,), (2, 3)], start=1):
    tokens = (3 * torch.randn(*shape, 6)).requires_grad_()
    with unchanged(x=tokens):
        got = mended_residual(tokens, mlp, first, noted)
    assert len(calls) == step, f"calls of the layer: got {len(calls)}, wanted {step}"
    assert len(noted) == step + 1, f"after {step} calls: got a list of {len(noted)}, wanted {step + 1}"
    added = mlp.linear2(torch.relu(mlp.linear1(first(tokens))))
    close(got, tokens + added, "the output")
    close(float(noted[-1]), added.square().mean().sqrt().item(), "the size of the branch")
    assert not getattr(noted[-1], "requires_grad", False), "in the list: got a graph, wanted none"
    leaves, pull = [tokens, *mlp.parameters(), *first.parameters()], torch.randn(*shape, 6)
    wanted = torch.autograd.grad((pull * (tokens + added)).sum(), leaves)
    assert got.requires_grad, "got an output without a gradient, wanted one"
    found = torch.autograd.grad((pull * got).sum(), leaves, allow_unused=True)
    for leaf, (mine, right) in enumerate(zip(found, wanted, strict=True)):
        what = "x" if leaf == 0 else f"parameter {leaf} of layer and norm"
        assert mine is not None, f"the gradient of {what}: got none, wanted one"
        close(mine, right, f"the gradient of {what}")
### END HIDDEN TESTS

# %%
with suppress(NotImplementedError):  # prints as soon as exercise 3 is written
    stack = stack_with(partial(mended_residual, sizes=[]), place=4)
    before = stack[4].layer.linear1.weight.detach().clone()
    sgd = torch.optim.SGD(stack.parameters(), lr=0.01)
    stack(x).square().mean().backward()
    sgd.step()
    print("block 4 has moved:", not stack[4].layer.linear1.weight.equal(before))

# %% [markdown]
# A detached branch adds to the stream as it should, so its fault shows on the way back alone, and here neither the loss
# nor the accuracy finds it. If you keep a number of a training, detach the copy that you keep, and never the tensor
# that goes on. A published model has had a [`detach()` too many](https://github.com/queenie88/A-GCN/issues/4).
