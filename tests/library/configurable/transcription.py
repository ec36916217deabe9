"""A block written down once more in float64, one head and one query at a time, from the state dict alone."""

from math import cos, exp, sin

import torch

SLOPES = [2.0**-h for h in (2, 4, 6, 8)]  # of 4 heads


def linear(p, name, x):
    y = x @ p[f"{name}.weight"].T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def normed(p, name, x, kind, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True) if kind == "layer_norm" else x
    y = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * p[f"{name}.weight"]
    return y + p[f"{name}.bias"] if kind == "layer_norm" else y


def turned(x, base=10000.0):
    """(positions, features): the pair (i, i + half) of position t turns by t * base^(-i / half)."""
    half, rows = x.shape[-1] // 2, []
    for t, row in enumerate(x):
        angles = [t * base ** (-i / half) for i in range(half)]
        first = [row[i] * cos(a) - row[i + half] * sin(a) for i, a in enumerate(angles)]
        second = [row[i] * sin(a) + row[i + half] * cos(a) for i, a in enumerate(angles)]
        rows.append(torch.stack(first + second))
    return torch.stack(rows)


def head(query, key, value, allowed, slope):
    """One head's answers: each query weighs the values that it may look at."""
    answers = []
    for i in range(len(query)):
        seen = [j for j in range(len(key)) if allowed(i, j)]
        scores = [query[i] @ key[j] / query.shape[-1] ** 0.5 - slope * abs(i - j) for j in seen]
        weights = torch.stack(scores).exp() / torch.stack(scores).exp().sum()
        answers.append(sum(w * value[j] for w, j in zip(weights, seen, strict=True)))
    return torch.stack(answers)


def attention(p, c, x, allowed):
    """What the attention of config ``c`` makes of one sample's ``x``."""
    place = turned if c.position == "rope" else lambda z: z
    slopes = SLOPES if c.position == "alibi" else [0.0] * c.n_heads
    d = c.head_dim
    if c.attention == "mla":
        place = turned  # whatever the position is
        r, down = c.rope_dim, linear(p, "attention.kv_down", x)
        latent = normed(p, "attention.kv_norm", down[:, : c.kv_lora_rank], "rms_norm")
        shared = place(down[:, c.kv_lora_rank :]) if r else down[:, :0]
        up = linear(p, "attention.kv_up", latent).view(len(x), c.n_heads, -1)
        keys = [torch.cat([shared, up[:, h, : d - r]], -1) for h in range(c.n_heads)]
        values = [up[:, h, d - r :] for h in range(c.n_heads)]
        if c.q_lora_rank is None:
            q = linear(p, "attention.q_proj", x)
        else:
            q = linear(p, "attention.q_down", x)
            q = linear(p, "attention.q_up", normed(p, "attention.q_norm", q, "rms_norm"))
        q = q.view(len(x), c.n_heads, d)
        queries = [torch.cat([place(q[:, h, :r]) if r else q[:, h, :0], q[:, h, r:]], -1) for h in range(c.n_heads)]
    else:
        kv_heads = c.n_heads if c.attention == "mha" else c.effective_n_kv_heads
        q, k, v = (linear(p, f"attention.{one}_proj", x).view(len(x), -1, d) for one in "qkv")
        if c.qk_norm:
            q, k = normed(p, "attention.q_norm", q, "rms_norm"), normed(p, "attention.k_norm", k, "rms_norm")
        source = [h // (c.n_heads // kv_heads) for h in range(c.n_heads)]
        queries = [place(q[:, h]) for h in range(c.n_heads)]
        keys, values = [place(k[:, s]) for s in source], [v[:, s] for s in source]
    if c.attention.startswith("sliding"):
        given = allowed
        allowed = lambda i, j: given(i, j) and 0 <= i - j < c.window_size  # noqa: E731
    heads = [head(*one, allowed, slope) for *one, slope in zip(queries, keys, values, slopes, strict=True)]
    return linear(p, "attention.o_proj", torch.cat(heads, -1))


def gelu(x):
    return x * (1 + torch.erf(x / 2**0.5)) / 2


def ffn(p, c, x):
    inner = linear(p, "ffn.up", x)
    if c.ffn in ("standard", "relu2"):
        inner = gelu(inner) if c.ffn == "standard" else inner.clamp(min=0) ** 2
    else:
        gate = linear(p, "ffn.gate", x)
        inner = inner * (gate / (1 + torch.exp(-gate)) if c.ffn == "gated" else gate.clamp(min=0) ** 2)
    return linear(p, "ffn.down", inner)


def block(p, c, x, allowed=lambda i, j: True):
    """What a block of config ``c`` and parameters ``p`` makes of one sample's ``x``, (positions, channels)."""
    branches = {
        "attn_norm": None if c.attention == "none" else lambda h: attention(p, c, h, allowed),
        "ffn_norm": None if c.ffn == "none" else lambda h: ffn(p, c, h),
    }
    for norm, branch in branches.items():
        if branch is not None and c.pre_norm:
            x = x + branch(normed(p, norm, x, c.norm))
        elif branch is not None:
            x = normed(p, norm, x + branch(x), c.norm)
    return x


def waves(positions, d):
    """Sines on even features and cosines on odd ones, each position's together of length 1."""
    rows = [[w for i in range(d // 2) for w in wave(t, i, d)] for t in range(positions)]
    return torch.tensor(rows, dtype=torch.float64) * (2 / d) ** 0.5


def wave(t, i, d):
    angle = t * exp(-2 * i / d * 9.210340371976184)  # log(10000)
    return sin(angle), cos(angle)
