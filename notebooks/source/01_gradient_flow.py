# %% [markdown]
# # 01 · Gradient flow: three curves
#
# 80 minutes. Nothing is downloaded. Of [lesson 00](00_residual_connection.ipynb) it uses that with He's weights f(x) is
# as large as x, so that 64 blocks x + f(x) make x, and the gradient on its way back, 2³² = 4 · 10⁹ times as large.
#
# By the end you can
#
# - **record** three curves along a network with a few lines;
# - **compute** the third curve from the other two;
# - **say** what they tell about a network that has not been trained;
# - **diagnose** a network that does not learn, and mend it.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.exercises import check
from residual_course.lesson import holds, predict, progress, setup, show, summary
from residual_course.plots import three_curves as plots
from residual_course.training import accuracy

device = setup()
progress("01")

# %% [markdown]
# ## A network that does not learn
#
# A colleague has built a network for handwritten digits: 64 blocks x + f(x), then a LayerNorm and a head, as at the end
# of [GPT-2](https://github.com/openai/gpt-2/blob/master/src/model.py). Beside it we build the same with a norm before
# each f, as GPT-2 has it.


# %%
def bare(x, f):
    return x + f(x)


def normed(x, f):
    return x + f(F.layer_norm(x, (64,)))


class Block(nn.Module):
    def __init__(self, wiring):
        super().__init__()
        self.wiring = wiring
        self.f = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        return self.wiring(x, self.f)


def build(wiring, start=None, seed=0, depth=64):
    torch.manual_seed(seed)
    blocks = [Block(wiring) for _ in range(depth)]
    for block in blocks:
        (start or he)(block.f)
    return nn.Sequential(*blocks, nn.LayerNorm(64), nn.Linear(64, 10)).to(device)


# %% [markdown]
# (Folded, and nothing new: He's weights, the training loop of lesson 00, the digits.)


# %% jupyter={"source_hidden": true}
def he(f):
    nn.init.kaiming_normal_(f[0].weight)
    nn.init.kaiming_normal_(f[2].weight, nonlinearity="linear")
    nn.init.zeros_(f[0].bias), nn.init.zeros_(f[2].bias)


def rms(x):
    return x.detach().square().mean().sqrt().item()


def tell(curves):
    print("place                0      16      32      48      64")
    for name, curve in curves.items():
        print(f"{name:15}", *[f"{curve[at]:7.0e}" for at in (0, 16, 32, 48, -1)])


def train(stack, rate, steps, x, y):
    adam, losses = torch.optim.Adam(stack.parameters(), rate), []
    for _ in range(steps):
        rows = torch.randint(len(x), (64,)).to(x.device)
        loss = F.cross_entropy(stack(x[rows]), y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])

# %% [markdown]
# We train for 60 steps of Adam at a rate of 3e-4, each on 64 digits. Adam moves a weight by about the rate in a step, or
# less: by 60 · 0.0003 = 0.018 in all. He's weights have a standard deviation of √(2/64) = 0.18 in the first layer of f,
# before the ReLU, and √(1/128) = 0.09 in the second.

# %% tags=["figure", "trained"]
from residual_course.plots.plain_and_residual import plot_two_losses


batch = train_x[:64], train_y[:64]


def first_layers(wiring, seed):
    """Return the rms of the gradients of the first layers' weights, before training."""
    net = build(wiring, seed=seed)
    F.cross_entropy(net(batch[0]), batch[1]).backward()
    return [rms(block.f[0].weight.grad) for block in net[:-2]]


wirings = {"x + f(x)": bare, "x + f(norm(x))": normed}
nets, curves = {}, {}
for name, wiring in wirings.items():
    nets[name] = [build(wiring, seed=seed) for seed in range(3)]
    curves[name] = [train(net, 3e-4, 60, train_x, train_y) for net in nets[name]]
    found = [accuracy(net, test_x, test_y) for net in nets[name]]
    print(
        f"{name:15} test digits right, three seeds:", *[f"{one:4.0%}" for one in found]
    )
    holds(max(found) < 0.5 or min(found) > 0.85, "One learns, one does not.")
ax = plot_two_losses(curves, Figure().add_subplot(), guessing=2.303)
ax.texts[0].set_position((24, 2.68)), ax.texts[-1].set_position((31, 1.86))
ax.set_title("64 blocks, without and with the norms")
alt = "Training loss, three seeds. x + f(x) stays between 2.0 and 2.6 (guessing: 2.3), "
show(ax.figure, alt=alt + "and x + f(norm(x)) falls to 0.3.")

# %% [markdown]
# A common check looks at the gradients of the weights, block by block: do they vanish towards one end, or explode? We
# take the **weight gradient** of each block's first layer, before any training. Size is the root mean square (rms), and a
# curve is called flat where its largest value exceeds its smallest by little.

# %% tags=["predict"]
guess = predict(
    "Before training, whose weight gradients are usually flatter along the blocks?",
    ["the failing network's", "the learning network's", "equally flat"],
)


# %% tags=["reveal"]
# Answer first, then run this cell.
at_start = {
    n: [first_layers(w, seed) for seed in range(20)] for n, w in wirings.items()
}
flat = {n: [max(one) / min(one) for one in found] for n, found in at_start.items()}
for name, found in flat.items():
    print(f"{name:15} largest / smallest, median of 20: {sorted(found)[10]:.1f}")
wins = sum(a < b for a, b in zip(*flat.values(), strict=True))
print(f"x + f(x) is the flatter one for {wins} of 20")
ax = Figure().add_subplot()
plots.plot_two_stacks({name: found[:3] for name, found in at_start.items()}, ax)
plots.label_curves(ax, {"x + f(x)": (2, 1.3e-2), "x + f(norm(x))": (18, 7e-4)})
ax.set(title="Weight gradients before training", ylim=(1e-4, 1e-1))
alt = "Before training, three seeds: those of x + f(x) have no common slope, "
show(ax.figure, alt=alt + "those of the other fall fivefold.")
limits = {8: "the learning network's", 13: "equally flat", 21: "the failing network's"}
guess.reveal(
    next(name for limit, name in limits.items() if wins < limit),
    why={
        "the failing network's": "What the curve is made of, we compute below.",
        "the learning network's": "Healthy gradients are often described as flat ones.",
        "equally flat": "The norms change what each first layer receives, and what "
        "comes back to it.",
    },
    after="So this check does not point to the network that fails.",
)

# %% [markdown]
# Is it only the rate? From here on a row has three seeds, mostly of stored runs. They come from another processor, so a
# failing network's shares differ from those above. (Folded, to be skipped: what reads them.)


# %% tags=["trained"] jupyter={"source_hidden": true}
from residual_course.lesson import stored_runs

stored = stored_runs("01_gradient_flow")["runs"]


def row(name, rate=3e-4, steps=60):
    return [stored[seed][f"{name}, {rate:g}, {steps}"] for seed in range(3)]


def before(name, what):
    return [stored[seed][f"{name}, {what}"] for seed in range(3)]


def say(name, rate=3e-4, steps=60):
    shares = "".join(f"{share:5.0%}" for share in row(name, rate, steps))
    print(f"{name:15} rate {rate:<6g} {steps:3} steps   right {shares}")


def both(name):
    print(f"{name:20} probe", *[f"{x:4.0%}" for x in before(name, "read")], end="")
    print("   trained", *[f"{x:4.0%}" for x in row(name)])


for rate, steps in ((3e-4, 600), (1e-4, 60), (1e-4, 600)):
    say("x + f(x)", rate, steps)
say("x + f(norm(x))", 1e-4)
holds(
    max(row("x + f(x)", 3e-4, 600)) < 0.3
    and max(row("x + f(x)", 1e-4)) < 0.7
    and min(row("x + f(x)", 1e-4, 600)) > 0.8,
    "At 3e-4 it does not learn in 600 steps, at 1e-4 it does, slowly.",
)

# %% [markdown]
# At 3e-4 it is at chance after 600 steps as well; at 1e-4 it learns, slowly. We keep 3e-4 and 60 steps.
#
# ## A recorder
#
# Three quantities are usually measured along a network:
#
# - the **signal**: x itself, in the **stream** between the blocks;
# - the **stream gradient**: the gradient of the loss with respect to x there (some authors write delta);
# - the **weight gradient** of each block's first layer, for the optimizer.
#
# Autograd throws the second away. A **hook** is a function that you leave with a tensor, and autograd calls it with the
# gradient when that arrives:

# %%
x = torch.tensor(8.0, requires_grad=True)
for place in (1, 2, 3):
    x = x / 2
    x.register_hook(lambda g, place=place: print(f"place {place}: g = {g.item()}"))
    print(f"place {place}: x = {x.item()}")
x.backward()

# %% [markdown]
# One place to the left, x counts half as much. Hooks are called from the end to the start.
#
# ### Exercise 1 · 8 minutes · ●●○○○
#
# Record the stream gradient. `blocks` are modules with weights, `x` is a tensor, and `loss` maps the stream after the last
# block to one number. Call each block once. Return a list with one number for each block, the first block's first: the
# rms of the gradient of the loss **after** that block.
#
# <details><summary>Hint 1</summary>What a block returns is a tensor, and a hook can be left with it. What is the hook
# called with?</details>
# <details><summary>Hint 2</summary>The last place's gradient arrives first. At which end of the list does a new number
# belong?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "stream-gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
def stream_gradients(blocks, x, loss):
    """Return the rms of the gradient of the loss after each block."""
    ### BEGIN SOLUTION
    sizes = []
    for block in blocks:
        x = block(x)
        x.register_hook(lambda g: sizes.insert(0, g.square().mean().sqrt().item()))
    loss(x).backward()
    return sizes
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "stream-gradients-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(stream_gradients, "stream_gradients")

# %% [markdown]
# The recorder is your function (or the folded solution, once it is run) and two more curves. An Identity adds the place
# before the first block.


# %%
def record(stack, x, y):
    places, head = [nn.Identity(), *stack[:-2]], stack[-2:]
    start = x.clone().requires_grad_()
    stack.zero_grad()
    gradient = stream_gradients(
        places, start, lambda end: F.cross_entropy(head(end), y)
    )
    weights = [rms(next(block.parameters()).grad) for block in stack[:-2]]
    signal = []
    for block in places:
        x = block(x)
        signal.append(rms(x))
    return {"signal": signal, "stream gradient": gradient, "weight gradient": weights}


# %% tags=["trained"]
curves = record(build(bare), *batch)
tell(curves)
holds(curves["signal"][-1] > 1e8, "The signal grows to billions.")

# %% [markdown]
# The signal grows to billions, as lesson 00 computed: a flood. The stream gradient does the same from right to left. The
# weight gradient shows neither.
#
# ## What a weight gradient is made of
#
# One linear layer y = Wx, one sample, and the gradient g with respect to y: W[i, j] carries x[j] to y[i], so its gradient
# is **g[i] · x[j]**, the outer product of g and x. The sum of all g[i]² · x[j]² is the sum of the g[i]² times the sum of
# the x[j]². So, exactly:
#
# $$\mathrm{rms}(\nabla W) = \mathrm{rms}(x) \cdot \mathrm{rms}(g)$$

# %%
x, g = torch.tensor([1.0, 7.0]), torch.tensor([1.0, -2.0, 2.0])
layer = nn.Linear(2, 3, bias=False)
layer(x).backward(g)
print(layer.weight.grad.tolist())
print(f"rms of x {rms(x):.0f}, of g {rms(g):.3f}, of ∇W {rms(layer.weight.grad):.3f}")

# %% [markdown]
# That explains the flat curve. In x + f(x), one block further to the right, a first layer receives √2 times as much and
# gets back 1/√2 of the gradient. So **a flat weight gradient says that signal times gradient is constant**: 4 · 10⁹ times
# 3 · 10⁻¹³ as well as 1 times 10⁻³. With norms, each first layer receives norm(x), of size 1, and the weight gradient
# follows the stream gradient.
#
# For a batch of B samples, B outer products are added: √B times one, if they are perpendicular to one another. In general
# **√B · k** times, and k says how far the samples agree: above 1 if their outer products point in similar directions, below
# 1 if they oppose.
#
# ### Exercise 2 · 10 minutes · ●●●○○
#
# Compute the third curve from the other two, for x + f(x). `signal` and `gradient` are lists as `record` returns
# them, for `batch` samples: place 0 is before the first block, the last place after the last. `k` has one number for each
# block. Return the list of the weight gradients.
#
# One factor is missing: the g of the first layer is inside the block. The stream gradient comes back to it through the
# second layer, which has 64 outputs and weights of variance 1/128, and through the ReLU. By which factor does its rms
# change? Compute that on paper.
#
# <details><summary>Hint 1</summary>From which place does the first layer get its x? And from which place does the
# gradient come into the block?</details>
# <details><summary>Hint 2</summary>A hidden number gets back a sum of 64 products. What is its mean square, against that
# of the stream gradient? Then the ReLU: for how many of the hidden numbers does nothing come through?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "third-curve", "locked": false, "schema_version": 3, "solution": true, "task": false}
def third_curve(signal, gradient, batch, k):
    """Return the weight gradient of the first layer of each block, as a list."""
    ### BEGIN SOLUTION
    # Back through the second layer: 64 · 1/128 = 1/2 of the mean square. Through the
    # ReLU: 1/2 of that. So 1/4 of the mean square, 1/2 of the rms.
    return [
        batch**0.5 * k[block] * signal[block] * gradient[block + 1] / 2
        for block in range(len(k))
    ]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "third-curve-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(third_curve, "third_curve")

# %% [markdown]
# For the failing network, with k = 1 in all blocks:


# %% tags=["figure"]
def reconstructed(seed):
    """Return the weight gradients of x + f(x) for k = 1, and the measured ones."""
    s, g, true = record(build(bare, seed=seed), *batch).values()
    return [4 * s[at] * g[at + 1] for at in range(64)], true


papers = [reconstructed(seed) for seed in range(3)]
ax = Figure().add_subplot()
plots.plot_three_curves({"weight gradient": papers[0][1]}, ax)
plots.plot_reconstruction(papers[0][0], ax)
ax.set(title="The third curve, from the other two", ylim=(1e-4, 1e-1))
ratios = [a / b for paper, true in papers for a, b in zip(paper, true, strict=True)]
print(f"three seeds: reconstructed / measured {min(ratios):.1f} to {max(ratios):.1f}")
holds(min(ratios) > 0.3 and max(ratios) < 3, "Paper is right to a factor of 3.")
alt = "The measured weight gradients of 64 blocks, and dots from the other two curves: "
show(ax.figure, alt=alt + "the dots lie about the line, without its ups and downs.")

# %% [markdown]
# Right to about a factor of 2. What is left is k, and chance: paper gives the average over random weights. Measured, k is
# the weight gradient over √B · rms(x) · rms(g) at the first layer itself (folded; the appendix derives it):


# %% jupyter={"source_hidden": true}
def inside(stack, x, y):
    """Return input, and gradient at the output, of each block's first layer."""
    pairs = []

    def keep(layer, args, out):
        out.retain_grad()
        pairs.append((args[0].detach(), out))

    hooks = [block.f[0].register_forward_hook(keep) for block in stack[:-2]]
    F.cross_entropy(stack(x), y).backward()
    for hook in hooks:
        hook.remove()
    return [(x, out.grad) for x, out in pairs]


# %% tags=["trained"] jupyter={"source_hidden": true}
net = build(bare)
pairs = inside(net, *batch)
ks = [
    rms(block.f[0].weight.grad) / (8 * rms(x) * rms(g))
    for block, (x, g) in zip(net[:-2], pairs, strict=True)
]
ratios = [k * a / b for k, a, b in zip(ks, *papers[0], strict=True)]
print(f"k between {min(ks):.1f} and {max(ks):.1f}")
print(f"with k: reconstructed / measured {min(ratios):.2f} to {max(ratios):.2f}")
holds(min(ratios) > 0.6 and max(ratios) < 1.6, "With k, to 60 %.")

# %% [markdown]
# With this k the law holds by definition: the match tests paper's factor 1/2 alone.
#
# ## Before and after training
#
# All three curves of the two networks, three seeds.

# %% tags=["figure"]
fig = Figure(figsize=(6, 6.4))
axes = fig.subplots(2, 2, sharex=True, sharey=True)
for column, (name, wiring) in zip(axes.T, wirings.items(), strict=True):
    fresh = [record(build(wiring, seed=seed), *batch) for seed in range(3)]
    late = [record(net, *batch) for net in nets[name]]
    stages = {"before": fresh, "after 60 steps": late}
    for ax, (when, found) in zip(column, stages.items(), strict=True):
        curves = {key: [one[key] for one in found] for key in found[0]}
        plots.plot_three_curves(curves, ax)
        ax.set_title(f"{name}, {when}", weight="normal", size=11)
for ax in axes[:, 1]:
    ax.set_ylabel("")
axes[0, 0].set_xlabel(""), axes[0, 1].set_xlabel("")
places = {"signal": (18, 1e8), "stream gradient": (2, 1e-12), "weight gradient": (8, 1)}
plots.label_curves(axes[0, 0], places)
axes[0, 0].set_ylim(1e-17, 1e15)
fig.suptitle("The norms hold signal and gradient", weight="bold")
alt = "Three curves, three seeds, before and after 60 steps. With x + f(x) the signal "
alt += "grows to 4e9 and later further, the stream gradient falls. With the norms all "
show(fig, alt=alt + "three curves stay within two powers of ten, before and after.")
# %% tags=["trained"] jupyter={"source_hidden": true}
grown = {}
for name, wiring in wirings.items():
    fresh = [rms(build(wiring, seed=s)[:-2](batch[0])) for s in range(3)]
    late = [rms(net[:-2](batch[0])) for net in nets[name]]
    grown[name] = [b / a for a, b in zip(fresh, late, strict=True)]
    print(f"{name:15} signal at the end:", *[f"{end:.0e}" for end in fresh], end="")
    print("   after training:", *[f"{end:.0e}" for end in late])
few, many = grown["x + f(norm(x))"], grown["x + f(x)"]
holds(max(late) < 20 and max(few) < 5 < 20 < min(many), "The norms hold the signal.")

# %% [markdown]
# The network that learns keeps its signal near ten. In the other it grows to billions, and further in training. Is this
# flood the cause?
#
# ## The flood taken away
#
# A control takes the flood away, and changes nothing else:


# %%
def divided(x, f):
    return (x + f(x)) / 2**0.5


# %% tags=["predict"]
guess = predict(
    "(x + f(x))/√2 in every block: what share is right after 60 steps?",
    ["over 80 %", "40 to 80 %", "under 40 %"],
)


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
def share(found):
    low, high = min(found), max(found)
    return "over 80 %" if low > 0.8 else "under 40 %" if high < 0.4 else "40 to 80 %"


found = [record(build(divided, seed=seed), *batch) for seed in range(3)]
curves = {key: [one[key] for one in found] for key in found[0]}
ax = plots.plot_three_curves(curves, Figure().add_subplot())
places = {"signal": (2, 4), "stream gradient": (2, 2e-4), "weight gradient": (2, 2e-2)}
plots.label_curves(ax, places)
ax.set(title="(x + f(x))/√2 before training", ylim=(1e-5, 1e2))
alt = "Three curves of (x + f(x))/√2 before training, three seeds: all are flat."
show(ax.figure, alt=alt)
say("(x + f(x))/√2")
holds(max(row("(x + f(x))/√2")) < 0.4, "Without the flood it fails as well.")
guess.reveal(
    share(row("(x + f(x))/√2")),
    why={
        "over 80 %": "The sizes are as they should be. That is all.",
        "40 to 80 %": "The sizes are as they should be. That is all.",
        "under 40 %": "Only the sizes have changed.",
    },
    after="With biases of 0 the last LayerNorm divides all these factors out: both "
    "networks have the same loss, and Adam takes the same steps, until the biases have "
    "grown. And all three curves are flat.",
)

# %% [markdown]
# The reverse keeps the flood and changes the weights: "turning". Each f begins as a rotation by 90 degrees. So f(x) is as
# large as x and perpendicular to it, and x + f(x) is √2 times as large as x, exactly. (Folded: since relu(a) − relu(−a) = a,
# f is linear before training. All its weights learn.)


# %% jupyter={"source_hidden": true}
def turning(f):
    """Let f begin as a rotation by 90 degrees: then x + f(x) is √2 as long as x."""
    A, U = (nn.init.orthogonal_(torch.empty(64, 64)) for _ in range(2))
    quarter = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    B = U @ torch.block_diag(*[quarter] * 32) @ U.T @ A.T
    f[0].weight.data, f[2].weight.data = torch.cat([A, -A]), torch.cat([B, -B], dim=1)
    nn.init.zeros_(f[0].bias), nn.init.zeros_(f[2].bias)


# %% tags=["trained"] jupyter={"source_hidden": true}
tell(record(build(bare, turning), *batch))
say("turning")
holds(min(row("turning")) > 0.85, "The flood alone does not prevent learning.")

# %% [markdown]
# The same flood, and it learns. So before a last norm the flood does no harm by itself, in float32 (float16 ends at
# 65,504).
#
# ## Are the digits too much alike?
#
# In x + f(x) all digits have nearly the same direction: the first column is the mean cosine between two of them before
# the last norm, untrained. "Alike": one constant vector is added to all images ("more alike": four times that). And the
# reverse: in every step, subtract from each batch its mean, before the last norm.


# %%
class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


# %% jupyter={"source_hidden": true}
def cosine(x):
    """Return the mean cosine between two different digits."""
    rows = F.normalize(x.detach())
    return ((rows @ rows.T).sum().item() - len(x)) / (len(x) * (len(x) - 1))


common = torch.randn(64, generator=torch.Generator().manual_seed(0)).to(device)
common *= 4 / common.square().mean().sqrt()


# %% tags=["trained"] jupyter={"source_hidden": true}
def show_row(name, cosines, shares):
    print(f"{name:26} cosine", *[f"{one:6.3f}" for one in cosines], end="   ")
    print("right", *[f"{one:4.0%}" for one in shares])


names = ["x + f(x)", "x + f(norm(x))"]
names += ["x + f(norm(x)), alike", "x + f(norm(x)), more alike"]
for name in names:
    show_row(name, before(name, "cosine"), row(name))
apart, after = [], []
for seed in range(3):
    net = build(bare, seed=seed).insert(64, Centred())
    apart.append(cosine(net[:-2](test_x)))
    train(net, 3e-4, 60, train_x, train_y)
    after.append(accuracy(net, test_x, test_y))
show_row("x + f(x), centred", apart, after)
holds(min(row(names[2])) > 0.8 and max(row(names[3])) < 0.5, "A matter of degree.")
holds(max(after) < 0.8, "Centred, it does not learn well.")

# %% [markdown]
# Taking the likeness away helps some, and does not mend the network. In the one with norms a cosine of 0.97 costs a few
# per cent; at 0.998 it fails (there the branches are small beside the vector, too).
#
# ## The fourth measurement
#
# Sizes and angles do not ask what the stream still tells about the **classes**. So leave the blocks as they were drawn,
# centre and scale each feature of their output, and train only a linear head on it, a **probe**
# ([Alain and Bengio, 2016](https://arxiv.org/abs/1610.01644)).


# %%
@torch.no_grad()
def untrained(stack, add=0.0):
    """Return what a stack without its head makes of the digits, centred and scaled."""
    found = [stack[:-1](x + add) for x in (train_x, test_x)]
    return [(x - found[0].mean(0)) / found[0].std(0) for x in found]


def read(x, test):
    """Train a head alone on fixed features of the digits; return the share right."""
    torch.manual_seed(0)
    head = nn.Linear(64, 10).to(device)
    adam = torch.optim.Adam(head.parameters(), 0.03)
    for _ in range(300):
        adam.zero_grad()
        F.cross_entropy(head(x), train_y).backward()
        adam.step()
    return accuracy(head, test, test_y)


# %% tags=["trained"] jupyter={"source_hidden": true}
for name in ("x + f(x)", "turning", "x + f(norm(x))"):
    both(name)
low, high = before("x + f(x)", "read"), before("x + f(norm(x))", "read")
holds(max(low) < 0.7 < 0.8 < min(high), "One loses the classes, one keeps them.")

# %% [markdown]
# The random blocks of the failing network lose most of what tells a linear head the classes.
#
# ## What does the norm change?
#
# On paper, before training: the biases are 0, so f(ax) = a · f(x) for every a > 0, and f(norm(x)) = f(x − mean)/size. So a
# norm centres the input of the branch, and divides its output by the stream's size. Each branch is then about 1 large,
# squares add, and after l blocks the stream is √(1 + l) large.
#
# So leave the norm out, and divide by that fixed number: x + f(x)/√(1 + l) in block l = 0, 1, ...

# %% tags=["predict"]
guess = predict(
    "x + f(x)/√(1 + l), no norm: what share is right after 60 steps?",
    ["over 80 %", "40 to 80 %", "under 40 %"],
)


# %% jupyter={"source_hidden": true}
def gated(g):
    return lambda x, f: x + g * f(x)


def as_large(x, f):
    return x + x.detach().std(-1, keepdim=True) * f(F.layer_norm(x, (64,)))


def faded(seed):
    """Return x + f(x)/√(1 + l)."""
    net = build(bare, seed=seed)
    for place, block in enumerate(net[:-2]):
        block.wiring = gated((1 + place) ** -0.5)
    return net


# %% tags=["reveal", "trained"]
# Answer first, then run this cell.
for name in ("x + f(norm(x))", "x + f(x)/√(1 + l)", "norm, branch like x"):
    both(name)
fails, learns = row("norm, branch like x"), row("x + f(x)/√(1 + l)")
holds(max(fails) < 0.5 < 0.8 < min(learns), "The size of the branch decides here.")
guess.reveal(
    share(learns),
    why={
        "over 80 %": "Before training, only the centring and each digit's own size are "
        "missing.",
        "40 to 80 %": "The centring and each digit's own size are missing.",
        "under 40 %": "The centring and each digit's own size are missing.",
    },
    after="The last row keeps the norm and multiplies its branch by the stream's size: "
    "on paper x + f(x − mean), the centring alone, and it fails. So what the norm did "
    "here is to **make the branches small beside the stream**.",
)

# %% [markdown]
# That holds at this rate; others were not compared. Without norms: how small must a branch be?


# %% tags=["trained"] jupyter={"source_hidden": true}
for divisor in (2, 4, 8, 1000):
    both(f"x + f(x)/{divisor}")
alone = []
for seed in range(3):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 10)).to(device)
    train(net, 3e-4, 60, train_x, train_y)
    alone.append(accuracy(net, test_x, test_y))
print(f"{'LayerNorm and head alone':40}    trained", *[f"{x:4.0%}" for x in alone])
holds(
    max(alone + row("x + f(x)/1000")) < 0.5 < 0.8 < min(row("x + f(x)/8")),
    "An eighth learns, a thousandth does what no block does.",
)

# %% [markdown]
# With a half it learns, with a quarter or an eighth as well as with norms. A branch can be too small: with a thousandth, 60
# steps reach about what they reach without any block.
#
# ## Where along the stack?
#
# A fourth curve: the probe after every fourth block, as least squares, which needs no training. Beside the two networks
# stands x + f(x) with f **without ReLU**, and weights drawn so that f(x) is again as large as x. (Folded; in float64.)


# %% jupyter={"source_hidden": true}
def linear(f):
    f[1] = nn.Identity()
    for layer in (f[0], f[2]):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
        nn.init.zeros_(layer.bias)


def squares(x, test):
    """Return the share that least squares reads from features."""
    mean, spread = x.mean(0), x.std(0)
    spread = spread.clamp(min=1e-3 * spread.max().item())  # some pixels are constant
    x, test = (((part - mean) / spread).cpu() for part in (x, test))
    x, test = (F.pad(part, (0, 1), value=1.0) for part in (x, test))
    wanted = F.one_hot(train_y).cpu().double()
    solved = torch.linalg.lstsq(x, wanted, rcond=1e-12, driver="gelsd").solution
    return ((test @ solved).argmax(1) == test_y.cpu()).double().mean().item()


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def read_along(stack):
    """Return the shares that are read after 0, 4, 8, ... of the untrained blocks."""
    stack, x, test = stack.double(), train_x.double(), test_x.double()
    found = [squares(x, test)]
    for place in range(0, 64, 4):
        x, test = stack[place : place + 4](x), stack[place : place + 4](test)
        found.append(squares(x, test))
    return found


shown = {**wirings, "f without ReLU": bare}
starts = {"f without ReLU": linear}
read_off = {
    name: [read_along(build(wiring, starts.get(name), seed)) for seed in range(3)]
    for name, wiring in shown.items()
}

# %% tags=["figure"]
ax = plots.plot_read(read_off, range(0, 65, 4), Figure().add_subplot())
ax.set_title("Block by block, x + f(x) loses the classes")
places = {"x + f(x)": (14, 0.55), "x + f(norm(x))": (40, 0.8)}
plots.label_curves(ax, {**places, "f without ReLU": (42, 0.99)})
alt = "Share that least squares reads after 0 to 64 untrained blocks, three seeds. "
show(ax.figure, alt=alt + "x + f(x) falls to a half or less, the others stay near 0.9.")
ends = {name: [one[-1] for one in found] for name, found in read_off.items()}
holds(max(ends["x + f(x)"]) < 0.6 < 0.75 < min(ends["x + f(norm(x))"]), "It is lost.")
holds(min(ends["f without ReLU"]) > 0.85, "Without ReLU it is not.")


# %% [markdown]
# On paper, without ReLU 64 blocks are one linear map, and least squares undoes any invertible one. So it is the ReLUs that
# lose the classes, where branches are large: every few blocks cost some more.
#
# ## Does the probe tell who learns?
#
# Every dot is a network with one of three seeds: those above, 16 and 32 blocks x + f(x), and turning with the constant
# vector; (x + f(x))/√2, which is x + f(x) in another form, is left out.

# %% tags=["figure", "trained"]
names = [key.removesuffix(", read") for key in stored[0] if key.endswith("read")]
names.remove("(x + f(x))/√2")
points = {name: (before(name, "read"), row(name)) for name in names}
ax = plots.plot_probe(points, Figure(figsize=(6, 4.4)).add_subplot())
ax.set_title("What a probe reads, and what is learned")
alt = f"Share right after training against that of a probe before it, {len(names)} "
alt += "networks. The two of the lowest probe fail. Of the others most learn."
fail = [name for name in names if max(row(name)) < 0.6]
means = {name: sum(before(name, "read")) / 3 for name in names}
print(f"{len(names)} networks; under 60 % after training, and the mean probe:")
print(", ".join(f"{name}: {means[name]:.0%}" for name in fail))
good = [means[name] for name in names if name not in fail]
print(f"mean probes of the other {len(good)}: {min(good):.0%} to {max(good):.0%}")
show(ax.figure, alt=alt)
low = [name for name in fail if means[name] < min(good)]
holds(0 < len(low) < len(fail), "Low probes warn, high ones do not promise.")

# %% [markdown]
# Two of the failing networks have the lowest probes; in both, branches are as large as x. In the other two nearly all can be
# read. So a low probe is a warning, on the evidence of two networks, and a high one no promise.
#
# ## How far does one step move the outputs?
#
# At 3e-4 x + f(x) fails in 600 steps, and at 1e-4 it learns. Only the rate differs. Adam moves a weight by
# about the rate in every network; how far that moves the outputs depends on the network. So take one step, and pass the same
# 64 digits through before and after it. How far does the last norm's output change, on average (rms)? And how far are the
# digits from their mean there, before the step?


# %%
def moved(net, rate, x, y):
    before = net[:-1](x).detach()
    F.cross_entropy(net(x), y).backward()
    torch.optim.Adam(net.parameters(), rate).step()
    change = net[:-1](x).detach() - before
    return rms(change), rms(before - before.mean(0))


# %% jupyter={"source_hidden": true}
NETS = {
    "x + f(x)": (bare, he, {}),
    "x + f(norm(x))": (normed, he, {}),
    "(x + f(x))/√2": (divided, he, {}),
    "turning": (bare, turning, {}),
    "turning, alike": (bare, turning, {"add": common}),
    "x + f(norm(x)), alike": (normed, he, {"add": common}),
    "x + f(norm(x)), more alike": (normed, he, {"add": 4 * common}),
    "x + f(x), 32 blocks": (bare, he, {"depth": 32}),
    "x + f(x), 16 blocks": (bare, he, {"depth": 16}),
    "x + f(x)/2": (gated(1 / 2), he, {}),
    "x + f(x)/4": (gated(1 / 4), he, {}),
    "x + f(x)/8": (gated(1 / 8), he, {}),
    "x + f(x)/1000": (gated(1 / 1000), he, {}),
    "x + f(x)/√(1 + l)": (bare, he, {}),
    "norm, branch like x": (as_large, he, {}),
}


def made(name, seed):
    """Return a network of this lesson, untrained, and what is added to its images."""
    wiring, start, more = NETS[name]
    net = build(wiring, start, seed, more.get("depth", 64))
    return faded(seed) if "√(" in name else net, more.get("add", 0.0)


# %% tags=["trained"] jupyter={"source_hidden": true}
def step_row(name, rate=3e-4, steps=60):
    found = []
    for seed in range(3):
        net, add = made(name, seed)
        found.append(moved(net, rate, batch[0] + add, batch[1]))
    ratios = [change / differs for change, differs in found]
    parts = (" ".join(f"{x:.2f}" for x in part) for part in zip(*found, strict=True))
    print(f"{name:14} {rate:<6g}", *parts, sep="  ", end="  ")
    print(" ".join(f"{x:.1f}" for x in ratios), end="")
    print(f"  {steps:3} steps", *[f"{x:4.0%}" for x in row(name, rate, steps)])
    return ratios


print("               rate    change          differs         ratio")
for rate in (3e-4, 1e-4, 3e-5):
    first = step_row("x + f(x)", rate, 600)
    big = first if rate == 3e-4 else big
steps = [step_row(f"x + f(x)/{divisor}") for divisor in (2, 4, 8, 1000)]
for name in ("x + f(norm(x))", "turning", "turning, alike"):
    step_row(name)
ordered = all(a > b > c > d > e for a, b, c, d, e in zip(big, *steps, strict=True))
holds(ordered, "The smaller the branch, the less one step moves the outputs.")
holds(min(big) > 2 and max(steps[1]) < 1.5, "Several times, and once or less.")
holds(min(row("x + f(x)", 3e-5, 600)) > 0.7, "With small steps it learns.")

# %% [markdown]
# The ratio is the step beside what tells digits apart. In the first three rows only the rate differs: at 3e-4 one step moves
# the outputs by 3 to 7 times that, and training fails; at smaller rates by less, and the network learns. At one rate,
# smaller branches do the same, until a step moves next to nothing, and 60 of them teach next to nothing: a thousandth.
#
# Read the two columns apart: one step changes the outputs of x + f(x) about as far as those of turning or of a half. It is the
# digits that differ little there. **Not shown** is a threshold: x + f(x) at 1e-4 and "turning, alike" have ratios of 2 to 5,
# and learn. And this is the first step alone. **Left open**: whether the first steps or the later ones do the harm.
#
# ## A network to diagnose
#
# Another colleague has put the norms in place, and took two habits from
# [StyleGAN2](https://arxiv.org/abs/1912.04958), a generator of images: the sum is divided by √2, so that the stream keeps
# its size, and the weights are drawn with variance 1 and multiplied by He's standard deviation in each call.


# %%
class Rescaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(128, 64))
        self.second = nn.Parameter(torch.randn(64, 128))

    def forward(self, x):
        hidden = F.linear(F.layer_norm(x, (64,)), self.first * (2 / 64) ** 0.5)
        f = F.linear(hidden.relu(), self.second * (1 / 128) ** 0.5)
        return (x + f) / 2**0.5


def as_handed(depth):
    blocks = [Rescaled() for _ in range(depth)]
    return nn.Sequential(*blocks, nn.LayerNorm(64), nn.Linear(64, 10))


# %% tags=["trained"] jupyter={"source_hidden": true}
torch.manual_seed(0)
network = as_handed(64).to(device)
tell(record(network, *batch))
train(network, 3e-4, 60, train_x, train_y)
print(f"after 60 steps {accuracy(network, test_x, test_y):.0%} right")
holds(accuracy(network, test_x, test_y) < 0.7, "As handed over it does not learn well.")

# %% [markdown]
# ### Exercise 3 · 15 minutes · ●●●●○
#
# All three curves look healthy. Two things hinder this network; at 64 blocks mending one is not enough.
#
# 1. **Measure** what the curves do not show. `read(*untrained(network))` is the probe, for a new `as_handed(64)`.
# 2. **Mend** what you find, train, and look how the loss falls. But the stream shall keep its size, for which the division
#    was meant. (With x + f(norm(x)) it grows eightfold.)
# 3. `mended_network(depth)` returns `nn.Sequential(*blocks, nn.LayerNorm(64), nn.Linear(64, 10))` with `depth` blocks that
#    all learn. The rms of the stream after each block is between 0.5 and 2 before training. The check trains it at 3e-4
#    for 60 steps, with 24, 48 and 64 blocks and a seed each, and wants 90 % right.
#
# <details><summary>Hint 1</summary>How large is a branch beside the stream that it joins, in each block? Compare with
# the networks that learned. If x and f have size 1 and no common direction, how large is a · x + b · f?</details>
# <details><summary>Hint 2</summary>When the probe reads 90 % and the loss falls too slowly: how far can 60 steps of
# Adam move a weight, and how large are the weights here?</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-network", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_network(depth):
    """Return a network of `depth` blocks that learns; its weights are drawn here."""

    ### BEGIN SOLUTION
    # Divided by √2, each branch is as large as the stream: the probe reads about 40 %.
    # And 60 steps of 3e-4 move a weight by at most 0.018, 2 % of weights of size 1.
    # So make the branch an eighth of the stream, divide the sum by its new size, and
    # draw He's weights themselves.
    class Repaired(nn.Module):
        def __init__(self):
            super().__init__()
            layers = nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)
            self.norm, self.f = nn.LayerNorm(64), nn.Sequential(*layers)
            he(self.f)

        def forward(self, x):
            return (x + self.f(self.norm(x)) / 8) / (1 + 1 / 64) ** 0.5

    blocks = [Repaired() for _ in range(depth)]
    return nn.Sequential(*blocks, nn.LayerNorm(64), nn.Linear(64, 10))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-network-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(mended_network, "mended_network")

# %% [markdown]
# The [appendix](01_gradient_flow_more.ipynb) switches the two causes off one at a time.
#
# ## The curves as a river
#
# One picture of these curves comes back in later lessons, measured by the library's recorder. Here are 24 blocks with norms.

# %%
from residual_edu.gradient_flow import GradientFlowRecorder

net = build(normed, depth=24)
with GradientFlowRecorder(net, net[:-2]) as flow:
    F.cross_entropy(net(batch[0].clone().requires_grad_()), batch[1]).backward()

# %% tags=["figure"]
from residual_course.plots.stream import plot_stream

ax = plot_stream(flow, Figure(figsize=(6, 3.6)).add_subplot(), norms="pre")
ax.set_title("Both rivers swell steadily")
alt = "Two rivers swell steadily: the blue signal to the right, the green stream "
show(ax.figure, alt=alt + "gradient below it to the left. Each block adds a tributary.")

# %% [markdown]
# **Above**, to the right, the signal: a tributary is what a block adds, a dark bar is a norm. **Below**, to the left, the
# stream gradient: a tributary is what came back through a branch.
#
# ## When a network does not learn
#
# What to measure, in this order, and what it said here:
#
# 1. **The rate**: a smaller one, in as many steps.
# 2. **Signal and stream gradient**: where they vanish or explode. Before a last norm a flood alone did no harm.
# 3. **The weight gradient**: made of the two, and flat where both explode.
# 4. **Each branch beside the stream**: as large, with He's weights and 64 blocks, failed; an eighth learned.
# 5. **A probe on the untrained blocks**: low, it warned; high, it promised nothing.
# 6. **One step, at the outputs**, beside what differs between inputs there.
# 7. **What all the steps can move** beside the weights' size.
# 8. Then **one switch at a time**.
#
# ## The code of the stored runs
#
# To be skipped. One of the runs is computed again.


# %% jupyter={"source_hidden": true}
RATES = {
    "x + f(x)": ((1e-4, 60), (1e-4, 600), (3e-4, 600), (3e-5, 600)),
    "x + f(norm(x))": ((1e-4, 60),),
}


# %% tags=["runs"] jupyter={"source_hidden": true}
def runs(seed, within=0.2, only=()):
    found = {}
    for name in NETS:
        for rate, steps in ((3e-4, 60), *RATES.get(name, ())):
            if not only or (name in only and (rate, steps) == (3e-4, 60)):
                net, add = made(name, seed)
                features = untrained(net, add)
                if steps == 60 and rate == 3e-4:
                    found[f"{name}, read"] = read(*features)
                    found[f"{name}, cosine"] = cosine(net[:-2](test_x + add))
                train(net, rate, steps, train_x + add, train_y)
                share = accuracy(net, test_x + add, test_y)
                found[f"{name}, {rate:g}, {steps}"] = share
    return found


# %% tags=["trained"] jupyter={"source_hidden": true}
again = runs(0, only=("turning",))
far = max(abs(share - stored[0][name]) for name, share in again.items())
print("computed again, as stored:", far < 0.2)
holds(far < 0.2, "The stored runs are those of this code.")

# %% [markdown]
# ## Summary
#
# The core of the library's `GradientFlowRecorder`, which knows cases that ours forgets, such as a block that runs twice:
# it measures the stream at both ends of each block, and what the block added is their difference.


# %% tags=["promote:gradient_flow/stream"]
from functools import partial

from torch import Tensor
from torch.utils.hooks import RemovableHandle

from residual_edu.gradient_flow.sizes import size, size_between
from residual_edu.gradient_flow.stream import Mark, Place, Run


class Stream:
    """The stream of one step, measured at both ends of each block, there and back."""

    def __init__(self) -> None:
        self.latest: Mark | None = None
        self.hooks: list[RemovableHandle] = []

    def mark(self, x: Tensor) -> Mark:
        """Measure the stream, unless a block ended here; await the gradient."""
        if self.latest is None or self.latest.kept() is not x:
            place = Place({"activation": size(x)})
            self.latest = Mark(x, x._version, place)
            if x.requires_grad:
                self.hooks.append(x.register_hook(partial(self.meet, place)))
        return self.latest

    def leave(self, before: Mark, y: Tensor) -> Run:
        """Measure the stream after a block, and what the block added: y - x."""
        run = Run(before.place, self.mark(y).place)
        run.sizes["added"] = size_between(y, before.kept())
        before.place.began.append(run)
        return run

    def meet(self, place: Place, g: Tensor) -> None:
        """Measure the gradient at a place, and its part through each branch there."""
        place.sizes["stream_gradient"], place.gradient = size(g), g
        for run in place.began:
            run.sizes["branch_gradient"] = size_between(g, run.end.gradient)


# %% [markdown]
# | law | where it stops |
# |---|---|
# | 1. rms(∇W) = rms(x) · rms(g) for one sample; times √B · k for a batch | a linear layer used once for each sample |
# | 2. Where each block multiplies signal and gradient by the same factor, weight gradients are flat but for k | on average over random weights |
# | 3. With He's weights, 64 blocks with branches as large as the stream fail at 3e-4, and one step of Adam moves the outputs of x + f(x) by several times what differs between digits; from 1/2 to 1/8 of it they learn | these digits, 60 steps; a thousandth fails; turning, as large as x, learns; a large step common to all digits did no harm there |
# | 4. Before training, neither the curves nor the cosine tell which of these networks learn; a low probe warns, a high one promises nothing | the same; at 1e-4 the failing network learns |

# %%
summary("01")

# %% [markdown]
# ## Next
#
# - [Lesson 02](02_layer_norm.ipynb) takes the norm apart.
# - [Homework for lessons 00 and 01](homework/hw_00_01.ipynb).
# - [The appendix](01_gradient_flow_more.ipynb): the causes of exercise 3, where k comes from, hooks that stay, the
#   branch's share, how far Adam moves a weight, the explorer.
# - [Glossary](../docs/glossary.md): what the words mean, and what papers and other libraries call them.
