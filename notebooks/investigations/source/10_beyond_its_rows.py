# %% [markdown]
# # Why does it fail beyond its rows?
#
# 40 minutes. It follows [lesson 10](../10_configurable_block.ipynb) and the rotation of queries and
# keys of [lesson 08a](../08a_attention.ipynb). Nobody has to open it.
#
# The GPT of lesson 10 has a table of 64 positions, so it cannot read a 65th character. A model with
# rotary positions has no table and reads on. What comes out?

# %% jupyter={"source_hidden": true}
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import python_prose
from residual_course.lesson import predict, setup, show
from residual_course.plots.style import SERIES

device = setup()
text = python_prose()
alphabet = sorted(set(text))
number = {character: at for at, character in enumerate(alphabet)}
cut = torch.tensor([number[c] for c in text]).unfold(0, 2570, 2570)
is_test = torch.arange(len(cut)) % 10 == 9
known = cut[~is_test].flatten().to(device)
new = cut[is_test].reshape(-1, 257).to(device)

# %% [markdown]
# **Rotary positions.** Each pair of features of q and k is turned by its position times a speed.
# Then q · k depends on the distance of the two positions alone. A head has 16 features, so 8 pairs,
# with the speeds 10,000^(−i/8).


# %%
SPEED = 10_000 ** (-torch.arange(8) / 8)


def turn(x, place):  # x: (..., positions, 16), place: (positions, 1)
    a, b = x.chunk(2, dim=-1)
    angle = place * SPEED.to(x)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def rotary(q, k, here, there):  # positions of queries and of keys
    return turn(q, here[:, None]) @ turn(k, there[:, None]).mT / 16**0.5


# %% [markdown]
# The model is that of the lesson, with a rule for its scores that can be exchanged after training.


# %% jupyter={"source_hidden": true}
class Attention(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.scores = rotary
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        place = torch.arange(x.shape[1], device=x.device)
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        scores = self.scores(q, k, place, place)
        scores = scores.masked_fill(place > place[:, None], -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(up, nn.GELU(), down)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(len(alphabet), width)
        nn.init.normal_(self.embed.weight, std=width**-0.5)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        return self.norm(self.blocks(self.embed(tokens))) @ self.embed.weight.T


def loss_at(model, rows):
    scores = model(rows[:, :-1])
    return F.cross_entropy(scores.mT, rows[:, 1:], reduction="none").mean(dim=0)


def learned(seed, steps=300, rate=6e-3):
    torch.manual_seed(seed)
    model = Model().to(device)
    adam = torch.optim.AdamW(model.parameters(), rate, weight_decay=0, fused=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, rate, steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        start = torch.randint(len(known) - 64, (16, 1), generator=generator)
        rows = (start + torch.arange(65)).to(device)
        loss = loss_at(model, known[rows]).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        plan.step()
    return model


@torch.no_grad()
def tested(model, rule=rotary):
    """Return the loss at each position of new rows of 256 characters, under a rule."""
    for block in model.blocks:
        block.attention.scores = rule
    return (
        torch.stack([loss_at(model, part) for part in new[:40].split(10)]).mean(0).cpu()
    )


# %% by-position tags=["trained"]
models = [learned(seed) for seed in range(3)]
curves = [tested(model) for model in models]
ax = Figure(figsize=(6, 3)).add_subplot()
for curve, (ink, dash, _) in zip(curves, SERIES, strict=False):
    smooth = curve.unfold(0, 8, 8).mean(-1)
    ax.plot(range(4, 256, 8), smooth, dash, color=ink)
ax.axvline(64, color="#222222", linewidth=0.6)
ax.text(66, 3.4, "rows of the training end here")
ax.set(xlabel="position", ylabel="loss on new text", ylim=(1.4, 3.8))
ax.set_title("It reads on past 64, and fails past 110")
show(ax.figure)


def far(rule=rotary):
    """Return the loss at the positions 192 to 255, for three seeds."""
    return [tested(model, rule)[192:].mean().item() for model in models]


def tell(name, losses):
    print(f"{name:36}", *(f"{loss:.2f}" for loss in losses))


near = [curve[32:64].mean().item() for curve in curves]
as_it_is = far()
tell("32 to 63", near)
tell("192 to 255", as_it_is)

# %% [markdown]
# The text is real, so mistakes of its own do not pile up here. Beyond 63 two things are new at
# once: more keys are visible than in training, and some are further away.
#
# ## Number or distance?
#
# First we hide every key more than 63 back. Nothing is trained again.


# %% windowed tags=["trained"]
def windowed(q, k, here, there):
    too_far = here[:, None] - there > 63
    return rotary(q, k, here, there).masked_fill(too_far, -torch.inf)


hidden = far(windowed)
tell("keys beyond 63 hidden", hidden)

# %% [markdown]
# So those keys do the harm. But hiding them took away both, their number and their distance. Now
# all keys stay visible, and one further back than 63 is turned as if it stood 63 back.


# %%
def capped(q, k, here, there):
    away = here[:, None] - there > 63
    at_63 = rotary(q, k, 0 * here + 63, 0 * there)  # each query 63 after each key
    return torch.where(away, at_63, rotary(q, k, here, there))


# %% capped tags=["trained"]
with predict(
    "All keys visible, turned as if at most 63 back: the loss at 192 to 255 is",
    ["as high as before", "about halfway", "nearly repaired"],
):
    cap = far(capped)
    tell("turned as at 63", cap)

# %% [markdown]
# The number of keys alone does not make the rise. What counts is which scores the far keys get.
#
# ## Are new angles the harm?
#
# Then let no angle be new: beyond 63 a key is turned as at a distance that the rows had, 64 as 0, 65
# as 1, and so on, round and round. Or round and round in the distances 8 to 63, without the nearest.


# %%
def around(first):
    def rule(q, k, here, there):
        scores, away = rotary(q, k, here, there), here[:, None] - there
        size = 64 - first
        rounds = (away - first) // size * (away > 63)
        for n in range(1, int(rounds.max()) + 1):
            nearer = rotary(q, k, here, there + n * size)
            scores = torch.where(rounds == n, nearer, scores)
        return scores

    return rule


# %% around tags=["trained"]
with predict(
    "Every distance is one of 0 to 63: the loss at 192 to 255 is",
    ["nearly repaired", "about halfway", "nearly as high as before"],
):
    all_old, without_nearest = far(around(0)), far(around(8))
    tell("round and round in 0 to 63", all_old)
    tell("round and round in 8 to 63", without_nearest)

# %% [markdown]
# No angle is new in either, and only leaving out the nearest distances helps. So a far key does
# harm here where it is scored like one of the nearest keys.
#
# ## Which key, or how much together?
#
# Last we leave every score as it is, and lower those of the far keys by one number for each query, so
# that together they weigh what they weigh when they go round in 32 to 63. (`logsumexp` is the logarithm
# of their part of the sum that the softmax divides by.)


# %%
def lowered(q, k, here, there):
    free, tame = rotary(q, k, here, there), around(32)(q, k, here, there)
    away = here[:, None] - there > 63
    total = [
        x.masked_fill(~away, -torch.inf).logsumexp(-1, keepdim=True)
        for x in (free, tame)
    ]
    return torch.where(away, free + total[1] - total[0], free)


# %% lowered tags=["trained"]
low = far(lowered)
tell("as it is", as_it_is)
tell("all far scores lowered alike", low)
tell("keys beyond 63 hidden", hidden)

# %% [markdown]
# Every angle, and every difference between two far keys, is as it was, and most of the rise is gone.
# So in these models most of the harm is **how much attention the far keys take together**. Training
# had taught the scores to fall with the distance, and a sum of cosines does not fall for ever.
#
# What real models do: positions are divided ([Chen et al., 2023](https://arxiv.org/abs/2306.15595)),
# or the speeds of the slow pairs ([YaRN](https://arxiv.org/abs/2309.00071)), and they are trained a
# little more. ALiBi ([Press et al., 2021](https://arxiv.org/abs/2108.12409)) has no angles and lowers
# each score in proportion to the distance.
#
# Open: larger models, and trainings longer than 300 steps. The
# [lesson](../10_configurable_block.ipynb) needs none of this.
