import pytest
import torch

from residual_edu import InvalidInput, ModelCache, cache_length, extend

pytestmark = pytest.mark.usefixtures("as_installed")


def pair(positions, *before, widths=(3, 3)):
    return tuple(torch.randn(*before, positions, width) for width in widths)


@pytest.mark.parametrize(("before", "widths"), [((2,), (6, 0)), ((2, 4), (3, 3))])
def test_new_positions_stand_behind_the_old_ones(before, widths):
    whole = pair(7, *before, widths=widths)
    cache = None
    assert cache_length(cache) == 0
    for start, end in [(0, 3), (3, 4), (4, 7)]:
        cache = extend(cache, *(one[..., start:end, :] for one in whole))
        assert cache_length(cache) == end
    assert all(a.equal(b) for a, b in zip(cache, whole, strict=True))
    with pytest.raises(ValueError, match="zip"):
        extend(whole[:1], *whole)
    for cache in (None, pair(5, *before, widths=widths)):
        with pytest.raises(InvalidInput, match="^a cache must have as many values as keys, got "):
            extend(cache, whole[0], whole[1][..., :4, :])


def test_memory_for_a_position_of_a_sample():
    cache = tuple(torch.zeros(3, 4, 5, 2, dtype=torch.float16) for _ in range(2))  # 3 samples, 5 positions
    assert ModelCache(5, (cache, cache)).bytes_per_token() == 2 * 2 * 4 * 2 * 2
    assert ModelCache(0, (None, None)).bytes_per_token() == 0
    with pytest.raises(InvalidInput, match="^length must be a whole number, at least 0, got -1$"):
        ModelCache(-1, (cache,)).bytes_per_token()
