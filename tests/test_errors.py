"""Every generic check, with values that it lets through and values that it refuses, each with its whole message."""

import re
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from residual_edu import calls, errors
from residual_edu.networks import labels as labels_room
from residual_edu.old_errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")  # a user meets the message, not the type checker

inf, nan, zeros = float("inf"), float("nan"), torch.zeros
FINITE, SIZE = "must be a finite number", "must be a whole number"
CHOICES = ["pre", "post"]
WRAP = "wrap it in a module that fits"
ONE_SIGNAL = "wrap it in a module whose forward does; QKVSequenceMixer makes query, key and value"


class Conditioned(nn.Module):
    def forward(self, x, *, conditioning=None):
        return x


ROOMS = (errors, calls, labels_room)
CHECKS = {
    name.removeprefix("check_"): value
    for room in ROOMS
    for name, value in vars(room).items()
    if name.startswith("check_") and value.__module__ == room.__name__
}
ELSEWHERE, MAP = zeros(3, device="meta"), nn.Linear(2, 2)

GOOD = [
    ("size", "dim", -3, None),
    *[("finite", "scale", value) for value in (0, -1.5, np.float32(2))],
    ("sequence", "lengths", (3, 4)),
    ("not_empty", "x", zeros(2, 1)),
    ("device", "x", zeros(2), zeros(3)),
    ("layer", "x", zeros(2), MAP),
    ("layer", "x", zeros(2).double(), nn.ReLU()),  # has no weights
    ("layer", "x", zeros(2).double(), nn.utils.parametrizations.weight_norm(nn.Linear(2, 2, bias=False))),
    ("layer", "x", zeros(2).bfloat16(), nn.LayerNorm(2)),
    ("callable", "init_fn", nn.init.zeros_),
    ("complete", nn.ReLU),
    ("complete", lambda: nn.Linear(2, 2)),
    ("complete", nn.Linear(2, 2)),
    ("complete", print),
    *[("size", "dim", value) for value in (1, 64, np.int64(3), np.uint8(1))],
    ("size", "n", 2, 2),
    ("size", "n", 0, 0),
    *[("positive", "eps", value) for value in (1e-5, 1, 1e300, np.float32(0.1), np.int64(2))],
    *[("not_negative", "init", value) for value in (0, 0.0, 1e-5, 3, np.float32(0.1), np.int64(0))],
    *[("rate", "p", value) for value in (0, 0.0, 0.5, 0.999, np.float64(0.1), np.int64(0))],
    ("flag", "bias", True),
    ("flag", "bias", False),
    ("choice", "placement", "pre", CHOICES),
    ("choice", "placement", "post", iter(CHOICES)),
    ("choice", "placement", np.str_("pre"), dict.fromkeys(CHOICES)),
    ("choice", "placement", None, ["pre", None]),
    ("text", "alt", "Four bars of equal height."),
    ("divisible", "channels", 6, 3, "heads"),
    ("equal", "n", 2, 2, "as m is"),
    *[("given", "condition", value) for value in (zeros(2), 0, "", False)],
    ("instance", "block", nn.ReLU(), nn.Module),
    *[("data_dim", "data_dim", value) for value in (1, 2, np.int64(3))],
    ("one_per_axis", "padding", ["zero", "zero"], 2),
    ("fits", "patch", (2, 3), (2, 4)),
    *[("floating", "x", zeros(shape, dtype=torch.bfloat16)) for shape in ((), 0, (2, 3))],
    ("axes", "x", zeros(2, 3), "batch"),
    ("axes", "x", zeros(2, 3, dtype=torch.bool), "batch", "channels"),
    *[("width", "x", zeros(shape), 6) for shape in (6, (0, 6), (2, 5, 6))],
    ("shape", "x", zeros(2, 5, 6), "batch", "tokens", 6),
    ("shape", "x", zeros(())),
    *[("signal", "x", zeros(2, *[3] * axes, 6), 6) for axes in (1, 2, 3)],
    ("same_shape", "key", zeros(2, 3), "query", zeros(2, 3).double()),
    ("same_length", "tensors", [zeros(3), zeros(3, 2)]),
    *[("batch", "mask", zeros(batch, 5), 4) for batch in (1, 4)],
    *[("labels", "labels", torch.tensor(values), 3) for values in ([0, 2], [[1], [1]])],
    ("takes", "layer", nn.Linear(2, 2), "x"),
    ("takes", "layer", Conditioned(), "x", "conditioning="),
    ("conditionable", "mixer", Conditioned()),
    ("keywords", nn.Linear, ["in_features", "bias"]),
]

BAD = [
    ("shape", ("x", zeros(0, 6), "batch", 6), "x must have shape (batch, 6), got (0, 6); an axis is empty"),
    ("finite", ("scale", nan), "scale must be a finite number, got nan"),
    ("finite", ("scale", True), "scale must be a finite number, got True"),
    ("sequence", ("lengths", 3), "lengths must be a list, one for each axis, got 3"),
    ("sequence", ("lengths", "34"), "lengths must be a list, one for each axis, got '34'"),
    ("not_empty", ("x", zeros(2, 0)), "x must have no empty axis, got shape (2, 0)"),
    ("device", ("x", ELSEWHERE, zeros(2)), "x must be on cpu, got meta; move it with x.to('cpu')"),
    ("layer", ("x", ELSEWHERE, MAP), "x must be on cpu, got meta; move it with x.to('cpu')"),
    *[
        (
            "layer",
            ("x", zeros(2).double(), layer),
            "x must have the dtype of the weights, torch.float32, got torch.float64; "
            "convert it with x.to(torch.float32)",
        )
        for layer in (MAP, nn.Conv1d(2, 2, 1), nn.LayerNorm(2), nn.RMSNorm(2))
    ],
    ("callable", ("init_fn", 3), "init_fn must be a function, got 3"),
    (
        "complete",
        (nn.Linear,),
        "Linear must be given in_features, out_features; write LazyConfig(Linear)(in_features=...)",
    ),
    (
        "complete",
        (partial(nn.Linear, out_features=3),),
        "Linear must be given in_features; write LazyConfig(Linear)(in_features=...)",
    ),
    ("labels", ("labels", zeros(0, dtype=torch.int32), 3), "labels must have no empty axis, got shape (0,)"),
    ("size", ("dim", 0), "dim must be at least 1, got 0"),
    ("size", ("dim", np.int64(-3)), "dim must be at least 1, got -3"),
    ("size", ("n", 1, 2), "n must be at least 2, got 1"),
    *[("size", ("d", x), f"d {SIZE}, got {x!r}") for x in (None, "3", 3.0, nan, inf, True, np.True_, torch.tensor(3))],
    ("size", ("dim", zeros(100)), f"dim {SIZE}, got a Tensor"),
    *[
        ("positive", ("eps", x), f"eps {FINITE} above 0, got {x!r}")
        for x in (0, -1e-5, nan, inf, -inf, None, "1e-5", True, [1.0], 1j, np.float64(0), np.int64(-1))
    ],
    ("positive", ("eps", torch.ones(9, dtype=float)), f"eps {FINITE} above 0, got a Tensor"),
    *[
        ("not_negative", ("init", x), f"init {FINITE}, at least 0, got {x!r}")
        for x in (-1, -1e-5, nan, inf, -inf, None, "3", True, [1.0], np.int64(-1))
    ],
    *[("rate", ("p", x), f"p must lie in [0, 1), got {x!r}") for x in (1.5, -0.1, -1, nan, inf)],
    *[
        ("rate", ("p", x), f"p must lie in [0, 1), got {x!r}; a rate of 1 would drop everything")
        for x in (1, 1.0, np.int64(1))
    ],
    *[("rate", ("p", x), f"p must be a number in [0, 1), got {x!r}") for x in (None, "0.5", False, [0.1])],
    *[("flag", ("bias", x), f"bias must be True or False, got {x!r}") for x in (None, 0, 1, "no", "False", [0], nan)],
    *[
        ("choice", ("placement", x, CHOICES), f"placement must be one of 'pre', 'post', got {x!r}{mend}")
        for x, mend in [
            ("Pre", "; did you mean 'pre'?"),
            ("pots", "; did you mean 'post'?"),
            *[(other, "") for other in ("sideways", "", None, 3, nan, True, ["pre"])],
        ]
    ],
    ("choice", ("grid", "on", ["one", None]), "grid must be one of 'one', None, got 'on'; did you mean 'one'?"),
    *[
        ("text", ("alt", x), f"alt must be a sentence for the reader, got {x!r}")
        for x in ("", "  \n", None, 3, nan, True)
    ],
    ("divisible", ("channels", 6, 4, "heads"), "channels must be divisible by 4 (heads), got 6"),
    ("divisible", ("channels", 0, 4, "heads"), "channels must be at least 1, got 0"),
    ("equal", ("n", 3, 2, "as m is"), "n must be 2, as m is, got 3"),
    ("given", ("condition", None), "condition must be given, got None"),
    ("given", ("condition", None, "the mixer"), "condition must be given for the mixer, got None"),
    ("instance", ("block", 3, nn.Module), "block must be a Module, got 3"),
    ("instance", ("block", nn.ReLU, nn.Module), "block must be a Module, got a type"),
    ("data_dim", ("data_dim", 4), "data_dim must be 1, 2 or 3 (text, images, volumes), got 4"),
    ("data_dim", ("data_dim", 0), "data_dim must be at least 1, got 0"),
    ("data_dim", ("data_dim", "2"), f"data_dim {SIZE}, got '2'"),
    ("one_per_axis", ("p", ["a"], 2), "p must be one for all, or a list with one for each of 2 axes, got ['a']"),
    ("fits", ("patch", (2, 5), (2, 4)), "patch must be at most (2, 4), got (2, 5)"),
    ("floating", ("x", [1.0]), "x must be a tensor, got [1.0]"),
    ("floating", ("x", np.zeros(2)), "x must be a tensor, got array([0., 0.])"),
    (
        "floating",
        ("x", torch.ones(2, dtype=int)),
        "x must be floating point, got torch.int64; convert it with x.float()",
    ),
    ("axes", ("x", None, "batch"), "x must be a tensor, got None"),
    ("axes", ("x", zeros(2), "batch", "rows"), "x must have at least the axes (batch, rows), got shape (2,)"),
    ("width", ("x", zeros(2, 5), 6), "x must have 6 features on its last axis, got shape (2, 5)"),
    ("width", ("x", zeros(2, 1), 6), "x must have 6 features on its last axis, got shape (2, 1)"),
    ("width", ("x", zeros(()), 6), "x must have a feature axis of 6, got a single number (no axes)"),
    ("width", ("x", None, 6), "x must be a tensor, got None"),
    ("shape", ("x", zeros(2, 6), "batch", "tokens", 6), "x must have shape (batch, tokens, 6), got (2, 6)"),
    ("shape", ("x", zeros(2, 5, 1), "batch", "tokens", 6), "x must have shape (batch, tokens, 6), got (2, 5, 1)"),
    ("shape", ("x", "x"), "x must be a tensor, got 'x'"),
    ("signal", ("x", zeros(2, 6), 6), "x must have shape (batch, 1 to 3 axes of space, 6), got (2, 6)"),
    ("signal", ("x", zeros(2, 3, 5), 6), "x must have shape (batch, 1 to 3 axes of space, 6), got (2, 3, 5)"),
    ("signal", ("x", zeros(2, 3, 6), 6, 2), "x must have shape (batch, height, width, 6), got (2, 3, 6)"),
    ("signal", ("x", zeros(2, 0, 6), 6, 1), "x must have shape (batch, positions, 6), got (2, 0, 6); an axis is empty"),
    ("signal", ("x", zeros(()), 6), "x must have shape (batch, 1 to 3 axes of space, 6), got ()"),
    ("same_shape", ("key", zeros(3), "query", zeros(2)), "key must have the shape of query, (2,), got (3,)"),
    (
        "same_length",
        ("data", [zeros(3), zeros(2)]),
        "data must all have the same number of rows, at least 1, got [3, 2]",
    ),
    ("same_length", ("data", [zeros(0)] * 2), "data must all have the same number of rows, at least 1, got [0, 0]"),
    ("batch", ("mask", zeros(2, 5), 4), "mask must hold 4 samples, or 1 for them all, got shape (2, 5)"),
    ("labels", ("labels", torch.tensor([0, 3]), 3), "labels must be whole numbers from 0 to 2, got 0 to 3"),
    ("labels", ("labels", torch.tensor([-1, 1]), 3), "labels must be whole numbers from 0 to 2, got -1 to 1"),
    ("labels", ("labels", zeros(2), 3), "labels must be whole numbers from 0 to 2, got torch.float32"),
    ("labels", ("labels", torch.tensor(1), 3), "labels must have at least the axes (batch), got shape ()"),
    ("takes", ("layer", nn.ReLU(), "q", "k"), f"layer must take (q, k), ReLU.forward takes (input); {WRAP}"),
    ("takes", ("layer", nn.ReLU(), "x", "c="), f"layer must take (x, c=), ReLU.forward takes (input); {WRAP}"),
    (
        "conditionable",
        ("mixer", nn.ReLU()),
        f"mixer must take (x, conditioning=), ReLU.forward takes (input); {ONE_SIGNAL}",
    ),
    ("keywords", (nn.ReLU, ["place"]), "ReLU got an unexpected keyword argument 'place'; it takes inplace"),
]


def named(name):
    return CHECKS[name]


@pytest.mark.parametrize(("check", "arguments"), [(check, arguments) for check, *arguments in GOOD])
def test_what_is_let_through(check, arguments):
    assert named(check)(*arguments) is None


@pytest.mark.parametrize(("check", "arguments", "message"), BAD)
def test_what_is_refused_and_in_which_words(check, arguments, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        named(check)(*arguments)


@pytest.mark.parametrize("kind", [ValueError, AssertionError])
def test_invalid_input_is_caught_as_a_value_error_and_as_an_assertion_error(kind):
    with pytest.raises(kind, match="^dim must be at least 1, got 0$"):
        errors.check_size("dim", 0)


def test_labels_are_not_read_where_reading_would_break_a_graph():
    @torch.compile(fullgraph=True, backend="eager")
    def looked_up(labels):
        labels_room.check_labels("labels", labels, 3)
        return labels + 1

    assert looked_up(torch.tensor([0, 9])).tolist() == [1, 10]
    labels_room.check_labels("labels", zeros(2, dtype=torch.int64, device="meta"), 3)


@pytest.mark.parametrize("rows", [GOOD, BAD])
def test_every_check_has_a_row(rows):
    assert {check for check, *_ in rows} == set(CHECKS)
