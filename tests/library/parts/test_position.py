"""Positions: rotations, sinusoids, ALiBi, learned embeddings, on 1, 2 and 3 axes."""

import cmath
import itertools
import math
from math import cos, sin

import pytest
import torch

from residual_edu import (
    PositionEmbedding,
    alibi_bias,
    alibi_slopes,
    rotary_angles,
    rotate,
    sinusoidal,
)
from tests.library.helpers import decayed

GRIDS = [(7,), (3, 2, 4)]


@pytest.mark.parametrize("lengths", GRIDS)
@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_angles_by_hand(lengths, base):
    """Each axis has 2 pairs of the 4 features that are its share; 1 / base^(j / 2) is their frequency."""
    angles = rotary_angles(lengths, 4 * len(lengths), base)
    for row, place in enumerate(itertools.product(*map(range, lengths))):
        expected = [p / base ** (j / 2) for p in place for j in range(2)]
        torch.testing.assert_close(angles[row], torch.tensor(expected, dtype=torch.float64), rtol=1e-14, atol=0)


@pytest.mark.parametrize("lengths", GRIDS)
def test_a_pair_is_a_complex_number_that_turns_and_its_gradient_turns_back(lengths):
    head_dim = 8 * len(lengths)
    angles = rotary_angles(lengths, head_dim)
    x = torch.randn(math.prod(lengths), head_dim, dtype=torch.float64, requires_grad=True)
    y = rotate(x, angles)
    upstream = torch.randn_like(y)
    torch.testing.assert_close(torch.autograd.grad(y, x, upstream)[0], rotate(upstream, -angles))
    x, y = x.detach(), y.detach()
    for row, pair in itertools.product(range(len(x)), range(head_dim // 2)):
        before = complex(x[row, pair], x[row, pair + head_dim // 2])
        after = before * cmath.exp(1j * angles[row, pair].item())
        assert abs(after - complex(y[row, pair], y[row, pair + head_dim // 2])) < 1e-12


@pytest.mark.parametrize("lengths", GRIDS)
def test_a_start_continues_the_positions_of_a_cache(lengths):
    held, *others = lengths
    longer = rotary_angles([held + 2, *others], 12)
    assert torch.equal(rotary_angles([2, *others], 12, start=held), longer[-2 * math.prod(others) :])
    far = rotary_angles([1], 4, base=2.0, start=1_000_003)  # where float32 would be off by 1/36
    torch.testing.assert_close(far, torch.tensor([[1_000_003, 1_000_003 / math.sqrt(2)]], dtype=torch.float64))


@pytest.mark.parametrize("options", [{}, {"base": 4.0}])
@pytest.mark.parametrize("channels, start", [(2, 0), (8, 7)])
def test_sinusoids_by_their_formula(channels, start, options):
    base, places = options.get("base", 10000.0), range(start, start + 5)
    rows = [[(cos if i % 2 else sin)(p / base ** ((i - i % 2) / channels)) for i in range(channels)] for p in places]
    expected = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(sinusoidal(5, channels, start=start, **options), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "slopes", [[2**-4, 2**-8, 2**-2], [2**-h for h in range(1, 9)], [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]]
)
def test_slopes_are_a_geometric_sequence_and_between_powers_of_two_those_of_the_papers_code(slopes):
    torch.testing.assert_close(alibi_slopes(len(slopes)), torch.tensor(slopes).double(), rtol=1e-7, atol=0)


@pytest.mark.parametrize(("queries", "keys"), [(3, 3), (2, 5)])
def test_the_penalty_is_the_slope_times_the_distance_of_the_last_queries(queries, keys):
    slopes = torch.tensor([0.5, 0.25], dtype=torch.float64)
    at = range(keys - queries, keys)
    expected = torch.tensor([[[-m * abs(i - j) for j in range(keys)] for i in at] for m in slopes.tolist()])
    assert alibi_bias(queries, keys, slopes).equal(expected.double())


@pytest.mark.parametrize(("space", "longest"), [((4,), 6), ((2, 1, 3), [2, 2, 4])])
def test_an_embedding_looks_up_each_axis_share_of_the_channels(space, longest):
    made, x = PositionEmbedding(6, len(space), longest).double(), torch.randn(2, *space, 6).double()
    y, share = made(x), 6 // len(space)
    assert y.shape == x.shape and made(x.bfloat16()).dtype == torch.bfloat16
    for place in itertools.product(*map(range, space)):
        rows = [table.weight[i] for table, i in zip(made.data_embeddings.values(), place, strict=True)]
        for axis, row in enumerate(rows):
            assert all(one[place][axis * share :][:share].equal(row) for one in y)


def test_the_embeddings_names_sizes_and_weight_decay():
    made = PositionEmbedding(6, 3, 4)
    assert list(made.state_dict()) == [f"data_embeddings.{axis}.weight" for axis in "xyz"]
    assert (made.embedding_dim, made.data_dim, made.max_dim_lengths) == (6, 3, (4, 4, 4))
    assert decayed(made) == []
