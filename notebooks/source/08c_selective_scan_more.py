# %% [markdown]
# # 08c, appendix · Every switch, the library's scan and Mamba, decays that are divided
#
# Not needed for [lesson 08c](08c_selective_scan.ipynb), and not counted in it.

# %%
import math

import torch
from matplotlib.figure import Figure
from torch.nn import functional as F

from residual_edu.config import LazyConfig
from residual_course.exercises import check
from residual_course.explorers.selective_scan import explore_latch, held, wanted
from residual_edu.gradient_flow import mixing_matrix
from residual_course.lesson import holds, setup, show, stored_runs
from residual_course.plots import selective_scan as plots
from residual_course.plots.mixing_matrix import plot_mixing_matrix

device = setup()

# %% [markdown]
# ## Every switch
#
# The lesson's stored runs, three seeds each. Choose a mixer, its taps and its questions; the marks stay. Left is the trained length, right four times that. **Find out:** which mixer is the same in all four columns at 12? Which one answers 48 positions best, and do taps help it there?

# %% tags=["explorer"] jupyter={"source_hidden": true}
from residual_course.explorers.switches import explore_switches

stored = stored_runs("08c_selective_scan")["runs"]
LENGTHS = 12, 24, 48


def three(name, length=12):
    return [stored[seed][f"{name}: {length}"] for seed in range(3)]


def tell(*names, lengths=LENGTHS):
    for name in names:
        rows = (
            "  ".join(f"{score:.2f}" for score in three(name, length))
            for length in lengths
        )
        print(f"{name:32}", "   |   ".join(rows))


kinds = "Attention", "CKConv", "Hyena", "Mamba, small dt", "Mamba, large dt"
scores = {
    (kind, taps, asks, T): three(f"{kind}, {taps}, {asks}", T)
    for kind in kinds
    for taps in ("1 tap", "3 taps")
    for asks in ("one ?", "? and !")
    for T in (12, 48)
}  # fmt: skip
explore_switches(scores)

# %% [markdown]
# <details><summary>Answer</summary>CKConv is the same in all four. At 48 the Mamba with large starting dt is ahead: with 1 tap and one ? .86 to .88. Taps do not help it there: .67 to .88. With two question tokens and 1 tap two seeds are higher still, and one did not learn it at 12.</details>
#
# ## Other positions for attention
#
# Is it attention that does not go further, or its rotary positions? Two other ways, with 3 taps and trained on 12 as all here: ALiBi, no rotation and a bias on each score that falls with the distance (by 1/2 a position in one head, 1/16 in the other); and no positions.

# %% tags=["trained"]
OTHER = ["Attention, 3 taps, one ?", "Attention, ALiBi", "Attention, no positions"]
print(f"{'':32} 12 positions       |   24   |   48")
tell(*OTHER)
far = [score for name in OTHER for score in three(name, 48)]
holds(max(far) < 0.8, "At 48 none of them comes near .85.")

# %% [markdown]
# Without rotary positions attention is worse at 12 and better at 48, with these slopes. So a part of what it loses belongs to them. None of the three comes near .85.
#
# ## How long a state lasts
#
# With starting dt of .001 to .1, and of .2 to 1:

# %%
for dt, rate in ((0.001, 1), (0.1, 4), (0.2, 1), (1.0, 4)):
    half = math.log(2) / (dt * rate)
    print(f"dt {dt}, A −{rate}: half is left after {half:.2f} positions")

# %% [markdown]
# ## Joined pair by pair
#
# The associative scan. Write a position as a pair (a, b): S becomes a S + b. Two positions in a row are again such a pair, (a₂ a₁, a₂ b₁ + b₂). By hand, 8, 4 | 2, 0 with half kept: (½, 8), (½, 4) make (¼, 8); (½, 2), (½, 0) make (¼, 1); and both together (1/16, ¼ · 8 + 1) = (1/16, 3). The 3 is the last state. Since it does not matter which two are joined first, all positions can be joined with the ones before them, then with those two before, four before, and so on. Printed are the states, and how many rounds it took:


# %%
def by_doubling(a, b):
    reach, rounds = 1, 0
    while reach < len(a):
        a1, b1 = F.pad(a[:-reach], (reach, 0), value=1.0), F.pad(b[:-reach], (reach, 0))
        a, b = a * a1, a * b1 + b  # joined with the pair `reach` places before
        reach, rounds = 2 * reach, rounds + 1
    return b, rounds


print(by_doubling(torch.full((4,), 0.5), torch.tensor([8.0, 4.0, 2.0, 0.0])))
print("4,096 positions:", by_doubling(torch.ones(4096), torch.ones(4096))[1], "rounds")

# %% [markdown]
# A diagonal S4 (S4D) has several A in a channel. With a constant dt its kernel is a sum of what the lesson found for one, $\sum_n c_n \rho_n^m$.
#
# ## A clock that stops
#
# Nine numbers, two of them marked. The task is to hold the last marked one. A state of one number is multiplied by exp(dt · A) at each position, and dt times the number is added. One state has the same step everywhere; the other has a step of 1 at marked numbers and of 0 at the others, with A = −5.

# %% tags=["figure"]
numbers = [7.0, 2, 8, 1, 3, 6, 9, 0, 5]
marked = [place in (0, 4) for place in range(9)]
same, chosen = (
    held(numbers, marked, 1.0, 0.5, 0.5),
    held(numbers, marked, 5.0, 1.0, 0.0),
)
fig = Figure(figsize=(6, 3))
drawn = {"equal steps": same, "chosen steps": chosen}
ax = plots.plot_latch(numbers, marked, drawn, fig.add_subplot())
ax.set_title("Steps of 0 and 1 hold the marked number")
alt = "Nine numbers, 7 and 3 marked. Equal steps follow every number; chosen steps "
show(fig, alt=alt + "hold 7, then 3.")
off = [abs(state - wanted(numbers, marked)).max() for state in (chosen, same)]
holds(off[0] < 0.05 < 1 < off[1], "The chosen steps hold it.")

# %% [markdown]
# A step of 0 stops the clock: nothing fades, nothing is written. No convolution does the same, since what its kernel leaves of a number three positions later is one number, whatever stands in between. Here it depends on that:

# %%
for between in (False, True):
    state = held([7.0, 0, 0, 0], [True, False, between, False], 5.0, 1.0, 0.0)
    print(f"7, then zeros, one marked: {between!s:5} → {state[-1]:.2f} is left")

# %% [markdown]
# ### Exercise · 8 minutes · ●●○○○
#
# Write this state. x and dt are (T,), A is a negative number. Return the state after each position, (T,).
#
# <details><summary>Hint 1</summary>Keep one number and go through x and dt side by side. What happens to it first?</details>
# <details><summary>Hint 2</summary>At position t the state is multiplied by what a step of dt[t] keeps, and then what is written is added. <code>torch.stack</code> joins them.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "leaky-scan", "locked": false, "schema_version": 3, "solution": true, "task": false}
def leaky_scan(x, dt, A):
    """Return the memory after each position, (time,)."""
    ### BEGIN SOLUTION
    memory, after = torch.zeros_like(x[0]), []
    for t in range(len(x)):
        memory = torch.exp(dt[t] * A) * memory + dt[t] * x[t]
        after.append(memory)
    return torch.stack(after)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "leaky-scan-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(leaky_scan, "leaky_scan")

# %% [markdown]
# Move the fading (−A), and the step at marked numbers and at the others. **Find out:** with −A = 1, how close can the state get to the dotted line? Which step at marked numbers writes the number in its right size? Then free −A.

# %% tags=["explorer"]
explore_latch(numbers, marked)

# %% [markdown]
# <details><summary>Answer</summary>At the others the step must be 0, and at marked numbers only a step of 1 writes the number in its own size. With −A = 1 such a step keeps 37 % of what was there. The best compromise, a step of 0.8, is still off by 1.92. From −A = 6 on the error is below 0.02. One step decides about writing and fading, so each head of Mamba has an A of its own.</details>
#
# ## Two addresses
#
# With a vector B the state is a matrix: x is written in the direction of B, and a vector C reads one direction.

# %% tags=["figure"]
state, states = torch.zeros(1, 2), []
for value, address in [(3.0, [1.0, 0.0]), (5.0, [0.0, 1.0]), (1.0, [1.0, 0.0])]:
    state = state + torch.outer(torch.tensor([value]), torch.tensor(address))
    states.append(state)
fig = Figure(figsize=(6, 2.2))
names = ["write 3\nat (1, 0)", "write 5\nat (0, 1)", "write 1\nat (1, 0)"]
ax = plots.plot_states(torch.stack(states), names, fig.add_subplot())
ax.set_title("What comes to one address adds up")
show(fig, alt="Three states of two numbers: 3 and 0, then 3 and 5, then 4 and 5.")

# %% [markdown]
# The library's scan as a loop, all heads at once. D is a shortcut from x to y, past the state.


# %% tags=["module:mixers/selective_scan"]
import torch

from residual_edu.mixers.selective_scan import selective_scan


# %% [markdown]
# ## The decays as a matrix
#
# ### Exercise · 8 minutes · ●●●○○
#
# `keep`, (T,), is what each position leaves of the state that it finds. Return (T, T): in row t and column s what is left at t of what was written at s; 0 where s is after t.
#
# <details><summary>Hint 1</summary>Write row t = 2 by hand: what is left there of what was written at 0, at 1, at 2?</details>
# <details><summary>Hint 2</summary>Entry (t, s) is a product. Does it begin with the decay of s, or with the next one? An empty product is 1.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "decay-matrix", "locked": false, "schema_version": 3, "solution": true, "task": false}
def decay_matrix(keep):
    """Return what is left at each position, a row, of what each wrote, a column."""
    ### BEGIN SOLUTION
    n = len(keep)
    rows = [
        [keep[s + 1 : t + 1].prod() if s <= t else 0 * keep[0] for s in range(n)]
        for t in range(n)
    ]
    return torch.stack([torch.stack(row) for row in rows])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "decay-matrix-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(decay_matrix, "decay_matrix")

# %% [markdown]
# ## Chunks
#
# `chunked_scan` is the lesson's section in matrix products, all heads at once: all pairs within a chunk, one state between chunks. `segsum` holds the sums of the exercise above before the exponential; its last row says what is left at the chunk's end.


# %% tags=["module:mixers/selective_scan"]
import torch

from residual_edu.mixers.selective_scan import chunked_scan


# %% tags=["figure"]
fade = -F.softplus(torch.randn(32, generator=torch.Generator().manual_seed(1)) - 2)
left = (fade.cumsum(0)[:, None] - fade.cumsum(0)).exp().tril()
fig = Figure(figsize=(6, 4.6))
ax = plots.plot_chunks(left, 8, fig.add_subplot())
ax.set_title("All pairs in a square, one state for the rest", x=-0.2)
alt = "A matrix of 32 by 32 that fades to the lower left; squares on its diagonal, a "
show(fig, alt=alt + "dashed block beside each.")

# %% [markdown]
# In float64 it gives the loop's numbers, values and gradients, at lengths that the chunks divide and at others:


# %%
def drawn_scan(time, seed=0):
    """Return x, dt, A, B, C and D of some scan, in float64."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (2, time, 3, 4), (2, time, 3), (2, time, 5), (2, time, 5), (3,)
    x, dt, B, C, D = (torch.randn(s, generator=generator).double() for s in shapes)
    return x, F.softplus(dt), -torch.arange(1.0, 4).double(), B, C, D


for positions, chunk in [(1, 4), (12, 4), (13, 4), (30, 64)]:
    given = [z.requires_grad_() for z in drawn_scan(positions)]
    both = selective_scan(*given), chunked_scan(*given, chunk_size=chunk)
    slopes = [torch.autograd.grad(y.square().sum(), given) for y in both]
    same = torch.allclose(*both, atol=1e-10)
    same = same and all(
        torch.allclose(*pair, rtol=1e-8, atol=1e-8)
        for pair in zip(*slopes, strict=True)
    )
    print(f"{positions} positions in chunks of {chunk}: the same, {same}")

# %% [markdown]
# ## Decays that are divided
#
# A tempting line saves all of this. With ℓ the running sum of dt · A, what is left between s and t is exp(ℓ at t) / exp(ℓ at s), so that one cumulative sum does it: `exp(ℓ) * cumsum(u * exp(-ℓ))`. On paper it is the same. In float32, 64 positions with steps of 2 and A = −1 have exp(−ℓ) = exp(128) at the end, which is infinity; exp(ℓ) is 0, and 0 times infinity is NaN.


# %%
def divided(x, dt, A, B, C, D):
    total = (dt * A).cumsum(1)[..., None, None]
    written = (dt[..., None] * x)[..., None] * B[:, :, None, None]
    state = total.exp() * (written * (-total).exp()).cumsum(1)
    return (state * C[:, :, None, None]).sum(-1) + D[:, None] * x


def error(scan, step):
    """Return the largest error of 64 positions in float32."""
    x, dt, A, B, C, D = drawn_scan(64)
    exact = selective_scan(x, step * dt, A, B, C, D)
    found = scan(*(z.float() for z in (x, step * dt, A, B, C, D)))
    return ((found - exact).abs().max() / exact.abs().max()).item()


# %% tags=["figure"]
sizes = [2.0**power for power in range(-7, 8)]
errors = {"divided": [error(divided, s) for s in sizes]}
errors["chunks"] = [error(chunked_scan, s) for s in sizes]
fig = Figure(figsize=(6, 3.4))
ax = plots.plot_errors(sizes, errors, fig.add_subplot())
ax.set_title("Dividing by a decay: only for small steps")
alt = "Error over the size of the steps. Chunks stay near one in ten million; divided "
show(fig, alt=alt + "decays end in NaN at about 1.")
holds(max(errors["chunks"]) < 1e-5 > errors["divided"][0], "Small steps do no harm.")
ended = [math.isnan(e) for s, e in zip(sizes, errors["divided"], strict=True) if s >= 2]
holds(all(ended), "From steps of 2 on it is NaN.")

# %% [markdown]
# So a decay may be multiplied, and never divided by. `chunked_scan`, and the lesson's `scan`, take exponentials of sums that are 0 or less, which cannot overflow.
#
# ## The library's Mamba
#
# `MambaLayer` is the lesson's mixer with the names of the package `mamba_ssm`, a D, and first steps drawn at random between `dt_min` and `dt_max`, on a logarithmic scale.


# %% tags=["module:mixers/mamba"]
import torch

from residual_edu.mixers.mamba import MambaLayer


# %% [markdown]
# `Mamba` reads the positions of a signal of any dimension row by row, as one sequence. With a second layer that reads from the end, each position depends on all.


# %% tags=["module:mixers/mamba"]

from residual_edu.mixers.mamba import Mamba


# %% tags=["figure"]
x = torch.randn(4, 12, 16).to(device)
core = LazyConfig(MambaLayer)(d_model=16, d_state=8, headdim=8)
fig, found = Figure(figsize=(6, 3.6)), {}
for ax, both in zip(fig.subplots(1, 2), (False, True), strict=True):
    found[both] = mixing_matrix(Mamba(core, bidirectional=both).to(device), x)
    name = "both ways" if both else "one way"
    plot_mixing_matrix(found[both], ax).set_title(name, weight="normal")
title = "One way: no later input; both ways: all"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Two matrices of 12 by 12. One way: all above the diagonal is grey. Both ways: "
show(fig, alt=alt + "no grey, darkest along the diagonal.")
holds(not found[False].triu(1).any(), "One way, no output depends on a later input.")
holds((found[True] > 0).all(), "Both ways, each output depends on each input.")

# %% [markdown]
# ### Exercise · 5 minutes · ●●○○○
#
# Read both ways. `core` and `core_rev` map (batch, positions, channels) to the same shape, and no output depends on a later input. Return core(x) plus what core_rev makes of x read from its end, each number at its own position.
#
# <details><summary>Hint 1</summary>core_rev reads the sequence from its end. In which order does its output stand?</details>
# <details><summary>Hint 2</summary><code>x.flip(1)</code> reads from the end. Where must the order be turned back?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "both-ways", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bidirectional_scan(core, core_rev, x):
    """Return the sum of both directions, shaped as x."""
    ### BEGIN SOLUTION
    return core(x) + core_rev(x.flip(1)).flip(1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "both-ways-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(bidirectional_scan, "bidirectional_scan")
