"""Attention as a mixer: heads, rotations, norms and causality, on 1, 2 and 3 axes."""

import re
from math import prod

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import normalize
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import InvalidInput, rotary_angles
from residual_edu.gradient_flow import mixing_matrix
from residual_edu.mixers import Attention

GRIDS = [(7,), (3, 4), (2, 3, 2)]
as_users_meet_it = pytest.mark.usefixtures("as_installed")


def signals(*space, batch=2, channels=24, count=3):
    return [torch.randn(batch, *space, channels, dtype=torch.float64, requires_grad=True) for _ in range(count)]


def turned(x, angles):
    """Rotation by complex numbers: the features i and i + d/2 are the two parts of one."""
    half = x.shape[-1] // 2
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], dim=-1)


def by_hand(query, key, value, heads, qk_norm=False, rope=False, causal=False):
    """Head by head and sample by sample: softmax(q k) v."""
    space, samples = query.shape[1:-1], []
    for q, k, v in zip(*(x.flatten(1, -2) for x in (query, key, value)), strict=True):
        pieces = []
        for qh, kh, vh in zip(*(x.chunk(heads, dim=-1) for x in (q, k, v)), strict=True):
            if rope:
                angles = rotary_angles(space, qh.shape[-1])
                qh, kh = turned(qh, angles), turned(kh, angles)
            if qk_norm:
                qh, kh = normalize(qh, dim=-1), normalize(kh, dim=-1)
            scores = qh @ kh.T * (1.0 if qk_norm else qh.shape[-1] ** -0.5)
            if causal:
                scores = scores + torch.full_like(scores, -torch.inf).triu(1)
            pieces.append(scores.softmax(-1) @ vh)
        samples.append(torch.cat(pieces, dim=-1))
    return torch.stack(samples).view(query.shape)


@pytest.mark.parametrize("space", GRIDS)
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("rope", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_values_and_gradients_by_hand(space, heads, qk_norm, rope, causal):
    inputs = signals(*space)
    mixer = Attention(24, heads, apply_qk_norm=qk_norm, use_rope=rope, is_causal=causal)
    weights = torch.randn(2, *space, 24).double()
    results = []
    for out in (mixer(*inputs), by_hand(*inputs, heads, qk_norm, rope, causal)):
        results.append([out, *torch.autograd.grad((out * weights).sum(), inputs)])
    torch.testing.assert_close(*results, rtol=1e-11, atol=1e-11)


def test_it_is_torchs_multi_head_attention():
    theirs = torch.nn.MultiheadAttention(24, 3, bias=False, batch_first=True).double()
    (x,) = signals(5, count=1)
    q, k, v = (x @ theirs.in_proj_weight.T).chunk(3, dim=-1)
    ours = Attention(24, 3, apply_qk_norm=False, use_rope=False)(q, k, v) @ theirs.out_proj.weight.T
    torch.testing.assert_close(ours, theirs(x, x, x, need_weights=False)[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("space", GRIDS)
@pytest.mark.parametrize("heads", [1, 2])
def test_inputs_stay(space, heads):
    inputs = [x.detach() for x in signals(*space)]
    before = [x.clone() for x in inputs]
    Attention(24, heads, apply_qk_norm=True, use_rope=True)(*inputs)
    assert all(torch.equal(a, b) for a, b in zip(inputs, before, strict=True))


@pytest.mark.parametrize("space", GRIDS)
@pytest.mark.parametrize("heads", [1, 2])
def test_a_shift_along_an_axis_shifts_the_answer(space, heads):
    (x,) = signals(*space, batch=1, count=1)
    mixer = Attention(24, heads, apply_qk_norm=False, use_rope=True)
    alone = mixer(x, x, x)
    for axis in range(1, 1 + len(space)):
        longer = [length + 3 * (i == axis - 1) for i, length in enumerate(space)]
        angles = rotary_angles(longer, 24 // heads).unflatten(0, longer)
        shifted = angles.narrow(axis - 1, 3, space[axis - 1]).flatten(0, -2)
        mixer._angles = lambda x, shifted=shifted: shifted
        torch.testing.assert_close(mixer(x, x, x), alone, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("rope", [False, True])
def test_without_positions_order_does_not_matter(rope):
    (x,) = signals(7, count=1)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    mixer = Attention(24, 2, apply_qk_norm=False, use_rope=rope)
    same = torch.allclose(mixer(x, x, x)[:, order], mixer(*[x[:, order]] * 3))
    assert same is not rope


@pytest.mark.parametrize("space", GRIDS)
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("qk_norm", [False, True])
def test_causal_means_raster_order_by_perturbation(space, heads, qk_norm):
    (x,) = signals(*space, count=1)
    mixer = Attention(24, heads, apply_qk_norm=qk_norm, use_rope=True, is_causal=True)
    before = mixer(x, x, x).flatten(1, -2)
    for place in range(prod(space)):
        y = x.detach().clone()
        y.view(2, -1, 24)[:, place] += 1
        after = mixer(y, y, y).flatten(1, -2)
        assert torch.equal(after[:, :place], before[:, :place])
        assert (after[:, place:] != before[:, place:]).any(dim=-1).all()


@pytest.mark.parametrize("space", GRIDS)
@pytest.mark.parametrize("causal", [False, True])
def test_causality_by_the_triangle_of_the_jacobian(space, causal):
    mixer = Attention(24, 2, apply_qk_norm=False, use_rope=True, is_causal=causal)
    (x,) = signals(*space, batch=1, count=1)
    depends = mixing_matrix(lambda x: mixer(x, x, x), x) > 0
    everywhere = torch.ones_like(depends)
    assert torch.equal(depends, everywhere.tril() if causal else everywhere)


def test_qk_norm_forgets_how_long_queries_and_keys_are():
    q, k, v = signals(5)
    mixer = Attention(24, 3, apply_qk_norm=True, use_rope=False)
    assert mixer.scale == 1.0
    torch.testing.assert_close(mixer(100 * q, 0.01 * k, v), mixer(q, k, v), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("space", [(3, 4), (2, 3, 2)])
def test_a_flattened_signal_is_told_its_axes(space):
    inputs = signals(*space)
    flat = Attention(24, 1, False, True, rope_spatial_dims=space)(*(x.flatten(1, -2) for x in inputs))
    torch.testing.assert_close(flat, Attention(24, 1, False, True)(*inputs).flatten(1, -2), rtol=1e-11, atol=1e-11)


def test_queries_and_keys_may_stand_elsewhere():
    query, key = signals(3, 4, count=1) + signals(2, 5, count=1)
    mixer = Attention(24, 3, apply_qk_norm=False, use_rope=False)
    flat = mixer(query.flatten(1, 2), key.flatten(1, 2), key.flatten(1, 2))
    torch.testing.assert_close(mixer(query, key, key), flat.view(query.shape))
    torch.testing.assert_close(mixer(query, key[:1], key[:1])[0], mixer(query, key, key)[0], rtol=1e-11, atol=1e-11)


def test_dropout_in_training_alone():
    q, k, v = signals(6)
    mixer = Attention(24, 2, apply_qk_norm=False, use_rope=False, attn_dropout=0.5)
    assert not torch.equal(mixer(q, k, v), mixer(q, k, v))
    mixer.eval()
    torch.testing.assert_close(mixer(q, k, v), by_hand(q, k, v, 2), rtol=1e-11, atol=1e-11)


def test_no_parameters_and_conditioning_is_ignored():
    q, k, v = signals(4)
    mixer = Attention(24, 2, apply_qk_norm=True, use_rope=True)
    assert not mixer.state_dict()
    assert torch.equal(mixer(q, k, v, conditioning=torch.randn(2, 24)), mixer(q, k, v))


@pytest.mark.parametrize("space", GRIDS)
@pytest.mark.parametrize("qk_norm, rope", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("causal", [False, True])
def test_flop_count_is_torchs_and_the_pointwise_terms(space, qk_norm, rope, causal):
    mixer = Attention(24, 2, qk_norm, rope, is_causal=causal)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:  # it counts no CPU kernel
        mixer(*(x.detach().float() for x in signals(*space, batch=1)))
    numbers = 2 * prod(space) * 24  # in queries and keys
    assert mixer.flop_count(space) == counter.get_total_flops() + 3 * numbers * (qk_norm + rope)
    assert mixer.flop_count(prod(space), inference=True) == mixer.flop_count(space)


@pytest.mark.parametrize("space", GRIDS)
@as_users_meet_it
def test_it_compiles(compiled, space):
    inputs = signals(*space)
    mixer = Attention(24, 2, apply_qk_norm=True, use_rope=True, is_causal=True)
    torch.testing.assert_close(compiled(mixer)(*inputs), mixer(*inputs))


def built(*sizes, rope=True, **options):
    return Attention(*sizes, apply_qk_norm=False, use_rope=rope, **options)


def mixed(query, key, value=None, **options):
    return built(12, 2, **options)(*map(torch.zeros, (query, key, value or key)))


FLAT, GRID, FIVE = (2, 4, 12), (2, 2, 2, 12), (2, 5, 12)
REFUSED = [
    (lambda: built(12, 5), "hidden_dim must be a multiple of num_heads=5, got 12"),
    (lambda: built(12, 2, attn_dropout=1.0), "attn_dropout must be a number in [0, 1), got 1.0"),
    (lambda: mixed((2, 4, 8), (2, 4, 8)), "query must have 12 channels, got 8"),
    (lambda: mixed(FLAT, FIVE, FLAT), "value must have the shape of key, (2, 5, 12), got (2, 4, 12)"),
    (lambda: mixed(FLAT, FIVE, (1, 5, 12)), "value must have the shape of key, (2, 5, 12), got (1, 5, 12)"),
    (lambda: mixed(GRID, FLAT, rope_spatial_dims=(4,)), "key must have 4 axes, got 3"),
    (lambda: mixed(FIVE, FLAT, is_causal=True), ""),
    (lambda: mixed(FIVE, FIVE, rope_spatial_dims=(2,)), ""),
    (lambda: mixed(GRID, GRID), "head_dim must be "),
]


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("call, words", REFUSED)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("key", [(2, 4, 8), (2, 0, 12), (3, 4, 12)])
def test_torch_refuses_keys_that_do_not_fit(key):
    with pytest.raises((RuntimeError, ValueError)):
        mixed(FLAT, key, rope=False)
