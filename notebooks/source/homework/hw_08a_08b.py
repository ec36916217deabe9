# %% [markdown]
# # Homework for lessons 08a and 08b · Masks and convolutions
#
# 45 minutes. It needs lessons 08a and 08b, and of the library only what they finished.
#
# By the end you can
#
# - **build** a mask with which each position attends to the beginning of a text and to the last few positions;
# - **write** a kernel that delays each channel by its own number of positions;
# - **tell** a convolution from three other kinds of maps, from its outputs alone.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
import torch

from residual_edu import attention, long_convolution
from residual_course.exercises import attempt
from residual_course.checking.properties import close
from residual_course.checking.unchanged import unchanged
from residual_course.lesson import setup

device = setup()

# %% [markdown]
# ## A window, and the beginning
#
# A query of lesson 08a attends to its whole past, so a long text makes long rows of weights. Models that generate long
# texts often attend to a window of the last positions, and to the first few as well: in
# [one study](https://arxiv.org/abs/2309.17453) the output got much worse without them. Here is the mask of lesson 08a,
# and what `triu` cuts away for a window of two positions:

# %%
past = torch.ones(6, 6).tril()
print(past.triu(-1).int())

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
    found = window_and_start(size, reach, kept).tolist()
    assert found == allowed, f"length, window and first {size, reach, kept}: got {found}, wanted {allowed}"
### END HIDDEN TESTS

# %% [markdown]
# ## A kernel that delays
#
# A kernel that is 1 at lag n and 0 elsewhere copies the input of n positions before: in lesson 08b one tap at lag 40
# predicted a neuron's voltage nearly as well as 256 learned taps. `long_convolution`, the package's FFT convolution,
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
# ## What kind of map is it?
#
# Take the circle of lesson 08b, on which position 0 follows the last. A convolution on it, one channel at a time, has
# three properties: it is linear; it commutes with shifts (shifting its input around the circle shifts its output); and
# no channel depends on another. A map with the first two that mixes channels is a whole table of convolutions, one for
# each pair of channels. Four maps:

# %%
x = torch.randn(1, 12, 4, generator=torch.Generator().manual_seed(1))
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
# ### Exercise 3 · 15 minutes · ●●●●○
#
# `f` takes and returns tensors (batch, positions, channels), the positions on a circle. Call it as often as you like,
# with any input of the shape of x, and return what it is, in one word:
#
# - "nonlinear": it is not linear;
# - "placed": linear, and it does not commute with all shifts;
# - "mixed": linear, commutes with all shifts, and an output channel depends on another input channel;
# - "convolution": linear, commutes with all shifts, each channel by itself.
#
# A difference of 1e-4 counts as rounding; leave x as it is.
#
# <details><summary>Hint 1</summary>Linear is more than doubling with the input: a ReLU does that too. What about a sum
# of two signals, one of them with a negative factor? And what about a constant that is added?</details>
# <details><summary>Hint 2</summary>Write each property as an equation between outputs of f: one with two random signals
# and two factors, one with <code>roll</code>, one with a signal in which all channels but one are 0. Some functions
# commute with a shift by 2 or 3 and not by 1.</details>


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
    thirds[::3] = 2
    kinds = dict(zip(ways, ("nonlinear", "placed", "mixed", "convolution"), strict=True))
    cases = {name: (ways[name], kind) for name, kind in kinds.items()} | {
        "a convolution on the circle": (lambda z: long_convolution(z, taps, "circular"), "convolution"),
        "a ReLU after a convolution": (lambda z: long_convolution(z, taps, "circular").relu(), "nonlinear"),
        "a convolution on a line": (lambda z: long_convolution(z, taps, "zero"), "placed"),
        "a shift, and a sum over channels": (lambda z: z.roll(1, 1) + z.sum(-1, keepdim=True), "mixed"),
        "a shift, plus a constant": (lambda z: z.roll(2, 1) + 1, "nonlinear"),
        "a shift, with every third position doubled": (lambda z: z.roll(1, 1) * thirds, "placed"),
        "the last channel of the one before": (
            lambda z: torch.cat([z[..., :-1], z[..., 2:3].roll(1, 1)], -1),
            "mixed",
        ),
        "absolute values": (lambda z: z.abs() - z.roll(1, 1).abs(), "nonlinear"),
        "squares, every third doubled": (lambda z: z.square() * thirds, "nonlinear"),
    }
    for called, (f, wanted) in cases.items():
        with unchanged(x=x):
            found = kind_of_map(f, x)
        assert found == wanted, f"{called}: got {found!r}, wanted {wanted!r}"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "kind-of-map-hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
source = torch.Generator().manual_seed(82)
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
for called, (way, truth) in maps.items():
    with unchanged(x=probe):
        found = kind_of_map(way, probe)
    assert found == truth, f"{called}: got {found!r}, wanted {truth!r}"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | masks are joined by "or" where either condition is enough, by "and" where both are needed | True means: may attend |
# | tap n of a causal kernel is a delay by n | `"causal"`; otherwise the middle tap has lag 0 |
# | linear, commutes with shifts, each channel by itself: a convolution on the circle | no ends; on a line the second fails near the ends |
# | with channels mixed it is a table of convolutions, one for each pair of channels | the same |
