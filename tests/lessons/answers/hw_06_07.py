"""Right and wrong answers to the homework of lessons 06, 07a and 07b."""

import torch


def described(little=1e-8, new=torch.randn_like, samples=range, size=lambda moved: moved.abs().amax(1)):
    """Return an answer that exchanges conditions so, and looks so at what moves."""

    def answer(f, x, condition):
        before, found = f(x, condition), "ignored"
        for sample in samples(len(x)):
            other = condition.clone()
            other[sample] = new(other[sample])
            moved = size((f(x, other) - before).flatten(1)) > little * before.abs().max()
            if moved.sum() > moved[sample]:
                return "mixed"
            found = "used" if moved[sample] else found
        return found

    return answer


def all_at_once(f, x, condition):
    return "ignored" if torch.equal(f(x, condition), f(x, torch.randn_like(condition))) else "used"


def by_jacobian(f, x, condition):
    slopes = torch.autograd.functional.jacobian(lambda c: f(x, c), condition)
    sizes = slopes.reshape(len(x), x[0].numel(), len(x), -1).abs().amax((1, 3))
    moved = sizes > 1e-9 * f(x, condition).abs().max()
    return "mixed" if (moved & ~torch.eye(len(x), dtype=torch.bool)).any() else "used" if moved.any() else "ignored"


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
    "read_words": [counts_of_the_first_sample, weights_cut_after_the_softmax, cut_to_the_shortest, detached_scores],
    "describe_condition": [
        all_at_once,
        described(samples=lambda n: [0]),
        described(little=0),
        described(size=lambda moved: moved.mean(1).abs()),
    ],
}


RIGHT = {
    "read_words": [words_in_a_loop, by_torch],
    "describe_condition": [described(new=lambda c: c + torch.rand_like(c)), by_jacobian],
}
