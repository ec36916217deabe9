# %% [markdown]
# # 10, appendix · A loss that seems to rise, post-norm, pieces of words, and the library's block
#
# Not needed for [lesson 10](10_configurable_block.ipynb), and not counted in it.

# %%
from dataclasses import replace
from functools import partial

import torch
from matplotlib.figure import Figure
from torch.nn import functional as F

from residual_edu import BlockConfig, LanguageModel, ModelConfig, attention_mask
from residual_course.lesson import holds, predict, setup, show
from residual_course.plots import configurable as plots

device = setup()
SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 256, "max_seq_len": 512}
BASE = BlockConfig(**SIZES, position="rope")

# %% [markdown]
# ## A loss that seems to rise
#
# Two models, RoPE and ALiBi, trained on the raw help texts, 8 rows of 65 characters a step, in the same order. This is what `np.convolve(losses, np.ones(15) / 15, "valid")` draws:


# %% jupyter={"source_hidden": true}
import numpy as np

from residual_course.datasets import python_documentation
from residual_course.training import minibatches, train

text = python_documentation()
alphabet = sorted(set(text))
number = {character: at for at, character in enumerate(alphabet)}
rows = torch.tensor([number[c] for c in text]).unfold(0, 65, 65)
is_test = torch.arange(len(rows)) % 10 == 9
known, new = rows[~is_test].to(device), rows[is_test][:256].to(device)


def loss_of(model, rows):
    return F.cross_entropy(model(rows[:, :-1])[0].mT, rows[:, 1:])


def learned(config, seed=0, order=0, steps=180, rate=0.01):
    torch.manual_seed(seed)
    model = LanguageModel(ModelConfig(config, len(alphabet), 2)).to(device)
    adam = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.95), fused=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, rate, steps, pct_start=0.1)
    batches = minibatches(known, size=8, seed=order)
    return train(partial(loss_of, model), batches, adam, steps, plan)


# %% tags=["figure", "trained"]
both = {name: learned(replace(BASE, position=name)) for name in ("rope", "alibi")}
ax = Figure(figsize=(6, 3.2)).add_subplot()
for name, losses in both.items():
    curve = np.convolve(losses, np.ones(15) / 15, "valid")
    ax.plot(curve, label=name, ls="--" if name == "alibi" else "-")
ax.set(xlabel="step", ylabel="loss", xlim=(60, 166), ylim=(2.1, 2.9))
ax.legend()
ax.set_title("Both losses rise between steps 105 and 130")
alt = (
    "Two losses over the steps, which fall, rise by 0.1 between 105 and 130, and fall "
)
show(ax.figure, alt=alt + "again.")
low, high = (np.mean(both["rope"][part]) for part in (slice(107, 122), slice(130, 145)))
holds(high > low + 0.03, "The loss rises.")

# %% jupyter={"source_hidden": true}
counts = torch.full((len(alphabet),) * 2, 0.1)
pairs = known[:, :-1].cpu(), known[:, 1:].cpu()
counts.index_put_(pairs, torch.ones(1), accumulate=True)
table = (counts / counts.sum(1, keepdim=True)).to(device)
batches = minibatches(known, size=8, seed=0)
drawn = [next(batches)[0] for _ in range(180)]
by_pairs = [-table[row[:, :-1], row[:, 1:]].log().mean().item() for row in drawn]
other = learned(BASE, order=1)
early, late = slice(105, 127), slice(130, 152)

# %% tags=["predict"]
guess = predict(
    "Why do both rise there?",
    ["the rate is too high", "harder text", "the curve is drawn wrong", "two of these"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
ax = Figure(figsize=(6, 3.4)).add_subplot()
plots.plot_losses(both | {"table": by_pairs}, ax)
ax.set(xlim=(60, 200), ylim=(2.1, 2.9))
ax.set_title("The table of pairs rises too, and later")
alt = "The two losses and that of a table of pairs: all three rise at the same steps, "
show(ax.figure, alt=alt + "about 113 to 138.")
rise = {"rope": both["rope"], "table": by_pairs, "rope, another order": other}
rise = {name: np.mean(x[late]) - np.mean(x[early]) for name, x in rise.items()}
print("steps 130 to 151 over 105 to 126:", *(f"{n} {x:+.2f};" for n, x in rise.items()))
harder = rise["table"] > 0.03 and rise["rope"] > rise["rope, another order"] + 0.03
holds(harder, "The table of pairs rises on these batches too.")
guess.reveal(
    "two of these" if harder else "the rate is too high",
    why={
        "the rate is too high": "A table has no rate, and rises too.",
        "harder text": "It is, and these batches come later than the curve says.",
        "the curve is drawn wrong": "It is, by 7 steps; that alone raises nothing.",
        "two of these": "Harder batches, and a curve that stands 7 steps too far left.",
    },
    after="A table of pairs was counted once: it has no steps, and rises on the same "
    "batches. With another order the model does not rise there. And `valid` draws a "
    "mean of the steps 0 to 14 at 0, 7 too far left. Draw the loss minus the table's, "
    "or the loss on new text.",
)

# %% [markdown]
# ## Post-norm at six blocks
#
# In the lesson, post-norm was behind already with two blocks. Here are six, 200 steps at rate 3e-3, on the prose of the lesson. First the gradient flow before training, and after it.


# %% jupyter={"source_hidden": true}
from residual_course.datasets import python_prose

prose = python_prose()
signs = sorted(set(prose))
at_sign = {character: at for at, character in enumerate(signs)}
cut = torch.tensor([at_sign[c] for c in prose]).unfold(0, 2570, 2570)
is_test = torch.arange(len(cut)) % 10 == 9
letters, fresh = cut[~is_test].flatten().to(device), cut[is_test].reshape(-1, 257)
fresh = fresh[:, :65].to(device)


def six(pre_norm, seed=0):
    torch.manual_seed(seed)
    block = replace(BASE, pre_norm=pre_norm)
    return LanguageModel(ModelConfig(block, len(signs), 6)).to(device)


def taught(model, seed=0, steps=200, rate=3e-3, data=letters):
    adam = torch.optim.AdamW(model.parameters(), rate, weight_decay=0, fused=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, rate, steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        start = torch.randint(len(data) - 64, (16, 1), generator=generator)
        adam.zero_grad()
        loss_of(model, data[start + torch.arange(65)]).backward()
        adam.step()
        plan.step()
    return model


# %% jupyter={"source_hidden": true}
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_course.plots.stream import plot_stream


def flow_of(model):
    model.zero_grad()
    with GradientFlowRecorder(model, model.blocks) as flow:
        loss_of(model, fresh[:16]).backward()
    return flow


@torch.no_grad()
def that_differs(model):
    """Return which share of the last stream differs between positions."""
    found = []
    hook = model.blocks[-1].register_forward_hook(lambda m, x, y: found.append(y[0]))
    model(fresh[:16, :-1])
    hook.remove()
    x = found[0]
    return ((x - x.mean((0, 1))).square().mean() / x.square().mean()).item()


# %% tags=["figure", "trained"]
models = {"pre": six(True), "post": six(False)}
before = {name: flow_of(model) for name, model in models.items()}
for model in models.values():
    taught(model)
after = {name: flow_of(model) for name, model in models.items()}
fig = Figure(figsize=(6, 6))
for ax, (norms, flow) in zip(fig.subplots(2), after.items(), strict=True):
    plot_stream(flow, ax, norms=norms).set_title(f"{norms}-norm, after 200 steps")
title = "Post-norm's gradient is lost on its way back"
fig.suptitle(title, x=0.01, ha="left", weight="bold")
alt = "Two pairs of rivers of six blocks after training: with pre-norm the gradient is "
show(fig, alt=alt + "nearly even, with post-norm it shrinks from block to block.")
holds(that_differs(models["post"]) < 0.1, "With post-norm positions are alike.")

# %% tags=["trained"]
ends = {}
for when, flows in (("before", before), ("after", after)):
    for name, flow in flows.items():
        sizes = flow.stream_gradient[0]
        ends[when, name] = (sizes[-1] / sizes[1]).item()
        print(
            f"{when:7} {name:5} gradient after the last block over after the first:",
            end="",
        )
        print(f" {ends[when, name]:,.1f}")
for name, model in models.items():
    with torch.no_grad():
        loss = loss_of(model, fresh).item()
    print(f"{name:5} loss on new text {loss:.2f}; differs between positions", end=" ")
    print(f"{that_differs(model):.4f}")
rare = torch.bincount(letters.cpu(), minlength=len(signs)) + 0.1
rare = rare / rare.sum()
print(f"frequencies of the letters alone: {-rare[fresh[:, 1:].cpu()].log().mean():.2f}")
holds(ends["after", "post"] > 5 and ends["after", "pre"] < 5, "Post-norm loses it.")

# %% [markdown]
# Before training post-norm is the more even of the two: an even gradient at the start promises nothing. After 200 steps its loss is near that of the frequencies of the letters. Hardly anything in its last stream differs between positions, so hardly any of the text can reach the output, and the gradient shrinks on its way back.

# %% [markdown]
# ## Pieces instead of characters
#
# A row of 64 holds more text if its tokens are **pieces** of words. Byte-pair encoding ([Sennrich et al., 2015](https://arxiv.org/abs/1508.07909)) finds them: take the most frequent pair of neighbours, join it everywhere into a new token, and repeat, here 400 times. In `low lower lowest` the first pair is l o, then lo w. The pairs are counted in the training text alone (folded).


# %% jupyter={"source_hidden": true}
import re
from collections import Counter


def joined(pieces, pair):
    out = []
    for piece in pieces:
        if out and (out[-1], piece) == pair:
            out[-1] += piece
        else:
            out.append(piece)
    return out


def learn_pairs(words, merges=400):
    cut, found = {word: list(word) for word in words}, []
    for _ in range(merges):
        pairs = Counter()
        for word, times in words.items():
            for pair in zip(cut[word], cut[word][1:], strict=False):
                pairs[pair] += times
        best = max(pairs, key=pairs.get)
        cut = {w: joined(p, best) if best[0] in p else p for w, p in cut.items()}
        found.append(best)
    return cut, found


# %% jupyter={"source_hidden": true}
WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s+")
parts = [prose[at : at + 2570] for at in range(0, len(prose) - 2569, 2570)]
seen = [part for at, part in enumerate(parts) if at % 10 != 9]
cut_word, joins = learn_pairs(
    Counter(word for part in seen for word in WORD.findall(part))
)
pieces = signs + [first + second for first, second in joins]
at_piece = {piece: at for at, piece in enumerate(pieces)}


def encoded(part):
    found = []
    for word in WORD.findall(part):
        if word not in cut_word:  # a new word, from the pairs in their order
            cut_word[word] = list(word)
            for pair in joins:
                cut_word[word] = joined(cut_word[word], pair)
        found += [at_piece[piece] for piece in cut_word[word]]
    return torch.tensor(found)


train_pieces = torch.cat([encoded(part) for part in seen]).to(device)
print(cut_word[" statement"], cut_word[" definition"], cut_word[" returned"])
print(f"a piece has {len(''.join(seen)) / len(train_pieces):.2f} characters")

# %% [markdown]
# The model: width 96, 6 heads of queries, keys and values, SwiGLU, and for the soup a window of 32 pieces. To count per character, the loss of a row is divided by its characters.

# %%
torch.manual_seed(0)
block = BlockConfig(
    d_model=96, n_heads=6, ffn="gated", d_ff=256, max_seq_len=2048, position="rope",
    attention="sliding_window_gqa", window_size=32,
)  # fmt: skip
writer = LanguageModel(ModelConfig(block, len(pieces), 2)).to(device)
writer = taught(writer, steps=250, rate=6e-3, data=train_pieces)

# %% tags=["trained"] jupyter={"source_hidden": true}
rows = [encoded(part) for at, part in enumerate(parts) if at % 10 == 9]
rows = torch.cat([row[: len(row) // 65 * 65].view(-1, 65) for row in rows])
with torch.no_grad():
    total = 64 * loss_of(writer, rows.to(device)).item() * len(rows)
per_character = total / sum(len(pieces[at]) for at in rows[:, 1:].flatten())
print(f"loss on new text, a character: {per_character:.2f}")
holds(per_character < 1.5, "It has learned its text.")

# %% [markdown]
# Beside the lesson's 1.67 this says nothing about pieces: width, feed-forward network, window, steps and the seconds of training changed with them.
#
# ### Watch it write
#
# Each move of a slider writes 110 pieces anew. **Top-p** cuts off the unlikely: it draws from the fewest pieces that together have the probability p ([Holtzman et al., 2019](https://arxiv.org/abs/1904.09751)). Dots stay. **Find out:** at which temperature are most words real? What happens to the share of *different* words below it? What does top-p 0.9 do at temperature 1?

# %% tags=["explorer"] jupyter={"source_hidden": true}
from residual_course.explorers.configurable import explore_writing

stands = " ".join("".join(seen).split())
real_words = sorted(set(re.findall("[A-Za-z]+", stands)))


def written_by(temperature, top_p, seed, start="The "):
    tokens = encoded(start).to(device)[None]
    row = writer.generate(tokens, 110, temperature=temperature, top_p=top_p, seed=seed)
    return "".join(pieces[at] for at in row[0])


explore_writing(written_by, real_words)

# %% [markdown]
# <details><summary>Answer</summary>At 0.5 about nine words of ten are real; at 0 they repeat. Top-p 0.9 takes back a part of what temperature 1 invents.</details>
#
# For six texts of 120 pieces each, which begin as test rows do: the share of words that the training text has, the share of different words, and of all runs of five words those that stand in the training text, copied or found again.

# %% tags=["trained"] jupyter={"source_hidden": true}
from residual_course.explorers.configurable import shares


def measured_texts(temperature, top_p):
    start = rows[::17][:6, :4].to(device)
    found = writer.generate(start, 120, temperature=temperature, top_p=top_p, seed=0)
    lines = ["".join(pieces[at] for at in row) for row in found]
    both = [shares(line, real_words) for line in lines]
    words = [line.split() for line in lines]
    fives = [" ".join(w[at : at + 5]) for w in words for at in range(len(w) - 4)]
    copied = sum(five in stands for five in fives) / len(fives)
    return *(sum(each) / 6 for each in zip(*both, strict=True)), copied


shares_of = {}
for setting in ((0, 1.0), (0.5, 1.0), (1.0, 1.0), (1.0, 0.9), (1.5, 1.0)):
    shares_of[setting] = measured_texts(*setting)
    told = "real {:.0%}, different {:.0%}, copied {:.0%}".format(*shares_of[setting])
    print(f"temperature {setting[0]}, top-p {setting[1]}: {told}")
holds(shares_of[0.5, 1.0][0] > 0.85 > shares_of[1.5, 1.0][0], "Warmer, fewer are real.")
holds(shares_of[0, 1.0][1] < shares_of[1.0, 1.0][1], "At 0 it repeats itself.")
holds(shares_of[1.0, 1.0][2] < 0.1, "At temperature 1 nearly nothing is copied.")

# %% [markdown]
# ## The registry
#
# The library looks its parts up by name. `register` works as a decorator above a class, or with the class behind the name; `get` refuses a name that is unknown, with the nearest that is known. A first reader may skip the code of `Registry`.


# %% [markdown]
# Every part is built from a `BlockConfig` alone, a frozen page of names and numbers; all its faults are named at once.


# %% tags=["module:configurable/config"]

from residual_edu.configurable.config import BlockConfig


# %% [markdown]
# `ConfigurableBlock` holds no name of an attention, a norm or a network: it can be all of them. An attention returns its output and its cache; a residual wants a map from x to x, so the cache is kept aside.


# %% tags=["module:configurable/block"]

from residual_edu.configurable.block import ConfigurableBlock


# %% [markdown]
# ## The attentions
#
# `AttentionBase` knows sizes and positions, and computes the outputs of all heads. `GQA` adds the maps, and says what is cached: keys, already turned, and values. In `MHA` no head shares. `SlidingWindowGQA` sees the last positions alone. A first reader may skip their code.


# %% tags=["module:configurable/attention"]
from dataclasses import replace
from residual_edu.parts.attention import attention_mask

from residual_edu.configurable.attention import GQA, MHA


# %% [markdown]
# `MLA` caches one small vector for each token, from which the keys and values of all heads are computed again. A turned key cannot be computed from a vector that does not know its position, so a few features, the same for all heads, are turned and cached beside it.


# %% tags=["module:configurable/attention"]
import torch


# %% [markdown]
# With as many key heads as query heads, GQA is MHA, bit for bit; and decode equals prefill for all four:

# %%
torch.manual_seed(0)
every, plain = GQA(replace(BASE, n_kv_heads=4)), MHA(BASE)
plain.load_state_dict(every.state_dict())
x = torch.randn(1, 7, 64)
print("GQA with all heads is MHA:", plain(x)[0].equal(every(x)[0]))
KINDS = {"mha": {}, "gqa": {"n_kv_heads": 2}, "mla": {"kv_lora_rank": 16}}
KINDS["sliding_window_gqa"] = {"window_size": 3}
for name, sizes in KINDS.items():
    block, cache, parts = (
        ConfigurableBlock(replace(BASE, attention=name, **sizes)),
        None,
        [],
    )
    whole, _ = block(x, attention_mask(7, 7, causal=True))
    for token in x.split(1, dim=1):
        y, cache = block(token, None, cache)
        parts.append(y)
    same = torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-5)
    numbers = sum(part.numel() for part in cache) // 7
    print(f"{name:20} decode equals prefill: {same}; {numbers} numbers a token")
