"""What the parts refuse, since torch would answer it without a word."""

import torch

import residual_edu as library
from residual_edu import Modulation, layer_norm, post_norm_residual, pre_norm_residual, rms_norm, rotary_angles, rotate
from residual_edu.parts.attention import attention, attention_mask, fused_attention
from tests.library.helpers import refused

zeros, ones = torch.zeros, torch.ones
X, WHOLE, FLOAT = zeros(2, 5, 4), zeros(2, 5, 4).long(), "must be floating point"
MODULATION, ANGLES = Modulation(*zeros(3, 2, 1, 4)), rotary_angles([4], 8)


def double(x):
    return 2 * x


def first(x):
    return x[:1]


REFUSED = [
    *[
        (lambda way=way, given=given: way(*given), words)
        for way in (attention, fused_attention)
        for given, words in (
            ((X, X[:, 1:], X), "value must have key's 4 positions"),
            ((X, X, X, None, ones(5, 5) > 0), "bias must be floating point"),
            ((X.to("meta"), X, X), "query must be on cpu, got meta"),
        )
    ],
    *[(lambda p=p: fused_attention(X, X, X, dropout=p), "dropout must ") for p in (1.0, float("nan"), True)],
    (lambda: attention(X, X, X, zeros(5, 5)), "mask must be boolean, of 2 or query's axes"),
    (lambda: attention(*zeros(3, 2, 3, 5, 4), ones(3, 5, 5) > 0), "mask must be boolean, of 2 or query's axes"),
    (lambda: attention_mask(4, 3, window=2), "keys must be a whole number, at least 4"),
    (lambda: attention_mask(0, 3, causal=True), "queries must be a whole number, at least 1"),
    (lambda: attention_mask(3, 3, window=0), "window must be a whole number, at least 1"),
    (lambda: library.Dropout(1.0), "p must be a number in"),
    (lambda: library.dropout(X, -0.1), "p must be a number in"),
    (lambda: library.DropPath(1.0), "drop_prob must be a number in"),
    (lambda: library.drop_path(X, -0.1), "drop_prob must be a number in"),
    (lambda: library.drop_path_schedule(0, 0.1), "depth must be a whole number, at least 1"),
    (lambda: library.drop_path_schedule(4, 1.0), "max_rate must be a number in"),
    (lambda: library.GlobalResponseNorm(4, eps=0.0), "eps must "),
    (lambda: library.global_response_norm(X, *ones(2, 4), eps=-1.0), "eps must be at least 0"),
    (lambda: library.GlobalResponseNorm(4)(X[0]), f"x {FLOAT} of shape"),
    (lambda: library.GlobalResponseNorm(4)(X[..., :1]), f"weight {FLOAT} of shape"),
    (lambda: library.GlobalResponseNorm(4)(WHOLE), f"x {FLOAT}"),
    (lambda: library.LayerNorm(4, 0.0), "eps must "),
    (lambda: layer_norm(X, eps=-1.0), "eps must be at least 0"),
    (lambda: library.LayerNorm(4, elementwise_affine=False, fused=False)(X[..., :3]), f"x {FLOAT} of shape"),
    (lambda: library.LayerNorm(4)(WHOLE), f"x {FLOAT}"),
    (lambda: layer_norm(X, ones(1)), f"weight {FLOAT} of shape"),
    (lambda: layer_norm(X[..., :1], bias=ones(4)), f"weight {FLOAT} of shape"),
    (lambda: library.LayerNormalization(1), "features must be a whole number, at least 2"),
    (lambda: library.LayerNormalization(4, -1.0), "eps must "),
    (lambda: library.LayerNormalization(4)(X[..., :1]), f"x {FLOAT} of shape"),
    (lambda: library.RMSNorm(4, 0.0), "eps must "),
    (lambda: rms_norm(X, eps=-1.0), "eps must be at least 0"),
    (lambda: library.RMSNorm(4, fused=False)(X[..., :1]), f"weight {FLOAT} of shape"),
    (lambda: rms_norm(X, ones(1)), f"weight {FLOAT} of shape"),
    (lambda: library.L2Norm(eps=0.0), "eps must "),
    (lambda: library.L2Norm()(WHOLE), f"x {FLOAT}"),
    (lambda: library.PerHeadRMSNorm(2, 4, eps=-1.0), "eps must "),
    (lambda: library.LayerScale(4, -1e-4), "init_value must be at least 0"),
    (lambda: library.LayerScale(4)(X[..., :1]), f"x {FLOAT} of shape"),
    (lambda: library.modulations(zeros(2, 10), 3), "projected must have a multiple of 6 parameters"),
    (lambda: MODULATION.apply_gate(X[..., :1]), f"branch {FLOAT} of shape"),
    (lambda: MODULATION.apply_gate(X[:1]), "branch * gate must have the shape of branch"),
    (lambda: library.MLP(4, "gleu"), "activation must be one of"),
    (lambda: library.MLP(4, expansion_factor=0.2), "int(dim * expansion_factor) must be a whole number, at least 1"),
    (lambda: library.Patchify(2, 3, 2, 2)(zeros(2, 4, 2)), f"x {FLOAT} of shape (batch, x, y, 2)"),
    (lambda: library.Unpatchify(2, 3, 2, 2)(zeros(2, 4, 2)), f"x {FLOAT} of shape (batch, x, y, 2)"),
    (lambda: rotary_angles([4], 7), "head_dim must be a multiple of 2"),
    (lambda: rotary_angles([4, 4, 4], 8), "head_dim must be a multiple of 6"),
    (lambda: rotary_angles([4], 8, start=-1), "start must be a whole number, at least 0"),
    (lambda: rotary_angles([4], 8, base=0.0), "base must "),
    (lambda: rotate(zeros(3, 8), ANGLES), "cos and sin must be of x's (3, 8), the last even"),
    (lambda: rotate(zeros(4, 1), ANGLES), "cos and sin must be of x's (4, 1), the last even"),
    (lambda: library.rotate_by(*zeros(3, 4, 7)), "cos and sin must be of x's (4, 7), the last even"),
    (lambda: rotate(zeros(4, 8).long(), ANGLES), f"x {FLOAT}"),
    (lambda: library.alibi_bias(4, 3, ones(2)), "keys must be a whole number, at least 4"),
    (lambda: library.alibi_bias(2, 3, ones(2, 1)), f"slopes {FLOAT} of shape (heads)"),
    (lambda: library.PositionEmbedding(8, 3, 5), "data_dim must divide 8"),
    (lambda: library.PositionEmbedding(1, 1, 5)(zeros(2, 4, 6)), f"x {FLOAT} of shape (batch, x, 1)"),
    (lambda: pre_norm_residual(X, first, torch.square), "a branch must have the shape of x"),
    (lambda: pre_norm_residual(X, double, torch.square, [first]), "a gate must have the shape of x"),
    (lambda: post_norm_residual(X, first, torch.square), "a branch must have the shape of x"),
    (lambda: post_norm_residual(X, double, first), "norm must have the shape of x"),
    (lambda: library.ResidualConnection(4, 1.0), "dropout must be a number in"),
    (lambda: library.ResidualConnection(4, 0.1, "peri"), "placement must be one of"),
    (lambda: library.ResidualConnection(4, 0.0)(X[..., :1], double), f"x {FLOAT} of shape"),
    (lambda: library.parameter_groups(torch.nn.Linear(2, 2), float("nan")), "weight_decay must be at least 0"),
    (lambda: library.parameter_groups(torch.nn.Linear(2, 2), -0.1), "weight_decay must be at least 0"),
]

test_what_is_refused = refused(*REFUSED)
