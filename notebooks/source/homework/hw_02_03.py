# %% [markdown]
# # Homework for lessons 02 and 03 · A shift, a noise, and a gate from outside
#
# 45 minutes. It needs lessons 02 and 03, and of the library only what they finished.
#
# By the end you can
#
# - **make** any norm independent of a row's mean, in float16 too;
# - **compute** the rate of dropout that gives a wanted noise;
# - **find out** from outside what a gate drops, and how often, whatever its code says.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
import torch

from torch import nn

from residual_edu import DropPath, Dropout, drop_path, layer_norm, rms_norm
from residual_course.exercises import attempt
from residual_course.checking.gradients import gradients
from residual_course.checking.properties import close
from residual_course.checking.unchanged import unchanged
from residual_course.lesson import setup

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
# ## How noisy is a branch?
#
# In lesson 03 a number kept its average and its square grew: what dropout adds is noise. To compare gates one needs the
# rate that belongs to a noise.
#
# ### Exercise 2 · 10 minutes · ●●●○○
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
# ## What does this gate drop?
#
# A library's gate is called `drop`, with an argument `rate`. Does it throw a coin for each unit, each sample, or the whole batch? Is
# the coin new in each call? Names do not tell, and in lesson 03 a network dropped where it should not. So measure it.
#
# Three gates, all called with ones, all with a mean of about 1 over many calls:


# %%
class Kept(nn.Module):
    """Dropout with a mask for each shape, drawn once."""

    def __init__(self, p):
        super().__init__()
        self.p, self.masks = p, {}

    def forward(self, h):
        if not self.training:
            return h
        mask = self.masks.setdefault(h.shape, torch.rand(h.shape) >= self.p)
        return h * mask / (1 - self.p)


torch.manual_seed(0)
for gate in (Dropout(0.5), DropPath(0.5), Kept(0.5)):
    print(type(gate).__name__, gate(torch.ones(3, 4)).int().tolist())

# %% [markdown]
# ### Exercise 3 · 18 minutes · ●●●●○
#
# `gate` is a module that drops in training and returns its input in evaluation. Return what it drops, and its rate to
# within 0.03, as in `("sample", 0.3)`:
#
# - "unit": a coin for each number, new in each call;
# - "sample": a coin for each sample (the first axis), new in each call;
# - "batch": one coin for the whole batch, new in each call;
# - "kept": one coin for each number, thrown once; later calls with the same shape use it again.
#
# All rates are between 0.1 and 0.8. A gate may come in evaluation mode, and must be left in the mode in which it came.
# It may forget to divide by 1 - p. Look at outputs alone, not at attributes.
#
# <details><summary>Hint 1</summary>Which of the four can be told apart by one call with many samples and features, and
# which need a second call?</details>
# <details><summary>Hint 2</summary>The rate is a share of zeros. Of how many coins must it be a share, to be right to
# within 0.03? How many calls is that for a gate with one coin a call?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "describe-gate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def describe_gate(gate):
    """Return what the gate drops ("unit", "sample", "batch" or "kept") and its rate."""
    ### BEGIN SOLUTION
    mode = gate.training
    gate.train()
    masks = torch.stack([gate(torch.ones(40, 40)) == 0 for _ in range(3000)])
    gate.train(mode)
    rate = masks.double().mean().item()
    if (masks == masks[:1]).all():
        return "kept", rate
    if (masks == masks[:, :1, :1]).all():
        return "batch", rate
    return "sample" if (masks == masks[:, :, :1]).all() else "unit", rate
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "describe-gate-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
class ForTheBatch(nn.Module):
    """One coin a call, without the factor 1 / (1 - p)."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, h):
        return h * (torch.rand(()) >= self.p) if self.training else h


with attempt("describe_gate"):
    torch.manual_seed(3)
    cases = {"unit": Dropout(0.3), "sample": DropPath(0.6), "kept": Kept(0.3), "batch": ForTheBatch(0.2)}
    for kind, gate in cases.items():
        gate.train(kind != "sample")
        found = describe_gate(gate)
        rate = {"unit": 0.3, "sample": 0.6, "kept": 0.3, "batch": 0.2}[kind]
        assert found[0] == kind, f"a gate of the kind {kind!r}: got {found[0]!r}, wanted {kind!r}"
        assert abs(found[1] - rate) < 0.035, f"a gate of the kind {kind!r}: got the rate {found[1]:.3g}, wanted {rate}"
        assert gate.training == (kind != "sample"), f"its mode: got training {gate.training}, wanted it as it was"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "describe-gate-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
class Sealed(nn.Module):
    def __init__(self, shape, chance, factor):
        nn.Module.__init__(self)
        self.inner, self.chance, self.factor, self.seen = shape, chance, factor, {}

    def forward(self, x):
        if self.training is False:
            return x
        drawn = torch.rand({"sample": (len(x), *[1] * (x.ndim - 1)), "batch": ()}.get(self.inner, x.shape))
        if self.inner == "kept":
            drawn = self.seen.setdefault(x.shape, drawn)
        return x * (drawn >= self.chance) * self.factor


torch.manual_seed(17)
for shape in ("unit", "sample", "batch", "kept"):
    for chance, factor, trains in ((0.15, 1.0, True), (0.75, 4.0, False), (0.4, 1.0, False)):
        sealed = Sealed(shape, chance, factor).train(trains)
        kind, rate = describe_gate(sealed)
        assert kind == shape, f"a gate of the kind {shape!r} and rate {chance}: got {kind!r}, wanted {shape!r}"
        assert abs(rate - chance) < 0.04, f"a gate of the kind {shape!r}: got the rate {rate:.3g}, wanted {chance}"
        assert sealed.training == trains, f"its mode: got training {sealed.training}, wanted {trains}"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | LayerNorm is RMSNorm of the centred row | every row, if it is centred in float32 or wider |
# | dropping at rate p gives a noise of √(p/(1 - p)) | a branch whose output does not depend on what was dropped |
# | what a gate does shows in two calls on ones; its rate needs many coins | gates whose noise is zeros |
