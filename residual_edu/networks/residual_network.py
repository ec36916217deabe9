r"""Networks of residual blocks: a way in, a stack, a norm, a way out.

.. math::
    x_0 = W_{\mathrm{in}}\, \mathrm{input}, \qquad x_{l+1} = \mathrm{block}_l(x_l, c), \qquad
    \mathrm{logits} = W_{\mathrm{out}}\, \mathrm{norm}(x_L)

Checkpointing: Chen, Xu, Zhang & Guestrin, 2016, https://arxiv.org/abs/1604.06174
"""

from collections.abc import Mapping, Sequence
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from residual_edu.config import Spec, build, described
from residual_edu.errors import (
    check_agreement,
    check_data_dim,
    check_factory,
    check_fits,
    check_given,
    check_keys,
    check_keywords,
    check_lengths,
    check_shape,
    check_sizes,
    check_stack,
    check_width,
)
from residual_edu.parts.weight_decay import no_weight_decay


class ResidualNetwork(nn.Module):
    """A stack of blocks between a projection in and a projection out: one answer for each position.

    Args:
        in_channels: number of channels of the input, at least 1.
        out_channels: number of channels of the logits, at least 1.
        num_blocks: number of blocks, at least 1.
        hidden_dim: number of channels of the stream, at least 1.
        data_dim: number of space axes, 1 to 3.
        in_proj_cfg: what to build with ``in_features`` and ``out_features``: ``nn.Linear``, ``Patchify``, ...
        out_proj_cfg: the same for the way out: ``nn.Linear``, ``Unpatchify``, ...
        norm_cfg: the norm before ``out_proj``; weight decay spares it.
        block_cfg: what to build each block from: ``forward(x, condition)``. Not a built block, which all would be.
        dropout_in_cfg: what drops from the input.
        condition_in_proj_cfg: what to build with ``in_features`` and ``out_features``, both ``hidden_dim``, for the
            condition; without it the blocks get the condition as it comes.
        target_size: how many positions at the end of each axis to answer for, one number or one an axis; or all.
        gradient_checkpointing: whether to keep only the stream between blocks, and run each block again in the
            backward pass: less memory, more time, the same numbers.

    Raises:
        InvalidInput: for a size out of range, blocks that share weights, an input or a condition that is missing or of
            another shape, or a target larger than the output.
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
        check_data_dim("data_dim", data_dim)
        check_sizes(in_channels=in_channels, out_channels=out_channels, num_blocks=num_blocks, hidden_dim=hidden_dim)
        check_factory("block_cfg", block_cfg)
        self.in_channels, self.out_channels, self.num_blocks = in_channels, out_channels, num_blocks
        self.hidden_dim, self.data_dim, self.gradient_checkpointing = hidden_dim, data_dim, gradient_checkpointing
        self.target_size = None if target_size is None else check_lengths("target_size", target_size, data_dim)
        self.dropout_in = build(dropout_in_cfg)
        self.in_proj = build_projection("in_proj_cfg", in_proj_cfg, in_channels, hidden_dim)
        self.condition_in_proj: nn.Module | None = None
        if condition_in_proj_cfg is not None:
            name = "condition_in_proj_cfg"
            self.condition_in_proj = build_projection(name, condition_in_proj_cfg, hidden_dim, hidden_dim)
        self.blocks = nn.ModuleList(build(block_cfg) for _ in range(num_blocks))
        check_stack("block_cfg", self.blocks, gradient_checkpointing)
        self.out_norm = no_weight_decay(build(norm_cfg))
        self.out_proj = build_projection("out_proj_cfg", out_proj_cfg, hidden_dim, out_channels)

    def forward(self, inputs: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
        """Return ``{"logits": ...}`` for ``{"input": (batch, *space, in_channels), "condition": ... or None}``."""
        check_keys("inputs", inputs, ["input", "condition"])
        x, condition = self._stream(inputs["input"]), self._projected(inputs["condition"])
        for block in self.blocks:
            run = partial(checkpoint, block, use_reentrant=False) if self.gradient_checkpointing else block
            x = run(x, condition)
        logits = self.readout(x)
        check_width("logits", logits, self.out_channels)
        return {"logits": logits}

    def _stream(self, x: Tensor | None) -> Float[Tensor, "batch *space channels"]:
        """Return the input in the stream's channels."""
        x = check_given("input", x)
        check_shape("input", x, self.data_dim, self.in_channels)
        x = self.in_proj(self.dropout_in(x))
        check_shape("in_proj(input)", x, self.data_dim, self.hidden_dim)
        return x

    def _projected(self, condition: Tensor | None) -> Tensor | None:
        """Return what the blocks shall get as condition."""
        if self.condition_in_proj is None:
            return condition
        condition = check_given("condition", condition)
        check_width("condition", condition, self.hidden_dim)
        return self.condition_in_proj(condition)

    def readout(self, x: Float[Tensor, "batch *space channels"]) -> Float[Tensor, "batch *target classes"]:
        """Return the logits of the last positions."""
        return last_positions(self.out_proj(self.out_norm(x)), self.target_size)


class ClassificationResNet(ResidualNetwork):
    """A ``ResidualNetwork`` with one answer for each sample: its positions are averaged before the norm.

    Takes the same arguments; of the stream's positions, the mean takes the last ``target_size`` along each axis.
    """

    def readout(self, x: Float[Tensor, "batch *space channels"]) -> Float[Tensor, "batch classes"]:
        """Return the logits of the mean over the last positions."""
        x = last_positions(x, self.target_size)
        return self.out_proj(self.out_norm(x.flatten(1, -2).mean(dim=1)))


def build_projection(name: str, spec: Spec, in_features: int, out_features: int) -> nn.Module:
    """Build ``spec`` with ``in_features`` and ``out_features``; a built module stays as it is."""
    if isinstance(spec, nn.Module):
        return spec
    sizes = {"in_features": in_features, "out_features": out_features}
    check_agreement(name, spec, sizes)
    call = described(spec) if isinstance(spec, Mapping) else spec
    check_keywords(call, sizes)
    return build(partial(call, **sizes))


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
