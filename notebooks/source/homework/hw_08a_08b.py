# %% [markdown]
# # Homework for lessons 08a and 08b · What depends on what?
#
# About 50 minutes. You need lessons 08a and 08b, and of the library only what they built.
#
# A layer that mixes positions seldom fails with an error. Its shapes are right, it trains, and an output
# depends on something that it should not depend on. At the end of this homework you will have written a mask
# that lets each position attend to exactly what you decided, and a function that finds out from a layer's
# outputs alone what kind of map it is. With its help you will have mended something that claimed to be a
# convolution.
#
# Below each exercise are tests that you can read. Your answers are graded with others too, on other inputs.

# %%
from contextlib import suppress

import torch

from residual_edu import attention, long_convolution

from residual_course.checking.properties import close, unchanged
from residual_course.exercises import attempt
from residual_course.lesson import setup

device = setup()

# %% [markdown]
# Eight times a day we note for each of three rooms how long its heating was on. We
# average each time of day over many days, so reading 7 is followed by reading 0: the readings lie on a circle. A
# room keeps half of its warmth until the next reading. Its warmth is then a convolution of its heating with the kernel 1, ½, ¼ and so on, and lesson
# 08b computed such a convolution as a product of two spectra. Here is how somebody wrote that for all rooms at
# once. We heat room 0 alone, at reading 3:


# %%
def filtered(x, kernel):
    """Convolve x, (batch, positions, channels), with a kernel, (positions, channels), on a circle."""
    spectrum = torch.fft.rfft(x) * torch.fft.rfft(kernel)
    return torch.fft.irfft(spectrum, x.shape[-1])


heating = torch.zeros(1, 8, 3)
heating[0, 3, 0] = 1
halves = 0.5 ** torch.arange(8.0)[:, None].expand(8, 3)
for reading, rooms in enumerate(filtered(heating, halves)[0].tolist()):
    print(f"reading {reading}:", *(f"{warmth:.3f}" for warmth in rooms))

# %% [markdown]
# The shape is right, and nothing else is. Room 0 should be warm at reading 3 and cool down from there on.
# Instead all three rooms are a little warm, at reading 3 only. With real data you would see a table of
# plausible numbers and no trace of this, so you need a test that does not depend on your eye for it.
#
# ## Who may attend to whom?
#
# In attention, a mask decides what an output may depend on. A query of lesson 08a attends to its whole past,
# and in a long text that is too much to keep. A model that writes for hours can attend to a **window** of the
# last few positions instead. But in [one study](https://arxiv.org/abs/2309.17453) such models wrote much worse
# as soon as the first positions of the text had left the window, and well again when these few stayed in sight
# for good. So we need a mask with both. Here is the window alone, of two positions, with `tril` and `triu`:

# %%
past = torch.ones(6, 6).tril()
print(past.triu(-1).int())

# %% [markdown]
# ### Exercise 1 · A window and the beginning (8 minutes)
#
# Two conditions that are joined in the wrong way give a mask that looks right in its lower rows and lets the
# first rows see the future. Therefore you write the mask from its conditions, and look at its first rows too.
#
# Return it, (length, length), True where a query (row) may attend to a key (column): at its own position, at
# the `window - 1` positions before it, and at the first `first` positions of the text, but never at a later one.
#
# <details><summary>Hint 1</summary>Write three conditions on a row number and a column number. Which two of them
# are alternatives, and which one must hold in any case?</details>
# <details><summary>Hint 2</summary>A column of row numbers, <code>torch.arange(length)[:, None]</code>, compared with
# a row of column numbers gives a whole table. A condition on columns alone is broadcast over the rows.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "window-and-start", "locked": false, "schema_version": 3, "solution": true, "task": false}
def window_and_start(length, window, first):
    """Return a mask, (length, length), True where a query may attend to a key."""
    ### BEGIN SOLUTION
    query, key = torch.arange(length)[:, None], torch.arange(length)
    near = query - key < window
    start = key < first
    return (key <= query) & (near | start)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "window-and-start-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("window_and_start"):
    for settings, wanted in (
        ((4, 2, 1), [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]]),
        ((5, 1, 2), [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 0, 1]]),
    ):
        mask = window_and_start(*settings)
        assert mask.dtype == torch.bool, f"the dtype: got {mask.dtype}, wanted torch.bool"
        found = mask.int().tolist()
        assert found == wanted, f"length, window and first {settings}: got {found}, wanted {wanted}"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "window-and-start-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
for size, reach, kept in ((6, 3, 2), (9, 1, 3), (7, 2, 0), (4, 9, 1), (5, 2, 5), (1, 1, 1)):
    allowed = [[j <= i and (i - j < reach or j < kept) for j in range(size)] for i in range(size)]
    found = window_and_start(size, reach, kept)
    assert found.dtype == torch.bool, f"the dtype: got {found.dtype}, wanted torch.bool"
    found = found.tolist()
    assert found == allowed, f"length, window and first {size, reach, kept}: got {found}, wanted {allowed}"
### END HIDDEN TESTS

# %% [markdown]
# ## What kind of map is it?
#
# A mask can be printed. What another layer depends on, we have to find out from its outputs, so we first need to
# say what a convolution is. On a circle, and one channel at a time, it has three properties:
#
# 1. it is **linear**: f(a x + b y) = a f(x) + b f(y) for all signals x and y and all numbers a and b;
# 2. it **commutes with shifts**: if the input is turned around the circle by n positions, so is the output;
# 3. each channel is **by itself**: no output channel depends on another input channel.
#
# Of the next four maps, only the last has all three. We try a cheap form of the first two properties, doubling the
# input and a shift by 3:

# %%
x = torch.randn(1, 12, 4, generator=torch.Generator().manual_seed(808))
ways = {
    "attention": lambda z: attention(z, z, z),
    "a scale for each place": lambda z: z * torch.arange(1.0, 13.0)[:, None],
    "channels swapped": lambda z: z.flip(-1),
    "a shift": lambda z: z.roll(1, 1),
}
for name, way in ways.items():
    linear = torch.allclose(way(2 * x), 2 * way(x), atol=1e-5)
    commutes = torch.allclose(way(x.roll(3, 1)), way(x).roll(3, 1), atol=1e-5)
    print(f"{name:23} doubles with its input: {linear!s:5}  commutes with a shift by 3: {commutes}")

# %% [markdown]
# Attention without positions commutes with shifts, and it is not linear, because its weights depend on the
# signal. But the cheap form can be fooled: a ReLU doubles with its input too, and a map that treats every
# third position in its own way commutes with a shift by 3.
#
# ### Exercise 2 · One word for a map (12 minutes)
#
# So write a test that tries each property as it is stated. `f` takes and returns tensors (batch, positions,
# channels). Call it as often as you like, with numbers of ordinary size in the shape of x, and return what it is, in
# one word:
#
# - "nonlinear": it is not linear;
# - "placed": it is linear, and does not commute with all shifts;
# - "mixed": it is linear and commutes with all shifts, and an output channel depends on another input channel;
# - "convolution": it has all three properties.
#
# A difference of at most 1e-4 is rounding. Leave x as it is.
#
# <details><summary>Hint 1</summary>Which numbers a and b would a ReLU not survive? And a constant that is
# added to every output?</details>
# <details><summary>Hint 2</summary>Each property is an equation between two outputs of f. For the third, compare
# what f makes of a signal with what it makes of the same signal in which all channels but one are 0.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "kind-of-map", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kind_of_map(f, x):
    """Return "nonlinear", "placed", "mixed" or "convolution"."""
    ### BEGIN SOLUTION
    y = torch.randn(x.shape, generator=torch.Generator().manual_seed(7))

    def differ(a, b):
        return bool((a - b).abs().max() > 1e-4)

    if differ(f(2 * x - 3 * y), 2 * f(x) - 3 * f(y)):
        return "nonlinear"
    if any(differ(f(y.roll(n, 1)), f(y).roll(n, 1)) for n in range(1, x.shape[1])):
        return "placed"
    for channel in range(x.shape[-1]):
        alone = torch.zeros_like(y)
        alone[..., channel] = y[..., channel]
        if differ(f(alone)[..., channel], f(y)[..., channel]):
            return "mixed"
    return "convolution"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "kind-of-map-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("kind_of_map"):
    taps, thirds = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(2)), torch.ones(12, 1)
    thirds[::3], kept = 2, x.clone()
    kinds = dict(zip(ways, ("nonlinear", "placed", "mixed", "convolution"), strict=True))
    cases = {name: (ways[name], kind) for name, kind in kinds.items()} | {
        "a convolution on the circle": (lambda z: long_convolution(z, taps, "circular"), "convolution"),
        "a ReLU after a convolution": (lambda z: long_convolution(z, taps, "circular").relu(), "nonlinear"),
        "a shift, plus a constant": (lambda z: z.roll(2, 1) + 1, "nonlinear"),
        "a shift, with every third position doubled": (lambda z: z.roll(1, 1) * thirds, "placed"),
        "the last channel of the one before": (
            lambda z: torch.cat([z[..., :-1], z[..., 2:3].roll(1, 1)], -1),
            "mixed",
        ),
        "squares, every third doubled": (lambda z: z.square() * thirds, "nonlinear"),
    }
    for called, (f, wanted) in cases.items():
        found = kind_of_map(f, x)
        assert torch.equal(x, kept), f"{called}: got another x after the call, wanted x as it was"
        assert found == wanted, f"{called}: got {found!r}, wanted {wanted!r}"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "kind-of-map-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
source = torch.Generator().manual_seed(8082)
probe, few = torch.randn(2, 12, 3, generator=source), torch.randn(1, 3, 3, generator=source)
mixing, blend = torch.randn(12, 12, generator=source), torch.randn(3, 3, generator=source)


def middle(z):
    return torch.stack([z, z.roll(1, 1), z.roll(4, 1)]).median(0).values


def faint(z):
    return z + 1e-3 * torch.cat([0 * z[..., 1:], z[..., :1].roll(4, 1)], -1)


maps = {
    "a table of convolutions": (lambda z: z.cumsum(-1) + z.roll(2, 1), "mixed"),
    "a linear layer at each position": (lambda z: z @ blend, "mixed"),
    "one faint channel in another": (faint, "mixed"),
    "the identity": (lambda z: z, "convolution"),
    "a factor for each channel": (lambda z: z * torch.tensor([1.0, 0.0, -2.0]), "convolution"),
    "a convolution on the circle": (lambda z: long_convolution(z, few, "circular"), "convolution"),
    "nothing": (lambda z: 0 * z, "convolution"),
    "a convolution on a line": (lambda z: long_convolution(z, few, "zero"), "placed"),
    "a causal convolution": (lambda z: long_convolution(z, few, "causal"), "placed"),
    "a fixed matrix": (lambda z: mixing @ z, "placed"),
    "positions in the opposite order": (lambda z: z.flip(1), "placed"),
    "every other position": (lambda z: z * (torch.arange(12) % 2)[:, None], "placed"),
    "every third position, channels mixed": (lambda z: z @ blend * (torch.arange(12) % 3 == 1)[:, None], "placed"),
    "a ReLU after a convolution": (lambda z: long_convolution(z, few, "circular").relu(), "nonlinear"),
    "a convolution plus a constant": (lambda z: long_convolution(z, few, "circular") + 1, "nonlinear"),
    "a sum of absolute values": (lambda z: z.abs() - z.roll(1, 1).abs(), "nonlinear"),
    "a shift and a small square": (lambda z: z.roll(1, 1) + 7e-4 * z.square(), "nonlinear"),
    "the median of three positions": (middle, "nonlinear"),
    "a cube at some positions": (lambda z: z.pow(3) * (torch.arange(12) < 5)[:, None], "nonlinear"),
    "a cube": (lambda z: z.roll(1, 1).pow(3), "nonlinear"),
    "a gate": (lambda z: z * z.roll(1, 1), "nonlinear"),
}
kept = probe.clone()
for called, (way, truth) in maps.items():
    found = kind_of_map(way, probe)
    assert torch.equal(probe, kept), f"{called}: got another x after the call, wanted x as it was"
    assert found == truth, f"{called}: got {found!r}, wanted {truth!r}"
### END HIDDEN TESTS

# %% [markdown]
# ## Back to the filter
#
# Now you have the test. It needs no second implementation to compare with, and no idea of what the right
# numbers are. The filter claims to be a convolution on a circle, so we ask it, with a random kernel:

# %%
kernel = torch.randn(12, 4, generator=torch.Generator().manual_seed(3))
try:
    print("the filter is:", kind_of_map(lambda z: filtered(z, kernel), x))
except NotImplementedError:
    print("This cell needs exercise 2.")

# %% [markdown]
# ### Exercise 3 · Mend it (8 minutes)
#
# The answer tells you where to look. A product of spectra along the positions would commute with shifts; this does
# not, so look at the axis. It also mixes channels, as the warm rooms showed, but one word names only the first
# property that fails. Write the filter right. The kernel, (taps, channels), may now have fewer taps than there are
# positions, because what is left out is 0. Output i is the sum of kernel[m] times the input m positions before i on
# the circle, in each channel by itself, for any number of positions.
#
# <details><summary>Hint 1</summary>Which axis does <code>torch.fft.rfft</code> transform if you do not say?</details>
# <details><summary>Hint 2</summary>Both spectra need the same frequencies; the argument <code>n</code> of
# <code>rfft</code> fills a signal up with zeros to n positions. And how should <code>irfft</code> know whether there
# were 8 positions or 9?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "mended-filter", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended_filter(x, kernel):
    """Convolve x, (batch, positions, channels), with a kernel, (taps, channels), on a circle."""
    ### BEGIN SOLUTION
    n = x.shape[1]
    spectrum = torch.fft.rfft(x, dim=1) * torch.fft.rfft(kernel, n, dim=0)
    return torch.fft.irfft(spectrum, n, dim=1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended-filter-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("mended_filter"):
    warm = mended_filter(heating, halves)
    close(warm[0, :, 0], halves[:, 0].roll(3), "the warmth of room 0, which is heated at reading 3")
    close(warm[0, :, 1:], torch.zeros(8, 2), "the warmth of rooms 1 and 2, which are not heated")
    signal = torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]])[..., None]
    two_taps = torch.tensor([[1.0], [10]])
    wanted = torch.tensor([[41.0, 12, 23, 34], [85, 56, 67, 78]])
    close(mended_filter(signal, two_taps)[..., 0], wanted, "1, 2, 3, 4 and 5, 6, 7, 8 with the taps 1 and 10")

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "mended-filter-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
chance = torch.Generator().manual_seed(83)
for batch, positions, channels, taps in ((2, 9, 3, 9), (1, 6, 6, 2), (3, 5, 2, 1), (2, 7, 7, 7), (1, 1, 2, 1)):
    signal, taken = (
        torch.randn(batch, positions, channels, generator=chance),
        torch.randn(taps, channels, generator=chance),
    )
    around = sum(taken[m] * signal.roll(m, 1) for m in range(taps))
    with unchanged(x=signal, kernel=taken):
        found = mended_filter(signal, taken)
    close(found, around, f"{positions} positions, {channels} channels and {taps} taps: the output")
    found = mended_filter(signal.double(), taken.double())
    close(found, around.double(), f"{positions} positions in float64: the output", rtol=1e-5)
### END HIDDEN TESTS

# %%
with suppress(NotImplementedError):  # prints as soon as exercises 2 and 3 are written
    print("the mended filter is:", kind_of_map(lambda z: mended_filter(z, kernel), x))

# %% [markdown]
# `torch.fft.rfft` transforms the last axis, which here holds the channels. No shape gives that away, so users of
# published code [have to ask](https://github.com/aikunyi/FilterNet/issues/3) along which axis its filter runs. You
# need not ask: decide what an output may depend on, and try whether it depends on anything else.
