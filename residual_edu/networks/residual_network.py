r"""Networks of residual blocks: a projection in, blocks, a norm, a projection out.

.. math::
    x_0 = W_{\mathrm{in}}\, \mathrm{input}, \qquad
    x_{l+1} = \mathrm{block}_l(x_l, c), \qquad
    \mathrm{logits} = W_{\mathrm{out}}\, \mathrm{norm}(x_L)

Checkpointing: Chen, Xu, Zhang & Guestrin, 2016, https://arxiv.org/abs/1604.06174
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from residual_edu.blocks.vit5_block import ViT5ResidualBlock
from residual_edu.config import Spec, build
from residual_edu.errors import InvalidInput, check_shape, check_size
from residual_edu.mixers.projections import Signal
from residual_edu.networks.stack import build_blocks, build_with
from residual_edu.parts.weight_decay import no_weight_decay


class ResidualNetwork(nn.Module):
    """A stack of blocks between two projections: logits for each position.

    Args:
        in_channels, out_channels: numbers of channels of the input and of the logits.
        num_blocks: number of blocks, at least 1.
        hidden_dim: number of channels of the stream.
        data_dim: number of space axes.
        in_proj_cfg, out_proj_cfg: ``nn.Linear``, or ``Patchify`` and ``Unpatchify``; it
            gets ``in_features`` and ``out_features`` from the network.
        norm_cfg: the norm before ``out_proj``, exempt from weight decay.
        block_cfg: what builds each block, whose forward takes (x, condition).
        dropout_in_cfg: the dropout of the input.
        condition_in_proj_cfg: a projection of the condition, which has ``hidden_dim``.
        target_size: how many last positions to return, a number or one for each axis.
        gradient_checkpointing: run each block again in the backward pass, to store only
            the stream between blocks: less memory, more time, the same numbers.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_blocks: int,
        hidden_dim: int,
        data_dim: int,
        in_proj_cfg: Spec,
        out_proj_cfg: Spec,
        norm_cfg: Spec,
        block_cfg: Spec,
        dropout_in_cfg: Spec,
        condition_in_proj_cfg: Spec | None = None,
        target_size: int | Sequence[int] | None = None,
        gradient_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        check_size("num_blocks", num_blocks)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.num_blocks, self.hidden_dim = num_blocks, hidden_dim
        self.data_dim, self.target_size = data_dim, lengths(target_size, data_dim)
        self.gradient_checkpointing = gradient_checkpointing
        self.dropout_in = build(dropout_in_cfg)
        self.in_proj = build_with(
            in_proj_cfg, in_features=in_channels, out_features=hidden_dim
        )
        self.condition_in_proj: nn.Module | None = None
        if condition_in_proj_cfg is not None:
            self.condition_in_proj = build_with(
                condition_in_proj_cfg, in_features=hidden_dim, out_features=hidden_dim
            )
        self.blocks = build_blocks(block_cfg, [{}] * num_blocks)
        self.out_norm = no_weight_decay(build(norm_cfg))
        self.out_proj = build_with(
            out_proj_cfg, in_features=hidden_dim, out_features=out_channels
        )
        mixers = {type(getattr(each, "condition_mixer", each)) for each in self.blocks}
        if self.condition_in_proj and mixers <= {nn.Identity, ViT5ResidualBlock}:
            raise InvalidInput("condition_in_proj_cfg must be None: no block reads it")

    def forward(self, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return ``{"logits": ...}`` for ``{"input": ..., "condition": ...}``."""
        x, condition = inputs["input"], inputs["condition"]
        check_shape("input", x, "batch", *["space"] * self.data_dim, self.in_channels)
        x = self.in_proj(self.dropout_in(x))
        if self.condition_in_proj is not None:
            condition = self.condition_in_proj(condition)
        for block in self.blocks:
            if self.gradient_checkpointing:
                x = checkpoint(block, x, condition, use_reentrant=False)
            else:
                x = block(x, condition)
        logits = self.readout(x)
        check_shape("logits", logits, "...", self.out_channels)
        return {"logits": logits}

    def readout(self, x: Signal) -> Float[Tensor, "batch *target classes"]:
        """Return the logits of the last positions."""
        return last_positions(self.out_proj(self.out_norm(x)), self.target_size)


class ClassificationResNet(ResidualNetwork):
    """A ``ResidualNetwork`` with logits of the mean over its last positions."""

    def readout(self, x: Signal) -> Float[Tensor, "batch classes"]:
        """Return the logits of the mean over the last positions."""
        x = last_positions(x, self.target_size)
        return self.out_proj(self.out_norm(x.flatten(1, -2).mean(dim=1)))


def lengths(size: int | Sequence[int] | None, data_dim: int) -> tuple[int, ...] | None:
    """Return a length for each of ``data_dim`` axes, or ``None`` for all positions."""
    if size is None:
        return None
    sizes = tuple(size) if isinstance(size, Sequence) else (size,) * data_dim
    if len(sizes) != data_dim:
        raise InvalidInput(f"target_size must have {data_dim} lengths, got {sizes}")
    for length in sizes:
        check_size("target_size", length)
    return sizes


def last_positions(x: Signal, lengths: Sequence[int] | None) -> Tensor:
    """Return the last ``lengths`` positions of ``x``, or all of them for ``None``."""
    for axis, length in enumerate(lengths or (), start=1):
        x = x.narrow(axis, x.shape[axis] - length, length)
    return x
