"""Generating tokens: each is drawn from the model's output for all tokens before it, then appended to them."""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from numbers import Integral
from typing import Annotated, cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from residual_edu.checked import (
    Count,
    Flag,
    NotNegative,
    Positive,
    Size,
    Whole,
    checked,
)
from residual_edu.configurable import ModelConfig
from residual_edu.configurable.position import check_room
from residual_edu.networks.evaluation_mode import evaluation_mode
from residual_edu.networks.labels import check_labels
from residual_edu.networks.sampling import choose, penalize
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_instance,
    is_number,
    shown,
)


def check_probability(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` lies in (0, 1]."""
    if not (is_number(value) and 0 < value <= 1):
        raise InvalidInput(f"{name} must lie in (0, 1], got {shown(value)}")


@checked
def generate(
    model: nn.Module,
    prompt: Int[Tensor, "batch positions"],
    max_tokens: Size = 100,
    temperature: NotNegative = 1.0,
    top_k: Count = 0,
    top_p: Annotated[float, check_probability] = 1.0,
    repetition_penalty: Positive = 1.0,
    stop_tokens: Sequence[int] = (),
    seed: Whole | None = None,
    progress: Flag = False,
) -> Int[Tensor, "batch longer"]:
    """Return ``prompt`` and up to ``max_tokens`` more tokens, with a cache and in evaluation mode.

    Args:
        model: a ``LanguageModel``.
        prompt: the tokens to continue, at least 1 in each row.
        max_tokens: the most tokens to generate, at least 1.
        temperature: at least 0, which always takes the likeliest token; above 1, unlikely tokens are drawn more often.
        top_k: draw from that many likeliest tokens; 0 draws from all.
        top_p: draw from the fewest likeliest tokens that together have that probability, in (0, 1].
        repetition_penalty: above 0; above 1, tokens that are in the row already become less likely.
        stop_tokens: a row ends with the first of these tokens generated in it, which also pads it until all rows end.
        seed: seeds the draws; without it they come from torch's global generator.
        progress: True shows a progress bar (needs the package rich).

    Raises:
        InvalidInput: for a setting out of range, an empty prompt, or more positions than the model's ``max_seq_len``.
    """
    config = cast(ModelConfig, getattr(model, "config", None))
    check_instance("model.config", config, ModelConfig)
    check_prompt(prompt, config.vocab_size)
    check_stop_tokens(stop_tokens, config.vocab_size)
    check_room(prompt.shape[-1], max_tokens, config.block.max_seq_len)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    tokens, new, cache, ended = (
        prompt,
        prompt,
        None,
        torch.zeros_like(prompt[:, :1], dtype=torch.bool),
    )
    with evaluation_mode(model), torch.inference_mode():
        for _ in steps(max_tokens, progress):
            logits, cache = model(new, cache)
            scores = penalize(logits[:, -1], tokens, repetition_penalty)
            new = choose(scores, temperature, top_k, top_p, generator)[:, None]
            if stop_tokens:
                new = new.where(~ended, tokens[:, -1:])
                ended = torch.isin(new, torch.tensor(stop_tokens).to(new))
            tokens = torch.cat([tokens, new], dim=1)
            if stop_tokens and ended.all():
                break
    return (
        tokens.clone()
    )  # a tensor made in inference mode could not be used in training


def steps(count: int, progress: bool) -> Iterable[int]:
    """Return ``range(count)``, with a bar that shows how many are done where ``progress`` is True."""
    if not progress:
        return range(count)
    if find_spec("rich") is None:
        raise InvalidInput(
            "progress=True needs the package rich, which is not installed; install it or leave it out"
        )
    from rich.progress import track

    return track(range(count), description="generating")


def check_prompt(prompt: Tensor, vocab_size: int) -> None:
    """Raise ``InvalidInput`` unless ``prompt`` holds at least one token of the vocabulary in each row."""
    check_axes("prompt", prompt, "batch", "positions")
    if prompt.shape[-1] == 0:
        raise InvalidInput(
            f"prompt must hold at least 1 position, got shape {tuple(prompt.shape)}"
        )
    check_labels("prompt", prompt, vocab_size)


def check_stop_tokens(stop_tokens: Sequence[int], vocab_size: int) -> None:
    """Raise ``InvalidInput`` unless ``stop_tokens`` is a list of tokens of the vocabulary."""
    wanted = f"stop_tokens must be a list of whole numbers from 0 to {vocab_size - 1}"
    if not isinstance(stop_tokens, Sequence):
        raise InvalidInput(f"{wanted}, got {shown(stop_tokens)}")
    for token in stop_tokens:
        if (
            isinstance(token, bool)
            or not isinstance(token, Integral)
            or not 0 <= token < vocab_size
        ):
            raise InvalidInput(f"{wanted}, got {shown(token)}")
