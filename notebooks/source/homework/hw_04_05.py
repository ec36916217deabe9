# %% [markdown]
# # Homework for lessons 04 and 05 · A gate whose size does nothing
#
# About 50 minutes. You need lessons 04 and 05, and of the library only what they built.
#
# In lesson 05 a gate of 0.0001 on each branch made a network of 192 blocks quiet at its start. A colleague uses such
# gates too, and a second norm besides. We send a batch through 48 of his blocks, with three different gates. At the end
# you will know where such a norm and such a gate have to stand, how to test from outside whether a gate acts, and how
# to get rid of gates once a network is trained.
#
# Below each exercise are tests that you can read. Your answers are graded with others too, on other inputs.

# %%
import copy
from contextlib import suppress

import torch
from torch import nn

from residual_edu import LayerNorm, LayerScale, SimpleFeedForward, pre_norm_residual

from residual_course.checking.properties import close, unchanged
from residual_course.exercises import attempt
from residual_course.lesson import setup

device = setup()


def handed_residual(x, layer, norm_1, norm_2, gate):
    """Return the stream after a branch with a gate, and with two norms."""
    return x + norm_2(gate(layer(norm_1(x))))


class Block(nn.Module):
    def __init__(self, residual, gate, width=8):
        super().__init__()
        self.layer = SimpleFeedForward(width, 4 * width)
        self.norm_1 = LayerNorm(width, eps=1e-12)
        self.norm_2 = LayerNorm(width, eps=1e-12)
        self.gate = LayerScale(width, gate)
        self.residual = residual

    def forward(self, x):
        parts = self.layer, self.norm_1, self.norm_2, self.gate
        return self.residual(x, *parts)


x = torch.randn(16, 8, generator=torch.Generator().manual_seed(3))


def through_48(residual, gate):
    torch.manual_seed(0)
    stack = nn.Sequential(*[Block(residual, gate) for _ in range(48)])
    moved = (stack(x) - x).square().mean().sqrt()
    print(f"gates of {gate:6}: x has moved by {moved:.3f}")


for gate in (1.0, 0.01, 0.0001):
    through_48(handed_residual, gate)

# %% [markdown]
# The three numbers are nearly the same. With gates of 0.0001, x (whose size is about 1) should hardly have moved at
# all, but it moved as far as with gates of 1. We first build the norm, then look closely at gates, and then come back
# to his line. (With PyTorch's eps of 1e-5 a tiny gate does act, but only through eps: the same blocks then move x by
# 5.75, 3.26 and 0.06. We set 1e-12 to see the norm alone.)
#
# ## A norm on both sides
#
# Why would anyone want a second norm? Pre-norm gives f an input of size 1, but what f returns may still have any size,
# and it grows with the weights. A gate can start small, yet nothing holds it there:

# %%
torch.manual_seed(0)
layer, norm = SimpleFeedForward(8, 32), LayerNorm(8)
for factor in (1, 10, 100):
    wide = copy.deepcopy(layer)
    wide.linear2.weight.data *= factor
    added = pre_norm_residual(x, wide, norm) - x
    size = added.square().mean().sqrt()
    print(f"last weights times {factor:3}: the branch adds {size:.2f}")

# %% [markdown]
# A third placement, called peri-norm, normalises the input of a branch **and** its output, before that is added:
# x ← x + norm₂(f(norm₁(x))). However large the weights of f become, the branch then adds something of size 1, as long
# as norm₂'s own weight is 1 and its bias 0. Peri-norm is easily confused with norm₂(x + f(norm₁(x))), which normalises
# the stream itself, as post-norm does.
#
# ### Exercise 1 · Peri-norm (5 minutes)
#
# Return the peri-norm block's output, best with one call of a function that you know: it already has a place for
# whatever is done to a branch before the sum.
#
# <details><summary>Hint 1</summary>What in <code>pre_norm_residual</code> comes after the layer, and before the
# sum?</details>
# <details><summary>Hint 2</summary>Its gates: a list of functions that are applied to the output of the branch, one
# after the other. Any function that keeps the shape can be one.</details>


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
    # norm_1 = 2 z, layer = z² + 1, norm_2 = 3 z, so the output is x + 3 ((2 x)² + 1)
    parts = lambda z: z * z + 1, lambda z: 2 * z, lambda z: 3 * z
    given = torch.tensor([1.0, 2.0], requires_grad=True)
    with unchanged(x=given):
        found = peri_norm(given, *parts)
    close(found, torch.tensor([16.0, 53.0]), "x + 3 ((2 x)² + 1) for x = (1, 2)")
    assert found.requires_grad, "got an output without a gradient, wanted one"
    found.sum().backward()
    close(given.grad, torch.tensor([25.0, 49.0]), "its gradient, 1 + 24 x,")

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
# Gates help a network to begin; once it is trained they are only one more multiplication. So one would like to take them
# out before the network is shipped, [as an author of ConvNeXt confirms](https://github.com/facebookresearch/ConvNeXt/issues/27).
# They cannot simply be left out. Here is a pre-norm branch whose gates differ, as they do after a training:


# %%
def branch(width, seed=0):
    """Return a branch as after a training: its gates differ, and some are below 0."""
    torch.manual_seed(seed)
    norm, layer = LayerNorm(width), SimpleFeedForward(width, 2 * width)
    parts = nn.Sequential(norm, layer, LayerScale(width))
    for parameter in parts.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return parts


trained = branch(8)
print("gates:", " ".join(f"{one:.2f}" for one in trained[2].gamma.tolist()))
gap = (trained(x) - trained[:2](x)).abs().max()
print(f"left out, they change an output by {gap:.2f}")

# %% [markdown]
# ### Exercise 2 · Take them out (9 minutes)
#
# A gate is a multiplication, and the part before it ends in a linear layer, so each weight of that layer can be
# multiplied by its gate beforehand. Return a branch of the first two parts alone, norm and layer, which computes for
# every x what the three parts do. The given branch is needed again: it must stay as it is, and share no tensor with
# yours.
#
# <details><summary>Hint 1</summary>The gate multiplies feature i of the output. Which numbers of <code>linear2</code>
# make feature i, and nothing else?</details>
# <details><summary>Hint 2</summary>A linear layer's weight has the shape (outputs, inputs). In which shape does gamma
# multiply its rows? And what besides the weight goes through the gate?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "without-gates", "locked": false, "schema_version": 3, "solution": true, "task": false}
def without_gates(branch):
    """Return nn.Sequential(norm, layer) that computes what norm, layer, gates do."""
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
    names = list(dict(folded.named_parameters()))
    wanted = list(dict(trained[:2].named_parameters()))
    assert names == wanted, f"the parameters: got {names}, wanted {wanted}"
    even = copy.deepcopy(trained)
    nn.init.constant_(even[2].gamma, 0.1)
    close(without_gates(even)(x), even(x), "with all gates at 0.1, the output")

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
# ## Does the gate act?
#
# Now back to the 48 blocks. We want a test for a single block, because a network may have many kinds of them, and one
# that does not read the code. Think of the volume control of lesson 05 (the gate): if you turn it to twice its value,
# then what is added must become twice as large.
#
# ### Exercise 3 · Measure: turn the gate (5 minutes)
#
# Return how many times larger what the block adds becomes when its `gate.gamma` is doubled: 2 for a gate that acts, and
# 1 for one whose overall size does nothing. What it adds is `block(x) - x`, and its size is the root of the mean
# square. The block must come back as it was.
#
# <details><summary>Hint</summary>Measure on a <code>copy.deepcopy</code> of the block. With which number do you have to
# compare the size of what is added: with the size of x, or with what was added before?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "gate-effect", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gate_effect(block, x):
    """Return the growth of what the block adds, when its gate is doubled."""
    ### BEGIN SOLUTION
    louder = copy.deepcopy(block)
    louder.gate.gamma.data *= 2
    before, after = ((one(x) - x).square().mean().sqrt() for one in (block, louder))
    return (after / before).item()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gate-effect-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("gate_effect"):
    ways = {
        2.0: lambda x, layer, norm_1, norm_2, gate: x + gate(layer(norm_1(x))),
        1.0: lambda x, layer, norm_1, norm_2, gate: x + layer(norm_1(x)),
        4.0: lambda x, layer, norm_1, norm_2, gate: x + gate(gate(layer(x))),
    }
    for wanted, way in ways.items():
        for start in (1.0, 0.01):
            block = Block(way, start)
            with unchanged(block=block, x=x):
                found = gate_effect(block, x)
            close(found, wanted, f"a gate of {start}, doubled: the growth of what is added", 0.01)


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "gate-effect-hidden", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
class Outer(nn.Module):
    def __init__(self, way, start):
        nn.Module.__init__(self)
        self.gate, self.inner, self.way = LayerScale(5, start), SimpleFeedForward(5, 5), way
        nn.init.normal_(self.gate.gamma, std=start)

    def forward(self, tokens):
        return tokens + self.way(self.inner(tokens), self.gate)


torch.manual_seed(44)
other_ways = {2.0: lambda z, g: g(z), 1.0: lambda z, g: z, 0.5: lambda z, g: z / g.gamma, 8.0: lambda z, g: g(g(g(z)))}
for wanted, way in other_ways.items():
    for start, scale in ((3.0, 1.0), (0.05, 1.0), (0.5, 30.0)):
        outer, tokens = Outer(way, start).double().eval(), scale * torch.randn(4, 3, 5).double() + scale
        with unchanged(block=outer, x=tokens):
            found = gate_effect(outer, tokens)
        close(found, wanted, f"a gate of {start}, doubled: the growth of what is added", rtol=1e-3)
### END HIDDEN TESTS


# %%
def print_effects(residual):
    for start in (1.0, 0.01):
        effect = gate_effect(Block(residual, start), x)
        print(f"a gate of {start:4}, doubled: {effect:.2f} times as much is added")


with suppress(NotImplementedError):  # prints as soon as exercise 3 is written
    print_effects(handed_residual)

# %% [markdown]
# ### Exercise 4 · Mend his line (6 minutes)
#
# As soon as your function is written, the cell above shows what his gates are worth. Look at his line again:
# `x + norm_2(gate(layer(norm_1(x))))`. Write it so that the branch keeps its two norms, and the gate acts on what is
# added.
#
# <details><summary>Hint</summary>What does a norm return for z, and what for 0.0001 · z? Then say what each of the parts
# receives, from the innermost to the outermost.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "mended-gate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_peri_norm(x, layer, norm_1, norm_2, gate):
    """Return the stream after a branch with two norms, and with a gate that acts."""
    ### BEGIN SOLUTION
    return pre_norm_residual(x, layer, norm_1, [norm_2, gate])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-gate-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("mended_peri_norm"):
    # norm_1 = 2 z, layer = z² + 1, norm_2 = z + 3, gate = 10 z, so the output is x + 10 (((2 x)² + 1) + 3)
    parts, gate = (lambda z: z * z + 1, lambda z: 2 * z, lambda z: z + 3), LayerScale(2, 10.0)
    given = torch.tensor([1.0, 2.0])
    with unchanged(x=given):
        found = mended_peri_norm(given, *parts, gate)
    close(found, torch.tensor([81.0, 202.0]), "x + 10 ((2 x)² + 4) for x = (1, 2)")
    assert found.requires_grad, "got an output without a gradient, wanted one"
    found.sum().backward()
    close(gate.gamma.grad, torch.tensor([8.0, 20.0]), "the gradient of gamma, (2 x)² + 4,")
    for start in (0.5, 0.001):
        block = Block(mended_peri_norm, start)
        size = (block(x) - x).square().mean().sqrt()
        close(size, start, f"a gate of {start}: the size of what is added", 0.01)
    for start in (1.0, 0.01, 0.0001):
        through_48(mended_peri_norm, start)

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "mended-gate-hidden", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(45)
mlp, first, second, gates = SimpleFeedForward(6, 12), LayerNorm(6), LayerNorm(6), LayerScale(6)
for p in (*first.parameters(), *second.parameters(), gates.gamma):
    nn.init.normal_(p)
calls = []
mlp.register_forward_hook(lambda *_: calls.append(1))
leaves = [p for part in (mlp, first, second, gates) for p in part.parameters()]
for run, shape in enumerate([(7, 6), (2, 3, 6)], start=1):
    given, pull = (9 * torch.randn(shape) - 2).requires_grad_(), torch.randn(shape)
    with unchanged(x=given):
        got = mended_peri_norm(given, mlp, first, second, gates)
    assert len(calls) == run, f"calls of the layer: got {len(calls)}, wanted {run}"
    want = given + gates(second(mlp.linear2(torch.relu(mlp.linear1(first(given))))))
    close(got, want, "with norms and gates that differ: the output")
    assert got.requires_grad, "got an output without a gradient, wanted one"
    wanted = torch.autograd.grad((pull * want).sum(), [given, *leaves])
    found = torch.autograd.grad((pull * got).sum(), [given, *leaves], allow_unused=True)
    for mine, right in zip(found, wanted, strict=True):
        assert mine is not None, "a gradient: got none, wanted one for x and each parameter"
        close(mine, right, "a gradient")
### END HIDDEN TESTS

# %%
with suppress(NotImplementedError):  # prints as soon as exercises 3 and 4 are written
    print_effects(mended_peri_norm)

# %% [markdown]
# A norm removes a positive factor common to its whole input, as long as eps is small beside the variance of that input.
# So a factor that is to act has to stand after the norm. No error tells you that the size of a gate has no effect, and
# its name does not either: turn it, and look whether anything moves.
