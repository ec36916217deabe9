# %% [markdown]
# # Homework for lessons 02 and 03 · Norms and random branches
#
# 35 minutes. It needs lessons 02 and 03, and of the library only what they finished.
#
# By the end you can
#
# - **make** any norm independent of a row's mean, in float16 too;
# - **choose** the rate of a drop-path schedule by the number of blocks that it leaves;
# - **compute** how noisy stochastic depth makes a branch.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
import torch

from residual_edu import drop_path, drop_path_schedule, layer_norm, rms_norm
from residual_edu.exercises import attempt
from residual_edu.exercises.gradients import gradients
from residual_edu.exercises.properties import close
from residual_edu.exercises.unchanged import unchanged
from residual_edu.lesson import setup

device = setup()
x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))

# %% [markdown]
# ## A norm and a shift
#
# LayerNorm removes the mean and the size of a row, RMSNorm the size alone. So adding 5 to all numbers of a row leaves
# LayerNorm's output as it is, and changes RMSNorm's:

# %%
for norm in (layer_norm, rms_norm):
    print(f"{norm.__name__}: adding 5 changes the output by {(norm(x + 5) - norm(x)).abs().max():.2f}")

# %% [markdown]
# ### Exercise 1 · 12 minutes · ●●●○○
#
# Make any norm independent of such a shift: return `norm` of the rows of x without their means. With `rms_norm` this is
# `layer_norm`. It must hold for rows whose mean is large, in float16 and in float64 as well: the result has the dtype
# of x, but a mean that was rounded to 16 bits, or a float64 row that was rounded to 32, is not accurate enough.
#
# <details><summary>Hint 1</summary>Where must the mean be subtracted: from the norm's input, or from its output? Is it
# the mean of each row, or of all rows?</details>
# <details><summary>Hint 2</summary>Three steps: convert x to a dtype that is wide enough; centre each row in it and
# apply the norm; convert the result back. Which axis does the mean run over, and does its shape still broadcast against
# x?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "shift-proof", "locked": false, "schema_version": 3, "solution": true, "task": false}
def shift_proof(x, norm):
    """Return norm of the centred rows of x, in the dtype of x; norm keeps the shape of its input."""
    ### BEGIN SOLUTION
    wide = x.double()
    centred = wide - wide.mean(dim=-1, keepdim=True)
    return norm(centred).to(x.dtype)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "shift-proof-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("shift_proof"):
    close(shift_proof(x, rms_norm), layer_norm(x), "shift_proof(x, rms_norm)", rtol=1e-3)
    pairs = torch.tensor([[1.0, 3.0], [10.0, 16.0]])
    close(shift_proof(pairs, torch.tanh), torch.tanh(torch.tensor([[-1.0, 1], [-3, 3]])), "shift_proof(pairs, tanh)")
    for rows in ((x + 2000).half(), x.double()[None] + 1e8):
        what = f"rows far from zero, {rows.dtype}, shape {tuple(rows.shape)}: "
        with unchanged(x=rows):
            found = shift_proof(rows, rms_norm)
        assert found.dtype == rows.dtype, f"{what}got {found.dtype}, wanted {rows.dtype}"
        close(found, layer_norm(rows.double()), what + "the output", rtol=2e-3)
    (slope,) = gradients(lambda x: shift_proof(x, torch.square), pairs)
    close(slope.sum(-1), torch.zeros(2), "adding the same to a whole row changes nothing: the sum of its gradient")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "shift-proof-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
rows = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(11))
kinds = {
    "rows of another shape": rows + 1,
    "rows that hardly vary": 1e-2 * rows,
    "rows far from zero": rows + 1000,
    "large rows in float16": (8 * rows + 2000).half(),
    "float64 rows far from zero": rows.double() - 1e6,
}
norms = {"rms_norm": rms_norm, "tanh": torch.tanh, "largest": lambda z: z / z.abs().amax(-1, keepdim=True)}
weights = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(12)).double()
for kind, one in kinds.items():
    mine, wide = one.clone().requires_grad_(), one.double().requires_grad_()
    middle = wide - wide.mean(-1, keepdim=True)
    for called, way in norms.items():
        got, want = shift_proof(mine, way), way(middle)
        assert got.dtype == one.dtype, f"{kind}, with {called}: got {got.dtype}, wanted {one.dtype}"
        close(got, want, f"{kind}, with {called}: the output", rtol=2e-3)
        back = torch.autograd.grad((weights * want).sum(), wide, retain_graph=True)[0]
        assert got.requires_grad, f"{kind}, with {called}: got an output without a gradient, wanted one"
        (mine_back,) = torch.autograd.grad((weights * got.double()).sum(), mine)
        close(mine_back, back, f"{kind}, with {called}: the gradient of x", rtol=5e-3)
    assert torch.equal(mine, one), f"{kind}: got x changed in place, wanted x as it was"
### END HIDDEN TESTS

# %% [markdown]
# ## How deep on average
#
# `drop_path_schedule(depth, rate)` gives the first block rate 0 and the last one `rate`, in equal steps. A dropped
# block is skipped for that sample. So each sample passes through a network of random depth:

# %%
rates = drop_path_schedule(5, 0.4)
print("rates:", ", ".join(f"{rate:.1f}" for rate in rates), f"  blocks left, on average: {5 - sum(rates):.1f}")

# %% [markdown]
# ### Exercise 2 · 8 minutes · ●●○○○
#
# Return the `rate` with which the schedule leaves `expected` of `depth` blocks on average. Here `depth` is at least 2
# and `expected` more than half of it and at most all of it.
#
# <details><summary>Hint 1</summary>What is the mean of rates that rise in equal steps from 0 to
# <code>rate</code>?</details>
# <details><summary>Hint 2</summary>The mean is half of the last rate. Write the number of blocks dropped on average, in
# terms of depth and rate, and set it to the number that may be dropped.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "rate-for", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rate_for(depth, expected):
    """Return the rate of the last block, in [0, 1)."""
    ### BEGIN SOLUTION
    lost = depth - expected
    return 2 * lost / depth
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "rate-for-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("rate_for"):
    for depth, expected, wanted in ((24, 18, 0.5), (2, 1.5, 0.5), (32, 31, 0.0625), (10, 5.5, 0.9), (24, 24, 0.0)):
        close(float(rate_for(depth, expected)), wanted, f"rate_for({depth}, {expected})")
    rate = float(rate_for(5, 4))
    close(5 - sum(drop_path_schedule(5, rate)), 4.0, f"with rate_for(5, 4) = {rate:.4g}, the number of blocks left")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "rate-for-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
for blocks, left in ((2, 1.5), (5, 4.0), (12, 11.4), (36, 18.5), (100, 63.0), (7, 7)):
    last = float(rate_for(blocks, left))
    mean_depth = sum(1 - last * i / (blocks - 1) for i in range(blocks))
    close(mean_depth, float(left), f"with rate_for({blocks}, {left}) = {last:.4g}, the number of blocks left")
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 3 · 10 minutes · ●●●○○
#
# The output of a branch is 1 for every sample, and `drop_path` is applied to it. The mean stays 1; for each sample the
# result is 0 or more than 1. Return the rate at which the standard deviation of the result is `noise` times its mean.
#
# <details><summary>Hint 1</summary>The result is 0 with probability p, and 1/(1 - p) otherwise. What is its mean
# square?</details>
# <details><summary>Hint 2</summary>The variance is the mean square less the squared mean, and the mean is 1. Simplify
# it to one fraction in p, then solve for p.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "rate-of-noise", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rate_of_noise(noise):
    """Return the rate, in [0, 1), for a noise of 0 or more."""
    ### BEGIN SOLUTION
    variance = noise**2
    return variance / (1 + variance)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "rate-of-noise-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("rate_of_noise"):
    with unchanged():
        rates = {noise: float(rate_of_noise(noise)) for noise in (0, 1.0, 2.0)}
    close(rates.pop(0), 0.0, "rate_of_noise(0)")
    for noise, rate in rates.items():
        passed = drop_path(torch.ones(200_000, 1), rate)
        measured = float(passed.std() / passed.mean())
        assert abs(measured - noise) < 0.05, f"at the rate {rate:.4g}: got a noise of {measured:.2f}, wanted {noise}"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "rate-of-noise-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(23)
for ratio, p in ((0, 0.0), (0.5, 0.2), (1 / 3, 0.1), (2.0, 0.8), (3, 0.9), (0.1, 1 / 101), (10, 100 / 101)):
    with unchanged():
        found = rate_of_noise(ratio)
    close(float(found), p, f"rate_of_noise({ratio:.4g})")
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | LayerNorm is RMSNorm of the centred row | every row, if it is centred in float32 or wider |
# | a linear schedule drops depth · rate / 2 blocks on average | rates in equal steps from 0 |
# | dropping at rate p gives a noise of √(p/(1 - p)) | a branch whose output does not depend on what was dropped |
