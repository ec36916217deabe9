"""Writing on: one token after another, each drawn from what the model makes of all before it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from residual_edu.configurable import ModelConfig
from residual_edu.errors import (
    check_axes,
    check_fraction,
    check_labels,
    check_not_negative,
    check_package,
    check_positive,
    check_room,
    check_size,
    check_tokens_known,
    check_whole,
)
from residual_edu.networks.sampling import choose, penalize


def generate(
    model: nn.Module,
    prompt: Int[Tensor, "batch positions"],
    max_tokens: int = 100,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    repetition_penalty: float = 1.0,
    stop_tokens: Sequence[int] = (),
    seed: int | None = None,
    progress: bool = False,
) -> Int[Tensor, "batch longer"]:
    """Return ``prompt`` and up to ``max_tokens`` more, with a cache and in evaluation.

    Args:
        model: a ``LanguageModel``.
        prompt: what has been written so far, all rows of one length.
        max_tokens: how many to write at most, at least 1.
        temperature: 0 always takes the likeliest token; the higher, the bolder.
        top_k: draw from that many likeliest tokens; 0 draws from all.
        top_p: draw from the fewest likeliest tokens that together have that probability, in (0, 1].
        repetition_penalty: above 1, tokens that stand there already get less likely.
        stop_tokens: a row ends with the first of these that it writes, and is filled with it while others go on.
        seed: where the draws begin; torch's global generator if none is given.
        progress: whether to show how far it is, by the package rich.

    Raises:
        InvalidInput: for a setting out of range, or more positions than the model's ``max_seq_len``.
    """
    config = cast(ModelConfig, model.config)
    check_axes("prompt", prompt, "batch", "positions")
    check_labels("prompt", prompt, config.vocab_size)
    check_settings(temperature, top_k, top_p, repetition_penalty)
    check_tokens_known("stop_tokens", stop_tokens, config.vocab_size)
    check_size("max_tokens", max_tokens)
    check_room(prompt.shape[-1], max_tokens, config.block.max_seq_len)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    written, new, cache, ended = prompt, prompt, None, torch.zeros_like(prompt[:, :1], dtype=torch.bool)
    with evaluating(model), torch.inference_mode():
        for _ in steps(max_tokens, progress):
            logits, cache = model(new, cache)
            scores = penalize(logits[:, -1], written, repetition_penalty)
            new = choose(scores, temperature, top_k, top_p, generator)[:, None]
            if stop_tokens:
                new = new.where(~ended, written[:, -1:])
                ended = torch.isin(new, torch.tensor(stop_tokens).to(new))
            written = torch.cat([written, new], dim=1)
            if stop_tokens and ended.all():
                break
    return written.clone()  # made in inference mode, it could not be trained on


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Have ``model`` in evaluation for a while."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def steps(count: int, progress: bool) -> Iterable[int]:
    """Return ``count`` steps, with a bar that shows how far they are if there is to be ``progress``."""
    if not progress:
        return range(count)
    check_package("rich", "progress=True")
    from rich.progress import track

    return track(range(count), description="writing")


def check_settings(temperature: float, top_k: int, top_p: float, repetition_penalty: float) -> None:
    """Raise ``InvalidInput`` for a setting out of range."""
    check_not_negative("temperature", temperature)
    check_whole("top_k", top_k)
    check_fraction("top_p", top_p)
    check_positive("repetition_penalty", repetition_penalty)
