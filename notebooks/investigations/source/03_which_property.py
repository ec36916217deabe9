# %% [markdown]
# # Investigation 03 · Which property of the coins acts, and where?
#
# 45 minutes. You need [lesson 03](../03_dropout_and_stochastic_depth.ipynb). No lesson
# needs this.
#
# In lesson 03 coins that were thrown once and kept did not help, so it was not the
# narrower network. But dropout has more properties: it sets numbers to zero, it
# multiplies, it draws anew at each step, and it does so for each patient apart. We change
# one of them at a time. Then we ask the same of a task with wrong labels, and of a
# residual network: at which of its places does dropout act?

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import Dropout
from residual_course.lesson import predict, setup, stored_runs

device = setup()

# %% jupyter={"source_hidden": true}
from residual_course.datasets import sklearn_datasets
from residual_course.training import minibatches

parts = sklearn_datasets().load_diabetes(return_X_y=True)
all_x, all_y = (torch.tensor(part, dtype=torch.float32) for part in parts)
stored = stored_runs("03_which_property")["runs"]


def patients(seed):
    """Return measurements and outcomes of 221 patients, then of the other 221."""
    order = torch.randperm(442, generator=torch.Generator().manual_seed(seed))
    x, y = all_x[order], all_y[order, None]
    x = (x - x[:221].mean(0)) / x[:221].std(0)
    y = (y - y[:221].mean()) / y[:221].std()
    return [part.to(device) for part in (x[:221], y[:221], x[221:], y[221:])]


def say(name, found):
    print(f"{name:32}", *[f"{number:5.2f}" for number in found])


def long(name):
    return [stored[seed][name] for seed in range(3)]


def say_long(*names, head, columns=("test", "wrong")):
    print(head)
    for name in names:
        found = ["  ".join(f"{v:4.0%}" for v in long(f"{name}: {c}")) for c in columns]
        print(f"{name.split(', ', 1)[1]:32}", "      ".join(found))


# %% [markdown]
# The network and the training are those of the lesson. `WHO` says which of the 221
# patients are in the batch; one of our gates will read it.

# %%
WHO = {"rows": None}


def trained(gate, seed):
    """Train on half of the patients; return the network and its error on the others."""
    x, y, new_x, new_y = patients(seed)
    torch.manual_seed(seed)
    first = nn.Linear(10, 256), nn.ReLU(), gate()
    second = nn.Linear(256, 256), nn.ReLU(), gate()
    net = nn.Sequential(*first, *second, nn.Linear(256, 1)).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=0.001, fused=True)
    batches = minibatches(x, y, torch.arange(221), seed=seed)
    for _ in range(601):
        batch_x, batch_y, WHO["rows"] = next(batches)
        loss = F.mse_loss(net(batch_x), batch_y)
        adam.zero_grad()
        loss.backward()
        adam.step()
    net.eval()
    with torch.no_grad():
        return net, F.mse_loss(net(new_x), new_y).item()


def errors(gate):
    return [trained(gate, seed)[1] for seed in range(3)]


# %% [markdown]
# ## 1 · Zeros, or noise?
#
# Dropout of rate p multiplies each number by a factor of mean 1 and variance p/(1 − p).
# At p = 0.5 the variance is 1. A factor with the same mean and variance, drawn from a
# normal distribution, is hardly ever 0.


# %%
class Gaussian(nn.Module):
    """Multiply by factors of mean 1 and variance 1."""

    def forward(self, h):
        return h * (1 + torch.randn_like(h)) if self.training else h


# %% gaussian tags=["trained"]
with predict(
    "Gaussian factors in place of the coins: how large is the error on new patients?",
    ["as with dropout", "between the two", "as without dropout"],
):
    without, coins = errors(nn.Identity), errors(lambda: Dropout(0.5))
    gaussian = errors(Gaussian)
    say("no dropout", without)
    say("dropout 0.5", coins)
    say("Gaussian factors", gaussian)

# %% [markdown]
# So no unit has to be switched off. The first paper explained dropout by units that learn
# to do without each other, and found Gaussian factors to be as good ([Srivastava and
# others](https://jmlr.org/papers/v15/srivastava14a.html), section 10).
#
# Need it be a factor? Noise can also be added, as large in each unit as the unit itself
# is in the batch.


# %%
class Added(nn.Module):
    """Add noise, in each unit as large as its root mean square in the batch."""

    def forward(self, h):
        if not self.training:
            return h
        return h + h.detach().square().mean(0).sqrt() * torch.randn_like(h)


# %% added tags=["trained"]
added = errors(Added)
say("added noise", added)

# %% [markdown]
# Neither the zeros nor the factors are needed here. What is left is noise.
#
# ## 2 · For whom are the coins thrown?
#
# In the lesson the coins were thrown once for all patients. Now they are thrown once for
# *each* patient: 221 masks in each layer, and each patient keeps its own. As always,
# evaluation has no masks.


# %%
class OwnMasks(nn.Module):
    """Dropout with a mask for each patient, or, with `deal`, one of 221 at random."""

    def __init__(self, deal=False):
        super().__init__()
        self.deal, self.masks = deal, None

    def forward(self, h):
        if not self.training:
            return h
        if self.masks is None:
            self.masks = 2.0 * (torch.rand(221, h.shape[-1]) >= 0.5).to(h)
        rows = torch.randint(221, (len(h),)) if self.deal else WHO["rows"]
        return h * self.masks[rows.to(h.device)]


# %% own-masks tags=["trained"]
with predict(
    "Each patient keeps its own mask: how large is the error on new patients?",
    ["smaller than with dropout", "as with dropout", "as without dropout", "larger"],
):
    own, dealt = errors(OwnMasks), errors(lambda: OwnMasks(deal=True))
    say("no dropout", without)
    say("dropout 0.5", coins)
    say("own masks", own)
    say("the same masks, dealt anew", dealt)

# %% [markdown]
# The second row is no surprise: 221 masks that are dealt to other patients at each step
# are as good as new ones. But with its own masks the network predicts new patients
# *better* than with dropout. What has it learned of its own patients, with their masks
# and without?

# %% with-and-without tags=["trained"]
print(
    "error on its own patients, with their masks, without masks, with those of others"
)
for seed in range(3):
    net, _ = trained(OwnMasks, seed)
    x, y, *_ = patients(seed)
    found = []
    with torch.no_grad():
        for mode, rows in (
            (True, range(221)),
            (False, range(221)),
            (True, range(220, -1, -1)),
        ):
            net.train(mode)
            WHO["rows"] = torch.tensor(list(rows))
            found.append(F.mse_loss(net(x), y).item())
    say(f"seed {seed}", found)

# %% [markdown]
# With their masks it knows its own patients by heart, and with those of others it is
# worse than without any. A mask that comes with the same patient each time tells the
# network which patient this is, so what is accident in a patient is learned by the mask.
# Evaluation takes the masks away.
#
# That is no recipe, as the next section shows.
#
# ## 3 · Right labels and wrong labels
#
# 300 of the digits of lesson 00, and 1,497 to test on. Once with right labels, and once
# with 30 % of the labels redrawn at random, so that about 27 % are wrong (the test digits
# keep theirs). Two hidden layers of 256 units, 600 steps. These and all further runs are
# stored; the code is `notebooks/runs/03.py`. A wrong label is **memorised** if the
# network returns it in evaluation.

# %% right-labels
say_long(
    *(f"right labels, p = {p}" for p in (0, 0.5, 0.7)),
    head="right labels                     test digits read",
    columns=["test"],
)

# %% [markdown]
# With right labels dropout gains a point at most, and at 0.7 nothing: there is hardly
# anything to overfit.

# %% wrong-labels
with predict(
    "27 % wrong labels and own masks: how much of the test digits is read?",
    ["as with dropout", "between the two", "as without dropout", "less"],
):
    own_wrong = long("wrong labels, own masks: test")
    say_long(
        *(f"wrong labels, {name}" for name in ("p = 0", "p = 0.5", "p = 0.7")),
        "wrong labels, own masks",
        head="wrong labels                     test digits read      memorised",
    )

# %% [markdown]
# With wrong labels dropout of 0.7 gains 12 to 20 points, and far fewer of them are
# memorised. But masks that are kept do harm here. Why the two tasks disagree is open:
# they differ in the loss, in the rate (0.7 here), and in how much of the label is
# accident.
#
# ## 4 · Where in a residual network?
#
# Four blocks x + f(norm(x)) of width 128 on the same wrong labels, 400 steps. Dropout can
# stand on what a branch receives, x + f(**D**(norm(x))); inside the branch after its
# ReLU; on what it returns, x + **D**(f(norm(x))), as in Transformers; or once at the
# start, on the first x. All at a rate of 0.7.

# %% places
with predict(
    "Dropout of 0.7 on what each branch returns: what does it do to the memorising?",
    ["it prevents it", "it delays it a little", "nothing"],
):
    names = "no dropout", "branch outputs, 0.7", "inside branches, 0.7"
    names += "once, at the start, 0.7", "branch inputs, 0.7", "branch outputs, 0.9"
    say_long(
        *(f"4, {name}" for name in names),
        head="wrong labels memorised           after 200 steps       after 400 steps",
        columns=("wrong 200", "wrong 400"),
    )

# %% [markdown]
# On the outputs it delays least. The skip carries the clean digit past all of these
# coins, to the next branch and to the head. On what the branches receive it does most.
# Which branch needs it? Here one of the four receives no coins, the other three do.

# %% one-clean
with predict(
    "Which single branch without coins undoes the effect after 400 steps?",
    ["branch 1", "branch 4", "any of them", "none of them"],
):
    but = [f"4, branch inputs, 0.7, but block {block}" for block in (1, 2, 3, 4)]
    say_long(
        *("4, branch inputs, 0.7", *but),
        *("4, branch inputs, 0.7, block 1 alone", "4, input of branch 1, and outputs"),
        head="wrong labels memorised           after 200 steps       after 400 steps",
        columns=("wrong 200", "wrong 400"),
    )

# %% [markdown]
# Only branch 1 receives the digit before any coin was thrown. If it is clean it
# memorises, whatever the others do. Coins on branch 1 alone are not enough (the others
# receive the digit by the skip), and coins on its input together with coins on all
# outputs are the best row of all: then no branch receives a clean digit.
#
# ## 5 · A coin for a unit or for a branch?
#
# 24 blocks, 1,437 digits with right labels, rate 0.5, 200 steps. `DropPath` throws a coin
# for a whole branch, dropout on the same place one for each number. In evaluation we take
# out 12 of the inner 22 blocks, drawn at random (the mean of five draws). Which network
# is used to that?

# %% taken-out
with predict(
    "12 blocks are taken out: who reads more digits?",
    ["a coin a sample (DropPath)", "a coin a unit (dropout)", "both about equally"],
):
    names = "no dropout", "a coin a sample", "a coin a unit", "no dropout, rate 0.003"
    say_long(
        *(f"24, {name}" for name in names),
        head="digits read                      all 24 blocks         12 taken out",
        columns=("test", "without 12"),
    )

# %% [markdown]
# DropPath has met missing branches in training, dropout never has, and both leave the
# network about as independent of single blocks. By the lesson's section 5 both give each
# number of a branch the same mean and the same variance. A larger learning rate, without
# any coin, does it too.
#
# ## What we found
#
# - On the patients it is noise that helps: zeros and factors are not needed, and the
#   noise has to change, from step to step or from patient to patient.
# - With right labels on these digits dropout gains next to nothing. With wrong ones it
#   delays their memorising.
# - In a residual network what counts is whether a branch receives a clean input. Dropout
#   on the branches' outputs, where Transformers have it, acts least at one rate.
# - Masks that each example keeps helped on one task and did harm on the other. We do not
#   know why.
