"""Sinusoids and ALiBi. The rotary embedding: test_position.py."""

from math import cos, sin

import pytest
import torch

from residual_edu import InvalidInput, alibi_bias, alibi_slopes, attention_mask, rotary_angles, rotate, sinusoidal


@pytest.mark.parametrize("start", [0, 1, 7])
@pytest.mark.parametrize("channels", [2, 6, 8])
def test_sinusoids_by_their_formula(channels, start):
    rows = [
        [(cos if i % 2 else sin)(p / 10000 ** ((i - i % 2) / channels)) for i in range(channels)]
        for p in range(start, start + 5)
    ]
    torch.testing.assert_close(
        sinusoidal(5, channels, start=start), torch.tensor(rows, dtype=torch.float64), rtol=1e-13, atol=1e-13
    )


def test_the_first_position_the_length_and_the_base():
    waves = sinusoidal(50, 8)
    assert waves[0].tolist() == [0, 1] * 4
    torch.testing.assert_close(waves.norm(dim=-1), torch.full((50,), 2.0).double())
    torch.testing.assert_close(sinusoidal(3, 4, base=4.0)[2, 2:], torch.tensor([sin(1), cos(1)]).double())


def test_a_step_turns_each_sine_and_cosine_by_the_rotary_angle():
    waves = sinusoidal(9, 8)
    pairs = torch.cat([waves[:, 1::2], waves[:, 0::2]], dim=-1)  # cosines, then sines: rotate's halves
    turned = rotate(pairs[:6], rotary_angles([1], 8, start=3).expand(6, 4))
    torch.testing.assert_close(turned, pairs[3:], rtol=1e-12, atol=1e-12)


PAPER = {  # Press, Smith & Lewis: a geometric sequence from 2^(-8/n), and for 12 heads the text of their code
    1: [2**-8],
    2: [2**-4, 2**-8],
    3: [2**-4, 2**-8, 2**-2],
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    6: [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125],
    8: [2**-h for h in range(1, 9)],
    12: [2**-h for h in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
    16: [2 ** (-h / 2) for h in range(1, 17)],
}


@pytest.mark.parametrize("heads", PAPER)
def test_slopes_of_heads_that_are_and_are_not_a_power_of_two(heads):
    torch.testing.assert_close(alibi_slopes(heads), torch.tensor(PAPER[heads]).double(), rtol=1e-7, atol=0)


@pytest.mark.parametrize("heads", range(1, 40))
def test_there_is_a_slope_for_each_head_and_all_differ(heads):
    slopes = alibi_slopes(heads)
    assert slopes.shape == (heads,) and len(set(slopes.tolist())) == heads
    assert slopes.min() > 0 and slopes.max() < 1


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 3), (1, 5), (2, 5)])
def test_the_penalty_is_the_slope_times_the_distance_of_the_last_queries(queries, keys):
    slopes = torch.tensor([0.5, 0.25], dtype=torch.float64)
    at = range(keys - queries, keys)
    expected = torch.tensor([[[-m * abs(i - j) for j in range(keys)] for i in at] for m in slopes.tolist()])
    assert alibi_bias(queries, keys, slopes).equal(expected.double())


def test_the_penalty_grows_with_the_distance_from_where_the_mask_puts_the_query():
    bias, mask = alibi_bias(3, 7, torch.ones(1)), attention_mask(3, 7, causal=True)
    seen = [row[allowed].tolist() for row, allowed in zip(bias[0], mask, strict=True)]
    assert seen == [[float(-d) for d in range(n - 1, -1, -1)] for n in (5, 6, 7)]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sinusoidal(4, 7), "head_dim must be a multiple of 2"),
        (lambda: sinusoidal(0, 8), "lengths must be a whole number, at least 1, got 0"),
        (lambda: alibi_slopes(-3), "heads must be a whole number, at least 1, got -3"),
        (lambda: alibi_bias(4, 3, torch.ones(2)), "keys must be a whole number, at least 4, got 3"),
        (lambda: alibi_bias(2, 3, torch.ones(2, 1)), "slopes must be floating point of shape .heads."),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
