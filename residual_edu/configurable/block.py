r"""A block that is assembled from names.

.. math::
    \text{pre-norm:}  \quad x \leftarrow x + \mathrm{attention}(\mathrm{norm}(x)), \quad
                            x \leftarrow x + \mathrm{ffn}(\mathrm{norm}(x)) \\
    \text{post-norm:} \quad x \leftarrow \mathrm{norm}(x + \mathrm{attention}(x)), \quad
                            x \leftarrow \mathrm{norm}(x + \mathrm{ffn}(x))
"""

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from residual_edu.checked import checked
from residual_edu.configurable.cache import Cache, extend
from residual_edu.configurable.config import GivenConfig
from residual_edu.configurable.position import PositionBase, check_position
from residual_edu.configurable.registry import (
    attention_registry,
    ffn_registry,
    norm_registry,
    position_registry,
)
from residual_edu.configurable.validation import check_call
from residual_edu.parts.dropout import Dropout
from residual_edu.parts.residual import (
    is_bypassed,
    post_norm_residual,
    pre_norm_residual,
)


class ConfigurableBlock(nn.Module):
    """Attention and a feed-forward network, each looked up by its name and built from the config.

    ``none`` leaves a branch out, and its norm with it.

    Args:
        config: which classes to look up, and the numbers that they read.

    Raises:
        InvalidInput: for an input, a mask or a cache that does not fit, or more than ``max_seq_len`` positions.
    """

    @checked
    def __init__(self, config: GivenConfig) -> None:
        super().__init__()
        self.config = config
        self.attention = attention_registry.get(config.attention)(config)
        self.ffn = ffn_registry.get(config.ffn)(config)
        self.attn_norm = self._norm_of(self.attention)
        self.ffn_norm = self._norm_of(self.ffn)
        self.resid_dropout = Dropout(config.dropout)
        shared = getattr(
            self.attention, "position", None
        )  # an attention that a learner writes may have none
        self.position: PositionBase = shared or position_registry.get(config.position)(
            config
        )
        check_position(config.position, self.position)

    def forward(
        self,
        x: Float[Tensor, "batch positions channels"],
        mask: Shaped[Tensor, "*#batch positions keys"] | None = None,
        cache: Cache | None = None,
    ) -> tuple[Float[Tensor, "batch positions channels"], Cache]:
        """Return ``x`` with both branches added, and the cache, longer by the positions of ``x``.

        ``mask`` is True where a query may attend to a key, or holds numbers that are added to the scores. It is
        (positions, keys), or (batch, positions, keys), or (batch, heads, positions, keys). The queries are the
        positions of ``x``; the keys are those of ``cache``, then those of ``x``.
        """
        check_call(
            x,
            mask,
            cache,
            self.config.d_model,
            self.config.n_heads,
            limit=self.config.max_seq_len,
        )
        residual = pre_norm_residual if self.config.pre_norm else post_norm_residual
        gates = [self.resid_dropout] if self.training else []

        def attention(h: Tensor) -> Tensor:
            nonlocal cache  # a residual takes a map from tensor to tensor, and an attention returns its cache as well
            h, cache = self.attention(h, mask=mask, cache=cache)
            return h

        if is_bypassed(self.attention):
            cache = extend(
                cache, x[..., :0], x[..., :0]
            )  # no features: it only counts positions
        else:
            x = residual(x, attention, self.attn_norm, gates)
        x = residual(x, self.ffn, self.ffn_norm, gates)
        return x, cache  # type: ignore[return-value]  # both branches set it

    def _norm_of(self, branch: nn.Module) -> nn.Module:
        """Return the norm of a branch, which is left out with it."""
        return (
            nn.Identity()
            if is_bypassed(branch)
            else norm_registry.get(self.config.norm)(self.config)
        )
