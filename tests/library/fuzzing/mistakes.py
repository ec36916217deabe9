"""What a user may give instead of a right value, as strategies of hypothesis."""

from functools import partial
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import nn

NAN, INF = float("nan"), float("inf")


class Narrow(nn.Module):
    """Returns one channel, whatever it is given."""

    def forward(self, *given: Any, **more: Any) -> torch.Tensor:
        return given[0][..., :1]


FLAGS = ["False", "no", "", 0, 1, 2, 0.0, [0], [], None]
WHOLE = [0, -1, True, False, "3", None, NAN, INF, 1.5, [2]]
NUMBERS = [-1.0, 0.0, -0.0, NAN, INF, -INF, "a", True, False, None, [0.5], 1e-12, 2.0]
WORDS = ["nope", "", None, 3, True, ["relu"]]
LISTS = [[], [0], [-1], [1.5], ["a"], [True], [2, 2], None, 3, "ab", [None]]
SPECS = [None, 3, "x", object(), nn.Linear, nn.ReLU(), Narrow, Narrow(), nn.Linear(3, 3), print, int, {"a": 1}]
SPECS += [lambda: 3, partial(nn.Linear, 4, 1), {"__target__": "torch.nn.Linear"}, {"__target__": "os.getcwd"}]
OBJECTS = [None, {}, "mha", 3, object(), (), [], torch.zeros(2)]


def of_tensor(x: torch.Tensor) -> st.SearchStrategy:
    """Another shape, dtype, device or kind than that of ``x``."""
    others = [
        None,
        3,
        "x",
        x.tolist(),
        x.numpy(),
        x.to("meta"),
        x.double(),
        x.half(),
        x.long(),
        x > 0,
        x[None],
        x[..., None],
    ]
    others += [x.flatten(), x.new_zeros(()), x.unsqueeze(1), x.mT if x.ndim > 1 else x, x.float().double().numpy()]
    for axis, length in enumerate(x.shape):
        others += [
            x.narrow(axis, 0, 1),
            x.narrow(axis, 0, 0),
            x.select(axis, 0),
            torch.cat([x, x.narrow(axis, 0, 1)], axis),
        ]
        others += [
            torch.cat([x, x], axis),
            x.narrow(axis, 0, max(1, length - 1)),
            x.unsqueeze(axis).expand(*x.shape[:axis], 2, *x.shape[axis:]),
        ]
    return st.sampled_from(others)


def instead_of(value: Any) -> st.SearchStrategy:
    """A value that may be wrong where ``value`` is right; some of them are right too."""
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, bool):
        return st.sampled_from([*FLAGS, not value])
    if isinstance(value, int):
        return st.sampled_from([*WHOLE, float(value), np.int64(value), np.uint8(abs(value))]) | st.integers(-3, 12)
    if isinstance(value, float):
        return st.sampled_from([*NUMBERS, np.float32(value), np.float64(value)])
    if isinstance(value, str):
        return st.sampled_from([*WORDS, value.upper(), value[:-1]])
    if isinstance(value, dict):
        parts = st.sampled_from(sorted(value)).flatmap(
            lambda key: instead_of(value[key]).map(lambda other: value | {key: other})
        )
        return parts | st.sampled_from([None, {}, 3, dict(list(value.items())[:1])])
    if isinstance(value, tuple) and value and all(isinstance(each, torch.Tensor) for each in value):
        pairs = of_tensor(value[0]).map(lambda other: (other, *value[1:]))
        return pairs | st.sampled_from([None, (), value[0], value[:1], value * 2, list(value)])
    if isinstance(value, list | tuple):
        return st.sampled_from([*LISTS, value * 2])
    return st.sampled_from(SPECS if callable(value) else OBJECTS)
