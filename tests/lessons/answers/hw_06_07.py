"""Right and wrong answers to the homework of lessons 06, 07a and 07b."""

import torch

from residual_edu import modulations, pre_norm_residual


def piece(x, condition, projection):
    (found,) = modulations(projection(condition), x.ndim, branches=1)
    return found


def sequences_alone(x, condition, layer, norm, projection):
    (found,) = modulations(projection(condition), 3, branches=1)
    return pre_norm_residual(x, layer, found.modulate(norm), [found.apply_gate])


def scale_and_shift_exchanged(x, condition, layer, norm, projection):
    shift, scale, gate = piece(x, condition, projection)
    return x + gate * layer(norm(x) * (1 + shift) + scale)


def detached_branch(x, condition, layer, norm, projection):
    found = piece(x, condition, projection)
    return x + found.apply_gate(layer(found.modulate(norm)(x)).detach())


def stays_where_the_gate_is_zero(x, condition, layer, norm, projection):
    found = piece(x, condition, projection)
    return pre_norm_residual(x, layer, found.modulate(norm), [found.apply_gate]) if found.gate.any() else x


def moves(f, x, condition, sample=0, new=None):
    """How far another condition of one sample moves all positions, and the output's largest number."""
    other = condition.clone()
    other[sample] = torch.randn_like(other[sample]) if new is None else new
    with torch.no_grad():
        before = f(x, condition)
        return f(x, other) - before, before.abs().max()


def word(moved, largest, sample=0, little=1e-8):
    others = torch.cat([moved[:sample], moved[sample + 1 :]])
    size, spread = moved[sample].abs().max(), (moved[sample] - moved[sample, :1]).abs().max()
    if others.abs().max() > little * largest:
        return "mixed"
    if size <= little * largest:
        return "ignored"
    return "own" if spread > max(1e-4 * size, little * largest) else "same"


def roughly(f, x, condition):
    return word(*moves(f, x, condition), little=1e-2)


def last_sample_alone(f, x, condition):
    return word(*moves(f, x, condition, len(x) - 1), len(x) - 1)


def first_channel_alone(f, x, condition):
    found = set()
    for at in range(len(x)):
        moved, largest = moves(f, x, condition, at)
        found.add(word(moved[..., :1], largest, at))
    return next((kind for kind in ("mixed", "own", "same") if kind in found), "ignored")


def every_sample(f, x, condition):
    found = [word(*moves(f, x, condition, at), at) for at in range(len(x))]
    return next((kind for kind in ("mixed", "own", "same") if kind in found), "ignored")


def by_a_step_of_one(f, x, condition):
    found = [word(*moves(f, x, condition, at, condition[at] + 1), at) for at in range(len(x))]
    return next((kind for kind in ("mixed", "own", "same") if kind in found), "ignored")


def by_jacobian(f, x, condition):
    slopes = torch.autograd.functional.jacobian(lambda c: f(x, c), condition).flatten(4)  # out: batch, place, channel
    found, largest = set(), f(x, condition).abs().max()
    for at in range(len(x)):
        for sample in range(len(x)):
            size = slopes[sample, :, :, at].abs().max()
            if size > 1e-9 * largest:
                even = (slopes[sample, :, :, at] - slopes[sample, :1, :, at]).abs().max() <= 1e-4 * size
                found.add("mixed" if sample != at else "same" if even else "own")
    return next((kind for kind in ("mixed", "own", "same") if kind in found), "ignored")


def by_einsum(x, condition, layer, norm, projection):
    shift, scale, gate = projection(condition).unflatten(-1, (3, x.shape[-1])).unbind(1)
    normed, places = norm(x), (slice(None), *[None] * (x.ndim - 2))
    inside = normed + torch.einsum("b...c,bc->b...c", normed, scale) + shift[places]
    return x + torch.einsum("b...c,bc->b...c", layer(inside), gate)


def padding(words, counts):
    return (torch.arange(words.shape[1]) >= counts[:, None])[:, None]


def counts_of_the_first_sample(layer, x, words, counts):
    return words_in_a_loop(layer, x, words, counts[:1].expand_as(counts))


def weights_cut_after_the_softmax(layer, x, words, counts):
    query, (key, value) = layer.q_proj(x), layer.kv_proj(words).chunk(2, dim=-1)
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1).masked_fill(padding(words, counts), 0)
    return layer.out_proj(weights @ value)


def cut_to_the_shortest(layer, x, words, counts):
    return layer(x, words[:, : counts.min()])


def detached_scores(layer, x, words, counts):
    query, (key, value) = layer.q_proj(x), layer.kv_proj(words).chunk(2, dim=-1)
    scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(padding(words, counts), -torch.inf)
    return layer.out_proj(scores.softmax(-1).detach() @ value)


def words_in_a_loop(layer, x, words, counts):
    return torch.cat([layer(x[i : i + 1], words[i : i + 1, : int(n)]) for i, n in enumerate(counts)])


def by_torch(layer, x, words, counts):
    mask = torch.arange(words.shape[1]) < counts[:, None]
    attend = torch.nn.functional.scaled_dot_product_attention
    return layer.out_proj(attend(layer.q_proj(x), *layer.kv_proj(words).chunk(2, -1), attn_mask=mask[:, None]))


WRONG = {
    "modulated": [sequences_alone, scale_and_shift_exchanged, detached_branch, stays_where_the_gate_is_zero],
    "read_words": [counts_of_the_first_sample, weights_cut_after_the_softmax, cut_to_the_shortest, detached_scores],
    "describe_condition": [roughly, last_sample_alone, first_channel_alone, by_a_step_of_one],
}


RIGHT = {
    "modulated": [by_einsum],
    "read_words": [words_in_a_loop, by_torch],
    "describe_condition": [every_sample, by_jacobian],
}
