r"""Drawing the next token from the logits of all tokens.

.. math:: p_i \propto \exp(\mathrm{logit}_i / \tau)

A temperature :math:`\tau` below 1 sharpens the distribution (0: the likeliest token
alone), one above 1 flattens it. Top-k and top-p cut off the tail: Fan et al., 2018,
https://arxiv.org/abs/1805.04833; Holtzman et al., 2019, https://arxiv.org/abs/1904.09751
The repetition penalty: Keskar et al., 2019, https://arxiv.org/abs/1909.05858
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from residual_edu.parts.norm import widened

Tokens = Int[Tensor, "batch positions"]
Logits = Float[Tensor, "batch vocabulary"]


def penalize(logits: Logits, seen: Tokens, penalty: float) -> Logits:
    """Divide the positive logits of ``seen`` by ``penalty``, multiply the others."""
    if penalty == 1:
        return logits
    logits = widened(logits)
    scores = logits.gather(1, seen)
    penalized = torch.where(scores > 0, scores / penalty, scores * penalty)
    return logits.scatter(1, seen, penalized)


def keep_top_k(logits: Logits, k: int) -> Logits:
    """Set all but the ``k`` largest to minus infinity; those equal to the k-th stay."""
    last = logits.topk(min(k, logits.shape[-1])).values[:, -1:]
    return logits.masked_fill(logits < last, -torch.inf)


def keep_top_p(logits: Logits, p: float) -> Logits:
    """Keep the fewest largest logits whose probabilities sum to at least ``p``."""
    ordered, indices = logits.sort(descending=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # of all likelier tokens
    kept = ordered.masked_fill(before >= p, -torch.inf)
    return torch.empty_like(logits).scatter(1, indices, kept)


def choose(
    logits: Logits,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "batch"]:
    """Return a token for each row of ``logits``; at ``temperature`` 0 the likeliest."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = widened(logits) / max(temperature, 1e-37)  # 0 in float32 would give NaN
    logits = keep_top_k(logits, top_k) if top_k > 0 else logits
    logits = keep_top_p(logits, top_p) if top_p < 1 else logits
    # on the CPU, so that a seed gives the same tokens on every device
    drawn = logits.softmax(dim=-1).cpu().multinomial(1, generator=generator)
    return drawn[:, 0].to(logits.device)
