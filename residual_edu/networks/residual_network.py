r"""Networks of residual blocks: a projection in, a stack of blocks, a norm, a projection out.

.. math::
    x_0 = W_{\mathrm{in}}\, \mathrm{input}, \qquad x_{l+1} = \mathrm{block}_l(x_l, c), \qquad
    \mathrm{logits} = W_{\mathrm{out}}\, \mathrm{norm}(x_L)

Checkpointing: Chen, Xu, Zhang & Guestrin, 2016, https://arxiv.org/abs/1604.06174
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from residual_edu.checked import DataDim, Flag, Size, Sizes, checked
from residual_edu.config import Spec, build
from residual_edu.networks.stack import build_blocks, build_with, check_stack
from residual_edu.old_errors import (
    InvalidInput,
    check_fits,
    check_one_per_axis,
    check_signal,
    check_width,
    shown,
)
from residual_edu.parts.weight_decay import no_weight_decay


class ResidualNetwork(nn.Module):
    """A stack of blocks between a projection in and a projection out: logits for each position.

    Args:
        in_channels: number of channels of the input, at least 1.
        out_channels: number of channels of the logits, at least 1.
        num_blocks: number of blocks, at least 1.
        hidden_dim: number of channels of the stream, at least 1.
        data_dim: number of space axes, 1 to 3.
        in_proj_cfg: the projection in, built with ``in_features`` and ``out_features``: ``nn.Linear``, ``Patchify``.
        out_proj_cfg: the projection out, built likewise: ``nn.Linear``, ``Unpatchify``.
        norm_cfg: the norm before ``out_proj``, exempt from weight decay.
        block_cfg: what builds each block, ``forward(x, condition)``; a built block is refused, since the whole stack
            would be that one.
        dropout_in_cfg: the dropout of the input.
        condition_in_proj_cfg: the projection of the condition, built with ``in_features`` and ``out_features``, both
            ``hidden_dim``; without it the blocks get the condition unchanged.
        target_size: how many positions at the end of each axis to return, one number or one for each axis; ``None``
            returns all.
        gradient_checkpointing: True stores only the stream between blocks and runs each block again in the backward
            pass: less memory, more time, the same numbers.

    Raises:
        InvalidInput: for a size out of range, blocks that share parameters, an input or a condition that is missing or
            of another shape, or a target larger than the output.
    """

    @checked
    def __init__(
        self,
        in_channels: Size,
        out_channels: Size,
        num_blocks: Size,
        hidden_dim: Size,
        data_dim: DataDim,
        in_proj_cfg: Spec,
        out_proj_cfg: Spec,
        norm_cfg: Spec,
        block_cfg: Spec,
        dropout_in_cfg: Spec,
        condition_in_proj_cfg: Spec | None = None,
        target_size: Sizes | None = None,
        gradient_checkpointing: Flag = False,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.num_blocks = (
            in_channels,
            out_channels,
            num_blocks,
        )
        self.hidden_dim, self.data_dim, self.gradient_checkpointing = (
            hidden_dim,
            data_dim,
            gradient_checkpointing,
        )
        self.target_size = target_lengths(target_size, data_dim)
        self.dropout_in = build(dropout_in_cfg)
        self.in_proj = build_projection(
            "in_proj_cfg", in_proj_cfg, in_channels, hidden_dim
        )
        self.condition_in_proj: nn.Module | None = None
        if condition_in_proj_cfg is not None:
            name = "condition_in_proj_cfg"
            self.condition_in_proj = build_projection(
                name, condition_in_proj_cfg, hidden_dim, hidden_dim
            )
        self.blocks = build_blocks("block_cfg", block_cfg, [{}] * num_blocks)
        check_stack(
            "block_cfg",
            self.blocks,
            "x",
            "condition",
            checkpointing=gradient_checkpointing,
        )
        self.out_norm = no_weight_decay(build(norm_cfg))
        self.out_proj = build_projection(
            "out_proj_cfg", out_proj_cfg, hidden_dim, out_channels
        )

    def forward(self, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return ``{"logits": ...}`` for ``{"input": (batch, *space, in_channels), "condition": a tensor or None}``."""
        check_inputs(inputs)
        x, condition = (
            self._embedded(inputs["input"]),
            self._projected(inputs["condition"]),
        )
        for block in self.blocks:
            run = (
                partial(checkpoint, block, use_reentrant=False)
                if self.gradient_checkpointing
                else block
            )
            x = run(x, condition)
        logits = self.readout(x)
        check_width("logits", logits, self.out_channels)
        return {"logits": logits}

    def _embedded(
        self, x: Float[Tensor, "batch *space in_channels"]
    ) -> Float[Tensor, "batch *grid channels"]:
        """Return the input, projected to the stream's channels."""
        check_signal("input", x, self.in_channels, self.data_dim, self.in_proj)
        x = self.in_proj(self.dropout_in(x))
        check_signal("in_proj(input)", x, self.hidden_dim, self.data_dim)
        return x

    def _projected(self, condition: Tensor | None) -> Tensor | None:
        """Return the condition that the blocks get."""
        if self.condition_in_proj is None:
            return condition
        if condition is None:
            raise InvalidInput(
                "condition must be given for condition_in_proj, got None"
            )
        check_width("condition", condition, self.hidden_dim, self.condition_in_proj)
        return self.condition_in_proj(condition)

    def readout(
        self, x: Float[Tensor, "batch *space channels"]
    ) -> Float[Tensor, "batch *target classes"]:
        """Return the logits of the last positions."""
        return last_positions(self.out_proj(self.out_norm(x)), self.target_size)


class ClassificationResNet(ResidualNetwork):
    """A ``ResidualNetwork`` that returns logits for each sample: the mean over its positions goes into the norm.

    It takes the same arguments; the mean is over the last ``target_size`` positions of the stream along each axis.
    """

    def readout(
        self, x: Float[Tensor, "batch *space channels"]
    ) -> Float[Tensor, "batch classes"]:
        """Return the logits of the mean over the last positions."""
        x = last_positions(x, self.target_size)
        return self.out_proj(self.out_norm(x.flatten(1, -2).mean(dim=1)))


def build_projection(
    name: str, spec: Spec, in_features: int, out_features: int
) -> nn.Module:
    """Build ``spec`` with ``in_features`` and ``out_features``; a built module is returned as it is."""
    return build_with(name, spec, in_features=in_features, out_features=out_features)


def target_lengths(
    target_size: int | Sequence[int] | None, data_dim: int
) -> tuple[int, ...] | None:
    """Return one length for each of ``data_dim`` axes, or ``None`` for all positions; a number serves every axis."""
    if target_size is None:
        return None
    lengths = (
        tuple(target_size)
        if isinstance(target_size, Sequence)
        else (target_size,) * data_dim
    )
    check_one_per_axis("target_size", lengths, data_dim)
    return lengths


def last_positions(
    x: Float[Tensor, "batch *space channels"], lengths: Sequence[int] | None
) -> Float[Tensor, "batch *target channels"]:
    """Return the last ``lengths`` positions of ``x`` along its space axes, or ``x`` itself for ``None``."""
    if lengths is None:
        return x
    check_fits("target_size", lengths, x.shape[1:-1])
    for axis, length in enumerate(lengths, start=1):
        x = x.narrow(axis, x.shape[axis] - length, length)
    return x


def check_inputs(inputs: object) -> None:
    """Raise ``InvalidInput`` unless ``inputs`` is a mapping with exactly the keys that ``forward`` reads."""
    if not isinstance(inputs, Mapping) or set(inputs) != {"input", "condition"}:
        keys = (
            ", ".join(map(repr, inputs)) or "none"
            if isinstance(inputs, Mapping)
            else shown(inputs)
        )
        raise InvalidInput(
            f"inputs must have the keys 'input', 'condition', got {keys}"
        )
