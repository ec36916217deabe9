# %% [markdown]
# # Homework for lessons 00 and 01 · A stack without norms, and a block that never learns
#
# 35 minutes. It needs lessons 00 and 01, and of the library only what they finished.
#
# By the end you can
#
# - **choose** how large the branches of a deep stack may be;
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
# ## How large may a branch be?
#
# A stack must do without norms: x ← x + f(x). The output of every f has s times the root mean square of its input, and
# no particular direction. With s = 1 the sizes explode, as in lesson 00:

# %%
mean_square = 1.0
for block in range(1, 65):
    mean_square += mean_square  # s = 1: the branch adds as much as there is
    if block in (1, 4, 16, 64):
        print(f"after {block:2} blocks: mean square {mean_square:.3g}, root mean square {mean_square**0.5:.3g}")

# %% [markdown]
# ### Exercise 1 · 12 minutes · ●●●○○
#
# Return the s with which `depth` such blocks make the **root** mean square of the stream `growth` times as large, on
# average: `branch_scale(4, 4.0)` is 1, as printed above.
#
# <details><summary>Hint 1</summary>The branch has no particular direction. What does that say of the mean square of the
# sum x + f(x)?</details>
# <details><summary>Hint 2</summary>Write down by which factor one block multiplies the mean square, and by which factor
# all of them do. Which of the two do you know?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "branch-scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
def branch_scale(depth, growth):
    """Return s, a number above 0, for a depth of at least 1 and a growth above 1."""
    ### BEGIN SOLUTION
    per_block = growth ** (2 / depth)
    return (per_block - 1) ** 0.5
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "branch-scale-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("branch_scale"):
    close(branch_scale(4, 4.0), 1.0, "branch_scale(4, 4.0)")
    close(branch_scale(1, 2**0.5), 1.0, "branch_scale(1, 2**0.5), where the mean square doubles,")
    close(branch_scale(2, 5), 2.0, "branch_scale(2, 5), where each block multiplies the mean square by 5,")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "branch-scale-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
for true_scale in (0.05, 0.3, 2.0):
    for depth in (1, 7, 48):
        growth = (1 + true_scale**2) ** (depth / 2)
        close(branch_scale(depth, growth), true_scale, f"branch_scale({depth}, {growth:g})")
scale, stream = branch_scale(32, 3.0), torch.randn(65_536, generator=torch.Generator().manual_seed(5))
start = stream.square().mean()
for block in range(32):
    noise = torch.randn(65_536, generator=torch.Generator().manual_seed(100 + block))
    stream = stream + scale * stream.square().mean().sqrt() * noise / noise.square().mean().sqrt()
grown = float((stream.square().mean() / start).sqrt())
assert abs(grown - 3) < 0.1, f"32 random branches of scale {scale:.4g}: got a growth of {grown:.4g}, wanted 3"
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
# A `GradientFlowRecorder`, used as in lesson 01 around one forward and one backward pass, holds among others `added[0]`,
# the size of what each block adds, and `branch_gradient[0]`, the size of what came back through each branch.
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
# | independent branches add to the mean square: (1 + s²) to the power of the depth | branches in no particular direction, no norm |
# | a block that adds nothing has no branch gradient either, if its last factor is 0 | any input |
# | a detached block adds to the stream, and its fault shows on the way back alone | whatever is cut by `detach` or `no_grad` |
