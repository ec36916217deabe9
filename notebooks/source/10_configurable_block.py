# %% [markdown]
# # 10 · A small GPT
#
# 75 minutes. You need the norm ([lesson 02](02_layer_norm.ipynb)), the residual connection
# ([00](00_residual_connection.ipynb)) and attention ([08a](08a_attention.ipynb)); each is
# recalled in a line or two. The lesson before is [09](09_vit5_block.ipynb).
#
# A GPT reads a text and guesses its next character. You write its loss, its block and its mask,
# train it for half a minute, let it write, and mend a cache that is wrong although the
# training loss cannot see it. Here is the whole model, with a shape at every arrow.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import python_prose
from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, stored_runs, summary

device = setup()
progress("10")

# %% whole-model tags=["figure"] jupyter={"source_hidden": true}
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from residual_course.plots.along_depth import along_depth
from residual_course.plots.style import BRANCH, DROPPED, REFERENCE, STREAM, A, B

ax = Figure(figsize=(6, 4.1)).add_subplot()
ax.set(xlim=(0, 8), ylim=(0, 5.5))
ax.axis("off")


def box(x, y, words, ink, width):
    shape = FancyBboxPatch(
        (x - width / 2, y - 0.31),
        width,
        0.62,
        boxstyle="round,pad=0,rounding_size=0.08",
    )
    shape.set(facecolor="white", edgecolor=ink, linewidth=1.4, zorder=3)
    ax.add_patch(shape)
    ax.text(x, y, words, ha="center", va="center", color=ink, zorder=4, size=10)


def arrow(start, end, ink=REFERENCE):
    how = {
        "arrowstyle": "-|>",
        "color": ink,
        "linewidth": 1.4,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    ax.annotate("", end, start, arrowprops=how, zorder=2)


ax.text(0.05, 4.7, "tokens\n'If the…'", va="center", size=10)
end = 0.95
for x, words, ink, width in (
    (1.75, "embed +\nposition", A, 1.05),
    (3.15, "block", STREAM, 0.9),
    (4.45, "block", STREAM, 0.9),
    (5.65, "norm", REFERENCE, 0.7),
    (6.75, "head", A, 0.75),
):
    arrow((end, 4.7), (x - width / 2, 4.7), STREAM if end > 1 else REFERENCE)
    box(x, 4.7, words, ink, width)
    end = x + width / 2
arrow((end, 4.7), (7.5, 4.7))
ax.text(7.55, 4.7, "scores", va="center", size=10)
for x, words in (
    (0.5, "16 × 64"),
    (2.5, "16 × 64 × 64"),
    (4.95, "the same shape all the way"),
    (7.2, "16 × 64 × 103"),
):
    ax.text(x, 5.28, words, ha="center", color=DROPPED, size=9)
for x, corner in ((2.7, 0.15), (3.6, 7.85)):
    ax.plot([x, corner], [4.38, 3.55], color=STREAM, linewidth=0.8, linestyle=":")
inside = FancyBboxPatch(
    (0.15, 0.1), 7.7, 3.45, boxstyle="round,pad=0,rounding_size=0.1"
)
inside.set(facecolor="#F3F7FB", edgecolor="none", zorder=0)
ax.add_patch(inside)
ax.text(0.35, 3.25, "inside a block", color=STREAM, weight="bold", size=10)
arrow((0.35, 2.55), (7.75, 2.55), STREAM)
for left, norm, f, note in (
    (0.8, "attn_norm", "attention", "looks at earlier positions"),
    (4.35, "ffn_norm", "ffn", "works on each position alone"),
):
    ax.plot([left, left], [2.55, 1.35], color=BRANCH, linewidth=1.4)
    arrow((left, 1.35), (left + 0.25, 1.35), BRANCH)
    box(left + 0.8, 1.35, norm, BRANCH, 1.15)
    arrow((left + 1.35, 1.35), (left + 1.55, 1.35), BRANCH)
    box(left + 2.1, 1.35, f, BRANCH, 1.1)
    ax.plot([left + 2.65, left + 2.85], [1.35, 1.35], color=BRANCH, linewidth=1.4)
    arrow((left + 2.85, 1.35), (left + 2.85, 2.41), BRANCH)
    ax.add_patch(
        Circle((left + 2.85, 2.55), 0.15, facecolor="white", edgecolor=STREAM, zorder=3)
    )
    ax.text(left + 2.85, 2.54, "+", ha="center", va="center", color=STREAM, zorder=4)
    ax.text(left + 1.4, 0.6, note, ha="center", size=9.5, color=BRANCH)
show(ax.figure)

# %% [markdown]
# These are the sizes of our training: 16 rows of 64 characters, and 64 numbers for each of them.
# A block returns the shape that it takes, so any number of blocks can be stacked.
#
# ## 1 · What goes wrong without it?
#
# Our text is the prose of Python's own documentation. Each different character gets a number,
# its **token**. (GPT-2 gives tokens to 50,257 pieces of words. Characters make longer rows of
# the same text, but a small table.) The last tenth of the text is kept for testing.

# %% tokens
text = python_prose()
chars = sorted(set(text))
number = {char: i for i, char in enumerate(chars)}
data = torch.tensor([number[char] for char in text], device=device)
train_data, test_data = data[: 9 * len(data) // 10], data[9 * len(data) // 10 :]
print(f"{len(text):,} characters, {len(chars)} different ones")
print(repr(text[:8]), "->", data[:8].tolist())

# %% [markdown]
# A **language model** gives every character a score for being the next one. The simplest model
# looks at a single character. A table (`nn.Embedding`) holds 64 learned numbers for each
# character, and a linear layer turns them into 103 scores.


# %%
class LastCharacter(nn.Module):
    def __init__(self, vocab_size, d_model=64):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):  # (batch, positions) to (batch, positions, vocab_size)
        return self.head(self.embed(tokens))


# %% [markdown]
# For training, the right answers are the row itself, moved by one. So a row of five characters
# holds four exercises, and the model answers them all in one pass:

# %% four-exercises
row = data[:5]
for i in range(4):
    before = "".join(chars[token] for token in row[: i + 1])
    print(f"position {i}: after {before!r:7} comes {chars[row[i + 1]]!r}")

# %% [markdown]
# ### Exercise 1 · The loss (5 minutes)
#
# `rows` has n + 1 tokens a row. Return the loss at each of the n positions: the cross-entropy of
# the scores there with the token that comes next, averaged over the rows. Call the model once.
#
# <details><summary>Hint 1</summary>Which tokens does the model receive, and which are the right
# answers? Both have n positions.</details>
# <details><summary>Hint 2</summary><code>F.cross_entropy</code> wants the classes on axis 1
# (<code>.mT</code> exchanges the last two axes), and <code>reduction="none"</code> keeps rows
# and positions.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "losses", "locked": false, "schema_version": 3, "solution": true, "task": false}
def losses(model, rows):
    """Return the loss at each position, (n,), of rows, (batch, n + 1)."""
    ### BEGIN SOLUTION
    scores = model(rows[:, :-1])
    return F.cross_entropy(scores.mT, rows[:, 1:], reduction="none").mean(dim=0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "losses-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(losses, "losses_by_position")

# %% [markdown]
# A cross-entropy is −log p, where p is the probability that the model gave to the character that
# really came. The training step is the usual one, with your loss in it.


# %%
def some_rows(generator):  # 16 rows of 65 characters, from anywhere in the text
    start = torch.randint(len(train_data) - 64, (16, 1), generator=generator)
    return train_data[(start + torch.arange(65)).to(device)]


def learn(model, steps=600, note=None, watch=()):
    generator, curve, notes = torch.Generator().manual_seed(0), [], {}
    adam = torch.optim.Adam(model.parameters(), lr=0.004, fused=True)
    for step in range(steps + 1):
        if step in watch:
            notes[step] = note(model)
        loss = losses(model, some_rows(generator)).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        curve.append(loss.item())
    return curve, notes


# %% [markdown]
# And a model writes by three moves, repeated: ask for scores, draw the next character, append it.
# (Dividing the scores by 0.7 favours the likely ones a little.)


# %%
@torch.no_grad()
def write(model, start="If the ", length=64):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.tensor([[number[char] for char in start]], device=device)
    while tokens.shape[1] < length:
        p = (model(tokens)[0, -1] / 0.7).softmax(-1)
        new = torch.multinomial(p.cpu(), 1, generator=generator)
        tokens = torch.cat([tokens, new[None].to(device)], dim=1)
    return "".join(chars[token] for token in tokens[0])


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def test_loss(model):
    rows = test_data[: len(test_data) // 65 * 65].view(-1, 65)[:384]
    return torch.stack([losses(model, part) for part in rows.split(64)]).mean().item()


LOOKS = {"last character": (A, "--", (440, 2.62)), "your GPT": (B, "-", (330, 2.12))}


def plot_training(runs, texts, title):
    figure = Figure(figsize=(6, 3.1 + 0.26 * len(texts)))
    ax, below = figure.subplots(2, height_ratios=[2.6, 0.26 * len(texts)])
    ax.axhline(4.635, color=REFERENCE, linewidth=0.6, zorder=0)
    ax.text(598, 4.7, "every character alike: ln 103 = 4.63", ha="right")
    for name, curve in runs.items():
        ink, dash, place = LOOKS[name]
        smooth = [sum(curve[max(0, i - 4) : i + 5]) for i in range(len(curve))]
        counts = [len(curve[max(0, i - 4) : i + 5]) for i in range(len(curve))]
        ax.plot([s / n for s, n in zip(smooth, counts, strict=True)], dash, color=ink)
        ax.text(*place, name, color=ink, weight="bold")
    ax.set(xlabel="training step", ylabel="loss", ylim=(1.5, 5.3), xlim=(0, 600))
    ax.set_title(title)
    below.axis("off")
    for i, (step, line) in enumerate(texts.items()):
        at = {"y": 1 - (i + 0.5) / len(texts), "va": "center", "size": 8.5}
        at["transform"] = below.transAxes
        below.text(-0.1, s=f"step {step}", color=DROPPED, **at)
        line = line.replace("\n", "·").replace("$", r"\$")
        below.text(0.1, s=line, family="monospace", **at)
    return figure


# %% last-character tags=["slow", "trained"]
with predict(
    "Before training, all 103 characters get about the same p. What is the loss?",
    ["about 1", "about 4.6", "about 103"],
):
    torch.manual_seed(0)
    last_model = LastCharacter(len(chars)).to(device)
    last_curve, last_texts = learn(last_model, note=write, watch=(0, 600))
    runs = {"last character": last_curve}
    show(plot_training(runs, last_texts, "One character is not enough"))

# %% [markdown]
# The loss comes down to about 2.5 and stays there; that is p = e⁻²·⁵, one in twelve. The model has
# learned that `h` follows `t`, but not whether that `t` stands in `the` or in `statement`. We need
# a piece by which a position can look at those before it.
#
# ## 2 · What exactly is it?
#
# ### Step 1 · Scores
#
# **Attention**: each position asks with a query q, offers a key k and hands over a value v. Position
# i takes from position j in proportion to exp(qᵢ · kⱼ / √d). Here are three positions with four features.
# So that you can check the numbers, q, k and v are the same here.

# %% scores
q = k = v = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 0], [1, 1, 1, 1]])
scores = q @ k.T / 4**0.5
print(scores)

# %% [markdown]
# Row 2 belongs to the last position: its score with itself is (1 + 1 + 1 + 1) / 2 = 2. The division by
# the root of the number of features keeps scores at a similar size whatever d is: the dot product of
# two rows of d random numbers of size 1 has a size of about √d. But look at row 0: it has a score of 1 with position 2, which comes later.
# In training that position *is* the answer or comes after it, so nobody may look there.
#
# ### Step 2 · The mask
#
# A score of −∞ becomes a weight of exactly 0, since exp(−∞) = 0, and a softmax divides each row by
# its sum.


# %% weights
def causal_weights(scores):
    later = torch.ones_like(scores).triu(1).bool()  # True above the diagonal
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1)


print(causal_weights(scores))

# %% [markdown]
# Position 0 has only itself. Row 1 chooses between the scores 0 and 2, so its weights are 1 and
# e² = 7.39, divided by their sum: 0.12 and 0.88.
#
# ### Step 3 · The mixture
#
# Each position takes the values in these proportions. That is all of **causal attention**.


# %% mixture
def attend(q, k, v):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return causal_weights(scores) @ v


print(attend(q, k, v))

# %% [markdown]
# Row 1 is 0.12 · (1, 0, 1, 0) + 0.88 · (0, 2, 0, 0).
#
# ### Step 4 · Several heads
#
# One set of weights can look for one thing. So the features are cut into **heads**, each with
# weights of its own. Linear layers make q, k and v from x, and another one mixes what the heads found.


# %% heads
class MHA(nn.Module):  # multi-head attention
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.o_proj = nn.Linear(d_model, d_model)

    def heads(self, x):  # q, k and v, each (batch, heads, positions, features)
        three = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return [y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for y in three]

    def merge(self, y):  # back to (batch, positions, d_model)
        return self.o_proj(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        return self.merge(attend(*self.heads(x)))


print(MHA(64, 4).heads(torch.randn(16, 64, 64))[0].shape)

# %% [markdown]
# `attend` works unchanged: `@` and the softmax treat rows and heads one by one.
#
# ### Step 5 · Where am I?
#
# Something is still missing. Suppose the first two of our three positions change places.

# %% swapped
with predict(
    "Positions 0 and 1 change places. The output of position 2",
    ["changes", "stays as it is"],
):
    swapped = q[[1, 0, 2]]
    print(attend(q, q, q)[2], attend(swapped, swapped, swapped)[2])

# %% [markdown]
# So after `on` and after `no`, one layer of attention gives a third character the same output. The remedy is simple: learn 64 numbers for
# each position as well, and add them to those of the character.
#
# ### Exercise 2 · The block (6 minutes)
#
# Attention only moves information between positions. To work on it, each position has a small
# network of its own:


# %%
class FFN(nn.Module):  # feed-forward network
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


# %% [markdown]
# A decoder block joins the two. Each becomes a residual branch, x + f(norm(x)): LayerNorm gives f
# numbers of mean 0 and size 1 at every position, and the sum lets x through. First attention, then
# the feed-forward network on the result. Write `forward`.
#
# <details><summary>Hint</summary>Two lines of the same form. The second starts from the x that
# the first has made.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "decoder-block", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Block(nn.Module):
    def __init__(self, d_model=64, n_heads=4, d_ff=256):
        super().__init__()
        self.attn_norm, self.ffn_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention, self.ffn = MHA(d_model, n_heads), FFN(d_model, d_ff)

    def forward(self, x):
        ### BEGIN SOLUTION
        x = x + self.attention(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "decoder-block-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(Block, "decoder_block")

# %% [markdown]
# ### Step 6 · The model
#
# The rest is the drawing, read from left to right. (The tables start with a std of 1/√64, so that a
# character's 64 numbers have together the length 1.)


# %%
class GPT(nn.Module):
    def __init__(self, vocab_size, d_model=64, n_layers=2, max_seq_len=64):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_seq_len, d_model)
        for table in (self.embed, self.position):
            nn.init.normal_(table.weight, std=d_model**-0.5)
        self.blocks = nn.ModuleList(Block(d_model) for _ in range(n_layers))
        self.final_norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, tokens):  # (batch, positions) to (batch, positions, vocab_size)
        x = self.embed(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x))


# %% [markdown]
# | | this model | GPT-2 small |
# |---|---|---|
# | tokens | 103 characters | 50,257 pieces of words |
# | positions | 64 | 1,024 |
# | numbers for each | 64 | 768 |
# | blocks, heads | 2, 4 | 12, 12 |
# | parameters | 117 thousand | 124 million |
#
# GPT-2 adds dropout, smaller starting values, and one table that is both `embed` and `head`.
#
# ## 3 · Is mine right?
#
# The package builds this block from four names. Your parts have the names of its parts, so its block
# can take over your weights. Then outputs and gradients must agree. (Folded: the package's block and
# language model, word for word.)

# %% jupyter={"source_hidden": true} tags=["promote:configurable/block"]
from functools import partial

from torch import Tensor

from residual_edu.config import build_beside
from residual_edu.configurable import registry
from residual_edu.configurable.cache import Cache, Mask, Stream, cache_length
from residual_edu.configurable.config import BlockConfig
from residual_edu.configurable.position import PositionBase, check_room
from residual_edu.parts import is_bypassed, post_norm_residual, pre_norm_residual
from residual_edu.parts.dropout import Dropout


class ConfigurableBlock(nn.Module):
    """Attention and a feed-forward network, each looked up by its name."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        self.attention = registry.attention_registry.get(config.attention)(config)
        self.ffn = registry.ffn_registry.get(config.ffn)(config)
        norm = partial(registry.norm_registry.get(config.norm), config)
        self.attn_norm = build_beside(self.attention, norm)
        self.ffn_norm = build_beside(self.ffn, norm)
        self.resid_dropout = Dropout(config.dropout)
        shared = getattr(self.attention, "position", None)  # a learner's may have none
        own = registry.position_registry.get(config.position)
        self.position: PositionBase = shared or own(config)

    def forward(
        self, x: Stream, mask: Mask | None = None, cache: Cache | None = None
    ) -> tuple[Stream, Cache]:
        """Return ``x`` with both branches added, and the cache, longer by ``x``."""
        check_room(cache_length(cache), x.shape[-2], self.config.max_seq_len)
        residual = pre_norm_residual if self.config.pre_norm else post_norm_residual
        gates = [self.resid_dropout] if self.training else []
        if is_bypassed(self.attention):
            x, cache = self.attention(x, mask, cache)  # the same x
            return residual(x, self.ffn, self.ffn_norm, gates), cache
        kept: list[Cache] = []
        x = residual(x, self._attend, self.attn_norm, gates, mask, cache, kept)
        return residual(x, self.ffn, self.ffn_norm, gates), kept[0]

    def _attend(
        self, h: Tensor, mask: Mask | None, cache: Cache | None, kept: list[Cache]
    ) -> Tensor:
        """Return attention's output, the branch, alone; ``kept`` receives its cache."""
        h, cache = self.attention(h, mask=mask, cache=cache)
        kept.append(cache)
        return h


# %% jupyter={"source_hidden": true} tags=["promote:networks/language_model"]
from typing import Any, cast

from jaxtyping import Bool, Float, Int
from torch.nn.functional import linear

from residual_edu.configurable import ModelCache, ModelConfig
from residual_edu.configurable.registry import norm_registry
from residual_edu.networks.generation import generate
from residual_edu.networks.language_model import check_cache, check_positions
from residual_edu.networks.padding import check_padding, embed_rows, mask_padding
from residual_edu.parts.attention import attention_mask


class LanguageModel(nn.Module):
    """Returns logits of the next token after each token; ``generate`` writes on."""

    generate = generate

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.block.d_model)
        self.reset_parameters()
        self.dropout = Dropout(config.block.dropout)
        configs = [config.get_block_config(i) for i in range(config.n_layers)]
        blocks = [ConfigurableBlock(each) for each in configs]
        check_positions([type(block.position) for block in blocks])
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = norm_registry.get(config.block.norm)(config.block)
        self.head: nn.Linear | None = None
        if not config.tie_embeddings:
            self.head = nn.Linear(config.block.d_model, config.vocab_size, bias=False)

    def reset_parameters(self) -> None:
        """Start the embedding narrow, so that a tied head's logits are of size 1."""
        nn.init.normal_(self.embed.weight, std=self.config.block.d_model**-0.5)

    def forward(
        self,
        tokens: Int[Tensor, "batch positions"],
        cache: ModelCache | None = None,
        token_mask: Bool[Tensor, "batch keys"] | None = None,
    ) -> tuple[Float[Tensor, "batch positions vocabulary"], ModelCache]:
        """Return the logits after ``tokens``, which continue ``cache``, and a cache."""
        cache = cache or ModelCache(0, (None,) * len(self.blocks))
        start, new = cache.length, tokens.shape[1]
        check_cache(cache, new, self.config.block.max_seq_len)
        x = self.dropout(self.embed(tokens))  # (batch, positions, d_model)
        position = cast(ConfigurableBlock, self.blocks[0]).position
        mask = None  # one new position may attend to all before it
        if token_mask is not None:
            for block in self.blocks:
                check_padding(token_mask, (len(x), start + new), block.attention)
            token_mask = token_mask.to(x.device)
            x, mask = embed_rows(position, x, token_mask), mask_padding(token_mask, new)
        else:
            x = position.embed(x, start)
            if new > 1:
                mask = attention_mask(new, start + new, causal=True, device=x.device)
        kept: list[Any] = []
        for block, before in zip(self.blocks, cache.blocks, strict=True):
            x, after = block(x, mask, before)
            kept.append(after)
        x = self.final_norm(x)
        logits = linear(x, self.embed.weight) if self.head is None else self.head(x)
        return logits, ModelCache(start + new, tuple(kept))


# %% same-numbers
config = BlockConfig(
    attention="mha",
    ffn="standard",
    norm="layer_norm",
    position="none",
    d_model=64,
    n_heads=4,
    d_ff=256,
)
mine, theirs = Block().double(), ConfigurableBlock(config).double()
theirs.load_state_dict(mine.state_dict())
x = torch.randn(2, 10, 64, dtype=torch.float64)
mask = torch.ones(10, 10).tril().bool()  # it wants to be told who may see whom
a, b = mine(x), theirs(x, mask)[0]
(a.square().sum() + b.square().sum()).backward()
right = dict(theirs.named_parameters())
far = max((p.grad - right[n].grad).abs().max() for n, p in mine.named_parameters())
print(f"outputs differ by {(a - b).abs().max():.0e}, gradients by {far:.0e}")

# %% [markdown]
# Your block is the package's. Two more tests need no training: the loss must begin not far from 4.63, and if
# we change one character, here the one at position 40, only the scores at positions 40 to 63 may change.


# %% leak-test tags=["trained"]
def moved(model):  # by another character at position 40
    tokens = test_data[None, :64].clone()
    before = model(tokens)
    tokens[0, 40] = number["z"]
    return (model(tokens) - before).abs().amax(-1)[0].nonzero()[:, 0]


torch.manual_seed(0)
gpt = GPT(len(chars)).to(device)
print(f"{sum(p.numel() for p in gpt.parameters()):,} parameters")
print(f"loss {test_loss(gpt):.2f}")
print("positions that moved:", moved(gpt).min().item(), "to", moved(gpt).max().item())

# %% [markdown]
# ## 4 · What does it do to the gradient?
#
# Each branch is added to x, so the gradient comes back along the sum as it does in lesson 00:
#
# $$x_{l+1} = x_l + f(\mathrm{norm}(x_l)) \qquad\Rightarrow\qquad \frac{\partial x_{l+1}}{\partial x_l} = I + \frac{\partial f(\mathrm{norm}(x_l))}{\partial x_l}$$
#
# Here the sum has a second task. Attention averages over positions. What becomes of the *differences*
# between them in eight blocks? We take the two sums away from a copy of your block and change nothing
# else.


# %%
class NoSum(Block):
    def forward(self, x):
        return self.ffn(self.ffn_norm(self.attention(self.attn_norm(x))))


# %% along-depth
nets = {}
for name, kind in {"x + f(norm(x))": Block, "f(norm(x))": NoSum}.items():
    torch.manual_seed(0)
    deep = GPT(len(chars), n_layers=8)
    deep.blocks = nn.ModuleList(kind() for _ in range(8))
    nets[name] = deep.double(), deep.blocks
rows = test_data[: 8 * 65].view(8, 65).cpu()


def loss_of(scores, answers):
    return F.cross_entropy(scores.mT, answers)


show(along_depth(nets, (rows[:, :-1], rows[:, 1:]), loss_of, over=1))

# %% [markdown]
# The upper panel shows what differs between the positions of a row. Without the sums it falls to
# less than a twentieth in eight blocks, so the positions become nearly alike, while the next
# character depends on where one is. With the sums it even grows. In the lower panels the gradients
# of both stay within a factor of ten, so their sizes alone would not have told us.
#
# ## 5 · Does it help?
#
# We train your GPT exactly as the first model, on the same rows, and let it write on the way.

# %% your-gpt tags=["slow", "trained"]
gpt_curve, gpt_texts = learn(gpt, note=write, watch=(0, 30, 100, 300, 600))
runs["your GPT"] = gpt_curve
show(plot_training(runs, gpt_texts, "With blocks the loss goes on falling"))
print(
    f"new text: {test_loss(last_model):.2f} last character, {test_loss(gpt):.2f} yours"
)

# %% [markdown]
# (The curves are means over nine steps.) From step 60 to about 150 your GPT is hardly better than
# a single character. Then the loss falls again, and at the end there are words in what it writes.
#
# And the mask? We move its diagonal by one, so that each position sees one character further, and
# change nothing else. Half the training is enough to see what comes of it.


# %%
class Leaky(MHA):
    def forward(self, x):
        q, k, v = self.heads(x)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        later = torch.ones_like(scores).triu(2).bool()  # 1 in your mask
        return self.merge(scores.masked_fill(later, -torch.inf).softmax(-1) @ v)


# %% leaky tags=["slow", "trained"]
with predict(
    "Each position sees the character that it should guess. The loss on new text is",
    ["higher than yours", "about the same", "much lower"],
):
    torch.manual_seed(0)
    leaky = GPT(len(chars))
    for block in leaky.blocks:
        block.attention = Leaky(64, 4)
    learn(leaky.to(device), steps=300)
    print(f"new text: {test_loss(gpt):.2f} yours, {test_loss(leaky):.2f} with the leak")
    print(write(leaky))
    print("positions that moved:", moved(leaky).min().item(), "to 63")

# %% [markdown]
# A loss that is too good is the sign of a **leak**, even when the loss is measured on new text.
# The text shows it, since nothing later is there to be seen when one writes, and so does the test of
# section 3: position 38 moved, because each of the two blocks lets one character through. That test
# takes no training.
#
# ### A longer training
#
# The package's model of four blocks with 128 features, made from the same four names but for
# `position="rope"`, was trained on rows of 128 characters for a quarter of an hour (1,750 steps; after
# that its loss on new text rose again). It wrote:

# %% longer
longer = stored_runs("10_configurable_block")["runs"][0]
print(f"{longer['parameters']:,} parameters, loss on new text {longer['loss']:.2f}\n")
for line in longer["text"].split("\n"):
    print(line)

# %% [markdown]
# Most words are real, and there is no sense in it. GPT-2 small has 150 times as many parameters, and
# [its authors](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf)
# trained it on 40 GB of text, where ours is a quarter of a megabyte.
#
# ## 6 · Where do people go wrong?
#
# `write` is wasteful. For each new character it sends all earlier ones through the model again. But
# nothing about them has changed, because the mask lets no position see what comes later. So it is
# enough to keep their keys and values. This is the **KV cache**.


# %%
@torch.no_grad()
def read_one(model, token, cache):  # token: (1, 1); cache: k and v for each block
    length = cache[0][0].shape[2]
    x = model.embed(token) + model.position.weight[length]
    for i, block in enumerate(model.blocks):
        q, k, v = block.attention.heads(block.attn_norm(x))  # of one position
        k = torch.cat([cache[i][0], k], dim=2)
        v = torch.cat([cache[i][1], v], dim=2)
        cache[i] = k, v
        x = x + block.attention.merge(attend(q, k, v))
        x = x + block.ffn(block.ffn_norm(x))
    return model.head(model.final_norm(x))


# %% [markdown]
# A cache must not change the result. So we compare: the scores, read one character at a time, beside
# those of the whole row.


# %% differences tags=["trained"]
@torch.no_grad()
def differences(model, tokens):
    nothing = torch.empty(
        1, 4, 0, 16, device=device
    )  # 4 heads, no position, 16 features
    cache = [(nothing, nothing) for _ in model.blocks]
    parts = [read_one(model, token, cache) for token in tokens.split(1, dim=1)]
    return (torch.cat(parts, dim=1) - model(tokens)).abs().amax(-1)[0]


row = test_data[None, :64]
print(differences(gpt, row)[:5])

# %% [markdown]
# It fails from position 1 on! The loss of section 5 is right and the text is right, because neither
# used the cache. Whoever looks only at the training loss would ship this.
#
# ### Exercise 3 · Measure, then mend (10 minutes)
#
# The fault is in a line that was right when it was written. With a cache there is one query and there
# are many keys: print `causal_weights(torch.zeros(1, 3))` first. What should the three weights be?
#
# Then write a new `attend`, in which q may be shorter than k: its n queries are the *last* n of the m
# positions. (`MHA` and `read_one` will use it, since they look for the name when they run.)
#
# <details><summary>Hint</summary>Query i stands at position m − n + i and may see the keys up to
# there. <code>triu(d)</code> of a matrix of n rows and m columns keeps row i from column i + d
# on.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-attend", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attend(q, k, v):
    """Let each of the n last positions look at all before it."""
    ### BEGIN SOLUTION
    scores = q @ k.mT / q.shape[-1] ** 0.5
    n, m = scores.shape[-2:]
    later = torch.ones_like(scores).triu(1 + m - n).bool()
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1) @ v
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-attend-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(attend, "mended_attend")

# %% mended
print(f"cached against whole: {differences(gpt, row).max():.0e}")

# %% [markdown]
# Your first mask counted from the upper left corner, so a single query saw the first key and nothing
# else. PyTorch's own attention does the same, without an error, if you say `is_causal=True` with a
# cache:

# %% is-causal
q, k, v = torch.randn(3, 1, 4, 8, 16)
fused = F.scaled_dot_product_attention(q[..., -1:, :], k, v, is_causal=True)
print("only the first value:", torch.allclose(fused, v[..., :1, :]))

# %% [markdown]
# What does the cache save? For a row of 64 characters from the first on, `write` sends 1 + 2 + … + 63 =
# 2,016 positions through the model, and `read_one` sends 63. The package's `generate` works like this;
# what it keeps is a pair of tensors for each block. (Folded, word for word.)

# %% jupyter={"source_hidden": true} tags=["promote:configurable/cache"]
from typing import NamedTuple

from residual_edu.errors import InvalidInput, check_size


def extend(cache: Cache | None, first: Tensor, second: Tensor) -> Cache:
    """Return ``cache`` with the positions of ``first`` and ``second`` after its own."""
    if cache is not None:
        both = zip(cache, (first, second), strict=True)  # or it is of another kind
        first, second = (torch.cat(each, dim=-2) for each in both)
    if first.shape[-2] != second.shape[-2]:
        found = f"{first.shape[-2]} and {second.shape[-2]}"
        raise InvalidInput(f"a cache must have as many values as keys, got {found}")
    return first, second


class ModelCache(NamedTuple):
    """What a language model keeps: a number of positions, and each block's cache."""

    length: int
    blocks: tuple[Cache | None, ...]

    def bytes_per_token(self) -> float:
        """Return the bytes for one position of one sample, summed over all blocks."""
        check_size("length", self.length, least=0)
        kept = [tensor for cache in self.blocks for tensor in cache or ()]
        positions = (len(kept[0]) if kept else 1) * max(self.length, 1)
        return sum(tensor.nbytes for tensor in kept) / positions


# %% [markdown]
# ## 7 · What do I keep?
#
# $$x \leftarrow x + \mathrm{attention}(\mathrm{norm}(x)), \qquad x \leftarrow x + \mathrm{ffn}(\mathrm{norm}(x))$$
#
# ```python
# x = embed(tokens) + position[:n]
# for block in blocks:
#     x = x + block.attention(block.attn_norm(x))
#     x = x + block.ffn(block.ffn_norm(x))
# scores = head(final_norm(x))
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>With 103 characters, a new model's loss is 7. Is that fine?</summary>No. Equal
# scores have ln 103 = 4.63, so this model is sure and wrong. Its first scores are too
# large.</details>
#
# <details><summary>Why must later scores be −∞ before the softmax, and not weights 0 after
# it?</summary>Set to 0 afterwards, a row no longer sums to 1: what comes later has already taken its
# share.</details>
#
# <details><summary>Which test finds a mask that lets a position see the next one, and which does
# not?</summary>Changing one character finds it: a position before it moves. The loss does not: it
# falls, on new text as well.</details>
#
# **Next.** To try another part, change one of the four names: `position="rope"`, `norm="rms_norm"`,
# `ffn="gated"`, `attention="gqa"`. Two investigations do this:
# [Why it fails beyond its rows](investigations/10_beyond_its_rows.ipynb), and
# [What GQA and MLA keep](investigations/10_what_gqa_and_mla_keep.ipynb).
# [Homework](homework/hw_10.ipynb) follows; the [glossary](../docs/glossary.md) has all words.

# %%
summary("10")
