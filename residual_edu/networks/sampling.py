r"""Drawing the next token from the logits of all tokens.

.. math:: p_i \propto \exp(\mathrm{logit}_i / \tau)

A temperature :math:`\tau` below 1 sharpens the distribution (0: the likeliest token alone), one above 1 flattens it.
Top-k and top-p cut the tail off: Fan et al., 2018, https://arxiv.org/abs/1805.04833; Holtzman et al., 2019,
https://arxiv.org/abs/1904.09751. The repetition penalty: Keskar et al., 2019, https://arxiv.org/abs/1909.05858
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def penalize(
    logits: Float[Tensor, "batch vocabulary"], seen: Int[Tensor, "batch positions"], penalty: float
) -> Float[Tensor, "batch vocabulary"]:
    """Divide the positive logits of the tokens in ``seen`` by ``penalty``, and multiply the negative ones by it."""
    if penalty == 1:
        return logits
    scores = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(scores > 0, scores / penalty, scores * penalty))


def keep_top_k(logits: Float[Tensor, "batch vocabulary"], k: int) -> Float[Tensor, "batch vocabulary"]:
    """Set all but the ``k`` largest logits to minus infinity; those equal to the k-th are kept too."""
    last = logits.topk(min(k, logits.shape[-1])).values[:, -1:]
    return logits.masked_fill(logits < last, -torch.inf)


def keep_top_p(logits: Float[Tensor, "batch vocabulary"], p: float) -> Float[Tensor, "batch vocabulary"]:
    """Keep the fewest largest logits whose probabilities sum to at least ``p``; set the others to minus infinity."""
    ordered, indices = logits.sort(descending=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # of all tokens that are likelier
    return torch.empty_like(logits).scatter(1, indices, ordered.masked_fill(before >= p, -torch.inf))


def choose(
    logits: Float[Tensor, "batch vocabulary"],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "batch"]:
    """Return a token for each row of ``logits``, drawn on the CPU; at ``temperature`` 0 the likeliest."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = logits / temperature
    if top_k > 0:
        logits = keep_top_k(logits, top_k)
    if top_p < 1:
        logits = keep_top_p(logits, top_p)
    # on the CPU, so that a seed gives the same tokens on every device
    return logits.softmax(dim=-1).cpu().multinomial(1, generator=generator)[:, 0].to(logits.device)
