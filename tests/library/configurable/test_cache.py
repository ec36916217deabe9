import re

import pytest
import torch

from residual_edu import InvalidInput, cache_length, extend

pytestmark = pytest.mark.usefixtures("as_installed")


def pair(positions, *before, widths=(3, 3)):
    return tuple(torch.randn(*before, positions, width) for width in widths)


def test_nothing_is_kept_at_first():
    assert cache_length(None) == 0
    first, second = pair(4, 2)
    assert extend(None, first, second) == (first, second)


@pytest.mark.parametrize("before", [(2,), (2, 4)])
@pytest.mark.parametrize("widths", [(3, 3), (6, 2), (3, 0)])
def test_new_positions_stand_behind_the_old_ones(before, widths):
    whole = pair(7, *before, widths=widths)
    cache = None
    for start, end in [(0, 3), (3, 4), (4, 7)]:
        cache = extend(cache, *(one[..., start:end, :] for one in whole))
        assert cache_length(cache) == end
    assert all(a.equal(b) for a, b in zip(cache, whole, strict=True))


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        ((torch.zeros(2, 3),), "cache must be a pair of tensors, as an earlier call returned it, got "),
        ([torch.zeros(2, 3)] * 2, "cache must be a pair of tensors"),
        ((torch.zeros(2, 3), None), "cache must be a pair of tensors"),
        (
            (torch.zeros(3), torch.zeros(3)),
            "cache must hold two tensors with the same number of positions, got (3,) and",
        ),
        ((torch.zeros(2, 3, 3), torch.zeros(2, 4, 3)), "number of positions, got (2, 3, 3) and (2, 4, 3)"),
        (pair(5, 3), "cache must hold (2, positions, 3), got (3, 5, 3); it is another model's or batch's"),
        (pair(5, 2, widths=(4, 3)), "cache must hold (2, positions, 3), got (2, 5, 4)"),
        (pair(5, 2, widths=(3, 4)), "cache must hold (2, positions, 3), got (2, 5, 4)"),
        (pair(5, 2, 1), "cache must hold (2, positions, 3), got (2, 1, 5, 3)"),
    ],
)
def test_what_is_refused(cache, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        extend(cache, *pair(1, 2))


def test_a_length_is_read_of_a_cache_alone():
    with pytest.raises(InvalidInput, match="^cache must be a pair of tensors"):
        cache_length(torch.zeros(2, 3))
