# %% [markdown]
# # Homework for lessons 00 and 01 · A row of slopes, a batch of tokens, and a block that never learns
#
# 50 minutes. It needs lessons 00 and 01, and of the library only what they finished.
#
# By the end you can
#
# - **choose** how large the slope of a residual block may be;
# - **compute** the gradient of a linear layer's weights for a whole batch, without autograd;
# - **find** the one block of twelve that is broken, and say whether its fault is on the way forward or on the way back.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import LayerNorm, SimpleFeedForward, pre_norm_residual
from residual_course.datasets import digits
from residual_course.exercises import attempt
from residual_course.checking.properties import close
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_course.lesson import setup
from residual_course.training import accuracy, minibatches, train

device = setup()

# %% [markdown]
# ## How steep may a block be?
#
# In lesson 00, sixteen blocks x + f(x) of single numbers, each with the slope f′ = 0.1, made the gradient at the input
# 4.6 times as large as at the output. Other slopes do more, or less:

# %%
for slope in (-0.1, 0.0, 0.1, 0.5):
    x = out = torch.tensor(1.0, requires_grad=True)
    for _ in range(16):
        out = out + slope * out
    out.backward()
    print(f"slope {slope:4}: the gradient at the input is {x.grad.item():.3g}")

# %% [markdown]
# ### Exercise 1 · 8 minutes · ●●○○○
#
# Return the slope f′ with which `depth` blocks x + f(x) make the gradient `growth` times as large at the input as at the
# output: `branch_slope(4, 16.0)` is 1. The growth may be below 1.
#
# <details><summary>Hint 1</summary>By which factor does one block multiply the gradient, and by which factor do all of
# them?</details>
# <details><summary>Hint 2</summary>Which number, multiplied by itself `depth` times, is the growth? What of it is not
# f′?</details>


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
    close(branch_slope(2, 9.0), 2.0, "branch_slope(2, 9.0), where each block multiplies by 3,")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "branch-slope-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
for true_slope in (-0.3, 0.02, 1.5):
    for depth in (1, 7, 48):
        growth = (1 + true_slope) ** depth
        close(branch_slope(depth, growth), true_slope, f"branch_slope({depth}, {growth:g})")
### END HIDDEN TESTS

# %% [markdown]
# ## The weights' gradient of a whole batch
#
# Lesson 01 had one sample: the gradient of W[i, j] is g[i] · x[j]. In a batch these products are added up over the
# samples; and where a sample has several tokens, over the tokens too.
#
# ### Exercise 2 · 10 minutes · ●●○○○
#
# Return the gradient of the weight of a linear layer y = Wx, of shape (outputs, inputs), without autograd. `x` has the
# shape (..., inputs), and `g`, the gradient at y, the shape (..., outputs), with the same axes in place of the dots, of
# which there is at least one. Use no loop.
#
# <details><summary>Hint 1</summary>For a plain batch: a matrix product sums over the axis that its two factors share.
# Which of the two has to be turned, so that they share the batch?</details>
# <details><summary>Hint 2</summary><code>x.flatten(0, -2)</code> makes one axis of all but the last.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "batch-gradient", "locked": false, "schema_version": 3, "solution": true, "task": false}
def batch_gradient(x, g):
    """Return the gradient of a linear layer's weight, (outputs, inputs)."""
    ### BEGIN SOLUTION
    return g.flatten(0, -2).T @ x.flatten(0, -2)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "batch-gradient-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
x, g = torch.tensor([[1.0, -7.0]]), torch.tensor([[1.0, 1.0, -5.0]])
with attempt("batch_gradient"):
    one = torch.tensor([[1.0, -7.0], [1.0, -7.0], [-5.0, 35.0]])
    close(batch_gradient(x, g), one, "for the sample of lesson 01, the gradient")
    close(batch_gradient(torch.cat([x, 2 * x]), torch.cat([g, g])), 3 * one, "for two samples, the gradient")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "batch-gradient-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
for seed, shape in enumerate([(6,), (4, 5), (2, 3, 4)]):
    torch.manual_seed(seed)
    layer = nn.Linear(4, 4, bias=False).double()
    signal, arriving = torch.randn(*shape, 4).double(), torch.randn(*shape, 4).double()
    layer(signal).backward(arriving)
    close(batch_gradient(signal, arriving), layer.weight.grad, f"for x of shape {tuple(signal.shape)}, the gradient")
### END HIDDEN TESTS

# %% [markdown]
# ## Twelve blocks, one of them broken
#
# Two pre-norm networks of twelve blocks, trained in the same way. In the second, somebody has left a `detach` in one
# block: it adds what it should to the stream, and no gradient comes back through its branch.


# %%
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.layer = LayerNorm(width), SimpleFeedForward(width, 2 * width)
        self.cut = False

    def forward(self, x):
        gates = [torch.detach] if self.cut else []
        return pre_norm_residual(x, self.layer, self.norm, gates)


def stack_with(fault, place, depth=12, width=16, seed=0):
    """Return blocks of which the one at `place` has the fault "zero", "detached" or none."""
    torch.manual_seed(seed)
    stack = nn.Sequential(*[Block(width) for _ in range(depth)])
    if fault == "zero":
        nn.init.zeros_(stack[place].layer.linear2.weight)
        nn.init.zeros_(stack[place].layer.linear2.bias)
    stack[place].cut = fault == "detached"
    return stack


# %%
data = digits()
train_x, test_x = (images.flatten(1).to(device) for images in data[::2])
train_y, test_y = (labels.to(device) for labels in data[1::2])
for fault in ("none", "detached"):
    stack = stack_with(fault, place=5, width=64)
    net = nn.Sequential(stack, LayerNorm(64), nn.Linear(64, 10)).to(device)
    before = stack[5].layer.linear1.weight.detach().clone()
    adam = torch.optim.Adam(net.parameters(), 0.001)
    batches = minibatches(train_x, train_y)
    train(lambda x, y, net=net: F.cross_entropy(net(x), y), batches, adam, steps=100)
    good, same = accuracy(net, test_x, test_y) > 0.9, stack[5].layer.linear1.weight.equal(before)
    print(f"fault {fault:8}  over 90 % right: {good}  the block's weights are as they were drawn: {same}")

# %% [markdown]
# The accuracy does not show it. The recorder does.
#
# ### Exercise 2 · 20 minutes · ●●●●○
#
# One block of `stack`, an `nn.Sequential`, is broken. Either it adds nothing to the stream ("zero"), or it adds what it
# should and no gradient comes back through its branch ("detached"). Return its place, counted from 0, and the fault:
# `(3, "zero")`. Every block returns its input plus its branch. Do not look at weights or attributes, since the stacks
# that grade you have other blocks.
#
# The package's `GradientFlowRecorder(stack, stack)`, the larger sister of lesson 01's `Recorder` (it takes the model too),
# holds after one forward and one backward pass among others `added[0]`, the size of what each block adds, and
# `branch_gradient[0]`, the size of what came back through each branch.
#
# <details><summary>Hint 1</summary>Print both curves for a healthy stack, for one with a "zero" block and for one with a
# "detached" block. What does each fault do to each curve?</details>
# <details><summary>Hint 2</summary>Is there a number for block 0 in both curves? The recorder compares the gradients
# before and after a block. When is there a gradient before the first block?</details>


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
x = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))
with attempt("broken_block"):
    cases = ((12, 3, "zero"), (12, 7, "detached"), (12, 0, "detached"), (6, 5, "zero"))
    for depth, place, fault in cases:
        found = broken_block(stack_with(fault, place, depth), x)
        assert found == (place, fault), f"{depth} blocks: got {found}, wanted {place, fault}"
    assert isinstance(found[0], int), f"the place is an int: got {found[0]!r}, wanted 5"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "broken-block-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
class Other(nn.Module):
    def __init__(self, factor, fault):
        nn.Module.__init__(self)
        self.inner, self.factor, self.fault = SimpleFeedForward(12, 12), factor, fault

    def forward(self, tokens):
        out = self.factor * self.inner(nn.functional.layer_norm(tokens, (12,)))
        return tokens + (out.detach() if self.fault == "detached" else 0 * out if self.fault == "zero" else out)


for seed, (depth, place, fault) in enumerate(
    [(9, 0, "detached"), (9, 0, "zero"), (5, 4, "detached"), (5, 4, "zero"), (14, 6, "detached"), (14, 9, "zero")]
):
    torch.manual_seed(40 + seed)
    others = nn.Sequential(*[Other(1.0 + i % 3, fault if i == place else "") for i in range(depth)])
    found = broken_block(others, torch.randn(4, 3, 12))
    assert (int(found[0]), str(found[1])) == (place, fault), f"{depth} other blocks: got {found}, wanted {place, fault}"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | the slopes 1 + f′ of a row of blocks are multiplied | single numbers; for vectors, matrices in their place |
# | the gradient of a weight is the sum of g · x over samples and tokens | a linear layer |
# | a detached block adds to the stream, and its fault shows on the way back alone | whatever is cut by `detach` or `no_grad` |
