# %% [markdown]
# # 10 · The configurable block
#
# 90 minutes by count; readers took 95 to 112. Nothing is downloaded. It follows [lesson 09](09_vit5_block.ipynb). Of [lesson 08a](08a_attention.ipynb) it uses attention, its causal mask and the rotation of queries and keys, and of [lesson 04](04_pre_norm_and_post_norm.ipynb) the two placements of a norm.
#
# By the end you can
#
# - **write** the loss of a language model and its cache;
# - **find** the cause of a failure by controls on the same weights;
# - **say** which swap of a part counts here;
# - **compute** what a token costs to keep, and what a cache saves;
# - **find** a mask that leaks, and mend it.
#
# A small language model was trained for 300 steps to continue text, on rows of 64 characters. Here is what it wrote.

# %% jupyter={"source_hidden": true}
import re
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import python_documentation, python_prose
from residual_course.exercises import check
from residual_course.lesson import holds, predict, progress, setup, show, summary
from residual_course.plots import configurable as plots

device = setup()
progress("10")

# %% tags=["figure"] jupyter={"source_hidden": true}
WRITTEN = (
    "If the sequence is not the not is section of the comport the pare contains a "
    'compare in context, "1*" "_____getat___" exclexecof "fule, the lexchanumplesent'
    "ancomplemalsexcompledexechacorihatim"
)
text = python_prose()
real_words = sorted(set(re.findall("[A-Za-z]+", text)))
ax = Figure(figsize=(6, 2.6)).add_subplot()
plots.plot_written(WRITTEN, real_words, 64, ax)
ax.set_title("Words at first, letter soup later")
alt = "192 characters in six rows. The first three are nearly all real words; from the "
show(
    ax.figure,
    alt=alt + "fourth on nearly all letters belong to words that do not exist.",
)

# %% [markdown]
# (Underlined: words that the text does not have.) You will build this model, see it happen, and find out why.

# %% [markdown]
# ## Text that was not seen
#
# Python ships with its help texts, 465,126 characters. Cut them into rows of 65, keep every tenth for testing: is a test row new?

# %% jupyter={"source_hidden": true}
from math import log

raw = python_documentation()
rows = [raw[at : at + 65] for at in range(0, len(raw) - 64, 65)]
trained_on = "\n".join(row for at, row in enumerate(rows) if at % 10 != 9)
trained_on = trained_on.replace("\n", "")
seen = sum(row.replace("\n", "") in trained_on for row in rows[9::10])
print(
    f"{seen} of {len(rows[9::10])} test rows stand word for word in the training text"
)

# %% [markdown]
# More than a third, so a loss on these rows partly measures memory. We take the prose alone, each paragraph once (`python_prose`, 257,726 characters), and cut it into pieces of 2,570 characters, every tenth for testing.

# %% jupyter={"source_hidden": true}
alphabet = sorted(set(text))
number = {character: at for at, character in enumerate(alphabet)}
cut = torch.tensor([number[c] for c in text]).unfold(0, 2570, 2570)
is_test = torch.arange(len(cut)) % 10 == 9
known = cut[~is_test].flatten().to(device)
new = cut[is_test].reshape(-1, 257).to(device)
print(f"{len(known):,} characters to train, {len(alphabet)} different ones")
known_text = "".join(alphabet[at] for at in known)
strings = ["".join(alphabet[at] for at in row) for row in new]
for length in (65, 16):
    seen = sum(line[:length] in known_text for line in strings)
    print(f"first {length} characters of {len(new)} test rows: {seen} stand there too")

# %% [markdown]
# ## The model in four pieces
#
# **Positions.** As in lesson 08a, each pair of features of q and k turns by position times a speed. A head has 16 features, so 8 pairs, with the speeds 10,000^(−i/8). The 10,000 is called the **base**.


# %%
SPEED = 10_000 ** (-torch.arange(8) / 8)


def turn(x, place, speed):  # x: (..., positions, 16), place: (positions, 1)
    a, b = x.chunk(2, dim=-1)
    angle = place * speed.to(x)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def rotary(q, k, here, there, speed=SPEED):  # positions of queries and of keys
    q, k = turn(q, here[:, None], speed), turn(k, there[:, None], speed)
    return q @ k.mT / 16**0.5  # 16 features a head


# %% [markdown]
# **Attention.** `here` are the positions of the queries, `there` those of the keys. `hidden` says which keys a query must not see: those that are later. The rule that makes scores is handed over, so that it can be exchanged.


# %%
def later(here, there):
    return there > here[:, None]


class Attention(nn.Module):
    def __init__(self, scores, width=64):
        super().__init__()
        self.scores, self.hidden, self.heads = scores, later, width // 16
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def heads_of(self, x):  # three times (batch, heads, positions, 16)
        return self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)

    def mix(self, q, k, v, here, there):
        scores = self.scores(q, k, here, there)
        scores = scores.masked_fill(self.hidden(here, there), -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        place = torch.arange(x.shape[1], device=x.device)
        return self.mix(*self.heads_of(x), place, place)


# %% [markdown]
# **Block and model.** The same matrix embeds a character and scores the next one.


# %%
class Block(nn.Module):
    def __init__(self, scores, width=64):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(scores, width)
        up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(up, nn.GELU(), down)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# %%
class Model(nn.Module):
    def __init__(self, scores, vocabulary=103, width=64, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embed.weight, std=width**-0.5)
        self.blocks = nn.ModuleList(Block(scores, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def logits(self, x):
        return self.norm(x) @ self.embed.weight.T

    def forward(self, tokens):  # (batch, positions) to (batch, positions, vocabulary)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.logits(x)


# %% [markdown]
# ### Exercise 1 · 6 minutes · ●●○○○
#
# The output at a position scores the *next* character. Write the loss at each position: for `rows` of n + 1 tokens, n cross-entropies, each the mean over the rows. Call the model once; its vocabulary may have any size.
#
# <details><summary>Hint 1</summary>Which tokens does the model receive, and which are the right answers? Both have n positions.</details>
# <details><summary>Hint 2</summary><code>F.cross_entropy</code> wants the classes on axis 1, and <code>reduction="none"</code> keeps rows and positions.</details>


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
# (Folded: the same, for whoever goes on without it.)


# %% jupyter={"source_hidden": true}
def loss_at(model, rows):
    scores = model(rows[:, :-1])
    return F.cross_entropy(scores.mT, rows[:, 1:], reduction="none").mean(dim=0)


@torch.no_grad()
def tested(model):
    """Return the loss at each position of the test rows, 20 of them at a time."""
    return torch.stack([loss_at(model, part) for part in new.split(20)]).mean(0).cpu()


# %% [markdown]
# **Training** takes 16 random rows a step, with AdamW at 6e-3, one rise and fall of the rate, 300 steps (folded).


# %% jupyter={"source_hidden": true}
def learn(model, seed=0, steps=300, rate=6e-3, length=64, data=known):
    adam = torch.optim.AdamW(model.parameters(), rate, weight_decay=0, fused=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, rate, steps, pct_start=0.1)
    generator, model.losses = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        start = torch.randint(len(data) - length, (16, 1), generator=generator)
        rows = (start + torch.arange(length + 1)).to(device)
        loss = loss_at(model, data[rows]).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        plan.step()
        model.losses.append(loss.item())
    return model


def made(scores=rotary, seed=0, **sizes):
    torch.manual_seed(seed)
    return Model(scores, len(alphabet), **sizes).to(device)


# %% [markdown]
# **Writing** draws one character after the other. `temperature` divides the scores: below 1 it favours what is likely already.


# %%
def draw(scores, generator, temperature=0.5):  # (1, vocabulary) to (1, 1)
    shares = (scores / temperature).softmax(-1).cpu()
    return torch.multinomial(shares, 1, generator=generator).to(scores.device)


@torch.no_grad()
def write(model, tokens, count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        token = draw(model(tokens)[:, -1], generator)
        tokens = torch.cat([tokens, token], dim=1)
    return "".join(alphabet[at] for at in tokens[0])


# %% tags=["trained"]
model = learn(made(rotary))
prompt = torch.tensor([[number[c] for c in "If the "]], device=device)
written = write(model, prompt, 185)
print(written[:64], written[64:128], written[128:], sep="\n")
holds(sum(model.losses[-20:]) < 20 * 2, "It has learned to continue its text.")

# %% [markdown]
# Your own model does it too.
#
# ## On real text
#
# A suspect: each wrong character makes the next one harder, and mistakes add up. The control: give it 256 characters of *real* text that it never saw, and compute the loss at each position.

# %% tags=["figure", "trained"]
curve = tested(model)
ax = Figure(figsize=(6, 3)).add_subplot()
plots.plot_by_position({"": curve}, 64, ax)
ax.set_title("On real text too: flat to 112, then up")
alt = "Loss over the position: near 1.7 to beyond position 110, then it rises in steps "
show(ax.figure, alt=alt + "to about 3 at 255.")
inside, far = curve[32:64].mean().item(), curve[192:].mean().item()
print(f"32 to 63: {inside:.2f}; 192 to 255: {far:.2f}; at random: {log(103):.2f}")
holds(far > inside + 0.8, "On real text the loss rises too.")

# %% [markdown]
# The text is real, so its own mistakes are not needed for the rise. And it does not begin at 64: why so late?
#
# ## Two suspects
#
# Beyond position 63 two things are new at once: more keys are visible than in training, and some are further away. First we hide all keys more than 63 back; same weights, nothing trained.


# %%
def windowed(q, k, here, there):
    too_far = here[:, None] - there > 63
    return rotary(q, k, here, there).masked_fill(too_far, -torch.inf)


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def at_the_end(rule, model=model, part=slice(192, 256)):
    before = model.blocks[0].attention.scores
    for rule_now in (rule, before):
        for block in model.blocks:
            block.attention.scores = rule_now
        if rule_now is rule:
            loss = tested(model)[part].mean().item()
    return loss


# %% tags=["trained"]
far_hidden = at_the_end(windowed)
print(f"all keys: {curve[192:].mean():.2f}; the last 64 alone: {far_hidden:.2f}")
holds(far_hidden < 2, "With the far keys hidden the rise is gone.")

# %% [markdown]
# So the keys beyond 63 do the harm. But hiding them took away both, their number and their distance. The next control takes away the distance alone: all keys stay visible, and one that is further back than 63 gets the score that it would have at 63.


# %%
def capped(q, k, here, there):
    near = rotary(q, k, here, there)
    far = rotary(q, k, 0 * here + 63, 0 * there)  # each query 63 after each key
    return torch.where(here[:, None] - there > 63, far, near)


# %% tags=["predict"]
guess = predict(
    "All keys visible, turned as if at most 63 back: the loss at 192 to 255 is",
    ["as high as before", "about halfway", "nearly repaired"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
plain, hidden, turned = curve[192:].mean().item(), far_hidden, at_the_end(capped)
print(f"keys beyond 63: as they are {plain:.2f}; hidden {hidden:.2f};", end=" ")
print(f"turned as at 63 {turned:.2f}")
part = (turned - hidden) / (plain - hidden)
holds(part < 0.35, "With the distance capped most of the rise is gone.")
guess.reveal(
    "nearly repaired"
    if part < 0.35
    else "about halfway"
    if part < 0.65
    else "as high as before",
    why={
        "as high as before": "So it would be if too many keys were the cause.",
        "about halfway": "Number and distance could each have a share.",
        "nearly repaired": "As many keys as before, and most of the rise is gone.",
    },
    after="As many keys are visible as before, so their number alone does not make the "
    "rise. What counts is **which scores the far keys get**.",
)

# %% [markdown]
# ## Eight pairs
#
# On paper: turning q and k by the positions m and n changes the product of one pair (two numbers each) to |q| |k| cos((m − n) f + β), where β is the angle between them. The score of a key at distance D is then a sum of eight terms:
#
# $$\text{score}(D) = \tfrac14\sum_{i=0}^{7} a_i \cos(D f_i + \beta_i)$$
#
# Training has fixed this sum for D up to 63. How many turns has each pair made at D = 63, and how many at D = 255? Work out pairs 0 and 5 by hand first: D times the speed, over 2π.

# %% jupyter={"source_hidden": true}
for pair, speed in enumerate(SPEED.tolist()):
    turns = [D * speed / (2 * torch.pi) for D in (63, 255)]
    print(f"pair {pair}, speed {speed:.4f}: {turns[0]:6.3f} {turns[1]:6.3f}")

# %% [markdown]
# Now cap **one pair alone**: for every key beyond 63 it is held at the angle that it has at 63, and the other seven are left as they are (folded).


# %% jupyter={"source_hidden": true}
def held(q, k, here, there, pairs, at=63, speed=SPEED, most=63):
    place, back = here[:, None].repeat(1, 8), there[:, None].repeat(1, 8)
    place[:, pairs] = torch.as_tensor(at, device=place.device)  # a place for each pair
    back[:, pairs] = 0
    far = turn(q, place, speed) @ turn(k, back, speed).mT / 16**0.5
    near = rotary(q, k, here, there, speed)
    return torch.where(here[:, None] - there > most, far, near)


# %% tags=["predict"]
guess = predict(
    "Capped alone, which pair lowers the loss most?",
    ["pair 0, the fastest", "pair 3", "pair 4", "pair 7, the slowest"],
)

# %% jupyter={"source_hidden": true}
from residual_course.lesson import stored_runs
from residual_course.plots.changes import plot_runs

stored = stored_runs("10_configurable_block")["runs"]


def three(name):
    return [stored[seed][name] for seed in range(3)]


def tell(*names, end=": 192-255"):
    print(f"{'':42} stored, three seeds")
    for name in names:
        told = "  ".join(f"{loss:.2f}" for loss in three(name + end))
        print(f"{name:42}", told)


# %% tags=["trained"] jupyter={"source_hidden": true}
alone = {"none": three("rotary: 192-255")}
HELD = "rotary, pair {} held at 63: 192-255"
alone |= {f"pair {at}": three(HELD.format(at)) for at in range(8)}
for name in ("pairs 4 to 7", "all but pair 3"):
    alone[name] = three(f"{name} capped: 192-255")
alone |= {"all keys beyond hidden": three("windowed: 192-255")}
best = [
    min(range(8), key=lambda at: stored[seed][HELD.format(at)]) for seed in range(3)
]
holds(min(alone["none"]) > 2.5, "In the stored runs, too, far positions are soup.")

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
ax = Figure(figsize=(6, 3.6)).add_subplot()
plot_runs(alone, ax, label="loss at positions 192 to 255, three seeds")
ax.set_title("Held at 63, one pair of eight repairs it")
alt = (
    "Losses with one pair capped: pair 3 falls to 1.7, little above that with the far "
)
alt += "keys hidden; every other pair, 4 to 7 together, and all but pair 3 stay near 3."
show(ax.figure, alt=alt)
only_third = partial(held, pairs=[3])
print(f"pair 3, computed now: {at_the_end(only_third):.2f}")
holds(best == [3] * 3 and max(alone["pair 3"]) < 2, "Pair 3 alone repairs it.")
holds(min(alone["all but pair 3"]) > 2.5, "The others at 63 repair nothing.")
CHOICES = {0: "pair 0, the fastest", 3: "pair 3", 7: "pair 7, the slowest"}
guess.reveal(
    CHOICES.get(best[0], "pair 4"),
    why={
        "pair 0, the fastest": "It has made ten turns within the row: it repeats.",
        "pair 3": "A third of a turn at 63, and 1.28 turns at 255.",
        "pair 4": "It reaches new angles too: 0.41 of a turn at 255.",
        "pair 7, the slowest": "All its angles are small: 0.01 of a turn at 255.",
    },
    after="**One pair**, if all are held at 63. Pairs 0 to 2 make a whole turn within "
    "the row: each has met every angle. Pairs 4 to 7 reach new ones; together they "
    "lower nothing.",
)

# %% [markdown]
# ## What that pair does
#
# The score is a sum, so look at its terms: in block 2, the mean over queries, heads and 20 test rows (folded).


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def mean_terms(model):
    """Return the mean term of each pair in block 2 over the distance, (8, 256)."""
    x = model.blocks[0](model.embed(new[:20, :256]))
    q, k, _ = model.blocks[1].attention.heads_of(model.blocks[1].norm1(x))
    place, terms = torch.arange(256, device=device)[:, None], []
    q, k = turn(q, place, SPEED), turn(k, place, SPEED)
    for pair in ([at, at + 8] for at in range(8)):
        score = (q[..., pair] @ k[..., pair].mT / 16**0.5).mean((0, 1)).cpu()
        terms.append(torch.stack([score.diagonal(-D).mean() for D in range(256)]))
    return torch.stack(terms)


# %% tags=["figure", "trained"]
terms = mean_terms(model)
parts = {f"pair {at}": terms[at] for at in (2, 3)} | {"4 to 7": terms[4:].sum(0)}
ax = Figure(figsize=(6, 3.4)).add_subplot()
plots.plot_terms(parts, 64, ax)
ax.set_title("Pair 3 falls within the row, and returns")
alt = (
    "Terms of the score over the distance: pair 3 falls from 0.7 to -2 at 63 and rises "
)
alt += "to 2 near 160; pair 2 swings faster, with peaks near 59, 122 and 185; pairs 4 "
alt += "to 7 stay near 0."
show(ax.figure, alt=alt)
tell("pair 3: mean term at 63", "pair 3: mean term at 160", end="")
holds(terms[3, 63] < -1 and terms[3, 160] > 1, "It falls, and returns.")

# %% [markdown]
# Within the row pair 3 lowers the score with the distance, most near 63. So **training uses it as a penalty on distance**. Its term is a cosine: half a turn, π / 0.0316 = 99 positions, after its lowest it is at its highest. Near 120 it is as high as at 0, and there the loss begins to rise. (Its two steps stand at two peaks of pair 2, 122 and 185.)
#
# How much attention goes beyond 63, in block 2, for the positions 192 to 255 (folded)?


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def share_beyond(rule, most=63, first=192):
    block, model.blocks[0].attention.scores = model.blocks[1].attention, rule
    x = model.blocks[0](model.embed(new[:20, :256]))
    model.blocks[0].attention.scores = rotary
    place = torch.arange(256, device=x.device)
    q, k, _ = block.heads_of(model.blocks[1].norm1(x))
    scores = rule(q, k, place, place).masked_fill(later(place, place), -torch.inf)
    beyond = place[:, None] - place > most
    return 100 * (scores.softmax(-1) * beyond).sum(-1)[..., first:].mean().item()


# %% tags=["trained"] jupyter={"source_hidden": true}
rules = {"as it is": rotary, "pair 3 held at 63": only_third}
rules["spread evenly"] = lambda q, k, here, there: torch.zeros_like(q @ k.mT)
far = {name: share_beyond(rule) for name, rule in rules.items()}
print("beyond 63:", *(f"{name} {share:.0f}%;" for name, share in far.items()))
holds(far["as it is"] > far["spread evenly"] > 2 * far["pair 3 held at 63"], "Far.")

# %% [markdown]
# As it is, far keys get more than if all were alike.
#
# ## Distances of the row alone
#
# Pair 3 reaches angles beyond 63 that training never met. Is it that they are new? Then a key must do no harm at a distance of the row. Let the distance **go round**: beyond 63 a key is turned, in all eight pairs, as at a distance of the row, 64 as 0, 65 as 1, 128 as 0 again. Each far key then gets a score that it could have within the row (folded).


# %% jupyter={"source_hidden": true}
def around(q, k, here, there, first, speed=SPEED, last=63):
    scores, away = rotary(q, k, here, there, speed), here[:, None] - there
    size = last + 1 - first
    rounds = (away - first) // size * (away > last)
    for n in range(1, int(rounds.max()) + 1):
        nearer = rotary(q, k, here, there + n * size, speed)
        scores = torch.where(rounds == n, nearer, scores)
    return scores


# %% tags=["predict"]
guess = predict(
    "Distances that go round in 0 to 63: the loss at 192 to 255 is",
    ["nearly repaired", "about halfway", "nearly as high as free"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
tell("rotary", "rotary, from 0", "windowed")
free, row, near = (
    sum(three(f"{name}: 192-255")) / 3
    for name in ("rotary", "rotary, from 0", "windowed")
)
part = (row - near) / (free - near)
holds(part > 0.7, "Old angles alone repair nothing.")
guess.reveal(
    "nearly repaired"
    if part < 0.3
    else "about halfway"
    if part < 0.7
    else "nearly as high as free",
    why={
        "nearly repaired": "So it would be if anything new were the cause.",
        "about halfway": "Then what is new would have a share.",
        "nearly as high as free": "64 back is turned like the query's own "
        "place, 65 back like the one before.",
    },
    after="No angle of a key is new, no combination of its angles, and the loss is as "
    "high as before. (New is only that a query has several keys at one distance.)",
)

# %% [markdown]
# Now leave out the nearest distances: go round in 2 to 63, in 4 to 63, in 8 to 63, or in 32 to 63.

# %% tags=["predict"]
guess = predict(
    "From which first distance on is most of the rise gone?",
    ["from 2", "from 4 or 8", "from 32 alone"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
ROUNDS = {at: f"rotary, from {at}" for at in (0, 2, 4, 8)} | {32: "rotary, far half"}
tell(*ROUNDS.values())
enough = min(at for at, name in ROUNDS.items() if max(three(f"{name}: 192-255")) < 2)
holds(4 <= enough <= 8, "Without the nearest distances it is repaired.")
guess.reveal(
    "from 2" if enough < 4 else "from 4 or 8" if enough < 32 else "from 32 alone",
    why={
        "from 2": "Half of it is gone: 2 and 3 are near too.",
        "from 4 or 8": "A far key is then never scored as one of the nearest.",
        "from 32 alone": "The far half is more than is needed.",
    },
    after="The distances 0 to 3, one in sixteen, do nearly all the harm. So **a far "
    "key does harm where it is scored like one of the nearest keys**.",
)

# %% [markdown]
# Is it which far key is high, or how much all take together? Leave **every score as it is** and lower those of the far keys by one number, the same for all far keys of a query, such that together they weigh what they weigh when they go round in 32 to 63. (`logsumexp`: the logarithm of the far keys' part of the sum that the softmax divides by.) And the reverse: the scores that go round in 32 to 63, raised by that number.


# %%
def with_total_of(q, k, here, there, first=32, swapped=False, speed=SPEED, last=63):
    free = rotary(q, k, here, there, speed)
    tame = around(q, k, here, there, first, speed, last)
    far = here[:, None] - there > last
    total = [
        x.masked_fill(~far, -torch.inf).logsumexp(-1, keepdim=True)
        for x in (free, tame)
    ]
    scores = tame + total[0] - total[1] if swapped else free + total[1] - total[0]
    return torch.where(far, scores, free)


# %% [markdown]
# Is this so with another base, other rows, more steps? Means of three seeds, trained anew (in rows of 32 and 128 distances go round up to 31 and 127):

# %% tags=["trained"] jupyter={"source_hidden": true}
TRIED = ("base 10,000", "base 500,000", "base 1,000", "base 100", "base 8")
TRIED += ("rows of 32", "rows of 128", "3,000 steps")
RULES = ("from 0", "from 2", "from 4", "from 8", "far half", "lowered", "raised")


def far_mean(key):
    return sum(three(f"{key}: 192-255")) / 3


print(f"{'':13} free   from 0 from 2 from 4 from 8 far h. lowered raised hidden")
for name in TRIED:
    first = name == "base 10,000"
    key = "rotary" if first else name
    told = [far_mean(key), *(far_mean(f"{key}, {rule}") for rule in RULES)]
    told += [far_mean("windowed" if first else f"{name}, windowed")]
    print(f"{name:13}", "   ".join(f"{loss:.2f}" for loss in told))
    free, *_, far_half, low, high, near = told
    holds(max(far_half, low) - near < 0.35 * (free - near), "Both repair most.")
    holds(high - near > 0.5 * (free - near), "The total alone brings the rise.")

# %% [markdown]
# In each network leaving out the nearest distances repairs most. So does lowering, with **every angle and every difference between two far keys left as it was**; and raising brings back 60 % of the rise and more. So most of the harm is **how much attention the far keys take together**; which of them take it is the rest.
#
# And the one pair? Held alone, the three best, at 30 or at 63:

# %% tags=["trained"] jupyter={"source_hidden": true}
for base in ("base 10,000", "base 500,000", "3,000 steps"):
    key = "rotary" if base == "base 10,000" else base
    names = [f"{key}, pair {pair} held at {at}" for pair in range(8) for at in (30, 63)]
    lowest = sorted(names, key=far_mean)[:3]
    told = (f"{name.partition(', ')[2]} {far_mean(name):.2f}" for name in lowest)
    print(f"{base:13} free {far_mean(key):.2f};", "; ".join(told))
    holds(far_mean(lowest[0]) < far_mean(key) - 0.4, "One pair repairs a part.")

# %% [markdown]
# After 300 steps pair 3 is not alone: held at 30, half a turn of pair 2, that pair repairs most as well. After 3,000 steps pair 3 alone does, at either. Another base, another pair.
#
# The text of the beginning, same draws, far keys hidden:

# %% tags=["trained"] jupyter={"source_hidden": true}
for rule in (windowed, rotary):
    for block in model.blocks:
        block.attention.scores = rule
    if rule is windowed:
        mended = write(model, prompt, 185)
print(mended[:64], mended[64:128], mended[128:], sep="\n")
holds(mended[:64] == written[:64] and mended != written, "It changes beyond 64.")

# %% [markdown]
# **What does a repair cost?** Real models that shall read further have their positions divided ([Chen et al., 2023](https://arxiv.org/abs/2306.15595)), or the speeds of the slow pairs ([YaRN](https://arxiv.org/abs/2309.00071)), and train a little more. **ALiBi** ([Press et al., 2021](https://arxiv.org/abs/2108.12409)) has no angles: it lowers each score in proportion to the distance, in each head with another slope, 1/4, 1/16, 1/64 and 1/256:


# %%
def alibi(q, k, here, there):
    slopes = 4.0 ** -torch.arange(1, 5, device=q.device)
    return q @ k.mT / 16**0.5 - slopes[:, None, None] * (here[:, None] - there)


# %% tags=["trained"] jupyter={"source_hidden": true}
WAYS = {"rotary": "rotary, as it is", "windowed": "the same weights, window of 63"}
WAYS |= {"base 8": "trained anew, base 8", "alibi": "trained anew, ALiBi"}
print(f"{'means of three seeds':42} 32-63  192-255")
for way, told in WAYS.items():
    inner, outer = (sum(three(f"{way}: {end}")) / 3 for end in ("32-63", "192-255"))
    print(f"{told:42} {inner:.2f}   {outer:.2f}")
holds(max(three("alibi: 192-255")) < 2.1, "ALiBi goes on beyond the row.")
price = [
    a - r for a, r in zip(three("alibi: 32-63"), three("rotary: 32-63"), strict=True)
]
holds(min(price) > 0.05, "ALiBi costs something within the row.")

# %% [markdown]
# The window changes nothing within the row, and repairs nearly all. ALiBi stays as low far out, and is worse *within* the row.
#
# ## Four names
#
# A block has four places where a rule can be exchanged: attention, feed-forward network, norm, positions. The library's block looks up each of them **by name**, `BlockConfig(attention="mha", ffn="standard", norm="layer_norm", position="rope", ...)` (folded).

# %% jupyter={"source_hidden": true}
from residual_edu import BlockConfig, LanguageModel, ModelConfig

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 256, "max_seq_len": 2048}
NAMES = {"attention": "mha", "ffn": "standard"}
NAMES |= {"norm": "layer_norm", "position": "rope"}


class Named(nn.Module):
    def __init__(self, vocabulary=103, layers=2, **changed):
        super().__init__()
        block = BlockConfig(**SIZES | NAMES | changed)
        self.model = LanguageModel(ModelConfig(block, vocabulary, layers))

    def forward(self, tokens):
        return self.model(tokens)[0]  # it returns its cache as well


# %% [markdown]
# The names: `gqa`, groups of query heads share one key and one value head ([Ainslie et al., 2023](https://arxiv.org/abs/2305.13245)); with a single group it is called MQA. `mla`, keys and values are computed from one small vector, as shown in "What a token keeps" ([DeepSeek-AI, 2024](https://arxiv.org/abs/2405.04434)). `gated`, SwiGLU of lesson 09; `relu2`, a ReLU, squared. `sinusoidal` adds sin(position · speed) and cos(position · speed) to the embedding, once ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)). `none`: no positions, so only the mask tells them apart.
#
# ## Which swap counts
#
# Ten swaps, one name each; the width of the MLP makes up for what a swap saves or costs (folded):

# %% jupyter={"source_hidden": true}
SWAPS = {
    "plain": {},
    "rms_norm": {"norm": "rms_norm"},
    "post-norm": {"pre_norm": False},
    "gqa, 2 of 4": {"attention": "gqa", "n_kv_heads": 2, "d_ff": 288},
    "mqa, 1 of 4": {"attention": "gqa", "n_kv_heads": 1, "d_ff": 304},
    "mla": {"attention": "mla", "kv_lora_rank": 16, "d_ff": 296},
    "gated": {"ffn": "gated", "d_ff": 171},
    "relu2": {"ffn": "relu2"},
    "alibi": {"position": "alibi"},
    "sinusoidal": {"position": "sinusoidal"},
    "no positions": {"position": "none"},
}
counts = [sum(p.numel() for p in Named(**swap).parameters()) for swap in SWAPS.values()]
print(f"parameters: {min(counts):,} to {max(counts):,}")

# %% [markdown]
# Each was trained for 250 steps with three seeds, at one rate; we count a swap if its mean differs from that of the plain model by more than the range of either.

# %% tags=["trained"] jupyter={"source_hidden": true}
swapped = {name: three(f"{name}: 0-63") for name in SWAPS}
holds(max(swapped["plain"]) < 2.2, "The stored runs have learned words.")


def verdict(name):
    found, plain = swapped[name], swapped["plain"]
    gap = sum(found) / 3 - sum(plain) / 3
    if abs(gap) <= max(max(found) - min(found), max(plain) - min(plain)):
        return "not told apart"
    return "higher" if gap > 0 else "lower"


# %% tags=["predict"]
guess = predict(
    "The loss of mqa, one key and one value head for all queries, is",
    ["higher than plain", "lower than plain", "not told apart"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
ax = Figure(figsize=(6, 3.8)).add_subplot()
plot_runs(swapped, ax, beside="plain", label="loss at positions 0 to 63, three seeds")
ax.set_title("Positions and placement count most at step 250")
alt = "Losses of eleven models: rms_norm, gqa and mqa lie beside the plain one, gated "
alt += "and relu2 lower, mla, post-norm and alibi higher, sinusoidal and none highest."
show(ax.figure, alt=alt)
for kind in ("lower", "not told apart", "higher"):
    print(f"{kind}:", ", ".join(n for n in [*SWAPS][1:] if verdict(n) == kind))
holds(verdict("sinusoidal") == verdict("no positions") == "higher", "Positions count.")
holds(verdict("mqa, 1 of 4") == "not told apart", "MQA is not told apart.")
found = verdict("mqa, 1 of 4")
guess.reveal(
    found if found == "not told apart" else f"{found} than plain",
    why={
        "higher than plain": "A quarter of the keys and values, and a wider MLP.",
        "lower than plain": "The MLP is wider, and the keys fewer.",
        "not told apart": "Whatever it costs is below what the seed changes.",
    },
    after="Three seeds do not tell MQA from MHA. That is no proof that they are equal: "
    "a difference below the range of the seeds would not show.",
)

# %% [markdown]
# And after 1,000 steps?

# %% tags=["trained"] jupyter={"source_hidden": true}
tell("plain", "post-norm", "mla", "alibi", "gated", "relu2", end=": 1,000 steps")
later_gap = sum(three("post-norm: 1,000 steps")) - sum(three("plain: 1,000 steps"))
holds(later_gap / 3 < 0.15, "Post-norm has nearly caught up.")

# %% [markdown]
# Most of post-norm's gap is gone, and those of MLA and relu2. (Six blocks: [appendix](10_configurable_block_more.ipynb).)
#
# ## What a token keeps
#
# `write` computes all characters anew for each new one. But a causal model's keys and values of earlier positions do not change. The **cache** keeps them. **GQA** keeps fewer: here 2 heads of keys and values, each repeated for 2 of the 4 queries.


# %%
class Grouped(Attention):
    def __init__(self, scores, width=64, groups=2):
        super().__init__(scores, width)
        self.sizes = [self.heads, groups, groups]  # heads of q, of k, of v
        self.qkv = nn.Linear(width, 16 * sum(self.sizes))

    def heads_of(self, x):  # (batch, 4, positions, 16), then 2 heads of k and of v
        return self.qkv(x).unflatten(-1, (-1, 16)).transpose(1, 2).split(self.sizes, 1)

    def mix(self, q, k, v, here, there):  # k and v are kept, and repeated here
        k, v = (x.repeat_interleave(self.heads // x.shape[1], dim=1) for x in (k, v))
        return super().mix(q, k, v, here, there)


# %% tags=["figure"]
from residual_course.plots.cached import plot_cached

SHARED = {"MHA": ["1", "2", "3", "4"], "GQA": ["1,2", "3,4"], "MQA": ["1-4"]}
labels = {
    name: [f"{kind} {heads}" for heads in shared for kind in "kv"]
    for name, shared in SHARED.items()
}
labels["MLA"] = ["c", "t"]
sizes = {name: [16] * len(boxes) for name, boxes in labels.items()} | {"MLA": [16, 8]}
ax = Figure(figsize=(6, 3.2)).add_subplot()
plot_cached(sizes, labels, ax)
ax.set_title("What one token keeps in one block")
alt = "Boxes as long as what is kept: MHA four keys and four values of 16, GQA two and "
alt += "two, MQA one and one, MLA a vector of 16 and 8 turned features."
show(ax.figure, alt=alt)

# %% [markdown]
# **MLA** keeps one vector c, and no key. A key would be W c, with a W for each head, and q · (W c) = (Wᵀq) · c: the query goes through Wᵀ and meets c itself.


# %%
def scores_of_keys(q, c, W):  # (4 heads, 1, 16), (positions, 16), (4, 16, 16)
    return q @ (c @ W.mT).mT  # four keys of each position are made


def scores_of_c(q, c, W):
    return (q @ W) @ c.T  # c is all that is needed


# %% jupyter={"source_hidden": true}
q, c, W = torch.randn(4, 1, 16), torch.randn(64, 16), torch.randn(4, 16, 16)
equal = torch.allclose(scores_of_keys(q, c, W), scores_of_c(q, c, W), atol=1e-3)
print("the same scores, and no key:", equal)
holds(equal, "The query can go through W in the place of c.")

# %% [markdown]
# Values need no more: a value would be U c, and the sum of weight · (U c) is U times the sum of weight · c. So c is added up first, and U is applied once.
#
# Positions do need more. A turn by the distance would stand between q and W, (Wᵀ · turn · q) · c, so Wᵀ · turn would be another matrix for each distance, where one was enough. So MLA turns 8 features made for that alone, the same for all heads, keeps them beside c (t in the picture), and adds their product to the score.
#
# With 4 bytes a number MHA keeps 2 · 4 · 16 · 4 = 512 bytes in one block, and 1,024 in two. Work out the other three first, and MHA at a known size: 32 blocks, 32 heads of 128, 2 bytes, 8,192 tokens.

# %% jupyter={"source_hidden": true}
for name in ("plain", "gqa, 2 of 4", "mqa, 1 of 4", "mla"):
    _, cache = Named(**SWAPS[name]).model(new[:1, :64].cpu())
    print(f"{name:12} {cache.bytes_per_token():6,.0f} bytes a token")
KEPT = {"MHA": 2 * 32 * 128, "GQA, 8 of 32": 2 * 8 * 128, "MLA, 512 + 64": 512 + 64}
for name, numbers in KEPT.items():
    print(f"{name:14} {32 * numbers * 2 * 8192 / 2**30:.2f} GiB for 8,192 tokens")

# %% [markdown]
# GQA, 8 of 32 is [Llama 3 8B](https://arxiv.org/abs/2407.21783); 512 + 64 is DeepSeek-V2's MLA.
#
# ### Exercise 2 · 9 minutes · ●●●○○
#
# Write attention with a cache. `x`, (batch, n, 64), are the next n positions, one or many; `kept` is None, or the keys and values of all positions before, not turned, (batch, heads, positions, 16) each. Return the output for x, and the longer keys and values. `attention` is the class above: use its `heads_of` and `mix`.
#
# <details><summary>Hint 1</summary>At which position does the first new query stand, if 5 are kept? How many keys are there then?</details>
# <details><summary>Hint 2</summary><code>mix</code> needs the positions of the queries and of all keys: two ranges that end at the same number.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "attend", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attend(attention, x, kept):
    """Return attention's output for x, and keys and values, the kept ones first."""
    ### BEGIN SOLUTION
    q, k, v = attention.heads_of(x)
    if kept is not None:
        k, v = torch.cat([kept[0], k], dim=2), torch.cat([kept[1], v], dim=2)
    there = torch.arange(k.shape[2], device=x.device)
    return attention.mix(q, k, v, there[-x.shape[1] :], there), (k, v)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attend-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(attend, "cached_attention")

# %% [markdown]
# A step of the whole model with it, and the test of every cache: **decode equals prefill**. Character by character, the scores are those of the whole row at once. (Folded: `attend_with`, for whoever goes on without it. `mix` turns all keys at every step; the library keeps them turned.)


# %% jupyter={"source_hidden": true}
def attend_with(attention, x, kept):
    q, k, v = attention.heads_of(x)
    if kept is not None:
        k, v = (torch.cat(pair, dim=2) for pair in zip(kept, (k, v), strict=True))
    there = torch.arange(k.shape[2], device=x.device)
    return attention.mix(q, k, v, there[-x.shape[1] :], there), (k, v)


# %%
@torch.no_grad()
def step(model, tokens, kept):  # kept: for each block None, or a pair
    x, longer = model.embed(tokens), []
    for block, pair in zip(model.blocks, kept, strict=True):
        y, pair = attend_with(block.attention, block.norm1(x), pair)
        x = x + y
        x = x + block.mlp(block.norm2(x))
        longer.append(pair)
    return model.logits(x), longer


# %% jupyter={"source_hidden": true}
kept, scores = [None, None], []
for token in new[:1, :64].split(1, dim=1):
    one, kept = step(model, token, kept)
    scores.append(one)
with torch.no_grad():
    difference = (torch.cat(scores, dim=1) - model(new[:1, :64])).abs().max().item()
print("character by character as all at once:", difference < 1e-3)
_, (k, _) = attend_with(Grouped(rotary), torch.zeros(1, 5, 64), None)
holds(k.shape == (1, 2, 5, 16), "GQA keeps two heads of keys.")

# %% [markdown]
# Count the work for one more character after 256. Without a cache 257 positions go through the model, so each product of matrices has 257 rows for one.

# %% jupyter={"source_hidden": true}
import time


@torch.no_grad()
def milliseconds(call, *inputs, times=20):
    spent = []
    for _ in range(times):
        start = time.process_time()
        call(*inputs)
        spent.append(1000 * (time.process_time() - start))
    return min(spent)


# %% tags=["predict"]
guess = predict(
    "How many times less processor time does it take with the cache?",
    ["about 257", "about 50", "less than 15"],
)


# %% tags=["reveal", "trained", "nbval-ignore-output"]
# Answer first, then run this cell.
ratios = {}
for length in (16, 256, 1024):
    row = torch.zeros(1, length + 1, dtype=torch.long, device=device)
    _, kept = step(model, row[:, :-1], [None, None])
    whole = milliseconds(model, row)
    last = milliseconds(step, model, row[:, -1:], kept)
    ratios[length] = whole / last
    told = f"{whole:6.2f} ms without, {last:5.2f} with: {whole / last:.1f} times"
    print(f"after {length:5,}: {told}")
ratio = ratios[256]
holds(ratios[16] < 4, "After 16 characters the cache saves next to no time.")
holds(ratio < 25, "The clock saves far less than 257.")
guess.reveal(
    "less than 15" if ratio < 15 else "about 50" if ratio < 120 else "about 257",
    why={
        "about 257": "That is the ratio of the operations.",
        "about 50": "The products shrink, and something else does not.",
        "less than 15": "Most of the time of one row is not spent on operations.",
    },
    after="After 16 characters it computes 17 times fewer rows, in nearly the same "
    "time. So that time goes into **calling** the functions of torch, as many at any "
    "length. Where the products are large, fewer operations become less time.",
)

# %% [markdown]
# ## A mask that leaks
#
# The mask once more, with a slip: at every fourth position one *later* key is visible, the next one. It is the character to be predicted.


# %%
def peeking(here, there):
    return there > here[:, None] + (here % 4 == 3)[:, None]


# %% [markdown]
# Two models, 150 steps, three seeds: the right mask, and this one. What do the losses say?

# %% tags=["trained"] jupyter={"source_hidden": true}
train, fresh, whole, prefix = (
    three(f"every fourth: {end}") for end in ("training", "new", "whole", "prefix")
)
clean = three("causal: new")
holds(max(clean) < 2.35, "With the right mask it has learned.")

# %% tags=["predict"]
guess = predict(
    "The mask leaks at every fourth position. On new text its loss is",
    ["higher than in training", "as in training", "as without the leak"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
MASKS = ("causal", "every fourth")
ENDS = {"training": ": training", "new text": ": new"}
ENDS["new text, every fourth position, whole rows"] = ": whole"
ENDS["the same, from a prefix"] = ": prefix"
for name, end in ENDS.items():
    print(name)
    tell(*MASKS, end=end)
holds(max(abs(a - b) for a, b in zip(train, fresh, strict=True)) < 0.15, "They agree.")
holds(max(fresh) < min(clean) - 0.2, "It looks like a better model.")
holds(min(prefix) > max(whole) + 1, "From a prefix it knows less.")
gap = sum(fresh) / 3 - sum(train) / 3
same = "as in training" if max(fresh) < min(clean) - 0.2 else "as without the leak"
guess.reveal(
    "higher than in training" if gap > 0.2 else same,
    why={
        "higher than in training": "So it is with memory. But the new text is given as "
        "a whole too, and holds its next characters.",
        "as in training": "The new rows hold their future as well.",
        "as without the leak": "The model has learned to use what it can see.",
    },
    after="The two losses agree, so comparing them is silent: the leak **looks like a "
    "good swap**. What shows it are two losses on the same characters: in whole rows, "
    "and from a prefix, which is all that a writing model has. With the right mask "
    "they are equal.",
)

# %% [markdown]
# One test finds a leak without any training: **change one character, and see whose scores move**.


# %%
def moved(model, at=40):
    row = new[:1, :64].clone()
    row[0, at] = (row[0, at] + 1) % len(alphabet)
    with torch.no_grad():
        change = (model(row) - model(new[:1, :64])).abs().amax((0, 2))
    return [p for p in range(at) if change[p] > 1e-5]


# %% jupyter={"source_hidden": true}
leaky = made()
print("right mask:", moved(leaky))
for block in leaky.blocks:
    block.attention.hidden = peeking
print("peeking, character 40 changed: position", moved(leaky), "moves")
print("peeking, character 41 changed:", moved(leaky, 41))

# %% [markdown]
# Changed at 40, position 39 moves: it may see 40. Changed at 41, none does: 40 is no such place. So change several characters, one at a time.
#
# ## An honest opponent
#
# How good is a loss of 1.67? An **n-gram** counts which character followed which n − 1 in the training text. If these stood there `total` times with `kinds` different ones after them, p = (count + kinds · p of the (n − 1)-gram) / (total + kinds). No gradient (folded).


# %% jupyter={"source_hidden": true}
from collections import Counter, defaultdict

lines = ["".join(alphabet[at] for at in row) for row in new]


def counted(n):
    """Count what follows each n characters that stand before a tested position."""
    wanted = {line[at - n : at] for line in lines for at in range(32, 64)}
    table = defaultdict(Counter)
    for at in range(n, len(known_text)):
        before = known_text[at - n : at]
        if before in wanted:
            table[before][known_text[at]] += 1
    return table


def probabilities(line, at):
    """Return the probability of a character from 0, 1, 2, ... characters before it."""
    p, found = 1 / len(alphabet), []
    for n, table in enumerate(tables):
        if (before := line[at - n : at]) in table:
            kinds, total = len(table[before]), sum(table[before].values())
            p = (table[before][line[at]] + kinds * p) / (total + kinds)
        found.append(p)
    return found


# %% jupyter={"source_hidden": true}
def kneser_ney(line, at, less=0.8):
    """Return the same, but shorter contexts count what different ones led to them."""
    p, found = 1 / len(alphabet), []
    for n, both in enumerate(zip(tables, different, strict=True)):
        for table in both:  # the counts of a longest context, then of a shorter one
            after = table.get(line[at - n : at], {None: 0})
            kinds, total = len(after), sum(after.values())
            share = max(after.get(line[at], 0) - less, 0) + less * kinds * p
            lower = share / total if total else p
            found += [lower] if table is both[0] else []
        p = lower
    return found


def counted_once(n):
    """Count, after each n characters, before how many different ones these stood."""
    wanted, table = set(counted(n)), defaultdict(Counter)
    pieces = {known_text[at - n - 1 : at + 1] for at in range(n + 1, len(known_text))}
    for piece in pieces:
        if piece[1:-1] in wanted:
            table[piece[1:-1]][piece[-1]] += 1
    return table


# %% tags=["trained"] jupyter={"source_hidden": true}
tables, different = [counted(n) for n in range(8)], [counted_once(n) for n in range(8)]
tested_at = [(line, at) for line in lines for at in range(32, 64)]
logs = torch.tensor([probabilities(*each) for each in tested_at]).log()
grams = dict(enumerate((-logs.mean(0)).tolist(), start=1))
met = sum(line[at - 7 : at] in tables[7] for line, at in tested_at) / len(tested_at)
holds(grams[3] < 2.2, "The table has learned its text.")
logs = torch.tensor([kneser_ney(*each) for each in tested_at]).log()
better = dict(enumerate((-logs.mean(0)).tolist(), start=1))

# %% tags=["predict"]
guess = predict(
    "With n from 3 to 8, the loss of the table on new text",
    ["falls all the way", "falls, then rises", "rises all the way"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
print(*(f"n = {n}: {grams[n]:.2f};" for n in range(3, 9)))
print("Kneser-Ney:", *(f"{better[n]:.2f};" for n in range(3, 9)))
print(f"7 characters before that stand in the training text: {met:.0%}")
print(f"our model {curve[32:64].mean():.2f}; after 3,000 steps, stored:", end=" ")
print(*(f"{loss:.2f}" for loss in three("3,000 steps: 32-63")))
lowest = min(range(3, 9), key=grams.get)
holds(3 < lowest < 8 and grams[lowest] < curve[32:64].mean() - 0.1, "It is ahead.")
holds(max(three("3,000 steps: 32-63")) < grams[lowest], "3,000 steps are ahead of it.")
guess.reveal(
    {3: "rises all the way", 8: "falls all the way"}.get(lowest, "falls, then rises"),
    why={
        "falls all the way": "So it would be if each context were met often enough.",
        "falls, then rises": "A longer context says more, and is met more rarely.",
        "rises all the way": "Two characters before are few: more of them say more.",
    },
    after="The best of these has a lower loss than 300 steps of training, and a higher "
    "one than 3,000. A better table, **Kneser-Ney**, does not rise, and beats both. So "
    "an opponent wants tuning too.",
)

# %% [markdown]
# ## Good in rows, bad in steps
#
# A model handed to you, with a cache of its own. Read both cells, the second is folded. It learns 150 steps, and continues a text twice: with `forward`, all anew for each character, and with `step`.


# %%
class HandedAttention(Attention):
    def forward(self, x, kept=None):
        q, k, v = self.heads_of(x)
        if kept is not None:
            k, v = torch.cat([kept[0], k], dim=2), torch.cat([kept[1], v], dim=2)
        there = torch.arange(k.shape[2], device=x.device)
        here = there[-x.shape[1] :]
        scores = self.scores(q, k, here, there)
        hidden = torch.ones_like(scores[0, 0]).triu(1) > 0  # what is later
        scores = scores.masked_fill(hidden, -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)


# %% jupyter={"source_hidden": true}
class Handed(Model):
    attention = HandedAttention

    def __init__(self):
        super().__init__(rotary, len(alphabet))
        for block in self.blocks:
            block.attention = self.attention(rotary)

    def logits(self, x):
        x = F.layer_norm(x, x.shape[1:])
        return (x * self.norm.weight + self.norm.bias) @ self.embed.weight.T

    def step(self, tokens, kept=None):  # to the scores, and what is kept now
        x, longer = self.embed(tokens), []
        for block, pair in zip(self.blocks, kept or [None, None], strict=True):
            y, pair = block.attention(block.norm1(x), pair)
            x = x + y
            x = x + block.mlp(block.norm2(x))
            longer.append(pair)
        return self.logits(x), longer

    def forward(self, tokens):
        return self.step(tokens)[0]


# %% tags=["trained"] jupyter={"source_hidden": true}
@torch.no_grad()
def in_steps(model, tokens, count, seed=1):
    generator, kept = torch.Generator().manual_seed(seed), None
    line = "".join(alphabet[at] for at in tokens[0])
    for _ in range(count):
        scores, kept = model.step(tokens, kept)
        tokens = draw(scores[:, -1], generator)
        line += alphabet[tokens.item()]
    return line


torch.manual_seed(0)
handed = learn(Handed().to(device), steps=150)
with torch.no_grad():
    loss = loss_at(handed, new[:, :65]).mean().item()
print(f"loss on new text: {loss:.2f}; causal, three seeds:", end=" ")
print(*(f"{each:.2f}" for each in three("causal: new")))
print("with forward:", repr(write(handed, prompt, 57)))
print("with step:   ", repr(in_steps(handed, prompt, 57)))
holds(loss < 2.35, "Its loss on whole rows is as low as it should be.")

# %% [markdown]
# ### Exercise 3 · 12 minutes · ●●●○○
#
# Return a new model, mended, with `forward(tokens)` and `step(tokens, kept=None)`: no score depends on a later character; in pieces of any lengths `step` gives the scores of the whole row; and the loss on new text after 150 steps is below 2.35. Any mend counts. Measure first, in a cell of your own.
#
# <details><summary>Hint 1</summary>Two tests of this lesson need no training: change one character, at several places; and compare pieces with all at once.</details>
# <details><summary>Hint 2</summary>Is the difference there for one new character, or only for several? With all at once? Which parts of the model see more than one position?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-model", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_model():
    """Return a new model, (batch, n) to (batch, n, 103), with a method step."""

    ### BEGIN SOLUTION
    class MendedAttention(Attention):
        def forward(self, x, kept=None):
            return attend_with(self, x, kept)

    class Mended(Handed):
        attention = MendedAttention

        def logits(self, x):
            return Model.logits(self, x)

    return Mended()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-model-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mended_model, "mended_model")

# %% [markdown]
# (Folded: the code of the stored runs.)

# %% jupyter={"source_hidden": true}
PARTS = {": 0-63": slice(0, 64), ": 32-63": slice(32, 64), ": 192-255": slice(192, 256)}


@torch.no_grad()
def measured(name, model, rule=None):
    for block in model.blocks if rule else ():
        block.attention.scores = rule
    curve = tested(model)
    return {name + end: curve[part].mean().item() for end, part in PARTS.items()}


# %% jupyter={"source_hidden": true}
def window_of(most, speed=SPEED):
    def rule(q, k, here, there):
        too_far = here[:, None] - there > most
        return rotary(q, k, here, there, speed).masked_fill(too_far, -torch.inf)

    return rule


def term_runs(trained):
    terms, found = mean_terms(trained), {}
    for at in (63, 160):
        found[f"pair 3: mean term at {at}"] = terms[3, at].item()
    return found


# %% jupyter={"source_hidden": true}
def position_runs(seed):
    trained = learn(made(rotary, seed), seed)
    found = term_runs(trained) | measured("rotary", trained)
    found |= measured("windowed", trained, windowed)
    caps = {"pairs 4 to 7": [4, 5, 6, 7], "all but pair 3": [0, 1, 2, 4, 5, 6, 7]}
    for name, pairs in caps.items():
        found |= measured(f"{name} capped", trained, partial(held, pairs=pairs))
    rules = shape_rules("rotary", SPEED) | lone_rules("rotary", SPEED)
    for name, rule in rules.items():
        found |= measured(name, trained, rule)
    return found


# %% jupyter={"source_hidden": true}
FIRST = (0, 2, 4, 8)


def shape_rules(name, speed, last=63):
    same, half = {"speed": speed, "last": last}, (last + 1) // 2
    rules = {f"{name}, from {at}": partial(around, first=at, **same) for at in FIRST}
    rules[f"{name}, far half"] = partial(around, first=half, **same)
    rules[f"{name}, lowered"] = lowered = partial(with_total_of, first=half, **same)
    return rules | {f"{name}, raised": partial(lowered, swapped=True)}


def lone_rules(name, speed):
    return {
        f"{name}, pair {pair} held at {at}": partial(
            held, pairs=[pair], at=at, speed=speed
        )
        for at in (30, 63)
        for pair in range(8)
    }


# %% jupyter={"source_hidden": true}
def base_runs(seed):
    found = {}
    for base in (500_000, 1_000, 100, 8):
        speed, name = base ** (-torch.arange(8) / 8), f"base {base:,}"
        trained = learn(made(partial(rotary, speed=speed), seed), seed)
        found |= measured(name, trained)
        found |= measured(f"{name}, windowed", trained, window_of(63, speed))
        lone = lone_rules(name, speed) if base == 500_000 else {}
        for told, rule in (shape_rules(name, speed) | lone).items():
            found |= measured(told, trained, rule)
    return found


# %% jupyter={"source_hidden": true}
def other_runs(seed):
    found = measured("alibi", learn(made(alibi, seed), seed))
    for length in (32, 128):
        trained = learn(made(rotary, seed), seed, length=length)
        most, name = length - 1, f"rows of {length}"
        found |= measured(name, trained)
        found |= measured(f"{name}, windowed", trained, window_of(most))
        for told, rule in shape_rules(name, SPEED, most).items():
            found |= measured(told, trained, rule)
    trained, name = learn(made(rotary, seed), seed, steps=3000), "3,000 steps"
    found |= measured(name, trained) | measured(f"{name}, windowed", trained, windowed)
    for told, rule in (shape_rules(name, SPEED) | lone_rules(name, SPEED)).items():
        found |= measured(told, trained, rule)
    return found


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def new_rows(model):
    return loss_at(model, new[:, :65]).mean().item()


LATER = ("plain", "post-norm", "mla", "alibi", "gated", "relu2")


def swap_runs(seed):
    found = {}
    for steps in (250, 1000):
        for name in SWAPS if steps == 250 else LATER:
            torch.manual_seed(seed)
            swapped = learn(Named(**SWAPS[name]).to(device), seed, steps=steps)
            end = ": 0-63" if steps == 250 else ": 1,000 steps"
            found[name + end] = new_rows(swapped)
    return found


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def fourth_places(model):
    """Return the loss at positions 7, 11, ... 59: in whole rows, and from a prefix."""
    ends = range(8, 64, 4)
    parts = [model(new[:, :n])[:, -1] for n in ends]
    parts = [F.cross_entropy(x, new[:, n]) for x, n in zip(parts, ends, strict=True)]
    return loss_at(model, new[:, :65])[7:60:4].mean().item(), sum(parts).item() / 14


def leak_runs(seed):
    masks = {"causal": later, "every fourth": peeking}
    masks["every one"] = lambda here, there: there > here[:, None] + 1
    found = {}
    for name, mask in masks.items():
        model = made(rotary, seed)
        for block in model.blocks:
            block.attention.hidden = mask
        learn(model, seed, steps=150)
        found[f"{name}: training"] = sum(model.losses[-10:]) / 10
        found[f"{name}: new"] = new_rows(model)
        found[f"{name}: whole"], found[f"{name}: prefix"] = fourth_places(model)
    return found


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, part=slice(None), within=0.4):
    """Return losses of all trainings that are stored."""
    found = {}
    parts = base_runs, other_runs, swap_runs, position_runs, leak_runs
    for runs_of_part in parts[part]:  # thirds of two to three minutes
        found |= runs_of_part(seed)
    return {name: round(loss, 4) for name, loss in found.items()}


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. A cause is found by changing one thing on the same weights. Here the far keys together get too much attention: distances of the row alone repair at most a third; without its nearest, or with all far scores lowered by one number, most of the rise is gone | bases 8 to 500,000 at 300 steps, rows of 32 to 128, base 10,000 at 3,000; positions to 255 |
# | 2. Positions, the placement of the norm, MLA and the feed-forward network count beyond three seeds; RMSNorm, GQA and MQA are not told apart | two blocks, width 64, 250 steps, one rate; after 1,000 steps most differences are smaller |
# | 3. A cache saves the factor T + 1 in operations, and far less on the clock while one row is too little work for a call | exact for products of matrices; one row, a small model |
# | 4. If a mask leaks, the loss on new text falls as in training. Change one character, at several places; whole rows against prefixes show a leak only where it helps | every leak that is used |

# %%
summary("10")

# %% [markdown]
# ## Next
#
# - This was the last lesson. [The appendix](10_configurable_block_more.ipynb): a loss that seems to rise, post-norm at six blocks, pieces of words and a text under sliders, the registry, the block and its attentions line by line.
# - [Homework for lesson 10](homework/hw_10.ipynb): an attention of your own, and its cache.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
