# %% [markdown]
# # Homework for lessons 04 and 05 · Placements and gates
#
# 45 minutes. It needs lessons 04 and 05, and of the library only what they finished.
#
# By the end you can
#
# - **build** a third placement of the norm, and not the one it is mistaken for;
# - **remove** the gates of a trained branch, and keep what it computes;
# - **find out** from outside where a block has its norms, whatever its code says.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
import copy

import torch
from torch import nn

from residual_edu import LayerNorm, LayerScale, RMSNorm, SimpleFeedForward, pre_norm_residual
from residual_course.exercises import attempt
from residual_course.checking.properties import close
from residual_course.checking.unchanged import unchanged
from residual_course.lesson import setup

device = setup()
x = torch.randn(16, 8, generator=torch.Generator().manual_seed(3))

# %% [markdown]
# ## A norm on both sides
#
# Pre-norm gives f an input of size 1. What f returns may still have any size: in lesson 05 a gate made it small. Nothing holds it there:

# %%
torch.manual_seed(0)
layer, norm = SimpleFeedForward(8, 32), LayerNorm(8)
for factor in (1, 10, 100):
    wide = copy.deepcopy(layer)
    wide.linear2.weight.data *= factor
    added = pre_norm_residual(x, wide, norm) - x
    print(f"last weights times {factor}: the branch adds {added.square().mean().sqrt():.2f}")

# %% [markdown]
# A third placement normalises the input of a branch **and** its output, before that is added: x ← x + norm₂(f(norm₁(x))). This is called
# peri-norm. It is easily confused with norm₂(x + f(norm₁(x))), which normalises the residual stream itself, as post-norm does.
#
# ### Exercise 1 · 7 minutes · ●●○○○
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
# ## A network without its gates
#
# A network has been trained with LayerScale, and is to run where there are no gates. Setting them to 1 would change what each branch adds:


# %%
def branch(width, seed=0):
    """Return a branch as after a training: its gates differ, and some are below 0."""
    torch.manual_seed(seed)
    parts = nn.Sequential(LayerNorm(width), SimpleFeedForward(width, 2 * width), LayerScale(width))
    for parameter in parts.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return parts


trained = branch(8)
print("gates:", " ".join(f"{one:.2f}" for one in trained[2].gamma.tolist()))
gap = (trained(x) - trained[:2](x)).abs().max()
print(f"left out, they change an output by {gap:.2f}")

# %% [markdown]
# ### Exercise 2 · 14 minutes · ●●●○○
#
# Return a branch of the first two parts alone, norm and layer, which computes for every x what the three parts do. The given
# branch is needed again: it must stay as it is, and share no tensor with yours.
#
# <details><summary>Hint 1</summary>The gate multiplies feature i of the output. Which numbers of
# <code>linear2</code> make feature i, and nothing else?</details>
# <details><summary>Hint 2</summary>A linear layer's weight has the shape (outputs, inputs). In which shape does gamma
# multiply its rows? And what besides the weight is multiplied by the gate?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "without-gates", "locked": false, "schema_version": 3, "solution": true, "task": false}
def without_gates(branch):
    """Return nn.Sequential(norm, layer) that computes what nn.Sequential(norm, layer, gates) does."""
    ### BEGIN SOLUTION
    norm, layer, gates = copy.deepcopy(branch)
    with torch.no_grad():
        layer.linear2.weight *= gates.gamma[:, None]
        layer.linear2.bias *= gates.gamma
    return nn.Sequential(norm, layer)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "without-gates-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("without_gates"):
    with unchanged(branch=trained, x=x):
        folded = without_gates(trained)
    close(folded(x), trained(x), "the output")
    names, wanted = list(dict(folded.named_parameters())), list(dict(trained[:2].named_parameters()))
    assert names == wanted, f"the parameters: got {names}, wanted {wanted}"
    even = copy.deepcopy(trained)
    nn.init.constant_(even[2].gamma, 0.1)
    close(without_gates(even)(x), even(x), "with gates of 0.1 in all features: the output")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "without-gates-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
for size, seed in ((8, 41), (12, 42), (1, 43)):
    one, rows = branch(size, seed), torch.randn(3, 5, size, generator=torch.Generator().manual_seed(seed))
    if size == 12:
        nn.init.zeros_(one[2].gamma[:4])
        one = one.double()
        rows = rows.double()
    with unchanged(branch=one, x=rows):
        mine = without_gates(one)
        close(mine(rows), one(rows), f"width {size}: the output")
    names, wanted = list(dict(mine.named_parameters())), list(dict(one[:2].named_parameters()))
    assert names == wanted, f"width {size}, the parameters: got {names}, wanted {wanted}"
    kept = [p.clone() for p in one.parameters()]
    for p in mine.parameters():
        p.data += 1
    same = [torch.equal(was, now) for was, now in zip(kept, one.parameters(), strict=True)]
    assert all(same), "after a change of what you returned: got the given branch changed too, wanted it as it was"
    learns = [p.requires_grad and p.is_leaf for p in mine.parameters()]
    assert all(learns), "the parameters that you returned: got some that cannot learn, wanted leaves with a gradient"
### END HIDDEN TESTS

# %% [markdown]
# ## Where are the norms of this block?
#
# Another library's blocks are called `Block`, and their documentation does not say where the norms stand. The sizes of what they return do not tell either:


# %%
class Sealed(nn.Module):
    """A block whose wiring is hidden."""

    def __init__(self, wiring, width, make=LayerNorm, gate=1.0, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        f, first, second = SimpleFeedForward(width, 4 * width), make(width), make(width)
        self.parts = nn.ModuleList([f, first, second]).double()
        self.inner = {
            "skip": lambda x: x + gate * f(x),
            "pre": lambda x: x + gate * f(first(x)),
            "post": lambda x: first(x + gate * f(x)),
            "peri": lambda x: x + second(f(first(x))),
        }[wiring]

    def forward(self, x):
        return self.inner(x)


for wiring in ("skip", "pre", "post", "peri"):
    returned = Sealed(wiring, 8, gate=2.5)(x.double())
    print(f"{wiring}: input of size {x.square().mean().sqrt():.2f}, output {returned.square().mean().sqrt():.2f}")

# %% [markdown]
# ### Exercise 3 · 20 minutes · ●●●●○
#
# Return `"skip"`, `"pre"`, `"post"` or `"peri"` for a block that maps rows of `width` features, in float64, to rows of the same width.
#
# - `"post"`: the sum is normalised, whatever the branch receives.
# - All norms are LayerNorm or RMSNorm with gains of 1 and biases of 0; the width is at least 8.
# - The branch is an MLP of usual size, perhaps multiplied by one gate between 0.01 and 10, which may be frozen.
#
# Look at outputs alone, not at attributes. Choose the inputs yourself.
#
# <details><summary>Hint 1</summary>Which of the four wirings fix the size of something in every row, and of what: of the output, or of what
# is added to x?</details>
# <details><summary>Hint 2</summary>Give the block x, and 100 times x. In which wirings does what it adds stay the
# same?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "wiring-of", "locked": false, "schema_version": 3, "solution": true, "task": false}
def wiring_of(block, width):
    """Return "skip", "pre", "post" or "peri", from the block's outputs alone."""
    ### BEGIN SOLUTION
    rows = torch.randn(32, width, dtype=torch.float64)
    with torch.no_grad():
        output, far = block(rows), block(100 * rows)

    def fixed(some):
        return bool((some.square().mean(-1).sqrt() - 1).abs().max() < 0.01)

    if fixed(output):
        return "post"
    if fixed(output - rows):
        return "peri"
    return "pre" if torch.allclose(far - 100 * rows, output - rows, rtol=1e-2, atol=1e-5) else "skip"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "wiring-of-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("wiring_of"):
    cases = [("skip", 1.0), ("pre", 1.0), ("post", 1.0), ("peri", 1.0), ("pre", 2.5), ("post", 0.1), ("skip", 0.05)]
    for wanted, gate in cases:
        for make in (LayerNorm, RMSNorm):
            block = Sealed(wanted, 8, make, gate).eval()
            with unchanged(block=block):
                found = wiring_of(block, 8)
            assert found == wanted, f"{wanted}, {make.__name__}, gate {gate}: got {found!r}, wanted {wanted!r}"
            assert not block.training, "its mode: got training, wanted it as it was"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "wiring-of-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
class Mistaken(nn.Module):
    """norm₂(x + f(norm₁(x))): the sum is normalised."""

    def __init__(self, width):
        nn.Module.__init__(self)
        self.one = nn.ModuleList([SimpleFeedForward(width, width), LayerNorm(width), LayerNorm(width)]).double()

    def forward(self, rows):
        layer, before, after = self.one
        return after(rows + layer(before(rows)))


trials = [(Mistaken(16), 16, "post")]
for seed, (width, gate) in enumerate(((8, 0.01), (8, 5.7), (16, 0.3), (32, 9.0), (24, 3.5), (64, 0.02), (12, 4.2))):
    for wanted in ("skip", "pre", "post", "peri"):
        for make in (LayerNorm, RMSNorm):
            trials.append((Sealed(wanted, width, make, gate, 50 + seed), width, wanted))
for block, width, wanted in trials:
    block.eval()
    with unchanged(block=block):
        found = wiring_of(block, width)
    assert found == wanted, f"a block of width {width}: got {found!r}, wanted {wanted!r}"
    assert not block.training, "its mode: got training, wanted it as it was"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | peri-norm fixes the size of what a branch adds; the stream is still a sum | any branch |
# | a gate for each feature is a factor of the last layer's rows and bias | when the branch ends in a linear layer; its training differs |
# | post-norm fixes the size of the output, peri-norm of what is added; pre-norm adds the same at any size of x | norms with gains of 1 |
