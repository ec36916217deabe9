# %% [markdown]
# # 01 · Gradient flow: see what reaches every layer
#
# One hour. You need Python and basic PyTorch: tensors, `nn.Module`, `backward()`. The lesson
# before is [00, the residual connection](00_residual_connection.ipynb); this one stands alone.
#
# When a network does not train, the loss tells us so, but not where to look. So we look at three
# sizes at each depth: how large is x on its way forward, how large is the gradient on its way
# back, and how large is the gradient of the weights? You write the tool that records them, in
# fewer than 30 lines. It shows you what goes wrong in three networks, of which you mend the last,
# and you point it at a GPT-2 with random weights.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary

device = setup()
progress("01")

# %% [markdown]
# ## 1 · What goes wrong without it?
#
# Our network reads handwritten digits of 8 × 8 pixels. It has 16 blocks, each a linear layer
# without biases and a tanh, 64 numbers in and 64 out. A last linear layer computes ten scores.
# (Folded: the digits and the pictures.)

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure

from residual_course.datasets import digits
from residual_course.lesson import stored_runs
from residual_course.plots.along_depth import along_depth
from residual_course.plots.style import GRADIENT, REFERENCE, SERIES, STREAM
from residual_course.training import accuracy, minibatches

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
train_x, test_x = (((x - mean) / std).flatten(1).to(device) for x in data[::2])
train_y, test_y = (y.to(device) for y in data[1::2])

LOOKS = {  # ink, dash, mark; and where the name stands
    "std 0.07": (*SERIES[0], (25, 2.12)),
    "std 1": (*SERIES[1], (25, 2.75)),
    "std 1/8": (*SERIES[2], (2, 0.25)),
}


def plot_losses(runs, title):
    ax = Figure(figsize=(6, 3.2)).add_subplot()
    ax.axhline(2.303, color=REFERENCE, linewidth=0.6, zorder=0)
    ax.text(99, 1.88, "guessing: ln 10 = 2.303", ha="right")
    for name, seeds in runs.items():
        ink, dash, _, place = LOOKS[name]
        for losses, _ in seeds:
            ax.plot(losses, dash, color=ink, linewidth=1.5)
        shares = ", ".join(f"{share:.0%}" for _, share in seeds)
        words = f"{name} reads {shares}"
        ax.text(*place, words, color=ink, weight="bold", va="center")
    ax.set(xlabel="training step", ylabel="loss on training data")
    ax.set(ylim=(0, 3), xlim=(0, 100), title=title)
    return ax.figure


def plot_slopes():
    """Draw four activations and their slopes."""
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    functions = torch.tanh, torch.sigmoid, F.relu, F.gelu
    for ax, f in zip(axes.flat, functions, strict=True):
        z = torch.linspace(-4, 4, 201, requires_grad=True)
        y = f(z)
        slope = torch.autograd.grad(y.sum(), z)[0]
        ax.plot(z.detach(), y.detach(), color=STREAM)
        ax.plot(z.detach(), slope, "--", color=GRADIENT)
        ax.set(title=f.__name__, ylim=(-1.2, 2), xticks=[-4, -2, 0, 2, 4])
    axes[0, 0].text(-3.9, -0.75, "f", color=STREAM, weight="bold")
    axes[0, 0].text(-3.9, 0.2, "slope f′", color=GRADIENT, weight="bold")
    figure.suptitle("Where an activation is flat, its slope is 0", weight="bold")
    return figure


def plot_values(tensors):
    """Draw how the numbers in a few tensors are spread."""
    figure = Figure(figsize=(6, 2.9))
    axes = figure.subplots(1, len(tensors))
    for ax, (name, x) in zip(axes, tensors.items(), strict=True):
        counts = torch.histc(x.cpu(), bins=41, min=-1, max=1) / x.numel()
        ax.bar(torch.linspace(-1, 1, 41), counts, width=2 / 41, color=LOOKS[name][0])
        ax.set(xlabel="value after block 8", xlim=(-1.05, 1.05), ylim=(0, 1))
        ax.set_title(name, color=LOOKS[name][0])
    figure.suptitle("Crowded about 0, or pressed against the ends", weight="bold")
    return figure


def plot_sizes(flows):
    """Draw the three sizes of a few networks, block by block."""
    figure = Figure(figsize=(6, 3.4))
    titles = "forward: x", "backward: gradient", "weight gradient"
    for at, (ax, title) in enumerate(zip(figure.subplots(1, 3), titles, strict=True)):
        for sizes, (ink, dash, _) in zip(flows.values(), SERIES, strict=False):
            ax.plot(range(1, 13), sizes[at], dash, color=ink)
        ax.set(yscale="log", ylim=(1e-4, 10), xlabel="block", xticks=[1, 4, 8, 12])
        ax.set_title(title, weight="normal")
        ax.minorticks_off()
        ax.tick_params(labelleft=at == 0)
    for name, (ink, *_), y in zip(flows, SERIES, (0.03, 0.3, 0.8), strict=False):
        figure.axes[0].text(
            1.5 if name == "Llama" else 5, y, name, color=ink, weight="bold"
        )
    figure.suptitle("Three untrained transformers: no curve runs away", weight="bold")
    return figure


# %% [markdown]
# Here is the network, and the training loop: 100 steps of SGD at a rate of 0.1.


# %%
def network(std, activation=nn.Tanh, seed=0):
    torch.manual_seed(seed)
    layers = [nn.Linear(64, 64, bias=False) for _ in range(16)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=std)
    blocks = [nn.Sequential(layer, activation()) for layer in layers]
    return nn.Sequential(*blocks, nn.Linear(64, 10)).to(device)


def fit(net, optimizer, steps=100, seed=0):
    losses, batches = [], minibatches(train_x, train_y, seed=seed)
    for _ in range(steps):
        x, y = next(batches)
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %%
def trained(std, seed, rate=0.1):
    net = network(std, seed=seed)
    losses = fit(net, torch.optim.SGD(net.parameters(), lr=rate), seed=seed)
    return losses, accuracy(net, test_x, test_y)


# %% [markdown]
# How large should the weights be at the start? Two choices are common.
# A standard deviation of 0.07 is what PyTorch gives to an `nn.Linear(64, 64)`, and a standard
# deviation of 1 is what `torch.randn` gives. Each output of a layer is a sum of 64 products of
# random signs, so its weights W multiply the size of x by about √64 · std: by 0.56, or by 8.

# %% two-starts tags=["slow", "trained"]
with predict(
    "Weights of std 0.07, or weights of std 1: which network learns?",
    ["0.07", "1", "both", "neither"],
):
    runs = {}
    for name, std in ("std 0.07", 0.07), ("std 1", 1.0):
        runs[name] = [trained(std, seed) for seed in range(3)]
    show(plot_losses(runs, "Two failures, and the loss does not say why"))

# %% [markdown]
# Two flat curves, and they do not tell us whether both networks fail for the same reason. We
# have to look inside.
#
# ## 2 · What exactly is it?
#
# To record **gradient flow** we need four small things: one number for a tensor, something
# that notes x on its way forward, something that notes the gradient on its way back, and the
# gradients of the weights.
#
# ### Step 1 · One number for a tensor
#
# The size of a tensor is the root of the mean of its squares (rms). In the plain mean, positive
# and negative numbers would cancel.


# %%
def rms(x):
    return x.detach().square().mean().sqrt().item()


print(rms(torch.tensor([1.0, -7.0])))

# %% [markdown]
# Check it: (1 + 49) / 2 = 25, and the root of that is 5.
#
# ### Step 2 · On the way forward
#
# A **hook** is a function that you leave with PyTorch, to be called when something happens. A
# module takes a forward hook: PyTorch calls it when the module has run, with the module, its
# arguments and its output. We leave one with each of three blocks that halve their input.


# %%
class Half(nn.Module):
    def forward(self, x):
        return x / 2


def say(block, args, output):
    print("in", args[0].item(), "  out", output.item())


halves = nn.Sequential(Half(), Half(), Half())
handles = [block.register_forward_hook(say) for block in halves]
out = halves(torch.tensor(8.0))

# %% [markdown]
# We did not touch the code of `Half`: hooks work on networks that somebody else wrote. A hook
# stays with its module until you remove it, for which each registration returned a handle.

# %%
for handle in handles:
    handle.remove()

# %% [markdown]
# ### Step 3 · On the way back
#
# `backward()` keeps the gradients of the weights and throws away those in between. But a tensor
# takes a hook too, which is called with the gradient during `backward()`.

# %%
x = torch.tensor(8.0, requires_grad=True)
middle = x / 2
middle.register_hook(lambda g: print("gradient at the middle:", g.item()))
end = middle / 2
end.backward()
print("gradient at x:         ", x.grad.item())

# %% [markdown]
# The gradient reaches the middle first and x after it, and each halving halves it.
#
# ### Exercise 1 · Listen both ways (5 minutes)
#
# When a block has run, its output is in our hands: the moment to note its size, and to leave a
# tensor hook with it for later. Complete `note`: `forward` gets the size of each block's output,
# `backward` the size of the gradient there, both in the order of the blocks. Where
# `x.requires_grad` is false, as under `torch.no_grad()`, leave no tensor hook.
#
# <details><summary>Hint 1</summary>Two statements: an <code>append</code>, and an <code>if</code>
# with the third line of step 3 in it.</details>
# <details><summary>Hint 2</summary>The gradient reaches the last block first;
# <code>some_list.insert(0, number)</code> puts a number in front.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "listen", "locked": false, "schema_version": 3, "solution": true, "task": false}
def listen(blocks):
    """Note two sizes at each block; return both lists, and the hooks' handles."""
    forward, backward = [], []

    def note(block, args, output):
        x = output[0] if isinstance(output, tuple) else output  # some return more
        ### BEGIN SOLUTION
        forward.append(rms(x))
        if x.requires_grad:
            x.register_hook(lambda g: backward.insert(0, rms(g)))
        ### END SOLUTION

    handles = [block.register_forward_hook(note) for block in blocks]
    return forward, backward, handles


# %% nbgrader={"grade": true, "grade_id": "listen-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(listen, "listen")

# %% halves
forward, backward, handles = listen(halves)
halves(torch.tensor(8.0, requires_grad=True)).backward()
print("forward", forward, "  backward", backward)

# %% [markdown]
# ### Step 4 · The gradient of the weights
#
# Those gradients PyTorch keeps for us, in `.grad`. What are they made of? Take a linear layer y = Wx
# with 2 inputs and 3 outputs, and let the gradient g = (1, 1, −5) arrive at its output.

# %% by-hand
x, g = torch.tensor([1.0, -7.0]), torch.tensor([1.0, 1.0, -5.0])
layer = nn.Linear(2, 3, bias=False)
layer(x).backward(g)
print(layer.weight.grad)
print("rms of x", rms(x), "  of g", rms(g), "  of ∇W", rms(layer.weight.grad))

# %% [markdown]
# Each weight joins one input to one output, and its gradient is the product of what stands at its
# two ends: 35 is −7 · −5. So the sizes multiply too, and 15 is 5 · 3.
#
# $$\frac{\partial L}{\partial W_{ij}} = g_i\,x_j$$
#
# $$\mathrm{rms}(\nabla W) = \mathrm{rms}(x) \cdot \mathrm{rms}(g)$$
#
# Keep this sentence: **the weight gradient is x times g**, what comes forward times what comes
# back. Here x is the input of one linear layer, g the gradient at its output, and there is one
# sample; in a batch such products are added up.
#
# ## 3 · Is mine right?
#
# ### Exercise 2 · The recorder (4 minutes)
#
# We put the pieces into a class for a `with` statement: `__enter__` runs where the `with` begins,
# `__exit__` where it ends, also after an error. Complete `__exit__`. It removes all hooks, and it
# fills `self.weight_gradient` with one number for each block, by `size_of_gradients`. (The **stream**
# is x on its way from block to block.)
#
# <details><summary>Hint</summary>A loop over <code>self.handles</code>, and a list with one call
# for each of <code>self.blocks</code>. Do not return True: Python would then hide an
# error.</details>


# %%
def size_of_gradients(block):
    grads = [w.grad.flatten() for w in block.parameters() if w.grad is not None]
    return rms(torch.cat(grads)) if grads else float("nan")


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "recorder", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Recorder:
    """At each block the sizes of x, of its gradient, of the weights' gradients."""

    def __init__(self, blocks):
        self.blocks = list(blocks)

    def __enter__(self):
        found = listen(self.blocks)
        self.activation, self.stream_gradient, self.handles = found
        return self

    def __exit__(self, *error):
        ### BEGIN SOLUTION
        for handle in self.handles:
            handle.remove()
        self.weight_gradient = [size_of_gradients(block) for block in self.blocks]
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "recorder-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(Recorder, "recorder")

# %% [markdown]
# The package has a `GradientFlowRecorder`. Folded is its core, word for word: `mark` does what your
# `note` does, before each block too, and it keeps x, so that it can tell what a block *added*.
# Do the two agree, on 64 digits?

# %% jupyter={"source_hidden": true} tags=["promote:gradient_flow/stream"]
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


# %% same-sizes
from residual_edu.gradient_flow import GradientFlowRecorder

digits_64, labels_64 = train_x[:64], train_y[:64]
net = network(1.0)
with Recorder(net[:-1]) as mine, GradientFlowRecorder(net, net[:-1]) as theirs:
    F.cross_entropy(net(digits_64), labels_64).backward()
for name in "activation", "stream_gradient", "weight_gradient":
    a, b = torch.tensor(getattr(mine, name)), getattr(theirs, name)[0, -16:]
    print(f"{name:15} agrees: {torch.allclose(a, b.float(), rtol=1e-5)}")

# %% [markdown]
# They agree in all 48 numbers, to five digits.
#
# ## 4 · What does it do to the gradient?
#
# We look with your recorder into the two networks of section 1, before their first step.


# %%
def record(net):
    net.zero_grad()
    with Recorder(net[:-1]) as flow:
        F.cross_entropy(net(digits_64), labels_64).backward()
    return flow


def tell(flow):
    print("block                1        8       16")
    for name in "activation", "stream_gradient", "weight_gradient":
        sizes = getattr(flow, name)
        print(f"{name:15}", *[f"{sizes[at]:8.1e}" for at in (0, 7, 15)])


# %% [markdown]
# Take the weights of std 0.07 first. Each block makes x smaller on its way forward, and the
# gradient smaller on its way back.

# %% where-smallest
with predict(
    "Weights of std 0.07: in which block is the weight gradient smallest?",
    ["in block 1", "in block 16", "about equal in all"],
):
    flow = record(network(0.07))
    tell(flow)

# %% [markdown]
# Here are both networks at all depths. (The upper panel subtracts the
# mean over the digits: what remains tells them apart.)

# %% along-depth tags=["trained"]
nets = {"std 0.07": network(0.07).double(), "std 1": network(1.0).double()}
parts = {name: (net, net[:-1]) for name, net in nets.items()}
show(along_depth(parts, (digits_64.double(), labels_64), F.cross_entropy))

# %% [markdown]
# **Std 0.07: x fades forward, and the gradient fades backward.** Block 1 gets a full x and hardly
# any gradient, block 16 a full gradient and hardly any x. So their product is about the same in
# every block, and tiny. The lower panel alone would look healthy.
#
# **Std 1: the gradient explodes.** It doubles with every block on its way back, so block 1 gets a weight
# gradient tens of thousands of times as large as block 16. Here the upper panel alone would look
# healthy. This is why we need all three.
#
# (The lower curves lie higher than x times the gradient, because the products of 64 digits are
# added up.)
#
# What makes the two gradients so different? This is one block, forward and backward:
#
# $$x_l = f(W x_{l-1}) \qquad g_{l-1} = W^{\!\top}\bigl(f' \cdot g_l\bigr)$$
#
# W multiplies a size by about 8 · std, in both directions. On the way back there is another factor:
# f′, the slope of the activation. Here are four common ones.

# %% slopes
show(plot_slopes())

# %% [markdown]
# Tanh has slope 1 at 0, and hardly any beyond ±3: there it is **saturated**. The slope of a sigmoid
# is never above 1/4, so the slopes of 16 sigmoids in a row multiply a gradient by 1/4¹⁶ = 2 · 10⁻¹⁰
# at most. ReLU lets a gradient through whole or not at all. GELU is a ReLU with the corner rounded
# off. So it matters where on these curves the numbers stand. In the network of std 1, x has a size
# of 0.95 after each block. What does it look like?

# %% values
with predict(
    "Weights of std 1: where do the numbers of x after block 8 stand?",
    ["most near 0", "evenly from -1 to 1", "most near -1 and 1"],
):
    x = train_x.double()
    after_8 = {name: net[:8](x).detach() for name, net in nets.items()}
    show(plot_values(after_8))
    for name, x in after_8.items():
        slope = 1 - x.square()  # the derivative of tanh
        print(f"{name:8}  size of x {rms(x):.3f}, of the slope {rms(slope):.2f}")

# %% [markdown]
# With std 0.07 all numbers stand near 0, where the slope is 1, so a block multiplies the gradient by
# W's 0.56. With std 1 most stand at ±1, where tanh is flat: the slopes multiply the gradient by about
# 0.26 and W by 8, and 8 · 0.26 is the doubling that we saw.
#
# ## 5 · Does it help?
#
# Is it simply the rate? We try larger steps where the gradients were tiny, and smaller ones where
# they were huge.

# %% other-rates tags=["slow", "trained"]
for std, rate in (0.07, 1), (0.07, 100), (1.0, 0.01), (1.0, 0.0001):
    print(f"std {std}, rate {rate}: {trained(std, seed=0, rate=rate)[1]:.0%} read")
net = network(0.07)
fit(net, torch.optim.Adam(net.parameters(), lr=0.001))
share = accuracy(net, test_x, test_y)
print(f"std 0.07, Adam at a rate of 0.001: {share:.0%} read")

# %% [markdown]
# None of these four rates helps. Adam divides each gradient by its own size, so it gets further with
# the small weights, and not far. So we change the start, and nothing else. W should neither shrink
# nor swell what passes through, so √64 · std should be 1, which gives a std of 1/8.

# %% which-std tags=["slow", "trained"]
runs["std 1/8"] = [trained(1 / 8, seed) for seed in range(3)]
show(plot_losses(runs, "The same network, another start"))

# %% [markdown]
# 0.07 was too small, and 1 too large. And the three sizes?

# %% three-starts tags=["trained"]
net = network(1 / 8).double()
parts["std 1/8"] = net, net[:-1]
show(along_depth(parts, (digits_64.double(), labels_64), F.cross_entropy))

# %% [markdown]
# With std 1/8 x and the gradient change by less than a factor of 10 over all 16 blocks, and not by
# thousands. In PyTorch this start is `nn.init.xavier_normal_`, after
# [Xavier Glorot](https://proceedings.mlr.press/v9/glorot10a.html). For ReLU, which sets about half of the numbers to 0, the std is √2
# times as large: `nn.init.kaiming_normal_`, after [Kaiming He](https://arxiv.org/abs/1502.01852).
#
# ### Point it at a network that you did not write
#
# All that your recorder needs of a model is its list of blocks. Here are GPT-2 and Llama from
# `transformers` and a vision transformer from `timm`, three lines each, with random weights. (This
# course does not install the two packages. Where they are missing, the cell says so, and we see what
# this code recorded elsewhere.)

# %% peers tags=["nbval-ignore-output"]
flows = {}
try:
    import timm
    import transformers as hf

    torch.manual_seed(0)
    tokens, images = torch.randint(1000, (4, 64)), torch.randn(4, 3, 224, 224)
    gpt2 = hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=256, n_head=4))
    with Recorder(gpt2.transformer.h) as flows["GPT-2"]:
        gpt2(tokens, labels=tokens).loss.backward()
    small = {"hidden_size": 256, "intermediate_size": 688, "num_attention_heads": 4}
    llama = hf.LlamaForCausalLM(hf.LlamaConfig(num_hidden_layers=12, **small))
    with Recorder(llama.model.layers) as flows["Llama"]:
        llama(tokens, labels=tokens).loss.backward()
    vit = timm.create_model("vit_tiny_patch16_224", num_classes=10)
    with Recorder(vit.blocks) as flows["ViT"]:
        F.cross_entropy(vit(images), torch.arange(4)).backward()
except (ImportError, RuntimeError) as error:
    print("Stored sizes, because here:", error)

# %% peers-drawn jupyter={"source_hidden": true}
names = "activation", "stream_gradient", "weight_gradient"
sizes = {peer: [getattr(flow, name) for name in names] for peer, flow in flows.items()}
if len(sizes) < 3:
    sizes = stored_runs("01_gradient_flow")["runs"][0]
show(plot_sizes(sizes))

# %% [markdown]
# These networks have skips and norms (lessons 00 and 02 take them apart). x grows by what each block
# adds, in Llama sevenfold, the gradient does not fade on its way back, and the weight gradients of
# the blocks differ by a factor of about 5 at most. With std 1 it was tens of thousands.
#
# ## 6 · Where do people go wrong?
#
# Your recorder turns "it does not train" into four questions:
#
# 1. Does a gradient arrive at every block? If it is exactly 0 or missing, something cuts it off.
# 2. Does x fade or explode along the blocks? Does the gradient? Then mend the start.
# 3. Where do the values stand: are they saturated, or all 0?
# 4. And all of this again, after some steps?
#
# ### Exercise 3 · A network that died (9 minutes)
#
# A colleague exchanges tanh for ReLU, with the std of √2/8 that ReLU wants, and SGD for Adam. The
# network guesses, and she suspects the start.


# %% handed tags=["trained"]
def relu_network():
    return network(2**0.5 / 8, nn.ReLU)


net = relu_network()
tell(record(net))
losses = fit(net, torch.optim.Adam(net.parameters(), lr=0.1))
print(f"after 100 steps: {accuracy(net, test_x, test_y):.0%} read")
tell(record(net))

# %% [markdown]
# At the start all three sizes are healthy. After the training the gradients of the weights are exactly 0! ReLU returns 0
# for whatever is negative. A unit (one of the 64 outputs) that is 0 for *every* digit is **dead**: its
# slope is 0 for every digit too, so no gradient reaches its weights any more.
#
# **Measure first.** Write `dead`. It gets what a block returned, a tensor of shape (digits, units),
# and returns the share of units that are 0 for all digits.
#
# <details><summary>Hint</summary><code>(x == 0).all(dim=0)</code> says for each unit whether it is
# dead.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "dead", "locked": false, "schema_version": 3, "solution": true, "task": false}
def dead(x):
    """Return the share of units, between 0 and 1, that are 0 for every digit."""
    ### BEGIN SOLUTION
    return (x == 0).all(dim=0).float().mean().item()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "dead-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check(dead, "dead")

# %% dying tags=["trained"]
print("dead in block      1     4     8    12    16")
for steps in 0, 5, 20:
    net = relu_network()
    fit(net, torch.optim.Adam(net.parameters(), lr=0.1), steps)
    shares = [dead(net[:block](train_x)) for block in (1, 4, 8, 12, 16)]
    print(f"after {steps:2} steps  ", *[f"{share:5.0%}" for share in shares])

# %% [markdown]
# **Then mend.** At the start most units are alive; training kills whole blocks. Complete `mended`: it
# trains a `relu_network()` for 100 steps of Adam, as above but with one number changed, and returns
# it. At least 70 % of the digits must be read.
#
# <details><summary>Hint</summary>A step of Adam moves each weight by about the rate, however small (unless 0)
# its gradient is. How large are the weights, √2/8, beside a rate of 0.1? Let a step move them by
# about a hundredth of their size.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "mended-rate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended():
    """Return the ReLU network, trained."""
    ### BEGIN SOLUTION
    net = relu_network()
    fit(net, torch.optim.Adam(net.parameters(), lr=0.002))
    return net
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-rate-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(mended, "mended_rate")

# %% mended-rate tags=["trained"]
net = mended()
share = accuracy(net, test_x, test_y)
print(f"{share:.0%} read, {dead(net[:16](train_x)):.0%} dead in block 16")

# %% [markdown]
# The rate of 0.1 was left over from SGD, and only the second recording showed what it had done. After a
# dead block x is 0, before it g is 0, and the weight gradient is x times g: no gradient reaches these
# weights any more. ([CS231n](https://cs231n.github.io/neural-networks-1/#actfun) warns of dead ReLUs at high rates.)
# A relative is a `detach()` or `.data` in the middle of a network: the gradient is missing before it.
#
# ## 7 · What do I keep?
#
# For one linear layer and one sample:
#
# $$\mathrm{rms}(\nabla W) = \mathrm{rms}(x) \cdot \mathrm{rms}(g)$$
#
# ```python
# def note(block, args, output):
#     forward.append(rms(output))
#     output.register_hook(lambda g: backward.insert(0, rms(g)))
#
# handles = [block.register_forward_hook(note) for block in blocks]
# ```
#
# Answer from memory, then unfold.
#
# <details><summary>The weight gradients of a network are equally large in all layers. Is it
# healthy?</summary>Not necessarily. If x fades forward as fast as g fades backward, their product is the same
# everywhere, and tiny.</details>
#
# <details><summary>Why does the tensor hook put its number in front?</summary>The gradient comes from the
# end, so the last block's number arrives first.</details>
#
# <details><summary>The size of x is about 1 after every tanh block. What may be wrong all the
# same?</summary>The tanh may be saturated. Then its slope is nearly 0, and only the values show it.</details>
#
# **Next.** [Lesson 02](02_layer_norm.ipynb) builds the norm, which takes care of the size of x. Can all
# three curves be healthy in a network that does not learn? That is the question of the
# [investigation](investigations/01_healthy_curves.ipynb). [Homework](homework/hw_00_01.ipynb) is on
# lessons 00 and 01; the [glossary](../docs/glossary.md) has all words.

# %%
summary("01")
