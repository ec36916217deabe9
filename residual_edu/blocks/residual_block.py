r"""The residual block for signals of any dimension: three pre-norm branches, each of which may be left out.

.. math::
    x \leftarrow x + \mathrm{mixer}(\mathrm{norm}(x)), \qquad
    x \leftarrow x + \mathrm{cross}(\mathrm{norm}(x), c), \qquad
    x \leftarrow x + \mathrm{mlp}(\mathrm{norm}(x))

Xiong et al., 2020, https://arxiv.org/abs/2002.04745
"""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.calls import check_takes
from residual_edu.config import Spec, build
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_floating,
    check_given,
)
from residual_edu.parts.flop_count import Shape, flop_count
from residual_edu.parts.residual import is_bypassed, pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class ResidualBlock(nn.Module):
    """A sequence mixer, a condition mixer and an MLP, each after its own norm; ``nn.Identity`` leaves a branch out.

    A branch that is left out has no parameters and is never run; without any branch the block returns the same tensor
    ``x``. Every norm is exempt from weight decay.

    Args:
        sequence_mixer_cfg: what to build (``config.build``) to mix positions: ``forward(x)``.
        sequence_mixer_norm_cfg: the norm before it; ``nn.Identity`` where the mixer is.
        condition_mixer_cfg: what to build to mix the condition into the stream: ``forward(x, condition)``.
        condition_mixer_norm_cfg: the norm before it; ``nn.Identity`` where the mixer is.
        mlp_cfg: what to build to map each position by itself: ``forward(x)``.
        mlp_norm_cfg: the norm before it; ``nn.Identity`` where the MLP is.
        dropout_cfg: the gate of all three branches: ``Dropout``, ``DropPath`` or ``nn.Identity``.

    Raises:
        InvalidInput: for a norm without its layer, a layer that takes other arguments, a condition that is missing
            while its mixer is there, or a branch whose output has another shape than ``x``.
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
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.input_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.condition_mixer = build(condition_mixer_cfg)
        self.condition_mixer_norm = no_weight_decay(build(condition_mixer_norm_cfg))
        self.mlp = build(mlp_cfg)
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.dropout = build(dropout_cfg)
        check_layers(self)

    def forward(
        self, x: Float[Tensor, "batch *space channels"], condition: Tensor | None
    ) -> Float[Tensor, "batch *space channels"]:
        """Add each branch's output to ``x``; ``condition`` may be anything where the condition mixer is left out."""
        check_inputs(x, condition, self.condition_mixer)
        gates = [self.dropout]
        x = pre_norm_residual(x, self.sequence_mixer, self.input_norm, gates)
        x = pre_norm_residual(
            x, self.condition_mixer, self.condition_mixer_norm, gates, condition
        )
        return pre_norm_residual(x, self.mlp, self.mlp_norm, gates)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost of the norms, the mixers and the MLP for one sample; the three sums are not counted."""
        return sum(flop_count(part, shape, inference) for part in self.children())


def check_layers(block: ResidualBlock) -> None:
    """Raise ``InvalidInput`` unless each layer of ``block`` takes what it will be given, and no norm stands alone."""
    check_layer("sequence_mixer", block.sequence_mixer, block.input_norm, "x")
    check_layer(
        "condition_mixer",
        block.condition_mixer,
        block.condition_mixer_norm,
        "x",
        "condition",
    )
    check_layer("mlp", block.mlp, block.mlp_norm, "x")


def check_inputs(x: Tensor, condition: Tensor | None, mixer: nn.Module) -> None:
    """Raise ``InvalidInput`` unless ``x`` has channels, and the condition is there where its ``mixer`` is."""
    check_axes("x", x, "batch", "channels")
    check_floating("x", x)
    if not is_bypassed(mixer):
        check_given("condition", condition)


def check_layer(name: str, layer: nn.Module, norm: nn.Module, *arguments: str) -> None:
    """Raise ``InvalidInput`` unless ``layer`` can be called with ``arguments``, or is left out and ``norm`` with it."""
    if not is_bypassed(layer):
        check_takes(name, layer, *arguments)
    elif not is_bypassed(norm):
        kind = type(norm).__name__
        raise InvalidInput(
            f"{name}_norm_cfg must be nn.Identity where {name}_cfg is, got {kind}, which would never run"
        )
