"""Copies of the residual block whose last line may have been mistyped; nothing fails, and all shapes fit."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from residual_edu.blocks import ResidualBlock
from residual_edu.config import Spec
from residual_edu.errors import check_choice
from residual_edu.parts import is_bypassed, pre_norm_residual


def _norm_overwrites(x: Tensor, block: ResidualBlock) -> Tensor:
    x = block.mlp_norm(x)
    return x + block.dropout(block.mlp(x))


LAST_LINE: dict[str, Callable[[Tensor, ResidualBlock], Tensor]] = {
    "none": lambda x, block: x + block.dropout(block.mlp(block.mlp_norm(x))),
    "no skip": lambda x, block: block.dropout(block.mlp(block.mlp_norm(x))),
    "norm on the stream": _norm_overwrites,
    "mixer for MLP": lambda x, block: x + block.dropout(block.sequence_mixer(block.mlp_norm(x))),
    "dropout on the stream": lambda x, block: block.dropout(x + block.mlp(block.mlp_norm(x))),
}
"""The MLP's line as it should be, and four that somebody typed instead."""

PATIENTS = dict(zip("ABCD", ["dropout on the stream", "mixer for MLP", "no skip", "norm on the stream"], strict=True))
"""Which fault the lesson's four patients have."""


class FaultyBlock(nn.Module):
    """A residual block whose MLP branch is attached by one of ``LAST_LINE``; without an MLP it is healthy.

    Args:
        fault: a name from ``LAST_LINE``, or a letter from ``PATIENTS``.
        parts: what ``ResidualBlock`` takes.

    Raises:
        InvalidInput: for another fault.
    """

    def __init__(self, fault: str, **parts: Spec) -> None:
        super().__init__()
        check_choice("fault", fault, [*LAST_LINE, *PATIENTS])
        self.fault = PATIENTS.get(fault, fault)
        self.block = ResidualBlock(**parts)

    def forward(self, x: Tensor, condition: Tensor | None) -> Tensor:
        """Run the block's first two lines, and its last as the fault has it."""
        block, gates = self.block, [self.block.dropout]
        x = pre_norm_residual(x, block.sequence_mixer, block.input_norm, gates)
        if not is_bypassed(block.condition_mixer):
            x = pre_norm_residual(x, partial(self.listen, condition), block.condition_mixer_norm, gates)
        return x if is_bypassed(block.mlp) else LAST_LINE[self.fault](x, block)

    def listen(self, condition: Tensor | None, x: Tensor) -> Tensor:
        """Call the condition mixer."""
        return self.block.condition_mixer(x, condition)
