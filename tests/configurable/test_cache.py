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
        ((torch.zeros(2, 3),), "cache must be a pair of tensors, as an earlier call returned it, got .*"),
        ([torch.zeros(2, 3)] * 2, "cache must be a pair of tensors, .*"),
        ((torch.zeros(2, 3), None), "cache must be a pair of tensors, .*"),
        (
            (torch.zeros(3), torch.zeros(3)),
            r"cache must hold two tensors with as many positions, got \(3,\) and \(3,\)",
        ),
        (pair(3, 2)[:1] + pair(4, 2)[:1], r"cache must hold two tensors .*, got \(2, 3, 3\) and \(2, 4, 3\)"),
    ],
)
def test_what_is_no_cache(cache, message):
    for call in (cache_length, lambda c: extend(c, *pair(1, 2))):
        with pytest.raises(InvalidInput, match=f"^{message}$"):
            call(cache)


@pytest.mark.parametrize("new", [pair(1, 3), pair(1, 2, widths=(4, 3)), pair(1, 2, 1), pair(1, 2, widths=(3, 4))])
def test_what_does_not_continue_it(new):
    with pytest.raises(
        InvalidInput, match=r"^cache must hold \(.*positions, .\), got \(2, 5, 3\); it is another model's"
    ):
        extend(pair(5, 2), *new)
