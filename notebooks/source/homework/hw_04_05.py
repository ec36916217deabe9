# %% [markdown]
# # Homework for lessons 04 and 05 · Placements and gates
#
# 45 minutes. It needs lessons 04 and 05, and of the library only what they finished.
#
# By the end you can
#
# - **build** a third placement of the norm, and not the one it is mistaken for;
# - **tell** pre-norm from post-norm by the gradient of the last block alone;
# - **build** the instrument that finds the faults of lesson 05's last network.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
import copy

import torch
from torch import nn

from residual_edu import LayerNorm, LayerScale, SimpleFeedForward, post_norm_residual, pre_norm_residual
from residual_edu.exercises import attempt
from residual_edu.exercises.properties import close
from residual_edu.exercises.unchanged import unchanged
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.lesson import setup

device = setup()

# %% [markdown]
# ## A norm on both sides
#
# With pre-norm the output of a branch may be of any size: in lesson 05 a gate made it small, in lesson 04 smaller first weights did, and both can
# grow. A third way normalises the input of a branch **and** its output, before that is added: x ← x + norm₂(f(norm₁(x))). This is called
# peri-norm. It is easily confused with norm₂(x + f(norm₁(x))), which normalises the residual stream itself, as post-norm does.
#
# ### Exercise 1 · 6 minutes · ●●○○○
#
# Return the peri-norm block's output, best with one call of a function that you know.
#
# <details><summary>Hint 1</summary>What in <code>pre_norm_residual</code> comes after the layer, and before the
# sum?</details>
# <details><summary>Hint 2</summary>Its gates: a list of functions that are applied to the output of the branch. Any
# function that keeps the shape can be one.</details>


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
    for number, wanted in ((1.0, 16.0), (2.0, 53.0)):
        given = torch.tensor([number])
        with unchanged(x=given):
            by_hand = peri_norm(given, lambda z: z * z + 1, lambda z: 2 * z, lambda z: 3 * z)  # x + 3 ((2 x)² + 1)
        close(
            by_hand,
            torch.tensor([wanted]),
            f"norm_1 = 2 z, layer = z² + 1, norm_2 = 3 z and x = {number:g}: the output",
        )
    given = torch.ones(1, requires_grad=True)
    by_hand = peri_norm(given, lambda z: z * z + 1, lambda z: 2 * z, lambda z: 3 * z)
    assert by_hand.requires_grad, "got an output without a gradient, wanted one"
    by_hand.sum().backward()
    close(given.grad, torch.tensor([25.0]), "the same with x = 1: the gradient of x, 1 + 24 x,")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "peri-norm-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(21)
rows, mlp, first, second = 4 * torch.randn(2, 3, 10) - 1, SimpleFeedForward(10, 20), LayerNorm(10), LayerNorm(10)
for norm in (first, second):
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
parts, calls = [p for part in (mlp, first, second) for p in part.parameters()], []
mlp.register_forward_hook(lambda *_: calls.append(1))
peri_norm(rows.clone(), mlp, first, second)
assert len(calls) == 1, f"calls of the layer: got {len(calls)}, wanted 1"
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
# ## The gradient in the last block
#
# By law 4 of lesson 04 the gradient of the last block falls with the depth in one placement, since the stream grows there (in lesson 05 as
# √(1 + ℓ · g²)), and not in the other. Here are new stacks, without gates, of
# several depths, with each placement and a norm at the end. The recorder measures the gradient of the last block's weights:


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
# You are given the depths of some stacks, in any order, and the sizes of these gradients, in an unknown unit and with
# an error of a few per cent. All stacks have the same placement. Return `"pre"` or `"post"`.
#
# <details><summary>Hint 1</summary>With one placement the size is nearly proportional to 1/√depth, with the other it does not
# depend on the depth. Between which two depths does that show most, and in what order are they given?</details>
# <details><summary>Hint 2</summary>Draw log size against log depth. Which slope does each placement predict, and which
# slope is halfway between?</details>


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
    cases += [([48, 3], [0.93, 1.0], "post"), ([9, 12, 16], [0.040, 0.035, 0.030], "pre")]
    for depths, sizes, wanted in cases:
        with unchanged(depths=depths, sizes=sizes):
            found = wiring_of(depths, sizes)
        assert found == wanted, f"depths {depths}, sizes {sizes}: got {found!r}, wanted {wanted!r}"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "wiring-of-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
cases = [([48, 3, 12], [0.51, 1.98, 1.04], "pre"), ([96, 6, 24], [3.1, 2.9, 3.0], "post")]
cases += [([100, 10], [31.0, 97.0], "pre"), ([10, 100], [0.0097, 0.0091], "post")]
cases += [([8, 16, 32], [1.06, 0.97, 0.94], "post"), ([256, 4], [1.08, 0.93], "post"), ([20, 16], [0.90, 1.0], "pre")]
cases += [([6, 4], [0.93, 1.0], "post"), ([8, 6], [0.905, 1.0], "pre")]
for seed in (31, 32):
    for wiring, way in (("pre", pre_norm_residual), ("post", post_norm_residual)):
        cases.append(([32, 2, 8], [last_gradient(way, depth, seed) for depth in (32, 2, 8)], wiring))
for depths, sizes, wanted in cases:
    with unchanged(depths=depths, sizes=sizes):
        found = wiring_of(depths, sizes)
    assert found == wanted, f"depths {depths}, sizes {sizes}: got {found!r}, wanted {wanted!r}"
### END HIDDEN TESTS

# %% [markdown]
# ## Which parameters receive no gradient?
#
# The last network of lesson 05 trained, and its blocks did not: in each branch two factors were zero, and in every second one a ReLU returned zeros. You found that by
# looking. Now build the instrument that finds it in any branch. Here is a branch of three parts whose gate is zero. In the first
# step the gate alone receives a gradient:


# %%
def branch(width, gate=0.0):
    torch.manual_seed(width)
    return nn.Sequential(LayerNorm(width), SimpleFeedForward(width, 2 * width), LayerScale(width, gate))


x = torch.randn(16, 8, generator=torch.Generator().manual_seed(3))
one = branch(8)
optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
(x + one(x)).square().mean().backward()
optimizer.step()
print("these receive a gradient in the first step:", [name for name, p in one.named_parameters() if p.grad.any()])

# %% [markdown]
# ### Exercise 3 · 20 minutes · ●●●●○
#
# Return the names of the parameters of `branch` that receive no gradient: in each of three steps of plain gradient
# descent (rate 0.1) on the loss `(x + branch(x)).square().mean()` their gradient is zero. Every parameter is used in
# `branch(x)`. Return a sorted list, and leave the branch that you are given as it is.
#
# <details><summary>Hint 1</summary>A parameter that changes in the first step can let a gradient through to others in
# the second. So the first gradient is not enough, and neither is the last.</details>
# <details><summary>Hint 2</summary>Train a deep copy, with torch's SGD. After each backward pass, collect the names
# whose gradient has any entry other than zero; return the names that were never collected.</details>


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
    dead_unit = branch(8)
    dead_unit[1].linear1.bias.data[0] = -100
    with unchanged(branch=dead_unit, x=x):
        found = asleep(dead_unit, x)
    assert found == [], f"a gate of zero, and one hidden unit whose ReLU is always zero: got {found}, wanted []"
    left = [name for name, p in dead_unit.named_parameters() if p.grad is not None]
    assert not left, f"the branch that was handed over: got gradients left in {left}, wanted none"
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
    with unchanged(branch=branch, x=y):
        found = list(asleep(branch, y))
    assert found == wanted, f"{what}: got {found}, wanted {wanted}"
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
ward = branch(12)
nn.init.zeros_(ward[2].gamma)
ward[1].linear1.bias.data[::2] = -100
expect(ward, y, [], "half of the hidden units always at zero")
everything = sorted(name for name, _ in ward.named_parameters())
expect(ward, torch.zeros(9, 12), everything, "x and the gate are zero, where the loss is smallest")
fixed = nn.Sequential(LayerNorm(12, elementwise_affine=False), SimpleFeedForward(12, 6), LayerScale(12, 0.0))
nn.init.zeros_(fixed[1].linear1.weight)
nn.init.zeros_(fixed[1].linear2.bias)
nn.init.ones_(fixed[1].linear1.bias)
expect(fixed, y, [], "a hidden layer that is 1 for every input")
faint = branch(12)
nn.init.zeros_(faint[1].linear2.bias)
faint[1].linear2.weight.data *= 1e-6
expect(faint, y, [], "weights of a millionth, whose gradients are tiny and not zero")
chain = nn.Sequential(*[nn.Linear(12, 12) for _ in range(3)], LayerScale(12, 0.0))
nn.init.zeros_(chain[1].weight)
nn.init.zeros_(chain[2].weight)
expect(chain, y, ["0.bias", "0.weight"], "two weights and a gate of zero: the first layer's gradient begins in step 4")
dying = nn.Sequential(nn.Linear(12, 12), nn.ReLU())
for p in dying.parameters():
    nn.init.constant_(p, 0.1)
expect(dying, torch.full((9, 12), 10.0), [], "a ReLU that is always at zero from the second step on")
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | peri-norm normalises a branch's output; the stream is still a sum | any branch |
# | the last gradient: as 1/√(1 + depth) with pre-norm, constant with post-norm | at the start of training, weights of the usual size |
# | of two zero factors in series neither receives a gradient | products; a bias between them can let a gradient through |
