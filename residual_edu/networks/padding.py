"""Rows of different length in one batch: padding on the left, which no token reads.

A row gives what it gives alone: its positions are counted from its first token.
"""

import torch
from torch import Tensor

from residual_edu.configurable import AttentionBase, NoAttention, PositionBase
from residual_edu.errors import InvalidInput


def embed_rows(position: PositionBase, x: Tensor, token_mask: Tensor) -> Tensor:
    """Return ``position.embed(x, ...)``, the first token of each row at position 0."""
    row = torch.arange(len(x), device=x.device)[:, None]
    place = token_mask.cumsum(1)[:, -x.shape[1] :] - 1  # of padding -1, the last one
    line = x.new_zeros(*token_mask.shape, x.shape[2])
    line[row, place] = x
    return position.embed(line, 0)[row, place]


def mask_padding(token_mask: Tensor, new: int) -> Tensor:
    """Return where the last ``new`` positions may attend: to tokens up to their own."""
    key = torch.arange(token_mask.shape[1], device=token_mask.device)
    query = key[-new:, None]
    return (key <= query) & token_mask[:, None] | (key == query)  # padding: to itself


def check_padding(mask: Tensor, shape: tuple[int, int], attention: object) -> None:
    """Raise ``InvalidInput`` for padding that is not on the left, or would be read."""
    fits = mask.dtype == torch.bool and mask.shape == shape
    if fits and mask.is_cpu and not torch.compiler.is_compiling():
        fits = bool(mask[:, -1].all() and (mask[:, :-1] <= mask[:, 1:]).all())
    if not fits:
        wanted = f"boolean of shape {shape}, False and then True in each row"
        raise InvalidInput(f"token_mask must be {wanted}, got {mask}")
    if not isinstance(attention, AttentionBase | NoAttention):
        kind = type(attention)
        raise InvalidInput(f"token_mask must be None: {kind} may not read it")
