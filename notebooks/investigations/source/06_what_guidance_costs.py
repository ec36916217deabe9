# %% [markdown]
# # Investigation 06 · What guidance costs
#
# 45 minutes. You need [lesson 06](../06_adaln_zero.ipynb). No lesson needs this.
#
# In lesson 06 every drawing was made with guidance 2, in ten steps. Why not in one? What does
# guidance do, and what does it cost? And what would a network draw that makes no error?

# %%
import math

import torch

from residual_course.lesson import predict, setup, show, stored_runs
from residual_edu.networks.denoiser import Denoiser, flow_matching_loss
from residual_edu.networks.denoiser import sample, sample_path

device = setup()

# %% jupyter={"source_hidden": true}
from matplotlib.figure import Figure
from sklearn.svm import SVC

from residual_course.datasets import digits
from residual_course.plots import adaln_zero as plots
from residual_course.training import minibatches, train

data = digits()
pictures, labels = (2 * data.train_images - 1).to(device), data.train_labels.to(device)
new_digits = (2 * data.test_images - 1).to(device)
stored = stored_runs("06_what_guidance_costs")["runs"]
start = torch.randn(200, 8, 8, generator=torch.Generator().manual_seed(7)).to(device)
asked = torch.arange(10, device=device).repeat(20)  # 0 to 9, 20 times
ten, one_noise = asked[:10], start[:1].expand(10, 8, 8)


def rms(x):
    return x.square().mean().sqrt().item()


def sheet(rows, title, columns=tuple("0123456789"), draw=plots.plot_digits):
    ax = Figure(figsize=(6, 0.6 * len(rows) + 0.5)).add_subplot()
    draw(torch.stack(list(rows.values())).cpu(), ax, list(rows), list(columns))
    ax.set_title(title)
    return ax.figure


# %% [markdown]
# The network is the package's `Denoiser` with four blocks, on patches of 2 × 2 pixels. It
# trains for 600 steps, about 15 seconds, at a rate that rises to 0.003 and falls to 0.

# %% training tags=["trained"]
model = Denoiser(2, 4, 64, 4, 10).to(device)  # patch, grid, width, depth, classes
generator = torch.Generator().manual_seed(0)
adam = torch.optim.Adam(model.parameters(), lr=0.003, fused=True)
rate = torch.optim.lr_scheduler.OneCycleLR(adam, 0.003, total_steps=600)
losses = train(
    lambda x, y: flow_matching_loss(model, x, y, generator=generator),
    minibatches(pictures, labels),
    adam,
    600,
    rate,
)
print(f"loss {losses[0]:.2f} at first, {sum(losses[-100:]) / 100:.2f} at the end")

# %% [markdown]
# ## 1 · Why not in one step?
#
# A picture p and noise n are mixed to x = (1 − t) n + t p, and the network learns the
# velocity p − n. Many pairs (p, n) lead to the same x, each with a velocity u of its own, and
# the network has one output for it, v. Let m be the mean of these u.
#
# $$|u - v|^2 = |u - m|^2 + 2\,(u - m)\cdot(m - v) + |m - v|^2$$
#
# Averaged over the pairs, u − m is 0, and with it the middle term. The first does not depend
# on v. So the error is smallest for v = m.
#
# Now think of a network whose error is as small as it can be, at t = 0. It receives pure
# noise and the label 3, and takes one step of length 1.

# %% one-step tags=["trained"]
with predict(
    "What does one step of length 1 draw from noise, with the label 3?",
    ["one clear 3", "the mean of all 3s", "the mean of all digits"],
):
    means = torch.stack([pictures[labels == digit].mean(0) for digit in range(10)])
    once = sample(model, start, asked, steps=1, guidance=1.0)
    from_class, from_all = rms(once - means[asked]), rms(once - pictures.mean(0))
    print(f"from the class mean {from_class:.2f}, from the mean of all {from_all:.2f}")
    rows = {
        "mean of the class": means,
        "one step": once[:10],
        "ten steps": sample(model, start[:10], ten, 10, 1.0),
    }
    show(sheet(rows, "One step draws nearly the mean of a class"))

# %% [markdown]
# Then why ten steps? Here is one drawing on its way. The second row is the velocity, the
# third is where it points: x + (1 − t) · velocity, the picture that one step to the end would
# give.

# %% on-its-way tags=["trained"]
three = torch.tensor([3], device=device)
path = sample_path(model, start[6:7], three, 10, 1.0)
times = [0, 2, 4, 6, 8, 9]
with torch.no_grad():
    speeds = [model(path[k], path.new_full((1,), k / 10), three)[0] for k in times]
points = [path[k, 0] + (1 - k / 10) * v for k, v in zip(times, speeds, strict=True)]
grey = [(point.abs() < 0.6).float().mean().item() for point in points]
axes = (fig := Figure(figsize=(6, 3.4))).subplots(3, 1)
columns = [f"t = {k / 10:g}" for k in times]
plots.plot_digits(path[times, 0][None].cpu(), axes[0], ["x"], columns)
plots.plot_velocities(torch.stack(speeds)[None].cpu(), axes[1], ["velocity"])
plots.plot_digits(torch.stack(points)[None].cpu(), axes[2], ["points to"])
fig.suptitle("A blurred mean becomes one digit", x=0.01, ha="left", weight="bold")
show(fig)
print(f"grey pixels in the last row: {grey[0]:.0%} at t = 0, {grey[-1]:.0%} at t = 0.9")

# %% [markdown]
# After a small step the picture is not pure noise any more. It fits some 3s better than
# others, and the mean of those is sharper.
#
# ## 2 · What does guidance do?
#
# In training one label in ten, drawn at random, is replaced by "any digit". So the same
# network predicts two velocities: *told*, with the label, and *untold*, with "any digit".
# Classifier-free guidance ([Ho and Salimans, 2022](https://arxiv.org/abs/2207.12598)) goes on
# in the direction of their difference:
#
# $$\text{untold} + w \cdot (\text{told} - \text{untold})$$
#
# The weight w = 0 leaves the label out, w = 1 is *told*, and w = 2 counts the difference
# twice. (Ho and Salimans count from *told*: their w is ours minus 1.)

# %% two-velocities tags=["trained"]
both = torch.tensor([4, 10], device=device)  # 10 is "any digit"
path = sample_path(model, start[4:5], both[:1], 10, 1.0)
with torch.no_grad():
    pairs = [
        model(path[k].repeat(2, 1, 1), path.new_full((1,), k / 10), both) for k in times
    ]
told, untold = torch.stack(pairs).unbind(1)
rows = {"told": told, "untold": untold, "told − untold": told - untold}
title = "What the label 4 adds to the velocity"
show(sheet(rows, title, columns, plots.plot_velocities))
apart = [rms(told[at] - untold[at]) for at in (0, 2, 5)]
print("rms of the difference at t = 0, 0.4, 0.9:", *[f"{one:.2f}" for one in apart])

# %% [markdown]
# Told and untold look alike, and their difference adds the strokes of a 4. Late on it fades,
# since by then the picture itself says that it is a 4.
#
# ## 3 · And what does it cost?
#
# A judge, a support vector machine that has learned the real digits, counts how many of 200
# drawings it takes for the digit asked for.

# %% jupyter={"source_hidden": true}
known, fresh = pictures.flatten(1).cpu(), new_digits.flatten(1).cpu()
judge = SVC().fit(known, data.train_labels)


def near(flat):
    """Return the median distance to the nearest training digit."""
    return torch.cdist(flat, known).amin(1).median().item()


def judged(drawings):
    """Return how many are recognised, and near over that of new digits."""
    flat = drawings.clamp(-1, 1).flatten(1).cpu()
    count = int((judge.predict(flat) == asked.cpu().numpy()).sum())
    return count, near(flat) / near(fresh)


# %% recognised tags=["trained"]
with predict(
    "Guidance 12: how many of 200 drawings does the judge recognise?",
    ["about 100", "about 150", "about 200"],
):
    found, rows = {}, {}
    for w in (0, 1, 2, 4, 12):
        found[w] = judged(sample(model, start, asked, 10, float(w)))
        rows[f"guidance {w}"] = sample(model, one_noise, ten, 10, float(w))
        print(f"guidance {w:2}: {found[w][0]} of 200")
    show(sheet(rows, "One noise, ten labels: the stronger, the blacker"))

# %% [markdown]
# The judge says which digit it is, and not how well it is drawn. Two other numbers say more,
# each over that of new real digits, so that 1 is as in reality:
#
# - *near*: the median distance from the nearest training digit;
# - *spread*: the mean distance between two drawings of one digit.
#
# Here they are for three networks and eight weights (stored runs).

# %% near-and-spread jupyter={"source_hidden": true}
WEIGHTS = 0, 1, 1.5, 2, 3, 5, 8, 12
curves = {
    what: [[run[f"{what}, {w:g}"] for w in WEIGHTS] for run in stored.values()]
    for what in ("near", "spread")
}
ax = plots.plot_weights(WEIGHTS, curves, Figure().add_subplot())
ax.set_title("Near is best at about 2, and spread falls before")
show(ax.figure)

# %% [markdown]
# That is the price. From weight 1 to 2 the drawings come nearer to real digits, and differ
# less from each other than real ones do. Beyond about 3 they move away from the real digits,
# and the judge of the label does not notice.
#
# ## 4 · What would a network without error draw?
#
# By section 1 the velocity with the smallest error is a mean over all training pictures, and
# needs no network. If x was made from the picture p, the noise was n = (x − t p) / (1 − t), and
# that noise has the probability exp(−|n|²/2), up to a constant. So each picture is weighted by
# how well it fits x.


# %%
def best(x, t, asked):
    """Return the velocity with the smallest error, from all training pictures."""
    noise = torch.cdist(x.flatten(1), t * pictures.flatten(1)) / (1 - t)  # its length
    others = (labels != asked[:, None]) & (asked[:, None] < 10)
    weights = (-noise.square() / 2).masked_fill(others, -math.inf).softmax(1)
    return (torch.einsum("bp,pij->bij", weights, pictures) - x) / (1 - t)


best.num_classes = 10

# %% without-error tags=["trained"]
with predict(
    "Ten steps along the velocity with the smallest error: what does it draw?",
    ["training digits", "new digits", "means of classes"],
):
    copies = sample(best, start, asked, steps=10, guidance=1.0)
    ours = sample(model, start, asked, steps=10, guidance=1.0)
    print(f"near: best {judged(copies)[1]:.2f}, network {judged(ours)[1]:.2f}")
    drawn = sample(model, start, asked, steps=10).clamp(-1, 1)
    nearest = torch.cdist(drawn.flatten(1).cpu(), known).argmin(1)
    rows = {
        "smallest error": copies[:10],
        "network": drawn[:10],
        "nearest to it": pictures[nearest[:10].to(device)],
    }
    show(sheet(rows, "The network's drawings are not in its training set"))

# %% [markdown]
# A network that reached the smallest error on its training pictures would copy them. What we
# want of it, new digits, it can draw because it does not reach it.
#
# ## 5 · Four networks, at other rates and for longer
#
# Lesson 06 trained four networks of twelve blocks for 50 steps, at a rate of 0.003. With that and
# with others, so many of 200 drawings are recognised (three seeds, stored runs):

# %% four-hundred jupyter={"source_hidden": true}
NAMES = "added once, gates from 1", "added once, gates from 0"
NAMES += "every branch, gates from 1", "every branch, gates from 0"
for training in "50 at 0.001", "50 at 0.003", "50 at 0.01", "400 at 0.003":
    print(f"{training} (steps, rate)")
    for name in NAMES:
        counts = [run[f"{name}, {training}"] for run in stored.values()]
        print(f"  {name:28}", *[f"{count:4}" for count in counts])

# %% [markdown]
# After 50 steps both changes together do best at each rate; which of the two does more depends on
# it. After 400 steps the way in for the condition decides nothing that this judge could see.
# Whether one of them draws *better* digits in the end is open: for that a longer training and
# a finer judge are needed.
#
# Back to [lesson 06](../06_adaln_zero.ipynb).
