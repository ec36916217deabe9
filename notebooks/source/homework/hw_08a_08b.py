# %% [markdown]
# # Homework for lessons 08a and 08b · Masks and convolutions
#
# 45 minutes. It needs lessons 08a and 08b, and of the library only what they finished.
#
# By the end you can
#
# - **build** a mask with which each position attends to the beginning of a text and to the last few positions;
# - **write** a kernel that delays each channel by its own number of positions;
# - **test** whether a function is a convolution, from its outputs alone.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
import torch

from residual_edu import attention, attention_mask, long_convolution
from residual_edu.exercises import attempt
from residual_edu.exercises.properties import close
from residual_edu.exercises.unchanged import unchanged
from residual_edu.lesson import setup

device = setup()

# %% [markdown]
# ## A window, and the beginning
#
# Models that generate long texts often attend to a window of the last positions, and to the first few tokens as well:
# in training every query attended to them, and without them the output gets worse. Here is the causal window alone:

# %%
print(attention_mask(6, 6, causal=True, window=2).int())

# %% [markdown]
# ### Exercise 1 · 12 minutes · ●●●○○
#
# Return the mask, (length, length), True where a query (row) may attend to a key (column): at its own position, at the
# `window - 1` positions before it, and at the first `first` positions, but never at a later one.
#
# <details><summary>Hint 1</summary>Two masks are joined. By "and" or by "or"? And which rule holds for both?</details>
# <details><summary>Hint 2</summary>Write three conditions on a row number and a column number. Which two of them are
# alternatives, and which must always hold? The one on columns alone broadcasts over the rows.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "window-and-start", "locked": false, "schema_version": 3, "solution": true, "task": false}
def window_and_start(length, window, first):
    """Return a mask, (length, length), True where a query may attend to a key."""
    ### BEGIN SOLUTION
    near = attention_mask(length, length, window=window)
    start = torch.arange(length) < first
    return attention_mask(length, length, causal=True) & (near | start)
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
    found = window_and_start(size, reach, kept).tolist()
    assert found == allowed, f"length, window and first {size, reach, kept}: got {found}, wanted {allowed}"
### END HIDDEN TESTS

# %% [markdown]
# ## A kernel that delays
#
# With a kernel that is 1 at lag n and 0 elsewhere, the output is the input of n positions before. `long_convolution`
# takes a kernel of shape (1, taps, channels), so each channel may have its own.

# %%
signal = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 4, 1)
kernel = torch.tensor([0.0, 1.0, 0.0]).view(1, 3, 1)
for padding in ("causal", "zero", "circular"):
    print(f"{padding:9}", long_convolution(signal, kernel, padding).flatten().round().int().tolist())

# %% [markdown]
# ### Exercise 2 · 10 minutes · ●●○○○
#
# The same kernel delays by one only with `"causal"`: otherwise its middle tap has lag 0. Return the kernel with which
# `long_convolution(x, kernel, "causal")` delays channel c by `delays[c]` positions, and adds the same signal times
# `echo` one position later. Use as few taps as possible.
#
# <details><summary>Hint 1</summary>Which tap of a causal kernel has lag 0? And which lag has the last echo of the
# channel with the longest delay?</details>
# <details><summary>Hint 2</summary>Each channel has two taps that are not zero. Write them down for delays [2, 0]; then
# start from zeros and fill in two numbers for each channel.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "delays", "locked": false, "schema_version": 3, "solution": true, "task": false}
def delay_kernel(delays, echo):
    """Return a kernel, (1, taps, channels), for a list of whole numbers of at least 0."""
    ### BEGIN SOLUTION
    taps = torch.zeros(1, max(delays) + 2, len(delays))
    for channel, delay in enumerate(delays):
        taps[0, delay, channel] = 1
        taps[0, delay + 1, channel] = echo
    return taps
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "delays-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("delay_kernel"):
    impulse = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]).view(1, 5, 1)
    found = delay_kernel([1], 0.5)
    late = long_convolution(impulse, found, "causal").flatten()
    close(late, torch.tensor([0, 1, 0.5, 0, 0]), "one channel, one position late: the output")
    late = long_convolution(impulse.expand(1, 5, 2), delay_kernel([1, 1], 2.0), "causal")
    close(late[0].T, torch.tensor([[0.0, 1, 2, 0, 0]]).expand(2, 5), "delays [1, 1], echo 2: the output")
    delays = [2, 0]
    with unchanged(delays=delays):
        found = delay_kernel(delays, -3.0)
    assert found.shape == (1, 4, 2), f"the shape for delays [2, 0]: got {tuple(found.shape)}, wanted (1, 4, 2)"
    late = long_convolution(impulse.expand(1, 5, 2), found, "causal")
    close(
        late[0].T, torch.tensor([[0.0, 0, 1, -3, 0], [1, -3, 0, 0, 0]]), "delays [2, 0], channel by channel: the output"
    )

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "delays-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
noise = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(81))
for lags, part in (([0, 4, 2], -0.25), ([3, 0, 1], 2.0), ([0, 0, 0], 0.0)):
    with unchanged(delays=lags):
        made = delay_kernel(lags, part)
    shapes = [(1, max(lags) + more, 3) for more in ((2,) if part else (1, 2))]  # an echo of 0 needs no tap
    assert tuple(made.shape) in shapes, f"the shape for delays {lags}: got {tuple(made.shape)}, wanted {shapes[-1]}"
    behind = torch.zeros(2, 9, 3)
    for c, lag in enumerate(lags):
        behind[:, lag:, c] += noise[:, : 9 - lag, c]
        behind[:, lag + 1 :, c] += part * noise[:, : 8 - lag, c]
    close(long_convolution(noise, made, "causal"), behind, f"delays {lags}, echo {part}: the output")
### END HIDDEN TESTS

# %% [markdown]
# ## Is it a convolution?
#
# A convolution on a circle has two properties: it is linear, and it commutes with shifts (shifting its input around the
# circle shifts its output). Every function with both is a convolution. Attention without positions has the second:

# %%
x = torch.randn(1, 12, 4, generator=torch.Generator().manual_seed(1))
attended, moved = attention(x, x, x), x.roll(3, dims=1)
print("commutes with a shift:", torch.allclose(attention(moved, moved, moved), attended.roll(3, dims=1), atol=1e-5))
print("doubles with its input:", torch.allclose(attention(2 * x, 2 * x, 2 * x), 2 * attended, atol=1e-5))

# %% [markdown]
# ### Exercise 3 · 15 minutes · ●●●●○
#
# `f` takes and returns tensors (batch, positions, channels), the positions on a circle. Call it as often as you like,
# with any input of the shape of x, and return whether it is a convolution: True or False. It may mix channels. A
# difference of 1e-4 counts as rounding; leave x as it is.
#
# <details><summary>Hint 1</summary>Linear is more than doubling with the input: a ReLU does that too. What about a sum
# of two signals, one of them with a negative factor? And what about a constant that is added?</details>
# <details><summary>Hint 2</summary>Write both properties as equations between outputs of f, one with two random signals
# and two factors, the other with <code>roll</code>. Some functions commute with a shift by 2 or 3 and not by
# 1.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "is-convolution", "locked": false, "schema_version": 3, "solution": true, "task": false}
def is_convolution(f, x):
    """Return whether f is a convolution on the circle."""
    ### BEGIN SOLUTION
    y = torch.randn(x.shape, generator=torch.Generator().manual_seed(7))
    mixed = (f(2 * x - 3 * y) - 2 * f(x) + 3 * f(y)).abs().max() < 1e-4
    turned = all((f(y.roll(n, 1)) - f(y).roll(n, 1)).abs().max() < 1e-4 for n in range(1, x.shape[1]))
    return bool(mixed) and turned
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "is-convolution-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("is_convolution"):
    taps, thirds = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(2)), torch.ones(12, 1)
    thirds[::3] = 2
    cases = {
        "a convolution on the circle": (lambda z: long_convolution(z, taps, "circular"), True),
        "attention": (lambda z: attention(z, z, z), False),
        "a ReLU after a convolution": (lambda z: long_convolution(z, taps, "circular").relu(), False),
        "a convolution on a line": (lambda z: long_convolution(z, taps, "zero"), False),
        "a sum over channels": (lambda z: z.roll(1, 1) + z.sum(-1, keepdim=True), True),
        "a shift, plus a constant": (lambda z: z.roll(2, 1) + 1, False),
        "a shift, with every third position doubled": (lambda z: z.roll(1, 1) * thirds, False),
        "the median of three neighbours": (
            lambda z: torch.stack([z.roll(-1, 1), z, z.roll(1, 1)]).median(0).values,
            False,
        ),
        "absolute values": (lambda z: z.abs() - z.roll(1, 1).abs(), False),
    }
    for called, (f, wanted) in cases.items():
        with unchanged(x=x):
            found = is_convolution(f, x)
        assert bool(found) is wanted, f"{called}: got {found}, wanted {wanted}"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "is-convolution-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
source = torch.Generator().manual_seed(82)
probe, few = torch.randn(2, 12, 3, generator=source), torch.randn(1, 3, 3, generator=source)
mixing = torch.randn(12, 12, generator=source)
cases = {
    "a convolution of all channels": (lambda z: z.cumsum(-1) + z.roll(2, 1), True),
    "the identity": (lambda z: z, True),
    "a convolution on a line": (lambda z: long_convolution(z, few, "zero"), False),
    "a causal convolution": (lambda z: long_convolution(z, few, "causal"), False),
    "a ReLU after a convolution": (lambda z: long_convolution(z, few, "circular").relu(), False),
    "a convolution plus a constant": (lambda z: long_convolution(z, few, "circular") + 1, False),
    "a fixed matrix": (lambda z: mixing @ z, False),
    "every other position": (lambda z: z * (torch.arange(12) % 2)[:, None], False),
    "every third position": (lambda z: z * (torch.arange(12) % 3 == 1)[:, None], False),
    "a sum of absolute values": (lambda z: z.abs() - z.roll(1, 1).abs(), False),
    "a shift and a small square": (lambda z: z.roll(1, 1) + 7e-4 * z.square(), False),
    "the median of three positions": (lambda z: torch.stack([z, z.roll(1, 1), z.roll(4, 1)]).median(0).values, False),
    "a cube": (lambda z: z.roll(1, 1).pow(3), False),
}
for called, (way, truth) in cases.items():
    with unchanged(x=probe):
        found = is_convolution(way, probe)
    assert bool(found) == truth, f"{called}: got {found}, wanted {truth}"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | masks are joined by "or" where either condition is enough, by "and" where both are needed | True means: may attend |
# | tap n of a causal kernel is a delay by n | `"causal"`; otherwise the middle tap has lag 0 |
# | linear, and commutes with shifts: a convolution on the circle | no ends; on a line the second fails near the ends |
