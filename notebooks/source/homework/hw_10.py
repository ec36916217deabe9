# %% [markdown]
# # Homework for lesson 10 · A cache that you can trust
#
# About 55 minutes. You need lesson 10, and of the library only what it built.
#
# Lesson 10 ended with a cache that was wrong although the training loss was right, since training uses no cache.
# There it was enough to compare one character after the other. It is not enough in general, as we are going to see. At
# the end you will have written a function that finds a leaking mask and a wrong cache in any layer that should be
# causal, and with its help you will have mended an attention whose cache is wrong, and four times as large as it
# should be.
#
# Below each exercise are tests that you can read. Your answers are graded with others too, on other inputs.

# %%
from contextlib import suppress

import torch
from torch import nn

from residual_edu import AttentionBase, BlockConfig, attention_registry
from residual_edu import attention_mask, cache_length, extend, split_heads

from residual_course.checking.properties import close, unchanged
from residual_course.exercises import attempt
from residual_course.lesson import setup

device = setup()

# %% [markdown]
# ## Right for one position, wrong for four
#
# A cache is not only read one position at a time: a long question comes in pieces, so that it fits into memory. So we
# take the package's attention of lesson 10. It is called with x, a mask (True where a query may attend to a key) and the
# cache of the call before, None at first, and returns its output and the longer cache. These two functions call any
# such attention with a causal mask, and cut x into pieces:


# %%
def causal(attention):
    """Return a layer, (x, cache) to (output, cache), which calls attention with a causal mask."""

    def layer(x, cache):
        old, new = cache_length(cache), x.shape[1]  # how many positions are cached, and how many come
        return attention(x, attention_mask(new, old + new, causal=True), cache)

    return layer


def in_pieces(layer, x, lengths):
    """Call the layer on pieces of x, each with the cache of those before; return all outputs and the last cache."""
    outputs, cache = [], None
    for piece in x.split(lengths, dim=1):
        y, cache = layer(piece, cache)
        outputs.append(y)
    return torch.cat(outputs, dim=1), cache


# %% [markdown]
# Somebody thought that what is cached lies in the past, so that a call with a cache needs no mask. For both ways,
# we compare the outputs in pieces with those of the whole:


# %%
def without_mask(attention):
    """Return such a layer, but with no mask beside a cache."""
    return lambda x, cache: causal(attention)(x, None) if cache is None else attention(x, None, cache)


config = BlockConfig(attention="mha", d_model=32, n_heads=4, position="rope", max_seq_len=64)
mha, x = attention_registry.get("mha")(config), torch.randn(2, 12, 32)
whole, _ = causal(mha)(x, None)
for name, layer in {"mask in every call": causal(mha), "no mask beside a cache": without_mask(mha)}.items():
    ones, fours = ((in_pieces(layer, x, size)[0] - whole).abs().max() for size in (1, 4))
    print(f"{name:23} differs from the whole by {ones:.3f} one at a time, and by {fours:.3f} in fours")

# %% [markdown]
# One at a time, the mistake does not show. A single new position is the last one, so it may attend to everything, and
# needs no mask. But of four new positions the first must not attend to the other three.
# [A small language model](https://github.com/Mikyx-1/TinyLLM/issues/17) wrote garbage for this reason, after its
# training loss had come close to zero.
#
# ### Exercise 1 · What is wrong with this layer? (14 minutes)
#
# The comparison in fours found the mistake only because you knew what to look for. So you write a function that
# finds such faults in a layer of which you know nothing: not how it is made, and not what its cache looks like.
# `layer(x, cache)` takes (batch, positions, channels) and what an earlier call returned, None at first. It returns
# outputs of the same shape and a new cache, which may be of any kind: hand it on as it is. Return in one word what
# you find:
#
# - "leaks": called with all of x and None, an output depends on x at a **later** position;
# - "cache": it does not leak, but called on some pieces of x, one after another, its outputs differ from those of all
#   of x at once;
# - "right": neither.
#
# A difference of at most 1e-4 is rounding. x has at most 16 positions, and you may call the layer 500 times, on x, on
# parts of it, or on other numbers of its shape. Leave x as it is.
#
# <details><summary>Hint 1</summary>A leak may reach one position ahead or many, and from some positions only. Suppose
# you keep the first n positions and change all others: which outputs must stay? For which n do you try
# it?</details>
# <details><summary>Hint 2</summary>Some caches are wrong in the third piece and right in the second, some only in a
# piece of several positions, and some only when they are longer than a window. For the layers here it is enough to cut
# x into pieces of 1, into pieces of 2, into pieces of 3, and so on.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "fault-of", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fault_of(layer, x):
    """Return "leaks", "cache" or "right"."""
    ### BEGIN SOLUTION
    whole, length = layer(x, None)[0], x.shape[1]
    other = torch.randn(x.shape, generator=torch.Generator().manual_seed(5)).to(x)
    for n in range(1, length):
        changed = layer(torch.cat([x[:, :n], other[:, n:]], dim=1), None)[0]
        if (changed - whole)[:, :n].abs().max() > 1e-4:
            return "leaks"
    for size in range(1, length):
        if (in_pieces(layer, x, size)[0] - whole).abs().max() > 1e-4:
            return "cache"
    return "right"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fault-of-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
def limited(layer, most=500):
    """Return the layer, which may be called so many times."""
    left = iter(range(most))

    def call(x, cache):
        assert next(left, None) is not None, f"calls of the layer: got more than {most}, wanted at most {most}"
        return layer(x, cache)

    return call


def layer_with(allowed, keep=99, query_at=lambda seen, new: seen):
    """Return a layer whose query i attends to key j where allowed(i, j); how it is made does not matter."""
    head = attention_registry.get("mha")(
        BlockConfig(d_model=8, n_heads=1, position="rope", max_seq_len=64, rope_theta=10)
    )

    def layer(x, cache):
        old, seen = (x[:, :0], 0) if cache is None else cache
        held, new, first = torch.cat([old, x], dim=1), x.shape[1], seen - old.shape[1]
        mask = allowed(torch.arange(seen, seen + new)[:, None], torch.arange(first, seen + new))
        query = head.position.rotate(2 * head.q_proj(x)[:, None], query_at(seen, new))
        key, value = head.position.rotate(2 * head.k_proj(held)[:, None], first), head.v_proj(held)[:, None]
        return head.attend(query, key, value, mask), (held[:, max(held.shape[1] - keep, 0) :], seen + new)

    return layer


def past(i, j):
    return j <= i


with attempt("fault_of"):
    torch.manual_seed(10)
    signal = torch.randn(2, 12, 8, generator=torch.Generator().manual_seed(1005))
    kept = signal.clone()
    cases = {
        "a GRU, whose cache is one tensor": (nn.GRU(8, 8, batch_first=True), "right"),
        "a causal mask": (layer_with(past), "right"),
        "no mask beside a cache": (layer_with(lambda i, j: past(i, j) | (i[0] > 0)), "cache"),
        "a window of 5, 4 inputs kept": (layer_with(lambda i, j: past(i, j) & (i - j < 5), keep=4), "right"),
        "a window of 5, 3 inputs kept": (layer_with(lambda i, j: past(i, j) & (i - j < 5), keep=3), "cache"),
        "past inputs left out in a piece of 3": (
            layer_with(lambda i, j: past(i, j) & ((len(i) != 3) | (j >= i[0]))),
            "cache",
        ),
        "queries one too far in the piece that starts at position 7": (
            layer_with(past, query_at=lambda seen, new: seen + (seen == 7)),
            "cache",
        ),
        "every fourth position attends to the next": (layer_with(lambda i, j: j <= i + (i % 4 == 3)), "leaks"),
        "8 ahead, not 1": (layer_with(lambda i, j: past(i, j) | (j == i + 8)), "leaks"),
    }
    for called, (layer, wanted) in cases.items():
        found = fault_of(limited(layer), signal)
        assert torch.equal(signal, kept), f"{called}: got another x after the call, wanted x as it was"
        assert found == wanted, f"{called}: got {found!r}, wanted {wanted!r}"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "fault-of-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(11)
gru, full = nn.GRU(8, 8, batch_first=True), layer_with(past)
pair = layer_with(past), layer_with(lambda i, j: (j <= i) & (i - j < 3), keep=2)


def mean_so_far(x, cache):
    total, count = (0 * x[:, :1], 0) if cache is None else cache["total"]
    sums, seen = total + x.cumsum(1), torch.arange(count + 1, count + x.shape[1] + 1)
    return sums / seen[:, None], {"total": (sums[:, -1:], count + x.shape[1])}


def two_layers(x, cache):
    first, second = (None, None) if cache is None else cache
    y, first = pair[0](x, first)
    z, second = pair[1](x + y, second)
    return x + z, (first, second)


def plus(leak, layer=full):
    """Return a layer whose outputs are changed by what ``leak`` makes of the inputs of one call."""
    return lambda x, cache: (layer(x, cache)[0] + leak(x), layer(x, cache)[1])


def keeping(change, first=True):
    """Return a causal layer that changes the inputs which it keeps, those of the first call where ``first`` is True."""

    def changed(x, cache):
        y, (held, seen) = full(x, cache)
        return y, (change(held) if first or cache is not None else held, seen)

    return changed


def of_block(name, **fields):
    return causal(
        attention_registry.get(name)(
            BlockConfig(**{"d_model": 8, "n_heads": 2, "position": "rope", "max_seq_len": 64} | fields)
        )
    )


def ahead(x, by=1):
    return nn.functional.pad(x, (0, 0, -by, by))  # at each position, the input so many positions later


hidden = {
    "right": {
        "a GRU of other weights": gru,
        "the mean so far": mean_so_far,
        "no mixing at all": lambda x, cache: (x, None),
        "two layers": two_layers,
        "latent attention": of_block("mla", kv_lora_rank=4),
        "attention without positions": of_block("mha", position="none"),
        "a window of 1 that keeps nothing": layer_with(lambda i, j: j == i, keep=0),
        "a leak as small as rounding": plus(lambda x: 1e-5 * ahead(x)),
    },
    "cache": {
        "a GRU that forgets": lambda x, cache: (gru(x)[0], None),
        "the first sample's cache for all": keeping(lambda held: held[:1].expand_as(held)),
        "a small constant on what is kept": keeping(lambda held: held + 0.0005),
        "the cache of the second piece": keeping(lambda held: held.roll(1, 1), first=False),
        "no mask beside half of the inputs": layer_with(lambda i, j: (j <= i) | (i[0] == 5)),
        "one ahead beside a cache": layer_with(lambda i, j: j <= i + (i[0] > 0)),
        "at most 6 inputs kept": layer_with(past, keep=6),
        "a window of 8 that keeps 6": layer_with(lambda i, j: (j <= i) & (i - j < 8), keep=6),
        "every query as at position 0": layer_with(past, query_at=lambda seen, new: 0),
        "queries one too far beside one input": layer_with(past, query_at=lambda seen, new: seen + (seen == 1)),
        "queries one too far beside 3, 7, ... inputs": layer_with(past, 99, lambda seen, new: seen + (seen % 4 == 3)),
        "no cache for 4 and more": layer_with(lambda i, j: (j <= i) & ((len(i) < 4) | (j >= i[0]))),
        "the mask laid at the first key": layer_with(lambda i, j: j - j[0] <= i - i[0]),
    },
    "leaks": {
        "one ahead": layer_with(lambda i, j: j <= i + 1),
        "positions 2, 6, ..., one ahead": layer_with(lambda i, j: j <= i + (i % 4 == 2)),
        "positions 1, 5, ..., one ahead": layer_with(lambda i, j: j <= i + (i % 4 == 1)),
        "the first position attends to the ninth": layer_with(lambda i, j: (j <= i) | (i == 0) & (j == 8)),
        "some positions, three ahead": layer_with(lambda i, j: (j <= i) | (i % 4 == 1) & (j == i + 3)),
        "one ahead, and too few kept": layer_with(lambda i, j: (j <= i + 1) & (i - j < 5), keep=2),
        "the mean of all positions taken off": plus(lambda x: -x.mean(1, keepdim=True)),
        "the last sample alone": plus(lambda x: torch.cat([0 * x[:-1], ahead(x[-1:])])),
        "one channel, a hundredth": plus(lambda x: 0.01 * ahead(x) * torch.eye(8)[2]),
        "the largest from here on": lambda x, cache: (x.flip(1).cummax(1).values.flip(1), None),
        "no mask": layer_with(lambda i, j: i + j >= 0),
    },
}
probe = torch.randn(3, 10, 8, generator=torch.Generator().manual_seed(1006))
kept = probe.clone()
for truth, called, way in ((truth, *case) for truth, cases in hidden.items() for case in cases.items()):
    found = fault_of(limited(way), probe)
    assert torch.equal(probe, kept), f"{called}: got another x after the call, wanted x as it was"
    assert found == truth, f"{called}: got {found!r}, wanted {truth!r}"
### END HIDDEN TESTS

# %% [markdown]
# ## One vector for key and value
#
# For every position of every text that is being written, all blocks keep a cache, and this memory limits how many
# users a server has room for. So attentions were invented that keep less. With a single head of keys and values for
# all heads of queries, a position costs one key and one value, of head_dim = 32 / 4 = 8 numbers each. One could go
# further and let one vector be both key and value.
#
# Here is how somebody wrote that, with three pieces of the library. `attend` has the softmax, and one head of keys
# may serve all heads of queries there. `position.rotate(vectors, start)` turns queries or keys by their places, the
# first of which is `start`. And `extend` makes a cache longer; a cache is a pair of tensors, of which the second one
# here has no features, since there is nothing more to keep.


# %%
class Handed(AttentionBase):
    """Attention in which one vector for each position is the key and the value of all heads."""

    def __init__(self, config):
        super().__init__(config)
        self.q_proj = nn.Linear(self.d_model, self.d_model)
        self.kv_proj = nn.Linear(self.d_model, self.head_dim)
        self.o_proj = nn.Linear(self.d_model, self.d_model)

    def forward(self, x, mask=None, cache=None):
        start = cache_length(cache)
        query = self.position.rotate(split_heads(self.q_proj(x), self.n_heads), start)  # (batch, heads, new, 8)
        shared = self.kv_proj(x)[:, None].expand(-1, self.n_heads, -1, -1)
        cache = extend(cache, shared, shared[..., :0])
        shared, _ = cache
        key = self.position.rotate(shared, start)  # a value is not rotated
        return self.o_proj(self.attend(query, key, shared, mask)), cache


# %%
def numbers_kept(cache):
    """Return how many numbers a cache, tensors (batch, ..., positions, features), holds for each position."""
    return sum(part.numel() for part in cache) / (len(cache[0]) * cache_length(cache))


def measure(attention):
    x = torch.randn(2, 12, 32)
    try:
        found = fault_of(causal(attention), x)
    except NotImplementedError:
        found = "(this needs exercise 1)"
    _, cache = attention(x)
    print(f"{type(attention).__name__:15} keeps {numbers_kept(cache):.0f} numbers for a position, fault_of: {found}")


one_head = BlockConfig(**vars(config) | {"n_kv_heads": 1})
for attention in (mha, attention_registry.get("gqa")(one_head), Handed(config)):
    measure(attention)

# %% [markdown]
# The attention of lesson 10 keeps 64 numbers, and one head of keys and values (`GQA`) 16. The new one should keep 8.
# Called on all of x at once, without a cache, it returns what it should, and that is all that a training loss sees.
#
# ### Exercise 2 · Mend it (13 minutes)
#
# There are two faults, one in what is cached, one in how keys are rotated. A cache is a tuple of tensors (batch, …,
# positions, features). Write `forward` so that it holds **8 numbers for each position** (head_dim, for other sizes),
# and so that the outputs of all pieces together are those of the whole, to 1e-5, however x is cut. Without a cache the
# output must stay what it is, and the mask is passed on to `attend`. Call `measure(SharedAttention(config))` after each change.
#
# <details><summary>Hint 1</summary>What does <code>expand</code> add to the shared vector? And does
# <code>attend</code> need it?</details>
# <details><summary>Hint 2</summary>Write down start, and the places of all queries and keys, when two positions are
# cached and three come. At which place does the first key of the cache stand?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "shared-attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SharedAttention(Handed):
    def forward(self, x, mask=None, cache=None):
        ### BEGIN SOLUTION
        start = cache_length(cache)
        query = self.position.rotate(split_heads(self.q_proj(x), self.n_heads), start)
        shared = self.kv_proj(x)[:, None]
        cache = extend(cache, shared, shared[..., :0])
        shared, _ = cache
        key = self.position.rotate(shared, 0)
        return self.o_proj(self.attend(query, key, shared, mask)), cache
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "shared-attention-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
def with_twin(kind, **fields):
    """Return an attention of this kind, and the library's with one head of keys and values, of the same weights."""
    sizes = BlockConfig(**vars(config) | {"n_kv_heads": 1} | fields)
    mine, twin = kind(sizes).double(), attention_registry.get("gqa")(sizes).double()
    weights = mine.state_dict()
    for name in [name for name in weights if name.startswith("kv_proj")]:
        weights |= dict.fromkeys([name[1:], "k" + name[2:]], weights.pop(name))  # v_proj and k_proj
    twin.load_state_dict(weights)
    return mine, twin


with attempt("SharedAttention"):
    mine, twin = with_twin(SharedAttention)
    x = torch.randn(3, 9, 32, dtype=torch.float64)
    found, cache = mine(x)
    assert isinstance(cache, tuple), f"the cache: got a {type(cache).__name__}, wanted a tuple of tensors"
    close(found, twin(x)[0], "the output without a mask and a cache")
    whole, _ = causal(twin)(x, None)
    for lengths in ([9], [1] * 9, [4, 5], [2, 3, 4]):
        found, cache = in_pieces(causal(mine), x, lengths)
        close(found, whole, f"the output with a causal mask in pieces of {lengths}", rtol=1e-5)
        assert numbers_kept(cache) == 8, f"numbers kept for each position: got {numbers_kept(cache)}, wanted 8"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "shared-attention-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
for fields in (
    {"rope_theta": 10},
    {"position": "alibi", "d_model": 24, "n_heads": 3},
    {"position": "none", "n_heads": 1},
    {"n_heads": 8},
):
    mine, twin = with_twin(SharedAttention, **fields)
    x = torch.randn(3, 11, mine.d_model, dtype=torch.float64)
    whole, _ = causal(twin)(x, None)
    for lengths in ([11], [1] * 11, [1, 10], [10, 1], [3, 4, 4], [5, 1, 5]):
        outputs, kept = in_pieces(causal(mine), x, lengths)
        close(outputs, whole, f"the output in pieces of {lengths} with {fields}", rtol=1e-8)
        assert cache_length(kept) == 11, f"positions in the cache: got {cache_length(kept)}, wanted 11"
        count = numbers_kept(kept)
        assert count == mine.head_dim, f"numbers kept with {fields}: got {count}, wanted {mine.head_dim}"

mine, twin = with_twin(SharedAttention)
x = torch.randn(2, 7, 32, dtype=torch.float64)
some, added = torch.eye(7).bool() | (torch.rand(2, 7, 7) < 0.6), torch.randn(2, 4, 7, 7, dtype=torch.float64)
for called, mask in (("no mask", None), ("a mask for each sample", some), ("numbers as a mask", added)):
    with unchanged(x=x, mask=mask, attention=mine):
        close(mine(x, mask)[0], twin(x, mask)[0], f"the output with {called}")

# gradients: kv_proj receives what the twin's two matrices receive together, through the cache as well
for one in (mine, twin):
    one.zero_grad()
    in_pieces(causal(one), x, [3, 4])[0].square().sum().backward()
grads = {name: weight.grad for name, weight in twin.named_parameters()}
for name, weight in mine.named_parameters():
    wanted = sum(grads[name.replace("kv_", kind)] for kind in (("k_", "v_") if "kv_" in name else ("kv_",)))
    assert weight.grad is not None, f"the gradient of {name}: got none, wanted one"
    close(weight.grad, wanted, f"the gradient of {name}", rtol=1e-8)

# one beginning with two continuations, and between them another text: each has the cache that it is handed
texts = torch.randn(3, 1, 8, 32, dtype=torch.float64)
texts[1, :, :5] = texts[0, :, :5]
starts = [in_pieces(causal(mine), texts[number, :, :5], [2, 3])[1] for number in (0, 2)]
with unchanged(caches=starts):
    for number, start in ((0, starts[0]), (2, starts[1]), (1, starts[0])):
        found, _ = causal(mine)(texts[number, :, 5:], start)
        whole, _ = causal(mine)(texts[number], None)
        close(found, whole[:, 5:], "the continuation of a beginning whose cache is used twice", rtol=1e-8)
### END HIDDEN TESTS

# %%
with suppress(NotImplementedError):  # prints as soon as exercise 2 is written
    measure(SharedAttention(config))

# %% [markdown]
# With a cache, queries and keys no longer begin at the same place, and a rotation must be told where each of them
# stands; [published code](https://github.com/pytorch/executorch/pull/2010) has been mended at just this point. Training
# uses no cache, so no loss shows it. Compare the whole with pieces of every size, and count what is kept.
