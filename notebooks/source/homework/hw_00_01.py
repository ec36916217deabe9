# %% [markdown]
# # Homework for lessons 00 and 01 · Two patients
#
# 35 minutes. It needs lessons 00 and 01, and of the library only what they finished.
#
# By the end you can
#
# - **choose** how loud the branches of a deep stack may be;
# - **find** the one block of twelve that is broken, and say whether the fault is on the way forward or on the way back.
#
# Below each exercise stand tests that you can read. It is graded with others as well, on other inputs.

# %%
import torch
from torch import nn

from residual_edu import LayerNorm, SimpleFeedForward, pre_norm_residual
from residual_edu.exercises import attempt
from residual_edu.exercises.properties import close
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.lesson import setup

device = setup()

# %% [markdown]
# ## How loud may a branch be?
#
# No norm this time: x ← x + f(x), and every f answers with a tensor whose root mean square is s times that of what it
# is asked, and in no particular direction. With s = 1 you saw the mean square double from block to block.

# %%
mean_square = 1.0
for _ in range(4):
    mean_square += mean_square  # s = 1: the branch adds as much again
print(f"mean square after 4 blocks: {mean_square:g}, root mean square: {mean_square**0.5:g}")

# %% [markdown]
# ### Exercise 1 · 12 minutes · ●●●○○
#
# Return the s with which `depth` such blocks make the **root** mean square of the stream `growth` times as large, on
# average: `branch_scale(4, 4.0)` is 1, as you have just seen.
#
# <details><summary>Hint 1</summary>By which factor does one block multiply the mean square? Not the root mean
# square.</details>
# <details><summary>Hint 2</summary>(1 + s²) to the power of <code>depth</code> is <code>growth</code> squared. Solve it
# for s.</details>


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
# A pre-norm stack as in lesson 01. A block that is **silent** adds nothing to the stream. A block that is **deaf** adds
# what it should, but somebody left a `detach` in it: no gradient comes back through its branch, and it never learns.


# %%
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.layer, self.deaf = LayerNorm(width), SimpleFeedForward(width, 2 * width), False

    def forward(self, x):
        gates = [torch.detach] if self.deaf else []
        return pre_norm_residual(x, self.layer, self.norm, gates)


def patient(depth, place, fault, seed=0):
    torch.manual_seed(seed)
    stack = nn.Sequential(*[Block(16) for _ in range(depth)])
    if fault == "silent":
        nn.init.zeros_(stack[place].layer.linear2.weight)
        nn.init.zeros_(stack[place].layer.linear2.bias)
    stack[place].deaf = fault == "deaf"
    return stack


# %% [markdown]
# On the way forward a deaf block cannot be told from a healthy one. The same weights, with and without the fault:

# %%
x = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))
healthy, deaf = patient(12, 5, "none"), patient(12, 5, "deaf")
print("the same output:", torch.equal(healthy(x), deaf(x)))

# %% [markdown]
# ### Exercise 2 · 20 minutes · ●●●●○
#
# One block of `stack` is silent or deaf. Return its place, counted from 0, and which: `(3, "silent")`. Ask the
# recorder, not the weights: a block can be silent in more ways than one. Every block returns what it is handed plus its
# branch, and `stack` is an `nn.Sequential` of them.
#
# <details><summary>Hint 1</summary>Run the stack once forward and once backward in a recorder. Which of its curves is
# zero at a silent block? Which one at a deaf block?</details>
# <details><summary>Hint 2</summary><code>added[0]</code> and <code>branch_gradient[0]</code> have a number for each block.
# Before block 0 there is a gradient only if x asks for one: <code>x.clone().requires_grad_()</code>.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "broken-block", "locked": false, "schema_version": 3, "solution": true, "task": false}
def broken_block(stack, x):
    """Return (place, fault), such as (3, "silent") or (0, "deaf")."""
    ### BEGIN SOLUTION
    with GradientFlowRecorder(stack, stack) as flow:
        stack(x.clone().requires_grad_()).square().sum().backward()
    place = int(flow.branch_gradient[0].argmin())
    return place, "silent" if flow.added[0, place] == 0 else "deaf"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "broken-block-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("broken_block"):
    cases = ((12, 3, "silent"), (12, 7, "deaf"), (12, 0, "deaf"), (6, 5, "silent"))
    for depth, place, fault in cases:
        found = broken_block(patient(depth, place, fault), x)
        assert found == (place, fault), f"{depth} blocks: got {found}, wanted {place, fault}"
    assert isinstance(found[0], int), f"the place is an int: got {found[0]!r}, wanted 5"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "broken-block-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
class Ward(nn.Module):
    def __init__(self, factor, fault):
        nn.Module.__init__(self)
        self.inner, self.factor, self.fault = SimpleFeedForward(12, 12), factor, fault

    def forward(self, tokens):
        said = self.factor * self.inner(nn.functional.layer_norm(tokens, (12,)))
        return tokens + (said.detach() if self.fault == "deaf" else 0 * said if self.fault == "silent" else said)


for seed, (depth, place, fault) in enumerate(
    [(9, 0, "deaf"), (9, 0, "silent"), (5, 4, "deaf"), (5, 4, "silent"), (14, 6, "deaf"), (14, 9, "silent")]
):
    torch.manual_seed(40 + seed)
    ward = nn.Sequential(*[Ward(1.0 + i % 3, fault if i == place else "") for i in range(depth)])
    found = broken_block(ward, torch.randn(4, 3, 12))
    assert (int(found[0]), str(found[1])) == (place, fault), f"{depth} other blocks: got {found}, wanted {place, fault}"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | independent branches add to the mean square: (1 + s²) to the power of the depth | branches in no particular direction, no norm |
# | a silent block adds 0 to the stream and 0 to the gradient | any branch, on any input |
# | a deaf block adds to the stream alone: its fault shows on the way back | whatever is cut by `detach` or `no_grad` |
