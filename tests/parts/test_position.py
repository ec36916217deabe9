"""The rotary embedding is a rotation, and scores know relative positions alone, on 1, 2 and 3 axes."""

import cmath
import itertools
import math

import pytest
import torch

from residual_edu import InvalidInput, rotary_angles, rotary_waves, rotate, rotate_by

as_users_meet_it = pytest.mark.usefixtures("as_installed")
GRIDS = [(7,), (4, 5), (3, 2, 4)]


@pytest.mark.parametrize("lengths", GRIDS)
@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_angles_by_hand(lengths, base):
    """Each axis has 2 pairs of the 4 features that are its share; 1 / base^(j / 2) is their frequency."""
    angles = rotary_angles(lengths, 4 * len(lengths), base)
    for row, place in enumerate(itertools.product(*map(range, lengths))):
        expected = [p / base ** (j / 2) for p in place for j in range(2)]
        torch.testing.assert_close(angles[row], torch.tensor(expected, dtype=torch.float64), rtol=1e-14, atol=0)


@pytest.mark.parametrize("lengths", GRIDS)
def test_a_pair_is_a_complex_number_that_turns(lengths):
    head_dim = 6 * len(lengths)
    angles = rotary_angles(lengths, head_dim)
    x = torch.randn(math.prod(lengths), head_dim, dtype=torch.float64)
    y = rotate(x, angles)
    for row, pair in itertools.product(range(len(x)), range(head_dim // 2)):
        before = complex(x[row, pair], x[row, pair + head_dim // 2])
        after = before * cmath.exp(1j * angles[row, pair].item())
        assert abs(after - complex(y[row, pair], y[row, pair + head_dim // 2])) < 1e-12


@pytest.mark.parametrize("lengths", GRIDS)
def test_norms_stay(lengths):
    x = torch.randn(2, 3, math.prod(lengths), 12, dtype=torch.float64)
    y = rotate(x, rotary_angles(lengths, 12))
    torch.testing.assert_close(y.norm(dim=-1), x.norm(dim=-1), rtol=1e-13, atol=0)
    assert (y - x).abs().amax() > 0.5


@pytest.mark.parametrize("lengths", [(12,), (5, 6), (4, 3, 5)])
def test_scores_know_relative_positions_alone(lengths):
    """A query and a key, the same at every position: the score of two positions follows from their difference."""
    angles = rotary_angles(lengths, 12)
    q, k = (rotate(torch.randn(12).double().expand(len(angles), 12), angles) for _ in range(2))
    scores = (q @ k.mT).tolist()
    places = list(itertools.product(*map(range, lengths)))
    of_difference = {}
    for (i, a), (j, b) in itertools.product(enumerate(places), repeat=2):
        difference = tuple(x - y for x, y in zip(a, b, strict=True))
        assert abs(of_difference.setdefault(difference, scores[i][j]) - scores[i][j]) < 1e-11
    values = [round(score, 6) for score in of_difference.values()]
    assert len(set(values)) == len(values), "differences that are not the same have scores that are not the same"


def test_the_first_position_stays():
    x = torch.randn(5, 8)
    assert torch.equal(rotate(x, rotary_angles([5], 8))[0], x[0])


@pytest.mark.parametrize("lengths", GRIDS)
def test_a_start_goes_on_where_a_cache_ends(lengths):
    held, *others = lengths
    longer = rotary_angles([held + 2, *others], 12)
    assert torch.equal(rotary_angles([2, *others], 12, start=held), longer[-2 * math.prod(others) :])


def test_far_positions_keep_their_precision():
    """At position a million the fastest pair has turned a million radians; float32 would miss by 1/50."""
    y = rotate(torch.tensor([[1.0, 0.0]]), rotary_angles([1], 2, start=1_000_003))
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, torch.tensor([[math.cos(1_000_003), math.sin(1_000_003)]]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dtype_and_input_stay(dtype):
    x = torch.randn(3, 4, 8).to(dtype)
    before = x.clone()
    y = rotate(x, rotary_angles([4], 8))
    assert y.dtype == dtype and torch.equal(x, before) and y.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_waves_at_hand_turn_what_angles_turn(dtype):
    """Some rows of a table that was made once, against the angles of these positions alone."""
    x = torch.randn(3, 4, 8).to(dtype)
    own, partner = (waves[5:9] for waves in rotary_waves(rotary_angles([12], 8)))
    assert rotate_by(x, own, partner).equal(rotate(x, rotary_angles([4], 8, start=5)))
    assert rotate_by(x, own, partner).dtype == dtype


def test_the_gradient_turns_back():
    angles = rotary_angles([4], 6)
    x, upstream = torch.randn(4, 6, dtype=torch.float64, requires_grad=True), torch.randn(4, 6).double()
    (gradient,) = torch.autograd.grad(rotate(x, angles), x, upstream)
    torch.testing.assert_close(gradient, rotate(upstream, -angles))


@as_users_meet_it
def test_it_compiles(compiled):
    x = torch.randn(2, 6, 8)
    torch.testing.assert_close(
        compiled(lambda x: rotate(x, rotary_angles([6], 8)))(x), rotate(x, rotary_angles([6], 8))
    )


@pytest.mark.parametrize(
    "lengths, head_dim, options, message",
    [
        ((4,), 7, {}, r"head_dim must be divisible by 2 \(a pair of features for each of the axes, 1\), got 7"),
        ((4, 4), 6, {}, r"head_dim must be divisible by 4 \(a pair of features for each of the axes, 2\), got 6"),
        ((4, 4, 4), 8, {}, r"head_dim must be divisible by 6 \(a pair of features for each of the axes, 3\), got 8"),
        ((), 8, {}, "lengths .* got 0"),
        ((1, 1, 1, 1), 8, {}, "lengths .* got 4"),
        ((4, 0), 8, {}, "lengths must be at least 1, got 0"),
        ((4,), 8, {"base": 0.0}, "base must be a finite number above 0, got 0.0"),
        ((4,), 0, {}, "head_dim must be at least 1, got 0"),
    ],
)
@as_users_meet_it
def test_angles_that_cannot_be(lengths, head_dim, options, message):
    with pytest.raises(InvalidInput, match=f"^{message}"):
        rotary_angles(lengths, head_dim, **options)


@pytest.mark.parametrize(
    "x, message",
    [
        (torch.zeros(3, 8), r"angles must have shape \(3, 4\), got \(4, 4\)"),
        (torch.zeros(4, 6), r"angles must have shape \(4, 3\), got \(4, 4\)"),
        (torch.zeros(4, 7), r"head_dim must be divisible by 2 \(features come in pairs\), got 7"),
        (torch.zeros(8), r"x must have at least the axes \(positions, head_dim\), got shape \(8,\)"),
        (torch.zeros(4, 8, dtype=torch.int64), r"x must be floating point, got torch\.int64; "),
    ],
)
@as_users_meet_it
def test_signals_that_cannot_be_rotated(x, message):
    with pytest.raises(InvalidInput, match=f"^{message}"):
        rotate(x, rotary_angles([4], 8))
