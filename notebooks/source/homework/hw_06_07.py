# %% [markdown]
# # Homework for lessons 06, 07a and 07b · Conditions
#
# 50 minutes. You need lessons 06, 07a and 07b, and of the library only the pieces that they built.
#
# You write a branch that a condition modulates, for signals with any number of axes; then a cross-attention that leaves
# out what is only there to fill up a batch; and last a test that finds out from outside what a block does with its
# condition, whatever its code says.
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
# In lesson 06 a block had two branches and needed six vectors. We take one branch, so there are three: shift, scale and
# gate, each as wide as x. Before training all three are 0 for every condition. Because the scale enters as 1 + scale,
# the layer then receives norm(x), and not 0.

# %%
project = zero_projection(8, branches=1)
condition = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
pieces = project(condition)
print(tuple(pieces.shape), "all zero:", not pieces.any())

# %% [markdown]
# ### Exercise 1 · A branch for any number of axes (14 minutes)
#
# Return x + gate · layer(norm(x) · (1 + scale) + shift). x is (batch, ..., channels), with any axes between, as in
# lesson 07a. `projection`, perhaps after training, makes (batch, 3 · channels) of the condition, in the order shift,
# scale, gate. Cut it by hand, or with the library's `modulations`.
#
# <details><summary>Hint</summary>A piece is (batch, channels), and x has other axes between these two. Try it on paper
# with x of shape (2, 5, 8), then (2, 8) and (2, 5, 4, 8): how many axes of length 1 have to be put in?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "modulated", "locked": false, "schema_version": 3, "solution": true, "task": false}
def modulated(x, condition, layer, norm, projection):
    """Return x after its one branch."""
    ### BEGIN SOLUTION
    (spoken,) = modulations(projection(condition), x.ndim, branches=1)
    return pre_norm_residual(x, layer, spoken.modulate(norm), [spoken.apply_gate])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "modulated-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
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

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "modulated-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
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
# ## Questions of different lengths
#
# In lesson 07b every question had two words. Real ones have different lengths, and a batch is one tensor, so short
# ones are filled up at the end with **padding**, vectors that mean nothing. Cross-attention does not know that. Here
# the same question is read alone, and filled up to five words:

# %%
layer = QKVConditionMixer(8, partial(Attention, 8, 1, apply_qk_norm=False, use_rope=False)).double()
seats = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(2)).double()
question = torch.randn(1, 2, 8, generator=torch.Generator().manual_seed(3)).double()
filled_up = torch.cat([question, torch.zeros(1, 3, 8).double()], dim=1)
print(
    "what a position receives changes by up to", f"{(layer(seats, filled_up) - layer(seats, question)).abs().max():.2f}"
)

# %% [markdown]
# Padding of zeros gives nothing, but it has scores of 0, and so it takes its part of the weights.
#
# ### Exercise 2 · Read the words alone (14 minutes)
#
# Return the cross-attention of x (batch, positions, channels) to `words` (batch, words, channels), where of sample i only
# the first `counts[i]` words are read. `counts` (batch,) are whole numbers from 1. The maps are `layer.q_proj`,
# `layer.kv_proj` (keys first, then values) and `layer.out_proj`; there is one head.
#
# <details><summary>Hint</summary>A score of −∞ has a weight of exactly 0. <code>scores.masked_fill(mask, -torch.inf)</code>
# sets it where the mask is True. Which shape has the mask, if all positions of a sample read the same words?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "read-words", "locked": false, "schema_version": 3, "solution": true, "task": false}
def read_words(layer, x, words, counts):
    """Return what each position receives from the first words of its own sample."""
    ### BEGIN SOLUTION
    query = layer.q_proj(x)
    key, value = layer.kv_proj(words).chunk(2, dim=-1)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    padding = torch.arange(words.shape[1], device=words.device) >= counts[:, None]  # (batch, words)
    weights = scores.masked_fill(padding[:, None], -torch.inf).softmax(dim=-1)
    return layer.out_proj(weights @ value)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "read-words-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("read_words"):
    with unchanged(x=seats, words=filled_up):
        found = read_words(layer, seats, filled_up, torch.tensor([2]))
    close(found, layer(seats, question), "two words of five: what the positions receive")
    close(
        read_words(layer, seats, question, torch.tensor([2])),
        layer(seats, question),
        "two words of two: what they receive",
    )
    both, two = seats.expand(2, -1, -1), torch.cat([filled_up, filled_up.flip(2)])
    found = read_words(layer, both, two, torch.tensor([2, 1]))
    close(found[:1], layer(seats, question), "two samples, two words and one: what the first receives")
    close(found[1:], layer(seats, two[1:, :1]), "two samples, two words and one: what the second receives")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "read-words-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(63)
other = QKVConditionMixer(6, partial(Attention, 6, 1, apply_qk_norm=False, use_rope=False)).double()
for counts in ([1, 3, 4, 2], [4, 4, 4, 4]):
    places, asked = torch.randn(4, 3, 6).double().requires_grad_(), 3 * torch.randn(4, 4, 6).double()
    asked.requires_grad_()
    alone = [other(places[i : i + 1], asked[i : i + 1, :n]) for i, n in enumerate(counts)]
    got, want = read_words(other, places, asked, torch.tensor(counts)), torch.cat(alone)
    close(got, want, f"{counts} words of four: what the positions receive")
    leaves = [places, asked, *other.parameters()]
    pull = torch.randn(want.shape).double()
    wanted = torch.autograd.grad((pull * want).sum(), leaves)
    assert got.requires_grad, f"{counts} words of four: got an output without a gradient, wanted one"
    found = torch.autograd.grad((pull * got).sum(), leaves, allow_unused=True)
    for place, (mine, right) in enumerate(zip(found, wanted, strict=True)):
        name = ("x", "the words")[place] if place < 2 else f"map {place - 1}"
        assert mine is not None, f"{counts} words of four: the gradient of {name}: got none, wanted one"
        close(mine, right, f"{counts} words of four: the gradient of {name}")
    loud = torch.cat([asked, 1000 * torch.ones(4, 2, 6).double()], dim=1)
    got = read_words(other, places, loud, torch.tensor(counts))
    close(got, want, f"{counts} words of six, loud padding: the output")
### END HIDDEN TESTS

# %% [markdown]
# ## What does it do with its condition?
#
# In lesson 07b a network ignored a part of its condition, and its loss did not say so. So we look from outside. Here are
# four functions of x (batch, positions, channels) and a condition (batch, channels). The numbers say how far another
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
# ### Exercise 3 · One word for a block (20 minutes)
#
# Return what `f(x, condition)` does with its condition:
#
# - "mixed": some sample's output depends on the condition of another sample, which is a fault;
# - "own": not so, but some sample's condition moves its positions differently;
# - "same": neither, but some sample's condition moves all its positions by the same vector;
# - "ignored": no output depends on the condition.
#
# x is (batch, positions, channels) and `condition` (batch, ..., channels), both in float64, with at least 2 samples and 3
# positions. An output depends on what moves it by more than 1e-8 of its largest number. Leave x and the condition as they
# are.
#
# <details><summary>Hint 1</summary>Change the condition of one sample alone, for each sample in turn. Which samples may
# move, and what tells the words apart in the one that does?</details>
# <details><summary>Hint 2</summary>Draw the new condition: a special one, such as twice the old, may move two positions
# alike by chance. Compare the spread over the positions with the size of the shift, which may be small.</details>


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

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "describe-condition-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
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
# What you can take from here: with a gate of 0 a block returns exactly x, and the gate still receives a gradient, unless
# its branch returns 0. Padding must not take a part of the weights. And whether a condition is used is measured by exchanging it, one
# sample at a time and one part at a time. Two of your functions showed how it can be lost: added to all positions
# before a norm over them, it is subtracted again, and averaged over the batch, it reaches the wrong samples.
