r"""The residual block for signals of any dimension: three pre-norm branches, each there or left out.

.. math::
    x \leftarrow x + \mathrm{mixer}(\mathrm{norm}(x)), \qquad
    x \leftarrow x + \mathrm{cross}(\mathrm{norm}(x), c), \qquad
    x \leftarrow x + \mathrm{mlp}(\mathrm{norm}(x))

Xiong et al., 2020, https://arxiv.org/abs/2002.04745
"""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import check_axes, check_floating, check_given, check_norm_left_out, check_takes
from residual_edu.parts.flop_count import Shape, flop_count
from residual_edu.parts.residual import Map, is_bypassed, pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class ResidualBlock(nn.Module):
    """A sequence mixer, a condition mixer and an MLP, each behind its norm; ``nn.Identity`` leaves a branch out.

    A branch that is left out costs nothing: it has no parameters and no forward, and without any branch the block
    returns the very same ``x``. Every norm is spared by weight decay.

    Args:
        sequence_mixer_cfg: what to build (``config.build``) to mix positions: ``forward(x)``.
        sequence_mixer_norm_cfg: the norm before it; ``nn.Identity`` where the mixer is.
        condition_mixer_cfg: what to build to listen to the condition: ``forward(x, condition)``.
        condition_mixer_norm_cfg: the norm before it; ``nn.Identity`` where the mixer is.
        mlp_cfg: what to build to map each position by itself: ``forward(x)``.
        mlp_norm_cfg: the norm before it; ``nn.Identity`` where the MLP is.
        dropout_cfg: what drops from each branch: ``Dropout``, ``DropPath`` or ``nn.Identity``; one for all three.

    Raises:
        InvalidInput: for a norm without its layer, a layer that takes other arguments, a condition that is missing
            while its mixer is there, or a branch of another shape than ``x``.
    """

    def __init__(
        self,
        sequence_mixer_cfg: Spec,
        sequence_mixer_norm_cfg: Spec,
        condition_mixer_cfg: Spec,
        condition_mixer_norm_cfg: Spec,
        mlp_cfg: Spec,
        mlp_norm_cfg: Spec,
        dropout_cfg: Spec,
    ) -> None:
        super().__init__()
        self.sequence_mixer, self.input_norm = build_branch(
            "sequence_mixer", sequence_mixer_cfg, sequence_mixer_norm_cfg, "x"
        )
        self.condition_mixer, self.condition_mixer_norm = build_branch(
            "condition_mixer", condition_mixer_cfg, condition_mixer_norm_cfg, "x", "condition"
        )
        self.mlp, self.mlp_norm = build_branch("mlp", mlp_cfg, mlp_norm_cfg, "x")
        self.dropout = build(dropout_cfg)

    def forward(
        self, x: Float[Tensor, "batch *space channels"], condition: Tensor | None
    ) -> Float[Tensor, "batch *space channels"]:
        """Add what each branch makes of ``x``; ``condition`` is for the condition mixer, else it may be ``None``."""
        check_axes("x", x, "batch", "channels")
        check_floating("x", x)
        gates = [self.dropout]
        x = pre_norm_residual(x, self.sequence_mixer, self.input_norm, gates)
        x = pre_norm_residual(x, self._listening_to(condition), self.condition_mixer_norm, gates)
        return pre_norm_residual(x, self.mlp, self.mlp_norm, gates)

    def _listening_to(self, condition: Tensor | None) -> Map:
        """Return the condition mixer with its second argument filled in."""
        if is_bypassed(self.condition_mixer):
            return self.condition_mixer
        condition = check_given("condition", condition)
        return lambda x: self.condition_mixer(x, condition)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Count what the norms, the mixers and the MLP say."""
        return sum(flop_count(part, shape, inference) for part in self.children())


def build_branch(name: str, layer_cfg: Spec, norm_cfg: Spec, *arguments: str) -> tuple[nn.Module, nn.Module]:
    """Build a layer that takes ``arguments``, and its norm, which weight decay spares and which goes where it goes."""
    layer, norm = build(layer_cfg), no_weight_decay(build(norm_cfg))
    if is_bypassed(layer):
        check_norm_left_out(f"{name}_cfg", f"{name}_norm_cfg", norm, is_bypassed(norm))
    else:
        check_takes(name, layer, *arguments)
    return layer, norm
