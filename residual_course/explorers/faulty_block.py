"""Residual blocks with a fault in the last line of their forward; nothing raises, and all shapes fit."""

from collections.abc import Callable

from torch import Tensor, nn

from residual_edu.blocks import ResidualBlock
from residual_edu.config import Spec
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
"""The right line of the MLP, and four wrong ones."""

PATIENTS = dict(zip("ABCD", ["dropout on the stream", "mixer for MLP", "no skip", "norm on the stream"], strict=True))
"""The fault of each of the lesson's four patients."""


class FaultyBlock(nn.Module):
    """A residual block whose MLP branch is added by one of ``LAST_LINE``; without an MLP it has no fault.

    Args:
        fault: a name from ``LAST_LINE``, or a letter from ``PATIENTS``.
        parts: what ``ResidualBlock`` takes.
    """

    def __init__(self, fault: str, **parts: Spec) -> None:
        super().__init__()
        self.fault = PATIENTS.get(fault, fault)
        self.block = ResidualBlock(**parts)

    def forward(self, x: Tensor, condition: Tensor | None) -> Tensor:
        """Run the block's first two lines, then the last one with its fault."""
        block, gates = self.block, [self.block.dropout]
        x = pre_norm_residual(x, block.sequence_mixer, block.input_norm, gates)
        x = pre_norm_residual(x, block.condition_mixer, block.condition_mixer_norm, gates, condition)
        return x if is_bypassed(block.mlp) else LAST_LINE[self.fault](x, block)
