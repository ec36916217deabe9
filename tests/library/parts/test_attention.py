"""Attention, formula and kernel, against softmax by hand; masks against their definition, pair by pair."""

import itertools
import math

import pytest
import torch

from residual_edu import attention, attention_mask, fused_attention, merge_heads, split_heads
from tests.library.helpers import agree

WAYS = pytest.mark.parametrize("way", [attention, fused_attention])
MASKS = {"none": {}, "causal": {"causal": True}, "window": {"window": 2}, "both": {"causal": True, "window": 3}}


def signals(*batch, queries=5, keys=5, head_dim=4, value_dim=4):
    shapes = [(*batch, queries, head_dim), (*batch, keys, head_dim), (*batch, keys, value_dim)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def by_hand(query, key, value, mask=None, bias=None, scale=None):
    """One batchless attention, number by number."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    rows = []
    for i, q in enumerate(query):
        weights = []
        for j, k in enumerate(key):
            score = scale * sum(a * b for a, b in zip(q, k, strict=True)) + (0 if bias is None else bias[i, j])
            weights.append(score.exp() * (1.0 if mask is None or mask[i, j] else 0.0))
        rows.append(sum(w * v for w, v in zip(weights, value, strict=True)) / sum(weights))
    return torch.stack(rows)


@WAYS
@pytest.mark.parametrize("restriction", MASKS)
@pytest.mark.parametrize("scale, biased", [(None, False), (0.3, True)])
def test_values_and_gradients_by_hand(way, restriction, scale, biased):
    inputs = signals(queries=3, keys=4, head_dim=2, value_dim=3)
    bias = torch.randn(3, 4, dtype=torch.float64, requires_grad=True) if biased else None
    given = (*inputs, attention_mask(3, 4, **MASKS[restriction]), bias, scale)
    agree(way(*given), by_hand(*given), inputs if bias is None else [*inputs, bias], 1e-12)


@pytest.mark.parametrize("queries, keys", [(5, 5), (2, 5), (1, 4)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_the_kernel_is_the_formula_also_where_it_is_causal(queries, keys, masked, biased):
    inputs = signals(2, 3, queries=queries, keys=keys)
    causal = attention_mask(queries, keys, causal=True)
    mask = torch.rand(2, 1, queries, keys) > 0.5 if masked else torch.ones(queries, keys, dtype=torch.bool)
    mask[..., 0] = True
    bias = torch.randn(3, queries, keys).double() if biased else None
    fused = fused_attention(*inputs, mask if masked else None, bias, is_causal=True)
    agree(fused, attention(*inputs, mask & causal, bias), inputs, 1e-12)


def test_dropout_keeps_the_mean():
    q, k, v = (x.detach() for x in signals())
    runs = torch.cat([fused_attention(q.expand(2000, 5, 4), k, v, dropout=0.3) for _ in range(2)])
    assert not torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2000])
    torch.testing.assert_close(runs.mean(dim=0), attention(q, k, v), rtol=0, atol=0.06)


@pytest.mark.parametrize("queries, keys", [(5, 5), (2, 5), (1, 1)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 1, 2, 9])
def test_a_mask_is_true_for_the_pairs_that_its_options_allow(queries, keys, causal, window):
    mask = attention_mask(queries, keys, causal=causal, window=window)
    if not causal and window is None:
        assert mask is None
        return
    for i, j in itertools.product(range(queries), range(keys)):
        place = keys - queries + i
        assert mask[i, j] == ((not causal or j <= place) and (window is None or abs(place - j) < window))


HIDING = {  # ways to hide all keys from query 0, and later ones from the others
    "a mask": lambda mask, dtype: (mask, None),
    "-inf": lambda mask, dtype: (None, torch.zeros(5, 5, dtype=dtype).masked_fill(~mask, -torch.inf)),
    "-1e9": lambda mask, dtype: (None, torch.zeros(5, 5, dtype=dtype).masked_fill(~mask, LOW[dtype])),
    "both": lambda mask, dtype: (mask.logical_or(torch.eye(5) > 0), torch.zeros(5, 5, dtype=dtype) + ALONE.to(dtype)),
}
LOW = {torch.float64: -1e9, torch.float32: torch.finfo(torch.float32).min, torch.bfloat16: -1e9, torch.float16: -65504}
ALONE = torch.zeros(5, 5).index_put((torch.tensor(0), torch.tensor(0)), torch.tensor(-torch.inf))


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("hide", HIDING)
@WAYS
def test_a_query_from_which_every_key_is_hidden_gets_0_and_leaves_finite_gradients(way, hide, dtype):
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    mask[0] = False
    mask, bias = HIDING[hide](mask, dtype)
    bias = bias if bias is None else bias.requires_grad_()
    inputs = [x.detach().to(dtype).requires_grad_() for x in signals()]
    found = way(*inputs, mask, bias)
    assert not found[..., 0, :].any() and found[..., 1:, :].any(dim=-1).all() and found.isfinite().all()
    for gradient in torch.autograd.grad(found.sum(), [*inputs, *([] if bias is None else [bias])]):
        assert gradient.isfinite().all()
    torch.testing.assert_close(found[..., 1:, :], way(*inputs, torch.ones(5, 5).tril() > 0)[..., 1:, :])


def test_heads_are_parts_of_the_channels_and_positions_are_in_raster_order():
    x = torch.randn(2, 3, 2, 36).chunk(3, dim=-1)[1].transpose(1, 2)  # a part of a wider signal, which is no copy
    heads = split_heads(x, 3)
    assert heads.shape == (2, 3, 6, 4) and merge_heads(heads).equal(x.flatten(1, -2))
    for nth, place in enumerate(itertools.product(range(2), range(3))):
        assert heads[:, 1, nth].equal(x[(slice(None), *place, slice(4, 8))])
