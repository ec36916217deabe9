# %% [markdown]
# # Homework for lessons 04 and 05 · Placements and gates
#
# 45 minutes. It needs lessons 04 and 05, and of the library only what they finished.
#
# By the end you can
#
# - **wire** a third placement out of finished pieces, and not the one it is mistaken for;
# - **tell** pre-norm from post-norm by the gradient in the last block alone;
# - **find** the parameters of a branch that will never wake.
#
# Below each exercise stand tests that you can read. It is graded with others as well, on other inputs.

# %%
import copy

import torch
from torch import nn

from residual_edu import LayerNorm, LayerScale, SimpleFeedForward, post_norm_residual, pre_norm_residual
from residual_edu.exercises import attempt
from residual_edu.exercises.properties import close
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.lesson import setup

device = setup()

# %% [markdown]
# ## A norm on both sides
#
# Pre-norm lets every branch speak as loudly as it likes. Some later networks norm what a branch is asked **and** what it
# answers, before that is added: x ← x + norm₂(f(norm₁(x))). It is called peri-norm. A much read page wrote
# norm₂(x + f(norm₁(x))) instead, and there the stream itself is normed.
#
# ### Exercise 1 · 6 minutes · ●●○○○
#
# Return the peri-norm block's output, best with one call of a function that you know.
#
# <details><summary>Hint 1</summary>What in <code>pre_norm_residual</code> comes after the layer, and before the
# sum?</details>
# <details><summary>Hint 2</summary>Its gates: a list of whatever the branch goes through. <code>norm_2</code> can be one
# of them.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "peri-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def peri_norm(x, layer, norm_1, norm_2):
    """Return the output of one branch with a norm before it and a norm after it."""
    ### BEGIN SOLUTION
    return pre_norm_residual(x, layer, norm_1, [norm_2])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "peri-norm-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("peri_norm"):
    stream = 5 * torch.randn(4, 8, generator=torch.Generator().manual_seed(2)) + 3
    silent = peri_norm(stream, lambda z: 0 * z, LayerNorm(8), LayerNorm(8))
    close(silent, stream, "with a branch of zeros, the output", rtol=0)
    by_hand = peri_norm(torch.ones(1), lambda z: z + 1, lambda z: 2 * z, lambda z: 3 * z)  # 1 + 3 (2 * 1 + 1)
    close(by_hand, torch.tensor([10.0]), "with norm_1 = 2 z, layer = z + 1, norm_2 = 3 z and x = 1, the output")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "peri-norm-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(21)
rows, mlp, first, second = 4 * torch.randn(2, 3, 10) - 1, SimpleFeedForward(10, 20), LayerNorm(10), LayerNorm(10)
for norm in (first, second):
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
parts = [p for part in (mlp, first, second) for p in part.parameters()]
for size in (1, 1000):
    given = (size * rows).requires_grad_()
    got, want = peri_norm(given, mlp, first, second), given + second(mlp(first(given)))
    close(got, want, f"with two norms that differ, x times {size}: the output")
    assert torch.equal(given, size * rows), "got x changed in place, wanted x as it was"
    pull = torch.randn(2, 3, 10)
    wanted = torch.autograd.grad((pull * want).sum(), [given, *parts])
    found = torch.autograd.grad((pull * got).sum(), [given, *parts], allow_unused=True) if got.requires_grad else []
    assert len(found) == len(wanted), "got an output without a gradient, wanted one"
    for place, (mine, right) in enumerate(zip(found, wanted, strict=True)):
        what = "x" if place == 0 else f"parameter {place} of the layer, norm_1 and norm_2"
        assert mine is not None, f"the gradient of {what}: got none, wanted one"
        close(mine, right, f"the gradient of {what}")
### END HIDDEN TESTS

# %% [markdown]
# ## What the last block hears
#
# Stacks of several depths, with each placement, the loss on the normed end. Here is the gradient in the weights of the
# last block, as the recorder reads it:


# %%
class Block(nn.Module):
    def __init__(self, width, wiring):
        super().__init__()
        self.norm, self.layer, self.wiring = LayerNorm(width), SimpleFeedForward(width, 4 * width), wiring

    def forward(self, x):
        return self.wiring(x, self.layer, self.norm)


def last_gradient(wiring, depth, seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(*[Block(32, wiring) for _ in range(depth)], LayerNorm(32))
    for block in model[:-1]:
        nn.init.kaiming_normal_(block.layer.linear1.weight)
        nn.init.kaiming_normal_(block.layer.linear2.weight)
    with GradientFlowRecorder(model, model[:-1]) as flow:
        (model(torch.randn(64, 32)) * torch.randn(64, 32)).mean().backward()
    return float(flow.weight_gradient[0, -1])


depths = [2, 4, 8, 16, 32]
for name, wiring in [("pre", pre_norm_residual), ("post", post_norm_residual)]:
    sizes = [last_gradient(wiring, depth) for depth in depths]
    print(name, "against depth 2:", " ".join(f"{size / sizes[0]:.1f}" for size in sizes))

# %% [markdown]
# ### Exercise 2 · 12 minutes · ●●●○○
#
# Somebody hands you the depths of some stacks, in any order, and these sizes, with a wobble of some per cent and in
# units of their own. Return `"pre"` or `"post"`.
#
# <details><summary>Hint 1</summary>One falls as the root of the depth, the other does not fall. Between which two depths
# does that show most, and in what order were they handed over?</details>
# <details><summary>Hint 2</summary>Take the shallowest and the deepest. With pre-norm, size times √depth is the same for
# both; with post-norm, size. Which is nearer, on a log scale?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "wiring-of", "locked": false, "schema_version": 3, "solution": true, "task": false}
def wiring_of(depths, sizes):
    """Return "pre" or "post" for lists of at least two different depths and their sizes."""
    ### BEGIN SOLUTION
    depth, size = torch.tensor(depths).double().log(), torch.tensor(sizes).double().log()
    slope = ((depth - depth.mean()) * (size - size.mean())).sum() / (depth - depth.mean()).square().sum()
    return "pre" if slope < -0.25 else "post"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "wiring-of-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("wiring_of"):
    cases = [([4, 16, 64], [0.8, 0.4, 0.2], "pre"), ([4, 16, 64], [0.8, 0.8, 0.8], "post")]
    cases += [([64, 4, 16], [32.0, 29.0, 30.0], "post"), ([50, 2], [10.0, 50.0], "pre")]
    for depths, sizes, wanted in cases:
        found = wiring_of(depths, sizes)
        assert found == wanted, f"depths {depths}, sizes {sizes}: got {found!r}, wanted {wanted!r}"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "wiring-of-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
cases = [([48, 3, 12], [0.51, 1.98, 1.04], "pre"), ([96, 6, 24], [3.1, 2.9, 3.0], "post")]
cases += [([100, 10], [31.0, 97.0], "pre"), ([10, 100], [0.0097, 0.0091], "post")]
cases += [([8, 16, 32], [1.06, 0.97, 0.94], "post"), ([256, 4], [1.08, 0.93], "post"), ([20, 16], [0.90, 1.0], "pre")]
for seed in (31, 32):
    for wiring, way in (("pre", pre_norm_residual), ("post", post_norm_residual)):
        cases.append(([32, 2, 8], [last_gradient(way, depth, seed) for depth in (32, 2, 8)], wiring))
for depths, sizes, wanted in cases:
    found = wiring_of(list(depths), list(sizes))
    assert found == wanted, f"depths {depths}, sizes {sizes}: got {found!r}, wanted {wanted!r}"
### END HIDDEN TESTS

# %% [markdown]
# ## Who stays asleep?
#
# A branch in three parts, its gate shut, and as lesson 05 has it: the gate alone hears something in the first step.
# Shut a second door, and nobody does.


# %%
def branch(width, gate=0.0):
    torch.manual_seed(width)
    return nn.Sequential(LayerNorm(width), SimpleFeedForward(width, 2 * width), LayerScale(width, gate))


x = torch.randn(16, 8, generator=torch.Generator().manual_seed(3))
one = branch(8)
optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
(x + one(x)).square().mean().backward()
optimizer.step()
print("in the first step a gradient reaches:", [name for name, p in one.named_parameters() if p.grad.any()])

# %% [markdown]
# ### Exercise 3 · 20 minutes · ●●●●○
#
# Return the names of the parameters of `branch` that hear nothing: in none of three steps of plain gradient descent
# (rate 0.1) on the loss `(x + branch(x)).square().mean()` is their gradient other than zero. Give them as a sorted list,
# and leave the branch that you are handed as it is.
#
# <details><summary>Hint 1</summary>Who wakes in the first step lets others wake in the second. So the first gradient is
# not enough.</details>
# <details><summary>Hint 2</summary><code>copy.deepcopy(branch)</code>, three steps of <code>torch.optim.SGD</code>, and
# after each backward pass strike out the names with <code>p.grad.any()</code>.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "asleep", "locked": false, "schema_version": 3, "solution": true, "task": false}
def asleep(branch, x):
    """Return the sorted names of the parameters that no gradient reaches in three steps."""
    ### BEGIN SOLUTION
    mine, awake = copy.deepcopy(branch), set()
    descent = torch.optim.SGD(mine.parameters(), lr=0.1)
    for _ in range(3):
        descent.zero_grad()
        (x + mine(x)).square().mean().backward()
        awake |= {name for name, parameter in mine.named_parameters() if parameter.grad.any()}
        descent.step()
    return sorted(set(dict(mine.named_parameters())) - awake)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "asleep-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("asleep"):
    found = asleep(branch(8), x)
    assert found == [], f"a gate of zero alone: got {found}, wanted []"
    two_zeros = branch(8)
    nn.init.zeros_(two_zeros[1].linear2.weight)
    found = asleep(two_zeros, x)
    assert found == [], f"a gate and a weight of zero, and a bias that is not: got {found}, wanted []"
    nn.init.zeros_(two_zeros[1].linear2.bias)
    found = asleep(two_zeros, x)
    wanted = sorted(name for name, _ in two_zeros.named_parameters())
    assert found == wanted, f"a gate of zero, and a layer that returns zeros: got {found}, wanted {wanted}"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "asleep-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
def expect(branch, y, wanted, what):
    kept = copy.deepcopy(branch.state_dict())
    found = list(asleep(branch, y))
    assert found == wanted, f"{what}: got {found}, wanted {wanted}"
    changed = [name for name, value in branch.state_dict().items() if not torch.equal(value, kept[name])]
    assert not changed, f"the branch that was handed over: got {changed} changed, wanted it as it was"
    left = [name for name, p in branch.named_parameters() if p.grad is not None]
    assert not left, f"the branch that was handed over: got gradients left in {left}, wanted none"


ward = branch(12)
y = torch.randn(9, 12, generator=torch.Generator().manual_seed(33))
nn.init.zeros_(ward[1].linear2.weight)
expect(ward, y, [], "a zero weight, but a bias that opens the gate")
nn.init.zeros_(ward[1].linear1.weight)
nn.init.zeros_(ward[1].linear1.bias)
stuck = ["0.bias", "0.weight", "1.linear1.bias", "1.linear1.weight", "1.linear2.weight"]
expect(ward, y, stuck, "a ReLU that is always at zero")
fixed = nn.Sequential(LayerNorm(12, elementwise_affine=False), SimpleFeedForward(12, 6), LayerScale(12, 0.0))
nn.init.zeros_(fixed[1].linear1.weight)
nn.init.zeros_(fixed[1].linear2.bias)
nn.init.ones_(fixed[1].linear1.bias)
expect(fixed, y, [], "a hidden layer that is 1 for every input")
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | peri-norm norms what a branch answers; the stream is a sum still | any branch |
# | the last gradient: the root of the depth with pre-norm, flat with post-norm | at the start of training, weights of the usual size |
# | of two zeros in series neither wakes | products; a bias between them can open the door |
