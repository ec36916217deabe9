# %% [markdown]
# # Homework for lessons 06, 07a and 07b · Conditions
#
# 40 minutes. It needs lessons 06, 07a and 07b, and of the library only what they finished.
#
# By the end you can
#
# - **modulate** a branch of any signal so that the block begins as the identity;
# - **find out** from outside what a block does with its condition, whatever its code says.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
from functools import partial

import torch
from torch import nn

from residual_edu import Attention, LayerNorm, QKVConditionMixer, SimpleFeedForward
from residual_edu import modulations, pre_norm_residual, zero_projection
from residual_course.exercises import attempt
from residual_course.checking.properties import close
from residual_course.checking.unchanged import unchanged
from residual_course.lesson import setup

device = setup()

# %% [markdown]
# ## One branch, one condition
#
# Lesson 06 had two branches, and so six pieces. Here is one branch: shift, scale and gate, each as wide as x. At the
# start all three are zero for every condition. The scale enters as 1 + scale, so the layer then receives norm(x), and
# not zero.

# %%
project = zero_projection(8, branches=1)
condition = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
pieces = project(condition)
print(tuple(pieces.shape), "all zero:", not pieces.any())

# %% [markdown]
# ### Exercise 1 · 15 minutes · ●●●○○
#
# Return the output of a block with one modulated branch. Its input x is (batch, ..., channels), with any axes between
# and any number of channels: x + gate · layer(norm(x) · (1 + scale) + shift). `projection` is a `zero_projection` of
# one branch, perhaps after training: it makes (batch, 3 · channels) of the condition, (batch, channels), in the order
# shift, scale, gate. Split them by hand, or with the library's `modulations`.
#
# <details><summary>Hint 1</summary>A piece is (batch, channels), and x has other axes between these two. Which lengths
# must the piece have there, so that it multiplies each position of its own sample?</details>
# <details><summary>Hint 2</summary>Try it on paper with x of shape (2, 5, 8), then (2, 8) and (2, 5, 4, 8): how many axes
# have to be put in?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "modulated", "locked": false, "schema_version": 3, "solution": true, "task": false}
def modulated(x, condition, layer, norm, projection):
    """Return x after its one branch."""
    ### BEGIN SOLUTION
    (spoken,) = modulations(projection(condition), x.ndim, branches=1)
    return pre_norm_residual(x, layer, spoken.modulate(norm), [spoken.apply_gate])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "modulated-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("modulated"):
    layer, norm = SimpleFeedForward(8, 16), LayerNorm(8, elementwise_affine=False)
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    close(
        modulated(x, condition, layer, norm, project), x, "at the start, where every gate is zero, the output", rtol=0
    )
    cue = torch.tensor([[2.0], [1.0]], requires_grad=True)  # shift, scale and gate: 2, 4, 6 and 1, 2, 3
    for one in (torch.full((2, 1, 1), 2.0), torch.full((2, 1), 2.0)):
        with unchanged(x=one, condition=cue):
            found = modulated(one, cue, torch.square, lambda z: z + 1, lambda c: torch.cat([c, 2 * c, 3 * c], -1))
        wanted = torch.tensor([1736.0, 302.0]).view(one.shape)  # 2 + 6 (3 (1 + 4) + 2)², 2 + 3 (3 (1 + 2) + 1)²
        close(found, wanted, f"norm = z + 1, layer = z², x = 2 of {one.ndim} axes, two samples: the output")
    assert found.requires_grad, "the gradient of the condition: got none, wanted one"
    found = modulated(x, condition, layer, norm, project).sum()
    assert found.requires_grad, "the gradient of the projection: got none, wanted one"
    (slope,) = torch.autograd.grad(found, project[1].weight, allow_unused=True, materialize_grads=True)
    received = [bool(third.any()) for third in slope.chunk(3)]
    assert received == [False, False, True], (
        f"a gradient for shift, scale and gate at the start: got {received}, wanted [False, False, True]"
    )

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "modulated-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(61)
trained, plain = zero_projection(6, branches=1), LayerNorm(6, elementwise_affine=False)
for p in trained.parameters():
    nn.init.normal_(p, std=0.5)
mlp, cues = SimpleFeedForward(6, 12), torch.randn(3, 6).requires_grad_()
leaves = [cues, *trained.parameters(), *mlp.parameters()]
for axes in ((4,), (4, 2), (2, 3, 2), ()):
    signal = torch.randn(3, *axes, 6).requires_grad_()
    shift, scale, gate = (z.view(3, *[1] * len(axes), 6) for z in trained(cues).chunk(3, dim=-1))
    want = signal + gate * mlp(plain(signal) * (1 + scale) + shift)
    got, what = modulated(signal, cues, mlp, plain, trained), f"after training, with {len(axes)} axes between: "
    close(got, want, what + "the output")
    pull = torch.randn(signal.shape)
    wanted = torch.autograd.grad((pull * want).sum(), [signal, *leaves])
    assert got.requires_grad, what + "got an output without a gradient, wanted one"
    found = torch.autograd.grad((pull * got).sum(), [signal, *leaves], allow_unused=True)
    for place, (mine, right) in enumerate(zip(found, wanted, strict=True)):
        name = ("x", "the condition")[place] if place < 2 else f"parameter {place - 1} of projection and layer"
        assert mine is not None, f"{what}the gradient of {name}: got none, wanted one"
        close(mine, right, f"{what}the gradient of {name}")
fresh, quiet = zero_projection(6, branches=1), torch.randn(3, 4, 6)
modulated(quiet, cues, mlp, plain, fresh).square().sum().backward()
assert fresh[1].weight.grad is not None, "the projection: got no gradient in the first step, wanted one in the gate"
moved = (fresh[1].weight.grad.abs().sum(1).view(3, 6).sum(1) > 0).tolist()
assert moved == [False, False, True], (
    f"a gradient in shift, scale and gate in the first step: got {moved}, wanted [False, False, True]"
)
### END HIDDEN TESTS

# %% [markdown]
# ## What does it do with its condition?
#
# In lesson 07b a network ignored its label, and neither its code nor its loss said so. So look from outside. Four functions of x (batch, positions, channels) and a condition (batch, channels), and how far another
# condition *for sample 0 alone* moves the two positions of samples 0 and 1:


# %%
def normed(x, condition):
    """Add the condition before a norm over the positions."""
    y = x + condition[:, None]
    return y - y.mean(1, keepdim=True)


ways = {
    "normed": normed,
    "added": lambda x, condition: x + condition[:, None],
    "scaled": lambda x, condition: x * condition[:, None],
    "averaged": lambda x, condition: x + condition.mean(0),
}
pairs = torch.tensor([[[1.0], [2.0]], [[3.0], [5.0]]], dtype=torch.float64)
old = torch.tensor([[1.0], [4.0]], dtype=torch.float64)
changed = torch.tensor([[2.0], [4.0]], dtype=torch.float64)
for name, way in ways.items():
    moved = (way(pairs, changed) - way(pairs, old)).squeeze(-1)
    print(f"{name:9} sample 0: {moved[0].tolist()}  sample 1: {moved[1].tolist()}")

# %% [markdown]
# ### Exercise 2 · 20 minutes · ●●●●○
#
# Return what `f(x, condition)` does with its condition, in one word:
#
# - "mixed": some sample's output depends on the condition of another sample, which is a bug;
# - "own": no, but some sample's condition moves its positions differently;
# - "same": nor that, but some sample's condition moves all its positions by the same vector;
# - "ignored": no output depends on the condition.
#
# x is (batch, positions, channels) and `condition` (batch, ..., channels), both in float64, with at least 2 samples and 3 positions. "Depends" means by more than rounding: by more than 1e-8 of
# the output's largest number. What depends by a thousandth counts. Leave x and the condition as they are.
#
# <details><summary>Hint 1</summary>Change the condition of one sample alone. Which samples may move, and what tells the words apart in the sample that does?</details>
# <details><summary>Hint 2</summary>A position's shift can equal another's by chance if the new condition is special (all ones, or twice the old one). Draw it. Compare the spread over the
# positions with the size of the shift itself, which may be small.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "describe-condition", "locked": false, "schema_version": 3, "solution": true, "task": false}
def describe_condition(f, x, condition):
    """Return "mixed", "ignored", "same" or "own"."""
    ### BEGIN SOLUTION
    with torch.no_grad():
        before = f(x, condition)
        little, seen = 1e-8 * before.abs().max(), "ignored"
        for sample in range(len(x)):
            other = condition.clone()
            other[sample] = torch.randn_like(other[sample])
            moved = f(x, other) - before
            size = moved[sample].abs().max()
            moved_there = moved[sample].clone()
            moved[sample] = 0
            if moved.abs().max() > little:
                return "mixed"
            spread = (moved_there - moved_there[:1]).abs().max()
            if size > little and seen != "own":
                seen = "own" if spread > max(1e-4 * size, little) else "same"
    return seen
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "describe-condition-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("describe_condition"):
    torch.manual_seed(4)
    signal, cue = torch.randn(3, 5, 8).double(), torch.randn(3, 8).double()
    kinds = {"normed": "ignored", "added": "same", "scaled": "own", "averaged": "mixed"}
    for name, kind in kinds.items():
        with unchanged(x=signal, condition=cue):
            found = describe_condition(ways[name], signal, cue)
        assert found == kind, f"for {name!r}: got {found!r}, wanted {kind!r}"
    found = describe_condition(lambda x, c: x + c[:, None] / 1000, signal, cue)
    assert found == "same", f"for a thousandth of the condition, added: got {found!r}, wanted 'same'"
    found = describe_condition(lambda x, c: x + c[:, None] + 0.01 * c[-1], signal, cue)
    assert found == "mixed", (
        f"for a hundredth of the last sample's condition, added to all: got {found!r}, wanted 'mixed'"
    )
    found = describe_condition(lambda x, c: torch.cat([x[..., :7], x[..., 7:] * c[:, None, 7:]], -1), signal, cue)
    assert found == "own", f"for a condition that scales the last channel alone: got {found!r}, wanted 'own'"
    attention = partial(Attention, hidden_dim=8, num_heads=2, apply_qk_norm=False, use_rope=False)
    cross = QKVConditionMixer(8, attention).double()
    for tokens, kind in ((1, "same"), (4, "own")):
        found = describe_condition(cross, signal, torch.randn(3, tokens, 8).double())
        assert found == kind, f"for cross-attention to {tokens} tokens: got {found!r}, wanted {kind!r}"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "describe-condition-hidden", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(62)


def keyed(x, c):
    return (x @ (x + c[:, None]).mT).softmax(-1) @ x


def valued(x, c):
    return (x @ x.mT).softmax(-1) @ (x + c[:, None])


def shuffled(x, c):
    return x + c.roll(1, 0)[:, None]


def at_one_place(x, c):
    return torch.cat([x[:, :-1], x[:, -1:] + 1e-3 * c[:, None]], 1)


def for_the_last_sample(x, c):
    there = torch.arange(len(x)) == len(x) - 1
    return x + there[:, None, None] * c[:, None]


def for_the_first_sample(x, c):
    return x + (torch.arange(len(x)) == 0)[:, None, None] * c[:, None]


def led_by_the_last_sample(x, c):
    return x + c[:, None] + 0.01 * c[-1]


def in_one_channel(x, c):
    return torch.cat([x[..., :-1] + c[:, None, :-1], x[..., -1:] * c[:, None, -1:]], -1)


def faintly_mixed(x, c):
    return x + c[:, None] + 1e-4 * c.mean(0)


def relu_later(x, c):
    return torch.relu(x + 0.1 * c[:, None])


cases = [(keyed, "ignored"), (valued, "same"), (shuffled, "mixed"), (at_one_place, "own"), (relu_later, "own")]
cases += [(for_the_first_sample, "same"), (led_by_the_last_sample, "mixed"), (in_one_channel, "own")]
cases += [(for_the_last_sample, "same"), (faintly_mixed, "mixed"), (lambda x, c: 1e6 * normed(x, c), "ignored")]
cases += [(lambda x, c: 1e-6 * (x * c[:, None]), "own"), (lambda x, c: x + 0 * c[:, None], "ignored")]
for samples, places in ((2, 3), (5, 7)):
    signal, cue = torch.randn(samples, places, 6).double(), torch.randn(samples, 6).double()
    for number, (way, kind) in enumerate(cases):
        found = describe_condition(way, signal, cue)
        assert found == kind, f"hidden function {number}: got {found!r}, wanted {kind!r}"
    found = describe_condition(lambda x, c: (x @ c.mT).softmax(-1) @ c, signal, torch.randn(samples, 4, 6).double())
    assert found == "own", f"hidden function of four tokens: got {found!r}, wanted 'own'"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | with a gate of zero the block is the identity, bit for bit, and the gate still receives a gradient | branches whose output is not zero |
# | whether a condition is used is measured by exchanging it, one sample at a time | functions without chance |
# | a condition added to all positions before a norm over them, or to all keys, is lost; cross-attention to one token adds the same to all positions | any number of heads, without rotary embedding |
