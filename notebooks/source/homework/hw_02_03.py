# %% [markdown]
# # Homework for lessons 02 and 03 · Two helpers that fail in silence
#
# About 50 minutes. You need lessons 02 and 03, and of the library only what they built.
#
# A colleague has written the two helpers of a residual branch herself: a norm for a network that runs in 16 bits, and a
# DropPath that drops one branch in ten. No error is raised, and yet the norm turns a row into zeros, and the gate
# silences the whole batch most of the time, as you will see in a moment. At the end you will have written a norm that
# is right in float16 and in float64, a function that tells what a gate drops, and a DropPath that passes it.
#
# Below each exercise are tests that you can read. Your answers are graded with others too, on other inputs.

# %%
from contextlib import suppress

import torch
from torch import nn

from residual_edu import DropPath, Dropout, layer_norm, rms_norm

from residual_course.checking.gradients import gradients
from residual_course.checking.properties import close, unchanged
from residual_course.exercises import attempt
from residual_course.lesson import setup

device = setup()


# %%
def handed_norm(x, eps=1e-5):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def handed_drop_path(branch, rate, training=True):
    """Drop at `rate`, and make up for it, so that the average stays."""
    if not training:
        return branch
    stays = torch.rand(1) < rate
    return branch * stays / rate


rows = torch.tensor([[3.0, 4.0], [300.0, 400.0]]).half()
print("the norm of two rows  ", handed_norm(rows).tolist())
calls = torch.stack([handed_drop_path(torch.ones(4), 0.1) for _ in range(20_000)])
print(f"the gate drops all of 4 samples in {(calls == 0).all(-1).double().mean():.1f} of the calls")
print(f"its average over 20,000 calls is {calls.mean():.1f}, as it should be")

# %% [markdown]
# The second row is a hundred times the first, so a norm should return the same for both, and the second came back as
# zeros. The gate was to drop one sample in ten, and in nine of ten calls it drops all four, although its average is
# right.
#
# ## A norm for 16 bits
#
# What happened to the row? The largest number in float16 is 65,504, and 300² is already 90,000. So the mean of the
# squares is infinite, and whatever is divided by infinity is 0. The usual mend is to take the statistics in a wider
# dtype, as Llama's RMSNorm does. We want a little more than that, because a size alone has a second weakness.
#
# LayerNorm removes the mean and the size of a row, RMSNorm the size alone. So a mean that all numbers of a
# row share stays in what RMSNorm returns. Here all numbers are moved by 5:

# %%
x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
for norm in (layer_norm, rms_norm):
    change = (norm(x + 5) - norm(x)).abs().max()
    print(f"{norm.__name__}: adding 5 changes the output by {change:.2f}")

# %% [markdown]
# ### Exercise 1 · Centred, and wide enough (9 minutes)
#
# One wrapper can give any norm without weights both properties, so that nobody has to write them again into each norm.
# Subtract from each row its mean, then apply `norm`; with `rms_norm` that is `layer_norm`. The result has the dtype of
# x. Compute in float32 at least, and in float64 for float64 rows: a mean, or a square, that was rounded to 16 bits is
# not accurate enough, nor is a float64 row that was rounded to 32.
#
# <details><summary>Hint 1</summary>Where must the mean be subtracted: from the norm's input, or from its output? Is it
# the mean of each row, or of all rows?</details>
# <details><summary>Hint 2</summary>In which dtype does the norm take its squares, and which dtype must the result have?
# Does the shape of the mean still broadcast against x?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "shift-proof", "locked": false, "schema_version": 3, "solution": true, "task": false}
def shift_proof(x, norm):
    """Return norm of the centred rows of x, in x's dtype; norm keeps the shape."""
    ### BEGIN SOLUTION
    wide = x.double()
    centred = wide - wide.mean(dim=-1, keepdim=True)
    return norm(centred).to(x.dtype)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "shift-proof-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("shift_proof"):
    close(shift_proof(x, rms_norm), layer_norm(x), "with rms_norm", rtol=1e-3)
    pairs = torch.tensor([[1.0, 3.0], [10.0, 16.0]])
    wanted = torch.tensor([[-1.0, 1.0], [-3.0, 3.0]]).tanh()
    close(shift_proof(pairs, torch.tanh), wanted, "with tanh as the norm, the output")
    opposite = torch.tensor([[300.0, -300.0]]).half()  # 300² is infinite in float16
    for rows in (opposite, (x + 2000).half(), x.double()[None] + 1e8):
        what = f"large rows, {rows.dtype}: "
        with unchanged(x=rows):
            found = shift_proof(rows, rms_norm)
        assert found.dtype == rows.dtype, f"{what}got {found.dtype}, wanted {rows.dtype}"
        close(found, layer_norm(rows.double()), what + "the output", rtol=2e-3)
    (slope,) = gradients(lambda x: shift_proof(x, torch.square), pairs)
    # A shift of a whole row changes nothing, so:
    close(slope.sum(-1), torch.zeros(2), "the sum of a row's gradient")

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
# ## What does this gate drop?
#
# The colleague's gate has the right average, and so has every gate that divides by the share that stays. An average
# cannot tell how many coins are thrown, nor how often they fall on "drop". The name of a function does not tell either,
# since libraries call the same thing differently. So we look at what comes out. Here are two gates whose answer you
# know:

# %%
for gate in (Dropout(0.5), DropPath(0.5)):
    print(type(gate).__name__, gate(torch.ones(3, 4)).int().tolist())

# %% [markdown]
# ### Exercise 2 · Find out from outside (12 minutes)
#
# Return what a gate drops in training, and its rate to within 0.035, as in `("sample", 0.3)`:
#
# - "unit": it throws a coin for each number;
# - "sample": it throws a coin for each sample (the first axis);
# - "batch": it throws one coin for the whole batch.
#
# The coins are new in each call, and the rate is between 0.1 and 0.9, so some thousand calls are needed. `gate` is a
# module that takes tensors of any shape. It may come in evaluation mode, in which it returns its input, and must be
# left in the mode in which it came. It may forget to divide. Look at outputs alone, not at attributes.
#
# <details><summary>Hint 1</summary>Give it ones, with many samples and many features. Which of the zeros must agree if
# there is one coin for each sample, and which if there is one for all?</details>
# <details><summary>Hint 2</summary>The rate is the share of zeros. Of how many coins must it be a share, to be right to
# within 0.035? How many calls is that for a gate with one coin a call?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "describe-gate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def describe_gate(gate):
    """Return what the gate drops ("unit", "sample" or "batch") and its rate."""
    ### BEGIN SOLUTION
    mode = gate.training
    gate.train()
    dropped = torch.stack([gate(torch.ones(20, 20)) == 0 for _ in range(3000)])
    gate.train(mode)
    rate = dropped.double().mean().item()
    if (dropped == dropped[:, :1, :1]).all():
        return "batch", rate
    return "sample" if (dropped == dropped[:, :, :1]).all() else "unit", rate
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
    cases = [("unit", Dropout, 0.3), ("sample", DropPath, 0.6), ("batch", ForTheBatch, 0.2)]
    for kind, make, rate in cases:
        for mode in (True, False):
            gate = make(rate).train(mode)
            found, share = describe_gate(gate)
            assert found == kind, f"got {found!r}, wanted {kind!r}"
            near = abs(share - rate) < 0.035
            assert near, f"the rate of {kind!r}: got {share:.3g}, wanted {rate}"
            left = gate.training
            assert left == mode, f"its mode: got training {left}, wanted {mode}"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "describe-gate-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
class Sealed(nn.Module):
    def __init__(self, shape, chance, factor):
        nn.Module.__init__(self)
        self.inner, self.chance, self.factor = shape, chance, factor

    def forward(self, x):
        if self.training is False:
            return x
        drawn = torch.rand({"sample": (len(x), *[1] * (x.ndim - 1)), "batch": ()}.get(self.inner, x.shape))
        return x * (drawn >= self.chance) * self.factor


torch.manual_seed(17)
for shape in ("unit", "sample", "batch"):
    for chance, factor, trains in ((0.12, 1.0, True), (0.88, 8.0, False), (0.4, 1.0, False), (0.5, 2.0, True)):
        sealed = Sealed(shape, chance, factor).train(trains)
        with unchanged():
            kind, rate = describe_gate(sealed)
        assert kind == shape, f"a gate of the kind {shape!r} and rate {chance}: got {kind!r}, wanted {shape!r}"
        assert abs(rate - chance) < 0.04, f"a gate of the kind {shape!r}: got the rate {rate:.3g}, wanted {chance}"
        assert sealed.training == trains, f"its mode: got training {sealed.training}, wanted {trains}"
### END HIDDEN TESTS

# %% [markdown]
# ## The colleague's gate
#
# **Measure first.** She asked for a rate of 0.1, with a coin for each sample. What does your function say of her gate?


# %%
class Gate(nn.Module):
    """A function such as `handed_drop_path` as a module, which has a mode."""

    def __init__(self, function, rate):
        super().__init__()
        self.function, self.rate = function, rate

    def forward(self, branch):
        return self.function(branch, self.rate, self.training)


with suppress(NotImplementedError):  # prints as soon as exercise 2 is written
    kind, rate = describe_gate(Gate(handed_drop_path, 0.1))
    print(f"her gate: a coin for each {kind}, dropped {rate:.1f}")

# %% [markdown]
# ### Exercise 3 · Mend it (7 minutes)
#
# She copied the lines from a library in which the number is the share that *stays* (TensorFlow 1 called it
# `keep_prob`), and she drew one coin for all. Write it so that `rate` is the share of samples that are dropped, with a
# coin for each sample. The branch has the shape (batch, ...) with any number of axes, and the result has its dtype. In
# evaluation it comes back as it is. Write it in plain torch, without the `DropPath` that is imported above.
#
# <details><summary>Hint 1</summary>By what do you have to divide what stays, so that the average is that of the
# branch?</details>
# <details><summary>Hint 2</summary><code>branch.ndim</code> tells how many axes of length 1 the coins need after the
# first. Coins as True and False leave the dtype alone.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "mended-drop-path", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_drop_path(branch, rate, training=True):
    """Drop samples of the branch at a rate in [0, 1), and make up for it."""
    ### BEGIN SOLUTION
    if not training:
        return branch
    stays = torch.rand(len(branch), *[1] * (branch.ndim - 1)) >= rate
    return branch * stays / (1 - rate)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-drop-path-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("mended_drop_path"):
    torch.manual_seed(5)
    for shape in ((4000, 3), (4000, 2, 2)):
        branch = torch.ones(shape, dtype=torch.float64, requires_grad=True)
        found = mended_drop_path(branch, 0.2)
        each = found.flatten(1)
        assert (each == each[:, :1]).all(), "got samples dropped in part, wanted whole"
        alike = (each == each[0]).all()
        assert not alike, "got all samples alike, wanted a coin for each"
        dropped = (each[:, 0] == 0).double().mean()
        assert abs(dropped - 0.2) < 0.04, f"got {dropped:.2f} dropped, wanted 0.2"
        close(found.max(), 1.25, "what stays, 1 / (1 - 0.2),")
        found.sum().backward()
        close(branch.grad, found, "the gradient of a branch of ones")
    again = mended_drop_path(branch, 0.2)
    assert not torch.equal(again, found), "a second call: got the same coins, wanted new"
    some = torch.randn(4, 4, 4).half()
    found = mended_drop_path(some, 0.5)
    assert found.shape == some.shape, f"got {found.shape}, wanted {some.shape}"
    assert found.dtype == some.dtype, f"got {found.dtype}, wanted {some.dtype}"
    close(mended_drop_path(some, 0.5, training=False), some, "in evaluation, the output")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "mended-drop-path-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(29)
for shape, chance in (((5000,), 0.1), ((5000, 3, 1, 2), 0.75), ((5000, 1), 0.9), ((5000, 2), 0.0)):
    branch = torch.rand(shape).add(1).requires_grad_()
    with unchanged(branch=branch):
        found = mended_drop_path(branch, chance)
    close(torch.tensor(found.shape), torch.tensor(shape), f"for {shape}: the shape")
    factor = (found / branch).flatten(1) if len(shape) > 1 else (found / branch)[:, None]
    stays = factor[:, 0] > 0
    close(factor, stays[:, None].expand_as(factor) / (1 - chance), f"for {shape}: the factor of each number")
    share = 1 - stays.double().mean()
    assert abs(share - chance) < 0.03, f"for {shape}: got {share:.3f} dropped, wanted {chance}"
    alike = (stays[1:] == stays[:-1]).double().mean()
    wanted = chance**2 + (1 - chance) ** 2
    assert abs(alike - wanted) < 0.04, f"neighbours that share their fate: got {alike:.2f}, wanted {wanted:.2f}"
    (back,) = torch.autograd.grad(found.sum(), branch)
    close(back, found / branch, f"for {shape}: the gradient")
one = torch.stack([mended_drop_path(torch.ones(1, 2), 0.3)[0, 0] == 0 for _ in range(3000)]).double().mean()
assert abs(one - 0.3) < 0.04, f"a batch of one sample: got {one:.2f} dropped, wanted 0.3"
for dtype in (torch.float16, torch.bfloat16, torch.float64):
    found = mended_drop_path(torch.ones(6, 2, dtype=dtype), 0.5)
    assert found.dtype == dtype, f"for {dtype}: got {found.dtype}, wanted {dtype}"
    still = mended_drop_path(torch.ones(6, 2, dtype=dtype), 0.5, False)
    close(still, torch.ones(6, 2, dtype=dtype), "in evaluation, the output")
### END HIDDEN TESTS

# %%
with suppress(NotImplementedError):  # prints as soon as exercises 1 and 3 are written
    rows = torch.tensor([[3.0, 4.0], [300.0, 400.0]]).half()
    print("the mended norm of two rows", shift_proof(rows, handed_norm).tolist())
    calls = torch.stack([mended_drop_path(torch.ones(4), 0.1) for _ in range(20_000)])
    print(f"dropped: all of 4 samples in {(calls == 0).all(-1).double().mean():.1f} of the calls")

# %% [markdown]
# A right average does not make a right gate: who gets a coin, and how often it falls on "drop", shows in the zeros of a
# few thousand calls on ones. Shapes deserve the same distrust, because a mask that does not fit is broadcast without a
# word. In [one library](https://github.com/keras-team/keras-hub/issues/3039) a mask with an axis too many gave the
# branch a second batch axis.
