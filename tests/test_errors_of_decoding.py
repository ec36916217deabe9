import pytest
import torch

from residual_edu import errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")


@pytest.mark.parametrize("value", [1, 0.5, 1e-9])
def test_a_fraction(value):
    errors.check_fraction("top_p", value)


@pytest.mark.parametrize("value", [0, -0.5, 1.01, float("nan"), None, "1", True])
def test_no_fraction(value):
    with pytest.raises(InvalidInput, match=rf"^top_p must lie in \(0, 1\], got {value!r}$"):
        errors.check_fraction("top_p", value)


def test_room():
    errors.check_room(3, 2, 5)
    with pytest.raises(InvalidInput, match="^positions must be at most max_seq_len=5, got 4 before and 2 new ones$"):
        errors.check_room(4, 2, 5)
    with pytest.raises(InvalidInput, match="^positions must be at most max_seq_len=5, got 6$"):
        errors.check_room(0, 6, 5)


def test_packages():
    errors.check_package("torch", "all of it")
    with pytest.raises(InvalidInput, match="^progress needs the package no_such_thing, which is not installed; .*$"):
        errors.check_package("no_such_thing", "progress")


def test_caches():
    short, long = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)
    errors.check_cache((long, long[..., :0]))
    with pytest.raises(
        InvalidInput, match="^cache must be a pair of tensors, as an earlier call returned it, got 'x'$"
    ):
        errors.check_cache("x")
    with pytest.raises(InvalidInput, match=r"^cache must hold two tensors .*, got \(2, 5, 4\) and \(2, 3, 4\)$"):
        errors.check_cache((long, short))
    errors.check_continues((long, long), (short, short))
    with pytest.raises(InvalidInput, match=r"^cache must hold \(1, positions, 4\), got \(2, 5, 4\); it is another .*$"):
        errors.check_continues((long, long), (short[:1], short[:1]))
    errors.check_blocks_of_cache(2, 2)
    with pytest.raises(InvalidInput, match="^cache must hold one cache for each of 3 blocks, got 2$"):
        errors.check_blocks_of_cache(2, 3)


def test_masks():
    errors.check_mask_fits("mask", torch.ones(2, 1, 3, 5, dtype=torch.bool), 3, 5)
    with pytest.raises(InvalidInput, match=r"^mask must end in \(queries, keys\) = \(3, 5\), got shape \(5,\)$"):
        errors.check_mask_fits("mask", torch.ones(5, dtype=torch.bool), 3, 5)


def test_tokens():
    errors.check_tokens_known("stop_tokens", [0, 6], 7)
    for bad, shown in [([7], "7"), ([-1], "-1"), (["a"], "'a'"), (7, "7"), (None, "None")]:
        with pytest.raises(InvalidInput, match=f"^stop_tokens must be whole numbers from 0 to 6, got {shown}$"):
            errors.check_tokens_known("stop_tokens", bad, 7)
