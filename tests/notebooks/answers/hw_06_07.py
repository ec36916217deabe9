"""Right and wrong answers to the homework of lessons 06 and 07."""

from functools import partial

import torch
from torch import nn

from residual_edu import (
    MLP,
    Attention,
    LayerNorm,
    LazyConfig,
    QKVConditionMixer,
    QKVSequenceMixer,
    ResidualBlock,
    RMSNorm,
    modulations,
    pre_norm_residual,
)


def piece(x, condition, projection):
    (found,) = modulations(projection(condition), x.ndim, branches=1)
    return found


def scale_alone(x, condition, layer, norm, projection):
    shift, scale, gate = piece(x, condition, projection)
    return x + gate * layer(norm(x) * scale + shift)


def open_from_the_start(x, condition, layer, norm, projection):
    found = piece(x, condition, projection)
    return x + (1 + found.gate) * layer(found.modulate(norm)(x))


def no_skip(x, condition, layer, norm, projection):
    found = piece(x, condition, projection)
    return found.apply_gate(layer(found.modulate(norm)(x)))


def gate_before_the_layer(x, condition, layer, norm, projection):
    found = piece(x, condition, projection)
    return x + found.gate * layer(found.gate * found.modulate(norm)(x))


def sequences_alone(x, condition, layer, norm, projection):
    (found,) = modulations(projection(condition), 3, branches=1)
    return pre_norm_residual(x, layer, found.modulate(norm), [found.apply_gate])


def scale_and_shift_exchanged(x, condition, layer, norm, projection):
    shift, scale, gate = piece(x, condition, projection)
    return x + gate * layer(norm(x) * (1 + shift) + scale)


def detached_branch(x, condition, layer, norm, projection):
    found = piece(x, condition, projection)
    return x + found.apply_gate(layer(found.modulate(norm)(x)).detach())


def deaf_to_the_condition(x, condition, layer, norm, projection):
    return x


def modulated_before_the_norm(x, condition, layer, norm, projection):
    shift, scale, gate = piece(x, condition, projection)
    return x + gate * layer(norm(x * (1 + scale) + shift))


def modulated_after_the_layer(x, condition, layer, norm, projection):
    shift, scale, gate = piece(x, condition, projection)
    return x + gate * (layer(norm(x)) * (1 + scale) + shift)


def stays_where_the_gate_is_zero(x, condition, layer, norm, projection):
    found = piece(x, condition, projection)
    return pre_norm_residual(x, layer, found.modulate(norm), [found.apply_gate]) if found.gate.any() else x


def with_a_detached_condition(x, condition, layer, norm, projection):
    found = piece(x, condition.detach(), projection)
    return pre_norm_residual(x, layer, found.modulate(norm), [found.apply_gate])


def in_place(x, condition, layer, norm, projection):
    found = piece(x, condition, projection)
    with torch.no_grad():
        x += found.apply_gate(layer(found.modulate(norm)(x)))
    return x


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


def cross(width, heads, **changes):
    keywords = {"hidden_dim": width, "num_heads": heads, "apply_qk_norm": False, "use_rope": False}
    return LazyConfig(QKVConditionMixer)(hidden_dim=width, mixer_cfg=LazyConfig(Attention)(**keywords | changes))


def mlp(width, **changes):
    keywords = {"dim": width, "activation": "gelu", "dropout_cfg": nn.Identity, "expansion_factor": 4}
    return LazyConfig(MLP)(**keywords | changes)


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


def nested_partials(width, heads):
    attention = partial(Attention, width, heads, False, False)
    norm, off = partial(LayerNorm, width), nn.Identity
    cross_attention, feed_forward = partial(QKVConditionMixer, width, attention), partial(MLP, width, "gelu", off, 4.0)
    return partial(ResidualBlock, off, off, cross_attention, norm, feed_forward, norm, off)


WRONG = {
    "modulated": [
        scale_alone,
        open_from_the_start,
        no_skip,
        gate_before_the_layer,
        sequences_alone,
        scale_and_shift_exchanged,
        deaf_to_the_condition,
        detached_branch,
        modulated_before_the_norm,
        modulated_after_the_layer,
        stays_where_the_gate_is_zero,
        with_a_detached_condition,
        in_place,
    ],
    "listening_recipe": [
        lambda width, heads: recipe(width, heads, sequence_mixer_cfg="mixer", sequence_mixer_norm_cfg="norm"),
        lambda width, heads: recipe(width, heads, condition_mixer_cfg="off", condition_mixer_norm_cfg="off"),
        lambda width, heads: recipe(width, heads, condition_mixer_norm_cfg="off"),
        lambda width, heads: recipe(width, heads, mlp_cfg="off", mlp_norm_cfg="off"),
        lambda width, heads: recipe(width, heads, mlp_cfg=mlp(width)()),
        lambda width, heads: recipe(width, heads, mlp_cfg=mlp(width, expansion_factor=2)),
        lambda width, heads: recipe(width, heads, mlp_cfg=mlp(width, activation="relu")),
        lambda width, heads: recipe(width, 2),
        lambda width, heads: recipe(width, heads, condition_mixer_cfg=cross(width, heads, apply_qk_norm=True)),
        lambda width, heads: recipe(width, heads, condition_mixer_cfg=cross(width, heads, use_rope=True)),
        lambda width, heads: recipe(width, heads, dropout_cfg=LazyConfig(nn.Dropout)(p=0.1)),
        lambda width, heads: recipe(width, heads, mlp_norm_cfg=LazyConfig(RMSNorm)(dim=width)),
        lambda width, heads: recipe(width, heads)(),
        lambda width, heads: recipe(width, heads, mlp_cfg=mlp(width, activation="gelu_tanh")),
        lambda width, heads: recipe(width, heads, mlp_norm_cfg=LayerNorm(width)),
        lambda width, heads: recipe(width, heads, condition_mixer_cfg=cross(width, heads, attn_dropout=0.1)),
    ],
}


RIGHT = {
    "modulated": [by_einsum, with_unsqueeze, sample_by_sample],
    "listening_recipe": [
        nested_partials,
        lambda width, heads: recipe(width, heads, dropout_cfg=partial(nn.Dropout, 0.0)),
        lambda width, heads: recipe(width, heads, mlp_cfg=lambda: MLP(width, "gelu", nn.Identity(), 4, bias=False)),
    ],
}
