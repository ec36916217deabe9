"""Every public name is called rightly, then with one argument spoilt, in every way there is: no answer may be wrong.

``pytest tests/library/fuzzing -m slow -s`` prints what came of all calls; the ordinary run takes eight of each name.
"""

from collections import Counter

import pytest
import torch

from .mistakes import instead_of
from .outcome import outcome
from .table import CASES

pytestmark = pytest.mark.usefixtures("all_as_installed")


@pytest.mark.parametrize("name", CASES)
def test_the_case_is_right(name):
    case = CASES[name]
    assert outcome(name, case, case.made or {}, case.call or {}, None, None) == "right"


def spoilt(case):
    """Where each spoilt argument is, the right value, and another one."""
    places = [(kind, key, right) for kind in ("made", "call") for key, right in (getattr(case, kind) or {}).items()]
    return [(*place, other) for place in places for other in instead_of(place[2])]


def shown(value):
    return f"a tensor {value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)[:80]


@pytest.mark.parametrize("count", [8, pytest.param(10**6, marks=pytest.mark.slow, id="all")])
@pytest.mark.parametrize("name", CASES)
def test_no_answer_is_silently_wrong(name, count):
    case, counts, told = CASES[name], Counter(), []
    calls = spoilt(case)
    for kind, key, right, other in calls[:: -(-len(calls) // count)]:
        arguments = {"made": dict(case.made or {}), "call": dict(case.call or {})}
        arguments[kind][key] = other
        what = outcome(name, case, **arguments, right=right, given=other)
        counts[what.split(" ")[0].rstrip(":")] += 1
        if what.startswith(("wrong", "raw")):
            told.append(f"{name}: {key}={shown(other)} -> {what.splitlines()[0][:160]}")
    print(dict(counts), *told, sep="\n")
    assert [each for each in told if "-> wrong" in each] == []
