# %% [markdown]
# # Homework for lesson 10 · An attention of your own
#
# 60 minutes. It needs lesson 10. What else it uses of the library is worked through below.
#
# By the end you can
#
# - **register** an attention of your own, with a cache that keeps no more than it needs;
# - **test** a causal layer for a mask that leaks and for a cache that is wrong.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import AttentionBase, BlockConfig, ConfigurableBlock, LanguageModel, ModelConfig
from residual_edu import attention_mask, attention_registry, cache_length, extend
from residual_course.exercises import attempt
from residual_course.checking.properties import close
from residual_course.checking.unchanged import unchanged
from residual_course.lesson import setup
from residual_edu.parts.attention import split_heads

device = setup()

# %% [markdown]
# ## A name of your own
#
# A registry holds classes by name. A class that is registered in a notebook can be named in a config at once; it is
# built from the config alone. Here is the usual attention, in the library's words. `AttentionBase` sets
# `d_model`, `n_heads`, `head_dim` and `position` from the config, and it has `attend`: softmax of the scores, times the
# values, all heads joined again. A block calls it with x, (batch, positions, d_model), with a mask, True where a query may
# see a key, and with the cache that its last call returned, None at first.


# %%
@attention_registry.register("plain")
class PlainAttention(AttentionBase):
    def __init__(self, config: BlockConfig):
        super().__init__(config)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(self.d_model, self.d_model) for _ in range(4))

    def forward(self, x, mask=None, cache=None):
        start = cache_length(cache)  # how many positions are kept; 0 for None
        q, k, v = (split_heads(each(x), self.n_heads) for each in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.position.rotate(q, start), self.position.rotate(k, start)  # (batch, heads, positions, head_dim)
        k, v = cache = extend(cache, k, v)  # a pair, longer by the new positions, on the last axis but one
        return self.o_proj(self.attend(q, k, v, mask)), cache


sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "max_seq_len": 64, "position": "rope"}
plain, mha = (ConfigurableBlock(BlockConfig(attention=name, **sizes)) for name in ("plain", "mha"))
mha.load_state_dict(plain.state_dict())
x = torch.randn(2, 6, 32)
print("as the library's mha:", torch.allclose(plain(x)[0], mha(x)[0], atol=1e-6))

# %% [markdown]
# `PlainAttention` keeps a key and a value for each head. `gqa` with one head of keys and values is multi-query
# attention: it keeps one key and one value for all heads. A head has 32 / 4 = 8 features. The numbers kept for each
# position of one sample, counted in the caches that the blocks return:


# %%
def numbers_kept(kept):
    """Return how many numbers a block's cache, tensors (batch, ..., positions, features), holds for a position."""
    return sum(part.numel() for part in kept) / (len(kept[0]) * cache_length(kept))


def causal(block):
    """Return a layer (x, cache) -> (outputs, cache), which calls the block with a causal mask.

    attention_mask(queries, keys, causal=True) is that of queries which are the last of the keys' positions.
    """

    def layer(x, cache):
        return block(x, attention_mask(x.shape[1], cache_length(cache) + x.shape[1], causal=True), cache)

    return layer


def in_pieces(layer, x, lengths):
    """Call the layer on pieces of x of these lengths, each with the cache of those before; return outputs and cache."""
    outputs, kept = [], None
    for piece in x.split(lengths, dim=1):
        y, kept = layer(piece, kept)
        outputs.append(y)
    return torch.cat(outputs, dim=1), kept


for name, fields in {"plain": {}, "gqa, 2 heads": {"n_kv_heads": 2}, "gqa, 1 head": {"n_kv_heads": 1}}.items():
    block = ConfigurableBlock(BlockConfig(attention=name.partition(",")[0], **sizes, **fields))
    _, kept = in_pieces(causal(block), torch.randn(2, 6, 32), [3, 1, 2])
    print(f"{name:13} {numbers_kept(kept):.0f} numbers for each position")

# %% [markdown]
# Go one step further: one vector is both the key and the value of its position, for all heads. It has 8 numbers.
#
# ### Exercise 1 · 25 minutes · ●●●●○
#
# Write `add_shared_attention(registry)`, which registers under the name "shared" a class of such an attention. The
# class is built from a config and is a subclass of `AttentionBase`. `self.attend(query, key, value, mask)` also takes a
# key and a value of one head, (batch, 1, positions, head_dim), which all heads of the query then share.
#
# - It has three `nn.Linear`, with a bias where `config.bias` is True: `q_proj` and `o_proj` from d_model to d_model, and
#   `kv_proj` from d_model to head_dim.
# - `forward(x, mask=None, cache=None)` returns the output and the cache. The mask is passed on to `attend`.
# - `self.position.rotate(vectors, start)` is applied to queries and keys; `start` is the position of the first of these
#   vectors.
# - The cache is a pair of tensors, (..., positions, features), and holds **head_dim numbers for each position**, no
#   more. `extend(cache, first, second)` wants two tensors. Here there is one, so give it a second of 0 features:
#   `shared[..., :0]`. Whatever the pieces, the outputs are those of the whole, to 1e-5.
#
# <details><summary>Hint 1</summary>A rotated key is not its value. From which of the two, kept for a position, can you
# make both with <code>rotate</code>, and when? At which position do all keys begin, and at which the
# new queries?</details>
# <details><summary>Hint 2</summary><code>[:, None]</code> gives the shared vector, (batch, positions, head_dim), an axis
# for its one head. Read <code>cache_length(cache)</code> before you extend it.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "shared-attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def add_shared_attention(registry):
    """Register "shared": an attention in which one vector for each position is key and value of all heads."""

    ### BEGIN SOLUTION
    @registry.register("shared")
    class SharedAttention(AttentionBase):
        def __init__(self, config):
            super().__init__(config)
            self.q_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
            self.kv_proj = nn.Linear(self.d_model, self.head_dim, bias=config.bias)
            self.o_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)

        def forward(self, x, mask=None, cache=None):
            start, shared = cache_length(cache), self.kv_proj(x)[:, None]
            shared, _ = cache = extend(cache, shared, shared[..., :0])
            query = self.position.rotate(split_heads(self.q_proj(x), self.n_heads), start)
            key = self.position.rotate(shared, 0)
            return self.o_proj(self.attend(query, key, shared, mask)), cache

    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "shared-attention-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
def shared_and_twin(add, **fields):
    """Return a block named "shared", and multi-query attention whose key and value have the same weights."""
    attention_registry.entries.pop("shared", None)
    add(attention_registry)
    block = ConfigurableBlock(BlockConfig(**{**sizes, "attention": "shared", **fields})).double()
    weights = block.state_dict()
    shared = {name: weights.pop(name) for name in list(weights) if ".kv_proj." in name}
    weights |= {name.replace("kv_", kind): one for name, one in shared.items() for kind in ("k_", "v_")}
    twin = ConfigurableBlock(replace(block.config, attention="gqa", n_kv_heads=1)).double()
    names = sorted(set(weights) ^ set(twin.state_dict()))
    assert not names, f"weights of one alone, with kv_proj as k_proj and v_proj: got {names}, wanted none"
    twin.load_state_dict(weights)
    found = block.attention(torch.zeros(3, 4, block.config.d_model, dtype=torch.float64))
    kept = found[1] if isinstance(found, tuple) and len(found) == 2 else found
    assert isinstance(kept, tuple) and len(kept) == 2, f"the cache: got {type(kept).__name__}, wanted a pair of tensors"
    return block, twin


with attempt("add_shared_attention"):
    for bias in (True, False):
        mine, twin = shared_and_twin(add_shared_attention, bias=bias)
        x = torch.randn(3, 9, 32, dtype=torch.float64)
        close(mine(x)[0], twin(x)[0], "the output without a mask, beside gqa with the same weights,")
        whole, kept = in_pieces(causal(mine), x, [9])
        close(whole, in_pieces(causal(twin), x, [9])[0], "the output with a causal mask, beside gqa,")
        assert numbers_kept(kept) == 8, f"numbers kept for each position: got {numbers_kept(kept)}, wanted 8"
        for lengths in ([1] * 9, [4, 5], [2, 3, 4]):
            close(in_pieces(causal(mine), x, lengths)[0], whole, f"the output in pieces of {lengths}", rtol=1e-5)


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "shared-attention-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
for fields in (
    {"position": "rope", "bias": False},
    {"position": "alibi", "d_model": 24, "n_heads": 3},
    {"position": "none", "n_heads": 1},
    {"position": "sinusoidal", "pre_norm": False, "norm": "rms_norm", "n_heads": 8},
):
    mine, twin = shared_and_twin(add_shared_attention, **fields)
    dims, head = mine.config.d_model, mine.config.head_dim
    x = torch.randn(3, 11, dims, dtype=torch.float64)
    whole, kept = in_pieces(causal(mine), x, [11])
    close(whole, in_pieces(causal(twin), x, [11])[0], f"the output with {fields}")
    assert numbers_kept(kept) == head, f"numbers kept with {fields}: got {numbers_kept(kept)}, wanted {head}"
    assert cache_length(kept) == 11, f"positions in the cache: got {cache_length(kept)}, wanted 11"
    for lengths in ([1] * 11, [1, 10], [10, 1], [3, 4, 4], [5, 1, 5]):
        outputs, kept = in_pieces(causal(mine), x, lengths)
        close(outputs, whole, f"the output in pieces of {lengths} with {fields}", rtol=1e-8)
        assert numbers_kept(kept) == head, f"numbers kept after {lengths}: got {numbers_kept(kept)}, wanted {head}"

mine, twin = shared_and_twin(add_shared_attention)
x = torch.randn(2, 7, 32, dtype=torch.float64)
some, added = torch.eye(7).bool() | (torch.rand(2, 7, 7) < 0.6), torch.randn(2, 4, 7, 7, dtype=torch.float64)
for called, mask in (("no mask", None), ("a mask for each sample", some), ("numbers as a mask", added)):
    close(mine(x, mask)[0], twin(x, mask)[0], f"the output with {called}")

# gradients: kv_proj receives what the twin's two matrices receive together, through the cache as well
for block in (mine, twin):
    block.zero_grad()
    in_pieces(causal(block), x, [3, 4])[0].square().sum().backward()
grads = {name: one.grad for name, one in twin.named_parameters()}
for name, one in mine.named_parameters():
    sources = [name.replace("kv_", kind) for kind in ("k_", "v_")] if ".kv_proj." in name else [name]
    assert one.grad is not None, f"the gradient of {name}: got none, wanted one"
    close(one.grad, sum(grads[source] for source in sources), f"the gradient of {name}", rtol=1e-8)

# one beginning with two continuations, and between them another text: each has the cache that it is handed
mine, _ = shared_and_twin(add_shared_attention)
texts = torch.randn(3, 1, 8, 32, dtype=torch.float64)
texts[1, :, :5] = texts[0, :, :5]
starts = [in_pieces(causal(mine), texts[number, :, :5], [2, 3])[1] for number in (0, 2)]
with unchanged(caches=starts):
    for number, start in ((0, starts[0]), (2, starts[1]), (1, starts[0])):
        found, _ = causal(mine)(texts[number, :, 5:], start)
        whole, _ = causal(mine)(texts[number], None)
        close(found, whole[:, 5:], "the continuation of a beginning whose cache is used twice", rtol=1e-8)

# a language model in float32: letters that are written with the cache and without
model = LanguageModel(ModelConfig(BlockConfig(**{**sizes, "attention": "shared"}), vocab_size=11, n_layers=2)).eval()
plain = tokens = torch.randint(11, (2, 6))
for _ in range(12):
    plain = torch.cat([plain, model(plain)[0][:, -1:].argmax(-1)], dim=1)
alike = (model.generate(tokens, max_tokens=12, temperature=0.0) == plain).float().mean().item()
assert alike == 1, f"part of the letters that are written alike with the cache and without: got {alike:.2f}, wanted 1"
size = model(tokens)[1].bytes_per_token()
assert size == 64, f"bytes for each token in two blocks: got {size}, wanted 64"
### END HIDDEN TESTS

# %% [markdown]
# ## Right for one position, wrong for four
#
# Neither a wrong cache nor a mask that leaks raises an error. A plausible mistake: "what is cached lies in the past, so a
# call with a cache needs no mask". Here is a layer whose query i attends to key j where `allowed(i, j)` is True; how it
# is made does not matter. Its cache holds the inputs so far, and how many there were. It decodes 12 positions in pieces,
# with the causal mask in every call and then with no mask beside a cache; printed is the largest difference from the
# outputs of the whole.


# %%
def layer_with(allowed, keep=99, query_at=lambda seen, new: seen):
    """Return a layer (x, cache) -> (outputs, cache); it keeps ``keep`` inputs, and rotates queries from query_at on."""
    head = attention_registry.get("mha")(BlockConfig(**{**sizes, "d_model": 8, "n_heads": 1, "rope_theta": 10}))

    def layer(x, cache):
        old, seen = (x[:, :0], 0) if cache is None else cache
        held, new, first = torch.cat([old, x], dim=1), x.shape[1], seen - old.shape[1]
        mask = allowed(torch.arange(seen, seen + new)[:, None], torch.arange(first, seen + new))
        query = head.position.rotate(2 * head.q_proj(x)[:, None], query_at(seen, new))
        key, value = head.position.rotate(2 * head.k_proj(held)[:, None], first), head.v_proj(held)[:, None]
        return head.attend(query, key, value, mask), (held[:, max(held.shape[1] - keep, 0) :], seen + new)

    return layer


signal = torch.randn(2, 12, 8, generator=torch.Generator().manual_seed(1))
rules = {"mask in every call": lambda i, j: j <= i, "no mask beside a cache": lambda i, j: (j <= i) | (i[0] > 0)}
for called, rule in rules.items():
    torch.manual_seed(0)
    layer = layer_with(rule)
    whole, _ = layer(signal, None)
    gaps = [(in_pieces(layer, signal, lengths)[0] - whole).abs().max().item() for lengths in ([1] * 12, [4] * 3)]
    print(f"{called:23} one at a time: {gaps[0]:.3f}, pieces of 4: {gaps[1]:.3f}")
# %% [markdown]
# Decoded one position at a time, the mistake does not show.
#
# ### Exercise 2 · 20 minutes · ●●●●○
#
# `layer(x, cache)` takes a tensor (batch, positions, channels) and what an earlier call returned, None at first. It
# returns outputs of the same shape and a new cache, which may be of any kind: hand it on as it is. The layer should be
# causal. Return in one word what you find:
#
# - "leaks": called with all of x and None, an output depends on x at a **later** position;
# - "cache": it does not leak, but called on some pieces of x, one after another, its outputs differ from those of all of
#   x at once;
# - "right": neither.
#
# A difference of at most 1e-4 is rounding. x has at most 16 positions, and you may call the layer 500 times: on x, on
# parts of it, or on other numbers of its shape. Leave x as it is (`x.clone()` is a copy).
#
# <details><summary>Hint 1</summary>A leak may reach one position ahead or many, and from some positions only. Keep the
# first n positions, change all others: which outputs must stay? For which n do you do it?</details>
# <details><summary>Hint 2</summary>Some faults show in the third piece and not in the second, some only in a piece of
# several positions, some only when the cache is longer than a window. Which of these does [1, 1, 1, ...] show, and
# which [2, 2, 2, ...], [3, 3, 3, ...] and so on? These are enough for the layers here.</details>


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


with attempt("fault_of"):
    torch.manual_seed(10)
    cases = {
        "a GRU, whose cache is one tensor": (nn.GRU(8, 8, batch_first=True), "right"),
        "a window of 5, 4 inputs kept": (layer_with(lambda i, j: (j <= i) & (i - j < 5), keep=4), "right"),
        "a window of 5, 3 inputs kept": (layer_with(lambda i, j: (j <= i) & (i - j < 5), keep=3), "cache"),
        "no mask beside 5 inputs": (layer_with(lambda i, j: (j <= i) | (i[0] == 5)), "cache"),
        "queries rotated from the smaller of both counts": (layer_with(rules["mask in every call"], 99, min), "cache"),
        "queries one too far in a piece from 7 on": (
            layer_with(rules["mask in every call"], 99, lambda seen, new: seen + (seen == 7)),
            "cache",
        ),
        "every fourth position attends to the next": (layer_with(lambda i, j: j <= i + (i % 4 == 3)), "leaks"),
        "8 ahead, not 1": (layer_with(lambda i, j: (j <= i) | (j == i + 8)), "leaks"),
    }
    for called, (layer, wanted) in cases.items():
        with unchanged(x=signal):
            found = fault_of(limited(layer), signal)
        assert found == wanted, f"{called}: got {found!r}, wanted {wanted!r}"


# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "fault-of-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(11)
past, gru, full = rules["mask in every call"], nn.GRU(8, 8, batch_first=True), layer_with(rules["mask in every call"])
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
    return causal(attention_registry.get(name)(BlockConfig(**{**sizes, "d_model": 8, "n_heads": 2, **fields})))


def ahead(x, by=1):
    return F.pad(x, (0, 0, -by, by))  # at each position, the input so many positions later


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
        "a small constant on what is kept": keeping(lambda held: held + 0.003),
        "the cache of the second piece": keeping(lambda held: held.roll(1, 1), first=False),
        "no mask beside half of the inputs": layer_with(lambda i, j: (j <= i) | (i[0] == 5)),
        "one ahead beside a cache": layer_with(lambda i, j: j <= i + (i[0] > 0)),
        "at most 6 inputs kept": layer_with(past, keep=6),
        "a window of 8 that keeps 6": layer_with(lambda i, j: (j <= i) & (i - j < 8), keep=6),
        "every query as at position 0": layer_with(past, query_at=lambda seen, new: 0),
        "queries one too far": layer_with(past, query_at=lambda seen, new: seen + (seen > 0)),
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
probe = torch.randn(3, 10, 8, generator=torch.Generator().manual_seed(12))
for truth, called, way in ((truth, *case) for truth, cases in hidden.items() for case in cases.items()):
    with unchanged(x=probe):
        found = fault_of(limited(way), probe)
    assert found == truth, f"{called}: got {found!r}, wanted {truth!r}"
### END HIDDEN TESTS

# %% [markdown]
# Now both together: your test on your attention, beside multi-query attention.

# %%
try:
    attention_registry.entries.pop("shared", None)
    add_shared_attention(attention_registry)
    multi_query = BlockConfig(attention="gqa", n_kv_heads=1, bias=False, **sizes)
    for config in (multi_query, replace(multi_query, attention="shared")):
        block, x = ConfigurableBlock(config), torch.randn(2, 12, 32)
        found, (_, kept) = fault_of(causal(block), x), block(x)
        print(f"{config.attention:6} {4 * numbers_kept(kept):.0f} bytes for each position, fault_of returns {found!r}")
except NotImplementedError:
    print("This cell needs both exercises.")

# %% [markdown]
# Whether a smaller cache costs something in the loss is asked in an
# [investigation](../investigations/10_what_gqa_and_mla_keep.ipynb).
#
# | what you used | where it holds |
# |---|---|
# | a name in a registry stands for a class that is built from the config alone | any file or cell that is run before the config is made |
# | keep what both key and value can be made from; rotate when they are read | the key is a function of what is kept and of its position |
# | a layer is right if no output depends on a later position, and all pieces give what the whole gives | as far as the pieces that were tried reach: one position at a time needs no mask, so it tests none |
