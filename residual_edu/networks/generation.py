"""Generating tokens: each is drawn from the model's output for all tokens before it."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from residual_edu.errors import InvalidInput, check_positive, check_size
from residual_edu.networks.evaluation_mode import evaluation_mode
from residual_edu.networks.sampling import Tokens, choose, penalize


def generate(
    model: nn.Module,
    prompt: Tokens,
    max_tokens: int = 100,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    repetition_penalty: float = 1.0,
    stop_tokens: Sequence[int] = (),
    seed: int | None = None,
    prompt_mask: Bool[Tensor, "batch positions"] | None = None,
) -> Int[Tensor, "batch longer"]:
    """Return ``prompt`` and up to ``max_tokens`` more tokens, in evaluation mode.

    Args:
        model: a ``LanguageModel``, which is called with a cache.
        prompt: the tokens to continue, at least 1 in each row.
        max_tokens: the most tokens to generate, at least 1.
        temperature: 0 takes the likeliest token; above 1, unlikely ones are drawn more.
        top_k: draw from that many likeliest tokens; 0 draws from all.
        top_p: draw from the fewest likeliest tokens of that probability, in (0, 1].
        repetition_penalty: above 1, tokens that are in the row already become rarer.
        stop_tokens: a row ends with the first of these, which pads it until all end.
        seed: seeds the draws; without it they come from torch's global generator.
        prompt_mask: False where a shorter prompt is padded, on its left; without it all
            of ``prompt`` is read as text.
    """
    check_size("max_tokens", max_tokens)
    check_size("top_k", top_k, least=0)
    check_positive("repetition_penalty", repetition_penalty)
    for token in stop_tokens:
        check_size("stop_tokens", token, least=0)
    if not (temperature >= 0 and 0 < top_p <= 1):
        wanted = f"at least 0 and in (0, 1], got {temperature} and {top_p}"
        raise InvalidInput(f"temperature and top_p must be {wanted}")
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    stops = torch.tensor(stop_tokens).to(prompt)
    ended = torch.zeros_like(prompt[:, :1], dtype=torch.bool)
    tokens, cache, masks = prompt, None, []
    if prompt_mask is not None:
        tokens = prompt.where(prompt_mask.to(prompt.device), prompt[:, -1:])
        masks = [prompt_mask.cpu()]  # where its values can be checked
    new = tokens
    with evaluation_mode(model), torch.inference_mode():
        for _ in range(max_tokens):
            logits, cache = model(new, cache, *masks)
            masks = [pad(mask, (0, 1), value=True) for mask in masks]
            scores = penalize(logits[:, -1], tokens, repetition_penalty)
            new = choose(scores, temperature, top_k, top_p, generator)[:, None]
            new = new.where(~ended, tokens[:, -1:])
            tokens = torch.cat([tokens, new], dim=1)
            if stop_tokens and (ended := torch.isin(new, stops)).all():
                break
    # a new tensor: one made in inference mode could not be trained on
    return torch.cat([prompt, tokens[:, prompt.shape[1] :]], dim=1)
