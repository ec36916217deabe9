import pytest
import torch

from residual_edu import InvalidInput, ModelCache, extend

pytestmark = pytest.mark.usefixtures("all_as_installed")


def pair(positions, *before):
    return tuple(torch.randn(*before, positions, 3) for _ in range(2))


def test_as_many_values_as_keys_and_a_cache_of_both():
    """That new positions stand behind the old ones: decoding, in test_every_combination.py."""
    whole = pair(7, 2, 4)
    with pytest.raises(ValueError, match="zip"):
        extend(whole[:1], *whole)
    for cache in (None, pair(5, 2, 4)):
        with pytest.raises(InvalidInput, match="^a cache must have as many values as keys, got "):
            extend(cache, whole[0], whole[1][..., :4, :])


def test_memory_for_a_position_of_a_sample():
    cache = tuple(torch.zeros(3, 4, 5, 2, dtype=torch.float16) for _ in range(2))  # 3 samples, 5 positions
    assert ModelCache(5, (cache, cache)).bytes_per_token() == 2 * 2 * 4 * 2 * 2
    assert ModelCache(0, (None, None)).bytes_per_token() == 0
    with pytest.raises(InvalidInput, match="^length must be a whole number, at least 0, got -1$"):
        ModelCache(-1, (cache,)).bytes_per_token()
