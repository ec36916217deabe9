"""Attention as a mixer: heads, rotations, norms and causality, on 1, 2 and 3 axes."""

import pytest
import torch
from torch.nn.functional import normalize

from residual_edu import rotary_angles
from residual_edu.mixers import Attention
from tests.library.helpers import agree

GRIDS = [(7,), (3, 4), (2, 3, 2)]


def signals(*space, batch=2, count=3):
    return [torch.randn(batch, *space, 24, dtype=torch.float64, requires_grad=True) for _ in range(count)]


def turned(x, angles):
    """Rotation by complex numbers: the features i and i + d/2 are the two parts of one."""
    half = x.shape[-1] // 2
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], dim=-1)


def by_hand(query, key, value, qk_norm=False, rope=False, causal=False, base=10000.0):
    """Head by head and sample by sample: softmax(q k) v, in two heads."""
    space, samples = query.shape[1:-1], []
    for signals_of_one in zip(*(x.flatten(1, -2) for x in (query, key, value)), strict=True):
        pieces = []
        for q, k, v in zip(*(x.chunk(2, dim=-1) for x in signals_of_one), strict=True):
            if rope:
                angles = rotary_angles(space, 12, base)
                q, k = turned(q, angles), turned(k, angles)
            if qk_norm:
                q, k = normalize(q, dim=-1), normalize(k, dim=-1)
            scores = q @ k.T * (1.0 if qk_norm else 12**-0.5)
            if causal:
                scores = scores + torch.full_like(scores, -torch.inf).triu(1)
            pieces.append(scores.softmax(-1) @ v)
        samples.append(torch.cat(pieces, dim=-1))
    return torch.stack(samples).view(query.shape)


@pytest.mark.parametrize("space", GRIDS)
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("rope", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_values_and_gradients_by_hand(space, qk_norm, rope, causal):
    inputs, options = signals(*space), [{}, {"rope_base": 100.0}][causal]
    mixer = Attention(24, 2, qk_norm, rope, causal, **options)
    agree(mixer(*inputs), by_hand(*inputs, qk_norm, rope, causal, *options.values()), inputs, 1e-11)


def test_a_flattened_signal_is_told_its_axes():
    inputs = signals(2, 3, 2)
    flat = Attention(24, 1, False, True, rope_spatial_dims=(2, 3, 2))(*(x.flatten(1, -2) for x in inputs))
    torch.testing.assert_close(flat, Attention(24, 1, False, True)(*inputs).flatten(1, -2), rtol=1e-11, atol=1e-11)


def test_queries_and_keys_may_stand_elsewhere():
    (query,), (key,) = signals(3, 4, count=1), signals(2, 5, count=1)
    mixer = Attention(24, 3, apply_qk_norm=False, use_rope=False)
    flat = mixer(query.flatten(1, 2), key.flatten(1, 2), key.flatten(1, 2))
    torch.testing.assert_close(mixer(query, key, key), flat.view(query.shape))
    torch.testing.assert_close(mixer(query, key[:1], key[:1])[0], mixer(query, key, key)[0], rtol=1e-11, atol=1e-11)


def test_by_steps_it_has_second_derivatives():
    (x,), mixer = signals(3, count=1), Attention(24, 2, True, True, fused=False)
    torch.testing.assert_close(mixer(x, x, x), Attention(24, 2, True, True)(x, x, x))
    (gradient,) = torch.autograd.grad(mixer(x, x, x).sin().sum(), x, create_graph=True)
    assert torch.autograd.grad(gradient.sum(), x)[0].any()


def test_dropout_in_training_alone():
    inputs = signals(6)
    mixer = Attention(24, 2, apply_qk_norm=False, use_rope=False, attn_dropout=0.5)
    assert not torch.equal(mixer(*inputs), mixer(*inputs)) and not mixer.state_dict()
    torch.testing.assert_close(mixer.eval()(*inputs), by_hand(*inputs), rtol=1e-11, atol=1e-11)
