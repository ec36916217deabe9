"""Attention, formula and kernel, against softmax by hand; masks against their definition, pair by pair."""

import itertools
import math

import pytest
import torch

from residual_edu import InvalidInput, attention, attention_mask, fused_attention, merge_heads, split_heads

as_users_meet_it = pytest.mark.usefixtures("as_installed")
WAYS = [attention, fused_attention]
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


def with_gradients(function, inputs):
    """The output, and the gradients of a sum with weights that differ."""
    out = function(*inputs)
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [out, *torch.autograd.grad((out * weights).sum(), inputs)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("restriction", MASKS)
@pytest.mark.parametrize("scale", [None, 1.0, 0.3])
@pytest.mark.parametrize("biased", [False, True])
def test_values_and_gradients_by_hand(way, restriction, scale, biased):
    inputs = signals(queries=3, keys=4, head_dim=2, value_dim=3)
    options = {"mask": attention_mask(3, 4, **MASKS[restriction]), "scale": scale}
    options["bias"] = torch.randn(3, 4).double() if biased else None
    seen = with_gradients(lambda *x: way(*x, **options), inputs)
    expected = with_gradients(lambda *x: by_hand(*x, **options), inputs)
    torch.testing.assert_close(seen, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("queries, keys", [(5, 5), (2, 5), (1, 4)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_the_kernel_is_the_formula_also_where_it_is_causal(queries, keys, masked, biased):
    inputs = signals(2, 3, queries=queries, keys=keys)
    causal = attention_mask(queries, keys, causal=True)
    mask = torch.rand(2, 1, queries, keys) > 0.5 if masked else torch.ones(queries, keys, dtype=torch.bool)
    mask[..., 0] = True
    bias = torch.randn(3, queries, keys).double() if biased else None
    given = mask if masked else None
    seen = with_gradients(lambda *x: fused_attention(*x, given, bias, is_causal=True), inputs)
    expected = with_gradients(lambda *x: attention(*x, mask & causal, bias), inputs)
    torch.testing.assert_close(seen, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_a_bias_has_a_gradient(way):
    q, k, v = signals()
    bias = torch.randn(5, 5, dtype=torch.float64, requires_grad=True)
    (seen,) = torch.autograd.grad(way(q, k, v, bias=bias).square().sum(), bias)
    (expected,) = torch.autograd.grad(by_hand(q, k, v, bias=bias).square().sum(), bias)
    torch.testing.assert_close(seen, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_the_output_lies_between_the_smallest_and_the_largest_value(way):
    q, k, v = signals(8)
    out = way(q, k, v)
    assert (out <= v.amax(dim=-2, keepdim=True) + 1e-12).all() and (out >= v.amin(dim=-2, keepdim=True) - 1e-12).all()


@pytest.mark.parametrize("way", WAYS)
def test_the_order_of_the_keys_does_not_matter(way):
    q, k, v = signals(2)
    order = torch.randperm(5)
    torch.testing.assert_close(way(q, k[:, order], v[:, order]), way(q, k, v), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_large_scores_do_not_overflow(way):
    q, k, v = (1000 * x.detach().float() for x in signals(2))
    assert way(q, k, v).isfinite().all()


@pytest.mark.parametrize("way", WAYS)
def test_inputs_are_not_changed(way):
    inputs = [x.detach() for x in signals(2)]
    before = [x.clone() for x in inputs]
    way(*inputs, attention_mask(5, 5, causal=True))
    assert all(torch.equal(a, b) for a, b in zip(inputs, before, strict=True))


def test_dropout_keeps_the_mean():
    q, k, v = (x.detach() for x in signals())
    runs = torch.stack([fused_attention(q, k, v, dropout=0.3) for _ in range(4000)])
    assert not torch.equal(runs[0], runs[1])
    torch.testing.assert_close(runs.mean(dim=0), attention(q, k, v), rtol=0, atol=0.06)


@pytest.mark.parametrize("queries, keys", [(5, 5), (2, 5), (1, 5), (1, 1)])
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
    assert mask.any(dim=-1).all()


def test_a_row_of_a_cached_mask_is_the_row_of_the_whole():
    whole = attention_mask(6, 6, causal=True, window=3)
    for step in range(6):
        assert torch.equal(attention_mask(1, step + 1, causal=True, window=3), whole[step : step + 1, : step + 1])


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
@pytest.mark.parametrize("way", WAYS)
@as_users_meet_it
def test_a_query_from_which_every_key_is_hidden_gets_0_and_leaves_finite_gradients(compiled, way, hide, dtype):
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    mask[0] = False
    mask, bias = HIDING[hide](mask, dtype)
    bias = bias if bias is None else bias.requires_grad_()
    inputs = [x.detach().to(dtype).requires_grad_() for x in signals()]
    found = way(*inputs, mask, bias)
    assert not found[..., 0, :].any() and found[..., 1:, :].any(dim=-1).all() and found.isfinite().all()
    for gradient in torch.autograd.grad(found.sum(), [*inputs, *([] if bias is None else [bias])]):
        assert gradient.isfinite().all()
    torch.testing.assert_close(compiled(way)(*inputs, mask, bias), found)
    torch.testing.assert_close(found[..., 1:, :], way(*inputs, torch.ones(5, 5).tril() > 0)[..., 1:, :])


@pytest.mark.parametrize("way", WAYS)
@as_users_meet_it
def test_it_compiles(compiled, way):
    q, k, v = signals(2)
    mask = attention_mask(5, 5, window=2)
    torch.testing.assert_close(compiled(way)(q, k, v, mask), way(q, k, v, mask), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("space", [(5,), (2, 3), (2, 3, 2)])
def test_heads_are_parts_of_the_channels_and_positions_are_in_raster_order(space):
    x = torch.randn(2, *space, 12)
    heads = split_heads(x, 3)
    assert heads.shape == (2, 3, math.prod(space), 4)
    for nth, place in enumerate(itertools.product(*map(range, space))):
        assert heads[:, 1, nth].equal(x[(slice(None), *place, slice(4, 8))])
    assert merge_heads(heads).equal(x.flatten(1, -2))


def test_heads_of_a_part_of_a_wider_signal():
    """Query, key and value are thirds of one tensor, and may come transposed."""
    x = torch.randn(2, 4, 3, 36)
    for part in x.chunk(3, dim=-1) + x.transpose(1, 2).chunk(3, dim=-1):
        assert split_heads(part, 3).equal(split_heads(part.contiguous(), 3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: attention(*signals(), torch.zeros(5, 5)), "mask must be boolean, of 2 or query's axes"),
        (
            lambda: attention(*signals(2, 3), torch.ones(3, 5, 5, dtype=torch.bool)),
            "mask must be boolean, of 2 or query's axes",
        ),
        (
            lambda: fused_attention(*signals(queries=4, keys=3), is_causal=True),
            "keys must be a whole number, at least 4, got 3",
        ),
        (lambda: attention_mask(4, 3, window=2), "keys must be a whole number, at least 4, got 3"),
        (lambda: attention_mask(0, 3, causal=True), "queries must be a whole number, at least 1, got 0"),
        (lambda: attention_mask(3, 3, window=0), "window must be a whole number, at least 1, got 0"),
        (lambda: split_heads(torch.zeros(2, 3, 1), 2), "channels must be a whole number, at least 2, got 1"),
    ],
)
@as_users_meet_it
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()


@as_users_meet_it
def test_heads_are_merged_of_four_axes_alone():
    with pytest.raises(ValueError, match="values to unpack"):
        merge_heads(torch.zeros(2, 3, 4))
