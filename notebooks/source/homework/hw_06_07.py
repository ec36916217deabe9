# %% [markdown]
# # Homework for lessons 06, 07a and 07b · An answer that depends on its neighbours
#
# About 50 minutes. You need lessons 06, 07a and 07b, and of the library only what they built.
#
# A network receives a signal and a question of two words. The same question is then put into a batch beside a longer
# one, and the network computes something else for it, although neither the signal nor the question has changed. At the
# end you will have mended it, with a function that tells what a block does with its condition.
#
# Below each exercise are tests that you can read. Your answers are graded with others too, on other inputs.

# %%
from contextlib import suppress
from functools import partial

import torch
from torch import nn

from residual_edu import Attention, QKVConditionMixer

from residual_course.checking.properties import close, unchanged
from residual_course.exercises import attempt
from residual_course.lesson import setup

device = setup()


# %%
def handed_read(layer, x, words, counts):
    """Return what each position of x receives from the words, with one head."""
    query = layer.q_proj(x)
    key, value = layer.kv_proj(words).chunk(2, dim=-1)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return layer.out_proj(scores.softmax(dim=-1) @ value)


one_head = partial(Attention, 8, 1, apply_qk_norm=False, use_rope=False)
layer = QKVConditionMixer(8, one_head).double()  # the cross-attention of lesson 07b
x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(2)).double()
words = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(3)).double()
words[0, 2:] = 0  # the first question has two words, and is filled up
counts = torch.tensor([2, 5])
alone = handed_read(layer, x[:1], words[:1, :2], counts[:1])
beside = handed_read(layer, x, words, counts)[:1]
print(f"the first question alone and beside a longer one: {(alone - beside).abs().max():.2f} apart,")
print(f"where the largest number of the answer is {alone.abs().max():.2f}")

# %% [markdown]
# A batch is one tensor, so short questions are filled up at the end with **padding**, vectors that mean nothing. Somehow
# the first question reads its padding. We come back to this in exercise 2; first we need a way to find out what a
# condition does.
#
# ## What does a condition move?
#
# A network may ignore its condition, or the condition of one sample may reach another sample, and no error tells you.
# So we look from outside, and change the condition of *one* sample. Here are three functions of x
# (batch, positions, channels) and a condition (batch, channels); the numbers say how far another condition for sample 0
# moves the outputs at the two positions of samples 0 and 1:


# %%
def normed(x, condition):
    """Add the condition, then subtract the mean over the positions."""
    y = x + condition[:, None]
    return y - y.mean(1, keepdim=True)


ways = {
    "normed": normed,
    "scaled": lambda x, condition: x * condition[:, None],
    "averaged": lambda x, condition: x + condition.mean(0),
}
pairs = torch.tensor([[[1.0], [2.0]], [[3.0], [5.0]]]).double()
old, new = torch.tensor([[[1.0], [4.0]], [[2.0], [4.0]]]).double()
for name, way in ways.items():
    moved = (way(pairs, new) - way(pairs, old)).squeeze(-1)
    print(f"{name:9} sample 0: {moved[0].tolist()}  sample 1: {moved[1].tolist()}")

# %% [markdown]
# The first function loses its condition: what is added to all positions alike is subtracted again with their mean. The
# third moves sample 1, whose condition is the old one.
#
# ### Exercise 1 · One word for a block (20 minutes)
#
# Return what `f(x, condition)` does with its condition:
#
# - "mixed": some sample's output depends on the condition of another sample;
# - "used": no output depends on another sample's condition, and some sample's output depends on its own;
# - "ignored": no output depends on the condition.
#
# x, the output and `condition` are (batch, ..., channels), in float64, with at least 2 samples, and f draws nothing at
# random. The word holds for this x and this condition: with its gates at 0, the block of lesson 06 is "ignored".
# Count a sample as moved if any of its numbers changes by more than 1e-8 times the largest absolute number of
# `f(x, condition)`. Leave x and the condition as they are.
#
# <details><summary>Hint 1</summary>Change the condition of one sample, for each sample in turn: a function may treat the
# last one differently. Which samples may move, and which may not?</details>
# <details><summary>Hint 2</summary>Draw the new condition with <code>torch.randn_like</code>: zeros, or twice
# the old one, change nothing where the old one is zeros. When may you return at once, and when only after all
# samples?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "describe-condition", "locked": false, "schema_version": 3, "solution": true, "task": false}
def describe_condition(f, x, condition):
    """Return "mixed", "used" or "ignored"."""
    ### BEGIN SOLUTION
    before, found = f(x, condition), "ignored"
    for sample in range(len(x)):
        other = condition.clone()
        other[sample] = torch.randn_like(other[sample])
        far = (f(x, other) - before).abs().flatten(1).amax(1) > 1e-8 * before.abs().max()
        own = bool(far[sample])
        if far.sum() > own:
            return "mixed"
        if own:
            found = "used"
    return found
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "describe-condition-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
with attempt("describe_condition"):
    torch.manual_seed(4)
    signal, cue = torch.randn(3, 5, 8).double(), torch.randn(3, 8).double()
    cases = {
        "normed": (ways["normed"], "ignored"),
        "scaled": (ways["scaled"], "used"),
        "averaged": (ways["averaged"], "mixed"),
        "x alone": (lambda x, c: x, "ignored"),
        "x + c / 1000": (lambda x, c: x + c[:, None] / 1000, "used"),
        "x + c + 0.01 · the last c": (lambda x, c: x + c[:, None] + 0.01 * c[-1], "mixed"),
        "1e9 · normed": (lambda x, c: 1e9 * ways["normed"](x, c), "ignored"),
    }
    for name, (way, wanted) in cases.items():
        with unchanged(x=signal, condition=cue):
            found = describe_condition(way, signal, cue)
        assert found == wanted, f"{name}: got {found!r}, wanted {wanted!r}"
    found = describe_condition(layer, signal, torch.randn(3, 4, 8).double())
    assert found == "used", f"cross-attention to 4 words: got {found!r}, wanted 'used'"
    found = describe_condition(ways["scaled"], signal, torch.zeros(3, 8).double())
    assert found == "used", f"scaled, by conditions that are 0: got {found!r}, wanted 'used'"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "describe-condition-hidden", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(62)


def spread(x, c):
    return c.reshape(len(c), *[1] * (x.ndim - 2), -1)


def keyed(x, c):
    return (x @ (x + spread(x, c)).mT).softmax(-1) @ x


def for_one_sample(at):
    def way(x, c):
        there = (torch.arange(len(x)) == at % len(x)).double()
        return x + spread(x, there[:, None] * c)

    return way


def last_position(x, c):
    return torch.cat([x[..., :-1, :], x[..., -1:, :] + 1e-3 * spread(x, c)], -2)


def last_channel(x, c):
    return torch.cat([x[..., :-1], x[..., -1:] + spread(x, c)[..., -1:]], -1)


def normed_over_the_batch(x, c):
    y = x + spread(x, c)
    return y - y.mean(0)


def from_one_to_another(source, target):
    def way(x, c):
        y = x + spread(x, c)
        return torch.cat([y[: target % len(x)], y[target % len(x)][None] + 0.01 * c[source], y[target % len(x) + 1 :]])

    return way


def large_and_centred(x, c):
    y = x + spread(x, c)
    return 1e9 * (y - y.mean(-2, keepdim=True))


cases = [(keyed, "ignored"), (for_one_sample(0), "used"), (for_one_sample(-1), "used"), (last_position, "used")]
cases += [(last_channel, "used"), (normed_over_the_batch, "mixed"), (large_and_centred, "ignored")]
cases += [(from_one_to_another(0, -1), "mixed"), (from_one_to_another(-1, 0), "mixed")]
cases += [(lambda x, c: x + spread(x, c - c.mean(-1, keepdim=True)), "used")]
cases += [(lambda x, c: x + spread(x, c.roll(1, 0)), "mixed")]
cases += [(lambda x, c: x + spread(x, c) + 1e-5 * c.mean(0), "mixed"), (lambda x, c: 1e6 * x + 0 * c.sum(), "ignored")]
cases += [(lambda x, c: 1e-10 * (x * spread(x, c)), "used"), (lambda x, c: x + c.norm(dim=0), "mixed")]
cases += [(lambda x, c: x + nn.functional.normalize(spread(x, c), dim=-1), "used")]
for shape in ((2, 3, 6), (5, 7, 6), (3, 2, 4, 6)):
    signal, cue = torch.randn(*shape).double(), torch.randn(shape[0], 6).double()
    for number, (way, kind) in enumerate(cases):
        with unchanged(x=signal, condition=cue):
            found = describe_condition(way, signal, cue)
        assert found == kind, f"hidden function {number}: got {found!r}, wanted {kind!r}"
    cue[0] = 0
    found = describe_condition(for_one_sample(0), signal, cue)
    assert found == "used", f"a function of sample 0, whose condition is zero: got {found!r}, wanted 'used'"
signal, tokens = torch.randn(3, 5, 6).double(), torch.randn(3, 4, 6).double()
for number, (take, kind) in enumerate(((slice(None), "used"), (slice(1), "used"), (slice(3, 4), "used"))):
    found = describe_condition(lambda x, c, take=take: x + c[:, take].mean(1, keepdim=True), signal, tokens)
    assert found == kind, f"hidden function {number} of four words: got {found!r}, wanted {kind!r}"
### END HIDDEN TESTS

# %% [markdown]
# ## The padding
#
# **Measure first.** What is padding in these terms? It is a condition that has to be "ignored". So we hold the words of
# a question fixed, take what stands behind them as the condition, and let your function say what it does:


# %%
def padded(read, words, counts):
    """Return a function of x and of what stands behind the words."""
    return lambda x, padding: read(layer, x, torch.cat([words, padding], 1), counts)


both, two = torch.randn(2, 2, 2, 8).double()  # two samples: positions, words
padding = torch.zeros(2, 3, 8).double()
with suppress(NotImplementedError):  # prints as soon as exercise 1 is written
    read = padded(handed_read, two, torch.tensor([2, 2]))
    print("the padding is", describe_condition(read, both, padding))

# %% [markdown]
# It is "used", not "mixed": no content of a neighbour gets in. The neighbour decides only how much padding you get, and
# you read your own.
#
# ### Exercise 2 · Read the words alone (10 minutes)
#
# A padding of zeros has values of 0 and scores of 0, since the maps of key and value have no bias. It gives nothing,
# but e⁰ = 1: it takes its part of the softmax, and less is left for the words. So the softmax has to leave it out.
#
# Mend `handed_read`: of sample i only the first `counts[i]` words may be read. `counts` (batch,) are whole numbers
# from 1, and all numbers of the words are finite.
#
# <details><summary>Hint 1</summary>A score of −∞ has a weight of exactly 0.
# <code>scores.masked_fill(mask, -torch.inf)</code> sets it where the mask is True.</details>
# <details><summary>Hint 2</summary>Compare <code>torch.arange(words.shape[1])</code> with the counts. The scores are
# (batch, positions, words), and all positions of a sample read the same words: what shape must the mask have?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "read-words", "locked": false, "schema_version": 3, "solution": true, "task": false}
def read_words(layer, x, words, counts):
    """Return what each position receives from the first words of its own sample."""
    ### BEGIN SOLUTION
    query = layer.q_proj(x)
    key, value = layer.kv_proj(words).chunk(2, dim=-1)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    padding = torch.arange(words.shape[1]) >= counts[:, None]  # (batch, words)
    weights = scores.masked_fill(padding[:, None], -torch.inf).softmax(dim=-1)
    return layer.out_proj(weights @ value)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "read-words-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("read_words"):
    with unchanged(x=x, words=words, counts=counts):
        found = read_words(layer, x, words, counts)
    close(found[:1], alone, "two words of five: what the positions receive")
    close(found[1:], layer(x[1:], words[1:]), "five words of five: what they receive")
    whole = read_words(layer, x[:1], words[:1, :2], counts[:1])
    close(whole, alone, "two words of two: what they receive")
    louder = words.clone()
    louder[0, 2:] = 100
    close(read_words(layer, x, louder, counts), found, "with loud padding, the output")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "read-words-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(63)
other = QKVConditionMixer(6, partial(Attention, 6, 1, apply_qk_norm=False, use_rope=False)).double()
for lengths in ([1, 3, 4, 2], [4, 4, 4, 4]):
    places, asked = torch.randn(4, 3, 6).double().requires_grad_(), 3 * torch.randn(4, 4, 6).double()
    asked.requires_grad_()
    singles = [other(places[i : i + 1], asked[i : i + 1, :n]) for i, n in enumerate(lengths)]
    got, want = read_words(other, places, asked, torch.tensor(lengths)), torch.cat(singles)
    close(got, want, f"{lengths} words of four: what the positions receive")
    leaves = [places, asked, *other.parameters()]
    pull = torch.randn(want.shape).double()
    wanted = torch.autograd.grad((pull * want).sum(), leaves)
    assert got.requires_grad, f"{lengths} words of four: got an output without a gradient, wanted one"
    found = torch.autograd.grad((pull * got).sum(), leaves, allow_unused=True)
    for place, (mine, right) in enumerate(zip(found, wanted, strict=True)):
        name = ("x", "the words")[place] if place < 2 else f"map {place - 1}"
        assert mine is not None, f"{lengths} words of four: the gradient of {name}: got none, wanted one"
        close(mine, right, f"{lengths} words of four: the gradient of {name}")
    loud = torch.cat([asked, 1000 * torch.ones(4, 2, 6).double()], dim=1)
    got = read_words(other, places, loud, torch.tensor(lengths))
    close(got, want, f"{lengths} words of six, loud padding: the output")
### END HIDDEN TESTS

# %%
with suppress(NotImplementedError):  # prints as soon as exercises 1 and 2 are written
    read = padded(read_words, two, torch.tensor([2, 2]))
    print("the padding is", describe_condition(read, both, padding))
    beside = read_words(layer, x, words, counts)[:1]
    print(f"alone and beside a longer one: {(alone - beside).abs().max():.2f} apart")

# %% [markdown]
# Padding must not take a part of the weights, else an answer depends on how long the longest question in the batch is.
# [A published audio model](https://github.com/huggingface/transformers/issues/43377) was reported to answer differently
# in a batch than alone, for want of a mask of the padding.
#
# Two checks belong together: *other* padding changes nothing, and *more* padding changes nothing. The first alone would
# have passed a read that sets its padding to 0 before it reads, which is the fault that we began with.
