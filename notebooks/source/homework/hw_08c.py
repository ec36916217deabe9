# %% [markdown]
# # Homework for lesson 08c · Two texts in one row
#
# About an hour. You need lesson 08c, and of the library only the scan that it built.
#
# Texts differ in length, so training code packs several of them into one row of a batch, one after the other, and
# spends no positions on padding. Attention gets a mask that keeps them apart. A scan gets none: its state simply goes on
# into the next text. At the end you will have a scan that can forget on command, and with it a mixer that reads each
# text of a row as if it stood alone.
#
# Below each exercise are tests that you can read. Grading runs more tests, on other inputs.

# %%
from contextlib import suppress

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import selective_scan

from residual_course.checking.properties import close, unchanged
from residual_course.exercises import attempt
from residual_course.lesson import setup

device = setup()

# %% [markdown]
# Here is the core of Mamba in a small form: a causal convolution of two taps, and a scan with A = −1. At each position
# the state becomes S ← exp(dt · A) · S + dt · B · u, where u is the scan's input, and the output is C · S, as in lesson
# 08c. We pack a text of five positions and one of three into a row. Then we replace the first text by another and keep
# the second.


# %%
class Mixer(nn.Module):
    """A convolution of two taps, then a scan whose dt, B and C depend on its input."""

    def __init__(self, width=8, state=4):
        super().__init__()
        self.now, self.before = (nn.Parameter(torch.randn(width)) for _ in range(2))
        self.sizes = [1, state, state]
        self.choose = nn.Linear(width, sum(self.sizes))

    def forward(self, x):  # (batch, time, width)
        earlier = F.pad(x, (0, 0, 1, -1))  # at place t it has x[t - 1], at place 0 it has 0
        u = F.silu(self.now * x + self.before * earlier)
        dt, B, C = self.choose(u).split(self.sizes, dim=-1)
        A = x.new_tensor([-1.0])  # of one head, which has all channels: u becomes (batch, time, 1, width)
        return selective_scan(u[:, :, None], F.softplus(dt), A, B, C)[:, :, 0]


torch.manual_seed(0)
mixer = Mixer()
first, second, other = torch.randn(1, 13, 8).split([5, 3, 5], dim=1)
packed = mixer(torch.cat([first, second], dim=1))[:, 5:]
moved = mixer(torch.cat([other, second], dim=1))[:, 5:] - packed
print(f"second text, largest output: {packed.abs().max():.2f}")
print(f"moved by another first text: {moved.abs().max():.2f}")

# %% [markdown]
# The second text is the same in both rows, so its outputs should not move at all, and they move by as much as they
# are. No error is raised, and each text is read as the continuation of the one before it. [Published
# code](https://github.com/PrimeIntellect-ai/prime-rl/issues/3000) had this fault in one of its paths. Before we can
# mend it, we need a scan that forgets.
#
# ## A step that forgets
#
# A scan keeps exp(dt · A) of its state and adds dt · B · u. So a very short step keeps nearly all and adds nearly
# nothing, and a very long one drops all and adds much. Here are scans of five ones, with A = −1, B = C = 1 and the
# same step everywhere (you need not read how `scanned` arranges the shapes):


# %%
def scanned(x, dt, B):
    """Scan numbers x with steps dt, each (batch, time), in float64; A is -1 and C is 1."""
    x, dt, B = (part.double()[..., None] for part in (x, dt, B))
    return selective_scan(x[..., None], dt, -torch.ones_like(dt[0, 0]), B, torch.ones_like(B))[..., 0, 0]


ones = torch.ones(1, 5)
for step in (0.001, 1.0, 50.0):
    print(f"step {step:6}:", *(f"{y:.3f}" for y in scanned(ones, step * ones, ones).flatten()))

# %% [markdown]
# Neither end of this dial is what we want: at one end the sum hardly grows, and at the other each 1 counts as 50.
# Keeping and adding are coupled, because both depend on dt. But B is a factor of what is added, and of that alone.
#
# ### Exercise 1 · The sum since the last reset (12 minutes)
#
# We begin with the simplest memory that has to forget, because you can check it in your head: the running sum of x that
# restarts wherever `reset` is True. For x = 1, 2, 3, 4 with a reset at the 3 it is 1, 3, 3, 7.
#
# Return the dt and the B with which `scanned(x, dt, B)` is this sum, to a thousandth of its largest number. It must hold
# for 1,000 positions too: in the row 1, 0, 0, ..., 0 the 1 still counts at least 0.999 at the end. `reset` is boolean,
# (batch, time); dt and B are numbers of the same shape.
#
# <details><summary>Hint 1</summary>Which dt drops the whole state, and which one keeps it? (With a dt of 0
# nothing would be added, whatever B is.) What is added is dt · B · x. Which B makes it just x?</details>
# <details><summary>Hint 2</summary><code>torch.where(reset, a, b)</code> chooses between two numbers at each
# position. How much is left of a state after 1,000 steps of 0.001?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "steps", "locked": false, "schema_version": 3, "solution": true, "task": false}
def steps(reset):
    """Return dt and B, each (batch, time), of a scan that is the sum since the last reset."""
    ### BEGIN SOLUTION
    dt = torch.where(reset, 50.0, 1e-8)
    return dt, 1 / dt
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "steps-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("steps"):
    numbers = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    where = torch.tensor([[0, 0, 1, 0], [1, 1, 0, 1]]).bool()
    with unchanged(reset=where):
        found = scanned(numbers, *steps(where))
    close(found, torch.tensor([[1.0, 3, 3, 7], [5, 6, 13, 8]]), "the sums of two rows", rtol=1e-3)
    found = scanned(torch.ones(1, 1000), *steps(torch.zeros(1, 1000).bool()))
    close(found[0, -1], 1000.0, "the sum of 1,000 ones", rtol=1e-3)


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "steps-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
chance = torch.Generator().manual_seed(91)
for batch, time, often in ((1, 1, 1.0), (3, 40, 0.2), (2, 60, 0.0), (4, 30, 0.6), (1, 1000, 0.0)):
    given = torch.rand(batch, time, generator=chance)
    given[:, 0] = 1000  # what fades, or is not dropped at a reset, is seen
    anew = torch.rand(batch, time, generator=chance) < often
    sums = torch.zeros(batch, time).double()
    for b in range(batch):
        total = 0.0
        for t in range(time):
            total = float(given[b, t]) + (0.0 if anew[b, t] else total)
            sums[b, t] = total
    dt, B = steps(anew)
    assert dt.shape == B.shape == anew.shape, f"got the shapes {dt.shape} and {B.shape}, wanted {anew.shape}"
    close(scanned(given, dt, B), sums, f"the sums of {batch} rows of {time}", rtol=1e-3)
### END HIDDEN TESTS

# %% [markdown]
# ## Back to the two texts
#
# Somebody has given the mixer a second input, `start`, which is True where a new text begins. There the step becomes
# long, so that the scan forgets. We measure two things, of `Packed`, which is that mixer, and of `Unmended`, which
# ignores `start`. Which positions of the first text move the outputs of the second? And how far are those outputs from
# what `Mixer`, with the same weights, gives for the second text alone?


# %%
class Unmended(Mixer):
    def forward(self, x, start):  # (batch, time, width), (batch, time)
        return super().forward(x)


class Packed(Mixer):
    def forward(self, x, start):
        earlier = F.pad(x, (0, 0, 1, -1))
        u = F.silu(self.now * x + self.before * earlier)
        dt, B, C = self.choose(u).split(self.sizes, dim=-1)
        dt = torch.where(start[..., None], 50.0, F.softplus(dt))
        return selective_scan(u[:, :, None], dt, x.new_tensor([-1.0]), B, C)[:, :, 0]


def measure(kind):
    torch.manual_seed(0)
    packed = kind()
    row, start = torch.cat([first, second], dim=1), torch.arange(8)[None] == 5
    found, moving = packed(row, start)[:, 5:], []
    for place in range(5):
        changed = row.clone()
        changed[:, place] += 1
        if (packed(changed, start)[:, 5:] - found).abs().max() > 1e-6:
            moving.append(place)
    far = (found - Mixer.forward(packed, second)).abs().max()  # the parent's forward, with these weights
    print(f"{kind.__name__}: positions {moving} move the second text; from alone it is {far:.1e} away")


measure(Unmended)
measure(Packed)

# %% [markdown]
# The scan forgets: positions 0 to 3 have no effect any more. But position 4 has one, and the second text has even moved
# farther from what it gets alone.
#
# ### Exercise 2 · Mend it (18 minutes)
#
# There are two faults, and mending only one leaves the second text wrong. Write `forward` so that each text of each row
# gets what it gets alone, to a millionth. Call `selective_scan` once, for the batch as it is (grading counts the calls):
# a loop over the texts, or a row for each, would lose what packing saves. The rows of a batch may begin their texts at
# different places. Where `start` is False everywhere, a row is one text, and a True at position 0 changes nothing.
# `measure(MendedPacked)` tells how far you are.
#
# <details><summary>Hint 1</summary>One fault is in how far back the mixer looks, the other in how much it
# adds.</details>
# <details><summary>Hint 2</summary>In exercise 1 the long step forgot, and it wrote too much, which B undid. Here the
# first position of a text should add as much as it would with its own step. (What <code>split</code> returns cannot be
# changed in place; <code>torch.where</code> makes a new tensor.)</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "mended-packed", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MendedPacked(Packed):
    def forward(self, x, start):  # (batch, time, width), (batch, time)
        ### BEGIN SOLUTION
        start = start[..., None]
        earlier = F.pad(x, (0, 0, 1, -1)).masked_fill(start, 0)
        u = F.silu(self.now * x + self.before * earlier)
        dt, B, C = self.choose(u).split(self.sizes, dim=-1)
        own = F.softplus(dt)
        dt = torch.where(start, 50.0, own)
        return selective_scan(u[:, :, None], dt, x.new_tensor([-1.0]), B * own / dt, C)[:, :, 0]
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-packed-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
def each_alone(mixer, x, start):
    """Return what each text of each row gets from the same weights without a `start`."""
    rows = []
    for row, begins in zip(x, start, strict=True):
        places = [place for place in begins.nonzero().flatten().tolist() if place]
        texts = row[None].tensor_split(places, dim=1)
        rows.append(torch.cat([Mixer.forward(mixer, text) for text in texts], dim=1))
    return torch.cat(rows)


with attempt("MendedPacked"):
    torch.manual_seed(3)
    mended, x = MendedPacked().double(), torch.randn(2, 9, 8).double()
    for places in (([], []), ([5], [5]), ([2, 6], [0, 4])):
        start = torch.zeros(2, 9).bool()
        for row, begins in zip(start, places, strict=True):
            row[begins] = True
        with unchanged(x=x, start=start):
            found = mended(x, start)
        what = f"two rows, with True at {places[0]} and at {places[1]}: the output"
        close(found, each_alone(mended, x, start), what, rtol=1e-6)

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "mended-packed-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
import inspect
import sys


def scans_of(function, *inputs):
    """Return the result of a call, and how often it calls selective_scan."""
    calls, before, scan = [], sys.getprofile(), inspect.unwrap(selective_scan).__code__
    sys.setprofile(lambda at, event, _: event == "call" and at.f_code is scan and calls.append(at))
    try:
        return function(*inputs), len(calls)
    finally:
        sys.setprofile(before)


torch.manual_seed(93)
for batch, time, width, often in ((3, 12, 8, 0.3), (2, 20, 5, 0.1), (1, 1, 8, 1.0), (4, 6, 3, 1.0), (2, 7, 8, 0.0)):
    mended, x = MendedPacked(width).double(), torch.randn(batch, time, width).double().requires_grad_()
    mended.choose.bias.data[0] = -3  # short steps: a state lasts
    start, pull = torch.rand(batch, time) < often, torch.randn(batch, time, width)
    with unchanged(x=x, start=start, mixer=mended):
        found, calls = scans_of(mended, x, start)
    assert calls == 1, f"calls of selective_scan for {batch} rows: got {calls}, wanted 1"
    wanted, leaves = each_alone(mended, x, start), [x, *mended.parameters()]
    close(found, wanted, f"{batch} rows of {time}, with {int(start.sum())} beginnings: the output")
    assert found.requires_grad, "got an output without a gradient, wanted one"
    mine, theirs = (torch.autograd.grad((pull * y).sum(), leaves, allow_unused=True) for y in (found, wanted))
    for which, (one, right) in enumerate(zip(mine, theirs, strict=True)):
        what = f"the gradient of parameter {which}" if which else "the gradient of x"
        assert one is not None, f"{what}: got none, wanted one"
        close(one, right, what)
### END HIDDEN TESTS

# %%
with suppress(NotImplementedError):  # prints as soon as exercise 2 is written
    measure(MendedPacked)

# %% [markdown]
# Every part that carries something from one position to the next has to be told where a text begins, and Mamba has two
# of them: its convolution and its scan. (Its convolution has four taps and looks three places back, so a text has to
# stop it at its first three positions.) In [Lfm2](https://github.com/huggingface/transformers/pull/46588), which mixes
# attention and convolutions, it was the convolution that had been forgotten. A step that is long enough to forget (50
# is, for A = −1; an A nearer to 0 asks for a longer one) also adds too much, so "the first text has no effect" is too
# weak a test. The strong one is that a text in a row gets what it gets alone, up to rounding.
