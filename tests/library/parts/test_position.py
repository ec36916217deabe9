"""The rotary embedding is a rotation, and scores depend on relative positions alone, on 1, 2 and 3 axes."""

import cmath
import itertools
import math

import pytest
import torch

from residual_edu import InvalidInput, rotary_angles, rotary_cos_sin, rotate, rotate_by

as_users_meet_it = pytest.mark.usefixtures("as_installed")
GRIDS = [(7,), (4, 5), (3, 2, 4)]
ANGLES = rotary_angles([4], 8)


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
def test_norms_are_kept(lengths):
    x = torch.randn(2, 3, math.prod(lengths), 12, dtype=torch.float64)
    y = rotate(x, rotary_angles(lengths, 12))
    torch.testing.assert_close(y.norm(dim=-1), x.norm(dim=-1), rtol=1e-13, atol=0)
    assert (y - x).abs().amax() > 0.5


@pytest.mark.parametrize("lengths", [(12,), (5, 6), (4, 3, 5)])
def test_scores_depend_on_relative_positions_alone(lengths):
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


def test_the_first_position_is_not_rotated():
    x = torch.randn(5, 8)
    assert torch.equal(rotate(x, rotary_angles([5], 8))[0], x[0])


@pytest.mark.parametrize("lengths", GRIDS)
def test_a_start_continues_the_positions_of_a_cache(lengths):
    held, *others = lengths
    longer = rotary_angles([held + 2, *others], 12)
    assert torch.equal(rotary_angles([2, *others], 12, start=held), longer[-2 * math.prod(others) :])


def test_angles_far_from_the_start_are_those_of_float64():
    """The second pair turns 2^(-1/2) radians a position; at position one million float32 would be off by 1/36."""
    x = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    angles = torch.tensor([1_000_003, 1_000_003 / math.sqrt(2)], dtype=torch.float64)
    expected = torch.cat([angles.cos(), angles.sin()])[None]
    y = rotate(x, rotary_angles([1], 4, base=2.0, start=1_000_003))
    torch.testing.assert_close(y, expected.float(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("tables", [torch.float64, torch.float32])
def test_numbers_are_rotated_in_float32_at_least(tables, dtype):
    """The result is the exact one, rounded once to its dtype, up to what float32 loses."""
    angles, x = rotary_angles([64], 32), torch.randn(4, 64, 32, dtype=torch.float64).to(dtype)
    a, b = x.double().chunk(2, dim=-1)
    exact = torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)
    y = rotate_by(x, *(table.to(tables) for table in rotary_cos_sin(angles)))
    computed_in = torch.float64 if dtype == tables == torch.float64 else torch.float32
    lost = 2 * torch.finfo(computed_in).eps * torch.cat([a.hypot(b)] * 2, dim=-1)
    bound = torch.finfo(dtype).eps / 2 * exact.abs() + lost
    assert y.dtype == dtype and ((y.double() - exact).abs() <= bound).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_dtype_is_kept_and_the_input_not_changed(dtype):
    x = torch.randn(3, 4, 8).to(dtype)
    before = x.clone()
    y = rotate(x, rotary_angles([4], 8))
    assert y.dtype == dtype and torch.equal(x, before) and y.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rows_of_a_table_rotate_as_the_angles_of_their_positions(dtype):
    x = torch.randn(3, 4, 8).to(dtype)
    cos, sin = (table[5:9] for table in rotary_cos_sin(rotary_angles([12], 8)))
    assert rotate_by(x, cos, sin).equal(rotate(x, rotary_angles([4], 8, start=5)))
    assert rotate_by(x, cos, sin).dtype == dtype


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
    ("call", "words"),
    [
        (lambda: rotary_angles([4], 7), "head_dim must be a multiple of 2"),
        (lambda: rotary_angles([4, 4, 4], 8), "head_dim must be a multiple of 6"),
        (lambda: rotary_angles([4, 1.5], 8), "lengths must be a whole number, at least 1, got 1.5"),
        (lambda: rotary_angles([4], 8, start=-1), "start must be a whole number, at least 0, got -1"),
        (lambda: rotary_angles([4], 8, base=0.0), "base must be a finite number above 0, got 0.0"),
        (lambda: rotate(torch.zeros(3, 8), ANGLES), "cos and sin must be of x's .3, 8., the last even"),
        (lambda: rotate(torch.zeros(4, 1), ANGLES), "cos and sin must be of x's .4, 1., the last even"),
        (lambda: rotate_by(*torch.zeros(3, 4, 7)), "cos and sin must be of x's .4, 7., the last even"),
        (lambda: rotate(torch.zeros(4, 8, dtype=torch.int64), ANGLES), "x must be floating point"),
    ],
)
@as_users_meet_it
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
