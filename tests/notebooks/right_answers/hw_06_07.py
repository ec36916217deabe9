"""Right answers, of unusual form, to the homework of lessons 06 and 07."""

from functools import partial

import torch
from torch import nn

from residual_edu import MLP, Attention, LayerNorm, LazyConfig, QKVConditionMixer, QKVSequenceMixer, ResidualBlock


def by_einsum(x, condition, layer, norm, projection):
    shift, scale, gate = projection(condition).unflatten(-1, (3, x.shape[-1])).unbind(1)
    normed, places = norm(x), (slice(None), *[None] * (x.ndim - 2))
    inside = normed + torch.einsum("b...c,bc->b...c", normed, scale) + shift[places]
    return x + torch.einsum("b...c,bc->b...c", layer(inside), gate)


def with_unsqueeze(x, condition, layer, norm, projection):
    pieces = projection(condition)
    for _ in range(x.ndim - 2):
        pieces = pieces.unsqueeze(1)
    shift, scale, gate = pieces.chunk(3, -1)
    return torch.addcmul(x, gate, layer(torch.addcmul(shift, norm(x), 1 + scale)))


def sample_by_sample(x, condition, layer, norm, projection):
    shift, scale, gate = projection(condition).view(len(x), 3, -1).unbind(1)
    branch = layer(torch.stack([row * (1 + a) + b for row, a, b in zip(norm(x), scale, shift, strict=True)]))
    return torch.stack([row + g * out for row, g, out in zip(x, gate, branch, strict=True)])


def recipe(width, heads, **changes):
    norm = LazyConfig(LayerNorm)(dim=width)
    attention = LazyConfig(Attention)(hidden_dim=width, num_heads=heads, apply_qk_norm=False, use_rope=False)
    parts = {
        "sequence_mixer_cfg": nn.Identity,
        "sequence_mixer_norm_cfg": nn.Identity,
        "condition_mixer_cfg": LazyConfig(QKVConditionMixer)(hidden_dim=width, mixer_cfg=attention),
        "condition_mixer_norm_cfg": norm,
        "mlp_cfg": LazyConfig(MLP)(dim=width, activation="gelu", dropout_cfg=nn.Identity, expansion_factor=4),
        "mlp_norm_cfg": norm,
        "dropout_cfg": nn.Identity,
    }
    mixer = LazyConfig(QKVSequenceMixer)(hidden_dim=width, mixer_cfg=attention)
    named = {"norm": norm, "mixer": mixer, "off": nn.Identity}
    return LazyConfig(ResidualBlock)(
        **parts | {k: named.get(v, v) if isinstance(v, str) else v for k, v in changes.items()}
    )


def nested_partials(width, heads):
    attention = partial(Attention, width, heads, False, False)
    norm, off = partial(LayerNorm, width), nn.Identity
    cross_attention, feed_forward = partial(QKVConditionMixer, width, attention), partial(MLP, width, "gelu", off, 4.0)
    return partial(ResidualBlock, off, off, cross_attention, norm, feed_forward, norm, off)


RIGHT = {
    "modulated": [by_einsum, with_unsqueeze, sample_by_sample],
    "listening_recipe": [
        nested_partials,
        lambda width, heads: recipe(width, heads, dropout_cfg=partial(nn.Dropout, 0.0)),
        lambda width, heads: recipe(width, heads, mlp_cfg=lambda: MLP(width, "gelu", nn.Identity(), 4, bias=False)),
    ],
}
