# %% [markdown]
# # Homework for lessons 08c and 09 · Memory, cost, and four runs
#
# 50 minutes. It needs lessons 08c and 09, and of the library only what they finished.
#
# By the end you can
#
# - **program** a selective scan: a running sum that restarts where an input says so;
# - **find** the length from which one layer is more expensive than another;
# - **say** of four runs whether one change does less, or more, beside another.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
import inspect
import sys

import torch
from torch import nn

from residual_edu import MLP, Attention, Mamba, MambaLayer, QKVSequenceMixer, selective_scan
from residual_course.exercises import attempt
from residual_course.checking.properties import close
from residual_course.checking.unchanged import unchanged
from residual_course.lesson import setup

device = setup()

# %% [markdown]
# ## A running sum with resets
#
# The scan keeps exp(Δ A) of its state and adds Δ x B. A very small step keeps nearly all of the state and adds nearly
# nothing; a large one discards the state and adds much. With A = -1, B = C = 1 and x = 1:

# %%
ones = torch.ones(1, 5, 1, 1, dtype=torch.float64)
for step in (0.001, 1.0, 50.0):
    y = selective_scan(ones, step * ones[..., 0], -ones[0, 0, :, 0], ones[..., 0], ones[..., 0])
    print(f"step {step:6}:", " ".join(f"{value:.3f}" for value in y.flatten()))

# %% [markdown]
# ### Exercise 1 · 20 minutes · ●●●●○
#
# Return the running sum of x, (batch, time), that restarts wherever `reset`, (batch, time) and boolean, is True: the
# number at such a place is the first of the new sum. Make it one call of `selective_scan` in float64, with a step that
# you choose for each position, and no loop of your own over the positions; an error of a thousandth of the largest sum
# is allowed. The result has x's shape and dtype.
#
# <details><summary>Hint 1</summary>Which step discards the whole state, and which one keeps it? The scan adds Δ x B:
# which B makes that x itself, whatever Δ is?</details>
# <details><summary>Hint 2</summary>With A = -1, compute exp(-Δ) for Δ = 50 and for Δ = 1e-8. <code>torch.where</code>
# chooses between two numbers at each position. The scan takes x as (batch, time, 1, 1), dt as (batch, time, 1), A as
# (1,).</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "sum-since-reset", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sum_since_reset(x, reset):
    """Return the running sum of x, (batch, time), which restarts at each reset."""
    ### BEGIN SOLUTION
    wide = x.double()[..., None, None]
    dt = torch.where(reset, 50.0, 1e-8).double()[..., None]
    minus, one = -torch.ones(1, dtype=torch.float64), torch.ones_like(dt)
    return selective_scan(wide, dt, minus, 1 / dt, one)[..., 0, 0].to(x.dtype)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sum-since-reset-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
def scans_of(function, *inputs):
    """Return the result of a call, and the arguments of each call of selective_scan within it."""
    calls, before, scan = [], sys.getprofile(), inspect.unwrap(selective_scan).__code__
    sys.setprofile(lambda at, event, _: event == "call" and at.f_code is scan and calls.append({**at.f_locals}))
    try:
        return function(*inputs), calls
    finally:
        sys.setprofile(before)


with attempt("sum_since_reset"):
    numbers = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], requires_grad=True)
    where = torch.tensor([[0, 0, 1, 0], [1, 1, 0, 1]]).bool()
    with unchanged(x=numbers, reset=where):
        found, calls = scans_of(sum_since_reset, numbers, where)
    close(found, torch.tensor([[1.0, 3, 3, 7], [5, 6, 13, 8]]), "the sums of two rows", rtol=1e-3)
    assert found.dtype == numbers.dtype, f"the dtype: got {found.dtype}, wanted {numbers.dtype}"
    assert len(calls) == 1, f"calls of selective_scan: got {len(calls)}, wanted 1"
    assert calls[0]["x"].dtype == torch.float64, f"the scan's x: got {calls[0]['x'].dtype}, wanted torch.float64"
    assert found.requires_grad, "the gradient of x: got none, wanted one"
    (counts,) = torch.autograd.grad(found.sum(), numbers)
    close(counts, torch.tensor([[2.0, 1, 2, 1], [1, 2, 1, 1]]), "the gradient of x", rtol=1e-3)
    found = sum_since_reset(torch.ones(1, 1000), torch.zeros(1, 1000).bool())
    close(found[0, -1], 1000.0, "the sum of 1,000 ones", rtol=1e-3)


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "sum-since-reset-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
def lines_run(answer, *inputs):
    """Return how many lines of the notebook's own code a call runs."""
    home, before, count = getattr(answer, "__globals__", None), sys.gettrace(), [0]

    def trace(frame, event, _):
        count[0] += event == "line"
        return trace if frame.f_globals is home else None

    sys.settrace(trace)
    try:
        answer(*inputs)
    finally:
        sys.settrace(before)
    return count[0]


chance = torch.Generator().manual_seed(91)
for batch, time, often in ((1, 1, 1.0), (3, 40, 0.2), (2, 60, 0.0), (4, 30, 0.6)):
    given = torch.randn(batch, time, generator=chance)
    anew = torch.rand(batch, time, generator=chance) < often
    sums = torch.zeros(batch, time)
    for b in range(batch):
        total = 0.0
        for t in range(time):
            total = float(given[b, t]) + (0.0 if anew[b, t] else total)
            sums[b, t] = total
    mine = given.clone()
    result = sum_since_reset(mine, anew)
    assert result.dtype == given.dtype, f"the dtype: got {result.dtype}, wanted {given.dtype}"
    close(result, sums, f"the sums of {batch} rows of {time}", rtol=2e-3)
    assert torch.equal(mine, given), "got x changed in place, wanted x as it was"
for dtype in (torch.float16, torch.float64):
    given = torch.randn(2, 20, generator=chance).to(dtype)
    found = sum_since_reset(given, torch.zeros(2, 20).bool())
    assert found.dtype == dtype, f"the dtype: got {found.dtype}, wanted {dtype}"
    close(found.double(), given.double().cumsum(1), f"the sums of numbers in {dtype}", rtol=2e-3)
found = sum_since_reset(torch.ones(1, 1000), torch.zeros(1, 1000).bool())
close(found[0, -1], 1000.0, "the last of the sums of 1,000 ones", rtol=1e-3)
anew = torch.rand(3, 30, generator=chance) < 0.3
anew[:, 0] = True
given = torch.randn(3, 30, generator=chance).requires_grad_()
found, calls = scans_of(sum_since_reset, given, anew)
assert len(calls) == 1, f"calls of selective_scan for 3 rows: got {len(calls)}, wanted 1"
assert calls[0]["x"].dtype == torch.float64, f"the x of the scan: got {calls[0]['x'].dtype}, wanted torch.float64"
assert found.requires_grad, "the gradient of x: got none, wanted one"
keep = (calls[0]["dt"] * calls[0]["A"]).exp()
parts = [round(float(part.double().mean()), 3) for part in (keep < 0.01, keep > 0.99)]
wanted = [round(float(part.double().mean()), 3) for part in (anew, ~anew)]
assert parts == wanted, f"parts of the steps that forget all, and nothing: got {parts}, wanted {wanted}"
few, many = (lines_run(sum_since_reset, torch.ones(1, n), torch.ones(1, n).bool()) for n in (10, 100))
assert many < few + 45, f"lines that run for 10 and for 100 positions: got {few} and {many}, wanted no more for 100"
### END HIDDEN TESTS

# %% [markdown]
# ## From which length is it more expensive?
#
# `flop_count` returns the cost of a layer for one sample of a number of positions. Attention costs something for every
# pair of positions, its projections for every position: which of the two costs more depends on the length.

# %%
mixer = Attention(64, 4, apply_qk_norm=False, use_rope=False)
whole = QKVSequenceMixer(64, mixer)
for positions in (64, 128, 256):
    pairs = mixer.flop_count(positions)
    print(f"{positions} positions: pairs {pairs:,}, projections {whole.flop_count(positions) - pairs:,}")

# %% [markdown]
# ### Exercise 2 · 15 minutes · ●●●○○
#
# Return the smallest number of positions, from 1 to `limit`, at which `one` costs **more** than `other`, or None where
# there is none. Once it costs more it does so for every longer signal, so you need not try every length; `limit` may be
# a million, and fewer than 200 calls of `flop_count` are enough.
#
# <details><summary>Hint 1</summary>Compare the costs at the middle length. In which half is the first such
# length?</details>
# <details><summary>Hint 2</summary>Bisection: keep one length at which <code>one</code> does not cost more and one at
# which it does. Which two lengths can you begin with, and when is there none? When do you stop?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "costs-more-from", "locked": false, "schema_version": 3, "solution": true, "task": false}
def costs_more_from(one, other, limit):
    """Return the smallest number of positions at which one.flop_count is above other.flop_count, or None."""
    ### BEGIN SOLUTION
    below, above = 0, limit
    if one.flop_count(limit) <= other.flop_count(limit):
        return None
    while above - below > 1:
        middle = (below + above) // 2
        if one.flop_count(middle) > other.flop_count(middle):
            above = middle
        else:
            below = middle
    return above
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "costs-more-from-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
class Price:
    """Costs each * positions + pair * positions², and counts how often its cost was computed."""

    def __init__(self, each, pair=0):
        self.each, self.pair, self.calls = each, pair, 0

    def flop_count(self, positions):
        self.calls += 1
        return self.each * positions + self.pair * positions**2


with attempt("costs_more_from"):
    feed_forward = MLP(64, "gelu", nn.Identity, expansion_factor=2)
    square, line = Price(0, pair=1), Price(1000)
    for called, one, other, limit, wanted in (
        ("attention with its projections, and the MLP,", whole, feed_forward, 1000, 1),
        ("the MLP, and attention with its projections,", feed_forward, whole, 1000, None),
        ("n² and 1000 n, which are equal at 1000,", square, line, 1_000_000, 1001),
    ):
        found = costs_more_from(one, other, limit)
        assert found == wanted, f"{called} up to {limit}: got {found}, wanted {wanted}"
    assert square.calls < 200, f"calls of flop_count for a limit of a million: got {square.calls}, wanted below 200"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "costs-more-from-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
class Strict(Price):
    def flop_count(self, positions):
        assert positions >= 1, f"positions handed to flop_count: got {positions}, wanted 1 or more"
        return Price.flop_count(self, positions)


for square, line, border in ((1, 7, 8), (3, 10, 4), (1, 999_998, 999_999), (2, 1, 1)):
    pricey = Strict(0, square)
    found = costs_more_from(pricey, Strict(line), 1_000_000)
    assert found == border, f"{square} n² and {line} n: got {found}, wanted {border}"
    assert pricey.calls < 200, f"calls of flop_count: got {pricey.calls}, wanted below 200"
for limit, border in ((50, None), (51, 51), (1, None)):
    found = costs_more_from(Strict(0, 1), Strict(50), limit)
    assert found == border, f"n² and 50 n up to {limit}: got {found}, wanted {border}"
scan = Mamba(lambda: MambaLayer(32, d_state=16, headdim=16, chunk_size=16))
full = QKVSequenceMixer(32, Attention(32, 4, apply_qk_norm=False, use_rope=False))
found = costs_more_from(full, scan, 100_000)
costs = [(full.flop_count(n), scan.flop_count(n)) for n in (found - 1, found)]
assert costs[0][0] <= costs[0][1] and costs[1][0] > costs[1][1], (
    f"attention against a scan: got {found}, where the costs at {found - 1} and {found} are {costs}, wanted a border"
)
### END HIDDEN TESTS

# %% [markdown]
# ## What does a second change add?
#
# Do two changes of a network that each help also help together? That is a question about four networks: with neither
# change, with one, with the other, with both. Test losses of three seeds, for a change A and a change B:

# %%
losses = {
    (False, False): [1.14, 1.05, 0.85],  # neither
    (True, False): [0.61, 0.77, 0.78],  # A alone
    (False, True): [0.80, 0.66, 0.57],  # B alone
    (True, True): [0.68, 0.67, 0.69],  # both
}
alone = [b - neither for neither, b in zip(losses[False, False], losses[False, True], strict=True)]
print("what B alone adds to the loss, seed by seed:", *(f"{added:+.2f}" for added in alone))

# %% [markdown]
# ### Exercise 3 · 12 minutes · ●●●○○
#
# `losses` has such a list for each of the four pairs (A, B), the same seeds in the same order, at least one seed. What B
# adds to the loss is a difference of two runs **of the same seed**. Compare what B adds beside A with what it adds alone:
#
# - "less": in every seed the loss beside A is lowered by less than alone (or raised by more), by more than `least`;
# - "more": in every seed it is lowered by more than alone, by more than `least`;
# - "cannot tell": everything else.
#
# <details><summary>Hint 1</summary>Which two of the four lists show what B adds beside A?</details>
# <details><summary>Hint 2</summary>Two differences a seed, and then the difference of these. How many of the four lists
# have a plus sign in it?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "beside", "locked": false, "schema_version": 3, "solution": true, "task": false}
def beside(losses, least):
    """Return "less", "more" or "cannot tell": what B adds beside A, compared with what it adds alone."""
    ### BEGIN SOLUTION
    four = (losses[pair] for pair in ((True, True), (True, False), (False, True), (False, False)))
    gaps = [(both - a) - (b - neither) for both, a, b, neither in zip(*four, strict=True)]
    if all(gap > least for gap in gaps):
        return "less"
    return "more" if all(gap < -least for gap in gaps) else "cannot tell"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "beside-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
def four_lists(neither, a, b, both):
    return {(False, False): neither, (True, False): a, (False, True): b, (True, True): both}


with attempt("beside"):
    cases = {
        "the losses above": (losses, 0.0, "less"),
        "B lowers the loss by 0.5 alone and by 0.5 beside A": (
            four_lists([2.0], [1.5], [1.5], [1.0]),
            0.1,
            "cannot tell",
        ),
        "B lowers the loss by 0.1 alone and by 0.6 beside A": (four_lists([2.0], [1.5], [1.9], [0.9]), 0.1, "more"),
        "one seed of two against the other": (
            four_lists([2.0, 2.0], [1.5, 1.5], [1.0, 1.9], [1.4, 0.9]),
            0.1,
            "cannot tell",
        ),
    }
    for called, (given, least, wanted) in cases.items():
        with unchanged(losses=given):
            found = beside(given, least)
        assert found == wanted, f"{called}: got {found!r}, wanted {wanted!r}"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "beside-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
hidden = {
    "both together lowest, each gain as alone": (
        four_lists([2.0, 2.2], [1.0, 1.2], [1.5, 1.7], [0.5, 0.7]),
        0.05,
        "cannot tell",
    ),
    "B raises the loss beside A": (four_lists([1.0, 1.1], [0.5, 0.6], [0.6, 0.8], [0.7, 0.7]), 0.05, "less"),
    "B raises the loss alone": (four_lists([1.0, 1.1], [0.9, 1.0], [1.4, 1.6], [0.6, 0.5]), 0.05, "more"),
    "the mean says less, one seed does not": (
        four_lists([1.0, 1.0, 1.0], [0.5, 0.5, 0.5], [0.5, 0.5, 0.9], [0.5, 0.5, 0.3]),
        0.0,
        "cannot tell",
    ),
    "seeds in an order of their own": (four_lists([1.0, 2.0], [0.9, 1.9], [0.5, 1.5], [0.7, 1.7]), 0.1, "less"),
    "the same, within least": (four_lists([1.0, 2.0], [0.9, 1.9], [0.5, 1.5], [0.7, 1.7]), 0.4, "cannot tell"),
    "no difference at all": (four_lists([1.0], [1.0], [1.0], [1.0]), 0.0, "cannot tell"),
    "four seeds": (
        four_lists([4.0, 3.0, 2.0, 1.0], [3.0, 2.0, 1.5, 0.9], [3.5, 2.5, 1.8, 0.8], [1.0, 0.5, 0.2, 0.1]),
        0.1,
        "more",
    ),
    "a ratio says something else": (four_lists([10.0], [1.0], [5.0], [0.4]), 0.1, "less"),
}
for called, (given, least, truth) in hidden.items():
    with unchanged(losses=given):
        found = beside(given, least)
    assert found == truth, f"{called}: got {found!r}, wanted {truth!r}"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | the step sets what is kept and what is added; B cancels its factor | A below 0; float64, since 1/Δ is large |
# | a cost that grows with the square of the length exceeds a linear one, from some length on | any widths; the counts tell from which |
# | what a change adds beside another is a difference of two differences, seed by seed | a few seeds that agree; where they do not, nothing is told |
