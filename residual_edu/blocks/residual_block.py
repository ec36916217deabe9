r"""The residual block for signals of any dimension: up to three pre-norm branches.

.. math::
    x \leftarrow x + \mathrm{mixer}(\mathrm{norm}(x)), \qquad
    x \leftarrow x + \mathrm{cross}(\mathrm{norm}(x), c), \qquad
    x \leftarrow x + \mathrm{mlp}(\mathrm{norm}(x))

Xiong et al., 2020, https://arxiv.org/abs/2002.04745
"""

from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import InvalidInput
from residual_edu.mixers import Attention, QKVSequenceMixer
from residual_edu.mixers.film import check_no_film
from residual_edu.parts.dropout import Dropout
from residual_edu.parts.flop_count import Shape, flop_count
from residual_edu.parts.layer_norm import LayerNorm
from residual_edu.parts.mlp import MLP
from residual_edu.parts.residual import is_bypassed, pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class ResidualBlock(nn.Module):
    """A sequence mixer, a condition mixer and an MLP, each after its own norm.

    ``nn.Identity`` leaves a branch out: it has no parameters and is never run. Branches
    that are not given are left out; without any the block returns the same ``x``.

    Args:
        sequence_mixer_cfg: mixes positions, ``forward(x)``.
        sequence_mixer_norm_cfg: the norm before it, left out with it.
        condition_mixer_cfg: mixes the condition in, ``forward(x, condition)``.
        condition_mixer_norm_cfg: the norm before it, left out as above.
        mlp_cfg: maps each position by itself, ``forward(x)``.
        mlp_norm_cfg: the norm before it, left out as above.
        dropout_cfg: the gate of all three branches: ``Dropout``, ``DropPath``, ...
    """

    def __init__(
        self,
        sequence_mixer_cfg: Spec,
        sequence_mixer_norm_cfg: Spec,
        condition_mixer_cfg: Spec = nn.Identity,
        condition_mixer_norm_cfg: Spec = nn.Identity,
        mlp_cfg: Spec = nn.Identity,
        mlp_norm_cfg: Spec = nn.Identity,
        dropout_cfg: Spec = nn.Identity,
    ) -> None:
        super().__init__()
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.input_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.condition_mixer = build(condition_mixer_cfg)
        self.condition_mixer_norm = no_weight_decay(build(condition_mixer_norm_cfg))
        self.mlp = build(mlp_cfg)
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.dropout = build(dropout_cfg)
        check_pair("sequence_mixer", self.sequence_mixer, self.input_norm)
        check_pair("condition_mixer", self.condition_mixer, self.condition_mixer_norm)
        check_pair("mlp", self.mlp, self.mlp_norm)

    @classmethod
    def standard(
        cls, dim: int, heads: int, *, dropout: float = 0.0, causal: bool = False
    ) -> "ResidualBlock":
        """Return attention and an MLP with 4 * dim hidden features; no condition."""
        attention = partial(Attention, dim, heads, is_causal=causal)
        mixer = partial(QKVSequenceMixer, dim, attention, True, True)  # with biases
        mlp = partial(MLP, dim, "gelu", nn.Identity, expansion_factor=4.0, bias=True)
        norm, off = partial(LayerNorm, dim), nn.Identity
        return cls(mixer, norm, off, off, mlp, norm, partial(Dropout, dropout))

    def forward(
        self, x: Float[Tensor, "batch *space channels"], condition: Tensor | None = None
    ) -> Float[Tensor, "batch *space channels"]:
        """Add each branch to ``x``; only the condition mixer reads ``condition``."""
        if condition is None and not is_bypassed(self.condition_mixer):
            raise InvalidInput("condition must be given, got None")
        mixer, cross, gates = self.sequence_mixer, self.condition_mixer, [self.dropout]
        x = pre_norm_residual(x, mixer, self.input_norm, gates)
        x = pre_norm_residual(x, cross, self.condition_mixer_norm, gates, condition)
        return pre_norm_residual(x, self.mlp, self.mlp_norm, gates)

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost of all parts for one sample; the sums are not counted."""
        return sum(flop_count(part, shape, inference) for part in self.children())


def check_pair(name: str, layer: nn.Module, norm: nn.Module) -> None:
    """Raise ``InvalidInput`` for what would never run: a norm alone, or FiLM."""
    check_no_film(f"{name}_cfg", layer)
    if is_bypassed(layer) and not is_bypassed(norm):
        wanted = f"{name}_norm_cfg must be nn.Identity where {name}_cfg is"
        raise InvalidInput(f"{wanted}, got {type(norm).__name__}")
