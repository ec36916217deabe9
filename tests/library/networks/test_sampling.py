import pytest
import torch

from residual_edu.networks.sampling import choose, keep_top_k, keep_top_p, penalize

P = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.25, 0.5, 0.125, 0.125]], dtype=torch.float64)


def kept(logits):
    return [row.isfinite().nonzero().flatten().tolist() for row in logits]


@pytest.mark.parametrize(
    ("cut", "limit", "places"),
    [
        (keep_top_k, 1, [[1], [1]]),
        (keep_top_k, 3, [[1, 2, 3], [0, 1, 2, 3]]),
        (keep_top_k, 9, [[0, 1, 2, 3]] * 2),
        (keep_top_p, 0.01, [[1], [1]]),
        (keep_top_p, 0.41, [[1, 3], [1]]),
        (keep_top_p, 0.71, [[1, 2, 3], [0, 1]]),
        (keep_top_p, 0.99, [[0, 1, 2, 3], [0, 1, 2, 3]]),
    ],
)
def test_a_cut_keeps_the_k_largest_or_the_fewest_that_reach_p(cut, limit, places):
    cut = cut(P.log(), limit)
    assert kept(cut) == places
    assert cut[cut.isfinite()].equal(P.log()[cut.isfinite()])


def test_a_penalty_falls_on_what_was_seen_whatever_its_sign():
    logits, seen = torch.tensor([[2.0, -2.0, 3.0, -3.0, 0.0]]), torch.tensor([[0, 1, 0, 4]])
    assert penalize(logits, seen, 2.0).tolist() == [[1.0, -4.0, 3.0, -3.0, 0.0]]
    assert penalize(logits, seen, 1.0) is logits and logits[0, 0] == 2


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_draws_follow_the_softmax_at_a_temperature(temperature):
    n = 20_000
    drawn = choose(P[:1].log().expand(n, 4), temperature, generator=torch.Generator().manual_seed(0))
    share = torch.bincount(drawn, minlength=4) / n
    expected = P[0] ** (1 / temperature) / (P[0] ** (1 / temperature)).sum()
    assert ((share - expected).abs() < 5 * (expected * (1 - expected) / n).sqrt()).all()


def test_cuts_come_after_the_temperature():
    drawn = choose(P[:1].log().expand(2000, 4), 2.0, top_k=3, top_p=0.7)
    flat = P[0].sqrt() / P[0].sqrt()[1:].sum()  # .63 .45 .55 of 1.63: 1 and 3 reach .72
    assert flat[1] + flat[3] > 0.7 > flat[1] and set(drawn.tolist()) == {1, 3}


def test_probabilities_of_16_bits_are_computed_in_32():
    logits, seen = torch.randn(500, 200).bfloat16(), torch.arange(200).expand(500, 200)
    drawn, expected = (
        choose(penalize(x, seen, 1.3), 1.3, top_p=0.9, generator=torch.Generator().manual_seed(0))
        for x in (logits, logits.float())
    )
    assert drawn.equal(expected)


@pytest.mark.parametrize("cut", [{"top_k": 2}, {"top_p": 0.7}])
def test_what_is_cut_off_is_never_drawn(cut):
    """Without a cut it is a fifth of all; and at this seed, one of 10, torch draws it by probabilities of 16 bits."""
    logits = torch.zeros(16, 50257, dtype=torch.float16)
    logits[:, 7], logits[:, 9] = 12.0, 11.0
    assert set(choose(logits, **cut, generator=torch.Generator().manual_seed(20)).tolist()) == {7, 9}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
@pytest.mark.parametrize("temperature", [0.0, 1e-4, 1e-300])
def test_a_low_temperature_is_like_0(temperature, dtype):
    logits = torch.tensor([[11.0, 12.0, -torch.inf], [-3.0, -4.0, -5.0]], dtype=dtype)
    assert choose(logits, temperature).tolist() == [1, 0]
