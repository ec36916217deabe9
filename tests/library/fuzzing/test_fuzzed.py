"""A systematic fuzzer: every public name is called rightly, then with one argument spoilt; no answer may be wrong.

Its counts: ``pytest tests/fuzzing -m slow -s`` prints them.
"""

import copy
from collections import Counter

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import residual_edu

from .mistakes import instead_of
from .outcome import outcome, result_of
from .table import ALIAS, CASES, NO_CALL

pytestmark = pytest.mark.usefixtures("as_installed")


def test_every_case_is_of_a_public_name():
    assert set(CASES) | set(NO_CALL) | set(ALIAS) <= set(residual_edu.__all__)
    assert not set(CASES) & (set(NO_CALL) | set(ALIAS))
    for alias, name in ALIAS.items():
        assert getattr(residual_edu, alias) is getattr(residual_edu, name)


@pytest.mark.parametrize("name", CASES)
def test_the_case_is_right(name):
    case = CASES[name]
    assert outcome(name, case, case.made or {}, case.call or {}, None, None) == "right"
    assert result_of(name, case, case.made or {}, copy.deepcopy(case.call or {})) is not NotImplemented


@st.composite
def spoilt(draw, case):
    """Where, the right value, and another one."""
    places = [(kind, key) for kind in ("made", "call") for key in getattr(case, kind) or {}]
    kind, key = draw(st.sampled_from(places))
    right = getattr(case, kind)[key]
    return kind, key, right, draw(instead_of(right))


def fuzzed(name, count):
    """The kinds of what came of ``count`` spoilt calls of ``name``, and each wrong or raw one in words."""
    case, counts, told = CASES[name], Counter(), {}

    @seed(0)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(spoilt(case))
    def spoil(mistake):
        kind, key, right, value = mistake
        arguments = {"made": dict(case.made or {}), "call": dict(case.call or {})}
        arguments[kind][key] = value
        what = outcome(name, case, **arguments, right=right, given=value)
        counts[what.split(" ")[0].rstrip(":")] += 1
        if what.startswith(("wrong", "raw")):
            shown = f"a tensor {value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
            told[f"{name}: {key}={shown[:80]}"] = what.splitlines()[0][:160]

    spoil()
    return counts, told


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_no_answer_is_silently_wrong(name, count):
    counts, told = fuzzed(name, count)
    print(dict(counts), *(f"{where} -> {what}" for where, what in told.items()), sep="\n")
    assert [f"{where} -> {what}" for where, what in told.items() if what.startswith("wrong")] == []
