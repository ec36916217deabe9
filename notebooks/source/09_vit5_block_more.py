# %% [markdown]
# # 09, appendix · A trained map, registers, and this library's block
#
# Not needed for [lesson 09](09_vit5_block.ipynb), and not counted in it.

# %%
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_edu import CKConv, Hyena, KernelFiLMGenerator, MLP, QKVSequenceMixer
from residual_edu import RMSNorm, SIRENKernel, parameter_groups
from residual_course.datasets import font_letters, photos
from residual_course.exercises import check
from residual_course.lesson import holds, setup, show
from residual_course.plots import changes, vit5 as plots

device, pictures = setup(), photos()

# %% [markdown]
# ## The library's ViT-5
#
# The library's block follows nvSubquadratic's, whose layout differs from that of the authors' code: patches first, then CLS, then registers, then padding. Attention needs no padding; a convolution along both axes wants whole rows.

# %% tags=["figure"]
ax = Figure(figsize=(6, 4.9)).add_subplot()
plots.plot_layout(pictures["china"], 64, ["CLS", "R", "R", "R", "R"], ax)
ax.set_title("60 patches, then CLS and four registers")
alt = (
    "A photograph cut into six rows of ten numbered squares; below them a seventh row: "
)
show(ax.figure, alt=alt + "CLS, four registers, and five grey cells of padding.")

# %% [markdown]
# `ViT5Attention` is the attention of the lesson: QK-norm if asked, and rotation, which for registers runs on a grid of their own.

# %% tags=["module:mixers/vit5_attention"]
import torch
from torch import nn

from residual_edu.mixers.vit5_attention import ViT5Attention


# %% [markdown]
# `ViT5ResidualBlock` has two pre-norm branches, each with LayerScale and DropPath. Three of its arguments are *not* part of ViT-5; they are explained further below: `grn_cfg`, `register_pooling_cfg`, and a mixer that is no attention.


# %% tags=["module:blocks/vit5_block"]
from functools import partial
from torch import nn

from residual_edu.blocks.vit5_block import ViT5ResidualBlock


# %% [markdown]
# A network can answer from CLS, from the mean of the patches, or from its registers side by side (`RegisterCompressConcat`, each made narrow by the same map, after [Mamba-R](https://arxiv.org/abs/2405.14858)). `RegisterPooling` is their weighted mean, the weights a softmax of learned logits that start equal.


# %% tags=["module:mixers/registers"]
import torch
from torch import nn

from residual_edu.mixers.registers import RegisterPooling


# %% [markdown]
# `ViT5ClassificationNet`: patches, a learned table for all tokens, blocks, an answer.


# %% tags=["module:networks/vit5"]
from functools import partial
from torch import nn
from torch.nn import functional as F

from residual_edu.networks.vit5 import ViT5ClassificationNet


# %% [markdown]
# ## What a trained CLS attends to
#
# Letters 14 pixels high, anywhere on 32 by 32 pixels of a faint photograph: 64 patches. The network trains on the left part of two photographs and is tested on the right. (Folded: the network, its training, and the scores of every block.)


# %%
def on_photographs(count, seed, left):
    """Return letters on photographs, (count, 32, 32, 1), labels, and letters."""
    letter, label = font_letters(
        count, seed, side=32, height=14.0, reach=8.0, noise=0.0
    )
    r, found = torch.Generator().manual_seed(seed), []
    grey = [F.avg_pool2d(p.mean(-1)[None], 2)[0] for p in pictures.values()]
    for one in letter[:, 0]:
        which, row, column = (
            int(torch.randint(n, (1,), generator=r)) for n in (2, 181, 128)
        )
        column += 0 if left else 160
        back = grey[which][row : row + 32, column : column + 32]
        found.append(one + (1 - one) * 0.6 * (back - back.mean()))
    return torch.stack(found)[..., None].to(device), label.to(device), letter[:, 0]


# %% jupyter={"source_hidden": true}
def network(registers, side=8, qk_norm=True, seed=0):
    torch.manual_seed(seed)
    norm, head = partial(RMSNorm, 48), partial(RMSNorm, 16) if qk_norm else None
    mixer = partial(ViT5Attention, 48, 3, side, side, registers, qk_norm=head)
    mlp = partial(MLP, 48, "gelu", nn.Identity)
    block = partial(ViT5ResidualBlock, mixer, norm, mlp, norm, 48)
    return ViT5ClassificationNet(1, 10, 48, 4, 4, 4 * side, registers, block, norm).to(
        device
    )


# %% jupyter={"source_hidden": true}
def train(net, x, y, steps, rate=3e-3, watched=None):
    adam = torch.optim.AdamW(parameter_groups(net, 0.05), rate, fused=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, rate, steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(x), (24,), generator=generator)
        loss = F.cross_entropy(net(x[rows]), y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        plan.step()
        if watched is not None:
            watched.append(scores_of(net, x[:32])[0].abs().max().item())
    return net.eval()


@torch.no_grad()
def scores_of(net, x):
    """Return scores, (blocks, n, heads, tokens, tokens), and the last stream."""
    scores, stream = [], net.embed(x)
    for block in net.blocks:
        q, k, _ = block.sequence_mixer.heads(block.input_norm(stream))
        scores.append(q @ k.mT * block.sequence_mixer.scale)
        stream = block(stream)
    return torch.stack(scores).cpu(), stream.cpu()


# %% tags=["trained"]
x, y, _ = on_photographs(2000, 0, True)
new, truth, ink = on_photographs(200, 1, False)
fresh, net = network(4), train(network(4), x, y, 500)
with torch.no_grad():
    right = torch.cat([net(part).argmax(1) for part in new.split(50)]) == truth
print(f"right after 500 steps, seed 0: {right.float().mean():.0%}")
maps = [scores_of(one, new[:40])[0].softmax(-1).mean(2) for one in (fresh, net)]
covered = (F.avg_pool2d(ink[:40, None], 4).flatten(1) > 0.1).float()
for name, each in zip(("new", "trained"), maps, strict=True):
    cls = each[:, :, 64, :64]
    on_ink = ((cls * covered).sum(-1) / cls.sum(-1)).mean(1)
    print(
        f"{name:8} of CLS's attention to patches, on ink:",
        *(f"{s:.0%}" for s in on_ink),
    )
print(f"ink covers {covered.mean():.0%} of the patches")
holds(right.float().mean() > 0.3 and on_ink.min() > 0.3, "CLS attends to the letter.")

# %% tags=["figure", "trained"]
chosen = right[:40].nonzero()[:, 0].tolist()
at = next(i for i in chosen if truth[i] == 2)  # a C
fig = Figure(figsize=(6, 6))
for block, ax in enumerate(fig.subplots(2, 2).flat):
    changes.plot_over(ink[at], maps[1][block, at, 64, :64].view(8, 8), ax)
    ax.set_title(f"block {block + 1}", weight="normal")
fig.suptitle("What CLS attends to, for one letter", x=0.01, ha="left", weight="bold")
alt = "The outline of a C on 8 by 8 patches in four blocks: dark patches lie mostly on "
show(fig, alt=alt + "its ink.")
holds(covered[at].mean() < 0.4, "The letter is small.")

# %% [markdown]
# CLS's attention lies mostly on the letter, which covers a small part of the picture. One network, one seed, two of five letters right: which patches each block picks differs from training to training.
#
# ## What registers get
#
# **Sinks.** The weights of a softmax sum to 1, so a token that needs nothing attends to something all the same. **Recycled patches.** [Darcet et al.](https://arxiv.org/abs/2309.16588) found patches of large networks whose vectors are about ten times as long as the rest, in places without content, and gave the network registers instead. The first is about where attention goes, the second about what is stored.

# %% tags=["trained"]
share = maps[1][:, :, 64, 65:].sum(-1).mean(1)
print("CLS's attention to four registers, by block:", *(f"{s:.0%}" for s in share))
print(f"they are {4 / 69:.0%} of the tokens")
lengths = scores_of(net, new[:40])[1][:, :64].norm(dim=-1)
peak = (lengths.amax(1) / lengths.median(1).values).mean()
print(f"the longest patch over the median: {peak:.1f} on average")
holds(share.max() < 0.35 and peak < 4, "Neither shows in so small a network.")

# %% [markdown]
# By block less or more than their number would give, and no patch that stands out: here we see nothing that they could mend (one network, 500 steps). This does not speak against registers in large networks.
#
# **Find out:** which token gives most to the registers, before training and after? And does any patch attend to its own surroundings?

# %% tags=["explorer"]
from residual_course.explorers.vit5_attention import explore_attention

few = {"four registers": torch.stack([each[:, :6] for each in maps]).numpy()}
explore_attention(ink[:6], few, ["CLS", "R", "R", "R", "R"])

# %% [markdown]
# <details><summary>Answer</summary>Before training all tokens attend to all alike, up to the luck of the weights. After it, look at patches of the letter and of the background in turn: what they give to the registers differs from block to block, and one seed settles nothing about why.</details>
#
# ## QK-norm at a high rate
#
# The lesson's letters of 16 by 16 pixels, 150 steps at rate 0.01, five times the lesson's, without clipping, three seeds. What is printed is the largest score of any step.

# %% tags=["trained"]
x, y = (part.to(device) for part in font_letters(4000))
new, truth = (part.to(device) for part in font_letters(500, 1))
small, new = x.movedim(1, -1), new.movedim(1, -1)
largest = {True: [], False: []}
for qk_norm, seed in ((on, seed) for on in (True, False) for seed in range(3)):
    seen = []
    net = train(network(0, 4, qk_norm, seed), small, y, 150, 1e-2, seen)
    with torch.no_grad():
        right = (net(new).argmax(1) == truth).float().mean()
    largest[qk_norm].append(max(seen))
    name = "with" if qk_norm else "without"
    print(f"{name:7} seed {seed}: largest score {max(seen):4.1f}, right {right:.0%}")
holds(max(largest[True]) < min(largest[False]), "It bounds the scores.")

# %% [markdown]
# The bound is √16 = 4 times the gains of q and k, which are learned. QK-norm does what it is for: scores stay smaller, in all three seeds. Whether that saves the training, three seeds do not tell: in one of them the network without it is far behind, in the other two it is not.
#
# ## Is RMSNorm faster?
#
# It needs fewer operations. What a library makes of them is another matter:

# %% tags=["nbval-ignore-output"]
import time


def seconds(norm, calls=300):
    x = torch.randn(64, 26, 48, requires_grad=True)
    start = time.process_time()
    for _ in range(calls):
        norm(x).sum().backward()
    return time.process_time() - start


pair = nn.LayerNorm(48), nn.RMSNorm(48)
ratios = [seconds(pair[1]) / seconds(pair[0]) for _ in range(5)]
ratio = sorted(ratios)[2]
word = "longer" if ratio > 1.2 else "as long" if ratio > 0.8 else "less"
print("on a CPU, forward and backward, PyTorch's RMSNorm takes", word)

# %% [markdown]
# PyTorch has one fused kernel for LayerNorm on a CPU; where RMSNorm is made of single operations, each of them reads and writes the whole tensor.
#
# ## Not ViT-5: channels that compete
#
# **Global response normalisation** (GRN) comes from [ConvNeXt V2](https://arxiv.org/abs/2301.00808). Two tokens, two channels: the first channel is 3 and 4, the second 1 and 0. Over the tokens their sizes are 5 and 1, with the mean 3. Each channel gets a share, its size over that mean, and GRN returns γ · x · share + β + x. With γ = 1 the first channel is multiplied by 1 + 5/3, the second by 1 + 1/3.
#
# ### Exercise A · 8 minutes · ●●●○○
#
# Write GRN for `x` of shape (samples, tokens, channels), with γ and β of shape (channels,). A channel's size is the root of its sum of squares over the tokens; the share is its size over the mean size of all channels of the same sample plus `eps`.
#
# <details><summary>Hint 1</summary>How many sizes does a sample have: as many as tokens, or as many as channels?</details>
# <details><summary>Hint 2</summary>Sum the squares over the tokens and keep that axis: (samples, 1, channels). Over which axis runs the mean?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "compete", "locked": false, "schema_version": 3, "solution": true, "task": false}
def compete(x, gamma, beta, eps):
    """Let the channels of each sample compete."""
    ### BEGIN SOLUTION
    size = x.square().sum(1, keepdim=True).sqrt()
    share = size / (size.mean(-1, keepdim=True) + eps)
    return gamma * x * share + beta + x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "compete-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(compete, "compete")

# %% [markdown]
# The finished piece, `GlobalResponseNorm`, whose γ and β start at 0: at first it is the identity.


# %% tags=["module:parts/global_response_norm"]
import torch
from torch import nn


# %% [markdown]
# Do real pictures differ in which channels are large? 60 squares of each photograph, described by five numbers (brightness, two colours, edges along both axes), each in units of its mean size over both photographs:


# %% jupyter={"source_hidden": true}
def describe(photo):
    """Return five channels of 60 squares of a photograph, (60, 5)."""
    squares = photo[:384].unfold(0, 64, 64).unfold(1, 64, 64).flatten(0, 1)
    red, green, blue = squares.unbind(1)
    grey = squares.mean(1)
    edges = [grey.diff(dim=axis).abs() for axis in (1, 2)]
    every = (grey - 0.5, red - blue, green - red, *edges)
    return torch.stack([each.mean((1, 2)) for each in every], dim=-1)


# %% tags=["figure"]
seen = torch.stack([describe(photo) for photo in pictures.values()])
sizes = (seen / seen.norm(dim=1).mean(0)).norm(dim=1)
both = sizes / sizes.mean(-1, keepdim=True)
shares = dict(zip(("pagoda", "flower"), both, strict=True))
names = ["brightness", "warmth", "green", "edges, down", "edges, across"]
ax = plots.plot_competition(shares, names, Figure(figsize=(6, 3.4)).add_subplot())
ax.set_title("In the pagoda edges win, in the flower colours")
alt = (
    "Bars of five channels' sizes over the mean size: in the pagoda both edge channels "
)
show(
    ax.figure,
    alt=alt + "stand at 1.5 and colours at half or less; in the flower reversed.",
)
holds(bool(both[0, 3:].min() > 1.3 > 0.6 > both[0, 1:3].max()), "Edges win.")

# %% [markdown]
# Sizes are taken per sample, since pictures differ in which of their channels are large. (In these units what is large in one of two pictures is small in the other.)
#
# ## Not ViT-5: Hyena over patches
#
# A convolution wants a picture, not a sequence. `ViT5HyenaAdapter` lays the tokens out in rows, padding included, and reads them off again.


# %% tags=["module:mixers/vit5_hyena"]
from torch import nn

from residual_edu.mixers.vit5_hyena import ViT5HyenaAdapter


# %% [markdown]
# A kernel has no registers to attend to, so a block can pool them and hand the result to Hyena as its condition, which changes the kernel. Here the registers of one sample are changed: with pooling Hyena's kernel changes with them. 3 by 3 patches, CLS, two registers.


# %%
def hyena():
    film = partial(KernelFiLMGenerator, 16, kernel_hidden_dim=8, num_film_layers=1)
    kernel = partial(
        SIRENKernel, 16, 2, 8, 2, 8, 1.0, L_cache=3, use_bias=True, film_cfg=film
    )
    conv = partial(CKConv, 2, 16, kernel, nn.Identity, "double", "zero")
    short = partial(nn.Conv2d, 48, 48, 3, padding=1, groups=48)
    inner = partial(Hyena, conv, short, nn.SiLU, nn.Identity, partial(RMSNorm, 16))
    return ViT5HyenaAdapter(partial(QKVSequenceMixer, 16, inner), grid_w=3)


torch.manual_seed(0)
mixer, x = hyena().to(device), torch.randn(4, 12, 16).to(device)
for parameter in mixer.parameters():
    nn.init.normal_(parameter, std=0.3)
pooled = RegisterPooling(2).to(device)(x[:, 10:])
print(
    "the pooled registers start as their mean:",
    torch.allclose(pooled, x[:, 10:].mean(1)),
)
one, other = mixer(x, conditioning=pooled), mixer(x, conditioning=pooled.flip(0))
print("another condition, other outputs:", not torch.allclose(one, other))

# %% [markdown]
# ## What a block costs
#
# A product of an (a, b) matrix with a (b, c) matrix costs 2 · a · b · c operations.
#
# ### Exercise B · 8 minutes · ●●●○○
#
# Count the matrix products of one block with attention, for one picture of T tokens and C channels. The MLP is twice as wide as the stream. Norms, gates and the softmax are not asked for. How many heads there are does not matter; why not?
#
# <details><summary>Hint 1</summary>Four maps of C by C, two products of all tokens with all tokens, two maps of the MLP.</details>
# <details><summary>Hint 2</summary>A map of C by C costs 2 T C². Queries with keys cost 2 T² C, and weights with values as much again.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "block-flops", "locked": false, "schema_version": 3, "solution": true, "task": false}
def block_flops(tokens, channels):
    """Return the operations of a block's matrix products, for one picture."""
    ### BEGIN SOLUTION
    maps, tables, mlp = (
        8 * tokens * channels**2,
        4 * tokens**2 * channels,
        8 * tokens * channels**2,
    )
    return maps + tables + mlp
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "block-flops-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(block_flops, "block_flops")

# %% tags=["figure"]
lengths = torch.logspace(0.7, 3.6, 40, dtype=torch.float64)
maps, tables = 16 * lengths * 48**2, 4 * lengths**2 * 48
ax = Figure(figsize=(6, 3.6)).add_subplot()
plots.plot_costs(lengths, maps, tables, 4 * 48, ax)
ax.set_title("Up to 4 C tokens the maps cost more")
alt = "Operations of a block of 48 channels over the number of tokens, log scales: the "
show(
    ax.figure, alt=alt + "maps in proportion, the tables with the square; equal at 192."
)

# %% [markdown]
# Equal where 16 T C² = 4 T² C, at T = 4 C. At the sizes of the lesson, 21 tokens of 48 channels, the tables of attention are the cheap part.
