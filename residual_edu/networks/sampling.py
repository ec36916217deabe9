r"""Drawing a token from the scores of all.

.. math:: p_i \propto \exp(\mathrm{logit}_i / \tau)

The temperature :math:`\tau` sharpens (0: the likeliest alone) or flattens. Top-k and top-p cut the tail off:
Fan et al., 2018, https://arxiv.org/abs/1805.04833; Holtzman et al., 2019, https://arxiv.org/abs/1904.09751.
The repetition penalty is that of Keskar et al., 2019, https://arxiv.org/abs/1909.05858
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def penalize(
    logits: Float[Tensor, "batch vocabulary"], seen: Int[Tensor, "batch positions"], penalty: float
) -> Float[Tensor, "batch vocabulary"]:
    """Divide the positive scores of tokens that were ``seen`` by ``penalty``, and multiply the negative ones by it."""
    if penalty == 1:
        return logits
    scores = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(scores > 0, scores / penalty, scores * penalty))


def keep_top_k(logits: Float[Tensor, "batch vocabulary"], k: int) -> Float[Tensor, "batch vocabulary"]:
    """Set all but the ``k`` largest scores to minus infinity; ties with the last of them stay."""
    last = logits.topk(min(k, logits.shape[-1])).values[:, -1:]
    return logits.masked_fill(logits < last, -torch.inf)


def keep_top_p(logits: Float[Tensor, "batch vocabulary"], p: float) -> Float[Tensor, "batch vocabulary"]:
    """Keep the fewest largest scores whose probabilities reach ``p``; set the others to minus infinity."""
    ordered, places = logits.sort(descending=True)
    before = ordered.softmax(dim=-1).cumsum(dim=-1) - ordered.softmax(dim=-1)
    return torch.empty_like(logits).scatter(1, places, ordered.masked_fill(before >= p, -torch.inf))


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
    return logits.softmax(dim=-1).cpu().multinomial(1, generator=generator)[:, 0].to(logits.device)
