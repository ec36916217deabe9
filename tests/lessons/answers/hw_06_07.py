"""Right and wrong answers to the homework of lessons 06, 07a and 07b."""

import torch

from residual_edu import modulations, pre_norm_residual


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


def moves(f, x, condition, sample=0, new=None):
    """How far another condition of one sample moves all positions, and the output's largest number."""
    other = condition.clone()
    other[sample] = torch.randn_like(other[sample]) if new is None else new
    with torch.no_grad():
        before = f(x, condition)
        return f(x, other) - before, before.abs().max()


def word(moved, largest, sample=0, little=1e-8, even=1e-4):
    others = torch.cat([moved[:sample], moved[sample + 1 :]])
    size, spread = moved[sample].abs().max(), (moved[sample] - moved[sample, :1]).abs().max()
    if others.abs().max() > little * largest:
        return "mixed"
    if size <= little * largest:
        return "ignored"
    return "own" if spread > max(even * size, little * largest) else "same"


def all_conditions_at_once(f, x, condition):
    moved, largest = f(x, torch.randn_like(condition)) - f(x, condition), f(x, condition).abs().max()
    if moved.abs().max() <= 1e-8 * largest:
        return "ignored"
    return "own" if (moved - moved[:, :1]).abs().max() > 1e-8 * largest else "same"


def exactly(f, x, condition):
    return word(*moves(f, x, condition), little=0, even=0)


def roughly(f, x, condition):
    return word(*moves(f, x, condition), little=1e-2)


def first_sample_alone(f, x, condition):
    return word(*moves(f, x, condition))


def last_sample_alone(f, x, condition):
    return word(*moves(f, x, condition, len(x) - 1), len(x) - 1)


def first_channel_alone(f, x, condition):
    found = set()
    for at in range(len(x)):
        moved, largest = moves(f, x, condition, at)
        found.add(word(moved[..., :1], largest, at))
    return next((kind for kind in ("mixed", "own", "same") if kind in found), "ignored")


def mixed_by_the_first_sample_alone(f, x, condition):
    found = {word(*moves(f, x, condition, at), at) for at in range(len(x))}
    if word(*moves(f, x, condition)) == "mixed":
        return "mixed"
    return next((kind for kind in ("own", "same") if kind in found), "ignored")


def by_the_first_position(f, x, condition):
    moved, largest = moves(f, x, condition)
    return word(moved[:, :2], largest)


def never_mixed(f, x, condition):
    found = {word(*moves(f, x, condition, at), at) for at in range(len(x))} - {"mixed"}
    return "own" if "own" in found else "same" if "same" in found else "ignored"


def by_gradients_of_the_sum(f, x, condition):
    leaf = condition.clone().requires_grad_()
    (slope,) = torch.autograd.grad(f(x, leaf).sum(), leaf, allow_unused=True, materialize_grads=True)
    return "ignored" if slope.abs().max() < 1e-8 else "same"


def condition_in_place(f, x, condition):
    before = f(x, condition)
    condition[0] = torch.randn_like(condition[0])
    return word(f(x, condition) - before, before.abs().max())


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


def mixture(layer, x, words, mask=None, fill=-torch.inf, root=True):
    query, (key, value) = layer.q_proj(x), layer.kv_proj(words).chunk(2, dim=-1)
    scores = query @ key.mT / (query.shape[-1] ** 0.5 if root else 1)
    weights = (scores if mask is None else scores.masked_fill(mask, fill)).softmax(-1)
    return layer.out_proj(weights @ value)


def padding(words, counts):
    return (torch.arange(words.shape[1]) >= counts[:, None])[:, None]


def padding_read(layer, x, words, counts):
    return mixture(layer, x, words)


def padding_of_zeros(layer, x, words, counts):
    return mixture(layer, x, words * ~padding(words, counts).mT)


def scores_of_zero(layer, x, words, counts):
    return mixture(layer, x, words, padding(words, counts), 0.0)


def the_other_way_round(layer, x, words, counts):
    return mixture(layer, x, words, ~padding(words, counts) & (counts < words.shape[1])[:, None, None])


def one_word_too_many(layer, x, words, counts):
    return mixture(layer, x, words, padding(words, counts + 1))


def counts_of_the_first_sample(layer, x, words, counts):
    return mixture(layer, x, words, padding(words, counts[:1].expand_as(counts)))


def weights_cut_after_the_softmax(layer, x, words, counts):
    query, (key, value) = layer.q_proj(x), layer.kv_proj(words).chunk(2, dim=-1)
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1).masked_fill(padding(words, counts), 0)
    return layer.out_proj(weights @ value)


def without_the_root(layer, x, words, counts):
    return mixture(layer, x, words, padding(words, counts), root=False)


def without_out_proj(layer, x, words, counts):
    query, (key, value) = layer.q_proj(x), layer.kv_proj(words).chunk(2, dim=-1)
    scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(padding(words, counts), -torch.inf)
    return scores.softmax(-1) @ value


def cut_to_the_shortest(layer, x, words, counts):
    return mixture(layer, x, words[:, : counts.min()])


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


def weights_made_to_sum_to_one(layer, x, words, counts):
    query, (key, value) = layer.q_proj(x), layer.kv_proj(words).chunk(2, dim=-1)
    scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(padding(words, counts), -1e9)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return layer.out_proj(weights / weights.sum(-1, keepdim=True) @ value)


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
    "read_words": [
        padding_read,
        padding_of_zeros,
        scores_of_zero,
        the_other_way_round,
        one_word_too_many,
        counts_of_the_first_sample,
        weights_cut_after_the_softmax,
        without_the_root,
        without_out_proj,
        cut_to_the_shortest,
        detached_scores,
    ],
    "describe_condition": [
        all_conditions_at_once,
        exactly,
        roughly,
        first_sample_alone,
        last_sample_alone,
        first_channel_alone,
        mixed_by_the_first_sample_alone,
        by_a_step_of_one,
        by_the_first_position,
        never_mixed,
        by_gradients_of_the_sum,
        condition_in_place,
        lambda f, x, condition: "same",
    ],
}


RIGHT = {
    "modulated": [by_einsum, with_unsqueeze, sample_by_sample],
    "read_words": [words_in_a_loop, by_torch, weights_made_to_sum_to_one],
    "describe_condition": [every_sample, by_jacobian],
}
