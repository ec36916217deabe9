# %% [markdown]
# # 09 · ViT-5, one change at a time
#
# 90 minutes by our count; readers took 107 to 125. Nothing is downloaded. It follows [lesson 08c](08c_selective_scan.ipynb). Of [lesson 08a](08a_attention.ipynb) it uses attention and the rotation of queries and keys, of [lesson 05](05_layer_scale.ipynb) LayerScale, and of [lesson 02](02_layer_norm.ipynb) LayerNorm and RMSNorm.
#
# By the end you can
#
# - **write** the angles of rotary positions on a grid, and a branch with two gates;
# - **say** which of seven changes a table of runs tells apart, and which it does not;
# - **look for** the control that a comparison lacks;
# - **say** how many runs a claim about two changes needs;
# - **find out** by a measurement of your own why a ViT stays behind, and mend it.
#
# A **vision transformer** (ViT, [Dosovitskiy et al., 2020](https://arxiv.org/abs/2010.11929)) cuts a picture into patches and reads them as a sequence. [ViT-5](https://arxiv.org/abs/2602.08071) (Wang et al., 2026) changes seven things in and around its attention and its MLP, several of them taken from language models. Its abstract reports 84.2 % on ImageNet-1k for ViT-5-Base, beside 83.8 % for DeiT-III-Base (a ViT with a better recipe of training, which has the first of the seven, LayerScale, already).
#
# Which of the seven does the work? What each gives on ImageNet stands in a table of the paper; it is not repeated here. On small pictures of letters a run takes seconds, so we can add and remove every change ourselves, with three seeds.

# %% jupyter={"source_hidden": true}
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import font_letters
from residual_course.exercises import check
from residual_course.lesson import holds, predict, progress, setup, show, stored_runs
from residual_course.lesson import summary
from residual_course.plots import changes as plots, vit5 as pictures

device = setup()
progress("09")

# %% [markdown]
# ## Ten letters
#
# A, B, C, D, E, F, G, H, K and R in fourteen fonts that ship with matplotlib, as 16 by 16 pixels: turned by up to 20 degrees, scaled by 0.8 to 1.2, moved by up to 2 pixels, with noise. 40,000 to train, and 1,000 new drawings in the same fonts to test.

# %% tags=["figure"]
training, test = (
    [part.to(device) for part in font_letters(*each)]
    for each in ((40_000, 0), (1000, 1))
)
ax = Figure(figsize=(6, 1.9)).add_subplot()
plots.plot_letters(test[0][:30, 0].cpu(), 3, ax)
ax.set_title("Thirty letters of the test")
show(ax.figure, alt="Thirty small grey letters in rows, turned, in many fonts.")

# %% [markdown]
# ## Two runs
#
# A small ViT (four blocks, width 48) and the same with all seven changes, trained in the same way: 300 steps of AdamW at rate 0.002, with 32 pictures each. These are 9,600 pictures, a quarter of one pass: what is compared is who learns fastest at first. (The code follows; these numbers were computed with it and are stored.)

# %% jupyter={"source_hidden": true}
stored = stored_runs("09_vit5_block")["runs"]


def three(name):
    return [stored[seed][name] for seed in range(3)]


def tell(*names, more=""):
    for name in names:
        told = "  ".join(f"{loss:.2f}" for loss in three(name + more))
        print(f"{name + more:48}", told)


# %% tags=["trained"] jupyter={"source_hidden": true}
for name in ("ViT", "ViT-5"):
    right, loss = three(f"{name}: right"), three(name)
    print(f"{name:6} right", *(f"{each:.0%}" for each in right), end="   ")
    print("test loss", *(f"{each:.2f}" for each in loss))
print("guessing: right 10%, test loss 2.30")
holds(max(three("ViT: right")) < 0.6 < 0.7 < min(three("ViT-5: right")), "It leads.")

# %% [markdown]
# The seven changes (3 and 5 to 7 act inside attention; 4 adds tokens):
#
# | | in ViT | in ViT-5 | used for |
# |---|---|---|---|
# | 1 LayerScale | x + f(norm(x)) | x + γ f(norm(x)); γ is learned, from 0.0001 | deep networks |
# | 2 RMSNorm | LayerNorm | no mean taken away, no bias | fewer operations |
# | 3 rotary | a learned vector for each place | besides it, q and k turn with row and column | places in every block |
# | 4 registers | | four more tokens that belong to no patch | room for what is of no place |
# | 5 their rotation | | the registers turn as well, on a grid of 2 by 2 | as in the authors' code |
# | 6 QK-norm | | RMSNorm on each q and each k | scores that stay bounded |
# | 7 no bias | q, k, v have a bias | they have none | fewer parameters |
#
# **Which of them make the difference? Write down your guess, and a reason.**
#
# ## The network, piece by piece

# %% tags=["figure"]
ax = Figure(figsize=(6, 2.1)).add_subplot()
pictures.plot_tokens(test[0][0, 0].cpu(), 4, ax)
ax.set_title("A letter, its 16 patches, and ViT-5's 21 tokens", loc="center")
alt = (
    "A letter cut into 4 by 4 patches; below, a row: CLS, the 16 patches, 4 registers."
)
show(ax.figure, alt=alt)

# %% [markdown]
# Each network is made from a dictionary `c` of settings. `embed` maps each of the 16 patches, 4 by 4 pixels, to 48 numbers. A patch does not know where it stands: the **position table** has a learned vector for each place, which is added. A **CLS** token, the same for every picture, comes first; the answer will be read from it. Registers come last.


# %%
class Tokens(nn.Module):
    def __init__(self, c, width=48):
        super().__init__()
        self.embed = nn.Conv2d(1, width, 4, 4)
        self.table = nn.Parameter(c["table"] * torch.randn(1, 16, width))
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.registers = nn.Parameter(0.02 * torch.randn(1, c["registers"], width))

    def forward(self, x):  # (n, 1, 16, 16) to (n, 17 or 21, 48)
        patches = self.embed(x).flatten(2).mT + self.table
        cls, registers = (t.expand(len(x), -1, -1) for t in (self.cls, self.registers))
        return torch.cat([cls, patches, registers], dim=1)


# %% [markdown]
# ### Positions that turn
#
# In lesson 08a, [rotary positions](https://arxiv.org/abs/2104.09864) turn each pair of features of q and k by position times a speed, and a score then depends on the distance of two positions. A patch has two numbers, row and column. So half of the pairs turn with the row, half with the column. With two pairs, the patches of a 2 by 2 grid have the angles
#
#     row 0, column 0: 0 0     row 0, column 1: 0 1
#     row 1, column 0: 1 0     row 1, column 1: 1 1
#
# (Of a head's 16 features, i and i + 8 are a pair.) With more pairs, pair j of each half has the speed $\text{base}^{-j/\text{pairs of the half}}$: with four pairs and base 100 that is 1 and 0.1, and the patch in row 2, column 3 has the angles 2, 0.2, 3, 0.3.
#
# ### Exercise 1 · 6 minutes · ●●○○○
#
# Write these angles for `side` × `side` patches, row by row: (side², pairs). `pairs` is even.
#
# <details><summary>Hint 1</summary>Two numbers for each patch, from its number in the sequence: which operations give row and column?</details>
# <details><summary>Hint 2</summary>A column of rows times a row of speeds has one angle for each patch and pair.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "grid-angles", "locked": false, "schema_version": 3, "solution": true, "task": false}
def grid_angles(side, pairs, base):
    """Return the angles of side by side patches, (side * side, pairs)."""
    ### BEGIN SOLUTION
    place, half = torch.arange(side * side), pairs // 2
    speeds = base ** (-torch.arange(half) / half)
    row, column = place // side, place % side
    return torch.cat([row[:, None] * speeds, column[:, None] * speeds], dim=1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "grid-angles-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(grid_angles, "grid_angles")

# %% [markdown]
# The library has them as `rotary_angles`, with the base 10,000. The registers' base is 100, and CLS, which belongs to no place, has a q and a k that are not turned, both as in the authors' code. (Folded: `turn`, which turns the pairs of q and k as in lesson 08a, and `angles_of`, the angles of all tokens.)

# %% jupyter={"source_hidden": true}
from residual_edu.parts.position import rotary_angles


def turn(x, angles):  # x: (..., tokens, 16), angles: (tokens, 8)
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def angles_of(c):
    patches = c["rotary"] * rotary_angles((4, 4), 16)
    registers = c["turned"] * rotary_angles((2, 2), 16, base=100.0)
    cls = torch.zeros(1, 8)
    return torch.cat([cls, patches, registers[: c["registers"]]]).float()


# %% [markdown]
# Let all 16 patches have the same key, so that a score can only depend on the place. CLS and all patches have the same query too: a patch's query is turned by its place, CLS's is not.

# %% tags=["predict"]
guess = predict(
    "CLS gives the 16 places the same scores as a patch with this query that stands",
    ["nowhere: no patch does", "in the middle", "at row 0, column 0"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
angles = angles_of({"rotary": 1, "registers": 0, "turned": 0})
q, k = torch.randn(2, 16, generator=torch.Generator().manual_seed(7))
queries, keys = (turn(each.expand(17, 16), angles) for each in (q, k))
scores = queries @ keys[1:].T / 4
axes = Figure(figsize=(7.2, 2.8)).subplots(1, 3)
titles = ("CLS's scores", "a patch at (0, 0): equal", "a patch at (2, 2): not")
for token, title, ax in zip((0, 1, 11), titles, axes, strict=True):
    plots.plot_on_grid(scores[token].view(4, 4), ax, digits=1)
    ax.set_title(title, loc="center")
alt = "Three grids of 16 scores: those of CLS and of a patch at row 0, column 0 are "
show(ax.figure, alt=alt + "equal; those of a patch at row 2, column 2 differ.")
same = [place for place in range(16) if scores[place + 1].equal(scores[0])]
print("patches whose query has the same 16 scores, bit for bit:", same)
guess.reveal(
    {(): "nowhere: no patch does", (0,): "at row 0, column 0"}.get(
        tuple(same), "in the middle"
    ),
    why={
        "nowhere: no patch does": "Not turned is turned by 0, which a place has too.",
        "in the middle": "The middle has angles of its own, and they are not 0.",
        "at row 0, column 0": "Its angles are 0: it is not turned either.",
    },
    after="A rotation has no value that means nowhere. The largest score need not be "
    "at that place.",
)

# %% [markdown]
# ### Attention, block, network
#
# Three heads of 16 features. (Folded: the MLP, 48 to 192 and back, with GELU between; and `start`: weights of linear maps from 0.5 / √width, since the authors' 0.02 at width 768 is 0.55 / √width. `embed` starts as torch starts it; the 0.02 of table, CLS and registers is not rescaled.)


# %%
class Attention(nn.Module):
    def __init__(self, c, width=48, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=c["bias"])
        self.out = nn.Linear(width, width)
        norm = partial(nn.RMSNorm, 16, 1e-6) if c["qk_norm"] else nn.Identity
        self.q_norm, self.k_norm = norm(), norm()

    def qkv_of(self, x, angles):  # three times (n, 3 heads, tokens, 16)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, 16)).permute(2, 0, 3, 1, 4)
        return turn(self.q_norm(q), angles), turn(self.k_norm(k), angles), v

    def forward(self, x, angles):  # (n, tokens, 48)
        y = F.scaled_dot_product_attention(*self.qkv_of(x, angles))
        return self.out(y.transpose(1, 2).flatten(2))


# %% jupyter={"source_hidden": true}
class GELU(nn.Module):
    def __init__(self, width=48, hidden=192):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


def start(layer):
    if isinstance(layer, nn.Linear):
        nn.init.trunc_normal_(layer.weight, std=0.5 / 48**0.5)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


# %%
class Block(nn.Module):
    def __init__(self, c, width=48):
        super().__init__()
        self.norm1, self.norm2 = (c["norm"](width, eps=1e-6) for _ in range(2))
        self.attention, self.mlp = Attention(c), c["mlp"]()
        gamma = torch.full((2, width), c["gamma"] or 1.0)  # None: 1, not trained
        self.gamma = nn.Parameter(gamma, requires_grad=c["gamma"] is not None)

    def forward(self, x, angles):
        x = x + self.gamma[0] * self.attention(self.norm1(x), angles)
        return x + self.gamma[1] * self.mlp(self.norm2(x))


# %%
class ViT(nn.Module):
    def __init__(self, c, width=48):
        super().__init__()
        self.tokens, self.out = Tokens(c), nn.Linear(width, 10)
        self.register_buffer("angles", angles_of(c))
        self.blocks = nn.ModuleList(Block(c) for _ in range(4))
        self.norm = c["norm"](width, eps=1e-6)
        self.apply(start)

    def forward(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            x = block(x, self.angles)
        return self.out(self.norm(x[:, 0]))  # CLS


# %% [markdown]
# (Folded: the settings. `VIT` and `VIT5` are dictionaries, and each change is one entry, such as `"rotary": 1` in the place of `"rotary": 0`; `"mlp"` is for later. Then the training: AdamW with weight decay 0.05 on all parameters, γ and the table among them; OneCycleLR raises the rate for a tenth of the steps and lowers it after, and moves AdamW's β₁ between 0.95 and 0.85, the other way; gradients are clipped at 1. `gates` multiplies the rate of γ alone, for later. And the test loss.)

# %% jupyter={"source_hidden": true}
VIT = {"gamma": None, "norm": nn.LayerNorm, "table": 0.02, "rotary": 0}
VIT |= {"registers": 0, "turned": 0, "qk_norm": False, "bias": True, "mlp": GELU}
CHANGES = {
    "LayerScale": {"gamma": 1e-4},
    "RMSNorm": {"norm": nn.RMSNorm},
    "rotary": {"rotary": 1},
    "registers": {"registers": 4},
    "their rotation": {"turned": 1},
    "QK-norm": {"qk_norm": True},
    "no bias": {"bias": False},
}
VIT5 = VIT.copy()
for change in CHANGES.values():
    VIT5 |= change


# %% jupyter={"source_hidden": true}
def train(net, seed=0, steps=300, rate=2e-3, clip=1.0, gates=1):
    groups = [{"params": []}, {"params": []}]
    for name, each in net.named_parameters():
        groups["gamma" in name]["params"].append(each)
    adam = torch.optim.AdamW(groups, rate, weight_decay=0.05, fused=True)
    peaks = [rate, gates * rate]
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, peaks, steps, pct_start=0.1)
    generator, (x, y) = torch.Generator().manual_seed(seed), training
    for _ in range(steps):
        rows = torch.randint(len(x), (32,), generator=generator).to(device)
        loss = F.cross_entropy(net(x[rows]), y[rows])
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), clip)
        adam.step()
        plan.step()
    return net


# %% jupyter={"source_hidden": true}
def made(c, seed=0, adjust=None):
    torch.manual_seed(seed)
    net = ViT(c).to(device)
    if adjust:
        adjust(net)
    return net


@torch.no_grad()
def tried(net):
    x, y = test
    logits = net(x)
    right = (logits.argmax(1) == y).float().mean()
    return F.cross_entropy(logits, y).item(), right.item()


# %% [markdown]
# ## Which of the seven?
#
# We take each out of ViT-5 alone (−), and add one after the other to ViT (+). Two of the stored runs, computed again here:

# %% tags=["trained"] jupyter={"source_hidden": true}
vit, vit5 = train(made(VIT)), train(made(VIT5))
for name, net in (("ViT", vit), ("ViT-5", vit5)):
    loss, right = tried(net)
    number = sum(p.numel() for p in net.parameters() if p.requires_grad)
    print(f"{name:6} test loss {loss:.2f}, right {right:.0%}; {number:,} parameters")
    holds(abs(loss - three(name)[0]) < 0.3, "The stored runs are those of this code.")

# %% tags=["trained"] jupyter={"source_hidden": true}
rows = {"ViT-5": three("ViT-5")}
rows |= {f"without {name}": three(f"− {name}") for name in [*CHANGES][:-1]}
rows["with the bias"] = three("− no bias")
without = dict(zip(CHANGES, [*rows.values()][1:], strict=True))
gaps = {name: (sum(x) - sum(rows["ViT-5"])) / 3 for name, x in without.items()}
widest = max(max(losses) - min(losses) for losses in rows.values())
holds(widest < 0.2, "Three seeds of one network are less than 0.2 apart.")

# %% [markdown]
# How large must a difference be to mean something? Three seeds of one network differ too. The rule of this lesson: two rows are **apart** if their means differ by more than 2.8 **standard errors** with three seeds each, or 2.2 with six. (Of two rows from one normal distribution, 1 pair in 20 is apart all the same: the numbers are Student's, for 4 and 10 degrees of freedom.)


# %%
from statistics import fmean, variance


def apart(a, b):
    error = ((variance(a) + variance(b)) / len(a)) ** 0.5
    return abs(fmean(a) - fmean(b)) > {3: 2.8, 6: 2.2}[len(a)] * error


# %% tags=["predict"]
guess = predict(
    "How many of the seven, taken out alone, leave a higher loss, apart from ViT-5's?",
    ["one", "two", "four", "all seven"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
ax = Figure(figsize=(6, 3.4)).add_subplot()
plots.plot_runs(rows, ax, beside="ViT-5")
ax.set_title("Taken out, four of seven raise the loss")
alt = "Test losses, three seeds each: without LayerScale, rotary or QK-norm far above "
show(ax.figure, alt=alt + "ViT-5; the other four within 0.1 of it, on both sides.")
print("raised by taking out", *(f"{name} {gap:+.2f};" for name, gap in gaps.items()))
seen = [name for name, losses in without.items() if apart(losses, rows["ViT-5"])]
print("apart:", ", ".join(seen))
raised = [name for name in seen if gaps[name] > 0]
holds(len(raised) == 4 and len(seen) == 5, "Four above, one below.")
COUNTS = {1: "one", 2: "two", 7: "all seven"}
guess.reveal(
    COUNTS.get(len(raised), "four"),
    why={
        "one": "One change could carry all of the gap. Here no single one does.",
        "two": "LayerScale and rotary positions raise it most. Two more are apart.",
        "four": "LayerScale, rotary positions, registers and QK-norm.",
        "all seven": "Each was chosen by someone who measured a gain, at another size "
        "and after longer training.",
    },
    after="Without RMSNorm it is lower, and apart as well. But seven pairs were looked "
    "at: where nothing differs, chance makes one of seven apart in 1 table of 5. So "
    "the five were trained with three more seeds:",
)

# %% tags=["trained"] jupyter={"source_hidden": true}
MORE = ", three more seeds"
FIVE = [f"− {name}" for name in seen]
tell("ViT-5", *FIVE, more=MORE)
still = [name for name in FIVE if apart(three(name + MORE), three(f"ViT-5{MORE}"))]
print("apart again:", ", ".join(still))
holds(still == ["− LayerScale", "− rotary", "− QK-norm"], "Three are apart again.")
out = ["LayerScale", "rotary", "QK-norm"]

# %% [markdown]
# RMSNorm's difference is gone, and that of the registers has changed its sign. Three changes are left: **what was found by looking at many rows must be found once more with new seeds**.
#
# And on the way up, one change after the other?

# %% tags=["figure", "trained"]
path = {"ViT": three("ViT"), "+ LayerScale": three("LayerScale alone")}
path |= {f"+ {name}": three(f"+ {name}") for name in [*CHANGES][1:-2]}
path |= {"+ QK-norm": three("− no bias"), "+ no bias: ViT-5": three("ViT-5")}
ax = Figure(figsize=(6, 3.4)).add_subplot()
plots.plot_runs(path, ax)
ax.set_title("The same three make the largest steps")
alt = "Test losses after 300 steps as one change after the other is added: large steps "
show(ax.figure, alt=alt + "at LayerScale, rotary and QK-norm.")
mean = [sum(losses) / 3 for losses in path.values()]
steps = [a - b for a, b in zip(mean[:-1], mean[1:], strict=True)]
large = sorted(range(7), key=lambda at: -steps[at])[:3]
holds({[*CHANGES][at] for at in large} == set(out), "The same three.")
found = [*path.values()]
passed = [[*CHANGES][at] for at in range(7) if apart(found[at], found[at + 1])]
print("apart from the row before:", ", ".join(passed))
holds(passed == out, "The same three steps are apart on the way up.")

# %% [markdown]
# **Taken out of ViT-5, 300 steps at rate 0.002, LayerScale, rotary positions and QK-norm count; what the other four do, these seeds do not tell.** RMSNorm is used for its fewer operations, and registers were made for large networks ([Darcet et al., 2023](https://arxiv.org/abs/2309.16588); what four of them get here: [appendix](09_vit5_block_more.ipynb)).
#
# ## Is there a control?
#
# A comparison says as much about the baseline. ViT has numbers of its own that are in no list of changes. Three of them were tried at a tenth and at ten times, and the first two at half and twice as well:
#
# - the rate;
# - the size of the first weights in all linear maps;
# - the size with which the position table starts.

# %% tags=["trained"] jupyter={"source_hidden": true}
names = {"rate × 0.1": "", "rate × 0.5": "ViT, rate .001", "rate × 2": "ViT, rate .004"}
names |= {"rate × 10": ""} | {f"first weights × {f}": "" for f in (0.1, 0.5, 2, 10)}
names |= {"table × 0.1": "", "table × 10": "table from 0.2"}
numbers = [*names]
names = {"ViT": ""} | names | {f"{name} alone": "" for name in out}
alone = {name: three(row or name) for name, row in names.items()}
mean = {name: sum(losses) / 3 for name, losses in alone.items()}
holds(1.2 < mean["ViT"] < 1.9, "The stored runs are those of ViT.")
KINDS = {"rate": "the rate", "first": "the first weights", "table": "the table"}

# %% tags=["predict"]
guess = predict(
    "Which of the three numbers, at another value, lowers ViT's mean loss most?",
    ["the rate", "the first weights", "the table", "none of them"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
ax = Figure(figsize=(6, 4.6)).add_subplot()
plots.plot_runs(alone, ax)
ax.set_title("Of these values, a table × 10 is lowest")
alt = "Test losses, three seeds: ViT at 1.6; with first weights twice as large, and "
alt += "with three named changes, 1.0 to 1.3; with a table ten times as large 0.9 "
alt += "to 1.1; other rates, smaller weights and a smaller table help little or not."
show(ax.figure, alt=alt)
TABLE, lowest = "table from 0.2", min(numbers, key=mean.get)
print("ViT, table × 10: right", *(f"{r:.0%}" for r in three(f"{TABLE}: right")))
holds(min(mean, key=mean.get) == "table × 10", "The table from 0.2 is lowest.")
gains = mean["ViT"] - mean[lowest] > 0.1
guess.reveal(
    KINDS[lowest.split()[0]] if gains else "none of them",
    why={
        "the rate": "Twice it changes little; the others are worse.",
        "the first weights": "Twice as large they help. Another number does more.",
        "the table": "Ten times as large. Its mean is below that of each change alone.",
        "none of them": "Two of the three are far from the best of these values.",
    },
    after="A table from 0.2 costs no time and no parameter. A baseline is rarely tuned "
    "as carefully as what is compared with it.",
)

# %% [markdown]
# (Not apart from rotary alone; three more seeds follow.)
#
# ## What the table does
#
# Compare the table with what it is added to. As size we take the root of the mean square (RMS):

# %% tags=["trained"] jupyter={"source_hidden": true}
tell(TABLE, "rotary alone", more=", three more seeds")
low, high = (three(f"{name}, three more seeds") for name in (TABLE, "rotary alone"))
low, high = (
    first + three(name) for first, name in ((low, TABLE), (high, "rotary alone"))
)
print("six seeds, apart:", apart(low, high))
holds(apart(low, high), "With six seeds the table is lower.")
with torch.no_grad():
    for name, tokens in (("new", made(VIT).tokens), ("after 300 steps", vit.tokens)):
        sizes = [
            z.square().mean().sqrt() for z in (tokens.embed(test[0]), tokens.table)
        ]
        print(f"{name:16} a patch {sizes[0]:.2f}, the table {sizes[1]:.3f}")
holds(0.01 < sizes[1] < 0.15, "The table stays small.")

# %% [markdown]
# The norm before the first attention sees patches with hardly any place in them, and in 300 steps the table does not grow to their size. Two questions, each with rows of its own:
#
# - must places *differ*? One learned vector from 0.2, the same for all places;
# - must the table be *learned*? Random tables from 0.2 and from 0.02, never trained.

# %% tags=["trained"] jupyter={"source_hidden": true}
places = {
    "from 0.02": three("ViT"),
    "learned? from 0.02, fixed": three("from 0.02, not trained"),
    "from 0.2": three(TABLE),
    "learned? from 0.2, fixed": three(f"{TABLE}, not trained"),
    "differ? from 0.2, one vector": three("one vector from 0.2 for all"),
}
low, high = (max(places["from 0.2"]), min(places["from 0.02"]))
holds(low < high, "A table from 0.2 is lower.")

# %% tags=["predict"]
guess = predict(
    "Tables that are never trained. Which is about as good as the same one trained?",
    ["the one from 0.2", "the one from 0.02", "both", "neither"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
ax = Figure(figsize=(6, 3.4)).add_subplot()
plots.plot_runs(places, ax)
ax.set_title("What is missing: places that differ")
alt = "Test losses after 300 steps. From 0.02: 1.6, not trained 2.0. From 0.2: 1.0, "
show(ax.figure, alt=alt + "trained or not; one vector for all 2.0.")
holds(min(places["differ? from 0.2, one vector"]) > 1.2, "Places must differ.")
kept = [
    abs(sum(places[size]) - sum(places[f"learned? {size}, fixed"])) < 0.3
    for size in ("from 0.2", "from 0.02")
]
holds(kept == [True, False], "From 0.2 it need not be learned, from 0.02 it must.")
guess.reveal(
    ["neither", "the one from 0.02", "the one from 0.2", "both"][2 * kept[0] + kept[1]],
    why={
        "the one from 0.2": "Random vectors differ, and at this size they are seen.",
        "the one from 0.02": "It has most to learn, and not trained it stays small.",
        "both": "Random vectors differ. But small ones are lost beside the patches.",
        "neither": "A random vector marks a place as well as a learned one.",
    },
    after="One vector for all places is worse than the table from 0.02, whose places "
    "differ a little.",
)

# %% [markdown]
# **What the plain ViT lacks in these 300 steps is a difference between places that is not lost beside the patches.** From 0.2 the table need not be learned; from 0.02 nearly all that it gives is learned. (The code of these rows is folded, at the end.)
#
# Then what is rotary's part in ViT-5? ViT-5 without and with it, first as above, then with a table from 0.2:

# %% tags=["trained"] jupyter={"source_hidden": true}
pairs = [("− rotary", "ViT-5"), ("− rotary, table from 0.2", "ViT-5, table from 0.2")]
for pair in pairs:
    tell(*pair)
costs = [sum(three(without)) / 3 - sum(three(name)) / 3 for without, name in pairs]
print("mean cost of taking rotary out:", " and ".join(f"{c:.2f}" for c in costs))
holds(0.04 < costs[1] < costs[0] / 2, "With the table rotary gives less.")

# %% [markdown]
# With a table from 0.2, a quarter of rotary's gain remains, at this rate.
#
# ## One number, or seven changes?
#
# Does anything remain for the changes? ViT with a table from 0.2, alone and with one or two of them, 300 steps; then 1,000 steps:

# %% tags=["trained"] jupyter={"source_hidden": true}
LQ = f"{TABLE}, LayerScale, QK-norm"
tell(TABLE, f"{TABLE} and LayerScale", f"{TABLE} and QK-norm", LQ, "ViT-5")
tell(TABLE, "ViT-5", more=", 1,000 steps")
pair = three(f"{TABLE} and LayerScale") + three(f"{TABLE} and QK-norm")
holds(max(pair) < min(three(TABLE)), "Beside the table each of them still helps.")
level = sum(three(f"{TABLE}, 1,000 steps")) / sum(three("ViT-5, 1,000 steps"))
holds(0.8 < level < 1.4, "After 1,000 steps the two are about level.")

# %% [markdown]
# With the table alone the plain ViT is level with ViT-5 after 1,000 steps. So one number does what seven changes do? The comparison has a fault.

# %% tags=["trained"] jupyter={"source_hidden": true}
SEVEN, LATER = "ViT-5, table from 0.2", ", 1,000 steps"


def by_rate(name, more=""):
    told = {1: ", rate .001", 2: "", 4: ", rate .004", 8: ", rate .008"}
    rows = {rate: f"{name}{end}{more}" for rate, end in told.items()}
    rows[16] = f"{name}, rate .016{more}"
    return {r / 1000: three(row) for r, row in rows.items() if row in stored[0]}


def best(name, more=LATER):
    return min(by_rate(name, more).values(), key=sum)


def ratios_of():
    bare, seven = (sum(three(f"{name}{LATER}")) for name in (TABLE, "ViT-5"))
    table = bare / sum(three(f"{SEVEN}{LATER}"))
    rates = sum(best(TABLE)) / sum(best("ViT-5"))
    found = {"as above": bare / seven, "the same table in ViT-5": table}
    return found | {
        "a rate for each": rates,
        "both": sum(best(TABLE)) / sum(best(SEVEN)),
    }


holds(len(by_rate("ViT-5")) == 5, "ViT-5 was trained at five rates.")

# %% tags=["predict"]
guess = predict(
    "Which control changes the ratio of these two losses at 1,000 steps most?",
    ["the same table in ViT-5", "a rate for each", "neither: it stays near 1.1"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
ax = Figure(figsize=(6, 3)).add_subplot()
four = {"ViT": "ViT", "ViT, table from 0.2": TABLE, "ViT-5": "ViT-5"}
four["ViT-5, table from 0.2"] = SEVEN
plots.plot_rates({short: by_rate(name) for short, name in four.items()}, ax)
ax.set_title("300 steps: 0.002 is the best for one of four")
alt = "Test loss after 300 steps by rate, 0.001 to 0.016. ViT with a table from 0.2 is "
alt += "lowest at 0.002, 1.0; ViT-5 at 0.004 and 0.008, 0.55, with the table 0.45; "
show(ax.figure, alt=alt + "ViT stays above 1.4.")
ratios = ratios_of()
print("1,000 steps: mean loss of ViT with a table from 0.2, over ViT-5's")
for name, ratio in ratios.items():
    print(f"{name:24} {ratio:.1f}")
holds(min(ratios["both"], ratios["a rate for each"]) > 1.3, "ViT-5 leads.")
most = max([*ratios][1:3], key=ratios.get)
guess.reveal(
    most if ratios[most] > 1.2 else "neither: it stays near 1.1",
    why={
        "the same table in ViT-5": "At this rate it gains from it as well, by little.",
        "a rate for each": "One rate served all. Nobody had looked whom it suits.",
        "neither: it stays near 1.1": "Both sides would have to gain alike from both.",
    },
    after="We had tuned the baseline, and not what it is compared with. Our own "
    "control lacked one.",
)

# %% [markdown]
# Now 1,000 steps at all rates that were tried: mean losses, and the three seeds at the best rate (picked on the letters of the test, for all alike). A dash was not run. One more control stands below: first weights × 2, which helped the plain ViT, in both; in the plain ViT beside a table from 0.4. Then new seeds.

# %% tags=["trained"] jupyter={"source_hidden": true}
RATES_SHOWN = (1, 2, 4, 8, 16)


def by_rates(shown, more=""):
    head = " ".join(f".{rate:03d}" for rate in RATES_SHOWN)
    steps = "1,000 steps, rate" if more else "300 steps, rate"
    print(f"{steps:42} {head}  at its best")
    for short, name in shown.items():
        found = by_rate(name, more)
        means = {rate: f"{sum(losses) / 3:.2f}" for rate, losses in found.items()}
        told = (means.get(rate / 1000, "   –") for rate in RATES_SHOWN)
        print(f"{short:42}", *told, "", *(f"{x:.2f}" for x in best(name, more)))


five = {short: name for short, name in four.items() if name != SEVEN}
five["ViT-5, table from 0.2"] = SEVEN
TWICE = ", first weights × 2"
WIDE = f"table from 0.4{TWICE}"
five |= {f"ViT, {WIDE}": WIDE, f"ViT-5{TWICE}": f"ViT-5{TWICE}"}
by_rates(five, LATER)
holds(max(best(SEVEN)) < min(best(TABLE)), "With both tuned, ViT-5 leads.")
TWO = f"ViT-5{TWICE}, rate .008"
tell(TABLE, WIDE, "ViT-5, rate .008", TWO, more=LATER + MORE)


# %% tags=["trained"] jupyter={"source_hidden": true}
def six(name):
    return three(name + LATER) + three(name + LATER + MORE)


for one, other in ((WIDE, "ViT-5, rate .008"), (WIDE, TWO), ("ViT-5, rate .008", TWO)):
    means = (f"{fmean(six(name)):.2f}" for name in (one, other))
    print("six seeds:", *means, "apart" if apart(six(one), six(other)) else "not apart")
holds(not apart(six(WIDE), six("ViT-5, rate .008")), "Tuned, the plain ViT is near.")
holds(apart(six(WIDE), six(TWO)), "With the same control in both ViT-5 is ahead.")

# %% [markdown]
# **After 1,000 steps at rate 0.002, the plain ViT with a table from 0.2 is level with ViT-5. Each at its best rate, its loss is about twice ViT-5's. First weights × 2 and a table from 0.4 take it to .14 over six seeds, with none of the seven changes, not apart from ViT-5's .12. And with first weights × 2 in both, ViT-5 is ahead again.** A control on one side alone says what was tuned less; the same on both sides says what the changes do. Where the best rate stands at an edge of what was tried, a better one may lie outside.
#
# And the first table, of what is taken out of ViT-5? It was made at 0.002. At 0.008:

# %% tags=["predict"]
guess = predict(
    "Taking QK-norm out cost .17 at 0.002, in 300 steps. At 0.008 it costs",
    ["next to nothing", "about as much", "more than twice as much"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
FAST_RATE = ", rate .008"
tell("ViT-5", *(f"− {name}" for name in out), more=FAST_RATE)
fast = sum(three(f"ViT-5{FAST_RATE}")) / 3
costs = {name: sum(three(f"− {name}{FAST_RATE}")) / 3 - fast for name in out}
cost = costs["QK-norm"]
holds(min(costs.values()) > 0.2, "Each of the three counts at this rate too.")
guess.reveal(
    "next to nothing"
    if cost < 0.08
    else "about as much"
    if cost < 0.34
    else "more than twice as much",
    why={
        "next to nothing": "The bound on the scores would have to matter less.",
        "about as much": "So it would be if the rate made no difference.",
        "more than twice as much": "Two seeds go wrong without it: the rate is too "
        "high for that network.",
    },
    after="All three cost here, QK-norm not apart.",
)

# %% [markdown]
# ## Two gates in one branch
#
# Language models mostly have **SwiGLU** ([Shazeer, 2020](https://arxiv.org/abs/2002.05202)) in the place of the MLP: one map makes content, a second one multiplies it feature by feature. With silu(z) = z · sigmoid(z), content 2 and gate 3 give 2 · 3 · 0.95 = 5.7. ViT-5 keeps GELU, and the paper says why: beside LayerScale, which gates each feature too, SwiGLU would be one gate too many ("over-gating").
#
# ### Exercise 2 · 6 minutes · ●●○○○
#
# Write such a branch with both gates, and its skip. `norm`, `up`, `gate` and `down` are maps to call; `up` makes the content, `gamma` is LayerScale's vector.
#
# <details><summary>Hint 1</summary>Name norm(x) first: who reads it, and who reads x itself?</details>
# <details><summary>Hint 2</summary><code>F.silu</code> stands on one of the two maps that read norm(x). What remains to be multiplied after <code>down</code>?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "gated-branch", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gated_branch(x, norm, up, gate, down, gamma):
    """Return x after a branch with SwiGLU and LayerScale."""
    ### BEGIN SOLUTION
    n = norm(x)
    return x + gamma * down(F.silu(gate(n)) * up(n))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gated-branch-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(gated_branch, "gated_branch")

# %% [markdown]
# (Folded: the same for our network, with as many weights as the MLP's maps, 3 · 48 · 128 = 2 · 48 · 192, and no bias.)


# %% jupyter={"source_hidden": true}
class SwiGLU(nn.Module):
    def __init__(self, width=48, hidden=128):
        super().__init__()
        self.up, self.gate = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


# %% [markdown]
# A first try at the old rate, 0.002: ViT-5, and ViT-5 with SwiGLU, 300 steps.

# %% tags=["trained"] jupyter={"source_hidden": true}
tell("ViT-5", "SwiGLU, LayerScale")
holds(max(three("SwiGLU, LayerScale")) < min(three("ViT-5")), "SwiGLU is lower here.")

# %% [markdown]
# SwiGLU is a little lower. Is the paper refuted?

# %% tags=["predict"]
guess = predict(
    "Which networks must one train, beside these two, to test its claim?",
    ["none: these two say it", "SwiGLU without LayerScale", "both without LayerScale"],
)

# %% tags=["reveal"]
# Answer first, then run this cell.
needed = [(mlp, scaled) for mlp in ("GELU", "SwiGLU") for scaled in (True, False)]
missing = [mlp for mlp, scaled in needed if not scaled]  # both of these have LayerScale
guess.reveal(
    "both without LayerScale" if len(missing) == 2 else f"{missing[0]} without it",
    why={
        "none: these two say it": "Both have LayerScale: they say what SwiGLU adds.",
        "SwiGLU without LayerScale": "It says what LayerScale adds to SwiGLU, and not "
        "whether that is less than elsewhere.",
        "both without LayerScale": "Two gains of LayerScale can then be compared.",
    },
    after="The claim is about what *LayerScale adds beside SwiGLU, compared with what "
    "it adds beside GELU*. That takes four networks.",
)

# %% [markdown]
# 1,000 steps, each network at the best of its rates (two were tried without gates, three with), six seeds. Beside GELU:

# %% tags=["trained"] jupyter={"source_hidden": true}
SQUARE = {"GELU": ("− LayerScale", "ViT-5, rate .008")}
SQUARE["SwiGLU"] = ("SwiGLU", "SwiGLU, LayerScale, rate .008")


def tell_six(*names):
    for name in names:
        print(f"{name:30}", "  ".join(f"{loss:.2f}" for loss in six(name)))


tell_six(*SQUARE["GELU"])
found = {mlp: [six(name) for name in pair] for mlp, pair in SQUARE.items()}
change = {mlp: (sum(both) - sum(bare)) / 6 for mlp, (bare, both) in found.items()}
holds(change["GELU"] < -0.03, "LayerScale helps GELU.")

# %% tags=["predict"]
guess = predict(
    "Beside SwiGLU, LayerScale changes the mean loss",
    ["down, as beside GELU", "hardly at all", "up"],
)

# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
ax = Figure(figsize=(6, 3)).add_subplot()
plots.plot_four(found, ["no gate", "LayerScale"], ax)
ax.set(title="LayerScale: down beside GELU, up beside SwiGLU", ylabel="test loss")
alt = "Two lines from no gate to LayerScale, six seeds: GELU's falls, SwiGLU's, which "
show(ax.figure, alt=alt + "is lowest without a gate, rises a little.")
tell_six(*SQUARE["SwiGLU"])
print("mean change:", *(f"{mlp} {by:+.3f};" for mlp, by in change.items()))
holds(change["SwiGLU"] > 0.01, "Beside SwiGLU it costs.")
guess.reveal(
    "up"
    if change["SwiGLU"] > 0.01
    else "hardly at all"
    if change["SwiGLU"] > -0.02
    else "down, as beside GELU",
    why={
        "down, as beside GELU": "Then the two gains would add up.",
        "hardly at all": "Then the gain of one would be gone, and no more.",
        "up": "The lowest of the four is SwiGLU without it.",
    },
    after="The two means change in opposite directions, as the paper's word says.",
)

# %% [markdown]
# Which of the two pairs is apart? And, for each seed, how much higher is LayerScale's change beside SwiGLU than beside GELU?

# %% tags=["trained"] jupyter={"source_hidden": true}
print("apart:", *(mlp for mlp, pair in found.items() if apart(*pair)))
by_seed = {
    mlp: [b - a for a, b in zip(*pair, strict=True)] for mlp, pair in found.items()
}
more = [b - a for a, b in zip(by_seed["GELU"], by_seed["SwiGLU"], strict=True)]
print("change beside SwiGLU minus change beside GELU:", *(f"{x:+.2f}" for x in more))
holds(min(more) > 0, "In each seed LayerScale helps GELU more.")

# %% [markdown]
# **Each at the best rate tried, after 1,000 steps, LayerScale lowers the loss beside GELU (.19 to .12, apart). Beside SwiGLU it does not: .08 goes to .10, up in five of six seeds, not apart. The difference of the two changes, which is what the claim is about, is above 0 in each of the six seeds.** The paper's choice, GELU with LayerScale, is not the lowest here: SwiGLU *without* LayerScale is.
#
# And SwiGLU is none of the seven. What does it do in the plain ViT with a table from 0.2? 1,000 steps at rate 0.002, six seeds:

# %% tags=["trained"] jupyter={"source_hidden": true}
furthest = "ViT, table from 0.2, SwiGLU"
tell_six(TABLE, furthest, "ViT-5, rate .008")
lower = [
    name for name in (TABLE, "ViT-5, rate .008") if apart(six(furthest), six(name))
]
print("apart from", furthest + ":", ", ".join(lower))
holds(len(lower) == 2, "SwiGLU takes the plain ViT below ViT-5.")

# %% [markdown]
# So the plain ViT at the first rate tried is below ViT-5 at its best rate (not apart from ViT-5 with first weights × 2, .10).

# %% [markdown]
# ## The gates, or their start?
#
# Gates that start at 0.0001 change three things: there are gates, branches start small, and they stay small for a while. So three controls at rate 0.002, where the cost is largest: gates that are learned as before, but from 1, 0.2 or 0.03; branches that start at 0 *without* gates (the last map of each from 0); gates that are learned at ten times the rate, all else at 0.002. And where do the gates get to? Their mean size, of three seeds:

# %% tags=["trained"] jupyter={"source_hidden": true}
kinds = ["SwiGLU", "SwiGLU, branches from 0"]
kinds += [f"SwiGLU, gates from {size}" for size in (1, 0.2, 0.03)]
FAST = "SwiGLU, LayerScale, rate of gates × 10"
tell(*kinds, "SwiGLU, LayerScale", FAST, more=LATER)
print("mean size of the gates")
for name in (f"{x}{LATER}" for x in ("SwiGLU, LayerScale", FAST, kinds[2])):
    sizes = [sum(three(f"{name}: gate {number}")) / 3 for number in range(8)]
    told = [sum(sizes[first::2]) / 4 for first in (0, 1)]
    print(f"{name:52} attention {told[0]:.3f}, MLP {told[1]:.3f}")
slow, fast, bare = (
    sum(three(f"{name}{LATER}")) for name in ("SwiGLU, LayerScale", FAST, "SwiGLU")
)
holds(bare < fast < slow, "Gates that learn faster cost less.")

# %% [markdown]
# And the *gain* beside GELU? Branches from 0 without gates there, at the same rate, six seeds:

# %% tags=["trained"] jupyter={"source_hidden": true}
START = "− LayerScale, branches from 0"
tell_six(START)
pairs = ((START, "− LayerScale"), (START, "ViT-5, rate .008"))
for one, other in pairs:
    word = "apart" if apart(six(one), six(other)) else "not apart"
    print(f"from 0, and {other}: {word}")
holds(apart(six(START), six("− LayerScale")), "A start at 0 helps without a gate.")

# %% [markdown]
# So beside GELU most of LayerScale's gain (.19 to .12) comes with a start at 0, without a gate; beside SwiGLU that start changes nothing.
#
# Neither gates from 1 nor branches from 0 without gates cost SwiGLU anything. But gates from 1 hardly move: they are nearly none. **What costs is gates that stay small: from 0.03 as much as from 0.0001, from 0.2 about half.** With ten times the rate for the gates alone they grow to 0.15 and more, and the cost goes from .08 to .03.
#
# Limits: width 48, four blocks, each picture seen less than once on average, no stochastic depth (blocks left out at random in training, [lesson 03](03_dropout_and_stochastic_depth.ipynb)); whether more steps close the gap was not run. The paper's claim is about ImageNet.

# %% [markdown]
# ## QK-norm and the bias, on paper
#
# **QK-norm** ([Henry et al., 2020](https://arxiv.org/abs/2010.04245)). RMSNorm makes the mean square of the 16 features 1, so |q| = |k| = √16 (times learned gains, 1 at the start). Rotation keeps lengths. Then
#
# $$\left|\frac{q \cdot k}{\sqrt{16}}\right| \le \frac{|q|\,|k|}{\sqrt{16}} = \sqrt{16} = 4$$
#
# So a score can grow only with the gains, and this is what QK-norm is used for. At the first step here it does the opposite:


# %% tags=["trained"] jupyter={"source_hidden": true}
@torch.no_grad()
def first_scores(c):
    net = made(c)
    x = net.tokens(test[0][:200])
    block = net.blocks[0]
    q, k, _ = block.attention.qkv_of(block.norm1(x), net.angles)
    return q @ k.mT / 4


bare, normed = (first_scores(VIT5 | {"qk_norm": on}) for on in (False, True))
for name, scores in (("without", bare), ("with", normed)):
    print(f"{name:8} a new network's scores have the standard deviation", end="")
    print(f" {scores.std():.2f}")
holds(normed.std() > 1.25 * bare.std(), "With QK-norm new scores are larger.")

# %% [markdown]
# q and k start short, and are made as long as √16. Whether this helps in 300 steps, or the bound, was not separated. (The bound at a high rate: [appendix](09_vit5_block_more.ipynb).)
#
# **The bias of k** adds $q \cdot b$ to the score of every key alike, and a softmax ignores that: in the plain ViT these 48 numbers a block do nothing. With rotation or QK-norm it is no longer the same for every key.

# %% [markdown]
# ## A ViT that stays behind
#
# This plain ViT raises no error, and its loss falls. It is trained as above, and stays behind.


# %%
class Handed(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embed = nn.Conv2d(1, width, 4, 4)
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.register_buffer("table", 0.02 * torch.randn(1, 1, width))
        self.register_buffer("angles", torch.zeros(17, 8))
        self.blocks = nn.ModuleList(Block(VIT) for _ in range(4))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.embed(x).flatten(2).mT * 48**0.5  # as Vaswani et al. (2017) do
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.table
        for block in self.blocks:
            x = block(x, self.angles)
        return self.out(self.norm(x[:, 0]))


# %% tags=["trained"] jupyter={"source_hidden": true}
torch.manual_seed(0)
handed = train(Handed().to(device))
loss, right = tried(handed)
print(f"300 steps: test loss {loss:.2f}, right {right:.0%}")
holds(right < 0.46, "The handed network stays behind.")

# %% [markdown]
# ### Exercise 3 · 20 minutes · ●●●●○
#
# Return a new network, with `embed`, `blocks` and `out` as here, that names at least half of the new letters after 300 steps at rate 2e-3 from seed 0. Any mend counts; the lesson's plain ViT (49 %) is not enough. Train nothing before a measurement on a *new* network has told you what this one cannot know, and measure again after each mend: one may not be enough.
#
# <details><summary>Hint 1</summary>What does a bag of patches not tell? Give a new network a picture, and the same picture with its patches in another order.</details>
# <details><summary>Hint 2</summary>Print two sizes: how far two rows of what is added differ, and what it is added to, as it is when it is added.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-vit", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_vit():
    """Return a network, (n, 1, 16, 16) to (n, 10)."""

    ### BEGIN SOLUTION
    class Mended(Handed):
        def __init__(self):
            super().__init__()
            self.table = 48**0.5 * 0.2 * torch.randn(1, 17, 48)

    @torch.no_grad()
    def measured(net, name):
        x = test[0][:100].cpu()
        logits, moved = net(x), net(x.roll(4, dims=2))  # the patches in another order
        patch = (net.embed(x) * 48**0.5).square().mean().sqrt()
        rows = net.table - net.table.mean(1, keepdim=True)
        order = (moved - logits).std() / logits.std()
        print(f"{name:16} order moves {order:.4f}; ", end="")
        print(f"patch {patch:.1f}, rows differ by {rows.square().mean().sqrt():.2f}")

    measured(Handed(), "as handed")
    one = Handed()
    one.table = 0.02 * torch.randn(1, 17, 48)
    measured(one, "17 rows of 0.02")
    measured(Mended(), "17 rows of 1.4")
    return Mended()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-vit-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mended_vit, "mended_vit")

# %% [markdown]
# ## Which to switch on
#
# In your own ViT, check that the position table is not far smaller than the patches. Tune the rate of every network that you compare. Then try LayerScale, QK-norm and rotary positions, and SwiGLU, with three seeds each; keep what is apart.

# %% [markdown]
# (Folded: the code of the stored runs.)


# %% jupyter={"source_hidden": true}
def frozen(net):
    net.tokens.table.requires_grad_(False)


def one_vector(net):
    net.tokens.table = nn.Parameter(net.tokens.table[:, :1].detach())


def first_weights(net, factor):
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data *= factor


def closed(net):
    for block in net.blocks:
        nn.init.zeros_(block.attention.out.weight)
        nn.init.zeros_(block.mlp.down.weight)


# %% jupyter={"source_hidden": true}
THREE = ("LayerScale", "rotary", "QK-norm")


def short_jobs():
    c, found = VIT, {"ViT": {"c": VIT}, "ViT-5": {"c": VIT5}}
    for name, change in CHANGES.items():
        c = c | change
        found[f"− {name}"] = {"c": VIT5 | {key: VIT[key] for key in change}}
        if name in [*CHANGES][1:-2]:  # the others are among those that follow
            found[f"+ {name}"] = {"c": c}
    for name in THREE:
        found[f"{name} alone"] = {"c": VIT | CHANGES[name]}
        found[f"− {name}, rate .008"] = found[f"− {name}"] | {"rate": 8e-3}
    return found


# %% jupyter={"source_hidden": true}
def table_jobs():
    wide, found = VIT | {"table": 0.2}, {}
    found["table from 0.2, not trained"] = {"c": wide, "adjust": frozen}
    found["from 0.02, not trained"] = {"c": VIT, "adjust": frozen}
    found["one vector from 0.2 for all"] = {"c": wide, "adjust": one_vector}
    found["− rotary, table from 0.2"] = {"c": VIT5 | {"table": 0.2, "rotary": 0}}
    found["table × 0.1"] = {"c": VIT | {"table": 0.002}}
    for factor in (0.1, 10):
        found[f"rate × {factor}"] = {"c": VIT, "rate": factor * 2e-3}
    for factor in (0.1, 0.5, 2, 10):
        change = partial(first_weights, factor=factor)
        found[f"first weights × {factor}"] = {"c": VIT, "adjust": change}
    name = "table from 0.2 and LayerScale"
    return found | {name: {"c": wide | CHANGES["LayerScale"]}}


# %% jupyter={"source_hidden": true}
def rate_jobs():
    wide, found = VIT | {"table": 0.2}, {}
    with_qk = wide | CHANGES["QK-norm"]
    nets = {"ViT": VIT, "table from 0.2": wide, "ViT-5": VIT5}
    nets["ViT-5, table from 0.2"] = VIT5 | {"table": 0.2}
    nets["table from 0.2 and QK-norm"] = with_qk
    nets["table from 0.2, LayerScale, QK-norm"] = with_qk | CHANGES["LayerScale"]
    nets["table from 0.4, first weights × 2"] = VIT | {"table": 0.4}
    nets["ViT-5, first weights × 2"] = VIT5
    for (name, c), (short, long) in zip(nets.items(), RATES, strict=True):
        for at, rate in enumerate((*short, *long)):
            steps = 300 if at < len(short) else 1000
            full = name + (f", rate .{rate:03d}" if rate != 2 else "")
            full += ", 1,000 steps" if steps == 1000 else ""
            found[full] = {"c": c, "steps": steps, "rate": rate / 1000}
            if "× 2" in name:
                found[full]["adjust"] = partial(first_weights, factor=2)
    return found


RATES = [((1, 2, 4, 8, 16), (2, 4)), ((1, 2, 4, 8), (1, 2, 4))]
RATES += [((1, 2, 4, 8, 16), (2, 4, 8)), ((2, 4, 8, 16), (2, 4, 8))]
RATES += [((2,), ()), ((2, 4, 8), (4, 8)), ((), (2, 4)), ((), (4, 8))]


# %% jupyter={"source_hidden": true}
def gate_jobs():
    gated, bare = VIT5 | {"mlp": SwiGLU}, {"gamma": None}
    found = {"SwiGLU": {"c": gated | bare}, "SwiGLU, LayerScale": {"c": gated}}
    longer = {"ViT, table from 0.2, SwiGLU": VIT | {"table": 0.2, "mlp": SwiGLU}}
    longer["− LayerScale"] = VIT5 | bare
    for size in (1, 0.2, 0.03):
        longer[f"SwiGLU, gates from {size}"] = gated | {"gamma": float(size)}
    longer |= {name: job["c"] for name, job in found.items()}
    tuned = [(name, found[name]["c"], 4) for name in found]
    tuned += [("SwiGLU, LayerScale", gated, 8), ("− LayerScale", VIT5 | bare, 4)]
    for name, c, rate in tuned:
        job = {"c": c, "steps": 1000, "rate": rate / 1000}
        found[f"{name}, rate .{rate:03d}, 1,000 steps"] = job
    job = {"c": gated, "steps": 1000, "gates": 10}
    found["SwiGLU, LayerScale, rate of gates × 10, 1,000 steps"] = job
    for name, c in longer.items():
        found[f"{name}, 1,000 steps"] = {"c": c, "steps": 1000}
    for name, c in (("SwiGLU", gated), ("− LayerScale", VIT5)):
        job = {"c": c | bare, "steps": 1000, "adjust": closed}
        found[f"{name}, branches from 0, 1,000 steps"] = job
    return found


# %% jupyter={"source_hidden": true}
def gate_sizes(net):
    gates = [gate for block in net.blocks for gate in block.gamma]
    return [round(gate.abs().mean().item(), 4) for gate in gates]


LOOKED_INTO = ["ViT-5", "ViT-5, 1,000 steps", "SwiGLU, LayerScale, 1,000 steps"]
LOOKED_INTO += ["SwiGLU, LayerScale, rate of gates × 10, 1,000 steps"]
LOOKED_INTO += ["SwiGLU, gates from 1, 1,000 steps"]
AGAIN = ["ViT-5", "rotary alone", "table from 0.2"]
AGAIN += [f"− {name}" for name in ("registers", "RMSNorm", *THREE)]
AT_BEST = ["table from 0.2", "table from 0.4, first weights × 2", "SwiGLU"]
AT_BEST += ["ViT-5, rate .008", "SwiGLU, LayerScale, rate .008", "− LayerScale"]
AT_BEST += ["ViT-5, first weights × 2, rate .008", "ViT, table from 0.2, SwiGLU"]
AT_BEST += ["− LayerScale, branches from 0"]
AGAIN += [f"{name}, 1,000 steps" for name in AT_BEST]


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, part=slice(None), within=0.3):
    """Return test losses, shares of right letters, and the sizes of gates."""
    jobs = {**short_jobs(), **table_jobs(), **rate_jobs(), **gate_jobs()}
    for name in AGAIN:
        jobs[f"{name}, three more seeds"] = jobs[name]
    found = {}
    for name, job in [*jobs.items()][part]:
        job, at = {**job}, seed + 3 * name.endswith("three more seeds")
        net = train(made(job.pop("c"), at, job.pop("adjust", None)), at, **job)
        loss, right = tried(net)
        found |= {name: round(loss, 4), f"{name}: right": round(right, 4)}
        if name in LOOKED_INTO:
            sizes = enumerate(gate_sizes(net))
            found |= {f"{name}: gate {number}": size for number, size in sizes}
    return found


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. Taken out of ViT-5 one at a time, after 300 steps at rate 0.002, LayerScale, rotary positions and QK-norm leave losses apart from ViT-5's, and again with new seeds; of the other four these seeds do not tell | these letters, width 48, four blocks |
# | 2. Look for the control, on both sides. After 1,000 steps at one rate, the plain ViT with a table from 0.2 is level with ViT-5; with a rate for each its loss is twice ViT-5's; with first weights × 2 and a table from 0.4 they are not apart; with first weights × 2 in both ViT-5 is ahead. From 0.2 the table need not be learned, from 0.02 it must | the same; patches of size 0.28; rates picked on the test |
# | 3. A claim about two changes needs four runs, each at its own rate. LayerScale from 0.0001 lowers the loss beside GELU and not beside SwiGLU; the difference of the two changes has one sign in six of six seeds. At 0.002, where it costs more, gates that stay small cost | few rates; 1,000 steps; no stochastic depth; not ImageNet |
# | 4. On paper: with QK-norm no score is above √d times the largest gains of q and of k; k's bias does nothing without it and without rotation; a token with the angle 0 has the angles of row 0, column 0 | exact |

# %%
summary("09")

# %% [markdown]
# ## Next
#
# - [Lesson 10](10_configurable_block.ipynb) lets names choose the parts of a block.
# - [The appendix](09_vit5_block_more.ipynb): a trained map, registers, a high rate; the library's ViT-5, GRN and the Hyena adapter.
# - [Homework for lessons 08c and 09](homework/hw_08c_09.ipynb).
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
