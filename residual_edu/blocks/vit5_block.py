r"""The block of ViT-5: attention or a long convolution, then an MLP, each with RMSNorm, LayerScale and DropPath.

.. math::
    x \leftarrow x + \mathrm{drop}(\gamma_1 \cdot \mathrm{grn}(\mathrm{mixer}(\mathrm{norm}(x), c))), \qquad
    x \leftarrow x + \mathrm{drop}(\gamma_2 \cdot \mathrm{mlp}(\mathrm{norm}(x)))

The condition c, if there is one, is pooled from the registers of norm(x). No norm after the mixer is needed to start
near the identity, since both gammas start small.

Wang et al., 2026, https://arxiv.org/abs/2602.08071
"""

from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.calls import check_conditionable
from residual_edu.checked import Count, NotNegative, Rate, Size, checked
from residual_edu.config import Spec, build
from residual_edu.old_errors import InvalidInput, check_shape
from residual_edu.parts.drop_path import DropPath
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.layer_scale import LayerScale
from residual_edu.parts.residual import Map, is_bypassed, pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class ViT5ResidualBlock(nn.Module):
    """A sequence mixer and an MLP, each with a norm before it, then a gate for each channel and stochastic depth.

    The tokens are ordered [patches, CLS, registers, padding]. Where registers are pooled, the mixer receives the pooled
    vector as ``conditioning=``, (batch, channels); attention ignores it.

    Args:
        sequence_mixer_cfg: what to build (``config.build``) to mix the tokens, with its own projections;
            ``nn.Identity`` leaves the branch out.
        sequence_mixer_norm_cfg: the norm before it.
        mlp_cfg: what to build to map each token by itself; ``nn.Identity`` leaves the branch out.
        mlp_norm_cfg: the norm before it.
        hidden_dim: number of channels, at least 1.
        layer_scale_init: starting value of both gates, at least 0; 0 leaves LayerScale out.
        drop_path_rate: rate in [0, 1) at which samples lose a branch in training, drawn anew for each branch.
        register_pooling_cfg: what to build to turn (batch, registers, channels) into (batch, channels), or ``None``.
        num_registers: number of registers, at least 0; with 0 nothing is pooled.
        register_start_idx: number of tokens before the registers: all patches, and the CLS token if there is one.
        grn_cfg: what to build to let the mixer's channels compete before its gate, ``GlobalResponseNorm``, or ``None``.

    Raises:
        InvalidInput: for a number out of range, a mixer that takes no ``conditioning=`` where registers are pooled, an
            input of another shape, or one that ends before its registers do.
    """

    @checked
    def __init__(
        self,
        sequence_mixer_cfg: Spec,
        sequence_mixer_norm_cfg: Spec,
        mlp_cfg: Spec,
        mlp_norm_cfg: Spec,
        hidden_dim: Size,
        layer_scale_init: NotNegative = 1e-4,
        drop_path_rate: Rate = 0.0,
        register_pooling_cfg: Spec | None = None,
        num_registers: Count = 0,
        register_start_idx: Count = 1,
        grn_cfg: Spec | None = None,
    ) -> None:
        super().__init__()
        self.hidden_dim, self.num_registers, self.register_start_idx = (
            hidden_dim,
            num_registers,
            register_start_idx,
        )
        self.input_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.mlp = build(mlp_cfg)
        self.ls_attn = (
            LayerScale(hidden_dim, layer_scale_init)
            if layer_scale_init
            else nn.Identity()
        )
        self.ls_mlp = (
            LayerScale(hidden_dim, layer_scale_init)
            if layer_scale_init
            else nn.Identity()
        )
        self.drop_path = DropPath(drop_path_rate) if drop_path_rate else nn.Identity()
        self.grn = None if grn_cfg is None else build(grn_cfg)
        self.register_pooling = None
        if (
            register_pooling_cfg is not None
            and num_registers
            and not is_bypassed(self.sequence_mixer)
        ):
            check_conditionable("sequence_mixer", self.sequence_mixer)
            self.register_pooling = build(register_pooling_cfg)

    def forward(
        self, x: Float[Tensor, "batch tokens channels"], condition: Tensor | None = None
    ) -> Float[Tensor, "batch tokens channels"]:
        """Add both branches' outputs to ``x``; ``condition`` is never read: it is here so that all blocks take one."""
        check_shape("x", x, "batch", "tokens", self.hidden_dim)
        mixer: Map = self.sequence_mixer
        pooling, drop = self.register_pooling, self.drop_path
        if pooling is not None:
            mixer = partial(self._mix_with_registers, pooling)
        competing = [] if self.grn is None else [self.grn]
        x = pre_norm_residual(
            x, mixer, self.input_norm, [*competing, self.ls_attn, drop]
        )
        return pre_norm_residual(x, self.mlp, self.mlp_norm, [self.ls_mlp, drop])

    def _mix_with_registers(
        self, pooling: Map, tokens: Float[Tensor, "batch tokens channels"]
    ) -> Tensor:
        """Run the mixer on the normed ``tokens``, conditioned on the registers among them."""
        start, end = (
            self.register_start_idx,
            self.register_start_idx + self.num_registers,
        )
        if (
            end > tokens.shape[1]
        ):  # a slice past the end would be shorter, and its pooled values NaN
            raise InvalidInput(
                f"registers {start} to {end - 1} must lie inside the sequence, got {tokens.shape[1]} tokens; "
                "register_start_idx is how many tokens stand before them"
            )
        registers = tokens[:, start:end]  # (batch, registers, channels)
        return self.sequence_mixer(tokens, conditioning=pooling(registers))

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample of ``num_tokens``, registers and padding included; the two sums are not.

        A module without ``flop_count`` counts 0, and so does a branch that is left out.
        """
        mixing = [self.input_norm, self.sequence_mixer, self.grn, self.ls_attn]
        mapping = [self.mlp_norm, self.mlp, self.ls_mlp]
        parts = ([] if is_bypassed(self.sequence_mixer) else mixing) + (
            [] if is_bypassed(self.mlp) else mapping
        )
        pooling = (
            0
            if self.register_pooling is None
            else flop_count(self.register_pooling, self.hidden_dim)
        )
        return pooling + sum(
            flop_count(part, num_tokens, inference)
            for part in parts
            if part is not None
        )
