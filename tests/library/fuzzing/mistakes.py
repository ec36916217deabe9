"""What a user may give instead of a right value."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

NAN, INF = float("nan"), float("inf")


class Narrow(nn.Module):
    """Returns one channel, whatever it is given."""

    def forward(self, *given: Any, **more: Any) -> torch.Tensor:
        return given[0][..., :1]


FLAGS = ["False", "no", "", 0, 1, 2, 0.0, [0], [], None]
WHOLE = [*range(-3, 13), True, False, "3", None, NAN, INF, 1.5, [2]]
NUMBERS = [-1.0, 0.0, -0.0, NAN, INF, -INF, "a", True, False, None, [0.5], 1e-12, 2.0]
WORDS = ["nope", "", None, 3, True, ["relu"]]
LISTS = [[], [0], [-1], [1.5], ["a"], [True], [2, 2], None, 3, "ab", [None]]
SPECS = [None, 3, "x", object(), nn.Linear, nn.ReLU(), Narrow, Narrow(), nn.Linear(3, 3), print, int, {"a": 1}]
SPECS += [lambda: 3, partial(nn.Linear, 4, 1), {"__target__": "torch.nn.Linear"}, {"__target__": "os.getcwd"}]
OBJECTS = [None, {}, "mha", 3, object(), (), [], torch.zeros(2)]


def of_tensor(x: torch.Tensor) -> Iterator[Any]:
    """Another shape, dtype, device or kind than that of ``x``."""
    yield from [None, 3, "x", x.tolist(), x.numpy(), x.float().double().numpy()]
    yield from [x.double(), x.half(), x.long(), x > 0, x[None], x[..., None], x.unsqueeze(1)]
    yield from [x.flatten(), x.new_zeros(()), x.mT if x.ndim > 1 else x]
    if x.is_floating_point():  # whole numbers on the meta device torch itself takes for indices, without a word
        yield x.to("meta")
    for axis, length in enumerate(x.shape):
        yield from [x.narrow(axis, 0, count) for count in (0, 1, max(1, length - 1))]
        yield from [torch.cat([x, x.narrow(axis, 0, 1)], axis), torch.cat([x, x], axis), x.select(axis, 0)]
        yield x.unsqueeze(axis).expand(*x.shape[:axis], 2, *x.shape[axis:])


def instead_of(value: Any) -> Iterator[Any]:
    """Values that may be wrong where ``value`` is right; some of them are right too."""
    if isinstance(value, torch.Tensor):
        yield from of_tensor(value)
    elif isinstance(value, bool):
        yield from [*FLAGS, not value]
    elif isinstance(value, int):
        yield from [*WHOLE, float(value), np.int64(value), np.uint8(abs(value))]
    elif isinstance(value, float):
        yield from [*NUMBERS, np.float32(value), np.float64(value)]
    elif isinstance(value, str):
        yield from [*WORDS, value.upper(), value[:-1]]
    elif isinstance(value, dict):
        yield from [None, {}, 3, dict(list(value.items())[:1])]
        yield from ({**value, key: other} for key, one in value.items() for other in instead_of(one))
    elif isinstance(value, tuple) and value and all(isinstance(each, torch.Tensor) for each in value):
        yield from [None, (), value[0], value[:1], value * 2, list(value)]
        yield from ((other, *value[1:]) for other in of_tensor(value[0]))
    elif isinstance(value, list | tuple):
        yield from [*LISTS, value * 2]
    else:
        yield from SPECS if callable(value) else OBJECTS
